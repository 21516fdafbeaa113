/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of bf16 matrices on AMX tiles: 8 registers of 16 rows of 64 bytes. Four of them hold 32 x 32 sums
 * in f32, two hold A and two hold B, so each load serves two products.
 *
 * A is 16 rows of 32 elements. B comes in pairs: row p of its tile holds k = 2p and 2p + 1 of column 0, of
 * column 1, ... The configuration belongs to the thread: stk_tiles_begin and _end surround every use.
 */
#ifndef STOKE_SRC_NET_KERNELS_TILES_H
#define STOKE_SRC_NET_KERNELS_TILES_H

#include "src/net/kernels/simd.h"

#if defined(STK_SIMD_EMULATED)
#include "src/net/kernels/tiles_emulated.h"
#define STK_TILES(name) name##_amx_emulated
#else
#define STK_TILES(name) name##_amx
#endif

enum {
    STK_TILE = 16,        /* rows of a tile, and columns of sums */
    STK_TILE_K = 32,      /* elements of a row of A */
    STK_TILE_WORDS = 512, /* 16-bit elements of a tile */
    STK_TILE_ROW = 64,    /* bytes */
    STK_TILE_BYTES = 1024,
};

STK_INLINE void stk_tiles_begin(void)
{
    /* Constant: gcc 12 may drop stores to a configuration of which the intrinsic names only 8 bytes. */
    static const struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } config __attribute__((aligned(
        64))) = { 1, 0, { 0 }, { 64, 64, 64, 64, 64, 64, 64, 64 }, { 16, 16, 16, 16, 16, 16, 16, 16 } };
    _tile_loadconfig(&config);
}

STK_INLINE void stk_tiles_end(void)
{
    _tile_release();
}

/* gcc 12 does not know that loading a tile reads memory: what was written must be said to be needed. */
STK_INLINE void stk_tiles_written(const void *memory)
{
    __asm__ volatile("" : : "r"(memory) : "memory");
}

typedef struct stk_tiles {
    const void *a[2]; /* rows 0..15 and 16..31 */
    size_t a_stride;  /* bytes from row to row */
    size_t a_step;    /* and to the next 32 k */
    const void *b[2]; /* columns 0..15 and 16..31, rows STK_TILE_ROW bytes apart */
    size_t b_step;
} stk_tiles;

/* Adds `steps` times 32 k to the sums in tiles 0..3: left and right above, left and right below. Whoever has
 * at most 16 rows or columns leaves the second half out. */
STK_INLINE void stk_tiles_add(const stk_tiles *t, size_t steps, int below, int right)
{
    const unsigned char *a0 = t->a[0], *a1 = t->a[1], *b0 = t->b[0], *b1 = t->b[1];
    for (; steps; steps--, a0 += t->a_step, a1 += t->a_step, b0 += t->b_step, b1 += t->b_step) {
        _tile_loadd(4, a0, t->a_stride);
        _tile_loadd(6, b0, STK_TILE_ROW);
        _tile_dpbf16ps(0, 4, 6);
        if (right) {
            _tile_loadd(7, b1, STK_TILE_ROW);
            _tile_dpbf16ps(1, 4, 7);
        }
        if (below) {
            _tile_loadd(5, a1, t->a_stride);
            _tile_dpbf16ps(2, 5, 6);
            if (right) _tile_dpbf16ps(3, 5, 7);
        }
    }
}

STK_INLINE void stk_tiles_zero(void)
{
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
}

/* The first `count` <= 32 elements of a row, 0 after them. */
STK_INLINE __m512i stk_tiles_row(const uint16_t *row, size_t count)
{
    return count >= STK_TILE_K ? _mm512_loadu_si512(row)
                               : _mm512_maskz_loadu_epi16((__mmask32)((1u << count) - 1), row);
}

/* Two rows of 32 elements as 32 pairs: columns 0..15 in *left, 16..31 in *right. */
STK_INLINE void stk_tiles_pair(__m512i even, __m512i odd, __m512i *left, __m512i *right)
{
    static const uint16_t order[2][32] = {
        { 0, 32, 1, 33, 2,  34, 3,  35, 4,  36, 5,  37, 6,  38, 7,  39,
          8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47 },
        { 16, 48, 17, 49, 18, 50, 19, 51, 20, 52, 21, 53, 22, 54, 23, 55,
          24, 56, 25, 57, 26, 58, 27, 59, 28, 60, 29, 61, 30, 62, 31, 63 },
    };
    *left = _mm512_permutex2var_epi16(even, _mm512_loadu_si512(order[0]), odd);
    *right = _mm512_permutex2var_epi16(even, _mm512_loadu_si512(order[1]), odd);
}

/* Pairs of 16 rows, 16 columns each, become pairs of a column side by side. */
STK_INLINE void stk_tiles_turn(__m512i r[STK_TILE])
{
    vf lanes[STK_TILE]; /* moved, never computed with */
    for (int i = 0; i < STK_TILE; i++) lanes[i] = _mm512_castsi512_ps(r[i]);
    v_transpose(lanes);
    for (int i = 0; i < STK_TILE; i++) r[i] = _mm512_castps_si512(lanes[i]);
}

#endif
