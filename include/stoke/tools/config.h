/* SPDX-License-Identifier: Apache-2.0
 *
 * Somebody's settings file: read into a tree that knows the bytes of every value, asked for settings by any
 * of their names, and changed without touching anything else: comments, order, quoting, anchors, line ends, a
 * BOM and odd indentation stay byte for byte. A change replaces the bytes of one scalar, or adds a line. What
 * cannot be changed safely is refused with line and reason.
 */
#ifndef STOKE_TOOLS_CONFIG_H
#define STOKE_TOOLS_CONFIG_H

#include <stoke/tools/options.h>

typedef struct stoke_yaml stoke_yaml;

/* Opens a file that is to be changed: UTF-8, one document, 4 MiB at most, as stoke_config_open below, and
 * checked: a mapping at the top, no duplicate keys, no tabs in indentation. */
STOKE_API int stoke_yaml_open_checked(stoke_yaml **out, const char *path, stoke_error *err);
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
/* What sections have by a merge (<<) and not by themselves, of scalars that are keys of what is merged.
 * `path` is valid during the call. Other than 0 ends it, and is returned. */
typedef int (*stoke_yaml_take)(void *context, const char *path, const stoke_yaml_value *value);
STOKE_API int stoke_yaml_merged(const stoke_yaml *yaml, stoke_yaml_take take, void *context);

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

/* ---- keys by any of their names ---- */

/* What dialects call a setting: "batch_size" finds batch_size, data.batch_size,
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
 * "accumulate", ...), where it stands or, when it does not, where it belongs (*exists 0), by the name that
 * the file's framework has for it. STOKE_E_INVALID: several candidates; the message lists them and says how
 * to name one (`map`: "batch_size=data.bs", may be NULL). STOKE_E_UNSUPPORTED: whoever reads the file would
 * refuse it. */
STOKE_API int stoke_config_find(const stoke_yaml *yaml, const char *setting, const char *const *map,
                                const char **path, int *exists, stoke_error *err);

/* Whose trainer reads the file, where its keys show it. */
typedef enum stoke_framework {
    STOKE_FRAMEWORK_UNKNOWN = 0,
    STOKE_FRAMEWORK_LIGHTNING,    /* arguments of its Trainer, at the top or in `trainer:` */
    STOKE_FRAMEWORK_HUGGING_FACE, /* TrainingArguments */
    STOKE_FRAMEWORK_DATALOADER, /* sections that are handed to torch's DataLoader: train_ds, validation_ds */
    STOKE_FRAMEWORK_STOKE
} stoke_framework;
STOKE_API stoke_framework stoke_config_framework(const stoke_yaml *yaml);
STOKE_API const char *stoke_framework_name(int framework);
/* 1: a new key of that path is handed to somebody's class, which stops at arguments that it has not:
 * `init_args` of Lightning's command line, or a section with `class_path` or with `_target_` of Hydra. Which
 * it has is not seen here, but for Lightning's Trainer and PyTorch's DataLoader. */
STOKE_API int stoke_config_of_class(const stoke_yaml *yaml, const char *setting, const char *path);

/* ---- reading into options ---- */

/* Reads any settings file: YAML, JSON, or a .py file with dataclasses or constants, which is never executed.
 * One of nothing is all defaults. Enough for reading; what is to be changed is opened checked. */
STOKE_API int stoke_config_open(stoke_yaml **out, const char *path, stoke_error *err);

/* Where the value of an option came from. The strings live as long as the file. */
typedef struct stoke_config_origin {
    const char *option, *path;
    uint32_t line;
} stoke_config_origin;

/* How a file becomes settings (stoke_config_apply of <stoke/data.h>). Ours (stoke.yaml, train.yaml) is read
 * strictly: a key that no group has is an error. Of another trainer's file what the groups can use is taken
 * by any of its names, and the rest are remarks. */
typedef struct stoke_config_use {
    const stoke_option_group *groups; /* that are filled */
    size_t n_groups;
    const stoke_option_group *known; /* that our own file may name as well: checked, and left alone */
    size_t n_known;
    const char *const *map;   /* as stoke_config_find; may be NULL */
    const char *const *also;  /* settings that the caller reads by itself, NULL-terminated; may be NULL */
    const char *const *given; /* options that are said above the file, NULL-terminated; may be NULL */
    char *remarks;            /* room for lines, each with its newline; may be NULL */
    size_t remarks_size;
    stoke_config_origin *origins; /* room; may be NULL */
    size_t max_origins, n_origins;
} stoke_config_use;

#endif
