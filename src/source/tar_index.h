/* SPDX-License-Identifier: Apache-2.0
 *
 * The index of an archive as a file beside it, FILE.tar.idx. Only a shortcut: whatever disagrees with the
 * archive, or is not exactly as it was written, is passed over and made again.
 *
 * Little-endian:
 *   16 bytes  "stoke-tar-idx-1\n"
 *   u64       size of the archive
 *   i64       its time of modification, nanoseconds since 1970
 *   u64       members
 *   members x { u64 offset, u64 size, u32 length of the name, u32 kind }
 *   names, one after the other, without ends
 *   u64       XXH3 of all that stands before
 */
#ifndef STOKE_SRC_SOURCE_TAR_INDEX_H
#define STOKE_SRC_SOURCE_TAR_INDEX_H

#include "src/source/tar.h"

/* Which archive an index belongs to. */
typedef struct stk_tar_stamp {
    uint64_t size;
    int64_t mtime_ns;
} stk_tar_stamp;

#define STK_TAR_INDEX_SUFFIX ".idx"

/* 1: an index file may be written or removed there: nothing is, or one of ours, of any version. */
int stk_tar_index_is_ours(const char *path);

/* Writes the index of an archive as `path`; whole or not at all. */
int stk_tar_index_write(const stk_tar_index *index, const stk_tar_stamp *stamp, const char *path,
                        stoke_error *err);

/* Fills a zeroed index from the bytes of an index file. STOKE_E_STATE: it belongs to another archive, or an
 * earlier state of it. STOKE_E_FORMAT: it is damaged. The index is then as empty as before. */
int stk_tar_index_parse(stk_tar_index *index, const stk_tar_stamp *stamp, const void *bytes, size_t size,
                        stoke_error *err);

#endif
