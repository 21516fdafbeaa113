/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the CUDA kind share.
 *
 *   cuda_driver.c   the vendor's libraries, opened at run time
 *   cuda.c          the kind: devices, memory, streams, events, copies, launches
 *   cuda_module.c   programs: PTX that is at hand, or NVRTC; when an event happened, on the host's clock
 */
#ifndef STOKE_SRC_DEVICE_CUDA_H
#define STOKE_SRC_DEVICE_CUDA_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stoke/common.h>

#include "src/device/device.h"

/* The NVIDIA driver and its compiler, opened at run time. No CUDA header is needed to build: the few types
 * and numbers used here are declared below under the vendor's names (cuda.h, nvrtc.h; both promise never to
 * change them), and tests/fake/check_cuda_names.c compares them with the real headers where those are
 * installed.
 */

typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct _nvrtcProgram *nvrtcProgram;
typedef int CUresult, CUdevice_attribute, CUjit_option, nvrtcResult; /* enums in the vendor's headers */

enum {
#define CUDA_NUMBER(name, value)  name = value,
#define NVRTC_NUMBER(name, value) name = value,
#include "src/device/cuda_numbers.def"
#undef CUDA_NUMBER
#undef NVRTC_NUMBER
};

typedef struct stk_cuda_driver {
    void *library;
    int version; /* of the interface: 12040 is 12.4 */
#define CUDA_FN(name, symbol, arguments) CUresult(*name) arguments;
#include "src/device/cuda_functions.def"
#undef CUDA_FN
} stk_cuda_driver;

typedef struct stk_cuda_nvrtc {
    void *library;
    int major, minor; /* version */
#define NVRTC_FN(type, name, arguments) type(*name) arguments;
#include "src/device/nvrtc_functions.def"
#undef NVRTC_FN
} stk_cuda_nvrtc;

enum { STK_CUDA_OLDEST = 11000 }; /* R450, 2020: primary contexts, events and PTX as used here */

/* Opens libcuda.so.1 (or the file named by STOKE_LIBCUDA), finds every function, starts the driver. The
 * message is the `problem` of a device list: why it cannot be used, and what to do. */
int stk_cuda_driver_open(stk_cuda_driver *driver, stoke_error *err);
void stk_cuda_driver_close(stk_cuda_driver *driver); /* also after a failed open; zeroed is fine */

/* Opens libnvrtc (or the file named by STOKE_LIBNVRTC): the newest that is not newer than the driver, which
 * understands no PTX from after its time; else any. STOKE_E_NOTFOUND: what to install. */
int stk_nvrtc_open(stk_cuda_nvrtc *nvrtc, int driver_version, stoke_error *err);
void stk_nvrtc_close(stk_cuda_nvrtc *nvrtc);

/* What a call returned, as a status: STOKE_OK; STOKE_E_NOMEM for memory, STOKE_E_UNSUPPORTED for a program
 * that is refused; else STOKE_E_DEVICE. The message names the device, the call, the driver's name and text of
 * the error, and what to do where that is known. */
int stk_cuda_status(const stk_cuda_driver *driver, CUresult result, const char *device, const char *call,
                    stoke_error *err);
/* STOKE_E_NOTFOUND: the driver works, but has no card to show. */
int stk_cuda_no_card(const stk_cuda_driver *driver, const char *call, stoke_error *err);

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
    stoke_device *device;
    CUstream handle;
    int owned;    /* 0: someone else's */
    CUevent idle; /* for the host to wait for the stream without keeping a core busy */
};

struct stk_device_event {
    stoke_device *device;
    CUevent handle;
    _Atomic uint64_t recorded_ns; /* when it was put into a stream; 0 = never. Other threads wait for it */
};

struct stk_device_module {
    stoke_device *device;
    const stk_program *program;
    CUmodule handle;
    CUfunction kernels[STK_KERNELS]; /* in the order of the program */
};

/* CALL(cuda, cuEventRecord, event, stream): the call as a status, with its name in the message. Needs `err`.
 */
#define STK_CUDA_CALL(cuda, function, ...)                                                                   \
    stk_cuda_check(cuda, (cuda)->driver.function(__VA_ARGS__), #function, err)
int stk_cuda_check(stk_cuda *cuda, CUresult result, const char *call, stoke_error *err);

/* cuda_module.c. All but the first between enter and leave. */
int stk_cuda_clock_create(stk_cuda *cuda, stoke_error *err);
void stk_cuda_clock_destroy(stk_cuda *cuda); /* half-built too */
int stk_cuda_event_time(stk_device_event *event, uint64_t *ns, stoke_error *err);
/* Entries of the table. */
int stk_cuda_module_create(stk_device_module *module, stoke_error *err);
void stk_cuda_module_destroy(stk_device_module *module);

#endif
