/* SPDX-License-Identifier: Apache-2.0
 *
 * The loader: worker threads fill rows of a fixed ring of batch slots; batches come out in order.
 *
 *     stoke_loader_next ──► batch ──► use it ──► stoke_batch_release
 *
 * Promises, each with a test:
 *
 * (a) The bytes of a batch depend on data, settings, seed, epoch and position only: not on workers, prefetch,
 * world size or the point of resumption.
 *
 * (b) A bad file never kills or silently alters a run: see stoke_policy and `max_bad`.
 *
 * (c) Memory has a ceiling, known before the first batch: see stoke_memory_plan.
 */
#ifndef STOKE_LOADER_H
#define STOKE_LOADER_H

#include <stoke/dataset.h>
#include <stoke/memory.h>

typedef struct stoke_loader stoke_loader;

/* What became of a row. */
enum stoke_row_status {
    STOKE_ROW_OK = 0,
    STOKE_ROW_REPLACED = 1 /* its own sample was bad; ids and names are those of its substitute */
};

typedef struct stoke_batch {
    uint64_t index; /* global index of the batch in the epoch (all ranks) */
    uint64_t epoch;
    uint64_t position; /* global position of its first row; >= the sample count for padding batches */
    /* Rows that hold a sample. The last batch, and batches under policy skip, may be short; one of which skip
     * leaves nothing is passed over, or, with several ranks, comes with count 0 so that the ranks stay in
     * step. */
    uint32_t count;
    uint32_t capacity; /* rows of the slot */
    uint32_t height, width, channels;
    stoke_layout layout;
    stoke_dtype image_dtype, mask_dtype;
    void *images; /* capacity rows, each image_row_bytes long, 64-byte aligned */
    void *masks;  /* capacity rows of height x width */
    size_t image_row_bytes, mask_row_bytes;
    const uint64_t *ids;      /* dataset ids, `count` of them */
    const char *const *names; /* the dataset's strings */
    const uint8_t *status;    /* enum stoke_row_status */
    /* With a mixup op in the pipeline: the second masks (as `masks`) and the share of the first, 1 where a
     * row is not mixed. The loss is lambda * L(masks) + (1 - lambda) * L(masks_b), each over its own pixels
     * that are not ignored. NULL without one (cutmix pastes image and mask, and needs neither), and
     * with targets: mixup blends them. */
    void *masks_b;
    const float *lambda;
    /* Task restore: what each image should become, of its type, layout and normalisation; capacity rows of
     * target_height x target_width (scale times the images'). masks are NULL then, mask_row_bytes 0. NULL
     * otherwise. */
    void *targets;
    size_t target_row_bytes;
    uint32_t target_height, target_width;
} stoke_batch;

/* How much memory the loader will use; printed before the first batch. */
typedef struct stoke_memory_plan {
    uint32_t slots, workers;
    uint64_t slot_bytes;   /* one slot: images + masks + bookkeeping */
    uint64_t worker_bytes; /* one worker: file bytes, pixels, resize rows, decoder */
    uint64_t large_bytes;  /* for one picture at a time that needs more than a worker has; 0: none does */
    uint64_t cache_bytes;  /* cache_ram, and what is known about files; 0 without a cache */
    uint64_t fixed_bytes;  /* what the process held before the ring: code, libraries, names and ids */
    uint64_t beside_bytes; /* what the loader's maker holds himself (stoke_loader_create_beside), ... */
    const char *beside;    /* ... and what he calls it */
    uint64_t total_bytes;  /* slots * slot_bytes + workers * worker_bytes + large_, cache_, fixed_ and
                              beside_bytes */
    uint64_t limit_bytes;  /* 0 = none */
    int prefetch_reduced;  /* 1: prefetch was lowered to honour memory_limit */
    uint32_t largest_width, largest_height; /* the image the worker share was planned for */
    uint64_t images_probed;                 /* how many headers were read to find it */
} stoke_memory_plan;

/* Creates threads, ring and tables; work on the first epoch starts at once. The dataset must outlive the
 * loader. allocator NULL = stoke_allocator_pages(). STOKE_E_LIMIT: memory_limit cannot be met; the message
 * has the arithmetic. */
STOKE_API int stoke_loader_create(stoke_loader **out, const stoke_dataset *dataset,
                                  const stoke_data_params *params, const stoke_allocator *allocator,
                                  stoke_error *err);
/* Stops the workers and frees everything, also batches that were not released. */
STOKE_API void stoke_loader_destroy(stoke_loader **loader);

STOKE_API stoke_memory_plan stoke_loader_memory(const stoke_loader *loader);
/* Batches of this rank in a whole epoch, and left in the current one (from where it was started or restored).
 */
STOKE_API uint64_t stoke_loader_batches(const stoke_loader *loader);
STOKE_API uint64_t stoke_loader_remaining(const stoke_loader *loader);

/* The next batch, in order; waits for it. 0, STOKE_E_END at the end of the epoch, STOKE_E_STARVED when the
 * caller holds every slot, STOKE_E_TOO_BAD or the sample's own error under policy stop. After an error other
 * than STARVED and END the loader stays failed until set_epoch or restore. May be called from one thread at a
 * time. */
STOKE_API int stoke_loader_next(stoke_loader *loader, const stoke_batch **batch);

/* The same for callers that must look up now and then (signals, a window): STOKE_E_TIMEOUT when the batch is
 * not ready by `deadline_ns` of CLOCK_MONOTONIC. Nothing is lost, the next call goes on waiting for the same
 * batch; a deadline in the past only asks. With workers = 0 the clock is looked at after each sample, and
 * every call makes at least one. */
STOKE_API int stoke_loader_next_until(stoke_loader *loader, const stoke_batch **batch, uint64_t deadline_ns);

/* Gives the slot back; sets *batch to NULL. Any thread, any order. */
STOKE_API void stoke_batch_release(stoke_loader *loader, const stoke_batch **batch);

/* Message of the last failure of stoke_loader_next; "" if none. Valid until the next call on the loader. */
STOKE_API const char *stoke_loader_error(const stoke_loader *loader);

/* Starts an epoch from its first position. Threads and slots stay; what was prefetched of the old one is
 * discarded. Held batches stay valid. Without a call, the epoch after END is started by set_epoch(epoch + 1).
 */
STOKE_API int stoke_loader_set_epoch(stoke_loader *loader, uint64_t epoch);

/* State: a line of JSON,
 * {"version":1,"seed":..,"epoch":..,"position":..,"count":..,"order":"..","fingerprint":".."}. The position
 * is the global one after the last batch handed out by next(), assuming every rank has taken as many: save it
 * at the same step on all ranks. Restores with another number of workers, prefetch depth or ranks. Returns
 * the length, snprintf-style. */
STOKE_API int stoke_loader_state(const stoke_loader *loader, char *text, size_t size);
STOKE_API int stoke_loader_restore(stoke_loader *loader, const char *text, stoke_error *err);

/* Stages of a sample, in order; every one stamps wall and CPU time on one clock (CLOCK_MONOTONIC). */
typedef enum stoke_stage {
    STOKE_STAGE_READ = 0,     /* bytes from the files; what a cache gives and takes */
    STOKE_STAGE_DECODE_IMAGE, /* and target */
    STOKE_STAGE_DECODE_MASK,  /* and label map */
    STOKE_STAGE_FIT,          /* cut and resize */
    STOKE_STAGE_WRITE,        /* warp, colour, type, layout, normalisation, into the batch row */
    STOKE_STAGE_SLOT_WAIT,    /* a worker waits for a free slot: the consumer is the slower part */
    STOKE_STAGE_BATCH_WAIT,   /* the consumer waits for a batch: the loader is the slower part */
    STOKE_STAGES
} stoke_stage;

/* What is done to make a batch, summed over its samples. */
typedef enum stoke_work {
    STOKE_WORK_READ = 0, /* bytes from files, archives, caches */
    STOKE_WORK_DECODE,   /* image and mask */
    STOKE_WORK_FIT,      /* cut and resize */
    STOKE_WORK_AUGMENT,  /* warp, colour, type and layout, into the row; mixing */
    STOKE_WORK_COLLATE,  /* other loaders: stacking rows, passing them between processes */
    STOKE_WORK_KINDS
} stoke_work;

/* cpu_ns + queued_ns <= wall_ns: what a clock's grain puts beyond that is cut off. */
typedef struct stoke_work_time {
    uint64_t wall_ns, cpu_ns;
    uint64_t
        queued_ns; /* ready to run, without a core (run queue); what is left of wall is waiting for files */
} stoke_work_time;

typedef struct stoke_stage_time {
    uint64_t wall_ns, cpu_ns, count;
} stoke_stage_time;

typedef struct stoke_loader_stats_data {
    stoke_stage_time stage[STOKE_STAGES];
    uint64_t samples, batches, replaced, skipped;
    uint64_t bad_samples; /* distinct */
    uint64_t bytes_read;
    /* Calls to open or read that were tried again: file systems that hiccup, want of descriptors. Where that
     * helped, the samples are the same as without. */
    uint64_t retries;
    uint64_t first_batch_ns; /* wait for the first batch of the current epoch */
    /* By this library in this process since creation: stops growing in steady state. */
    uint64_t heap_allocations;
    uint64_t memory_bytes; /* held by ring, workers and cache_ram now; compare with the plan */
    /* Of the samples delivered, those a cache gave (from memory, from disk) and did not have, and of the last
     * those it has taken; entries that were damaged and made again; bytes it holds (disk: see cache_disk;
     * without a budget those added since its folder was opened). All 0 without a cache. */
    uint64_t cache_hits_ram, cache_hits_disk, cache_misses, cache_stored, cache_damaged;
    uint64_t cache_ram_bytes, cache_disk_bytes;
    /* Batches that next() would give at once, in order, and the slots of the ring they lie in. */
    uint64_t ready_batches, slots;
} stoke_loader_stats_data;

/* A consistent copy; may be called at any time. */
STOKE_API void stoke_loader_stats(const stoke_loader *loader, stoke_loader_stats_data *stats);

/* What went wrong without harm to the batches, for people: the cache or the quarantine list cannot be written
 * any more, say. NULL when nothing did. Belongs to the loader. */
STOKE_API const char *stoke_loader_warning(const stoke_loader *loader);

/* Bad samples met so far (distinct), for reports. index < stats.bad_samples. */
STOKE_API int stoke_loader_bad(const stoke_loader *loader, size_t index, stoke_bad_file *bad);

#endif
