/* SPDX-License-Identifier: Apache-2.0
 *
 * stoke find-lr: a sweep over learning rates, its curve, what can be read from it.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/lib/common.h"
#include "cli/lib/facts.h"
#include "cli/lib/output.h"
#include "cli/lib/settings.h"
#include "cli/train/train_bar.h"

typedef struct find_options {
    double low, high;
    int64_t sweep_steps;
    const char *out;
} find_options;

#define OPTIONS find_options
static const stoke_option options[] = {
    CLI_NUMBER(REAL, low, "1e-6", 1e-12, 100, "LR",
               "Where the sweep begins; a rate with which hardly anything is learned"),
    CLI_NUMBER(REAL, high, "1", 1e-11, 1000, "LR",
               "Where it ends, unless the loss is 4 times its lowest before; sgd may want 10"),
    CLI_NUMBER(INT, sweep_steps, "200", 100, 10000, "N",
               "Steps of the sweep; more of them make a smoother curve"),
    CLI_TEXT(STRING, out, "find-lr.svg", "FILE", "The curve as a picture"),
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

static int on_event(void *context, const stoke_train_event *e)
{
    finding *f = context;
    char note[96];
    if (e->kind == STOKE_TRAIN_STEP) {
        train_bar_end(&f->bar);
        if (!f->progress) f->progress = cli_progress_begin(f->call, "sweep", "steps");
        snprintf(note, sizeof note, "lr %.1e, loss %.3f, %.1f img/s", e->lr, e->loss, e->images_per_s);
        if (f->progress) stoke_progress_note(f->progress, note);
        cli_progress_update(f->progress, e->step, e->steps);
    } else {
        train_bar_show(&f->bar, e);
    }
    if (e->kind == STOKE_TRAIN_READY) cli_say_memory(f->call, &f->report.memory);
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
    add_mark(d, "half", r->half);
    add_mark(d, "floor", r->floor);
    add_mark(d, "lowest", r->lowest);
}

/* ---- what to type next ---- */

/* Whether a word of the command line belongs to find-lr alone; *value: the next word is its value. */
static int is_own(const char *word, int *value)
{
    int own = cli_flag_is(word, "lr");
    for (size_t i = 0; i < CLI_COUNT(options); i++) own |= cli_flag_is(word, options[i].name);
    *value = own && !strchr(word, '=');
    return own || cli_flag_is(word, "json quiet no_json no_quiet");
}

/* What was typed, without what belongs to find-lr alone. */
static void append_typed(const cli_call *call, char line[COMMAND])
{
    for (int i = 1; i < call->argc; i++) {
        int value;
        if (!is_own(call->argv[i], &value))
            cli_append_word(line, COMMAND, call->argv[i]);
        else
            i += value;
    }
}

/* "stoke train --lr 0.0027 DIR --size 128": train in place of find-lr. */
static void next_command(const cli_call *call, double lr, char line[COMMAND])
{
    snprintf(line, COMMAND, "stoke train --lr %.2g", lr);
    append_typed(call, line);
}

/* A sweep that may know more: four times the steps; from lower, where this one exploded before it fell; to
 * higher, where it hardly fell. */
static void again_command(const finding *f, char line[COMMAND])
{
    enum { MORE = 4, MOST_STEPS = 10000, HIGHEST = 1000 };
    const stoke_lr_report *r = &f->report;
    const int64_t steps = f->o->sweep_steps * MORE;
    double low = f->o->low, high = f->o->high;
    if (!r->from_curve && r->end != STOKE_LR_END_WHOLE) {
        low = fmax(low / 1000, 1e-12);
        high = fmax(r->end_lr, 10 * low);
    } else if (!r->from_curve) {
        high = fmin(high * 1000, HIGHEST);
    }
    snprintf(line, COMMAND, "stoke find-lr --sweep-steps %lld --low %.3g --high %.3g",
             (long long)(steps < MOST_STEPS ? steps : MOST_STEPS), low, high);
    if (cli_has_flag(f->call, "out")) {
        cli_append_word(line, COMMAND, "--out");
        cli_append_word(line, COMMAND, f->o->out);
    }
    append_typed(f->call, line);
}

/* ---- the answer ---- */

static const char *const confidences[] = { "low", "medium", "high" };

static void print_json(const finding *f)
{
    const stoke_lr_report *r = &f->report;
    char next[COMMAND], again[COMMAND];
    static const char *const ends[] = { "whole", "rose", "not_finite" };
    const int low = r->confidence == STOKE_LR_LOW;
    stoke_json json = cli_json_open();
    FACTS(&json, FACT_OF(r, suggested), FACT("confidence", confidences[r->confidence]));
    stoke_json_array(&json, "interval");
    FACTS(&json, FACT(NULL, r->half), FACT(NULL, r->lowest));
    stoke_json_close(&json);
    FACTS(&json, FACT_TEXT("why", r->why));
    FACTS_OBJECT(&json, "readings", FACT_OF(r, half), FACT_OF(r, floor), FACT_OF(r, lowest));
    FACTS(&json, FACT_OF(r, drop), FACT_OF(r, noise), FACT("end", ends[r->end]), FACT_OF(r, end_lr),
          FACT_OF(r, seconds), FACT("svg", f->o->out));
    cli_json_memory(&json, &r->memory);
    next_command(f->call, r->suggested, next);
    again_command(f, again);
    FACTS(&json, FACT("next", next), FACT("again", low ? again : NULL));
    JSON_LIST(&json, "points", i, i < r->count)
        FACTS_OBJECT(&json, NULL, FACT_OF(&r->points[i], lr), FACT_OF(&r->points[i], loss),
                     FACT_OF(&r->points[i], smooth));
    stoke_json_close(&json);
}

static int print_text(const finding *f, const drawing *d, stoke_error *err)
{
    const stoke_lr_report *r = &f->report;
    const struct {
        const char *what;
        double lr;
    } readings[READINGS] = { { "where half of the fall is done (half)", r->half },
                             { "where nine tenths of it are done (floor)", r->floor },
                             { "where the loss is lowest (lowest)", r->lowest } };
    char next[COMMAND];
    const int status = r->count ? stoke_chart_text(&d->chart, COLUMNS, ROWS, stdout, err) : STOKE_OK;
    if (status) return status;
    puts("\nLearning rates that the curve names:");
    for (size_t i = 0; i < CLI_COUNT(readings); i++)
        if (isfinite(readings[i].lr))
            cli_print("  %-46s %.2g\n", readings[i].what, readings[i].lr);
        else
            cli_print("  %-46s n/a\n", readings[i].what);
    if (r->from_curve)
        cli_print("suggested: --lr %.2g, confidence %s (%.2g to %.2g)\n", r->suggested,
                  confidences[r->confidence], r->half, r->lowest);
    else
        cli_print("suggested: --lr %.2g, usual for such settings; the curve does not tell (confidence low)\n",
                  r->suggested);
    if (*r->why) cli_print("why low: %s\n", r->why);
    cli_print("curve: %s (%s in %s)\n", f->o->out, STOKE_COUNT(r->count, "step"), STOKE_SECONDS(r->seconds));
    if (r->confidence == STOKE_LR_LOW) {
        again_command(f, next);
        cli_say(f->call, "to be surer: %s", next);
    }
    next_command(f->call, r->suggested, next);
    cli_say(f->call, "next: %s", next);
    return STOKE_OK;
}

static int run(cli_call *call, stoke_error *err)
{
    finding f = { .call = call, .o = call->options, .bar = { .call = call } };
    drawing d = { 0 };
    stoke_find_lr_params params = stoke_find_lr_defaults();
    params.low = f.o->low;
    params.high = f.o->high;
    params.steps = (uint32_t)f.o->sweep_steps;
    if (cli_has_flag(call, "steps"))
        cli_say(call, "remark: --steps belongs to the run that follows; the sweep has %s (--sweep-steps)",
                STOKE_COUNT(params.steps, "step"));
    int r = cli_require_data(call, &call->data, err);
    cli_leave_augment(call);
    if (!r) r = cli_may_write(call, f.o->out, call->train.force, err);
    if (!r) r = stoke_find_lr(&call->data, &call->train, &params, on_event, &f, &f.report, err);
    train_bar_end(&f.bar);
    stoke_progress_destroy(&f.progress);
    if (r) return r;
    draw(&d, &f.report);
    r = cli_write_chart(&d.chart, f.o->out, err);
    if (!r && call->common.json)
        print_json(&f);
    else if (!r)
        r = print_text(&f, &d, err);
    free(d.x);
    free(d.loss);
    free(d.smooth);
    stoke_lr_report_free(&f.report);
    return r;
}

const cli_command cli_find_lr = {
    .summary = "suggest a learning rate for your data",
    CLI_TAKES_DIR,
    .description =
        "Trains with a learning rate that grows from step to step, draws the loss over it, and reads three "
        "rates from the smoothed curve: where half of the fall is done, where nine tenths are, and where it "
        "is lowest. The middle of the last two is suggested, with a confidence: high where the outer two are "
        "a factor of 10 apart at most and the curve is smooth, low where they are more than 30 apart, the "
        "loss hardly fell or it scatters; then a command for a better sweep is given too. Give it the "
        "options of the run: model, size, batch, "
        "accumulate, optimizer and augmentation all have their say. Nothing is kept of the training.",
    .examples = {
        { "stoke find-lr demo/data --size 32 --batch 2 --sweep-steps 100", "for the settings of a run" },
        { "stoke find-lr demo/data --size 32 --batch 2 --sweep-steps 100 --low 1e-4 --json --out lr.svg",
          "another start; the whole curve as JSON" },
    },
    CLI_OWN_OPTIONS_AND_RUN,
    .reads_training = 1,
};
