/* SPDX-License-Identifier: Apache-2.0
 *
 * Advice before anything runs: what fits in memory, which settings to start from.
 */
#ifndef STOKE_TOOLS_ADVISE_H
#define STOKE_TOOLS_ADVISE_H

#include <stdio.h>

#include <stoke/tools/probe.h>

/* ---- memory ---- */

typedef enum stoke_engine {
    STOKE_ENGINE_NATIVE = 0 /* ours, in host memory */,
    STOKE_ENGINE_TORCH = 1 /* on a card */
} stoke_engine;

typedef struct stoke_estimate_params {
    uint32_t struct_size;
    const char *model; /* b0 .. b5, or "resnet" (base_channels, num_blocks) */
    uint32_t batch, height, width, classes;
    int task; /* stoke_task; auto: segment, but of a resnet with 3 classes restore: its result is a picture */
    int precision; /* stoke_precision; fp16 and bf16 are autocast for torch: masters stay fp32 */
    int optimizer; /* stoke_optimizer */
    int freeze_encoder, average;
    int memory;                         /* stoke_memory_mode of the native engine */
    uint32_t prefetch;                  /* batches on the device */
    uint32_t base_channels, num_blocks; /* of resnet; 0: the network's own */
    uint32_t scale; /* task restore: sides of the result per side of the picture; 0 is 1 */
} stoke_estimate_params;
STOKE_API stoke_estimate_params stoke_estimate_defaults(void);
/* Classes where nobody says how many: 19 of a SegFormer, as Cityscapes has; 3 of resnet, whose result is a
 * picture. */
STOKE_API uint32_t stoke_estimate_classes(const char *model);
/* The batch that `auto` is on this machine's processor: up to 8, a usual number, that leave a quarter of what
 * is free alone. The params' own batch does not count. 8 where the network is none of the engine's. */
STOKE_API uint32_t stoke_estimate_auto(const stoke_estimate_params *params);

/* What nobody says, so that something usual stands for it. */
typedef enum stoke_assumed {
    STOKE_ASSUMED_MODEL = 1,
    STOKE_ASSUMED_BATCH = 2,
    STOKE_ASSUMED_SIZE = 4,
    STOKE_ASSUMED_CLASSES = 8,
    STOKE_ASSUMED_PRECISION = 16
} stoke_assumed;
/* Puts what a settings file of any dialect says into params. A network that params names already counts
 * before the file's; its name is kept in `model`. A PyTorch trainer's file that says no precision trains in
 * fp32; the size of pictures that it does not say is that of the set it names, where that can be read.
 * *assumed is a sum of stoke_assumed. STOKE_E_UNSUPPORTED: a network that the estimate does not know. */
STOKE_API int stoke_estimate_config(stoke_estimate_params *params, const char *config, char model[32],
                                    unsigned *assumed, stoke_error *err);

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
STOKE_API const char *stoke_memory_term_meaning(int term); /* "kept for the backward pass" */

typedef struct stoke_estimate {
    uint64_t bytes[STOKE_TERMS];
    /* Of the process, as nvidia-smi lists it, and the range that the figures behind it leave. What fits is
     * decided by `high`. */
    uint64_t total, low, high;
    /* Of it, what PyTorch's allocator counts: tensors (torch.cuda.max_memory_allocated), and what it takes of
     * the card for them (max_memory_reserved). Ours: all of it. */
    uint64_t allocated, reserved, reserved_low, reserved_high;
    /* What nvidia-smi shows in use of a card that also draws a desktop, with a CUDA that loads all kernels at
     * once (before 11.7): `total` and about 1.2 GiB. 0 = there is no card. */
    uint64_t card;
    int dominant; /* stoke_memory_term */
    uint64_t parameters;
    int source; /* stoke_source: estimated, or a calibration by a measured run */
} stoke_estimate;
STOKE_API int stoke_estimate_make(stoke_estimate *estimate, stoke_engine engine,
                                  const stoke_estimate_params *params, stoke_error *err);

/* What the engine makes of the precision asked for: "fp32", "autocast", "bf16"; n/a of an unknown model. */
STOKE_API const char *stoke_estimate_precision(stoke_engine engine, const stoke_estimate_params *params);
/* For people, in whole lines: what was asked ("b2, 27361235 parameters, batch 4, ..."), what it comes to, and
 * the same memory of torch as the allocator, nvidia-smi and a card's owner count it. */
STOKE_API void stoke_estimate_subject(FILE *out, const stoke_estimate *estimate,
                                      const stoke_estimate_params *params);
STOKE_API void stoke_estimate_verdict(FILE *out, const stoke_estimate *estimate, stoke_engine engine,
                                      const stoke_estimate_params *params);
STOKE_API void stoke_estimate_levels(FILE *out, const stoke_estimate *estimate);

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
    int source; /* table (usual), measured, given, estimated */
    char why[256];
} stoke_recommendation;

enum { STOKE_RECOMMENDATIONS = 24, STOKE_EXPECTATIONS = 4 };
typedef struct stoke_advice {
    char subject[128]; /* "RTX 3090, 24 GB" */
    uint64_t memory;   /* of the card, by its name where none was given; 0 = no card, or one not named */
    stoke_recommendation line[STOKE_RECOMMENDATIONS];
    size_t n;
    uint32_t table_batch; /* that is usual, before it is cut to what fits; 0 = none is */
    /* What people are told to expect with these settings ("time of an epoch"): of a task that is not yours.
     */
    stoke_recommendation expected[STOKE_EXPECTATIONS];
    size_t n_expected;
    char remark[512]; /* where the tables and the estimate disagree, say */
} stoke_advice;

typedef struct stoke_recommend_params {
    uint32_t struct_size;
    const char *gpu;       /* "rtx3090", "RTX 3090", as found by NVML; NULL = by memory, or the one found */
    uint64_t memory;       /* of the card; 0 = not given */
    int some_card;         /* with neither: for a card that nobody named, not for the processor. What depends
                              on its memory is left out */
    const char *task;      /* "segformer", "resnet" */
    uint32_t cores, ranks; /* usable ones, and processes that share them */
    int cores_source;      /* stoke_source: measured (of this machine) or given; 0 = those of the machine with
                              the card are not known */
    uint64_t host_memory;
} stoke_recommend_params;
STOKE_API stoke_recommend_params stoke_recommend_defaults(void);
/* Usual settings, cut to what the estimate lets fit and to the cores there are; each line says which it is.
 */
STOKE_API int stoke_recommend(stoke_advice *advice, const stoke_recommend_params *params, stoke_error *err);
/* 1: two names of one card ("RTX 3090", "NVIDIA GeForce RTX 3090"). */
STOKE_API int stoke_card_same(const char *a, const char *b);

/* ---- which model ---- */

typedef struct stoke_model_choice {
    const char *model;          /* "b0" */
    uint32_t million, table_gb; /* parameters, and the memory that is usual for it */
    const char *use;            /* what it is usually taken for */
    uint32_t batch;             /* the largest that fits, at `side`; 0 = none does */
    uint32_t side;
    double hours; /* of `epochs` over `samples`, emulated by the card's bandwidth; 0 = not known */
    int fits, chosen;
    char why[160];
} stoke_model_choice;

enum { STOKE_MODELS = 6 };
typedef struct stoke_choose_params {
    uint32_t struct_size;
    const char *gpu;
    uint64_t memory;          /* as stoke_recommend_params; with neither, the processor's */
    uint32_t side, classes;   /* 0 = what is usual for the model; 19 */
    uint32_t samples, epochs; /* of the training set; 0 = not known; 100 */
    double hours;             /* that it may take; 0 = as long as it likes */
} stoke_choose_params;
STOKE_API stoke_choose_params stoke_choose_defaults(void);
/* b0 to b5: which fit, which are worth it for so many pictures, which end in time. One is chosen, or none
 * where nothing fits. */
STOKE_API int stoke_choose_model(stoke_model_choice choices[STOKE_MODELS], const stoke_choose_params *params,
                                 stoke_error *err);

#endif
