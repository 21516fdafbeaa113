/* SPDX-License-Identifier: Apache-2.0
 *
 * Which content a file had: a cache hit then costs two stat calls instead of reading both source files to
 * find the key. A file is known by everything stat says about it (identity); one that was written to, moved
 * or replaced has another identity and is read again.
 */
#ifndef STOKE_SRC_CACHE_MEMO_H
#define STOKE_SRC_CACHE_MEMO_H

#include <stoke/common.h>

/* XXH3-128 of a file's bytes. */
typedef struct stk_cache_digest {
    uint64_t word[2];
} stk_cache_digest;

stk_cache_digest stk_digest_of(const void *bytes, size_t size);

typedef struct stk_cache_identity {
    uint64_t device, inode, mtime_ns, ctime_ns;
    uint64_t file_size;    /* of the whole file */
    uint64_t offset, size; /* the part that is looked at */
} stk_cache_identity;

/* 0 when the file cannot be looked at. */
int stk_identity_of(const stoke_blob *blob, stk_cache_identity *identity);
int stk_identity_equal(const stk_cache_identity *a, const stk_cache_identity *b);

typedef struct stk_memo stk_memo;

/* `folder` is an open folder whose file "memo" has the records of earlier runs, or -1: memory only. `alone`:
 * no other process uses the folder, a file that has grown too large or is damaged may be written again.
 * `writable` 0: nothing is added to the file. */
int stk_memo_open(stk_memo **out, int folder, int alone, int writable, stoke_error *err);
void stk_memo_close(stk_memo **memo);

/* Takes over what the bytes of such a file say, stepping over what is no record. 1 when they are nothing but
 * records, none of them twice. Not thread-safe; nor is stk_memo_file. */
int stk_memo_take(stk_memo *memo, const void *file, size_t size);
/* The file that says all a memo knows: its size, and its bytes where `to` is not NULL. */
size_t stk_memo_file(const stk_memo *memo, void *to);

/* Makes room for `files` more, so that steady work allocates nothing. Returns 0 for want of memory. */
int stk_memo_reserve(stk_memo *memo, uint64_t files);

uint64_t stk_memo_memory(stk_memo *memo);
/* The same of one that knows so many files and no others. */
uint64_t stk_memo_bytes(uint64_t files);

/* 1 and the digest when the identity is known. Thread-safe, as is add. */
int stk_memo_find(stk_memo *memo, const stk_cache_identity *identity, stk_cache_digest *digest);
/* Remembers what was read from a file that had this identity before and after reading. A file changed less
 * than 3 s ago is not remembered: time stamps are coarse (4 ms on ext4, 2 s on FAT), and a second change
 * within one tick would not show. */
void stk_memo_add(stk_memo *memo, const stk_cache_identity *identity, const stk_cache_digest *digest);

#endif
