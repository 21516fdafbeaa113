/* SPDX-License-Identifier: Apache-2.0
 *
 * What a job is doing now, for others to see: a page of shared memory, a file in the folder of the run
 * (RUN/live). The job writes it, anybody may read it; a reader never holds up the job. Versioned: a reader
 * refuses a page that is newer than it is, and takes an older one with what it lacks as n/a.
 */
#ifndef STOKE_LIVE_H
#define STOKE_LIVE_H

#include <stoke/loader.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { STOKE_LIVE_VERSION = 1 };

typedef enum stoke_live_phase {
    STOKE_LIVE_STARTING = 0,
    STOKE_LIVE_TRAINING,
    STOKE_LIVE_EVALUATING,
    STOKE_LIVE_SAVING,
    STOKE_LIVE_ENDED
} stoke_live_phase;
STOKE_API const char *stoke_live_phase_name(int phase);

/* Sums since the job began; a reader takes differences. Fields are only ever added at the end. */
typedef struct stoke_live_data {
    uint64_t pid, start_ns, now_ns; /* CLOCK_MONOTONIC: began, and written last */
    uint64_t phase;
    char what[64]; /* "train b0" */
    uint64_t step, steps, epoch, epochs;
    uint64_t samples, batches;
    uint64_t ready, slots; /* batches ready for the loop now, and slots there are */
    uint64_t workers;
    uint64_t data_wait_ns, step_ns; /* the loop waited for batches; the steps themselves */
    uint64_t stage_wall_ns[STOKE_STAGES], stage_cpu_ns[STOKE_STAGES], stage_count[STOKE_STAGES];
    uint64_t bytes_read, replaced, skipped, bad_samples;
    uint64_t cache_hits, cache_misses;
    uint64_t memory_bytes, peak_rss;
    double loss, lr;    /* NaN = none yet */
    double device_busy; /* share, lately; NaN = n/a */
} stoke_live_data;

/* ---- the job ---- */
typedef struct stoke_live stoke_live;
/* Makes the page at `path` (a temporary file, renamed); `what` is cut to fit. Also cleared away by _close. */
STOKE_API int stoke_live_create(stoke_live **out, const char *path, const char *what, stoke_error *err);
/* pid, start and now are filled in. From one thread at a time; never waits. */
STOKE_API void stoke_live_write(stoke_live *live, const stoke_live_data *data);
/* Takes the loader's counters into `data`. */
STOKE_API void stoke_live_take(stoke_live_data *data, const stoke_loader *loader);
/* Phase ENDED stays in the file. */
STOKE_API void stoke_live_close(stoke_live **live);

/* ---- the onlooker ---- */
typedef struct stoke_onlooker stoke_onlooker;
/* `path`: the page, or a run folder. Sizes, magic number and version are checked: the file may be anything.
 * STOKE_E_NOTFOUND says how a run gets a page. */
STOKE_API int stoke_onlooker_open(stoke_onlooker **out, const char *path, stoke_error *err);
STOKE_API void stoke_onlooker_close(stoke_onlooker **onlooker);
/* A whole copy, never half of one and half of another. STOKE_E_STATE: the writer died while writing. alive:
 * the process is there (0: it ended or was killed). */
STOKE_API int stoke_onlooker_read(stoke_onlooker *onlooker, stoke_live_data *data, int *alive,
                                  stoke_error *err);

#ifdef __cplusplus
}
#endif
#endif
