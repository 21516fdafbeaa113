/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions of the driver that the product uses, with the behaviour that NVIDIA's manual gives them.
 */
#include "tests/fake/books.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define CUDA_FN(name, symbol, arguments) CUresult symbol arguments;
#include "src/device/cuda_functions.def"
#undef CUDA_FN

#define BEGIN(rules)                                                                                         \
    CUresult late;                                                                                           \
    const CUresult refused = fake_begin(__func__, rules, &late);                                             \
    if (refused) return fake_end(refused)

/* Writes down a fault and leaves. */
#define WRONG(code, ...)                                                                                     \
    do {                                                                                                     \
        fake_fault(__VA_ARGS__);                                                                             \
        return fake_end(code);                                                                               \
    } while (0)

/* ---- the driver ---- */

CUresult cuDriverGetVersion(int *version)
{
    BEGIN(FAKE_ANYTIME | FAKE_ASKS);
    *version = fake_settings.version;
    return fake_end(late);
}

CUresult cuInit(unsigned flags)
{
    BEGIN(FAKE_ANYTIME | FAKE_ASKS);
    if (flags) WRONG(CUDA_ERROR_INVALID_VALUE, "cuInit: flags must be 0");
    fake_set_initialised();
    return fake_end(late);
}

static const struct {
    CUresult code;
    const char *name, *text;
} errors[] = {
    { CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument" },
    { CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory" },
    { CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error" },
    { CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected" },
    { CUDA_ERROR_INVALID_PTX, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed" },
    { CUDA_ERROR_UNSUPPORTED_PTX_VERSION, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
      "the provided PTX was compiled with an unsupported toolchain." },
    { CUDA_ERROR_ECC_UNCORRECTABLE, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error encountered" },
    { CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found" },
    { CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered" },
    { CUDA_ERROR_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure" },
    { CUDA_ERROR_UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error" },
};

static CUresult describe(CUresult result, const char **name, const char **text)
{
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        if (errors[i].code != result) continue;
        if (name) *name = errors[i].name;
        if (text) *text = errors[i].text;
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorName(CUresult result, const char **name)
{
    BEGIN(FAKE_ANYTIME | FAKE_ASKS);
    return fake_end(describe(result, name, NULL));
}

CUresult cuGetErrorString(CUresult result, const char **text)
{
    BEGIN(FAKE_ANYTIME | FAKE_ASKS);
    return fake_end(describe(result, NULL, text));
}

/* ---- cards and contexts ---- */

CUresult cuDeviceGetCount(int *count)
{
    BEGIN(FAKE_ASKS);
    *count = fake_settings.cards;
    return fake_end(late);
}

static int is_card(int card)
{
    if (card >= 0 && card < fake_settings.cards) return 1;
    fake_fault("there is no card %d", card);
    return 0;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    BEGIN(FAKE_ASKS);
    if (!is_card(ordinal)) return fake_end(CUDA_ERROR_INVALID_DEVICE);
    *device = ordinal;
    return fake_end(late);
}

CUresult cuDeviceGetName(char *name, int bytes, CUdevice device)
{
    BEGIN(FAKE_ASKS);
    if (!is_card(device)) return fake_end(CUDA_ERROR_INVALID_DEVICE);
    snprintf(name, (size_t)bytes, "Fake card %d", device);
    return fake_end(late);
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute which, CUdevice device)
{
    BEGIN(FAKE_ASKS);
    if (!is_card(device)) return fake_end(CUDA_ERROR_INVALID_DEVICE);
    if (device == fake_settings.broken_card) return fake_end(CUDA_ERROR_UNKNOWN);
    switch (which) {
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = 3; break;
    case CU_DEVICE_ATTRIBUTE_INTEGRATED: *value = 0; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_MODE:
        *value = fake_settings.prohibited ? CU_COMPUTEMODE_PROHIBITED : 0;
        break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = fake_settings.architecture / 10; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = fake_settings.architecture % 10; break;
    default: WRONG(CUDA_ERROR_INVALID_VALUE, "attribute %d is not known here", which);
    }
    return fake_end(late);
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    BEGIN(FAKE_ASKS);
    if (!is_card(device)) return fake_end(CUDA_ERROR_INVALID_DEVICE);
    *bytes = fake_settings.memory_bytes;
    return fake_end(late);
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    BEGIN(FAKE_WAITS);
    if (!is_card(device)) return fake_end(CUDA_ERROR_INVALID_DEVICE);
    fake_contexts[device].holders++;
    *context = &fake_contexts[device];
    return fake_end(late);
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    BEGIN(FAKE_ENDS);
    if (!is_card(device)) return fake_end(CUDA_ERROR_INVALID_DEVICE);
    if (!fake_contexts[device].holders)
        WRONG(CUDA_ERROR_INVALID_CONTEXT, "the context of card %d is released too often", device);
    if (!--fake_contexts[device].holders) fake_end_context(&fake_contexts[device]);
    return fake_end(late);
}

CUresult cuCtxPushCurrent_v2(CUcontext context)
{
    BEGIN(FAKE_ASKS);
    if (!context || !context->holders)
        WRONG(CUDA_ERROR_INVALID_CONTEXT, "cuCtxPushCurrent: nobody holds the context");
    return fake_end(fake_push(context) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT);
}

CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
    BEGIN(FAKE_ENDS);
    *context = fake_pop();
    if (!*context) WRONG(CUDA_ERROR_INVALID_CONTEXT, "cuCtxPopCurrent: nothing was pushed");
    return fake_end(late);
}

CUresult cuCtxSynchronize(void)
{
    BEGIN(FAKE_CONTEXT | FAKE_WAITS | FAKE_UNHEARD);
    fake_run_all(fake_current());
    return fake_end(fake_lost());
}

/* ---- memory ---- */

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
    BEGIN(FAKE_CONTEXT | FAKE_ASKS);
    *total_bytes = fake_settings.memory_bytes;
    *free_bytes = *total_bytes - fake_memory_used(fake_current()->card);
    return fake_end(CUDA_SUCCESS);
}

CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes)
{
    BEGIN(FAKE_CONTEXT);
    if (!bytes) WRONG(CUDA_ERROR_INVALID_VALUE, "cuMemAlloc of 0 bytes");
    if (bytes > fake_settings.memory_bytes - fake_memory_used(fake_current()->card))
        return fake_end(CUDA_ERROR_OUT_OF_MEMORY);
    void *place = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    unsigned char *really = malloc(bytes);
    if (place == MAP_FAILED || !really) abort();
    memset(really, 0xcd, bytes);
    fake_object *memory = fake_add(FAKE_MEMORY);
    memory->address = (uintptr_t)place;
    memory->bytes = really;
    memory->size = bytes;
    *address = memory->address;
    return fake_end(late);
}

/* As the real one, waits for the card first. */
CUresult cuMemFree_v2(CUdeviceptr address)
{
    BEGIN(FAKE_CONTEXT | FAKE_ENDS);
    fake_object *memory = fake_memory_at(address, FAKE_MEMORY);
    if (!memory || memory->address != address)
        WRONG(CUDA_ERROR_INVALID_VALUE, "cuMemFree of %#llx, which no cuMemAlloc gave", address);
    if (!memory->alive) WRONG(CUDA_ERROR_INVALID_VALUE, "cuMemFree a second time");
    if (memory->context != fake_current()) WRONG(CUDA_ERROR_INVALID_VALUE, "cuMemFree in another context");
    fake_run_all(fake_current());
    fake_end_object(memory);
    return fake_end(late);
}

CUresult cuMemHostAlloc(void **address, size_t bytes, unsigned flags)
{
    BEGIN(FAKE_CONTEXT);
    if (!bytes || flags > CU_MEMHOSTALLOC_PORTABLE)
        WRONG(CUDA_ERROR_INVALID_VALUE, "cuMemHostAlloc of %zu bytes with flags %u", bytes, flags);
    if (bytes > fake_settings.memory_bytes) return fake_end(CUDA_ERROR_OUT_OF_MEMORY);
    fake_object *memory = fake_add(FAKE_PINNED);
    memory->bytes = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    if (!memory->bytes) abort();
    memory->address = (uintptr_t)memory->bytes;
    memory->size = bytes;
    *address = memory->bytes;
    return fake_end(late);
}

CUresult cuMemFreeHost(void *address)
{
    BEGIN(FAKE_CONTEXT | FAKE_ENDS);
    fake_object *memory = fake_memory_at((uintptr_t)address, FAKE_PINNED);
    if (!memory || memory->address != (uintptr_t)address)
        WRONG(CUDA_ERROR_INVALID_VALUE,
              "cuMemFreeHost of %p, which no cuMemHostAlloc gave or which was freed", address);
    if (fake_is_needed(memory)) fake_fault("cuMemFreeHost while a copy still uses it");
    fake_end_object(memory);
    return fake_end(late);
}

/* 1: all of the range is pinned; 0: nothing of it is. */
static int is_pinned(uintptr_t address, size_t bytes, const char *call)
{
    const fake_object *memory = fake_memory_at(address, FAKE_PINNED);
    if (!memory) return 0;
    if (bytes > memory->size - (address - memory->address))
        fake_fault("%s: %zu bytes leave their pinned memory of %zu", call, bytes, memory->size);
    return 1;
}

/* Host memory that is not pinned is read before the call returns, and has been written when it returns. */
static CUresult copy(uintptr_t to, uintptr_t from, size_t bytes, int up, int down, CUstream handle,
                     const char *call)
{
    fake_object *stream = fake_stream(handle, call);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if ((up && !fake_reach(to, bytes, call)) || (down && !fake_reach(from, bytes, call)))
        return CUDA_ERROR_INVALID_VALUE;
    if ((!up && fake_memory_at(to, FAKE_MEMORY)) || (!down && fake_memory_at(from, FAKE_MEMORY))) {
        fake_fault("%s: an address of the card where one of the host is wanted", call);
        return CUDA_ERROR_INVALID_VALUE;
    }
    fake_work work = { .kind = FAKE_COPY, .to = to, .from = from, .bytes = bytes };
    const int pinned = up == down || is_pinned(up ? from : to, bytes, call);
    if (up && !pinned) {
        work.staged = malloc(bytes);
        if (!work.staged) abort();
        memcpy(work.staged, (void *)from, bytes);
    }
    fake_give(stream, &work);
    if ((!up && !down) || !(up || pinned)) fake_run((fake_point){ stream, stream->given });
    return fake_lost();
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    BEGIN(FAKE_CONTEXT);
    return fake_end(copy(to, from, bytes, fake_memory_at(to, FAKE_MEMORY) != NULL,
                         fake_memory_at(from, FAKE_MEMORY) != NULL, stream, __func__));
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
    BEGIN(FAKE_CONTEXT);
    return fake_end(copy(to, (uintptr_t)from, bytes, 1, 0, stream, __func__));
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    BEGIN(FAKE_CONTEXT);
    return fake_end(copy((uintptr_t)to, from, bytes, 0, 1, stream, __func__));
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    BEGIN(FAKE_CONTEXT);
    return fake_end(copy(to, from, bytes, 1, 1, stream, __func__));
}

/* ---- streams ---- */

CUresult cuStreamCreate(CUstream *stream, unsigned flags)
{
    BEGIN(FAKE_CONTEXT);
    fake_object *object = fake_add(FAKE_STREAM);
    object->flags = flags;
    *stream = (CUstream)object;
    return fake_end(late);
}

CUresult cuStreamDestroy_v2(CUstream stream)
{
    BEGIN(FAKE_CONTEXT | FAKE_ENDS);
    fake_object *object = fake_find(stream, FAKE_STREAM, __func__);
    if (!object) return fake_end(CUDA_ERROR_INVALID_HANDLE);
    fake_run((fake_point){ object, object->given });
    fake_end_object(object);
    return fake_end(late);
}

CUresult cuStreamGetCtx(CUstream stream, CUcontext *context)
{
    BEGIN(FAKE_CONTEXT);
    fake_object *object = fake_stream(stream, __func__);
    if (!object) return fake_end(CUDA_ERROR_INVALID_HANDLE);
    *context = object->context;
    return fake_end(late);
}

CUresult cuStreamSynchronize(CUstream stream)
{
    BEGIN(FAKE_CONTEXT | FAKE_WAITS | FAKE_UNHEARD);
    fake_object *object = fake_stream(stream, __func__);
    if (!object) return fake_end(CUDA_ERROR_INVALID_HANDLE);
    fake_run((fake_point){ object, object->given });
    return fake_end(fake_lost());
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
    BEGIN(FAKE_CONTEXT);
    fake_object *queue = fake_stream(stream, __func__), *object = fake_find(event, FAKE_EVENT, __func__);
    if (!queue || !object) return fake_end(CUDA_ERROR_INVALID_HANDLE);
    if (flags) WRONG(CUDA_ERROR_INVALID_VALUE, "cuStreamWaitEvent with flags %u", flags);
    /* Its last recording as of now; one that was never recorded holds nothing up. */
    if (object->recorded.stream)
        fake_give(queue, &(fake_work){ .kind = FAKE_WAIT, .until = object->recorded });
    return fake_end(late);
}

/* ---- events ---- */

CUresult cuEventCreate(CUevent *event, unsigned flags)
{
    BEGIN(FAKE_CONTEXT);
    fake_object *object = fake_add(FAKE_EVENT);
    object->flags = flags;
    *event = (CUevent)object;
    return fake_end(late);
}

CUresult cuEventDestroy_v2(CUevent event)
{
    BEGIN(FAKE_CONTEXT | FAKE_ENDS);
    fake_object *object = fake_find(event, FAKE_EVENT, __func__);
    if (!object) return fake_end(CUDA_ERROR_INVALID_HANDLE);
    fake_end_object(object);
    return fake_end(late);
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
    BEGIN(FAKE_CONTEXT);
    fake_object *object = fake_find(event, FAKE_EVENT, __func__), *queue = fake_stream(stream, __func__);
    if (!object || !queue) return fake_end(CUDA_ERROR_INVALID_HANDLE);
    if (object->context != queue->context)
        WRONG(CUDA_ERROR_INVALID_HANDLE, "cuEventRecord: event and stream are of two contexts");
    object->recorded = (fake_point){ queue, queue->given + 1 };
    fake_give(queue, &(fake_work){ .kind = FAKE_RECORD, .object = object });
    return fake_end(late);
}

CUresult cuEventSynchronize(CUevent event)
{
    BEGIN(FAKE_CONTEXT | FAKE_WAITS);
    fake_object *object = fake_find(event, FAKE_EVENT, __func__);
    if (!object) return fake_end(CUDA_ERROR_INVALID_HANDLE);
    if (!object->recorded.stream) fake_fault("cuEventSynchronize: the event was never recorded");
    fake_run(object->recorded);
    return fake_end(fake_lost());
}

/* Asking brings the stream on by one: whoever asks again and again gets there. */
CUresult cuEventQuery(CUevent event)
{
    BEGIN(FAKE_CONTEXT | FAKE_WAITS);
    fake_object *object = fake_find(event, FAKE_EVENT, __func__);
    if (!object) return fake_end(CUDA_ERROR_INVALID_HANDLE);
    if (fake_is_done(object->recorded)) return fake_end(fake_lost());
    fake_run_one(object->recorded.stream);
    return fake_end(CUDA_ERROR_NOT_READY);
}

#ifndef FAKE_WITHOUT_TIMES /* a driver that lacks a function */
CUresult cuEventElapsedTime(float *ms, CUevent start, CUevent end)
{
    BEGIN(FAKE_CONTEXT);
    const fake_object *a = fake_find(start, FAKE_EVENT, __func__), *b = fake_find(end, FAKE_EVENT, __func__);
    if (!a || !b) return fake_end(CUDA_ERROR_INVALID_HANDLE);
    if (!a->recorded.stream || !b->recorded.stream)
        WRONG(CUDA_ERROR_INVALID_HANDLE, "cuEventElapsedTime: an event was never recorded");
    if ((a->flags | b->flags) & CU_EVENT_DISABLE_TIMING)
        WRONG(CUDA_ERROR_INVALID_HANDLE, "cuEventElapsedTime: an event keeps no time");
    if (!fake_is_done(a->recorded) || !fake_is_done(b->recorded)) return fake_end(CUDA_ERROR_NOT_READY);
    if (a->time_ns > b->time_ns) fake_fault("cuEventElapsedTime: the first event is the later one");
    *ms = (float)((double)(int64_t)(b->time_ns - a->time_ns) / 1e6);
    return fake_end(late);
}
#endif

/* ---- modules ---- */

/* What the compiler in the driver has against a text; NULL = nothing. */
static const char *objection(const char *text, CUresult *code)
{
    const char *version = strstr(text, ".version "), *target = strstr(text, ".target sm_");
    int major = 0, minor = 0;
    *code = CUDA_ERROR_INVALID_PTX;
    if (strstr(text, "BROKEN")) return "ptxas application ptx input, line 1; fatal: BROKEN";
    if (!version && strncmp(text, "// fake PTX", 11)) return "ptxas fatal: no .version";
    if (!version) return NULL;
    *code = CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
    sscanf(version, ".version %d.%d", &major, &minor);
    if (major * 10 + minor > fake_settings.ptx_max) return "ptxas fatal: unsupported .version";
    *code = CUDA_ERROR_NO_BINARY_FOR_GPU;
    if (target && atoi(target + 11) > fake_settings.architecture)
        return "ptxas fatal: .target of a newer card";
    return NULL;
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned n_options, CUjit_option *options,
                            void **values)
{
    BEGIN(FAKE_CONTEXT);
    CUresult code;
    const char *says = objection(image, &code);
    char *log = NULL;
    size_t room = 0;
    for (unsigned i = 0; i < n_options; i++) {
        if (options[i] == CU_JIT_ERROR_LOG_BUFFER) log = values[i];
        if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES) room = (size_t)values[i];
    }
    if (says) {
        if (log && room) snprintf(log, room, "%s", says);
        return fake_end(code);
    }
    fake_object *object = fake_add(FAKE_MODULE);
    object->text = strdup(image);
    *module = (CUmodule)object;
    return fake_end(late);
}

CUresult cuModuleUnload(CUmodule module)
{
    BEGIN(FAKE_CONTEXT | FAKE_ENDS);
    fake_object *object = fake_find(module, FAKE_MODULE, __func__);
    if (!object) return fake_end(CUDA_ERROR_INVALID_HANDLE);
    if (fake_is_needed(object)) fake_fault("cuModuleUnload while a kernel of it has still to run");
    for (fake_object *function = fake_objects; function; function = function->next)
        if (function->kind == FAKE_FUNCTION && function->module == object) function->alive = 0;
    fake_end_object(object);
    return fake_end(late);
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    BEGIN(FAKE_CONTEXT);
    fake_object *object = fake_find(module, FAKE_MODULE, __func__);
    if (!object) return fake_end(CUDA_ERROR_INVALID_HANDLE);
    uint32_t kernel = 0;
    while (kernel < stk_augment_program.n_kernels && strcmp(stk_augment_program.kernels[kernel], name))
        kernel++;
    if (kernel == stk_augment_program.n_kernels || !strstr(object->text, name))
        return fake_end(CUDA_ERROR_NOT_FOUND);
    fake_object *found = fake_add(FAKE_FUNCTION);
    found->module = object;
    found->kernel = kernel;
    *function = (CUfunction)found;
    return fake_end(late);
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                        CUstream stream, void **arguments, void **extra)
{
    BEGIN(FAKE_CONTEXT);
    fake_object *kernel = fake_find(function, FAKE_FUNCTION, __func__),
                *queue = fake_stream(stream, __func__);
    if (!kernel || !queue) return fake_end(CUDA_ERROR_INVALID_HANDLE);
    if (!grid_x || !grid_y || !grid_z || grid_y > 65535 || grid_z > 65535 || !block_x || !block_y ||
        !block_z || block_x * block_y * block_z > 1024 || block_z > 64 || extra)
        WRONG(CUDA_ERROR_INVALID_VALUE, "cuLaunchKernel: blocks %u x %u x %u of %u x %u x %u", grid_x, grid_y,
              grid_z, block_x, block_y, block_z);
    fake_work work = { .kind = FAKE_LAUNCH,
                       .object = kernel,
                       .items = { grid_x * block_x, grid_y * block_y, grid_z * block_z } };
    const int last = stk_augment_program.arguments[kernel->kernel] - 1;
    for (int i = 0; i < last; i++) {
        memcpy(&work.blocks[i], arguments[i], sizeof work.blocks[i]);
        if (!fake_reach(work.blocks[i], 1, __func__)) return fake_end(CUDA_ERROR_INVALID_VALUE);
    }
    memcpy(&work.shape, arguments[last], sizeof work.shape);
    fake_give(queue, &work);
    return fake_end(late);
}
