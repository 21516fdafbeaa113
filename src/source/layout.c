/* SPDX-License-Identifier: Apache-2.0 */
#include "src/source/dataset_internal.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "src/base/error.h"
#include "src/base/mem.h"

/* Folder names that belong together, compared without regard to case. A table of pairs rather than two lists
 * of words: PASCAL VOC has `Annotations` (boxes) beside `SegmentationClass`, and only the latter is meant. */
static const struct known_pair {
    const char *images, *masks;
    const char *image_suffix, *mask_suffix; /* what `auto` means in such a set */
} pairs[] = {
    { "images", "masks", NULL, NULL },
    { "images", "mask", NULL, NULL },
    { "images", "labels", NULL, NULL },
    { "images", "label", NULL, NULL },
    { "images", "annotations", NULL, NULL }, /* ADE20K, Oxford pets */
    { "images", "annotation", NULL, NULL },
    { "images", "ann", NULL, NULL },
    { "images", "gt", NULL, NULL },
    { "images", "groundtruth", NULL, NULL },
    { "images", "ground_truth", NULL, NULL },
    { "images", "segmentations", NULL, NULL },
    { "image", "mask", NULL, NULL },
    { "image", "masks", NULL, NULL },
    { "image", "label", NULL, NULL }, /* ISBI membranes as usually repackaged */
    { "image", "labels", NULL, NULL },
    { "image", "annotation", NULL, NULL },
    { "image", "gt", NULL, NULL },
    { "imgs", "masks", NULL, NULL }, /* Carvana as in the well-known U-Net repository */
    { "imgs", "labels", NULL, NULL },
    { "img", "mask", NULL, NULL },
    { "img", "masks", NULL, NULL },
    { "img", "label", NULL, NULL },
    { "img", "labels", NULL, NULL },
    { "img", "ann", NULL, NULL },
    { "img", "gt", NULL, NULL },
    { "JPEGImages", "SegmentationClass", NULL, NULL },
    { "leftImg8bit", "gtFine", "_leftImg8bit", "_gtFine_labelIds" }, /* Cityscapes */
};

/* The same for sets whose folder names carry the split themselves. */
struct split_pair {
    const char *images, *masks;
    stoke_split split;
};
#define SPLIT_PAIRS(word, split)                                                                             \
    { word, word "annot", split }, { word, word "_labels", split }, { word, word "_masks", split },          \
        { word "_images", word "_masks", split },                                                            \
    {                                                                                                        \
        word "_images", word "_labels", split                                                                \
    }
/* "annot": CamVid. */
static const struct split_pair split_pairs[] = { SPLIT_PAIRS("train", STOKE_SPLIT_TRAIN),
                                                 SPLIT_PAIRS("val", STOKE_SPLIT_VAL) };

/* Read when it is asked for, or where nothing else is: the test part of a set stands alone, or is left alone.
 */
static const struct split_pair test_pairs[] = { SPLIT_PAIRS("test", STOKE_SPLIT_TEST) };

static const struct split_word {
    const char *name;
    stoke_split split;
} split_words[] = {
    { "train", STOKE_SPLIT_TRAIN }, { "training", STOKE_SPLIT_TRAIN }, { "val", STOKE_SPLIT_VAL },
    { "valid", STOKE_SPLIT_VAL },   { "validation", STOKE_SPLIT_VAL },
};
static const struct split_word test_words[] = { { "test", STOKE_SPLIT_TEST },
                                                { "testing", STOKE_SPLIT_TEST } };

#define COUNT(table) (sizeof(table) / sizeof *(table))

/* A search in progress. Every layout found is recorded; more than one for the same part of the set is an
 * error. */
typedef struct search {
    const char *root;
    stk_string_arena *arena;
    stk_layout_part part[STK_SPLITS]; /* by stoke_split */
    int have[STK_SPLITS];
    stoke_error *err;
} search;

static int no_memory(search *s)
{
    return stk_fail(s->err, STOKE_E_NOMEM, "%s: no memory", s->root);
}

static int record(search *s, const stk_layout_part *part)
{
    int clash =
        s->have[part->split] || (part->split == STOKE_SPLIT_ALL ? s->have[1] || s->have[2] : s->have[0]);
    if (clash) {
        const stk_layout_part *other = &s->part[part->split];
        for (int i = 0; i < STK_SPLITS && !s->have[part->split]; i++)
            if (s->have[i]) other = &s->part[i];
        return stk_fail(s->err, STOKE_E_INVALID,
                        "%s: two layouts fit: %s with %s, and %s with %s; say which by images and masks",
                        s->root, other->images, other->masks ? other->masks : "no masks", part->images,
                        part->masks ? part->masks : "no masks");
    }
    s->have[part->split] = 1;
    s->part[part->split] = *part;
    return STOKE_OK;
}

static int record_pair(search *s, const char *folder, const char *images, const char *masks,
                       const struct known_pair *known, stoke_split split)
{
    static const char *const prefix[] = { "", "train/", "val/", "test/" };
    stk_layout_part part = {
        .images = stk_string_arena_print(s->arena, "%s/%s", folder, images),
        .masks = masks ? stk_string_arena_print(s->arena, "%s/%s", folder, masks) : NULL,
        .prefix = prefix[split],
        .image_suffix = known ? known->image_suffix : NULL,
        .mask_suffix = known ? known->mask_suffix : NULL,
        .split = split,
    };
    if (!part.images || (masks && !part.masks)) return no_memory(s);
    return record(s, &part);
}

/* The spelling in which a folder name is there, or NULL. Two spellings of one name (Images, images) are
 * reported when both find their partner, as two layouts. */
static const char *spelled(const stk_scan_name_list *names, const char *wanted, size_t *from)
{
    for (; *from < names->count; (*from)++)
        if (strcasecmp(names->items[*from], wanted) == 0) return names->items[(*from)++];
    return NULL;
}

/* images/train + masks/train and images/val + masks/val: the split is one level deeper. Without both of them
 * on both sides it is no split (a class may well be called `train`), and *found stays 0. */
static int find_inner_split(search *s, const char *folder, const char *images, const char *masks,
                            const struct known_pair *known, int *found)
{
    const char *path[2] = { stk_string_arena_print(s->arena, "%s/%s", folder, images),
                            stk_string_arena_print(s->arena, "%s/%s", folder, masks) };
    const char *inner[2][3] = { { 0 } };
    if (!path[0] || !path[1]) return no_memory(s);
    for (int side = 0; side < 2; side++) {
        stk_scan_name_list names = { 0 };
        int has_files;
        int r = stk_list_folders(path[side], s->arena, &names, &has_files, s->err);
        for (size_t w = 0; r == STOKE_OK && !has_files && w < COUNT(split_words); w++) {
            size_t from = 0;
            const char *name = spelled(&names, split_words[w].name, &from);
            if (name) inner[side][split_words[w].split] = name;
        }
        stk_free(names.items);
        if (r != STOKE_OK) return r;
    }
    for (int split = STOKE_SPLIT_TRAIN; split <= STOKE_SPLIT_VAL; split++)
        if (!inner[0][split] || !inner[1][split]) return STOKE_OK;
    *found = 1;
    for (int split = STOKE_SPLIT_TRAIN; split <= STOKE_SPLIT_VAL; split++) {
        char below[2][512];
        snprintf(below[0], sizeof below[0], "%s/%s", images, inner[0][split]);
        snprintf(below[1], sizeof below[1], "%s/%s", masks, inner[1][split]);
        int r = record_pair(s, folder, below[0], below[1], known, (stoke_split)split);
        if (r != STOKE_OK) return r;
    }
    return STOKE_OK;
}

/* Known pairs directly in `folder`, recorded as `split`. */
static int find_pairs(search *s, const char *folder, const stk_scan_name_list *names, stoke_split split,
                      int *found)
{
    for (size_t p = 0; p < COUNT(pairs); p++) {
        const char *images, *masks;
        for (size_t i = 0; (images = spelled(names, pairs[p].images, &i));) {
            for (size_t m = 0; (masks = spelled(names, pairs[p].masks, &m));) {
                int inner = 0, r = STOKE_OK;
                *found = 1;
                if (split == STOKE_SPLIT_ALL)
                    r = find_inner_split(s, folder, images, masks, &pairs[p], &inner);
                if (r == STOKE_OK && !inner) r = record_pair(s, folder, images, masks, &pairs[p], split);
                if (r != STOKE_OK) return r;
            }
        }
    }
    return STOKE_OK;
}

/* images (or image, img, imgs, ...) without any known partner: masks will be zeros. */
static int find_images_only(search *s, const char *folder, const stk_scan_name_list *names, stoke_split split)
{
    for (size_t p = 0; p < COUNT(pairs); p++) {
        if (p && strcmp(pairs[p].images, pairs[p - 1].images) == 0) continue;
        const char *images;
        for (size_t i = 0; (images = spelled(names, pairs[p].images, &i));) {
            int r = record_pair(s, folder, images, NULL, &pairs[p], split);
            if (r != STOKE_OK) return r;
        }
    }
    return STOKE_OK;
}

static int find_split_pairs(search *s, const stk_scan_name_list *names, const struct split_pair *table,
                            size_t count, int *found)
{
    for (const struct split_pair *pair = table; pair < table + count; pair++) {
        const char *images, *masks;
        for (size_t i = 0; (images = spelled(names, pair->images, &i));) {
            for (size_t m = 0; (masks = spelled(names, pair->masks, &m));) {
                *found = 1;
                int r = record_pair(s, s->root, images, masks, NULL, pair->split);
                if (r != STOKE_OK) return r;
            }
        }
    }
    return STOKE_OK;
}

/* train/images + train/masks, val/images + val/masks. */
static int find_outer_split(search *s, const stk_scan_name_list *names, const struct split_word *words,
                            size_t count, int *found)
{
    for (const struct split_word *word = words; word < words + count; word++) {
        const char *name;
        for (size_t i = 0; (name = spelled(names, word->name, &i));) {
            const char *folder = stk_string_arena_print(s->arena, "%s/%s", s->root, name);
            if (!folder) return no_memory(s);
            stk_scan_name_list below = { 0 };
            int has_files, pair = 0;
            int r = stk_list_folders(folder, s->arena, &below, &has_files, s->err);
            if (r == STOKE_OK) r = find_pairs(s, folder, &below, word->split, &pair);
            if (r == STOKE_OK && !pair) r = find_images_only(s, folder, &below, word->split);
            stk_free(below.items);
            if (r != STOKE_OK) return r;
            *found |= s->have[word->split];
        }
    }
    return STOKE_OK;
}

static int find_test_folders(search *s, const stk_scan_name_list *names, int *found)
{
    int r = find_split_pairs(s, names, test_pairs, COUNT(test_pairs), found);
    if (r == STOKE_OK && !*found) r = find_outer_split(s, names, test_words, COUNT(test_words), found);
    return r;
}

/* A test part without others is the whole set. */
static void stand_alone(search *s)
{
    s->part[STOKE_SPLIT_ALL] = s->part[STOKE_SPLIT_TEST];
    s->part[STOKE_SPLIT_ALL].prefix = "";
    s->part[STOKE_SPLIT_ALL].split = STOKE_SPLIT_ALL;
    s->have[STOKE_SPLIT_ALL] = 1;
    s->have[STOKE_SPLIT_TEST] = 0;
}

/* The name of the test folder in folder/inner, or NULL. */
static int find_test_word(search *s, const char *folder, const char *inner, const char **found)
{
    const char *path = stk_string_arena_print(s->arena, "%s/%s", folder, inner);
    stk_scan_name_list names = { 0 };
    int has_files;
    *found = NULL;
    if (!path) return no_memory(s);
    const int r = stk_list_folders(path, s->arena, &names, &has_files, s->err);
    for (size_t w = 0; r == STOKE_OK && !*found && w < COUNT(test_words); w++) {
        size_t from = 0;
        *found = spelled(&names, test_words[w].name, &from);
    }
    stk_free(names.items);
    return r;
}

/* images/test + masks/test. */
static int find_inner_test(search *s, const stk_scan_name_list *names)
{
    for (size_t p = 0; p < COUNT(pairs); p++) {
        size_t i = 0, m = 0;
        const char *images = spelled(names, pairs[p].images, &i), *masks = spelled(names, pairs[p].masks, &m);
        const char *word[2] = { 0 };
        char below[2][512];
        if (!images || !masks) continue;
        int r = find_test_word(s, s->root, images, &word[0]);
        if (r == STOKE_OK) r = find_test_word(s, s->root, masks, &word[1]);
        if (r != STOKE_OK) return r;
        if (!word[0] || !word[1]) continue;
        snprintf(below[0], sizeof below[0], "%s/%s", images, word[0]);
        snprintf(below[1], sizeof below[1], "%s/%s", masks, word[1]);
        r = record_pair(s, s->root, below[0], below[1], &pairs[p], STOKE_SPLIT_TEST);
        if (r != STOKE_OK) return r;
    }
    return STOKE_OK;
}

int stk_layout_find_test(const char *root, stk_string_arena *arena, stk_layout_part *part, stoke_error *err)
{
    search s = { .root = root, .arena = arena, .err = err };
    stk_scan_name_list names = { 0 };
    int has_files = 0, found = 0;
    int r = stk_list_folders(root, arena, &names, &has_files, err);
    if (r == STOKE_OK) r = find_test_folders(&s, &names, &found);
    if (r == STOKE_OK && !found) r = find_inner_test(&s, &names);
    if (r == STOKE_OK && !s.have[STOKE_SPLIT_TEST])
        r = stk_fail(
            err, STOKE_E_NOTFOUND,
            "%s has no test part: looked for test/testannot, test_images/test_masks, test/images with "
            "test/masks and images/test with masks/test; folders with other names are given by `images` DIR "
            "and `masks` DIR",
            root);
    *part = s.part[STOKE_SPLIT_TEST];
    stk_free(names.items);
    return r;
}

static int nothing_found(search *s, const stk_scan_name_list *names)
{
    enum { SHOWN = 6 };
    stk_fail(
        s->err, STOKE_E_NOTFOUND,
        "%s: no images found. Looked for pairs of folders (images/masks, image/label, images/annotations, "
        "img/ann, imgs/masks, JPEGImages/SegmentationClass, leftImg8bit/gtFine, train/trainannot, "
        "train/images with train/masks, ...) and for " STOKE_FORMATS_OR " files or .tar shards directly "
        "in it; folders with other names are given by `images` DIR and `masks` DIR",
        s->root);
    for (size_t i = 0; i < names->count && i < SHOWN; i++)
        stk_error_add(s->err, "%s%s", i ? ", " : ". There are: ", names->items[i]);
    if (names->count > SHOWN) stk_error_add(s->err, " and %zu more", names->count - SHOWN);
    char unread[256];
    if (*stk_scan_unread_text(&names->unread, unread, sizeof unread))
        stk_error_add(s->err, ". Files that are not read: %s", unread);
    return STOKE_E_NOTFOUND;
}

int stk_layout_find(const char *root, stk_string_arena *arena, stk_layout_part parts[STK_MAX_PARTS],
                    size_t *n_parts, stoke_error *err)
{
    search s = { .root = root, .arena = arena, .err = err };
    stk_scan_folder_id id;
    int r = stk_folder_identify(root, &id, err);
    if (r != STOKE_OK) return r;
    stk_scan_name_list names = { 0 };
    int has_files = 0, found = 0;
    r = stk_list_folders(root, arena, &names, &has_files, err);
    if (r == STOKE_OK) r = find_pairs(&s, root, &names, STOKE_SPLIT_ALL, &found);
    if (r == STOKE_OK) r = find_split_pairs(&s, &names, split_pairs, COUNT(split_pairs), &found);
    if (r == STOKE_OK) r = find_outer_split(&s, &names, split_words, COUNT(split_words), &found);
    if (r == STOKE_OK && !found) r = find_test_folders(&s, &names, &found);
    if (r == STOKE_OK && s.have[STOKE_SPLIT_TEST]) stand_alone(&s);
    /* Pictures in the root itself count only when no folder name is known: a set may have a preview beside
     * them. */
    if (r == STOKE_OK && !found) r = find_images_only(&s, root, &names, STOKE_SPLIT_ALL);
    found |= s.have[STOKE_SPLIT_ALL];
    if (r == STOKE_OK && !found && has_files)
        r = record(&s, &(stk_layout_part){ .images = root, .prefix = "", .bare = 1 });
    *n_parts = 0;
    for (int i = 0; r == STOKE_OK && i < STK_SPLITS; i++)
        if (s.have[i]) parts[(*n_parts)++] = s.part[i];
    if (r == STOKE_OK && !*n_parts) r = nothing_found(&s, &names);
    stk_free(names.items);
    return r;
}
