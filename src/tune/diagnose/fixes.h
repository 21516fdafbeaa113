/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside the search for fixes.
 */
#ifndef STOKE_SRC_TUNE_DIAGNOSE_FIXES_H
#define STOKE_SRC_TUNE_DIAGNOSE_FIXES_H

#include "src/tune/diagnose/forecast.h"

/* stoke_fixes_find where some cannot be made: not_here[cause] is the reason why, or NULL; they are neither
 * tried nor taken. not_here NULL = all can. */
int stk_fixes_find(stoke_fixes *out, const stoke_costs *costs, uint32_t usable, uint64_t seed,
                   const char *const not_here[STOKE_CAUSES], stoke_error *err);

/* With as many workers and as much made ahead as any fix of it may propose. */
stoke_setup stk_fixes_largest(const stoke_setup *from, uint32_t usable);

#endif
