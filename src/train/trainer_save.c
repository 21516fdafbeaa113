/* SPDX-License-Identifier: Apache-2.0
 *
 * What a run leaves behind on its way: evaluations with their pictures, the best network, checkpoints.
 *
 * The state is one file, whole or as it was; everything else can be made again from where it stands. That
 * decides the order: best/ and pictures come before the state that tells of them, since a run that is killed
 * in between takes those steps again and makes the same, while a state that told of a best/ never written
 * would not; last/ and the report come after it. Where the state or a network cannot be written the run ends,
 * and the state before is still whole; what else cannot be written it does without (trainer_extra.c).
 */
#include "src/train/trainer.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <sys/stat.h>
#include <stoke/tools/net.h>
#include <stoke/tools/metrics.h>

#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/base/file.h"
#include "src/loader/loader.h"
#include "src/base/retry.h"

void stk_trainer_write_note(stoke_trainer *t)
{
    if (!t->note_steps) return;
    t->note.step = t->now.step;
    t->note.epoch = t->now.epoch;
    t->note.t = stk_trainer_clock(t);
    t->note.loss = t->note_losses ? t->note_loss / (double)t->note_losses : NAN;
    t->note.lr = t->lr;
    t->note.gradient_norm = t->gradient_norm;
    t->note.loss_scale = t->loss_scale;
    stk_log_writer_step(t->log, &t->note, NULL);
    stk_trainer_check_log(t);
    t->note = (stk_log_step_note){ 0 };
    t->note_loss = 0;
    t->note_steps = t->note_losses = 0;
}

/* ---- evaluation ---- */

static int evaluating(void *context, uint64_t done, uint64_t total)
{
    stk_trainer_live(context, STOKE_LIVE_EVALUATING);
    return stk_trainer_count(context, STOKE_TRAIN_EVALUATING, done, total);
}

/* With the average of the weights where one is kept: that is the network people get. */
static int measure(stoke_trainer *t, stk_evaluate_result *result, stoke_error *err)
{
    const int average = t->setup.net.average;
    int r = average ? stoke_net_swap_average(t->net, err) : STOKE_OK;
    if (r) return r;
    /* One of the loaders rests: the memory of their workers is planned once. */
    stk_loader_rest(t->train);
    if (t->val) {
        stk_loader_wake(t->val);
        r = stk_evaluate(t->net, t->val, t->confusion, t->gallery, result, evaluating, t, err);
        stk_loader_rest(t->val);
    } else {
        r = stk_evaluate_original(&t->sight, t->confusion, result, evaluating, t, err);
    }
    stk_loader_wake(t->train);
    if (average) {
        const int back = stoke_net_swap_average(t->net, r ? NULL : err);
        if (!r) r = back;
    }
    return r;
}

static double metric_of(const stoke_trainer *t, const stk_evaluate_result *e)
{
    const int metric = (int)t->setup.params.metric;
    return metric == STOKE_METRIC_LOSS ? e->loss : stoke_score_value(&e->scores, metric);
}

/* 1: better than all before, and now the best. */
static int keep_score(stoke_trainer *t, const stk_evaluate_result *e)
{
    stk_checkpoint_progress *now = &t->now;
    const double value = metric_of(t, e);
    const int lower = t->setup.params.metric == STOKE_METRIC_LOSS;
    const int better =
        isfinite(value) && (isnan(now->best) || (lower ? value < now->best : value > now->best));
    t->scores = e->scores;
    t->evaluated = 1;
    now->evaluations++;
    now->evaluated = now->step;
    now->without_gain = better ? 0 : now->without_gain + 1;
    if (!better) return 0;
    now->best = value;
    now->best_step = now->step;
    now->best_scores = e->scores;
    return 1;
}

/* predictions/NNNNNN.png: the same pictures at every evaluation. 1: there is one. */
static int draw(stoke_trainer *t, const stk_evaluate_result *e, const char *name)
{
    char title[160];
    stoke_error own = { 0 }, *err = &own;
    snprintf(title, sizeof title, "step %" PRIu64 ": mIoU %.3f, pixel accuracy %.3f", t->now.step,
             e->scores.miou, e->scores.pixel_accuracy);
    char *folder = stk_trainer_path(t, "predictions", err), *path = stk_trainer_path(t, name, err);
    int r = folder && path ? stk_make_folders(folder, err) : STOKE_E_NOMEM;
    if (!r)
        r = stk_gallery_write(t->gallery, path, title, t->setup.val.ignore_index, t->setup.class_names,
                              t->setup.classes, err);
    stk_free(folder);
    stk_free(path);
    if (r) stk_trainer_without(t, STK_EXTRA_PICTURES, own.message);
    return !r;
}

static int save_network(stoke_trainer *t, const char *name, stoke_error *err)
{
    char *folder = stk_trainer_path(t, name, err);
    const int r = folder ? stoke_net_save(t->net, folder, t->setup.net.average, err) : STOKE_E_NOMEM;
    stk_free(folder);
    return r;
}

int stk_trainer_save_last(stoke_trainer *t, stoke_error *err)
{
    return save_network(t, "last", err);
}

/* Once, when evaluations take more than half of the time, at the pace of this session. */
static void say_of_cost(stoke_trainer *t, double seconds)
{
    const int64_t every = t->setup.params.eval_every;
    if (t->said_cost || t->session < 2 || every <= 0) return;
    const double steps = (double)every * t->step_seconds / (double)(t->session - 1);
    if (seconds <= steps) return;
    t->said_cost = 1;
    stk_trainer_remark(
        t,
        "evaluation takes %.0f %% of the time (%.1f s after every %.1f s of steps): a larger "
        "`eval_every` than %lld evaluates less often%s",
        100 * seconds / (seconds + steps), seconds, steps, (long long)every,
        t->val ? "" : "; `eval_mode` resize is quicker, and does not see what `stoke predict` will");
}

int stk_trainer_evaluate(stoke_trainer *t, stoke_error *err)
{
    const uint64_t began = stk_now_ns();
    stk_evaluate_result e = { 0 };
    char picture[64];
    snprintf(picture, sizeof picture, "predictions/%06" PRIu64 ".png", t->now.step);
    stk_trainer_live(t, STOKE_LIVE_EVALUATING);
    stk_trainer_write_note(t);
    int r = measure(t, &e, err);
    if (r) return r;
    const int best = keep_score(t, &e);
    /* Bad files are no reason to end a run that copes with them. */
    const int drawn = t->gallery && stk_gallery_has_any(t->gallery) && draw(t, &e, picture);
    if (best) r = save_network(t, "best", err);
    const double seconds = (double)(stk_now_ns() - began) / 1e9;
    t->now.eval_seconds += seconds;
    e.seconds = seconds; /* the log has the whole, as the summary does: the report's times add up */
    if (r) return r;
    stk_log_writer_evaluation(t->log, t->now.step, t->now.epoch, stk_trainer_clock(t), &e, t->confusion, best,
                              t->setup.net.average, drawn ? picture : NULL, NULL);
    stk_trainer_check_log(t);
    stoke_train_event event = stk_trainer_event(t, STOKE_TRAIN_EVALUATED);
    event.loss = e.loss;
    event.best = best;
    event.seconds = seconds;
    stk_trainer_send(t, &event);
    say_of_cost(t, seconds);
    return STOKE_OK;
}

/* ---- checkpoints ---- */

static int save_state(stoke_trainer *t, uint64_t *bytes, stoke_error *err)
{
    char *path = stk_trainer_path(t, "state.safetensors", err);
    if (!path) return STOKE_E_NOMEM;
    stoke_loader_state(t->train, t->now.loader, sizeof t->now.loader);
    t->now.seconds = stk_trainer_clock(t);
    const int r = stk_checkpoint_save(path, t->net, &t->now, t->identity, err);
    struct stat st;
    *bytes = !r && stk_stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;
    stk_free(path);
    return r;
}

int stk_trainer_save(stoke_trainer *t, stoke_error *err)
{
    const uint64_t began = stk_now_ns();
    uint64_t bytes = 0;
    stk_trainer_live(t, STOKE_LIVE_SAVING);
    /* The steps before it are in the log: one that goes on from here begins a new line. */
    stk_trainer_write_note(t);
    int r = save_state(t, &bytes, err);
    if (!r) t->saved_ns = stk_now_ns();
    if (!r) r = stk_trainer_save_last(t, err);
    const double seconds = (double)(stk_now_ns() - began) / 1e9;
    t->now.save_seconds += seconds;
    t->last_save = seconds;
    if (r) return r;
    stk_log_writer_saved(t->log, t->now.step, stk_trainer_clock(t), seconds, bytes, NULL);
    stk_trainer_check_log(t);
    stoke_train_event event = stk_trainer_event(t, STOKE_TRAIN_SAVED);
    event.seconds = seconds;
    stk_trainer_send(t, &event);
    return STOKE_OK;
}
