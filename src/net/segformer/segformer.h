/* SPDX-License-Identifier: Apache-2.0
 *
 * SegFormer: its sizes, and its parameters with their names.
 */
#ifndef STOKE_SRC_NET_SEGFORMER_SEGFORMER_H
#define STOKE_SRC_NET_SEGFORMER_SEGFORMER_H

#include "src/base/threadpool.h"
#include <stoke/common.h>

/* The sizes of SegFormer b0..b5. */

enum {
    STK_CONFIG_STAGES = 4,
    STK_CONFIG_CLASSES = 65535, /* predictions are 16 bits wide */
    STK_NET_BATCH = 65536,      /* the loader's limit too */
    STK_NET_SIDE_MIN = 29,      /* the smallest that leaves every stage a key; Hugging Face fails below too */
    STK_NET_SIDE_MAX = 32768
};

/* The pixels of a batch, at most: 1.4 TB of a b0's training, 8192 pictures of 512 x 512. Numbers of rows and
 * tasks fit 32 bits below it, and the plan, which looks at batches of every size, is made in a blink. */
#define STK_NET_PIXELS (UINT64_C(1) << 31)

typedef struct stk_segformer_config {
    const char *model;                                               /* "b0" */
    uint32_t hidden[STK_CONFIG_STAGES], depths[STK_CONFIG_STAGES];   /* multiples of 32 */
    uint32_t heads[STK_CONFIG_STAGES], reduction[STK_CONFIG_STAGES]; /* 1 2 5 8; 8 4 2 1 */
    uint32_t patch[STK_CONFIG_STAGES], stride[STK_CONFIG_STAGES];    /* 7 3 3 3; 4 2 2 2; padding patch / 2 */
    uint32_t mlp_ratio, decoder, classes;                            /* 4; 256 or 768; 1 .. 65535 */
} stk_segformer_config;

/* STOKE_E_NOTFOUND: no such model; the message lists them. */
int stk_config_of(stk_segformer_config *config, const char *model, uint32_t classes, stoke_error *err);
/* The model of these sizes, with 0 classes. Returns 0 when there is none. */
int stk_config_like(stk_segformer_config *config, const uint32_t hidden[static STK_CONFIG_STAGES],
                    const uint32_t depths[static STK_CONFIG_STAGES]);
/* A batch of pictures within these limits, or STOKE_E_INVALID, STOKE_E_LIMIT. */
int stk_config_check_batch(uint32_t batch, uint32_t height, uint32_t width, stoke_error *err);

/* ---- parameters ---- */

/* Every tensor of the network by Hugging Face's (old) name, and where it lies in one flat array of floats:
 * trainable ones first, in the order of its state_dict, then the running statistics. */

enum { STK_NAME = 96, STK_OWNER_HEAD = STK_CONFIG_STAGES, STK_OWNER_BLOCKS };

typedef struct stk_parameter {
    char name[STK_NAME]; /* "segformer.encoder.block.0.1.attention.self.query.weight" */
    uint32_t dims, shape[4];
    size_t offset, count; /* floats; every offset is a multiple of 16 */
    int trainable;        /* 0: running_mean, running_var */
    int head;             /* 1: part of decode_head */
    int norm;             /* 1: of a LayerNorm or BatchNorm: no weight decay */
    /* The struct that uses it, and where there the pointers to values and gradients are. */
    uint32_t owner; /* a stage's number, STK_OWNER_HEAD, or STK_OWNER_BLOCKS and a block's */
    size_t values_slot, gradients_slot; /* gradients_slot 0: has none */
} stk_parameter;

typedef struct stk_parameters {
    stk_parameter *list;
    size_t count;
    size_t floats;     /* of the flat array, gaps for alignment included (they stay 0) */
    size_t trainable;  /* floats of the trainable part, a multiple of 16 */
    uint64_t elements; /* trainable elements: 3,719,027 for b0 with 19 classes */
} stk_parameters;

int stk_parameters_create(stk_parameters *parameters, const stk_segformer_config *config, stoke_error *err);
void stk_parameters_free(stk_parameters *parameters);
/* NULL when there is none of that name. */
const stk_parameter *stk_parameters_find(const stk_parameters *parameters, const char *name);
/* As Hugging Face initialises: normal(0, 0.02) for weights of linear and convolution layers, 0 for biases, 1
 * and 0 for norms; a function of (seed, name, element), so that a tensor gets the same values whatever else
 * is loaded, whoever fills it. All tensors by a team, or one; `values` is the flat array. */
void stk_parameters_initialise(const stk_parameters *parameters, float *values, uint64_t seed,
                               stk_threadpool *pool);
void stk_parameter_initialise(const stk_parameter *parameter, float *values, uint64_t seed);

#endif
