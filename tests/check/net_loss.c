/* SPDX-License-Identifier: Apache-2.0
 *
 * Trials of the loss. A block is as wide as the column's vectors, so 16 pixels are done in as many blocks as
 * each table needs, and compared when they lie side by side again.
 */
#include <stdio.h>
#include <string.h>

#include "src/net/segformer/segformer_head.h"
#include "tests/check/net_check.h"

enum { WIDE = STK_LOSS_MOST_LANES, MOST_PLANES = 40 };

/* Columns first .. first + lanes of planes[class][WIDE] as planes of their own, and back. */
static void cut(const float *wide, uint32_t planes, uint32_t first, uint32_t lanes, float *narrow)
{
    for (uint32_t c = 0; c < planes; c++)
        memcpy(narrow + c * lanes, wide + c * WIDE + first, lanes * sizeof *wide);
}

static void put_back(const float *narrow, uint32_t planes, uint32_t first, uint32_t lanes, float *wide)
{
    for (uint32_t c = 0; c < planes; c++)
        memcpy(wide + c * WIDE + first, narrow + c * lanes, lanes * sizeof *wide);
}

/* ---- between lines of logits and planes ---- */

typedef struct line_shape {
    stk_loss_columns columns; /* of all WIDE pixels */
    uint32_t planes;
    size_t floats; /* of the line */
} line_shape;

static line_shape draw_line(net_try *t)
{
    line_shape s = { .columns = { .classes = net_between(t, 1, MOST_PLANES), .step = net_below(t, 5) > 0 } };
    stk_loss_columns *c = &s.columns;
    uint32_t *first = net_array(t, STK_F32, WIDE), at = c->step * net_below(t, 5);
    float *share = net_array(t, STK_F32, WIDE);
    for (int i = 0; i < WIDE; i++) { /* neighbours, mostly: a mask is larger than its logits */
        if (i && c->step) at += net_below(t, 4) == 0 ? net_between(t, 1, 3) : 0;
        first[i] = at;
        share[i] = c->step ? (net_number(t) + 1) / 2 : 0;
    }
    c->first = first;
    c->share = share;
    c->stride = stk_logits_stride(c->classes);
    s.planes = c->classes == 1 ? 2 : c->classes;
    s.floats = (at + c->step + 1) * c->stride;
    snprintf(t->text, sizeof t->text, "%u classes, step %u", c->classes, c->step);
    return s;
}

static stk_loss_columns columns_from(const stk_loss_columns *all, uint32_t first)
{
    stk_loss_columns c = *all;
    c.first += first;
    c.share += first;
    return c;
}

static int try_spread(const net_trial *trial, net_try *t)
{
    (void)trial;
    const line_shape s = draw_line(t);
    const float *line = net_array(t, STK_F32, s.floats);
    const size_t elements = (size_t)s.planes * WIDE;
    const net_pair wide = net_arrays(t, STK_F32, elements);
    for (int who = 0; who < NET_BOTH; who++) {
        const uint32_t lanes = t->table[who]->loss.lanes;
        float *planes = net_array(t, STK_F32, (size_t)s.planes * lanes);
        for (uint32_t first = 0; first < WIDE; first += lanes) {
            const stk_loss_columns c = columns_from(&s.columns, first);
            memset(planes, 0, s.planes * lanes * sizeof *planes);
            t->table[who]->loss.spread(&c, line, planes);
            put_back(planes, s.planes, first, lanes, wide.of[who]);
        }
    }
    return net_agree(t, "planes", wide, STK_F32, elements, 1e-6);
}

/* Of what a line has beyond its classes only that it is not spoilt: zeros stay zero. */
static int try_collect(const net_trial *trial, net_try *t)
{
    (void)trial;
    const line_shape s = draw_line(t);
    const float *wide = net_array(t, STK_F32, (size_t)s.planes * WIDE);
    const net_pair line = net_arrays(t, STK_F32, s.floats);
    for (int who = 0; who < NET_BOTH; who++) {
        const uint32_t lanes = t->table[who]->loss.lanes;
        float *planes = net_array(t, STK_F32, (size_t)s.planes * lanes);
        for (uint32_t first = 0; first < WIDE; first += lanes) {
            const stk_loss_columns c = columns_from(&s.columns, first);
            cut(wide, s.planes, first, lanes, planes);
            t->table[who]->loss.collect(&c, planes, line.of[who]);
        }
    }
    return net_agree(t, "line", line, STK_F32, s.floats, net_allowed(STK_F32));
}

/* ---- pixels ---- */

typedef struct block_shape {
    stk_loss_block block; /* of all WIDE pixels */
    size_t elements;
} block_shape;

static void draw_mask(net_try *t, stk_loss_block *b, stk_loss_mask *m)
{
    int32_t *labels = net_array(t, STK_F32, (b->lines - 1) * b->label_stride + WIDE);
    for (size_t i = 0; i < (b->lines - 1) * b->label_stride + WIDE; i++)
        labels[i] = net_below(t, 6) ? (int32_t)net_below(t, b->planes) : -1;
    m->labels = labels;
    m->point = net_below(t, 4) ? (net_number(t) + 1) / 2 : 0;
    m->dice = net_below(t, 2) ? (net_number(t) + 1) / 2 : 0;
    m->inside = net_array(t, STK_F32, b->planes);
    m->overall = net_array(t, STK_F32, b->planes);
}

static block_shape draw_block(net_try *t)
{
    block_shape s = { .block = { .planes = net_between(t, 2, MOST_PLANES),
                                 .lines = net_between(t, 1, STK_LOSS_LINES),
                                 .masks = net_between(t, 1, 2),
                                 .label_stride = WIDE + net_below(t, 20),
                                 .gamma = net_below(t, 2) ? -1.0f : 2.0f * (net_number(t) + 1),
                                 .factor = net_number(t) } };
    stk_loss_block *b = &s.block;
    s.elements = (size_t)b->planes * WIDE;
    float *upper = net_array(t, STK_F32, s.elements), *lower = net_array(t, STK_F32, s.elements);
    for (size_t i = 0; i < s.elements; i++) upper[i] *= 6, lower[i] *= 6;
    b->upper = upper;
    b->lower = lower;
    for (uint32_t i = 0; i < b->lines; i++) b->share[i] = (net_number(t) + 1) / 2;
    float *weights = net_array(t, STK_F32, b->planes);
    for (uint32_t i = 0; i < b->planes; i++) b->weights_sum += weights[i] = net_number(t) + 1;
    b->weights = weights;
    const float smoothing = b->gamma < 0 && net_below(t, 2) ? 0.1f : 0;
    b->smoothing = smoothing / (float)b->planes;
    b->certain = 1 - smoothing;
    for (uint32_t m = 0; m < b->masks; m++) draw_mask(t, b, &b->mask[m]);
    snprintf(t->text, sizeof t->text, "%u planes, %u lines, %u masks, gamma %g, smoothing %g, dice %g %g",
             b->planes, b->lines, b->masks, (double)b->gamma, (double)smoothing, (double)b->mask[0].dice,
             (double)b->mask[1].dice);
    return s;
}

/* Those of WIDE pixels that start at `first`: logits copied, labels where they lie. */
static stk_loss_block block_from(net_try *t, const block_shape *s, uint32_t first, uint32_t lanes)
{
    stk_loss_block b = s->block;
    float *upper = net_array(t, STK_F32, (size_t)b.planes * lanes);
    float *lower = net_array(t, STK_F32, (size_t)b.planes * lanes);
    cut(b.upper, b.planes, first, lanes, upper);
    cut(b.lower, b.planes, first, lanes, lower);
    b.upper = upper;
    b.lower = lower;
    for (uint32_t m = 0; m < b.masks; m++) b.mask[m].labels += first;
    b.room = net_room(t, STK_LOSS_LINES * b.planes * lanes * sizeof(float));
    return b;
}

static int try_pixels(const net_trial *trial, net_try *t)
{
    (void)trial;
    const block_shape s = draw_block(t);
    const uint32_t planes = s.block.planes;
    const int gradients = net_below(t, 4) > 0;
    const net_pair up = net_arrays(t, STK_F32, s.elements), down = net_arrays(t, STK_F32, s.elements),
                   loss = net_arrays(t, STK_F32, 1);
    for (int who = 0; who < NET_BOTH; who++) {
        const uint32_t lanes = t->table[who]->loss.lanes;
        float *d_upper = net_array(t, STK_F32, (size_t)planes * lanes);
        float *d_lower = net_array(t, STK_F32, (size_t)planes * lanes);
        double sum = 0;
        for (uint32_t first = 0; first < WIDE; first += lanes) {
            stk_loss_block b = block_from(t, &s, first, lanes);
            cut(up.of[who], planes, first, lanes, d_upper);
            cut(down.of[who], planes, first, lanes, d_lower);
            b.d_upper = gradients ? d_upper : NULL;
            b.d_lower = gradients ? d_lower : NULL;
            sum += t->table[who]->loss.pixels(&b);
            put_back(d_upper, planes, first, lanes, up.of[who]);
            put_back(d_lower, planes, first, lanes, down.of[who]);
        }
        *(float *)loss.of[who] = (float)sum;
    }
    const double allowed = 4e-5; /* e^z, logarithm and power by polynomials, and 1 - p of the focal loss */
    return net_agree(t, "loss", loss, STK_F32, 1, allowed) &&
           net_agree(t, "d_upper", up, STK_F32, s.elements, allowed) &&
           net_agree(t, "d_lower", down, STK_F32, s.elements, allowed);
}

static int try_sums(const net_trial *trial, net_try *t)
{
    (void)trial;
    const block_shape s = draw_block(t);
    const uint32_t planes = s.block.planes;
    net_pair wide[4]; /* overlap and cover of each mask */
    for (int i = 0; i < 4; i++) wide[i] = net_arrays(t, STK_F32, s.elements);
    for (int who = 0; who < NET_BOTH; who++) {
        const uint32_t lanes = t->table[who]->loss.lanes;
        float *sum[4];
        for (int i = 0; i < 4; i++) sum[i] = net_array(t, STK_F32, (size_t)planes * lanes);
        for (uint32_t first = 0; first < WIDE; first += lanes) {
            stk_loss_block b = block_from(t, &s, first, lanes);
            for (uint32_t i = 0; i < 2 * b.masks; i++) {
                cut(wide[i].of[who], planes, first, lanes, sum[i]);
                *(i % 2 ? &b.mask[i / 2].cover : &b.mask[i / 2].overlap) = sum[i];
            }
            t->table[who]->loss.sums(&b);
            for (uint32_t i = 0; i < 2 * b.masks; i++)
                put_back(sum[i], planes, first, lanes, wide[i].of[who]);
        }
    }
    int good = 1;
    for (int i = 0; i < 4; i++)
        good = good && net_agree(t, i % 2 ? "cover" : "overlap", wide[i], STK_F32, s.elements, 1e-5);
    return good;
}

/* Quarters, so that ties are ties in every column: the lowest wins. */
static int try_best(const net_trial *trial, net_try *t)
{
    (void)trial;
    block_shape s = draw_block(t);
    const uint32_t lines = s.block.lines;
    float *upper = net_array(t, STK_F32, s.elements), *lower = net_array(t, STK_F32, s.elements);
    for (size_t i = 0; i < s.elements; i++) {
        upper[i] = (float)net_below(t, 9) * 0.25f - 2;
        lower[i] = (float)net_below(t, 9) * 0.25f - 2;
    }
    s.block.upper = upper;
    s.block.lower = lower;
    for (uint32_t i = 0; i < lines; i++) s.block.share[i] = (float)net_below(t, 5) * 0.25f;
    const net_pair best = net_arrays(t, STK_F32, (size_t)lines * WIDE);
    for (int who = 0; who < NET_BOTH; who++) {
        const uint32_t lanes = t->table[who]->loss.lanes;
        uint16_t *labels = net_array(t, STK_F16, (size_t)lines * lanes);
        float *wide = best.of[who];
        for (uint32_t first = 0; first < WIDE; first += lanes) {
            const stk_loss_block b = block_from(t, &s, first, lanes);
            t->table[who]->loss.best(&b, labels);
            for (uint32_t i = 0; i < lines * lanes; i++)
                wide[i / lanes * WIDE + first + i % lanes] = labels[i];
        }
    }
    return net_agree(t, "labels", best, STK_F32, (size_t)lines * WIDE, 0);
}

static const net_trial trials[] = {
    { "loss.spread", offsetof(stk_net_table, loss.spread), 0, try_spread },
    { "loss.collect", offsetof(stk_net_table, loss.collect), 0, try_collect },
    { "loss.pixels", offsetof(stk_net_table, loss.pixels), 0, try_pixels },
    { "loss.sums", offsetof(stk_net_table, loss.sums), 0, try_sums },
    { "loss.best", offsetof(stk_net_table, loss.best), 0, try_best },
};
static const size_t numbers[] = { offsetof(stk_net_table, loss.lanes) };

const net_section net_section_loss = { trials, sizeof trials / sizeof *trials, numbers, 1 };
