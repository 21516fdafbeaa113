/* SPDX-License-Identifier: Apache-2.0
 *
 * Two rows of a batch into one: the reference of stk_pix_table.mix.
 */
#include "src/pix/mix.h"

#include "kernels/mix.h"
#include "src/base/half.h"

void stk_mix_f32_c(void *own, const void *other, size_t n, float lambda)
{
    float *a = own;
    const float *b = other;
    for (size_t i = 0; i < n; i++) a[i] = k_mixed(a[i], b[i], lambda);
}

/* Rounded to nearest, halves up: values are not negative. */
void stk_mix_u8_c(void *own, const void *other, size_t n, float lambda)
{
    uint8_t *a = own;
    const uint8_t *b = other;
    for (size_t i = 0; i < n; i++) a[i] = (uint8_t)(int)(k_mixed(a[i], b[i], lambda) + 0.5f);
}

void stk_mix_f16_c(void *own, const void *other, size_t n, float lambda)
{
    uint16_t *a = own;
    const uint16_t *b = other;
    for (size_t i = 0; i < n; i++) a[i] = stk_f16(k_mixed(stk_from_f16(a[i]), stk_from_f16(b[i]), lambda));
}

void stk_mix_bf16_c(void *own, const void *other, size_t n, float lambda)
{
    uint16_t *a = own;
    const uint16_t *b = other;
    for (size_t i = 0; i < n; i++) a[i] = stk_bf16(k_mixed(stk_from_bf16(a[i]), stk_from_bf16(b[i]), lambda));
}
