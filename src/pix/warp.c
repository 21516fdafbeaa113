/* SPDX-License-Identifier: Apache-2.0
 *
 * A row of a warp: which of its pixels lie inside the picture, which touch it, which do not see it. The
 * inside goes to the function table, the rest is done here.
 *
 * For an affine row the three kinds are intervals, found by exact division: one pixel too many in the inner
 * one would be a read outside the picture. An elastic row is cut into runs pixel by pixel.
 */
#include "src/pix/warp.h"

#include <string.h>

#include "src/pix/pix_table.h"

int stk_warp_begin(stk_pix_warper *warper, const stoke_augment_plan *plan, uint32_t out_width,
                   uint32_t out_height, stoke_error *err)
{
    warper->plan = plan;
    warper->width = out_width;
    warper->height = out_height;
    warper->columns = warper->rows = 0;
    warper->shift_row = 0;
    if (plan->elastic_alpha == 0 || !out_width || !out_height) return STOKE_OK;
    return stk_elastic_begin(warper, err);
}

void stk_warper_free(stk_pix_warper *warper)
{
    stk_buffer_free(&warper->control);
    stk_buffer_free(&warper->shift);
    *warper = (stk_pix_warper){ 0 };
}

uint64_t stk_warper_memory(const stk_pix_warper *warper)
{
    return (uint64_t)warper->control.capacity + warper->shift.capacity;
}

/* ---- where a row lies ---- */

static stk_pix_warp_line line_of(stk_pix_warper *w, uint32_t y)
{
    const int64_t *m = w->plan->matrix;
    stk_pix_warp_line line = { .x = (uint64_t)m[1] * y + (uint64_t)m[2],
                               .y = (uint64_t)m[4] * y + (uint64_t)m[5],
                               .dx = (uint64_t)m[0],
                               .dy = (uint64_t)m[3] };
    if (w->columns) {
        stk_elastic_row(w, y);
        line.shift_x = w->shift.data;
        line.shift_y = line.shift_x + w->width;
    }
    return line;
}

/* Columns begin <= j < end. */
typedef struct span {
    uint32_t begin, end;
} span;

/* Those of `n` columns for which low <= start + j * step < high, as long as the coordinate does not run over
 * the end of 64 bits on its way. Exact: the distance of two int64 fits uint64. */
static span columns_within(int64_t start, int64_t step, uint32_t n, int64_t low, int64_t high)
{
    if (low >= high) return (span){ 0, 0 };
    uint64_t begin = 0, end = 0;
    if (step == 0) {
        end = start >= low && start < high ? n : 0;
    } else if (step > 0) {
        const uint64_t s = (uint64_t)step;
        if (start < low) begin = ((uint64_t)low - (uint64_t)start - 1) / s + 1;
        if (start < high) end = ((uint64_t)high - (uint64_t)start - 1) / s + 1;
    } else {
        const uint64_t s = -(uint64_t)step;
        if (start >= high) begin = ((uint64_t)start - (uint64_t)high) / s + 1;
        if (start >= low) end = ((uint64_t)start - (uint64_t)low) / s + 1;
    }
    if (end > n) end = n;
    if (begin > end) begin = end;
    return (span){ (uint32_t)begin, (uint32_t)end };
}

static span both(span a, span b)
{
    const uint32_t begin = a.begin > b.begin ? a.begin : b.begin, end = a.end < b.end ? a.end : b.end;
    return begin < end ? (span){ begin, end } : (span){ begin, begin };
}

static int runs_over(int64_t start, int64_t step, uint32_t n)
{
    int64_t way, last;
    return __builtin_mul_overflow(step, (int64_t)n - 1, &way) || __builtin_add_overflow(start, way, &last);
}

/* ---- a row, whatever it is made of ---- */

/* A kind of picture: what the three kinds of pixels need. */
typedef struct kind {
    const stoke_image *src;
    stk_warp_fn *inside;
    void (*border)(const struct kind *kind, void *dst, const stk_pix_warp_line *line, size_t n);
    uint64_t half;    /* added to coordinates */
    uint32_t over;    /* taps after the first one, in each direction: image 1, mask 0 */
    uint32_t slack;   /* columns that `inside` may read after the last tap */
    uint32_t apart;   /* columns from one prefetch to the next, a power of two */
    size_t pixel;     /* bytes */
    uint16_t fill[3]; /* samples; u8 pictures use the low byte */
} kind;

/* The rest of a line after `n` pixels. */
static stk_pix_warp_line line_after(const stk_pix_warp_line *line, size_t n)
{
    return (stk_pix_warp_line){ .x = line->x + n * line->dx,
                                .y = line->y + n * line->dy,
                                .dx = line->dx,
                                .dy = line->dy,
                                .shift_x = line->shift_x ? line->shift_x + n : NULL,
                                .shift_y = line->shift_y ? line->shift_y + n : NULL };
}

static void do_inside(const kind *k, uint8_t *row, const stk_pix_warp_line *line, span s)
{
    if (s.begin == s.end) return;
    const stk_pix_warp_line part = line_after(line, s.begin);
    k->inside(row + s.begin * k->pixel, k->src->data, k->src->stride, &part, s.end - s.begin);
}

static void do_border(const kind *k, uint8_t *row, const stk_pix_warp_line *line, span s)
{
    if (s.begin == s.end) return;
    const stk_pix_warp_line part = line_after(line, s.begin);
    k->border(k, row + s.begin * k->pixel, &part, s.end - s.begin);
}

static void do_fill(const kind *k, uint8_t *row, span s)
{
    uint8_t pixel[6];
    for (size_t i = 0; i < k->pixel / k->src->depth; i++) {
        if (k->src->depth == 1)
            pixel[i] = (uint8_t)k->fill[i];
        else
            memcpy(pixel + 2 * i, &k->fill[i], 2);
    }
    int even = 1;
    for (size_t i = 1; i < k->pixel; i++) even &= pixel[i] == pixel[0];
    if (even) /* black, white, grey and ignored are the usual fills */
        memset(row + s.begin * k->pixel, pixel[0], (s.end - s.begin) * k->pixel);
    else
        for (uint32_t j = s.begin; j < s.end; j++) memcpy(row + j * k->pixel, pixel, k->pixel);
}

/* An elastic row, or the part of it that may or may not be inside: pixel by pixel, in runs of the same kind.
 */
static void do_runs(const kind *k, uint8_t *row, const stk_pix_warp_line *line, span s)
{
    const uint32_t less = k->over + k->slack;
    const uint32_t width = k->src->width > less ? k->src->width - less : 0,
                   height = k->src->height > k->over ? k->src->height - k->over : 0;
    span run = { s.begin, s.begin };
    int run_inside = 1;
    for (uint32_t j = s.begin; j < s.end; j++) {
        const int inside = (uint32_t)((stk_warp_x(line, j) + k->half) >> 32) < width &&
                           (uint32_t)((stk_warp_y(line, j) + k->half) >> 32) < height;
        if (inside != run_inside) {
            (run_inside ? do_inside : do_border)(k, row, line, run);
            run = (span){ j, j };
            run_inside = inside;
        }
        run.end = j + 1;
    }
    (run_inside ? do_inside : do_border)(k, row, line, run);
}

/* `most` is the largest displacement, 32.32: within that of the inner interval's ends pixels may be of any
 * kind. */
static void do_row(const kind *k, const stk_pix_warp_line *line, uint32_t n, int64_t most, uint8_t *row)
{
    enum { LARGEST = 1 << 30 }; /* beyond, the sums below might run over */
    const int64_t one = INT64_C(1) << 32, width = k->src->width, height = k->src->height;
    const int64_t x = (int64_t)(line->x + k->half), y = (int64_t)(line->y + k->half);
    const int64_t dx = (int64_t)line->dx, dy = (int64_t)line->dy;
    if (runs_over(x, dx, n) || runs_over(y, dy, n) || width > LARGEST || height > LARGEST) {
        do_runs(k, row, line, (span){ 0, n }); /* absurd, but defined */
        return;
    }
    const int64_t before = -(int64_t)k->over * one - most;
    const span step = both(columns_within(x, dx, n, before, width * one + most),
                           columns_within(y, dy, n, before, height * one + most));
    const span inner = both(columns_within(x, dx, n, most, (width - k->over - k->slack) * one - most),
                            columns_within(y, dy, n, most, (height - k->over) * one - most));
    const span left = inner.begin < inner.end ? (span){ step.begin, inner.begin } : step;
    const span right = inner.begin < inner.end ? (span){ inner.end, step.end } : (span){ 0, 0 };
    do_fill(k, row, (span){ 0, step.begin });
    (most ? do_runs : do_border)(k, row, line, left);
    do_inside(k, row, line, inner);
    (most ? do_runs : do_border)(k, row, line, right);
    do_fill(k, row, (span){ step.end, n });
}

/* The displacement of pixel j as 32.32. */
static uint64_t shift_at(const int32_t *shift, uint32_t j)
{
    return shift ? k_warp_shift(shift[j]) : 0;
}

/* Asks for what the row AHEAD of this one will read. The fitted picture was written by a decoder and has left
 * the near caches, and the slanted walk is one that no hardware prefetcher follows: the image of 512 x 512
 * took 0.4 ms when warped again and again and 1.3 ms in the loader.
 *
 * CPU time of the stage `write` with rotate(p=1), image and mask, as a multiple of the decoding in the same
 * run (the clock of the machine drifts), two runs each; AHEAD, then columns apart, image and mask:
 *
 *     no prefetch   1.47-1.55      8   8  32   0.84-0.88      4   8  32   0.84-0.88
 *     8  16  none   0.90-0.95      8  16  32   0.89-0.91      4  16  32   0.97-1.04
 *     8  16    64   0.88-0.97      8  16  16   0.91-0.92     16   8  32   0.84-0.90
 *
 * To ask for the batch row that will be written as well made no difference or 5 % more.
 *
 * A cache line belongs to some twenty pixels of the output, in a row, in a column or slanted. Columns
 * therefore change from row to row: of a picture turned by 90 degrees only every eighth line would be fetched
 * otherwise. An elastic row takes its own displacement for that of the row ahead, which differs little:
 * elastic and rotate together 2.23-2.28 without, 1.67-1.74 with. A row that walks along a row of the picture
 * (dy = 0) is left to the hardware: scale(p=1) 0.71-0.74 without, 0.80 with. */
static void fetch_ahead(const stk_pix_warper *warper, const kind *k, const stk_pix_warp_line *line,
                        uint32_t y)
{
    enum { AHEAD = 8, STAGGER = 7 };
    const uint64_t down_x = (uint64_t)warper->plan->matrix[1], down_y = (uint64_t)warper->plan->matrix[4];
    const uint32_t width = k->src->width, height = k->src->height, apart = k->apart;
    const size_t stride = k->src->stride, pixel = k->pixel;
    const uint8_t *data = k->src->data;
    uint32_t j = y * STAGGER & (apart - 1);
    uint64_t at_x = line->x + AHEAD * down_x + j * line->dx + k->half,
             at_y = line->y + AHEAD * down_y + j * line->dy + k->half;
    for (; j < warper->width; j += apart, at_x += apart * line->dx, at_y += apart * line->dy) {
        const uint32_t column = (uint32_t)((at_x + shift_at(line->shift_x, j)) >> 32),
                       row = (uint32_t)((at_y + shift_at(line->shift_y, j)) >> 32);
        if (column < width && row < height) __builtin_prefetch(data + row * stride + column * pixel);
    }
}

static void any_row(stk_pix_warper *warper, const kind *k, uint32_t y, void *row)
{
    if (!warper->width) return;
    const stk_pix_warp_line line = line_of(warper, y);
    const int64_t most = line.shift_x ? (int64_t)stk_elastic_limit(warper->plan) << 16 : 0;
    if (line.dy) fetch_ahead(warper, k, &line, y);
    do_row(k, &line, warper->width, most, row);
}

/* Table entries count offsets in 32 bits: a picture that is larger gets the reference. */
static const stk_pix_table *table_for(const stoke_image *src)
{
    size_t bytes;
    return stk_mul(src->stride, src->height, &bytes) && bytes <= INT32_MAX ? stk_pix() : &stk_pix_c;
}

/* ---- borders ---- */

static const void *pixel_at(const kind *k, int64_t x, int64_t y)
{
    if (x < 0 || y < 0 || x >= (int64_t)k->src->width || y >= (int64_t)k->src->height) return NULL;
    return (const uint8_t *)k->src->data + (size_t)y * k->src->stride + (size_t)x * k->pixel;
}

#define DEFINE_BORDER(name, type, blend)                                                                     \
    static void name(const kind *k, void *dst, const stk_pix_warp_line *line, size_t n)                      \
    {                                                                                                        \
        const type fill[3] = { (type)k->fill[0], (type)k->fill[1], (type)k->fill[2] };                       \
        type *out = dst;                                                                                     \
        for (size_t i = 0; i < n; i++, out += 3) {                                                           \
            const uint64_t x = stk_warp_x(line, i) + k->half, y = stk_warp_y(line, i) + k->half;             \
            const uint32_t wx = k_warp_weight(x), wy = k_warp_weight(y);                                     \
            const type *tap[4];                                                                              \
            for (int t = 0; t < 4; t++) {                                                                    \
                tap[t] =                                                                                     \
                    pixel_at(k, (int64_t)k_warp_whole(x) + (t & 1), (int64_t)k_warp_whole(y) + (t >> 1));    \
                if (!tap[t]) tap[t] = fill;                                                                  \
            }                                                                                                \
            for (int c = 0; c < 3; c++) out[c] = blend(tap[0][c], tap[1][c], tap[2][c], tap[3][c], wx, wy);  \
        }                                                                                                    \
    }
DEFINE_BORDER(border_u8c3, uint8_t, k_warp_blend_u8)
DEFINE_BORDER(border_u16c3, uint16_t, k_warp_blend_u16)
#undef DEFINE_BORDER

static void border_mask(const kind *k, void *dst, const stk_pix_warp_line *line, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const uint8_t *from = pixel_at(k, k_warp_whole(stk_warp_x(line, i) + k->half),
                                       k_warp_whole(stk_warp_y(line, i) + k->half));
        if (k->pixel == 1)
            ((uint8_t *)dst)[i] = from ? *from : (uint8_t)k->fill[0];
        else
            ((uint16_t *)dst)[i] = from ? *(const uint16_t *)(const void *)from : k->fill[0];
    }
}

void stk_warp_image_row(stk_pix_warper *warper, const stoke_image *src, const uint8_t fill[3], uint32_t y,
                        void *row)
{
    const stk_pix_table *table = table_for(src);
    kind k = { .src = src, .half = K_WARP_HALF_STEP, .over = 1, .slack = 1, .pixel = 3u * src->depth };
    k.apart = src->depth == 1 ? 8 : 4;
    k.inside = src->depth == 1 ? table->warp_u8c3 : table->warp_u16c3;
    k.border = src->depth == 1 ? border_u8c3 : border_u16c3;
    for (int c = 0; c < 3; c++) k.fill[c] = (uint16_t)(src->depth == 1 ? fill[c] : fill[c] * 257);
    any_row(warper, &k, y, row);
}

void stk_warp_mask_row(stk_pix_warper *warper, const stoke_image *src, uint32_t fill, uint32_t y, void *row)
{
    const stk_pix_table *table = table_for(src);
    kind k = { .src = src, .half = K_WARP_HALF_PIXEL, .pixel = src->depth };
    k.apart = src->depth == 1 ? 32 : 16;
    k.inside = src->depth == 1 ? table->warp_u8c1 : table->warp_u16c1;
    k.border = border_mask;
    k.fill[0] = (uint16_t)fill;
    any_row(warper, &k, y, row);
}
