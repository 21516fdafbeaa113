/* SPDX-License-Identifier: Apache-2.0
 *
 * The tree reader on any bytes: it refuses, or every value is reached exactly once, every text is a string in
 * UTF-8 and every member is found by its name.
 */
#include "tests/fuzz/fuzz.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/json_read.h"
#include "src/base/utf8.h"

static void check_text(const char *text)
{
    while (*text) {
        const char *start = text;
        if (stk_utf8_next(&text) == STK_UTF8_BAD && text - start == 1) abort();
    }
}

/* Values of the tree below, this one included. */
static uint32_t walk(const stk_json *json, const stk_json_value *value, int depth)
{
    uint32_t reached = 1, children = 0;
    uint64_t whole;
    double real;
    if (depth > STK_JSON_DEPTH) abort();
    if (stk_json_text(json, value)) check_text(stk_json_text(json, value));
    if (stk_json_uint(json, value, &whole) && !stk_json_real(json, value, &real)) abort();
    const int few = value->count < 64; /* finding is linear */
    for (const stk_json_value *v = stk_json_first(json, value); v; v = stk_json_next(json, v)) {
        if (value->kind == STK_JSON_OBJECT) {
            check_text(stk_json_key(json, v));
            if (few && stk_json_find(json, value, stk_json_key(json, v)) != v) abort();
        }
        reached += walk(json, v, depth + 1);
        children++;
    }
    if (children != value->count) abort();
    return reached;
}

FUZZ_TARGET(json_read)
{
    stk_json json;
    stoke_error err = { 0 };
    if (stk_json_read(&json, (const char *)bytes, size, 100000, &err)) {
        if (!*err.message || json.values || json.text) abort();
        return 0;
    }
    if (walk(&json, json.values, 0) != json.count) abort();
    stk_json_free(&json);
    return 0;
}
