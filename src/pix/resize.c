/* SPDX-License-Identifier: Apache-2.0
 *
 * Antialiased bilinear resize: horizontal pass into a ring of rows, vertical pass out of it.
 *
 *   source rows --resize_h (4 rows at a time)--> ring of most + 3 rows --resize_v--> output rows
 *
 * torch and Pillow keep the whole intermediate picture; the ring stays in the first or second level cache
 * (512 pixels of RGB, halved: 8 rows = 12 KB). Pictures squeezed so hard that even the ring would be large
 * are done in upright strips.
 */
#include "src/pix/pix.h"

#include <math.h>
#include <string.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/pix/pix_table.h"

/* The triangle filter of Pillow and torch (antialias=True). For output i of an axis of `in` to `out` pixels:
 *   scale = in / out, support = max(scale, 1), centre = scale * (i + 0.5)
 *   first = max(0, trunc(centre - support + 0.5)), end = min(in, trunc(centre + support + 0.5))
 *   weight[k] = max(0, 1 - |k + first - centre + 0.5| / support), divided by their sum
 * all in double, in torch's order of operations, because the integer weights have to be torch's to the last
 * bit: the one place of freedom that shows is (first - centre) + k + 0.5 times 1 / support instead of a
 * division.
 */

/* torch counts the precision up while the largest weight still fits 15 bits, and stops at 22. */
enum { PRECISION_MAX = 22, WEIGHT_LIMIT = 1 << 15 };

static double support_of(uint32_t in, uint32_t out)
{
    double scale = (double)in / out;
    return scale >= 1.0 ? scale : 1.0;
}

/* Bytes stk_axis_build takes (SIZE_MAX: more than an address space), and the largest number of taps. */
static size_t axis_most(uint32_t in, uint32_t out)
{
    size_t most = (size_t)ceil(support_of(in, out)) * 2 + 1;
    return most < in ? most : in;
}

static size_t taps_of(uint32_t in, uint32_t out)
{
    return (axis_most(in, out) + 3) / 4 * 4;
}

static size_t axis_bytes(uint32_t in, uint32_t out, uint8_t depth)
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

int stk_axis_build(stk_pix_axis_store *store, uint32_t in, uint32_t out, uint8_t depth)
{
    stk_pix_resize_axis *axis = &store->axis;
    if (store->depth == depth && axis->in == in && axis->out == out) return 1;
    store->depth = 0;
    const size_t bytes = axis_bytes(in, out, depth), taps = taps_of(in, out), most = axis_most(in, out);
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

enum {
    BLOCK = 4,              /* rows per call of the horizontal pass */
    RING_BYTES = 256 << 10, /* wanted size of the ring: half of a usual second level cache */
    STRIP_MIN = 16          /* pixels; narrower strips would be all edge */
};

struct stk_pix_resizer {
    stk_pix_axis_store x, y;
    stk_mem_buffer ring;
    stk_mem_buffer rows; /* pointers to the rows one output row depends on */
};

/* Sizes of a job, for doing it and for planning it. */
typedef struct job {
    size_t slots;     /* rows of the ring, a multiple of BLOCK */
    size_t strip;     /* output pixels per strip */
    size_t row_bytes; /* of a ring row */
    size_t ring_bytes, pointer_bytes;
} job;

stk_pix_resizer *stk_resizer_create(void)
{
    return stk_calloc(1, sizeof(stk_pix_resizer));
}

void stk_resizer_destroy(stk_pix_resizer **resizer)
{
    if (!*resizer) return;
    stk_buffer_free(&(*resizer)->x.buffer);
    stk_buffer_free(&(*resizer)->y.buffer);
    stk_buffer_free(&(*resizer)->ring);
    stk_buffer_free(&(*resizer)->rows);
    stk_free(*resizer);
    *resizer = NULL;
}

uint64_t stk_resizer_memory(const stk_pix_resizer *resizer)
{
    return sizeof *resizer + resizer->x.buffer.capacity + resizer->y.buffer.capacity +
           resizer->ring.capacity + resizer->rows.capacity;
}

static job plan(uint32_t in_height, uint32_t out_width, uint32_t out_height, uint8_t channels, uint8_t depth)
{
    job j;
    const size_t most = axis_most(in_height, out_height);
    /* u16 rows wait as floats. Output pixels of a strip are limited by the ring they need. */
    const size_t pixel = (size_t)channels * (depth == 1 ? 1 : sizeof(float));
    j.slots = (most + BLOCK - 1 + BLOCK - 1) / BLOCK * BLOCK;
    j.strip = RING_BYTES / (j.slots * pixel);
    if (j.strip < STRIP_MIN) j.strip = STRIP_MIN;
    j.strip = stk_least(j.strip, out_width);
    j.row_bytes = (j.strip * pixel + 63) / 64 * 64;
    j.ring_bytes = j.slots * j.row_bytes;
    j.pointer_bytes = most * sizeof(void *);
    return j;
}

uint64_t stk_resize_scratch(uint32_t in_width, uint32_t in_height, uint32_t out_width, uint32_t out_height,
                            uint8_t channels, uint8_t depth)
{
    if (in_width == out_width && in_height == out_height) return sizeof(stk_pix_resizer);
    const job j = plan(in_height, out_width, out_height, channels, depth);
    return sizeof(stk_pix_resizer) + (uint64_t)axis_bytes(in_width, out_width, depth) +
           axis_bytes(in_height, out_height, depth) + j.ring_bytes + j.pointer_bytes;
}

/* Columns [first, first + n) of an axis. */
static stk_pix_resize_axis axis_part(const stk_pix_resize_axis *axis, size_t first, size_t n)
{
    stk_pix_resize_axis part = *axis;
    part.out = (uint32_t)n;
    part.start += first;
    part.count += first;
    if (part.weight) part.weight += first * part.taps;
    if (part.weight_f) part.weight_f += first * part.taps;
    return part;
}

/* One strip through the ring. `x` holds its columns; dst points at its first pixel. */
static void through_ring(stk_pix_resizer *resizer, const job *j, stk_resize_h_fn *pass_h,
                         stk_resize_v_fn *pass_v, const stk_pix_resize_axis *x, const stoke_image *src,
                         uint8_t *dst, size_t dst_stride)
{
    const stk_pix_resize_axis *y = &resizer->y.axis;
    uint8_t *ring = resizer->ring.data;
    const void **rows = resizer->rows.data;
    size_t ready = 0; /* source rows that went through the horizontal pass */
    for (uint32_t i = 0; i < y->out; i++, dst += dst_stride) {
        const size_t start = y->start[i], end = start + y->count[i];
        for (; ready < end; ready += BLOCK) {
            uint32_t n = (uint32_t)stk_least(BLOCK, src->height - ready);
            pass_h(ring + ready % j->slots * j->row_bytes, j->row_bytes,
                   (const uint8_t *)src->data + ready * src->stride, src->stride, n, x);
        }
        for (size_t k = start; k < end; k++) rows[k - start] = ring + k % j->slots * j->row_bytes;
        pass_v(dst, rows, (size_t)x->out * src->channels, y, i);
    }
}

/* Same width, u8: the source rows themselves are the vertical pass's input. */
static void vertical_only(stk_pix_resizer *resizer, stk_resize_v_fn *pass_v, const stoke_image *src,
                          const stoke_image *dst)
{
    const stk_pix_resize_axis *y = &resizer->y.axis;
    const void **rows = resizer->rows.data;
    for (uint32_t i = 0; i < y->out; i++) {
        for (uint32_t k = 0; k < y->count[i]; k++)
            rows[k] = (const uint8_t *)src->data + (size_t)(y->start[i] + k) * src->stride;
        pass_v((uint8_t *)dst->data + i * dst->stride, rows, (size_t)src->width * src->channels, y, i);
    }
}

static int check(const stoke_image *src, const stoke_image *dst, stoke_error *err)
{
    if (src->channels != dst->channels || src->depth != dst->depth ||
        (src->channels != 1 && src->channels != 3) || (src->depth != 1 && src->depth != 2))
        return stk_fail(err, STOKE_E_INVALID, "resize of %u x %u-byte pixels to %u x %u-byte ones",
                        src->channels, src->depth, dst->channels, dst->depth);
    if (!src->width || !src->height || !dst->width || !dst->height || src->width > INT32_MAX ||
        src->height > INT32_MAX || dst->width > INT32_MAX || dst->height > INT32_MAX)
        return stk_fail(err, STOKE_E_INVALID, "resize of %u x %u to %u x %u pixels", src->width, src->height,
                        dst->width, dst->height);
    return STOKE_OK;
}

int stk_resize(stk_pix_resizer *resizer, const stoke_image *src, const stoke_image *dst, stoke_error *err)
{
    int status = check(src, dst, err);
    if (status) return status;
    if (src->width == dst->width && src->height == dst->height) {
        stk_copy_rows(dst->data, dst->stride, src->data, src->stride,
                      (size_t)src->width * src->channels * src->depth, src->height);
        return STOKE_OK;
    }
    const job j = plan(src->height, dst->width, dst->height, src->channels, src->depth);
    if (!stk_axis_build(&resizer->x, src->width, dst->width, src->depth) ||
        !stk_axis_build(&resizer->y, src->height, dst->height, src->depth) ||
        !stk_buffer_reserve(&resizer->ring, j.ring_bytes) ||
        !stk_buffer_reserve(&resizer->rows, j.pointer_bytes))
        return stk_fail(err, STOKE_E_NOMEM, "no memory to resize %u x %u to %u x %u pixels", src->width,
                        src->height, dst->width, dst->height);

    const stk_pix_table *pix = stk_pix();
    const int u8 = src->depth == 1, colour = src->channels == 3;
    stk_resize_v_fn *pass_v = u8 ? pix->resize_v_u8 : pix->resize_v_u16;
    stk_resize_h_fn *pass_h = u8 ? (colour ? pix->resize_h_u8c3 : pix->resize_h_u8c1)
                                 : (colour ? pix->resize_h_u16c3 : pix->resize_h_u16c1);
    /* A pass over an unchanged axis would copy (one tap of weight 1). For u8 it is left out; u16 needs it to
     * get from integers to floats and back. */
    if (u8 && src->height == dst->height) {
        pass_h(dst->data, dst->stride, src->data, src->stride, src->height, &resizer->x.axis);
    } else if (u8 && src->width == dst->width) {
        vertical_only(resizer, pass_v, src, dst);
    } else {
        const size_t pixel = (size_t)src->channels * src->depth;
        for (size_t first = 0; first < dst->width; first += j.strip) {
            const stk_pix_resize_axis x =
                axis_part(&resizer->x.axis, first, stk_least(j.strip, dst->width - first));
            through_ring(resizer, &j, pass_h, pass_v, &x, src, (uint8_t *)dst->data + first * pixel,
                         dst->stride);
        }
    }
    return STOKE_OK;
}

/* Nearest-exact resize of class ids. Pillow's NEAREST and torch's "nearest-exact" mean the same index; they
 * compute it in floating point, which is off by one at some sizes when (i + 0.5) * in / out is close to a
 * whole number. Integers cannot be.
 */

/* Columns per strip: their source indices (2 KB) are made once and used for every row. */
enum { STRIP = 512 };

/* floor((2 i + 1) * in / (2 out)): below 2^65 only when in > 2^31, and pictures end at 2^31 - 1. */
static inline uint32_t source_index(uint32_t i, uint32_t in, uint32_t out)
{
    return (uint32_t)((2 * (uint64_t)i + 1) * in / (2 * (uint64_t)out));
}

static void pick_u8(uint8_t *dst, const uint8_t *src, const uint32_t *index, size_t n)
{
    for (size_t i = 0; i < n; i++) dst[i] = src[index[i]];
}

static void pick_u16(uint16_t *dst, const uint16_t *src, const uint32_t *index, size_t n)
{
    for (size_t i = 0; i < n; i++) dst[i] = src[index[i]];
}

void stk_resize_nearest(const stoke_image *src, const stoke_image *dst)
{
    uint32_t index[STRIP];
    for (uint32_t first = 0; first < dst->width; first += STRIP) {
        const uint32_t n = dst->width - first < STRIP ? dst->width - first : STRIP;
        for (uint32_t i = 0; i < n; i++) index[i] = source_index(first + i, src->width, dst->width);
        uint32_t last = UINT32_MAX;
        for (uint32_t y = 0; y < dst->height; y++) {
            const uint32_t from = source_index(y, src->height, dst->height);
            const uint8_t *in = (const uint8_t *)src->data + from * src->stride;
            uint8_t *out = (uint8_t *)dst->data + y * dst->stride + (size_t)first * dst->depth;
            if (from == last)
                memcpy(out, out - dst->stride, (size_t)n * dst->depth);
            else if (src->width == dst->width)
                memcpy(out, in + (size_t)first * dst->depth, (size_t)n * dst->depth);
            else if (dst->depth == 1)
                pick_u8(out, in, index, n);
            else
                pick_u16((uint16_t *)out, (const uint16_t *)in, index, n);
            last = from;
        }
    }
}
