/* SPDX-License-Identifier: Apache-2.0
 *
 * A data set with its loader, made for a world in which batches outlive the loader, calls come from several
 * threads, and processes fork. No Python inside. Functions that may wait say so: they are called without the
 * GIL.
 *
 *   engine.c         batches in host memory: a loader; and all that does not depend on where they are
 *   engine_device.c  batches on a device: a feed (<stoke/upload.h>) and its device
 *
 * A *lease* is a batch that somebody holds. Its slot goes back to the ring when the last count on the lease
 * is dropped. Closing the engine ends threads and frees every slot that is not leased; leased ones follow,
 * each when it is let go.
 *
 * What flows to a device, and who owns it: the feed copies batches from pinned slots into a ring on the
 * device, by a stream of its own and ahead of the consumer; the lease owns one slot of that ring. Whoever
 * takes a tensor names its stream (py_lease_lend): that stream waits for the copy, and nobody else does. A
 * slot is used again when two things have happened: the tensors are gone, and so is the work that those
 * streams had been given by then, of which an event tells. Device and feed go with the last lease.
 *
 * In a child of fork there are no worker threads, and locks are as they happened to be: every call fails with
 * STOKE_E_STATE, and dropping leases or the engine does nothing.
 */
#ifndef STOKE_PYTHON_SRC_ENGINE_H
#define STOKE_PYTHON_SRC_ENGINE_H

#include <stoke/upload.h>
#include <stoke/tools/terminal.h>
#include <stoke/tools/loader.h>

#include "python/src/hold.h"

typedef struct py_engine py_engine;

typedef struct py_lease {
    py_hold hold; /* first */
    py_engine *engine;
    /* In host memory: that of the slot, and the slot. NULL on a device. */
    struct py_block *block;
    const stoke_batch *slot;
    const stoke_device_batch *cargo; /* on a device; NULL in host memory */
    /* As the loader gave it, but ids, names, status and lambda are copies in the lease: they are valid as
     * long as it. On a device, images and masks are its addresses (CUdeviceptr, cl_mem). */
    stoke_batch batch;
} py_lease;

/* May wait. `slots` says where the memory of slots comes from, and the engine takes a count on `keeper`,
 * which it lives in; both NULL = stoke_allocator_pages(). Pinned memory is plugged in here: who then
 * copies to a device without waiting must keep its count on the lease until the copy has ended (_pinning.py
 * does), because a slot let go is filled again at once. The strings of params must live as long as the
 * engine. */
int py_engine_open(py_engine **out, const stoke_data_params *params, const stoke_allocator *slots,
                   py_hold *keeper, stoke_error *err);
/* Where batches go. */
typedef struct py_route {
    const char *device; /* as stoke_device_open takes it */
    stoke_upload_params upload;
} py_route;
/* May wait. The same with batches on a device. STOKE_E_DEVICE: it cannot be used, with the reason, what to do
 * and what is there. */
int py_engine_open_on(py_engine **out, const stoke_data_params *params, const py_route *to, stoke_error *err);

/* May wait. Stops the loader; the engine stays, closed. Waits for a next() in another thread, which gives up.
 */
void py_engine_close(py_engine *engine);
/* May wait. Closes, and lets go: what leases need stays until the last of them ends. NULL is fine. */
void py_engine_drop(py_engine *engine);
/* What a status is to be raised as: an op of an unknown name is a wrong setting, not a missing file. */
int py_engine_status(int status, const char *message);

/* May wait. The next batch, as stoke_loader_next_until for at most `wait_ns`. The lease has one count, the
 * caller's. STOKE_E_STARVED says how many batches are held. */
int py_engine_next(py_engine *engine, uint64_t wait_ns, py_lease **lease, stoke_error *err);

/* Of leases on a device, by any thread: as stoke_upload_lend, which does not wait; stoke_upload_arrive and
 * stoke_upload_fetch, which do. `array` is what batch.images, masks or masks_b says. */
int py_lease_lend(py_lease *lease, void *stream, stoke_error *err);
int py_lease_arrive(py_lease *lease, stoke_error *err);
int py_lease_fetch(py_lease *lease, const void *array, void *to, size_t bytes, stoke_error *err);
/* May wait. As stoke_batch_digest, wherever the batch is. */
int py_lease_digest(py_lease *lease, uint8_t digest[16], stoke_error *err);

/* These may wait. */
int py_engine_set_epoch(py_engine *engine, uint64_t epoch, stoke_error *err);
enum { PY_STATE_TEXT = 512 };
int py_engine_state(py_engine *engine, char text[PY_STATE_TEXT], stoke_error *err);
int py_engine_restore(py_engine *engine, const char *text, stoke_error *err);
/* Batches of an epoch; left of it. */
int py_engine_batches(py_engine *engine, uint64_t *all, uint64_t *left, stoke_error *err);

/* From here on nothing waits. */

/* Statistics, with the time from the first next() to the end of the last one. They stay after closing. On a
 * device, samples, batches, bad rows, waits and slots are those of the consumer; the loader runs ahead. */
typedef struct py_engine_stats {
    stoke_loader_stats_data loader;
    uint64_t elapsed_ns;
    uint32_t held, slots; /* batches out now; as many as there can be */
} py_engine_stats;
int py_engine_stats_get(py_engine *engine, py_engine_stats *stats, stoke_error *err);

/* Bad files so far, *n of them; the list stays after closing and is valid until the next call. One thread at
 * a time (callers hold the GIL). */
typedef struct py_bad {
    char *path, *reason;
    int code;
} py_bad;
int py_engine_bad(py_engine *engine, const py_bad **list, size_t *n, stoke_error *err);

/* Copies the loader's warning; "" when there is none. */
int py_engine_warning(py_engine *engine, char *text, size_t size, stoke_error *err);

stoke_memory_plan py_engine_memory(const py_engine *engine);
/* The device batches go to, what the feed takes of it, and who augments for what reason. All NULL when
 * batches are in host memory. */
const stoke_device_info *py_engine_device(const py_engine *engine);
const stoke_upload_memory *py_engine_device_memory(const py_engine *engine);
const char *py_engine_placement(const py_engine *engine);
const stoke_dataset *py_engine_dataset(const py_engine *engine);
const stoke_data_params *py_engine_params(const py_engine *engine);
/* STOKE_E_STATE in a child of fork, with what to do about it. */
int py_engine_check(const py_engine *engine, stoke_error *err);

#endif
