/* SPDX-License-Identifier: Apache-2.0
 *
 * log.jsonl read back, for curves and the report. It may have been damaged, cut or made by anyone: lines that
 * are not what log_writer.h describes are passed over and counted, and memory has a limit whatever the file.
 */
#ifndef STOKE_SRC_TRAIN_RUN_LOG_H
#define STOKE_SRC_TRAIN_RUN_LOG_H

#include "src/base/json_read.h"
#include "src/train/log_writer.h"

enum {
    STK_RUN_STEPS =
        1 << 16, /* lines of steps kept; at more of them neighbours are put together, two by two */
    STK_RUN_EVALS = 1 << 16, /* evaluations kept; further ones only count as left out */
    STK_RUN_REMARKS = 64,    /* different ones kept; every session repeats some */
    STK_RUN_VALUES = 1 << 17 /* of one line: 64 classes have 4400 */
};

/* NaN where a line says nothing, or null. */
typedef struct stk_run_eval {
    uint64_t step;
    double t, loss, score[STOKE_SCORES];
} stk_run_eval;

typedef struct stk_run_log {
    stk_json start; /* of the last session; values NULL: none, as of the others below */
    uint64_t sessions;
    stk_log_step_note *steps; /* steps ascend; so do those of evals */
    size_t n_steps, steps_capacity;
    stk_run_eval *evals;
    size_t n_evals, evals_capacity;
    stk_json first, best, last; /* evaluations as they stand in the log, for what is not in evals */
    uint64_t step;              /* the last one that any line speaks of */
    double t;                   /* and when */
    uint64_t images, skipped;
    double step_seconds, data_seconds, eval_seconds, save_seconds; /* data: of step_seconds */
    uint64_t evaluations, saves, save_bytes;                       /* bytes: of the last */
    uint64_t saved_step;                                           /* the last one that was saved at */
    char why[256];                                                 /* how it ended; "": it has not */
    char *remarks[STK_RUN_REMARKS];                                /* in the order they were first made */
    size_t n_remarks;
    uint64_t lines, damaged, left_out;
} stk_run_log;

/* Starts from a zeroed struct. STOKE_E_NOTFOUND: no such file. */
int stk_run_log_read(stk_run_log *log, const char *path, stoke_error *err);
/* One line of it. Only a lack of memory is an error. */
int stk_run_log_line(stk_run_log *log, const char *text, size_t length, stoke_error *err);
void stk_run_log_free(stk_run_log *log); /* accepts a zeroed struct */

/* NaN when the member is absent or no number. */
double stk_run_real(const stk_json *json, const stk_json_value *object, const char *key);
/* 0 when it is absent or no whole number. */
uint64_t stk_run_uint(const stk_json *json, const char *key);
/* NULL when it is absent or no text. */
const char *stk_run_text(const stk_json *json, const char *key);

#endif
