/* SPDX-License-Identifier: Apache-2.0 */
#include "src/loader/kept.h"

#include <stdio.h>
#include <string.h>

#include "src/augment/pipeline.h"
#include "src/base/error.h"
#include "src/cache/label_codec.h"
#include "src/source/labels_private.h"

/* Counted up when the prefix gives other pixels for the same files and settings. */
enum { PREFIX_VERSION = 1 };

/* Everything that shapes the pixels of the prefix, or decides that a file is bad. */
static int describe(stk_recipe *recipe, const stoke_data_params *params, stoke_error *err)
{
    uint64_t map[2];
    char size[32] = "source";
    stk_labels_digest(recipe->labels, map);
    if (!recipe->crops) snprintf(size, sizeof size, "%ux%u", recipe->height, recipe->width);
    const int n = snprintf(
        recipe->transform, sizeof recipe->transform,
        "prefix %d, size %s, decode %d, orientation %d, alpha %d, max_pixels %lld, labels %016llx%016llx, "
        "id bytes %d, window %s",
        PREFIX_VERSION, size, params->decode, params->orientation, params->alpha,
        (long long)params->max_pixels, (unsigned long long)map[0], (unsigned long long)map[1],
        stoke_labels_depth(recipe->labels), params->window ? params->window : "none");
    if (n < 0 || (size_t)n >= sizeof recipe->transform)
        return stk_fail(err, STOKE_E_INVALID, "window `%.40s...` is too long", params->window);
    return STOKE_OK;
}

int stk_kept_open(stk_recipe *recipe, const stoke_data_params *params, stoke_error *err)
{
    if (!recipe->keeps) {
        if (!params->cache_disk) return STOKE_OK;
        return stk_fail(err, STOKE_E_INVALID, "cache_disk has no effect without cache: give both or neither");
    }
    const stk_cache_settings settings = { params->cache, params->cache_disk, params->cache_ram };
    int r = describe(recipe, params, err);
    if (!r) r = stk_cache_open(&recipe->cache, &settings, err);
    if (r) return r;
    if (!stk_memo_reserve(stk_cache_memo(recipe->cache), 2 * stoke_dataset_count(recipe->dataset)))
        return stk_fail(err, STOKE_E_NOMEM, "no memory for the digests of the cache");
    return STOKE_OK;
}

void stk_kept_close(stk_recipe *recipe)
{
    stk_cache_close(&recipe->cache);
}

uint64_t stk_kept_scratch(const stk_recipe *recipe, uint64_t pixels, uint8_t depth)
{
    if (!recipe->keeps) return 0;
    if (!recipe->crops) pixels = (uint64_t)recipe->width * recipe->height;
    /* The image, the ids, and the ids packed, which may take a byte more. */
    return pixels * (3u * depth + 2u * stoke_labels_depth(recipe->labels)) + 1;
}

void stk_kept_limit(stk_bench *bench)
{
    const stk_row_need *need = bench->has_turn ? &bench->allowed : &bench->granted;
    bench->cache.limit = need->part[STK_ROW_PART_KEPT_IMAGE] + need->part[STK_ROW_PART_KEPT_IDS];
}

uint64_t stk_kept_memory(const stk_recipe *recipe)
{
    if (!recipe->keeps) return 0;
    return recipe->cache_ram + (recipe->cache ? stk_memo_memory(stk_cache_memo(recipe->cache))
                                              : stk_memo_bytes(2 * stoke_dataset_count(recipe->dataset)));
}

/* ---- finding ---- */

/* The row of the batch, if what is kept can go there as it is; else data NULL. Only a pipeline that does
 * nothing is looked for: what another one draws is not known before the size of the source is. A raw row is
 * one step before that: it takes what is kept whenever no part of it will be resized again. */
static stoke_image image_target(const stk_job *job)
{
    const stk_recipe *recipe = job->recipe;
    const int as_it_is =
        recipe->plain && recipe->writer.dtype == STOKE_DTYPE_U8 && recipe->writer.layout == STOKE_LAYOUT_HWC;
    if (job->raw ? recipe->crops : !as_it_is) return (stoke_image){ 0 };
    return (stoke_image){ job->image_row, (size_t)recipe->width * 3, recipe->width, recipe->height, 3, 1 };
}

static stoke_image mask_target(const stk_job *job)
{
    const stk_recipe *recipe = job->recipe;
    const uint8_t depth = stoke_labels_depth(recipe->labels);
    const int as_it_is =
        recipe->plain && recipe->mask_dtype == (depth == 1 ? STOKE_DTYPE_U8 : STOKE_DTYPE_U16);
    if (job->raw ? recipe->crops : !as_it_is) return (stoke_image){ 0 };
    return (stoke_image){ job->mask_row, (size_t)recipe->width * depth, recipe->width, recipe->height, 1,
                          depth };
}

/* The key says what the prefix of this sample looks like; an entry that does not was not made by us, and what
 * follows relies on it. */
static int as_expected(const stk_job *job, const stk_cached *found)
{
    const stk_recipe *recipe = job->recipe;
    const uint32_t width = recipe->crops ? found->source_width : recipe->width,
                   height = recipe->crops ? found->source_height : recipe->height;
    return found->image.width == width && found->image.height == height &&
           !found->mask.data == !job->sample.mask_path &&
           (!found->mask.data || found->mask.depth == stoke_labels_depth(recipe->labels));
}

static int get(stk_job *job)
{
    stk_kept *kept = &job->kept;
    const stoke_image image = image_target(job), mask = mask_target(job);
    stk_cached found;
    kept->key =
        stk_cache_key_make(&kept->image, job->sample.mask_path ? &kept->mask : NULL, job->recipe->transform);
    if (!stk_cache_get(job->recipe->cache, kept->key, &job->bench->cache, &image, &mask, &found)) return 0;
    if (!as_expected(job, &found)) {
        stk_cache_drop(job->recipe->cache, kept->key);
        return 0;
    }
    kept->found = 1;
    kept->from_ram = found.from_ram;
    job->image = found.image;
    job->ids = found.mask;
    job->width = found.source_width;
    job->height = found.source_height;
    stk_job_stamp(job, STOKE_STAGE_READ);
    return 1;
}

int stk_kept_find(stk_job *job)
{
    stk_kept *kept = &job->kept;
    const stoke_sample *sample = &job->sample;
    stk_memo *memo = stk_cache_memo(job->recipe->cache);
    *kept = (stk_kept){ 0 };
    kept->identified = stk_identity_of(&sample->image, &kept->image_file) &&
                       (!sample->mask_path || stk_identity_of(&sample->mask, &kept->mask_file));
    kept->known = kept->identified && stk_memo_find(memo, &kept->image_file, &kept->image) &&
                  (!sample->mask_path || stk_memo_find(memo, &kept->mask_file, &kept->mask));
    return kept->known && get(job);
}

/* The digest of what was read; the memo learns it if the file was the same before and after. */
static stk_digest digest(const stk_job *job, const stoke_blob *blob, const stk_identity *before,
                         const void *bytes, size_t size)
{
    const stk_digest of = stk_digest_of(bytes, size);
    stk_identity after;
    if (job->kept.identified && stk_identity_of(blob, &after) && stk_identity_equal(before, &after))
        stk_memo_add(stk_cache_memo(job->recipe->cache), before, &of);
    return of;
}

/* After, by their content: the pair may be known under other names. */
static int find_read(stk_job *job)
{
    stk_kept *kept = &job->kept;
    const stk_kept before = *kept;
    const stk_bench *bench = job->bench;
    kept->image =
        digest(job, &job->sample.image, &kept->image_file, bench->image_file.data, job->image_bytes);
    if (job->sample.mask_path)
        kept->mask = digest(job, &job->sample.mask, &kept->mask_file, bench->mask_file.data, job->mask_bytes);
    /* Asked already, unless the files were not known or have changed since. */
    if (before.known && !memcmp(&before.image, &kept->image, sizeof kept->image) &&
        !memcmp(&before.mask, &kept->mask, sizeof kept->mask))
        return 0;
    return get(job);
}

/* ---- keeping ---- */

/* Whether the plan's region can be decoded instead of the whole, with the same result. */
static int region_will_do(const stk_recipe *recipe)
{
    return recipe->crops && recipe->image_decode.mode == STOKE_DECODE_EXACT;
}

static int make_and_keep(stk_job *job, int *whole)
{
    const stk_recipe *recipe = job->recipe;
    const uint8_t depth = job->image_info.bits == 16 ? 2 : 1;
    if (region_will_do(recipe) &&
        !stk_cache_has_room(recipe->cache, stoke_image_bytes(job->width, job->height, 3, depth)))
        return STOKE_OK;
    int r = stk_prefix_whole(job);
    if (!r) {
        const stk_cached sample = {
            .image = job->image, .mask = job->ids, .source_width = job->width, .source_height = job->height
        };
        job->kept.stored = stk_cache_put(recipe->cache, job->kept.key, &job->bench->cache, &sample);
        stk_job_stamp(job, STOKE_STAGE_READ);
        *whole = 1;
    } else if (!stk_is_want(r) && region_will_do(recipe)) {
        /* A file damaged somewhere else: without a cache this row would be good. */
        job->image = job->ids = (stoke_image){ 0 };
        r = STOKE_OK;
    }
    return r;
}

int stk_kept_bring(stk_job *job, stk_gate *gate, int *whole)
{
    if (stk_gate_guards_files(gate)) stk_kept_limit(job->bench);
    *whole = stk_kept_find(job);
    if (*whole) return STOKE_OK;
    int r = stk_fetch(job, gate);
    if (r) return r;
    if (stk_gate_guards_files(gate)) stk_kept_limit(job->bench); /* the gate has let this one through */
    *whole = find_read(job);
    return *whole ? STOKE_OK : make_and_keep(job, whole);
}
