/* SPDX-License-Identifier: Apache-2.0
 *
 * What a run settles once it knows its data: batch, number of steps, cadences, learning rate, name.
 */
#include "src/train/resolve.h"

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/base/threadpool.h"
#include "src/base/retry.h"
#include "src/net/network.h"
#include "src/source/labels.h"
#include "src/source/mask_rules.h"
#include "src/source/reader.h"
#include "src/train/checkpoint.h"
#include "src/train/predict.h"
#include "src/train/train_memory.h"
#include <stoke/tools/labels.h>
#include <stoke/tools/machine.h>
#include <stoke/tools/metrics.h>
#include <stoke/tools/order.h>
#include <stoke/tools/report.h>
#include <stoke/tools/terminal.h>

/* ---- evaluation ---- */

/* What validation looks at, of pictures that are restored. */
static void say_restored(const stk_resolve_ctx *s)
{
    const stk_eval_plan *e = &s->setup->eval;
    const uint32_t *size = s->setup->train.size;
    if (e->mode == STOKE_PREDICT_SLIDE) return;
    if (e->own_scale)
        stk_resolve_say(s, "Validation scores the %ux%u in the middle of each picture.", size[0], size[1]);
    else if (e->larger != 1)
        stk_resolve_say(s,
                        "Training and validation bring pictures and targets to %ux%u, and resizing changes "
                        "what noise and edges look like: `patch_size` %u takes windows at their own scale.",
                        size[0], size[1], size[0] < size[1] ? size[0] : size[1]);
}

/* Where things look larger or smaller in validation than in training. */
static void say_scale(const stk_resolve_ctx *s)
{
    const stk_setup *setup = s->setup;
    const stk_eval_plan *e = &setup->eval;
    const uint32_t *size = setup->train.size;
    const int slides = e->mode == STOKE_PREDICT_SLIDE;
    if (stk_setup_restores(setup)) {
        say_restored(s);
        return;
    }
    if (slides && e->own_scale)
        stk_resolve_say(s,
                        "Training sees windows of %ux%u at the pictures' own scale, so validation slides "
                        "such windows over whole pictures, about %.0f each, and scores them at their own "
                        "size, as `stoke predict` does (`eval_mode` sets it).",
                        size[0], size[1], e->windows);
    else if (slides && e->larger > stk_much_larger)
        stk_resolve_say(s,
                        "Validation slides windows of %ux%u over pictures at their own scale (`eval_mode` "
                        "slide), while training brings whole pictures to that size: things look up to %.1f "
                        "times as large as those it learns from. `eval_mode` auto looks at them alike.",
                        size[0], size[1], e->larger);
    else if (!slides && e->own_scale && e->larger > stk_much_larger)
        stk_resolve_say(s,
                        "Training sees windows of %ux%u at the pictures' own scale, and validation whole "
                        "pictures brought to that size (`eval_mode` resize): things look up to %.1f times "
                        "smaller there, so its scores, and what lands in best/, say little about what `stoke "
                        "predict` will do. `eval_mode` slide looks at them as training does%s.",
                        size[0], size[1], e->larger,
                        setup->goes_on ? "; a run that goes on needs `force` for it" : "");
    else if (!slides && e->most_shown < 0.5)
        stk_resolve_say(
            s,
            "Training never sees more than %.0f %% of a picture (random_resized_crop), and validation sees "
            "it whole: things look smaller there than in any sample. A `scale` up to 1 would include it.",
            100 * e->most_shown);
}

int stk_resolve_eval(stk_resolve_ctx *s)
{
    stk_setup *setup = s->setup;
    int mode = setup->params.eval_mode, r = STOKE_OK;
    stoke_net_plan net;
    if (!setup->val_set) return STOKE_OK;
    if (mode == STOKE_PREDICT_AUTO && setup->goes_on) {
        /* It keeps what it had: its scores, best/ and patience are to mean the same to its end. */
        char path[PATH_MAX], *identity = NULL;
        stk_checkpoint_progress progress;
        snprintf(path, sizeof path, "%s/state.safetensors", setup->params.resume);
        r = stk_checkpoint_load(path, NULL, &progress, &identity, s->err);
        if (!r) mode = stk_setup_eval_mode(identity);
        stk_free(identity);
    }
    if (!r) r = stoke_net_plan_of(&setup->net, &net, s->err);
    if (!r)
        r = stk_eval_plan_make(&setup->eval, &s->val, stoke_dataset_count(setup->val_set), &setup->train,
                               &net, mode, s->err);
    if (r) return r;
    setup->params.eval_mode = setup->eval.mode;
    if (stk_setup_restores(setup) && setup->eval.mode == STOKE_PREDICT_SLIDE)
        setup->viewer = stk_whole_net(&setup->eval, &setup->net, &net);
    say_scale(s);
    return setup->viewer.batch
               ? stk_whole_reading(&setup->eval.reading, setup->val_set, &setup->train, s->err)
               : STOKE_OK;
}

/* What decides is a score of the run's task; a run that restores pictures takes PSNR where nobody said. */
int stk_resolve_metric(stk_resolve_ctx *s)
{
    stoke_train_params *p = &s->setup->params;
    const int task = stk_setup_task(s->setup), restore = task == STOKE_TASK_RESTORE;
    if (restore && p->metric == STOKE_METRIC_MIOU)
        p->metric = STOKE_METRIC_PSNR; /* the default of `metric` */
    if (stoke_metric_fits(p->metric, task)) return STOKE_OK;
    return stk_fail(s->err, STOKE_E_INVALID, "metric %s is of networks that %s: a run that %s takes %s",
                    stoke_score_at(p->metric)->metric, restore ? "segment" : "restore pictures",
                    restore ? "restores pictures" : "segments",
                    restore ? "psnr, ssim or loss" : "miou, f1, accuracy or loss");
}

/* ---- values ---- */

/* A look at the masks: which values they hold and how often, by a few threads, with progress. Of a very large
 * set an even sample: what it misses is found later, by name and value, when such a mask is loaded. */

/* Masks of one kind: how many, and the first of them by its id. */
typedef struct kind {
    uint64_t count, first;
    stoke_error why; /* of the first */
} kind;

/* One set. Members count for themselves; the calling thread adds them up. */
typedef struct look {
    const stoke_dataset *set;
    const stoke_data_params *params;
    const stoke_labels *labels, *given;
    uint64_t count; /* masks to read */
    stk_mask_tally *sum;
    pthread_mutex_t lock;         /* of what follows */
    kind bad, odd, colored, jpeg; /* unreadable; with a value that is no class; in colours; as JPEG */
} look;

typedef struct member {
    stk_reader reader; /* first: see stk_reader_start */
    stk_mask_tally tally;
} member;

static void note(look *l, kind *k, uint64_t id, const stoke_error *why)
{
    pthread_mutex_lock(&l->lock);
    if (!k->count++ || id < k->first) {
        k->first = id;
        if (why) k->why = *why;
    }
    pthread_mutex_unlock(&l->lock);
}

/* The path of the first. */
static const char *path_of(const look *l, const kind *k)
{
    return stoke_dataset_sample(l->set, k->first).mask_path;
}

static int read_one(void *context, void *state, uint64_t item, stoke_error *err)
{
    look *l = context;
    member *self = state;
    stoke_error why;
    stoke_image_info info;
    stoke_image ids;
    const uint64_t id = (uint64_t)((unsigned __int128)item * stoke_dataset_count(l->set) / l->count);
    const stoke_sample sample = stoke_dataset_sample(l->set, id);
    const int r = stk_reader_mask(&self->reader, l->params, l->labels, &sample, &info, &ids, &why);
    if (info.width && info.format == STOKE_FORMAT_JPEG) note(l, &l->jpeg, id, NULL);
    if (!r) {
        stk_tally_add(&self->tally, &ids);
        if (l->given && stk_labels_check(l->given, &ids, &why)) note(l, &l->odd, id, &why);
        return STOKE_OK;
    }
    if (r == STOKE_E_NOMEM) {
        if (err) *err = why;
        return r;
    }
    note(l, &l->bad, id, &why);
    if (r == STOKE_E_LABEL && !stoke_labels_are_colors(l->labels) && stk_mask_is_colored(&info))
        note(l, &l->colored, id, NULL);
    return STOKE_OK;
}

static void finish(void *context, void *state)
{
    member *self = state;
    stk_tally_merge(((look *)context)->sum, &self->tally);
    stk_reader_finish(context, &self->reader);
}

int stk_survey_masks(stk_resolve_ctx *s, const stoke_labels *labels, const stoke_labels *given, uint64_t most,
                     stk_resolve_survey *survey)
{
    const stk_setup *setup = s->setup;
    const stoke_dataset *sets[] = { setup->train_set, setup->val_set };
    const size_t n_sets = setup->val_set ? 2 : 1;
    stk_resolve_count progress = { .s = s };
    *survey = (stk_resolve_survey){ .train = stk_calloc(1, sizeof *survey->train) };
    if (n_sets > 1) survey->val = stk_calloc(1, sizeof *survey->val);
    if (!survey->train || (n_sets > 1 && !survey->val))
        return stk_fail(s->err, STOKE_E_NOMEM, "no memory to count the values of masks");
    for (size_t i = 0; i < n_sets; i++) progress.total += stk_least(stoke_dataset_count(sets[i]), most);
    int r = STOKE_OK;
    for (size_t i = 0; !r && i < n_sets; i++) {
        look l = { .set = sets[i],
                   .params = &setup->train,
                   .labels = labels,
                   .given = given,
                   .count = stk_least(stoke_dataset_count(sets[i]), most),
                   .sum = i ? survey->val : survey->train };
        const stk_parallel_job job = { l.count, &l, sizeof(member), stk_reader_start, read_one, finish };
        pthread_mutex_init(&l.lock, NULL);
        r = stk_parallel_for(&job, 0, stk_resolve_counted, &progress, s->err);
        pthread_mutex_destroy(&l.lock);
        progress.before += l.count;
        survey->looked[i] = l.count - l.bad.count;
        survey->odd[i] = l.odd.count;
        survey->read += survey->looked[i];
        survey->masks += stoke_dataset_count(sets[i]);
        if (!r && l.colored.count) {
            const stoke_sample sample = stoke_dataset_sample(l.set, l.colored.first);
            r = stk_judge_colors(l.params, &sample, s->err);
        }
        if (l.jpeg.count && !survey->jpeg) survey->jpeg = path_of(&l, &l.jpeg);
        if (!r && l.bad.count && !survey->bad) {
            survey->first_bad = l.bad.why;
            stk_error_prefix(&survey->first_bad, path_of(&l, &l.bad));
        }
        survey->bad += l.bad.count;
        if (r || !l.odd.count) continue;
        survey->first_odd[i] = l.odd.why;
        stk_error_prefix(&survey->first_odd[i], path_of(&l, &l.odd));
    }
    return r;
}

void stk_survey_free(stk_resolve_survey *survey)
{
    stk_free(survey->train);
    stk_free(survey->val);
    *survey = (stk_resolve_survey){ 0 };
}

/* ---- all ---- */

enum {
    BATCH_MOST = 8,     /* more gains little speed on a processor, and a small set then has few steps */
    STEPS_EVAL = 50,    /* between evaluations at the least: of small sets they would take most of the time */
    LOG_POINTS = 200,   /* of a curve */
    LOG_STEPS_MOST = 20 /* between two of them */
};
#define STEPS_MOST INT64_C(1000000000) /* of a run; 30 years at one a second */

/* ---- batch ---- */

/* What network and loaders take with such batches. The loaders' share grows linearly with the rows. */
static int bytes_of(const stk_resolve_ctx *s, uint64_t loaders, uint64_t per_row, uint32_t rows,
                    uint64_t *bytes)
{
    stoke_net_params net = s->setup->net;
    stoke_net_plan plan;
    net.batch = rows;
    const int r = stoke_net_plan_of(&net, &plan, s->err);
    if (!r)
        *bytes = plan.total - plan.process + loaders + rows * per_row +
                 stk_eval_plan_bytes(&s->setup->eval, &net, s->setup->params.pictures ? STK_PICTURES : 0);
    return r;
}

static int choose_batch(stk_resolve_ctx *s)
{
    stk_setup *setup = s->setup;
    const uint64_t samples = stoke_dataset_count(setup->train_set), available = stoke_machine_available();
    /* A quarter stays for everyone else, and for what the plan does not know. */
    uint64_t room = available == UINT64_MAX ? available : available / 4 * 3;
    if (setup->train.memory_limit && setup->train.memory_limit < room) room = setup->train.memory_limit;
    uint32_t rows = samples < BATCH_MOST ? (uint32_t)samples : BATCH_MOST;
    const uint32_t wanted = rows;
    uint64_t loaders, per_row, bytes = 0;
    char need[32], have[32];
    int r = stk_train_memory_rows(setup, &loaders, &per_row, s->err);
    if (!r) r = bytes_of(s, loaders, per_row, rows, &bytes);
    while (!r && bytes > room && rows > 1) r = bytes_of(s, loaders, per_row, --rows, &bytes);
    if (r) return r;
    setup->train.batch = rows;
    stoke_text_memory(bytes, need, sizeof need);
    stoke_text_memory(available, have, sizeof have);
    if (bytes > room)
        stk_resolve_say(s,
                        "Even batches of 1 take %s of memory, and %s are free: `memory` min, a smaller "
                        "`size` or a smaller `model` would be safer.",
                        need, have);
    else if (rows < wanted)
        stk_resolve_say(s,
                        "Batches of %u take %s of memory; %s are free, of which a quarter is left alone "
                        "(`batch` sets it).",
                        rows, need, have);
    else
        stk_resolve_say(s,
                        "Batches of %u, a usual number, take %s of memory (`batch` sets it; `stoke "
                        "find-batch` finds the one that is fastest here).",
                        rows, need);
    return STOKE_OK;
}

int stk_resolve_batch(stk_resolve_ctx *s)
{
    stk_setup *setup = s->setup;
    int r = setup->train.batch < 0 ? choose_batch(s) : STOKE_OK;
    setup->val.batch = setup->train.batch;
    setup->net.batch = (uint32_t)setup->train.batch;
    return r;
}

/* ---- length ---- */

/* Once per epoch, and not more often than evaluations would take as long as the steps between them. A step
 * takes a row three times through the network: forward, and twice as much back. */
static int64_t usual_cadence(const stk_setup *setup, int64_t per_epoch)
{
    int64_t every = per_epoch > STEPS_EVAL ? per_epoch : STEPS_EVAL;
    if (setup->eval.mode != STOKE_PREDICT_SLIDE) return every;
    const double rows = 3.0 * (double)setup->train.batch * (double)stk_step_batches(&setup->params);
    const double least = (double)stoke_dataset_count(setup->val_set) * setup->eval.windows / rows;
    return least > (double)every ? (int64_t)(least < (double)STEPS_MOST ? least : (double)STEPS_MOST) : every;
}

int stk_resolve_length(stk_resolve_ctx *s)
{
    stk_setup *setup = s->setup;
    stoke_train_params *p = &setup->params;
    const stoke_rank shard = { .count = stoke_dataset_count(setup->train_set),
                               .batch = (uint32_t)setup->train.batch,
                               .world = 1,
                               .drop_last = setup->train.drop_last };
    setup->batches_per_epoch = stoke_rank_batches(&shard);
    if (!setup->batches_per_epoch)
        return stk_fail(s->err, STOKE_E_INVALID,
                        "%s cannot fill a batch of %lld, and `drop_last` leaves out what does not",
                        STOKE_COUNT(shard.count, "sample"), (long long)setup->train.batch);
    if (p->replicas < 0) p->replicas = 1;
    const uint64_t each = stk_step_batches(p); /* of a step */
    const double batches = (double)p->epochs * (double)setup->batches_per_epoch;
    const double wanted = p->steps ? (double)p->steps : batches / (double)each;
    if (wanted > (double)STEPS_MOST)
        return stk_fail(s->err, STOKE_E_LIMIT,
                        "a run of %.3g steps is more than anyone has time for: at most %lld will do; look at "
                        "`epochs` (%lld) and `steps` (%lld)",
                        wanted, (long long)STEPS_MOST, (long long)p->epochs, (long long)p->steps);
    if (p->steps) {
        setup->steps = (uint64_t)p->steps;
        setup->epochs = (setup->steps * each + setup->batches_per_epoch - 1) / setup->batches_per_epoch;
    } else {
        setup->epochs = (uint64_t)p->epochs;
        setup->steps = setup->epochs * setup->batches_per_epoch / each;
        if (!setup->steps) setup->steps = 1;
    }
    const int64_t per_epoch = (int64_t)((setup->batches_per_epoch + each - 1) / each);
    if (p->eval_every < 0)
        p->eval_every = (int64_t)stk_least((uint64_t)usual_cadence(setup, per_epoch), setup->steps);
    if (p->log_every < 0) p->log_every = (int64_t)stk_least(setup->steps / LOG_POINTS + 1, LOG_STEPS_MOST);
    return STOKE_OK;
}

/* ---- learning rate ---- */

/* Pretrained weights with a new head get the paper's rate. Networks at full resolution take more: of 5e-4,
 * 1e-3, 2e-3 and 4e-3, runs of 150 steps on noisy pairs ended at 27.7, 30.5, 31.9 and 32.7 dB, and of 64
 * channels with 8 blocks at 32.3 with 1e-3 and 33.4 with 4e-3. Weights of their own go on with a quarter. */
double stk_usual_rate(const stoke_train_params *p)
{
    stk_network_config config;
    const int whole =
        p->model && !stk_network_find(&config, p->model, 1, NULL) && config.network->stride == 1;
    if (p->optimizer == STOKE_OPTIMIZER_SGD) return 0.01;
    return whole ? (p->pretrained ? 1e-3 : 4e-3) : p->pretrained ? 6e-5 : 1e-3;
}

/* The paper's for weights that know pictures already; from nothing everything has the same way to go. */
void stk_resolve_rates(stk_resolve_ctx *s)
{
    stoke_train_params *p = &s->setup->params;
    if (p->lr > 0 && p->head_lr > 0) return;
    const double lr = p->lr, head = p->head_lr;
    if (!(p->lr > 0)) p->lr = stk_usual_rate(p);
    if (!(p->head_lr > 0)) p->head_lr = p->pretrained ? s->network->head_lr : 1;
    const char *weights = p->pretrained ? "pretrained" : "untrained";
    if (lr > 0)
        stk_resolve_say(s, "The head learns at %g times the learning rate: usual for %s weights.", p->head_lr,
                        weights);
    else
        stk_resolve_say(s, "Learning rate %g, times %g for the head%s: usual for %s weights.", p->lr,
                        p->head_lr, head > 0 ? " as set" : "", weights);
}

/* ---- name ---- */

static int taken(const char *runs, const char *name)
{
    char path[4096];
    struct stat st; /* what cannot be looked at is told when the folder is made */
    return snprintf(path, sizeof path, "%s/%s", runs, name) < (int)sizeof path && stoke_stat(path, &st) == 0;
}

/* b0-20261116-094312; a second one in that second gets -2. */
int stk_resolve_name(stk_resolve_ctx *s)
{
    stoke_train_params *p = &s->setup->params;
    if (p->name && (!*p->name || strchr(p->name, '/') || !strcmp(p->name, ".") || !strcmp(p->name, "..")))
        return stk_fail(s->err, STOKE_E_INVALID,
                        "`name` '%.80s' is not the name of a folder; the folder that runs go to is `runs`",
                        p->name);
    if (p->name || p->resume) return STOKE_OK;
    char name[96];
    struct tm parts;
    const time_t now = time(NULL);
    if (!localtime_r(&now, &parts)) return stk_fail(s->err, STOKE_E_STATE, "the clock cannot be read");
    size_t used = (size_t)snprintf(name, sizeof name, "%.16s-", p->model);
    used += strftime(name + used, sizeof name - used, "%Y%m%d-%H%M%S", &parts);
    for (unsigned n = 2; taken(p->runs, name); n++) snprintf(name + used, sizeof name - used, "-%u", n);
    p->name = stk_resolve_keep(s, name);
    return p->name ? STOKE_OK : STOKE_E_NOMEM;
}
