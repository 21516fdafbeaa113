/* SPDX-License-Identifier: Apache-2.0
 *
 * Pictures in somebody's memory, as the whole image and the whole mask of a job. What follows is
 * stk_draw_plan and stk_prefix_cut.
 */
#ifndef STOKE_SRC_LOADER_GIVEN_H
#define STOKE_SRC_LOADER_GIVEN_H

#include <stoke/rows.h>

#include "src/loader/job.h"

int stk_given_image(stk_job *job, const stoke_pixels *pixels);
int stk_given_ids(stk_job *job, const stoke_pixels *pixels);

#endif
