/* SPDX-License-Identifier: Apache-2.0
 *
 * Reference first, then what the processor does faster.
 *
 * There is no AVX-512 column: a column that nobody here can run is a column nobody can trust. Such processors
 * use the AVX2 entries.
 */
#include "src/pix/pix_table.h"

#include <pthread.h>
#include <stoke/tools/machine.h>

void stk_pix_table_fill(stk_pix_table *table, stk_cpu_level level)
{
    *table = stk_pix_c;
#if defined(__x86_64__)
    if (level >= STK_CPU_AVX2) {
        stk_pix_fill_resize_avx2(table);
        stk_pix_fill_write_avx2(table);
        stk_pix_fill_warp_avx2(table);
        stk_pix_fill_mix_avx2(table);
        stk_pix_fill_color_avx2(table);
        stk_pix_fill_noise_avx2(table);
    }
#endif
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static stk_pix_table chosen;

static void choose(void)
{
    stk_pix_table_fill(&chosen, stk_cpu_level_in_use());
}

const stk_pix_table *stk_pix(void)
{
    pthread_once(&once, choose);
    return &chosen;
}

const char *stoke_machine_cpu_table(void)
{
    return stk_cpu_level_name(stk_cpu_level_in_use() >= STK_CPU_AVX2 ? STK_CPU_AVX2 : STK_CPU_C);
}
