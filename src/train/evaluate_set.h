/* SPDX-License-Identifier: Apache-2.0
 *
 * What both ways of evaluating a set share: at the network's size (evaluate_set.c), at the masks' own
 * (evaluate_original.c).
 */
#ifndef STOKE_SRC_TRAIN_EVALUATE_SET_H
#define STOKE_SRC_TRAIN_EVALUATE_SET_H

#include <stoke/evaluate.h>
#include <stoke/labels.h>

#include "src/train/evaluate.h"
#include "src/train/predict.h"

enum { STK_NORMALIZATION = 160 };

typedef struct stk_evaluation_set {
    stoke_predictor *predictor;
    stoke_data_params data; /* the network's: size, classes, f32, in order */
    stoke_dataset *dataset;
    stoke_labels *labels;
    stk_worst worst[STK_WORST]; /* names are the dataset's */
    size_t n_worst;
    char first_bad[512];
    int first_code; /* its STOKE_E_*; of evaluate_original.c */
    char normalization[STK_NORMALIZATION];
} stk_evaluation_set;

/* A set whose masks have more classes than the network comes as bad files: puts in front of the message what
 * is behind them. */
void stk_blame_classes(const stk_evaluation_set *set, stoke_error *err);

/* Fills samples, bad and times of the report, and its matrix. */
int stk_evaluate_original(stk_evaluation_set *set, stoke_eval_report *report, stoke_progress_fn progress,
                          void *context, stoke_error *err);

#endif
