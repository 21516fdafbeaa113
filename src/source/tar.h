/* SPDX-License-Identifier: Apache-2.0
 *
 * What is in a tar archive and where: headers are read, contents are not. ustar, pax, GNU and V7 archives
 * without compression. Archives are hostile input; one that two programs could read in two ways is refused.
 */
#ifndef STOKE_SRC_SOURCE_TAR_H
#define STOKE_SRC_SOURCE_TAR_H

#include <limits.h>

#include "src/base/string_arena.h"

enum {
    STK_TAR_BLOCK = 512,
    STK_TAR_NAME = PATH_MAX /* names are shorter; the longest path a program could extract it to */
};

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

#endif
