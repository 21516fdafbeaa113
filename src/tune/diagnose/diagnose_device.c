/* SPDX-License-Identifier: Apache-2.0
 *
 * A loop whose batches go to a device, through the upload, and whose steps are so many ms of that device.
 */
#include <string.h>
#include <stoke/tools/upload.h>

#include "src/base/error.h"
#include "src/tune/diagnose/diagnose.h"

static int open_upload(stk_diagnose_loop *loop, stoke_error *err)
{
    const stk_diagnose_run_job *job = loop->job;
    const stoke_setup *setup = &job->setup;
    const size_t left = job->warm_up + job->steps - loop->taken;
    stoke_upload_params params = stoke_upload_defaults();
    params.placement = setup->placement;
    params.transfer = setup->transfer;
    params.depth = setup->depth;
    loop->data.epoch = (int64_t)loop->epoch;
    int r = stoke_upload_create(&loop->upload, job->params->dataset, &loop->data, job->params->device,
                                &params, err);
    if (!r && left) r = stoke_upload_record(loop->upload, left, err);
    if (!r) loop->out->steps_per_epoch = stoke_upload_batches(loop->upload);
    return r;
}

static void close_upload(stk_diagnose_loop *loop, int whole)
{
    loop->batch = NULL;
    stoke_upload_destroy(&loop->upload);
}

static int next(stk_diagnose_loop *loop, stoke_error *err)
{
    const int r = stoke_upload_next(loop->upload, &loop->batch);
    return r && r != STOKE_E_END ? stk_fail_again(err, r, stoke_upload_error(loop->upload)) : r;
}

static int set_epoch(stk_diagnose_loop *loop, stoke_error *err)
{
    const int r = stoke_upload_set_epoch(loop->upload, loop->epoch);
    return r ? stk_fail_again(err, r, stoke_upload_error(loop->upload)) : r;
}

static int step(stk_diagnose_loop *loop, double ms, stoke_error *err)
{
    int r = stoke_fake_step(loop->upload, ms, err);
    stoke_upload_release(loop->upload, &loop->batch);
    if (!r && loop->job->setup.sync) r = stoke_upload_finish(loop->upload, err);
    return r;
}

static int finish(stk_diagnose_loop *loop, stoke_error *err)
{
    const stoke_step_record *records;
    stk_diagnose_run *out = loop->out;
    const int r = stoke_upload_finish(loop->upload, err);
    if (r) return r;
    const size_t n = stoke_upload_records(loop->upload, &records);
    if (n > loop->taken - out->n)
        return stk_fail(err, STOKE_E_STATE, "an upload has records of steps that were not taken");
    memcpy(out->records + out->n, records, n * sizeof *records);
    out->n += n;
    return STOKE_OK;
}

static void trace(stk_diagnose_loop *loop)
{
    stoke_upload_trace(loop->upload, loop->job->trace);
}

const stk_diagnose_loop_way stk_way_of_device = {
    .open = open_upload,
    .close = close_upload,
    .next = next,
    .set_epoch = set_epoch,
    .step = step,
    .finish = finish,
    .trace = trace,
};
