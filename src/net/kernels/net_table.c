/* SPDX-License-Identifier: Apache-2.0
 *
 * Fills the function table: C first, then what the processor does faster.
 */
#include "src/net/kernels/net_table.h"

#include <pthread.h>

static void fill_c(stk_net_table *table)
{
    stk_attention_fill_c(&table->attention);
    stk_conv_fill_c(&table->conv);
    stk_depthwise_fill_c(&table->depthwise);
    stk_gemm_fill_c(&table->gemm);
    stk_head_fill_c(&table->head);
    stk_layernorm_fill_c(&table->layernorm);
    stk_loss_fill_c(&table->loss);
    stk_update_fill_c(&table->update);
    stk_peak_fill_c(&table->peak);
}

#if defined(__x86_64__)
static void fill_avx2(stk_net_table *table)
{
    stk_attention_fill_avx2(&table->attention);
    stk_conv_fill_avx2(&table->conv);
    stk_depthwise_fill_avx2(&table->depthwise);
    stk_gemm_fill_avx2(&table->gemm);
    stk_head_fill_avx2(&table->head);
    stk_layernorm_fill_avx2(&table->layernorm);
    stk_loss_fill_avx2(&table->loss);
    stk_update_fill_avx2(&table->update);
    stk_peak_fill_avx2(&table->peak);
}

static void fill_avx512(stk_net_table *table)
{
    stk_attention_fill_avx512(&table->attention);
    stk_conv_fill_avx512(&table->conv);
    stk_depthwise_fill_avx512(&table->depthwise);
    stk_gemm_fill_avx512(&table->gemm);
    stk_head_fill_avx512(&table->head);
    stk_layernorm_fill_avx512(&table->layernorm);
    stk_loss_fill_avx512(&table->loss);
    stk_update_fill_avx512(&table->update);
    stk_peak_fill_avx512(&table->peak);
}
#endif

void stk_net_table_fill(stk_net_table *table, stk_cpu_level level)
{
    table->level = level;
    fill_c(table);
#if defined(__x86_64__)
    if (level >= STK_CPU_AVX2) fill_avx2(table);
    if (level >= STK_CPU_AVX512) fill_avx512(table);
    if (level >= STK_CPU_AMX) {
        stk_gemm_fill_amx(&table->gemm);
        stk_peak_fill_amx(&table->peak);
    }
#endif
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static stk_net_table in_use;

static void choose(void)
{
    stk_net_table_fill(&in_use, stk_cpu_level_in_use());
}

const stk_net_table *stk_net_table_get(void)
{
    pthread_once(&once, choose);
    return &in_use;
}
