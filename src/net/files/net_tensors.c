/* SPDX-License-Identifier: Apache-2.0
 *
 * What others see of a network: tensors, counters, remarks; and saving it.
 */
#include <math.h>
#include <string.h>
#include <stoke/tools/net.h>

#include "src/base/error.h"
#include "src/net/net.h"
#include "src/net/files/pretrained.h"

const char *stoke_net_remark(const stoke_net *net, size_t index)
{
    return index < net->remark_count ? net->remarks[index] : NULL;
}

const stoke_net_plan *stoke_net_plan_used(const stoke_net *net)
{
    return &net->plan;
}

size_t stoke_net_tensor_count(const stoke_net *net)
{
    return net->parameters.count;
}

int stoke_net_tensor_at(const stoke_net *net, size_t index, stoke_net_tensor *tensor)
{
    if (index >= net->parameters.count) return STOKE_E_NOTFOUND;
    const stk_parameter *p = &net->parameters.list[index];
    const int trainable = p->trainable && (p->head || !net->params.freeze_encoder);
    *tensor = (stoke_net_tensor){ .name = p->name,
                                  .dims = p->dims,
                                  .count = p->count,
                                  .values = net->values + p->offset,
                                  .trainable = trainable };
    memcpy(tensor->shape, p->shape, sizeof tensor->shape);
    if (net->average) tensor->average = net->average + p->offset;
    if (!trainable || !net->gradients) return STOKE_OK;
    tensor->gradients = net->gradients + p->offset;
    if (net->first) tensor->moments[0] = net->first + p->offset;
    if (net->second) tensor->moments[1] = net->second + p->offset;
    return STOKE_OK;
}

void stoke_net_touched(stoke_net *net)
{
    net->encoder_packed = net->head_packed = 0;
}

void stoke_net_state_get(const stoke_net *net, stoke_net_state *state)
{
    *state = net->state;
}

void stoke_net_state_set(stoke_net *net, const stoke_net_state *state)
{
    net->state = *state;
    net->have_gradients = 0;
    /* A checkpoint of another precision, or a damaged one: there is no step with a scale of 0. */
    if (net->plan.precision != STOKE_PRECISION_FP16 || !isfinite(state->loss_scale) || state->loss_scale < 1)
        net->state.loss_scale = stk_net_first_scale(net->plan.precision);
}

int stoke_net_swap_average(stoke_net *net, stoke_error *err)
{
    if (!net->average)
        return stk_fail(err, STOKE_E_STATE, "no average was kept: open the network with average 1");
    for (size_t i = 0; i < net->parameters.trainable; i++) {
        const float value = net->values[i];
        net->values[i] = net->average[i];
        net->average[i] = value;
    }
    stoke_net_touched(net);
    return STOKE_OK;
}

int stoke_net_save(const stoke_net *net, const char *folder, int average, stoke_error *err)
{
    const float *values = net->values;
    if (average && !net->average)
        return stk_fail(err, STOKE_E_STATE, "no average was kept: open the network with average 1");
    if (average) {
        /* Running statistics are averages already: those of the weights serve both. */
        const size_t trained = net->parameters.trainable;
        memcpy(net->average + trained, net->values + trained,
               (net->parameters.floats - trained) * sizeof(float));
        values = net->average;
    }
    const stk_pretrained_notes notes = { .batches_tracked = net->state.batches_tracked,
                                         .height = net->params.height,
                                         .width = net->params.width,
                                         .labels = net->labels };
    return stk_pretrained_save(folder, &net->config, &net->parameters, values, &notes, err);
}
