/* SPDX-License-Identifier: Apache-2.0
 *
 * Writers of u8 pixels and mirrored rows with AVX2 and F16C. (Class ids are widened at the speed of memory by
 * what the compiler makes of the C reference.)
 *
 * Floats are computed, not looked up (see split() in writer.c): products and sums rounded one by one, which
 * is why no function here may be compiled with FMA. Measured for f32 CHW of 512 x 512 pixels into one row
 * again and again: 0.16 ms computed, 0.55 ms gathered from the table. Stores that bypass the cache made 0.27
 * ms, and nothing better when the rows went round a batch of 100 MB and were read afterwards.
 */
#include "src/pix/pix_table.h"

#include <immintrin.h>
#include <string.h>

#include "src/pix/x86/floats_avx2.h"

/* What the writers with AVX2 and F16C share: eight samples to elements of a batch, interleaved pixels to
 * planes. Products and sums are rounded one by one, which is why no function may be compiled with FMA.
 */

/* ---- eight elements ---- */

/* The constants of eight neighbouring elements. */
typedef struct norm {
    __m256 high, high_bias, low, low_bias;
} norm;

INLINE norm norm_of_channel(const stk_pix_writer *w, int c)
{
    return (norm){ _mm256_set1_ps(w->high[c]), _mm256_set1_ps(w->high_bias[c]), _mm256_set1_ps(w->low[c]),
                   _mm256_set1_ps(w->low_bias[c]) };
}

/* Interleaved elements from `first` (0, 8 or 16) on. */
INLINE norm norm_of_mix(const stk_pix_writer *w, int first)
{
    return (norm){ _mm256_loadu_ps(w->high + first), _mm256_loadu_ps(w->high_bias + first),
                   _mm256_loadu_ps(w->low + first), _mm256_loadu_ps(w->low_bias + first) };
}

/* Eight samples as elements i .. i + 7 of dst. U8 takes them rounded to nearest, as they are. dtype is a
 * constant at every call. */
INLINE void put8(void *dst, size_t i, __m256 v, norm n, stoke_dtype dtype)
{
    if (dtype == STOKE_DTYPE_U8) {
        set8_bytes((uint8_t *)dst + i, _mm256_cvtps_epi32(v));
        return;
    }
    const __m256 high = _mm256_add_ps(_mm256_mul_ps(v, n.high), n.high_bias);
    const __m256 low = _mm256_add_ps(_mm256_mul_ps(v, n.low), n.low_bias);
    const __m256 x = _mm256_add_ps(high, low);
    if (dtype == STOKE_DTYPE_F32) {
        _mm256_storeu_ps((float *)dst + i, x);
    } else if (dtype == STOKE_DTYPE_F16) {
        _mm_storeu_si128((__m128i *)((uint16_t *)dst + i), _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
    } else {
        set8_bf16((uint16_t *)dst + i, x);
    }
}

/* 16 bytes here, 16 bytes 48 further: the same third of two blocks of 16 pixels. */
INLINE __m256i load_thirds(const uint8_t *p)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)p)),
                                   _mm_loadu_si128((const __m128i *)(p + 48)), 1);
}

/* 32 pixels to three registers of 32 bytes. In every 48 bytes the 16 samples of a channel stand at 16
 * different positions modulo 16, so two blends collect them in one register and one shuffle puts them in
 * order. */
INLINE void planes_32(const uint8_t *src, __m256i plane[3])
{
    const __m256i a = load_thirds(src), b = load_thirds(src + 16), c = load_thirds(src + 32);
    const __m256i every0 = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(-1, 0, 0, -1, 0, 0, -1, 0, 0, -1, 0, 0, -1, 0, 0, -1)); /* positions 0, 3, 6, ... */
    const __m256i every1 =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, -1, 0, 0, -1, 0, 0, -1, 0, 0, -1, 0, 0, -1, 0, 0));
    const __m256i every2 =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 0, -1, 0, 0, -1, 0, 0, -1, 0, 0, -1, 0, 0, -1, 0));
    const __m256i order0 =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 3, 6, 9, 12, 15, 2, 5, 8, 11, 14, 1, 4, 7, 10, 13));
    const __m256i order1 =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(1, 4, 7, 10, 13, 0, 3, 6, 9, 12, 15, 2, 5, 8, 11, 14));
    const __m256i order2 =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(2, 5, 8, 11, 14, 1, 4, 7, 10, 13, 0, 3, 6, 9, 12, 15));
    /* R of the first 16 bytes stands at 0, 3, ...; of the second at 2, 5, ...; of the third at 1, 4, ...; and
     * so on. */
    const __m256i red = _mm256_blendv_epi8(_mm256_blendv_epi8(c, b, every2), a, every0);
    const __m256i green = _mm256_blendv_epi8(_mm256_blendv_epi8(c, b, every0), a, every1);
    const __m256i blue = _mm256_blendv_epi8(_mm256_blendv_epi8(c, b, every1), a, every2);
    plane[0] = _mm256_shuffle_epi8(red, order0);
    plane[1] = _mm256_shuffle_epi8(green, order1);
    plane[2] = _mm256_shuffle_epi8(blue, order2);
}

/* Pixels to planes of floats and planes to the batch, with AVX2 and F16C. (u16 pixels are unpacked by what
 * the compiler makes of the C reference.)
 */

/* ---- into planes ---- */

INLINE void unpack_32(float *row, size_t pitch, const uint8_t *src)
{
    __m256i bytes[3];
    planes_32(src, bytes);
    for (size_t c = 0; c < 3; c++) {
        const __m128i half[2] = { _mm256_castsi256_si128(bytes[c]), _mm256_extracti128_si256(bytes[c], 1) };
        for (size_t h = 0; h < 2; h++) {
            float *out = row + c * pitch + h * 16;
            const __m128i upper = _mm_srli_si128(half[h], 8);
            _mm256_storeu_ps(out, _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(half[h])));
            _mm256_storeu_ps(out + 8, _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(upper)));
        }
    }
}

AVX2 static void unpack_u8(float *row, size_t pitch, const void *src, size_t n)
{
    const uint8_t *in = src;
    if (n < 32) {
        stk_pix_c.unpack_u8(row, pitch, in, n);
        return;
    }
    for (size_t i = 0; i + 32 <= n; i += 32) unpack_32(row + i, pitch, in + i * 3);
    if (n % 32) unpack_32(row + n - 32, pitch, in + (n - 32) * 3); /* once more over the overlap */
}

/* ---- into the batch ---- */

INLINE void planes_chw(const stk_pix_writer *w, void *dst, size_t plane, const float *row, size_t pitch,
                       size_t n, stoke_dtype dtype)
{
    if (n < 8) {
        stk_pix_c.write_planes[dtype][STOKE_LAYOUT_CHW](w, dst, plane, row, pitch, n);
        return;
    }
    for (size_t c = 0; c < 3; c++) {
        const norm constants = dtype == STOKE_DTYPE_U8 ? (norm){ 0 } : norm_of_channel(w, (int)c);
        const float *in = row + c * pitch;
        for (size_t i = 0; i + 8 <= n; i += 8)
            put8(dst, c * plane + i, _mm256_loadu_ps(in + i), constants, dtype);
        if (n % 8) put8(dst, c * plane + n - 8, _mm256_loadu_ps(in + n - 8), constants, dtype);
    }
}

/* Eight pixels of three planes to 24 samples in order. Every plane is permuted once so that its samples stand
 * where they stand in one of the three registers; two blends pick the three. */
INLINE void interleave(const float *row, size_t pitch, __m256 mix[3])
{
    const __m256 r =
        _mm256_permutevar8x32_ps(_mm256_loadu_ps(row), _mm256_setr_epi32(0, 3, 6, 1, 4, 7, 2, 5));
    const __m256 g =
        _mm256_permutevar8x32_ps(_mm256_loadu_ps(row + pitch), _mm256_setr_epi32(5, 0, 3, 6, 1, 4, 7, 2));
    const __m256 b =
        _mm256_permutevar8x32_ps(_mm256_loadu_ps(row + 2 * pitch), _mm256_setr_epi32(2, 5, 0, 3, 6, 1, 4, 7));
    mix[0] = _mm256_blend_ps(_mm256_blend_ps(r, g, 0x92), b, 0x24); /* r0 g0 b0 r1 g1 b1 r2 g2 */
    mix[1] = _mm256_blend_ps(_mm256_blend_ps(r, g, 0x24), b, 0x49); /* b2 r3 g3 b3 r4 g4 b4 r5 */
    mix[2] = _mm256_blend_ps(_mm256_blend_ps(r, g, 0x49), b, 0x92); /* g5 b5 r6 g6 b6 r7 g7 b7 */
}

INLINE void planes_hwc_8(const norm n[3], void *dst, size_t pixel, const float *row, size_t pitch,
                         stoke_dtype dtype)
{
    __m256 mix[3];
    interleave(row + pixel, pitch, mix);
    for (size_t g = 0; g < 3; g++) put8(dst, pixel * 3 + g * 8, mix[g], n[g], dtype);
}

INLINE void planes_hwc(const stk_pix_writer *w, void *dst, const float *row, size_t pitch, size_t n,
                       stoke_dtype dtype)
{
    if (n < 8) {
        stk_pix_c.write_planes[dtype][STOKE_LAYOUT_HWC](w, dst, 0, row, pitch, n);
        return;
    }
    norm constants[3] = { 0 };
    for (int g = 0; g < 3 && dtype != STOKE_DTYPE_U8; g++) constants[g] = norm_of_mix(w, g * 8);
    for (size_t i = 0; i + 8 <= n; i += 8) planes_hwc_8(constants, dst, i, row, pitch, dtype);
    if (n % 8) planes_hwc_8(constants, dst, n - 8, row, pitch, dtype); /* once more over the overlap */
}

/* The low eight bytes of `bytes` as elements i .. i + 7 of dst. */
INLINE void put8_bytes(void *dst, size_t i, __m128i bytes, norm n, stoke_dtype dtype)
{
    put8(dst, i, _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes)), n, dtype);
}

/* ---- interleaved to planes ---- */

INLINE void chw_32(const norm n[3], void *dst, size_t plane, size_t i, const uint8_t *src, stoke_dtype dtype)
{
    __m256i bytes[3];
    planes_32(src + i * 3, bytes);
    for (size_t c = 0; c < 3; c++) {
        const size_t at = c * plane + i;
        if (dtype == STOKE_DTYPE_U8) {
            _mm256_storeu_si256((__m256i *)((uint8_t *)dst + at), bytes[c]);
            continue;
        }
        const __m128i low = _mm256_castsi256_si128(bytes[c]), high = _mm256_extracti128_si256(bytes[c], 1);
        put8_bytes(dst, at, low, n[c], dtype);
        put8_bytes(dst, at + 8, _mm_srli_si128(low, 8), n[c], dtype);
        put8_bytes(dst, at + 16, high, n[c], dtype);
        put8_bytes(dst, at + 24, _mm_srli_si128(high, 8), n[c], dtype);
    }
}

INLINE void write_chw(const stk_pix_writer *w, void *dst, size_t plane, const uint8_t *src, size_t n,
                      stoke_dtype dtype)
{
    if (n < 32) {
        stk_pix_c.write_u8[dtype][STOKE_LAYOUT_CHW](w, dst, plane, src, n);
        return;
    }
    const norm norms[3] = { norm_of_channel(w, 0), norm_of_channel(w, 1), norm_of_channel(w, 2) };
    for (size_t i = 0; i + 32 <= n; i += 32) chw_32(norms, dst, plane, i, src, dtype);
    if (n % 32) chw_32(norms, dst, plane, n - 32, src, dtype); /* once more over the overlap */
}

/* ---- interleaved to interleaved ---- */

INLINE void hwc_8(const norm n[3], void *dst, size_t pixel, const uint8_t *src, stoke_dtype dtype)
{
    for (size_t g = 0; g < 3; g++) {
        const size_t at = pixel * 3 + g * 8;
        put8_bytes(dst, at, _mm_loadl_epi64((const __m128i *)(src + at)), n[g], dtype);
    }
}

INLINE void write_hwc(const stk_pix_writer *w, void *dst, const uint8_t *src, size_t n, stoke_dtype dtype)
{
    if (n < 8) {
        stk_pix_c.write_u8[dtype][STOKE_LAYOUT_HWC](w, dst, 0, src, n);
        return;
    }
    const norm norms[3] = { norm_of_mix(w, 0), norm_of_mix(w, 8), norm_of_mix(w, 16) };
    for (size_t i = 0; i + 8 <= n; i += 8) hwc_8(norms, dst, i, src, dtype);
    if (n % 8) hwc_8(norms, dst, n - 8, src, dtype); /* once more over the overlap */
}

/* ---- mirror ---- */

AVX2 static void reverse_1(void *dst, const void *src, size_t n)
{
    const __m256i order =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0));
    const uint8_t *in = src;
    uint8_t *out = dst;
    size_t i = 0;
    for (; i + 32 <= n; i += 32) {
        const __m256i v = _mm256_shuffle_epi8(_mm256_loadu_si256((const __m256i *)(in + n - 32 - i)), order);
        _mm256_storeu_si256((__m256i *)(out + i), _mm256_permute2x128_si256(v, v, 1));
    }
    stk_pix_c.reverse_1(out + i, in, n - i);
}

/* Five pixels are 15 bytes: the load takes one byte more at the front, the store writes one more at the end,
 * which the next pixel overwrites. Both exist as long as a sixth pixel is left. */
AVX2 static void reverse_3(void *dst, const void *src, size_t n)
{
    const __m128i order = _mm_setr_epi8(13, 14, 15, 10, 11, 12, 7, 8, 9, 4, 5, 6, 1, 2, 3, 0);
    const uint8_t *in = src;
    uint8_t *out = dst;
    size_t i = 0;
    for (; i + 6 <= n; i += 5) {
        const __m128i v = _mm_loadu_si128((const __m128i *)(in + (n - 5 - i) * 3 - 1));
        _mm_storeu_si128((__m128i *)(out + i * 3), _mm_shuffle_epi8(v, order));
    }
    stk_pix_c.reverse_3(out + i * 3, in, n - i);
}

/* ---- one function for every type ---- */

#define DEFINE(name, dtype)                                                                                  \
    AVX2 static void write_##name##_chw(const stk_pix_writer *w, void *dst, size_t plane, const void *src,   \
                                        size_t n)                                                            \
    {                                                                                                        \
        write_chw(w, dst, plane, src, n, dtype);                                                             \
    }                                                                                                        \
    AVX2 static void planes_##name##_chw(const stk_pix_writer *w, void *dst, size_t plane, const float *row, \
                                         size_t pitch, size_t n)                                             \
    {                                                                                                        \
        planes_chw(w, dst, plane, row, pitch, n, dtype);                                                     \
    }                                                                                                        \
    AVX2 static void write_##name##_hwc(const stk_pix_writer *w, void *dst, size_t plane, const void *src,   \
                                        size_t n)                                                            \
    {                                                                                                        \
        write_hwc(w, dst, src, n, dtype);                                                                    \
    }                                                                                                        \
    AVX2 static void planes_##name##_hwc(const stk_pix_writer *w, void *dst, size_t plane, const float *row, \
                                         size_t pitch, size_t n)                                             \
    {                                                                                                        \
        planes_hwc(w, dst, row, pitch, n, dtype);                                                            \
    }                                                                                                        \
    static void set_##name(stk_pix_table *table)                                                             \
    {                                                                                                        \
        table->write_u8[dtype][STOKE_LAYOUT_CHW] = write_##name##_chw;                                       \
        if (dtype != STOKE_DTYPE_U8) table->write_u8[dtype][STOKE_LAYOUT_HWC] = write_##name##_hwc;          \
        table->write_planes[dtype][STOKE_LAYOUT_CHW] = planes_##name##_chw;                                  \
        table->write_planes[dtype][STOKE_LAYOUT_HWC] = planes_##name##_hwc;                                  \
    }
DEFINE(u8, STOKE_DTYPE_U8)
DEFINE(f32, STOKE_DTYPE_F32)
DEFINE(f16, STOKE_DTYPE_F16)
DEFINE(bf16, STOKE_DTYPE_BF16)
#undef DEFINE

void stk_pix_fill_write_avx2(stk_pix_table *table)
{
    set_u8(table); /* HWC bytes to HWC bytes are copied by the C reference */
    set_f32(table);
    set_f16(table);
    set_bf16(table);
    table->unpack_u8 = unpack_u8;
    table->reverse_1 = reverse_1;
    table->reverse_3 = reverse_3;
}
