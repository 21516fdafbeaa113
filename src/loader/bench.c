/* SPDX-License-Identifier: Apache-2.0 */
#include "src/loader/bench.h"

#include <stdatomic.h>

#include "src/base/error.h"
#include "src/loader/kept.h"
#include "src/loader/mix.h"

int stk_bench_create(stk_bench *bench, stoke_error *err)
{
    *bench = (stk_bench){ 0 };
    int r = stoke_decoder_create(&bench->image_decoder, err);
    if (!r) r = stoke_decoder_create(&bench->mask_decoder, err);
    if (!r && !((bench->resizer = stk_resizer_create()) && (bench->toucher = stk_toucher_create())))
        r = stk_fail(err, STOKE_E_NOMEM, "no memory for a worker");
    if (r) stk_bench_destroy(bench);
    return r;
}

/* Every buffer of a bench, for those who treat all alike. */
#define BUFFERS(bench)                                                                                       \
    {                                                                                                        \
        &(bench)->image_file, &(bench)->mask_file, &(bench)->fitted, &(bench)->labelled,                     \
            &(bench)->mask_fitted, &(bench)->zeros, &(bench)->histogram, &(bench)->counts,                   \
            &(bench)->swapped, &(bench)->lines, &(bench)->mix                                                \
    }

void stk_bench_destroy(stk_bench *bench)
{
    stk_buffer *const buffers[] = BUFFERS(bench);
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) stk_buffer_free(buffers[i]);
    stoke_decoder_destroy(&bench->image_decoder);
    stoke_decoder_destroy(&bench->mask_decoder);
    stk_resizer_destroy(&bench->resizer);
    stk_cache_bench_free(&bench->cache);
    stk_warper_free(&bench->warper);
    stk_toucher_destroy(&bench->toucher);
}

uint64_t stk_bench_memory(const stk_bench *bench)
{
    const stk_buffer *const buffers[] = BUFFERS(bench);
    uint64_t bytes = stoke_decoder_memory(bench->image_decoder) + stoke_decoder_memory(bench->mask_decoder) +
                     stk_resizer_memory(bench->resizer) + stk_warper_memory(&bench->warper) +
                     stk_toucher_memory(bench->toucher) + stk_cache_bench_memory(&bench->cache);
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) bytes += buffers[i]->capacity;
    return bytes;
}

int stk_bench_image(stk_buffer *buffer, uint32_t width, uint32_t height, uint8_t channels, uint8_t depth,
                    stoke_image *image, stoke_error *err)
{
    const size_t bytes = stoke_image_bytes(width, height, channels, depth);
    void *data = bytes ? stk_buffer_reserve(buffer, bytes) : NULL;
    if (!data)
        return stk_fail(err, STOKE_E_NOMEM, "no memory for a picture of %ux%u (%zu bytes)", width, height,
                        bytes);
    *image = (stoke_image){ data, (size_t)width * channels * depth, width, height, channels, depth };
    return STOKE_OK;
}

/* ---- how much ---- */

static uint8_t working_depth(const stoke_image_info *info)
{
    return info->bits == 16 ? 2 : 1;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* What happens between the fitted picture and the batch, and between the rows of a batch. */
static uint64_t laying_need(const stk_recipe *recipe, const stoke_image_info *image)
{
    const uint32_t width = recipe->width, height = recipe->height;
    const uint8_t depth = working_depth(image), id_depth = stoke_labels_depth(recipe->labels);
    const uint64_t out = (uint64_t)width * height, source = (uint64_t)image->width * image->height;
    const uint64_t line = (uint64_t)width * 3 * depth;
    uint64_t need = larger(larger(image->width, image->height), width) * id_depth; /* a row of zeros */
    if (recipe->warps || recipe->touches) need += recipe->warps && recipe->touches ? line * height : line;
    if (recipe->elastic) need += stk_warp_scratch(width, height);
    if (recipe->touches) need += stk_touch_scratch(width, height, depth);
    if (recipe->swap) need += larger(source, out) * id_depth;
    if (recipe->focuses) need += (id_depth == 1 ? 256 : 65536) * sizeof(uint64_t);
    if (recipe->mixes) {
        const stoke_batch shape = stk_recipe_shape(recipe, 1);
        need += stk_mix_scratch(&shape);
    }
    return need;
}

/* A crop that is resized may have any size up to the source's, and any proportions: what the whole takes, or
 * what it takes to make it larger. */
static uint64_t resizing_need(const stk_recipe *recipe, const stoke_image_info *image, uint8_t depth)
{
    const uint32_t width = recipe->width, height = recipe->height;
    if (image->width == width && image->height == height && !recipe->crops) return 0;
    const uint64_t whole = stk_resize_scratch(image->width, image->height, width, height, 3, depth);
    const uint64_t part = recipe->crops ? stk_resize_scratch(1, 1, width, height, 3, depth) : 0;
    return (uint64_t)width * height * 3 * depth + larger(whole, part);
}

uint64_t stk_bench_need(const stk_recipe *recipe, const stoke_image_info *image, uint64_t image_bytes,
                        const stoke_image_info *mask, uint64_t mask_bytes)
{
    const uint64_t source = (uint64_t)image->width * image->height,
                   out = (uint64_t)recipe->width * recipe->height;
    const uint8_t depth = working_depth(image);
    /* A decoder may hold its input once more, repacked: joined PNG chunks, or a JPEG cut down to a region,
     * which takes three copies of the data and room for a header. */
    uint64_t need = (image_bytes + mask_bytes) * 6 + image->scratch_bytes + source * 3 * depth;
    need += resizing_need(recipe, image, depth) + laying_need(recipe, image) +
            stk_kept_scratch(recipe, source, depth);
    if (depth == 2) need += 65536 * sizeof(uint32_t);
    if (mask) {
        const uint64_t pixels = (uint64_t)mask->width * mask->height;
        const uint64_t channels = stoke_labels_are_colors(recipe->labels) ? 3 : 1;
        need += mask->scratch_bytes + pixels * channels * working_depth(mask) + out * 2;
        if (channels == 3 || working_depth(mask) != stoke_labels_depth(recipe->labels))
            need += pixels * stoke_labels_depth(recipe->labels);
    }
    return need;
}

int stk_bench_gate(stk_bench *bench, stk_budget *budget, uint64_t need, stoke_error *err)
{
    if (need <= bench->granted) return STOKE_OK;
    const uint64_t more = need - bench->granted;
    uint64_t spare = atomic_load(&budget->spare);
    while (spare != UINT64_MAX) {
        if (spare < more)
            return stk_fail(
                err, STOKE_E_NOMEM,
                "needs %.1f MB of a worker, %.1f MB are planned and %.1f MB left under memory_limit %.1f MB",
                need / 1e6, bench->granted / 1e6, spare / 1e6, budget->limit / 1e6);
        if (atomic_compare_exchange_weak(&budget->spare, &spare, spare - more)) break;
    }
    bench->granted = need;
    return STOKE_OK;
}
