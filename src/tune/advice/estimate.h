/* SPDX-License-Identifier: Apache-2.0
 *
 * What the two estimates share.
 */
#ifndef STOKE_SRC_TUNE_ADVICE_ESTIMATE_H
#define STOKE_SRC_TUNE_ADVICE_ESTIMATE_H

#include <stoke/tools/advise.h>
#include <stoke/net.h>

#include "src/net/segformer/segformer.h"

/* Of the whole network, and of the part before the decode head, which can be frozen. */
typedef struct stk_estimate_parameter_count {
    uint64_t all, encoder;
} stk_estimate_parameter_count;
stk_estimate_parameter_count stk_segformer_parameters(const stk_segformer_config *config);
stk_estimate_parameter_count stk_smallnet_parameters(const stoke_estimate_params *params);

int stk_is_smallnet(const stoke_estimate_params *params);

/* The plan of our own engine in a memory mode. */
int stk_estimate_plan(stoke_net_plan *plan, const stoke_estimate_params *params, int memory,
                      stoke_error *err);

/* Fills the terms and the range for PyTorch on a card; the parameters have been checked. config: NULL for
 * smallnet. */
void stk_estimate_torch(stoke_estimate *estimate, const stoke_estimate_params *params,
                        const stk_segformer_config *config);

#endif
