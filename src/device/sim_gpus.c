/* SPDX-License-Identifier: Apache-2.0
 *
 * The cards that are simulated: those of src/base/gpus.def that have a name for it.
 */
#include "src/device/sim.h"

#include <stdio.h>
#include <string.h>
#include <stoke/tools/device.h>

#include "src/base/error.h"
#include "src/base/gpus.h"

enum { NAMES = 512 };

/* A launch costs the device some 5 us between kernels that depend on each other, on all of them. Copies up
 * and down have an engine each; that some cards have a third changes nothing here. */
static stoke_card card_of(const stk_gpu *gpu)
{
    return (stoke_card){ .name = gpu->sim,
                         .title = gpu->title,
                         .memory_gb = gpu->gb,
                         .memory_gb_s = gpu->memory_gb_s,
                         .pinned_gb_s = gpu->pinned_gb_s,
                         .pageable_gb_s = gpu->pageable_gb_s,
                         .launch_us = 5 };
}

int stoke_card_named(const char *name, stoke_card *card)
{
    const stk_gpu_name found = stk_gpu_named(name);
    if (!found.gpu || !found.gpu->sim || found.portable || (found.gb && found.gb != found.gpu->gb)) return 0;
    *card = card_of(found.gpu);
    return 1;
}

int stk_sim_gpu_find(const char *name, stoke_card *card, uint32_t *compute_units, stoke_error *err)
{
    char all[NAMES] = "";
    size_t used = 0;
    if (!*name) name = "rtx3090"; /* what "sim" alone stands for */
    stk_did_you_mean nearest = stk_did_you_mean_to(name);
    for (size_t i = 0; i < stk_gpus_count; i++) {
        const char *known = stk_gpus[i].sim;
        if (!known) continue;
        if (!strcmp(name, known)) {
            *card = card_of(&stk_gpus[i]);
            *compute_units = stk_gpus[i].compute_units;
            return STOKE_OK;
        }
        stk_did_you_mean_try(&nearest, known);
        if (used < sizeof all)
            used += (size_t)snprintf(all + used, sizeof all - used, "%s%s", used ? ", " : "", known);
    }
    return stk_fail(err, STOKE_E_NOTFOUND, "no GPU \"%.32s\" can be simulated%s%s%s; there are %s", name,
                    nearest.best ? ", did you mean \"" : "", nearest.best ? nearest.best : "",
                    nearest.best ? "\"?" : "", all);
}

const char *stoke_device_simulated(const char *device)
{
    if (strncmp(device, "sim", 3) || (device[3] && device[3] != ':')) return NULL;
    return device[3] ? device + 4 : device + 3;
}
