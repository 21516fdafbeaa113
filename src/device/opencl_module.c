/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs: taken from the cache where the same driver compiled the same text before, else compiled and put
 * there. All options are in the key of the cache.
 */
#include "src/device/opencl.h"

#include <stdio.h>
#include <string.h>

#include "src/base/error.h"
#include "src/base/file.h"
#include "src/base/mem.h"

/* ---- compiling ---- */

/* Whatever a driver's binaries may depend on. */
static int key_of(const stoke_device *device, const stk_program *program, stk_opencl_key *key)
{
    const stk_opencl *own = stk_opencl_of(device);
    static const cl_device_info of_device[] = { CL_DEVICE_NAME, CL_DEVICE_VENDOR, CL_DEVICE_VERSION,
                                                CL_DRIVER_VERSION };
    static const cl_platform_info of_platform[] = { CL_PLATFORM_NAME, CL_PLATFORM_VERSION };
    enum {
        DEVICE = sizeof of_device / sizeof *of_device,
        BOTH = DEVICE + sizeof of_platform / sizeof *of_platform
    };
    char text[BOTH][256];
    const char *parts[BOTH + 2];
    for (int i = 0; i < BOTH; i++) {
        if (i < DEVICE)
            stk_opencl_text(&own->cl, NULL, own->id, of_device[i], text[i], sizeof text[i]);
        else
            stk_opencl_text(&own->cl, own->platform, NULL, of_platform[i - DEVICE], text[i], sizeof text[i]);
        parts[i] = text[i];
    }
    parts[BOTH] = own->options;
    parts[BOTH + 1] = program->text;
    return stk_opencl_key_of(key, parts, BOTH + 2);
}

/* The compiler's words, from the heap; NULL: none. */
static char *build_log(const stk_opencl *own, cl_program program)
{
    enum { LONGEST = 64 << 20 };
    size_t n = 0;
    if (own->cl.clGetProgramBuildInfo(program, own->id, CL_PROGRAM_BUILD_LOG, 0, NULL, &n) || n < 2 ||
        n > LONGEST)
        return NULL;
    char *log = stk_calloc(n + 1, 1);
    if (log && own->cl.clGetProgramBuildInfo(program, own->id, CL_PROGRAM_BUILD_LOG, n, log, NULL)) {
        stk_free(log);
        return NULL;
    }
    return log;
}

/* Writes the log beside the binaries. Its path from the heap; NULL: nowhere. */
static char *keep_log(const stk_opencl *own, const stk_opencl_key *key, const char *log)
{
    stoke_output file;
    char *path = own->cache && stk_opencl_cache_make(own->cache)
                     ? stk_opencl_cache_path(own->cache, key, "log")
                     : NULL;
    if (path && stoke_output_open(&file, path, NULL) == STOKE_OK) {
        file.expendable = 1;
        fputs(log, file.stream);
        if (stoke_output_commit(&file, NULL) == STOKE_OK) return path;
    }
    stk_free(path);
    return NULL;
}

static int refused(const stoke_device *device, const stk_program *program, cl_program built,
                   const stk_opencl_key *key, cl_int code, stoke_error *err)
{
    enum { SHOWN = 480 }; /* of 1024 bytes of a message: the path of the whole log must fit too */
    const stk_opencl *own = stk_opencl_of(device);
    char *log = build_log(own, built);
    char *path = log ? keep_log(own, key, log) : NULL;
    size_t shown = log ? strlen(log) : 0;
    if (shown > SHOWN)
        for (shown = SHOWN; shown > SHOWN / 2 && log[shown] != '\n';) shown--; /* whole lines */
    while (shown && (log[shown - 1] == '\n' || log[shown - 1] == ' ')) shown--;
    const int r =
        stk_fail(err, STOKE_E_UNSUPPORTED,
                 "%s (%s): the driver's compiler refuses the program '%s' with %s (%d); whole log: %s. "
                 "It begins:",
                 device->info.name, device->info.title, program->name, stk_opencl_code_name(code), (int)code,
                 path  ? path
                 : log ? "not kept, there is no folder for compiled programs"
                       : "none");
    if (log) stk_error_add_lines(err, log, shown);
    stk_free(path);
    stk_free(log);
    return r;
}

/* Compiles the text. */
static int build_text(const stoke_device *device, const stk_program *program, const stk_opencl_key *key,
                      cl_program *out, stoke_error *err)
{
    const stk_opencl *own = stk_opencl_of(device);
    cl_int code;
    cl_program built =
        own->cl.clCreateProgramWithSource(own->context, 1, (const char *[]){ program->text }, NULL, &code);
    if (code) return stk_opencl_check(device, "clCreateProgramWithSource", code, err);
    code = own->cl.clBuildProgram(built, 1, &own->id, own->options, NULL, NULL);
    if (!code) {
        *out = built;
        return STOKE_OK;
    }
    const int r = code == CL_OUT_OF_HOST_MEMORY || code == CL_OUT_OF_RESOURCES
                      ? stk_opencl_check(device, "clBuildProgram", code, err)
                      : refused(device, program, built, key, code, err);
    own->cl.clReleaseProgram(built);
    return r;
}

/* Takes what the cache has; NULL: nothing, or nothing that the driver wants. */
static cl_program build_cached(const stk_opencl *own, const stk_opencl_key *key)
{
    stk_mem_buffer buffer = { 0 };
    size_t bytes;
    cl_int status = CL_SUCCESS, code = CL_SUCCESS;
    cl_program built = NULL;
    const unsigned char *binary = stk_opencl_cache_read(own->cache, key, &buffer, &bytes);
    if (binary)
        built = own->cl.clCreateProgramWithBinary(own->context, 1, &own->id, &bytes, &binary, &status, &code);
    if (built && !code && !status)
        code = own->cl.clBuildProgram(built, 1, &own->id, own->options, NULL, NULL);
    if (built && (code || status)) {
        own->cl.clReleaseProgram(built);
        built = NULL;
    }
    stk_buffer_free(&buffer);
    return built;
}

/* A driver that has no binaries, or too large ones, compiles every time. */
static void keep_binary(const stk_opencl *own, const stk_opencl_key *key, cl_program built)
{
    size_t bytes = 0;
    if (own->cl.clGetProgramInfo(built, CL_PROGRAM_BINARY_SIZES, sizeof bytes, &bytes, NULL) || !bytes)
        return;
    unsigned char *binary = stk_alloc(bytes);
    if (binary && !own->cl.clGetProgramInfo(built, CL_PROGRAM_BINARIES, sizeof binary, &binary, NULL))
        stk_opencl_cache_write(own->cache, key, binary, bytes);
    stk_free(binary);
}

/* ---- modules ---- */

static int make_kernels(stk_device_module *m, stoke_error *err)
{
    stoke_device *device = m->device;
    const stk_program *program = m->program;
    const stk_opencl *own = stk_opencl_of(device);
    for (uint32_t i = 0; i < program->n_kernels; i++) {
        cl_int code;
        m->kernels[i] = own->cl.clCreateKernel(m->compiled, program->kernels[i], &code);
        if (code == CL_INVALID_KERNEL_NAME)
            return stk_fail(err, STOKE_E_UNSUPPORTED, "%s (%s): the compiled program '%s' has no kernel '%s'",
                            device->info.name, device->info.title, program->name, program->kernels[i]);
        int r = stk_opencl_check(device, "clCreateKernel", code, err);
        if (r != STOKE_OK) return r;
        code = own->cl.clGetKernelWorkGroupInfo(m->kernels[i], own->id, CL_KERNEL_WORK_GROUP_SIZE,
                                                sizeof m->limits[i], &m->limits[i], NULL);
        r = stk_opencl_check(device, "clGetKernelWorkGroupInfo", code, err);
        if (r != STOKE_OK) return r;
    }
    return STOKE_OK;
}

static void drop_program(stk_device_module *m)
{
    const stk_opencl *own = stk_opencl_of(m->device);
    for (uint32_t i = 0; i < m->program->n_kernels; i++) {
        if (m->kernels[i]) own->cl.clReleaseKernel(m->kernels[i]);
        m->kernels[i] = NULL;
    }
    if (m->compiled) own->cl.clReleaseProgram(m->compiled);
    m->compiled = NULL;
}

/* From the cache, or else compiled: a binary that has no use must not cost more than the compilation. */
static int build(stk_device_module *m, stoke_error *err)
{
    const stoke_device *device = m->device;
    const stk_opencl *own = stk_opencl_of(device);
    stk_opencl_key key;
    if (!key_of(device, m->program, &key))
        return stk_fail(err, STOKE_E_NOMEM, "%s: no memory to compile", device->info.name);
    if (own->cache) m->compiled = build_cached(own, &key);
    if (m->compiled) {
        if (make_kernels(m, NULL) == STOKE_OK) return STOKE_OK;
        drop_program(m);
    }
    int r = build_text(device, m->program, &key, &m->compiled, err);
    if (r == STOKE_OK) r = make_kernels(m, err);
    if (r == STOKE_OK && own->cache) keep_binary(own, &key, m->compiled);
    return r;
}

int stk_opencl_module_create(stk_device_module *m, stoke_error *err)
{
    pthread_mutex_init(&m->lock, NULL);
    const int r = build(m, err);
    if (r) stk_opencl_module_destroy(m);
    return r;
}

void stk_opencl_module_destroy(stk_device_module *m)
{
    drop_program(m);
    pthread_mutex_destroy(&m->lock);
}

/* ---- launching ---- */

/* Groups are as wide as rows of pixels like them, and the same for every grid: a driver's own choice depends
 * on what divides the grid (1 for a prime width), and PoCL compiles a kernel again for every size of group.
 */
void stk_opencl_groups(const uint32_t grid[3], size_t limit, const size_t items_max[3], size_t global[3],
                       size_t local[3])
{
    local[0] = grid[1] == 1 ? 256 : 64;
    local[1] = grid[1] == 1 ? 1 : 4;
    local[2] = 1;
    for (int i = 0; i < 2; i++)
        while (local[i] > 1 && local[i] > items_max[i]) local[i] /= 2;
    while (local[1] > 1 && local[0] * local[1] > limit) local[1] /= 2;
    while (local[0] > 1 && local[0] > limit) local[0] /= 2;
    for (int i = 0; i < 3; i++) global[i] = (grid[i] + local[i] - 1) / local[i] * local[i];
}

int stk_opencl_launch(stk_device_stream *stream, stk_device_module *m, const stk_device_launch *launch,
                      stoke_error *err)
{
    const stk_opencl *own = stk_opencl_of(m->device);
    cl_kernel kernel = m->kernels[launch->kernel];
    size_t global[3], local[3];
    char call[96];
    stk_opencl_groups(launch->grid, m->limits[launch->kernel], own->items_max, global, local);
    pthread_mutex_lock(&m->lock);
    cl_int set = CL_SUCCESS;
    for (uint32_t i = 0; !set && i < launch->n_arguments; i++) {
        const stk_device_argument *a = &launch->arguments[i];
        cl_mem memory = a->block ? (cl_mem)a->block->handle : NULL;
        set = a->block ? own->cl.clSetKernelArg(kernel, i, sizeof memory, &memory)
                       : own->cl.clSetKernelArg(kernel, i, a->bytes, a->value);
    }
    const cl_int code =
        set ? set
            : own->cl.clEnqueueNDRangeKernel(stream->queue, kernel, 3, NULL, global, local, 0, NULL, NULL);
    pthread_mutex_unlock(&m->lock);
    if (!code) return STOKE_OK;
    snprintf(call, sizeof call, "%s of kernel %.48s", set ? "clSetKernelArg" : "clEnqueueNDRangeKernel",
             m->program->kernels[launch->kernel]);
    return stk_opencl_check(m->device, call, code, err);
}
