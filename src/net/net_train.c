/* SPDX-License-Identifier: Apache-2.0
 *
 * Training: gradients of a batch, and the step that uses them.
 */
#include "src/net/net.h"

#include <math.h>
#include <string.h>
#include <stoke/tools/net.h>

#include "src/base/error.h"

/* ---- forward ---- */

static int check_targets(const stoke_net *net, const stoke_net_batch *batch, stoke_error *err)
{
    const stk_tape *tape = &net->tape;
    const size_t wanted = 3 * (size_t)tape->out_height * tape->out_width;
    const int status = stk_net_check_loss(&net->params.loss, STOKE_TASK_RESTORE, err);
    if (status) return status;
    if (!batch->targets) return stk_fail(err, STOKE_E_INVALID, "a loss of restored pictures needs targets");
    if (batch->target_row_floats < wanted)
        return stk_fail(err, STOKE_E_INVALID, "target_row_floats is %zu: a target of 3 x %u x %u has %zu",
                        batch->target_row_floats, (unsigned)tape->out_height, (unsigned)tape->out_width,
                        wanted);
    return STOKE_OK;
}

int stk_net_check_batch(const stoke_net *net, const stoke_net_batch *batch, int masks, stoke_error *err)
{
    const size_t pixels = (size_t)net->params.height * net->params.width;
    if (!batch) return stk_fail(err, STOKE_E_INVALID, "there is no batch: it is NULL");
    if (!net->tape.op_count)
        return stk_fail(err, STOKE_E_STATE,
                        "the network lost its size where there was no memory for another");
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
    if (net->config.task == STOKE_TASK_RESTORE) return check_targets(net, batch, err);
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

static stk_loss_truth net_truth(const stoke_net_batch *batch)
{
    return (stk_loss_truth){ .masks = batch->masks,
                             .masks_b = batch->masks_b,
                             .lambda = batch->lambda,
                             .dtype = batch->mask_dtype,
                             .row_bytes = batch->mask_row_bytes };
}

int stk_net_loss(stoke_net *net, const stoke_net_batch *batch, float factor, double *loss, float *d_logits,
                 stoke_error *err)
{
    if (net->config.task == STOKE_TASK_RESTORE) {
        const stk_pixel_target target = { .data = batch->targets,
                                          .sample_stride = batch->target_row_floats,
                                          .planar = batch->layout == STOKE_LAYOUT_CHW };
        const stk_pixel_shape shape = stk_net_pixel_shape(net, batch->count);
        stk_pixel_loss(&net->run, net->params.loss.kind, &shape, stk_net_logits(net), &target, factor, loss,
                       d_logits);
        return STOKE_OK;
    }
    stk_loss_truth truth = net_truth(batch);
    if (d_logits) {
        truth.divisor = net->divisor;
        truth.weight = &net->weight;
    }
    return stk_loss(&net->run, &net->params.loss, &net->loss_shape, net->loss_room, stk_net_logits(net),
                    &truth, factor, loss, d_logits, err);
}

/* Adds the perceptual loss of the last pass, where there is one; `factor` times its gradient is added to that
 * of the pixel loss, 0: the value only. */
static void judge(stoke_net *net, const stoke_net_batch *batch, float factor, double *loss)
{
    stk_features *f = net->features;
    if (!f) return;
    f->distance = 0;
    f->factor = (float)(factor * f->weight);
    stk_net_execute(net, f->value, batch);
    *loss += f->weight * f->distance;
    if (f->factor != 0) stk_net_execute(net, f->back, batch);
}

/* The logits of a batch. training: batch statistics, dropout, drop path by state.draws. */
static void net_logits(stoke_net *net, const stoke_net_batch *batch, int training)
{
    stk_tape_profile_start(&net->parts);
    net->dropping = training;
    net->loss_shape.batch = batch->count;
    stk_net_forward(net, batch, training);
}

/* Only who labels pictures has classes to give. */
static int labels_pictures(const stoke_net *net, const void *classes, stoke_error *err)
{
    if (!classes || net->config.task == STOKE_TASK_SEGMENT) return STOKE_OK;
    return stk_fail(err, STOKE_E_INVALID,
                    "this network restores pictures: they are what stoke_net_forward gives");
}

static int nowhere(const char *what, stoke_error *err)
{
    return stk_fail(err, STOKE_E_INVALID, "nowhere to put the %s: the pointer is NULL", what);
}

stoke_logits stoke_net_outputs(const stoke_net *net)
{
    const stk_loss_shape *shape = &net->loss_shape;
    return (stoke_logits){ .data = stk_net_logits(net),
                           .height = shape->in_height,
                           .width = shape->in_width,
                           .classes = shape->classes,
                           .stride = stk_logits_stride(shape->classes) };
}

int stoke_net_forward(stoke_net *net, const stoke_net_batch *batch, stoke_logits *logits, stoke_error *err)
{
    const int status = logits ? stk_net_check_batch(net, batch, 0, err) : nowhere("logits", err);
    if (status) return status;
    net_logits(net, batch, 0);
    *logits = stoke_net_outputs(net);
    return STOKE_OK;
}

int stoke_net_predict(stoke_net *net, const stoke_net_batch *batch, uint16_t *classes, stoke_error *err)
{
    int status = classes ? stk_net_check_batch(net, batch, 0, err) : nowhere("classes", err);
    if (!status) status = labels_pictures(net, classes, err);
    if (status) return status;
    net_logits(net, batch, 0);
    stk_classes_of(&net->run, &net->loss_shape, net->loss_room, stk_net_logits(net), classes);
    stk_tape_profile_lap(&net->parts, STK_PART_LOSS);
    return STOKE_OK;
}

int stoke_net_evaluate(stoke_net *net, const stoke_net_batch *batch, double *loss, uint16_t *classes,
                       stoke_error *err)
{
    int status = loss ? stk_net_check_batch(net, batch, 1, err) : nowhere("loss", err);
    if (!status) status = labels_pictures(net, classes, err);
    if (status) return status;
    net_logits(net, batch, 0);
    status = stk_net_loss(net, batch, 1, loss, NULL, err);
    if (!status && classes)
        stk_classes_of(&net->run, &net->loss_shape, net->loss_room, stk_net_logits(net), classes);
    stk_tape_profile_lap(&net->parts, STK_PART_LOSS);
    if (!status) judge(net, batch, 0, loss);
    return status;
}

/* ---- backward and step ---- */

/* Loss scaling of fp16, the usual numbers (PyTorch's GradScaler). */
static const double SCALE_START = 65536;
enum { SCALE_GROWS_AFTER = 2000 };

double stk_net_first_scale(int precision)
{
    return precision == STOKE_PRECISION_FP16 ? SCALE_START : 1;
}

/* The running statistics lie behind everything that is trained. */
size_t stoke_net_statistics(const stoke_net *net)
{
    return net->parameters.floats - net->parameters.trainable;
}

/* Momentum 0.1, as PyTorch's. */
static float followed(float running, double batch)
{
    return running + (float)(0.1 * (batch - running));
}

/* A NaN in a picture, or what overflows in fp16, makes gradients that are not finite, and the step is
 * skipped; but running statistics that took it up would stay so for ever. */
void stoke_net_track(stoke_net *net, const double *statistics)
{
    float *running = net->values + net->parameters.trainable;
    const size_t count = stoke_net_statistics(net);
    net->state.draws++;
    for (size_t i = 0; statistics && i < count; i++)
        if (!isfinite(followed(running[i], statistics[i]))) return;
    for (size_t i = 0; statistics && i < count; i++) running[i] = followed(running[i], statistics[i]);
    net->state.batches_tracked++;
}

int stoke_net_backward(stoke_net *net, const stoke_net_batch *batch, uint32_t of, double *loss,
                       stoke_error *err)
{
    const int status =
        stoke_net_leaf(net, batch, of, net->state.draws, net->have_gradients, loss, net->statistics, err);
    if (!status) stoke_net_track(net, net->statistics);
    return status;
}

int stoke_net_leaf(stoke_net *net, const stoke_net_batch *batch, uint32_t of, uint64_t draw, int add,
                   double *loss, double *statistics, stoke_error *err)
{
    const int status = stoke_net_leaf_loss(net, batch, of, draw, loss, statistics, err);
    if (!status) stoke_net_leaf_back(net, batch, add);
    return status;
}

int stoke_net_leaf_loss(stoke_net *net, const stoke_net_batch *batch, uint32_t of, uint64_t draw,
                        double *loss, double *statistics, stoke_error *err)
{
    if (!net->params.training)
        return stk_fail(err, STOKE_E_STATE, "this network was opened for inference: training is 0");
    if (!of) return stk_fail(err, STOKE_E_INVALID, "gradients cannot be divided by 0");
    int status = stk_net_check_batch(net, batch, 1, err);
    if (status) return status;
    double unasked;
    if (!loss) loss = &unasked;
    const float factor = (float)(net->state.loss_scale / of);
    net->draw = draw;
    net_logits(net, batch, 1);
    status = stk_net_loss(net, batch, factor, loss, stk_net_tensor(net, net->tape.d_logits), err);
    stk_tape_profile_lap(&net->parts, STK_PART_LOSS);
    if (status) return status; /* as if it had not been called */
    judge(net, batch, factor, loss);
    if (statistics && statistics != net->statistics)
        memcpy(statistics, net->statistics, stoke_net_statistics(net) * sizeof *statistics);
    return STOKE_OK;
}

void stoke_net_divide(stoke_net *net, double divisor)
{
    net->divisor = divisor;
}

double stoke_net_leaf_weight(const stoke_net *net)
{
    return net->weight;
}

void stoke_net_multiply(stoke_net *net, double factor)
{
    net->factor = factor;
}

void stoke_net_leaf_back(stoke_net *net, const stoke_net_batch *batch, int add)
{
    stk_tape_profile_start(&net->parts);
    net->run.accumulate = add;
    stk_net_backward(net, batch);
    net->have_gradients = 1;
}

void stoke_net_leaf_none(stoke_net *net)
{
    memset(net->gradients, 0, net->parameters.trainable * sizeof *net->gradients);
    net->have_gradients = 1;
}

/* Neighbours in the list with the same rates are one group. */
static stk_update update_of(stoke_net *net, const stoke_update *settings)
{
    stk_update u = { .values = net->values,
                     .gradients = net->gradients,
                     .first = net->first,
                     .second = net->second,
                     .average = net->average,
                     .groups = net->groups,
                     .count = net->parameters.trainable };
    for (size_t i = 0; i < net->parameters.count; i++) {
        const stk_parameter *p = &net->parameters.list[i];
        if (!p->trainable) continue;
        const int frozen = net->params.freeze_encoder && !p->head;
        const float lr = frozen ? 0 : p->head ? (float)settings->head_lr : 1;
        const float decay = frozen || p->norm ? 0 : 1;
        stk_update_group *last = u.group_count ? &net->groups[u.group_count - 1] : NULL;
        if (!last || last->lr_factor != lr || last->decay_factor != decay) {
            last = &net->groups[u.group_count++];
            *last = (stk_update_group){ .first = p->offset, .lr_factor = lr, .decay_factor = decay };
        }
        /* up to the next tensor: the gap between them is 0 and stays 0 */
        const size_t end = i + 1 < net->parameters.count && net->parameters.list[i + 1].trainable
                               ? net->parameters.list[i + 1].offset
                               : net->parameters.trainable;
        last->count = end - last->first;
    }
    return u;
}

/* fp16: a scale too large makes gradients infinite, one too small lets them vanish. */
static void follow_scale(stoke_net *net, int overflow)
{
    stoke_net_state *state = &net->state;
    if (net->plan.precision != STOKE_PRECISION_FP16) return;
    if (overflow) {
        if (state->loss_scale > 1) state->loss_scale /= 2;
        state->good_steps = 0;
    } else if (++state->good_steps == SCALE_GROWS_AFTER) {
        state->loss_scale *= 2;
        state->good_steps = 0;
    }
}

static int check_update(const stoke_net *net, const stoke_update *u, stoke_error *err)
{
    if (!net->params.training)
        return stk_fail(err, STOKE_E_STATE, "this network was opened for inference: training is 0");
    if (!net->have_gradients)
        return stk_fail(err, STOKE_E_STATE, "no gradients to step along: call stoke_net_backward first");
    if (!isfinite(u->lr) || u->lr < 0 || !isfinite(u->head_lr) || u->head_lr < 0 ||
        !isfinite(u->weight_decay) || u->weight_decay < 0 || !(u->clip_norm >= 0))
        return stk_fail(err, STOKE_E_INVALID, "rates, decay and the norm to clip at are 0 or more");
    if (!(u->average_decay >= 0 && u->average_decay <= 1))
        return stk_fail(err, STOKE_E_INVALID, "average_decay is %g: 0 to 1 will do", u->average_decay);
    /* 0 / 0 for every weight that has had no gradient yet. In f32 it must not vanish either. */
    if (net->params.optimizer == STOKE_OPTIMIZER_ADAMW && !(isfinite(u->eps) && (float)u->eps > 0))
        return stk_fail(err, STOKE_E_INVALID, "eps is %g: AdamW divides by it, so it is above 0", u->eps);
    if (!(u->beta1 >= 0 && u->beta1 < 1 && u->beta2 >= 0 && u->beta2 < 1))
        return stk_fail(err, STOKE_E_INVALID, "beta1 is %g and beta2 %g: 0 or more, below 1", u->beta1,
                        u->beta2);
    return STOKE_OK;
}

int stoke_net_step(stoke_net *net, const stoke_update *settings, stoke_step_report *report, stoke_error *err)
{
    const stoke_update defaults = stoke_update_defaults();
    if (!settings) settings = &defaults;
    const uint32_t chunks = stoke_net_chunks(net);
    const int status = stoke_net_squares(net, settings, 0, chunks, net->squares, err);
    if (status) return status;
    stoke_net_step_begin(net, settings, net->squares, report);
    stoke_net_step_chunks(net, settings, 0, chunks);
    return STOKE_OK;
}

uint32_t stoke_net_chunks(const stoke_net *net)
{
    return stk_update_chunks(net->parameters.trainable);
}

int stoke_net_squares(stoke_net *net, const stoke_update *settings, uint32_t first, uint32_t end,
                      double *squares, stoke_error *err)
{
    const int status = check_update(net, settings, err);
    if (status) return status;
    stk_tape_profile_start(&net->parts);
    const stk_update update = update_of(net, settings);
    stk_gradient_squares(&net->run, &update, first, end, squares);
    return STOKE_OK;
}

void stoke_net_step_begin(stoke_net *net, const stoke_update *settings, const double *squares,
                          stoke_step_report *report)
{
    const double scale = net->state.loss_scale;
    net->step_factor = net->factor / scale;
    const double norm = stk_gradient_norm(squares, stoke_net_chunks(net), net->step_factor);
    const int overflow = !isfinite(norm);
    if (!overflow) {
        /* the 1e-6 is clip_grad_norm_'s */
        if (settings->clip_norm > 0) net->step_factor *= fmin(1, settings->clip_norm / (norm + 1e-6));
        net->state.step++;
        net->head_packed = 0;
        /* 3x3 convolutions are packed all together, those of the head, too. */
        net->layers_packed = net->params.freeze_encoder && !net->parameters.conv3_count && net->layers_packed;
    }
    net->step_skipped = overflow;
    follow_scale(net, overflow);
    net->have_gradients = 0;
    net->factor = 1;
    if (report)
        *report = (stoke_step_report){
            .step = net->state.step, .gradient_norm = norm, .loss_scale = scale, .skipped = overflow
        };
}

void stoke_net_step_chunks(stoke_net *net, const stoke_update *settings, uint32_t first, uint32_t end)
{
    const stk_update update = update_of(net, settings);
    if (!net->step_skipped)
        stk_update_run(&net->run, &update, first, end, settings, net->state.step, net->step_factor);
    stk_tape_profile_lap(&net->parts, STK_PART_UPDATE);
}

stoke_net_arrays stoke_net_arrays_of(const stoke_net *net)
{
    return (stoke_net_arrays){ .values = net->values,
                               .gradients = net->gradients,
                               .first = net->first,
                               .second = net->second,
                               .average = net->average,
                               .floats = net->parameters.floats,
                               .trained = net->parameters.trainable };
}

stoke_update stoke_update_defaults(void)
{
    return (stoke_update){ .lr = 6e-5,
                           .beta1 = 0.9,
                           .beta2 = 0.999,
                           .eps = 1e-8,
                           .weight_decay = 0.01,
                           .head_lr = 10,
                           .average_decay = 0.999 };
}
