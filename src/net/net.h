/* SPDX-License-Identifier: Apache-2.0
 *
 * What a network is made of. A call goes down through these files:
 *
 *   net_train.c                one batch: forward, loss, backward; the step
 *   segformer_block.c          patch embedding, attention, MLP, norm: both ways
 *   ops/ops.h                  the operations
 *
 * Opening it: net.c reads the settings, segformer_parameters.c lists the parameters and the layers that use
 * them, segformer_bind.c connects the two, segformer_memory.c lays everything out in the arena,
 * segformer_flops.c adds it up.
 */
#ifndef STOKE_SRC_NET_NET_H
#define STOKE_SRC_NET_NET_H

#include "src/base/clock.h"
#include "src/base/remarks.h"
#include "src/net/kernels/net_table.h"
#include "src/net/ops/ops.h"
#include "src/net/segformer/segformer_head.h"
#include "src/net/segformer/segformer.h"
#include <stoke/common.h>
#include <stoke/tools/net.h>

/* ---- activation arena ---- */

/* All memory of a network in one allocation, planned ahead. The same code runs twice: once with no memory, to
 * measure, then once more to hand out addresses; so the plan that is printed is the memory that is used. */

/* What memory is for, as the plan reports it. The regions lie one after the other. */
typedef enum stk_arena_region {
    STK_REGION_PARAMETERS = 0,
    STK_REGION_PACKED = 1,
    STK_REGION_ACTIVATIONS = 2,
    STK_REGION_WORKSPACE = 3
} stk_arena_region;
enum { STK_REGIONS = 4 };

typedef struct stk_activation_arena {
    unsigned char *base;       /* NULL while measuring */
    size_t used[STK_REGIONS];  /* now */
    size_t most[STK_REGIONS];  /* ever: the size of the region */
    size_t start[STK_REGIONS]; /* of the region, once there is memory */
} stk_activation_arena;

/* Room for `count` elements of `bytes` bytes, 64-byte aligned; NULL while measuring. */
void *stk_activation_arena_take(stk_activation_arena *arena, stk_arena_region region, size_t count,
                                size_t bytes);

/* What is taken between a mark and its release may share memory with what is taken after it. */
static inline size_t stk_activation_arena_mark(const stk_activation_arena *arena, stk_arena_region region)
{
    return arena->used[region];
}
static inline void stk_activation_arena_release(stk_activation_arena *arena, stk_arena_region region,
                                                size_t mark)
{
    arena->used[region] = mark;
}

size_t stk_activation_arena_bytes(const stk_activation_arena *arena);

/* ---- profile ---- */

/* Where the time of a step goes. The caller's thread reads the clock after every operation (about 25 ns, some
 * 300 operations in a step of b0) and charges what has passed to that operation's part. */

typedef enum stk_profile_part {
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
    STK_PART_LOSS,
    STK_PART_UPDATE,
    STK_PARTS
} stk_profile_part;

typedef struct stk_profile {
    uint64_t last; /* when the clock was read */
    uint64_t ns[STK_PARTS], calls[STK_PARTS];
} stk_profile;

/* Work begins: what passed before is nobody's. */
static inline void stk_profile_start(stk_profile *parts)
{
    parts->last = stk_now_ns();
}

/* What has passed since the last reading was `part`. */
static inline void stk_profile_lap(stk_profile *parts, stk_profile_part part)
{
    const uint64_t now = stk_now_ns();
    parts->ns[part] += now - parts->last;
    parts->calls[part]++;
    parts->last = now;
}

/*   n1 = norm1(x);  q = query(n1);  r = reduction(n1);  kv = key_value(norm_reduced(r))   [or of n1]
 *   x1 = x + drop(output(attention(q, kv)))
 *   h1 = expand(norm2(x1));  h2 = depthwise(h1);  h3 = gelu(h2)
 *   x2 = x1 + drop(contract(h3))
 *
 * Normalised rows are never kept, only their statistics. In inference all blocks of a stage share their
 * buffers, and x, x1 and x2 are one. */
typedef struct stk_segformer_block {
    stk_layernorm norm1, norm_reduced, norm2;
    stk_linear query, key_value, reduction, output, expand, contract;
    stk_depthwise depthwise;
    float drop;            /* probability that a branch is dropped */
    float *drop_factor[2]; /* of attention and MLP: per sample, 0 or 1 / (1 - drop); NULL when drop is 0 */

    float *x, *x1, *x2; /* f32, rows x channels */
    float *stats1, *stats2, *stats_reduced;
    float *reduced; /* f32: r, before its norm */
    void *q, *kv, *context;
    float *log_sum; /* NULL in inference */
    void *h1, *h3;  /* h3 NULL: made from h1 where it is needed */
} stk_segformer_block;

typedef struct stk_segformer_stage {
    uint32_t channels, heads, hidden; /* hidden: of the MLP */
    uint32_t height, width;           /* of its map */
    uint32_t reduction;               /* keys and values are of a map smaller by this */
    uint32_t reduced_height, reduced_width;
    uint32_t depth;
    stk_conv_patches patches; /* of the embedding; batch and source change from call to call */
    stk_linear embed;
    stk_layernorm embed_norm, norm;
    stk_segformer_block *blocks;

    float *embedded, *embed_stats, *stats; /* embedded: f32, before its norm */
    void *feature;                         /* norm(x2 of the last block), the run's type */
    float *d_feature;

    /* Shared by its blocks; d_x is the gradient of the stream, f32. */
    void *n1;
    float *d_x;
    void *d_n, *d_h3, *d_h1;
    void *d_context, *d_q, *d_kv, *d_keys, *d_patches;
    float *d_reduced, *d_embedded;
    void *d_rows;              /* of the embedding's patches */
    int recompute_hidden;      /* memory lean and min: h3 is not kept */
    int recompute_projections; /* min: so are h1, q and kv */
} stk_segformer_stage;

struct stoke_net {
    stoke_net_params params; /* strings are NULL: they were the caller's */
    float *class_weights;    /* a copy of params.loss.class_weights */
    stk_segformer_config config;
    stk_parameters parameters;
    stoke_net_plan plan;
    stk_exec run;
    stk_activation_arena arena;

    float *values, *gradients, *first, *second, *average; /* flat, as parameters says */
    stk_update_group *groups;
    stk_segformer_stage stages[STK_STAGES];
    stk_segformer_block *blocks; /* of all stages */
    uint32_t block_count;
    stk_segformer_head head;
    stk_loss_shape loss_shape;
    void *loss_room;
    void *y, *d_y;
    float *logits, *d_logits;
    float *saved_running; /* running statistics as they were before a batch that turns out bad */

    const stk_linear **linears; /* to be packed */
    size_t linear_count;
    const stk_depthwise **depthwises; /* one per block */

    int encoder_packed; /* its packed weights are those of the masters */
    int head_packed;    /* so are the head's, for head.training */
    int dropping;       /* a training batch is on its way: drop path is at work */
    int have_gradients; /* since the last step */
    stoke_net_state state;
    stk_profile parts;
    char **labels; /* names of the classes, given or from the file; NULL without */
    stk_remarks remarks;
};

/* Opening, with a given table (tests) instead of the one in use. */
int stk_net_open(stoke_net **out, const stoke_net_params *params, const stk_net_table *table,
                 stoke_error *err);
/* The sizes of all layers, and the list of those to be packed. */
void stk_net_shape_layers(stoke_net *net);
/* The layers' pointers into values and gradients; NULL while there is no memory. */
void stk_net_bind(stoke_net *net);
/* Hands out the arena and binds; run twice, see the arena. */
void stk_net_lay_out(stoke_net *net);
/* Where the loss scale begins: above 1 in fp16 only. */
double stk_net_first_scale(int precision);
/* After measuring. */
void stk_net_plan_make(stoke_net *net);

/* The loss of one picture of the last pass against one mask. */
int stk_net_item_loss(stoke_net *net, uint32_t item, const stk_loss_truth *truth, double *loss,
                      stoke_error *err);

static inline size_t stk_segformer_stage_rows(const stk_segformer_stage *stage, uint32_t count)
{
    return (size_t)count * stage->height * stage->width;
}
static inline size_t stk_segformer_stage_keys(const stk_segformer_stage *stage, uint32_t count)
{
    return (size_t)count * stage->reduced_height * stage->reduced_width;
}
stk_attention stk_segformer_stage_attention(const stk_segformer_stage *stage, uint32_t count);
void stk_segformer_stage_forward(stoke_net *net, uint32_t index, const stoke_net_batch *batch);
void stk_segformer_stage_backward(stoke_net *net, uint32_t index, const stoke_net_batch *batch);

#endif
