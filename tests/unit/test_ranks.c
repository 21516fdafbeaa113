/* SPDX-License-Identifier: Apache-2.0
 *
 * What ranks tell each other, where one of them says what cannot be, or where something comes after nobody
 * waits for it any more.
 */
#include "tests/unit/unit.h"

#include "src/base/mem.h"
#include "src/train/trainer.h"
#include "tests/unit/fixture_ranks.h"

enum { WORD_AT_MOST = 256 };

/* As much of a trainer as talks to others. */
static void begin(stoke_trainer *t, stk_comm *comm)
{
    const size_t world = stk_comm_world(comm);
    *t = (stoke_trainer){ .comm = comm };
    t->ranks.words = calloc(1 + world, WORD_AT_MOST);
    t->ranks.texts = calloc(1 + world, STOKE_ERROR_TEXT);
    t->ranks.parts = calloc(2 * world, sizeof *t->ranks.parts);
}

static void end(stoke_trainer *t)
{
    free(t->ranks.words);
    free(t->ranks.texts);
    free(t->ranks.parts);
}

static void text_on_rank(stk_comm *comm, void *context)
{
    stoke_trainer t;
    stoke_error err = { 0 };
    char *text = stk_strdup(stk_comm_rank(comm) ? "what was there" : "of rank 0");
    begin(&t, comm);
    RANK_CHECK(stk_ranks_take_text(&t, &text, &err) == STOKE_OK);
    RANK_CHECK(!strcmp(text, "of rank 0"));
    stk_free(text);
    end(&t);
}

/* One that says that its text has so many bytes. */
static void long_text_on_rank(stk_comm *comm, void *context)
{
    stoke_trainer t;
    stoke_error err = { 0 };
    begin(&t, comm);
    if (stk_comm_rank(comm)) {
        char *text = stk_strdup("what was there");
        RANK_CHECK(stk_ranks_take_text(&t, &text, &err) == STOKE_E_NOMEM);
        RANK_CHECK(!text);
    } else {
        uint64_t bytes = *(const uint64_t *)context;
        RANK_CHECK(stk_ranks_take(&t, &bytes, sizeof bytes, &err) == STOKE_OK);
        RANK_CHECK(stk_ranks_agree(&t, STOKE_OK, &err) == STOKE_E_NOMEM);
        RANK_CHECK(strstr(err.message, "rank 1 (") &&
                   strstr(err.message, "no memory for a text of rank 0 (1"));
    }
    end(&t);
}

static void no_text_on_rank(stk_comm *comm, void *context)
{
    stoke_trainer t;
    stoke_error err = { 0 };
    char *text = NULL;
    begin(&t, comm);
    RANK_CHECK(stk_ranks_take_text(&t, &text, &err) == STOKE_E_NOMEM);
    stk_free(text);
    end(&t);
}

static void a_text_of_any_length_is_taken_or_refused_by_all(void **state)
{
    static const uint64_t lengths[] = { UINT64_MAX, UINT64_C(1) << 60, 100000000 };
    assert_int_equal(run_ranks(3, 60, text_on_rank, NULL), 0);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        uint64_t length = lengths[i];
        assert_int_equal(run_ranks(3, 60, long_text_on_rank, &length), 0);
    }
    assert_int_equal(run_ranks(3, 60, no_text_on_rank, NULL), 0);
}

/* ---- what comes late ---- */

/* An engine from whose peer nothing comes in time, but for its card where `greets`; `late` is where the rest
 * would be written. */
static struct {
    int greets;
    stoke_comm_part late;
} slow;

static int slow_open(void **self, stoke_comm_place *place, stoke_error *err)
{
    (void)err;
    *self = &slow;
    *place = (stoke_comm_place){ .rank = 1, .world = 2, .host = "node-b" };
    return STOKE_OK;
}

static int slow_exchange(void *self, const stoke_comm_part *send, const stoke_comm_part *recv, void **ticket,
                         stoke_error *err)
{
    (void)err;
    *ticket = self;
    if (slow.greets && recv[0].bytes == send[0].bytes)
        memcpy(recv[0].data, send[0].data, recv[0].bytes);
    else
        slow.late = recv[0];
    return STOKE_OK;
}

static int slow_test(void *self, void *ticket, int *done, stoke_error *err)
{
    (void)self, (void)ticket, (void)err;
    *done = !slow.late.data;
    return STOKE_OK;
}

static void slow_missing(void *self, void *ticket, uint8_t *ranks)
{
    (void)self, (void)ticket;
    ranks[0] = 1;
    ranks[1] = 0;
}

static void slow_close(void **self)
{
    *self = NULL;
}

static const stoke_comm_engine slow_engine = { .abi = STOKE_COMM_ABI,
                                               .struct_size = sizeof(stoke_comm_engine),
                                               .name = "slow",
                                               .open = slow_open,
                                               .exchange = slow_exchange,
                                               .test = slow_test,
                                               .missing = slow_missing,
                                               .close = slow_close };

static int open_slow(stk_comm **comm, int greets)
{
    slow.greets = greets;
    slow.late = (stoke_comm_part){ 0 };
    stoke_comm_offer(&slow_engine);
    return stk_comm_open(comm, &(stk_comm_settings){ .engine = "c10d", .timeout = 0.2 }, NULL);
}

static void a_card_that_comes_late_finds_its_place(void **state)
{
    stk_comm *comm;
    assert_int_equal(open_slow(&comm, 0), STOKE_E_TIMEOUT);
    assert_null(comm);
    memset(slow.late.data, 1, slow.late.bytes); /* the address sanitizer looks on */
    stoke_comm_offer(NULL);
}

/* Not on the stack of a function that has returned. */
static void a_number_that_comes_late_finds_its_place(void **state)
{
    stoke_trainer t;
    stk_comm *comm;
    uint64_t number = 5;
    assert_int_equal(open_slow(&comm, 1), STOKE_OK);
    begin(&t, comm);
    assert_int_equal(stk_ranks_take(&t, &number, sizeof number, NULL), STOKE_E_TIMEOUT);
    assert_ptr_equal(slow.late.data, t.ranks.few);
    memset(slow.late.data, 1, slow.late.bytes);
    assert_int_equal(number, 5);
    end(&t);
    stk_comm_close(&comm);
    stoke_comm_offer(NULL);
}

UNIT_GROUP(ranks)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_of_any_length_is_taken_or_refused_by_all),
        cmocka_unit_test(a_card_that_comes_late_finds_its_place),
        cmocka_unit_test(a_number_that_comes_late_finds_its_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
