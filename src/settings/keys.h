/* SPDX-License-Identifier: Apache-2.0
 *
 * The one table of what people call a setting, and the search by it. It serves reading somebody's file into
 * our options and changing that file.
 */
#ifndef STOKE_SRC_SETTINGS_KEYS_H
#define STOKE_SRC_SETTINGS_KEYS_H

#include "src/settings/yaml_tree.h"

typedef enum stk_key_group { STK_KEY_LOADING, STK_KEY_TRAINING, STK_KEY_MODEL, STK_KEY_DATA } stk_key_group;

/* How a value of theirs becomes one of ours (values.c). */
typedef enum stk_key_reading {
    STK_READ_NOT,       /* never: it has no counterpart here */
    STK_READ_WHOLE,     /* 8, "8", 8.0; of a range 16-32 the lower end; below 0: not said */
    STK_READ_REAL,      /* 3e-4, "0.0003" */
    STK_READ_NORM,      /* the same, and null or false for none: 0 */
    STK_READ_TRUTH,     /* true, yes, 1 */
    STK_READ_SIZE,      /* 288, [288, 320], "(288, 320)", 288x320 */
    STK_READ_TEXT,      /* as it stands; a list with commas */
    STK_READ_PATH,      /* of a file or folder */
    STK_READ_ORDER,     /* shuffle: true */
    STK_READ_OPTIMIZER, /* AdamW, torch.optim.SGD, adamw_torch */
    STK_READ_SCHEDULE,  /* CosineAnnealingLR, linear, true */
    STK_READ_LOSS,      /* CrossEntropyLoss, dice_ce */
    STK_READ_PLACEMENT, /* use_gpu_augmentation: true */
    STK_READ_WARMUP,    /* a share, a number of steps */
    STK_READ_PRECISION, /* by all that has to do with it */
    STK_READ_MODEL,     /* the same */
    STK_READ_AUGMENT    /* a preset, or true and false */
} stk_key_reading;

enum { STK_NAMES = 18, STK_CANDIDATES = 16 };

typedef struct stk_setting {
    const char *name; /* what stoke_config_find and --map call it */
    stk_key_group where;
    const char *own;      /* the option of ours; NULL: there is none */
    const char *sections; /* what a new key is called in a file with sections; NULL: names[0] */
    stk_key_reading reading;
    int first; /* several may stand there: the first name that has a value counts. 0: only one may */
    const char
        *names[STK_NAMES]; /* the first is what a new key is called elsewhere; "a.b": the last two keys */
} stk_setting;

extern const stk_setting stk_settings[];
extern const size_t stk_settings_count;

const stk_setting *stk_setting_named(const char *name);

/* The key of a value; NULL: an item of a list. */
const char *stk_key_of(const stoke_yaml *yaml, uint32_t node);
/* A text as a name: small letters are capital ones, - is _. */
int stk_same_name(const char *a, const char *b);
/* Whether the value stands in a section of evaluation, or in a list. */
int stk_is_elsewhere(const stoke_yaml *yaml, uint32_t node);
/* Whether `name`, which may have a dot, is how the value is called. */
int stk_is_called(const stoke_yaml *yaml, uint32_t node, const char *name);
/* Values, lists of them too, that may be the setting, in the order of its names; how many. */
size_t stk_candidates(const stoke_yaml *yaml, const stk_setting *s, uint32_t found[STK_CANDIDATES]);
/* Of those, what the section that its reader gets leaves out: common.num_workers beside data.num_workers. */
size_t stk_outvoted(const stoke_yaml *yaml, const stk_setting *s, uint32_t others[STK_CANDIDATES]);
/* The value that counts, an alias followed: where it stands, or STK_YAML_NONE. STOKE_E_INVALID: several
 * may, and do not say the same. */
int stk_setting_node(const stoke_yaml *yaml, const stk_setting *s, const char *const *map, uint32_t *node,
                     stoke_error *err);
/* "data.batch_size (line 2), training.batch_size (line 4)". */
void stk_list_candidates(const stoke_yaml *yaml, const stk_setting *s, char list[512]);
/* A value as the text it means, a list with commas; NULL: it is null, a section, or too long. */
const char *stk_value_text(const stoke_yaml *yaml, uint32_t node, char *room, size_t size);
/* The same of a setting; NULL: not in the file, null, or ambiguous. */
const char *stk_setting_text(const stoke_yaml *yaml, const char *setting, const char *const *map, char *room,
                             size_t size);

/* Whether the file has a section of this name at its top. */
int stk_has_section(const stoke_yaml *yaml, const char *name);

/* A key that no other trainer has; one that others have and we have not. */
int stk_is_ours_alone(const char *key);
int stk_is_setting_of_others(const char *key);
/* Whether anything in the file shows that it is another trainer's: then its unknown keys are none of ours. */
int stk_is_foreign(const stoke_yaml *yaml);

/* ---- what a value of somebody's file means (values.c) ---- */

enum { STK_MEANING = 512 };

typedef enum stk_value_meant {
    STK_MEANT_NOTHING, /* the same as if it were not there */
    STK_MEANT,
    STK_MEANT_ABOUT, /* not quite what was asked for; the remark says what is done */
    STK_MEANT_UNKNOWN
} stk_value_meant;

/* The value as the text of our option. `remark` is a sentence's end for STK_MEANT_ABOUT, else "". */
stk_value_meant stk_meaning(stk_key_reading reading, const char *text, char out[STK_MEANING],
                            char remark[160]);

/* 1, 0 or -1: neither true nor false. null is false. */
int stk_truth(const char *text);
/* "fp32", "fp16", "bf16" by all keys that have to do with it; "" = nothing says it; NULL: not understood.
 * `node` is the value that counts. */
const char *stk_precision_said(const stoke_yaml *yaml, const char *const *map, uint32_t *node);
/* b0 .. b5 or resnet; NULL: none is named, or none that is known. `node` is the value that names it or,
 * where it is not known, the first that names one; STK_YAML_NONE: there is none. */
const char *stk_model_said(const stoke_yaml *yaml, const char *const *map, uint32_t *node);

/* ---- frameworks (framework.c) ---- */

/* Where a new key goes: the name that the framework's argument has, and its section in place of the
 * dialect's.
 * "": it is no argument, and called as the dialect calls it. NULL: whoever reads that section would refuse
 * it, for the reason given. */
const char *stk_argument_place(const stoke_yaml *yaml, const stk_setting *s, uint32_t *section,
                               const char **refusal);
/* Whether the framework has the setting by its own name. */
int stk_is_argument(stoke_framework framework, const char *setting);
/* Whether a path lies in a section whose keys are handed to DataLoader: it takes its own arguments only. */
int stk_is_of_loader(const char *path);
/* What is in force where the file does not say it; NULL: that is not known. */
const char *stk_setting_default(stoke_framework framework, const char *setting);
/* Whose default that is: "TrainingArguments'". */
const char *stk_whose_default(stoke_framework framework, const char *setting);

#endif
