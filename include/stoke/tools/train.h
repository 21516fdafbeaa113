/* SPDX-License-Identifier: Apache-2.0
 *
 * What our own programs use beyond <stoke/train.h>. No promise: it may change with any version.
 */
#ifndef STOKE_TOOLS_TRAIN_H
#define STOKE_TOOLS_TRAIN_H

#include <stoke/tools/options.h>
#include <stoke/train.h>

STOKE_API stoke_option_group stoke_train_options(stoke_train_params *params);

/* Settings that were read from a run's config.yaml name files by their whole paths. Where the run was moved
 * together with them (a project, to another place or machine), those that are gone are looked for where they
 * lie now, around the run as they lay around it, and the settings changed; the strings live in `storage`. */
STOKE_API int stoke_run_follow(const char *config, stoke_data_params *data, stoke_train_params *params,
                               stoke_option_storage *storage, stoke_error *err);

/* After a failure has been told: where other processes do not answer, ends all of them and this one, whose
 * exit status it is, since nothing else would; it does not return then. Otherwise closes. */
STOKE_API void stoke_trainer_abort(stoke_trainer **trainer, int status);

/* STOKE_E_NOTFOUND with a sentence that says which runs there are beside `path`, which is none. */
STOKE_API int stoke_run_missing(const char *path, stoke_error *err);
/* STOKE_OK where a run lies at `path` that can be gone on with, by its config.yaml. */
STOKE_API int stoke_run_check(const char *path, stoke_error *err);

/* STOKE_E_NOTFOUND with a sentence that says where the data of the run was, when it is not there. */
STOKE_API int stoke_run_check_data(const char *config, const stoke_data_params *data, stoke_error *err);

/* ---- the ranks of a run ---- */

/* Why a rank comes last, by its own record. */
typedef enum stoke_rank_cause {
    STOKE_RANK_EVEN = 0,  /* it does not stand out */
    STOKE_RANK_DATA,      /* it waits for its loader */
    STOKE_RANK_PROGRAMS,  /* its threads stand in line for a core: other programs want it, too */
    STOKE_RANK_BOUND,     /* it is bound to fewer cores than it could have */
    STOKE_RANK_CORES,     /* it has fewer cores than the others */
    STOKE_RANK_PROCESSOR, /* it computes slower on as many */
    STOKE_RANK_REST,      /* what it does between steps */
    STOKE_RANK_CAUSES
} stoke_rank_cause;
STOKE_API const char *stoke_rank_cause_name(int cause); /* "data", "other programs" */

typedef struct stoke_run_rank {
    char host[64], machine[88]; /* machine: its processor */
    uint64_t pid, cores, affinity, allowed, workers, threads;
    uint64_t images, resident;
    /* Seconds of all its steps, by its own clock: `seconds` is the sum of the five behind it. */
    double seconds, data, compute, others, exchange, rest;
    double ran, stood; /* of all its threads: had a core; stood in line for one */
    double cpu_share;  /* of the CPU time that its threads wanted, what they got; NaN = n/a */
    uint64_t last;     /* steps in which it came last */
    /* Seconds by which it came later than the second latest: `cost` is the sum of the three behind it, by
     * what took it longer than the others. */
    double cost, cost_data, cost_compute, cost_rest;
    int cause;      /* stoke_rank_cause */
    char why[320];  /* "rank 3 (node-b, pid 811) was last in 71 % of steps and cost 9 % of the run: ..." */
    char what[320]; /* to do about it; both are "" of one that does not stand out */
} stoke_run_rank;

/* To be read only. Of the last session that has steps. */
typedef struct stoke_run_ranks {
    uint32_t world; /* 0: one process */
    uint64_t steps; /* that the figures are of */
    double seconds; /* of them */
    stoke_run_rank *rank;
    char verdict[320]; /* in a sentence */
} stoke_run_ranks;
/* From the log of the run in that folder. */
STOKE_API int stoke_run_ranks_read(stoke_run_ranks **out, const char *run, stoke_error *err);
STOKE_API void stoke_run_ranks_free(stoke_run_ranks **ranks);

#endif
