/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/lib/retry.h"

#include <errno.h>
#include <fcntl.h>

#include <stoke/tools/retry.h>

static int look(const char *path, struct stat *st, int flags)
{
    stoke_patience patience = { 0 };
    int r;
    do r = fstatat(AT_FDCWD, path, st, flags);
    while (r != 0 && stoke_again(&patience, errno));
    return r;
}

int cli_stat(const char *path, struct stat *st)
{
    return look(path, st, 0);
}

int cli_lstat(const char *path, struct stat *st)
{
    return look(path, st, AT_SYMLINK_NOFOLLOW);
}

int cli_open(const char *path, int flags)
{
    stoke_patience patience = { 0 };
    int fd;
    do fd = open(path, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666);
    while (fd < 0 && stoke_again(&patience, errno));
    return fd;
}

int cli_there(const char *path)
{
    struct stat st;
    return cli_stat(path, &st) == 0 || !stoke_is_absent(errno);
}
