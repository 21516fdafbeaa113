/* SPDX-License-Identifier: Apache-2.0
 *
 * Processors, memory and disks that fail without a word. Now and then each rank computes one lane of the next
 * rank once more, and the bits of its gradients must be those of its owner; and all ranks must have the same
 * weights. Who differs is named, and nothing of it is saved.
 */
#ifndef STOKE_SRC_TRAIN_AUDIT_H
#define STOKE_SRC_TRAIN_AUDIT_H

#include "src/comm/comm.h"

/* Hashes that a rank tells all others. */
typedef struct stk_audit_word {
    uint64_t found; /* by it, of the next rank's lane */
    uint64_t own;   /* of its lane that the rank before computes, too */
} stk_audit_word;

typedef struct stk_audit {
    stk_comm *comm;
    uint64_t every;   /* steps between audits; 0: none */
    uint32_t lanes;   /* of a step */
    uint64_t step;    /* the one that is on its way (0 = the first) */
    int on;           /* it is one with an audit */
    uint32_t lane;    /* that this rank computes once more ... */
    uint32_t watched; /* ... and of its own the one that the rank before does */
    stk_audit_word mine, *words;
} stk_audit;

/* every: 0, or there are several ranks. */
int stk_audit_open(stk_audit *audit, stk_comm *comm, uint64_t every, uint32_t lanes, stoke_error *err);
void stk_audit_close(stk_audit *audit); /* accepts a zeroed struct */

/* Whether step `step` (0 = the first) has one. */
static inline int stk_audit_due(uint64_t every, uint64_t step)
{
    return every && (step + 1) % every == 0;
}
/* The lane that `rank` computes once more in such a step: those of the next rank take turns. */
uint32_t stk_audit_lane(uint64_t every, uint64_t step, uint32_t lanes, uint32_t rank, uint32_t world);
void stk_audit_begin(stk_audit *audit, uint64_t step);
/* Of a lane's gradients, at 10 GB/s. */
uint64_t stk_audit_hash(const float *values, size_t count);

/* When all lanes are computed and before the step is taken. STOKE_E_STATE on all ranks alike: who differ, in
 * which lane, and what to do. */
int stk_audit_compare(stk_audit *audit, stoke_error *err);
/* The same of weights, after step number `step`. A rank that differs from most of the others is named alone.
 */
int stk_audit_weights(stk_audit *audit, uint64_t step, const float *values, size_t count, stoke_error *err);

#endif
