/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <math.h>

#include "src/base/mem.h"
#include "src/base/rng.h"
#include "kernels/half.h"
#include "src/pix/pix.h"

/* ---- helpers ---- */

static uint64_t random_state;

static uint32_t below(uint32_t n)
{
    return (uint32_t)stk_below(stk_mix64(random_state += UINT64_C(0x9e3779b97f4a7c15)), n);
}

static void seed_random(uint64_t seed)
{
    random_state = seed;
    print_message("# seed %llu\n", (unsigned long long)seed);
}

/* Rows with `pad` samples between them. */
static stoke_image make(uint32_t width, uint32_t height, unsigned channels, unsigned depth, uint32_t pad)
{
    const size_t stride = ((size_t)width * channels + pad) * depth;
    stoke_image image = { calloc(height, stride), stride, width, height, (uint8_t)channels, (uint8_t)depth };
    assert_non_null(image.data);
    return image;
}

static uint32_t get(const stoke_image *image, uint32_t x, uint32_t y, uint32_t c)
{
    const uint8_t *row = (const uint8_t *)image->data + y * image->stride;
    const size_t i = (size_t)x * image->channels + c;
    return image->depth == 1 ? row[i] : ((const uint16_t *)row)[i];
}

static void set(const stoke_image *image, uint32_t x, uint32_t y, uint32_t c, uint32_t value)
{
    uint8_t *row = (uint8_t *)image->data + y * image->stride;
    const size_t i = (size_t)x * image->channels + c;
    if (image->depth == 1)
        row[i] = (uint8_t)value;
    else
        ((uint16_t *)row)[i] = (uint16_t)value;
}

static stoke_image noise(uint32_t width, uint32_t height, unsigned channels, unsigned depth, uint32_t pad)
{
    stoke_image image = make(width, height, channels, depth, pad);
    for (uint32_t y = 0; y < height; y++)
        for (uint32_t x = 0; x < width; x++)
            for (uint32_t c = 0; c < channels; c++) set(&image, x, y, c, below(depth == 1 ? 256 : 65536));
    return image;
}

static void resize(const stoke_image *src, const stoke_image *dst)
{
    stoke_error err;
    stk_pix_resizer *resizer = stk_resizer_create();
    assert_non_null(resizer);
    assert_int_equal(stk_resize(resizer, src, dst, &err), STOKE_OK);
    stk_resizer_destroy(&resizer);
    assert_null(resizer);
}

/* ---- resize against a double-precision oracle ---- */

/* The triangle filter as the text books have it, along one axis, over `n` interleaved lines. */
static void oracle_axis(const double *in, uint32_t size, double *out, uint32_t out_size, size_t step,
                        size_t lines, size_t line_step_in, size_t line_step_out)
{
    const double scale = (double)size / out_size, support = scale > 1 ? scale : 1;
    for (uint32_t i = 0; i < out_size; i++) {
        const double centre = (i + 0.5) * scale;
        for (size_t line = 0; line < lines; line++) {
            double sum = 0, total = 0;
            const double first = floor(centre - support), last = ceil(centre + support);
            for (double k = first < 0 ? 0 : first; k < size && k <= last; k++) {
                const double w = 1 - fabs(k + 0.5 - centre) / support;
                if (w <= 0) continue;
                sum += w * in[(size_t)k * step + line * line_step_in];
                total += w;
            }
            out[(size_t)i * step + line * line_step_out] = sum / total;
        }
    }
}

/* Largest distance between dst and the exact result, in samples. */
static double worst_error(const stoke_image *src, const stoke_image *dst)
{
    const size_t ch = src->channels, in_row = src->width * ch, out_row = dst->width * ch;
    double *in = malloc(in_row * src->height * sizeof *in),
           *wide = malloc(out_row * src->height * sizeof *wide);
    double *out = malloc(out_row * dst->height * sizeof *out), worst = 0;
    for (uint32_t y = 0; y < src->height; y++)
        for (uint32_t x = 0; x < src->width; x++)
            for (uint32_t c = 0; c < ch; c++) in[y * in_row + x * ch + c] = get(src, x, y, c);
    for (uint32_t c = 0; c < ch; c++)
        oracle_axis(in + c, src->width, wide + c, dst->width, ch, src->height, in_row, out_row);
    oracle_axis(wide, src->height, out, dst->height, out_row, out_row, 1, 1);
    for (uint32_t y = 0; y < dst->height; y++)
        for (uint32_t x = 0; x < dst->width; x++)
            for (uint32_t c = 0; c < ch; c++)
                worst = fmax(worst, fabs(get(dst, x, y, c) - out[y * out_row + x * ch + c]));
    free(in);
    free(wide);
    free(out);
    return worst;
}

/* Bounds. u8: each pass rounds to a whole number (0.5), and its weights have an error of at most taps /
 * 2^(p+1) in all, where p grows with the number of taps: 0.016 of a sample. Two passes: 1.04, one pass: 0.52.
 * u16: floats between the passes, rounded once; 24 bits of 65535 leave 0.05 for sums of some hundred terms.
 */
static void resize_is_near_the_exact_result(void **state)
{
    seed_random(7);
    for (int i = 0; i < 60; i++) {
        const unsigned channels = below(2) ? 3 : 1, depth = 1 + below(2), axes = below(3);
        const uint32_t most = i % 2 ? 200 : 20;
        const uint32_t width = 1 + below(most), height = 1 + below(most);
        stoke_image src = noise(width, height, channels, depth, below(5));
        stoke_image dst = make(axes == 1 ? width : 1 + below(most), axes == 2 ? height : 1 + below(most),
                               channels, depth, below(5));
        resize(&src, &dst);
        const double bound = depth == 2 ? 0.55 : axes ? 0.52 : 1.04, worst = worst_error(&src, &dst);
        if (worst > bound)
            fail_msg("%ux%u to %ux%u, %u x %u: error %f above %f", width, height, dst.width, dst.height,
                     channels, depth, worst, bound);
        free(src.data);
        free(dst.data);
    }
}

/* Ratios at which the ring of rows would be too large, so that the picture is done in strips. */
static void resize_in_strips_is_near_the_exact_result(void **state)
{
    seed_random(8);
    static const uint32_t sizes[][4] = { { 3, 20000, 40, 7 }, { 10, 3000, 100, 2 }, { 20000, 3, 7, 40 } };
    for (int i = 0; i < 3; i++)
        for (unsigned depth = 1; depth <= 2; depth++) {
            stoke_image src = noise(sizes[i][0], sizes[i][1], 3, depth, 0);
            stoke_image dst = make(sizes[i][2], sizes[i][3], 3, depth, 0);
            resize(&src, &dst);
            /* Sums of thousands of float terms: 2^-24 * 65535 * sqrt(20000) is about 0.5. */
            assert_true(worst_error(&src, &dst) <= 1.04);
            free(src.data);
            free(dst.data);
        }
}

static void resize_keeps_constant_pictures(void **state)
{
    static const uint32_t sizes[][4] = {
        { 13, 7, 29, 31 }, { 64, 64, 9, 5 }, { 100, 3, 33, 3 }, { 1, 1, 5, 5 }, { 999, 2, 1, 1 }
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (uint32_t value = 0; value < 256; value += 5)
            for (unsigned depth = 1; depth <= 2; depth++) {
                const uint32_t level = depth == 1 ? value : value * 257;
                stoke_image src = make(sizes[i][0], sizes[i][1], 3, depth, 0);
                stoke_image dst = make(sizes[i][2], sizes[i][3], 3, depth, 0);
                for (uint32_t y = 0; y < src.height; y++)
                    for (uint32_t x = 0; x < src.width; x++)
                        for (uint32_t c = 0; c < 3; c++) set(&src, x, y, c, level);
                resize(&src, &dst);
                for (uint32_t y = 0; y < dst.height; y++)
                    for (uint32_t x = 0; x < dst.width; x++)
                        for (uint32_t c = 0; c < 3; c++) assert_int_equal(get(&dst, x, y, c), level);
                free(src.data);
                free(dst.data);
            }
}

static void resize_to_the_same_size_copies(void **state)
{
    seed_random(9);
    for (unsigned depth = 1; depth <= 2; depth++) {
        stoke_image src = noise(37, 21, 3, depth, 4), dst = make(37, 21, 3, depth, 1);
        resize(&src, &dst);
        for (uint32_t y = 0; y < 21; y++)
            assert_memory_equal((uint8_t *)dst.data + y * dst.stride, (uint8_t *)src.data + y * src.stride,
                                37 * 3 * depth);
        free(src.data);
        free(dst.data);
    }
}

static stoke_image mirrored(const stoke_image *src)
{
    stoke_image out = make(src->width, src->height, src->channels, src->depth, 0);
    for (uint32_t y = 0; y < src->height; y++)
        for (uint32_t x = 0; x < src->width; x++)
            for (uint32_t c = 0; c < src->channels; c++)
                set(&out, src->width - 1 - x, y, c, get(src, x, y, c));
    return out;
}

/* Mirror then resize = resize then mirror, but for weights that lie on the edge of rounding: within one. */
static void resize_commutes_with_mirroring(void **state)
{
    seed_random(10);
    for (int i = 0; i < 20; i++) {
        stoke_image src = noise(1 + below(150), 1 + below(60), 3, 1, 0), flipped = mirrored(&src);
        stoke_image a = make(1 + below(150), 1 + below(60), 3, 1, 0), b = make(a.width, a.height, 3, 1, 0);
        resize(&src, &a);
        resize(&flipped, &b);
        for (uint32_t y = 0; y < a.height; y++)
            for (uint32_t x = 0; x < a.width; x++)
                for (uint32_t c = 0; c < 3; c++)
                    assert_in_range(get(&a, x, y, c) - get(&b, a.width - 1 - x, y, c) + 1, 0, 2);
        free(src.data);
        free(flipped.data);
        free(a.data);
        free(b.data);
    }
}

static void resize_refuses_what_it_cannot_do(void **state)
{
    stoke_error err;
    stk_pix_resizer *resizer = stk_resizer_create();
    stoke_image rgb = make(8, 8, 3, 1, 0), grey = make(4, 4, 1, 1, 0), deep = make(4, 4, 3, 2, 0), none = rgb;
    none.width = 0;
    assert_int_equal(stk_resize(resizer, &rgb, &grey, &err), STOKE_E_INVALID);
    assert_int_equal(stk_resize(resizer, &rgb, &deep, &err), STOKE_E_INVALID);
    assert_int_equal(stk_resize(resizer, &none, &rgb, &err), STOKE_E_INVALID);
    assert_string_equal(err.message, "resize of 0 x 8 to 8 x 8 pixels");
    assert_int_equal(stk_resize(resizer, &rgb, &none, &err), STOKE_E_INVALID);
    stk_resizer_destroy(&resizer);
    stk_resizer_destroy(&resizer);
    free(rgb.data);
    free(grey.data);
    free(deep.data);
}

static void resize_survives_failing_allocations(void **state)
{
    stoke_image src = make(50, 40, 3, 1, 0), dst = make(20, 30, 3, 1, 0);
    stk_mem_fail_after(0);
    assert_null(stk_resizer_create());
    stk_mem_fail_after(-1);
    for (int allowed = 0;; allowed++) {
        stoke_error err;
        stk_pix_resizer *resizer = stk_resizer_create();
        stk_mem_fail_after(allowed);
        int status = stk_resize(resizer, &src, &dst, &err);
        stk_mem_fail_after(-1);
        if (status == STOKE_OK)
            assert_true(allowed > 0);
        else
            assert_int_equal(status, STOKE_E_NOMEM);
        /* and it works again afterwards */
        assert_int_equal(stk_resize(resizer, &src, &dst, &err), STOKE_OK);
        stk_resizer_destroy(&resizer);
        if (status == STOKE_OK) break;
    }
    free(src.data);
    free(dst.data);
}

static void resize_memory_is_planned_and_steady(void **state)
{
    static const uint32_t sizes[][4] = { { 500, 375, 256, 256 },
                                         { 64, 64, 512, 512 },
                                         { 100, 50, 100, 25 },
                                         { 2, 50000, 300, 4 },
                                         { 77, 1, 1, 77 } };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (unsigned depth = 1; depth <= 2; depth++) {
            stoke_error err;
            const uint32_t *s = sizes[i];
            stk_pix_resizer *resizer = stk_resizer_create();
            stoke_image src = make(s[0], s[1], 3, depth, 0), dst = make(s[2], s[3], 3, depth, 0);
            assert_int_equal(stk_resize(resizer, &src, &dst, &err), STOKE_OK);
            assert_int_equal(stk_resizer_memory(resizer),
                             stk_resize_scratch(s[0], s[1], s[2], s[3], 3, (uint8_t)depth));
            const uint64_t calls = stk_mem_count().calls;
            assert_int_equal(stk_resize(resizer, &src, &dst, &err), STOKE_OK);
            assert_int_equal(stk_mem_count().calls, calls);
            stk_resizer_destroy(&resizer);
            free(src.data);
            free(dst.data);
        }
    /* The worst a file can ask for, one pixel wide at the pixel limit: the weights cost as much as 1.5 x its
     * pixels (every row has a part in two output rows), the ring and the pointers a tenth of that. */
    assert_true(stk_resize_scratch(1, 178956970, 512, 512, 3, 1) < UINT64_C(178956970) * 3 * 3 / 2);
}

/* ---- nearest ---- */

static void nearest_takes_the_exact_source_pixel(void **state)
{
    seed_random(11);
    static const uint32_t fixed[][4] = {
        { 512, 4, 224, 4 }, { 7, 9, 1400, 3 }, { 1, 1, 3, 3 }, { 3, 5, 3, 9 }
    };
    for (int i = 0; i < 40; i++) {
        const unsigned depth = 1 + below(2);
        const uint32_t width = i < 4 ? fixed[i][0] : 1 + below(90),
                       height = i < 4 ? fixed[i][1] : 1 + below(90);
        stoke_image src = noise(width, height, 1, depth, below(3));
        stoke_image dst = make(i < 4 ? fixed[i][2] : 1 + below(90), i < 4 ? fixed[i][3] : 1 + below(90), 1,
                               depth, below(3));
        stk_resize_nearest(&src, &dst);
        for (uint32_t y = 0; y < dst.height; y++)
            for (uint32_t x = 0; x < dst.width; x++) {
                /* floor((x + 1/2) * in / out), multiplied out */
                uint32_t from_x = (uint32_t)((2 * (uint64_t)x + 1) * width / (2 * dst.width));
                uint32_t from_y = (uint32_t)((2 * (uint64_t)y + 1) * height / (2 * dst.height));
                assert_int_equal(get(&dst, x, y, 0), get(&src, from_x, from_y, 0));
            }
        free(src.data);
        free(dst.data);
    }
}

/* ---- 16-bit floats ---- */

static float half_value(uint32_t bits)
{
    const uint32_t exponent = bits >> 10 & 31, mantissa = bits & 1023;
    return exponent ? ldexpf(1024.0f + (float)mantissa, (int)exponent - 25) : ldexpf((float)mantissa, -24);
}

/* All 31744 finite halves, the middle to the next one, and the floats on both sides of that middle. */
static void f16_rounds_to_nearest_even(void **state)
{
    for (uint32_t h = 0; h < 0x7c00; h++) {
        const float here = half_value(h);
        const float next = h == 0x7bff ? 65536.0f : half_value(h + 1), middle = (here + next) / 2;
        assert_int_equal(k_f16(here), h);
        assert_int_equal(k_f16(-here), h | 0x8000);
        assert_int_equal(k_f16(middle), h + (h & 1));
        assert_int_equal(k_f16(nextafterf(middle, 0)), h);
        assert_int_equal(k_f16(nextafterf(middle, INFINITY)), h + 1);
    }
}

static void bf16_rounds_to_nearest_even(void **state)
{
    assert_int_equal(k_bf16(1.0f), 0x3f80);
    assert_int_equal(k_bf16(1.00390625f), 0x3f80); /* 1 + 2^-8: a tie, to even */
    assert_int_equal(k_bf16(1.01171875f), 0x3f82); /* 1 + 3 * 2^-8: a tie, to even */
    assert_int_equal(k_bf16(nextafterf(1.00390625f, 2)), 0x3f81);
    assert_int_equal(k_bf16(-2.5f), 0xc020);
    assert_int_equal(k_bf16(0.0f), 0);
}

/* ---- writer ---- */

static void normalised_values_are_the_promised_ones(void **state)
{
    static const float mean[3] = { 0.485f, 0.456f, 0.406f }, deviation[3] = { 0.229f, 0.224f, 0.225f };
    for (stoke_normalize n = STOKE_NORMALIZE_UNIT; n <= STOKE_NORMALIZE_NONE; n++) {
        stk_pix_writer w;
        stk_writer_init(&w, STOKE_DTYPE_F32, STOKE_LAYOUT_CHW, n);
        for (int c = 0; c < 3; c++)
            for (int v = 0; v < 256; v++) {
                const float unit = (float)v / 255.0f, got = w.lut[c][v];
                if (n == STOKE_NORMALIZE_NONE)
                    assert_true(got == (float)v);
                else if (n == STOKE_NORMALIZE_UNIT)
                    assert_true(got == unit);
                else
                    assert_true(fabsf(got - (unit - mean[c]) / deviation[c]) <= 1e-6f);
                /* what kernels compute instead of looking it up */
                const float high = (float)v * w.high[c] + w.high_bias[c],
                            low = (float)v * w.low[c] + w.low_bias[c];
                assert_true(high + low == got);
            }
    }
}

enum { GUARD = 64 };

/* One element as the header describes it. */
static double expected_element(const stk_pix_writer *w, const stoke_image *src, int64_t x, int64_t y,
                               uint32_t c)
{
    if (x < 0 || y < 0 || x >= src->width || y >= src->height)
        return w->dtype == STOKE_DTYPE_U8 ? 0 : w->lut[c][0];
    const uint32_t v = get(src, (uint32_t)x, (uint32_t)y, c);
    if (w->dtype == STOKE_DTYPE_U8) return src->depth == 1 ? v : floor(v / 257.0 + 0.5);
    return src->depth == 1 ? w->lut[c][v] : (float)(v * (w->scale[c] / 65535.0) + w->bias[c]);
}

static void check_element(const stk_pix_writer *w, const void *row, size_t at, double expected)
{
    const float value = (float)expected;
    if (w->dtype == STOKE_DTYPE_U8)
        assert_int_equal(((const uint8_t *)row)[at], (uint8_t)expected);
    else if (w->dtype == STOKE_DTYPE_F32)
        assert_memory_equal((const float *)row + at, &value, 4);
    else
        assert_int_equal(((const uint16_t *)row)[at],
                         w->dtype == STOKE_DTYPE_F16 ? k_f16(value) : k_bf16(value));
}

static void images_are_placed_filled_and_mirrored(void **state)
{
    static const size_t bytes[] = { 1, 4, 2, 2 };
    seed_random(12);
    for (int i = 0; i < 400; i++) {
        stk_pix_writer w;
        stk_writer_init(&w, (stoke_dtype)below(4), (stoke_layout)below(2), (stoke_normalize)below(3));
        const uint32_t width = 1 + below(i % 20 ? 90 : 700), height = 1 + below(12);
        const uint32_t x = below(2) ? 0 : below(width), y = below(2) ? 0 : below(height);
        /* often all of the row, sometimes less, sometimes hanging over the edge */
        stoke_image src = noise(below(2) ? width - x : 1 + below(width + 3),
                                below(2) ? height - y : 1 + below(height + 3), 3, 1 + below(2), below(4));
        const int mirror = (int)below(4);
        const size_t size = (size_t)width * height * 3 * bytes[w.dtype];
        uint8_t *memory = aligned_alloc(64, (size + 2 * GUARD + 63) / 64 * 64), *row = memory + GUARD;
        memset(memory, 0xa5, size + 2 * GUARD);
        stk_write_image(&w, &src, row, width, height, x, y, mirror);
        for (uint32_t oy = 0; oy < height; oy++)
            for (uint32_t ox = 0; ox < width; ox++)
                for (uint32_t c = 0; c < 3; c++) {
                    const int64_t sx = (mirror & STK_MIRROR_H ? (int64_t)width - 1 - ox : ox) - x;
                    const int64_t sy = (mirror & STK_MIRROR_V ? (int64_t)height - 1 - oy : oy) - y;
                    const size_t at = w.layout == STOKE_LAYOUT_CHW ? ((size_t)c * height + oy) * width + ox
                                                                   : ((size_t)oy * width + ox) * 3 + c;
                    check_element(&w, row, at, expected_element(&w, &src, sx, sy, c));
                }
        for (int g = 0; g < GUARD; g++) {
            assert_int_equal(memory[g], 0xa5);
            assert_int_equal(row[size + (size_t)g], 0xa5);
        }
        free(memory);
        free(src.data);
    }
}

static int64_t get_id(const void *row, stoke_dtype dtype, size_t at)
{
    switch (dtype) {
    case STOKE_DTYPE_U8: return ((const uint8_t *)row)[at];
    case STOKE_DTYPE_U16: return ((const uint16_t *)row)[at];
    case STOKE_DTYPE_I32: return ((const int32_t *)row)[at];
    default: return ((const int64_t *)row)[at];
    }
}

static void masks_are_placed_filled_and_mirrored(void **state)
{
    static const stoke_dtype dtypes[] = { STOKE_DTYPE_U8, STOKE_DTYPE_U16, STOKE_DTYPE_I32, STOKE_DTYPE_I64 };
    static const size_t bytes[] = { 1, 2, 4, 8 };
    seed_random(13);
    for (int i = 0; i < 400; i++) {
        const uint32_t kind = below(4), width = 1 + below(i % 20 ? 90 : 1500), height = 1 + below(12);
        const uint32_t x = below(2) ? 0 : below(width), y = below(2) ? 0 : below(height), fill = 255;
        stoke_image src = noise(below(2) ? width - x : 1 + below(width + 3),
                                below(2) ? height - y : 1 + below(height + 3), 1, 1 + below(2), below(4));
        const int mirror = (int)below(4);
        const size_t size = (size_t)width * height * bytes[kind];
        uint8_t *memory = aligned_alloc(64, (size + 2 * GUARD + 63) / 64 * 64), *row = memory + GUARD;
        memset(memory, 0xa5, size + 2 * GUARD);
        stk_write_mask(&src, dtypes[kind], row, width, height, x, y, mirror, fill);
        for (uint32_t oy = 0; oy < height; oy++)
            for (uint32_t ox = 0; ox < width; ox++) {
                const int64_t sx = (mirror & STK_MIRROR_H ? (int64_t)width - 1 - ox : ox) - x;
                const int64_t sy = (mirror & STK_MIRROR_V ? (int64_t)height - 1 - oy : oy) - y;
                int64_t id = fill;
                if (sx >= 0 && sy >= 0 && sx < src.width && sy < src.height)
                    id = get(&src, (uint32_t)sx, (uint32_t)sy, 0);
                if (kind == 0 && id > 255) id = 255; /* u16 to u8 saturates */
                assert_int_equal(get_id(row, dtypes[kind], (size_t)oy * width + ox), id);
            }
        for (int g = 0; g < GUARD; g++) {
            assert_int_equal(memory[g], 0xa5);
            assert_int_equal(row[size + (size_t)g], 0xa5);
        }
        free(memory);
        free(src.data);
    }
}

/* Line by line gives what the whole gives. */
static void lines_make_the_whole(void **state)
{
    (void)state;
    static const stoke_dtype ids[] = { STOKE_DTYPE_U8, STOKE_DTYPE_U16, STOKE_DTYPE_I32, STOKE_DTYPE_I64 };
    enum { MOST = 64 * 9 };
    static _Alignas(64) uint8_t whole[MOST * 12], lines[MOST * 12];
    seed_random(14);
    for (int i = 0; i < 200; i++) {
        const uint32_t width = 1 + below(64), height = 1 + below(9);
        stk_pix_writer w;
        stk_writer_init(&w, (stoke_dtype)below(4), (stoke_layout)below(2), (stoke_normalize)below(3));
        stoke_image src = noise(width, height, 3, 1 + below(2), below(4));
        stk_write_image(&w, &src, whole, width, height, 0, 0, 0);
        memset(lines, 0xa5, sizeof lines);
        for (uint32_t y = 0; y < height; y++)
            stk_write_image_line(&w, (uint8_t *)src.data + y * src.stride, src.depth, lines, width, height,
                                 y);
        const size_t element = w.dtype == STOKE_DTYPE_U8 ? 1 : w.dtype == STOKE_DTYPE_F32 ? 4 : 2;
        assert_memory_equal(lines, whole, (size_t)width * height * 3 * element);
        free(src.data);

        const stoke_dtype dtype = ids[below(4)];
        src = noise(width, height, 1, 1 + below(2), below(4));
        stk_write_mask(&src, dtype, whole, width, height, 0, 0, 0, 0);
        for (uint32_t y = 0; y < height; y++)
            stk_write_mask_line((uint8_t *)src.data + y * src.stride, src.depth, dtype, lines, width, y);
        for (size_t k = 0; k < (size_t)width * height; k++)
            assert_int_equal(get_id(lines, dtype, k), get_id(whole, dtype, k));

        const uint32_t x = below(width), y = below(height);
        const stoke_box box = { x, y, 1 + below(width - x), 1 + below(height - y) };
        stk_fill_mask_box(dtype, lines, width, &box, 77);
        for (uint32_t k = 0; k < width * height; k++) {
            const int inside = k % width - x < box.width && k / width - y < box.height;
            assert_int_equal(get_id(lines, dtype, k), inside ? 77 : get_id(whole, dtype, k));
        }
        free(src.data);
    }
}

UNIT_GROUP(pix)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resize_is_near_the_exact_result),
        cmocka_unit_test(resize_in_strips_is_near_the_exact_result),
        cmocka_unit_test(resize_keeps_constant_pictures),
        cmocka_unit_test(resize_to_the_same_size_copies),
        cmocka_unit_test(resize_commutes_with_mirroring),
        cmocka_unit_test(resize_refuses_what_it_cannot_do),
        cmocka_unit_test(resize_survives_failing_allocations),
        cmocka_unit_test(resize_memory_is_planned_and_steady),
        cmocka_unit_test(nearest_takes_the_exact_source_pixel),
        cmocka_unit_test(f16_rounds_to_nearest_even),
        cmocka_unit_test(bf16_rounds_to_nearest_even),
        cmocka_unit_test(normalised_values_are_the_promised_ones),
        cmocka_unit_test(images_are_placed_filled_and_mirrored),
        cmocka_unit_test(masks_are_placed_filled_and_mirrored),
        cmocka_unit_test(lines_make_the_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
