/* SPDX-License-Identifier: Apache-2.0
 *
 * What is known of graphics cards by their names.
 */
#ifndef STOKE_SRC_BASE_GPUS_H
#define STOKE_SRC_BASE_GPUS_H

#include <stddef.h>
#include <stdint.h>

/* A line of gpus.def. */
typedef struct stk_gpu {
    const char *name;     /* as people say it: "RTX 3090" */
    uint32_t gb, also_gb; /* of memory, 2^30 bytes each; another size under the same name, 0: none */
    double capability;    /* NVIDIA's compute capability */
    const char *sim;      /* "rtx3090"; NULL: not simulated, and nothing below is known */
    const char *title;    /* "NVIDIA GeForce RTX 3090" */
    double memory_gb_s, pinned_gb_s, pageable_gb_s;
    uint32_t compute_units;
} stk_gpu;
extern const stk_gpu stk_gpus[];
extern const size_t stk_gpus_count;

/* What a name as typed, or as the driver has it, says. */
typedef struct stk_gpu_name {
    const stk_gpu *gpu;  /* NULL: not in the list */
    uint32_t gb;         /* in the name itself ("A100-SXM4-40GB"); 0 = not */
    int portable;        /* of a laptop: another chip with less memory under the same number */
    const char *nearest; /* a known one, when it is none; NULL: none is near */
} stk_gpu_name;
stk_gpu_name stk_gpu_named(const char *name);

#endif
