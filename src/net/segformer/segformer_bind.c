/* SPDX-License-Identifier: Apache-2.0
 *
 * Connects the operations with the parameters, by Hugging Face's names.
 */
#include <stdio.h>
#include <string.h>

#include "src/base/error.h"
#include "src/net/net.h"

static const float LAYERNORM_EPS = 1e-5f; /* nn.LayerNorm's own: config.json's 1e-6 is never used */

/* Looks names up; remembers the first that is not there. */
typedef struct binder {
    stoke_net *net;
    int frozen; /* what is bound now takes no gradients */
    char missing[2 * STK_NAME];
} binder;

typedef struct place {
    float *values, *gradients; /* NULL while measuring; gradients NULL for what is not trained */
} place;

static place find(binder *b, const char *module, const char *leaf)
{
    char name[2 * STK_NAME];
    snprintf(name, sizeof name, "%s.%s", module, leaf);
    const stk_parameter *p = stk_parameters_find(&b->net->parameters, name);
    if (!p) {
        if (!b->missing[0]) memcpy(b->missing, name, sizeof name);
        return (place){ 0 };
    }
    place at = { 0 };
    if (b->net->values) at.values = b->net->values + p->offset;
    if (b->net->gradients && p->trainable && !b->frozen) at.gradients = b->net->gradients + p->offset;
    return at;
}

static void bind_norm(binder *b, stk_layernorm *norm, uint32_t channels, const char *module)
{
    const place gamma = find(b, module, "weight"), beta = find(b, module, "bias");
    *norm = (stk_layernorm){ .channels = channels,
                             .eps = LAYERNORM_EPS,
                             .gamma = gamma.values,
                             .beta = beta.values,
                             .d_gamma = gamma.gradients,
                             .d_beta = beta.gradients };
}

/* A layer of one or two parts. Packed forms stay as they are: they are laid out afterwards. */
static void bind_linear(binder *b, stk_linear *linear, uint32_t in, uint32_t out, uint32_t taps,
                        const char *module, const char *second)
{
    *linear =
        (stk_linear){ .in = in, .out = out, .taps = taps, .parts = second ? 2 : 1, .weight_stride = in };
    for (uint32_t part = 0; part < linear->parts; part++) {
        const place weight = find(b, part ? second : module, "weight"),
                    bias = find(b, part ? second : module, "bias");
        linear->weight[part] = weight.values;
        linear->d_weight[part] = weight.gradients;
        linear->bias[part] = bias.values;
        linear->d_bias[part] = bias.gradients;
    }
    b->net->linears[b->net->linear_count++] = linear;
}

static void bind_block(binder *b, const stk_segformer_stage *s, stk_segformer_block *block, uint32_t stage,
                       uint32_t index)
{
    const uint32_t c = s->channels, taps = s->reduction * s->reduction;
    char m[STK_NAME], second[STK_NAME];
    const int n = snprintf(m, sizeof m, "segformer.encoder.block.%u.%u.", (unsigned)stage, (unsigned)index);
#define MODULE(text) (memcpy(m + n, text, sizeof text), m)
    bind_norm(b, &block->norm1, c, MODULE("layer_norm_1"));
    bind_linear(b, &block->query, c, c, 1, MODULE("attention.self.query"), NULL);
    memcpy(second, MODULE("attention.self.value"), sizeof second);
    bind_linear(b, &block->key_value, c, 2 * c, 1, MODULE("attention.self.key"), second);
    if (s->reduction > 1) {
        bind_linear(b, &block->reduction, taps * c, c, taps, MODULE("attention.self.sr"), NULL);
        bind_norm(b, &block->norm_reduced, c, MODULE("attention.self.layer_norm"));
    }
    bind_linear(b, &block->output, c, c, 1, MODULE("attention.output.dense"), NULL);
    bind_norm(b, &block->norm2, c, MODULE("layer_norm_2"));
    bind_linear(b, &block->expand, c, s->hidden, 1, MODULE("mlp.dense1"), NULL);
    bind_linear(b, &block->contract, s->hidden, c, 1, MODULE("mlp.dense2"), NULL);
    const place weight = find(b, MODULE("mlp.dwconv.dwconv"), "weight"),
                bias = find(b, MODULE("mlp.dwconv.dwconv"), "bias");
#undef MODULE
    block->depthwise = (stk_depthwise){ .channels = s->hidden,
                                        .weight = weight.values,
                                        .bias = bias.values,
                                        .d_weight = weight.gradients,
                                        .d_bias = bias.gradients };
}

static void bind_stage(binder *b, uint32_t index)
{
    const stk_segformer_config *config = &b->net->config;
    stk_segformer_stage *s = &b->net->stages[index];
    const uint32_t below = index ? config->hidden[index - 1] : 3,
                   taps = config->patch[index] * config->patch[index];
    char module[STK_NAME];
    snprintf(module, sizeof module, "segformer.encoder.patch_embeddings.%u.proj", (unsigned)index);
    bind_linear(b, &s->embed, taps * below, s->channels, taps, module, NULL);
    snprintf(module, sizeof module, "segformer.encoder.patch_embeddings.%u.layer_norm", (unsigned)index);
    bind_norm(b, &s->embed_norm, s->channels, module);
    snprintf(module, sizeof module, "segformer.encoder.layer_norm.%u", (unsigned)index);
    bind_norm(b, &s->norm, s->channels, module);
    for (uint32_t i = 0; i < s->depth; i++) bind_block(b, s, &s->blocks[i], index, i);
}

static void bind_head(binder *b)
{
    stoke_net *net = b->net;
    stk_segformer_head *h = &net->head;
    *h = (stk_segformer_head){ .batch = net->params.batch,
                               .size = net->config.decoder,
                               .classes = net->config.classes,
                               .training = net->params.training };
    for (uint32_t i = 0; i < STK_STAGES; i++) {
        h->height[i] = net->stages[i].height;
        h->width[i] = net->stages[i].width;
        h->channels[i] = net->stages[i].channels;
        char module[STK_NAME];
        snprintf(module, sizeof module, "decode_head.linear_c.%u.proj", (unsigned)i);
        const place weight = find(b, module, "weight"), bias = find(b, module, "bias");
        h->linear_weight[i] = weight.values;
        h->d_linear_weight[i] = weight.gradients;
        h->linear_bias[i] = bias.values;
        h->d_linear_bias[i] = bias.gradients;
    }
    const place fuse = find(b, "decode_head.linear_fuse", "weight"),
                gamma = find(b, "decode_head.batch_norm", "weight"),
                beta = find(b, "decode_head.batch_norm", "bias"),
                weight = find(b, "decode_head.classifier", "weight"),
                bias = find(b, "decode_head.classifier", "bias");
    h->fuse_weight = fuse.values;
    h->d_fuse_weight = fuse.gradients;
    h->norm_gamma = gamma.values;
    h->d_norm_gamma = gamma.gradients;
    h->norm_beta = beta.values;
    h->d_norm_beta = beta.gradients;
    h->classifier_weight = weight.values;
    h->d_classifier_weight = weight.gradients;
    h->classifier_bias = bias.values;
    h->d_classifier_bias = bias.gradients;
    h->running_mean = find(b, "decode_head.batch_norm", "running_mean").values;
    h->running_variance = find(b, "decode_head.batch_norm", "running_var").values;
}

int stk_net_bind(stoke_net *net, stoke_error *err)
{
    binder b = { .net = net, .frozen = net->params.freeze_encoder };
    net->linear_count = 0;
    for (uint32_t i = 0; i < STK_STAGES; i++) bind_stage(&b, i);
    b.frozen = 0;
    bind_head(&b);
    return b.missing[0] ? stk_fail(err, STOKE_E_STATE, "the network has no parameter %s", b.missing)
                        : STOKE_OK;
}
