/* SPDX-License-Identifier: Apache-2.0
 *
 * What a training run will take of memory, from its network to its pictures: planned, and held to
 * memory_limit, before any of it is taken.
 */
#ifndef STOKE_SRC_TRAIN_TRAIN_MEMORY_H
#define STOKE_SRC_TRAIN_TRAIN_MEMORY_H

#include "src/loader/memory_plan.h"
#include "src/train/predict.h"
#include "src/train/setup.h"

/* Code of the network's kernels and what else a run touches for the first time after it was planned, and its
 * log and report: 1.5-2.5 MB measured. */
enum { STK_RUN_BYTES = 3 << 20 };

typedef struct stk_train_memory {
    stoke_net_plan net;
    stk_loader_plan train, val; /* val: all 0 without validation */
    uint64_t lanes;             /* sums of lanes that wait to be added up */
    uint64_t viewer, whole; /* validation of whole pictures that are restored: its network, the pictures */
    int slides;             /* validation by windows: no loader, but these */
    stk_predict_work slide;
    stk_probe seen;
    stoke_memory_sum sum;
    int prefetch_reduced;
} stk_train_memory;

/* Settings of the loader of training (val 0) or validation: with the number of workers that leaves the cores
 * to the network. */
stoke_data_params stk_part_data(const stk_setup *setup, int val);

/* Reads headers. What the two loaders' workers hold is counted once: one of them rests while the other works.
 * Of several processes rank 0 takes the most of what an evaluation comes to, and the plan is its.
 * STOKE_E_LIMIT: more than memory_limit; the message has the arithmetic. */
int stk_train_memory_make(stk_train_memory *memory, const stk_setup *setup, uint32_t pictures,
                          stoke_error *err);

/* Adds the network's regions. */
void stk_net_add_memory(stoke_memory_sum *sum, const stoke_net_plan *net);
/* What the process holds beside a network that is open already, and will of code and threads. */
uint64_t stk_process_beside(const stoke_net_plan *net);

/* For the choice of a batch: bytes of both loaders without rows, and of every row. */
int stk_train_memory_rows(const stk_setup *setup, uint64_t *fixed, uint64_t *per_row, stoke_error *err);

#endif
