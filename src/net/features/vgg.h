/* SPDX-License-Identifier: Apache-2.0
 *
 * Which VGG a file holds: the numbers and shapes of its convolutions, noted tensor by tensor, then put in
 * order.
 */
#ifndef STOKE_SRC_NET_FEATURES_VGG_H
#define STOKE_SRC_NET_FEATURES_VGG_H

#include "src/net/features/features.h"
#include "src/net/files/safetensors.h"

enum { STK_VGG_MODULES = 100 /* numbers of two digits; VGG19 has 37 */ };

typedef struct stk_vgg_shapes {
    uint32_t in[STK_VGG_MODULES], out[STK_VGG_MODULES]; /* 0: no convolution */
    int normalised;                                     /* there is a batch norm */
} stk_vgg_shapes;

/* A stk_pretrained_fn, to stk_vgg_shapes. */
int stk_vgg_note(void *shapes, const stk_safetensors *file, const stk_safetensors_tensor *tensor,
                 stoke_error *err);

typedef struct stk_vgg_outline {
    uint32_t count, modules[STK_VGG_MODULES]; /* of convolutions, in order, as far as they are used */
    uint32_t blocks[STK_FEATURES];            /* convolutions of each block */
} stk_vgg_outline;

/* STOKE_E_FORMAT, STOKE_E_UNSUPPORTED: they are no chain of convolutions from 3 channels on. */
int stk_vgg_outline_of(const stk_vgg_shapes *shapes, const char *path, stk_vgg_outline *outline,
                       stoke_error *err);

#endif
