/* SPDX-License-Identifier: Apache-2.0
 *
 * Patches against their definition, element by element, and the way back as the transpose of the way there.
 */
#include "tests/unit/fixture_run.h"

#include "src/net/ops/ops.h"

static stk_conv_patches patches_of(uint32_t batch, uint32_t height, uint32_t width, uint32_t channels,
                                   uint32_t kernel, uint32_t stride, uint32_t padding)
{
    return (stk_conv_patches){ .batch = batch,
                               .height = height,
                               .width = width,
                               .channels = channels,
                               .kernel = kernel,
                               .stride = stride,
                               .padding = padding,
                               .out_height = (height + 2 * padding - kernel) / stride + 1,
                               .out_width = (width + 2 * padding - kernel) / stride + 1,
                               .sample_stride = (size_t)height * width * channels };
}

/* SegFormer's three kinds (7x7 by 4, 3x3 by 2, kernel = stride) at sizes that leave pixels over; a kernel of
 * one pixel; gaps between kernels; a kernel larger than the source; overlap of five; pictures
 * with kernels up to more pixels than a vector has lanes. */
enum { KINDS = 15 };
static stk_conv_patches kind(int i)
{
    const stk_conv_patches kinds[KINDS] = {
        patches_of(2, 17, 23, 3, 7, 4, 3),  patches_of(1, 1, 1, 3, 7, 4, 3),
        patches_of(2, 9, 12, 8, 3, 2, 1),   patches_of(1, 8, 5, 40, 3, 2, 1),
        patches_of(2, 19, 9, 6, 8, 8, 0),   patches_of(1, 7, 5, 10, 2, 2, 0),
        patches_of(1, 4, 4, 5, 1, 1, 0),    patches_of(1, 11, 9, 4, 2, 3, 1),
        patches_of(2, 6, 7, 2, 9, 2, 4),    patches_of(1, 13, 4, 90, 4, 4, 0),
        patches_of(2, 5, 6, 3, 1, 1, 0),    patches_of(1, 6, 9, 3, 2, 1, 1),
        patches_of(1, 25, 37, 3, 17, 3, 4), patches_of(1, 9, 8, 3, 8, 1, 0),
        patches_of(1, 9, 9, 3, 5, 4, 2),
    };
    return kinds[i];
}

static size_t elements(const stk_conv_patches *p)
{
    return (size_t)p->batch * p->height * p->width * p->channels;
}
static size_t row_elements(const stk_conv_patches *p)
{
    return (size_t)p->kernel * p->kernel * p->channels;
}
static size_t rows_of(const stk_conv_patches *p)
{
    return (size_t)p->batch * p->out_height * p->out_width;
}

/* Element of the source that element `i` of patch `row` is, counted as [batch][height][width][channels], or
 * -1 in the padding. */
static int64_t origin(const stk_conv_patches *p, size_t row, size_t i)
{
    const size_t outs = (size_t)p->out_height * p->out_width, channel = i % p->channels;
    const size_t kx = i / p->channels % p->kernel, ky = i / p->channels / p->kernel;
    const int64_t y = (int64_t)(row % outs / p->out_width * p->stride + ky) - p->padding;
    const int64_t x = (int64_t)(row % p->out_width * p->stride + kx) - p->padding;
    if (y < 0 || x < 0 || y >= p->height || x >= p->width) return -1;
    return (((int64_t)(row / outs) * p->height + y) * p->width + x) * p->channels + (int64_t)channel;
}

/* Where element `at`, counted as above, lies in the source as it is laid out. */
static size_t place(const stk_conv_patches *p, int64_t at)
{
    const size_t area = (size_t)p->height * p->width, sample = (size_t)at / (area * p->channels);
    const size_t within = (size_t)at % (area * p->channels);
    const size_t pixel = within / p->channels, channel = within % p->channels;
    return sample * p->sample_stride + (p->planar ? channel * area + pixel : within);
}

/* All rows at once, and in pieces that begin and end anywhere, also in another sample. */
static void check_rows(const stk_conv_patches *p)
{
    const stk_exec_rows rows = stk_patches_rows(p);
    const size_t width = row_elements(p), all = rows_of(p), bytes = stk_float_bytes(p->out);
    assert_true(rows.stride >= width);
    unsigned char *whole = stk_alloc(all * rows.stride * bytes),
                  *piece = stk_alloc(all * rows.stride * bytes);
    memset(whole, 0xff, all * rows.stride * bytes);
    rows.make(rows.context, 0, all, whole);
    for (size_t row = 0; row < all; row++) {
        for (size_t i = 0; i < width; i++) {
            const int64_t from = origin(p, row, i);
            float want = 0;
            if (from >= 0) {
                uint32_t rounded;
                stk_put(&rounded, 0, stk_get(p->source, place(p, from), p->type), p->out);
                want = stk_get(&rounded, 0, p->out);
            }
            assert_true(stk_get(whole, row * rows.stride + i, p->out) == want);
        }
    }
    for (size_t first = 0, count = 1; first < all; first += count, count = count * 2 + 1) {
        if (count > all - first) count = all - first;
        rows.make(rows.context, first, count, piece);
        for (size_t row = 0; row < count; row++)
            assert_memory_equal(piece + row * rows.stride * bytes,
                                whole + (first + row) * rows.stride * bytes, width * bytes);
    }
    stk_free(whole);
    stk_free(piece);
}

static void rows_are_the_patches(void **state)
{
    (void)state;
    for (int i = 0; i < KINDS; i++) {
        for (int pair = 0; pair < STK_FLOATS * STK_FLOATS; pair++) {
            stk_conv_patches p = kind(i);
            p.type = pair / STK_FLOATS;
            p.out = pair % STK_FLOATS;
            void *source = running_numbers(elements(&p), p.type, 4, 7);
            p.source = source;
            check_rows(&p);
            stk_free(source);
        }
    }
}

/* A batch in planes, each picture followed by other data. */
static void pictures_in_planes(void **state)
{
    (void)state;
    for (int i = 0; i < KINDS; i++) {
        for (int out = 0; out < STK_FLOATS; out++) {
            stk_conv_patches p = kind(i);
            p.planar = 1;
            p.out = out;
            p.sample_stride += 37;
            float *source = running_numbers(p.batch * p.sample_stride, STK_F32, 4, 8);
            p.source = source;
            check_rows(&p);
            stk_free(source);
        }
    }
}

/* dx[i] = old[i] + the sum over its places in the patches, in double; rows of d_rows have room behind them.
 */
static void check_backward(const stk_conv_patches *p, stk_cpu_level level, stk_float dx_type, int add)
{
    const size_t stride = row_elements(p) + 3, count = elements(p);
    void *d_rows = running_numbers(rows_of(p) * stride, p->out, 1, 9);
    void *old = running_numbers(count, dx_type, 1, 10);
    double *want = stk_calloc(count, sizeof *want);
    for (size_t i = 0; add && i < count; i++) want[i] = stk_get(old, i, dx_type);
    for (size_t row = 0; row < rows_of(p); row++)
        for (size_t i = 0; i < row_elements(p); i++)
            if (origin(p, row, i) >= 0) want[origin(p, row, i)] += stk_get(d_rows, row * stride + i, p->out);
    void *first = NULL;
    for (uint32_t threads = 1; threads <= 3; threads++) {
        void *dx = stk_alloc(count * stk_float_bytes(dx_type));
        memcpy(dx, old, count * stk_float_bytes(dx_type));
        running r;
        running_start(&r, level, threads, p->out);
        stk_patches_backward(&r.run, p, d_rows, stride, dx, dx_type, add);
        running_stop(&r);
        for (size_t i = 0; i < count; i++)
            assert_true(fabs(stk_get(dx, i, dx_type) - want[i]) <=
                        running_rounding(dx_type) * 1.01 * fabs(want[i]) + 4e-6); /* of up to 64 terms */
        if (first) assert_memory_equal(first, dx, count * stk_float_bytes(dx_type));
        if (first) stk_free(dx);
        if (!first) first = dx;
    }
    stk_free(first);
    stk_free(want);
    stk_free(old);
    stk_free(d_rows);
}

static void backward_is_the_transpose(void **state)
{
    (void)state;
    for (int level = 0; level <= (int)stk_cpu_detected(); level++) {
        for (int i = 0; i < KINDS; i++) {
            for (int pair = 0; pair < STK_FLOATS * STK_FLOATS; pair++) {
                stk_conv_patches p = kind(i);
                p.out = pair / STK_FLOATS;
                check_backward(&p, level, pair % STK_FLOATS, 0);
                check_backward(&p, level, pair % STK_FLOATS, 1);
            }
        }
    }
}

/* Every column of the table, which stk_patches_rows does not let one choose: the same bits, and nothing
 * beyond the last element. */
static void tables_are_equal(void **state)
{
    (void)state;
    enum { PLANE = 700, WIDTH = 25, ROOM = 20 * 20 * 3 + 32 };
    float *picture = running_numbers(3 * PLANE, STK_F32, 2, 11);
    const void *in[4] = { picture, picture + 3, picture + 111, picture + 7 };
    stk_net_table c, v;
    stk_net_table_fill(&c, STK_CPU_C);
    for (int level = 0; level <= (int)stk_cpu_detected(); level++) {
        stk_net_table_fill(&v, level);
        for (int type = 0; type < STK_FLOATS; type++) {
            for (uint32_t kernel = 1; kernel <= 20; kernel++) {
                uint32_t a[ROOM], b[ROOM];
                memset(a, 0x11, sizeof a);
                memset(b, 0x11, sizeof b);
                c.conv.patch_rgb(a, type, picture, PLANE, WIDTH, kernel);
                v.conv.patch_rgb(b, type, picture, PLANE, WIDTH, kernel);
                assert_memory_equal(a, b, sizeof a);
                for (uint32_t count = 0; count <= 4; count++) {
                    c.conv.sum(a, type, in, count, STK_F32, kernel * 3, count % 2);
                    v.conv.sum(b, type, in, count, STK_F32, kernel * 3, count % 2);
                    assert_memory_equal(a, b, sizeof a);
                }
            }
        }
    }
    stk_free(picture);
}

/* Large enough for several tasks. */
static void backward_of_many_lines(void **state)
{
    (void)state;
    const stk_conv_patches overlapping = patches_of(3, 33, 41, 24, 3, 2, 1),
                           apart = patches_of(3, 33, 41, 24, 4, 4, 0);
    check_backward(&overlapping, STK_CPU_C, STK_F32, 1);
    check_backward(&apart, STK_CPU_C, STK_F32, 1);
}

UNIT_GROUP(conv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_the_patches),      cmocka_unit_test(pictures_in_planes),
        cmocka_unit_test(backward_is_the_transpose), cmocka_unit_test(backward_of_many_lines),
        cmocka_unit_test(tables_are_equal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
