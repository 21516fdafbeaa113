/* SPDX-License-Identifier: Apache-2.0
 *
 * stoke bench step: training steps (or forward passes) of a network on made-up pictures, as fast as they go.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench/bench.h"
#include "cli/lib/page.h"

typedef struct step_options {
    const char *model, *weights;
    bench_net_shape shape;
    int precision, memory, loss;
    int forward, dry_run, short_run;
    double seconds;
    int64_t steps;
    uint64_t memory_limit;
} step_options;

enum { MAX_STEPS = 100000, MAX_PARTS = 32, WARM_UP = 2 };

/* clang-format off */
static const char LOSSES[] =
#define STOKE_LOSS(id, value, task, word) word "|"
#include <stoke/losses.def>
#undef STOKE_LOSS
    "auto";
/* clang-format on */

#define OPTIONS step_options
static const stoke_option options[] = {
    CLI_TEXT(STRING, model, NULL, "b0..b5|resnet|unet",
             "A SegFormer, the small residual network or the U-Net, for masks; left out, what --weights "
             "hold, else b0"),
    CLI_TEXT(STRING, weights, NULL, "PATH",
             "Start from these (a Hugging Face folder or a .safetensors file) instead of random ones; they "
             "say model and classes too"),
    BENCH_NET_OPTIONS("what --weights have, or 19 without them"),
    CLI_CHOICE(
        precision, "fp32", "fp32|bf16|fp16|auto",
        "Of activations and products; auto takes bf16 where the processor multiplies it (AMX), else fp32"),
    CLI_CHOICE(memory, "plain", "plain|lean|min",
               "What is kept for the backward pass: all, less, least (the rest is computed again)"),
    CLI_TEXT(BYTES, memory_limit, "0", "BYTES",
             "Ceiling of all that the command holds (512M, 2G): refuses what would be beyond it; 0 = none"),
    CLI_CHOICE(loss, "auto", LOSSES, "Loss; auto is ce"),
    CLI_FLAG(forward, "Inference: the forward pass alone, to logits"),
    CLI_FLAG(dry_run, "Print how much memory it would take and whether there is as much, and stop"),
    CLI_NUMBER(REAL, seconds, "5", 0.1, 3600, "S", "Time to measure for; at least three steps are done"),
    CLI_NUMBER(INT, steps, "0", 0, MAX_STEPS, "N",
               "Steps to measure, whatever they take; 0 measures for --seconds"),
    CLI_SHORT("One step, to see that it runs; its figures mean little"),
};

/* One run: the network, a batch it is fed again and again, and the times of its steps. */
typedef struct bench {
    const cli_call *call;
    const step_options *o;
    stoke_net_params params;
    stoke_net_plan plan;
    stoke_memory_sum memory; /* the plan, and the batch beside it */
    stoke_net *net;
    stoke_net_batch batch;
    float *images;
    uint8_t *masks;
    double *ms;
    size_t steps;
    double loss;
    stoke_net_part parts[MAX_PARTS];
    size_t n_parts;
    double peak;
    uint64_t available; /* memory before anything was opened; UINT64_MAX: nothing tells */
} bench;

/* Pictures with the spread of normalised ones and masks of every class: what is in them does not change the
 * time. */
static void make_batch(bench *b)
{
    const size_t pixels = (size_t)b->params.height * b->params.width, count = b->params.batch;
    b->images = cli_alloc(3 * pixels * count, sizeof *b->images);
    b->masks = cli_alloc(pixels * count, 1);
    uint32_t state = 1;
    for (size_t i = 0; i < 3 * pixels * count; i++) {
        state = state * 1664525u + 1013904223u;
        b->images[i] = (float)(state >> 8) * (4.0f / 16777216.0f) - 2.0f;
    }
    const uint32_t classes = b->plan.classes == 1 ? 2 : b->plan.classes < 255 ? b->plan.classes : 255;
    for (size_t i = 0; i < pixels * count; i++) b->masks[i] = (uint8_t)(i / 7 % classes);
    b->batch = (stoke_net_batch){ .count = b->params.batch,
                                  .images = b->images,
                                  .layout = STOKE_LAYOUT_CHW,
                                  .image_row_floats = 3 * pixels,
                                  .masks = b->masks,
                                  .mask_dtype = STOKE_DTYPE_U8,
                                  .mask_row_bytes = pixels };
}

static int one_step(bench *b, stoke_error *err)
{
    if (b->o->forward) {
        stoke_logits logits;
        return stoke_net_forward(b->net, &b->batch, &logits, err);
    }
    stoke_update update = stoke_update_defaults();
    const int r = stoke_net_backward(b->net, &b->batch, 1, &b->loss, err);
    return r ? r : stoke_net_step(b->net, &update, NULL, err);
}

static const char *unit(const bench *b)
{
    return b->o->forward ? "passes" : "steps";
}

/* Opens the network and warms it up. */
static int begin(bench *b, stoke_error *err)
{
    const uint64_t warm_up = b->o->short_run ? 0 : WARM_UP;
    cli_say(b->call, "opening %s %s", b->plan.family, b->plan.model);
    stoke_progress *progress = warm_up ? cli_progress_begin(b->call, "warming up", unit(b)) : NULL;
    int r = stoke_net_open(&b->net, &b->params, err);
    for (size_t i = 0; !r && stoke_net_remark(b->net, i); i++)
        cli_say(b->call, "%s", stoke_net_remark(b->net, i));
    if (!r) make_batch(b); /* after it: what is too large is refused before gigabytes are filled */
    for (uint64_t i = 0; !r && i <= warm_up; i++) {
        if (cli_progress_update(progress, i, warm_up))
            r = cli_error(err, STOKE_E_CANCELLED, "interrupted");
        else if (i < warm_up)
            r = one_step(b, err);
    }
    stoke_progress_destroy(&progress);
    return r;
}

static int measure(bench *b, stoke_error *err)
{
    int r = 0;
    stoke_net_parts_reset(b->net);
    b->ms = cli_alloc(MAX_STEPS, sizeof *b->ms);
    stoke_progress *progress = cli_progress_begin(b->call, "measuring", unit(b));
    const uint64_t start = stoke_machine_now_ns(), budget = (uint64_t)(b->o->seconds * 1e9);
    const size_t most = b->o->steps ? (size_t)b->o->steps : MAX_STEPS;
    while (!r && b->steps < most) {
        const uint64_t before = stoke_machine_now_ns();
        if (!b->o->steps && b->steps >= 3 && before - start >= budget) break;
        r = one_step(b, err);
        b->ms[b->steps++] = (double)(stoke_machine_now_ns() - before) / 1e6;
        if (!r && cli_progress_update(progress, b->steps, 0))
            r = cli_error(err, STOKE_E_CANCELLED, "interrupted");
        if (b->o->short_run) break;
    }
    stoke_progress_destroy(&progress);
    b->n_parts = stoke_net_parts(b->net, b->parts, MAX_PARTS);
    if (b->n_parts > MAX_PARTS) b->n_parts = MAX_PARTS;
    return r;
}

/* ---- what it prints ---- */

static const char *const memory_names[] = { "plain", "lean", "min" };

static double flops(const bench *b)
{
    return b->o->forward ? b->plan.forward_flops : b->plan.step_flops;
}

/* Pictures in float and masks, and the times of steps. */
static uint64_t batch_bytes(const bench *b)
{
    const uint64_t pixels = (uint64_t)b->params.height * b->params.width * b->params.batch;
    return pixels * (3 * sizeof *b->images + 1) + MAX_STEPS * sizeof *b->ms;
}

/* What it takes besides what the process holds already. */
static int fits(const bench *b)
{
    return stoke_memory_total(&b->memory) - b->plan.process <= b->available;
}

static void print_parts(cli_page *page, const bench *b)
{
    double total = 0;
    for (size_t i = 0; i < b->n_parts; i++) total += b->parts[i].ms;
    cli_page_table(page, "parts");
    for (size_t i = 0; i < b->n_parts; i++) {
        const stoke_net_part *p = &b->parts[i];
        const double ms = p->ms / (double)b->steps;
        if (p->calls || page->as_json)
            CLI_PAGE_ROW(page, CELL("part", FACT_OF(p, name)), CELL_REAL("ms", "ms", "%.2f", ms),
                         CELL_TEXT("of the whole", "%.1f %%", total > 0 ? 100 * p->ms / total : 0),
                         CELL_TEXT("calls", "%.0f", (double)p->calls / (double)b->steps));
    }
    cli_page_table_end(page);
}

/* Of the steps that were measured. */
static void print_speed(cli_page *page, const bench *b)
{
    const double best = b->ms[0], median = b->ms[b->steps / 2], gflops = flops(b) / median / 1e6;
    const double upper = b->ms[3 * b->steps / 4]; /* quartile: what noise makes of a step */
    const double images = 1000 * b->params.batch, peak = b->peak > 0 ? gflops / b->peak : 0;
    const uint64_t held = stoke_machine_peak_rss(), planned = stoke_memory_total(&b->memory);
    CLI_PAGE_FACTS(page, FACT("img_per_s", images / median), FACT("ms_per_step", median),
                   FACT("best_img_per_s", images / best), FACT("best_ms_per_step", best),
                   FACT("upper_quartile_ms_per_step", upper), FACT_OF(b, steps), FACT("gflops", gflops),
                   FACT("peak_gflops", b->peak), FACT("share_of_peak", peak), FACT("peak_rss_bytes", held),
                   FACT_IF(!b->o->forward, FACT_OF(b, loss)));
    cli_page_say(page, "\n%.2f img/s: %.1f ms per %s (best of %zu: %.1f ms, %.2f img/s)\n", images / median,
                 median, b->o->forward ? "pass" : "step", b->steps, best, images / best);
    cli_page_say(page, "%.0f GFLOP/s, %.0f %% of the %.0f measured as this processor's peak in this run\n",
                 gflops, 100 * peak, b->peak);
    cli_page_say(page, "memory: %s at most, %s planned (%+.1f %%)\n", STOKE_MEMORY(held),
                 STOKE_MEMORY(planned), 100 * ((double)held / (double)planned - 1));
    if (b->plan.precision != STOKE_PRECISION_FP32 && strcmp(stoke_net_table_in_use(), "amx"))
        cli_page_say(page,
                     "This processor has no unit for 16-bit floats: they halve the memory of activations "
                     "and cost time.\n");
}

/* Without steps. Afterwards the network itself has taken what is available. */
static void print_plan(cli_page *page, const bench *b)
{
    char text[512];
    const int known = b->available < UINT64_MAX, tera = flops(b) >= 1e13;
    stoke_memory_text(&b->memory, text, sizeof text);
    CLI_PAGE_FACTS(page, FACT_IF(known, FACT("available_bytes", b->available)),
                   FACT_IF(known, FACT_IS("fits", fits(b))));
    cli_page_say(page, "memory: %s\n", text);
    if (known)
        cli_page_say(page, "available: %s; it %s\n", STOKE_MEMORY(b->available),
                     fits(b) ? "fits" : "does not fit");
    cli_page_say(page, "%llu parameters, %.2f %sFLOP per %s\n", (unsigned long long)b->plan.parameter_count,
                 flops(b) / (tera ? 1e12 : 1e9), tera ? "T" : "G", b->o->forward ? "pass" : "step");
}

static void print(const bench *b)
{
    cli_page about, *page = &about;
    const stoke_net_plan *plan = &b->plan;
    const unsigned height = b->params.height, width = b->params.width;
    const char *precision = stoke_precision_name(plan->precision), *memory = memory_names[b->params.memory];
    char size[32];
    snprintf(size, sizeof size, "%ux%u", height, width);
    cli_page_begin(page, b->call->common.json);
    CLI_PAGE_FACTS(page, FACT_OF(plan, model), FACT_OF(&b->params, batch), FACT("size", size),
                   FACT_OF(plan, classes), FACT("precision", precision), FACT("memory", memory),
                   FACT("pass", b->o->forward ? "forward" : "step"), FACT_OF(plan, threads),
                   FACT("planned_bytes", stoke_memory_total(&b->memory)), FACT_OF(plan, parameter_count),
                   FACT("flops", flops(b)), FACT("cpu", stoke_machine_cpu_name()),
                   FACT("table", stoke_net_table_in_use()));
    if (page->as_json)
        FACTS_OBJECT(&page->json, "plan", FACT("parameters_bytes", plan->parameters),
                     FACT("packed_bytes", plan->packed), FACT("activations_bytes", plan->activations),
                     FACT("workspace_bytes", plan->workspace), FACT("batch_bytes", batch_bytes(b)),
                     FACT("process_bytes", plan->process));
    cli_page_say(page, "%s %s, %u x %s, %s, %s, %s, memory %s; %s (%s), %s\n\n", plan->family, plan->model,
                 (unsigned)b->params.batch, size, STOKE_COUNT(plan->classes, "class"), precision,
                 b->o->forward ? "forward" : "full step", memory, stoke_machine_cpu_name(),
                 stoke_net_table_in_use(), STOKE_COUNT(plan->threads, "thread"));
    if (b->o->dry_run) print_plan(page, b);
    print_parts(page, b);
    if (b->steps) print_speed(page, b);
    cli_page_end(page);
}

static int work(bench *b, stoke_error *err)
{
    int r = stoke_net_plan_of(&b->params, &b->plan, err);
    if (r) return r;
    b->available = stoke_machine_available();
    stoke_memory_sum *sum = &b->memory;
    sum->limit_bytes = b->o->memory_limit;
    stoke_memory_add(sum, "parameters", 1, b->plan.parameters);
    stoke_memory_add(sum, "packed", 1, b->plan.packed);
    stoke_memory_add(sum, "activations", 1, b->plan.activations);
    stoke_memory_add(sum, "workspace", 1, b->plan.workspace);
    stoke_memory_add(sum, "batch", 1, batch_bytes(b));
    stoke_memory_add(sum, "process", 1, b->plan.process);
    r = stoke_memory_check(sum, b->o->forward ? "a pass needs" : "a step needs", "lower batch or size", err);
    if (r) return r;
    if (b->o->dry_run) {
        print(b);
        return STOKE_OK;
    }
    cli_say_memory_terms(b->call, sum);
    b->peak = stoke_net_peak_gflops(b->params.threads, (stoke_precision)b->plan.precision);
    r = begin(b, err);
    if (!r) r = measure(b, err);
    if (r) return r;
    /* Twice, and the better one: whoever disturbs one makes it too low. */
    b->peak = fmax(b->peak, stoke_net_peak_gflops(b->params.threads, (stoke_precision)b->plan.precision));
    bench_sort(b->ms, b->steps);
    print(b);
    return STOKE_OK;
}

static int run(cli_call *call, stoke_error *err)
{
    const step_options *o = call->options;
    bench b = { .call = call, .o = o, .params = stoke_net_defaults() };
    b.params.model = o->model || o->weights ? o->model : "b0"; /* NULL, 0: what the weights say */
    b.params.weights = o->weights;
    b.params.classes = o->shape.classes >= 0 ? (uint32_t)o->shape.classes
                       : o->weights          ? 0
                                             : BENCH_NET_CLASSES;
    b.params.batch = bench_net_batch(call, &o->shape, b.params.model);
    b.params.height = o->shape.size[0];
    b.params.width = o->shape.size[1];
    b.params.training = !o->forward;
    b.params.precision = o->precision;
    b.params.memory = o->memory;
    b.params.threads = (uint32_t)o->shape.threads;
    if (o->loss < STOKE_LOSS_KINDS) b.params.loss.kind = (stoke_loss_kind)o->loss;
    const int r = work(&b, err);
    stoke_net_close(&b.net);
    free(b.images);
    free(b.masks);
    free(b.ms);
    if (r == STOKE_E_NOTFOUND && !o->weights) err->code = STOKE_E_INVALID; /* a model's name, no file's */
    return r;
}

const cli_command cli_bench_step = {
    .summary = "speed and memory of a training step, part by part",
    .description =
        "Trains a network on one made-up batch again and again (forward, loss at the resolution of the "
        "pictures, backward, clipping, AdamW) and prints the rate (median, best), time per part, arithmetic "
        "as a share of the peak measured in the same run, and memory against its plan.",
    .reads_config = 1,
    .examples = {
        { "stoke bench step --batch 1 --size 128", "b0: forward, loss, backward, update" },
        { "stoke bench step --config configs/face_config.yaml --size 64 --steps 5",
          "batch and precision of a settings file" },
        { "stoke bench step --model b5 --size 640 --batch 16 --memory min --dry-run", "will it fit?" },
        { "stoke bench step --batch 1 --size 128 --forward --json", "inference, for a program" },
    },
    CLI_OWN_OPTIONS_AND_RUN,
};
