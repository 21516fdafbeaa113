/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of the parts, and the public view of them.
 */
#include "src/net/net.h"

#include <string.h>
#include <stoke/tools/net.h>


static const char *const NAMES[STK_PARTS] = {
    [STK_PART_PACK] = "pack weights",
    [STK_PART_EMBED_FORWARD] = "patch embedding forward",
    [STK_PART_EMBED_WEIGHT] = "patch embedding weight",
    [STK_PART_EMBED_INPUT] = "patch embedding input",
    [STK_PART_REDUCTION_FORWARD] = "reduction forward",
    [STK_PART_REDUCTION_WEIGHT] = "reduction weight",
    [STK_PART_REDUCTION_INPUT] = "reduction input",
    [STK_PART_LINEAR_FORWARD] = "linear forward",
    [STK_PART_LINEAR_WEIGHT] = "linear weight",
    [STK_PART_LINEAR_INPUT] = "linear input",
    [STK_PART_NORM_FORWARD] = "layer norm forward",
    [STK_PART_NORM_BACKWARD] = "layer norm backward",
    [STK_PART_ATTENTION_FORWARD] = "attention forward",
    [STK_PART_ATTENTION_BACKWARD] = "attention backward",
    [STK_PART_DEPTHWISE_FORWARD] = "depthwise forward",
    [STK_PART_DEPTHWISE_BACKWARD] = "depthwise backward",
    [STK_PART_HEAD_FORWARD] = "head forward",
    [STK_PART_HEAD_BACKWARD] = "head backward",
    [STK_PART_LOSS] = "loss",
    [STK_PART_UPDATE] = "clip and update",
};

size_t stoke_net_parts(const stoke_net *net, stoke_net_part *parts, size_t capacity)
{
    size_t count = 0;
    for (int i = 0; i < STK_PARTS && count < capacity; i++) {
        if (!net->parts.calls[i]) continue;
        parts[count++] = (stoke_net_part){ .name = NAMES[i],
                                           .ms = (double)net->parts.ns[i] * 1e-6,
                                           .calls = net->parts.calls[i] };
    }
    return count;
}

void stoke_net_parts_reset(stoke_net *net)
{
    memset(&net->parts, 0, sizeof net->parts);
}
