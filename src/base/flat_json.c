/* SPDX-License-Identifier: Apache-2.0 */
#include "src/base/flat_json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/error.h"

static const char *skip_space(const char *p)
{
    return p + strspn(p, " \t\r\n");
}

/* Reads "text" at p into out; NULL when it is malformed or too long. */
static const char *read_text(const char *p, char *out)
{
    size_t n = 0;
    if (*p++ != '"') return NULL;
    while (*p != '"') {
        if (*p == '\\') {
            p++;
            if (*p != '"' && *p != '\\' && *p != '/') return NULL;
        }
        if ((unsigned char)*p < 0x20 || n + 1 == STK_JSON_TEXT) return NULL;
        out[n++] = *p++;
    }
    out[n] = 0;
    return p + 1;
}

/* Reads a number or a bare word. */
static const char *read_word(const char *p, char *out)
{
    const size_t n = strspn(p, "+-.0123456789abcdefghijklmnopqrstuvwxyzE");
    if (!n || n >= STK_JSON_TEXT) return NULL;
    memcpy(out, p, n);
    out[n] = 0;
    return p + n;
}

static const char *read_field(const char *p, stk_json_field *field)
{
    p = read_text(p, field->key);
    if (!p) return NULL;
    p = skip_space(p);
    if (*p++ != ':') return NULL;
    p = skip_space(p);
    field->is_text = *p == '"';
    p = field->is_text ? read_text(p, field->value) : read_word(p, field->value);
    return p ? skip_space(p) : NULL;
}

int stk_flat_json_read(stk_flat_json *json, const char *text, stoke_error *err)
{
    json->count = 0;
    const char *p = skip_space(text);
    if (*p++ != '{') return stk_fail(err, STOKE_E_FORMAT, "not a JSON object");
    p = skip_space(p);
    if (*p == '}') return STOKE_OK;
    for (;;) {
        if (json->count == STK_JSON_FIELDS)
            return stk_fail(err, STOKE_E_FORMAT, "more than %d fields", STK_JSON_FIELDS);
        stk_json_field *field = &json->field[json->count];
        p = read_field(p, field);
        if (!p) return stk_fail(err, STOKE_E_FORMAT, "field %zu is malformed", json->count + 1);
        if (stk_flat_json_find(json, field->key))
            return stk_fail(err, STOKE_E_FORMAT, "\"%s\" stands twice", field->key);
        json->count++;
        if (*p == '}') break;
        if (*p++ != ',') return stk_fail(err, STOKE_E_FORMAT, "expected , or } after \"%s\"", field->key);
        p = skip_space(p);
    }
    return *skip_space(p + 1) ? stk_fail(err, STOKE_E_FORMAT, "text after the object") : STOKE_OK;
}

const stk_json_field *stk_flat_json_find(const stk_flat_json *json, const char *key)
{
    for (size_t i = 0; i < json->count; i++)
        if (strcmp(json->field[i].key, key) == 0) return &json->field[i];
    return NULL;
}

int stk_flat_json_uint(const stk_flat_json *json, const char *key, uint64_t *value, stoke_error *err)
{
    const stk_json_field *field = stk_flat_json_find(json, key);
    if (!field) return stk_fail(err, STOKE_E_FORMAT, "\"%s\" is missing", key);
    const size_t digits = strspn(field->value, "0123456789");
    errno = 0;
    *value = strtoull(field->value, NULL, 10);
    if (field->is_text || !digits || field->value[digits] || errno)
        return stk_fail(err, STOKE_E_FORMAT, "\"%s\" is not a whole number", key);
    return STOKE_OK;
}
