/* SPDX-License-Identifier: Apache-2.0 */
#include "src/loader/bench.h"

#include <stdatomic.h>

#include "src/base/error.h"

int stk_bench_create(stk_bench *bench, stoke_error *err)
{
    *bench = (stk_bench){ 0 };
    int r = stoke_decoder_create(&bench->image_decoder, err);
    if (!r) r = stoke_decoder_create(&bench->mask_decoder, err);
    if (!r && !(bench->resizer = stk_resizer_create()))
        r = stk_fail(err, STOKE_E_NOMEM, "no memory for a worker");
    if (r) stk_bench_destroy(bench);
    return r;
}

/* Every buffer of a bench, for those who treat all alike. */
#define BUFFERS(bench)                                                                                       \
    {                                                                                                        \
        &(bench)->image_file, &(bench)->mask_file, &(bench)->fitted, &(bench)->labelled,                     \
            &(bench)->mask_fitted, &(bench)->zeros, &(bench)->histogram, &(bench)->mix                       \
    }

void stk_bench_destroy(stk_bench *bench)
{
    stk_buffer *const buffers[] = BUFFERS(bench);
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) stk_buffer_free(buffers[i]);
    stoke_decoder_destroy(&bench->image_decoder);
    stoke_decoder_destroy(&bench->mask_decoder);
    stk_resizer_destroy(&bench->resizer);
}

uint64_t stk_bench_memory(const stk_bench *bench)
{
    const stk_buffer *const buffers[] = BUFFERS(bench);
    uint64_t bytes = stoke_decoder_memory(bench->image_decoder) + stoke_decoder_memory(bench->mask_decoder) +
                     stk_resizer_memory(bench->resizer);
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

uint64_t stk_bench_need(const stk_recipe *recipe, const stoke_image_info *image, uint64_t image_bytes,
                        const stoke_image_info *mask, uint64_t mask_bytes)
{
    const uint64_t source = (uint64_t)image->width * image->height,
                   out = (uint64_t)recipe->width * recipe->height;
    const uint8_t depth = working_depth(image);
    /* A decoder may hold its input once more, repacked: joined PNG chunks, or a JPEG cut down to a region,
     * which takes three copies of the data and room for a header. */
    uint64_t need = (image_bytes + mask_bytes) * 6 + image->scratch_bytes + source * 3 * depth;
    if (image->width != recipe->width || image->height != recipe->height)
        need += out * 3 * depth +
                stk_resize_scratch(image->width, image->height, recipe->width, recipe->height, 3, depth);
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
