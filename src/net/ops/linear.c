/* SPDX-License-Identifier: Apache-2.0
 *
 * linear: packing, forward, gradient of the input, and small products of f32 matrices. (Gradients of the
 * parameters: linear_weight.c.)
 */
#include "src/net/ops/linear_cut.h"

/* ---- cuts ---- */

stk_linear_product_cut stk_product_cut_rows(const stk_gemm *gemm, size_t rows, size_t k, size_t n)
{
    size_t block = stk_most((rows + STK_CUT_TASKS - 1) / STK_CUT_TASKS, STK_CUT_WORK / (k * n) + 1);
    block = stk_least(block, STK_CUT_ROWS_L2 / k);
    block = stk_round_up(stk_most(block, 4 * (size_t)gemm->strip), gemm->strip);
    return (stk_linear_product_cut){ block, (rows + block - 1) / block, n, 1 };
}

static stk_linear_product_cut product_cut_of(const stk_gemm *gemm, size_t rows, size_t k, size_t n)
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

/* ---- products ---- */

static stk_gemm_source source_of(const stk_linear *linear, int which)
{
    return (stk_gemm_source){ .in = linear->in,
                              .out = linear->out,
                              .taps = linear->taps,
                              .parts = linear->parts,
                              .weight = { linear->weight[0], linear->weight[1] },
                              .stride = linear->weight_stride,
                              .bias = { linear->bias[0], linear->bias[1] },
                              .transposed = which };
}

size_t stk_linear_packed(const stk_exec *run, const stk_linear *linear, int which)
{
    const stk_gemm *gemm = stk_linear_gemm(run);
    return which ? gemm->packed_bytes(linear->out, linear->in) : gemm->packed_bytes(linear->in, linear->out);
}

/* ---- packing ---- */

typedef struct pack_job {
    const stk_gemm *gemm;
    const stk_linear *const *linears;
} pack_job;

/* Columns of one task: about 16 K weights, so that the layers of stage 1 make a task each and those of stage
 * 4 are shared out. */
static size_t pack_columns(const stk_gemm *gemm, const stk_linear *linear, int which)
{
    const size_t k = which ? linear->out : linear->in;
    return stk_round_up(16384 / k + 1, gemm->panel);
}

static size_t pack_tasks(const stk_gemm *gemm, const stk_linear *linear, int which)
{
    if (which && !linear->backward) return 0;
    const size_t n = which ? linear->in : linear->out, each = pack_columns(gemm, linear, which);
    return (n + each - 1) / each;
}

static void pack_task(const void *context, uint32_t task, uint32_t thread)
{
    (void)thread;
    const pack_job *job = context;
    size_t left = task, slot = 0; /* slot: layer and direction */
    for (;; slot++) {
        const size_t tasks = pack_tasks(job->gemm, job->linears[slot / 2], slot % 2);
        if (left < tasks) break;
        left -= tasks;
    }
    const stk_linear *linear = job->linears[slot / 2];
    const int which = slot % 2;
    const stk_gemm_source source = source_of(linear, which);
    const size_t n = stk_gemm_source_n(&source), each = pack_columns(job->gemm, linear, which);
    const size_t first = left * each, columns = n - first < each ? n - first : each;
    job->gemm->pack(&source, first, columns, which ? linear->backward : linear->forward);
}

void stk_linear_pack(const stk_exec *run, const stk_linear *const *linears, size_t count)
{
    const pack_job job = { stk_linear_gemm(run), linears };
    size_t tasks = 0;
    for (size_t i = 0; i < count; i++)
        for (int which = 0; which < 2; which++) tasks += pack_tasks(job.gemm, linears[i], which);
    stk_threadpool_run(run->pool, pack_task, &job, (uint32_t)tasks);
}

/* ---- products ---- */

typedef struct product_job {
    const stk_exec *run;
    const stk_gemm *gemm;
    stk_gemm_product product;
    stk_linear_product_cut cut;
    size_t rows;
    stk_exec_rows x;
    void *y;
    size_t y_stride;
} product_job;

static void product_task(const void *context, uint32_t task, uint32_t thread)
{
    const product_job *job = context;
    const size_t row = task / job->cut.pieces * job->cut.rows,
                 column = task % job->cut.pieces * job->cut.columns;
    const size_t rows = job->rows - row < job->cut.rows ? job->rows - row : job->cut.rows;
    stk_gemm_product product = job->product;
    product.first = column;
    product.columns = product.n - column < job->cut.columns ? product.n - column : job->cut.columns;
    product.row = row;
    if (product.residual)
        product.residual = stk_at(product.residual, row * job->y_stride, product.residual_type);

    const stk_float type = job->run->type;
    const void *x = stk_at(job->x.data, row * job->x.stride, type);
    if (job->x.make) {
        void *made = stk_exec_scratch(job->run, thread);
        job->x.make(job->x.context, row, rows, made);
        x = made;
    }
    job->gemm->multiply(&product, rows, x, job->x.stride, stk_at(job->y, row * job->y_stride, product.type),
                        job->y_stride);
}

static void product_run(product_job *job, const stk_exec_rows *x)
{
    job->cut = product_cut_of(job->gemm, job->rows, job->product.k, job->product.n);
    job->x = *x;
    if (x->make && stk_rows_are_few(job->rows, job->product.k))
        job->x = stk_rows_made(job->run, x, job->rows, job->run->partial);
    else if (x->make)
        job->cut = stk_product_cut_rows(job->gemm, job->rows, job->product.k, job->product.n);
    stk_threadpool_run(job->run->pool, product_task, job, (uint32_t)(job->cut.blocks * job->cut.pieces));
}

static stk_gemm_product forward_product(const stk_linear *linear, const stk_linear_finish *finish)
{
    return (stk_gemm_product){ .k = linear->in,
                               .n = linear->out,
                               .packed = linear->forward,
                               .columns = linear->out,
                               .bias = !finish->no_bias,
                               .scale = finish->scale,
                               .sample_rows = finish->sample_rows,
                               .type = finish->type,
                               .residual = finish->residual,
                               .residual_type = STK_F32 };
}

static stk_gemm_product input_product(const stk_linear *linear, void *dx, stk_float type, int add)
{
    return (stk_gemm_product){ .k = linear->out,
                               .n = linear->in,
                               .packed = linear->backward,
                               .columns = linear->in,
                               .type = type,
                               .residual = add ? dx : NULL,
                               .residual_type = type };
}

void stk_linear_forward(const stk_exec *run, const stk_linear *linear, size_t rows, const stk_exec_rows *x,
                        const stk_linear_finish *finish, void *y, size_t y_stride)
{
    product_job job = { .run = run,
                        .gemm = stk_linear_gemm(run),
                        .product = forward_product(linear, finish),
                        .rows = rows,
                        .y = y,
                        .y_stride = y_stride };
    product_run(&job, x);
}

void stk_linear_input(const stk_exec *run, const stk_linear *linear, size_t rows, const stk_exec_rows *dy,
                      void *dx, size_t dx_stride, stk_float type, int add)
{
    product_job job = { .run = run,
                        .gemm = stk_linear_gemm(run),
                        .product = input_product(linear, dx, type, add),
                        .rows = rows,
                        .y = dx,
                        .y_stride = dx_stride };
    product_run(&job, dy);
}

void stk_linear_forward_rows(const stk_exec *run, const stk_linear *linear, size_t rows, const void *x,
                             size_t x_stride, const stk_linear_finish *finish, void *y, size_t y_stride)
{
    const stk_gemm_product product = forward_product(linear, finish);
    stk_linear_gemm(run)->multiply(&product, rows, x, x_stride, y, y_stride);
}

void stk_linear_input_rows(const stk_exec *run, const stk_linear *linear, size_t rows, const void *dy,
                           size_t dy_stride, void *dx, size_t dx_stride, stk_float type, int add)
{
    const stk_gemm_product product = input_product(linear, dx, type, add);
    stk_linear_gemm(run)->multiply(&product, rows, dy, dy_stride, dx, dx_stride);
}

/* ---- small products ---- */

enum { SMALL_ROWS = 48 }; /* a multiple of the strips of all f32 kernels, or near it */

typedef struct small_job {
    const stk_gemm *gemm;
    stk_gemm_source source;
    stk_gemm_product product;
    size_t m;
    stk_linear_matrix a;
    float *c;
    size_t c_stride;
    void *packed;
    float *turned; /* SMALL_ROWS * k floats per thread */
} small_job;

size_t stk_multiply_room(const stk_exec *run, size_t k, size_t n)
{
    return run->table->gemm.of[STK_F32].packed_bytes(k, n) + run->threads * SMALL_ROWS * k * sizeof(float);
}

static void small_pack_task(const void *context, uint32_t task, uint32_t thread)
{
    (void)thread;
    const small_job *job = context;
    const size_t first = (size_t)task * job->gemm->panel, rest = job->product.n - first;
    job->gemm->pack(&job->source, first, rest < job->gemm->panel ? rest : job->gemm->panel, job->packed);
}

static void small_task(const void *context, uint32_t task, uint32_t thread)
{
    const small_job *job = context;
    const size_t row = (size_t)task * SMALL_ROWS, k = job->product.k;
    const size_t rows = job->m - row < SMALL_ROWS ? job->m - row : SMALL_ROWS;
    const float *a = job->a.data + row * job->a.stride;
    size_t a_stride = job->a.stride;
    if (job->a.transposed) {
        float *turned = job->turned + (size_t)thread * SMALL_ROWS * k;
        for (size_t i = 0; i < k; i++)
            for (size_t r = 0; r < rows; r++) turned[r * k + i] = job->a.data[i * job->a.stride + row + r];
        a = turned;
        a_stride = k;
    }
    stk_gemm_product product = job->product;
    float *c = job->c + row * job->c_stride;
    if (product.residual) product.residual = c;
    job->gemm->multiply(&product, rows, a, a_stride, c, job->c_stride);
}

void stk_multiply(const stk_exec *run, size_t m, size_t n, size_t k, stk_linear_matrix a, stk_linear_matrix b,
                  float *c, size_t c_stride, int add, void *room)
{
    const stk_gemm *gemm = &run->table->gemm.of[STK_F32];
    /* B[k][n] as it lies is a layer's backward weights: k outputs of n inputs each. */
    const uint32_t in = (uint32_t)(b.transposed ? k : n), out = (uint32_t)(b.transposed ? n : k);
    const small_job job = {
        .gemm = gemm,
        .source = { .in = in,
                    .out = out,
                    .taps = 1,
                    .parts = 1,
                    .weight = { b.data },
                    .stride = b.stride,
                    .transposed = !b.transposed },
        .product = { .k = k,
                     .n = n,
                     .packed = room,
                     .columns = n,
                     .type = STK_F32,
                     .residual = add ? c : NULL,
                     .residual_type = STK_F32 },
        .m = m,
        .a = a,
        .c = c,
        .c_stride = c_stride,
        .packed = room,
        .turned = (float *)((unsigned char *)room + gemm->packed_bytes(k, n)),
    };
    stk_threadpool_run(run->pool, small_pack_task, &job, (uint32_t)((n + gemm->panel - 1) / gemm->panel));
    stk_threadpool_run(run->pool, small_task, &job, (uint32_t)((m + SMALL_ROWS - 1) / SMALL_ROWS));
}
