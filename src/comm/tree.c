/* SPDX-License-Identifier: Apache-2.0 */
#include "src/comm/tree.h"

/* Where a node of more than one lane is split. */
static uint32_t middle(stk_tree_node node)
{
    uint32_t half = 1;
    while (half * 2 < node.hi - node.lo) half *= 2;
    return node.lo + half;
}

/* Goes down to the nodes that lie inside of first .. end - 1. Those are the largest, so they are the fewest:
 * a node inside that is not among them is a part of one that is. */
static uint32_t cover(stk_tree_node node, uint32_t first, uint32_t end, stk_tree_node *out)
{
    if (node.hi <= first || end <= node.lo) return 0;
    if (first <= node.lo && node.hi <= end) {
        *out = node;
        return 1;
    }
    const uint32_t split = middle(node);
    const uint32_t left = cover((stk_tree_node){ node.lo, split }, first, end, out);
    return left + cover((stk_tree_node){ split, node.hi }, first, end, out + left);
}

uint32_t stk_tree_cover(uint32_t lanes, uint32_t first, uint32_t end, stk_tree_node out[STK_TREE_COVER])
{
    return first < end ? cover((stk_tree_node){ 0, lanes }, first, end, out) : 0;
}

int stk_tree_are_halves(uint32_t lanes, stk_tree_node left, stk_tree_node right)
{
    if (left.lo >= left.hi || left.hi != right.lo || right.lo >= right.hi || right.hi > lanes) return 0;
    stk_tree_node node = { 0, lanes };
    while (node.hi - node.lo > 1) {
        const uint32_t split = middle(node);
        if (node.lo == left.lo && node.hi == right.hi) return split == left.hi;
        if (right.hi <= split)
            node.hi = split;
        else if (split <= left.lo)
            node.lo = split;
        else
            return 0;
    }
    return 0;
}

uint32_t stk_tree_first(uint32_t lanes, uint32_t rank, uint32_t world)
{
    return (uint32_t)((uint64_t)lanes * rank / world);
}
