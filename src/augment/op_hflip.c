/* SPDX-License-Identifier: Apache-2.0 */
#include "src/augment/op.h"

typedef struct hflip_args {
    double p;
} hflip_args;

static const stoke_option options[] = {
    { .name = "p",
      .type = STOKE_OPT_REAL,
      .offset = offsetof(hflip_args, p),
      .default_text = "0.5",
      .min = 0,
      .max = 1,
      .argument = "P",
      .help = "probability" },
};

static void draw(const void *args, const stk_op_random *random, const stk_frame *frame, stoke_plan *plan)
{
    (void)frame;
    if (stk_unit(stk_op_draw(random, 0).word[0]) < ((const hflip_args *)args)->p) plan->hflip ^= 1;
}

const stk_op stk_op_hflip = {
    .name = "hflip",
    .summary = "Mirror image and mask left-right with probability p",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .draw = draw,
};
