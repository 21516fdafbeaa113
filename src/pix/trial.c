/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of trials, and random inputs.
 */
#include "src/pix/trial.h"

#include <string.h>

#include "src/base/mem.h"

static const stk_trial_family *const families[] = {
#define STK_TRIALS(name) &stk_trials_##name,
#include "src/pix/trials.def"
#undef STK_TRIALS
};

void stk_trial_release(stk_trial_call *call)
{
    stk_free(call->state);
    call->state = NULL;
}

const stk_trial *stk_trial_at(size_t i, const stk_trial_family **family)
{
    for (size_t f = 0; f < sizeof families / sizeof *families; f++) {
        if (i < families[f]->n_trials) {
            *family = families[f];
            return &families[f]->trials[i];
        }
        i -= families[f]->n_trials;
    }
    return NULL;
}

stk_trial_fn *stk_trial_entry(const stk_pix_table *table, const stk_trial *trial)
{
    stk_trial_fn *function;
    memcpy(&function, (const char *)table + trial->offset, sizeof function);
    return function;
}

uint32_t stk_trial_size(stk_trial_random *r, uint32_t most)
{
    const uint32_t small = most < 40 ? most : 40;
    return 1 + stk_trial_below(r, stk_trial_below(r, 2) ? most : 1 + stk_trial_below(r, small));
}

void stk_trial_fill(uint8_t *data, size_t bytes, stk_trial_random *r)
{
    const int extremes = stk_trial_below(r, 4) == 0;
    for (size_t i = 0; i < bytes; i++) {
        const uint8_t v = (uint8_t)(stk_trial_draw(r) >> 20);
        data[i] = !extremes ? v : v & 1 ? 255 : 0;
    }
}

void stk_trial_fill_floats(float *data, size_t count, float most, stk_trial_random *r)
{
    const int extremes = stk_trial_below(r, 4) == 0;
    for (size_t i = 0; i < count; i++) {
        const float v = (float)(stk_trial_draw(r) >> 40) * (1 / 16777215.0f); /* 24 bits: exact, 0 .. 1 */
        data[i] = !extremes ? v * most : v < 0.5f ? 0 : most;
    }
}
