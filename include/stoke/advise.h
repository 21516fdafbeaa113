/* SPDX-License-Identifier: Apache-2.0
 *
 * Advice before anything runs: what fits in memory, which settings to start from.
 */
#ifndef STOKE_ADVISE_H
#define STOKE_ADVISE_H

#include <stoke/probe.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- memory ---- */

typedef enum stoke_engine {
    STOKE_ENGINE_NATIVE = 0 /* ours, in host memory */,
    STOKE_ENGINE_TORCH = 1 /* on a card */
} stoke_engine;

typedef struct stoke_estimate_params {
    uint32_t struct_size;
    const char *model; /* b0 .. b5, or "smallnet" (base_channels, num_blocks) */
    uint32_t batch, height, width, classes;
    int precision; /* stoke_precision; fp16 and bf16 are autocast for torch: masters stay fp32 */
    int optimizer; /* stoke_optimizer */
    int freeze_encoder, average;
    uint32_t prefetch;                  /* batches on the device */
    uint32_t base_channels, num_blocks; /* of smallnet */
} stoke_estimate_params;
STOKE_API stoke_estimate_params stoke_estimate_defaults(void);

typedef enum stoke_memory_term {
    STOKE_TERM_WEIGHTS = 0,
    STOKE_TERM_GRADIENTS,
    STOKE_TERM_OPTIMIZER,
    STOKE_TERM_EXTRA, /* autocast's copies, packed weights, moving average */
    STOKE_TERM_ACTIVATIONS,
    STOKE_TERM_LOGITS, /* at the size of the pictures, and their gradient */
    STOKE_TERM_BATCHES,
    STOKE_TERM_WORKSPACE,
    STOKE_TERM_CONTEXT, /* of the driver; of the process */
    STOKE_TERM_FRAGMENTS,
    STOKE_TERMS
} stoke_memory_term;
STOKE_API const char *stoke_memory_term_name(int term);

typedef struct stoke_estimate {
    uint64_t bytes[STOKE_TERMS];
    uint64_t total, low, high; /* the range the figures behind it leave */
    int dominant;              /* stoke_memory_term */
    uint64_t parameters;
    int source; /* stoke_source: estimated, or a calibration by a measured run */
} stoke_estimate;
STOKE_API int stoke_estimate_make(stoke_estimate *estimate, stoke_engine engine,
                                  const stoke_estimate_params *params, stoke_error *err);

/* The inverse: the largest batch (a multiple of `step`), or side of a square picture (a multiple of 32), that
 * leaves `spare` bytes of `memory` free by the high end of the range; 0 = none does. Models are named by
 * params->model. */
STOKE_API int stoke_estimate_batch(stoke_engine engine, const stoke_estimate_params *params, uint64_t memory,
                                   uint64_t spare, uint32_t step, uint32_t *batch, stoke_error *err);
STOKE_API int stoke_estimate_side(stoke_engine engine, const stoke_estimate_params *params, uint64_t memory,
                                  uint64_t spare, uint32_t *side, stoke_error *err);

/* ---- settings to start from ---- */

typedef struct stoke_recommendation {
    const char *key; /* "batch_size" */
    char value[64];
    int source; /* table, measured, estimated */
    char why[256];
} stoke_recommendation;

enum { STOKE_RECOMMENDATIONS = 24 };
typedef struct stoke_advice {
    char subject[128]; /* "RTX 3090, 24 GB" */
    uint64_t memory;   /* of the card, by its name where none was given; 0 = no card */
    stoke_recommendation line[STOKE_RECOMMENDATIONS];
    size_t n;
    char remark[512]; /* where the tables and the estimate disagree, say */
} stoke_advice;

typedef struct stoke_recommend_params {
    uint32_t struct_size;
    const char *gpu;       /* "rtx3090", "RTX 3090", as found by NVML; NULL = by memory, or the one found */
    uint64_t memory;       /* of the card; 0 = not given */
    const char *task;      /* "segformer", "smallnet" */
    uint32_t cores, ranks; /* usable ones, and processes that share them */
    uint64_t host_memory;
} stoke_recommend_params;
STOKE_API stoke_recommend_params stoke_recommend_defaults(void);
/* The tables of the documents, cut to what the estimate lets fit and to the cores there are; each line says
 * which it is. */
STOKE_API int stoke_recommend(stoke_advice *advice, const stoke_recommend_params *params, stoke_error *err);

#ifdef __cplusplus
}
#endif
#endif
