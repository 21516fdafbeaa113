/* SPDX-License-Identifier: Apache-2.0 */
#include "src/train/checkpoint.h"

#include <stdio.h>
#include <string.h>

const char *stk_array_prefix(stk_array_kind kind)
{
    static const char *const prefixes[STK_ARRAY_KINDS] = { [STK_ARRAY_VALUES] = "values.",
                                                           [STK_ARRAY_MOMENT1] = "moment1.",
                                                           [STK_ARRAY_MOMENT2] = "moment2.",
                                                           [STK_ARRAY_AVERAGE] = "average." };
    return prefixes[kind];
}

static float *floats_of(const stoke_net_tensor *tensor, stk_array_kind kind)
{
    switch (kind) {
    case STK_ARRAY_MOMENT1: return tensor->moments[0];
    case STK_ARRAY_MOMENT2: return tensor->moments[1];
    case STK_ARRAY_AVERAGE: return tensor->average;
    default: return tensor->values;
    }
}

int stk_net_array_next(const stoke_net *net, size_t *place, stk_net_array *array)
{
    const size_t tensors = stoke_net_tensor_count(net);
    for (; *place < tensors * STK_ARRAY_KINDS; ++*place) {
        const stk_array_kind kind = (stk_array_kind)(*place / tensors);
        stoke_net_tensor tensor;
        stoke_net_tensor_at(net, *place % tensors, &tensor);
        float *floats = floats_of(&tensor, kind);
        if (!floats) continue;
        *array = (stk_net_array){
            .kind = kind, .dims = tensor.dims, .count = (size_t)tensor.count, .floats = floats
        };
        memcpy(array->shape, tensor.shape, sizeof array->shape);
        snprintf(array->name, sizeof array->name, "%s%s", stk_array_prefix(kind), tensor.name);
        ++*place;
        return 1;
    }
    return 0;
}
