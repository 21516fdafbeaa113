/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the engine share; see engine.h.
 *
 * Two locks. `turn` belongs to whoever calls the functions of loader or feed of which only one may run at a
 * time; next() keeps it while it waits. `gate` is held for moments only, by those who must not wait: who
 * gives a slot back, reads statistics, or takes the loader away. The order is turn, gate.
 */
#ifndef STOKE_PYTHON_SRC_ENGINE_PRIVATE_H
#define STOKE_PYTHON_SRC_ENGINE_PRIVATE_H

#include <pthread.h>
#include <sys/types.h>

#include "python/src/engine.h"

/* What the consumer has got of a feed, whose loader runs ahead of it. */
typedef struct py_received {
    uint64_t batches, samples, replaced, skipped;
    uint64_t waited_ns;            /* for all of them */
    uint64_t first_ns, pending_ns; /* for the first of the epoch; since the last one came */
} py_received;

struct py_engine {
    py_hold hold; /* the owner's count, one of every lease and one of every block */
    pid_t pid;
    stoke_data_params params;
    stoke_allocator source; /* of slots in host memory, */
    py_hold *keeper;        /* and what it lives in; NULL: none */
    stoke_dataset *dataset;
    stoke_memory_plan plan;
    pthread_mutex_t turn, gate;
    atomic_int closing;
    atomic_uint held;
    stoke_loader *loader; /* NULL: closed, or the feed has it. Changed under both locks */
    struct py_block *blocks;
    /* On a device, else NULL. Both stay until the last lease ends; closing stops the feed. */
    stoke_device *device;
    stoke_upload *upload;
    int streams;                 /* its batches are ordered by streams: nobody waits for them to arrive */
    const stoke_loader *watched; /* the loader, or that of the feed; NULL: closed. Changed under both locks */
    int at_start;                /* no batch of the epoch has come yet; the turn's */
    py_received received;        /* under gate */
    uint64_t first_ns, last_ns;  /* under gate */
    stoke_loader_stats_data last; /* from closing on */
    py_bad *bad;
    size_t n_bad;
};

int py_fail(stoke_error *err, int code, const char *format, ...) STOKE_PRINTF(3, 4);
/* Hands on a message of the library as it is. */
int py_pass(stoke_error *err, int code, const char *message);

/* ---- engine_device.c ---- */

/* Opens device and feed; sets `watched`. */
int py_feed_open(py_engine *engine, const stoke_data_params *params, const py_route *to, stoke_error *err);
/* A batch that may be used, or what the feed says, with its message. Turn held. */
int py_feed_next(py_engine *engine, uint64_t deadline_ns, const stoke_device_batch **cargo, stoke_error *err);
/* Notes what came (NULL: nothing) after a wait. Turn and gate held. */
void py_feed_stamp(py_engine *engine, uint64_t waited_ns, const stoke_batch *came);
/* Puts what the consumer has got into the figures of the loader. Gate held. */
void py_feed_stats(py_engine *engine, stoke_loader_stats_data *stats);

#endif
