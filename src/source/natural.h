/* SPDX-License-Identifier: Apache-2.0
 *
 * Natural order: img2 before img10. A total order on byte strings: numbers by value, then bytes; only strings
 * that are the same under that rule (img2, img02) fall back to fewer leading zeros first.
 */
#ifndef STOKE_SRC_SOURCE_NATURAL_H
#define STOKE_SRC_SOURCE_NATURAL_H

#include <stddef.h>
#include <stdint.h>

/* <0, 0, >0 like memcmp. 0 only for equal strings. Digits beyond any integer type are fine. */
int stk_natural_compare(const char *a, size_t a_length, const char *b, size_t b_length);

/* The beginning of a string as a number: where two keys differ, they are in the natural order of the strings;
 * where they are equal, compare. Strings must not contain NUL. */
uint64_t stk_natural_key(const char *text, size_t length);

#endif
