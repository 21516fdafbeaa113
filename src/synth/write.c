/* SPDX-License-Identifier: Apache-2.0
 *
 * A whole set on disk. Threads take the next index each; scene i depends on nothing but i, so the files are
 * the same for any number of threads.
 */
#include <errno.h>
#include <pthread.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include <stoke/tools/machine.h>

#include "src/base/error.h"
#include "src/base/file.h"
#include "src/base/machine.h"
#include "src/base/mem.h"
#include "src/base/ours.h"
#include "src/base/retry.h"
#include "src/codec/write.h"
#include "src/synth/synth.h"

enum { THREADS_MAX = 256, PATH_EXTRA = 40 /* what a path has behind its folder */ };

typedef struct job {
    const stoke_synth_params *params;
    const char *folder;
    size_t path_room;
    pthread_mutex_t lock;
    pthread_cond_t moved;
    /* under the lock */
    uint64_t next, done;
    unsigned running;
    int stop, status;
    stoke_error error; /* of the first thread that failed */
} job;

/* What one thread needs, allocated before its first scene. */
typedef struct desk {
    stoke_image image, mask;
    char *path;
} desk;

static int desk_create(desk *d, const job *j, stoke_error *err)
{
    const stoke_synth_params *p = j->params;
    *d = (desk){
        .image = { .stride = (size_t)p->width * 3,
                   .width = p->width,
                   .height = p->height,
                   .channels = 3,
                   .depth = 1 },
        .mask = { .stride = p->width, .width = p->width, .height = p->height, .channels = 1, .depth = 1 }
    };
    d->image.data = stk_alloc(d->image.stride * p->height);
    d->mask.data = stk_alloc(d->mask.stride * p->height);
    d->path = stk_alloc(j->path_room);
    if (d->image.data && d->mask.data && d->path) return STOKE_OK;
    return stk_fail(err, STOKE_E_NOMEM, "out of memory for a scene of %u x %u", (unsigned)p->height,
                    (unsigned)p->width);
}

static void desk_free(desk *d)
{
    stk_free(d->image.data);
    stk_free(d->mask.data);
    stk_free(d->path);
}

static void name_file(char *path, size_t room, const char *folder, uint64_t index, int mask)
{
    snprintf(path, room, mask ? "%s/masks/%06" PRIu64 ".png" : "%s/images/%06" PRIu64 ".jpg", folder, index);
}

static int write_scene(const job *j, desk *d, uint64_t index, stoke_error *err)
{
    int status = stoke_synth_draw(j->params, index, &d->image, &d->mask, err);
    if (status) return status;
    name_file(d->path, j->path_room, j->folder, index, 0);
    status = stk_sealed_write_jpeg(d->path, &d->image, j->params->jpeg_quality, err);
    if (status) return status;
    name_file(d->path, j->path_room, j->folder, index, 1);
    return stk_sealed_write_png(d->path, &d->mask, err);
}

/* What a thread holds while it draws and writes: image, mask and shadows by the pixel, rows of renderer and
 * encoders, and what deflates a PNG (0.3 MB) with a stack. */
static uint64_t scene_bytes(const stoke_synth_params *p)
{
    enum { ROWS = 160, ENCODER = 1 << 19 };
    const uint64_t pixels = (uint64_t)p->width * p->height, shadows = (pixels + p->width + p->height) / 4 + 1;
    const uint64_t side = p->width < p->height ? p->width : p->height;
    return 4 * pixels + shadows + p->width * (ROWS + side / 320) + ENCODER;
}

/* *threads becomes how many there will be. */
static int plan_memory(const stoke_synth_params *p, unsigned *threads, stoke_error *err)
{
    const uint64_t process = stk_machine_rss("/proc") + STK_CODE_BYTES;
    if (!*threads) *threads = stoke_machine_cores().usable;
    if (*threads > THREADS_MAX) *threads = THREADS_MAX;
    if (*threads > p->count) *threads = (unsigned)p->count;
    for (;; --*threads) {
        stoke_memory_sum sum = { .limit_bytes = p->memory_limit };
        stoke_memory_add(&sum, "threads", *threads, scene_bytes(p));
        stoke_memory_add(&sum, "process", 1, process);
        stoke_error own = { 0 };
        const int r = stoke_memory_check(&sum, "even one thread needs", "lower size", &own);
        if (r && *threads > 1) continue;
        if (r) return stk_fail_again(err, r, own.message);
        if (p->planned) p->planned(p->planned_context, &sum);
        return STOKE_OK;
    }
}

/* Next index, or 0 when there is no more to do. */
static int take(job *j, uint64_t *index)
{
    pthread_mutex_lock(&j->lock);
    int more = !j->stop && j->next < j->params->count;
    if (more) *index = j->next++;
    pthread_mutex_unlock(&j->lock);
    return more;
}

static void report(job *j, int status, const stoke_error *err, int finished)
{
    pthread_mutex_lock(&j->lock);
    if (status && !j->status) {
        j->status = status;
        j->error = *err;
    }
    if (status) j->stop = 1;
    if (finished)
        j->running--;
    else if (!status)
        j->done++;
    pthread_cond_signal(&j->moved);
    pthread_mutex_unlock(&j->lock);
}

static void *worker(void *argument)
{
    job *j = argument;
    desk d;
    stoke_error err;
    uint64_t index;
    int status = desk_create(&d, j, &err);
    while (!status && take(j, &index)) {
        status = write_scene(j, &d, index, &err);
        report(j, status, &err, 0);
    }
    desk_free(&d);
    report(j, status, &err, 1);
    return NULL;
}

/* The calling thread only watches: progress callbacks belong to it. */
static void watch(job *j, stoke_progress_fn progress, void *context)
{
    pthread_mutex_lock(&j->lock);
    uint64_t seen = 0;
    while (j->running) {
        if (progress && j->done != seen) {
            seen = j->done;
            pthread_mutex_unlock(&j->lock);
            int cancel = progress(context, seen, j->params->count);
            pthread_mutex_lock(&j->lock);
            if (cancel && !j->stop) {
                j->stop = 1;
                if (!j->status) j->status = stk_fail(&j->error, STOKE_E_CANCELLED, "cancelled");
            }
        } else {
            pthread_cond_wait(&j->moved, &j->lock);
        }
    }
    pthread_mutex_unlock(&j->lock);
    if (progress && j->done != seen) progress(context, j->done, j->params->count);
}

static int run(job *j, unsigned threads, stoke_progress_fn progress, void *context, stoke_error *err)
{
    pthread_t handle[THREADS_MAX];
    unsigned started = 0;
    int failure = 0;
    j->running = threads;
    while (started < threads && !(failure = stk_thread_start(&handle[started], worker, j))) started++;
    if (started < threads) { /* fewer than asked for is enough; none is not */
        pthread_mutex_lock(&j->lock);
        j->running -= threads - started;
        if (!started) j->status = stk_fail_errno(&j->error, STOKE_E_NOMEM, failure, "cannot start a thread");
        pthread_mutex_unlock(&j->lock);
    }
    watch(j, progress, context);
    for (unsigned i = 0; i < started; i++) pthread_join(handle[i], NULL);
    if (j->status && err) *err = j->error;
    return j->status;
}

/* ---- whose folder, whose files ---- */

int stoke_synth_others(const stoke_synth_params *params, const char *folder, stoke_progress_fn progress,
                       void *context, uint64_t *count, stoke_error *err)
{
    enum { NEWS = 256 };
    *count = 0;
    const size_t room = strlen(folder) + PATH_EXTRA;
    char *path = stk_alloc(room), first[256] = "";
    struct stat st;
    int r = path ? STOKE_OK : stk_fail(err, STOKE_E_NOMEM, "out of memory");
    for (uint64_t i = 0; !r && i < 2 * params->count; i++) {
        name_file(path, room, folder, i / 2, i % 2);
        if (i && i % NEWS == 0 && progress && progress(context, 0, params->count))
            r = stk_fail(err, STOKE_E_CANCELLED, "cancelled");
        else if ((stk_lstat(path, &st) == 0 || !stoke_is_absent(errno)) && !stk_sealed(path) && !(*count)++)
            snprintf(first, sizeof first, "%s", path + strlen(folder) + 1);
    }
    if (!r && *count)
        r = stk_fail(
            err, STOKE_E_STATE,
            "%s: %s is not as synth wrote it%s, so nothing is written: name a new folder, or replace "
            "%s with `force`",
            folder, first, *count > 1 ? " (nor are others)" : "", *count > 1 ? "them" : "it");
    stk_free(path);
    return r;
}

/* `force` marks nothing: what else is in the folder stays somebody's. */
static int claim(const stoke_synth_params *params, const char *folder, stoke_error *err)
{
    static const stk_ours_kind kind = {
        .name = "synthetic set",
        .line = "Scenes drawn by `stoke synth`, which replaces its own pictures when it is run again.",
    };
    int unwritable, r = stk_make_folders(folder, err);
    if (r) return r;
    r = stk_ours_claim(folder, &kind, &unwritable, err);
    if (r == STOKE_E_STATE && params->force) {
        if (err) *err = (stoke_error){ 0 };
        return STOKE_OK;
    }
    if (!r && unwritable) r = stk_fail_errno(err, STOKE_E_IO, unwritable, "%s: cannot write", folder);
    return r;
}

static int make_folder(const char *folder, const char *name, char *path, size_t room, stoke_error *err)
{
    snprintf(path, room, "%s/%s", folder, name);
    return stk_make_folders(path, err);
}

int stoke_synth_write(const stoke_synth_params *params, const char *folder, unsigned threads,
                      stoke_progress_fn progress, void *context, stoke_error *err)
{
    int status = stk_synth_check(params, err);
    if (status) return status;
    job j = { .params = params, .folder = folder, .path_room = strlen(folder) + PATH_EXTRA };
    char *path = stk_alloc(j.path_room);
    if (!path) return stk_fail(err, STOKE_E_NOMEM, "out of memory");
    if (params->count) status = plan_memory(params, &threads, err);
    if (!status) status = claim(params, folder, err);
    uint64_t others;
    if (!status && !params->force)
        status = stoke_synth_others(params, folder, progress, context, &others, err);
    if (!status) status = make_folder(folder, "images", path, j.path_room, err);
    if (!status) status = make_folder(folder, "masks", path, j.path_room, err);
    stk_free(path);
    if (status || !params->count) return status;
    pthread_mutex_init(&j.lock, NULL);
    pthread_cond_init(&j.moved, NULL);
    status = run(&j, threads, progress, context, err);
    pthread_cond_destroy(&j.moved);
    pthread_mutex_destroy(&j.lock);
    return status;
}
