/* SPDX-License-Identifier: Apache-2.0
 *
 * conv3 in vectors of channels: Winograd's form (conv3_winograd.h), a row of tiles at a time.
 *
 * What a row of tiles reads is gathered first into a band of f32 lines, two vectors of channels at a time:
 * there the border of zeros is made, 16 bits are widened, f32 is rounded, planes are interleaved. The points
 * of its tiles, [point][tile][channel], meet the weights in 36 small products; panel by panel of outputs
 * those are transformed back and finished.
 */
#include "src/net/kernels/conv3_winograd.h"
#include "src/net/kernels/gemm_outer.h"
#include "src/net/kernels/gemm_tile.h"

#include <string.h>

enum {
    TILE = STK_WINOGRAD_TILE,
    POINTS = STK_WINOGRAD_POINTS,
    LINES = STK_CONV3_LINES,
    LINE = 16 /* floats */
};

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t whole_vectors(size_t channels)
{
    return stk_winograd_round(channels, STK_LANES);
}

/* ---- the band ---- */

/* Some lines and pixels of an image, `vectors` of channels from `channel` on. */
typedef struct band {
    const stk_conv3_source *source;
    const stk_conv3_part *part;
    int64_t line, column; /* of the first; may lie outside of the map, where everything is 0 */
    size_t lines, pixels;
    size_t channel, channels; /* channels in use; what fills the vectors is 0 */
    int vectors;
    float *to;
} band;

/* As a number of `type`. */
STK_INLINE vf rounded(vf a, stk_float type)
{
    if (type == STK_F32) return a;
    if (type == STK_BF16) {
        const vi bits = v_bits(a), odd = vi_and(vi_right(bits, 16), vi_set(1));
        return v_of_bits(vi_and(vi_add(bits, vi_add(odd, vi_set(0x7fff))), vi_set(0xffff0000)));
    }
    uint16_t half[STK_LANES];
    v_store_f16(half, a);
    return v_load_f16(half);
}

/* `pixels` that lie in the map, from element `at` of the source on. */
STK_INLINE void gather_pixels(const band *b, int vectors, size_t at, size_t pixels, stk_float from,
                              stk_float type, float *to)
{
    const size_t stride = b->source->stride, last = b->channels - (size_t)(vectors - 1) * STK_LANES;
    const void *data = b->source->data;
    for (size_t i = 0; i < pixels; i++, at += stride, to += vectors * STK_LANES) {
        STK_UNROLL(2)
        for (int v = 0; v < vectors; v++) {
            const size_t element = at + (size_t)v * STK_LANES;
            const vf value = v < vectors - 1 || last == STK_LANES ? v_get(data, element, from)
                                                                  : v_get_part(data, element, last, from);
            v_store(to + v * STK_LANES, from == type ? value : rounded(value, type));
        }
    }
}

STK_INLINE void gather_from(const band *b, size_t at, size_t pixels, stk_float from, stk_float type,
                            float *to)
{
    if (b->vectors == 2)
        gather_pixels(b, 2, at, pixels, from, type, to);
    else
        gather_pixels(b, 1, at, pixels, from, type, to);
}

STK_INLINE void gather_planes(const band *b, size_t at, size_t pixels, stk_float type, float *to)
{
    const size_t width = (size_t)b->vectors * STK_LANES;
    const size_t plane = (size_t)b->part->map.height * b->part->map.width;
    memset(to, 0, pixels * width * sizeof *to);
    const float *from = (const float *)b->source->data + at + b->channel * plane;
    for (size_t c = 0; c < b->channels; c++, from += plane)
        for (size_t i = 0; i < pixels; i++) to[i * width + c] = from[i];
    for (size_t i = 0; type != STK_F32 && i < pixels; i++)
        for (size_t v = 0; v < width; v += STK_LANES)
            v_store(to + i * width + v, rounded(v_load(to + i * width + v), type));
}

/* A line of the band that lies in the map: zeros, pixels, zeros. */
STK_INLINE void gather_line(const band *b, size_t y, stk_float type, float *to)
{
    const size_t width = (size_t)b->vectors * STK_LANES, columns = b->part->map.width;
    const size_t before = b->column < 0 ? (size_t)-b->column : 0, first = (size_t)b->column + before;
    const size_t inside = least(b->pixels - before, columns - first), after = b->pixels - before - inside;
    const size_t pixel = y * columns + first, sample = b->part->image * b->source->sample_stride;
    memset(to, 0, before * width * sizeof *to);
    to += before * width;
    const size_t at = sample + pixel * b->source->stride + b->channel;
    if (b->source->planar)
        gather_planes(b, sample + pixel, inside, type, to);
    else if (b->source->type == STK_F32)
        gather_from(b, at, inside, STK_F32, type, to);
    else
        gather_from(b, at, inside, type, type, to);
    memset(to + inside * width, 0, after * width * sizeof *to);
}

STK_INLINE void gather(const band *b, stk_float type)
{
    const size_t floats = b->pixels * (size_t)b->vectors * STK_LANES;
    for (size_t i = 0; i < b->lines; i++) {
        const int64_t y = b->line + (int64_t)i;
        if (y < 0 || y >= b->part->map.height)
            memset(b->to + i * floats, 0, floats * sizeof(float));
        else
            gather_line(b, (size_t)y, type, b->to + i * floats);
    }
}

/* ---- transforms ---- */

#define P  STK_WINOGRAD_P
#define Q  STK_WINOGRAD_Q
#define P2 (P * P)
#define Q2 (Q * Q)

/* B^T x, with rows scaled to 1 at the highest power. */
STK_INLINE void x_to_points(const vf x[TILE], vf t[TILE])
{
    const vf p2 = v_set(P2), q2 = v_set(Q2), both = v_set(P2 + Q2), product = v_set(P2 * Q2);
    const vf even_p = v_fnma(q2, x[2], x[4]), odd_p = v_fnma(q2, x[1], x[3]);
    const vf even_q = v_fnma(p2, x[2], x[4]), odd_q = v_fnma(p2, x[1], x[3]);
    t[0] = v_fma(product, x[0], v_fnma(both, x[2], x[4]));
    t[1] = v_fma(v_set(P), odd_p, even_p);
    t[2] = v_fnma(v_set(P), odd_p, even_p);
    t[3] = v_fma(v_set(Q), odd_q, even_q);
    t[4] = v_fnma(v_set(Q), odd_q, even_q);
    t[5] = v_fma(product, x[1], v_fnma(both, x[3], x[5]));
}

/* A dy */
STK_INLINE void dy_to_points(const vf y[LINES], vf t[TILE])
{
    const vf even_p = v_fma(v_set(P2), y[2], y[0]), odd_p = v_fma(v_set(P2), y[3], y[1]);
    const vf even_q = v_fma(v_set(Q2), y[2], y[0]), odd_q = v_fma(v_set(Q2), y[3], y[1]);
    t[0] = y[0];
    t[1] = v_fma(v_set(P), odd_p, even_p);
    t[2] = v_fnma(v_set(P), odd_p, even_p);
    t[3] = v_fma(v_set(Q), odd_q, even_q);
    t[4] = v_fnma(v_set(Q), odd_q, even_q);
    t[5] = y[3];
}

/* A^T m */
STK_INLINE void from_points(const vf m[TILE], vf y[LINES])
{
    const vf even_p = v_add(m[1], m[2]), odd_p = v_mul(v_set(P), v_sub(m[1], m[2]));
    const vf even_q = v_add(m[3], m[4]), odd_q = v_mul(v_set(Q), v_sub(m[3], m[4]));
    y[0] = v_add(m[0], v_add(even_p, even_q));
    y[1] = v_add(odd_p, odd_q);
    y[2] = v_fma(v_set(P2), even_p, v_mul(v_set(Q2), even_q));
    y[3] = v_add(m[5], v_fma(v_set(P2), odd_p, v_mul(v_set(Q2), odd_q)));
}

/* Points of a row of tiles: element [point][tile][channel] is at[point * step + tile * channels + channel].
 * An odd number of lines from point to point: 36 of them a multiple of 2 KB apart would share a few sets of
 * the cache. */
typedef struct points {
    float *at;
    size_t step, channels;
} points;

static size_t points_step(size_t tiles, size_t channels)
{
    return ((tiles * channels + LINE - 1) / LINE | 1) * LINE;
}

static size_t points_floats(size_t tiles, size_t channels)
{
    return POINTS * points_step(tiles, channels);
}

/* A vector of channels of a tile of x (`lines` = 6) or dy (4) that begins at `from`, to its points. */
STK_INLINE void tile_to_points(int lines, const float *from, size_t pixel, size_t line, float *to,
                               size_t step)
{
    vf half[TILE][TILE];
    STK_UNROLL(36)
    for (int i = 0; i < POINTS; i++) __builtin_prefetch(to + (size_t)i * step + 2 * LINE, 1, 3);
    STK_UNROLL(6)
    for (int j = 0; j < lines; j++) {
        vf column[TILE], t[TILE];
        STK_UNROLL(6)
        for (int i = 0; i < lines; i++) column[i] = v_load(from + (size_t)i * line + (size_t)j * pixel);
        if (lines == TILE)
            x_to_points(column, t);
        else
            dy_to_points(column, t);
        STK_UNROLL(6)
        for (int i = 0; i < TILE; i++) half[i][j] = t[i];
    }
    STK_UNROLL(6)
    for (int i = 0; i < TILE; i++) {
        vf t[TILE];
        if (lines == TILE)
            x_to_points(half[i], t);
        else
            dy_to_points(half[i], t);
        STK_UNROLL(6)
        for (int j = 0; j < TILE; j++, to += step) v_store(to, t[j]);
    }
}

STK_INLINE void band_to_points(int lines, const band *b, size_t tiles, const points *to)
{
    const size_t pixel = (size_t)b->vectors * STK_LANES, line = b->pixels * pixel;
    for (size_t tile = 0; tile < tiles; tile++)
        for (size_t v = 0; v < pixel; v += STK_LANES)
            tile_to_points(lines, b->to + tile * LINES * pixel + v, pixel, line,
                           to->at + tile * to->channels + b->channel + v, to->step);
}

static size_t tiles_of(uint32_t columns)
{
    return (columns + LINES - 1) / LINES;
}

static size_t band_floats(size_t tiles)
{
    return TILE * (tiles * LINES + 2) * 2 * STK_LANES;
}

/* Adds up a band of dy. */
static void add_band(const band *b, float *sums)
{
    const size_t width = (size_t)b->vectors * STK_LANES, pixels = b->lines * b->pixels;
    for (size_t v = 0; v < width; v += STK_LANES) {
        vf sum[4] = { v_zero(), v_zero(), v_zero(), v_zero() }; /* pixels come in fours */
        for (size_t i = 0; i < pixels; i += 4)
            for (size_t k = 0; k < 4; k++) sum[k] = v_add(sum[k], v_load(b->to + (i + k) * width + v));
        float *to = sums + b->channel + v;
        v_store(to, v_add(v_load(to), v_add(v_add(sum[0], sum[1]), v_add(sum[2], sum[3]))));
    }
}

/* All channels of a part of x or dy to their points; sums NULL, or where to add up dy. */
STK_INLINE void source_to_points(int lines, stk_float type, const stk_conv3_source *source,
                                 const stk_conv3_part *part, size_t channels, float *room, float *sums,
                                 const points *to)
{
    const size_t tiles = tiles_of(part->columns), border = lines == TILE;
    for (size_t channel = 0; channel < channels; channel += 2 * STK_LANES) {
        const size_t some = least(channels - channel, 2 * STK_LANES);
        const band b = { .source = source,
                         .part = part,
                         .line = (int64_t)part->line - (int64_t)border,
                         .column = (int64_t)part->column - (int64_t)border,
                         .lines = (size_t)lines,
                         .pixels = tiles * LINES + 2 * border,
                         .channel = channel,
                         .channels = some,
                         .vectors = some > STK_LANES ? 2 : 1,
                         .to = room };
        gather(&b, type);
        band_to_points(lines, &b, tiles, to);
        if (sums) add_band(&b, sums);
    }
}

/* ---- multiply ---- */

/* `rows` of x[rows][k], x_stride apart, times a panel; shared out evenly among tiles of registers. */
STK_INLINE void panel_product(int vectors, size_t rows, const float *x, size_t x_stride, size_t k,
                              const float *panel, float *y)
{
    const size_t most = vectors == 2 ? STK_TILE_ROWS : STK_TILE_NARROW, width = (size_t)vectors * STK_LANES;
    const size_t strips = (rows + most - 1) / most;
    for (size_t s = 0; s < strips; s++) {
        const size_t row = rows * s / strips, height = rows * (s + 1) / strips - row;
        const stk_tile_ending end = { y + row * width, width, NULL, NULL };
        /* The panel of the next point, in as many shares as there are strips. */
        const stk_tile_ahead next = { panel + (k + k * s / strips) * width, width * sizeof(float) / strips };
#define CASE(h)                                                                                              \
    case h:                                                                                                  \
        if (h <= most)                                                                                       \
            stk_tile(h, vectors, STK_F32, x + row * x_stride, x_stride, k, panel, NULL, 0, next, &end);      \
        break;
        switch (height) {
            CASE(1)
            CASE(2)
            CASE(3)
            CASE(4)
            CASE(5)
            CASE(6)
            CASE(7)
            CASE(8)
            CASE(9)
            CASE(10)
            CASE(11)
            CASE(12)
            CASE(13)
            CASE(14)
        default: break;
        }
#undef CASE
    }
}

static void panel_wide(size_t rows, const float *x, size_t x_stride, size_t k, const float *panel, float *y)
{
    panel_product(2, rows, x, x_stride, k, panel, y);
}

static void panel_narrow(size_t rows, const float *x, size_t x_stride, size_t k, const float *panel, float *y)
{
    panel_product(1, rows, x, x_stride, k, panel, y);
}

/* `count` results of channels output .. of pixel `pixel`. */
STK_INLINE void finish(const stk_conv3_product *p, vf value, size_t pixel, size_t output, size_t count,
                       stk_float type, stk_float to)
{
    const stk_conv3_finish *f = p->finish;
    const size_t at = pixel * f->stride + output;
    value = v_mul(v_add(value, v_load((const float *)p->packed + output)), v_set(f->scale));
    if (f->relu) value = v_max(v_zero(), value);
    if (f->gate) value = v_greater(v_get_part(f->gate, at, count, type), v_zero(), value, v_zero());
    if (f->residual) value = v_add(value, v_get_part(f->residual, at, count, STK_F32));
    v_put_part(p->y, at, count, value, to);
}

/* The tiles of a panel to results: `count` outputs from `output` on. */
STK_INLINE void results(const stk_conv3_product *p, const points *m, size_t tiles, size_t output,
                        size_t count, stk_float type, stk_float to)
{
    const stk_conv3_map *map = &p->part.map;
    const size_t lines = least(map->height - p->part.line, LINES);
    const size_t first = ((size_t)p->part.image * map->height + p->part.line) * map->width + p->part.column;
    for (size_t tile = 0; tile < tiles; tile++) {
        vf half[TILE][LINES], y[LINES][LINES];
        const float *from = m->at + tile * m->channels;
        STK_UNROLL(6)
        for (int i = 0; i < TILE; i++) {
            vf row[TILE];
            STK_UNROLL(6)
            for (int j = 0; j < TILE; j++, from += m->step) row[j] = v_load(from);
            from_points(row, half[i]);
        }
        STK_UNROLL(4)
        for (int j = 0; j < LINES; j++) {
            vf column[TILE], t[LINES];
            STK_UNROLL(6)
            for (int i = 0; i < TILE; i++) column[i] = half[i][j];
            from_points(column, t);
            STK_UNROLL(4)
            for (int i = 0; i < LINES; i++) y[i][j] = t[i];
        }
        const size_t columns = least(map->width - p->part.column - tile * LINES, LINES);
        for (size_t i = 0; i < lines; i++)
            for (size_t j = 0; j < columns; j++)
                finish(p, y[i][j], first + i * map->width + tile * LINES + j, output, count, type, to);
    }
}

static size_t multiply_scratch(uint32_t in, uint32_t out, uint32_t columns)
{
    (void)out;
    const size_t tiles = tiles_of(columns);
    return (points_floats(tiles, whole_vectors(in)) + points_floats(tiles, 2 * STK_LANES) +
            band_floats(tiles)) *
           sizeof(float);
}

STK_INLINE void multiply(const stk_conv3_product *p, void *scratch, stk_float type)
{
    const size_t tiles = tiles_of(p->part.columns), channels = whole_vectors(p->in);
    const points x = { scratch, points_step(tiles, channels), channels };
    float *sums = x.at + points_floats(tiles, channels), *room = sums + points_floats(tiles, 2 * STK_LANES);
    source_to_points(TILE, type, p->x, &p->part, p->in, room, NULL, &x);
    for (size_t output = 0; output < p->out; output += 2 * STK_LANES) {
        const size_t width = stk_winograd_width(p->out, output, STK_LANES);
        const float *panel = stk_winograd_panel(p->packed, p->in, p->out, output);
        const points m = { sums, points_step(tiles, width), width };
        for (size_t point = 0; point < POINTS; point++, panel += p->in * width)
            (width > STK_LANES ? panel_wide : panel_narrow)(tiles, x.at + point * x.step, channels, p->in,
                                                            panel, sums + point * m.step);
        for (size_t v = 0; v < width; v += STK_LANES) {
            const points vector = { sums + v, m.step, width };
            const size_t count = least(p->out - output - v, STK_LANES);
            if (p->finish->type == STK_F32)
                results(p, &vector, tiles, output + v, count, type, STK_F32);
            else
                results(p, &vector, tiles, output + v, count, type, type);
        }
    }
}

/* ---- gradients of weights ---- */

static size_t outer_scratch(uint32_t in, uint32_t out, uint32_t columns)
{
    const size_t tiles = tiles_of(columns);
    return (points_floats(tiles, whole_vectors(in)) + points_floats(tiles, whole_vectors(out)) +
            band_floats(tiles)) *
           sizeof(float);
}

STK_INLINE void outer(const stk_conv3_outer *o, void *scratch, stk_float type)
{
    const size_t tiles = tiles_of(o->part.columns), in = whole_vectors(o->in), out = whole_vectors(o->out);
    const points x = { scratch, points_step(tiles, in), in };
    const points dy = { x.at + points_floats(tiles, in), points_step(tiles, out), out };
    float *room = dy.at + points_floats(tiles, out);
    source_to_points(TILE, type, o->x, &o->part, o->in, room, NULL, &x);
    source_to_points(LINES, type, o->dy, &o->part, o->out, room, o->sums + POINTS * o->in * out, &dy);
    for (size_t point = 0; point < POINTS; point++) STK_SIMD(stk_gemm_outer_add)
    (tiles, x.at + point * x.step, in, o->in, dy.at + point * dy.step, out, o->sums + point * o->in * out);
}

/* ---- the table ---- */

static size_t packed_bytes(uint32_t in, uint32_t out)
{
    return stk_winograd_bytes(in, out, STK_LANES);
}

static size_t sums(uint32_t in, uint32_t out)
{
    return stk_winograd_sums(in, out, STK_LANES);
}

static void gradient(const stk_conv3_gradient *g, uint32_t first, uint32_t count)
{
    stk_winograd_gradient(g, first, count, STK_LANES);
}

static void pack(const stk_conv3_masters *masters, uint32_t first, uint32_t count, void *packed,
                 stk_float type)
{
    stk_winograd_pack(masters, first, count, packed, type, STK_LANES);
}

STK_TYPED(pack, (const stk_conv3_masters *masters, uint32_t first, uint32_t count, void *packed), masters,
          first, count, packed)
STK_TYPED(multiply, (const stk_conv3_product *p, void *scratch), p, scratch)
STK_TYPED(outer, (const stk_conv3_outer *o, void *scratch), o, scratch)

void STK_SIMD(stk_conv3_fill)(stk_conv3_table *table)
{
    *table = (stk_conv3_table){ .packed_bytes = packed_bytes,
                                .pack = STK_OF_TYPES(pack),
                                .multiply_scratch = multiply_scratch,
                                .outer_scratch = outer_scratch,
                                .multiply = STK_OF_TYPES(multiply),
                                .sums = sums,
                                .outer = STK_OF_TYPES(outer),
                                .gradient = gradient };
}
