/* SPDX-License-Identifier: Apache-2.0
 *
 * Colour steps, gamma, blur and CLAHE with AVX2: kernels/color_math.h eight samples at a time, operation by
 * operation.
 */
#include "kernels/color_math.h"
#include "src/pix/pix_table.h"
#include "src/pix/x86/floats_avx2.h"

/* ---- one sample ---- */

INLINE void linear_8(float *p, size_t left, __m256 a, __m256 c)
{
    set8(p, left, clamp8(mul_add(a, get8(p, left), c)));
}

AVX2 static void linear(float *plane, size_t n, float a, float c)
{
    const __m256 factor = _mm256_set1_ps(a), summand = _mm256_set1_ps(c);
    size_t i = 0;
    for (; i + 8 <= n; i += 8) linear_8(plane + i, 8, factor, summand);
    if (i < n) linear_8(plane + i, n - i, factor, summand);
}

INLINE pair log2_16(pair x)
{
    pair e;
    const pair f = pair_split(x, &e), f2 = pair_mul(f, f), f4 = pair_mul(f2, f2);
    const pair p01 = pair_line(K_LOG2_1, f, K_LOG2_0), p23 = pair_line(K_LOG2_3, f, K_LOG2_2);
    const pair p45 = pair_line(K_LOG2_5, f, K_LOG2_4), p67 = pair_line(K_LOG2_7, f, K_LOG2_6);
    const pair p03 = pair_mul_add(p23, f2, p01), p47 = pair_mul_add(p67, f2, p45);
    const pair p = pair_mul_add(pair_mul_add(pair_of(K_LOG2_8), f4, p47), f4, p03);
    return pair_mul_add(p, f, e);
}

INLINE pair exp2_16(pair y)
{
    const pair magic = pair_of(K_ROUND_MAGIC_SIGNED);
    y = pair_max(y, pair_of(-126.0f));
    const pair moved = pair_add(y, magic), f = pair_sub(y, pair_sub(moved, magic));
    const pair f2 = pair_mul(f, f), f4 = pair_mul(f2, f2);
    const pair p01 = pair_line(K_EXP2_1, f, K_EXP2_0), p23 = pair_line(K_EXP2_3, f, K_EXP2_2);
    const pair p46 = pair_mul_add(pair_of(K_EXP2_6), f2, pair_line(K_EXP2_5, f, K_EXP2_4));
    pair power;
    for (int i = 0; i < 2; i++)
        power.v[i] = _mm256_castsi256_ps(_mm256_add_epi32(
            _mm256_slli_epi32(_mm256_castps_si256(moved.v[i]), 23), _mm256_set1_epi32(0x3f800000)));
    return pair_mul(pair_mul_add(p46, f4, pair_mul_add(p23, f2, p01)), power);
}

INLINE void gamma_16(float *p, size_t left, pair a, pair gain)
{
    const pair v = get16(p, left);
    const pair x = pair_max(pair_mul(v, pair_of(1.0f / 255.0f)), pair_of(K_SMALLEST_NORMAL));
    pair result = clamp16(pair_mul(gain, exp2_16(pair_mul(a, log2_16(x)))));
    for (int i = 0; i < 2; i++)
        result.v[i] = _mm256_and_ps(result.v[i], _mm256_cmp_ps(v.v[i], _mm256_setzero_ps(), _CMP_GT_OQ));
    set16(p, left, result);
}

AVX2 static void gamma_row(float *plane, size_t n, float a, float gain)
{
    const pair exponent = pair_of(a), factor = pair_of(gain);
    size_t i = 0;
    for (; i + 16 <= n; i += 16) gamma_16(plane + i, 16, exponent, factor);
    if (i < n) gamma_16(plane + i, n - i, exponent, factor);
}

/* ---- one pixel ---- */

INLINE __m256 gray_8(__m256 r, __m256 g, __m256 b)
{
    const __m256 red_green = mul_add(_mm256_set1_ps(K_GRAY_R), r, _mm256_mul_ps(_mm256_set1_ps(K_GRAY_G), g));
    return _mm256_add_ps(red_green, _mm256_mul_ps(_mm256_set1_ps(K_GRAY_B), b));
}

INLINE void saturation_8(float *p, size_t pitch, size_t left, __m256 a, __m256 b)
{
    const __m256 v[3] = { get8(p, left), get8(p + pitch, left), get8(p + 2 * pitch, left) };
    const __m256 gray = _mm256_mul_ps(b, gray_8(v[0], v[1], v[2]));
    for (size_t c = 0; c < 3; c++) set8(p + c * pitch, left, clamp8(mul_add(a, v[c], gray)));
}

AVX2 static void saturation(float *row, size_t pitch, size_t n, float a, float b)
{
    const __m256 own = _mm256_set1_ps(a), rest = _mm256_set1_ps(b);
    size_t i = 0;
    for (; i + 8 <= n; i += 8) saturation_8(row + i, pitch, 8, own, rest);
    if (i < n) saturation_8(row + i, pitch, n - i, own, rest);
}

INLINE __m256 magnitude(__m256 v)
{
    return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), v);
}

INLINE __m256 hue_channel(__m256 base, __m256 reach, __m256 low, __m256 top)
{
    return _mm256_min_ps(_mm256_max_ps(_mm256_add_ps(base, reach), low), top);
}

INLINE void hue_8(float *p, size_t pitch, size_t left, const __m256 turn[3])
{
    const __m256 r = get8(p, left), g = get8(p + pitch, left), b = get8(p + 2 * pitch, left);
    const __m256 top = _mm256_max_ps(_mm256_max_ps(r, g), b), low = _mm256_min_ps(_mm256_min_ps(r, g), b);
    const __m256 is_r = _mm256_cmp_ps(top, r, _CMP_EQ_OQ), is_g = _mm256_cmp_ps(top, g, _CMP_EQ_OQ);
    __m256 x = _mm256_blendv_ps(_mm256_sub_ps(r, g), _mm256_sub_ps(b, r), is_g);
    x = _mm256_blendv_ps(x, _mm256_sub_ps(g, b), is_r);
    const __m256 turned = _mm256_blendv_ps(_mm256_blendv_ps(turn[2], turn[1], is_g), turn[0], is_r);
    const __m256 spread = _mm256_sub_ps(top, low), spread2 = _mm256_add_ps(spread, spread);
    const __m256 spread3 = _mm256_mul_ps(_mm256_set1_ps(3.0f), spread);
    const __m256 k = mul_add(turned, spread, x);
    const __m256 reach_r = magnitude(_mm256_sub_ps(k, spread3));
    const __m256 reach_g = magnitude(_mm256_sub_ps(magnitude(_mm256_sub_ps(k, spread2)), spread3));
    const __m256 spread4 = _mm256_add_ps(spread2, spread2);
    const __m256 reach_b = magnitude(_mm256_sub_ps(magnitude(_mm256_sub_ps(k, spread4)), spread3));
    const __m256 base = _mm256_sub_ps(top, spread2);
    set8(p, left, hue_channel(base, reach_r, low, top));
    set8(p + pitch, left, hue_channel(base, reach_g, low, top));
    set8(p + 2 * pitch, left, hue_channel(base, reach_b, low, top));
}

AVX2 static void hue(float *row, size_t pitch, size_t n, const float turn[3])
{
    const __m256 turns[3] = { _mm256_set1_ps(turn[0]), _mm256_set1_ps(turn[1]), _mm256_set1_ps(turn[2]) };
    size_t i = 0;
    for (; i + 8 <= n; i += 8) hue_8(row + i, pitch, 8, turns);
    if (i < n) hue_8(row + i, pitch, n - i, turns);
}

INLINE __m256i gray_steps_8(const float *p, size_t pitch, size_t left)
{
    const __m256 gray = gray_8(get8(p, left), get8(p + pitch, left), get8(p + 2 * pitch, left));
    return _mm256_cvtps_epi32(_mm256_mul_ps(gray, _mm256_set1_ps(K_GRAY_STEPS)));
}

AVX2 static uint64_t gray_sum(const float *row, size_t pitch, size_t n)
{
    enum { SAFE = 1024 * 8 }; /* pixels: 1024 numbers of 20 bits fit a lane */
    uint64_t total = 0;
    for (size_t i = 0; i < n;) {
        const size_t end = n - i < SAFE ? n : i + SAFE;
        __m256i sum = _mm256_setzero_si256();
        for (; i + 8 <= end; i += 8) sum = _mm256_add_epi32(sum, gray_steps_8(row + i, pitch, 8));
        if (i < end) sum = _mm256_add_epi32(sum, gray_steps_8(row + i, pitch, end - i));
        i = end;
        uint32_t lanes[8];
        _mm256_storeu_si256((__m256i *)lanes, sum);
        for (int k = 0; k < 8; k++) total += lanes[k];
    }
    return total;
}

/* ---- blur ---- */

/* `vectors` (a constant) registers of eight samples, so that a weight is fetched once for all of them. */
INLINE void blur_h_block(float *dst, const float *src, const float *weight, ptrdiff_t radius, int vectors)
{
    __m256 sum[4];
    const __m256 centre = _mm256_broadcast_ss(weight);
    for (int v = 0; v < vectors; v++) sum[v] = _mm256_mul_ps(centre, _mm256_loadu_ps(src + v * 8));
    for (ptrdiff_t k = 1; k <= radius; k++) {
        const __m256 w = _mm256_broadcast_ss(weight + k);
        for (int v = 0; v < vectors; v++) {
            const float *at = src + v * 8;
            const __m256 both = _mm256_add_ps(_mm256_loadu_ps(at - k), _mm256_loadu_ps(at + k));
            sum[v] = _mm256_add_ps(sum[v], _mm256_mul_ps(w, both));
        }
    }
    for (int v = 0; v < vectors; v++) _mm256_storeu_ps(dst + v * 8, sum[v]);
}

AVX2 static void blur_h(float *dst, const float *src, size_t n, const float *weight, uint32_t radius)
{
    if (n < 8) {
        stk_pix_c.blur_h(dst, src, n, weight, radius);
        return;
    }
    size_t i = 0;
    for (; i + 32 <= n; i += 32) blur_h_block(dst + i, src + i, weight, radius, 4);
    for (; i + 8 <= n; i += 8) blur_h_block(dst + i, src + i, weight, radius, 1);
    if (i < n) blur_h_block(dst + n - 8, src + n - 8, weight, radius, 1); /* once more over the overlap */
}

INLINE void blur_v_block(float *dst, const float *const *rows, size_t i, const float *weight, uint32_t radius,
                         int vectors)
{
    __m256 sum[4];
    const __m256 centre = _mm256_broadcast_ss(weight);
    for (int v = 0; v < vectors; v++)
        sum[v] = _mm256_mul_ps(centre, _mm256_loadu_ps(rows[radius] + i + v * 8));
    for (uint32_t k = 1; k <= radius; k++) {
        const __m256 w = _mm256_broadcast_ss(weight + k);
        const float *above = rows[radius - k] + i, *below = rows[radius + k] + i;
        for (int v = 0; v < vectors; v++) {
            const __m256 both = _mm256_add_ps(_mm256_loadu_ps(above + v * 8), _mm256_loadu_ps(below + v * 8));
            sum[v] = _mm256_add_ps(sum[v], _mm256_mul_ps(w, both));
        }
    }
    for (int v = 0; v < vectors; v++) _mm256_storeu_ps(dst + i + v * 8, clamp8(sum[v]));
}

AVX2 static void blur_v(float *dst, const float *const *rows, size_t n, const float *weight, uint32_t radius)
{
    if (n < 8) {
        stk_pix_c.blur_v(dst, rows, n, weight, radius);
        return;
    }
    size_t i = 0;
    for (; i + 32 <= n; i += 32) blur_v_block(dst, rows, i, weight, radius, 4);
    for (; i + 8 <= n; i += 8) blur_v_block(dst, rows, i, weight, radius, 1);
    if (i < n) blur_v_block(dst, rows, n - 8, weight, radius, 1); /* once more over the overlap */
}

/* ---- CLAHE ---- */

/* Byte k of every lane as a float. */
INLINE __m256 byte_of(__m256i q, int k)
{
    return _mm256_cvtepi32_ps(_mm256_and_si256(_mm256_srli_epi32(q, 8 * k), _mm256_set1_epi32(0xff)));
}

AVX2 static void clahe_row(uint8_t *luma, size_t n, const uint32_t *quad, const uint32_t *column,
                           const float *share, float down)
{
    const __m256 one = _mm256_set1_ps(1.0f), lower = _mm256_set1_ps(down),
                 upper = _mm256_set1_ps(1.0f - down);
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const __m256i v = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(luma + i)));
        const __m256i at = _mm256_add_epi32(v, _mm256_loadu_si256((const __m256i *)(column + i)));
        const __m256i q = _mm256_i32gather_epi32((const int *)quad, at, 4);
        const __m256 right = _mm256_loadu_ps(share + i), left = _mm256_sub_ps(one, right);
        const __m256 above = mul_add(byte_of(q, 0), left, _mm256_mul_ps(byte_of(q, 1), right));
        const __m256 below = mul_add(byte_of(q, 2), left, _mm256_mul_ps(byte_of(q, 3), right));
        const __m256 mixed = mul_add(above, upper, _mm256_mul_ps(below, lower));
        set8_bytes(luma + i, _mm256_cvtps_epi32(mixed));
    }
    stk_pix_c.clahe_row(luma + i, n - i, quad, column + i, share + i, down);
}

void stk_pix_fill_color_avx2(stk_pix_table *table)
{
    table->linear = linear;
    table->gamma = gamma_row;
    table->saturation = saturation;
    table->hue = hue;
    table->gray_sum = gray_sum;
    table->blur_h = blur_h;
    table->blur_v = blur_v;
    table->clahe_row = clahe_row;
}
