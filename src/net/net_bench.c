/* SPDX-License-Identifier: Apache-2.0
 *
 * Every matrix product of a network (products.h), timed: forward, gradient of the input, gradient of the
 * weights, in every table.
 */
#include <stdio.h>
#include <string.h>

#include "src/base/error.h"
#include "src/base/machine.h"
#include "src/base/mem.h"
#include "src/base/remarks.h"
#include "src/base/threadpool.h"
#include "src/net/kernels/net_table.h"
#include "src/net/products.h"
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

static const char *const pass_names[STK_PASSES] = { "forward", "input", "weight" };
static const stk_product_effort thorough = { (size_t)64 << 20, (size_t)1 << 25, 0.04 },
                                quick = { (size_t)1 << 20, (size_t)1 << 20, 0 };

/* ---- all of them ---- */

/* A column of figures: fp32 in every table, bf16 in the best one. */
typedef struct column {
    stk_net_table table;
    stk_float type;
    double peak;
} column;

enum { MAX_COLUMNS = STK_CPU_AMX + 2, NAMES = 900 /* of the products, in a message */ };
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
    const stk_product_effort *effort;
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

/* Counts the figures of a product, and finds the column that takes most. */
static void plan_product(bench *b, const stk_product *product)
{
    for (size_t i = 0; i < b->n_columns; i++) {
        stk_product_trial t;
        stk_product_plan(&t, product, &b->columns[i].table, b->pool, b->columns[i].type, b->effort);
        if (t.total > b->largest) b->largest = t.total;
        for (int pass = 0; pass < STK_PASSES; pass++) b->total += product->calls[pass] > 0;
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

/* A pass that a step has none of is left out: nobody asks for the gradient of pictures. */
static int measure(bench *b, const char *model, const column *c, stk_product_trial *t, stoke_error *err)
{
    const stk_product *product = t->product;
    int r = stk_product_begin(t, err);
    for (int pass = 0; pass < STK_PASSES && !r; pass++) {
        if (!product->calls[pass]) continue;
        const double ns = stk_product_best(t, (stk_product_pass)pass, b->effort->seconds);
        stoke_net_figure figure = { .model = model,
                                    .pass = pass_names[pass],
                                    .table = stk_cpu_level_name(c->table.level),
                                    .precision = c->type == STK_F32 ? "fp32" : "bf16",
                                    .rows = (uint32_t)t->rows,
                                    .in = product->in,
                                    .out = product->out,
                                    .calls = product->calls[pass],
                                    .ms = ns / 1e6,
                                    .gflops = stk_product_flops(t, (stk_product_pass)pass) / ns,
                                    .peak = c->peak };
        snprintf(figure.layer, sizeof figure.layer, "%s", product->name);
        if (b->each(b->context, &figure, ++b->done, b->total))
            r = stk_fail(err, STOKE_E_CANCELLED, "stopped");
    }
    stk_product_end(t);
    return r;
}

static int bench_product(bench *b, const char *model, const stk_product *product, stoke_error *err)
{
    int r = STOKE_OK;
    for (size_t i = 0; i < b->n_columns && !r; i++) {
        column *c = &b->columns[i];
        const double peak = peak_gflops(&c->table, b->pool, c->type, PEAK_AGAIN);
        if (peak > c->peak) c->peak = peak;
        stk_product_trial t;
        stk_product_plan(&t, product, &c->table, b->pool, c->type, b->effort);
        r = measure(b, model, c, &t, err);
    }
    return r;
}

static const char *const default_models[] = { "b0", "b2", "b5", NULL };

/* Plans or measures the products asked for; `names` gets those of all, for a message. */
static int over_models(bench *b, int planning, char names[static NAMES], stoke_error *err)
{
    const stoke_net_bench_params *p = b->params;
    const char *const given[] = { p->model, NULL };
    int r = STOKE_OK;
    for (const char *const *model = p->model ? given : default_models; *model && !r; model++) {
        stk_network_config config;
        stk_products products = { 0 };
        r = stk_network_find(&config, *model, p->classes, err);
        if (!r) r = stk_products_of(&config, p->batch, p->height, p->width, &products, err);
        for (size_t i = 0; i < products.count && !r; i++) {
            const stk_product *product = &products.list[i];
            if (model == given || model == default_models)
                stk_text_add(names, NAMES, "; ", "%s", product->name);
            if (p->only && !strstr(product->name, p->only)) continue;
            if (planning)
                plan_product(b, product);
            else
                r = bench_product(b, config.model, product, err);
        }
        stk_products_free(&products);
    }
    return r;
}

int stoke_net_bench(const stoke_net_bench_params *params, stoke_net_bench_fn each, void *context,
                    stoke_error *err)
{
    const stoke_net_bench_params defaults = stoke_net_bench_defaults();
    char names[NAMES] = "";
    if (!params) params = &defaults;
    bench b = {
        .params = params, .each = each, .context = context, .effort = params->quick ? &quick : &thorough
    };
    int r =
        stk_threadpool_create(&b.pool, params->threads ? params->threads : stoke_machine_cores().usable, err);
    if (r) return r;
    make_columns(&b);
    r = over_models(&b, 1, names, err); /* first: a name that is wrong is told at once */
    if (!r && !b.total)
        r = stk_fail(err, STOKE_E_NOTFOUND, "no layer has '%s' in its name: there are %s", params->only,
                     names);
    if (!r) r = plan_memory(&b, err);
    if (!r) measure_peaks(&b);
    if (!r) r = over_models(&b, 0, names, err);
    stk_threadpool_destroy(&b.pool);
    return r;
}
