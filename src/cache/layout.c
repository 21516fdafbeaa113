/* SPDX-License-Identifier: Apache-2.0 */
#include "src/cache/layout.h"

#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/retry.h"

#define HEX "0123456789abcdef"

DIR *stk_cache_below(int folder, const char *name)
{
    const int fd = stk_openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (fd >= 0 && !dir) close(fd);
    return dir;
}

int stk_cache_is_entry(const char *folder_name, const char *name)
{
    return !strncmp(name, folder_name, 2) && strspn(name, HEX) == 32 && !strcmp(name + 32, ".stk");
}

/* The last part is a sum of 64 bits: one with fewer than twelve digits comes once in 65,536 times and is left
 * lying; a date that somebody's file is called by never has them. */
int stk_cache_is_temporary(const char *name)
{
    for (int part = 0; part < 3; part++) {
        const size_t digits = strspn(name, HEX);
        if (digits < (part < 2 ? 1 : 12) || digits > 16 || name[digits] != (part < 2 ? '-' : 0)) return 0;
        name += digits + 1;
    }
    return 1;
}

/* ---- caches of version 0.1, which had no marker ---- */

static int is_regular(int folder, const char *name)
{
    struct stat st;
    return stk_fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode);
}

/* Whether a folder (tmp, or one of entries) has nothing but regular files of its own names; counts them. */
static int holds_only_ours(int folder, const char *name, int temporary, size_t *found)
{
    DIR *dir = stk_cache_below(folder, name);
    int ours = dir != NULL;
    for (const struct dirent *e; ours && (e = stk_readdir(dir));) {
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
        ours = (temporary ? stk_cache_is_temporary(e->d_name) : stk_cache_is_entry(name, e->d_name)) &&
               is_regular(dirfd(dir), e->d_name);
        *found += (size_t)(ours && !temporary);
    }
    if (dir && stk_closedir(dir)) ours = 0; /* what was not seen is not proved */
    return ours;
}

static int has_magic(int folder, const char *name, uint64_t magic, size_t *found)
{
    const int fd = stk_openat(folder, name, O_RDONLY | O_NOFOLLOW, 0);
    const int ours = fd >= 0 && stk_ours_begins(fd, &magic, sizeof magic);
    if (fd >= 0) close(fd);
    *found += (size_t)ours;
    return ours;
}

static int is_ours(int folder, const char *name, size_t *found)
{
    if (!strcmp(name, "memo")) return has_magic(folder, name, STK_MEMO_MAGIC, found);
    if (!strcmp(name, "usage")) return has_magic(folder, name, STK_USAGE_MAGIC, found);
    if (!strcmp(name, "tmp")) return holds_only_ours(folder, name, 1, found);
    return strlen(name) == 2 && strspn(name, HEX) == 2 && holds_only_ours(folder, name, 0, found);
}

/* Every name is one of ours, and there is at least one file that only a cache has: an empty tmp/ proves
 * nothing. All entries are listed, once in the life of a folder: 0.1 s for 100,000. */
static int is_older(int folder)
{
    size_t found = 0;
    const int copy = stk_openat(folder, ".", O_RDONLY | O_DIRECTORY, 0);
    DIR *dir = copy >= 0 ? fdopendir(copy) : NULL;
    int ours = dir != NULL;
    if (copy >= 0 && !dir) close(copy);
    for (const struct dirent *e; ours && (e = stk_readdir(dir));)
        if (!stk_ours_is_nothing(e->d_name)) ours = is_ours(folder, e->d_name, &found);
    if (dir && stk_closedir(dir)) ours = 0;
    return ours && found;
}

const stk_ours_kind stk_cache_kind = {
    .name = "cache",
    .line = "Decoded samples, kept by --cache. Deleting the folder empties the cache.",
    .is_older = is_older,
};
