/* SPDX-License-Identifier: Apache-2.0
 *
 * The reference of the warp's inner rows, in plain C.
 */
#include "kernels/spline.h"
#include "src/pix/warp_pixel.h"

#define DEFINE_BILINEAR(name, type, blend)                                                                   \
    void name(void *dst, const void *src, size_t stride, const stk_pix_warp_line *line, size_t n)            \
    {                                                                                                        \
        type *out = dst;                                                                                     \
        for (size_t i = 0; i < n; i++, out += 3) {                                                           \
            const uint64_t x = stk_warp_x(line, i) + K_WARP_HALF_STEP;                                       \
            const uint64_t y = stk_warp_y(line, i) + K_WARP_HALF_STEP;                                       \
            const uint32_t wx = k_warp_weight(x), wy = k_warp_weight(y);                                     \
            const uint8_t *row = (const uint8_t *)src + (size_t)k_warp_whole(y) * stride;                    \
            const type *t = (const type *)row + (size_t)k_warp_whole(x) * 3;                                 \
            const type *b = (const type *)(row + stride) + (size_t)k_warp_whole(x) * 3;                      \
            for (int c = 0; c < 3; c++) out[c] = blend(t[c], t[c + 3], b[c], b[c + 3], wx, wy);              \
        }                                                                                                    \
    }
DEFINE_BILINEAR(stk_warp_u8c3_c, uint8_t, k_warp_blend_u8)
DEFINE_BILINEAR(stk_warp_u16c3_c, uint16_t, k_warp_blend_u16)
#undef DEFINE_BILINEAR

#define DEFINE_NEAREST(name, type)                                                                           \
    void name(void *dst, const void *src, size_t stride, const stk_pix_warp_line *line, size_t n)            \
    {                                                                                                        \
        type *out = dst;                                                                                     \
        for (size_t i = 0; i < n; i++) {                                                                     \
            const int32_t x = k_warp_whole(stk_warp_x(line, i) + K_WARP_HALF_PIXEL);                         \
            const int32_t y = k_warp_whole(stk_warp_y(line, i) + K_WARP_HALF_PIXEL);                         \
            out[i] = ((const type *)((const uint8_t *)src + (size_t)y * stride))[x];                         \
        }                                                                                                    \
    }
DEFINE_NEAREST(stk_warp_u8c1_c, uint8_t)
DEFINE_NEAREST(stk_warp_u16c1_c, uint16_t)
#undef DEFINE_NEAREST

void stk_cubic_c(int32_t *shift, const float *t, size_t n, const stk_pix_cubic *cubic)
{
    for (size_t i = 0; i < n; i++) shift[i] = k_spline_shift(cubic->a, t[i], cubic->limit);
}
