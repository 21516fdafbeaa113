/* SPDX-License-Identifier: Apache-2.0
 *
 * An open OpenCL device, shared by
 *
 *   opencl.c          opening, memory, streams, copies
 *   opencl_event.c    events, and their times on the host's clock
 *   opencl_module.c   programs: compiled or from the cache, and launches
 *
 * A stream is an in-order queue with profiling. OpenCL 1.2 calls may come from any thread; the exception,
 * arguments of a kernel, is guarded by the module's lock.
 */
#ifndef STOKE_SRC_DEVICE_OPENCL_H
#define STOKE_SRC_DEVICE_OPENCL_H

#include <pthread.h>
#include <stdatomic.h>

#include "src/device/device.h"
#include "src/device/opencl_driver.h"

typedef struct stk_opencl {
    stk_opencl_driver cl;
    cl_platform_id platform;
    cl_device_id id;
    cl_context context;
    cl_command_queue chores;   /* for what no stream asked for: maps, first allocations, reading the clock */
    uint64_t total, largest;   /* device memory in all, and of one block */
    _Atomic uint64_t taken;    /* by blocks of ours */
    size_t items_max[3];       /* of a work group, along each axis */
    char options[96];          /* of the compiler */
    char *cache;               /* folder of compiled programs; NULL: none */
    pthread_mutex_t lock;      /* of the clock */
    int64_t clock_offset;      /* host's CLOCK_MONOTONIC less the device's clock, ns */
    int clock_twin;            /* the host's clock that the device's is; -1: none */
    uint64_t clock_checked_ns; /* when the offset was last looked at */
    uint64_t last_device_ns, last_host_ns; /* the latest time that was told, on both clocks */
} stk_opencl;

typedef struct stk_opencl_stream {
    stk_device_stream_head head;
    cl_command_queue queue;
} stk_opencl_stream;

static inline stk_opencl *stk_opencl_of(const stoke_device *device)
{
    return device->own;
}

/* Opens with functions that are already there: tests bring their own. */
int stk_opencl_start(stoke_device *device, const stk_opencl_driver *cl, const char *which,
                     const stoke_device_params *params, stoke_error *err);

/* STOKE_OK for CL_SUCCESS. Out of memory, by whatever code, is STOKE_E_NOMEM and leaves the device alive; all
 * else is STOKE_E_DEVICE with the call and the name of the code. */
int stk_opencl_check(const stoke_device *device, const char *call, cl_int code, stoke_error *err);
/* The same for calls that wait for the device: there CL_OUT_OF_RESOURCES is how drivers report a kernel that
 * crashed, and nothing is allocated, so that every failure is the device's. */
int stk_opencl_check_wait(const stoke_device *device, const char *call, cl_int code, stoke_error *err);

/* opencl_event.c */
int stk_opencl_event_create(stoke_device *device, stk_device_event **out, stoke_error *err);
void stk_opencl_event_destroy(stk_device_event *event);
int stk_opencl_event_record(stk_device_event *event, stk_device_stream *stream, stoke_error *err);
int stk_opencl_event_finish(stk_device_event *event, stoke_error *err);
int stk_opencl_event_done(stk_device_event *event, int *done, stoke_error *err);
int stk_opencl_event_time(stk_device_event *event, uint64_t *ns, stoke_error *err);
int stk_opencl_stream_wait(stk_device_stream *stream, stk_device_event *event, stoke_error *err);
/* Looks at the device's clock for the first time. */
int stk_opencl_clock_start(stoke_device *device, stoke_error *err);

/* opencl_module.c */
int stk_opencl_module_create(stoke_device *device, const stk_program *program, stk_device_module **out,
                             stoke_error *err);
void stk_opencl_module_destroy(stk_device_module *module);
int stk_opencl_launch(stk_device_stream *stream, stk_device_module *module, const stk_device_launch *launch,
                      stoke_error *err);
/* How work items are grouped: `global` is `grid` rounded up to whole groups `local` of at most `limit`. */
void stk_opencl_groups(const uint32_t grid[3], size_t limit, const size_t items_max[3], size_t global[3],
                       size_t local[3]);

#endif
