/* SPDX-License-Identifier: Apache-2.0
 *
 * The NVIDIA driver and its compiler, opened at run time. No CUDA header is needed to build: the few types
 * and numbers used here are declared below under the vendor's names (cuda.h, nvrtc.h; both promise never to
 * change them), and tests/fake/check_cuda_names.c compares them with the real headers where those are
 * installed.
 */
#ifndef STOKE_SRC_DEVICE_CUDA_DRIVER_H
#define STOKE_SRC_DEVICE_CUDA_DRIVER_H

#include <stddef.h>
#include <stdint.h>

#include <stoke/common.h>

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
    CUDA_SUCCESS = 0,
    CUDA_ERROR_INVALID_VALUE = 1,
    CUDA_ERROR_OUT_OF_MEMORY = 2,
    CUDA_ERROR_NOT_INITIALIZED = 3,
    CUDA_ERROR_DEINITIALIZED = 4,
    CUDA_ERROR_STUB_LIBRARY = 34,
    CUDA_ERROR_DEVICE_UNAVAILABLE = 46,
    CUDA_ERROR_NO_DEVICE = 100,
    CUDA_ERROR_INVALID_DEVICE = 101,
    CUDA_ERROR_INVALID_IMAGE = 200,
    CUDA_ERROR_INVALID_CONTEXT = 201,
    CUDA_ERROR_NO_BINARY_FOR_GPU = 209,
    CUDA_ERROR_ECC_UNCORRECTABLE = 214,
    CUDA_ERROR_INVALID_PTX = 218,
    CUDA_ERROR_JIT_COMPILER_NOT_FOUND = 221,
    CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222,
    CUDA_ERROR_INVALID_HANDLE = 400,
    CUDA_ERROR_NOT_FOUND = 500,
    CUDA_ERROR_NOT_READY = 600,
    CUDA_ERROR_ILLEGAL_ADDRESS = 700,
    CUDA_ERROR_LAUNCH_TIMEOUT = 702,
    CUDA_ERROR_LAUNCH_FAILED = 719,
    CUDA_ERROR_SYSTEM_NOT_READY = 802,
    CUDA_ERROR_SYSTEM_DRIVER_MISMATCH = 803,
    CUDA_ERROR_UNKNOWN = 999,

    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
    CU_DEVICE_ATTRIBUTE_INTEGRATED = 18,
    CU_DEVICE_ATTRIBUTE_COMPUTE_MODE = 20,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
    CU_COMPUTEMODE_PROHIBITED = 2,

    CU_MEMHOSTALLOC_PORTABLE = 1,
    CU_STREAM_NON_BLOCKING = 1,
    CU_EVENT_DEFAULT = 0,
    CU_EVENT_BLOCKING_SYNC = 1,
    CU_EVENT_DISABLE_TIMING = 2,

    CU_JIT_ERROR_LOG_BUFFER = 5,
    CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6,

    NVRTC_SUCCESS = 0,
    NVRTC_ERROR_OUT_OF_MEMORY = 1,
    NVRTC_ERROR_COMPILATION = 6
};

typedef struct stk_cuda_driver {
    void *library;
    int version; /* of the interface: 12040 is 12.4 */
#define CUDA_FN(name, symbol, arguments) CUresult(*name) arguments;
#include "src/device/cuda_functions.def"
#undef CUDA_FN
} stk_cuda_driver;

typedef struct stk_nvrtc {
    void *library;
    int major, minor; /* version */
#define NVRTC_FN(type, name, arguments) type(*name) arguments;
#include "src/device/nvrtc_functions.def"
#undef NVRTC_FN
} stk_nvrtc;

enum { STK_CUDA_OLDEST = 11000 }; /* R450, 2020: primary contexts, events and PTX as used here */

/* Opens libcuda.so.1 (or the file named by STOKE_LIBCUDA), finds every function, starts the driver. The
 * message is the `problem` of a device list: why it cannot be used, and what to do. */
int stk_cuda_driver_open(stk_cuda_driver *driver, stoke_error *err);
void stk_cuda_driver_close(stk_cuda_driver *driver); /* also after a failed open; zeroed is fine */

/* Opens libnvrtc (or the file named by STOKE_LIBNVRTC): the newest that is not newer than the driver, which
 * understands no PTX from after its time; else any. STOKE_E_NOTFOUND: what to install. */
int stk_nvrtc_open(stk_nvrtc *nvrtc, int driver_version, stoke_error *err);
void stk_nvrtc_close(stk_nvrtc *nvrtc);

/* What a call returned, as a status: STOKE_OK; STOKE_E_NOMEM for memory, STOKE_E_NOTFOUND where no card is,
 * STOKE_E_UNSUPPORTED for a program that is refused; else STOKE_E_DEVICE. The message names the device, the
 * call, the driver's name and text of the error, and what to do where that is known. */
int stk_cuda_status(const stk_cuda_driver *driver, CUresult result, const char *device, const char *call,
                    stoke_error *err);

#endif
