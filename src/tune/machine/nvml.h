/* SPDX-License-Identifier: Apache-2.0
 *
 * NVML, opened at run time. Its header is not needed to build: the few types used are declared here under
 * the vendor's names, as nvml.h of interface 13 has them; older versions of a struct are shorter or stand
 * beside it.
 */
#ifndef STOKE_SRC_TUNE_MACHINE_NVML_H
#define STOKE_SRC_TUNE_MACHINE_NVML_H

#include <stddef.h>
#include <stdint.h>

#include <stoke/common.h>

typedef struct nvmlDevice_st *nvmlDevice_t;
typedef int nvmlReturn_t;

enum {
    NVML_SUCCESS = 0,
    NVML_ERROR_NOT_SUPPORTED = 3,
    NVML_ERROR_NO_PERMISSION = 4,
    NVML_ERROR_NOT_FOUND = 6,
    NVML_ERROR_INSUFFICIENT_SIZE = 7,
    NVML_ERROR_DRIVER_NOT_LOADED = 9,
    NVML_ERROR_LIBRARY_NOT_FOUND = 12,
    NVML_ERROR_FUNCTION_NOT_FOUND = 13,
    NVML_ERROR_GPU_IS_LOST = 15,
    NVML_ERROR_RESET_REQUIRED = 16,
    NVML_ERROR_OPERATING_SYSTEM = 17,
    NVML_ERROR_LIB_RM_VERSION_MISMATCH = 18,
    NVML_ERROR_ARGUMENT_VERSION_MISMATCH = 25,
    NVML_GPU_UTILIZATION_SAMPLES = 1, /* of nvmlDeviceGetSamples */
    NVML_MEMORY_UTILIZATION_SAMPLES = 2,
    NVML_VALUE_TYPE_DOUBLE = 0, /* of its values */
    NVML_VALUE_TYPE_UNSIGNED_INT = 1,
    NVML_VALUE_TYPE_UNSIGNED_LONG_LONG = 3,
    NVML_CLOCK_SM = 1,
    NVML_CLOCK_MEM = 2,
    NVML_PCIE_UTIL_TX_BYTES = 0, /* sent by the card: from the device to the host */
    NVML_PCIE_UTIL_RX_BYTES = 1
};

typedef struct nvmlMemory_t {
    unsigned long long total, free, used;
} nvmlMemory_t;

typedef struct nvmlMemory_v2_t {
    unsigned version;
    unsigned long long total, reserved, free, used;
} nvmlMemory_v2_t;
_Static_assert(sizeof(nvmlMemory_v2_t) == 0x28, "its size is part of its version number");

typedef struct nvmlUtilization_t {
    unsigned gpu, memory;
} nvmlUtilization_t;

/* Version 2 ends differently and is shorter; the first 36 bytes are the same. */
typedef struct nvmlPciInfo_t {
    char busIdLegacy[16];
    unsigned domain, bus, device, pciDeviceId, pciSubSystemId;
    char busId[32];
} nvmlPciInfo_t;

typedef struct nvmlSample_t {
    unsigned long long timeStamp; /* microseconds */
    union {
        double d;
        unsigned u;
        unsigned long long ull;
    } value;
} nvmlSample_t;

typedef struct nvmlTemperature_t {
    unsigned version;
    int sensor, temperature;
} nvmlTemperature_t;

typedef struct nvmlProcessInfo_v1_t {
    unsigned pid;
    unsigned long long usedGpuMemory; /* all ones: not available */
} nvmlProcessInfo_v1_t;

typedef struct nvmlProcessInfo_v2_t { /* v3 calls give the same */
    unsigned pid;
    unsigned long long usedGpuMemory;
    unsigned gpuInstanceId, computeInstanceId;
} nvmlProcessInfo_v2_t;
_Static_assert(sizeof(nvmlProcessInfo_v1_t) == 16 && sizeof(nvmlProcessInfo_v2_t) == 24,
               "the library writes arrays of these");

typedef struct nvmlProcessUtilizationSample_t {
    unsigned pid;
    unsigned long long timeStamp;
    unsigned smUtil, memUtil, encUtil, decUtil;
} nvmlProcessUtilizationSample_t;

typedef struct stk_nvml_library {
    void *library;
    const char *(*nvmlErrorString)(nvmlReturn_t result);
#define NVML_FN(name, arguments) nvmlReturn_t(*name) arguments;
#include "src/tune/machine/nvml_functions.def"
#undef NVML_FN
} stk_nvml_library;

#endif
