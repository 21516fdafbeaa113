/* SPDX-License-Identifier: Apache-2.0
 *
 * What device.c, device_open.c and device_pinned.c keep about a device; kinds never look at it.
 */
#ifndef STOKE_SRC_DEVICE_DEVICE_STATE_H
#define STOKE_SRC_DEVICE_DEVICE_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "src/device/device.h"

typedef struct stk_device_pinned stk_device_pinned;

typedef struct stk_device_state {
    pthread_mutex_t lock;
    atomic_int is_lost;        /* set once, after `lost` */
    stoke_error lost;          /* the first STOKE_E_DEVICE */
    uint64_t limit;            /* of device memory; 0 = the kind decides */
    uint64_t taken;            /* device memory of this process */
    stk_device_pinned *pinned; /* handed out by the allocator */
    stoke_error pinned_failed; /* code 0: none did */
} stk_device_state;

static inline stk_device_state *stk_state_of(const stoke_device *device)
{
    return device->state;
}

#endif
