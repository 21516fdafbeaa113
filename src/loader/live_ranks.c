/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of a run's ranks: written and read as the page beside it is (live_page.h says why), whole each
 * time and with one checksum.
 */
#include "src/loader/live_page.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/base/ours.h"
#include "src/base/retry.h"

enum { HEAD = sizeof(stk_live_ranks_content), RECORD = sizeof(stoke_live_rank) };

/* ---- bytes ---- */

uint64_t stk_live_ranks_checksum(const void *table, size_t size)
{
    const size_t from = offsetof(stk_live_ranks_content, version);
    return XXH3_64bits((const char *)table + from, size - from);
}

/* Why the table is not one of ours. */
static int check(const stk_live_ranks_content *table, size_t size, const char *path, stoke_error *err)
{
    if (size < HEAD || table->magic != STK_LIVE_RANKS_MAGIC)
        return stk_fail(err, STOKE_E_FORMAT, "%s: not a table of a run's ranks", path);
    if (table->version > STOKE_LIVE_RANKS_VERSION)
        return stk_fail(err, STOKE_E_UNSUPPORTED,
                        "%s: written by a newer stoke: watch it with the stoke that runs the job", path);
    const uint64_t world = table->head.world, bytes = table->bytes;
    if (world > STOKE_LIVE_RANKS_MOST || bytes > RECORD || bytes % 8 || HEAD + world * bytes > size)
        return stk_fail(err, STOKE_E_FORMAT, "%s: a damaged table of a run's ranks", path);
    if (table->checksum != stk_live_ranks_checksum(table, (size_t)(HEAD + world * bytes)))
        return stk_fail(err, STOKE_E_STATE, "%s: the writer died while writing, or the table is damaged",
                        path);
    return STOKE_OK;
}

int stk_live_ranks_take(const void *bytes, size_t size, const char *path, stoke_live_ranks_head *head,
                        stoke_live_rank **ranks, stoke_error *err)
{
    const stk_live_ranks_content *table = bytes;
    *ranks = NULL;
    const int r = check(table, size, path, err);
    if (r) return r;
    *head = table->head;
    const size_t world = (size_t)head->world;
    *ranks = stk_calloc(world + 1, RECORD);
    if (!*ranks) return stk_fail(err, STOKE_E_NOMEM, "%s: no memory to look at it", path);
    for (size_t q = 0; q < world; q++) {
        stoke_live_rank *rank = &(*ranks)[q];
        memset(rank, 0xff, RECORD); /* what an older table lacks is n/a */
        memcpy(rank, (const char *)bytes + HEAD + q * (size_t)table->bytes, (size_t)table->bytes);
        rank->host[sizeof rank->host - 1] = 0;
    }
    return STOKE_OK;
}

/* ---- writing ---- */

struct stoke_live_ranks {
    int fd;
    size_t size;
    stk_live_ranks_content *table;
};

static void seal(stoke_live_ranks *live)
{
    live->table->head.now_ns = stk_now_ns();
    live->table->checksum = stk_live_ranks_checksum(live->table, live->size);
}

int stoke_live_ranks_create(stoke_live_ranks **out, const char *path, uint32_t world, stoke_error *err)
{
    *out = NULL;
    stoke_live_ranks *live = stk_calloc(1, sizeof *live);
    const size_t size = HEAD + (size_t)world * RECORD;
    if (live) live->table = stk_calloc(1, size);
    if (!live || !live->table) {
        stk_free(live);
        return stk_fail(err, STOKE_E_NOMEM, "%s: no memory for a table of ranks", path);
    }
    live->size = size;
    live->table->magic = STK_LIVE_RANKS_MAGIC;
    live->table->version = STOKE_LIVE_RANKS_VERSION;
    live->table->bytes = RECORD;
    live->table->head = (stoke_live_ranks_head){
        .world = world, .pid = (uint64_t)getpid(), .start_ns = stk_now_ns(), .phase = STOKE_LIVE_STARTING
    };
    seal(live);
    const int r = stk_live_put(path, STK_LIVE_RANKS_MAGIC, live->table, size, &live->fd, err);
    if (!r) {
        *out = live;
        return STOKE_OK;
    }
    if (live->fd >= 0) close(live->fd);
    stk_free(live->table);
    stk_free(live);
    return r;
}

/* Best effort: a disk that is full must not end a run. */
static void write_table(stoke_live_ranks *live)
{
    seal(live);
    if (pwrite(live->fd, live->table, live->size, 0) < 0) return;
}

void stoke_live_ranks_write(stoke_live_ranks *live, const stoke_live_rank *ranks, uint64_t steps,
                            uint64_t step)
{
    if (!live) return;
    stk_live_ranks_content *table = live->table;
    memcpy(table->rank, ranks, (size_t)table->head.world * RECORD);
    table->head.steps = steps;
    table->head.step = step;
    table->head.phase = STOKE_LIVE_TRAINING;
    write_table(live);
}

void stoke_live_ranks_close(stoke_live_ranks **pointer)
{
    stoke_live_ranks *live = *pointer;
    if (!live) return;
    *pointer = NULL;
    live->table->head.phase = STOKE_LIVE_ENDED;
    write_table(live);
    close(live->fd);
    stk_free(live->table);
    stk_free(live);
}

void stoke_live_ranks_remove(const char *path)
{
    const uint64_t magic = STK_LIVE_RANKS_MAGIC;
    const int fd = stoke_open(path, O_RDONLY, 0);
    if (fd < 0) return;
    if (stk_ours_begins(fd, &magic, sizeof magic)) unlink(path);
    close(fd);
}

/* ---- reading ---- */

/* A write takes a few us; all tries in vain, and nobody is writing any more. */
enum { TRIES = 50 };

static int look(int fd, const char *path, stoke_live_ranks_head *head, stoke_live_rank **ranks,
                stoke_error *err)
{
    const size_t most = HEAD + (size_t)STOKE_LIVE_RANKS_MOST * RECORD;
    struct stat st;
    if (stoke_fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        return stk_fail(err, STOKE_E_FORMAT, "%s: not a table of a run's ranks, nor any other regular file",
                        path);
    const size_t size = st.st_size > 0 ? stk_least((size_t)st.st_size, most) : 0;
    void *table = stk_calloc(1, size + HEAD);
    if (!table) return stk_fail(err, STOKE_E_NOMEM, "%s: no memory to look at it", path);
    stoke_error own = { 0 };
    int r = STOKE_E_STATE;
    for (int i = 0; r == STOKE_E_STATE && i < TRIES; i++) {
        if (i) nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
        const ssize_t n = pread(fd, table, size, 0);
        r = n < 0 ? stk_fail_errno(&own, STOKE_E_IO, errno, "%s: cannot read", path)
                  : stk_live_ranks_take(table, (size_t)n, path, head, ranks, &own);
    }
    stk_free(table);
    if (r && err) *err = own;
    return r;
}

int stoke_live_ranks_read(const char *path, stoke_live_ranks_head *head, stoke_live_rank **ranks,
                          stoke_error *err)
{
    char file[PATH_MAX];
    struct stat st;
    *ranks = NULL;
    const int folder = stoke_stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    if (snprintf(file, sizeof file, "%s%s", path, folder ? "/live.ranks" : ".ranks") >= (int)sizeof file)
        return stk_fail(err, STOKE_E_INVALID, "%.200s...: the name is too long", path);
    const int fd = stoke_open(file, O_RDONLY, 0);
    if (fd < 0)
        return stk_fail_errno(err, stoke_is_absent(errno) ? STOKE_E_NOTFOUND : STOKE_E_IO, errno,
                              "%s: cannot open", file);
    const int r = look(fd, file, head, ranks, err);
    close(fd);
    return r;
}

void stoke_live_ranks_free(stoke_live_rank **ranks)
{
    stk_free(*ranks);
    *ranks = NULL;
}
