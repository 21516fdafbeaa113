/* SPDX-License-Identifier: Apache-2.0
 *
 * The stream between blocks is f32; what enters the products of a backward pass has the type of the run and,
 * under drop path, the factor of its sample. These rows are made from the stream a few at a time.
 */
#ifndef STOKE_SRC_NET_OPS_SCALED_H
#define STOKE_SRC_NET_OPS_SCALED_H

#include "src/net/exec.h"

typedef struct stk_scaled {
    const float *x;
    uint32_t channels;
    const float *scale; /* NULL, or one factor per sample */
    size_t sample_rows;
    stk_float type;
} stk_scaled;

/* The array itself where nothing has to be done. `scaled` must outlive the rows. */
stk_exec_rows stk_scaled_rows(const stk_scaled *scaled);

#endif
