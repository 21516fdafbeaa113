/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a run's events for tensorboard_live.py: `events_tool FOLDER PNG` as two sessions do, the second
 * going on after step 20 of 30.
 */
#include <math.h>
#include <stdio.h>

#include "src/report/events.h"

static int sit(const char *folder, const char *png, const uint64_t *after, uint64_t from, uint64_t to,
               stoke_error *err)
{
    static const char *const tags[] = { "train/loss", "train/lr" };
    stk_events *events;
    int r = stk_events_open(&events, folder, after, err);
    for (uint64_t step = from; step <= to && !r; step += 10) {
        /* The second session's values differ by 100, so that the reader can tell them. */
        const double values[] = { (double)step + (after ? 100 : 0), step == 10 ? NAN : 1e-4 };
        r = stk_events_scalars(events, step, tags, values, 2, err);
        if (!r && step == 20) r = stk_events_png(events, step, "val/predictions", png, err);
    }
    stk_events_close(&events);
    return r;
}

int main(int argc, char **argv)
{
    stoke_error err = { 0 };
    const uint64_t after = 20;
    if (argc != 3) return 2;
    int r = sit(argv[1], argv[2], NULL, 0, 30, &err);
    if (!r) r = sit(argv[1], argv[2], &after, 30, 50, &err);
    if (r) fprintf(stderr, "%s\n", err.message);
    return r ? 1 : 0;
}
