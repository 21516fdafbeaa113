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

/* Tries instructions that the processor announces and may still refuse. */

/* What `fn` returns, or 0 when it ended in SIGILL or SIGSEGV. The two handlers are the process's own again
 * afterwards; a fault of another thread meanwhile goes where it would have gone. `fn` must hold nothing that
 * would be lost (no lock, no memory). One attempt at a time. */
int stk_probe_insn(int (*fn)(void));

#endif
