/* SPDX-License-Identifier: Apache-2.0
 *
 * Text from files on its way to a terminal, character by character; <stoke/tools/terminal.h> has printf.
 */
#ifndef STOKE_SRC_BASE_TERMINAL_H
#define STOKE_SRC_BASE_TERMINAL_H

#include <stdint.h>

#include <stoke/tools/terminal.h>

enum { STK_SHOWN = 8 }; /* "\u202e" and its end */

/* Controls, ends of lines, marks of direction: what writers of data escape in their own way. */
int stk_terminal_obeys(uint32_t code);

/* The next character of *text, which is advanced past it, in the form that can only be read. Returns its
 * bytes, 0 at the end; an escape has a column for each of them, a letter of East Asia two, any other
 * character one. */
size_t stk_terminal_next(const char **text, char shown[STK_SHOWN]);

/* Columns of what stk_terminal_next gave. */
size_t stk_terminal_columns_of(const char shown[STK_SHOWN], size_t bytes);
/* Columns that a text takes on a terminal. */
size_t stk_terminal_columns(const char *text);

/* Whether a text would arrive as it is. */
int stk_terminal_plain(const char *text);

#endif
