/* SPDX-License-Identifier: Apache-2.0
 *
 * A driver without a card: libcuda.so.1 and libnvrtc for tests. Streams are queues in this process, device
 * memory is host memory behind addresses that crash when the host touches them, kernels are the host's C
 * ones. It keeps books of every object and writes down what a program may not do, and any call can be made to
 * fail.
 *
 * The library is given to the product by STOKE_LIBCUDA; the tests reach these controls by dlsym("fake_cuda").
 * For programs that know nothing of the controls there are variables, read when the library is loaded:
 *
 *   STOKE_FAKE_CUDA_FAIL=N:CODE   the N-th call fails with CODE
 *   STOKE_FAKE_CUDA_STRICT=1      at exit, faults and leaks are printed and the exit status becomes 99
 */
#ifndef STOKE_TESTS_FAKE_FAKE_CUDA_H
#define STOKE_TESTS_FAKE_FAKE_CUDA_H

#include <stddef.h>
#include <stdint.h>

typedef struct fake_cuda_settings {
    int version;            /* what cuDriverGetVersion tells */
    int cards;              /* how many there are, at most 2 */
    int broken_card;        /* the one whose attributes cannot be read; -1 = none */
    int prohibited;         /* compute mode of all cards */
    int architecture;       /* 86 */
    int ptx_max;            /* newest .version that is understood, times 10: 78 */
    size_t memory_bytes;    /* of each card, and what can be pinned at once */
    int eager;              /* 1: work is done when it is given; 0: as late as the interface allows */
    const char *bad_kernel; /* running it is an illegal access; NULL = none */
} fake_cuda_settings;

typedef struct fake_cuda_control {
    /* Settings as they are by default, no faults, no failures; objects are forgotten. Between tests. */
    void (*reset)(void);
    fake_cuda_settings *settings;
    void (*fail_at)(unsigned long call, int code); /* counted from here, 1 is the next; 0 = never */
    unsigned long (*calls)(void);                  /* since fail_at or reset */
    const char *(*failed)(void);                   /* name of the call that was made to fail; "" = none yet */
    const char *(*faults)(void);                   /* what was done wrong, a line each; "" = nothing */
    const char *(*leaks)(void);                    /* what a context still had when it went; "" = nothing */
    int (*contexts)(void);                         /* that somebody holds */
    int (*depth)(void);                            /* contexts on the calling thread's stack */
    uint64_t (*happened)(const void *event);       /* when, ns of CLOCK_MONOTONIC */
} fake_cuda_control;

/* Of libnvrtc: dlsym("fake_nvrtc"). */
typedef struct fake_nvrtc_control {
    void (*reset)(void);
    void (*fail_at)(unsigned long call, int code);
    unsigned long (*calls)(void);
    const char *(*failed)(void);
    int (*programs)(void);                /* alive */
    void (*set_lowest)(int architecture); /* that it compiles for */
} fake_nvrtc_control;

#endif
