/* SPDX-License-Identifier: Apache-2.0
 *
 * The statistics page: the onlooker's side. The file may be anything, and may become
 * anything while we look: it is read into memory of ours and checked there, every time.
 */
#include "src/loader/live_page.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "src/base/error.h"
#include "src/base/file.h"
#include "src/base/retry.h"

/* A write takes 1 us, so a copy that fits its checksum comes at the first or second try, unless the writer
 * lost its core just then: the later tries wait 1 ms each. All in vain, and nobody is writing any more. */
enum { QUICK_TRIES = 20, SLOW_TRIES = 50 };

struct stoke_live_reader {
    int fd;
    uint64_t place;
    char *path;
};

/* ---- opening ---- */

static int no_page(const char *path, int number, stoke_error *err)
{
    if (number != ENOENT && number != ENOTDIR)
        return stk_fail_errno(err, STOKE_E_IO, number, "%s: cannot open", path);
    return stk_fail(err, STOKE_E_NOTFOUND,
                    "%s: there is no such page of statistics. `stoke train` keeps one in the folder of its "
                    "run (RUN/live), `stoke bench data` and `stoke bench device` where --live FILE says",
                    path);
}

static int open_page(stoke_live_reader *reader, stoke_error *err)
{
    struct stat st;
    reader->fd = stk_open(reader->path, O_RDONLY, 0);
    if (reader->fd < 0) return no_page(reader->path, errno, err);
    if (stk_fstat(reader->fd, &st) != 0)
        return stk_fail_errno(err, STOKE_E_IO, errno, "%s: cannot look at it", reader->path);
    if (!S_ISREG(st.st_mode))
        return stk_fail(err, STOKE_E_FORMAT, "%s: not a page of statistics, nor any other regular file",
                        reader->path);
    stoke_live_data data;
    int alive;
    return stoke_live_reader_read(reader, &data, &alive, err);
}

int stoke_live_reader_open(stoke_live_reader **out, const char *path, stoke_error *err)
{
    struct stat st;
    *out = NULL;
    stoke_live_reader *reader = stk_calloc(1, sizeof *reader);
    if (!reader) return stk_fail(err, STOKE_E_NOMEM, "%s: no memory to look at it", path);
    reader->fd = -1;
    reader->place = stk_live_place();
    reader->path =
        stk_stat(path, &st) == 0 && S_ISDIR(st.st_mode) ? stk_path_join(path, "live") : stk_strdup(path);
    int r = reader->path ? STOKE_OK : stk_fail(err, STOKE_E_NOMEM, "%s: no memory to look at it", path);
    if (!r) r = open_page(reader, err);
    if (r)
        stoke_live_reader_close(&reader);
    else
        *out = reader;
    return r;
}

void stoke_live_reader_close(stoke_live_reader **pointer)
{
    stoke_live_reader *reader = *pointer;
    if (!reader) return;
    *pointer = NULL;
    if (reader->fd >= 0) close(reader->fd);
    stk_free(reader->path);
    stk_free(reader);
}

/* ---- reading ---- */

static int look(const stoke_live_reader *reader, stk_live_page *page, stoke_live_data *data, stoke_error *err)
{
    const ssize_t n = pread(reader->fd, page, sizeof *page, 0);
    if (n < 0) return stk_fail_errno(err, STOKE_E_IO, errno, "%s: cannot read", reader->path);
    return stk_live_take(page, (size_t)n, reader->path, data, err);
}

static int is_alive(const stoke_live_reader *reader, const stk_live_content *content, uint64_t pid)
{
    if (content->place != reader->place) return -1;
    if (!pid || pid > INT32_MAX) return 0; /* kill would mean a group by it */
    if (kill((pid_t)pid, 0) != 0 && errno == ESRCH) return 0;
    return content->born ? stk_live_born(pid) == content->born : 1;
}

static int look_until_whole(const stoke_live_reader *reader, stk_live_page *page, stoke_live_data *data,
                            stoke_error *err)
{
    stoke_error own = { 0 }; /* the caller hears nothing of a try that was in vain */
    int r = STOKE_E_STATE;
    for (int i = 0; r == STOKE_E_STATE && i < QUICK_TRIES + SLOW_TRIES; i++) {
        if (i >= QUICK_TRIES) nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
        r = look(reader, page, data, &own);
    }
    if (r && err) *err = own;
    return r;
}

int stoke_live_reader_read(stoke_live_reader *reader, stoke_live_data *data, int *alive, stoke_error *err)
{
    stk_live_page page;
    const int r = look_until_whole(reader, &page, data, err);
    if (r) return r;
    *alive = is_alive(reader, &page.content, data->pid);
    if (*alive) return STOKE_OK;
    /* It may have said its last word and ended since we looked. */
    return look_until_whole(reader, &page, data, err);
}
