/* SPDX-License-Identifier: Apache-2.0
 *
 * Instruction sets, found once.
 */
#include "src/base/cpu.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>

/* A level is a bundle: AVX2 stands for AVX2, FMA and F16C (every processor since Haswell and Excavator has
 * all three), AVX-512 for F, BW, DQ and VL. Only src/net uses FMA; pixels must not depend on it (see
 * meson.build, -ffp-contract=off). */
stk_cpu_level stk_cpu_detected(void)
{
    unsigned a, b, c, d;
    __builtin_cpu_init();
    /* The built-in asks XGETBV too, so it says no when the system does not save the wide registers. F16C
     * works on the same registers, and clang 14 has no name for it: its bit is read by hand. */
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") ||
        !__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_F16C))
        return STK_CPU_C;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return STK_CPU_AVX512;
    return STK_CPU_AVX2;
}
#else
stk_cpu_level stk_cpu_detected(void)
{
    return STK_CPU_C;
}
#endif

const char *stk_cpu_level_name(stk_cpu_level level)
{
    static const char *const names[] = { "c", "avx2", "avx512" };
    return names[level];
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static stk_cpu_level in_use;

static void choose(void)
{
    const char *cap = getenv("STOKE_CPU");
    in_use = stk_cpu_detected();
    for (stk_cpu_level level = STK_CPU_C; cap && level < in_use; level++)
        if (!strcmp(cap, stk_cpu_level_name(level))) in_use = level;
}

stk_cpu_level stk_cpu_level_in_use(void)
{
    pthread_once(&once, choose);
    return in_use;
}
