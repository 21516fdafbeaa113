/* SPDX-License-Identifier: Apache-2.0
 *
 * conv3: cuts maps into rows of tiles, one task each, and sums of gradients into chunks of such rows.
 */
#include "src/net/ops/ops.h"

#include <string.h>

#include "src/net/kernels/net_table.h"

enum {
    LINES = STK_CONV3_LINES,
    PACK_OUTPUTS = 32,        /* of one task */
    POINT_FLOATS = 224 << 10, /* of one tile's points times tiles: what a part's points take of a second-level
                                cache, 384 KB */
    CHUNKS = 32,              /* of sums, at most */
    CHUNK_FLOATS = 4 << 20,   /* of all chunks, if there are more than 8 */
    SUM_FLOATS = 4096,        /* added up by one task */
    GRADIENT_OUTPUTS = 8,     /* turned into gradients by one task */
};

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t most(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* ---- cuts ---- */

static uint32_t rows_of(stk_conv3_map map)
{
    return (map.height + LINES - 1) / LINES;
}

/* Columns of a part: so many that the points of `channels`, in and out together, stay in the cache, at least
 * 4 tiles; lines are cut evenly. */
static uint32_t columns_of(stk_conv3_map map, size_t channels)
{
    const size_t tiles = (map.width + LINES - 1) / LINES;
    const size_t fit = least(most(POINT_FLOATS / (36 * channels), 4), STK_CONV3_COLUMNS / LINES);
    const size_t parts = (tiles + fit - 1) / fit;
    return (uint32_t)((tiles + parts - 1) / parts * LINES);
}

/* Part `number` of row `row`; 0: there are no more. */
static int part_at(stk_conv3_map map, uint32_t columns, size_t row, size_t number, stk_conv3_part *part)
{
    const size_t rows = rows_of(map), column = number * columns;
    *part = (stk_conv3_part){ .map = map,
                              .image = (uint32_t)(row / rows),
                              .line = (uint32_t)(row % rows) * LINES,
                              .column = (uint32_t)column,
                              .columns = (uint32_t)least(map.width - column, columns) };
    return column < map.width;
}

static size_t chunks_of(const stk_exec *run, const stk_conv3 *layer, stk_conv3_map map)
{
    const size_t rows = (size_t)map.batch * rows_of(map), chunks = least(rows, CHUNKS);
    if (chunks <= 8) return chunks;
    return most(least(chunks, CHUNK_FLOATS / run->table->conv3.sums(layer->in, layer->out)), 8);
}

/* ---- packing ---- */

size_t stk_conv3_packed(const stk_exec *run, const stk_conv3 *layer, int which)
{
    return which ? run->table->conv3.packed_bytes(layer->out, layer->in)
                 : run->table->conv3.packed_bytes(layer->in, layer->out);
}

typedef struct pack_job {
    const stk_exec *run;
    const stk_conv3 *const *layers;
} pack_job;

static size_t pack_tasks(const stk_conv3 *layer, int which)
{
    if (which && !layer->backward) return 0;
    return ((which ? layer->in : layer->out) + PACK_OUTPUTS - 1) / PACK_OUTPUTS;
}

static void pack_task(const void *context, uint32_t task, uint32_t thread)
{
    (void)thread;
    const pack_job *job = context;
    size_t left = task, slot = 0; /* slot: layer and direction */
    for (;; slot++) {
        const size_t tasks = pack_tasks(job->layers[slot / 2], slot % 2);
        if (left < tasks) break;
        left -= tasks;
    }
    const stk_conv3 *layer = job->layers[slot / 2];
    const int which = slot % 2;
    const stk_conv3_masters masters = { .in = which ? layer->out : layer->in,
                                        .out = which ? layer->in : layer->out,
                                        .weight = layer->weight,
                                        .bias = which ? NULL : layer->bias,
                                        .turned = which };
    const uint32_t first = (uint32_t)left * PACK_OUTPUTS;
    job->run->table->conv3.pack[job->run->type](&masters, first,
                                                (uint32_t)least(masters.out - first, PACK_OUTPUTS),
                                                which ? layer->backward : layer->forward);
}

void stk_conv3_pack(const stk_exec *run, const stk_conv3 *const *layers, size_t count)
{
    const pack_job job = { run, layers };
    size_t tasks = 0;
    for (size_t i = 0; i < count; i++)
        for (int which = 0; which < 2; which++) tasks += pack_tasks(layers[i], which);
    stk_threadpool_run(run->pool, pack_task, &job, (uint32_t)tasks);
}

/* ---- results ---- */

typedef struct product_job {
    const stk_exec *run;
    stk_conv3_product product;
    stk_conv3_map map;
    uint32_t columns;
} product_job;

static void product_task(const void *context, uint32_t task, uint32_t thread)
{
    const product_job *job = context;
    stk_conv3_product product = job->product;
    for (size_t i = 0; part_at(job->map, job->columns, task, i, &product.part); i++)
        job->run->table->conv3.multiply[job->run->type](&product, stk_exec_scratch(job->run, thread));
}

static void product_run(const stk_exec *run, stk_conv3_map map, const stk_conv3_product *product)
{
    const product_job job = { run, *product, map, columns_of(map, product->in) };
    stk_threadpool_run(run->pool, product_task, &job, map.batch * rows_of(map));
}

void stk_conv3_forward(const stk_exec *run, const stk_conv3 *layer, stk_conv3_map map,
                       const stk_conv3_source *x, const stk_conv3_finish *finish, void *y)
{
    product_run(
        run, map,
        &(stk_conv3_product){
            .in = layer->in, .out = layer->out, .x = x, .packed = layer->forward, .finish = finish, .y = y });
}

void stk_conv3_input(const stk_exec *run, const stk_conv3 *layer, stk_conv3_map map,
                     const stk_conv3_source *dy, const stk_conv3_finish *finish, void *dx)
{
    product_run(run, map,
                &(stk_conv3_product){ .in = layer->out,
                                      .out = layer->in,
                                      .x = dy,
                                      .packed = layer->backward,
                                      .finish = finish,
                                      .y = dx });
}

/* ---- gradients of weights ---- */

typedef struct weight_job {
    const stk_exec *run;
    const stk_conv3 *layer;
    stk_conv3_map map;
    const stk_conv3_source *x, *dy;
    uint32_t columns;
    size_t chunks, sums; /* number; floats of one */
    float scale;
} weight_job;

static void chunk_task(const void *context, uint32_t task, uint32_t thread)
{
    const weight_job *job = context;
    const size_t rows = (size_t)job->map.batch * rows_of(job->map);
    stk_conv3_outer outer = { .in = job->layer->in,
                              .out = job->layer->out,
                              .x = job->x,
                              .dy = job->dy,
                              .sums = job->run->partial + task * job->sums };
    memset(outer.sums, 0, job->sums * sizeof(float));
    for (size_t row = rows * task / job->chunks; row < rows * (task + 1) / job->chunks; row++)
        for (size_t i = 0; part_at(job->map, job->columns, row, i, &outer.part); i++)
            job->run->table->conv3.outer[job->run->type](&outer, stk_exec_scratch(job->run, thread));
}

/* Some sums of all chunks, added in order. */
static void sum_task(const void *context, uint32_t task, uint32_t thread)
{
    (void)thread;
    const weight_job *job = context;
    const size_t first = (size_t)task * SUM_FLOATS, count = least(job->sums - first, SUM_FLOATS);
    float *sum = job->run->partial + first;
    for (size_t chunk = 1; chunk < job->chunks; chunk++) {
        const float *more = sum + chunk * job->sums;
        for (size_t i = 0; i < count; i++) sum[i] += more[i];
    }
}

static void gradient_task(const void *context, uint32_t task, uint32_t thread)
{
    (void)thread;
    const weight_job *job = context;
    const stk_conv3 *layer = job->layer;
    const stk_conv3_gradient gradient = { .in = layer->in,
                                          .out = layer->out,
                                          .sums = job->run->partial,
                                          .scale = job->scale,
                                          .add = job->run->accumulate,
                                          .d_weight = layer->d_weight,
                                          .d_bias = layer->d_bias };
    const uint32_t first = task * GRADIENT_OUTPUTS;
    job->run->table->conv3.gradient(&gradient, first, (uint32_t)least(layer->out - first, GRADIENT_OUTPUTS));
}

void stk_conv3_weight(const stk_exec *run, const stk_conv3 *layer, stk_conv3_map map,
                      const stk_conv3_source *x, const stk_conv3_source *dy, float scale)
{
    if (!layer->d_weight && !layer->d_bias) return;
    const weight_job job = { .run = run,
                             .layer = layer,
                             .map = map,
                             .x = x,
                             .dy = dy,
                             .columns = columns_of(map, (size_t)layer->in + layer->out),
                             .chunks = chunks_of(run, layer, map),
                             .sums = run->table->conv3.sums(layer->in, layer->out),
                             .scale = scale };
    stk_threadpool_run(run->pool, chunk_task, &job, (uint32_t)job.chunks);
    stk_threadpool_run(run->pool, sum_task, &job, (uint32_t)((job.sums + SUM_FLOATS - 1) / SUM_FLOATS));
    stk_threadpool_run(run->pool, gradient_task, &job,
                       (layer->out + GRADIENT_OUTPUTS - 1) / GRADIENT_OUTPUTS);
}

stk_exec_need stk_conv3_need(const stk_exec *run, const stk_conv3 *layer, stk_conv3_map map)
{
    const stk_conv3_table *table = &run->table->conv3;
    const size_t in = layer->in, out = layer->out;
    size_t scratch = table->multiply_scratch(layer->in, layer->out, columns_of(map, in)), partial = 0;
    if (!run->forward_only) {
        scratch = most(scratch, table->multiply_scratch(layer->out, layer->in, columns_of(map, out)));
        scratch = most(scratch, table->outer_scratch(layer->in, layer->out, columns_of(map, in + out)));
        partial = chunks_of(run, layer, map) * table->sums(layer->in, layer->out);
    }
    return (stk_exec_need){ (scratch + 63) / 64 * 64, partial };
}
