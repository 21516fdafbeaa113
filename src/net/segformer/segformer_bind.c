/* SPDX-License-Identifier: Apache-2.0
 *
 * The shapes of all layers, and the addresses of their parameters.
 */
#include <string.h>

#include "src/net/net.h"

static stk_layernorm norm_of(uint32_t channels)
{
    /* nn.LayerNorm's own eps: config.json's 1e-6 is never used */
    return (stk_layernorm){ .channels = channels, .eps = 1e-5f };
}

static void shape_linear(stoke_net *net, stk_linear *linear, uint32_t in, uint32_t out, uint32_t taps,
                         uint32_t parts)
{
    *linear = (stk_linear){ .in = in, .out = out, .taps = taps, .parts = parts, .weight_stride = in };
    net->linears[net->linear_count++] = linear;
}

static void shape_block(stoke_net *net, const stk_segformer_stage *s, stk_segformer_block *b)
{
    const uint32_t c = s->channels, taps = s->reduction * s->reduction;
    b->norm1 = b->norm_reduced = b->norm2 = norm_of(c);
    shape_linear(net, &b->query, c, c, 1, 1);
    shape_linear(net, &b->key_value, c, 2 * c, 1, 2);
    if (s->reduction > 1) shape_linear(net, &b->reduction, taps * c, c, taps, 1);
    shape_linear(net, &b->output, c, c, 1, 1);
    shape_linear(net, &b->expand, c, s->hidden, 1, 1);
    shape_linear(net, &b->contract, s->hidden, c, 1, 1);
    b->depthwise.channels = s->hidden;
}

void stk_net_shape_layers(stoke_net *net)
{
    stk_segformer_head *h = &net->head;
    *h = (stk_segformer_head){ .batch = net->params.batch,
                               .size = net->config.decoder,
                               .classes = net->config.classes,
                               .training = net->params.training };
    for (uint32_t i = 0; i < STK_STAGES; i++) {
        stk_segformer_stage *s = &net->stages[i];
        const uint32_t taps = s->patches.kernel * s->patches.kernel;
        shape_linear(net, &s->embed, taps * s->patches.channels, s->channels, taps, 1);
        s->embed_norm = s->norm = norm_of(s->channels);
        for (uint32_t k = 0; k < s->depth; k++) shape_block(net, s, &s->blocks[k]);
        h->height[i] = s->height;
        h->width[i] = s->width;
        h->channels[i] = s->channels;
    }
}

void stk_net_bind(stoke_net *net)
{
    for (size_t i = 0; i < net->parameters.count; i++) {
        const stk_parameter *p = &net->parameters.list[i];
        char *owner = p->owner < STK_OWNER_HEAD    ? (char *)&net->stages[p->owner]
                      : p->owner == STK_OWNER_HEAD ? (char *)&net->head
                                                   : (char *)&net->blocks[p->owner - STK_OWNER_BLOCKS];
        float *values = net->values ? net->values + p->offset : NULL;
        memcpy(owner + p->values_slot, &values, sizeof values);
        if (!p->trainable || (net->params.freeze_encoder && !p->head)) continue;
        float *gradients = net->gradients ? net->gradients + p->offset : NULL;
        memcpy(owner + p->gradients_slot, &gradients, sizeof gradients);
    }
}
