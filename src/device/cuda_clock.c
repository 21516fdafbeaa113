/* SPDX-License-Identifier: Apache-2.0
 *
 * When an event happened, on the host's clock. The driver only tells how much later than another event it
 * was, in a float of milliseconds; so an event is put into an idle stream now and then, waited for, and its
 * time on the host noted: a mark. Other events are counted from a mark.
 */
#include "src/device/cuda.h"

#include "src/base/clock.h"
#include "src/base/error.h"

enum {
    /* A float of 8192 ms has steps of 1 us, and clocks of cards and boards that are 20 ppm apart are 160 us
     * apart by then. */
    MARK_LIFE_MS = 8192,
    /* The event happened between its recording and the end of the wait: 10 to 20 us on an idle card. */
    MARK_WINDOW_US = 50,
    MARK_TRIES = 8
};

static int take_mark(stk_cuda *cuda, stk_cuda_mark *mark, stoke_error *err)
{
    for (int i = 0; i < MARK_TRIES; i++) {
        const uint64_t before = stk_now_ns();
        int r = STK_CUDA_CALL(cuda, cuEventRecord, mark->event, cuda->clock.stream);
        if (!r) r = STK_CUDA_CALL(cuda, cuEventSynchronize, mark->event);
        if (r) return r;
        const uint64_t window = stk_now_ns() - before;
        mark->ns = before + window / 2;
        if (window < MARK_WINDOW_US * 1000u) break;
    }
    return STOKE_OK;
}

int stk_cuda_clock_create(stk_cuda *cuda, stoke_error *err)
{
    stk_cuda_clock *clock = &cuda->clock;
    if (pthread_mutex_init(&clock->lock, NULL)) return stk_fail(err, STOKE_E_NOMEM, "no memory for a lock");
    clock->has_lock = 1;
    int r = STK_CUDA_CALL(cuda, cuStreamCreate, &clock->stream, CU_STREAM_NON_BLOCKING);
    /* Not CU_EVENT_BLOCKING_SYNC: a thread that has to be woken would widen the window. */
    for (int i = 0; !r && i < 2; i++)
        r = STK_CUDA_CALL(cuda, cuEventCreate, &clock->marks[i].event, CU_EVENT_DEFAULT);
    for (int i = 0; !r && i < 2; i++) r = take_mark(cuda, &clock->marks[i], err);
    return r;
}

void stk_cuda_clock_destroy(stk_cuda *cuda)
{
    stk_cuda_clock *clock = &cuda->clock;
    for (int i = 0; i < 2; i++)
        if (clock->marks[i].event) cuda->driver.cuEventDestroy(clock->marks[i].event);
    if (clock->stream) cuda->driver.cuStreamDestroy(clock->stream);
    if (clock->has_lock) pthread_mutex_destroy(&clock->lock);
}

/* Takes a mark when the latest is too old to count from. The event has happened: it is before the new one. */
static int elapsed_before(stk_cuda *cuda, stk_device_event *event, uint64_t *ns, stoke_error *err)
{
    stk_cuda_clock *clock = &cuda->clock;
    const stk_cuda_mark oldest = clock->marks[0];
    clock->marks[0] = clock->marks[1];
    clock->marks[1] = oldest;
    float ms = 0;
    int r = take_mark(cuda, &clock->marks[1], err);
    if (!r) r = STK_CUDA_CALL(cuda, cuEventElapsedTime, &ms, event->handle, clock->marks[1].event);
    if (!r) *ns = clock->marks[1].ns - (uint64_t)(int64_t)((double)ms * 1e6);
    return r;
}

/* Counts from the latest mark that is before the event: what the driver says about events in reverse is
 * written nowhere. */
static int elapsed_since(stk_cuda *cuda, stk_device_event *event, uint64_t *ns, stoke_error *err)
{
    const stk_cuda_mark *mark = &cuda->clock.marks[cuda->clock.marks[1].ns <= event->recorded_ns];
    float ms = 0;
    int r = STK_CUDA_CALL(cuda, cuEventElapsedTime, &ms, mark->event, event->handle);
    if (!r) *ns = mark->ns + (uint64_t)(int64_t)((double)ms * 1e6);
    return r;
}

int stk_cuda_event_time(stk_device_event *event, uint64_t *ns, stoke_error *err)
{
    stk_cuda *cuda = event->head.device->own;
    const CUresult done =
        event->recorded_ns ? cuda->driver.cuEventQuery(event->handle) : CUDA_ERROR_NOT_READY;
    if (done == CUDA_ERROR_NOT_READY)
        return stk_fail(err, STOKE_E_STATE, "%s: the event has not happened yet: wait for it first",
                        cuda->name);
    int r = stk_cuda_check(cuda, done, "cuEventQuery", err);
    if (r) return r;
    pthread_mutex_lock(&cuda->clock.lock);
    if (stk_now_ns() - cuda->clock.marks[1].ns < MARK_LIFE_MS * 1000000ull)
        r = elapsed_since(cuda, event, ns, err);
    else
        r = elapsed_before(cuda, event, ns, err);
    pthread_mutex_unlock(&cuda->clock.lock);
    /* Marks are good to some 20 us; this much is certain. */
    const uint64_t now = stk_now_ns();
    if (!r && *ns < event->recorded_ns) *ns = event->recorded_ns;
    if (!r && *ns > now) *ns = now;
    return r;
}
