/* SPDX-License-Identifier: Apache-2.0
 *
 * The matrix products of a training step, read off its tape: layers of one kind and shape together. And one
 * of them measured by itself.
 */
#ifndef STOKE_SRC_NET_PRODUCTS_H
#define STOKE_SRC_NET_PRODUCTS_H

#include "src/net/network.h"

/* What is computed: Y, and from its gradient that of X and that of the weights. Of attention the way back is
 * one, STK_PASS_INPUT. */
typedef enum stk_product_pass {
    STK_PASS_FORWARD,
    STK_PASS_INPUT,
    STK_PASS_WEIGHT,
    STK_PASSES
} stk_product_pass;

/* How a convolution's map lies in memory; a gradient lies as what it is of. */
typedef struct stk_product_map {
    int full;        /* 1: f32 in every precision */
    int planar;      /* 1: the pictures */
    uint32_t stride; /* elements from pixel to pixel */
} stk_product_map;

typedef struct stk_product {
    char name[STK_NAME];    /* of the layers, for people: "stage 1 query", "body.*.conv1" */
    stk_tape_op_kind kind;  /* STK_TAPE_LINEAR, STK_TAPE_CONV3 or STK_TAPE_ATTENTION */
    uint32_t rows, in, out; /* of a batch; Y = X W^T. Attention: of queries, with scores and sums of values */
    uint32_t taps;
    uint32_t calls[STK_PASSES]; /* in a step */
    stk_depthwise_map map;
    stk_product_map x, y;
    stk_attention attention;
    char kin[STK_NAME]; /* what such layers have in common of their names */
} stk_product;

typedef struct stk_products {
    stk_product *list;
    size_t count, capacity;
} stk_products;

/* Those of a step that keeps all it needs, in the order of the forward pass. To be freed in any case. */
int stk_products_of(const stk_network_config *config, uint32_t batch, uint32_t height, uint32_t width,
                    stk_products *products, stoke_error *err);
void stk_products_free(stk_products *products);

/* The parameter whose values the layer of an operation begins with; NULL: not one of these. */
const stk_parameter *stk_products_parameter(const stk_tape_op *op, const stk_parameters *parameters);

/* ---- measuring: product_trial.c ---- */

/* How much is done for a figure. Rows rotate through `rotate` bytes: 64 MiB are twice what the caches of two
 * cores hold. The C reference, which computes rather than waits, does a share of the rows. */
typedef struct stk_product_effort {
    size_t rotate, c_operations;
    double seconds;
} stk_product_effort;

enum {
    STK_TRIAL_X,
    STK_TRIAL_Y,
    STK_TRIAL_WEIGHTS,
    STK_TRIAL_PACKED,
    STK_TRIAL_SCRATCH,
    STK_TRIAL_PARTIAL,
    STK_TRIAL_BLOCKS
};

/* A product with everything that it is computed from. X and Y are `sets` matrices each, Y with room for both
 * ways of an attention. */
typedef struct stk_product_trial {
    const stk_product *product;
    stk_exec run;
    stk_linear linear;
    stk_conv3 conv3;
    stk_conv3_map map;
    stk_attention attention;
    size_t rows, sets, x_bytes, y_bytes, bytes[STK_TRIAL_BLOCKS], total;
    unsigned char *x, *y;
    float *weights; /* master, bias, gradients of both */
    void *block;    /* one for all of these */
} stk_product_trial;

/* What it is measured on, before memory is taken for it. */
void stk_product_plan(stk_product_trial *trial, const stk_product *product, const struct stk_net_table *table,
                      stk_threadpool *pool, stk_float type, const stk_product_effort *effort);
/* After a plan; stk_product_end in any case. */
int stk_product_begin(stk_product_trial *trial, stoke_error *err);
/* Nanoseconds of the best call within the effort's time; at least two calls. */
double stk_product_best(stk_product_trial *trial, stk_product_pass pass, double seconds);
/* Floating-point operations of one call. */
double stk_product_flops(const stk_product_trial *trial, stk_product_pass pass);
void stk_product_end(stk_product_trial *trial);

#endif
