/* SPDX-License-Identifier: Apache-2.0
 *
 * The best batch, by trying: every trial is a separate process, so that running out of memory, a crash or a
 * hang ends the trial and nothing else. Memory and time of the trials are fitted by lines; the smallest batch
 * whose throughput is within 5 % of the best that fits is chosen, tried, and told with what binds.
 *
 * The search decides and remembers; the caller runs trials (stoke find-batch: a child of its own program).
 */
#ifndef STOKE_TOOLS_FINDBATCH_H
#define STOKE_TOOLS_FINDBATCH_H

#include <stoke/tools/advise.h>
#include <stoke/data.h>
#include <stoke/tools/preflight.h>
#include <stoke/train.h>

typedef enum stoke_outcome {
    STOKE_OUTCOME_OK = 0,
    STOKE_OUTCOME_OOM,      /* device memory, or what an allocator was allowed */
    STOKE_OUTCOME_HOST_OOM, /* killed for want of host memory: SIGKILL and the control group's oom_kill count
                             */
    STOKE_OUTCOME_SHM,      /* SIGBUS: /dev/shm is full */
    STOKE_OUTCOME_DEVICE,   /* a driver's error that lasts until the process ends */
    STOKE_OUTCOME_TIMEOUT,
    STOKE_OUTCOME_CRASH, /* any other signal */
    STOKE_OUTCOME_ERROR  /* ended with a message */
} stoke_outcome;
STOKE_API const char *stoke_outcome_name(int outcome);
/* From how a process ended: `status` of waitpid, the count of oom_kill before and after (the same = none or
 * not known), what it said last. A message tells out of memory from other errors: "out of memory",
 * CUDNN_STATUS_NOT_SUPPORTED, CUBLAS_STATUS_ALLOC_FAILED, DefaultCPUAllocator, NVML_SUCCESS == r. */
STOKE_API int stoke_outcome_of(int status, uint64_t kills_before, uint64_t kills_after, int timed_out,
                               const char *message);
/* oom_kill of the control group this process is in; 0 when it cannot be read. */
STOKE_API uint64_t stoke_oom_kills(void);

typedef struct stoke_trial {
    uint32_t batch;
    int with_loader; /* asked for: the set's own batches, by the loader: the trial that confirms */
    int outcome;
    uint64_t allocated,
        reserved; /* peak bytes; reserved is what counts: an allocator keeps more than is in use */
    double step_ms, step_low, step_high; /* median of the steps after the first two, and their quartiles */
    double busy;    /* share of the time that the device computed, with the loader on; NaN = not measured */
    double wait_ms; /* a step waited for data */
    /* Cores that its threads wanted to run on while it was timed, and those they got; NaN = not measured. */
    double cores_wanted, cores_had;
    char message[256]; /* what it said last; "" = nothing */
} stoke_trial;
/* As a line of JSON without its end, which a journal keeps and a child prints; and back, strictly: a line may
 * come from anywhere. Returns the length, snprintf-style. */
STOKE_API int stoke_trial_text(const stoke_trial *trial, char *text, size_t size);
STOKE_API int stoke_trial_parse(stoke_trial *trial, const char *text, size_t bytes, stoke_error *err);

typedef struct stoke_batch_params {
    uint32_t struct_size;
    uint64_t memory;  /* that may be taken: free now on the card, or given */
    uint64_t context; /* of it, what a process takes besides (driver); counted in reserved when 0 */
    double margin;    /* left free, as a share; at least margin_bytes */
    uint64_t margin_bytes;
    uint32_t multiple;  /* batches are multiples of it from `multiple` on: 8 */
    uint32_t largest;   /* never tried beyond: samples of the set; 0 = none */
    int largest_said;   /* 1: somebody set that limit; the set may have more */
    double near;        /* 0.95: throughput that is as good as the best */
    double target_busy; /* 0.85 */
    uint32_t accumulate, world;
    int although_busy; /* 1: chooses also by times that scatter while others take the cores */
} stoke_batch_params;
STOKE_API stoke_batch_params stoke_batch_defaults(void);

/* Runs one trial; fills everything but `batch` and `with_loader`. A failure of the trial is an outcome; a
 * non-zero return stops the search. */
typedef int (*stoke_trial_fn)(void *context, uint32_t batch, stoke_trial *trial, stoke_error *err);

typedef enum stoke_bound {
    STOKE_BOUND_THROUGHPUT = 0, /* larger batches gain less than 5 % */
    STOKE_BOUND_MEMORY,
    STOKE_BOUND_LOADER, /* the device waits for data: a larger batch buys nothing */
    STOKE_BOUND_DATA,   /* the set has no more samples */
    STOKE_BOUND_FAILURE /* a larger trial failed, and not for want of memory */
} stoke_bound;
STOKE_API const char *stoke_bound_name(int bound);

enum { STOKE_TRIALS = 64 };
typedef struct stoke_batch_result {
    uint32_t batch; /* 0 = not even one sample fits, or too_busy */
    /* The times scatter and others took the cores: they choose nothing, memory is all that is certain. */
    int too_busy;
    int doubtful;                      /* chosen by such times all the same (although_busy) */
    uint32_t largest_ok, smallest_oom; /* 0 = none was met */
    int bound;
    int linear; /* memory was fitted by a line (slope > 0, R2 > 0.98); 0 = halved instead */
    double memory0, memory1, memory_r2; /* bytes: M(B) = memory0 + memory1 * B; NaN = too few trials */
    int timed;           /* every time lies within 5 % of its line; 0: the trials themselves are believed */
    double time0, time1; /* ms: t(B) = time0 + time1 * B */
    uint64_t budget;     /* bytes that were allowed */
    double images_s, best_images_s; /* at `batch`, and the best of those that fit */
    uint32_t largest_fit; /* by trials, or by the line where larger ones gain nothing and were not tried */
    double busy;          /* of the confirming trial; NaN = not measured */
    stoke_trial trial[STOKE_TRIALS];
    size_t n_trials;
    char why[512];  /* the choice in a sentence or two, for people */
    char next[160]; /* a command: `stoke diagnose ...` where the loader binds */
} stoke_batch_result;

/* journal: a file that remembers trials (a line of JSON each), so that a search goes on where it was stopped;
 * its first line has `key`, which names model, size, machine: another key begins again. NULL = none. */
STOKE_API int stoke_batch_search(stoke_batch_result *result, const stoke_batch_params *params,
                                 stoke_trial_fn run, void *context, const char *journal, const char *key,
                                 stoke_error *err);

/* ---- a trial, in the process that shall risk it ---- */

typedef struct stoke_trial_params {
    uint32_t struct_size;
    const char *device;     /* "native": really trains on the processor, memory is the host's; "sim:NAME": a
                               simulated GPU: memory by the estimate through a caching allocator such as
                               PyTorch's, steps by time0 + time1 * batch */
    stoke_data_params data; /* of the confirming trial, with the loader on; data.batch is the trial's */
    stoke_train_params train;
    uint32_t classes; /* of the network; data.classes are those of the masks, as for training */
    uint64_t memory;  /* that may be taken; 0 = what there is */
    uint32_t steps;   /* of the optimiser; 3 at least: its state is made at the first */
    int with_loader;  /* 0: batches of the largest shape made up in memory; 1: the set's own, by the loader */
    double time0, time1; /* ms, of a simulated GPU; both 0 = from model, size and the card's bandwidth */
    int task;            /* stoke_task; auto as in stoke_estimate_params */
    uint32_t base_channels, num_blocks; /* of train.model "resnet"; 0: the network's own */
    uint32_t scale; /* task restore: sides of the result per side of the picture; 0 is 1 */
} stoke_trial_params;
STOKE_API stoke_trial_params stoke_trial_defaults(void);
/* Fills the trial; out of memory is an outcome where it can be caught, and the end of the process where not.
 */
STOKE_API int stoke_trial_run(stoke_trial *trial, uint32_t batch, const stoke_trial_params *params,
                              stoke_error *err);
/* What times and memory of trials depend on, as a line: the key of a journal. Returns the length,
 * snprintf-style. */
STOKE_API int stoke_trial_key(const stoke_trial_params *params, char *text, size_t size);

/* ---- trials of what a settings file asks for ---- */

/* To be read only. Strings live in the plan. */
typedef struct stoke_trial_plan {
    stoke_trial_params params; /* device is NULL, memory and times are 0: these are yours to say */
    stoke_engine engine;
    uint64_t samples; /* to train on; 0 = no data named */
    uint32_t batch;   /* as the file says; 0 = it does not */
    int known;        /* 1: the network is one of ours */
    const char *said; /* the network, as the file says it; "" = it does not */
} stoke_trial_plan;
/* A file in any dialect, and what is said beside it (data, model, size, classes, map). config NULL: only
 * that. look: opens the data, counts the samples, and reads masks where sizes or classes must be found;
 * without, both are assumed where nothing says them. */
STOKE_API int stoke_trial_plan_read(stoke_trial_plan **out, const stoke_preflight_params *params, int look,
                                    stoke_error *err);
STOKE_API void stoke_trial_plan_free(stoke_trial_plan **plan);
/* What was assumed: a sentence each; NULL past the last. */
STOKE_API const char *stoke_trial_plan_remark(const stoke_trial_plan *plan, size_t index);

#endif
