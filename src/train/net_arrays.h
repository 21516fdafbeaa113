/* SPDX-License-Identifier: Apache-2.0
 *
 * Every array of a network that training changes, by the name it has in a checkpoint: what must be kept, and
 * nothing else. Gradients are none of them: a state is taken between two steps.
 */
#ifndef STOKE_SRC_TRAIN_NET_ARRAYS_H
#define STOKE_SRC_TRAIN_NET_ARRAYS_H

#include <stoke/net.h>

#include "src/net/segformer/segformer_parameters.h"

typedef enum stk_array_kind {
    STK_ARRAY_VALUES,
    STK_ARRAY_MOMENT1,
    STK_ARRAY_MOMENT2,
    STK_ARRAY_AVERAGE,
    STK_ARRAY_KINDS
} stk_array_kind;

typedef struct stk_net_array {
    char name[STK_NAME + 16]; /* "moment1.decode_head.classifier.weight" */
    stk_array_kind kind;
    uint32_t dims, shape[4];
    size_t count;
    float *floats; /* the network's own */
} stk_net_array;

/* "values.", "moment1.", ... */
const char *stk_array_prefix(stk_array_kind kind);
/* One after the other, kind by kind: start with *place = 0. 0: there are no more. Allocates nothing. */
int stk_net_array_next(const stoke_net *net, size_t *place, stk_net_array *array);

#endif
