/* SPDX-License-Identifier: Apache-2.0
 *
 * What bindings to other languages need: a data set with its loader, made for a world in which batches
 * outlive the loader, calls come from several threads, and processes fork. Functions that may wait say so: a
 * binding calls them without the lock of its interpreter.
 *
 * A *lease* is a batch that somebody holds. Its slot goes back to the ring when the last count on the lease
 * is dropped. Closing the lender ends threads and frees every slot that is not leased; leased ones follow,
 * each when it is let go.
 *
 * What flows to a device, and who owns it: the upload copies batches from pinned slots into a ring on the
 * device, on a separate stream and ahead of the consumer; the lease owns one slot of that ring. Whoever
 * takes a tensor names its stream (stoke_lease_lend): that stream waits for the copy, and nobody else does. A
 * slot is used again when two things have happened: the tensors are gone, and so is the work that those
 * streams had been given by then, of which an event tells. Device and upload go with the last lease.
 *
 * In a child of fork there are no worker threads, and locks are as they happened to be: every call fails with
 * STOKE_E_STATE, and dropping leases or the lender does nothing.
 */
#ifndef STOKE_TOOLS_LEASE_H
#define STOKE_TOOLS_LEASE_H

#include <stoke/upload.h>

#include <stoke/tools/loader.h>

/* Who keeps memory alive: a count that arrays, tensors and whoever else uses it share. They are dropped by
 * any thread, also while an interpreter ends. */
typedef struct stoke_hold {
    unsigned count;                       /* changed atomically */
    void (*end)(struct stoke_hold *hold); /* called once, by whoever lets go last */
} stoke_hold;

/* Begins with one count, the caller's. */
STOKE_API void stoke_hold_begin(stoke_hold *hold, void (*end)(stoke_hold *hold));
STOKE_API stoke_hold *stoke_hold_take(stoke_hold *hold);
/* NULL is fine. */
STOKE_API void stoke_hold_drop(stoke_hold *hold);

/* `bytes` of memory behind its own count; *data is aligned to 64 bytes. NULL when there is none. */
STOKE_API stoke_hold *stoke_hold_memory(size_t bytes, void **data);

typedef struct stoke_lender stoke_lender;

typedef struct stoke_lease {
    stoke_hold hold; /* first */
    stoke_lender *lender;
    /* In host memory: that of the slot, and the slot. NULL on a device. */
    struct stk_lender_block *block;
    const stoke_batch *slot;
    const stoke_device_batch *cargo; /* on a device; NULL in host memory */
    /* As the loader gave it, but ids, names, status and lambda are copies in the lease: they are valid as
     * long as it. On a device, images and masks are its addresses (CUdeviceptr, cl_mem). */
    stoke_batch batch;
    struct stoke_lease *next; /* of the lender's own, while nobody holds it */
} stoke_lease;

/* May wait. `slots` says where the memory of slots comes from, and the lender takes a count on `keeper`,
 * which it lives in; both NULL = stoke_allocator_pages(). Pinned memory is plugged in here: who then
 * copies to a device without waiting must keep its count on the lease until the copy has ended (_pinning.py
 * of Python does), because a slot let go is filled again at once. The strings of params must live as long as
 * the lender. */
STOKE_API int stoke_lender_open(stoke_lender **out, const stoke_data_params *params,
                                const stoke_allocator *slots, stoke_hold *keeper, stoke_error *err);
/* Where batches go. */
typedef struct stoke_lender_route {
    const char *device; /* as stoke_device_open takes it */
    stoke_upload_params upload;
} stoke_lender_route;
/* May wait. The same with batches on a device. STOKE_E_DEVICE: it cannot be used, with the reason, what to do
 * and what is there. */
STOKE_API int stoke_lender_open_on(stoke_lender **out, const stoke_data_params *params,
                                   const stoke_lender_route *to, stoke_error *err);

/* May wait. Stops the loader; the lender stays, closed. Waits for a next() in another thread, which gives up.
 */
STOKE_API void stoke_lender_close(stoke_lender *lender);
/* May wait. Closes, and lets go: what leases need stays until the last of them ends. NULL is fine. */
STOKE_API void stoke_lender_drop(stoke_lender *lender);
/* What a status is to be raised as: an op of an unknown name is a wrong setting, not a missing file. */
STOKE_API int stoke_lender_status(int status, const char *message);

/* May wait. The next batch, as stoke_loader_next_until for at most `wait_ns`. The lease has one count, the
 * caller's. STOKE_E_STARVED says how many batches are held. */
STOKE_API int stoke_lender_next(stoke_lender *lender, uint64_t wait_ns, stoke_lease **lease,
                                stoke_error *err);

/* Of leases on a device, by any thread: as stoke_upload_lend, which does not wait; stoke_upload_arrive and
 * stoke_upload_fetch, which do. `array` is what batch.images, masks or masks_b says. */
STOKE_API int stoke_lease_lend(stoke_lease *lease, void *stream, stoke_error *err);
STOKE_API int stoke_lease_arrive(stoke_lease *lease, stoke_error *err);
STOKE_API int stoke_lease_fetch(stoke_lease *lease, const void *array, void *to, size_t bytes,
                                stoke_error *err);
/* The device that the batch lies on, NULL for none, and what keeps it open. */
STOKE_API stoke_device *stoke_lease_device(const stoke_lease *lease, stoke_hold **owner);
/* May wait. As stoke_batch_digest, wherever the batch is. */
STOKE_API int stoke_lease_digest(stoke_lease *lease, uint8_t digest[16], stoke_error *err);

/* These may wait. */
STOKE_API int stoke_lender_set_epoch(stoke_lender *lender, uint64_t epoch, stoke_error *err);
enum { STOKE_LENDER_STATE = 512 };
STOKE_API int stoke_lender_state(stoke_lender *lender, char text[STOKE_LENDER_STATE], stoke_error *err);
STOKE_API int stoke_lender_restore(stoke_lender *lender, const char *text, stoke_error *err);
/* Batches of an epoch; left of it. */
STOKE_API int stoke_lender_batches(stoke_lender *lender, uint64_t *all, uint64_t *left, stoke_error *err);

/* From here on nothing waits. */

/* Statistics, with the time from the first next() to the end of the last one. They stay after closing. On a
 * device, samples, batches, bad rows, waits and slots are those of the consumer; the loader runs ahead. */
typedef struct stoke_lender_stats {
    stoke_loader_stats_data loader;
    uint64_t elapsed_ns;
    uint32_t held, slots; /* batches out now; as many as there can be */
} stoke_lender_stats;
STOKE_API int stoke_lender_stats_get(stoke_lender *lender, stoke_lender_stats *stats, stoke_error *err);

/* Bad files so far, *n of them; the list stays after closing and is valid until the next call. One thread at
 * a time (a binding has a lock for that). */
typedef struct stoke_lender_bad_file {
    char *path, *reason;
    int code;
} stoke_lender_bad_file;
STOKE_API int stoke_lender_bad(stoke_lender *lender, const stoke_lender_bad_file **list, size_t *n,
                               stoke_error *err);

/* Copies the loader's warning; "" when there is none. */
STOKE_API int stoke_lender_warning(stoke_lender *lender, char *text, size_t size, stoke_error *err);

STOKE_API stoke_memory_plan stoke_lender_memory(const stoke_lender *lender);
/* The device batches go to, what the upload takes of it, and who augments for what reason. All NULL when
 * batches are in host memory. */
STOKE_API const stoke_device_info *stoke_lender_device(const stoke_lender *lender);
STOKE_API const stoke_upload_memory *stoke_lender_device_memory(const stoke_lender *lender);
STOKE_API const char *stoke_lender_placement(const stoke_lender *lender);
STOKE_API const stoke_dataset *stoke_lender_dataset(const stoke_lender *lender);
STOKE_API const stoke_data_params *stoke_lender_params(const stoke_lender *lender);
/* STOKE_E_STATE in a child of fork, with what to do about it. */
STOKE_API int stoke_lender_check(const stoke_lender *lender, stoke_error *err);

#endif
