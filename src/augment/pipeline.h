/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STOKE_SRC_AUGMENT_PIPELINE_H
#define STOKE_SRC_AUGMENT_PIPELINE_H

#include "src/augment/op.h"

enum { STK_PIPELINE_OPS = 32, STK_PIPELINE_TEXT = 1024 };

typedef struct stk_step {
    const stk_op *op;
    union {
        unsigned char bytes[STK_OP_ARGS_BYTES];
        double align;
        const char *align_pointer;
    } args;
} stk_step;

struct stoke_pipeline {
    stk_step steps[STK_PIPELINE_OPS];
    size_t n_steps;
    char text[STK_PIPELINE_TEXT];
};

/* Appends an op with its defaults. STOKE_E_NOTFOUND lists the ops there are. */
int stk_pipeline_add(stoke_pipeline *pipeline, const char *name, stoke_error *err);
/* Sets an argument of the op added last. */
int stk_pipeline_set(stoke_pipeline *pipeline, const char *name, const char *value, stoke_error *err);

/* Reads "augment:" lists, in memory; `name` stands in messages ("name:line: ..."). */
int stk_pipeline_read_yaml(stoke_pipeline *pipeline, const char *name, const void *bytes, size_t size,
                           stoke_error *err);

#endif
