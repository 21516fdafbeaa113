/* SPDX-License-Identifier: Apache-2.0
 *
 * Compiles only where our declarations of the driver and of NVRTC agree with the vendor's headers: numbers,
 * and every function's arguments and result. Built where nvcc is found; nothing runs.
 */
#include <cuda.h>
#include <nvrtc.h>

#define CUDA_NUMBER(name, value)  _Static_assert(name == value, #name);
#define NVRTC_NUMBER(name, value) _Static_assert(name == value, #name);
#include "src/device/cuda_numbers.def"

/* Enums are passed as int. */
_Static_assert(sizeof(CUresult) == sizeof(int) && sizeof(nvrtcResult) == sizeof(int), "results");
_Static_assert(sizeof(CUjit_option) == sizeof(int) && sizeof(CUdevice_attribute) == sizeof(int), "enums");
_Static_assert(sizeof(CUdeviceptr) == sizeof(unsigned long long) && sizeof(CUdevice) == sizeof(int),
               "handles");

#define CUDA_FN(name, symbol, arguments) CUresult(*const check_##name) arguments = symbol;
#define NVRTC_FN(type, name, arguments)  type(*const check_##name) arguments = name;
#include "src/device/cuda_functions.def"
#include "src/device/nvrtc_functions.def"
