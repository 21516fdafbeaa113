/* SPDX-License-Identifier: Apache-2.0
 *
 * What simd.h does otherwise in 8 lanes: AVX2, FMA, F16C.
 */
#ifndef STOKE_SRC_NET_KERNELS_SIMD8_H
#define STOKE_SRC_NET_KERNELS_SIMD8_H

enum { STK_LANES = 8 };
typedef __m256 vf;
typedef __m256i vi; /* whole numbers of 32 bits, one per lane; sums and products modulo 2^32 */
typedef __m256d vd;
#define STK_MM(name) _mm256_##name

STK_INLINE vf v_of_bits(vi a)
{
    return _mm256_castsi256_ps(a);
}
STK_INLINE vi v_bits(vf a)
{
    return _mm256_castps_si256(a);
}
STK_INLINE vf v_round(vf a)
{
    return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
STK_INLINE vf v_abs(vf a)
{
    return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a);
}
/* a where x > y, else b. */
STK_INLINE vf v_greater(vf x, vf y, vf a, vf b)
{
    return _mm256_blendv_ps(b, a, _mm256_cmp_ps(x, y, _CMP_GT_OQ));
}

/* Sum and largest of the lanes, as a tree: halves, quarters, pairs. */
STK_INLINE float v_sum(vf a)
{
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

STK_INLINE float v_largest(vf a)
{
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}

STK_INLINE vi vi_lanes(void) /* 0, 1, 2, ... */
{
    return _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
}
STK_INLINE vi vi_and(vi a, vi b)
{
    return _mm256_and_si256(a, b);
}
/* a ^ a >> count */
STK_INLINE vi vi_fold(vi a, int count)
{
    return _mm256_xor_si256(a, _mm256_srli_epi32(a, count));
}
STK_INLINE vi vi_right(vi a, int count)
{
    return _mm256_srli_epi32(a, count);
}
/* a where x >= y, else 0; x and y below 2^31. */
STK_INLINE vf v_where(vi x, vi y, vf a)
{
    return _mm256_andnot_ps(_mm256_castsi256_ps(_mm256_cmpgt_epi32(y, x)), a);
}

/* Lane i of vector j changes places with lane j of vector i: pairs, quads, halves. */
STK_INLINE void v_transpose(vf a[STK_LANES])
{
    vf b[STK_LANES];
    for (int i = 0; i < 8; i += 2) {
        b[i] = _mm256_unpacklo_ps(a[i], a[i + 1]);
        b[i + 1] = _mm256_unpackhi_ps(a[i], a[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) { /* a[i + k]: column k, and k + 4 in the upper half, of rows i .. i + 3 */
        a[i] = _mm256_shuffle_ps(b[i], b[i + 2], 0x44);
        a[i + 1] = _mm256_shuffle_ps(b[i], b[i + 2], 0xee);
        a[i + 2] = _mm256_shuffle_ps(b[i + 1], b[i + 3], 0x44);
        a[i + 3] = _mm256_shuffle_ps(b[i + 1], b[i + 3], 0xee);
    }
    for (int i = 0; i < 4; i++) {
        const vf low = a[i], high = a[i + 4];
        a[i] = _mm256_permute2f128_ps(low, high, 0x20);
        a[i + 4] = _mm256_permute2f128_ps(low, high, 0x31);
    }
}

/* Lane by lane: a0 b0 c0 a1 b1 c1 ... Every lane of each is wanted at one place of one result, and no two at
 * the same: one permutation serves all three results. */
STK_INLINE void v_interleave3(vf a[3])
{
    const vf x = _mm256_permutevar8x32_ps(a[0], _mm256_setr_epi32(0, 3, 6, 1, 4, 7, 2, 5));
    const vf y = _mm256_permutevar8x32_ps(a[1], _mm256_setr_epi32(5, 0, 3, 6, 1, 4, 7, 2));
    const vf z = _mm256_permutevar8x32_ps(a[2], _mm256_setr_epi32(2, 5, 0, 3, 6, 1, 4, 7));
    a[0] = _mm256_blend_ps(_mm256_blend_ps(x, y, 0x92), z, 0x24);
    a[1] = _mm256_blend_ps(_mm256_blend_ps(x, y, 0x24), z, 0x49);
    a[2] = _mm256_blend_ps(_mm256_blend_ps(x, y, 0x49), z, 0x92);
}

/* Lanes below `count` are all ones. */
STK_INLINE __m256i v_lanes_below(size_t count)
{
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)count), lane);
}

STK_INLINE vf v_load_part(const float *p, size_t count)
{
    return _mm256_maskload_ps(p, v_lanes_below(count));
}
STK_INLINE void v_store_part(float *p, size_t count, vf a)
{
    _mm256_maskstore_ps(p, v_lanes_below(count), a);
}
/* a in lanes below `count`, b in the others. */
STK_INLINE vf v_first(size_t count, vf a, vf b)
{
    return _mm256_blendv_ps(b, a, _mm256_castsi256_ps(v_lanes_below(count)));
}

/* By labels, one per lane: base[label], base[label * STK_LANES + lane], 1; 0 for all of these where a label
 * is negative. */
STK_INLINE vf v_pick(const float *base, const int32_t *labels)
{
    const __m256i at = _mm256_loadu_si256((const __m256i *)labels);
    const __m256 valid = _mm256_castsi256_ps(_mm256_cmpgt_epi32(at, _mm256_set1_epi32(-1)));
    return _mm256_mask_i32gather_ps(_mm256_setzero_ps(), base, at, valid, 4);
}
STK_INLINE vf v_pick_lane(const float *base, const int32_t *labels)
{
    const __m256i label = _mm256_loadu_si256((const __m256i *)labels);
    const __m256 valid = _mm256_castsi256_ps(_mm256_cmpgt_epi32(label, _mm256_set1_epi32(-1)));
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256i at = _mm256_add_epi32(_mm256_slli_epi32(label, 3), lane);
    return _mm256_mask_i32gather_ps(_mm256_setzero_ps(), base, at, valid, 4);
}
STK_INLINE vf v_pick_one(const int32_t *labels)
{
    const __m256i at = _mm256_loadu_si256((const __m256i *)labels);
    const __m256i valid = _mm256_cmpgt_epi32(at, _mm256_set1_epi32(-1));
    return _mm256_and_ps(_mm256_castsi256_ps(valid), _mm256_set1_ps(1.0f));
}
/* 1: all labels are the same. */
STK_INLINE int v_pick_same(const int32_t *labels)
{
    const __m256i at = _mm256_loadu_si256((const __m256i *)labels);
    return _mm256_movemask_epi8(_mm256_cmpeq_epi32(at, _mm256_set1_epi32(labels[0]))) == -1;
}

/* Sums in double: sum[i] += a^2 of half of the lanes each. */
STK_INLINE void vd_add_squares(vd sum[2], vf a)
{
    const vd low = _mm256_cvtps_pd(_mm256_castps256_ps128(a));
    const vd high = _mm256_cvtps_pd(_mm256_extractf128_ps(a, 1));
    sum[0] = _mm256_fmadd_pd(low, low, sum[0]);
    sum[1] = _mm256_fmadd_pd(high, high, sum[1]);
}
STK_INLINE vf v_load_bf16(const uint16_t *p)
{
    const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}

STK_INLINE void v_store_bf16(uint16_t *p, vf a)
{
    const __m256i bits = _mm256_castps_si256(a);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    __m256i high = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    high = _mm256_srli_epi32(high, 16);
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(high, high), 0x08);
    _mm_storeu_si128((__m128i *)p, _mm256_castsi256_si128(packed));
}

STK_INLINE vf v_load_f16(const uint16_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}
STK_INLINE void v_store_f16(uint16_t *p, vf a)
{
    _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT));
}

/* One 16-bit number in all lanes. */
STK_INLINE vf v_set_bf16(uint16_t a)
{
    const __m256i twice = _mm256_set1_epi16((short)a); /* in the upper half of a lane it is the f32 */
    return _mm256_castsi256_ps(_mm256_and_si256(twice, _mm256_set1_epi32(-65536)));
}
STK_INLINE vf v_set_f16(uint16_t a)
{
    return _mm256_cvtph_ps(_mm_set1_epi16((short)a));
}

#endif
