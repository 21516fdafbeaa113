/* SPDX-License-Identifier: Apache-2.0
 *
 * NVIDIA cards through the driver's own interface. Written where no card was: tests/fake/libcuda.c stands in
 * for the driver and takes every error path; docs/devices.md says what was run and what was not.
 */
#include "src/device/cuda.h"

#include <stdio.h>

#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/base/number.h"

#define CALL STK_CUDA_CALL

/* ---- calls ---- */

/* Puts figures behind a message about memory. Asking is no part of what failed: without an answer, none. */
static void add_memory(stk_cuda *cuda, stoke_error *err)
{
    CUcontext left;
    size_t free_bytes, total_bytes;
    if (!cuda->context || cuda->driver.cuCtxPushCurrent(cuda->context) != CUDA_SUCCESS) return;
    const CUresult result = cuda->driver.cuMemGetInfo(&free_bytes, &total_bytes);
    cuda->driver.cuCtxPopCurrent(&left);
    if (result != CUDA_SUCCESS) return;
    stk_error_add(err, "; %.1f of %.1f MiB are free", STK_MIB(free_bytes), STK_MIB(total_bytes));
}

int stk_cuda_check(stk_cuda *cuda, CUresult result, const char *call, stoke_error *err)
{
    const int r = stk_cuda_status(&cuda->driver, result, cuda->name, call, err);
    if (r == STOKE_E_NOMEM) add_memory(cuda, err);
    return r;
}

/* Calls belong to the context that is current in the calling thread. Any thread may call us, and whatever it
 * had current must be so again afterwards: every use of the driver stands between enter and leave.
 * device.c sees to that, but for opening and closing. */
static int cuda_enter(stoke_device *device, stoke_error *err)
{
    stk_cuda *cuda = device->own;
    return CALL(cuda, cuCtxPushCurrent, cuda->context);
}

/* What it returns is of no use: the context is gone from this thread either way, and a device that failed
 * says so again at the next call. */
static void cuda_leave(stoke_device *device)
{
    CUcontext left;
    ((stk_cuda *)device->own)->driver.cuCtxPopCurrent(&left);
}

/* ---- the device ---- */

/* Fills info of the device at `ordinal`; a failure is for its `problem` or for open. */
static int describe(stk_cuda *cuda, int ordinal, stoke_device_info *info, stoke_error *err)
{
    snprintf(info->name, sizeof info->name, "cuda:%d", ordinal);
    cuda->name = info->name;
    CUdevice device = 0;
    int units = 0, shared = 0, mode = 0, major = 0, minor = 0;
    size_t bytes = 0;
    int r = CALL(cuda, cuDeviceGet, &device, ordinal);
    if (!r) r = CALL(cuda, cuDeviceGetName, info->title, sizeof info->title, device);
    const struct {
        CUdevice_attribute which;
        int *value;
    } wanted[] = {
        { CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &units },
        { CU_DEVICE_ATTRIBUTE_INTEGRATED, &shared },
        { CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, &mode },
        { CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &major },
        { CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &minor },
    };
    for (size_t i = 0; !r && i < sizeof wanted / sizeof *wanted; i++)
        r = CALL(cuda, cuDeviceGetAttribute, wanted[i].value, wanted[i].which, device);
    if (!r) r = CALL(cuda, cuDeviceTotalMem, &bytes, device);
    if (r) return r;
    const int version = cuda->driver.version;
    snprintf(info->driver, sizeof info->driver, "CUDA %d.%d, compute capability %d.%d", version / 1000,
             version % 1000 / 10, major, minor);
    info->memory_bytes = bytes;
    info->compute_units = (uint32_t)units;
    info->exact_math = 1; /* quotients and roots are, unless a compiler is told otherwise; we do not */
    info->shares_memory = shared != 0;
    cuda->device = device;
    cuda->architecture = (uint32_t)(major * 10 + minor);
    if (mode == CU_COMPUTEMODE_PROHIBITED)
        return stk_fail(
            err, STOKE_E_UNSUPPORTED,
            "%s: its compute mode is \"prohibited\"; sudo nvidia-smi -i %d -c DEFAULT allows programs",
            info->name, ordinal);
    return STOKE_OK;
}

static void cuda_discover(stoke_device_list *list)
{
    stk_cuda cuda = { .name = "cuda" };
    stoke_device_info info = { .name = "cuda" };
    stoke_error err = { 0 };
    int count = 0, r = stk_cuda_driver_open(&cuda.driver, &err);
    if (!r)
        r = stk_cuda_status(&cuda.driver, cuda.driver.cuDeviceGetCount(&count), "cuda", "cuDeviceGetCount",
                            &err);
    if (!r && !count) r = stk_cuda_no_card(&cuda.driver, "cuDeviceGetCount", &err);
    if (r) stk_device_list_add(list, &info, &err);
    for (int i = 0; !r && i < count; i++) {
        info = (stoke_device_info){ 0 };
        const int refused = describe(&cuda, i, &info, &err);
        if (stk_device_list_add(list, &info, refused ? &err : NULL)) break;
    }
    stk_cuda_driver_close(&cuda.driver);
}

static int find(stk_cuda *cuda, const char *which, int *ordinal, stoke_error *err)
{
    int64_t index = 0;
    int count = 0;
    if (*which && (!stk_parse_int(which, &index) || index < 0))
        return stk_fail(err, STOKE_E_NOTFOUND, "cuda:%s: the number of a card is wanted, as in cuda:0",
                        which);
    int r = CALL(cuda, cuDeviceGetCount, &count);
    if (!r && !count) r = stk_cuda_no_card(&cuda->driver, "cuDeviceGetCount", err);
    if (!r && index >= count)
        r = stk_fail(
            err, STOKE_E_NOTFOUND,
            "cuda:%s: the driver shows %d card%s (cards count from 0; CUDA_VISIBLE_DEVICES hides some)",
            which, count, count == 1 ? "" : "s");
    *ordinal = (int)index;
    return r;
}

static int cuda_open(stoke_device *device, const char *which, const stoke_device_params *params,
                     stoke_error *err)
{
    stk_cuda *cuda = device->own = stk_calloc(1, sizeof *cuda);
    if (!cuda) return stk_fail(err, STOKE_E_NOMEM, "no memory for a device");
    cuda->name = "cuda";
    int ordinal = 0, r = stk_cuda_driver_open(&cuda->driver, err);
    if (!r) r = find(cuda, which, &ordinal, err);
    if (!r) r = describe(cuda, ordinal, &device->info, err);
    if (!r) r = CALL(cuda, cuDevicePrimaryCtxRetain, &cuda->context, cuda->device);
    if (!r) r = cuda_enter(device, err);
    if (r) return r;
    r = stk_cuda_clock_create(cuda, err);
    cuda_leave(device);
    return r;
}

static void cuda_close(stoke_device *device)
{
    stk_cuda *cuda = device->own;
    if (!cuda) return;
    if (cuda->context) {
        if (!cuda_enter(device, NULL)) {
            stk_cuda_clock_destroy(cuda);
            cuda_leave(device);
        }
        cuda->driver.cuDevicePrimaryCtxRelease(cuda->device);
    }
    stk_cuda_driver_close(&cuda->driver);
    stk_free(cuda);
    device->own = NULL;
}

static int cuda_memory(stoke_device *device, uint64_t *free_bytes, uint64_t *total_bytes, stoke_error *err)
{
    stk_cuda *cuda = device->own;
    size_t left = 0, total = 0;
    const int r = CALL(cuda, cuMemGetInfo, &left, &total);
    *free_bytes = left;
    *total_bytes = total;
    return r;
}

/* ---- blocks ---- */

static int no_room(const stk_device_block *block, stoke_error *err)
{
    stk_cuda *cuda = block->device->own;
    const int small = block->bytes < 1 << 20;
    const double amount = (double)block->bytes / (small ? 1 << 10 : 1 << 20);
    const char *unit = small ? "KiB" : "MiB";
    if (block->kind == STK_MEMORY_PINNED)
        return stk_fail(err, STOKE_E_NOMEM,
                        "%s: the system gives no %.1f %s of pinned memory (cuMemHostAlloc says "
                        "CUDA_ERROR_OUT_OF_MEMORY): keep fewer batches ahead, or use pageable memory",
                        cuda->name, amount, unit);
    stk_fail(err, STOKE_E_NOMEM,
             "%s: no room for a block of %.1f %s (cuMemAlloc says CUDA_ERROR_OUT_OF_MEMORY): make the batch "
             "smaller or keep fewer batches ahead; nvidia-smi shows who holds memory",
             cuda->name, amount, unit);
    add_memory(cuda, err);
    return STOKE_E_NOMEM;
}

static int cuda_block_create(stk_device_block *block, stoke_error *err)
{
    stk_cuda *cuda = block->device->own;
    CUdeviceptr address = 0;
    const int pinned = block->kind == STK_MEMORY_PINNED;
    const CUresult result =
        pinned ? cuda->driver.cuMemHostAlloc(&block->host, block->bytes, CU_MEMHOSTALLOC_PORTABLE)
               : cuda->driver.cuMemAlloc(&address, block->bytes);
    block->handle = (uintptr_t)address;
    return result == CUDA_ERROR_OUT_OF_MEMORY
               ? no_room(block, err)
               : stk_cuda_check(cuda, result, pinned ? "cuMemHostAlloc" : "cuMemAlloc", err);
}

static void cuda_block_destroy(stk_device_block *block)
{
    stk_cuda *cuda = block->device->own;
    if (block->kind == STK_MEMORY_PINNED) {
        cuda->driver.cuCtxSynchronize(); /* cuMemFree waits for work that uses the block, this one may not */
        cuda->driver.cuMemFreeHost(block->host);
    } else {
        cuda->driver.cuMemFree(block->handle);
    }
}

/* ---- streams ---- */

static int make_idle(stk_device_stream *stream, stoke_error *err)
{
    stk_cuda *cuda = stream->device->own;
    return CALL(cuda, cuEventCreate, &stream->idle, CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING);
}

static int cuda_stream_create(stk_device_stream *stream, stoke_error *err)
{
    stk_cuda *cuda = stream->device->own;
    int r = make_idle(stream, err);
    if (r) return r;
    stream->owned = 1;
    r = CALL(cuda, cuStreamCreate, &stream->handle, CU_STREAM_NON_BLOCKING);
    if (r) cuda->driver.cuEventDestroy(stream->idle);
    return r;
}

/* NULL is the default stream of the primary context, in which torch works unless told otherwise. */
static int cuda_stream_wrap(stk_device_stream *stream, void *native, stoke_error *err)
{
    stk_cuda *cuda = stream->device->own;
    CUcontext context = NULL;
    const int r = CALL(cuda, cuStreamGetCtx, native, &context);
    if (r) return r;
    if (context != cuda->context)
        return stk_fail(err, STOKE_E_INVALID,
                        "%s: the stream belongs to another device or context; make it on this device, in the "
                        "primary context",
                        cuda->name);
    stream->handle = native;
    return make_idle(stream, err);
}

static void cuda_stream_destroy(stk_device_stream *stream)
{
    stk_cuda *cuda = stream->device->own;
    if (stream->owned) cuda->driver.cuStreamSynchronize(stream->handle); /* others' may be gone by now */
    cuda->driver.cuEventDestroy(stream->idle);
    if (stream->owned) cuda->driver.cuStreamDestroy(stream->handle);
}

/* Not cuStreamSynchronize: unless the whole context was made otherwise it turns on a core, and the loader has
 * use for that. */
static int cuda_stream_finish(stk_device_stream *stream, stoke_error *err)
{
    stk_cuda *cuda = stream->device->own;
    const int r = CALL(cuda, cuEventRecord, stream->idle, stream->handle);
    return r ? r : CALL(cuda, cuEventSynchronize, stream->idle);
}

static int cuda_stream_wait(stk_device_stream *stream, stk_device_event *event, stoke_error *err)
{
    stk_cuda *cuda = stream->device->own;
    return event->recorded_ns ? CALL(cuda, cuStreamWaitEvent, stream->handle, event->handle, 0) : STOKE_OK;
}

/* ---- events ---- */

static int cuda_event_create(stk_device_event *event, stoke_error *err)
{
    stk_cuda *cuda = event->device->own;
    return CALL(cuda, cuEventCreate, &event->handle, CU_EVENT_BLOCKING_SYNC);
}

static void cuda_event_destroy(stk_device_event *event)
{
    ((stk_cuda *)event->device->own)->driver.cuEventDestroy(event->handle);
}

static int cuda_event_record(stk_device_event *event, stk_device_stream *stream, stoke_error *err)
{
    stk_cuda *cuda = event->device->own;
    const uint64_t now = stk_now_ns();
    const int r = CALL(cuda, cuEventRecord, event->handle, stream->handle);
    if (!r) event->recorded_ns = now;
    return r;
}

static int cuda_event_finish(stk_device_event *event, stoke_error *err)
{
    stk_cuda *cuda = event->device->own;
    return event->recorded_ns ? CALL(cuda, cuEventSynchronize, event->handle) : STOKE_OK;
}

static int cuda_event_done(stk_device_event *event, int *done, stoke_error *err)
{
    stk_cuda *cuda = event->device->own;
    *done = 1;
    if (!event->recorded_ns) return STOKE_OK;
    const CUresult result = cuda->driver.cuEventQuery(event->handle);
    *done = result != CUDA_ERROR_NOT_READY;
    return *done ? stk_cuda_check(cuda, result, "cuEventQuery", err) : STOKE_OK;
}

/* ---- work ---- */

/* From pageable memory the driver copies to its own place first, and into it only after the stream has
 * come this far: the call may take that long, and the source is free when it returns. */
static int cuda_copy(stk_device_stream *stream, const stk_device_block *to, size_t to_at,
                     const stk_device_block *from, size_t from_at, size_t bytes, stoke_error *err)
{
    stk_cuda *cuda = stream->device->own;
    const int up = to->kind == STK_MEMORY_DEVICE, down = from->kind == STK_MEMORY_DEVICE;
    const CUdeviceptr target = (up ? to->handle : (uintptr_t)to->host) + to_at,
                      source = (down ? from->handle : (uintptr_t)from->host) + from_at;
    if (up && down) return CALL(cuda, cuMemcpyDtoDAsync, target, source, bytes, stream->handle);
    if (up)
        return CALL(cuda, cuMemcpyHtoDAsync, target, (const void *)(uintptr_t)source, bytes, stream->handle);
    if (down) return CALL(cuda, cuMemcpyDtoHAsync, (void *)(uintptr_t)target, source, bytes, stream->handle);
    return CALL(cuda, cuMemcpyAsync, target, source, bytes, stream->handle);
}

/* 256 threads a block fill every card since 2012; in a picture as 32 x 8, so that a warp writes one line. */
enum { THREADS = 256, WARP = 32, AXIS_MAX = 65535 /* blocks along y and z */ };

static int cuda_launch(stk_device_stream *stream, stk_device_module *module, const stk_device_launch *what,
                       stoke_error *err)
{
    stk_cuda *cuda = stream->device->own;
    const uint32_t wide = what->grid[1] > 1 ? WARP : THREADS, high = THREADS / wide;
    const uint32_t x = what->grid[0] / wide + (what->grid[0] % wide != 0),
                   y = what->grid[1] / high + (what->grid[1] % high != 0), z = what->grid[2];
    if (y > AXIS_MAX || z > AXIS_MAX)
        return stk_fail(
            err, STOKE_E_LIMIT,
            "%s: a grid of %u x %u x %u work items is more than a launch takes (%u lines, %u rows)",
            cuda->name, what->grid[0], what->grid[1], what->grid[2], AXIS_MAX * high, AXIS_MAX);
    CUdeviceptr addresses[STK_ARGUMENTS_MAX];
    void *arguments[STK_ARGUMENTS_MAX];
    for (uint32_t i = 0; i < what->n_arguments; i++) {
        const stk_device_argument *argument = &what->arguments[i];
        if (argument->block) addresses[i] = argument->block->handle;
        arguments[i] = argument->block ? (void *)&addresses[i] : (void *)(uintptr_t)argument->value;
    }
    return CALL(cuda, cuLaunchKernel, module->kernels[what->kernel], x, y, z, wide, high, 1, 0,
                stream->handle, arguments, NULL);
}

const stk_device_fns stk_device_cuda = {
    .kind = "cuda",
    .stream_bytes = sizeof(stk_device_stream),
    .event_bytes = sizeof(stk_device_event),
    .module_bytes = sizeof(stk_device_module),
    .discover = cuda_discover,
    .open = cuda_open,
    .close = cuda_close,
    .enter = cuda_enter,
    .leave = cuda_leave,
    .memory = cuda_memory,
    .block_create = cuda_block_create,
    .block_destroy = cuda_block_destroy,
    .stream_create = cuda_stream_create,
    .stream_destroy = cuda_stream_destroy,
    .stream_wrap = cuda_stream_wrap,
    .stream_finish = cuda_stream_finish,
    .stream_wait = cuda_stream_wait,
    .event_create = cuda_event_create,
    .event_destroy = cuda_event_destroy,
    .event_record = cuda_event_record,
    .event_finish = cuda_event_finish,
    .event_done = cuda_event_done,
    .event_time = stk_cuda_event_time,
    .copy = cuda_copy,
    .module_create = stk_cuda_module_create,
    .module_destroy = stk_cuda_module_destroy,
    .launch = cuda_launch,
};
