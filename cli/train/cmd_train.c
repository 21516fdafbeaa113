/* SPDX-License-Identifier: Apache-2.0
 *
 * stoke train: from a folder of images and masks to a network, curves, pictures and a report.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/lib/common.h"
#include "cli/lib/facts.h"
#include "cli/lib/settings.h"
#include "cli/train/train_bar.h"
#include <stoke/predict.h>

typedef struct train_options {
    int other; /* a process that is not rank 0 */
    int dry_run;
} train_options;

#define OPTIONS train_options
static const stoke_option options[] = {
    CLI_FLAG(
        dry_run,
        "Work out all settings, print what the run would do and the memory it would take, and write nothing"),
};

/* One run of the command. */
typedef struct training {
    const cli_call *call;
    int other; /* a process that is not rank 0 */
    int dry_run;
    int looked; /* --dry-run came as far as it goes */
    train_bar bar;
    uint64_t steps;
    char why[256];
} training;

/* ---- before it begins ---- */

static const char *const eval_modes[] = { "auto", "resize", "slide" };

/* What an evaluation costs, in pictures that a step would train on: it takes each three times through the
 * network. */
static void say_validation(const cli_call *call, const stoke_train_outlook *o)
{
    const double windows = o->eval_windows * (double)o->val_samples;
    const double steps = windows / 3 / (double)(o->data->batch * o->params->accumulate * o->params->replicas);
    const int slides = o->params->eval_mode == STOKE_PREDICT_SLIDE;
    const int whole = slides && o->plan->task == STOKE_TASK_RESTORE;
    char work[48] = "less than a tenth of a step";
    if (steps >= 0.1) snprintf(work, sizeof work, "about the work of %.*f steps", steps < 10, steps);
    if (whole) {
        cli_say(call, "validation: every %s, %s whole, at their own size, %s",
                STOKE_COUNT(o->params->eval_every, "step"), STOKE_COUNT(o->val_samples, "picture"), work);
        return;
    }
    cli_say(call, "validation: every %s, %s%s %ux%u, %s", STOKE_COUNT(o->params->eval_every, "step"),
            STOKE_COUNT((uint64_t)(windows + 0.5), slides ? "window" : "whole picture"),
            slides ? " at the pictures' own scale, of" : " resized to", o->data->size[0], o->data->size[1],
            work);
}

static const char *what_it_makes(const stoke_net_plan *plan, char *text, size_t size)
{
    if (plan->task != STOKE_TASK_RESTORE)
        return snprintf(text, size, "%s", STOKE_COUNT(plan->classes, "class")), text;
    if (plan->scale > 1)
        return snprintf(text, size, "pictures %u times as large", (unsigned)plan->scale), text;
    return "pictures restored";
}

static void say_outlook(const cli_call *call, const stoke_train_event *e, int terms)
{
    const stoke_train_outlook *o = e->outlook;
    /* A set that is smaller than a batch fills no more. */
    const uint64_t asked = (uint64_t)o->data->batch,
                   batch = asked < o->train_samples ? asked : o->train_samples;
    const uint64_t count = o->plan->parameter_count; /* a few thousand of a small resnet */
    char makes[48];
    cli_say(call, "network: %s %s, %.*f million parameters, %s, %ux%u pixels, %s, %s", o->plan->family,
            o->plan->model,
            count < 10000     ? 4
            : count < 1000000 ? 2
                              : 1,
            (double)count / 1e6, what_it_makes(o->plan, makes, sizeof makes), o->data->size[0],
            o->data->size[1], stoke_precision_name(o->plan->precision),
            STOKE_COUNT(o->plan->threads, "thread"));
    if (o->val_samples) say_validation(call, o);
    cli_say(call, "run: %s, %s of %s, %llu per epoch, lr %g", o->folder, STOKE_COUNT(e->steps, "step"),
            STOKE_COUNT(batch * (uint64_t)(o->params->accumulate * o->params->replicas), "picture"),
            (unsigned long long)e->steps_per_epoch, o->params->lr);
    if (o->resumes) cli_say(call, "goes on after step %llu", (unsigned long long)e->step);
    (terms ? cli_say_memory_terms : cli_say_memory)(call, o->memory);
}

static void json_outlook(const stoke_train_event *e)
{
    const stoke_train_outlook *o = e->outlook;
    stoke_json json = cli_json_open();
    FACTS(&json, FACT_OF(o, folder), FACT("device", "processor"), FACT_IS_OF(o, resumes), FACT_OF(e, step),
          FACT_OF(e, steps), FACT_OF(e, epochs), FACT_OF(e, steps_per_epoch), FACT_OF(o, train_samples),
          FACT_OF(o, val_samples), FACT_OF(o->plan, model), FACT("parameters", o->plan->parameter_count),
          FACT_OF(o->plan, classes),
          FACT("task", o->plan->task == STOKE_TASK_RESTORE ? "restore" : "segment"),
          FACT_SIZE("size", o->data->size[0], o->data->size[1]), FACT_OF(o->data, batch),
          FACT_OF(o->params, accumulate), FACT_OF(o->params, replicas), FACT_OF(o->params, lr),
          FACT_OF(o->data, augment),
          FACT("eval_mode", !o->val_samples ? NULL : eval_modes[o->params->eval_mode]),
          FACT_OF(o, eval_windows), FACT_OF(o->params, eval_every),
          FACT("precision", stoke_precision_name(o->plan->precision)), FACT_OF(o->plan, threads),
          FACT("memory_bytes", stoke_memory_total(o->memory)), FACT("memory", e->text));
    cli_json_memory(&json, o->memory);
    stoke_json_close(&json);
}

/* What asks all processes to stop, and what the command ends with then. */
static int asked(const training *t)
{
    return cli_interrupted() ? cli_interrupt_code() : t->looked;
}

static int on_event(void *context, const stoke_train_event *e)
{
    training *t = context;
    if (e->rank) { /* it speaks where rank 0 cannot */
        if (e->kind == STOKE_TRAIN_REMARK)
            stoke_text_print(stderr, "rank %u: %s\n", (unsigned)e->rank, CLI_WITH_FLAGS(t->call, e->text));
        return asked(t);
    }
    train_bar_show(&t->bar, e);
    if (e->kind == STOKE_TRAIN_READY) {
        say_outlook(t->call, e, t->dry_run);
        t->steps = e->steps;
        t->bar.task = e->outlook->data->task;
        t->bar.metric = e->outlook->params->metric;
        if (t->dry_run && t->call->common.json) json_outlook(e);
        t->looked = t->dry_run;
    }
    if (e->kind == STOKE_TRAIN_DONE)
        snprintf(t->why, sizeof t->why, "%.*s", (int)sizeof t->why - 1, CLI_WITH_FLAGS(t->call, e->text));
    return asked(t);
}

/* ---- after it ended ---- */

/* A run that was interrupted in its last evaluation has all its steps and is not done. */
static int is_complete(const training *t, const stoke_train_summary *s, int interrupted)
{
    return !interrupted && (s->step >= t->steps || s->stopped_early);
}

static double step_seconds(const stoke_train_summary *s)
{
    return fmax(0, s->seconds - s->data_seconds - s->eval_seconds - s->save_seconds);
}

static void json_summary(const training *t, const stoke_trainer *trainer, const stoke_train_summary *s,
                         int interrupted)
{
    const char *folder = stoke_trainer_folder(trainer);
    char report[4200];
    snprintf(report, sizeof report, "%s/report.html", folder);
    stoke_json json = cli_json_open();
    FACTS(&json, FACT("folder", folder), FACT("report", s->reported ? report : NULL), FACT_OF(t, why),
          FACT_IS("complete", is_complete(t, s, interrupted)), FACT_IS_OF(s, stopped_early),
          FACT_IS("interrupted", interrupted), FACT_OF(s, step), FACT_OF(t, steps), FACT_OF(s, images),
          FACT_OF(s, best), FACT_OF(s, best_step));
    stoke_json_object(&json, "scores");
    const int have = isfinite(s->best);
    const int task = t->bar.task == STOKE_TASK_RESTORE ? STOKE_TASK_RESTORE : STOKE_TASK_SEGMENT;
    for (int i = 0; i < STOKE_SCORES; i++)
        if (stoke_metric_fits(i, task))
            stoke_json_real(&json, stoke_score_at(i)->name, have ? stoke_score_value(&s->scores, i) : NAN);
    stoke_json_close(&json);
    FACTS_OBJECT(&json, "seconds", FACT("all", s->seconds), FACT("steps", step_seconds(s)),
                 FACT("data", s->data_seconds), FACT("evaluation", s->eval_seconds),
                 FACT("saving", s->save_seconds));
    cli_json_memory(&json, t->call->planned);
    stoke_json_close(&json);
}

static void print_summary(const training *t, const stoke_trainer *trainer, const stoke_train_summary *s,
                          int interrupted)
{
    char scores[TRAIN_BAR_SCORES];
    const char *folder = stoke_trainer_folder(trainer);
    cli_print("%s: %llu of %s in %s (%s)\n", folder, (unsigned long long)s->step,
              STOKE_COUNT(t->steps, "step"), STOKE_SECONDS(s->seconds), t->why);
    cli_print("time: steps %s, waiting for data %s, evaluation %s, saving %s\n",
              STOKE_SECONDS(step_seconds(s)), STOKE_SECONDS(s->data_seconds), STOKE_SECONDS(s->eval_seconds),
              STOKE_SECONDS(s->save_seconds));
    if (isfinite(s->best))
        cli_print("best: %s at step %llu, in %s/best\n", train_bar_scores(&t->bar, &s->scores, scores),
                  (unsigned long long)s->best_step, folder);
    if (s->reported) cli_print("report: %s/report.html\n", folder);
}

static void say_next(const training *t, const stoke_trainer *trainer, const stoke_train_summary *s,
                     int interrupted)
{
    const char *word = STOKE_WORD(stoke_trainer_folder(trainer));
    if (!is_complete(t, s, interrupted)) {
        cli_say(t->call,
                "next: stoke train --resume %s   resumes here; the result is bit for bit that of an "
                "uninterrupted run",
                word);
        return;
    }
    const int restores = t->bar.task == STOKE_TASK_RESTORE;
    if (restores)
        cli_say(t->call, "next: stoke predict %s PICTURES --out restored   your own pictures, restored",
                word);
    else
        cli_say(t->call, "next: stoke predict %s PICTURES --out masks   masks of your own pictures", word);
    if (isfinite(s->best))
        cli_say(t->call, "      stoke eval %s   %s", word,
                restores ? "PSNR and SSIM, beside those of the pictures as they came, worst pictures"
                         : "scores per class, confusion matrix, worst pictures");
}

/* An interrupt that was followed is no failure: everything is saved. Any other error is told, also when an
 * interrupt came with it. */
static int finish(const training *t, const stoke_trainer *trainer, int r, const stoke_error *err)
{
    const stoke_train_summary summary = stoke_trainer_summary(trainer);
    if (t->other) return CLI_OK; /* what there is to say, rank 0 says, and its status counts */
    (t->call->common.json ? json_summary : print_summary)(t, trainer, &summary, r != 0);
    if (r) cli_say(t->call, "interrupted; the state at step %llu is saved", (unsigned long long)summary.step);
    say_next(t, trainer, &summary, r != 0);
    return r ? summary.asked : CLI_OK;
}

/* Told once: by rank 0, or by whoever is left. The launcher ends those whose turn has not come. */
static int fail(training *t, stoke_trainer **trainer, int r, const stoke_error *err)
{
    int code = CLI_OK;
    if (r == STOKE_E_CANCELLED && !t->other) {
        code = cli_fail(t->call, err);
    } else if (*err->message && !(t->other && cli_interrupted())) {
        code = r == STOKE_E_INVALID ? CLI_MISUSE : r == STOKE_E_TIMEOUT ? CLI_LOST : CLI_FAILED;
        if (cli_interrupted())
            cli_print_message("train", CLI_WITH_FLAGS(t->call, err->message));
        else
            cli_fail(t->call, err);
    }
    fflush(NULL);
    stoke_trainer_abort(trainer, CLI_LOST);
    return code;
}

static int run(cli_call *call, stoke_error *err)
{
    const train_options *o = call->options;
    stoke_trainer *trainer = NULL;
    training t = { .call = call, .dry_run = o->dry_run, .bar = { .call = call } };
    t.other = stoke_comm_launch_of(NULL).rank > 0;
    if (t.other) call->common.quiet = 1; /* rank 0 speaks for all */
    if (stoke_comm_launch_of(NULL).world > 1) cli_be_patient();
    cli_stop_on_usr1();
    if (call->train.go_on && !call->train.resume && !call->train.name)
        return cli_error(err, STOKE_E_INVALID,
                         "--continue needs the run's --name, by which it is found again");
    int r = cli_require_data(call, &call->data, err);
    cli_leave_augment(call);
    if (!r) cli_say(call, "device: the processor; `stoke train` uses no graphics card");
    if (!r) r = stoke_trainer_open(&trainer, &call->data, &call->train, on_event, &t, err);
    train_bar_end(&t.bar);
    if (r == STOKE_E_CANCELLED && t.looked && !cli_interrupted()) {
        cli_say(call, "a dry run: nothing was written");
        return CLI_OK;
    }
    if (!r) {
        r = stoke_trainer_run(trainer, err);
        train_bar_end(&t.bar);
        if (!r || r == STOKE_E_CANCELLED) r = finish(&t, trainer, r, err);
    }
    if (r < 0) return fail(&t, &trainer, r, err);
    stoke_trainer_close(&trainer);
    return r;
}

const cli_command cli_train = {
    .summary = "train a network that segments, or one that restores pictures",
    CLI_TAKES_DIR,
    .description =
        "A set of images and masks trains a SegFormer, one of pictures and what they should become (--targets, "
        "--task restore) a small residual network; --model takes another. "
        "Trains on the processor: no graphics card is used (a PyTorch loop that has one takes its batches "
        "from stokehold.Loader). Everything lands in one folder, runs/NAME: config.yaml (the settings as "
        "used), log.jsonl, metrics.csv and TensorBoard's events, best/ and last/ in Hugging Face's format, "
        "curves, predictions and report.html. Settings you leave out are chosen from the data; remarks "
        "list them. Ctrl-C finishes the step, saves and says how to go on; a run that was stopped, or "
        "killed, "
        "resumes from its last checkpoint, and the result is bit for bit that of an uninterrupted run.",
    .examples = {
        { "stoke train demo/data --size 64 --batch 2 --steps 4 --name first",
          "b0 from scratch; everything lands in runs/first" },
        { "stoke train demo/data --size 64 --batch 2 --steps 4 --dry-run",
          "what it would do, and in how much memory" },
        { "stoke train --resume runs/first", "goes on where it was stopped or killed" },
        { "stoke train demo/pairs --patch-size 32 --steps 4 --name restored",
          "a network that restores pictures; `stoke synth demo/pairs --task restore` makes such a set" },
    },
    CLI_OWN_OPTIONS_AND_RUN,
    .reads_training = 1,
};
