/* SPDX-License-Identifier: Apache-2.0 */
#include "src/train/log_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/error.h"
#include "src/base/retry.h"

int stk_lines_open(stk_lines *lines, const char *path, stoke_error *err)
{
    struct stat st;
    *lines = (stk_lines){ .path = path };
    const int fd = stk_open(path, O_RDONLY, 0);
    if (fd < 0)
        return stk_fail_errno(err, errno == ENOENT ? STOKE_E_NOTFOUND : STOKE_E_IO, errno, "%s: cannot open",
                              path);
    if (stk_fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        close(fd);
        return stk_fail(err, STOKE_E_IO, "%s: not a regular file", path);
    }
    lines->stream = fdopen(fd, "rb");
    if (lines->stream) return STOKE_OK;
    close(fd);
    return stk_fail(err, STOKE_E_NOMEM, "%s: no memory to read it", path);
}

int stk_lines_next(stk_lines *lines, stoke_error *err)
{
    lines->length = 0;
    lines->whole = lines->cut = 0;
    int c = getc_unlocked(lines->stream), any = c != EOF;
    for (; c != EOF && c != '\n'; c = getc_unlocked(lines->stream)) {
        if (lines->length == STK_LINE_BYTES) {
            lines->cut = 1;
            continue;
        }
        if (!stk_grow((void **)&lines->text, &lines->capacity, lines->length + 2, 1))
            return stk_fail(err, STOKE_E_NOMEM, "%s: no memory for a line", lines->path);
        lines->text[lines->length++] = (char)c;
    }
    if (c == EOF && ferror(lines->stream))
        return stk_fail_errno(err, STOKE_E_IO, errno, "%s: cannot read", lines->path);
    if (!any) return 0;
    if (!stk_grow((void **)&lines->text, &lines->capacity, lines->length + 1, 1))
        return stk_fail(err, STOKE_E_NOMEM, "%s: no memory for a line", lines->path);
    lines->text[lines->length] = 0;
    lines->whole = c == '\n';
    return 1;
}

void stk_lines_close(stk_lines *lines)
{
    if (lines->stream) fclose(lines->stream);
    stk_free(lines->text);
    *lines = (stk_lines){ 0 };
}
