/* SPDX-License-Identifier: Apache-2.0
 *
 * conv3: the reference in C, tap by tap.
 */
#include "src/net/kernels/net_table.h"

#include <string.h>

enum { BLOCK = 16 /* outputs summed together */ };

static size_t round_up(size_t size, size_t to)
{
    return (size + to - 1) / to * to;
}

/* Packed: the bias, then [block of outputs][tap][input][BLOCK], all padded with zeros. */
static size_t packed_bytes(uint32_t in, uint32_t out)
{
    return round_up(out, BLOCK) * (1 + 9 * (size_t)in) * sizeof(float);
}

static const float *block_at(const void *packed, uint32_t in, uint32_t out, uint32_t first)
{
    return (const float *)packed + round_up(out, BLOCK) + (size_t)first * 9 * in;
}

static float rounded(float value, stk_float type)
{
    uint16_t bits;
    if (type == STK_F32) return value;
    stk_put(&bits, 0, value, type);
    return stk_get(&bits, 0, type);
}

static void pack(const stk_conv3_masters *m, uint32_t first, uint32_t count, void *packed, stk_float type)
{
    float *bias = packed;
    const size_t end = first + count == m->out ? round_up(m->out, BLOCK) : first + count;
    for (size_t o = first; o < end; o++) {
        bias[o] = m->bias && o < m->out ? m->bias[o] : 0.0f;
        float *to = bias + round_up(m->out, BLOCK) + o / BLOCK * BLOCK * 9 * m->in + o % BLOCK;
        for (size_t tap = 0; tap < 9; tap++)
            for (size_t i = 0; i < m->in; i++, to += BLOCK) {
                const size_t at = m->turned ? (i * m->out + o) * 9 + 8 - tap : (o * m->in + i) * 9 + tap;
                *to = o < m->out ? rounded(m->weight[at], type) : 0.0f;
            }
    }
}

static size_t no_scratch(uint32_t in, uint32_t out, uint32_t columns)
{
    (void)in, (void)out, (void)columns;
    return 0;
}

/* The pixel that tap `tap` of output pixel (y, x) takes; 0: outside of the map. */
static int taken(const stk_conv3_map *map, size_t y, size_t x, size_t tap, size_t *line, size_t *column)
{
    *line = y + tap / 3 - 1; /* above the first line: larger than any */
    *column = x + tap % 3 - 1;
    return *line < map->height && *column < map->width;
}

static float element(const stk_conv3_source *source, const stk_conv3_map *map, size_t image, size_t y,
                     size_t x, size_t channel, stk_float type)
{
    const size_t sample = image * source->sample_stride, pixel = y * map->width + x;
    if (source->planar)
        return rounded(((const float *)source->data)[sample + channel * map->height * map->width + pixel],
                       type);
    const float value = stk_get(source->data, sample + pixel * source->stride + channel, source->type);
    return source->type == STK_F32 ? rounded(value, type) : value;
}

static size_t end_of(size_t first, size_t count, size_t size)
{
    return first + count < size ? first + count : size;
}

static void finish(const stk_conv3_product *p, const float *sum, size_t pixel, size_t first, stk_float type)
{
    const stk_conv3_finish *f = p->finish;
    for (size_t o = first; o < p->out && o < first + BLOCK; o++) {
        const size_t at = pixel * f->stride + o;
        float value = sum[o - first] * f->scale;
        if (f->relu && value < 0) value = 0;
        if (f->gate && !(stk_get(f->gate, at, type) > 0)) value = 0;
        if (f->residual) value += f->residual[at];
        stk_put(p->y, at, value, f->type);
    }
}

static void multiply_pixel(const stk_conv3_product *p, size_t y, size_t x, stk_float type)
{
    const stk_conv3_map *map = &p->part.map;
    for (uint32_t first = 0; first < p->out; first += BLOCK) {
        const float *weight = block_at(p->packed, p->in, p->out, first);
        float sum[BLOCK];
        memcpy(sum, (const float *)p->packed + first, sizeof sum);
        for (size_t tap = 0; tap < 9; tap++, weight += (size_t)p->in * BLOCK) {
            size_t line, column;
            if (!taken(map, y, x, tap, &line, &column)) continue;
            for (size_t i = 0; i < p->in; i++) {
                const float a = element(p->x, map, p->part.image, line, column, i, type);
                for (size_t o = 0; o < BLOCK; o++) sum[o] += a * weight[i * BLOCK + o];
            }
        }
        finish(p, sum, ((size_t)p->part.image * map->height + y) * map->width + x, first, type);
    }
}

static void multiply(const stk_conv3_product *p, void *scratch, stk_float type)
{
    (void)scratch;
    const stk_conv3_part *part = &p->part;
    for (size_t y = part->line; y < end_of(part->line, STK_CONV3_LINES, part->map.height); y++)
        for (size_t x = part->column; x < end_of(part->column, part->columns, part->map.width); x++)
            multiply_pixel(p, y, x, type);
}

/* Sums: [tap][in][out], then the bias. */
static size_t sums(uint32_t in, uint32_t out)
{
    return round_up((9 * (size_t)in + 1) * out, 16);
}

static void outer_pixel(const stk_conv3_outer *o, size_t y, size_t x, stk_float type)
{
    const stk_conv3_map *map = &o->part.map;
    float *bias = o->sums + (size_t)9 * o->in * o->out, dy[BLOCK];
    for (size_t first = 0; first < o->out; first += BLOCK) {
        const size_t count = end_of(first, BLOCK, o->out) - first;
        for (size_t j = 0; j < count; j++) {
            dy[j] = element(o->dy, map, o->part.image, y, x, first + j, type);
            bias[first + j] += dy[j];
        }
        for (size_t tap = 0; tap < 9; tap++) {
            size_t line, column;
            if (!taken(map, y, x, tap, &line, &column)) continue;
            for (size_t i = 0; i < o->in; i++) {
                const float a = element(o->x, map, o->part.image, line, column, i, type);
                float *to = o->sums + (tap * o->in + i) * o->out + first;
                for (size_t j = 0; j < count; j++) to[j] += a * dy[j];
            }
        }
    }
}

static void outer(const stk_conv3_outer *o, void *scratch, stk_float type)
{
    (void)scratch;
    const stk_conv3_part *part = &o->part;
    for (size_t y = part->line; y < end_of(part->line, STK_CONV3_LINES, part->map.height); y++)
        for (size_t x = part->column; x < end_of(part->column, part->columns, part->map.width); x++)
            outer_pixel(o, y, x, type);
}

static void gradient(const stk_conv3_gradient *g, uint32_t first, uint32_t count)
{
    const float *bias = g->sums + (size_t)9 * g->in * g->out;
    for (size_t o = first; o < first + count; o++) {
        if (g->d_bias) g->d_bias[o] = (g->add ? g->d_bias[o] : 0.0f) + g->scale * bias[o];
        for (size_t k = 0; g->d_weight && k < (size_t)9 * g->in; k++) {
            float *to = g->d_weight + (o * g->in + k % g->in) * 9 + k / g->in;
            *to = (g->add ? *to : 0.0f) + g->scale * g->sums[k * g->out + o];
        }
    }
}

STK_TYPED(pack, (const stk_conv3_masters *m, uint32_t first, uint32_t count, void *packed), m, first, count,
          packed)
STK_TYPED(multiply, (const stk_conv3_product *p, void *scratch), p, scratch)
STK_TYPED(outer, (const stk_conv3_outer *o, void *scratch), o, scratch)

void stk_conv3_fill_c(stk_conv3_table *table)
{
    *table = (stk_conv3_table){ .packed_bytes = packed_bytes,
                                .pack = STK_OF_TYPES(pack),
                                .multiply_scratch = no_scratch,
                                .outer_scratch = no_scratch,
                                .multiply = STK_OF_TYPES(multiply),
                                .sums = sums,
                                .outer = STK_OF_TYPES(outer),
                                .gradient = gradient };
}
