/* SPDX-License-Identifier: Apache-2.0
 *
 * A stage of the encoder, forward and backward: patches, a linear layer and a norm; blocks; a norm. The first
 * stage reads the pictures, the others the feature of the one before.
 */
#include "src/net/net.h"
#include "src/net/ops/ops.h"

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
    for (uint32_t i = 0; i < s->depth; i++) stk_block_forward(net, s, &s->blocks[i], batch->count);
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
    for (uint32_t i = s->depth; i--;) stk_block_backward(net, s, &s->blocks[i], batch->count);
    stk_layernorm_backward(run, &s->embed_norm, rows, s->embedded, s->embed_stats, s->d_x, STK_F32, NULL,
                           s->d_embedded);
    stk_profile_lap(&net->parts, STK_PART_NORM_BACKWARD);
    const stk_conv_patches patches = patches_of(net, index, batch);
    const stk_scaled stream = { .x = s->d_embedded, .channels = s->channels, .type = run->type };
    const stk_exec_rows x = stk_patches_rows(&patches), d_embedded = stk_scaled_rows(&stream);
    stk_linear_weight(run, &s->embed, rows, &x, &d_embedded);
    stk_profile_lap(&net->parts, STK_PART_EMBED_WEIGHT);
    if (!index) return; /* nobody asks for the gradient of the pictures */
    stk_linear_input(run, &s->embed, rows, &d_embedded, s->d_rows, s->embed.in, run->type, 0);
    stk_patches_backward(run, &patches, s->d_rows, s->embed.in, net->stages[index - 1].d_feature, STK_F32, 1);
    stk_profile_lap(&net->parts, STK_PART_EMBED_INPUT);
}
