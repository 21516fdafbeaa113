/* SPDX-License-Identifier: Apache-2.0
 *
 * From a settings file, of any dialect, to trials of what it asks for.
 */
#include <stdio.h>
#include <string.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/base/remarks.h"
#include "src/net/files/pretrained.h"
#include "src/train/setup.h"
#include "src/tune/preflight/preflight.h"
#include "src/tune/batch/trial.h"

enum { ASSUMED_SIDE = 288 }; /* as `stoke estimate` */

struct stoke_trial_plan {
    stk_run_config config;
    stoke_trial_params params;
    uint64_t samples;
    stk_remarks remarks;
};

static void take_wish(stoke_trial_plan *plan)
{
    const stk_run_config *w = &plan->config;
    stoke_trial_params *p = &plan->params;
    p->device = NULL;
    p->data = w->data;
    p->train = w->train;
    p->classes = w->classes > 0 ? (uint32_t)w->classes : 0;
    if (p->classes) p->data.classes = p->classes;
    if (*w->model) p->train.model = w->model;
    if (w->height > 0) p->data.size[0] = (uint32_t)w->height;
    if (w->width > 0) p->data.size[1] = (uint32_t)w->width;
    if (w->base_channels > 0) p->base_channels = (uint32_t)w->base_channels;
    if (w->num_blocks > 0) p->num_blocks = (uint32_t)w->num_blocks;
}

/* What training would settle: classes, size, samples. */
static int look_as_training(stoke_trial_plan *plan, stoke_error *err)
{
    stk_setup setup;
    stoke_trial_params *p = &plan->params;
    stoke_data_params data = p->data;
    stoke_train_params train = p->train;
    data.batch = 1;                                                    /* it is what is looked for */
    if (plan->config.engine == STOKE_ENGINE_TORCH) train.model = "b0"; /* only the data are looked at */
    train.resume = NULL;
    const int r = stk_setup_make(&setup, &data, &train, NULL, NULL, NULL, err);
    if (r) return r;
    p->classes = setup.classes;
    p->data.size[0] = setup.train.size[0];
    p->data.size[1] = setup.train.size[1];
    plan->samples = stoke_dataset_count(setup.train_set);
    stk_setup_free(&setup);
    return STOKE_OK;
}

/* A PyTorch trainer's file may well be read on another machine than the one that trains. */
static int look(stoke_trial_plan *plan, stoke_error *err)
{
    stk_run_config *w = &plan->config;
    stoke_error own = { 0 };
    if (!w->has_data) return STOKE_OK;
    int r = look_as_training(plan, &own);
    if (r && w->engine == STOKE_ENGINE_TORCH && !*w->data_flag) {
        stk_remark(&plan->remarks, "The data are left out of the trials, and so is the loader: %.400s",
                   own.message);
        plan->params.data.data = plan->params.data.images = plan->params.data.list = NULL;
        r = STOKE_OK;
    }
    return r ? stk_fail_again(err, r, own.message) : STOKE_OK;
}

static int name_model(stoke_trial_plan *plan, stoke_error *err)
{
    stoke_train_params *train = &plan->params.train;
    stk_segformer_config config;
    if (train->model) return STOKE_OK;
    if (train->pretrained) {
        const int r = stk_pretrained_config(train->pretrained, &config, err);
        if (!r) train->model = config.model; /* a constant */
        return r;
    }
    train->model = "b0";
    if (!*plan->config.model_said) /* of a network of the user's own the caller knows, and tries no other */
        stk_remark(&plan->remarks, "Nothing says the model: b0 is taken; --model says another.");
    return STOKE_OK;
}

static void assume(stoke_trial_plan *plan)
{
    stoke_trial_params *p = &plan->params;
    if (!p->data.size[0] || !p->data.size[1]) {
        p->data.size[0] = p->data.size[1] = ASSUMED_SIDE;
        stk_remark(&plan->remarks, "Nothing says the size of pictures: %dx%d is taken; --size says another.",
                   ASSUMED_SIDE, ASSUMED_SIDE);
    }
    if (!p->classes) {
        p->classes = stoke_estimate_classes(p->train.model);
        stk_remark(&plan->remarks, "Nothing says the number of classes: %u is taken; --classes says another.",
                   (unsigned)p->classes);
    }
}

int stoke_trial_plan_read(stoke_trial_plan **out, const stoke_preflight_params *params, int look_at_data,
                          stoke_error *err)
{
    *out = NULL;
    if (!params || params->struct_size != sizeof *params)
        return stk_fail_struct(err, "stoke_preflight_defaults");
    stoke_trial_plan *plan = stk_calloc(1, sizeof *plan);
    if (!plan) return stk_fail(err, STOKE_E_NOMEM, "no memory for a plan of trials");
    plan->params = stoke_trial_defaults();
    int r = stk_run_config_read(&plan->config, params, err);
    if (!r) take_wish(plan);
    if (!r && look_at_data) r = look(plan, err);
    if (!r) r = name_model(plan, err);
    if (!r) assume(plan);
    if (r)
        stoke_trial_plan_free(&plan);
    else
        *out = plan;
    return r;
}

void stoke_trial_plan_free(stoke_trial_plan **plan)
{
    if (!plan || !*plan) return;
    stk_run_config_free(&(*plan)->config);
    stk_remarks_free(&(*plan)->remarks);
    stk_free(*plan);
    *plan = NULL;
}

const stoke_trial_params *stoke_trial_plan_params(const stoke_trial_plan *plan)
{
    return &plan->params;
}

stoke_engine stoke_trial_plan_engine(const stoke_trial_plan *plan)
{
    return plan->config.engine;
}

uint64_t stoke_trial_plan_samples(const stoke_trial_plan *plan)
{
    return plan->samples;
}

int stoke_trial_plan_knows(const stoke_trial_plan *plan, const char **said)
{
    *said = plan->config.model_said;
    return *plan->config.model || plan->config.engine == STOKE_ENGINE_NATIVE;
}

uint32_t stoke_trial_plan_batch(const stoke_trial_plan *plan)
{
    return plan->config.batch > 0 ? (uint32_t)plan->config.batch : 0;
}

const char *stoke_trial_plan_remark(const stoke_trial_plan *plan, size_t index)
{
    return stk_remark_at(&plan->remarks, index);
}
