/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs on a card, on a page of figures.
 */
#ifndef STOKE_CLI_PROCESS_LIST_H
#define STOKE_CLI_PROCESS_LIST_H

#include "cli/page.h"
#include <stoke/probe.h>

/* Within the entry of the card: "processes" and "more_processes" for programs, a paragraph each for people.
 */
void cli_page_processes(cli_page *page, const stoke_gpu *gpu);

#endif
