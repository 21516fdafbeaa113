/* SPDX-License-Identifier: Apache-2.0
 *
 * Files that the command opens and looks at by itself, by the library's rule: what may pass is tried again
 * (<stoke/tools/retry.h>). -1 with errno, as the calls they are named after.
 */
#ifndef STOKE_CLI_LIB_RETRY_H
#define STOKE_CLI_LIB_RETRY_H

#include <dirent.h>
#include <sys/stat.h>

int cli_stat(const char *path, struct stat *st);
int cli_lstat(const char *path, struct stat *st);
int cli_fstat(int fd, struct stat *st);
DIR *cli_opendir(const char *path);
/* NULL: the end (errno 0), or the folder cannot be read on (errno). */
struct dirent *cli_readdir(DIR *dir);
/* A file that is not inherited by programs that are started, without waiting for the partner of a pipe. */
int cli_open(const char *path, int flags);
/* 0 only where the system says that nothing is at `path`: what cannot be looked at is taken to be there, and
 * whoever opens it says why it cannot be read. */
int cli_there(const char *path);

#endif
