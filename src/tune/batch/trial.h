/* SPDX-License-Identifier: Apache-2.0
 *
 * One trial, on the processor or on a simulated GPU.
 */
#ifndef STOKE_SRC_TUNE_BATCH_TRIAL_H
#define STOKE_SRC_TUNE_BATCH_TRIAL_H

#include <stoke/tools/device.h>
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

#endif
