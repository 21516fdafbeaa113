/* SPDX-License-Identifier: Apache-2.0
 *
 * Trials of what patches of pictures are made with. Nothing is reordered or fused: the same bits.
 */
#include <stdio.h>

#include "tests/check/net_check.h"

static int try_sum(const net_trial *trial, net_try *t)
{
    (void)trial;
    enum { MOST = 9 };
    const stk_float from = (stk_float)net_below(t, STK_FLOATS), to = (stk_float)net_below(t, STK_FLOATS);
    const uint32_t count = net_below(t, MOST + 1);
    const size_t elements = net_between(t, 1, 100);
    const int add = (int)net_below(t, 2);
    const void *in[MOST];
    for (uint32_t i = 0; i < count; i++) in[i] = net_array(t, from, elements);
    const net_pair out = net_arrays(t, to, elements);
    snprintf(t->text, sizeof t->text, "%u arrays of %zu, type %d to %d, add %d", count, elements, (int)from,
             (int)to, add);
    for (int who = 0; who < NET_BOTH; who++)
        t->table[who]->conv.sum(out.of[who], to, in, count, from, elements, add);
    return net_agree(t, "out", out, to, elements, 0);
}

static int try_patch(const net_trial *trial, net_try *t)
{
    (void)trial;
    const stk_float type = (stk_float)net_below(t, STK_FLOATS);
    const uint32_t kernel = net_between(t, 1, net_below(t, 4) ? 8 : 20);
    const size_t width = kernel + net_below(t, 9), plane = (kernel + net_below(t, 3)) * width;
    const size_t elements = (size_t)kernel * kernel * 3;
    const float *in = net_array(t, STK_F32, 2 * plane + (kernel - 1) * width + kernel);
    const net_pair out = net_arrays(t, type, elements);
    snprintf(t->text, sizeof t->text, "kernel %u, width %zu, type %d", kernel, width, (int)type);
    for (int who = 0; who < NET_BOTH; who++)
        t->table[who]->conv.patch_rgb(out.of[who], type, in, plane, width, kernel);
    return net_agree(t, "out", out, type, elements, 0);
}

static const net_trial trials[] = {
    { "conv.sum", offsetof(stk_net_table, conv.sum), 0, try_sum },
    { "conv.patch_rgb", offsetof(stk_net_table, conv.patch_rgb), 0, try_patch },
};

const net_section net_section_conv = { trials, sizeof trials / sizeof *trials, NULL, 0 };
