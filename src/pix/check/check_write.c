/* SPDX-License-Identifier: Apache-2.0
 *
 * Trials of what fills a batch row: image writers, mask widening, mirrored rows.
 */
#include <stdio.h>

#include "src/base/mem.h"
#include "src/pix/check/check.h"

enum kind { WRITE, WIDEN, REVERSE };
/* Bytes of a source sample (REVERSE: of a pixel), bytes of an output element, and what writers are told. */
enum arg { DEPTH, ELEMENT, DTYPE, LAYOUT };

#define WRITER(depth, bits, name, dtype, element)                                                            \
    { "write_u" #bits "_" name "_chw",                                                                       \
      STK_KERNEL_CHECK_AT(write_u##bits[dtype][STOKE_LAYOUT_CHW]),                                           \
      WRITE,                                                                                                 \
      { depth, element, dtype, STOKE_LAYOUT_CHW } },                                                         \
    {                                                                                                        \
        "write_u" #bits "_" name "_hwc", STK_KERNEL_CHECK_AT(write_u##bits[dtype][STOKE_LAYOUT_HWC]), WRITE, \
        {                                                                                                    \
            depth, element, dtype, STOKE_LAYOUT_HWC                                                          \
        }                                                                                                    \
    }
#define WIDENER(depth, bits, name, dtype, element)                                                           \
    {                                                                                                        \
        "widen_u" #bits "_" name, STK_KERNEL_CHECK_AT(widen_u##bits[dtype]), WIDEN,                          \
        {                                                                                                    \
            depth, element                                                                                   \
        }                                                                                                    \
    }
#define REVERSER(bytes, alignment)                                                                           \
    {                                                                                                        \
        "reverse_" #bytes, STK_KERNEL_CHECK_AT(reverse_##bytes), REVERSE,                                    \
        {                                                                                                    \
            bytes, alignment                                                                                 \
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
