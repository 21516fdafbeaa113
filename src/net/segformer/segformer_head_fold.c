/* SPDX-License-Identifier: Apache-2.0
 *
 * The head's room, and folding: M_i = W_i L_i and m = sum of W_i b_i, in inference with the batch norm as
 * well.
 */
#include "src/net/segformer/segformer_head.h"

#include <math.h>
#include <string.h>

/* ---- interpolation ---- */

/* F.interpolate(mode="bilinear", align_corners=False) to a given size: sample i of the larger map lies at
 * (i + 1/2) small / large - 1/2 of the smaller one, not below 0; beyond the last sample it is the last. */
static void stretch_taps(const stk_head_upsample *stretch)
{
    for (uint32_t i = 0; i < stretch->large; i++) {
        const double at = (i + 0.5) * stretch->small / stretch->large - 0.5;
        const double inside = at < 0 ? 0 : at;
        const uint32_t a = (uint32_t)inside, b = a + 1 < stretch->small ? a + 1 : a;
        const float weight = (float)(inside - a);
        stretch->taps[i] = (stk_head_tap){ a, b, 1 - weight, weight };
    }
}

/* Taps rise with i, so what reads sample j is one range. */
static void stretch_spreads(const stk_head_upsample *stretch)
{
    uint32_t at = 0, first = 0;
    for (uint32_t j = 0; j < stretch->small; j++) {
        while (first < stretch->large && stretch->taps[first].b < j) first++;
        stk_head_spread *spread = &stretch->spreads[j];
        *spread = (stk_head_spread){ .first = first, .at = at };
        for (uint32_t i = first; i < stretch->large && stretch->taps[i].a <= j; i++) {
            const stk_head_tap tap = stretch->taps[i];
            stretch->weights[at++] = (tap.a == j ? tap.a_weight : 0) + (tap.b == j ? tap.b_weight : 0);
            spread->count++;
        }
    }
}

/* ---- the room ---- */

/* Hands out pieces of the room; with base NULL it only counts. */
typedef struct cursor {
    unsigned char *base;
    size_t used;
} cursor;

static void *take(cursor *c, size_t bytes)
{
    void *piece = c->base ? c->base + c->used : NULL;
    c->used += (bytes + 63) / 64 * 64;
    return piece;
}

static float *take_floats(cursor *c, size_t count)
{
    return take(c, count * sizeof(float));
}

static void take_linear(cursor *c, const stk_exec *run, stk_linear *linear)
{
    linear->taps = linear->parts = 1;
    linear->weight_stride = linear->in;
    linear->forward = take(c, stk_linear_packed(run, linear, 0));
    linear->backward = take(c, stk_linear_packed(run, linear, 1));
}

static void take_stretch(cursor *c, stk_head_upsample *stretch, uint32_t small, uint32_t large)
{
    *stretch = (stk_head_upsample){ .small = small, .large = large };
    stretch->taps = take(c, large * sizeof *stretch->taps);
    stretch->spreads = take(c, small * sizeof *stretch->spreads);
    stretch->weights = take_floats(c, 2 * (size_t)large);
}

static size_t multiply_room(const stk_exec *run, const stk_segformer_head *head)
{
    size_t most = stk_multiply_room(run, STK_STAGES * (size_t)head->size, 1);
    for (int i = 0; i < STK_STAGES; i++) {
        const size_t to = stk_multiply_room(run, head->size, head->channels[i]);
        const size_t from = stk_multiply_room(run, head->channels[i], head->size);
        most = most > to ? most : to;
        most = most > from ? most : from;
    }
    return most;
}

static void take_stage(cursor *c, const stk_exec *run, const stk_segformer_head *head,
                       stk_segformer_head_room_map *map, int i)
{
    const size_t weights = (size_t)head->size * head->channels[i];
    map->folded[i] = take_floats(c, weights);
    map->d_folded[i] = take_floats(c, weights);
    map->stage[i] = (stk_linear){ .in = head->channels[i],
                                  .out = head->size,
                                  .weight = { map->folded[i] },
                                  .bias = { i ? NULL : map->bias },
                                  .d_weight = { map->d_folded[i] } };
    take_linear(c, run, &map->stage[i]);
    if (!i) return;
    map->z[i - 1] = take(c, stk_segformer_head_rows(head, i) * head->size * stk_float_bytes(run->type));
    take_stretch(c, &map->across[i - 1], head->width[i], head->width[0]);
    take_stretch(c, &map->down[i - 1], head->height[i], head->height[0]);
}

/* Lays `map` out in the room and returns the bytes used. */
static size_t lay_out(const stk_exec *run, const stk_segformer_head *head, unsigned char *base,
                      stk_segformer_head_room_map *map)
{
    cursor c = { .base = base };
    take(&c, sizeof *map);
    float **const vectors[] = { &map->bias,  &map->mean, &map->rstd,   &map->scale,
                                &map->shift, &map->gain, &map->g_mean, &map->slope };
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) *vectors[i] = take_floats(&c, head->size);
    map->stacked = take_floats(&c, STK_STAGES * (size_t)head->size);
    for (int i = 0; i < STK_STAGES; i++) take_stage(&c, run, head, map, i);
    map->classifier = (stk_linear){ .in = head->size,
                                    .out = head->classes,
                                    .weight = { head->classifier_weight },
                                    .bias = { head->classifier_bias } };
    take_linear(&c, run, &map->classifier);
    map->multiply = take(&c, multiply_room(run, head));
    return c.used;
}

size_t stk_segformer_head_room(const stk_exec *run, const stk_segformer_head *head)
{
    stk_segformer_head_room_map map;
    return lay_out(run, head, NULL, &map);
}

void stk_segformer_head_bind(const stk_exec *run, stk_segformer_head *head)
{
    stk_segformer_head_room_map *map = stk_segformer_head_map(head);
    lay_out(run, head, head->room, map);
    for (int s = 0; s < STK_SMALLER; s++) {
        const stk_head_upsample *const both[] = { &map->across[s], &map->down[s] };
        for (int k = 0; k < 2; k++) {
            stretch_taps(both[k]);
            stretch_spreads(both[k]);
        }
    }
}

stk_exec_need stk_segformer_head_need(const stk_exec *run, const stk_segformer_head *head)
{
    stk_segformer_head_room_map map;
    lay_out(run, head, NULL, &map);
    stk_exec_need need = stk_segformer_head_forward_need(run, head);
    if (!run->forward_only) need = stk_need_most(need, stk_segformer_head_backward_need(run, head));
    for (int i = 1; i < STK_STAGES;
         i++) /* of stage 1 and the classifier only rows that are there are multiplied */
        need = stk_need_most(need, stk_linear_need(run, &map.stage[i], stk_segformer_head_rows(head, i)));
    return need;
}

/* ---- folding ---- */

/* The batch norm of inference is a factor and a summand per channel: rows of M_i and elements of m. */
static void fold_norm(const stk_segformer_head *head, stk_segformer_head_room_map *map)
{
    for (size_t c = 0; c < head->size; c++) {
        const float scale = (float)(head->norm_gamma[c] / sqrt(head->running_variance[c] + 1e-5));
        map->bias[c] = (map->bias[c] - head->running_mean[c]) * scale + head->norm_beta[c];
        for (int i = 0; i < STK_STAGES; i++) {
            float *row = map->folded[i] + c * head->channels[i];
            for (size_t k = 0; k < head->channels[i]; k++) row[k] *= scale;
        }
    }
}

void stk_segformer_head_pack(const stk_exec *run, stk_segformer_head *head)
{
    stk_segformer_head_room_map *map = stk_segformer_head_map(head);
    const size_t size = head->size, fuse_stride = STK_STAGES * size;
    for (int i = 0; i < STK_STAGES; i++) {
        const size_t column = (size_t)(STK_STAGES - 1 - i) * size;
        memcpy(map->stacked + column, head->linear_bias[i], size * sizeof(float));
        stk_multiply(run, size, head->channels[i], size,
                     (stk_linear_matrix){ .data = head->fuse_weight + column, .stride = fuse_stride },
                     (stk_linear_matrix){ .data = head->linear_weight[i], .stride = head->channels[i] },
                     map->folded[i], head->channels[i], 0, map->multiply);
    }
    stk_multiply(run, size, 1, fuse_stride,
                 (stk_linear_matrix){ .data = head->fuse_weight, .stride = fuse_stride },
                 (stk_linear_matrix){ .data = map->stacked, .stride = 1 }, map->bias, 1, 0, map->multiply);
    if (!head->training) fold_norm(head, map);
    const stk_linear *const linears[] = { &map->stage[0], &map->stage[1], &map->stage[2], &map->stage[3],
                                          &map->classifier };
    stk_linear_pack(run, linears, sizeof linears / sizeof *linears);
}
