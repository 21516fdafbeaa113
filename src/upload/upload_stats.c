/* SPDX-License-Identifier: Apache-2.0
 *
 * Times of an upload, for those who ask.
 */
#include <stoke/tools/upload.h>
#include "src/base/clock.h"
#include "src/upload/upload_internal.h"

void stoke_upload_mark(stoke_upload *upload)
{
    stoke_loader_stats(upload->loader, &upload->at_mark);
    upload->host_wait_ns = 0;
    pthread_mutex_lock(&upload->lock);
    stk_busy_time_open(&upload->busy, stk_now_ns());
    pthread_mutex_unlock(&upload->lock);
}

static uint64_t cpu_of_workers(const stoke_loader_stats_data *stats)
{
    uint64_t sum = 0;
    for (int i = STOKE_STAGE_READ; i <= STOKE_STAGE_WRITE; i++) sum += stats->stage[i].cpu_ns;
    return sum;
}

int stoke_upload_measure(stoke_upload *upload, stoke_upload_stats *stats, stoke_error *err)
{
    stoke_loader_stats_data now;
    stoke_loader_stats(upload->loader, &now);
    pthread_mutex_lock(&upload->lock);
    int r = stk_transfers_read(upload, err);
    if (!r) r = stk_steps_read(upload, err);
    stk_busy_time_sum(&upload->busy, stats);
    pthread_mutex_unlock(&upload->lock);
    stats->host_wait_ns = upload->host_wait_ns;
    stats->loader_cpu_ns = cpu_of_workers(&now) - cpu_of_workers(&upload->at_mark);
    return r;
}
