/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory before the first batch: slots x slot + workers x worker + what the process already holds. The
 * worker's share depends on the largest picture, so headers are read: all of them up to PROBES, else an even
 * sample. A picture that turns out larger passes through the gate in bench.c, which counts it against
 * memory_limit.
 */
#include "src/loader/loader_private.h"

#include <stdio.h>
#include <string.h>

#include "src/base/error.h"
#include "src/base/file.h"
#include "src/base/machine.h"
#include "src/loader/kept.h"

enum {
    PROBES = 4096,            /* headers read at most: about 40 ms with a warm cache, 10 us each */
    HEADER_BYTES = 64 * 1024, /* enough for the header of nearly every file */
    WHOLE_BYTES = 256 << 20,  /* of whole files read where it is not: TIFF has its directory at the end */
    CODE_BYTES = 1 << 20, /* of codecs and C library, mapped when the first sample touches them: 0.4-0.9 MB */
    THREAD_BYTES = 256 * 1024 /* touched stack and allocator arena of a worker thread, measured 120-200 KB */
};

typedef struct prober {
    const stk_recipe *recipe;
    stoke_decoder *decoder;
    void *bytes;
    stk_buffer whole;
    uint64_t whole_left;
    stoke_memory_plan *plan;
    stk_row_need *most; /* of a worker */
} prober;

static int probe(prober *p, const stoke_blob *blob, stoke_image_info *info, uint64_t *size)
{
    const size_t have = stk_blob_head(blob, p->bytes, HEADER_BYTES, size);
    if (*size > STK_FILE_LIMIT) *size = 0; /* refused unread */
    if (!have || !*size) return 0;
    if (stoke_decoder_probe(p->decoder, p->bytes, have, info, NULL)) {
        size_t all;
        if (have == *size || *size > p->whole_left) return 0;
        p->whole_left -= *size;
        if (stk_blob_read(blob, blob->path, *size, &p->whole, &all, NULL)) return 0;
        if (stoke_decoder_probe(p->decoder, p->whole.data, all, info, NULL)) return 0;
    }
    return (uint64_t)info->width * info->height <= p->recipe->image_decode.max_pixels;
}

static void probe_sample(prober *p, uint64_t id)
{
    const stoke_sample sample = stoke_dataset_sample(p->recipe->dataset, id);
    stoke_image_info image, mask;
    uint64_t image_size = 0, mask_size = 0;
    p->plan->images_probed++;
    const int has_image = probe(p, &sample.image, &image, &image_size);
    const int has_mask = sample.mask_path && probe(p, &sample.mask, &mask, &mask_size);
    /* Bad files are found when they are loaded, and that takes their bytes. */
    const stk_row_need need =
        has_image ? stk_bench_need(p->recipe, &image, image_size, has_mask ? &mask : NULL, mask_size)
                  : stk_bench_need_files(image_size, mask_size);
    stk_row_need_raise(p->most, &need);
    if (!has_image) return;
    if ((uint64_t)image.width * image.height > (uint64_t)p->plan->largest_width * p->plan->largest_height) {
        p->plan->largest_width = image.width;
        p->plan->largest_height = image.height;
    }
}

static int probe_all(stoke_memory_plan *plan, stk_row_need *most, const stk_recipe *recipe, stoke_error *err)
{
    prober p = { .recipe = recipe,
                 .plan = plan,
                 .most = most,
                 .bytes = stk_alloc(HEADER_BYTES),
                 .whole_left = WHOLE_BYTES };
    if (!p.bytes) return stk_fail(err, STOKE_E_NOMEM, "no memory to probe the images");
    int r = stoke_decoder_create(&p.decoder, err);
    const uint64_t count = stoke_dataset_count(recipe->dataset), n = count < PROBES ? count : PROBES;
    for (uint64_t i = 0; !r && i < n; i++) probe_sample(&p, (uint64_t)((unsigned __int128)i * count / n));
    stoke_decoder_destroy(&p.decoder);
    stk_buffer_free(&p.whole);
    stk_free(p.bytes);
    plan->worker_bytes = stk_row_need_sum(most) + THREAD_BYTES;
    return r;
}

static void add_up(stoke_memory_plan *plan)
{
    plan->total_bytes = plan->slots * plan->slot_bytes + plan->workers * plan->worker_bytes +
                        plan->cache_bytes + plan->fixed_bytes;
}

int stk_memory_plan_make(stoke_memory_plan *plan, stk_row_need *most, const stk_recipe *recipe,
                         const stoke_data_params *params, uint32_t workers, stoke_error *err)
{
    unsigned extras;
    const stoke_batch shape = stk_slot_shape(recipe, (uint32_t)params->batch, &extras);
    *plan = (stoke_memory_plan){
        .slots = (uint32_t)params->prefetch + 1, /* `prefetch` ahead, one with the consumer */
        .workers = workers,
        .slot_bytes = stk_slot_bytes(&shape, extras),
        .cache_bytes = stk_kept_memory(recipe),
        .limit_bytes = params->memory_limit,
    };
    int r = probe_all(plan, most, recipe, err);
    if (r) return r;
    plan->fixed_bytes = stk_machine_rss("/proc") + CODE_BYTES;
    add_up(plan);
    while (plan->limit_bytes && plan->total_bytes > plan->limit_bytes && plan->slots > 2) {
        plan->slots--;
        plan->prefetch_reduced = 1;
        add_up(plan);
    }
    if (!plan->limit_bytes || plan->total_bytes <= plan->limit_bytes) return STOKE_OK;
    char sum[256];
    stoke_memory_plan_text(plan, sum, sizeof sum);
    return stk_fail(
        err, STOKE_E_LIMIT,
        "memory_limit is %.1f MB, but even with prefetch 1 the loader needs %s. Lower batch, size, "
        "workers%s, or raise memory_limit",
        plan->limit_bytes / 1e6, sum, params->cache_ram ? ", cache_ram" : "");
}

int stoke_memory_plan_text(const stoke_memory_plan *plan, char *text, size_t size)
{
    char cache[40] = "";
    if (plan->cache_bytes) snprintf(cache, sizeof cache, "cache %.1f MB + ", plan->cache_bytes / 1e6);
    return snprintf(text, size, "ring %u x %.1f MB + workers %u x %.1f MB + %sprocess %.1f MB = %.1f MB",
                    plan->slots, plan->slot_bytes / 1e6, plan->workers, plan->worker_bytes / 1e6, cache,
                    plan->fixed_bytes / 1e6, plan->total_bytes / 1e6);
}
