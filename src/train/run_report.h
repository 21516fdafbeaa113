/* SPDX-License-Identifier: Apache-2.0
 *
 * The report of a run: what its files share.
 */
#ifndef STOKE_SRC_TRAIN_RUN_REPORT_H
#define STOKE_SRC_TRAIN_RUN_REPORT_H

#include "src/base/json_read.h"
#include "src/train/log_writer.h"
#include <stoke/tools/train.h>

/* log.jsonl read back, for curves and the report. It may have been damaged, cut or made by anyone: lines that
 * are not what log_writer.h describes are passed over and counted, and memory has a limit whatever the file.
 */

enum {
    STK_RUN_STEPS =
        1 << 16, /* lines of steps kept; at more of them neighbours are put together, two by two */
    STK_RUN_EVALS = 1 << 16, /* evaluations kept */
    STK_RUN_REMARKS = 64,    /* different ones kept; every session repeats some */
    STK_RUN_VALUES = 1 << 17 /* of one line: 64 classes have 4400 */
};

/* NaN where a line says nothing, or null. */
typedef struct stk_run_eval {
    uint64_t step;
    double loss, score[STOKE_SCORES];
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
    uint64_t evaluations, saves;
    uint64_t saved_step;            /* the last one that was saved at */
    char why[256];                  /* how it ended; "": it has not */
    char *remarks[STK_RUN_REMARKS]; /* in the order they were first made */
    size_t n_remarks;
    stoke_run_ranks ranks, next_ranks; /* next: of a session that has no steps yet */
    uint64_t lines, damaged;
} stk_run_log;

/* Starts from a zeroed struct. STOKE_E_NOTFOUND: no such file. */
int stk_run_log_read(stk_run_log *log, const char *path, stoke_error *err);
/* One line of it. Only a lack of memory is an error. */
int stk_run_log_line(stk_run_log *log, const char *text, size_t length, stoke_error *err);
void stk_run_log_free(stk_run_log *log); /* accepts a zeroed struct */

/* stoke_task of the run: segment, unless its first line says restore. */
int stk_run_task(const stk_run_log *log);
/* NaN when the member is absent or no number. */
double stk_run_real(const stk_json *json, const stk_json_value *object, const char *key);
/* 0 when it is absent or no whole number. */
uint64_t stk_run_uint(const stk_json *json, const char *key);
/* NULL when it is absent or no text. */
const char *stk_run_text(const stk_json *json, const char *key);

/* ---- ranks (run_ranks.c) ---- */

/* A line about ranks. Only a lack of memory is an error. */
int stk_run_ranks_line(stk_run_log *log, const stk_json *json, stoke_error *err);
/* What the sums say: who stands out, and why. After the last line; more than once does no harm. */
void stk_run_ranks_judge(stoke_run_ranks *ranks);

/* ---- curves ---- */

enum { STK_CURVE_LOSS, STK_CURVE_SCORES, STK_CURVE_LR, STK_CURVE_SPEED, STK_CURVES };
/* "loss.svg" ... below curves/: of both tasks, and NULL. */
extern const char *const stk_curve_files[STK_CURVES + 2];
/* That of a curve: its scores have another name in a run that restores pictures. */
const char *stk_curve_file(int which, int task);

typedef struct stk_run_curves {
    int task;
    double *block; /* all of the arrays */
    size_t steps, evals;
    double *step, *loss, *smooth, *lr, *speed, *wait;
    double *eval_step, *eval_loss, *score[STOKE_SCORES];
    double best_step; /* NaN: none */
    char best_text[64];
} stk_run_curves;

int stk_curves_make(stk_run_curves *curves, const stk_run_log *log, stoke_error *err);
void stk_curves_free(stk_run_curves *curves); /* accepts a zeroed struct */
/* One of them as SVG of `width` x 360 pixels. */
int stk_curve_write(const stk_run_curves *curves, int which, uint32_t width, FILE *out, stoke_error *err);

/* ---- the page ---- */

typedef struct stk_run_page {
    const char *folder, *name; /* name: its last part */
    const stk_run_log *log;
    const stk_run_curves *curves;
    FILE *out;
} stk_run_page;

/* The whole of report.html (run_page.c). */
int stk_run_page_write(const stk_run_page *page, stoke_error *err);

/* ---- its pictures ---- */

/* Predictions of the first, the best and the last evaluation, as far as they have pictures. */
void stk_run_pictures(const stk_run_page *page);

#endif
