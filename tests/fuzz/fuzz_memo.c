/* SPDX-License-Identifier: Apache-2.0
 *
 * The memo of a cache is anyone's file. Whatever is in it, taking it over takes memory in proportion, what
 * would be written instead is records only and says the same, and the memo then works. Sums are set right for
 * a second try: they keep nobody out. The file itself is tests/unit/test_cache_memo.c's.
 */
#include "tests/fuzz/fuzz.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "src/cache/cache.h"

enum { RECORD = 48, SLOT = 32, FIRST_SLOTS = 1024 };

static stk_memo *empty(void)
{
    stk_memo *memo;
    if (stk_memo_open(&memo, -1, 0, 0, NULL)) abort();
    return memo;
}

static void check_use(stk_memo *memo)
{
    const stk_cache_identity identity = { .inode = 3, .mtime_ns = 1, .size = 7 };
    const stk_cache_digest digest = { { 5, 6 } };
    stk_cache_digest found;
    stk_memo_add(memo, &identity, &digest);
    if (!stk_memo_find(memo, &identity, &found) || memcmp(&found, &digest, sizeof found)) abort();
}

static void try(const uint8_t *bytes, size_t size)
{
    stk_memo *memo = empty(), *again = empty();
    const int tidy = stk_memo_take(memo, bytes, size);
    /* a slot for every record, half of them empty, in powers of two */
    if (stk_memo_memory(memo) > (FIRST_SLOTS + 4 * size / RECORD) * SLOT) abort();
    const size_t length = stk_memo_file(memo, NULL);
    if (length % RECORD || length > size || (tidy && length != size)) abort();
    uint8_t *file = malloc(length ? length : 1);
    if (!file || stk_memo_file(memo, file) != length) abort();
    if (!stk_memo_take(again, file, length) || stk_memo_file(again, NULL) != length) abort();
    free(file);
    check_use(memo);
    check_use(again);
    stk_memo_close(&memo);
    stk_memo_close(&again);
}

FUZZ_TARGET(memo)
{
    try(bytes, size);
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy) abort();
    if (size) memcpy(copy, bytes, size);
    for (size_t at = 0; at + RECORD <= size;) {
        if (memcmp(copy + at, "stkmemo1", 8) != 0) {
            at++;
            continue;
        }
        const uint64_t sum = XXH3_64bits(copy + at, RECORD - 8);
        memcpy(copy + at + RECORD - 8, &sum, sizeof sum);
        at += RECORD;
    }
    try(copy, size);
    free(copy);
    return 0;
}
