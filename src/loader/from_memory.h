/* SPDX-License-Identifier: Apache-2.0
 *
 * Pictures in somebody's memory, as the whole image and the whole mask of a sample. What follows is
 * stk_draw_plan and stk_decode_fit_cut.
 */
#ifndef STOKE_SRC_LOADER_FROM_MEMORY_H
#define STOKE_SRC_LOADER_FROM_MEMORY_H

#include <stoke/rows.h>

#include "src/loader/sample_ctx.h"

int stk_from_memory_image(stk_sample_ctx *ctx, const stoke_pixels *pixels);
int stk_from_memory_ids(stk_sample_ctx *ctx, const stoke_pixels *pixels);

#endif
