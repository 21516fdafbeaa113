/* SPDX-License-Identifier: Apache-2.0
 *
 * A network as data: tensors, and the operations on them in the order in which they run. The network's own
 * file records it once, when it is opened (network.h); all else reads it: what memory is needed and where
 * each tensor lies, how much there is to compute (tape_plan.c), and who carries it out (execute.c).
 *
 * An operation is what a fast kernel does in one go. What it reads may be a view: rows that are made from a
 * tensor when they are needed (patches, a normalisation, a depthwise convolution) and never lie in memory as
 * a whole. How much is kept for the backward pass is decided by who records: what is recorded again in
 * the backward pass need not be kept.
 */
#ifndef STOKE_SRC_NET_TAPE_H
#define STOKE_SRC_NET_TAPE_H

#include "src/base/clock.h"
#include "src/net/ops/ops.h"

/* ---- profile ---- */

/* Where the time of a step goes. The caller's thread reads the clock after every operation (about 25 ns, some
 * 300 operations in a step of b0) and charges what has passed to that operation's part. */

typedef enum stk_tape_part {
    STK_PART_PACK,
    STK_PART_EMBED_FORWARD,
    STK_PART_EMBED_WEIGHT,
    STK_PART_EMBED_INPUT,
    STK_PART_REDUCTION_FORWARD,
    STK_PART_REDUCTION_WEIGHT,
    STK_PART_REDUCTION_INPUT,
    STK_PART_LINEAR_FORWARD,
    STK_PART_LINEAR_WEIGHT,
    STK_PART_LINEAR_INPUT,
    STK_PART_NORM_FORWARD,
    STK_PART_NORM_BACKWARD,
    STK_PART_ATTENTION_FORWARD,
    STK_PART_ATTENTION_BACKWARD,
    STK_PART_DEPTHWISE_FORWARD,
    STK_PART_DEPTHWISE_BACKWARD,
    STK_PART_HEAD_FORWARD,
    STK_PART_HEAD_BACKWARD,
    STK_PART_CONV_FORWARD,
    STK_PART_CONV_WEIGHT,
    STK_PART_CONV_INPUT,
    STK_PART_RESAMPLE,
    STK_PART_LOSS,
    STK_PART_FEATURES_FORWARD,
    STK_PART_FEATURES_BACKWARD,
    STK_PART_UPDATE,
    STK_PARTS
} stk_tape_part;

typedef struct stk_tape_profile {
    uint64_t last; /* when the clock was read */
    uint64_t ns[STK_PARTS], calls[STK_PARTS];
} stk_tape_profile;

/* Work begins: what passed before is nobody's. */
static inline void stk_tape_profile_start(stk_tape_profile *parts)
{
    parts->last = stk_now_ns();
}

/* What has passed since the last reading was `part`. */
static inline void stk_tape_profile_lap(stk_tape_profile *parts, stk_tape_part part)
{
    const uint64_t now = stk_now_ns();
    parts->ns[part] += now - parts->last;
    parts->calls[part]++;
    parts->last = now;
}

/* ---- tensors ---- */

typedef uint32_t stk_tape_id;
enum {
    STK_TAPE_NONE = 0,
    STK_TAPE_PICTURES = 1 /* of the batch; they lie where the caller has them */
};

/* A matrix of so many rows per sample. */
typedef struct stk_tape_tensor {
    const char *name; /* a literal, as the network's file calls it: "h1" */
    size_t rows;      /* of a sample */
    uint32_t width;   /* elements of a row */
    uint32_t stride;  /* elements from row to row: width, or that of the tensor it lies in */
    stk_float type;
    stk_tape_id of; /* what it lies in, from its column `column` on; NONE: nothing */
    uint32_t column;
    uint32_t covered;     /* columns that have been written */
    uint32_t first, last; /* the operations that write it first and read it last */
    size_t at, bytes;     /* where it lies in the network's maps, once placed; bytes of the largest batch */
} stk_tape_tensor;

/* ---- operations ---- */

typedef enum stk_tape_view_kind {
    STK_TAPE_VIEW_ROWS,       /* the tensor itself */
    STK_TAPE_VIEW_PATCHES,    /* of a map: `source` is a stk_conv_patches without batch and source */
    STK_TAPE_VIEW_NORMALISED, /* by `source`, a stk_layernorm; `beside` are the statistics */
    STK_TAPE_VIEW_HIDDEN,     /* gelu(depthwise): `source` is a stk_depthwise, on `map` */
    STK_TAPE_VIEW_SCALED      /* f32 to the run's type, times a factor per sample where `beside` has one */
} stk_tape_view_kind;

typedef struct stk_tape_view {
    stk_tape_view_kind kind;
    stk_tape_id of, beside;
    const void *source;
    stk_depthwise_map map; /* batch is not used */
} stk_tape_view;

/* What the operations read and write, in the order of `in` and `out`. Names of a layer's kind. */
typedef enum stk_tape_op_kind {
    STK_TAPE_DRAW,                /* -> factor per sample: 0 or 1 / (1 - probability) */
    STK_TAPE_LINEAR,              /* view x; [scale, residual] -> y */
    STK_TAPE_LINEAR_WEIGHT,       /* view x, view dy -> the layer's gradients */
    STK_TAPE_LINEAR_INPUT,        /* view dy -> dx, = or += */
    STK_TAPE_PATCHES_BACK,        /* view x (its patches, of nothing), d_patches -> dx, = or += */
    STK_TAPE_NORM,                /* x -> stats [, y] */
    STK_TAPE_NORM_BACK,           /* x, stats, dy [, residual] -> dx */
    STK_TAPE_ATTENTION,           /* q, kv -> context [, log_sum] */
    STK_TAPE_ATTENTION_BACK,      /* q, kv, context, log_sum, d_context -> d_q, d_kv */
    STK_TAPE_DEPTHWISE,           /* h1 -> h3 */
    STK_TAPE_DEPTHWISE_BACK,      /* h1, d_h3 -> d_h1 */
    STK_TAPE_SEGFORMER_HEAD,      /* features 1 to 4 -> logits [, y] */
    STK_TAPE_SEGFORMER_HEAD_BACK, /* features 1 to 4, y, d_logits -> d_y [, gradients of features 1 to 4] */
    STK_TAPE_CONV3,               /* view x; [residual] -> y */
    STK_TAPE_CONV3_WEIGHT,        /* view x, view dy -> the layer's gradients */
    STK_TAPE_CONV3_INPUT,         /* view dy; [residual, gate] -> dx */
    STK_TAPE_SHUFFLE,             /* narrow -> wide */
    STK_TAPE_SHUFFLE_BACK,        /* d_wide -> d_narrow */
    STK_TAPE_POOL,                /* large -> small */
    STK_TAPE_POOL_BACK,           /* large, d_small -> d_large, = or += */
    STK_TAPE_LOSS,                /* logits -> d_logits */
    STK_TAPE_STANDARDISE,         /* a picture of 0 .. 1, NONE for the batch's targets -> y */
    STK_TAPE_STANDARDISE_BACK,    /* dy -> dx, += */
    STK_TAPE_GATE,                /* view x; d -> d, 0 where x is not above 0 */
    STK_TAPE_DISTANCE             /* view x, view dy (the other one) [-> gradient of x] */
} stk_tape_op_kind;

enum { STK_TAPE_OPERANDS = 6 };

typedef struct stk_tape_op {
    stk_tape_op_kind kind;
    stk_tape_part part; /* whose time it is */
    int add;            /* += */
    size_t rows;        /* of a sample: those of dy, or of the first that is written */
    const void *layer;  /* stk_linear, stk_layernorm, stk_depthwise, stk_segformer_head, stk_conv3 */
    stk_tape_view x, dy;
    stk_tape_id in[STK_TAPE_OPERANDS], out[STK_TAPE_OPERANDS];
    stk_attention attention; /* batch is not used */
    stk_depthwise_map map;   /* batch is not used */
    float factor;            /* of CONV3*: times the sum, or dy */
    int relu;                /* of CONV3 */
    uint32_t scale;          /* of SHUFFLE*, */
    uint32_t channels;       /* and of its wide map: a row may be wider */
    float probability;       /* of DRAW, and the number of its stream of random numbers */
    uint32_t number;
} stk_tape_op;

/* ---- the tape ---- */

typedef struct stk_tape_span {
    uint32_t begin, end;
} stk_tape_span;

typedef struct stk_tape {
    stk_tape_tensor *tensors; /* [0] and [1] are not in memory */
    stk_tape_op *ops;
    size_t tensor_count, tensor_capacity, op_count, op_capacity;
    stk_tape_span forward, loss, backward;
    stk_tape_id logits, d_logits;
    uint32_t out_height, out_width; /* of the logits */
    size_t bytes;                   /* of all maps together, once placed */
    size_t kept;                    /* of those that outlive the forward pass, for the backward pass */
    /* What else a loss is made of records itself behind it; NULL: nothing. */
    void (*judge)(void *context, struct stk_tape *tape);
    void *judge_context;
    int failed;            /* no memory: all recording after it does nothing */
    const char *unwritten; /* the tensor that is read before anything writes it; NULL: none is */
} stk_tape;

stk_tape_id stk_tape_declare(stk_tape *tape, const char *name, size_t rows, uint32_t width, stk_float type);
/* Columns first .. first + width of another tensor, which lives as long as any of its parts. */
stk_tape_id stk_tape_columns(stk_tape *tape, const char *name, stk_tape_id of, uint32_t first,
                             uint32_t width);
/* Its rows follow from its tensors. */
void stk_tape_add(stk_tape *tape, stk_tape_op op);
/* The operations that networks share. y = layer(x); y = residual + factor * layer(x), factor and residual may
 * be STK_TAPE_NONE; the layer's gradients; dx = or += dy W; the gradient of what patches were cut from, = or
 * += dx; a norm, y STK_TAPE_NONE for its statistics alone; dx = residual + the norm's gradient. */
void stk_tape_linear(stk_tape *tape, stk_tape_part part, const stk_linear *layer, stk_tape_view x,
                     stk_tape_id y);
void stk_tape_linear_add(stk_tape *tape, const stk_linear *layer, stk_tape_view x, stk_tape_id factor,
                         stk_tape_id residual, stk_tape_id y);
void stk_tape_linear_weight(stk_tape *tape, stk_tape_part part, const stk_linear *layer, stk_tape_view x,
                            stk_tape_view dy);
void stk_tape_linear_input(stk_tape *tape, stk_tape_part part, const stk_linear *layer, stk_tape_view dy,
                           stk_tape_id dx, int add);
void stk_tape_patches_back(stk_tape *tape, stk_tape_part part, const stk_conv_patches *patches,
                           stk_tape_id d_patches, stk_tape_id dx, int add);
void stk_tape_norm(stk_tape *tape, const stk_layernorm *layer, stk_tape_id x, stk_tape_id stats,
                   stk_tape_id y);
void stk_tape_norm_back(stk_tape *tape, const stk_layernorm *layer, stk_tape_id x, stk_tape_id stats,
                        stk_tape_id dy, stk_tape_id residual, stk_tape_id dx);
/* y = relu(factor * (layer(x) + bias)) + residual, relu and residual where they are asked for; the layer's
 * gradients of factor * dy; dx = factor * layer's gradient, 0 where the gate is, + residual. x may be the
 * pictures. */
typedef struct stk_tape_conv3_finish {
    float factor;
    int relu;
    stk_tape_id residual, gate;
} stk_tape_conv3_finish;
void stk_tape_conv3(stk_tape *tape, const stk_conv3 *layer, stk_depthwise_map map, stk_tape_id x,
                    stk_tape_conv3_finish finish, stk_tape_id y);
void stk_tape_conv3_weight(stk_tape *tape, const stk_conv3 *layer, stk_depthwise_map map, stk_tape_id x,
                           stk_tape_id dy, float factor);
void stk_tape_conv3_input(stk_tape *tape, const stk_conv3 *layer, stk_depthwise_map map, stk_tape_id dy,
                          stk_tape_conv3_finish finish, stk_tape_id dx);
/* A pixel shuffle and a pool of 2x2, and back. `map` is the narrow one of a shuffle, the large one of a pool.
 */
void stk_tape_shuffle(stk_tape *tape, stk_depthwise_map map, uint32_t scale, uint32_t channels,
                      stk_tape_id narrow, stk_tape_id wide);
void stk_tape_shuffle_back(stk_tape *tape, stk_depthwise_map map, uint32_t scale, uint32_t channels,
                           stk_tape_id d_wide, stk_tape_id d_narrow);
void stk_tape_pool(stk_tape *tape, stk_depthwise_map map, stk_tape_id large, stk_tape_id small);
void stk_tape_pool_back(stk_tape *tape, stk_depthwise_map map, stk_tape_id large, stk_tape_id d_small,
                        stk_tape_id d_large, int add);
/* What is between forward and backward: logits -> d_logits, and what the tape's `judge` adds to it. */
void stk_tape_loss(stk_tape *tape);
/* Of a perceptual loss. A picture standardised, NONE: the batch's targets; its gradient added to that of the
 * picture; d becomes 0 where y, made by a ReLU, is 0; the distance of x from y, whose gradient takes the
 * place of y where `train`. */
void stk_tape_standardise(stk_tape *tape, stk_depthwise_map map, stk_tape_id picture, stk_tape_id y);
void stk_tape_standardise_back(stk_tape *tape, stk_tape_id dy, stk_tape_id d_picture);
void stk_tape_gate(stk_tape *tape, stk_tape_id y, stk_tape_id d);
void stk_tape_distance(stk_tape *tape, stk_tape_id x, stk_tape_id y, int train);
/* A span of the tape ends, and the next begins, with what is recorded now. */
stk_tape_span stk_tape_span_after(const stk_tape *tape, stk_tape_span before);

/* After recording: lays the tensors out for batches of up to `batch`, so that none shares memory with another
 * one whose life overlaps its own. */
int stk_tape_place(stk_tape *tape, uint32_t batch, stoke_error *err);
void stk_tape_free(stk_tape *tape);
/* Whether the forward pass keeps it for the backward pass. */
int stk_tape_is_kept(const stk_tape *tape, const stk_tape_tensor *tensor);

/* Floating-point operations of one call. Elementwise work is not counted. */
double stk_tape_flops(const stk_tape *tape, stk_tape_span span, uint32_t batch);
double stk_tape_op_flops(const stk_tape_op *op, uint32_t batch);
/* Scratch that the hungriest operation needs at any size of a batch. */
stk_exec_need stk_tape_need(const stk_tape *tape, const stk_exec *run, uint32_t batch);

static inline stk_tape_view stk_tape_view_rows(stk_tape_id of)
{
    return (stk_tape_view){ .kind = STK_TAPE_VIEW_ROWS, .of = of };
}
static inline stk_tape_view stk_tape_view_patches(const stk_conv_patches *patches, stk_tape_id of)
{
    return (stk_tape_view){ .kind = STK_TAPE_VIEW_PATCHES, .of = of, .source = patches };
}
static inline stk_tape_view stk_tape_view_normalised(const stk_layernorm *norm, stk_tape_id of,
                                                     stk_tape_id stats)
{
    return (stk_tape_view){ .kind = STK_TAPE_VIEW_NORMALISED, .of = of, .beside = stats, .source = norm };
}
static inline stk_tape_view stk_tape_view_hidden(const stk_depthwise *layer, stk_depthwise_map map,
                                                 stk_tape_id of)
{
    return (stk_tape_view){ .kind = STK_TAPE_VIEW_HIDDEN, .of = of, .source = layer, .map = map };
}
static inline stk_tape_view stk_tape_view_scaled(stk_tape_id of, stk_tape_id factor)
{
    return (stk_tape_view){ .kind = STK_TAPE_VIEW_SCALED, .of = of, .beside = factor };
}

#endif
