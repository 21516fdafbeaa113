/* SPDX-License-Identifier: Apache-2.0
 *
 * Who augments, when nobody said: both are measured on the first batches, and a step of either is predicted:
 *
 *     input   P = max(wall a batch / workers, CPU a batch / cores)
 *     device  g = step, and the kernels where the device augments
 *     copy    h = bytes over the link
 *     step    T = max(P, g, h); max(P, g + h) where copies share the stream of steps; max(P, g) + h where
 *             the caller does the loader's work too
 *
 * The shorter T wins: the device then does more of what it is there for. Where both are alike within what
 * such a prediction is good for, the one that takes less CPU.
 */
#include <stdio.h>
#include <stoke/tools/machine.h>

#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/upload/upload_internal.h"

enum {
    BATCHES = 2, /* the first one pays for pages touched and caches filled */
    ROWS = 16    /* laid out on the host, after one to warm up */
};
/* Predictions of this kind were within 5 points of what was measured. */
static const double alike = 1.05;

typedef struct measurement {
    double lay_cpu_ms;                        /* of a sample on the host */
    double load_cpu_ms, load_wall_ms;         /* of a sample up to there */
    double raw_bytes, raw_copy_ms, kernel_ms; /* of a full batch */
    double whole_bytes;                       /* of a finished one */
} measurement;

typedef struct estimate {
    double input, device, copy, step; /* ms a batch */
    double cpu;                       /* ms a sample */
} estimate;

/* ---- measuring ---- */

static int time_host(const stoke_upload *upload, const stoke_batch *batch, measurement *seen,
                     stoke_error *err)
{
    const stk_raw_row *rows = stk_batch_raw(batch);
    const uint32_t n = batch->count < ROWS ? batch->count : ROWS;
    stk_scratch bench = { 0 };
    uint64_t begin = 0;
    uint8_t *image = stk_alloc_aligned(upload->shape.image_row_bytes, 64);
    uint8_t *mask = stk_alloc_aligned(upload->shape.mask_row_bytes, 64);
    int r = image && mask ? stk_scratch_create(&bench, err)
                          : stk_fail(err, STOKE_E_NOMEM, "no memory to measure a row");
    for (uint32_t i = 0; !r && i <= n; i++) { /* row 0 twice: to warm up, and to count */
        const uint32_t row = i ? i - 1 : 0;
        if (i == 1) begin = stk_thread_cpu_ns();
        r = stk_raw_render(&bench, upload->config, &rows[row],
                           (const char *)batch->images + row * batch->image_row_bytes,
                           (const char *)batch->masks + row * batch->mask_row_bytes, image, mask, err);
    }
    if (!r) seen->lay_cpu_ms = (double)(stk_thread_cpu_ns() - begin) / n / 1e6;
    stk_scratch_destroy(&bench);
    stk_free(image);
    stk_free(mask);
    return r;
}

/* As of a full batch, which the last one of an epoch may not be. */
static int time_device(const stoke_upload *upload, const stk_upload_transfer *transfer, measurement *seen,
                       stoke_error *err)
{
    stk_busy_interval copy, kernels;
    int r = stk_upload_between(transfer->copy_start, transfer->copy_end, &copy, err);
    if (!r) r = stk_upload_between(transfer->kernel_start, transfer->end, &kernels, err);
    if (r) return r;
    const double whole = (double)upload->shape.capacity / transfer->host->count;
    seen->raw_bytes = whole * (double)transfer->bytes;
    seen->raw_copy_ms = whole * (double)(copy.end - copy.start) / 1e6;
    seen->kernel_ms = whole * (double)(kernels.end - kernels.start) / 1e6;
    return STOKE_OK;
}

/* What the workers took up to here, of all rows they made. */
static void time_loader(const stoke_upload *upload, measurement *seen)
{
    stoke_loader_stats_data stats;
    uint64_t cpu = 0, wall = 0;
    stoke_loader_stats(upload->loader, &stats);
    for (int i = STOKE_STAGE_READ; i <= STOKE_STAGE_WRITE; i++) {
        cpu += stats.stage[i].cpu_ns;
        wall += stats.stage[i].wall_ns;
    }
    const double rows = stats.stage[STOKE_STAGE_READ].count ? (double)stats.stage[STOKE_STAGE_READ].count : 1;
    seen->load_cpu_ms = (double)cpu / rows / 1e6;
    seen->load_wall_ms = (double)wall / rows / 1e6;
}

/* One batch, looked at from both sides. *looked is 0 when the loader has none to give: the reason will come
 * up again where it belongs, in next(). */
static int look(stoke_upload *upload, measurement *seen, int *looked, stoke_error *err)
{
    stk_ring_slot *slot = &upload->ring.slot[0];
    int r = stk_transfer_fill(upload, slot, STK_FOR_EVER, err);
    *looked = !r && slot->batch.host.count > 0;
    if (r) return r == STOKE_E_DEVICE || r == STOKE_E_NOMEM || r == STOKE_E_UNSUPPORTED ? r : STOKE_OK;
    const stk_upload_transfer *transfer = &upload->transfers[(upload->sent - 1) % STK_TRANSFERS];
    r = stk_stream_finish(upload->copies, err);
    if (!r && *looked) r = time_device(upload, transfer, seen, err);
    if (!r && *looked) r = time_host(upload, transfer->host, seen, err);
    return r ? r : stk_transfer_retire(upload, err);
}

/* ---- choosing ---- */

static estimate predict(const stoke_upload *upload, const measurement *seen, double step_ms, int on_device)
{
    const double workers = upload->memory.host.workers ? upload->memory.host.workers : 1;
    const double cores = stoke_machine_cores().usable, rows = upload->shape.capacity;
    const double lay = on_device ? 0 : seen->lay_cpu_ms;
    const double by_workers = (seen->load_wall_ms + lay) / workers;
    const double by_cores = (seen->load_cpu_ms + lay) / cores;
    estimate p = { .cpu = seen->load_cpu_ms + lay };
    p.input = rows * (by_workers > by_cores ? by_workers : by_cores);
    p.device = step_ms + (on_device ? seen->kernel_ms : 0);
    p.copy = seen->raw_copy_ms * (on_device ? 1 : seen->whole_bytes / seen->raw_bytes);
    const double overlapped = p.input > p.device ? p.input : p.device;
    if (upload->serial)
        p.step = overlapped + p.copy;
    else if (upload->transfer == STOKE_TRANSFER_STREAM)
        p.step = overlapped > p.copy ? overlapped : p.copy;
    else
        p.step = p.input > p.device + p.copy ? p.input : p.device + p.copy;
    return p;
}

static void explain(stoke_upload *upload, const estimate *host, const estimate *device, int on_device,
                    double step_ms)
{
    const estimate *taken = on_device ? device : host, *other = on_device ? host : device;
    char step[48] = "the step is not known";
    if (step_ms > 0) snprintf(step, sizeof step, "the step takes %.1f ms as given", step_ms);
    snprintf(upload->why, sizeof upload->why,
             "%s: a batch every %.1f ms at %.2f ms CPU a sample, against %.1f ms at %.2f with the %s (input "
             "%.1f, copy %.2f, device %.1f ms against %.1f, %.2f, %.1f); CPU measured, device times %s, %s",
             on_device ? "device" : "host", taken->step, taken->cpu, other->step, other->cpu,
             on_device ? "host" : "device", taken->input, taken->copy, taken->device, other->input,
             other->copy, other->device, upload->info.emulated ? "emulated" : "measured", step);
}

int stk_placement_choose(stoke_upload *upload, double step_ms, stoke_error *err)
{
    measurement seen = { 0 };
    int r = STOKE_OK, looked = 1, ever = 0;
    atomic_store(&upload->observer.watched, 1);
    for (int i = 0; i < BATCHES && !r && looked; i++) {
        r = look(upload, &seen, &looked, err);
        ever |= looked;
    }
    atomic_store(&upload->observer.watched, 0);
    if (r) return r;
    if (!ever || !(seen.raw_bytes > 0)) {
        snprintf(upload->why, sizeof upload->why, "host: no batch came that could be measured");
        return STOKE_PLACEMENT_HOST;
    }
    time_loader(upload, &seen);
    seen.whole_bytes = (double)stk_ring_slot_bytes(&upload->shape, upload->config->two_masks, 0);
    const estimate host = predict(upload, &seen, step_ms, 0), device = predict(upload, &seen, step_ms, 1);
    const int are_alike = host.step <= device.step * alike && device.step <= host.step * alike;
    const int on_device = are_alike ? device.cpu < host.cpu : device.step < host.step;
    explain(upload, &host, &device, on_device, step_ms);
    return on_device ? STOKE_PLACEMENT_DEVICE : STOKE_PLACEMENT_HOST;
}
