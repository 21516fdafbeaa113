/* SPDX-License-Identifier: Apache-2.0
 *
 * The thread that sends batches ahead of the consumer. When an epoch has ended it goes on with the next one,
 * as the loader's workers do: otherwise the device would wait for a copy at every turn.
 */
#include <signal.h>

#include "src/base/error.h"
#include "src/base/retry.h"
#include "src/base/wait.h"
#include "src/upload/upload_internal.h"
#include "src/loader/loader.h"

/* The loader said END. Lock held, and given up meanwhile. */
static void turn_epoch(stoke_upload *upload)
{
    if (!upload->came) { /* nor has the next one any batches, and so on for ever */
        upload->resting = 1;
        return;
    }
    const uint64_t next = upload->reached + 1;
    pthread_mutex_unlock(&upload->lock);
    stoke_loader_set_epoch(upload->loader, next);
    pthread_mutex_lock(&upload->lock);
    upload->reached = next;
    upload->came = 0;
}

/* Fills a free slot. Lock held, and given up meanwhile. */
static void fill_one(stoke_upload *upload, stk_ring_slot *slot)
{
    stoke_error error = { 0 };
    slot->state = STK_RING_FILLING;
    pthread_mutex_unlock(&upload->lock);
    const int r = stk_transfer_fill(upload, slot, STK_FOR_EVER, &error);
    pthread_mutex_lock(&upload->lock);
    if (r) {
        stk_ring_give_back(&upload->ring, slot);
        if (r == STOKE_E_END)
            turn_epoch(upload);
        else if (r != STOKE_E_CANCELLED)
            upload->failure = error;
    } else {
        upload->came++;
        stk_transfer_queue(upload, slot);
    }
    pthread_cond_broadcast(&upload->ready);
}

/* No slot is free: host slots that are still being copied go back to the loader meanwhile. Returns 0 when
 * there is none. Lock held, and given up meanwhile. */
static int tidy_up(stoke_upload *upload)
{
    stoke_error error = { 0 };
    int any;
    pthread_mutex_unlock(&upload->lock);
    const int r = stk_transfer_wait(upload, &any, &error);
    pthread_mutex_lock(&upload->lock);
    if (r) {
        upload->failure = error;
        pthread_cond_broadcast(&upload->ready);
    }
    return any;
}

static void *run(void *argument)
{
    stoke_upload *upload = argument;
    pthread_mutex_lock(&upload->lock);
    while (!upload->stopping) {
        const int at_work = !upload->paused && !upload->resting && !upload->failure.code;
        stk_ring_slot *slot = at_work ? stk_ring_free(&upload->ring) : NULL;
        if (slot) {
            fill_one(upload, slot);
            continue;
        }
        if (at_work && tidy_up(upload)) continue;
        /* While the lock was given up: who called for `work` then is not heard below. */
        if (at_work && (upload->stopping || stk_ring_free(&upload->ring))) continue;
        upload->idle = 1;
        pthread_cond_broadcast(&upload->ready);
        pthread_cond_wait(&upload->work, &upload->lock);
        upload->idle = 0;
    }
    pthread_mutex_unlock(&upload->lock);
    return NULL;
}

int stk_transfer_start(stoke_upload *upload, stoke_error *err)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old); /* signals are the consumer's */
    const int number = stk_thread_start(&upload->thread, run, upload);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (number) return stk_fail_errno(err, STOKE_E_NOMEM, number, "cannot start the thread of a feed");
    pthread_setname_np(upload->thread, "stoke-feed");
    upload->started = 1;
    return STOKE_OK;
}

void stk_transfer_stop(stoke_upload *upload)
{
    if (!upload->started) return;
    pthread_mutex_lock(&upload->lock);
    upload->stopping = 1;
    pthread_cond_broadcast(&upload->work);
    pthread_mutex_unlock(&upload->lock);
    stk_loader_cancel(upload->loader, 1);
    pthread_join(upload->thread, NULL);
    upload->started = 0;
}

void stk_transfer_pause(stoke_upload *upload)
{
    if (!upload->started) return;
    pthread_mutex_lock(&upload->lock);
    upload->paused = 1;
    pthread_cond_broadcast(&upload->work);
    pthread_mutex_unlock(&upload->lock);
    stk_loader_cancel(upload->loader, 1);
    pthread_mutex_lock(&upload->lock);
    while (!upload->idle) pthread_cond_wait(&upload->ready, &upload->lock);
    pthread_mutex_unlock(&upload->lock);
    stk_loader_cancel(upload->loader, 0);
}

void stk_transfer_go_on(stoke_upload *upload)
{
    if (!upload->started) return;
    pthread_mutex_lock(&upload->lock);
    upload->paused = 0;
    pthread_cond_broadcast(&upload->work);
    pthread_mutex_unlock(&upload->lock);
}
