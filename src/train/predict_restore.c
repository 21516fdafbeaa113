/* SPDX-License-Identifier: Apache-2.0
 *
 * A picture restored, tile by tile.
 *
 * Where plan.reach says how far an output looks (r pixels), neighbouring tiles overlap by 2r and each gives
 * only what lies r inside of it: what it sees is the picture, and the border of a tile is the picture's
 * wherever the network pads. So the result is that of one pass over the whole picture, to rounding: a
 * convolution computes blocks of 4x4 pixels together, and what cancels in a sum depends on all that its block
 * sees. (Tiles that begin at multiples of 4 and overlap by 8r would have the same bits: 40 % more work in
 * tiles of 512 with 4 blocks, 8 % as it is.)
 *
 * A picture smaller than a tile is a tile of its own: the network changes its size for it
 * (stoke_net_resize), which costs no more than recording some twenty operations, and no memory. Other ways
 * would not be exact: zeros around a small picture are no border to any layer but the first, whose bias they
 * become; and its mirror image is no zeros.
 *
 * Where an output may look anywhere (reach 0: a U-Net halves its maps), tiles overlap by a quarter and are
 * blended into each other across it, linearly.
 */
#include "src/train/predict.h"

#include <math.h>
#include <string.h>

#include "src/base/error.h"
#include "src/net/network.h"
#include <stoke/tools/image.h>
#include <stoke/tools/machine.h>
#include <stoke/tools/net.h>

enum { USUAL_TILE = 512, LEAST_GIVEN = 8 /* pixels across, of the smallest tile */ };

/* ---- tiles along one side ---- */

typedef struct tiles {
    uint32_t tile, count;
    uint32_t length; /* of the side, continued to what tiles can end at */
    uint32_t unit;   /* they begin at multiples of it */
    uint32_t reach;  /* 0: they are blended */
} tiles;

/* One pass over the whole picture can be had: it may have any size, and tiles know what they need to see. */
static int is_exact(const stoke_net_plan *net)
{
    return net->reach && net->side_multiple == 1;
}

/* Any side is as fast (1.5 s of processor time for 1920x1080 and 4 blocks of 32 channels, from 128 to 1024):
 * small tiles stay in the cache, and large ones see less twice. Of 8 times the reach, tiles see up to 78 %
 * more than they give. */
uint32_t stk_restore_tile(const stoke_net_plan *net)
{
    const uint32_t tile = (uint32_t)stk_most(USUAL_TILE, 8 * (uint64_t)net->reach);
    return (uint32_t)stk_least((tile + net->side_multiple - 1) / net->side_multiple * net->side_multiple,
                               STK_NET_SIDE_MAX);
}

uint32_t stk_restore_least(const stoke_net_plan *net)
{
    return is_exact(net) ? 2 * net->reach + LEAST_GIVEN : 4 * net->side_multiple;
}

/* As few as there can be of `most` pixels. */
static tiles tiles_of(uint32_t side, uint32_t most, const stoke_net_plan *net)
{
    const uint32_t unit = net->side_multiple;
    tiles t = { .unit = unit, .reach = is_exact(net) ? net->reach : 0 };
    t.length = (side + unit - 1) / unit * unit;
    t.tile = (uint32_t)stk_least(t.length, most / unit * unit);
    const uint32_t overlap = t.reach ? 2 * t.reach : t.tile / 4 / unit * unit;
    const uint32_t step = t.tile > overlap ? t.tile - overlap : t.tile; /* one tile does in that case */
    t.count = (t.length - t.tile + step - 1) / step + 1;
    /* No larger than so many tiles need be: of 1080 lines 3 tiles of 374 see 1122, and 3 of 512 would see
     * 1536.
     */
    const uint64_t seen = t.length + (t.count - 1) * (uint64_t)overlap;
    t.tile = (uint32_t)((seen + (uint64_t)t.count * unit - 1) / t.count / unit * unit);
    return t;
}

/* Evenly, so that never more than two are blended. */
static uint32_t start_of(const tiles *t, uint32_t index)
{
    if (t->count == 1) return 0;
    const uint64_t units = (t->length - t->tile) / t->unit;
    return (uint32_t)(units * index / (t->count - 1)) * t->unit;
}

/* From tile `index` to the next: the pixel where it begins, and how many it takes. */
static uint32_t seam_of(const tiles *t, uint32_t index, uint32_t *pixels)
{
    const uint32_t next = start_of(t, index + 1), end = start_of(t, index) + t->tile;
    *pixels = 0;
    if (t->reach) return next + t->reach;
    *pixels = (uint32_t)stk_least(end - next, t->tile / 4);
    return next + (end - next - *pixels) / 2;
}

/* What a tile gives along one side, in pixels of the picture: all of first .. end; seams with the tiles
 * before and behind lie in it. */
typedef struct share {
    uint32_t start, first, end;
    uint32_t before, behind; /* pixels of the seams */
} share;

static share share_of(const tiles *t, uint32_t index)
{
    share s = { .start = start_of(t, index), .first = 0, .end = t->length };
    if (index) s.first = seam_of(t, index - 1, &s.before);
    if (index + 1 < t->count) {
        s.end = seam_of(t, index, &s.behind);
        s.end += s.behind;
    }
    return s;
}

/* Of output pixel `at` (`scale` per pixel), between 0 and 1 across a seam. */
static float weight_at(const share *s, uint32_t scale, uint32_t at)
{
    const uint32_t first = s->first * scale, end = s->end * scale;
    const uint32_t before = s->before * scale, behind = s->behind * scale;
    if (at - first < before) return ((float)(at - first) + 0.5f) / (float)before;
    if (end - at <= behind) return 1 - ((float)(behind - (end - at)) + 0.5f) / (float)behind;
    return 1;
}

/* ---- pixels of the result ---- */

typedef struct restoring {
    stoke_predictor *predictor;
    const stoke_image *image, *restored; /* restored NULL: not wanted */
    float *planes;                       /* NULL: not wanted */
    uint32_t width, height, scale;       /* of the result; of it per pixel of the image */
    tiles across, down;
    float *sums;    /* of tiles that are blended: lines of the row of tiles, [line][column][3]; else NULL */
    uint32_t first; /* line of the result that they begin with */
    float inverse[3], bias[3];
    /* The tile at hand. */
    share column, row;
    stoke_logits output;
} restoring;

/* Halves to even: the sum has no bits below 1. */
static uint8_t byte_of(float value)
{
    const float top = 8388608.0f, v = value > 0 ? (value < 1 ? value * 255 : 255) : 0; /* NaN: 0 */
    return (uint8_t)(v + top - top);
}

static void store(const restoring *r, uint32_t x, uint32_t y, const float value[3])
{
    uint8_t *to = NULL;
    if (r->restored) to = (uint8_t *)r->restored->data + y * r->restored->stride + 3 * (size_t)x;
    for (size_t c = 0; c < 3; c++) {
        if (to) to[c] = byte_of(value[c]);
        if (r->planes) r->planes[(c * r->height + y) * r->width + x] = value[c];
    }
}

/* A line of the tile, counted from the first that it gives. */
static void put_line(const void *context, uint32_t line, uint32_t thread)
{
    (void)thread;
    const restoring *r = context;
    const uint32_t y = r->row.first * r->scale + line, left = r->column.start * r->scale;
    const uint32_t end = (uint32_t)stk_least(r->column.end * r->scale, r->width);
    const stoke_logits *out = &r->output;
    const float *own = out->data + (size_t)(y - r->row.start * r->scale) * out->width * out->stride;
    const float *mirrored = own + (size_t)out->height * out->width * out->stride;
    const int views = (int)stk_predict_views(r->predictor);
    const float down = weight_at(&r->row, r->scale, y);
    float *sum = r->sums ? r->sums + (size_t)(y - r->first) * r->width * 3 : NULL;
    if (y >= r->height) return; /* what continues the picture */
    for (uint32_t x = r->column.first * r->scale; x < end; x++) {
        const float *from = own + (x - left) * out->stride;
        const float *other = mirrored + (out->width - 1 - (x - left)) * out->stride;
        const float weight = sum ? down * weight_at(&r->column, r->scale, x) : 1;
        float value[3];
        for (size_t c = 0; c < 3; c++) {
            const float v = views == 2 ? 0.5f * (from[c] + other[c]) : from[c];
            value[c] = (v - r->bias[c]) * r->inverse[c];
            if (sum) sum[3 * (size_t)x + c] += weight * value[c];
        }
        if (!sum) store(r, x, y, value);
    }
}

/* A line of the sums that is final. */
static void finish_line(const void *context, uint32_t line, uint32_t thread)
{
    (void)thread;
    const restoring *r = context;
    const float *sum = r->sums + (size_t)line * r->width * 3;
    for (uint32_t x = 0; x < r->width; x++) store(r, x, r->first + line, sum + 3 * (size_t)x);
}

/* ---- the way of a tile ---- */

static int run_tile(restoring *r, stoke_error *err)
{
    stoke_predictor *p = r->predictor;
    stoke_image pixels;
    int status = stk_predict_window(r->image, r->column.start, r->row.start, r->across.tile, r->down.tile,
                                    &p->window, &pixels, err);
    if (status) return status;
    const size_t floats = 3 * (size_t)r->across.tile * r->down.tile;
    for (uint32_t view = 0; view < stk_predict_views(p); view++)
        stk_write_image(&p->writer, &pixels, p->rows + view * floats, r->across.tile, r->down.tile, 0, 0,
                        view ? STK_MIRROR_H : 0);
    const stoke_net_batch batch = { .count = stk_predict_views(p),
                                    .images = p->rows,
                                    .layout = STOKE_LAYOUT_CHW,
                                    .image_row_floats = floats };
    status = stoke_net_forward(p->net, &batch, &r->output, err);
    if (!status) stoke_net_run(p->net, put_line, r, (r->row.end - r->row.first) * r->scale);
    return status;
}

/* Lines above `end` are final; the sums begin there then. */
static void finish(restoring *r, uint32_t end)
{
    const uint32_t last = (uint32_t)stk_least(end, r->height), lines = last - r->first;
    const size_t line = 3 * (size_t)r->width, all = (size_t)r->down.tile * r->scale;
    stoke_net_run(r->predictor->net, finish_line, r, lines);
    memmove(r->sums, r->sums + lines * line, (all - lines) * line * sizeof *r->sums);
    memset(r->sums + (all - lines) * line, 0, lines * line * sizeof *r->sums);
    r->first = last;
}

static int run_tiles(restoring *r, stoke_progress_fn progress, void *context, stoke_error *err)
{
    const uint64_t total = (uint64_t)r->across.count * r->down.count;
    uint64_t done = 0;
    for (uint32_t row = 0; row < r->down.count; row++) {
        r->row = share_of(&r->down, row);
        for (uint32_t column = 0; column < r->across.count; column++) {
            r->column = share_of(&r->across, column);
            const int status = run_tile(r, err);
            if (status) return status;
            if (progress && progress(context, ++done, total))
                return stk_fail(err, STOKE_E_CANCELLED, "stopped on request");
        }
        if (r->sums) finish(r, (r->row.end - r->row.behind) * r->scale);
    }
    return STOKE_OK;
}

/* ---- calls ---- */

static uint64_t band_bytes(const stoke_net_plan *net, uint32_t width, const tiles *down)
{
    return is_exact(net) ? 0 : (uint64_t)down->tile * net->scale * width * net->scale * 3 * sizeof(float);
}

uint64_t stk_restore_bytes(const stoke_net_plan *net, const uint32_t most[2], uint32_t width, uint32_t height,
                           uint64_t *count)
{
    const tiles across = tiles_of(width, most[1], net), down = tiles_of(height, most[0], net);
    if (count) *count = (uint64_t)across.count * down.count;
    return band_bytes(net, width, &down);
}

static int check_size(uint32_t width, uint32_t height, uint32_t scale, stoke_error *err)
{
    const uint32_t most = STK_PREDICT_SIDE / scale;
    if (width && height && width <= most && height <= most) return STOKE_OK;
    return stk_fail(err, STOKE_E_LIMIT, "a picture of %u x %u: 1 to %u pixels a side are restored", width,
                    height, most);
}

int stk_restore_check(const stoke_predictor *p, uint32_t width, uint32_t height, const stoke_image *restored,
                      stoke_error *err)
{
    const uint32_t scale = stoke_net_plan_used(p->net)->scale;
    const int status = check_size(width, height, scale, err);
    if (status || !restored) return status;
    if (!restored->data || restored->channels != 3 || restored->depth != 1 ||
        restored->width != width * scale || restored->height != height * scale)
        return stk_fail(err, STOKE_E_SIZE, "what is restored has 3 channels of 1 byte and %u x %u pixels",
                        width * scale, height * scale);
    return STOKE_OK;
}

static int reserve(restoring *r, stoke_error *err)
{
    stoke_predictor *p = r->predictor;
    const uint64_t bytes = band_bytes(stoke_net_plan_used(p->net), r->image->width, &r->down);
    if (!bytes) return STOKE_OK;
    const uint64_t available = bytes > p->sums.capacity ? stoke_machine_available() : UINT64_MAX;
    if (bytes > available)
        return stk_fail(err, STOKE_E_LIMIT,
                        "tiles over a picture of %u x %u take %.1f GiB, and %.1f GiB are available: smaller "
                        "tiles (`size`), or parts of the picture, take less",
                        r->image->width, r->image->height, STK_GIB(bytes), STK_GIB(available));
    r->sums = stk_buffer_reserve(&p->sums, bytes);
    if (!r->sums)
        return stk_fail(err, STOKE_E_NOMEM, "no memory for a row of tiles %u pixels wide", r->width);
    memset(r->sums, 0, bytes);
    return STOKE_OK;
}

int stoke_predictor_restore(stoke_predictor *p, const stoke_image *image, const stoke_image *restored,
                            float *planes, stoke_prediction *about, stoke_progress_fn progress, void *context,
                            stoke_error *err)
{
    const stoke_net_plan *net = stoke_net_plan_used(p->net);
    if (!p->restores)
        return stk_fail(err, STOKE_E_INVALID,
                        "this network labels pictures: masks are what stoke_predictor_run gives");
    int status = stk_predict_check_image(image, err);
    if (!status) status = stk_restore_check(p, image->width, image->height, restored, err);
    if (status) return status;
    restoring r = { .predictor = p,
                    .image = image,
                    .restored = restored,
                    .planes = planes,
                    .width = image->width * net->scale,
                    .height = image->height * net->scale,
                    .scale = net->scale,
                    .across = tiles_of(image->width, p->width, net),
                    .down = tiles_of(image->height, p->height, net) };
    for (int c = 0; c < 3; c++) {
        r.inverse[c] = (float)(1 / p->writer.scale[c]);
        r.bias[c] = (float)p->writer.bias[c];
    }
    status = reserve(&r, err);
    if (!status) status = stoke_net_resize(p->net, r.down.tile, r.across.tile, err);
    if (!status) status = run_tiles(&r, progress, context, err);
    if (about)
        *about = (stoke_prediction){ .mode = STOKE_PREDICT_SLIDE,
                                     .windows = (uint64_t)r.across.count * r.down.count,
                                     .confidence = NAN,
                                     .loss = NAN };
    return status;
}
