/* SPDX-License-Identifier: Apache-2.0
 *
 * A block of the encoder, forward and backward: attention, then the MLP. Every function of the way back
 * stands below the one it undoes.
 */
#include "src/net/net.h"

#include "src/net/ops/ops.h"

/* ---- scaled rows ---- */

/* Loops without a switch inside, so that the compiler makes vectors of them. */
static void convert_row(const float *x, size_t count, float factor, void *out, stk_float type)
{
    if (type == STK_F32)
        for (size_t i = 0; i < count; i++) ((float *)out)[i] = factor * x[i];
    else if (type == STK_BF16)
        for (size_t i = 0; i < count; i++) ((uint16_t *)out)[i] = k_bf16(factor * x[i]);
    else
        for (size_t i = 0; i < count; i++) ((uint16_t *)out)[i] = k_f16(factor * x[i]);
}

static void make_rows(const void *context, size_t first, size_t count, void *out)
{
    const stk_scaled *s = context;
    for (size_t row = first; row < first + count; row++) {
        const float factor = s->scale ? s->scale[row / s->sample_rows] : 1.0f;
        convert_row(s->x + row * s->channels, s->channels, factor,
                    stk_at(out, (row - first) * s->channels, s->type), s->type);
    }
}

/* The array itself where nothing has to be done. `scaled` must outlive the rows. */
static stk_exec_rows scaled_rows(const stk_scaled *scaled)
{
    if (scaled->type == STK_F32 && !scaled->scale) return stk_rows_of(scaled->x, scaled->channels);
    return (stk_exec_rows){ .stride = scaled->channels, .make = make_rows, .context = scaled };
}

/* ---- blocks ---- */

/* What the functions here share. */
typedef struct call {
    const stk_exec *run;
    stk_profile *parts;
    const stk_segformer_stage *stage;
    const stk_segformer_block *block;
    uint32_t count;
    size_t rows, keys;           /* tokens of queries and of keys */
    const float *drop_factor[2]; /* of the two branches; NULL: none is dropped */
} call;

static call call_of(stoke_net *net, const stk_segformer_stage *stage, const stk_segformer_block *block,
                    uint32_t count)
{
    call c = { .run = &net->run,
               .parts = &net->parts,
               .stage = stage,
               .block = block,
               .count = count,
               .rows = stk_segformer_stage_rows(stage, count),
               .keys = stk_segformer_stage_keys(stage, count) };
    for (int branch = 0; branch < 2 && net->dropping; branch++)
        c.drop_factor[branch] = block->drop_factor[branch];
    return c;
}

stk_attention stk_segformer_stage_attention(const stk_segformer_stage *stage, uint32_t count)
{
    return (stk_attention){ .batch = count,
                            .heads = stage->heads,
                            .head_size = stage->channels / stage->heads,
                            .queries = stage->height * stage->width,
                            .keys = stage->reduced_height * stage->reduced_width };
}

static stk_depthwise_map map_of(const call *c)
{
    return (stk_depthwise_map){ .batch = c->count, .height = c->stage->height, .width = c->stage->width };
}

static stk_conv_patches reduction_patches(const call *c)
{
    const stk_segformer_stage *s = c->stage;
    return (stk_conv_patches){ .batch = c->count,
                               .height = s->height,
                               .width = s->width,
                               .channels = s->channels,
                               .kernel = s->reduction,
                               .stride = s->reduction,
                               .out_height = s->reduced_height,
                               .out_width = s->reduced_width,
                               .source = s->n1,
                               .type = c->run->type,
                               .sample_stride = (size_t)s->height * s->width * s->channels,
                               .out = c->run->type };
}

/* The rows keys and values are made from: the reduced map, normalised, or n1 itself. */
static stk_exec_rows key_rows(const call *c, stk_layernorm_normalized *made)
{
    if (c->stage->reduction == 1) return stk_rows_of(c->stage->n1, c->stage->channels);
    *made = (stk_layernorm_normalized){ .table = c->run->table,
                                        .norm = &c->block->norm_reduced,
                                        .x = c->block->reduced,
                                        .stats = c->block->stats_reduced,
                                        .type = c->run->type };
    return stk_normalised_rows(made);
}

static stk_layernorm_normalized second_norm(const call *c)
{
    return (stk_layernorm_normalized){ .table = c->run->table,
                                       .norm = &c->block->norm2,
                                       .x = c->block->x1,
                                       .stats = c->block->stats2,
                                       .type = c->run->type };
}

/* The gradient of a branch's last layer: that of the stream, times the branch's drop path factor. */
static stk_scaled branch_gradient(const call *c, int branch)
{
    return (stk_scaled){ .x = c->stage->d_x,
                         .channels = c->stage->channels,
                         .scale = c->drop_factor[branch],
                         .sample_rows = c->rows / c->count,
                         .type = c->run->type };
}

/* n1, again in every backward pass: one pass over x is cheaper than keeping it. */
static void normalise(const call *c)
{
    stk_layernorm_forward(c->run, &c->block->norm1, c->rows, c->block->x, c->block->stats1, c->stage->n1,
                          c->run->type);
    stk_profile_lap(c->parts, STK_PART_NORM_FORWARD);
}

/* q and kv from n1. */
static void project(const call *c)
{
    const stk_segformer_block *b = c->block;
    const uint32_t channels = c->stage->channels;
    const stk_linear_finish inside = { .type = c->run->type }, stream = { .type = STK_F32 };
    const stk_exec_rows n1 = stk_rows_of(c->stage->n1, channels);
    stk_linear_forward(c->run, &b->query, c->rows, &n1, &inside, b->q, channels);
    stk_profile_lap(c->parts, STK_PART_LINEAR_FORWARD);
    if (c->stage->reduction > 1) {
        const stk_conv_patches patches = reduction_patches(c);
        const stk_exec_rows rows = stk_patches_rows(&patches);
        stk_linear_forward(c->run, &b->reduction, c->keys, &rows, &stream, b->reduced, channels);
        stk_profile_lap(c->parts, STK_PART_REDUCTION_FORWARD);
        stk_layernorm_stats(c->run, &b->norm_reduced, c->keys, b->reduced, b->stats_reduced);
        stk_profile_lap(c->parts, STK_PART_NORM_FORWARD);
    }
    stk_layernorm_normalized made;
    const stk_exec_rows keys = key_rows(c, &made);
    stk_linear_forward(c->run, &b->key_value, c->keys, &keys, &inside, b->kv, 2 * (size_t)channels);
    stk_profile_lap(c->parts, STK_PART_LINEAR_FORWARD);
}

/* d_n = gradient of n1, from d_q and d_kv. */
static void project_backward(const call *c)
{
    const stk_segformer_stage *s = c->stage;
    const stk_segformer_block *b = c->block;
    const uint32_t channels = s->channels;
    const stk_float type = c->run->type;
    const stk_exec_rows n1 = stk_rows_of(s->n1, channels), d_q = stk_rows_of(s->d_q, channels),
                        d_kv = stk_rows_of(s->d_kv, 2 * (size_t)channels);
    stk_layernorm_normalized made;
    const stk_exec_rows keys = key_rows(c, &made);
    stk_linear_weight(c->run, &b->query, c->rows, &n1, &d_q);
    stk_linear_weight(c->run, &b->key_value, c->keys, &keys, &d_kv);
    stk_profile_lap(c->parts, STK_PART_LINEAR_WEIGHT);
    stk_linear_input(c->run, &b->query, c->rows, &d_q, s->d_n, channels, type, 0);
    if (s->reduction == 1)
        stk_linear_input(c->run, &b->key_value, c->keys, &d_kv, s->d_n, channels, type, 1);
    else
        stk_linear_input(c->run, &b->key_value, c->keys, &d_kv, s->d_keys, channels, type, 0);
    stk_profile_lap(c->parts, STK_PART_LINEAR_INPUT);
    if (s->reduction == 1) return;

    stk_layernorm_backward(c->run, &b->norm_reduced, c->keys, b->reduced, b->stats_reduced, s->d_keys, type,
                           NULL, s->d_reduced);
    stk_profile_lap(c->parts, STK_PART_NORM_BACKWARD);
    const stk_conv_patches patches = reduction_patches(c);
    const stk_scaled stream = { .x = s->d_reduced, .channels = channels, .type = type };
    const stk_exec_rows rows = stk_patches_rows(&patches), d_reduced = scaled_rows(&stream);
    stk_linear_weight(c->run, &b->reduction, c->keys, &rows, &d_reduced);
    stk_profile_lap(c->parts, STK_PART_REDUCTION_WEIGHT);
    stk_linear_input(c->run, &b->reduction, c->keys, &d_reduced, s->d_patches, b->reduction.in, type, 0);
    stk_patches_backward(c->run, &patches, s->d_patches, b->reduction.in, s->d_n, type, 1);
    stk_profile_lap(c->parts, STK_PART_REDUCTION_INPUT);
}

/* x1 = x + drop(output(attention(n1))) */
static void attend(const call *c)
{
    const stk_segformer_block *b = c->block;
    const uint32_t channels = c->stage->channels;
    const stk_attention shape = stk_segformer_stage_attention(c->stage, c->count);
    normalise(c);
    project(c);
    stk_attention_forward(c->run, &shape, b->q, b->kv, b->context, b->log_sum);
    stk_profile_lap(c->parts, STK_PART_ATTENTION_FORWARD);
    const stk_exec_rows context = stk_rows_of(b->context, channels);
    const stk_linear_finish add = {
        .type = STK_F32, .scale = c->drop_factor[0], .sample_rows = c->rows / c->count, .residual = b->x
    };
    stk_linear_forward(c->run, &b->output, c->rows, &context, &add, b->x1, channels);
    stk_profile_lap(c->parts, STK_PART_LINEAR_FORWARD);
}

static void attend_backward(const call *c)
{
    const stk_segformer_stage *s = c->stage;
    const stk_segformer_block *b = c->block;
    const stk_scaled stream = branch_gradient(c, 0);
    const stk_exec_rows d_output = scaled_rows(&stream), context = stk_rows_of(b->context, s->channels);
    stk_linear_weight(c->run, &b->output, c->rows, &context, &d_output);
    stk_profile_lap(c->parts, STK_PART_LINEAR_WEIGHT);
    stk_linear_input(c->run, &b->output, c->rows, &d_output, s->d_context, s->channels, c->run->type, 0);
    stk_profile_lap(c->parts, STK_PART_LINEAR_INPUT);
    normalise(c);
    if (s->recompute_projections) project(c);
    const stk_attention shape = stk_segformer_stage_attention(s, c->count);
    stk_attention_backward(c->run, &shape, b->q, b->kv, b->context, b->log_sum, s->d_context, s->d_q,
                           s->d_kv);
    stk_profile_lap(c->parts, STK_PART_ATTENTION_BACKWARD);
    project_backward(c);
    stk_layernorm_backward(c->run, &b->norm1, c->rows, b->x, b->stats1, s->d_n, c->run->type, s->d_x, s->d_x);
    stk_profile_lap(c->parts, STK_PART_NORM_BACKWARD);
}

/* h1 from x1 and its statistics. */
static void widen(const call *c)
{
    const stk_layernorm_normalized n2 = second_norm(c);
    const stk_exec_rows rows = stk_normalised_rows(&n2);
    stk_linear_forward(c->run, &c->block->expand, c->rows, &rows,
                       &(stk_linear_finish){ .type = c->run->type }, c->block->h1, c->stage->hidden);
    stk_profile_lap(c->parts, STK_PART_LINEAR_FORWARD);
}

/* Where h3 comes from when it is not kept. */
static stk_depthwise_hidden hidden(const call *c)
{
    return (stk_depthwise_hidden){ .table = c->run->table,
                                   .layer = &c->block->depthwise,
                                   .map = map_of(c),
                                   .h1 = c->block->h1,
                                   .type = c->run->type };
}

/* x2 = x1 + drop(contract(gelu(depthwise(expand(norm2(x1)))))). h3 made where it is multiplied spares its way
 * through memory: 2 % of both for b0 and b2 with 256x256, 6 % with 512x512. Made once more for the gradients
 * of contract's weights it costs 14 to 47 % of that product; so a plain training pass keeps it. */
static void perceive(const call *c)
{
    const stk_segformer_block *b = c->block;
    stk_layernorm_stats(c->run, &b->norm2, c->rows, b->x1, b->stats2);
    stk_profile_lap(c->parts, STK_PART_NORM_FORWARD);
    widen(c);
    if (b->h3) {
        stk_depthwise_forward(c->run, &b->depthwise, map_of(c), b->h1, b->h3);
        stk_profile_lap(c->parts, STK_PART_DEPTHWISE_FORWARD);
    }
    const stk_depthwise_hidden made = hidden(c);
    const stk_exec_rows h3 = b->h3 ? stk_rows_of(b->h3, c->stage->hidden) : stk_hidden_rows(&made);
    const stk_linear_finish add = {
        .type = STK_F32, .scale = c->drop_factor[1], .sample_rows = c->rows / c->count, .residual = b->x1
    };
    stk_linear_forward(c->run, &b->contract, c->rows, &h3, &add, b->x2, c->stage->channels);
    stk_profile_lap(c->parts, STK_PART_LINEAR_FORWARD);
}

static void perceive_backward(const call *c)
{
    const stk_segformer_stage *s = c->stage;
    const stk_segformer_block *b = c->block;
    const stk_float type = c->run->type;
    if (s->recompute_projections) widen(c);
    const stk_scaled stream = branch_gradient(c, 1);
    const stk_depthwise_hidden made = hidden(c);
    const stk_exec_rows d_contract = scaled_rows(&stream),
                        h3 = b->h3 ? stk_rows_of(b->h3, s->hidden) : stk_hidden_rows(&made);
    stk_linear_weight(c->run, &b->contract, c->rows, &h3, &d_contract);
    stk_profile_lap(c->parts, STK_PART_LINEAR_WEIGHT);
    stk_linear_input(c->run, &b->contract, c->rows, &d_contract, s->d_h3, s->hidden, type, 0);
    stk_profile_lap(c->parts, STK_PART_LINEAR_INPUT);
    stk_depthwise_backward(c->run, &b->depthwise, map_of(c), b->h1, s->d_h3, s->d_h1);
    stk_profile_lap(c->parts, STK_PART_DEPTHWISE_BACKWARD);
    const stk_layernorm_normalized norm = second_norm(c);
    const stk_exec_rows n2 = stk_normalised_rows(&norm), d_h1 = stk_rows_of(s->d_h1, s->hidden);
    stk_linear_weight(c->run, &b->expand, c->rows, &n2, &d_h1);
    stk_profile_lap(c->parts, STK_PART_LINEAR_WEIGHT);
    stk_linear_input(c->run, &b->expand, c->rows, &d_h1, s->d_n, s->channels, type, 0);
    stk_profile_lap(c->parts, STK_PART_LINEAR_INPUT);
    stk_layernorm_backward(c->run, &b->norm2, c->rows, b->x1, b->stats2, s->d_n, type, s->d_x, s->d_x);
    stk_profile_lap(c->parts, STK_PART_NORM_BACKWARD);
}

static void block_forward(stoke_net *net, const stk_segformer_stage *stage, const stk_segformer_block *block,
                          uint32_t count)
{
    const call c = call_of(net, stage, block, count);
    attend(&c);
    perceive(&c);
}

/* d_x of the stage: in, the gradient of x2; out, that of x. */
static void block_backward(stoke_net *net, const stk_segformer_stage *stage, const stk_segformer_block *block,
                           uint32_t count)
{
    const call c = call_of(net, stage, block, count);
    perceive_backward(&c);
    attend_backward(&c);
}

/* ---- stages ---- */

/* A stage of the encoder, forward and backward: patches, a linear layer and a norm; blocks; a norm. The first
 * stage reads the pictures, the others the feature of the one before. */

static stk_conv_patches patches_of(const stoke_net *net, uint32_t index, const stoke_net_batch *batch)
{
    stk_conv_patches patches = net->stages[index].patches;
    patches.batch = batch->count;
    patches.out = net->run.type;
    if (index) {
        patches.source = net->stages[index - 1].feature;
        patches.type = net->run.type;
        patches.sample_stride = (size_t)patches.height * patches.width * patches.channels;
    } else {
        patches.source = batch->images;
        patches.type = STK_F32;
        patches.planar = batch->layout == STOKE_LAYOUT_CHW;
        patches.sample_stride = batch->image_row_floats;
    }
    return patches;
}

void stk_segformer_stage_forward(stoke_net *net, uint32_t index, const stoke_net_batch *batch)
{
    const stk_exec *run = &net->run;
    stk_segformer_stage *s = &net->stages[index];
    const size_t rows = stk_segformer_stage_rows(s, batch->count);
    const stk_conv_patches patches = patches_of(net, index, batch);
    const stk_exec_rows x = stk_patches_rows(&patches);
    stk_linear_forward(run, &s->embed, rows, &x, &(stk_linear_finish){ .type = STK_F32 }, s->embedded,
                       s->channels);
    stk_profile_lap(&net->parts, STK_PART_EMBED_FORWARD);
    stk_layernorm_forward(run, &s->embed_norm, rows, s->embedded, s->embed_stats, s->blocks[0].x, STK_F32);
    stk_profile_lap(&net->parts, STK_PART_NORM_FORWARD);
    for (uint32_t i = 0; i < s->depth; i++) block_forward(net, s, &s->blocks[i], batch->count);
    stk_layernorm_forward(run, &s->norm, rows, s->blocks[s->depth - 1].x2, s->stats, s->feature, run->type);
    stk_profile_lap(&net->parts, STK_PART_NORM_FORWARD);
}

/* From d_feature; adds to that of the stage before. */
void stk_segformer_stage_backward(stoke_net *net, uint32_t index, const stoke_net_batch *batch)
{
    const stk_exec *run = &net->run;
    stk_segformer_stage *s = &net->stages[index];
    const size_t rows = stk_segformer_stage_rows(s, batch->count);
    stk_layernorm_backward(run, &s->norm, rows, s->blocks[s->depth - 1].x2, s->stats, s->d_feature, STK_F32,
                           NULL, s->d_x);
    stk_profile_lap(&net->parts, STK_PART_NORM_BACKWARD);
    for (uint32_t i = s->depth; i--;) block_backward(net, s, &s->blocks[i], batch->count);
    stk_layernorm_backward(run, &s->embed_norm, rows, s->embedded, s->embed_stats, s->d_x, STK_F32, NULL,
                           s->d_embedded);
    stk_profile_lap(&net->parts, STK_PART_NORM_BACKWARD);
    const stk_conv_patches patches = patches_of(net, index, batch);
    const stk_scaled stream = { .x = s->d_embedded, .channels = s->channels, .type = run->type };
    const stk_exec_rows x = stk_patches_rows(&patches), d_embedded = scaled_rows(&stream);
    stk_linear_weight(run, &s->embed, rows, &x, &d_embedded);
    stk_profile_lap(&net->parts, STK_PART_EMBED_WEIGHT);
    if (!index) return; /* nobody asks for the gradient of the pictures */
    stk_linear_input(run, &s->embed, rows, &d_embedded, s->d_rows, s->embed.in, run->type, 0);
    stk_patches_backward(run, &patches, s->d_rows, s->embed.in, net->stages[index - 1].d_feature, STK_F32, 1);
    stk_profile_lap(&net->parts, STK_PART_EMBED_INPUT);
}
