/* SPDX-License-Identifier: Apache-2.0
 *
 * layernorm: cuts the rows into chunks, one task each, and adds up what they say of gamma and beta.
 */
#include "src/net/ops/ops.h"

#include <string.h>

#include "src/net/kernels/net_table.h"

/* A chunk is 64 KB of x: b0's first stage at 4x256x256 (16384 rows of 32) makes 32 of them, its last (256
 * rows of 256) 4. At most CHUNKS, so that adding them up stays small. */
enum { CHUNK_FLOATS = 16384, CHUNKS = 64 };

static size_t chunk_rows(const stk_layernorm *norm, size_t rows)
{
    const size_t small = CHUNK_FLOATS / norm->channels, even = (rows + CHUNKS - 1) / CHUNKS;
    const size_t most = small > even ? small : even;
    return most ? most : 1;
}

typedef struct job {
    const stk_layernorm_table *table;
    const stk_layernorm *norm;
    size_t rows, chunk;
    const float *x;
    stk_float type; /* of y or dy */
    /* forward */
    float *stats;
    void *y; /* NULL: statistics only */
    /* backward */
    const float *given; /* statistics */
    const void *dy;
    const float *residual;
    float *dx, *partial; /* partial NULL: gamma and beta are frozen */
} job;

static size_t chunk_count(const job *j)
{
    return (j->rows + j->chunk - 1) / j->chunk;
}

static size_t rows_of(const job *j, size_t first)
{
    return j->rows - first < j->chunk ? j->rows - first : j->chunk;
}

static void forward_chunk(const void *context, uint32_t task, uint32_t thread)
{
    const job *j = context;
    const size_t first = task * j->chunk, rows = rows_of(j, first), at = first * j->norm->channels;
    if (j->y)
        j->table->forward[j->type](j->norm, rows, j->x + at, j->stats + 2 * first, stk_at(j->y, at, j->type));
    else
        j->table->stats(j->norm, rows, j->x + at, j->stats + 2 * first);
}

void stk_layernorm_forward(const stk_exec *run, const stk_layernorm *norm, size_t rows, const float *x,
                           float *stats, void *y, stk_float y_type)
{
    const job j = { .table = &run->table->layernorm,
                    .norm = norm,
                    .rows = rows,
                    .chunk = chunk_rows(norm, rows),
                    .x = x,
                    .stats = stats,
                    .y = y,
                    .type = y_type };
    stk_threadpool_run(run->pool, forward_chunk, &j, (uint32_t)chunk_count(&j));
}

void stk_layernorm_stats(const stk_exec *run, const stk_layernorm *norm, size_t rows, const float *x,
                         float *stats)
{
    stk_layernorm_forward(run, norm, rows, x, stats, NULL, STK_F32);
}

static void make_rows(const void *context, size_t first, size_t count, void *out)
{
    const stk_layernorm_normalized *source = context;
    source->table->layernorm.apply[source->type](
        source->norm, count, source->x + first * source->norm->channels, source->stats + 2 * first, out);
}

stk_exec_rows stk_normalised_rows(const stk_layernorm_normalized *source)
{
    return (stk_exec_rows){ .stride = source->norm->channels, .make = make_rows, .context = source };
}

static void backward_chunk(const void *context, uint32_t task, uint32_t thread)
{
    const job *j = context;
    const size_t channels = j->norm->channels;
    const size_t first = task * j->chunk, at = first * channels;
    float *sums = j->partial ? j->partial + task * 2 * channels : NULL;
    if (sums) memset(sums, 0, 2 * channels * sizeof *sums);
    j->table->backward[j->type](j->norm, rows_of(j, first), j->x + at, j->given + 2 * first,
                                stk_at(j->dy, at, j->type), j->residual ? j->residual + at : NULL, j->dx + at,
                                sums);
}

void stk_layernorm_backward(const stk_exec *run, const stk_layernorm *norm, size_t rows, const float *x,
                            const float *stats, const void *dy, stk_float dy_type, const float *residual,
                            float *dx)
{
    const job j = { .table = &run->table->layernorm,
                    .norm = norm,
                    .rows = rows,
                    .chunk = chunk_rows(norm, rows),
                    .x = x,
                    .given = stats,
                    .dy = dy,
                    .type = dy_type,
                    .residual = residual,
                    .dx = dx,
                    .partial = norm->d_gamma || norm->d_beta ? run->partial : NULL };
    const size_t chunks = chunk_count(&j), channels = norm->channels;
    stk_threadpool_run(run->pool, backward_chunk, &j, (uint32_t)chunks);
    if (!j.partial) return;
    stk_partial_fold(j.partial, chunks, 2 * channels);
    stk_partial_give(j.partial, channels, norm->d_gamma, 1, run->accumulate);
    stk_partial_give(j.partial + channels, channels, norm->d_beta, 1, run->accumulate);
}

stk_exec_need stk_layernorm_need(const stk_exec *run, const stk_layernorm *norm, size_t rows)
{
    const size_t chunk = chunk_rows(norm, rows);
    return (stk_exec_need){ .scratch = 0, .partial = (rows + chunk - 1) / chunk * 2 * norm->channels };
}
