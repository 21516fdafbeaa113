/* SPDX-License-Identifier: Apache-2.0
 *
 * A check that several processes make together, as a launcher started them: what each found is told to all,
 * and rank 0 has the lines of it.
 */
#ifndef STOKE_SRC_TUNE_PREFLIGHT_PREFLIGHT_RANKS_H
#define STOKE_SRC_TUNE_PREFLIGHT_PREFLIGHT_RANKS_H

#include "src/comm/comm.h"
#include "src/tune/preflight/preflight.h"

/* What a rank tells the others. */
typedef struct stk_rank_facts {
    int32_t code; /* what its own look around ended with; `text` says why */
    uint32_t data_there;
    uint64_t cores, affinity, allowed;
    uint64_t pairs, names, sizes; /* digests of the set: of names, of sizes of files */
    double free_bytes;            /* of memory; NaN = n/a */
    char cpu[32], host[64];
    uint64_t pid;
    char text[512]; /* "": nothing is wrong */
} stk_rank_facts;

/* What was measured between them, on rank 0. */
typedef struct stk_rank_links {
    char library[128];
    double clock[STOKE_COMM_PEERS]; /* seconds that its clock is ahead of rank 0's; NaN = not measured */
    double bytes_s, ms;             /* sent by one rank in an exchange of `bytes`; 0 = not measured */
    uint64_t bytes;
    char why_not[256];
} stk_rank_links;

/* The lines about `world` ranks, behind those of rank 0 itself. */
void stk_preflight_judge_ranks(stoke_preflight *list, const stk_run_config *config,
                               const stk_rank_facts *facts, uint32_t world, const stk_rank_links *links);

/* Rank 0's list gets the lines. `code` and `err`: what this rank's own check ended with; for a rank above 0
 * that is told by rank 0, and no error here. */
int stk_preflight_together(stoke_preflight *list, stk_comm *comm, const stk_run_config *config,
                           const stk_preflight_surroundings *here, int code, stoke_error *err);
/* The same where they cannot reach each other, which `err` tells: one more line that failed. */
void stk_preflight_alone(stoke_preflight *list, const stoke_error *err);

#endif
