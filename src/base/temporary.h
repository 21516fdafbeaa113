/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of this process that are being written under a name for the time being. Known, so that a program that
 * must end at once can take them away.
 */
#ifndef STOKE_SRC_BASE_TEMPORARY_H
#define STOKE_SRC_BASE_TEMPORARY_H

#include <sys/types.h>

/* Part of what its writer has at hand anyway: noting allocates nothing. It must not move while it is noted.
 */
typedef struct stk_temporary {
    struct stk_temporary *before, *after;
    int folder;       /* as of openat(2) */
    const char *name; /* borrowed */
    pid_t owner;      /* a child of fork has no business with it */
} stk_temporary;

/* Before the file is made; forget it once it is gone or has its name. Forgetting what is not noted (zeros) is
 * fine. */
void stk_temporary_note(stk_temporary *temporary, int folder, const char *name);
void stk_temporary_forget(stk_temporary *temporary);

#endif
