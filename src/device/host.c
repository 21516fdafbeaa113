/* SPDX-License-Identifier: Apache-2.0
 *
 * The host as a device: always there, and what the others are compared with. A stream is a thread with a
 * queue of work; kernels are C; pinned memory is mlocked where the system allows it.
 *
 * One lock and one condition for the whole device: it has three or four streams, whose pieces of work take
 * milliseconds. Work only ever waits for work that was asked for before it, so nothing can wait in a circle.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <stoke/tools/machine.h>

#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/base/retry.h"
#include "src/device/device.h"

/* Work ahead of a stream before whoever asks for more has to wait: six batches of ten launches. */
enum { QUEUE = 64 };

typedef struct host_device {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* anything below, of any stream or event */
} host_device;

/* Records of an event are numbered, and pass in that order even when they are on two streams: so `passed` is
 * all there is to know. */
struct stk_device_event {
    stoke_device *device;
    uint64_t recorded, passed; /* how many */
    uint64_t time_ns;          /* of the last one that passed */
    uint32_t queued;           /* pieces of work that know the event */
};

typedef enum work_kind { WORK_COPY, WORK_LAUNCH, WORK_OCCUPY, WORK_RECORD, WORK_WAIT, WORK_END } work_kind;

typedef struct work {
    work_kind kind;
    void *to; /* COPY */
    const void *from;
    size_t bytes;
    uint64_t ns; /* OCCUPY */
    stk_device_event *event;
    uint64_t number;         /* RECORD, WAIT: of the record */
    stk_host_kernel *kernel; /* LAUNCH */
    uint32_t grid[3];
    void *arguments[STK_ARGUMENTS_MAX];
    _Alignas(16) unsigned char value[STK_VALUE_MAX];
} work;

struct stk_device_stream {
    stoke_device *device;
    pthread_t thread;
    uint64_t asked, done; /* pieces of work; work n lies in queue[n % QUEUE] */
    work queue[QUEUE];
};

struct stk_device_module {
    stoke_device *device;
    const stk_program *program;
};

static host_device *own(const stoke_device *device)
{
    return device->own;
}

static int enter(stoke_device *device, stoke_error *err)
{
    pthread_mutex_lock(&own(device)->lock);
    return STOKE_OK;
}

static void leave(stoke_device *device)
{
    pthread_mutex_unlock(&own(device)->lock);
}

/* Lets go of the lock until something has changed. */
static void await_change(const stoke_device *device)
{
    pthread_cond_wait(&own(device)->changed, &own(device)->lock);
}

/* ---- a stream's thread ---- */

/* Work that is about an event, under the lock. */
static void pass_event(const work *w)
{
    stk_device_event *event = w->event;
    const uint64_t before = w->kind == WORK_RECORD ? w->number - 1 : w->number;
    while (event->passed < before) await_change(event->device);
    if (w->kind == WORK_RECORD) {
        event->passed = w->number;
        event->time_ns = stk_now_ns();
    }
    event->queued--;
}

static void *stream_main(void *argument)
{
    static const uint32_t first[3] = { 0, 0, 0 };
    stk_device_stream *stream = argument;
    host_device *host = own(stream->device);
    pthread_mutex_lock(&host->lock);
    for (;;) {
        while (stream->done == stream->asked) await_change(stream->device);
        work *w = &stream->queue[stream->done % QUEUE];
        if (w->kind == WORK_END) break;
        if (w->event) {
            pass_event(w);
        } else {
            pthread_mutex_unlock(&host->lock);
            if (w->kind == WORK_COPY)
                memcpy(w->to, w->from, w->bytes);
            else if (w->kind == WORK_LAUNCH)
                w->kernel(w->arguments, first, w->grid);
            else if (w->kind == WORK_OCCUPY)
                stk_sleep_until(stk_now_ns() + w->ns);
            pthread_mutex_lock(&host->lock);
        }
        stream->done++;
        pthread_cond_broadcast(&host->changed);
    }
    pthread_mutex_unlock(&host->lock);
    return NULL;
}

/* A free place at the end of the queue; `put` hands it in. */
static work *place(stk_device_stream *stream)
{
    while (stream->asked - stream->done == QUEUE) await_change(stream->device);
    work *w = &stream->queue[stream->asked % QUEUE];
    w->event = NULL;
    return w;
}

static int put(stk_device_stream *stream)
{
    stream->asked++;
    pthread_cond_broadcast(&own(stream->device)->changed);
    return STOKE_OK;
}

static int stream_create(stk_device_stream *stream, stoke_error *err)
{
    const int failed = stk_thread_start(&stream->thread, stream_main, stream);
    if (!failed) return STOKE_OK;
    return stk_fail_errno(err, STOKE_E_NOMEM, failed, "host: cannot start the thread of a stream");
}

static void stream_destroy(stk_device_stream *stream)
{
    place(stream)->kind = WORK_END;
    put(stream);
    leave(stream->device);
    pthread_join(stream->thread, NULL);
    enter(stream->device, NULL);
}

static int stream_finish(stk_device_stream *stream, stoke_error *err)
{
    const uint64_t last = stream->asked;
    while (stream->done < last) await_change(stream->device);
    return STOKE_OK;
}

static int occupy(stk_device_stream *stream, uint64_t ns, stoke_error *err)
{
    work *w = place(stream);
    w->kind = WORK_OCCUPY;
    w->ns = ns;
    return put(stream);
}

/* ---- events ---- */

static void event_destroy(stk_device_event *event)
{
    while (event->queued) await_change(event->device);
}

static int put_event(stk_device_stream *stream, stk_device_event *event, work_kind kind)
{
    work *w = place(stream);
    w->kind = kind;
    w->event = event;
    w->number = kind == WORK_RECORD ? ++event->recorded : event->recorded;
    event->queued++;
    return put(stream);
}

static int event_record(stk_device_event *event, stk_device_stream *stream, stoke_error *err)
{
    return put_event(stream, event, WORK_RECORD);
}

static int stream_wait(stk_device_stream *stream, stk_device_event *event, stoke_error *err)
{
    return put_event(stream, event, WORK_WAIT);
}

static int event_finish(stk_device_event *event, stoke_error *err)
{
    const uint64_t last = event->recorded;
    while (event->passed < last) await_change(event->device);
    return STOKE_OK;
}

static int event_done(stk_device_event *event, int *done, stoke_error *err)
{
    *done = event->passed == event->recorded;
    return STOKE_OK;
}

static int event_time(stk_device_event *event, uint64_t *ns, stoke_error *err)
{
    const int happened = event->recorded && event->passed == event->recorded;
    *ns = happened ? event->time_ns : 0;
    return happened ? STOKE_OK : stk_fail(err, STOKE_E_STATE, "host: the event has not happened yet");
}

/* ---- memory ---- */

/* Memory that cannot be locked is as good here: copies are the processor's. block->own tells which it was. */
static int block_create(stk_device_block *block, stoke_error *err)
{
    const int pinned = block->kind == STK_MEMORY_PINNED, r = stk_block_pageable(block, err);
    if (r) return r;
    block->handle = (uintptr_t)block->host;
    block->own = pinned && !mlock(block->host, block->bytes) ? block->host : NULL;
    return STOKE_OK;
}

static void block_destroy(stk_device_block *block)
{
    if (block->own) munlock(block->own, block->bytes);
    stk_free_pages(block->host, block->bytes);
}

static uint64_t all_memory(void)
{
    const long pages = sysconf(_SC_PHYS_PAGES);
    return pages > 0 ? (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

static int memory(stoke_device *device, uint64_t *free_bytes, uint64_t *total_bytes, stoke_error *err)
{
    const uint64_t available = stoke_machine_available();
    *total_bytes = all_memory();
    *free_bytes = available < *total_bytes ? available : *total_bytes;
    return STOKE_OK;
}

static int copy(stk_device_stream *stream, const stk_device_block *to, size_t to_at,
                const stk_device_block *from, size_t from_at, size_t bytes, stoke_error *err)
{
    work *w = place(stream);
    w->kind = WORK_COPY;
    w->to = (char *)to->host + to_at;
    w->from = (const char *)from->host + from_at;
    w->bytes = bytes;
    return put(stream);
}

/* ---- kernels ---- */

static int launch(stk_device_stream *stream, stk_device_module *module, const stk_device_launch *l,
                  stoke_error *err)
{
    work *w = place(stream);
    const stk_device_argument *shape = &l->arguments[l->n_arguments - 1];
    w->kind = WORK_LAUNCH;
    w->kernel = module->program->host[l->kernel];
    memcpy(w->grid, l->grid, sizeof w->grid);
    for (uint32_t i = 0; i + 1 < l->n_arguments; i++) w->arguments[i] = l->arguments[i].block->host;
    memcpy(w->value, shape->value, shape->bytes);
    w->arguments[l->n_arguments - 1] = w->value;
    return put(stream);
}

/* ---- the device ---- */

/* How much this process may lock: asked for, not read from limits that a privilege may lift. Nothing is
 * touched, so nothing has to be there. */
static int may_lock(size_t bytes)
{
    void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED) return 0;
    const int locked = !mlock2(map, bytes, MLOCK_ONFAULT);
    munmap(map, bytes);
    return locked;
}

static void describe_locking(char *text, size_t size)
{
    struct rlimit limit;
    if (may_lock((size_t)1 << 32) || getrlimit(RLIMIT_MEMLOCK, &limit) || limit.rlim_cur == RLIM_INFINITY)
        snprintf(text, size, "threads; pins as much memory as there is");
    else
        snprintf(text, size, "threads; pins up to %.1f MiB (ulimit -l), then ordinary memory",
                 STK_MIB(limit.rlim_cur));
}

static stoke_device_info describe(void)
{
    stoke_device_info info = { .name = "host",
                               .memory_bytes = all_memory(),
                               .compute_units = stoke_machine_cores().usable,
                               .exact_math = 1,
                               .shares_memory = 1,
                               .shares_cores = 1 };
    snprintf(info.title, sizeof info.title, "%s", stoke_machine_cpu_name());
    describe_locking(info.driver, sizeof info.driver);
    return info;
}

static void discover(stoke_device_list *list)
{
    const stoke_device_info info = describe();
    stk_device_list_add(list, &info, NULL);
}

static int open_host(stoke_device *device, const char *which, const stoke_device_params *params,
                     stoke_error *err)
{
    if (*which) return stk_fail(err, STOKE_E_NOTFOUND, "there is one host, and it has no number: host");
    host_device *host = stk_calloc(1, sizeof *host);
    if (!host) return stk_fail(err, STOKE_E_NOMEM, "no memory to open device host");
    pthread_mutex_init(&host->lock, NULL); /* neither can fail on Linux */
    pthread_cond_init(&host->changed, NULL);
    device->own = host;
    device->info = describe();
    return STOKE_OK;
}

static void close_host(stoke_device *device)
{
    host_device *host = own(device);
    if (!host) return;
    pthread_cond_destroy(&host->changed);
    pthread_mutex_destroy(&host->lock);
    stk_free(host);
}

const stk_device_fns stk_device_host = {
    .kind = "host",
    .stream_bytes = sizeof(stk_device_stream),
    .event_bytes = sizeof(stk_device_event),
    .module_bytes = sizeof(stk_device_module),
    .discover = discover,
    .open = open_host,
    .close = close_host,
    .enter = enter,
    .leave = leave,
    .memory = memory,
    .block_create = block_create,
    .block_destroy = block_destroy,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .stream_finish = stream_finish,
    .stream_wait = stream_wait,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_finish = event_finish,
    .event_done = event_done,
    .event_time = event_time,
    .copy = copy,
    .launch = launch,
    .occupy = occupy,
};
