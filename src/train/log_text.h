/* SPDX-License-Identifier: Apache-2.0
 *
 * The lines of log.jsonl and metrics.csv as text. What they mean stands in log_writer.h.
 */
#ifndef STOKE_SRC_TRAIN_LOG_TEXT_H
#define STOKE_SRC_TRAIN_LOG_TEXT_H

#include <stdio.h>

#include "src/train/log_writer.h"

/* Confusion matrices of more classes are left out of the log: 64 classes take 45 kB, 150 would take 250. */
enum { STK_LOG_MATRIX = 64 };

/* Name of class `id` of the matrix, NULL when it has none. A network of one class tells foreground from
 * background, and its matrix has both. */
const char *stk_setup_class_name(const stk_setup *setup, uint32_t id);
/* Classes of the matrix: 2 for a network of one class. */
uint32_t stk_setup_matrix_classes(const stk_setup *setup);

/* An evaluation with everything that is written about it. */
typedef struct stk_log_eval_note {
    uint64_t step, epoch;
    double t;
    const stk_evaluate_result *evaluation;
    const stoke_confusion *confusion;
    int best, average;
    const char *picture; /* NULL: none */
} stk_log_eval_note;

void stk_text_start(FILE *out, const stk_setup *setup, const stoke_net_plan *plan, const char *cpu,
                    uint64_t step, double t, int resumed);
void stk_text_step(FILE *out, const stk_log_step_note *note);
void stk_text_evaluation(FILE *out, const stk_log_eval_note *note);
void stk_text_saved(FILE *out, uint64_t step, double t, double seconds, uint64_t bytes);
void stk_text_remark(FILE *out, uint64_t step, double t, const char *text);
void stk_text_end(FILE *out, uint64_t step, double t, const char *why);

/* metrics.csv: step,epoch,seconds,loss,miou,...,iou_NAME,... A class without a name is iou_3. */
void stk_text_csv_head(FILE *out, const stk_setup *setup);
void stk_text_csv_row(FILE *out, const stk_log_eval_note *note);

#endif
