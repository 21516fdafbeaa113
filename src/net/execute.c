/* SPDX-License-Identifier: Apache-2.0
 *
 * Carries out a tape on the processor: tensors become addresses, views become rows that are made when they
 * are needed, and each operation is a call of its function in ops/.
 */
#include "src/base/rng.h"
#include "src/net/net.h"
#include "src/net/segformer/segformer_head.h"

/* ---- tensors and views ---- */

void *stk_net_tensor(const stoke_net *net, stk_tape_id id)
{
    return id > STK_TAPE_PICTURES ? net->maps + net->tape.tensors[id].at : NULL;
}

/* The stream between blocks is f32; what enters the products of a backward pass has the type of the run and,
 * under drop path, the factor of its sample. */
typedef struct scaled {
    const float *x;
    uint32_t channels;
    const float *scale; /* NULL, or one factor per sample */
    size_t sample_rows;
    stk_float type;
} scaled;

/* What a view needs while its rows are in use. */
typedef union making {
    stk_conv_patches patches;
    stk_layernorm_normalized normalised;
    stk_depthwise_hidden hidden;
    scaled scaled;
} making;

static stk_conv_patches patches_of(const stoke_net *net, const stk_tape_view *view,
                                   const stoke_net_batch *batch)
{
    stk_conv_patches patches = *(const stk_conv_patches *)view->source;
    patches.batch = batch->count;
    patches.out = net->run.type;
    if (view->of == STK_TAPE_PICTURES) {
        patches.source = batch->images;
        patches.type = STK_F32;
        patches.planar = batch->layout == STOKE_LAYOUT_CHW;
        patches.sample_stride = batch->image_row_floats;
    } else {
        patches.source = stk_net_tensor(net, view->of);
        patches.type = net->tape.tensors[view->of].type;
        patches.sample_stride = (size_t)patches.height * patches.width * patches.channels;
    }
    return patches;
}

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

static void make_scaled(const void *context, size_t first, size_t count, void *out)
{
    const scaled *s = context;
    for (size_t row = first; row < first + count; row++) {
        const float factor = s->scale ? s->scale[row / s->sample_rows] : 1.0f;
        convert_row(s->x + row * s->channels, s->channels, factor,
                    stk_at(out, (row - first) * s->channels, s->type), s->type);
    }
}

/* `make` must outlive the rows. */
static stk_exec_rows rows_of(const stoke_net *net, const stk_tape_view *view, const stoke_net_batch *batch,
                             making *make)
{
    const stk_exec *run = &net->run;
    const stk_tape_tensor *t = &net->tape.tensors[view->of];
    const void *data = stk_net_tensor(net, view->of), *beside = stk_net_tensor(net, view->beside);
    switch (view->kind) {
    case STK_TAPE_VIEW_PATCHES:
        make->patches = patches_of(net, view, batch);
        return stk_patches_rows(&make->patches);
    case STK_TAPE_VIEW_NORMALISED:
        make->normalised = (stk_layernorm_normalized){
            .table = run->table, .norm = view->source, .x = data, .stats = beside, .type = run->type
        };
        return stk_normalised_rows(&make->normalised);
    case STK_TAPE_VIEW_HIDDEN:
        make->hidden = (stk_depthwise_hidden){
            .table = run->table, .layer = view->source, .map = view->map, .h1 = data, .type = run->type
        };
        make->hidden.map.batch = batch->count;
        return stk_hidden_rows(&make->hidden);
    case STK_TAPE_VIEW_SCALED:
        if (!net->dropping) beside = NULL;
        if (run->type == STK_F32 && !beside) break;
        make->scaled = (scaled){
            .x = data, .channels = t->width, .scale = beside, .sample_rows = t->rows, .type = run->type
        };
        return (stk_exec_rows){ .stride = t->width, .make = make_scaled, .context = &make->scaled };
    case STK_TAPE_VIEW_ROWS: break;
    }
    return stk_rows_of(data, t->width);
}

/* ---- operations ---- */

/* One draw per block, branch and sample: as Hugging Face, whose module is called once for either branch. */
static void draw(const stoke_net *net, const stk_tape_op *op, float *factor, uint32_t count)
{
    for (uint32_t sample = 0; sample < count; sample++) {
        const stk_rng r =
            stk_philox(net->params.seed, stk_pair(op->number, sample), net->draw, STK_STREAM_DROP_PATH, 0);
        factor[sample] =
            stk_unit(r.word[0]) < op->probability ? 0.0f : (float)(1.0 / (1.0 - op->probability));
    }
}

static void linear(const stoke_net *net, const stk_tape_op *op, const stoke_net_batch *batch)
{
    const stk_exec *run = &net->run;
    const size_t rows = op->rows * batch->count;
    const stk_tape_tensor *out = &net->tape.tensors[op->out[0]];
    void *data = stk_net_tensor(net, op->out[0]);
    making make_x, make_dy;
    if (op->kind == STK_TAPE_LINEAR) {
        const stk_exec_rows x = rows_of(net, &op->x, batch, &make_x);
        const stk_linear_finish finish = { .type = out->type,
                                           .scale = net->dropping ? stk_net_tensor(net, op->in[0]) : NULL,
                                           .sample_rows = op->rows,
                                           .residual = stk_net_tensor(net, op->in[1]) };
        stk_linear_forward(run, op->layer, rows, &x, &finish, data, out->width);
        return;
    }
    const stk_exec_rows dy = rows_of(net, &op->dy, batch, &make_dy);
    if (op->kind == STK_TAPE_LINEAR_INPUT) {
        stk_linear_input(run, op->layer, rows, &dy, data, out->width, out->type, op->add);
        return;
    }
    const stk_exec_rows x = rows_of(net, &op->x, batch, &make_x);
    stk_linear_weight(run, op->layer, rows, &x, &dy);
}

stk_segformer_head *stk_net_head(const stoke_net *net, const stk_tape_op *op, uint32_t batch)
{
    stk_segformer_head *layer = (stk_segformer_head *)op->layer;
    layer->batch = batch;
    layer->dropout = net->dropping ? (float)net->params.dropout : 0;
    layer->seed = stk_mix64(net->params.seed ^ stk_mix64(net->draw + 1));
    return layer;
}

static void head(stoke_net *net, const stk_tape_op *op, uint32_t batch,
                 void *const in[static STK_TAPE_OPERANDS], void *const out[static STK_TAPE_OPERANDS])
{
    stk_segformer_head *layer = stk_net_head(net, op, batch);
    const void *features[STK_STAGES];
    float *d_features[STK_STAGES];
    for (int i = 0; i < STK_STAGES; i++) {
        features[i] = in[i];
        d_features[i] = out[i + 1];
    }
    if (op->kind == STK_TAPE_SEGFORMER_HEAD && net->moments)
        stk_segformer_head_look(&net->run, layer, features, out[1], net->moments);
    else if (op->kind == STK_TAPE_SEGFORMER_HEAD_BACK && net->sums)
        stk_segformer_head_spread(&net->run, layer, features, in[4], out[0], net->classifier, net->sums,
                                  d_features);
    else if (op->kind == STK_TAPE_SEGFORMER_HEAD)
        stk_segformer_head_forward(&net->run, layer, features, out[1], out[0]);
    else
        stk_segformer_head_backward(&net->run, layer, features, in[4], in[5], out[0], d_features);
}

static stk_conv3_source conv3_source(const stoke_net *net, stk_tape_id id, size_t rows,
                                     const stoke_net_batch *batch)
{
    const stk_tape_tensor *t = &net->tape.tensors[id];
    if (id == STK_TAPE_PICTURES)
        return (stk_conv3_source){ .data = batch->images,
                                   .type = STK_F32,
                                   .stride = 3,
                                   .sample_stride = batch->image_row_floats,
                                   .planar = batch->layout == STOKE_LAYOUT_CHW };
    return (stk_conv3_source){ .data = stk_net_tensor(net, id),
                               .type = t->type,
                               .stride = t->stride,
                               .sample_stride = rows * t->stride };
}

static void conv3(const stoke_net *net, const stk_tape_op *op, const stoke_net_batch *batch)
{
    const stk_conv3_map map = { batch->count, op->map.height, op->map.width };
    const stk_conv3_source x = conv3_source(net, op->x.of, op->rows, batch),
                           dy = conv3_source(net, op->dy.of, op->rows, batch);
    if (op->kind == STK_TAPE_CONV3_WEIGHT) {
        stk_conv3_weight(&net->run, op->layer, map, &x, &dy, op->factor);
        return;
    }
    const stk_tape_tensor *out = &net->tape.tensors[op->out[0]];
    void *data = stk_net_tensor(net, op->out[0]);
    const stk_conv3_finish finish = { .type = out->type,
                                      .stride = out->stride,
                                      .scale = op->factor,
                                      .relu = op->relu,
                                      .residual = stk_net_tensor(net, op->in[0]),
                                      .gate = stk_net_tensor(net, op->in[1]) };
    if (op->kind == STK_TAPE_CONV3)
        stk_conv3_forward(&net->run, op->layer, map, &x, &finish, data);
    else
        stk_conv3_input(&net->run, op->layer, map, &dy, &finish, data);
}

static void shuffle(const stoke_net *net, const stk_tape_op *op, uint32_t batch)
{
    const int back = op->kind == STK_TAPE_SHUFFLE_BACK;
    const stk_tape_tensor *narrow = &net->tape.tensors[back ? op->out[0] : op->in[0]],
                          *wide = &net->tape.tensors[back ? op->in[0] : op->out[0]];
    const stk_shuffle shape = { .batch = batch,
                                .height = op->map.height,
                                .width = op->map.width,
                                .channels = op->channels,
                                .scale = op->scale,
                                .type = wide->type,
                                .narrow_stride = narrow->stride,
                                .wide_stride = wide->stride };
    if (back)
        stk_shuffle_backward(&net->run, &shape, stk_net_tensor(net, op->in[0]),
                             stk_net_tensor(net, op->out[0]));
    else
        stk_shuffle_forward(&net->run, &shape, stk_net_tensor(net, op->in[0]),
                            stk_net_tensor(net, op->out[0]));
}

static void pool(const stoke_net *net, const stk_tape_op *op, uint32_t batch)
{
    const int back = op->kind == STK_TAPE_POOL_BACK;
    const stk_tape_tensor *large = &net->tape.tensors[op->in[0]],
                          *small = &net->tape.tensors[back ? op->in[1] : op->out[0]];
    const stk_pool shape = { .batch = batch,
                             .height = op->map.height,
                             .width = op->map.width,
                             .channels = small->width,
                             .type = large->type,
                             .large_stride = large->stride,
                             .small_stride = small->stride };
    if (back)
        stk_pool_backward(&net->run, &shape, stk_net_tensor(net, op->in[0]), stk_net_tensor(net, op->in[1]),
                          stk_net_tensor(net, op->out[0]), op->add);
    else
        stk_pool_forward(&net->run, &shape, stk_net_tensor(net, op->in[0]), stk_net_tensor(net, op->out[0]));
}

/* ---- the perceptual loss ---- */

static void standardise(const stoke_net *net, const stk_tape_op *op, const stoke_net_batch *batch)
{
    const stk_conv3_map map = { batch->count, op->map.height, op->map.width };
    stk_conv3_source x = { .data = batch->targets,
                           .stride = 3,
                           .sample_stride = batch->target_row_floats,
                           .planar = batch->layout == STOKE_LAYOUT_CHW };
    if (op->in[0]) x = conv3_source(net, op->in[0], op->rows, batch);
    stk_standardise(&net->run, map, &x, stk_net_tensor(net, op->out[0]));
}

static stk_map map_of(const stoke_net *net, stk_tape_id id)
{
    const stk_tape_tensor *t = &net->tape.tensors[id];
    return (stk_map){ stk_net_tensor(net, id), t->type, t->stride };
}

/* Adds to the sum of distances; the gradient only where it is asked for. */
static void distance(const stoke_net *net, const stk_tape_op *op, uint32_t batch)
{
    stk_features *f = net->features;
    const stk_feature_shape shape = { op->rows * batch, op->channels };
    const stk_map x = map_of(net, op->x.of), y = map_of(net, op->dy.of), d = map_of(net, op->out[0]);
    double apart;
    stk_feature_distance(&net->run, STOKE_LOSS_L1, &shape, &x, &y, f->factor, &apart,
                         f->factor != 0 ? &d : NULL, 0);
    f->distance += apart;
}

static void execute(stoke_net *net, const stk_tape_op *op, const stoke_net_batch *batch)
{
    const stk_exec *run = &net->run;
    const stk_tape_tensor *tensors = net->tape.tensors;
    const size_t rows = op->rows * batch->count;
    stk_attention attention = op->attention;
    stk_depthwise_map map = op->map;
    void *in[STK_TAPE_OPERANDS], *out[STK_TAPE_OPERANDS];
    attention.batch = map.batch = batch->count;
    for (int i = 0; i < STK_TAPE_OPERANDS; i++) {
        in[i] = stk_net_tensor(net, op->in[i]);
        out[i] = stk_net_tensor(net, op->out[i]);
    }
    switch (op->kind) {
    case STK_TAPE_DRAW:
        if (net->dropping) draw(net, op, out[0], batch->count);
        return;
    case STK_TAPE_LINEAR:
    case STK_TAPE_LINEAR_WEIGHT:
    case STK_TAPE_LINEAR_INPUT: linear(net, op, batch); return;
    case STK_TAPE_PATCHES_BACK: {
        const stk_conv_patches patches = patches_of(net, &op->x, batch);
        stk_patches_backward(run, &patches, in[0], tensors[op->in[0]].width, out[0], tensors[op->out[0]].type,
                             op->add);
        return;
    }
    case STK_TAPE_NORM:
        if (out[1])
            stk_layernorm_forward(run, op->layer, rows, in[0], out[0], out[1], tensors[op->out[1]].type);
        else
            stk_layernorm_stats(run, op->layer, rows, in[0], out[0]);
        return;
    case STK_TAPE_NORM_BACK:
        stk_layernorm_backward(run, op->layer, rows, in[0], in[1], in[2], tensors[op->in[2]].type, in[3],
                               out[0]);
        return;
    case STK_TAPE_ATTENTION: stk_attention_forward(run, &attention, in[0], in[1], out[0], out[1]); return;
    case STK_TAPE_ATTENTION_BACK:
        stk_attention_backward(run, &attention, in[0], in[1], in[2], in[3], in[4], out[0], out[1]);
        return;
    case STK_TAPE_DEPTHWISE: stk_depthwise_forward(run, op->layer, map, in[0], out[0]); return;
    case STK_TAPE_DEPTHWISE_BACK: stk_depthwise_backward(run, op->layer, map, in[0], in[1], out[0]); return;
    case STK_TAPE_SEGFORMER_HEAD:
    case STK_TAPE_SEGFORMER_HEAD_BACK: head(net, op, batch->count, in, out); return;
    case STK_TAPE_CONV3:
    case STK_TAPE_CONV3_WEIGHT:
    case STK_TAPE_CONV3_INPUT: conv3(net, op, batch); return;
    case STK_TAPE_SHUFFLE:
    case STK_TAPE_SHUFFLE_BACK: shuffle(net, op, batch->count); return;
    case STK_TAPE_POOL:
    case STK_TAPE_POOL_BACK: pool(net, op, batch->count); return;
    case STK_TAPE_LOSS: return; /* by who has the masks (net_train.c) */
    case STK_TAPE_STANDARDISE: standardise(net, op, batch); return;
    case STK_TAPE_STANDARDISE_BACK:
        stk_standardise_backward(run, rows, in[0], out[0], tensors[op->out[0]].stride);
        return;
    case STK_TAPE_GATE: {
        const stk_map y = map_of(net, op->x.of), d = map_of(net, op->out[0]);
        stk_gate(run, rows, tensors[op->out[0]].width, &y, &d);
        return;
    }
    case STK_TAPE_DISTANCE: distance(net, op, batch->count); return;
    }
}

/* ---- the tape ---- */

void *stk_net_layer(const stoke_net *net, stk_tape_op_kind kind)
{
    for (size_t i = 0; i < net->tape.op_count; i++)
        if (net->tape.ops[i].kind == kind) return (void *)net->tape.ops[i].layer;
    return NULL;
}

static void pack_list(const stk_exec *run, const stk_parameters *p)
{
    stk_linear_pack(run, (const stk_linear *const *)p->linears, p->linear_count);
    stk_depthwise_pack(run, (const stk_depthwise *const *)p->depthwises, p->depthwise_count);
    stk_conv3_pack(run, (const stk_conv3 *const *)p->conv3s, p->conv3_count);
}

/* SegFormer's head is folded again when it changes between batch statistics and running ones. */
void stk_net_begin_pass(stoke_net *net, int training)
{
    stk_segformer_head *head = stk_net_layer(net, STK_TAPE_SEGFORMER_HEAD);
    if (head && head->training != training) net->head_packed = 0;
    if (head) head->training = training;
    if (!net->features || net->features->packed) return;
    pack_list(&net->run, &net->features->parameters); /* once and for all */
    net->features->packed = 1;
}

void stk_net_pack(stoke_net *net, int training)
{
    stk_segformer_head *head = stk_net_layer(net, STK_TAPE_SEGFORMER_HEAD);
    stk_net_begin_pass(net, training);
    if (net->before_forward.told) net->before_forward.told(net->before_forward.context, UINT32_MAX);
    if (net->layers_packed && net->head_packed) return;
    if (!net->layers_packed) pack_list(&net->run, &net->parameters);
    if (head && !net->head_packed) stk_segformer_head_pack(&net->run, head);
    net->layers_packed = net->head_packed = 1;
    stk_tape_profile_lap(&net->parts, STK_PART_PACK);
}

void stk_net_execute(stoke_net *net, stk_tape_span span, const stoke_net_batch *batch)
{
    for (uint32_t i = span.begin; i < span.end; i++) {
        const stk_tape_op *op = &net->tape.ops[i];
        execute(net, op, batch);
        /* Draws take no time to speak of: that of the operation that follows. */
        if (op->kind != STK_TAPE_DRAW) stk_tape_profile_lap(&net->parts, op->part);
    }
}
