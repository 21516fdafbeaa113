/* SPDX-License-Identifier: Apache-2.0
 *
 * Scratch memory: what one worker owns to make samples. Buffers that only grow, decoders, what resizes, warps
 * and applies color steps: steady work allocates nothing. And the sums that say how large it gets: the
 * planner and the gate use the same one.
 */
#ifndef STOKE_SRC_LOADER_SCRATCH_H
#define STOKE_SRC_LOADER_SCRATCH_H

#include "src/base/mem.h"
#include "src/loader/batch_times.h"
#include "src/loader/loader_config.h"
#include "src/pix/color.h"
#include "src/pix/warp.h"

enum { STK_ROW_STAGES = STOKE_STAGE_WRITE + 1 };

/* What a scratch memory holds, in parts that grow apart from each other. Buffers only grow, and the largest
 * image need not come with the largest mask: over several samples a scratch memory holds the sum of the
 * largest parts, which is more than the largest sum. */
typedef enum stk_scratch_part {
    STK_ROW_PART_IMAGE_FILE, /* the bytes, and what a decoder makes of them before it decodes */
    STK_ROW_PART_MASK_FILE,
    STK_ROW_PART_IMAGE,         /* pixels as decoded */
    STK_ROW_PART_IMAGE_TURNED,  /* and upright */
    STK_ROW_PART_IMAGE_SCRATCH, /* the decoder's own */
    STK_ROW_PART_MASK,
    STK_ROW_PART_MASK_TURNED,
    STK_ROW_PART_MASK_SCRATCH,
    STK_ROW_PART_LABELLED,
    STK_ROW_PART_FITTED,
    STK_ROW_PART_ACROSS, /* what resizes, by the source's width and by its height */
    STK_ROW_PART_DOWN,
    STK_ROW_PART_SWAPPED,
    STK_ROW_PART_ZEROS,
    STK_ROW_PART_LAID, /* from the fitted picture to the batch: depends on the output and the depth only */
    STK_ROW_PART_KEPT_IMAGE,
    STK_ROW_PART_KEPT_IDS,
    STK_ROW_PARTS
} stk_scratch_part;

typedef struct stk_scratch_bytes {
    uint64_t part[STK_ROW_PARTS];
} stk_scratch_bytes;

/* Every part of *most at least that of `of`. */
void stk_row_need_raise(stk_scratch_bytes *most, const stk_scratch_bytes *of);
uint64_t stk_row_need_sum(const stk_scratch_bytes *need);

typedef struct stk_scratch {
    stk_mem_buffer image_file, mask_file; /* bytes as read */
    stk_mem_buffer fitted, labelled, mask_fitted, zeros, histogram;
    stk_mem_buffer counts;  /* of the pixels of every class, for a focus */
    stk_mem_buffer swapped; /* ids with left and right exchanged */
    stk_mem_buffer lines;   /* one line of the output; all of them where a warp is looked at twice */
    stk_mem_buffer mix;     /* one row of a batch, while its rows are mixed */
    stk_cache_scratch cache;
    stoke_decoder *image_decoder, *mask_decoder;
    stk_pix_resizer *resizer;
    stk_pix_warper warper;
    stk_color_pass *color_pass;
    stoke_stage_time times[STK_ROW_STAGES]; /* of the last sample */
    uint64_t bytes_read;
    int cache_hit, cache_from_ram, cache_stored; /* of the last sample, with a cache */
    stk_scratch_bytes granted;                   /* what this scratch memory may hold; see memory_gate.h */
    stk_scratch_bytes allowed;                   /* while it has the turn: what it may hold then */
    int has_turn;
    stk_batch_spans spans; /* who wants to know when stages ran */
    uint32_t number;       /* of the worker */
    int64_t batch;         /* that its row belongs to */
} stk_scratch;

int stk_scratch_create(stk_scratch *scratch, stoke_error *err);
void stk_scratch_destroy(stk_scratch *scratch);
/* Gives back what samples made it hold; it goes on as a new one would. */
void stk_scratch_empty(stk_scratch *scratch);
uint64_t stk_scratch_memory(const stk_scratch *scratch);

/* What a scratch memory holds for such a pair (mask NULL = none). */
stk_scratch_bytes stk_scratch_need(const stk_loader_config *config, const stoke_image_info *image,
                                   uint64_t image_bytes, const stoke_image_info *mask, uint64_t mask_bytes);
/* And for two files that turn out to be no pictures. */
stk_scratch_bytes stk_scratch_need_files(uint64_t image_bytes, uint64_t mask_bytes);

/* Room for an image of that size, rows packed, in a buffer of the scratch memory. */
int stk_scratch_image(stk_mem_buffer *buffer, uint32_t width, uint32_t height, uint8_t channels,
                      uint8_t depth, stoke_image *image, stoke_error *err);

#endif
