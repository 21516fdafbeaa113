/* SPDX-License-Identifier: Apache-2.0
 *
 * linear_cut.h.
 */
#include "src/net/ops/linear_cut.h"

stk_linear_product_cut stk_product_cut_rows(const stk_gemm *gemm, size_t rows, size_t k, size_t n)
{
    size_t block = stk_most((rows + STK_CUT_TASKS - 1) / STK_CUT_TASKS, STK_CUT_WORK / (k * n) + 1);
    block = stk_least(block, STK_CUT_ROWS_L2 / k);
    block = stk_round_up(stk_most(block, 4 * (size_t)gemm->strip), gemm->strip);
    return (stk_linear_product_cut){ block, (rows + block - 1) / block, n, 1 };
}

stk_linear_product_cut stk_product_cut_of(const stk_gemm *gemm, size_t rows, size_t k, size_t n)
{
    stk_linear_product_cut cut = stk_product_cut_rows(gemm, rows, k, n);
    if (cut.blocks >= STK_CUT_TASKS / 2) return cut;
    const size_t wanted = (STK_CUT_TASKS / 2 + cut.blocks - 1) / cut.blocks;
    cut.columns = stk_most((n + wanted - 1) / wanted, STK_CUT_WORK / (stk_least(cut.rows, rows) * k) + 1);
    cut.columns = stk_round_up(cut.columns, gemm->panel);
    cut.pieces = (n + cut.columns - 1) / cut.columns;
    return cut;
}

enum { MADE_AT_ONCE = 32 };

typedef struct make_job {
    const stk_exec_rows *x;
    size_t rows;
    stk_float type;
    void *room;
} make_job;

static void make_task(const void *context, uint32_t task, uint32_t thread)
{
    (void)thread;
    const make_job *job = context;
    const size_t first = (size_t)task * MADE_AT_ONCE, count = stk_least(job->rows - first, MADE_AT_ONCE);
    job->x->make(job->x->context, first, count, stk_at(job->room, first * job->x->stride, job->type));
}

stk_exec_rows stk_rows_made(const stk_exec *run, const stk_exec_rows *x, size_t rows, void *room)
{
    const make_job job = { x, rows, run->type, room };
    stk_threadpool_run(run->pool, make_task, &job, (uint32_t)((rows + MADE_AT_ONCE - 1) / MADE_AT_ONCE));
    return stk_rows_of(room, x->stride);
}
