/* SPDX-License-Identifier: Apache-2.0
 *
 * Pixels to planes of floats and planes to the batch, with AVX2 and F16C. (u16 pixels are unpacked by what
 * the compiler makes of the C reference.)
 */
#include "src/pix/x86/elements_avx2.h"

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

INLINE void write_chw(const stk_pix_writer *w, void *dst, size_t plane, const float *row, size_t pitch,
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

INLINE void hwc_8(const norm n[3], void *dst, size_t pixel, const float *row, size_t pitch, stoke_dtype dtype)
{
    __m256 mix[3];
    interleave(row + pixel, pitch, mix);
    for (size_t g = 0; g < 3; g++) put8(dst, pixel * 3 + g * 8, mix[g], n[g], dtype);
}

INLINE void write_hwc(const stk_pix_writer *w, void *dst, const float *row, size_t pitch, size_t n,
                      stoke_dtype dtype)
{
    if (n < 8) {
        stk_pix_c.write_planes[dtype][STOKE_LAYOUT_HWC](w, dst, 0, row, pitch, n);
        return;
    }
    norm constants[3] = { 0 };
    for (int g = 0; g < 3 && dtype != STOKE_DTYPE_U8; g++) constants[g] = norm_of_mix(w, g * 8);
    for (size_t i = 0; i + 8 <= n; i += 8) hwc_8(constants, dst, i, row, pitch, dtype);
    if (n % 8) hwc_8(constants, dst, n - 8, row, pitch, dtype); /* once more over the overlap */
}

#define DEFINE_PLANES(name, dtype)                                                                           \
    AVX2 static void write_##name##_chw(const stk_pix_writer *w, void *dst, size_t plane, const float *row,  \
                                        size_t pitch, size_t n)                                              \
    {                                                                                                        \
        write_chw(w, dst, plane, row, pitch, n, dtype);                                                      \
    }                                                                                                        \
    AVX2 static void write_##name##_hwc(const stk_pix_writer *w, void *dst, size_t plane, const float *row,  \
                                        size_t pitch, size_t n)                                              \
    {                                                                                                        \
        write_hwc(w, dst, row, pitch, n, dtype);                                                             \
    }
DEFINE_PLANES(u8, STOKE_DTYPE_U8)
DEFINE_PLANES(f32, STOKE_DTYPE_F32)
DEFINE_PLANES(f16, STOKE_DTYPE_F16)
DEFINE_PLANES(bf16, STOKE_DTYPE_BF16)
#undef DEFINE_PLANES

void stk_pix_fill_planes_avx2(stk_pix_table *table)
{
    table->unpack_u8 = unpack_u8;
    table->write_planes[STOKE_DTYPE_U8][STOKE_LAYOUT_CHW] = write_u8_chw;
    table->write_planes[STOKE_DTYPE_U8][STOKE_LAYOUT_HWC] = write_u8_hwc;
    table->write_planes[STOKE_DTYPE_F32][STOKE_LAYOUT_CHW] = write_f32_chw;
    table->write_planes[STOKE_DTYPE_F32][STOKE_LAYOUT_HWC] = write_f32_hwc;
    table->write_planes[STOKE_DTYPE_F16][STOKE_LAYOUT_CHW] = write_f16_chw;
    table->write_planes[STOKE_DTYPE_F16][STOKE_LAYOUT_HWC] = write_f16_hwc;
    table->write_planes[STOKE_DTYPE_BF16][STOKE_LAYOUT_CHW] = write_bf16_chw;
    table->write_planes[STOKE_DTYPE_BF16][STOKE_LAYOUT_HWC] = write_bf16_hwc;
}
