/* SPDX-License-Identifier: Apache-2.0 */
#include "src/base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/base/retry.h"
#include "src/base/rng.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static stk_temporary *first;

/* ---- fork ---- */

/* A child has none of the threads that were at work, but what they held at that moment: the lock, for good,
 * and a list through their stacks, which its own threads get. (Python's programs fork with loaders at work.)
 */
static void before_fork(void)
{
    pthread_mutex_lock(&lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&lock);
}

static void in_child(void)
{
    first = NULL;
    pthread_mutex_unlock(&lock);
}

static void expect_forks(void)
{
    pthread_atfork(before_fork, after_fork, in_child);
}

/* ---- the list ---- */

void stk_temporary_note(stk_temporary *t, int folder, const char *name)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, expect_forks);
    pthread_mutex_lock(&lock);
    *t = (stk_temporary){ .after = first, .folder = folder, .name = name, .owner = getpid() };
    if (first) first->before = t;
    first = t;
    pthread_mutex_unlock(&lock);
}

void stk_temporary_forget(stk_temporary *t)
{
    if (!t->name) return;
    if (t->owner != getpid()) { /* in the parent's list, not in ours */
        *t = (stk_temporary){ 0 };
        return;
    }
    pthread_mutex_lock(&lock);
    if (t->before)
        t->before->after = t->after;
    else
        first = t->after;
    if (t->after) t->after->before = t->before;
    *t = (stk_temporary){ 0 };
    pthread_mutex_unlock(&lock);
}

void stoke_output_abandon(void)
{
    enum { PASSES = 2 };       /* who had noted a file and not made it yet has made it by the second */
    pthread_mutex_lock(&lock); /* for good */
    for (int pass = 0; pass < PASSES; pass++) {
        for (const stk_temporary *t = first; t; t = t->after) unlinkat(t->folder, t->name, 0);
        if (first && pass + 1 < PASSES) nanosleep(&(struct timespec){ .tv_nsec = 20 * 1000 * 1000 }, NULL);
    }
}

/* 1 when the blob lies within a file of `length` bytes; *size = its own length. */
static int blob_within(const stoke_blob *blob, uint64_t length, uint64_t *size)
{
    if (blob->offset > length) return 0;
    const uint64_t rest = length - blob->offset, wanted = blob->size == UINT64_MAX ? rest : blob->size;
    if (wanted > rest) return 0;
    *size = wanted;
    return 1;
}

/* *number = what the system said where it failed, 0 where the file itself is at fault. A file that went stale
 * under its descriptor has to be opened again. */
static int read_once(const stoke_blob *blob, const char *shown, uint64_t limit, stk_mem_buffer *buffer,
                     size_t *size, int *number, stoke_error *err)
{
    int fd = stoke_open(blob->path, O_RDONLY, 0);
    *number = fd < 0 ? errno : 0;
    if (fd < 0)
        return stk_fail_errno(err, *number == ENOENT ? STOKE_E_NOTFOUND : STOKE_E_IO, *number,
                              "%s: cannot open", shown);
    struct stat st;
    uint64_t bytes = 0;
    int r = STOKE_OK, failed = 0;
    if (stoke_fstat(fd, &st) != 0)
        r = stk_fail_errno(err, STOKE_E_IO, *number = errno, "%s: cannot stat", shown);
    else if (!S_ISREG(st.st_mode))
        r = stk_fail(err, STOKE_E_IO, "%s: not a regular file", shown);
    else if (!blob_within(blob, (uint64_t)st.st_size, &bytes))
        r = stk_fail(err, STOKE_E_FORMAT,
                     "%s: %llu bytes at byte %llu, but the file %s ends at byte %llu: it was cut or replaced",
                     shown, (unsigned long long)blob->size, (unsigned long long)blob->offset, blob->path,
                     (unsigned long long)st.st_size);
    else if (bytes == 0)
        r = stk_fail(err, STOKE_E_FORMAT, "%s: empty file", shown);
    else if (bytes > limit)
        r = stk_fail(err, STOKE_E_LIMIT, "%s: %llu bytes, more than the limit of %llu", shown,
                     (unsigned long long)bytes, (unsigned long long)limit);
    else if (!stk_buffer_reserve(buffer, (size_t)bytes))
        r = stk_fail(err, STOKE_E_NOMEM, "%s: no memory for %llu bytes", shown, (unsigned long long)bytes);
    else
        failed = stk_pread(fd, buffer->data, (size_t)bytes, blob->offset);
    if (failed == STK_ENDED)
        r = stk_fail(err, STOKE_E_IO, "%s: became shorter while it was read", shown);
    else if (failed)
        r = stk_fail_errno(err, STOKE_E_IO, *number = failed, "%s: cannot read", shown);
    close(fd);
    if (r == STOKE_OK) *size = (size_t)bytes;
    return r;
}

int stk_blob_read(const stoke_blob *blob, const char *shown, uint64_t limit, stk_mem_buffer *buffer,
                  size_t *size, stoke_error *err)
{
    int number, r = read_once(blob, shown, limit, buffer, size, &number, err);
    if (r && number == ESTALE) r = read_once(blob, shown, limit, buffer, size, &number, err);
    return r;
}

int stk_file_read(const char *path, uint64_t limit, stk_mem_buffer *buffer, size_t *size, stoke_error *err)
{
    const stoke_blob whole = { path, 0, UINT64_MAX };
    return stk_blob_read(&whole, path, limit, buffer, size, err);
}

size_t stk_blob_head(const stoke_blob *blob, void *bytes, size_t most, uint64_t *size)
{
    int fd = stoke_open(blob->path, O_RDONLY, 0);
    if (fd < 0) return 0;
    struct stat st;
    size_t n = 0;
    if (stoke_fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && blob_within(blob, (uint64_t)st.st_size, size)) {
        n = *size < most ? (size_t)*size : most;
        if (stk_pread(fd, bytes, n, blob->offset)) n = 0;
    }
    close(fd);
    return n;
}

uint64_t stk_blob_bytes(const stoke_blob *blob)
{
    struct stat st;
    uint64_t size = 0;
    if (!blob->path || stoke_stat(blob->path, &st) != 0 || !S_ISREG(st.st_mode)) return 0;
    return blob_within(blob, (uint64_t)st.st_size, &size) ? size : 0;
}

/* The file that will be replaced: `path`, or what it links to. NULL = refused, err says why. */
static char *real_target(const char *path, stoke_error *err)
{
    struct stat st;
    char followed[PATH_MAX];
    if (!*path) {
        stk_fail(err, STOKE_E_INVALID, "the name of the file to write is empty");
        return NULL;
    }
    if (stoke_stat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
        stk_fail(err, STOKE_E_IO, "%s: exists and is not a regular file; it is left as it is", path);
        return NULL;
    }
    if (stoke_lstat(path, &st) == 0 && S_ISLNK(st.st_mode) && !realpath(path, followed)) {
        stk_fail(err, STOKE_E_IO, "%s: is a link to nothing; it is left as it is", path);
        return NULL;
    }
    char *target = stk_strdup(realpath(path, followed) ? followed : path);
    if (!target) stk_fail(err, STOKE_E_NOMEM, "%s: no memory", path);
    return target;
}

static const char TEMPORARY[] = ".tmp-"; /* and six hexadecimal digits */

/* A new file beside `path`, with the permissions any other program's file would get. (mkstemp makes it
 * private, and only changing the umask of the whole process for a moment would tell what to change it to.) */
static int open_temporary(stk_temporary *noted, char *name, size_t size, const char *path)
{
    static _Atomic unsigned made;
    for (int tries = 0;; tries++) {
        const uint64_t unique = stk_mix64(stk_now_ns() ^ (uint64_t)getpid() << 32 ^ ++made);
        snprintf(name, size, "%s%s%06x", path, TEMPORARY, (unsigned)(unique & 0xffffff));
        stk_temporary_note(noted, AT_FDCWD, name);
        int fd = stoke_open(name, O_RDWR | O_CREAT | O_EXCL, 0666);
        if (fd >= 0) return fd;
        stk_temporary_forget(noted); /* that file is somebody else's, or none */
        if (errno != EEXIST || tries == 100) return fd;
    }
}

/* What a file is called until it is whole. */
typedef struct temporary {
    stk_temporary noted;
    char name[];
} temporary;

int stoke_output_open(stoke_output *output, const char *path, stoke_error *err)
{
    *output = (stoke_output){ .path = real_target(path, err) };
    if (!output->path) return err ? err->code : STOKE_E_IO;
    const size_t size = strlen(output->path) + 16;
    temporary *own = output->temporary = stk_calloc(1, sizeof *own + size);
    if (!own) {
        stoke_output_drop(output);
        return stk_fail(err, STOKE_E_NOMEM, "%s: no memory", path);
    }
    const int fd = open_temporary(&own->noted, own->name, size, output->path);
    if (fd >= 0) output->stream = fdopen(fd, "wb");
    if (output->stream) return STOKE_OK;
    const int number = errno;
    if (fd >= 0)
        close(fd);
    else
        *own->name = 0; /* that file is somebody else's, or none */
    stoke_output_drop(output);
    return stk_fail_errno(err, STOKE_E_IO, number, "%s: cannot write", path);
}

static void sync_folder(const char *path)
{
    char folder[4096];
    const char *slash = strrchr(path, '/');
    size_t n = slash ? (size_t)(slash - path) : 0;
    if (n >= sizeof folder) return;
    if (n) memcpy(folder, path, n);
    folder[n] = 0;
    int fd = stoke_open(n ? folder : slash ? "/" : ".", O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0) return;
    fsync(fd); /* best effort: some file systems refuse fsync on folders, the rename itself is done */
    close(fd);
}

int stoke_output_commit(stoke_output *output, stoke_error *err)
{
    temporary *own = output->temporary;
    int bad = ferror(output->stream) | (fflush(output->stream) != 0);
    if (!bad && !output->expendable) bad = fsync(fileno(output->stream)) != 0;
    /* after a write that failed earlier: its own, if nothing has cleared it */
    int number = errno ? errno : EIO;
    if (fclose(output->stream) != 0 && !bad) bad = 1, number = errno;
    output->stream = NULL;
    if (!bad && rename(own->name, output->path) != 0) bad = 1, number = errno;
    const int r = bad ? stk_fail_errno(err, STOKE_E_IO, number, "%s: cannot write", output->path) : STOKE_OK;
    if (!bad && !output->expendable) sync_folder(output->path);
    if (!bad) *own->name = 0; /* it has its name */
    stoke_output_drop(output);
    return r;
}

void stoke_output_drop(stoke_output *output)
{
    temporary *own = output->temporary;
    if (output->stream) fclose(output->stream);
    if (own && *own->name) unlink(own->name);
    if (own) stk_temporary_forget(&own->noted);
    stk_free(own);
    stk_free(output->path);
    *output = (stoke_output){ 0 };
}

/* Whether it is what a file of one of these names is called while it is written. */
static int is_temporary(const char *name, const char *const *patterns)
{
    const size_t n = strlen(name), tail = sizeof TEMPORARY - 1 + 6;
    char target[NAME_MAX + 1];
    if (n <= tail || n > NAME_MAX) return 0;
    const char *mark = name + n - tail, *digits = mark + sizeof TEMPORARY - 1;
    if (strncmp(mark, TEMPORARY, sizeof TEMPORARY - 1) || strspn(digits, "0123456789abcdef") != 6) return 0;
    snprintf(target, sizeof target, "%.*s", (int)(n - tail), name);
    while (*patterns && fnmatch(*patterns, target, 0)) patterns++;
    return *patterns != NULL;
}

size_t stk_atomic_sweep(const char *folder, const char *const *patterns)
{
    size_t removed = 0;
    DIR *entries = stoke_opendir(folder);
    if (!entries) return 0;
    for (const struct dirent *entry; (entry = stoke_readdir(entries));) {
        struct stat st;
        if (!is_temporary(entry->d_name, patterns) ||
            stk_fstatat(dirfd(entries), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode))
            continue;
        removed += unlinkat(dirfd(entries), entry->d_name, 0) == 0;
    }
    closedir(entries);
    return removed;
}

char *stk_path_join(const char *folder, const char *name)
{
    const size_t n = strlen(folder), size = n + strlen(name) + 2;
    char *path = stk_alloc(size);
    if (path) snprintf(path, size, "%s%s%s", folder, n && folder[n - 1] == '/' ? "" : "/", name);
    return path;
}

int stoke_make_folders(const char *path, stoke_error *err)
{
    if (!*path) return stk_fail(err, STOKE_E_INVALID, "the name of the folder to make is empty");
    char *copy = stk_strdup(path);
    if (!copy) return stk_fail(err, STOKE_E_NOMEM, "%s: no memory", path);
    int r = STOKE_OK;
    for (char *p = copy + 1; r == STOKE_OK; p++) {
        if (*p && *p != '/') continue;
        char kept = *p;
        *p = 0;
        struct stat st;
        if (mkdir(copy, 0777) != 0 && !(errno == EEXIST && stoke_stat(copy, &st) == 0 && S_ISDIR(st.st_mode)))
            r = stk_fail_errno(err, STOKE_E_IO, errno == EEXIST ? ENOTDIR : errno, "%s: cannot make folder",
                               copy);
        *p = kept;
        if (!kept) break;
    }
    stk_free(copy);
    return r;
}
