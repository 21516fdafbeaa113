/* SPDX-License-Identifier: Apache-2.0
 *
 * Plan, folder, then shard after shard: those that are there as planned are kept, the others written.
 */
#include <stoke/tools/dataset.h>
#include <stoke/tools/pack.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stoke/tools/image.h>
#include <stoke/tools/machine.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/base/file.h"
#include "src/base/machine.h"
#include "src/base/mem.h"
#include "src/base/retry.h"
#include "src/codec/codec.h"
#include "src/source/dataset_internal.h"
#include "src/source/pack_internal.h"
#include "src/source/quarantine.h"
#include "src/source/shard_name.h"
#include "src/source/tar.h"

enum { MAX_SHARDS = 1000000 }; /* six digits */

/* ---- files ---- */

/* The extension in small letters, where it is a picture's; else what the first bytes say; else "". */
static void find_extension(const char *name, int fd, uint64_t offset, char extension[STK_PACK_EXTENSION])
{
    extension[0] = 0;
    if (stoke_format_known_extension(name)) {
        const char *from = strrchr(name, '.') + 1;
        size_t n = 0;
        for (; from[n] && n + 1 < STK_PACK_EXTENSION; n++)
            extension[n] = (char)(from[n] >= 'A' && from[n] <= 'Z' ? from[n] | 0x20 : from[n]);
        extension[n] = 0;
        return;
    }
    uint8_t head[16] = { 0 };
    if (!stk_pread(fd, head, sizeof head, offset)) stk_codec_recognize(head, sizeof head, extension);
}

/* The image of a sample, or its mask. */
typedef struct side {
    const stoke_blob *blob;
    const char *shown;
} side;

static side side_of(const stoke_sample *sample, int mask)
{
    return mask ? (side){ &sample->mask, sample->mask_path } : (side){ &sample->image, sample->image_path };
}

/* Opens a sample's file for reading and looks at it: a descriptor, or -1 with the reason, without the path,
 * in err. */
static int pack_open(side s, stk_pack_file *file, stoke_error *err)
{
    const stoke_blob *blob = s.blob;
    int fd = stoke_open(blob->path, O_RDONLY, 0);
    struct stat st;
    if (fd < 0) {
        stk_fail_errno(err, errno == ENOENT ? STOKE_E_NOTFOUND : STOKE_E_IO, errno, "cannot open");
        return -1;
    }
    const char *wrong = NULL;
    if (stoke_fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        wrong = "not a regular file";
    else if (blob->size != UINT64_MAX &&
             (blob->offset > (uint64_t)st.st_size || blob->size > (uint64_t)st.st_size - blob->offset))
        wrong = "reaches past the end of its shard";
    if (!wrong) {
        file->bytes = blob->size == UINT64_MAX ? (uint64_t)st.st_size : blob->size;
        file->mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
        find_extension(s.shown, fd, blob->offset, file->extension);
        if (!file->extension[0]) wrong = "no picture by its name or its first bytes";
    }
    if (!wrong) return fd;
    close(fd);
    stk_fail(err, STOKE_E_FORMAT, "%s", wrong);
    return -1;
}

/* A file that is left out, or the end of the packing. 0 or an error. */
static int refuse(stk_pack_plan *plan, uint64_t id, const char *path, stoke_error *why, int skip_bad,
                  stoke_error *err)
{
    if (!skip_bad || stk_is_want(why->code)) {
        stk_error_prefix(why, path);
        if (err) *err = *why;
        return why->code;
    }
    const stoke_sample sample = stoke_dataset_sample(plan->dataset, id);
    stoke_error whole = *why;
    uint64_t distinct;
    stk_error_prefix(&whole, path);
    const int r = stk_quarantine_add(plan->quarantine, id, id, &sample, &whole, &distinct, err);
    if (r) return r;
    if (!stk_grow((void **)&plan->bad, &plan->bad_capacity, plan->n_bad + 1, sizeof *plan->bad) ||
        !stk_bad_file_make(&plan->bad[plan->n_bad], path, why))
        return stk_dataset_no_memory(err);
    plan->n_bad++;
    return STOKE_OK;
}

/* ---- items ---- */

/* Name of a member: KEY.jpg or KEY.mask.png. 0 when it is too long for an archive. */
static int pack_member(const stk_pack_item *item, int mask, char *name, size_t size)
{
    const int n = snprintf(name, size, "%s.%s%s", item->key, mask ? "mask." : "", item->file[mask].extension);
    return n > 0 && (size_t)n < size;
}

/* The sample's place in the plan, or a line in the list of what was left out. */
static int add_item(stk_pack_plan *plan, uint64_t id, int skip_bad, stoke_error *err)
{
    const stoke_sample sample = stoke_dataset_sample(plan->dataset, id);
    stk_pack_item item = { .id = id };
    stoke_error why = { 0 };
    char key[STK_TAR_NAME], name[STK_TAR_NAME];
    for (int mask = 0; mask < (sample.mask_path ? 2 : 1); mask++) {
        const side s = side_of(&sample, mask);
        const int fd = pack_open(s, &item.file[mask], &why);
        if (fd < 0) return refuse(plan, id, s.shown, &why, skip_bad, err);
        close(fd);
        item.files++;
    }
    /* The name without the part's prefix, which the shard's name says instead. */
    const char *in_part = plan->dataset->prefixed ? strchr(sample.name, '/') + 1 : sample.name;
    item.key = key;
    if (!stk_shard_key(in_part, key, sizeof key) || !pack_member(&item, 0, name, sizeof name) ||
        !pack_member(&item, 1, name, sizeof name)) {
        stk_fail(&why, STOKE_E_LIMIT, "its name is too long for an archive");
        return refuse(plan, id, sample.image_path, &why, skip_bad, err);
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
    const uint64_t bytes = item->file[mask].bytes;
    pack_member(item, mask, name, sizeof name);
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
        const uint64_t bytes = member_bytes(item, 0) + (item->files > 1 ? member_bytes(item, 1) : 0);
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
        shard->sources = hash_file(&item->file[1], hash_file(&item->file[0], shard->sources));
    }
    return STOKE_OK;
}

/* Opens every file of the set. progress is asked now and then whether to go on. */
static int pack_plan_make(stk_pack_plan *plan, const stoke_dataset *dataset, const stoke_pack_params *params,
                          stoke_progress_fn progress, void *context, stoke_error *err)
{
    *plan = (stk_pack_plan){ .dataset = dataset };
    const uint64_t count = stoke_dataset_count(dataset);
    int r = stk_quarantine_open(&plan->quarantine, params->quarantine, err);
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

enum { COPY_BYTES = 1 << 20 };

stoke_pack_params stoke_pack_defaults(void)
{
    return (stoke_pack_params){ .struct_size = sizeof(stoke_pack_params),
                                .prefix = "",
                                .shard_bytes = 256 << 20 };
}

typedef struct packing {
    stk_pack_plan plan;
    stk_pack_folder folder;
    stoke_progress_fn progress;
    void *context;
    uint64_t done; /* samples */
    void *copy;    /* COPY_BYTES */
    stoke_pack_report *report;
    stoke_error *err;
} packing;

static int check_params(const stoke_pack_params *p, stoke_error *err)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    if (p->struct_size != sizeof *p) return stk_fail_struct(err, "stoke_pack_defaults");
    if (!p->out || !*p->out) return stk_fail(err, STOKE_E_INVALID, "name the folder for the shards");
    const char *prefix = p->prefix ? p->prefix : "";
    if (strlen(prefix) > 64 || prefix[strspn(prefix, allowed)])
        return stk_fail(err, STOKE_E_INVALID, "prefix %.80s: up to 64 letters, digits, - and _ are possible",
                        prefix);
    return STOKE_OK;
}

/* ---- memory ---- */

/* The index of a shard: its members in a list that doubles as it grows, their names there and in the index
 * file. */
static uint64_t index_bytes(const packing *k, const stk_pack_shard *shard)
{
    enum { MEMBER = 2 * sizeof(stk_tar_member) + 32, SUFFIX = sizeof ".mask." + STK_PACK_EXTENSION };
    uint64_t bytes = 0;
    for (size_t i = shard->first; i < shard->first + shard->count; i++) {
        const stk_pack_item *item = &k->plan.items[i];
        bytes += item->files * (MEMBER + 2 * (strlen(item->key) + SUFFIX));
    }
    return bytes;
}

/* The list of samples is there by now, as that of the set is. Files are copied piece by piece: how large they
 * are does not matter. */
static int plan_memory(packing *k, const stoke_pack_params *params)
{
    enum {
        MANIFEST_LINE = STK_PACK_NAME + 128,
        MANIFESTS = 5
    }; /* old and new, while they are read and made */
    uint64_t largest = 0;
    for (size_t i = 0; i < k->plan.n_shards; i++) {
        const uint64_t bytes = index_bytes(k, &k->plan.shards[i]);
        if (bytes > largest) largest = bytes;
    }
    stoke_memory_sum *sum = &k->report->memory;
    sum->limit_bytes = params->memory_limit;
    stoke_memory_add(sum, "copy", 1, COPY_BYTES);
    stoke_memory_add(sum, "index of a shard", 1, largest);
    stoke_memory_add(sum, "manifest", MANIFESTS, k->plan.n_shards * MANIFEST_LINE);
    stoke_memory_add(sum, "process", 1, stk_machine_rss("/proc") + STK_CODE_BYTES);
    const int r = stoke_memory_check(sum, "packing needs", "lower shard_samples", k->err);
    if (!r && params->planned) params->planned(params->planned_context, sum);
    return r;
}

/* ---- a shard that is there ---- */

/* Whether the shard is as planned; its index file is made where it is missing. */
static int is_finished(const packing *k, const stk_pack_shard *shard, const char *path)
{
    struct stat st;
    stk_tar_index index;
    char name[STK_TAR_NAME];
    if (stoke_stat(path, &st) != 0 || !S_ISREG(st.st_mode) || (uint64_t)st.st_size != shard->bytes ||
        stk_tar_open(&index, path, NULL) != STOKE_OK)
        return 0;
    size_t at = 0;
    int same = 1;
    for (size_t i = shard->first; same && i < shard->first + shard->count; i++) {
        const stk_pack_item *item = &k->plan.items[i];
        same = at + item->files <= index.count;
        for (unsigned mask = 0; same && mask < item->files; mask++) {
            const stk_tar_member *member = &index.members[at++];
            same = pack_member(item, (int)mask, name, sizeof name) && strcmp(member->name, name) == 0 &&
                   member->size == item->file[mask].bytes && member->kind == STK_TAR_FILE;
        }
    }
    same &= at == index.count;
    stk_tar_close(&index);
    return same;
}

/* ---- writing ---- */

static int put(packing *k, stoke_output *file, const void *bytes, size_t n)
{
    if (fwrite(bytes, 1, n, file->stream) == n) return STOKE_OK;
    return stk_fail_errno(k->err, STOKE_E_IO, errno ? errno : EIO, "%s: cannot write", file->path);
}

/* The bytes of a source, as many as were planned. */
static int copy(packing *k, stoke_output *out, side from, const stk_pack_file *planned)
{
    const char *shown = from.shown;
    stk_pack_file now;
    int fd = pack_open(from, &now, k->err), r = STOKE_OK;
    if (fd < 0) {
        stk_error_prefix(k->err, shown);
        return k->err ? k->err->code : STOKE_E_IO;
    }
    if (now.bytes != planned->bytes || now.mtime_ns != planned->mtime_ns)
        r = stk_fail(k->err, STOKE_E_STATE, "%s: was changed while the set was being packed", shown);
    for (uint64_t at = 0; r == STOKE_OK && at < planned->bytes;) {
        const uint64_t left = planned->bytes - at;
        const size_t n = left < COPY_BYTES ? (size_t)left : COPY_BYTES;
        const int number = stk_pread(fd, k->copy, n, from.blob->offset + at);
        if (number == STK_ENDED)
            r = stk_fail(k->err, STOKE_E_IO, "%s: became shorter while it was read", shown);
        else if (number)
            r = stk_fail_errno(k->err, STOKE_E_IO, number, "%s: cannot read", shown);
        else
            r = put(k, out, k->copy, n);
        at += n;
    }
    close(fd);
    return r;
}

static int write_member(packing *k, stoke_output *file, const stk_pack_item *item, int mask)
{
    static const char zeros[STK_TAR_BLOCK];
    char name[STK_TAR_NAME];
    uint8_t head[STK_TAR_HEAD_BYTES];
    const stoke_sample sample = stoke_dataset_sample(k->plan.dataset, item->id);
    const stk_pack_file *planned = &item->file[mask];
    pack_member(item, mask, name, sizeof name);
    int r = put(k, file, head, stk_tar_write_head(name, planned->bytes, head));
    if (r == STOKE_OK) r = copy(k, file, side_of(&sample, mask), planned);
    return r == STOKE_OK ? put(k, file, zeros, stk_tar_padding(planned->bytes)) : r;
}

static int tell(packing *k, uint64_t more)
{
    k->done += more;
    if (k->progress && k->progress(k->context, k->done, k->plan.count))
        return stk_fail(k->err, STOKE_E_CANCELLED, "packing was stopped");
    return STOKE_OK;
}

static int write_shard(packing *k, const stk_pack_shard *shard, const char *path)
{
    static const char end[STK_TAR_END_BYTES];
    stoke_output file;
    int r = stoke_output_open(&file, path, k->err);
    if (r != STOKE_OK) return r;
    for (size_t i = shard->first; r == STOKE_OK && i < shard->first + shard->count; i++) {
        const stk_pack_item *item = &k->plan.items[i];
        for (unsigned mask = 0; r == STOKE_OK && mask < item->files; mask++)
            r = write_member(k, &file, item, (int)mask);
        if (r == STOKE_OK) r = tell(k, 1);
    }
    if (r == STOKE_OK) r = put(k, &file, end, sizeof end);
    if (r != STOKE_OK) {
        stoke_output_drop(&file);
        return r;
    }
    r = stoke_output_commit(&file, k->err);
    if (r != STOKE_OK) return r;
    /* Reads back the headers, and leaves the index file. */
    if (!is_finished(k, shard, path))
        return stk_fail(k->err, STOKE_E_IO, "%s: is not what was written to it", path);
    k->report->written += shard->bytes;
    return STOKE_OK;
}

static int write_shards(packing *k)
{
    int r = STOKE_OK;
    for (size_t i = 0; r == STOKE_OK && i < k->plan.n_shards; i++) {
        const stk_pack_shard *shard = &k->plan.shards[i];
        char path[PATH_MAX];
        if (!stk_pack_path(&k->folder, shard->name, path))
            return stk_fail(k->err, STOKE_E_LIMIT, "%.200s...: the path is too long", k->folder.path);
        if (is_finished(k, shard, path)) {
            k->report->kept++;
            r = tell(k, shard->count);
        } else {
            r = write_shard(k, shard, path);
        }
    }
    return r;
}

int stoke_pack(const stoke_dataset *dataset, const stoke_pack_params *params, stoke_progress_fn progress,
               void *context, stoke_pack_report *report, stoke_error *err)
{
    *report = (stoke_pack_report){ 0 };
    const uint64_t begin = stk_now_ns();
    packing k = { .progress = progress, .context = context, .report = report, .err = err, .folder.fd = -1 };
    int r = check_params(params, err);
    if (r == STOKE_OK && stoke_dataset_has_targets(dataset))
        r = stk_fail(
            err, STOKE_E_UNSUPPORTED,
            "tar shards hold images and masks, and these samples have targets (`task` restore): read them "
            "from their folders, or keep them decoded in a cache (`stoke pack --format cache`)");
    if (r == STOKE_OK && !(k.copy = stk_alloc(COPY_BYTES)))
        r = stk_fail(err, STOKE_E_NOMEM, "no memory to copy files");
    if (r == STOKE_OK) r = pack_plan_make(&k.plan, dataset, params, progress, context, err);
    if (r == STOKE_OK) r = plan_memory(&k, params);
    if (r == STOKE_OK) r = stk_pack_folder_open(&k.folder, &k.plan, params, err);
    if (r == STOKE_OK) r = write_shards(&k);
    if (r == STOKE_OK) {
        report->shards = k.plan.n_shards;
        report->samples = k.plan.count;
        report->bytes = k.plan.bytes;
        report->replaced = k.folder.replaced;
        stk_quarantine_unrecorded(k.plan.quarantine, report->unrecorded, sizeof report->unrecorded);
        report->bad = k.plan.bad, report->n_bad = k.plan.n_bad;
        k.plan.bad = NULL, k.plan.n_bad = 0; /* the report's now */
    }
    stk_pack_folder_close(&k.folder);
    stk_free(k.plan.items);
    stk_free(k.plan.shards);
    stk_bad_files_free(k.plan.bad, k.plan.n_bad);
    stk_string_arena_free(&k.plan.keys);
    stk_quarantine_close(&k.plan.quarantine);
    stk_free(k.copy);
    report->seconds = (double)(stk_now_ns() - begin) * 1e-9;
    return r;
}

void stoke_pack_report_free(stoke_pack_report *report)
{
    if (!report) return;
    stk_bad_files_free(report->bad, report->n_bad);
    *report = (stoke_pack_report){ 0 };
}
