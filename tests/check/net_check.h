/* SPDX-License-Identifier: Apache-2.0
 *
 * How check_net tries an entry of the function table of network mathematics. Each section has its trials in
 * its own file (net_gemm.c, ...): a trial draws a shape, calls the entry of both tables on the same
 * numbers and compares.
 */
#ifndef STOKE_TESTS_CHECK_NET_CHECK_H
#define STOKE_TESTS_CHECK_NET_CHECK_H

#include <stddef.h>

#include "src/net/kernels/net_table.h"

enum { NET_REFERENCE = 0, NET_COLUMN = 1, NET_BOTH = 2, NET_FENCES = 64 };

/* Memory between two forbidden pages: whoever reads or writes past either end dies here. */
typedef struct net_fence {
    unsigned char *base;
    size_t room;
} net_fence;

/* One try: what is compared, the random numbers, the memory. */
typedef struct net_try {
    const stk_net_table *table[NET_BOTH];
    const char *name;
    char text[160]; /* the shape, for the message when something differs */
    uint64_t random;
    double worst; /* largest error seen, as a part of what is allowed */
    net_fence fence[NET_FENCES];
    size_t fences;
} net_try;

typedef struct net_trial net_trial;
struct net_trial {
    const char *name;
    size_t offset;                                   /* of the entry in stk_net_table */
    int variant;                                     /* the section's own: a type, a kind */
    int (*once)(const net_trial *trial, net_try *t); /* 1: they agree */
};

/* Trials of a section, and the offsets of its members that are numbers, not functions (a word each).
 */
typedef struct net_section {
    const net_trial *trials;
    size_t count;
    const size_t *numbers;
    size_t number_count;
} net_section;

extern const net_section net_section_attention, net_section_conv, net_section_conv3, net_section_depthwise,
    net_section_gemm, net_section_head, net_section_layernorm, net_section_loss, net_section_peak,
    net_section_update;

/* An entry per type: offsets of table.member[type]. */
#define NET_TRIALS_BY_TYPE(text, member, once)                                                               \
    { text " f32", offsetof(stk_net_table, member[STK_F32]), STK_F32, once },                                \
        { text " bf16", offsetof(stk_net_table, member[STK_BF16]), STK_BF16, once },                         \
    {                                                                                                        \
        text " f16", offsetof(stk_net_table, member[STK_F16]), STK_F16, once                                 \
    }

uint32_t net_below(net_try *t, uint32_t end);
uint32_t net_between(net_try *t, uint32_t first, uint32_t last);
float net_number(net_try *t); /* -1 .. 1 */

/* Memory of this try, released after it. Arrays hold random numbers and lie against the fence at either end;
 * rooms are 64-byte aligned, at least as large as asked for and full of NaN. */
void *net_array(net_try *t, stk_float type, size_t count);
void *net_room(net_try *t, size_t bytes);
void net_release(net_try *t);

/* Two arrays alike, one for each table to write. */
typedef struct net_pair {
    void *of[NET_BOTH];
} net_pair;
net_pair net_arrays(net_try *t, stk_float type, size_t count);

/* |got - wanted| <= allowed (|wanted| + root mean square of what is wanted + 0.01), for every element,
 * written or not; says which one when it is not so. (Inputs are of size 1; what cancels to 0 in one order of
 * sums leaves rounding in another.) */
int net_agree(net_try *t, const char *what, net_pair pair, stk_float type, size_t count, double allowed);
/* What two roundings of a result to `type`, whose f32 values differ by a few units, may differ by: a step of
 * 2^-7 or 2^-10; in f32 1e-5, sums of a few hundred terms in another order. */
double net_allowed(stk_float type);

#endif
