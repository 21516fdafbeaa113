/* SPDX-License-Identifier: Apache-2.0
 *
 * depthwise in vectors of channels. A block of columns is done for one vector after the other: the 9
 * weights stay in registers for the block, and the second half of a cache line is used while it is still in
 * L1.
 */
#include "src/net/kernels/net_table.h"
#include "src/net/kernels/simd.h"

/* Columns of a block; backward, which reads fewer lines across, takes more to a block. GELUs at once. */
enum { BLOCK = 8, WIDE = 16, GROUP = 4 };

/* GELU and its slope, each by one odd polynomial: (cdf(x) - 1/2) / x and (gelu'(x) - 1/2) / x are smooth
 * functions of x^2, fitted (least squares, weights moved to the largest errors) in w = 2 x^2 / bound^2 - 1,
 * where the coefficients sum to less than 1 and Horner loses nothing. Half the work of e^x and a quotient.
 * Against doubles, every float of 1e-4 <= |x| <= 9: GELU 2.4e-7 of max(1, |x|) (at 5.47), its slope 6.04e-7
 * (at 5.80, where it is held; 3.6e-7 up to 4). */
#define CDF_BOUND   5.5f
#define SLOPE_BOUND 5.8f
static const float cdf_terms[] = { 0.12855193f,   -0.064172477f,  0.047737028f,  -0.038787309f,
                                   0.03208106f,   -0.026112078f,  0.020292532f,  -0.014672835f,
                                   0.010454328f,  -0.0076720123f, 0.0042592222f, -0.0012316895f,
                                   0.0010058745f, -0.0013680769f, 0.00054359692f };
static const float slope_terms[] = { 0.12199876f,  -0.061656989f, 0.048638441f,  -0.046221804f,
                                     0.050102483f, -0.057345375f, 0.065598384f,  -0.072151743f,
                                     0.067572236f, -0.051566947f, 0.048795942f,  -0.054003451f,
                                     0.028521772f, 0.0019158619f, 0.0046165804f, -0.014807958f,
                                     0.0062007494f };

/* GROUP polynomials of even degree side by side, terms of even and odd powers apart: 8 sums that do not wait
 * for each other are what two units of four cycles each want. */
STK_INLINE void polynomials(const float *terms, int degree, float bound, const vf *square, vf *p)
{
    vf w[GROUP], ww[GROUP], odd[GROUP];
    for (int i = 0; i < GROUP; i++) {
        w[i] = v_fma(square[i], v_set(2 / (bound * bound)), v_set(-1));
        ww[i] = v_mul(w[i], w[i]);
        p[i] = v_set(terms[degree]);
        odd[i] = v_set(terms[degree - 1]);
    }
    for (int k = degree - 2; k > 0; k -= 2) {
        for (int i = 0; i < GROUP; i++) p[i] = v_fma(p[i], ww[i], v_set(terms[k]));
        for (int i = 0; i < GROUP; i++) odd[i] = v_fma(odd[i], ww[i], v_set(terms[k - 1]));
    }
    for (int i = 0; i < GROUP; i++) p[i] = v_fma(p[i], ww[i], v_set(terms[0]));
    for (int i = 0; i < GROUP; i++) p[i] = v_fma(odd[i], w[i], p[i]);
}

/* Beyond the bound the polynomial stays and x grows: the product is held at 1/2, so GELU is x or 0 there. */
STK_INLINE void gelu_group(vf *x)
{
    vf square[GROUP], p[GROUP];
    for (int i = 0; i < GROUP; i++) square[i] = v_min(v_set(CDF_BOUND * CDF_BOUND), v_mul(x[i], x[i]));
    polynomials(cdf_terms, sizeof cdf_terms / sizeof *cdf_terms - 1, CDF_BOUND, square, p);
    for (int i = 0; i < GROUP; i++) {
        const vf half = v_set(0.5f);
        const vf part = v_max(v_set(-0.5f), v_min(half, v_mul(x[i], p[i])));
        x[i] = v_fma(x[i], part, v_mul(x[i], half));
    }
}

/* The slope goes beyond 1 on its way to it, so here x is held. Bounds come first: of two operands the
 * processor takes the second when one is NaN, and a run that went wrong shows. */
STK_INLINE void slope_group(vf *x)
{
    vf square[GROUP], p[GROUP];
    for (int i = 0; i < GROUP; i++) {
        x[i] = v_max(v_set(-SLOPE_BOUND), v_min(v_set(SLOPE_BOUND), x[i]));
        square[i] = v_mul(x[i], x[i]);
    }
    polynomials(slope_terms, sizeof slope_terms / sizeof *slope_terms - 1, SLOPE_BOUND, square, p);
    for (int i = 0; i < GROUP; i++) x[i] = v_fma(x[i], p[i], v_set(0.5f));
}

/* Weights of a vector of channels, [line][column]. */
typedef struct taps {
    vf w[3][3], bias;
} taps;

/* Three lines around one, some vector of channels of their column 0; elements from column to column. */
typedef struct lines {
    const void *line[3];
    size_t stride;
    uint32_t width;
} lines;

/* Where the map has ended the line itself stands in, with weights of 0. */
STK_INLINE void take_taps(const stk_depthwise *layer, const stk_depthwise_line_around *h1, size_t c,
                          size_t lanes, taps *k)
{
    for (size_t tap = 0; tap < 9; tap++)
        k->w[tap / 3][tap % 3] = h1->line[tap / 3]
                                     ? v_get_part(layer->packed, tap * layer->channels + c, lanes, STK_F32)
                                     : v_zero();
    k->bias = v_get_part(layer->packed, 9 * layer->channels + c, lanes, STK_F32);
}

STK_INLINE lines take_lines(const stk_depthwise *layer, const stk_depthwise_line_around *h1, uint32_t width,
                            size_t c, stk_float type)
{
    lines from = { .stride = layer->channels, .width = width };
    for (int i = 0; i < 3; i++) from.line[i] = stk_at(h1->line[i] ? h1->line[i] : h1->line[1], c, type);
    return from;
}

typedef struct column {
    vf v[3];
} column;

STK_INLINE column take_column(const lines *from, size_t at, size_t lanes, stk_float type)
{
    column three;
    for (int i = 0; i < 3; i++) three.v[i] = v_get_part(from->line[i], at, lanes, type);
    return three;
}

STK_INLINE vf add_column(const taps *k, int side, column three, vf sum)
{
    for (int i = 0; i < 3; i++) sum = v_fma(three.v[i], k->w[i][side], sum);
    return sum;
}

/* Outputs at columns first .. first + count. A column of inputs is loaded once and goes to three outputs: 9
 * weights, 3 inputs and 3 sums are what 16 registers hold. An output's terms come in one order wherever the
 * block begins. */
STK_INLINE void convolve(const taps *k, const lines *from, uint32_t first, uint32_t count, size_t lanes,
                         stk_float type, vf *out)
{
    size_t at = first * from->stride;
    vf next = k->bias; /* the output of the column to come, and the one before it */
    if (first) next = add_column(k, 0, take_column(from, at - from->stride, lanes, type), next);
    column three = take_column(from, at, lanes, type);
    vf before = add_column(k, 1, three, next);
    next = add_column(k, 0, three, k->bias);
    for (uint32_t i = 1; i < count; i++) {
        three = take_column(from, at += from->stride, lanes, type);
        out[i - 1] = add_column(k, 2, three, before);
        before = add_column(k, 1, three, next);
        next = add_column(k, 0, three, k->bias);
    }
    if (first + count < from->width)
        before = add_column(k, 2, take_column(from, at + from->stride, lanes, type), before);
    out[count - 1] = before;
}

STK_INLINE vf rounded(vf a, stk_float type)
{
    if (type == STK_F32) return a;
    uint16_t stored[STK_LANES];
    v_put(stored, 0, a, type);
    return v_get(stored, 0, type);
}

/* Asks for what the same block of the next line will take: in blocks of columns the processor sees no stream
 * to follow. Saves a quarter of both ways on maps that come from memory. Past the map's end nothing comes of
 * it. */
STK_INLINE void fetch_ahead(const stk_depthwise *layer, const stk_depthwise_line_part *part, const void *line,
                            uint32_t first, uint32_t count, size_t c, stk_float type)
{
    const size_t bytes = stk_float_bytes(type);
    if (!line || c * bytes % 64) return;
    const uintptr_t next = (uintptr_t)line + (((size_t)part->width + first) * layer->channels + c) * bytes;
    for (uint32_t i = 0; i < count; i++)
        __builtin_prefetch((const void *)(next + i * layer->channels * bytes), 0, 2);
}

STK_INLINE void forward_block(const stk_depthwise *layer, const stk_depthwise_line_part *part,
                              const stk_depthwise_line_around *h1, uint32_t first, uint32_t count, size_t c,
                              size_t lanes, void *h3, stk_float type)
{
    taps k;
    take_taps(layer, h1, c, lanes, &k);
    const lines from = take_lines(layer, h1, part->width, c, type);
    vf value[BLOCK];
    fetch_ahead(layer, part, h1->line[2], part->column + first, count, c, type);
    convolve(&k, &from, part->column + first, count, lanes, type, value);
    for (uint32_t i = 0; i < count; i++) value[i] = rounded(value[i], type);
    for (uint32_t i = count; i < BLOCK; i++) value[i] = v_zero();
    const size_t at = (size_t)first * layer->channels + c;
    for (uint32_t i = 0; i < BLOCK; i += GROUP) gelu_group(value + i);
    for (uint32_t i = 0; i < count; i++) v_put_part(h3, at + i * layer->channels, lanes, value[i], type);
}

STK_INLINE void forward(const stk_depthwise *layer, const stk_depthwise_line_part *part,
                        const stk_depthwise_line_around *h1, void *h3, stk_float type)
{
    const size_t end = part->channel + part->channels;
    for (uint32_t first = 0; first < part->columns; first += BLOCK) {
        const uint32_t left = part->columns - first, count = left < BLOCK ? left : BLOCK;
        size_t c = part->channel;
        for (; c + STK_LANES <= end; c += STK_LANES)
            forward_block(layer, part, h1, first, count, c, STK_LANES, h3, type);
        if (c < end) forward_block(layer, part, h1, first, count, c, end - c, h3, type);
    }
}

/* t lies vector by vector of channels, each from column -1 to `width`, the ends 0: what backward reads of a
 * vector is one piece of memory without special cases. */
STK_INLINE size_t slope_at(const stk_depthwise_line_part *part, size_t c)
{
    return (c - part->channel) * ((size_t)part->width + 2);
}

STK_INLINE void slope_block(const stk_depthwise *layer, const stk_depthwise_line_part *part,
                            const stk_depthwise_line_around *h1, uint32_t first, uint32_t count, size_t c,
                            size_t lanes, const void *dh3, float *t, stk_float type)
{
    vf value[BLOCK];
    const size_t at = (size_t)first * layer->channels + c;
    fetch_ahead(layer, part, dh3, first, count, c, type);
    fetch_ahead(layer, part, h1->line[2], first, count, c, type);
    taps k;
    take_taps(layer, h1, c, lanes, &k);
    const lines from = take_lines(layer, h1, part->width, c, type);
    convolve(&k, &from, first, count, lanes, type, value);
    for (uint32_t i = 0; i < count; i++) value[i] = rounded(value[i], type);
    for (uint32_t i = count; i < BLOCK; i++) value[i] = v_zero();
    for (uint32_t i = 0; i < BLOCK; i += GROUP) slope_group(value + i);
    float *out = t + slope_at(part, c) + (size_t)(first + 1) * STK_LANES;
    for (uint32_t i = 0; i < count; i++)
        v_store(out + i * STK_LANES, v_mul(value[i], v_get_part(dh3, at + i * layer->channels, lanes, type)));
}

STK_INLINE void slope(const stk_depthwise *layer, const stk_depthwise_line_part *part,
                      const stk_depthwise_line_around *h1, const void *dh3, float *t, stk_float type)
{
    const size_t end = part->channel + part->channels;
    for (uint32_t first = 0; first < part->width; first += BLOCK) {
        const uint32_t left = part->width - first, count = left < BLOCK ? left : BLOCK;
        size_t c = part->channel;
        for (; c + STK_LANES <= end; c += STK_LANES)
            slope_block(layer, part, h1, first, count, c, STK_LANES, dh3, t, type);
        if (c < end) slope_block(layer, part, h1, first, count, c, end - c, dh3, t, type);
    }
    for (size_t c = part->channel; c < end; c += STK_LANES) {
        v_store(t + slope_at(part, c), v_zero());
        v_store(t + slope_at(part, c) + (size_t)(part->width + 1) * STK_LANES, v_zero());
    }
}

/* What a block says of the weights and the bias: 9 sums in registers, t straight from L1. */
STK_INLINE void add_sums(const stk_depthwise *layer, const lines *t, uint32_t first, uint32_t count, size_t c,
                         size_t lanes, const void *h1, float *sums, stk_float type)
{
    vf sum[10];
    for (size_t tap = 0; tap < 10; tap++)
        sum[tap] = v_get_part(sums, tap * layer->channels + c, lanes, STK_F32);
    for (uint32_t i = 0; i < count; i++) {
        const vf input = v_get_part(h1, (size_t)(first + i) * layer->channels + c, lanes, type);
        for (size_t tap = 0; tap < 9; tap++)
            sum[tap] = v_fma(
                input, v_get(t->line[2 - tap / 3], (first + i + 2 - tap % 3) * STK_LANES, STK_F32), sum[tap]);
        sum[9] = v_add(sum[9], v_get(t->line[1], (size_t)(first + i + 1) * STK_LANES, STK_F32));
    }
    for (size_t tap = 0; tap < 10; tap++)
        v_put_part(sums, tap * layer->channels + c, lanes, sum[tap], STK_F32);
}

/* The gradient by h1 is a convolution of t, the weights turned around. */
STK_INLINE void backward_block(const stk_depthwise *layer, const stk_depthwise_line_part *part,
                               const float *const t[3], uint32_t first, uint32_t count, size_t c,
                               size_t lanes, const void *h1, void *dh1, float *sums, stk_float type)
{
    taps k = { .bias = v_zero() };
    lines from = { .stride = STK_LANES, .width = part->width + 2 };
    for (size_t i = 0; i < 3; i++) from.line[i] = t[i] + slope_at(part, c);
    for (size_t tap = 0; tap < 9; tap++)
        k.w[2 - tap / 3][2 - tap % 3] = v_get_part(layer->packed, tap * layer->channels + c, lanes, STK_F32);
    vf value[WIDE];
    convolve(&k, &from, first + 1, count, STK_LANES, STK_F32, value);
    for (uint32_t i = 0; i < count; i++)
        v_put_part(dh1, (size_t)(first + i) * layer->channels + c, lanes, value[i], type);
    if (sums) add_sums(layer, &from, first, count, c, lanes, h1, sums, type);
}

STK_INLINE void backward(const stk_depthwise *layer, const stk_depthwise_line_part *part,
                         const float *const t[3], const void *h1, void *dh1, float *sums, stk_float type)
{
    const size_t end = part->channel + part->channels;
    for (uint32_t first = 0; first < part->width; first += WIDE) {
        const uint32_t left = part->width - first, count = left < WIDE ? left : WIDE;
        size_t c = part->channel;
        for (; c + STK_LANES <= end; c += STK_LANES)
            backward_block(layer, part, t, first, count, c, STK_LANES, h1, dh1, sums, type);
        if (c < end) backward_block(layer, part, t, first, count, c, end - c, h1, dh1, sums, type);
    }
}

#include "src/net/kernels/depthwise_instances.h"

void STK_SIMD(stk_depthwise_fill)(stk_depthwise_table *table)
{
    *table = instances;
}
