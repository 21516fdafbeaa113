/* SPDX-License-Identifier: Apache-2.0
 *
 * Batches on a device. cuda has streams that the consumer can name, so nothing waits here; elsewhere the host
 * waits until a batch is there before it hands it out.
 */
#include <stdlib.h>
#include <string.h>

#include <stoke/augment.h>
#include <stoke/tools/loader.h>
#include <stoke/tools/upload.h>

#include "python/src/engine_private.h"

static const char cuda[] = "cuda:";

/* ---- opening ---- */

static int open_device(py_engine *engine, const char *name, stoke_error *err)
{
    int r = stoke_device_open(&engine->device, name, NULL, err);
    if (!r && stoke_device_describe(engine->device)->emulated)
        r = py_fail(err, STOKE_E_INVALID,
                    "%s is a simulated GPU and has no bytes to give: take cuda, opencl or host", name);
    /* Whatever is wrong, it is no file and no sample. */
    if (r == STOKE_E_NOTFOUND || r == STOKE_E_UNSUPPORTED) r = err->code = STOKE_E_DEVICE;
    return r;
}

/* Of what a feed could not be made: a name in the settings, or kernels for the device. */
static int blame(const stoke_data_params *params, const py_route *to, int r)
{
    if (to->upload.placement != STOKE_PLACEMENT_DEVICE) return r;
    if (r != STOKE_E_NOTFOUND && r != STOKE_E_UNSUPPORTED) return r;
    stoke_pipeline *pipeline = NULL;
    const int wrong_name = stoke_pipeline_create(&pipeline, params->augment, NULL);
    stoke_pipeline_destroy(&pipeline);
    return wrong_name ? r : STOKE_E_DEVICE;
}

int py_feed_open(py_engine *engine, const stoke_data_params *params, const py_route *to, stoke_error *err)
{
    int r = open_device(engine, to->device, err);
    if (r) return r;
    engine->streams = !strncmp(py_engine_device(engine)->name, cuda, sizeof cuda - 1);
    stoke_upload_params settings = to->upload;
    settings.transfer = STOKE_TRANSFER_STREAM;
    settings.consumer_stream = NULL; /* its own, which waits for those that batches are lent to */
    r = stoke_upload_create(&engine->upload, engine->dataset, params, engine->device, &settings, err);
    if (r) return err->code = blame(params, to, r);
    engine->watched = stoke_upload_loader(engine->upload);
    return STOKE_OK;
}

/* ---- batches ---- */

int py_feed_next(py_engine *engine, uint64_t deadline_ns, const stoke_device_batch **cargo, stoke_error *err)
{
    int r = stoke_upload_next_until(engine->upload, cargo, deadline_ns);
    if (r) return py_pass(err, r, stoke_upload_error(engine->upload));
    if (!engine->streams) r = stoke_upload_arrive(engine->upload, *cargo, err);
    if (r) stoke_upload_release(engine->upload, cargo);
    return r;
}

int py_lease_lend(py_lease *lease, void *stream, stoke_error *err)
{
    const int r = py_engine_check(lease->engine, err);
    return r ? r : stoke_upload_lend(lease->engine->upload, lease->cargo, stream, err);
}

int py_lease_arrive(py_lease *lease, stoke_error *err)
{
    const int r = py_engine_check(lease->engine, err);
    return r ? r : stoke_upload_arrive(lease->engine->upload, lease->cargo, err);
}

int py_lease_fetch(py_lease *lease, const void *array, void *to, size_t bytes, stoke_error *err)
{
    const int r = py_engine_check(lease->engine, err);
    return r ? r : stoke_upload_fetch(lease->engine->upload, lease->cargo, (uintptr_t)array, to, bytes, err);
}

int py_lease_digest(py_lease *lease, uint8_t digest[16], stoke_error *err)
{
    stoke_batch batch = lease->batch;
    void **const arrays[] = { &batch.images, &batch.masks, &batch.masks_b };
    void *copies[3] = { 0 };
    int r = STOKE_OK;
    for (int i = 0; i < 3 && !r && lease->cargo; i++) {
        const size_t bytes = batch.count * (i ? batch.mask_row_bytes : batch.image_row_bytes);
        if (!*arrays[i] || !bytes) continue;
        copies[i] = malloc(bytes);
        r = copies[i] ? py_lease_fetch(lease, *arrays[i], copies[i], bytes, err)
                      : py_fail(err, STOKE_E_NOMEM, "no memory for a copy of a batch");
        *arrays[i] = copies[i];
    }
    if (!r) stoke_batch_digest(&batch, digest);
    for (int i = 0; i < 3; i++) free(copies[i]);
    return r;
}

/* ---- what is known ---- */

void py_feed_stamp(py_engine *engine, uint64_t waited_ns, const stoke_batch *came)
{
    py_received *got = &engine->received;
    got->waited_ns += waited_ns;
    got->pending_ns += waited_ns;
    stoke_upload_bad(engine->upload, &got->replaced, &got->skipped);
    if (!came) return;
    got->batches++;
    got->samples += came->count;
    if (engine->at_start) got->first_ns = got->pending_ns;
    engine->at_start = 0;
    got->pending_ns = 0;
}

void py_feed_stats(py_engine *engine, stoke_loader_stats_data *stats)
{
    const py_received *got = &engine->received;
    stats->batches = got->batches;
    stats->samples = got->samples;
    stats->replaced = got->replaced;
    stats->skipped = got->skipped;
    stats->first_batch_ns = got->first_ns;
    stats->stage[STOKE_STAGE_BATCH_WAIT] =
        (stoke_stage_time){ .wall_ns = got->waited_ns, .count = got->batches };
    stats->ready_batches = stoke_upload_ready(engine->upload);
    stats->slots = stoke_upload_memory_plan(engine->upload)->slots;
}

const stoke_device_info *py_engine_device(const py_engine *engine)
{
    return engine->device ? stoke_device_describe(engine->device) : NULL;
}

const stoke_upload_memory *py_engine_device_memory(const py_engine *engine)
{
    return engine->upload ? stoke_upload_memory_plan(engine->upload) : NULL;
}

const char *py_engine_placement(const py_engine *engine)
{
    const char *why = NULL;
    if (engine->upload) stoke_upload_placement(engine->upload, &why);
    return why;
}
