/* SPDX-License-Identifier: Apache-2.0 */
#include "src/source/dataset_internal.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "src/base/error.h"
#include "src/base/mem.h"

/* Folder names that belong together, compared without regard to case: images, and the masks that may stand
 * beside them. PASCAL VOC has `Annotations` (boxes) beside `SegmentationClass`, and only the latter is meant.
 */
static const struct known_pair {
    const char *images, *masks;
    const char *image_suffix, *mask_suffix; /* what `auto` means in such a set */
} pairs[] = {
    /* ADE20K and Oxford pets have annotations */
    { "images",
      "masks mask labels label annotations annotation ann gt groundtruth ground_truth segmentations", NULL,
      NULL },
    /* label: ISBI membranes as usually repackaged */
    { "image", "mask masks label labels annotation gt", NULL, NULL },
    { "imgs", "masks labels", NULL, NULL }, /* Carvana as in the well-known U-Net repository */
    { "img", "mask masks label labels ann gt", NULL, NULL },
    { "JPEGImages", "SegmentationClass", NULL, NULL },
    { "leftImg8bit", "gtFine", "_leftImg8bit", "_gtFine_labelIds" }, /* Cityscapes */
};

/* Task restore: degraded pictures, and what they should become. */
static const struct known_pair restoring[] = {
    { "images", "targets target", NULL, NULL },
    { "image", "targets target", NULL, NULL },
    { "inputs", "targets target outputs gt groundtruth", NULL, NULL },
    { "input", "target targets output gt groundtruth", NULL,
      NULL }, /* as repackaged for Restormer and others */
    { "noisy", "clean gt", NULL, NULL },
    { "blur", "sharp gt", NULL, NULL },
    { "blurry", "sharp gt", NULL, NULL },
    { "low", "high", NULL, NULL }, /* LOL */
    { "LR", "HR", NULL, NULL },
    { "lq", "gt hq", NULL, NULL }, /* BasicSR */
    { "hazy", "clear clean gt", NULL, NULL },
    { "rain", "norain clean gt", NULL, NULL },
    { "degraded", "clean gt", NULL, NULL },
};

/* The same for sets whose folder names carry the split themselves: `train` has "annot" (CamVid), "_labels" or
 * "_masks" at its end, or "_images" has "_masks" or "_labels". */
static const char *const split_pairs[][2] = {
    { "", "annot" }, { "", "_labels" }, { "", "_masks" }, { "_images", "_masks" }, { "_images", "_labels" },
};
static const char *const restoring_split_pairs[][2] = {
    { "_images", "_targets" }, { "_input", "_target" }, { "_noisy", "_clean" },
    { "_blur", "_sharp" },     { "_low", "_high" },     { "_LR", "_HR" },
};

/* The last that is there counts. The test part is read when it is asked for, or where nothing else is. */
static const struct split_word {
    const char *name;
    stoke_split split;
} split_words[] = {
    { "train", STOKE_SPLIT_TRAIN }, { "training", STOKE_SPLIT_TRAIN }, { "val", STOKE_SPLIT_VAL },
    { "valid", STOKE_SPLIT_VAL },   { "validation", STOKE_SPLIT_VAL }, { "testing", STOKE_SPLIT_TEST },
    { "test", STOKE_SPLIT_TEST },
};

#define COUNT(table) (sizeof(table) / sizeof *(table))

/* A search in progress. Every layout found is recorded; more than one for the same part of the set is an
 * error. */
typedef struct search {
    const char *root;
    int restores; /* targets are looked for, not masks */
    stk_string_arena *arena;
    stk_layout_part part[STK_SPLITS]; /* by stoke_split; images NULL: not found */
    stoke_error *err;
} search;

static int no_memory(search *s)
{
    return stk_fail(s->err, STOKE_E_NOMEM, "%s: no memory", s->root);
}

static int record(search *s, const stk_layout_part *part)
{
    int clash =
        s->part[part->split].images ||
        (part->split == STOKE_SPLIT_ALL ? s->part[1].images || s->part[2].images : !!s->part[0].images);
    if (clash) {
        const stk_layout_part *other = &s->part[part->split];
        for (int i = 0; i < STK_SPLITS && !s->part[part->split].images; i++)
            if (s->part[i].images) other = &s->part[i];
        return stk_fail(s->err, STOKE_E_INVALID,
                        "%s: two layouts fit: %s with %s, and %s with %s; say which by images and %s",
                        s->root, other->images, other->masks ? other->masks : "no masks", part->images,
                        part->masks ? part->masks : "no masks", s->restores ? "targets" : "masks");
    }
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
static const char *spelled(const stk_scan_name_list *names, const char *wanted, size_t length, size_t *from)
{
    while (*from < names->count) {
        const char *name = names->items[(*from)++];
        if (strncasecmp(name, wanted, length) == 0 && !name[length]) return name;
    }
    return NULL;
}

/* Names of the folders of a part in folder/side, by split; *has_files: pictures lie there, too. */
static int list_inner(search *s, const char *folder, const char *side, const char *inner[STK_SPLITS],
                      int *has_files)
{
    const char *path = stk_string_arena_print(s->arena, "%s/%s", folder, side);
    stk_scan_name_list names = { 0 };
    if (!path) return no_memory(s);
    const int r = stk_list_folders(path, s->arena, &names, has_files, s->err);
    for (const struct split_word *w = split_words; r == STOKE_OK && w < split_words + COUNT(split_words);
         w++) {
        size_t from = 0;
        const char *name = spelled(&names, w->name, strlen(w->name), &from);
        if (name) inner[w->split] = name;
    }
    stk_free(names.items);
    return r;
}

/* images/train + masks/train and images/val + masks/val, or (`test`) images/test + masks/test: the split is
 * one level deeper. Without both of train and val on both sides it is no split (a class may well be called
 * `train`), and *found stays 0. */
static int find_inner_split(search *s, const char *folder, const char *images, const char *masks,
                            const struct known_pair *known, int test, int *found)
{
    const char *sides[2] = { images, masks }, *inner[2][STK_SPLITS] = { { 0 } };
    const int first = test ? STOKE_SPLIT_TEST : STOKE_SPLIT_TRAIN, last = test ? first : STOKE_SPLIT_VAL;
    for (int side = 0; side < 2; side++) {
        int has_files;
        const int r = list_inner(s, folder, sides[side], inner[side], &has_files);
        if (r != STOKE_OK || (has_files && !test)) return r;
    }
    for (int split = first; split <= last; split++)
        if (!inner[0][split] || !inner[1][split]) return STOKE_OK;
    *found = 1;
    int r = STOKE_OK;
    for (int split = first; r == STOKE_OK && split <= last; split++) {
        char below[2][512];
        for (int side = 0; side < 2; side++)
            snprintf(below[side], sizeof below[side], "%s/%s", sides[side], inner[side][split]);
        r = record_pair(s, folder, below[0], below[1], known, (stoke_split)split);
    }
    return r;
}

/* Every folder `images` in `folder` with every partner that one of the words `masks` names, recorded as that
 * split; masks NULL: without one. Of the root itself the test part of a known pair is looked for one level
 * deeper only. */
static int record_pairs(search *s, const char *folder, const stk_scan_name_list *names, const char *images,
                        const char *masks, const struct known_pair *known, stoke_split split, int *found)
{
    const int inner_test = known && split == STOKE_SPLIT_TEST && folder == s->root;
    const char *image, *mask;
    int r = STOKE_OK;
    for (size_t i = 0; !r && (image = spelled(names, images, strlen(images), &i));) {
        if (!masks) r = record_pair(s, folder, image, NULL, known, split);
        for (const char *word = masks, *end; !r && word && *word; word = end + (*end == ' ')) {
            end = word + strcspn(word, " ");
            for (size_t m = 0; !r && (mask = spelled(names, word, (size_t)(end - word), &m));) {
                int inner = 0;
                *found = 1;
                if (split == STOKE_SPLIT_ALL || inner_test)
                    r = find_inner_split(s, folder, image, mask, known, inner_test, &inner);
                if (!r && !inner && !inner_test) r = record_pair(s, folder, image, mask, known, split);
            }
        }
    }
    return r;
}

static int find_pairs(search *s, const char *folder, const stk_scan_name_list *names, stoke_split split,
                      int *found)
{
    const struct known_pair *pair = s->restores ? restoring : pairs;
    const struct known_pair *end = pair + (s->restores ? COUNT(restoring) : COUNT(pairs));
    int r = STOKE_OK;
    for (; !r && pair < end; pair++)
        r = record_pairs(s, folder, names, pair->images, pair->masks, pair, split, found);
    return r;
}

/* images (or image, img, imgs, ...) without any known partner: masks will be zeros, and nothing is restored.
 */
static int find_images_only(search *s, const char *folder, const stk_scan_name_list *names, stoke_split split)
{
    int r = STOKE_OK;
    if (s->restores) return r;
    for (const struct known_pair *pair = pairs; !r && pair < pairs + COUNT(pairs); pair++)
        r = record_pairs(s, folder, names, pair->images, NULL, pair, split, NULL);
    return r;
}

/* trainannot beside train, and the like. */
static int find_split_pairs(search *s, const stk_scan_name_list *names, const char *word, stoke_split split,
                            int *found)
{
    const char *const(*known)[2] = s->restores ? restoring_split_pairs : split_pairs;
    const size_t n = s->restores ? COUNT(restoring_split_pairs) : COUNT(split_pairs);
    int r = STOKE_OK;
    for (size_t p = 0; !r && p < n; p++) {
        char name[2][32];
        for (int side = 0; side < 2; side++)
            snprintf(name[side], sizeof name[side], "%s%s", word, known[p][side]);
        r = record_pairs(s, s->root, names, name[0], name[1], NULL, split, found);
    }
    return r;
}

/* train/images + train/masks, val/images + val/masks; or those of test alone. */
static int find_outer_split(search *s, const stk_scan_name_list *names, int test, int *found)
{
    for (const struct split_word *word = split_words; word < split_words + COUNT(split_words); word++) {
        const char *name;
        if ((word->split == STOKE_SPLIT_TEST) != test) continue;
        for (size_t i = 0; (name = spelled(names, word->name, strlen(word->name), &i));) {
            const char *folder = stk_string_arena_print(s->arena, "%s/%s", s->root, name);
            if (!folder) return no_memory(s);
            stk_scan_name_list below = { 0 };
            int has_files, pair = 0;
            int r = stk_list_folders(folder, s->arena, &below, &has_files, s->err);
            if (r == STOKE_OK) r = find_pairs(s, folder, &below, word->split, &pair);
            if (r == STOKE_OK && !pair) r = find_images_only(s, folder, &below, word->split);
            stk_free(below.items);
            if (r != STOKE_OK) return r;
            *found |= s->part[word->split].images != NULL;
        }
    }
    return STOKE_OK;
}

static int find_test_folders(search *s, const stk_scan_name_list *names, int *found)
{
    int r = find_split_pairs(s, names, "test", STOKE_SPLIT_TEST, found);
    if (r == STOKE_OK && !*found) r = find_outer_split(s, names, 1, found);
    return r;
}

/* A test part without others is the whole set. */
static void stand_alone(search *s)
{
    s->part[STOKE_SPLIT_ALL] = s->part[STOKE_SPLIT_TEST];
    s->part[STOKE_SPLIT_ALL].prefix = "";
    s->part[STOKE_SPLIT_ALL].split = STOKE_SPLIT_ALL;
    s->part[STOKE_SPLIT_TEST] = (stk_layout_part){ 0 };
}

static int find_test(const char *root, int restores, stk_string_arena *arena, stk_layout_part *part,
                     stoke_error *err)
{
    search s = { .root = root, .restores = restores, .arena = arena, .err = err };
    stk_scan_name_list names = { 0 };
    int has_files = 0, found = 0;
    int r = stk_list_folders(root, arena, &names, &has_files, err);
    if (r == STOKE_OK) r = find_test_folders(&s, &names, &found);
    if (r == STOKE_OK && !found) r = find_pairs(&s, root, &names, STOKE_SPLIT_TEST, &found);
    if (r == STOKE_OK && !s.part[STOKE_SPLIT_TEST].images && restores)
        r = stk_fail(
            err, STOKE_E_NOTFOUND,
            "%s has no test part: looked for test/input with test/target, input/test with target/test, "
            "test_input with test_target and other names of such pairs; folders with other names are "
            "given by `images` DIR and `targets` DIR",
            root);
    else if (r == STOKE_OK && !s.part[STOKE_SPLIT_TEST].images)
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

int stk_layout_find_test(const char *root, stoke_task *task, stk_string_arena *arena, stk_layout_part *part,
                         stoke_error *err)
{
    stk_layout_part restored;
    int r = find_test(root, *task == STOKE_TASK_RESTORE, arena, part, err);
    if (*task == STOKE_TASK_AUTO && (r == STOKE_E_NOTFOUND || (!r && !part->masks)) &&
        !find_test(root, 1, arena, &restored, NULL)) {
        *task = STOKE_TASK_RESTORE;
        *part = restored;
        r = STOKE_OK;
    }
    return r;
}

static int nothing_found(search *s, const stk_scan_name_list *names)
{
    enum { SHOWN = 6 };
    if (s->restores)
        stk_fail(
            s->err, STOKE_E_NOTFOUND,
            "%s: no images with targets found. Looked for pairs of folders (images/targets, input/target, "
            "noisy/clean, blur/sharp, low/high, LR/HR, lq/gt, train/input with train/target, ...); folders "
            "with other names are given by `images` DIR and `targets` DIR",
            s->root);
    else
        stk_fail(s->err, STOKE_E_NOTFOUND,
                 "%s: no images found. Looked for pairs of folders (images/masks, image/label, "
                 "images/annotations, "
                 "img/ann, imgs/masks, JPEGImages/SegmentationClass, leftImg8bit/gtFine, train/trainannot, "
                 "train/images with train/masks, ...) and for " STOKE_FORMATS_OR
                 " files or .tar shards directly "
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

static int find_set(const char *root, int restores, stk_string_arena *arena,
                    stk_layout_part parts[STK_MAX_PARTS], size_t *n_parts, stoke_error *err)
{
    search s = { .root = root, .restores = restores, .arena = arena, .err = err };
    stk_scan_folder_id id;
    int r = stk_folder_identify(root, &id, err);
    if (r != STOKE_OK) return r;
    stk_scan_name_list names = { 0 };
    int has_files = 0, found = 0;
    r = stk_list_folders(root, arena, &names, &has_files, err);
    if (r == STOKE_OK) r = find_pairs(&s, root, &names, STOKE_SPLIT_ALL, &found);
    if (r == STOKE_OK) r = find_split_pairs(&s, &names, "train", STOKE_SPLIT_TRAIN, &found);
    if (r == STOKE_OK) r = find_split_pairs(&s, &names, "val", STOKE_SPLIT_VAL, &found);
    if (r == STOKE_OK) r = find_outer_split(&s, &names, 0, &found);
    if (r == STOKE_OK && !found) r = find_test_folders(&s, &names, &found);
    if (r == STOKE_OK && s.part[STOKE_SPLIT_TEST].images) stand_alone(&s);
    /* Pictures in the root itself count only when no folder name is known: a set may have a preview beside
     * them. */
    if (r == STOKE_OK && !found) r = find_images_only(&s, root, &names, STOKE_SPLIT_ALL);
    found |= s.part[STOKE_SPLIT_ALL].images != NULL;
    if (r == STOKE_OK && !found && has_files && !restores)
        r = record(&s, &(stk_layout_part){ .images = root, .prefix = "", .bare = 1 });
    *n_parts = 0;
    for (int i = 0; r == STOKE_OK && i < STK_SPLITS; i++)
        if (s.part[i].images) parts[(*n_parts)++] = s.part[i];
    if (r == STOKE_OK && !*n_parts) r = nothing_found(&s, &names);
    stk_free(names.items);
    return r;
}

int stk_layout_find(const char *root, stoke_task *task, stk_string_arena *arena,
                    stk_layout_part parts[STK_MAX_PARTS], size_t *n_parts, stoke_error *err)
{
    stk_layout_part restored[STK_MAX_PARTS];
    stoke_error why = { 0 };
    size_t n = 0;
    int r = find_set(root, *task == STOKE_TASK_RESTORE, arena, parts, n_parts, err);
    if (*task != STOKE_TASK_AUTO || (r && r != STOKE_E_NOTFOUND) || (!r && parts[0].masks)) return r;
    const int other = find_set(root, 1, arena, restored, &n, &why);
    if (other == STOKE_E_NOTFOUND) return r;
    *task = STOKE_TASK_RESTORE;
    *n_parts = n;
    for (size_t i = 0; i < n; i++) parts[i] = restored[i];
    return other ? stk_fail_again(err, other, why.message) : STOKE_OK;
}
