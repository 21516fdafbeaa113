/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads any JSON text (RFC 8259) into a tree, strictly: files from elsewhere, which may be hostile. One
 * value, nothing after it but blanks; no comments, no trailing commas, no NaN; valid UTF-8; a key that stands
 * twice in an object is refused, since readers differ in which one they take; so is the character U+0000,
 * which would end a C string early. Memory is bounded: size + 1 bytes of text and 24 bytes for each of at
 * most `most` values.
 */
#ifndef STOKE_SRC_BASE_JSON_READ_H
#define STOKE_SRC_BASE_JSON_READ_H

#include <stoke/common.h>

enum {
    STK_JSON_DEPTH = 64,        /* levels of arrays and objects */
    STK_JSON_VALUES = 1 << 20,  /* a fair `most`: 24 MB; the header of SegFormer b5 has 12,000 values */
    STK_JSON_BYTES = 1000000000 /* texts beyond are refused: offsets have 32 bits */
};

typedef enum stk_json_kind {
    STK_JSON_NULL,
    STK_JSON_FALSE,
    STK_JSON_TRUE,
    STK_JSON_NUMBER,
    STK_JSON_STRING,
    STK_JSON_ARRAY,
    STK_JSON_OBJECT
} stk_json_kind;

typedef struct stk_json_value {
    stk_json_kind kind;
    uint32_t key;         /* of a member of an object: where its name lies in the text */
    uint32_t text;        /* string: decoded; number: as it was written */
    uint32_t first, next; /* child, sibling: indices of values, 0 = none (0 is the root) */
    uint32_t count;       /* children */
} stk_json_value;

typedef struct stk_json {
    stk_json_value *values; /* [0] is the whole */
    uint32_t count;
    char *text; /* zero-terminated pieces, one after the other */
} stk_json;

/* STOKE_E_FORMAT tells the byte at which the text stops being JSON; STOKE_E_LIMIT: too deep, too many values,
 * too long. On failure there is nothing to free. */
int stk_json_read(stk_json *json, const char *text, size_t size, uint32_t most, stoke_error *err);
void stk_json_free(stk_json *json); /* accepts a zeroed struct */

/* NULL when there is none. value NULL gives NULL; so does find on what is not an object. */
const stk_json_value *stk_json_first(const stk_json *json, const stk_json_value *value);
const stk_json_value *stk_json_next(const stk_json *json, const stk_json_value *value);
const stk_json_value *stk_json_find(const stk_json *json, const stk_json_value *object, const char *key);

const char *stk_json_key(const stk_json *json, const stk_json_value *member);
/* The text of a string or number; NULL for other kinds and for NULL. */
const char *stk_json_text(const stk_json *json, const stk_json_value *value);

/* 1 = ok. Whole numbers are digits alone: no sign, point or exponent. *out is untouched on failure; value may
 * be NULL. */
int stk_json_uint(const stk_json *json, const stk_json_value *value, uint64_t *out);
int stk_json_real(const stk_json *json, const stk_json_value *value, double *out);

#endif
