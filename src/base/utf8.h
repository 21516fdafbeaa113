/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading UTF-8 that may not be UTF-8: file names are bytes.
 */
#ifndef STOKE_SRC_BASE_UTF8_H
#define STOKE_SRC_BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

enum { STK_UTF8_BAD = 0xfffd };

/* The code point at *text, which is advanced past it; never past the terminating zero. A byte that starts no
 * valid sequence (stray continuation, overlong form, surrogate, beyond U+10FFFF, cut off) gives STK_UTF8_BAD
 * and advances by one. At the end: 0, not advanced. */
static inline uint32_t stk_utf8_next(const char **text)
{
    const unsigned char *p = (const unsigned char *)*text;
    if (p[0] < 0x80) {
        *text += p[0] != 0;
        return p[0];
    }
    int more = p[0] >= 0xf0 ? 3 : p[0] >= 0xe0 ? 2 : 1;
    static const uint32_t least[4] = { 0, 0x80, 0x800, 0x10000 };
    uint32_t code = p[0] & (0x3fu >> more);
    int good = p[0] >= 0xc2 && p[0] <= 0xf4;
    for (int i = 1; good && i <= more; i++) {
        good = (p[i] & 0xc0) == 0x80; /* false at the terminating zero, so no byte behind it is read */
        code = code << 6 | (p[i] & 0x3fu);
    }
    good = good && code >= least[more] && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
    *text += good ? more + 1 : 1;
    return good ? code : STK_UTF8_BAD;
}

/* Whether all of a text is UTF-8. */
static inline int stk_utf8_is_all(const char *text)
{
    while (*text) {
        const char *start = text;
        if (stk_utf8_next(&text) == STK_UTF8_BAD && text - start == 1) return 0;
    }
    return 1;
}

/* Letters as wide as they are high, which take two columns of a terminal: those of East Asia (UAX #11), by
 * their blocks. */
static inline int stk_utf8_is_wide(uint32_t code)
{
    return (code >= 0x1100 && code <= 0x115f) || (code >= 0x2e80 && code <= 0xa4cf) ||
           (code >= 0xac00 && code <= 0xd7a3) || (code >= 0xf900 && code <= 0xfaff) ||
           (code >= 0xfe30 && code <= 0xfe6f) || (code >= 0xff00 && code <= 0xff60) ||
           (code >= 0xffe0 && code <= 0xffe6) || (code >= 0x20000 && code <= 0x3fffd);
}

#endif
