/* SPDX-License-Identifier: Apache-2.0
 *
 * Trials of the optimisers, and of the multiply-adds that measure the peak.
 */
#include <math.h>
#include <stdio.h>

#include "tests/check/net_check.h"

static int try_squares(const net_trial *trial, net_try *t)
{
    (void)trial;
    const size_t count = net_between(t, 1, 300);
    const float *values = net_array(t, STK_F32, count);
    const net_pair sum = net_arrays(t, STK_F32, 1);
    snprintf(t->text, sizeof t->text, "%zu values", count);
    for (int who = 0; who < NET_BOTH; who++)
        *(float *)sum.of[who] = (float)t->table[who]->update.squares(values, count);
    return net_agree(t, "sum", sum, STK_F32, 1, 2e-7); /* both in double: one rounding apart */
}

enum { ADAMW, SGD };

static int try_step(const net_trial *trial, net_try *t)
{
    const size_t count = net_between(t, 1, 300);
    const stk_update_step step = { .factor = net_number(t),
                                   .lr = 0.1f,
                                   .decay = trial->variant == ADAMW ? 0.999f : 0.01f,
                                   .beta1 = 0.9f,
                                   .beta2 = 0.999f,
                                   .rest1 = 0.1f,
                                   .rest2 = 0.001f,
                                   .rate = 0.01f,
                                   .root = net_between(t, 1, 30) * 1.0f,
                                   .eps = 1e-8f,
                                   .keep = 0.99f,
                                   .take = 0.01f,
                                   .nesterov = (int)net_below(t, 2) };
    const float *gradients = net_array(t, STK_F32, count);
    const int momentum = trial->variant == ADAMW || net_below(t, 2), average = (int)net_below(t, 2);
    const net_pair values = net_arrays(t, STK_F32, count), first = net_arrays(t, STK_F32, count),
                   second = net_arrays(t, STK_F32, count), averages = net_arrays(t, STK_F32, count);
    snprintf(t->text, sizeof t->text, "%zu values, momentum %d, average %d", count, momentum, average);
    for (int who = 0; who < NET_BOTH; who++) {
        float *squares = second.of[who];
        for (size_t i = 0; i < count; i++) squares[i] = fabsf(squares[i]); /* squares are not negative */
        const stk_update_chunk chunk = { .values = values.of[who],
                                         .gradients = gradients,
                                         .first = momentum ? first.of[who] : NULL,
                                         .second = squares,
                                         .average = average ? averages.of[who] : NULL,
                                         .count = count };
        const stk_update_table *update = &t->table[who]->update;
        (trial->variant == ADAMW ? update->adamw : update->sgd)(&step, &chunk);
    }
    const double allowed = 1e-6; /* the order of operations is one, but for fused multiply-adds */
    return net_agree(t, "values", values, STK_F32, count, allowed) &&
           net_agree(t, "first", first, STK_F32, count, allowed) &&
           net_agree(t, "second", second, STK_F32, count, allowed) &&
           net_agree(t, "average", averages, STK_F32, count, allowed);
}

static const net_trial update_trials[] = {
    { "update.squares", offsetof(stk_net_table, update.squares), 0, try_squares },
    { "update.adamw", offsetof(stk_net_table, update.adamw), ADAMW, try_step },
    { "update.sgd", offsetof(stk_net_table, update.sgd), SGD, try_step },
};

const net_section net_section_update = { update_trials, sizeof update_trials / sizeof *update_trials, NULL,
                                         0 };

/* ---- peak ---- */

/* Twice the rounds are twice the operations; there is no result to compare. */
static int try_peak(const net_trial *trial, net_try *t)
{
    stk_peak_fn *run = t->table[NET_COLUMN]->peak.run[trial->variant];
    const uint64_t rounds = net_between(t, 1, 1000), operations = run(rounds);
    if (operations >= rounds && run(2 * rounds) == 2 * operations) return 1;
    printf("# %s: %llu operations in %llu rounds\n", t->name, (unsigned long long)operations,
           (unsigned long long)rounds);
    return 0;
}

static const net_trial peak_trials[] = { NET_TRIALS_BY_TYPE("peak.run", peak.run, try_peak) };

const net_section net_section_peak = { peak_trials, sizeof peak_trials / sizeof *peak_trials, NULL, 0 };
