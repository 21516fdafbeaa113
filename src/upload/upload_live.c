/* SPDX-License-Identifier: Apache-2.0
 *
 * What an upload does now, for those who watch the job.
 */
#include <stoke/tools/live.h>
#include <stoke/tools/upload.h>

#include "src/upload/upload_internal.h"

void stoke_live_take_upload(stoke_live_data *data, stoke_upload *upload)
{
    stoke_upload_stats stats = { 0 };
    stoke_live_take(data, upload->loader);
    pthread_mutex_lock(&upload->lock);
    data->ready += upload->ring.queued;
    data->slots += upload->ring.count;
    pthread_mutex_unlock(&upload->lock);
    /* A thread that sends batches ahead waits for the loader, not the loop; and the loop waits for slots that
     * the device still computes on. What counts is whether the device is busy. */
    data->data_wait_ns = STOKE_LIVE_NA;
    if (!stoke_upload_measure(upload, &stats, NULL) && stats.elapsed_ns)
        data->device_busy = (double)stats.busy_ns / (double)stats.elapsed_ns;
}
