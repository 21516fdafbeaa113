/* SPDX-License-Identifier: Apache-2.0
 *
 * A simulated GPU. Batches, threads and host memory around it are real; what the device does takes
 * the time a model says it takes:
 *
 *   sim.c            the table of functions: one lock, the clock, bytes where they are asked for; cards by
 * name sim_timeline.c   when work begins and ends sim_memory.c     what fits
 *
 * The host sleeps only where a real host would wait for its device, until the time that the timeline gave,
 * and never measures how long it slept: oversleeping must not count as work of the device (on 2 cores under
 * load that adds up to 7 points of utilisation that are not there).
 *
 * With `contents` copies and kernels happen too, on the calling thread, when they are enqueued. That is in
 * order: a stream waits only for what was enqueued before the wait, so the order of calls is one of the
 * orders events allow.
 */
#include "src/device/sim.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <stoke/tools/device.h>

#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/base/gpus.h"
#include "src/base/mem.h"

/* Between the call and the first byte, of any copy. */
static const double copy_latency_ns = 10e3;
/* Kernels that only stream bytes reach about three quarters of what the memory chips can do. */
static const double memory_efficiency = 0.75;
/* Fresh device memory holds something, and not zeros: whoever forgets to write sees it. */
enum { FRESH_BYTE = 0xcd };

typedef struct model {
    double pageable, pinned, memory; /* bytes per ns, which is GB/s */
    double launch_ns;
    int contents;
} model;

typedef struct sim_device {
    pthread_mutex_t lock; /* of everything below but model and clock */
    model model;
    stk_sim_clock clock;
    stk_sim_timeline timeline;
    stk_sim_memory memory;
    uint64_t calls, last; /* lost from the call after `last` on */
} sim_device;

struct stk_device_stream {
    stoke_device *device;
    stk_sim_queue *queue;
};

struct stk_device_event {
    stoke_device *device;
    stk_sim_moment *moment; /* NULL: never recorded */
};

struct stk_device_module {
    stoke_device *device;
    const stk_program *program;
};

/* The bytes of device memory lie on the host, behind `piece`; NULL without contents. */
typedef struct sim_block {
    stk_sim_piece *piece;
    uint8_t *bytes;
} sim_block;

/* ---- lock, clock, loss ---- */

static uint64_t real_now(void *context)
{
    return stk_now_ns();
}

static void real_sleep(void *context, uint64_t until)
{
    stk_sleep_until(until);
}

static sim_device *of(stoke_device *device)
{
    return device->own;
}

static uint64_t now_of(const sim_device *v)
{
    return v->clock.now(v->clock.context);
}

static int is_lost(const sim_device *v)
{
    return v->calls > v->last;
}

static int fail_lost(const stoke_device *device, stoke_error *err)
{
    return stk_fail(err, STOKE_E_DEVICE, "%s (emulated) was lost", device->info.name);
}

/* Takes the lock and counts the call, unless it is for destroying. On failure the lock is not held. */
static int sim_enter(stoke_device *device, stoke_error *err)
{
    sim_device *v = of(device);
    pthread_mutex_lock(&v->lock);
    if (err && !is_lost(v)) v->calls++;
    if (!err || !is_lost(v)) return STOKE_OK;
    pthread_mutex_unlock(&v->lock);
    return fail_lost(device, err);
}

static void sim_leave(stoke_device *device)
{
    pthread_mutex_unlock(&of(device)->lock);
}

static int done_or_full(const stoke_device *device, int done, stoke_error *err)
{
    return done ? STOKE_OK
                : stk_fail(err, STOKE_E_NOMEM, "out of memory for work of %s (emulated)", device->info.name);
}

/* Sleeps, with the lock held but while asleep, until the moment has come. What others submit meanwhile may
 * put it off: then once more. The caller holds the moment. */
static int await(stoke_device *device, const stk_sim_moment *moment, stoke_error *err)
{
    sim_device *v = of(device);
    while (!is_lost(v)) {
        const uint64_t now = now_of(v);
        stk_timeline_advance(&v->timeline, now);
        const uint64_t then = stk_moment_expected(&v->timeline, moment);
        if (then <= now) return STOKE_OK;
        pthread_mutex_unlock(&v->lock);
        v->clock.sleep(v->clock.context, then);
        pthread_mutex_lock(&v->lock);
    }
    return fail_lost(device, err);
}

/* The same for everything the stream holds so far. */
static int await_queue(stk_device_stream *stream, stoke_error *err)
{
    stoke_device *device = stream->device;
    sim_device *v = of(device);
    stk_sim_moment *moment = NULL;
    if (!stk_queue_mark(&v->timeline, stream->queue, &moment, now_of(v)))
        return stk_fail(err, STOKE_E_NOMEM, "out of memory for waiting for %s (emulated)", device->info.name);
    const int status = await(device, moment, err);
    stk_moment_drop(&v->timeline, moment);
    return status;
}

/* ---- cards: those of src/base/gpus.def that have a name for it ---- */

enum { NAMES = 512 };

/* A launch costs the device some 5 us between kernels that depend on each other, on all of them. Copies up
 * and down have an engine each; that some cards have a third changes nothing here. */
static stoke_card card_of(const stk_gpu *gpu)
{
    return (stoke_card){ .name = gpu->sim,
                         .title = gpu->title,
                         .memory_gb = gpu->gb,
                         .memory_gb_s = gpu->memory_gb_s,
                         .pinned_gb_s = gpu->pinned_gb_s,
                         .pageable_gb_s = gpu->pageable_gb_s,
                         .launch_us = 5 };
}

int stoke_card_named(const char *name, stoke_card *card)
{
    const stk_gpu_name found = stk_gpu_named(name);
    if (!found.gpu || !found.gpu->sim || found.portable || (found.gb && found.gb != found.gpu->gb)) return 0;
    *card = card_of(found.gpu);
    return 1;
}

int stk_sim_gpu_find(const char *name, stoke_card *card, uint32_t *compute_units, stoke_error *err)
{
    char all[NAMES] = "";
    size_t used = 0;
    if (!*name) name = "rtx3090"; /* what "sim" alone stands for */
    stk_did_you_mean nearest = stk_did_you_mean_to(name);
    for (size_t i = 0; i < stk_gpus_count; i++) {
        const char *known = stk_gpus[i].sim;
        if (!known) continue;
        if (!strcmp(name, known)) {
            *card = card_of(&stk_gpus[i]);
            *compute_units = stk_gpus[i].compute_units;
            return STOKE_OK;
        }
        stk_did_you_mean_try(&nearest, known);
        if (used < sizeof all)
            used += (size_t)snprintf(all + used, sizeof all - used, "%s%s", used ? ", " : "", known);
    }
    return stk_fail(err, STOKE_E_NOTFOUND, "no GPU \"%.32s\" can be simulated%s%s%s; there are %s", name,
                    nearest.best ? ", did you mean \"" : "", nearest.best ? nearest.best : "",
                    nearest.best ? "\"?" : "", all);
}

const char *stoke_device_simulated(const char *device)
{
    if (strncmp(device, "sim", 3) || (device[3] && device[3] != ':')) return NULL;
    return device[3] ? device + 4 : device + 3;
}

/* ---- device ---- */

static void describe(const stoke_card *card, uint32_t compute_units, stoke_device_info *info)
{
    snprintf(info->title, sizeof info->title, "%s (emulated)", card->title);
    snprintf(info->driver, sizeof info->driver, "a model; other cards by sim:NAME");
    info->memory_bytes = (uint64_t)(card->memory_gb * (double)(UINT64_C(1) << 30));
    info->compute_units = compute_units;
    info->emulated = 1;
    info->exact_math = 1; /* with contents: its kernels are the host's */
}

static void sim_discover(stoke_device_list *list)
{
    stoke_card card;
    uint32_t units;
    stoke_error err;
    stoke_device_info info = { .name = "sim" };
    if (stk_sim_gpu_find("", &card, &units, &err)) return;
    describe(&card, units, &info);
    stk_device_list_add(list, &info, NULL);
}

/* The figures of the card, or the caller's. */
static int make_model(const stoke_card *card, const stoke_device_params *params, model *m, stoke_error *err)
{
    const struct {
        const char *name;
        double wanted, preset, *out;
    } figures[] = {
        { "pageable_gb_s", params->pageable_gb_s, card->pageable_gb_s, &m->pageable },
        { "pinned_gb_s", params->pinned_gb_s, card->pinned_gb_s, &m->pinned },
        { "memory_gb_s", params->memory_gb_s, card->memory_gb_s, &m->memory },
        { "launch_us", params->launch_us, card->launch_us, &m->launch_ns },
    };
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
        const double wanted = figures[i].wanted;
        if (!isfinite(wanted) || wanted < 0)
            return stk_fail(err, STOKE_E_INVALID,
                            "%s of a simulated GPU must be above 0, or 0 for the card's own",
                            figures[i].name);
        *figures[i].out = wanted > 0 ? wanted : figures[i].preset;
    }
    m->launch_ns *= 1e3;
    m->contents = params->contents != 0;
    return STOKE_OK;
}

static int sim_open(stoke_device *device, const char *which, const stoke_device_params *params,
                    stoke_error *err)
{
    stoke_card card;
    uint32_t units;
    model m = { 0 };
    int status = stk_sim_gpu_find(which, &card, &units, err);
    if (!status) status = make_model(&card, params, &m, err);
    if (status) return status;
    sim_device *v = stk_calloc(1, sizeof *v);
    if (!v || pthread_mutex_init(&v->lock, NULL)) {
        stk_free(v);
        return stk_fail(err, STOKE_E_NOMEM, "out of memory for a simulated GPU");
    }
    snprintf(device->info.name, sizeof device->info.name, "sim:%s", card.name);
    describe(&card, units, &device->info);
    device->info.shares_memory = m.contents != 0; /* they have to lie somewhere */
    v->model = m;
    v->clock = (stk_sim_clock){ real_now, real_sleep, NULL };
    v->last = UINT64_MAX;
    stk_sim_memory_init(&v->memory, device->info.memory_bytes);
    device->own = v;
    return STOKE_OK;
}

static void sim_close(stoke_device *device)
{
    sim_device *v = of(device);
    if (!v) return;
    stk_timeline_free(&v->timeline);
    stk_sim_memory_free(&v->memory);
    pthread_mutex_destroy(&v->lock);
    stk_free(v);
    device->own = NULL;
}

static int sim_memory(stoke_device *device, uint64_t *free_bytes, uint64_t *total_bytes, stoke_error *err)
{
    *free_bytes = stk_sim_memory_left(&of(device)->memory);
    *total_bytes = of(device)->memory.capacity;
    return STOKE_OK;
}

/* ---- memory ---- */

static int sim_block_create(stk_device_block *block, stoke_error *err)
{
    stoke_device *device = block->device;
    if (block->kind ==
        STK_MEMORY_PINNED) { /* it is there when it is given out: nobody waits for pages later */
        block->host = stk_alloc_pages(block->bytes);
        if (!block->host)
            return stk_fail(err, STOKE_E_NOMEM, "out of host memory: %zu bytes for copies to %s",
                            block->bytes, device->info.name);
        memset(block->host, FRESH_BYTE, block->bytes);
        return STOKE_OK;
    }
    sim_device *v = of(device);
    sim_block *own = stk_calloc(1, sizeof *own);
    if (own && v->model.contents) {
        own->bytes = stk_alloc_aligned(block->bytes, 64);
        if (own->bytes) memset(own->bytes, FRESH_BYTE, block->bytes);
    }
    int status = !own || (v->model.contents && !own->bytes)
                     ? stk_fail(err, STOKE_E_NOMEM, "out of host memory for %zu bytes of %s (emulated)",
                                block->bytes, device->info.name)
                     : stk_sim_memory_take(&v->memory, block->bytes, device->info.name, &own->piece, err);
    if (status) {
        if (own) stk_free(own->bytes);
        stk_free(own);
        return status;
    }
    block->own = own;
    block->handle = (uintptr_t)stk_piece_address(own->piece);
    return STOKE_OK;
}

static void sim_block_destroy(stk_device_block *block)
{
    sim_device *v = of(block->device);
    sim_block *own = block->own;
    if (block->kind != STK_MEMORY_DEVICE) {
        stk_free_pages(block->host, block->bytes);
        return;
    }
    stk_sim_memory_give(&v->memory, own->piece);
    stk_free(own->bytes);
    stk_free(own);
}

/* ---- streams and events ---- */

static int sim_stream_create(stk_device_stream *stream, stoke_error *err)
{
    stream->queue = stk_queue_create(&of(stream->device)->timeline);
    return done_or_full(stream->device, stream->queue != NULL, err);
}

static void sim_stream_destroy(stk_device_stream *stream)
{
    sim_device *v = of(stream->device);
    stoke_error ignored;
    if (!is_lost(v)) await_queue(stream, &ignored);
    stk_queue_destroy(&v->timeline, stream->queue, now_of(v));
}

static int sim_stream_wait(stk_device_stream *stream, stk_device_event *event, stoke_error *err)
{
    sim_device *v = of(stream->device);
    return done_or_full(
        stream->device,
        !event->moment || stk_queue_wait(&v->timeline, stream->queue, event->moment, now_of(v)), err);
}

static void sim_event_destroy(stk_device_event *event)
{
    stk_moment_drop(&of(event->device)->timeline, event->moment);
}

static int sim_event_record(stk_device_event *event, stk_device_stream *stream, stoke_error *err)
{
    sim_device *v = of(event->device);
    return done_or_full(event->device, stk_queue_mark(&v->timeline, stream->queue, &event->moment, now_of(v)),
                        err);
}

static int sim_event_finish(stk_device_event *event, stoke_error *err)
{
    if (!event->moment) return STOKE_OK;
    /* Held: the event may be recorded again while this thread sleeps. */
    stk_sim_moment *moment = stk_moment_hold(event->moment);
    const int status = await(event->device, moment, err);
    stk_moment_drop(&of(event->device)->timeline, moment);
    return status;
}

static int sim_event_done(stk_device_event *event, int *done, stoke_error *err)
{
    sim_device *v = of(event->device);
    const uint64_t now = now_of(v);
    stk_timeline_advance(&v->timeline, now);
    *done = !event->moment || stk_moment_expected(&v->timeline, event->moment) <= now;
    return STOKE_OK;
}

static int sim_event_time(stk_device_event *event, uint64_t *ns, stoke_error *err)
{
    sim_device *v = of(event->device);
    const uint64_t now = now_of(v);
    stk_timeline_advance(&v->timeline, now);
    const uint64_t time = event->moment ? stk_moment_expected(&v->timeline, event->moment) : UINT64_MAX;
    if (time > now) return stk_fail(err, STOKE_E_STATE, "the event has no time yet: wait for it first");
    *ns = time;
    return STOKE_OK;
}

/* ---- work ---- */

static int enqueue(stk_device_stream *stream, stk_sim_engine engine, stk_sim_task_kind kind, double ns,
                   stoke_error *err)
{
    sim_device *v = of(stream->device);
    const uint64_t whole = ns < 1e18 ? (uint64_t)(ns + 0.5) : (uint64_t)1000000000000000000;
    return done_or_full(stream->device,
                        stk_queue_work(&v->timeline, stream->queue, engine, kind, whole, now_of(v)), err);
}

static uint8_t *bytes_of(const stk_device_block *block)
{
    return block->kind == STK_MEMORY_DEVICE ? ((const sim_block *)block->own)->bytes : block->host;
}

/* Which engine copies, and for how long. */
static double copy_cost(const sim_device *v, const stk_device_block *to, const stk_device_block *from,
                        size_t bytes, stk_sim_engine *engine)
{
    const stk_device_block *host = to->kind == STK_MEMORY_DEVICE ? from : to;
    const double link = host->kind == STK_MEMORY_PAGEABLE ? v->model.pageable : v->model.pinned;
    if (to->kind == STK_MEMORY_DEVICE && from->kind == STK_MEMORY_DEVICE) {
        *engine = STK_ENGINE_COMPUTE;
        return copy_latency_ns + 2 * (double)bytes / (memory_efficiency * v->model.memory);
    }
    *engine = to->kind == STK_MEMORY_DEVICE ? STK_ENGINE_UP : STK_ENGINE_DOWN;
    return copy_latency_ns + (double)bytes / link;
}

/* Ordinary memory passes through a buffer of the driver, and the host does not get on before. Here it sleeps
 * for so long; a driver would keep its core busy. Between two blocks of the host it does all the work itself.
 */
static int sim_copy(stk_device_stream *stream, const stk_device_block *to, size_t to_at,
                    const stk_device_block *from, size_t from_at, size_t bytes, stoke_error *err)
{
    stoke_device *device = stream->device;
    sim_device *v = of(device);
    const int on_host = to->kind != STK_MEMORY_DEVICE && from->kind != STK_MEMORY_DEVICE;
    const int waits = to->kind == STK_MEMORY_PAGEABLE || from->kind == STK_MEMORY_PAGEABLE || on_host;
    stk_sim_engine engine;
    if (!v->model.contents && from->kind == STK_MEMORY_DEVICE && to->kind != STK_MEMORY_DEVICE)
        return stk_fail(err, STOKE_E_UNSUPPORTED,
                        "%s (emulated) keeps times, not bytes: nothing can be copied from it; open it with "
                        "contents = 1 where bytes matter",
                        device->info.name);
    int status = STOKE_OK;
    if (!on_host) {
        const double cost = copy_cost(v, to, from, bytes, &engine);
        status = enqueue(stream, engine, STK_TASK_WHOLE, cost, err);
    }
    if (!status && waits) status = await_queue(stream, err);
    uint8_t *into = bytes_of(to);
    const uint8_t *source = bytes_of(from);
    if (status || !into || !source) return status;
    sim_leave(device); /* while it computes others go on */
    memcpy(into + to_at, source + from_at, bytes);
    return sim_enter(device, NULL);
}

static int sim_launch(stk_device_stream *stream, stk_device_module *module, const stk_device_launch *launch,
                      stoke_error *err)
{
    const sim_device *v = of(stream->device);
    const double traffic_ns = (double)launch->traffic / (memory_efficiency * v->model.memory);
    const int status =
        enqueue(stream, STK_ENGINE_COMPUTE, STK_TASK_KERNEL, v->model.launch_ns + traffic_ns, err);
    if (status || !v->model.contents) return status;
    void *arguments[STK_ARGUMENTS_MAX];
    static const uint32_t from[3] = { 0, 0, 0 };
    for (uint32_t i = 0; i < launch->n_arguments; i++) {
        const stk_device_argument *a = &launch->arguments[i];
        /* Kernels read what is passed by value and never write it. */
        arguments[i] = a->block ? (void *)bytes_of(a->block) : (void *)(uintptr_t)a->value;
    }
    sim_leave(stream->device);
    module->program->host[launch->kernel](arguments, from, launch->grid);
    return sim_enter(stream->device, NULL);
}

static int sim_occupy(stk_device_stream *stream, uint64_t ns, stoke_error *err)
{
    return enqueue(stream, STK_ENGINE_COMPUTE, STK_TASK_WHOLE, (double)ns, err);
}

const stk_device_fns stk_device_sim = {
    .kind = "sim",
    .stream_bytes = sizeof(stk_device_stream),
    .event_bytes = sizeof(stk_device_event),
    .module_bytes = sizeof(stk_device_module),
    .discover = sim_discover,
    .open = sim_open,
    .close = sim_close,
    .enter = sim_enter,
    .leave = sim_leave,
    .memory = sim_memory,
    .block_create = sim_block_create,
    .block_destroy = sim_block_destroy,
    .stream_create = sim_stream_create,
    .stream_destroy = sim_stream_destroy,
    .stream_finish = await_queue,
    .stream_wait = sim_stream_wait,
    .event_destroy = sim_event_destroy,
    .event_record = sim_event_record,
    .event_finish = sim_event_finish,
    .event_done = sim_event_done,
    .event_time = sim_event_time,
    .copy = sim_copy,
    .launch = sim_launch,
    .occupy = sim_occupy,
};

/* ---- for tests ---- */

void stk_sim_set_clock(stoke_device *device, const stk_sim_clock *clock)
{
    of(device)->clock = *clock;
}

void stk_sim_set_memory(stoke_device *device, uint64_t bytes)
{
    sim_device *v = of(device);
    pthread_mutex_lock(&v->lock);
    v->memory.capacity = bytes;
    pthread_mutex_unlock(&v->lock);
}

void stk_sim_lose_after(stoke_device *device, uint64_t calls)
{
    sim_device *v = of(device);
    pthread_mutex_lock(&v->lock);
    v->last = v->calls + calls;
    pthread_mutex_unlock(&v->lock);
}

void stk_sim_count(stoke_device *device, stk_sim_counts *counts)
{
    sim_device *v = of(device);
    pthread_mutex_lock(&v->lock);
    stk_timeline_advance(&v->timeline, now_of(v));
    *counts = (stk_sim_counts){ .calls = v->calls,
                                .allocated_bytes = v->memory.allocated,
                                .reserved_bytes = v->memory.reserved,
                                .peak_allocated_bytes = v->memory.peak_allocated,
                                .peak_reserved_bytes = v->memory.peak_reserved,
                                .flushes = v->memory.flushes };
    memcpy(counts->busy_ns, v->timeline.busy, sizeof counts->busy_ns);
    pthread_mutex_unlock(&v->lock);
}
