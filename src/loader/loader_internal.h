/* SPDX-License-Identifier: Apache-2.0
 *
 * The loader's inside, shared by its files:
 *
 *   loader_config.c  settings -> what every sample has in common
 *   remarks.c        what is odd about the settings
 *   probe.c          headers of the set
 *   memory_plan.c    how much memory that takes, and what keeps workers below it
 *   loader.c         create, destroy, epochs, next, release
 *   worker.c         the schedule, the threads, the policy for bad samples, and mixing
 *   sample.c         one sample (its steps: sample.h), in a worker's scratch memory (scratch.c)
 *   cache_fill.c     a cache made ahead of time
 *   raw.c            rows left to a device
 *   rows.c           batches from pictures in memory, without files and threads
 *   stats.c          what it cost, also by batch; where we are, as JSON; digests
 *   live.c           the same on a page for others to see
 *
 * One lock guards everything below `lock`. A worker takes it once per row (to book the finished row and take
 * the next one) for well under a microsecond, against milliseconds of decoding: no convoy at any number of
 * workers.
 */
#ifndef STOKE_SRC_LOADER_LOADER_INTERNAL_H
#define STOKE_SRC_LOADER_LOADER_INTERNAL_H

#include <pthread.h>
#include <stoke/loader.h>
#include <stoke/tools/order.h>

#include "src/loader/loader.h"

#include "src/loader/scratch.h"
#include "src/loader/memory_plan.h"
#include "src/loader/sample.h"
#include "src/loader/slots.h"
#include "src/source/quarantine.h"

/* Where the schedule stands: which batch of which epoch is cut into rows next. */
typedef struct stk_loader_cursor {
    uint64_t epoch, k; /* k: this rank's batch number in the epoch (counted from the shard's start) */
} stk_loader_cursor;

typedef struct stk_loader_worker {
    stoke_loader *loader;
    stk_scratch scratch;
    pthread_t thread;
    int started;
    int records; /* its row's time in line for a core is asked for */
    stk_batch_run_queue line;
    uint64_t memory; /* held by the scratch memory after its last row; read and written under the lock */
} stk_loader_worker;

struct stoke_loader {
    stk_loader_config config;
    stoke_order order;  /* epoch is set per row */
    double *cumulative; /* weighted order's sums, or NULL */
    stoke_policy policy;
    stk_quarantine *quarantine;
    uint64_t max_bad;          /* distinct bad samples allowed */
    uint64_t met;              /* tickets up to the last batch of next(), or the one that failed */
    stk_quarantine_entry told; /* by stk_loader_next_bad */
    int tells;                 /* there is one */
    stk_memory_gate gate;
    stoke_memory_plan plan;
    stk_scratch_bytes granted; /* of it to a worker, in parts */
    int64_t nice;
    uint32_t batch, rank, world;
    int drop_last;
    uint64_t heap_calls_at_start;

    stk_loader_worker *workers; /* workers[0] is the caller's when `threads` is 0 */
    uint32_t threads, benches;

    pthread_mutex_t lock;
    pthread_cond_t work;  /* a slot became free, or stopping */
    pthread_cond_t ready; /* a batch became ready, or the last row in flight ended */
    int stopping, paused, resting;
    int cancelled;         /* next() does not wait: stk_loader_cancel */
    stk_batch_spans spans; /* copied by every worker with its next row */
    int recording;         /* likewise */
    uint32_t in_flight;
    stk_slots slots;
    stk_slot *filling; /* slot whose rows are being handed out */
    stk_loader_cursor schedule;
    uint64_t tickets;      /* rows put on the schedule so far */
    int fresh;             /* the next batch of the schedule is the first since it was set */
    uint64_t restarted_ns; /* when that was; 0 = never since it was made */
    uint64_t window_ns;    /* waits for a slot that the next row puts an end to */

    stk_loader_route route; /* at NULL: none, epoch by epoch */
    uint64_t epoch;         /* the one being delivered */
    uint64_t start;         /* its first position (0, or where it was restored) */
    uint64_t delivered;     /* batches of it handed out */
    uint32_t held;
    uint64_t waited_ns;  /* for the batch that next_until has not given yet */
    stoke_error failure; /* code 0: fine */
    stoke_loader_stats_data stats;
    char warning[1024]; /* of cache and quarantine list, once there are both */
};

/* worker.c: STOKE_E_TOO_BAD when the rows up to a ticket met more bad samples than max_bad. Rows ask for
 * themselves to stop early; what counts is the answer at delivery, when no row before can still change it:
 * the batch that ends a run does not depend on who was faster. */
int stk_loader_too_bad(const stoke_loader *loader, uint64_t ticket, stoke_error *err);

/* worker.c */
int stk_workers_start(stoke_loader *loader, stoke_error *err);
void stk_workers_stop(stoke_loader *loader);
/* One row in the calling thread; 0 when there is nothing to do now. Called with the lock held. */
int stk_worker_step(stk_loader_worker *worker);
/* Stops handing out rows, waits for those in flight, empties the ring, sets the schedule. Lock held. */
void stk_schedule_restart(stoke_loader *loader, uint64_t epoch, uint64_t start);
/* The cut of an epoch from a position on. Any thread. */
stoke_rank stk_loader_rank_from(const stoke_loader *loader, uint64_t position);
/* The same of one that the loader is or will be in: `start` applies to the current one only. */
stoke_rank stk_loader_rank(const stoke_loader *loader, uint64_t epoch);
/* stats.c: the global position after the last batch of next(). */
uint64_t stk_loader_position(const stoke_loader *loader);

#endif
