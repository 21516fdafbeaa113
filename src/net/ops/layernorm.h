/* SPDX-License-Identifier: Apache-2.0
 *
 * Layer normalisation over the channels of a token, eps 1e-5 (Hugging Face's modules use that everywhere,
 * whatever config.json says). Input f32; output f32 or the run's type.
 */
#ifndef STOKE_SRC_NET_OPS_LAYERNORM_H
#define STOKE_SRC_NET_OPS_LAYERNORM_H

#include "src/net/exec.h"

typedef struct stk_layernorm {
    uint32_t channels; /* a multiple of 8 */
    float eps;
    const float *gamma, *beta;
    float *d_gamma, *d_beta; /* NULL: frozen */
} stk_layernorm;

/* stats: two floats per row, mean and 1 / sqrt(variance + eps), written here, read by what follows. */
void stk_layernorm_forward(const stk_exec *run, const stk_layernorm *norm, size_t rows, const float *x,
                           float *stats, void *y, stk_float y_type);
/* Statistics only. */
void stk_layernorm_stats(const stk_exec *run, const stk_layernorm *norm, size_t rows, const float *x,
                         float *stats);

/* The normalised rows, made when they are needed from x and its statistics (for linear.h). */
typedef struct stk_layernorm_normalized {
    const struct stk_net_table *table;
    const stk_layernorm *norm;
    const float *x, *stats;
    stk_float type;
} stk_layernorm_normalized;
stk_exec_rows stk_normalised_rows(const stk_layernorm_normalized *source);

/* dx = residual + d(norm); residual NULL: none; it may be dx. dy of dy_type (f32 or the run's). */
void stk_layernorm_backward(const stk_exec *run, const stk_layernorm *norm, size_t rows, const float *x,
                            const float *stats, const void *dy, stk_float dy_type, const float *residual,
                            float *dx);
stk_exec_need stk_layernorm_need(const stk_exec *run, const stk_layernorm *norm, size_t rows);

#endif
