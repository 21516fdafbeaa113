/* SPDX-License-Identifier: Apache-2.0
 *
 * FUZZ_TARGET(NAME) { ... } is what a fuzz target does with `size` `bytes`: alone with libFuzzer (FUZZ_ALONE), or one of many
 * in the program that replays the corpus (replay.c).
 */
#ifndef STOKE_TESTS_FUZZ_FUZZ_H
#define STOKE_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#ifdef FUZZ_ALONE
#define FUZZ_TARGET(NAME)                                                                                    \
    int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);                                           \
    int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
#else
typedef struct fuzz_target {
    const char *name;
    int (*run)(const uint8_t *bytes, size_t size);
    struct fuzz_target *next;
} fuzz_target;

void fuzz_target_enter(fuzz_target *target);

#define FUZZ_TARGET(NAME)                                                                                    \
    static int fuzz_run_##NAME(const uint8_t *bytes, size_t size);                                           \
    __attribute__((constructor)) static void fuzz_enter_##NAME(void)                                         \
    {                                                                                                        \
        static fuzz_target target = { #NAME, fuzz_run_##NAME, NULL };                                        \
        fuzz_target_enter(&target);                                                                          \
    }                                                                                                        \
    static int fuzz_run_##NAME(const uint8_t *bytes, size_t size)
#endif

static inline void insist(int truth)
{
    if (!truth) abort();
}

#endif
