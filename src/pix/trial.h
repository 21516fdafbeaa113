/* SPDX-License-Identifier: Apache-2.0
 *
 * Trials: for every entry of the function table, how to make inputs and how to call it. Three users share
 * them: the check (tests/check, every table against the C reference), its --bench, and `stoke bench pix`.
 *
 * A family is one file trial_X.c and one line in trials.def. A trial goes
 *
 *     shape    choose sizes (random ones, or those of the bench): how many bytes are wanted
 *     (caller) hands out memory for sources and output: fenced, guarded or plain
 *     fill     make the inputs
 *     invoke   call the entry of some table, as often as the caller likes
 *     release
 */
#ifndef STOKE_SRC_PIX_TRIAL_H
#define STOKE_SRC_PIX_TRIAL_H

#include "src/base/rng.h"
#include "src/pix/pix_table.h"

/* ---- random numbers: any seed will do, nothing is pinned to them ---- */

typedef struct stk_trial_random {
    uint64_t x;
} stk_trial_random;

static inline uint64_t stk_trial_draw(stk_trial_random *r)
{
    return stk_mix64(r->x += UINT64_C(0x9e3779b97f4a7c15));
}

/* 0 .. n-1 */
static inline uint32_t stk_trial_below(stk_trial_random *r, uint32_t n)
{
    return (uint32_t)stk_below(stk_trial_draw(r), n);
}

/* 1 .. most, small ones as likely as large ones: kernels have their traps at both ends. */
uint32_t stk_trial_size(stk_trial_random *r, uint32_t most);

/* Random bytes; now and then only 0 and 255, where sums are largest. */
void stk_trial_fill(uint8_t *data, size_t bytes, stk_trial_random *r);
/* Random floats in 0 .. most; now and then only the two ends. */
void stk_trial_fill_floats(float *data, size_t count, float most, stk_trial_random *r);

/* ---- trials ---- */

enum { STK_TRIAL_SOURCES = 4 };

typedef struct stk_trial stk_trial;

typedef struct stk_trial_call {
    const stk_trial *trial;
    /* Set by shape. Sources with bytes > 0 are wanted, each in memory of its own; lengths are multiples of
     * the element, so a source may end anywhere an element may. */
    struct {
        size_t bytes;
        uint8_t *data; /* set by the caller before fill */
    } source[STK_TRIAL_SOURCES];
    size_t out_bytes;
    size_t out_align; /* of an output element: what the output must be aligned to */
    int in_place;     /* 1: the entry changes its output; the caller copies source[0] there before a call */
    uint64_t pixels;  /* that one call makes: what "per pixel" counts */
    char text[160];   /* the shape, for a message */
    void *state;      /* the family's own (stk_alloc), freed by release */
} stk_trial_call;

typedef struct stk_trial_family {
    /* random = NULL asks for the bench's shape: a batch row's worth of 512 x 512 pixels, or a strip of it
     * that is worked on at a time. Returns 0 when memory is short. */
    int (*shape)(stk_trial_call *call, stk_trial_random *random);
    void (*fill)(stk_trial_call *call, stk_trial_random *random);
    void (*invoke)(const stk_pix_table *table, const stk_trial_call *call, uint8_t *out);
    void (*release)(stk_trial_call *call);
    const stk_trial *trials;
    size_t n_trials;
} stk_trial_family;

/* One entry of the table. */
struct stk_trial {
    const char *name;
    size_t offset;   /* of the pointer in stk_pix_table */
    unsigned kind;   /* the family's own: which way to call it */
    unsigned arg[4]; /* the family's own: channels, depth, dtype, ... */
};

#define STK_TRIAL_AT(member) offsetof(stk_pix_table, member)

/* The release of families whose state holds nothing of its own. */
void stk_trial_release(stk_trial_call *call);

/* Trial number i and its family; NULL past the last. */
const stk_trial *stk_trial_at(size_t i, const stk_trial_family **family);

/* The entry of a table that a trial is about, to be cast to its type (or compared). */
typedef void stk_trial_fn(void);
stk_trial_fn *stk_trial_entry(const stk_pix_table *table, const stk_trial *trial);

#define STK_TRIALS(name) extern const stk_trial_family stk_trials_##name;
#include "src/pix/trials.def"
#undef STK_TRIALS

#endif
