/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of a SegFormer's parameters, without its layers.
 */
#ifndef STOKE_TESTS_UNIT_FIXTURE_PARAMETERS_H
#define STOKE_TESTS_UNIT_FIXTURE_PARAMETERS_H

#include "src/base/mem.h"
#include "src/net/segformer/segformer.h"

static inline int list_parameters(stk_parameters *list, const stk_segformer_config *config, stoke_error *err)
{
    stk_segformer *layers;
    const int status = stk_segformer_create(&layers, config, list, err);
    stk_free(layers);
    return status;
}

#endif
