/* SPDX-License-Identifier: Apache-2.0
 *
 * What simd.h does otherwise in 16 lanes: AVX-512 F, BW, DQ, VL.
 */
#ifndef STOKE_SRC_NET_KERNELS_SIMD16_H
#define STOKE_SRC_NET_KERNELS_SIMD16_H

enum { STK_LANES = 16 };
typedef __m512 vf;
typedef __m512i vi; /* whole numbers of 32 bits, one per lane; sums and products modulo 2^32 */
typedef __m512d vd;
#define STK_MM(name) _mm512_##name

STK_INLINE vf v_of_bits(vi a)
{
    return _mm512_castsi512_ps(a);
}
STK_INLINE vi v_bits(vf a)
{
    return _mm512_castps_si512(a);
}
STK_INLINE vf v_round(vf a)
{
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
STK_INLINE vf v_abs(vf a)
{
    return _mm512_abs_ps(a);
}
/* a where x > y, else b. */
STK_INLINE vf v_greater(vf x, vf y, vf a, vf b)
{
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, y, _CMP_GT_OQ), b, a);
}

/* Sum and largest of the lanes, as a tree: halves, quarters, eighths, pairs. */
STK_INLINE float v_sum(vf a)
{
    const __m256 h = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

STK_INLINE float v_largest(vf a)
{
    const __m256 h = _mm256_max_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}

STK_INLINE vi vi_lanes(void) /* 0, 1, 2, ... */
{
    return _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}
STK_INLINE vi vi_and(vi a, vi b)
{
    return _mm512_and_si512(a, b);
}
/* a ^ a >> count */
STK_INLINE vi vi_fold(vi a, int count)
{
    return _mm512_xor_si512(a, _mm512_srli_epi32(a, (unsigned)count));
}
STK_INLINE vi vi_right(vi a, int count)
{
    return _mm512_srli_epi32(a, (unsigned)count);
}
/* a where x >= y, else 0; x and y below 2^31. */
STK_INLINE vf v_where(vi x, vi y, vf a)
{
    return _mm512_maskz_mov_ps(_mm512_cmpge_epi32_mask(x, y), a);
}

/* Lane i of vector j changes places with lane j of vector i: pairs, quads, then quarters of vectors. */
STK_INLINE void v_transpose(vf a[STK_LANES])
{
    vf b[STK_LANES];
    for (int i = 0; i < 16; i += 2) {
        b[i] = _mm512_unpacklo_ps(a[i], a[i + 1]);
        b[i + 1] = _mm512_unpackhi_ps(a[i], a[i + 1]);
    }
    for (int i = 0; i < 16; i += 4) { /* a[i + k]: columns k, k + 4, k + 8, k + 12 of rows i .. i + 3 */
        a[i] = _mm512_shuffle_ps(b[i], b[i + 2], 0x44);
        a[i + 1] = _mm512_shuffle_ps(b[i], b[i + 2], 0xee);
        a[i + 2] = _mm512_shuffle_ps(b[i + 1], b[i + 3], 0x44);
        a[i + 3] = _mm512_shuffle_ps(b[i + 1], b[i + 3], 0xee);
    }
    for (int i = 0; i < 4; i++) { /* a 4 x 4 matrix of quarters, transposed alike */
        const vf low = _mm512_shuffle_f32x4(a[i], a[i + 4], 0x88),
                 odd = _mm512_shuffle_f32x4(a[i], a[i + 4], 0xdd);
        const vf low2 = _mm512_shuffle_f32x4(a[i + 8], a[i + 12], 0x88);
        const vf odd2 = _mm512_shuffle_f32x4(a[i + 8], a[i + 12], 0xdd);
        a[i] = _mm512_shuffle_f32x4(low, low2, 0x88);
        a[i + 4] = _mm512_shuffle_f32x4(odd, odd2, 0x88);
        a[i + 8] = _mm512_shuffle_f32x4(low, low2, 0xdd);
        a[i + 12] = _mm512_shuffle_f32x4(odd, odd2, 0xdd);
    }
}

/* Lane by lane: a0 b0 c0 a1 b1 c1 ... Every lane of each is wanted at one place of one result, and no two at
 * the same: one permutation serves all three results. */
STK_INLINE void v_interleave3(vf a[3])
{
    const __m512i i = _mm512_setr_epi32(0, 11, 6, 1, 12, 7, 2, 13, 8, 3, 14, 9, 4, 15, 10, 5);
    const __m512i j = _mm512_setr_epi32(5, 0, 11, 6, 1, 12, 7, 2, 13, 8, 3, 14, 9, 4, 15, 10);
    const __m512i k = _mm512_setr_epi32(10, 5, 0, 11, 6, 1, 12, 7, 2, 13, 8, 3, 14, 9, 4, 15);
    const vf x = _mm512_permutexvar_ps(i, a[0]), y = _mm512_permutexvar_ps(j, a[1]);
    const vf z = _mm512_permutexvar_ps(k, a[2]);
    a[0] = _mm512_mask_blend_ps(0x4924, _mm512_mask_blend_ps(0x2492, x, y), z);
    a[1] = _mm512_mask_blend_ps(0x2492, _mm512_mask_blend_ps(0x9249, x, y), z);
    a[2] = _mm512_mask_blend_ps(0x9249, _mm512_mask_blend_ps(0x4924, x, y), z);
}

STK_INLINE __mmask16 v_lanes_below(size_t count)
{
    return (__mmask16)((1u << count) - 1);
}

STK_INLINE vf v_load_part(const float *p, size_t count)
{
    return _mm512_maskz_loadu_ps(v_lanes_below(count), p);
}
STK_INLINE void v_store_part(float *p, size_t count, vf a)
{
    _mm512_mask_storeu_ps(p, v_lanes_below(count), a);
}
/* a in lanes below `count`, b in the others. */
STK_INLINE vf v_first(size_t count, vf a, vf b)
{
    return _mm512_mask_blend_ps(v_lanes_below(count), b, a);
}

/* By labels, one per lane: base[label], base[label * STK_LANES + lane], 1; 0 for all of these where a label
 * is negative. */
STK_INLINE vf v_pick(const float *base, const int32_t *labels)
{
    const __m512i at = _mm512_loadu_si512(labels);
    const __mmask16 valid = _mm512_cmpgt_epi32_mask(at, _mm512_set1_epi32(-1));
    return _mm512_mask_i32gather_ps(_mm512_setzero_ps(), valid, at, base, 4);
}
STK_INLINE vf v_pick_lane(const float *base, const int32_t *labels)
{
    const __m512i label = _mm512_loadu_si512(labels);
    const __mmask16 valid = _mm512_cmpgt_epi32_mask(label, _mm512_set1_epi32(-1));
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i at = _mm512_add_epi32(_mm512_slli_epi32(label, 4), lane);
    return _mm512_mask_i32gather_ps(_mm512_setzero_ps(), valid, at, base, 4);
}
STK_INLINE vf v_pick_one(const int32_t *labels)
{
    const __mmask16 valid = _mm512_cmpgt_epi32_mask(_mm512_loadu_si512(labels), _mm512_set1_epi32(-1));
    return _mm512_maskz_mov_ps(valid, _mm512_set1_ps(1.0f));
}
/* 1: all labels are the same. */
STK_INLINE int v_pick_same(const int32_t *labels)
{
    return _mm512_cmpeq_epi32_mask(_mm512_loadu_si512(labels), _mm512_set1_epi32(labels[0])) == 0xffff;
}

/* Sums in double: sum[i] += a^2 of half of the lanes each. */
STK_INLINE void vd_add_squares(vd sum[2], vf a)
{
    const vd low = _mm512_cvtps_pd(_mm512_castps512_ps256(a));
    const vd high = _mm512_cvtps_pd(_mm512_extractf32x8_ps(a, 1));
    sum[0] = _mm512_fmadd_pd(low, low, sum[0]);
    sum[1] = _mm512_fmadd_pd(high, high, sum[1]);
}
STK_INLINE vf v_load_bf16(const uint16_t *p)
{
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}

STK_INLINE void v_store_bf16(uint16_t *p, vf a)
{
    const __m512i bits = _mm512_castps_si512(a);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i high = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtepi32_epi16(_mm512_srli_epi32(high, 16)));
}

STK_INLINE vf v_load_f16(const uint16_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}

STK_INLINE void v_store_f16(uint16_t *p, vf a)
{
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT));
}

/* One 16-bit number in all lanes. */
STK_INLINE vf v_set_bf16(uint16_t a)
{
    return _mm512_castsi512_ps(_mm512_set1_epi32((int)((uint32_t)a << 16)));
}
STK_INLINE vf v_set_f16(uint16_t a)
{
    return _mm512_cvtph_ps(_mm256_set1_epi16((short)a));
}

#endif
