/* SPDX-License-Identifier: Apache-2.0
 *
 * Trials of a batch, on the processor or on a simulated GPU, and what they tell about batches that were not
 * tried.
 */
#ifndef STOKE_SRC_TUNE_BATCH_BATCH_H
#define STOKE_SRC_TUNE_BATCH_BATCH_H

#include <stoke/tools/device.h>
#include <stoke/tools/findbatch.h>

/* ---- one trial ---- */

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

/* ---- the allocator of a simulated GPU ---- */

/* PyTorch's caching allocator, simulated: the same rounding, segments and splitting, with
 * no memory behind it. So that a card that is not there runs out of memory where a real one would: by what is
 * reserved, not by what is in use.
 *
 *   sizes are rounded up to 512 bytes
 *   up to 1 MB   from segments of 2 MB
 *   below 10 MB  from segments of 20 MB
 *   else         a separate segment, in whole 2 MB
 *
 * A segment that is free is kept for the next; only when the card has no more are the free ones given back.
 */

enum { STK_SIM_ALLOCATOR_BLOCKS = 4096 };

/* A piece of a segment; those of one segment are linked in order of address. */
typedef struct stk_sim_allocator_block {
    uint64_t bytes;
    int32_t before, after; /* in the same segment; -1 = none */
    uint8_t small, used, there;
} stk_sim_allocator_block;

typedef struct stk_sim_allocator {
    uint64_t limit;
    uint64_t allocated, reserved, peak_allocated, peak_reserved;
    int32_t n;
    stk_sim_allocator_block block[STK_SIM_ALLOCATOR_BLOCKS];
} stk_sim_allocator;

void stk_sim_allocator_begin(stk_sim_allocator *paper, uint64_t limit);
/* A handle, or -1: out of memory (or of blocks, of which a trial takes a few hundred). */
int32_t stk_sim_allocator_take(stk_sim_allocator *paper, uint64_t bytes);
void stk_sim_allocator_give(stk_sim_allocator *paper, int32_t handle); /* accepts -1 */

/* ---- what a step takes on a simulated GPU ---- */

/* ms of a step of this network and batch in PyTorch, by the card's bandwidth. */
int stk_sim_step_ms(double *ms, const stoke_estimate_params *params, const stoke_card *card,
                    stoke_error *err);

/* ---- what trials tell: batch_fit.c ---- */

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
