/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory gate: what keeps scratch memories below the plan. Every scratch memory has a share. A sample
 * that needs more takes the turn: one scratch memory at a time may go beyond its share, by the reserve that
 * the plan has for it, and gives back what it took before the next one does. So a large picture waits, and
 * nothing is ever refused for it but by a memory_limit that leaves too little even for one: what is refused
 * then depends on the settings, and not on who came first.
 */
#ifndef STOKE_SRC_LOADER_MEMORY_GATE_H
#define STOKE_SRC_LOADER_MEMORY_GATE_H

#include <pthread.h>

#include "src/loader/scratch.h"

typedef struct stk_memory_gate {
    pthread_mutex_t turn; /* held by the scratch memory that is beyond its share */
    uint64_t reserve;     /* bytes that it may hold beyond it */
    uint64_t limit;       /* memory_limit; 0 = none: nothing is refused */
    int made;
} stk_memory_gate;

int stk_memory_gate_create(stk_memory_gate *gate, uint64_t reserve, uint64_t limit, stoke_error *err);
void stk_memory_gate_destroy(stk_memory_gate *gate); /* accepts a zeroed one */

/* Lets a sample through when its scratch memory has what it takes, waiting for the turn where that is more
 * than the scratch memory's share. STOKE_E_LIMIT: memory_limit leaves less than the sample needs, which makes
 * it a bad one. */
int stk_memory_gate_pass(stk_memory_gate *gate, stk_scratch *scratch, const stk_scratch_bytes *need,
                         stoke_error *err);
/* The sample is done with: the turn is over, and what it took is given back. */
void stk_memory_gate_leave(stk_memory_gate *gate, stk_scratch *scratch);
/* Whether files have to pass before they are read: a header that says how much the rest needs may be missing,
 * or come too late. Not where every header was read before. */
int stk_memory_gate_guards_files(const stk_memory_gate *gate);

#endif
