/* SPDX-License-Identifier: Apache-2.0 */
#include "src/loader/sample.h"

#include <stdio.h>
#include <string.h>
#include <stoke/tools/image.h>
#include <stoke/tools/labels.h>

#include "src/augment/pipeline.h"
#include "src/base/error.h"
#include "src/cache/entry.h"
#include "src/source/labels.h"

/* Counted up when the fitted sample gives other pixels for the same files and settings. */
enum { PREFIX_VERSION = 1 };

/* Everything that shapes the pixels of the fitted sample, or decides that a file is bad. */
static int describe(stk_loader_config *config, const stoke_data_params *params, stoke_error *err)
{
    uint64_t map[2];
    char size[32] = "source";
    stk_labels_digest(config->labels, map);
    if (!config->crops) snprintf(size, sizeof size, "%ux%u", config->height, config->width);
    const int n = snprintf(
        config->transform, sizeof config->transform,
        "prefix %d, size %s, decode %d, orientation %d, alpha %d, max_pixels %lld, labels %016llx%016llx, "
        "id bytes %d, window %s",
        PREFIX_VERSION, size, params->decode, params->orientation, params->alpha,
        (long long)params->max_pixels, (unsigned long long)map[0], (unsigned long long)map[1],
        stoke_labels_depth(config->labels), params->window ? params->window : "none");
    if (n < 0 || (size_t)n >= sizeof config->transform)
        return stk_fail(err, STOKE_E_INVALID, "window `%.40s...` is too long", params->window);
    return STOKE_OK;
}

int stk_cache_lookup_open(stk_loader_config *config, const stoke_data_params *params, stoke_error *err)
{
    if (!config->keeps) {
        if (!params->cache_disk) return STOKE_OK;
        return stk_fail(err, STOKE_E_INVALID, "cache_disk has no effect without cache: give both or neither");
    }
    const stk_cache_settings settings = { params->cache, params->cache_disk, params->cache_ram };
    int r = describe(config, params, err);
    if (!r && config->target) r = describe(config->target, params, err);
    if (!r) r = stk_cache_open(&config->cache, &settings, err);
    if (r) return r;
    if (config->target) config->target->cache = config->cache;
    if (!stk_memo_reserve(stk_cache_memo(config->cache), 2 * stoke_dataset_count(config->dataset)))
        return stk_fail(err, STOKE_E_NOMEM, "no memory for the digests of the cache");
    return STOKE_OK;
}

uint64_t stk_cache_lookup_scratch(const stk_loader_config *config, uint64_t pixels, uint8_t depth)
{
    if (!config->keeps) return 0;
    if (!config->crops) pixels = (uint64_t)config->width * config->height;
    /* The image, the ids, and the ids packed, which may take a byte more. */
    return pixels * (3u * depth + 2u * stoke_labels_depth(config->labels)) + 1;
}

/* Entries may take what the scratch memory was granted for them, from now on. */
static void cache_lookup_limit(stk_scratch *scratch)
{
    const stk_scratch_bytes *need = scratch->has_turn ? &scratch->allowed : &scratch->granted;
    scratch->cache.limit = need->part[STK_ROW_PART_KEPT_IMAGE] + need->part[STK_ROW_PART_KEPT_IDS];
}

uint64_t stk_cache_lookup_memory(const stk_loader_config *config)
{
    if (!config->keeps) return 0;
    return config->cache_ram + (config->cache ? stk_memo_memory(stk_cache_memo(config->cache))
                                              : stk_memo_bytes(2 * stoke_dataset_count(config->dataset)));
}

/* ---- finding ---- */

/* The row of the batch, if what is kept can go there as it is; else data NULL. Only a pipeline that does
 * nothing is looked for: what another one draws is not known before the size of the source is. A raw row is
 * one step before that: it takes what is kept whenever no part of it will be resized again. */
static stoke_image target(const stk_sample_ctx *ctx, void *row, uint8_t channels, uint8_t depth,
                          int same_type)
{
    const stk_loader_config *config = ctx->config;
    if (ctx->raw ? config->crops : !config->plain || !same_type) return (stoke_image){ 0 };
    return (stoke_image){ row,           (size_t)config->width * channels * depth,
                          config->width, config->height,
                          channels,      depth };
}

/* The key says what the fitted sample looks like; an entry that does not was not
 * made by us, and what follows relies on it. */
static int as_expected(const stk_sample_ctx *ctx, const stk_cache_hit *found)
{
    const stk_loader_config *config = ctx->config;
    const uint32_t width = config->crops ? found->source_width : config->width,
                   height = config->crops ? found->source_height : config->height;
    return found->image.width == width && found->image.height == height &&
           !found->mask.data == !ctx->sample.mask_path &&
           (!found->mask.data || found->mask.depth == stoke_labels_depth(config->labels));
}

static int get(stk_sample_ctx *ctx)
{
    stk_sample_cache_lookup *kept = &ctx->kept;
    const stk_loader_config *config = ctx->config;
    const uint8_t depth = stoke_labels_depth(config->labels);
    const stoke_image image =
        target(ctx, ctx->image_row, 3, 1,
               config->writer.dtype == STOKE_DTYPE_U8 && config->writer.layout == STOKE_LAYOUT_HWC);
    const stoke_image mask = target(ctx, ctx->mask_row, 1, depth,
                                    config->mask_dtype == (depth == 1 ? STOKE_DTYPE_U8 : STOKE_DTYPE_U16));
    stk_cache_hit found;
    kept->key =
        stk_cache_key_make(&kept->image, ctx->sample.mask_path ? &kept->mask : NULL, ctx->config->transform);
    if (!stk_cache_get(ctx->config->cache, kept->key, &ctx->scratch->cache, &image, &mask, &found)) return 0;
    if (!as_expected(ctx, &found)) {
        stk_cache_drop(ctx->config->cache, kept->key);
        return 0;
    }
    kept->found = 1;
    kept->from_ram = found.from_ram;
    ctx->image = found.image;
    ctx->ids = found.mask;
    ctx->width = found.source_width;
    ctx->height = found.source_height;
    stk_sample_ctx_stamp(ctx, STOKE_STAGE_READ);
    return 1;
}

int stk_cache_lookup_find(stk_sample_ctx *ctx)
{
    stk_sample_cache_lookup *kept = &ctx->kept;
    const stoke_sample *sample = &ctx->sample;
    stk_memo *memo = stk_cache_memo(ctx->config->cache);
    *kept = (stk_sample_cache_lookup){ 0 };
    kept->identified = stk_identity_of(&sample->image, &kept->image_file) &&
                       (!sample->mask_path || stk_identity_of(&sample->mask, &kept->mask_file));
    kept->known = kept->identified && stk_memo_find(memo, &kept->image_file, &kept->image) &&
                  (!sample->mask_path || stk_memo_find(memo, &kept->mask_file, &kept->mask));
    return kept->known && get(ctx);
}

/* The digest of what was read; the memo learns it if the file was the same before and after. */
static stk_cache_digest digest(const stk_sample_ctx *ctx, const stoke_blob *blob,
                               const stk_cache_identity *before, const void *bytes, size_t size)
{
    const stk_cache_digest of = stk_digest_of(bytes, size);
    stk_cache_identity after;
    if (ctx->kept.identified && stk_identity_of(blob, &after) && stk_identity_equal(before, &after))
        stk_memo_add(stk_cache_memo(ctx->config->cache), before, &of);
    return of;
}

/* After, by their content: the pair may be known under other names. */
static int find_read(stk_sample_ctx *ctx)
{
    stk_sample_cache_lookup *kept = &ctx->kept;
    const stk_sample_cache_lookup before = *kept;
    const stk_scratch *scratch = ctx->scratch;
    kept->image =
        digest(ctx, &ctx->sample.image, &kept->image_file, scratch->image_file.data, ctx->image_bytes);
    if (ctx->sample.mask_path)
        kept->mask =
            digest(ctx, &ctx->sample.mask, &kept->mask_file, scratch->mask_file.data, ctx->mask_bytes);
    /* Asked already, unless the files were not known or have changed since. */
    if (before.known && !memcmp(&before.image, &kept->image, sizeof kept->image) &&
        !memcmp(&before.mask, &kept->mask, sizeof kept->mask))
        return 0;
    return get(ctx);
}

/* ---- keeping ---- */

/* Whether the plan's region can be decoded instead of the whole, with the same result. */
static int region_will_do(const stk_loader_config *config)
{
    return config->crops && config->image_decode.mode == STOKE_DECODE_EXACT;
}

static int make_and_keep(stk_sample_ctx *ctx, int *whole)
{
    const stk_loader_config *config = ctx->config;
    const uint8_t depth = ctx->image_info.bits == 16 ? 2 : 1;
    if (region_will_do(config) &&
        !stk_cache_has_room(config->cache, stoke_image_bytes(ctx->width, ctx->height, 3, depth)))
        return STOKE_OK;
    int r = stk_decode_fit_whole(ctx);
    if (!r) {
        const stk_cache_hit sample = {
            .image = ctx->image, .mask = ctx->ids, .source_width = ctx->width, .source_height = ctx->height
        };
        ctx->kept.stored = stk_cache_put(config->cache, ctx->kept.key, &ctx->scratch->cache, &sample);
        stk_sample_ctx_stamp(ctx, STOKE_STAGE_READ);
        *whole = 1;
    } else if (!stk_is_want(r) && region_will_do(config)) {
        /* A file damaged somewhere else: without a cache this row would be good. */
        ctx->image = ctx->ids = (stoke_image){ 0 };
        r = STOKE_OK;
    }
    return r;
}

int stk_cache_lookup_bring(stk_sample_ctx *ctx, stk_memory_gate *gate, int *whole)
{
    if (stk_memory_gate_guards_files(gate)) cache_lookup_limit(ctx->scratch);
    *whole = stk_cache_lookup_find(ctx);
    if (*whole) return STOKE_OK;
    int r = stk_fetch(ctx, gate);
    if (r) return r;
    if (stk_memory_gate_guards_files(gate))
        cache_lookup_limit(ctx->scratch); /* the gate has let this one through */
    *whole = find_read(ctx);
    return *whole ? STOKE_OK : make_and_keep(ctx, whole);
}
