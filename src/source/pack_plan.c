/* SPDX-License-Identifier: Apache-2.0 */
#include "src/source/pack_plan.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xxhash.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/base/retry.h"
#include "src/source/dataset_internal.h"
#include "src/source/shard_name.h"
#include "src/source/tar_write.h"
#include <stoke/tools/image.h>

enum { MAX_SHARDS = 1000000 }; /* six digits */

/* ---- files ---- */

/* The extension in small letters, where it is a picture's; else what the first bytes say; else "". */
static void find_extension(const char *name, int fd, uint64_t offset, char extension[STK_PACK_EXTENSION])
{
    static const struct {
        const char *bytes;
        size_t n;
        const char *extension;
    } known[] = { { "\xff\xd8\xff", 3, "jpg" },
                  { "\x89PNG", 4, "png" },
                  { "RIFF", 4, "webp" },
                  { "II*\0", 4, "tif" },
                  { "MM\0*", 4, "tif" } };
    extension[0] = 0;
    if (stoke_format_known_extension(name)) {
        const char *from = strrchr(name, '.') + 1;
        size_t n = 0;
        for (; from[n] && n + 1 < STK_PACK_EXTENSION; n++)
            extension[n] = (char)(from[n] >= 'A' && from[n] <= 'Z' ? from[n] | 0x20 : from[n]);
        extension[n] = 0;
        return;
    }
    char head[4] = { 0 };
    if (stk_pread(fd, head, sizeof head, offset)) return;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (memcmp(head, known[i].bytes, known[i].n) == 0) strcpy(extension, known[i].extension);
}

int stk_pack_open(const stoke_blob *blob, const char *shown, stk_pack_file *file, stoke_error *err)
{
    int fd = stk_open(blob->path, O_RDONLY, 0);
    struct stat st;
    if (fd < 0) {
        stk_fail_errno(err, errno == ENOENT ? STOKE_E_NOTFOUND : STOKE_E_IO, errno, "cannot open");
        return -1;
    }
    const char *wrong = NULL;
    if (stk_fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        wrong = "not a regular file";
    else if (blob->size != UINT64_MAX &&
             (blob->offset > (uint64_t)st.st_size || blob->size > (uint64_t)st.st_size - blob->offset))
        wrong = "reaches past the end of its shard";
    if (!wrong) {
        file->bytes = blob->size == UINT64_MAX ? (uint64_t)st.st_size : blob->size;
        file->mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
        find_extension(shown, fd, blob->offset, file->extension);
        if (!file->extension[0]) wrong = "no picture by its name or its first bytes";
    }
    if (!wrong) return fd;
    close(fd);
    stk_fail(err, STOKE_E_FORMAT, "%s", wrong);
    return -1;
}

/* A file that is left out, or the end of the packing. 0 or an error. */
static int refuse(stk_pack_plan *plan, const char *path, stoke_error *why, int skip_bad, stoke_error *err)
{
    if (!skip_bad || stk_is_want(why->code)) {
        stk_error_prefix(why, path);
        if (err) *err = *why;
        return why->code;
    }
    stoke_bad_file bad = { stk_strdup(path), stk_strdup(why->message), why->code };
    if (bad.path && bad.reason &&
        stk_grow((void **)&plan->bad, &plan->bad_capacity, plan->n_bad + 1, sizeof bad)) {
        plan->bad[plan->n_bad++] = bad;
        return STOKE_OK;
    }
    stk_free((char *)bad.path);
    stk_free((char *)bad.reason);
    return stk_dataset_no_memory(err);
}

static int look_at(const stoke_blob *blob, const char *shown, stk_pack_file *file, stoke_error *err)
{
    int fd = stk_pack_open(blob, shown, file, err);
    if (fd >= 0) close(fd);
    return fd >= 0;
}

/* ---- items ---- */

int stk_pack_member(const stk_pack_item *item, int mask, char *name, size_t size)
{
    const int n = snprintf(name, size, "%s.%s%s", item->key, mask ? "mask." : "",
                           mask ? item->mask.extension : item->image.extension);
    return n > 0 && (size_t)n < size;
}

/* The name without the part's prefix, which the shard's name says instead. */
static const char *name_in_part(const stoke_dataset *dataset, const char *name)
{
    return dataset->prefixed ? strchr(name, '/') + 1 : name;
}

/* The sample's place in the plan, or a line in the list of what was left out. */
static int add_item(stk_pack_plan *plan, uint64_t id, int skip_bad, stoke_error *err)
{
    const stoke_sample sample = stoke_dataset_sample(plan->dataset, id);
    stk_pack_item item = { .id = id };
    stoke_error why = { 0 };
    char key[STK_TAR_NAME], name[STK_TAR_NAME];
    if (!look_at(&sample.image, sample.image_path, &item.image, &why))
        return refuse(plan, sample.image_path, &why, skip_bad, err);
    if (sample.mask_path && !look_at(&sample.mask, sample.mask_path, &item.mask, &why))
        return refuse(plan, sample.mask_path, &why, skip_bad, err);
    item.key = key;
    if (!stk_shard_key(name_in_part(plan->dataset, sample.name), key, sizeof key) ||
        !stk_pack_member(&item, 0, name, sizeof name) || !stk_pack_member(&item, 1, name, sizeof name)) {
        stk_fail(&why, STOKE_E_LIMIT, "its name is too long for an archive");
        return refuse(plan, sample.image_path, &why, skip_bad, err);
    }
    item.key = stk_string_arena_copy(&plan->keys, key, strlen(key));
    if (!item.key || !stk_grow((void **)&plan->items, &plan->capacity, plan->count + 1, sizeof item))
        return stk_dataset_no_memory(err);
    plan->items[plan->count++] = item;
    return STOKE_OK;
}

/* ---- shards ---- */

static uint64_t member_bytes(const stk_pack_item *item, int mask)
{
    char name[STK_TAR_NAME];
    uint8_t head[STK_TAR_HEAD_BYTES];
    const uint64_t bytes = mask ? item->mask.bytes : item->image.bytes;
    stk_pack_member(item, mask, name, sizeof name);
    return stk_tar_write_head(name, bytes, head) + bytes + stk_tar_padding(bytes);
}

static uint64_t hash_file(const stk_pack_file *file, uint64_t seed)
{
    const uint64_t facts[2] = { file->bytes, (uint64_t)file->mtime_ns };
    return XXH3_64bits_withSeed(facts, sizeof facts,
                                XXH3_64bits_withSeed(file->extension, strlen(file->extension), seed));
}

static int begin_shard(stk_pack_plan *plan, const char *part, const char *prefix, unsigned number,
                       stoke_error *err)
{
    if (number >= MAX_SHARDS)
        return stk_fail(err, STOKE_E_LIMIT, "more than %d shards: raise shard_size or shard_samples",
                        MAX_SHARDS);
    if (!stk_grow((void **)&plan->shards, &plan->shards_capacity, plan->n_shards + 1, sizeof *plan->shards))
        return stk_dataset_no_memory(err);
    stk_pack_shard *shard = &plan->shards[plan->n_shards++];
    *shard = (stk_pack_shard){ .bytes = STK_TAR_END_BYTES };
    snprintf(shard->name, sizeof shard->name, "%s%s%s%s%06u.tar", part, *part ? "-" : "", prefix,
             *prefix ? "-" : "", number);
    return STOKE_OK;
}

/* A sample goes into the shard as long as there is room; the parts of a set have their own shards. */
static int cut_shards(stk_pack_plan *plan, const stoke_pack_params *p, stoke_error *err)
{
    const char *part = NULL;
    unsigned number = 0;
    for (size_t i = 0; i < plan->count; i++) {
        const stk_pack_item *item = &plan->items[i];
        const char *name = stoke_dataset_sample(plan->dataset, item->id).name;
        const char *own = !plan->dataset->prefixed ? "" : name[0] == 't' ? "train" : "val";
        const uint64_t bytes = member_bytes(item, 0) + (item->mask.extension[0] ? member_bytes(item, 1) : 0);
        stk_pack_shard *shard = plan->n_shards ? &plan->shards[plan->n_shards - 1] : NULL;
        const int new_part = !part || strcmp(part, own) != 0;
        if (new_part || (p->shard_samples && shard->count == p->shard_samples) ||
            (p->shard_bytes && shard->bytes + bytes > p->shard_bytes)) {
            if (new_part) number = 0;
            int r = begin_shard(plan, own, p->prefix ? p->prefix : "", number++, err);
            if (r != STOKE_OK) return r;
            part = own;
            shard = &plan->shards[plan->n_shards - 1];
            shard->first = i;
            plan->bytes += shard->bytes;
        }
        shard->count++;
        shard->bytes += bytes;
        plan->bytes += bytes;
        shard->sources = XXH3_64bits_withSeed(item->key, strlen(item->key), shard->sources);
        shard->sources = hash_file(&item->mask, hash_file(&item->image, shard->sources));
    }
    return STOKE_OK;
}

int stk_pack_plan_make(stk_pack_plan *plan, const stoke_dataset *dataset, const stoke_pack_params *params,
                       stoke_progress_fn progress, void *context, stoke_error *err)
{
    *plan = (stk_pack_plan){ .dataset = dataset };
    const uint64_t count = stoke_dataset_count(dataset);
    int r = STOKE_OK;
    for (uint64_t id = 0; r == STOKE_OK && id < count; id++) {
        r = add_item(plan, id, params->skip_bad, err);
        if (r == STOKE_OK && id % 256 == 0 && progress && progress(context, 0, count))
            r = stk_fail(err, STOKE_E_CANCELLED, "packing was stopped");
    }
    if (r != STOKE_OK) return r;
    if (!plan->count)
        return stk_fail(err, STOKE_E_NOTFOUND, "none of %llu samples can be read", (unsigned long long)count);
    return cut_shards(plan, params, err);
}

void stk_pack_plan_free(stk_pack_plan *plan)
{
    stk_free(plan->items);
    stk_free(plan->shards);
    for (size_t i = 0; i < plan->n_bad; i++) {
        stk_free((char *)plan->bad[i].path);
        stk_free((char *)plan->bad[i].reason);
    }
    stk_free(plan->bad);
    stk_string_arena_free(&plan->keys);
    *plan = (stk_pack_plan){ 0 };
}
