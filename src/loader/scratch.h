/* SPDX-License-Identifier: Apache-2.0
 *
 * Scratch memory: what one worker owns to make samples. Buffers that only grow, decoders, what resizes, warps
 * and applies color steps: steady work allocates nothing. And the sums that say how large it gets: the
 * planner and the gate use the same one.
 */
#ifndef STOKE_SRC_LOADER_SCRATCH_H
#define STOKE_SRC_LOADER_SCRATCH_H

#include <pthread.h>
#include <stoke/augment.h>
#include <stoke/labels.h>
#include <stoke/loader.h>

#include "src/base/mem.h"
#include "src/cache/cache.h"
#include "src/loader/batch_times.h"
#include "src/pix/color.h"
#include "src/pix/pix.h"
#include "src/pix/warp.h"

/* What every sample of a run has in common. Made once from the settings, immutable while workers run. */

typedef struct stk_loader_config stk_loader_config;
struct stk_loader_config {
    const stoke_dataset *dataset;
    stoke_pipeline *pipeline;
    stoke_labels *labels;
    stk_pix_window window;
    stk_pix_writer writer;
    stoke_decode_params image_decode, mask_decode; /* region, target and sizes are set per sample */
    stoke_orientation orientation; /* as asked for: of auto, every sample makes ignore or apply */
    stoke_orientation alone;       /* of an image without a mask, then */
    stoke_dtype mask_dtype;
    uint32_t width, height;
    uint32_t mask_fill; /* of uncovered pixels: ignore_index, or 0 without one */
    uint64_t seed;
    int32_t ignore;       /* ignore_index, or -1 */
    const uint16_t *swap; /* class id -> its mirror image, for every value of an id; NULL: nothing to swap */
    /* What plans of this pipeline may ask for. */
    int crops;   /* a part of the source: what is decoded depends on the draw */
    int focuses; /* a part found by a look at the mask */
    int warps, elastic, color_steps;
    int mixes;        /* rows of a batch, mixed with each other */
    int two_masks;    /* and by MixUp: a batch has masks_b and lambda */
    int plain;        /* nothing: the fitted picture is the batch's */
    int raw;          /* rows are left to a device: fitted pictures and their plans (raw.h) */
    int keeps;        /* the settings ask for a cache */
    stk_cache *cache; /* cache_lookup.c; NULL = none, or not opened yet */
    uint64_t cache_ram;
    char transform[256]; /* the part of a cache key that all samples have in common */
    /* Task restore: what a sample's target has in common with all others. It is made as an image is, by a
     * config of its own that differs in size and borrows everything else; NULL: there are masks. */
    stk_loader_config *target;
    uint32_t scale;  /* of targets */
    uint32_t finer;  /* in a target's config: the same; 0 in an image's */
    int colors_both; /* color steps are the target's, too */
};

int stk_loader_config_create(stk_loader_config *config, const stoke_dataset *dataset,
                             const stoke_data_params *params, stoke_error *err);
void stk_loader_config_destroy(stk_loader_config *config);
/* Which way up an image with such a mask (NULL: none) is decoded: ignore or apply. */
stoke_orientation stk_loader_config_orientation(const stk_loader_config *config,
                                                const stoke_image_info *image, const stoke_image_info *mask);
/* The header of a sample's image, and its size as it would be decoded. The file's bytes are left in `buffer`
 * or lost. */
int stk_loader_config_size(const stk_loader_config *config, stoke_decoder *decoder, stk_mem_buffer *buffer,
                           const stoke_sample *sample, stoke_image_info *info, uint32_t *width,
                           uint32_t *height, stoke_error *err);
/* An empty batch with all sizes and types set. */
stoke_batch stk_batch_shape(const stk_loader_config *config, uint32_t capacity);

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

enum { STK_SCRATCH_BUFFERS = 11 };

typedef struct stk_scratch {
    union {
        struct {
            stk_mem_buffer image_file, mask_file; /* bytes as read */
            stk_mem_buffer fitted, labelled, mask_fitted, zeros, histogram;
            stk_mem_buffer counts;  /* of the pixels of every class, for a focus */
            stk_mem_buffer swapped; /* ids with left and right exchanged */
            stk_mem_buffer lines;   /* one line of the output; all of them where a warp is looked at twice */
            stk_mem_buffer mix;     /* one row of a batch, while its rows are mixed */
        };
        stk_mem_buffer buffer[STK_SCRATCH_BUFFERS]; /* for those who treat all alike */
    };
    stk_cache_scratch cache;
    stoke_decoder *image_decoder, *mask_decoder;
    stk_pix_resizer *resizer;
    stk_pix_warper warper;
    stk_color_pass *color_pass;
    stoke_stage_time times[STK_ROW_STAGES]; /* of the last sample */
    uint64_t bytes_read;
    int cache_hit, cache_from_ram, cache_stored; /* of the last sample, with a cache */
    stk_scratch_bytes granted;                   /* what this scratch memory may hold; see stk_memory_gate */
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

/* The memory gate: what keeps scratch memories below the plan. Every scratch memory has a share. A sample
 * that needs more takes the turn: one scratch memory at a time may go beyond its share, by the reserve that
 * the plan has for it, and gives back what it took before the next one does. So a large picture waits, and
 * nothing is ever refused for it but by a memory_limit that leaves too little even for one: what is refused
 * then depends on the settings, and not on who came first.
 */

typedef struct stk_memory_gate {
    pthread_mutex_t turn; /* held by the scratch memory that is beyond its share */
    uint64_t reserve;     /* bytes that it may hold beyond it */
    uint64_t limit;       /* memory_limit; 0 = none: nothing is refused */
} stk_memory_gate;

void stk_memory_gate_make(stk_memory_gate *gate, uint64_t reserve, uint64_t limit);
void stk_memory_gate_destroy(stk_memory_gate *gate); /* accepts a zeroed one */

/* Lets a sample through when its scratch memory has what it takes, waiting for the turn where that is more
 * than the scratch memory's share. STOKE_E_LIMIT: memory_limit leaves less than the sample needs, which makes
 * it a bad one. */
int stk_memory_gate_pass(stk_memory_gate *gate, stk_scratch *scratch, const stk_scratch_bytes *need,
                         stoke_error *err);
/* The sample is done with: the turn is over, and what it took is given back. */
void stk_memory_gate_leave(stk_memory_gate *gate, stk_scratch *scratch);
/* Whether files have to pass before they are read: a header that says how much the rest needs may be missing,
 * or come too late. Not where every header was read before. */
int stk_memory_gate_guards_files(const stk_memory_gate *gate);

#endif
