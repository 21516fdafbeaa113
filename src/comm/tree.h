/* SPDX-License-Identifier: Apache-2.0
 *
 * The order in which the gradients of lanes are added: one binary tree over all of them, whoever computes
 * them. A node is the lanes lo .. hi - 1; it is split at the largest power of two below their number, and its
 * value is left + right. So the sum has the same bits for any number of processes.
 */
#ifndef STOKE_SRC_COMM_TREE_H
#define STOKE_SRC_COMM_TREE_H

#include <stddef.h>
#include <stdint.h>

enum { STK_TREE_LANES = 4096, STK_TREE_COVER = 2 * 12 }; /* nodes that cover any range of lanes, at most */

typedef struct stk_tree_node {
    uint32_t lo, hi;
} stk_tree_node;

/* The fewest nodes of the tree over `lanes` that are the lanes first .. end - 1, in their order; how many. */
uint32_t stk_tree_cover(uint32_t lanes, uint32_t first, uint32_t end, stk_tree_node out[STK_TREE_COVER]);
/* Whether left and right are the halves of one node. */
int stk_tree_are_halves(uint32_t lanes, stk_tree_node left, stk_tree_node right);
/* The lanes of rank r of `world`: stk_tree_first(r) up to that of r + 1. */
uint32_t stk_tree_first(uint32_t lanes, uint32_t rank, uint32_t world);

#endif
