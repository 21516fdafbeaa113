/* SPDX-License-Identifier: Apache-2.0 */
#include <stoke/tools/commbench.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/base/retry.h"
#include "src/comm/comm_bench.h"

enum { LARGEST = 16 << 20, MOST_ROUNDS = 2000, LEAST_ROUNDS = 5, MOST_THREADS = 64, MESSAGES = 32 };

/* From a word to the gradients of a SegFormer b0. */
static const size_t sizes[] = { 64, 4 << 10, 64 << 10, 1 << 20, LARGEST };
enum { SIZES = sizeof sizes / sizeof *sizes };

stoke_comm_bench_params stoke_comm_bench_defaults(void)
{
    return (stoke_comm_bench_params){ .struct_size = sizeof(stoke_comm_bench_params),
                                      .engine = "auto",
                                      .ranks = 2,
                                      .seconds = 0.5,
                                      .timeout = 60 };
}

/* ---- one rank ---- */

typedef struct bench_rank {
    const stoke_comm_bench_params *params;
    stk_comm *comm;
    stoke_comm_bench_fn each; /* NULL but on rank 0 */
    void *context;
    int threads; /* ranks are threads of one process */
    unsigned char *array, *received;
    stoke_comm_part *send, *receive; /* [world] each */
    size_t *at;                      /* [world + 1] */
    double *us;                      /* [MOST_ROUNDS] */
    uint32_t peer;                   /* of rank 0, where two are measured */
    size_t bytes;                    /* of a message, or of the array */
    int status;
    stoke_error err;
    pthread_t thread;
} bench_rank;

static int exchange(bench_rank *b, stoke_error *err)
{
    const uint32_t world = stk_comm_world(b->comm), rank = stk_comm_rank(b->comm);
    const size_t own = b->at[rank + 1] - b->at[rank];
    for (uint32_t q = 0; q < world; q++) {
        b->send[q] = (stoke_comm_part){ b->array + b->at[q], b->at[q + 1] - b->at[q] };
        b->receive[q] = (stoke_comm_part){ b->received + q * own, own };
    }
    return stk_comm_exchange(b->comm, b->send, b->receive, err);
}

static int gather(bench_rank *b, stoke_error *err)
{
    return stk_comm_gather(b->comm, b->array, b->at, err);
}

/* The `i`-th message between rank 0 and its peer, whoever of them this is; other ranks have nothing to do. */
static int start_pair(bench_rank *b, int i, int sends, int receives, stk_comm_ticket **ticket,
                      stoke_error *err)
{
    const uint32_t world = stk_comm_world(b->comm), rank = stk_comm_rank(b->comm), other = rank ? 0 : b->peer;
    for (uint32_t q = 0; q < world; q++) b->send[q] = b->receive[q] = (stoke_comm_part){ NULL, 0 };
    if (!rank || rank == b->peer) {
        b->send[other] = (stoke_comm_part){ b->array, sends ? b->bytes : 0 };
        b->receive[other] = (stoke_comm_part){ b->received + (size_t)i * b->bytes, receives ? b->bytes : 0 };
    }
    return stk_comm_start(b->comm, b->send, b->receive, ticket, err);
}

static int one_way(bench_rank *b, stoke_error *err)
{
    const int first = !stk_comm_rank(b->comm);
    int r = STOKE_OK;
    for (int back = 0; !r && back < 2; back++) {
        stk_comm_ticket *ticket = NULL;
        r = start_pair(b, 0, first != back, first == back, &ticket, err);
        if (!r) r = stk_comm_wait(b->comm, &ticket, err);
    }
    return r;
}

static int messages_at_once(bench_rank *b, int count, stoke_error *err)
{
    stk_comm_ticket *tickets[MESSAGES];
    int started = 0, r = STOKE_OK;
    for (; !r && started < count; started += !r) r = start_pair(b, started, 1, 1, &tickets[started], err);
    for (int i = 0; !r && i < started; i++) r = stk_comm_wait(b->comm, &tickets[i], err);
    return r;
}

static int both_ways(bench_rank *b, stoke_error *err)
{
    return messages_at_once(b, 1, err);
}

static int messages(bench_rank *b, stoke_error *err)
{
    return messages_at_once(b, MESSAGES, err);
}

typedef struct way {
    const char *name;
    int (*run)(bench_rank *b, stoke_error *err);
    int turns; /* messages of a rank that follow each other in a round: the figures are those of one */
    uint8_t all, smallest, largest; /* of all ranks; of the sizes */
} way;

static const way ways[] = {
    { "exchange", exchange, 1, 1, 0, SIZES - 1 }, { "gather", gather, 1, 1, 0, SIZES - 1 },
    { "one way", one_way, 2, 0, 0, SIZES - 1 },   { "both ways", both_ways, 1, 0, SIZES - 1, SIZES - 1 },
    { "messages", messages, MESSAGES, 0, 0, 0 },
};

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int timed(bench_rank *b, const way *w, double *us, stoke_error *err)
{
    const uint64_t began = stk_now_ns();
    const int r = w->run(b, err);
    *us = (double)(stk_now_ns() - began) * 1e-3;
    return r;
}

/* As many rounds as rank 0 has time for. */
static int agree_on_rounds(bench_rank *b, double us, uint64_t *rounds, stoke_error *err)
{
    const double wanted = b->params->seconds * 1e6 / (us > 1 ? us : 1);
    uint64_t all[STOKE_COMM_PEERS];
    *rounds = wanted > MOST_ROUNDS ? MOST_ROUNDS : wanted < LEAST_ROUNDS ? LEAST_ROUNDS : (uint64_t)wanted;
    const int r = stk_comm_all(b->comm, rounds, sizeof *rounds, all, err);
    *rounds = all[0];
    return r;
}

static double cpu_us(void)
{
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (double)used.tv_sec * 1e6 + (double)used.tv_nsec * 1e-3;
}

static void tell(const bench_rank *b, const way *w, const char *where, uint64_t rounds, double used)
{
    const uint32_t world = stk_comm_world(b->comm);
    const double each = 1.0 / w->turns;
    const stoke_comm_figure figure = { .what = w->name,
                                       .where = where,
                                       .bytes = w->all ? b->at[world] : b->bytes,
                                       .sent = w->all ? b->at[world] / world * (world - 1) : b->bytes,
                                       .us = b->us[rounds / 2] * each,
                                       .best_us = b->us[0] * each,
                                       .cpu_us = used / (double)rounds * each / (b->threads ? world : 1),
                                       .rounds = rounds };
    b->each(b->context, &figure);
}

static int measure(bench_rank *b, const way *w, const char *where, stoke_error *err)
{
    const uint32_t world = stk_comm_world(b->comm);
    uint64_t rounds = 0;
    double us = 0;
    for (uint32_t q = 0; q <= world; q++) b->at[q] = b->bytes / world * q;
    int r = timed(b, w, &us, err); /* opens connections */
    if (!r) r = timed(b, w, &us, err);
    if (!r) r = agree_on_rounds(b, us, &rounds, err);
    const double before = cpu_us();
    for (uint64_t i = 0; !r && i < rounds; i++) r = timed(b, w, &b->us[i], err);
    const double used = cpu_us() - before;
    if (r || !b->each || stk_comm_rank(b->comm)) return r;
    qsort(b->us, rounds, sizeof *b->us, by_size);
    tell(b, w, where, rounds, used);
    return STOKE_OK;
}

/* The first rank beside rank 0 that is, or is not, on its host; 0: there is none. */
static uint32_t peer_of(const stk_comm *comm, int inside)
{
    for (uint32_t q = 1; q < stk_comm_world(comm); q++) {
        const int here = !strcmp(stk_comm_card_of(comm, q)->host, stk_comm_card_of(comm, 0)->host);
        if (here == inside) return q;
    }
    return 0;
}

static int measure_sizes(bench_rank *b, const way *w, const char *where, stoke_error *err)
{
    int r = STOKE_OK;
    for (size_t i = w->smallest; !r && i <= w->largest; i++) {
        b->bytes = sizes[i];
        r = measure(b, w, where, err);
    }
    return r;
}

static int measure_all(bench_rank *b, stoke_error *err)
{
    int r = STOKE_OK;
    for (const way *w = ways; !r && w < ways + sizeof ways / sizeof *ways; w++) {
        if (w->all) r = measure_sizes(b, w, "all", err);
        for (int inside = 1; !r && !w->all && inside >= 0; inside--)
            if ((b->peer = peer_of(b->comm, inside)))
                r = measure_sizes(b, w, inside ? "inside" : "between", err);
    }
    return r;
}

static int take_memory(bench_rank *b, stoke_error *err)
{
    const size_t world = stk_comm_world(b->comm);
    b->array = stk_alloc_pages(LARGEST);
    b->received = stk_alloc_pages(LARGEST);
    b->send = stk_calloc(2 * world, sizeof *b->send);
    b->receive = b->send ? b->send + world : NULL;
    b->at = stk_calloc(world + 1, sizeof *b->at);
    b->us = stk_calloc(MOST_ROUNDS, sizeof *b->us);
    if (!b->array || !b->received || !b->send || !b->at || !b->us)
        return stk_fail(err, STOKE_E_NOMEM, "no memory to measure with");
    memset(b->array, 1, LARGEST);
    memset(b->received, 1, LARGEST);
    return STOKE_OK;
}

static void give_memory(bench_rank *b)
{
    stk_free_pages(b->array, LARGEST);
    stk_free_pages(b->received, LARGEST);
    stk_free(b->send);
    stk_free(b->at);
    stk_free(b->us);
}

/* While nobody sends. */
static double copy_speed(bench_rank *b)
{
    double best = 0;
    for (int i = 0; i < 5; i++) {
        const uint64_t began = stk_now_ns();
        memcpy(b->received, b->array, LARGEST);
        const double bytes_s = LARGEST / ((double)(stk_now_ns() - began) * 1e-9);
        best = bytes_s > best ? bytes_s : best;
    }
    return best;
}

static uint32_t hosts_of(const stk_comm *comm)
{
    uint32_t hosts = 1; /* ranks of one host follow each other */
    for (uint32_t q = 1; q < stk_comm_world(comm); q++)
        hosts += strcmp(stk_comm_card_of(comm, q)->host, stk_comm_card_of(comm, q - 1)->host) != 0;
    return hosts;
}

static int run_rank(bench_rank *b, stoke_comm_bench_report *report, stoke_error *err)
{
    int r = take_memory(b, err);
    if (!r && report) {
        report->copy_bytes_s = copy_speed(b);
        report->rank = stk_comm_rank(b->comm);
        report->world = stk_comm_world(b->comm);
        report->hosts = hosts_of(b->comm);
        snprintf(report->library, sizeof report->library, "%s", stk_comm_library(b->comm));
    }
    if (!r) r = measure_all(b, err);
    /* After a failure something may still be on its way, and written: that memory stays. */
    if (!stk_comm_failed(b->comm)) give_memory(b);
    return r;
}

/* ---- ranks that are threads ---- */

static void *thread_main(void *argument)
{
    bench_rank *b = argument;
    b->status = run_rank(b, NULL, &b->err);
    return NULL;
}

static int run_threads(const bench_rank *first, stoke_comm_bench_report *report, stoke_error *err)
{
    const uint32_t world = first->params->ranks;
    stk_comm *comms[MOST_THREADS];
    bench_rank ranks[MOST_THREADS];
    if (world < 2 || world > MOST_THREADS)
        return stk_fail(err, STOKE_E_INVALID, "%u ranks: 2 to %d will do", (unsigned)world, MOST_THREADS);
    int r = stk_comm_open_loop(comms, world, first->params->timeout, err);
    if (r) return r;
    uint32_t started = 1;
    for (uint32_t q = 0; q < world; q++) {
        ranks[q] = *first;
        ranks[q].comm = comms[q];
        ranks[q].threads = 1;
        if (q) ranks[q].each = NULL;
    }
    while (!r && started < world) {
        const int number = stk_thread_start(&ranks[started].thread, thread_main, &ranks[started]);
        if (number) r = stk_fail_errno(err, STOKE_E_NOMEM, number, "cannot start a thread for a rank");
        started += !number;
    }
    if (!r) r = run_rank(&ranks[0], report, err);
    /* Who waits for a rank that never began ends with it. */
    for (uint32_t q = 0; r && q < world; q++)
        if (!q || q >= started) stk_comm_close(&comms[q]);
    for (uint32_t q = 1; q < started; q++) pthread_join(ranks[q].thread, NULL);
    for (uint32_t q = 0; q < world; q++) stk_comm_close(&comms[q]);
    snprintf(report->library, sizeof report->library, "threads of this process");
    return r;
}

int stk_comm_bench_on(stk_comm *comm, const stoke_comm_bench_params *params, stoke_comm_bench_fn each,
                      void *context, stoke_comm_bench_report *report, stoke_error *err)
{
    bench_rank b = { .params = params, .comm = comm, .each = each, .context = context };
    *report = (stoke_comm_bench_report){ .world = 1 };
    return run_rank(&b, report, err);
}

int stoke_comm_bench(const stoke_comm_bench_params *params, stoke_comm_bench_fn each, void *context,
                     stoke_comm_bench_report *report, stoke_error *err)
{
    const stk_comm_settings settings = { .engine = params->engine, .timeout = params->timeout };
    bench_rank b = { .params = params, .each = each, .context = context };
    *report = (stoke_comm_bench_report){ .world = 1 };
    if (!params || params->struct_size != sizeof *params)
        return stk_fail_struct(err, "stoke_comm_bench_defaults");
    int r = stk_comm_open(&b.comm, &settings, err);
    if (r) return r;
    if (!b.comm) return run_threads(&b, report, err);
    r = run_rank(&b, report, err);
    stk_comm_close(&b.comm);
    return r;
}
