/* SPDX-License-Identifier: Apache-2.0
 *
 * Every matrix product of a network, timed: forward, gradient of the input, gradient of the weights, in every
 * table.
 */
#include <string.h>

#include "src/base/error.h"
#include "src/base/machine.h"
#include "src/base/mem.h"
#include "src/base/threadpool.h"
#include "src/net/kernels/net_table.h"
#include "src/net/ops/ops.h"
#include "src/net/segformer/segformer.h"
#include <stoke/tools/machine.h>
#include <stoke/tools/netbench.h>

/* ---- the processor's peak ---- */

typedef struct job {
    stk_peak_fn *run;
    uint64_t rounds;
    uint64_t *done; /* per task */
} job;

enum { MAX_TASKS = 1024 };

static void task(const void *context, uint32_t index, uint32_t thread)
{
    const job *j = context;
    (void)thread;
    j->done[index] = j->run(j->rounds);
}

/* 1e9 operations per second of the whole team: the best of several rounds of about `seconds` altogether. */
static double peak_gflops(const stk_net_table *table, stk_threadpool *pool, stk_float type, double seconds)
{
    uint64_t done[MAX_TASKS];
    job j = { .run = table->peak.run[type], .rounds = 1000, .done = done };
    const uint32_t tasks = stk_threadpool_size(pool);
    double best = 0;
    const uint64_t start = stoke_machine_now_ns();
    /* Rounds grow until one takes a twentieth of the time: long enough for the clock and for waking threads.
     */
    for (;;) {
        const uint64_t before = stoke_machine_now_ns();
        stk_threadpool_run(pool, task, &j, tasks);
        const uint64_t now = stoke_machine_now_ns();
        double operations = 0;
        for (uint32_t i = 0; i < tasks; i++) operations += (double)done[i];
        if (now > before && operations / (double)(now - before) > best)
            best = operations / (double)(now - before);
        if ((double)(now - before) < seconds * 1e9 / 20) j.rounds *= 2;
        if ((double)(now - start) > seconds * 1e9) return best;
    }
}

double stoke_net_peak_gflops(uint32_t threads, stoke_precision precision)
{
    stk_threadpool *pool;
    const int automatic = precision == STOKE_PRECISION_AUTO;
    const stk_float type = precision == STOKE_PRECISION_BF16 || automatic ? STK_BF16 : STK_F32;
    if (stk_threadpool_create(&pool, threads ? threads : stoke_machine_cores().usable, NULL)) return 0;
    const double peak = peak_gflops(stk_net_table_get(), pool, type, 0.2);
    stk_threadpool_destroy(&pool);
    return peak;
}

const char *stoke_net_table_in_use(void)
{
    return stk_cpu_level_name(stk_net_table_get()->level);
}

/* ---- kernels ---- */

stoke_net_bench_params stoke_net_bench_defaults(void)
{
    return (stoke_net_bench_params){
        .struct_size = sizeof(stoke_net_bench_params), .batch = 4, .height = 256, .width = 256, .classes = 19
    };
}

/* ---- which products ---- */

enum { LAYERS_OF_STAGE = 8, MAX_LAYERS = LAYERS_OF_STAGE * STK_STAGES + 1 };

typedef struct layer {
    const char *name;
    uint32_t rows, in, out, taps, calls;
} layer;

/* In the order of list_layers. */
#define STAGE(i)                                                                                             \
    {                                                                                                        \
        "stage " i " patches", "stage " i " query", "stage " i " reduction", "stage " i " key, value",       \
            "stage " i " output", "stage " i " fc1", "stage " i " fc2", "head, stage " i                     \
    }
static const char *const stage_layers[STK_STAGES][LAYERS_OF_STAGE] = { STAGE("1"), STAGE("2"), STAGE("3"),
                                                                       STAGE("4") };

static size_t list_layers(layer list[MAX_LAYERS], const stk_segformer_config *config,
                          const stoke_net_bench_params *p)
{
    uint32_t height = p->height, width = p->width, before = 3;
    size_t count = 0, first_rows = 0;
    for (int i = 0; i < STK_STAGES; i++) {
        const uint32_t c = config->hidden[i], k = config->patch[i], sr = config->reduction[i],
                       depth = config->depths[i];
        height = (height + 2 * (k / 2) - k) / config->stride[i] + 1;
        width = (width + 2 * (k / 2) - k) / config->stride[i] + 1;
        const uint32_t rows = p->batch * height * width, keys = p->batch * (height / sr) * (width / sr);
        const char *const *name = stage_layers[i];
        if (!i) first_rows = rows;
        list[count++] = (layer){ name[0], rows, k * k * before, c, k * k, 1 };
        list[count++] = (layer){ name[1], rows, c, c, 1, depth };
        if (sr > 1) list[count++] = (layer){ name[2], keys, sr * sr * c, c, sr * sr, depth };
        list[count++] = (layer){ name[3], keys, c, 2 * c, 1, depth };
        list[count++] = (layer){ name[4], rows, c, c, 1, depth };
        list[count++] = (layer){ name[5], rows, c, config->mlp_ratio * c, 1, depth };
        list[count++] = (layer){ name[6], rows, config->mlp_ratio * c, c, 1, depth };
        list[count++] = (layer){ name[7], rows, c, config->decoder, 1, 1 };
        before = c;
    }
    list[count++] = (layer){ "classifier", (uint32_t)first_rows, config->decoder, config->classes, 1, 1 };
    return count;
}

/* ---- one product ---- */

enum { FORWARD, INPUT, WEIGHT, PASSES };
static const char *const pass_names[PASSES] = { "forward", "input", "weight" };

/* How much is done for a figure. Rows rotate through `rotate` bytes: 64 MiB are twice what the caches of two
 * cores hold. The C reference, which computes rather than waits, does a share of the rows. */
typedef struct effort {
    size_t rotate, c_operations;
    double seconds;
} effort;
static const effort thorough = { (size_t)64 << 20, (size_t)1 << 25, 0.04 },
                    quick = { (size_t)1 << 20, (size_t)1 << 20, 0 };

enum { X, Y, WEIGHTS, PACKED, SCRATCH, PARTIAL, BLOCKS };

typedef struct trial {
    stk_exec run;
    stk_linear linear;
    size_t rows, sets;
    unsigned char *x, *y; /* `sets` matrices each */
    size_t x_bytes, y_bytes;
    float *weights; /* master, bias, gradients of both */
    size_t bytes[BLOCKS], total;
    void *block; /* one for all of these */
} trial;

static void trial_end(trial *t)
{
    stk_free_pages(t->block, t->total);
}

/* Small values of both signs: products stay finite and no denormal slows anything down. */
static void fill(void *array, size_t count, stk_float type)
{
    for (size_t i = 0; i < count; i++) stk_put(array, i, (float)((i * 7919) % 2001) * 0.001f - 1.0f, type);
}

/* What a product is measured on, before memory is taken for it. */
static void trial_plan(trial *t, const layer *l, const stk_net_table *table, stk_threadpool *pool,
                       stk_float type, const effort *how)
{
    const size_t weights = (size_t)l->in * l->out;
    *t = (trial){ .run = { .table = table, .pool = pool, .threads = stk_threadpool_size(pool), .type = type },
                  .rows = l->rows };
    if (table->level == STK_CPU_C && t->rows * weights * 2 > how->c_operations)
        t->rows = how->c_operations / (weights * 2) + 1;
    t->x_bytes = t->rows * l->in * stk_float_bytes(type);
    t->y_bytes = t->rows * l->out * stk_float_bytes(type);
    t->sets = how->rotate / (t->x_bytes + t->y_bytes) + 1;
    t->linear =
        (stk_linear){ .in = l->in, .out = l->out, .taps = l->taps, .parts = 1, .weight_stride = l->in };
    const stk_exec_need need = stk_linear_need(&t->run, &t->linear, t->rows);
    t->run.scratch_each = (need.scratch + 63) / 64 * 64;
    t->run.partial_floats = need.partial;
    t->bytes[X] = t->sets * t->x_bytes;
    t->bytes[Y] = t->sets * t->y_bytes;
    t->bytes[WEIGHTS] = 2 * (weights + l->out) * sizeof(float);
    t->bytes[PACKED] = stk_linear_packed(&t->run, &t->linear, 0) + stk_linear_packed(&t->run, &t->linear, 1);
    t->bytes[SCRATCH] = t->run.scratch_each * t->run.threads;
    t->bytes[PARTIAL] = need.partial * sizeof(float);
    for (int i = 0; i < BLOCKS; i++) t->total += t->bytes[i] = (t->bytes[i] + 63) / 64 * 64;
}

static int trial_begin(trial *t, const layer *l, const stk_net_table *table, stk_threadpool *pool,
                       stk_float type, const effort *how, stoke_error *err)
{
    const size_t weights = (size_t)l->in * l->out;
    trial_plan(t, l, table, pool, type, how);
    if (t->bytes[X] + t->bytes[Y] > stoke_machine_available())
        return stk_fail(err, STOKE_E_NOMEM, "no memory to measure %s: a smaller batch or picture needs less",
                        l->name);
    t->block = stk_alloc_pages(t->total); /* gone before the next product: pieces would stay in the heap */
    if (!t->block) return stk_fail(err, STOKE_E_NOMEM, "no memory to measure %s", l->name);
    t->x = t->block;
    t->y = t->x + t->bytes[X];
    t->weights = (void *)(t->y + t->bytes[Y]);
    t->linear.forward = (unsigned char *)t->weights + t->bytes[WEIGHTS];
    t->run.scratch = (void *)((unsigned char *)t->linear.forward + t->bytes[PACKED]);
    t->run.partial = (void *)((unsigned char *)t->run.scratch + t->bytes[SCRATCH]);
    t->linear.backward = (unsigned char *)t->linear.forward + stk_linear_packed(&t->run, &t->linear, 0);
    t->linear.weight[0] = t->weights;
    t->linear.bias[0] = t->weights + weights;
    t->linear.d_weight[0] = t->weights + weights + l->out;
    t->linear.d_bias[0] = t->weights + 2 * weights + l->out;
    fill(t->weights, 2 * (weights + l->out), STK_F32);
    fill(t->x, t->sets * t->rows * l->in, type);
    fill(t->y, t->sets * t->rows * l->out, type);
    const stk_linear *one = &t->linear;
    stk_linear_pack(&t->run, &one, 1);
    return STOKE_OK;
}

static void call(trial *t, int pass, size_t set)
{
    const stk_linear *l = &t->linear;
    void *x = t->x + set * t->x_bytes, *y = t->y + set * t->y_bytes;
    const stk_exec_rows x_rows = stk_rows_of(x, l->in), y_rows = stk_rows_of(y, l->out);
    const stk_linear_finish finish = { .type = t->run.type };
    if (pass == FORWARD)
        stk_linear_forward(&t->run, l, t->rows, &x_rows, &finish, y, l->out);
    else if (pass == INPUT)
        stk_linear_input(&t->run, l, t->rows, &y_rows, x, l->in, t->run.type, 0);
    else
        stk_linear_weight(&t->run, l, t->rows, &x_rows, &y_rows);
}

/* Nanoseconds of the best call within `seconds`; at least two calls. */
static double best_call(trial *t, int pass, double seconds)
{
    double best = 1e300;
    const uint64_t start = stoke_machine_now_ns();
    uint64_t before = start;
    for (size_t i = 0; i < 2 || (double)(before - start) < seconds * 1e9; i++) {
        call(t, pass, i % t->sets);
        const uint64_t now = stoke_machine_now_ns();
        if ((double)(now - before) < best) best = (double)(now - before);
        before = now;
    }
    return best > 0 ? best : 1;
}

/* ---- all of them ---- */

/* A column of figures: fp32 in every table, bf16 in the best one. */
typedef struct column {
    stk_net_table table;
    stk_float type;
    double peak;
} column;

enum { MAX_COLUMNS = STK_CPU_AMX + 2 };
static const double PEAK_FIRST = 0.2, PEAK_AGAIN = 0.02; /* seconds; again with every layer */

typedef struct bench {
    const stoke_net_bench_params *params;
    stoke_net_bench_fn each;
    void *context;
    stk_threadpool *pool;
    column columns[MAX_COLUMNS];
    size_t n_columns;
    uint64_t done, total; /* figures */
    uint64_t largest;     /* bytes that a product is measured on */
    const effort *effort;
} bench;

static void make_columns(bench *b)
{
    const stk_cpu_level best = stk_cpu_detected();
    for (int level = STK_CPU_C; level <= (int)best + 1; level++) {
        column *c = &b->columns[b->n_columns++];
        stk_net_table_fill(&c->table, level > (int)best ? best : (stk_cpu_level)level);
        c->type = level > (int)best ? STK_BF16 : STK_F32;
    }
}

static void measure_peaks(bench *b)
{
    for (size_t i = 0; i < b->n_columns; i++) {
        column *c = &b->columns[i];
        c->peak = peak_gflops(&c->table, b->pool, c->type, b->params->quick ? PEAK_AGAIN : PEAK_FIRST);
    }
}

/* Counts the figures of a layer, and finds the column that takes most. */
static void plan_layer(bench *b, const layer *l)
{
    for (size_t i = 0; i < b->n_columns; i++) {
        trial t;
        trial_plan(&t, l, &b->columns[i].table, b->pool, b->columns[i].type, b->effort);
        if (t.total > b->largest) b->largest = t.total;
        b->total += PASSES;
    }
}

static int plan_memory(const bench *b, stoke_error *err)
{
    const stoke_net_bench_params *p = b->params;
    stoke_memory_sum sum = { .limit_bytes = p->memory_limit };
    stoke_memory_add(&sum, "the largest product", 1, b->largest);
    stoke_memory_add(&sum, "process", 1,
                     stk_machine_rss("/proc") + STK_CODE_BYTES + b->total * sizeof(stoke_net_figure) * 2);
    const int r = stoke_memory_check(&sum, "the largest product needs", "lower batch or size", err);
    if (!r && p->planned) p->planned(p->planned_context, &sum);
    return r;
}

static int bench_layer(bench *b, const char *model, const layer *l, stoke_error *err)
{
    for (size_t i = 0; i < b->n_columns; i++) {
        column *c = &b->columns[i];
        const double peak = peak_gflops(&c->table, b->pool, c->type, PEAK_AGAIN);
        if (peak > c->peak) c->peak = peak;
        trial t;
        int r = trial_begin(&t, l, &c->table, b->pool, c->type, b->effort, err);
        for (int pass = 0; pass < PASSES && !r; pass++) {
            const double ns = best_call(&t, pass, b->effort->seconds);
            const double gflops = 2.0 * (double)t.rows * l->in * l->out / ns;
            const stoke_net_figure figure = { .model = model,
                                              .layer = l->name,
                                              .pass = pass_names[pass],
                                              .table = stk_cpu_level_name(c->table.level),
                                              .precision = c->type == STK_F32 ? "fp32" : "bf16",
                                              .rows = (uint32_t)t.rows,
                                              .in = l->in,
                                              .out = l->out,
                                              .calls = l->calls,
                                              .ms = ns / 1e6,
                                              .gflops = gflops,
                                              .peak = c->peak };
            if (b->each(b->context, &figure, ++b->done, b->total))
                r = stk_fail(err, STOKE_E_CANCELLED, "stopped");
        }
        trial_end(&t);
        if (r) return r;
    }
    return STOKE_OK;
}

static const char *const default_models[] = { "b0", "b2", "b5", NULL };

/* Plans or measures the layers asked for. */
static int over_models(bench *b, int planning, stoke_error *err)
{
    const char *const given[] = { b->params->model, NULL };
    for (const char *const *model = b->params->model ? given : default_models; *model; model++) {
        stk_network_config found;
        layer list[MAX_LAYERS];
        int r = stk_network_find(&found, *model, b->params->classes, err);
        if (!r && found.network != &stk_segformer_network)
            r = stk_fail(err, STOKE_E_UNSUPPORTED, "only products of SegFormer are measured one by one");
        if (r) return r;
        const stk_segformer_config config = stk_segformer_sizes(found.model, found.classes);
        const size_t count = list_layers(list, &config, b->params);
        for (size_t i = 0; i < count && !r; i++) {
            if (b->params->only && !strstr(list[i].name, b->params->only)) continue;
            if (planning)
                plan_layer(b, &list[i]);
            else
                r = bench_layer(b, config.model, &list[i], err);
        }
        if (r) return r;
    }
    return STOKE_OK;
}

int stoke_net_bench(const stoke_net_bench_params *params, stoke_net_bench_fn each, void *context,
                    stoke_error *err)
{
    const stoke_net_bench_params defaults = stoke_net_bench_defaults();
    if (!params) params = &defaults;
    int r =
        stk_network_check_batch(&stk_segformer_network, params->batch, params->height, params->width, err);
    if (r) return r;
    bench b = {
        .params = params, .each = each, .context = context, .effort = params->quick ? &quick : &thorough
    };
    r = stk_threadpool_create(&b.pool, params->threads ? params->threads : stoke_machine_cores().usable, err);
    if (r) return r;
    make_columns(&b);
    r = over_models(&b, 1, err); /* first: a name that is wrong is told at once */
    if (!r && !b.total)
        r = stk_fail(err, STOKE_E_NOTFOUND,
                     "no layer has '%s' in its name: there are \"stage 1 patches\", query, reduction, \"key, "
                     "value\", output, fc1, fc2, the same for stages 2 to 4, \"head, stage 1\" to 4, and "
                     "classifier",
                     params->only);
    if (!r) r = plan_memory(&b, err);
    if (!r) measure_peaks(&b);
    if (!r) r = over_models(&b, 0, err);
    stk_threadpool_destroy(&b.pool);
    return r;
}
