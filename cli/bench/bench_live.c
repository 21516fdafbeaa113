/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/bench/bench_live.h"

#include <stoke/tools/machine.h>

enum { EVERY_NS = 50 * 1000 * 1000 };

int bench_live_open(bench_live *live, const char *path, const char *what, stoke_error *err)
{
    *live = (bench_live){ 0 };
    return path ? stoke_live_create(&live->page, path, what, err) : STOKE_OK;
}

void bench_live_close(bench_live *live)
{
    stoke_live_close(&live->page);
}

static int due(bench_live *live)
{
    if (!live->page) return 0;
    const uint64_t now = stoke_machine_now_ns();
    if (now - live->written_ns < EVERY_NS) return 0;
    live->written_ns = now;
    return 1;
}

void bench_live_of_loader(bench_live *live, const stoke_loader *loader)
{
    if (!due(live)) return;
    stoke_live_data data = stoke_live_defaults();
    stoke_live_take(&data, loader);
    data.phase = STOKE_LIVE_TRAINING;
    data.data_wait_ns = STOKE_LIVE_NA; /* nobody uses the batches: all there is is waiting */
    stoke_live_write(live->page, &data);
}

void bench_live_of_feed(bench_live *live, stoke_upload *upload, uint64_t step, uint64_t steps)
{
    if (!due(live) && !(live->page && step == steps)) return;
    stoke_live_data data = stoke_live_defaults();
    stoke_live_take_upload(&data, upload);
    data.phase = STOKE_LIVE_TRAINING;
    data.step = step;
    data.steps = steps;
    stoke_live_write(live->page, &data);
}
