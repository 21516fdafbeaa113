/* SPDX-License-Identifier: Apache-2.0
 *
 * linear: gradients of weight and bias, dW = dY^T X and db = column sums of dY.
 *
 * The sum runs over rows. Where there are many (stage 1: 16384 rows for a matrix of 32 x 128) they are cut
 * into chunks, each with its own sum in run->partial, added up in order at the end; where the matrix is
 * large and rows are few (stage 4) the matrix is cut into tiles that need no second pass.
 */
#include "src/net/ops/linear_cut.h"

#include <string.h>

enum {
    CHUNK_ROWS =
        512,     /* at least: adding up a chunk costs 6.7 / rows of computing it (60 GB/s, 200 GFLOP/s) */
    CHUNKS = 32, /* at most */
    CHUNK_FLOATS = 4 << 20, /* of all chunks, if there are more than 8 */
    TILE_N = 64,            /* at least, so that packing X (once per tile) stays below 5 % */
    TILE_K = 128,           /* likewise for dY */
    MADE_ROWS = 256,        /* of X or dY made in scratch at a time */
};

typedef struct weight_cut {
    size_t chunk, chunks; /* rows of one, number */
    size_t tile_n, tiles_n, tile_k, tiles_k;
} weight_cut;

/* Never fewer for more rows. */
static size_t chunks_at_most(size_t rows, size_t n, size_t k)
{
    const size_t chunks = stk_least(rows / CHUNK_ROWS, CHUNKS);
    return chunks > 8 ? stk_most(stk_least(chunks, CHUNK_FLOATS / (n * k)), 8) : stk_most(chunks, 1);
}

static weight_cut cut_of(size_t rows, size_t n, size_t k, int tiles)
{
    weight_cut cut = { .tile_n = n, .tiles_n = 1, .tile_k = k, .tiles_k = 1 };
    /* A matrix that makes enough tiles needs no chunks: what they add up to would be read again. */
    const int enough = tiles && n * k >= (size_t)CHUNKS / 2 * TILE_N * TILE_K;
    const size_t chunks = enough ? 1 : chunks_at_most(rows, n, k);
    cut.chunk = stk_round_up((rows + chunks - 1) / chunks, 64);
    cut.chunks = (rows + cut.chunk - 1) / cut.chunk;
    if (!tiles || cut.chunks >= CHUNKS / 2) return cut;
    size_t wanted = (CHUNKS / 2 + cut.chunks - 1) / cut.chunks;
    wanted = stk_least(wanted, stk_most(cut.chunk * n * k / (2 * STK_CUT_WORK), 1));
    cut.tile_n = stk_round_up(stk_most((n + wanted - 1) / wanted, stk_least(n, TILE_N)), 4);
    cut.tiles_n = (n + cut.tile_n - 1) / cut.tile_n;
    wanted = (wanted + cut.tiles_n - 1) / cut.tiles_n;
    cut.tile_k = stk_round_up(stk_most((k + wanted - 1) / wanted, TILE_K), 16);
    cut.tiles_k = (k + cut.tile_k - 1) / cut.tile_k;
    return cut;
}

typedef struct weight_job {
    const stk_exec *run;
    const stk_gemm *gemm;
    const stk_linear *linear;
    size_t rows;
    stk_exec_rows x, dy;
    weight_cut cut;
    float *partial; /* NULL: straight to the gradients; else per chunk out * in of dW, then out of db */
} weight_job;

static size_t partial_floats(const stk_linear *linear)
{
    return stk_round_up((size_t)linear->out * linear->in + linear->out, 16);
}

/* Rows that lie in memory from `row` on, made in `*room` if they have to be. */
static const void *rows_at(const stk_exec_rows *rows, size_t row, size_t count, stk_float type,
                           unsigned char **room)
{
    if (!rows->make) return stk_at(rows->data, row * rows->stride, type);
    void *made = *room;
    rows->make(rows->context, row, count, made);
    *room += stk_round_up(count * rows->stride * stk_float_bytes(type), 64);
    return made;
}

/* Where the tile's gradients go. A tile whose outputs belong to one part, when there is no partial sum. */
static void place(const weight_job *job, size_t chunk, size_t n, size_t k, stk_gemm_outer *outer)
{
    const stk_linear *linear = job->linear;
    if (job->partial) {
        float *sums = job->partial + chunk * partial_floats(linear);
        outer->dw = sums + n * linear->in + k;
        outer->dw_stride = linear->in;
        outer->db = sums + (size_t)linear->out * linear->in + n;
    } else {
        const size_t each = linear->out / linear->parts, part = n / each;
        outer->dw = linear->d_weight[part] + n % each * linear->weight_stride + k;
        outer->dw_stride = linear->weight_stride;
        outer->db = linear->d_bias[part] ? linear->d_bias[part] + n % each : NULL;
    }
    if (k) outer->db = NULL; /* once is enough */
}

static void weight_task(const void *context, uint32_t task, uint32_t thread)
{
    const weight_job *job = context;
    const weight_cut *cut = &job->cut;
    const size_t k = task % cut->tiles_k * cut->tile_k;
    const size_t n = task / cut->tiles_k % cut->tiles_n * cut->tile_n;
    const size_t chunk = task / cut->tiles_k / cut->tiles_n;
    const size_t end = stk_least(job->rows, (chunk + 1) * cut->chunk);
    const stk_float type = job->run->type;
    stk_gemm_outer outer = { .n = stk_least(job->linear->out - n, cut->tile_n),
                             .k = stk_least(job->linear->in - k, cut->tile_k),
                             .dy_stride = job->dy.stride,
                             .x_stride = job->x.stride,
                             .add = !job->partial && job->run->accumulate,
                             .scratch = stk_exec_scratch(job->run, thread) };
    place(job, chunk, n, k, &outer);
    const size_t step = job->x.make || job->dy.make ? MADE_ROWS : cut->chunk;
    for (size_t row = chunk * cut->chunk; row < end; row += step) {
        unsigned char *room = (unsigned char *)outer.scratch + job->gemm->outer_scratch;
        outer.rows = stk_least(end - row, step);
        outer.x = stk_at(rows_at(&job->x, row, outer.rows, type, &room), k, type);
        outer.dy = stk_at(rows_at(&job->dy, row, outer.rows, type, &room), n, type);
        job->gemm->outer(&outer);
        outer.add = 1;
    }
}

/* ---- adding up ---- */

enum { SUM_AT_ONCE = 64 };

/* Elements first .. first + count of the chunks, added in order. */
static void sum_chunks(const weight_job *job, size_t first, size_t count, float *sum)
{
    const float *chunk = job->partial + first;
    memcpy(sum, chunk, count * sizeof *sum);
    for (size_t i = 1; i < job->cut.chunks; i++) {
        chunk += partial_floats(job->linear);
        for (size_t j = 0; j < count; j++) sum[j] += chunk[j];
    }
}

/* The gradients of one output. */
static void sum_task(const void *context, uint32_t task, uint32_t thread)
{
    (void)thread;
    const weight_job *job = context;
    const stk_linear *linear = job->linear;
    const int add = job->run->accumulate;
    const size_t each = linear->out / linear->parts, part = task / each, output = task % each;
    float sum[SUM_AT_ONCE];
    if (linear->d_bias[part]) {
        float *d_bias = linear->d_bias[part] + output;
        sum_chunks(job, (size_t)linear->out * linear->in + task, 1, sum);
        *d_bias = add ? *d_bias + sum[0] : sum[0];
    }
    if (!linear->d_weight[part]) return;
    float *d_weight = linear->d_weight[part] + output * linear->weight_stride;
    const size_t channels = linear->in / linear->taps;
    for (size_t tap = 0; tap < linear->taps; tap++) {
        for (size_t c = 0; c < channels; c += SUM_AT_ONCE) {
            const size_t count = stk_least(channels - c, SUM_AT_ONCE);
            float *at = d_weight + c * linear->taps + tap;
            sum_chunks(job, (size_t)task * linear->in + tap * channels + c, count, sum);
            for (size_t j = 0; j < count; j++, at += linear->taps) *at = add ? *at + sum[j] : sum[j];
        }
    }
}

/* ---- the operation ---- */

static int wanted(const stk_linear *linear)
{
    return linear->d_weight[0] || linear->d_weight[1] || linear->d_bias[0] || linear->d_bias[1];
}

/* Whether tiles can be computed where the gradients lie: one sum, no permutation, no part frozen, no tile
 * across two parts. */
static int direct(const stk_linear *linear, const weight_cut *cut)
{
    if (cut->chunks > 1 || linear->taps > 1 || !linear->d_weight[0]) return 0;
    return linear->parts == 1 || (linear->d_weight[1] && linear->out / 2 % cut->tile_n == 0);
}

void stk_linear_weight(const stk_exec *run, const stk_linear *linear, size_t rows, const stk_exec_rows *x,
                       const stk_exec_rows *dy)
{
    if (!wanted(linear)) return;
    weight_job job = {
        .run = run, .gemm = stk_linear_gemm(run), .linear = linear, .rows = rows, .x = *x, .dy = *dy
    };
    float *room = run->partial;
    if (x->make && stk_rows_are_few(rows, linear->in)) {
        job.x = stk_rows_made(run, x, rows, room);
        room += stk_rows_made_floats(rows, linear->in);
    }
    if (dy->make && stk_rows_are_few(rows, linear->out)) {
        job.dy = stk_rows_made(run, dy, rows, room);
        room += stk_rows_made_floats(rows, linear->out);
    }
    job.cut = cut_of(rows, linear->out, linear->in, !job.x.make && !job.dy.make);
    if (!direct(linear, &job.cut)) job.partial = room;
    stk_threadpool_run(run->pool, weight_task, &job,
                       (uint32_t)(job.cut.chunks * job.cut.tiles_n * job.cut.tiles_k));
    if (job.partial) stk_threadpool_run(run->pool, sum_task, &job, linear->out);
}

stk_exec_need stk_linear_need(const stk_exec *run, const stk_linear *linear, size_t rows)
{
    const stk_gemm *gemm = stk_linear_gemm(run);
    const size_t element = stk_float_bytes(run->type);
    const size_t in = stk_made_stride(linear->in), out = stk_made_stride(linear->out);
    const size_t forward = stk_product_cut_rows(gemm, rows, linear->in, linear->out).rows * in;
    if (run->forward_only)
        return (stk_exec_need){ stk_round_up(forward * element, 64), stk_rows_made_floats(rows, linear->in) };
    const size_t input = stk_product_cut_rows(gemm, rows, linear->out, linear->in).rows * out;
    const size_t made = stk_least(rows, MADE_ROWS) * (in + out) * element + 128;
    const size_t scratch = stk_most(stk_most(forward, input) * element, gemm->outer_scratch + made);
    const size_t partial = chunks_at_most(rows, linear->out, linear->in) * partial_floats(linear) +
                           stk_rows_made_floats(rows, linear->in) + stk_rows_made_floats(rows, linear->out);
    return (stk_exec_need){ stk_round_up(scratch, 64), partial };
}
