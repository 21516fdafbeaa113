/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks: for every entry of the function table, how to make inputs and how to call it. Three users share
 * them: the check (tests/check, every table against the C reference), its --bench, and `stoke bench pix`.
 *
 * A family is one file check_X.c and a line in check.c. A check goes
 *
 *     begin    choose sizes (random ones, or those of the bench): how many bytes are wanted
 *     (caller) hands out memory for sources and output: fenced, guarded or plain
 *     fill     make the inputs
 *     invoke   call the entry of some table, as often as the caller likes
 *     end
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
    void *state;      /* the family's own, zeroed */
    stk_mem_buffer buffer; /* likewise */
} stk_kernel_check_call;

typedef struct stk_kernel_check_family {
    size_t state_bytes;
    /* random = NULL asks for the bench's shape: a batch row's worth of 512 x 512 pixels, or a strip of it
     * that is worked on at a time. Returns 0 when memory is short. */
    int (*shape)(stk_kernel_check_call *call, stk_kernel_check_random *random);
    void (*fill)(stk_kernel_check_call *call, stk_kernel_check_random *random);
    void (*invoke)(const stk_pix_table *table, const stk_kernel_check_call *call, uint8_t *out);
} stk_kernel_check_family;
extern const stk_kernel_check_family stk_kernel_checks_resize, stk_kernel_checks_color,
    stk_kernel_checks_warp, stk_kernel_checks_write;

/* The types of entries: which way to call them. */
typedef enum stk_kernel_check_kind {
    STK_CHECK_resize_h,
    STK_CHECK_resize_v,
    STK_CHECK_write,
    STK_CHECK_widen,
    STK_CHECK_reverse,
    STK_CHECK_mix,
    STK_CHECK_warp,
    STK_CHECK_cubic,
    STK_CHECK_unpack,
    STK_CHECK_linear,
    STK_CHECK_gamma,
    STK_CHECK_saturation,
    STK_CHECK_hue,
    STK_CHECK_gray_sum,
    STK_CHECK_blur_h,
    STK_CHECK_blur_v,
    STK_CHECK_noise,
    STK_CHECK_clahe,
    STK_CHECK_write_planes
} stk_kernel_check_kind;

/* One entry of the table: a line of pix_functions.def. */
struct stk_kernel_check {
    const char *name;
    size_t offset; /* of the pointer in stk_pix_table */
    const stk_kernel_check_family *family;
    stk_kernel_check_kind kind;
    unsigned channels, depth;
    stoke_dtype dtype;
    stoke_layout layout;
};

/* Check number i; NULL past the last. */
const stk_kernel_check *stk_kernel_check_at(size_t i);

/* Returns 0 when memory is short; `end` in either case. */
int stk_kernel_check_begin(stk_kernel_check_call *call, const stk_kernel_check *check,
                           stk_kernel_check_random *random);
void stk_kernel_check_end(stk_kernel_check_call *call);

/* The entry of a table that a check is about, to be cast to its type (or compared). */
typedef void stk_kernel_check_fn(void);
stk_kernel_check_fn *stk_kernel_check_entry(const stk_pix_table *table, const stk_kernel_check *check);

#endif
