/* SPDX-License-Identifier: Apache-2.0
 *
 * The thread that owns an engine. It opens it, makes every call to it and closes it: MPI libraries want one
 * thread for all, progress is made inside their calls only, and a call that hangs hangs nobody else. Ranks
 * are the engine's here.
 */
#ifndef STOKE_SRC_COMM_CARRIER_H
#define STOKE_SRC_COMM_CARRIER_H

#include "src/comm/comm.h"

typedef struct stk_carrier stk_carrier;

/* Which engine: one that is here, or a plugin by name. */
typedef struct stk_carrier_source {
    const stoke_comm_engine *engine;
    const char *plugin;
    void *self; /* not NULL: open already, at `place`; the carrier closes it */
    stoke_comm_place place;
    size_t piece_bytes; /* most of a part that the engine is given at once; 0: 1 GiB */
} stk_carrier_source;

enum { STK_CARRIER_NOT_YET = 1 }; /* what was waited for has not happened by the deadline */

/* Starts the thread, which then opens the engine. */
int stk_carrier_create(stk_carrier **out, const stk_carrier_source *source, stoke_error *err);
/* Waits until the engine is open: STOKE_OK, a failure, or not yet. */
int stk_carrier_opened(stk_carrier *carrier, uint64_t deadline_ns, stoke_error *err);
/* Where the engine says this process stands; once it is open. */
const stoke_comm_place *stk_carrier_place(const stk_carrier *carrier);

/* Sends send[i] to rank_of[i] and receives recv[i] from it (NULL: from i). */
int stk_carrier_post(stk_carrier *carrier, const stoke_comm_part *send, const stoke_comm_part *recv,
                     const uint32_t *rank_of, stk_comm_ticket **ticket, stoke_error *err);
/* STOKE_OK, a failure of the engine, or not yet. Only with the last the ticket stays the caller's. */
int stk_carrier_wait(stk_carrier *carrier, stk_comm_ticket *ticket, uint64_t deadline_ns, stoke_error *err);
/* ranks[q] 1: something from or for q is missing in the exchange that is the first to be waited for. 0: the
 * engine does not answer. */
int stk_carrier_missing(stk_carrier *carrier, uint8_t *ranks);
/* Every wait and post from now on ends with this error. When it returns the engine is called no more, unless
 * it hangs. */
void stk_carrier_stop(stk_carrier *carrier, const stoke_error *why);

/* Closes the engine and ends the thread. A thread that has not ended by then is left to itself. */
void stk_carrier_close(stk_carrier **carrier, uint64_t deadline_ns);
/* The engine's abort; returns where it does not come back or cannot. */
void stk_carrier_abort(stk_carrier *carrier, int status);

#endif
