/* SPDX-License-Identifier: Apache-2.0
 *
 * What can be wrong with OpenCL: no library, no platform, a broken one among good ones, devices of no use,
 * and every call failing once. The first ones need no device; the last is carried out on a real one.
 */
#include "tests/unit/fixture_opencl.h"

#include "src/base/mem.h"
#include "src/device/opencl.h"

/* ---- the library ---- */

static void test_no_library(void **state)
{
    stk_opencl_driver cl;
    stoke_error err = { 0 };
    assert_int_equal(stk_opencl_load(&cl, "libstoke-no-such.so.9", &err), STOKE_E_NOTFOUND);
    assert_non_null(strstr(err.message, "libstoke-no-such.so.9"));
    assert_non_null(strstr(err.message, "pocl-opencl-icd"));
    assert_int_equal(stk_opencl_load(&cl, "libm.so.6", &err), STOKE_E_UNSUPPORTED); /* is not OpenCL */
    assert_non_null(strstr(err.message, "lacks clGetPlatformIDs"));
}

static void test_code_names(void **state)
{
    assert_string_equal(stk_opencl_code_name(CL_OUT_OF_RESOURCES), "CL_OUT_OF_RESOURCES");
    assert_string_equal(stk_opencl_code_name(-1001), "CL_PLATFORM_NOT_FOUND_KHR");
    assert_string_equal(stk_opencl_code_name(-9999), "an unknown code");
}

/* ---- made-up platforms and devices ---- */

typedef struct paper_device {
    const char *name, *version, *profile;
    cl_bool available, compiler, little;
    cl_device_type type;
} paper_device;

typedef struct paper_platform {
    const char *name;
    cl_int code; /* of clGetDeviceIDs */
    int count;
    paper_device devices[5];
} paper_platform;

#define FULL "FULL_PROFILE"
static const paper_platform PAPER[] = {
    { "Broken", CL_OUT_OF_HOST_MEMORY, 0, { { 0 } } },
    { "Mixed",
      CL_SUCCESS,
      5,
      { { "old", "OpenCL 1.1 Mesa", FULL, 1, 1, 1, CL_DEVICE_TYPE_GPU },
        { "mute", "OpenCL 1.2", FULL, 1, 0, 1, CL_DEVICE_TYPE_GPU },
        { "small", "OpenCL 1.2", "EMBEDDED_PROFILE", 1, 1, 1, CL_DEVICE_TYPE_GPU },
        { "taken", "OpenCL 2.0", FULL, 0, 1, 1, CL_DEVICE_TYPE_GPU },
        { "  A   good\tone ", "OpenCL 3.0 X", FULL, 1, 1, 1, CL_DEVICE_TYPE_GPU } } },
    { "Empty", CL_DEVICE_NOT_FOUND, 0, { { 0 } } },
    { "Last", CL_SUCCESS, 1, { { "cpu", "OpenCL 1.2", FULL, 1, 1, 1, CL_DEVICE_TYPE_CPU } } },
};
enum { PLATFORMS = sizeof PAPER / sizeof *PAPER };

static cl_int CL_API_CALL paper_platforms(cl_uint most, cl_platform_id *ids, cl_uint *n)
{
    for (cl_uint i = 0; i < PLATFORMS && i < most; i++) ids[i] = (cl_platform_id)(uintptr_t)&PAPER[i];
    *n = PLATFORMS;
    return CL_SUCCESS;
}

static cl_int CL_API_CALL no_platforms(cl_uint most, cl_platform_id *ids, cl_uint *n)
{
    return CL_PLATFORM_NOT_FOUND_KHR;
}

static cl_int CL_API_CALL paper_devices(cl_platform_id id, cl_device_type type, cl_uint most,
                                        cl_device_id *ids, cl_uint *n)
{
    const paper_platform *platform = (const void *)id;
    for (int i = 0; i < platform->count && (cl_uint)i < most; i++)
        ids[i] = (cl_device_id)(uintptr_t)&platform->devices[i];
    *n = (cl_uint)platform->count;
    return platform->code;
}

static cl_int give(const void *value, size_t bytes, size_t size, void *to, size_t *n)
{
    if (n) *n = bytes;
    if (to && size < bytes) return CL_INVALID_VALUE;
    if (to) memcpy(to, value, bytes);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL paper_platform_info(cl_platform_id id, cl_platform_info what, size_t size, void *to,
                                              size_t *n)
{
    const char *text =
        what == CL_PLATFORM_NAME ? ((const paper_platform *)(const void *)id)->name : "OpenCL 3.0 paper";
    return give(text, strlen(text) + 1, size, to, n);
}

static cl_int CL_API_CALL paper_device_info(cl_device_id id, cl_device_info what, size_t size, void *to,
                                            size_t *n)
{
    const paper_device *device = (const void *)id;
    const cl_ulong memory = 8ull << 30;
    const cl_device_fp_config floats = CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT;
    const cl_uint units = 82;
    switch (what) {
    case CL_DEVICE_NAME: return give(device->name, strlen(device->name) + 1, size, to, n);
    case CL_DEVICE_VERSION: return give(device->version, strlen(device->version) + 1, size, to, n);
    case CL_DEVICE_PROFILE: return give(device->profile, strlen(device->profile) + 1, size, to, n);
    case CL_DEVICE_AVAILABLE: return give(&device->available, sizeof device->available, size, to, n);
    case CL_DEVICE_COMPILER_AVAILABLE: return give(&device->compiler, sizeof device->compiler, size, to, n);
    case CL_DEVICE_ENDIAN_LITTLE: return give(&device->little, sizeof device->little, size, to, n);
    case CL_DEVICE_TYPE: return give(&device->type, sizeof device->type, size, to, n);
    case CL_DEVICE_GLOBAL_MEM_SIZE: return give(&memory, sizeof memory, size, to, n);
    case CL_DEVICE_SINGLE_FP_CONFIG: return give(&floats, sizeof floats, size, to, n);
    case CL_DEVICE_MAX_COMPUTE_UNITS: return give(&units, sizeof units, size, to, n);
    default: return CL_INVALID_VALUE;
    }
}

static const stk_opencl_driver ON_PAPER = { .clGetPlatformIDs = paper_platforms,
                                            .clGetPlatformInfo = paper_platform_info,
                                            .clGetDeviceIDs = paper_devices,
                                            .clGetDeviceInfo = paper_device_info };

typedef struct seen {
    int n;
    stk_opencl_found found[16];
} seen;

static int see(void *context, const stk_opencl_found *found)
{
    seen *s = context;
    s->found[s->n++] = *found;
    return 0;
}

/* Nobody is hidden, and each who is of no use says why. */
static void test_broken_among_good(void **state)
{
    static const struct {
        const char *name, *title, *problem;
    } expected[] = {
        { "opencl", "Broken", "clGetDeviceIDs failed with CL_OUT_OF_HOST_MEMORY" },
        { "opencl:0", "old", "OpenCL 1.1 is too old" },
        { "opencl:1", "mute", "no compiler" },
        { "opencl:2", "small", "embedded" },
        { "opencl:3", "taken", "not available" },
        { "opencl:4", "A good one", "" },
        { "opencl", "Empty", "sees no device" },
        { "opencl:5", "cpu", "" },
    };
    seen s = { 0 };
    stk_opencl_walk(&ON_PAPER, see, &s);
    assert_int_equal(s.n, sizeof expected / sizeof *expected);
    for (int i = 0; i < s.n; i++) {
        const stoke_device_info *info = &s.found[i].info;
        assert_string_equal(info->name, expected[i].name);
        assert_string_equal(info->title, expected[i].title);
        if (*expected[i].problem)
            assert_non_null(strstr(info->problem, expected[i].problem));
        else
            assert_string_equal(info->problem, "");
    }
    const stoke_device_info *good = &s.found[5].info;
    assert_true(good->memory_bytes == 8ull << 30 && good->compute_units == 82 && good->exact_math);
    assert_true(!good->shares_cores && s.found[7].info.shares_cores);
    assert_string_equal(good->driver, "driver n/a, OpenCL 3.0 paper");
}

static void expect_refused(const stk_opencl_driver *cl, const char *which, int code, const char *words)
{
    stoke_device device = { .fns = &stk_device_opencl };
    const stoke_device_params params = stoke_device_defaults();
    stoke_error err = { 0 };
    assert_int_equal(stk_opencl_start(&device, cl, which, &params, &err), code);
    if (!strstr(err.message, words)) fail_msg("no '%s' in: %s", words, err.message);
    device.fns->close(&device);
}

static void test_choice(void **state)
{
    stk_opencl_driver none = ON_PAPER;
    none.clGetPlatformIDs = no_platforms;
    expect_refused(&ON_PAPER, "0", STOKE_E_UNSUPPORTED, "opencl:0 (old): OpenCL 1.1 is too old");
    expect_refused(&ON_PAPER, "6", STOKE_E_NOTFOUND, "opencl:6");
    expect_refused(&ON_PAPER, "gpu", STOKE_E_NOTFOUND, "as in opencl:0");
    expect_refused(&ON_PAPER, "-1", STOKE_E_NOTFOUND, "as in opencl:0");
    expect_refused(&none, "", STOKE_E_NOTFOUND, "no OpenCL platform");
    expect_refused(&none, "0", STOKE_E_NOTFOUND, "pocl-opencl-icd");
}

/* ---- the ICD loader's folder ---- */

/* What another process of this program lists with the loader's folder set to `vendors`. It reads the folder
 * once in its life. */
static void list_with(const char *vendors, char *text, size_t size)
{
    char command[8192];
    snprintf(command, sizeof command, "OCL_ICD_VENDORS='%s' /proc/%d/exe opencl_list", vendors,
             (int)getpid());
    FILE *f = popen(command, "r");
    assert_non_null(f);
    text[fread(text, 1, size - 1, f)] = 0;
    assert_int_equal(pclose(f), 0);
}

UNIT_GROUP(opencl_list)
{
    stoke_device_list *list;
    stoke_device_info info;
    if (stoke_device_list_create(&list, NULL)) return 1;
    for (size_t i = 0; stoke_device_list_at(list, i, &info); i++)
        if (!strncmp(info.name, "opencl", 6)) printf("%s|%s|%s\n", info.name, info.title, info.problem);
    stoke_device_list_destroy(&list);
    return 0;
}

static void need_loader(void)
{
    stk_opencl_driver cl;
    if (stk_opencl_load(&cl, STK_OPENCL_LIBRARY, NULL))
        unit_skip("no ICD loader: install ocl-icd-libopencl1");
}

static void test_missing_icd(void **state)
{
    char text[4096];
    need_loader();
    list_with(unit_folder(state), text, sizeof text);
    assert_non_null(
        strstr(text, "opencl||no OpenCL platform: install the GPU's OpenCL driver, or pocl-opencl-icd"));
}

static void test_bogus_icd(void **state)
{
    char text[4096], pocl[256] = { 0 };
    need_loader();
    FILE *f = fopen("/etc/OpenCL/vendors/pocl.icd", "r");
    if (!f || !fgets(pocl, sizeof pocl, f)) unit_skip("no PoCL: install pocl-opencl-icd");
    fclose(f);
    unit_write(unit_path(state, "a-bogus.icd"), "libstoke-no-such.so.9\n", 22);
    unit_write(unit_path(state, "b-not-opencl.icd"), "libm.so.6\n", 10);
    unit_write(unit_path(state, "pocl.icd"), pocl, strlen(pocl));
    list_with(unit_folder(state), text, sizeof text);
    if (strstr(text, "crashed (SIG")) unit_skip("PoCL crashes here; `stoke devices` tells more");
    const char *line = strstr(text, "opencl:0|");
    assert_non_null(line);
    assert_non_null(strstr(line, "|\n")); /* no problem */
}

/* ---- every call fails once ---- */

static stk_opencl_driver real;
static int countdown;       /* calls until one fails; negative: none does */
static const char *tripped; /* which did */
static cl_int injected;     /* with what */
static int live;            /* objects that were made and not released */

static int trip(const char *name)
{
    if (countdown < 0 || countdown-- > 0) return 0;
    tripped = name;
    return 1;
}

/* A call that gives a code, with what it does to the number of objects. */
#define CALL(name, parameters, arguments, more)                                                              \
    static cl_int CL_API_CALL fail_##name parameters                                                         \
    {                                                                                                        \
        if (trip(#name)) return injected;                                                                    \
        const cl_int code = real.name arguments;                                                             \
        if (!code) live += (more);                                                                           \
        return code;                                                                                         \
    }
/* A call that gives an object. */
#define MAKE(type, name, parameters, arguments)                                                              \
    static type CL_API_CALL fail_##name parameters                                                           \
    {                                                                                                        \
        if (trip(#name)) return *code = injected, NULL;                                                      \
        type made = real.name arguments;                                                                     \
        live += made != NULL;                                                                                \
        return made;                                                                                         \
    }
/* A release, which does not fail: a driver that fails there is not asked again either. */
#define RELEASE(name, type)                                                                                  \
    static cl_int CL_API_CALL fail_##name(type object)                                                       \
    {                                                                                                        \
        live--;                                                                                              \
        return real.name(object);                                                                            \
    }
typedef const cl_event *waits;
MAKE(cl_context, clCreateContext,
     (const cl_context_properties *p, cl_uint n, const cl_device_id *d,
      void(CL_CALLBACK *f)(const char *, const void *, size_t, void *), void *u, cl_int *code),
     (p, n, d, f, u, code))
MAKE(cl_command_queue, clCreateCommandQueue,
     (cl_context c, cl_device_id d, cl_command_queue_properties p, cl_int *code), (c, d, p, code))
MAKE(cl_mem, clCreateBuffer, (cl_context c, cl_mem_flags f, size_t n, void *h, cl_int *code),
     (c, f, n, h, code))
MAKE(cl_program, clCreateProgramWithSource,
     (cl_context c, cl_uint n, const char **t, const size_t *s, cl_int *code), (c, n, t, s, code))
MAKE(cl_program, clCreateProgramWithBinary,
     (cl_context c, cl_uint n, const cl_device_id *d, const size_t *s, const unsigned char **b,
      cl_int *status, cl_int *code),
     (c, n, d, s, b, status, code))
MAKE(cl_kernel, clCreateKernel, (cl_program p, const char *name, cl_int *code), (p, name, code))
RELEASE(clReleaseContext, cl_context)
RELEASE(clReleaseCommandQueue, cl_command_queue)
RELEASE(clReleaseMemObject, cl_mem)
RELEASE(clReleaseProgram, cl_program)
RELEASE(clReleaseKernel, cl_kernel)
RELEASE(clReleaseEvent, cl_event)
CALL(clRetainEvent, (cl_event e), (e), 1)
CALL(clFlush, (cl_command_queue q), (q), 0)
CALL(clFinish, (cl_command_queue q), (q), 0)
CALL(clWaitForEvents, (cl_uint n, waits w), (n, w), 0)
CALL(clEnqueueMarkerWithWaitList, (cl_command_queue q, cl_uint n, waits w, cl_event *e), (q, n, w, e),
     e != NULL)
CALL(clEnqueueBarrierWithWaitList, (cl_command_queue q, cl_uint n, waits w, cl_event *e), (q, n, w, e), 0)
CALL(clEnqueueMigrateMemObjects,
     (cl_command_queue q, cl_uint k, const cl_mem *m, cl_mem_migration_flags f, cl_uint n, waits w,
      cl_event *e),
     (q, k, m, f, n, w, e), 0)
CALL(clEnqueueWriteBuffer,
     (cl_command_queue q, cl_mem m, cl_bool b, size_t at, size_t s, const void *p, cl_uint n, waits w,
      cl_event *e),
     (q, m, b, at, s, p, n, w, e), 0)
CALL(clEnqueueReadBuffer,
     (cl_command_queue q, cl_mem m, cl_bool b, size_t at, size_t s, void *p, cl_uint n, waits w, cl_event *e),
     (q, m, b, at, s, p, n, w, e), 0)
CALL(clEnqueueCopyBuffer,
     (cl_command_queue q, cl_mem a, cl_mem b, size_t i, size_t j, size_t s, cl_uint n, waits w, cl_event *e),
     (q, a, b, i, j, s, n, w, e), 0)
CALL(clEnqueueNDRangeKernel,
     (cl_command_queue q, cl_kernel k, cl_uint d, const size_t *o, const size_t *g, const size_t *l,
      cl_uint n, waits w, cl_event *e),
     (q, k, d, o, g, l, n, w, e), 0)
CALL(clBuildProgram,
     (cl_program p, cl_uint n, const cl_device_id *d, const char *o, void(CL_CALLBACK *f)(cl_program, void *),
      void *u),
     (p, n, d, o, f, u), 0)
CALL(clGetProgramInfo, (cl_program p, cl_program_info i, size_t s, void *v, size_t *n), (p, i, s, v, n), 0)
CALL(clGetKernelWorkGroupInfo,
     (cl_kernel k, cl_device_id d, cl_kernel_work_group_info i, size_t s, void *v, size_t *n),
     (k, d, i, s, v, n), 0)
CALL(clSetKernelArg, (cl_kernel k, cl_uint i, size_t s, const void *v), (k, i, s, v), 0)
CALL(clGetEventInfo, (cl_event e, cl_event_info i, size_t s, void *v, size_t *n), (e, i, s, v, n), 0)
CALL(clGetEventProfilingInfo, (cl_event e, cl_profiling_info i, size_t s, void *v, size_t *n),
     (e, i, s, v, n), 0)

/* Not a code's call and not a maker's: memory that is mapped. */
static void *CL_API_CALL fail_clEnqueueMapBuffer(cl_command_queue q, cl_mem m, cl_bool b, cl_map_flags f,
                                                 size_t at, size_t s, cl_uint n, waits w, cl_event *e,
                                                 cl_int *code)
{
    if (trip("clEnqueueMapBuffer")) return *code = injected, NULL;
    return real.clEnqueueMapBuffer(q, m, b, f, at, s, n, w, e, code);
}

static stk_opencl_driver failing(void)
{
    stk_opencl_driver cl = real;
#define PUT(name) cl.name = fail_##name
    PUT(clCreateContext), PUT(clCreateCommandQueue), PUT(clCreateBuffer), PUT(clCreateProgramWithSource);
    PUT(clCreateProgramWithBinary), PUT(clCreateKernel), PUT(clReleaseContext), PUT(clReleaseCommandQueue);
    PUT(clReleaseMemObject), PUT(clReleaseProgram), PUT(clReleaseKernel), PUT(clReleaseEvent);
    PUT(clRetainEvent), PUT(clFlush), PUT(clFinish), PUT(clWaitForEvents), PUT(clEnqueueMarkerWithWaitList);
    PUT(clEnqueueBarrierWithWaitList), PUT(clEnqueueMigrateMemObjects), PUT(clEnqueueWriteBuffer);
    PUT(clEnqueueReadBuffer), PUT(clEnqueueCopyBuffer), PUT(clEnqueueNDRangeKernel), PUT(clBuildProgram);
    PUT(clGetProgramInfo), PUT(clGetKernelWorkGroupInfo), PUT(clSetKernelArg), PUT(clGetEventInfo);
    PUT(clGetEventProfilingInfo), PUT(clEnqueueMapBuffer);
#undef PUT
    return cl;
}

/* All that a run needs, made and torn down. */
typedef struct scene {
    stoke_device device;
    stk_device_block up, there, other, down;
    stk_device_stream *streams[2];
    stk_device_event *event;
    stk_device_module *module;
} scene;

static int make_scene(scene *s, const stk_opencl_driver *cl, const char *cache, stoke_error *err)
{
    stoke_device_params params = stoke_device_defaults();
    s->device.fns = &stk_device_opencl;
    params.cache = cache;
    int r = stk_opencl_start(&s->device, cl, "", &params, err);
    if (!r) r = stk_block_create(&s->up, &s->device, STK_MEMORY_PINNED, 64, err);
    if (!r) r = stk_block_create(&s->there, &s->device, STK_MEMORY_DEVICE, 64, err);
    if (!r) r = stk_block_create(&s->other, &s->device, STK_MEMORY_DEVICE, 64, err);
    if (!r) r = stk_block_create(&s->down, &s->device, STK_MEMORY_PAGEABLE, 64, err);
    for (int i = 0; !r && i < 2; i++) r = stk_stream_create(&s->streams[i], &s->device, err);
    if (!r) r = stk_event_create(&s->event, &s->device, err);
    if (!r) r = stk_module_create(&s->module, &s->device, &HERE_PROGRAM, err);
    return r;
}

/* Up, a kernel, across, another stream, down: the first word is 42 afterwards. */
static int play_scene(scene *s, stoke_error *err)
{
    const here_shape shape = { 16, 40, 0, 0 };
    const stk_device_argument arguments[] = { { .block = &s->there },
                                              { .value = &shape, .bytes = sizeof shape } };
    const stk_device_launch what = {
        .kernel = HERE_ADD, .grid = { 16, 1, 1 }, .arguments = arguments, .n_arguments = 2
    };
    uint64_t ns;
    int done = 0;
    *(uint32_t *)s->up.host = 2;
    int r = stk_stream_copy(s->streams[0], &s->there, 0, &s->up, 0, 64, err);
    if (!r) r = stk_stream_launch(s->streams[0], s->module, &what, err);
    if (!r) r = stk_stream_copy(s->streams[0], &s->other, 0, &s->there, 0, 64, err);
    for (int i = 0; !r && i < 3; i++) r = stk_event_record(s->event, s->streams[0], err);
    if (!r) r = stk_stream_wait(s->streams[1], s->event, err);
    if (!r) r = stk_stream_copy(s->streams[1], &s->down, 0, &s->other, 0, 64, err);
    if (!r) r = stk_event_finish(s->event, err);
    if (!r) r = stk_event_record(s->event, s->streams[1], err);
    if (!r) r = stk_stream_finish(s->streams[1], err);
    if (!r) r = stk_event_done(s->event, &done, err);
    if (!r) r = stk_event_time(s->event, &ns, err);
    if (!r && (!done || *(uint32_t *)s->down.host != 42)) fail_msg("the scene was played wrongly");
    return r;
}

static void strike_scene(scene *s)
{
    stk_device_block *blocks[] = { &s->up, &s->there, &s->other, &s->down };
    stk_module_destroy(&s->module);
    stk_event_destroy(&s->event);
    for (int i = 0; i < 2; i++) stk_stream_destroy(&s->streams[i]);
    for (int i = 0; i < 4; i++) stk_block_destroy(blocks[i]);
    s->device.fns->close(&s->device);
}

static int run_scene(const stk_opencl_driver *cl, const char *cache, stoke_error *err)
{
    scene s = { 0 };
    *err = (stoke_error){ 0 };
    int r = make_scene(&s, cl, cache, err);
    if (!r) r = play_scene(&s, err);
    countdown = -1;
    strike_scene(&s);
    return r;
}

static void need_device(void)
{
    stoke_device *device = here_open("");
    real = stk_opencl_of(device)->cl;
    stoke_device_close(&device);
}

/* Whatever call fails: an error that names it, or no error and a right result; and nothing is left behind. */
static void every_call_fails(const char *cache, cl_int code, int expected)
{
    const stk_opencl_driver cl = failing();
    stoke_error err;
    int failures = 0;
    injected = code;
    for (int n = 0;; n++) {
        tripped = NULL;
        live = 0;
        countdown = n;
        const int r = run_scene(&cl, cache, &err);
        assert_int_equal(live, 0);
        if (!tripped) {
            assert_int_equal(r, STOKE_OK);
            break;
        }
        if (!r) continue;
        failures++;
        assert_int_equal(r, err.code);
        if (!strstr(err.message, tripped) && !strstr(err.message, stk_opencl_code_name(code)) &&
            r != STOKE_E_UNSUPPORTED)
            fail_msg("%s failed, but the message is: %s", tripped, err.message);
        if (expected && r != expected && r != STOKE_E_UNSUPPORTED)
            fail_msg("%s failed with %d: %s", tripped, r, err.message);
    }
    assert_true(failures > 30); /* of some 70 calls */
}

static void test_every_call_fails(void **state)
{
    need_device();
    every_call_fails("", CL_INVALID_OPERATION, STOKE_E_DEVICE);
}

/* With a cache that has the program. */
static void test_every_call_fails_cached(void **state)
{
    need_device();
    every_call_fails(unit_path(state, "programs"), CL_OUT_OF_RESOURCES, 0);
}

/* Every allocation of ours fails once, and all that follow. */
static void test_every_allocation_fails(void **state)
{
    need_device();
    const stk_opencl_driver cl = failing();
    stoke_error err;
    uint64_t taken = UINT64_MAX;
    for (uint64_t n = 0; n < taken; n++) {
        const uint64_t before = stk_mem_count().calls;
        live = 0;
        stk_mem_fail_after((int64_t)n);
        const int r = run_scene(&cl, unit_path(state, "programs"), &err);
        stk_mem_fail_after(-1);
        assert_int_equal(live, 0);
        if (r == STOKE_OK) taken = stk_mem_count().calls - before; /* so many are all that it wants */
        /* A driver whose name could not be stored is a driver that does not tell its version. */
        if (r && r != STOKE_E_NOMEM && r != STOKE_E_NOTFOUND) fail_msg("%d: %s", r, err.message);
    }
}

/* A wait that ends in CL_OUT_OF_RESOURCES is a kernel that crashed; an enqueue that does is out of memory. */
static void test_codes_mean_what_they_are(void **state)
{
    stoke_device device = { .info.name = "opencl:0", .info.title = "T" };
    stk_opencl own = { .total = 1000, .taken = 600 };
    stoke_error err = { 0 };
    device.own = &own;
    assert_int_equal(stk_opencl_check(&device, "clX", CL_SUCCESS, &err), STOKE_OK);
    assert_int_equal(stk_opencl_check(&device, "clX", CL_OUT_OF_RESOURCES, &err), STOKE_E_NOMEM);
    assert_non_null(strstr(err.message, "600 of 1000 bytes"));
    assert_int_equal(stk_opencl_check_wait(&device, "clX", CL_OUT_OF_RESOURCES, &err), STOKE_E_DEVICE);
    assert_non_null(strstr(err.message, "clX failed with CL_OUT_OF_RESOURCES (-5)"));
    assert_int_equal(stk_opencl_check(&device, "clX", CL_INVALID_CONTEXT, &err), STOKE_E_DEVICE);
}

/* ---- small things ---- */

static void test_groups(void **state)
{
    static const struct {
        uint32_t grid[3];
        size_t limit, most[3], global[3], local[3];
    } cases[] = {
        { { 512, 512, 32 }, 1024, { 1024, 1024, 64 }, { 512, 512, 32 }, { 64, 4, 1 } },
        { { 33, 17, 3 }, 1024, { 1024, 1024, 64 }, { 64, 20, 3 }, { 64, 4, 1 } },
        { { 1, 1, 1 }, 4096, { 4096, 4096, 4096 }, { 256, 1, 1 }, { 256, 1, 1 } },
        { { 300, 2, 1 }, 128, { 1024, 1024, 64 }, { 320, 2, 1 }, { 64, 2, 1 } },
        { { 300, 2, 1 }, 48, { 1024, 1024, 64 }, { 320, 2, 1 }, { 32, 1, 1 } },
        { { 9, 9, 9 }, 1, { 1, 1, 1 }, { 9, 9, 9 }, { 1, 1, 1 } },
        { { 4294967295u, 1, 1 }, 256, { 256, 1, 1 }, { 4294967296u, 1, 1 }, { 256, 1, 1 } },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t global[3], local[3];
        stk_opencl_groups(cases[i].grid, cases[i].limit, cases[i].most, global, local);
        for (int a = 0; a < 3; a++) {
            assert_int_equal(global[a], cases[i].global[a]);
            assert_int_equal(local[a], cases[i].local[a]);
        }
    }
}

static void test_cache_places(void **state)
{
    setenv("HOME", "/home/h", 1);
    static const struct {
        const char *wanted, *base, *folder;
    } cases[] = { { "/w", "/x", "/w" },
                  { "", "/x", NULL },
                  { NULL, "/x", "/x/stokehold" },
                  { NULL, "relative", "/home/h/.cache/stokehold" },
                  { NULL, "", "/home/h/.cache/stokehold" } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        setenv("XDG_CACHE_HOME", cases[i].base, 1);
        char *folder = stk_opencl_cache_folder(cases[i].wanted);
        if (cases[i].folder)
            assert_string_equal(folder, cases[i].folder);
        else
            assert_null(folder);
        stk_free(folder);
    }
    unsetenv("HOME");
    assert_null(stk_opencl_cache_folder(NULL));
}

/* "ab" + "c" is not "a" + "bc". */
static void test_cache_keys(void **state)
{
    stk_opencl_key a, b;
    assert_true(stk_opencl_key_of(&a, (const char *[]){ "ab", "c" }, 2));
    assert_true(stk_opencl_key_of(&b, (const char *[]){ "a", "bc" }, 2));
    assert_memory_not_equal(&a, &b, sizeof a);
    assert_true(stk_opencl_key_of(&b, (const char *[]){ "ab", "c" }, 2));
    assert_memory_equal(&a, &b, sizeof a);
}

static void test_cache_file(void **state)
{
    const stk_opencl_key key = { "0123456789abcdef" }, other = { "another key, yes" };
    const char *folder = unit_path(state, "b/c");
    stk_mem_buffer buffer = { 0 };
    size_t bytes = 0;
    assert_null(stk_opencl_cache_read(folder, &key, &buffer, &bytes));
    assert_true(stk_opencl_cache_write(folder, &key, "binary", 6));
    const void *binary = stk_opencl_cache_read(folder, &key, &buffer, &bytes);
    assert_non_null(binary);
    assert_int_equal(bytes, 6);
    assert_memory_equal(binary, "binary", 6);
    char *mine = stk_opencl_cache_path(folder, &key, "bin"),
         *foreign = stk_opencl_cache_path(folder, &other, "bin");
    assert_int_equal(rename(mine, foreign), 0); /* right in itself, but not what was asked for */
    assert_null(stk_opencl_cache_read(folder, &other, &buffer, &bytes));
    assert_int_equal(rename(foreign, mine), 0);
    assert_int_equal(symlink(mine, foreign), 0);
    assert_null(stk_opencl_cache_read(folder, &other, &buffer, &bytes));
    assert_int_equal(stk_opencl_cache_write(folder, &key, "", 0), 0);
    stk_free(mine);
    stk_free(foreign);
    stk_buffer_free(&buffer);
}

/* A folder that holds anything else is somebody's: nothing is put into it. One of before markers is ours. */
static void test_cache_folder_of_others(void **state)
{
    const stk_opencl_key key = { "0123456789abcdef" }, other = { "another key, yes" };
    unit_write(unit_path(state, "home/thesis.tex"), "x", 1);
    assert_int_equal(stk_opencl_cache_write(unit_path(state, "home"), &key, "binary", 6), 0);
    assert_int_equal(stk_opencl_cache_make(unit_path(state, "home")), 0);
    char *kept = stk_opencl_cache_path(unit_path(state, "old"), &other, "bin");
    unit_write(kept, "x", 1);
    assert_true(stk_opencl_cache_write(unit_path(state, "old"), &key, "binary", 6));
    unit_write(unit_path(state, "old/mine"), "x", 1); /* it carries the marker now */
    assert_true(stk_opencl_cache_write(unit_path(state, "old"), &key, "binary", 6));
    stk_free(kept);
}

UNIT_GROUP(opencl_faults)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_library),
        cmocka_unit_test(test_code_names),
        cmocka_unit_test(test_broken_among_good),
        cmocka_unit_test(test_choice),
        unit_test_with_folder(test_missing_icd),
        unit_test_with_folder(test_bogus_icd),
        cmocka_unit_test(test_every_call_fails),
        unit_test_with_folder(test_every_call_fails_cached),
        unit_test_with_folder(test_every_allocation_fails),
        cmocka_unit_test(test_codes_mean_what_they_are),
        cmocka_unit_test(test_groups),
        unit_test_with_folder(test_cache_keys),
        unit_test_with_folder(test_cache_file),
        unit_test_with_folder(test_cache_folder_of_others),
        cmocka_unit_test(test_cache_places), /* last: it changes where home is */
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
