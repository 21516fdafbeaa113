/* SPDX-License-Identifier: Apache-2.0
 *
 * A loop whose batches go to a device, through the feed, and whose steps are so many ms of that device.
 */
#include <string.h>

#include "src/base/error.h"
#include "src/tune/diagnose/diagnose.h"

static int open_feed(stk_loop *loop, stoke_error *err)
{
    const stk_stretch_job *job = loop->job;
    const stoke_setup *setup = &job->setup;
    const size_t left = job->warm_up + job->steps - loop->taken;
    stoke_feed_params params = stoke_feed_defaults();
    params.placement = setup->placement;
    params.transfer = setup->transfer;
    params.depth = setup->depth;
    loop->data.epoch = (int64_t)loop->epoch;
    int r =
        stoke_feed_create(&loop->feed, job->params->dataset, &loop->data, job->params->device, &params, err);
    if (!r && left) r = stoke_feed_record(loop->feed, left, err);
    if (!r) loop->out->steps_per_epoch = stoke_feed_batches(loop->feed);
    return r;
}

static void close_feed(stk_loop *loop, int whole)
{
    loop->batch = NULL;
    stoke_feed_destroy(&loop->feed);
}

static int next(stk_loop *loop, stoke_error *err)
{
    const int r = stoke_feed_next(loop->feed, &loop->batch);
    return r && r != STOKE_E_END ? stk_fail_again(err, r, stoke_feed_error(loop->feed)) : r;
}

static int set_epoch(stk_loop *loop, stoke_error *err)
{
    const int r = stoke_feed_set_epoch(loop->feed, loop->epoch);
    return r ? stk_fail_again(err, r, stoke_feed_error(loop->feed)) : r;
}

static int step(stk_loop *loop, double ms, stoke_error *err)
{
    int r = stoke_feed_step(loop->feed, ms, err);
    stoke_feed_release(loop->feed, &loop->batch);
    if (!r && loop->job->setup.sync) r = stoke_feed_finish(loop->feed, err);
    return r;
}

static int finish(stk_loop *loop, stoke_error *err)
{
    const stoke_step_record *records;
    stk_stretch *out = loop->out;
    const int r = stoke_feed_finish(loop->feed, err);
    if (r) return r;
    const size_t n = stoke_feed_records(loop->feed, &records);
    if (n > loop->taken - out->n)
        return stk_fail(err, STOKE_E_STATE, "a feed has records of steps that were not taken");
    memcpy(out->records + out->n, records, n * sizeof *records);
    out->n += n;
    return STOKE_OK;
}

static void trace(stk_loop *loop)
{
    stoke_feed_trace(loop->feed, loop->job->trace);
}

const stk_loop_way stk_way_of_feed = {
    .open = open_feed,
    .close = close_feed,
    .next = next,
    .set_epoch = set_epoch,
    .step = step,
    .finish = finish,
    .trace = trace,
};
