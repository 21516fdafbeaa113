/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory, its bandwidth, multiprocessors and the link are the makers' figures. What crosses the link is less
 * than it carries: pinned copies reach four fifths of it (12.5 GB/s of 15.75 by PCIe 3.0 x16, and so
 * on), pageable ones pass through a buffer of the driver and stop at what one core copies. These two depend
 * on the host as much as on the card; who has measured theirs says so (stoke_device_params).
 */
#include "src/device/sim.h"

#include <stdio.h>
#include <string.h>
#include <stoke/tools/device.h>

#include "src/base/error.h"

/* GB/s of pinned and pageable copies. */
#define PCIE3_X16 12.5, 6
#define PCIE4_X8  12.5, 6
#define PCIE4_X16 25, 8
#define PCIE5_X16 50, 10
/* A launch costs the device some 5 us between kernels that depend on each other, on all of them. Copies up
 * and down have an engine each; that some cards have a third changes nothing here. */
#define COMMON 5, 2

typedef struct preset {
    stoke_card card;
    uint32_t compute_units;
} preset;

/* "GB" of memory are 2^30 bytes. The first is what "sim" alone stands for. */
static const preset presets[] = {
    { { "rtx3090", "NVIDIA GeForce RTX 3090", 24, 936, PCIE4_X16, COMMON }, 82 },
    { { "gtx1080", "NVIDIA GeForce GTX 1080", 8, 320, PCIE3_X16, COMMON }, 20 },
    { { "gtx1650", "NVIDIA GeForce GTX 1650", 4, 128, PCIE3_X16, COMMON }, 14 },
    { { "rtx3050", "NVIDIA GeForce RTX 3050", 8, 224, PCIE4_X8, COMMON }, 20 },
    { { "rtx3060", "NVIDIA GeForce RTX 3060", 12, 360, PCIE4_X16, COMMON }, 28 },
    { { "rtx3080", "NVIDIA GeForce RTX 3080", 10, 760, PCIE4_X16, COMMON }, 68 },
    { { "rtx4070", "NVIDIA GeForce RTX 4070", 12, 504, PCIE4_X16, COMMON }, 46 },
    { { "rtx4080", "NVIDIA GeForce RTX 4080", 16, 717, PCIE4_X16, COMMON }, 76 },
    { { "rtx4090", "NVIDIA GeForce RTX 4090", 24, 1008, PCIE4_X16, COMMON }, 128 },
    { { "rtx5090", "NVIDIA GeForce RTX 5090", 32, 1792, PCIE5_X16, COMMON }, 170 },
    { { "t4", "NVIDIA T4", 16, 320, PCIE3_X16, COMMON }, 40 },
    { { "v100", "NVIDIA V100 16 GB", 16, 900, PCIE3_X16, COMMON }, 80 },
    { { "l4", "NVIDIA L4", 24, 300, PCIE4_X16, COMMON }, 58 },
    { { "a10", "NVIDIA A10", 24, 600, PCIE4_X16, COMMON }, 72 },
    { { "a100", "NVIDIA A100 40 GB", 40, 1555, PCIE4_X16, COMMON }, 108 },
    { { "h100", "NVIDIA H100 SXM 80 GB", 80, 3350, PCIE5_X16, COMMON }, 132 },
};
enum { CARDS = sizeof presets / sizeof *presets };

int stoke_card_at(size_t index, stoke_card *card)
{
    if (index >= CARDS) return 0;
    *card = presets[index].card;
    return 1;
}

int stk_sim_gpu_find(const char *name, stoke_card *card, uint32_t *compute_units, stoke_error *err)
{
    char all[CARDS * 12] = "";
    size_t used = 0;
    stk_did_you_mean nearest = stk_did_you_mean_to(name);
    for (size_t i = 0; i < CARDS; i++) {
        const char *known = presets[i].card.name;
        if (!*name || strcmp(name, known) == 0) {
            *card = presets[i].card;
            *compute_units = presets[i].compute_units;
            return STOKE_OK;
        }
        stk_did_you_mean_try(&nearest, known);
        used += (size_t)snprintf(all + used, sizeof all - used, "%s%s", i ? ", " : "", known);
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
