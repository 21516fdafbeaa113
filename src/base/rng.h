/* SPDX-License-Identifier: Apache-2.0
 *
 * Counter-based randomness: Philox4x32-10 (Random123). A draw is a function of key and counter; there is no
 * state to share, save or race on.
 */
#ifndef STOKE_SRC_BASE_RNG_H
#define STOKE_SRC_BASE_RNG_H

#include <stdint.h>

typedef struct stk_rng {
    uint32_t word[4];
} stk_rng;

/* Who draws: keeps the streams of different purposes apart. Values are pinned: changing one changes every
 * run. */
enum stk_rng_purpose {
    STK_STREAM_ORDER = 1,
    STK_STREAM_WEIGHTED = 2,
    STK_STREAM_SUBSTITUTE = 3,
    STK_STREAM_SYNTH = 4,
    STK_STREAM_INITIAL = 5, /* weights of a network */
    STK_STREAM_DROP_PATH = 6,
    STK_STREAM_BOOTSTRAP = 7,  /* samples of a forecast */
    STK_STREAM_AUGMENT = 0x100 /* + op slot in the pipeline */
};

/* Key = seed; counter = (position, epoch folded to 32 bits, stream << 16 | draw). */
stk_rng stk_philox(uint64_t seed, uint64_t position, uint64_t epoch, uint32_t stream, uint32_t draw);

/* Raw block, for known-answer tests. */
stk_rng stk_philox_block(const uint32_t counter[4], const uint32_t key[2]);

/* [0, 1) with 24 bits (exact in float and double). */
static inline double stk_unit(uint32_t word)
{
    return (word >> 8) * (1.0 / 16777216.0);
}

/* Uniform in [0, n), n > 0, by multiply-high of 64 random bits: bias below n / 2^64. */
static inline uint64_t stk_below(uint64_t bits, uint64_t n)
{
    return (uint64_t)(((unsigned __int128)bits * n) >> 64);
}

static inline uint64_t stk_pair(uint32_t high, uint32_t low)
{
    return (uint64_t)high << 32 | low;
}

/* A strong 64-bit mixer (splitmix64's finaliser). */
static inline uint64_t stk_mix64(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

#endif
