/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of the system that may work the next time, for programs that make some by themselves: the library's
 * own are tried again by the same rule. Any thread.
 */
#ifndef STOKE_TOOLS_RETRY_H
#define STOKE_TOOLS_RETRY_H

#include <stoke/common.h>

/* What was tried so far for one thing; begin with zeros. */
typedef struct stoke_patience {
    unsigned interrupted, repeated, waited;
} stoke_patience;

/* After a call failed with `number` (errno): 1 to try again, after the pause that is right for it; 0 to give
 * up.
 *   EINTR                                         at once
 *   EIO, ESTALE, ETIMEDOUT and the like           3 times, over 0.3 s; ESTALE needs the file opened again.
 * When 4 in a row were lost, with no read that worked in between, the disk is gone: once in the next 10 s
 *   EMFILE, ENFILE, ENOMEM, EAGAIN, ENOLCK        for 3 s, in growing pauses; when that was in vain, nobody
 *                                                 waits so long again in the next 10 s */
STOKE_API int stoke_again(stoke_patience *patience, int number);

/* Whether a path that could not be looked at is not there, by errno. All other errors, such as EIO and
 * EACCES, leave that open. */
STOKE_API int stoke_is_absent(int number);

#endif
