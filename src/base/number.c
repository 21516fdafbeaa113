/* SPDX-License-Identifier: Apache-2.0
 *
 * strtod and printf with the locale pinned to "C". newlocale("C") hands out a static object in glibc, so
 * switching costs two thread-local stores and cannot fail for want of memory.
 */
#include "src/base/number.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static locale_t enter_c_locale(locale_t *before)
{
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    *before = c ? uselocale(c) : (locale_t)0;
    return c;
}

static void leave_c_locale(locale_t c, locale_t before)
{
    if (!c) return;
    uselocale(before);
    freelocale(c);
}

int stk_parse_real(const char *text, double *value)
{
    /* strtod also takes blanks in front, hexadecimal, "inf" and "nan": none of them is meant as a setting. */
    if (!*text || text[strspn(text, "+-.0123456789eE")]) return 0;
    locale_t before, c = enter_c_locale(&before);
    char *end;
    double parsed = strtod(text, &end);
    leave_c_locale(c, before);
    if (end == text || *end || !isfinite(parsed)) return 0;
    *value = parsed;
    return 1;
}

int stk_parse_int(const char *text, int64_t *value)
{
    if (!*text) return 0;
    if (!text[strspn(text, "+-0123456789")]) {
        char *end;
        errno = 0;
        long long parsed = strtoll(text, &end, 10);
        if (end == text || *end || errno) return 0;
        *value = parsed;
        return 1;
    }
    /* 2^53: up to there a double holds every whole number, so "1e3" means exactly one thing. */
    double real;
    if (!stk_parse_real(text, &real) || fabs(real) > 9007199254740992.0 || real != floor(real)) return 0;
    *value = (int64_t)real;
    return 1;
}

const char *stk_format_real(double value, char text[static STK_REAL_TEXT])
{
    char shortest[STK_REAL_TEXT];
    locale_t before, c = enter_c_locale(&before);
    /* 17 significant digits always read back; most numbers people write need far fewer. */
    int digits = 1;
    for (; digits <= 17; digits++) {
        snprintf(shortest, sizeof shortest, "%.*g", digits, value);
        if (strtod(shortest, NULL) == value) break;
    }
    /* %g turns to 1e+03 when there are fewer digits than places; with 15 it writes 1000, the same digits. */
    if (digits < 15 && fabs(value) < 1e15 && fabs(value) >= 1e-4)
        snprintf(shortest, sizeof shortest, "%.15g", value);
    leave_c_locale(c, before);
    return memcpy(text, shortest, sizeof shortest);
}
