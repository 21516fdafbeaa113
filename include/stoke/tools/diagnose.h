/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the time of a device goes, and what each change would give. Three parts, each of use alone:
 *
 *   attribution  all idle time of the device, cut into exclusive causes that sum to it exactly: from
 *                records (record.h)
 *   prediction   what a step would take in another setup, from costs that were measured
 *   diagnosis    a run of somebody's data and settings that gives all of it
 *
 * Causes do not add: they combine by max. So every fix has a gain alone, a gain in the best order of all, and
 * the order says which comes first.
 */
#ifndef STOKE_TOOLS_DIAGNOSE_H
#define STOKE_TOOLS_DIAGNOSE_H

#include <stoke/tools/record.h>
#include <stoke/tools/optimize.h>
#include <stoke/tools/trace.h>

/* ---- setups ---- */

/* How a loop is run: what a fix changes. */
typedef struct stoke_setup {
    uint32_t struct_size;
    uint32_t batch;
    uint32_t workers;  /* 0: the loop makes its batches itself */
    uint32_t prefetch; /* batches made ahead, in all; PyTorch: num_workers x prefetch_factor */
    uint32_t depth;    /* of those, on the device */
    int placement;     /* stoke_placement, never auto: who augments */
    int transfer;      /* stoke_transfer */
    int persistent;    /* 0: workers are started again at every epoch */
    int sync;          /* 1: the host waits for every step: loss.item(), printing */
    int by_batch;      /* 1: a worker makes whole batches (PyTorch); 0: all share the rows of one (ours) */
} stoke_setup;
STOKE_API stoke_setup stoke_setup_defaults(void);
/* "2 workers, 4 ahead, augmenting on the host, pageable copies, waits for every step". snprintf-style. */
STOKE_API int stoke_setup_text(const stoke_setup *setup, char *text, size_t size);
/* Changes by a text: "workers=2 transfer=stream placement=device sync=no persistent=yes prefetch=4". */
STOKE_API int stoke_setup_change(stoke_setup *setup, const char *text, stoke_error *err);

/* ---- attribution ---- */

typedef enum stoke_idle {
    /* waiting for input, by the state of the pipeline */
    STOKE_IDLE_EPOCH_START = 0, /* workers started, first batch made */
    STOKE_IDLE_ORDER,           /* a later batch was ready: a slow sample held up the line */
    STOKE_IDLE_CONTENTION,      /* what makes batches was ready to run and had no core */
    STOKE_IDLE_FILES,           /* files were waited for */
    STOKE_IDLE_DECODE,
    STOKE_IDLE_FIT,
    STOKE_IDLE_AUGMENT,
    STOKE_IDLE_COLLATE,
    STOKE_IDLE_READ,   /* CPU time of reading */
    STOKE_IDLE_WINDOW, /* workers stood still because all slots were full, before a burst */
    /* between batch and step */
    STOKE_IDLE_PIN,
    STOKE_IDLE_HOST,       /* the loop did something else: logging, metrics, checkpoints */
    STOKE_IDLE_COPY_QUEUE, /* the copy was put on its stream late, or waited for a slot */
    STOKE_IDLE_COPY,
    STOKE_IDLE_LAUNCH,
    STOKE_IDLE_INSIDE,  /* gaps inside the step */
    STOKE_IDLE_UNKNOWN, /* a moment is missing: unknown_after says which part it follows */
    STOKE_IDLES
} stoke_idle;
enum { STOKE_IDLE_INPUTS = STOKE_IDLE_WINDOW + 1 };
STOKE_API const char *stoke_idle_name(int idle);    /* "epoch start", "files", "copy" ... */
STOKE_API const char *stoke_idle_meaning(int idle); /* a clause for people */

typedef struct stoke_attribution {
    uint64_t steps;
    uint64_t elapsed_ns;        /* from the end of the step before the first one to the end of the last */
    uint64_t busy_ns;           /* union of steps and augmenting kernels in it */
    uint64_t idle_ns;           /* the rest */
    uint64_t idle[STOKE_IDLES]; /* sums to idle_ns, to the nanosecond */
    uint64_t input_ns;          /* the first STOKE_IDLE_INPUTS of them */
    uint64_t fetch_ns; /* the loop waited for its batch: more than input_ns where the device still worked */
    uint64_t overlapped_copy_ns, copy_ns, augment_ns;
    int unknown_after; /* stoke_idle; -1 = nothing is unknown */
} stoke_attribution;
/* Of records[from .. n); record from - 1 gives the beginning, so 1 <= from < n. per_step: NULL, or n - from
 * rows that sum to the whole. STOKE_E_INVALID: records are not in order, or lack start and end. */
STOKE_API int stoke_attribute(const stoke_step_record *records, size_t n, size_t from,
                              const stoke_setup *setup, stoke_attribution *out,
                              uint64_t (*per_step)[STOKE_IDLES], stoke_error *err);

/* ---- prediction ---- */

/* Workers started again. Pinned slots are touched when they are made, others by the first batch: so it
 * depends on how batches cross. */
typedef struct stoke_start {
    double restart_ms; /* until the loop has the first batch; NaN = as stoke_costs says */
    double first_ms;   /* what making that batch took; NaN = as the records say */
} stoke_start;

/* Costs of one way to place augmentation. n = 0: not known. */
typedef struct stoke_side {
    const stoke_step_record *records; /* their making, bytes and kernels are used, not their moments */
    size_t n;
    double pageable_ms, pinned_ms; /* to copy a batch; NaN = not known */
    stoke_start pageable_start, pinned_start;
} stoke_side;

typedef struct stoke_costs {
    uint32_t struct_size;
    stoke_setup measured;  /* the setup of the records of its own side */
    stoke_side side[2];    /* by stoke_placement */
    const double *step_ms; /* what the device computes for a step: samples in order, repeated when they end */
    size_t n_steps;
    double cores; /* that workers can have: usable ones less what the loop and others took, while measured */
    double launch_ms;         /* from the end of waiting to the first kernel */
    double host_ms;           /* CPU time of the loop for a step, besides making batches */
    double restart_ms;        /* to start workers for an epoch, and have their first batch; NaN = not known */
    uint64_t steps_per_epoch; /* 0 = never ends */
    int processor; /* 1: the device is this machine's processor: nothing is copied, nobody runs ahead of it */
} stoke_costs;
STOKE_API stoke_costs stoke_costs_defaults(void);

typedef struct stoke_forecast {
    double step_ms, low_ms, high_ms; /* from end to end of a step: replay of the samples; 90 % by bootstrap */
    double busy, busy_low, busy_high; /* share of the time */
    double closed_ms;                 /* the same by the closed form: a check on the replay */
    int limit;                        /* stoke_idle of what binds; -1: the device itself */
} stoke_forecast;
/* STOKE_E_NOTFOUND: the side that the setup needs was not measured. The same seed gives the same interval. */
STOKE_API int stoke_forecast_make(const stoke_costs *costs, const stoke_setup *setup, uint64_t seed,
                                  stoke_forecast *out, stoke_error *err);

/* ---- fixes ---- */

typedef enum stoke_cause {
    /* the five usual ones */
    STOKE_CAUSE_CPU_AUGMENT = 0,
    STOKE_CAUSE_FEW_WORKERS,
    STOKE_CAUSE_NO_PINNING,
    STOKE_CAUSE_SYNC_COPIES,
    STOKE_CAUSE_RESTARTED_WORKERS,
    /* and what they do not know */
    STOKE_CAUSE_SYNC_LOOP,
    STOKE_CAUSE_SHORT_PREFETCH,
    STOKE_CAUSES
} stoke_cause;
STOKE_API const char *stoke_cause_name(int cause); /* "augmentation on the CPU" */

/* What a change gave, measured in turns with the setup as it is (verify). */
typedef struct stoke_fix_measured {
    uint32_t pairs;            /* 0 = not measured */
    double gain_ms, low, high; /* a step; 90 % */
    double busy;               /* share of the time, with the change */
    int confirmed;             /* the interval leaves 0 out on the predicted side */
} stoke_fix_measured;

typedef struct stoke_fix {
    int cause;
    int applies;         /* 0: the setup does not have this fault, or it cannot be mended here */
    char what[160];      /* "workers 1 -> 2"; why not, when it does not apply */
    char change[96];     /* for stoke_setup_change: "workers=2" */
    const char *setting; /* of stoke_config_find; NULL: none has it */
    stoke_setup setup;   /* with this fix alone */
    stoke_forecast alone;
    double gain_ms, gain_low, gain_high; /* alone, a step; 90 % */
    int order;          /* 1 = first in the greedy sequence; 0 = adds nothing after those before it */
    double marginal_ms; /* what it adds there */
    stoke_fix_measured measured;
} stoke_fix;

typedef struct stoke_fixes {
    stoke_forecast now; /* the setup as it is, by the same model: compare with what was measured */
    stoke_fix fix[STOKE_CAUSES];
    stoke_setup all; /* with every fix of the sequence */
    stoke_forecast together;
    double gain_all_ms;          /* not the sum of the gains alone */
    stoke_fix_measured measured; /* all of them */
} stoke_fixes;
/* usable: cores of this machine. Sides that were not measured leave their fix out. */
STOKE_API int stoke_fixes_find(stoke_fixes *out, const stoke_costs *costs, uint32_t usable, uint64_t seed,
                               stoke_error *err);

/* ---- diagnosis ---- */

/* What a settings file says about its loop; to be read only. Strings live in the plan. */
typedef struct stoke_run_plan {
    stoke_setup setup;
    stoke_data_params data;
    const char *model; /* "b0" .. "b5", "resnet"; NULL: the file names none that the native engine has */
    uint32_t base_channels, num_blocks; /* of resnet; 0: its own */
    const char *dialect;                /* as stoke_dialect_name */
} stoke_run_plan;
/* Any dialect. data: where the set lies, when the file does not say; map: as stoke_config_find; both may be
 * NULL. */
STOKE_API int stoke_run_plan_read(stoke_run_plan **out, const char *config, const char *data,
                                  const char *const *map, stoke_error *err);
STOKE_API void stoke_run_plan_free(stoke_run_plan **plan);
/* What the file leaves open and was assumed, or asks for and has no meaning here: a sentence each; NULL past
 * the last. */
STOKE_API const char *stoke_run_plan_remark(const stoke_run_plan *plan, size_t index);

/* Step times from a trace in Chrome's format: spans "step" of ours, or the kernels within ProfilerStep# of
 * torch.profiler. what: a sentence about them. Free with stoke_trace_steps_free. */
STOKE_API int stoke_trace_steps(const char *path, double **step_ms, size_t *n, char *what, size_t what_size,
                                stoke_error *err);
STOKE_API void stoke_trace_steps_free(double **step_ms);

typedef struct stoke_diagnose_params {
    uint32_t struct_size;
    const stoke_dataset *dataset;
    stoke_data_params data; /* batch, size, augment ...; workers and prefetch are the setup's */
    stoke_setup setup;
    stoke_device *device; /* NULL: the native engine trains on this machine's processor (network, below) */
    const char *model;    /* of the native engine: b0 .. b5, resnet */
    uint32_t classes;     /* of it; of a set with targets, which is restored, not asked for */
    uint32_t base_channels, num_blocks; /* of resnet; 0: its own */
    const double *step_ms; /* the steps of the device, repeated when they end; not for the native engine */
    size_t n_steps;
    uint32_t steps, warm_up; /* measured and left out; warm_up 0 = 1 + what is prefetched */
    uint32_t pairs;          /* of verify: blocks of `steps` in turns for every fix; 0 = do not verify */
    uint64_t seed;
    int although_busy;  /* 1: judges also when other programs had the cores meanwhile */
    stoke_trace *trace; /* of the measured steps; NULL = none */
    stoke_progress_fn progress;
    void *context;
    /* Hears what all of it will take of memory, before it does; may be NULL. data.memory_limit holds for the
     * sum. */
    void (*planned)(void *context, const stoke_memory_sum *sum);
    void *planned_context;
} stoke_diagnose_params;
STOKE_API stoke_diagnose_params stoke_diagnose_defaults(void);

/* To be read only. */
typedef struct stoke_diagnosis {
    stoke_attribution attribution;
    stoke_costs costs;
    stoke_fixes fixes;
    stoke_memory_sum memory;          /* planned */
    const stoke_step_record *records; /* those of warm-up first */
    size_t n_records, from;           /* from: the first that counts */
} stoke_diagnosis;
STOKE_API int stoke_diagnose(stoke_diagnosis **out, const stoke_diagnose_params *params, stoke_error *err);
STOKE_API void stoke_diagnosis_free(stoke_diagnosis **diagnosis);
/* Cores that were there for the loop while it was measured, of those usable here. Returns 1 when that was too
 * little to judge by, and nobody asked for it all the same (although_busy): then the verdict says so, and no
 * fix is to be believed. */
STOKE_API int stoke_diagnosis_too_busy(const stoke_diagnosis *diagnosis, double *had, double *usable);
/* In a sentence: "The card was busy 28 % of the time; it waited 251 ms a step, mostly while ...".
 * snprintf-style. */
STOKE_API int stoke_diagnosis_verdict(const stoke_diagnosis *diagnosis, char *text, size_t size);

/* Stacked bars of idle time, step by step and as a whole, now and predicted: SVG, whole or not at all. */
STOKE_API int stoke_diagnosis_write_bars(const stoke_diagnosis *diagnosis, const char *path,
                                         const char *title, stoke_error *err);
/* Bars, timeline, tables and the reasons in one page that needs nothing else. timeline: an SVG file to take
 * in, or NULL. */
STOKE_API int stoke_diagnosis_write_html(const stoke_diagnosis *diagnosis, const char *path,
                                         const char *title, const char *timeline, stoke_error *err);

/* ---- steps without a network ---- */

/* A training step of so many ms on the consumer's stream: really computing, or simulated where the device is.
 */
STOKE_API int stoke_fake_step(stoke_upload *upload, double ms, stoke_error *err);

#endif
