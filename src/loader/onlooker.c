/* SPDX-License-Identifier: Apache-2.0
 *
 * The statistics page: the onlooker's side, and what two looks say. The file may be anything, and may become
 * anything while we look: it is read into memory of ours and checked there, every time.
 */
#include "src/loader/live_page.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "src/base/error.h"
#include "src/base/file.h"

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
    /* O_NONBLOCK: a pipe would hold us until somebody writes to it. */
    onlooker->fd = open(onlooker->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
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

/* One look. 0: a whole page. STOKE_E_STATE: it does not fit its checksum, as in the middle of a write. */
static int look(const stoke_onlooker *onlooker, stk_live_page *page, stoke_error *err)
{
    const stk_live_content *content = &page->content;
    const size_t head = offsetof(stk_live_content, data);
    const ssize_t n = pread(onlooker->fd, page, sizeof *page, 0);
    if (n < 0) return stk_fail_errno(err, STOKE_E_IO, errno, "%s: cannot read", onlooker->path);
    if ((size_t)n < head || content->magic != STK_LIVE_MAGIC)
        return stk_fail(err, STOKE_E_FORMAT,
                        "%s: not a page of statistics; name a run folder, or the page in it, RUN/live",
                        onlooker->path);
    if (content->version > STOKE_LIVE_VERSION)
        return stk_fail(err, STOKE_E_UNSUPPORTED,
                        "%s: written by a newer stoke (page version %" PRIu64
                        ", this one knows up to %d): watch it with the stoke that runs the job",
                        onlooker->path, content->version, STOKE_LIVE_VERSION);
    if (content->bytes > sizeof content->data || content->bytes % 8 || head + content->bytes > (size_t)n)
        return stk_fail(err, STOKE_E_FORMAT,
                        "%s: a damaged page of statistics: %" PRIu64 " bytes of figures in a file of %zd",
                        onlooker->path, content->bytes, n);
    if (content->checksum != stk_live_checksum(page))
        return stk_fail(err, STOKE_E_STATE,
                        "%s: the writer died while writing, or the page is damaged. The run's own files are "
                        "not concerned: `stoke report` shows what it wrote down",
                        onlooker->path);
    return STOKE_OK;
}

/* What an older page lacks is n/a, and what it calls itself goes to terminals. */
static void take_over(const stk_live_content *content, stoke_live_data *data)
{
    *data = stoke_live_defaults();
    memcpy(data, &content->data, content->bytes);
    data->what[sizeof data->what - 1] = 0;
    for (char *c = data->what; *c; c++)
        if (*c < ' ' || *c > '~') *c = '?';
}

static int is_alive(const stoke_onlooker *onlooker, const stk_live_content *content, uint64_t pid)
{
    if (content->place != onlooker->place) return -1;
    if (!pid || pid > INT32_MAX) return 0; /* kill would mean a group by it */
    if (kill((pid_t)pid, 0) != 0 && errno == ESRCH) return 0;
    return content->born ? stk_live_born(pid) == content->born : 1;
}

static int look_until_whole(const stoke_onlooker *onlooker, stk_live_page *page, stoke_error *err)
{
    stoke_error own = { 0 }; /* the caller hears nothing of a try that was in vain */
    int r = STOKE_E_STATE;
    for (int i = 0; r == STOKE_E_STATE && i < QUICK_TRIES + SLOW_TRIES; i++) {
        if (i >= QUICK_TRIES) nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
        r = look(onlooker, page, &own);
    }
    if (r && err) *err = own;
    return r;
}

int stoke_onlooker_read(stoke_onlooker *onlooker, stoke_live_data *data, int *alive, stoke_error *err)
{
    stk_live_page page;
    int r = look_until_whole(onlooker, &page, err);
    if (r) return r;
    take_over(&page.content, data);
    *alive = is_alive(onlooker, &page.content, data->pid);
    if (*alive) return STOKE_OK;
    /* It may have said its last word and ended since we looked. */
    r = look_until_whole(onlooker, &page, err);
    if (!r) take_over(&page.content, data);
    return r;
}

/* ---- two looks ---- */

/* A counter that went back is another job's: nothing is known then. */
static double passed(uint64_t before, uint64_t after)
{
    return before == STOKE_LIVE_NA || after == STOKE_LIVE_NA || after < before ? NAN
                                                                               : (double)(after - before);
}

static double per(double amount, double of)
{
    return of > 0 ? amount / of : NAN; /* not for NaN either */
}

void stoke_live_between(const stoke_live_data *before, const stoke_live_data *after, stoke_live_rates *rates)
{
    static const stoke_live_data none;
    stoke_live_data began = none;
    if (!before) {
        began.now_ns = after->start_ns;
        began.step = STOKE_LIVE_NA;
        before = &began;
    }
    const double seconds = passed(before->now_ns, after->now_ns) / 1e9;
    const double samples = passed(before->samples, after->samples);
    const double wait = passed(before->data_wait_ns, after->data_wait_ns);
    const double hits = passed(before->cache_hits, after->cache_hits);
    *rates = (stoke_live_rates){
        .seconds = seconds,
        .steps_s = per(passed(before->step, after->step), seconds),
        .samples_s = per(samples, seconds),
        .read_bytes_s = per(passed(before->bytes_read, after->bytes_read), seconds),
        .data_wait = per(wait, wait + passed(before->step_ns, after->step_ns)),
        .cache_hits = per(hits, hits + passed(before->cache_misses, after->cache_misses)),
    };
    for (int i = 0; i < STOKE_STAGES; i++) {
        rates->stage_wall_ms[i] =
            per(passed(before->stage_wall_ns[i], after->stage_wall_ns[i]) / 1e6, samples);
        rates->stage_cpu_ms[i] = per(passed(before->stage_cpu_ns[i], after->stage_cpu_ns[i]) / 1e6, samples);
    }
}
