/* SPDX-License-Identifier: Apache-2.0
 *
 * softmax(Q K^T / sqrt(d)) V per sample and head. The scores never leave the cache: a block of queries at a
 * time meets all keys (at most a few hundred after the sequence reduction; any number works). The backward
 * pass computes them again from the saved sums.
 */
#ifndef STOKE_SRC_NET_OPS_ATTENTION_H
#define STOKE_SRC_NET_OPS_ATTENTION_H

#include "src/net/exec.h"

typedef struct stk_attention {
    uint32_t batch, heads, head_size; /* head_size a multiple of 8 */
    uint32_t queries, keys;           /* tokens per sample */
} stk_attention;

/* Matrices of the run's type with C = heads * head_size: q and context [batch * queries][C], kv [batch *
 * keys] [2 C], keys first. log_sum: NULL in inference, else one float per (sample, head, query): the
 * logarithm of the sum of exponentials of the scaled scores. */
void stk_attention_forward(const stk_exec *run, const stk_attention *shape, const void *q, const void *kv,
                           void *context, float *log_sum);
/* dq and dkv (laid out like q and kv; written, not added to). */
void stk_attention_backward(const stk_exec *run, const stk_attention *shape, const void *q, const void *kv,
                            const void *context, const float *log_sum, const void *d_context, void *dq,
                            void *dkv);
stk_exec_need stk_attention_need(const stk_exec *run, const stk_attention *shape);

#endif
