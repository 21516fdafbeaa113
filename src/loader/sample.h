/* SPDX-License-Identifier: Apache-2.0
 *
 * One sample, from two file names to a finished row:
 *
 *   sample.c        fetches bytes, passes the memory gate, draws the plan, orders the steps
 *   cache_lookup.c  with a cache: gives the whole fitted sample, or keeps it
 *   decode_fit.c    decoded, labelled, fitted: what does not depend on the draw, or only on its box
 *   render.c        into the rows of the batch, as the plan says
 *   raw.c           or not rendered at all: left to a device
 *   rows.c          or pictures that somebody has already instead of files
 *
 * With a target the same way is gone once more, by the target's config and the plan enlarged to it: buffers
 * and decoder are used again, so that both take the memory of the larger one.
 */
#ifndef STOKE_SRC_LOADER_SAMPLE_H
#define STOKE_SRC_LOADER_SAMPLE_H

#include <stoke/augment.h>
#include <stoke/augment_plan.h>

#include "src/loader/raw.h"
#include "src/loader/scratch.h"
#include "src/loader/slots.h"

typedef struct stk_sample_stamp {
    uint64_t wall, cpu;
} stk_sample_stamp;

/* What is known about a sample's files (cache_lookup.c). */
typedef struct stk_sample_cache_lookup {
    stk_cache_identity image_file, mask_file;
    stk_cache_digest image, mask;
    stk_cache_key key;
    int identified, known; /* the identities are set; and the digests, from the memo */
    int found, stored;     /* the cache had it; has it now */
    int from_ram;          /* it was found in memory */
} stk_sample_cache_lookup;

typedef struct stk_sample_ctx {
    stk_scratch *scratch;
    const stk_loader_config *config;
    stoke_sample sample;
    size_t image_bytes, mask_bytes; /* in scratch->image_file and mask_file */
    stoke_image_info image_info, mask_info;
    int knows_mask; /* mask_info is set: by probing the mask, or by who has no use for its pixels */
    stoke_orientation orientation; /* of the image: ignore or apply */
    uint32_t width, height;        /* of the source, as decoded */
    stoke_augment_plan plan;
    void *image_row, *mask_row;   /* of the batch; mask_row NULL: it has targets */
    stk_raw_row *raw;             /* what is put there as it is; NULL: rows are laid out */
    stoke_image image, ids;       /* whole, then fitted; ids.data NULL: not decoded yet, or no mask: zeros */
    stk_sample_cache_lookup kept; /* only with a cache */
    stk_sample_stamp last;
    stoke_error *err;
} stk_sample_ctx;

/* The time now, and booking what passed since ctx->last on a stage. */
stk_sample_stamp stk_stamp_now(void);
void stk_sample_ctx_stamp(stk_sample_ctx *ctx, stoke_stage stage);

/* Puts the file's name before the reason: the decoder knows the one, only we know the other. Returns status.
 */
int stk_sample_ctx_in_file(const stk_sample_ctx *ctx, const char *path, int status);

/* sample.c: both files into the scratch memory, their headers into the sample; waits for its turn where they
 * are large, and refuses what memory_limit does not allow (gate NULL: neither). The only place where a
 * sample's bytes are read. */
int stk_fetch(stk_sample_ctx *ctx, stk_memory_gate *gate);

/* sample.c: the way of a target (config->target is set), when its image has gone its own. The second is
 * stk_fetch or stk_cache_lookup_bring, and STOKE_E_SIZE where its size is not `scale` times the image's. */
stk_sample_ctx stk_target_begin(const stk_sample_ctx *image, void *row);
int stk_target_bring(stk_sample_ctx *target, const stk_sample_ctx *image, stk_memory_gate *gate, int *whole);
/* What a cache had or has of both counts as one sample. */
void stk_target_count(stk_sample_cache_lookup *image, const stk_sample_cache_lookup *target);

/* decode_fit.c: fills ctx->image and ctx->ids with the fitted picture of ctx->plan, decoding no more
 * than its box (and no mask when ctx->ids has the whole one already). */
int stk_decode_fit_region(stk_sample_ctx *ctx);
/* The same in two steps. After the first one image and ids are what every epoch has in common: a cache gives
 * them instead, or keeps them. The second changes no pixel they point to and needs no file. */
int stk_decode_fit_whole(stk_sample_ctx *ctx);
int stk_decode_fit_cut(stk_sample_ctx *ctx);
/* Stretches the values of a picture of two bytes as `window` asks for. */
int stk_sample_ctx_window(stk_sample_ctx *ctx, const stoke_image *pixels);
/* Only the whole mask, at the source's own size, for those who must look at it before they draw. */
int stk_decode_fit_ids(stk_sample_ctx *ctx);

/* sample.c: ctx->plan. A crop that wants to look at the mask is drawn again with what it sees there; a
 * mask without foreground, or none at all, leaves the plan as it is. */
int stk_draw_plan(stk_sample_ctx *ctx, stoke_draw *draw);

/* render.c: ctx->image and ctx->ids into the rows of the batch. */
int stk_render(stk_sample_ctx *ctx);
/* ctx->ids as geometry takes them: zeros without a mask, left and right exchanged if the plan says so. */
int stk_render_ids(stk_sample_ctx *ctx);

/* raw.c: ctx->image, ids and plan into a raw row instead. */
int stk_raw_put(stk_sample_ctx *ctx);
/* Where the fitted picture of the plan ends up in a raw row, so that who makes it can make it there; data
 * NULL when it cannot stay there, or the plan is not drawn yet. */
stoke_image stk_raw_image_place(const stk_sample_ctx *ctx);
stoke_image stk_raw_ids_place(const stk_sample_ctx *ctx);

/* The plan's mirrors as bits of STK_MIRROR_. */
static inline int stk_sample_ctx_mirror(const stk_sample_ctx *ctx)
{
    return (ctx->plan.hflip ? STK_MIRROR_H : 0) | (ctx->plan.vflip ? STK_MIRROR_V : 0);
}

/* A file larger than this is no sample: 1 GiB, about 40 times an uncompressed 8-megapixel 16-bit TIFF. */
#define STK_FILE_LIMIT (UINT64_C(1) << 30)

/* A sample's way to a row of a slot begins: where it goes, and what its draw depends on but for the size of
 * the source. */
stoke_draw stk_sample_begin(stk_sample_ctx *ctx, stk_scratch *scratch, const stk_loader_config *config,
                            const stk_slot *slot, uint32_t row, stoke_error *err);

/* Fills a row of a slot with sample `id`. On failure err->message names file and reason, and the row's
 * content is undefined. */
int stk_sample_load(stk_scratch *scratch, const stk_loader_config *config, stk_memory_gate *gate,
                    stk_slot *slot, uint32_t row, uint64_t id, stoke_error *err);

/* The cache beside the loader: which key a sample has, and when it is asked.
 *
 * A sample's key is made of the content of its files, so that the same pair is found again whatever it is
 * called; what the memo knows about the files spares reading them. With a cache the whole fitted
 * sample is made and kept (stk_decode_fit_whole) instead of the plan's region. In exact mode both give the
 * same bytes. In fast mode, where a region may be decoded from a smaller picture than the whole, the whole
 * way is always taken: batches do not depend on what the cache holds.
 */

/* Opens the cache the settings ask for, if any: config->cache and transform. After
 * stk_loader_config_create. */
int stk_cache_lookup_open(stk_loader_config *config, const stoke_data_params *params, stoke_error *err);

/* Bytes of a scratch memory for reading and writing an entry of such a picture. */
uint64_t stk_cache_lookup_scratch(const stk_loader_config *config, uint64_t pixels, uint8_t depth);
/* Memory that is held beside the scratch memories at most; before the cache is opened what a fresh one will
 * hold. */
uint64_t stk_cache_lookup_memory(const stk_loader_config *config);

/* 1 and the whole fitted sample when the cache has the sample, by what is known about its files:
 * they are not read.
 */
int stk_cache_lookup_find(stk_sample_ctx *ctx);

/* Takes the place of stk_fetch when there is a cache. *whole = 1: ctx->image, ids, width and height are
 * the whole fitted sample, as after stk_decode_fit_whole. 0: as after stk_fetch. */
int stk_cache_lookup_bring(stk_sample_ctx *ctx, stk_memory_gate *gate, int *whole);

#endif
