/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening and closing, leases, where it stands, what is known.
 */
#include "python/src/engine_private.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <stoke/tools/upload.h>
#include <stoke/tools/dataset.h>

/* The memory of a slot: one count is the ring's, one the lease's. */
typedef struct py_block {
    py_hold hold; /* first */
    py_engine *engine;
    void *data;
    size_t bytes;
    struct py_block *next; /* of the ring; only read by the thread whose turn it is */
} py_block;

int py_fail(stoke_error *err, int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    err->code = code;
    stoke_text_vformat(err->message, sizeof err->message, format, args);
    va_end(args);
    return code;
}

int py_pass(stoke_error *err, int code, const char *message)
{
    err->code = code;
    snprintf(err->message, sizeof err->message, "%s", message);
    return code;
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

int py_engine_check(const py_engine *engine, stoke_error *err)
{
    if (getpid() == engine->pid) return STOKE_OK;
    return py_fail(
        err, STOKE_E_STATE,
        "this loader was made by process %ld and has no threads in process %ld, which was forked from it: "
        "make a loader in the child, or start it with the method spawn or forkserver",
        (long)engine->pid, (long)getpid());
}

/* ---- memory of slots ---- */

static void block_end(py_hold *hold)
{
    py_block *block = (py_block *)hold;
    py_engine *engine = block->engine;
    engine->source.release(engine->source.context, block->data, block->bytes);
    free(block);
    py_hold_drop(&engine->hold);
}

static void *block_alloc(void *context, size_t bytes, size_t alignment)
{
    py_engine *engine = context;
    py_block *block = calloc(1, sizeof *block);
    if (!block) return NULL;
    block->data = engine->source.alloc(engine->source.context, bytes, alignment);
    if (!block->data) {
        free(block);
        return NULL;
    }
    py_hold_begin(&block->hold, block_end);
    py_hold_take(&engine->hold);
    block->engine = engine;
    block->bytes = bytes;
    block->next = engine->blocks;
    engine->blocks = block;
    return block->data;
}

static py_block **find_block(py_engine *engine, const void *pointer)
{
    py_block **at = &engine->blocks;
    while (*at && (*at)->data != pointer) at = &(*at)->next;
    return at;
}

/* The ring lets go; a lease may still have it. */
static void block_release(void *context, void *pointer, size_t bytes)
{
    py_block **at = find_block(context, pointer), *block = *at;
    if (!block) return;
    *at = block->next;
    py_hold_drop(&block->hold);
}

/* ---- opening and closing ---- */

static void engine_end(py_hold *hold)
{
    py_engine *engine = (py_engine *)hold;
    if (getpid() != engine->pid) return; /* what belongs to threads of another process is left as it is */
    stoke_upload_destroy(&engine->upload);
    stoke_device_close(&engine->device);
    stoke_dataset_close(&engine->dataset);
    pthread_mutex_destroy(&engine->turn);
    pthread_mutex_destroy(&engine->gate);
    for (size_t i = 0; i < engine->n_bad; i++) free(engine->bad[i].path), free(engine->bad[i].reason);
    free(engine->bad);
    py_hold_drop(engine->keeper);
    free(engine);
}

/* An engine that has its locks and nothing else. */
static int engine_new(py_engine **out, const stoke_data_params *params, stoke_error *err)
{
    *out = NULL;
    py_engine *engine = calloc(1, sizeof *engine);
    if (!engine) return py_fail(err, STOKE_E_NOMEM, "no memory for a loader");
    py_hold_begin(&engine->hold, engine_end);
    engine->pid = getpid();
    engine->params = *params;
    if (engine->params.batch < 0)
        engine->params.batch = stoke_data_defaults().batch; /* auto, as a loader takes it */
    if (pthread_mutex_init(&engine->turn, NULL) || pthread_mutex_init(&engine->gate, NULL)) {
        free(engine);
        return py_fail(err, STOKE_E_NOMEM, "no memory for a loader's locks");
    }
    *out = engine;
    return STOKE_OK;
}

int py_engine_status(int status, const char *message)
{
    static const char setting[] = "augment: ";
    return status == STOKE_E_NOTFOUND && !strncmp(message, setting, sizeof setting - 1) ? STOKE_E_INVALID
                                                                                        : status;
}

/* What opening came to: gives the engine, or lets go of it. */
static int opened(py_engine **out, py_engine *engine, int r, stoke_error *err)
{
    if (r) {
        if (engine->dataset) r = err->code = py_engine_status(r, err->message); /* the data was there */
        py_engine_drop(engine);
        return r;
    }
    engine->plan = stoke_loader_memory(engine->watched);
    engine->at_start = 1;
    *out = engine;
    return STOKE_OK;
}

/* The set, and which way up its images are taken, as training decides it. */
static int open_set(py_engine *engine, stoke_error *err)
{
    char remarks[1024];
    stoke_orientation settled;
    int r = stoke_dataset_open(&engine->dataset, &engine->params, err);
    if (!r)
        r = stoke_dataset_orientation(engine->dataset, &engine->params, &settled, remarks, sizeof remarks,
                                      err);
    if (!r) engine->params.orientation = (int)settled;
    return r;
}

int py_engine_open(py_engine **out, const stoke_data_params *params, const stoke_allocator *slots,
                   py_hold *keeper, stoke_error *err)
{
    py_engine *engine;
    *out = NULL;
    int r = engine_new(&engine, params, err);
    if (r) return r;
    engine->source = slots ? *slots : stoke_allocator_pages();
    engine->keeper = keeper ? py_hold_take(keeper) : NULL;
    const stoke_allocator blocks = { block_alloc, block_release, engine };
    r = open_set(engine, err);
    if (!r) r = stoke_loader_create(&engine->loader, engine->dataset, &engine->params, &blocks, err);
    engine->watched = engine->loader;
    return opened(out, engine, r, err);
}

int py_engine_open_on(py_engine **out, const stoke_data_params *params, const py_route *to, stoke_error *err)
{
    py_engine *engine;
    *out = NULL;
    int r = engine_new(&engine, params, err);
    if (r) return r;
    r = open_set(engine, err);
    if (!r) r = py_feed_open(engine, &engine->params, to, err);
    return opened(out, engine, r, err);
}

static void keep_bad(py_engine *engine);
static void read_stats(py_engine *engine, stoke_loader_stats_data *stats);

void py_engine_close(py_engine *engine)
{
    if (getpid() != engine->pid) return;
    atomic_store(&engine->closing, 1);
    pthread_mutex_lock(&engine->turn);
    pthread_mutex_lock(&engine->gate);
    stoke_loader *loader = engine->loader;
    if (engine->watched) {
        read_stats(engine, &engine->last);
        keep_bad(engine);
        engine->watched = engine->loader = NULL;
    }
    pthread_mutex_unlock(&engine->gate);
    stoke_loader_destroy(&loader);
    if (engine->upload) stoke_upload_stop(engine->upload); /* the batches that are out stay */
    pthread_mutex_unlock(&engine->turn);
}

void py_engine_drop(py_engine *engine)
{
    if (!engine) return;
    py_engine_close(engine);
    py_hold_drop(&engine->hold);
}

/* Takes the turn: 0, or STOKE_E_STATE without it. */
static int begin(py_engine *engine, stoke_error *err)
{
    int r = py_engine_check(engine, err);
    if (r) return r;
    pthread_mutex_lock(&engine->turn);
    if (engine->watched && !atomic_load(&engine->closing)) return STOKE_OK;
    pthread_mutex_unlock(&engine->turn);
    return py_fail(err, STOKE_E_STATE, "the loader is closed");
}

static int end(py_engine *engine, int r)
{
    pthread_mutex_unlock(&engine->turn);
    return r;
}

/* ---- batches ---- */

static void lease_end(py_hold *hold)
{
    py_lease *lease = (py_lease *)hold;
    py_engine *engine = lease->engine;
    if (getpid() == engine->pid) {
        if (lease->cargo) stoke_upload_release(engine->upload, &lease->cargo);
        pthread_mutex_lock(&engine->gate);
        if (engine->loader) stoke_batch_release(engine->loader, &lease->slot);
        atomic_fetch_sub(&engine->held, 1);
        pthread_mutex_unlock(&engine->gate);
    }
    if (lease->block) py_hold_drop(&lease->block->hold);
    free(lease);
    py_hold_drop(&engine->hold);
}

/* Room for a lease with its copies; made before a batch is taken, so that none is lost when there is no
 * memory. */
static py_lease *lease_alloc(const py_engine *engine)
{
    const size_t rows = (size_t)engine->params.batch;
    return calloc(1, sizeof(py_lease) + rows * (sizeof(uint64_t) + sizeof(char *) + sizeof(float) + 1));
}

/* `from`: as the loader or the feed describes it. */
static void lease_fill(py_lease *lease, py_engine *engine, const stoke_batch *from)
{
    const size_t n = from->count;
    uint64_t *ids = (uint64_t *)(lease + 1);
    const char **names = (const char **)(ids + n);
    float *lambda = (float *)(names + n);
    uint8_t *status = (uint8_t *)(lambda + n);
    lease->engine = engine;
    lease->batch = *from;
    lease->batch.ids = memcpy(ids, from->ids, n * sizeof *ids);
    lease->batch.names = memcpy(names, from->names, n * sizeof *names);
    lease->batch.status = memcpy(status, from->status, n);
    if (from->lambda) lease->batch.lambda = memcpy(lambda, from->lambda, n * sizeof *lambda);
    py_hold_begin(&lease->hold, lease_end);
    py_hold_take(&engine->hold);
    atomic_fetch_add(&engine->held, 1);
}

/* A slot of the loader's ring. */
static int lease_slot(py_engine *engine, uint64_t deadline_ns, py_lease *lease)
{
    int r = stoke_loader_next_until(engine->loader, &lease->slot, deadline_ns);
    if (r) return r;
    lease_fill(lease, engine, lease->slot);
    lease->block = *find_block(engine, lease->slot->images);
    py_hold_take(&lease->block->hold);
    return STOKE_OK;
}

/* One of the ring on the device. */
static int lease_cargo(py_engine *engine, uint64_t deadline_ns, py_lease *lease, stoke_error *err)
{
    int r = py_feed_next(engine, deadline_ns, &lease->cargo, err);
    if (r) return r;
    const stoke_device_batch *cargo = lease->cargo;
    lease_fill(lease, engine, &cargo->host);
    lease->batch.images = (void *)(uintptr_t)cargo->images;
    lease->batch.masks = (void *)(uintptr_t)cargo->masks;
    lease->batch.masks_b = (void *)(uintptr_t)cargo->masks_b;
    return STOKE_OK;
}

static int explain(const py_engine *engine, int r, stoke_error *err)
{
    static const char advice[] = "let go of batches you are done with, keep copies (tensor.clone(), "
                                 "array.copy()) instead of what the loader gave, or raise";
    if (r == STOKE_E_STARVED && engine->upload)
        return py_fail(err, r,
                       "all %u batches on %s are held, so there is no room for the next one (slots are "
                       "depth + 1): %s depth",
                       stoke_upload_memory_plan(engine->upload)->slots, py_engine_device(engine)->name,
                       advice);
    if (r == STOKE_E_STARVED)
        return py_fail(err, r,
                       "all %u batches are held, so there is no room for the next one (slots are prefetch + "
                       "1): %s prefetch",
                       engine->plan.slots, advice);
    if (r && r != STOKE_E_END && r != STOKE_E_TIMEOUT && engine->loader)
        py_pass(err, r, stoke_loader_error(engine->loader));
    return r;
}

/* Times, and on a device, where the loader's own figures run ahead, what the consumer has got. */
static void stamp(py_engine *engine, uint64_t began, const stoke_batch *came)
{
    const uint64_t now = now_ns();
    pthread_mutex_lock(&engine->gate);
    if (!engine->first_ns) engine->first_ns = began;
    if (came) engine->last_ns = now;
    if (engine->upload) py_feed_stamp(engine, now - began, came);
    pthread_mutex_unlock(&engine->gate);
}

int py_engine_next(py_engine *engine, uint64_t wait_ns, py_lease **lease, stoke_error *err)
{
    *lease = NULL;
    py_lease *made = lease_alloc(engine);
    if (!made) return py_fail(err, STOKE_E_NOMEM, "no memory for a batch's names");
    int r = begin(engine, err);
    if (r) {
        free(made);
        return r;
    }
    const uint64_t began = now_ns(), deadline = began + wait_ns;
    r = engine->upload ? lease_cargo(engine, deadline, made, err) : lease_slot(engine, deadline, made);
    stamp(engine, began, r ? NULL : &made->batch);
    if (r)
        free(made);
    else
        *lease = made;
    return end(engine, explain(engine, r, err));
}

/* ---- where it stands ---- */

int py_engine_set_epoch(py_engine *engine, uint64_t epoch, stoke_error *err)
{
    int r = begin(engine, err);
    if (r) return r;
    r = engine->upload ? stoke_upload_set_epoch(engine->upload, epoch)
                       : stoke_loader_set_epoch(engine->loader, epoch);
    engine->at_start = 1;
    return end(engine, r);
}

int py_engine_state(py_engine *engine, char text[PY_STATE_TEXT], stoke_error *err)
{
    int r = begin(engine, err);
    if (r) return r;
    if (engine->upload)
        stoke_upload_state(engine->upload, text, PY_STATE_TEXT);
    else
        stoke_loader_state(engine->loader, text, PY_STATE_TEXT);
    return end(engine, STOKE_OK);
}

int py_engine_restore(py_engine *engine, const char *text, stoke_error *err)
{
    int r = begin(engine, err);
    if (r) return r;
    r = engine->upload ? stoke_upload_restore(engine->upload, text, err)
                       : stoke_loader_restore(engine->loader, text, err);
    if (!r) engine->at_start = 1;
    return end(engine, r);
}

int py_engine_batches(py_engine *engine, uint64_t *all, uint64_t *left, stoke_error *err)
{
    int r = begin(engine, err);
    if (r) return r;
    *all = engine->upload ? stoke_upload_batches(engine->upload) : stoke_loader_batches(engine->loader);
    *left = engine->upload ? stoke_upload_remaining(engine->upload) : stoke_loader_remaining(engine->loader);
    return end(engine, STOKE_OK);
}

/* ---- what is known ---- */

/* Gate held, not closed. */
static void read_stats(py_engine *engine, stoke_loader_stats_data *stats)
{
    stoke_loader_stats(engine->watched, stats);
    if (engine->upload) py_feed_stats(engine, stats);
}

int py_engine_stats_get(py_engine *engine, py_engine_stats *stats, stoke_error *err)
{
    int r = py_engine_check(engine, err);
    if (r) return r;
    pthread_mutex_lock(&engine->gate);
    if (engine->watched)
        read_stats(engine, &stats->loader);
    else
        stats->loader = engine->last;
    stats->elapsed_ns = engine->last_ns > engine->first_ns ? engine->last_ns - engine->first_ns : 0;
    stats->held = atomic_load(&engine->held);
    stats->slots = engine->upload ? stoke_upload_memory_plan(engine->upload)->slots : engine->plan.slots;
    pthread_mutex_unlock(&engine->gate);
    return STOKE_OK;
}

/* Copies what is new; what there is no memory for is left out. Gate held, loader open. */
static void keep_bad(py_engine *engine)
{
    stoke_bad_file bad;
    while (!stoke_loader_bad(engine->watched, engine->n_bad, &bad)) {
        py_bad *list = realloc(engine->bad, (engine->n_bad + 1) * sizeof *list);
        if (!list) return;
        engine->bad = list;
        const py_bad one = { strdup(bad.path), strdup(bad.reason), bad.code };
        if (!one.path || !one.reason) {
            free(one.path), free(one.reason);
            return;
        }
        list[engine->n_bad++] = one;
    }
}

int py_engine_bad(py_engine *engine, const py_bad **list, size_t *n, stoke_error *err)
{
    int r = py_engine_check(engine, err);
    if (r) return r;
    pthread_mutex_lock(&engine->gate);
    if (engine->watched) keep_bad(engine);
    *list = engine->bad;
    *n = engine->n_bad;
    pthread_mutex_unlock(&engine->gate);
    return STOKE_OK;
}

int py_engine_warning(py_engine *engine, char *text, size_t size, stoke_error *err)
{
    int r = py_engine_check(engine, err);
    if (r) return r;
    pthread_mutex_lock(&engine->gate);
    const char *warning = engine->watched ? stoke_loader_warning(engine->watched) : NULL;
    snprintf(text, size, "%s", warning ? warning : "");
    pthread_mutex_unlock(&engine->gate);
    return STOKE_OK;
}

stoke_memory_plan py_engine_memory(const py_engine *engine)
{
    return engine->plan;
}

const stoke_dataset *py_engine_dataset(const py_engine *engine)
{
    return engine->dataset;
}

const stoke_data_params *py_engine_params(const py_engine *engine)
{
    return &engine->params;
}
