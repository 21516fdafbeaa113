/* SPDX-License-Identifier: Apache-2.0 */

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
#include "src/base/retry.h"
#include "src/cache/layout.h"

enum {
    FOLDERS = 256,
    LEFTOVER_SECONDS =
        3600, /* an entry is written in milliseconds: what is older was left by a killed process */
    NAME_BYTES = 64
};

struct stk_disk {
    int folder;
    uint64_t budget;
    stk_cache_usage usage;
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
        const char *reason = number == EEXIST ? "the file usage in its folder is not one of a cache"
                                              : strerror_r(number, text, sizeof text);
        snprintf(disk->warning, sizeof disk->warning,
                 "the cache is not written any more (%s); samples that it lacks are decoded", reason);
        atomic_store(&disk->stopped, 1);
    }
    pthread_mutex_unlock(&disk->lock);
}

const char *stk_disk_warning(const stk_disk *disk)
{
    return atomic_load(&disk->stopped) ? disk->warning : NULL;
}

/* ---- opening ---- */

/* Only what this cache names so: the folder carries its marker, but anybody may put a file into tmp. */
static void remove_leftovers(stk_disk *disk, int alone)
{
    DIR *dir = stk_cache_below(disk->folder, "tmp");
    if (!dir) return;
    const time_t now = time(NULL);
    struct stat st;
    for (struct dirent *e; (e = stoke_readdir(dir));)
        if (stk_cache_is_temporary(e->d_name) &&
            stk_fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
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
        DIR *dir = stk_cache_below(disk->folder, name);
        if (!dir) continue;
        for (struct dirent *e; (e = stoke_readdir(dir));)
            if (stk_cache_is_entry(name, e->d_name) &&
                stk_fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
                bytes += (uint64_t)st.st_size;
        closedir(dir);
    }
    return bytes;
}

/* Who comes first sets things right: leftovers, the sum of all entries (which only a budget needs), the memo.
 * Others wait for it in stk_usage_open. One with a budget that comes to a folder used without adds it up
 * itself; what others write meanwhile may be counted twice or not at all: as many entries as there are
 * threads writing. */
static int settle(stk_disk *disk, int unwritable, stk_memo **memo, stoke_error *err)
{
    const int alone = unwritable ? -unwritable : stk_usage_open(&disk->usage, disk->folder);
    if (alone < 0) stop_writing(disk, -alone);
    const int writable = alone >= 0;
    int known = 0;
    if (writable && mkdirat(disk->folder, "tmp", 0777) != 0 && errno != EEXIST) stop_writing(disk, errno);
    if (writable) remove_leftovers(disk, alone == 1);
    if (alone == 1) stk_usage_set(&disk->usage, 0, 0);
    if (writable && disk->budget) stk_usage_bytes(&disk->usage, &known);
    if (writable && disk->budget && !known) stk_usage_set(&disk->usage, scan(disk), 1);
    const int r = stk_memo_open(memo, disk->folder, alone == 1, writable, err);
    if (alone == 1) stk_usage_ready(&disk->usage);
    return r;
}

int stk_disk_open(stk_disk **out, const char *folder, uint64_t budget, stk_memo **memo, stoke_error *err)
{
    *out = NULL;
    int unwritable, r = stoke_make_folders(folder, err);
    if (!r) r = stk_ours_claim(folder, &stk_cache_kind, &unwritable, err);
    if (r) return r;
    stk_disk *disk = stk_calloc(1, sizeof *disk);
    if (!disk) return stk_fail(err, STOKE_E_NOMEM, "no memory for the cache");
    disk->budget = budget;
    disk->usage.fd = -1;
    pthread_mutex_init(&disk->lock, NULL);
    disk->folder = stoke_open(folder, O_RDONLY | O_DIRECTORY, 0);
    if (disk->folder < 0)
        r = stk_fail_errno(err, STOKE_E_IO, errno, "%s: cannot use it as a cache", folder);
    else
        r = settle(disk, unwritable, memo, err);
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
    stk_usage_close(&disk->usage);
    if (disk->folder >= 0) close(disk->folder);
    pthread_mutex_destroy(&disk->lock);
    stk_free(disk);
}

/* ---- reading ---- */

/* Reads all parts from `offset` on, or writes them: 0, a number of errno, or STK_ENDED where there is no
 * more. */
static int move_parts(int fd, struct iovec *parts, int count, int writing, uint64_t offset)
{
    stoke_patience patience = { 0 };
    while (count) {
        const ssize_t moved = writing ? writev(fd, parts, count) : preadv(fd, parts, count, (off_t)offset);
        if (moved < 0 && stoke_again(&patience, errno)) continue;
        if (moved < 0) return errno;
        if (!moved && !writing) return STK_ENDED;
        size_t n = (size_t)moved;
        offset += n;
        for (; count && n >= parts->iov_len; parts++, count--) n -= parts->iov_len;
        if (!count) break;
        parts->iov_base = (char *)parts->iov_base + n;
        parts->iov_len -= n;
    }
    return 0;
}

typedef struct open_entry {
    int fd;
    int *failed; /* the system would not give its bytes, which says nothing about them */
} open_entry;

/* The parts of a file, for stk_entry_read. */
static int read_parts(const void *context, struct iovec *parts, int count, uint64_t offset)
{
    const open_entry *entry = context;
    const int number = move_parts(entry->fd, parts, count, 0, offset);
    if (number > 0) *entry->failed = 1;
    return !number;
}

stk_entry_result stk_disk_read(stk_disk *disk, stk_cache_key key, const stk_entry_goal *goal,
                               stk_entry_header *header, const void **packed, stk_cache_hit *out)
{
    char name[NAME_BYTES];
    struct stat st;
    entry_name(key, name);
    const int fd = stk_openat(disk->folder, name, O_RDONLY | O_NOFOLLOW, 0);
    if (fd < 0) return errno == ELOOP ? STK_ENTRY_DAMAGED : STK_ENTRY_NONE;
    stk_entry_result result = STK_ENTRY_DAMAGED;
    int failed = stoke_fstat(fd, &st) != 0;
    if (!failed && S_ISREG(st.st_mode)) {
        const open_entry entry = { fd, &failed };
        const stk_entry_source source = { read_parts, &entry, (uint64_t)st.st_size };
        result = stk_entry_read(&source, key, goal, header, packed, out);
    }
    close(fd);
    return failed && result == STK_ENTRY_DAMAGED ? STK_ENTRY_NONE : result;
}

void stk_disk_remove(stk_disk *disk, stk_cache_key key)
{
    char name[NAME_BYTES];
    struct stat st;
    entry_name(key, name);
    if (stk_fstatat(disk->folder, name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode)) return;
    if (unlinkat(disk->folder, name, 0) == 0 && disk->usage.fd >= 0)
        stk_usage_give(&disk->usage, (uint64_t)st.st_size);
}

/* ---- writing ---- */

int stk_disk_has_room(stk_disk *disk, uint64_t bytes)
{
    if (atomic_load(&disk->stopped)) return 0;
    if (!disk->budget) return 1;
    const uint64_t used = stk_usage_bytes(&disk->usage, NULL);
    return used <= disk->budget && disk->budget - used >= bytes;
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
static int open_temporary(stk_disk *disk, stk_temporary *noted, char name[NAME_BYTES], uint64_t unique)
{
    enum { TRIES = 100 };
    for (int tries = 0;; tries++) {
        snprintf(name, NAME_BYTES, "tmp/%lx-%x-%llx", (unsigned long)getpid(),
                 atomic_fetch_add(&disk->written, 1), (unsigned long long)unique);
        stk_temporary_note(noted, disk->folder, name);
        const int fd = stk_openat(disk->folder, name, O_WRONLY | O_CREAT | O_EXCL, 0666);
        if (fd >= 0) return fd;
        const int number = errno;
        stk_temporary_forget(noted);
        if (number != EEXIST || tries == TRIES) return -number;
    }
}

static int write_entry(stk_disk *disk, const char *name, const stk_entry_header *header, const void *pixels,
                       const void *packed)
{
    char temporary[NAME_BYTES];
    stk_temporary noted;
    const int fd = open_temporary(disk, &noted, temporary, header->header_hash);
    if (fd < 0) return -fd;
    struct iovec parts[3] = { { (void *)header, sizeof *header },
                              { (void *)pixels, stk_entry_image_bytes(header) },
                              { (void *)packed, (size_t)header->mask_bytes } };
    int number = move_parts(fd, parts, header->mask_bytes ? 3 : 2, 1, 0);
    if (close(fd) != 0 && !number) number = errno; /* network file systems tell of a full disk here */
    if (!number) number = publish(disk, temporary, name);
    if (number) unlinkat(disk->folder, temporary, 0);
    stk_temporary_forget(&noted);
    return number;
}

int stk_disk_write(stk_disk *disk, stk_cache_key key, const stk_entry_header *header, const void *pixels,
                   const void *packed)
{
    char name[NAME_BYTES];
    const uint64_t bytes = stk_entry_bytes(header);
    if (atomic_load(&disk->stopped)) return 0;
    entry_name(key, name);
    struct stat st;
    if (stk_fstatat(disk->folder, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
        return S_ISREG(st.st_mode); /* another process was faster; or it is a link, which is not ours */
    if (!stk_usage_take(&disk->usage, bytes, disk->budget)) return 0;
    const int number = write_entry(disk, name, header, pixels, packed);
    if (!number) return 1;
    stk_usage_give(&disk->usage, bytes);
    stop_writing(disk, number);
    return 0;
}

uint64_t stk_disk_bytes(stk_disk *disk)
{
    return disk->usage.fd >= 0 ? stk_usage_bytes(&disk->usage, NULL) : 0;
}
