/* SPDX-License-Identifier: Apache-2.0
 *
 * Trials of the blend of two batch rows.
 */
#include <stdio.h>
#include <string.h>

#include "src/base/mem.h"
#include "src/base/half.h"
#include "src/pix/check/check.h"

enum arg { DTYPE, ELEMENT };

static const stk_kernel_check checks[] = {
    { "mix_u8", STK_KERNEL_CHECK_AT(mix[STOKE_DTYPE_U8]), 0, { STOKE_DTYPE_U8, 1 } },
    { "mix_f32", STK_KERNEL_CHECK_AT(mix[STOKE_DTYPE_F32]), 0, { STOKE_DTYPE_F32, 4 } },
    { "mix_f16", STK_KERNEL_CHECK_AT(mix[STOKE_DTYPE_F16]), 0, { STOKE_DTYPE_F16, 2 } },
    { "mix_bf16", STK_KERNEL_CHECK_AT(mix[STOKE_DTYPE_BF16]), 0, { STOKE_DTYPE_BF16, 2 } },
};

typedef struct mix_state {
    size_t n; /* elements */
    float lambda;
} mix_state;

static int shape(stk_kernel_check_call *call, stk_kernel_check_random *random)
{
    mix_state *state = call->state = stk_calloc(1, sizeof *state);
    if (!state) return 0;
    state->n = random ? stk_kernel_check_size(random, 1000) : 512 * 512 * 3;
    /* Both ends are lambdas too: the one leaves the row as it is, the other replaces it. */
    state->lambda = random ? (float)stk_kernel_check_below(random, 1025) / 1024 : 0.3f;
    call->source[0].bytes = call->source[1].bytes = call->out_bytes = state->n * call->check->arg[ELEMENT];
    call->out_align = call->check->arg[ELEMENT];
    call->in_place = 1;
    call->pixels = (state->n + 2) / 3;
    snprintf(call->text, sizeof call->text, "%zu elements, lambda %g", state->n, (double)state->lambda);
    return 1;
}

/* Elements as batches have them: a few units around 0, tiny ones among them (subnormal as f16). */
static float element(stk_kernel_check_random *random)
{
    const float unit = (float)(int32_t)stk_kernel_check_draw(random) * 0x1p-29f;
    return stk_kernel_check_below(random, 8) ? unit : unit * 0x1p-16f;
}

static void fill(stk_kernel_check_call *call, stk_kernel_check_random *random)
{
    const mix_state *state = call->state;
    for (int source = 0; source < 2; source++) {
        uint8_t *data = call->source[source].data;
        if (call->check->arg[DTYPE] == STOKE_DTYPE_U8) {
            stk_kernel_check_fill(data, call->source[source].bytes, random);
            continue;
        }
        for (size_t i = 0; i < state->n; i++) {
            const float value = element(random);
            const uint16_t bits =
                call->check->arg[DTYPE] == STOKE_DTYPE_F16 ? stk_f16(value) : stk_bf16(value);
            if (call->check->arg[DTYPE] == STOKE_DTYPE_F32)
                memcpy(data + i * sizeof value, &value, sizeof value);
            else
                memcpy(data + i * sizeof bits, &bits, sizeof bits);
        }
    }
}

static void invoke(const stk_pix_table *table, const stk_kernel_check_call *call, uint8_t *out)
{
    const mix_state *state = call->state;
    stk_mix_fn *mix = (stk_mix_fn *)stk_kernel_check_entry(table, call->check);
    mix(out, call->source[1].data, state->n, state->lambda);
}

const stk_kernel_check_family stk_kernel_checks_mix = {
    .shape = shape,
    .fill = fill,
    .invoke = invoke,
    .release = stk_kernel_check_release,
    .checks = checks,
    .n_checks = sizeof checks / sizeof *checks,
};
