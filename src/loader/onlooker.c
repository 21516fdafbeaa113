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

struct stoke_onlooker {
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

static int open_page(stoke_onlooker *onlooker, stoke_error *err)
{
    struct stat st;
    onlooker->fd = stk_open(onlooker->path, O_RDONLY, 0);
    if (onlooker->fd < 0) return no_page(onlooker->path, errno, err);
    if (fstat(onlooker->fd, &st) != 0)
        return stk_fail_errno(err, STOKE_E_IO, errno, "%s: cannot look at it", onlooker->path);
    if (!S_ISREG(st.st_mode))
        return stk_fail(err, STOKE_E_FORMAT, "%s: not a page of statistics, nor any other regular file",
                        onlooker->path);
    stoke_live_data data;
    int alive;
    return stoke_onlooker_read(onlooker, &data, &alive, err);
}

int stoke_onlooker_open(stoke_onlooker **out, const char *path, stoke_error *err)
{
    struct stat st;
    *out = NULL;
    stoke_onlooker *onlooker = stk_calloc(1, sizeof *onlooker);
    if (!onlooker) return stk_fail(err, STOKE_E_NOMEM, "%s: no memory to look at it", path);
    onlooker->fd = -1;
    onlooker->place = stk_live_place();
    onlooker->path =
        stat(path, &st) == 0 && S_ISDIR(st.st_mode) ? stk_path_join(path, "live") : stk_strdup(path);
    int r = onlooker->path ? STOKE_OK : stk_fail(err, STOKE_E_NOMEM, "%s: no memory to look at it", path);
    if (!r) r = open_page(onlooker, err);
    if (r)
        stoke_onlooker_close(&onlooker);
    else
        *out = onlooker;
    return r;
}

void stoke_onlooker_close(stoke_onlooker **pointer)
{
    stoke_onlooker *onlooker = *pointer;
    if (!onlooker) return;
    *pointer = NULL;
    if (onlooker->fd >= 0) close(onlooker->fd);
    stk_free(onlooker->path);
    stk_free(onlooker);
}

/* ---- reading ---- */

static int look(const stoke_onlooker *onlooker, stk_live_page *page, stoke_live_data *data, stoke_error *err)
{
    const ssize_t n = pread(onlooker->fd, page, sizeof *page, 0);
    if (n < 0) return stk_fail_errno(err, STOKE_E_IO, errno, "%s: cannot read", onlooker->path);
    return stk_live_take(page, (size_t)n, onlooker->path, data, err);
}

static int is_alive(const stoke_onlooker *onlooker, const stk_live_content *content, uint64_t pid)
{
    if (content->place != onlooker->place) return -1;
    if (!pid || pid > INT32_MAX) return 0; /* kill would mean a group by it */
    if (kill((pid_t)pid, 0) != 0 && errno == ESRCH) return 0;
    return content->born ? stk_live_born(pid) == content->born : 1;
}

static int look_until_whole(const stoke_onlooker *onlooker, stk_live_page *page, stoke_live_data *data,
                            stoke_error *err)
{
    stoke_error own = { 0 }; /* the caller hears nothing of a try that was in vain */
    int r = STOKE_E_STATE;
    for (int i = 0; r == STOKE_E_STATE && i < QUICK_TRIES + SLOW_TRIES; i++) {
        if (i >= QUICK_TRIES) nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
        r = look(onlooker, page, data, &own);
    }
    if (r && err) *err = own;
    return r;
}

int stoke_onlooker_read(stoke_onlooker *onlooker, stoke_live_data *data, int *alive, stoke_error *err)
{
    stk_live_page page;
    const int r = look_until_whole(onlooker, &page, data, err);
    if (r) return r;
    *alive = is_alive(onlooker, &page.content, data->pid);
    if (*alive) return STOKE_OK;
    /* It may have said its last word and ended since we looked. */
    return look_until_whole(onlooker, &page, data, err);
}
