/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the CUDA kind share.
 *
 *   cuda_driver.c   the vendor's libraries, opened at run time
 *   cuda.c          the kind: devices, memory, streams, events, copies, launches
 *   cuda_clock.c    when an event happened, on the host's clock
 *   cuda_module.c   programs: PTX that is at hand, or NVRTC
 */
#ifndef STOKE_SRC_DEVICE_CUDA_H
#define STOKE_SRC_DEVICE_CUDA_H

#include <pthread.h>

#include "src/device/cuda_driver.h"
#include "src/device/device.h"

/* A moment on both clocks. */
typedef struct stk_cuda_mark {
    CUevent event;
    uint64_t ns;
} stk_cuda_mark;

typedef struct stk_cuda_clock {
    pthread_mutex_t lock;
    int has_lock;
    CUstream stream;        /* only marks run in it */
    stk_cuda_mark marks[2]; /* the one before, the latest */
} stk_cuda_clock;

typedef struct stk_cuda {
    stk_cuda_driver driver;
    const char *name; /* "cuda:0" */
    CUdevice device;
    CUcontext context;     /* the primary one: that of everybody else in the process, torch too */
    uint32_t architecture; /* 86: compute capability 8.6 */
    stk_cuda_clock clock;
} stk_cuda;

struct stk_device_stream {
    stk_device_stream_head head;
    CUstream handle;
    int owned;    /* 0: someone else's */
    CUevent idle; /* for the host to wait for the stream without keeping a core busy */
};

struct stk_device_event {
    stk_event_head head;
    CUevent handle;
    _Atomic uint64_t recorded_ns; /* when it was put into a stream; 0 = never. Other threads wait for it */
};

struct stk_device_module {
    stk_device_module_head head;
    CUmodule handle;
    CUfunction *kernels; /* in the order of the program */
};

/* Calls belong to the context that is current in the calling thread. Any thread may call us, and whatever it
 * had current must be so again afterwards: every use of the driver stands between enter and leave. */
int stk_cuda_enter(stk_cuda *cuda, stoke_error *err);
void stk_cuda_leave(stk_cuda *cuda);
/* For destroying, which goes on as far as it can: 1 = entered. Objects that cannot be reached go with the
 * context. */
int stk_cuda_enter_to_destroy(stk_cuda *cuda);

/* CALL(cuda, cuEventRecord, event, stream): the call as a status, with its name in the message. Needs `err`.
 */
#define STK_CUDA_CALL(cuda, function, ...)                                                                   \
    stk_cuda_check(cuda, (cuda)->driver.function(__VA_ARGS__), #function, err)
int stk_cuda_check(stk_cuda *cuda, CUresult result, const char *call, stoke_error *err);

/* cuda_clock.c; all but the first between enter and leave. */
int stk_cuda_clock_create(stk_cuda *cuda, stoke_error *err);
void stk_cuda_clock_destroy(stk_cuda *cuda); /* half-built too */
int stk_cuda_event_time(stk_device_event *event, uint64_t *ns, stoke_error *err);

/* cuda_module.c: entries of the table. */
int stk_cuda_module_create(stoke_device *device, const stk_program *program, stk_device_module **out,
                           stoke_error *err);
void stk_cuda_module_destroy(stk_device_module *module);

#endif
