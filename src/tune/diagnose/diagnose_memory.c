/* SPDX-License-Identifier: Apache-2.0
 *
 * What a diagnosis will take of memory. Its stretches come one after the other, so the largest of them
 * counts: both sides to augment on, and with verify whatever setup a fix may propose.
 */
#include <stoke/tools/loader.h>
#include <stoke/tools/machine.h>
#include <stoke/tools/upload.h>
#include <stoke/memory.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/loader/memory_plan.h"
#include "src/report/trace.h"
#include "src/tune/diagnose/diagnose.h"
#include "src/tune/diagnose/fixes.h"
#include <stoke/tools/upload.h>
#include <stoke/tools/loader.h>

/* Records, causes and forecasts; with the spans of the steps that are kept. */
static uint64_t times_bytes(const stoke_diagnose_params *p, const stoke_setup *setup)
{
    enum {
        RECORDS = 3,       /* of a stretch that was kept, of one that runs, and the feed's own */
        STEP = 512,        /* its causes, and its part in a forecast */
        SAMPLE_SPANS = 12, /* stages of a sample, and waiting for a slot */
        STEP_SPANS = 64
    };
    const uint64_t steps = (uint64_t)stk_diagnose_warm_up(p->warm_up, setup) + p->steps;
    const uint64_t spans = steps * ((uint64_t)setup->batch * SAMPLE_SPANS + STEP_SPANS);
    return steps * (RECORDS * sizeof(stoke_step_record) + STEP) +
           (p->trace ? stk_trace_bytes(p->trace, spans) : 0);
}

static int plan_feed(const stoke_diagnose_params *p, const stoke_setup *setup, const stoke_data_params *data,
                     stoke_memory_plan *host, stoke_error *err)
{
    stoke_upload_memory memory;
    stoke_upload_params params = stoke_upload_defaults();
    params.placement = setup->placement;
    params.transfer = setup->transfer;
    params.depth = setup->depth;
    const int r = stoke_upload_estimate(&memory, p->dataset, data, p->device, &params, err);
    *host = memory.host;
    if (r || stk_diagnose_same_cores(p->device, !setup->placement)) return r;
    params.placement = !setup->placement; /* measured where it can be */
    if (!stoke_upload_estimate(&memory, p->dataset, data, p->device, &params, NULL) &&
        memory.host.total_bytes > host->total_bytes)
        *host = memory.host;
    return r;
}

static int plan_native(const stoke_diagnose_params *p, const stoke_data_params *data, stoke_memory_plan *host,
                       stoke_error *err)
{
    stk_loader_plan plan;
    stoke_memory_share network;
    int r = stk_diagnose_network(&network, p, data, err);
    if (!r) r = stk_loader_plan_of(&plan, p->dataset, data, err);
    if (r) return r;
    plan.shown.beside = network.name;
    plan.shown.beside_bytes = network.bytes;
    r = stk_loader_plan_settle(&plan, err);
    *host = plan.shown;
    return r;
}

/* STOKE_E_LIMIT: *host is the least that would do. */
static int plan_largest(const stoke_diagnose_params *p, const stoke_setup *now, uint64_t limit,
                        stoke_memory_plan *host, stoke_error *err)
{
    const stoke_setup setup = p->pairs ? stk_fixes_largest(now, stoke_machine_cores().usable) : *now;
    stoke_data_params data = stk_diagnose_data(p, &setup);
    data.memory_limit = limit;
    return p->device ? plan_feed(p, &setup, &data, host, err) : plan_native(p, &data, host, err);
}

int stk_diagnose_memory(stoke_memory_sum *sum, uint64_t *room, const stoke_diagnose_params *p,
                        const stoke_setup *setup, stoke_error *err)
{
    /* Forecasts, pictures, and what workers that have ended leave in the C library's heaps: 0.7-2.4 MB. */
    enum { LEFT_BEHIND = 3 << 20 };
    const uint64_t limit = p->data.memory_limit, times = times_bytes(p, setup), own = times + LEFT_BEHIND;
    stoke_memory_plan host = { 0 };
    const int r = plan_largest(p, setup, !limit ? 0 : limit > own ? limit - own : 1, &host, err);
    if (r && !(r == STOKE_E_LIMIT && host.fixed_bytes)) return r;
    *sum = (stoke_memory_sum){ .limit_bytes = limit };
    stoke_memory_add_loader(sum, &host);
    stoke_memory_add(sum, "times of steps", 1, times);
    stoke_memory_add(sum, "process", 1, host.fixed_bytes + LEFT_BEHIND);
    if (r) return stk_memory_refuse(sum, "the diagnosis needs", "lower steps, batch, size or workers", err);
    /* Its maker takes a little before it is made: streams, decoders, tables. */
    *room = limit ? limit - own - host.fixed_bytes + STK_CODE_BYTES : 0;
    return STOKE_OK;
}
