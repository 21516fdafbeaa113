/* SPDX-License-Identifier: Apache-2.0
 *
 * One rank of a test under mpirun: ranks ENGINE sum | pieces | hang RANK | die RANK | numbers
 * Rank 0 prints what was found; the exit status is 0, or 1 with the reason, or 75 after an abort.
 */
#include <signal.h>
#include <unistd.h>

#include "src/base/mem.h"
#include "tests/unit/fixture_ranks.h"

enum { COUNT = 5000, CHUNK = 64 };

typedef struct loop_sum {
    uint32_t lanes;
    float *result; /* of rank 0 */
} loop_sum;

static void sum_in_loop(stk_comm *comm, void *context)
{
    const loop_sum *l = context;
    float *result = malloc(COUNT * sizeof *result);
    sum_lanes(comm, l->lanes, COUNT, CHUNK, 1, result);
    if (!stk_comm_rank(comm)) memcpy(l->result, result, COUNT * sizeof *result);
    free(result);
}

/* The bits of the engine, of threads, and of one process. */
static void sum(stk_comm *comm)
{
    uint64_t digest = 0;
    for (uint32_t lanes = 1; lanes <= MOST_LANES; lanes++) {
        float result[COUNT], loop[COUNT], tree[COUNT];
        loop_sum l = { lanes, loop };
        sum_lanes(comm, lanes, COUNT, CHUNK, 0, result);
        const int before = atomic_load(&faults);
        RANK_CHECK(!run_ranks(stk_comm_world(comm), 60, sum_in_loop, &l));
        atomic_fetch_add(&faults, before); /* run_ranks begins at 0 */
        for (size_t i = 0; i < COUNT; i++) tree[i] = node_value(0, lanes, i);
        RANK_CHECK(!memcmp(result, tree, sizeof tree));
        RANK_CHECK(!memcmp(result, loop, sizeof loop));
        for (size_t i = 0; i < COUNT; i++) {
            uint32_t bits;
            memcpy(&bits, &result[i], sizeof bits);
            digest = digest * UINT64_C(0x100000001b3) + bits;
        }
    }
    if (!stk_comm_rank(comm)) printf("sum %016llx\n", (unsigned long long)digest);
}

/* Much at once in pieces, both ways between all, and something small behind it. */
static void pieces(stk_comm *comm)
{
    enum { BYTES = 5000001 };
    const uint32_t own = stk_comm_rank(comm), world = stk_comm_world(comm);
    stoke_comm_part send[MOST_RANKS], recv[MOST_RANKS];
    stk_comm_ticket *large = NULL;
    uint32_t all[MOST_RANKS];
    stoke_error err = { 0 };
    for (uint32_t q = 0; q < world; q++) {
        send[q] = (stoke_comm_part){ malloc(BYTES), BYTES - q };
        recv[q] = (stoke_comm_part){ calloc(BYTES, 1), BYTES - own };
        for (size_t i = 0; i < BYTES; i++) ((uint8_t *)send[q].data)[i] = (uint8_t)(own * 5 + q + i % 251);
    }
    RANK_CHECK(stk_comm_start(comm, send, recv, &large, &err) == STOKE_OK);
    RANK_CHECK(stk_comm_all(comm, &own, sizeof own, all, &err) == STOKE_OK);
    RANK_CHECK(stk_comm_wait(comm, &large, &err) == STOKE_OK);
    for (uint32_t q = 0; q < world; q++) {
        int wrong = all[q] != q;
        for (size_t i = 0; i < recv[q].bytes; i++)
            wrong += ((uint8_t *)recv[q].data)[i] != (uint8_t)(q * 5 + own + i % 251);
        RANK_CHECK(!wrong);
        free(send[q].data);
        free(recv[q].data);
    }
    void *data = own ? NULL : stk_alloc(BYTES);
    size_t bytes = own ? 0 : BYTES;
    if (!own) memset(data, 7, BYTES);
    RANK_CHECK(stk_comm_broadcast(comm, &data, &bytes, &err) == STOKE_OK);
    RANK_CHECK(bytes == BYTES && ((uint8_t *)data)[0] == 7 && ((uint8_t *)data)[BYTES - 1] == 7);
    stk_free(data);
    const uint64_t before = stk_mem_count().calls;
    for (int i = 0; i < 50; i++) RANK_CHECK(stk_comm_all(comm, &own, sizeof own, all, &err) == STOKE_OK);
    RANK_CHECK(stk_mem_count().calls == before); /* what was made before is used again */
    if (!own) printf("pieces %u\n", world);
}

/* One rank stops as a frozen host does, or dies; the others name it and end the run. */
static void lose(stk_comm *comm, uint32_t who, int signal)
{
    const uint32_t own = stk_comm_rank(comm);
    uint8_t mine = 1, all[MOST_RANKS];
    stoke_error err = { 0 };
    if (own == who) raise(signal);
    if (stk_comm_all(comm, &mine, 1, all, &err)) {
        fprintf(stderr, "rank %u: %s\n", own, err.message);
        stk_comm_abort(comm, 75);
    }
}

static void numbers(stk_comm *comm)
{
    char name[128];
    if (!stk_comm_rank(comm)) printf("library %s\n", comm ? stk_comm_library(comm) : "none");
    for (uint32_t q = 0; comm && !stk_comm_rank(comm) && q < stk_comm_world(comm); q++)
        printf("%s\n", stk_comm_name_of(comm, q, name, sizeof name));
}

static void say(void *context, const char *sentence)
{
    fprintf(stderr, "%s\n", sentence);
}

int main(int argc, char **argv)
{
    if (argc < 3) return 2;
    const int hangs = !strcmp(argv[2], "hang");
    const stk_comm_settings settings = { .engine = argv[1],
                                         .timeout = hangs ? 2 : 60,
                                         .notice_after = hangs ? 0.8 : 30,
                                         .notice = say,
                                         .piece_bytes = 1 << 20 };
    stk_comm *comm;
    stoke_error err;
    if (stk_comm_open(&comm, &settings, &err)) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    if (argc > 3) lose(comm, (uint32_t)atoi(argv[3]), hangs ? SIGSTOP : SIGKILL);
    if (!strcmp(argv[2], "sum")) sum(comm);
    if (!strcmp(argv[2], "pieces")) pieces(comm);
    if (!strcmp(argv[2], "numbers")) numbers(comm);
    stk_comm_close(&comm);
    return atomic_load(&faults) != 0;
}
