/* SPDX-License-Identifier: Apache-2.0
 *
 * Trials of the decode head.
 */
#include <math.h>
#include <stdio.h>

#include "tests/check/net_check.h"

static uint32_t draw_size(net_try *t)
{
    return 32 * net_between(t, 1, 4);
}

/* ---- lines ---- */

/* Bilinear interpolation from `small` to `large` samples, centres aligned, as torch does it. */
static stk_head_upsample draw_stretch(net_try *t, uint32_t small, uint32_t large)
{
    stk_head_upsample s = { .small = small, .large = large };
    s.taps = net_array(t, STK_F32, large * sizeof *s.taps / sizeof(float));
    s.spreads = net_array(t, STK_F32, small * sizeof *s.spreads / sizeof(float));
    s.weights = net_array(t, STK_F32, 2 * (size_t)large);
    for (uint32_t i = 0; i < large; i++) {
        const double at = fmax((i + 0.5) * small / large - 0.5, 0);
        const uint32_t a = (uint32_t)at, b = a + 1 < small ? a + 1 : a;
        s.taps[i] = (stk_head_tap){ a, b, (float)(1 - (at - a)), (float)(at - a) };
    }
    uint32_t used = 0;
    for (uint32_t j = 0; j < small; j++) {
        stk_head_spread *spread = &s.spreads[j];
        *spread = (stk_head_spread){ .at = used };
        for (uint32_t i = 0; i < large; i++) {
            const stk_head_tap tap = s.taps[i];
            if (tap.a != j && tap.b != j) continue;
            if (!spread->count++) spread->first = i;
            s.weights[used++] = (tap.a == j ? tap.a_weight : 0) + (tap.b == j ? tap.b_weight : 0);
        }
    }
    return s;
}

static int try_mix(const net_trial *trial, net_try *t)
{
    const stk_float type = (stk_float)trial->variant;
    const size_t count = (size_t)draw_size(t) * net_between(t, 1, 4);
    const void *a = net_array(t, type, count), *b = net_array(t, type, count);
    const float weight = (net_number(t) + 1) / 2;
    const net_pair out = net_arrays(t, STK_F32, count);
    snprintf(t->text, sizeof t->text, "%zu elements", count);
    for (int who = 0; who < NET_BOTH; who++)
        t->table[who]->head.mix[type](count, a, 1 - weight, b, weight, out.of[who]);
    return net_agree(t, "out", out, STK_F32, count, 1e-6);
}

typedef struct line_shape {
    stk_head_line line;
    stk_head_upsample across[STK_SMALLER];
    size_t elements;
} line_shape;

static void draw_line(net_try *t, line_shape *s)
{
    s->line = (stk_head_line){ .size = draw_size(t), .width = net_between(t, 1, 19) };
    s->elements = (size_t)s->line.size * s->line.width;
    s->line.base = net_array(t, STK_F32, s->elements);
    for (int i = 0; i < STK_SMALLER; i++) {
        const uint32_t small = net_between(t, 1, s->line.width);
        s->across[i] = draw_stretch(t, small, s->line.width);
        s->line.across[i] = &s->across[i];
        s->line.low[i] = net_array(t, STK_F32, (size_t)small * s->line.size);
    }
    snprintf(t->text, sizeof t->text, "%u channels, width %u from %u, %u, %u", s->line.size, s->line.width,
             s->across[0].small, s->across[1].small, s->across[2].small);
}

/* A shift is a value of the line, so sums about it are those of either table to rounding. */
static int try_line(const net_trial *trial, net_try *t)
{
    const stk_float type = (stk_float)trial->variant;
    line_shape s;
    draw_line(t, &s);
    const size_t size = s.line.size;
    const int first = (int)net_below(t, 2);
    const net_pair moments = net_arrays(t, STK_F32, 3 * size), y = net_arrays(t, type, s.elements);
    for (int who = 0; who < NET_BOTH; who++)
        t->table[who]->head.line[type](&s.line, first, moments.of[who], y.of[who]);
    return net_agree(t, "moments", moments, STK_F32, 3 * size, net_allowed(STK_F32)) &&
           net_agree(t, "y", y, type, s.elements, net_allowed(type));
}

static int try_line_relu(const net_trial *trial, net_try *t)
{
    const stk_float type = (stk_float)trial->variant;
    line_shape s;
    draw_line(t, &s);
    const net_pair y = net_arrays(t, type, s.elements);
    for (int who = 0; who < NET_BOTH; who++) t->table[who]->head.line_relu[type](&s.line, y.of[who]);
    return net_agree(t, "y", y, type, s.elements, net_allowed(type));
}

static int try_spread(const net_trial *trial, net_try *t)
{
    const stk_float type = (stk_float)trial->variant;
    const uint32_t size = draw_size(t), large = net_between(t, 1, 19), small = net_between(t, 1, large);
    const stk_head_upsample across = draw_stretch(t, small, large);
    const size_t elements = (size_t)small * size;
    const void *dy = net_array(t, type, (size_t)large * size);
    const float weight = (net_number(t) + 1) / 2;
    const int one = (int)net_below(t, 2); /* a and b are one line at the edge of the map */
    const net_pair a = net_arrays(t, STK_F32, elements), b = net_arrays(t, STK_F32, elements);
    snprintf(t->text, sizeof t->text, "%u channels, %u from %u, one line %d", size, small, large, one);
    for (int who = 0; who < NET_BOTH; who++)
        t->table[who]->head.spread[type](&across, size, dy, 1 - weight, a.of[who], weight,
                                         one ? a.of[who] : b.of[who]);
    return net_agree(t, "a", a, STK_F32, elements, net_allowed(STK_F32)) &&
           net_agree(t, "b", b, STK_F32, elements, net_allowed(STK_F32));
}

static int try_join(const net_trial *trial, net_try *t)
{
    const stk_float type = (stk_float)trial->variant;
    const size_t count = net_between(t, 1, 300);
    const float *apart = net_array(t, STK_F32, count),
                *b = net_below(t, 2) ? net_array(t, STK_F32, count) : NULL;
    const net_pair out = net_arrays(t, type, count);
    const int in_place = type == STK_F32 && net_below(t, 2);
    snprintf(t->text, sizeof t->text, "%zu elements, two %d, in place %d", count, b != NULL, in_place);
    for (int who = 0; who < NET_BOTH; who++)
        t->table[who]->head.join[type](count, in_place ? out.of[who] : apart, b, out.of[who]);
    return net_agree(t, "out", out, type, count, 0);
}

/* ---- batch norm, ReLU, dropout ---- */

typedef struct norm_shape {
    stk_head_norm norm;
    size_t row, rows, elements;
    const void *y;
} norm_shape;

static norm_shape draw_norm(net_try *t, stk_float type)
{
    norm_shape s = { .norm = { .size = draw_size(t),
                               .seed = net_below(t, 1u << 31),
                               .threshold = net_below(t, 2) ? net_below(t, 60000) : 0,
                               .keep = 1.25f },
                     .row = net_below(t, 100000),
                     .rows = net_between(t, 1, 9) };
    s.norm.mean = net_array(t, STK_F32, s.norm.size);
    s.norm.scale = net_array(t, STK_F32, s.norm.size);
    s.norm.shift = net_array(t, STK_F32, s.norm.size);
    s.elements = s.rows * s.norm.size;
    s.y = net_array(t, type, s.elements);
    snprintf(t->text, sizeof t->text, "%zu rows of %u channels, threshold %u", s.rows, s.norm.size,
             s.norm.threshold);
    return s;
}

static int try_activate(const net_trial *trial, net_try *t)
{
    const stk_float type = (stk_float)trial->variant;
    const norm_shape s = draw_norm(t, type);
    const net_pair r = net_arrays(t, type, s.elements);
    for (int who = 0; who < NET_BOTH; who++)
        t->table[who]->head.activate[type](&s.norm, s.row, s.rows, s.y, r.of[who]);
    return net_agree(t, "r", r, type, s.elements, net_allowed(type));
}

static int try_activate_back(const net_trial *trial, net_try *t)
{
    const stk_float type = (stk_float)trial->variant;
    const norm_shape s = draw_norm(t, type);
    const float *dr = net_array(t, STK_F32, s.elements);
    const net_pair r = net_arrays(t, type, s.elements), g = net_arrays(t, type, s.elements),
                   sums = net_arrays(t, STK_F32, 2 * s.norm.size);
    for (int who = 0; who < NET_BOTH; who++)
        t->table[who]->head.activate_back[type](&s.norm, s.row, s.rows, s.y, dr, r.of[who], g.of[who],
                                                sums.of[who]);
    return net_agree(t, "r", r, type, s.elements, net_allowed(type)) &&
           net_agree(t, "g", g, type, s.elements, net_allowed(type)) &&
           net_agree(t, "sums", sums, STK_F32, 2 * s.norm.size, net_allowed(STK_F32));
}

static int try_norm_back(const net_trial *trial, net_try *t)
{
    const stk_float type = (stk_float)trial->variant;
    const uint32_t size = draw_size(t);
    const size_t rows = net_between(t, 1, 9), elements = rows * size;
    const stk_head_norm_back back = { .size = size,
                                      .mean = net_array(t, STK_F32, size),
                                      .gain = net_array(t, STK_F32, size),
                                      .g_mean = net_array(t, STK_F32, size),
                                      .slope = net_array(t, STK_F32, size) };
    const void *y = net_array(t, type, elements), *g = net_array(t, type, elements);
    const net_pair dy = net_arrays(t, type, elements);
    snprintf(t->text, sizeof t->text, "%zu rows of %u channels", rows, size);
    for (int who = 0; who < NET_BOTH; who++)
        t->table[who]->head.norm_back[type](&back, rows, y, g, dy.of[who]);
    return net_agree(t, "dy", dy, type, elements, net_allowed(type));
}

static const net_trial trials[] = {
    NET_TRIALS_BY_TYPE("head.mix", head.mix, try_mix),
    NET_TRIALS_BY_TYPE("head.line", head.line, try_line),
    NET_TRIALS_BY_TYPE("head.line_relu", head.line_relu, try_line_relu),
    NET_TRIALS_BY_TYPE("head.activate", head.activate, try_activate),
    NET_TRIALS_BY_TYPE("head.activate_back", head.activate_back, try_activate_back),
    NET_TRIALS_BY_TYPE("head.norm_back", head.norm_back, try_norm_back),
    NET_TRIALS_BY_TYPE("head.spread", head.spread, try_spread),
    NET_TRIALS_BY_TYPE("head.join", head.join, try_join),
};

const net_section net_section_head = { trials, sizeof trials / sizeof *trials, NULL, 0 };
