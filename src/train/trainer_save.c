/* SPDX-License-Identifier: Apache-2.0
 *
 * What a run leaves behind on its way: evaluations with their pictures, the best network, checkpoints.
 *
 * The state is one file, whole or as it was; everything else can be made again from where it stands. That
 * decides the order: best/ and pictures come before the state that tells of them, since a run that is killed
 * in between takes those steps again and makes the same, while a state that told of a best/ never written
 * would not; last/ and the report come after it. Where the state or a network cannot be written the run ends,
 * and the state before is still whole; what else cannot be written it does without (stk_trainer_without).
 */
#include "src/train/trainer.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/base/file.h"
#include "src/base/mem.h"
#include "src/base/retry.h"
#include "src/loader/loader.h"
#include "src/train/run_report.h"
#include <stoke/tools/metrics.h>
#include <stoke/tools/net.h>
#include <stoke/tools/terminal.h>

/* ---- what a run can do without ---- */

/* What a run can do without: the lines of its log, tables, events, pictures, the report. One that cannot be
 * made is told as it happens, once for each kind, and counted for the end; the network is trained all the
 * same. Only the state and the networks end a run that cannot write them. */

static const struct {
    const char *all, *one, *several;
} extras[STK_EXTRAS] = {
    { "lines of log.jsonl", "line of log.jsonl is", "lines of log.jsonl are" },
    { "lines of metrics.csv", "line of metrics.csv is", "lines of metrics.csv are" },
    { "TensorBoard's events", "entry of TensorBoard's events is", "entries of TensorBoard's events are" },
    { "pictures of predictions", "picture of predictions is", "pictures of predictions are" },
    { "the report", "report is", "reports are" },
};

void stk_trainer_without(stoke_trainer *t, stk_trainer_extra what, const char *why)
{
    stk_trainer_missing *missing = &t->missing[what];
    if (missing->times++) return;
    snprintf(missing->why, sizeof missing->why, "%.*s", (int)sizeof missing->why - 1, why);
    stk_trainer_remark(t, "the run goes on without %s: %s", extras[what].all, why);
}

void stk_trainer_lost(void *trainer, stk_log_file file, const char *why)
{
    stk_trainer_without(trainer, (stk_trainer_extra)file, why);
}

void stk_trainer_say_missing(stoke_trainer *t)
{
    for (int i = 0; i < STK_EXTRAS; i++) {
        const stk_trainer_missing *missing = &t->missing[i];
        if (missing->times)
            stk_trainer_remark(t, "%" PRIu64 " %s missing: %s", missing->times,
                               missing->times == 1 ? extras[i].one : extras[i].several, missing->why);
    }
}

/* ---- events ---- */

double stk_trainer_clock(const stoke_trainer *t)
{
    return t->earlier + (t->began_ns ? (double)(stk_now_ns() - t->began_ns) / 1e9 : 0);
}

/* Steps at the pace of this session, and the evaluations between them. */
static double seconds_left(const stoke_trainer *t)
{
    if (t->session < 2 || t->now.step > t->setup.steps) return NAN;
    const uint64_t left = t->setup.steps - t->now.step;
    const int64_t every = t->setup.params.eval_every;
    const uint64_t evaluations = !t->setup.val_set ? 0 : every > 0 ? left / (uint64_t)every : left > 0;
    return (double)left * t->step_seconds / (double)(t->session - 1) + (double)evaluations * t->eval_seconds;
}

stoke_train_event stk_trainer_event(const stoke_trainer *t, stoke_train_event_kind kind)
{
    const uint64_t each = stk_step_batches(&t->setup.params);
    const stk_trainer_lately *lately = &t->lately;
    uint32_t worst_rank = 0;
    const double worst_wait = stk_rank_watch_worst(t, &worst_rank);
    return (stoke_train_event){
        .kind = kind,
        .rank = stk_comm_rank(t->comm),
        .world = stk_comm_world(t->comm),
        .step = t->now.step,
        .steps = t->setup.steps,
        .epoch = t->now.epoch,
        .epochs = t->setup.epochs,
        .step_in_epoch = each ? (t->now.batch + each - 1) / each : 0,
        .steps_per_epoch = each ? (t->setup.batches_per_epoch + each - 1) / each : 0,
        .loss = t->now.epoch_steps ? t->now.epoch_loss / (double)t->now.epoch_steps : NAN,
        .last_loss = t->last_loss,
        .lr = t->lr,
        .gradient_norm = t->gradient_norm,
        .images_per_s = lately->seconds > 0 ? lately->images / lately->seconds : NAN,
        .data_wait = lately->seconds > 0 ? lately->data_seconds / lately->seconds : 0,
        .seconds_left = seconds_left(t),
        .scores = t->evaluated ? &t->scores : NULL,
        .worst_wait = worst_wait,
        .worst_rank = worst_rank,
    };
}

void stk_trainer_send(stoke_trainer *t, const stoke_train_event *event)
{
    const int asked = t->event ? t->event(t->context, event) : 0;
    if (asked) t->asked = asked;
    if (!t->comm) t->stops = t->asked;
}

int stk_trainer_count(stoke_trainer *t, stoke_train_event_kind kind, uint64_t done, uint64_t total)
{
    stoke_train_event event = stk_trainer_event(t, kind);
    event.done = done;
    event.total = total;
    stk_trainer_send(t, &event);
    return t->asked;
}

/* ---- remarks ---- */

void stk_trainer_log_remarks(stoke_trainer *t)
{
    for (size_t i = 0; i < t->remarks.n; i++)
        stk_log_writer_sentence(t->log, "remark", t->now.step, stk_trainer_clock(t), t->remarks.text[i]);
    stk_remarks_free(&t->remarks);
    t->log_state = STK_LOG_OPEN;
}

void stk_trainer_remark(stoke_trainer *t, const char *format, ...)
{
    char text[STOKE_ERROR_TEXT];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    /* What is found out while a run opens, rank 0 finds out too. */
    if (!stk_ranks_first(t)) {
        if (t->log_state == STK_LOG_OPEN) stk_remark_keep(&t->remarks, text);
        return;
    }
    stoke_train_event event = stk_trainer_event(t, STOKE_TRAIN_REMARK);
    event.text = text;
    /* Into the log, for the report. Best effort: the remark itself is told in any case. */
    if (t->log_state == STK_LOG_OPEN)
        stk_log_writer_sentence(t->log, "remark", t->now.step, stk_trainer_clock(t), text);
    if (t->log_state == STK_LOG_LATER) stk_remark_keep(&t->remarks, text);
    stk_trainer_send(t, &event);
}

/* ---- what is kept ---- */

/* What a run to be resumed has already, and must not lose. A run that goes on from its last state writes over
 * best/ and last/ with more of the same; one that begins again, or goes on from an older state, would write
 * over the networks of a longer run. */

/* What folder and log tell of the sessions before. */
typedef struct earlier {
    int best, last; /* networks that are there */
    int logged;     /* there is a log */
    uint64_t step, saves, saved_step, evaluations;
} earlier;

static int has_network(const stoke_trainer *t, const char *name)
{
    char path[PATH_MAX];
    return !stk_trainer_path(t, path, name, NULL) && stoke_there(path);
}

/* A log that is damaged, or gone, tells less. */
static int look_back(const stoke_trainer *t, earlier *e, stoke_error *err)
{
    stk_run_log log = { 0 };
    char path[PATH_MAX];
    int r = stk_trainer_path(t, path, "log.jsonl", err);
    if (!r) r = stk_run_log_read(&log, path, err);
    *e = (earlier){ .best = has_network(t, "best/model.safetensors"),
                    .last = has_network(t, "last/model.safetensors"),
                    .logged = !r,
                    .step = log.step,
                    .saves = log.saves,
                    .saved_step = log.saved_step,
                    .evaluations = log.evaluations };
    stk_run_log_free(&log);
    return r == STOKE_E_NOMEM ? r : STOKE_OK;
}

static const char *networks(const earlier *e)
{
    return e->best && e->last ? "best/ and last/" : e->best ? "best/" : e->last ? "last/" : "the log";
}

int stk_trainer_begins_again(stoke_trainer *t, stoke_error *err)
{
    earlier e;
    const int r = look_back(t, &e, err);
    if (r) return r;
    /* Whether there was a checkpoint. last/ is written after the first one, and so is the line of the log.
     * best/ comes before it, and only a run that was killed in that moment has one evaluation and no
     * checkpoint: begun again it makes the same one. */
    if (!e.last && !e.saves && !(e.best && (!e.logged || e.evaluations > 1))) {
        stk_trainer_remark(t, "%s has no checkpoint yet: it begins again at step 0", t->folder);
        return STOKE_OK;
    }
    if (t->setup.params.force) {
        stk_trainer_remark(
            t, "%s: state.safetensors is gone: the run begins again at step 0 and replaces %s of %s",
            t->folder, networks(&e), STOKE_COUNT(e.step, "step"));
        return STOKE_OK;
    }
    char network[PATH_MAX];
    snprintf(network, sizeof network, "%s/%s", t->folder, e.best ? "best" : "last");
    const int there = e.best || e.last;
    return stk_fail(err, STOKE_E_STATE,
                    "%s: state.safetensors is gone, and this run of %s cannot go on without it: begun again "
                    "at step 0 it would write over %s. %s%s%s`force` begins this one again",
                    t->folder, STOKE_COUNT(e.step, "step"), networks(&e),
                    there ? "A new run starts from its network with `pretrained` " : "",
                    there ? STOKE_WORD(network) : "", there ? "; " : "Its networks are gone, too: ");
}

int stk_trainer_goes_back(stoke_trainer *t, stoke_error *err)
{
    earlier e;
    const int r = look_back(t, &e, err);
    if (r || e.saved_step <= t->now.step) return r;
    if (t->setup.params.force) {
        stk_trainer_remark(t,
                           "goes back from step %" PRIu64 ", where it was last saved, to %" PRIu64
                           ": %s and the log of the steps after that are replaced",
                           e.saved_step, t->now.step, networks(&e));
        return STOKE_OK;
    }
    return stk_fail(err, STOKE_E_STATE,
                    "%s: state.safetensors is of step %" PRIu64 ", but the run was saved at step %" PRIu64
                    " since: going on from the older state would write over %s and the log of the longer "
                    "run. Put the newer state back, or use `force` to go on from step %" PRIu64,
                    t->folder, t->now.step, e.saved_step, networks(&e), t->now.step);
}

/* ---- saving ---- */

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
    stk_log_writer_step(t->log, &t->note);
    stk_rank_log_write(&t->rank_log, t->note.step, t->note.t);
    stk_rank_watch_log_sums(t, 0);
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
int stk_trainer_measure(stoke_trainer *t, stoke_error *err)
{
    const int average = t->setup.net.average;
    stk_evaluate_result *result = &t->found;
    t->eval_began_ns = stk_now_ns();
    stk_trainer_live(t, STOKE_LIVE_EVALUATING);
    stk_trainer_write_note(t);
    int r = stk_ranks_agree(t, average ? stoke_net_swap_average(t->net, err) : STOKE_OK, err);
    if (r) return r;
    /* One of the loaders rests: the memory of their workers is planned once. */
    stk_loader_rest(t->train);
    if (t->val) {
        stk_loader_wake(t->val);
        r = stk_evaluate(t->net, t->val, &t->share, t->confusion, t->gallery, result, evaluating, t, err);
        stk_loader_rest(t->val);
    } else {
        if (t->viewer) stoke_net_copy(t->viewer, t->net);
        r = stk_evaluate_original(&t->sight, t->confusion, result, evaluating, t, err);
    }
    stk_loader_wake(t->train);
    if (average) {
        const int back = stoke_net_swap_average(t->net, r ? NULL : err);
        if (!r) r = back;
    }
    return stk_ranks_agree(t, r, err);
}

/* 1: better than all before, and now the best. */
static int keep_score(stoke_trainer *t, const stk_evaluate_result *e)
{
    stk_checkpoint_progress *now = &t->now;
    const int metric = (int)t->setup.params.metric, lower = metric == STOKE_METRIC_LOSS;
    const double value = lower ? e->loss : stoke_score_value(&e->scores, metric);
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
    if (stk_setup_task(&t->setup) == STOKE_TASK_RESTORE)
        snprintf(title, sizeof title, "step %" PRIu64 ": PSNR %.2f dB, SSIM %.3f", t->now.step,
                 e->scores.psnr, e->scores.ssim);
    else
        snprintf(title, sizeof title, "step %" PRIu64 ": mIoU %.3f, pixel accuracy %.3f", t->now.step,
                 e->scores.miou, e->scores.pixel_accuracy);
    char folder[PATH_MAX], path[PATH_MAX];
    int r = stk_trainer_path(t, folder, "predictions", err);
    if (!r) r = stk_trainer_path(t, path, name, err);
    if (!r) r = stoke_make_folders(folder, err);
    if (!r)
        r = stk_gallery_write(t->gallery, path, title, t->setup.val.ignore_index, t->setup.class_names,
                              t->setup.classes, err);
    if (r) stk_trainer_without(t, STK_EXTRA_PICTURES, own.message);
    return !r;
}

int stk_trainer_save_network(stoke_trainer *t, const char *name, stoke_error *err)
{
    char folder[PATH_MAX];
    const int r = stk_trainer_path(t, folder, name, err);
    return r ? r : stoke_net_save(t->net, folder, t->setup.net.average, err);
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
        "evaluation takes %.0f %% of the time (%.1f s after every %.1f s of steps): a larger `eval_every` "
        "than %lld evaluates less often%s",
        100 * seconds / (seconds + steps), seconds, steps, (long long)every,
        t->val ? "" : "; `eval_mode` resize is quicker, and does not see what `stoke predict` will");
}

int stk_trainer_evaluate(stoke_trainer *t, stoke_error *err)
{
    stk_evaluate_result *e = &t->found;
    char picture[64];
    snprintf(picture, sizeof picture, "predictions/%06" PRIu64 ".png", t->now.step);
    const int best = keep_score(t, e);
    /* Bad files are no reason to end a run that copes with them. */
    const int drawn = t->gallery && stk_gallery_has_any(t->gallery) && draw(t, e, picture);
    const int r = best ? stk_trainer_save_network(t, "best", err) : STOKE_OK;
    const double seconds = (double)(stk_now_ns() - t->eval_began_ns) / 1e9;
    t->now.eval_seconds += seconds;
    e->seconds = seconds; /* the log has the whole, as the summary does: the report's times add up */
    if (r) return r;
    const stk_log_eval_note note = { .step = t->now.step,
                                     .epoch = t->now.epoch,
                                     .t = stk_trainer_clock(t),
                                     .evaluation = e,
                                     .confusion = t->confusion,
                                     .best = best,
                                     .average = t->setup.net.average,
                                     .picture = drawn ? picture : NULL };
    stk_log_writer_evaluation(t->log, &t->setup, &note);
    stoke_train_event event = stk_trainer_event(t, STOKE_TRAIN_EVALUATED);
    event.loss = e->loss;
    event.best = best;
    event.seconds = seconds;
    stk_trainer_send(t, &event);
    say_of_cost(t, seconds);
    return STOKE_OK;
}

/* ---- checkpoints ---- */

int stk_trainer_save(stoke_trainer *t, stoke_error *err)
{
    const uint64_t began = stk_now_ns();
    char path[PATH_MAX];
    struct stat st;
    stk_trainer_live(t, STOKE_LIVE_SAVING);
    /* The steps before it are in the log: one that goes on from here begins a new line. */
    stk_trainer_write_note(t);
    int r = stk_trainer_path(t, path, "state.safetensors", err);
    stk_trainer_place(t, t->now.loader);
    t->now.seconds = stk_trainer_clock(t);
    if (!r) r = stk_checkpoint_save(path, t->net, &t->now, t->identity, err);
    const uint64_t bytes = !r && stoke_stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;
    if (!r) t->saved_ns = stk_now_ns();
    stk_ranks_working(t); /* who is lost is lost after the save, too */
    if (!r) r = stk_trainer_save_network(t, "last", err);
    const double seconds = (double)(stk_now_ns() - began) / 1e9;
    t->now.save_seconds += seconds;
    t->last_save = seconds;
    if (r) return r;
    stk_log_writer_saved(t->log, t->now.step, stk_trainer_clock(t), seconds, bytes);
    stoke_train_event event = stk_trainer_event(t, STOKE_TRAIN_SAVED);
    event.seconds = seconds;
    stk_trainer_send(t, &event);
    return STOKE_OK;
}
