/* SPDX-License-Identifier: Apache-2.0
 *
 * A run of several processes: rank 0 has the run's folder, the others its data. All take the same decisions,
 * since all know the same: what one alone can know (an error, a wish to stop, the clock) it tells the others
 * at fixed places, and what follows is everyone's.
 */
#ifndef STOKE_SRC_TRAIN_RANKS_H
#define STOKE_SRC_TRAIN_RANKS_H

#include "src/comm/comm.h"

struct stoke_trainer;

/* Joins the others, before anything large is taken; alone it stays alone. Settles `replicas`. */
int stk_ranks_open(struct stoke_trainer *trainer, stoke_train_params *params, stoke_error *err);

/* Whether this is the process that writes files and speaks. */
int stk_ranks_first(const struct stoke_trainer *trainer);

/* What became of this rank's part: `r` and its message. All ranks get the error of the lowest one that has
 * any, rank 0 with its name in front, the others without a message: it is told once. Also agrees whether to
 * stop. */
int stk_ranks_agree(struct stoke_trainer *trainer, int r, stoke_error *err);
/* The same before the sums of a step; *images becomes those of all ranks, and rank 0's clock decides whether
 * the step is saved. */
int stk_ranks_agree_on_step(struct stoke_trainer *trainer, int r, uint64_t *images, int *save,
                            stoke_error *err);

/* Rank 0's bytes, in place. */
int stk_ranks_take(struct stoke_trainer *trainer, void *data, size_t bytes, stoke_error *err);
/* Rank 0's text; the others' is freed. */
int stk_ranks_take_text(struct stoke_trainer *trainer, char **text, stoke_error *err);
/* Rank 0's network: weights, moments, average, counters. */
int stk_ranks_take_network(struct stoke_trainer *trainer, stoke_error *err);

#endif
