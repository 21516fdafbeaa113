/* SPDX-License-Identifier: Apache-2.0
 *
 * A picture window by window. Windows come row by row, and only a band of the sums is held: what one row of
 * windows sees, and the line above. Once a row is done, lines above the next row of windows are final: their
 * classes are made and they make room. So a picture takes memory by its width, not by its height: 19 classes,
 * windows of 512, a stride of 4, 4000 pixels wide: 129 lines of 96 KB of sums and 4 MB of classes.
 */
#include "src/train/predict.h"

#include <math.h>
#include <string.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/net/ops/ops.h"
#include "src/pix/pix_table.h"
#include <stoke/tools/image.h>
#include <stoke/tools/machine.h>
#include <stoke/tools/net.h>

/* ---- rows through the network ---- */

uint32_t stk_predict_views(const stoke_predictor *predictor)
{
    return predictor->params.flip ? 2 : 1;
}

void stk_predict_put(stoke_predictor *p, uint32_t item, const stoke_image *pixels)
{
    const uint32_t views = stk_predict_views(p);
    const size_t row = 3 * (size_t)p->height * p->width;
    for (uint32_t view = 0; view < views; view++)
        stk_write_image(&p->writer, pixels, p->rows + (item * views + view) * row, p->width, p->height, 0, 0,
                        view ? STK_MIRROR_H : 0);
}

int stk_predict_pass(stoke_predictor *p, uint32_t items, stoke_logits *logits, stoke_error *err)
{
    const stoke_net_batch batch = { .count = items * stk_predict_views(p),
                                    .images = p->rows,
                                    .layout = STOKE_LAYOUT_CHW,
                                    .image_row_floats = 3 * (size_t)p->height * p->width };
    return stoke_net_forward(p->net, &batch, logits, err);
}

/* ---- two views of one thing ---- */

/* log(exp(a) + exp(b)) without overflow. */
static float log_add(float a, float b)
{
    const float most = a > b ? a : b, least = a > b ? b : a;
    return most + log1pf(expf(least - most));
}

/* log of the sum of exp of all. */
static float log_sum(const float *logits, uint32_t classes)
{
    float most = logits[0], sum = 0;
    for (uint32_t k = 1; k < classes; k++) most = logits[k] > most ? logits[k] : most;
    for (uint32_t k = 0; k < classes; k++) sum += expf(logits[k] - most);
    return most + logf(sum);
}

static float log_sigmoid(float z)
{
    return (z < 0 ? z : 0) - log1pf(expf(-fabsf(z)));
}

/* The log of the mean of both views' probabilities, up to a constant; of one class its logit. Differences of
 * large numbers do not occur: a class that both views hold impossible stays as unlikely as they say. */
static void merge(const stoke_predictor *p, const float *own, const float *mirrored, float *merged)
{
    if (p->classes == 1) {
        merged[0] = log_add(log_sigmoid(own[0]), log_sigmoid(mirrored[0])) -
                    log_add(log_sigmoid(-own[0]), log_sigmoid(-mirrored[0]));
        return;
    }
    const float own_sum = log_sum(own, p->classes), mirrored_sum = log_sum(mirrored, p->classes);
    for (uint32_t k = 0; k < p->classes; k++)
        merged[k] = log_add(own[k] - own_sum, mirrored[p->swap ? p->swap[k] : k] - mirrored_sum);
}

/* ---- sums ---- */

typedef struct adding {
    const stoke_predictor *predictor;
    const stoke_logits *logits;
    const stk_predict_sums *sums;
    const uint32_t *columns;
    uint32_t items;
    float *merged; /* an element per thread */
} adding;

/* One line of all items, in their order: so overlapping items are added the same way by any threads. */
static void add_line(const void *context, uint32_t line, uint32_t thread)
{
    const adding *a = context;
    const stoke_predictor *p = a->predictor;
    const stk_predict_sums *sums = a->sums;
    const size_t stride = a->logits->stride, row = a->logits->width * stride;
    const size_t picture = a->logits->height * row;
    const uint32_t views = stk_predict_views(p);
    float *merged = a->merged + thread * stride;
    for (uint32_t item = 0; item < a->items; item++) {
        const float *own = a->logits->data + item * views * picture + line * row;
        float *to = sums->data + ((size_t)line * sums->width + a->columns[item]) * stride;
        for (uint32_t x = 0; x < a->logits->width; x++, to += stride) {
            const float *from = own + x * stride;
            const float share = sums->across ? sums->across[a->columns[item] + x] * sums->down[line] : 1.0f;
            if (views == 2) {
                merge(p, from, own + picture + row - (x + 1) * stride, merged);
                from = merged;
            }
            for (uint32_t k = 0; k < p->classes; k++) to[k] += share * from[k];
        }
    }
}

void stk_predict_add(stoke_predictor *p, const stoke_logits *logits, uint32_t items, const uint32_t *columns,
                     const stk_predict_sums *sums)
{
    const adding a = { p, logits, sums, columns, items, p->merged.data };
    stoke_net_run(p->net, add_line, &a, logits->height);
}

/* ---- from the grid to classes ---- */

/* From the grid of the logits to classes at the picture's size: the function that gives stoke_net_predict its
 * classes interpolates to any size, so both agree to the bit where sizes do. */

const uint16_t *stk_grid_classes(stoke_predictor *p, const stk_predict_grid *grid, uint32_t width,
                                 uint32_t height, stoke_error *err)
{
    const stoke_logits logits = { grid->data, grid->height, grid->width, p->classes, p->stride };
    uint16_t *labels = stk_buffer_reserve(&p->labels, stoke_image_bytes(width, height, 1, 2));
    void *taps = stk_buffer_reserve(&p->taps, stoke_net_class_room(&logits, height, width));
    if (!labels || !taps) {
        stk_fail(err, STOKE_E_NOMEM, "no memory for the classes of %u x %u pixels", width, height);
        return NULL;
    }
    stoke_net_classes_of(p->net, &logits, height, width, taps, labels);
    return labels;
}

void stk_grid_copy(const uint16_t *classes, size_t stride, uint32_t lines, const stoke_image *mask,
                   uint32_t first)
{
    for (uint32_t y = 0; y < lines; y++) {
        const uint16_t *from = classes + y * stride;
        uint8_t *to = (uint8_t *)mask->data + (first + (size_t)y) * mask->stride;
        if (mask->depth == 2)
            memcpy(to, from, (size_t)mask->width * 2);
        else
            for (uint32_t x = 0; x < mask->width; x++) to[x] = (uint8_t)from[x];
    }
}

typedef struct sureness {
    const stoke_predictor *predictor;
    const stk_predict_grid *grid;
    uint32_t columns;
    double *sums; /* one per line: added up in order */
} sureness;

/* Probability of the winner: 1 / sum of exp(logit - the largest). */
static double winner(const float *logits, uint32_t classes)
{
    float most = logits[0], sum = 0;
    if (classes == 1) return 1 / (1 + expf(-fabsf(logits[0])));
    for (uint32_t k = 1; k < classes; k++) most = logits[k] > most ? logits[k] : most;
    for (uint32_t k = 0; k < classes; k++) sum += expf(logits[k] - most);
    return 1 / sum;
}

static void sum_line(const void *context, uint32_t line, uint32_t thread)
{
    (void)thread;
    const sureness *s = context;
    const float *element = s->grid->data + (size_t)line * s->grid->width * s->predictor->stride;
    double sum = 0;
    for (uint32_t x = 0; x < s->columns; x++, element += s->predictor->stride)
        sum += winner(element, s->predictor->classes);
    s->sums[line] = sum;
}

double stk_grid_confidence(stoke_predictor *p, const stk_predict_grid *grid, uint32_t lines, uint32_t columns)
{
    double *sums = stk_buffer_reserve(&p->lines, lines * sizeof *sums);
    if (!sums) return NAN;
    const sureness s = { p, grid, columns, sums };
    stoke_net_run(p->net, sum_line, &s, lines);
    double sum = 0;
    for (uint32_t i = 0; i < lines; i++) sum += sums[i];
    return sum;
}

/* ---- windows ---- */

/* A network halves its maps as often as side_multiple says, and what it sees of a window depends on where in
 * it the halving begins: two windows agree most where they overlap when they begin at multiples of it. */
stk_predict_raster stk_predict_raster_of(const stoke_net_plan *net)
{
    return (stk_predict_raster){ net->stride, (uint32_t)stk_most(net->stride, net->side_multiple) };
}

stk_predict_windows stk_windows_of(uint32_t side, uint32_t window, stk_predict_raster raster, double overlap)
{
    const uint32_t unit = raster.unit;
    stk_predict_windows w = { .raster = raster, .window = window, .length = (side + unit - 1) / unit * unit };
    if (w.length < window) w.length = window;
    w.step = (uint32_t)(window * (1 - overlap)) / unit * unit;
    if (w.step < unit) w.step = unit;
    w.count = (w.length - window + w.step - 1) / w.step + 1;
    return w;
}

/* The last one ends where the side ends. */
static uint32_t windows_start(const stk_predict_windows *windows, uint32_t index)
{
    const uint32_t last = windows->length - windows->window;
    return (uint64_t)index * windows->step < last ? index * windows->step : last;
}

/* Elements of the grid. */
static uint32_t windows_columns(const stk_predict_windows *windows)
{
    return windows->length / windows->raster.stride;
}

/* shares[i] = 1 / the number of windows that see element i of the grid. */
static void windows_shares(const stk_predict_windows *windows, float *shares)
{
    const uint32_t columns = windows_columns(windows), stride = windows->raster.stride;
    memset(shares, 0, columns * sizeof *shares);
    for (uint32_t i = 0; i < windows->count; i++) {
        float *first = shares + windows_start(windows, i) / stride;
        for (uint32_t k = 0; k < windows->window / stride; k++) first[k] += 1;
    }
    for (uint32_t i = 0; i < columns; i++) shares[i] = 1 / shares[i];
}

int stk_predict_window(const stoke_image *image, uint32_t x, uint32_t y, uint32_t width, uint32_t height,
                       stk_mem_buffer *room, stoke_image *pixels, stoke_error *err)
{
    const size_t pixel = (size_t)image->channels * image->depth;
    *pixels = *image;
    pixels->width = width;
    pixels->height = height;
    if (x + width <= image->width && y + height <= image->height) {
        pixels->data = (uint8_t *)image->data + y * image->stride + x * pixel;
        return STOKE_OK;
    }
    pixels->stride = width * pixel;
    pixels->data = stk_buffer_reserve(room, pixels->stride * height);
    if (!pixels->data)
        return stk_fail(err, STOKE_E_NOMEM, "no memory for a window of %u x %u pixels", width, height);
    const uint32_t inside = image->width - x < width ? image->width - x : width;
    for (uint32_t row = 0; row < height; row++) {
        const uint8_t *from =
            (const uint8_t *)image->data + stk_reflect((int64_t)y + row, image->height) * image->stride;
        uint8_t *to = (uint8_t *)pixels->data + row * pixels->stride;
        memcpy(to, from + x * pixel, inside * pixel);
        for (uint32_t i = inside; i < width; i++)
            memcpy(to + i * pixel, from + stk_reflect((int64_t)x + i, image->width) * pixel, pixel);
    }
    return STOKE_OK;
}

/* ---- sliding ---- */

enum { NOT_ASKED = 64 << 20 /* bytes that are there: no need to look into /proc for every picture */ };

/* The band while it goes down the picture. Lines are those of the grid. */
typedef struct band {
    stoke_predictor *predictor;
    const stoke_image *image, *truth, *mask; /* truth NULL: no loss */
    stk_predict_windows across, down;
    float *sums;
    const float *across_shares, *down_shares;
    size_t line;    /* floats of a line */
    uint32_t first; /* line that `sums` begins with */
    uint32_t lines; /* it has room for */
    uint32_t sure;  /* lines whose confidence is in the sum */
    double confidence;
    double loss;      /* of windows, times the pixels that count in each */
    uint64_t counted; /* those pixels */
    stoke_progress_fn progress;
    void *context;
    uint64_t done; /* windows */
    stoke_error *err;
} band;

static uint64_t all_windows(const band *b)
{
    return (uint64_t)b->across.count * b->down.count;
}

/* Elements of the grid that pixels lie in. */
static uint32_t grid_of(uint32_t pixels, uint32_t stride)
{
    return (pixels + stride - 1) / stride;
}

uint64_t stk_slide_band(const stk_predict_windows *across, uint32_t height, uint32_t classes)
{
    const uint32_t stride = across->raster.stride;
    const uint64_t lines = height / stride + 1;
    return lines * windows_columns(across) * stk_logits_stride(classes) * sizeof(float) +
           lines * stride * across->length * sizeof(uint16_t);
}

uint64_t stk_slide_bytes(const stoke_predictor *p, uint32_t width, uint32_t height, uint64_t *windows)
{
    const stk_predict_windows across = stk_windows_of(width, p->width, p->raster, p->params.overlap);
    const stk_predict_windows down = stk_windows_of(height, p->height, p->raster, p->params.overlap);
    *windows = (uint64_t)across.count * down.count;
    return stk_slide_band(&across, p->height, p->classes);
}

uint64_t stk_slide_windows(uint32_t width, uint32_t height, uint32_t window_width, uint32_t window_height,
                           stk_predict_raster raster)
{
    const double overlap = stoke_predict_defaults().overlap;
    return (uint64_t)stk_windows_of(width, window_width, raster, overlap).count *
           stk_windows_of(height, window_height, raster, overlap).count;
}

/* What a band takes grows with the width alone: 16 million pixels by 1 are 48 MB, and 330 GB of sums with 150
 * classes and windows of 512. Linux would promise them and kill us when we touch them, so it is asked. */
static int check_memory(const band *b)
{
    const stoke_predictor *p = b->predictor;
    uint64_t windows;
    const uint64_t need = stk_slide_bytes(p, b->image->width, b->image->height, &windows);
    const uint64_t held = p->sums.capacity + p->labels.capacity;
    const uint64_t available = need > NOT_ASKED ? stoke_machine_available() : UINT64_MAX;
    if (need <= held || need - held <= available) return STOKE_OK;
    return stk_fail(
        b->err, STOKE_E_LIMIT,
        "windows over a picture of %u x %u take %.1f GiB, and %.1f GiB are available: mode resize, "
        "or parts of the picture, take less",
        b->image->width, b->image->height, STK_GIB(need), STK_GIB(available));
}

static int reserve(band *b)
{
    stoke_predictor *p = b->predictor;
    const int status = check_memory(b);
    if (status) return status;
    const size_t columns = windows_columns(&b->across), rows = windows_columns(&b->down);
    float *shares = stk_buffer_reserve(&p->shares, (columns + rows) * sizeof *shares);
    b->line = columns * p->stride;
    b->lines = p->height / p->raster.stride + 1;
    const size_t bytes = b->lines * b->line * sizeof *b->sums;
    b->sums = stk_buffer_reserve(&p->sums, bytes);
    if (!shares || !b->sums)
        return stk_fail(b->err, STOKE_E_NOMEM, "no memory for the logits of a picture %u pixels wide",
                        b->image->width);
    memset(b->sums, 0, bytes);
    windows_shares(&b->across, shares);
    windows_shares(&b->down, shares + columns);
    b->across_shares = shares;
    b->down_shares = shares + columns;
    return STOKE_OK;
}

/* ---- the loss ---- */

/* The mask of a window, its lines close together; returns how many of its pixels count. */
static uint64_t pack_truth(const band *b, const stoke_image *window, void *packed)
{
    const int64_t ignored = stoke_net_params_used(b->predictor->net)->loss.ignore_index;
    const size_t line = (size_t)window->width * window->depth;
    uint64_t counted = 0;
    for (uint32_t y = 0; y < window->height; y++) {
        const void *from = (const uint8_t *)window->data + y * window->stride;
        memcpy((uint8_t *)packed + y * line, from, line);
        for (uint32_t x = 0; x < window->width; x++)
            counted +=
                (window->depth == 1 ? ((const uint8_t *)from)[x] : ((const uint16_t *)from)[x]) != ignored;
    }
    return counted;
}

/* As training measures it: window by window, with what continues the picture; so it does not depend on how
 * many windows share a pass. `item` of the pass has its corner at x, y. */
static int add_loss(band *b, uint32_t item, uint32_t x, uint32_t y)
{
    stoke_predictor *p = b->predictor;
    const size_t pixels = (size_t)p->width * p->height;
    stoke_image window;
    double loss = 0;
    int status = stk_predict_window(b->truth, x, y, p->width, p->height, &p->window, &window, b->err);
    void *packed = stk_buffer_reserve(&p->truth, pixels * b->truth->depth);
    if (!status && !packed) status = stk_fail(b->err, STOKE_E_NOMEM, "no memory for the mask of a window");
    if (status) return status;
    const stoke_dtype type = b->truth->depth == 1 ? STOKE_DTYPE_U8 : STOKE_DTYPE_U16;
    const uint64_t counted = pack_truth(b, &window, packed);
    if (counted)
        status = stoke_net_item_loss(p->net, item * stk_predict_views(p), packed, type, &loss, b->err);
    b->loss += loss * (double)counted;
    b->counted += counted;
    return status;
}

/* ---- rows of windows ---- */

/* All windows of one row. */
static int add_row(band *b, uint32_t y)
{
    stoke_predictor *p = b->predictor;
    const uint32_t stride = p->raster.stride, top = y / stride, most = p->batch / stk_predict_views(p);
    const stk_predict_sums sums = { b->sums + (top - b->first) * b->line, windows_columns(&b->across),
                                    b->across_shares, b->down_shares + top };
    for (uint32_t i = 0, n; i < b->across.count; i += n) {
        uint32_t columns[STK_PREDICT_BATCH];
        stoke_logits logits;
        int status = STOKE_OK;
        for (n = 0; !status && n < most && i + n < b->across.count; n++) {
            const uint32_t x = windows_start(&b->across, i + n);
            stoke_image pixels;
            status = stk_predict_window(b->image, x, y, p->width, p->height, &p->window, &pixels, b->err);
            if (!status) stk_predict_put(p, n, &pixels);
            columns[n] = x / stride;
        }
        if (!status) status = stk_predict_pass(p, n, &logits, b->err);
        for (uint32_t k = 0; !status && b->truth && k < n; k++)
            status = add_loss(b, k, columns[k] * stride, y);
        if (status) return status;
        stk_predict_add(p, &logits, n, columns, &sums);
        b->done += n;
        if (b->progress && b->progress(b->context, b->done, all_windows(b)))
            return stk_fail(b->err, STOKE_E_CANCELLED, "stopped on request");
    }
    return STOKE_OK;
}

static void sum_confidence(band *b, uint32_t end)
{
    const uint32_t stride = b->across.raster.stride, seen = grid_of(b->image->height, stride);
    const uint32_t lines = (end < seen ? end : seen) - b->sure;
    if (!lines) return;
    const stk_predict_grid grid = { b->sums + (b->sure - b->first) * b->line, lines,
                                    windows_columns(&b->across) };
    b->confidence += stk_grid_confidence(b->predictor, &grid, lines, grid_of(b->image->width, stride));
    b->sure += lines;
}

/* Lines below `end` are final. Pixels lie around their line, half of them above it and half below: those
 * below the last final one wait for the next. The picture's first and last lie beyond the grid. With stride 1
 * a pixel is its line, and none waits. */
static int finish(band *b, uint32_t end)
{
    const uint32_t stride = b->across.raster.stride, half = stride / 2;
    const uint32_t all = windows_columns(&b->down), lines = end - b->first;
    const stk_predict_grid grid = { b->sums, lines, windows_columns(&b->across) };
    const uint32_t skip = b->first ? stride - half : 0, keep = end < all ? half : 0;
    const uint32_t first = b->first * stride + skip;
    uint32_t count = lines * stride - skip - keep;
    if (b->predictor->params.confidence) sum_confidence(b, end);
    if (first >= b->mask->height) return STOKE_OK; /* what continues the picture */
    if (count > b->mask->height - first) count = b->mask->height - first;
    const uint16_t *classes = stk_grid_classes(b->predictor, &grid, b->across.length, lines * stride, b->err);
    if (!classes) return STOKE_E_NOMEM;
    stk_grid_copy(classes + (size_t)skip * b->across.length, b->across.length, count, b->mask, first);
    return STOKE_OK;
}

/* The line before `end` stays, and what windows have added below it. */
static void roll(band *b, uint32_t end)
{
    const size_t gone = end - 1 - b->first;
    memmove(b->sums, b->sums + gone * b->line, (b->lines - gone) * b->line * sizeof *b->sums);
    memset(b->sums + (b->lines - gone) * b->line, 0, gone * b->line * sizeof *b->sums);
    b->first = end - 1;
}

int stk_slide(stoke_predictor *p, const stoke_image *image, const stoke_image *truth, const stoke_image *mask,
              stoke_prediction *about, stoke_progress_fn progress, void *context, stoke_error *err)
{
    band b = { .predictor = p,
               .image = image,
               .truth = truth,
               .mask = mask,
               .across = stk_windows_of(image->width, p->width, p->raster, p->params.overlap),
               .down = stk_windows_of(image->height, p->height, p->raster, p->params.overlap),
               .progress = progress,
               .context = context,
               .err = err };
    int status = reserve(&b);
    for (uint32_t row = 0; !status && row < b.down.count; row++) {
        const int last = row + 1 == b.down.count;
        const uint32_t end = (last ? b.down.length : windows_start(&b.down, row + 1)) / p->raster.stride;
        status = add_row(&b, windows_start(&b.down, row));
        if (!status) status = finish(&b, end);
        if (!status && !last) roll(&b, end);
    }
    *about = (stoke_prediction){ .mode = STOKE_PREDICT_SLIDE,
                                 .windows = all_windows(&b),
                                 .confidence = NAN,
                                 .loss = b.counted ? b.loss / (double)b.counted : NAN };
    if (p->params.confidence)
        about->confidence =
            b.confidence / grid_of(image->width, p->raster.stride) / grid_of(image->height, p->raster.stride);
    return status;
}
