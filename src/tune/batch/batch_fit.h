/* SPDX-License-Identifier: Apache-2.0
 *
 * What trials tell about batches that were not tried: memory and time as lines, throughput, the choice.
 */
#ifndef STOKE_SRC_TUNE_BATCH_BATCH_FIT_H
#define STOKE_SRC_TUNE_BATCH_BATCH_FIT_H

#include <stoke/tools/findbatch.h>

/* Memory and time over the batch, from trials that ended well. */
typedef struct stk_batch_fit {
    int linear; /* memory rises with the batch and lies on a line */
    double memory0, memory1, memory_r2;
    int timed; /* every time lies within 5 % of the line: it is believed, else the trials themselves are */
    double time0, time1;
    struct {
        uint32_t batch;
        double ms;
    } point[STOKE_TRIALS]; /* ascending; of several trials of a batch the fastest */
    size_t n_points;
    int disturbed;                  /* a time says more about other programs than about its batch: */
    double cores_wanted, cores_had; /* of the trial that got the least of what it wanted; NaN = not known */
} stk_batch_fit;

/* Failures are passed over, and so are trials with the loader on: it takes memory and cores, too. */
void stk_batch_fit_make(stk_batch_fit *fit, const stoke_trial *trials, size_t n);

/* The largest batch that the line lets into `budget` bytes; 0 = none, or there is no line. */
uint32_t stk_batch_fit_largest(const stk_batch_fit *fit, uint64_t budget);

/* ms of a step, and samples a second. Between two trials: on the line between them; beyond: on the line of
 * all. */
double stk_batch_fit_ms(const stk_batch_fit *fit, uint32_t batch);
double stk_batch_fit_rate(const stk_batch_fit *fit, uint32_t batch);

/* A batch worth trying: a multiple, or anything below the first one. */
uint32_t stk_batch_floor(uint32_t batch, uint32_t multiple);
/* The smallest of them up to `most` whose rate is `near` the best of all; *best is that. `beyond` >= most:
 * one that was not tried and counts for the best where the line of times is believed. */
uint32_t stk_batch_fit_choose(const stk_batch_fit *fit, uint32_t most, uint32_t beyond, uint32_t multiple,
                              double near, double *best);

#endif
