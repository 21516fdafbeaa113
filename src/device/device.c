/* SPDX-License-Identifier: Apache-2.0
 *
 * What all kinds have in common: arguments are checked here and nowhere else, the first failure of a device
 * is kept, its memory is counted.
 */

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/device/device.h"

/* ---- the first failure ---- */

/* A call on its way into a kind, which may rely on an err. */
typedef struct call {
    stoke_device *device;
    stoke_error *err;
    int entered; /* what entering came to */
    stoke_error unwanted;
} call;

/* Refuses when the device is lost. */
static int begin(call *c, stoke_device *device, stoke_error *err)
{
    c->device = device;
    c->err = err ? err : &c->unwanted;
    if (!atomic_load(&device->is_lost)) return STOKE_OK;
    *c->err = device->lost;
    return STOKE_E_DEVICE;
}

/* Keeps the first loss. One that came second tells the first, which is the cause. */
static int end(call *c, int r)
{
    if (r != STOKE_E_DEVICE) return r;
    stoke_device *device = c->device;
    pthread_mutex_lock(&device->lock);
    if (!atomic_load(&device->is_lost)) {
        device->lost = *c->err;
        atomic_store(&device->is_lost, 1);
    }
    *c->err = device->lost;
    pthread_mutex_unlock(&device->lock);
    return r;
}

static int enter(stoke_device *device, stoke_error *err)
{
    return device->fns->enter ? device->fns->enter(device, err) : STOKE_OK;
}

static int leave(stoke_device *device, int r)
{
    if (device->fns->leave) device->fns->leave(device);
    return r;
}

/* A function of the kind, between enter and leave. */
#define WITHIN(c, work)                                                                                      \
    end(c, ((c)->entered = enter((c)->device, (c)->err)) ? (c)->entered : leave((c)->device, work))

/* ---- objects of a kind ---- */

static stoke_device *device_of(const void *object)
{
    return *(stoke_device *const *)object;
}

/* Begins a call that makes *out; on failure it is NULL. */
static int begin_object(call *c, void **out, stoke_device *device, size_t bytes, const char *what,
                        stoke_error *err)
{
    *out = NULL;
    const int r = begin(c, device, err);
    if (r) return r;
    *out = stk_calloc(1, bytes);
    if (!*out) return stk_fail(c->err, STOKE_E_NOMEM, "%s: no memory for %s", device->info.name, what);
    *(stoke_device **)*out = device;
    return STOKE_OK;
}

static int end_object(void **out, int r)
{
    if (!r) return STOKE_OK;
    stk_free(*out);
    *out = NULL;
    return r;
}

/* Makes an object by a function of its kind, NULL: as it is will do. */
#define CREATE(c, out, function)                                                                             \
    end_object(                                                                                              \
        (void **)(out),                                                                                      \
        WITHIN(c, (c)->device->fns->function ? (c)->device->fns->function(*(out), (c)->err) : STOKE_OK))

/* Destroys an object by a function of its kind, NULL: which has none, and frees it. */
#define DESTROY(object, function)                                                                            \
    do {                                                                                                     \
        if (!*(object)) return;                                                                              \
        stoke_device *device_ = device_of(*(object));                                                        \
        if (device_->fns->function && !enter(device_, NULL)) {                                               \
            device_->fns->function(*(object));                                                               \
            leave(device_, STOKE_OK);                                                                        \
        }                                                                                                    \
        stk_free(*(object));                                                                                 \
        *(object) = NULL;                                                                                    \
    } while (0)

/* ---- memory ---- */

/* Takes from the limit what a block will take from the device. */
static int reserve(stoke_device *device, uint64_t bytes, stoke_error *err)
{
    pthread_mutex_lock(&device->lock);
    const uint64_t taken = device->taken, limit = device->limit;
    const int fits = !limit || (taken <= limit && bytes <= limit - taken);
    if (fits) device->taken += bytes;
    pthread_mutex_unlock(&device->lock);
    if (fits) return STOKE_OK;
    const int small = limit < 10000000; /* KB tell more than 0.0 MB */
    const double unit = small ? 1e3 : 1e6;
    const char *name = small ? "KB" : "MB";
    return stk_fail(err, STOKE_E_NOMEM,
                    "%s: a block of device memory needs %.1f %s, %.1f of %.1f %s are taken by this process: "
                    "lower batch, size or depth, or raise memory_limit",
                    device->info.name, (double)bytes / unit, name, (double)taken / unit, (double)limit / unit,
                    name);
}

static void give_back(stoke_device *device, uint64_t bytes)
{
    pthread_mutex_lock(&device->lock);
    device->taken -= bytes;
    pthread_mutex_unlock(&device->lock);
}

int stk_block_pageable(stk_device_block *block, stoke_error *err)
{
    block->host = stk_alloc_pages(block->bytes);
    if (block->host) return STOKE_OK;
    return stk_fail(err, STOKE_E_NOMEM, "%s: no memory for a block of %.1f MiB: lower batch, size or depth",
                    block->device->info.name, STK_MIB(block->bytes));
}

int stk_block_create(stk_device_block *block, stoke_device *device, stk_device_memory_kind kind, size_t bytes,
                     stoke_error *err)
{
    call c;
    *block = (stk_device_block){ 0 };
    int r = begin(&c, device, err);
    if (r) return r;
    if (!bytes || kind < STK_MEMORY_PAGEABLE || kind > STK_MEMORY_DEVICE)
        return stk_fail(c.err, STOKE_E_INVALID, "%s: a block has at least one byte, of memory that there is",
                        device->info.name);
    if (kind == STK_MEMORY_DEVICE && (r = reserve(device, bytes, c.err))) return r;
    *block = (stk_device_block){ .device = device, .kind = kind, .bytes = bytes };
    r = WITHIN(&c, kind == STK_MEMORY_PAGEABLE ? stk_block_pageable(block, c.err)
                                               : device->fns->block_create(block, c.err));
    if (!r) return STOKE_OK;
    if (kind == STK_MEMORY_DEVICE) give_back(device, bytes);
    *block = (stk_device_block){ 0 };
    return r;
}

void stk_block_destroy(stk_device_block *block)
{
    stoke_device *device = block->device;
    if (!device) return;
    if (block->kind == STK_MEMORY_PAGEABLE) {
        stk_free_pages(block->host, block->bytes);
    } else if (!enter(device, NULL)) {
        device->fns->block_destroy(block);
        leave(device, STOKE_OK);
    }
    if (block->kind == STK_MEMORY_DEVICE) give_back(device, block->bytes);
    *block = (stk_device_block){ 0 };
}

int stoke_device_memory(stoke_device *device, uint64_t *free_bytes, uint64_t *total_bytes, stoke_error *err)
{
    call c;
    *free_bytes = *total_bytes = 0;
    int r = begin(&c, device, err);
    if (r || (r = WITHIN(&c, device->fns->memory(device, free_bytes, total_bytes, c.err)))) return r;
    pthread_mutex_lock(&device->lock);
    const uint64_t limit = device->limit, left = limit > device->taken ? limit - device->taken : 0;
    pthread_mutex_unlock(&device->lock);
    if (!limit) return STOKE_OK;
    if (!*total_bytes || *total_bytes > limit) *total_bytes = limit;
    if (!*free_bytes || *free_bytes > left) *free_bytes = left;
    return STOKE_OK;
}

/* ---- streams ---- */

static int another_device(const stoke_device *device, const char *what, stoke_error *err)
{
    return stk_fail(err, STOKE_E_INVALID, "%s: %s belongs to another device", device->info.name, what);
}

int stk_stream_create(stk_device_stream **out, stoke_device *device, stoke_error *err)
{
    call c;
    const int r = begin_object(&c, (void **)out, device, device->fns->stream_bytes, "a stream", err);
    return r ? r : CREATE(&c, out, stream_create);
}

int stk_stream_wrap(stk_device_stream **out, stoke_device *device, void *native, stoke_error *err)
{
    call c;
    int r = begin_object(&c, (void **)out, device, device->fns->stream_bytes, "a stream", err);
    if (r) return r;
    if (device->fns->stream_wrap)
        r = WITHIN(&c, device->fns->stream_wrap(*out, native, c.err));
    else
        r = stk_fail(c.err, STOKE_E_UNSUPPORTED,
                     "%s: streams of the caller are possible with cuda only: leave consumer_stream NULL",
                     device->info.name);
    return end_object((void **)out, r);
}

void stk_stream_destroy(stk_device_stream **stream)
{
    DESTROY(stream, stream_destroy);
}

int stk_stream_finish(stk_device_stream *stream, stoke_error *err)
{
    call c;
    const int r = begin(&c, device_of(stream), err);
    return r ? r : WITHIN(&c, c.device->fns->stream_finish(stream, c.err));
}

int stk_stream_wait(stk_device_stream *stream, stk_device_event *event, stoke_error *err)
{
    call c;
    const int r = begin(&c, device_of(stream), err);
    if (r) return r;
    if (device_of(event) != c.device) return another_device(c.device, "the event to wait for", c.err);
    return WITHIN(&c, c.device->fns->stream_wait(stream, event, c.err));
}

/* One end of a copy: lies within its block, and the device can get at it. */
static int check_end(const stoke_device *device, const char *which, const stk_device_block *block, size_t at,
                     size_t bytes, stoke_error *err)
{
    if (block->device != device) return another_device(device, which, err);
    if (block->kind != STK_MEMORY_DEVICE && !block->host)
        return stk_fail(err, STOKE_E_INVALID, "%s: %s has no address on the host", device->info.name, which);
    if (at > block->bytes || bytes > block->bytes - at)
        return stk_fail(err, STOKE_E_INVALID, "%s: bytes %zu to %zu are outside %s, which has %zu",
                        device->info.name, at, at + bytes, which, block->bytes);
    return STOKE_OK;
}

static int overlap(const stk_device_block *to, size_t to_at, const stk_device_block *from, size_t from_at,
                   size_t bytes)
{
    const int same = to->host ? to->host == from->host : to->handle && to->handle == from->handle;
    if (!same) return 0;
    return to_at < from_at ? from_at - to_at < bytes : to_at - from_at < bytes;
}

int stk_stream_copy(stk_device_stream *stream, const stk_device_block *to, size_t to_at,
                    const stk_device_block *from, size_t from_at, size_t bytes, stoke_error *err)
{
    call c;
    int r = begin(&c, device_of(stream), err);
    if (!r) r = check_end(c.device, "the block copied to", to, to_at, bytes, c.err);
    if (!r) r = check_end(c.device, "the block copied from", from, from_at, bytes, c.err);
    if (r || !bytes) return r;
    if (overlap(to, to_at, from, from_at, bytes))
        return stk_fail(c.err, STOKE_E_INVALID, "%s: a copy of %zu bytes overlaps what it reads",
                        c.device->info.name, bytes);
    return WITHIN(&c, c.device->fns->copy(stream, to, to_at, from, from_at, bytes, c.err));
}

/* How the modules of every kind begin. */
typedef struct module_head {
    stoke_device *device;
    const stk_program *program;
} module_head;

static int check_launch(const stoke_device *device, const module_head *module,
                        const stk_device_launch *launch, stoke_error *err)
{
    if (module->device != device) return another_device(device, "the program", err);
    const stk_program *program = module->program;
    if (launch->kernel >= program->n_kernels)
        return stk_fail(err, STOKE_E_INVALID, "%s: program %s has %u kernels, there is no number %u",
                        device->info.name, program->name, program->n_kernels, launch->kernel);
    const char *kernel = program->kernels[launch->kernel];
    if (!launch->grid[0] || !launch->grid[1] || !launch->grid[2])
        return stk_fail(err, STOKE_E_INVALID, "%s: kernel %s has nothing to do: its grid is %u x %u x %u",
                        device->info.name, kernel, launch->grid[0], launch->grid[1], launch->grid[2]);
    const uint32_t wanted = program->arguments[launch->kernel];
    if (launch->n_arguments != wanted || wanted > STK_ARGUMENTS_MAX)
        return stk_fail(err, STOKE_E_INVALID, "%s: kernel %s takes %u arguments, not %u", device->info.name,
                        kernel, wanted, launch->n_arguments);
    /* Blocks first, all of the device, then one value. */
    for (uint32_t i = 0; i < launch->n_arguments; i++) {
        const stk_device_argument *argument = &launch->arguments[i];
        const int last = i + 1 == launch->n_arguments;
        if (last != !argument->block)
            return stk_fail(err, STOKE_E_INVALID, "%s: argument %u of kernel %s must be %s",
                            device->info.name, i, kernel, last ? "a value" : "a block");
        if (last && (!argument->value || !argument->bytes || argument->bytes > STK_VALUE_MAX))
            return stk_fail(err, STOKE_E_INVALID, "%s: the value for kernel %s has %zu bytes, not 1 to %d",
                            device->info.name, kernel, argument->bytes, STK_VALUE_MAX);
        if (last) continue;
        if (argument->block->device != device) return another_device(device, "a kernel's block", err);
        if (argument->block->kind != STK_MEMORY_DEVICE)
            return stk_fail(err, STOKE_E_INVALID, "%s: argument %u of kernel %s is not in device memory",
                            device->info.name, i, kernel);
    }
    return STOKE_OK;
}

int stk_stream_launch(stk_device_stream *stream, stk_device_module *module, const stk_device_launch *launch,
                      stoke_error *err)
{
    call c;
    int r = begin(&c, device_of(stream), err);
    if (!r) r = check_launch(c.device, (const module_head *)module, launch, c.err);
    return r ? r : WITHIN(&c, c.device->fns->launch(stream, module, launch, c.err));
}

int stk_stream_occupy(stk_device_stream *stream, uint64_t ns, stoke_error *err)
{
    call c;
    const int r = begin(&c, device_of(stream), err);
    if (r) return r;
    if (!c.device->fns->occupy)
        return stk_fail(c.err, STOKE_E_UNSUPPORTED, "%s: cannot be kept busy without computing",
                        c.device->info.name);
    return WITHIN(&c, c.device->fns->occupy(stream, ns, c.err));
}

/* ---- events ---- */

int stk_event_create(stk_device_event **out, stoke_device *device, stoke_error *err)
{
    call c;
    const int r = begin_object(&c, (void **)out, device, device->fns->event_bytes, "an event", err);
    return r ? r : CREATE(&c, out, event_create);
}

void stk_event_destroy(stk_device_event **event)
{
    DESTROY(event, event_destroy);
}

int stk_event_record(stk_device_event *event, stk_device_stream *stream, stoke_error *err)
{
    call c;
    const int r = begin(&c, device_of(event), err);
    if (r) return r;
    if (device_of(stream) != c.device) return another_device(c.device, "the stream of an event", c.err);
    return WITHIN(&c, c.device->fns->event_record(event, stream, c.err));
}

int stk_event_finish(stk_device_event *event, stoke_error *err)
{
    call c;
    const int r = begin(&c, device_of(event), err);
    return r ? r : WITHIN(&c, c.device->fns->event_finish(event, c.err));
}

int stk_event_done(stk_device_event *event, int *done, stoke_error *err)
{
    call c;
    *done = 0;
    const int r = begin(&c, device_of(event), err);
    return r ? r : WITHIN(&c, c.device->fns->event_done(event, done, c.err));
}

int stk_event_time(stk_device_event *event, uint64_t *ns, stoke_error *err)
{
    call c;
    *ns = 0;
    const int r = begin(&c, device_of(event), err);
    return r ? r : WITHIN(&c, c.device->fns->event_time(event, ns, c.err));
}

/* ---- programs ---- */

int stk_module_create(stk_device_module **out, stoke_device *device, const stk_program *program,
                      stoke_error *err)
{
    call c;
    const int r = begin_object(&c, (void **)out, device, device->fns->module_bytes, "a program", err);
    if (r) return r;
    ((module_head *)*out)->program = program;
    return CREATE(&c, out, module_create);
}

void stk_module_destroy(stk_device_module **module)
{
    DESTROY(module, module_destroy);
}
