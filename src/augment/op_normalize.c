/* SPDX-License-Identifier: Apache-2.0
 *
 * Not drawn: the writer of the batch does it, so it is a constant of the pipeline and the last word about the
 * values of an image.
 */
#include "src/augment/op.h"

typedef struct normalize_args {
    const char *mean, *std;
} normalize_args;

static const stoke_option options[] = {
    STK_TEXT(normalize_args, mean, "0.485,0.456,0.406", "R,G,B", "Subtracted from values of 0..1"),
    STK_TEXT(normalize_args, std, "0.229,0.224,0.225", "R,G,B", "What the difference is divided by"),
};

static int check(void *args, stk_op_constants *constants, stoke_error *err)
{
    const normalize_args *a = args;
    int r = stk_op_numbers("mean", a->mean, -1000, 1000, constants->mean, 3, err);
    /* 1e-4: far below one step of 8 bits (1/255); a zero would divide by nothing. */
    if (!r) r = stk_op_numbers("std", a->std, 1e-4, 1000, constants->std, 3, err);
    return r;
}

const stk_op stk_op_normalize = {
    .name = "normalize",
    .summary = "Subtract a mean and divide by a deviation, per channel; the last of the image ops",
    .group = "colour",
    STK_OPTIONS(options),
    .traits = STK_TRAIT_NORMALIZE,
    .check = check,
};
