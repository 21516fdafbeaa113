/* SPDX-License-Identifier: Apache-2.0
 *
 * Crops of the output's size at the source's own scale. A source smaller than the output is not stretched: it
 * is placed inside, the rest is fill / ignore_index.
 */
#include "src/augment/op.h"

/* Where the smaller of source and output may begin in the larger: 0 .. room. */
static uint32_t room(uint32_t source, uint32_t out)
{
    return source > out ? source - out : out - source;
}

/* The start of the window for such an offset: in the source, or before it. */
static int64_t start(uint32_t source, uint32_t out, uint64_t offset)
{
    return source > out ? (int64_t)offset : -(int64_t)offset;
}

static int64_t random_start(uint32_t source, uint32_t out, uint32_t high, uint32_t low)
{
    return start(source, out, stk_below(stk_pair(high, low), room(source, out) + 1ull));
}

static void random_window(stk_rng r, stk_draft *draft)
{
    const stoke_draw *d = draft->draw;
    stk_draft_window(draft, random_start(d->source_width, d->out_width, r.word[0], r.word[1]),
                     random_start(d->source_height, d->out_height, r.word[2], r.word[3]));
}

static void draw_random(const void *args, const stk_op_random *random, stk_draft *draft)
{
    (void)args;
    random_window(random->first, draft);
}

static void draw_center(const void *args, const stk_op_random *random, stk_draft *draft)
{
    (void)args, (void)random;
    const stoke_draw *d = draft->draw;
    stk_draft_window(draft, start(d->source_width, d->out_width, room(d->source_width, d->out_width) / 2),
                     start(d->source_height, d->out_height, room(d->source_height, d->out_height) / 2));
}

const stk_op stk_op_random_crop = {
    .name = "random_crop",
    .summary = "Cut a window of the output's size at a random place; small sources are padded",
    .group = "geometry",
    .traits = STK_TRAIT_CROP,
    .draw = draw_random,
};

const stk_op stk_op_center_crop = {
    .name = "center_crop",
    .summary = "Cut the central window of the output's size; small sources are padded",
    .group = "geometry",
    .traits = STK_TRAIT_CROP,
    .draw = draw_center,
};

typedef struct foreground_args {
    double p;
    const char *background;
} foreground_args;

static const stoke_option foreground_options[] = {
    STK_P(foreground_args, "0.33"),
    STK_TEXT(foreground_args, background, "0", "IDS", "Classes that are not looked for, separated by commas"),
};

static int check_foreground(void *args, stk_op_constants *constants, stoke_error *err)
{
    const foreground_args *a = args;
    return stk_op_ids("background", a->background, 1, constants->background, STK_BACKGROUND_CLASSES,
                      &constants->n_background, err);
}

/* The window's start for a pixel in its middle, without leaving the source. A source that is smaller than the
 * window shows the pixel anyway and keeps its random place. */
static int64_t centred(uint32_t pixel, uint32_t source, uint32_t out, int64_t otherwise)
{
    if (source <= out) return otherwise;
    const int64_t wanted = (int64_t)pixel - out / 2, last = (int64_t)source - out;
    return wanted < 0 ? 0 : wanted > last ? last : wanted;
}

static void draw_foreground(const void *args, const stk_op_random *random, stk_draft *draft)
{
    const stoke_draw *d = draft->draw;
    random_window(stk_op_draw(random, 1), draft);
    if (!stk_op_hits(random, args)) return;
    if (d->focus) {
        stk_draft_window(draft, centred(d->focus[0], d->source_width, d->out_width, draft->window_x),
                         centred(d->focus[1], d->source_height, d->out_height, draft->window_y));
        return;
    }
    draft->plan->wants_focus = 1;
    draft->plan->focus_class = random->first.word[1];
    draft->plan->focus_pixel = random->first.word[2];
}

const stk_op stk_op_foreground_crop = {
    .name = "foreground_crop",
    .summary = "Cut a random window, or with probability p one around a class of the mask, any alike",
    .group = "geometry",
    STK_OPTIONS(foreground_options),
    .traits = STK_TRAIT_CROP | STK_TRAIT_FOCUS,
    .check = check_foreground,
    .draw = draw_foreground,
};
