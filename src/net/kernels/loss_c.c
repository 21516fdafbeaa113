/* SPDX-License-Identifier: Apache-2.0
 *
 * loss: the reference in C, pixel by pixel.
 */
#include <math.h>

#include "src/net/kernels/net_table.h"

enum { LANES = 8 };

/* One class lies in plane 1. */
static uint32_t first_plane(const stk_loss_columns *columns)
{
    return columns->classes == 1;
}

static void spread(const stk_loss_columns *columns, const float *line, float *planes)
{
    planes += first_plane(columns) * LANES;
    for (uint32_t l = 0; l < LANES; l++) {
        const float *left = line + columns->first[l] * columns->stride;
        const float *right = left + columns->step * columns->stride;
        const float share = columns->share[l];
        for (uint32_t c = 0; c < columns->classes; c++)
            planes[c * LANES + l] = (1 - share) * left[c] + share * right[c];
    }
}

static void collect(const stk_loss_columns *columns, const float *planes, float *line)
{
    planes += first_plane(columns) * LANES;
    for (uint32_t l = 0; l < LANES; l++) {
        float *left = line + columns->first[l] * columns->stride;
        float *right = left + columns->step * columns->stride;
        const float share = columns->share[l];
        for (uint32_t c = 0; c < columns->classes; c++) {
            left[c] += (1 - share) * planes[c * LANES + l];
            right[c] += share * planes[c * LANES + l];
        }
    }
}

/* A pixel: its logits and probabilities. */
typedef struct one_pixel {
    const stk_loss_block *block;
    uint32_t line, lane;
    float *p;    /* [planes] */
    float base;  /* log of the sum of e^z: log p = z - base */
    float d_sum; /* factor of p in the gradient */
} one_pixel;

static float logit(const one_pixel *pixel, uint32_t c)
{
    const stk_loss_block *b = pixel->block;
    const size_t i = (size_t)c * LANES + pixel->lane;
    return (1 - b->share[pixel->line]) * b->upper[i] + b->share[pixel->line] * b->lower[i];
}

static void soften(one_pixel *pixel)
{
    const uint32_t planes = pixel->block->planes;
    float most = logit(pixel, 0), sum = 0;
    for (uint32_t c = 1; c < planes; c++) most = fmaxf(most, logit(pixel, c));
    for (uint32_t c = 0; c < planes; c++) sum += pixel->p[c] = expf(logit(pixel, c) - most);
    for (uint32_t c = 0; c < planes; c++) pixel->p[c] /= sum;
    pixel->base = most + logf(sum);
}

static int32_t label_of(const one_pixel *pixel, const stk_loss_mask *mask)
{
    return mask->labels[pixel->line * pixel->block->label_stride + pixel->lane];
}

/* Adds d loss / d logit c. */
static void push(const one_pixel *pixel, uint32_t c, float gradient)
{
    const stk_loss_block *b = pixel->block;
    const size_t i = (size_t)c * LANES + pixel->lane;
    const float share = b->share[pixel->line], g = b->factor * gradient;
    b->d_upper[i] += (1 - share) * g;
    b->d_lower[i] += share * g;
}

/* -(certain w_t log p_t + smoothing sum_c w_c log p_c); its gradient is p_k times the sum of the factors
 * minus the factor of k. */
static float cross_entropy(one_pixel *pixel, uint32_t t, float point)
{
    const stk_loss_block *b = pixel->block;
    const float certain = point * b->certain * b->weights[t], smooth = point * b->smoothing;
    float loss = certain * (pixel->base - logit(pixel, t));
    pixel->d_sum += certain + smooth * b->weights_sum;
    if (b->d_upper) push(pixel, t, -certain);
    if (b->smoothing == 0) return loss;
    for (uint32_t c = 0; c < b->planes; c++) {
        loss += smooth * b->weights[c] * (pixel->base - logit(pixel, c));
        if (b->d_upper) push(pixel, c, -smooth * b->weights[c]);
    }
    return loss;
}

/* -w_t (1 - p)^gamma log p with p = p_t: the derivative to logit k is
 * w_t ((1 - p)^gamma - gamma p log p (1 - p)^(gamma - 1)) (p_k - [k = t]). */
static float focal(one_pixel *pixel, uint32_t t, float point)
{
    const stk_loss_block *b = pixel->block;
    const float p = pixel->p[t], log_p = logit(pixel, t) - pixel->base, rest = fmaxf(1 - p, 1e-30f);
    const float weight = point * b->weights[t] * powf(rest, b->gamma);
    const float slope = weight * (1 - b->gamma * p * log_p / rest);
    pixel->d_sum += slope;
    if (b->d_upper) push(pixel, t, -slope);
    return -weight * log_p;
}

/* From g_c = d loss / d p_c = inside_t [c = t] + overall_c: d loss / d z_k = p_k (g_k - sum_c p_c g_c). */
static void dice(one_pixel *pixel, const stk_loss_mask *mask, uint32_t t)
{
    const uint32_t planes = pixel->block->planes;
    const float *p = pixel->p;
    const float inside = mask->dice * mask->inside[t] * p[t];
    float mean = inside;
    for (uint32_t c = 0; c < planes; c++) mean += mask->dice * mask->overall[c] * p[c];
    push(pixel, t, inside);
    for (uint32_t c = 0; c < planes; c++) push(pixel, c, mask->dice * mask->overall[c] * p[c]);
    pixel->d_sum -= mean;
}

static double pixels(const stk_loss_block *block)
{
    double loss = 0;
    for (uint32_t i = 0; i < block->lines * LANES; i++) {
        one_pixel pixel = { .block = block, .line = i / LANES, .lane = i % LANES, .p = block->room };
        soften(&pixel);
        for (uint32_t m = 0; m < block->masks; m++) {
            const stk_loss_mask *mask = &block->mask[m];
            const int32_t t = label_of(&pixel, mask);
            if (t < 0) continue;
            if (mask->point != 0)
                loss += (block->gamma < 0 ? cross_entropy : focal)(&pixel, (uint32_t)t, mask->point);
            if (mask->dice != 0 && block->d_upper) dice(&pixel, mask, (uint32_t)t);
        }
        if (block->d_upper && pixel.d_sum != 0)
            for (uint32_t c = 0; c < block->planes; c++) push(&pixel, c, pixel.d_sum * pixel.p[c]);
    }
    return loss;
}

static void sums(const stk_loss_block *block)
{
    for (uint32_t i = 0; i < block->lines * LANES; i++) {
        one_pixel pixel = { .block = block, .line = i / LANES, .lane = i % LANES, .p = block->room };
        soften(&pixel);
        for (uint32_t m = 0; m < block->masks; m++) {
            const stk_loss_mask *mask = &block->mask[m];
            const int32_t t = label_of(&pixel, mask);
            if (t < 0) continue;
            mask->overlap[(size_t)t * LANES + pixel.lane] += pixel.p[t];
            for (uint32_t c = 0; c < block->planes; c++)
                mask->cover[(size_t)c * LANES + pixel.lane] += pixel.p[c];
        }
    }
}

static void best(const stk_loss_block *block, uint16_t *labels)
{
    for (uint32_t i = 0; i < block->lines * LANES; i++) {
        const one_pixel pixel = { .block = block, .line = i / LANES, .lane = i % LANES };
        labels[i] = 0;
        for (uint32_t c = 1; c < block->planes; c++)
            if (logit(&pixel, c) > logit(&pixel, labels[i])) labels[i] = (uint16_t)c;
    }
}

void stk_loss_fill_c(stk_loss_table *table)
{
    *table = (stk_loss_table){
        .lanes = LANES, .spread = spread, .collect = collect, .pixels = pixels, .sums = sums, .best = best
    };
}
