/* SPDX-License-Identifier: Apache-2.0
 *
 * Whole files in, whole files out.
 */
#ifndef STOKE_SRC_BASE_FILE_H
#define STOKE_SRC_BASE_FILE_H

#include <stdio.h>
#include <stoke/common.h>
#include <stoke/tools/output.h>
#include <sys/types.h>

#include "src/base/mem.h"

/* Files of this process that are being written under a name for the time being. Known, so that a program that
 * must end at once can take them away.
 */

/* Part of what its writer has at hand anyway: noting allocates nothing. It must not move while it is noted.
 */
typedef struct stk_temporary {
    struct stk_temporary *before, *after;
    int folder;       /* as of openat(2) */
    const char *name; /* borrowed */
    pid_t owner;      /* a child of fork has no business with it */
} stk_temporary;

/* Before the file is made; forget it once it is gone or has its name. Forgetting what is not noted (zeros) is
 * fine. */
void stk_temporary_note(stk_temporary *temporary, int folder, const char *name);
void stk_temporary_forget(stk_temporary *temporary);

/* Reads a regular file into the buffer (grown as needed, never more than `limit` bytes). The path is in the
 * message. Zero-byte files are STOKE_E_FORMAT "empty file". Directories, fifos and devices are refused. */
int stk_file_read(const char *path, uint64_t limit, stk_mem_buffer *buffer, size_t *size, stoke_error *err);

/* The same for a blob: a whole file, or a part of one, by positional reads. `shown` is its name in messages
 * (a member of a shard is "shard.tar:member"). A part that reaches past the end of its file is
 * STOKE_E_FORMAT. */
int stk_blob_read(const stoke_blob *blob, const char *shown, uint64_t limit, stk_mem_buffer *buffer,
                  size_t *size, stoke_error *err);
/* Its first bytes, up to `most`. Returns how many, 0 when it cannot be read; *size = the blob's whole length.
 */
size_t stk_blob_head(const stoke_blob *blob, void *bytes, size_t most, uint64_t *size);
/* Its length; 0 when there is no such file (path NULL included) or the part does not lie within it. */
uint64_t stk_blob_bytes(const stoke_blob *blob);

/* Removes from `folder` (not from those below) what writers that were killed left behind: regular files named
 * as stoke_output_open names its temporaries, for files that one of `patterns` (of fnmatch, NULL behind the
 * last) stands for. Only for a folder nobody else is writing to. Returns how many. */
size_t stk_atomic_sweep(const char *folder, const char *const *patterns);

/* "folder/name" from the heap, without a second slash; NULL: no memory. */
char *stk_path_join(const char *folder, const char *name);

#endif
