/* SPDX-License-Identifier: Apache-2.0
 *
 * Gaussian noise with AVX2: sixteen words at a time make the normals of 32 columns.
 */
#include "kernels/color_math.h"
#include "src/pix/pix_table.h"
#include "src/pix/x86/floats_avx2.h"

/* ---- words ---- */

/* The words of eight lanes, before they are stirred, to words of the row: k_noise_word. */
INLINE __m256i stir(__m256i x, __m256i key)
{
    x = _mm256_xor_si256(x, _mm256_srli_epi32(x, 16));
    x = _mm256_mullo_epi32(x, _mm256_set1_epi32((int)K_NOISE_STIR0));
    x = _mm256_xor_si256(x, key);
    x = _mm256_xor_si256(x, _mm256_srli_epi32(x, 15));
    x = _mm256_mullo_epi32(x, _mm256_set1_epi32((int)K_NOISE_STIR1));
    return _mm256_xor_si256(x, _mm256_srli_epi32(x, 16));
}

/* ---- Box and Muller ---- */

/* a times the radius, negative in the second half of the circle. */
INLINE pair radius_of(const __m256i word[2], __m256 a)
{
    const __m256 minus_a = _mm256_xor_ps(a, _mm256_set1_ps(-0.0f));
    pair m, e, radius;
    for (int i = 0; i < 2; i++) {
        const __m256i upper = _mm256_or_si256(_mm256_and_si256(word[i], _mm256_set1_epi32((int)0xffff0000)),
                                              _mm256_set1_epi32(0x8000));
        const __m256i u = _mm256_castps_si256(_mm256_cvtepi32_ps(_mm256_abs_epi32(upper)));
        const __m256i over = _mm256_sub_epi32(u, _mm256_set1_epi32(K_HALF_ROOT_BITS + (31 << 23)));
        const __m256i rest = _mm256_and_si256(over, _mm256_set1_epi32(0x7fffff));
        e.v[i] = _mm256_cvtepi32_ps(_mm256_srai_epi32(over, 23));
        m.v[i] = _mm256_castsi256_ps(_mm256_add_epi32(rest, _mm256_set1_epi32(K_HALF_ROOT_BITS)));
    }
    const pair f = pair_sub(m, pair_of(1.0f)), f2 = pair_mul(f, f);
    const pair p01 = pair_line(K_RADIUS_1, f, K_RADIUS_0), p23 = pair_line(K_RADIUS_3, f, K_RADIUS_2);
    const pair p = pair_mul_add(pair_mul_add(pair_of(K_RADIUS_4), f2, p23), f2, p01);
    const pair square = pair_mul_add(p, f, pair_mul(e, pair_of(K_RADIUS_E)));
    for (int i = 0; i < 2; i++) {
        const __m256 factor = _mm256_blendv_ps(a, minus_a, _mm256_castsi256_ps(word[i])); /* by its sign */
        radius.v[i] = _mm256_mul_ps(_mm256_sqrt_ps(square.v[i]), factor);
    }
    return radius;
}

/* The first normals of both words' lanes and the second ones. */
INLINE void two_normals(const __m256i word[2], __m256 a, pair *first, pair *second)
{
    const pair radius = radius_of(word, a);
    pair t;
    for (int i = 0; i < 2; i++) {
        const __m256i odd = _mm256_or_si256(word[i], _mm256_set1_epi32(1));
        t.v[i] =
            _mm256_cvtepi32_ps(_mm256_madd_epi16(odd, _mm256_set1_epi32(1))); /* the lower half, signed */
    }
    const pair t2 = pair_mul(t, t);
    pair sine = pair_line(K_SIN_3, t2, K_SIN_2), cosine = pair_line(K_COS_3, t2, K_COS_2);
    sine = pair_mul_add(sine, t2, pair_of(K_SIN_1));
    cosine = pair_mul_add(cosine, t2, pair_of(K_COS_1));
    sine = pair_mul_add(sine, t2, pair_of(K_SIN_0));
    cosine = pair_mul_add(cosine, t2, pair_of(K_COS_0));
    *first = pair_mul(radius, cosine);
    *second = pair_mul(pair_mul(radius, t), sine);
}

/* ---- rows ---- */

INLINE void add_8(float *p, size_t left, __m256 normal, __m256 b)
{
    set8(p, left, clamp8(_mm256_add_ps(get8(p, left), _mm256_add_ps(normal, b))));
}

/* What a row has in all lanes. */
typedef struct row_noise {
    __m256i key;
    __m256 a, b;
} row_noise;

/* The normals of sixteen words to 32 columns, or the `left` there are. */
INLINE void add_32(float *p, size_t left, __m256i x, const row_noise *row)
{
    const __m256i next = _mm256_add_epi32(x, _mm256_set1_epi32((int)(K_NOISE_LANES * K_NOISE_STEP)));
    const __m256i word[2] = { stir(x, row->key), stir(next, row->key) };
    pair first, second;
    two_normals(word, row->a, &first, &second);
    add_8(p, left, first.v[0], row->b);
    if (left > 8) add_8(p + 8, left - 8, second.v[0], row->b);
    if (left > 16) add_8(p + 16, left - 16, first.v[1], row->b);
    if (left > 24) add_8(p + 24, left - 24, second.v[1], row->b);
}

AVX2 static void noise_row(float *plane, size_t n, const stk_pix_noise *noise)
{
    const row_noise row = { _mm256_set1_epi32((int)noise->key[1]), _mm256_set1_ps(noise->a),
                            _mm256_set1_ps(noise->b) };
    const __m256i lanes =
        _mm256_mullo_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32((int)K_NOISE_STEP));
    __m256i x = _mm256_add_epi32(lanes, _mm256_set1_epi32((int)noise->key[0]));
    size_t i = 0;
    for (; i + 32 <= n; i += 32) {
        add_32(plane + i, 32, x, &row);
        x = _mm256_add_epi32(x, _mm256_set1_epi32((int)(2 * K_NOISE_LANES * K_NOISE_STEP)));
    }
    if (i < n) add_32(plane + i, n - i, x, &row);
}

void stk_pix_fill_noise_avx2(stk_pix_table *table)
{
    table->noise = noise_row;
}
