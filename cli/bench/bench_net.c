/* SPDX-License-Identifier: Apache-2.0
 *
 * stoke bench net: every matrix product of the networks, in every CPU table, as a share of the processor's
 * peak.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench/bench.h"
#include "cli/lib/facts.h"
#include <stoke/tools/advise.h>

typedef struct net_options {
    const char *model, *only;
    bench_net_shape shape;
    uint64_t memory_limit;
    int short_run;
} net_options;

uint32_t bench_net_batch(const cli_call *call, const bench_net_shape *shape, const char *model)
{
    stoke_estimate_params p = stoke_estimate_defaults();
    if (shape->batch > 0) return (uint32_t)shape->batch;
    p.model = model;
    p.height = shape->size[0];
    p.width = shape->size[1];
    const uint32_t batch = stoke_estimate_auto(&p);
    cli_say(call, "batch is auto: %u, as `stoke train` takes it here", (unsigned)batch);
    return batch;
}

#define OPTIONS net_options
static const stoke_option options[] = {
    CLI_TEXT(STRING, model, NULL, "NAME",
             "Only this network, e.g. b0, resnet or unet; left out, b0, b2 and b5"),
    CLI_TEXT(STRING, only, NULL, "TEXT", "Only layers with this in their name, e.g. fc1"),
    BENCH_NET_OPTIONS("19"),
    CLI_TEXT(BYTES, memory_limit, "0", "BYTES",
             "Ceiling of all that the command holds (512M, 2G): refuses what would be beyond it; 0 = none"),
    CLI_SHORT("Two calls of each, to see that it runs; its figures mean little"),
};

/* What was measured, and --only. */
typedef struct figures {
    const char *only;
    stoke_net_figure *figure;
    size_t count, capacity;
    const cli_call *call;
    stoke_progress *progress;
} figures;

static int take(void *context, const stoke_net_figure *figure, uint64_t done, uint64_t total)
{
    figures *f = context;
    f->figure = cli_grow(f->figure, &f->capacity, f->count + 1, sizeof *f->figure);
    f->figure[f->count++] = *figure;
    return cli_progress_update(f->progress, done, total);
}

/* The bar begins after it: both are lines. */
static void take_plan(void *context, const stoke_memory_sum *sum)
{
    figures *f = context;
    cli_say_memory(f->call, sum);
    f->progress = cli_progress_begin(f->call, "measuring", "figures");
}

static int same_column(const stoke_net_figure *a, const stoke_net_figure *b)
{
    return !strcmp(a->table, b->table) && !strcmp(a->precision, b->precision);
}

/* Of the best peak of the whole run. */
static double share(const figures *f, const stoke_net_figure *figure)
{
    double peak = 0;
    for (size_t i = 0; i < f->count; i++)
        if (same_column(&f->figure[i], figure) && f->figure[i].peak > peak) peak = f->figure[i].peak;
    return peak > 0 ? figure->gflops / peak : 0;
}

static void print_json(const figures *f)
{
    stoke_json json = cli_json_open();
    stoke_json_string(&json, "cpu", stoke_machine_cpu_name());
    JSON_LIST(&json, "products", i, i < f->count) {
        const stoke_net_figure *p = &f->figure[i];
        FACTS_OBJECT(&json, NULL, FACT_OF(p, model), FACT_OF(p, layer), FACT_OF(p, pass), FACT_OF(p, table),
                     FACT_OF(p, precision), FACT_OF(p, rows), FACT_OF(p, in), FACT_OF(p, out),
                     FACT_OF(p, calls), FACT_OF(p, ms), FACT_OF(p, gflops),
                     FACT("share_of_peak", share(f, p)));
    }
    cli_json_memory(&json, f->call->planned);
    stoke_json_close(&json);
}

/* Of the table and precision of figure `like`: what the products measured take together in a step. */
static void print_sum(const figures *f, const stoke_net_figure *like)
{
    double ms = 0, operations = 0, at_peak = 0;
    for (size_t i = 0; i < f->count; i++) {
        const stoke_net_figure *p = &f->figure[i];
        if (strcmp(p->model, like->model) || !same_column(p, like)) continue;
        ms += p->ms * p->calls;
        operations += p->gflops * p->ms * p->calls;
        at_peak += p->ms * p->calls * share(f, p);
    }
    cli_print("%s, %s %s: %s%s%s of a step %.1f ms, %.0f GFLOP/s, %.0f %% of the peak\n", like->model,
              like->table, like->precision, f->only ? "products with '" : "all products",
              f->only ? f->only : "", f->only ? "' in their name" : "", ms, ms > 0 ? operations / ms : 0,
              ms > 0 ? 100 * at_peak / ms : 0);
}

static int same_line(const stoke_net_figure *a, const stoke_net_figure *b)
{
    return same_column(a, b) && !strcmp(a->model, b->model) && !strcmp(a->layer, b->layer) &&
           a->in == b->in && a->rows == b->rows && a->out == b->out;
}

/* The pass of a line that begins with figure i; a step may have none. */
static const char *cell(char text[static 32], const figures *f, size_t i, const char *pass)
{
    for (const stoke_net_figure *line = &f->figure[i]; i < f->count && same_line(line, &f->figure[i]); i++) {
        const stoke_net_figure *p = &f->figure[i];
        if (strcmp(p->pass, pass)) continue;
        snprintf(text, 32, "%.0f (%.0f %%)", p->gflops, 100 * share(f, p));
        return text;
    }
    return "n/a";
}

static void print_people(const figures *f)
{
    cli_print("%s; GFLOP/s (share of the peak measured in this run)\n\n", stoke_machine_cpu_name());
    stoke_table *table = CLI_TABLE("model", "layer", "rows x in x out", "calls", "table", "", "Y = X W^T",
                                   "dX = dY W", "dW = dY^T X");
    for (size_t i = 0; i < f->count; i++) {
        const stoke_net_figure *p = &f->figure[i];
        char forward[32], input[32], weight[32];
        if (i && same_line(p - 1, p)) continue;
        cli_row(table, "%s\t%s\t%u x %u x %u\t%u\t%s\t%s\t%s\t%s\t%s", p->model, p->layer, (unsigned)p->rows,
                (unsigned)p->in, (unsigned)p->out, (unsigned)p->calls, p->table, p->precision,
                cell(forward, f, i, "forward"), cell(input, f, i, "input"), cell(weight, f, i, "weight"));
    }
    cli_table_end(table);
    puts("\nRows come from memory, not from caches, as in a step. The C reference does fewer of them.\n");
    for (size_t i = 0; i < f->count; i++) {
        size_t k = 0;
        while (k < i &&
               (strcmp(f->figure[k].model, f->figure[i].model) || !same_column(&f->figure[k], &f->figure[i])))
            k++;
        if (k == i && strcmp(f->figure[i].table, "c")) print_sum(f, &f->figure[i]);
    }
}

static int run(cli_call *call, stoke_error *err)
{
    const net_options *o = call->options;
    stoke_net_bench_params params = stoke_net_bench_defaults();
    params.model = o->model;
    params.only = o->only;
    params.batch = bench_net_batch(call, &o->shape, o->model);
    params.height = o->shape.size[0];
    params.width = o->shape.size[1];
    params.classes = o->shape.classes < 0 ? BENCH_NET_CLASSES : (uint32_t)o->shape.classes;
    params.threads = (uint32_t)o->shape.threads;
    params.quick = o->short_run;
    figures f = { .only = o->only, .call = call };
    params.memory_limit = o->memory_limit;
    params.planned = take_plan;
    params.planned_context = &f;
    const int r = stoke_net_bench(&params, take, &f, err);
    stoke_progress_destroy(&f.progress);
    if (r == STOKE_E_NOTFOUND) err->code = STOKE_E_INVALID; /* what the user wrote, not a file */
    if (!r) (call->common.json ? print_json : print_people)(&f);
    free(f.figure);
    return r;
}

const cli_command cli_bench_net = {
    .summary = "speed of every matrix product of the networks, against the processor's peak",
    .description =
        "Times every matrix product of a network's training step (forward, gradient of the input, gradient of "
        "the weights) in every CPU table this processor has, whatever STOKE_CPU says, and sets them against "
        "multiply-adds in registers, measured in the same run. Convolutions count as products of patches, so "
        "that those which take fewer operations come out above the peak; attention counts as scores and sums, "
        "its way back under dX. bf16 is measured in the best table.",
    .reads_config = 1,
    .examples = {
        { "stoke bench net --model b0 --size 128", "all products of b0 at 4x128x128" },
        { "stoke bench net --model b2 --only fc1 --size 64", "only the MLP's first layers, on small maps" },
        { "stoke bench net --model resnet --size 128 --batch 16", "the convolutions of a residual network" },
        { "stoke bench net --only query --size 64 --json", "the queries of b0, b2 and b5, for a program" },
    },
    CLI_OWN_OPTIONS_AND_RUN,
};
