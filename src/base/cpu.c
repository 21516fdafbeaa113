/* SPDX-License-Identifier: Apache-2.0
 *
 * Instruction sets, found once.
 */
#include "src/base/cpu.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* A jump out of a signal handler. A child process would be simpler, but a library must not fork a program
 * with threads only to look at the processor.
 */

enum { SIGNALS = 2 };
static const int signals[SIGNALS] = { SIGILL, SIGSEGV };
static struct sigaction before[SIGNALS];
static pthread_t trying;
static sigjmp_buf escape;

static void on_fault(int number)
{
    if (pthread_equal(pthread_self(), trying)) siglongjmp(escape, 1);
    /* Another thread's own fault: it will happen again, under the handler that was there. */
    for (int i = 0; i < SIGNALS; i++)
        if (signals[i] == number) sigaction(number, &before[i], NULL);
}

int stk_probe_insn(int (*fn)(void))
{
    struct sigaction action = { .sa_handler = on_fault };
    sigset_t ours, mask;
    sigemptyset(&action.sa_mask);
    sigemptyset(&ours);
    trying = pthread_self();
    for (int i = 0; i < SIGNALS; i++) {
        sigaddset(&ours, signals[i]);
        sigaction(signals[i], &action, &before[i]);
    }
    /* A fault whose signal is blocked kills the process, handler or not. */
    pthread_sigmask(SIG_UNBLOCK, &ours, &mask);
    volatile int answer = 0;
    if (!sigsetjmp(escape, 1)) answer = fn();
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    for (int i = 0; i < SIGNALS; i++) sigaction(signals[i], &before[i], NULL);
    return answer;
}

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A level is a bundle: AVX2 stands for AVX2, FMA and F16C (every processor since Haswell and Excavator has
 * all three), AVX-512 for F, BW, DQ and VL, AMX for those, AVX512-BF16 and tiles of bf16. Only src/net uses
 * FMA and tiles; pixels must not depend on them (see meson.build, -ffp-contract=off). */
static stk_cpu_level find_vectors(void)
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

/* AVX512-BF16 (leaf 7.1, eax), AMX-BF16 and AMX-TILE (leaf 7.0, edx). Leaves 0x1D and 0x1E, the sizes of the
 * tiles, are not read: some virtual machines leave them zero on processors whose tiles work. Palette 1 is
 * what they would say, 8 tiles of 16 rows of 64 bytes. */
static int tiles_announced(void)
{
    enum { AVX512_BF16 = 1 << 5, AMX_BF16 = 1 << 22, AMX_TILE = 1 << 24 };
    unsigned a, b, c, d;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d & AMX_BF16) || !(d & AMX_TILE)) return 0;
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & AVX512_BF16);
}

/* One product of two tiles of ones: 32 in every element. */
__attribute__((target("amx-tile,amx-bf16"))) static int try_tiles(void)
{
    /* Palette 1, three tiles of 16 rows of 64 bytes. */
    static const struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } config __attribute__((aligned(64))) = { 1, 0, { 0 }, { 64, 64, 64 }, { 16, 16, 16 } };
    uint16_t ones[16 * 32];
    float sums[16 * 16];
    for (int i = 0; i < 16 * 32; i++) ones[i] = 0x3f80; /* 1 in bf16 */
    __asm__ volatile("" ::"r"(ones) : "memory");        /* the intrinsics do not say what they read */
    _tile_loadconfig(&config);
    _tile_zero(0);
    _tile_loadd(1, ones, 64);
    _tile_loadd(2, ones, 64);
    _tile_dpbf16ps(0, 1, 2);
    _tile_stored(0, sums, 64);
    _tile_release();
    __asm__ volatile("" ::"r"(sums) : "memory");
    int right = 1;
    for (int i = 0; i < 16 * 16; i++) right &= sums[i] == 32.0f;
    return right;
}

/* Linux gives the 8 KB of tiles only to processes that ask (5.16 and later; earlier ones say EINVAL, and
 * ENOSPC means that a thread's signal stack could not hold them). */
static int tiles_work(void)
{
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
    return tiles_announced() && !syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) &&
           stk_probe_insn(try_tiles);
}
#else
static stk_cpu_level find_vectors(void)
{
    return STK_CPU_C;
}

static int tiles_work(void)
{
    return 0;
}
#endif

static pthread_once_t detect_once = PTHREAD_ONCE_INIT, choose_once = PTHREAD_ONCE_INIT;
static stk_cpu_level detected, in_use;

static void detect(void)
{
    detected = find_vectors();
    if (detected == STK_CPU_AVX512 && tiles_work()) detected = STK_CPU_AMX;
}

stk_cpu_level stk_cpu_detected(void)
{
    pthread_once(&detect_once, detect);
    return detected;
}

const char *stk_cpu_level_name(stk_cpu_level level)
{
    static const char *const names[STK_CPU_LEVELS] = { "c", "avx2", "avx512", "amx" };
    return names[level];
}

static void choose(void)
{
    const char *word = getenv("STOKE_CPU");
    stk_cpu_level cap = STK_CPU_AMX;
    for (stk_cpu_level level = STK_CPU_C; word && level < STK_CPU_AMX; level++)
        if (!strcmp(word, stk_cpu_level_name(level))) cap = level;
    const stk_cpu_level have = cap == STK_CPU_AMX ? stk_cpu_detected() : find_vectors();
    in_use = have < cap ? have : cap;
}

stk_cpu_level stk_cpu_level_in_use(void)
{
    pthread_once(&choose_once, choose);
    return in_use;
}
