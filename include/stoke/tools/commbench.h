/* SPDX-License-Identifier: Apache-2.0
 *
 * How fast processes that train together reach each other, through the engine that training takes: the two
 * ways in which a step moves its gradients and weights, and what they are made of between two processes, on
 * one host and on two.
 */
#ifndef STOKE_TOOLS_COMMBENCH_H
#define STOKE_TOOLS_COMMBENCH_H

#include <stoke/common.h>

typedef struct stoke_comm_figure {
    /* Of all ranks "exchange": each sends every other one its part; "gather": its own part to all. Of rank 0
     * and one other "one way": a message, half of the time that it takes to come back; "both ways": two that
     * meet; "messages": many small ones at once, the time of each. */
    const char *what;
    const char *where;  /* "all"; "inside": the other one is on this host; "between": on another */
    uint64_t bytes;     /* of the whole array, cut into as many parts as there are ranks; of a message */
    uint64_t sent;      /* by one rank */
    double us, best_us; /* median and best of the rounds */
    double cpu_us; /* processor time of rank 0 in a round; of all ranks in the mean where they are threads */
    uint64_t rounds;
} stoke_comm_figure;

typedef struct stoke_comm_bench_params {
    uint32_t struct_size;
    const char *engine; /* as training's `comm` */
    uint32_t ranks;     /* threads of this process that stand for ranks where no launcher started several */
    double seconds;     /* of each figure */
    double timeout;     /* for a rank that does not come; 0: for ever */
} stoke_comm_bench_params;
STOKE_API stoke_comm_bench_params stoke_comm_bench_defaults(void); /* auto, 2, 0.5, 60 */

typedef struct stoke_comm_bench_report {
    uint32_t rank, world, hosts;
    char library[128];   /* "Open MPI v4.1.4"; "threads of this process" */
    double copy_bytes_s; /* a copy in this rank's memory, measured in the same run: the limit on one host */
} stoke_comm_bench_report;

/* Called on rank 0 for each figure. */
typedef void (*stoke_comm_bench_fn)(void *context, const stoke_comm_figure *figure);
/* On every rank. */
STOKE_API int stoke_comm_bench(const stoke_comm_bench_params *params, stoke_comm_bench_fn each, void *context,
                               stoke_comm_bench_report *report, stoke_error *err);

#endif
