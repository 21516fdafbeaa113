/* SPDX-License-Identifier: Apache-2.0
 *
 * Where everything lies.
 *
 *   parameters    masters, gradients, moments, average
 *   packed        weights as the kernels want them
 *   activations   what a training pass keeps. Of every block x, x1, context, statistics, and by mode
 *                   plain: q, kv, h1, h3
 *                   lean:  q, kv, h1
 *                   min:   none of them
 *   workspace     what lives shorter
 *
 * In the workspace the head's maps share memory with the stages' buffers, the stages with each other, and
 * within a stage attention, MLP and embedding: each is finished before the next begins, forward and backward.
 */
#include <string.h>

#include "src/net/net.h"

static void *take(stoke_net *net, stk_arena_region region, size_t count, size_t bytes)
{
    return stk_activation_arena_take(&net->arena, region, count, bytes);
}

/* A map of f32, or of the run's type. */
static float *floats(stoke_net *net, stk_arena_region region, size_t count)
{
    return take(net, region, count, sizeof(float));
}

static void *typed(stoke_net *net, stk_arena_region region, size_t count)
{
    return take(net, region, count, stk_float_bytes(net->run.type));
}

static void lay_parameters(stoke_net *net)
{
    const stk_arena_region region = STK_REGION_PARAMETERS;
    const stk_parameters *p = &net->parameters;
    net->values = floats(net, region, p->floats);
    if (!net->params.training) return;
    net->gradients = floats(net, region, p->trainable);
    net->first = floats(net, region, p->trainable);
    if (net->params.optimizer == STOKE_OPTIMIZER_ADAMW) net->second = floats(net, region, p->trainable);
    /* With room for the running statistics, so that it can be saved as a whole. */
    if (net->params.average) net->average = floats(net, region, p->floats);
    net->groups = take(net, region, p->count, sizeof *net->groups);
}

/* Inputs get gradients everywhere but below the first layer, and in a frozen encoder nowhere. */
static void lay_packed(stoke_net *net)
{
    const int backward = net->params.training && !net->params.freeze_encoder;
    for (size_t i = 0; i < net->linear_count; i++) {
        stk_linear *linear = (stk_linear *)net->linears[i];
        linear->forward = take(net, STK_REGION_PACKED, stk_linear_packed(&net->run, linear, 0), sizeof(char));
        if (backward && linear != &net->stages[0].embed)
            linear->backward =
                take(net, STK_REGION_PACKED, stk_linear_packed(&net->run, linear, 1), sizeof(char));
    }
    for (uint32_t i = 0; i < net->block_count; i++)
        net->blocks[i].depthwise.packed =
            floats(net, STK_REGION_PACKED, 10 * (size_t)net->blocks[i].depthwise.channels);
}

/* A frozen encoder works as in inference. */
static int encoder_trains(const stoke_net *net)
{
    return net->params.training && !net->params.freeze_encoder;
}

/* What a block keeps whatever the mode, then what it keeps or shares by it. */
static void lay_block(stoke_net *net, const stk_segformer_stage *s, stk_segformer_block *b,
                      const stk_segformer_block *shared)
{
    const stk_arena_region region = STK_REGION_ACTIVATIONS;
    const size_t rows = stk_segformer_stage_rows(s, net->params.batch),
                 keys = stk_segformer_stage_keys(s, net->params.batch);
    b->x1 = floats(net, region, rows * s->channels);
    b->x2 = floats(net, region, rows * s->channels);
    b->stats1 = floats(net, region, rows * 2);
    b->stats2 = floats(net, region, rows * 2);
    if (s->reduction > 1) {
        b->reduced = floats(net, region, keys * s->channels);
        b->stats_reduced = floats(net, region, keys * 2);
    }
    b->context = typed(net, region, rows * s->channels);
    b->log_sum = floats(net, region, rows * s->heads);
    b->q = s->recompute_projections ? shared->q : typed(net, region, rows * s->channels);
    b->kv = s->recompute_projections ? shared->kv : typed(net, region, keys * 2 * s->channels);
    b->h1 = s->recompute_projections ? shared->h1 : typed(net, region, rows * s->hidden);
    b->h3 = s->recompute_hidden ? NULL : typed(net, region, rows * s->hidden);
}

/* Inference: nothing is the block's own. */
static void share_block(stk_segformer_block *b, const stk_segformer_block *shared)
{
    b->x1 = b->x2 = shared->x;
    b->stats1 = shared->stats1;
    b->stats2 = shared->stats2;
    b->reduced = shared->reduced;
    b->stats_reduced = shared->stats_reduced;
    b->context = shared->context;
    b->log_sum = NULL;
    b->q = shared->q;
    b->kv = shared->kv;
    b->h1 = shared->h1;
    b->h3 = NULL;
}

/* The three phases of a stage, one over the other. */
static void lay_mlp(stoke_net *net, stk_segformer_stage *s, stk_segformer_block *shared)
{
    const stk_arena_region region = STK_REGION_WORKSPACE;
    const size_t wide = stk_segformer_stage_rows(s, net->params.batch) * s->hidden;
    if (!encoder_trains(net) || s->recompute_projections) shared->h1 = typed(net, region, wide);
    if (!encoder_trains(net)) return;
    s->d_h3 = typed(net, region, wide);
    s->d_h1 = typed(net, region, wide);
}

static void lay_attention(stoke_net *net, stk_segformer_stage *s, stk_segformer_block *shared)
{
    const stk_arena_region region = STK_REGION_WORKSPACE;
    const size_t keys = stk_segformer_stage_keys(s, net->params.batch), key_map = keys * s->channels,
                 map = stk_segformer_stage_rows(s, net->params.batch) * s->channels;
    s->n1 = typed(net, region, map);
    if (!encoder_trains(net) || s->recompute_projections) {
        shared->q = typed(net, region, map);
        shared->kv = typed(net, region, 2 * key_map);
    }
    if (!encoder_trains(net)) {
        shared->context = typed(net, region, map);
        shared->reduced = floats(net, region, key_map);
        shared->stats_reduced = floats(net, region, keys * 2);
        return;
    }
    s->d_context = typed(net, region, map);
    s->d_q = typed(net, region, map);
    s->d_kv = typed(net, region, 2 * key_map);
    if (s->reduction == 1) return;
    s->d_keys = typed(net, region, key_map);
    s->d_reduced = floats(net, region, key_map);
    s->d_patches = typed(net, region, keys * s->blocks[0].reduction.in);
}

static void lay_embedding(stoke_net *net, stk_segformer_stage *s)
{
    const size_t rows = stk_segformer_stage_rows(s, net->params.batch), map = rows * s->channels;
    if (encoder_trains(net)) {
        s->embedded = floats(net, STK_REGION_ACTIVATIONS, map);
        s->embed_stats = floats(net, STK_REGION_ACTIVATIONS, rows * 2);
        s->stats = floats(net, STK_REGION_ACTIVATIONS, rows * 2);
        s->d_embedded = floats(net, STK_REGION_WORKSPACE, map);
        if (s != &net->stages[0]) s->d_rows = typed(net, STK_REGION_WORKSPACE, rows * s->embed.in);
    } else {
        s->embedded = floats(net, STK_REGION_WORKSPACE, map);
        s->embed_stats = s->stats = floats(net, STK_REGION_WORKSPACE, rows * 2);
    }
}

static void lay_stage(stoke_net *net, stk_segformer_stage *s)
{
    stk_activation_arena *arena = &net->arena;
    const stk_arena_region region = STK_REGION_WORKSPACE;
    const size_t rows = stk_segformer_stage_rows(s, net->params.batch), map = rows * s->channels,
                 outer = stk_activation_arena_mark(arena, region);
    const int trains = encoder_trains(net);
    stk_segformer_block shared = { 0 };
    s->recompute_hidden = trains && net->params.memory >= STOKE_MEMORY_LEAN;
    s->recompute_projections = trains && net->params.memory >= STOKE_MEMORY_MIN;
    float *x = floats(net, trains ? STK_REGION_ACTIVATIONS : region, map);
    if (trains) {
        s->d_x = floats(net, region, map);
        s->d_n = typed(net, region, map);
    } else {
        shared.x = x;
        shared.stats1 = shared.stats2 = floats(net, region, rows * 2);
    }
    const size_t inner = stk_activation_arena_mark(arena, region);
    lay_embedding(net, s);
    stk_activation_arena_release(arena, region, inner);
    lay_attention(net, s, &shared);
    stk_activation_arena_release(arena, region, inner);
    lay_mlp(net, s, &shared);
    stk_activation_arena_release(arena, region, outer);
    for (uint32_t i = 0; i < s->depth; i++) {
        stk_segformer_block *b = &s->blocks[i];
        if (trains)
            lay_block(net, s, b, &shared);
        else
            share_block(b, &shared);
        b->x = x;
        x = b->x2;
    }
}

/* Features and their gradients outlive the stages; y and logits do not outlive the head. */
static void lay_maps(stoke_net *net)
{
    const stk_arena_region region = STK_REGION_WORKSPACE;
    const uint32_t batch = net->params.batch;
    for (int i = 0; i < STK_STAGES; i++) {
        stk_segformer_stage *s = &net->stages[i];
        const size_t map = stk_segformer_stage_rows(s, batch) * s->channels;
        s->feature = typed(net, net->params.training ? STK_REGION_ACTIVATIONS : region, map);
        if (encoder_trains(net)) s->d_feature = floats(net, region, map);
    }
    const size_t mark = stk_activation_arena_mark(&net->arena, region),
                 rows = stk_segformer_stage_rows(&net->stages[0], batch),
                 logits = rows * stk_logits_stride(net->config.classes);
    net->logits = floats(net, region, logits);
    if (net->params.training) { /* in inference the head stores neither */
        net->y = typed(net, region, rows * net->config.decoder);
        net->d_y = typed(net, region, rows * net->config.decoder);
        net->d_logits = floats(net, region, logits);
    }
    stk_activation_arena_release(&net->arena, region, mark);
    for (int i = 0; i < STK_STAGES; i++) lay_stage(net, &net->stages[i]);
}

/* Per sample and branch; blocks that drop nothing need none. */
static void lay_drop_factors(stoke_net *net)
{
    for (uint32_t i = 0; i < net->block_count; i++)
        for (int branch = 0; branch < 2; branch++)
            net->blocks[i].drop_factor[branch] = net->params.training && net->blocks[i].drop > 0
                                                     ? floats(net, STK_REGION_WORKSPACE, net->params.batch)
                                                     : NULL;
}

static stk_exec_need need_of_stage(const stoke_net *net, const stk_segformer_stage *s, uint32_t count)
{
    const stk_exec *run = &net->run;
    const size_t rows = stk_segformer_stage_rows(s, count), keys = stk_segformer_stage_keys(s, count);
    const stk_segformer_block *b = &s->blocks[0]; /* all blocks of a stage are alike */
    const stk_attention attention = stk_segformer_stage_attention(s, count);
    const stk_depthwise_map map = { .batch = count, .height = s->height, .width = s->width };
    const stk_exec_need needs[] = {
        stk_linear_need(run, &s->embed, rows),
        stk_linear_need(run, &b->query, rows),
        stk_linear_need(run, &b->key_value, keys),
        s->reduction > 1 ? stk_linear_need(run, &b->reduction, keys) : (stk_exec_need){ 0 },
        stk_linear_need(run, &b->output, rows),
        stk_linear_need(run, &b->expand, rows),
        stk_linear_need(run, &b->contract, rows),
        stk_layernorm_need(run, &s->norm, rows),
        s->reduction > 1 ? stk_layernorm_need(run, &b->norm_reduced, keys) : (stk_exec_need){ 0 },
        stk_attention_need(run, &attention),
        stk_depthwise_need(run, &b->depthwise, map),
    };
    stk_exec_need most = { 0 };
    for (size_t i = 0; i < sizeof needs / sizeof *needs; i++) most = stk_need_most(most, needs[i]);
    return most;
}

/* Of the hungriest operation at every size of a batch: how work is cut depends on the rows there are, so the
 * largest batch need not need the most. */
static stk_exec_need need_of_all(stoke_net *net)
{
    stk_exec_need most = { 0 };
    stk_segformer_head head = net->head;
    for (uint32_t count = 1; count <= net->params.batch; count++) {
        for (int i = 0; i < STK_STAGES; i++)
            most = stk_need_most(most, need_of_stage(net, &net->stages[i], count));
        head.batch = net->loss_shape.batch = count;
        most = stk_need_most(most, stk_segformer_head_need(&net->run, &head));
        most = stk_need_most(most, stk_loss_need(&net->run, &net->loss_shape));
    }
    if (net->params.training) {
        const stk_update update = { .count = net->parameters.trainable };
        most = stk_need_most(most, stk_update_need(&net->run, &update));
    }
    return most;
}

static void lay_run(stoke_net *net)
{
    enum { LINE = 64 };
    const stk_exec_need need = need_of_all(net);
    net->run.scratch_each = (need.scratch + LINE - 1) / LINE * LINE;
    net->run.scratch = take(net, STK_REGION_WORKSPACE, net->run.threads, net->run.scratch_each);
    net->run.partial_floats = need.partial;
    net->run.partial = floats(net, STK_REGION_WORKSPACE, need.partial);
}

void stk_net_lay_out(stoke_net *net)
{
    lay_parameters(net);
    stk_net_bind(net);
    lay_packed(net);
    net->head.room =
        take(net, STK_REGION_WORKSPACE, stk_segformer_head_room(&net->run, &net->head), sizeof(char));
    net->loss_room = take(net, STK_REGION_WORKSPACE, stk_loss_room(&net->loss_shape), sizeof(char));
    net->saved_running =
        floats(net, STK_REGION_WORKSPACE, net->parameters.floats - net->parameters.trainable);
    lay_run(net);
    lay_drop_factors(net);
    lay_maps(net);
}
