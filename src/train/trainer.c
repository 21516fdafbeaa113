/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening and closing a run: what is auto is settled, what will happen is said, and only then memory is taken
 * and files are written. A run that goes on is compared with its checkpoint before any of that.
 */
#include "src/train/trainer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/cpu.h"
#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/base/retry.h"
#include "src/loader/loader.h"
#include "src/source/reader.h"
#include "src/train/train_memory.h"

/* ---- the page for onlookers ---- */

/* The run's page for onlookers, RUN/live: written after every step and whenever something else begins. Of
 * 1,000 writes on a disk of ext4 each took 2.6 us with the counters of the loader taken, against steps of 50
 * ms and more. A run that cannot have a page goes on without one. */

static void trainer_live_begin(stoke_trainer *t)
{
    stoke_error err = { 0 };
    char what[64], path[PATH_MAX];
    snprintf(what, sizeof what, "train %s", t->setup.params.model);
    if (stk_trainer_path(t, path, "live", &err) || stoke_live_create(&t->live, path, what, &err))
        stk_trainer_remark(t, "nobody can watch this run with `stoke monitor --attach`: %s", err.message);
    stk_trainer_live(t, STOKE_LIVE_STARTING);
    stk_rank_watch_begin_table(t);
}

void stk_trainer_live(stoke_trainer *t, stoke_live_phase phase)
{
    if (!t->live) return;
    stoke_live_data data = stoke_live_defaults();
    stoke_live_take(&data, t->train);
    data.phase = phase;
    data.step = t->now.step;
    data.steps = t->setup.steps;
    data.epoch = t->now.epoch;
    data.epochs = t->setup.epochs;
    data.data_wait_ns = t->waited_ns;
    data.step_ns = t->stepped_ns;
    data.loss = t->last_loss;
    data.lr = t->lr;
    stoke_live_write(t->live, &data);
}

/* ---- opening ---- */

/* ---- what is said while settling ---- */

static void say(void *context, const char *sentence)
{
    stk_trainer_remark(context, "%s", sentence);
}

static int settling(void *context, uint64_t done, uint64_t total)
{
    return stk_trainer_count(context, STOKE_TRAIN_SETTLING, done, total);
}

/* ---- the state to go on from ---- */

/* Names are the same, files are not: the run goes on, and whoever reads its curves should know. */
static void notice_files(stoke_trainer *t, const char *state)
{
    struct stat st;
    const int64_t since = stoke_stat(state, &st) == 0
                              ? (int64_t)st.st_mtim.tv_sec * 1000000000 + (int64_t)st.st_mtim.tv_nsec
                              : INT64_MAX;
    char text[STOKE_ERROR_TEXT] =
        "files of the set have another size or time than when the run was saved, under the same names: what "
        "is trained on from here may not be what it began with";
    stk_files_newer_text(&t->setup, since, text, sizeof text);
    stk_trainer_remark(t, "%s", text);
}

/* Before an evaluation. Scores of restoration are NaN in a run that segments, from its first state on, and 0
 * is one that pictures can have. */
static const stoke_scores no_scores = { .psnr = NAN, .ssim = NAN };

/* Reads it without a network: what it belongs to is compared before anything is taken or written. A run that
 * was killed before its first checkpoint has none, and begins again: from the seed, to the same bits. */
static int find_state(stoke_trainer *t, stoke_error *err)
{
    char path[PATH_MAX], *saved = NULL;
    stoke_error differs = { 0 };
    if (!t->setup.params.resume) return STOKE_OK;
    if (!t->setup.goes_on) return stk_trainer_begins_again(t, err);
    int r = stk_trainer_path(t, path, "state.safetensors", err);
    if (!r) r = stk_checkpoint_load(path, NULL, &t->now, &saved, err);
    if (!r) r = stk_trainer_goes_back(t, err);
    if (r) {
        stk_free(saved);
        return r;
    }
    if (stk_setup_same(saved, t->identity, &differs)) {
        if (t->setup.params.force)
            stk_trainer_remark(t, "goes on although this is not the run that was saved: %s", differs.message);
        else
            r = stk_fail(err, STOKE_E_STATE,
                         "%s: this is not the run that was saved: %s. Put that back as it was, or use "
                         "`force` to go on regardless",
                         t->folder, differs.message);
    }
    if (!r && !stk_setup_same_files(saved, t->identity)) notice_files(t, path);
    t->new_scores = !stk_setup_same_scores(saved, t->identity);
    stk_free(saved);
    t->resumed = !r;
    return r;
}

/* Where other data or another seed was forced on a run its place in the old order means nothing: the epoch
 * begins again. */
static int go_to_place(stoke_trainer *t, stoke_error *err)
{
    stoke_error own = { 0 };
    const int r = stoke_loader_restore(t->train, t->now.loader, &own);
    if (!r) return STOKE_OK;
    if (!t->setup.params.force) return stk_fail(err, r, "%s: %s", t->folder, own.message);
    stk_trainer_remark(t, "epoch %llu begins again: %s", (unsigned long long)t->now.epoch + 1, own.message);
    t->now.batch = t->now.epoch_steps = 0;
    t->now.epoch_loss = 0;
    return stoke_loader_set_epoch(t->train, t->now.epoch);
}

/* With another metric, or other pictures to validate on, the best so far says nothing. */
static void forget_best(stoke_trainer *t)
{
    stk_checkpoint_progress *now = &t->now;
    if (isfinite(now->best))
        stk_trainer_remark(t,
                           "the best of step %llu was measured otherwise: the next evaluation is the best so "
                           "far, and takes its place in best/",
                           (unsigned long long)now->best_step);
    now->best = NAN;
    now->best_step = now->without_gain = 0;
    now->best_scores = no_scores;
}

/* Rank 0 reads it, the others have it from there. */
static int read_state(stoke_trainer *t, stoke_error *err)
{
    char path[PATH_MAX], *identity = NULL;
    int r = STOKE_OK;
    if (stk_ranks_first(t)) {
        r = stk_trainer_path(t, path, "state.safetensors", err);
        if (!r) r = stk_checkpoint_load(path, t->net, &t->now, &identity, err);
        stk_free(identity);
    }
    r = stk_ranks_agree(t, r, err);
    return r ? r : stk_ranks_take_network(t, err);
}

static int load_state(stoke_trainer *t, stoke_error *err)
{
    const char *cpu = stk_cpu_level_name(stk_cpu_level_in_use());
    if (t->resumed) {
        int r = read_state(t, err);
        if (!r) r = stk_ranks_agree(t, go_to_place(t, err), err);
        if (r) return r;
        if (t->new_scores) forget_best(t);
        if (strcmp(t->now.cpu, cpu) != 0)
            stk_trainer_remark(t,
                               "the run was computed with %s until here and goes on with %s: its results "
                               "agree with those of a run in one go to rounding, not bit for bit",
                               t->now.cpu, cpu);
        t->earlier = t->now.seconds;
    }
    if (t->setup.params.replicas > 1) {
        const stk_loader_route route = stk_lanes_route(&t->lanes, t->now.step);
        stk_loader_follow(t->train, &route);
    }
    snprintf(t->now.cpu, sizeof t->now.cpu, "%s", cpu);
    return STOKE_OK;
}

/* ---- what it takes ---- */

static int announce(stoke_trainer *t, stk_train_memory *memory, stoke_error *err)
{
    const stk_setup *s = &t->setup;
    char text[1024];
    const int r = stk_train_memory_make(memory, s, s->val_set && s->params.pictures ? STK_PICTURES : 0, err);
    if (r) return r;
    stoke_memory_text(&memory->sum, text, sizeof text);
    if (memory->prefetch_reduced)
        stk_trainer_remark(t, "`prefetch` was lowered to %u to keep `memory_limit`",
                           memory->train.shown.slots - (s->net.joint ? s->net.joint : 1));
    const stoke_train_outlook outlook = {
        .data = &s->train,
        .params = &s->params,
        .plan = &memory->net,
        .memory = &memory->sum,
        .folder = t->folder,
        .train_samples = stoke_dataset_count(s->train_set),
        .val_samples = s->val_set ? stoke_dataset_count(s->val_set) : 0,
        .resumes = t->resumed,
        .eval_windows = s->val_set ? s->eval.windows : NAN,
    };
    stoke_train_event event = stk_trainer_event(t, STOKE_TRAIN_READY);
    event.text = text;
    event.outlook = &outlook;
    stk_trainer_send(t, &event);
    return t->asked ? stk_fail(err, STOKE_E_CANCELLED, "asked to stop before the run began") : STOKE_OK;
}

/* ---- open and close ---- */

static int open_sight(stoke_trainer *t, const stk_train_memory *memory, const char *quarantine,
                      stoke_error *err)
{
    const stk_setup *s = &t->setup;
    int r = stk_setup_restores(s) ? stoke_net_open(&t->viewer, &s->viewer, err) : STOKE_OK;
    if (!r)
        r = stk_predictor_borrow(&t->sight.predictor, t->viewer ? t->viewer : t->net, s->train.augment, err);
    if (!r) r = stk_labels_of(&t->labels, &s->val, err);
    t->sight.loss = s->params.loss;
    if (!r) r = stk_quarantine_open(&t->sight.quarantine, quarantine, err);
    t->sight.dataset = s->val_set;
    t->sight.labels = t->labels;
    t->sight.data = &s->val;
    t->sight.share = &t->share;
    t->sight.memory = memory->slide.memory;
    t->sight.helpers = memory->slide.helpers;
    return r;
}

static void open_gallery(stoke_trainer *t)
{
    const stk_setup *s = &t->setup;
    const uint64_t samples = stoke_dataset_count(s->val_set);
    stoke_error none = { 0 };
    const int r =
        stk_setup_restores(s)
            ? stk_gallery_create_restored(&t->gallery, samples, STK_PICTURES, &none)
            : stk_gallery_create(&t->gallery, samples, STK_PICTURES, t->val ? s->net.height : STK_EVAL_SIDE,
                                 t->val ? s->net.width : STK_EVAL_SIDE, &none);
    if (r) stk_trainer_without(t, STK_EXTRA_PICTURES, none.message);
}

static int open_loaders(stoke_trainer *t, const stk_train_memory *memory, stoke_error *err)
{
    const stk_setup *s = &t->setup;
    stoke_data_params train = stk_part_data(s, 0), val = stk_part_data(s, 1);
    char quarantine[PATH_MAX];
    int r = STOKE_OK;
    /* Bad samples are recorded in the run's folder, unless the user named a file. config.yaml keeps the
     * setting as it was: repeated elsewhere, a run has its list. */
    if (s->train.quarantine && *s->train.quarantine && !stk_quarantine_named(&s->train)) {
        r = stk_trainer_path(t, quarantine, s->train.quarantine, err);
        /* A rank on another host may not have the folder. Its loader remembers bad files all the same. */
        train.quarantine = val.quarantine = stoke_there(t->folder) ? quarantine : NULL;
    }
    const char *list = stk_ranks_first(t) ? train.quarantine : NULL;
    if (!r) r = stk_bad_share_open(&t->bad, t->comm, s->train_set, s->train.max_bad, list, err);
    if (t->comm) train.quarantine = NULL; /* rank 0 has it for all */
    if (!r) r = stk_loader_create_planned(&t->train, s->train_set, &train, &memory->train, err);
    if (r || !s->val_set) return r;
    r = stk_eval_share_open(&t->share, t->comm, s->val_set, s->val.max_bad, err);
    if (!r && s->eval.mode == STOKE_PREDICT_RESIZE)
        r = stk_loader_create_planned(&t->val, s->val_set, &val, &memory->val, err);
    if (!r && t->val && t->comm) stk_eval_share_follow(&t->share, t->val);
    if (!r && s->eval.mode == STOKE_PREDICT_SLIDE) r = open_sight(t, memory, val.quarantine, err);
    if (r) return r; /* loaders have copies of the path */
    if (!stk_setup_restores(s))
        r = stoke_confusion_create(&t->confusion, s->classes, s->val.ignore_index, err);
    if (!r && s->params.pictures) open_gallery(t);
    if (t->gallery && t->val) stk_gallery_undo(t->gallery, &stk_loader_config_of(t->val)->writer);
    t->sight.gallery = t->gallery;
    return r;
}

/* Rank 0 draws what all have kept: all keep pictures, or none does. */
static int agree_on_gallery(stoke_trainer *t, stoke_error *err)
{
    stoke_error own = { 0 };
    int r = STOKE_OK;
    if (!t->gallery && t->setup.val_set && t->setup.params.pictures)
        r = stk_fail(&own, STOKE_E_NOMEM, "no memory for pictures to look at");
    r = stk_ranks_agree(t, r, &own);
    if (r != STOKE_E_NOMEM) return r ? stk_fail_again(err, r, own.message) : STOKE_OK;
    if (t->gallery) stk_trainer_without(t, STK_EXTRA_PICTURES, own.message);
    stk_gallery_destroy(&t->gallery);
    t->sight.gallery = NULL;
    return STOKE_OK;
}

static int open_lanes(stoke_trainer *t, stoke_error *err)
{
    const stk_lanes_shape shape = stk_lanes_shape_of(&t->setup, stoke_net_plan_used(t->net));
    if (t->setup.params.audit_every && !t->comm)
        stk_trainer_remark(
            t, "`audit_every` compares what two processes computed, and this run has one: there is "
               "nobody to compare with");
    const int r = stk_lanes_open(&t->lanes, t->net, t->comm, &shape, err);
    return r ? r : stk_trainer_together_open(t, err);
}

/* No weight depends on them, so they are not compared; but what is due must be due for all. */
static int take_cadences(stoke_trainer *t, stoke_error *err)
{
    stoke_train_params *p = &t->setup.params;
    int64_t *const cadences[] = { &p->log_every,  &p->eval_every,  &p->save_every,
                                  &p->stop_after, &p->audit_every, &p->patience };
    int r = STOKE_OK;
    for (size_t i = 0; !r && i < sizeof cadences / sizeof *cadences; i++)
        r = stk_ranks_take(t, cadences[i], sizeof **cadences, err);
    return r;
}

/* The settings, settled here as on every rank: from the same files to the same. */
static int settle(stoke_trainer *t, const stoke_data_params *data, const stoke_train_params *params,
                  stoke_error *err)
{
    char *first = NULL;
    const stk_setup shared = { .rank = stk_comm_rank(t->comm), .world = stk_comm_world(t->comm) };
    int r = stk_setup_make_part(&t->setup, &shared, data, params, say, settling, t, err);
    if (!r && !(t->identity = stk_setup_identity(&t->setup)))
        r = stk_fail(err, STOKE_E_NOMEM, "no memory for the settings of the run");
    r = stk_ranks_agree(t, r, err);
    if (r || !t->comm) return r;
    const uint64_t sizes = stk_setup_file_sizes(&t->setup);
    uint64_t sizes_there = sizes;
    if (stk_ranks_first(t)) first = stk_strdup(t->identity);
    r = stk_ranks_take_text(t, &first, err);
    if (!r) r = stk_ranks_take(t, &sizes_there, sizeof sizes_there, err);
    if (!r) r = stk_setup_same_as_first(first, t->identity, err);
    if (!r && sizes != sizes_there)
        r = stk_fail(
            err, STOKE_E_STATE,
            "files of the set have other sizes here than at rank 0: copy it again, so that it is the "
            "same on all hosts");
    stk_free(first);
    r = stk_ranks_agree(t, r, err);
    return r ? r : take_cadences(t, err);
}

/* Rank 0 has the folder, and what it goes on from. */
static int find_run(stoke_trainer *t, stoke_error *err)
{
    int r = STOKE_OK;
    t->now = (stk_checkpoint_progress){ .best = NAN, .best_scores = no_scores };
    if (stk_ranks_first(t)) {
        r = stk_trainer_find_folder(t, err);
        if (!r) r = find_state(t, err);
    }
    r = stk_ranks_agree(t, r, err);
    if (!r) r = stk_ranks_take_text(t, &t->folder, err);
    if (!r) r = stk_ranks_take(t, &t->now, sizeof t->now, err);
    if (!r) r = stk_ranks_take(t, &t->resumed, sizeof t->resumed, err);
    return r ? r : stk_ranks_take(t, &t->new_scores, sizeof t->new_scores, err);
}

static int open_files(stoke_trainer *t, stoke_error *err)
{
    int r = stk_trainer_write_config(t, err);
    if (!r) trainer_live_begin(t); /* not before: a folder whose run never began stays empty */
    if (!r)
        r = stk_log_writer_open(&t->log, t->folder, t->setup.params.resume ? &t->now.step : NULL,
                                t->setup.params.tensorboard, stk_trainer_lost, t, err);
    return r;
}

static int build(stoke_trainer *t, const stoke_data_params *data, const stoke_train_params *params,
                 stoke_error *err)
{
    stk_train_memory memory;
    stoke_train_params own = *params;
    int r = stk_ranks_open(t, &own, err);
    if (!r) r = settle(t, data, &own, err);
    if (!r) r = find_run(t, err);
    if (r) return r;
    r = announce(t, &memory, err);
    if (!r && stk_ranks_first(t)) r = stk_trainer_claim_folder(t, err);
    if (!r) r = stoke_net_open(&t->net, &t->setup.net, err);
    for (size_t i = 0; !r && stoke_net_remark(t->net, i); i++)
        stk_trainer_remark(t, "%s", stoke_net_remark(t->net, i));
    r = stk_ranks_agree(t, r, err);
    if (!r) r = open_lanes(t, err);
    if (!r) r = open_loaders(t, &memory, err);
    r = stk_ranks_agree(t, r, err);
    if (!r) r = stk_rank_watch_open(t, err);
    if (!r) r = agree_on_gallery(t, err);
    if (!r) r = load_state(t, err);
    if (!r && stk_ranks_first(t)) r = open_files(t, err);
    if (!r && t->comm && t->setup.params.rank_logs)
        stk_rank_log_open(&t->rank_log, t->folder, stk_comm_rank(t->comm));
    return stk_ranks_agree(t, r, err);
}

int stoke_trainer_open(stoke_trainer **out, const stoke_data_params *data, const stoke_train_params *params,
                       stoke_train_fn event, void *context, stoke_error *err)
{
    *out = NULL;
    stoke_trainer *t = stk_calloc(1, sizeof *t);
    if (!t) return stk_fail(err, STOKE_E_NOMEM, "no memory for a run");
    t->event = event;
    t->context = context;
    t->folder_fd = -1;
    t->last_loss = t->lr = t->gradient_norm = NAN;
    const int r = build(t, data, params, err);
    t->useless = r != STOKE_OK;
    *out = t;
    stk_ranks_wait_for_the_end(t);
    if (r && !stk_ranks_lost(t)) stoke_trainer_close(out);
    return r;
}

void stoke_trainer_close(stoke_trainer **trainer)
{
    stoke_trainer *t = *trainer;
    if (!t) return;
    *trainer = NULL;
    stoke_live_close(&t->live);
    stk_log_writer_close(&t->log);
    stk_rank_log_close(&t->rank_log);
    stk_rank_watch_close(t);
    stk_gallery_destroy(&t->gallery);
    stoke_confusion_destroy(&t->confusion);
    stoke_loader_destroy(&t->val); /* it follows the share */
    stk_eval_share_close(&t->share);
    stk_bad_share_close(&t->bad);
    stk_quarantine_close(&t->sight.quarantine);
    stoke_labels_destroy(&t->labels);
    stoke_predictor_close(&t->sight.predictor);
    stoke_loader_destroy(&t->train);
    stoke_net_close(&t->viewer);
    stk_trainer_together_close(t);
    stk_lanes_close(&t->lanes);
    stk_ranks_close(t);
    stoke_net_close(&t->net);
    stk_remarks_free(&t->remarks);
    if (t->is_alone && t->useless) stk_trainer_discard_folder(t);
    stk_free(t->identity);
    stk_free(t->folder);
    if (t->folder_fd >= 0) close(t->folder_fd); /* and with it the lock */
    stk_setup_free(&t->setup);
    stk_free(t);
}

void stoke_trainer_abort(stoke_trainer **trainer, int status)
{
    if (*trainer && stk_ranks_lost(*trainer)) stk_comm_abort((*trainer)->comm, status);
    stoke_trainer_close(trainer);
}

const char *stoke_trainer_folder(const stoke_trainer *t)
{
    return t->folder;
}

stoke_train_summary stoke_trainer_summary(const stoke_trainer *t)
{
    const stk_checkpoint_progress *now = &t->now;
    return (stoke_train_summary){ .asked = t->stops,
                                  .step = now->step,
                                  .best_step = now->best_step,
                                  .best = now->best,
                                  .scores = now->best_scores,
                                  .seconds = stk_trainer_clock(t),
                                  .data_seconds = now->data_seconds,
                                  .eval_seconds = now->eval_seconds,
                                  .save_seconds = now->save_seconds,
                                  .images = now->images,
                                  .stopped_early = t->stopped_early,
                                  .reported = t->reported };
}
