/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of a network's parameters, without its layers.
 */
#ifndef STOKE_TESTS_UNIT_FIXTURE_PARAMETERS_H
#define STOKE_TESTS_UNIT_FIXTURE_PARAMETERS_H

#include "src/base/mem.h"
#include "src/net/network.h"

static inline int list_parameters(stk_parameters *list, const stk_network_config *config, stoke_error *err)
{
    (void)err;
    *list = (stk_parameters){ 0 };
    void *layers = config->network->create(config, list);
    const int status = layers && !list->failed ? STOKE_OK : STOKE_E_NOMEM;
    stk_free(layers);
    if (status) stk_parameters_free(list);
    return status;
}

#endif
