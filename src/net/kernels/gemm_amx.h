/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the files of the AMX column of gemm.
 */
#ifndef STOKE_SRC_NET_KERNELS_GEMM_AMX_H
#define STOKE_SRC_NET_KERNELS_GEMM_AMX_H

#include "src/net/kernels/net_table.h"
#include "src/net/kernels/tiles.h"

enum {
    /* What is packed at a time: 256 rows of up to 256 outputs and 512 inputs, 128 and 256 KB, which stay in a
     * second-level cache of 2 MB. */
    STK_OUTER_ROWS = 256,
    STK_OUTER_N = 256,
    STK_OUTER_K = 512,
    STK_OUTER_SCRATCH = 2 * STK_OUTER_ROWS * (STK_OUTER_N + STK_OUTER_K)
};
void STK_TILES(stk_outer)(const stk_gemm_outer *outer);

#endif
