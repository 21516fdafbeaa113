/* SPDX-License-Identifier: Apache-2.0
 *
 * Where windows lie, and their pixels.
 */
#include <string.h>

#include "src/base/error.h"
#include "src/pix/pix_table.h"
#include "src/train/predict.h"

stk_predict_windows stk_windows_of(uint32_t side, uint32_t window, double overlap)
{
    stk_predict_windows w = { .window = window, .length = (side + STK_GRID - 1) / STK_GRID * STK_GRID };
    if (w.length < window) w.length = window;
    w.step = (uint32_t)(window * (1 - overlap)) / STK_GRID * STK_GRID;
    if (w.step < STK_GRID) w.step = STK_GRID;
    w.count = (w.length - window + w.step - 1) / w.step + 1;
    return w;
}

uint32_t stk_windows_start(const stk_predict_windows *windows, uint32_t index)
{
    const uint32_t last = windows->length - windows->window;
    return (uint64_t)index * windows->step < last ? index * windows->step : last;
}

void stk_windows_shares(const stk_predict_windows *windows, float *shares)
{
    memset(shares, 0, windows->length / STK_GRID * sizeof *shares);
    for (uint32_t i = 0; i < windows->count; i++) {
        float *first = shares + stk_windows_start(windows, i) / STK_GRID;
        for (uint32_t k = 0; k < windows->window / STK_GRID; k++) first[k] += 1;
    }
    for (uint32_t i = 0; i < windows->length / STK_GRID; i++) shares[i] = 1 / shares[i];
}

int stk_window_pixels(const stoke_image *image, uint32_t x, uint32_t y, uint32_t width, uint32_t height,
                      stk_mem_buffer *room, stoke_image *pixels, stoke_error *err)
{
    const size_t pixel = (size_t)image->channels * image->depth;
    *pixels = *image;
    pixels->width = width;
    pixels->height = height;
    if (x + width <= image->width && y + height <= image->height) {
        pixels->data = (uint8_t *)image->data + y * image->stride + x * pixel;
        return STOKE_OK;
    }
    pixels->stride = width * pixel;
    pixels->data = stk_buffer_reserve(room, pixels->stride * height);
    if (!pixels->data)
        return stk_fail(err, STOKE_E_NOMEM, "no memory for a window of %u x %u pixels", width, height);
    const uint32_t inside = image->width - x < width ? image->width - x : width;
    for (uint32_t row = 0; row < height; row++) {
        const uint8_t *from =
            (const uint8_t *)image->data + stk_reflect((int64_t)y + row, image->height) * image->stride;
        uint8_t *to = (uint8_t *)pixels->data + row * pixels->stride;
        memcpy(to, from + x * pixel, inside * pixel);
        for (uint32_t i = inside; i < width; i++)
            memcpy(to + i * pixel, from + stk_reflect((int64_t)x + i, image->width) * pixel, pixel);
    }
    return STOKE_OK;
}
