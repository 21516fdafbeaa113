/* SPDX-License-Identifier: Apache-2.0
 *
 * PSNR and SSIM of restored pictures.
 *
 * The window is a product of two lines of 11 taps. A line of both pictures is mirrored at its ends and made
 * into x, y, x^2 + y^2 and x y; these are filtered along the line and kept for 11 lines, which filtered
 * downward are a line of means. The sum of squares stands for both variances, since SSIM has their sum alone.
 * In double: a variance is the difference of two numbers near 1, and c2 is 0.0009.
 */
#include <math.h>
#include <string.h>

#include <stoke/tools/metrics.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/train/evaluate.h"

enum {
    REACH = 5,
    TAPS = 2 * REACH + 1,
    QUANTITIES = 4 /* x, y, x^2 + y^2, x y */
};

struct stoke_restored {
    double range;
    double weight[REACH + 1]; /* of the window's line, from its middle outward */
    double *lines;            /* QUANTITIES padded lines, TAPS rings of QUANTITIES lines, QUANTITIES means */
    size_t capacity;          /* columns that they have room for */
    stk_restored_sum sum;
};

int stoke_restored_create(stoke_restored **out, double range, stoke_error *err)
{
    *out = NULL;
    if (!(range > 0) || !isfinite(range))
        return stk_fail(err, STOKE_E_INVALID,
                        "scores of pictures need the range of their values, 1 or 255; %g was given", range);
    stoke_restored *r = stk_calloc(1, sizeof *r);
    if (!r) return stk_fail(err, STOKE_E_NOMEM, "no memory for the scores of pictures");
    r->range = range;
    double sum = 0;
    for (int k = 0; k <= REACH; k++) {
        r->weight[k] = exp(-(k / 1.5) * (k / 1.5) / 2);
        sum += k ? 2 * r->weight[k] : r->weight[k];
    }
    for (int k = 0; k <= REACH; k++) r->weight[k] /= sum;
    *out = r;
    return STOKE_OK;
}

void stoke_restored_destroy(stoke_restored **restored)
{
    if (!*restored) return;
    stk_free((*restored)->lines);
    stk_free(*restored);
    *restored = NULL;
}

void stoke_restored_reset(stoke_restored *restored)
{
    restored->sum = (stk_restored_sum){ 0 };
}

/* ---- one picture at a time ---- */

void stk_restored_put(stoke_restored *restored, const stk_restored_sum *sum)
{
    stk_restored_sum *all = &restored->sum;
    all->squares += sum->squares;
    all->ssim += sum->ssim;
    all->psnr += sum->psnr;
    all->values += sum->values;
    all->pixels += sum->pixels;
    all->pictures += sum->pictures;
}

stk_restored_sum stk_restored_take(stoke_restored *restored)
{
    const stk_restored_sum sum = restored->sum;
    stoke_restored_reset(restored);
    return sum;
}

/* ---- one picture ---- */

/* A channel of a pair of pictures. */
typedef struct pair {
    const stoke_restored *r;
    const stoke_restored_picture *picture[2];
    uint32_t height, width;
    size_t channel;
} pair;

/* Room for these in r->lines. */
static size_t padded(const pair *p)
{
    return (size_t)p->width + 2 * REACH;
}

static double *line_of(const pair *p, int quantity)
{
    return p->r->lines + (size_t)quantity * padded(p);
}

/* Line y filtered along itself; slot TAPS: the means. */
static double *ring_of(const pair *p, size_t slot, int quantity)
{
    return p->r->lines + QUANTITIES * padded(p) + (slot * QUANTITIES + (size_t)quantity) * p->width;
}

static int make_room(stoke_restored *r, uint32_t width, stoke_error *err)
{
    if (width <= r->capacity) return STOKE_OK;
    const size_t doubles = QUANTITIES * ((size_t)width + 2 * REACH + (TAPS + 1) * (size_t)width);
    double *lines = stk_alloc(doubles * sizeof *lines);
    if (!lines) return stk_fail(err, STOKE_E_NOMEM, "no memory for the SSIM of %u columns", (unsigned)width);
    stk_free(r->lines);
    r->lines = lines;
    r->capacity = width;
    return STOKE_OK;
}

static void read_line(const pair *p, const stoke_restored_picture *picture, size_t y, double *line)
{
    const size_t first = y * picture->row + p->channel * picture->plane, step = picture->column;
    double *values = line + REACH;
    if (picture->dtype == STOKE_DTYPE_F32) {
        const float *from = (const float *)picture->data + first;
        for (size_t i = 0; i < p->width; i++) values[i] = (double)from[i * step];
    } else {
        const uint8_t *from = (const uint8_t *)picture->data + first;
        for (size_t i = 0; i < p->width; i++) values[i] = from[i * step];
    }
    for (size_t k = 1; k <= REACH; k++) {
        line[REACH - k] = values[k];
        values[p->width - 1 + k] = values[p->width - 1 - k];
    }
}

/* Reads line y of both pictures into the ring; returns its squared errors. */
static double take_line(const pair *p, size_t y)
{
    const double *weight = p->r->weight;
    double *x = line_of(p, 0), *t = line_of(p, 1), *squares = line_of(p, 2), *product = line_of(p, 3);
    double sum = 0;
    read_line(p, p->picture[0], y, x);
    read_line(p, p->picture[1], y, t);
    for (size_t i = 0; i < padded(p); i++) {
        squares[i] = x[i] * x[i] + t[i] * t[i];
        product[i] = x[i] * t[i];
    }
    for (int q = 0; q < QUANTITIES; q++) {
        const double *in = line_of(p, q) + REACH;
        double *out = ring_of(p, y % TAPS, q);
        for (size_t i = 0; i < p->width; i++) {
            const double *at = in + i;
            out[i] = weight[0] * at[0] + weight[1] * (at[-1] + at[1]) + weight[2] * (at[-2] + at[2]) +
                     weight[3] * (at[-3] + at[3]) + weight[4] * (at[-4] + at[4]) +
                     weight[5] * (at[-5] + at[5]);
        }
    }
    for (size_t i = REACH; i < REACH + (size_t)p->width; i++) sum += (x[i] - t[i]) * (x[i] - t[i]);
    return sum;
}

/* The line `by` below y, mirrored at the edges. */
static size_t mirrored(const pair *p, size_t y, int by)
{
    const int64_t at = (int64_t)y + by, last = (int64_t)p->height - 1;
    return (size_t)(at < 0 ? -at : at > last ? 2 * last - at : at);
}

/* Sum of the SSIM of line y's pixels. */
static double ssim_line(const pair *p, size_t y)
{
    const double c1 = 0.01 * p->r->range * (0.01 * p->r->range);
    const double c2 = 0.03 * p->r->range * (0.03 * p->r->range);
    for (int q = 0; q < QUANTITIES; q++) {
        double *mean = ring_of(p, TAPS, q);
        const double *middle = ring_of(p, y % TAPS, q);
        for (size_t i = 0; i < p->width; i++) mean[i] = p->r->weight[0] * middle[i];
        for (int k = 1; k <= REACH; k++) {
            const double weight = p->r->weight[k];
            const double *above = ring_of(p, mirrored(p, y, -k) % TAPS, q);
            const double *below = ring_of(p, mirrored(p, y, k) % TAPS, q);
            for (size_t i = 0; i < p->width; i++) mean[i] += weight * (above[i] + below[i]);
        }
    }
    const double *x = ring_of(p, TAPS, 0), *t = ring_of(p, TAPS, 1);
    const double *squares = ring_of(p, TAPS, 2), *product = ring_of(p, TAPS, 3);
    double *similar = line_of(p, 0);
    for (size_t i = 0; i < p->width; i++) {
        const double xx = x[i] * x[i], tt = t[i] * t[i], xt = x[i] * t[i];
        const double variances = squares[i] - xx - tt;
        similar[i] = (2 * xt + c1) * (2 * (product[i] - xt) + c2) / ((xx + tt + c1) * (variances + c2));
    }
    double sum = 0;
    for (size_t i = 0; i < p->width; i++) sum += similar[i];
    return sum;
}

/* Adds the squared errors and the SSIM of a channel. */
static void do_channel(const pair *p, double *squares, double *ssim)
{
    size_t taken = 0;
    for (size_t y = 0; y < p->height; y++) {
        for (; taken < p->height && taken <= y + REACH; taken++) *squares += take_line(p, taken);
        *ssim += ssim_line(p, y);
    }
}

static double psnr_of(double range, double squares, double values)
{
    return 10 * log10(range * range / (squares / values));
}

int stoke_restored_add(stoke_restored *restored, uint32_t height, uint32_t width, uint32_t channels,
                       const stoke_restored_picture *found, const stoke_restored_picture *truth,
                       stoke_restored_score *own, stoke_error *err)
{
    stoke_restored *r = restored;
    pair p = { r, { found, truth }, height, width, 0 };
    double squares = 0, ssim = 0;
    for (int i = 0; i < 2; i++)
        if (p.picture[i]->dtype != STOKE_DTYPE_F32 && p.picture[i]->dtype != STOKE_DTYPE_U8)
            return stk_fail(err, STOKE_E_INVALID, "pictures that are scored are f32 or u8");
    if (height < STOKE_RESTORED_SIDE || width < STOKE_RESTORED_SIDE || !channels)
        return stk_fail(err, STOKE_E_INVALID,
                        "a picture of %ux%u pixels and %u channels has no SSIM: %d lines and columns is the "
                        "least",
                        (unsigned)height, (unsigned)width, (unsigned)channels, STOKE_RESTORED_SIDE);
    const int code = make_room(r, width, err);
    if (code) return code;
    for (p.channel = 0; p.channel < channels; p.channel++) do_channel(&p, &squares, &ssim);
    const uint64_t pixels = (uint64_t)height * width;
    const double values = (double)pixels * channels;
    const stoke_restored_score score = { psnr_of(r->range, squares, values), ssim / values };
    const stk_restored_sum one = { squares, score.ssim, score.psnr, pixels * channels, pixels, 1 };
    stk_restored_put(r, &one);
    if (own) *own = score;
    return STOKE_OK;
}

/* ---- all pictures ---- */

int stoke_restored_merge(stoke_restored *restored, const stoke_restored *other, stoke_error *err)
{
    if (restored->range != other->range)
        return stk_fail(err, STOKE_E_INVALID,
                        "scores of pictures with values up to %g and up to %g cannot be added: give both the "
                        "same range",
                        restored->range, other->range);
    stk_restored_put(restored, &other->sum);
    return STOKE_OK;
}

stoke_scores stoke_restored_scores(const stoke_restored *restored)
{
    const stk_restored_sum *sum = &restored->sum;
    stoke_scores s = { 0 };
    for (int i = 0; i < STOKE_SCORES; i++) {
        const double none = NAN;
        memcpy((char *)&s + stoke_score_at(i)->offset, &none, sizeof none);
    }
    if (!sum->pictures) return s;
    s.psnr = psnr_of(restored->range, sum->squares, (double)sum->values);
    s.ssim = sum->ssim / (double)sum->pictures;
    s.pixels = sum->pixels;
    return s;
}

double stoke_restored_psnr_mean(const stoke_restored *restored)
{
    return restored->sum.pictures ? restored->sum.psnr / (double)restored->sum.pictures : NAN;
}

const char *stoke_restored_convention(void)
{
    return "PSNR is taken once, from the squared errors of all values of all pictures; SSIM (window of 11 x "
           "11, "
           "sigma 1.5) of each channel over all pixels, in the mean over the pictures; both as torchmetrics "
           "1.9. Values are clipped to 0 .. 1 first.";
}
