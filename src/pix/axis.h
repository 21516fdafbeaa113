/* SPDX-License-Identifier: Apache-2.0
 *
 * Coefficients of one axis of an antialiased bilinear resize.
 */
#ifndef STOKE_SRC_PIX_AXIS_H
#define STOKE_SRC_PIX_AXIS_H

#include "src/base/mem.h"
#include "src/pix/pix_table.h"

/* An axis and the memory its tables live in; zeroed = empty. Rebuilt only when sizes or depth change. */
typedef struct stk_axis_store {
    stk_pix_resize_axis axis;
    stk_mem_buffer buffer;
    uint8_t depth; /* 1: int16 weights, 2: float weights */
} stk_axis_store;

/* Makes the coefficients of in -> out pixels; both at least 1. Returns 0 when memory is short. */
int stk_axis_build(stk_axis_store *store, uint32_t in, uint32_t out, uint8_t depth);

/* Bytes stk_axis_build takes (SIZE_MAX: more than an address space), and the largest number of taps. */
size_t stk_axis_bytes(uint32_t in, uint32_t out, uint8_t depth);
size_t stk_axis_most(uint32_t in, uint32_t out);

#endif
