/* SPDX-License-Identifier: Apache-2.0
 *
 * What the two estimates share.
 */
#ifndef STOKE_SRC_TUNE_ADVICE_ESTIMATE_H
#define STOKE_SRC_TUNE_ADVICE_ESTIMATE_H

#include <stoke/tools/advise.h>
#include <stoke/net.h>

#include "src/net/segformer/segformer.h"

/* The plan of our own engine in a memory mode. */
int stk_estimate_plan(stoke_net_plan *plan, const stoke_estimate_params *params, int memory,
                      stoke_error *err);

#endif
