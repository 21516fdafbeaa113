/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory before the first batch: slots x slot + workers x worker + one large picture + what the process
 * already holds. The worker's share depends on the largest picture, so headers are read (probe.c). Where they
 * were too many, or memory_limit is too low for as many large pictures as there are workers, there is room
 * for one picture beyond the share, and those that need it take turns.
 */
#include "src/loader/memory_plan.h"

#include <stdio.h>
#include <stoke/tools/machine.h>
#include <stoke/tools/loader.h>

#include "src/base/error.h"
#include "src/base/machine.h"
#include "src/base/mem.h"
#include "src/loader/sample.h"
#include "src/loader/loader_internal.h"
#include "src/loader/scratch.h"
#include "src/source/mask_rules.h"

uint32_t stoke_data_workers(const stoke_data_params *params)
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
    const uint32_t threads = stoke_data_workers(params);
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

void stk_memory_gate_make(stk_memory_gate *gate, uint64_t reserve, uint64_t limit)
{
    *gate = (stk_memory_gate){ .reserve = reserve, .limit = limit };
    pthread_mutex_init(&gate->turn, NULL);
}

void stk_memory_gate_destroy(stk_memory_gate *gate)
{
    pthread_mutex_destroy(&gate->turn);
}

int stk_memory_gate_pass(stk_memory_gate *gate, stk_scratch *scratch, const stk_scratch_bytes *need,
                         stoke_error *err)
{
    stk_scratch_bytes raised = scratch->has_turn ? scratch->allowed : scratch->granted;
    stk_row_need_raise(&raised, need);
    const uint64_t granted = stk_row_need_sum(&scratch->granted), wanted = stk_row_need_sum(&raised);
    if (wanted == granted) return STOKE_OK;
    if (gate->limit && wanted - granted > gate->reserve)
        return stk_fail(err, STOKE_E_LIMIT,
                        "needs %.1f MiB to be read: a worker has %.1f MiB, and memory_limit %.1f MiB leaves "
                        "%.1f MiB more",
                        STK_MIB(wanted), STK_MIB(granted), STK_MIB(gate->limit), STK_MIB(gate->reserve));
    if (!scratch->has_turn) pthread_mutex_lock(&gate->turn);
    scratch->has_turn = 1;
    scratch->allowed = raised;
    return STOKE_OK;
}

void stk_memory_gate_leave(stk_memory_gate *gate, stk_scratch *scratch)
{
    if (!scratch->has_turn) return;
    stk_scratch_empty(scratch);
    stk_mem_give_back();
    scratch->has_turn = 0;
    pthread_mutex_unlock(&gate->turn);
}

int stk_memory_gate_guards_files(const stk_memory_gate *gate)
{
    return gate->limit || gate->reserve;
}

/* Memory of those who read a whole set once, by a crew of threads: verify, and filling a cache. */

enum { SMALL = 32 }; /* the size of a batch's pictures where there are no batches */

static void sum_up(stoke_memory_sum *sum, const stk_loader_plan *plan, uint64_t tally, uint64_t process)
{
    *sum = (stoke_memory_sum){ .limit_bytes = plan->shown.limit_bytes };
    stoke_memory_add(sum, "threads", plan->shown.workers, plan->shown.worker_bytes + tally);
    stoke_memory_add(sum, "one large picture", 1, plan->shown.large_bytes);
    stoke_memory_add(sum, "cache", 1, plan->shown.cache_bytes);
    stoke_memory_add(sum, "process", 1, process + tally);
}

int stk_scan_memory(stk_loader_plan *plan, const stk_loader_config *config, const stoke_data_params *params,
                    unsigned threads, uint64_t tally, stoke_memory_sum *sum, stoke_error *err)
{
    stoke_data_params own = *params;
    const uint64_t count = stoke_dataset_count(config->dataset);
    own.batch = 1;
    own.workers = threads ? threads : stoke_machine_cores().usable;
    if ((uint64_t)own.workers > count) own.workers = count ? (int64_t)count : 1;
    const int r = stk_loader_plan_make(plan, config, &own, err);
    if (r) return r;
    const uint64_t process = stk_machine_rss("/proc") + STK_CODE_BYTES;
    sum_up(sum, plan, tally, process);
    while (sum->limit_bytes && stoke_memory_total(sum) > sum->limit_bytes) {
        if (plan->shown.workers == 1)
            return stk_memory_refuse(sum, "even one thread needs",
                                     "lower max_pixels to leave out the largest pictures", err);
        plan->shown.workers--;
        sum_up(sum, plan, tally, process);
    }
    return STOKE_OK;
}

/* The plan of a public call; *threads becomes how many fit. */
static int plan_threads(const stoke_dataset *dataset, const stoke_data_params *params, uint64_t tally,
                        unsigned *threads, stoke_memory_sum *sum, stoke_error *err)
{
    stk_loader_config config;
    stk_loader_plan plan;
    int r = stk_loader_config_create(&config, dataset, params, err);
    if (!r) r = stk_scan_memory(&plan, &config, params, *threads, tally, sum, err);
    stk_loader_config_destroy(&config);
    if (!r) *threads = plan.shown.workers;
    return r;
}

int stoke_verify_memory(const stoke_dataset *dataset, const stoke_data_params *params, unsigned *threads,
                        stoke_memory_sum *sum, stoke_error *err)
{
    stoke_data_params own = *params;
    own.size[0] = own.size[1] = SMALL;
    own.augment = "none";
    own.cache = NULL;
    own.cache_ram = 0;
    /* Masks without a map are read as they are, two bytes a pixel; and there are two tallies (verify.c). */
    if (stk_is_identity(own.label_map)) own.classes = 0, own.ignore_index = UINT16_MAX;
    return plan_threads(dataset, &own, 2 * sizeof(stk_mask_tally), threads, sum, err);
}

int stoke_cache_fill_memory(const stoke_dataset *dataset, const stoke_data_params *params, unsigned *threads,
                            stoke_memory_sum *sum, stoke_error *err)
{
    stoke_data_params own = *params;
    own.cache_ram = 0; /* would be gone with us */
    return plan_threads(dataset, &own, 0, threads, sum, err);
}
