/* SPDX-License-Identifier: Apache-2.0
 *
 * The file holds one record. Byte 0 of it is locked for as long as the record is read and written (2 us, once
 * per stored entry, against milliseconds of decoding); byte 1 is locked in common by every process that uses
 * the folder, so that a process which gets it for itself knows that it is alone. These are locks of the open
 * file (F_OFD_*), not of the process: two loaders in one process count as two. A killed process leaves no
 * lock behind; the room that it took for an entry and never filled is given back when the next one that finds
 * itself alone adds up the folder.
 *
 * Not mapped into memory: a mapping of a file that someone cuts short ends the process, and on network file
 * systems mappings of two machines do not see each other, while locks and reads do.
 */
#include "src/cache/usage.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <unistd.h>
#include <xxhash.h>

#include "src/base/retry.h"
#include "src/cache/layout.h"

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

int stk_usage_open(stk_usage *usage, int folder)
{
    usage->fd = stk_openat(folder, "usage", O_RDWR | O_CREAT | O_NOFOLLOW, 0666);
    if (usage->fd < 0) return -errno;
    const uint64_t magic = STK_USAGE_MAGIC;
    if (!stk_ours_begins(usage->fd, &magic, sizeof magic)) { /* somebody's file of that name stays */
        close(usage->fd);
        usage->fd = -1;
        return -EEXIST;
    }
    int number = lock_byte(usage->fd, PRESENCE_BYTE, F_WRLCK, 0);
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

void stk_usage_ready(stk_usage *usage)
{
    lock_byte(usage->fd, PRESENCE_BYTE, F_RDLCK, 1);
}

void stk_usage_close(stk_usage *usage)
{
    if (usage->fd < 0) return;
    pthread_mutex_destroy(&usage->lock);
    close(usage->fd); /* and with it the locks */
    usage->fd = -1;
}

/* The mutex keeps the threads of this process apart: they share the open file, so its locks do not. */
static record begin(stk_usage *usage)
{
    record r;
    pthread_mutex_lock(&usage->lock);
    lock_byte(usage->fd, RECORD_BYTE, F_WRLCK, 1);
    if (pread(usage->fd, &r, sizeof r, 0) != (ssize_t)sizeof r || r.magic != STK_USAGE_MAGIC ||
        r.check != XXH3_64bits(&r, offsetof(record, check)))
        r = (record){ .magic = STK_USAGE_MAGIC };
    return r;
}

static void end(stk_usage *usage)
{
    lock_byte(usage->fd, RECORD_BYTE, F_UNLCK, 1);
    pthread_mutex_unlock(&usage->lock);
}

/* 32 bytes at the beginning of a file of 32: a full disk does not stop this write. Should it fail, the record
 * is torn or old, and the next process that is alone adds up the folder. */
static void store(stk_usage *usage, record r)
{
    r.check = XXH3_64bits(&r, offsetof(record, check));
    if (pwrite(usage->fd, &r, sizeof r, 0) != (ssize_t)sizeof r) return;
}

int stk_usage_known(stk_usage *usage)
{
    const record r = begin(usage);
    end(usage);
    return r.known != 0;
}

void stk_usage_set(stk_usage *usage, uint64_t bytes, int known)
{
    record r = begin(usage);
    r.bytes = bytes;
    r.known = known != 0;
    store(usage, r);
    end(usage);
}

uint64_t stk_usage_bytes(stk_usage *usage)
{
    const record r = begin(usage);
    end(usage);
    return r.bytes;
}

int stk_usage_take(stk_usage *usage, uint64_t bytes, uint64_t budget)
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

void stk_usage_give(stk_usage *usage, uint64_t bytes)
{
    record r = begin(usage);
    r.bytes -= bytes < r.bytes ? bytes : r.bytes;
    store(usage, r);
    end(usage);
}
