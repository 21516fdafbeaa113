/* SPDX-License-Identifier: Apache-2.0
 *
 * The estimate of memory, as others in this room ask for it.
 */
#ifndef STOKE_SRC_TUNE_ADVICE_ESTIMATE_H
#define STOKE_SRC_TUNE_ADVICE_ESTIMATE_H

#include <stoke/tools/advise.h>
#include <stoke/net.h>

#include "src/net/segformer/segformer.h"

/* stoke_estimate_make for a memory mode of our own engine: stoke_memory_mode. */
int stk_estimate_make(stoke_estimate *estimate, stoke_engine engine, const stoke_estimate_params *params,
                      int mode, stoke_error *err);
/* The largest batch that leaves 1 GiB free, a multiple of 8 where one fits; 0 = not one picture does. */
int stk_estimate_largest(const stoke_estimate_params *params, stoke_engine engine, uint64_t memory,
                         uint32_t *batch, stoke_error *err);

#endif
