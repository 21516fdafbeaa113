/* SPDX-License-Identifier: Apache-2.0
 *
 * The decode head in double and in Hugging Face's order: project every stage, enlarge, concatenate with the
 * last stage first, fuse, normalise, ReLU, dropout, classify; and its gradients by walking back the same way.
 * Nothing here is folded. Only the dropout's bits are the head's own.
 */
#ifndef STOKE_TESTS_UNIT_FIXTURE_HEAD_ORACLE_H
#define STOKE_TESTS_UNIT_FIXTURE_HEAD_ORACLE_H

#include "tests/unit/unit.h"

#include <math.h>

#include "src/net/segformer/segformer_head.h"
#include "src/net/kernels/net_table.h"

typedef struct shape {
    uint32_t batch, height[4], width[4], channels[4], size, classes;
} shape;

/* Everything a gradient is taken of: parameters first, features last. */
enum {
    LINEAR_WEIGHT = 0,
    LINEAR_BIAS = 4,
    FUSE = 8,
    GAMMA,
    BETA,
    CLASS_WEIGHT,
    CLASS_BIAS,
    FEATURES,
    VALUES = 17
};

static inline size_t stage_rows(const shape *s, int stage)
{
    return (size_t)s->batch * s->height[stage] * s->width[stage];
}

static inline size_t value_count(const shape *s, int value)
{
    if (value < LINEAR_BIAS) return (size_t)s->size * s->channels[value];
    if (value == FUSE) return (size_t)s->size * s->size * 4;
    if (value == CLASS_WEIGHT) return (size_t)s->classes * s->size;
    if (value == CLASS_BIAS) return s->classes;
    return value < FEATURES ? s->size : stage_rows(s, value - FEATURES) * s->channels[value - FEATURES];
}

typedef struct oracle {
    shape s;
    double *value[VALUES], *d[VALUES];
    double running_mean[512], running_variance[512];
    double dropout;
    uint64_t seed;
    int training;
    double *wide;  /* [rows][4 D]: the concatenation */
    double *y, *r; /* [rows][D] */
    double mean[512], rstd[512];
    double *logits;      /* [rows][classes] */
    const float *passed; /* NULL, or [rows][D]: where this is not 0 ReLU and dropout pass, whatever y is */
} oracle;

static inline double *doubles(size_t count)
{
    double *p = calloc(count ? count : 1, sizeof *p);
    assert_non_null(p);
    return p;
}

static inline void oracle_create(oracle *o, const shape *s)
{
    *o = (oracle){ .s = *s, .training = 1 };
    for (int v = 0; v < VALUES; v++) {
        o->value[v] = doubles(value_count(s, v));
        o->d[v] = doubles(value_count(s, v));
    }
    const size_t rows = stage_rows(s, 0);
    o->wide = doubles(rows * s->size * 4);
    o->y = doubles(rows * s->size);
    o->r = doubles(rows * s->size);
    o->logits = doubles(rows * s->classes);
}

static inline void oracle_free(oracle *o)
{
    for (int v = 0; v < VALUES; v++) {
        free(o->value[v]);
        free(o->d[v]);
    }
    free(o->wide);
    free(o->y);
    free(o->r);
    free(o->logits);
}

/* The four pixels of stage `i` that pixel (h, w) of stage 0 is made of, and their shares. */
typedef struct corner {
    size_t row;
    double share;
} corner;

static inline void axis(uint32_t at, uint32_t in, uint32_t out, uint32_t index[2], double share[2])
{
    double source = ((double)at + 0.5) * ((double)in / out) - 0.5;
    if (source < 0) source = 0;
    index[0] = (uint32_t)floor(source);
    index[1] = index[0] == in - 1 ? index[0] : index[0] + 1;
    share[1] = source - index[0];
    share[0] = 1 - share[1];
}

static inline void corners(const shape *s, int i, uint32_t n, uint32_t h, uint32_t w, corner out[4])
{
    uint32_t line[2], column[2];
    double down[2], across[2];
    axis(h, s->height[i], s->height[0], line, down);
    axis(w, s->width[i], s->width[0], column, across);
    for (int k = 0; k < 4; k++) {
        out[k].row = ((size_t)n * s->height[i] + line[k / 2]) * s->width[i] + column[k % 2];
        out[k].share = down[k / 2] * across[k % 2];
    }
}

/* y[rows][n] = x[rows][k] w[n][k]^T + b */
static inline void product(size_t rows, size_t n, size_t k, const double *x, size_t x_stride, const double *w,
                           const double *b, double *y)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t j = 0; j < n; j++) {
            double sum = b ? b[j] : 0;
            for (size_t i = 0; i < k; i++) sum += x[r * x_stride + i] * w[j * k + i];
            y[r * n + j] = sum;
        }
}

/* Adds to dw and db (may be NULL), sets dx, from dy[rows][n]. */
static inline void product_back(size_t rows, size_t n, size_t k, const double *x, const double *w,
                                const double *dy, double *dx, double *dw, double *db)
{
    memset(dx, 0, rows * k * sizeof *dx);
    for (size_t r = 0; r < rows; r++)
        for (size_t j = 0; j < n; j++) {
            const double g = dy[r * n + j];
            if (db) db[j] += g;
            for (size_t i = 0; i < k; i++) {
                dx[r * k + i] += g * w[j * k + i];
                dw[j * k + i] += g * x[r * k + i];
            }
        }
}

/* The part of row `row` of the concatenation that stage i fills. */
static inline double *part_of(const shape *s, double *wide, size_t row, int i)
{
    return wide + (row * 4 + (size_t)(3 - i)) * s->size;
}

/* enlarge = 1: wide from projected; 0: projected += wide, transposed. */
static inline void resample(const shape *s, int i, double *projected, double *wide, int enlarge)
{
    size_t row = 0;
    for (uint32_t n = 0; n < s->batch; n++)
        for (uint32_t h = 0; h < s->height[0]; h++)
            for (uint32_t w = 0; w < s->width[0]; w++, row++) {
                corner at[4];
                corners(s, i, n, h, w, at);
                double *full = part_of(s, wide, row, i);
                for (size_t c = 0; c < s->size; c++) {
                    double sum = 0;
                    for (int k = 0; k < 4; k++) {
                        double *low = &projected[at[k].row * s->size + c];
                        sum += at[k].share * *low;
                        if (!enlarge) *low += at[k].share * full[c];
                    }
                    if (enlarge) full[c] = sum;
                }
            }
}

static inline double kept(const oracle *o, size_t row, uint32_t c)
{
    if (o->dropout == 0) return 1;
    const double threshold = floor(o->dropout * 65536 + 0.5);
    const uint32_t bits = stk_dropout_bits(stk_dropout_key(o->seed, row), c);
    return bits >= threshold ? 65536 / (65536 - threshold) : 0;
}

static inline void oracle_statistics(oracle *o)
{
    const size_t rows = stage_rows(&o->s, 0), size = o->s.size;
    for (size_t c = 0; c < size; c++) {
        double mean = 0, squares = 0;
        for (size_t r = 0; r < rows; r++) mean += o->y[r * size + c] / (double)rows;
        for (size_t r = 0; r < rows; r++) squares += pow(o->y[r * size + c] - mean, 2);
        if (!o->training) {
            mean = o->running_mean[c];
            squares = o->running_variance[c] * (double)rows;
        } else {
            o->running_mean[c] = 0.9 * o->running_mean[c] + 0.1 * mean;
            o->running_variance[c] =
                0.9 * o->running_variance[c] + 0.1 * squares / (double)(rows > 1 ? rows - 1 : 1);
        }
        o->mean[c] = mean;
        o->rstd[c] = 1 / sqrt(squares / (double)rows + 1e-5);
    }
}

static inline void oracle_forward(oracle *o)
{
    const shape *s = &o->s;
    const size_t rows = stage_rows(s, 0), size = s->size;
    for (int i = 0; i < 4; i++) {
        double *projected = doubles(stage_rows(s, i) * size);
        product(stage_rows(s, i), size, s->channels[i], o->value[FEATURES + i], s->channels[i],
                o->value[LINEAR_WEIGHT + i], o->value[LINEAR_BIAS + i], projected);
        resample(s, i, projected, o->wide, 1);
        free(projected);
    }
    product(rows, size, 4 * size, o->wide, 4 * size, o->value[FUSE], NULL, o->y);
    oracle_statistics(o);
    for (size_t r = 0; r < rows; r++)
        for (uint32_t c = 0; c < size; c++) {
            const double x = (o->y[r * size + c] - o->mean[c]) * o->rstd[c];
            const double value = x * o->value[GAMMA][c] + o->value[BETA][c];
            const int passes = o->passed ? o->passed[r * size + c] > 0 : value > 0;
            o->r[r * size + c] = passes ? value * kept(o, r, c) : 0;
        }
    product(rows, s->classes, size, o->r, size, o->value[CLASS_WEIGHT], o->value[CLASS_BIAS], o->logits);
}

/* dy in place of dr: dropout, ReLU, batch norm. */
static inline void oracle_norm_back(oracle *o, double *dr)
{
    const size_t rows = stage_rows(&o->s, 0), size = o->s.size;
    for (uint32_t c = 0; c < size; c++) {
        double g_sum = 0, gx_sum = 0;
        for (size_t r = 0; r < rows; r++) {
            double *g = &dr[r * size + c];
            const double x = (o->y[r * size + c] - o->mean[c]) * o->rstd[c];
            *g = o->r[r * size + c] != 0 ? *g * kept(o, r, c) : 0;
            g_sum += *g;
            gx_sum += *g * x;
        }
        o->d[BETA][c] += g_sum;
        o->d[GAMMA][c] += gx_sum;
        for (size_t r = 0; r < rows; r++) {
            double *g = &dr[r * size + c];
            const double x = (o->y[r * size + c] - o->mean[c]) * o->rstd[c];
            *g = o->value[GAMMA][c] * o->rstd[c] * (*g - g_sum / (double)rows - x * gx_sum / (double)rows);
        }
    }
}

/* Gradients of sum(logits * d_logits) after oracle_forward. */
static inline void oracle_backward(oracle *o, const double *d_logits)
{
    const shape *s = &o->s;
    const size_t rows = stage_rows(s, 0), size = s->size;
    for (int v = 0; v < VALUES; v++) memset(o->d[v], 0, value_count(s, v) * sizeof(double));
    double *dr = doubles(rows * size), *d_wide = doubles(rows * size * 4);
    product_back(rows, s->classes, size, o->r, o->value[CLASS_WEIGHT], d_logits, dr, o->d[CLASS_WEIGHT],
                 o->d[CLASS_BIAS]);
    oracle_norm_back(o, dr);
    product_back(rows, size, 4 * size, o->wide, o->value[FUSE], dr, d_wide, o->d[FUSE], NULL);
    for (int i = 0; i < 4; i++) {
        double *d_projected = doubles(stage_rows(s, i) * size);
        resample(s, i, d_projected, d_wide, 0);
        product_back(stage_rows(s, i), size, s->channels[i], o->value[FEATURES + i],
                     o->value[LINEAR_WEIGHT + i], d_projected, o->d[FEATURES + i], o->d[LINEAR_WEIGHT + i],
                     o->d[LINEAR_BIAS + i]);
        free(d_projected);
    }
    free(dr);
    free(d_wide);
}

#endif
