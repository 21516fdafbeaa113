/* SPDX-License-Identifier: Apache-2.0
 *
 * The linear layer: Y = X W^T + b, dX = dY W, dW = dY^T X, db = column sums of dY. Patch embeddings and
 * sequence reductions are linear layers too, on rows of patches (conv.h).
 *
 * Weights are packed once per step into the form the kernel of the table wants (gemm.h); masters stay in
 * PyTorch's layout. Outputs are independent of how rows are cut: the k of an element are summed in one order.
 * dW is summed over chunks of rows whose number depends on the shape alone, then the chunks in order.
 */
#ifndef STOKE_SRC_NET_OPS_LINEAR_H
#define STOKE_SRC_NET_OPS_LINEAR_H

#include "src/net/exec.h"

typedef struct stk_linear {
    uint32_t in, out; /* elements of a row of X and of Y */
    uint32_t taps;    /* of a convolution: the master is [out][in / taps][taps] (OIHW) while rows of X run
                         tap by tap, channels fastest; 1 for a plain layer */
    uint32_t parts;   /* 1; 2: key and value, two masters of out / 2 outputs each, one after the other */
    const float *weight[2]; /* masters, [out / parts][in] */
    const float *bias[2];   /* out / parts each; NULL: none */
    float *d_weight[2];     /* their gradients, laid out alike; NULL: frozen, not computed */
    float *d_bias[2];       /* NULL: none, or frozen */
    size_t weight_stride;   /* floats from output to output of a master: `in`, or more in a wider one */
    /* Packed, of stk_linear_packed bytes each, 64-byte aligned. backward NULL: dX is never asked for. */
    void *forward, *backward;
} stk_linear;

/* Bytes of `forward` (which = 0: in -> out, padded bias included) and `backward` (1: out -> in). */
size_t stk_linear_packed(const stk_exec *run, const stk_linear *linear, int which);
/* Packs `count` layers, all threads at work. Before the first forward and after every update. */
void stk_linear_pack(const stk_exec *run, const stk_linear *const *linears, size_t count);

/* What becomes of X W^T. In this order: + bias, * scale, + residual. */
typedef struct stk_linear_finish {
    stk_float type;        /* of Y: the run's or STK_F32 */
    const float *scale;    /* NULL, or one factor per sample (drop path); 0 drops the sample */
    size_t sample_rows;    /* rows of a sample, for `scale` */
    const float *residual; /* NULL, or f32 with the stride of Y; may be Y itself when that is f32 */
    int no_bias;
} stk_linear_finish;

/* y[row][0 .. out) for `rows` rows, y_stride elements apart. Elements of y beyond `out` are left alone. */
void stk_linear_forward(const stk_exec *run, const stk_linear *linear, size_t rows, const stk_exec_rows *x,
                        const stk_linear_finish *finish, void *y, size_t y_stride);
/* dx[row][0 .. in) (=, or += when add) of `type` from dy of the run's type. */
void stk_linear_input(const stk_exec *run, const stk_linear *linear, size_t rows, const stk_exec_rows *dy,
                      void *dx, size_t dx_stride, stk_float type, int add);
/* Gradients of weight and bias, honouring run->accumulate. */
void stk_linear_weight(const stk_exec *run, const stk_linear *linear, size_t rows, const stk_exec_rows *x,
                       const stk_exec_rows *dy);
/* One thread's share of forward and input, for operations that fuse the layer with what comes before or after
 * (segformer_head.h). The rows lie in memory. */
void stk_linear_forward_rows(const stk_exec *run, const stk_linear *linear, size_t rows, const void *x,
                             size_t x_stride, const stk_linear_finish *finish, void *y, size_t y_stride);
void stk_linear_input_rows(const stk_exec *run, const stk_linear *linear, size_t rows, const void *dy,
                           size_t dy_stride, void *dx, size_t dx_stride, stk_float type, int add);

/* Enough for all three on up to `rows` rows. Rows that are made may have a stride of their width rounded up
 * to a multiple of 32 elements, not more. */
stk_exec_need stk_linear_need(const stk_exec *run, const stk_linear *linear, size_t rows);

/* C[m][n] (c_stride floats apart, = or +=) of small f32 matrices that are not activations (the folded
 * decoder): A[m][k] times B[k][n], either one optionally given transposed. Both are packed into `room`,
 * stk_multiply_room(k, n) bytes of it. In f32 in every precision. */
size_t stk_multiply_room(const stk_exec *run, size_t k, size_t n);
typedef struct stk_linear_matrix {
    const float *data;
    size_t stride;
    int transposed; /* 1: data holds the transpose */
} stk_linear_matrix;
void stk_multiply(const stk_exec *run, size_t m, size_t n, size_t k, stk_linear_matrix a, stk_linear_matrix b,
                  float *c, size_t c_stride, int add, void *room);

#endif
