/* SPDX-License-Identifier: Apache-2.0
 *
 * conv in vectors.
 */
#include "src/net/kernels/net_table.h"
#include "src/net/kernels/simd.h"

STK_INLINE void sum_typed(void *out, stk_float to, const void *const *in, uint32_t count, stk_float from,
                          size_t elements, int add)
{
    size_t i = 0;
    for (; i + STK_LANES <= elements; i += STK_LANES) {
        vf sum = v_zero();
        for (uint32_t k = 0; k < count; k++) sum = v_add(sum, v_get(in[k], i, from));
        if (add) sum = v_add(sum, v_get(out, i, to));
        v_put(out, i, sum, to);
    }
    const size_t left = elements - i;
    if (!left) return;
    vf sum = v_zero();
    for (uint32_t k = 0; k < count; k++) sum = v_add(sum, v_get_part(in[k], i, left, from));
    if (add) sum = v_add(sum, v_get_part(out, i, left, to));
    v_put_part(out, i, left, sum, to);
}

static void sum_simd(void *out, stk_float to, const void *const *in, uint32_t count, stk_float from,
                     size_t elements, int add)
{
#define PAIR(a, b)                                                                                           \
    case (a)*STK_FLOATS + (b): sum_typed(out, b, in, count, a, elements, add); break
    switch (from * STK_FLOATS + to) {
        PAIR(STK_F32, STK_F32);
        PAIR(STK_F32, STK_BF16);
        PAIR(STK_F32, STK_F16);
        PAIR(STK_BF16, STK_F32);
        PAIR(STK_BF16, STK_BF16);
        PAIR(STK_BF16, STK_F16);
        PAIR(STK_F16, STK_F32);
        PAIR(STK_F16, STK_BF16);
        PAIR(STK_F16, STK_F16);
    }
#undef PAIR
}

/* One line of a patch, `pixels` <= STK_LANES; `room` elements may be written. */
STK_INLINE void line_typed(void *out, size_t at, size_t room, stk_float type, const float *in, size_t plane,
                           size_t pixels)
{
    vf rgb[3] = { v_load_part(in, pixels), v_load_part(in + plane, pixels),
                  v_load_part(in + 2 * plane, pixels) };
    v_interleave3(rgb);
    for (size_t v = 0; v < 3 && v * STK_LANES < pixels * 3; v++) {
        const size_t left = room - v * STK_LANES;
        v_put_part(out, at + v * STK_LANES, left < STK_LANES ? left : STK_LANES, rgb[v], type);
    }
}

/* The vectors of a line may reach into the next, which is written after them, but not beyond the patch: so
 * only its last line ends in a partial store, which costs as much as 20 whole ones. */
STK_INLINE void patch_typed(void *out, stk_float type, const float *in, size_t plane, size_t width,
                            uint32_t kernel)
{
    const size_t line = (size_t)kernel * 3, reach = (line + STK_LANES - 1) / STK_LANES * STK_LANES;
    size_t y = 0;
    for (; (kernel - y) * line >= reach; y++)
        line_typed(out, y * line, reach, type, in + y * width, plane, kernel);
    for (; y < kernel; y++)
        line_typed(out, y * line, (kernel - y) * line, type, in + y * width, plane, kernel);
}

static void patch_rgb_simd(void *out, stk_float type, const float *in, size_t plane, size_t width,
                           uint32_t kernel)
{
    if (kernel > STK_LANES) /* none is; pixel by pixel */
        for (size_t i = 0; i < (size_t)kernel * kernel * 3; i++)
            stk_put(out, i, in[i % 3 * plane + i / 3 / kernel * width + i / 3 % kernel], type);
    else if (type == STK_F32)
        patch_typed(out, STK_F32, in, plane, width, kernel);
    else if (type == STK_BF16)
        patch_typed(out, STK_BF16, in, plane, width, kernel);
    else
        patch_typed(out, STK_F16, in, plane, width, kernel);
}

void STK_SIMD(stk_conv_fill)(stk_conv_table *table)
{
    *table = (stk_conv_table){ .sum = sum_simd, .patch_rgb = patch_rgb_simd };
}
