/* SPDX-License-Identifier: Apache-2.0
 *
 * The manifest, stoke-pack.jsonl: a line for the settings, then a line for every shard with a hash of its
 * sources. It is written before the first shard, so whatever shard is found beside it was meant by it. It is
 * never parsed: packing again writes the same text, or is something else.
 */
#include "src/source/pack_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/error.h"
#include "src/base/file.h"
#include "src/base/mem.h"
#include "src/base/retry.h"
#include "src/base/words.h"
#include "src/source/tar.h"

/* Whether a file under a shard's name is the one that `pack` wrote: its length and samples are those of the
 * manifest, and every header is, to the byte, the one that pack writes for such a member.
 */

/* How the line of a shard begins in a manifest; its name follows, and a quotation mark. */
#define SHARD "{\"shard\": \""

/* The line of a manifest about a shard: 0 when it is not as pack writes it. */
static int is_listed(const char *line, uint64_t *bytes, size_t *samples)
{
    unsigned long long number;
    const char *name = line + strlen(SHARD);
    if (strncmp(line, SHARD, strlen(SHARD)) != 0) return 0;
    if (sscanf(name + strcspn(name, "\"\n"), "\", \"samples\": %zu, \"bytes\": %llu", samples, &number) != 2)
        return 0;
    *bytes = number;
    return 1;
}

/* Member behind member, without a gap, up to the end of the archive. */
static int headers_are_ours(int fd, const stk_tar_index *index, uint64_t bytes)
{
    uint8_t wanted[STK_TAR_HEAD_BYTES], found[STK_TAR_HEAD_BYTES];
    uint64_t at = 0;
    for (size_t i = 0; i < index->count; i++) {
        const stk_tar_member *member = &index->members[i];
        const size_t n = stk_tar_write_head(member->name, member->size, wanted);
        if (!n || at + n != member->offset || stk_pread(fd, found, n, at) || memcmp(found, wanted, n) != 0)
            return 0;
        at = member->offset + member->size + stk_tar_padding(member->size);
    }
    return at + STK_TAR_END_BYTES == bytes;
}

/* A file that cannot be read is not proved. */
static int is_proved(const char *path, uint64_t bytes, size_t samples)
{
    struct stat st;
    stk_tar_index index = { 0 };
    const int fd = stoke_open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0); /* no waiting for a pipe */
    if (fd < 0) return 0;
    int proved = stoke_fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size == bytes;
    if (proved) {
        const stk_tar_input input = stk_tar_file(path, fd, bytes);
        proved = stk_tar_scan(&index, &input, NULL) == 0 && index.count >= samples &&
                 index.count <= 2 * samples && headers_are_ours(fd, &index, bytes);
    }
    stk_tar_close(&index);
    close(fd);
    return proved;
}

#define MANIFEST "stoke-pack.jsonl"
enum { LINE = 512 };
#define MANIFEST_LIMIT ((uint64_t)LINE * 1000001)

int stk_pack_path(const stk_pack_folder *folder, const char *name, char path[PATH_MAX])
{
    const int n = snprintf(path, PATH_MAX, "%s/%s", folder->path, name);
    return n > 0 && n < PATH_MAX;
}

/* ---- the manifest ---- */

/* NULL when there is no memory. */
static char *manifest_text(const stk_pack_plan *plan, const stoke_pack_params *p)
{
    const size_t size = (plan->n_shards + 1) * LINE;
    char *text = stk_alloc(size);
    if (!text) return NULL;
    int n = snprintf(text, size,
                     "{\"stoke_pack\": 1, \"prefix\": \"%s\", \"shard_size\": %" PRIu64
                     ", \"shard_samples\": %" PRIu64 "}\n",
                     p->prefix ? p->prefix : "", p->shard_bytes, p->shard_samples);
    for (size_t i = 0; i < plan->n_shards; i++) {
        const stk_pack_shard *s = &plan->shards[i];
        n += snprintf(text + n, size - (size_t)n,
                      SHARD "%s\", \"samples\": %zu, \"bytes\": %" PRIu64 ", \"sources\": \"%016" PRIx64
                            "\"}\n",
                      s->name, s->count, s->bytes, s->sources);
    }
    return text;
}

/* The first line in which two texts differ, of `a`: cut to its own end. */
static const char *first_difference(const char *a, const char *b, int *length)
{
    const char *line = a;
    for (; *a && *a == *b; a++, b++)
        if (*a == '\n') line = a + 1;
    *length = (int)strcspn(line, "\n");
    return line;
}

/* "shard_size 268435456, shard_samples 16" of the manifest's first line; "" when it is not as we write it. */
static void settings_text(const char *line, char *text, size_t size)
{
    const char *at = strstr(line, "\"shard_size\"");
    size_t n = 0;
    for (; at && *at && *at != '}' && *at != '\n' && n + 1 < size; at++)
        if ((*at >= 'a' && *at <= 'z') || (*at >= '0' && *at <= '9') || strchr("_, ", *at)) text[n++] = *at;
    text[n] = 0;
}

static int explain(const stk_pack_folder *folder, const char *old, const char *new, stoke_error *err)
{
    int length;
    const char *line = first_difference(old, new, &length);
    if (line == old) {
        char settings[128];
        settings_text(line, settings, sizeof settings);
        return stk_fail(err, STOKE_E_STATE,
                        "%s: was packed with other settings (%s). Pack elsewhere, or use `force` to "
                        "replace it",
                        folder->path, *settings ? settings : "unknown");
    }
    /* lines beyond the end of the old one are shards that it did not have */
    const int known = strncmp(line, SHARD, strlen(SHARD)) == 0;
    const char *name = known ? line + strlen(SHARD) : "a new shard";
    return stk_fail(
        err, STOKE_E_STATE,
        "%s: the sources have changed since it was packed, first those of %.*s. Pack elsewhere, or use "
        "`force` to replace it",
        folder->path, (int)strcspn(name, "\""), name);
}

/* ---- what is there ---- */

/* Whether a name up to `end` is that of a shard, PREFIX-012345.tar, or of its index file. */
static int is_shard(const char *name, const char *end, const char *prefix)
{
    const size_t n = strlen(prefix);
    if (strncmp(name, prefix, n) != 0 || (n && name[n] != '-')) return 0;
    name += n + (n > 0);
    if (strspn(name, "0123456789") != 6) return 0;
    name += 6;
    const size_t rest = (size_t)(end - name);
    return (rest == 4 && memcmp(name, ".tar", rest) == 0) ||
           (rest == 8 && memcmp(name, ".tar" STK_TAR_INDEX_SUFFIX, rest) == 0);
}

/* The same, of the whole set or of a part of it. */
static int is_our_shard(const stoke_pack_params *p, const char *name, const char *end)
{
    const char *prefix = p->prefix ? p->prefix : "";
    return is_shard(name, end, prefix) ||
           (strncmp(name, "train-", 6) == 0 && is_shard(name + 6, end, prefix)) ||
           (strncmp(name, "val-", 4) == 0 && is_shard(name + 4, end, prefix));
}

static int is_temporary(const char *name, const char **dot)
{
    *dot = strstr(name, ".tmp-");
    return *dot && strlen(*dot) == 11 && strspn(*dot + 5, "0123456789abcdef") == 6;
}

static int is_leftover_manifest(const char *name)
{
    const char *dot;
    const size_t n = strlen(MANIFEST);
    return is_temporary(name, &dot) && (size_t)(dot - name) >= n && strncmp(dot - n, MANIFEST, n) == 0;
}

static int remove_regular(stk_pack_folder *folder, const char *name, stoke_error *err)
{
    struct stat st;
    if (stk_fstatat(folder->fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return stoke_is_absent(errno)
                   ? STOKE_OK
                   : stk_fail_errno(err, STOKE_E_IO, errno, "%s/%s: cannot be looked at", folder->path, name);
    if (!S_ISREG(st.st_mode))
        return stk_fail(err, STOKE_E_STATE, "%s/%s: is in the way and no regular file; it is left as it is",
                        folder->path, name);
    if (unlinkat(folder->fd, name, 0) != 0 && errno != ENOENT)
        return stk_fail_errno(err, STOKE_E_IO, errno, "%s/%s: cannot remove", folder->path, name);
    return STOKE_OK;
}

/* Only what is named as this packing names its shards; a manifest is a file, and may say anything. */
static int remove_shard(stk_pack_folder *folder, const stoke_pack_params *p, const char *name, size_t n,
                        stoke_error *err)
{
    char file[STK_PACK_NAME + 8];
    if (n < 4 || n >= STK_PACK_NAME || memcmp(name + n - 4, ".tar", 4) != 0 ||
        !is_our_shard(p, name, name + n))
        return STOKE_OK;
    snprintf(file, sizeof file, "%.*s", (int)n, name);
    folder->replaced += faccessat(folder->fd, file, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    int r = remove_regular(folder, file, err);
    snprintf(file, sizeof file, "%.*s" STK_TAR_INDEX_SUFFIX, (int)n, name);
    char path[PATH_MAX];
    if (r || !stk_pack_path(folder, file, path) || !stk_tar_index_is_ours(path)) return r;
    return remove_regular(folder, file, err);
}

/* What stands under the names of a manifest must be what it describes: who packs again gives up the shards of
 * before, not an archive that somebody put in the place of one. With the plan's manifest the same holds for a
 * run that goes on. `known` is the manifest of before, NULL where there was none. */
static int refuse_foreign(const stk_pack_folder *folder, const stoke_pack_params *p, const char *manifest,
                          const char *known, stoke_error *err)
{
    for (const char *line = manifest; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, SHARD, strlen(SHARD)) != 0) continue;
        const char *name = line + strlen(SHARD);
        const int n = (int)strcspn(name, "\"\n");
        char path[PATH_MAX], begin[STK_PACK_NAME + sizeof SHARD + 1];
        struct stat st;
        uint64_t bytes;
        size_t samples;
        if (n >= STK_PACK_NAME || !is_our_shard(p, name, name + n)) continue;
        snprintf(path, sizeof path, "%s/%.*s", folder->path, n, name);
        snprintf(begin, sizeof begin, SHARD "%.*s\"", n, name);
        const int absent = stoke_lstat(path, &st) != 0 && stoke_is_absent(errno);
        if (absent || (manifest != known && strstr(known, begin))) continue;
        if (manifest == known && is_listed(line, &bytes, &samples) && is_proved(path, bytes, samples))
            continue;
        return stk_fail(err, STOKE_E_STATE,
                        "%s: is not the shard that was packed here (somebody else's, or changed since), and "
                        "is left as it is: move it away, or remove it, and pack again",
                        path);
    }
    return STOKE_OK;
}

static int remove_listed(stk_pack_folder *folder, const stoke_pack_params *p, const char *manifest,
                         stoke_error *err)
{
    int r = STOKE_OK;
    for (const char *line = manifest; r == STOKE_OK && line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, SHARD, strlen(SHARD)) != 0) continue;
        const char *name = line + strlen(SHARD);
        r = remove_shard(folder, p, name, strcspn(name, "\""), err);
    }
    return r;
}

/* Looks through the folder: *ours = a manifest is there, *other = the name of something ("" = empty). */
static int look_around(const stk_pack_folder *folder, int *ours, char other[256], stoke_error *err)
{
    DIR *handle = stoke_opendir(folder->path);
    if (!handle) return stk_fail_errno(err, STOKE_E_IO, errno, "%s: cannot open folder", folder->path);
    struct dirent *entry;
    *ours = 0, other[0] = 0;
    while ((entry = stoke_readdir(handle))) {
        const char *name = entry->d_name;
        if (!strcmp(name, ".") || !strcmp(name, "..")) continue;
        if (is_leftover_manifest(name)) continue;
        *ours |= stk_ends_in(name, MANIFEST);
        snprintf(other, 256, "%s", name);
    }
    const int number = stk_closedir(handle);
    return number ? stk_fail_errno(err, STOKE_E_IO, number, "%s: cannot read folder", folder->path)
                  : STOKE_OK;
}

/* What a killed run left half-written: NAME.tar.tmp-012345. Any number will do: with other settings that run
 * had more shards than this one. The manifest comes first: without one beside it a shard is somebody else's,
 * half-written or not. What cannot be removed stays. */
static void remove_leftovers(stk_pack_folder *folder, const stoke_pack_params *p)
{
    DIR *handle = stoke_opendir(folder->path);
    const char *dot;
    for (const struct dirent *entry; handle && (entry = stoke_readdir(handle));)
        if ((is_temporary(entry->d_name, &dot) && is_our_shard(p, entry->d_name, dot)) ||
            is_leftover_manifest(entry->d_name))
            remove_regular(folder, entry->d_name, NULL);
    if (handle) closedir(handle);
}

/* Shards that are packed again into their own folder would be replaced while they are read. */
static int refuse_own_source(const stk_pack_folder *folder, const stk_pack_plan *plan, stoke_error *err)
{
    struct stat here, there;
    const char *last = NULL;
    if (stoke_fstat(folder->fd, &here) != 0)
        return stk_fail_errno(err, STOKE_E_IO, errno, "%s: cannot stat", folder->path);
    for (size_t i = 0; i < plan->count; i++) {
        const stoke_blob source = stoke_dataset_sample(plan->dataset, plan->items[i].id).image;
        if (source.size == UINT64_MAX || source.path == last) continue;
        last = source.path;
        char path[PATH_MAX];
        const char *slash = strrchr(last, '/');
        snprintf(path, sizeof path, "%.*s", slash ? (int)(slash - last) + 1 : 1, slash ? last : ".");
        if (stoke_stat(path, &there) == 0 && there.st_dev == here.st_dev && there.st_ino == here.st_ino)
            return stk_fail(err, STOKE_E_INVALID, "%s: the set itself lies there (%s): name another folder",
                            folder->path, last);
    }
    return STOKE_OK;
}

/* Without a manifest beside them, shards of these names are somebody else's. */
static int refuse_others_shards(const stk_pack_folder *folder, const stk_pack_plan *plan, stoke_error *err)
{
    for (size_t i = 0; i < plan->n_shards; i++)
        if (faccessat(folder->fd, plan->shards[i].name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
            return stk_fail(err, STOKE_E_STATE,
                            "%s/%s: exists already: name another folder or prefix, or use `force` to "
                            "replace it",
                            folder->path, plan->shards[i].name);
    return STOKE_OK;
}

/* ---- the folder ---- */

/* `old` NULL: nothing was packed here. */
static int settle(stk_pack_folder *folder, const stk_pack_plan *plan, const stoke_pack_params *p,
                  const char *old, const char *new, const char *path, stoke_error *err)
{
    int ours = 0;
    char other[256];
    stoke_output file;
    int r = refuse_own_source(folder, plan, err);
    if (r == STOKE_OK) r = look_around(folder, &ours, other, err);
    if (r == STOKE_OK && ours) remove_leftovers(folder, p);
    if (r == STOKE_OK && old && !p->force && strcmp(old, new) == 0)
        return refuse_foreign(folder, p, old, old, err);
    if (r != STOKE_OK) return r;
    if (old && !p->force) return explain(folder, old, new, err);
    if (other[0] && !ours && !p->force)
        return stk_fail(err, STOKE_E_STATE,
                        "%s: is not empty (%s) and was not made by pack: name another folder, or use "
                        "`force` to write into it",
                        folder->path, other);
    if (!old && !p->force) r = refuse_others_shards(folder, plan, err);
    if (r != STOKE_OK) return r;
    if (old) r = refuse_foreign(folder, p, old, old, err);
    if (old && r == STOKE_OK) r = refuse_foreign(folder, p, new, old, err);
    if (r != STOKE_OK) return r;
    /* What an old manifest described goes before the new one says something else about it. */
    if (old) r = remove_listed(folder, p, old, err);
    if (r == STOKE_OK) r = remove_listed(folder, p, new, err);
    if (r == STOKE_OK) r = stoke_output_open(&file, path, err);
    if (r != STOKE_OK) return r;
    fputs(new, file.stream); /* commit tells whether it arrived */
    return stoke_output_commit(&file, err);
}

int stk_pack_folder_open(stk_pack_folder *folder, const stk_pack_plan *plan, const stoke_pack_params *params,
                         stoke_error *err)
{
    char path[PATH_MAX], name[STK_PACK_NAME];
    *folder = (stk_pack_folder){ .path = params->out, .fd = -1 };
    const char *prefix = params->prefix ? params->prefix : "";
    snprintf(name, sizeof name, "%s%s" MANIFEST, prefix, *prefix ? "-" : "");
    if (!stk_pack_path(folder, name, path))
        return stk_fail(err, STOKE_E_LIMIT, "%.200s...: the path is too long", folder->path);
    int r = stoke_make_folders(params->out, err);
    if (r != STOKE_OK) return r;
    folder->fd = stoke_open(params->out, O_RDONLY | O_DIRECTORY, 0);
    if (folder->fd < 0) return stk_fail_errno(err, STOKE_E_IO, errno, "%s: cannot open folder", params->out);
    /* Released when the process ends, however it ends. Where locks are not supported, there is none. */
    if (flock(folder->fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return stk_fail(err, STOKE_E_STATE, "%s: another pack is writing into it", params->out);
    stk_mem_buffer buffer = { 0 };
    size_t size = 0;
    char *old = NULL, *new = manifest_text(plan, params);
    r = new ? stk_file_read(path, MANIFEST_LIMIT, &buffer, &size, err)
            : stk_fail(err, STOKE_E_NOMEM, "no memory for the manifest");
    if (r == STOKE_OK) {
        old = stk_calloc(size + 1, 1);
        if (old)
            memcpy(old, buffer.data, size);
        else
            r = stk_fail(err, STOKE_E_NOMEM, "no memory for the manifest");
    } else if (r == STOKE_E_NOTFOUND) {
        r = STOKE_OK;
    }
    if (r == STOKE_OK) r = settle(folder, plan, params, old, new, path, err);
    stk_buffer_free(&buffer);
    stk_free(old);
    stk_free(new);
    return r;
}

void stk_pack_folder_close(stk_pack_folder *folder)
{
    if (folder->fd >= 0) close(folder->fd);
    folder->fd = -1;
}
