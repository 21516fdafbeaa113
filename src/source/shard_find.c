/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/base/retry.h"
#include "src/base/words.h"
#include "src/source/dataset_internal.h"

/* A million shards of 256 MiB are 256 TiB: a longer pattern is a slip. */
enum { MAX_SHARDS = 1000000 };

/* ---- names ---- */

static int ends_with(const char *name, const char *ending)
{
    size_t n = strlen(name), m = strlen(ending);
    return n > m && strcasecmp(name + n - m, ending) == 0;
}

static int is_compressed(const char *name)
{
    return ends_with(name, ".tar.gz") || ends_with(name, ".tgz") || ends_with(name, ".tar.zst") ||
           ends_with(name, ".tar.xz") || ends_with(name, ".tar.bz2") || ends_with(name, ".tar.lz4");
}

/* Whether the letters that a file's name begins with are one of these words. */
static int begins_with(const char *path, const char *words)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *end = name;
    while ((*end | 0x20) >= 'a' && (*end | 0x20) <= 'z') end++;
    return stk_is_listed(name, (size_t)(end - name), words, strncasecmp);
}

static stoke_split split_of(const char *path)
{
    if (begins_with(path, "train training")) return STOKE_SPLIT_TRAIN;
    return begins_with(path, "val valid validation") ? STOKE_SPLIT_VAL : STOKE_SPLIT_ALL;
}

static int add(stk_shard_list *shards, stk_string_arena *arena, const char *path, stoke_error *err)
{
    if (shards->count == MAX_SHARDS)
        return stk_fail(err, STOKE_E_LIMIT, "%s: more than %d shards", path, MAX_SHARDS);
    const char *copy = stk_string_arena_copy(arena, path, strlen(path));
    if (!copy ||
        !stk_grow((void **)&shards->items, &shards->capacity, shards->count + 1, sizeof *shards->items))
        return stk_fail(err, STOKE_E_NOMEM, "no memory for the list of shards");
    shards->items[shards->count++] = (stk_shard){ copy, split_of(copy) };
    return STOKE_OK;
}

/* ---- patterns ---- */

typedef struct expansion {
    stk_string_arena *arena;
    stk_shard_list *shards;
    stoke_error *err;
    const char *pattern;
    char path[PATH_MAX];
} expansion;

static int append(expansion *e, size_t *length, const char *text, size_t n)
{
    if (*length + n >= sizeof e->path)
        return stk_fail(e->err, STOKE_E_LIMIT, "%s: the path is too long", e->pattern);
    memcpy(e->path + *length, text, n);
    *length += n;
    return STOKE_OK;
}

/* "000..123" -> first, last and the digits of the first. */
static int parse_range(const char *text, const char *end, uint64_t *first, uint64_t *last, int *digits)
{
    uint64_t value[2] = { 0, 0 };
    for (int i = 0; i < 2; i++) {
        const char *begin = text;
        for (; text < end && *text >= '0' && *text <= '9' && text - begin < 18; text++)
            value[i] = value[i] * 10 + (uint64_t)(*text - '0');
        if (text == begin) return 0;
        if (i == 0) {
            *digits = (int)(text - begin);
            if (end - text < 2 || text[0] != '.' || text[1] != '.') return 0;
            text += 2;
        }
    }
    *first = value[0], *last = value[1];
    return text == end;
}

/* Writes path[0..length] and all that the pattern's rest stands for. Depth: one call per brace. */
static int expand(expansion *e, size_t length, const char *rest)
{
    const char *open = strchr(rest, '{'), *close = open ? strchr(open, '}') : NULL;
    int r = append(e, &length, rest, close ? (size_t)(open - rest) : strlen(rest));
    if (r != STOKE_OK) return r;
    if (!close) {
        e->path[length] = 0;
        return add(e->shards, e->arena, e->path, e->err);
    }
    uint64_t first, last;
    int digits;
    if (parse_range(open + 1, close, &first, &last, &digits)) {
        if (last < first || last - first >= MAX_SHARDS)
            return stk_fail(e->err, STOKE_E_INVALID, "%s: the numbers must rise, by less than %d", e->pattern,
                            MAX_SHARDS);
        for (uint64_t i = first; r == STOKE_OK && i <= last; i++) {
            char number[32];
            size_t with = length;
            int n = snprintf(number, sizeof number, "%0*" PRIu64, digits, i);
            r = append(e, &with, number, (size_t)n);
            if (r == STOKE_OK) r = expand(e, with, close + 1);
        }
        return r;
    }
    for (const char *word = open + 1; r == STOKE_OK && word <= close;) {
        const size_t n = strcspn(word, ",}");
        size_t with = length;
        r = append(e, &with, word, n);
        if (r == STOKE_OK) r = expand(e, with, close + 1);
        word += n + 1;
    }
    return r;
}

int stk_shards_expand(const char *pattern, stk_string_arena *arena, stk_shard_list *shards, stoke_error *err)
{
    int braces = 0;
    for (const char *p = pattern; *p; p++) braces += *p == '{';
    if (braces > 8) return stk_fail(err, STOKE_E_INVALID, "%s: more than 8 braces", pattern);
    expansion *e = stk_alloc(sizeof *e);
    if (!e) return stk_fail(err, STOKE_E_NOMEM, "%s: no memory", pattern);
    e->arena = arena, e->shards = shards, e->err = err, e->pattern = pattern;
    int r = expand(e, 0, pattern);
    stk_free(e);
    return r;
}

static int by_path(const void *a, const void *b)
{
    const char *x = ((const stk_shard *)a)->path, *y = ((const stk_shard *)b)->path;
    return stk_natural_compare(x, strlen(x), y, strlen(y));
}

/* A pattern in quotes, with a star: what a shell would have made of it, in the order of folders. */
static int match(const char *pattern, stk_string_arena *arena, stk_shard_list *shards, stoke_error *err)
{
    glob_t found;
    const int wrong = glob(pattern, 0, NULL, &found);
    int r = wrong == 0              ? STOKE_OK
            : wrong == GLOB_NOSPACE ? stk_fail(err, STOKE_E_NOMEM, "%s: no memory", pattern)
            : wrong == GLOB_ABORTED ? stk_fail(err, STOKE_E_IO, "%s: cannot read the folder", pattern)
                                    : stk_fail(err, STOKE_E_NOTFOUND, "%s: no file is called so", pattern);
    for (size_t i = 0; r == STOKE_OK && i < found.gl_pathc; i++)
        r = add(shards, arena, found.gl_pathv[i], err);
    if (wrong == 0) globfree(&found);
    if (r == STOKE_OK) qsort(shards->items, shards->count, sizeof *shards->items, by_path);
    return r;
}

/* ---- folders ---- */

/* Shards of a test set beside those of train and val are not theirs, as a folder `test` would not be. */
static void drop_test(stk_shard_list *shards)
{
    int own = 0;
    size_t kept = 0;
    for (size_t i = 0; i < shards->count; i++) own |= shards->items[i].split != STOKE_SPLIT_ALL;
    for (size_t i = 0; own && i < shards->count; i++)
        if (!begins_with(shards->items[i].path, "test")) shards->items[kept++] = shards->items[i];
    if (own) shards->count = kept;
}

/* *.tar directly in the folder; *compressed = an archive that is none of them. */
static int list_folder(const char *folder, stk_string_arena *arena, stk_shard_list *shards,
                       const char **compressed, stoke_error *err)
{
    DIR *handle = stoke_opendir(folder);
    if (!handle) return stk_fail_errno(err, STOKE_E_IO, errno, "%s: cannot open folder", folder);
    int r = STOKE_OK;
    struct dirent *entry;
    size_t n = strlen(folder);
    while (n > 1 && folder[n - 1] == '/') n--;
    while (r == STOKE_OK && (entry = stoke_readdir(handle))) {
        char path[PATH_MAX];
        const char *name = entry->d_name;
        const int shard = ends_with(name, ".tar");
        if (name[0] == '.' || entry->d_type == DT_DIR || (!shard && !is_compressed(name))) continue;
        if (n + 1 + strlen(name) >= sizeof path)
            r = stk_fail(err, STOKE_E_LIMIT, "%s/%s: the path is too long", folder, name);
        else if (snprintf(path, sizeof path, "%.*s/%s", (int)n, folder, name), shard)
            r = add(shards, arena, path, err);
        else if (!*compressed && !(*compressed = stk_string_arena_copy(arena, path, strlen(path))))
            r = stk_dataset_no_memory(err);
    }
    if (r == STOKE_OK && errno) r = stk_fail_errno(err, STOKE_E_IO, errno, "%s: cannot read folder", folder);
    closedir(handle);
    if (shards->count) qsort(shards->items, shards->count, sizeof *shards->items, by_path);
    drop_test(shards);
    return r;
}

/* A folder with archives: shards, unless there are images as well, in folders of the usual names (the archive
 * is then what they were unpacked from). */
static int find_in_folder(const char *folder, stk_string_arena *arena, stk_shard_list *shards,
                          stoke_error *err)
{
    const char *compressed = NULL;
    int r = list_folder(folder, arena, shards, &compressed, err);
    if (r != STOKE_OK || (!shards->count && !compressed)) return r;
    stk_layout_part parts[STK_MAX_PARTS];
    size_t n_parts = 0;
    stoke_task task = STOKE_TASK_AUTO; /* folders of any kind */
    r = stk_layout_find(folder, &task, arena, parts, &n_parts, err);
    if (r != STOKE_OK && r != STOKE_E_NOTFOUND) return r;
    if (r == STOKE_OK && !parts[0].bare) shards->count = 0;
    if (r == STOKE_OK || shards->count) return STOKE_OK;
    return stk_fail(
        err, STOKE_E_UNSUPPORTED,
        "%s: compressed archives are not supported: unpack them, or make shards with `stoke pack`; "
        "pictures are compressed already",
        compressed);
}

int stk_shards_find(const char *data, stk_string_arena *arena, stk_shard_list *shards, stoke_error *err)
{
    struct stat st;
    *shards = (stk_shard_list){ 0 };
    int r = STOKE_OK;
    const int there = stoke_stat(data, &st) == 0;
    if (!there && !stoke_is_absent(errno))
        r = stk_fail_errno(err, STOKE_E_IO, errno, "%s: cannot open", data);
    else if (there && S_ISDIR(st.st_mode))
        r = find_in_folder(data, arena, shards, err);
    else if (there)
        r = ends_with(data, ".tar") || is_compressed(data)
                ? add(shards, arena, data, err)
                : stk_fail(err, STOKE_E_INVALID, "%s: is neither a folder nor a .tar file", data);
    else if (strchr(data, '{') && strchr(data, '}'))
        r = stk_shards_expand(data, arena, shards, err);
    else if (strpbrk(data, "*?[") && ends_with(data, ".tar"))
        r = match(data, arena, shards, err);
    else if (ends_with(data, ".tar"))
        r = stk_fail_errno(err, STOKE_E_NOTFOUND, ENOENT, "%s: cannot open", data);
    if (r != STOKE_OK) stk_free(shards->items), *shards = (stk_shard_list){ 0 };
    return r;
}

int stk_shards_parts(const stk_shard_list *shards, stk_layout_part parts[STK_MAX_PARTS], size_t *n_parts,
                     stoke_error *err)
{
    static const char *const prefix[] = { "", "train/", "val/" };
    const char *first[3] = { 0 };
    for (size_t i = shards->count; i-- > 0;) first[shards->items[i].split] = shards->items[i].path;
    const char *marked = first[STOKE_SPLIT_TRAIN] ? first[STOKE_SPLIT_TRAIN] : first[STOKE_SPLIT_VAL];
    if (first[STOKE_SPLIT_ALL] && marked)
        return stk_fail(err, STOKE_E_INVALID,
                        "%s says by its name which part it belongs to, %s does not: name the shards "
                        "of one part, e.g. by a pattern",
                        marked, first[STOKE_SPLIT_ALL]);
    *n_parts = 0;
    for (int split = 0; split < 3; split++)
        if (first[split])
            parts[(*n_parts)++] = (stk_layout_part){ .images = first[split],
                                                     .prefix = prefix[split],
                                                     .split = (stoke_split)split };
    return STOKE_OK;
}
