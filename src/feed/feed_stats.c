/* SPDX-License-Identifier: Apache-2.0
 *
 * Times of a feed, for those who ask.
 */
#include "src/base/clock.h"
#include "src/feed/feed_private.h"

void stoke_feed_mark(stoke_feed *feed)
{
    stoke_loader_stats(feed->loader, &feed->at_mark);
    feed->host_wait_ns = 0;
    pthread_mutex_lock(&feed->lock);
    stk_book_open(&feed->book, stk_now_ns());
    pthread_mutex_unlock(&feed->lock);
}

static uint64_t cpu_of_workers(const stoke_loader_stats_data *stats)
{
    uint64_t sum = 0;
    for (int i = STOKE_STAGE_READ; i <= STOKE_STAGE_WRITE; i++) sum += stats->stage[i].cpu_ns;
    return sum;
}

int stoke_feed_measure(stoke_feed *feed, stoke_feed_stats *stats, stoke_error *err)
{
    stoke_loader_stats_data now;
    stoke_loader_stats(feed->loader, &now);
    pthread_mutex_lock(&feed->lock);
    int r = stk_trips_read(feed, err);
    if (!r) r = stk_steps_read(feed, err);
    stk_book_sum(&feed->book, stats);
    pthread_mutex_unlock(&feed->lock);
    stats->host_wait_ns = feed->host_wait_ns;
    stats->loader_cpu_ns = cpu_of_workers(&now) - cpu_of_workers(&feed->at_mark);
    return r;
}
