/* SPDX-License-Identifier: Apache-2.0
 *
 * printf whose string arguments cannot reach a terminal as anything but text.
 */
#include "src/base/terminal.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/mem.h"
#include "src/base/words.h"
#include "src/base/utf8.h"

/* ---- one character ---- */

/* Controls, what ends a line somewhere, and what changes the order in which others are shown (UAX #9). */
int stk_terminal_obeys(uint32_t code)
{
    return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x61c || code == 0x200e ||
           code == 0x200f || (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
}

size_t stk_terminal_next(const char **text, char shown[STK_SHOWN])
{
    const char *start = *text;
    if (!*start) return 0;
    const uint32_t code = stk_utf8_next(text);
    const size_t n = (size_t)(*text - start);
    if (code == STK_UTF8_BAD && n == 1)
        return (size_t)snprintf(shown, STK_SHOWN, "\\x%02x", (unsigned char)*start);
    if (code == '\n' || code == '\r' || code == '\t')
        return (size_t)snprintf(shown, STK_SHOWN, "\\%c", code == '\n' ? 'n' : code == '\r' ? 'r' : 't');
    if (stk_terminal_obeys(code))
        return (size_t)snprintf(shown, STK_SHOWN, code < 0x80 ? "\\x%02x" : "\\u%04x", (unsigned)code);
    memcpy(shown, start, n);
    return n;
}

/* A character has one or two, however many bytes it has. */
size_t stk_terminal_columns_of(const char shown[STK_SHOWN], size_t bytes)
{
    if ((unsigned char)*shown < 0x80) return bytes;
    char whole[STK_SHOWN] = "";
    const char *at = whole;
    memcpy(whole, shown, bytes);
    return stk_utf8_is_wide(stk_utf8_next(&at)) ? 2 : 1;
}

size_t stk_terminal_columns(const char *text)
{
    char shown[STK_SHOWN];
    size_t columns = 0;
    for (size_t n; (n = stk_terminal_next(&text, shown));) columns += stk_terminal_columns_of(shown, n);
    return columns;
}

int stk_terminal_plain(const char *text)
{
    char shown[STK_SHOWN];
    for (size_t n; (n = stk_terminal_next(&text, shown));)
        if (*shown == '\\' && n > 1) return 0;
    return 1;
}

/* ---- a buffer that may be too short ---- */

typedef struct sink {
    char *out;
    size_t size, used; /* used: bytes written */
    size_t length;     /* bytes wanted */
} sink;

/* All of it or nothing, and after the first piece that did not fit nothing more. */
static void put(sink *s, const char *bytes, size_t n)
{
    if (s->used == s->length && s->used + n < s->size) {
        memcpy(s->out + s->used, bytes, n);
        s->used += n;
    }
    s->length += n;
}

static void put_blanks(sink *s, size_t count)
{
    while (count--) put(s, " ", 1);
}

/* ---- one conversion ---- */

typedef struct conversion {
    char flags[8];
    int left;             /* the flag '-' */
    int width, precision; /* -1: none */
    char length[3];       /* "", h, hh, l, ll, j, z, t */
    char kind;
} conversion;

static int number_or_star(const char **at, va_list *args)
{
    if (**at == '*') {
        (*at)++;
        return va_arg(*args, int);
    }
    return (int)strtol(*at, (char **)at, 10);
}

/* Behind the '%'; returns what follows the conversion. va_list by pointer: it may be an array type. */
static const char *parse(const char *at, va_list *args, conversion *c)
{
    size_t n = strspn(at, "-+ #0");
    *c = (conversion){ .width = -1, .precision = -1 };
    memcpy(c->flags, at, n < sizeof c->flags - 1 ? n : sizeof c->flags - 1);
    c->left = strchr(c->flags, '-') != NULL;
    at += n;
    if (*at == '*' || (*at >= '0' && *at <= '9')) c->width = number_or_star(&at, args);
    if (c->width < -1) c->left = 1, c->width = -c->width;
    if (*at == '.') {
        at++;
        c->precision = number_or_star(&at, args);
        if (c->precision < 0) c->precision = -1;
    }
    n = strspn(at, "hljzt");
    memcpy(c->length, at, n < 2 ? n : 2);
    at += n;
    c->kind = *at;
    return *at ? at + 1 : at;
}

/* "%-8.3jd" of a conversion whose argument is passed as `length` says. */
static void spec_of(const conversion *c, const char *length, char spec[48])
{
    int n = sprintf(spec, "%%%s%s", c->flags, c->left && !strchr(c->flags, '-') ? "-" : "");
    if (c->width >= 0) n += sprintf(spec + n, "%d", c->width);
    if (c->precision >= 0) n += sprintf(spec + n, ".%d", c->precision);
    sprintf(spec + n, "%s%c", length, c->kind);
}

static intmax_t signed_argument(const char *length, va_list *args)
{
    if (!strcmp(length, "l")) return va_arg(*args, long);
    if (!strcmp(length, "ll")) return va_arg(*args, long long);
    if (*length == 'j') return va_arg(*args, intmax_t);
    if (*length == 'z' || *length == 't') return va_arg(*args, ptrdiff_t);
    const int value = va_arg(*args, int);
    return !strcmp(length, "hh") ? (signed char)value : *length == 'h' ? (short)value : value;
}

static uintmax_t unsigned_argument(const char *length, va_list *args)
{
    if (!strcmp(length, "l")) return va_arg(*args, unsigned long);
    if (!strcmp(length, "ll")) return va_arg(*args, unsigned long long);
    if (*length == 'j') return va_arg(*args, uintmax_t);
    if (*length == 'z' || *length == 't') return va_arg(*args, size_t);
    const unsigned value = va_arg(*args, unsigned);
    return !strcmp(length, "hh") ? (unsigned char)value : *length == 'h' ? (unsigned short)value : value;
}

/* Of `n` bytes those before a last character that needs more than there are: behind them nothing may be read,
 * there need not even be a zero. */
static size_t whole_characters(const char *text, size_t n)
{
    size_t last = n;
    while (last && n - last < 3 && ((unsigned char)text[last - 1] & 0xc0) == 0x80) last--;
    if (!last) return n;
    const unsigned char lead = (unsigned char)text[last - 1];
    const size_t wants = lead < 0xc2 || lead > 0xf4 ? 1 : lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    return wants > n - last + 1 ? last - 1 : n;
}

/* At most `limit` bytes of text (-1: up to its end). A character that the limit cuts is left out. */
static void put_text(sink *s, const char *text, int limit, const conversion *c)
{
    char shown[STK_SHOWN];
    const size_t found = limit < 0 ? strlen(text) : strnlen(text, (size_t)limit);
    const size_t bytes = limit < 0 || found < (size_t)limit ? found : whole_characters(text, found);
    const char *end = text + bytes;
    size_t columns = 0;
    for (int pass = 0; pass < 2; pass++) {
        const size_t width = c->width > 0 ? (size_t)c->width : 0, gap = width > columns ? width - columns : 0;
        if (pass && !c->left) put_blanks(s, gap);
        for (const char *at = text; at < end;) {
            const size_t n = stk_terminal_next(&at, shown);
            if (pass)
                put(s, shown, n);
            else
                columns += stk_terminal_columns_of(shown, n);
        }
        if (pass && c->left) put_blanks(s, gap);
    }
}

static void put_number(sink *s, const conversion *c, va_list *args)
{
    char spec[48], text[512]; /* the largest double has 309 digits before its point */
    int n;
    if (strchr("di", c->kind)) {
        spec_of(c, "j", spec);
        n = snprintf(text, sizeof text, spec, signed_argument(c->length, args));
    } else if (strchr("ouxX", c->kind)) {
        spec_of(c, "j", spec);
        n = snprintf(text, sizeof text, spec, unsigned_argument(c->length, args));
    } else if (c->kind == 'p') {
        spec_of(c, "", spec);
        n = snprintf(text, sizeof text, spec, va_arg(*args, void *));
    } else {
        spec_of(c, "", spec);
        n = snprintf(text, sizeof text, spec, va_arg(*args, double));
    }
    put(s, text, n < 0 ? 0 : (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
}

int stoke_text_vformat(char *out, size_t size, const char *format, va_list args)
{
    sink s = { .out = out, .size = size };
    va_list rest;
    va_copy(rest, args);
    while (*format) {
        /* Of the format itself the end may go, at a character. */
        for (const char *end = format + strcspn(format, "%"), *start = format; format < end; start = format) {
            stk_utf8_next(&format);
            put(&s, start, (size_t)(format - start));
        }
        conversion c;
        if (!*format) break;
        format = parse(format + 1, &rest, &c);
        if (c.kind == '%') {
            put(&s, "%", 1);
        } else if (c.kind == 'c') {
            const char text[2] = { (char)va_arg(rest, int), 0 };
            put_text(&s, text, -1, &c);
        } else if (c.kind == 's') {
            const char *text = va_arg(rest, const char *);
            put_text(&s, text ? text : "(null)", c.precision, &c);
        } else {
            put_number(&s, &c, &rest);
        }
    }
    va_end(rest);
    if (size) out[s.used] = 0;
    return s.length > INT32_MAX ? INT32_MAX : (int)s.length;
}

int stoke_text_format(char *out, size_t size, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int n = stoke_text_vformat(out, size, format, args);
    va_end(args);
    return n;
}

/* ---- streams ---- */

void stoke_text_vprint(FILE *out, const char *format, va_list args)
{
    char line[2048], *text = line; /* most lines; without memory for a longer one its end is lost */
    const size_t n = (size_t)stoke_text_vformat(line, sizeof line, format, args);
    char *longer = n < sizeof line ? NULL : stk_alloc(n + 1);
    if (longer) {
        text = longer;
        stoke_text_vformat(text, n + 1, format, args);
    }
    /* Where both are one pipe or file, what was printed before stands before. */
    if (out == stderr) fflush(stdout);
    fputs(text, out);
    stk_free(longer);
}

void stoke_text_print(FILE *out, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    stoke_text_vprint(out, format, args);
    va_end(args);
}

/* ---- words of a shell ---- */

/* Letters of other alphabets are plain to every shell. A word of none is not, nor '~' or '=' in front. */
static int needs_no_quotes(const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=./,:@%+";
    if (!*word || *word == '=') return 0;
    for (; *word; word++)
        if ((unsigned char)*word < 0x80 && !strchr(plain, *word)) return 0;
    return 1;
}

/* One character inside quotes: 'as it is', or $'in escapes' of its bytes. */
static void put_quoted(sink *s, const char *at, size_t n, int plain)
{
    if (plain) {
        put(s, *at == '\'' ? "'\\''" : at, *at == '\'' ? 4 : n);
        return;
    }
    char shown[STK_SHOWN];
    const char *next = at;
    const size_t bytes = stk_terminal_next(&next, shown);
    if (*at == '\'' || *at == '\\') {
        put(s, "\\", 1);
        put(s, at, 1);
    } else if (*shown != '\\' || bytes == 1) {
        put(s, at, n);
    } else {
        for (; at < next; at++)
            put(s, shown, (size_t)snprintf(shown, sizeof shown, "\\x%02x", (unsigned char)*at));
    }
}

const char *stoke_text_word(const char *word, char *out, size_t size)
{
    sink s = { .out = out, .size = size };
    const int plain = stk_terminal_plain(word), bare = plain && needs_no_quotes(word);
    if (!bare) put(&s, plain ? "'" : "$'", plain ? 1 : 2);
    while (*word) {
        const char *at = word;
        stk_utf8_next(&word);
        if (bare)
            put(&s, at, (size_t)(word - at));
        else
            put_quoted(&s, at, (size_t)(word - at), plain);
    }
    if (!bare) put(&s, "'", 1);
    if (size) out[s.used == s.length ? s.used : 0] = 0;
    return out;
}

/* ---- numbers of things ---- */

const char *stoke_text_count(uint64_t number, const char *noun, char *out, size_t size)
{
    const int hisses = stk_ends_in(noun, "s") || stk_ends_in(noun, "ch") || stk_ends_in(noun, "x");
    snprintf(out, size, "%llu %s%s", (unsigned long long)number, noun,
             number == 1 ? ""
             : hisses    ? "es"
                         : "s");
    return out;
}
