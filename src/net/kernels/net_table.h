/* SPDX-License-Identifier: Apache-2.0
 *
 * The function table of network mathematics: per operation the inner functions one thread runs on its rows.
 * Each operation has its section in a header of its own (gemm.h, layernorm_table.h, ...); the C reference
 * fills it first (stk_X_fill_c), then the vector forms overwrite it (stk_X_fill_avx2, _avx512, and for the
 * gemm _amx). tests/check compares every column the processor has with the reference, and `bench net` times
 * them.
 *
 * Unlike the pixel tables, columns agree to rounding, not to the bit: sums are taken in other orders.
 */
#ifndef STOKE_SRC_NET_KERNELS_NET_TABLE_H
#define STOKE_SRC_NET_KERNELS_NET_TABLE_H

#include "src/base/cpu.h"
#include "src/net/kernels/attention_table.h"
#include "src/net/kernels/conv_table.h"
#include "src/net/kernels/depthwise_table.h"
#include "src/net/kernels/gemm.h"
#include "src/net/kernels/head_table.h"
#include "src/net/kernels/layernorm_table.h"
#include "src/net/kernels/loss_table.h"
#include "src/net/kernels/peak_table.h"
#include "src/net/kernels/update_table.h"

typedef struct stk_net_table {
    stk_cpu_level level;
    stk_gemm_table gemm;
    stk_layernorm_table layernorm;
    stk_depthwise_table depthwise;
    stk_attention_table attention;
    stk_conv_table conv;
    stk_head_table head;
    stk_loss_table loss;
    stk_update_table update;
    stk_peak_table peak;
} stk_net_table;

/* Of a level the processor has (lower ones always work), and of the level in use. */
void stk_net_table_fill(stk_net_table *table, stk_cpu_level level);
const stk_net_table *stk_net_table_get(void);

#endif
