/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory before anything runs. The native column is the engine's own plan, exact to the byte, in host memory;
 * the torch column (estimate_torch.c) is a model of PyTorch on a card. Both are asked backwards too: what is
 * the largest batch or picture that fits.
 */
#include "src/tune/advice/estimate.h"

#include <string.h>

#include "src/base/error.h"
#include <stoke/net.h>
#include <stoke/tools/machine.h>

enum { SIDE_STEP = 32, CHANNELS_MOST = 4096, BLOCKS_MOST = 1024, PREFETCH_MOST = 1024 };

stoke_estimate_params stoke_estimate_defaults(void)
{
    return (stoke_estimate_params){ .struct_size = sizeof(stoke_estimate_params),
                                    .batch = 8,
                                    .height = 288,
                                    .width = 288,
                                    .classes = 19, /* of Cityscapes, as `stoke bench net` */
                                    .precision = STOKE_PRECISION_AUTO,
                                    .optimizer = STOKE_OPTIMIZER_ADAMW,
                                    .prefetch = 2,
                                    .base_channels = 64,
                                    .num_blocks = 6 };
}

uint32_t stoke_estimate_classes(const char *model)
{
    return model && !strcmp(model, "smallnet") ? 3 : stoke_estimate_defaults().classes;
}

int stk_is_smallnet(const stoke_estimate_params *params)
{
    return !strcmp(params->model, "smallnet");
}

static int check_smallnet(const stoke_estimate_params *p, stoke_error *err)
{
    if (!p->base_channels || p->base_channels > CHANNELS_MOST || !p->num_blocks ||
        p->num_blocks > BLOCKS_MOST)
        return stk_fail(err, STOKE_E_INVALID,
                        "base_channels %u and num_blocks %u: 1 to %d channels and 1 to %d blocks will do",
                        (unsigned)p->base_channels, (unsigned)p->num_blocks, CHANNELS_MOST, BLOCKS_MOST);
    if (!p->classes || p->classes > STK_CONFIG_CLASSES)
        return stk_fail(err, STOKE_E_INVALID, "classes is %u: 1 to %d will do", (unsigned)p->classes,
                        STK_CONFIG_CLASSES);
    if (p->freeze_encoder)
        return stk_fail(err, STOKE_E_INVALID, "smallnet has no encoder to freeze: leave freeze_encoder out");
    return STOKE_OK;
}

/* config is filled for a SegFormer only. */
static int check(const stoke_estimate_params *p, stk_segformer_config *config, stoke_error *err)
{
    if (!p || p->struct_size != sizeof *p) return stk_fail_struct(err, "stoke_estimate_defaults");
    if (!p->model)
        return stk_fail(err, STOKE_E_INVALID, "no model is named: b0, b1, b2, b3, b4, b5 or smallnet");
    const int r = stk_config_check_batch(p->batch, p->height, p->width, err);
    if (r) return r;
    if (p->prefetch > PREFETCH_MOST)
        return stk_fail(err, STOKE_E_INVALID, "prefetch is %u: 0 to %d will do", (unsigned)p->prefetch,
                        PREFETCH_MOST);
    if (p->precision < STOKE_PRECISION_FP32 || p->precision > STOKE_PRECISION_AUTO ||
        p->optimizer < STOKE_OPTIMIZER_ADAMW || p->optimizer > STOKE_OPTIMIZER_SGD)
        return stk_fail(err, STOKE_E_INVALID, "precision %d or optimizer %d is none of the known ones",
                        p->precision, p->optimizer);
    if (stk_is_smallnet(p)) return check_smallnet(p, err);
    const int found = stk_config_of(config, p->model, p->classes, err);
    if (found != STOKE_E_NOTFOUND) return found;
    return stk_fail(err, found, "no model is called \"%s\": there are b0, b1, b2, b3, b4, b5 and smallnet",
                    p->model);
}

/* ---- the native engine ---- */

/* f32 pictures and masks of one byte, two above 255 classes: what the trainer asks of the loader. `prefetch`
 * batches wait, one is with the network. */
static uint64_t ring_bytes(const stoke_estimate_params *p)
{
    const uint64_t pixel = 3 * sizeof(float) + (p->classes > 255 ? 2 : 1);
    return (uint64_t)(p->prefetch + 1) * p->batch * p->height * p->width * pixel;
}

int stk_estimate_plan(stoke_net_plan *plan, const stoke_estimate_params *p, int memory, stoke_error *err)
{
    stoke_net_params net = stoke_net_defaults();
    net.model = p->model;
    net.classes = p->classes;
    net.batch = p->batch;
    net.height = p->height;
    net.width = p->width;
    net.precision = p->precision;
    net.memory = memory;
    net.optimizer = p->optimizer;
    net.freeze_encoder = p->freeze_encoder;
    net.average = p->average;
    return stoke_net_plan_of(&net, plan, err);
}

static int estimate_native(stoke_estimate *e, const stoke_estimate_params *p,
                           const stk_segformer_config *config, stoke_error *err)
{
    if (stk_is_smallnet(p))
        return stk_fail(err, STOKE_E_UNSUPPORTED,
                        "the native engine trains SegFormer b0 to b5, not smallnet");
    stoke_net_plan plan;
    const int r = stk_estimate_plan(&plan, p, STOKE_MEMORY_PLAIN, err);
    if (r) return r;

    const stk_estimate_parameter_count count = stk_segformer_parameters(config);
    const uint64_t trained = count.all - (p->freeze_encoder ? count.encoder : 0);
    uint64_t *bytes = e->bytes;
    e->parameters = plan.parameter_count;
    bytes[STOKE_TERM_WEIGHTS] = 4 * count.all;
    bytes[STOKE_TERM_GRADIENTS] = 4 * trained;
    bytes[STOKE_TERM_OPTIMIZER] = (p->optimizer == STOKE_OPTIMIZER_SGD ? 4 : 8) * trained;
    /* The average, buffers and the gaps between tensors are what else lies with the parameters. */
    const uint64_t named =
        bytes[STOKE_TERM_WEIGHTS] + bytes[STOKE_TERM_GRADIENTS] + bytes[STOKE_TERM_OPTIMIZER];
    bytes[STOKE_TERM_EXTRA] = plan.packed + (plan.parameters > named ? plan.parameters - named : 0);
    bytes[STOKE_TERM_ACTIVATIONS] = plan.activations; /* with the logits, at a quarter of the size */
    bytes[STOKE_TERM_BATCHES] = ring_bytes(p);
    bytes[STOKE_TERM_WORKSPACE] = plan.workspace;
    bytes[STOKE_TERM_CONTEXT] = plan.process;
    for (int i = 0; i < STOKE_TERMS; i++) e->total += bytes[i];
    e->low = e->high = e->total; /* one arena, taken at once: nothing is left to guess */
    e->allocated = e->reserved = e->reserved_low = e->reserved_high = e->total;
    return STOKE_OK;
}

/* ---- both ---- */

int stoke_estimate_make(stoke_estimate *estimate, stoke_engine engine, const stoke_estimate_params *params,
                        stoke_error *err)
{
    stk_segformer_config config = { 0 };
    memset(estimate, 0, sizeof *estimate);
    int r = check(params, &config, err);
    if (!r && engine == STOKE_ENGINE_NATIVE)
        r = estimate_native(estimate, params, &config, err);
    else if (!r)
        stk_estimate_torch(estimate, params, stk_is_smallnet(params) ? NULL : &config);
    if (r) return r;
    estimate->source = STOKE_SOURCE_ESTIMATED;
    for (int i = 1; i < STOKE_TERMS; i++)
        if (estimate->bytes[i] > estimate->bytes[estimate->dominant]) estimate->dominant = i;
    return STOKE_OK;
}

/* One question of the search. A batch beyond what a network takes at all is a no, not an error. */
static int fits(stoke_engine engine, const stoke_estimate_params *p, uint64_t memory, uint64_t spare,
                int *yes, stoke_error *err)
{
    stoke_estimate e;
    *yes = 0;
    if (memory < spare || stk_config_check_batch(p->batch, p->height, p->width, NULL)) return STOKE_OK;
    const int r = stoke_estimate_make(&e, engine, p, err);
    if (!r) *yes = e.high <= memory - spare;
    return r;
}

typedef enum asked { ASKED_BATCH, ASKED_SIDE } asked;

/* Memory grows with batch and side, so that halving finds the last multiple of `step` that fits. */
static int largest(stoke_engine engine, const stoke_estimate_params *params, uint64_t memory, uint64_t spare,
                   asked what, uint32_t step, uint32_t most, uint32_t *answer, stoke_error *err)
{
    stk_segformer_config config;
    stoke_estimate_params p;
    uint32_t low = 0, high = most / step + 1; /* low fits, high does not */
    *answer = 0;
    int r = check(params, &config, err);
    if (r) return r;
    p = *params;
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        int yes;
        if (what == ASKED_BATCH)
            p.batch = middle * step;
        else
            p.height = p.width = middle * step;
        if ((r = fits(engine, &p, memory, spare, &yes, err))) return r;
        if (yes)
            low = middle;
        else
            high = middle;
    }
    *answer = low * step;
    return STOKE_OK;
}

int stoke_estimate_batch(stoke_engine engine, const stoke_estimate_params *params, uint64_t memory,
                         uint64_t spare, uint32_t step, uint32_t *batch, stoke_error *err)
{
    if (!step || step > STK_NET_BATCH)
        return stk_fail(err, STOKE_E_INVALID, "step is %u: 1 to %d will do", (unsigned)step, STK_NET_BATCH);
    return largest(engine, params, memory, spare, ASKED_BATCH, step, STK_NET_BATCH, batch, err);
}

int stoke_estimate_side(stoke_engine engine, const stoke_estimate_params *params, uint64_t memory,
                        uint64_t spare, uint32_t *side, stoke_error *err)
{
    return largest(engine, params, memory, spare, ASKED_SIDE, SIDE_STEP, STK_NET_SIDE_MAX, side, err);
}

uint32_t stoke_estimate_auto(const stoke_estimate_params *params)
{
    enum { MOST = 8 };
    const uint64_t available = stoke_machine_available();
    stoke_estimate_params p = *params;
    uint32_t batch = 0;
    p.batch = 1;
    const int r = largest(STOKE_ENGINE_NATIVE, &p, available == UINT64_MAX ? available : available / 4 * 3, 0,
                          ASKED_BATCH, 1, MOST, &batch, NULL);
    return r ? MOST : batch ? batch : 1;
}
