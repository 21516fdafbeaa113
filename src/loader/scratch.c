/* SPDX-License-Identifier: Apache-2.0 */
#include <stoke/tools/image.h>
#include <stoke/tools/labels.h>
#include "src/base/mem.h"
#include "src/loader/scratch.h"

#include "src/base/error.h"
#include "src/loader/sample.h"
#include "src/loader/slots.h"
#include "src/source/pairs.h"

int stk_scratch_create(stk_scratch *scratch, stoke_error *err)
{
    *scratch = (stk_scratch){ 0 };
    int r = stoke_decoder_create(&scratch->image_decoder, err);
    if (!r) r = stoke_decoder_create(&scratch->mask_decoder, err);
    if (!r && !((scratch->resizer = stk_resizer_create()) && (scratch->color_pass = stk_color_pass_create())))
        r = stk_fail(err, STOKE_E_NOMEM, "no memory for a worker");
    if (r) stk_scratch_destroy(scratch);
    return r;
}

void stk_scratch_destroy(stk_scratch *scratch)
{
    for (int i = 0; i < STK_SCRATCH_BUFFERS; i++) stk_buffer_free(&scratch->buffer[i]);
    stoke_decoder_destroy(&scratch->image_decoder);
    stoke_decoder_destroy(&scratch->mask_decoder);
    stk_resizer_destroy(&scratch->resizer);
    stk_cache_scratch_free(&scratch->cache);
    stk_warper_free(&scratch->warper);
    stk_color_pass_destroy(&scratch->color_pass);
}

static void renew_decoder(stoke_decoder **decoder)
{
    stoke_decoder *fresh;
    if (stoke_decoder_create(&fresh, NULL)) return; /* the old one then keeps what it has */
    stoke_decoder_destroy(decoder);
    *decoder = fresh;
}

void stk_scratch_empty(stk_scratch *scratch)
{
    for (int i = 0; i < STK_SCRATCH_BUFFERS; i++) stk_buffer_free(&scratch->buffer[i]);
    stk_cache_scratch_free(&scratch->cache);
    stk_warper_free(&scratch->warper);
    renew_decoder(&scratch->image_decoder);
    renew_decoder(&scratch->mask_decoder);
    stk_pix_resizer *resizer = stk_resizer_create();
    if (!resizer) return;
    stk_resizer_destroy(&scratch->resizer);
    scratch->resizer = resizer;
}

uint64_t stk_scratch_memory(const stk_scratch *scratch)
{
    uint64_t bytes = stoke_decoder_memory(scratch->image_decoder) +
                     stoke_decoder_memory(scratch->mask_decoder) + stk_resizer_memory(scratch->resizer) +
                     stk_warper_memory(&scratch->warper) + stk_color_pass_memory(scratch->color_pass) +
                     stk_cache_scratch_memory(&scratch->cache);
    for (int i = 0; i < STK_SCRATCH_BUFFERS; i++) bytes += scratch->buffer[i].capacity;
    return bytes;
}

int stk_scratch_image(stk_mem_buffer *buffer, uint32_t width, uint32_t height, uint8_t channels,
                      uint8_t depth, stoke_image *image, stoke_error *err)
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

/* Turning upright takes a second picture. */
static int is_turned(const stoke_image_info *info, stoke_orientation orientation)
{
    return orientation == STOKE_ORIENTATION_APPLY && info->orientation > 1;
}

void stk_row_need_raise(stk_scratch_bytes *most, const stk_scratch_bytes *of)
{
    for (int i = 0; i < STK_ROW_PARTS; i++) most->part[i] = stk_most(most->part[i], of->part[i]);
}

uint64_t stk_row_need_sum(const stk_scratch_bytes *need)
{
    uint64_t sum = 0;
    for (int i = 0; i < STK_ROW_PARTS; i++) sum += need->part[i];
    return sum;
}

stk_scratch_bytes stk_scratch_need_files(uint64_t image_bytes, uint64_t mask_bytes)
{
    return (stk_scratch_bytes){
        .part = { [STK_ROW_PART_IMAGE_FILE] = image_bytes, [STK_ROW_PART_MASK_FILE] = mask_bytes }
    };
}

/* What happens between the fitted picture and the batch, and between the rows of a batch. */
static uint64_t laying_need(const stk_loader_config *config, uint8_t depth)
{
    const uint32_t width = config->width, height = config->height;
    const uint64_t line = (uint64_t)width * 3 * depth;
    uint64_t need = 0;
    if (!config->raw && (config->warps || config->color_steps))
        need += config->warps && config->color_steps ? line * height : line;
    if (config->elastic) need += stk_warp_scratch(width, height);
    if (config->color_steps && !config->raw) need += stk_color_scratch(width, height, depth);
    if (config->focuses) need += (stoke_labels_depth(config->labels) == 1 ? 256 : 65536) * sizeof(uint64_t);
    if (config->mixes && !config->raw) {
        const stoke_batch shape = stk_batch_shape(config, 1);
        need += stk_mix_scratch(&shape);
    }
    if (depth == 2) need += 65536 * sizeof(uint32_t); /* the window's histogram */
    return need;
}

/* A crop that is resized may have any size up to the source's, and any proportions: what the whole takes, or
 * what it takes to make it larger. */
static void resizing_need(const stk_loader_config *config, uint32_t source_width, uint32_t source_height,
                          uint8_t depth, stk_scratch_bytes *need)
{
    const uint32_t width = config->width, height = config->height;
    if (source_width == width && source_height == height && !config->crops) return;
    need->part[STK_ROW_PART_FITTED] = (uint64_t)width * height * 3 * depth;
    need->part[STK_ROW_PART_ACROSS] =
        stk_most(stk_resize_scratch(source_width, height, width, height, 3, depth),
                 config->crops ? stk_resize_scratch(1, height, width, height, 3, depth) : 0);
    need->part[STK_ROW_PART_DOWN] =
        stk_most(stk_resize_scratch(width, source_height, width, height, 3, depth),
                 config->crops ? stk_resize_scratch(width, 1, width, height, 3, depth) : 0);
}

static void image_need(const stk_loader_config *config, const stoke_image_info *image,
                       stoke_orientation orientation, stk_scratch_bytes *need)
{
    const uint8_t depth = working_depth(image), id_depth = stoke_labels_depth(config->labels);
    const uint64_t source = (uint64_t)image->width * image->height,
                   out = (uint64_t)config->width * config->height;
    uint32_t width, height;
    stk_size_shown(image, orientation, &width, &height);
    need->part[STK_ROW_PART_IMAGE] = source * 3 * depth;
    if (is_turned(image, orientation)) need->part[STK_ROW_PART_IMAGE_TURNED] = source * 3 * depth;
    need->part[STK_ROW_PART_IMAGE_SCRATCH] = image->scratch_bytes;
    resizing_need(config, width, height, depth, need);
    need->part[STK_ROW_PART_LAID] = laying_need(config, depth);
    need->part[STK_ROW_PART_ZEROS] = stk_most(width, config->width) * id_depth;
    if (config->swap) need->part[STK_ROW_PART_SWAPPED] = stk_most(source, out) * id_depth;
    const uint64_t kept_ids = stk_cache_lookup_scratch(config, source, 0);
    need->part[STK_ROW_PART_KEPT_IDS] = kept_ids;
    need->part[STK_ROW_PART_KEPT_IMAGE] = stk_cache_lookup_scratch(config, source, depth) - kept_ids;
}

static void mask_need(const stk_loader_config *config, const stoke_image_info *mask, stk_scratch_bytes *need)
{
    const uint64_t pixels = (uint64_t)mask->width * mask->height,
                   out = (uint64_t)config->width * config->height;
    const uint64_t channels = stoke_labels_are_colors(config->labels) ? 3 : 1;
    const uint64_t decoded = pixels * channels * working_depth(mask);
    need->part[STK_ROW_PART_MASK] = decoded + out * 2;
    if (is_turned(mask, config->mask_decode.orientation)) need->part[STK_ROW_PART_MASK_TURNED] = decoded;
    need->part[STK_ROW_PART_MASK_SCRATCH] = mask->scratch_bytes;
    if (channels == 3 || working_depth(mask) != stoke_labels_depth(config->labels))
        need->part[STK_ROW_PART_LABELLED] = pixels * stoke_labels_depth(config->labels);
}

stk_scratch_bytes stk_scratch_need(const stk_loader_config *config, const stoke_image_info *image,
                                   uint64_t image_bytes, const stoke_image_info *mask, uint64_t mask_bytes)
{
    /* A decoder may hold its input once more, repacked: joined PNG chunks, or a JPEG cut down to a region,
     * which takes three copies of the data and room for a header. */
    stk_scratch_bytes need = stk_scratch_need_files(image_bytes * 6, mask_bytes * 6);
    image_need(config, image, stk_loader_config_orientation(config, image, mask), &need);
    if (mask) mask_need(config, mask, &need);
    return need;
}
