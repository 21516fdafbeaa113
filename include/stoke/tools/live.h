/* SPDX-License-Identifier: Apache-2.0
 *
 * What a job is doing now, for others to see: a page of 4 kB that the system keeps in memory, a file in the
 * folder of the run (RUN/live). The job writes it, anybody may read it; a reader never holds up the job, and
 * nothing that is done to the file can hurt it. Versioned: a reader refuses a page that is newer than it is,
 * and takes an older one with what it lacks as n/a.
 */
#ifndef STOKE_TOOLS_LIVE_H
#define STOKE_TOOLS_LIVE_H

#include <stoke/upload.h>

enum { STOKE_LIVE_VERSION = 1 };

typedef enum stoke_live_phase {
    STOKE_LIVE_STARTING = 0,
    STOKE_LIVE_TRAINING,
    STOKE_LIVE_EVALUATING,
    STOKE_LIVE_SAVING,
    STOKE_LIVE_ENDED
} stoke_live_phase;
STOKE_API const char *stoke_live_phase_name(int phase);

/* Of a counter that is not known, or that an older page lacks. It has all bits set, which is NaN among the
 * doubles. */
#define STOKE_LIVE_NA UINT64_MAX

/* Sums since the job began; a reader takes differences. Fields are only ever added at the end, with a new
 * version. */
typedef struct stoke_live_data {
    uint64_t pid, start_ns, now_ns; /* CLOCK_MONOTONIC: began, and written last */
    uint64_t phase;
    char what[64]; /* "train b0" */
    uint64_t step, steps, epoch, epochs;
    uint64_t samples, batches;
    uint64_t ready, slots; /* batches ready for the loop now, and slots there are */
    uint64_t workers;
    uint64_t data_wait_ns, step_ns; /* the loop waited for batches; the steps themselves, without that */
    uint64_t stage_wall_ns[STOKE_STAGES], stage_cpu_ns[STOKE_STAGES], stage_count[STOKE_STAGES];
    uint64_t bytes_read, replaced, skipped, bad_samples;
    uint64_t cache_hits, cache_misses;
    uint64_t memory_bytes, peak_rss;
    double loss, lr;    /* NaN = none yet */
    double device_busy; /* share, lately; NaN = n/a */
} stoke_live_data;

/* ---- the job ---- */
typedef struct stoke_live stoke_live;
/* Makes the page at `path` (a temporary file, renamed, so that who looks at an older one keeps that); `what`
 * is cut to fit. */
STOKE_API int stoke_live_create(stoke_live **out, const char *path, const char *what, stoke_error *err);
/* pid, start, now, what and peak_rss are filled in. From one thread at a time. Takes about 2 us (one pwrite)
 * and never fails: where the page cannot be written, on a disk that is full, it stays as it was. */
STOKE_API void stoke_live_write(stoke_live *live, const stoke_live_data *data);
/* All n/a but the phase, which is STARTING. */
STOKE_API stoke_live_data stoke_live_defaults(void);
/* Takes the loader's counters into `data`: all from `samples` on but step_ns, peak_rss,
 * loss, lr and device_busy. */
STOKE_API void stoke_live_take(stoke_live_data *data, const stoke_loader *loader);
/* The same of the loader behind an upload, with the batches on the device among those that are ready, and how
 * busy the device was since stoke_upload_mark. How long the loop waited is n/a: it runs ahead of the device,
 * and waits for it too. */
STOKE_API void stoke_live_take_upload(stoke_live_data *data, stoke_upload *upload);
/* What was written last stays in the file, as phase ENDED. */
STOKE_API void stoke_live_close(stoke_live **live);

/* ---- the onlooker ---- */
typedef struct stoke_live_reader stoke_live_reader;
/* `path`: the page, or a run folder. Sizes, magic number and version are checked: the file may be anything.
 * STOKE_E_NOTFOUND says how a run gets a page, STOKE_E_UNSUPPORTED that a newer stoke wrote it. */
STOKE_API int stoke_live_reader_open(stoke_live_reader **out, const char *path, stoke_error *err);
STOKE_API void stoke_live_reader_close(stoke_live_reader **onlooker);
/* A whole copy, never half of one and half of another. STOKE_E_STATE: the writer died while writing. alive:
 * 1 = the process is there, 0 = it ended or was killed, -1 = cannot be told from here: it runs in another
 * container or on another machine, or ran before this one was started again. */
STOKE_API int stoke_live_reader_read(stoke_live_reader *onlooker, stoke_live_data *data, int *alive,
                                     stoke_error *err);

/* What happened between two looks; NaN = n/a. */
typedef struct stoke_live_rates {
    double seconds; /* by the job's clock */
    double steps_s, samples_s, read_bytes_s;
    double data_wait;  /* share of the loop's time, 0 to 1 */
    double cache_hits; /* share of the samples that a cache was asked for */
    double stage_wall_ms[STOKE_STAGES], stage_cpu_ms[STOKE_STAGES]; /* for each sample */
} stoke_live_rates;
/* before NULL: since the job began. Steps are then n/a: a run that goes on does not begin at step 0. */
STOKE_API void stoke_live_between(const stoke_live_data *before, const stoke_live_data *after,
                                  stoke_live_rates *rates);

/* ---- the ranks of a run ---- */

/* Beside the page of a run of several processes lies RUN/live.ranks, with a record of each: rank 0 writes it
 * once a second from what the others tell it with every step. */
enum { STOKE_LIVE_RANKS_VERSION = 1, STOKE_LIVE_RANKS_MOST = 4096 };

/* Sums since the session began; fields are only ever added at the end, with a new version. */
typedef struct stoke_live_rank {
    char host[64];
    uint64_t pid, cores, workers, threads; /* cores that it may use; of the loader; of the network */
    uint64_t images;
    /* These five are the time of its steps by its own clock, to the nanosecond. `others`: until the others
     * had come as far; `exchange`: sums and new weights, as long as they took the rank that came last. */
    uint64_t data_ns, compute_ns, others_ns, exchange_ns, rest_ns;
    uint64_t ran_ns, stood_ns; /* its threads had a core; stood in line for one */
    uint64_t resident;         /* bytes, now */
    uint64_t last;             /* steps in which it came last */
    /* What it came later than the second latest, by what took it longer than the others. */
    uint64_t cost_data_ns, cost_compute_ns, cost_rest_ns;
} stoke_live_rank;

typedef struct stoke_live_ranks_head {
    uint64_t world, pid;       /* pid: of rank 0, as in the page */
    uint64_t start_ns, now_ns; /* CLOCK_MONOTONIC of its host */
    uint64_t steps, step;      /* of this session that the sums are of; of the run */
    uint64_t phase;            /* stoke_live_phase: TRAINING, or ENDED */
} stoke_live_ranks_head;

typedef struct stoke_live_ranks stoke_live_ranks;
STOKE_API int stoke_live_ranks_create(stoke_live_ranks **out, const char *path, uint32_t world,
                                      stoke_error *err);
/* All `world` records; never fails, as stoke_live_write. */
STOKE_API void stoke_live_ranks_write(stoke_live_ranks *table, const stoke_live_rank *ranks, uint64_t steps,
                                      uint64_t step);
STOKE_API void stoke_live_ranks_close(stoke_live_ranks **table); /* what was written last stays, as ENDED */

/* That of a session before, if it is one: the run has a single process now. */
STOKE_API void stoke_live_ranks_remove(const char *path);

/* The newest table beside the page at `path` (or in that run folder). STOKE_E_NOTFOUND: there is none, the
 * run is of one process. The file may be anything, as the page. */
STOKE_API int stoke_live_ranks_read(const char *path, stoke_live_ranks_head *head, stoke_live_rank **ranks,
                                    stoke_error *err);
STOKE_API void stoke_live_ranks_free(stoke_live_rank **ranks);

#endif
