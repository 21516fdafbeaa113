/* SPDX-License-Identifier: Apache-2.0
 *
 * An event of ours is recorded again and again; one of OpenCL happens once. So a record puts a new marker
 * into the queue and lets go of the one before. Whoever waits holds the marker that was there when they came.
 *
 * The device stamps markers by its own clock: PoCL by CLOCK_MONOTONIC_RAW, which is recognised and read,
 * GPUs by counters on the chip.
 * The offset to the host's clock is never told, but every event shuts it in: an event happened after the host
 * asked for it and before the host saw it. The offset is kept as it is for as long as it agrees with that,
 * and moved by the least that makes it agree. So times never contradict the host's own stamps, whatever the
 * drift.
 */
#include "src/device/opencl.h"

#include "src/base/clock.h"
#include "src/base/error.h"

/* What an event holds now, with a reference of the caller's own to the marker. */
typedef struct held {
    cl_event marker;
    uint64_t recorded_ns, seen_ns;
} held;

static int hold(stk_device_event *e, held *h, stoke_error *err)
{
    const stk_opencl *own = stk_opencl_of(e->device);
    pthread_mutex_lock(&e->lock);
    *h = (held){ e->marker, e->recorded_ns, e->seen_ns };
    const cl_int code = h->marker ? own->cl.clRetainEvent(h->marker) : CL_SUCCESS;
    pthread_mutex_unlock(&e->lock);
    return stk_opencl_check(e->device, "clRetainEvent", code, err);
}

static void let_go(const stk_device_event *e, const held *h)
{
    if (h->marker) stk_opencl_of(e->device)->cl.clReleaseEvent(h->marker);
}

/* Notes when the host knew, unless the event has been recorded again meanwhile. */
static void note_seen(stk_device_event *e, held *h)
{
    const uint64_t now = stk_now_ns();
    pthread_mutex_lock(&e->lock);
    if (e->marker == h->marker && !e->seen_ns) e->seen_ns = now;
    pthread_mutex_unlock(&e->lock);
    if (!h->seen_ns) h->seen_ns = now;
}

/* ---- life ---- */

int stk_opencl_event_create(stk_device_event *e, stoke_error *err)
{
    pthread_mutex_init(&e->lock, NULL);
    return STOKE_OK;
}

void stk_opencl_event_destroy(stk_device_event *e)
{
    if (e->marker) stk_opencl_of(e->device)->cl.clReleaseEvent(e->marker);
    pthread_mutex_destroy(&e->lock);
}

int stk_opencl_event_record(stk_device_event *e, stk_device_stream *stream, stoke_error *err)
{
    const stk_opencl *own = stk_opencl_of(e->device);
    cl_command_queue queue = stream->queue;
    const uint64_t now = stk_now_ns();
    cl_event marker;
    cl_int code = own->cl.clEnqueueMarkerWithWaitList(queue, 0, NULL, &marker);
    if (code) return stk_opencl_check(e->device, "clEnqueueMarkerWithWaitList", code, err);
    /* Another queue that waits for a marker nobody has sent to the device waits for ever; and polling sends
     * nothing either. */
    code = own->cl.clFlush(queue);
    if (code) {
        own->cl.clReleaseEvent(marker);
        return stk_opencl_check(e->device, "clFlush", code, err);
    }
    pthread_mutex_lock(&e->lock);
    cl_event before = e->marker;
    e->marker = marker;
    e->recorded_ns = now;
    e->seen_ns = 0;
    pthread_mutex_unlock(&e->lock);
    if (before) own->cl.clReleaseEvent(before);
    return STOKE_OK;
}

/* ---- waiting ---- */

int stk_opencl_stream_wait(stk_device_stream *stream, stk_device_event *e, stoke_error *err)
{
    const stk_opencl *own = stk_opencl_of(stream->device);
    held h;
    const int r = hold(e, &h, err);
    if (r != STOKE_OK || !h.marker) return r;
    const cl_int code = own->cl.clEnqueueBarrierWithWaitList(stream->queue, 1, &h.marker, NULL);
    let_go(e, &h);
    return stk_opencl_check(stream->device, "clEnqueueBarrierWithWaitList", code, err);
}

int stk_opencl_event_finish(stk_device_event *e, stoke_error *err)
{
    held h;
    const int r = hold(e, &h, err);
    if (r != STOKE_OK || !h.marker) return r;
    const cl_int code = stk_opencl_of(e->device)->cl.clWaitForEvents(1, &h.marker);
    if (!code) note_seen(e, &h);
    let_go(e, &h);
    return stk_opencl_check_wait(e->device, "clWaitForEvents", code, err);
}

/* 1 when the marker has been passed, 0 when not, below 0: the failure. */
static int look(stk_device_event *e, held *h, stoke_error *err)
{
    cl_int status = CL_QUEUED;
    if (!h->marker || h->seen_ns) return 1;
    const cl_int code = stk_opencl_of(e->device)->cl.clGetEventInfo(
        h->marker, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, NULL);
    if (code) return stk_opencl_check_wait(e->device, "clGetEventInfo", code, err);
    if (status < 0) return stk_opencl_check_wait(e->device, "work before an event", status, err);
    if (status == CL_COMPLETE) note_seen(e, h);
    return status == CL_COMPLETE;
}

int stk_opencl_event_done(stk_device_event *e, int *done, stoke_error *err)
{
    held h;
    int r = hold(e, &h, err);
    if (r != STOKE_OK) return r;
    r = look(e, &h, err);
    let_go(e, &h);
    *done = r > 0;
    return r < 0 ? r : STOKE_OK;
}

/* ---- times ---- */

static cl_int ended(const stk_opencl *own, cl_event marker, uint64_t *device_ns)
{
    cl_ulong end = 0;
    const cl_int code =
        own->cl.clGetEventProfilingInfo(marker, CL_PROFILING_COMMAND_END, sizeof end, &end, NULL);
    *device_ns = end;
    return code ? code : end ? CL_SUCCESS : CL_PROFILING_INFO_NOT_AVAILABLE;
}

static int no_times(const stoke_device *device, stoke_error *err)
{
    return stk_fail(err, STOKE_E_UNSUPPORTED, "%s (%s): the driver does not tell the times of events",
                    device->info.name, device->info.title);
}

/* What the device's clock read as `device_ns` happened between two moments of the host's. Of two events that
 * lie closer than the offset had to be moved in between, the later stays the later, though it may then seem
 * to have happened after the host saw it: a length must not be negative. */
static uint64_t to_host(stk_opencl *own, uint64_t device_ns, uint64_t after_ns, uint64_t before_ns)
{
    const int64_t least = (int64_t)(after_ns - device_ns), most = (int64_t)(before_ns - device_ns);
    pthread_mutex_lock(&own->lock);
    if (own->clock_offset < least) own->clock_offset = least;
    if (own->clock_offset > most) own->clock_offset = most;
    uint64_t ns = device_ns + (uint64_t)own->clock_offset;
    if (device_ns >= own->last_device_ns) {
        if (ns < own->last_host_ns) ns = own->last_host_ns;
        own->last_device_ns = device_ns;
        own->last_host_ns = ns;
    } else if (ns > own->last_host_ns) {
        ns = own->last_host_ns;
    }
    pthread_mutex_unlock(&own->lock);
    return ns;
}

/* A marker in the empty queue of chores: seen some 10 us after it was asked for. */
static int read_clock(stoke_device *device, uint64_t *device_ns, uint64_t *after_ns, uint64_t *before_ns,
                      stoke_error *err)
{
    stk_opencl *own = stk_opencl_of(device);
    cl_event marker;
    *device_ns = *before_ns = 0;
    *after_ns = stk_now_ns();
    cl_int code = own->cl.clEnqueueMarkerWithWaitList(own->chores, 0, NULL, &marker);
    if (code) return stk_opencl_check(device, "clEnqueueMarkerWithWaitList", code, err);
    code = own->cl.clWaitForEvents(1, &marker);
    *before_ns = stk_now_ns();
    int r = stk_opencl_check_wait(device, "clWaitForEvents", code, err);
    if (r == STOKE_OK && ended(own, marker, device_ns)) r = no_times(device, err);
    own->cl.clReleaseEvent(marker);
    return r;
}

static const clockid_t host_clocks[] = { CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW, CLOCK_BOOTTIME,
                                         CLOCK_REALTIME };
enum { HOST_CLOCKS = sizeof host_clocks / sizeof *host_clocks };

/* CLOCK_MONOTONIC less another clock of the host: the best of a few, since anyone may be interrupted. */
static int64_t offset_of(clockid_t clock)
{
    int64_t offset = 0;
    for (uint64_t i = 0, best = UINT64_MAX; i < 5; i++) {
        const uint64_t before = stk_now_ns(), other = stk_clock_ns(clock), after = stk_now_ns();
        if (after - before >= best) continue;
        best = after - before;
        offset = (int64_t)(before + best / 2 - other);
    }
    return offset;
}

/* Each look shuts the offset in from both sides; together they do it more closely than the best of them. A
 * clock of the host that fits in there is the device's: its own counter would start anywhere. */
int stk_opencl_clock_start(stoke_device *device, stoke_error *err)
{
    enum { LOOKS = 8 }; /* the first ones start threads and fill caches */
    stk_opencl *own = stk_opencl_of(device);
    int64_t least = INT64_MIN, most = INT64_MAX;
    for (int i = 0; i < LOOKS; i++) {
        uint64_t device_ns, after_ns, before_ns;
        const int r = read_clock(device, &device_ns, &after_ns, &before_ns, err);
        if (r == STOKE_E_UNSUPPORTED) return STOKE_OK; /* whoever asks for a time will be told */
        if (r != STOKE_OK) return r;
        if ((int64_t)(after_ns - device_ns) > least) least = (int64_t)(after_ns - device_ns);
        if ((int64_t)(before_ns - device_ns) < most) most = (int64_t)(before_ns - device_ns);
    }
    own->clock_offset = least + (most - least) / 2;
    own->clock_twin = -1;
    for (int i = 0; own->clock_twin < 0 && i < HOST_CLOCKS; i++) {
        const int64_t offset = offset_of(host_clocks[i]);
        if (offset < least || offset > most) continue;
        own->clock_offset = offset;
        own->clock_twin = i;
    }
    own->clock_checked_ns = stk_now_ns();
    return STOKE_OK;
}

/* Events that wait long in their queue and are looked at late would let the offset drift far: crystals differ
 * by up to 100 ppm, 1 ms in 10 s. */
static int check_clock(stoke_device *device, stoke_error *err)
{
    static const uint64_t every_ns = UINT64_C(10000000000);
    stk_opencl *own = stk_opencl_of(device);
    const uint64_t now = stk_now_ns();
    pthread_mutex_lock(&own->lock);
    const int due = now - own->clock_checked_ns > every_ns;
    if (due) own->clock_checked_ns = now;
    if (due && own->clock_twin >= 0) own->clock_offset = offset_of(host_clocks[own->clock_twin]);
    pthread_mutex_unlock(&own->lock);
    if (!due || own->clock_twin >= 0) return STOKE_OK;
    uint64_t device_ns, after_ns, before_ns;
    const int r = read_clock(device, &device_ns, &after_ns, &before_ns, err);
    if (r == STOKE_OK) to_host(own, device_ns, after_ns, before_ns);
    return r;
}

int stk_opencl_event_time(stk_device_event *e, uint64_t *ns, stoke_error *err)
{
    stoke_device *device = e->device;
    stk_opencl *own = stk_opencl_of(device);
    held h;
    uint64_t device_ns = 0;
    int r = hold(e, &h, err);
    if (r != STOKE_OK) return r;
    const int done = look(e, &h, err);
    if (done < 0)
        r = done;
    else if (!done || !h.marker)
        r = stk_fail(err, STOKE_E_STATE, "%s: an event that %s has no time", device->info.name,
                     h.marker ? "has not happened yet" : "was never recorded");
    if (r == STOKE_OK && ended(own, h.marker, &device_ns)) r = no_times(device, err);
    if (r == STOKE_OK) r = check_clock(device, err);
    if (r == STOKE_OK) *ns = to_host(own, device_ns, h.recorded_ns, h.seen_ns);
    let_go(e, &h);
    return r;
}
