/* SPDX-License-Identifier: Apache-2.0
 *
 * The memo of a cache is anyone's file. Whatever is in it, loading takes memory in proportion, leaves a file
 * of whole records only, and the memo then works. Sums are set right for a second try: they keep nobody out.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "src/cache/memo.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

enum { RECORD = 48, SLOT = 32, FIRST_SLOTS = 1024 };

static off_t length_of(int folder)
{
    struct stat st;
    if (fstatat(folder, "memo", &st, 0) != 0) abort();
    return st.st_size;
}

static stk_memo *load(int folder)
{
    stk_memo *memo;
    if (stk_memo_open(&memo, folder, 1, 1, NULL)) abort();
    return memo;
}

static void try(int folder, const uint8_t *bytes, size_t size)
{
    const stk_identity identity = { .inode = 3, .mtime_ns = 1, .size = 7 };
    const stk_digest digest = { { 5, 6 } };
    stk_digest found;
    const int fd = openat(folder, "memo", O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (fd < 0 || write(fd, bytes, size) != (ssize_t)size) abort();
    close(fd);
    stk_memo *memo = load(folder);
    /* a slot for every record, half of them empty, in powers of two */
    if (stk_memo_memory(memo) > (FIRST_SLOTS + 4 * size / RECORD) * SLOT) abort();
    const off_t tidy = length_of(folder);
    if (tidy % RECORD || tidy > (off_t)size) abort();
    stk_memo_add(memo, &identity, &digest);
    if (!stk_memo_find(memo, &identity, &found) || memcmp(&found, &digest, sizeof found)) abort();
    stk_memo_close(&memo);
    memo = load(folder);
    if (length_of(folder) != tidy + RECORD) abort(); /* nothing was left to tidy up */
    if (!stk_memo_find(memo, &identity, &found) || memcmp(&found, &digest, sizeof found)) abort();
    stk_memo_close(&memo);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    char path[] = "/tmp/stoke-fuzz-XXXXXX";
    if (!mkdtemp(path)) abort();
    const int folder = open(path, O_RDONLY | O_DIRECTORY);
    try(folder, bytes, size);
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
    try(folder, copy, size);
    free(copy);
    unlinkat(folder, "memo", 0);
    close(folder);
    rmdir(path);
    return 0;
}
