/* SPDX-License-Identifier: Apache-2.0 */
#include "src/comm/comm.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <stoke/tools/machine.h>

#include "src/base/clock.h"
#include "src/base/cpu.h"
#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/base/words.h"
#include "src/comm/carrier.h"
#include "src/comm/loop.h"

/* What a card takes on its way: room for those of later versions, which keep the first two fields of
 * stk_comm_card where they are, so that versions can be told apart. */
enum { CARD_BYTES = 512, NAMED = 4, LINK_BYTES = 64 };
/* Seconds that a run that failed waits for its engine to close, and for one that never opened. */
static const double close_after_failure = 5, close_unopened = 0.1;

struct stk_comm {
    stk_carrier *carrier;
    uint32_t rank, world;
    uint32_t *engine_rank; /* [world] */
    stk_comm_card *cards;  /* [world] */
    stk_comm_card mine;
    void **room;            /* a link (see `kept`), and behind LINK_BYTES `wire` */
    uint8_t *wire;          /* [1 + world][CARD_BYTES] */
    stoke_comm_part *parts; /* [2 * world] of the calls below that make their own */
    uint8_t *missing;       /* [world] by the engine's rank */
    uint8_t *able;          /* [world] in a broadcast */
    stk_comm_ticket *greeting;
    uint32_t turn;
    double timeout, notice_after;
    void (*notice)(void *context, const char *sentence);
    void *context;
    int failed;
};

static _Atomic(const stoke_comm_engine *) offered;
/* What an exchange that failed may still be writing to: it stays, each linked to the one before. */
static _Atomic(void **) kept;

void stoke_comm_offer(const stoke_comm_engine *engine)
{
    atomic_store(&offered, engine);
}

/* ---- who is there ---- */

uint32_t stk_comm_rank(const stk_comm *comm)
{
    return comm ? comm->rank : 0;
}

uint32_t stk_comm_world(const stk_comm *comm)
{
    return comm ? comm->world : 1;
}

const stk_comm_card *stk_comm_card_of(const stk_comm *comm, uint32_t rank)
{
    return &comm->cards[rank];
}

const char *stk_comm_library(const stk_comm *comm)
{
    return stk_carrier_place(comm->carrier)->library;
}

const char *stk_comm_name_of(const stk_comm *comm, uint32_t rank, char *text, size_t size)
{
    const stk_comm_card *card = &comm->cards[rank];
    if (card->host[0])
        snprintf(text, size, "rank %u (%s, pid %llu)", rank, card->host, (unsigned long long)card->pid);
    else
        snprintf(text, size, "rank %u", rank); /* before it has introduced itself */
    return text;
}

void stk_comm_notice_after(stk_comm *comm, double seconds)
{
    comm->notice_after = seconds;
}

int stk_comm_failed(const stk_comm *comm)
{
    return comm && comm->failed;
}

uint32_t stk_comm_turn(const stk_comm *comm)
{
    return comm ? comm->turn : 0;
}

/* ---- waiting ---- */

/* "rank 2 (node-b, pid 811) and rank 3 (node-b, pid 812)"; of many, the first ones. */
static void list_missing(const stk_comm *comm, char *text, size_t size)
{
    uint32_t count = 0, named = 0;
    size_t used = 0;
    for (uint32_t q = 0; q < comm->world; q++) count += comm->missing[comm->engine_rank[q]];
    for (uint32_t q = 0; q < comm->world && named < NAMED; q++) {
        char name[128];
        if (!comm->missing[comm->engine_rank[q]]) continue;
        const char *between = !named ? "" : named + 1 == count ? " and " : ", ";
        const int n =
            snprintf(text + used, size - used, "%s%s", between, stk_comm_name_of(comm, q, name, sizeof name));
        used += stk_least((size_t)n, size - used - 1);
        named++;
    }
    if (count > named) snprintf(text + used, size - used, " and %u more", count - named);
    if (!count) snprintf(text, size, "the others");
}

static uint32_t waiting_below(const stk_comm *comm)
{
    uint32_t waiting = 0;
    for (uint32_t q = 0; q < comm->rank; q++) waiting += !comm->missing[comm->engine_rank[q]];
    return waiting;
}

/* Who or what does not come. ticket NULL: the engine is being opened. */
static void say_missing(stk_comm *comm, const stk_comm_ticket *ticket, char *text, size_t size)
{
    comm->turn = comm->rank;
    if (!ticket) {
        snprintf(text, size, "the other processes to join");
    } else if (stk_carrier_missing(comm->carrier, comm->missing)) {
        comm->turn = waiting_below(comm);
        list_missing(comm, text, size);
    } else {
        snprintf(text, size, "%s, which does not answer", stk_comm_library(comm));
    }
}

static uint64_t after(uint64_t ns, double seconds)
{
    return seconds > 0 && seconds < 1e9 ? ns + (uint64_t)(seconds * 1e9) : STK_FOR_EVER;
}

static int give_up(stk_comm *comm, const char *who, double seconds, stoke_error *err)
{
    stoke_error why;
    stk_fail(&why, STOKE_E_TIMEOUT, "gave up waiting for %s after %.*f s", who, seconds < 10, seconds);
    stk_carrier_stop(comm->carrier, &why);
    return stk_fail_again(err, why.code, why.message);
}

/* For an exchange, or (NULL) for the engine to open; says now and then for whom. */
static int wait_for(stk_comm *comm, stk_comm_ticket *ticket, stoke_error *err)
{
    const uint64_t began = stk_now_ns(), limit = after(began, comm->timeout);
    const double every = comm->notice ? comm->notice_after : 0;
    for (uint64_t notice = after(began, every);; notice = after(notice, every)) {
        const uint64_t until = stk_least(notice, limit);
        const int r = ticket ? stk_carrier_wait(comm->carrier, ticket, until, err)
                             : stk_carrier_opened(comm->carrier, until, err);
        if (r != STK_CARRIER_NOT_YET) {
            comm->failed |= r != STOKE_OK;
            return r;
        }
        char who[640], sentence[704];
        const double seconds = (double)(stk_now_ns() - began) * 1e-9;
        say_missing(comm, ticket, who, sizeof who);
        if (until == limit) {
            comm->failed = 1;
            return give_up(comm, who, seconds, err);
        }
        snprintf(sentence, sizeof sentence, "waiting for %s since %.*f s", who, seconds < 10, seconds);
        comm->notice(comm->context, sentence);
    }
}

/* ---- opening ---- */

static void fill_card(stk_comm_card *card)
{
    snprintf(card->version, sizeof card->version, "%s", stoke_version());
    snprintf(card->cpu, sizeof card->cpu, "%s", stk_cpu_level_name(stk_cpu_level_in_use()));
    card->pid = (uint64_t)getpid();
    card->cores = stoke_machine_cores().usable;
}

static stk_comm *new_comm(const stk_comm_settings *settings, stoke_error *err)
{
    stk_comm *comm = stk_calloc(1, sizeof *comm);
    if (!comm) {
        stk_fail(err, STOKE_E_NOMEM, "no memory to talk to other processes");
        return NULL;
    }
    comm->timeout = settings->timeout;
    comm->notice_after = settings->notice_after;
    comm->notice = settings->notice;
    comm->context = settings->context;
    /* Before the engine: finding the CPU table tries instructions, and MPI libraries catch faults, too. */
    fill_card(&comm->mine);
    return comm;
}

/* The engine is open: takes its numbers and sends out the own card. */
static int begin_greeting(stk_comm *comm, stoke_error *err)
{
    const stoke_comm_place *place = stk_carrier_place(comm->carrier);
    const uint32_t world = place->world;
    comm->rank = place->rank;
    comm->engine_rank = stk_calloc(world, sizeof *comm->engine_rank);
    comm->cards = stk_calloc(world, sizeof *comm->cards);
    comm->room = stk_calloc(1, LINK_BYTES + (1 + (size_t)world) * CARD_BYTES);
    comm->wire = comm->room ? (uint8_t *)comm->room + LINK_BYTES : NULL;
    comm->parts = stk_calloc(2 * (size_t)world, sizeof *comm->parts);
    comm->missing = stk_calloc(world, 1);
    comm->able = stk_calloc(world, 1);
    if (!comm->engine_rank || !comm->cards || !comm->wire || !comm->parts || !comm->missing || !comm->able)
        return stk_fail(err, STOKE_E_NOMEM, "no memory for %u ranks", world);
    comm->world = world;
    snprintf(comm->mine.host, sizeof comm->mine.host, "%s", place->host[0] ? place->host : "n/a");
    _Static_assert(sizeof(stk_comm_card) <= CARD_BYTES, "a card fits what it is sent in");
    memcpy(comm->wire, &comm->mine, sizeof comm->mine);
    memcpy(comm->wire + (size_t)CARD_BYTES * (1 + place->rank), &comm->mine, sizeof comm->mine);
    for (uint32_t q = 0; q < world; q++) {
        comm->engine_rank[q] = q;
        comm->parts[q] = (stoke_comm_part){ comm->wire, CARD_BYTES };
        comm->parts[world + q] = (stoke_comm_part){ comm->wire + (size_t)CARD_BYTES * (1 + q), CARD_BYTES };
    }
    return stk_carrier_post(comm->carrier, comm->parts, comm->parts + world, NULL, &comm->greeting, err);
}

/* Names from another process on their way to a terminal. */
static void make_plain(char *text, size_t size)
{
    text[size - 1] = 0;
    for (char *p = text; *p; p++)
        if (*p <= ' ' || *p > '~') *p = '?';
}

static const stk_comm_card *card_on_wire(const stk_comm *comm, uint32_t engine_rank)
{
    return (const stk_comm_card *)(const void *)(comm->wire + (size_t)CARD_BYTES * (1 + engine_rank));
}

/* Numbers ranks so that those of one host follow each other: hosts in the order of their first rank, so that
 * rank 0 and, as launchers fill host by host, most numbers stay the engine's. */
static void number_ranks(stk_comm *comm)
{
    uint32_t next = 0;
    for (uint32_t first = 0; first < comm->world; first++) {
        const stk_comm_card *leader = card_on_wire(comm, first);
        int led = 0;
        for (uint32_t e = 0; e < first && !led; e++) led = !strcmp(card_on_wire(comm, e)->host, leader->host);
        for (uint32_t e = first; e < comm->world && !led; e++) {
            const stk_comm_card *card = card_on_wire(comm, e);
            if (strcmp(card->host, leader->host) != 0) continue;
            if (e == stk_carrier_place(comm->carrier)->rank) comm->rank = next;
            comm->engine_rank[next] = e;
            comm->cards[next++] = *card;
        }
    }
}

/* All ranks compare the same cards in the same order, and rank 0 tells. */
static int check_versions(const stk_comm *comm, stoke_error *err)
{
    char one[128], other[128];
    for (uint32_t q = 1; q < comm->world; q++)
        if (strcmp(comm->cards[q].version, comm->cards[0].version) != 0)
            return comm->rank
                       ? stk_fail_again(err, STOKE_E_STATE, "")
                       : stk_fail(err, STOKE_E_STATE,
                                  "%s has Stokehold %s and %s has %s: install one version on all hosts",
                                  stk_comm_name_of(comm, 0, one, sizeof one), comm->cards[0].version,
                                  stk_comm_name_of(comm, q, other, sizeof other), comm->cards[q].version);
    return STOKE_OK;
}

static int end_greeting(stk_comm *comm, stoke_error *err)
{
    const int r = wait_for(comm, comm->greeting, err);
    if (r) return r;
    for (uint32_t e = 0; e < comm->world; e++) {
        stk_comm_card *card = (stk_comm_card *)(uintptr_t)card_on_wire(comm, e);
        make_plain(card->host, sizeof card->host);
        make_plain(card->version, sizeof card->version);
        make_plain(card->cpu, sizeof card->cpu);
    }
    number_ranks(comm);
    stk_free(comm->room);
    comm->room = NULL;
    comm->wire = NULL;
    return check_versions(comm, err);
}

static const stoke_comm_engine *offered_engine(const stoke_comm_launch *launch, stoke_error *err)
{
    const stoke_comm_engine *engine = atomic_load(&offered);
    if (engine && engine->abi == STOKE_COMM_ABI && engine->struct_size >= sizeof *engine) return engine;
    if (engine)
        stk_fail(err, STOKE_E_UNSUPPORTED, "the engine `c10d` is made for another version of Stokehold");
    else if (launch->launcher == STOKE_LAUNCHER_TORCHRUN)
        stk_fail(err, STOKE_E_UNSUPPORTED,
                 "torchrun started %u processes, which find each other in Python only: torchrun ... -m "
                 "stokehold train, or use mpirun",
                 launch->world);
    else
        stk_fail(err, STOKE_E_UNSUPPORTED,
                 "the engine `c10d` is torch.distributed, which is there in Python only: torchrun ... -m "
                 "stokehold train");
    return NULL;
}

/* Neither an engine nor a plugin: this process is alone. */
static int choose(const char *name, const stoke_comm_launch *launch, stk_carrier_source *source,
                  stoke_error *err)
{
    const int by_launcher = !name || !*name || !strcmp(name, "auto");
    if (by_launcher && launch->launcher == STOKE_LAUNCHER_NONE) return STOKE_OK;
    if (by_launcher) name = launch->launcher == STOKE_LAUNCHER_TORCHRUN ? "c10d" : "mpi";
    if (!strcmp(name, "none")) return STOKE_OK;
    if (!strcmp(name, "c10d")) {
        source->engine = offered_engine(launch, err);
        return source->engine ? STOKE_OK : STOKE_E_UNSUPPORTED;
    }
    if (strcmp(name, "mpi") != 0 && !strchr(name, '/'))
        return stk_fail(err, STOKE_E_INVALID,
                        "`%s` is no engine: auto, none, mpi, c10d, or the path of a plugin (./%s)", name,
                        name);
    source->plugin = name;
    return STOKE_OK;
}

/* An MPI that does not know the launcher believes to be alone, and each process would train by itself. */
static int check_world(const stk_comm *comm, const stoke_comm_launch *launch,
                       const stk_carrier_source *source, stoke_error *err)
{
    const stoke_comm_place *place = stk_carrier_place(comm->carrier);
    if (place->world >= launch->world) return STOKE_OK;
    const char *launcher = stoke_comm_launcher_name(launch->launcher);
    const char *library = place->library[0] ? place->library : "version unknown";
    if (!source->plugin)
        return stk_fail(err, STOKE_E_STATE, "%s started %u processes, and the engine `c10d` (%s) sees %u",
                        launcher, launch->world, library, place->world);
    const char *slash = strrchr(source->plugin, '/');
    return stk_fail(err, STOKE_E_STATE,
                    "%s started %u processes, and the MPI of %s (%s) sees %u: it is another MPI than the "
                    "launcher's; %s",
                    launcher, launch->world, slash ? slash + 1 : "libstoke-mpi.so", library, place->world,
                    launch->launcher == STOKE_LAUNCHER_SLURM
                        ? "start with srun --mpi=pmix or --mpi=pmi2 (srun --mpi=list has what there is)"
                        : "start with the mpirun of that MPI, or compile comm_mpi.c with the launcher's");
}

int stk_comm_open(stk_comm **out, const stk_comm_settings *settings, stoke_error *err)
{
    const stoke_comm_launch launch = stoke_comm_launch_of(NULL);
    stk_carrier_source source = { .piece_bytes = settings->piece_bytes };
    *out = NULL;
    int r = choose(settings->engine, &launch, &source, err);
    if (r || (!source.engine && !source.plugin)) return r;
    stk_comm *comm = new_comm(settings, err);
    if (!comm) return STOKE_E_NOMEM;
    r = stk_carrier_create(&comm->carrier, &source, err);
    if (!r) r = wait_for(comm, NULL, err);
    if (!r) r = check_world(comm, &launch, &source, err);
    const int alone = !r && stk_carrier_place(comm->carrier)->world == 1;
    if (!r && !alone) r = begin_greeting(comm, err);
    if (!r && !alone) r = end_greeting(comm, err);
    if (r || alone)
        stk_comm_close(&comm);
    else
        *out = comm;
    return r;
}

int stk_comm_open_loop(stk_comm **out, uint32_t world, double timeout, stoke_error *err)
{
    const stk_comm_settings settings = { .timeout = timeout };
    stk_loop *loop;
    int r = stk_loop_create(&loop, world, err);
    for (uint32_t q = 0; q < world; q++) out[q] = NULL;
    for (uint32_t q = 0; loop && q < world; q++) {
        stk_carrier_source source = { .engine = &stk_loop_engine };
        stk_comm *comm = r ? NULL : new_comm(&settings, err);
        if (!r && !comm) r = STOKE_E_NOMEM;
        if (!r) r = stk_loop_join(loop, q, &source.self, &source.place, err);
        if (!r) r = stk_carrier_create(&comm->carrier, &source, err);
        if (r && source.self)
            stk_loop_engine.close(&source.self);
        else if (r)
            stk_loop_give_up(loop, q);
        out[q] = comm;
    }
    for (uint32_t q = 0; q < world && !r; q++) r = wait_for(out[q], NULL, err);
    for (uint32_t q = 0; q < world && !r; q++) r = begin_greeting(out[q], err);
    for (uint32_t q = 0; q < world && !r; q++) r = end_greeting(out[q], err);
    for (uint32_t q = 0; q < world && r; q++) stk_comm_close(&out[q]);
    return r;
}

static void keep(void **room)
{
    *room = atomic_load(&kept);
    while (!atomic_compare_exchange_weak(&kept, (void ***)room, room)) continue;
}

void stk_comm_close(stk_comm **comm_pointer)
{
    stk_comm *comm = *comm_pointer;
    *comm_pointer = NULL;
    if (!comm) return;
    const double after_failure = comm->world ? close_after_failure : close_unopened;
    stk_carrier_close(&comm->carrier, after(stk_now_ns(), comm->failed ? after_failure : comm->timeout));
    stk_free(comm->engine_rank);
    stk_free(comm->cards);
    if (comm->failed && comm->room)
        keep(comm->room); /* cards of ranks that are late */
    else
        stk_free(comm->room);
    stk_free(comm->parts);
    stk_free(comm->missing);
    stk_free(comm->able);
    stk_free(comm);
}

_Noreturn void stk_comm_abort(stk_comm *comm, int status)
{
    if (comm) stk_carrier_abort(comm->carrier, status);
    _exit(status);
}

/* ---- bytes from each to each ---- */

/* What this rank has for itself. */
static int copy_own(const stoke_comm_part *send, const stoke_comm_part *recv, stoke_error *err)
{
    if (send->bytes != recv->bytes)
        return stk_fail(err, STOKE_E_INVALID, "%zu bytes for this rank itself where %zu are expected",
                        send->bytes, recv->bytes);
    if (send->bytes && send->data != recv->data) memmove(recv->data, send->data, send->bytes);
    return STOKE_OK;
}

int stk_comm_start(stk_comm *comm, const stoke_comm_part *send, const stoke_comm_part *recv,
                   stk_comm_ticket **ticket, stoke_error *err)
{
    *ticket = NULL;
    int r = copy_own(&send[stk_comm_rank(comm)], &recv[stk_comm_rank(comm)], err);
    if (r || !comm) return r;
    r = stk_carrier_post(comm->carrier, send, recv, comm->engine_rank, ticket, err);
    comm->failed |= r != STOKE_OK;
    return r;
}

int stk_comm_wait(stk_comm *comm, stk_comm_ticket **ticket, stoke_error *err)
{
    stk_comm_ticket *t = *ticket;
    *ticket = NULL;
    return t ? wait_for(comm, t, err) : STOKE_OK;
}

int stk_comm_exchange(stk_comm *comm, const stoke_comm_part *send, const stoke_comm_part *recv,
                      stoke_error *err)
{
    stk_comm_ticket *ticket;
    const int r = stk_comm_start(comm, send, recv, &ticket, err);
    return r ? r : stk_comm_wait(comm, &ticket, err);
}

int stk_comm_all(stk_comm *comm, const void *mine, size_t bytes, void *all, stoke_error *err)
{
    if (!comm) {
        if (bytes && all != mine) memmove(all, mine, bytes);
        return STOKE_OK;
    }
    for (uint32_t q = 0; q < comm->world; q++) {
        comm->parts[q] = (stoke_comm_part){ (void *)(uintptr_t)mine, bytes };
        comm->parts[comm->world + q] = (stoke_comm_part){ (uint8_t *)all + bytes * q, bytes };
    }
    return stk_comm_exchange(comm, comm->parts, comm->parts + comm->world, err);
}

int stk_comm_gather(stk_comm *comm, void *array, const size_t *at, stoke_error *err)
{
    if (!comm) return STOKE_OK;
    const stoke_comm_part own = { (uint8_t *)array + at[comm->rank], at[comm->rank + 1] - at[comm->rank] };
    for (uint32_t q = 0; q < comm->world; q++) {
        comm->parts[q] = own;
        comm->parts[comm->world + q] = (stoke_comm_part){ (uint8_t *)array + at[q], at[q + 1] - at[q] };
    }
    return stk_comm_exchange(comm, comm->parts, comm->parts + comm->world, err);
}

/* Where rank q's piece of what is broadcast begins. */
static size_t share(const stk_comm *comm, size_t bytes, uint32_t q)
{
    return bytes / comm->world * q + bytes % comm->world * q / comm->world;
}

/* Rank 0 gives each rank a piece, and then all give theirs to all: so no rank sends more than twice the
 * bytes, however many there are. */
static int spread(stk_comm *comm, uint8_t *data, size_t bytes, stoke_error *err)
{
    size_t *at = stk_alloc((comm->world + (size_t)1) * sizeof *at);
    /* All or none go on; otherwise some would wait for those that cannot. */
    const uint8_t able = data && at;
    int r = stk_comm_all(comm, &able, 1, comm->able, err);
    for (uint32_t q = 0; q < comm->world && !r; q++) {
        char name[128];
        if (!comm->able[q])
            r = stk_fail(err, STOKE_E_NOMEM, "%s has no memory for %zu bytes from rank 0",
                         stk_comm_name_of(comm, q, name, sizeof name), bytes);
    }
    for (uint32_t q = 0; q <= comm->world && !r; q++) at[q] = share(comm, bytes, q);
    for (uint32_t q = 0; q < comm->world && !r; q++) {
        const uint32_t own = comm->rank;
        const stoke_comm_part none = { NULL, 0 };
        comm->parts[q] = own ? none : (stoke_comm_part){ data + at[q], at[q + 1] - at[q] };
        comm->parts[comm->world + q] = q ? none : (stoke_comm_part){ data + at[own], at[own + 1] - at[own] };
    }
    if (!r) r = stk_comm_exchange(comm, comm->parts, comm->parts + comm->world, err);
    if (!r) r = stk_comm_gather(comm, data, at, err);
    stk_free(at);
    return r;
}

int stk_comm_broadcast(stk_comm *comm, void **data, size_t *bytes, stoke_error *err)
{
    if (!comm) return STOKE_OK;
    uint64_t size = *bytes;
    for (uint32_t q = 0; q < comm->world; q++) {
        comm->parts[q] = (stoke_comm_part){ &size, comm->rank || !q ? 0 : sizeof size };
        comm->parts[comm->world + q] = (stoke_comm_part){ &size, comm->rank && !q ? sizeof size : 0 };
    }
    int r = stk_comm_exchange(comm, comm->parts, comm->parts + comm->world, err);
    if (r) return r;
    if (comm->rank) *data = stk_alloc((size_t)size);
    r = spread(comm, *data, (size_t)size, err);
    if (!r) *bytes = (size_t)size;
    if (r && comm->rank) {
        stk_free(*data);
        *data = NULL;
    }
    return r;
}
