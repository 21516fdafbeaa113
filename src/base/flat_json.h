/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads one flat JSON object, {"key": number or "text" or true, ...}, strictly: for small state files, which
 * may come from anywhere. Nested values, escapes other than \" \\ \/ and duplicate keys are refused.
 */
#ifndef STOKE_SRC_BASE_FLAT_JSON_H
#define STOKE_SRC_BASE_FLAT_JSON_H

#include <stoke/common.h>

enum { STK_JSON_FIELDS = 32, STK_JSON_TEXT = 128 };

typedef struct stk_json_field {
    char key[STK_JSON_TEXT];
    char value[STK_JSON_TEXT]; /* the text, unquoted */
    int is_text;
} stk_json_field;

typedef struct stk_flat_json {
    stk_json_field field[STK_JSON_FIELDS];
    size_t count;
} stk_flat_json;

int stk_flat_json_read(stk_flat_json *json, const char *text, stoke_error *err);
/* NULL when the key is absent. */
const stk_json_field *stk_flat_json_find(const stk_flat_json *json, const char *key);
/* A whole number; STOKE_E_FORMAT when absent, text, negative or too large. */
int stk_flat_json_uint(const stk_flat_json *json, const char *key, uint64_t *value, stoke_error *err);

#endif
