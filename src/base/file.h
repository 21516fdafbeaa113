/* SPDX-License-Identifier: Apache-2.0
 *
 * Whole files in, whole files out.
 */
#ifndef STOKE_SRC_BASE_FILE_H
#define STOKE_SRC_BASE_FILE_H

#include <stdio.h>
#include <stoke/common.h>
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

/* A file that appears whole or not at all: write to `stream` (its descriptor can be read, too), then commit
 * (flush, fsync, rename, fsync of the folder) or abandon (the temporary file is removed). A symbolic link is
 * followed: what it points to is replaced. Devices, pipes and folders are refused, since the rename would put
 * a file in their place. The struct must stay where it is while it is open. */
typedef struct stk_atomic_file {
    FILE *stream;
    char *path, *temporary;
    stk_temporary noted;
    /* Set it after opening to leave out both fsyncs: for a file that is checked when it is read and made
     * again when it is damaged, as a power cut may then leave it. */
    int expendable;
} stk_atomic_file;
int stk_atomic_open(stk_atomic_file *file, const char *path, stoke_error *err);
int stk_atomic_commit(stk_atomic_file *file, stoke_error *err); /* abandons on failure */
void stk_atomic_abandon(stk_atomic_file *file);                 /* accepts a zeroed struct */

/* Removes from `folder` (not from those below) what writers that were killed left behind: regular files named
 * as stk_atomic_open names its temporaries, for files that one of `patterns` (of fnmatch, NULL behind the
 * last) stands for. Only for a folder nobody else is writing to. Returns how many. */
size_t stk_atomic_sweep(const char *folder, const char *const *patterns);

/* "folder/name" from the heap, without a second slash; NULL: no memory. */
char *stk_path_join(const char *folder, const char *name);
/* mkdir -p. */
int stk_make_folders(const char *path, stoke_error *err);

#endif
