/* SPDX-License-Identifier: Apache-2.0
 *
 * conv: the reference in C.
 */
#include "src/net/kernels/net_table.h"

static void sum_c(void *out, stk_float to, const void *const *in, uint32_t count, stk_float from,
                  size_t elements, int add)
{
    for (size_t i = 0; i < elements; i++) {
        float sum = 0;
        for (uint32_t k = 0; k < count; k++) sum += stk_get(in[k], i, from);
        if (add) sum += stk_get(out, i, to);
        stk_put(out, i, sum, to);
    }
}

static void patch_rgb_c(void *out, stk_float type, const float *in, size_t plane, size_t width,
                        uint32_t kernel)
{
    for (size_t y = 0; y < kernel; y++)
        for (size_t x = 0; x < kernel; x++)
            for (size_t c = 0; c < 3; c++)
                stk_put(out, (y * kernel + x) * 3 + c, in[c * plane + y * width + x], type);
}

void stk_conv_fill_c(stk_conv_table *table)
{
    *table = (stk_conv_table){ .sum = sum_c, .patch_rgb = patch_rgb_c };
}
