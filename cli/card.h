/* SPDX-License-Identifier: Apache-2.0
 *
 * The card that advice is for, when nobody named one: the one found here.
 */
#ifndef STOKE_CLI_CARD_H
#define STOKE_CLI_CARD_H

#include "cli/common.h"
#include <stoke/probe.h>

typedef struct cli_card {
    char name[96];       /* "" = none was found */
    stoke_figure memory; /* all of it, in bytes, and who told */
    char why[256];       /* why there is none; "" = nothing to say */
} cli_card;

/* The first card that tells its memory. A machine without one is no error. */
int cli_card_find(cli_card *card, stoke_error *err);
/* Says which it is, or that there is none and why. */
void cli_say_card(const cli_call *call, const cli_card *card);

#endif
