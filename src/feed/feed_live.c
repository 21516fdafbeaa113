/* SPDX-License-Identifier: Apache-2.0
 *
 * What a feed does now, for those who watch the job.
 */
#include <stoke/live.h>

#include "src/feed/feed_private.h"

void stoke_live_take_feed(stoke_live_data *data, stoke_feed *feed)
{
    stoke_feed_stats stats = { 0 };
    stoke_live_take(data, feed->loader);
    pthread_mutex_lock(&feed->lock);
    data->ready += feed->ring.queued;
    data->slots += feed->ring.count;
    pthread_mutex_unlock(&feed->lock);
    /* A thread that sends batches ahead waits for the loader, not the loop; and the loop waits for slots that
     * the device still computes on. What counts is whether the device is busy. */
    data->data_wait_ns = STOKE_LIVE_NA;
    if (!stoke_feed_measure(feed, &stats, NULL) && stats.elapsed_ns)
        data->device_busy = (double)stats.busy_ns / (double)stats.elapsed_ns;
}
