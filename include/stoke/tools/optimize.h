/* SPDX-License-Identifier: Apache-2.0
 *
 * What to change in a settings file (<stoke/tools/config.h>) so that training goes faster on a given machine.
 */
#ifndef STOKE_TOOLS_OPTIMIZE_H
#define STOKE_TOOLS_OPTIMIZE_H

#include <stoke/tools/config.h>

typedef struct stoke_change {
    const char *setting;
    char path[128], from[128], to[128]; /* from "" = the key is new */
    char why[256], effect[256];
    int source; /* stoke_source: table (usual), measured, given, estimated, emulated */
} stoke_change;

typedef struct stoke_optimize_params {
    uint32_t struct_size;
    const char *config;
    const char *gpu; /* as stoke_recommend_params; with neither, for any card, as far as that goes */
    uint64_t memory;
    uint32_t cores, ranks; /* cores 0 = those usable here, unless: */
    int elsewhere;         /* the card is in another machine: cores that are not given are not known */
    uint64_t host_memory;
    int allow_model_scale;  /* base_channels, num_blocks, patch_size too: another experiment */
    const char *const *map; /* "setting=path", NULL-terminated; NULL = none */
    int by_trials; /* the batch is searched by trials, and where none can be made it stays; the result is
                      called x_optimized.yaml */
    /* A batch found by trials (findbatch.h), which replaces the table's and may also be less than the file's.
     * 0 = none. */
    uint32_t measured_batch,
        measured_largest;      /* the largest that fits; 0 = the set, not memory, was the limit */
    int measured_source;       /* stoke_source: measured, or emulated on a simulated GPU */
    int measured_on_processor; /* ... and not on the card: what does not fit there by the estimate is cut */
    const char *measured_why;  /* a sentence; NULL = none */
    uint32_t measured_workers; /* that a diagnosis found best; 0 = the table's, cut to the cores less one */
} stoke_optimize_params;
STOKE_API stoke_optimize_params stoke_optimize_defaults(void);

typedef struct stoke_optimization stoke_optimization;
/* Decides, and plans the changes; writes nothing. */
STOKE_API int stoke_optimize(stoke_optimization **out, const stoke_optimize_params *params, stoke_error *err);
STOKE_API void stoke_optimization_destroy(stoke_optimization **optimization);
/* Returns 0 past the last one. */
STOKE_API int stoke_optimization_change(const stoke_optimization *optimization, size_t index,
                                        stoke_change *change);
/* What was left as it is, and why (refused spans, values that are right already): a sentence each; NULL past
 * the last one. */
STOKE_API const char *stoke_optimization_remark(const stoke_optimization *optimization, size_t index);
/* After writing. 1: it has new keys that count only where the trainer reads them, and a comment above them
 * says so; 2: it has such keys where no comment can stand (JSON, braces); 0: it has none. */
STOKE_API int stoke_optimization_marked(const stoke_optimization *optimization);
/* Where the result goes: configs/x_config.yaml -> configs/x_gpu_optimized.yaml, or with `by_trials`
 * x_gpu_optimized.yaml -> x_gpu_optimized_optimized.yaml. */
STOKE_API const char *stoke_optimization_target(const stoke_optimization *optimization);
/* 1: this file has the result already, byte for byte. */
STOKE_API int stoke_optimization_is_at(stoke_optimization *optimization, const char *path);
STOKE_API int stoke_optimization_write(stoke_optimization *optimization, const char *path,
                                       stoke_yaml_proof *proof, stoke_error *err);

#endif
