/* SPDX-License-Identifier: Apache-2.0
 *
 * What a value of somebody's file means here.
 */
#ifndef STOKE_SRC_SETTINGS_VALUES_H
#define STOKE_SRC_SETTINGS_VALUES_H

#include "src/settings/keys.h"

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
/* b0 .. b5 or smallnet; NULL: none is named, or none that is known. `node` is the value that names it or,
 * where it is not known, the first that names one; STK_YAML_NONE: there is none. */
const char *stk_model_said(const stoke_yaml *yaml, const char *const *map, uint32_t *node);

#endif
