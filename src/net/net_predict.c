/* SPDX-License-Identifier: Apache-2.0
 *
 * What prediction needs of a network besides its logits.
 */
#include "src/net/net.h"

#include <string.h>

const stoke_net_params *stoke_net_params_used(const stoke_net *net)
{
    return &net->params;
}

const char *stoke_net_label(const stoke_net *net, uint32_t id)
{
    return net->labels && id < net->config.classes ? net->labels[id] : NULL;
}

void stoke_net_run(const stoke_net *net, void (*work)(const void *context, uint32_t task, uint32_t thread),
                   const void *context, uint32_t tasks)
{
    stk_threadpool_run(net->run.pool, work, context, tasks);
}

void stoke_net_copy(stoke_net *to, const stoke_net *from)
{
    memcpy(to->values, from->values, from->parameters.floats * sizeof *from->values);
    stoke_net_touched(to);
}

/* ---- classes ---- */

static stk_loss_shape shape_of(const stoke_logits *logits, uint32_t height, uint32_t width)
{
    return (stk_loss_shape){ .batch = 1,
                             .classes = logits->classes,
                             .in_height = logits->height,
                             .in_width = logits->width,
                             .height = height,
                             .width = width };
}

size_t stoke_net_class_room(const stoke_logits *logits, uint32_t height, uint32_t width)
{
    const stk_loss_shape shape = shape_of(logits, height, width);
    return stk_loss_room(&shape);
}

void stoke_net_classes_of(const stoke_net *net, const stoke_logits *logits, uint32_t height, uint32_t width,
                          void *room, uint16_t *classes)
{
    const stk_loss_shape shape = shape_of(logits, height, width);
    stk_loss_bind(&shape, room);
    /* Of the thread's scratch it takes two planes, [classes][lanes], whatever the shape: the network's own is
     * enough. */
    stk_classes_of(&net->run, &shape, room, logits->data, classes);
}

/* ---- loss ---- */

void stoke_net_ignore(stoke_net *net, int64_t ignore_index)
{
    net->params.loss.ignore_index = ignore_index;
}

int stoke_net_item_loss(stoke_net *net, uint32_t item, const void *mask, stoke_dtype dtype, double *loss,
                        stoke_error *err)
{
    stk_loss_shape shape = net->loss_shape;
    const size_t picture = (size_t)shape.in_height * shape.in_width * stk_logits_stride(shape.classes);
    const stk_loss_truth truth = {
        .masks = mask,
        .dtype = dtype,
        .row_bytes = (size_t)shape.height * shape.width * stoke_dtype_bytes(dtype),
    };
    shape.batch = 1;
    return stk_loss(&net->run, &net->params.loss, &shape, net->loss_room,
                    stk_net_logits(net) + item * picture, &truth, 1, loss, NULL, err);
}
