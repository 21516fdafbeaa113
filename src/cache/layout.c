/* SPDX-License-Identifier: Apache-2.0 */
#include "src/cache/layout.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

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

/* Whether a folder (tmp, or one of entries) holds only regular files with the cache's names; counts them. */
static int holds_only_ours(int folder, const char *name, int temporary, size_t *found)
{
    DIR *dir = stk_cache_below(folder, name);
    struct stat st;
    int ours = dir != NULL;
    for (const struct dirent *e; ours && (e = stoke_readdir(dir));) {
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
        ours = (temporary ? stk_cache_is_temporary(e->d_name) : stk_cache_is_entry(name, e->d_name)) &&
               stk_fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode);
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
    for (const struct dirent *e; ours && (e = stoke_readdir(dir));)
        if (!stk_ours_is_nothing(e->d_name)) ours = is_ours(folder, e->d_name, &found);
    if (dir && stk_closedir(dir)) ours = 0;
    return ours && found;
}

const stk_ours_kind stk_cache_kind = {
    .name = "cache",
    .line = "Decoded samples, kept by --cache. Deleting the folder empties the cache.",
    .is_older = is_older,
};

/* The file holds one record. Byte 0 of it is locked for as long as the record is read and written (2 us, once
 * per stored entry, against milliseconds of decoding); byte 1 is locked in common by every process that uses
 * the folder, so that a process which gets it for itself knows that it is alone. These are locks of the open
 * file (F_OFD_*), not of the process: two loaders in one process count as two. A killed process leaves no
 * lock behind; the room that it took for an entry and never filled is given back when the next one that finds
 * itself alone adds up the folder.
 *
 * Not mapped into memory: a mapping of a file that someone cuts short ends the process, and on network file
 * systems mappings of two machines do not see each other, while locks and reads do.
 */

enum { RECORD_BYTE = 0, PRESENCE_BYTE = 1 };

typedef struct record {
    uint64_t magic, bytes, known;
    uint64_t check; /* XXH3-64 of all before */
} record;

static int lock_byte(int fd, int byte, short kind, int wait)
{
    struct flock lock = { .l_type = kind, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1 };
    int r;
    do r = fcntl(fd, wait ? F_OFD_SETLKW : F_OFD_SETLK, &lock);
    while (r != 0 && errno == EINTR);
    return r == 0 ? 0 : errno;
}

int stk_usage_open(stk_cache_usage *usage, int folder)
{
    usage->fd = stk_openat(folder, "usage", O_RDWR | O_CREAT | O_NOFOLLOW, 0666);
    if (usage->fd < 0) return -errno;
    const uint64_t magic = STK_USAGE_MAGIC;
    const int ours =
        stk_ours_begins(usage->fd, &magic, sizeof magic); /* somebody's file of that name stays */
    int number = ours ? lock_byte(usage->fd, PRESENCE_BYTE, F_WRLCK, 0) : EEXIST;
    const int alone = !number;
    if (number == EAGAIN || number == EACCES) number = lock_byte(usage->fd, PRESENCE_BYTE, F_RDLCK, 1);
    if (number) {
        close(usage->fd);
        usage->fd = -1;
        return -number;
    }
    pthread_mutex_init(&usage->lock, NULL);
    return alone;
}

void stk_usage_ready(stk_cache_usage *usage)
{
    lock_byte(usage->fd, PRESENCE_BYTE, F_RDLCK, 1);
}

void stk_usage_close(stk_cache_usage *usage)
{
    if (usage->fd < 0) return;
    pthread_mutex_destroy(&usage->lock);
    close(usage->fd); /* and with it the locks */
    usage->fd = -1;
}

/* The mutex keeps the threads of this process apart: they share the open file, so its locks do not. */
static record begin(stk_cache_usage *usage)
{
    record r;
    pthread_mutex_lock(&usage->lock);
    lock_byte(usage->fd, RECORD_BYTE, F_WRLCK, 1);
    if (pread(usage->fd, &r, sizeof r, 0) != (ssize_t)sizeof r || r.magic != STK_USAGE_MAGIC ||
        r.check != XXH3_64bits(&r, offsetof(record, check)))
        r = (record){ .magic = STK_USAGE_MAGIC };
    return r;
}

static void end(stk_cache_usage *usage)
{
    lock_byte(usage->fd, RECORD_BYTE, F_UNLCK, 1);
    pthread_mutex_unlock(&usage->lock);
}

/* 32 bytes at the beginning of a file of 32: a full disk does not stop this write. Should it fail, the record
 * is torn or old, and the next process that is alone adds up the folder. */
static void store(stk_cache_usage *usage, record r)
{
    r.check = XXH3_64bits(&r, offsetof(record, check));
    if (pwrite(usage->fd, &r, sizeof r, 0) != (ssize_t)sizeof r) return;
}

void stk_usage_set(stk_cache_usage *usage, uint64_t bytes, int known)
{
    record r = begin(usage);
    r.bytes = bytes;
    r.known = known != 0;
    store(usage, r);
    end(usage);
}

uint64_t stk_usage_bytes(stk_cache_usage *usage, int *known)
{
    const record r = begin(usage);
    end(usage);
    if (known) *known = r.known != 0;
    return r.bytes;
}

int stk_usage_take(stk_cache_usage *usage, uint64_t bytes, uint64_t budget)
{
    record r = begin(usage);
    const int fits = !budget || (r.bytes <= budget && budget - r.bytes >= bytes);
    if (fits) {
        r.bytes += bytes;
        store(usage, r);
    }
    end(usage);
    return fits;
}

void stk_usage_give(stk_cache_usage *usage, uint64_t bytes)
{
    record r = begin(usage);
    r.bytes -= bytes < r.bytes ? bytes : r.bytes;
    store(usage, r);
    end(usage);
}
