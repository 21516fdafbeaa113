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

#include <string.h>

#include "src/pix/x86/elements_avx2.h"

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

AVX2 static void write_u8_chw(const stk_pix_writer *w, void *dst, size_t plane, const void *src, size_t n)
{
    write_chw(w, dst, plane, src, n, STOKE_DTYPE_U8);
}

AVX2 static void write_f32_chw(const stk_pix_writer *w, void *dst, size_t plane, const void *src, size_t n)
{
    write_chw(w, dst, plane, src, n, STOKE_DTYPE_F32);
}

AVX2 static void write_f16_chw(const stk_pix_writer *w, void *dst, size_t plane, const void *src, size_t n)
{
    write_chw(w, dst, plane, src, n, STOKE_DTYPE_F16);
}

AVX2 static void write_bf16_chw(const stk_pix_writer *w, void *dst, size_t plane, const void *src, size_t n)
{
    write_chw(w, dst, plane, src, n, STOKE_DTYPE_BF16);
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

AVX2 static void write_f32_hwc(const stk_pix_writer *w, void *dst, size_t plane, const void *src, size_t n)
{
    write_hwc(w, dst, src, n, STOKE_DTYPE_F32);
}

AVX2 static void write_f16_hwc(const stk_pix_writer *w, void *dst, size_t plane, const void *src, size_t n)
{
    write_hwc(w, dst, src, n, STOKE_DTYPE_F16);
}

AVX2 static void write_bf16_hwc(const stk_pix_writer *w, void *dst, size_t plane, const void *src, size_t n)
{
    write_hwc(w, dst, src, n, STOKE_DTYPE_BF16);
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

void stk_pix_fill_write_avx2(stk_pix_table *table)
{
    table->write_u8[STOKE_DTYPE_U8][STOKE_LAYOUT_CHW] = write_u8_chw;
    table->write_u8[STOKE_DTYPE_F32][STOKE_LAYOUT_CHW] = write_f32_chw;
    table->write_u8[STOKE_DTYPE_F32][STOKE_LAYOUT_HWC] = write_f32_hwc;
    table->write_u8[STOKE_DTYPE_F16][STOKE_LAYOUT_CHW] = write_f16_chw;
    table->write_u8[STOKE_DTYPE_F16][STOKE_LAYOUT_HWC] = write_f16_hwc;
    table->write_u8[STOKE_DTYPE_BF16][STOKE_LAYOUT_CHW] = write_bf16_chw;
    table->write_u8[STOKE_DTYPE_BF16][STOKE_LAYOUT_HWC] = write_bf16_hwc;
    table->reverse_1 = reverse_1;
    table->reverse_3 = reverse_3;
}
