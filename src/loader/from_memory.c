/* SPDX-License-Identifier: Apache-2.0
 *
 * Pixels that somebody else has: taken as they lie where that is how we work on them (three interleaved
 * channels of u8 or u16, one channel of ids), gathered into a buffer of the scratch memory where not.
 */
#include "src/loader/from_memory.h"

#include <math.h>
#include <string.h>

#include "src/base/error.h"

/* ---- images ---- */

static int lies_ready(const stoke_pixels *p)
{
    const ptrdiff_t bytes = (ptrdiff_t)stoke_dtype_bytes(p->dtype);
    const int integer = p->dtype == STOKE_DTYPE_U8 || p->dtype == STOKE_DTYPE_U16;
    return integer && p->channels == 3 && p->channel == bytes && p->column == 3 * bytes &&
           p->row >= (ptrdiff_t)p->width * 3 * bytes && (uintptr_t)p->data % (uintptr_t)bytes == 0 &&
           p->row % bytes == 0;
}

/* A float in 0..1 as a 16-bit sample; what is no number is black. */
static uint16_t deep(float v)
{
    return v >= 1 ? 65535 : v > 0 ? (uint16_t)lrintf(v * 65535) : 0;
}

/* One line of one channel, of any type and any distance, to every third sample of `to`; grey goes to all
 * three. */
static void gather_line(const stoke_pixels *p, uint32_t c, uint32_t y, const stoke_image *to)
{
    const char *from = (const char *)p->data + (ptrdiff_t)c * p->channel + (ptrdiff_t)y * p->row;
    char *line = (char *)to->data + y * to->stride;
    for (uint32_t x = 0; x < p->width; x++, from += p->column) {
        if (to->depth == 1) {
            ((uint8_t *)line)[x * 3 + c] = *(const uint8_t *)from;
            continue;
        }
        uint16_t sample;
        float real;
        if (p->dtype == STOKE_DTYPE_F32) {
            memcpy(&real, from, sizeof real); /* a view may lie anywhere */
            sample = deep(real);
        } else {
            memcpy(&sample, from, sizeof sample);
        }
        ((uint16_t *)line)[x * 3 + c] = sample;
    }
}

static void spread_grey(const stoke_image *image)
{
    for (uint32_t y = 0; y < image->height; y++) {
        char *line = (char *)image->data + y * image->stride;
        for (size_t x = 0; x < (size_t)image->width * 3; x += 3)
            for (int c = 1; c < 3; c++)
                memcpy(line + (x + c) * image->depth, line + x * image->depth, image->depth);
    }
}

static int check_image(const stoke_pixels *p, stoke_error *err)
{
    if (!p->data || !p->width || !p->height)
        return stk_fail(err, STOKE_E_INVALID, "an image of %ux%u pixels cannot be augmented", p->width,
                        p->height);
    if (p->channels != 1 && p->channels != 3)
        return stk_fail(err, STOKE_E_INVALID, "an image has 1 or 3 channels, this one has %u", p->channels);
    if (p->dtype != STOKE_DTYPE_U8 && p->dtype != STOKE_DTYPE_U16 && p->dtype != STOKE_DTYPE_F32)
        return stk_fail(err, STOKE_E_INVALID, "an image is uint8, uint16 or float32, this one is %s",
                        stoke_dtype_name(p->dtype));
    return STOKE_OK;
}

/* copy: the pixels are going to be changed. */
static int take_image(const stoke_pixels *p, int copy, stk_mem_buffer *buffer, stoke_image *image,
                      stoke_error *err)
{
    const uint8_t depth = p->dtype == STOKE_DTYPE_U8 ? 1 : 2;
    if (lies_ready(p) && !copy) {
        *image = (stoke_image){ (void *)p->data, (size_t)p->row, p->width, p->height, 3, depth };
        return STOKE_OK;
    }
    const int r = stk_scratch_image(buffer, p->width, p->height, 3, depth, image, err);
    if (r) return r;
    for (uint32_t c = 0; c < p->channels; c++)
        for (uint32_t y = 0; y < p->height; y++) gather_line(p, c, y, image);
    if (p->channels == 1) spread_grey(image);
    return STOKE_OK;
}

int stk_from_memory_image(stk_sample_ctx *ctx, const stoke_pixels *pixels)
{
    stk_scratch *scratch = ctx->scratch;
    const stk_pix_window *window = &ctx->config->window;
    int r = check_image(pixels, ctx->err);
    if (r) return r;
    const int windowed = pixels->dtype == STOKE_DTYPE_U16 && window->mode != STK_WINDOW_NONE;
    r = take_image(pixels, windowed, &scratch->image_file, &ctx->image, ctx->err);
    if (!r && windowed) {
        uint32_t *histogram = stk_buffer_reserve(&scratch->histogram, 65536 * sizeof *histogram);
        if (!histogram) return stk_fail(ctx->err, STOKE_E_NOMEM, "no memory for the window's histogram");
        stk_window_apply(window, &ctx->image, histogram);
    }
    ctx->width = pixels->width;
    ctx->height = pixels->height;
    return r;
}

/* ---- masks ---- */

/* Ids have 16 bits at most; -1 and 1 << 20 must not become one of them by being cut. */
static int take_value(const stoke_pixels *p, const char *from, int64_t *value)
{
    int32_t i32;
    uint16_t u16;
    switch (p->dtype) {
    case STOKE_DTYPE_U8: *value = *(const uint8_t *)from; break;
    case STOKE_DTYPE_U16:
        memcpy(&u16, from, sizeof u16);
        *value = u16;
        break;
    case STOKE_DTYPE_I32:
        memcpy(&i32, from, sizeof i32);
        *value = i32;
        break;
    default: memcpy(value, from, sizeof *value); break;
    }
    return *value >= 0 && *value <= UINT16_MAX;
}

static int gather_ids(const stoke_pixels *p, const stoke_image *to, stoke_error *err)
{
    for (uint32_t y = 0; y < p->height; y++)
        for (uint32_t x = 0; x < p->width; x++) {
            const char *from = (const char *)p->data + (ptrdiff_t)y * p->row + (ptrdiff_t)x * p->column;
            int64_t value;
            if (!take_value(p, from, &value))
                return stk_fail(err, STOKE_E_LABEL,
                                "value %lld at (x %u, y %u) of the mask is no class id: 0 to 65535 can be",
                                (long long)value, x, y);
            void *line = (char *)to->data + y * to->stride;
            if (to->depth == 1)
                ((uint8_t *)line)[x] = (uint8_t)value;
            else
                ((uint16_t *)line)[x] = (uint16_t)value;
        }
    return STOKE_OK;
}

static int check_mask(const stk_sample_ctx *ctx, const stoke_pixels *p)
{
    const int integer = p->dtype == STOKE_DTYPE_U8 || p->dtype == STOKE_DTYPE_U16 ||
                        p->dtype == STOKE_DTYPE_I32 || p->dtype == STOKE_DTYPE_I64;
    if (!p->data || p->width != ctx->width || p->height != ctx->height)
        return stk_fail(ctx->err, STOKE_E_SIZE, "the mask is %ux%u (height x width), its image is %ux%u",
                        p->height, p->width, ctx->height, ctx->width);
    if (p->channels == 3 && p->dtype == STOKE_DTYPE_U8) return STOKE_OK;
    if (p->channels != 1 || !integer)
        return stk_fail(
            ctx->err, STOKE_E_INVALID,
            "a mask has one channel of uint8, uint16, int32 or int64 (or three of uint8 for a colour "
            "table), this one has %u of %s",
            p->channels, stoke_dtype_name(p->dtype));
    return STOKE_OK;
}

int stk_from_memory_ids(stk_sample_ctx *ctx, const stoke_pixels *pixels)
{
    stk_scratch *scratch = ctx->scratch;
    const stoke_labels *labels = ctx->config->labels;
    stoke_image raw;
    int r = check_mask(ctx, pixels);
    if (r) return r;
    if (pixels->channels == 3) {
        r = take_image(pixels, 0, &scratch->mask_file, &raw, ctx->err);
    } else {
        const uint8_t depth = pixels->dtype == STOKE_DTYPE_U8 ? 1 : 2;
        r = stk_scratch_image(&scratch->mask_file, pixels->width, pixels->height, 1, depth, &raw, ctx->err);
        if (!r) r = gather_ids(pixels, &raw, ctx->err);
    }
    if (!r)
        r = stk_scratch_image(&scratch->labelled, pixels->width, pixels->height, 1,
                              stoke_labels_depth(labels), &ctx->ids, ctx->err);
    return r ? r : stoke_labels_apply(labels, &raw, &ctx->ids, ctx->err);
}
