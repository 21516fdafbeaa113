/* SPDX-License-Identifier: Apache-2.0
 *
 * One batch from pictures to logits, and what is made of them without gradients: classes, a loss.
 */
#include <math.h>

#include "src/base/error.h"
#include "src/base/rng.h"
#include "src/net/net.h"

int stk_net_check_batch(const stoke_net *net, const stoke_net_batch *batch, int masks, stoke_error *err)
{
    const size_t pixels = (size_t)net->params.height * net->params.width;
    if (!batch) return stk_fail(err, STOKE_E_INVALID, "there is no batch: it is NULL");
    if (!batch->count || batch->count > net->params.batch)
        return stk_fail(err, STOKE_E_INVALID, "a batch of %u pictures: the network was opened for 1 to %u",
                        (unsigned)batch->count, (unsigned)net->params.batch);
    if (!batch->images || (batch->layout != STOKE_LAYOUT_CHW && batch->layout != STOKE_LAYOUT_HWC))
        return stk_fail(err, STOKE_E_INVALID, "a batch needs images, in the layout chw or hwc");
    if (batch->image_row_floats < 3 * pixels)
        return stk_fail(err, STOKE_E_INVALID, "image_row_floats is %zu: a picture of 3 x %u x %u has %zu",
                        batch->image_row_floats, (unsigned)net->params.height, (unsigned)net->params.width,
                        3 * pixels);
    if (!masks) return STOKE_OK;
    if (!batch->masks) return stk_fail(err, STOKE_E_INVALID, "a loss needs masks");
    if (batch->masks_b && !batch->lambda)
        return stk_fail(err, STOKE_E_INVALID, "two masks per picture need their shares (lambda)");
    const stoke_dtype type = batch->mask_dtype;
    if (type != STOKE_DTYPE_U8 && type != STOKE_DTYPE_U16 && type != STOKE_DTYPE_I32 &&
        type != STOKE_DTYPE_I64)
        return stk_fail(err, STOKE_E_INVALID, "masks are u8, u16, i32 or i64");
    if (batch->mask_row_bytes < pixels * stoke_dtype_bytes(type))
        return stk_fail(err, STOKE_E_INVALID, "mask_row_bytes is %zu: a mask of %u x %u has %zu",
                        batch->mask_row_bytes, (unsigned)net->params.height, (unsigned)net->params.width,
                        pixels * stoke_dtype_bytes(type));
    if (batch->mask_row_bytes % stoke_dtype_bytes(type))
        return stk_fail(err, STOKE_E_INVALID, "mask_row_bytes is %zu: no whole number of elements of %zu",
                        batch->mask_row_bytes, (size_t)stoke_dtype_bytes(type));
    return STOKE_OK;
}

stk_loss_truth stk_net_truth(const stoke_net_batch *batch)
{
    return (stk_loss_truth){ .masks = batch->masks,
                             .masks_b = batch->masks_b,
                             .lambda = batch->lambda,
                             .dtype = batch->mask_dtype,
                             .row_bytes = batch->mask_row_bytes };
}

/* Brings the packed weights up to date. The head is folded again when it changes between batch statistics and
 * running ones. */
static void pack(stoke_net *net, int training)
{
    if (net->head.training != training) net->head_packed = 0;
    net->head.training = training;
    if (net->encoder_packed && net->head_packed) return;
    if (!net->encoder_packed) {
        stk_linear_pack(&net->run, net->linears, net->linear_count);
        stk_depthwise_pack(&net->run, net->depthwises, net->block_count);
    }
    if (!net->head_packed) stk_segformer_head_pack(&net->run, &net->head);
    net->encoder_packed = net->head_packed = 1;
    stk_profile_lap(&net->parts, STK_PART_PACK);
}

/* One draw per block, branch and sample: as Hugging Face, whose module is called once for either branch. */
static void draw_drop_path(stoke_net *net, uint32_t count)
{
    for (uint32_t i = 0; i < net->block_count; i++) {
        const stk_segformer_block *b = &net->blocks[i];
        for (uint32_t branch = 0; branch < 2; branch++) {
            for (uint32_t sample = 0; b->drop_factor[branch] && sample < count; sample++) {
                const stk_rng r = stk_philox(net->params.seed, stk_pair(i * 2 + branch, sample),
                                             net->state.draws, STK_STREAM_DROP_PATH, 0);
                b->drop_factor[branch][sample] =
                    stk_unit(r.word[0]) < b->drop ? 0.0f : (float)(1.0 / (1.0 - b->drop));
            }
        }
    }
}

void stk_net_logits(stoke_net *net, const stoke_net_batch *batch, int training)
{
    stk_profile_start(&net->parts);
    pack(net, training);
    net->dropping = training;
    net->head.batch = net->loss_shape.batch = batch->count;
    net->head.dropout = training ? (float)net->params.dropout : 0;
    net->head.seed = stk_mix64(net->params.seed ^ stk_mix64(net->state.draws + 1));
    if (training) draw_drop_path(net, batch->count);
    const void *features[STK_STAGES];
    for (uint32_t i = 0; i < STK_STAGES; i++) {
        stk_segformer_stage_forward(net, i, batch);
        features[i] = net->stages[i].feature;
    }
    stk_segformer_head_forward(&net->run, &net->head, features, net->y, net->logits);
    stk_profile_lap(&net->parts, STK_PART_HEAD_FORWARD);
}

static int nowhere(const char *what, stoke_error *err)
{
    return stk_fail(err, STOKE_E_INVALID, "nowhere to put the %s: the pointer is NULL", what);
}

int stoke_net_forward(stoke_net *net, const stoke_net_batch *batch, stoke_logits *logits, stoke_error *err)
{
    const int status = logits ? stk_net_check_batch(net, batch, 0, err) : nowhere("logits", err);
    if (status) return status;
    stk_net_logits(net, batch, 0);
    *logits = (stoke_logits){ .data = net->logits,
                              .height = net->stages[0].height,
                              .width = net->stages[0].width,
                              .classes = net->config.classes,
                              .stride = stk_logits_stride(net->config.classes) };
    return STOKE_OK;
}

int stoke_net_predict(stoke_net *net, const stoke_net_batch *batch, uint16_t *classes, stoke_error *err)
{
    const int status = classes ? stk_net_check_batch(net, batch, 0, err) : nowhere("classes", err);
    if (status) return status;
    stk_net_logits(net, batch, 0);
    stk_classes_of(&net->run, &net->loss_shape, net->loss_room, net->logits, classes);
    stk_profile_lap(&net->parts, STK_PART_LOSS);
    return STOKE_OK;
}

int stk_net_item_loss(stoke_net *net, uint32_t item, const stk_loss_truth *truth, double *loss,
                      stoke_error *err)
{
    stk_loss_shape shape = net->loss_shape;
    const size_t picture = (size_t)shape.in_height * shape.in_width * stk_logits_stride(shape.classes);
    shape.batch = 1;
    return stk_loss(&net->run, &net->params.loss, &shape, net->loss_room, net->logits + item * picture, truth,
                    1, loss, NULL, err);
}

int stoke_net_evaluate(stoke_net *net, const stoke_net_batch *batch, double *loss, uint16_t *classes,
                       stoke_error *err)
{
    int status = loss ? stk_net_check_batch(net, batch, 1, err) : nowhere("loss", err);
    if (status) return status;
    stk_net_logits(net, batch, 0);
    const stk_loss_truth truth = stk_net_truth(batch);
    status = stk_loss(&net->run, &net->params.loss, &net->loss_shape, net->loss_room, net->logits, &truth, 1,
                      loss, NULL, err);
    if (!status && classes) stk_classes_of(&net->run, &net->loss_shape, net->loss_room, net->logits, classes);
    stk_profile_lap(&net->parts, STK_PART_LOSS);
    return status;
}
