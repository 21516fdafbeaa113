/* SPDX-License-Identifier: Apache-2.0 */
#include "src/cache/disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "src/base/error.h"
#include "src/base/file.h"
#include "src/cache/usage.h"

enum {
    FOLDERS = 256,
    LEFTOVER_SECONDS =
        3600, /* an entry is written in milliseconds: what is older was left by a killed process */
    NAME_BYTES = 64
};

struct stk_disk {
    int folder;
    uint64_t budget;
    stk_usage usage;
    stk_memo *memo;
    _Atomic unsigned written; /* for names of temporary files */
    pthread_mutex_t lock;     /* of the warning, while it is written */
    atomic_int stopped;       /* set after the warning, which then never changes */
    char warning[512];
};

static void entry_name(stk_cache_key key, char name[NAME_BYTES])
{
    const unsigned long long a = key.word[0], b = key.word[1];
    snprintf(name, NAME_BYTES, "%02llx/%016llx%016llx.stk", a >> 56, a, b);
}

/* The first one to fail gives the reason; nothing more is written afterwards. */
static void stop_writing(stk_disk *disk, int number)
{
    pthread_mutex_lock(&disk->lock);
    if (!atomic_load(&disk->stopped)) {
        char text[128];
        snprintf(disk->warning, sizeof disk->warning,
                 "the cache is not written any more (%s); samples that it lacks are decoded",
                 strerror_r(number, text, sizeof text));
        atomic_store(&disk->stopped, 1);
    }
    pthread_mutex_unlock(&disk->lock);
}

const char *stk_disk_warning(const stk_disk *disk)
{
    return atomic_load(&disk->stopped) ? disk->warning : NULL;
}

stk_memo *stk_disk_memo(stk_disk *disk)
{
    return disk->memo;
}

/* ---- opening ---- */

static DIR *open_below(int folder, const char *name)
{
    const int fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (fd >= 0 && !dir) close(fd);
    return dir;
}

static void remove_leftovers(stk_disk *disk, int alone)
{
    DIR *dir = open_below(disk->folder, "tmp");
    if (!dir) return;
    const time_t now = time(NULL);
    struct stat st;
    for (struct dirent *e; (e = readdir(dir));)
        if (e->d_name[0] != '.' && fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            (alone || now - st.st_mtime > LEFTOVER_SECONDS))
            unlinkat(dirfd(dir), e->d_name, 0);
    closedir(dir);
}

/* Adds up all entries: 1-2 us each while the kernel remembers them. */
static uint64_t scan(stk_disk *disk)
{
    uint64_t bytes = 0;
    for (unsigned i = 0; i < FOLDERS; i++) {
        char name[8];
        struct stat st;
        snprintf(name, sizeof name, "%02x", i);
        DIR *dir = open_below(disk->folder, name);
        if (!dir) continue;
        for (struct dirent *e; (e = readdir(dir));)
            if (e->d_name[0] != '.' && fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
                S_ISREG(st.st_mode))
                bytes += (uint64_t)st.st_size;
        closedir(dir);
    }
    return bytes;
}

/* Who comes first sets things right: leftovers, the sum of all entries (which only a budget needs), the memo.
 * Others wait for it in stk_usage_open. One with a budget that comes to a folder used without adds it up
 * itself; what others write meanwhile may be counted twice or not at all: as many entries as there are
 * threads writing. */
static int settle(stk_disk *disk, stoke_error *err)
{
    const int alone = stk_usage_open(&disk->usage, disk->folder);
    if (alone < 0) stop_writing(disk, -alone);
    const int writable = alone >= 0;
    if (writable && mkdirat(disk->folder, "tmp", 0777) != 0 && errno != EEXIST) stop_writing(disk, errno);
    remove_leftovers(disk, alone == 1);
    if (alone == 1) stk_usage_set(&disk->usage, 0, 0);
    if (writable && disk->budget && !stk_usage_known(&disk->usage))
        stk_usage_set(&disk->usage, scan(disk), 1);
    const int r = stk_memo_open(&disk->memo, disk->folder, alone == 1, writable, err);
    if (alone == 1) stk_usage_ready(&disk->usage);
    return r;
}

int stk_disk_open(stk_disk **out, const char *folder, uint64_t budget, stoke_error *err)
{
    *out = NULL;
    int r = stk_make_folders(folder, err);
    if (r) return r;
    stk_disk *disk = stk_calloc(1, sizeof *disk);
    if (!disk) return stk_fail(err, STOKE_E_NOMEM, "no memory for the cache");
    disk->budget = budget;
    disk->usage.fd = -1;
    pthread_mutex_init(&disk->lock, NULL);
    disk->folder = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (disk->folder < 0)
        r = stk_fail_errno(err, STOKE_E_IO, errno, "%s: cannot use it as a cache", folder);
    else
        r = settle(disk, err);
    if (r)
        stk_disk_close(&disk);
    else
        *out = disk;
    return r;
}

void stk_disk_close(stk_disk **pointer)
{
    stk_disk *disk = *pointer;
    if (!disk) return;
    *pointer = NULL;
    stk_memo_close(&disk->memo);
    stk_usage_close(&disk->usage);
    if (disk->folder >= 0) close(disk->folder);
    pthread_mutex_destroy(&disk->lock);
    stk_free(disk);
}

/* ---- reading ---- */

/* 1 when all of it was read. */
static int read_whole(int fd, struct iovec *parts, int count, off_t offset)
{
    while (count) {
        ssize_t n = preadv(fd, parts, count, offset);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return 0;
        offset += n;
        for (; count && (size_t)n >= parts->iov_len; parts++, count--) n -= (ssize_t)parts->iov_len;
        if (count) {
            parts->iov_base = (char *)parts->iov_base + n;
            parts->iov_len -= (size_t)n;
        }
    }
    return 1;
}

static stk_disk_result read_entry(int fd, stk_cache_key key, stk_disk_place_fn place, void *context,
                                  stk_entry_header *header)
{
    struct stat st;
    struct iovec head = { header, sizeof *header };
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size < (off_t)sizeof *header ||
        !read_whole(fd, &head, 1, 0) || !stk_entry_header_good(header, key, (uint64_t)st.st_size))
        return STK_DISK_DAMAGED;
    stk_disk_places places;
    if (!place(context, header, &places)) return STK_DISK_NONE;
    struct iovec body[2] = { { places.pixels, stk_entry_image_bytes(header) },
                             { places.packed, (size_t)header->mask_bytes } };
    if (!read_whole(fd, body, header->mask_bytes ? 2 : 1, sizeof *header) ||
        !stk_entry_body_good(header, places.pixels, places.packed))
        return STK_DISK_DAMAGED;
    return STK_DISK_FOUND;
}

stk_disk_result stk_disk_read(stk_disk *disk, stk_cache_key key, stk_disk_place_fn place, void *context,
                              stk_entry_header *header)
{
    char name[NAME_BYTES];
    entry_name(key, name);
    const int fd = openat(disk->folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    if (fd < 0) return errno == ELOOP ? STK_DISK_DAMAGED : STK_DISK_NONE;
    const stk_disk_result result = read_entry(fd, key, place, context, header);
    close(fd);
    return result;
}

void stk_disk_remove(stk_disk *disk, stk_cache_key key)
{
    char name[NAME_BYTES];
    struct stat st;
    entry_name(key, name);
    if (fstatat(disk->folder, name, &st, AT_SYMLINK_NOFOLLOW) != 0) return;
    if (unlinkat(disk->folder, name, 0) == 0 && disk->usage.fd >= 0)
        stk_usage_give(&disk->usage, (uint64_t)st.st_size);
}

/* ---- writing ---- */

int stk_disk_has_room(stk_disk *disk, uint64_t bytes)
{
    if (atomic_load(&disk->stopped)) return 0;
    if (!disk->budget) return 1;
    const uint64_t used = stk_usage_bytes(&disk->usage);
    return used <= disk->budget && disk->budget - used >= bytes;
}

static int write_whole(int fd, struct iovec *parts, int count)
{
    while (count) {
        ssize_t n = writev(fd, parts, count);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return errno;
        for (; count && (size_t)n >= parts->iov_len; parts++, count--) n -= (ssize_t)parts->iov_len;
        if (count) {
            parts->iov_base = (char *)parts->iov_base + n;
            parts->iov_len -= (size_t)n;
        }
    }
    return 0;
}

/* Renames a finished file to its entry, making the folder when it is the first in it. */
static int publish(stk_disk *disk, const char *temporary, const char *name)
{
    if (renameat(disk->folder, temporary, disk->folder, name) == 0) return 0;
    if (errno != ENOENT) return errno;
    const char folder[3] = { name[0], name[1], 0 };
    if (mkdirat(disk->folder, folder, 0777) != 0 && errno != EEXIST) return errno;
    return renameat(disk->folder, temporary, disk->folder, name) == 0 ? 0 : errno;
}

/* A new file in FOLDER/tmp: its descriptor, or -errno. The process is part of the name, but not enough of it:
 * two loaders of one process, or the first processes of two containers, may be at the same entry. */
static int open_temporary(stk_disk *disk, char name[NAME_BYTES], uint64_t unique)
{
    enum { TRIES = 100 };
    for (int tries = 0;; tries++) {
        snprintf(name, NAME_BYTES, "tmp/%lx-%x-%llx", (unsigned long)getpid(),
                 atomic_fetch_add(&disk->written, 1), (unsigned long long)unique);
        const int fd = openat(disk->folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0 || errno != EEXIST || tries == TRIES) return fd >= 0 ? fd : -errno;
    }
}

static int write_entry(stk_disk *disk, const char *name, const stk_entry_header *header, const void *pixels,
                       const void *packed)
{
    char temporary[NAME_BYTES];
    const int fd = open_temporary(disk, temporary, header->header_hash);
    if (fd < 0) return -fd;
    struct iovec parts[3] = { { (void *)header, sizeof *header },
                              { (void *)pixels, stk_entry_image_bytes(header) },
                              { (void *)packed, (size_t)header->mask_bytes } };
    int number = write_whole(fd, parts, header->mask_bytes ? 3 : 2);
    if (close(fd) != 0 && !number) number = errno; /* network file systems tell of a full disk here */
    if (!number) number = publish(disk, temporary, name);
    if (number) unlinkat(disk->folder, temporary, 0);
    return number;
}

int stk_disk_write(stk_disk *disk, stk_cache_key key, const stk_entry_header *header, const void *pixels,
                   const void *packed)
{
    char name[NAME_BYTES];
    const uint64_t bytes = stk_entry_bytes(header);
    if (atomic_load(&disk->stopped)) return 0;
    entry_name(key, name);
    if (faccessat(disk->folder, name, F_OK, 0) == 0) return 1; /* another process was faster */
    if (!stk_usage_take(&disk->usage, bytes, disk->budget)) return 0;
    const int number = write_entry(disk, name, header, pixels, packed);
    if (!number) return 1;
    stk_usage_give(&disk->usage, bytes);
    stop_writing(disk, number);
    return 0;
}

uint64_t stk_disk_bytes(stk_disk *disk)
{
    return disk->usage.fd >= 0 ? stk_usage_bytes(&disk->usage) : 0;
}
