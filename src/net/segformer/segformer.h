/* SPDX-License-Identifier: Apache-2.0
 *
 * SegFormer: its sizes, its layers, its tape.
 */
#ifndef STOKE_SRC_NET_SEGFORMER_SEGFORMER_H
#define STOKE_SRC_NET_SEGFORMER_SEGFORMER_H

#include "src/net/network.h"
#include "src/net/segformer/segformer_head.h"
#include <stoke/common.h>

/* The sizes of SegFormer b0..b5. */

enum { STK_SEGFORMER_SIDE_MIN = 29 }; /* leaves every stage a key; Hugging Face fails below too */

typedef struct stk_segformer_config {
    const char *model;                                 /* "b0" */
    uint32_t hidden[STK_STAGES], depths[STK_STAGES];   /* multiples of 32 */
    uint32_t heads[STK_STAGES], reduction[STK_STAGES]; /* 1 2 5 8; 8 4 2 1 */
    uint32_t patch[STK_STAGES], stride[STK_STAGES];    /* 7 3 3 3; 4 2 2 2; padding patch / 2 */
    uint32_t mlp_ratio, decoder, classes;              /* 4; 256 or 768; 1 .. 65535 */
} stk_segformer_config;

/* Of one of its models. */
stk_segformer_config stk_segformer_sizes(const char *model, uint32_t classes);
/* The model of these sizes, with 0 classes. Returns 0 when there is none. */
int stk_segformer_like(stk_segformer_config *config, const uint32_t hidden[static STK_STAGES],
                       const uint32_t depths[static STK_STAGES]);

/* ---- layers ---- */

/* The layers of a block, and the tensors that it keeps or last recorded.
 *
 *   n1 = norm1(x);  q = query(n1);  r = reduction(n1);  kv = key_value(norm_reduced(r))   [or of n1]
 *   x1 = x + drop(output(attention(q, kv)))
 *   h1 = expand(norm2(x1));  h2 = depthwise(h1);  h3 = gelu(h2)
 *   x2 = x1 + drop(contract(h3))
 *
 * Normalised rows are never kept, only their statistics. */
typedef struct stk_segformer_block {
    stk_layernorm norm1, norm_reduced, norm2;
    stk_linear query, key_value, reduction, output, expand, contract;
    stk_depthwise depthwise;
    stk_tape_id x, x1, x2, stats1, stats2, reduced, stats_reduced, q, kv, context, log_sum, h1, h3;
    stk_tape_id factor[2]; /* of attention and MLP, per sample; none where nothing is dropped */
} stk_segformer_block;

typedef struct stk_segformer_stage {
    stk_linear embed;
    stk_layernorm embed_norm, norm;
    stk_segformer_block *blocks;
    stk_conv_patches patches, reduced; /* of the embedding, and of the map that keys and values are of */
    stk_tape_id embedded, embed_stats, stats, feature, d_feature;
} stk_segformer_stage;

typedef struct stk_segformer {
    stk_segformer_config config;
    stk_segformer_stage stage[STK_STAGES];
    stk_segformer_head head;
    stk_tape_id y;
    uint32_t block_count;
    stk_segformer_block blocks[]; /* of all stages */
} stk_segformer;

/* The shapes of all maps. Every side from STK_SEGFORMER_SIDE_MIN on leaves every stage at least one key.
 * Recording does it, too. */
void stk_segformer_shape(stk_segformer *segformer, uint32_t height, uint32_t width);

/* ---- what stk_segformer_network is made of ---- */

/* Of the modes of memory, besides x, x1, context and statistics, plain keeps q, kv, h1, h3; lean q, kv, h1;
 * min none of them. */
void stk_segformer_record(void *segformer, const stk_network_settings *how, stk_tape *tape);
/* As Hugging Face's module keeps them. */
uint64_t stk_segformer_eager_bytes(void *segformer, const stk_network_settings *how,
                                   stk_network_widths widths);
/* Of the encoder alone, frozen (features.h). */
uint32_t stk_segformer_features_forward(void *segformer, const stk_network_settings *how, stk_tape *tape,
                                        stk_tape_id picture, stk_tape_id features[static STK_STAGES]);
void stk_segformer_features_back(void *segformer, const stk_network_settings *how, stk_tape *tape,
                                 const stk_tape_id d_features[static STK_STAGES], stk_tape_id d_picture);
int stk_segformer_name(const char *name, char declared[static STK_NAME]);
int stk_segformer_read(const char *path, const stk_json *config_json, stk_network_config *config,
                       stk_say_fn *remark, void *context, stoke_error *err);
void stk_segformer_write_config(FILE *out, const stk_network_config *config);

#endif
