/* SPDX-License-Identifier: Apache-2.0
 *
 * All threads do multiply-adds at once; the best round counts.
 */
#include "src/net/kernels/peak.h"

#include <stoke/tools/machine.h>
#include <stoke/tools/netbench.h>

typedef struct job {
    stk_peak_fn *run;
    uint64_t rounds;
    uint64_t *done; /* per task */
} job;

enum { MAX_TASKS = 1024 };

static void task(const void *context, uint32_t index, uint32_t thread)
{
    const job *j = context;
    (void)thread;
    j->done[index] = j->run(j->rounds);
}

double stk_peak_gflops(const stk_net_table *table, stk_threadpool *pool, stk_float type, double seconds)
{
    uint64_t done[MAX_TASKS];
    job j = { .run = table->peak.run[type], .rounds = 1000, .done = done };
    const uint32_t tasks = stk_threadpool_size(pool);
    double best = 0;
    const uint64_t start = stoke_machine_now_ns();
    /* Rounds grow until one takes a twentieth of the time: long enough for the clock and for waking threads.
     */
    for (;;) {
        const uint64_t before = stoke_machine_now_ns();
        stk_threadpool_run(pool, task, &j, tasks);
        const uint64_t now = stoke_machine_now_ns();
        double operations = 0;
        for (uint32_t i = 0; i < tasks; i++) operations += (double)done[i];
        if (now > before && operations / (double)(now - before) > best)
            best = operations / (double)(now - before);
        if ((double)(now - before) < seconds * 1e9 / 20) j.rounds *= 2;
        if ((double)(now - start) > seconds * 1e9) return best;
    }
}

double stoke_net_peak_gflops(uint32_t threads, stoke_precision precision)
{
    stk_threadpool *pool;
    const int automatic = precision == STOKE_PRECISION_AUTO;
    const stk_float type = precision == STOKE_PRECISION_BF16 || automatic ? STK_BF16 : STK_F32;
    if (stk_threadpool_create(&pool, threads ? threads : stoke_machine_cores().usable, NULL)) return 0;
    const double peak = stk_peak_gflops(stk_net_table_get(), pool, type, 0.2);
    stk_threadpool_destroy(&pool);
    return peak;
}

const char *stoke_net_table_in_use(void)
{
    return stk_cpu_level_name(stk_net_table_get()->level);
}
