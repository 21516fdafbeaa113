/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of a diagnosis, shared by its files:
 *
 *   diagnose.c         memory, costs, fixes, setups measured in turns; what others ask
 *   diagnose_run.c     a stretch of steps: the loop, epochs, cores that workers could have
 *   diagnose_device.c  what such a loop does on a device
 *   fake_step.c        its steps, which keep the device busy and train nothing
 *   diagnose_native.c  the same on this processor, by the native engine
 *   diagnosis_page.c   bars, and the page around them
 *   forecast.c         what a step would take under another setup
 *   fixes.c            what each change of the setup gives, and in which order
 *   trace_steps.c      step times from somebody's trace
 */
#ifndef STOKE_SRC_TUNE_DIAGNOSE_DIAGNOSE_H
#define STOKE_SRC_TUNE_DIAGNOSE_DIAGNOSE_H

#include "src/observe/observer.h"
#include <stoke/tools/diagnose.h>
#include <stoke/tools/probe.h>

/* What took processors between two moments. Begin when warm-up is over. */
typedef struct stk_diagnose_load_seen {
    double elapsed_ns, process_ns, thread_ns; /* CPU time of this process, and of the calling thread */
    double others;                            /* cores that other processes took; 0 where nobody tells */
} stk_diagnose_load_seen;
stk_diagnose_load_seen stk_load_end(const stoke_quiet *watch);
/* Cores left for workers: usable ones less what others and the loop took, or what they got of what they asked
 * for. queued_ns: they were ready to run, without a core. */
double stk_load_cores(const stk_diagnose_load_seen *seen, uint32_t workers, double worker_ns,
                      double queued_ns);

/* ---- attribute.c: a cover, which is the union of intervals, and how much of another it covers ---- */

typedef struct stk_cover {
    stk_busy_interval *part; /* in order, disjoint, not empty */
    uint64_t *before;        /* length of all parts before this one */
    size_t n, room;
} stk_cover;
/* Room for so many intervals. */
int stk_cover_create(stk_cover *cover, size_t room, stoke_error *err);
void stk_cover_destroy(stk_cover *cover);
/* One that is empty or turned round adds nothing. */
void stk_cover_add(stk_cover *cover, uint64_t start, uint64_t end);
/* After the last one: sorts and unites them. */
void stk_cover_unite(stk_cover *cover);
/* How much of [start, end] is covered. */
uint64_t stk_cover_within(const stk_cover *cover, uint64_t start, uint64_t end);

/* What the parts of making a batch are called where they are waited for. */
extern const int stk_idle_of_work[STOKE_WORK_KINDS];

/* ---- diagnose_run.c ---- */

/* Steps in a row under one setup. */
typedef struct stk_diagnose_run_job {
    const stoke_diagnose_params *params;
    stoke_setup setup;
    uint32_t steps, warm_up; /* warm_up is at least 1 */
    int idle_steps;          /* 1: steps of next to nothing: only the way of a batch is of interest */
    uint32_t restarts;       /* workers are started so often at least, to know what that takes */
    stoke_trace *trace;
    struct stk_diagnose_progress *progress;
} stk_diagnose_run_job;

typedef struct stk_diagnose_progress {
    stoke_progress_fn tell;
    void *context;
    uint64_t done, total;
} stk_diagnose_progress;

typedef struct stk_diagnose_run {
    stoke_step_record *records;
    size_t n, from; /* from: the first after warm-up; 1 <= from < n */
    double cores;
    double had;        /* cores that others left meanwhile, of those usable */
    double host_ms;    /* CPU time of the loop for a step, besides making batches */
    uint32_t restarts; /* of workers, the one at the end included */
    double restart_ms; /* mean of them, to the first batch; NaN = none */
    double open_ms;    /* of it, until workers were there */
    uint64_t steps_per_epoch;
} stk_diagnose_run;
/* Settings of the loader of such a stretch. */
stoke_data_params stk_diagnose_data(const stoke_diagnose_params *params, const stoke_setup *setup);
int stk_diagnose_run_run(stk_diagnose_run *stretch, const stk_diagnose_run_job *job, stoke_error *err);
void stk_diagnose_run_free(stk_diagnose_run *stretch); /* accepts a zeroed one */

/* The mean of a figure over the records that count and have it; NaN = none has. Throughput is a matter of
 * means: what a few slow copies take is paid for as well. */
typedef enum stk_diagnose_figure {
    STK_RUN_COPY_MS,
    STK_RUN_COPY_BYTES,
    STK_RUN_LAUNCH_MS
} stk_diagnose_figure;
double stk_diagnose_run_mean(const stk_diagnose_run *stretch, stk_diagnose_figure figure);
/* The first batch of workers that were just started, as if one made it alone; NaN = none were. */
double stk_diagnose_run_first_ms(const stk_diagnose_run *stretch, const stoke_setup *setup);

/* ---- diagnose_device.c, diagnose_native.c ---- */

/* A loop under way. */
typedef struct stk_diagnose_loop {
    const stk_diagnose_run_job *job;
    stk_diagnose_run *out;
    stoke_data_params data;
    uint64_t epoch;
    size_t taken; /* steps so far */
    /* of a device */
    stoke_upload *upload;
    const stoke_device_batch *batch;
    /* of the native engine */
    stoke_loader *loader;
    const stoke_batch *rows;
    struct stoke_net *net;
    uint64_t asked, got;
    double step_cpu_ns; /* of the loop's thread, for steps: it is the device, or a part of it */
    int lane[2];
} stk_diagnose_loop;

/* How a loop is fed and computes. */
typedef struct stk_diagnose_loop_way {
    /* Starts workers, at loop->epoch; fills out->steps_per_epoch. */
    int (*open)(stk_diagnose_loop *loop, stoke_error *err);
    /* Ends them, and everything else; accepts what is not open. `whole`: not to be opened again. */
    void (*close)(stk_diagnose_loop *loop, int whole);
    /* The next batch: 0, STOKE_E_END or an error with its message. */
    int (*next)(stk_diagnose_loop *loop, stoke_error *err);
    int (*set_epoch)(stk_diagnose_loop *loop, stoke_error *err);
    /* A step of so many ms on that batch, which is given back. */
    int (*step)(stk_diagnose_loop *loop, double ms, stoke_error *err);
    /* Waits for all steps; the records of those since opening go to the end of out->records. */
    int (*finish)(stk_diagnose_loop *loop, stoke_error *err);
    /* From now on what happens goes into the job's trace. */
    void (*trace)(stk_diagnose_loop *loop);
} stk_diagnose_loop_way;
extern const stk_diagnose_loop_way stk_way_of_device, stk_way_of_native;
/* What the network of the native engine will hold beside the loader. */
int stk_diagnose_network(stoke_memory_share *share, const stoke_diagnose_params *params,
                         const stoke_data_params *data, stoke_error *err);

typedef struct stk_diagnose_whole {
    stoke_diagnosis out; /* first: what others see of it */
    stoke_setup setup;
    int native, emulated, although_busy;
    char device[64], title[192];
    uint64_t short_epoch;   /* steps of an epoch too short to tell what its start costs; 0 = it is not */
    stk_diagnose_run run;   /* with the setup as it is */
    stk_diagnose_run other; /* augmenting on the other side; n 0 = not measured */
    stk_diagnose_run link;  /* copying the other way; n 0 = nothing is copied */
    double *step_ms;        /* of the measured steps */
    uint64_t (*per_step)[STOKE_IDLES];
} stk_diagnose_whole;

/* ---- forecast.c: costs of a setup in ms, the closed form, and the replay ---- */

enum {
    STK_RESAMPLES = 64,      /* of the bootstrap: 5 % points are then between its 4th and 5th value */
    STK_REPLAYED = 200,      /* batches, at least */
    STK_REPLAYED_MOST = 1000 /* of what was measured */
};

/* What a batch costs. */
typedef struct stk_forecast_batch_cost {
    double cpu, io; /* to make it: on a core, and waiting for files */
    double kernels; /* augmenting it on the device */
} stk_forecast_batch_cost;

/* `part`: what its making took goes to its causes there; may be NULL. kernels NaN: they were not timed. */
stk_forecast_batch_cost stk_batch_cost(const stoke_step_record *record, double part[STOKE_IDLES]);

/* What a setup is replayed with; ms. */
typedef struct stk_forecast_model {
    stoke_setup setup;
    double copy, cores, launch, host;
    double start, epoch; /* to start workers, without their first batch; steps of an epoch, 0 = never ends */
    stk_forecast_batch_cost first;  /* of such a batch */
    stk_forecast_batch_cost *batch; /* in order, as measured */
    size_t n_batches;
    const double *step;
    size_t n_steps;
    stk_forecast_batch_cost mean;
    double mean_step;
    double part[STOKE_IDLES]; /* mean making by its parts, FILES and the stages */
} stk_forecast_model;

/* Batches and steps that are drawn: indices into those of a model, repeated when they end. */
typedef struct stk_forecast_draw {
    uint32_t *batch, *step;
    size_t n_batches, n_steps;
} stk_forecast_draw;

/* Moments of a batch of a replay. */
typedef struct stk_forecast_moments {
    double done;      /* its worker has made it */
    double ready;     /* so have those of all batches before it */
    double taken;     /* by the loop, or by the thread that copies */
    double returned;  /* its host slot is free again */
    double copied;    /* to the device */
    double augmented; /* there */
    double launched;  /* its step, by the loop */
    double ended;
} stk_forecast_moments;

/* Of those many batches the first are left out. */
typedef struct stk_forecast_replay_size {
    size_t warm_up, counted;
} stk_forecast_replay_size;

/* Mean interval between ends of steps. `moments`: of all batches of that size. *busy = the device's share of
 * it. */
double stk_replay(const stk_forecast_model *model, const stk_forecast_draw *draw,
                  stk_forecast_replay_size size, stk_forecast_moments *moments, double *busy);

/* stoke_forecast_make with steps of every resample (step_ms may be NULL), so that two setups can be compared
 * draw by draw. resamples <= STK_RESAMPLES: fewer where only step_ms is wanted. */
int stk_forecast_make(const stoke_costs *costs, const stoke_setup *setup, uint64_t seed, uint32_t resamples,
                      stoke_forecast *out, double step_ms[STK_RESAMPLES], stoke_error *err);

/* Sorts, and gives the value below which the share lies. */
double stk_quantile(double *values, size_t n, double share);

/* ---- fixes.c ---- */

/* stoke_fixes_find where some cannot be made: not_here[cause] is the reason why, or NULL; they are neither
 * tried nor taken. not_here NULL = all can. */
int stk_fixes_find(stoke_fixes *out, const stoke_costs *costs, uint32_t usable, uint64_t seed,
                   const char *const not_here[STOKE_CAUSES], stoke_error *err);

/* With as many workers and as much made ahead as any fix of it may propose. */
stoke_setup stk_fixes_largest(const stoke_setup *from, uint32_t usable);

/* ---- trace_steps.c: what stoke_trace_steps reads, for those who have it in memory ---- */

/* `name` stands in messages. */
int stk_trace_steps_of(const char *text, size_t size, const char *name, double **step_ms, size_t *n,
                       char *what, size_t what_size, stoke_error *err);

#endif
