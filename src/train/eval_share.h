/* SPDX-License-Identifier: Apache-2.0
 *
 * An evaluation as processes share it. Rank r takes batches (or pictures) r, r + W, ... of the set, so that
 * each sample is looked at once. What a go through the network gave is a part, known by its place in the set;
 * rank 0 gets all parts and adds them up in the order of the set, as one process does with its own. So every
 * score has the same bits for any number of processes.
 */
#ifndef STOKE_SRC_TRAIN_EVAL_SHARE_H
#define STOKE_SRC_TRAIN_EVAL_SHARE_H

#include "src/comm/comm.h"
#include "src/train/evaluate.h"

/* ---- which of the set ---- */

struct stk_eval_word;

struct stk_eval_share {
    stk_comm *comm; /* NULL: one process */
    uint32_t rank, world;
    const stoke_dataset *dataset; /* the same on all ranks */
    uint64_t max_bad;             /* samples of all ranks together */
    uint64_t batches;             /* of the loader that follows it */
    struct stk_eval_word *words;  /* one of each rank, and behind them the one that is told */
    stoke_comm_part *ports;       /* to and from each rank */
};

/* max_bad: as in stoke_data_params. comm may be NULL. */
int stk_eval_share_open(stk_eval_share *share, stk_comm *comm, const stoke_dataset *dataset,
                        const char *max_bad, stoke_error *err);
void stk_eval_share_close(stk_eval_share *share); /* accepts a zeroed struct */
/* A loader of the whole set gives this process's batches from now on, epoch by epoch (set_epoch). The share
 * must stay where it is. */
void stk_eval_share_follow(stk_eval_share *share, stoke_loader *loader);
/* Of `count` things in turn those of this process. share may be NULL: all. */
uint64_t stk_eval_share_own(const stk_eval_share *share, uint64_t count);
/* Which of the set its i-th one is. */
static inline uint64_t stk_eval_share_at(const stk_eval_share *share, uint64_t i)
{
    return share ? share->rank + i * share->world : i;
}

/* ---- what is added up ---- */

typedef struct stk_eval_part {
    uint64_t place; /* of its first sample in the set: no two parts have one */
    double loss;    /* sum over `losses` samples */
    uint32_t losses, samples, windows, resized;
    stk_restored_sum output, input; /* restore alone: of one picture */
} stk_eval_part;

/* What a process found in its share; at rank 0, after stk_eval_sums_finish, what all have. */
typedef struct stk_eval_sums {
    void *parts; /* of `each` bytes */
    size_t n, room, each;
    stoke_confusion *confusion;    /* NULL: pictures are restored, and ... */
    stk_restored_sums *restored;   /* ... added up here; else NULL */
    stk_evaluate_gallery *gallery; /* may be NULL */
    stk_evaluate_result *result;   /* has the list of the worst */
} stk_eval_sums;

void stk_eval_sums_begin(stk_eval_sums *sums);
int stk_eval_sums_add(stk_eval_sums *sums, const stk_eval_part *part, stoke_error *err);
void stk_eval_sums_free(stk_eval_sums *sums);
/* Everyone's parts, counts, worst and pictures go to rank 0, where the result gets loss, scores, samples and
 * windows; what others then have is of no use. r: what became of this process's share. Fails on all ranks
 * when it failed on one, there with its own error, elsewhere with STOKE_E_CANCELLED; and with
 * STOKE_E_TOO_BAD when all together have left out more than max_bad. share may be NULL. */
int stk_eval_sums_finish(stk_eval_sums *sums, const stk_eval_share *share, int r, stoke_error *err);
/* Bytes that rank 0 takes for it, of so many parts at most. */
uint64_t stk_eval_sums_bytes(uint64_t parts, int restores, uint32_t classes, uint32_t world);

#endif
