/* SPDX-License-Identifier: Apache-2.0 */
#include "src/base/retry.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "src/base/clock.h"

enum {
    INTERRUPTIONS = 1000, /* in a row: not signals any more, but something that says EINTR for ever */
    FIRST_WAIT_MS = 10,
    LONGEST_WAIT_MS = 640,
    WAITS = 10 /* 10, 20, ... 640, 640, 640, 640: 3.2 s */
};
#define NOT_AGAIN_NS (UINT64_C(10) * 1000000000)

/* So many calls in a row that failed to the end are no hiccups any more: the disk is gone. */
enum { LOST_CAUSES = 4 };

static const unsigned repeat_after_ms[] = { 10, 50, 250 };

/* When waiting for want of something was last in vain: a loop over thousands of files must not wait for each.
 */
static _Atomic uint64_t in_vain_ns;
/* The same for hiccups that did not pass; a read that works begins the count again. Opening proves nothing:
 * the kernel remembers names of a disk that is gone. */
static _Atomic unsigned lost_causes;
static _Atomic uint64_t lost_ns;
static _Thread_local uint64_t retries;

static void pause_ms(unsigned ms)
{
    const struct timespec time = { ms / 1000, (long)(ms % 1000) * 1000000 };
    nanosleep(&time, NULL); /* a signal may cut it short */
}

static const int hiccups[] = { EIO,         ESTALE,     ETIMEDOUT,    EREMOTEIO, ENOLINK,
                               ECOMM,       ECONNRESET, ECONNABORTED, ENOTCONN,  ENETDOWN,
                               ENETUNREACH, EHOSTDOWN,  EHOSTUNREACH, 0 };
static const int shortages[] = { EMFILE, ENFILE, ENOMEM, EAGAIN, ENOLCK, 0 };

static int is_one_of(int number, const int *numbers)
{
    while (*numbers && *numbers != number) numbers++;
    return *numbers != 0;
}

int stk_is_shortage(int number)
{
    return is_one_of(number, shortages);
}

void stk_wait_in_vain(void)
{
    atomic_store(&in_vain_ns, stk_now_ns());
}

static int wait_for_more(stoke_patience *patience)
{
    const uint64_t last = atomic_load(&in_vain_ns);
    if (last && stk_now_ns() - last < NOT_AGAIN_NS) return 0;
    if (patience->waited == WAITS) {
        stk_wait_in_vain();
        return 0;
    }
    const unsigned ms = FIRST_WAIT_MS << (patience->waited < 6 ? patience->waited : 6);
    patience->waited++;
    pause_ms(ms < LONGEST_WAIT_MS ? ms : LONGEST_WAIT_MS);
    return 1;
}

static int repeat(stoke_patience *patience)
{
    if (atomic_load(&lost_causes) >= LOST_CAUSES && stk_now_ns() - atomic_load(&lost_ns) < NOT_AGAIN_NS)
        return 0;
    if (patience->repeated == sizeof repeat_after_ms / sizeof *repeat_after_ms) {
        atomic_fetch_add(&lost_causes, 1);
        atomic_store(&lost_ns, stk_now_ns());
        return 0;
    }
    pause_ms(repeat_after_ms[patience->repeated++]);
    return 1;
}

int stoke_again(stoke_patience *patience, int number)
{
    if (number == EINTR) return patience->interrupted++ < INTERRUPTIONS;
    if (stk_is_shortage(number)) {
        if (!wait_for_more(patience)) return 0;
    } else if (is_one_of(number, hiccups)) {
        if (!repeat(patience)) return 0;
    } else {
        return 0;
    }
    retries++;
    return 1;
}

int stoke_is_absent(int number)
{
    return number == ENOENT || number == ENOTDIR || number == ENAMETOOLONG;
}

uint64_t stk_retries(void)
{
    return retries;
}

/* ---- calls ---- */

int stk_openat(int folder, const char *name, int flags, mode_t mode)
{
    stoke_patience patience = { 0 };
    int fd;
    do fd = openat(folder, name, flags | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, mode);
    while (fd < 0 && stoke_again(&patience, errno));
    return fd;
}

int stoke_open(const char *path, int flags, unsigned mode)
{
    return stk_openat(AT_FDCWD, path, flags, mode);
}

void *stoke_opendir(const char *path)
{
    const int fd = stoke_open(path, O_RDONLY | O_DIRECTORY, 0);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (fd >= 0 && !dir) close(fd);
    return dir;
}

struct dirent *stoke_readdir(void *dir)
{
    stoke_patience patience = { 0 };
    struct dirent *entry;
    do {
        errno = 0;
        entry = readdir(dir);
    } while (!entry && errno && stoke_again(&patience, errno));
    return entry;
}

int stk_closedir(DIR *dir)
{
    const int number = errno;
    closedir(dir);
    return number;
}

int stk_fstatat(int folder, const char *name, struct stat *st, int flags)
{
    stoke_patience patience = { 0 };
    int r;
    do r = fstatat(folder, name, st, flags);
    while (r != 0 && stoke_again(&patience, errno));
    return r;
}

int stoke_stat(const char *path, struct stat *st)
{
    return stk_fstatat(AT_FDCWD, path, st, 0);
}

int stoke_lstat(const char *path, struct stat *st)
{
    return stk_fstatat(AT_FDCWD, path, st, AT_SYMLINK_NOFOLLOW);
}

int stoke_there(const char *path)
{
    struct stat st;
    return stoke_stat(path, &st) == 0 || !stoke_is_absent(errno);
}

int stoke_fstat(int fd, struct stat *st)
{
    return stk_fstatat(fd, "", st, AT_EMPTY_PATH);
}

int stk_pread(int fd, void *bytes, size_t size, uint64_t offset)
{
    stoke_patience patience = { 0 };
    for (size_t have = 0; have < size;) {
        const ssize_t n = pread(fd, (char *)bytes + have, size - have, (off_t)(offset + have));
        if (n == 0) return STK_ENDED;
        if (n < 0 && !stoke_again(&patience, errno)) return errno;
        have += n > 0 ? (size_t)n : 0;
    }
    if (atomic_load_explicit(&lost_causes, memory_order_relaxed)) atomic_store(&lost_causes, 0);
    return 0;
}

int stk_write(int fd, const void *bytes, size_t size)
{
    enum { PATIENCE_MS = 2000 };
    struct pollfd out = { .fd = fd, .events = POLLOUT };
    stoke_patience patience = { 0 };
    for (size_t done = 0; done < size;) {
        const ssize_t n = write(fd, (const char *)bytes + done, size - done);
        if (n > 0) done += (size_t)n;
        if (n >= 0) continue;
        if (errno == EAGAIN) {
            const int ready = poll(&out, 1, PATIENCE_MS);
            if (!ready) return ETIMEDOUT;
            if (ready > 0) continue;
        }
        if (!stoke_again(&patience, errno)) return errno;
    }
    return 0;
}

int stk_thread_start(pthread_t *thread, void *(*run)(void *), void *argument)
{
    stoke_patience patience = { 0 };
    int number;
    do number = pthread_create(thread, NULL, run, argument);
    while (number && stoke_again(&patience, number));
    return number;
}
