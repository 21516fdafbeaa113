/* SPDX-License-Identifier: Apache-2.0
 *
 * The upload: batches on a device, ahead of the consumer. A loader fills pinned slots, a thread copies
 * them on a separate stream into a ring of device slots, where kernels finish them if placement says so.
 * Nothing is waited for but events.
 *
 *     stoke_upload_next ──► batch (the consumer's stream waits for it) ──► use it ──► stoke_upload_release
 * (the slot waits for the stream)
 *
 * The bytes of a batch are those of a loader with the same settings: see stoke_device_info.exact_math.
 */
#ifndef STOKE_UPLOAD_H
#define STOKE_UPLOAD_H

#include <stoke/device.h>
#include <stoke/loader.h>

typedef struct stoke_upload stoke_upload;

/* Who augments. auto: measures both on the first batches and takes what leaves the device busiest with the
 * least CPU. */
typedef enum stoke_placement {
    STOKE_PLACEMENT_HOST = 0,
    STOKE_PLACEMENT_DEVICE = 1,
    STOKE_PLACEMENT_AUTO = 2
} stoke_placement;
/* How bytes cross. */
typedef enum stoke_transfer {
    STOKE_TRANSFER_STREAM = 0,  /* pinned memory and a separate stream, `depth` batches ahead */
    STOKE_TRANSFER_PINNED = 1,  /* pinned memory, on the consumer's stream: asynchronous, nothing overlaps */
    STOKE_TRANSFER_PAGEABLE = 2 /* ordinary memory, on the consumer's stream; the host waits for every copy */
} stoke_transfer;

typedef struct stoke_upload_params {
    uint32_t struct_size;
    int placement, transfer;
    int64_t depth;         /* device slots ahead of the consumer */
    double step_ms;        /* auto: a training step of the consumer; 0 = not known */
    void *consumer_stream; /* CUstream of the caller; NULL = the upload makes one */
    int reads;             /* 1: the caller will read batches back, and the plan has their copies */
} stoke_upload_params;
STOKE_API stoke_upload_params stoke_upload_defaults(void);

typedef struct stoke_device_batch {
    stoke_batch
        host; /* index, epoch, count, sizes, types, ids, names, status; its pointers to pixels are NULL */
    uint64_t images, masks,
        masks_b;         /* device addresses (CUdeviceptr), cl_mem, or host pointers; masks_b 0 = none */
    const float *lambda; /* on the host, `count` of them; NULL without a mixup op */
    uint32_t slot;
} stoke_device_batch;

/* Device memory and host memory, before the first batch. */
typedef struct stoke_upload_memory {
    stoke_memory_plan host;
    uint32_t slots;
    uint64_t slot_bytes;  /* a finished batch, and a raw one where the device augments */
    uint64_t work_bytes;  /* tables and planes of the kernels */
    uint64_t total_bytes; /* slots * slot_bytes + work_bytes */
    uint64_t table_bytes; /* on the host, pinned, and in host.beside_bytes: the kernels' tables on their
                             way. So is total_bytes where the device has no memory of its own */
    uint64_t read_bytes;  /* on the host, and in host.beside_bytes: copies of stoke_upload_read */
} stoke_upload_memory;

/* The dataset and the device outlive the upload. STOKE_E_NOMEM: device memory is short, with the arithmetic
 * and what to lower. */
STOKE_API int stoke_upload_create(stoke_upload **out, const stoke_dataset *dataset,
                                  const stoke_data_params *data, stoke_device *device,
                                  const stoke_upload_params *params, stoke_error *err);
/* Cancels what is on the way. Batches that were not released are gone. */
STOKE_API void stoke_upload_destroy(stoke_upload **upload);

STOKE_API const stoke_upload_memory *stoke_upload_memory_plan(const stoke_upload *upload);
/* Batches of an epoch; and of the current one, left for the consumer. */
STOKE_API uint64_t stoke_upload_batches(const stoke_upload *upload);
STOKE_API uint64_t stoke_upload_remaining(const stoke_upload *upload);
/* The loader inside, for its statistics, bad files and warnings; they run ahead of the consumer. NULL after
 * stoke_upload_stop. */
STOKE_API const stoke_loader *stoke_upload_loader(const stoke_upload *upload);

/* As stoke_loader_next: 0, STOKE_E_END, STOKE_E_STARVED, the loader's errors; STOKE_E_DEVICE when the device
 * is lost. Later work of the consumer's stream waits for the batch; the host does not, except with
 * STOKE_TRANSFER_PAGEABLE. */
STOKE_API int stoke_upload_next(stoke_upload *upload, const stoke_device_batch **batch);
/* The same for callers that must look up now and then, as stoke_loader_next_until: STOKE_E_TIMEOUT, and
 * nothing is lost. */
STOKE_API int stoke_upload_next_until(stoke_upload *upload, const stoke_device_batch **batch,
                                      uint64_t deadline_ns);
/* Work put on the consumer's stream before this call still sees the batch, and so does work that was put on
 * streams it was lent to. Any thread, any order, also while another thread is in next(). */
STOKE_API void stoke_upload_release(stoke_upload *upload, const stoke_device_batch **batch);
STOKE_API const char *stoke_upload_error(const stoke_upload *upload);

/* ---- a batch in other hands: any thread, while the batch is held ---- */

/* Streams that one batch can be lent to. */
enum { STOKE_LENT_MAX = 8 };
/* To one more stream of the caller's (CUstream, NULL = the default one; cuda only): its later work waits for
 * the batch, and the slot is filled again only after what it had been given when the batch was released. The
 * stream must live until then. Nothing waits on the host. STOKE_E_LIMIT: to more than STOKE_LENT_MAX. */
STOKE_API int stoke_upload_lend(stoke_upload *upload, const stoke_device_batch *batch, void *stream,
                                stoke_error *err);
/* The host waits until the batch is there: for those who have no stream to order. */
STOKE_API int stoke_upload_arrive(stoke_upload *upload, const stoke_device_batch *batch, stoke_error *err);
/* Copies the first `bytes` of images, masks or masks_b (`array` is its address in the batch) to host memory,
 * behind what the streams it was lent to have been given so far, and waits for that. */
STOKE_API int stoke_upload_fetch(stoke_upload *upload, const stoke_device_batch *batch, uint64_t array,
                                 void *to, size_t bytes, stoke_error *err);

/* Rows that were replaced, or left out (policy skip), in the batches handed out so far. Batches of which
 * nothing was left are passed over; theirs count with the next batch, or with STOKE_E_END. */
STOKE_API void stoke_upload_bad(const stoke_upload *upload, uint64_t *replaced, uint64_t *skipped);

STOKE_API int stoke_upload_set_epoch(stoke_upload *upload, uint64_t epoch);
/* As stoke_loader_state: after the last batch handed out by next(), whatever is on the way. An upload on
 * another device, or a loader, goes on from it with the same bytes. */
STOKE_API int stoke_upload_state(const stoke_upload *upload, char *text, size_t size);
STOKE_API int stoke_upload_restore(stoke_upload *upload, const char *text, stoke_error *err);

/* Waits for the batch and copies it to host memory that stays valid until it is released: for digests and
 * tests. That memory, a batch for every slot that was ever read, is in the plan if params.reads said so. */
STOKE_API int stoke_upload_read(stoke_upload *upload, const stoke_device_batch *batch, stoke_batch *host,
                                stoke_error *err);

#endif
