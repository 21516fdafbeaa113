/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention: cuts it into heads of samples and chunks of queries, and adds up what the chunks say of keys and
 * values.
 */
#include "src/net/ops/ops.h"

#include "src/net/kernels/net_table.h"

/* Tasks to aim for, and the fewest queries worth one: a task packs all keys and values first, which costs as
 * much as 5 to 7 queries. */
enum { TASKS = 32, LEAST_QUERIES = 128 };
enum { SUM_KEYS = 16 }; /* keys a task adds up */

typedef struct job {
    const stk_exec *run;
    const stk_attention *shape;
    const void *q, *kv, *d_context;
    void *context, *dq, *dkv;
    float *log_sum;
    uint32_t chunk, chunks; /* queries of a chunk; chunks of a head */
} job;

static uint32_t chunk_of(const stk_attention *shape)
{
    const uint32_t heads = shape->batch * shape->heads;
    const uint32_t wanted = heads ? (TASKS + heads - 1) / heads : 1;
    const uint32_t chunk = (shape->queries + wanted - 1) / wanted;
    return chunk < LEAST_QUERIES ? LEAST_QUERIES : chunk;
}

static job job_of(const stk_exec *run, const stk_attention *shape)
{
    const uint32_t chunk = chunk_of(shape);
    return (
        job){ .run = run, .shape = shape, .chunk = chunk, .chunks = (shape->queries + chunk - 1) / chunk };
}

/* Floats of dk and dv of a chunk. */
static size_t part_floats(const stk_attention *shape)
{
    return (size_t)2 * shape->keys * shape->head_size;
}

/* Tasks run chunk by chunk, head by head, sample by sample. */
static stk_attention_share share_of(const job *j, uint32_t task)
{
    const stk_attention *shape = j->shape;
    const stk_float type = j->run->type;
    const uint32_t head = task / j->chunks % shape->heads, sample = task / j->chunks / shape->heads;
    const uint32_t first = task % j->chunks * j->chunk, left = shape->queries - first;
    const size_t width = (size_t)shape->heads * shape->head_size, column = (size_t)head * shape->head_size;
    const size_t row = ((size_t)sample * shape->queries + first) * width + column;
    const size_t key = (size_t)sample * shape->keys * 2 * width + column;
    const size_t sum = ((size_t)sample * shape->heads + head) * shape->queries + first;
    float *part = j->dkv ? j->run->partial + task * part_floats(shape) : NULL;
    return (stk_attention_share){
        .type = type,
        .queries = left < j->chunk ? left : j->chunk,
        .keys = shape->keys,
        .head_size = shape->head_size,
        .stride = width,
        .kv_stride = 2 * width,
        .q = stk_at(j->q, row, type),
        .k = stk_at(j->kv, key, type),
        .v = stk_at(j->kv, key + width, type),
        .context = stk_at(j->context, row, type),
        .log_sum = j->log_sum ? j->log_sum + sum : NULL,
        .d_context = part ? stk_at(j->d_context, row, type) : NULL,
        .dq = part ? stk_at(j->dq, row, type) : NULL,
        .dk = part,
        .dv = part ? part + part_floats(shape) / 2 : NULL,
    };
}

static void forward_task(const void *context, uint32_t task, uint32_t thread)
{
    const job *j = context;
    const stk_attention_share share = share_of(j, task);
    j->run->table->attention.forward(&share, stk_exec_scratch(j->run, thread));
}

void stk_attention_forward(const stk_exec *run, const stk_attention *shape, const void *q, const void *kv,
                           void *context, float *log_sum)
{
    job j = job_of(run, shape);
    j.q = q;
    j.kv = kv;
    j.context = context;
    j.log_sum = log_sum;
    stk_threadpool_run(run->pool, forward_task, &j, shape->batch * shape->heads * j.chunks);
}

static void backward_task(const void *context, uint32_t task, uint32_t thread)
{
    const job *j = context;
    const stk_attention_share share = share_of(j, task);
    j->run->table->attention.backward(&share, stk_exec_scratch(j->run, thread));
}

/* One head's elements of a row of dk or dv: the chunks' in order. The first chunk's place takes the sum. */
static void sum_chunks(const job *j, float *part, void *out, size_t at)
{
    const uint32_t size = j->shape->head_size;
    const size_t step = part_floats(j->shape);
    for (uint32_t chunk = 1; chunk < j->chunks; chunk++)
        for (uint32_t c = 0; c < size; c++) part[c] += part[chunk * step + c];
    for (uint32_t c = 0; c < size; c++) stk_put(out, at + c, part[c], j->run->type);
}

static void sum_task(const void *context, uint32_t task, uint32_t thread)
{
    (void)thread;
    const job *j = context;
    const stk_attention *shape = j->shape;
    const uint32_t blocks = (shape->keys + SUM_KEYS - 1) / SUM_KEYS, sample = task / blocks;
    const uint32_t first = task % blocks * SUM_KEYS;
    const uint32_t end = first + SUM_KEYS < shape->keys ? first + SUM_KEYS : shape->keys;
    const size_t size = shape->head_size, width = shape->heads * size;
    for (uint32_t head = 0; head < shape->heads; head++) {
        const size_t task_first = ((size_t)sample * shape->heads + head) * j->chunks;
        float *dk = j->run->partial + task_first * part_floats(shape), *dv = dk + shape->keys * size;
        for (uint32_t key = first; key < end; key++) {
            const size_t at = ((size_t)sample * shape->keys + key) * 2 * width + head * size;
            sum_chunks(j, dk + key * size, j->dkv, at);
            sum_chunks(j, dv + key * size, j->dkv, at + width);
        }
    }
}

void stk_attention_backward(const stk_exec *run, const stk_attention *shape, const void *q, const void *kv,
                            const void *context, const float *log_sum, const void *d_context, void *dq,
                            void *dkv)
{
    job j = job_of(run, shape);
    j.q = q;
    j.kv = kv;
    j.context = (void *)(uintptr_t)context; /* the backward pass only reads them */
    j.log_sum = (float *)(uintptr_t)log_sum;
    j.d_context = d_context;
    j.dq = dq;
    j.dkv = dkv;
    stk_threadpool_run(run->pool, backward_task, &j, shape->batch * shape->heads * j.chunks);
    stk_threadpool_run(run->pool, sum_task, &j, shape->batch * ((shape->keys + SUM_KEYS - 1) / SUM_KEYS));
}

stk_exec_need stk_attention_need(const stk_exec *run, const stk_attention *shape)
{
    const job j = job_of(run, shape);
    return (stk_exec_need){ .scratch = run->table->attention.scratch(shape->keys, shape->head_size),
                            .partial = run->forward_only
                                           ? 0
                                           : shape->batch * shape->heads * j.chunks * part_floats(shape) };
}
