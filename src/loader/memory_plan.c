/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory before the first batch: slots x slot + workers x worker + one large picture + what the process
 * already holds. The worker's share depends on the largest picture, so headers are read (probe.c). Where they
 * were too many, or memory_limit is too low for as many large pictures as there are workers, there is room
 * for one picture beyond the share, and those that need it take turns (memory_gate.c).
 */
#include "src/loader/memory_plan.h"

#include <stdio.h>

#include <stoke/tools/machine.h>
#include <stoke/tools/loader.h>

#include "src/base/error.h"
#include "src/base/machine.h"
#include "src/base/memory_sum.h"
#include "src/loader/cache_lookup.h"
#include "src/loader/loader_internal.h"

/* Cores the process may really use, less those the consumer needs; at least one. */
uint32_t stk_loader_threads(const stoke_data_params *params)
{
    if (params->workers >= 0) return (uint32_t)params->workers;
    const int64_t consumer = params->consumer_cores < 0 ? 1 : params->consumer_cores;
    const int64_t cores = (int64_t)stoke_machine_cores().usable - consumer;
    return cores > 1 ? (uint32_t)cores : 1;
}

/* `share` of what the largest picture takes is every worker's own. */
static void divide(stk_loader_plan *plan, double share)
{
    for (int i = 0; i < STK_ROW_PARTS; i++)
        plan->granted.part[i] = (uint64_t)((double)plan->probe.most.part[i] * share);
    const uint64_t own = stk_row_need_sum(&plan->granted), any = stk_row_need_sum(&plan->probe.any);
    plan->shown.worker_bytes = own + STK_THREAD_BYTES;
    plan->shown.large_bytes = any - own;
}

int stk_loader_plan_make(stk_loader_plan *plan, const stk_loader_config *config,
                         const stoke_data_params *params, stoke_error *err)
{
    unsigned extras;
    const stoke_batch shape = stk_slot_shape(config, (uint32_t)params->batch, &extras);
    const uint32_t threads = stk_loader_threads(params);
    *plan = (stk_loader_plan){ .shown = {
                                   .slots = (uint32_t)params->prefetch +
                                            1, /* `prefetch` ahead, one with the consumer */
                                   .workers = threads ? threads : 1,
                                   .slot_bytes = stk_slot_bytes(&shape, extras),
                                   .cache_bytes = stk_cache_lookup_memory(config),
                                   .limit_bytes = params->memory_limit,
                               } };
    const int r = stk_probe_set(&plan->probe, config, err);
    if (r) return r;
    plan->shown.largest_width = plan->probe.largest_width;
    plan->shown.largest_height = plan->probe.largest_height;
    plan->shown.images_probed = plan->probe.looked;
    divide(plan, 1);
    return STOKE_OK;
}

int stk_loader_plan_of(stk_loader_plan *plan, const stoke_dataset *dataset, const stoke_data_params *params,
                       stoke_error *err)
{
    stk_loader_config config;
    int r = stk_loader_config_create(&config, dataset, params, err);
    if (!r) r = stk_loader_plan_make(plan, &config, params, err);
    stk_loader_config_destroy(&config);
    return r;
}

uint64_t stk_loader_plan_workers(const stk_loader_plan *plan)
{
    return plan->shown.workers * plan->shown.worker_bytes + plan->shown.large_bytes;
}

uint64_t stk_loader_plan_least(const stk_loader_plan *plan)
{
    return (uint64_t)plan->shown.workers * STK_THREAD_BYTES + stk_row_need_sum(&plan->probe.most);
}

int stk_loader_plan_squeeze(stk_loader_plan *plan, uint64_t bytes)
{
    if (stk_loader_plan_workers(plan) <= bytes) return 1;
    const uint64_t most = stk_row_need_sum(&plan->probe.most), least = stk_loader_plan_least(plan);
    if (bytes < least) return 0;
    /* What a picture beyond all that were looked at could need is given up first: such a one is refused. */
    const uint64_t room = bytes - least;
    const double share =
        plan->shown.workers > 1 && most ? (double)room / ((double)most * (plan->shown.workers - 1)) : 1;
    divide(plan, share < 1 ? share : 1);
    const uint64_t rest = bytes - plan->shown.workers * plan->shown.worker_bytes;
    if (plan->shown.large_bytes > rest) plan->shown.large_bytes = rest;
    return 1;
}

static void add_up(stoke_memory_plan *plan)
{
    plan->total_bytes = plan->slots * plan->slot_bytes + plan->workers * plan->worker_bytes +
                        plan->large_bytes + plan->cache_bytes + plan->fixed_bytes + plan->beside_bytes;
}

static void add_shares(stoke_memory_sum *sum, const stoke_memory_plan *plan)
{
    stoke_memory_add_loader(sum, plan);
    stoke_memory_add(sum, "process", 1, plan->fixed_bytes);
}

static int fit(stk_loader_plan *made, stoke_error *err)
{
    stoke_memory_plan *plan = &made->shown;
    while (plan->total_bytes > plan->limit_bytes && plan->slots > 2) {
        plan->slots--;
        plan->prefetch_reduced = 1;
        add_up(plan);
    }
    if (plan->total_bytes <= plan->limit_bytes) return STOKE_OK;
    const uint64_t others = plan->total_bytes - stk_loader_plan_workers(made);
    if (others < plan->limit_bytes && stk_loader_plan_squeeze(made, plan->limit_bytes - others)) {
        add_up(plan);
        return STOKE_OK;
    }
    stk_loader_plan_squeeze(made, stk_loader_plan_least(made));
    stoke_memory_sum least = { .limit_bytes = plan->limit_bytes };
    add_shares(&least, plan);
    return stk_memory_refuse(
        &least, "with prefetch 1 the loader needs",
        plan->cache_bytes ? "lower batch, size, workers, cache_ram" : "lower batch, size or workers", err);
}

int stk_loader_plan_settle(stk_loader_plan *made, stoke_error *err)
{
    stoke_memory_plan *plan = &made->shown;
    plan->fixed_bytes = stk_machine_rss("/proc") + STK_CODE_BYTES;
    add_up(plan);
    return plan->limit_bytes ? fit(made, err) : STOKE_OK;
}

uint64_t stk_loader_plan_reserve(const stk_loader_plan *plan)
{
    const stoke_memory_plan *p = &plan->shown;
    return p->large_bytes + (p->limit_bytes ? p->limit_bytes - p->total_bytes : 0);
}

int stoke_memory_plan_text(const stoke_memory_plan *plan, char *text, size_t size)
{
    stoke_memory_sum sum = { 0 };
    add_shares(&sum, plan);
    return stoke_memory_text(&sum, text, size);
}

void stoke_memory_add_loader(stoke_memory_sum *sum, const stoke_memory_plan *plan)
{
    stoke_memory_add(sum, "ring", plan->slots, plan->slot_bytes);
    stoke_memory_add(sum, "workers", plan->workers, plan->worker_bytes);
    stoke_memory_add(sum, "one large picture", 1, plan->large_bytes);
    stoke_memory_add(sum, "cache", 1, plan->cache_bytes);
    stoke_memory_add(sum, plan->beside, 1, plan->beside_bytes);
}
