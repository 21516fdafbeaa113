/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening NVML, and saying in words why it does not work.
 */
#include "src/tune/machine/nvml.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/driver_probe.h"
#include "src/base/error.h"

const char *stk_nvml_text(const stk_nvml_library *nvml, nvmlReturn_t result)
{
    const char *text = nvml->nvmlErrorString ? nvml->nvmlErrorString(result) : NULL;
    return text ? text : "no text";
}

static int open_file(stk_nvml_library *nvml, const char *file, stoke_error *err)
{
    static const char *const usual[] = { "libnvidia-ml.so.1", "libnvidia-ml.so",
                                         "/usr/lib/wsl/lib/libnvidia-ml.so.1" };
    const char *named = getenv("STOKE_LIBNVML");
    if (!file && named && *named) file = named;
    const int r = stk_driver_probe(STK_DRIVER_NVML, file, err);
    if (r) return r;
    if (file) {
        nvml->library = dlopen(file, RTLD_LAZY | RTLD_LOCAL);
    } else {
        for (size_t i = 0; !nvml->library && i < sizeof usual / sizeof *usual; i++)
            nvml->library = dlopen(usual[i], RTLD_LAZY | RTLD_LOCAL);
    }
    if (nvml->library) return STOKE_OK;
    return stk_fail(err, STOKE_E_NOTFOUND,
                    "NVIDIA: %s cannot be opened; install the driver, or start the container with --gpus all "
                    "(capability utility)",
                    file ? file : usual[0]);
}

/* What a person can do when the library does not start. */
static const char *advice_of(nvmlReturn_t result)
{
    switch (result) {
    case NVML_ERROR_NO_PERMISSION: return "this user may not use /dev/nvidia*: ask for it";
    case NVML_ERROR_DRIVER_NOT_LOADED:
        return "the kernel module is not loaded: `modprobe nvidia`, or look into dmesg why it does not load";
    case NVML_ERROR_LIBRARY_NOT_FOUND:
        return "a part of the driver is missing: reinstall it (in a container: capability utility)";
    case NVML_ERROR_GPU_IS_LOST:
    case NVML_ERROR_RESET_REQUIRED: return "a card is lost: dmesg has a line with Xid; reboot";
    case NVML_ERROR_OPERATING_SYSTEM:
        return "the system refused it, often a container whose /dev/nvidia* were taken away: start it again";
    case NVML_ERROR_LIB_RM_VERSION_MISMATCH:
        return "the kernel module and the library are of two versions: reboot after an update of the driver";
    default: return "`nvidia-smi` may say more";
    }
}

int stk_nvml_library_open(stk_nvml_library *nvml, const char *file, stoke_error *err)
{
    memset(nvml, 0, sizeof *nvml);
    int r = open_file(nvml, file, err);
    if (r) return r;
        /* A function is no object in C; POSIX says that dlsym's answer may be read as one. */
#define NVML_FN(name, arguments) *(void **)&nvml->name = dlsym(nvml->library, #name);
#include "src/tune/machine/nvml_functions.def"
#undef NVML_FN
    *(void **)&nvml->nvmlErrorString = dlsym(nvml->library, "nvmlErrorString");
    if ((!nvml->nvmlInit_v2 && !nvml->nvmlInit) || !nvml->nvmlShutdown ||
        (!nvml->nvmlDeviceGetCount_v2 && !nvml->nvmlDeviceGetCount) ||
        (!nvml->nvmlDeviceGetHandleByIndex_v2 && !nvml->nvmlDeviceGetHandleByIndex)) {
        nvml->nvmlShutdown = NULL; /* what was not started is not ended */
        return stk_fail(
            err, STOKE_E_UNSUPPORTED,
            "NVIDIA: the libnvidia-ml found is none (nvmlInit, nvmlShutdown, nvmlDeviceGetCount or "
            "nvmlDeviceGetHandleByIndex is missing); reinstall the driver");
    }
    const nvmlReturn_t result = nvml->nvmlInit_v2 ? nvml->nvmlInit_v2() : nvml->nvmlInit();
    if (result == NVML_SUCCESS) return STOKE_OK;
    nvml->nvmlShutdown = NULL;
    return stk_fail(err, STOKE_E_DEVICE, "NVIDIA: NVML does not start: %s (error %d); %s",
                    stk_nvml_text(nvml, result), result, advice_of(result));
}

void stk_nvml_library_close(stk_nvml_library *nvml)
{
    if (nvml->nvmlShutdown) nvml->nvmlShutdown();
    if (nvml->library) dlclose(nvml->library);
    memset(nvml, 0, sizeof *nvml);
}
