/* SPDX-License-Identifier: Apache-2.0
 *
 * Which samples train and which validate.
 */
#include "src/train/resolve.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/net/network.h"
#include "src/source/pairs.h"
#include "src/source/quarantine.h"
#include "src/source/reader.h"
#include "src/source/dataset.h"
#include <stoke/tools/data.h>
#include <stoke/tools/dataset.h>
#include <stoke/tools/terminal.h>

/* ---- names of classes ---- */

int stk_resolve_names_beforehand(stk_resolve_ctx *s, stk_names *names)
{
    stoke_labels *labels = NULL;
    int r = stoke_labels_create(&labels, "identity", STK_LABEL_VALUES, -1, s->err);
    if (!r) r = stk_names_add(labels, &s->setup->train, names, s->err);
    stoke_labels_destroy(&labels);
    return r;
}

/* What belongs to the run, not to a file that may change: the list as text, where no name has a comma. */
static int keep_list(stk_resolve_ctx *s)
{
    stk_setup *setup = s->setup;
    size_t used = 0;
    char list[16384]; /* what a list in YAML may have */
    for (uint32_t i = 0; i < setup->classes; i++) {
        const char *name = setup->class_names[i];
        if (!name) continue;
        if (strchr(name, ',')) return STOKE_OK;
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%u:%s", used ? "," : "", i, name);
        if (used >= sizeof list) return STOKE_OK;
    }
    setup->train.names = stk_resolve_keep(s, list);
    return setup->train.names ? STOKE_OK : STOKE_E_NOMEM;
}

/* Names of classes, as many as are known. */
static int keep_names(stk_resolve_ctx *s, const stoke_labels *labels)
{
    stk_setup *setup = s->setup;
    int any = 0;
    const char **names = stk_calloc(setup->classes, sizeof *names);
    if (!names) return stk_fail(s->err, STOKE_E_NOMEM, "no memory for the names of classes");
    setup->class_names = names;
    for (uint32_t i = 0; i < setup->classes; i++) {
        /* One logit says how much of class 1 there is. */
        const char *name = stoke_labels_name(labels, setup->classes == 1 ? 1 : i);
        if (!name && setup->classes == 1) name = stoke_labels_name(labels, 0);
        if (name && !(names[i] = stk_resolve_keep(s, name))) return STOKE_E_NOMEM;
        any |= name != NULL;
    }
    if (any) return STOKE_OK;
    stk_free(names);
    setup->class_names = NULL;
    return STOKE_OK;
}

int stk_resolve_names(stk_resolve_ctx *s)
{
    stoke_labels *labels = NULL;
    stk_names names;
    int r = stk_labels_of(&labels, &s->setup->train, s->err);
    if (!r) r = stk_names_add(labels, &s->setup->train, &names, s->err);
    const uint32_t classes = s->setup->classes > 1 ? s->setup->classes : 2;
    if (!r) stk_names_judge(labels, &names, classes, s->say, s->context);
    if (!r) r = keep_names(s, labels);
    if (!r && s->setup->class_names && *names.origin) r = keep_list(s);
    stoke_labels_destroy(&labels);
    return r;
}

/* ---- pairs of classes ---- */

/* Images and masks by their headers, all of them: whether they fit each other, which way up they are, and the
 * size they are brought to. */

enum {
    SIZE_MOST = 512, /* a b0 then trains 8 pictures in 1.6 GB, loaders included */
    PATCH_MOST = 192 /* chosen for restoration: what is learned is as large as a few pixels */
};

/* ---- size ---- */

static int ascending(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* What sides are rounded to. */
static uint32_t size_unit(const stk_resolve_ctx *s)
{
    return s->network->side_chosen ? s->network->side_chosen : s->network->side_multiple;
}

static uint32_t rounded(double side, uint32_t unit)
{
    const uint32_t n = (uint32_t)(side / unit + 0.5);
    return (n ? n : 1) * unit;
}

static void choose_size(stk_resolve_ctx *s, uint32_t height, uint32_t width, int alike)
{
    stoke_data_params *p = &s->setup->train;
    const uint32_t longer = height > width ? height : width;
    const double scale = longer > SIZE_MOST ? (double)SIZE_MOST / longer : 1;
    const uint32_t unit = size_unit(s);
    p->size[0] = rounded(height * scale, unit);
    p->size[1] = rounded(width * scale, unit);
    if (p->size[0] == height && p->size[1] == width)
        stk_resolve_say(s, "Pictures are taken at %ux%u (height x width), %s (`size` sets it).", height,
                        width, alike ? "as they are" : "the size in the middle");
    else
        stk_resolve_say(s,
                        "Pictures are brought to %ux%u (height x width): %s %ux%u, and the network likes "
                        "multiples of %u up to %d (`size` sets it).",
                        p->size[0], p->size[1], alike ? "they are" : "the one in the middle is", height,
                        width, unit, SIZE_MOST);
}

/* Where nobody chose an augmentation: restoration knows no up and down. */
static void take_patches(stk_resolve_ctx *s)
{
    stoke_data_params *p = &s->setup->train;
    if (p->augment && *p->augment && strcmp(p->augment, "none") != 0) return;
    p->augment = stk_setup_restores(s->setup) ? "random_crop,hflip,vflip" : "random_crop,hflip";
}

int stk_resolve_patch(stk_resolve_ctx *s)
{
    stoke_data_params *p = &s->setup->train;
    const uint32_t side = (uint32_t)s->setup->params.patch_size;
    const int restores = stk_setup_restores(s->setup);
    if (!side) { /* of restored pictures it may yet be chosen */
        if (!p->augment && (!restores || p->size[0])) p->augment = restores ? "hflip,vflip" : "standard";
        return STOKE_OK;
    }
    if (p->size[0] && (p->size[0] != side || p->size[1] != side))
        return stk_fail(s->err, STOKE_E_INVALID,
                        "`patch_size` %u and `size` %ux%u: both say how large samples are; give one of them",
                        side, p->size[0], p->size[1]);
    p->size[0] = p->size[1] = side;
    take_patches(s);
    return STOKE_OK;
}

/* Of pictures to be restored: the smaller side of the picture in the middle, up to PATCH_MOST. */
static void choose_patch(stk_resolve_ctx *s, uint32_t height, uint32_t width)
{
    stoke_data_params *p = &s->setup->train;
    const uint32_t unit = s->network->side_multiple;
    uint32_t side = height < width ? height : width;
    if (side > PATCH_MOST) side = PATCH_MOST;
    if (side > unit) side -= side % unit;
    p->size[0] = p->size[1] = side;
    take_patches(s);
    stk_resolve_say(s,
                    "Training takes windows of %ux%u out of the pictures (`augment` %s), at their own scale "
                    "(`patch_size` sets it; `size` alone brings whole pictures to a size).",
                    side, side, p->augment);
}

/* The picture in the middle of those that could be read, by height and by width, with its proportions. */
static int settle_size(stk_resolve_ctx *s, const stk_pairs *pairs)
{
    const stoke_dataset *set = s->setup->train_set;
    const uint64_t count = stoke_dataset_count(set);
    uint32_t middle[2] = { 0 }; /* width, height */
    int alike = 1;
    if (s->setup->train.size[0]) return STOKE_OK;
    uint32_t *sides = stk_alloc(count * sizeof *sides);
    if (!sides) return stk_fail(s->err, STOKE_E_NOMEM, "no memory to sort the pictures");
    for (int side = 0; side < 2; side++) {
        size_t n = 0;
        for (uint64_t i = 0; i < count; i++)
            if (pairs->size[i][0]) sides[n++] = pairs->size[i][side];
        if (!n) break;
        qsort(sides, n, sizeof *sides, ascending);
        middle[side] = sides[n / 2];
        alike &= sides[0] == sides[n - 1];
    }
    stk_free(sides);
    if (!middle[0])
        return stk_fail(s->err, STOKE_E_FORMAT,
                        "`size` is not set, and none of the pictures can be read to choose it (%s): `stoke "
                        "verify` says why",
                        stoke_dataset_sample(set, 0).image_path);
    if (stk_setup_restores(s->setup))
        choose_patch(s, middle[1], middle[0]);
    else
        choose_size(s, middle[1], middle[0], alike);
    return STOKE_OK;
}

/* ---- pairs ---- */

int stk_resolve_unusable(const stk_resolve_ctx *s, int val, uint64_t bad, uint64_t looked, int code,
                         const char *does, const char *do_, const char *what, const char *first)
{
    const uint64_t count = bad ? stoke_dataset_count(val ? s->setup->val_set : s->setup->train_set) : 0;
    uint64_t allowed;
    const char *noun = stk_setup_restores(s->setup) ? "targets" : "masks";
    if (!bad) return STOKE_OK;
    const int r = stk_max_bad_limit(s->setup->train.max_bad, count, &allowed, s->err);
    if (r) return r;
    /* Of a large set only some masks were looked at: twice the share that is allowed is no accident. */
    if (bad > allowed || (double)bad / (double)looked > 2 * (double)allowed / (double)count)
        return stk_fail(s->err, code, "%llu of %llu %s %s %s, and `max_bad` allows %s. The first: %s",
                        (unsigned long long)bad, (unsigned long long)looked, noun, do_, what,
                        STOKE_COUNT(allowed, "bad sample"), first);
    stk_resolve_say(s, "%llu of %llu %s %s %s and cannot be used, the first: %s; `stoke verify` lists them.",
                    (unsigned long long)bad, (unsigned long long)looked, noun, bad == 1 ? does : do_, what,
                    first);
    return STOKE_OK;
}

int stk_resolve_pairs(stk_resolve_ctx *s)
{
    const stk_setup *setup = s->setup;
    const stoke_dataset *sets[] = { setup->train_set, setup->val_set };
    stoke_data_params *p = &s->setup->train;
    stk_pairs train = { 0 }, *pairs[] = { &train, &s->val };
    stk_pair_counts both = { 0 };
    stk_resolve_count count = { .s = s };
    int r = STOKE_OK;
    for (int i = 0; i < 2; i++) count.total += sets[i] ? stoke_dataset_count(sets[i]) : 0;
    for (int i = 0; !r && i < 2 && sets[i]; i++) {
        r = stk_pairs_look(pairs[i], sets[i], p, stk_resolve_counted, &count, s->err);
        count.before += stoke_dataset_count(sets[i]);
    }
    for (int i = 0; !r && i < 2 && sets[i]; i++) {
        stk_pair_counts_add(&both, &pairs[i]->counts);
        r = stk_resolve_unusable(s, i, pairs[i]->counts.differ, stoke_dataset_count(sets[i]), STOKE_E_SIZE,
                                 "has", "have",
                                 stk_setup_restores(setup) ? "another size than `scale` asks for"
                                                           : "another size than their image",
                                 pairs[i]->first.message);
    }
    if (!r) {
        stk_pair_remarks(&both, (stoke_orientation)p->orientation, s->say, s->context);
        p->orientation = stk_pair_settle(&both, (stoke_orientation)p->orientation);
        if (p->orientation == STOKE_ORIENTATION_AUTO && !both.upright && both.stored) {
            /* A network that learned from pictures as they are stored is to predict from such. */
            p->orientation = STOKE_ORIENTATION_IGNORE;
            stk_resolve_say(s, "So is every picture this run's network will predict (`orientation` ignore).");
        }
        r = settle_size(s, &train);
    }
    stk_pairs_free(&train);
    return r;
}

/* ---- data ---- */

enum {
    FEWEST_SPLIT = 5 /* samples; of fewer, none can be spared for validation */
};

/* ---- sets ---- */

/* Settings that the data path knows and training has no use for. */
static int check_data(const stk_resolve_ctx *s)
{
    const stoke_data_params *p = &s->setup->train;
    if (p->epoch)
        return stk_fail(s->err, STOKE_E_INVALID,
                        "`epoch` %lld: training begins at the beginning; `epochs` says how many there are, "
                        "and `resume` goes on with a run",
                        (long long)p->epoch);
    if (p->world != 1 || p->rank)
        return stk_fail(s->err, STOKE_E_INVALID,
                        "`world` %lld, `rank` %lld: training finds these out by itself; mpirun, srun or "
                        "torchrun starts its "
                        "processes",
                        (long long)p->world, (long long)p->rank);
    if (p->split == STOKE_SPLIT_VAL || p->split == STOKE_SPLIT_TEST)
        return stk_fail(s->err, STOKE_E_INVALID,
                        "`split` %s: training takes the train part and validates on val; leave `split` out",
                        p->split == STOKE_SPLIT_VAL ? "val" : "test");
    if (p->weights && p->order != STOKE_ORDER_WEIGHTED)
        return stk_fail(s->err, STOKE_E_INVALID,
                        "`weights` %s has no effect without `order` weighted: give both or neither",
                        p->weights);
    return STOKE_OK;
}

static void force_data(const stk_resolve_ctx *s)
{
    stoke_data_params *p = &s->setup->train;
    if (stoke_data_image_dtype(p) != STOKE_DTYPE_F32 || p->layout != STOKE_LAYOUT_CHW)
        stk_resolve_say(
            s, "Pictures go to the network as f32 in chw layout, whatever `dtype` and `layout` say.");
    p->dtype = STOKE_IMAGE_DTYPE_F32;
    p->layout = STOKE_LAYOUT_CHW;
}

static uint64_t count_val(const stoke_dataset *all, double share, int64_t seed)
{
    uint64_t n = 0;
    for (uint64_t i = 0; i < stoke_dataset_count(all); i++) {
        const char *name = stoke_dataset_sample(all, i).name;
        n += (uint64_t)stk_split_is_val(name, strlen(name), share, seed);
    }
    return n;
}

/* The hash decides by name, so of few samples it may take none, or half: 0.2 where that takes a tenth to
 * three tenths of them, else the share that comes nearest to a fifth. 0: none leaves something on both sides.
 */
static double share_for_val(const stoke_dataset *all, int64_t seed)
{
    const double usual = 0.2, wanted = usual * (double)stoke_dataset_count(all);
    const double at_usual = (double)count_val(all, usual, seed);
    if (at_usual >= 0.5 * wanted && at_usual <= 1.5 * wanted) return usual;
    double best = 0, least = (double)stoke_dataset_count(all);
    for (int twentieths = 1; twentieths <= 12; twentieths++) {
        const double n = (double)count_val(all, twentieths / 20.0, seed), off = fabs(n - wanted);
        if (n > 0 && 2 * n <= (double)stoke_dataset_count(all) && off < least)
            least = off, best = twentieths / 20.0;
    }
    return best;
}

/* From the whole set: what to train on, what to validate on, and a sentence about it. */
static void choose_parts(const stk_resolve_ctx *s, const stoke_dataset *all)
{
    stoke_data_params *p = &s->setup->train;
    const int own = stk_dataset_has_parts(all);
    if (!own && p->val_split <= 0 && stoke_dataset_count(all) >= FEWEST_SPLIT) {
        p->val_split = share_for_val(all, p->split_seed);
        if (p->val_split > 0)
            stk_resolve_say(s,
                            "The set has no val part of its own: `val_split` %g puts about that share of the "
                            "samples aside for validation, chosen by their names.",
                            p->val_split);
    }
    if (own || p->val_split > 0) {
        p->split = STOKE_SPLIT_TRAIN;
        return;
    }
    s->setup->params.eval_every = 0;
    stk_resolve_say(s,
                    "All of the set (%s) is trained on and nothing validates: there is too little to spare "
                    "any. Curves will show the loss of training alone.",
                    STOKE_COUNT(stoke_dataset_count(all), "sample"));
}

static int open_parts(const stk_resolve_ctx *s)
{
    stk_setup *setup = s->setup;
    int r = stoke_dataset_open(&setup->train_set, &setup->train, s->err);
    if (r) return r;
    if (!setup->params.eval_every) {
        if (setup->params.patience)
            stk_resolve_say(
                s, "`patience` stops nothing in this run: gains are seen in validation, and there is none.");
        return r;
    }
    stoke_data_params val = setup->train;
    val.split = STOKE_SPLIT_VAL;
    return stoke_dataset_open(&setup->val_set, &val, s->err);
}

static int check_sets(const stk_resolve_ctx *s)
{
    const stk_setup *setup = s->setup;
    if (!stoke_dataset_has_masks(setup->train_set) && !stoke_dataset_has_targets(setup->train_set))
        return stk_fail(s->err, STOKE_E_INVALID,
                        "%s has images and no masks: training needs a mask for every image (in a folder "
                        "beside them, such as images/ and masks/)",
                        setup->train.data     ? setup->train.data
                        : setup->train.images ? setup->train.images
                                              : setup->train.list);
    if (setup->val_set)
        stk_resolve_say(s, "%s to train on and %llu to validate on%s.",
                        STOKE_COUNT(stoke_dataset_count(setup->train_set), "sample"),
                        (unsigned long long)stoke_dataset_count(setup->val_set),
                        setup->train.val_split > 0 ? "" : ", as the set is divided");
    char unread[256];
    if (*stoke_dataset_unread(setup->train_set, unread, sizeof unread))
        stk_resolve_say(s, "Left out: %s; " STOKE_FORMATS_AND " are read.", unread);
    const size_t notes = stoke_dataset_notes(setup->train_set);
    if (notes)
        stk_resolve_say(s,
                        "%zu file%s left out, without a partner or with the name of another (first: %s); "
                        "`stoke verify` lists them.",
                        notes, notes == 1 ? " is" : "s are", stoke_dataset_note(setup->train_set, 0).path);
    return STOKE_OK;
}

int stk_resolve_sets(stk_resolve_ctx *s)
{
    stk_setup *setup = s->setup;
    int r = check_data(s);
    if (r) return r;
    force_data(s);
    if (setup->params.eval_every) {
        stoke_data_params whole = setup->train;
        stoke_dataset *all = NULL;
        whole.split = STOKE_SPLIT_ALL;
        r = stoke_dataset_open(&all, &whole, s->err);
        if (!r) choose_parts(s, all);
        stoke_dataset_close(&all);
    }
    if (!r) r = open_parts(s);
    return r ? r : check_sets(s);
}
