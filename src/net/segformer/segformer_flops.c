/* SPDX-License-Identifier: Apache-2.0
 *
 * The plan: bytes as the arena measured them, and floating-point operations by shape.
 */
#include <string.h>
#include <stoke/tools/net.h>

#include "src/base/machine.h"
#include "src/base/option_table.h"
#include "src/net/net.h"

/* Operations of a part of the network: forward, and what backward adds. Elementwise work is not counted. */
typedef struct work {
    double forward, backward;
} work;

static work sum(work a, work b)
{
    return (work){ a.forward + b.forward, a.backward + b.backward };
}

/* `gradients`: how many the backward pass takes (1: of the weights, 2: of the input too). */
static work product(double rows, double in, double out, int gradients)
{
    const double once = 2 * rows * in * out;
    return (work){ once, gradients * once };
}

static work linear_work(const stk_linear *linear, size_t rows, int gradients)
{
    return product((double)rows, linear->in, linear->out, gradients);
}

static work block_work(const stk_segformer_stage *s, uint32_t count)
{
    const stk_segformer_block *b = &s->blocks[0];
    const size_t rows = stk_segformer_stage_rows(s, count), keys = stk_segformer_stage_keys(s, count);
    work w = sum(linear_work(&b->query, rows, 2), linear_work(&b->key_value, keys, 2));
    if (s->reduction > 1) w = sum(w, linear_work(&b->reduction, keys, 2));
    w = sum(w, linear_work(&b->expand, rows, 2));
    const double projections = w.forward, depthwise = 2.0 * 9 * (double)rows * s->hidden;
    w = sum(w, sum(linear_work(&b->output, rows, 2), linear_work(&b->contract, rows, 2)));
    w = sum(w, (work){ depthwise, 3 * depthwise }); /* backward it makes h2 again */
    /* scores and context; backward the scores once more and four gradients */
    const double scores = 2.0 * (double)rows * s->channels * s->reduced_height * s->reduced_width;
    w = sum(w, (work){ 2 * scores, 5 * scores });
    if (s->recompute_projections) w.backward += projections;
    if (s->recompute_hidden) w.backward += depthwise; /* for the weights of contract */
    return w;
}

/* Folded: M_i of weights alone, then maps. */
static work head_work(const stoke_net *net)
{
    const double size = net->config.decoder;
    const size_t largest = stk_segformer_stage_rows(&net->stages[0], net->params.batch);
    work w = product((double)largest, size, net->config.classes, 2);
    for (int i = 0; i < STK_STAGES; i++) {
        const stk_segformer_stage *s = &net->stages[i];
        w = sum(w, product((double)stk_segformer_stage_rows(s, net->params.batch), s->channels, size, 2));
        w = sum(w, product(size, size, s->channels, 2));
    }
    if (net->params.freeze_encoder)
        for (int i = 0; i < STK_STAGES; i++)
            w.backward -= product((double)stk_segformer_stage_rows(&net->stages[i], net->params.batch),
                                  net->stages[i].channels, size, 1)
                              .backward;
    return w;
}

static work all_work(const stoke_net *net)
{
    work encoder = { 0 };
    for (int i = 0; i < STK_STAGES; i++) {
        const stk_segformer_stage *s = &net->stages[i];
        const work block = block_work(s, net->params.batch);
        encoder =
            sum(encoder, linear_work(&s->embed, stk_segformer_stage_rows(s, net->params.batch), i ? 2 : 1));
        encoder = sum(encoder, (work){ s->depth * block.forward, s->depth * block.backward });
    }
    if (net->params.freeze_encoder) encoder.backward = 0;
    return sum(encoder, head_work(net));
}

void stk_net_plan_make(stoke_net *net)
{
    stoke_net_plan *plan = &net->plan;
    const size_t *bytes = net->arena.most;
    plan->parameters = bytes[STK_REGION_PARAMETERS];
    plan->packed = bytes[STK_REGION_PACKED];
    plan->activations = bytes[STK_REGION_ACTIVATIONS];
    plan->workspace = bytes[STK_REGION_WORKSPACE];
    plan->process = stk_machine_rss("/proc");
    plan->total = plan->process + stk_activation_arena_bytes(&net->arena);
    plan->parameter_count = net->parameters.elements;
    plan->model = net->config.model;
    plan->classes = net->config.classes;
    const work w = all_work(net);
    plan->forward_flops = w.forward;
    plan->step_flops = net->params.training ? w.forward + w.backward : w.forward;
}

const char *stoke_precision_name(int precision)
{
    switch ((stoke_precision)precision) {
    case STOKE_PRECISION_FP32: return "fp32";
    case STOKE_PRECISION_BF16: return "bf16";
    case STOKE_PRECISION_FP16: return "fp16";
    case STOKE_PRECISION_AUTO: break;
    }
    return "auto";
}

int stoke_precision_named(const char *word)
{
    const char *ours = stk_option_word("precision", word);
    for (int i = STOKE_PRECISION_FP32; i <= STOKE_PRECISION_AUTO; i++)
        if (!strcmp(ours, stoke_precision_name(i))) return i;
    return -1;
}
