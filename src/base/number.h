/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers as text, the same in every locale: a program that called setlocale(LC_ALL, "de_DE") must neither
 * write "0,5" into JSON nor refuse "0.5" on the command line.
 */
#ifndef STOKE_SRC_BASE_NUMBER_H
#define STOKE_SRC_BASE_NUMBER_H

#include <stddef.h>
#include <stdint.h>

/* The whole text must be a decimal number: sign, digits, point, exponent. No blanks, hex, inf or nan; a
 * number too large for the type is refused too. 1 = ok; *value is untouched on failure. */
int stk_parse_real(const char *text, double *value);
/* The same for whole numbers; 1e3 and 2.0 are whole, 1.5 is not. */
int stk_parse_int(const char *text, int64_t *value);

enum { STK_REAL_TEXT = 32 };
/* Shortest decimal text that reads back to the same double. value must be finite. Returns text. */
const char *stk_format_real(double value, char text[static STK_REAL_TEXT]);

#endif
