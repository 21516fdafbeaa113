/* SPDX-License-Identifier: Apache-2.0
 *
 * A whole set on disk. Threads take the next index each; scene i depends on nothing but i, so the files are
 * the same for any number of threads.
 */
#include <errno.h>
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
#include "src/base/threadpool.h"
#include "src/codec/write.h"
#include "src/synth/synth.h"

enum { THREADS_MAX = 256, PATH_EXTRA = 40 /* what a path has behind its folder */ };

typedef struct set {
    const stoke_synth_params *params;
    const char *folder;
    size_t path_room;
} set;

/* What one thread needs, allocated before its first scene. */
typedef struct desk {
    stoke_image image, other; /* its mask or its target */
    char *path;
} desk;

static stoke_image picture(const stoke_synth_params *p, uint32_t scale, uint8_t channels)
{
    const uint32_t width = p->width / scale, height = p->height / scale;
    const size_t stride = (size_t)width * channels;
    return (stoke_image){ stk_alloc(stride * height), stride, width, height, channels, 1 };
}

static int start(void *context, void *member, stoke_error *err)
{
    const set *whole = context;
    const stoke_synth_params *p = whole->params;
    desk *d = member;
    *d = (desk){ picture(p, p->scale, 3), picture(p, 1, p->restore ? 3 : 1), stk_alloc(whole->path_room) };
    if (d->image.data && d->other.data && d->path) return STOKE_OK;
    return stk_fail(err, STOKE_E_NOMEM, "out of memory for a scene of %u x %u", (unsigned)p->height,
                    (unsigned)p->width);
}

static void finish(void *context, void *member)
{
    desk *d = member;
    (void)context;
    stk_free(d->image.data);
    stk_free(d->other.data);
    stk_free(d->path);
}

/* Pictures to be restored are kept as they are: JPEG would take of their noise and add to it. */
static void name_file(char *path, size_t room, const char *folder, uint64_t index, int restore, int other)
{
    static const char *const parts[2][2] = { { "images", "masks" }, { "images", "targets" } };
    snprintf(path, room, "%s/%s/%06" PRIu64 ".%s", folder, parts[restore != 0][other], index,
             other || restore ? "png" : "jpg");
}

static int write_scene(void *context, void *member, uint64_t index, stoke_error *err)
{
    const set *whole = context;
    desk *d = member;
    const stoke_synth_params *p = whole->params;
    int status = (p->restore ? stoke_synth_draw_pair : stoke_synth_draw)(p, index, &d->image, &d->other, err);
    if (status) return status;
    name_file(d->path, whole->path_room, whole->folder, index, p->restore, 0);
    status = p->restore ? stk_sealed_write_png(d->path, &d->image, err)
                        : stk_sealed_write_jpeg(d->path, &d->image, p->jpeg_quality, err);
    if (status) return status;
    name_file(d->path, whole->path_room, whole->folder, index, p->restore, 1);
    return stk_sealed_write_png(d->path, &d->other, err);
}

/* What a thread holds while it draws and writes: image, mask and shadows by the pixel, rows of renderer and
 * encoders, and what deflates a PNG (0.3 MB) with a stack; of a pair the clean picture softened, too. */
static uint64_t scene_bytes(const stoke_synth_params *p)
{
    enum { ROWS = 160, ENCODER = 1 << 19 };
    const uint64_t pixels = (uint64_t)p->width * p->height, shadows = (pixels + p->width + p->height) / 4 + 1;
    const uint64_t side = p->width < p->height ? p->width : p->height;
    const uint64_t picture = 4 * pixels + shadows + p->width * (ROWS + side / 320) + ENCODER;
    if (!p->restore) return picture;
    return picture + 3 * pixels + 3 * pixels / (p->scale * p->scale); /* softened, and degraded */
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
        name_file(path, room, folder, i / 2, params->restore, i % 2);
        if (i && i % NEWS == 0 && progress && progress(context, 0, params->count))
            r = stk_fail(err, STOKE_E_CANCELLED, "cancelled");
        else if ((stoke_lstat(path, &st) == 0 || !stoke_is_absent(errno)) && !stk_sealed(path) && !(*count)++)
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
    int unwritable, r = stoke_make_folders(folder, err);
    if (r) return r;
    r = stk_ours_claim(folder, &kind, &unwritable, err);
    if (r == STOKE_E_STATE && params->force) {
        if (err) *err = (stoke_error){ 0 };
        return STOKE_OK;
    }
    if (!r && unwritable) r = stk_fail_errno(err, STOKE_E_IO, unwritable, "%s: cannot write", folder);
    return r;
}

/* Pairs of both kinds in one folder would be one set of neither. */
static int check_kind(const stoke_synth_params *params, const char *folder, char *path, size_t room,
                      stoke_error *err)
{
    struct stat st;
    snprintf(path, room, "%s/%s", folder, params->restore ? "masks" : "targets");
    if (stoke_lstat(path, &st) != 0) return STOKE_OK; /* what cannot be asked for is said by who writes */
    return stk_fail(err, STOKE_E_STATE, "%s has a set of the other task (%s): name another folder", folder,
                    path + strlen(folder) + 1);
}

int stoke_synth_write(const stoke_synth_params *params, const char *folder, unsigned threads,
                      stoke_progress_fn progress, void *context, stoke_error *err)
{
    const char *const parts[] = { "images", params->restore ? "targets" : "masks" };
    int status = stk_synth_check(params, err);
    if (status) return status;
    set whole = { params, folder, strlen(folder) + PATH_EXTRA };
    char *path = stk_alloc(whole.path_room);
    if (!path) return stk_fail(err, STOKE_E_NOMEM, "out of memory");
    status = check_kind(params, folder, path, whole.path_room, err);
    if (!status && params->count) status = plan_memory(params, &threads, err);
    if (!status) status = claim(params, folder, err);
    uint64_t others;
    if (!status && !params->force)
        status = stoke_synth_others(params, folder, progress, context, &others, err);
    for (int i = 0; !status && i < 2; i++) {
        snprintf(path, whole.path_room, "%s/%s", folder, parts[i]);
        status = stoke_make_folders(path, err);
    }
    stk_free(path);
    if (status || !params->count) return status;
    const stk_parallel_job job = { params->count, &whole, sizeof(desk), start, write_scene, finish };
    return stk_parallel_for(&job, threads, progress, context, err);
}
