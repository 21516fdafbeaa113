/* SPDX-License-Identifier: Apache-2.0
 *
 * Images go into a hash table by stem; every mask looks up its own stem, then its stem less each known
 * suffix. So the work is one or two look-ups per file, whatever the number of suffixes. Nothing is decided by
 * the order of files.
 */
#include "src/source/dataset_internal.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "src/base/error.h"
#include "src/base/mem.h"

/* What `auto` takes off a mask's stem. An exact stem comes before all of them. */
static const char *const auto_suffixes[] = {
    "_mask",
    "_masks",
    "-mask",
    "_gt",
    "_GT",
    "-gt",
    "_label",
    "_labels",
    "-label",
    "_seg",
    "_segmentation",
    "_Segmentation",
    "_segmentation_mask",
    "_annotation",
    "_anno",
    "_ann",
    "_labelIds",
    "_labelTrainIds",
    "_gtFine_labelIds",
    "_groundtruth",
    "_ground_truth",
    "_manual1",
    "_L",
};

/* And off a target's. */
static const char *const target_suffixes[] = {
    "_target", "_targets", "-target", "_gt",   "_GT",   "-gt", "_groundtruth", "_ground_truth", "_clean",
    "-clean",  "_sharp",   "-sharp",  "_high", "-high", "_hr", "_HR",          "-hr",           "_hq",
};

#define COUNT(table) (sizeof(table) / sizeof *(table))

#define NONE  UINT32_MAX /* no image */
#define NOTED (NONE - 1) /* in claims: no image either, and the reason is already noted */
#define TWIN  UINT32_MAX /* in fit.exact: the image shares its stem with another */

typedef struct matcher {
    stoke_dataset *dataset;
    const stk_layout_part *part;
    stk_scan_file_list images, masks;
    const char *noun; /* what masks are called: mask, or target */
    const char *image_suffix;
    const char *const *suffixes; /* for masks, besides the exact stem */
    size_t n_suffixes;
    int exact;       /* the same stem is a match */
    uint32_t *table; /* image index by stem; NONE = free */
    size_t table_mask;
    struct fit {       /* per image: the masks that claim it */
        uint32_t mask; /* the last of them */
        uint32_t exact, suffixed;
    } * fits;
    uint32_t *claims; /* per mask: the image, or NONE */
    stoke_error *err;
} matcher;

static int ends_with(const char *text, size_t length, const char *suffix)
{
    size_t n = strlen(suffix);
    /* the last byte rules out most of the list */
    return length > n && (!n || text[length - 1] == suffix[n - 1]) &&
           memcmp(text + length - n, suffix, n) == 0;
}

static int has_mask_suffix(const matcher *m, const stk_scan_file *file)
{
    for (size_t s = 0; s < m->n_suffixes; s++)
        if (ends_with(stk_found_stem(file), file->stem_length, m->suffixes[s])) return 1;
    return 0;
}

/* ---- files ---- */

/* Masks that lie among the images: whatever ends in a mask suffix is one. */
static int part_one_folder(matcher *m)
{
    size_t kept = 0;
    for (size_t i = 0; i < m->images.count; i++) {
        stk_scan_file file = m->images.items[i];
        if (!has_mask_suffix(m, &file)) {
            m->images.items[kept++] = file;
            continue;
        }
        if (!stk_grow((void **)&m->masks.items, &m->masks.capacity, m->masks.count + 1, sizeof file))
            return stk_dataset_no_memory(m->err);
        m->masks.items[m->masks.count++] = file;
    }
    m->images.count = kept;
    return STOKE_OK;
}

static int read_folders(matcher *m)
{
    const stk_layout_part *part = m->part;
    stk_scan_folder_id images, masks;
    int r = stk_folder_identify(part->images, &images, m->err);
    if (r != STOKE_OK || !part->masks)
        return r != STOKE_OK ? r : stk_scan(part->images, NULL, &m->dataset->arena, &m->images, m->err);
    r = stk_folder_identify(part->masks, &masks, m->err);
    if (r != STOKE_OK) return r;
    if (images.device == masks.device && images.node == masks.node) {
        if (!m->n_suffixes)
            return stk_fail(m->err, STOKE_E_INVALID,
                            "%s: images and %ss are one folder, so mask_suffix must tell them apart",
                            part->images, m->noun);
        m->exact = 0;
        r = stk_scan(part->images, NULL, &m->dataset->arena, &m->images, m->err);
        return r == STOKE_OK ? part_one_folder(m) : r;
    }
    /* One folder may lie in the other: its files are not read for both sides. */
    r = stk_scan(part->images, &masks, &m->dataset->arena, &m->images, m->err);
    return r == STOKE_OK ? stk_scan(part->masks, &images, &m->dataset->arena, &m->masks, m->err) : r;
}

/* Takes the suffix off the stems of images; those that lack it are noted and left out. */
static int strip_suffix(matcher *m)
{
    if (!*m->image_suffix) return STOKE_OK;
    size_t kept = 0;
    for (size_t i = 0; i < m->images.count; i++) {
        const stk_scan_file *file = &m->images.items[i];
        if (ends_with(stk_found_stem(file), file->stem_length, m->image_suffix)) {
            m->images.items[kept] = *file;
            m->images.items[kept++].stem_length -= (uint16_t)strlen(m->image_suffix);
            continue;
        }
        int r = stk_dataset_remark(m->dataset, m->err, STOKE_NOTE_IMAGE_WITHOUT_MASK, file->path,
                                   "its stem does not end in %s", m->image_suffix);
        if (r != STOKE_OK) return r;
    }
    m->images.count = kept;
    /* a1_x stands before a_x, a before a1 */
    return stk_found_sort(&m->images) ? STOKE_OK : stk_dataset_no_memory(m->err);
}

/* ---- table ---- */

/* The place of a stem in the table, or of the free slot where it would go. */
static size_t slot_of(const matcher *m, const char *stem, size_t length)
{
    size_t i = (size_t)XXH3_64bits(stem, length) & m->table_mask;
    for (; m->table[i] != NONE; i = (i + 1) & m->table_mask) {
        const stk_scan_file *image = &m->images.items[m->table[i]];
        if (image->stem_length == length && memcmp(stk_found_stem(image), stem, length) == 0) break;
    }
    return i;
}

static int same_key(const matcher *m, size_t a, size_t b)
{
    const stk_scan_file *x = &m->images.items[a], *y = &m->images.items[b];
    return x->stem_length == y->stem_length &&
           memcmp(stk_found_stem(x), stk_found_stem(y), x->stem_length) == 0;
}

/* Images are sorted, so those with one stem are neighbours: noted, marked and kept out of the pairing. */
static int build_table(matcher *m)
{
    size_t n = m->images.count, size = 16;
    while (size < 2 * n) size *= 2;
    m->table = stk_alloc(size * sizeof *m->table);
    m->fits = stk_calloc(n, sizeof *m->fits);
    m->claims = stk_alloc((m->masks.count + 1) * sizeof *m->claims);
    if (!m->table || !m->fits || !m->claims) return stk_dataset_no_memory(m->err);
    memset(m->table, 0xff, size * sizeof *m->table);
    m->table_mask = size - 1;
    for (size_t i = 0; i < n; i++) {
        int before = i > 0 && same_key(m, i, i - 1), after = i + 1 < n && same_key(m, i, i + 1);
        if (before || after) {
            int r = stk_dataset_remark(m->dataset, m->err, STOKE_NOTE_DUPLICATE, m->images.items[i].path,
                                       "same stem as %s", m->images.items[before ? i - 1 : i + 1].path);
            if (r != STOKE_OK) return r;
            m->fits[i].exact = TWIN;
        }
        const stk_scan_file *image = &m->images.items[i];
        if (!before) m->table[slot_of(m, stk_found_stem(image), image->stem_length)] = (uint32_t)i;
    }
    return STOKE_OK;
}

/* ---- pairing ---- */

static uint32_t image_with_stem(const matcher *m, const char *stem, size_t length)
{
    return m->table[slot_of(m, stem, length)];
}

/* The image a mask belongs to. Two images by two suffixes: noted, none. */
static int claim(matcher *m, size_t index)
{
    const stk_scan_file *mask = &m->masks.items[index];
    const char *stem = stk_found_stem(mask);
    uint32_t image = m->exact ? image_with_stem(m, stem, mask->stem_length) : NONE;
    m->claims[index] = image;
    if (image != NONE) {
        if (m->fits[image].exact == TWIN) return STOKE_OK;
        m->fits[image].exact++;
        m->fits[image].mask = (uint32_t)index;
        return STOKE_OK;
    }
    for (size_t s = 0; s < m->n_suffixes; s++) {
        if (!ends_with(stem, mask->stem_length, m->suffixes[s])) continue;
        uint32_t hit = image_with_stem(m, stem, mask->stem_length - strlen(m->suffixes[s]));
        if (hit == NONE) continue;
        if (image != NONE) {
            m->claims[index] = NOTED;
            return stk_dataset_remark(m->dataset, m->err, STOKE_NOTE_DUPLICATE, mask->path,
                                      "fits both %s and %s", m->images.items[image].path,
                                      m->images.items[hit].path);
        }
        image = hit;
    }
    m->claims[index] = image;
    if (image == NONE || m->fits[image].exact == TWIN) return STOKE_OK;
    m->fits[image].suffixed++;
    if (!m->fits[image].exact) m->fits[image].mask = (uint32_t)index;
    return STOKE_OK;
}

static uint32_t fit_count(const struct fit *fit)
{
    return fit->exact == TWIN ? 0 : fit->exact ? fit->exact : fit->suffixed;
}

static int add_sample(matcher *m, const stk_scan_file *image, const char *mask)
{
    const char *stem = stk_found_stem(image);
    const char *name = *m->part->prefix
                           ? stk_string_arena_print(&m->dataset->arena, "%s%.*s", m->part->prefix,
                                                    (int)image->stem_length, stem)
                           : stk_string_arena_copy(&m->dataset->arena, stem, image->stem_length);
    return name ? stk_dataset_add(m->dataset, name, image->path, mask, m->err)
                : stk_dataset_no_memory(m->err);
}

static int settle_images(matcher *m)
{
    int r = STOKE_OK;
    for (size_t i = 0; r == STOKE_OK && i < m->images.count; i++) {
        const stk_scan_file *image = &m->images.items[i];
        const struct fit *fit = &m->fits[i];
        if (fit->exact == TWIN) continue;
        if (fit_count(fit) == 1)
            r = add_sample(m, image, m->masks.items[fit->mask].path);
        else if (fit_count(fit) == 0)
            r = stk_dataset_remark(m->dataset, m->err, STOKE_NOTE_IMAGE_WITHOUT_MASK, image->path,
                                   "no %s has its stem", m->noun);
        else
            r = stk_dataset_remark(m->dataset, m->err, STOKE_NOTE_DUPLICATE, image->path,
                                   "more than one %s fits it", m->noun);
    }
    return r;
}

static int note_mask(matcher *m, size_t index)
{
    const char *path = m->masks.items[index].path;
    uint32_t image = m->claims[index];
    if (image == NONE)
        return stk_dataset_remark(m->dataset, m->err, STOKE_NOTE_MASK_WITHOUT_IMAGE, path,
                                  "no image has its stem");
    if (image == NOTED) return STOKE_OK;
    if (m->fits[image].exact == TWIN)
        return stk_dataset_remark(m->dataset, m->err, STOKE_NOTE_MASK_WITHOUT_IMAGE, path,
                                  "the images with its stem were left out");
    return stk_dataset_remark(m->dataset, m->err, STOKE_NOTE_DUPLICATE, path,
                              "one of several %ss that fit %s", m->noun, m->images.items[image].path);
}

static int by_mask_stem(const void *a, const void *b, void *context)
{
    const matcher *m = context;
    return stk_found_compare(&m->masks.items[*(const uint32_t *)a], &m->masks.items[*(const uint32_t *)b]);
}

/* Masks that found no place, in natural order. Only these are sorted: usually there are none. */
static int settle_masks(matcher *m)
{
    uint32_t *left = stk_alloc((m->masks.count + 1) * sizeof *left);
    if (!left) return stk_dataset_no_memory(m->err);
    size_t n = 0;
    for (size_t i = 0; i < m->masks.count; i++) {
        uint32_t image = m->claims[i];
        int used = image < m->images.count && fit_count(&m->fits[image]) == 1 && m->fits[image].mask == i;
        if (!used) left[n++] = (uint32_t)i;
    }
    qsort_r(left, n, sizeof *left, by_mask_stem, m);
    int r = STOKE_OK;
    for (size_t i = 0; r == STOKE_OK && i < n; i++) r = note_mask(m, left[i]);
    stk_free(left);
    return r;
}

static int pair_up(matcher *m)
{
    if (m->images.count >= UINT32_MAX - 1 || m->masks.count >= UINT32_MAX - 1)
        return stk_fail(m->err, STOKE_E_LIMIT, "%s: more than 2^32 files", m->part->images);
    size_t before = m->dataset->count;
    int r = build_table(m);
    for (size_t i = 0; r == STOKE_OK && i < m->masks.count; i++) r = claim(m, i);
    if (r == STOKE_OK) r = settle_images(m);
    if (r == STOKE_OK) r = settle_masks(m);
    if (r != STOKE_OK || m->dataset->count > before) return r;
    const stk_scan_file none = { .path = "(none)", .stem_length = 6 };
    const stk_scan_file *image = m->images.count ? &m->images.items[0] : &none;
    const stk_scan_file *mask = m->masks.count ? &m->masks.items[0] : &none;
    return stk_fail(
        m->err, STOKE_E_NOTFOUND,
        "no image in %s has a %s in %s: %zu images (stem of one: %.*s), %zu %ss (stem of one: %.*s); "
        "see mask_suffix and image_suffix",
        m->part->images, m->noun, m->part->masks, m->images.count, (int)image->stem_length,
        stk_found_stem(image), m->masks.count, m->noun, (int)mask->stem_length, stk_found_stem(mask));
}

/* x.png beside x_mask.png in one folder that was only called `data`: taking all for images would be a guess.
 */
static int refuse_masks_among_images(const matcher *m)
{
    size_t alike = 0;
    const char *example = "";
    for (size_t i = 0; i < m->images.count; i++)
        if (has_mask_suffix(m, &m->images.items[i])) alike++, example = m->images.items[i].path;
    if (alike * 5 < m->images.count * 2) return STOKE_OK; /* a mask for every image would be a half */
    return stk_fail(m->err, STOKE_E_INVALID,
                    "%s: %zu of %zu files look like masks of the others (%s): give this folder as images and "
                    "as masks, or "
                    "as images only if that is what they are",
                    m->part->images, alike, m->images.count, example);
}

/* Without masks there is nothing to confuse: files that share a stem keep their extension in the name. */
static int add_unpaired(matcher *m)
{
    int r = STOKE_OK;
    size_t from = m->dataset->count, n = m->images.count;
    for (size_t i = 0; r == STOKE_OK && i < n; i++) {
        const stk_scan_file *image = &m->images.items[i];
        if (!(i > 0 && same_key(m, i, i - 1)) && !(i + 1 < n && same_key(m, i, i + 1))) {
            r = add_sample(m, image, NULL);
            continue;
        }
        const char *name =
            stk_string_arena_print(&m->dataset->arena, "%s%s", m->part->prefix, stk_found_stem(image));
        r = name ? stk_dataset_add(m->dataset, name, image->path, NULL, m->err)
                 : stk_dataset_no_memory(m->err);
    }
    return r == STOKE_OK ? stk_dataset_settle(m->dataset, from, m->err) : r;
}

/* Sets for super-resolution have 0001x2.png beside 0001.png (DIV2K): `x2` is a suffix where all images have
 * it and no target has. */
static void find_scale_suffix(matcher *m, int64_t scale, char suffix[4])
{
    size_t alike = 0;
    if (!m->dataset->restores || scale < 2) return;
    snprintf(suffix, 4, "x%d", (int)(scale % 10));
    for (size_t i = 0; i < m->masks.count; i++)
        if (ends_with(stk_found_stem(&m->masks.items[i]), m->masks.items[i].stem_length, suffix)) return;
    while (alike < m->images.count &&
           ends_with(stk_found_stem(&m->images.items[alike]), m->images.items[alike].stem_length, suffix))
        alike++;
    if (alike == m->images.count) m->image_suffix = suffix;
}

int stk_match_part(stoke_dataset *dataset, const stk_layout_part *part, const char *image_suffix,
                   const char *mask_suffix, int64_t scale, stoke_error *err)
{
    char by_scale[4];
    int image_auto = !image_suffix || strcmp(image_suffix, "auto") == 0;
    int mask_auto = !mask_suffix || strcmp(mask_suffix, "auto") == 0;
    const char *one = mask_auto ? part->mask_suffix : mask_suffix;
    matcher m = { .dataset = dataset, .part = part, .err = err };
    m.noun = dataset->restores ? "target" : "mask";
    m.image_suffix = !image_auto ? image_suffix : part->image_suffix ? part->image_suffix : "";
    m.suffixes = one ? &one : dataset->restores ? target_suffixes : auto_suffixes;
    m.n_suffixes = one ? *one != 0 : dataset->restores ? COUNT(target_suffixes) : COUNT(auto_suffixes);
    m.exact = !one || !*one;
    int r = read_folders(&m);
    if (r == STOKE_OK && m.images.count == 0) {
        char there[256];
        r = stk_fail(err, STOKE_E_NOTFOUND, "%s: no " STOKE_FORMATS_OR " files", part->images);
        if (*stk_scan_unread_text(&m.images.unread, there, sizeof there))
            stk_error_add(err, "; there are: %s", there);
    }
    for (size_t i = 0; i < STK_SCAN_ENDINGS; i++)
        dataset->unread.count[i] += m.images.unread.count[i] + m.masks.unread.count[i];
    if (r == STOKE_OK && !stk_found_sort(&m.images)) r = stk_dataset_no_memory(err);
    if (r == STOKE_OK && image_auto && !part->image_suffix) find_scale_suffix(&m, scale, by_scale);
    if (r == STOKE_OK) r = strip_suffix(&m);
    if (r == STOKE_OK && part->bare) r = refuse_masks_among_images(&m);
    if (r == STOKE_OK) r = part->masks ? pair_up(&m) : add_unpaired(&m);
    stk_free(m.images.items);
    stk_free(m.masks.items);
    stk_free(m.table);
    stk_free(m.fits);
    stk_free(m.claims);
    return r;
}
