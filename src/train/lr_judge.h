/* SPDX-License-Identifier: Apache-2.0
 *
 * What the sweep and its verdict share: the smoothed loss.
 */
#ifndef STOKE_SRC_TRAIN_LR_JUDGE_H
#define STOKE_SRC_TRAIN_LR_JUDGE_H

/* An exponential average of which the start is corrected: after one loss it is that loss. Start with zeros.
 */
typedef struct stk_smoothing {
    double sum, share; /* share: of the weights that add up to 1 in the end */
} stk_smoothing;
double stk_smooth_next(stk_smoothing *smoothing, double loss);

#endif
