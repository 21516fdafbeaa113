/* SPDX-License-Identifier: Apache-2.0
 *
 * Every tensor of the network by Hugging Face's (old) name, and where it lies in one flat array of floats:
 * trainable ones first, in the order of its state_dict, then the running statistics.
 */
#ifndef STOKE_SRC_NET_SEGFORMER_SEGFORMER_PARAMETERS_H
#define STOKE_SRC_NET_SEGFORMER_SEGFORMER_PARAMETERS_H

#include "src/net/segformer/segformer_config.h"
#include "src/base/threadpool.h"

enum { STK_NAME = 96 };

typedef struct stk_parameter {
    char name[STK_NAME]; /* "segformer.encoder.block.0.1.attention.self.query.weight" */
    uint32_t dims, shape[4];
    size_t offset, count; /* floats; every offset is a multiple of 16 */
    int trainable;        /* 0: running_mean, running_var */
    int head;             /* 1: part of decode_head */
    int norm;             /* 1: of a LayerNorm or BatchNorm: no weight decay */
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
