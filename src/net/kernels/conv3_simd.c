/* SPDX-License-Identifier: Apache-2.0
 *
 * conv3 in vectors of channels: Winograd's form (conv3_winograd.h), a row of tiles at a time.
 *
 * Tiles are read where they lie; at the border of a map, from planes, and where channels do not fill a
 * vector, by way of a room of their own. The points of a row of them, [point][tile][channel], meet the
 * weights in 36 small products; panel by panel of outputs those are transformed back and finished.
 */
#include "src/net/kernels/conv3_winograd.h"
#include "src/net/kernels/gemm_outer.h"
#include "src/net/kernels/gemm_tile.h"

#include <string.h>

enum {
    TILE = STK_WINOGRAD_TILE,
    POINTS = STK_WINOGRAD_POINTS,
    LINES = STK_CONV3_LINES,
    LINE = 16, /* floats of memory */
    /* Tiles that memory is fetched before they are read and written. */
    SOURCE_AHEAD = 2,
    RESULTS_AHEAD = 3,
};

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t whole_vectors(size_t channels)
{
    return stk_winograd_round(channels, STK_LANES);
}

/* ---- what is read ---- */

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

/* The sources of a part: a map or planes, `lines` of 6 (x, with a border) or 4 (dy). */
typedef struct reading {
    const stk_conv3_source *source;
    const stk_conv3_part *part;
    int lines;
} reading;

static size_t border_of(const reading *r)
{
    return r->lines == TILE;
}

/* `count` channels of pixels that follow each other, from element `at` of a map on; a vector of lanes each.
 */
STK_INLINE void pixels_typed(const stk_conv3_source *source, size_t at, size_t pixels, size_t count,
                             float *to, stk_float from, stk_float type)
{
    for (size_t i = 0; i < pixels; i++, at += source->stride, to += STK_LANES) {
        const vf value = v_get_part(source->data, at, count, from);
        v_store(to, from == type ? value : rounded(value, type));
    }
}

static void pixels_of_map(const stk_conv3_source *source, size_t at, size_t pixels, size_t count,
                          stk_float type, float *to)
{
    const int wide = source->type == STK_F32;
    if (type == STK_F32)
        pixels_typed(source, at, pixels, count, to, STK_F32, STK_F32);
    else if (type == STK_BF16 && wide)
        pixels_typed(source, at, pixels, count, to, STK_F32, STK_BF16);
    else if (type == STK_BF16)
        pixels_typed(source, at, pixels, count, to, STK_BF16, STK_BF16);
    else if (wide)
        pixels_typed(source, at, pixels, count, to, STK_F32, STK_F16);
    else
        pixels_typed(source, at, pixels, count, to, STK_F16, STK_F16);
}

/* The same from planes. */
static void pixels_of_planes(const float *from, size_t plane, size_t pixels, size_t count, stk_float type,
                             float *to)
{
    for (size_t i = 0; i < pixels; i++) v_store(to + i * STK_LANES, v_zero());
    for (size_t c = 0; c < count; c++, from += plane)
        for (size_t i = 0; i < pixels; i++) to[i * STK_LANES + c] = from[i];
    for (size_t i = 0; type != STK_F32 && i < pixels; i++, to += STK_LANES)
        v_store(to, type == STK_BF16 ? rounded(v_load(to), STK_BF16) : rounded(v_load(to), STK_F16));
}

/* `count` channels from `channel` on of the pixels of a tile, those outside of the map 0, as f32:
 * room[line][column][lane]. */
static void gather_tile(const reading *r, size_t tile, size_t channel, size_t count, stk_float type,
                        float *room)
{
    const stk_conv3_source *source = r->source;
    const stk_conv3_map *map = &r->part->map;
    const size_t lines = (size_t)r->lines, border = border_of(r), plane = (size_t)map->height * map->width;
    const size_t before = tile == 0 && r->part->column == 0 ? border : 0; /* columns outside */
    const size_t x = r->part->column + tile * LINES + before - border;
    const size_t inside = least(lines - before, map->width - x),
                 sample = r->part->image * source->sample_stride;
    for (size_t i = 0; i < lines; i++, room += lines * STK_LANES) {
        const size_t y = r->part->line + i - border, pixel = y * map->width + x;
        if (y >= map->height || before + inside < lines) memset(room, 0, lines * STK_LANES * sizeof *room);
        if (before) v_store(room, v_zero());
        if (y >= map->height) continue; /* above the first line, y is larger than any */
        float *to = room + before * STK_LANES;
        if (source->planar)
            pixels_of_planes((const float *)source->data + sample + channel * plane + pixel, plane, inside,
                             count, type, to);
        else
            pixels_of_map(source, sample + pixel * source->stride + channel, inside, count, type, to);
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

/* A vector of channels of `tiles` neighbouring tiles that lie as numbers of `type`, to their points. */
typedef struct run_of_tiles {
    const void *from;          /* first pixel of the first */
    size_t pixel, line, tiles; /* elements from pixel to pixel and from line to line; number */
    float *to;
    size_t step, next; /* floats from point to point and from tile to tile */
    float *sums;       /* NULL, or where a vector's pixels are added up */
} run_of_tiles;

/* Of x (6 lines) or dy (4). What a line of points along the columns of x says of its last two columns is what
 * the next tile's first two say. */
STK_INLINE void run_to_points(int lines, const run_of_tiles *r, stk_float from, stk_float type)
{
    vf half[TILE][TILE], sum = v_zero();
    for (size_t tile = 0; tile < r->tiles; tile++) {
        float *to = r->to + tile * r->next;
        const size_t at = tile * LINES * r->pixel;
        const int known = lines == TILE && tile ? TILE - LINES : 0;
        STK_UNROLL(6)
        for (int i = 0; i < TILE; i++)
            for (int j = 0; j < known; j++) half[i][j] = half[i][j + LINES];
        STK_UNROLL(6)
        for (int j = 0; j < lines; j++) {
            if (j < known) continue;
            vf column[TILE], t[TILE];
            STK_UNROLL(6)
            for (int i = 0; i < lines; i++) {
                const size_t pixel = at + (size_t)i * r->line + (size_t)j * r->pixel;
                __builtin_prefetch(stk_at(r->from, pixel + SOURCE_AHEAD * LINES * r->pixel, from), 0, 3);
                const vf value = v_get(r->from, pixel, from);
                column[i] = from == type ? value : rounded(value, type);
            }
            if (lines == TILE) {
                x_to_points(column, t);
            } else {
                sum = v_add(sum, v_add(v_add(column[0], column[1]), v_add(column[2], column[3])));
                dy_to_points(column, t);
            }
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
            for (int j = 0; j < TILE; j++, to += r->step) v_store(to, t[j]);
        }
    }
    if (r->sums) v_store(r->sums, v_add(v_load(r->sums), sum));
}

#define RUNS(name, from, type)                                                                               \
    static void x_run_##name(const run_of_tiles *r)                                                          \
    {                                                                                                        \
        run_to_points(TILE, r, from, type);                                                                  \
    }                                                                                                        \
    static void dy_run_##name(const run_of_tiles *r)                                                         \
    {                                                                                                        \
        run_to_points(LINES, r, from, type);                                                                 \
    }
RUNS(f32, STK_F32, STK_F32)
RUNS(bf16, STK_BF16, STK_BF16)
RUNS(f16, STK_F16, STK_F16)
RUNS(f32_as_bf16, STK_F32, STK_BF16)
RUNS(f32_as_f16, STK_F32, STK_F16)
#undef RUNS

typedef void run_fn(const run_of_tiles *r);
/* [dy][16 bits][type of the run] */
static run_fn *const runs[2][2][STK_FLOATS] = {
    { { x_run_f32, x_run_f32_as_bf16, x_run_f32_as_f16 }, { x_run_f32, x_run_bf16, x_run_f16 } },
    { { dy_run_f32, dy_run_f32_as_bf16, dy_run_f32_as_f16 }, { dy_run_f32, dy_run_bf16, dy_run_f16 } },
};

static size_t tiles_of(uint32_t columns)
{
    return (columns + LINES - 1) / LINES;
}

/* The tiles of a part that can be read where they lie: first .. end. */
typedef struct inside {
    size_t first, end;
} inside;

static inside inside_of(const reading *r)
{
    const stk_conv3_part *part = r->part;
    const size_t border = border_of(r), tiles = tiles_of(part->columns);
    inside in = { 0 };
    if (r->source->planar || part->line < border || part->line + LINES + border > part->map.height) return in;
    in.first = part->column < border;
    const size_t left = part->map.width - part->column; /* of the line, from the first tile on */
    in.end = left < border ? 0 : least((left - border) / LINES, tiles);
    if (in.end < in.first) in.end = in.first;
    return in;
}

/* One tile by way of `room`. */
static void tile_to_points(const reading *r, size_t tile, size_t channel, size_t count, stk_float type,
                           float *room, float *sums, const points *to)
{
    gather_tile(r, tile, channel, count, type, room);
    const run_of_tiles one = { .from = room,
                               .pixel = STK_LANES,
                               .line = (size_t)r->lines * STK_LANES,
                               .tiles = 1,
                               .to = to->at + tile * to->channels + channel,
                               .step = to->step,
                               .next = to->channels,
                               .sums = sums };
    (r->lines == TILE ? x_run_f32 : dy_run_f32)(&one);
}

/* All channels of a part of x or dy to their points; sums NULL, or where to add up dy. */
static void source_to_points(const reading *r, stk_float type, size_t channels, float *sums, const points *to)
{
    float room[TILE * TILE * STK_LANES];
    const stk_conv3_source *source = r->source;
    const stk_conv3_part *part = r->part;
    const size_t tiles = tiles_of(part->columns), border = border_of(r);
    const size_t line = part->map.width * source->stride;
    const inside in = inside_of(r);
    for (size_t channel = 0; channel < channels; channel += STK_LANES) {
        const size_t count = least(channels - channel, STK_LANES);
        float *sum = sums ? sums + channel : NULL;
        const inside where = count == STK_LANES ? in : (inside){ 0 };
        for (size_t tile = 0; tile < where.first; tile++)
            tile_to_points(r, tile, channel, count, type, room, sum, to);
        if (where.end > where.first) {
            const size_t column = part->column + where.first * LINES - border;
            const size_t at = part->image * source->sample_stride + (part->line - border) * line +
                              column * source->stride + channel;
            runs[r->lines == LINES][source->type != STK_F32][type](
                &(run_of_tiles){ .from = stk_at(source->data, at, source->type),
                                 .pixel = source->stride,
                                 .line = line,
                                 .tiles = where.end - where.first,
                                 .to = to->at + where.first * to->channels + channel,
                                 .step = to->step,
                                 .next = to->channels,
                                 .sums = sum });
        }
        for (size_t tile = where.end; tile < tiles; tile++)
            tile_to_points(r, tile, channel, count, type, room, sum, to);
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
        STK_WITH_HEIGHT(height, CASE)
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

/* Lines of memory where the results of a tile at `pixel` go, and of what joins them. Without this the stores
 * of a map that no cache holds wait: 17.0 against 15.1 thousand cycles for a tile of 96 -> 96. */
STK_INLINE void fetch_results(const stk_conv3_product *p, size_t pixel, size_t lines, size_t output,
                              stk_float type, stk_float to)
{
    const stk_conv3_finish *f = p->finish;
    for (size_t i = 0; i < lines; i++)
        for (size_t j = 0; j < LINES; j++) {
            const size_t at = (pixel + i * p->part.map.width + j) * f->stride + output;
            __builtin_prefetch(stk_at(p->y, at, to), 1, 3);
            if (f->residual && f->residual != p->y) __builtin_prefetch(f->residual + at, 0, 3);
            if (f->gate) __builtin_prefetch(stk_at(f->gate, at, type), 0, 3);
        }
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
        fetch_results(p, first + (tile + RESULTS_AHEAD) * LINES, lines, output, type, to);
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
    return (points_floats(tiles, whole_vectors(in)) + points_floats(tiles, 2 * STK_LANES)) * sizeof(float);
}

STK_INLINE void multiply(const stk_conv3_product *p, void *scratch, stk_float type)
{
    const size_t tiles = tiles_of(p->part.columns), channels = whole_vectors(p->in);
    const points x = { scratch, points_step(tiles, channels), channels };
    float *sums = x.at + points_floats(tiles, channels);
    source_to_points(&(reading){ p->x, &p->part, TILE }, type, p->in, NULL, &x);
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
    return (points_floats(tiles, whole_vectors(in)) + points_floats(tiles, whole_vectors(out))) *
           sizeof(float);
}

STK_INLINE void outer(const stk_conv3_outer *o, void *scratch, stk_float type)
{
    const size_t tiles = tiles_of(o->part.columns), in = whole_vectors(o->in), out = whole_vectors(o->out);
    const points x = { scratch, points_step(tiles, in), in };
    const points dy = { x.at + points_floats(tiles, in), points_step(tiles, out), out };
    source_to_points(&(reading){ o->x, &o->part, TILE }, type, o->in, NULL, &x);
    source_to_points(&(reading){ o->dy, &o->part, LINES }, type, o->out, o->sums + POINTS * o->in * out, &dy);
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
