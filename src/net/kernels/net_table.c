/* SPDX-License-Identifier: Apache-2.0
 *
 * Fills the function table: C first, then what the processor does faster.
 */
#include "src/net/kernels/net_table.h"

#include <pthread.h>

void stk_net_table_fill(stk_net_table *table, stk_cpu_level level)
{
#define FILL_C(name)      stk_##name##_fill_c(&table->name);
#define FILL_AVX2(name)   stk_##name##_fill_avx2(&table->name);
#define FILL_AVX512(name) stk_##name##_fill_avx512(&table->name);
    table->level = level;
    STK_NET_SECTIONS(FILL_C)
#if defined(__x86_64__)
    if (level >= STK_CPU_AVX2) {
        STK_NET_SECTIONS(FILL_AVX2)
    }
    if (level >= STK_CPU_AVX512) {
        STK_NET_SECTIONS(FILL_AVX512)
    }
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
