/* SPDX-License-Identifier: Apache-2.0
 *
 * Members of a shard with one key make a sample. They need not be neighbours: what counts is the index, not
 * the order of the archive.
 */
#include <stdlib.h>
#include <string.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/source/shard_name.h"
#include "src/source/dataset_internal.h"
#include "src/source/tar.h"

/* A member with a role. */
typedef struct piece {
    const stk_tar_member *member;
    stk_shard_name name;
} piece;

typedef struct reading {
    stoke_dataset *dataset;
    const stk_layout_part *part;
    const char *shard; /* being read */
    stk_tar_index index;
    piece *pieces;
    size_t count, capacity;
    const char *stranger;  /* a member without a role, for the message when there is no sample */
    const char *like_mask; /* a picture that looks like a mask, in a set without */
    int unlike;            /* there is one that does not */
    stoke_error *err;
} reading;

/* ---- pieces ---- */

static int by_key(const void *a, const void *b)
{
    const piece *x = a, *y = b;
    const size_t n = x->name.key < y->name.key ? x->name.key : y->name.key;
    int order = memcmp(x->member->name, y->member->name, n);
    if (order) return order;
    if (x->name.key != y->name.key) return x->name.key < y->name.key ? -1 : 1;
    order = strcmp(x->member->name, y->member->name);
    return order ? order : x->member->offset < y->member->offset ? -1 : 1; /* a name may be there twice */
}

/* "shards/000000.tar:a/b.jpg" */
static const char *shown(reading *x, const char *member)
{
    return stk_string_arena_print(&x->dataset->arena, "%s:%s", x->shard, member);
}

static int remark(reading *x, stoke_note_kind kind, const char *member, const char *detail)
{
    return stk_dataset_remark(x->dataset, x->err, kind, shown(x, member), "%s", detail);
}

/* The members of the shard that have a role, sorted by key. */
static int collect(reading *x, int with_notes)
{
    x->count = 0;
    for (size_t i = 0; i < x->index.count; i++) {
        const stk_tar_member *m = &x->index.members[i];
        const stk_shard_name name = stk_shard_name_parse(m->name);
        if (name.role == STK_FIELD_OTHER) {
            if (!x->stranger && !(x->stranger = shown(x, m->name))) return stk_dataset_no_memory(x->err);
            continue;
        }
        if (m->kind != STK_TAR_FILE) {
            int r = with_notes
                        ? remark(x, STOKE_NOTE_NOT_A_FILE, m->name,
                                 m->kind == STK_TAR_LINK ? "a link, which has no contents of its own in the "
                                                           "archive: pack with tar --hard-dereference -h"
                                                         : "a device or pipe")
                        : STOKE_OK;
            if (r != STOKE_OK) return r;
            continue;
        }
        if (!stk_grow((void **)&x->pieces, &x->capacity, x->count + 1, sizeof *x->pieces))
            return stk_dataset_no_memory(x->err);
        x->pieces[x->count++] = (piece){ m, name };
    }
    if (x->count) qsort(x->pieces, x->count, sizeof *x->pieces, by_key);
    return STOKE_OK;
}

/* How many pieces from pieces[i] on have its key. */
static size_t group_size(const reading *x, size_t i)
{
    size_t n = 1;
    const stk_shard_name *first = &x->pieces[i].name;
    while (i + n < x->count && x->pieces[i + n].name.key == first->key &&
           memcmp(x->pieces[i + n].member->name, x->pieces[i].member->name, first->key) == 0)
        n++;
    return n;
}

/* ---- groups ---- */

/* A key's pieces: how many of each side, and the last of them. */
typedef struct group {
    size_t images, masks;
    const stk_tar_member *image, *mask;
} group;

static group sides_of(const piece *pieces, size_t n)
{
    group g = { 0 };
    const piece *png = NULL;
    size_t plain_png = 0, jpeg = 0;
    for (size_t i = 0; i < n; i++) {
        const piece *p = &pieces[i];
        if (p->name.role == STK_FIELD_MASK) {
            g.masks++, g.mask = p->member;
            continue;
        }
        jpeg += p->name.picture == STK_PICTURE_JPEG;
        if (p->name.role == STK_FIELD_PICTURE && p->name.picture == STK_PICTURE_PNG)
            plain_png++, png = p;
        else
            g.image = p->member;
        g.images++;
    }
    /* a.jpg with a.png and nothing called a mask: a photograph is no mask, so the other one is */
    if (!g.masks && g.images == 2 && plain_png == 1 && jpeg == 1)
        return (group){ 1, 1, g.image, png->member };
    if (!g.image && png) g.image = png->member;
    return g;
}

static int add_sample(reading *x, const piece *first, const group *g)
{
    char sample[STK_TAR_NAME];
    stk_shard_sample(first->member->name, first->name.key, sample);
    stoke_sample s = {
        .name = stk_string_arena_print(&x->dataset->arena, "%s%s", x->part->prefix, sample),
        .image_path = shown(x, g->image->name),
        .image = { x->shard, g->image->offset, g->image->size },
    };
    if (g->mask) {
        s.mask_path = shown(x, g->mask->name);
        s.mask = (stoke_blob){ x->shard, g->mask->offset, g->mask->size };
    }
    if (!s.name || !s.image_path || (g->mask && !s.mask_path)) return stk_dataset_no_memory(x->err);
    return stk_dataset_add_sample(x->dataset, &s, x->err);
}

static int note_group(reading *x, const piece *pieces, size_t n, const group *g)
{
    int r = STOKE_OK;
    for (size_t i = 0; r == STOKE_OK && i < n; i++) {
        const int mask = pieces[i].name.role == STK_FIELD_MASK;
        const char *member = pieces[i].member->name;
        if (g->images > 1 && !mask)
            r = remark(x, STOKE_NOTE_DUPLICATE, member, "more than one image has its key");
        else if (g->images > 1)
            r = remark(x, STOKE_NOTE_MASK_WITHOUT_IMAGE, member, "the images with its key were left out");
        else if (g->masks > 1)
            r = remark(x, STOKE_NOTE_DUPLICATE, member,
                       mask ? "one of several masks with its key" : "more than one mask fits it");
        else
            r = remark(x, mask ? STOKE_NOTE_MASK_WITHOUT_IMAGE : STOKE_NOTE_IMAGE_WITHOUT_MASK, member,
                       mask ? "no image has its key" : "no mask has its key");
    }
    return r;
}

static int add_shard(reading *x)
{
    int r = collect(x, 1);
    for (size_t i = 0, n; r == STOKE_OK && i < x->count; i += n) {
        n = group_size(x, i);
        const group g = sides_of(x->pieces + i, n);
        const int whole = g.images == 1 && g.masks == (size_t)x->dataset->paired;
        r = whole ? add_sample(x, &x->pieces[i], &g) : note_group(x, x->pieces + i, n, &g);
    }
    return r;
}

/* ---- shards ---- */

/* Opens every shard of the part in turn and calls `work`; a positive return ends it well before the last. */
static int each_shard(reading *x, const stk_shard_list *shards, int (*work)(reading *x))
{
    int r = STOKE_OK;
    for (size_t i = 0; r == STOKE_OK && i < shards->count; i++) {
        if (shards->items[i].split != x->part->split) continue;
        x->shard = shards->items[i].path;
        r = stk_tar_open(&x->index, x->shard, x->err);
        if (r == STOKE_OK) r = work(x);
        stk_tar_close(&x->index);
    }
    return r < 0 ? r : STOKE_OK;
}

/* A set has masks when any shard has one; usually the first shard tells. */
static int look_for_masks(reading *x)
{
    int r = collect(x, 0);
    for (size_t i = 0, n; r == STOKE_OK && i < x->count && !x->dataset->paired; i += n) {
        n = group_size(x, i);
        x->dataset->paired = sides_of(x->pieces + i, n).masks > 0;
        const char *member = x->pieces[i].member->name;
        if (!stk_shard_name_like_mask(member, &x->pieces[i].name))
            x->unlike = 1;
        else if (!x->like_mask && !(x->like_mask = shown(x, member)))
            return stk_dataset_no_memory(x->err);
    }
    return r == STOKE_OK ? x->dataset->paired : r;
}

int stk_shards_read(stoke_dataset *dataset, const stk_shard_list *shards, const stk_layout_part *part,
                    stoke_error *err)
{
    reading x = { .dataset = dataset, .part = part, .err = err };
    const size_t from = dataset->count;
    dataset->paired = 0;
    int r = each_shard(&x, shards, look_for_masks);
    /* A set packed as it lay, `tar cf set.tar images masks`: taken for images alone, it would train on its
     * own masks. */
    if (r == STOKE_OK && !dataset->paired && x.like_mask && x.unlike)
        r = stk_fail(
            err, STOKE_E_UNSUPPORTED,
            "%s: looks like a mask, but no image belongs to it: in shards a mask is KEY.mask.png beside "
            "KEY.jpg. Unpack the archive and name the folder, or make shards of that with `stoke pack`",
            x.like_mask);
    if (r == STOKE_OK) r = each_shard(&x, shards, add_shard);
    stk_free(x.pieces);
    if (r != STOKE_OK) return r;
    if (dataset->count == from)
        return stk_fail(
            err, STOKE_E_NOTFOUND,
            "%s: no member is an image%s. Looked for KEY.jpg (jpeg, png, webp, tif) with KEY.mask.png (seg, "
            "label, gt, ann); the key ends at the first dot of the name%s%s",
            part->images, dataset->paired ? " with a mask" : "",
            x.stranger ? ". One that is something else: " : "", x.stranger ? x.stranger : "");
    return stk_dataset_settle(dataset, from, err);
}
