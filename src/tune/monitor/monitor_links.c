/* SPDX-License-Identifier: Apache-2.0
 *
 * The monitor's slow thread: drivers count what crosses the link while the caller waits, 20 ms for each
 * direction by NVML, a second from AMD's file. With two cards that would take 80 of the 100 ms a reading has.
 */
#include <pthread.h>
#include <signal.h>

#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/base/retry.h"
#include "src/tune/machine/gpus.h"
#include "src/tune/monitor/monitor.h"
#include "src/tune/machine/tree.h"

#define PERIOD_NS UINT64_C(1000000000)
#define STALE_NS  (5 * PERIOD_NS) /* the driver hangs, or the card is gone */

typedef struct link_reading {
    stoke_figure to_device, from_device;
    uint64_t ns;
} link_reading;

struct stk_monitor_links {
    stoke_gpus *gpus; /* the thread's alone */
    size_t count;
    pthread_t thread;
    int started, locks_made;
    pthread_mutex_t lock;
    pthread_cond_t end;
    int stopping;          /* this and the next under the lock */
    link_reading *reading; /* one for each card */
};

static void read_card(stk_monitor_links *links, size_t index, stoke_gpu *gpu)
{
    stk_gpus_read_link(links->gpus, index, gpu); /* blocks */
    pthread_mutex_lock(&links->lock);
    links->reading[index] = (link_reading){ gpu->pcie_to_device, gpu->pcie_from_device, stk_now_ns() };
    pthread_mutex_unlock(&links->lock);
}

/* 1: it is time to go. */
static int wait_until(stk_monitor_links *links, uint64_t ns)
{
    const struct timespec time = { (time_t)(ns / 1000000000u), (long)(ns % 1000000000u) };
    pthread_mutex_lock(&links->lock);
    while (!links->stopping && stk_now_ns() < ns) pthread_cond_timedwait(&links->end, &links->lock, &time);
    const int stopping = links->stopping;
    pthread_mutex_unlock(&links->lock);
    return stopping;
}

static void *run(void *argument)
{
    stk_monitor_links *links = argument;
    stoke_gpu gpu;
    uint64_t next = stk_now_ns();
    do {
        next += PERIOD_NS;
        for (size_t i = 0; i < links->count && !wait_until(links, 0); i++) read_card(links, i, &gpu);
        if (next < stk_now_ns()) next = stk_now_ns(); /* it took longer than that */
    } while (!wait_until(links, next));
    return NULL;
}

static int make_locks(stk_monitor_links *links)
{
    pthread_condattr_t monotonic;
    if (pthread_condattr_init(&monotonic)) return 0;
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    links->locks_made =
        !pthread_mutex_init(&links->lock, NULL) && !pthread_cond_init(&links->end, &monotonic);
    pthread_condattr_destroy(&monotonic);
    return links->locks_made;
}

static int start(stk_monitor_links *links, stoke_error *err)
{
    sigset_t all, old;
    if (!make_locks(links)) return stk_fail(err, STOKE_E_NOMEM, "cannot make the locks of a thread");
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old); /* signals are the caller's */
    const int number = stk_thread_start(&links->thread, run, links);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (number) return stk_fail_errno(err, STOKE_E_NOMEM, number, "cannot start a thread");
    links->started = 1;
    pthread_setname_np(links->thread, "stoke-links");
    return STOKE_OK;
}

int stk_links_open(stk_monitor_links **out, const stoke_gpus_params *params, size_t cards, stoke_error *err)
{
    *out = NULL;
    if (!cards) return STOKE_OK;
    stk_monitor_links *links = stk_calloc(1, sizeof *links);
    if (!links) return stk_fail(err, STOKE_E_NOMEM, "no memory to watch the links of %zu cards", cards);
    links->count = cards;
    links->reading = stk_calloc(cards, sizeof *links->reading);
    int r = links->reading ? stoke_gpus_open(&links->gpus, params, err)
                           : stk_fail(err, STOKE_E_NOMEM, "no memory to watch the links of %zu cards", cards);
    const int same = !r && stoke_gpus_count(links->gpus) == cards;
    if (same) r = start(links, err);
    if (same && !r)
        *out = links;
    else
        stk_links_close(&links);
    return r;
}

void stk_links_close(stk_monitor_links **pointer)
{
    stk_monitor_links *links = *pointer;
    if (!links) return;
    *pointer = NULL;
    if (links->started) {
        pthread_mutex_lock(&links->lock);
        links->stopping = 1;
        pthread_cond_broadcast(&links->end);
        pthread_mutex_unlock(&links->lock);
        pthread_join(links->thread, NULL);
    }
    if (links->locks_made) {
        pthread_mutex_destroy(&links->lock);
        pthread_cond_destroy(&links->end);
    }
    stoke_gpus_close(&links->gpus);
    stk_free(links->reading);
    stk_free(links);
}

void stk_links_take(stk_monitor_links *links, size_t index, stoke_gpu *gpu)
{
    if (!links || gpu->lost) return;
    pthread_mutex_lock(&links->lock);
    const link_reading newest = links->reading[index];
    pthread_mutex_unlock(&links->lock);
    if (!newest.ns || stk_now_ns() - newest.ns > STALE_NS) return;
    gpu->pcie_to_device = newest.to_device;
    gpu->pcie_from_device = newest.from_device;
}
