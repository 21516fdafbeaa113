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
INLINE pair radius_of(const __m256i word[2], pair a)
{
    pair u, e, radius;
    for (int i = 0; i < 2; i++) {
        const __m256i odd = _mm256_or_si256(_mm256_srli_epi32(word[i], 15), _mm256_set1_epi32(1));
        u.v[i] = _mm256_cvtepi32_ps(odd);
    }
    const pair f = pair_split(pair_mul(u, pair_of(1.0f / 131072.0f)), &e), f2 = pair_mul(f, f);
    const pair p01 = pair_line(STK_RADIUS_1, f, STK_RADIUS_0), p23 = pair_line(STK_RADIUS_3, f, STK_RADIUS_2);
    const pair p = pair_mul_add(pair_mul_add(pair_of(STK_RADIUS_4), f2, p23), f2, p01);
    const pair square = pair_mul_add(p, f, pair_mul(e, pair_of(STK_RADIUS_E)));
    for (int i = 0; i < 2; i++) {
        const __m256i half = _mm256_and_si256(_mm256_slli_epi32(word[i], 16), _mm256_set1_epi32(INT32_MIN));
        radius.v[i] =
            _mm256_xor_ps(_mm256_mul_ps(a.v[i], _mm256_sqrt_ps(square.v[i])), _mm256_castsi256_ps(half));
    }
    return radius;
}

/* The first normals of both words' lanes and the second ones. */
INLINE void two_normals(const __m256i word[2], pair a, pair *first, pair *second)
{
    const pair radius = radius_of(word, a);
    pair t;
    for (int i = 0; i < 2; i++) {
        const __m256i place = _mm256_or_si256(_mm256_slli_epi32(word[i], 17), _mm256_set1_epi32(0x10000));
        t.v[i] = _mm256_cvtepi32_ps(place);
    }
    t = pair_mul(t, pair_of(1.0f / 2147483648.0f));
    const pair t2 = pair_mul(t, t);
    pair sine = pair_line(STK_SIN_3, t2, STK_SIN_2), cosine = pair_line(STK_COS_3, t2, STK_COS_2);
    sine = pair_mul_add(sine, t2, pair_of(STK_SIN_1));
    cosine = pair_mul_add(cosine, t2, pair_of(STK_COS_1));
    sine = pair_mul_add(sine, t2, pair_of(STK_SIN_0));
    cosine = pair_mul_add(cosine, t2, pair_of(STK_COS_0));
    *first = pair_mul(radius, cosine);
    *second = pair_mul(pair_mul(radius, t), sine);
}

/* ---- rows ---- */

INLINE void add_8(float *p, size_t left, __m256 normal, __m256 b)
{
    set8(p, left, clamp8(_mm256_add_ps(get8(p, left), _mm256_add_ps(normal, b))));
}

/* The normals of two words to 32 columns, or the `left` there are. */
INLINE void add_32(float *p, size_t left, const __m256i word[2], pair a, __m256 b)
{
    pair first, second;
    two_normals(word, a, &first, &second);
    add_8(p, left, first.v[0], b);
    if (left > 8) add_8(p + 8, left - 8, second.v[0], b);
    if (left > 16) add_8(p + 16, left - 16, first.v[1], b);
    if (left > 24) add_8(p + 24, left - 24, second.v[1], b);
}

/* Words first, normals afterwards, eight groups at a time: the processor sees more of each loop at once than
 * of both in one, which took 5 % longer. A row of 512: 1053 ticks of the time stamp counter, of the C
 * reference 8250. */
AVX2 static void noise_row(float *plane, size_t n, const stk_noise *noise)
{
    enum { GROUPS = 8, WORDS = GROUPS * 4 };
    const pair a = pair_of(noise->a);
    const __m256 b = _mm256_set1_ps(noise->b);
    round_keys keys;
    make_keys(&keys, noise->key);
    for (size_t x = 0; x < n; x += GROUPS * STK_NOISE_GROUP) {
        __m256i word[WORDS];
        const size_t left = n - x < GROUPS * STK_NOISE_GROUP ? n - x : GROUPS * STK_NOISE_GROUP;
        for (size_t g = 0; g * STK_NOISE_GROUP < left; g++)
            philox_8((uint32_t)((x / STK_NOISE_GROUP + g) * STK_NOISE_LANES), noise, &keys, word + g * 4);
        size_t i = 0;
        for (; i + 32 <= left; i += 32) add_32(plane + x + i, 32, word + i / 16, a, b);
        if (i < left) add_32(plane + x + i, left - i, word + i / 16, a, b);
    }
}

void stk_pix_fill_noise_avx2(stk_pix_table *table)
{
    table->noise = noise_row;
}
