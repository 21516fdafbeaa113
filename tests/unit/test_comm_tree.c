/* SPDX-License-Identifier: Apache-2.0
 *
 * The tree of lanes: what covers a range of them, and that folding any cover is folding the tree.
 */
#include "tests/unit/unit.h"

#include "src/comm/tree.h"

enum { MOST = 40 };

/* Nodes of the tree by their definition, in any order; how many. */
static uint32_t all_nodes(uint32_t lo, uint32_t hi, stk_tree_node *out)
{
    *out = (stk_tree_node){ lo, hi };
    if (hi - lo == 1) return 1;
    uint32_t half = 1;
    while (half * 2 < hi - lo) half *= 2;
    const uint32_t left = all_nodes(lo, lo + half, out + 1);
    return 1 + left + all_nodes(lo + half, hi, out + 1 + left);
}

/* The fewest nodes that make first .. end - 1, by trying all that begin at `first`. */
static uint32_t fewest(const stk_tree_node *nodes, uint32_t count, uint32_t first, uint32_t end)
{
    uint32_t least[MOST + 1] = { 0 }; /* for at .. end - 1 */
    for (uint32_t at = end; at-- > first;) {
        least[at] = MOST + 1;
        for (uint32_t i = 0; i < count; i++)
            if (nodes[i].lo == at && nodes[i].hi <= end && least[nodes[i].hi] + 1 < least[at])
                least[at] = least[nodes[i].hi] + 1;
    }
    return least[first];
}

static int is_node(const stk_tree_node *nodes, uint32_t count, stk_tree_node node)
{
    for (uint32_t i = 0; i < count; i++)
        if (nodes[i].lo == node.lo && nodes[i].hi == node.hi) return 1;
    return 0;
}

static void a_cover_is_a_partition_into_the_fewest_nodes(void **state)
{
    for (uint32_t lanes = 1; lanes <= MOST; lanes++) {
        stk_tree_node nodes[2 * MOST], cover[STK_TREE_COVER];
        const uint32_t count = all_nodes(0, lanes, nodes);
        for (uint32_t first = 0; first <= lanes; first++)
            for (uint32_t end = first; end <= lanes; end++) {
                const uint32_t n = stk_tree_cover(lanes, first, end, cover);
                uint32_t at = first;
                for (uint32_t k = 0; k < n; at = cover[k++].hi) {
                    assert_int_equal(cover[k].lo, at);
                    assert_true(is_node(nodes, count, cover[k]));
                }
                assert_int_equal(at, end);
                assert_int_equal(n, first < end ? fewest(nodes, count, first, end) : 0);
            }
    }
}

/* Of the largest trees; a cover that were longer would write past `cover`. */
static void a_cover_is_never_longer_than_promised(void **state)
{
    uint32_t longest = 0;
    for (uint32_t lanes = STK_TREE_LANES - 3; lanes <= STK_TREE_LANES; lanes++)
        for (uint32_t first = 0; first < 300; first++)
            for (uint32_t end = lanes - 300; end <= lanes; end++) {
                stk_tree_node cover[2 * STK_TREE_COVER];
                const uint32_t n = stk_tree_cover(lanes, first, end, cover);
                assert_true(n <= STK_TREE_COVER);
                if (n > longest) longest = n;
            }
    assert_true(longest > 15); /* the bound is not beside the matter */
}

static void halves_are_those_of_one_node(void **state)
{
    for (uint32_t lanes = 1; lanes <= MOST / 2; lanes++) {
        stk_tree_node nodes[2 * MOST];
        const uint32_t count = all_nodes(0, lanes, nodes);
        for (uint32_t i = 0; i < count; i++)
            for (uint32_t k = 0; k < count; k++) {
                const stk_tree_node joined = { nodes[i].lo, nodes[k].hi };
                const int halves = nodes[i].hi == nodes[k].lo && is_node(nodes, count, joined);
                assert_int_equal(stk_tree_are_halves(lanes, nodes[i], nodes[k]), halves);
            }
    }
    assert_false(stk_tree_are_halves(8, (stk_tree_node){ 1, 2 }, (stk_tree_node){ 2, 3 }));
    assert_false(stk_tree_are_halves(4, (stk_tree_node){ 0, 4 }, (stk_tree_node){ 4, 8 }));
    assert_false(stk_tree_are_halves(4, (stk_tree_node){ 0, 0 }, (stk_tree_node){ 0, 4 }));
}

/* Left to right, joining halves as they come: one node is left, that of all lanes. */
static void any_covers_fold_to_the_tree(void **state)
{
    for (uint32_t lanes = 1; lanes <= MOST; lanes++)
        for (uint32_t world = 1; world <= lanes + 2; world++) {
            stk_tree_node stack[2 * STK_TREE_COVER];
            uint32_t depth = 0;
            for (uint32_t q = 0; q < world; q++) {
                stk_tree_node cover[STK_TREE_COVER];
                const uint32_t n = stk_tree_cover(lanes, stk_tree_first(lanes, q, world),
                                                  stk_tree_first(lanes, q + 1, world), cover);
                for (uint32_t k = 0; k < n; k++) {
                    stack[depth++] = cover[k];
                    for (; depth > 1 && stk_tree_are_halves(lanes, stack[depth - 2], stack[depth - 1]);
                         depth--)
                        stack[depth - 2].hi = stack[depth - 1].hi;
                }
            }
            assert_int_equal(depth, 1);
            assert_int_equal(stack[0].lo, 0);
            assert_int_equal(stack[0].hi, lanes);
        }
}

static void lanes_are_spread_evenly(void **state)
{
    for (uint32_t lanes = 1; lanes <= MOST; lanes++)
        for (uint32_t world = 1; world <= MOST; world++) {
            assert_int_equal(stk_tree_first(lanes, 0, world), 0);
            assert_int_equal(stk_tree_first(lanes, world, world), lanes);
            for (uint32_t q = 0; q < world; q++) {
                const uint32_t n = stk_tree_first(lanes, q + 1, world) - stk_tree_first(lanes, q, world);
                assert_in_range(n, lanes / world, (lanes + world - 1) / world);
            }
        }
    assert_int_equal(stk_tree_first(4096, 4095, 4096), 4095);
}

UNIT_GROUP(comm_tree)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cover_is_a_partition_into_the_fewest_nodes),
        cmocka_unit_test(a_cover_is_never_longer_than_promised),
        cmocka_unit_test(halves_are_those_of_one_node),
        cmocka_unit_test(any_covers_fold_to_the_tree),
        cmocka_unit_test(lanes_are_spread_evenly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
