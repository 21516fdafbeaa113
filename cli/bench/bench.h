/* SPDX-License-Identifier: Apache-2.0
 *
 * How `bench` measures. Every subject (a loader with some settings, bare decoding, ...) runs in a process of
 * its own, forked while the parent has no threads but the guard (interrupt.h), and measures when it is asked
 * to. So its peak memory and CPU time are its own, and subjects take turns: a neighbour on the machine who
 * wakes up in round 3 hurts all of them, and medians and ratios survive it.
 */
#ifndef STOKE_CLI_BENCH_BENCH_H
#define STOKE_CLI_BENCH_BENCH_H

#include <sys/types.h>

#include "cli/lib/common.h"

/* What a subject says about one measurement; the same binary on both ends of the socket. */
typedef struct bench_answer {
    int status; /* STOKE_OK or the error in `message` */
    uint64_t samples, wall_ns, cpu_ns;
    uint64_t peak_rss;                    /* of the process so far */
    stoke_memory_plan plan;               /* loader only */
    uint32_t height, width;               /* loader only: of a batch */
    stoke_stage_time stage[STOKE_STAGES]; /* loader only: of this measurement */
    uint64_t bad_samples, retries;        /* loader only */
    cli_cache_report cache;               /* loader only: since it was opened */
    uint64_t not_comparable, failed;      /* bare decoding only: files per pass */
    char message[STOKE_ERROR_TEXT];
} bench_answer;

struct bench_case;

/* `open` runs in the child; `measure` does `passes` passes over the set. */
typedef struct bench_subject {
    int (*open)(void **state, const struct bench_case *job, bench_answer *answer, stoke_error *err);
    int (*measure)(void *state, uint64_t passes, bench_answer *answer, stoke_error *err);
    void (*close)(void **state);
} bench_subject;

enum { BENCH_MAX_ROUNDS = 99 };

typedef struct bench_case {
    const char *name;
    const bench_subject *subject;
    const stoke_dataset *dataset;
    stoke_data_params data;
    unsigned threads; /* bare decoding: how many */
    int region;       /* region decode: 1 = a quarter of the picture, 0 = all */
    const char *live; /* loader only: a page for `stoke monitor --attach`; NULL = none */
    /* filled by the run */
    pid_t pid;
    int fd; /* our end of the socket pair */
    uint64_t passes;
    bench_answer opened, last;
    double rate[BENCH_MAX_ROUNDS];   /* samples/s of each round */
    double cpu_ms[BENCH_MAX_ROUNDS]; /* per sample */
    double stage_cpu_ms[STOKE_STAGES][BENCH_MAX_ROUNDS], stage_wall_ms[STOKE_STAGES][BENCH_MAX_ROUNDS];
} bench_case;

extern const bench_subject bench_loader, bench_peer, bench_region;

/* Forks the child and waits until it is open (its answer is in job->opened). */
int bench_start(bench_case *job, stoke_error *err);
/* Warms all cases, then lets them take turns for `rounds` rounds of about `seconds` altogether. */
int bench_run(const cli_call *call, bench_case *cases, size_t n_cases, int rounds, double seconds,
              stoke_error *err);
/* Ends the children. Accepts cases that were never started. */
void bench_stop(bench_case *cases, size_t n_cases);

/* Median of n values. */
double bench_median(const double *values, int n);

/* ---- bench_difference.c: fast decoding beside exact, in levels of 255, over the first samples of the set
 * ---- */

typedef struct bench_difference {
    uint64_t samples; /* 0: not measured */
    double mean;
    unsigned most;
} bench_difference;
int bench_measure_difference(const stoke_dataset *dataset, const stoke_data_params *base, bench_difference *d,
                             stoke_error *err);

/* ---- bench_sweep.c: the settings whose figures the project promises ---- */

enum { BENCH_SWEEP_CASES = 7 };
/* Fills cases[0..] and returns how many. `base` are the user's settings, `workers` what they came to. */
int bench_sweep_cases(bench_case *cases, const stoke_dataset *dataset, const stoke_data_params *base,
                      unsigned workers, size_t *count, stoke_error *err);
/* After the run: the table for people or the fields for programs. decode = samples/s of bare decoding by
 * `workers`. */
void bench_sweep_print(const bench_case *cases, size_t count, int rounds, double decode, unsigned workers);
void bench_sweep_json(stoke_json *json, const bench_case *cases, size_t count, int rounds, double decode,
                      unsigned workers);

#endif
