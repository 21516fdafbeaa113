/* SPDX-License-Identifier: Apache-2.0
 *
 * The sizes of SegFormer b0..b5.
 */
#ifndef STOKE_SRC_NET_SEGFORMER_SEGFORMER_CONFIG_H
#define STOKE_SRC_NET_SEGFORMER_SEGFORMER_CONFIG_H

#include <stoke/common.h>

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

#endif
