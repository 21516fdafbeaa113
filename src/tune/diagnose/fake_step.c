/* SPDX-License-Identifier: Apache-2.0
 *
 * Training steps that are none: the consumer's stream is busy for so many milliseconds. Simulated where the
 * device is, else by a kernel that computes for nothing, whose turns a millisecond are measured once.
 */
#include <math.h>
#include <stoke/tools/diagnose.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/upload/augmenter.h"
#include "src/upload/step_times.h"

enum {
    ITEMS_PER_UNIT = 256, /* enough to fill a compute unit */
    FIRST_TURNS = 1000,   /* of the measurement: 1 us to 0.1 ms */
    MEASURE_NS = 2000000, /* long against the cost of a launch */
    MOST_UNITS = 1024
};

/* What spins on the device; the upload keeps it and ends it. */
typedef struct spinner {
    stk_device_module *module, *own; /* own: made here because there is no augmenter */
    stk_device_block words;
    uint32_t items;
    double turns_per_ns; /* of the loop in the kernel */
} spinner;

static void spinner_destroy(void *work)
{
    spinner *s = work;
    stk_module_destroy(&s->own);
    stk_block_destroy(&s->words);
    stk_free(s);
}

static int spin(stk_device_stream *stream, const spinner *s, uint32_t turns, stoke_error *err)
{
    return stk_augment_spin(stream, s->module, &s->words, s->items, turns, err);
}

static int time_turns(const spinner *s, stk_device_stream *stream, const stk_upload_step *step,
                      uint32_t turns, uint64_t *ns, stoke_error *err)
{
    uint64_t start = 0, end = 0;
    int r = stk_event_record(step->start, stream, err);
    if (!r) r = spin(stream, s, turns, err);
    if (!r) r = stk_event_record(step->end, stream, err);
    if (!r) r = stk_event_finish(step->end, err);
    if (!r) r = stk_event_time(step->start, &start, err);
    if (!r) r = stk_event_time(step->end, &end, err);
    *ns = end > start ? end - start : 1;
    return r;
}

/* Its turns a millisecond are measured once; the host waits for it. The first run of a kernel is not like the
 * others and is left out. */
static int make_work(stk_upload_step_times *steps, const stk_upload_step *step, stoke_error *err)
{
    const uint32_t units = stoke_device_describe(steps->device)->compute_units;
    uint32_t turns = FIRST_TURNS;
    uint64_t ns = 1;
    spinner *s = stk_calloc(1, sizeof *s);
    if (!s) return stk_fail(err, STOKE_E_NOMEM, "no memory for a step");
    s->items = ITEMS_PER_UNIT * (units < 1 ? 1 : units > MOST_UNITS ? MOST_UNITS : units);
    int r = STOKE_OK;
    if (!steps->module) r = stk_module_create(&s->own, steps->device, &stk_augment_program, err);
    s->module = steps->module ? steps->module : s->own;
    if (!r)
        r = stk_block_create(&s->words, steps->device, STK_MEMORY_DEVICE, s->items * sizeof(uint32_t), err);
    if (!r) r = stk_stream_finish(steps->stream, err);
    if (!r) r = time_turns(s, steps->stream, step, turns, &ns, err);
    while (!r) {
        r = time_turns(s, steps->stream, step, turns, &ns, err);
        if (r || ns >= MEASURE_NS || turns > UINT32_MAX / 4) break;
        turns *= 4;
    }
    s->turns_per_ns = (double)turns / (double)ns;
    if (r) {
        spinner_destroy(s);
        return r;
    }
    steps->work = s;
    steps->work_destroy = spinner_destroy;
    return STOKE_OK;
}

static int compute(stoke_upload *upload, stk_upload_step *step, uint64_t ns, stoke_error *err)
{
    stk_upload_step_times *steps = stk_step_times_of(upload);
    int r = steps->work ? STOKE_OK : make_work(steps, step, err);
    if (!r) r = stk_step_start(upload, step, err);
    if (r) return r;
    const spinner *s = steps->work;
    const double turns = s->turns_per_ns * (double)ns;
    return spin(steps->stream, s, turns < UINT32_MAX ? (uint32_t)turns : UINT32_MAX, err);
}

int stoke_fake_step(stoke_upload *upload, double ms, stoke_error *err)
{
    if (!isfinite(ms) || ms < 0 || ms > 1e9)
        return stk_fail(err, STOKE_E_INVALID, "a step of %g ms cannot be made: 0 to 1e9 can", ms);
    const uint64_t ns = (uint64_t)(ms * 1e6);
    stk_upload_step *step;
    int r = stk_step_begin(upload, &step, err);
    if (r) return r;
    r = stk_stream_occupy(stk_step_times_of(upload)->stream, ns, err);
    if (!r) step->occupied_ns = ns;
    if (r == STOKE_E_UNSUPPORTED) r = compute(upload, step, ns, err);
    return r ? r : stk_step_end(upload, step, err);
}
