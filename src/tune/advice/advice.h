/* SPDX-License-Identifier: Apache-2.0
 *
 * Usual settings, as data (0 or NULL: none is usual), and the estimate of memory.
 */
#ifndef STOKE_SRC_TUNE_ADVICE_ADVICE_H
#define STOKE_SRC_TUNE_ADVICE_ADVICE_H

#include "src/base/gpus.h"
#include <stoke/tools/advise.h>

/* SegFormer by memory: from so many GB on. Ends with the row of 0 GB, the processor alone. */
typedef struct stk_advice_tier {
    uint32_t gb;
    const char *title; /* "16 GB and more" */
    const char *model;
    uint32_t side, batch;
    const char *lr;
    uint32_t epochs, accumulate, workers;
    int scheduler; /* 1: on, -1: none */
} stk_advice_tier;
extern const stk_advice_tier stk_tiers[];
const stk_advice_tier *stk_tier_of(uint64_t memory);

/* What people are told to expect of a card with its usual settings: of 100 epochs of one and the same task.
 */
typedef struct stk_advice_expected {
    const char *epoch, *epochs, *f1; /* "1 to 2 min", "2 to 3 h", "0.95 to 0.96" */
} stk_advice_expected;

/* What is usual on a card. */
typedef struct stk_advice_row {
    const char *name; /* of gpus.def */
    const char *model;
    uint32_t batch, workers;
    const stk_advice_expected *expected; /* NULL: not known */
} stk_advice_row;
/* NULL: nothing is usual but by its memory. */
const stk_advice_row *stk_advice_row_of(const stk_gpu *gpu);

/* The small network by card; other cards take the row of their memory. */
typedef struct stk_advice_small_row {
    const char *card;
    uint32_t gb, batch, channels, blocks, patch, workers;
    int perceptual;              /* 1: with a perceptual loss, -1: without */
    const char *borrowed;        /* the card that blocks, patch and workers are taken from; NULL: its own */
    const char *busy, *speed_up; /* to expect: "85 %", "3 to 5 times" */
} stk_advice_small_row;
const stk_advice_small_row *stk_small_row_of(const char *card, uint64_t memory);

/* The loader by memory: batches that each worker keeps ready (prefetch_factor), and the whole of a train_ds
 * section where nothing is known of the network. */
typedef struct stk_advice_loader_row {
    uint32_t gb, prefetch, prefetch_most, batch, workers;
} stk_advice_loader_row;
const stk_advice_loader_row *stk_loader_row_of(uint64_t memory);

/* The SegFormers, from b0: the memory that is usual for training one, and what it is taken for. */
typedef struct stk_advice_model_row {
    const char *model;
    uint32_t million, gb;
    const char *use;
} stk_advice_model_row;
enum { STK_MODELS = 6 };
extern const stk_advice_model_row stk_model_rows[STK_MODELS];
size_t stk_model_index(const char *model);

extern const stk_advice_expected stk_expected_processor;

/* Whether `memory` bytes are a card of `gb`: drivers keep up to a twentieth for themselves. */
int stk_is_at_least(uint64_t memory, uint32_t gb);

/* ---- the estimate of memory, as others in this room ask for it: estimate.c ---- */

/* Whether a name is that of the small residual network; NULL is none. */
int stk_is_resnet(const char *model);
/* What task auto means for these: STOKE_TASK_SEGMENT or _RESTORE. */
int stk_estimate_task(const stoke_estimate_params *params);
/* Whether a model can be made with these sizes; 0: its own. */
int stk_model_takes(const char *model, uint32_t base_channels, uint32_t num_blocks);
/* Blocks of a network that follow one another; 0 = it is not known. */
uint32_t stk_estimate_blocks(const stoke_estimate_params *params);

/* The largest batch that leaves 1 GiB free, a multiple of 8 where one fits; 0 = not one picture does. */
int stk_estimate_largest(const stoke_estimate_params *params, stoke_engine engine, uint64_t memory,
                         uint32_t *batch, stoke_error *err);

#endif
