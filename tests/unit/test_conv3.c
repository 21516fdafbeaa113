/* SPDX-License-Identifier: Apache-2.0
 *
 * 3x3 convolutions against their formula in doubles: all that can follow the sum, all that can be read,
 * gradients.
 */
#include "tests/unit/fixture_run.h"

#include "src/net/ops/ops.h"

typedef struct shape {
    stk_conv3_map map;
    uint32_t in, out;
} shape;
/* Single pixels, lines and columns, sizes around a tile of 4, several parts to a line, channels that do not
 * fill a vector, exactly fill it, begin a second panel. */
static const shape shapes[] = { { { 1, 1, 1 }, 1, 1 },    { { 2, 1, 9 }, 5, 7 },   { { 1, 11, 1 }, 7, 5 },
                                { { 1, 4, 4 }, 3, 16 },   { { 2, 3, 6 }, 32, 3 },  { { 1, 9, 13 }, 16, 27 },
                                { { 1, 5, 270 }, 3, 48 }, { { 3, 8, 8 }, 33, 17 }, { { 1, 2, 45 }, 96, 64 } };
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* How a map is given. */
typedef enum given { OF_THE_RUN, F32, PLANES } given;

typedef struct operand {
    stk_conv3_source source;
    void *data;
    double *numbers; /* [pixel][channel], as the operation takes them */
} operand;

typedef struct data {
    shape shape;
    stk_float type;
    size_t pixels, weights; /* numbers of */
    float *weight, *bias;
    double *rounded; /* weights as packed */
    operand x, dy;
} data;

static double as(float value, stk_float type)
{
    uint32_t stored;
    stk_put(&stored, 0, value, type);
    return stk_get(&stored, 0, type);
}

static operand make_operand(const shape *s, uint32_t channels, stk_float type, given how, uint64_t seed)
{
    const size_t area = (size_t)s->map.height * s->map.width, pixels = area * s->map.batch;
    operand o = { .source = { .type = how == OF_THE_RUN ? type : STK_F32, .planar = how == PLANES } };
    o.source.stride = how == PLANES ? 1 : channels + (how == F32 ? 3 : 0);
    o.source.sample_stride = how == PLANES ? area * channels + 5 : area * o.source.stride;
    o.data = running_numbers(s->map.batch * o.source.sample_stride, o.source.type, 1, seed);
    o.source.data = o.data;
    o.numbers = stk_calloc(pixels * channels, sizeof(double));
    assert_non_null(o.numbers);
    for (size_t p = 0; p < pixels; p++)
        for (size_t c = 0; c < channels; c++) {
            const size_t sample = p / area * o.source.sample_stride, pixel = p % area;
            const size_t at = sample + (how == PLANES ? c * area + pixel : pixel * o.source.stride + c);
            o.numbers[p * channels + c] = as(stk_get(o.data, at, o.source.type), type);
        }
    return o;
}

static data make_data(shape s, stk_float type, given x, given dy)
{
    data d = { .shape = s, .type = type, .weights = (size_t)9 * s.in * s.out };
    d.pixels = (size_t)s.map.batch * s.map.height * s.map.width;
    d.weight = running_numbers(d.weights, STK_F32, 0.3, 1);
    d.bias = running_numbers(s.out, STK_F32, 0.5, 2);
    d.rounded = stk_calloc(d.weights, sizeof(double));
    assert_non_null(d.rounded);
    for (size_t i = 0; i < d.weights; i++) d.rounded[i] = as(d.weight[i], type);
    d.x = make_operand(&s, s.in, type, x, 3);
    d.dy = make_operand(&s, s.out, type, dy, 4);
    return d;
}

static void free_data(data *d)
{
    stk_free(d->weight), stk_free(d->bias), stk_free(d->rounded);
    stk_free(d->x.data), stk_free(d->x.numbers), stk_free(d->dy.data), stk_free(d->dy.numbers);
}

/* The pixel that tap `tap` of pixel `p` takes; SIZE_MAX outside. */
static size_t taken(const shape *s, size_t p, size_t tap)
{
    const int64_t width = s->map.width, height = s->map.height;
    const int64_t x = (int64_t)p % width + (int64_t)tap % 3 - 1;
    const int64_t y = (int64_t)p / width % height + (int64_t)tap / 3 - 1;
    if (x < 0 || y < 0 || x >= width || y >= height) return SIZE_MAX;
    return p + (size_t)((int64_t)(tap / 3) - 1) * (size_t)width + tap % 3 - 1;
}

/* Everything at once: y without bias, dx, d_weight, d_bias. */
typedef struct answer {
    double *y, *dx, *d_weight, *d_bias;
} answer;

static answer oracle(const data *d)
{
    const size_t in = d->shape.in, out = d->shape.out;
    answer a = { stk_calloc(d->pixels * out, sizeof(double)), stk_calloc(d->pixels * in, sizeof(double)),
                 stk_calloc(d->weights, sizeof(double)), stk_calloc(out, sizeof(double)) };
    for (size_t p = 0; p < d->pixels; p++)
        for (size_t o = 0; o < out; o++) {
            const double dy = d->dy.numbers[p * out + o];
            a.d_bias[o] += dy;
            for (size_t tap = 0; tap < 9; tap++) {
                const size_t from = taken(&d->shape, p, tap);
                for (size_t i = 0; from != SIZE_MAX && i < in; i++) {
                    const size_t weight = (o * in + i) * 9 + tap;
                    a.y[p * out + o] += d->x.numbers[from * in + i] * d->rounded[weight];
                    a.dx[from * in + i] += dy * d->rounded[weight];
                    a.d_weight[weight] += dy * d->x.numbers[from * in + i];
                }
            }
        }
    return a;
}

static void free_answer(answer *a)
{
    stk_free(a->y), stk_free(a->dx), stk_free(a->d_weight), stk_free(a->d_bias);
}

/* ---- the operation ---- */

typedef struct scratch {
    running net;
    stk_conv3 layer;
} scratch;

static void open_bench(scratch *b, const data *d, stk_cpu_level level, uint32_t threads)
{
    running_start(&b->net, level, threads, d->type);
    const stk_exec *run = &b->net.run;
    b->layer = (stk_conv3){ .in = d->shape.in, .out = d->shape.out, .weight = d->weight, .bias = d->bias };
    b->layer.forward = stk_alloc_aligned(stk_conv3_packed(run, &b->layer, 0), 64);
    b->layer.backward = stk_alloc_aligned(stk_conv3_packed(run, &b->layer, 1), 64);
    assert_true(b->layer.forward && b->layer.backward);
    running_room(&b->net, stk_conv3_need(run, &b->layer, d->shape.map));
    stk_conv3_pack(run, (const stk_conv3 *const[]){ &b->layer }, 1);
}

static void close_bench(scratch *b)
{
    running_stop(&b->net);
    stk_free(b->layer.forward), stk_free(b->layer.backward);
}

/* Results with an element more per pixel than channels, which must stay 0. */
typedef struct result {
    void *y, *dx;
    float *d_weight, *d_bias;
} result;

static result compute(const data *d, stk_cpu_level level, uint32_t threads, stk_float to)
{
    const size_t in = d->shape.in, out = d->shape.out;
    result r = { .y = running_zeros(d->pixels * (out + 1), to),
                 .dx = running_zeros(d->pixels * (in + 1), to),
                 .d_weight = running_zeros(d->weights, STK_F32),
                 .d_bias = running_zeros(out, STK_F32) };
    scratch b;
    open_bench(&b, d, level, threads);
    b.layer.d_weight = r.d_weight;
    b.layer.d_bias = r.d_bias;
    const stk_conv3_finish y = { .type = to, .stride = out + 1, .scale = 1 };
    const stk_conv3_finish dx = { .type = to, .stride = in + 1, .scale = 1 };
    stk_conv3_forward(&b.net.run, &b.layer, d->shape.map, &d->x.source, &y, r.y);
    stk_conv3_input(&b.net.run, &b.layer, d->shape.map, &d->dy.source, &dx, r.dx);
    stk_conv3_weight(&b.net.run, &b.layer, d->shape.map, &d->x.source, &d->dy.source, 1);
    close_bench(&b);
    return r;
}

static void free_result(result *r)
{
    stk_free(r->y), stk_free(r->dx), stk_free(r->d_weight), stk_free(r->d_bias);
}

/* ---- comparison ---- */

/* Norm of array - wanted over the norm of wanted; `stride` elements of the array per `channels` of wanted. */
static double distance(const void *array, stk_float type, size_t stride, const double *wanted,
                       size_t channels, size_t rows)
{
    double difference = 0, norm = 0;
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < stride; c++) {
            const double got = stk_get(array, r * stride + c, type);
            const double want = c < channels ? wanted[r * channels + c] : 0;
            difference += (got - want) * (got - want);
            norm += want * want;
        }
    return sqrt(difference / norm);
}

/* f32: 1e-5, ten times what conv3_winograd.h measured. 16 bits: products are exact in f32, the result is
 * rounded once, by up to 2^-9 and 2^-12 of it. */
static double allowed(stk_float type)
{
    return type == STK_F32 ? 1e-5 : running_rounding(type);
}

static void hold(const data *d, const answer *a, const result *r, stk_float to)
{
    const size_t in = d->shape.in, out = d->shape.out;
    double y = 0;
    double *with_bias = stk_calloc(d->pixels * out, sizeof(double));
    for (size_t i = 0; i < d->pixels * out; i++) with_bias[i] = a->y[i] + (double)d->bias[i % out];
    y = distance(r->y, to, out + 1, with_bias, out, d->pixels);
    stk_free(with_bias);
    assert_true(y <= allowed(to));
    assert_true(distance(r->dx, to, in + 1, a->dx, in, d->pixels) <= allowed(to));
    assert_true(distance(r->d_weight, STK_F32, d->weights, a->d_weight, d->weights, 1) <= 1e-5);
    assert_true(distance(r->d_bias, STK_F32, out, a->d_bias, out, 1) <= 1e-5);
}

/* ---- tests ---- */

static void matches_the_oracle(void **state)
{
    for (int i = 0; i < SHAPES; i++)
        for (stk_float type = STK_F32; type <= STK_F16; type++)
            for (given how = OF_THE_RUN; how <= PLANES; how++) {
                if (type == STK_F32 && how == OF_THE_RUN) continue;
                data d = make_data(shapes[i], type, how, how == PLANES ? OF_THE_RUN : F32);
                answer a = oracle(&d);
                for (stk_cpu_level level = STK_CPU_C; level <= stk_cpu_detected(); level++) {
                    const stk_float to = how == F32 ? STK_F32 : type;
                    result r = compute(&d, level, 2, to);
                    hold(&d, &a, &r, to);
                    free_result(&r);
                }
                free_answer(&a);
                free_data(&d);
            }
}

static void hold_same(const data *d, const result *a, const result *b)
{
    const size_t bytes = d->pixels * stk_float_bytes(d->type);
    assert_memory_equal(a->y, b->y, bytes * (d->shape.out + 1));
    assert_memory_equal(a->dx, b->dx, bytes * (d->shape.in + 1));
    assert_memory_equal(a->d_weight, b->d_weight, d->weights * sizeof(float));
    assert_memory_equal(a->d_bias, b->d_bias, d->shape.out * sizeof(float));
}

static void threads_give_the_same_bits(void **state)
{
    const shape wide = { { 3, 21, 300 }, 20, 12 };
    for (stk_float type = STK_F32; type <= STK_F16; type++) {
        data d = make_data(wide, type, OF_THE_RUN, OF_THE_RUN);
        for (stk_cpu_level level = STK_CPU_C; level <= stk_cpu_detected(); level++) {
            result one = compute(&d, level, 1, type);
            for (uint32_t threads = 2; threads <= 3; threads++) {
                result more = compute(&d, level, threads, type);
                hold_same(&d, &one, &more);
                free_result(&more);
            }
            free_result(&one);
        }
        free_data(&d);
    }
}

/* What follows the sum, in this order: bias, scale, ReLU, gate, residual. */
typedef struct ending {
    float scale;
    int relu, gate;
    int residual; /* 1: apart, 2: the result itself */
} ending;
static const ending endings[] = { { 0.1f, 0, 0, 1 }, { 0.1f, 0, 0, 2 }, { 1, 1, 0, 0 },
                                  { 1, 0, 1, 0 },    { -2, 1, 1, 2 },   { 0, 0, 0, 1 } };

static void hold_ending(const data *d, const answer *a, const ending *e, stk_cpu_level level, stk_float to)
{
    const size_t out = d->shape.out, count = d->pixels * out;
    void *gate = running_numbers(count, d->type, 1, 7), *y = running_numbers(count, to, 1, 8);
    float *residual = running_numbers(count, STK_F32, 1, 8);
    double *wanted = stk_calloc(count, sizeof(double));
    for (size_t i = 0; i < count; i++) {
        double value = (a->y[i] + (double)d->bias[i % out]) * (double)e->scale;
        if (e->relu && value < 0) value = 0;
        if (e->gate && !(stk_get(gate, i, d->type) > 0)) value = 0;
        wanted[i] = value + (e->residual ? (double)residual[i] : 0);
    }
    const stk_conv3_finish finish = { .type = to,
                                      .stride = out,
                                      .scale = e->scale,
                                      .relu = e->relu,
                                      .gate = e->gate ? gate : NULL,
                                      .residual = e->residual == 2   ? y
                                                  : e->residual == 1 ? residual
                                                                     : NULL };
    scratch b;
    open_bench(&b, d, level, 2);
    stk_conv3_forward(&b.net.run, &b.layer, d->shape.map, &d->x.source, &finish, y);
    close_bench(&b);
    assert_true(distance(y, to, out, wanted, out, d->pixels) <= allowed(to));
    stk_free(gate), stk_free(y), stk_free(residual), stk_free(wanted);
}

static void finishes_in_the_order_promised(void **state)
{
    const shape s = { { 2, 6, 7 }, 6, 21 };
    for (stk_float type = STK_F32; type <= STK_F16; type++) {
        data d = make_data(s, type, OF_THE_RUN, OF_THE_RUN);
        answer a = oracle(&d);
        for (stk_cpu_level level = STK_CPU_C; level <= stk_cpu_detected(); level++)
            for (size_t e = 0; e < sizeof endings / sizeof *endings; e++) {
                hold_ending(&d, &a, &endings[e], level, STK_F32);
                if (endings[e].residual != 2) hold_ending(&d, &a, &endings[e], level, type);
            }
        free_answer(&a);
        free_data(&d);
    }
}

/* A run that went wrong shows: ReLU and the way through the points keep what is not a number. */
static void keeps_nan(void **state)
{
    const shape s = { { 1, 3, 3 }, 2, 3 };
    for (stk_cpu_level level = STK_CPU_C; level <= stk_cpu_detected(); level++) {
        data d = make_data(s, STK_F32, OF_THE_RUN, OF_THE_RUN);
        ((float *)d.x.data)[8] = NAN; /* the pixel in the middle, which every other one takes */
        float *y = running_zeros(27, STK_F32);
        scratch b;
        open_bench(&b, &d, level, 1);
        const stk_conv3_finish finish = { .type = STK_F32, .stride = 3, .scale = 1, .relu = 1 };
        stk_conv3_forward(&b.net.run, &b.layer, s.map, &d.x.source, &finish, y);
        for (int i = 0; i < 27; i++) assert_true(isnan(y[i]));
        close_bench(&b);
        stk_free(y);
        free_data(&d);
    }
}

static void accumulates_scales_and_leaves_frozen(void **state)
{
    const shape s = { { 2, 7, 9 }, 5, 18 };
    data d = make_data(s, STK_F32, OF_THE_RUN, OF_THE_RUN);
    answer a = oracle(&d);
    for (stk_cpu_level level = STK_CPU_C; level <= stk_cpu_detected(); level++) {
        float *d_weight = running_numbers(d.weights, STK_F32, 1, 5),
              *d_bias = running_numbers(s.out, STK_F32, 1, 6);
        double *weight = stk_calloc(d.weights, sizeof(double)), *bias = stk_calloc(s.out, sizeof(double));
        for (size_t i = 0; i < d.weights; i++) weight[i] = (double)d_weight[i] - 0.5 * a.d_weight[i];
        for (size_t i = 0; i < s.out; i++) bias[i] = (double)d_bias[i] - 0.5 * a.d_bias[i];
        scratch b;
        open_bench(&b, &d, level, 2);
        b.net.run.accumulate = 1;
        b.layer.d_weight = d_weight; /* one, the other, none */
        stk_conv3_weight(&b.net.run, &b.layer, s.map, &d.x.source, &d.dy.source, -0.5f);
        b.layer.d_weight = NULL;
        b.layer.d_bias = d_bias;
        stk_conv3_weight(&b.net.run, &b.layer, s.map, &d.x.source, &d.dy.source, -0.5f);
        b.layer.d_bias = NULL;
        stk_conv3_weight(&b.net.run, &b.layer, s.map, &d.x.source, &d.dy.source, -0.5f);
        close_bench(&b);
        assert_true(distance(d_weight, STK_F32, d.weights, weight, d.weights, 1) <= 1e-5);
        assert_true(distance(d_bias, STK_F32, s.out, bias, s.out, 1) <= 1e-5);
        stk_free(d_weight), stk_free(d_bias), stk_free(weight), stk_free(bias);
    }
    free_answer(&a);
    free_data(&d);
}

/* Inference needs no room for sums, and no weights turned round. */
static void goes_forward_only(void **state)
{
    const shape s = { { 1, 6, 9 }, 4, 8 };
    data d = make_data(s, STK_F32, PLANES, OF_THE_RUN);
    answer a = oracle(&d);
    for (stk_cpu_level level = STK_CPU_C; level <= stk_cpu_detected(); level++) {
        scratch b;
        open_bench(&b, &d, level, 1);
        b.net.run.forward_only = 1;
        b.layer.bias = NULL;
        stk_free(b.layer.backward);
        b.layer.backward = NULL;
        const stk_exec_need need = stk_conv3_need(&b.net.run, &b.layer, s.map);
        assert_int_equal(need.partial, 0);
        running_room(&b.net, need);
        stk_conv3_pack(&b.net.run, (const stk_conv3 *const[]){ &b.layer }, 1);
        float *y = running_zeros(d.pixels * s.out, STK_F32);
        const stk_conv3_finish finish = { .type = STK_F32, .stride = s.out, .scale = 1 };
        stk_conv3_forward(&b.net.run, &b.layer, s.map, &d.x.source, &finish, y);
        assert_true(distance(y, STK_F32, s.out, a.y, s.out, d.pixels) <= 1e-5);
        stk_free(y);
        close_bench(&b);
    }
    free_answer(&a);
    free_data(&d);
}

UNIT_GROUP(conv3)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matches_the_oracle),
        cmocka_unit_test(threads_give_the_same_bits),
        cmocka_unit_test(finishes_in_the_order_promised),
        cmocka_unit_test(keeps_nan),
        cmocka_unit_test(accumulates_scales_and_leaves_frozen),
        cmocka_unit_test(goes_forward_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
