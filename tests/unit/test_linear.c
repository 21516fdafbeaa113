/* SPDX-License-Identifier: Apache-2.0
 *
 * Linear layers on every table the processor has, in all three types, against sums in double precision. An
 * element that is a sum of k products may be off by 2e-6 of the sum of their magnitudes (f32 arithmetic),
 * and by the rounding of the type it is stored in.
 */
#include "tests/unit/fixture_run.h"

#include "src/net/ops/ops.h"

enum { SEED = 20261117 };

/* A layer with masters, gradients and packed weights of its own. */
typedef struct layer {
    stk_linear linear;
    float *weight[2], *bias[2], *d_weight[2], *d_bias[2];
} layer;

static void layer_make(layer *l, const stk_exec *run, uint32_t in, uint32_t out, uint32_t taps,
                       uint32_t parts)
{
    const uint32_t each = out / parts;
    const size_t stride = in + (taps == 1 ? 3 : 0);
    *l = (layer){ 0 };
    l->linear = (stk_linear){ .in = in, .out = out, .taps = taps, .parts = parts, .weight_stride = stride };
    for (uint32_t p = 0; p < parts; p++) {
        l->weight[p] = running_numbers(each * stride, STK_F32, 1, SEED + p);
        l->bias[p] = running_numbers(each, STK_F32, 1, SEED + 10 + p);
        l->d_weight[p] = running_numbers(each * stride, STK_F32, 1, SEED + 20 + p);
        l->d_bias[p] = running_numbers(each, STK_F32, 1, SEED + 30 + p);
        l->linear.weight[p] = l->weight[p];
        l->linear.bias[p] = l->bias[p];
        l->linear.d_weight[p] = l->d_weight[p];
        l->linear.d_bias[p] = l->d_bias[p];
    }
    l->linear.forward = stk_alloc_aligned(stk_linear_packed(run, &l->linear, 0), 64);
    l->linear.backward = stk_alloc_aligned(stk_linear_packed(run, &l->linear, 1), 64);
    memset(l->linear.forward, 0xff, stk_linear_packed(run, &l->linear, 0));
    memset(l->linear.backward, 0xff, stk_linear_packed(run, &l->linear, 1));
    const stk_linear *linears[1] = { &l->linear };
    stk_linear_pack(run, linears, 1);
}

static void layer_free(layer *l)
{
    for (int p = 0; p < 2; p++) {
        stk_free(l->weight[p]);
        stk_free(l->bias[p]);
        stk_free(l->d_weight[p]);
        stk_free(l->d_bias[p]);
    }
    stk_free(l->linear.forward);
    stk_free(l->linear.backward);
}

/* Where the weight of input i for output o lies, said once more in other words: input i is channel i % C of
 * tap i / C, and the master holds the taps of a channel together. */
static size_t master_at(const stk_linear *l, size_t o, size_t i)
{
    const size_t channels = l->in / l->taps, tap = i / channels, channel = i - tap * channels;
    return o % (l->out / l->parts) * l->weight_stride + channel * l->taps + tap;
}

/* As the layer multiplies by it: rounded to the type. */
static double weight_of(const layer *l, size_t o, size_t i, stk_float type)
{
    uint32_t stored;
    stk_put(&stored, 0, l->weight[o / (l->linear.out / l->linear.parts)][master_at(&l->linear, o, i)], type);
    return stk_get(&stored, 0, type);
}

static double bias_of(const layer *l, size_t o)
{
    const size_t each = l->linear.out / l->linear.parts;
    return l->bias[o / each][o % each];
}

/* `magnitude`: of what was added up. */
static void near(double got, double wanted, double magnitude, stk_float stored, const char *what, size_t row,
                 size_t column)
{
    const double error = 2e-6 * magnitude + running_rounding(stored) * fabs(wanted) + 1e-7;
    if (!(fabs(got - wanted) <= error))
        fail_msg("%s [%zu][%zu]: %.9g, not %.9g (+- %.2g)", what, row, column, got, wanted, error);
}

/* Runs `body` for every level the processor has and every type. */
static void everywhere(void (*body)(stk_cpu_level level, stk_float type))
{
    for (int level = 0; level <= (int)stk_cpu_detected(); level++)
        for (int type = 0; type < STK_FLOATS; type++) body((stk_cpu_level)level, (stk_float)type);
}

/* ---- forward ---- */

typedef struct forward_case {
    size_t rows;
    uint32_t in, out, taps, parts;
    int no_bias, scale, residual, f32;
} forward_case;

static const forward_case forward_cases[] = {
    { 1, 1, 1, 1, 1, 0, 0, 0, 0 },    { 2, 3, 2, 1, 1, 0, 1, 0, 1 },      { 5, 17, 8, 1, 1, 1, 0, 1, 1 },
    { 13, 32, 19, 1, 1, 0, 1, 1, 0 }, { 97, 33, 33, 1, 1, 0, 0, 1, 0 },   { 23, 147, 32, 49, 1, 0, 0, 0, 0 },
    { 31, 36, 64, 9, 1, 0, 1, 1, 1 }, { 40, 24, 48, 1, 2, 0, 0, 0, 0 },   { 11, 8, 14, 1, 2, 1, 1, 0, 0 },
    { 7, 700, 21, 1, 1, 0, 1, 1, 1 }, { 14, 1300, 40, 1, 1, 0, 0, 0, 0 }, { 300, 40, 150, 1, 1, 0, 1, 1, 1 },
};

static void check_forward(const running *r, const layer *l, const forward_case *c, const void *x,
                          size_t x_stride, const stk_linear_finish *finish, const void *residual,
                          const void *y, size_t y_stride)
{
    const stk_float type = r->run.type;
    for (size_t row = 0; row < c->rows; row++) {
        for (size_t o = 0; o < c->out; o++) {
            double sum = c->no_bias ? 0 : bias_of(l, o), magnitude = fabs(sum);
            for (size_t i = 0; i < c->in; i++) {
                const double product = stk_get(x, row * x_stride + i, type) * weight_of(l, o, i, type);
                sum += product;
                magnitude += fabs(product);
            }
            if (finish->scale) sum *= finish->scale[row / finish->sample_rows];
            if (residual) sum += ((const float *)residual)[row * y_stride + o];
            near(stk_get(y, row * y_stride + o, finish->type), sum, magnitude + fabs(sum), finish->type, "y",
                 row, o);
        }
        for (size_t o = c->out; o < y_stride; o++) /* what was there: 7 */
            assert_true(stk_get(y, row * y_stride + o, finish->type) == 7);
    }
}

static void forward_one(stk_cpu_level level, stk_float type, const forward_case *c)
{
    running r;
    layer l;
    running_start(&r, level, 2, type);
    layer_make(&l, &r.run, c->in, c->out, c->taps, c->parts);
    running_room(&r, stk_linear_need(&r.run, &l.linear, c->rows));
    const size_t x_stride = c->in + 2, y_stride = c->out + 3;
    const float factors[3] = { 0, 1.25f, 0.5f };
    const stk_linear_finish finish = { .type = c->f32 ? STK_F32 : type,
                                       .scale = c->scale ? factors : NULL,
                                       .sample_rows = (c->rows + 2) / 3,
                                       .no_bias = c->no_bias };
    void *x = running_numbers(c->rows * x_stride, type, 1, SEED + 1);
    void *y = running_numbers(c->rows * y_stride, finish.type, 0, 0);
    float *residual = running_numbers(c->rows * y_stride, STK_F32, 1, SEED + 2);
    for (size_t i = 0; i < c->rows * y_stride; i++) stk_put(y, i, 7, finish.type);
    const stk_exec_rows rows = stk_rows_of(x, x_stride);
    stk_linear_finish with = finish;
    if (c->residual) with.residual = residual;
    stk_linear_forward(&r.run, &l.linear, c->rows, &rows, &with, y, y_stride);
    check_forward(&r, &l, c, x, x_stride, &finish, with.residual, y, y_stride);

    if (finish.type == STK_F32) { /* the residual where the result goes */
        for (size_t i = 0; i < c->rows * y_stride; i++)
            ((float *)y)[i] = i % y_stride < c->out ? residual[i] : 7;
        with.residual = y;
        stk_linear_forward(&r.run, &l.linear, c->rows, &rows, &with, y, y_stride);
        check_forward(&r, &l, c, x, x_stride, &finish, residual, y, y_stride);
    }
    stk_free(x);
    stk_free(y);
    stk_free(residual);
    layer_free(&l);
    running_stop(&r);
}

static void forward_body(stk_cpu_level level, stk_float type)
{
    for (size_t i = 0; i < sizeof forward_cases / sizeof *forward_cases; i++)
        forward_one(level, type, &forward_cases[i]);
}

static void forward_is_the_product_and_its_finish(void **state)
{
    everywhere(forward_body);
}

/* ---- the gradient of the input ---- */

static void input_one(stk_cpu_level level, stk_float type, const forward_case *c, stk_float dx_type, int add)
{
    running r;
    layer l;
    running_start(&r, level, 2, type);
    layer_make(&l, &r.run, c->in, c->out, c->taps, c->parts);
    running_room(&r, stk_linear_need(&r.run, &l.linear, c->rows));
    const size_t dx_stride = c->in + 5;
    void *dy = running_numbers(c->rows * c->out, type, 1, SEED + 3);
    void *dx = running_numbers(c->rows * dx_stride, dx_type, 1, SEED + 4);
    void *before = running_numbers(c->rows * dx_stride, dx_type, 1, SEED + 4);
    const stk_exec_rows rows = stk_rows_of(dy, c->out);
    stk_linear_input(&r.run, &l.linear, c->rows, &rows, dx, dx_stride, dx_type, add);
    for (size_t row = 0; row < c->rows; row++) {
        for (size_t i = 0; i < dx_stride; i++) {
            const double old = stk_get(before, row * dx_stride + i, dx_type);
            double sum = i >= c->in || add ? old : 0, magnitude = fabs(sum);
            for (size_t o = 0; i < c->in && o < c->out; o++) {
                const double product = stk_get(dy, row * c->out + o, type) * weight_of(&l, o, i, type);
                sum += product;
                magnitude += fabs(product);
            }
            near(stk_get(dx, row * dx_stride + i, dx_type), sum, magnitude, dx_type, "dx", row, i);
        }
    }
    stk_free(dy);
    stk_free(dx);
    stk_free(before);
    layer_free(&l);
    running_stop(&r);
}

static void input_body(stk_cpu_level level, stk_float type)
{
    for (size_t i = 0; i < sizeof forward_cases / sizeof *forward_cases; i++)
        input_one(level, type, &forward_cases[i], i % 2 ? STK_F32 : type, i % 3 == 0);
}

static void input_gradients_are_the_transposed_product(void **state)
{
    everywhere(input_body);
}

/* ---- gradients of the parameters ---- */

typedef struct weight_case {
    size_t rows;
    uint32_t in, out, taps, parts;
    int accumulate;
    int frozen; /* bits: weight of part 0, of part 1; bias of part 0 */
} weight_case;

static const weight_case weight_cases[] = {
    { 1, 1, 1, 1, 1, 0, 0 },     { 3, 5, 2, 1, 1, 1, 0 },      { 70, 33, 19, 1, 1, 0, 0 },
    { 65, 27, 40, 9, 1, 1, 0 },  { 1100, 32, 32, 1, 1, 0, 0 }, { 1700, 20, 13, 4, 1, 1, 0 },
    { 300, 48, 32, 1, 2, 1, 0 }, { 1201, 16, 28, 1, 2, 0, 0 }, { 260, 300, 200, 1, 1, 1, 0 },
    { 90, 40, 36, 1, 2, 1, 1 },  { 90, 40, 36, 1, 2, 0, 2 },   { 1100, 24, 8, 1, 1, 0, 4 },
    { 50, 24, 8, 1, 1, 1, 5 },   { 60, 330, 260, 1, 2, 0, 0 },
};

static void check_weight(const layer *l, const layer *before, const weight_case *c, const void *x,
                         const void *dy, stk_float type)
{
    const size_t each = c->out / c->parts;
    for (size_t o = 0; o < c->out; o++) {
        const size_t part = o / each;
        double bias = 0, magnitude = 0;
        for (size_t row = 0; row < c->rows; row++) {
            bias += stk_get(dy, row * c->out + o, type);
            magnitude += fabs(stk_get(dy, row * c->out + o, type));
        }
        const double old_bias = before->d_bias[part][o % each];
        const int bias_frozen = part == 0 && (c->frozen & 4);
        near(l->d_bias[part][o % each],
             (bias_frozen ? 0 : bias) + (c->accumulate || bias_frozen ? old_bias : 0), magnitude + 1, STK_F32,
             "db", o, 0);
        for (size_t i = 0; i < c->in; i++) {
            const size_t at = master_at(&l->linear, o, i);
            const int frozen = c->frozen >> part & 1;
            double sum = frozen || c->accumulate ? before->d_weight[part][at] : 0, all = fabs(sum);
            for (size_t row = 0; row < c->rows && !frozen; row++) {
                const double product =
                    (double)stk_get(x, row * c->in + i, type) * stk_get(dy, row * c->out + o, type);
                sum += product;
                all += fabs(product);
            }
            near(l->d_weight[part][at], sum, all, STK_F32, "dW", o, i);
        }
    }
}

static void weight_one(stk_cpu_level level, stk_float type, const weight_case *c)
{
    running r;
    layer l, before;
    running_start(&r, level, 2, type);
    layer_make(&l, &r.run, c->in, c->out, c->taps, c->parts);
    layer_make(&before, &r.run, c->in, c->out, c->taps, c->parts);
    running_room(&r, stk_linear_need(&r.run, &l.linear, c->rows));
    r.run.accumulate = c->accumulate;
    if (c->frozen & 1) l.linear.d_weight[0] = NULL;
    if (c->frozen & 2) l.linear.d_weight[1] = NULL;
    if (c->frozen & 4) l.linear.d_bias[0] = NULL;
    void *x = running_numbers(c->rows * c->in, type, 1, SEED + 5);
    void *dy = running_numbers(c->rows * c->out, type, 1, SEED + 6);
    const stk_exec_rows x_rows = stk_rows_of(x, c->in), dy_rows = stk_rows_of(dy, c->out);
    stk_linear_weight(&r.run, &l.linear, c->rows, &x_rows, &dy_rows);
    check_weight(&l, &before, c, x, dy, type);
    const size_t stride = l.linear.weight_stride; /* beyond a row of weights nothing is written */
    for (size_t i = 0; i < c->out / c->parts * stride; i++)
        if (i % stride >= c->in) assert_true(l.d_weight[0][i] == before.d_weight[0][i]);
    stk_free(x);
    stk_free(dy);
    layer_free(&l);
    layer_free(&before);
    running_stop(&r);
}

static void weight_body(stk_cpu_level level, stk_float type)
{
    for (size_t i = 0; i < sizeof weight_cases / sizeof *weight_cases; i++)
        weight_one(level, type, &weight_cases[i]);
}

static void parameter_gradients_are_sums_over_rows(void **state)
{
    everywhere(weight_body);
}

/* dW, db and dx against the slope of L = sum y g, y computed by the operation itself: the layer is linear in
 * each, so a step of 1 has no error of its own. Says that forward and backward belong together. */
static void gradients_are_slopes_of_forward(void **state)
{
    enum { ROWS = 9, IN = 36, OUT = 10 };
    running r;
    layer l;
    running_start(&r, stk_cpu_detected(), 1, STK_F32);
    layer_make(&l, &r.run, IN, OUT, 9, 2);
    running_room(&r, stk_linear_need(&r.run, &l.linear, ROWS));
    float *x = running_numbers(ROWS * IN, STK_F32, 1, SEED + 7), y[2][ROWS * OUT], dx[ROWS * IN];
    float *g = running_numbers(ROWS * OUT, STK_F32, 1, SEED + 8);
    const stk_exec_rows x_rows = stk_rows_of(x, IN), g_rows = stk_rows_of(g, OUT);
    const stk_linear_finish finish = { .type = STK_F32 };
    stk_linear_input(&r.run, &l.linear, ROWS, &g_rows, dx, IN, STK_F32, 0);
    stk_linear_weight(&r.run, &l.linear, ROWS, &x_rows, &g_rows);
    for (int step = 0; step < 12; step++) {
        float *moved[3] = { &x[step * 26], &l.weight[step % 2][step * 14], &l.bias[step % 2][step % 5] };
        const float slope[3] = { dx[step * 26], l.d_weight[step % 2][step * 14],
                                 l.d_bias[step % 2][step % 5] };
        for (int what = 0; what < 3; what++) {
            const stk_linear *linears[1] = { &l.linear };
            const float old = *moved[what];
            for (int side = 0; side < 2; side++) {
                *moved[what] = old + (side ? 0.5f : -0.5f);
                stk_linear_pack(&r.run, linears, 1);
                stk_linear_forward(&r.run, &l.linear, ROWS, &x_rows, &finish, y[side], OUT);
            }
            *moved[what] = old;
            double difference = 0;
            for (int i = 0; i < ROWS * OUT; i++) difference += ((double)y[1][i] - y[0][i]) * g[i];
            near(slope[what], difference, 20, STK_F32, "slope", (size_t)step, (size_t)what);
        }
    }
    stk_free(x);
    stk_free(g);
    layer_free(&l);
    running_stop(&r);
}

/* ---- how it is cut does not show ---- */

typedef struct copied {
    const void *data;
    size_t width, stride;
    stk_float type;
} copied;

static void copy_rows(const void *context, size_t first, size_t count, void *out)
{
    const copied *from = context;
    for (size_t i = 0; i < count; i++)
        memcpy(stk_at(out, i * from->stride, from->type),
               stk_at(from->data, (first + i) * from->width, from->type),
               from->width * stk_float_bytes(from->type));
}

typedef struct results {
    void *y, *dx;
    float *d_weight, *d_bias;
    size_t y_bytes, dx_bytes, d_weight_bytes, d_bias_bytes;
} results;

static results results_of(stk_cpu_level level, stk_float type, uint32_t threads, size_t rows, uint32_t in,
                          uint32_t out, int made)
{
    running r;
    layer l;
    running_start(&r, level, threads, type);
    layer_make(&l, &r.run, in, out, 1, 1);
    running_room(&r, stk_linear_need(&r.run, &l.linear, rows));
    void *x = running_numbers(rows * in, type, 1, SEED + 5);
    void *dy = running_numbers(rows * out, type, 1, SEED + 6);
    const copied x_copied = { x, in, (in + 31) / 32 * 32, type };
    const copied dy_copied = { dy, out, out, type };
    const stk_exec_rows x_rows =
        made ? (stk_exec_rows){ .stride = x_copied.stride, .make = copy_rows, .context = &x_copied }
             : stk_rows_of(x, in);
    const stk_exec_rows dy_rows =
        made ? (stk_exec_rows){ .stride = out, .make = copy_rows, .context = &dy_copied }
             : stk_rows_of(dy, out);
    results all = { .y_bytes = rows * out * stk_float_bytes(type),
                    .dx_bytes = rows * in * stk_float_bytes(type),
                    .d_weight_bytes = out * l.linear.weight_stride * sizeof(float),
                    .d_bias_bytes = out * sizeof(float) };
    all.y = stk_alloc(all.y_bytes);
    all.dx = stk_alloc(all.dx_bytes);
    const stk_linear_finish finish = { .type = type };
    stk_linear_forward(&r.run, &l.linear, rows, &x_rows, &finish, all.y, out);
    stk_linear_input(&r.run, &l.linear, rows, &dy_rows, all.dx, in, type, 0);
    stk_linear_weight(&r.run, &l.linear, rows, &x_rows, &dy_rows);
    all.d_weight = l.d_weight[0];
    all.d_bias = l.d_bias[0];
    l.d_weight[0] = l.d_bias[0] = NULL;
    stk_free(x);
    stk_free(dy);
    layer_free(&l);
    running_stop(&r);
    return all;
}

static void results_free(results *all)
{
    stk_free(all->y);
    stk_free(all->dx);
    stk_free(all->d_weight);
    stk_free(all->d_bias);
}

static void same_products(const results *a, const results *b)
{
    assert_memory_equal(a->y, b->y, a->y_bytes);
    assert_memory_equal(a->dx, b->dx, a->dx_bytes);
}

static void cut_body(stk_cpu_level level, stk_float type)
{
    static const size_t shapes[][3] = { { 1100, 33, 40 }, { 70, 200, 300 }, { 2600, 420, 3 } };
    for (size_t i = 0; i < 3; i++) {
        if (level == STK_CPU_C && i == 2) continue; /* a second of plain C that shows nothing new */
        const size_t rows = shapes[i][0];
        const uint32_t in = (uint32_t)shapes[i][1], out = (uint32_t)shapes[i][2];
        results one = results_of(level, type, 1, rows, in, out, 0);
        for (uint32_t threads = 2; threads <= 3; threads++) {
            results more = results_of(level, type, threads, rows, in, out, 0);
            same_products(&one, &more);
            assert_memory_equal(one.d_weight, more.d_weight, one.d_weight_bytes);
            assert_memory_equal(one.d_bias, more.d_bias, one.d_bias_bytes);
            results_free(&more);
        }
        /* Made rows are cut in another way: the same products, and with dW one result for all threads. */
        results made = results_of(level, type, 1, rows, in, out, 1);
        results made3 = results_of(level, type, 3, rows, in, out, 1);
        same_products(&one, &made);
        same_products(&one, &made3);
        assert_memory_equal(made.d_weight, made3.d_weight, one.d_weight_bytes);
        assert_memory_equal(made.d_bias, made3.d_bias, one.d_bias_bytes);
        for (size_t w = 0; w < one.d_weight_bytes / sizeof(float); w++)
            near(made.d_weight[w], one.d_weight[w], 500, STK_F32, "made dW", w, 0);
        results_free(&made);
        results_free(&made3);
        results_free(&one);
    }
}

static void threads_and_made_rows_give_the_same_bits(void **state)
{
    everywhere(cut_body);
}

static void rows_body(stk_cpu_level level, stk_float type)
{
    enum { ROWS = 29, IN = 50, OUT = 37 };
    results whole = results_of(level, type, 1, ROWS, IN, OUT, 0);
    running r;
    layer l;
    running_start(&r, level, 1, type);
    layer_make(&l, &r.run, IN, OUT, 1, 1);
    void *x = running_numbers(ROWS * IN, type, 1, SEED + 5),
         *dy = running_numbers(ROWS * OUT, type, 1, SEED + 6);
    void *y = stk_alloc(whole.y_bytes), *dx = stk_alloc(whole.dx_bytes);
    const stk_linear_finish finish = { .type = type };
    for (size_t row = 0, count = 1; row < ROWS; row += count, count = count % 9 + 1) {
        if (count > ROWS - row) count = ROWS - row;
        stk_linear_forward_rows(&r.run, &l.linear, count, stk_at(x, row * IN, type), IN, &finish,
                                stk_at(y, row * OUT, type), OUT);
        stk_linear_input_rows(&r.run, &l.linear, count, stk_at(dy, row * OUT, type), OUT,
                              stk_at(dx, row * IN, type), IN, type, 0);
    }
    assert_memory_equal(y, whole.y, whole.y_bytes);
    assert_memory_equal(dx, whole.dx, whole.dx_bytes);
    stk_free(x);
    stk_free(dy);
    stk_free(y);
    stk_free(dx);
    results_free(&whole);
    layer_free(&l);
    running_stop(&r);
}

static void rows_may_be_cut_anywhere(void **state)
{
    everywhere(rows_body);
}

/* Several layers packed at once, by more threads than one, are each what packing it alone gives. */
static void packing_shares_layers_out(void **state)
{
    static const uint32_t shapes[5][4] = {
        { 32, 32, 1, 1 }, { 500, 300, 1, 1 }, { 147, 32, 49, 1 }, { 64, 128, 1, 2 }, { 300, 700, 1, 1 }
    };
    for (int level = 0; level <= (int)stk_cpu_detected(); level++) {
        running r;
        layer alone[5];
        stk_linear together[5];
        const stk_linear *linears[5];
        running_start(&r, (stk_cpu_level)level, 3, STK_F32);
        for (int i = 0; i < 5; i++) {
            layer_make(&alone[i], &r.run, shapes[i][0], shapes[i][1], shapes[i][2], shapes[i][3]);
            together[i] = alone[i].linear;
            together[i].forward = stk_alloc_aligned(stk_linear_packed(&r.run, &together[i], 0), 64);
            together[i].backward =
                i == 2 ? NULL : stk_alloc_aligned(stk_linear_packed(&r.run, &together[i], 1), 64);
            memset(together[i].forward, 0xff, stk_linear_packed(&r.run, &together[i], 0));
            linears[i] = &together[i];
        }
        stk_linear_pack(&r.run, linears, 5);
        for (int i = 0; i < 5; i++) {
            const float *a = alone[i].linear.forward, *b = together[i].forward;
            const size_t floats = stk_linear_packed(&r.run, &together[i], 0) / sizeof(float);
            assert_memory_equal(a, b, floats * sizeof(float));
            stk_free(together[i].forward);
            stk_free(together[i].backward);
            layer_free(&alone[i]);
        }
        running_stop(&r);
    }
}

/* ---- small products ---- */

static void multiply_one(running *r, size_t m, size_t n, size_t k, int at, int bt, int add)
{
    const size_t a_stride = (at ? m : k) + 1, b_stride = (bt ? k : n) + 2, c_stride = n + 1;
    float *a = running_numbers((at ? k : m) * a_stride, STK_F32, 1, SEED + 1);
    float *b = running_numbers((bt ? n : k) * b_stride, STK_F32, 1, SEED + 2);
    float *c = running_numbers(m * c_stride, STK_F32, 1, SEED + 3);
    float *before = running_numbers(m * c_stride, STK_F32, 1, SEED + 3);
    void *room = stk_alloc_aligned(stk_multiply_room(&r->run, k, n), 64);
    stk_multiply(&r->run, m, n, k, (stk_linear_matrix){ a, a_stride, at },
                 (stk_linear_matrix){ b, b_stride, bt }, c, c_stride, add, room);
    for (size_t i = 0; i < m; i++) {
        for (size_t j = 0; j < c_stride; j++) {
            double sum = add || j == n ? before[i * c_stride + j] : 0, magnitude = fabs(sum);
            for (size_t l = 0; l < k && j < n; l++) {
                const double product = (double)(at ? a[l * a_stride + i] : a[i * a_stride + l]) *
                                       (bt ? b[j * b_stride + l] : b[l * b_stride + j]);
                sum += product;
                magnitude += fabs(product);
            }
            near(c[i * c_stride + j], sum, magnitude, STK_F32, "c", i, j);
        }
    }
    stk_free(a);
    stk_free(b);
    stk_free(c);
    stk_free(before);
    stk_free(room);
}

static void small_products(void **state)
{
    for (int level = 0; level <= (int)stk_cpu_detected(); level++) {
        running r;
        running_start(&r, (stk_cpu_level)level, 2, STK_BF16); /* f32 all the same */
        for (int kind = 0; kind < 8; kind++) {
            multiply_one(&r, 1, 1, 1, kind & 1, kind >> 1 & 1, kind >> 2);
            multiply_one(&r, 51, 35, 17, kind & 1, kind >> 1 & 1, kind >> 2);
            multiply_one(&r, 100, 19, 64, kind & 1, kind >> 1 & 1, kind >> 2);
        }
        running_stop(&r);
    }
}

UNIT_GROUP(linear)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forward_is_the_product_and_its_finish),
        cmocka_unit_test(input_gradients_are_the_transposed_product),
        cmocka_unit_test(parameter_gradients_are_sums_over_rows),
        cmocka_unit_test(gradients_are_slopes_of_forward),
        cmocka_unit_test(threads_and_made_rows_give_the_same_bits),
        cmocka_unit_test(rows_may_be_cut_anywhere),
        cmocka_unit_test(packing_shares_layers_out),
        cmocka_unit_test(small_products),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
