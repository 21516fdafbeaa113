/* SPDX-License-Identifier: Apache-2.0
 *
 * A card of NVIDIA's as its reader keeps it between two readings.
 */
#ifndef STOKE_SRC_TUNE_MACHINE_NVML_CARD_H
#define STOKE_SRC_TUNE_MACHINE_NVML_CARD_H

#include "src/tune/machine/nvml.h"
#include <stoke/tools/probe.h>

typedef struct stk_nvml_card {
    nvmlDevice_t handle; /* NULL: it could not be opened */
    stoke_gpu fixed;     /* name, uuid, pci, driver, vendor, what never changes; `lost`, which never ends */
    unsigned long long busy_seen, memory_seen, process_seen; /* newest sample, microseconds */
} stk_nvml_card;

/* What a call returned: 1 = the value is good. A lost card is noted, for good: from then on no call is made
 * to it, as each would wait for the driver's time limit. */
int stk_nvml_good(stk_nvml_card *card, nvmlReturn_t result);

/* The programs on the card, with their memory and share where the driver tells. */
void stk_nvml_read_processes(const stk_nvml_library *nvml, stk_nvml_card *card, const char *root,
                             stoke_gpu *gpu);

#endif
