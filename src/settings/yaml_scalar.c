/* SPDX-License-Identifier: Apache-2.0
 *
 * How a value is written so that readers of YAML 1.1 (PyYAML is the one that matters) get what was meant:
 * numbers, true, false and null plain; every other text plain only when no rule of YAML 1.1 makes something
 * else of it: `on` would be true, 010 eight, 12:30 seven hundred and fifty, 3e-4 a text.
 */
#include <stdio.h>
#include <string.h>

#include "src/base/number.h"
#include "src/base/terminal.h"
#include "src/base/utf8.h"
#include "src/base/words.h"
#include "src/settings/yaml_tree.h"

static int is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static size_t digits(const char *p)
{
    size_t n = 0;
    while (is_digit(p[n])) n++;
    return n;
}

int stk_yaml_is_null(const stk_yaml_node *node)
{
    return node->kind == STK_YAML_SCALAR && node->style == STK_YAML_PLAIN &&
           (!*node->text || stk_is_one_of(node->text, "~ null Null NULL"));
}

/* What PyYAML reads as the int or float that a person reads: 8, -3, 0.5, 3.0e-4, .inf. */
static int is_plain_number(const char *p)
{
    if (stk_is_one_of(p, ".inf -.inf +.inf .nan")) return 1;
    if (*p == '-' || *p == '+') p++;
    const size_t whole = digits(p);
    if (!whole) return 0;
    if (!p[whole]) return whole == 1 || *p != '0'; /* 010 is octal */
    p += whole;
    if (*p++ != '.') return 0;
    p += digits(p);
    if (!*p) return 1;
    if (*p != 'e' && *p != 'E') return 0;
    if (p[1] != '-' && p[1] != '+') return 0;
    p += 2;
    return digits(p) && !p[digits(p)];
}

const char *stk_yaml_number(const char *value, char room[64])
{
    double number;
    const size_t mantissa = strcspn(value, "eE");
    if (strlen(value) > 48 || !value[mantissa] || is_plain_number(value) || !stk_parse_real(value, &number))
        return value;
    const char *exponent = value + mantissa + 1;
    const int has_point = memchr(value, '.', mantissa) != NULL;
    const int has_sign = *exponent == '-' || *exponent == '+';
    snprintf(room, 64, "%.*s%s%c%s%s", (int)mantissa, value, has_point ? "" : ".0", value[mantissa],
             has_sign ? "" : "+", exponent);
    return is_plain_number(room) ? room : value;
}

/* Whether YAML 1.1 could take a plain text for a number, a time or a date. Says yes too often rather than too
 * seldom: quotes around a text never change it. */
static int looks_like_number(const char *p)
{
    return (is_digit(*p) || *p == '-' || *p == '+' || *p == '.') &&
           !p[strspn(p, "0123456789abcdefABCDEFxXoOtTzZinINuUlL_+-.: ")];
}

static int is_meant_word(const char *p)
{
    return stk_is_one_of(p, "true True TRUE false False FALSE null Null NULL ~");
}

/* Characters that YAML breaks lines at or leaves out, and what a terminal obeys: only an escape keeps them.
 */
static int needs_escape(uint32_t code)
{
    return stk_terminal_obeys(code) || code == 0xfeff || code == 0xfffe || code == 0xffff;
}

static int has_escapes(const char *value)
{
    for (const char *p = value; *p;)
        if (needs_escape(stk_utf8_next(&p))) return 1;
    return 0;
}

static int plain_will_do(const char *value, int in_flow)
{
    const size_t n = strlen(value);
    if (is_meant_word(value) || is_plain_number(value)) return 1;
    if (stk_is_one_of(value, "yes Yes YES no No NO on On ON off Off OFF y Y n N = <<")) return 0;
    if (!n || looks_like_number(value) || has_escapes(value)) return 0;
    if (strchr("-?:,[]{}#&*!|>'\"%@` ", *value) || value[n - 1] == ' ' || value[n - 1] == ':') return 0;
    if (strstr(value, ": ") || strstr(value, " #")) return 0;
    return !in_flow || !strpbrk(value, ",[]{}:?");
}

static size_t write_single(const char *value, char *out)
{
    char *p = out;
    *p++ = '\'';
    for (; *value; value++) {
        if (*value == '\'') *p++ = '\'';
        *p++ = *value;
    }
    *p++ = '\'';
    return (size_t)(p - out);
}

static size_t write_double(const char *value, char *out)
{
    char *p = out;
    *p++ = '"';
    while (*value) {
        const char *start = value;
        const uint32_t code = stk_utf8_next(&value);
        if (code == '"' || code == '\\') {
            *p++ = '\\';
            *p++ = (char)code;
        } else if (needs_escape(code)) {
            p += sprintf(p, code < 0x100 ? "\\x%02X" : "\\u%04X", (unsigned)code);
        } else {
            memcpy(p, start, (size_t)(value - start));
            p += value - start;
        }
    }
    *p++ = '"';
    return (size_t)(p - out);
}

size_t stk_yaml_scalar(const char *value, stk_yaml_style style, int in_flow, char *out)
{
    if (!stk_utf8_is_all(value)) return 0;
    if (style == STK_YAML_PLAIN && plain_will_do(value, in_flow)) {
        const size_t n = strlen(value);
        memcpy(out, value, n);
        return n;
    }
    if (style == STK_YAML_DOUBLE || has_escapes(value)) return write_double(value, out);
    return write_single(value, out);
}

/* true and false, null and numbers: what is written without quotes everywhere. */
static int is_bare(const char *value)
{
    return is_plain_number(value) || is_meant_word(value);
}

size_t stk_python_scalar(const char *value, stk_yaml_style style, char *out)
{
    if (!stk_utf8_is_all(value)) return 0;
    if (style == STK_YAML_PLAIN && is_bare(value) && *value != '.')
        return (size_t)sprintf(out, "%s",
                               stk_is_one_of(value, "true True TRUE")      ? "True"
                               : stk_is_one_of(value, "false False FALSE") ? "False"
                               : is_meant_word(value)                      ? "None"
                                                                           : value);
    if (style == STK_YAML_SINGLE && !strpbrk(value, "'\\") && !has_escapes(value))
        return write_single(value, out);
    return write_double(value, out);
}

size_t stk_json_scalar(const char *value, stk_yaml_style style, char *out)
{
    if (!stk_utf8_is_all(value)) return 0;
    if (style == STK_YAML_PLAIN && is_bare(value) && *value != '+' && *value != '.' && *value != '~')
        return (size_t)sprintf(out, "%s", value);
    return write_double(value, out);
}
