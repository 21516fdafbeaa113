/* SPDX-License-Identifier: Apache-2.0
 *
 * A file system that hiccups: loaded ahead of the C library, it lets calls on files below a folder fail.
 *
 *   FAULTS_BELOW=DIR                  only paths with DIR in them, and descriptors of such
 *   FAULTS=CALL:FIRST:COUNT:ERRNO     calls FIRST to FIRST + COUNT - 1 (from 1 on) fail; CALL is open, pread,
 *                                     stat (and access), readdir, write, or without FAULTS_BELOW thread
 *                                     (pthread_create) and memory (malloc and its kin, in threads that were
 *                                     started). ERRNO 0: they do not come back, as from a dead network disk;
 *                                     -N: they come N ms later, as from a slow one
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static struct {
    char call[16];
    const char *below;
    unsigned first, count;
    int number;
} fault;
static atomic_uint calls;

__attribute__((constructor)) static void begin(void)
{
    const char *text = getenv("FAULTS");
    fault.below = getenv("FAULTS_BELOW");
    if (text) sscanf(text, "%15[^:]:%u:%u:%d", fault.call, &fault.first, &fault.count, &fault.number);
}

/* 1: this call fails, with errno set. */
static int strikes(const char *call)
{
    if (strcmp(call, fault.call) != 0) return 0;
    const unsigned n = atomic_fetch_add(&calls, 1) + 1;
    if (n < fault.first || n - fault.first >= fault.count) return 0;
    while (!fault.number) sleep(1000);
    if (fault.number < 0) {
        usleep((useconds_t)-fault.number * 1000);
        return 0;
    }
    errno = fault.number;
    return 1;
}

static int on_path(const char *path)
{
    return fault.below && strstr(path, fault.below) != NULL;
}

static int on_descriptor(int fd)
{
    char name[32], path[4096];
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    const ssize_t n = readlink(name, path, sizeof path - 1);
    path[n > 0 ? n : 0] = 0;
    return on_path(path);
}

static void *next(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);
    if (!found) abort();
    return found;
}

static mode_t mode_of(int flags, va_list args)
{
    return flags & (O_CREAT | __O_TMPFILE) ? va_arg(args, mode_t) : 0;
}

#define OPEN(name)                                                                                           \
    int name(const char *path, int flags, ...)                                                               \
    {                                                                                                        \
        va_list args;                                                                                        \
        va_start(args, flags);                                                                               \
        const mode_t mode = mode_of(flags, args);                                                            \
        va_end(args);                                                                                        \
        if (on_path(path) && strikes("open")) return -1;                                                     \
        return ((int (*)(const char *, int, ...))next(#name))(path, flags, mode);                            \
    }
#define OPENAT(name)                                                                                         \
    int name(int folder, const char *path, int flags, ...)                                                   \
    {                                                                                                        \
        va_list args;                                                                                        \
        va_start(args, flags);                                                                               \
        const mode_t mode = mode_of(flags, args);                                                            \
        va_end(args);                                                                                        \
        if ((on_path(path) || (folder >= 0 && on_descriptor(folder))) && strikes("open")) return -1;         \
        return ((int (*)(int, const char *, int, ...))next(#name))(folder, path, flags, mode);               \
    }
OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)

#define STAT(name, kind)                                                                                     \
    int name(int folder, const char *path, kind *st, int flags)                                              \
    {                                                                                                        \
        if ((on_path(path) || (folder >= 0 && on_descriptor(folder))) && strikes("stat")) return -1;         \
        return ((int (*)(int, const char *, kind *, int))next(#name))(folder, path, st, flags);              \
    }
STAT(fstatat, struct stat)
STAT(fstatat64, struct stat64)

#define PATH_STAT(name, kind)                                                                                \
    int name(const char *path, kind *st)                                                                     \
    {                                                                                                        \
        if (on_path(path) && strikes("stat")) return -1;                                                     \
        return ((int (*)(const char *, kind *))next(#name))(path, st);                                       \
    }
PATH_STAT(stat, struct stat)
PATH_STAT(stat64, struct stat64)
PATH_STAT(lstat, struct stat)
PATH_STAT(lstat64, struct stat64)

int access(const char *path, int mode)
{
    if (on_path(path) && strikes("stat")) return -1;
    return ((int (*)(const char *, int))next("access"))(path, mode);
}

#define READDIR(name, kind)                                                                                  \
    kind *name(DIR *dir)                                                                                     \
    {                                                                                                        \
        if (on_descriptor(dirfd(dir)) && strikes("readdir")) return NULL;                                    \
        return ((kind * (*)(DIR *)) next(#name))(dir);                                                       \
    }
READDIR(readdir, struct dirent)
READDIR(readdir64, struct dirent64)

#define PREAD(name, kind)                                                                                    \
    ssize_t name(int fd, void *bytes, size_t size, kind offset)                                              \
    {                                                                                                        \
        if (on_descriptor(fd) && strikes("pread")) return -1;                                                \
        return ((ssize_t(*)(int, void *, size_t, kind))next(#name))(fd, bytes, size, offset);                \
    }
PREAD(pread, off_t)
PREAD(pread64, off64_t)

#define PREADV(name, kind)                                                                                   \
    ssize_t name(int fd, const struct iovec *parts, int count, kind offset)                                  \
    {                                                                                                        \
        if (on_descriptor(fd) && strikes("pread")) return -1;                                                \
        return ((ssize_t(*)(int, const struct iovec *, int, kind))next(#name))(fd, parts, count, offset);    \
    }
PREADV(preadv, off_t)
PREADV(preadv64, off64_t)

ssize_t write(int fd, const void *bytes, size_t size)
{
    if (!strcmp(fault.call, "write") && on_descriptor(fd) && strikes("write")) return -1;
    return ((ssize_t(*)(int, const void *, size_t))next("write"))(fd, bytes, size);
}

ssize_t writev(int fd, const struct iovec *parts, int count)
{
    if (!strcmp(fault.call, "write") && on_descriptor(fd) && strikes("write")) return -1;
    return ((ssize_t(*)(int, const struct iovec *, int))next("writev"))(fd, parts, count);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument)
{
    if (strikes("thread")) return errno;
    return ((int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))next("pthread_create"))(
        thread, attributes, run, argument);
}

/* ---- memory ---- */

/* The names under which glibc has its own: dlsym would allocate in turn. */
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *pointer, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

/* Of a thread that was started: the first one runs what is not ours, the C library's own start among it. */
static int starved(void)
{
    static _Thread_local int started; /* 0: not known yet */
    if (fault.call[0] != 'm') return 0;
    if (!started) started = getpid() == gettid() ? -1 : 1;
    return started > 0 && strikes("memory");
}

void *malloc(size_t bytes)
{
    return starved() ? NULL : __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    return starved() ? NULL : __libc_calloc(count, bytes);
}

void *realloc(void *pointer, size_t bytes)
{
    return starved() ? NULL : __libc_realloc(pointer, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    return starved() ? NULL : __libc_memalign(alignment, bytes);
}
