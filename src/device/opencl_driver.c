/* SPDX-License-Identifier: Apache-2.0 */
#include "src/device/opencl.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "src/base/error.h"
#include "src/base/mem.h"

/* ---- functions ---- */

static const struct {
    const char *name;
    size_t at;
} functions[] = {
#define OPENCL(name) { #name, offsetof(stk_opencl_driver, name) },
#include "src/device/opencl_functions.def"
#undef OPENCL
};

int stk_opencl_load(stk_opencl_driver *cl, const char *library, stoke_error *err)
{
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!handle)
        return stk_fail(err, STOKE_E_NOTFOUND,
                        "no OpenCL on this machine: %s cannot be loaded; install ocl-icd-libopencl1 and the "
                        "GPU's OpenCL driver, or pocl-opencl-icd for the CPU (%s)",
                        library, dlerror());
    const char *missing = NULL;
    for (size_t i = 0; !missing && i < sizeof functions / sizeof *functions; i++) {
        void *function = dlsym(handle, functions[i].name);
        if (!function) missing = functions[i].name;
        memcpy((char *)cl + functions[i].at, &function, sizeof function);
    }
    dlclose(handle); /* RTLD_NODELETE: it stays */
    if (missing)
        return stk_fail(err, STOKE_E_UNSUPPORTED,
                        "%s lacks %s, which OpenCL 1.2 has: install a newer ICD loader (ocl-icd-libopencl1)",
                        library, missing);
    return STOKE_OK;
}

const char *stk_opencl_code_name(cl_int code)
{
    switch (code) {
#define CODE(name)                                                                                           \
    case name:                                                                                               \
        return #name;
#include "src/device/opencl_codes.def"
#undef CODE
    default: return "an unknown code";
    }
}

/* ---- properties ---- */

/* Some drivers pad names: "Intel(R) Xeon(R)   CPU   ". */
static void tidy(char *text)
{
    char *to = text;
    for (const char *from = text; *from; from++) {
        const int blank = (unsigned char)*from <= ' ';
        if (blank && (to == text || to[-1] == ' ')) continue;
        *to++ = blank ? ' ' : *from;
    }
    while (to > text && to[-1] == ' ') to--;
    *to = 0;
}

void stk_opencl_text(const stk_opencl_driver *cl, cl_platform_id platform, cl_device_id device, cl_uint what,
                     char *text, size_t size)
{
    enum { LONGEST = 1 << 20 }; /* lists of extensions have some kilobytes */
    size_t n = 0;
    text[0] = 0;
    cl_int code = device ? cl->clGetDeviceInfo(device, what, 0, NULL, &n)
                         : cl->clGetPlatformInfo(platform, what, 0, NULL, &n);
    if (code || !n || n > LONGEST) return;
    char *whole = stk_calloc(n + 1, 1); /* a buffer that is too short is an error, not a cut */
    if (!whole) return;
    code = device ? cl->clGetDeviceInfo(device, what, n, whole, NULL)
                  : cl->clGetPlatformInfo(platform, what, n, whole, NULL);
    if (!code) {
        tidy(whole);
        snprintf(text, size, "%s", whole);
    }
    stk_free(whole);
}

void stk_opencl_value(const stk_opencl_driver *cl, cl_device_id device, cl_device_info what, void *value,
                      size_t size)
{
    memset(value, 0, size);
    if (cl->clGetDeviceInfo(device, what, size, value, NULL)) memset(value, 0, size);
}

static int is(const stk_opencl_driver *cl, cl_device_id device, cl_device_info what)
{
    cl_bool value;
    stk_opencl_value(cl, device, what, &value, sizeof value);
    return value == CL_TRUE;
}

/* ---- devices ---- */

/* Why a device is of no use, or "". */
static void judge(const stk_opencl_driver *cl, cl_device_id device, char *problem, size_t size)
{
    char version[STOKE_DEVICE_TEXT], profile[32];
    unsigned major = 0, minor = 0;
    stk_opencl_text(cl, NULL, device, CL_DEVICE_VERSION, version, sizeof version);
    stk_opencl_text(cl, NULL, device, CL_DEVICE_PROFILE, profile, sizeof profile);
    const int known = sscanf(version, "OpenCL %u.%u", &major, &minor) == 2;
    if (!known)
        snprintf(problem, size, "the driver does not tell its version of OpenCL ('%.60s'): update it",
                 version);
    else if (major < 1 || (major == 1 && minor < 2))
        snprintf(problem, size, "OpenCL %u.%u is too old, 1.2 is needed: update the driver", major, minor);
    else if (!is(cl, device, CL_DEVICE_AVAILABLE))
        snprintf(problem, size, "the driver says that the device is not available now");
    else if (!is(cl, device, CL_DEVICE_COMPILER_AVAILABLE))
        snprintf(problem, size,
                 "the driver has no compiler for kernels: install the vendor's full OpenCL driver");
    else if (strcmp(profile, "FULL_PROFILE") != 0)
        snprintf(problem, size, "only the embedded profile ('%.30s'), which may lack 64-bit numbers",
                 profile);
    else if (!is(cl, device, CL_DEVICE_ENDIAN_LITTLE))
        snprintf(problem, size, "a big-endian device, for which tables are not laid out");
    else
        problem[0] = 0;
}

static void describe(const stk_opencl_driver *cl, stk_opencl_found *found)
{
    stoke_device_info *info = &found->info;
    char driver[48], platform[STOKE_DEVICE_TEXT];
    cl_device_fp_config floats;
    cl_device_type type;
    cl_ulong memory;
    cl_uint units;
    *info = (stoke_device_info){ 0 };
    snprintf(info->name, sizeof info->name, "opencl:%u", found->number);
    stk_opencl_text(cl, NULL, found->device, CL_DEVICE_NAME, info->title, sizeof info->title);
    stk_opencl_text(cl, NULL, found->device, CL_DRIVER_VERSION, driver, sizeof driver);
    stk_opencl_text(cl, found->platform, NULL, CL_PLATFORM_VERSION, platform, sizeof platform);
    snprintf(info->driver, sizeof info->driver, "driver %s, %.70s", *driver ? driver : "n/a", platform);
    judge(cl, found->device, info->problem, sizeof info->problem);
    stk_opencl_value(cl, found->device, CL_DEVICE_GLOBAL_MEM_SIZE, &memory, sizeof memory);
    stk_opencl_value(cl, found->device, CL_DEVICE_MAX_COMPUTE_UNITS, &units, sizeof units);
    stk_opencl_value(cl, found->device, CL_DEVICE_SINGLE_FP_CONFIG, &floats, sizeof floats);
    stk_opencl_value(cl, found->device, CL_DEVICE_TYPE, &type, sizeof type);
    info->memory_bytes = memory;
    info->compute_units = units;
    info->exact_math = (floats & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT) != 0;
    info->shares_memory = (uint8_t)is(cl, found->device, CL_DEVICE_HOST_UNIFIED_MEMORY);
    info->shares_cores = (type & CL_DEVICE_TYPE_CPU) != 0;
}

/* More than any machine has: a driver's nonsense must not become an allocation. */
enum { PLATFORMS_MAX = 64, DEVICES_MAX = 256 };

static int visit_platform(const stk_opencl_driver *cl, cl_platform_id platform, unsigned *number,
                          stk_opencl_visit *visit, void *context)
{
    cl_device_id devices[DEVICES_MAX];
    cl_uint n = 0;
    const cl_int code = cl->clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, DEVICES_MAX, devices, &n);
    if (code || !n) { /* one that has nothing to offer, with the reason */
        stk_opencl_found found = { .platform = platform, .info.name = "opencl" };
        stk_opencl_text(cl, platform, NULL, CL_PLATFORM_NAME, found.info.title, sizeof found.info.title);
        stk_opencl_text(cl, platform, NULL, CL_PLATFORM_VERSION, found.info.driver, sizeof found.info.driver);
        if (code == CL_SUCCESS || code == CL_DEVICE_NOT_FOUND)
            snprintf(found.info.problem, sizeof found.info.problem,
                     "platform '%s' sees no device: is it there, and may this user open it (groups render, "
                     "video)?",
                     found.info.title);
        else
            snprintf(found.info.problem, sizeof found.info.problem,
                     "platform '%s' is broken: clGetDeviceIDs failed with %s (%d); reinstall its driver",
                     found.info.title, stk_opencl_code_name(code), (int)code);
        return visit(context, &found);
    }
    int stop = 0;
    for (cl_uint i = 0; !stop && i < n && i < DEVICES_MAX; i++) {
        stk_opencl_found found = { .platform = platform, .device = devices[i], .number = (*number)++ };
        describe(cl, &found);
        stop = visit(context, &found);
    }
    return stop;
}

void stk_opencl_walk(const stk_opencl_driver *cl, stk_opencl_visit *visit, void *context)
{
    cl_platform_id platforms[PLATFORMS_MAX];
    cl_uint n = 0;
    unsigned number = 0;
    const cl_int code = cl->clGetPlatformIDs(PLATFORMS_MAX, platforms, &n);
    if (code || !n) {
        stk_opencl_found none = { .info.name = "opencl" };
        const int usual = !code || code == CL_PLATFORM_NOT_FOUND_KHR;
        snprintf(none.info.problem, sizeof none.info.problem,
                 "no OpenCL platform%s%s: install the GPU's OpenCL driver, or pocl-opencl-icd for the CPU",
                 usual ? "" : ", clGetPlatformIDs failed with ", usual ? "" : stk_opencl_code_name(code));
        visit(context, &none);
        return;
    }
    for (cl_uint i = 0; i < n && i < PLATFORMS_MAX; i++)
        if (visit_platform(cl, platforms[i], &number, visit, context)) return;
}
