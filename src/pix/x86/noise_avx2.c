/* SPDX-License-Identifier: Apache-2.0
 *
 * Gaussian noise with AVX2: eight blocks of Philox at a time make the 64 normals of 64 columns.
 */
#include "src/pix/pix_table.h"
#include "src/pix/touch_math.h"
#include "src/pix/x86/floats_avx2.h"

/* ---- Philox4x32-10 ---- */

/* Four blocks: the words of block j in the low halves of the 64-bit lanes j, which is where the multiplier
 * looks and puts its products. The upper halves are rubbish. */
typedef struct four_blocks {
    __m256i word[4];
} four_blocks;

INLINE four_blocks philox_round(four_blocks b, uint32_t key0, uint32_t key1)
{
    const __m256i a = _mm256_mul_epu32(b.word[0], _mm256_set1_epi64x(0xd2511f53));
    const __m256i c = _mm256_mul_epu32(b.word[2], _mm256_set1_epi64x(0xcd9e8d57));
    four_blocks next;
    next.word[0] =
        _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(c, 32), b.word[1]), _mm256_set1_epi32((int)key0));
    next.word[1] = c;
    next.word[2] =
        _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(a, 32), b.word[3]), _mm256_set1_epi32((int)key1));
    next.word[3] = a;
    return next;
}

/* Words of the blocks `first` .. `first` + 7, block j in lane j. */
INLINE void philox_8(uint32_t first, const stk_noise *noise, __m256i word[4])
{
    const __m256i start = _mm256_set1_epi64x((int64_t)(uint64_t)first);
    four_blocks even, odd;
    even.word[0] = _mm256_add_epi32(start, _mm256_setr_epi64x(0, 2, 4, 6));
    odd.word[0] = _mm256_add_epi32(start, _mm256_setr_epi64x(1, 3, 5, 7));
    even.word[1] = odd.word[1] = _mm256_set1_epi32((int)noise->row);
    even.word[2] = odd.word[2] = _mm256_set1_epi32((int)noise->channel);
    even.word[3] = odd.word[3] = _mm256_setzero_si256();
    uint32_t key0 = (uint32_t)noise->key, key1 = (uint32_t)(noise->key >> 32);
    for (int i = 0; i < 10; i++, key0 += 0x9e3779b9, key1 += 0xbb67ae85) {
        even = philox_round(even, key0, key1);
        odd = philox_round(odd, key0, key1);
    }
    for (int i = 0; i < 4; i++)
        word[i] = _mm256_blend_epi32(even.word[i], _mm256_slli_epi64(odd.word[i], 32), 0xaa);
}

/* ---- Box and Muller ---- */

INLINE __m256 radius_8(__m256i word)
{
    const __m256 u = mul_add(_mm256_cvtepi32_ps(_mm256_srli_epi32(word, 16)), _mm256_set1_ps(1.0f / 65536.0f),
                             _mm256_set1_ps(0.5f / 65536.0f));
    const __m256i bits = _mm256_castps_si256(u);
    const __m256i e = _mm256_srai_epi32(_mm256_sub_epi32(bits, _mm256_set1_epi32(STK_HALF_ROOT_BITS)), 23);
    const __m256 f = _mm256_sub_ps(_mm256_castsi256_ps(_mm256_sub_epi32(bits, _mm256_slli_epi32(e, 23))),
                                   _mm256_set1_ps(1.0f));
    __m256 p = _mm256_set1_ps(STK_RADIUS_5);
    p = mul_add(p, f, _mm256_set1_ps(STK_RADIUS_4));
    p = mul_add(p, f, _mm256_set1_ps(STK_RADIUS_3));
    p = mul_add(p, f, _mm256_set1_ps(STK_RADIUS_2));
    p = mul_add(p, f, _mm256_set1_ps(STK_RADIUS_1));
    p = mul_add(p, f, _mm256_set1_ps(STK_RADIUS_0));
    const __m256 whole = _mm256_mul_ps(_mm256_cvtepi32_ps(e), _mm256_set1_ps(STK_RADIUS_E));
    return _mm256_sqrt_ps(mul_add(p, f, whole));
}

/* Bit 31 of every lane, the rest cleared. */
INLINE __m256 sign_of(__m256i bits)
{
    return _mm256_and_ps(_mm256_castsi256_ps(bits), _mm256_set1_ps(-0.0f));
}

INLINE void two_normals(__m256i word, __m256 normal[2])
{
    const __m256 radius = radius_8(word);
    const __m256i rest = _mm256_srai_epi32(_mm256_slli_epi32(word, 18), 18);
    const __m256 t =
        mul_add(_mm256_cvtepi32_ps(rest), _mm256_set1_ps(1.0f / 16384.0f), _mm256_set1_ps(0.5f / 16384.0f));
    const __m256 t2 = _mm256_mul_ps(t, t);
    __m256 sine = mul_add(_mm256_set1_ps(STK_SIN_2), t2, _mm256_set1_ps(STK_SIN_1));
    sine = mul_add(sine, t2, _mm256_set1_ps(STK_SIN_0));
    sine = _mm256_mul_ps(_mm256_mul_ps(sine, t), radius);
    __m256 cosine = mul_add(_mm256_set1_ps(STK_COS_2), t2, _mm256_set1_ps(STK_COS_1));
    cosine = _mm256_mul_ps(mul_add(cosine, t2, _mm256_set1_ps(STK_COS_0)), radius);
    /* Bit 14 swaps them, bit 15 turns the second around, and both together the first. */
    const __m256i bit14 = _mm256_slli_epi32(word, 17), bit15 = _mm256_slli_epi32(word, 16);
    const __m256 swap = _mm256_castsi256_ps(bit14);
    const __m256 first = _mm256_blendv_ps(cosine, sine, swap), second = _mm256_blendv_ps(sine, cosine, swap);
    normal[0] = _mm256_xor_ps(first, sign_of(_mm256_xor_si256(bit14, bit15)));
    normal[1] = _mm256_xor_ps(second, sign_of(bit15));
}

/* ---- rows ---- */

INLINE void add_8(float *p, size_t left, __m256 normal, __m256 a, __m256 b)
{
    set8(p, left, clamp8(_mm256_add_ps(get8(p, left), mul_add(a, normal, b))));
}

AVX2 static void noise_row(float *plane, size_t n, const stk_noise *noise)
{
    const __m256 a = _mm256_set1_ps(noise->a), b = _mm256_set1_ps(noise->b);
    for (size_t x = 0; x < n; x += STK_NOISE_GROUP) {
        __m256i word[4];
        philox_8((uint32_t)(x / STK_NOISE_GROUP * STK_NOISE_LANES), noise, word);
        for (size_t w = 0; w < 4; w++) {
            const size_t at = x + w * 2 * STK_NOISE_LANES;
            __m256 normal[2];
            if (at >= n) break;
            two_normals(word[w], normal);
            if (n - at >= 16) {
                add_8(plane + at, 8, normal[0], a, b);
                add_8(plane + at + 8, 8, normal[1], a, b);
            } else {
                add_8(plane + at, n - at, normal[0], a, b);
                if (n - at > 8) add_8(plane + at + 8, n - at - 8, normal[1], a, b);
            }
        }
    }
}

void stk_pix_fill_noise_avx2(stk_pix_table *table)
{
    table->noise = noise_row;
}
