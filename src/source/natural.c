/* SPDX-License-Identifier: Apache-2.0 */
#include "src/source/natural.h"

#include <string.h>

static int is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Moves *at past a run of digits. Returns where its significant digits start, and in *digits how many there
 * are. */
static size_t number_at(const char *text, size_t length, size_t *at, size_t *digits)
{
    size_t i = *at;
    while (i < length && text[i] == '0') i++;
    size_t start = i;
    while (i < length && is_digit(text[i])) i++;
    *digits = i - start;
    *at = i;
    return start;
}

int stk_natural_compare(const char *a, size_t a_length, const char *b, size_t b_length)
{
    size_t i = 0, j = 0;
    int zeros = 0; /* the first difference in leading zeros, kept for a tie */
    while (i < a_length && j < b_length) {
        if (is_digit(a[i]) && is_digit(b[j])) {
            size_t a_begin = i, b_begin = j, a_digits, b_digits;
            size_t a_start = number_at(a, a_length, &i, &a_digits),
                   b_start = number_at(b, b_length, &j, &b_digits);
            if (a_digits != b_digits) return a_digits < b_digits ? -1 : 1;
            int order = memcmp(a + a_start, b + b_start, a_digits);
            if (order) return order;
            size_t a_zeros = a_start - a_begin, b_zeros = b_start - b_begin;
            if (!zeros && a_zeros != b_zeros) zeros = a_zeros < b_zeros ? -1 : 1;
        } else {
            if (a[i] != b[j]) return (unsigned char)a[i] < (unsigned char)b[j] ? -1 : 1;
            i++, j++;
        }
    }
    if (i < a_length || j < b_length) return i < a_length ? 1 : -1;
    return zeros;
}

/* Bytes stand for themselves. A number becomes one byte for its count of significant digits ('0' + count, so
 * that it keeps its place among other bytes) and then the digits; from nine digits on the key ends there. */
uint64_t stk_natural_key(const char *text, size_t length)
{
    unsigned char bytes[8] = { 0 };
    size_t used = 0, at = 0;
    while (used < sizeof bytes && at < length) {
        if (!is_digit(text[at])) {
            bytes[used++] = (unsigned char)text[at++];
            continue;
        }
        size_t digits, start = number_at(text, length, &at, &digits);
        bytes[used++] = (unsigned char)('0' + (digits < 9 ? digits : 9));
        if (digits >= 9) break;
        for (size_t i = 0; i < digits && used < sizeof bytes; i++)
            bytes[used++] = (unsigned char)text[start + i];
    }
    uint64_t key = 0;
    for (size_t i = 0; i < sizeof bytes; i++) key = key << 8 | bytes[i];
    return key;
}
