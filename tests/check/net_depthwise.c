/* SPDX-License-Identifier: Apache-2.0
 *
 * Trials of the depthwise convolution with GELU. The order of a line of slopes is the column's own, so
 * `slope` and `backward` are tried together.
 */
#include <stdio.h>

#include "tests/check/net_check.h"

/* h2 is rounded to the type before GELU sees it: one step of it, and one of the result. */
static double allowed(stk_float type)
{
    return type == STK_F32 ? 2e-5 : 2 * net_allowed(type);
}

typedef struct shape {
    stk_depthwise layer;
    stk_depthwise_line_part part;
    stk_depthwise_line_around around;
    size_t line; /* elements */
} shape;

static shape draw(net_try *t, stk_float type)
{
    shape s = { .layer.channels = 8 * net_between(t, 1, 12), .part.width = net_between(t, 1, 11) };
    const uint32_t channels = s.layer.channels;
    s.line = (size_t)s.part.width * channels;
    s.layer.packed = net_array(t, STK_F32, 10 * channels);
    s.part.channel = 16 * net_below(t, (channels + 15) / 16);
    s.part.channels = channels - s.part.channel;
    if (s.part.channels > 16 && net_below(t, 2))
        s.part.channels = 16 * net_between(t, 1, s.part.channels / 16);
    s.part.column = net_below(t, s.part.width);
    s.part.columns = net_between(t, 1, s.part.width - s.part.column);
    for (int i = 0; i < 3; i++)
        if (i == 1 || net_below(t, 4)) s.around.line[i] = net_array(t, type, s.line);
    snprintf(t->text, sizeof t->text, "%u channels, width %u, columns %u + %u, channels %u + %u, lines %d %d",
             channels, s.part.width, s.part.column, s.part.columns, s.part.channel, s.part.channels,
             s.around.line[0] != NULL, s.around.line[2] != NULL);
    return s;
}

static int try_forward(const net_trial *trial, net_try *t)
{
    const stk_float type = (stk_float)trial->variant;
    const shape s = draw(t, type);
    const size_t start = (size_t)s.part.column * s.layer.channels;
    const net_pair h3 = net_arrays(t, type, s.line);
    for (int who = 0; who < NET_BOTH; who++)
        t->table[who]->depthwise.forward[type](&s.layer, &s.part, &s.around, stk_at(h3.of[who], start, type));
    return net_agree(t, "h3", h3, type, s.line, allowed(type));
}

static int try_slopes(const net_trial *trial, net_try *t)
{
    const stk_float type = (stk_float)trial->variant;
    shape s = draw(t, type);
    s.part.column = 0;
    s.part.columns = s.part.width;
    const size_t floats = stk_slope_floats(s.part.width, s.part.channels), sums = 10 * s.layer.channels;
    const void *dh3[3];
    for (int i = 0; i < 3; i++) dh3[i] = net_array(t, type, s.line);
    const net_pair dh1 = net_arrays(t, type, s.line), sum = net_arrays(t, STK_F32, sums);
    const int sums_wanted = (int)net_below(t, 2), ended = (int)net_below(t, 2);
    for (int who = 0; who < NET_BOTH; who++) {
        float *line[3];
        for (int i = 0; i < 3; i++) {
            line[i] = net_room(t, floats * sizeof(float));
            t->table[who]->depthwise.slope[type](&s.layer, &s.part, &s.around, dh3[i], line[i]);
        }
        if (ended) /* below the map: zeros */
            for (size_t i = 0; i < floats; i++) line[2][i] = 0;
        const float *const t3[3] = { line[0], line[1], line[2] };
        t->table[who]->depthwise.backward[type](&s.layer, &s.part, t3, s.around.line[1], dh1.of[who],
                                                sums_wanted ? sum.of[who] : NULL);
    }
    return net_agree(t, "dh1", dh1, type, s.line, allowed(type)) &&
           net_agree(t, "sums", sum, STK_F32, sums, allowed(type));
}

static const net_trial trials[] = {
    NET_TRIALS_BY_TYPE("depthwise.forward", depthwise.forward, try_forward),
    NET_TRIALS_BY_TYPE("depthwise.slope", depthwise.slope, try_slopes),
    NET_TRIALS_BY_TYPE("depthwise.backward", depthwise.backward, try_slopes),
};

const net_section net_section_depthwise = { trials, sizeof trials / sizeof *trials, NULL, 0 };
