/* SPDX-License-Identifier: Apache-2.0
 *
 * Records of steps, for those who ask.
 */
#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/feed/feed_private.h"
#include "src/loader/ahead.h"

int stoke_feed_record(stoke_feed *feed, size_t steps, stoke_error *err)
{
    stoke_step_record *records = NULL, *before = NULL;
    if (steps) {
        records = stk_calloc(steps, sizeof *records);
        if (!records) return stk_fail(err, STOKE_E_NOMEM, "no memory for records of %zu steps", steps);
    }
    stk_loader_record(feed->loader, steps > 0);
    pthread_mutex_lock(&feed->lock);
    if (steps)
        before = stk_diary_begin(&feed->diary, records, steps);
    else
        stk_diary_end(&feed->diary);
    pthread_mutex_unlock(&feed->lock);
    stk_free(before);
    return STOKE_OK;
}

size_t stoke_feed_records(stoke_feed *feed, const stoke_step_record **records)
{
    pthread_mutex_lock(&feed->lock);
    /* Of a device that is lost, what was read before it was is still true. */
    if (!stk_trips_read(feed, NULL)) stk_steps_read(feed, NULL);
    *records = feed->diary.records;
    const size_t count = feed->diary.count;
    pthread_mutex_unlock(&feed->lock);
    return count;
}
