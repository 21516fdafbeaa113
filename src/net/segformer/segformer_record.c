/* SPDX-License-Identifier: Apache-2.0
 *
 * SegFormer recorded: one pass forward, and backward where it trains. Every function that records the way
 * back stands below the one it undoes.
 */
#include "src/net/segformer/segformer.h"

/* ---- shapes ---- */

/* Side of the map after a convolution. */
static uint32_t side_after(uint32_t side, const stk_conv_patches *p)
{
    return (side + 2 * p->padding - p->kernel) / p->stride + 1;
}

static void shape_patches(stk_conv_patches *p, uint32_t kernel, uint32_t stride, uint32_t padding)
{
    p->kernel = kernel;
    p->stride = stride;
    p->padding = padding;
    p->out_height = side_after(p->height, p);
    p->out_width = side_after(p->width, p);
}

void stk_segformer_shape(stk_segformer *s, uint32_t height, uint32_t width)
{
    const stk_segformer_config *c = &s->config;
    stk_segformer_head *h = &s->head;
    uint32_t channels = 3;
    for (uint32_t i = 0; i < STK_STAGES; i++) {
        stk_segformer_stage *stage = &s->stage[i];
        stage->patches = (stk_conv_patches){ .height = height, .width = width, .channels = channels };
        shape_patches(&stage->patches, c->patch[i], c->stride[i], c->patch[i] / 2);
        h->height[i] = height = stage->patches.out_height;
        h->width[i] = width = stage->patches.out_width;
        h->channels[i] = channels = c->hidden[i];
        stage->reduced = (stk_conv_patches){ .height = height, .width = width, .channels = channels };
        shape_patches(&stage->reduced, c->reduction[i], c->reduction[i], 0);
    }
    h->size = c->decoder;
    h->classes = c->classes;
}

/* ---- blocks ---- */

/* What the functions here share while a stage is recorded. */
typedef struct recorder {
    stk_tape *tape;
    stk_float type;                                      /* of the run */
    int trains, recompute_hidden, recompute_projections; /* lean and min; min */
    int frozen; /* its weights; the way back is that to its picture */
    stk_tape_id picture, d_picture;
    const stk_segformer_stage *stage;
    uint32_t channels, hidden, heads, reduction;
    size_t rows, keys; /* tokens of queries and of keys, of a sample */
    stk_depthwise_map map;
    stk_tape_id d_x; /* the gradient of the stream, f32 */
} recorder;

static stk_tape_id map_of(recorder *r, const char *name, uint32_t width)
{
    return stk_tape_declare(r->tape, name, r->rows, width, r->type);
}

static stk_tape_id key_map(recorder *r, const char *name, uint32_t width)
{
    return stk_tape_declare(r->tape, name, r->keys, width, r->type);
}

static stk_tape_id stream(recorder *r, const char *name, size_t rows)
{
    return stk_tape_declare(r->tape, name, rows, r->channels, STK_F32);
}

static stk_tape_id statistics(recorder *r, const char *name, size_t rows)
{
    return stk_tape_declare(r->tape, name, rows, 2, STK_F32);
}

static void weight_back(const recorder *r, stk_tape_part part, const stk_linear *layer, stk_tape_view x,
                        stk_tape_view dy)
{
    if (!r->frozen) stk_tape_linear_weight(r->tape, part, layer, x, dy);
}

static stk_attention attention_of(const recorder *r)
{
    return (stk_attention){ .heads = r->heads,
                            .head_size = r->channels / r->heads,
                            .queries = (uint32_t)r->rows,
                            .keys = (uint32_t)r->keys };
}

/* n1, again in every backward pass: one pass over x is cheaper than keeping it. */
static stk_tape_id normalise(recorder *r, const stk_segformer_block *b)
{
    const stk_tape_id n1 = map_of(r, "n1", r->channels);
    stk_tape_norm(r->tape, &b->norm1, b->x, b->stats1, n1);
    return n1;
}

/* The rows keys and values are made from: the reduced map, normalised, or n1 itself. */
static stk_tape_view key_rows(const recorder *r, const stk_segformer_block *b, stk_tape_id n1)
{
    return r->reduction > 1 ? stk_tape_view_normalised(&b->norm_reduced, b->reduced, b->stats_reduced)
                            : stk_tape_view_rows(n1);
}

/* q and kv from n1. The reduced map is kept in every mode, so it is made once. */
static void project(recorder *r, stk_segformer_block *b, stk_tape_id n1, int again)
{
    b->q = map_of(r, "q", r->channels);
    b->kv = key_map(r, "kv", 2 * r->channels);
    stk_tape_linear(r->tape, STK_PART_LINEAR_FORWARD, &b->query, stk_tape_view_rows(n1), b->q);
    if (r->reduction > 1 && !again) {
        b->reduced = stream(r, "reduced", r->keys);
        b->stats_reduced = statistics(r, "reduced stats", r->keys);
        stk_tape_linear(r->tape, STK_PART_REDUCTION_FORWARD, &b->reduction,
                        stk_tape_view_patches(&r->stage->reduced, n1), b->reduced);
        stk_tape_norm(r->tape, &b->norm_reduced, b->reduced, b->stats_reduced, STK_TAPE_NONE);
    }
    stk_tape_linear(r->tape, STK_PART_LINEAR_FORWARD, &b->key_value, key_rows(r, b, n1), b->kv);
}

/* d_n = gradient of n1, from d_q and d_kv. */
static stk_tape_id project_back(recorder *r, const stk_segformer_block *b, stk_tape_id n1, stk_tape_id d_q,
                                stk_tape_id d_kv)
{
    const stk_tape_view dq = stk_tape_view_rows(d_q), dkv = stk_tape_view_rows(d_kv);
    const stk_tape_id d_n = map_of(r, "d_n", r->channels);
    weight_back(r, STK_PART_LINEAR_WEIGHT, &b->query, stk_tape_view_rows(n1), dq);
    weight_back(r, STK_PART_LINEAR_WEIGHT, &b->key_value, key_rows(r, b, n1), dkv);
    stk_tape_linear_input(r->tape, STK_PART_LINEAR_INPUT, &b->query, dq, d_n, 0);
    if (r->reduction == 1) {
        stk_tape_linear_input(r->tape, STK_PART_LINEAR_INPUT, &b->key_value, dkv, d_n, 1);
        return d_n;
    }
    const stk_tape_id d_keys = key_map(r, "d_keys", r->channels), d_reduced = stream(r, "d_reduced", r->keys),
                      d_patches = key_map(r, "d_patches", b->reduction.in);
    const stk_tape_view d_stream = stk_tape_view_scaled(d_reduced, STK_TAPE_NONE);
    stk_tape_linear_input(r->tape, STK_PART_LINEAR_INPUT, &b->key_value, dkv, d_keys, 0);
    stk_tape_norm_back(r->tape, &b->norm_reduced, b->reduced, b->stats_reduced, d_keys, STK_TAPE_NONE,
                       d_reduced);
    weight_back(r, STK_PART_REDUCTION_WEIGHT, &b->reduction, stk_tape_view_patches(&r->stage->reduced, n1),
                d_stream);
    stk_tape_linear_input(r->tape, STK_PART_REDUCTION_INPUT, &b->reduction, d_stream, d_patches, 0);
    stk_tape_patches_back(r->tape, STK_PART_REDUCTION_INPUT, &r->stage->reduced, d_patches, d_n, 1);
    return d_n;
}

/* x1 = x + drop(output(attention(n1))). In inference the stream is one tensor. */
static void attend(recorder *r, stk_segformer_block *b)
{
    const stk_attention shape = attention_of(r);
    b->stats1 = statistics(r, "stats1", r->rows);
    const stk_tape_id n1 = normalise(r, b);
    project(r, b, n1, 0);
    b->context = map_of(r, "context", r->channels);
    b->log_sum = r->trains ? stk_tape_declare(r->tape, "log_sum", r->rows, r->heads, STK_F32) : STK_TAPE_NONE;
    stk_tape_add(r->tape, (stk_tape_op){ .kind = STK_TAPE_ATTENTION,
                                         .part = STK_PART_ATTENTION_FORWARD,
                                         .attention = shape,
                                         .in = { b->q, b->kv },
                                         .out = { b->context, b->log_sum } });
    b->x1 = r->trains ? stream(r, "x1", r->rows) : b->x;
    stk_tape_linear_add(r->tape, &b->output, stk_tape_view_rows(b->context), b->factor[0], b->x, b->x1);
}

static void attend_back(recorder *r, stk_segformer_block *b)
{
    const stk_tape_view d_output = stk_tape_view_scaled(r->d_x, b->factor[0]);
    const stk_tape_id d_context = map_of(r, "d_context", r->channels);
    weight_back(r, STK_PART_LINEAR_WEIGHT, &b->output, stk_tape_view_rows(b->context), d_output);
    stk_tape_linear_input(r->tape, STK_PART_LINEAR_INPUT, &b->output, d_output, d_context, 0);
    const int again = !r->frozen || r->recompute_projections;
    const stk_tape_id n1 = again ? normalise(r, b) : STK_TAPE_NONE;
    if (r->recompute_projections) project(r, b, n1, 1);
    const stk_tape_id d_q = map_of(r, "d_q", r->channels), d_kv = key_map(r, "d_kv", 2 * r->channels);
    stk_tape_add(r->tape, (stk_tape_op){ .kind = STK_TAPE_ATTENTION_BACK,
                                         .part = STK_PART_ATTENTION_BACKWARD,
                                         .attention = attention_of(r),
                                         .in = { b->q, b->kv, b->context, b->log_sum, d_context },
                                         .out = { d_q, d_kv } });
    const stk_tape_id d_n = project_back(r, b, n1, d_q, d_kv);
    stk_tape_norm_back(r->tape, &b->norm1, b->x, b->stats1, d_n, r->d_x, r->d_x);
}

/* h1 from x1 and its statistics. */
static void widen(recorder *r, stk_segformer_block *b)
{
    b->h1 = map_of(r, "h1", r->hidden);
    stk_tape_linear(r->tape, STK_PART_LINEAR_FORWARD, &b->expand,
                    stk_tape_view_normalised(&b->norm2, b->x1, b->stats2), b->h1);
}

static stk_tape_view hidden(const recorder *r, const stk_segformer_block *b)
{
    return b->h3 ? stk_tape_view_rows(b->h3) : stk_tape_view_hidden(&b->depthwise, r->map, b->h1);
}

/* x2 = x1 + drop(contract(gelu(depthwise(expand(norm2(x1)))))). h3 made where it is multiplied spares its way
 * through memory: 2 % of both for b0 and b2 with 256x256, 6 % with 512x512. Made once more for the gradients
 * of contract's weights it costs 14 to 47 % of that product; so a plain training pass keeps it. */
static void perceive(recorder *r, stk_segformer_block *b)
{
    b->stats2 = statistics(r, "stats2", r->rows);
    stk_tape_norm(r->tape, &b->norm2, b->x1, b->stats2, STK_TAPE_NONE);
    widen(r, b);
    b->h3 = r->trains && !r->recompute_hidden ? map_of(r, "h3", r->hidden) : STK_TAPE_NONE;
    if (b->h3)
        stk_tape_add(r->tape, (stk_tape_op){ .kind = STK_TAPE_DEPTHWISE,
                                             .part = STK_PART_DEPTHWISE_FORWARD,
                                             .layer = &b->depthwise,
                                             .map = r->map,
                                             .in = { b->h1 },
                                             .out = { b->h3 } });
    b->x2 = r->trains ? stream(r, "x2", r->rows) : b->x;
    stk_tape_linear_add(r->tape, &b->contract, hidden(r, b), b->factor[1], b->x1, b->x2);
}

static void perceive_back(recorder *r, stk_segformer_block *b)
{
    const stk_tape_view d_contract = stk_tape_view_scaled(r->d_x, b->factor[1]);
    if (r->recompute_projections) widen(r, b);
    const stk_tape_id d_h3 = map_of(r, "d_h3", r->hidden), d_h1 = map_of(r, "d_h1", r->hidden),
                      d_n = map_of(r, "d_n", r->channels);
    weight_back(r, STK_PART_LINEAR_WEIGHT, &b->contract, hidden(r, b), d_contract);
    stk_tape_linear_input(r->tape, STK_PART_LINEAR_INPUT, &b->contract, d_contract, d_h3, 0);
    stk_tape_add(r->tape, (stk_tape_op){ .kind = STK_TAPE_DEPTHWISE_BACK,
                                         .part = STK_PART_DEPTHWISE_BACKWARD,
                                         .layer = &b->depthwise,
                                         .map = r->map,
                                         .in = { b->h1, d_h3 },
                                         .out = { d_h1 } });
    weight_back(r, STK_PART_LINEAR_WEIGHT, &b->expand, stk_tape_view_normalised(&b->norm2, b->x1, b->stats2),
                stk_tape_view_rows(d_h1));
    stk_tape_linear_input(r->tape, STK_PART_LINEAR_INPUT, &b->expand, stk_tape_view_rows(d_h1), d_n, 0);
    stk_tape_norm_back(r->tape, &b->norm2, b->x1, b->stats2, d_n, r->d_x, r->d_x);
}

/* ---- stages ---- */

static recorder recorder_of(stk_tape *tape, const stk_segformer *s, int i, const stk_network_settings *how)
{
    const stk_segformer_stage *stage = &s->stage[i];
    const stk_conv_patches *p = &stage->patches, *k = &stage->reduced;
    return (recorder){ .tape = tape,
                       .type = how->type,
                       .trains = how->training && !how->freeze_encoder,
                       .picture = STK_TAPE_PICTURES,
                       .recompute_hidden = how->memory >= STOKE_MEMORY_LEAN,
                       .recompute_projections = how->memory >= STOKE_MEMORY_MIN,
                       .stage = stage,
                       .channels = s->config.hidden[i],
                       .hidden = s->config.hidden[i] * s->config.mlp_ratio,
                       .heads = s->config.heads[i],
                       .reduction = s->config.reduction[i],
                       .rows = (size_t)p->out_height * p->out_width,
                       .keys = (size_t)k->out_height * k->out_width,
                       .map = { .height = p->out_height, .width = p->out_width } };
}

/* The first stage reads the picture, the others the feature of the one before. */
static stk_tape_id stage_source(const recorder *r, const stk_segformer *s, int i)
{
    return i ? s->stage[i - 1].feature : r->picture;
}

static void stage_forward(recorder *r, stk_segformer *s, int i)
{
    stk_segformer_stage *stage = &s->stage[i];
    stage->embedded = stream(r, "embedded", r->rows);
    stage->embed_stats = statistics(r, "embedded stats", r->rows);
    stk_tape_id x = stream(r, "x", r->rows);
    stk_tape_linear(r->tape, STK_PART_EMBED_FORWARD, &stage->embed,
                    stk_tape_view_patches(&stage->patches, stage_source(r, s, i)), stage->embedded);
    stk_tape_norm(r->tape, &stage->embed_norm, stage->embedded, stage->embed_stats, x);
    for (uint32_t k = 0; k < s->config.depths[i]; k++) {
        stk_segformer_block *b = &stage->blocks[k];
        b->x = x;
        attend(r, b);
        perceive(r, b);
        x = b->x2;
    }
    stage->stats = statistics(r, "feature stats", r->rows);
    stage->feature = map_of(r, "feature", r->channels);
    stk_tape_norm(r->tape, &stage->norm, x, stage->stats, stage->feature);
}

/* From the gradient of its feature, f32 or of the run's type; adds to that of the stage before. */
static void stage_back(recorder *r, stk_segformer *s, int i)
{
    stk_segformer_stage *stage = &s->stage[i];
    const uint32_t depth = s->config.depths[i];
    r->d_x = stream(r, "d_x", r->rows);
    stk_tape_norm_back(r->tape, &stage->norm, stage->blocks[depth - 1].x2, stage->stats, stage->d_feature,
                       STK_TAPE_NONE, r->d_x);
    for (uint32_t k = depth; k--;) {
        perceive_back(r, &stage->blocks[k]);
        attend_back(r, &stage->blocks[k]);
    }
    const stk_tape_id d_embedded = stream(r, "d_embedded", r->rows);
    const stk_tape_view d_stream = stk_tape_view_scaled(d_embedded, STK_TAPE_NONE);
    stk_tape_norm_back(r->tape, &stage->embed_norm, stage->embedded, stage->embed_stats, r->d_x,
                       STK_TAPE_NONE, d_embedded);
    weight_back(r, STK_PART_EMBED_WEIGHT, &stage->embed,
                stk_tape_view_patches(&stage->patches, stage_source(r, s, i)), d_stream);
    const stk_tape_id d_source = i ? s->stage[i - 1].d_feature : r->d_picture;
    if (!d_source) return; /* of a network that trains nobody asks for the gradient of the pictures */
    const stk_tape_id d_patches = map_of(r, "d_patches", stage->embed.in);
    stk_tape_linear_input(r->tape, STK_PART_EMBED_INPUT, &stage->embed, d_stream, d_patches, 0);
    stk_tape_patches_back(r->tape, STK_PART_EMBED_INPUT, &stage->patches, d_patches, d_source, i > 0);
}

/* ---- the network ---- */

/* Blocks drop their branches with a probability that rises from 0 linearly; those with 0 draw nothing. */
static void draw_factors(stk_tape *tape, stk_segformer *s, double drop_path)
{
    for (uint32_t i = 0; i < s->block_count; i++)
        for (uint32_t branch = 0; branch < 2; branch++) {
            stk_tape_id *factor = &s->blocks[i].factor[branch];
            const float drop = (float)(drop_path * i / (s->block_count > 1 ? s->block_count - 1 : 1));
            *factor = drop > 0 ? stk_tape_declare(tape, "drop path", 1, 1, STK_F32) : STK_TAPE_NONE;
            if (*factor)
                stk_tape_add(tape, (stk_tape_op){ .kind = STK_TAPE_DRAW,
                                                  .part = STK_PART_EMBED_FORWARD,
                                                  .probability = drop,
                                                  .number = 2 * i + branch,
                                                  .out = { *factor } });
        }
}

static stk_tape_id logits_like(stk_tape *tape, const stk_segformer *s, const char *name)
{
    return stk_tape_declare(tape, name, (size_t)s->head.height[0] * s->head.width[0],
                            (uint32_t)stk_logits_stride(s->config.classes), STK_F32);
}

static void head_forward(stk_tape *tape, stk_segformer *s, const stk_network_settings *how)
{
    const size_t rows = (size_t)s->head.height[0] * s->head.width[0];
    /* in inference y is not stored */
    s->y = how->training ? stk_tape_declare(tape, "y", rows, s->config.decoder, how->type) : STK_TAPE_NONE;
    tape->logits = logits_like(tape, s, "logits");
    stk_tape_op op = { .kind = STK_TAPE_SEGFORMER_HEAD,
                       .part = STK_PART_HEAD_FORWARD,
                       .layer = &s->head,
                       .out = { tape->logits, s->y } };
    for (int i = 0; i < STK_STAGES; i++) op.in[i] = s->stage[i].feature;
    stk_tape_add(tape, op);
}

static void head_back(stk_tape *tape, stk_segformer *s, const stk_network_settings *how)
{
    const size_t rows = (size_t)s->head.height[0] * s->head.width[0];
    const stk_tape_id d_y = stk_tape_declare(tape, "d_y", rows, s->config.decoder, how->type);
    stk_tape_op op = { .kind = STK_TAPE_SEGFORMER_HEAD_BACK,
                       .part = STK_PART_HEAD_BACKWARD,
                       .layer = &s->head,
                       .in = { [4] = s->y, [5] = tape->d_logits },
                       .out = { d_y } };
    for (int i = 0; i < STK_STAGES; i++) {
        op.in[i] = s->stage[i].feature;
        if (how->freeze_encoder) continue;
        const size_t map = (size_t)s->head.height[i] * s->head.width[i];
        op.out[i + 1] = s->stage[i].d_feature =
            stk_tape_declare(tape, "d_feature", map, s->config.hidden[i], STK_F32);
    }
    stk_tape_add(tape, op);
}

void stk_segformer_record(void *segformer, const stk_network_settings *how, stk_tape *tape)
{
    stk_segformer *s = segformer;
    stk_segformer_shape(s, how->height, how->width);
    s->head.training = how->training;
    if (how->training) draw_factors(tape, s, how->drop_path);
    for (int i = 0; i < STK_STAGES; i++) {
        recorder r = recorder_of(tape, s, i, how);
        stage_forward(&r, s, i);
    }
    head_forward(tape, s, how);
    tape->out_height = s->head.height[0];
    tape->out_width = s->head.width[0];
    tape->forward = stk_tape_span_after(tape, (stk_tape_span){ 0 });
    if (!how->training) return;
    tape->d_logits = logits_like(tape, s, "d_logits");
    stk_tape_loss(tape);
    tape->loss = stk_tape_span_after(tape, tape->forward);
    head_back(tape, s, how);
    for (int i = STK_STAGES; i-- && !how->freeze_encoder;) {
        recorder r = recorder_of(tape, s, i, how);
        stage_back(&r, s, i);
    }
    tape->backward = stk_tape_span_after(tape, tape->loss);
}

/* ---- features ---- */

/* h3 is needed by the gradient of contract's weights alone. */
static recorder frozen_recorder(stk_tape *tape, const stk_segformer *s, int i,
                                const stk_network_settings *how)
{
    recorder r = recorder_of(tape, s, i, how);
    r.frozen = r.recompute_hidden = 1;
    return r;
}

uint32_t stk_segformer_features_forward(void *segformer, const stk_network_settings *how, stk_tape *tape,
                                        stk_tape_id picture, stk_tape_id features[static STK_STAGES])
{
    stk_segformer *s = segformer;
    stk_segformer_shape(s, how->height, how->width);
    for (int i = 0; i < STK_STAGES; i++) {
        recorder r = frozen_recorder(tape, s, i, how);
        r.picture = picture;
        stage_forward(&r, s, i);
        features[i] = s->stage[i].feature;
    }
    return STK_STAGES;
}

void stk_segformer_features_back(void *segformer, const stk_network_settings *how, stk_tape *tape,
                                 const stk_tape_id d_features[static STK_STAGES], stk_tape_id d_picture)
{
    stk_segformer *s = segformer;
    for (int i = STK_STAGES; i--;) {
        recorder r = frozen_recorder(tape, s, i, how);
        r.d_picture = d_picture;
        s->stage[i].d_feature = d_features[i];
        if (i) s->stage[i - 1].d_feature = d_features[i - 1];
        stage_back(&r, s, i);
    }
}
