/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files behind <stoke/tools/options.h> share: finding an option by name, one field from and to text.
 */
#ifndef STOKE_SRC_BASE_OPTION_TABLE_H
#define STOKE_SRC_BASE_OPTION_TABLE_H

#include <stoke/tools/options.h>

#include "src/base/error.h"

/* An option together with the place its value goes to. */
typedef struct stk_option_hit {
    const stoke_option *option;
    void *field;
} stk_option_hit;

/* Room for a value of any type, to try a text without touching the target. */
typedef union stk_option_value {
    int flag_or_choice;
    int64_t integer;
    double real;
    double range[2];
    const char *string;
    uint64_t bytes;
    uint32_t size[2];
} stk_option_value;

/* Finds a name of `length` bytes; `-` and `_` are the same letter. 0 = unknown. */
int stk_option_find(const stoke_option_group *groups, size_t n_groups, const char *name, size_t length,
                    stk_option_hit *hit);

/* The known name most like `name` is `best`. */
stk_did_you_mean stk_option_nearest(const stoke_option_group *groups, size_t n_groups, const char *name);

/* Parses `value` into the option's field. `shown` is what messages call the option ("--batch", "batch"). */
int stk_option_assign(stk_option_hit hit, const char *shown, const char *value, stoke_error *err);

/* What a word of another program stands for as the value of an option of this name: "16-mixed" of precision
 * is "fp16", "nvidia/segformer-b5-finetuned-ade-512-512" of model "b5". The value itself, or a constant. */
const char *stk_option_word(const char *option, const char *value);
/* b0 .. b5 where the text names one of the SegFormers, resnet for that very word; NULL: neither. A literal.
 */
const char *stk_network_word(const char *text);

/* Back to its default; also the meaning of null in YAML. */
void stk_option_reset(stk_option_hit hit);

/* The value as text that stk_option_assign reads back; NULL for a string that is not set. `text` is room for
 * everything but strings, which are returned as they are. */
enum { STK_OPTION_TEXT = 80 };
const char *stk_option_text(const stoke_option *option, const void *target, char text[STK_OPTION_TEXT]);

/* STOKE_E_INVALID when a number, size or choice of the target is one the table does not allow: a program may
 * set the fields without going through text. */
int stk_options_check(const stoke_option_group *group, stoke_error *err);

/* "a, b or c" from "a|b|c". */
void stk_option_choices(const char *choices, char *text, size_t size);

/* "--memory-limit" from "memory_limit", at the end of `prefix` ("--", "--no-", or roff's "\-\-"). `dash` is
 * what one hyphen looks like. */
void stk_option_flag(const char *name, const char *prefix, const char *dash, char *text, size_t size);

/* "1 to 4096", "at least 1" or "". */
void stk_option_range(const stoke_option *option, char *text, size_t size);

/* An empty one; NULL = no memory. */
stoke_option_storage *stk_option_storage(void);
/* A copy of the text that lives as long as the storage; NULL = no memory. */
const char *stk_option_keep(stoke_option_storage *storage, const char *text, size_t length);

#endif
