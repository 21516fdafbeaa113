/* SPDX-License-Identifier: Apache-2.0
 *
 * Text for people that holds text from files.
 *
 * File names, YAML keys, names of classes, tensors and programs, and what drivers and other machines say, may
 * hold anything: sequences that a terminal obeys, a newline that forges a line of ours, marks that turn the
 * direction of writing. printf hands all of it on. These functions are printf, except that string arguments
 * (%s) and characters (%c) arrive in a form that can only be read:
 *
 *   control characters (also U+0080 to U+009F)  \x1b \n \t \u009b
 *   marks of direction, separators of lines     \u202e \u2066 \u2028
 *   bytes that are not UTF-8                    \xff
 *
 * Everything else, Chinese too, passes unchanged, and so does the format itself: newlines in it are the
 * programmer's. A text that went through once passes unchanged the second time. For reading, not for reading
 * back: a backslash stays one. Data (JSON, CSV, YAML) have rules of their own and do not come through here.
 *
 * Messages of stoke_error are made this way: a program may print them as they are.
 *
 * Flags, widths and precisions are those of C11 without %n, %ls, %lc, and of %L of floats; the width and
 * precision of a string are counted in bytes before, in columns after. Any thread.
 */
#ifndef STOKE_TOOLS_TERMINAL_H
#define STOKE_TOOLS_TERMINAL_H

#include <stdarg.h>
#include <stdio.h>

#include <stoke/common.h>

/* As snprintf: returns the length that was needed, and cuts what does not fit, but never inside a character
 * or an escape. `size` may be 0. */
STOKE_API int stoke_text_format(char *out, size_t size, const char *format, ...) STOKE_PRINTF(3, 4);
STOKE_API int stoke_text_vformat(char *out, size_t size, const char *format, va_list args) STOKE_PRINTF(3, 0);

/* As fprintf, in one write. */
STOKE_API void stoke_text_print(FILE *out, const char *format, ...) STOKE_PRINTF(2, 3);
STOKE_API void stoke_text_vprint(FILE *out, const char *format, va_list args) STOKE_PRINTF(2, 0);

/* A word as a shell reads it back, for command lines that are suggested: itself, or 'in quotes', or with
 * control characters $'in\x1bquotes' (bash, zsh, ksh). One that does not fit gives "", never half a word.
 * Returns out. */
STOKE_API const char *stoke_text_word(const char *word, char *out, size_t size);
/* The same in its own buffer, which lives as long as the block it is written in: for arguments of
 * printf. */
#define STOKE_WORD(word) stoke_text_word((word), (char[4 * 1024]){ 0 }, 4 * 1024)

/* "1 picture", "3 pictures", "0 classes": a number and what it counts, the noun given for one and last in its
 * words ("bad sample"). Returns out. */
STOKE_API const char *stoke_text_count(uint64_t number, const char *noun, char *out, size_t size);
/* The same in its own buffer, as STOKE_WORD. */
#define STOKE_COUNT(number, noun) stoke_text_count((uint64_t)(number), (noun), (char[64]){ 0 }, 64)

#endif
