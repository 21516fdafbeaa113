/* SPDX-License-Identifier: Apache-2.0
 *
 * How a validation set is looked at, and what that takes. A network that learned from windows at the
 * pictures' own scale is to be measured on such windows; one that learned from whole pictures on whole
 * pictures.
 */
#ifndef STOKE_SRC_TRAIN_EVAL_PLAN_H
#define STOKE_SRC_TRAIN_EVAL_PLAN_H

#include <stoke/dataset.h>
#include <stoke/net.h>
#include <stoke/predict.h>

#include "src/source/pairs.h"

enum {
    STK_EVAL_MEMORY = 128 << 20, /* stoke_predict_job.memory of a run's validation */
    STK_EVAL_SIDE = 512          /* of whole pictures that are kept to look at, at most */
};

typedef struct stk_eval_plan {
    int mode;          /* resize (at the network's size) or slide (at the pictures' own) */
    int own_scale;     /* samples of training are windows at the pictures' own scale */
    double most_shown; /* see stk_pipeline_most_shown */
    double windows;    /* of a picture, in the mean; 1 with resize */
    double larger;     /* than what the network sees, in height or width, a picture is at most */
    uint32_t width;    /* of the widest; 0: no header could be read */
    uint64_t pixels;   /* of the largest */
} stk_eval_plan;

const char *stk_eval_mode_name(int mode);

/* wanted: stoke_predict_mode. auto slides where training looks at windows at the pictures' own scale
 * (augment) and one of the pictures is more than stk_much_larger times data->size: what
 * `stoke predict` does with that one. STOKE_E_INVALID: slide with windows that are no multiples of 4. */
int stk_eval_plan_make(stk_eval_plan *plan, const stk_pairs *pairs, uint64_t count,
                       const stoke_data_params *data, int wanted, stoke_error *err);

/* Bytes that an evaluation by this plan takes besides the network, at most: pictures and masks on their way,
 * windows, sums of logits, the pictures that are kept to look at. With resize the loader's own plan says it,
 * and this is 0. */
uint64_t stk_eval_plan_bytes(const stk_eval_plan *plan, const stoke_net_params *net, uint32_t pictures);

#endif
