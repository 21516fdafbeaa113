/* SPDX-License-Identifier: Apache-2.0
 *
 * Fills tables with the emulated columns.
 */
#include "tests/check/net_emulated.h"

#if NET_EMULATED
/* What STK_SIMD(stk_X_fill) is called in the emulated build. */
void stk_attention_fill_emulated(stk_attention_table *table);
void stk_conv_fill_emulated(stk_conv_table *table);
void stk_conv3_fill_emulated(stk_conv3_table *table);
void stk_depthwise_fill_emulated(stk_depthwise_table *table);
void stk_gemm_fill_emulated(stk_gemm_table *table);
void stk_head_fill_emulated(stk_head_table *table);
void stk_layernorm_fill_emulated(stk_layernorm_table *table);
void stk_loss_fill_emulated(stk_loss_table *table);
void stk_peak_fill_emulated(stk_peak_table *table);
void stk_update_fill_emulated(stk_update_table *table);
void stk_gemm_fill_amx_emulated(stk_gemm_table *table);
void stk_peak_fill_amx_emulated(stk_peak_table *table);

void net_fill_emulated_avx512(stk_net_table *table)
{
    stk_net_table_fill(table, STK_CPU_C);
    table->level = STK_CPU_AVX512;
    stk_attention_fill_emulated(&table->attention);
    stk_conv_fill_emulated(&table->conv);
    stk_conv3_fill_emulated(&table->conv3);
    stk_depthwise_fill_emulated(&table->depthwise);
    stk_gemm_fill_emulated(&table->gemm);
    stk_head_fill_emulated(&table->head);
    stk_layernorm_fill_emulated(&table->layernorm);
    stk_loss_fill_emulated(&table->loss);
    stk_peak_fill_emulated(&table->peak);
    stk_update_fill_emulated(&table->update);
}

void net_fill_emulated_amx(stk_net_table *table)
{
    net_fill_emulated_avx512(table);
    table->level = STK_CPU_AMX;
    stk_gemm_fill_amx_emulated(&table->gemm);
    stk_peak_fill_amx_emulated(&table->peak);
}
#else
void net_fill_emulated_avx512(stk_net_table *table)
{
    stk_net_table_fill(table, STK_CPU_C);
}

void net_fill_emulated_amx(stk_net_table *table)
{
    stk_net_table_fill(table, STK_CPU_C);
}
#endif
