/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing errors. The one who detects a fault writes the message; the one who passes it on adds nothing.
 */
#ifndef STOKE_SRC_BASE_ERROR_H
#define STOKE_SRC_BASE_ERROR_H

#include <stoke/common.h>

/* Fills err (may be NULL) and returns code, so that `return stk_fail(err, STOKE_E_IO, "...")` reads well. */
int stk_fail(stoke_error *err, int code, const char *format, ...) STOKE_PRINTF(3, 4);

/* The same with ": " and the text of `number` (an errno value) at the end. */
int stk_fail_errno(stoke_error *err, int code, int number, const char *format, ...) STOKE_PRINTF(4, 5);

/* Puts "prefix: " in front of a message, for the one place where a file's name meets a decoder's reason. */
void stk_error_prefix(stoke_error *err, const char *prefix);

#endif
