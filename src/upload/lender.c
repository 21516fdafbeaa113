/* SPDX-License-Identifier: Apache-2.0
 *
 * Batches for bindings, in host memory or on a device; see <stoke/tools/lease.h>. cuda has streams that the
 * consumer can name, so nothing waits there; on other devices the host waits until a batch is there before it
 * hands it out.
 *
 * Two locks. `turn` belongs to whoever calls the functions of loader or upload of which only one may run at a
 * time; next() keeps it while it waits. `gate` is held for moments only, by those who must not wait: who
 * gives a slot back, reads statistics, or takes the loader away. The order is turn, gate.
 */
#include <stoke/tools/lease.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <stoke/augment.h>
#include <stoke/tools/dataset.h>
#include <stoke/tools/upload.h>
#include <unistd.h>

#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/base/mem.h"

/* ---- counts that keep memory alive ---- */

void stoke_hold_begin(stoke_hold *hold, void (*end)(stoke_hold *hold))
{
    hold->count = 1;
    hold->end = end;
}

stoke_hold *stoke_hold_take(stoke_hold *hold)
{
    __atomic_fetch_add(&hold->count, 1, __ATOMIC_RELAXED);
    return hold;
}

void stoke_hold_drop(stoke_hold *hold)
{
    /* Whoever ends it must see what all others did to the memory before. */
    if (hold && __atomic_fetch_sub(&hold->count, 1, __ATOMIC_ACQ_REL) == 1) hold->end(hold);
}

typedef struct memory {
    stoke_hold hold; /* first */
    void *data;
} memory;

static void memory_end(stoke_hold *hold)
{
    stk_free(((memory *)hold)->data);
    stk_free(hold);
}

stoke_hold *stoke_hold_memory(size_t bytes, void **data)
{
    memory *m = stk_alloc(sizeof *m);
    if (!m) return NULL;
    m->data = stk_alloc_aligned(bytes ? bytes : 1, 64);
    if (!m->data) {
        stk_free(m);
        return NULL;
    }
    stoke_hold_begin(&m->hold, memory_end);
    *data = m->data;
    return &m->hold;
}

/* ---- a lender ---- */

/* What the consumer has got of an upload, whose loader runs ahead of it. */
typedef struct received {
    uint64_t batches, samples, replaced, skipped;
    uint64_t waited_ns;            /* for all of them */
    uint64_t first_ns, pending_ns; /* for the first of the epoch; since the last one came */
} received;

/* The memory of a slot: one count is the ring's, one the lease's. */
typedef struct stk_lender_block {
    stoke_hold hold; /* first */
    stoke_lender *lender;
    void *data;
    size_t bytes;
    struct stk_lender_block *next; /* of the ring; only read by the thread whose turn it is */
} stk_lender_block;

struct stoke_lender {
    stoke_hold hold; /* the owner's count, one of every lease and one of every block */
    pid_t pid;
    stoke_data_params params;
    stoke_allocator source; /* of slots in host memory, */
    stoke_hold *keeper;     /* and what it lives in; NULL: none */
    stoke_dataset *dataset;
    stoke_memory_plan plan;
    pthread_mutex_t turn, gate;
    atomic_int closing;
    atomic_uint held;
    stoke_loader *loader; /* NULL: closed, or the upload has it. Changed under both locks */
    stk_lender_block *blocks;
    stoke_lease *spare; /* that nobody holds; under gate */
    /* On a device, else NULL. Both stay until the last lease ends; closing stops the upload. */
    stoke_device *device;
    stoke_upload *upload;
    int streams; /* its batches are ordered by streams: nobody waits for them to arrive */
    const stoke_loader
        *watched;      /* the loader, or that of the upload; NULL: closed. Changed under both locks */
    int at_start;      /* no batch of the epoch has come yet; the turn's */
    received received; /* under gate, as are: */
    uint64_t first_ns, last_ns;   /* when the first batch was asked for, when the last one came */
    stoke_loader_stats_data last; /* from closing on */
    stoke_lender_bad_file *bad;
    size_t n_bad;
};

int stoke_lender_check(const stoke_lender *lender, stoke_error *err)
{
    if (getpid() == lender->pid) return STOKE_OK;
    return stk_fail(
        err, STOKE_E_STATE,
        "this loader was made by process %ld and has no threads in process %ld, which was forked from it: "
        "make a loader in the child, or start it with the method spawn or forkserver",
        (long)lender->pid, (long)getpid());
}

/* ---- memory of slots ---- */

static void block_end(stoke_hold *hold)
{
    stk_lender_block *block = (stk_lender_block *)hold;
    stoke_lender *lender = block->lender;
    lender->source.release(lender->source.context, block->data, block->bytes);
    stk_free(block);
    stoke_hold_drop(&lender->hold);
}

static void *block_alloc(void *context, size_t bytes, size_t alignment)
{
    stoke_lender *lender = context;
    stk_lender_block *block = stk_calloc(1, sizeof *block);
    if (!block) return NULL;
    block->data = lender->source.alloc(lender->source.context, bytes, alignment);
    if (!block->data) {
        stk_free(block);
        return NULL;
    }
    stoke_hold_begin(&block->hold, block_end);
    stoke_hold_take(&lender->hold);
    block->lender = lender;
    block->bytes = bytes;
    block->next = lender->blocks;
    lender->blocks = block;
    return block->data;
}

static stk_lender_block **find_block(stoke_lender *lender, const void *pointer)
{
    stk_lender_block **at = &lender->blocks;
    while (*at && (*at)->data != pointer) at = &(*at)->next;
    return at;
}

/* The ring lets go; a lease may still have it. */
static void block_release(void *context, void *pointer, size_t bytes)
{
    stk_lender_block **at = find_block(context, pointer), *block = *at;
    if (!block) return;
    *at = block->next;
    stoke_hold_drop(&block->hold);
}

/* ---- opening and closing ---- */

static void lender_end(stoke_hold *hold)
{
    stoke_lender *lender = (stoke_lender *)hold;
    if (getpid() != lender->pid) return; /* what belongs to threads of another process is left as it is */
    stoke_upload_destroy(&lender->upload);
    stoke_device_close(&lender->device);
    stoke_dataset_close(&lender->dataset);
    pthread_mutex_destroy(&lender->turn);
    pthread_mutex_destroy(&lender->gate);
    for (stoke_lease *spare = lender->spare, *next; spare; spare = next) {
        next = spare->next;
        stk_free(spare);
    }
    for (size_t i = 0; i < lender->n_bad; i++) stk_free(lender->bad[i].path), stk_free(lender->bad[i].reason);
    stk_free(lender->bad);
    stoke_hold_drop(lender->keeper);
    stk_free(lender);
}

/* A lender that has its locks and nothing else. */
static int lender_new(stoke_lender **out, const stoke_data_params *params, stoke_error *err)
{
    *out = NULL;
    stoke_lender *lender = stk_calloc(1, sizeof *lender);
    if (!lender) return stk_fail(err, STOKE_E_NOMEM, "no memory for a loader");
    stoke_hold_begin(&lender->hold, lender_end);
    lender->pid = getpid();
    lender->params = *params;
    if (lender->params.batch < 0)
        lender->params.batch = stoke_data_defaults().batch; /* auto, as a loader takes it */
    if (pthread_mutex_init(&lender->turn, NULL) || pthread_mutex_init(&lender->gate, NULL)) {
        stk_free(lender);
        return stk_fail(err, STOKE_E_NOMEM, "no memory for a loader's locks");
    }
    *out = lender;
    return STOKE_OK;
}

int stoke_lender_status(int status, const char *message)
{
    static const char setting[] = "augment: ";
    return status == STOKE_E_NOTFOUND && !strncmp(message, setting, sizeof setting - 1) ? STOKE_E_INVALID
                                                                                        : status;
}

/* What opening came to: gives the lender, or lets go of it. */
static int opened(stoke_lender **out, stoke_lender *lender, int r, stoke_error *err)
{
    if (r) {
        if (lender->dataset) r = err->code = stoke_lender_status(r, err->message); /* the data was there */
        stoke_lender_drop(lender);
        return r;
    }
    lender->plan = stoke_loader_memory(lender->watched);
    lender->at_start = 1;
    *out = lender;
    return STOKE_OK;
}

/* The set, and which way up its images are taken, as training decides it. */
static int open_set(stoke_lender *lender, stoke_error *err)
{
    char remarks[1024];
    stoke_orientation settled;
    int r = stoke_dataset_open(&lender->dataset, &lender->params, err);
    if (!r)
        r = stoke_dataset_orientation(lender->dataset, &lender->params, &settled, remarks, sizeof remarks,
                                      err);
    if (!r) lender->params.orientation = (int)settled;
    return r;
}

int stoke_lender_open(stoke_lender **out, const stoke_data_params *params, const stoke_allocator *slots,
                      stoke_hold *keeper, stoke_error *err)
{
    stoke_lender *lender;
    *out = NULL;
    int r = lender_new(&lender, params, err);
    if (r) return r;
    lender->source = slots ? *slots : stoke_allocator_pages();
    lender->keeper = keeper ? stoke_hold_take(keeper) : NULL;
    const stoke_allocator blocks = { block_alloc, block_release, lender };
    r = open_set(lender, err);
    if (!r) r = stoke_loader_create(&lender->loader, lender->dataset, &lender->params, &blocks, err);
    lender->watched = lender->loader;
    return opened(out, lender, r, err);
}

/* Of what an upload could not be made: a name in the settings, or kernels for the device. */
static int blame(const stoke_data_params *params, const stoke_lender_route *to, int r)
{
    if (to->upload.placement != STOKE_PLACEMENT_DEVICE) return r;
    if (r != STOKE_E_NOTFOUND && r != STOKE_E_UNSUPPORTED) return r;
    stoke_pipeline *pipeline = NULL;
    const int wrong_name = stoke_pipeline_create(&pipeline, params->augment, NULL);
    stoke_pipeline_destroy(&pipeline);
    return wrong_name ? r : STOKE_E_DEVICE;
}

/* Opens device and upload. */
static int open_upload(stoke_lender *lender, const stoke_lender_route *to, stoke_error *err)
{
    int r = stoke_device_open(&lender->device, to->device, NULL, err);
    if (!r && stoke_device_describe(lender->device)->emulated)
        r = stk_fail(err, STOKE_E_INVALID,
                     "%s is a simulated GPU and has no bytes to give: take cuda, opencl or host", to->device);
    /* Whatever is wrong, it is no file and no sample. */
    if (r == STOKE_E_NOTFOUND || r == STOKE_E_UNSUPPORTED) r = err->code = STOKE_E_DEVICE;
    if (r) return r;
    lender->streams = !strncmp(stoke_lender_device(lender)->name, "cuda:", 5);
    stoke_upload_params settings = to->upload;
    settings.transfer = STOKE_TRANSFER_STREAM;
    settings.consumer_stream = NULL; /* its own, which waits for those that batches are lent to */
    r = stoke_upload_create(&lender->upload, lender->dataset, &lender->params, lender->device, &settings,
                            err);
    if (r) return err->code = blame(&lender->params, to, r);
    lender->watched = stoke_upload_loader(lender->upload);
    return STOKE_OK;
}

int stoke_lender_open_on(stoke_lender **out, const stoke_data_params *params, const stoke_lender_route *to,
                         stoke_error *err)
{
    stoke_lender *lender;
    *out = NULL;
    int r = lender_new(&lender, params, err);
    if (r) return r;
    r = open_set(lender, err);
    if (!r) r = open_upload(lender, to, err);
    return opened(out, lender, r, err);
}

static void keep_bad(stoke_lender *lender);
static void read_stats(stoke_lender *lender, stoke_loader_stats_data *stats);

void stoke_lender_close(stoke_lender *lender)
{
    if (getpid() != lender->pid) return;
    atomic_store(&lender->closing, 1);
    pthread_mutex_lock(&lender->turn);
    pthread_mutex_lock(&lender->gate);
    stoke_loader *loader = lender->loader;
    if (lender->watched) {
        read_stats(lender, &lender->last);
        keep_bad(lender);
        lender->watched = lender->loader = NULL;
    }
    pthread_mutex_unlock(&lender->gate);
    stoke_loader_destroy(&loader);
    if (lender->upload) stoke_upload_stop(lender->upload); /* the batches that are out stay */
    pthread_mutex_unlock(&lender->turn);
}

void stoke_lender_drop(stoke_lender *lender)
{
    if (!lender) return;
    stoke_lender_close(lender);
    stoke_hold_drop(&lender->hold);
}

/* Takes the turn: 0, or STOKE_E_STATE without it. */
static int begin(stoke_lender *lender, stoke_error *err)
{
    int r = stoke_lender_check(lender, err);
    if (r) return r;
    pthread_mutex_lock(&lender->turn);
    if (lender->watched && !atomic_load(&lender->closing)) return STOKE_OK;
    pthread_mutex_unlock(&lender->turn);
    return stk_fail(err, STOKE_E_STATE, "the loader is closed");
}

static int end(stoke_lender *lender, int r)
{
    pthread_mutex_unlock(&lender->turn);
    return r;
}

/* ---- batches ---- */

/* For the next batch; steady work allocates nothing. Gate held. */
static void lease_keep(stoke_lender *lender, stoke_lease *lease)
{
    lease->next = lender->spare;
    lender->spare = lease;
}

static void lease_end(stoke_hold *hold)
{
    stoke_lease *lease = (stoke_lease *)hold;
    stoke_lender *lender = lease->lender;
    if (lease->block) stoke_hold_drop(&lease->block->hold);
    if (getpid() == lender->pid) {
        if (lease->cargo) stoke_upload_release(lender->upload, &lease->cargo);
        pthread_mutex_lock(&lender->gate);
        if (lender->loader) stoke_batch_release(lender->loader, &lease->slot);
        atomic_fetch_sub(&lender->held, 1);
        lease_keep(lender, lease);
        pthread_mutex_unlock(&lender->gate);
    } else {
        stk_free(lease);
    }
    stoke_hold_drop(&lender->hold);
}

/* Room for a lease with its copies; made before a batch is taken, so that none is lost when there is no
 * memory. */
static stoke_lease *lease_alloc(stoke_lender *lender)
{
    const size_t rows = (size_t)lender->params.batch;
    pthread_mutex_lock(&lender->gate);
    stoke_lease *spare = lender->spare;
    if (spare) lender->spare = spare->next;
    pthread_mutex_unlock(&lender->gate);
    if (!spare)
        return stk_calloc(1, sizeof *spare + rows * (sizeof(uint64_t) + sizeof(char *) + sizeof(float) + 1));
    *spare = (stoke_lease){ 0 };
    return spare;
}

/* `from`: as the loader or the upload describes it. */
static void lease_fill(stoke_lease *lease, stoke_lender *lender, const stoke_batch *from)
{
    const size_t n = from->count;
    uint64_t *ids = (uint64_t *)(lease + 1);
    const char **names = (const char **)(ids + n);
    float *lambda = (float *)(names + n);
    uint8_t *status = (uint8_t *)(lambda + n);
    lease->lender = lender;
    lease->batch = *from;
    lease->batch.ids = memcpy(ids, from->ids, n * sizeof *ids);
    lease->batch.names = memcpy(names, from->names, n * sizeof *names);
    lease->batch.status = memcpy(status, from->status, n);
    if (from->lambda) lease->batch.lambda = memcpy(lambda, from->lambda, n * sizeof *lambda);
    stoke_hold_begin(&lease->hold, lease_end);
    stoke_hold_take(&lender->hold);
    atomic_fetch_add(&lender->held, 1);
}

/* A slot of the loader's ring. */
static int lease_slot(stoke_lender *lender, uint64_t deadline_ns, stoke_lease *lease)
{
    int r = stoke_loader_next_until(lender->loader, &lease->slot, deadline_ns);
    if (r) return r;
    lease_fill(lease, lender, lease->slot);
    lease->block = *find_block(lender, lease->slot->images);
    stoke_hold_take(&lease->block->hold);
    return STOKE_OK;
}

/* One of the ring on the device, ready to be used. */
static int lease_cargo(stoke_lender *lender, uint64_t deadline_ns, stoke_lease *lease, stoke_error *err)
{
    int r = stoke_upload_next_until(lender->upload, &lease->cargo, deadline_ns);
    if (r) return stk_fail_again(err, r, stoke_upload_error(lender->upload));
    const stoke_device_batch *cargo = lease->cargo;
    if (!lender->streams) r = stoke_upload_arrive(lender->upload, cargo, err);
    if (r) {
        stoke_upload_release(lender->upload, &lease->cargo);
        return r;
    }
    lease_fill(lease, lender, &cargo->host);
    lease->batch.images = (void *)(uintptr_t)cargo->images;
    lease->batch.masks = (void *)(uintptr_t)cargo->masks;
    lease->batch.masks_b = (void *)(uintptr_t)cargo->masks_b;
    return STOKE_OK;
}

static int explain(const stoke_lender *lender, int r, stoke_error *err)
{
    static const char advice[] = "let go of batches you are done with, keep copies (tensor.clone(), "
                                 "array.copy()) instead of what the loader gave, or raise";
    if (r == STOKE_E_STARVED && lender->upload)
        return stk_fail(err, r,
                        "all %u batches on %s are held, so there is no room for the next one (slots are "
                        "depth + 1): %s depth",
                        stoke_upload_memory_plan(lender->upload)->slots, stoke_lender_device(lender)->name,
                        advice);
    if (r == STOKE_E_STARVED)
        return stk_fail(err, r,
                        "all %u batches are held, so there is no room for the next one (slots are prefetch + "
                        "1): %s prefetch",
                        lender->plan.slots, advice);
    if (r && r != STOKE_E_END && r != STOKE_E_TIMEOUT && lender->loader)
        stk_fail_again(err, r, stoke_loader_error(lender->loader));
    return r;
}

/* Times, and on a device, where the loader's own figures run ahead, what the consumer has got. */
static void stamp(stoke_lender *lender, uint64_t began, const stoke_batch *came)
{
    const uint64_t now = stk_now_ns();
    pthread_mutex_lock(&lender->gate);
    if (!lender->first_ns) lender->first_ns = began;
    if (came) lender->last_ns = now;
    if (lender->upload) {
        received *got = &lender->received;
        got->waited_ns += now - began;
        got->pending_ns += now - began;
        stoke_upload_bad(lender->upload, &got->replaced, &got->skipped);
        if (came) {
            got->batches++;
            got->samples += came->count;
            if (lender->at_start) got->first_ns = got->pending_ns;
            lender->at_start = 0;
            got->pending_ns = 0;
        }
    }
    pthread_mutex_unlock(&lender->gate);
}

int stoke_lender_next(stoke_lender *lender, uint64_t wait_ns, stoke_lease **lease, stoke_error *err)
{
    *lease = NULL;
    int r = begin(lender, err);
    if (r) return r;
    stoke_lease *made = lease_alloc(lender);
    if (!made) return end(lender, stk_fail(err, STOKE_E_NOMEM, "no memory for a batch's names"));
    const uint64_t began = stk_now_ns(), deadline = began + wait_ns;
    r = lender->upload ? lease_cargo(lender, deadline, made, err) : lease_slot(lender, deadline, made);
    stamp(lender, began, r ? NULL : &made->batch);
    if (!r) {
        *lease = made;
    } else {
        pthread_mutex_lock(&lender->gate);
        lease_keep(lender, made);
        pthread_mutex_unlock(&lender->gate);
    }
    return end(lender, explain(lender, r, err));
}

/* ---- leases on a device ---- */

int stoke_lease_lend(stoke_lease *lease, void *stream, stoke_error *err)
{
    const int r = stoke_lender_check(lease->lender, err);
    return r ? r : stoke_upload_lend(lease->lender->upload, lease->cargo, stream, err);
}

int stoke_lease_arrive(stoke_lease *lease, stoke_error *err)
{
    const int r = stoke_lender_check(lease->lender, err);
    return r ? r : stoke_upload_arrive(lease->lender->upload, lease->cargo, err);
}

int stoke_lease_fetch(stoke_lease *lease, const void *array, void *to, size_t bytes, stoke_error *err)
{
    const int r = stoke_lender_check(lease->lender, err);
    return r ? r : stoke_upload_fetch(lease->lender->upload, lease->cargo, (uintptr_t)array, to, bytes, err);
}

stoke_device *stoke_lease_device(const stoke_lease *lease, stoke_hold **owner)
{
    *owner = &lease->lender->hold;
    return lease->lender->device;
}

int stoke_lease_digest(stoke_lease *lease, uint8_t digest[16], stoke_error *err)
{
    stoke_batch batch = lease->batch;
    void **const arrays[] = { &batch.images, &batch.masks, &batch.masks_b };
    void *copies[3] = { 0 };
    int r = STOKE_OK;
    for (int i = 0; i < 3 && !r && lease->cargo; i++) {
        const size_t bytes = batch.count * (i ? batch.mask_row_bytes : batch.image_row_bytes);
        if (!*arrays[i] || !bytes) continue;
        copies[i] = stk_alloc(bytes);
        r = copies[i] ? stoke_lease_fetch(lease, *arrays[i], copies[i], bytes, err)
                      : stk_fail(err, STOKE_E_NOMEM, "no memory for a copy of a batch");
        *arrays[i] = copies[i];
    }
    if (!r) stoke_batch_digest(&batch, digest);
    for (int i = 0; i < 3; i++) stk_free(copies[i]);
    return r;
}

/* ---- where it stands ---- */

int stoke_lender_set_epoch(stoke_lender *lender, uint64_t epoch, stoke_error *err)
{
    int r = begin(lender, err);
    if (r) return r;
    r = lender->upload ? stoke_upload_set_epoch(lender->upload, epoch)
                       : stoke_loader_set_epoch(lender->loader, epoch);
    lender->at_start = 1;
    return end(lender, r);
}

int stoke_lender_state(stoke_lender *lender, char text[STOKE_LENDER_STATE], stoke_error *err)
{
    int r = begin(lender, err);
    if (r) return r;
    if (lender->upload)
        stoke_upload_state(lender->upload, text, STOKE_LENDER_STATE);
    else
        stoke_loader_state(lender->loader, text, STOKE_LENDER_STATE);
    return end(lender, STOKE_OK);
}

int stoke_lender_restore(stoke_lender *lender, const char *text, stoke_error *err)
{
    int r = begin(lender, err);
    if (r) return r;
    r = lender->upload ? stoke_upload_restore(lender->upload, text, err)
                       : stoke_loader_restore(lender->loader, text, err);
    if (!r) lender->at_start = 1;
    return end(lender, r);
}

int stoke_lender_batches(stoke_lender *lender, uint64_t *all, uint64_t *left, stoke_error *err)
{
    int r = begin(lender, err);
    if (r) return r;
    *all = lender->upload ? stoke_upload_batches(lender->upload) : stoke_loader_batches(lender->loader);
    *left = lender->upload ? stoke_upload_remaining(lender->upload) : stoke_loader_remaining(lender->loader);
    return end(lender, STOKE_OK);
}

/* ---- what is known ---- */

/* Gate held, not closed. */
static void read_stats(stoke_lender *lender, stoke_loader_stats_data *stats)
{
    stoke_loader_stats(lender->watched, stats);
    if (!lender->upload) return;
    const received *got = &lender->received;
    stats->batches = got->batches;
    stats->samples = got->samples;
    stats->replaced = got->replaced;
    stats->skipped = got->skipped;
    stats->first_batch_ns = got->first_ns;
    stats->stage[STOKE_STAGE_BATCH_WAIT] =
        (stoke_stage_time){ .wall_ns = got->waited_ns, .count = got->batches };
    stats->ready_batches = stoke_upload_ready(lender->upload);
    stats->slots = stoke_upload_memory_plan(lender->upload)->slots;
}

int stoke_lender_stats_get(stoke_lender *lender, stoke_lender_stats *stats, stoke_error *err)
{
    int r = stoke_lender_check(lender, err);
    if (r) return r;
    pthread_mutex_lock(&lender->gate);
    if (lender->watched)
        read_stats(lender, &stats->loader);
    else
        stats->loader = lender->last;
    stats->elapsed_ns = lender->last_ns > lender->first_ns ? lender->last_ns - lender->first_ns : 0;
    stats->held = atomic_load(&lender->held);
    stats->slots = lender->upload ? stoke_upload_memory_plan(lender->upload)->slots : lender->plan.slots;
    pthread_mutex_unlock(&lender->gate);
    return STOKE_OK;
}

/* Copies what is new; what there is no memory for is left out. Gate held, loader open. */
static void keep_bad(stoke_lender *lender)
{
    stoke_bad_file bad;
    while (!stoke_loader_bad(lender->watched, lender->n_bad, &bad)) {
        stoke_lender_bad_file *list = stk_realloc(lender->bad, (lender->n_bad + 1) * sizeof *list);
        if (!list) return;
        lender->bad = list;
        const stoke_lender_bad_file one = { stk_strdup(bad.path), stk_strdup(bad.reason), bad.code };
        if (!one.path || !one.reason) {
            stk_free(one.path), stk_free(one.reason);
            return;
        }
        list[lender->n_bad++] = one;
    }
}

int stoke_lender_bad(stoke_lender *lender, const stoke_lender_bad_file **list, size_t *n, stoke_error *err)
{
    int r = stoke_lender_check(lender, err);
    if (r) return r;
    pthread_mutex_lock(&lender->gate);
    if (lender->watched) keep_bad(lender);
    *list = lender->bad;
    *n = lender->n_bad;
    pthread_mutex_unlock(&lender->gate);
    return STOKE_OK;
}

int stoke_lender_warning(stoke_lender *lender, char *text, size_t size, stoke_error *err)
{
    int r = stoke_lender_check(lender, err);
    if (r) return r;
    pthread_mutex_lock(&lender->gate);
    const char *warning = lender->watched ? stoke_loader_warning(lender->watched) : NULL;
    snprintf(text, size, "%s", warning ? warning : "");
    pthread_mutex_unlock(&lender->gate);
    return STOKE_OK;
}

stoke_memory_plan stoke_lender_memory(const stoke_lender *lender)
{
    return lender->plan;
}

const stoke_dataset *stoke_lender_dataset(const stoke_lender *lender)
{
    return lender->dataset;
}

const stoke_data_params *stoke_lender_params(const stoke_lender *lender)
{
    return &lender->params;
}

const stoke_device_info *stoke_lender_device(const stoke_lender *lender)
{
    return lender->device ? stoke_device_describe(lender->device) : NULL;
}

const stoke_upload_memory *stoke_lender_device_memory(const stoke_lender *lender)
{
    return lender->upload ? stoke_upload_memory_plan(lender->upload) : NULL;
}

const char *stoke_lender_placement(const stoke_lender *lender)
{
    const char *why = NULL;
    if (lender->upload) stoke_upload_placement(lender->upload, &why);
    return why;
}
