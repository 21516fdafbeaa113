/* SPDX-License-Identifier: Apache-2.0
 *
 * The statistics page: the job's side. See live_page.h for why it is written as it is.
 */
#include "src/loader/live_page.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <stoke/tools/machine.h>
#include <xxhash.h>

#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/base/file.h"
#include "src/base/ours.h"
#include "src/base/retry.h"
#include "src/loader/loader_internal.h"

_Static_assert(sizeof(stk_live_content) <= STK_LIVE_PAGE, "one page is enough");

/* To ask for the peak of the memory takes 17 us, ten times as long as all the rest. */
enum { PEAK_EVERY_NS = 1000000000 };

struct stoke_live {
    int fd;
    uint64_t peak_ns; /* when it was last asked for */
    stk_live_page page;
};

/* ---- which process ---- */

/* Returns the length; 0 when it cannot be read. Files of /proc have no size. */
static size_t read_text(const char *path, char *text, size_t size)
{
    const int fd = stk_open(path, O_RDONLY, 0);
    if (fd < 0) return 0;
    const ssize_t n = read(fd, text, size - 1);
    close(fd);
    text[n > 0 ? n : 0] = 0;
    return n > 0 ? (size_t)n : 0;
}

uint64_t stk_live_born(uint64_t pid)
{
    char path[64], text[1024], state;
    uint64_t born;
    snprintf(path, sizeof path, "/proc/%" PRIu64 "/stat", pid);
    if (!read_text(path, text, sizeof text)) return 0;
    const char *rest = strrchr(text, ')'); /* the name in brackets may hold anything, brackets too */
    if (!rest ||
        sscanf(rest + 1,
               " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %" SCNu64, &state,
               &born) != 2)
        return 0;
    return state == 'Z' || state == 'X' ? 0 : born;
}

uint64_t stk_live_place(void)
{
    struct {
        char boot[64];
        uint64_t container;
    } place;
    struct stat st;
    memset(&place, 0, sizeof place);
    read_text("/proc/sys/kernel/random/boot_id", place.boot, sizeof place.boot);
    if (stk_stat("/proc/self/ns/pid", &st) == 0) place.container = st.st_ino;
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
                                   .born = stk_live_born(pid),
                                   .place = stk_live_place(),
                                   .data = stoke_live_defaults() };
    content->data.pid = pid;
    content->data.start_ns = stk_now_ns();
    snprintf(content->data.what, sizeof content->data.what, "%s", what);
    seal(live);
}

/* Whole or not at all, for who opens it; what was there stays with those who look at it already. */
static int put_in_place(stoke_live *live, const char *path, stoke_error *err)
{
    stk_atomic_file file;
    const uint64_t magic = STK_LIVE_MAGIC;
    const int there = stk_open(path, O_RDONLY, 0);
    if (there < 0 && !stoke_is_absent(errno))
        return stk_fail_errno(err, STOKE_E_IO, errno, "%s: cannot be looked at", path);
    struct stat st;
    const int taken = there >= 0 && fstat(there, &st) == 0 && S_ISREG(st.st_mode) &&
                      !stk_ours_begins(there, &magic, sizeof magic);
    if (there >= 0) close(there);
    if (taken)
        return stk_fail(err, STOKE_E_STATE,
                        "%s: is there already and is no page of statistics: name another file", path);
    int r = stk_atomic_open(&file, path, err);
    if (r) return r;
    file.expendable = 1; /* after a power cut nobody wants it */
    fwrite(&live->page, sizeof live->page, 1, file.stream);
    live->fd = fcntl(fileno(file.stream), F_DUPFD_CLOEXEC, 0);
    if (live->fd < 0) {
        r = stk_fail_errno(err, STOKE_E_IO, errno, "%s: cannot keep it open", path);
        stk_atomic_abandon(&file);
        return r;
    }
    return stk_atomic_commit(&file, err);
}

int stoke_live_create(stoke_live **out, const char *path, const char *what, stoke_error *err)
{
    *out = NULL;
    stoke_live *live = stk_calloc(1, sizeof *live);
    if (!live) return stk_fail(err, STOKE_E_NOMEM, "%s: no memory for a page of statistics", path);
    live->fd = -1;
    begin_page(live, what);
    const int r = put_in_place(live, path, err);
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
