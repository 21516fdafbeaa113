/* SPDX-License-Identifier: Apache-2.0
 *
 * A picture window by window. Windows come row by row, and only a band of the sums is held: what one row of
 * windows sees, and the line above. Once a row is done, lines above the next row of windows are final: their
 * classes are made and they make room. So a picture takes memory by its width, not by its height: 19 classes,
 * windows of 512, 4000 pixels wide: 129 lines of 96 KB of sums and 4 MB of classes.
 */
#include <math.h>
#include <string.h>

#include <stoke/tools/machine.h>

#include "src/base/error.h"
#include "src/net/net.h"
#include "src/train/predict.h"

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

static uint32_t grid_of(uint32_t pixels)
{
    return (pixels + STK_GRID - 1) / STK_GRID;
}

static uint64_t sums_bytes(const stoke_predictor *p, const stk_predict_windows *across)
{
    return (uint64_t)(p->grid_height + 1) * (across->length / STK_GRID) * p->stride * sizeof(float);
}

uint64_t stk_slide_bytes(const stoke_predictor *p, uint32_t width, uint32_t height, uint64_t *windows)
{
    const stk_predict_windows across = stk_windows_of(width, p->width, p->params.overlap);
    const stk_predict_windows down = stk_windows_of(height, p->height, p->params.overlap);
    const uint64_t classes = (uint64_t)(p->grid_height + 1) * STK_GRID * across.length * sizeof(uint16_t);
    *windows = (uint64_t)across.count * down.count;
    return sums_bytes(p, &across) + classes;
}

uint64_t stk_slide_windows(uint32_t width, uint32_t height, uint32_t window_width, uint32_t window_height)
{
    const double overlap = stoke_predict_defaults().overlap;
    return (uint64_t)stk_windows_of(width, window_width, overlap).count *
           stk_windows_of(height, window_height, overlap).count;
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
        "windows over a picture of %u x %u take %.1f GB, and %.1f GB are available: mode resize, or "
        "parts of the picture, take less",
        b->image->width, b->image->height, (double)need * 1e-9, (double)available * 1e-9);
}

static int reserve(band *b)
{
    stoke_predictor *p = b->predictor;
    const int status = check_memory(b);
    if (status) return status;
    const size_t columns = b->across.length / STK_GRID, rows = b->down.length / STK_GRID;
    float *shares = stk_buffer_reserve(&p->shares, (columns + rows) * sizeof *shares);
    b->line = columns * p->stride;
    b->lines = p->grid_height + 1;
    b->sums = stk_buffer_reserve(&p->sums, sums_bytes(p, &b->across));
    if (!shares || !b->sums)
        return stk_fail(b->err, STOKE_E_NOMEM, "no memory for the logits of a picture %u pixels wide",
                        b->image->width);
    memset(b->sums, 0, sums_bytes(p, &b->across));
    stk_windows_shares(&b->across, shares);
    stk_windows_shares(&b->down, shares + columns);
    b->across_shares = shares;
    b->down_shares = shares + columns;
    return STOKE_OK;
}

/* ---- the loss ---- */

/* The mask of a window, its lines close together; returns how many of its pixels count. */
static uint64_t pack_truth(const band *b, const stoke_image *window, void *packed)
{
    const int64_t ignored = b->predictor->net->params.loss.ignore_index;
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
    int status = stk_window_pixels(b->truth, x, y, p->width, p->height, &p->window, &window, b->err);
    void *packed = stk_buffer_reserve(&p->truth, pixels * b->truth->depth);
    if (!status && !packed) status = stk_fail(b->err, STOKE_E_NOMEM, "no memory for the mask of a window");
    if (status) return status;
    const uint64_t counted = pack_truth(b, &window, packed);
    const stk_loss_truth truth = { .masks = packed,
                                   .dtype = b->truth->depth == 1 ? STOKE_DTYPE_U8 : STOKE_DTYPE_U16,
                                   .row_bytes = pixels * b->truth->depth };
    if (counted) status = stk_net_item_loss(p->net, item * stk_predict_views(p), &truth, &loss, b->err);
    b->loss += loss * (double)counted;
    b->counted += counted;
    return status;
}

/* ---- rows of windows ---- */

/* All windows of one row. */
static int add_row(band *b, uint32_t y)
{
    stoke_predictor *p = b->predictor;
    const uint32_t top = y / STK_GRID, most = p->batch / stk_predict_views(p);
    const stk_predict_sums sums = { b->sums + (top - b->first) * b->line, b->across.length / STK_GRID,
                                    b->across_shares, b->down_shares + top };
    for (uint32_t i = 0, n; i < b->across.count; i += n) {
        uint32_t columns[STK_PREDICT_BATCH];
        stoke_logits logits;
        int status = STOKE_OK;
        for (n = 0; !status && n < most && i + n < b->across.count; n++) {
            const uint32_t x = stk_windows_start(&b->across, i + n);
            stoke_image pixels;
            status = stk_window_pixels(b->image, x, y, p->width, p->height, &p->window, &pixels, b->err);
            if (!status) stk_predict_put(p, n, &pixels);
            columns[n] = x / STK_GRID;
        }
        if (!status) status = stk_predict_pass(p, n, &logits, b->err);
        for (uint32_t k = 0; !status && b->truth && k < n; k++)
            status = add_loss(b, k, columns[k] * STK_GRID, y);
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
    const uint32_t seen = grid_of(b->image->height);
    const uint32_t lines = (end < seen ? end : seen) - b->sure;
    if (!lines) return;
    const stk_predict_grid grid = { b->sums + (b->sure - b->first) * b->line, lines,
                                    b->across.length / STK_GRID };
    b->confidence += stk_grid_confidence(b->predictor, &grid, lines, grid_of(b->image->width));
    b->sure += lines;
}

/* Lines below `end` are final. Pixels lie between two lines, 2 above and 2 below each; the first and the last
 * two pixels of the picture beyond the grid. */
static int finish(band *b, uint32_t end)
{
    const uint32_t all = b->down.length / STK_GRID, lines = end - b->first;
    const stk_predict_grid grid = { b->sums, lines, b->across.length / STK_GRID };
    const uint32_t skip = b->first ? STK_GRID / 2 : 0, keep = end < all ? STK_GRID / 2 : 0;
    const uint32_t first = b->first * STK_GRID + skip;
    uint32_t count = lines * STK_GRID - skip - keep;
    if (b->predictor->params.confidence) sum_confidence(b, end);
    if (first >= b->mask->height) return STOKE_OK; /* what continues the picture */
    if (count > b->mask->height - first) count = b->mask->height - first;
    const uint16_t *classes =
        stk_grid_classes(b->predictor, &grid, b->across.length, lines * STK_GRID, b->err);
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
               .across = stk_windows_of(image->width, p->width, p->params.overlap),
               .down = stk_windows_of(image->height, p->height, p->params.overlap),
               .progress = progress,
               .context = context,
               .err = err };
    int status = reserve(&b);
    for (uint32_t row = 0; !status && row < b.down.count; row++) {
        const int last = row + 1 == b.down.count;
        const uint32_t end = (last ? b.down.length : stk_windows_start(&b.down, row + 1)) / STK_GRID;
        status = add_row(&b, stk_windows_start(&b.down, row));
        if (!status) status = finish(&b, end);
        if (!status && !last) roll(&b, end);
    }
    *about = (stoke_prediction){ .mode = STOKE_PREDICT_SLIDE,
                                 .windows = all_windows(&b),
                                 .confidence = NAN,
                                 .loss = b.counted ? b.loss / (double)b.counted : NAN };
    if (p->params.confidence)
        about->confidence = b.confidence / grid_of(image->width) / grid_of(image->height);
    return status;
}
