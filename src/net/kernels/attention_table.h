/* SPDX-License-Identifier: Apache-2.0
 *
 * The section of the function table for attention.h: what one thread does with some queries of one head of
 * one sample, against all of its keys.
 */
#ifndef STOKE_SRC_NET_KERNELS_ATTENTION_TABLE_H
#define STOKE_SRC_NET_KERNELS_ATTENTION_TABLE_H

#include "src/net/exec.h"

/* Pointers are to the head's columns of the first row; rows of q, context and their gradients are `stride`
 * elements apart, those of k and v `kv_stride`. */
typedef struct stk_attention_share {
    stk_float type;
    uint32_t queries, keys, head_size;
    size_t stride, kv_stride;
    const void *q, *k, *v;
    void *context;  /* forward: written; backward: read */
    float *log_sum; /* one per query; forward: written unless NULL; backward: read */
    /* Backward only. */
    const void *d_context;
    void *dq;
    float *dk, *dv; /* [keys][head_size], the sums over these queries; written */
} stk_attention_share;

typedef struct stk_attention_table {
    size_t (*scratch)(uint32_t keys, uint32_t head_size); /* bytes; enough for both */
    void (*forward)(const stk_attention_share *share, void *scratch);
    void (*backward)(const stk_attention_share *share, void *scratch);
} stk_attention_table;

void stk_attention_fill_c(stk_attention_table *table);
void stk_attention_fill_avx2(stk_attention_table *table);
void stk_attention_fill_avx512(stk_attention_table *table);

#endif
