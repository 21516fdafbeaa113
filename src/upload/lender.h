/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the lender share; see <stoke/tools/lease.h>.
 *
 * Two locks. `turn` belongs to whoever calls the functions of loader or upload of which only one may run at a
 * time; next() keeps it while it waits. `gate` is held for moments only, by those who must not wait: who
 * gives a slot back, reads statistics, or takes the loader away. The order is turn, gate.
 */
#ifndef STOKE_SRC_UPLOAD_LENDER_H
#define STOKE_SRC_UPLOAD_LENDER_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include <stoke/tools/lease.h>

/* What the consumer has got of an upload, whose loader runs ahead of it. */
typedef struct stk_lender_received {
    uint64_t batches, samples, replaced, skipped;
    uint64_t waited_ns;            /* for all of them */
    uint64_t first_ns, pending_ns; /* for the first of the epoch; since the last one came */
} stk_lender_received;

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
    struct stk_lender_block *blocks;
    stoke_lease *spare; /* that nobody holds; under gate */
    /* On a device, else NULL. Both stay until the last lease ends; closing stops the upload. */
    stoke_device *device;
    stoke_upload *upload;
    int streams; /* its batches are ordered by streams: nobody waits for them to arrive */
    const stoke_loader
        *watched; /* the loader, or that of the upload; NULL: closed. Changed under both locks */
    int at_start; /* no batch of the epoch has come yet; the turn's */
    stk_lender_received received; /* under gate */
    uint64_t first_ns, last_ns;   /* under gate */
    stoke_loader_stats_data last; /* from closing on */
    stoke_lender_bad_file *bad;
    size_t n_bad;
};

/* ---- lender_device.c ---- */

/* Opens device and upload; sets `watched`. */
int stk_lender_open(stoke_lender *lender, const stoke_data_params *params, const stoke_lender_route *to,
                    stoke_error *err);
/* A batch that may be used, or what the upload says, with its message. Turn held. */
int stk_lender_next(stoke_lender *lender, uint64_t deadline_ns, const stoke_device_batch **cargo,
                    stoke_error *err);
/* Notes what came (NULL: nothing) after a wait. Turn and gate held. */
void stk_lender_stamp(stoke_lender *lender, uint64_t waited_ns, const stoke_batch *came);
/* Puts what the consumer has got into the figures of the loader. Gate held. */
void stk_lender_stats(stoke_lender *lender, stoke_loader_stats_data *stats);

#endif
