/* SPDX-License-Identifier: Apache-2.0
 *
 * A pass over a set at its pictures' own size: what `stoke predict` would write, compared with the masks as
 * they are. A run validates with it where its samples are windows of the pictures, `stoke eval` where that
 * was so, or when told.
 */
#ifndef STOKE_SRC_TRAIN_EVALUATE_ORIGINAL_H
#define STOKE_SRC_TRAIN_EVALUATE_ORIGINAL_H

#include "src/source/quarantine.h"
#include "src/train/evaluate.h"
#include "src/train/predict.h"

typedef struct stk_original {
    stoke_predictor *predictor;
    const stoke_dataset *dataset;
    const stoke_labels *labels;
    const stoke_data_params *data; /* decoding, policy, max_bad, ignore_index */
    stk_quarantine *quarantine;    /* gets what is bad; kept from pass to pass, it has every sample once */
    stk_evaluate_gallery *gallery; /* may be NULL */
    uint64_t memory;               /* see stoke_predict_job; 0: the usual */
    uint32_t helpers;              /* likewise */
} stk_original;

/* As stk_evaluate. result->loss: the mean over pictures of what their windows lost, NaN unless all were slid
 * over. The scores depend neither on threads nor on who comes when, nor does the loss. */
int stk_evaluate_original(const stk_original *set, stoke_confusion *confusion, stk_evaluate_result *result,
                          stoke_progress_fn progress, void *context, stoke_error *err);

#endif
