/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of ops. Built from ops.def at compile time: constructors in a static library would be dropped by
 * the linker.
 */
#include "src/augment/op.h"

#include <string.h>

static const stk_op *const ops[] = {
#define STK_OP(name) &stk_op_##name,
#include "src/augment/ops.def"
#undef STK_OP
};

const stk_op *stk_op_at(size_t i)
{
    return i < sizeof ops / sizeof *ops ? ops[i] : NULL;
}

const stk_op *stk_op_find(const char *name)
{
    const stk_op *op;
    for (size_t i = 0; (op = stk_op_at(i)); i++)
        if (strcmp(op->name, name) == 0) return op;
    return NULL;
}

int stoke_op_at(size_t index, stoke_op_info *info)
{
    const stk_op *op = stk_op_at(index);
    if (op) *info = (stoke_op_info){ op->name, op->summary, op->group, op->options, op->n_options };
    return op != NULL;
}
