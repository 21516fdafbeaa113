/* SPDX-License-Identifier: Apache-2.0
 *
 * Trials: for every entry of the function table, how to make inputs and how to call it. Three users share
 * them: the check (tests/check, every table against the C reference), its --bench, and `stoke bench pix`.
 *
 * A family is one file trial_X.c and one line in checks.def. A check goes
 *
 *     shape    choose sizes (random ones, or those of the bench): how many bytes are wanted
 *     (caller) hands out memory for sources and output: fenced, guarded or plain
 *     fill     make the inputs
 *     invoke   call the entry of some table, as often as the caller likes
 *     release
 */
#ifndef STOKE_SRC_PIX_CHECK_CHECK_H
#define STOKE_SRC_PIX_CHECK_CHECK_H

#include "src/base/rng.h"
#include "src/pix/pix_table.h"

/* ---- random numbers: any seed will do, nothing is pinned to them ---- */

typedef struct stk_kernel_check_random {
    uint64_t x;
} stk_kernel_check_random;

static inline uint64_t stk_kernel_check_draw(stk_kernel_check_random *r)
{
    return stk_mix64(r->x += UINT64_C(0x9e3779b97f4a7c15));
}

/* 0 .. n-1 */
static inline uint32_t stk_kernel_check_below(stk_kernel_check_random *r, uint32_t n)
{
    return (uint32_t)stk_below(stk_kernel_check_draw(r), n);
}

/* 1 .. most, small ones as likely as large ones: kernels have their traps at both ends. */
uint32_t stk_kernel_check_size(stk_kernel_check_random *r, uint32_t most);

/* Random bytes; now and then only 0 and 255, where sums are largest. */
void stk_kernel_check_fill(uint8_t *data, size_t bytes, stk_kernel_check_random *r);
/* Random floats in 0 .. most; now and then only the two ends. */
void stk_kernel_check_fill_floats(float *data, size_t count, float most, stk_kernel_check_random *r);

/* ---- checks ---- */

enum { STK_KERNEL_CHECK_SOURCES = 4 };

typedef struct stk_kernel_check stk_kernel_check;

typedef struct stk_kernel_check_call {
    const stk_kernel_check *check;
    /* Set by shape. Sources with bytes > 0 are wanted, each in separate memory; lengths are multiples of
     * the element, so a source may end anywhere an element may. */
    struct {
        size_t bytes;
        uint8_t *data; /* set by the caller before fill */
    } source[STK_KERNEL_CHECK_SOURCES];
    size_t out_bytes;
    size_t out_align; /* of an output element: what the output must be aligned to */
    int in_place;     /* 1: the entry changes its output; the caller copies source[0] there before a call */
    uint64_t pixels;  /* that one call makes: what "per pixel" counts */
    char text[160];   /* the shape, for a message */
    void *state;      /* the family's own (stk_alloc), freed by release */
} stk_kernel_check_call;

typedef struct stk_kernel_check_family {
    /* random = NULL asks for the bench's shape: a batch row's worth of 512 x 512 pixels, or a strip of it
     * that is worked on at a time. Returns 0 when memory is short. */
    int (*shape)(stk_kernel_check_call *call, stk_kernel_check_random *random);
    void (*fill)(stk_kernel_check_call *call, stk_kernel_check_random *random);
    void (*invoke)(const stk_pix_table *table, const stk_kernel_check_call *call, uint8_t *out);
    void (*release)(stk_kernel_check_call *call);
    const stk_kernel_check *checks;
    size_t n_checks;
} stk_kernel_check_family;

/* One entry of the table. */
struct stk_kernel_check {
    const char *name;
    size_t offset;   /* of the pointer in stk_pix_table */
    unsigned kind;   /* the family's own: which way to call it */
    unsigned arg[4]; /* the family's own: channels, depth, dtype, ... */
};

#define STK_KERNEL_CHECK_AT(member) offsetof(stk_pix_table, member)

/* The release of families whose state holds no memory. */
void stk_kernel_check_release(stk_kernel_check_call *call);

/* Trial number i and its family; NULL past the last. */
const stk_kernel_check *stk_kernel_check_at(size_t i, const stk_kernel_check_family **family);

/* The entry of a table that a check is about, to be cast to its type (or compared). */
typedef void stk_kernel_check_fn(void);
stk_kernel_check_fn *stk_kernel_check_entry(const stk_pix_table *table, const stk_kernel_check *check);

#define STK_KERNEL_CHECKS(name) extern const stk_kernel_check_family stk_kernel_checks_##name;
#include "src/pix/check/checks.def"
#undef STK_KERNEL_CHECKS

#endif
