/* SPDX-License-Identifier: Apache-2.0
 *
 * One trial, on the processor or on a simulated GPU.
 */
#ifndef STOKE_SRC_TUNE_BATCH_TRIAL_H
#define STOKE_SRC_TUNE_BATCH_TRIAL_H

#include <stoke/tools/findbatch.h>

enum {
    STK_TRIAL_WARM_UP = 2, /* steps that are not timed: state is made at the first, caches fill */
    STK_TRIAL_STEPS = 1000 /* at most */
};

/* Both fill everything but batch, with_loader and outcome; STOKE_E_NOMEM is out of memory. */
int stk_trial_native(stoke_trial *trial, const stoke_trial_params *params, stoke_error *err);
int stk_trial_sim(stoke_trial *trial, const stoke_trial_params *params, stoke_error *err);

/* Whether there are data to load at all. */
int stk_trial_has_data(const stoke_trial_params *params);
/* Median and quartiles of ms[n], n > 0, which it sorts. */
void stk_trial_times(stoke_trial *trial, double *ms, size_t n);

#endif
