/* SPDX-License-Identifier: Apache-2.0
 *
 * Device memory before it is taken: slots x slot + tables and planes of the kernels.
 */
#include "src/base/error.h"
#include "src/feed/feed_private.h"

uint64_t stk_feed_raw_bytes(const stoke_feed *feed)
{
    if (feed->placement != STOKE_PLACEMENT_DEVICE) return 0;
    return feed->raw_masks + (uint64_t)feed->raw_mask_row * feed->shape.capacity;
}

int stoke_feed_memory_text(const stoke_feed_memory *memory, char *text, size_t size)
{
    char kernels[48] = "";
    if (memory->work_bytes) snprintf(kernels, sizeof kernels, " + kernels %.1f MB", memory->work_bytes / 1e6);
    return snprintf(text, size, "slots %u x %.1f MB%s = %.1f MB", memory->slots, memory->slot_bytes / 1e6,
                    kernels, memory->total_bytes / 1e6);
}

/* Only where the device says what is left: OpenCL does not. */
static int check_device(stoke_feed *feed, const char *sum, stoke_error *err)
{
    uint64_t free_bytes, total_bytes;
    int r = stoke_device_memory(feed->device, &free_bytes, &total_bytes, err);
    if (r || !free_bytes || feed->memory.total_bytes <= free_bytes) return r;
    return stk_fail(err, STOKE_E_NOMEM,
                    "the feed needs %s of device memory, but %s has %.1f of %.1f MB free. Lower batch, size "
                    "or depth%s",
                    sum, feed->info.name, free_bytes / 1e6, total_bytes / 1e6,
                    feed->memory.work_bytes ? ", or augment on the host (placement)" : "");
}

/* Tables on the host count against the loader's limit, and where device memory is host memory, that too. */
static int check_host(const stoke_feed *feed, const char *sum, stoke_error *err)
{
    const stoke_memory_plan *host = &feed->memory.host;
    const uint64_t tables = feed->memory.table_bytes;
    const uint64_t batches = feed->info.shares_memory ? feed->memory.total_bytes : 0;
    if (!host->limit_bytes || host->total_bytes + tables + batches <= host->limit_bytes) return STOKE_OK;
    char text[256], of_tables[64] = "", of_batches[320] = "";
    stoke_memory_plan_text(host, text, sizeof text);
    if (tables) snprintf(of_tables, sizeof of_tables, ", tables of the kernels %.2f MB", tables / 1e6);
    if (batches)
        snprintf(of_batches, sizeof of_batches, ", and batches on %s, in the same memory, %s",
                 feed->info.name, sum);
    return stk_fail(err, STOKE_E_LIMIT,
                    "memory_limit is %.1f MB, but the loader needs %s%s%s. Lower batch, size%s or prefetch, "
                    "or raise memory_limit",
                    host->limit_bytes / 1e6, text, of_tables, of_batches, batches ? ", depth" : "");
}

int stk_feed_plan(stoke_feed *feed, uint32_t slots, stoke_error *err)
{
    stoke_feed_memory *m = &feed->memory;
    const int two_masks = feed->recipe->two_masks;
    *m = (stoke_feed_memory){ .host = stoke_loader_memory(feed->loader), .slots = slots };
    m->slot_bytes = stk_ring_slot_bytes(&feed->shape, two_masks, stk_feed_raw_bytes(feed));
    if (feed->placement == STOKE_PLACEMENT_DEVICE) {
        m->work_bytes = stk_augmenter_bytes(feed->recipe, feed->shape.capacity, STK_TRIPS);
        m->table_bytes = stk_augmenter_host_bytes(feed->recipe, feed->shape.capacity, STK_TRIPS);
    }
    m->total_bytes = m->slots * m->slot_bytes + m->work_bytes;
    char sum[160];
    stoke_feed_memory_text(m, sum, sizeof sum);
    int r = check_device(feed, sum, err);
    return r ? r : check_host(feed, sum, err);
}
