/* SPDX-License-Identifier: Apache-2.0 */
#include "src/device/opencl.h"

#include <stdio.h>
#include <string.h>

#include "src/base/driver_probe.h"
#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/base/number.h"

/* ---- failures ---- */

static int is_out_of_memory(cl_int code)
{
    return code == CL_MEM_OBJECT_ALLOCATION_FAILURE || code == CL_OUT_OF_RESOURCES ||
           code == CL_OUT_OF_HOST_MEMORY;
}

int stk_opencl_check_wait(const stoke_device *device, const char *call, cl_int code, stoke_error *err)
{
    if (code == CL_SUCCESS) return STOKE_OK;
    return stk_fail(
        err, STOKE_E_DEVICE,
        "%s (%s): %s failed with %s (%d); the driver may have said more in the system's log (dmesg). "
        "Go on with another device, or start again",
        device->info.name, device->info.title, call, stk_opencl_code_name(code), (int)code);
}

int stk_opencl_check(const stoke_device *device, const char *call, cl_int code, stoke_error *err)
{
    const stk_opencl *own = stk_opencl_of(device);
    if (!is_out_of_memory(code)) return stk_opencl_check_wait(device, call, code, err);
    return stk_fail(err, STOKE_E_NOMEM,
                    "%s (%s): out of memory in %s, %s (%d): this process has taken %llu of %llu bytes; make "
                    "batches smaller, or hold fewer of them",
                    device->info.name, device->info.title, call, stk_opencl_code_name(code), (int)code,
                    (unsigned long long)atomic_load(&own->taken), (unsigned long long)own->total);
}

/* ---- finding and opening ---- */

static int add_to_list(void *context, const stk_opencl_found *found)
{
    return stk_device_list_add(context, &found->info, NULL) != STOKE_OK;
}

static int load(stk_opencl_driver *cl, stoke_error *err)
{
    const int r = stk_driver_probe(STK_DRIVER_OPENCL, STK_OPENCL_LIBRARY, err);
    return r ? r : stk_opencl_load(cl, STK_OPENCL_LIBRARY, err);
}

static void opencl_discover(stoke_device_list *list)
{
    stk_opencl_driver cl;
    stoke_error err = { 0 };
    if (load(&cl, &err) == STOKE_OK) {
        stk_opencl_walk(&cl, add_to_list, list);
        return;
    }
    const stoke_device_info info = { .name = "opencl" };
    stk_device_list_add(list, &info, &err);
}

/* The device of a number, or the first that can be used. */
typedef struct wanted {
    int64_t number; /* -1: any */
    int found;
    stk_opencl_found what; /* also, when not found, the last that was no use */
} wanted;

static int is_wanted(void *context, const stk_opencl_found *found)
{
    wanted *w = context;
    const int usable = found->device && !found->info.problem[0];
    w->found = w->number < 0 ? usable : found->device && found->number == w->number;
    if (w->found || !usable) w->what = *found;
    return w->found;
}

static int choose(const stk_opencl_driver *cl, const char *which, wanted *w, stoke_error *err)
{
    *w = (wanted){ .number = -1 };
    if (*which && (!stk_parse_int(which, &w->number) || w->number < 0))
        return stk_fail(err, STOKE_E_NOTFOUND, "opencl:%.40s: OpenCL devices have numbers, as in opencl:0",
                        which);
    stk_opencl_walk(cl, is_wanted, w);
    if (!w->found && w->what.info.problem[0] && (!w->what.device || w->number < 0))
        return stk_fail(err, STOKE_E_NOTFOUND, "opencl%s%.40s: %s", *which ? ":" : "", which,
                        w->what.info.problem);
    if (!w->found) return stk_fail(err, STOKE_E_NOTFOUND, "opencl:%.40s: there is no such device", which);
    if (w->what.info.problem[0])
        return stk_fail(err, STOKE_E_UNSUPPORTED, "%s (%s): %s", w->what.info.name, w->what.info.title,
                        w->what.info.problem);
    return STOKE_OK;
}

/* What the device can do, and how its compiler is told to keep to the host's floats. */
static void ask_limits(stk_opencl *own, const stoke_device_info *info)
{
    cl_ulong largest;
    stk_opencl_value(&own->cl, own->id, CL_DEVICE_MAX_MEM_ALLOC_SIZE, &largest, sizeof largest);
    stk_opencl_value(&own->cl, own->id, CL_DEVICE_MAX_WORK_ITEM_SIZES, own->items_max, sizeof own->items_max);
    own->total = info->memory_bytes;
    own->largest = largest ? largest : own->total;
    snprintf(own->options, sizeof own->options, "-cl-std=CL1.2%s",
             info->exact_math ? " -cl-fp32-correctly-rounded-divide-sqrt" : "");
}

static int create_queue(stoke_device *device, cl_command_queue *queue, stoke_error *err)
{
    const stk_opencl *own = stk_opencl_of(device);
    cl_int code;
    *queue = own->cl.clCreateCommandQueue(own->context, own->id, CL_QUEUE_PROFILING_ENABLE, &code);
    if (code) *queue = NULL;
    return stk_opencl_check(device, "clCreateCommandQueue", code, err);
}

int stk_opencl_start(stoke_device *device, const stk_opencl_driver *cl, const char *which,
                     const stoke_device_params *params, stoke_error *err)
{
    stk_opencl *own = stk_calloc(1, sizeof *own);
    wanted w;
    cl_int code;
    if (!own) return stk_fail(err, STOKE_E_NOMEM, "opencl: no memory to open a device");
    pthread_mutex_init(&own->lock, NULL);
    device->own = own;
    own->cl = *cl;
    int r = choose(&own->cl, which, &w, err);
    if (r != STOKE_OK) return r;
    device->info = w.what.info;
    own->platform = w.what.platform;
    own->id = w.what.device;
    ask_limits(own, &device->info);
    own->cache = stk_opencl_cache_folder(params->cache);
    const cl_context_properties properties[] = { CL_CONTEXT_PLATFORM, (cl_context_properties)own->platform,
                                                 0 };
    own->context = own->cl.clCreateContext(properties, 1, &own->id, NULL, NULL, &code);
    r = stk_opencl_check(device, "clCreateContext", code, err);
    if (r == STOKE_OK) r = create_queue(device, &own->chores, err);
    return r == STOKE_OK ? stk_opencl_clock_start(device, err) : r;
}

static int opencl_open(stoke_device *device, const char *which, const stoke_device_params *params,
                       stoke_error *err)
{
    stk_opencl_driver cl;
    const int r = load(&cl, err);
    return r == STOKE_OK ? stk_opencl_start(device, &cl, which, params, err) : r;
}

static void opencl_close(stoke_device *device)
{
    stk_opencl *own = stk_opencl_of(device);
    if (!own) return;
    if (own->chores) {
        own->cl.clFinish(own->chores);
        own->cl.clReleaseCommandQueue(own->chores);
    }
    if (own->context) own->cl.clReleaseContext(own->context);
    pthread_mutex_destroy(&own->lock);
    stk_free(own->cache);
    stk_free(own);
    device->own = NULL;
}

/* ---- memory ---- */

/* OpenCL has no word for free memory; AMD's drivers do, in KiB. */
static int opencl_memory(stoke_device *device, uint64_t *free_bytes, uint64_t *total_bytes, stoke_error *err)
{
    const stk_opencl *own = stk_opencl_of(device);
    size_t kib[2]; /* in all, and the largest block */
    stk_opencl_value(&own->cl, own->id, CL_DEVICE_GLOBAL_FREE_MEMORY_AMD, kib, sizeof kib);
    *free_bytes = (uint64_t)kib[0] << 10;
    *total_bytes = own->total;
    return STOKE_OK;
}

static int no_room(const stk_device_block *block, const char *what, cl_int code, stoke_error *err)
{
    const stk_opencl *own = stk_opencl_of(block->device);
    return stk_fail(
        err, STOKE_E_NOMEM,
        "%s (%s): no %s memory for %llu bytes%s%s: the device has %llu, of which this process has "
        "taken %llu, and one block may have %llu; make batches smaller, or hold fewer of them",
        block->device->info.name, block->device->info.title, what, (unsigned long long)block->bytes,
        code ? ", says the driver with " : "", code ? stk_opencl_code_name(code) : "",
        (unsigned long long)own->total, (unsigned long long)atomic_load(&own->taken),
        (unsigned long long)own->largest);
}

/* Gives the code of a failed allocation its words. */
static int allocation_failed(const stk_device_block *block, const char *what, const char *call, cl_int code,
                             stoke_error *err)
{
    if (is_out_of_memory(code) || code == CL_INVALID_BUFFER_SIZE) return no_room(block, what, code, err);
    return stk_opencl_check(block->device, call, code, err);
}

/* Drivers put the allocation off until a buffer is first used, which would be in the middle of a run; a
 * migration of undefined contents is a use, and costs no copy. */
static cl_int take_now(stk_opencl *own, cl_mem memory)
{
    const cl_int code = own->cl.clEnqueueMigrateMemObjects(
        own->chores, 1, &memory, CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED, 0, NULL, NULL);
    return code ? code : own->cl.clFinish(own->chores);
}

static int create_device_block(stk_device_block *block, stoke_error *err)
{
    stk_opencl *own = stk_opencl_of(block->device);
    cl_int code;
    /* Some drivers would swap instead of refusing. */
    const uint64_t before = atomic_fetch_add(&own->taken, block->bytes);
    if (block->bytes > own->largest || before > own->total || block->bytes > own->total - before) {
        atomic_fetch_sub(&own->taken, block->bytes);
        return no_room(block, "device", CL_SUCCESS, err);
    }
    cl_mem memory = own->cl.clCreateBuffer(own->context, CL_MEM_READ_WRITE, block->bytes, NULL, &code);
    const char *call = "clCreateBuffer";
    if (!code) {
        code = take_now(own, memory);
        call = "clEnqueueMigrateMemObjects";
    }
    if (code) {
        if (memory) own->cl.clReleaseMemObject(memory);
        atomic_fetch_sub(&own->taken, block->bytes);
        return allocation_failed(block, "device", call, code, err);
    }
    block->handle = (uintptr_t)memory;
    return STOKE_OK;
}

/* Pinned memory is the driver's to give: a buffer that it keeps on the host, mapped for as long as it
 * lives. The buffer itself is never used, only the address. */
static int create_pinned_block(stk_device_block *block, stoke_error *err)
{
    stk_opencl *own = stk_opencl_of(block->device);
    cl_int code;
    cl_mem memory = own->cl.clCreateBuffer(own->context, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR,
                                           block->bytes, NULL, &code);
    if (code) return allocation_failed(block, "pinned", "clCreateBuffer", code, err);
    block->host = own->cl.clEnqueueMapBuffer(own->chores, memory, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0,
                                             block->bytes, 0, NULL, NULL, &code);
    if (code) {
        own->cl.clReleaseMemObject(memory);
        block->host = NULL;
        return code == CL_MAP_FAILURE ? no_room(block, "pinned", code, err)
                                      : allocation_failed(block, "pinned", "clEnqueueMapBuffer", code, err);
    }
    block->own = memory;
    return STOKE_OK;
}

static int opencl_block_create(stk_device_block *block, stoke_error *err)
{
    return block->kind == STK_MEMORY_DEVICE ? create_device_block(block, err)
                                            : create_pinned_block(block, err);
}

static void opencl_block_destroy(stk_device_block *block)
{
    stk_opencl *own = stk_opencl_of(block->device);
    if (block->kind == STK_MEMORY_DEVICE) {
        own->cl.clReleaseMemObject((cl_mem)block->handle);
        atomic_fetch_sub(&own->taken, block->bytes);
    } else {
        own->cl.clEnqueueUnmapMemObject(own->chores, block->own, block->host, 0, NULL, NULL);
        own->cl.clFinish(own->chores);
        own->cl.clReleaseMemObject(block->own);
    }
}

/* ---- streams and copies ---- */

static int opencl_stream_create(stk_device_stream *stream, stoke_error *err)
{
    return create_queue(stream->device, &stream->queue, err);
}

static void opencl_stream_destroy(stk_device_stream *stream)
{
    stk_opencl *own = stk_opencl_of(stream->device);
    own->cl.clFinish(stream->queue);
    own->cl.clReleaseCommandQueue(stream->queue);
}

static int opencl_stream_finish(stk_device_stream *stream, stoke_error *err)
{
    stk_opencl *own = stk_opencl_of(stream->device);
    return stk_opencl_check_wait(stream->device, "clFinish", own->cl.clFinish(stream->queue), err);
}

/* Ordinary memory may be used again as soon as the call returns, as with CUDA: so the call waits for the
 * copy, and with it for all that the stream was told before. */
static int opencl_copy(stk_device_stream *stream, const stk_device_block *to, size_t to_at,
                       const stk_device_block *from, size_t from_at, size_t bytes, stoke_error *err)
{
    stk_opencl *own = stk_opencl_of(stream->device);
    const int up = to->kind == STK_MEMORY_DEVICE, down = from->kind == STK_MEMORY_DEVICE;
    char *to_host = (char *)to->host + to_at;
    const char *from_host = (const char *)from->host + from_at;
    if (!up && !down) { /* OpenCL has no command for it: in the stream's order all the same */
        const int r = opencl_stream_finish(stream, err);
        if (r == STOKE_OK) memcpy(to_host, from_host, bytes);
        return r;
    }
    const cl_bool wait = to->kind == STK_MEMORY_PAGEABLE || from->kind == STK_MEMORY_PAGEABLE;
    cl_int code;
    const char *call;
    if (up && down) {
        call = "clEnqueueCopyBuffer";
        code = own->cl.clEnqueueCopyBuffer(stream->queue, (cl_mem)from->handle, (cl_mem)to->handle, from_at,
                                           to_at, bytes, 0, NULL, NULL);
    } else if (up) {
        call = "clEnqueueWriteBuffer";
        code = own->cl.clEnqueueWriteBuffer(stream->queue, (cl_mem)to->handle, wait, to_at, bytes, from_host,
                                            0, NULL, NULL);
    } else {
        call = "clEnqueueReadBuffer";
        code = own->cl.clEnqueueReadBuffer(stream->queue, (cl_mem)from->handle, wait, from_at, bytes, to_host,
                                           0, NULL, NULL);
    }
    return stk_opencl_check(stream->device, call, code, err);
}

const stk_device_fns stk_device_opencl = {
    .kind = "opencl",
    .stream_bytes = sizeof(stk_device_stream),
    .event_bytes = sizeof(stk_device_event),
    .module_bytes = sizeof(stk_device_module),
    .discover = opencl_discover,
    .open = opencl_open,
    .close = opencl_close,
    .memory = opencl_memory,
    .block_create = opencl_block_create,
    .block_destroy = opencl_block_destroy,
    .stream_create = opencl_stream_create,
    .stream_destroy = opencl_stream_destroy,
    .stream_finish = opencl_stream_finish,
    .stream_wait = stk_opencl_stream_wait,
    .event_create = stk_opencl_event_create,
    .event_destroy = stk_opencl_event_destroy,
    .event_record = stk_opencl_event_record,
    .event_finish = stk_opencl_event_finish,
    .event_done = stk_opencl_event_done,
    .event_time = stk_opencl_event_time,
    .copy = opencl_copy,
    .module_create = stk_opencl_module_create,
    .module_destroy = stk_opencl_module_destroy,
    .launch = stk_opencl_launch,
};
