/* SPDX-License-Identifier: Apache-2.0
 *
 * Which SegFormer: the largest that is usual for the memory, fits by the estimate, does not learn so few
 * pictures by heart, and ends in time.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "src/base/error.h"
#include "src/tune/decide/decide.h"
#include "src/tune/advice/advice.h"
#include "src/tune/batch/batch.h"
#include <stoke/tools/machine.h>
#include <stoke/net.h>
#include <stoke/tools/device.h>

enum { EPOCHS = 100, BATCH_MOST = 32 };

/* Up to so many pictures, the largest model that is worth it: a rule of thumb for weights that were trained
 * before. More pictures leave it to memory and time. */
static const struct {
    uint32_t samples;
    size_t model;
} BY_SAMPLES[] = { { 200, 1 }, { 1000, 2 }, { 5000, 4 } };

stoke_choose_params stoke_choose_defaults(void)
{
    return (stoke_choose_params){ .struct_size = sizeof(stoke_choose_params) };
}

typedef struct chooser {
    const stoke_choose_params *params;
    stoke_advice advice; /* the memory, and what is usual for it */
    uint64_t memory;
    stoke_engine engine;
    int timed;
    stoke_card card;
    size_t usual, by_samples; /* the largest model that is usual; that is worth it */
} chooser;

static int prepare(chooser *c, const stoke_choose_params *p, stoke_error *err)
{
    stoke_recommend_params ask = stoke_recommend_defaults();
    ask.gpu = p->gpu;
    ask.memory = p->memory;
    const int r = stoke_recommend(&c->advice, &ask, err);
    if (r) return r;
    c->params = p;
    c->memory = c->advice.memory ? c->advice.memory : stoke_machine_available();
    c->engine = c->advice.memory ? STOKE_ENGINE_TORCH : STOKE_ENGINE_NATIVE;
    const stk_gpu_name found = p->gpu ? stk_gpu_named(p->gpu) : (stk_gpu_name){ 0 };
    const stk_gpu *gpu = found.portable ? NULL : found.gpu;
    c->timed = gpu && stoke_card_named(gpu->name, &c->card);
    const stk_advice_row *row = gpu && stk_is_at_least(c->memory, gpu->gb) ? stk_advice_row_of(gpu) : NULL;
    c->usual = stk_model_index(row ? row->model : stk_tier_of(c->advice.memory)->model);
    c->by_samples = STK_MODELS - 1;
    for (size_t i = sizeof BY_SAMPLES / sizeof *BY_SAMPLES; i--;)
        if (p->samples && p->samples <= BY_SAMPLES[i].samples) c->by_samples = BY_SAMPLES[i].model;
    return STOKE_OK;
}

/* Memory and time of one. */
static int look_at(const chooser *c, size_t i, stoke_model_choice *choice, stoke_error *err)
{
    const stoke_choose_params *p = c->params;
    stoke_estimate_params e = stoke_estimate_defaults();
    const stk_advice_model_row *row = &stk_model_rows[i];
    *choice = (stoke_model_choice){ .model = row->model,
                                    .million = row->million,
                                    .table_gb = row->gb,
                                    .use = row->use,
                                    .side = p->side  ? p->side
                                            : i >= 4 ? 288
                                            : i >= 2 ? 256
                                                     : 224 };
    e.model = row->model;
    e.height = e.width = choice->side;
    if (p->classes) e.classes = p->classes;
    e.precision = c->engine == STOKE_ENGINE_TORCH ? STOKE_PRECISION_FP16 : STOKE_PRECISION_FP32;
    int r = stoke_estimate_batch(c->engine, &e, c->memory, STK_SPARE_BYTES, 1, &choice->batch, err);
    if (r) return r;
    choice->fits = choice->batch > 0;
    if (!c->timed || !choice->fits || !p->samples) return STOKE_OK;
    double ms;
    e.batch = choice->batch < BATCH_MOST ? choice->batch : BATCH_MOST;
    r = stk_sim_step_ms(&ms, &e, &c->card, err);
    if (!r) choice->hours = ms / 3.6e6 * p->samples / e.batch * (p->epochs ? p->epochs : EPOCHS);
    return r;
}

/* Why not this one; 0: nothing speaks against it. */
static int objection(const chooser *c, size_t i, stoke_model_choice *choice)
{
    const stoke_choose_params *p = c->params;
    if (!choice->fits)
        snprintf(choice->why, sizeof choice->why, "not one picture of %u x %u fits", (unsigned)choice->side,
                 (unsigned)choice->side);
    else if (choice->batch < 2)
        snprintf(choice->why, sizeof choice->why,
                 "one picture a batch fits: too few for the normalisation in its head");
    else if (i > c->usual)
        snprintf(choice->why, sizeof choice->why, "usual from %u GB on; up to batch %u fits by the estimate",
                 (unsigned)choice->table_gb, (unsigned)choice->batch);
    else if (i > c->by_samples)
        snprintf(choice->why, sizeof choice->why, "%u pictures are few for it: %s learns as much from them",
                 (unsigned)p->samples, stk_model_rows[c->by_samples].model);
    else if (p->hours > 0 && choice->hours > p->hours)
        snprintf(choice->why, sizeof choice->why, "takes longer than %.3g h", p->hours);
    else
        return 0;
    return 1;
}

int stoke_choose_model(stoke_model_choice choices[STOKE_MODELS], const stoke_choose_params *params,
                       stoke_error *err)
{
    chooser c = { 0 };
    size_t best = STK_MODELS;
    if (!params || params->struct_size != sizeof *params)
        return stk_fail_struct(err, "stoke_choose_defaults");
    int r = prepare(&c, params, err);
    for (size_t i = 0; !r && i < STK_MODELS; i++) {
        r = look_at(&c, i, &choices[i], err);
        if (!r && !objection(&c, i, &choices[i])) best = i;
    }
    if (r) return r;
    for (size_t i = 0; i < STK_MODELS && best < STK_MODELS; i++) {
        if (i == best)
            snprintf(choices[i].why, sizeof choices[i].why, "the largest that nothing speaks against");
        else if (!*choices[i].why)
            snprintf(choices[i].why, sizeof choices[i].why, "would do, too: faster, a little less exact");
        choices[i].chosen = i == best;
    }
    return STOKE_OK;
}
