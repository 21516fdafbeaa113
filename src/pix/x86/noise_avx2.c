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

/* The keys of the ten rounds, in every lane: the same for a whole row. */
typedef struct round_keys {
    __m256i key[10][2];
} round_keys;

INLINE void make_keys(round_keys *keys, uint64_t key)
{
    uint32_t key0 = (uint32_t)key, key1 = (uint32_t)(key >> 32);
    for (int i = 0; i < 10; i++, key0 += 0x9e3779b9, key1 += 0xbb67ae85) {
        keys->key[i][0] = _mm256_set1_epi32((int)key0);
        keys->key[i][1] = _mm256_set1_epi32((int)key1);
    }
}

INLINE four_blocks philox_round(four_blocks b, const __m256i key[2])
{
    const __m256i a = _mm256_mul_epu32(b.word[0], _mm256_set1_epi64x(0xd2511f53));
    const __m256i c = _mm256_mul_epu32(b.word[2], _mm256_set1_epi64x(0xcd9e8d57));
    four_blocks next;
    next.word[0] = _mm256_xor_si256(_mm256_srli_epi64(c, 32), _mm256_xor_si256(b.word[1], key[0]));
    next.word[1] = c;
    next.word[2] = _mm256_xor_si256(_mm256_srli_epi64(a, 32), _mm256_xor_si256(b.word[3], key[1]));
    next.word[3] = a;
    return next;
}

/* Words of the blocks `first` .. `first` + 7, block j in lane j. */
INLINE void philox_8(uint32_t first, const stk_noise *noise, const round_keys *keys, __m256i word[4])
{
    const __m256i start = _mm256_set1_epi64x((int64_t)(uint64_t)first);
    four_blocks even, odd;
    even.word[0] = _mm256_add_epi32(start, _mm256_setr_epi64x(0, 2, 4, 6));
    odd.word[0] = _mm256_add_epi32(start, _mm256_setr_epi64x(1, 3, 5, 7));
    even.word[1] = odd.word[1] = _mm256_set1_epi32((int)noise->row);
    even.word[2] = odd.word[2] = _mm256_set1_epi32((int)noise->channel);
    even.word[3] = odd.word[3] = _mm256_setzero_si256();
#pragma GCC unroll 10
    for (int i = 0; i < 10; i++) {
        even = philox_round(even, keys->key[i]);
        odd = philox_round(odd, keys->key[i]);
    }
    for (int i = 0; i < 4; i++)
        word[i] = _mm256_blend_epi32(even.word[i], _mm256_slli_epi64(odd.word[i], 32), 0xaa);
}

/* ---- Box and Muller ---- */

/* a times the radius, negative in the second half of the circle. */
INLINE __m256 radius_8(__m256i word, __m256 a)
{
    const __m256i odd = _mm256_or_si256(_mm256_srli_epi32(word, 15), _mm256_set1_epi32(1));
    const __m256 u = _mm256_mul_ps(_mm256_cvtepi32_ps(odd), _mm256_set1_ps(1.0f / 131072.0f));
    const __m256i bits = _mm256_castps_si256(u);
    const __m256i e = _mm256_srai_epi32(_mm256_sub_epi32(bits, _mm256_set1_epi32(STK_HALF_ROOT_BITS)), 23);
    const __m256 f = _mm256_sub_ps(_mm256_castsi256_ps(_mm256_sub_epi32(bits, _mm256_slli_epi32(e, 23))),
                                   _mm256_set1_ps(1.0f));
    const __m256 f2 = _mm256_mul_ps(f, f);
    const __m256 p01 = line(STK_RADIUS_1, f, STK_RADIUS_0), p23 = line(STK_RADIUS_3, f, STK_RADIUS_2);
    const __m256 p = mul_add(mul_add(_mm256_set1_ps(STK_RADIUS_4), f2, p23), f2, p01);
    const __m256 whole = _mm256_mul_ps(_mm256_cvtepi32_ps(e), _mm256_set1_ps(STK_RADIUS_E));
    const __m256 radius = _mm256_mul_ps(a, _mm256_sqrt_ps(mul_add(p, f, whole)));
    const __m256i half = _mm256_and_si256(_mm256_slli_epi32(word, 16), _mm256_set1_epi32(INT32_MIN));
    return _mm256_xor_ps(radius, _mm256_castsi256_ps(half));
}

INLINE void two_normals(__m256i word, __m256 a, __m256 normal[2])
{
    const __m256 radius = radius_8(word, a);
    const __m256i place = _mm256_or_si256(_mm256_slli_epi32(word, 17), _mm256_set1_epi32(0x10000));
    const __m256 t = _mm256_mul_ps(_mm256_cvtepi32_ps(place), _mm256_set1_ps(1.0f / 2147483648.0f));
    const __m256 t2 = _mm256_mul_ps(t, t);
    __m256 sine = line(STK_SIN_3, t2, STK_SIN_2), cosine = line(STK_COS_3, t2, STK_COS_2);
    sine = mul_add(sine, t2, _mm256_set1_ps(STK_SIN_1));
    cosine = mul_add(cosine, t2, _mm256_set1_ps(STK_COS_1));
    sine = mul_add(sine, t2, _mm256_set1_ps(STK_SIN_0));
    cosine = mul_add(cosine, t2, _mm256_set1_ps(STK_COS_0));
    normal[0] = _mm256_mul_ps(radius, cosine);
    normal[1] = _mm256_mul_ps(_mm256_mul_ps(radius, t), sine);
}

/* ---- rows ---- */

INLINE void add_8(float *p, size_t left, __m256 normal, __m256 b)
{
    set8(p, left, clamp8(_mm256_add_ps(get8(p, left), _mm256_add_ps(normal, b))));
}

/* The columns left of a group that is not whole. */
AVX2 static void add_some(float *p, size_t left, const __m256 *normal, __m256 b)
{
    for (size_t i = 0; i < left; i += 8) add_8(p + i, left - i, normal[i / 8], b);
}

AVX2 static void noise_row(float *plane, size_t n, const stk_noise *noise)
{
    const __m256 a = _mm256_set1_ps(noise->a), b = _mm256_set1_ps(noise->b);
    round_keys keys;
    make_keys(&keys, noise->key);
    for (size_t x = 0; x < n; x += STK_NOISE_GROUP) {
        __m256i word[4];
        __m256 normal[STK_NOISE_PER_BLOCK];
        philox_8((uint32_t)(x / STK_NOISE_GROUP * STK_NOISE_LANES), noise, &keys, word);
        const int whole = n - x >= STK_NOISE_GROUP;
        for (size_t w = 0; w < 4; w++) {
            two_normals(word[w], a, normal + 2 * w);
            for (size_t i = 2 * w; i < 2 * w + 2 && whole; i++) add_8(plane + x + i * 8, 8, normal[i], b);
        }
        if (!whole) add_some(plane + x, n - x, normal, b);
    }
}

void stk_pix_fill_noise_avx2(stk_pix_table *table)
{
    table->noise = noise_row;
}
