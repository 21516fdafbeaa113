/* SPDX-License-Identifier: Apache-2.0
 *
 * How fast the pixel functions are: every entry of the function table, for every CPU table this processor
 * has.
 *
 * A call works on what a batch row of 512 x 512 pixels needs, or on a strip of it, again and again; the time
 * is the best of many runs, which on a shared machine is the one nobody disturbed. The tables of a function
 * take turns, so `speedup` survives a neighbour that comes and goes. STOKE_CPU is not looked at.
 *
 * Bytes moved are those of all inputs and outputs, each counted once. They are set against the memory
 * bandwidth of one core: memcpy of 128 MiB (read and written bytes counted) in the same run. Where the
 * working set fits a cache the share may exceed 1: it says how far the function is from being limited by
 * memory, not that it used any. A large share of a working set in memory leaves nothing to gain.
 */
#ifndef STOKE_TOOLS_PIXBENCH_H
#define STOKE_TOOLS_PIXBENCH_H

#include <stoke/common.h>

typedef enum stoke_pix_state {
    STOKE_PIX_MEASURED = 0,
    STOKE_PIX_SAME,  /* the table has no function of its own here: that of the table before serves */
    STOKE_PIX_ABSENT /* this processor lacks the table */
} stoke_pix_state;

typedef struct stoke_pix_figure {
    const char *function; /* "resize_h_u8c3"; lives as long as the library */
    const char *table;    /* "c", "avx2", "avx512" */
    stoke_pix_state state;
    /* The rest is 0 unless measured. */
    double ns_per_pixel;
    double ticks_per_pixel; /* of the time stamp counter; 0 where there is none */
    double speedup;         /* over the C function */
    uint64_t bytes;         /* moved by one call; a row that is written over was read, and counts twice */
    const char *place;      /* where its working set fits (there such a row counts once): "L1", "L2", "L3",
                               "memory"; "n/a": cache sizes unknown */
    double gb_per_s;        /* 1e9 bytes moved per second */
    double memory_share;    /* gb_per_s / memory bandwidth */
} stoke_pix_figure;

typedef struct stoke_pix_bench_params {
    uint32_t struct_size;
    const char *only; /* functions whose name begins so; NULL = all */
    int quick;        /* 1: a hundredth of the time, to see that it runs */
} stoke_pix_bench_params;
STOKE_API stoke_pix_bench_params stoke_pix_bench_defaults(void);

/* Called for every function and table, in the order of the table. A non-zero return asks to stop. */
typedef int (*stoke_pix_bench_fn)(void *context, const stoke_pix_figure *figure);

/* *memory_gb_per_s is set before the first call of `each`. params NULL = defaults. Returns STOKE_E_NOTFOUND
 * when no function is called so. */
STOKE_API int stoke_pix_bench(const stoke_pix_bench_params *params, stoke_pix_bench_fn each, void *context,
                              double *memory_gb_per_s, stoke_error *err);

#endif
