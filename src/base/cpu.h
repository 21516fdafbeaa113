/* SPDX-License-Identifier: Apache-2.0
 *
 * Instruction sets the processor and the system really support, capped by STOKE_CPU.
 */
#ifndef STOKE_SRC_BASE_CPU_H
#define STOKE_SRC_BASE_CPU_H

typedef enum stk_cpu_level {
    STK_CPU_C = 0,
    STK_CPU_AVX2 = 1,
    STK_CPU_AVX512 = 2,
    STK_CPU_AMX = 3
} stk_cpu_level;
enum { STK_CPU_LEVELS = 4 };

/* What the processor has (operating system support for the registers included). Found once. Where AMX is
 * announced this asks the system for its tiles, for the whole process, and tries one product of them: some
 * virtual machines announce what they then refuse. */
stk_cpu_level stk_cpu_detected(void);
/* min(detected, STOKE_CPU). An unknown word in STOKE_CPU is ignored. Read once, at the first call. A cap
 * below "amx" leaves the tiles unasked for. */
stk_cpu_level stk_cpu_level_in_use(void);
const char *stk_cpu_level_name(stk_cpu_level level); /* "c", "avx2", "avx512", "amx" */

#endif
