/* SPDX-License-Identifier: Apache-2.0
 *
 * Training steps that are none: the consumer's stream is busy for so many milliseconds. Simulated where the
 * device is, else by a kernel that computes for nothing, whose turns a millisecond are measured once.
 */
#include <math.h>
#include <stoke/tools/upload.h>

#include "kernels/tables.h"
#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/upload/upload_internal.h"
#include "src/loader/loader.h"

enum {
    ITEMS_PER_UNIT = 256, /* enough to fill a compute unit */
    FIRST_TURNS = 1000,   /* of the measurement: 1 us to 0.1 ms */
    MEASURE_NS = 2000000, /* long against the cost of a launch */
    MOST_UNITS = 1024
};

int stk_stepper_create(stoke_upload *upload, stoke_error *err)
{
    stk_upload_stepper *steps = &upload->steps;
    int r = STOKE_OK;
    for (int i = 0; i < STK_STEPS && !r; i++) {
        r = stk_event_create(&steps->step[i].start, upload->device, err);
        if (!r) r = stk_event_create(&steps->step[i].end, upload->device, err);
    }
    const uint32_t units = upload->info.compute_units;
    steps->items = ITEMS_PER_UNIT * (units < 1 ? 1 : units > MOST_UNITS ? MOST_UNITS : units);
    steps->number = -1;
    steps->transfer = STK_NO_TRANSFER;
    if (!r && upload->augmenter) {
        steps->module = stk_augmenter_module(upload->augmenter);
        r = stk_block_create(&steps->word, upload->device, STK_MEMORY_DEVICE, sizeof(uint32_t), err);
    }
    return r;
}

void stk_stepper_destroy(stoke_upload *upload)
{
    stk_upload_stepper *steps = &upload->steps;
    for (int i = 0; i < STK_STEPS; i++) {
        stk_event_destroy(&steps->step[i].start);
        stk_event_destroy(&steps->step[i].end);
    }
    stk_module_destroy(&steps->own);
    stk_block_destroy(&steps->words);
    stk_block_destroy(&steps->word);
    *steps = (stk_upload_stepper){ 0 };
}

static int spin(stk_device_stream *stream, stk_device_module *module, const stk_device_block *words,
                uint32_t items, uint32_t turns, stoke_error *err)
{
    const k_shape shape = { .width = items, .round = turns };
    const stk_device_argument arguments[] = { { .block = words },
                                              { .value = &shape, .bytes = sizeof shape } };
    const stk_device_launch launch = {
        .kernel = STK_KERNEL_spin, .grid = { items, 1, 1 }, .arguments = arguments, .n_arguments = 2
    };
    return stk_stream_launch(stream, module, &launch, err);
}

int stk_stepper_knock(stoke_upload *upload, stk_device_stream *stream, stoke_error *err)
{
    return spin(stream, upload->steps.module, &upload->steps.word, 1, 0, err);
}

/* ---- steps that compute ---- */

static int make_spinner(stoke_upload *upload, stoke_error *err)
{
    stk_upload_stepper *steps = &upload->steps;
    int r = STOKE_OK;
    if (!steps->module) r = stk_module_create(&steps->own, upload->device, &stk_augment_program, err);
    if (!r && !steps->module) steps->module = steps->own;
    if (!r && !steps->words.bytes)
        r = stk_block_create(&steps->words, upload->device, STK_MEMORY_DEVICE,
                             steps->items * sizeof(uint32_t), err);
    return r;
}

static int time_turns(stoke_upload *upload, uint32_t turns, uint64_t *ns, stoke_error *err)
{
    stk_upload_stepper *steps = &upload->steps;
    stk_upload_fake_step *step = &steps->step[steps->given % STK_STEPS]; /* free: the caller saw to it */
    uint64_t start = 0, end = 0;
    int r = stk_event_record(step->start, upload->consumer, err);
    if (!r) r = spin(upload->consumer, steps->module, &steps->words, steps->items, turns, err);
    if (!r) r = stk_event_record(step->end, upload->consumer, err);
    if (!r) r = stk_event_finish(step->end, err);
    if (!r) r = stk_event_time(step->start, &start, err);
    if (!r) r = stk_event_time(step->end, &end, err);
    *ns = end > start ? end - start : 1;
    return r;
}

/* Once; the host waits for it. The first run of a kernel is not like the others and is left out. */
static int measure_turns(stoke_upload *upload, stoke_error *err)
{
    uint32_t turns = FIRST_TURNS;
    uint64_t ns = 0;
    int r = make_spinner(upload, err);
    if (!r) r = stk_stream_finish(upload->consumer, err);
    if (!r) r = time_turns(upload, turns, &ns, err);
    while (!r) {
        r = time_turns(upload, turns, &ns, err);
        if (r || ns >= MEASURE_NS || turns > UINT32_MAX / 4) break;
        turns *= 4;
    }
    if (!r) upload->steps.turns_per_ns = (double)turns / (double)ns;
    return r;
}

static int compute(stoke_upload *upload, uint64_t ns, stoke_error *err)
{
    const double turns = upload->steps.turns_per_ns * (double)ns;
    return spin(upload->consumer, upload->steps.module, &upload->steps.words, upload->steps.items,
                turns < UINT32_MAX ? (uint32_t)turns : UINT32_MAX, err);
}

/* ---- steps ---- */

static int read_step(stoke_upload *upload, const stk_upload_fake_step *step, stoke_error *err)
{
    stk_busy_interval interval;
    int r = stk_upload_between(step->start, step->end, &interval, err);
    if (r) return r;
    if (step->occupied_ns) interval.start = interval.end - step->occupied_ns;
    stk_observer_stepped(&upload->observer, step->transfer, step->number, interval);
    return STOKE_OK;
}

int stk_steps_read(stoke_upload *upload, stoke_error *err)
{
    stk_upload_stepper *steps = &upload->steps;
    for (; steps->read < steps->given; steps->read++) {
        const stk_upload_fake_step *step = &steps->step[steps->read % STK_STEPS];
        int done, r = stk_event_done(step->end, &done, err);
        if (r || !done) return r;
        r = read_step(upload, step, err);
        if (r) return r;
    }
    return STOKE_OK;
}

/* A step whose events are not needed any more. */
static int free_step(stoke_upload *upload, stk_upload_fake_step **out, stoke_error *err)
{
    stk_upload_stepper *steps = &upload->steps;
    int r = STOKE_OK;
    if (steps->given - steps->read == STK_STEPS)
        r = stk_event_finish(steps->step[steps->read % STK_STEPS].end, err);
    pthread_mutex_lock(&upload->lock);
    if (!r) r = stk_steps_read(upload, err);
    pthread_mutex_unlock(&upload->lock);
    *out = &steps->step[steps->given % STK_STEPS];
    return r;
}

static void write_down(stoke_upload *upload, const stk_upload_fake_step *step, uint64_t launched)
{
    pthread_mutex_lock(&upload->lock);
    const int last = stk_step_log_launched(&upload->observer.step_log, step->transfer, launched);
    pthread_mutex_unlock(&upload->lock);
    if (last) stk_loader_record(upload->loader, 0);
}

int stoke_upload_step(stoke_upload *upload, double ms, stoke_error *err)
{
    if (!isfinite(ms) || ms < 0 || ms > 1e9)
        return stk_fail(err, STOKE_E_INVALID, "a step of %g ms cannot be made: 0 to 1e9 can", ms);
    const uint64_t ns = (uint64_t)(ms * 1e6), began = stk_now_ns();
    stk_upload_fake_step *step;
    int r = free_step(upload, &step, err);
    uint64_t launched = stk_now_ns();
    if (!r) r = stk_event_record(step->start, upload->consumer, err);
    if (r) return r;
    r = stk_stream_occupy(upload->consumer, ns, err);
    step->occupied_ns = ns;
    if (r == STOKE_E_UNSUPPORTED) {
        step->occupied_ns = 0;
        r = upload->steps.turns_per_ns > 0 ? STOKE_OK : measure_turns(upload, err);
        launched = stk_now_ns();
        if (!r) r = stk_event_record(step->start, upload->consumer, err);
        if (!r) r = compute(upload, ns, err);
    }
    if (!r) r = stk_event_record(step->end, upload->consumer, err);
    if (r) return r;
    step->number = upload->steps.number;
    step->transfer = upload->steps.transfer;
    write_down(upload, step, launched);
    upload->steps.given++;
    stk_observer_span(&upload->observer, "launch", began, step->number);
    return STOKE_OK;
}
