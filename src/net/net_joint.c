/* SPDX-License-Identifier: Apache-2.0
 *
 * Several batches with one batch norm. Each has maps of its own; all else that a batch leaves behind (draws,
 * the head's numbers) is either set again for each call or handed to the caller. The head is the last
 * operation forward and the first one back: of these two the passes carry out the outer parts, and the inner
 * ones are here.
 */
#include "src/net/net.h"

#include <math.h>
#include <string.h>
#include <stoke/tools/net.h>

#include "src/base/error.h"

static const stk_tape_op *head_forward(const stoke_net *net)
{
    return &net->tape.ops[net->tape.forward.end - 1];
}

static const stk_tape_op *head_back(const stoke_net *net)
{
    return &net->tape.ops[net->tape.backward.begin];
}

/* What follows is of this batch. */
static void begin(stoke_net *net, const stoke_net_joint *joint)
{
    stk_tape_profile_start(&net->parts);
    net->maps = net->all_maps + joint->at * net->tape.bytes;
    net->draw = joint->draw;
    net->dropping = 1;
    net->loss_shape.batch = joint->batch->count;
}

/* Without one all goes by the first maps. */
static void end(stoke_net *net, stk_tape_part part)
{
    net->maps = net->all_maps;
    stk_tape_profile_lap(&net->parts, part);
}

static float *aside(const stoke_net *net, const stk_segformer_head *head, const stoke_net_joint *joint)
{
    return net->aside + joint->at * stk_segformer_head_aside(head);
}

static int check(const stoke_net *net, const stoke_net_joint *joint, stoke_error *err)
{
    if (!net->params.training || joint->at >= net->params.joint)
        return stk_fail(err, STOKE_E_STATE,
                        "batch %u of those that are on their way together: the network was opened for %u",
                        (unsigned)joint->at, net->params.training ? (unsigned)net->params.joint : 0);
    if (!joint->of) return stk_fail(err, STOKE_E_INVALID, "gradients cannot be divided by 0");
    return stk_net_check_batch(net, joint->batch, 1, err);
}

/* ---- forward ---- */

int stoke_net_joint_moments(stoke_net *net, const stoke_net_joint *joint, double *moments, stoke_error *err)
{
    const int status = check(net, joint, err);
    if (status) return status;
    begin(net, joint);
    net->moments = moments;
    stk_net_forward(net, joint->batch, 1);
    net->moments = NULL;
    net->maps = net->all_maps;
    return STOKE_OK;
}

void stoke_net_joint_normalise(stoke_net *net, const double *moments, uint32_t count, double *statistics)
{
    const size_t own = stoke_net_statistics(net);
    double rows = 0;
    for (uint32_t i = 0; i < count; i++) rows += moments[i * (1 + own)];
    net->dropping = 1;
    if (rows > 0) {
        stk_segformer_head_normalise(&net->run, stk_net_head(net, head_forward(net), 0), moments, count);
        memcpy(statistics, net->statistics, own * sizeof *statistics);
    } else {
        statistics[0] = NAN;
    }
}

void stoke_net_joint_track(stoke_net *net, const double *statistics, uint32_t count)
{
    stoke_net_track(net, statistics);
    net->state.draws += count - 1;
}

int stoke_net_joint_loss(stoke_net *net, const stoke_net_joint *joint, double *loss, stoke_error *err)
{
    const stk_tape_op *op = head_forward(net);
    begin(net, joint);
    stk_segformer_head_classify(&net->run, stk_net_head(net, op, joint->batch->count),
                                stk_net_tensor(net, op->out[1]), stk_net_logits(net));
    stk_tape_profile_lap(&net->parts, STK_PART_HEAD_FORWARD);
    const int status = stk_net_loss(net, joint->batch, (float)(net->state.loss_scale / joint->of), loss,
                                    stk_net_tensor(net, net->tape.d_logits), err);
    end(net, STK_PART_LOSS);
    return status;
}

/* ---- backward ---- */

void stoke_net_joint_sums(stoke_net *net, const stoke_net_joint *joint, double *sums)
{
    const stk_tape_op *op = head_back(net);
    begin(net, joint);
    stk_segformer_head *head = stk_net_head(net, op, joint->batch->count);
    stk_segformer_head_sum(&net->run, head, stk_net_tensor(net, op->in[4]), stk_net_tensor(net, op->in[5]),
                           stk_net_tensor(net, op->out[0]), aside(net, head, joint), sums);
    end(net, STK_PART_HEAD_BACKWARD);
}

void stoke_net_joint_slopes(stoke_net *net, const double *sums, uint32_t count)
{
    stk_segformer_head_slopes(&net->run, head_back(net)->layer, sums, count);
}

void stoke_net_joint_back(stoke_net *net, const stoke_net_joint *joint, const double *sums, float *gradients,
                          int add)
{
    begin(net, joint);
    net->run.accumulate = add;
    if (gradients) stk_parameters_bind(&net->parameters, net->values, gradients, net->params.freeze_encoder);
    net->sums = sums;
    net->classifier = aside(net, head_back(net)->layer, joint);
    stk_net_backward(net, joint->batch);
    net->sums = NULL;
    if (gradients)
        stk_parameters_bind(&net->parameters, net->values, net->gradients, net->params.freeze_encoder);
    net->have_gradients = 1;
    net->maps = net->all_maps;
}
