/* SPDX-License-Identifier: Apache-2.0
 *
 * The run itself: batches to gradients, gradients to steps, and between steps everything else. A step is the
 * unit: the run is asked to stop, saves, evaluates and goes on only between two of them.
 *
 * A step takes `accumulate` batches, wherever an epoch ends: one that falls into the middle of a step goes on
 * with the first batches of the next, so all steps are alike. A short last batch of an epoch is trained as it
 * is, with the mean over its own pixels, as PyTorch's loaders give it: its pictures then weigh a little more
 * than others, unless the step has one mean over all (`loss_mean`). `drop_last` leaves it out.
 */
#include "src/train/trainer.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <stoke/tools/loader.h>

#include "src/base/clock.h"
#include "src/base/error.h"

static const double FADE = 0.95; /* of what was, per step */

static double seconds_since(uint64_t ns)
{
    return (double)(stk_now_ns() - ns) / 1e9;
}

static int is_fp16(const stoke_trainer *t)
{
    return stoke_net_plan_used(t->net)->precision == STOKE_PRECISION_FP16;
}

/* ---- batches ---- */

/* Lanes of a step take their batches by number, wherever an epoch ends. */
static int has_lanes(const stoke_trainer *t)
{
    return t->setup.params.replicas > 1;
}

/* The epoch is over; its successor's first batches are on their way already. */
static void next_epoch(stoke_trainer *t)
{
    stk_checkpoint_progress *now = &t->now;
    const stoke_train_event event = stk_trainer_event(t, STOKE_TRAIN_EPOCH);
    stk_trainer_send(t, &event);
    now->epoch++;
    now->batch = now->epoch_steps = 0;
    now->epoch_loss = 0;
    if (!has_lanes(t)) stoke_loader_set_epoch(t->train, now->epoch);
}

/* After a step: whether an epoch ended with it, or within it. */
static void follow_epochs(stoke_trainer *t)
{
    if (!has_lanes(t)) {
        if (!stoke_loader_remaining(t->train)) next_epoch(t);
        return;
    }
    const uint64_t taken = t->now.step * stk_step_batches(&t->setup.params);
    while (taken / t->setup.batches_per_epoch > t->now.epoch) next_epoch(t);
    t->now.batch = taken % t->setup.batches_per_epoch;
}

void stk_trainer_place(const stoke_trainer *t, char text[static STK_LOADER_STATE])
{
    if (has_lanes(t))
        stk_loader_state_at(t->train, t->now.epoch, t->now.batch * (uint64_t)t->setup.train.batch, text,
                            STK_LOADER_STATE);
    else
        stoke_loader_state(t->train, text, STK_LOADER_STATE);
}

int stk_trainer_next_batch(stoke_trainer *t, const stoke_batch **batch, double *waited, stoke_error *err)
{
    const uint64_t began = stk_now_ns();
    int r = stoke_loader_next(t->train, batch);
    if (r == STOKE_E_END && !has_lanes(t)) { /* in the middle of a step */
        next_epoch(t);
        r = stoke_loader_next(t->train, batch);
    }
    *waited += seconds_since(began);
    if (r == STOKE_E_END)
        return stk_fail(err, STOKE_E_NOTFOUND,
                        "an epoch has no batch: every sample was left out (see `policy` and `drop_last`)");
    if (r) return stk_fail_again(err, r, stoke_loader_error(t->train));
    t->now.batch++;
    return STOKE_OK;
}

/* ---- what is not finite ---- */

static void remember_names(stoke_trainer *t, const stoke_batch *batch)
{
    for (uint32_t i = 0; i < batch->count; i++, t->n_names++)
        if (t->n_names < STK_NAMES) t->names[t->n_names] = batch->names[i];
}

static void list_names(const stoke_trainer *t, char *text, size_t size)
{
    size_t n = 0;
    text[0] = 0;
    for (uint64_t i = 0; i < t->n_names && i < STK_NAMES && n < size; i++)
        n += (size_t)snprintf(text + n, size - n, "%s%.80s", i ? ", " : "", t->names[i]);
    if (t->n_names > STK_NAMES && n < size)
        snprintf(text + n, size - n, " and %" PRIu64 " more", t->n_names - STK_NAMES);
}

/* Nothing is saved: the checkpoint before stays the last. */
static int not_finite(stoke_trainer *t, const char *what, double value, stoke_error *err)
{
    char names[400], kept[160];
    list_names(t, names, sizeof names);
    if (t->saved_ns || t->resumed)
        snprintf(kept, sizeof kept, "The last checkpoint in %.80s is as it was", t->folder);
    else
        snprintf(kept, sizeof kept, "There was no checkpoint yet");
    return stk_fail(
        err, STOKE_E_STATE,
        "step %" PRIu64 ": the %s is %s at a learning rate of %g, with %s. %s. Try a lower `lr`, a "
        "`clip_norm` of 1 or a longer `warmup`; `stoke verify` tells whether the data is sound",
        t->now.step + 1, what, isnan(value) ? "not a number (NaN)" : "infinite", t->lr, names, kept);
}

static int too_many_skips(stoke_trainer *t, stoke_error *err)
{
    char names[400];
    list_names(t, names, sizeof names);
    return stk_fail(err, STOKE_E_STATE,
                    "step %" PRIu64
                    ": the gradients of %d steps in a row were beyond fp16, down to a loss scale "
                    "of %g (last pictures: %s). The weights have not changed since. Try a lower `lr`, a "
                    "`clip_norm` of 1, or `precision` bf16 or fp32",
                    t->now.step, STK_SKIPS, t->loss_scale, names);
}

/* ---- one step ---- */

/* A batch on its way through the network: what has to be left alone until its gradients are there. */
typedef struct own_batch {
    const stoke_batch *batch;
    stoke_net_batch rows;
} own_batch;

int stk_trainer_check_loss(stoke_trainer *t, const stoke_batch *batch, double loss, stoke_error *err)
{
    if (isfinite(loss) || is_fp16(t)) return STOKE_OK;
    t->n_names = 0;
    remember_names(t, batch);
    return not_finite(t, "loss", loss, err);
}

void stk_trainer_took(stoke_trainer *t, const stoke_batch *batch, stoke_net_batch *rows, uint64_t *images)
{
    remember_names(t, batch);
    *rows = stoke_net_batch_of(batch);
    *images += batch->count;
}

/* Forward pass and loss of the `k`-th own batch of a step. */
static int look(stoke_trainer *t, uint32_t k, own_batch *own, stk_ranks_step *all, stoke_error *err)
{
    int r = stk_trainer_next_batch(t, &own->batch, &all->waited, err);
    if (r) return r;
    if (stk_lanes_audits(&t->lanes, k)) /* others have it among theirs */
        own->rows = stoke_net_batch_of(own->batch);
    else
        stk_trainer_took(t, own->batch, &own->rows, &all->images);
    double loss = NAN;
    r = stk_lanes_look(&t->lanes, k, &own->rows, &loss, err);
    return r ? r : stk_trainer_check_loss(t, own->batch, loss, err);
}

/* All ranks find the same; rank 0 tells. */
static int audit(stoke_trainer *t, stoke_error *err)
{
    const int r = t->lanes.audit.on ? stk_lanes_compare(&t->lanes, err) : STOKE_OK;
    return r ? stk_ranks_agree(t, r, err) : STOKE_OK;
}

static int update(stoke_trainer *t, double *loss, stoke_error *err)
{
    const stoke_update settings = stk_setup_update(&t->setup.params, t->lr, t->now.step);
    stoke_step_report report;
    int r = audit(t, err);
    if (!r) r = stk_lanes_step(&t->lanes, &settings, &report, loss, err);
    if (r) return r;
    t->gradient_norm = report.gradient_norm;
    t->loss_scale = report.loss_scale;
    /* All ranks have found the same; rank 0 tells. */
    if (report.skipped && !is_fp16(t))
        return stk_ranks_agree(t, not_finite(t, "norm of the gradient", report.gradient_norm, err), err);
    t->now.skipped_in_a_row = report.skipped ? t->now.skipped_in_a_row + 1 : 0;
    t->note.skipped += (uint64_t)report.skipped;
    return STOKE_OK;
}

/* What is known of a step goes into the epoch's mean, the next line of the log and what is shown. A loss that
 * overflowed in fp16 is in none of the means. */
static void book(stoke_trainer *t, double loss, uint64_t images, double seconds, double waited)
{
    stk_checkpoint_progress *now = &t->now;
    now->step++;
    t->last_step = seconds;
    now->images += images;
    now->data_seconds += waited;
    t->last_loss = loss;
    if (isfinite(loss)) {
        now->epoch_loss += loss;
        now->epoch_steps++;
        t->note_loss += loss;
        t->note_losses++;
    }
    t->note_steps++;
    t->note.images += images;
    t->note.seconds += seconds;
    t->note.data_seconds += waited;
    if (t->session++) {
        t->step_seconds += seconds;
        t->wait_seconds += waited;
    }
    t->waited_ns += (uint64_t)(waited * 1e9);
    t->stepped_ns += seconds > waited ? (uint64_t)((seconds - waited) * 1e9) : 0;
    t->lately.images = FADE * t->lately.images + (double)images;
    t->lately.seconds = FADE * t->lately.seconds + seconds;
    t->lately.data_seconds = FADE * t->lately.data_seconds + waited;
}

/* No step may be lost that took long, or more work than STK_SAVE_SECONDS: rank 0's clock tells. */
static int is_long_since_saved(const stoke_trainer *t)
{
    const double since = seconds_since(t->saved_ns ? t->saved_ns : t->began_ns);
    if (since > STK_SAVE_SECONDS) return 1;
    return t->last_step > STK_LONG_STEP && since > STK_SAVES_PER_GAP * fmax(t->last_save, 0.1);
}

int stk_trainer_agree_on_step(stoke_trainer *t, int r, stk_trainer_step *step, stoke_error *err)
{
    stk_rank_moments *moments = &step->moments;
    step->all.save = is_long_since_saved(t);
    moments->waited = step->all.waited;
    moments->images = step->all.images;
    moments->ready = stk_now_ns();
    r = stk_ranks_agree_on_step(t, r, &step->all, err);
    moments->agreed = stk_now_ns();
    return r;
}

/* All ranks agree before the gradients of their last batches: what follows can fail on no single one. */
static int batches_in_turn(stoke_trainer *t, stk_trainer_step *step, stoke_error *err)
{
    const uint32_t batches = stk_lanes_own(&t->lanes);
    own_batch own = { 0 };
    int r = STOKE_OK;
    for (uint32_t k = 0; !r && k < batches; k++) {
        r = look(t, k, &own, &step->all, err);
        if (r || k + 1 == batches) break;
        stk_lanes_learn(&t->lanes, k, &own.rows);
        stoke_batch_release(t->train, &own.batch);
    }
    r = stk_trainer_agree_on_step(t, r, step, err);
    if (!r) stk_lanes_learn(&t->lanes, batches - 1, &own.rows);
    stoke_batch_release(t->train, &own.batch);
    return r;
}

static int step(stoke_trainer *t, stoke_error *err)
{
    double loss = NAN;
    stk_trainer_step own = { .moments = { .began = stk_now_ns() } };
    stk_rank_moments *moments = &own.moments;
    stk_lanes_begin(&t->lanes, t->now.step);
    t->n_names = 0;
    t->lr = stk_train_lr(&t->setup.params, t->now.step, t->setup.steps);
    int r =
        stk_lanes_joint(&t->lanes) ? stk_trainer_together_take(t, &own, err) : batches_in_turn(t, &own, err);
    moments->learned = stk_now_ns();
    if (!r) r = update(t, &loss, err);
    if (r) return r;
    moments->ended = stk_now_ns();
    stk_rank_log_add(&t->rank_log, seconds_since(moments->began), moments->waited,
                     (double)(moments->agreed - moments->ready) / 1e9 + moments->met + moments->met_after);
    stk_rank_watch_add(t, moments);
    t->saves = own.all.save;
    book(t, loss, own.all.images, seconds_since(moments->began), own.all.waited);
    const stoke_train_event event = stk_trainer_event(t, STOKE_TRAIN_STEP);
    stk_trainer_send(t, &event);
    follow_epochs(t);
    return t->now.skipped_in_a_row < STK_SKIPS ? STOKE_OK : stk_ranks_agree(t, too_many_skips(t, err), err);
}

/* ---- between steps ---- */

static int due(int64_t every, uint64_t step)
{
    return every > 0 && step % (uint64_t)every == 0;
}

static int evaluation_due(const stoke_trainer *t)
{
    const stk_checkpoint_progress *now = &t->now;
    return t->setup.val_set && now->step && !(now->evaluations && now->evaluated == now->step) &&
           (due(t->setup.params.eval_every, now->step) || now->step == t->setup.steps);
}

static int checkpoint_due(const stoke_trainer *t)
{
    const int64_t every = t->setup.params.save_every;
    return every >= 0 ? due(every, t->now.step) : t->saves;
}

/* Why the run is over; NULL: it is not. */
static const char *reason_to_end(stoke_trainer *t)
{
    const stoke_train_params *p = &t->setup.params;
    const int complete = t->now.step >= t->setup.steps;
    if (complete && !(t->stops && evaluation_due(t))) return "all steps are done";
    t->stopped_early = p->patience && t->now.without_gain >= (uint64_t)p->patience;
    if (t->stopped_early) return "no gain in as many evaluations as `patience` allows";
    if (t->stops) return "asked to stop";
    if (p->stop_after && t->session >= (uint64_t)p->stop_after) return "as many steps as `stop_after` allows";
    return NULL;
}

/* Whose memory has changed by itself must not go on, nor save what it has. */
static int same_weights(stoke_trainer *t, stoke_error *err)
{
    const int r = stk_lanes_compare_weights(&t->lanes, t->now.step, err);
    return r ? stk_ranks_agree(t, r, err) : STOKE_OK;
}

/* By all ranks, with all that only owners have; what rank 0 makes of it is everyone's. */
static int evaluate(stoke_trainer *t, stoke_error *err)
{
    int r = same_weights(t, err);
    if (!r) r = stk_ranks_agree(t, stk_lanes_gather(&t->lanes, err), err);
    if (r) return r;
    r = stk_trainer_measure(t, err);
    if (!r) r = stk_ranks_by_first(t, stk_trainer_evaluate, err);
    const int shared = stk_ranks_take(t, &t->now, sizeof t->now, r ? NULL : err);
    return r ? r : shared;
}

static int save(stoke_trainer *t, stoke_error *err)
{
    int r = same_weights(t, err);
    if (!r) r = stk_ranks_agree(t, stk_lanes_gather(&t->lanes, err), err);
    return r ? r : stk_ranks_by_first(t, stk_trainer_save, err);
}

static void make_report(stoke_trainer *t)
{
    if (!stk_ranks_first(t)) return;
    stoke_error err = { 0 };
    const uint64_t began = stk_now_ns();
    t->reported = stoke_run_report(t->folder, 0, &err) == STOKE_OK;
    if (!t->reported) stk_trainer_without(t, STK_EXTRA_REPORT, err.message);
    t->now.save_seconds += seconds_since(began);
}

static int between_steps(stoke_trainer *t, const char **why, stoke_error *err)
{
    const uint64_t began = stk_now_ns();
    const int evaluates = evaluation_due(t) && !t->stops;
    const int notes = due(t->setup.params.log_every, t->now.step);
    if (notes) stk_trainer_write_note(t);
    const uint64_t asked = stk_now_ns();
    int r = notes ? same_weights(t, err) : STOKE_OK;
    if (!r && evaluates) r = evaluate(t, err);
    const int evaluated = evaluates && !r;
    /* One that Ctrl-C cut short is not an error: it is made up for when the run goes on. */
    if (r == STOKE_E_CANCELLED && t->stops) r = STOKE_OK;
    if (r) return r;
    *why = reason_to_end(t);
    if (evaluated || *why || checkpoint_due(t)) r = save(t, err);
    stk_rank_watch_aside(t, asked);
    if (!r && evaluated && !*why) make_report(t);
    if (evaluated) t->eval_seconds = seconds_since(began);
    if (!*why) stk_trainer_live(t, STOKE_LIVE_TRAINING); /* again, after what came between */
    return r;
}

static int run(stoke_trainer *t, const char **why, stoke_error *err)
{
    int r = STOKE_OK;
    stk_log_writer_start(t->log, &t->setup, stoke_net_plan_used(t->net), t->now.cpu, t->now.step,
                         stk_trainer_clock(t), t->resumed);
    stk_trainer_log_remarks(t);
    stk_rank_watch_log_who(t);
    *why = NULL;
    /* An evaluation that is missing comes first; a run that is complete only gets its report again, and
     * last/, which is written after the state: it may have been killed between the two. */
    if (evaluation_due(t)) r = between_steps(t, why, err);
    if (!r && !*why) {
        *why = reason_to_end(t);
        if (*why && t->resumed && stk_ranks_first(t)) r = stk_trainer_save_network(t, "last", err);
        r = stk_ranks_agree(t, r, err);
    }
    while (!r && !*why) {
        r = step(t, err);
        if (!r) r = between_steps(t, why, err);
    }
    return r;
}

/* What a person should know about the data of this session. */
static void say_of_data(stoke_trainer *t, const stoke_loader *loader, const char *part, uint64_t replaced,
                        uint64_t skipped)
{
    stoke_loader_stats_data stats;
    if (!loader) return;
    stoke_loader_stats(loader, &stats);
    const uint64_t bad = replaced + skipped;
    if (bad)
        stk_trainer_remark(t,
                           "%s: bad files at %" PRIu64 " place%s of its batches: %" PRIu64
                           " replaced by another sample, %" PRIu64
                           " left out; `stoke verify` gives the reasons",
                           part, bad, bad == 1 ? "" : "s", replaced, skipped);
    if (stats.retries)
        stk_trainer_remark(t, "%s: %" PRIu64 " read%s tried again", part, stats.retries,
                           stats.retries == 1 ? " was" : "s were");
    char unrecorded[1024] = "";
    if (stoke_loader_unrecorded(loader, unrecorded, sizeof unrecorded))
        stk_trainer_remark(t, "%s: %s", part, unrecorded);
    if (loader == t->train && t->bad.all &&
        stk_quarantine_unrecorded(t->bad.all, unrecorded, sizeof unrecorded))
        stk_trainer_remark(t, "%s: %s", part, unrecorded);
    const char *warning = stoke_loader_warning(loader);
    if (warning && strncmp(unrecorded, warning, strlen(warning)) != 0)
        stk_trainer_remark(t, "%s: %s", part, warning);
}

static void say_of_sight(stoke_trainer *t)
{
    const uint64_t bad = t->sight.predictor && stk_ranks_first(t) ? t->found.bad.left_out : 0;
    if (bad)
        stk_trainer_remark(t, "validation: %" PRIu64 " bad file%s left out; the first: %s", bad,
                           bad == 1 ? " was" : "s were", t->found.bad.first);
    char unrecorded[STOKE_ERROR_TEXT];
    if (t->sight.predictor && stk_quarantine_unrecorded(t->sight.quarantine, unrecorded, sizeof unrecorded))
        stk_trainer_remark(t, "validation: %s", unrecorded);
}

int stoke_trainer_run(stoke_trainer *t, stoke_error *err)
{
    stoke_error own = { 0 };
    const char *why = NULL;
    t->began_ns = stk_now_ns();
    int r = run(t, &why, &own);
    const stk_loader_bad bad = stk_loader_bad_rows(t->train);
    const stk_evaluate_bad none = { 0 }, *all = stk_ranks_first(t) ? &t->found.bad : &none;
    say_of_data(t, t->train, "training", bad.replaced, bad.skipped);
    say_of_data(t, t->val, "validation", all->replaced, all->left_out);
    say_of_sight(t);
    stk_ranks_say_rest(t);
    /* The log and the report tell of a failure too, as far as they can be written. */
    if (r) stk_trainer_write_note(t);
    stk_rank_watch_log_sums(t, 1);
    stk_log_writer_sentence(t->log, "end", t->now.step, stk_trainer_clock(t), r ? own.message : why);
    t->log_state = STK_LOG_ENDED;
    t->useless = r && t->is_alone && !t->now.step;
    if (!t->useless) make_report(t);
    stk_trainer_say_missing(t);
    /* The report says so by itself, from the times in the log. */
    const double share = t->step_seconds > 0 ? t->wait_seconds / t->step_seconds : 0;
    if (t->session >= 20 && share > 0.1)
        stk_trainer_remark(t,
                           "steps waited for data %.0f %% of the time: `cache` keeps decoded pictures, more "
                           "`workers` decode with more threads; `stoke bench data` shows what takes the time",
                           100 * share);
    t->now.seconds = t->earlier = stk_trainer_clock(t);
    t->began_ns = 0; /* the session is over: what comes after it is not of the run */
    stoke_train_event event = stk_trainer_event(t, STOKE_TRAIN_DONE);
    event.text = r ? own.message : why;
    stk_trainer_send(t, &event);
    stk_ranks_wait_for_the_end(t);
    if (r) return stk_fail_again(err, r, own.message);
    const int complete = t->now.step >= t->setup.steps || t->stopped_early;
    return t->stops && (!complete || evaluation_due(t))
               ? stk_fail(err, STOKE_E_CANCELLED, "asked to stop at step %" PRIu64, t->now.step)
               : STOKE_OK;
}
