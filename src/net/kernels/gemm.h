/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix products of one thread: the section of the function table for linear.h, one entry per type of
 * activations.
 *
 * B, the weights, is packed beforehand into what the kernel of the entry reads fastest: only its own `pack`
 * and `multiply` know that form. A, the activations, is read where it lies. Where the processor has no
 * arithmetic in the 16-bit type, its weights are rounded to it and everything is computed in f32.
 *
 * An element is summed over its k in an order that depends on (k, n) alone: not on the rows or columns asked
 * for together with it, so that callers may cut as they like.
 */
#ifndef STOKE_SRC_NET_KERNELS_GEMM_H
#define STOKE_SRC_NET_KERNELS_GEMM_H

#include "src/net/exec.h"

/* Where the f32 masters of B[k][n] lie. Outputs come from up to two arrays one after the other (key and
 * value); inputs may be permuted (taps of a convolution): element i of a row of X is multiplied by
 * weight[i % (in / taps) * taps + i / (in / taps)] of an output's weights. */
typedef struct stk_gemm_source {
    uint32_t in, out, taps, parts;
    const float *weight[2];
    size_t stride;        /* floats from output to output */
    const float *bias[2]; /* NULL: zeros */
    int transposed;       /* 0: k are inputs, n outputs. 1: k are outputs, n inputs, no bias */
} stk_gemm_source;

/* Y = (X B + bias) * scale + residual for some columns of Y. */
typedef struct stk_gemm_product {
    size_t k, n;           /* of B as packed */
    const void *packed;    /* 64-byte aligned */
    size_t first, columns; /* which: first is a multiple of `panel`, and so is columns unless they are the
                              last; y and residual below point to column 0 all the same */
    int bias;              /* 0: leave it out */
    const float *scale;    /* NULL, or a factor per sample_rows rows, of which `row` is the first one's */
    size_t sample_rows, row;
    stk_float type;          /* of y: the entry's, or f32 */
    const void *residual;    /* NULL, or laid out like y; may be y itself when the types agree */
    stk_float residual_type; /* f32, or that of y */
} stk_gemm_product;

/* dW[n][k] = or += dY^T X and db[n] = or += column sums of dY, over some rows; n and k may be a part of the
 * layer's. */
typedef struct stk_gemm_outer {
    size_t rows, n, k;
    const void *dy, *x; /* of the entry's type, at the first row and column */
    size_t dy_stride, x_stride;
    float *dw;
    size_t dw_stride;
    float *db;     /* NULL: not wanted */
    int add;       /* += */
    void *scratch; /* outer_scratch bytes, 64-byte aligned */
} stk_gemm_outer;

typedef struct stk_gemm {
    uint32_t panel; /* columns of B that lie together: pack and multiply start at multiples of it */
    uint32_t strip; /* rows of A multiplied together: multiples of it waste nothing */
    size_t (*packed_bytes)(size_t k, size_t n); /* bias included; a multiple of 64 */
    /* Columns first .. first + columns (cut like those of stk_gemm_product) with their bias. */
    void (*pack)(const stk_gemm_source *source, size_t first, size_t columns, void *packed);
    void (*multiply)(const stk_gemm_product *product, size_t rows, const void *x, size_t x_stride, void *y,
                     size_t y_stride);
    size_t outer_scratch;
    void (*outer)(const stk_gemm_outer *outer);
} stk_gemm;

typedef struct stk_gemm_table {
    stk_gemm of[STK_FLOATS];
} stk_gemm_table;

/* k and n of what `source` is packed to. */
static inline size_t stk_gemm_source_k(const stk_gemm_source *source)
{
    return source->transposed ? source->out : source->in;
}
static inline size_t stk_gemm_source_n(const stk_gemm_source *source)
{
    return source->transposed ? source->in : source->out;
}

/* Where the weight of (output, input) lies, as the sum of what the output and what the input contribute. */
static inline const float *stk_gemm_output(const stk_gemm_source *source, size_t output)
{
    const size_t each = source->out / source->parts;
    return source->weight[output / each] + output % each * source->stride;
}
static inline size_t stk_gemm_input(const stk_gemm_source *source, size_t input)
{
    const size_t channels = source->in / source->taps;
    return input % channels * source->taps + input / channels;
}
static inline float stk_gemm_bias(const stk_gemm_source *source, size_t output)
{
    const size_t each = source->out / source->parts;
    const float *bias = source->bias[output / each];
    return bias ? bias[output % each] : 0.0f;
}

void stk_gemm_fill_c(stk_gemm_table *table);
void stk_gemm_fill_avx2(stk_gemm_table *table);
void stk_gemm_fill_avx512(stk_gemm_table *table);
void stk_gemm_fill_amx(stk_gemm_table *table); /* bf16 only */

#endif
