/* SPDX-License-Identifier: Apache-2.0
 *
 * Crops of the output's size at the source's own scale. A source smaller than the output is not stretched: it
 * is placed inside, the rest is fill / ignore_index.
 */
#include "src/augment/op.h"

/* Both sides of an axis: `offset` is where the smaller of source and output begins in the larger. */
static void cut_axis(uint32_t source, uint32_t out, uint32_t offset, uint32_t *start, uint32_t *length,
                     uint32_t *place)
{
    *start = source > out ? offset : 0;
    *place = source > out ? 0 : offset;
    *length = source > out ? out : source;
}

static uint32_t room(uint32_t source, uint32_t out)
{
    return source > out ? source - out : out - source;
}

static void cut(const stk_frame *frame, uint32_t x, uint32_t y, stoke_plan *plan)
{
    cut_axis(frame->source_width, frame->out_width, x, &plan->box.x, &plan->box.width, &plan->place_x);
    cut_axis(frame->source_height, frame->out_height, y, &plan->box.y, &plan->box.height, &plan->place_y);
    plan->width = plan->box.width;
    plan->height = plan->box.height;
}

static void draw_random(const void *args, const stk_op_random *random, const stk_frame *frame,
                        stoke_plan *plan)
{
    (void)args;
    const stk_random r = stk_op_draw(random, 0);
    const uint64_t x =
        stk_below(stk_pair(r.word[0], r.word[1]), room(frame->source_width, frame->out_width) + 1ull);
    const uint64_t y =
        stk_below(stk_pair(r.word[2], r.word[3]), room(frame->source_height, frame->out_height) + 1ull);
    cut(frame, (uint32_t)x, (uint32_t)y, plan);
}

static void draw_center(const void *args, const stk_op_random *random, const stk_frame *frame,
                        stoke_plan *plan)
{
    (void)args, (void)random;
    cut(frame, room(frame->source_width, frame->out_width) / 2,
        room(frame->source_height, frame->out_height) / 2, plan);
}

const stk_op stk_op_random_crop = {
    .name = "random_crop",
    .summary =
        "Cut a window of the output's size at a random place; smaller sources are padded, not stretched",
    .draw = draw_random,
};

const stk_op stk_op_center_crop = {
    .name = "center_crop",
    .summary = "Cut the central window of the output's size; smaller sources are padded, not stretched",
    .draw = draw_center,
};
