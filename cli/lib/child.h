/* SPDX-License-Identifier: Apache-2.0
 *
 * This program once more, as a child that may run out of memory, crash or hang without harm to its parent.
 */
#ifndef STOKE_CLI_LIB_CHILD_H
#define STOKE_CLI_LIB_CHILD_H

#include <sys/types.h>

#include "cli/lib/common.h"

enum { CLI_CHILD_WORDS = 40, CLI_CHILD_OUT = 4096 };

typedef struct cli_child {
    /* filled before */
    const char *words[CLI_CHILD_WORDS + 1]; /* the command and its arguments; ends with NULL */
    double seconds;                         /* it may take; then its whole group is killed */
    int (*tick)(void *context);             /* called ten times a second; non-zero asks to stop */
    void *context;
    /* by cli_child_run */
    int status, timed_out; /* status as of waitpid */
    uint64_t kills_before, kills_after;
    char out[CLI_CHILD_OUT]; /* the first of what it printed */
    char last[256];          /* its last line on stderr that says something, with what belongs to it */
} cli_child;

/* Runs it to its end, whatever that is. STOKE_E_CANCELLED: tick asked, or a signal; nothing of it is left. */
int cli_child_run(cli_child *child, stoke_error *err);

#endif
