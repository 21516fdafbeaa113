/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing errors. The one who detects a fault writes the message; the one who passes it on adds nothing.
 */
#ifndef STOKE_SRC_BASE_ERROR_H
#define STOKE_SRC_BASE_ERROR_H

#include <stoke/common.h>

/* Fills err (may be NULL) and returns code, so that `return stk_fail(err, STOKE_E_IO, "...")` reads well.
 * Text of string arguments is made safe for a terminal here (<stoke/tools/terminal.h>), newlines too, so that
 * no message can carry more than words; newlines of the format stay. */
int stk_fail(stoke_error *err, int code, const char *format, ...) STOKE_PRINTF(3, 4);

/* The same with ": " and the text of `number` (an errno value) at the end. Where that is want of memory or of
 * something else that is nobody's fault (stk_is_shortage), the code is STOKE_E_NOMEM or STOKE_E_RESOURCES,
 * whatever `code` says, and the message ends with what to do. */
int stk_fail_errno(stoke_error *err, int code, int number, const char *format, ...) STOKE_PRINTF(4, 5);

/* STOKE_E_NOMEM and STOKE_E_RESOURCES: no file is to be blamed, and what was being done ends with it. */
int stk_is_want(int status);

/* Parameters whose struct_size is not that of this version, or not set: `maker` is the function that sets it.
 */
int stk_fail_struct(stoke_error *err, const char *maker);

/* Hands on a message that was made by these functions: as it is, its newlines too. */
int stk_fail_again(stoke_error *err, int code, const char *message);

/* Puts more behind a message; what does not fit is lost. */
void stk_error_add(stoke_error *err, const char *format, ...) STOKE_PRINTF(2, 3);
/* "\n  entry" behind a message if all of it fits and leaves room for "\n  ... and N more"; whether it did. */
int stk_error_add_entry(stoke_error *err, const char *entry);
/* A text of several lines that others wrote, e.g. a compiler: each line indented, empty ones left out. */
void stk_error_add_lines(stoke_error *err, const char *text, size_t bytes);

/* Puts "prefix: " in front of a message, for the one place where a file's name meets a decoder's reason. */
void stk_error_prefix(stoke_error *err, const char *prefix);

/* "did you mean ...?": the known name most like one that was typed. */

typedef struct stk_did_you_mean {
    const char *typed;
    const char *best; /* of the names tried so far; NULL: none is near enough to be meant */
    unsigned distance;
} stk_did_you_mean;

/* `-` and `_` are the same letter in the typed name. */
stk_did_you_mean stk_did_you_mean_to(const char *typed);
void stk_did_you_mean_try(stk_did_you_mean *nearest, const char *known);

#endif
