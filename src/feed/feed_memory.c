/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory before it is taken. On the device: slots x slot + tables and planes of the kernels. On the host:
 * what the loader holds, tables on their way, copies that are read back.
 */
#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/feed/feed_private.h"
#include "src/loader/ahead.h"
#include "src/loader/memory_plan.h"
#include "src/loader/slots.h"

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

/* Sizes of batches as such a loader makes them and as they come out. */
static void measure(stoke_feed *feed, const stk_recipe *recipe, uint32_t capacity)
{
    unsigned extras;
    feed->shape = stk_recipe_shape(recipe, capacity);
    const stoke_batch raw = stk_slot_shape(recipe, capacity, &extras);
    feed->raw_image_row = raw.image_row_bytes;
    feed->raw_mask_row = raw.mask_row_bytes;
    feed->raw_masks = (raw.image_row_bytes * capacity + 63) / 64 * 64;
}

static int plan_device(stoke_feed *feed, const stk_recipe *recipe, uint32_t slots, stoke_error *err)
{
    stoke_feed_memory *m = &feed->memory;
    *m = (stoke_feed_memory){ .slots = slots };
    m->slot_bytes = stk_ring_slot_bytes(&feed->shape, recipe->two_masks, stk_feed_raw_bytes(feed));
    if (feed->placement == STOKE_PLACEMENT_DEVICE) {
        m->work_bytes = stk_augmenter_bytes(recipe, feed->shape.capacity, STK_TRIPS);
        m->table_bytes = stk_augmenter_host_bytes(recipe, feed->shape.capacity, STK_TRIPS);
    }
    if (feed->reads) m->read_bytes = slots * stk_ring_slot_bytes(&feed->shape, recipe->two_masks, 0);
    m->total_bytes = m->slots * m->slot_bytes + m->work_bytes;
    char sum[160];
    stoke_feed_memory_text(m, sum, sizeof sum);
    return check_device(feed, sum, err);
}

static int plan_loader(const stoke_feed *feed, const stk_recipe *recipe, const stoke_data_params *data,
                       stoke_memory_plan *host, stoke_error *err)
{
    stk_loader_plan plan;
    const stoke_memory_share beside = stk_feed_beside(feed);
    int r = stk_loader_plan_make(&plan, recipe, data, err);
    if (r) return r;
    plan.shown.beside = beside.name;
    plan.shown.beside_bytes = beside.count * beside.bytes;
    r = stk_loader_plan_settle(&plan, err);
    *host = plan.shown;
    return r;
}

int stk_feed_plan(stoke_feed *feed, const stoke_dataset *dataset, const stoke_data_params *data,
                  uint32_t slots, stoke_memory_plan *host, stoke_error *err)
{
    stk_recipe recipe;
    stoke_data_params own = *data;
    int r = stk_loader_check_params(data, err);
    if (r) return r;
    if (own.batch < 0) own.batch = stoke_data_defaults().batch;
    r = stk_recipe_create(&recipe, dataset, &own, err);
    recipe.raw = feed->placement == STOKE_PLACEMENT_DEVICE;
    if (!r) {
        measure(feed, &recipe, (uint32_t)own.batch);
        r = plan_device(feed, &recipe, slots, err);
    }
    if (!r && host) r = plan_loader(feed, &recipe, &own, host, err);
    stk_recipe_destroy(&recipe);
    return r;
}

stoke_memory_share stk_feed_beside(const stoke_feed *feed)
{
    static const char *const names[2][2] = {
        { "tables of the kernels", "batches read back" },
        { "batches on the device, in the same memory",
          "batches on the device, in the same memory, and read back" },
    };
    const stoke_feed_memory *m = &feed->memory;
    const int shared = feed->info.shares_memory != 0;
    return (stoke_memory_share){ names[shared][m->read_bytes != 0], 1,
                                 (shared ? m->total_bytes : 0) + m->table_bytes + m->read_bytes };
}

int stoke_feed_foresee(stoke_feed_memory *out, const stoke_dataset *dataset, const stoke_data_params *data,
                       stoke_device *device, const stoke_feed_params *params, stoke_error *err)
{
    const int wanted = params->placement;
    int r = stk_feed_check_params(params, err), planned = 0;
    *out = (stoke_feed_memory){ 0 };
    if (r) return r;
    stoke_feed *feed = stk_calloc(1, sizeof *feed);
    if (!feed) return stk_fail(err, STOKE_E_NOMEM, "no memory for the plan of a feed");
    feed->info = *stoke_device_describe(device);
    feed->device = device;
    feed->reads = params->reads;
    for (int way = STOKE_PLACEMENT_HOST; way <= STOKE_PLACEMENT_DEVICE; way++) {
        if (wanted != way && wanted != STOKE_PLACEMENT_AUTO) continue;
        stoke_memory_plan host;
        feed->placement = way;
        r = stk_feed_plan(feed, dataset, data, (uint32_t)params->depth + 1, &host, err);
        if (r) continue;
        feed->memory.host = host;
        if (!planned++ || host.total_bytes > out->host.total_bytes) *out = feed->memory;
    }
    stk_free(feed);
    return planned ? STOKE_OK : r;
}
