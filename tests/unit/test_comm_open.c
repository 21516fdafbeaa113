/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening by name and by launcher, with an engine that a binding offers: numbers by host, versions, worlds
 * that do not fit, pieces, notices, and an engine that hangs.
 */
#include "tests/unit/unit.h"

#include <time.h>

#include "src/comm/loop.h"
#include "tests/unit/fixture_ranks.h"

/* What the offered engine is to do. Set before, and read by the threads that open it. */
static struct {
    stk_loop *loop;
    uint32_t world;
    atomic_uint joined;
    const char *host[MOST_RANKS]; /* NULL: the system's */
    const char *version;          /* put into the cards that are sent */
    uint32_t seen;                /* what `open` says the world is, if not 0 */
    atomic_size_t most;           /* bytes of the largest part it was given */
    atomic_int hang_in_open, hang_in_test, closed;
} offer;

static void nap(void)
{
    nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
}

static int offer_open(void **self, stoke_comm_place *place, stoke_error *err)
{
    while (atomic_load(&offer.hang_in_open)) nap();
    const uint32_t rank = atomic_fetch_add(&offer.joined, 1);
    const int r = stk_loop_join(offer.loop, rank, self, place, err);
    if (offer.host[rank]) snprintf(place->host, sizeof place->host, "%s", offer.host[rank]);
    if (offer.seen) place->world = offer.seen;
    if (offer.seen == 1) place->rank = 0;
    return r;
}

static int offer_exchange(void *self, const stoke_comm_part *send, const stoke_comm_part *recv, void **ticket,
                          stoke_error *err)
{
    for (uint32_t q = 0; q < offer.world; q++) {
        stk_comm_card card;
        size_t most = atomic_load(&offer.most);
        while (send[q].bytes > most && !atomic_compare_exchange_weak(&offer.most, &most, send[q].bytes)) {
        }
        if (!offer.version || send[q].bytes < sizeof card) continue;
        memcpy(&card, send[q].data, sizeof card);
        snprintf(card.version, sizeof card.version, "%s", offer.version);
        memcpy(send[q].data, &card, sizeof card);
    }
    return stk_loop_engine.exchange(self, send, recv, ticket, err);
}

static int offer_test(void *self, void *ticket, int *done, stoke_error *err)
{
    while (atomic_load(&offer.hang_in_test)) nap();
    return stk_loop_engine.test(self, ticket, done, err);
}

static void offer_missing(void *self, void *ticket, uint8_t *ranks)
{
    stk_loop_engine.missing(self, ticket, ranks);
}

static void offer_close(void **self)
{
    stk_loop_engine.close(self);
    atomic_fetch_add(&offer.closed, 1);
}

static const stoke_comm_engine offered_here = {
    .abi = STOKE_COMM_ABI,
    .struct_size = sizeof(stoke_comm_engine),
    .name = "offered",
    .open = offer_open,
    .exchange = offer_exchange,
    .test = offer_test,
    .missing = offer_missing,
    .close = offer_close,
};

static void offer_for(uint32_t world)
{
    memset(&offer, 0, sizeof offer);
    offer.world = world;
    assert_int_equal(stk_loop_create(&offer.loop, world, NULL), STOKE_OK);
    stoke_comm_offer(&offered_here);
}

/* ---- opening by several threads, as processes would ---- */

typedef struct opening {
    stk_comm_settings settings;
    stk_comm *comm;
    stoke_error err;
    int result;
    pthread_t thread;
} opening;

static void *open_main(void *argument)
{
    opening *o = argument;
    o->result = stk_comm_open(&o->comm, &o->settings, &o->err);
    return NULL;
}

static void open_all(opening *all, uint32_t world, const stk_comm_settings *settings)
{
    for (uint32_t q = 0; q < world; q++) {
        all[q] = (opening){ .settings = *settings };
        assert_int_equal(pthread_create(&all[q].thread, NULL, open_main, &all[q]), 0);
    }
    for (uint32_t q = 0; q < world; q++) pthread_join(all[q].thread, NULL);
}

static void say_torchrun(const char *rank, const char *world)
{
    setenv("TORCHELASTIC_RUN_ID", "1", 1);
    setenv("RANK", rank, 1);
    setenv("WORLD_SIZE", world, 1);
}

static int forget_launcher(void **state)
{
    unsetenv("TORCHELASTIC_RUN_ID");
    unsetenv("RANK");
    unsetenv("WORLD_SIZE");
    stoke_comm_offer(NULL);
    return 0;
}

static const stk_comm_settings c10d = { .engine = "c10d", .timeout = 60 };

static void a_process_without_a_launcher_is_alone(void **state)
{
    stk_comm *comm;
    const char *names[] = { NULL, "", "auto", "none" };
    for (int i = 0; i < 4; i++) {
        const stk_comm_settings settings = { .engine = names[i] };
        comm = (stk_comm *)1;
        assert_int_equal(stk_comm_open(&comm, &settings, NULL), STOKE_OK);
        assert_null(comm);
    }
    assert_int_equal(stk_comm_rank(NULL), 0);
    assert_int_equal(stk_comm_world(NULL), 1);
}

static void none_is_alone_under_a_launcher(void **state)
{
    stk_comm *comm;
    say_torchrun("0", "2");
    assert_int_equal(stk_comm_open(&comm, &(stk_comm_settings){ .engine = "none" }, NULL), STOKE_OK);
    assert_null(comm);
}

static void hold_refusal(const char *engine, int code, const char *words)
{
    stoke_error err = { 0 };
    stk_comm *comm;
    const stk_comm_settings settings = { .engine = engine, .timeout = 60 };
    assert_int_equal(stk_comm_open(&comm, &settings, &err), code);
    assert_null(comm);
    if (!strstr(err.message, words)) fail_msg("%s", err.message);
}

static void names_that_are_none_are_refused(void **state)
{
    hold_refusal("gloo", STOKE_E_INVALID, "`gloo` is no engine: auto, none, mpi, c10d, or the path");
    hold_refusal("./not/there.so", STOKE_E_NOTFOUND, "./not/there.so cannot be loaded: ");
    hold_refusal("c10d", STOKE_E_UNSUPPORTED, "is there in Python only");
    say_torchrun("0", "4");
    hold_refusal("auto", STOKE_E_UNSUPPORTED,
                 "torchrun started 4 processes, which find each other in Python");
}

static void an_offer_of_another_version_is_refused(void **state)
{
    stoke_comm_engine old = offered_here;
    old.abi = 0;
    stoke_comm_offer(&old);
    hold_refusal("c10d", STOKE_E_UNSUPPORTED, "another version");
}

static void tell_rank(stk_comm *comm, void *context)
{
    uint32_t mine = stk_comm_rank(comm), all[MOST_RANKS];
    RANK_CHECK(stk_comm_all(comm, &mine, sizeof mine, all, NULL) == STOKE_OK);
    for (uint32_t q = 0; q < stk_comm_world(comm); q++) RANK_CHECK(all[q] == q);
}

/* Dealt out host by host in turns: the numbers of one host follow each other nevertheless. */
static void ranks_are_numbered_by_host(void **state)
{
    static const char *const hosts[] = { "node-b", "node-a", "node-b", "node\x1b[2J", "node-a" };
    static const char *const expected[] = { "node-b", "node-b", "node-a", "node-a", "node?[2J" };
    static const uint32_t joined_as[] = { 0, 2, 1, 4, 3 };
    opening all[5];
    stk_comm *comms[5];
    offer_for(5);
    for (int q = 0; q < 5; q++) offer.host[q] = hosts[q];
    say_torchrun("0", "5");
    open_all(all, 5, &(stk_comm_settings){ .engine = "auto", .timeout = 60 });
    uint8_t seen[5] = { 0 };
    for (int q = 0; q < 5; q++) {
        if (all[q].result) fail_msg("%s", all[q].err.message);
        comms[q] = all[q].comm;
        const uint32_t rank = stk_comm_rank(comms[q]);
        assert_in_range(rank, 0, 4);
        seen[rank]++;
        for (uint32_t other = 0; other < 5; other++)
            assert_string_equal(stk_comm_card_of(comms[q], other)->host, expected[other]);
    }
    for (int q = 0; q < 5; q++) assert_int_equal(seen[joined_as[q]], 1);
    assert_string_equal(stk_comm_library(comms[0]), "threads of one process");
    atomic_store(&faults, 0);
    run_ranks_of(comms, 5, tell_rank, NULL);
    assert_int_equal(atomic_load(&faults), 0);
    for (int q = 0; q < 5; q++) stk_comm_close(&comms[q]);
    assert_int_equal(atomic_load(&offer.closed), 5);
}

/* Rank 0 tells that the other has another version than itself. */
static void other_versions_are_refused_by_all(void **state)
{
    opening all[2];
    int told = 0;
    const int pid = (int)getpid();
    char expected[256];
    offer_for(2);
    offer.version = "0.9.9";
    offer.host[0] = "node-a";
    offer.host[1] = "node-b";
    open_all(all, 2, &c10d);
    snprintf(expected, sizeof expected,
             "rank 0 (node-a, pid %d) has Stokehold %s and rank 1 (node-b, pid %d) has 0.9.9: install "
             "one version on all hosts",
             pid, stoke_version(), pid);
    for (int q = 0; q < 2; q++) {
        told += !strcmp(all[q].err.message, expected);
        if (strcmp(all[q].err.message, expected) != 0) assert_string_equal(all[q].err.message, "");
        assert_int_equal(all[q].result, STOKE_E_STATE);
        assert_null(all[q].comm);
    }
    assert_int_equal(told, 1);
}

static void an_engine_that_sees_fewer_is_refused(void **state)
{
    offer_for(1);
    offer.seen = 1;
    say_torchrun("0", "4");
    hold_refusal("auto", STOKE_E_STATE,
                 "torchrun started 4 processes, and the engine `c10d` (threads of one process) sees 1");
    offer_for(1);
    offer.seen = STOKE_COMM_PEERS + 1;
    hold_refusal("auto", STOKE_E_STATE, "is rank 0 of 4097, and 4096 is the most");
}

static void an_engine_of_one_is_no_engine(void **state)
{
    stk_comm *comm;
    offer_for(1);
    assert_int_equal(stk_comm_open(&comm, &c10d, NULL), STOKE_OK);
    assert_null(comm);
    assert_int_equal(atomic_load(&offer.closed), 1);
}

/* ---- pieces ---- */

enum { PIECE = 1000, TICKETS = 4 };

/* Parts of several lengths, so that ranks have different numbers of pieces, and more of them behind. */
static void pieces_on_rank(stk_comm *comm, void *context)
{
    const uint32_t own = stk_comm_rank(comm);
    static const size_t lengths[3][3] = { { 9, 5001, 0 }, { 0, 9, 1000 }, { 2999, 17, 9 } };
    uint8_t *sent[3], *come[TICKETS][3];
    stk_comm_ticket *tickets[TICKETS];
    for (uint32_t q = 0; q < 3; q++) {
        sent[q] = malloc(8000);
        for (size_t i = 0; i < 8000; i++) sent[q][i] = (uint8_t)(own * 3 + q + i * 7 + (i >> 8));
    }
    for (int t = 0; t < TICKETS; t++) {
        stoke_comm_part send[3], recv[3];
        for (uint32_t q = 0; q < 3; q++) {
            send[q] = (stoke_comm_part){ sent[q] + t, lengths[own][q] };
            recv[q] = (stoke_comm_part){ come[t][q] = calloc(8000, 1), lengths[q][own] };
        }
        RANK_CHECK(stk_comm_start(comm, send, recv, &tickets[t], NULL) == STOKE_OK);
    }
    for (int t = 0; t < TICKETS; t++) {
        RANK_CHECK(stk_comm_wait(comm, &tickets[t], NULL) == STOKE_OK);
        for (uint32_t q = 0; q < 3; q++) {
            int wrong = come[t][q][lengths[q][own]] != 0;
            for (size_t i = 0; i < lengths[q][own]; i++) {
                const size_t k = i + (size_t)t;
                wrong += come[t][q][i] != (uint8_t)(q * 3 + own + k * 7 + (k >> 8));
            }
            RANK_CHECK(!wrong);
            free(come[t][q]);
        }
    }
    for (uint32_t q = 0; q < 3; q++) free(sent[q]);
}

static void large_parts_go_in_pieces(void **state)
{
    opening all[3];
    stk_comm *comms[3];
    stk_comm_settings settings = c10d;
    settings.piece_bytes = PIECE;
    offer_for(3);
    open_all(all, 3, &settings);
    for (int q = 0; q < 3; q++) {
        assert_int_equal(all[q].result, STOKE_OK);
        comms[stk_comm_rank(all[q].comm)] = all[q].comm;
    }
    atomic_store(&faults, 0);
    for (int round = 0; round < unit_rounds(5, 100); round++) run_ranks_of(comms, 3, pieces_on_rank, NULL);
    assert_int_equal(atomic_load(&faults), 0);
    for (int q = 0; q < 3; q++) stk_comm_close(&comms[q]);
    assert_int_equal(atomic_load(&offer.most), PIECE);
}

/* ---- waiting ---- */

typedef struct heard {
    int count;
    char sentence[256];
} heard;

static void hear(void *context, const char *sentence)
{
    heard *h = context;
    h->count++;
    snprintf(h->sentence, sizeof h->sentence, "%s", sentence);
}

static void late_by_a_little(stk_comm *comm, void *context)
{
    if (stk_comm_rank(comm))
        for (const heard *h = context; h && !atomic_load(&offer.closed);) nap();
    tell_rank(comm, NULL);
}

static void hear_and_let_go(void *context, const char *sentence)
{
    hear(context, sentence);
    if (((heard *)context)->count == 3) atomic_store(&offer.closed, 1);
}

static void who_is_waited_for_is_told_now_and_then(void **state)
{
    opening all[2];
    heard h = { 0 };
    stk_comm_settings settings = c10d;
    settings.notice_after = 0.1;
    settings.context = &h;
    settings.notice = hear_and_let_go;
    offer_for(2);
    offer.host[1] = "node-b";
    for (int q = 0; q < 2; q++) all[q] = (opening){ .settings = settings };
    all[1].settings.notice = NULL;
    for (int q = 0; q < 2; q++) { /* one after the other, so that it is known which is rank 0 */
        assert_int_equal(pthread_create(&all[q].thread, NULL, open_main, &all[q]), 0);
        while (atomic_load(&offer.joined) < (unsigned)q + 1) nap();
    }
    for (int q = 0; q < 2; q++) pthread_join(all[q].thread, NULL);
    h.count = 0;
    atomic_store(&faults, 0);
    run_ranks_of((stk_comm *[]){ all[0].comm, all[1].comm }, 2, late_by_a_little, &h);
    assert_int_equal(atomic_load(&faults), 0);
    assert_in_range(h.count, 3, 20);
    char expected[128];
    snprintf(expected, sizeof expected, "waiting for rank 1 (node-b, pid %d) since 0.", (int)getpid());
    if (strncmp(h.sentence, expected, strlen(expected)) != 0) fail_msg("%s", h.sentence);
    for (int q = 0; q < 2; q++) stk_comm_close(&all[q].comm);
}

/* The run ends, and the thread ends when the engine lets it. */
static void an_engine_that_does_not_open_is_left(void **state)
{
    stoke_error err = { 0 };
    stk_comm *comm;
    heard h = { 0 };
    const stk_comm_settings settings = {
        .engine = "c10d", .timeout = 0.3, .notice_after = 0.1, .notice = hear, .context = &h
    };
    offer_for(1);
    atomic_store(&offer.hang_in_open, 1);
    assert_int_equal(stk_comm_open(&comm, &settings, &err), STOKE_E_TIMEOUT);
    assert_null(comm);
    assert_non_null(strstr(err.message, "gave up waiting for the other processes to join after 0."));
    assert_in_range(h.count, 1, 2);
    atomic_store(&offer.hang_in_open, 0);
    for (int i = 0; i < 2000 && !atomic_load(&offer.closed); i++) nap();
    assert_int_equal(atomic_load(&offer.closed), 1);
    nap(); /* its last steps */
}

static void an_engine_that_hangs_is_told(void **state)
{
    opening all[2];
    stoke_error err = { 0 };
    uint8_t mine = 1, heard_of[2];
    offer_for(2);
    open_all(all, 2, &(stk_comm_settings){ .engine = "c10d", .timeout = 0.5 });
    if (all[0].result) fail_msg("%s", all[0].err.message);
    if (all[1].result) fail_msg("%s", all[1].err.message);
    atomic_store(&offer.hang_in_test, 1);
    assert_int_equal(stk_comm_all(all[0].comm, &mine, 1, heard_of, &err), STOKE_E_TIMEOUT);
    assert_non_null(strstr(err.message, "gave up waiting for threads of one process, which does not answer"));
    atomic_store(&offer.hang_in_test, 0);
    for (int q = 0; q < 2; q++) stk_comm_close(&all[q].comm);
}

#define TEST(name) cmocka_unit_test_teardown(name, forget_launcher)

UNIT_GROUP(comm_open)
{
    const struct CMUnitTest tests[] = {
        TEST(a_process_without_a_launcher_is_alone),
        TEST(none_is_alone_under_a_launcher),
        TEST(names_that_are_none_are_refused),
        TEST(an_offer_of_another_version_is_refused),
        TEST(ranks_are_numbered_by_host),
        TEST(other_versions_are_refused_by_all),
        TEST(an_engine_that_sees_fewer_is_refused),
        TEST(an_engine_of_one_is_no_engine),
        TEST(large_parts_go_in_pieces),
        TEST(who_is_waited_for_is_told_now_and_then),
        TEST(an_engine_that_does_not_open_is_left),
        TEST(an_engine_that_hangs_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
