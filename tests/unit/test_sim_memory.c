/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory of a simulated GPU.
 */
#include "tests/unit/unit.h"

#include "src/device/sim.h"

enum { MIB = 1 << 20 };

static stk_sim_piece *take(stk_sim_memory *m, uint64_t bytes)
{
    stk_sim_piece *piece = NULL;
    stoke_error err;
    if (stk_sim_memory_take(m, bytes, "card", &piece, &err)) fail_msg("%s", err.message);
    return piece;
}

static void memory_is_kept_as_pytorch_keeps_it(void **state)
{
    stk_sim_memory m;
    stk_sim_memory_init(&m, UINT64_C(1) << 30);
    assert_int_equal(stk_sim_memory_left(&m), 512 * MIB);
    stk_sim_piece *a = take(&m, 1);
    assert_int_equal(m.allocated, 512);
    assert_int_equal(m.reserved, 2 * MIB);
    stk_sim_piece *b = take(&m, 513);
    assert_int_equal(m.allocated, 512 + 1024);
    assert_int_equal(m.reserved, 2 * MIB);
    assert_int_equal(stk_piece_address(b) - stk_piece_address(a), 512);
    /* 1 MiB is small, a byte more is not: from a segment of 20 MiB. */
    stk_sim_piece *c = take(&m, MIB);
    assert_int_equal(m.reserved, 2 * MIB);
    stk_sim_piece *d = take(&m, MIB + 1);
    assert_int_equal(m.reserved, 22 * MIB);
    /* 10 MiB would have a segment of their own, but there is room in that one. */
    stk_sim_piece *e = take(&m, 10 * MIB);
    assert_int_equal(m.reserved, 22 * MIB);
    stk_sim_piece *f = take(&m, 11 * MIB + 1);
    assert_int_equal(m.reserved, 34 * MIB); /* 12 MiB: rounded up to 2 */
    /* The rest of it is below 1 MiB and belongs to the block. */
    assert_int_equal(m.allocated, 512 + 1024 + MIB + (MIB + 512) + 10 * MIB + 12 * MIB);

    /* Freed blocks stay, grow together, and are used again. */
    const uint64_t place = stk_piece_address(a);
    stk_sim_memory_give(&m, a);
    stk_sim_memory_give(&m, c);
    stk_sim_memory_give(&m, b); /* between two free ones */
    assert_int_equal(m.reserved, 34 * MIB);
    a = take(&m, MIB);
    assert_int_equal(stk_piece_address(a), place);
    /* The smallest that is large enough, not the first that is found. */
    stk_sim_piece *g = take(&m, 30 * MIB);
    const uint64_t fitting = stk_piece_address(f);
    stk_sim_memory_give(&m, f);
    stk_sim_memory_give(&m, g);
    f = take(&m, 12 * MIB);
    assert_int_equal(stk_piece_address(f), fitting);
    assert_int_equal(m.reserved, 64 * MIB);
    stk_sim_memory_give(&m, e);
    stk_sim_memory_give(&m, f);
    stk_sim_memory_give(&m, a);
    stk_sim_memory_give(&m, d);
    assert_int_equal(m.allocated, 0);
    assert_int_equal(m.reserved, 64 * MIB);
    assert_int_equal(m.peak_reserved, 64 * MIB);
    assert_int_equal(m.flushes, 0);
    stk_sim_memory_free(&m);
}

static void what_is_kept_goes_back_before_memory_is_out(void **state)
{
    stk_sim_memory m;
    stoke_error err;
    stk_sim_piece *piece;
    stk_sim_memory_init(&m, (512 + 100) * (uint64_t)MIB);
    stk_sim_piece *a = take(&m, 60 * MIB), *b = take(&m, 8 * MIB);
    assert_int_equal(m.reserved, 80 * MIB);
    stk_sim_memory_give(&m, a);
    a = take(&m, 70 * MIB); /* not in the 60, not in the 20 that are left: the 60 go back first */
    assert_int_equal(m.flushes, 1);
    assert_int_equal(m.reserved, 90 * MIB);
    /* 12 MiB are free in the segment of b and 10 on the card: that is out of memory for 13, as it is there.
     */
    assert_int_equal(stk_sim_memory_take(&m, 13 * MIB, "sim:small", &piece, &err), STOKE_E_NOMEM);
    assert_null(piece);
    assert_string_equal(
        err.message,
        "sim:small (emulated) is out of memory: 13 MiB were asked for, which takes a segment "
        "of 14 MiB, and 10 MiB are left of 612 MiB: 512 MiB the driver's context, 78 MiB in use, "
        "12 MiB kept in pieces between them (largest 12 MiB); take a smaller batch or picture, "
        "fewer batches ahead (depth), or a card with more memory");
    stk_sim_piece *c = take(&m, 12 * MIB);
    assert_int_equal(stk_sim_memory_take(&m, UINT64_MAX, "sim:small", &piece, &err), STOKE_E_NOMEM);
    stk_sim_memory_give(&m, c);
    stk_sim_memory_give(&m, b);
    stk_sim_memory_give(&m, a);
    stk_sim_memory_free(&m);
}

/* Whatever is taken and given back: sums are right, blocks do not overlap, and nothing is lost. */
static void random_blocks_never_overlap(void **state)
{
    enum { BLOCKS = 40, TURNS = 4000 };
    struct {
        stk_sim_piece *piece;
        uint64_t bytes;
    } held[BLOCKS] = { 0 };
    stk_sim_memory m;
    stoke_error err;
    unsigned seed = 3, refused = 0;
    stk_sim_memory_init(&m, UINT64_C(900) * MIB);
    for (int turn = 0; turn < TURNS; turn++) {
        const int i = rand_r(&seed) % BLOCKS;
        if (held[i].piece) {
            stk_sim_memory_give(&m, held[i].piece);
            held[i].piece = NULL;
        } else {
            held[i].bytes = ((uint64_t)rand_r(&seed) >> rand_r(&seed) % 20) % (40 * MIB) + 1;
            refused += stk_sim_memory_take(&m, held[i].bytes, "card", &held[i].piece, &err) != 0;
        }
        uint64_t sum = 0;
        for (int k = 0; k < BLOCKS; k++) {
            if (!held[k].piece) continue;
            sum += held[k].bytes;
            const uint64_t at = stk_piece_address(held[k].piece);
            for (int j = 0; j < k; j++)
                if (held[j].piece) {
                    const uint64_t other = stk_piece_address(held[j].piece);
                    assert_true(at + held[k].bytes <= other || other + held[j].bytes <= at);
                }
        }
        assert_true(sum <= m.allocated && m.allocated <= m.reserved);
        assert_true(m.reserved + m.context <= m.capacity);
    }
    assert_true(refused > 0 && m.flushes > 0); /* the card was small enough to try both */
    for (int i = 0; i < BLOCKS; i++)
        if (held[i].piece) stk_sim_memory_give(&m, held[i].piece);
    assert_int_equal(m.allocated, 0);
    stk_sim_memory_free(&m);
}

UNIT_GROUP(sim_memory)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_kept_as_pytorch_keeps_it),
        cmocka_unit_test(what_is_kept_goes_back_before_memory_is_out),
        cmocka_unit_test(random_blocks_never_overlap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
