/* SPDX-License-Identifier: Apache-2.0 */
#include "src/augment/rectangle.h"

#include <math.h>

#include "src/base/exact_math.h"

int stk_random_rectangle(const stk_op_random *random, uint32_t first_draw, const double scale[2],
                         const double ratio[2], const uint32_t whole[2], uint32_t slack, uint32_t start[2],
                         uint32_t size[2])
{
    const double log_ratio[2] = { stk_log(ratio[0]), stk_log(ratio[1]) };
    const double area = (double)whole[0] * whole[1];
    for (uint32_t attempt = 0; attempt < 10; attempt++) {
        const stk_rng r = stk_op_draw(random, first_draw + attempt);
        const double share = stk_op_uniform(scale, r.word[0]) * area;
        const double aspect = stk_exp(stk_op_uniform(log_ratio, r.word[1]));
        const double side[2] = { floor(sqrt(share * aspect) + 0.5), floor(sqrt(share / aspect) + 0.5) };
        if (side[0] < 1 || side[1] < 1 || side[0] + slack > whole[0] || side[1] + slack > whole[1]) continue;
        for (int i = 0; i < 2; i++) {
            size[i] = (uint32_t)side[i];
            /* 32 random bits over at most 2^32 places: a bias of one part in 2^32 / places, which no picture
             * is large enough to show. */
            start[i] = (uint32_t)stk_below(stk_pair(r.word[2 + i], 0), whole[i] - size[i] + 1ull);
        }
        return 1;
    }
    return 0;
}
