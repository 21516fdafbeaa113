/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening the NVIDIA driver and its compiler, and saying in words what they return.
 */
#include "src/device/cuda.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/driver_probe.h"
#include "src/base/error.h"

/* The driver starts threads and leaves data in those of others: once loaded it stays, and closing only gives
 * up our hold on it. */
enum { OPEN_FLAGS = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE };

/* What a person can do about an error. Others are faults of ours or of the driver: the name has to do. */
static const struct {
    CUresult result;
    const char *advice;
} advices[] = {
    { CUDA_ERROR_OUT_OF_MEMORY, "the device's memory is taken; nvidia-smi shows by whom" },
    { CUDA_ERROR_NOT_INITIALIZED,
      "a process that was forked from one that uses CUDA cannot: open the device after the fork, or spawn" },
    { CUDA_ERROR_STUB_LIBRARY,
      "the libcuda.so.1 that was found is the toolkit's stand-in for linking; put the driver's own first in "
      "LD_LIBRARY_PATH" },
    { CUDA_ERROR_DEVICE_UNAVAILABLE,
      "another process has the device for itself (compute mode); nvidia-smi -q -d COMPUTE shows it" },
    { CUDA_ERROR_NO_DEVICE, "the driver finds no card: look at nvidia-smi and at CUDA_VISIBLE_DEVICES; a "
                            "container needs --gpus all" },
    { CUDA_ERROR_ECC_UNCORRECTABLE,
      "memory of the card is damaged; nvidia-smi -q -d ECC shows where, a reset or a reboot may help" },
    { CUDA_ERROR_INVALID_PTX, "stoke selftest shows whether other kernels compile" },
    { CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
      "the kernels were compiled by a CUDA newer than the driver: update the driver" },
    { CUDA_ERROR_JIT_COMPILER_NOT_FOUND,
      "libnvidia-ptxjitcompiler is missing: install all of the driver (in a container: capability compute)" },
    { CUDA_ERROR_ILLEGAL_ADDRESS,
      "a kernel left its memory; the device cannot be used again in this process: start again" },
    { CUDA_ERROR_LAUNCH_TIMEOUT, "a kernel ran longer than a card with a display allows; the device cannot "
                                 "be used again in this process" },
    { CUDA_ERROR_LAUNCH_FAILED,
      "the device cannot be used again in this process; dmesg may have a line with Xid that says why" },
    { CUDA_ERROR_SYSTEM_NOT_READY, "NVSwitch machines need nvidia-fabricmanager running" },
    { CUDA_ERROR_SYSTEM_DRIVER_MISMATCH,
      "the kernel's module and libcuda.so.1 are of two versions: reboot after an update of the driver" },
    { CUDA_ERROR_UNKNOWN, "dmesg may have a line with Xid that says why; a lost card needs a reboot" },
};

static const char *advice_of(CUresult result)
{
    for (size_t i = 0; i < sizeof advices / sizeof *advices; i++)
        if (advices[i].result == result) return advices[i].advice;
    return NULL;
}

/* STOKE_E_DEVICE gives the device up for lost, which one that only refuses a program is not. */
static int code_of(CUresult result)
{
    switch (result) {
    case CUDA_ERROR_OUT_OF_MEMORY: return STOKE_E_NOMEM;
    case CUDA_ERROR_INVALID_IMAGE:
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
    case CUDA_ERROR_INVALID_PTX:
    case CUDA_ERROR_JIT_COMPILER_NOT_FOUND:
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
    case CUDA_ERROR_NOT_FOUND: return STOKE_E_UNSUPPORTED;
    default: return STOKE_E_DEVICE;
    }
}

int stk_cuda_status(const stk_cuda_driver *driver, CUresult result, const char *device, const char *call,
                    stoke_error *err)
{
    if (result == CUDA_SUCCESS) return STOKE_OK;
    const char *name = NULL, *text = NULL, *advice = advice_of(result);
    char number[32];
    snprintf(number, sizeof number, "error %d", result);
    if (driver->cuGetErrorName(result, &name) != CUDA_SUCCESS || !name) name = number;
    if (driver->cuGetErrorString(result, &text) != CUDA_SUCCESS || !text) text = "no text";
    return stk_fail(err, code_of(result), "%s: %s says %s (%s)%s%s", device, call, name, text,
                    advice ? "; " : "", advice ? advice : "");
}

int stk_cuda_no_card(const stk_cuda_driver *driver, const char *call, stoke_error *err)
{
    stk_cuda_status(driver, CUDA_ERROR_NO_DEVICE, "NVIDIA driver", call, err);
    return err->code = STOKE_E_NOTFOUND;
}

/* dlerror of this thread, never NULL. */
static const char *loader_says(void)
{
    const char *text = dlerror();
    return text ? text : "no reason given";
}

/* Fills the table. A missing function is a matter of age more often than not, so the version goes first. */
static int find_functions(stk_cuda_driver *driver, const char *file, stoke_error *err)
{
    const char *missing = NULL;
    /* A function is no object in C; POSIX says that dlsym's answer may be read as one. */
#define CUDA_FN(name, symbol, arguments)                                                                     \
    *(void **)&driver->name = dlsym(driver->library, #symbol);                                               \
    if (!driver->name && !missing) missing = #symbol;
#include "src/device/cuda_functions.def"
#undef CUDA_FN
    if (!driver->cuDriverGetVersion || !driver->cuGetErrorName || !driver->cuGetErrorString)
        return stk_fail(err, STOKE_E_UNSUPPORTED, "%s is no NVIDIA driver that can be used: it has no %s",
                        file, missing);
    int r = stk_cuda_status(driver, driver->cuDriverGetVersion(&driver->version), "NVIDIA driver",
                            "cuDriverGetVersion", err);
    if (r) return r;
    const int major = driver->version / 1000, minor = driver->version % 1000 / 10;
    if (driver->version < STK_CUDA_OLDEST)
        return stk_fail(
            err, STOKE_E_UNSUPPORTED,
            "the NVIDIA driver is too old: it knows CUDA %d.%d, %d.%d is needed (driver 450 or newer); "
            "update the driver",
            major, minor, STK_CUDA_OLDEST / 1000, STK_CUDA_OLDEST % 1000 / 10);
    if (missing)
        return stk_fail(err, STOKE_E_UNSUPPORTED,
                        "%s says it knows CUDA %d.%d but has no %s: reinstall the NVIDIA driver", file, major,
                        minor, missing);
    return STOKE_OK;
}

int stk_cuda_driver_open(stk_cuda_driver *driver, stoke_error *err)
{
    memset(driver, 0, sizeof *driver);
    const char *named = getenv("STOKE_LIBCUDA"), *file = named && *named ? named : "libcuda.so.1";
    int r = stk_driver_probe(STK_DRIVER_CUDA, file, err);
    if (r) return r;
    driver->library = dlopen(file, OPEN_FLAGS);
    if (!driver->library)
        return stk_fail(err, STOKE_E_NOTFOUND,
                        "no NVIDIA driver (%s); install it, or start the container with --gpus all",
                        loader_says());
    r = find_functions(driver, file, err);
    if (!r) {
        const CUresult result = driver->cuInit(0);
        r = result == CUDA_ERROR_NO_DEVICE ? stk_cuda_no_card(driver, "cuInit", err)
                                           : stk_cuda_status(driver, result, "NVIDIA driver", "cuInit", err);
    }
    if (r) stk_cuda_driver_close(driver);
    return r;
}

void stk_cuda_driver_close(stk_cuda_driver *driver)
{
    if (driver->library) dlclose(driver->library);
    memset(driver, 0, sizeof *driver);
}

/* Names by falling version. 11.2 stands for all later ones of 11: its name was kept. The bare name is a
 * toolkit's development link. */
static const struct {
    int major;
    const char *file;
} compilers[] = {
    { 13, "libnvrtc.so.13" },   { 12, "libnvrtc.so.12" },   { 11, "libnvrtc.so.11.2" },
    { 11, "libnvrtc.so.11.1" }, { 11, "libnvrtc.so.11.0" }, { 0, "libnvrtc.so" },
};

static void *open_compiler(int driver_version)
{
    const char *named = getenv("STOKE_LIBNVRTC");
    if (named && *named) return dlopen(named, OPEN_FLAGS);
    void *library = NULL;
    for (int newer = 0; newer < 2; newer++)
        for (size_t i = 0; !library && i < sizeof compilers / sizeof *compilers; i++)
            if ((compilers[i].major > driver_version / 1000) == newer)
                library = dlopen(compilers[i].file, OPEN_FLAGS);
    return library;
}

int stk_nvrtc_open(stk_cuda_nvrtc *nvrtc, int driver_version, stoke_error *err)
{
    memset(nvrtc, 0, sizeof *nvrtc);
    nvrtc->library = open_compiler(driver_version);
    if (!nvrtc->library)
        return stk_fail(err, STOKE_E_NOTFOUND,
                        "no NVRTC to compile the kernels (%s); install it (package cuda-nvrtc or "
                        "nvidia-cuda-toolkit, or pip install nvidia-cuda-nvrtc and its folder in "
                        "LD_LIBRARY_PATH), or build Stokehold where nvcc is",
                        loader_says());
    const char *missing = NULL;
#define NVRTC_FN(type, name, arguments)                                                                      \
    *(void **)&nvrtc->name = dlsym(nvrtc->library, #name);                                                   \
    if (!nvrtc->name && !missing) missing = #name;
#include "src/device/nvrtc_functions.def"
#undef NVRTC_FN
    int r = STOKE_OK;
    if (missing)
        r = stk_fail(err, STOKE_E_UNSUPPORTED, "NVRTC has no %s: 11.2 or newer is needed", missing);
    else if (nvrtc->nvrtcVersion(&nvrtc->major, &nvrtc->minor) != NVRTC_SUCCESS)
        r = stk_fail(err, STOKE_E_UNSUPPORTED, "NVRTC does not tell its version (nvrtcVersion failed)");
    if (r) stk_nvrtc_close(nvrtc);
    return r;
}

void stk_nvrtc_close(stk_cuda_nvrtc *nvrtc)
{
    if (nvrtc->library) dlclose(nvrtc->library);
    memset(nvrtc, 0, sizeof *nvrtc);
}
