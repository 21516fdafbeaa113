/* SPDX-License-Identifier: Apache-2.0
 *
 * Processes that train together, from above: who is there, bytes from each to each, and the end of all. A
 * call goes down through these files:
 *
 *   reduce.c    sums over lanes: who adds what, in the order of tree.h
 *   comm.c      opening by name, cards, waiting and who is waited for
 *   carrier.c   the thread that owns the engine
 *   loop.c      the engine of tests: ranks are threads of one process
 *   plugin.c    an engine from a file, by dlopen
 *
 * Which launcher started this process, src/base/launch.c tells.
 *
 * All calls come from one thread, in the same order on every rank.
 */
#ifndef STOKE_SRC_COMM_COMM_H
#define STOKE_SRC_COMM_COMM_H

#include <stoke/tools/comm.h>

typedef struct stk_comm stk_comm;

typedef struct stk_comm_settings {
    const char *engine;  /* "auto", "none", "mpi", "c10d", or the path of a plugin (it has a '/') */
    double timeout;      /* seconds that a wait may take, 0: for ever */
    double notice_after; /* seconds after which `notice` hears of a wait, and then as long again each time */
    /* "waiting for rank 2 (node-b, pid 811) since 40 s"; on the thread that waits. */
    void (*notice)(void *context, const char *sentence);
    void *context;
    size_t piece_bytes; /* a larger part goes in pieces of this; 0: 1 GiB */
} stk_comm_settings;

/* What every rank tells all others on opening, and what they are called in messages. */
typedef struct stk_comm_card {
    char host[64], version[32], cpu[32]; /* of libstoke; the CPU table in use */
    uint64_t pid;
    uint64_t cores; /* that this process may use */
} stk_comm_card;

/* NULL in *out and STOKE_OK: this process is alone. Numbers ranks by host: those of one host follow each
 * other, whatever the launcher did; rank 0 is the engine's. STOKE_E_STATE: the launcher started more
 * processes than the engine sees, or versions differ; the sentence says which and what to do. Of versions
 * rank 0 tells, the others have no sentence. */
int stk_comm_open(stk_comm **out, const stk_comm_settings *settings, stoke_error *err);
/* `world` handles whose ranks are threads of this process, one each; timeout as above, of all. */
int stk_comm_open_loop(stk_comm **out, uint32_t world, double timeout, stoke_error *err);
/* Waits for all ranks, as long as any wait may take; after a failure for nobody. */
void stk_comm_close(stk_comm **comm);
/* The end of all ranks: what cannot go on in order. Does not return. */
_Noreturn void stk_comm_abort(stk_comm *comm, int status);

uint32_t stk_comm_rank(const stk_comm *comm);  /* NULL: 0 */
uint32_t stk_comm_world(const stk_comm *comm); /* NULL: 1 */
const stk_comm_card *stk_comm_card_of(const stk_comm *comm, uint32_t rank);
const char *stk_comm_library(const stk_comm *comm); /* "Open MPI v4.1.4" */
/* After so many seconds of a wait `notice` speaks from now on. */
void stk_comm_notice_after(stk_comm *comm, double seconds);
/* 1: a wait has failed, and nothing comes from the others any more. */
int stk_comm_failed(const stk_comm *comm);
/* In `notice` and after a timeout: how many ranks below this one do wait, too. Whose turn is 0 tells. */
uint32_t stk_comm_turn(const stk_comm *comm);
/* "rank 2 (node-b, pid 811)". */
const char *stk_comm_name_of(const stk_comm *comm, uint32_t rank, char *text, size_t size);

/* Parts to and from every rank (its own: copied). Waits; STOKE_E_TIMEOUT names those that are missing. A part
 * may be larger than an engine's 2 GiB. After a failure every call fails with the same sentence, and memory
 * of parts that are on their way must stay until the process ends, unless the engine is the loop. */
int stk_comm_exchange(stk_comm *comm, const stoke_comm_part *send, const stoke_comm_part *recv,
                      stoke_error *err);
/* The same in two calls, with work between them. Several may be on their way; they are waited for in order.
 */
typedef struct stk_comm_ticket stk_comm_ticket;
int stk_comm_start(stk_comm *comm, const stoke_comm_part *send, const stoke_comm_part *recv,
                   stk_comm_ticket **ticket, stoke_error *err);
int stk_comm_wait(stk_comm *comm, stk_comm_ticket **ticket, stoke_error *err);

/* Every rank's `bytes` bytes, own ones from `mine`, into all[world][bytes]. */
int stk_comm_all(stk_comm *comm, const void *mine, size_t bytes, void *all, stoke_error *err);
/* Pieces of one array: rank q has at[q] .. at[q + 1] (bytes) right, and then all have all. */
int stk_comm_gather(stk_comm *comm, void *array, const size_t *at, stoke_error *err);
/* From rank 0 to all; *bytes is rank 0's and becomes everyone's, *data is allocated on the others (stk_free).
 */
int stk_comm_broadcast(stk_comm *comm, void **data, size_t *bytes, stoke_error *err);

#endif
