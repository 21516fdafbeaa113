/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs on a card, on a page of figures.
 */
#ifndef STOKE_CLI_LIB_PROCESS_LIST_H
#define STOKE_CLI_LIB_PROCESS_LIST_H

#include "cli/lib/page.h"
#include <stoke/tools/probe.h>

/* One of them, as it is now or as it was at most. */
typedef struct cli_program {
    uint32_t pid;
    const char *name; /* "" = in another container */
    int own, at_most; /* at_most: the figures are peaks */
    stoke_figure memory, busy;
} cli_program;
void cli_page_program(cli_page *page, const cli_program *program);

/* All of a card that is being looked at, within its entry: "processes" and "more_processes" for programs, a
 * paragraph each for people. */
void cli_page_processes(cli_page *page, const stoke_gpu *gpu);

#endif
