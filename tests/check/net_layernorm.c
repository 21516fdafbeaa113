/* SPDX-License-Identifier: Apache-2.0
 *
 * Trials of the layer normalisation.
 */
#include <stdio.h>

#include "tests/check/net_check.h"

typedef struct shape {
    stk_layernorm norm;
    size_t rows, elements;
    const float *x;
} shape;

static shape draw(net_try *t)
{
    shape s = { .norm = { .channels = 8 * net_between(t, 1, 40), .eps = 1e-5f },
                .rows = net_between(t, 1, 9) };
    s.elements = s.rows * s.norm.channels;
    s.norm.gamma = net_array(t, STK_F32, s.norm.channels);
    s.norm.beta = net_array(t, STK_F32, s.norm.channels);
    s.x = net_array(t, STK_F32, s.elements);
    snprintf(t->text, sizeof t->text, "%zu rows of %u channels", s.rows, s.norm.channels);
    return s;
}

static int try_stats(const net_trial *trial, net_try *t)
{
    (void)trial;
    const shape s = draw(t);
    const net_pair stats = net_arrays(t, STK_F32, 2 * s.rows);
    for (int who = 0; who < NET_BOTH; who++)
        t->table[who]->layernorm.stats(&s.norm, s.rows, s.x, stats.of[who]);
    return net_agree(t, "stats", stats, STK_F32, 2 * s.rows, net_allowed(STK_F32));
}

static int try_forward(const net_trial *trial, net_try *t)
{
    const stk_float type = (stk_float)trial->variant;
    const shape s = draw(t);
    const net_pair stats = net_arrays(t, STK_F32, 2 * s.rows), y = net_arrays(t, type, s.elements);
    for (int who = 0; who < NET_BOTH; who++)
        t->table[who]->layernorm.forward[type](&s.norm, s.rows, s.x, stats.of[who], y.of[who]);
    return net_agree(t, "stats", stats, STK_F32, 2 * s.rows, net_allowed(STK_F32)) &&
           net_agree(t, "y", y, type, s.elements, net_allowed(type));
}

static int try_apply(const net_trial *trial, net_try *t)
{
    const stk_float type = (stk_float)trial->variant;
    const shape s = draw(t);
    const float *stats = net_array(t, STK_F32, 2 * s.rows);
    const net_pair y = net_arrays(t, type, s.elements);
    for (int who = 0; who < NET_BOTH; who++)
        t->table[who]->layernorm.apply[type](&s.norm, s.rows, s.x, stats, y.of[who]);
    return net_agree(t, "y", y, type, s.elements, net_allowed(type));
}

static int try_backward(const net_trial *trial, net_try *t)
{
    const stk_float type = (stk_float)trial->variant;
    const shape s = draw(t);
    const float *stats = net_array(t, STK_F32, 2 * s.rows);
    const void *dy = net_array(t, type, s.elements);
    const int residual = (int)net_below(t, 3), sums_wanted = (int)net_below(t, 2); /* none, apart, dx */
    const float *apart = net_array(t, STK_F32, s.elements);
    const net_pair dx = net_arrays(t, STK_F32, s.elements),
                   sums = net_arrays(t, STK_F32, 2 * s.norm.channels);
    for (int who = 0; who < NET_BOTH; who++) {
        float *out = dx.of[who];
        t->table[who]->layernorm.backward[type](&s.norm, s.rows, s.x, stats, dy,
                                                residual == 0   ? NULL
                                                : residual == 1 ? apart
                                                                : out,
                                                out, sums_wanted ? sums.of[who] : NULL);
    }
    return net_agree(t, "dx", dx, STK_F32, s.elements, net_allowed(STK_F32)) &&
           net_agree(t, "sums", sums, STK_F32, 2 * s.norm.channels, net_allowed(STK_F32));
}

static const net_trial trials[] = {
    { "layernorm.stats", offsetof(stk_net_table, layernorm.stats), 0, try_stats },
    NET_TRIALS_BY_TYPE("layernorm.forward", layernorm.forward, try_forward),
    NET_TRIALS_BY_TYPE("layernorm.apply", layernorm.apply, try_apply),
    NET_TRIALS_BY_TYPE("layernorm.backward", layernorm.backward, try_backward),
};

const net_section net_section_layernorm = { trials, sizeof trials / sizeof *trials, NULL, 0 };
