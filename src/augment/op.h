/* SPDX-License-Identifier: Apache-2.0
 *
 * An op: one file, one const struct, one line in ops.def. It draws its random choice into the plan; it never
 * sees pixels. The executor (src/loader/sample.c) carries the finished plan out in one go.
 */
#ifndef STOKE_SRC_AUGMENT_OP_H
#define STOKE_SRC_AUGMENT_OP_H

#include <stoke/augment.h>
#include <stoke/options.h>

#include "src/base/rng.h"

enum { STK_OP_ARGS_BYTES = 64 }; /* room for any op's argument struct */

/* The random numbers of one op of one sample: word(k) is a pure function of k. */
typedef struct stk_op_random {
    uint64_t seed, epoch, position;
    uint32_t stream;
} stk_op_random;

/* Draw number k, four 32-bit words. */
static inline stk_random stk_op_draw(const stk_op_random *random, uint32_t k)
{
    return stk_philox(random->seed, random->position, random->epoch, random->stream, k);
}

typedef struct stk_frame {
    uint32_t source_width, source_height;
    uint32_t out_width, out_height;
} stk_frame;

typedef struct stk_op {
    const char *name, *summary;
    const stoke_option *options; /* fields of the argument struct */
    size_t n_options;
    void (*draw)(const void *args, const stk_op_random *random, const stk_frame *frame, stoke_plan *plan);
} stk_op;

#define STK_OP(name) extern const stk_op stk_op_##name;
#include "src/augment/ops.def"
#undef STK_OP

/* NULL when there is no such op. */
const stk_op *stk_op_find(const char *name);
/* Op number i, NULL past the last. */
const stk_op *stk_op_at(size_t i);

#endif
