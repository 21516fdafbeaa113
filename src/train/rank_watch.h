/* SPDX-License-Identifier: Apache-2.0
 *
 * What the ranks of a run tell of their steps, and what rank 0 makes of it: who came last, what that cost,
 * and why. Each rank measures by its own clock; no two clocks are compared. All leave an agreement together,
 * so who waited least in it came last, and as late as it waited less than who waited most.
 *
 * log.jsonl has two kinds of lines of it. Who there is, at the start of a session:
 *
 *   {"kind":"ranks","step":0,"t":1.2,"who":[{"host":"node-a","pid":811,"cores":4,"affinity":4,"allowed":8,
 *    "workers":2,"threads":4,"machine":"AMD EPYC 7R13"},..]}
 *
 * and sums since the line before, a number of each rank, times in whole microseconds:
 *
 *   {"kind":"ranks","step":10,"t":3.2,"steps":10,"images":[..],"data":[..],"compute":[..],"others":[..],
 *    "exchange":[..],"rest":[..],"ran":[..],"stood":[..],"last":[..],"cost_data":[..],"cost_compute":[..],
 *    "cost_rest":[..],"resident":[..]}            data to rest are all of the time; resident: bytes, as it is
 */
#ifndef STOKE_SRC_TRAIN_RANK_WATCH_H
#define STOKE_SRC_TRAIN_RANK_WATCH_H

#include "src/comm/comm.h"
#include <stoke/tools/live.h>

struct stoke_trainer;

/* A step of one rank, in nanoseconds: it travels with the agreement on the next one. The first six are all of
 * the time since the step before, but for evaluating and saving. */
typedef struct stk_rank_step {
    uint64_t rest;         /* log, page and report, before it */
    uint64_t data;         /* waited for batches */
    uint64_t ahead, after; /* computed before the agreement, and after it */
    uint64_t others;     /* waited in the agreement, and for what batches of others tell (batch_norm sync) */
    uint64_t exchange;   /* sums, step and new weights, with the waits in them */
    uint64_t ran, stood; /* all threads, since the session began: had a core; stood in line for one */
    uint64_t resident;   /* bytes */
    uint64_t images;
} stk_rank_step;

/* What each rank says of itself when the session begins. */
typedef struct stk_rank_card {
    uint64_t cores, affinity, allowed, workers, threads;
    char machine[88];
} stk_rank_card;

typedef struct stk_rank_watch {
    stk_rank_step own;                    /* the last step of this rank */
    uint64_t steps;                       /* that this rank has measured */
    uint64_t ended_ns;                    /* when the last one ended; 0: there was none */
    uint64_t aside_ns;                    /* evaluating and saving since */
    uint64_t looked_ns, ran_ns, stood_ns; /* when threads and memory were looked at; what they said then */
    stk_rank_card *cards;                 /* [world] */
    /* Rank 0's; NULL elsewhere. */
    stk_rank_step *step;            /* [world] of the step that is being booked */
    stoke_live_rank *total, *noted; /* [world] of the session; as they stood in the last line of the log */
    double *lately;                 /* [world] waited for data: a sum that fades */
    uint64_t booked, noted_steps;
    uint64_t told_ns, noted_ns; /* when the table was written last, and a line of sums */
    stoke_live_ranks *table;    /* NULL: could not be made */
} stk_rank_watch;

/* On all ranks, after all has been opened. Alone it does nothing, and neither do the others. */
int stk_rank_watch_open(struct stoke_trainer *trainer, stoke_error *err);
void stk_rank_watch_close(struct stoke_trainer *trainer);
/* RUN/live.ranks: made by rank 0; one of a session before goes where this one has a single process. */
void stk_rank_watch_begin_table(struct stoke_trainer *trainer);

/* The moments of a step of this rank: it began, all but the last gradients were there, the agreement was
 * reached, the gradients were there, it ended. */
typedef struct stk_rank_moments {
    uint64_t began, ready, agreed, learned, ended;
    double waited; /* seconds of the first stretch: for data */
    double met,
        met_after; /* seconds before and after the agreement, waited for what others told of batches */
    uint64_t images;
} stk_rank_moments;
void stk_rank_watch_add(struct stoke_trainer *trainer, const stk_rank_moments *moments);
/* Evaluating and saving took from `began` until now. */
void stk_rank_watch_aside(struct stoke_trainer *trainer, uint64_t began);

/* Rank 0, with each agreement on a step: what rank `rank` said of the step before; after the last rank it is
 * booked. */
void stk_rank_watch_hear(struct stoke_trainer *trainer, uint32_t rank, const stk_rank_step *before);

/* The rank that waits for data more than twice as long as the others do in the mean, lately: its share of the
 * time. 0: there is none. */
double stk_rank_watch_worst(const struct stoke_trainer *trainer, uint32_t *rank);

/* Lines of the log, as above. Sums are kept for a later line where one was written within the last second,
 * unless this is the last one. */
void stk_rank_watch_log_who(const struct stoke_trainer *trainer);
void stk_rank_watch_log_sums(struct stoke_trainer *trainer, int last);

/* The latest of `world` ranks by what each waited, and by how much: it waited so much less than any other. */
uint32_t stk_ranks_latest(const uint64_t *waits, size_t stride, uint32_t world, uint64_t *margin);

#endif
