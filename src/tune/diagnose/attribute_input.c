/* SPDX-License-Identifier: Apache-2.0
 *
 * The wait for input, divided by what the pipeline was doing over the last batches, not by what happened to
 * run during the wait: the last stage of a batch always does, whatever held the batch up.
 */
#include <string.h>

#include "src/tune/diagnose/attribute.h"

static const int cause_of[STOKE_WORK_KINDS] = {
    [STOKE_WORK_READ] = STOKE_IDLE_READ,       [STOKE_WORK_DECODE] = STOKE_IDLE_DECODE,
    [STOKE_WORK_FIT] = STOKE_IDLE_FIT,         [STOKE_WORK_AUGMENT] = STOKE_IDLE_AUGMENT,
    [STOKE_WORK_COLLATE] = STOKE_IDLE_COLLATE,
};

static stk_attribute_sums weigh(const stoke_step_record *record)
{
    stk_attribute_sums w = { 0 };
    for (int i = 0; i < STOKE_WORK_KINDS; i++) {
        const stoke_work_time *time = &record->making[i];
        const stk_wide on_cpu = (stk_wide)time->cpu_ns + time->queued_ns;
        w.weight[cause_of[i]] += time->cpu_ns;
        w.weight[STOKE_IDLE_CONTENTION] += time->queued_ns;
        if (time->wall_ns > on_cpu) w.weight[STOKE_IDLE_FILES] += time->wall_ns - on_cpu;
    }
    w.weight[STOKE_IDLE_WINDOW] = record->window_ns;
    return w;
}

void stk_batch_times_add(stk_attribute_sums *sums, const stoke_step_record *record)
{
    const stk_attribute_sums w = weigh(record);
    for (int i = 0; i < STOKE_IDLE_INPUTS; i++) sums->weight[i] += w.weight[i];
}

void stk_batch_times_take_off(stk_attribute_sums *sums, const stoke_step_record *record)
{
    const stk_attribute_sums w = weigh(record);
    for (int i = 0; i < STOKE_IDLE_INPUTS; i++) sums->weight[i] -= w.weight[i];
}

/* Weights cut to a sum below 2^63, so that their products with any ns are below 2^127. */
static uint64_t narrow(const stk_attribute_sums *sums, uint64_t weight[STOKE_IDLE_INPUTS])
{
    stk_wide total = 0;
    unsigned shift = 0;
    for (int i = 0; i < STOKE_IDLE_INPUTS; i++) total += sums->weight[i];
    while (total >> shift >> 63) shift++;
    uint64_t narrow_total = 0;
    for (int i = 0; i < STOKE_IDLE_INPUTS; i++) {
        weight[i] = (uint64_t)(sums->weight[i] >> shift);
        narrow_total += weight[i];
    }
    return narrow_total;
}

int stk_batch_times_divide(const stk_attribute_sums *sums, uint64_t ns, uint64_t row[STOKE_IDLES])
{
    uint64_t weight[STOKE_IDLE_INPUTS], rest[STOKE_IDLE_INPUTS], left = ns;
    const uint64_t total = narrow(sums, weight);
    if (!total) return 0;
    for (int i = 0; i < STOKE_IDLE_INPUTS; i++) {
        const stk_wide product = (stk_wide)ns * weight[i];
        const uint64_t share = (uint64_t)(product / total);
        rest[i] = (uint64_t)(product % total);
        row[i] += share;
        left -= share;
    }
    for (; left; left--) { /* fewer than there are causes: the largest remainders get one each */
        int most = 0;
        for (int i = 1; i < STOKE_IDLE_INPUTS; i++)
            if (rest[i] > rest[most]) most = i;
        row[most]++;
        rest[most] = 0;
    }
    return 1;
}
