/* SPDX-License-Identifier: Apache-2.0
 *
 * Changes values in somebody's YAML without touching anything else: comments, order, quoting, anchors, line
 * ends, a BOM and odd indentation stay byte for byte. The file is parsed for structure only; a change
 * replaces the bytes of one scalar, or adds a line. What cannot be changed safely is refused with line and
 * reason.
 */
#ifndef STOKE_SPLICE_H
#define STOKE_SPLICE_H

#include <stoke/common.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct stoke_yaml stoke_yaml;

/* Reads and checks a file: UTF-8, one document, a mapping at the top, no duplicate keys, no tabs in
 * indentation, 4 MiB at most. */
STOKE_API int stoke_yaml_open(stoke_yaml **out, const char *path, stoke_error *err);
/* The same from memory; `name` stands in messages. */
STOKE_API int stoke_yaml_parse(stoke_yaml **out, const char *text, size_t bytes, const char *name,
                               stoke_error *err);
STOKE_API void stoke_yaml_close(stoke_yaml **yaml);

/* The scalar at a path of keys ("data.batch_size"; a key with a dot in it is quoted: 'a."b.c"'). NULL = there
 * is none. The text is the value as YAML reads it, without quotes. */
typedef struct stoke_yaml_value {
    const char *text;
    uint32_t line;
    int quoted;
    const char *fixed; /* why it cannot be changed; NULL = it can */
} stoke_yaml_value;
STOKE_API int stoke_yaml_get(const stoke_yaml *yaml, const char *path, stoke_yaml_value *value);
/* Every scalar, in the order of the file. Returns 0 past the last one. `path` is valid until the yaml is
 * closed. */
STOKE_API int stoke_yaml_at(const stoke_yaml *yaml, size_t index, const char **path, stoke_yaml_value *value);

/* Plans a change; nothing is written yet. A key that is not there is added at the end of its mapping, in the
 * mapping's own style; its parent must exist. `value` is written plain where YAML reads it back as the same
 * text, else quoted. STOKE_E_UNSUPPORTED: it cannot be done safely; the message has file, line and reason. */
STOKE_API int stoke_yaml_set(stoke_yaml *yaml, const char *path, const char *value, stoke_error *err);

typedef struct stoke_yaml_proof {
    size_t spans; /* changed or added */
    uint64_t bytes_kept, bytes_before, bytes_after;
    int bytes_equal; /* everything outside the spans is the same */
    int tree_equal;  /* parsed again, it is the old tree with the changes and nothing else */
} stoke_yaml_proof;
/* The text with all changes; proves both equalities, and fails with STOKE_E_STATE if one does not hold. *text
 * is freed by stoke_yaml_close. */
STOKE_API int stoke_yaml_text(stoke_yaml *yaml, const char **text, size_t *bytes, stoke_yaml_proof *proof,
                              stoke_error *err);
/* The same into a file, whole or not at all; the mode of an existing file is kept. */
STOKE_API int stoke_yaml_write(stoke_yaml *yaml, const char *path, stoke_yaml_proof *proof, stoke_error *err);

/* ---- keys by any of their names ---- */

/* What the documents' dialects call a setting: "batch_size" finds batch_size, data.batch_size,
 * train_ds.batch_size, training.batch_size. */
typedef enum stoke_dialect {
    STOKE_DIALECT_FLAT = 0,
    STOKE_DIALECT_SECTIONS = 1,
    STOKE_DIALECT_TRAIN_DS = 2,
    STOKE_DIALECT_OWN = 3
} stoke_dialect;
STOKE_API int stoke_config_dialect(const stoke_yaml *yaml);
STOKE_API const char *stoke_dialect_name(int dialect);
/* The path in this file of a setting ("batch_size", "num_workers", "mixed_precision", "pin_memory",
 * "persistent_workers", "prefetch_factor", "grad_clip", "compile", "gpu_augmentation", "learning_rate",
 * "accumulate", ...), where it stands or, when it does not, where it belongs (*exists 0). STOKE_E_INVALID:
 * several candidates; the message lists them and says how to name one (`map`: "batch_size=data.bs", may be
 * NULL). */
STOKE_API int stoke_config_find(const stoke_yaml *yaml, const char *setting, const char *const *map,
                                const char **path, int *exists, stoke_error *err);

/* ---- what to change ---- */

typedef struct stoke_change {
    const char *setting;
    char path[128], from[128], to[128]; /* from "" = the key is new */
    char why[256], effect[256];
    int source; /* stoke_source: table (a rule of the documents), measured, estimated */
} stoke_change;

typedef struct stoke_optimize_params {
    uint32_t struct_size;
    const char *config;
    const char *gpu; /* as stoke_recommend_params */
    uint64_t memory;
    uint32_t cores, ranks;
    uint64_t host_memory;
    int allow_model_scale;  /* base_channels, num_blocks, patch_size too: another experiment */
    const char *const *map; /* "setting=path", NULL-terminated; NULL = none */
    /* A batch found by trials (findbatch.h), which replaces the table's and may also be less than the file's;
     * the result is then called x_optimized.yaml. 0 = none. */
    uint32_t measured_batch, measured_largest; /* the largest that fits */
    int measured_source;                       /* stoke_source: measured, or emulated on a card on paper */
    const char *measured_why;                  /* a sentence; NULL = none */
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
/* Where the result goes: configs/x_config.yaml -> configs/x_gpu_optimized.yaml (O1), or with a measured batch
 * configs/x_config_optimized.yaml (O2). */
STOKE_API const char *stoke_optimization_target(const stoke_optimization *optimization);
STOKE_API int stoke_optimization_write(stoke_optimization *optimization, const char *path,
                                       stoke_yaml_proof *proof, stoke_error *err);

#ifdef __cplusplus
}
#endif
#endif
