/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes from each rank to each, by the engine whose ranks are threads: exchange, gather, all, broadcast, and
 * what happens when one does not come.
 */
#include "tests/unit/unit.h"

#include "src/base/mem.h"
#include "tests/unit/fixture_ranks.h"

/* Bytes that rank a sends to rank b; some are none, some are many. */
static size_t size_of(uint32_t a, uint32_t b, uint32_t round)
{
    static const size_t sizes[] = { 0, 1, 7, 4096, 0, 100003 };
    return sizes[(a * 5 + b * 3 + round) % 6];
}

static uint8_t byte_of(uint32_t a, uint32_t b, uint32_t round, size_t i)
{
    return (uint8_t)(a * 31 + b * 7 + round * 101 + i * 13 + (i >> 8));
}

static void begin_parts(uint32_t own, uint32_t world, uint32_t round, stoke_comm_part *send,
                        stoke_comm_part *recv)
{
    for (uint32_t q = 0; q < world; q++) {
        send[q].bytes = size_of(own, q, round);
        recv[q].bytes = size_of(q, own, round);
        uint8_t *sent = send[q].data = malloc(send[q].bytes + 1);
        recv[q].data = calloc(recv[q].bytes + 1, 1);
        for (size_t i = 0; i < send[q].bytes; i++) sent[i] = byte_of(own, q, round, i);
    }
}

static void end_parts(uint32_t own, uint32_t world, uint32_t round, stoke_comm_part *send,
                      stoke_comm_part *recv)
{
    for (uint32_t q = 0; q < world; q++) {
        const uint8_t *come = recv[q].data;
        int wrong = 0;
        for (size_t i = 0; i < recv[q].bytes; i++) wrong += come[i] != byte_of(q, own, round, i);
        RANK_CHECK(!wrong && !come[recv[q].bytes]);
        free(send[q].data);
        free(recv[q].data);
    }
}

static void exchange_on_rank(stk_comm *comm, void *context)
{
    const uint32_t own = stk_comm_rank(comm), world = stk_comm_world(comm);
    for (uint32_t round = 0; round < 6; round++) {
        stoke_comm_part send[MOST_RANKS], recv[MOST_RANKS];
        begin_parts(own, world, round, send, recv);
        RANK_CHECK(stk_comm_exchange(comm, send, recv, NULL) == STOKE_OK);
        end_parts(own, world, round, send, recv);
    }
}

static void each_gets_what_each_sent(void **state)
{
    for (uint32_t world = 1; world <= MOST_RANKS; world++)
        assert_int_equal(run_ranks(world, 60, exchange_on_rank, NULL), 0);
}

/* Several on their way; the tables of parts are the caller's again at once. */
static void overlap_on_rank(stk_comm *comm, void *context)
{
    enum { ON_WAY = 5 };
    const uint32_t own = stk_comm_rank(comm), world = stk_comm_world(comm);
    stoke_comm_part send[ON_WAY][MOST_RANKS], recv[ON_WAY][MOST_RANKS];
    stk_comm_ticket *tickets[ON_WAY];
    for (uint32_t round = 0; round < ON_WAY; round++) {
        stoke_comm_part lent[2][MOST_RANKS];
        begin_parts(own, world, round, send[round], recv[round]);
        memcpy(lent[0], send[round], sizeof lent[0]);
        memcpy(lent[1], recv[round], sizeof lent[1]);
        RANK_CHECK(stk_comm_start(comm, lent[0], lent[1], &tickets[round], NULL) == STOKE_OK);
        memset(lent, 0, sizeof lent);
    }
    for (uint32_t round = 0; round < ON_WAY; round++) {
        RANK_CHECK(stk_comm_wait(comm, &tickets[round], NULL) == STOKE_OK);
        RANK_CHECK(!tickets[round]);
        end_parts(own, world, round, send[round], recv[round]);
    }
}

static void several_are_on_their_way(void **state)
{
    for (uint32_t world = 1; world <= MOST_RANKS; world += 2)
        assert_int_equal(run_ranks(world, 60, overlap_on_rank, NULL), 0);
}

static void all_on_rank(stk_comm *comm, void *context)
{
    const size_t bytes = *(const size_t *)context;
    const uint32_t own = stk_comm_rank(comm), world = stk_comm_world(comm);
    uint8_t *mine = malloc(bytes + 1), *all = calloc(bytes * world + 1, 1);
    for (size_t i = 0; i < bytes; i++) mine[i] = byte_of(own, 0, 0, i);
    RANK_CHECK(stk_comm_all(comm, mine, bytes, all, NULL) == STOKE_OK);
    for (size_t i = 0; i < bytes * world; i++)
        if (all[i] != byte_of((uint32_t)(i / bytes), 0, 0, i % bytes)) atomic_fetch_add(&faults, 1);
    RANK_CHECK(!all[bytes * world]);
    free(mine);
    free(all);
}

static void gather_on_rank(stk_comm *comm, void *context)
{
    const size_t bytes = *(const size_t *)context;
    const uint32_t own = stk_comm_rank(comm), world = stk_comm_world(comm);
    size_t at[MOST_RANKS + 1];
    for (uint32_t q = 0; q <= world; q++) at[q] = bytes * q * q / world / world; /* rank 0 has least */
    uint8_t *array = calloc(bytes + 1, 1);
    for (size_t i = at[own]; i < at[own + 1]; i++) array[i] = byte_of(9, 9, 9, i);
    RANK_CHECK(stk_comm_gather(comm, array, at, NULL) == STOKE_OK);
    for (size_t i = 0; i < bytes; i++)
        if (array[i] != byte_of(9, 9, 9, i)) atomic_fetch_add(&faults, 1);
    free(array);
}

static void broadcast_on_rank(stk_comm *comm, void *context)
{
    const size_t wanted = *(const size_t *)context;
    const uint32_t own = stk_comm_rank(comm);
    size_t bytes = own ? 12345 : wanted;
    void *data = own ? NULL : stk_alloc(bytes);
    for (size_t i = 0; i < bytes && !own; i++) ((uint8_t *)data)[i] = byte_of(1, 2, 3, i);
    RANK_CHECK(stk_comm_broadcast(comm, &data, &bytes, NULL) == STOKE_OK);
    RANK_CHECK(bytes == wanted && data);
    for (size_t i = 0; i < bytes; i++)
        if (((uint8_t *)data)[i] != byte_of(1, 2, 3, i)) atomic_fetch_add(&faults, 1);
    stk_free(data);
}

static void hold_of_every_size(rank_fn *run)
{
    static const size_t sizes[] = { 0, 1, 5, 64, 100003 };
    for (uint32_t world = 1; world <= MOST_RANKS; world++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            size_t bytes = sizes[i];
            if (run_ranks(world, 60, run, &bytes)) fail_msg("%zu bytes, %u ranks", bytes, world);
        }
}

static void all_have_what_each_has(void **state)
{
    hold_of_every_size(all_on_rank);
}

static void all_have_the_pieces_of_all(void **state)
{
    hold_of_every_size(gather_on_rank);
}

static void all_have_what_the_first_has(void **state)
{
    hold_of_every_size(broadcast_on_rank);
}

static void a_process_alone_needs_no_engine(void **state)
{
    size_t bytes = 100;
    atomic_store(&faults, 0);
    exchange_on_rank(NULL, NULL);
    overlap_on_rank(NULL, NULL);
    all_on_rank(NULL, &bytes);
    broadcast_on_rank(NULL, &bytes);
    assert_int_equal(stk_comm_gather(NULL, &bytes, NULL, NULL), STOKE_OK);
    stk_comm *none = NULL;
    stk_comm_close(&none);
    assert_int_equal(atomic_load(&faults), 0);
}

static void cards_on_rank(stk_comm *comm, void *context)
{
    for (uint32_t q = 0; q < stk_comm_world(comm); q++) {
        const stk_comm_card *card = stk_comm_card_of(comm, q);
        char name[128], expected[128];
        RANK_CHECK(!strcmp(card->version, stoke_version()) && card->cores && card->cpu[0]);
        snprintf(expected, sizeof expected, "rank %u (%s, pid %d)", q, card->host, (int)getpid());
        RANK_CHECK(!strcmp(stk_comm_name_of(comm, q, name, sizeof name), expected));
    }
}

static void each_knows_who_the_others_are(void **state)
{
    assert_int_equal(run_ranks(3, 60, cards_on_rank, NULL), 0);
}

/* Rank 2 of 4 does not come; the others say so, and go on saying so. */
static void late_on_rank(stk_comm *comm, void *context)
{
    const uint32_t own = stk_comm_rank(comm);
    uint8_t mine = 1, all[4];
    stoke_error err = { 0 };
    char expected[256], name[128];
    if (own == 2) return;
    RANK_CHECK(stk_comm_all(comm, &mine, 1, all, &err) == STOKE_E_TIMEOUT);
    snprintf(expected, sizeof expected, "gave up waiting for %s after 0.",
             stk_comm_name_of(comm, 2, name, sizeof name));
    RANK_CHECK(!strncmp(err.message, expected, strlen(expected)));
    /* 0 and 1 wait, so do 3's: of the others each has its turn to tell. */
    RANK_CHECK(stk_comm_failed(comm) && stk_comm_turn(comm) <= own - (own > 2));
    RANK_CHECK(own || !stk_comm_turn(comm));
    memset(&err, 0, sizeof err);
    RANK_CHECK(stk_comm_all(comm, &mine, 1, all, &err) == STOKE_E_TIMEOUT);
    RANK_CHECK(!strncmp(err.message, expected, strlen(expected)));
}

static void who_does_not_come_is_named(void **state)
{
    assert_int_equal(run_ranks(4, 0.3, late_on_rank, NULL), 0);
}

static void two_late_on_rank(stk_comm *comm, void *context)
{
    const uint32_t own = stk_comm_rank(comm);
    uint8_t mine = 1, all[8];
    stoke_error err = { 0 };
    if (own > 0) return;
    RANK_CHECK(stk_comm_all(comm, &mine, 1, all, &err) == STOKE_E_TIMEOUT);
    RANK_CHECK(strstr(err.message, "rank 1 (") && strstr(err.message, "), rank 4 ("));
    RANK_CHECK(strstr(err.message, ") and 3 more after "));
}

static void of_many_some_are_named(void **state)
{
    assert_int_equal(run_ranks(8, 0.2, two_late_on_rank, NULL), 0);
}

static void who_has_left_is_told(void **state)
{
    stk_comm *comms[2];
    stoke_error err = { 0 };
    uint8_t mine = 1, all[2];
    assert_int_equal(stk_comm_open_loop(comms, 2, 60, NULL), STOKE_OK);
    stk_comm_close(&comms[1]);
    assert_int_equal(stk_comm_all(comms[0], &mine, 1, all, &err), STOKE_E_IO);
    assert_string_equal(err.message, "rank 1 has ended");
    assert_int_equal(stk_comm_all(comms[0], &mine, 1, all, &err), STOKE_E_IO);
    stk_comm_close(&comms[0]);
}

static void lengths_differ_on_rank(stk_comm *comm, void *context)
{
    uint8_t mine[2] = { 1, 1 }, all[4];
    stoke_error err = { 0 };
    const uint32_t own = stk_comm_rank(comm);
    RANK_CHECK(stk_comm_all(comm, mine, 1 + own, all, &err) == STOKE_E_STATE);
    RANK_CHECK(strstr(err.message, own ? "rank 0 sent 1 bytes where 2" : "rank 1 sent 2 bytes where 1"));
}

static void lengths_that_differ_are_told(void **state)
{
    assert_int_equal(run_ranks(2, 60, lengths_differ_on_rank, NULL), 0);
    stoke_comm_part one = { &one, 1 }, two = { &one, 2 };
    assert_int_equal(stk_comm_exchange(NULL, &one, &two, NULL), STOKE_E_INVALID);
}

static void no_memory_on_rank(stk_comm *comm, void *context)
{
    void *data = NULL;
    size_t bytes = stk_comm_rank(comm) ? 0 : (size_t)1 << 60;
    stoke_error err = { 0 };
    uint8_t unused;
    if (!stk_comm_rank(comm)) data = &unused;
    RANK_CHECK(stk_comm_broadcast(comm, &data, &bytes, &err) == STOKE_E_NOMEM);
    RANK_CHECK(strstr(err.message, "rank 1 (") && strstr(err.message, "has no memory for"));
    RANK_CHECK(stk_comm_rank(comm) == 0 || !data);
}

/* All say so, none waits for those who cannot go on. Not where races are sought: that sanitizer ends a
 * program that asks for so much. */
static void want_of_memory_ends_a_broadcast_for_all(void **state)
{
    assert_int_equal(run_ranks(3, 60, no_memory_on_rank, NULL), 0);
}

static void want_of_memory_at_any_moment(void **state)
{
    int opened = 0;
    for (int after = 0; after < 200 && !opened; after++) {
        stk_comm *comms[2];
        stoke_error err = { 0 };
        stk_mem_fail_after(after);
        const int r = stk_comm_open_loop(comms, 2, 60, &err);
        stk_mem_fail_after(-1);
        opened = !r;
        if (r && r != STOKE_E_NOMEM)
            assert_string_equal(err.message, "rank 1 has ended"); /* for want of it */
        if (r) assert_true(!comms[0] && !comms[1] && err.message[0]);
        for (int q = 0; q < 2; q++) stk_comm_close(&comms[q]);
    }
    assert_true(opened);
}

UNIT_GROUP(comm)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_gets_what_each_sent),
        cmocka_unit_test(several_are_on_their_way),
        cmocka_unit_test(all_have_what_each_has),
        cmocka_unit_test(all_have_the_pieces_of_all),
        cmocka_unit_test(all_have_what_the_first_has),
        cmocka_unit_test(a_process_alone_needs_no_engine),
        cmocka_unit_test(each_knows_who_the_others_are),
        cmocka_unit_test(who_does_not_come_is_named),
        cmocka_unit_test(of_many_some_are_named),
        cmocka_unit_test(who_has_left_is_told),
        cmocka_unit_test(lengths_that_differ_are_told),
        UNIT_ONE_THREAD(want_of_memory_ends_a_broadcast_for_all),
        cmocka_unit_test(want_of_memory_at_any_moment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
