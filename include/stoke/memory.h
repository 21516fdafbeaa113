/* SPDX-License-Identifier: Apache-2.0
 *
 * What a command will take of memory, before it takes it: a few named shares and their sum. Whoever takes a
 * lasting piece of memory adds a share; one function writes the line that people read, and what they read is
 * the ceiling.
 */
#ifndef STOKE_MEMORY_H
#define STOKE_MEMORY_H

#include <stoke/common.h>

enum { STOKE_MEMORY_SHARES = 16 };

typedef struct stoke_memory_share {
    const char *name; /* a constant: "training ring" */
    uint64_t count;   /* so many of ... */
    uint64_t bytes;   /* ... this size each */
} stoke_memory_share;

typedef struct stoke_memory_sum {
    stoke_memory_share share[STOKE_MEMORY_SHARES];
    size_t count;
    uint64_t limit_bytes; /* memory_limit; 0 = none */
} stoke_memory_sum;

/* Adds `count` times `bytes` under a name that outlives the sum; nothing when that is 0. What comes after the
 * last place is added to the last share, so that the sum is right in any case. */
STOKE_API void stoke_memory_add(stoke_memory_sum *sum, const char *name, uint64_t count, uint64_t bytes);
STOKE_API uint64_t stoke_memory_total(const stoke_memory_sum *sum);
/* "ring 4 x 100.7 MB + workers 2 x 6.1 MB + process 9.4 MB = 424.4 MB": one unit for all, so that a reader
 * can add them up. Returns the length snprintf-style. */
STOKE_API int stoke_memory_text(const stoke_memory_sum *sum, char *text, size_t size);

#endif
