/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory of those who read a whole set once, by a crew of threads: verify, and filling a cache.
 */
#include <stoke/tools/machine.h>
#include <stoke/tools/loader.h>

#include "src/base/error.h"
#include "src/base/machine.h"
#include "src/base/memory_sum.h"
#include "src/loader/memory_plan.h"
#include "src/source/mask_rules.h"
#include "src/source/tally.h"

enum { SMALL = 32 }; /* the size of a batch's pictures where there are no batches */

static void add_up(stoke_memory_sum *sum, const stk_loader_plan *plan, uint64_t tally, uint64_t process)
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
    add_up(sum, plan, tally, process);
    while (sum->limit_bytes && stoke_memory_total(sum) > sum->limit_bytes) {
        if (plan->shown.workers == 1)
            return stk_memory_refuse(sum, "even one thread needs",
                                     "lower max_pixels to leave out the largest pictures", err);
        plan->shown.workers--;
        add_up(sum, plan, tally, process);
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
    /* Masks without a map are read as they are, two bytes a pixel; and there are two tallies (verify.h). */
    if (stk_is_identity(own.label_map)) own.classes = 0, own.ignore_index = UINT16_MAX;
    return plan_threads(dataset, &own, 2 * sizeof(stk_tally), threads, sum, err);
}

int stoke_cache_fill_memory(const stoke_dataset *dataset, const stoke_data_params *params, unsigned *threads,
                            stoke_memory_sum *sum, stoke_error *err)
{
    stoke_data_params own = *params;
    own.cache_ram = 0; /* would be gone with us */
    return plan_threads(dataset, &own, 0, threads, sum, err);
}
