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
#include "src/tune/advice/advice.h"
#include "src/tune/preflight/preflight.h"
#include "src/tune/batch/batch.h"

enum { ASSUMED_SIDE = 288 }; /* as `stoke estimate` */

typedef struct trial_plan {
    stoke_trial_plan out; /* first: what others see of it */
    stk_run_config config;
    stk_remarks remarks;
} trial_plan;

static void take_wish(trial_plan *plan)
{
    const stk_run_config *w = &plan->config;
    stoke_trial_params *p = &plan->out.params;
    p->device = NULL;
    p->data = w->data;
    p->train = w->train;
    p->classes = w->classes > 0 ? (uint32_t)w->classes : 0;
    if (p->classes) p->data.classes = p->classes;
    if (*w->model && w->engine == STOKE_ENGINE_TORCH) p->train.model = w->model;
    if (w->height > 0) p->data.size[0] = (uint32_t)w->height;
    if (w->width > 0) p->data.size[1] = (uint32_t)w->width;
    p->task = stk_run_config_task(w);
    p->scale = w->data.scale > 1 ? (uint32_t)w->data.scale : 0;
    if (w->base_channels > 0) p->base_channels = (uint32_t)w->base_channels;
    if (w->num_blocks > 0) p->num_blocks = (uint32_t)w->num_blocks;
}

/* What training would settle: classes, size, samples. A PyTorch trainer's file may well be read on another
 * machine than the one that trains. */
static int look(trial_plan *plan, stoke_error *err)
{
    const stk_run_config *w = &plan->config;
    stk_setup setup;
    stoke_error own = { 0 };
    stoke_trial_params *p = &plan->out.params;
    stoke_data_params data = p->data;
    stoke_train_params train = p->train;
    if (!w->has_data) return STOKE_OK;
    data.batch = 1;                        /* it is what is looked for */
    if (w->engine == STOKE_ENGINE_TORCH) { /* only the data are looked at */
        train.model = NULL;
        train.base_channels = train.num_blocks = 0;
    }
    train.resume = NULL;
    const int r = stk_setup_make(&setup, &data, &train, NULL, NULL, NULL, &own);
    if (r && (w->engine != STOKE_ENGINE_TORCH || *w->data_flag)) return stk_fail_again(err, r, own.message);
    if (r) {
        stk_remark(&plan->remarks, "The data are left out of the trials, and so is the loader: %.400s",
                   own.message);
        p->data.data = p->data.images = p->data.list = NULL;
        return STOKE_OK;
    }
    const int restores = stk_setup_restores(&setup);
    p->task = restores ? STOKE_TASK_RESTORE : STOKE_TASK_SEGMENT;
    p->classes = restores ? 3 : setup.classes;
    p->scale = restores ? (uint32_t)setup.train.scale : 0;
    if (w->engine == STOKE_ENGINE_NATIVE && !p->train.model && !p->train.pretrained)
        p->train.model = restores ? "resnet" : "b0";
    p->data.size[0] = setup.train.size[0];
    p->data.size[1] = setup.train.size[1];
    plan->out.samples = stoke_dataset_count(setup.train_set);
    stk_setup_free(&setup);
    return STOKE_OK;
}

static int name_model(trial_plan *plan, stoke_error *err)
{
    stoke_train_params *train = &plan->out.params.train;
    stk_network_config config;
    if (train->model) return STOKE_OK;
    if (train->pretrained) {
        const int r = stk_pretrained_config(train->pretrained, &config, err);
        if (!r) train->model = config.model; /* a constant */
        return r;
    }
    train->model = plan->out.params.task == STOKE_TASK_RESTORE ? "resnet" : "b0";
    if (!*plan->config.model_said) /* of a network of the user's own the caller knows, and tries no other */
        stk_remark(&plan->remarks, "Nothing says the model: %s is taken; --model says another.",
                   train->model);
    return STOKE_OK;
}

static void assume(trial_plan *plan)
{
    stoke_trial_params *p = &plan->out.params;
    if (!p->data.size[0] || !p->data.size[1]) {
        p->data.size[0] = p->data.size[1] = ASSUMED_SIDE;
        stk_remark(&plan->remarks, "Nothing says the size of pictures: %dx%d is taken; --size says another.",
                   ASSUMED_SIDE, ASSUMED_SIDE);
    }
    if (!p->classes && p->task != STOKE_TASK_SEGMENT && stk_is_resnet(p->train.model)) {
        p->classes = stoke_estimate_classes(p->train.model);
        if (p->task == STOKE_TASK_AUTO)
            stk_remark(&plan->remarks, "Nothing says the number of classes: the network is taken to restore "
                                       "pictures, not to label them; --classes says otherwise.");
        p->task = STOKE_TASK_RESTORE;
    } else if (!p->classes) {
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
    trial_plan *plan = stk_calloc(1, sizeof *plan);
    if (!plan) return stk_fail(err, STOKE_E_NOMEM, "no memory for a plan of trials");
    *out = &plan->out;
    plan->out.params = stoke_trial_defaults();
    const stk_run_config *config = &plan->config;
    int r = stk_run_config_read(&plan->config, params, err);
    if (!r) take_wish(plan);
    if (!r && look_at_data) r = look(plan, err);
    if (!r) r = name_model(plan, err);
    if (!r) assume(plan);
    plan->out.engine = config->engine;
    plan->out.batch = config->batch > 0 ? (uint32_t)config->batch : 0;
    plan->out.known = *config->model || config->engine == STOKE_ENGINE_NATIVE;
    plan->out.said = config->model_said;
    if (r) stoke_trial_plan_free(out);
    return r;
}

void stoke_trial_plan_free(stoke_trial_plan **out)
{
    if (!out || !*out) return;
    trial_plan *plan = (trial_plan *)*out;
    stk_run_config_free(&plan->config);
    stk_remarks_free(&plan->remarks);
    stk_free(plan);
    *out = NULL;
}

const char *stoke_trial_plan_remark(const stoke_trial_plan *plan, size_t index)
{
    return stk_remark_at(&((const trial_plan *)plan)->remarks, index);
}
