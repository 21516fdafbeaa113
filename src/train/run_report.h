/* SPDX-License-Identifier: Apache-2.0
 *
 * The report of a run: what its files share.
 */
#ifndef STOKE_SRC_TRAIN_RUN_REPORT_H
#define STOKE_SRC_TRAIN_RUN_REPORT_H

#include "src/train/run_log.h"

/* ---- curves (run_curves.c) ---- */

enum { STK_CURVE_LOSS, STK_CURVE_SCORES, STK_CURVE_LR, STK_CURVE_SPEED, STK_CURVES };
extern const char *const stk_curve_files[STK_CURVES + 1]; /* "loss.svg" ... below curves/, and NULL */

typedef struct stk_run_curves {
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

/* ---- its tables (run_tables.c) ---- */

/* The evaluation that is shown in full: the best one, or the last when none is marked. NULL: none at all. */
const stk_json *stk_run_shown(const stk_run_log *log);
/* Name of a class: the log's, or its number. Returns `text` or the log's own. */
const char *stk_run_class(const stk_run_log *log, uint32_t id, char text[32]);

/* A number with so many decimals. */
void stk_run_put_fixed(FILE *out, double value, int decimals);

void stk_run_table_time(const stk_run_page *page);
void stk_run_table_classes(const stk_run_page *page);
void stk_run_table_confusion(const stk_run_page *page);
void stk_run_table_worst(const stk_run_page *page);

/* ---- its pictures (run_pictures.c) ---- */

/* Predictions of the first, the best and the last evaluation, as far as they have pictures. */
void stk_run_pictures(const stk_run_page *page);

#endif
