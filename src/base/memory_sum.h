/* SPDX-License-Identifier: Apache-2.0
 *
 * What every plan counts, and what is said where memory_limit is too low.
 */
#ifndef STOKE_SRC_BASE_MEMORY_SUM_H
#define STOKE_SRC_BASE_MEMORY_SUM_H

#include <stoke/memory.h>

/* Code of codecs and C library that is mapped when the first sample touches it: 0.4-0.9 MB. */
enum { STK_CODE_BYTES = 1 << 20 };

/* STOKE_E_LIMIT for a sum beyond its limit. `least` is the least that will do: its terms are shown, and a
 * memory_limit that is accepted. `who` needs it ("the loader"); `instead` is what else a person can do. */
int stk_memory_refuse(const stoke_memory_sum *least, const char *who, const char *instead, stoke_error *err);

#endif
