/* SPDX-License-Identifier: Apache-2.0
 *
 * Images and masks by their headers, all of them: whether they fit each other, which way up they are, and the
 * size they are brought to.
 */
#include "src/train/resolve.h"

#include <stdlib.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/source/pairs.h"
#include "src/source/quarantine.h"
#include <stoke/tools/terminal.h>

enum {
    SIZE_MULTIPLE = 32, /* the last stage sees a 32nd of the picture */
    SIZE_MOST = 512     /* a b0 then trains 8 pictures in 1.6 GB, loaders included */
};

/* ---- size ---- */

static int ascending(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* Heights (side 1) or widths (side 0) of what could be read, ascending. */
static uint32_t *sorted(const stk_pairs *pairs, uint64_t count, int side, uint64_t *n)
{
    uint32_t *sides = stk_alloc(count * sizeof *sides);
    *n = 0;
    for (uint64_t i = 0; sides && i < count; i++)
        if (pairs->size[i][0]) sides[(*n)++] = pairs->size[i][side];
    if (sides && *n) qsort(sides, *n, sizeof *sides, ascending);
    return sides;
}

static uint32_t rounded(double side)
{
    const uint32_t n = (uint32_t)(side / SIZE_MULTIPLE + 0.5);
    return (n ? n : 1) * SIZE_MULTIPLE;
}

static void choose_size(stk_resolve_ctx *s, uint32_t height, uint32_t width, int alike)
{
    stoke_data_params *p = &s->setup->train;
    const uint32_t longer = height > width ? height : width;
    const double scale = longer > SIZE_MOST ? (double)SIZE_MOST / longer : 1;
    p->size[0] = rounded(height * scale);
    p->size[1] = rounded(width * scale);
    if (p->size[0] == height && p->size[1] == width)
        stk_resolve_say(s, "Pictures are taken at %ux%u (height x width), %s (`size` sets it).", height,
                        width, alike ? "as they are" : "the size in the middle");
    else
        stk_resolve_say(s,
                        "Pictures are brought to %ux%u (height x width): %s %ux%u, and the network likes "
                        "multiples of %d up to %d (`size` sets it).",
                        p->size[0], p->size[1], alike ? "they are" : "the one in the middle is", height,
                        width, SIZE_MULTIPLE, SIZE_MOST);
}

/* The picture in the middle, by height and by width, with its proportions. */
static int settle_size(stk_resolve_ctx *s, const stk_pairs *pairs)
{
    const stoke_dataset *set = s->setup->train_set;
    uint64_t n = 0;
    if (s->setup->train.size[0]) return STOKE_OK;
    uint32_t *heights = sorted(pairs, stoke_dataset_count(set), 1, &n),
             *widths = sorted(pairs, stoke_dataset_count(set), 0, &n);
    int r = heights && widths ? STOKE_OK : stk_fail(s->err, STOKE_E_NOMEM, "no memory to sort the pictures");
    if (!r && !n)
        r = stk_fail(s->err, STOKE_E_FORMAT,
                     "`size` is not set, and none of the pictures can be read to choose it (%s): `stoke "
                     "verify` says why",
                     stoke_dataset_sample(set, 0).image_path);
    if (!r)
        choose_size(s, heights[n / 2], widths[n / 2],
                    heights[0] == heights[n - 1] && widths[0] == widths[n - 1]);
    stk_free(heights);
    stk_free(widths);
    return r;
}

/* ---- pairs ---- */

/* What a loader would find one by one, before it ends for too many of them. */
static int judge_sizes(const stk_resolve_ctx *s, const stoke_dataset *set, const stk_pairs *pairs)
{
    const uint64_t differ = pairs->counts.differ, count = stoke_dataset_count(set);
    uint64_t allowed;
    if (!differ) return STOKE_OK;
    const int r = stk_fuse_limit(s->setup->train.max_bad, count, &allowed, s->err);
    if (r) return r;
    if (differ > allowed)
        return stk_fail(s->err, STOKE_E_SIZE,
                        "%llu of %llu masks have another size than their image, and `max_bad` allows %s. "
                        "The first: %s",
                        (unsigned long long)differ, (unsigned long long)count,
                        STOKE_COUNT(allowed, "bad sample"), pairs->first.message);
    stk_resolve_say(
        s,
        "%llu of %llu masks %s another size than their image and cannot be used, the first: %s; `stoke "
        "verify` lists them.",
        (unsigned long long)differ, (unsigned long long)count, differ == 1 ? "has" : "have",
        pairs->first.message);
    return STOKE_OK;
}

static void say_it(void *context, const char *sentence)
{
    stk_resolve_say(context, "%s", sentence);
}

/* A network that learned from pictures as they are stored is to predict from such: the run says so. */
static void settle_orientation(stk_resolve_ctx *s, const stk_pair_counts *counts)
{
    stoke_data_params *p = &s->setup->train;
    stk_pair_remarks(counts, (stoke_orientation)p->orientation, say_it, s);
    p->orientation = stk_pair_settle(counts, (stoke_orientation)p->orientation);
    if (p->orientation != STOKE_ORIENTATION_AUTO || counts->upright || !counts->stored) return;
    p->orientation = STOKE_ORIENTATION_IGNORE;
    stk_resolve_say(s, "So is every picture this run's network will predict (`orientation` ignore).");
}

int stk_resolve_pairs(stk_resolve_ctx *s)
{
    const stk_setup *setup = s->setup;
    stk_pairs train = { 0 };
    stk_resolve_count count = { .s = s, .total = stoke_dataset_count(setup->train_set) };
    if (setup->val_set) count.total += stoke_dataset_count(setup->val_set);
    int r = stk_pairs_look(&train, setup->train_set, &setup->train, stk_resolve_counted, &count, s->err);
    count.before = stoke_dataset_count(setup->train_set);
    if (!r && setup->val_set)
        r = stk_pairs_look(&s->val, setup->val_set, &setup->train, stk_resolve_counted, &count, s->err);
    if (!r) r = judge_sizes(s, setup->train_set, &train);
    if (!r && setup->val_set) r = judge_sizes(s, setup->val_set, &s->val);
    if (!r) {
        stk_pair_counts both = train.counts;
        stk_pair_counts_add(&both, &s->val.counts);
        settle_orientation(s, &both);
        r = settle_size(s, &train);
    }
    stk_pairs_free(&train);
    return r;
}
