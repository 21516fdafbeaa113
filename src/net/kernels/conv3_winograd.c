/* SPDX-License-Identifier: Apache-2.0
 *
 * conv3: weights to the points and their gradients back, once per step, in C for all widths. In double: what
 * rounding there is comes from what happens per tile.
 */
#include "src/net/kernels/conv3_winograd.h"

#include <string.h>

#define P2   ((double)STK_WINOGRAD_P * STK_WINOGRAD_P)
#define Q2   ((double)STK_WINOGRAD_Q * STK_WINOGRAD_Q)
#define AT_0 (1 / (P2 * Q2))
#define AT_P (1 / (2 * P2 * (P2 - Q2)))
#define AT_Q (1 / (2 * Q2 * (Q2 - P2)))

static const double g[STK_WINOGRAD_TILE][3] = {
    { AT_0, 0, 0 },
    { AT_P, AT_P *STK_WINOGRAD_P, AT_P *P2 },
    { AT_P, -AT_P *STK_WINOGRAD_P, AT_P *P2 },
    { AT_Q, AT_Q *STK_WINOGRAD_Q, AT_Q *Q2 },
    { AT_Q, -AT_Q *STK_WINOGRAD_Q, AT_Q *Q2 },
    { 0, 0, 1 },
};

enum { PANEL = 32 }; /* weights side by side, at most: two vectors of 16 */

/* G w G^T of a row of weights; a point's results lie together, `step` floats after those of the point before.
 * Together, because points are a power of two apart in most layers, and single floats written to 36 such
 * places by turns throw each other out of the cache: packing a U-Net of 16 channels took 9 times as long (400
 * to 44 ms). */
static void to_points(const double w[9][PANEL], size_t width, float *to, size_t step)
{
    double half[3][PANEL];
    for (int i = 0; i < STK_WINOGRAD_TILE; i++) {
        for (int k = 0; k < 3; k++)
            for (size_t o = 0; o < PANEL; o++)
                half[k][o] = g[i][0] * w[k][o] + g[i][1] * w[3 + k][o] + g[i][2] * w[6 + k][o];
        for (int j = 0; j < STK_WINOGRAD_TILE; j++, to += step)
            for (size_t o = 0; o < width; o++)
                to[o] = (float)(half[0][o] * g[j][0] + half[1][o] * g[j][1] + half[2][o] * g[j][2]);
    }
}

/* G^T u G of `count` gradients side by side: read as they lie, for the same reason. */
static void from_points(const float *u, size_t step, size_t count, double w[9][PANEL])
{
    memset(w, 0, 9 * sizeof *w);
    for (int i = 0; i < STK_WINOGRAD_TILE; i++) {
        double half[3][PANEL] = { { 0 } };
        for (int j = 0; j < STK_WINOGRAD_TILE; j++, u += step)
            for (int k = 0; k < 3; k++)
                for (size_t o = 0; o < count; o++) half[k][o] += (double)u[o] * g[j][k];
        for (int a = 0; a < 3; a++)
            for (int k = 0; k < 3; k++)
                for (size_t o = 0; o < count; o++) w[3 * a + k][o] += g[i][a] * half[k][o];
    }
}

static float rounded(float value, stk_float type)
{
    uint16_t bits;
    if (type == STK_F32) return value;
    stk_put(&bits, 0, value, type);
    return stk_get(&bits, 0, type);
}

void stk_winograd_pack(const stk_conv3_masters *m, uint32_t first, uint32_t count, void *packed,
                       stk_float type, size_t lanes)
{
    float *bias = packed;
    const size_t end = first + count;
    for (size_t o = first; o < end; o++) bias[o] = m->bias ? m->bias[o] : 0.0f;
    if (end == m->out) memset(bias + end, 0, (stk_winograd_round(end, 16) - end) * sizeof *bias);
    for (size_t panel = first; panel < end; panel += 2 * lanes) {
        const size_t width = stk_winograd_width(m->out, panel, lanes);
        float *to = stk_winograd_panel(packed, m->in, m->out, panel);
        for (size_t i = 0; i < m->in; i++) {
            double w[9][PANEL] = { { 0 } };
            for (size_t o = panel; o < panel + width && o < m->out; o++) {
                const float *from = m->weight + (m->turned ? i * m->out + o : o * m->in + i) * 9;
                for (size_t tap = 0; tap < 9; tap++)
                    w[tap][o - panel] = rounded(from[m->turned ? 8 - tap : tap], type);
            }
            to_points(w, width, to + i * width, m->in * width);
        }
    }
}

/* `count` weights of one input, whose gradients stand in w. */
static void give(const stk_conv3_gradient *gradient, size_t first, size_t count, size_t i,
                 const double w[9][PANEL])
{
    for (size_t o = 0; o < count; o++) {
        float *to = gradient->d_weight + ((first + o) * gradient->in + i) * 9;
        for (int tap = 0; tap < 9; tap++)
            to[tap] = (float)((gradient->add ? (double)to[tap] : 0) + (double)gradient->scale * w[tap][o]);
    }
}

void stk_winograd_gradient(const stk_conv3_gradient *gradient, uint32_t first, uint32_t count, size_t lanes)
{
    const size_t width = stk_winograd_round(gradient->out, lanes), in = gradient->in;
    const float *bias = gradient->sums + STK_WINOGRAD_POINTS * in * width;
    float *d_bias = gradient->d_bias;
    for (size_t o = first; d_bias && o < (size_t)first + count; o++)
        d_bias[o] =
            (float)((gradient->add ? (double)d_bias[o] : 0) + (double)gradient->scale * (double)bias[o]);
    for (size_t at = first, end = (size_t)first + count; gradient->d_weight && at < end; at += PANEL)
        for (size_t i = 0; i < in; i++) {
            const size_t some = end - at < PANEL ? end - at : PANEL;
            double w[9][PANEL];
            from_points(gradient->sums + i * width + at, in * width, some, w);
            give(gradient, at, some, i, w);
        }
}
