/* SPDX-License-Identifier: Apache-2.0
 *
 * The warp's inner rows with AVX2, eight pixels at a time.
 *
 * What decided the shape: 512 x 512 RGB u8 turned by 15 degrees, Zen 3 at 3.2 GHz, best of 400, ms for the
 * image and for its mask (the C reference: 3.1 and 0.44). Offsets to the pixels reach scalar registers
 *
 *     through memory                                             0.45  0.15
 *     through memory by blocks of 64, weights too, then blended  0.39  0.14
 *     by VMOVQ and VPEXTRQ, two to a register                    0.42  0.10
 *     the same, for the next eight before these are blended      0.38  0.10   this file
 *     not at all: VPGATHERDD                                           0.20
 *
 * The taps of two pixels joined by broadcasting loads and VPBLENDD or by VMOVHPD and VINSERTI128: within 2 %.
 * Blocking for the cache has little to win: 2048 x 2048 takes 7.1 ms, 18.5 times as long as 512 x 512, for 16
 * times the pixels, because an output row reads mostly the cache lines of the row before.
 *
 * Structures of vectors have no arrays and helpers are always inlined: with a call per eight pixels
 * everything passed through memory and the image took 0.59.
 */
#include <immintrin.h>
#include <string.h>

#include "src/pix/pix_table.h"

#define AVX2   __attribute__((target("avx2")))
#define INLINE inline __attribute__((always_inline))

/* The same in both 128-bit halves, which byte shuffles treat alike. */
#define TWICE(...) _mm256_setr_epi8(__VA_ARGS__, __VA_ARGS__)

/* ---- coordinates ---- */

/* Eight pixels: x0, y0 are the coordinates of 0, 1, 4, 5 and x1, y1 those of 2, 3, 6, 7: the order in which
 * VSHUFPS brings the words of two registers together. */
typedef struct eight {
    __m256i x0, x1, y0, y1;
} eight;

AVX2 static INLINE __m256i lanes(uint64_t start, uint64_t step)
{
    const __m128i two = _mm_set_epi64x((long long)(start + step), (long long)start);
    const __m128i four = _mm_set1_epi64x((long long)(4 * step));
    return _mm256_inserti128_si256(_mm256_castsi128_si256(two), _mm_add_epi64(two, four), 1);
}

/* Displacements of pixels 0, 1, 4, 5 from `shift` on, as 32.32. */
AVX2 static INLINE __m256i shift_0145(const int32_t *shift)
{
    const __m128i a = _mm_loadl_epi64((const __m128i *)shift),
                  b = _mm_loadl_epi64((const __m128i *)(shift + 4));
    return _mm256_slli_epi64(_mm256_cvtepi32_epi64(_mm_unpacklo_epi64(a, b)), 16);
}

/* A walk along a line; `elastic` is a constant at every call. */
typedef struct walk {
    const stk_pix_warp_line *line;
    eight at;
    __m256i dx, dy;
} walk;

AVX2 static INLINE walk walk_from(const stk_pix_warp_line *line, size_t i, uint64_t half)
{
    const uint64_t x = line->x + i * line->dx + half, y = line->y + i * line->dy + half;
    return (walk){ line,
                   { lanes(x, line->dx), lanes(x + 2 * line->dx, line->dx), lanes(y, line->dy),
                     lanes(y + 2 * line->dy, line->dy) },
                   _mm256_set1_epi64x((long long)(8 * line->dx)),
                   _mm256_set1_epi64x((long long)(8 * line->dy)) };
}

/* The coordinates of pixels i .. i + 7, where the walk is, and on to the next eight. */
AVX2 static INLINE eight walk_on(walk *w, size_t i, int elastic)
{
    eight e = w->at;
    w->at = (eight){ _mm256_add_epi64(e.x0, w->dx), _mm256_add_epi64(e.x1, w->dx),
                     _mm256_add_epi64(e.y0, w->dy), _mm256_add_epi64(e.y1, w->dy) };
    if (!elastic) return e;
    const int32_t *sx = w->line->shift_x + i, *sy = w->line->shift_y + i;
    return (eight){ _mm256_add_epi64(e.x0, shift_0145(sx)), _mm256_add_epi64(e.x1, shift_0145(sx + 2)),
                    _mm256_add_epi64(e.y0, shift_0145(sy)), _mm256_add_epi64(e.y1, shift_0145(sy + 2)) };
}

/* The high (whole pixels) or low (fraction) words of eight coordinates, in order. */
#define WORDS(a, b, which)                                                                                   \
    _mm256_castps_si256(_mm256_shuffle_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b), which))
#define WHOLE(a, b)    WORDS(a, b, 0xdd)
#define FRACTION(a, b) WORDS(a, b, 0x88)

/* Bytes from the start of the picture to eight pixels, two to a register. */
typedef struct offsets {
    uint64_t o01, o23, o45, o67;
} offsets;
#define FIRST(pair)  ((uint32_t)(pair))
#define SECOND(pair) ((pair) >> 32)

/* `pixel` is the bytes of one: a constant. */
AVX2 static INLINE offsets offsets_of(const eight *e, __m256i stride, int pixel)
{
    __m256i x = WHOLE(e->x0, e->x1);
    if (pixel % 3 == 0) x = _mm256_add_epi32(x, _mm256_add_epi32(x, x));
    if (pixel % 2 == 0) x = _mm256_add_epi32(x, x);
    const __m256i v = _mm256_add_epi32(x, _mm256_mullo_epi32(WHOLE(e->y0, e->y1), stride));
    const __m128i low = _mm256_castsi256_si128(v), high = _mm256_extracti128_si256(v, 1);
    return (offsets){ (uint64_t)_mm_cvtsi128_si64(low), (uint64_t)_mm_extract_epi64(low, 1),
                      (uint64_t)_mm_cvtsi128_si64(high), (uint64_t)_mm_extract_epi64(high, 1) };
}

/* ---- images ---- */

/* Eight pixels ready to be blended. A pixel's weights are a 32-bit word of two 16-bit weights: wx = (256 -
 * wx, wx), wy = (wy, wy). */
typedef struct ready {
    offsets o;
    __m256i wx, wy;
} ready;

AVX2 static INLINE ready prepare(const eight *e, __m256i stride, int pixel)
{
    /* Of every word the highest byte, twice, as 16 bits. */
    const __m256i top = TWICE(3, -1, 3, -1, 7, -1, 7, -1, 11, -1, 11, -1, 15, -1, 15, -1);
    const __m256i wx = _mm256_shuffle_epi8(FRACTION(e->x0, e->x1), top);
    return (ready){ offsets_of(e, stride, pixel),
                    _mm256_add_epi16(_mm256_mullo_epi16(wx, _mm256_set1_epi32(0x0002fffe)),
                                     _mm256_set1_epi32(512)),
                    _mm256_shuffle_epi8(FRACTION(e->y0, e->y1), top) };
}

/* Blends eight pixels and stores them; all pairs below are pixel k in the low half, k + 4 in the high one,
 * whose weights one VPSHUFD spreads. */
typedef void blend_fn(void *dst, const uint8_t *top, const uint8_t *bottom, const ready *r);
#define SPREAD(weights, k) _mm256_shuffle_epi32(weights, 0x55 * (k))

/* A row of at least eight pixels. Offsets to the next pixels leave the vector unit while these are blended:
 * the way out takes longer than the blending. */
AVX2 static INLINE void image_row(void *dst, const uint8_t *src, size_t stride, const stk_pix_warp_line *line,
                                  size_t n, int pixel, blend_fn *blend, int elastic)
{
    const __m256i s = _mm256_set1_epi32((int)stride);
    walk w = walk_from(line, 0, K_WARP_HALF_STEP);
    eight e = walk_on(&w, 0, elastic);
    ready now = prepare(&e, s, pixel);
    uint8_t *out = dst;
    size_t i = 8;
    for (; i + 8 <= n; i += 8, out += 8 * pixel) {
        e = walk_on(&w, i, elastic);
        const ready next = prepare(&e, s, pixel);
        blend(out, src, src + stride, &now);
        now = next;
    }
    blend(out, src, src + stride, &now);
    if (i == n) return;
    w = walk_from(line, n - 8, K_WARP_HALF_STEP); /* once more over the overlap */
    e = walk_on(&w, n - 8, elastic);
    now = prepare(&e, s, pixel);
    blend((uint8_t *)dst + (n - 8) * (size_t)pixel, src, src + stride, &now);
}

/* u8: the two taps of two pixels, eight bytes each of which six count: of one pixel in the low half, the
 * upper row's before the lower row's, of the other in the high half. */
AVX2 static INLINE __m256i load_8(const uint8_t *p)
{
    long long v;
    memcpy(&v, p, sizeof v);
    return _mm256_set1_epi64x(v);
}

AVX2 static INLINE __m256i taps_u8(const uint8_t *top, const uint8_t *bottom, size_t a, size_t b)
{
    return _mm256_blend_epi32(_mm256_blend_epi32(load_8(top + a), load_8(bottom + a), 0x0c),
                              _mm256_blend_epi32(load_8(top + b), load_8(bottom + b), 0xc0), 0xf0);
}

/* Two pixels, vertical then horizontal: t * (256 - wy) + b * wy = 256 t + (b - t) * wy, modulo 2^16 exact.
 * The first shuffle puts b and t side by side for VPMADDUBSW to subtract, the second t where it counts 256
 * times. Channels are pairs of left and right tap, as VPMADDWD wants them. Weights add up to 256; results,
 * rounded, are bits 15 to 22 of the sums in words 0..2 of each half. */
AVX2 static INLINE __m256i blend_pair_u8(__m256i taps, __m256i wy, __m256i wx)
{
    const __m256i both = TWICE(8, 0, 11, 3, 9, 1, 12, 4, 10, 2, 13, 5, -1, -1, -1, -1);
    const __m256i times_256 = TWICE(-1, 0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1);
    const __m256i difference =
        _mm256_maddubs_epi16(_mm256_shuffle_epi8(taps, both), _mm256_set1_epi16((short)0xff01));
    const __m256i v =
        _mm256_add_epi16(_mm256_shuffle_epi8(taps, times_256), _mm256_mullo_epi16(difference, wy));
    const __m256i halved = _mm256_avg_epu16(v, _mm256_setzero_si256()); /* (v + 1) >> 1 */
    return _mm256_add_epi32(_mm256_madd_epi16(halved, wx), _mm256_set1_epi32(1 << 15));
}

AVX2 static INLINE void blend_u8(void *dst, const uint8_t *top, const uint8_t *bottom, const ready *r)
{
    const offsets *o = &r->o;
    const __m256i p0 =
        blend_pair_u8(taps_u8(top, bottom, FIRST(o->o01), FIRST(o->o45)), SPREAD(r->wy, 0), SPREAD(r->wx, 0));
    const __m256i p1 = blend_pair_u8(taps_u8(top, bottom, SECOND(o->o01), SECOND(o->o45)), SPREAD(r->wy, 1),
                                     SPREAD(r->wx, 1));
    const __m256i p2 =
        blend_pair_u8(taps_u8(top, bottom, FIRST(o->o23), FIRST(o->o67)), SPREAD(r->wy, 2), SPREAD(r->wx, 2));
    const __m256i p3 = blend_pair_u8(taps_u8(top, bottom, SECOND(o->o23), SECOND(o->o67)), SPREAD(r->wy, 3),
                                     SPREAD(r->wx, 3));
    /* R0 R1 G0 G1 B0 B1 . . as 16 bits, and 4, 5 in the high half */
    const __m256i p01 = _mm256_blend_epi16(_mm256_srli_epi32(p0, 16), p1, 0xaa);
    const __m256i p23 = _mm256_blend_epi16(_mm256_srli_epi32(p2, 16), p3, 0xaa);
    const __m256i order = TWICE(0, 2, 4, 1, 3, 5, 8, 10, 12, 9, 11, 13, -1, -1, -1, -1);
    const __m256i halves = _mm256_shuffle_epi8(_mm256_packus_epi16(p01, p23), order);
    const __m256i bytes = _mm256_permutevar8x32_epi32(halves, _mm256_setr_epi32(0, 1, 2, 4, 5, 6, 3, 7));
    _mm_storeu_si128((__m128i *)dst, _mm256_castsi256_si128(bytes));
    _mm_storel_epi64((__m128i *)((uint8_t *)dst + 16), _mm256_extracti128_si256(bytes, 1));
}

/* u16: a row's two taps of two pixels, R G B . of the left one, then of the right one; 32768 less, so that
 * they are signed for VPMADDWD. */
AVX2 static INLINE __m256i taps_u16(const uint8_t *row, size_t a, size_t b)
{
    const __m256i v =
        _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)(row + a))),
                                _mm_loadu_si128((const __m128i *)(row + b)), 1);
    const __m256i order = TWICE(0, 1, 2, 3, 4, 5, -1, -1, 6, 7, 8, 9, 10, 11, -1, -1);
    return _mm256_xor_si256(_mm256_shuffle_epi8(v, order), _mm256_set1_epi16((short)0x8000));
}

/* Two pixels as words R G B . in each half. The weights add up to 2^16, so the sums are 2^31 too small: the
 * last addition mends that and rounds. */
AVX2 static INLINE __m256i blend_pair_u16(const uint8_t *top, const uint8_t *bottom, size_t a, size_t b,
                                          __m256i wy, __m256i wx)
{
    const __m256i t = taps_u16(top, a, b), u = taps_u16(bottom, a, b);
    const __m256i w = _mm256_add_epi16(_mm256_sign_epi16(wy, _mm256_set1_epi32(0x0001ffff)),
                                       _mm256_set1_epi32(256)); /* (256 - wy, wy) */
    const __m256i left = _mm256_madd_epi16(_mm256_unpacklo_epi16(t, u), w);
    const __m256i right = _mm256_madd_epi16(_mm256_unpackhi_epi16(t, u), w);
    const __m256i w_right = _mm256_srli_epi32(wx, 17),
                  w_left = _mm256_sub_epi32(_mm256_set1_epi32(256), w_right);
    const __m256i sum =
        _mm256_add_epi32(_mm256_mullo_epi32(left, w_left), _mm256_mullo_epi32(right, w_right));
    return _mm256_srli_epi32(_mm256_add_epi32(sum, _mm256_set1_epi32((int)0x80008000u)), 16);
}

AVX2 static INLINE void blend_u16(void *dst, const uint8_t *top, const uint8_t *bottom, const ready *r)
{
    const offsets *o = &r->o;
    const __m256i p0 =
        blend_pair_u16(top, bottom, FIRST(o->o01), FIRST(o->o45), SPREAD(r->wy, 0), SPREAD(r->wx, 0));
    const __m256i p1 =
        blend_pair_u16(top, bottom, SECOND(o->o01), SECOND(o->o45), SPREAD(r->wy, 1), SPREAD(r->wx, 1));
    const __m256i p2 =
        blend_pair_u16(top, bottom, FIRST(o->o23), FIRST(o->o67), SPREAD(r->wy, 2), SPREAD(r->wx, 2));
    const __m256i p3 =
        blend_pair_u16(top, bottom, SECOND(o->o23), SECOND(o->o67), SPREAD(r->wy, 3), SPREAD(r->wx, 3));
    const __m256i order = TWICE(0, 1, 2, 3, 4, 5, 8, 9, 10, 11, 12, 13, -1, -1, -1, -1);
    const __m256i p0145 = _mm256_shuffle_epi8(_mm256_packus_epi32(p0, p1), order);
    const __m256i p2367 = _mm256_shuffle_epi8(_mm256_packus_epi32(p2, p3), order);
    const __m128i last = _mm256_extracti128_si256(p2367, 1);
    uint8_t *out = dst;
    /* 16 bytes for 12: the next store overwrites the rest */
    _mm_storeu_si128((__m128i *)out, _mm256_castsi256_si128(p0145));
    _mm_storeu_si128((__m128i *)(out + 12), _mm256_castsi256_si128(p2367));
    _mm_storeu_si128((__m128i *)(out + 24), _mm256_extracti128_si256(p0145, 1));
    _mm_storel_epi64((__m128i *)(out + 36), last);
    const int32_t end = _mm_extract_epi32(last, 2);
    memcpy(out + 44, &end, sizeof end);
}

/* ---- masks ---- */

typedef void pick_fn(void *dst, const uint8_t *src, const offsets *o);

AVX2 static INLINE void pick_u8(void *dst, const uint8_t *src, const offsets *o)
{
    __m128i v = _mm_cvtsi32_si128(src[FIRST(o->o01)]);
    v = _mm_insert_epi8(v, src[SECOND(o->o01)], 1);
    v = _mm_insert_epi8(v, src[FIRST(o->o23)], 2);
    v = _mm_insert_epi8(v, src[SECOND(o->o23)], 3);
    v = _mm_insert_epi8(v, src[FIRST(o->o45)], 4);
    v = _mm_insert_epi8(v, src[SECOND(o->o45)], 5);
    v = _mm_insert_epi8(v, src[FIRST(o->o67)], 6);
    v = _mm_insert_epi8(v, src[SECOND(o->o67)], 7);
    _mm_storel_epi64((__m128i *)dst, v);
}

static INLINE int load_u16(const uint8_t *p)
{
    uint16_t value;
    memcpy(&value, p, sizeof value);
    return value;
}

AVX2 static INLINE void pick_u16(void *dst, const uint8_t *src, const offsets *o)
{
    __m128i v = _mm_cvtsi32_si128(load_u16(src + FIRST(o->o01)));
    v = _mm_insert_epi16(v, load_u16(src + SECOND(o->o01)), 1);
    v = _mm_insert_epi16(v, load_u16(src + FIRST(o->o23)), 2);
    v = _mm_insert_epi16(v, load_u16(src + SECOND(o->o23)), 3);
    v = _mm_insert_epi16(v, load_u16(src + FIRST(o->o45)), 4);
    v = _mm_insert_epi16(v, load_u16(src + SECOND(o->o45)), 5);
    v = _mm_insert_epi16(v, load_u16(src + FIRST(o->o67)), 6);
    v = _mm_insert_epi16(v, load_u16(src + SECOND(o->o67)), 7);
    _mm_storeu_si128((__m128i *)dst, v);
}

AVX2 static INLINE void mask_row(void *dst, const uint8_t *src, size_t stride, const stk_pix_warp_line *line,
                                 size_t n, int pixel, pick_fn *pick, int elastic)
{
    const __m256i s = _mm256_set1_epi32((int)stride);
    uint8_t *out = dst;
    walk w = walk_from(line, 0, K_WARP_HALF_PIXEL);
    size_t i = 0;
    for (; i + 8 <= n; i += 8, out += 8 * pixel) {
        const eight e = walk_on(&w, i, elastic);
        const offsets o = offsets_of(&e, s, pixel);
        pick(out, src, &o);
    }
    if (i == n) return;
    w = walk_from(line, n - 8, K_WARP_HALF_PIXEL); /* once more over the overlap */
    const eight e = walk_on(&w, n - 8, elastic);
    const offsets o = offsets_of(&e, s, pixel);
    pick((uint8_t *)dst + (n - 8) * (size_t)pixel, src, &o);
}

/* ---- entries ---- */

#define DEFINE_WARP(name, row, pixel, inner)                                                                 \
    AVX2 static void name(void *dst, const void *src, size_t stride, const stk_pix_warp_line *line,          \
                          size_t n)                                                                          \
    {                                                                                                        \
        if (n < 8)                                                                                           \
            stk_##name##_c(dst, src, stride, line, n);                                                       \
        else if (line->shift_x)                                                                              \
            row(dst, src, stride, line, n, pixel, inner, 1);                                                 \
        else                                                                                                 \
            row(dst, src, stride, line, n, pixel, inner, 0);                                                 \
    }
DEFINE_WARP(warp_u8c3, image_row, 3, blend_u8)
DEFINE_WARP(warp_u16c3, image_row, 6, blend_u16)
DEFINE_WARP(warp_u8c1, mask_row, 1, pick_u8)
DEFINE_WARP(warp_u16c1, mask_row, 2, pick_u16)
#undef DEFINE_WARP

AVX2 static INLINE void cubic_8(int32_t *shift, const float *t, const stk_pix_cubic *c)
{
    const __m256 v = _mm256_loadu_ps(t);
    __m256 sum = _mm256_add_ps(_mm256_mul_ps(_mm256_set1_ps(c->a[3]), v), _mm256_set1_ps(c->a[2]));
    sum = _mm256_add_ps(_mm256_mul_ps(sum, v), _mm256_set1_ps(c->a[1]));
    sum = _mm256_add_ps(_mm256_mul_ps(sum, v), _mm256_set1_ps(c->a[0]));
    const __m256i limit = _mm256_set1_epi32(c->limit), least = _mm256_set1_epi32(-c->limit);
    _mm256_storeu_si256((__m256i *)shift,
                        _mm256_max_epi32(_mm256_min_epi32(_mm256_cvttps_epi32(sum), limit), least));
}

AVX2 static void cubic(int32_t *shift, const float *t, size_t n, const stk_pix_cubic *c)
{
    if (n < 8) {
        stk_cubic_c(shift, t, n, c);
        return;
    }
    for (size_t i = 0; i + 8 <= n; i += 8) cubic_8(shift + i, t + i, c);
    if (n % 8) cubic_8(shift + n - 8, t + n - 8, c);
}

void stk_pix_fill_warp_avx2(stk_pix_table *table)
{
    table->warp_u8c3 = warp_u8c3;
    table->warp_u16c3 = warp_u16c3;
    table->warp_u8c1 = warp_u8c1;
    table->warp_u16c1 = warp_u16c1;
    table->cubic = cubic;
}
