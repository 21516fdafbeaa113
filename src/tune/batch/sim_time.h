/* SPDX-License-Identifier: Apache-2.0
 *
 * What a step takes on a simulated GPU.
 */
#ifndef STOKE_SRC_TUNE_BATCH_SIM_TIME_H
#define STOKE_SRC_TUNE_BATCH_SIM_TIME_H

#include <stoke/tools/advise.h>
#include <stoke/tools/device.h>

/* ms of a step of this network and batch in PyTorch, by the card's bandwidth. */
int stk_sim_step_ms(double *ms, const stoke_estimate_params *params, const stoke_card *card,
                    stoke_error *err);

#endif
