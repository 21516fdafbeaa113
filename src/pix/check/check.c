/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of checks, and random inputs.
 */
#include "src/pix/check/check.h"

#include <string.h>

#include "src/base/mem.h"

static const stk_kernel_check_family *const families[] = {
#define STK_KERNEL_CHECKS(name) &stk_kernel_checks_##name,
#include "src/pix/check/checks.def"
#undef STK_KERNEL_CHECKS
};

void stk_kernel_check_release(stk_kernel_check_call *call)
{
    stk_free(call->state);
    call->state = NULL;
}

const stk_kernel_check *stk_kernel_check_at(size_t i, const stk_kernel_check_family **family)
{
    for (size_t f = 0; f < sizeof families / sizeof *families; f++) {
        if (i < families[f]->n_checks) {
            *family = families[f];
            return &families[f]->checks[i];
        }
        i -= families[f]->n_checks;
    }
    return NULL;
}

stk_kernel_check_fn *stk_kernel_check_entry(const stk_pix_table *table, const stk_kernel_check *check)
{
    stk_kernel_check_fn *function;
    memcpy(&function, (const char *)table + check->offset, sizeof function);
    return function;
}

uint32_t stk_kernel_check_size(stk_kernel_check_random *r, uint32_t most)
{
    const uint32_t small = most < 40 ? most : 40;
    return 1 + stk_kernel_check_below(r, stk_kernel_check_below(r, 2) ? most
                                                                      : 1 + stk_kernel_check_below(r, small));
}

void stk_kernel_check_fill(uint8_t *data, size_t bytes, stk_kernel_check_random *r)
{
    const int extremes = stk_kernel_check_below(r, 4) == 0;
    for (size_t i = 0; i < bytes; i++) {
        const uint8_t v = (uint8_t)(stk_kernel_check_draw(r) >> 20);
        data[i] = !extremes ? v : v & 1 ? 255 : 0;
    }
}

void stk_kernel_check_fill_floats(float *data, size_t count, float most, stk_kernel_check_random *r)
{
    const int extremes = stk_kernel_check_below(r, 4) == 0;
    for (size_t i = 0; i < count; i++) {
        const float v =
            (float)(stk_kernel_check_draw(r) >> 40) * (1 / 16777215.0f); /* 24 bits: exact, 0 .. 1 */
        data[i] = !extremes ? v * most : v < 0.5f ? 0 : most;
    }
}
