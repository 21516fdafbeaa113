/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STOKE_SRC_AUGMENT_RECTANGLE_H
#define STOKE_SRC_AUGMENT_RECTANGLE_H

#include "src/augment/op.h"

/* A random rectangle by torchvision's rule: up to ten tries of an area (share of the whole, uniform in
 * `scale`) and a ratio a / b (log-uniform in `ratio`) until it fits into `whole` = { a, b }, then a uniform
 * place. `slack` is 1 when it must be smaller than the whole in both directions. Uses the draws from
 * `first_draw` on. 0 when none of the tries fits. */
int stk_random_rectangle(const stk_op_random *random, uint32_t first_draw, const double scale[2],
                         const double ratio[2], const uint32_t whole[2], uint32_t slack, uint32_t start[2],
                         uint32_t size[2]);

#endif
