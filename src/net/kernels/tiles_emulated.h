/* SPDX-License-Identifier: Apache-2.0
 *
 * AMX tiles on a processor that has none, for tests: eight arrays per thread, always 16 rows of 64 bytes, and
 * the AVX-512 that only tiles.h uses.
 */
#ifndef STOKE_SRC_NET_KERNELS_TILES_EMULATED_H
#define STOKE_SRC_NET_KERNELS_TILES_EMULATED_H

#include <math.h>

typedef union stk_emulated_tile {
    unsigned char row[16][64];
    float sum[16][16];
    uint16_t word[16][32];
} stk_emulated_tile;

static _Thread_local stk_emulated_tile stk_emulated_tiles[8];
static _Thread_local int stk_emulated_configured; /* without it the processor faults, and so does this */

STK_EMULATED stk_emulated_tile *stk_emulated_tile_at(int which)
{
    if (!stk_emulated_configured) __builtin_trap();
    return &stk_emulated_tiles[which];
}

STK_EMULATED void stk_emulated_loadd(int which, const void *base, size_t stride)
{
    for (size_t i = 0; i < 16; i++)
        memcpy(stk_emulated_tile_at(which)->row[i], (const unsigned char *)base + i * stride, 64);
}

STK_EMULATED void stk_emulated_stored(int which, void *base, size_t stride)
{
    for (size_t i = 0; i < 16; i++)
        memcpy((unsigned char *)base + i * stride, stk_emulated_tile_at(which)->row[i], 64);
}

/* Even and odd k have separate sums, which meet at the end: Intel's manual, TDPBF16PS. */
STK_EMULATED void stk_emulated_dpbf16ps(int sum, int a, int b)
{
    const stk_emulated_tile *ta = stk_emulated_tile_at(a), *tb = stk_emulated_tile_at(b);
    for (int m = 0; m < 16; m++)
        for (int n = 0; n < 16; n++) {
            float even = 0, odd = 0;
            for (int k = 0; k < 16; k++) {
                even = fmaf(k_from_bf16(ta->word[m][2 * k]), k_from_bf16(tb->word[k][2 * n]), even);
                odd = fmaf(k_from_bf16(ta->word[m][2 * k + 1]), k_from_bf16(tb->word[k][2 * n + 1]), odd);
            }
            stk_emulated_tile_at(sum)->sum[m][n] += even + odd;
        }
}

STK_EMULATED __m512i stk_emulated_load_words(__mmask32 mask, const void *from)
{
    stk_emulated to = { .lane = { 0 } };
    for (int i = 0; i < 32; i++)
        if (mask >> i & 1) memcpy(&to.word[i], (const uint16_t *)from + i, sizeof(uint16_t));
    return to.i;
}

STK_EMULATED __m512i stk_emulated_two_bf16(__m512 high, __m512 low)
{
    const stk_emulated h = { .f = high }, l = { .f = low };
    stk_emulated to;
    for (int i = 0; i < 16; i++) {
        to.word[i] = k_bf16(l.lane[i]);
        to.word[i + 16] = k_bf16(h.lane[i]);
    }
    return to.i;
}

#undef _tile_loadconfig
#undef _tile_release
#undef _tile_zero
#undef _tile_loadd
#undef _tile_stored
#undef _tile_dpbf16ps
#define _tile_loadconfig(config) ((void)(config), stk_emulated_configured = 1)
#define _tile_release()          ((void)(stk_emulated_configured = 0))
#define _tile_zero(which)        memset(stk_emulated_tile_at(which), 0, sizeof(stk_emulated_tile))
#define _tile_loadd              stk_emulated_loadd
#define _tile_stored             stk_emulated_stored
#define _tile_dpbf16ps           stk_emulated_dpbf16ps
#define _mm512_maskz_loadu_epi16 stk_emulated_load_words
#define _mm512_cvtne2ps_pbh      stk_emulated_two_bf16

#endif
