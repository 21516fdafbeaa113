/* SPDX-License-Identifier: Apache-2.0
 *
 * Trials of the 3x3 convolution. The forms of packed weights and of sums are the column's own, so packing and
 * multiplying are tried together, and so are sums and gradients; parts of an image are cut at random.
 */
#include <stdio.h>
#include <string.h>

#include "tests/check/net_check.h"

typedef struct shape {
    stk_conv3_map map;
    uint32_t in, out, columns; /* columns of a part */
    size_t pixels;
} shape;

static shape draw(net_try *t)
{
    shape s = { .map = { net_between(t, 1, 2), net_between(t, 1, 9), net_between(t, 1, 19) },
                .in = net_between(t, 1, 40),
                .out = net_between(t, 1, 40),
                .columns = 4 * net_between(t, 1, 5) };
    s.pixels = (size_t)s.map.batch * s.map.height * s.map.width;
    snprintf(t->text, sizeof t->text, "%u maps of %u x %u, %u -> %u, %u columns", s.map.batch, s.map.height,
             s.map.width, s.in, s.out, s.columns);
    return s;
}

/* A map of f32 or of `type`, or planes. */
static stk_conv3_source draw_source(net_try *t, const shape *s, uint32_t channels, stk_float type)
{
    const size_t area = (size_t)s->map.height * s->map.width;
    stk_conv3_source source = { .type = net_below(t, 2) ? type : STK_F32, .planar = !net_below(t, 3) };
    if (source.planar) source.type = STK_F32;
    source.stride = channels + net_below(t, 2) * net_below(t, 9);
    source.sample_stride = area * (source.planar ? channels : source.stride) + net_below(t, 5);
    const size_t last = source.planar ? area * channels : (area - 1) * source.stride + channels;
    source.data = net_array(t, source.type, (s->map.batch - 1) * source.sample_stride + last);
    return source;
}

static stk_conv3_part part_of(const shape *s, uint32_t image, uint32_t line, uint32_t column)
{
    const uint32_t left = s->map.width - column;
    return (stk_conv3_part){ s->map, image, line, column, left < s->columns ? left : s->columns };
}

#define EVERY_PART(s, image, line, column)                                                                   \
    for (uint32_t image = 0; image < (s).map.batch; image++)                                                 \
        for (uint32_t line = 0; line < (s).map.height; line += STK_CONV3_LINES)                              \
            for (uint32_t column = 0; column < (s).map.width; column += (s).columns)

static void *pack(net_try *t, const stk_conv3_table *table, const stk_conv3_masters *masters, stk_float type)
{
    void *packed = net_room(t, table->packed_bytes(masters->in, masters->out));
    for (uint32_t first = 0; first < masters->out; first += 32)
        table->pack[type](masters, first, masters->out - first < 32 ? masters->out - first : 32, packed);
    return packed;
}

static stk_conv3_masters draw_masters(net_try *t, const shape *s)
{
    return (stk_conv3_masters){ .in = s->in,
                                .out = s->out,
                                .weight = net_array(t, STK_F32, (size_t)s->in * s->out * 9),
                                .bias = net_below(t, 2) ? net_array(t, STK_F32, s->out) : NULL,
                                .turned = (int)net_below(t, 2) };
}

/* All parts of a map. */
static void multiply(net_try *t, const stk_conv3_table *table, const shape *s, stk_conv3_product *p,
                     stk_float type)
{
    void *scratch = net_room(t, table->multiply_scratch(s->in, s->out, s->columns));
    EVERY_PART(*s, image, line, column)
    {
        p->part = part_of(s, image, line, column);
        table->multiply[type](p, scratch);
    }
}

/* Transforms of 4 x 4 pixels round more than plain sums (conv3_winograd.h): of 120 runs the worst was 0.94 of
 * the usual 1e-5, and one of a thousand is beyond it. */
static double allowed_of(stk_float type)
{
    return type == STK_F32 ? 3e-5 : net_allowed(type);
}

static int try_multiply(const net_trial *trial, net_try *t)
{
    const stk_float type = (stk_float)trial->variant;
    const shape s = draw(t);
    const stk_conv3_source x = draw_source(t, &s, s.in, type);
    const stk_conv3_masters masters = draw_masters(t, &s);
    stk_conv3_finish finish = { .type = net_below(t, 2) ? type : STK_F32,
                                .stride = s.out + net_below(t, 2) * net_below(t, 9),
                                .scale = net_below(t, 2) ? 1 : net_number(t),
                                .relu = (int)net_below(t, 2) };
    const size_t elements = (s.pixels - 1) * finish.stride + s.out;
    if (net_below(t, 2)) finish.gate = net_array(t, type, elements);
    const uint32_t residual = net_below(t, finish.type == STK_F32 ? 3 : 2); /* none, apart, y itself */
    const float *apart = net_array(t, STK_F32, elements);
    const net_pair y = net_arrays(t, finish.type, elements);
    for (int who = 0; who < NET_BOTH; who++) {
        const stk_conv3_table *table = &t->table[who]->conv3;
        finish.residual = residual == 0 ? NULL : residual == 1 ? apart : y.of[who];
        stk_conv3_product p = { .in = s.in, .out = s.out, .x = &x, .finish = &finish, .y = y.of[who] };
        p.packed = pack(t, table, &masters, type);
        multiply(t, table, &s, &p, type);
    }
    return net_agree(t, "y", y, finish.type, elements, allowed_of(finish.type));
}

/* The same bits however an image is cut: the table promises it. Of the column alone. */
static int same_however_cut(const net_trial *trial, net_try *t)
{
    const stk_float type = (stk_float)trial->variant;
    const stk_conv3_table *table = &t->table[NET_COLUMN]->conv3;
    shape s = draw(t);
    const stk_conv3_source x = draw_source(t, &s, s.in, type);
    const stk_conv3_masters masters = draw_masters(t, &s);
    const stk_conv3_finish finish = { .type = STK_F32, .stride = s.out, .scale = 1 };
    const net_pair y = net_arrays(t, STK_F32, s.pixels * s.out);
    for (int who = 0; who < NET_BOTH; who++) {
        stk_conv3_product p = { .in = s.in, .out = s.out, .x = &x, .finish = &finish, .y = y.of[who] };
        p.packed = pack(t, table, &masters, type);
        multiply(t, table, &s, &p, type);
        s.columns = 4 * net_between(t, 1, 5);
    }
    return net_agree(t, "y in other parts", y, STK_F32, s.pixels * s.out, 0);
}

static int try_multiply_and_cut(const net_trial *trial, net_try *t)
{
    if (!try_multiply(trial, t)) return 0;
    net_release(t);
    return same_however_cut(trial, t);
}

/* Gradients amplify rounding most (conv3_winograd.h): 2e-6 of their norm, elements several times that. */
static int try_outer(const net_trial *trial, net_try *t)
{
    const stk_float type = (stk_float)trial->variant;
    const shape s = draw(t);
    const stk_conv3_source x = draw_source(t, &s, s.in, type), dy = draw_source(t, &s, s.out, type);
    const size_t weights = (size_t)s.in * s.out * 9;
    const net_pair d_weight = net_arrays(t, STK_F32, weights), d_bias = net_arrays(t, STK_F32, s.out);
    stk_conv3_gradient g = { .in = s.in, .out = s.out, .scale = net_number(t), .add = (int)net_below(t, 2) };
    const int which = (int)net_below(t, 4); /* both, both, one of them */
    const uint32_t cut = net_between(t, 1, s.out);
    for (int who = 0; who < NET_BOTH; who++) {
        const stk_conv3_table *table = &t->table[who]->conv3;
        void *scratch = net_room(t, table->outer_scratch(s.in, s.out, s.columns));
        const size_t floats = table->sums(s.in, s.out);
        float *sums = net_room(t, floats * sizeof(float));
        memset(sums, 0, floats * sizeof(float));
        stk_conv3_outer o = { .in = s.in, .out = s.out, .x = &x, .dy = &dy, .sums = sums };
        EVERY_PART(s, image, line, column)
        {
            o.part = part_of(&s, image, line, column);
            table->outer[type](&o, scratch);
        }
        g.sums = sums;
        g.d_weight = which == 2 ? NULL : d_weight.of[who];
        g.d_bias = which == 3 ? NULL : d_bias.of[who];
        for (uint32_t first = 0; first < s.out; first += cut)
            table->gradient(&g, first, s.out - first < cut ? s.out - first : cut);
    }
    return net_agree(t, "d_weight", d_weight, STK_F32, weights, 4 * net_allowed(STK_F32)) &&
           net_agree(t, "d_bias", d_bias, STK_F32, s.out, net_allowed(STK_F32));
}

#define ENTRY(member, once)                                                                                  \
    {                                                                                                        \
        "conv3." #member, offsetof(stk_net_table, conv3.member), STK_F32, once                               \
    }
static const net_trial trials[] = { ENTRY(packed_bytes, try_multiply),
                                    ENTRY(multiply_scratch, try_multiply),
                                    ENTRY(outer_scratch, try_outer),
                                    ENTRY(sums, try_outer),
                                    ENTRY(gradient, try_outer),
                                    NET_TRIALS_BY_TYPE("conv3.pack", conv3.pack, try_multiply),
                                    NET_TRIALS_BY_TYPE("conv3.multiply", conv3.multiply,
                                                       try_multiply_and_cut),
                                    NET_TRIALS_BY_TYPE("conv3.outer", conv3.outer, try_outer) };

const net_section net_section_conv3 = { trials, sizeof trials / sizeof *trials, NULL, 0 };
