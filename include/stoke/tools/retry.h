/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of the system that may work the next time: tried again by one rule, by the library and by programs.
 * Any thread.
 */
#ifndef STOKE_TOOLS_RETRY_H
#define STOKE_TOOLS_RETRY_H

#include <stoke/common.h>

/* What was tried so far for one thing; begin with zeros. */
typedef struct stoke_patience {
    unsigned interrupted, repeated, waited;
} stoke_patience;

/* After a call failed with `number` (errno): 1 to try again, after the pause that is right for it; 0 to give
 * up.
 *   EINTR                                         at once
 *   EIO, ESTALE, ETIMEDOUT and the like           3 times, over 0.3 s; ESTALE needs the file opened again.
 * When 4 in a row were lost, with no read that worked in between, the disk is gone: once in the next 10 s
 *   EMFILE, ENFILE, ENOMEM, EAGAIN, ENOLCK        for 3 s, in growing pauses; when that was in vain, nobody
 *                                                 waits so long again in the next 10 s */
STOKE_API int stoke_again(stoke_patience *patience, int number);

/* Whether a path that could not be looked at is not there, by errno. All other errors, such as EIO and
 * EACCES, leave that open. */
STOKE_API int stoke_is_absent(int number);

/* By that rule, with errno as the calls they are named after. A file is opened so that programs that are
 * started do not inherit it, never for the sake of a terminal, and without waiting for the partner of a pipe.
 */
STOKE_API int stoke_open(const char *path, int flags, unsigned mode);
struct stat;
STOKE_API int stoke_stat(const char *path, struct stat *st);
STOKE_API int stoke_lstat(const char *path, struct stat *st);
STOKE_API int stoke_fstat(int fd, struct stat *st);
/* A DIR of <dirent.h>. The next entry is NULL at the end (errno 0), or where the folder cannot be read on
 * (errno), which is not the same as an empty one. */
STOKE_API void *stoke_opendir(const char *path);
struct dirent;
STOKE_API struct dirent *stoke_readdir(void *dir);
/* 0 only where the system says that nothing is at `path`. What it cannot look at is taken to be there:
 * whoever opens it says why it cannot be read, and nobody goes on without it in silence. */
STOKE_API int stoke_there(const char *path);

#endif
