/* SPDX-License-Identifier: Apache-2.0
 *
 * How fast the mathematics of the network is: every matrix product of a model, for every CPU table this
 * processor has, against the peak measured in the same run.
 *
 * Rows rotate through more memory than the caches hold, as in a training step; the best run counts, which on
 * a shared machine is the one nobody disturbed. Tables take turns. STOKE_CPU is not looked at.
 */
#ifndef STOKE_TOOLS_NETBENCH_H
#define STOKE_TOOLS_NETBENCH_H

#include <stoke/memory.h>
#include <stoke/net.h>

/* Multiply-adds as fast as the processor does them, nothing else: 1e9 operations (2 per multiply-add) per
 * second of `threads` threads (0: all usable cores) in the best table in use. For bf16 the native unit where
 * there is one, else as fp32. Takes about 0.2 s. 0 when threads cannot be started. */
STOKE_API double stoke_net_peak_gflops(uint32_t threads, stoke_precision precision);
/* The functions in use: "c", "avx2", "avx512", "amx" (STOKE_CPU caps them). */
STOKE_API const char *stoke_net_table_in_use(void);

typedef struct stoke_net_figure {
    const char *model;     /* "b0" */
    char layer[96];        /* "stage 1 fc1"; numbers that layers of one kind and shape differ by are a * */
    const char *pass;      /* "forward", "input" (dX = dY W; all of the way back of attention), "weight" (dW =
                              dY^T X) */
    const char *table;     /* "c", "avx2", "avx512", "amx" */
    const char *precision; /* "fp32", "bf16" */
    uint32_t rows, in, out; /* of a convolution as one of patches; of attention queries, channels, 2 keys */
    uint32_t calls;         /* in one step of the model */
    double ms;              /* one call */
    double gflops;
    double peak; /* GFLOP/s of that table and precision, the best of this run so far: that of the last figure
                    counts for all, since whoever disturbs the first measurement makes it too low */
} stoke_net_figure;

typedef struct stoke_net_bench_params {
    uint32_t struct_size;
    const char *model;                      /* NULL: b0, b2, b5 */
    const char *only;                       /* layers whose name contains it; NULL: all */
    uint32_t batch, height, width, classes; /* 4, 256, 256, 19 */
    uint32_t threads;                       /* 0: all usable cores */
    int quick;                              /* 1: a fraction of the time, to see that it runs */
    uint64_t memory_limit;                  /* 0 = none; STOKE_E_LIMIT when the largest product needs more */
    /* Hears what will be taken of memory, before it is; may be NULL. */
    void (*planned)(void *context, const stoke_memory_sum *sum);
    void *planned_context;
} stoke_net_bench_params;
STOKE_API stoke_net_bench_params stoke_net_bench_defaults(void);

/* Called for every product; a non-zero return asks to stop. done and total count figures, for a progress bar.
 */
typedef int (*stoke_net_bench_fn)(void *context, const stoke_net_figure *figure, uint64_t done,
                                  uint64_t total);
/* STOKE_E_NOTFOUND: no layer or model is called so. */
STOKE_API int stoke_net_bench(const stoke_net_bench_params *params, stoke_net_bench_fn each, void *context,
                              stoke_error *err);

#endif
