/* SPDX-License-Identifier: Apache-2.0
 *
 * The settings the documents recommend, as data. 0 or NULL: they do not say.
 */
#ifndef STOKE_SRC_TUNE_ADVICE_ADVICE_TABLES_H
#define STOKE_SRC_TUNE_ADVICE_ADVICE_TABLES_H

#include <stddef.h>
#include <stdint.h>

/* SegFormer by memory: from so many GB on. Ends with the row of 0 GB, the processor alone. */
typedef struct stk_tier {
    uint32_t gb;
    const char *title; /* "16 GB and more" */
    const char *model;
    uint32_t side, batch;
    const char *lr;
    uint32_t epochs, accumulate, workers;
    int no_scheduler;
} stk_tier;
extern const stk_tier stk_tiers[];
const stk_tier *stk_tier_of(uint64_t memory);

/* A card by the name people give it, and what the documents say of it. */
typedef struct stk_advice_row {
    const char *name; /* "RTX 3090" */
    uint32_t gb;
    const char *model; /* NULL: the documents do not have this card */
    uint32_t batch, workers;
} stk_advice_row;
extern const stk_advice_row stk_advice_rows[];
extern const size_t stk_advice_rows_count;

/* The small network by card; other cards take the row of their memory. */
typedef struct stk_small_row {
    const char *card;
    uint32_t gb, batch, channels, blocks, patch, workers;
    int no_perceptual;
    const char *borrowed; /* the card that blocks, patch and workers are taken from; NULL: its own */
} stk_small_row;
const stk_small_row *stk_small_row_of(const char *card, uint64_t memory);

/* Batches kept on the device, by memory. */
typedef struct stk_prefetch_row {
    uint32_t gb, low, high;
} stk_prefetch_row;
const stk_prefetch_row *stk_prefetch_of(uint64_t memory);

/* What a name as typed, or as NVML has it, says. */
typedef struct stk_advice_name {
    const stk_advice_row *card; /* NULL: not in the table */
    uint32_t gb;                /* in the name itself ("A100-SXM4-40GB"); 0 = not */
    int portable;               /* of a laptop: another chip with less memory under the same number */
    const char *nearest;        /* a known one, when it is none; NULL: none is near */
} stk_advice_name;
stk_advice_name stk_advice_card(const char *name);

/* Whether `memory` bytes are a card of `gb`: drivers keep up to a twentieth for themselves. */
int stk_is_at_least(uint64_t memory, uint32_t gb);

#endif
