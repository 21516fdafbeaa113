/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks of what fills a batch row: image writers, mask widening, mirrored rows, the blend of two rows.
 */
#include <stdio.h>

#include <string.h>

#include "kernels/half.h"
#include "src/pix/check/check.h"

typedef struct write_state {
    size_t n, plane; /* pixels, or elements of a blend; elements between the planes of a CHW row */
    float lambda;    /* of a blend */
    stk_pix_writer writer;
} write_state;

static int shape_mix(stk_kernel_check_call *call, write_state *state, stk_kernel_check_random *random)
{
    const size_t element = stk_element_bytes(call->check->dtype);
    state->n = random ? stk_kernel_check_size(random, 1000) : 512 * 512 * 3;
    /* Both ends are lambdas too: the one leaves the row as it is, the other replaces it. */
    state->lambda = random ? (float)stk_kernel_check_below(random, 1025) / 1024 : 0.3f;
    call->source[0].bytes = call->source[1].bytes = call->out_bytes = state->n * element;
    call->out_align = element;
    call->in_place = 1;
    call->pixels = (state->n + 2) / 3;
    snprintf(call->text, sizeof call->text, "%zu elements, lambda %g", state->n, (double)state->lambda);
    return 1;
}

static int shape(stk_kernel_check_call *call, stk_kernel_check_random *random)
{
    const stk_kernel_check *check = call->check;
    write_state *state = call->state;
    if (check->kind == STK_CHECK_mix) return shape_mix(call, state, random);
    state->n = random ? stk_kernel_check_size(random, 400) : 512 * 512;
    state->plane = state->n + (random ? stk_kernel_check_below(random, 20) : 0);
    call->out_align = stk_element_bytes(check->dtype);
    call->source[0].bytes = state->n * check->channels * check->depth;
    call->out_bytes = state->n * check->channels * call->out_align;
    if (check->kind == STK_CHECK_write) {
        call->out_bytes = 3 * state->plane * call->out_align;
        stk_writer_init(&state->writer, check->dtype, check->layout,
                        random ? (stoke_normalize)stk_kernel_check_below(random, 3)
                               : STOKE_NORMALIZE_IMAGENET);
    }
    call->pixels = state->n;
    snprintf(call->text, sizeof call->text, "%zu pixels, %zu apart", state->n, state->plane);
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
    const write_state *state = call->state;
    const stoke_dtype dtype = call->check->dtype;
    const int floats = call->check->kind == STK_CHECK_mix && dtype != STOKE_DTYPE_U8;
    for (int source = 0; source < 2; source++) {
        uint8_t *data = call->source[source].data;
        if (!floats && call->source[source].bytes)
            stk_kernel_check_fill(data, call->source[source].bytes, random);
        for (size_t i = 0; floats && i < state->n; i++) {
            const float value = element(random);
            const uint16_t bits = dtype == STOKE_DTYPE_F16 ? k_f16(value) : k_bf16(value);
            if (dtype == STOKE_DTYPE_F32)
                memcpy(data + i * sizeof value, &value, sizeof value);
            else
                memcpy(data + i * sizeof bits, &bits, sizeof bits);
        }
    }
}

static void invoke(const stk_pix_table *table, const stk_kernel_check_call *call, uint8_t *out)
{
    const write_state *s = call->state;
    const void *src = call->source[0].data;
    stk_kernel_check_fn *f = stk_kernel_check_entry(table, call->check);
    switch (call->check->kind) {
    case STK_CHECK_mix: ((stk_mix_fn *)f)(out, call->source[1].data, s->n, s->lambda); break;
    case STK_CHECK_write: ((stk_write_fn *)f)(&s->writer, out, s->plane, src, s->n); break;
    case STK_CHECK_widen: ((stk_widen_fn *)f)(out, src, s->n); break;
    default: ((stk_reverse_fn *)f)(out, src, s->n); break;
    }
}

const stk_kernel_check_family stk_kernel_checks_write = { sizeof(write_state), shape, fill, invoke };
