/* SPDX-License-Identifier: Apache-2.0
 *
 * The statistics page: the job's side. See live_page.h for why it is written as it is.
 */
#include "src/loader/live_page.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stoke/tools/machine.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/base/file.h"
#include "src/base/machine.h"
#include "src/base/ours.h"
#include "src/base/retry.h"
#include "src/loader/loader_internal.h"

/* The statistics page as bytes, apart from files and processes: what it says, and what two looks say. */

const char *stoke_live_phase_name(int phase)
{
    static const char *const names[] = { "starting", "training", "evaluating", "saving", "ended" };
    return phase >= 0 && phase <= STOKE_LIVE_ENDED ? names[phase] : "unknown";
}

stoke_live_data stoke_live_defaults(void)
{
    stoke_live_data data;
    memset(&data, 0xff, sizeof data); /* STOKE_LIVE_NA and NaN alike */
    memset(data.what, 0, sizeof data.what);
    data.phase = STOKE_LIVE_STARTING;
    return data;
}

uint64_t stk_live_checksum(const stk_live_page *page)
{
    const size_t head = offsetof(stk_live_content, version);
    return XXH3_64bits(page->room + head, offsetof(stk_live_content, data) - head + page->content.bytes);
}

int stk_live_take(const stk_live_page *page, size_t bytes, const char *path, stoke_live_data *data,
                  stoke_error *err)
{
    const stk_live_content *content = &page->content;
    const size_t head = offsetof(stk_live_content, data);
    if (bytes < head || content->magic != STK_LIVE_MAGIC)
        return stk_fail(err, STOKE_E_FORMAT,
                        "%s: not a page of statistics; name a run folder, or the page in it, RUN/live", path);
    if (content->version > STOKE_LIVE_VERSION)
        return stk_fail(err, STOKE_E_UNSUPPORTED,
                        "%s: written by a newer stoke (page version %" PRIu64
                        ", this one knows up to %d): watch it with the stoke that runs the job",
                        path, content->version, STOKE_LIVE_VERSION);
    if (content->bytes > sizeof content->data || content->bytes % 8 || head + content->bytes > bytes)
        return stk_fail(err, STOKE_E_FORMAT,
                        "%s: a damaged page of statistics: %" PRIu64 " bytes of figures in a file of %zu",
                        path, content->bytes, bytes);
    if (content->checksum != stk_live_checksum(page))
        return stk_fail(err, STOKE_E_STATE,
                        "%s: the writer died while writing, or the page is damaged. The run's own files are "
                        "not concerned: `stoke report` shows what it wrote down",
                        path);
    *data = stoke_live_defaults(); /* what an older page lacks is n/a */
    memcpy(data, &content->data, content->bytes);
    data->what[sizeof data->what - 1] = 0;
    return STOKE_OK;
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

_Static_assert(sizeof(stk_live_content) <= STK_LIVE_PAGE, "one page is enough");

/* To ask for the peak of the memory takes 17 us, ten times as long as all the rest. */
enum { PEAK_EVERY_NS = 1000000000 };

struct stoke_live {
    int fd;
    uint64_t peak_ns; /* when it was last asked for */
    stk_live_page page;
};

/* ---- which process ---- */

/* When a process began, in ticks since the machine did (field 22 of /proc/PID/stat): with the number it tells
 * a process from a later one of the same number. 0: there is none, or it is a zombie, or /proc does not
 * tell. */
static uint64_t live_born(uint64_t pid)
{
    char path[64], text[1024], state;
    uint64_t born;
    snprintf(path, sizeof path, "/proc/%" PRIu64 "/stat", pid);
    if (!stk_machine_read_text(path, text, sizeof text)) return 0;
    const char *rest = strrchr(text, ')'); /* the name in brackets may hold anything, brackets too */
    if (!rest ||
        sscanf(rest + 1,
               " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %" SCNu64, &state,
               &born) != 2)
        return 0;
    return state == 'Z' || state == 'X' ? 0 : born;
}

/* Where numbers of processes mean what they mean here: this boot of this machine, this container. */
static uint64_t live_place(void)
{
    struct {
        char boot[64];
        uint64_t container;
    } place;
    struct stat st;
    memset(&place, 0, sizeof place);
    stk_machine_read_text("/proc/sys/kernel/random/boot_id", place.boot, sizeof place.boot);
    if (stoke_stat("/proc/self/ns/pid", &st) == 0) place.container = st.st_ino;
    return XXH3_64bits(&place, sizeof place);
}

/* ---- writing ---- */

static void seal(stoke_live *live)
{
    stoke_live_data *data = &live->page.content.data;
    data->now_ns = stk_now_ns();
    if (!live->peak_ns || data->now_ns - live->peak_ns > PEAK_EVERY_NS) {
        const uint64_t peak = stoke_machine_peak_rss();
        data->peak_rss = peak ? peak : STOKE_LIVE_NA;
        live->peak_ns = data->now_ns;
    }
    live->page.content.checksum = stk_live_checksum(&live->page);
}

static void begin_page(stoke_live *live, const char *what)
{
    stk_live_content *content = &live->page.content;
    const uint64_t pid = (uint64_t)getpid();
    *content = (stk_live_content){ .magic = STK_LIVE_MAGIC,
                                   .version = STOKE_LIVE_VERSION,
                                   .bytes = sizeof content->data,
                                   .born = live_born(pid),
                                   .place = live_place(),
                                   .data = stoke_live_defaults() };
    content->data.pid = pid;
    content->data.start_ns = stk_now_ns();
    snprintf(content->data.what, sizeof content->data.what, "%s", what);
    seal(live);
}

/* Whole or not at all, for who opens it; what was there stays with those who look at it already. */
int stk_live_put(const char *path, uint64_t magic, const void *bytes, size_t size, int *fd, stoke_error *err)
{
    stoke_output file;
    *fd = -1;
    const int there = stoke_open(path, O_RDONLY, 0);
    if (there < 0 && !stoke_is_absent(errno))
        return stk_fail_errno(err, STOKE_E_IO, errno, "%s: cannot be looked at", path);
    struct stat st;
    const int taken = there >= 0 && stoke_fstat(there, &st) == 0 && S_ISREG(st.st_mode) &&
                      !stk_ours_begins(there, &magic, sizeof magic);
    if (there >= 0) close(there);
    if (taken)
        return stk_fail(err, STOKE_E_STATE,
                        "%s: is there already and is no page of statistics: name another file", path);
    int r = stoke_output_open(&file, path, err);
    if (r) return r;
    file.expendable = 1; /* after a power cut nobody wants it */
    fwrite(bytes, size, 1, file.stream);
    *fd = fcntl(fileno(file.stream), F_DUPFD_CLOEXEC, 0);
    if (*fd < 0) {
        r = stk_fail_errno(err, STOKE_E_IO, errno, "%s: cannot keep it open", path);
        stoke_output_drop(&file);
        return r;
    }
    return stoke_output_commit(&file, err);
}

int stoke_live_create(stoke_live **out, const char *path, const char *what, stoke_error *err)
{
    *out = NULL;
    stoke_live *live = stk_calloc(1, sizeof *live);
    if (!live) return stk_fail(err, STOKE_E_NOMEM, "%s: no memory for a page of statistics", path);
    begin_page(live, what);
    const int r = stk_live_put(path, STK_LIVE_MAGIC, &live->page, sizeof live->page, &live->fd, err);
    if (!r) {
        *out = live;
        return STOKE_OK;
    }
    if (live->fd >= 0) close(live->fd);
    stk_free(live);
    return r;
}

static void write_page(stoke_live *live)
{
    seal(live);
    /* Whole, so that the kernel need not read what is around it, and one that was cut short is mended. What
     * it says is best effort: a disk that is full must not end a run. */
    if (pwrite(live->fd, &live->page, sizeof live->page, 0) < 0) return;
}

void stoke_live_write(stoke_live *live, const stoke_live_data *data)
{
    if (!live) return;
    stoke_live_data *own = &live->page.content.data;
    const stoke_live_data before = *own;
    *own = *data;
    own->pid = before.pid;
    own->start_ns = before.start_ns;
    own->peak_rss = before.peak_rss;
    memcpy(own->what, before.what, sizeof own->what);
    write_page(live);
}

void stoke_live_close(stoke_live **pointer)
{
    stoke_live *live = *pointer;
    if (!live) return;
    *pointer = NULL;
    live->page.content.data.phase = STOKE_LIVE_ENDED;
    write_page(live);
    close(live->fd);
    stk_free(live);
}

void stoke_live_take(stoke_live_data *data, const stoke_loader *loader)
{
    stoke_loader_stats_data stats;
    stoke_loader_stats(loader, &stats);
    data->samples = stats.samples;
    data->batches = stats.batches;
    data->ready = stats.ready_batches;
    data->slots = stats.slots;
    data->workers = loader->threads;
    data->data_wait_ns = stats.stage[STOKE_STAGE_BATCH_WAIT].wall_ns;
    for (int i = 0; i < STOKE_STAGES; i++) {
        data->stage_wall_ns[i] = stats.stage[i].wall_ns;
        data->stage_cpu_ns[i] = stats.stage[i].cpu_ns;
        data->stage_count[i] = stats.stage[i].count;
    }
    data->bytes_read = stats.bytes_read;
    data->replaced = stats.replaced;
    data->skipped = stats.skipped;
    data->bad_samples = stats.bad_samples;
    const int cached = loader->config.cache != NULL;
    data->cache_hits = cached ? stats.cache_hits_ram + stats.cache_hits_disk : STOKE_LIVE_NA;
    data->cache_misses = cached ? stats.cache_misses : STOKE_LIVE_NA;
    data->memory_bytes = stats.memory_bytes;
}

/* The statistics page: the onlooker's side. The file may be anything, and may become
 * anything while we look: it is read into memory of ours and checked there, every time.
 */

/* A write takes 1 us, so a copy that fits its checksum comes at the first or second try, unless the writer
 * lost its core just then: the later tries wait 1 ms each. All in vain, and nobody is writing any more. */
enum { QUICK_TRIES = 20, SLOW_TRIES = 50 };

struct stoke_live_reader {
    int fd;
    uint64_t place;
    char *path;
};

/* ---- opening ---- */

static int open_page(stoke_live_reader *reader, stoke_error *err)
{
    struct stat st;
    reader->fd = stoke_open(reader->path, O_RDONLY, 0);
    if (reader->fd < 0 && errno != ENOENT && errno != ENOTDIR)
        return stk_fail_errno(err, STOKE_E_IO, errno, "%s: cannot open", reader->path);
    if (reader->fd < 0)
        return stk_fail(
            err, STOKE_E_NOTFOUND,
            "%s: there is no such page of statistics. `stoke train` keeps one in the folder of its "
            "run (RUN/live), `stoke bench data` and `stoke bench device` where --live FILE says",
            reader->path);
    if (stoke_fstat(reader->fd, &st) != 0)
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
    reader->place = live_place();
    reader->path =
        stoke_stat(path, &st) == 0 && S_ISDIR(st.st_mode) ? stk_path_join(path, "live") : stk_strdup(path);
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

static int is_alive(const stoke_live_reader *reader, const stk_live_content *content, uint64_t pid)
{
    if (content->place != reader->place) return -1;
    if (!pid || pid > INT32_MAX) return 0; /* kill would mean a group by it */
    if (kill((pid_t)pid, 0) != 0 && errno == ESRCH) return 0;
    return content->born ? live_born(pid) == content->born : 1;
}

static int look_until_whole(const stoke_live_reader *reader, stk_live_page *page, stoke_live_data *data,
                            stoke_error *err)
{
    stoke_error own = { 0 }; /* the caller hears nothing of a try that was in vain */
    int r = STOKE_E_STATE;
    for (int i = 0; r == STOKE_E_STATE && i < QUICK_TRIES + SLOW_TRIES; i++) {
        if (i >= QUICK_TRIES) nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
        const ssize_t n = pread(reader->fd, page, sizeof *page, 0);
        r = n < 0 ? stk_fail_errno(&own, STOKE_E_IO, errno, "%s: cannot read", reader->path)
                  : stk_live_take(page, (size_t)n, reader->path, data, &own);
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
