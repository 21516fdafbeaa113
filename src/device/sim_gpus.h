/* SPDX-License-Identifier: Apache-2.0
 *
 * Simulated GPUs by name.
 */
#ifndef STOKE_SRC_DEVICE_SIM_GPUS_H
#define STOKE_SRC_DEVICE_SIM_GPUS_H

#include <stoke/tools/device.h>

/* `name` "": the usual one. STOKE_E_NOTFOUND: the message lists all. */
int stk_sim_gpu_find(const char *name, stoke_card *card, uint32_t *compute_units, stoke_error *err);

#endif
