/* SPDX-License-Identifier: Apache-2.0
 *
 * stoke find-lr: a sweep over learning rates, its curve, what can be read from it.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common.h"
#include "cli/output.h"
#include "cli/settings.h"
#include "cli/train_bar.h"

typedef struct find_options {
    double low, high;
    int64_t sweep_steps;
    const char *out;
} find_options;

#define FIELD(member) offsetof(find_options, member)
static const stoke_option options[] = {
    { .name = "low",
      .type = STOKE_OPT_REAL,
      .offset = FIELD(low),
      .default_text = "1e-6",
      .min = 1e-12,
      .max = 100,
      .argument = "LR",
      .help = "Where the sweep begins; a rate with which hardly anything is learned" },
    { .name = "high",
      .type = STOKE_OPT_REAL,
      .offset = FIELD(high),
      .default_text = "1",
      .min = 1e-11,
      .max = 1000,
      .argument = "LR",
      .help = "Where it ends, unless the loss is 4 times its lowest before; sgd may want 10" },
    { .name = "sweep_steps",
      .type = STOKE_OPT_INT,
      .offset = FIELD(sweep_steps),
      .default_text = "200",
      .min = 100,
      .max = 10000,
      .argument = "N",
      .help = "Steps of the sweep; more of them make a smoother curve" },
    { .name = "out",
      .type = STOKE_OPT_STRING,
      .offset = FIELD(out),
      .default_text = "find-lr.svg",
      .argument = "FILE",
      .help = "The curve as a picture" },
};

enum { COLUMNS = 78, ROWS = 16, READINGS = 3, COMMAND = 4096 };

/* One call of the command. */
typedef struct finding {
    const cli_call *call;
    const find_options *o;
    train_bar bar;            /* while settling */
    stoke_progress *progress; /* while sweeping */
    stoke_lr_report report;
} finding;

/* ---- while it runs ---- */

static void show_step(finding *f, const stoke_train_event *e)
{
    char note[96];
    train_bar_end(&f->bar);
    if (!f->progress) f->progress = cli_progress_begin(f->call, "sweep", "steps");
    snprintf(note, sizeof note, "lr %.1e, loss %.3f, %.1f img/s", e->lr, e->loss, e->images_per_s);
    if (f->progress) stoke_progress_note(f->progress, note);
    cli_progress_update(f->progress, e->step, e->steps);
}

static int on_event(void *context, const stoke_train_event *e)
{
    finding *f = context;
    if (e->kind == STOKE_TRAIN_STEP)
        show_step(f, e);
    else
        train_bar_show(&f->bar, e);
    if (e->kind == STOKE_TRAIN_READY) cli_say(f->call, "memory: %s", e->text);
    return cli_interrupted();
}

/* ---- the curve ---- */

typedef struct drawing {
    double *x, *loss, *smooth;
    stoke_series series[2];
    stoke_mark marks[READINGS];
    stoke_chart chart;
} drawing;

static void add_mark(drawing *d, const char *name, double lr)
{
    if (isfinite(lr)) d->marks[d->chart.n_marks++] = (stoke_mark){ .x = lr, .text = name };
}

/* The end of the curve is an explosion: what matters would be a flat line below it. */
static double top_of(const stoke_lr_report *r)
{
    double least = INFINITY;
    for (size_t i = 0; i < r->count; i++) least = fmin(least, r->points[i].smooth);
    const double first = r->points[r->count / 10].smooth;
    return first + fmax(0.5 * (first - least), 0.1 * first);
}

static void draw(drawing *d, const stoke_lr_report *r)
{
    d->x = cli_alloc(r->count + 1, sizeof *d->x);
    d->loss = cli_alloc(r->count + 1, sizeof *d->loss);
    d->smooth = cli_alloc(r->count + 1, sizeof *d->smooth);
    const double top = r->count ? top_of(r) : 1;
    for (size_t i = 0; i < r->count; i++) {
        d->x[i] = r->points[i].lr;
        d->loss[i] = fmin(r->points[i].loss, top);
        d->smooth[i] = fmin(r->points[i].smooth, top);
    }
    d->series[0] =
        (stoke_series){ .name = "each step", .x = d->x, .y = d->loss, .count = r->count, .faint = 1 };
    d->series[1] = (stoke_series){ .name = "smoothed", .x = d->x, .y = d->smooth, .count = r->count };
    d->chart = stoke_chart_defaults();
    d->chart.title = "Loss over the learning rate";
    d->chart.x_label = "learning rate";
    d->chart.y_label = "loss";
    d->chart.series = d->series;
    d->chart.n_series = CLI_COUNT(d->series);
    d->chart.marks = d->marks;
    d->chart.log_x = 1;
    add_mark(d, "steepest", r->steepest);
    add_mark(d, "lowest/10", r->tenth);
    add_mark(d, "valley", r->valley);
}

static void drawing_free(drawing *d)
{
    free(d->x);
    free(d->loss);
    free(d->smooth);
}

static int write_svg(const drawing *d, const char *path, stoke_error *err)
{
    cli_output svg = { 0 };
    int r = cli_output_open(&svg, path, err);
    if (!r) r = stoke_chart_svg(&d->chart, svg.stream, err);
    if (!r) r = cli_output_commit(&svg, err);
    cli_output_abandon(&svg);
    return r;
}

/* ---- what to type next ---- */

/* Whether a word of the command line belongs to find-lr alone; *value: the next word is its value. */
static int is_own(const char *word, int *value)
{
    static const char *const others[] = { "json", "quiet", "no-quiet", "no-json", "lr" };
    *value = 0;
    if (strncmp(word, "--", 2) != 0) return 0;
    const size_t n = strcspn(word + 2, "=");
    for (size_t i = 0; i < CLI_COUNT(options); i++) {
        char flag[32];
        snprintf(flag, sizeof flag, "%s", options[i].name);
        for (char *p = flag; *p; p++) *p = *p == '_' ? '-' : *p;
        *value = !word[n + 2];
        if (strlen(flag) == n && !strncmp(word + 2, flag, n)) return 1;
    }
    for (size_t i = 0; i < CLI_COUNT(others); i++) {
        *value = !word[n + 2] && !strcmp(others[i], "lr");
        if (strlen(others[i]) == n && !strncmp(word + 2, others[i], n)) return 1;
    }
    *value = 0;
    return 0;
}

/* "stoke train --lr 0.0027 DIR --size 128": what was typed, with train in place of find-lr. */
static void next_command(const cli_call *call, double lr, char line[COMMAND])
{
    snprintf(line, COMMAND, "stoke train --lr %.2g", lr);
    for (int i = 1; i < call->argc; i++) {
        int value;
        if (!is_own(call->argv[i], &value))
            cli_append_word(line, COMMAND, call->argv[i]);
        else
            i += value;
    }
}

/* ---- the answer ---- */

static const char *end_name(stoke_lr_end end)
{
    static const char *const names[] = { "whole", "rose", "not_finite" };
    return names[end];
}

static void print_json(const finding *f)
{
    const stoke_lr_report *r = &f->report;
    char next[COMMAND];
    stoke_json json;
    stoke_json_begin(&json, stdout, 2);
    stoke_json_object(&json, NULL);
    stoke_json_real(&json, "suggested", r->suggested);
    stoke_json_string(&json, "why", *r->why ? r->why : NULL);
    stoke_json_object(&json, "readings");
    stoke_json_real(&json, "steepest", r->steepest);
    stoke_json_real(&json, "lowest_tenth", r->tenth);
    stoke_json_real(&json, "valley", r->valley);
    stoke_json_close(&json);
    stoke_json_real(&json, "drop", r->drop);
    stoke_json_string(&json, "end", end_name(r->end));
    stoke_json_real(&json, "end_lr", r->end_lr);
    stoke_json_real(&json, "seconds", r->seconds);
    stoke_json_string(&json, "svg", f->o->out);
    next_command(f->call, r->suggested, next);
    stoke_json_string(&json, "next", isfinite(r->suggested) ? next : NULL);
    stoke_json_array(&json, "points");
    for (size_t i = 0; i < r->count; i++) {
        stoke_json_object(&json, NULL);
        stoke_json_real(&json, "lr", r->points[i].lr);
        stoke_json_real(&json, "loss", r->points[i].loss);
        stoke_json_real(&json, "smooth", r->points[i].smooth);
        stoke_json_close(&json);
    }
    stoke_json_close(&json);
    stoke_json_close(&json);
}

static void print_reading(const char *what, double lr)
{
    if (isfinite(lr))
        printf("  %-46s %.2g\n", what, lr);
    else
        printf("  %-46s n/a\n", what);
}

static int print_text(const finding *f, const drawing *d, stoke_error *err)
{
    const stoke_lr_report *r = &f->report;
    char time[48], next[COMMAND];
    const int status = r->count ? stoke_chart_text(&d->chart, COLUMNS, ROWS, 0, stdout, err) : STOKE_OK;
    if (status) return status;
    puts("\nLearning rates that the curve names:");
    print_reading("where the loss falls fastest (steepest)", r->steepest);
    print_reading("a tenth of where it is lowest (lowest/10)", r->tenth);
    print_reading("middle of the longest fall to there (valley)", r->valley);
    if (isfinite(r->suggested))
        printf("suggested: --lr %.2g\n", r->suggested);
    else
        printf("no suggestion: %s\n", r->why);
    printf("curve: %s (%zu steps in %s)\n", f->o->out, r->count,
           stoke_text_seconds(r->seconds, time, sizeof time));
    if (isfinite(r->suggested)) {
        next_command(f->call, r->suggested, next);
        cli_say(f->call, "next: %s", next);
    }
    return STOKE_OK;
}

static int run(cli_call *call)
{
    finding f = { .call = call, .o = call->options, .bar = { .call = call } };
    stoke_error err = { 0 };
    drawing d = { 0 };
    stoke_find_lr_params params = stoke_find_lr_defaults();
    params.low = f.o->low;
    params.high = f.o->high;
    params.steps = (uint32_t)f.o->sweep_steps;
    int r = cli_require_data(call, &call->data, &err);
    if (!r) r = stoke_find_lr(&call->data, &call->train, &params, on_event, &f, &f.report, &err);
    train_bar_end(&f.bar);
    cli_progress_end(&f.progress);
    if (r) return cli_fail(call, &err);
    draw(&d, &f.report);
    r = write_svg(&d, f.o->out, &err);
    if (!r && call->common.json)
        print_json(&f);
    else if (!r)
        r = print_text(&f, &d, &err);
    drawing_free(&d);
    stoke_lr_report_free(&f.report);
    return r ? cli_fail(call, &err) : CLI_OK;
}

static const cli_example examples[] = {
    { "stoke find-lr demo/data --size 32 --batch 2 --sweep-steps 100", "for the settings of a run" },
    { "stoke find-lr demo/data --size 32 --batch 2 --sweep-steps 100 --low 1e-4 --json --out lr.svg",
      "another start; the whole curve as JSON" },
    { 0 },
};

const cli_command cli_find_lr = {
    .name = "find-lr",
    .summary = "suggest a learning rate for your data",
    .arguments = "[DIR]",
    .max_words = 1,
    .description =
        "Trains with a learning rate that grows from step to step, draws the loss over it, and reads three "
        "rates from the smoothed curve. Where they agree within a factor of 10 and the loss fell by 5 % or "
        "more, the steepest is suggested; otherwise none is, and the reason is given (exit status 0 all the "
        "same: the curve is there to be looked at). Give it the options of the run: model, size, batch, "
        "accumulate, optimizer and augmentation all have their say. Nothing is kept of the training.",
    .examples = examples,
    .options = options,
    .n_options = CLI_COUNT(options),
    .options_bytes = sizeof(find_options),
    .reads_data = 1,
    .reads_training = 1,
    .defaults = cli_train_defaults,
    .run = run,
};
