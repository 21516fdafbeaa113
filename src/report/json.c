/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON, written as it comes: no tree, no allocation.
 */
#include <inttypes.h>
#include <math.h>

#include <stoke/tools/report.h>

#include "src/base/number.h"
#include "src/base/terminal.h"
#include "src/base/utf8.h"

/* One bit per level in two words. What is nested deeper is written as null, so the text stays valid JSON. */
enum { LEVELS = 64 };

static uint64_t level_bit(const stoke_json *json)
{
    return UINT64_C(1) << (json->depth - 1);
}

static int muted(const stoke_json *json)
{
    return json->depth > LEVELS;
}

static void new_line(const stoke_json *json)
{
    if (json->indent) fprintf(json->out, "\n%*s", json->indent * json->depth, "");
}

static void quoted(FILE *out, const char *text)
{
    fputc('"', out);
    while (*text) {
        const char *start = text;
        uint32_t code = stk_utf8_next(&text);
        switch (code) {
        case '"': fputs("\\\"", out); break;
        case '\\': fputs("\\\\", out); break;
        case '\n': fputs("\\n", out); break;
        case '\r': fputs("\\r", out); break;
        case '\t': fputs("\\t", out); break;
        case STK_UTF8_BAD: fputs("\xef\xbf\xbd", out); break;
        default:
            /* Some of it is legal JSON, but no terminal likes it. */
            if (stk_terminal_obeys(code))
                fprintf(out, "\\u%04x", (unsigned)code);
            else
                fwrite(start, 1, (size_t)(text - start), out);
        }
    }
    fputc('"', out);
}

/* Comma, line break and key before a value. 0: the value is to be dropped. */
static int before_value(stoke_json *json, const char *key)
{
    if (muted(json)) return 0;
    if (json->depth) {
        if (json->has_elements & level_bit(json)) fputs(json->indent ? "," : ", ", json->out);
        json->has_elements |= level_bit(json);
        new_line(json);
    }
    if (key) {
        quoted(json->out, key);
        fputs(": ", json->out);
    }
    return 1;
}

static void after_value(const stoke_json *json)
{
    if (!json->depth) fputc('\n', json->out);
}

static void open_level(stoke_json *json, const char *key, int array)
{
    int written = before_value(json, key);
    json->depth++;
    if (!written) return;
    if (muted(json)) {
        fputs("null", json->out);
        return;
    }
    fputc(array ? '[' : '{', json->out);
    json->has_elements &= ~level_bit(json);
    json->open_arrays &= ~level_bit(json);
    if (array) json->open_arrays |= level_bit(json);
}

void stoke_json_begin(stoke_json *json, FILE *out, int indent)
{
    *json = (stoke_json){ .out = out, .indent = indent };
}

void stoke_json_object(stoke_json *json, const char *key)
{
    open_level(json, key, 0);
}

void stoke_json_array(stoke_json *json, const char *key)
{
    open_level(json, key, 1);
}

void stoke_json_close(stoke_json *json)
{
    if (!json->depth) return;
    if (muted(json)) {
        json->depth--;
        return;
    }
    int array = (json->open_arrays & level_bit(json)) != 0,
        filled = (json->has_elements & level_bit(json)) != 0;
    json->depth--;
    if (filled) new_line(json);
    fputc(array ? ']' : '}', json->out);
    after_value(json);
}

/* A value as it is to be read. */
static void put(stoke_json *json, const char *key, const char *text)
{
    if (!before_value(json, key)) return;
    fputs(text, json->out);
    after_value(json);
}

void stoke_json_string(stoke_json *json, const char *key, const char *value)
{
    if (!value) {
        put(json, key, "null");
    } else if (before_value(json, key)) {
        quoted(json->out, value);
        after_value(json);
    }
}

void stoke_json_int(stoke_json *json, const char *key, int64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, value);
    put(json, key, text);
}

void stoke_json_uint(stoke_json *json, const char *key, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, value);
    put(json, key, text);
}

void stoke_json_real(stoke_json *json, const char *key, double value)
{
    char text[STK_REAL_TEXT];
    put(json, key, isfinite(value) ? stk_format_real(value, text) : "null");
}

void stoke_json_bool(stoke_json *json, const char *key, int value)
{
    put(json, key, value ? "true" : "false");
}

void stoke_json_null(stoke_json *json, const char *key)
{
    put(json, key, "null");
}
