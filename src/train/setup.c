/* SPDX-License-Identifier: Apache-2.0
 *
 * From what a person said to what a run does: the order of questions. Each answer may lean on those before
 * it: the batch on the size, the size on the set.
 */
#include "src/train/setup.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "src/augment/pipeline.h"
#include "src/base/error.h"
#include "src/base/exact_math.h"
#include "src/base/mem.h"
#include "src/base/option_table.h"
#include "src/base/retry.h"
#include "src/comm/tree.h"
#include "src/net/features/features.h"
#include "src/net/files/pretrained.h"
#include "src/net/network.h"
#include "src/settings/keys.h"
#include "src/train/resolve.h"
#include <stoke/tools/data.h>
#include <stoke/tools/dataset.h>
#include <stoke/tools/loader.h>
#include <stoke/tools/machine.h>
#include <stoke/tools/train.h>

/* ---- learning rates ---- */

/* What a step is taken with. The learning rate: PyTorch's formulae (LinearLR, PolynomialLR,
 * CosineAnnealingLR), counted from the end of the warm-up. By exact_math.h, not libm: a resumed run may go on
 * with another C library. */

/* What is left of the way from lr down to its end, 1 .. 0, when `t` of it is gone. */
static double falling(const stoke_train_params *p, double t)
{
    double sine, cosine;
    switch ((stoke_schedule_kind)p->schedule) {
    case STOKE_SCHEDULE_POLY: return p->power == 1 ? 1 - t : stk_pow(1 - t, p->power);
    case STOKE_SCHEDULE_COSINE: stk_sincos_degrees(180 * t, &sine, &cosine); return 0.5 * (1 + cosine);
    case STOKE_SCHEDULE_CONSTANT: break;
    }
    return 1;
}

double stk_train_lr(const stoke_train_params *params, uint64_t step, uint64_t steps)
{
    /* Below 1 a share of all steps, rounded; never more than there are. */
    const double wanted = params->warmup < 1 ? params->warmup * (double)steps + 0.5 : params->warmup;
    const uint64_t warmup = !(wanted > 0) ? 0 : wanted >= (double)steps ? steps : (uint64_t)wanted;
    if (step < warmup) return params->lr * (double)(step + 1) / (double)warmup;
    const double t = step < steps ? (double)(step - warmup) / (double)(steps - warmup) : 1;
    return params->lr * (params->lr_end + (1 - params->lr_end) * falling(params, t));
}

stoke_update stk_setup_update(const stoke_train_params *p, double lr, uint64_t step)
{
    /* Early on the average would be mostly the random weights it began with: 0.999 forgets them after some
     * thousands of steps. So it starts short and grows to its length, as TensorFlow's does. */
    const double grown = (1.0 + (double)step) / (10.0 + (double)step);
    return (stoke_update){ .lr = lr,
                           .beta1 = p->optimizer == STOKE_OPTIMIZER_SGD ? p->momentum : p->beta1,
                           .beta2 = p->beta2,
                           .eps = p->eps,
                           .weight_decay = p->weight_decay,
                           .head_lr = p->head_lr,
                           .clip_norm = p->clip_norm,
                           .average_decay = fmin(p->average, grown),
                           .nesterov = p->nesterov };
}

/* ---- settings ---- */

int stk_resolve_counted(void *count, uint64_t done, uint64_t total)
{
    const stk_resolve_count *c = count;
    (void)total;
    return c->s->progress ? c->s->progress(c->s->context, c->before + done, c->total) : 0;
}

const char *stk_resolve_keep(stk_resolve_ctx *s, const char *text)
{
    const char *copy = stk_string_arena_copy(&s->setup->strings, text, strlen(text));
    if (!copy) stk_fail(s->err, STOKE_E_NOMEM, "no memory for the settings");
    return copy;
}

void stk_setup_free(stk_setup *setup)
{
    stoke_dataset_close(&setup->train_set);
    stoke_dataset_close(&setup->val_set);
    stk_free(setup->class_names);
    stk_free(setup->class_weights);
    stk_string_arena_free(&setup->strings);
    *setup = (stk_setup){ 0 };
}

static int take_settings(stk_resolve_ctx *s, const stoke_data_params *data, const stoke_train_params *params)
{
    stk_setup *setup = s->setup;
    if (data->struct_size != sizeof *data || params->struct_size != sizeof *params)
        return stk_fail(s->err, STOKE_E_INVALID,
                        "settings do not come from stoke_data_defaults() and stoke_train_defaults() of this "
                        "version");
    setup->train = *data;
    setup->params = *params;
    const stoke_option_group groups[] = { stoke_data_options(&setup->train),
                                          stoke_train_options(&setup->params) };
    for (const stoke_option_group *group = groups; group < groups + 2; group++) {
        const int r = stk_options_check(group, s->err);
        if (r) return r;
        /* The caller's strings live until the call returns, those of a run as long as it does. */
        for (size_t i = 0; i < group->count; i++) {
            if (group->options[i].type != STOKE_OPT_STRING) continue;
            const char **field = (const char **)((char *)group->target + group->options[i].offset);
            if (*field && !(*field = stk_resolve_keep(s, *field))) return STOKE_E_NOMEM;
        }
    }
    return STOKE_OK;
}

/* A size that the network has none of. */
static int check_network_size(const stk_resolve_ctx *s, const char *name, int64_t asked, uint32_t own)
{
    if (!asked || own) return STOKE_OK;
    return stk_fail(s->err, STOKE_E_INVALID, "`%s` %lld: model %s has its own sizes; this is one of resnet",
                    name, (long long)asked, s->setup->params.model);
}

/* Which network: as told, else what the weights hold; NULL until the task is known, when nobody says. */
static int name_model(stk_resolve_ctx *s)
{
    stoke_train_params *p = &s->setup->params;
    stk_network_config config;
    int r = STOKE_OK;
    if (p->pretrained && !p->model) {
        r = stk_pretrained_config(p->pretrained, &config, s->err);
        if (!r) p->model = config.model; /* a constant */
    }
    return r || !p->model ? r : stk_network_find(&config, p->model, 2, s->err);
}

/* Left out, the smallest that knows the task. */
static int settle_model(stk_resolve_ctx *s)
{
    stoke_train_params *p = &s->setup->params;
    stk_network_config config;
    if (!p->model) p->model = stk_setup_restores(s->setup) ? "resnet" : "b0";
    int r = stk_network_find(&config, p->model, 2, s->err);
    if (r) return r;
    s->network = config.network;
    r = check_network_size(s, "base_channels", p->base_channels, config.base_channels);
    if (!r) r = check_network_size(s, "num_blocks", p->num_blocks, config.num_blocks);
    if (!r && p->freeze_encoder && !p->pretrained)
        stk_resolve_say(s, "The encoder is frozen as it was drawn at random (`freeze_encoder` without "
                           "`pretrained`): the head will learn little from it.");
    return r;
}

/* The file of the perceptual loss; NULL: there is none, or a word in place of its name. */
static const char *perceptual_file(const stoke_train_params *p)
{
    return p->perceptual && stk_truth(p->perceptual) < 0 ? p->perceptual : NULL;
}

/* Other trainers have a switch for it (`use_perceptual`), and fetch a network. */
static void settle_perceptual(stk_resolve_ctx *s)
{
    stoke_train_params *p = &s->setup->params;
    if (p->perceptual && stk_truth(p->perceptual) == 1) {
        if (stk_setup_restores(s->setup))
            stk_resolve_say(
                s,
                "Training goes on without a perceptual loss, by that of pixels alone: `perceptual` names no "
                "file of weights, and nothing is fetched. One is saved " STK_FEATURES_HOW
                "; `perceptual` vgg16.safetensors then takes it.");
        else
            stk_resolve_say(s, "There is no perceptual loss: it is for pictures that are restored.");
    }
    p->perceptual = perceptual_file(p);
}

/* A mean that can be divided anew when all batches are there. */
static int check_loss_mean(const stk_resolve_ctx *s)
{
    const stoke_train_params *p = &s->setup->params;
    if (p->loss_mean == STOKE_LOSS_MEAN_BATCHES) return STOKE_OK;
    if (stk_setup_restores(s->setup))
        return stk_fail(
            s->err, STOKE_E_INVALID,
            "`loss_mean` pixels is of masks, whose pixels may be left out; of restored pictures all "
            "count, so full batches have one mean already: leave it out, and set `drop_last` if the "
            "short last batch of an epoch counts too much");
    if (p->loss != STOKE_LOSS_DICE && p->loss != STOKE_LOSS_CE_DICE) return STOKE_OK;
    return stk_fail(
        s->err, STOKE_E_INVALID,
        "`loss_mean` pixels does not go with Dice, which is no mean over pixels: take `loss` ce or "
        "focal, or `loss_mean` batches");
}

/* What a run that restores pictures has no use for, and what it chooses. */
static int settle_task(stk_resolve_ctx *s)
{
    stk_setup *setup = s->setup;
    stoke_data_params *data = &setup->train;
    stoke_train_params *p = &setup->params;
    const int restores = stoke_dataset_has_targets(setup->train_set);
    const char *odd = NULL;
    if (p->loss == STOKE_TRAIN_LOSS_AUTO) p->loss = restores ? STOKE_LOSS_CHARBONNIER : STOKE_LOSS_CE;
    data->normalize = stk_network_normalize(restores ? STOKE_TASK_RESTORE : STOKE_TASK_SEGMENT);
    if (!restores) return STOKE_OK;
    data->task = STOKE_TASK_RESTORE;
    if (data->classes)
        odd = "`classes`";
    else if (!stk_is_identity(data->label_map))
        odd = "`label_map`";
    else if (data->names)
        odd = "`names`";
    else if (p->class_weights && strcmp(p->class_weights, "none") != 0)
        odd = "`class_weights`";
    else if (data->order == STOKE_ORDER_BALANCED)
        odd = "`order` balanced";
    if (!odd) return STOKE_OK;
    return stk_fail(s->err, STOKE_E_INVALID,
                    "%s is of masks, and this set has pictures to be restored (`task` restore): leave it out",
                    odd);
}

stoke_net_params stk_setup_net(const stoke_train_params *p, const stoke_data_params *data, uint32_t classes)
{
    stoke_net_params net = stoke_net_defaults();
    net.model = p->model;
    net.weights = p->pretrained;
    net.partial = p->partial;
    net.classes = classes;
    net.task = data->task == STOKE_TASK_RESTORE ? STOKE_TASK_RESTORE : STOKE_TASK_SEGMENT;
    net.scale = net.task == STOKE_TASK_RESTORE ? (uint32_t)data->scale : 0;
    net.base_channels = (uint32_t)p->base_channels;
    net.num_blocks = (uint32_t)p->num_blocks;
    net.height = data->size[0];
    net.width = data->size[1];
    net.precision = p->precision;
    net.memory = p->memory;
    net.threads = (uint32_t)p->threads;
    net.seed = (uint64_t)data->seed;
    net.dropout = p->dropout;
    net.drop_path = p->drop_path;
    net.loss = (stoke_loss){ .kind = (stoke_loss_kind)p->loss,
                             .ce_weight = p->ce_weight,
                             .dice_weight = p->dice_weight,
                             .focal_gamma = p->focal_gamma,
                             .label_smoothing = p->label_smoothing,
                             .ignore_index = data->ignore_index };
    net.freeze_encoder = p->freeze_encoder;
    net.perceptual = perceptual_file(p);
    net.perceptual_weight = p->perceptual_weight;
    net.average = p->average > 0;
    net.optimizer = p->optimizer;
    return net;
}

/* Batches that are on their way at once: one of each lane of this process. */
static int settle_batch_norm(stk_resolve_ctx *s, const stoke_net_plan *plan)
{
    stk_setup *setup = s->setup;
    const stoke_train_params *p = &setup->params;
    const uint32_t lanes = p->replicas > 1 ? (uint32_t)p->replicas : 1, world = setup->world;
    if (p->batch_norm == STOKE_BATCH_NORM_LOCAL) return STOKE_OK;
    if (!plan->statistics)
        return stk_fail(s->err, STOKE_E_INVALID,
                        "`batch_norm` sync: model %s has no batch norm; leave it out", plan->model);
    if (p->audit_every)
        return stk_fail(s->err, STOKE_E_INVALID,
                        "`audit_every` has a lane computed by two processes, and with `batch_norm` sync no "
                        "lane is computed by itself: leave one of them out");
    setup->net.joint =
        lanes == 1 ? 0
        : world    ? stk_tree_first(lanes, setup->rank + 1, world) - stk_tree_first(lanes, setup->rank, world)
                   : lanes;
    if (lanes == 1)
        stk_resolve_say(s,
                        "`batch_norm` sync joins the batches of several lanes: with `replicas` 1 it is what "
                        "local is.");
    return STOKE_OK;
}

/* Everything but the batch. */
static int make_net(stk_resolve_ctx *s)
{
    stk_setup *setup = s->setup;
    const char *run = setup->params.resume;
    char path[PATH_MAX];
    stoke_net_plan plan;
    setup->goes_on = run && snprintf(path, sizeof path, "%s/state.safetensors", run) < (int)sizeof path &&
                     stoke_there(path);
    setup->net = stk_setup_net(&setup->params, &setup->train, setup->classes);
    /* A checkpoint holds every weight: the file they once came from may be gone. */
    if (setup->goes_on) setup->net.weights = NULL;
    setup->net.class_names = setup->class_names;
    setup->net.loss.class_weights = setup->class_weights;
    const int r = stoke_net_plan_of(&setup->net, &plan, s->err);
    /* auto means what this processor does best; a run that is repeated elsewhere does the same. */
    if (r) return r;
    setup->params.precision = setup->net.precision = plan.precision;
    setup->params.base_channels = setup->net.base_channels = plan.base_channels;
    setup->params.num_blocks = setup->net.num_blocks = plan.num_blocks;
    setup->features = plan.features;
    if (plan.features)
        stk_resolve_say(
            s, "The loss has %g times the distance of the features of %s in it (`perceptual_weight`).",
            setup->params.perceptual_weight, plan.features);
    return settle_batch_norm(s, &plan);
}

/* Of validation: nothing is drawn, everything is seen once. But a network must see values of the kind it
 * learns from, as it does when it predicts (predict.c): of the augmentation the normalisation stays. 17
 * digits give the same numbers again. */
static int make_val(stk_resolve_ctx *s)
{
    stk_setup *setup = s->setup;
    stoke_data_params *train = &setup->train, *val = &setup->val;
    stoke_pipeline *pipeline = NULL;
    double m[3], d[3];
    char text[256];
    *val = *train;
    val->augment = "none";
    int r = stoke_pipeline_create(&pipeline, train->augment, s->err);
    if (!r && stk_setup_restores(setup)) {
        /* Windows as training sees them, always the same: resized, noise and edges would be others. */
        if (setup->eval.own_scale && setup->eval.mode == STOKE_PREDICT_RESIZE) val->augment = "center_crop";
        if (stk_pipeline_color_steps(pipeline) && train->photometric == STOKE_PHOTOMETRIC_INPUT)
            stk_resolve_say(s,
                            "`augment` changes colours of the pictures and not of their targets: the network "
                            "learns to undo that, too (`photometric` both changes both alike).");
        if (stk_pipeline_normalize(pipeline, m, d))
            r = stk_fail(s->err, STOKE_E_INVALID,
                         "`augment`: normalize is not for pictures that are restored, whose values stay 0 to "
                         "1; leave it out");
    } else if (!r && stk_pipeline_normalize(pipeline, m, d)) {
        snprintf(text, sizeof text, "normalize(mean=%.17g,%.17g,%.17g,std=%.17g,%.17g,%.17g)", m[0], m[1],
                 m[2], d[0], d[1], d[2]);
        val->augment = stk_resolve_keep(s, text);
    }
    stoke_pipeline_destroy(&pipeline);
    if (r || !val->augment) return r ? r : STOKE_E_NOMEM;
    val->split = STOKE_SPLIT_VAL;
    val->order = STOKE_ORDER_SEQUENTIAL;
    val->weights = NULL;
    val->drop_last = 0;
    val->cache_ram = 0;
    if (!setup->val_set || setup->eval.mode == STOKE_PREDICT_SLIDE) return STOKE_OK; /* no loader, no cache */
    /* The budget is meant for both; by samples, as they are all of one size. */
    const double all =
        (double)stoke_dataset_count(setup->train_set) + (double)stoke_dataset_count(setup->val_set);
    val->cache_ram = (uint64_t)((double)train->cache_ram * (double)stoke_dataset_count(setup->val_set) / all);
    train->cache_ram -= val->cache_ram;
    return STOKE_OK;
}

int stk_setup_make(stk_setup *setup, const stoke_data_params *data, const stoke_train_params *params,
                   stk_say_fn *say, stoke_progress_fn progress, void *context, stoke_error *err)
{
    const stk_setup whole = { 0 };
    return stk_setup_make_part(setup, &whole, data, params, say, progress, context, err);
}

int stk_setup_make_part(stk_setup *setup, const stk_setup *shared, const stoke_data_params *data,
                        const stoke_train_params *params, stk_say_fn *say, stoke_progress_fn progress,
                        void *context, stoke_error *err)
{
    stk_resolve_ctx s = { .setup = setup, .say = say, .progress = progress, .context = context, .err = err };
    char remarks[4096] = ""; /* what the loader finds odd */
    char cores[256];
    *setup = (stk_setup){ .rank = shared->rank, .world = shared->world };
    int r = take_settings(&s, data, params);
    if (!r) r = name_model(&s);
    if (!r) r = stk_resolve_sets(&s);
    if (!r) r = settle_task(&s);
    if (!r) r = check_loss_mean(&s);
    if (!r) r = settle_model(&s);
    if (!r) settle_perceptual(&s);
    if (!r) r = stk_resolve_patch(&s);
    if (!r) r = stk_resolve_metric(&s);
    if (!r && !stk_setup_restores(setup)) r = stk_resolve_classes(&s);
    if (!r) r = stk_resolve_pairs(&s);
    if (!r) r = make_net(&s);
    if (!r) r = stk_resolve_eval(&s);
    if (!r) r = make_val(&s);
    if (!r) r = stk_resolve_batch(&s);
    if (!r) r = stk_resolve_length(&s);
    if (!r) stk_resolve_rates(&s);
    if (!r) r = stk_resolve_name(&s);
    if (!r) stoke_data_remarks(setup->train_set, &setup->train, remarks, sizeof remarks);
    /* Of the workers the data set has said it. */
    if (!r && setup->train.workers >= 0 && !params->threads &&
        stoke_machine_cores_remark(cores, sizeof cores))
        stk_resolve_say(&s, "%s", cores);
    for (char *line = remarks, *end; (end = strchr(line, '\n')); line = end + 1)
        stk_resolve_say(&s, "%.*s", (int)(end - line), line);
    stk_pairs_free(&s.val);
    if (r) stk_setup_free(setup);
    return r;
}
