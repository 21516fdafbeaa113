/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of photometric steps share: random pictures, a chain run on one, and the same in doubles,
 * straight from the formulas of <stoke/augment_plan.h>.
 */
#ifndef STOKE_TESTS_UNIT_FIXTURE_COLOR_H
#define STOKE_TESTS_UNIT_FIXTURE_COLOR_H

#include "tests/unit/unit.h"

#include <math.h>

#include "src/base/mem.h"
#include "src/base/rng.h"
#include "src/pix/pix_table.h"
#include "src/pix/color.h"

static uint64_t random_state;

static inline void seed_random(uint64_t seed)
{
    random_state = seed;
    print_message("# seed %llu\n", (unsigned long long)seed);
}

static inline uint32_t below(uint32_t n)
{
    return (uint32_t)stk_below(stk_mix64(random_state += UINT64_C(0x9e3779b97f4a7c15)), n);
}

static inline double uniform(double lo, double hi)
{
    return lo + (hi - lo) * below(1u << 24) / (double)(1u << 24);
}

/* ---- pictures ---- */

static inline stoke_image make_picture(uint32_t width, uint32_t height, unsigned depth)
{
    const size_t stride = (size_t)width * 3 * depth;
    stoke_image image = { malloc(stride * height), stride, width, height, 3, (uint8_t)depth };
    assert_non_null(image.data);
    return image;
}

static inline void put(const stoke_image *image, size_t i, uint32_t value)
{
    if (image->depth == 1)
        ((uint8_t *)image->data)[i] = (uint8_t)value;
    else
        ((uint16_t *)image->data)[i] = (uint16_t)value;
}

static inline uint32_t at(const stoke_image *image, size_t i)
{
    return image->depth == 1 ? ((uint8_t *)image->data)[i] : ((uint16_t *)image->data)[i];
}

static inline size_t samples(const stoke_image *image)
{
    return (size_t)image->width * image->height * 3;
}

/* Noise with a share of extreme and of grey pixels, where formulas have their corners. */
static inline stoke_image random_picture(uint32_t width, uint32_t height, unsigned depth)
{
    const stoke_image image = make_picture(width, height, depth);
    const uint32_t most = depth == 1 ? 255 : 65535;
    for (size_t i = 0; i < samples(&image); i++) {
        const uint32_t dice = below(16);
        put(&image, i,
            dice == 0            ? 0
            : dice == 1          ? most
            : dice == 2 && i % 3 ? at(&image, i - 1)
                                 : below(most + 1));
    }
    return image;
}

static inline const void *image_row(void *context, uint32_t y)
{
    const stoke_image *image = context;
    return (const uint8_t *)image->data + y * image->stride;
}

static inline stk_color_rows rows_of(stoke_image *image)
{
    return (stk_color_rows){ image_row, image, image->width, image->height, image->depth };
}

/* ---- the chain ---- */

/* The batch row that the color steps make of the picture; free it. */
static inline void *touched(stoke_image *image, const stoke_color_step *step, uint32_t n, stoke_dtype dtype,
                            stoke_layout layout, stoke_normalize normalize)
{
    stk_pix_writer writer;
    stk_writer_init(&writer, dtype, layout, normalize);
    stk_color_pass *color_pass = stk_color_pass_create();
    void *row = stk_alloc_aligned(samples(image) * 4, 64);
    assert_non_null(color_pass);
    assert_non_null(row);
    const stk_color_rows source = rows_of(image);
    stoke_error err = { 0 };
    if (stk_color_write(color_pass, step, n, &source, &writer, row, &err)) fail_msg("%s", err.message);
    assert_true(stk_color_pass_memory(color_pass) <=
                stk_color_scratch(image->width, image->height, image->depth));
    stk_color_pass_destroy(&color_pass);
    return row;
}

/* Interleaved floats 0..255. */
static inline float *touched_floats(stoke_image *image, const stoke_color_step *step, uint32_t n)
{
    return touched(image, step, n, STOKE_DTYPE_F32, STOKE_LAYOUT_HWC, STOKE_NORMALIZE_NONE);
}

/* ---- the same in doubles ---- */

/* Interleaved, 0..255. */
typedef struct real_picture {
    double *v;
    uint32_t width, height;
} real_picture;

static inline real_picture real_of(const stoke_image *image)
{
    real_picture p = { malloc(samples(image) * sizeof(double)), image->width, image->height };
    assert_non_null(p.v);
    for (size_t i = 0; i < samples(image); i++) p.v[i] = at(image, i) / (image->depth == 1 ? 1.0 : 257.0);
    return p;
}

static inline double real_clamp(double v)
{
    return v < 0 ? 0 : v > 255 ? 255 : v;
}

static inline double real_gray(const double *p)
{
    return 0.2989 * p[0] + 0.587 * p[1] + 0.114 * p[2];
}

/* Hue, saturation, value and back, as in the text books: six cases, divisions and all. */
static inline void real_hue(double *p, double turns)
{
    const double top = fmax(p[0], fmax(p[1], p[2])), low = fmin(p[0], fmin(p[1], p[2])), d = top - low;
    if (d == 0) return;
    double h = top == p[0] ? (p[1] - p[2]) / d : top == p[1] ? 2 + (p[2] - p[0]) / d : 4 + (p[0] - p[1]) / d;
    h = fmod(h / 6 + turns + 2, 1) * 6;
    const double s = d / top, f = h - floor(h);
    const double a = top * (1 - s), b = top * (1 - s * f), c = top * (1 - s * (1 - f));
    const double table[6][3] = { { top, c, a }, { b, top, a }, { a, top, c },
                                 { a, b, top }, { c, a, top }, { top, a, b } };
    memcpy(p, table[(int)floor(h) % 6], 3 * sizeof *p);
}

static inline int64_t real_reflect(int64_t i, int64_t n)
{
    while (n > 1 && (i < 0 || i >= n)) i = i < 0 ? -i : 2 * (n - 1) - i;
    return n > 1 ? i : 0;
}

/* Direct convolution in two dimensions. */
static inline void real_blur(real_picture *p, double sigma, int n)
{
    const int r = n / 2;
    double kernel[31 * 31], sum = 0;
    for (int j = -r; j <= r; j++)
        for (int i = -r; i <= r; i++)
            sum += kernel[(j + r) * n + i + r] = exp(-(i * i + j * j) / (2 * sigma * sigma));
    const size_t count = (size_t)p->width * p->height * 3;
    double *out = calloc(count, sizeof *out);
    assert_non_null(out);
    for (int64_t y = 0; y < p->height; y++)
        for (int64_t x = 0; x < p->width; x++)
            for (int j = -r; j <= r; j++)
                for (int i = -r; i <= r; i++) {
                    const int64_t from =
                        real_reflect(y + j, p->height) * p->width + real_reflect(x + i, p->width);
                    for (int c = 0; c < 3; c++)
                        out[(y * p->width + x) * 3 + c] +=
                            kernel[(j + r) * n + i + r] / sum * p->v[from * 3 + c];
                }
    free(p->v);
    p->v = out;
}

static inline void real_pixel(double *p, const stoke_color_step *t, double mean)
{
    const double a = t->a, gray = real_gray(p);
    if (t->kind == STOKE_COLOR_HUE) {
        real_hue(p, a);
        return;
    }
    for (int c = 0; c < 3; c++) {
        double v = p[c];
        if (t->kind == STOKE_COLOR_BRIGHTNESS) v = a * v;
        if (t->kind == STOKE_COLOR_CONTRAST) v = a * v + (1 - a) * mean;
        if (t->kind == STOKE_COLOR_SATURATION) v = a * v + (1 - a) * gray;
        if (t->kind == STOKE_COLOR_GAMMA) v = 255 * t->b * pow(v / 255, a);
        p[c] = real_clamp(v);
    }
}

/* All but noise and CLAHE, which have tests of their own. */
static inline void real_touch(real_picture *p, const stoke_color_step *t)
{
    const size_t pixels = (size_t)p->width * p->height;
    double mean = 0;
    for (size_t i = 0; i < pixels; i++) mean += real_gray(p->v + i * 3) / (double)pixels;
    if (t->kind == STOKE_COLOR_BLUR) {
        real_blur(p, t->a, (int)t->n);
    } else if (t->kind == STOKE_COLOR_ERASE) {
        for (uint32_t y = 0; y < p->height; y++)
            for (uint32_t x = 0; x < p->width; x++) {
                const int inside = x >= t->box.x && x - t->box.x < t->box.width && y >= t->box.y &&
                                   y - t->box.y < t->box.height;
                for (int c = 0; c < 3 && inside; c++) p->v[((size_t)y * p->width + x) * 3 + c] = t->fill[c];
            }
    } else {
        for (size_t i = 0; i < pixels; i++) real_pixel(p->v + i * 3, t, mean);
    }
}

/* The largest difference between the chain and its double. */
static inline double worst(stoke_image *image, const stoke_color_step *step, uint32_t n)
{
    float *got = touched_floats(image, step, n);
    real_picture want = real_of(image);
    for (uint32_t i = 0; i < n; i++) real_touch(&want, step + i);
    double most = 0;
    for (size_t i = 0; i < samples(image); i++) most = fmax(most, fabs(got[i] - want.v[i]));
    free(want.v);
    stk_free(got);
    return most;
}

#endif
