/* SPDX-License-Identifier: Apache-2.0
 *
 * How the products of a linear layer are cut into tasks: by their shape alone, never by the number of
 * threads. Shared by linear.c and linear_weight.c.
 */
#ifndef STOKE_SRC_NET_OPS_LINEAR_CUT_H
#define STOKE_SRC_NET_OPS_LINEAR_CUT_H

#include "src/net/ops/ops.h"
#include "src/net/kernels/net_table.h"

enum {
    STK_CUT_TASKS = 32, /* wanted at least: even on 2 threads the last one must not take long */
    STK_CUT_WORK =
        500000, /* multiplications of a task at least: 10 us, 50 times what handing one out takes */
    STK_CUT_ROWS_L2 = 48 * 1024, /* elements of X of a task: 192 KB of f32 stay in the second-level cache */
    STK_CUT_FEW = 1 << 20,       /* elements: made rows up to here are made as a whole, 4 MB of f32 */
};

static inline const stk_gemm *stk_linear_gemm(const stk_exec *run)
{
    return &run->table->gemm.of[run->type];
}

static inline size_t stk_round_up(size_t size, size_t to)
{
    return (size + to - 1) / to * to;
}

static inline size_t stk_least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static inline size_t stk_most(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Elements from row to row of made rows, at most (linear). */
static inline size_t stk_made_stride(size_t width)
{
    return stk_round_up(width, 32);
}

/* Rows that a function makes and that fit in a shared cache are made once, as a whole, in parallel: then
 * their product can be cut in both directions. More than that are made block by block in the thread that
 * multiplies them. */
static inline int stk_rows_are_few(size_t rows, size_t width)
{
    return rows * stk_made_stride(width) <= STK_CUT_FEW;
}

/* Floats of run->partial those take, at most, for up to that many rows. */
static inline size_t stk_rows_made_floats(size_t rows, size_t width)
{
    return stk_least(stk_round_up(rows * stk_made_stride(width), 16), STK_CUT_FEW);
}

/* Makes them at `room`. */
stk_exec_rows stk_rows_made(const stk_exec *run, const stk_exec_rows *x, size_t rows, void *room);

/* X B: blocks of rows times pieces of columns. */
typedef struct stk_linear_product_cut {
    size_t rows, blocks;
    size_t columns, pieces;
} stk_linear_product_cut;

/* With rows only, for those made in the task. */
stk_linear_product_cut stk_product_cut_rows(const stk_gemm *gemm, size_t rows, size_t k, size_t n);

#endif
