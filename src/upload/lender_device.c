/* SPDX-License-Identifier: Apache-2.0
 *
 * Batches on a device. cuda has streams that the consumer can name, so nothing waits here; elsewhere the host
 * waits until a batch is there before it hands it out.
 */
#include <string.h>

#include <stoke/augment.h>
#include <stoke/tools/loader.h>
#include <stoke/tools/upload.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/upload/lender.h"

static const char cuda[] = "cuda:";

/* ---- opening ---- */

static int open_device(stoke_lender *lender, const char *name, stoke_error *err)
{
    int r = stoke_device_open(&lender->device, name, NULL, err);
    if (!r && stoke_device_describe(lender->device)->emulated)
        r = stk_fail(err, STOKE_E_INVALID,
                     "%s is a simulated GPU and has no bytes to give: take cuda, opencl or host", name);
    /* Whatever is wrong, it is no file and no sample. */
    if (r == STOKE_E_NOTFOUND || r == STOKE_E_UNSUPPORTED) r = err->code = STOKE_E_DEVICE;
    return r;
}

/* Of what an upload could not be made: a name in the settings, or kernels for the device. */
static int blame(const stoke_data_params *params, const stoke_lender_route *to, int r)
{
    if (to->upload.placement != STOKE_PLACEMENT_DEVICE) return r;
    if (r != STOKE_E_NOTFOUND && r != STOKE_E_UNSUPPORTED) return r;
    stoke_pipeline *pipeline = NULL;
    const int wrong_name = stoke_pipeline_create(&pipeline, params->augment, NULL);
    stoke_pipeline_destroy(&pipeline);
    return wrong_name ? r : STOKE_E_DEVICE;
}

int stk_lender_open(stoke_lender *lender, const stoke_data_params *params, const stoke_lender_route *to,
                    stoke_error *err)
{
    int r = open_device(lender, to->device, err);
    if (r) return r;
    lender->streams = !strncmp(stoke_lender_device(lender)->name, cuda, sizeof cuda - 1);
    stoke_upload_params settings = to->upload;
    settings.transfer = STOKE_TRANSFER_STREAM;
    settings.consumer_stream = NULL; /* its own, which waits for those that batches are lent to */
    r = stoke_upload_create(&lender->upload, lender->dataset, params, lender->device, &settings, err);
    if (r) return err->code = blame(params, to, r);
    lender->watched = stoke_upload_loader(lender->upload);
    return STOKE_OK;
}

/* ---- batches ---- */

int stk_lender_next(stoke_lender *lender, uint64_t deadline_ns, const stoke_device_batch **cargo,
                    stoke_error *err)
{
    int r = stoke_upload_next_until(lender->upload, cargo, deadline_ns);
    if (r) return stk_fail_again(err, r, stoke_upload_error(lender->upload));
    if (!lender->streams) r = stoke_upload_arrive(lender->upload, *cargo, err);
    if (r) stoke_upload_release(lender->upload, cargo);
    return r;
}

int stoke_lease_lend(stoke_lease *lease, void *stream, stoke_error *err)
{
    const int r = stoke_lender_check(lease->lender, err);
    return r ? r : stoke_upload_lend(lease->lender->upload, lease->cargo, stream, err);
}

int stoke_lease_arrive(stoke_lease *lease, stoke_error *err)
{
    const int r = stoke_lender_check(lease->lender, err);
    return r ? r : stoke_upload_arrive(lease->lender->upload, lease->cargo, err);
}

int stoke_lease_fetch(stoke_lease *lease, const void *array, void *to, size_t bytes, stoke_error *err)
{
    const int r = stoke_lender_check(lease->lender, err);
    return r ? r : stoke_upload_fetch(lease->lender->upload, lease->cargo, (uintptr_t)array, to, bytes, err);
}

stoke_device *stoke_lease_device(const stoke_lease *lease, stoke_hold **owner)
{
    *owner = &lease->lender->hold;
    return lease->lender->device;
}

int stoke_lease_digest(stoke_lease *lease, uint8_t digest[16], stoke_error *err)
{
    stoke_batch batch = lease->batch;
    void **const arrays[] = { &batch.images, &batch.masks, &batch.masks_b };
    void *copies[3] = { 0 };
    int r = STOKE_OK;
    for (int i = 0; i < 3 && !r && lease->cargo; i++) {
        const size_t bytes = batch.count * (i ? batch.mask_row_bytes : batch.image_row_bytes);
        if (!*arrays[i] || !bytes) continue;
        copies[i] = stk_alloc(bytes);
        r = copies[i] ? stoke_lease_fetch(lease, *arrays[i], copies[i], bytes, err)
                      : stk_fail(err, STOKE_E_NOMEM, "no memory for a copy of a batch");
        *arrays[i] = copies[i];
    }
    if (!r) stoke_batch_digest(&batch, digest);
    for (int i = 0; i < 3; i++) stk_free(copies[i]);
    return r;
}

/* ---- what is known ---- */

void stk_lender_stamp(stoke_lender *lender, uint64_t waited_ns, const stoke_batch *came)
{
    stk_lender_received *got = &lender->received;
    got->waited_ns += waited_ns;
    got->pending_ns += waited_ns;
    stoke_upload_bad(lender->upload, &got->replaced, &got->skipped);
    if (!came) return;
    got->batches++;
    got->samples += came->count;
    if (lender->at_start) got->first_ns = got->pending_ns;
    lender->at_start = 0;
    got->pending_ns = 0;
}

void stk_lender_stats(stoke_lender *lender, stoke_loader_stats_data *stats)
{
    const stk_lender_received *got = &lender->received;
    stats->batches = got->batches;
    stats->samples = got->samples;
    stats->replaced = got->replaced;
    stats->skipped = got->skipped;
    stats->first_batch_ns = got->first_ns;
    stats->stage[STOKE_STAGE_BATCH_WAIT] =
        (stoke_stage_time){ .wall_ns = got->waited_ns, .count = got->batches };
    stats->ready_batches = stoke_upload_ready(lender->upload);
    stats->slots = stoke_upload_memory_plan(lender->upload)->slots;
}

const stoke_device_info *stoke_lender_device(const stoke_lender *lender)
{
    return lender->device ? stoke_device_describe(lender->device) : NULL;
}

const stoke_upload_memory *stoke_lender_device_memory(const stoke_lender *lender)
{
    return lender->upload ? stoke_upload_memory_plan(lender->upload) : NULL;
}

const char *stoke_lender_placement(const stoke_lender *lender)
{
    const char *why = NULL;
    if (lender->upload) stoke_upload_placement(lender->upload, &why);
    return why;
}
