/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening a set: settings -> parts or list -> samples -> split.
 */
#include "src/source/dataset_internal.h"

#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <stoke/tools/terminal.h>
#include <string.h>
#include <xxhash.h>
#include <stoke/tools/dataset.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/source/dataset.h"

int stk_dataset_no_memory(stoke_error *err)
{
    return stk_fail(err, STOKE_E_NOMEM, "no memory for the list of samples");
}

int stk_dataset_add_sample(stoke_dataset *dataset, const stoke_sample *sample, stoke_error *err)
{
    if (!stk_grow((void **)&dataset->samples, &dataset->capacity, dataset->count + 1,
                  sizeof *dataset->samples))
        return stk_dataset_no_memory(err);
    dataset->samples[dataset->count++] = *sample;
    return STOKE_OK;
}

int stk_dataset_add(stoke_dataset *dataset, const char *name, const char *image, const char *partner,
                    stoke_error *err)
{
    const char *mask = dataset->restores ? NULL : partner, *target = dataset->restores ? partner : NULL;
    const stoke_sample sample = {
        .name = name,
        .image_path = image,
        .mask_path = mask,
        .image = { image, 0, UINT64_MAX },
        .mask = { mask, 0, UINT64_MAX },
        .target_path = target,
        .target = { target, 0, UINT64_MAX },
    };
    return stk_dataset_add_sample(dataset, &sample, err);
}

int stk_dataset_remark(stoke_dataset *dataset, stoke_error *err, stoke_note_kind kind, const char *path,
                       const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const char *detail =
        strchr(format, '%') ? stk_string_arena_vprint(&dataset->arena, format, args) : format;
    va_end(args);
    if (!path || !detail ||
        !stk_grow((void **)&dataset->notes, &dataset->notes_capacity, dataset->n_notes + 1,
                  sizeof *dataset->notes))
        return stk_dataset_no_memory(err);
    dataset->notes[dataset->n_notes++] = (stoke_note){ kind, path, detail };
    return STOKE_OK;
}

static int by_name(const void *a, const void *b)
{
    const stoke_sample *x = a, *y = b;
    int order = stk_natural_compare(x->name, strlen(x->name), y->name, strlen(y->name));
    return order ? order : strcmp(x->image_path, y->image_path);
}

int stk_dataset_settle(stoke_dataset *dataset, size_t from, stoke_error *err)
{
    stoke_sample *s = dataset->samples;
    size_t n = dataset->count, kept = from;
    if (n > from) qsort(s + from, n - from, sizeof *s, by_name);
    int twin_before = 0;
    for (size_t i = from; i < n; i++) {
        int twin_after = i + 1 < n && strcmp(s[i].name, s[i + 1].name) == 0;
        if (twin_before || twin_after) {
            const char *other = twin_before ? s[i - 1].image_path : s[i + 1].image_path;
            int r = stk_dataset_remark(dataset, err, STOKE_NOTE_DUPLICATE, s[i].image_path, "same name as %s",
                                       other);
            if (r != STOKE_OK) return r;
        }
        int keep = !twin_before && !twin_after;
        twin_before = twin_after;
        /* s[i - 1] is still read for the next twin's detail: kept entries only move down */
        if (keep) s[kept++] = s[i];
    }
    dataset->count = kept;
    return STOKE_OK;
}

static int given(const char *text)
{
    return text && *text;
}

/* What contradicts before the set is looked at. */
static int check_task(const stoke_data_params *p, stoke_error *err)
{
    if (p->task < STOKE_TASK_AUTO || p->task > STOKE_TASK_RESTORE)
        return stk_fail(err, STOKE_E_INVALID, "task must be auto, segment or restore");
    if (p->scale < 1 || p->scale > 4) return stk_fail(err, STOKE_E_INVALID, "scale must be 1 to 4");
    if (given(p->masks) && given(p->targets))
        return stk_fail(err, STOKE_E_INVALID,
                        "give masks (task segment) or targets (task restore), not both");
    if (p->task == STOKE_TASK_SEGMENT && given(p->targets))
        return stk_fail(err, STOKE_E_INVALID, "targets are for task restore, and `task` is segment");
    if (p->task == STOKE_TASK_RESTORE && given(p->masks))
        return stk_fail(err, STOKE_E_INVALID,
                        "masks are for task segment, and `task` is restore: give `targets`");
    if (p->task == STOKE_TASK_RESTORE && given(p->images) && !given(p->targets))
        return stk_fail(
            err, STOKE_E_INVALID,
            "`task` restore needs targets, the pictures that the images should become: give their "
            "folder by `targets`");
    return STOKE_OK;
}

static int check_params(const stoke_data_params *p, stoke_error *err)
{
    if (p->struct_size != sizeof *p) return stk_fail_struct(err, "stoke_data_defaults");
    if (given(p->data) + given(p->images) + given(p->list) != 1)
        return stk_fail(err, STOKE_E_INVALID, "give exactly one of data, images and list%s",
                        given(p->data) + given(p->images) + given(p->list) ? "" : " (none is given)");
    if ((given(p->masks) || given(p->targets)) && !given(p->images))
        return stk_fail(err, STOKE_E_INVALID, "%s goes with images only, not with %s",
                        given(p->masks) ? "masks" : "targets", given(p->data) ? "data" : "list");
    const int r = check_task(p, err);
    if (r) return r;
    if (!(p->val_split >= 0 && p->val_split <= 1))
        return stk_fail(err, STOKE_E_INVALID, "val_split must be between 0 and 1");
    if (p->split < STOKE_SPLIT_ALL || p->split > STOKE_SPLIT_TEST)
        return stk_fail(err, STOKE_E_INVALID, "split must be all, train, val or test");
    if (p->split == STOKE_SPLIT_TEST && !given(p->data))
        return stk_fail(
            err, STOKE_E_INVALID,
            "`split` test is the test folder of a set that is given by `data`: give that, or leave "
            "`split` out");
    const char *paths[] = { p->data, p->images, p->masks, p->targets, p->list };
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        if (paths[i] && strlen(paths[i]) >= PATH_MAX)
            return stk_fail(err, STOKE_E_LIMIT, "%.200s...: the path is too long", paths[i]);
    return STOKE_OK;
}

/* The set's own val folder (or shards) decides alone; *split is what is then left for the hash to do. */
static int choose_parts(const stoke_data_params *p, const char *root, int shards, stk_layout_part *parts,
                        size_t *n_parts, int *split, stoke_error *err)
{
    int own = 0;
    for (size_t i = 0; i < *n_parts; i++) own |= parts[i].split == STOKE_SPLIT_VAL;
    if (!own || *n_parts < 2) return STOKE_OK;
    if (p->val_split > 0)
        return stk_fail(err, STOKE_E_INVALID, "%s has its own val %s (%s): set val_split to 0%s", root,
                        shards ? "shards" : "folder", parts[1].images,
                        shards ? "" : ", or give images and masks");
    *split = STOKE_SPLIT_ALL;
    size_t kept = 0;
    for (size_t i = 0; i < *n_parts; i++)
        if (p->split == STOKE_SPLIT_ALL || (int)parts[i].split == p->split) parts[kept++] = parts[i];
    *n_parts = kept;
    return STOKE_OK;
}

/* Reads the parts of folders, or of shards where there are any. */
static int fill_from_parts(stoke_dataset *dataset, const stoke_data_params *p, const stk_shard_list *shards,
                           const stk_layout_part *parts, size_t n_parts, stoke_error *err)
{
    int r = STOKE_OK, masks = 0;
    for (size_t i = 0; r == STOKE_OK && i < n_parts; i++) {
        dataset->paired = parts[i].masks != NULL;
        dataset->prefixed = *parts[i].prefix != 0;
        /* names are sorted within a part, and "train/" comes before "val/" */
        r = shards->count
                ? stk_shards_read(dataset, shards, &parts[i], err)
                : stk_match_part(dataset, &parts[i], p->image_suffix, p->mask_suffix, p->scale, err);
        if (i == 0) masks = dataset->paired;
        if (r == STOKE_OK && dataset->paired != masks)
            r = stk_fail(err, STOKE_E_INVALID, "%s: one of %s and %s has masks, the other has none", p->data,
                         parts[0].images, parts[i].images);
    }
    return r;
}

/* Folders, without shards: the test part alone, or the others, with a note where there is one. */
static int find_folders(stoke_dataset *dataset, const stoke_data_params *p, stk_layout_part *parts,
                        size_t *n_parts, int *split, stoke_error *err)
{
    stk_layout_part test;
    stoke_task task = (stoke_task)p->task;
    int r;
    if (p->split == STOKE_SPLIT_TEST) {
        *n_parts = 1;
        *split = STOKE_SPLIT_ALL;
        r = stk_layout_find_test(p->data, &task, &dataset->arena, &parts[0], err);
        dataset->restores = task == STOKE_TASK_RESTORE;
        return r;
    }
    r = stk_layout_find(p->data, &task, &dataset->arena, parts, n_parts, err);
    dataset->restores = task == STOKE_TASK_RESTORE;
    if (task == STOKE_TASK_AUTO) task = STOKE_TASK_SEGMENT;
    /* One that is odd is told to who asks for it. */
    if (r || stk_layout_find_test(p->data, &task, &dataset->arena, &test, NULL)) return r;
    dataset->test = test.images;
    for (size_t i = 0; i < *n_parts; i++) {
        const size_t n = strlen(parts[i].images);
        const int within = !strncmp(test.images, parts[i].images, n) && strchr("/", test.images[n]);
        if (within) dataset->test = NULL; /* it is read with the rest */
    }
    return r;
}

static int fill_from_folders(stoke_dataset *dataset, const stoke_data_params *p, int *split, stoke_error *err)
{
    const char *partners = given(p->targets) ? p->targets : given(p->masks) ? p->masks : NULL;
    stk_layout_part parts[STK_MAX_PARTS] = { { .images = p->images, .masks = partners, .prefix = "" } };
    stk_shard_list shards = { 0 };
    size_t n_parts = 1;
    int r = STOKE_OK;
    if (given(p->data)) {
        r = stk_shards_find(p->data, &dataset->arena, &shards, err);
        if (r == STOKE_OK && shards.count && p->task == STOKE_TASK_RESTORE)
            r = stk_fail(
                err, STOKE_E_UNSUPPORTED,
                "%s: tar shards hold images and masks, and no targets: `task` restore reads folders (by "
                "`data`, or by `images` and `targets`) and lists",
                p->data);
        if (r == STOKE_OK && shards.count && p->split == STOKE_SPLIT_TEST)
            r = stk_fail(
                err, STOKE_E_INVALID,
                "%s: `split` test is for folders; of shards `data` names those to read, by a pattern",
                p->data);
        if (r == STOKE_OK)
            r = shards.count ? stk_shards_parts(&shards, parts, &n_parts, err)
                             : find_folders(dataset, p, parts, &n_parts, split, err);
        if (r == STOKE_OK) r = choose_parts(p, p->data, shards.count > 0, parts, &n_parts, split, err);
    }
    if (r == STOKE_OK) r = fill_from_parts(dataset, p, &shards, parts, n_parts, err);
    stk_free(shards.items);
    return r;
}

static int is_in(const stoke_sample *sample, const stoke_data_params *p, double share, int split)
{
    const int val = stk_split_is_val(sample->name, strlen(sample->name), share, p->split_seed);
    return val == (split == STOKE_SPLIT_VAL);
}

/* The hash decides by names, so of few samples a small share may take none: the nearest of 0.05, 0.1, ...
 * that leaves one in this part. 0: none does. */
static double share_that_would_do(const stoke_dataset *dataset, size_t all, const stoke_data_params *p,
                                  int split)
{
    const int up = split == STOKE_SPLIT_VAL;
    for (int twentieth = up ? 1 : 19; twentieth > 0 && twentieth < 20; twentieth += up ? 1 : -1) {
        const double share = twentieth / 20.0;
        for (size_t i = 0; i < all; i++)
            if (is_in(&dataset->samples[i], p, share, split)) return share;
    }
    return 0;
}

static int none_in_split(const stoke_dataset *dataset, size_t all, const stoke_data_params *p, int split,
                         stoke_error *err)
{
    const double share = share_that_would_do(dataset, all, p, split);
    stk_fail(err, STOKE_E_NOTFOUND, "none of %s is in split %s with `val_split` %g",
             STOKE_COUNT(all, "sample"), split == STOKE_SPLIT_VAL ? "val" : "train", p->val_split);
    if (!(p->val_split > 0))
        stk_error_add(err, "; set `val_split`, e.g. to %g", share > 0.1 ? share : 0.1);
    else if (share > 0)
        stk_error_add(err, ", which goes by a hash of their names; %g would do", share);
    return STOKE_E_NOTFOUND;
}

static int apply_split(stoke_dataset *dataset, const stoke_data_params *p, int split, stoke_error *err)
{
    if (split == STOKE_SPLIT_ALL) return STOKE_OK;
    const size_t all = dataset->count;
    size_t kept = 0;
    for (size_t i = 0; i < all; i++)
        if (is_in(&dataset->samples[i], p, p->val_split, split))
            dataset->samples[kept++] = dataset->samples[i];
    dataset->count = kept;
    return kept ? STOKE_OK : none_in_split(dataset, all, p, split, err);
}

static void take_fingerprint(stoke_dataset *dataset)
{
    dataset->fingerprint = 0;
    for (size_t i = 0; i < dataset->count; i++) {
        const char *name = dataset->samples[i].name;
        dataset->fingerprint = XXH3_64bits_withSeed(name, strlen(name), dataset->fingerprint);
    }
}

void stoke_dataset_thin(stoke_dataset *dataset, uint64_t count)
{
    if (!count || count >= dataset->count) return;
    for (uint64_t i = 0; i < count; i++)
        dataset->samples[i] = dataset->samples[(size_t)((unsigned __int128)i * dataset->count / count)];
    dataset->count = (size_t)count;
    take_fingerprint(dataset);
}

int stoke_dataset_pick(stoke_dataset *dataset, const uint64_t *ids, uint64_t count, stoke_error *err)
{
    if (!count || count > dataset->count)
        return stk_fail(err, STOKE_E_INVALID, "%llu samples of %zu cannot be picked",
                        (unsigned long long)count, dataset->count);
    for (uint64_t i = 0; i < count; i++)
        if (ids[i] >= dataset->count)
            return stk_fail(err, STOKE_E_INVALID, "sample %llu cannot be picked: there are %zu",
                            (unsigned long long)ids[i], dataset->count);
    const size_t bytes = (size_t)count * sizeof *dataset->samples;
    stoke_sample *picked = stk_alloc(bytes);
    if (!picked) return stk_dataset_no_memory(err);
    for (uint64_t i = 0; i < count; i++) picked[i] = dataset->samples[ids[i]];
    memcpy(dataset->samples, picked, bytes);
    stk_free(picked);
    dataset->count = (size_t)count;
    take_fingerprint(dataset);
    return STOKE_OK;
}

int stoke_dataset_open(stoke_dataset **out, const stoke_data_params *params, stoke_error *err)
{
    *out = NULL;
    int r = check_params(params, err);
    if (r != STOKE_OK) return r;
    stoke_dataset *dataset = stk_calloc(1, sizeof *dataset);
    if (!dataset) return stk_dataset_no_memory(err);
    int split = params->split;
    dataset->restores = params->task == STOKE_TASK_RESTORE || given(params->targets);
    r = given(params->list) ? stk_list_read(dataset, params->list, err)
                            : fill_from_folders(dataset, params, &split, err);
    if (r == STOKE_OK && dataset->count == 0)
        r = stk_fail(err, STOKE_E_NOTFOUND, "every sample shares its name with another, and was left out");
    if (r == STOKE_OK && !dataset->restores && params->scale != 1)
        r = stk_fail(
            err, STOKE_E_INVALID,
            "`scale` %lld is that of targets, and these samples have none: set `task` restore and give "
            "`targets`, or leave `scale` out",
            (long long)params->scale);
    if (r == STOKE_OK) r = apply_split(dataset, params, split, err);
    if (r != STOKE_OK) {
        stoke_dataset_close(&dataset);
        return r;
    }
    /* What is not used any more after matching and split goes back. Failing to shrink is no failure. */
    void *smaller = stk_realloc(dataset->samples, dataset->count * sizeof *dataset->samples);
    if (smaller) {
        dataset->samples = smaller;
        dataset->capacity = dataset->count;
    }
    take_fingerprint(dataset);
    *out = dataset;
    return STOKE_OK;
}

void stoke_dataset_close(stoke_dataset **dataset)
{
    if (!dataset || !*dataset) return;
    stk_string_arena_free(&(*dataset)->arena);
    stk_free((*dataset)->samples);
    stk_free((*dataset)->notes);
    stk_free(*dataset);
    *dataset = NULL;
}

uint64_t stoke_dataset_count(const stoke_dataset *dataset)
{
    return dataset->count;
}

int stoke_dataset_has_masks(const stoke_dataset *dataset)
{
    return dataset->paired && !dataset->restores;
}

int stoke_dataset_has_targets(const stoke_dataset *dataset)
{
    return dataset->restores;
}

stoke_sample stoke_dataset_sample(const stoke_dataset *dataset, uint64_t id)
{
    return dataset->samples[id];
}

uint64_t stoke_dataset_fingerprint(const stoke_dataset *dataset)
{
    return dataset->fingerprint;
}

const char *stoke_dataset_unread(const stoke_dataset *dataset, char *text, size_t size)
{
    return stk_scan_unread_text(&dataset->unread, text, size);
}

size_t stoke_dataset_notes(const stoke_dataset *dataset)
{
    return dataset->n_notes;
}

stoke_note stoke_dataset_note(const stoke_dataset *dataset, size_t index)
{
    return dataset->notes[index];
}

int stk_dataset_has_parts(const stoke_dataset *all)
{
    int train = 0, val = 0;
    for (size_t i = 0; all->prefixed && i < all->count; i++) {
        train |= !strncmp(all->samples[i].name, "train/", 6);
        val |= !strncmp(all->samples[i].name, "val/", 4);
    }
    return train && val;
}

int stk_split_is_val(const char *name, size_t length, double part, int64_t seed)
{
    if (!(part > 0)) return 0;
    if (part >= 1) return 1;
    /* Exact for every double below 1: scaling by a power of two only moves the exponent. */
    return XXH3_64bits_withSeed(name, length, (uint64_t)seed) < (uint64_t)(part * 0x1p64);
}
