/* SPDX-License-Identifier: Apache-2.0
 *
 * The pixel a foreground crop looks at. The classes present in the mask are equally likely, however few
 * pixels they have, and so are the pixels of the one chosen.
 */
#include <string.h>

#include "src/augment/pipeline.h"
#include "src/base/error.h"
#include "src/base/rng.h"
#include "src/loader/sample_ctx.h"

static uint32_t id_at(const stoke_image *ids, uint32_t x, uint32_t y)
{
    const void *row = (const char *)ids->data + y * ids->stride;
    return ids->depth == 1 ? ((const uint8_t *)row)[x] : ((const uint16_t *)row)[x];
}

/* Pixels of every class; those that are not looked for have none. */
static void count_ids(const stk_loader_config *config, const stoke_image *ids, uint64_t *count, size_t values)
{
    memset(count, 0, values * sizeof *count);
    for (uint32_t y = 0; y < ids->height; y++)
        for (uint32_t x = 0; x < ids->width; x++) count[id_at(ids, x, y)]++;
    if (config->ignore >= 0) count[config->ignore] = 0;
    size_t n;
    const uint32_t *background = stk_pipeline_background(config->pipeline, &n);
    for (size_t i = 0; i < n; i++)
        if (background[i] < values) count[background[i]] = 0;
}

/* The k-th pixel of a class, in reading order. */
static void find(const stoke_image *ids, uint32_t id, uint64_t k, uint32_t focus[2])
{
    for (uint32_t y = 0; y < ids->height; y++)
        for (uint32_t x = 0; x < ids->width; x++)
            if (id_at(ids, x, y) == id && !k--) {
                focus[0] = x;
                focus[1] = y;
                return;
            }
}

int stk_foreground_crop(stk_sample_ctx *ctx, uint32_t focus[2], int *found)
{
    const stoke_image *ids = &ctx->ids;
    const size_t values = ids->depth == 1 ? 256 : 65536;
    uint64_t *count = stk_buffer_reserve(&ctx->scratch->counts, values * sizeof *count);
    if (!count) return stk_fail(ctx->err, STOKE_E_NOMEM, "no memory to count classes");
    count_ids(ctx->config, ids, count, values);
    uint32_t present = 0;
    for (size_t i = 0; i < values; i++) present += count[i] > 0;
    *found = present > 0;
    if (!present) return STOKE_OK;
    uint64_t left = stk_below(stk_pair(ctx->plan.focus_class, 0), present);
    uint32_t id = 0;
    while (!count[id] || left--) id++;
    find(ids, id, stk_below(stk_pair(ctx->plan.focus_pixel, 0), count[id]), focus);
    return STOKE_OK;
}
