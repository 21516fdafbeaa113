/* SPDX-License-Identifier: Apache-2.0
 *
 * Which samples train and which validate.
 */
#include "src/train/resolve.h"

#include <math.h>
#include <string.h>

#include "src/augment/pipeline.h"
#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/source/split.h"
#include <stoke/tools/terminal.h>
#include <stoke/tools/data.h>
#include <stoke/tools/dataset.h>

enum {
    FEWEST_SPLIT = 5 /* samples; of fewer, none can be spared for validation */
};

/* ---- sets ---- */

/* Settings that the data path knows and training has no use for. */
static int check_data(const stk_resolve_ctx *s)
{
    const stoke_data_params *p = &s->setup->train;
    if (p->epoch)
        return stk_fail(
            s->err, STOKE_E_INVALID,
            "`epoch` %lld: training begins at the beginning; `epochs` says how many there are, and "
            "`resume` goes on with a run",
            (long long)p->epoch);
    if (p->world != 1 || p->rank)
        return stk_fail(s->err, STOKE_E_INVALID, "`world` %lld, `rank` %lld: training runs in one process",
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
    p->normalize = STOKE_NORMALIZE_IMAGENET;
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
            stk_resolve_say(
                s,
                "The set has no val part of its own: `val_split` %g puts about that share of the samples "
                "aside for validation, chosen by their names.",
                p->val_split);
    }
    if (own || p->val_split > 0) {
        p->split = STOKE_SPLIT_TRAIN;
        return;
    }
    s->setup->params.eval_every = 0;
    stk_resolve_say(s,
                    "All of the set (%s) is trained on and nothing validates: there is too little to "
                    "spare any. Curves will show the loss of training alone.",
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
    if (!stoke_dataset_has_masks(setup->train_set))
        return stk_fail(
            s->err, STOKE_E_INVALID,
            "%s has images and no masks: training needs a mask for every image (in a folder beside "
            "them, such as images/ and masks/)",
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
        stk_resolve_say(
            s,
            "%zu file%s left out, without a partner or with the name of another (first: %s); `stoke "
            "verify` lists them.",
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

/* ---- values ---- */

/* Nothing is drawn in validation, but a network must see values of the kind it learns from, as it does when
 * it predicts (predict_learn.c). 17 digits give the same numbers again. */
int stk_resolve_val_augment(stk_resolve_ctx *s, const char **augment)
{
    stoke_pipeline *pipeline = NULL;
    double m[3], d[3];
    char text[256];
    *augment = "none";
    const int r = stoke_pipeline_create(&pipeline, s->setup->train.augment, s->err);
    if (!r && stk_pipeline_normalize(pipeline, m, d)) {
        snprintf(text, sizeof text, "normalize(mean=%.17g,%.17g,%.17g,std=%.17g,%.17g,%.17g)", m[0], m[1],
                 m[2], d[0], d[1], d[2]);
        *augment = stk_resolve_keep(s, text);
    }
    stoke_pipeline_destroy(&pipeline);
    return r || *augment ? r : STOKE_E_NOMEM;
}
