/* SPDX-License-Identifier: Apache-2.0
 *
 * The warp: against its definition pixel by pixel (any matrix, any size, forbidden pages around the picture),
 * against exact interpolation, and by what must hold whatever the arithmetic.
 */
#include "unit.h"

#include <math.h>
#include <sys/mman.h>
#include <time.h>

#include "src/base/rng.h"
#include "src/pix/warp.h"

static uint64_t seed;

static uint64_t draw(void)
{
    static uint64_t x;
    if (!seed) {
        const char *given = getenv("STOKE_TEST_SEED");
        x = seed = given ? strtoull(given, NULL, 10) : (uint64_t)time(NULL);
        print_message("# STOKE_TEST_SEED=%llu\n", (unsigned long long)seed);
    }
    return stk_mix64(x += UINT64_C(0x9e3779b97f4a7c15));
}

static uint32_t below(uint32_t n)
{
    return (uint32_t)stk_below(draw(), n);
}

/* ---- pictures between forbidden pages ---- */

typedef struct picture {
    stoke_image image;
    void *base;
    size_t room;
} picture;

static picture picture_new(uint32_t width, uint32_t height, uint8_t channels, uint8_t depth, uint32_t pad)
{
    const size_t row = (size_t)width * channels * depth, stride = row + (size_t)pad * depth;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = (height - 1) * stride + row;
    const size_t inner = (bytes + page - 1) / page * page;
    picture p = { { NULL, stride, width, height, channels, depth }, NULL, inner + 2 * page };
    p.base = mmap(NULL, p.room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(p.base != MAP_FAILED);
    assert_int_equal(mprotect((uint8_t *)p.base + page, inner, PROT_READ | PROT_WRITE), 0);
    p.image.data = (uint8_t *)p.base + page + (below(4) ? inner - bytes : 0);
    for (size_t i = 0; i < bytes; i++) ((uint8_t *)p.image.data)[i] = (uint8_t)(draw() >> 20);
    return p;
}

static void picture_free(picture *p)
{
    munmap(p->base, p->room);
}

static uint32_t sample(const stoke_image *image, int64_t x, int64_t y, uint32_t c, uint32_t fill)
{
    if (x < 0 || y < 0 || x >= image->width || y >= image->height) return fill;
    const uint8_t *row = (const uint8_t *)image->data + (size_t)y * image->stride;
    const size_t i = (size_t)x * image->channels + c;
    if (image->depth == 1) return row[i];
    uint16_t value;
    memcpy(&value, row + 2 * i, 2);
    return value;
}

static void set_u8(stoke_image *image, uint32_t x, uint32_t y, uint32_t c, double value)
{
    ((uint8_t *)image->data)[y * image->stride + x * image->channels + c] = (uint8_t)lrint(value);
}

/* ---- plans ---- */

static int64_t fixed(double value)
{
    return (int64_t)llrint(value * 4294967296.0);
}

/* x = a column + b row + c, y = d column + e row + f */
static stoke_augment_plan plan_of(double a, double b, double c, double d, double e, double f)
{
    return (stoke_augment_plan){ .warp = 1,
                                 .matrix = { fixed(a), fixed(b), fixed(c), fixed(d), fixed(e), fixed(f) } };
}

/* Turned and scaled about the centres of output and picture. */
static stoke_augment_plan turned(double degrees, double scale, uint32_t out, const stoke_image *src)
{
    const double c = cos(degrees * 3.14159265358979 / 180) * scale,
                 s = sin(degrees * 3.14159265358979 / 180) * scale;
    const double half = (out - 1) / 2.0;
    return plan_of(c, -s, (src->width - 1) / 2.0 - c * half + s * half, s, c,
                   (src->height - 1) / 2.0 - s * half - c * half);
}

/* The whole output, rows packed. */
static void *warped(stk_pix_warper *w, const stoke_augment_plan *plan, const stoke_image *src, uint32_t width,
                    uint32_t height, const uint8_t fill[3], uint32_t mask_fill)
{
    const size_t row = (size_t)width * src->channels * src->depth;
    uint8_t *out = malloc(row * height);
    assert_int_equal(stk_warp_begin(w, plan, width, height, NULL), 0);
    for (uint32_t y = 0; y < height; y++) {
        if (src->channels == 3)
            stk_warp_image_row(w, src, fill, y, out + y * row);
        else
            stk_warp_mask_row(w, src, mask_fill, y, out + y * row);
    }
    return out;
}

static const uint8_t black[3] = { 0, 0, 0 };

/* ---- the definition ---- */

/* A sample by the words of warp.h; X and Y are 32.32 coordinates. */
static uint32_t defined(const stoke_image *src, uint64_t X, uint64_t Y, uint32_t c, uint32_t fill)
{
    if (src->channels == 1)
        return sample(src, (int64_t)(X + (UINT64_C(1) << 31)) >> 32, (int64_t)(Y + (UINT64_C(1) << 31)) >> 32,
                      0, fill);
    X += 1 << 23;
    Y += 1 << 23;
    const int64_t x0 = (int64_t)X >> 32, y0 = (int64_t)Y >> 32;
    const uint64_t wx = X >> 24 & 255, wy = Y >> 24 & 255;
    const uint64_t tl = sample(src, x0, y0, c, fill), tr = sample(src, x0 + 1, y0, c, fill);
    const uint64_t bl = sample(src, x0, y0 + 1, c, fill), br = sample(src, x0 + 1, y0 + 1, c, fill);
    const uint64_t v0 = tl * (256 - wy) + bl * wy, v1 = tr * (256 - wy) + br * wy;
    if (src->depth == 2) return (uint32_t)((v0 * (256 - wx) + v1 * wx + 32768) >> 16);
    return (uint32_t)((((v0 + 1) >> 1) * (256 - wx) + ((v1 + 1) >> 1) * wx + 16384) >> 15);
}

static int64_t any_element(uint32_t wildness)
{
    const int64_t all = (int64_t)draw();
    switch (wildness) {
    case 0: return all >> 31;                /* within two pixels */
    case 1: return below(3) ? all >> 31 : 0; /* some are 0 */
    case 2: return all >> below(64);         /* anything */
    default: return below(2) ? all : (int64_t)((UINT64_C(1) << 63) - (below(2) ? 0 : 1)); /* wraps around */
    }
}

static stoke_augment_plan any_plan(const stoke_image *src)
{
    const uint32_t wildness = below(5);
    stoke_augment_plan plan = turned(below(360), 0.3 + below(100) / 50.0, 50, src);
    if (wildness < 4) {
        for (int i = 0; i < 6; i++) plan.matrix[i] = any_element(wildness);
        if (wildness < 2) {
            plan.matrix[2] = (int64_t)stk_below(draw(), (uint64_t)src->width << 32);
            plan.matrix[5] = (int64_t)stk_below(draw(), (uint64_t)src->height << 32);
        }
    }
    if (below(3) == 0) {
        plan.elastic_alpha = (float)below(4000) / 100;
        plan.elastic_step = 4 + (float)below(6000) / 100;
        plan.elastic_key = draw();
    }
    return plan;
}

static void check_defined(const stk_pix_warper *w, const stoke_augment_plan *plan, const stoke_image *src,
                          uint32_t width, uint32_t y, const uint8_t *row, const uint32_t fill[3])
{
    const int32_t *shift = w->columns ? w->shift.data : NULL;
    for (uint32_t j = 0; j < width; j++) {
        const uint64_t *m = (const uint64_t *)plan->matrix;
        uint64_t X = m[0] * j + m[1] * y + m[2], Y = m[3] * j + m[4] * y + m[5];
        if (shift) {
            X += (uint64_t)(int64_t)shift[j] * 65536;
            Y += (uint64_t)(int64_t)shift[width + j] * 65536;
        }
        for (uint32_t c = 0; c < src->channels; c++) {
            const stoke_image line = { (void *)(uintptr_t)row, 0, width, 1, src->channels, src->depth };
            const uint32_t expected = defined(src, X, Y, c, fill[c]), got = sample(&line, j, 0, c, 0);
            if (expected != got)
                fail_msg("%ux%u, %u channels of %u bytes, row %u column %u at %.4f %.4f%s: %u, not %u",
                         src->width, src->height, src->channels, src->depth, y, j,
                         (double)(int64_t)X / 4294967296.0, (double)(int64_t)Y / 4294967296.0,
                         shift ? " (elastic)" : "", got, expected);
        }
    }
}

static void test_any_plan_gives_what_the_definition_says(void **state)
{
    stk_pix_warper w = { 0 };
    for (int round = 0; round < 3000; round++) {
        const uint8_t channels = below(2) ? 3 : 1, depth = below(3) ? 1 : 2;
        picture p = picture_new(1 + below(below(2) ? 4 : 60), 1 + below(below(2) ? 4 : 60), channels, depth,
                                below(9));
        const stoke_augment_plan plan = any_plan(&p.image);
        const uint32_t width = 1 + below(below(2) ? 12 : 120), height = 1 + below(40), y = below(height);
        const uint8_t fill[3] = { (uint8_t)draw(), (uint8_t)draw(), (uint8_t)draw() };
        const uint32_t mask_fill = depth == 1 ? 255 : 65535;
        const uint32_t expected[3] = { channels == 1 ? mask_fill
                                       : depth == 1  ? fill[0]
                                                     : fill[0] * 257u,
                                       depth == 1 ? fill[1] : fill[1] * 257u,
                                       depth == 1 ? fill[2] : fill[2] * 257u };
        const size_t bytes = (size_t)width * channels * depth;
        uint8_t row[120 * 6 + 16];
        memset(row, 0xa5, sizeof row);
        assert_int_equal(stk_warp_begin(&w, &plan, width, height, NULL), 0);
        if (channels == 3)
            stk_warp_image_row(&w, &p.image, fill, y, row);
        else
            stk_warp_mask_row(&w, &p.image, mask_fill, y, row);
        check_defined(&w, &plan, &p.image, width, y, row, expected);
        for (size_t i = bytes; i < sizeof row; i++) assert_int_equal(row[i], 0xa5);
        picture_free(&p);
    }
    stk_warper_free(&w);
}

/* ---- exact maps ---- */

/* Output (j, i) must be source (mx[0] j + mx[1] i + mx[2], ...) to the byte. */
static void check_copy(const stoke_image *src, const int m[6], uint32_t width, uint32_t height)
{
    stk_pix_warper w = { 0 };
    const stoke_augment_plan plan = plan_of(m[0], m[1], m[2], m[3], m[4], m[5]);
    uint8_t *out = warped(&w, &plan, src, width, height, black, 7);
    const stoke_image got = { out,           (size_t)width * src->channels * src->depth,
                              width,         height,
                              src->channels, src->depth };
    for (int64_t y = 0; y < height; y++)
        for (int64_t x = 0; x < width; x++)
            for (uint32_t c = 0; c < src->channels; c++)
                assert_int_equal(sample(&got, x, y, c, 0), sample(src, m[0] * x + m[1] * y + m[2],
                                                                  m[3] * x + m[4] * y + m[5], c, 99999));
    free(out);
    stk_warper_free(&w);
}

static void test_whole_matrices_copy(void **state)
{
    static const uint32_t sizes[][2] = { { 1, 1 }, { 1, 9 },   { 9, 1 },  { 2, 2 },
                                         { 3, 2 }, { 37, 23 }, { 64, 48 } };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (int kind = 0; kind < 4; kind++) {
            const uint32_t w = sizes[i][0], h = sizes[i][1];
            const int right = (int)w - 1, low = (int)h - 1;
            picture p = picture_new(w, h, kind & 1 ? 3 : 1, kind & 2 ? 2 : 1, 3);
            check_copy(&p.image, (int[]){ 1, 0, 0, 0, 1, 0 }, w, h);         /* identity */
            check_copy(&p.image, (int[]){ -1, 0, right, 0, 1, 0 }, w, h);    /* mirrored */
            check_copy(&p.image, (int[]){ 1, 0, 0, 0, -1, low }, w, h);      /* upside down */
            check_copy(&p.image, (int[]){ -1, 0, right, 0, -1, low }, w, h); /* 180 degrees */
            check_copy(&p.image, (int[]){ 0, -1, right, 1, 0, 0 }, h, w);    /* 90 */
            check_copy(&p.image, (int[]){ 0, 1, 0, -1, 0, low }, h, w);      /* 270 */
            picture_free(&p);
        }
    }
}

/* ---- against exact interpolation ---- */

static double exact(const stoke_image *src, const stoke_augment_plan *plan, uint32_t j, uint32_t i,
                    uint32_t c, double fill)
{
    const int64_t *m = plan->matrix;
    const double one = 4294967296.0, x = (double)(m[0] * j + m[1] * i + m[2]) / one,
                 y = (double)(m[3] * j + m[4] * i + m[5]) / one;
    const double x0 = floor(x), y0 = floor(y), u = x - x0, v = y - y0;
    double sum = 0;
    for (int k = 0; k < 4; k++) {
        const uint32_t tap = sample(src, (int64_t)x0 + (k & 1), (int64_t)y0 + (k >> 1), c, 99999);
        sum += (k & 1 ? u : 1 - u) * (k >> 1 ? v : 1 - v) * (tap == 99999 ? fill : tap);
    }
    return sum;
}

static double worst_error(const stoke_image *src)
{
    static const uint8_t fill[3] = { 12, 200, 90 };
    const uint32_t size = 96;
    stk_pix_warper w = { 0 };
    double worst = 0;
    for (int round = 0; round < 12; round++) {
        const stoke_augment_plan plan = turned(round * 31 + 3, 0.5 + round * 0.1, size, src);
        uint8_t *out = warped(&w, &plan, src, size, size, fill, 0);
        for (uint32_t y = 0; y < size; y++)
            for (uint32_t x = 0; x < size; x++)
                for (uint32_t c = 0; c < 3; c++)
                    worst =
                        fmax(worst, fabs(out[(y * size + x) * 3 + c] - exact(src, &plan, x, y, c, fill[c])));
        free(out);
    }
    stk_warper_free(&w);
    return worst;
}

static void smooth(stoke_image *image)
{
    for (uint32_t y = 0; y < image->height; y++)
        for (uint32_t x = 0; x < image->width; x++)
            for (uint32_t c = 0; c < 3; c++)
                set_u8(image, x, y, c, 128 + 100 * sin(x * 0.07 + c) * cos(y * 0.05 - c));
}

static void test_close_to_exact_interpolation(void **state)
{
    picture p = picture_new(80, 90, 3, 1, 0);
    const double noise = worst_error(&p.image);
    assert_true(noise <= 1.5);
    smooth(&p.image);
    /* fill apart: the border of a smooth picture is an edge */
    stk_pix_warper w = { 0 };
    const stoke_augment_plan plan = turned(23, 0.4, 96, &p.image);
    uint8_t *out = warped(&w, &plan, &p.image, 96, 96, black, 0);
    double worst = 0;
    for (uint32_t i = 0; i < 96 * 96 * 3; i++)
        worst = fmax(worst, fabs(out[i] - exact(&p.image, &plan, i / 3 % 96, i / 3 / 96, i % 3, 0)));
    print_message("# worst error: noise %.3f, smooth %.3f of 255\n", noise, worst);
    assert_true(worst <= 0.6);
    free(out);
    stk_warper_free(&w);
    picture_free(&p);
}

static void test_turning_back_gives_the_picture_again(void **state)
{
    enum { SIZE = 128 };
    picture p = picture_new(SIZE, SIZE, 3, 1, 0);
    smooth(&p.image);
    stk_pix_warper w = { 0 };
    const stoke_augment_plan there = turned(17, 1, SIZE, &p.image), back = turned(-17, 1, SIZE, &p.image);
    uint8_t *once = warped(&w, &there, &p.image, SIZE, SIZE, black, 0);
    const stoke_image middle = { once, SIZE * 3, SIZE, SIZE, 3, 1 };
    uint8_t *twice = warped(&w, &back, &middle, SIZE, SIZE, black, 0);
    for (uint32_t y = 32; y < 96; y++)
        for (uint32_t x = 32; x < 96; x++)
            for (uint32_t c = 0; c < 3; c++) {
                const int difference = (int)twice[(y * SIZE + x) * 3 + c] - (int)sample(&p.image, x, y, c, 0);
                assert_true(abs(difference) <= 2);
            }
    free(once);
    free(twice);
    stk_warper_free(&w);
    picture_free(&p);
}

static void test_constants_stay_and_labels_are_not_invented(void **state)
{
    enum { SIZE = 60 };
    stk_pix_warper w = { 0 };
    for (int round = 0; round < 40; round++) {
        picture image = picture_new(50, 40, 3, 1, 1), mask = picture_new(50, 40, 1, 1, 1);
        const uint8_t value = (uint8_t)draw(), fill[3] = { value, value, value };
        memset(image.image.data, value, 39 * image.image.stride + 150);
        for (uint32_t y = 0; y < 40; y++)
            for (uint32_t x = 0; x < 50; x++) set_u8(&mask.image, x, y, 0, 3 + 2 * ((x / 9 + y / 7) % 5));
        stoke_augment_plan plan = turned(below(360), 0.6, SIZE, &image.image);
        if (round & 1) plan.elastic_alpha = 6, plan.elastic_step = 16, plan.elastic_key = draw();
        uint8_t *a = warped(&w, &plan, &image.image, SIZE, SIZE, fill, 0);
        for (int i = 0; i < SIZE * SIZE * 3; i++) assert_int_equal(a[i], value);
        uint8_t *b = warped(&w, &plan, &mask.image, SIZE, SIZE, fill, 255);
        int seen = 0;
        for (int i = 0; i < SIZE * SIZE; i++) {
            assert_true(b[i] == 255 || (b[i] >= 3 && b[i] <= 11 && b[i] % 2 == 1));
            seen |= b[i] != 255;
        }
        assert_true(seen);
        free(a);
        free(b);
        picture_free(&image);
        picture_free(&mask);
    }
    stk_warper_free(&w);
}

/* ---- elastic ---- */

enum { EW = 200, EH = 150 };

static stoke_augment_plan elastic_plan(float alpha, float step, uint64_t key)
{
    stoke_augment_plan plan = plan_of(1, 0, 0, 0, 1, 0);
    plan.elastic_alpha = alpha;
    plan.elastic_step = step;
    plan.elastic_key = key;
    return plan;
}

/* Displacements of all pixels: x, then y. */
static int32_t *field(stk_pix_warper *w, const stoke_augment_plan *plan)
{
    int32_t *all = malloc(sizeof *all * 2 * EW * EH);
    assert_int_equal(stk_warp_begin(w, plan, EW, EH, NULL), 0);
    for (uint32_t y = 0; y < EH; y++) {
        stk_elastic_row(w, y);
        memcpy(all + y * EW, w->shift.data, EW * sizeof *all);
        memcpy(all + EW * EH + y * EW, (int32_t *)w->shift.data + EW, EW * sizeof *all);
    }
    return all;
}

static void test_elastic_without_strength_is_the_identity(void **state)
{
    picture p = picture_new(33, 21, 3, 1, 0);
    stk_pix_warper w = { 0 };
    const stoke_augment_plan plan = elastic_plan(0, 16, 5);
    uint8_t *out = warped(&w, &plan, &p.image, 33, 21, black, 0);
    assert_memory_equal(out, p.image.data, 33 * 21 * 3);
    assert_int_equal(stk_warper_memory(&w), 0);
    free(out);
    stk_warper_free(&w);
    picture_free(&p);
}

static void test_elastic_is_bounded_and_smooth(void **state)
{
    stk_pix_warper w = { 0 };
    for (int round = 0; round < 20; round++) {
        const float alpha = 0.5f + (float)below(200) / 10, step = 4 + (float)below(400) / 10;
        const stoke_augment_plan plan = elastic_plan(alpha, step, draw());
        int32_t *f = field(&w, &plan);
        /* A cubic B-spline's second derivative is at most 4 alpha per cell squared. */
        const double limit = alpha * 65536.0, bend = 4 * limit / ((double)step * step) + 4;
        for (int i = 0; i < 2 * EW * EH; i++) {
            assert_true(abs(f[i]) <= limit);
            if (i % EW >= 2) assert_true(fabs((double)f[i] - 2.0 * f[i - 1] + f[i - 2]) <= bend);
            if (i / EW % EH >= 2) assert_true(fabs((double)f[i] - 2.0 * f[i - EW] + f[i - 2 * EW]) <= bend);
        }
        free(f);
    }
    stk_warper_free(&w);
}

static void test_elastic_spreads_as_a_spline_of_uniform_points(void **state)
{
    /* Points uniform in +-alpha: variance alpha^2 / 3; the basis' squares add up to 151/315 on average. */
    const double expected = 151.0 / 315 * 151 / 315 / 3;
    stk_pix_warper w = { 0 };
    double sum = 0, squares = 0, product = 0;
    const int fields = 60, n = EW * EH;
    for (int k = 0; k < fields; k++) {
        const stoke_augment_plan plan = elastic_plan(8, 8, 1000 + (uint64_t)k);
        int32_t *f = field(&w, &plan);
        for (int i = 0; i < n; i++) {
            const double x = f[i] / (8 * 65536.0), y = f[n + i] / (8 * 65536.0);
            sum += x + y;
            squares += x * x + y * y;
            product += x * y;
        }
        free(f);
    }
    const double count = 2.0 * fields * n;
    /* 60 fields have some 30 000 independent points: the mean's deviation is about 0.002, the variance's 1 %.
     */
    assert_true(fabs(sum / count) < 0.01);
    assert_true(fabs(squares / count / expected - 1) < 0.05);
    assert_true(fabs(product / count) < 0.005); /* x and y are independent */
    stk_warper_free(&w);
}

static void test_elastic_rows_depend_on_plan_and_row_only(void **state)
{
    stk_pix_warper w = { 0 }, other = { 0 };
    const stoke_augment_plan plan = elastic_plan(7, 20, 77), second = elastic_plan(7, 20, 78);
    int32_t *f = field(&w, &plan), *g = field(&w, &second);
    assert_memory_not_equal(f, g, sizeof *f * 2 * EW * EH);
    assert_int_equal(stk_warp_begin(&other, &second, 31, 17, NULL), 0); /* leftovers of another plan */
    stk_elastic_row(&other, 3);
    assert_int_equal(stk_warp_begin(&other, &plan, EW, EH, NULL), 0);
    for (uint32_t k = 0; k < 2 * EH; k++) {
        const uint32_t y = below(EH);
        stk_elastic_row(&other, y);
        assert_memory_equal(other.shift.data, f + y * EW, EW * sizeof *f);
        assert_memory_equal((int32_t *)other.shift.data + EW, f + EW * EH + y * EW, EW * sizeof *f);
    }
    /* and not on the size of the output, as far as it goes */
    assert_int_equal(stk_warp_begin(&other, &plan, EW - 61, EH + 99, NULL), 0);
    stk_elastic_row(&other, 41);
    assert_memory_equal(other.shift.data, f + 41 * EW, (EW - 61) * sizeof *f);
    free(f);
    free(g);
    stk_warper_free(&w);
    stk_warper_free(&other);
}

/* The same integers on every machine, whatever its floats are made of. */
static void test_elastic_values_are_pinned(void **state)
{
    stk_pix_warper w = { 0 };
    const stoke_augment_plan plan = elastic_plan(12.5f, 17.3f, UINT64_C(0x123456789abcdef0));
    int32_t *f = field(&w, &plan);
    uint64_t hash = 0;
    for (int i = 0; i < 2 * EW * EH; i++) hash = stk_mix64(hash ^ (uint32_t)f[i]);
    if (hash != UINT64_C(0x24ffe3dc48b0d08f))
        fail_msg("the field's hash is 0x%llx", (unsigned long long)hash);
    free(f);
    stk_warper_free(&w);
}

static void test_hostile_elastic_settings_are_refused(void **state)
{
    static const struct {
        float alpha, step;
    } bad[] = { { 1, 0 },   { 1, -5 },   { 1, NAN },    { 1, INFINITY },  { 1, 3.9f },
                { -1, 16 }, { NAN, 16 }, { 1e30f, 16 }, { INFINITY, 16 }, { 20000, 16 } };
    stk_pix_warper w = { 0 };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const stoke_augment_plan plan = elastic_plan(bad[i].alpha, bad[i].step, 1);
        stoke_error err = { 0 };
        assert_int_equal(stk_warp_begin(&w, &plan, 100, 100, &err), STOKE_E_INVALID);
        assert_non_null(strstr(err.message, "elastic"));
    }
    const stoke_augment_plan far = elastic_plan(16384, 1e9f, 1); /* the largest that are allowed */
    free(field(&w, &far));
    stk_warper_free(&w);
}

static void test_memory_is_announced_and_its_lack_reported(void **state)
{
    stk_pix_warper w = { 0 };
    const stoke_augment_plan plan = elastic_plan(3, STK_ELASTIC_STEP_MIN, 1);
    assert_int_equal(stk_warp_begin(&w, &plan, 123, 77, NULL), 0);
    assert_true(stk_warper_memory(&w) > 0);
    assert_true(stk_warper_memory(&w) <= stk_warp_scratch(123, 77));
    const uint64_t calls = stk_mem_count().calls;
    assert_int_equal(stk_warp_begin(&w, &plan, 123, 77, NULL), 0);
    assert_int_equal(stk_mem_count().calls, calls);
    stk_warper_free(&w);
    for (int after = 0; after < 2; after++) {
        stoke_error err = { 0 };
        stk_mem_fail_after(after);
        const int r = stk_warp_begin(&w, &plan, 123, 77, &err);
        stk_mem_fail_after(-1);
        assert_int_equal(r, STOKE_E_NOMEM);
        stk_warper_free(&w);
    }
}

UNIT_GROUP(warp)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_plan_gives_what_the_definition_says),
        cmocka_unit_test(test_whole_matrices_copy),
        cmocka_unit_test(test_close_to_exact_interpolation),
        cmocka_unit_test(test_turning_back_gives_the_picture_again),
        cmocka_unit_test(test_constants_stay_and_labels_are_not_invented),
        cmocka_unit_test(test_elastic_without_strength_is_the_identity),
        cmocka_unit_test(test_elastic_is_bounded_and_smooth),
        cmocka_unit_test(test_elastic_spreads_as_a_spline_of_uniform_points),
        cmocka_unit_test(test_elastic_rows_depend_on_plan_and_row_only),
        cmocka_unit_test(test_elastic_values_are_pinned),
        cmocka_unit_test(test_hostile_elastic_settings_are_refused),
        cmocka_unit_test(test_memory_is_announced_and_its_lack_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
