/* SPDX-License-Identifier: Apache-2.0
 *
 * Trials of the matrix products. The packed form is the column's own, so packing and multiplying are tried
 * together, whole or in pieces.
 */
#include <stdio.h>

#include "tests/check/net_check.h"

/* Masters of random layers: plain, of a convolution, in two parts, either way round. */
static stk_gemm_source draw_source(net_try *t)
{
    const uint32_t taps = net_below(t, 3) ? 1 : net_between(t, 2, 9), parts = net_between(t, 1, 2);
    stk_gemm_source s = { .taps = taps,
                          .parts = parts,
                          .in = taps * net_between(t, 1, 160 / taps),
                          .out = parts * net_between(t, 1, 100 / parts),
                          .transposed = (int)net_below(t, 2) };
    const size_t each = s.out / parts;
    s.stride = s.in + net_below(t, 2) * net_below(t, 9);
    for (uint32_t i = 0; i < parts; i++) {
        s.weight[i] = net_array(t, STK_F32, (each - 1) * s.stride + s.in);
        if (!s.transposed && net_below(t, 4)) s.bias[i] = net_array(t, STK_F32, each);
    }
    return s;
}

/* Packs all columns, in one go or in pieces of a few panels. */
static void *pack(net_try *t, const stk_gemm *gemm, const stk_gemm_source *source, size_t piece)
{
    const size_t n = stk_gemm_source_n(source), step = piece * gemm->panel;
    void *packed = net_room(t, gemm->packed_bytes(stk_gemm_source_k(source), n));
    for (size_t first = 0; first < n; first += step)
        gemm->pack(source, first, n - first < step ? n - first : step, packed);
    return packed;
}

static int try_multiply(const net_trial *trial, net_try *t)
{
    const stk_float type = (stk_float)trial->variant;
    const stk_gemm_source source = draw_source(t);
    stk_gemm_product p = { .k = stk_gemm_source_k(&source),
                           .n = stk_gemm_source_n(&source),
                           .bias = (int)net_below(t, 2),
                           .sample_rows = net_between(t, 1, 12),
                           .row = net_below(t, 20),
                           .type = net_below(t, 2) ? type : STK_F32 };
    const size_t rows = net_between(t, 1, 75), piece = net_between(t, 1, 5);
    const size_t x_stride = p.k + net_below(t, 20), y_stride = p.n + net_below(t, 20);
    const size_t elements = (rows - 1) * y_stride + p.n;
    const uint32_t residual = net_below(t, 3); /* none, apart, y itself */
    const void *x = net_array(t, type, (rows - 1) * x_stride + p.k);
    p.residual_type = residual == 2 || net_below(t, 2) ? p.type : STK_F32;
    const void *apart = net_array(t, p.residual_type, elements);
    if (net_below(t, 2)) p.scale = net_array(t, STK_F32, (p.row + rows - 1) / p.sample_rows + 1);
    const net_pair y = net_arrays(t, p.type, elements);
    snprintf(t->text, sizeof t->text,
             "%zu rows, k %zu, n %zu, taps %u, parts %u, transposed %d, bias %d, scale %d, residual %u, y %d",
             rows, p.k, p.n, source.taps, source.parts, source.transposed, p.bias, p.scale != NULL, residual,
             (int)p.type);
    for (int who = 0; who < NET_BOTH; who++) {
        const stk_gemm *gemm = &t->table[who]->gemm.of[type];
        const size_t step = piece * gemm->panel;
        p.packed = pack(t, gemm, &source, net_between(t, 1, 5));
        p.residual = residual == 0 ? NULL : residual == 1 ? apart : y.of[who];
        for (p.first = 0; p.first < p.n; p.first += step) {
            p.columns = p.n - p.first < step ? p.n - p.first : step;
            gemm->multiply(&p, rows, x, x_stride, y.of[who], y_stride);
        }
    }
    return net_agree(t, "y", y, p.type, elements, net_allowed(p.type));
}

/* The same bits however rows and columns are cut: gemm promises it. Of the column alone. */
static int same_however_cut(const net_trial *trial, net_try *t)
{
    const stk_float type = (stk_float)trial->variant;
    const stk_gemm *gemm = &t->table[NET_COLUMN]->gemm.of[type];
    const stk_gemm_source source = draw_source(t);
    const size_t k = stk_gemm_source_k(&source), n = stk_gemm_source_n(&source), step = gemm->panel;
    const size_t rows = net_between(t, 1, 75), cut = net_between(t, 1, 75);
    const void *x = net_array(t, type, rows * k);
    stk_gemm_product p = { .k = k, .n = n, .bias = 1, .columns = n, .packed = pack(t, gemm, &source, 1) };
    const net_pair y = net_arrays(t, STK_F32, rows * n);
    snprintf(t->text, sizeof t->text, "%zu rows cut at %zu, k %zu, n %zu", rows, cut, k, n);
    gemm->multiply(&p, rows, x, k, y.of[NET_REFERENCE], n);
    for (size_t row = 0; row < rows; row += cut)
        for (p.first = 0; p.first < n; p.first += step) {
            p.columns = n - p.first < step ? n - p.first : step;
            gemm->multiply(&p, rows - row < cut ? rows - row : cut, stk_at(x, row * k, type), k,
                           (float *)y.of[NET_COLUMN] + row * n, n);
        }
    return net_agree(t, "y in pieces", y, STK_F32, rows * n, 0);
}

static int try_multiply_and_cut(const net_trial *trial, net_try *t)
{
    if (!try_multiply(trial, t)) return 0;
    net_release(t);
    return same_however_cut(trial, t);
}

static int try_outer(const net_trial *trial, net_try *t)
{
    const stk_float type = (stk_float)trial->variant;
    stk_gemm_outer o = { .rows = net_between(t, 1, net_below(t, 4) ? 90 : 700),
                         .n = net_between(t, 1, 90),
                         .k = net_between(t, 1, 90),
                         .add = (int)net_below(t, 2) };
    o.dy_stride = o.n + net_below(t, 20);
    o.x_stride = o.k + net_below(t, 20);
    o.dw_stride = o.k + net_below(t, 20);
    o.dy = net_array(t, type, (o.rows - 1) * o.dy_stride + o.n);
    o.x = net_array(t, type, (o.rows - 1) * o.x_stride + o.k);
    const size_t elements = (o.n - 1) * o.dw_stride + o.k;
    const net_pair dw = net_arrays(t, STK_F32, elements), db = net_arrays(t, STK_F32, o.n);
    const int bias = (int)net_below(t, 2);
    snprintf(t->text, sizeof t->text, "%zu rows, n %zu, k %zu, add %d", o.rows, o.n, o.k, o.add);
    for (int who = 0; who < NET_BOTH; who++) {
        const stk_gemm *gemm = &t->table[who]->gemm.of[type];
        o.dw = dw.of[who];
        o.db = bias ? db.of[who] : NULL;
        o.scratch = net_room(t, gemm->outer_scratch);
        gemm->outer(&o);
    }
    return net_agree(t, "dw", dw, STK_F32, elements, net_allowed(STK_F32)) &&
           net_agree(t, "db", db, STK_F32, o.n, net_allowed(STK_F32));
}

#define TYPE(text, type)                                                                                     \
    { "gemm.packed_bytes " text, offsetof(stk_net_table, gemm.of[type].packed_bytes), type, try_multiply },  \
        { "gemm.pack " text, offsetof(stk_net_table, gemm.of[type].pack), type, try_multiply },              \
        { "gemm.multiply " text, offsetof(stk_net_table, gemm.of[type].multiply), type,                      \
          try_multiply_and_cut },                                                                            \
    {                                                                                                        \
        "gemm.outer " text, offsetof(stk_net_table, gemm.of[type].outer), type, try_outer                    \
    }
static const net_trial trials[] = { TYPE("f32", STK_F32), TYPE("bf16", STK_BF16), TYPE("f16", STK_F16) };

#define NUMBERS(type)                                                                                        \
    offsetof(stk_net_table, gemm.of[type].panel), offsetof(stk_net_table, gemm.of[type].outer_scratch)
static const size_t numbers[] = { NUMBERS(STK_F32), NUMBERS(STK_BF16), NUMBERS(STK_F16) };

const net_section net_section_gemm = { trials, sizeof trials / sizeof *trials, numbers,
                                       sizeof numbers / sizeof *numbers };
