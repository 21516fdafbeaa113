/* SPDX-License-Identifier: Apache-2.0 */
#include "src/base/ours.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <stoke/tools/output.h>

#include "src/base/error.h"
#include "src/base/file.h"
#include "src/base/mem.h"
#include "src/base/retry.h"

enum { LINE = 128, VERSION = 1, HEAD = 128 };

/* ---- folders ---- */

static void first_line(const stk_ours_kind *kind, char line[LINE])
{
    snprintf(line, LINE, "Stokehold %s, version %d\n", kind->name, VERSION);
}

/* Its first bytes, up to `size`, when it is of this kind: how many; 0 otherwise. */
static size_t read_marker(const char *folder, const stk_ours_kind *kind, char *text, size_t size)
{
    char wanted[LINE];
    uint64_t whole;
    char *path = stk_path_join(folder, STK_OURS_MARKER);
    if (!path) return 0;
    first_line(kind, wanted);
    const stoke_blob blob = { path, 0, UINT64_MAX };
    const size_t n = stk_blob_head(&blob, text, size, &whole), line = strlen(wanted);
    stk_free(path);
    return n >= line && !memcmp(text, wanted, line) ? n : 0;
}

int stk_ours_marked(const char *folder, const stk_ours_kind *kind)
{
    char text[LINE];
    return read_marker(folder, kind, text, sizeof text) != 0;
}

int stk_ours_note(const char *folder, const stk_ours_kind *kind, char *line, size_t size)
{
    char text[LINE + PATH_MAX];
    const size_t n = read_marker(folder, kind, text, sizeof text);
    const char *second = n ? memchr(text, '\n', n) : NULL;
    const size_t rest = second ? n - (size_t)(second + 1 - text) : 0;
    const char *end = rest ? memchr(second + 1, '\n', rest) : NULL;
    if (!end || (size_t)(end - second) > size) return 0;
    memcpy(line, second + 1, (size_t)(end - second - 1));
    line[end - second - 1] = 0;
    return 1;
}

int stk_ours_is_nothing(const char *name)
{
    return !strcmp(name, ".") || !strcmp(name, "..") || !strcmp(name, "lost+found") ||
           !strncmp(name, STK_OURS_MARKER ".tmp-", sizeof STK_OURS_MARKER ".tmp-" - 1);
}

/* The name of something in the folder; "" when it is empty. Returns errno's number, or 0. */
static int look_into(int fd, char name[256])
{
    const int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    DIR *entries = copy >= 0 ? fdopendir(copy) : NULL;
    *name = 0;
    if (!entries) {
        const int number = errno;
        if (copy >= 0) close(copy);
        return number;
    }
    rewinddir(entries);
    for (const struct dirent *e; !*name && (e = stoke_readdir(entries));)
        if (!stk_ours_is_nothing(e->d_name)) snprintf(name, 256, "%s", e->d_name);
    const int number = stk_closedir(entries);
    return *name ? 0 : number;
}

int stk_ours_mark(const char *folder, const stk_ours_kind *kind, int *unwritable, stoke_error *err)
{
    *unwritable = 0;
    char line[LINE], *path = stk_path_join(folder, STK_OURS_MARKER);
    if (!path) return stk_fail(err, STOKE_E_NOMEM, "%s: no memory", folder);
    stoke_output file;
    stoke_error own = { 0 };
    errno = 0;
    int r = stoke_output_open(&file, path, &own);
    if (!r) {
        first_line(kind, line);
        fprintf(file.stream, "%s%s\n", line, kind->line);
        r = stoke_output_commit(&file, &own);
    }
    stk_free(path);
    if (r == STOKE_E_NOMEM) return stk_fail_again(err, r, own.message);
    if (r) *unwritable = errno ? errno : EIO;
    return STOKE_OK;
}

int stk_ours_claim(const char *folder, const stk_ours_kind *kind, int *unwritable, stoke_error *err)
{
    char other[256];
    *unwritable = 0;
    if (stk_ours_marked(folder, kind)) return STOKE_OK;
    const int fd = stoke_open(folder, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0) return stk_fail_errno(err, STOKE_E_IO, errno, "%s: cannot open folder", folder);
    const int number = look_into(fd, other);
    const int is_free = !number && (!*other || (kind->is_older && kind->is_older(fd)));
    close(fd);
    if (number) return stk_fail_errno(err, STOKE_E_IO, number, "%s: cannot open folder", folder);
    /* Another process may have claimed it between the first look and the second. */
    if (!is_free && stk_ours_marked(folder, kind)) return STOKE_OK;
    if (!is_free)
        return stk_fail(err, STOKE_E_STATE,
                        "%s: is not empty (%s is there) and was not made as a %s by Stokehold, so nothing is "
                        "written into it: name a new folder, or an empty one",
                        folder, other, kind->name);
    return stk_ours_mark(folder, kind, unwritable, err);
}

/* ---- files ---- */

int stk_ours_begins(int fd, const void *magic, size_t bytes)
{
    struct stat st;
    char head[64] = { 0 };
    static const char zeros[sizeof head];
    if (bytes > sizeof head || stoke_fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) return 0;
    const size_t n = (uint64_t)st.st_size < bytes ? (size_t)st.st_size : bytes;
    return !stk_pread(fd, head, n, 0) && (!memcmp(head, magic, n) || !memcmp(head, zeros, n));
}

static int carries_mark(const char *path)
{
    char head[HEAD];
    uint64_t size;
    const stoke_blob whole = { path, 0, UINT64_MAX };
    const size_t n = stk_blob_head(&whole, head, sizeof head, &size);
    return n && memmem(head, n, STOKE_OUTPUT_MARK, sizeof STOKE_OUTPUT_MARK - 1) != NULL;
}

int stoke_output_check(const char *path, int force, int *replaces, stoke_error *err)
{
    struct stat st;
    *replaces = 0;
    if (!path || !*path) return stk_fail(err, STOKE_E_INVALID, "the name of the file to write is empty");
    if (stoke_stat(path, &st) != 0) {
        if (errno != ENOENT && errno != ENOTDIR)
            return stk_fail_errno(err, STOKE_E_IO, errno, "%s: cannot write", path);
        if (stoke_lstat(path, &st) == 0)
            return stk_fail(err, STOKE_E_IO, "%s: cannot write: is a symbolic link that leads nowhere", path);
        return STOKE_OK;
    }
    if (!S_ISREG(st.st_mode))
        return stk_fail(err, STOKE_E_IO, "%s: cannot write: is a %s", path,
                        S_ISDIR(st.st_mode) ? "folder" : "device, pipe or socket, not a regular file");
    if (carries_mark(path)) return STOKE_OK;
    if (!force)
        return stk_fail(err, STOKE_E_STATE,
                        "%s: is there already, and is left as it is: write elsewhere, or replace it with "
                        "`force`",
                        path);
    *replaces = 1;
    return STOKE_OK;
}
