/* SPDX-License-Identifier: Apache-2.0
 *
 * The chain of photometric steps. Rows are pulled: whoever needs row y after step k asks for it, and the
 * asking goes back through the blurs to the source.
 *
 *   source row --unpack--> row --colour steps, in place--> --blur: into the ring, out of it--> row --> batch
 *
 * There is one row for all of it: a blur has taken what it needs out of the row before it puts its result
 * there. A contrast step first walks the picture up to itself for the mean. CLAHE cuts the chain: what comes
 * before it is rounded into a picture of the source's depth, and the rest of the chain starts from there.
 */
#include "src/pix/color.h"

#include <math.h>
#include <string.h>

#include "kernels/color_math.h"
#include "src/base/error.h"
#include "src/base/exact_math.h"
#include "src/base/mem.h"
#include "src/base/rng.h"
#include "src/pix/clahe.h"
#include "src/pix/pix_table.h"

int stk_color_check(const stoke_color_step *t, stoke_error *err)
{
    if (t->kind >= STOKE_COLOR_KINDS || !isfinite(t->a) || !isfinite(t->b))
        return stk_fail(err, STOKE_E_INVALID, "color step of kind %u with %g and %g", t->kind, (double)t->a,
                        (double)t->b);
    switch ((stoke_color_kind)t->kind) {
    case STOKE_COLOR_HUE:
        if (t->a >= -0.5f && t->a <= 0.5f) return STOKE_OK;
        return stk_fail(err, STOKE_E_INVALID, "hue turned by %g, not -0.5 to 0.5", (double)t->a);
    case STOKE_COLOR_GAMMA:
        if (t->a > 0) return STOKE_OK;
        return stk_fail(err, STOKE_E_INVALID, "gamma of %g: must be positive", (double)t->a);
    case STOKE_COLOR_BLUR:
        if (t->n % 2 == 1 && t->n <= STK_COLOR_TAPS_MAX && t->a > 0) return STOKE_OK;
        return stk_fail(err, STOKE_E_INVALID, "blur of %u taps and sigma %g: taps are odd and at most %d",
                        t->n, (double)t->a, STK_COLOR_TAPS_MAX);
    case STOKE_COLOR_NOISE:
        if (t->n <= 1) return STOKE_OK;
        return stk_fail(err, STOKE_E_INVALID, "noise of kind %u: 0 is coloured, 1 gray", t->n);
    case STOKE_COLOR_CLAHE:
        if (t->n >= 1 && t->n <= STK_COLOR_TILES_MAX && t->a >= 0) return STOKE_OK;
        return stk_fail(err, STOKE_E_INVALID, "clahe of %u x %u tiles and limit %g: tiles are 1 to %d", t->n,
                        t->n, (double)t->a, STK_COLOR_TILES_MAX);
    default: return STOKE_OK;
    }
}

/* The centre takes up the rounding of the others, so that they sum to 1. */
static void blur_weights(stk_color_op *s)
{
    const double sigma = s->step->a;
    double weight[STK_COLOR_RADIUS_MAX + 1], sum = 1, sides = 0;
    s->radius = s->step->n / 2;
    for (uint32_t k = 1; k <= s->radius; k++) {
        weight[k] = stk_exp(-(double)k * k / (2 * sigma * sigma));
        sum += 2 * weight[k];
    }
    for (uint32_t k = 1; k <= s->radius; k++) {
        s->weight[k] = (float)(weight[k] / sum);
        sides += 2 * (double)s->weight[k];
    }
    s->weight[0] = (float)(1 - sides);
}

stk_color_op stk_color_op_make(const stoke_color_step *t)
{
    stk_color_op s = { .step = t, .a = t->a };
    switch ((stoke_color_kind)t->kind) {
    case STOKE_COLOR_HUE:
        for (int i = 0; i < 3; i++) {
            const double turn = 2 * i + 6 * (double)t->a; /* -3 .. 7 */
            s.turn[i] = (float)(turn < 0 ? turn + 6 : turn >= 6 ? turn - 6 : turn);
        }
        break;
    case STOKE_COLOR_CONTRAST:
    case STOKE_COLOR_SATURATION: s.c = (float)(1 - (double)t->a); break;
    case STOKE_COLOR_GAMMA: s.c = (float)(255 * (double)t->b); break;
    case STOKE_COLOR_NOISE:
        s.a = (float)(255 * (double)t->a);
        s.c = (float)(255 * (double)t->b);
        break;
    case STOKE_COLOR_BLUR: blur_weights(&s); break;
    default: break;
    }
    return s;
}

int stk_color_op_changes(const stk_color_op *s, uint32_t width, uint32_t height)
{
    const stoke_color_step *t = s->step;
    switch ((stoke_color_kind)t->kind) {
    case STOKE_COLOR_BRIGHTNESS:
    case STOKE_COLOR_CONTRAST:
    case STOKE_COLOR_SATURATION: return t->a != 1;
    case STOKE_COLOR_HUE: return t->a != 0;
    case STOKE_COLOR_GAMMA: return t->a != 1 || t->b != 1;
    case STOKE_COLOR_BLUR: return s->weight[0] != 1;
    case STOKE_COLOR_NOISE: return t->a != 0 || t->b != 0;
    case STOKE_COLOR_ERASE: return t->box.x < width && t->box.y < height && t->box.width && t->box.height;
    default: return 1;
    }
}

enum {
    PAD = 16 /* floats before and after a plane: room for the mirrored border of the widest blur */
};

/* Where a blur keeps the rows that went through its horizontal pass: row y in slot y % (2 * radius + 1). */
typedef struct ring {
    float *rows;
    uint32_t ready; /* rows that have gone in on this walk */
} ring;

struct stk_color_pass {
    stk_mem_buffer rows;    /* the row, then the rings */
    stk_mem_buffer picture; /* before CLAHE */
    stk_mem_buffer clahe;   /* its scratch */
    uint32_t n;
    stk_color_op steps[STOKE_PLAN_COLOR_STEPS];
    ring rings[STOKE_PLAN_COLOR_STEPS]; /* of the steps that are blurs */
};

/* A picture on its way through steps[first ..]. */
typedef struct walk {
    const stk_pix_table *pix;
    stk_color_rows source;
    int planar;   /* the source is a stk_clahe_planar picture */
    size_t pitch; /* floats from plane to plane */
    float *row;
    stk_color_op *steps;
    ring *rings;
    uint32_t first;
} walk;

/* ---- memory ---- */

stk_color_pass *stk_color_pass_create(void)
{
    return stk_calloc(1, sizeof(stk_color_pass));
}

void stk_color_pass_destroy(stk_color_pass **color_pass)
{
    if (!*color_pass) return;
    stk_buffer_free(&(*color_pass)->rows);
    stk_buffer_free(&(*color_pass)->picture);
    stk_buffer_free(&(*color_pass)->clahe);
    stk_free(*color_pass);
    *color_pass = NULL;
}

uint64_t stk_color_pass_memory(const stk_color_pass *color_pass)
{
    return sizeof *color_pass + color_pass->rows.capacity + color_pass->picture.capacity +
           color_pass->clahe.capacity;
}

/* Whole cache lines, so that planes of every row start on one. */
static size_t pitch_of(uint32_t width)
{
    return ((size_t)width + 15) / 16 * 16 + 2 * PAD;
}

/* SIZE_MAX: more than an address space. */
static size_t rows_bytes(uint32_t width, size_t rows)
{
    size_t bytes;
    return stk_mul(3 * sizeof(float) * pitch_of(width), rows, &bytes) ? bytes : SIZE_MAX;
}

static size_t picture_bytes(uint32_t width, uint32_t height, uint8_t depth)
{
    size_t bytes;
    return stk_mul((size_t)width * 3 * depth, height, &bytes) ? bytes : SIZE_MAX;
}

uint64_t stk_color_scratch(uint32_t width, uint32_t height, uint8_t depth)
{
    const size_t rows = rows_bytes(width, 1 + STK_COLOR_RING_ROWS);
    const size_t picture = picture_bytes(width, height, depth);
    if (rows == SIZE_MAX || picture == SIZE_MAX) return UINT64_MAX;
    return sizeof(stk_color_pass) + (uint64_t)rows + picture + stk_clahe_bytes(width, STK_COLOR_TILES_MAX);
}

/* ---- color steps to tables ---- */

/* Fills color_pass->steps and gives every blur its ring. */
static int prepare(stk_color_pass *color_pass, const stoke_color_step *step, uint32_t n,
                   const stk_color_rows *source, stoke_error *err)
{
    if (n > STOKE_PLAN_COLOR_STEPS)
        return stk_fail(err, STOKE_E_INVALID, "%u color steps, at most %d", n, STOKE_PLAN_COLOR_STEPS);
    size_t ring_rows = 0;
    color_pass->n = 0;
    for (uint32_t i = 0; i < n; i++) {
        const int status = stk_color_check(step + i, err);
        if (status) return status;
        const stk_color_op s = stk_color_op_make(step + i);
        if (!stk_color_op_changes(&s, source->width, source->height)) continue;
        color_pass->steps[color_pass->n++] = s;
        if (step[i].kind == STOKE_COLOR_BLUR) ring_rows += 2 * s.radius + 1;
    }
    if (ring_rows > STK_COLOR_RING_ROWS)
        return stk_fail(err, STOKE_E_INVALID, "blurs of %zu taps together, at most %d", ring_rows,
                        STK_COLOR_RING_ROWS);
    const size_t bytes = rows_bytes(source->width, 1 + ring_rows);
    if (color_pass->n && (bytes == SIZE_MAX || !stk_buffer_reserve(&color_pass->rows, bytes)))
        return stk_fail(err, STOKE_E_NOMEM, "no memory for the colour steps of %u x %u pixels", source->width,
                        source->height);
    const size_t row = 3 * pitch_of(source->width);
    float *rows = (float *)color_pass->rows.data + row;
    for (uint32_t i = 0; i < color_pass->n; i++) {
        if (color_pass->steps[i].step->kind != STOKE_COLOR_BLUR) continue;
        color_pass->rings[i].rows = rows;
        rows += row * (2 * color_pass->steps[i].radius + 1);
    }
    return STOKE_OK;
}

/* ---- one row ---- */

static void source_row(const walk *w, uint32_t y)
{
    const void *row = w->source.row(w->source.context, y);
    const size_t n = w->source.width;
    const int u8 = w->source.depth == 1;
    if (!w->planar) {
        (u8 ? w->pix->unpack_u8 : w->pix->unpack_u16)(w->row, w->pitch, row, n);
        return;
    }
    for (size_t c = 0; c < 3; c++)
        for (size_t i = 0; i < n; i++)
            w->row[c * w->pitch + i] =
                u8 ? ((const uint8_t *)row)[c * n + i] : k_level_of_u16(((const uint16_t *)row)[c * n + i]);
}

static void erase(const walk *w, const stoke_color_step *t, uint32_t y)
{
    if (y < t->box.y || y - t->box.y >= t->box.height) return;
    const uint32_t room = w->source.width - t->box.x, n = t->box.width < room ? t->box.width : room;
    for (size_t c = 0; c < 3; c++) {
        float *at = w->row + c * w->pitch + t->box.x;
        for (uint32_t i = 0; i < n; i++) at[i] = t->fill[c];
    }
}

/* The noise of row y in plane c (kernels/color_math.h says where its numbers come from). Gray noise is that
 * of plane 0 in all of them. */
static stk_pix_noise noise_of(const stk_color_op *s, uint32_t y, uint32_t c)
{
    const stoke_color_step *t = s->step;
    const uint32_t counter[4] = { y, t->n ? 0 : c, 0, 0 };
    const uint32_t key[2] = { (uint32_t)t->key, (uint32_t)(t->key >> 32) };
    const stk_rng random = stk_philox_block(counter, key);
    return (stk_pix_noise){ { random.word[0], random.word[1] }, s->a, s->c };
}

/* A step that needs no other pixel than the one it changes. */
static void apply(const walk *w, const stk_color_op *s, uint32_t y)
{
    const size_t n = w->source.width;
    const uint32_t kind = s->step->kind;
    if (kind == STOKE_COLOR_SATURATION) {
        w->pix->saturation(w->row, w->pitch, n, s->a, s->c);
    } else if (kind == STOKE_COLOR_HUE) {
        w->pix->hue(w->row, w->pitch, n, s->turn);
    } else if (kind == STOKE_COLOR_ERASE) {
        erase(w, s->step, y);
    } else {
        for (uint32_t c = 0; c < 3; c++) {
            float *plane = w->row + c * w->pitch;
            if (kind == STOKE_COLOR_GAMMA)
                w->pix->gamma(plane, n, s->a, s->c);
            else if (kind == STOKE_COLOR_NOISE)
                w->pix->noise(plane, n, (const stk_pix_noise[]){ noise_of(s, y, c) });
            else
                w->pix->linear(plane, n, s->a, s->c);
        }
    }
}

/* The mirrored border of a plane, into the room before and after it. */
static void mirror_border(float *plane, uint32_t width, uint32_t radius)
{
    for (int64_t k = 1; k <= radius; k++) {
        plane[-k] = plane[stk_reflect(-k, width)];
        plane[width - 1 + k] = plane[stk_reflect(width - 1 + k, width)];
    }
}

static void give_row(walk *w, uint32_t end, uint32_t y);

/* Row y of blur step k. Rows come in order, so each goes through the horizontal pass once per walk. */
static void blur_row(walk *w, uint32_t k, uint32_t y)
{
    const stk_color_op *s = w->steps + k;
    ring *kept = w->rings + k;
    const uint32_t slots = 2 * s->radius + 1, width = w->source.width, height = w->source.height;
    const uint32_t last = height - 1 - y > s->radius ? y + s->radius : height - 1;
    for (; kept->ready <= last; kept->ready++) {
        give_row(w, k, kept->ready);
        float *slot = kept->rows + kept->ready % slots * 3 * w->pitch;
        for (size_t c = 0; c < 3; c++) {
            mirror_border(w->row + c * w->pitch, width, s->radius);
            w->pix->blur_h(slot + c * w->pitch, w->row + c * w->pitch, width, s->weight, s->radius);
        }
    }
    const float *rows[STK_COLOR_TAPS_MAX];
    for (uint32_t i = 0; i < slots; i++) {
        const uint32_t at = stk_reflect((int64_t)y + i - s->radius, height);
        rows[i] = kept->rows + at % slots * 3 * w->pitch;
    }
    for (size_t c = 0; c < 3; c++) {
        w->pix->blur_v(w->row + c * w->pitch, rows, width, s->weight, s->radius);
        for (uint32_t i = 0; i < slots; i++) rows[i] += w->pitch;
    }
}

/* Makes w->row row y after steps first .. end - 1. */
static void give_row(walk *w, uint32_t end, uint32_t y)
{
    uint32_t i = end;
    while (i > w->first && w->steps[i - 1].step->kind != STOKE_COLOR_BLUR) i--;
    if (i == w->first)
        source_row(w, y);
    else
        blur_row(w, i - 1, y);
    for (; i < end; i++) apply(w, w->steps + i, y);
}

static void begin(walk *w, uint32_t end)
{
    for (uint32_t i = w->first; i < end; i++) w->rings[i].ready = 0;
}

/* ---- whole pictures ---- */

/* Of the picture before step k. */
static float mean_gray(walk *w, uint32_t k)
{
    uint64_t sum = 0;
    begin(w, k);
    for (uint32_t y = 0; y < w->source.height; y++) {
        give_row(w, k, y);
        sum += w->pix->gray_sum(w->row, w->pitch, w->source.width);
    }
    return k_mean_gray(sum, (uint64_t)w->source.width * w->source.height);
}

static const void *picture_row(void *context, uint32_t y)
{
    return stk_planar_row(context, y);
}

static void round_u16(uint16_t *out, const float *row, size_t pitch, size_t n)
{
    for (size_t c = 0; c < 3; c++)
        for (size_t i = 0; i < n; i++) out[c * n + i] = (uint16_t)k_round_u16(row[c * pitch + i]);
}

/* Rounds the result of the steps before `end` into the picture; rows of the source may lie there too: row y
 * has been read when row y is written. */
static void into_picture(walk *w, uint32_t end, const stk_clahe_planar *picture)
{
    begin(w, end);
    for (uint32_t y = 0; y < picture->height; y++) {
        void *out = stk_planar_row(picture, y);
        const size_t n = picture->width;
        give_row(w, end, y);
        if (picture->depth == 1)
            w->pix->write_planes[STOKE_DTYPE_U8][STOKE_LAYOUT_CHW](NULL, out, n, w->row, w->pitch, n);
        else
            round_u16(out, w->row, w->pitch, n);
    }
}

/* Where row y of the batch row starts. */
static void *target(const stk_pix_writer *writer, void *row, const stk_color_rows *source, uint32_t y)
{
    const size_t pixel = writer->layout == STOKE_LAYOUT_CHW ? 1 : 3;
    return (uint8_t *)row + (size_t)y * source->width * pixel * stk_element_bytes(writer->dtype);
}

static void write_plain(const stk_color_rows *source, const stk_pix_writer *writer, void *row)
{
    const stk_pix_table *pix = stk_pix();
    stk_write_fn *write =
        (source->depth == 1 ? pix->write_u8 : pix->write_u16)[writer->dtype][writer->layout];
    for (uint32_t y = 0; y < source->height; y++)
        write(writer, target(writer, row, source, y), (size_t)source->width * source->height,
              source->row(source->context, y), source->width);
}

/* Memory of the CLAHE steps, before the first row is touched. */
static int reserve_picture(stk_color_pass *color_pass, const stk_color_rows *source,
                           stk_clahe_planar *picture, stoke_error *err)
{
    uint32_t tiles = 0;
    for (uint32_t i = 0; i < color_pass->n; i++) {
        const stoke_color_step *t = color_pass->steps[i].step;
        if (t->kind == STOKE_COLOR_CLAHE && t->n > tiles) tiles = t->n;
    }
    if (!tiles) return STOKE_OK;
    const size_t bytes = picture_bytes(source->width, source->height, source->depth);
    if (bytes == SIZE_MAX || !stk_buffer_reserve(&color_pass->picture, bytes) ||
        !stk_buffer_reserve(&color_pass->clahe, stk_clahe_bytes(source->width, tiles)))
        return stk_fail(err, STOKE_E_NOMEM, "no memory for clahe of %u x %u pixels", source->width,
                        source->height);
    *picture = (stk_clahe_planar){ color_pass->picture.data, source->width, source->height, source->depth };
    return STOKE_OK;
}

int stk_color_write(stk_color_pass *color_pass, const stoke_color_step *step, uint32_t n,
                    const stk_color_rows *source, const stk_pix_writer *writer, void *row, stoke_error *err)
{
    if (!source->width || !source->height || (source->depth != 1 && source->depth != 2))
        return stk_fail(err, STOKE_E_INVALID, "colour steps on %u x %u pixels of %u-byte samples",
                        source->width, source->height, source->depth);
    stk_clahe_planar picture = { 0 };
    int status = prepare(color_pass, step, n, source, err);
    if (!status) status = reserve_picture(color_pass, source, &picture, err);
    if (status) return status;
    if (!color_pass->n) {
        write_plain(source, writer, row);
        return STOKE_OK;
    }
    walk w = { .pix = stk_pix(),
               .source = *source,
               .pitch = pitch_of(source->width),
               .row = (float *)color_pass->rows.data + PAD,
               .steps = color_pass->steps,
               .rings = color_pass->rings };
    for (uint32_t i = 0; i < color_pass->n; i++) {
        const stoke_color_step *t = w.steps[i].step;
        if (t->kind == STOKE_COLOR_CONTRAST) w.steps[i].c *= mean_gray(&w, i);
        if (t->kind != STOKE_COLOR_CLAHE) continue;
        into_picture(&w, i, &picture);
        stk_clahe(&picture, t->a, t->n, color_pass->clahe.data);
        w.source.row = picture_row;
        w.source.context = &picture;
        w.planar = 1;
        w.first = i + 1;
    }
    begin(&w, color_pass->n);
    stk_write_planes_fn *write = w.pix->write_planes[writer->dtype][writer->layout];
    for (uint32_t y = 0; y < source->height; y++) {
        give_row(&w, color_pass->n, y);
        write(writer, target(writer, row, source, y), (size_t)source->width * source->height, w.row, w.pitch,
              source->width);
    }
    return STOKE_OK;
}
