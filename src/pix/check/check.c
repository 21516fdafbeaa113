/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of checks, and random inputs.
 */
#include "src/pix/check/check.h"

#include <string.h>

#include "src/base/mem.h"

static const stk_kernel_check checks[] = {
#define PIX(family, type, member, name, channels, depth, dtype, layout)                                      \
    { #name,                                                                                                 \
      offsetof(stk_pix_table, member),                                                                       \
      &stk_kernel_checks_##family,                                                                           \
      STK_CHECK_##type,                                                                                      \
      channels,                                                                                              \
      depth,                                                                                                 \
      STOKE_DTYPE_##dtype,                                                                                   \
      STOKE_LAYOUT_##layout },
#include "src/pix/pix_functions.def"
#undef PIX
};

const stk_kernel_check *stk_kernel_check_at(size_t i)
{
    return i < sizeof checks / sizeof *checks ? &checks[i] : NULL;
}

int stk_kernel_check_begin(stk_kernel_check_call *call, const stk_kernel_check *check,
                           stk_kernel_check_random *random)
{
    *call = (stk_kernel_check_call){ .check = check, .state = stk_calloc(1, check->family->state_bytes) };
    return call->state && check->family->shape(call, random);
}

void stk_kernel_check_end(stk_kernel_check_call *call)
{
    stk_buffer_free(&call->buffer);
    stk_free(call->state);
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
