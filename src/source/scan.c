/* SPDX-License-Identifier: Apache-2.0 */
#include "src/source/dataset_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <stoke/tools/image.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/base/remarks.h"
#include "src/base/retry.h"
#include "src/base/rng.h"
#include "src/base/words.h"

static int is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Moves *at past a run of digits. Returns where its significant digits start, and in *digits how many there
 * are. */
static size_t number_at(const char *text, size_t length, size_t *at, size_t *digits)
{
    size_t i = *at;
    while (i < length && text[i] == '0') i++;
    size_t start = i;
    while (i < length && is_digit(text[i])) i++;
    *digits = i - start;
    *at = i;
    return start;
}

int stk_natural_compare(const char *a, size_t a_length, const char *b, size_t b_length)
{
    size_t i = 0, j = 0;
    int zeros = 0; /* the first difference in leading zeros, kept for a tie */
    while (i < a_length && j < b_length) {
        if (is_digit(a[i]) && is_digit(b[j])) {
            size_t a_begin = i, b_begin = j, a_digits, b_digits;
            size_t a_start = number_at(a, a_length, &i, &a_digits),
                   b_start = number_at(b, b_length, &j, &b_digits);
            if (a_digits != b_digits) return a_digits < b_digits ? -1 : 1;
            int order = memcmp(a + a_start, b + b_start, a_digits);
            if (order) return order;
            size_t a_zeros = a_start - a_begin, b_zeros = b_start - b_begin;
            if (!zeros && a_zeros != b_zeros) zeros = a_zeros < b_zeros ? -1 : 1;
        } else {
            if (a[i] != b[j]) return (unsigned char)a[i] < (unsigned char)b[j] ? -1 : 1;
            i++, j++;
        }
    }
    if (i < a_length || j < b_length) return i < a_length ? 1 : -1;
    return zeros;
}

/* Bytes stand for themselves. A number becomes one byte for its count of significant digits ('0' + count, so
 * that it keeps its place among other bytes) and then the digits; from nine digits on the key ends there. */
uint64_t stk_natural_key(const char *text, size_t length)
{
    unsigned char bytes[8] = { 0 };
    size_t used = 0, at = 0;
    while (used < sizeof bytes && at < length) {
        if (!is_digit(text[at])) {
            bytes[used++] = (unsigned char)text[at++];
            continue;
        }
        size_t digits, start = number_at(text, length, &at, &digits);
        bytes[used++] = (unsigned char)('0' + (digits < 9 ? digits : 9));
        if (digits >= 9) break;
        for (size_t i = 0; i < digits && used < sizeof bytes; i++)
            bytes[used++] = (unsigned char)text[start + i];
    }
    uint64_t key = 0;
    for (size_t i = 0; i < sizeof bytes; i++) key = key << 8 | bytes[i];
    return key;
}

enum { MAX_DEPTH = 64 };

int stk_folder_identify(const char *path, stk_scan_folder_id *id, stoke_error *err)
{
    struct stat st;
    if (stoke_stat(path, &st) != 0)
        return stk_fail_errno(err, errno == ENOENT ? STOKE_E_NOTFOUND : STOKE_E_IO, errno,
                              "%s: cannot open folder", path);
    if (!S_ISDIR(st.st_mode)) return stk_fail(err, STOKE_E_INVALID, "%s: is not a folder", path);
    *id = (stk_scan_folder_id){ st.st_dev, st.st_ino };
    return STOKE_OK;
}

size_t stk_stem_length(const char *path, size_t length)
{
    for (size_t i = length; i > 1 && path[i - 1] != '/'; i--)
        if (path[i - 1] == '.') return path[i - 2] == '/' ? length : i - 1;
    return length;
}

/* What people have pictures and masks in and no decoder here reads. Other files (lists, notes, weights) are
 * nobody's sample. */
static const char *const unread_endings[STK_SCAN_ENDINGS] = { ".bmp",  ".gif", ".heic", ".heif",
                                                              ".avif", ".jp2", ".jxl",  ".ppm",
                                                              ".pgm",  ".pnm", ".tga",  ".exr",
                                                              ".npy",  ".npz", ".dcm",  ".nii" };

static void count_unread(stk_scan_unread *unread, const char *name)
{
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < STK_SCAN_ENDINGS; i++)
        unread->count[i] += !strcasecmp(dot, unread_endings[i]);
}

const char *stk_scan_unread_text(const stk_scan_unread *unread, char *text, size_t size)
{
    text[0] = 0;
    for (size_t i = 0; i < STK_SCAN_ENDINGS; i++)
        if (unread->count[i])
            stk_text_add(text, size, ", ", "%llu %s", (unsigned long long)unread->count[i],
                         unread_endings[i]);
    return text;
}

enum entry_kind { ENTRY_FILE, ENTRY_FOLDER, ENTRY_OTHER };

/* d_type spares a system call per file (a million of them in a large set) where the file system fills it. */
static enum entry_kind kind_of(int folder, const struct dirent *entry)
{
    struct stat st;
    if (entry->d_type == DT_REG) return ENTRY_FILE;
    if (entry->d_type == DT_DIR) return ENTRY_FOLDER;
    if (entry->d_type != DT_LNK && entry->d_type != DT_UNKNOWN) return ENTRY_OTHER;
    /* A link that leads nowhere stays in the set: reading it will say why, skipping it here would not. */
    if (stk_fstatat(folder, entry->d_name, &st, 0) != 0) return ENTRY_FILE;
    return S_ISREG(st.st_mode) ? ENTRY_FILE : S_ISDIR(st.st_mode) ? ENTRY_FOLDER : ENTRY_OTHER;
}

/* What one reading of a folder is for. */
typedef struct walk {
    stk_string_arena *arena;
    stk_scan_file_list *found; /* NULL: only has_files is wanted */
    size_t root_length;        /* of the root and its slash: where stems start */
    const stk_scan_folder_id *skip;
    stk_scan_folder_id
        *seen; /* open-addressed set, seen_size is a power of two; node 0 = free (no inode is 0) */
    size_t n_seen, seen_size;
    int has_files;
    stk_scan_unread *unread;
    char path[PATH_MAX]; /* of the folder being read */
    stoke_error *err;
} walk;

static int out_of_memory(walk *w)
{
    return stk_fail(w->err, STOKE_E_NOMEM, "%s: no memory for the list of files", w->path);
}

static size_t seen_slot(const walk *w, stk_scan_folder_id id)
{
    size_t mask = w->seen_size - 1, i = (size_t)stk_mix64(id.node + stk_mix64(id.device)) & mask;
    while (w->seen[i].node && (w->seen[i].node != id.node || w->seen[i].device != id.device))
        i = (i + 1) & mask;
    return i;
}

static int grow_seen(walk *w)
{
    walk larger = { .seen_size = w->seen_size ? w->seen_size * 2 : 64 };
    larger.seen = stk_calloc(larger.seen_size, sizeof *larger.seen);
    if (!larger.seen) return out_of_memory(w);
    for (size_t i = 0; i < w->seen_size; i++)
        if (w->seen[i].node) larger.seen[seen_slot(&larger, w->seen[i])] = w->seen[i];
    stk_free(w->seen);
    w->seen = larger.seen;
    w->seen_size = larger.seen_size;
    return STOKE_OK;
}

/* *fresh = 1 when the folder is to be walked: not left out and not met before. */
static int first_visit(walk *w, const struct stat *st, int *fresh)
{
    stk_scan_folder_id id = { st->st_dev, st->st_ino };
    *fresh = 0;
    if (w->skip && w->skip->device == id.device && w->skip->node == id.node) return STOKE_OK;
    if (2 * (w->n_seen + 1) > w->seen_size && grow_seen(w) != STOKE_OK) return STOKE_E_NOMEM;
    size_t slot = seen_slot(w, id);
    if (w->seen[slot].node) return STOKE_OK;
    w->seen[slot] = id;
    w->n_seen++;
    *fresh = 1;
    return STOKE_OK;
}

static int add_file(walk *w, size_t length, const char *name)
{
    size_t n = strlen(name), total = length + 1 + n;
    if (total >= PATH_MAX)
        return stk_fail(w->err, STOKE_E_LIMIT, "%s/%s: the path is too long", w->path, name);
    if (!stk_grow((void **)&w->found->items, &w->found->capacity, w->found->count + 1,
                  sizeof *w->found->items))
        return out_of_memory(w);
    /* The slash and the name go behind the folder's path for the moment of the copy. */
    w->path[length] = '/';
    memcpy(w->path + length + 1, name, n + 1);
    char *path = stk_string_arena_copy(w->arena, w->path, total);
    w->path[length] = 0;
    if (!path) return out_of_memory(w);
    w->found->items[w->found->count++] = (stk_scan_file){
        .path = path,
        .stem = (uint16_t)w->root_length,
        .stem_length = (uint16_t)(stk_stem_length(path, total) - w->root_length),
    };
    return STOKE_OK;
}

/* Reads one folder: files are added, the names of folders go to `folders`. The handle is closed before
 * anything deeper is opened, so that one is enough for any depth. */
static int read_folder(walk *w, size_t length, stk_scan_name_list *folders)
{
    DIR *handle = stoke_opendir(w->path);
    if (!handle) return stk_fail_errno(w->err, STOKE_E_IO, errno, "%s: cannot open folder", w->path);
    int r = STOKE_OK, fresh = 0;
    struct dirent *entry;
    struct stat st;
    if (stoke_fstat(dirfd(handle), &st) != 0)
        r = stk_fail_errno(w->err, STOKE_E_IO, errno, "%s: cannot stat", w->path);
    else
        r = first_visit(w, &st, &fresh);
    errno = 0;
    while (r == STOKE_OK && fresh && (entry = stoke_readdir(handle))) {
        if (entry->d_name[0] == '.') continue;
        int known = stoke_format_known_extension(entry->d_name);
        if (!known && entry->d_type != DT_DIR) count_unread(w->unread, entry->d_name);
        if (!known && entry->d_type == DT_REG) continue;
        enum entry_kind kind = kind_of(dirfd(handle), entry);
        if (kind == ENTRY_FILE && known) {
            w->has_files = 1;
            if (w->found) r = add_file(w, length, entry->d_name);
        } else if (kind == ENTRY_FOLDER) {
            const char *name = stk_string_arena_copy(w->arena, entry->d_name, strlen(entry->d_name));
            if (!name || !stk_grow((void **)&folders->items, &folders->capacity, folders->count + 1,
                                   sizeof *folders->items))
                r = out_of_memory(w);
            else
                folders->items[folders->count++] = name;
        }
    }
    if (r == STOKE_OK && errno)
        r = stk_fail_errno(w->err, STOKE_E_IO, errno, "%s: cannot read folder", w->path);
    closedir(handle);
    /* Sorted, so that of two links to one folder the same one is walked on every machine. */
    if (folders->count) qsort(folders->items, folders->count, sizeof *folders->items, stk_by_text);
    return r;
}

static int walk_folder(walk *w, size_t length, unsigned depth)
{
    if (depth > MAX_DEPTH)
        return stk_fail(w->err, STOKE_E_LIMIT, "%s: nested deeper than %d folders", w->path, MAX_DEPTH);
    stk_scan_name_list folders = { 0 };
    int r = read_folder(w, length, &folders);
    for (size_t i = 0; r == STOKE_OK && i < folders.count; i++) {
        size_t n = strlen(folders.items[i]);
        if (length + 1 + n >= PATH_MAX) {
            r = stk_fail(w->err, STOKE_E_LIMIT, "%s/%s: the path is too long", w->path, folders.items[i]);
            break;
        }
        w->path[length] = '/';
        memcpy(w->path + length + 1, folders.items[i], n + 1);
        r = walk_folder(w, length + 1 + n, depth + 1);
        w->path[length] = 0;
    }
    stk_free(folders.items);
    return r;
}

/* Walks `root`, or (`names`) lists the folders in it only. */
static int walk_from(walk *w, const char *root, stk_scan_name_list *names)
{
    size_t n = strlen(root);
    while (n > 1 && root[n - 1] == '/') n--;
    if (n >= PATH_MAX) return stk_fail(w->err, STOKE_E_LIMIT, "%.200s...: the path is too long", root);
    memcpy(w->path, root, n);
    w->path[n] = 0;
    w->root_length = n + 1;
    const int r = names ? read_folder(w, n, names) : walk_folder(w, n, 0);
    stk_free(w->seen);
    return r;
}

int stk_scan(const char *root, const stk_scan_folder_id *skip, stk_string_arena *arena,
             stk_scan_file_list *found, stoke_error *err)
{
    walk w = { .arena = arena, .found = found, .skip = skip, .unread = &found->unread, .err = err };
    return walk_from(&w, root, NULL);
}

int stk_list_folders(const char *path, stk_string_arena *arena, stk_scan_name_list *names, int *has_files,
                     stoke_error *err)
{
    walk w = { .arena = arena, .unread = &names->unread, .err = err };
    const int r = walk_from(&w, path, names);
    *has_files = w.has_files;
    return r;
}

/* Sorting the files of a folder. Comparing paths means waiting for memory twice per comparison; a key of
 * eight bytes beside the index decides nearly all of them. Opening a million shuffled pairs: 5.4 -> 3.6 s of
 * CPU time (medians of 3, busy machine).
 */

typedef struct keyed {
    uint64_t key;
    const stk_scan_file *file;
} keyed;

int stk_found_compare(const stk_scan_file *a, const stk_scan_file *b)
{
    int order = stk_natural_compare(stk_found_stem(a), a->stem_length, stk_found_stem(b), b->stem_length);
    return order ? order : strcmp(a->path, b->path);
}

static int by_key(const void *a, const void *b)
{
    const keyed *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return stk_found_compare(x->file, y->file);
}

/* How much all stems begin with, not counting digits at its end: they may be a part of longer numbers. */
static size_t common_prefix(const stk_scan_file_list *found)
{
    const stk_scan_file *first = &found->items[0];
    const char *stem = stk_found_stem(first);
    size_t common = first->stem_length;
    for (size_t i = 1; i < found->count && common; i++) {
        const stk_scan_file *other = &found->items[i];
        if (other->stem_length < common) common = other->stem_length;
        for (size_t k = 0; k < common; k++)
            if (stk_found_stem(other)[k] != stem[k]) common = k;
    }
    while (common && stem[common - 1] >= '0' && stem[common - 1] <= '9') common--;
    return common;
}

int stk_found_sort(stk_scan_file_list *found)
{
    if (found->count < 2) return 1;
    keyed *order = stk_calloc(found->count, sizeof *order);
    stk_scan_file *sorted = stk_calloc(found->count, sizeof *sorted);
    if (order && sorted) {
        size_t common = common_prefix(found);
        for (size_t i = 0; i < found->count; i++) {
            const stk_scan_file *file = &found->items[i];
            order[i].key = stk_natural_key(stk_found_stem(file) + common, file->stem_length - common);
            order[i].file = file;
        }
        qsort(order, found->count, sizeof *order, by_key);
        for (size_t i = 0; i < found->count; i++) sorted[i] = *order[i].file;
        memcpy(found->items, sorted, found->count * sizeof *sorted);
    }
    int good = order && sorted;
    stk_free(order);
    stk_free(sorted);
    return good;
}
