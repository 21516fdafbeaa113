/* SPDX-License-Identifier: Apache-2.0
 *
 * The thread that sends batches ahead of the consumer. When an epoch has ended it goes on with the next one,
 * as the loader's workers do: otherwise the device would wait for a copy at every turn.
 */
#include <signal.h>

#include "src/base/error.h"
#include "src/base/retry.h"
#include "src/base/wait.h"
#include "src/feed/feed_private.h"
#include "src/loader/ahead.h"

/* The loader said END. Lock held, and given up meanwhile. */
static void turn_epoch(stoke_feed *feed)
{
    if (!feed->came) { /* nor has the next one any batches, and so on for ever */
        feed->resting = 1;
        return;
    }
    const uint64_t next = feed->reached + 1;
    pthread_mutex_unlock(&feed->lock);
    stoke_loader_set_epoch(feed->loader, next);
    pthread_mutex_lock(&feed->lock);
    feed->reached = next;
    feed->came = 0;
}

/* Fills a free slot. Lock held, and given up meanwhile. */
static void fill_one(stoke_feed *feed, stk_device_slot *slot)
{
    stoke_error error = { 0 };
    slot->state = STK_RING_FILLING;
    pthread_mutex_unlock(&feed->lock);
    const int r = stk_transfer_fill(feed, slot, STK_FOR_EVER, &error);
    pthread_mutex_lock(&feed->lock);
    if (r) {
        stk_ring_give_back(&feed->ring, slot);
        if (r == STOKE_E_END)
            turn_epoch(feed);
        else if (r != STOKE_E_CANCELLED)
            feed->failure = error;
    } else {
        feed->came++;
        stk_transfer_queue(feed, slot);
    }
    pthread_cond_broadcast(&feed->ready);
}

/* No slot is free: host slots that are still being copied go back to the loader meanwhile. Returns 0 when
 * there is none. Lock held, and given up meanwhile. */
static int tidy_up(stoke_feed *feed)
{
    stoke_error error = { 0 };
    int any;
    pthread_mutex_unlock(&feed->lock);
    const int r = stk_transfer_wait(feed, &any, &error);
    pthread_mutex_lock(&feed->lock);
    if (r) {
        feed->failure = error;
        pthread_cond_broadcast(&feed->ready);
    }
    return any;
}

static void *run(void *argument)
{
    stoke_feed *feed = argument;
    pthread_mutex_lock(&feed->lock);
    while (!feed->stopping) {
        const int at_work = !feed->paused && !feed->resting && !feed->failure.code;
        stk_device_slot *slot = at_work ? stk_ring_free(&feed->ring) : NULL;
        if (slot) {
            fill_one(feed, slot);
            continue;
        }
        if (at_work && tidy_up(feed)) continue;
        /* While the lock was given up: who called for `work` then is not heard below. */
        if (at_work && (feed->stopping || stk_ring_free(&feed->ring))) continue;
        feed->idle = 1;
        pthread_cond_broadcast(&feed->ready);
        pthread_cond_wait(&feed->work, &feed->lock);
        feed->idle = 0;
    }
    pthread_mutex_unlock(&feed->lock);
    return NULL;
}

int stk_transfer_start(stoke_feed *feed, stoke_error *err)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old); /* signals are the consumer's */
    const int number = stk_thread_start(&feed->thread, run, feed);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (number) return stk_fail_errno(err, STOKE_E_NOMEM, number, "cannot start the thread of a feed");
    pthread_setname_np(feed->thread, "stoke-feed");
    feed->started = 1;
    return STOKE_OK;
}

void stk_transfer_stop(stoke_feed *feed)
{
    if (!feed->started) return;
    pthread_mutex_lock(&feed->lock);
    feed->stopping = 1;
    pthread_cond_broadcast(&feed->work);
    pthread_mutex_unlock(&feed->lock);
    stk_loader_cancel(feed->loader, 1);
    pthread_join(feed->thread, NULL);
    feed->started = 0;
}

void stk_transfer_pause(stoke_feed *feed)
{
    if (!feed->started) return;
    pthread_mutex_lock(&feed->lock);
    feed->paused = 1;
    pthread_cond_broadcast(&feed->work);
    pthread_mutex_unlock(&feed->lock);
    stk_loader_cancel(feed->loader, 1);
    pthread_mutex_lock(&feed->lock);
    while (!feed->idle) pthread_cond_wait(&feed->ready, &feed->lock);
    pthread_mutex_unlock(&feed->lock);
    stk_loader_cancel(feed->loader, 0);
}

void stk_transfer_go_on(stoke_feed *feed)
{
    if (!feed->started) return;
    pthread_mutex_lock(&feed->lock);
    feed->paused = 0;
    pthread_cond_broadcast(&feed->work);
    pthread_mutex_unlock(&feed->lock);
}
