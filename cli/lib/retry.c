/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/lib/retry.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <stoke/tools/retry.h>

static int look(int folder, const char *path, struct stat *st, int flags)
{
    stoke_patience patience = { 0 };
    int r;
    do r = fstatat(folder, path, st, flags);
    while (r != 0 && stoke_again(&patience, errno));
    return r;
}

int cli_stat(const char *path, struct stat *st)
{
    return look(AT_FDCWD, path, st, 0);
}

int cli_lstat(const char *path, struct stat *st)
{
    return look(AT_FDCWD, path, st, AT_SYMLINK_NOFOLLOW);
}

int cli_fstat(int fd, struct stat *st)
{
    return look(fd, "", st, AT_EMPTY_PATH);
}

int cli_open(const char *path, int flags)
{
    stoke_patience patience = { 0 };
    int fd;
    do fd = open(path, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666);
    while (fd < 0 && stoke_again(&patience, errno));
    return fd;
}

DIR *cli_opendir(const char *path)
{
    const int fd = cli_open(path, O_RDONLY | O_DIRECTORY);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (fd >= 0 && !dir) close(fd);
    return dir;
}

struct dirent *cli_readdir(DIR *dir)
{
    stoke_patience patience = { 0 };
    struct dirent *entry;
    do {
        errno = 0;
        entry = readdir(dir);
    } while (!entry && errno && stoke_again(&patience, errno));
    return entry;
}

int cli_there(const char *path)
{
    struct stat st;
    return cli_stat(path, &st) == 0 || !stoke_is_absent(errno);
}
