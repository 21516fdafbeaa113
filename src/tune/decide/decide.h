/* SPDX-License-Identifier: Apache-2.0
 *
 * Decisions that several commands tell of: how many workers, whether memory is enough, whether a card gains
 * by mixed precision, whether a machine was quiet enough to measure on. check, why, diagnose, optimize and
 * the benches quote these, so that none of them sends a person to another that says the opposite.
 */
#ifndef STOKE_SRC_TUNE_DECIDE_DECIDE_H
#define STOKE_SRC_TUNE_DECIDE_DECIDE_H

#include <stoke/tools/advise.h>

/* Of memory of a card or of the host, what is to stay free. */
#define STK_SPARE_BYTES (UINT64_C(1) << 30)

/* ---- workers ---- */

/* How many a loader should have where nothing was measured: two thirds of the cores of its process, at least
 * 1. The rest is the trainer's, its copies' and the system's: 6 cores give 4, 12 give 8. `ranks` processes
 * share the cores. */
uint32_t stk_decide_workers(uint32_t cores, uint32_t ranks);
/* More than these are a mistake: as many as cores. Workers that wait for slow files leave their cores to
 * others: there up to four for each. No diagnosis proposes more. */
uint32_t stk_decide_workers_most(uint32_t cores, uint32_t ranks, int slow_files);

/* ---- memory ---- */

typedef enum stk_decide_verdict {
    STK_FITS = 0,     /* by the high end of the estimate, with room to spare */
    STK_FITS_PERHAPS, /* by its low end */
    STK_FITS_NOT
} stk_decide_verdict;
/* "24.5 to 34.0 GiB", "445.2 MiB to 1.7 GiB". Returns text. */
const char *stk_decide_range(const stoke_estimate *estimate, char *text, size_t size);
stk_decide_verdict stk_decide_fit(const stoke_estimate *estimate, double room);

/* ---- precision ---- */

/* Tensor cores, and with them time won by mixed precision, begin with Volta; bf16 in hardware with Ampere. By
 * the compute capability: 7.5 for Turing. */
#define STK_MIXED_SINCE 7.0
#define STK_BF16_SINCE  8.0

/* ---- measuring ---- */

/* Below this share of the cores that were wanted, times say more about other programs than about what was
 * measured. `had` and `wanted` in cores. */
int stk_decide_busy(double had, double wanted);

/* Smallest first; no NaN. */
void stk_sort_reals(double *values, size_t n);
double stk_median(double *values, size_t n); /* sorts them; NaN for none */

#endif
