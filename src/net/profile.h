/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the time of a step goes. The caller's thread reads the clock after every operation (about 25 ns, some
 * 300 operations in a step of b0) and charges what has passed to that operation's part.
 */
#ifndef STOKE_SRC_NET_PROFILE_H
#define STOKE_SRC_NET_PROFILE_H

#include <stoke/net.h>

#include "src/base/clock.h"

typedef enum stk_profile_part {
    STK_PART_PACK,
    STK_PART_EMBED_FORWARD,
    STK_PART_EMBED_WEIGHT,
    STK_PART_EMBED_INPUT,
    STK_PART_REDUCTION_FORWARD,
    STK_PART_REDUCTION_WEIGHT,
    STK_PART_REDUCTION_INPUT,
    STK_PART_LINEAR_FORWARD,
    STK_PART_LINEAR_WEIGHT,
    STK_PART_LINEAR_INPUT,
    STK_PART_NORM_FORWARD,
    STK_PART_NORM_BACKWARD,
    STK_PART_ATTENTION_FORWARD,
    STK_PART_ATTENTION_BACKWARD,
    STK_PART_DEPTHWISE_FORWARD,
    STK_PART_DEPTHWISE_BACKWARD,
    STK_PART_HEAD_FORWARD,
    STK_PART_HEAD_BACKWARD,
    STK_PART_LOSS,
    STK_PART_UPDATE,
    STK_PARTS
} stk_profile_part;

typedef struct stk_profile {
    uint64_t last; /* when the clock was read */
    uint64_t ns[STK_PARTS], calls[STK_PARTS];
} stk_profile;

/* Work begins: what passed before is nobody's. */
static inline void stk_profile_start(stk_profile *parts)
{
    parts->last = stk_now_ns();
}

/* What has passed since the last reading was `part`. */
static inline void stk_profile_lap(stk_profile *parts, stk_profile_part part)
{
    const uint64_t now = stk_now_ns();
    parts->ns[part] += now - parts->last;
    parts->calls[part]++;
    parts->last = now;
}

#endif
