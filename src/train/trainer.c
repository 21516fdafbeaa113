/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening and closing a run: what is auto is settled, what will happen is said, and only then memory is taken
 * and files are written. A run that goes on is compared with its checkpoint before any of that.
 */
#include "src/train/trainer.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#include <stoke/machine.h>

#include "src/base/clock.h"
#include "src/base/cpu.h"
#include "src/base/error.h"
#include "src/base/file.h"
#include "src/loader/loader_private.h"
#include "src/loader/slots.h"

enum { PICTURES = 4 /* rows of a picture of predictions */ };

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

/* Reads it without a network: what it belongs to is compared before anything is taken or written. A run that
 * was killed before its first checkpoint has none, and begins again: from the seed, to the same bits. */
static int look_at_state(stoke_trainer *t, const char *path, stoke_error *err)
{
    if (!t->setup.goes_on) {
        stk_trainer_remark(t, "%s has no checkpoint yet: it begins again at step 0", t->folder);
        return STOKE_OK;
    }
    char *saved = NULL;
    stoke_error differs = { 0 };
    int r = stk_checkpoint_peek(path, &t->now, &saved, err);
    if (r) return r;
    if (stk_setup_same(saved, t->identity, &differs)) {
        if (t->setup.params.force)
            stk_trainer_remark(t, "goes on although this is not the run that was saved: %s", differs.message);
        else
            r = stk_fail(
                err, STOKE_E_STATE,
                "%s: this is not the run that was saved: %s. Put that back as it was, or use `force` "
                "to go on regardless",
                t->folder, differs.message);
    }
    t->new_scores = !stk_setup_same_scores(saved, t->identity);
    stk_free(saved);
    t->resumed = !r;
    return r;
}

static int find_state(stoke_trainer *t, stoke_error *err)
{
    t->now = (stk_progress){ .best = NAN };
    if (!t->setup.params.resume) return STOKE_OK;
    char *path = stk_trainer_path(t, "state.safetensors", err);
    const int r = path ? look_at_state(t, path, err) : STOKE_E_NOMEM;
    stk_free(path);
    return r;
}

/* Where other data or another seed was forced on a run its place in the old order means nothing: the epoch
 * begins anew. */
static int go_to_place(stoke_trainer *t, stoke_error *err)
{
    stoke_error own = { 0 };
    const int r = stoke_loader_restore(t->train, t->now.loader, &own);
    if (!r) return STOKE_OK;
    if (!t->setup.params.force) return stk_fail(err, r, "%s: %s", t->folder, own.message);
    stk_trainer_remark(t, "epoch %llu begins anew: %s", (unsigned long long)t->now.epoch + 1, own.message);
    t->now.batch = t->now.epoch_steps = 0;
    t->now.epoch_loss = 0;
    return stoke_loader_set_epoch(t->train, t->now.epoch);
}

/* With another metric, or other pictures to validate on, the best so far says nothing. */
static void forget_best(stoke_trainer *t)
{
    stk_progress *now = &t->now;
    if (isfinite(now->best))
        stk_trainer_remark(t,
                           "the best of step %llu was measured otherwise: the next evaluation is the best "
                           "so far, and takes its place in best/",
                           (unsigned long long)now->best_step);
    now->best = NAN;
    now->best_step = now->without_gain = 0;
    now->best_scores = (stoke_scores){ 0 };
}

static int load_state(stoke_trainer *t, stoke_error *err)
{
    const char *cpu = stk_cpu_level_name(stk_cpu_level_in_use());
    if (t->resumed) {
        char *path = stk_trainer_path(t, "state.safetensors", err), *identity = NULL;
        if (!path) return STOKE_E_NOMEM;
        int r = stk_checkpoint_load(path, t->net, &t->now, &identity, err);
        stk_free(identity);
        stk_free(path);
        if (!r) r = go_to_place(t, err);
        if (r) return r;
        if (t->new_scores) forget_best(t);
        if (strcmp(t->now.cpu, cpu) != 0)
            stk_trainer_remark(t,
                               "the run was computed with %s until here and goes on with %s: its results "
                               "agree with those of a run in one go to rounding, not bit for bit",
                               t->now.cpu, cpu);
        t->earlier = t->now.seconds;
    }
    snprintf(t->now.cpu, sizeof t->now.cpu, "%s", cpu);
    return STOKE_OK;
}

/* ---- what it takes ---- */

/* Workers of the loader stand in the way of the step, which takes every core. The lightest model takes some
 * 80 ms of core time for a picture of 256x256, decoding and augmenting one about 3: a quarter of the cores is
 * ample for training, and half of them for evaluation, which is three times as fast. Who set either number
 * is obeyed. */
static stoke_data_params with_workers(const stoke_data_params *params, unsigned share)
{
    stoke_data_params own = *params;
    const unsigned cores = stoke_machine_cores().usable, workers = cores / share ? cores / share : 1;
    if (own.workers < 0 && own.consumer_cores < 0) own.workers = workers;
    return own;
}

/* Bytes of the batches a loader keeps ahead: they come on top of the network's. */
static int ring_bytes(const stoke_dataset *set, const stoke_data_params *params, uint64_t *bytes,
                      stoke_error *err)
{
    stk_recipe recipe;
    const int r = stk_recipe_create(&recipe, set, params, err);
    if (!r) {
        const stoke_batch shape = stk_recipe_shape(&recipe, (uint32_t)params->batch);
        *bytes = ((uint64_t)params->prefetch + 1) * stk_slot_bytes(&shape, recipe.two_masks);
    }
    stk_recipe_destroy(&recipe);
    return r;
}

static int announce(stoke_trainer *t, stoke_error *err)
{
    const stk_setup *s = &t->setup;
    stoke_net_plan plan;
    uint64_t ring = 0, val_ring = 0;
    char text[512];
    int r = stoke_net_plan_of(&s->net, &plan, err);
    if (!r) r = ring_bytes(s->train_set, &s->train, &ring, err);
    if (!r && s->val_set) r = ring_bytes(s->val_set, &s->val, &val_ring, err);
    if (r) return r;
    const int n = stoke_net_plan_text(&plan, text, sizeof text);
    if (n > 0 && (size_t)n < sizeof text)
        snprintf(text + n, sizeof text - (size_t)n, ", and %.1f MB of batches ahead",
                 (double)(ring + val_ring) / 1e6);
    const stoke_train_outlook outlook = {
        .data = &s->train,
        .params = &s->params,
        .plan = &plan,
        .folder = t->folder,
        .train_samples = stoke_dataset_count(s->train_set),
        .val_samples = s->val_set ? stoke_dataset_count(s->val_set) : 0,
        .resumes = t->resumed,
    };
    stoke_train_event event = stk_trainer_event(t, STOKE_TRAIN_READY);
    event.text = text;
    event.outlook = &outlook;
    stk_trainer_send(t, &event);
    return t->asked ? stk_fail(err, STOKE_E_CANCELLED, "asked to stop before the run began") : STOKE_OK;
}

/* ---- open and close ---- */

static int open_network(stoke_trainer *t, stoke_error *err)
{
    const int r = stoke_net_open(&t->net, &t->setup.net, err);
    const char *remark;
    for (size_t i = 0; !r && (remark = stoke_net_remark(t->net, i)); i++) stk_trainer_remark(t, "%s", remark);
    return r;
}

/* Bad samples are recorded in the run's folder, unless the user named a file. config.yaml keeps the setting
 * as it was: repeated elsewhere, a run has a list of its own. */
static int create_loaders(stoke_trainer *t, stoke_error *err)
{
    const stk_setup *s = &t->setup;
    stoke_data_params train = with_workers(&s->train, 4), val = with_workers(&s->val, 2);
    char *quarantine = NULL;
    if (stk_setup_names_no_quarantine(s)) {
        quarantine = stk_trainer_path(t, s->train.quarantine, err);
        if (!quarantine) return STOKE_E_NOMEM;
        train.quarantine = val.quarantine = quarantine;
    }
    int r = stoke_loader_create(&t->train, s->train_set, &train, NULL, err);
    if (!r && s->val_set) r = stoke_loader_create(&t->val, s->val_set, &val, NULL, err);
    stk_free(quarantine); /* loaders have copies */
    return r;
}

static int open_loaders(stoke_trainer *t, stoke_error *err)
{
    const stk_setup *s = &t->setup;
    int r = create_loaders(t, err);
    if (r || !s->val_set) return r;
    r = stoke_confusion_create(&t->confusion, s->classes, s->val.ignore_index, err);
    if (!r && s->params.pictures)
        r = stk_gallery_create(&t->gallery, stoke_dataset_count(s->val_set), PICTURES, s->net.height,
                               s->net.width, err);
    if (t->gallery) stk_gallery_undo(t->gallery, &t->val->recipe.writer);
    return r;
}

static int build(stoke_trainer *t, const stoke_data_params *data, const stoke_train_params *params,
                 stoke_error *err)
{
    int r = stk_setup_make(&t->setup, data, params, say, settling, t, err);
    if (!r) r = stk_trainer_find_folder(t, err);
    if (!r && !(t->identity = stk_setup_identity(&t->setup)))
        r = stk_fail(err, STOKE_E_NOMEM, "no memory for the settings of the run");
    if (!r) r = find_state(t, err);
    if (!r) r = announce(t, err);
    if (!r) r = stk_trainer_claim_folder(t, err);
    if (!r) r = open_network(t, err);
    if (!r) r = open_loaders(t, err);
    if (!r) r = load_state(t, err);
    if (!r) r = stk_trainer_write_config(t, err);
    if (!r) stk_trainer_live_begin(t); /* not before: a folder whose run never began stays empty */
    if (!r)
        r = stk_journal_open(&t->journal, t->folder, t->setup.params.resume ? &t->now.step : NULL,
                             t->setup.params.tensorboard, err);
    return r;
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
    if (r)
        stoke_trainer_close(&t);
    else
        *out = t;
    return r;
}

void stoke_trainer_close(stoke_trainer **trainer)
{
    stoke_trainer *t = *trainer;
    if (!t) return;
    *trainer = NULL;
    stoke_live_close(&t->live);
    stk_journal_close(&t->journal);
    stk_gallery_destroy(&t->gallery);
    stoke_confusion_destroy(&t->confusion);
    stoke_loader_destroy(&t->val);
    stoke_loader_destroy(&t->train);
    stoke_net_close(&t->net);
    stk_trainer_drop_remarks(t);
    stk_free(t->identity);
    stk_free(t->folder);
    if (t->folder_fd >= 0) close(t->folder_fd); /* and with it the lock */
    stk_setup_free(&t->setup);
    stk_free(t);
}

const char *stoke_trainer_folder(const stoke_trainer *t)
{
    return t->folder;
}

stoke_train_summary stoke_trainer_summary(const stoke_trainer *t)
{
    const stk_progress *now = &t->now;
    return (stoke_train_summary){ .step = now->step,
                                  .best_step = now->best_step,
                                  .best = now->best,
                                  .scores = now->best_scores,
                                  .seconds = stk_trainer_clock(t),
                                  .data_seconds = now->data_seconds,
                                  .eval_seconds = now->eval_seconds,
                                  .save_seconds = now->save_seconds,
                                  .images = now->images,
                                  .stopped_early = t->stopped_early };
}
