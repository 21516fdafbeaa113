/* SPDX-License-Identifier: Apache-2.0
 *
 * The triangle filter of Pillow and torch (antialias=True). For output i of an axis of `in` to `out` pixels:
 *   scale = in / out, support = max(scale, 1), centre = scale * (i + 0.5)
 *   first = max(0, trunc(centre - support + 0.5)), end = min(in, trunc(centre + support + 0.5))
 *   weight[k] = max(0, 1 - |k + first - centre + 0.5| / support), divided by their sum
 * all in double, in torch's order of operations, because the integer weights have to be torch's to the last
 * bit: the one place of freedom that shows is (first - centre) + k + 0.5 times 1 / support instead of a
 * division.
 */
#include "src/pix/axis.h"

#include <math.h>

/* torch counts the precision up while the largest weight still fits 15 bits, and stops at 22. */
enum { PRECISION_MAX = 22, WEIGHT_LIMIT = 1 << 15 };

static double support_of(uint32_t in, uint32_t out)
{
    double scale = (double)in / out;
    return scale >= 1.0 ? scale : 1.0;
}

size_t stk_axis_most(uint32_t in, uint32_t out)
{
    size_t most = (size_t)ceil(support_of(in, out)) * 2 + 1;
    return most < in ? most : in;
}

static size_t taps_of(uint32_t in, uint32_t out)
{
    return (stk_axis_most(in, out) + 3) / 4 * 4;
}

size_t stk_axis_bytes(uint32_t in, uint32_t out, uint8_t depth)
{
    size_t weights, bytes;
    /* One row of doubles in front, where the weights of an output are made before they are rounded. */
    if (!stk_mul(taps_of(in, out), out, &weights)) return SIZE_MAX;
    if (!stk_mul(weights, depth == 1 ? sizeof(int16_t) : sizeof(float), &bytes)) return SIZE_MAX;
    if (!stk_add(bytes, taps_of(in, out) * sizeof(double) + (size_t)out * 2 * sizeof(uint32_t), &bytes))
        return SIZE_MAX;
    return bytes;
}

/* Normalised weights of output i; returns their number. */
static uint32_t weigh(uint32_t in, uint32_t out, uint32_t i, size_t most, double *weight, uint32_t *first)
{
    const double scale = (double)in / out, support = support_of(in, out), inverse = 1.0 / support;
    const double centre = scale * (i + 0.5);
    const int64_t low = (int64_t)(centre - support + 0.5), high = (int64_t)(centre + support + 0.5);
    const int64_t start = low > 0 ? low : 0, end = high < in ? high : in;
    int64_t count = end - start;
    if (count > (int64_t)most) count = (int64_t)most; /* rounding may give one more, of weight zero */
    double total = 0;
    for (int64_t k = 0; k < count; k++) {
        double distance = fabs(((double)k + ((double)start - centre) + 0.5) * inverse);
        weight[k] = distance < 1.0 ? 1.0 - distance : 0.0;
        total += weight[k];
    }
    if (total != 0)
        for (int64_t k = 0; k < count; k++) weight[k] /= total;
    *first = (uint32_t)start;
    return (uint32_t)count;
}

static uint32_t precision_for(double largest)
{
    uint32_t precision = 0;
    while (precision < PRECISION_MAX && (int)(0.5 + largest * (1 << (precision + 1))) < WEIGHT_LIMIT)
        precision++;
    return precision;
}

int stk_axis_build(stk_axis_store *store, uint32_t in, uint32_t out, uint8_t depth)
{
    stk_pix_resize_axis *axis = &store->axis;
    if (store->depth == depth && axis->in == in && axis->out == out) return 1;
    store->depth = 0;
    const size_t bytes = stk_axis_bytes(in, out, depth), taps = taps_of(in, out),
                 most = stk_axis_most(in, out);
    if (bytes == SIZE_MAX || !stk_buffer_reserve(&store->buffer, bytes)) return 0;
    double *exact = store->buffer.data;
    uint32_t *start = (uint32_t *)(exact + taps), *count = start + out;
    void *weights = count + out;

    double largest = 0;
    uint32_t widest = 0;
    for (uint32_t i = 0; i < out; i++) {
        count[i] = weigh(in, out, i, most, exact, &start[i]);
        if (count[i] > widest) widest = count[i];
        for (uint32_t k = 0; k < count[i]; k++) largest = exact[k] > largest ? exact[k] : largest;
    }
    const uint32_t precision = precision_for(largest);
    for (uint32_t i = 0; i < out; i++) {
        /* Made a second time rather than kept: doubles would take four times the memory of the result. */
        uint32_t n = weigh(in, out, i, most, exact, &start[i]);
        for (size_t k = 0; k < taps; k++) {
            double weight = k < n ? exact[k] : 0.0;
            if (depth == 1)
                ((int16_t *)weights)[i * taps + k] = (int16_t)(0.5 + weight * (1 << precision));
            else
                ((float *)weights)[i * taps + k] = (float)weight;
        }
    }
    *axis = (stk_pix_resize_axis){ .in = in,
                                   .out = out,
                                   .taps = (uint32_t)taps,
                                   .most = widest,
                                   .precision = precision,
                                   .start = start,
                                   .count = count,
                                   .weight = depth == 1 ? weights : NULL,
                                   .weight_f = depth == 2 ? weights : NULL };
    store->depth = depth;
    return 1;
}
