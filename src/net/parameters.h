/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters of a network: every tensor by its name, where it lies in one flat array of floats, which
 * pointers of which layer want its address. A network declares its layers once, in the order of its
 * state_dict; trainable tensors first, then what is only kept (running statistics).
 */
#ifndef STOKE_SRC_NET_PARAMETERS_H
#define STOKE_SRC_NET_PARAMETERS_H

#include "src/base/threadpool.h"
#include "src/net/ops/ops.h"
#include <stoke/common.h>

enum { STK_NAME = 96 };

typedef struct stk_parameter {
    char name[STK_NAME]; /* "segformer.encoder.block.0.1.attention.self.query.weight" */
    uint32_t dims, shape[4];
    size_t offset, count; /* floats; every offset is a multiple of 16 */
    int trainable;        /* 0: running_mean, running_var */
    int head;             /* 1: not of what is pretrained: a rate of its own, and not frozen with the rest */
    int output;           /* 1: has a row per class: a file may hold it for other classes */
    int norm;             /* 1: of a LayerNorm or BatchNorm: no weight decay */
    double spread;        /* deviation of the normal numbers that a weight begins with */
    const float **values; /* of the layer that uses it: where its address goes, and that of its gradient */
    float **gradients;    /* NULL: has none */
} stk_parameter;

typedef struct stk_parameters {
    stk_parameter *list;
    size_t count, capacity;
    size_t floats;     /* of the flat array, gaps for alignment included (they stay 0) */
    size_t trainable;  /* floats of the trainable part, a multiple of 16 */
    uint64_t elements; /* trainable elements: 3,719,027 for b0 with 19 classes */
    /* Layers whose weights are packed for the kernels. */
    stk_linear **linears;
    stk_depthwise **depthwises;
    stk_conv3 **conv3s;
    size_t linear_count, linear_capacity, depthwise_count, depthwise_capacity, conv3_count, conv3_capacity;
    const char *counter; /* name of the integer that counts batches of the running statistics; NULL: none */
    /* Of the modules that are declared now. */
    char prefix[48];
    int role;      /* stk_parameter_role */
    double spread; /* 0: 0.02, initializer_range of every config.json that Hugging Face publishes */
    int failed;    /* memory ran out: every declaration after does nothing */
} stk_parameters;

typedef enum stk_parameter_role {
    STK_ROLE_BODY,
    STK_ROLE_HEAD,
    STK_ROLE_OUTPUT /* of the head, too */
} stk_parameter_role;

/* How the names of the modules below begin, and what they are for. */
void stk_declare_in(stk_parameters *parameters, stk_parameter_role role, const char *format, ...)
    STOKE_PRINTF(3, 4);
/* One tensor. gradients NULL: it is kept, not trained. */
void stk_declare_tensor(stk_parameters *parameters, const char *name, int norm, uint32_t dims,
                        const uint32_t *shape, const float **values, float **gradients);
/* Weight and bias of a module; `shape` is the weight's, its first number the bias's. */
typedef struct stk_parameter_slots {
    const float **weight, **bias;
    float **d_weight, **d_bias;
} stk_parameter_slots;
void stk_declare_both(stk_parameters *parameters, const char *module, int norm, uint32_t dims,
                      const uint32_t *shape, stk_parameter_slots at);
/* These also give the layer its shape. kernel 0: a plain layer; else a square convolution on patches. */
void stk_declare_norm(stk_parameters *parameters, const char *module, uint32_t channels,
                      stk_layernorm *layer);
void stk_declare_linear(stk_parameters *parameters, const char *module, uint32_t outputs, uint32_t inputs,
                        uint32_t kernel, stk_linear *layer);
/* Two modules of `outputs` each, computed as one layer. */
void stk_declare_pair(stk_parameters *parameters, const char *const module[static 2], uint32_t outputs,
                      uint32_t inputs, stk_linear *layer);
void stk_declare_depthwise(stk_parameters *parameters, const char *module, uint32_t channels,
                           stk_depthwise *layer);
void stk_declare_conv3(stk_parameters *parameters, const char *module, uint32_t outputs, uint32_t inputs,
                       stk_conv3 *layer);

/* Gives the layers the addresses in the flat arrays; NULL while there is no memory. frozen: only tensors of
 * the head get gradients. */
void stk_parameters_bind(const stk_parameters *parameters, float *values, float *gradients, int frozen);
void stk_parameters_free(stk_parameters *parameters);
/* NULL when there is none of that name. */
const stk_parameter *stk_parameters_find(const stk_parameters *parameters, const char *name);
/* As Hugging Face initialises: normal(0, spread) for weights of linear and convolution layers, 0 for biases,
 * 1 and 0 for norms; a function of (seed, name, element), so that a tensor gets the same values whatever else
 * is loaded, whoever fills it. All tensors by a team, or one; `values` is the flat array. */
void stk_parameters_initialise(const stk_parameters *parameters, float *values, uint64_t seed,
                               stk_threadpool *pool);
void stk_parameter_initialise(const stk_parameter *parameter, float *values, uint64_t seed);

#endif
