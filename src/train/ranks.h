/* SPDX-License-Identifier: Apache-2.0
 *
 * A run of several processes: rank 0 has the run's folder, the others its data. All take the same decisions,
 * since all know the same: what one alone can know (an error, a wish to stop, the clock, a remark) it tells
 * the others at fixed places, and what follows is everyone's.
 */
#ifndef STOKE_SRC_TRAIN_RANKS_H
#define STOKE_SRC_TRAIN_RANKS_H

#include "src/comm/comm.h"

struct stoke_trainer;
struct stk_ranks_word;

/* Room for what all say at once, taken when the run opens: whoever had none later could not say so. */
typedef struct stk_ranks {
    struct stk_ranks_word *words; /* [world] */
    char *texts;                  /* [1 + world][STOKE_ERROR_TEXT]: the own one first */
    stoke_comm_part *parts;       /* [2 * world] */
    uint64_t few[8];              /* what is on its way of a caller that could return before it comes */
    int working;                  /* rank 0 works by itself, and tells the others so */
    uint64_t told_ns;             /* when they were told last */
} stk_ranks;

/* Joins the others, before anything large is taken; alone it stays alone. Settles `replicas`. */
int stk_ranks_open(struct stoke_trainer *trainer, stoke_train_params *params, stoke_error *err);
void stk_ranks_close(struct stoke_trainer *trainer);

/* Whether this is the process that writes files and speaks. */
int stk_ranks_first(const struct stoke_trainer *trainer);
/* 1: the others are not heard of any more, and cannot be told anything. */
int stk_ranks_lost(const struct stoke_trainer *trainer);
/* Of those that wait for a rank that does not come, the lowest tells why all end, and ends all. The others
 * wait here for that; who comes back tells it after all. */
void stk_ranks_wait_for_the_end(const struct stoke_trainer *trainer);

/* What became of this rank's part: `r` and its message. All ranks get the error of the lowest one that has
 * any, rank 0 with its name in front, the others without a message: it is told once. Also agrees whether to
 * stop, and rank 0 says what the others have remarked. */
int stk_ranks_agree(struct stoke_trainer *trainer, int r, stoke_error *err);

/* Of the step that is on its way. */
typedef struct stk_ranks_step {
    uint64_t images; /* becomes those of all ranks */
    double waited;   /* seconds, for data: becomes the mean of all ranks */
    int save;        /* the last checkpoint is long ago: becomes what rank 0's clock says */
} stk_ranks_step;
/* The same before the sums of a step. */
int stk_ranks_agree_on_step(struct stoke_trainer *trainer, int r, stk_ranks_step *step, stoke_error *err);
/* After the last agreement on anything: what is still to be said by rank 0. */
void stk_ranks_say_rest(struct stoke_trainer *trainer);

/* Work that rank 0 does while the others wait, however long, and what came of it: everyone's. */
int stk_ranks_by_first(struct stoke_trainer *trainer, int (*work)(struct stoke_trainer *, stoke_error *),
                       stoke_error *err);
/* In that work, now and then: it goes on. Fails when the others are lost. */
int stk_ranks_working(struct stoke_trainer *trainer);

/* Rank 0's bytes, in place. */
int stk_ranks_take(struct stoke_trainer *trainer, void *data, size_t bytes, stoke_error *err);
/* Rank 0's text; the others' is freed. */
int stk_ranks_take_text(struct stoke_trainer *trainer, char **text, stoke_error *err);
/* Rank 0's network: weights, moments, average, counters. */
int stk_ranks_take_network(struct stoke_trainer *trainer, stoke_error *err);

#endif
