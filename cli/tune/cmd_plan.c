/* SPDX-License-Identifier: Apache-2.0
 *
 * stoke plan: what a training step of a network is made of, operation by operation, and the memory over it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/lib/common.h"
#include "cli/lib/facts.h"
#include "cli/lib/output.h"
#include <stoke/tools/net.h>

typedef struct plan_options {
    const char *model;
    int64_t classes, batch, base_channels, num_blocks, scale;
    uint32_t size[2];
    int task, precision, memory, forward, freeze_encoder, ops, force;
    const char *perceptual, *svg;
} plan_options;

enum { COLUMNS = 72, ROWS = 14, MAX_KINDS = 32 };

#define OPTIONS plan_options
static const stoke_option options[] = {
    CLI_TEXT(STRING, model, NULL, "b0..b5|resnet|unet",
             "The network, in place of MODEL; b0 where neither is given"),
    CLI_NUMBER(INT, classes, "19", 1, 65535, "N", "Number of classes"),
    CLI_NUMBER(INT, batch, "4", 1, 65536, "N", "Pictures per batch"),
    CLI_TEXT(SIZE, size, "256", "N|HxW", "Size of a picture, up to 32768x32768"),
    CLI_CHOICE(task, "segment", "segment|restore",
               "What is learned of a picture: its mask, or another picture that it should become (resnet)"),
    CLI_NUMBER(INT, scale, "1", 1, 4, "N", "Of --task restore: sides of the result per side of the picture"),
    CLI_NUMBER(INT, base_channels, "0", 0, 1024, "N", "Of resnet and unet; 0 is 32, and 16 of a unet"),
    CLI_NUMBER(INT, num_blocks, "0", 0, 256, "N", "Of resnet; 0 is 4"),
    CLI_TEXT(STRING, perceptual, NULL, "DIR|FILE",
             "Of --task restore: the frozen network of a perceptual loss, as `stoke train` takes it"),
    CLI_CHOICE(precision, "fp32", "fp32|bf16|fp16|auto", "Of activations and products"),
    CLI_CHOICE(memory, "plain", "plain|lean|min",
               "What is kept for the backward pass: all, less, least (the rest is computed again)"),
    CLI_FLAG(forward, "Inference: the forward pass alone"),
    CLI_FLAG(freeze_encoder, "Train the decode head alone"),
    CLI_FLAG(ops,
             "Every operation as a row: layer, shape, arithmetic, bytes read and written, bytes in memory"),
    CLI_TEXT(STRING, svg, NULL, "FILE", "Draw the memory over the step as an SVG"),
    CLI_FORCE,
};

/* ---- memory over the step ---- */

typedef struct drawing {
    double *x, *live, *kept;
    stoke_series series[2];
    stoke_mark marks[2];
    stoke_chart chart;
} drawing;

static void draw(drawing *d, const stoke_net_tape *tape)
{
    d->x = cli_alloc(3 * tape->n_ops, sizeof *d->x);
    d->live = d->x + tape->n_ops;
    d->kept = d->live + tape->n_ops;
    for (size_t i = 0; i < tape->n_ops; i++) {
        d->x[i] = (double)i;
        d->live[i] = (double)tape->ops[i].live / (1 << 20);
        d->kept[i] = 0;
    }
    for (size_t i = 0; i < tape->n_maps; i++) {
        const stoke_net_map *map = &tape->maps[i];
        for (uint32_t k = map->first; map->kept && k <= map->last; k++)
            d->kept[k] += (double)map->bytes / (1 << 20);
    }
    d->series[0] = (stoke_series){ .name = "all", .x = d->x, .y = d->live, .count = tape->n_ops };
    d->series[1] =
        (stoke_series){ .name = "kept for backward", .x = d->x, .y = d->kept, .count = tape->n_ops };
    d->chart = stoke_chart_defaults();
    d->chart.title = "Memory of tensors over a step";
    d->chart.x_label = "operation";
    d->chart.y_label = "MiB";
    d->chart.y_min = 0;
    d->chart.series = d->series;
    d->chart.n_series = tape->kept ? 2 : 1;
    d->chart.marks = d->marks;
    for (size_t i = 1; i < tape->n_ops; i++)
        if (!strcmp(tape->ops[i].phase, "backward") && strcmp(tape->ops[i - 1].phase, "backward"))
            d->marks[d->chart.n_marks++] = (stoke_mark){ .x = (double)i, .text = "backward" };
}

/* ---- for people ---- */

/* What operations of one kind come to. */
typedef struct kind_sum {
    const char *kind;
    size_t count;
    double flops;
    uint64_t bytes;
} kind_sum;

static int more_flops(const void *a, const void *b)
{
    const kind_sum *x = a, *y = b;
    if (x->flops != y->flops) return x->flops < y->flops ? 1 : -1;
    return x->bytes < y->bytes ? 1 : x->bytes > y->bytes ? -1 : 0;
}

static void print_kinds(const stoke_net_tape *tape)
{
    kind_sum sums[MAX_KINDS] = { 0 };
    size_t n = 0;
    for (size_t i = 0; i < tape->n_ops; i++) {
        const stoke_net_op *op = &tape->ops[i];
        size_t k = 0;
        while (k < n && strcmp(sums[k].kind, op->kind)) k++;
        if (k == MAX_KINDS) continue;
        if (k == n) n++;
        sums[k].kind = op->kind;
        sums[k].count++;
        sums[k].flops += op->flops;
        sums[k].bytes += op->read + op->written;
    }
    qsort(sums, n, sizeof *sums, more_flops);
    stoke_table *table = CLI_TABLE("operation", "times", "GFLOP", "of all", "read and written");
    for (size_t k = 0; k < n; k++)
        cli_row(table, "%s\t%zu\t%.3f\t%.1f %%\t%s", sums[k].kind, sums[k].count, sums[k].flops / 1e9,
                tape->plan.step_flops > 0 ? 100 * sums[k].flops / tape->plan.step_flops : 0,
                STOKE_MEMORY(sums[k].bytes));
    cli_table_end(table);
}

static void print_ops(const stoke_net_tape *tape)
{
    stoke_table *table =
        CLI_TABLE("number", "phase", "operation", "layer", "shape", "GFLOP", "read", "written", "in memory");
    for (size_t i = 0; i < tape->n_ops; i++) {
        const stoke_net_op *op = &tape->ops[i];
        cli_row(table, "%zu\t%s\t%s\t%s\t%s\t%.3f\t%s\t%s\t%s", i, op->phase, op->kind, op->layer, op->shape,
                op->flops / 1e9, STOKE_MEMORY(op->read), STOKE_MEMORY(op->written), STOKE_MEMORY(op->live));
    }
    cli_table_end(table);
}

static void print_text(const stoke_net_tape *tape, const plan_options *o)
{
    const stoke_net_plan *plan = &tape->plan;
    size_t worst = 0;
    for (size_t i = 1; i < tape->n_ops; i++)
        if (tape->ops[i].live > tape->ops[worst].live) worst = i;
    const char *learns =
        plan->task == STOKE_TASK_RESTORE ? "restores pictures" : STOKE_COUNT(plan->classes, "class");
    cli_print("%s %s, %lld x %ux%u, %s%s%s, %s: %llu parameters, %.2f GFLOP in %zu operations\n\n",
              plan->family, plan->model, (long long)o->batch, (unsigned)o->size[0], (unsigned)o->size[1],
              learns, plan->features ? ", judged by " : "", plan->features ? plan->features : "",
              stoke_precision_name(plan->precision), (unsigned long long)plan->parameter_count,
              plan->step_flops / 1e9, tape->n_ops);
    if (o->ops)
        print_ops(tape);
    else
        print_kinds(tape);
    cli_print("\nparameters %s, packed weights %s, tensors %s (%s of them kept for the backward pass), "
              "workspace %s\n",
              STOKE_MEMORY(plan->parameters), STOKE_MEMORY(plan->packed), STOKE_MEMORY(tape->bytes),
              STOKE_MEMORY(tape->kept), STOKE_MEMORY(plan->workspace + plan->activations - tape->bytes));
    const stoke_net_op *most = &tape->ops[worst];
    cli_print("memory peaks at operation %zu: %s%s%s, %s\n", worst, most->kind, *most->layer ? " " : "",
              most->layer, STOKE_MEMORY(most->live));
}

/* ---- for programs ---- */

static void print_json(const stoke_net_tape *tape, const plan_options *o)
{
    const stoke_net_plan *plan = &tape->plan;
    stoke_json json = cli_json_open();
    FACTS(&json, FACT_OF(plan, model), FACT_OF(plan, family), FACT_OF(o, batch),
          FACT_SIZE("size", o->size[0], o->size[1]), FACT_OF(plan, classes),
          FACT("precision", stoke_precision_name(plan->precision)), FACT_OF(plan, features),
          FACT_OF(plan, parameter_count), FACT("forward_flops", plan->forward_flops),
          FACT("flops", plan->step_flops), FACT("parameters_bytes", plan->parameters),
          FACT("packed_bytes", plan->packed), FACT("tensors_bytes", tape->bytes),
          FACT("kept_bytes", tape->kept),
          FACT("workspace_bytes", plan->workspace + plan->activations - tape->bytes), FACT("svg", o->svg));
    JSON_LIST(&json, "ops", i, i < tape->n_ops) {
        const stoke_net_op *op = &tape->ops[i];
        FACTS_OBJECT(&json, NULL, FACT_OF(op, phase), FACT_OF(op, kind), FACT_TEXT("layer", op->layer),
                     FACT("shape", (const char *)op->shape), FACT_OF(op, flops), FACT("read_bytes", op->read),
                     FACT("written_bytes", op->written), FACT("live_bytes", op->live));
    }
    JSON_LIST(&json, "tensors", i, i < tape->n_maps) {
        const stoke_net_map *map = &tape->maps[i];
        FACTS_OBJECT(&json, NULL, FACT_OF(map, name), FACT_OF(map, first), FACT_OF(map, last),
                     FACT_OF(map, at), FACT_OF(map, bytes), FACT_IS_OF(map, kept));
    }
    stoke_json_close(&json);
}

static int run(cli_call *call, stoke_error *err)
{
    const plan_options *o = call->options;
    stoke_net_params params = stoke_net_defaults();
    stoke_net_tape *tape = NULL;
    drawing d = { 0 };
    if (call->n_words && o->model)
        return cli_error(err, STOKE_E_INVALID, "the network is named twice: '%s' and --model %s",
                         call->words[0], o->model);
    params.model = call->n_words ? call->words[0] : o->model ? o->model : "b0";
    params.classes = (uint32_t)o->classes;
    params.task = o->task ? STOKE_TASK_RESTORE : STOKE_TASK_SEGMENT;
    if (o->task) params.loss.kind = STOKE_LOSS_L1;
    params.scale = (uint32_t)o->scale;
    params.base_channels = (uint32_t)o->base_channels;
    params.num_blocks = (uint32_t)o->num_blocks;
    params.perceptual = o->perceptual;
    params.batch = (uint32_t)o->batch;
    params.height = o->size[0];
    params.width = o->size[1];
    params.precision = o->precision;
    params.memory = o->memory;
    params.training = !o->forward;
    params.freeze_encoder = o->freeze_encoder;
    int r = cli_may_write(call, o->svg, o->force, err);
    if (!r) r = stoke_net_tape_of(&params, &tape, err);
    if (r == STOKE_E_NOTFOUND && !o->perceptual) err->code = STOKE_E_INVALID; /* a model's name, no file's */
    if (r) return r;
    draw(&d, tape);
    if (o->svg) r = cli_write_chart(&d.chart, o->svg, err);
    if (!r) (call->common.json ? print_json : print_text)(tape, o);
    if (!r && !call->common.json) {
        puts("");
        r = stoke_chart_text(&d.chart, COLUMNS, ROWS, stdout, err);
    }
    if (!r && o->svg) cli_say(call, "memory over the step: %s", o->svg);
    free(d.x);
    stoke_net_tape_destroy(&tape);
    return r;
}

const cli_command cli_plan = {
    .summary = "what a step of a network is made of, and its memory over the step",
    .arguments = "[MODEL]",
    .max_words = 1,
    .description =
        "Records a training step of a network as `stoke train` carries it out, without running it: "
        "operations with their shapes, arithmetic and bytes, and when each tensor is in memory. A tensor that "
        "the backward pass reads is kept until then; --memory lean and min compute some of them again. MODEL "
        "(or --model) is b0 unless it is given. Elementwise arithmetic is not counted, nor are bytes of pictures and weights.",
    .examples = {
        { "stoke plan b0", "kinds of operations, memory, and how much lives when" },
        { "stoke plan b0 --ops --batch 1", "every operation of a step" },
        { "stoke plan b5 --size 640 --batch 2 --memory min --svg plan.svg",
          "what --memory min saves, as a picture" },
        { "stoke plan b2 --forward --json",
          "inference, for a program: operations and tensors with their lives" },
    },
    CLI_OWN_OPTIONS_AND_RUN,
};
