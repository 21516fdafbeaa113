/* SPDX-License-Identifier: Apache-2.0
 *
 * One product by itself: memory for it, a call, the best of many.
 */
#include "src/net/products.h"

#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/net/kernels/net_table.h"
#include <stoke/tools/machine.h>

/* ---- what it takes ---- */

static size_t rounded(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* Fewer of them for the C reference: as many as its share of operations allows. */
static size_t rows_within(const stk_product_trial *t, size_t each, const stk_product_effort *effort)
{
    const int slow = t->run.table->level == STK_CPU_C && t->rows * each * 2 > effort->c_operations;
    return slow ? effort->c_operations / (each * 2) + 1 : t->rows;
}

static stk_exec_need plan_linear(stk_product_trial *t, const stk_product_effort *effort)
{
    const stk_product *p = t->product;
    const size_t weights = (size_t)p->in * p->out, each = stk_float_bytes(t->run.type);
    t->rows = rows_within(t, weights, effort);
    t->x_bytes = t->rows * p->in * each;
    t->y_bytes = t->rows * p->out * each;
    t->linear =
        (stk_linear){ .in = p->in, .out = p->out, .taps = p->taps, .parts = 1, .weight_stride = p->in };
    t->bytes[STK_TRIAL_WEIGHTS] = 2 * (weights + p->out) * sizeof(float);
    t->bytes[STK_TRIAL_PACKED] =
        stk_linear_packed(&t->run, &t->linear, 0) + stk_linear_packed(&t->run, &t->linear, 1);
    return stk_linear_need(&t->run, &t->linear, t->rows);
}

static stk_float type_of(const stk_product_trial *t, const stk_product_map *map)
{
    return map->full ? STK_F32 : t->run.type;
}

/* A share is whole lines of one picture. */
static stk_exec_need plan_conv3(stk_product_trial *t, const stk_product_effort *effort)
{
    const stk_product *p = t->product;
    const size_t weights = (size_t)p->in * p->out, rows = rows_within(t, weights, effort);
    t->map = (stk_conv3_map){ p->map.batch, p->map.height, p->map.width };
    if (rows < t->rows) {
        const size_t lines = (rows + t->map.width - 1) / t->map.width;
        t->map.batch = 1;
        t->map.height = (uint32_t)stk_least(lines, t->map.height);
    }
    t->rows = (size_t)t->map.batch * t->map.height * t->map.width;
    t->x_bytes = t->rows * p->x.stride * stk_float_bytes(type_of(t, &p->x));
    t->y_bytes = t->rows * p->y.stride * stk_float_bytes(type_of(t, &p->y));
    t->conv3 = (stk_conv3){ .in = p->in / 9, .out = p->out };
    t->bytes[STK_TRIAL_WEIGHTS] = 2 * (weights + p->out) * sizeof(float);
    t->bytes[STK_TRIAL_PACKED] =
        stk_conv3_packed(&t->run, &t->conv3, 0) + stk_conv3_packed(&t->run, &t->conv3, 1);
    return stk_conv3_need(&t->run, &t->conv3, t->map);
}

/* X: queries, keys and values, then their gradients. Y: what comes out, its gradient, logarithms. */
typedef struct attention_bytes {
    size_t queries, keys, logarithms;
} attention_bytes;

static attention_bytes attention_bytes_of(const stk_product_trial *t)
{
    const stk_attention *a = &t->attention;
    const size_t row = (size_t)a->heads * a->head_size * stk_float_bytes(t->run.type);
    return (attention_bytes){ .queries = rounded(t->rows * row),
                              .keys = rounded(2 * (size_t)a->batch * a->keys * row),
                              .logarithms = rounded(t->rows * a->heads * sizeof(float)) };
}

/* A share is queries of one picture, with all its keys. */
static stk_exec_need plan_attention(stk_product_trial *t, const stk_product_effort *effort)
{
    const stk_product *p = t->product;
    const size_t rows = rows_within(t, (size_t)p->in * p->out, effort);
    t->attention = p->attention;
    if (rows < t->rows) {
        t->attention.batch = 1;
        t->attention.queries = (uint32_t)stk_least(rows, t->attention.queries);
    }
    t->rows = (size_t)t->attention.batch * t->attention.queries;
    const attention_bytes bytes = attention_bytes_of(t);
    t->x_bytes = 2 * (bytes.queries + bytes.keys);
    t->y_bytes = 2 * bytes.queries + bytes.logarithms;
    return stk_attention_need(&t->run, &t->attention);
}

void stk_product_plan(stk_product_trial *t, const stk_product *product, const stk_net_table *table,
                      stk_threadpool *pool, stk_float type, const stk_product_effort *effort)
{
    *t = (stk_product_trial){
        .product = product,
        .run = { .table = table, .pool = pool, .threads = stk_threadpool_size(pool), .type = type },
        .rows = product->rows
    };
    const stk_exec_need need = product->kind == STK_TAPE_LINEAR  ? plan_linear(t, effort)
                               : product->kind == STK_TAPE_CONV3 ? plan_conv3(t, effort)
                                                                 : plan_attention(t, effort);
    t->sets = effort->rotate / (t->x_bytes + t->y_bytes) + 1;
    t->run.scratch_each = rounded(need.scratch);
    t->run.partial_floats = need.partial;
    t->bytes[STK_TRIAL_X] = t->sets * t->x_bytes;
    t->bytes[STK_TRIAL_Y] = t->sets * t->y_bytes;
    t->bytes[STK_TRIAL_SCRATCH] = t->run.scratch_each * t->run.threads;
    t->bytes[STK_TRIAL_PARTIAL] = need.partial * sizeof(float);
    for (int i = 0; i < STK_TRIAL_BLOCKS; i++) t->total += t->bytes[i] = rounded(t->bytes[i]);
}

/* ---- its memory ---- */

/* Small values of both signs: products stay finite and no denormal slows anything down. */
static void fill(void *array, size_t bytes, stk_float type)
{
    const size_t count = bytes / stk_float_bytes(type);
    for (size_t i = 0; i < count; i++) stk_put(array, i, (float)((i * 7919) % 2001) * 0.001f - 1.0f, type);
}

static void give_weights(stk_product_trial *t, unsigned char *packed)
{
    const stk_product *p = t->product;
    const size_t weights = (size_t)p->in * p->out;
    float *bias = t->weights + weights, *d_weight = bias + p->out, *d_bias = d_weight + weights;
    if (p->kind == STK_TAPE_LINEAR) {
        stk_linear *l = &t->linear;
        const stk_linear *one = l;
        l->forward = packed;
        l->backward = packed + stk_linear_packed(&t->run, l, 0);
        l->weight[0] = t->weights;
        l->bias[0] = bias;
        l->d_weight[0] = d_weight;
        l->d_bias[0] = d_bias;
        stk_linear_pack(&t->run, &one, 1);
    } else if (p->kind == STK_TAPE_CONV3) {
        stk_conv3 *l = &t->conv3;
        const stk_conv3 *one = l;
        l->forward = packed;
        l->backward = packed + stk_conv3_packed(&t->run, l, 0);
        l->weight = t->weights;
        l->bias = bias;
        l->d_weight = d_weight;
        l->d_bias = d_bias;
        stk_conv3_pack(&t->run, &one, 1);
    }
}

/* The matrices of a product; of an attention the logarithms, which are f32 in any run. */
static void fill_matrices(stk_product_trial *t)
{
    const stk_product *p = t->product;
    const int maps = p->kind == STK_TAPE_CONV3;
    fill(t->x, t->sets * t->x_bytes, maps ? type_of(t, &p->x) : t->run.type);
    fill(t->y, t->sets * t->y_bytes, maps ? type_of(t, &p->y) : t->run.type);
    if (p->kind != STK_TAPE_ATTENTION) return;
    const attention_bytes bytes = attention_bytes_of(t);
    for (size_t i = 0; i < t->sets; i++)
        fill(t->y + i * t->y_bytes + 2 * bytes.queries, bytes.logarithms, STK_F32);
}

int stk_product_begin(stk_product_trial *t, stoke_error *err)
{
    const char *name = t->product->name;
    if (t->bytes[STK_TRIAL_X] + t->bytes[STK_TRIAL_Y] > stoke_machine_available())
        return stk_fail(err, STOKE_E_NOMEM, "no memory to measure %s: a smaller batch or picture needs less",
                        name);
    t->block = stk_alloc_pages(t->total); /* gone before the next product: pieces would stay in the heap */
    if (!t->block) return stk_fail(err, STOKE_E_NOMEM, "no memory to measure %s", name);
    t->x = t->block;
    t->y = t->x + t->bytes[STK_TRIAL_X];
    t->weights = (void *)(t->y + t->bytes[STK_TRIAL_Y]);
    unsigned char *packed = (unsigned char *)t->weights + t->bytes[STK_TRIAL_WEIGHTS];
    t->run.scratch = packed + t->bytes[STK_TRIAL_PACKED];
    t->run.partial = (void *)(t->run.scratch + t->bytes[STK_TRIAL_SCRATCH]);
    fill(t->weights, t->bytes[STK_TRIAL_WEIGHTS], STK_F32);
    fill_matrices(t);
    give_weights(t, packed);
    return STOKE_OK;
}

void stk_product_end(stk_product_trial *t)
{
    if (t->block) stk_free_pages(t->block, t->total);
    t->block = NULL;
}

/* ---- calls ---- */

static void call_linear(stk_product_trial *t, stk_product_pass pass, void *x, void *y)
{
    const stk_linear *l = &t->linear;
    const stk_exec_rows x_rows = stk_rows_of(x, l->in), y_rows = stk_rows_of(y, l->out);
    const stk_linear_finish finish = { .type = t->run.type };
    if (pass == STK_PASS_FORWARD)
        stk_linear_forward(&t->run, l, t->rows, &x_rows, &finish, y, l->out);
    else if (pass == STK_PASS_INPUT)
        stk_linear_input(&t->run, l, t->rows, &y_rows, x, l->in, t->run.type, 0);
    else
        stk_linear_weight(&t->run, l, t->rows, &x_rows, &y_rows);
}

static stk_conv3_source source_of(const stk_product_trial *t, const stk_product_map *map, const void *data)
{
    return (stk_conv3_source){ .data = data,
                               .type = type_of(t, map),
                               .stride = map->stride,
                               .sample_stride = (size_t)t->map.height * t->map.width * map->stride,
                               .planar = map->planar };
}

static void call_conv3(stk_product_trial *t, stk_product_pass pass, void *x, void *y)
{
    const stk_product *p = t->product;
    const stk_conv3_source x_source = source_of(t, &p->x, x), y_source = source_of(t, &p->y, y);
    const stk_product_map *to = pass == STK_PASS_FORWARD ? &p->y : &p->x;
    const stk_conv3_finish finish = { .type = type_of(t, to), .stride = to->stride, .scale = 1 };
    if (pass == STK_PASS_FORWARD)
        stk_conv3_forward(&t->run, &t->conv3, t->map, &x_source, &finish, y);
    else if (pass == STK_PASS_INPUT)
        stk_conv3_input(&t->run, &t->conv3, t->map, &y_source, &finish, x);
    else
        stk_conv3_weight(&t->run, &t->conv3, t->map, &x_source, &y_source, 1);
}

static void call_attention(stk_product_trial *t, stk_product_pass pass, unsigned char *x, unsigned char *y)
{
    const attention_bytes bytes = attention_bytes_of(t);
    unsigned char *kv = x + bytes.queries, *dq = kv + bytes.keys, *dkv = dq + bytes.queries;
    unsigned char *d_context = y + bytes.queries;
    float *log_sum = (void *)(d_context + bytes.queries);
    if (pass == STK_PASS_FORWARD)
        stk_attention_forward(&t->run, &t->attention, x, kv, y, log_sum);
    else
        stk_attention_backward(&t->run, &t->attention, x, kv, y, log_sum, d_context, dq, dkv);
}

static void call(stk_product_trial *t, stk_product_pass pass, size_t set)
{
    unsigned char *x = t->x + set * t->x_bytes, *y = t->y + set * t->y_bytes;
    if (t->product->kind == STK_TAPE_LINEAR)
        call_linear(t, pass, x, y);
    else if (t->product->kind == STK_TAPE_CONV3)
        call_conv3(t, pass, x, y);
    else
        call_attention(t, pass, x, y);
}

double stk_product_best(stk_product_trial *t, stk_product_pass pass, double seconds)
{
    double best = 1e300;
    const uint64_t start = stk_now_ns();
    uint64_t before = start;
    for (size_t i = 0; i < 2 || (double)(before - start) < seconds * 1e9; i++) {
        call(t, pass, i % t->sets);
        const uint64_t now = stk_now_ns();
        if ((double)(now - before) < best) best = (double)(now - before);
        before = now;
    }
    return best > 0 ? best : 1;
}

/* Of attention scores and context; on the way back scores once more and four gradients. */
double stk_product_flops(const stk_product_trial *t, stk_product_pass pass)
{
    const double forward = 2.0 * (double)t->rows * t->product->in * t->product->out;
    return t->product->kind == STK_TAPE_ATTENTION && pass != STK_PASS_FORWARD ? 2.5 * forward : forward;
}
