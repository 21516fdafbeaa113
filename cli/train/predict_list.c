/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/train/predict_list.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "cli/lib/common.h"
#include "cli/lib/output.h"

/* ---- what is left out ---- */

enum { ENDINGS = 16, DEEPEST = 32 };

typedef struct skipped {
    struct {
        char ending[16];
        uint64_t count;
    } kind[ENDINGS];
    size_t n;
    uint64_t others; /* without an ending, or of a kind too many */
} skipped;

static void count_file(skipped *s, const char *name)
{
    const char *ending = strrchr(name, '.');
    size_t i = 0;
    if (stoke_format_known_extension(name)) return;
    if (!ending || ending == name || strlen(ending) >= sizeof s->kind[0].ending) i = ENDINGS;
    while (i < s->n && strcasecmp(s->kind[i].ending, ending)) i++;
    if (i >= ENDINGS) {
        s->others++;
        return;
    }
    if (i == s->n) strcpy(s->kind[s->n++].ending, ending);
    s->kind[i].count++;
}

/* Links are not followed: a circle of them would have no end. */
static void count_folder(skipped *s, const char *folder, int depth)
{
    DIR *dir = depth < DEEPEST ? stoke_opendir(folder) : NULL;
    for (struct dirent *entry; dir && !cli_interrupted() && (entry = stoke_readdir(dir));) {
        char path[CLI_PATH];
        struct stat st;
        if (*entry->d_name == '.') continue;
        if (snprintf(path, sizeof path, "%s/%s", folder, entry->d_name) >= (int)sizeof path) continue;
        if (stoke_lstat(path, &st)) continue;
        if (S_ISDIR(st.st_mode)) count_folder(s, path, depth + 1);
        if (S_ISREG(st.st_mode)) count_file(s, entry->d_name);
    }
    if (dir) closedir(dir);
}

void predict_say_skipped(const cli_call *call, const char *const *folders, int count)
{
    skipped s = { 0 };
    char text[512] = "";
    int n = 0;
    struct stat st;
    if (call->common.quiet) return;
    for (int i = 0; i < count; i++)
        if (stoke_stat(folders[i], &st) == 0 && S_ISDIR(st.st_mode)) count_folder(&s, folders[i], 0);
    for (size_t i = 0; i < s.n && n < (int)sizeof text; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, "%s%llu %s", i ? ", " : "",
                      (unsigned long long)s.kind[i].count, s.kind[i].ending);
    if (s.others && n < (int)sizeof text)
        snprintf(text + n, sizeof text - (size_t)n, "%s%s", n ? ", " : "", STOKE_COUNT(s.others, "other"));
    if (*text) cli_say(call, "left out, as " STOKE_FORMATS_AND " are read: %s", text);
}

/* ---- the list ---- */

/* Takes a string from malloc; gives it back for reading. */
static const char *keep(predict_list *list, char *text)
{
    list->strings =
        cli_grow(list->strings, &list->strings_capacity, list->n_strings + 1, sizeof *list->strings);
    return list->strings[list->n_strings++] = text;
}

static const char *keep_part(predict_list *list, const char *text, size_t length)
{
    char *copy = cli_alloc(length + 1, 1);
    memcpy(copy, text, length);
    return keep(list, copy);
}

static void add(predict_list *list, const stoke_sample *file)
{
    list->files = cli_grow(list->files, &list->capacity, list->count + 1, sizeof *list->files);
    list->files[list->count++] = *file;
}

/* Where the last component of a path begins. */
static const char *last_component(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Length of a path without its extension. */
static size_t stem_length(const char *path)
{
    const char *name = last_component(path), *dot = strrchr(name, '.');
    return dot && dot != name ? (size_t)(dot - path) : strlen(path);
}

static void add_set(predict_list *list, stoke_dataset *set)
{
    list->sets = cli_grow(list->sets, &list->sets_capacity, list->n_sets + 1, sizeof *list->sets);
    list->sets[list->n_sets++] = set;
    for (uint64_t id = 0; id < stoke_dataset_count(set); id++) {
        const stoke_sample sample = stoke_dataset_sample(set, id);
        add(list, &sample);
    }
}

int predict_list_add_set(predict_list *list, const cli_call *call, const stoke_data_params *data,
                         stoke_error *err)
{
    stoke_dataset *set;
    int r = cli_open_dataset(call, data, &set, err);
    if (r == STOKE_E_NOTFOUND && data->task == STOKE_TASK_RESTORE) {
        stoke_data_params alone = *data; /* pictures that are yet to be restored have no targets */
        alone.task = STOKE_TASK_AUTO;
        alone.scale = 1;
        r = cli_open_dataset(call, &alone, &set, err);
    }
    if (!r) add_set(list, set);
    return r;
}

/* Shards; or a folder. One with images and masks (or targets) in it is a data set, and nobody wants masks of
 * masks. What is none is searched as a whole. */
static int add_samples(predict_list *list, const char *path, int shards, stoke_error *err)
{
    stoke_data_params as_set = stoke_data_defaults(), as_folder = as_set;
    stoke_dataset *set = NULL;
    as_set.data = path;
    as_folder.images = path;
    int r = stoke_dataset_open(&set, &as_set, err);
    if (!r && !shards && !stoke_dataset_has_masks(set) && !stoke_dataset_has_targets(set))
        stoke_dataset_close(&set);
    if (!set && !shards) r = stoke_dataset_open(&set, &as_folder, err);
    if (!r) add_set(list, set);
    return r;
}

int predict_list_add(predict_list *list, const char *path, stoke_error *err)
{
    struct stat st;
    const int there = stoke_stat(path, &st) == 0;
    if (cli_ends_with(path, ".tar")) return add_samples(list, path, 1, err); /* may be a pattern */
    if (!there && !stoke_is_absent(errno))
        return cli_error(err, STOKE_E_IO, "%s: cannot be looked at: %s", path, strerror(errno));
    if (!there) return cli_error(err, STOKE_E_NOTFOUND, "%s: there is no such file or folder", path);
    if (S_ISDIR(st.st_mode)) return add_samples(list, path, 0, err);
    const char *name = last_component(path);
    const stoke_sample file = { .name = keep_part(list, name, stem_length(name)),
                                .image_path = path,
                                .image = { .path = path, .size = UINT64_MAX } };
    add(list, &file);
    return STOKE_OK;
}

/* ---- names ---- */

/* While names are being settled. */
typedef struct entry {
    const char *name;
    const char *place; /* the path without links and dots; of a member of a shard as it is shown */
    size_t index;
    size_t parts;      /* components of the name */
    int ending, whole; /* the name has the file's ending; is all of the place */
} entry;

static int by_index(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    return (x->index > y->index) - (x->index < y->index);
}

static int by_place(const void *a, const void *b)
{
    const int order = strcmp(((const entry *)a)->place, ((const entry *)b)->place);
    return order ? order : by_index(a, b);
}

static int by_name(const void *a, const void *b)
{
    const int order = strcmp(((const entry *)a)->name, ((const entry *)b)->name);
    return order ? order : by_index(a, b);
}

/* Components of a name: 1 + its slashes. */
static size_t components(const char *name)
{
    size_t n = 1;
    for (; *name; name++) n += *name == '/';
    return n;
}

static int share_a_folder(const entry *group, size_t count)
{
    const size_t length = (size_t)(last_component(group->place) - group->place);
    for (size_t i = 1; i < count; i++)
        if ((size_t)(last_component(group[i].place) - group[i].place) != length ||
            memcmp(group[i].place, group->place, length) != 0)
            return 0;
    return 1;
}

/* Another name for one of several that are alike. What was added stays, and after all of the place, of which
 * there are no two, nothing can be: so this comes to an end, also for a.jpg, a.png, a.jpg.png and a.png.jpg.
 * 0: it has that already. */
static int rename_one(predict_list *list, entry *e, int in_one_folder)
{
    if (in_one_folder && !e->ending) {
        const char *ending = e->place + stem_length(e->place);
        char *name = cli_alloc(strlen(e->name) + strlen(ending) + 1, 1);
        sprintf(name, "%s%s", e->name, ending);
        e->name = keep(list, name);
        e->ending = 1;
    } else if (e->parts < components(e->place)) {
        const size_t length = e->ending ? strlen(e->place) : stem_length(e->place);
        size_t start = length, parts = ++e->parts;
        while (start > 0 && (e->place[start - 1] != '/' || --parts)) start--;
        e->name = keep_part(list, e->place + start, length - start);
    } else {
        if (e->whole) return 0;
        e->name = e->place;
        e->ending = e->whole = 1;
    }
    return 1;
}

/* Names of a group that is alike become longer by a folder; files of one folder get their endings instead.
 * Returns whether anything changed. */
static int lengthen_all(predict_list *list, entry *entries, size_t count)
{
    int changed = 0;
    qsort(entries, count, sizeof *entries, by_name);
    for (size_t i = 0, n; i < count; i += n) {
        entry *group = &entries[i];
        int new_endings = 0;
        for (n = 1; i + n < count && !strcmp(group->name, group[n].name); n++) continue;
        const int together = share_a_folder(group, n);
        for (size_t k = 0; k < n && together; k++) new_endings |= !group[k].ending;
        for (size_t k = 0; k < n && n > 1; k++)
            if (!new_endings || !group[k].ending) changed |= rename_one(list, &group[k], new_endings);
    }
    return changed;
}

void predict_list_settle(predict_list *list)
{
    entry *entries = cli_alloc(list->count, sizeof *entries);
    size_t count = 0;
    for (size_t i = 0; i < list->count; i++) {
        const stoke_sample *file = &list->files[i];
        char *real = file->image.size == UINT64_MAX ? realpath(file->image.path, NULL) : NULL;
        entries[i] = (entry){ .name = file->name,
                              .place = real ? keep(list, real) : file->image_path,
                              .index = i,
                              .parts = components(file->name) };
    }
    qsort(entries, list->count, sizeof *entries, by_place);
    for (size_t i = 0; i < list->count; i++)
        if (!i || strcmp(entries[i].place, entries[count - 1].place) != 0) entries[count++] = entries[i];
    list->twice = list->count - count;
    while (lengthen_all(list, entries, count)) continue;
    qsort(entries, count, sizeof *entries, by_index);
    for (size_t i = 0; i < count; i++) { /* an entry's index is never below its place */
        list->files[i] = list->files[entries[i].index];
        list->files[i].name = entries[i].name;
    }
    list->count = count;
    free(entries);
}

void predict_list_free(predict_list *list)
{
    for (size_t i = 0; i < list->n_sets; i++) stoke_dataset_close(&list->sets[i]);
    for (size_t i = 0; i < list->n_strings; i++) free(list->strings[i]);
    free(list->sets);
    free(list->strings);
    free(list->files);
    *list = (predict_list){ 0 };
}
