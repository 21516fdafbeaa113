/* SPDX-License-Identifier: Apache-2.0
 *
 * Trials of what fills a batch row: image writers, mask widening, mirrored rows.
 */
#include <stdio.h>

#include <string.h>

#include "src/base/half.h"
#include "src/base/mem.h"
#include "src/pix/check/check.h"

/* Bytes of an output element, what writers and blends are told, bytes of a source sample (REVERSE: of a
 * pixel). */
enum arg { ELEMENT, DTYPE, LAYOUT, DEPTH };

/* Trials of the blend of two batch rows. */

static const stk_kernel_check mix_checks[] = {
    { "mix_u8", STK_KERNEL_CHECK_AT(mix[STOKE_DTYPE_U8]), 0, { 1, STOKE_DTYPE_U8 } },
    { "mix_f32", STK_KERNEL_CHECK_AT(mix[STOKE_DTYPE_F32]), 0, { 4, STOKE_DTYPE_F32 } },
    { "mix_f16", STK_KERNEL_CHECK_AT(mix[STOKE_DTYPE_F16]), 0, { 2, STOKE_DTYPE_F16 } },
    { "mix_bf16", STK_KERNEL_CHECK_AT(mix[STOKE_DTYPE_BF16]), 0, { 2, STOKE_DTYPE_BF16 } },
};

typedef struct mix_state {
    size_t n; /* elements */
    float lambda;
} mix_state;

static int mix_shape(stk_kernel_check_call *call, stk_kernel_check_random *random)
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

static void mix_fill(stk_kernel_check_call *call, stk_kernel_check_random *random)
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

static void mix_invoke(const stk_pix_table *table, const stk_kernel_check_call *call, uint8_t *out)
{
    const mix_state *state = call->state;
    stk_mix_fn *mix = (stk_mix_fn *)stk_kernel_check_entry(table, call->check);
    mix(out, call->source[1].data, state->n, state->lambda);
}

const stk_kernel_check_family stk_kernel_checks_mix = {
    .shape = mix_shape,
    .fill = mix_fill,
    .invoke = mix_invoke,
    .release = stk_kernel_check_release,
    .checks = mix_checks,
    .n_checks = sizeof mix_checks / sizeof *mix_checks,
};

enum kind { WRITE, WIDEN, REVERSE };

#define WRITER(depth, bits, name, dtype, element)                                                            \
    { "write_u" #bits "_" name "_chw",                                                                       \
      STK_KERNEL_CHECK_AT(write_u##bits[dtype][STOKE_LAYOUT_CHW]),                                           \
      WRITE,                                                                                                 \
      { element, dtype, STOKE_LAYOUT_CHW, depth } },                                                         \
    {                                                                                                        \
        "write_u" #bits "_" name "_hwc", STK_KERNEL_CHECK_AT(write_u##bits[dtype][STOKE_LAYOUT_HWC]), WRITE, \
        {                                                                                                    \
            element, dtype, STOKE_LAYOUT_HWC, depth                                                          \
        }                                                                                                    \
    }
#define WIDENER(depth, bits, name, dtype, element)                                                           \
    {                                                                                                        \
        "widen_u" #bits "_" name, STK_KERNEL_CHECK_AT(widen_u##bits[dtype]), WIDEN,                          \
        {                                                                                                    \
            element, 0, 0, depth                                                                             \
        }                                                                                                    \
    }
#define REVERSER(bytes, alignment)                                                                           \
    {                                                                                                        \
        "reverse_" #bytes, STK_KERNEL_CHECK_AT(reverse_##bytes), REVERSE,                                    \
        {                                                                                                    \
            alignment, 0, 0, bytes                                                                           \
        }                                                                                                    \
    }

static const stk_kernel_check checks[] = {
    WRITER(1, 8, "u8", STOKE_DTYPE_U8, 1),
    WRITER(1, 8, "f32", STOKE_DTYPE_F32, 4),
    WRITER(1, 8, "f16", STOKE_DTYPE_F16, 2),
    WRITER(1, 8, "bf16", STOKE_DTYPE_BF16, 2),
    WRITER(2, 16, "u8", STOKE_DTYPE_U8, 1),
    WRITER(2, 16, "f32", STOKE_DTYPE_F32, 4),
    WRITER(2, 16, "f16", STOKE_DTYPE_F16, 2),
    WRITER(2, 16, "bf16", STOKE_DTYPE_BF16, 2),
    WIDENER(1, 8, "u8", STOKE_DTYPE_U8, 1),
    WIDENER(1, 8, "u16", STOKE_DTYPE_U16, 2),
    WIDENER(1, 8, "i32", STOKE_DTYPE_I32, 4),
    WIDENER(1, 8, "i64", STOKE_DTYPE_I64, 8),
    WIDENER(2, 16, "u8", STOKE_DTYPE_U8, 1),
    WIDENER(2, 16, "u16", STOKE_DTYPE_U16, 2),
    WIDENER(2, 16, "i32", STOKE_DTYPE_I32, 4),
    WIDENER(2, 16, "i64", STOKE_DTYPE_I64, 8),
    REVERSER(1, 1),
    REVERSER(2, 2),
    REVERSER(3, 1),
    REVERSER(6, 2),

};

typedef struct write_state {
    size_t n, plane; /* pixels; elements between the planes of a CHW row */
    stk_pix_writer writer;
} write_state;

static int shape(stk_kernel_check_call *call, stk_kernel_check_random *random)
{
    const unsigned *arg = call->check->arg;
    write_state *state = call->state = stk_calloc(1, sizeof *state);
    if (!state) return 0;
    state->n = random ? stk_kernel_check_size(random, 400) : 512 * 512;
    state->plane = state->n + (random ? stk_kernel_check_below(random, 20) : 0);
    const size_t sample = arg[DEPTH], element = arg[ELEMENT];
    switch ((enum kind)call->check->kind) {
    case WRITE:
        call->source[0].bytes = state->n * 3 * sample;
        call->out_bytes = 3 * state->plane * element;
        stk_writer_init(&state->writer, (stoke_dtype)arg[DTYPE], (stoke_layout)arg[LAYOUT],
                        random ? (stoke_normalize)stk_kernel_check_below(random, 3)
                               : STOKE_NORMALIZE_IMAGENET);
        break;
    case WIDEN:
        call->source[0].bytes = state->n * sample;
        call->out_bytes = state->n * element;
        break;
    case REVERSE: call->source[0].bytes = call->out_bytes = state->n * sample; break;
    }
    call->out_align = element;
    call->pixels = state->n;
    snprintf(call->text, sizeof call->text, "%zu pixels, %zu apart", state->n, state->plane);
    return 1;
}

static void fill(stk_kernel_check_call *call, stk_kernel_check_random *random)
{
    stk_kernel_check_fill(call->source[0].data, call->source[0].bytes, random);
}

static void invoke(const stk_pix_table *table, const stk_kernel_check_call *call, uint8_t *out)
{
    const write_state *s = call->state;
    const void *src = call->source[0].data;
    stk_kernel_check_fn *f = stk_kernel_check_entry(table, call->check);
    switch ((enum kind)call->check->kind) {
    case WRITE: ((stk_write_fn *)f)(&s->writer, out, s->plane, src, s->n); break;
    case WIDEN: ((stk_widen_fn *)f)(out, src, s->n); break;
    case REVERSE: ((stk_reverse_fn *)f)(out, src, s->n); break;
    }
}

const stk_kernel_check_family stk_kernel_checks_write = {
    .shape = shape,
    .fill = fill,
    .invoke = invoke,
    .release = stk_kernel_check_release,
    .checks = checks,
    .n_checks = sizeof checks / sizeof *checks,
};
