/* SPDX-License-Identifier: Apache-2.0
 *
 * When steps on the consumer's stream begin and end: two events around each, read when they have passed.
 */
#include "src/base/clock.h"
#include "src/upload/upload_internal.h"
#include "src/loader/loader.h"

int stk_step_times_create(stoke_upload *upload, stoke_error *err)
{
    stk_upload_step_times *steps = &upload->steps;
    int r = STOKE_OK;
    for (int i = 0; i < STK_STEPS && !r; i++) {
        r = stk_event_create(&steps->step[i].start, upload->device, err);
        if (!r) r = stk_event_create(&steps->step[i].end, upload->device, err);
    }
    steps->device = upload->device;
    steps->stream = upload->consumer;
    if (upload->augmenter) steps->module = stk_augmenter_module(upload->augmenter);
    steps->number = -1;
    steps->transfer = STK_NO_TRANSFER;
    return r;
}

void stk_step_times_destroy(stoke_upload *upload)
{
    stk_upload_step_times *steps = &upload->steps;
    if (steps->work) steps->work_destroy(steps->work);
    for (int i = 0; i < STK_STEPS; i++) {
        stk_event_destroy(&steps->step[i].start);
        stk_event_destroy(&steps->step[i].end);
    }
    *steps = (stk_upload_step_times){ 0 };
}

stk_upload_step_times *stk_step_times_of(stoke_upload *upload)
{
    return &upload->steps;
}

int stk_steps_read(stoke_upload *upload, stoke_error *err)
{
    stk_upload_step_times *steps = &upload->steps;
    for (; steps->read < steps->given; steps->read++) {
        const stk_upload_step *step = &steps->step[steps->read % STK_STEPS];
        stk_busy_interval interval;
        int done, r = stk_event_done(step->end, &done, err);
        if (r || !done) return r;
        r = stk_upload_between(step->start, step->end, &interval, err);
        if (r) return r;
        if (step->occupied_ns) interval.start = interval.end - step->occupied_ns;
        stk_observer_stepped(&upload->observer, step->transfer, step->number, interval);
    }
    return STOKE_OK;
}

int stk_step_start(stoke_upload *upload, stk_upload_step *step, stoke_error *err)
{
    step->launched = stk_now_ns();
    return stk_event_record(step->start, upload->consumer, err);
}

int stk_step_begin(stoke_upload *upload, stk_upload_step **out, stoke_error *err)
{
    stk_upload_step_times *steps = &upload->steps;
    stk_upload_step *step = *out = &steps->step[steps->given % STK_STEPS];
    const uint64_t began = stk_now_ns();
    int r = STOKE_OK;
    if (steps->given - steps->read == STK_STEPS) r = stk_event_finish(step->end, err);
    pthread_mutex_lock(&upload->lock);
    if (!r) r = stk_steps_read(upload, err);
    pthread_mutex_unlock(&upload->lock);
    step->began = began;
    step->occupied_ns = 0;
    return r ? r : stk_step_start(upload, step, err);
}

int stk_step_end(stoke_upload *upload, stk_upload_step *step, stoke_error *err)
{
    const int r = stk_event_record(step->end, upload->consumer, err);
    if (r) return r;
    step->number = upload->steps.number;
    step->transfer = upload->steps.transfer;
    pthread_mutex_lock(&upload->lock);
    const int last = stk_step_log_launched(&upload->observer.step_log, step->transfer, step->launched);
    pthread_mutex_unlock(&upload->lock);
    if (last) stk_loader_record(upload->loader, 0);
    upload->steps.given++;
    stk_observer_span(&upload->observer, "launch", step->began, step->number);
    return STOKE_OK;
}
