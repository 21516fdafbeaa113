/* SPDX-License-Identifier: Apache-2.0
 *
 * What is in a tar archive and where: headers are read, contents are not. ustar, pax, GNU and V7 archives
 * without compression. Archives are hostile input; one that two programs could read in two ways is refused.
 */
#ifndef STOKE_SRC_SOURCE_TAR_H
#define STOKE_SRC_SOURCE_TAR_H

#include <limits.h>

#include "src/base/mem.h"

enum {
    STK_TAR_BLOCK = 512,
    STK_TAR_NAME = PATH_MAX /* names are shorter; the longest path a program could extract it to */
};

/* The header block, POSIX 1003.1 "ustar". Numbers are text, fields need not end in NUL. */
typedef struct stk_tar_header {
    char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, link[100];
    char magic[8]; /* with the version: "ustar\0" "00", GNU's "ustar  \0", V7's zeros */
    char user[32], group[32], major[8], minor[8], prefix[155], unused[12];
} stk_tar_header;
_Static_assert(sizeof(stk_tar_header) == STK_TAR_BLOCK, "a header is a block");

/* A member that is a file, or a link, device or pipe where a file might have been expected (never read; the
 * size is 0). Folders are not listed. */
typedef enum stk_tar_kind { STK_TAR_FILE, STK_TAR_LINK, STK_TAR_DEVICE } stk_tar_kind;

typedef struct stk_tar_member {
    const char *name; /* relative, without "." and ".." components */
    uint64_t offset;  /* of its first byte in the archive */
    uint64_t size;
    stk_tar_kind kind;
} stk_tar_member;

typedef struct stk_tar_index {
    stk_tar_member *members; /* in the order of the archive */
    size_t count, capacity;
    stk_string_arena names;
} stk_tar_index;

/* An archive: a file, or bytes in memory for tests and the fuzzer. */
typedef struct stk_tar_input {
    const char *path; /* its name in messages */
    uint64_t size;
    int (*read)(const struct stk_tar_input *input, uint64_t offset, void *bytes, size_t n); /* 0 or errno */
    const void *memory;
    int fd;
} stk_tar_input;

stk_tar_input stk_tar_memory(const char *path, const void *bytes, size_t size);
stk_tar_input stk_tar_file(const char *path, int fd, uint64_t size);

/* Fills a zeroed index. Messages: "FILE.tar: member 17 at byte 123456: ...". Memory is bounded by the
 * archive's size: a member takes at least a block of it, and its name lies in it. */
int stk_tar_scan(stk_tar_index *index, const stk_tar_input *input, stoke_error *err);

/* The same for a file, by the index file beside it (tar_index.h) where that is up to date; otherwise the
 * archive is scanned and the index file written, if the folder allows it and no link or file of somebody else
 * has that name. */
int stk_tar_open(stk_tar_index *index, const char *path, stoke_error *err);

/* Whether a header stands where it must for such a member: with a right sum, and of that size where the
 * header itself can say it. */
int stk_tar_has(const stk_tar_input *input, const stk_tar_member *member);

void stk_tar_close(stk_tar_index *index); /* accepts a zeroed struct */

/* Adds a member; the name is copied. */
int stk_tar_add(stk_tar_index *index, const char *name, size_t length, uint64_t offset, uint64_t size,
                stk_tar_kind kind, stoke_error *err);

/* Brings a name to its shortest form in place ("./a//b" is "a/b"). Returns NULL, or what is wrong with it: it
 * is empty, absolute, or climbs out by "..". */
const char *stk_tar_clean_name(char *name);

/* The index of an archive as a file beside it, FILE.tar.idx. Only a shortcut: whatever disagrees with the
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

/* The headers of an archive that is the same whoever writes it, and whenever: ustar, mode 0644, no owner, no
 * time. A pax header stands before names and sizes that ustar has no room for.
 */

enum {
    /* a pax header, its records (a name of PATH_MAX at most) and the member's own header */
    STK_TAR_HEAD_BYTES = 2 * STK_TAR_BLOCK + STK_TAR_NAME + 2 * STK_TAR_BLOCK,
    STK_TAR_END_BYTES = 2 * STK_TAR_BLOCK
};

/* Writes what stands before a member's bytes. Returns its length, a number of blocks; 0 when the name is
 * longer than STK_TAR_NAME - 1. */
size_t stk_tar_write_head(const char *name, uint64_t size, uint8_t head[STK_TAR_HEAD_BYTES]);

/* Zeros between the end of a member of `size` bytes and the next header. */
static inline size_t stk_tar_padding(uint64_t size)
{
    return (size_t)(-size % STK_TAR_BLOCK);
}

#endif
