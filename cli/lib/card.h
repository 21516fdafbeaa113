/* SPDX-License-Identifier: Apache-2.0
 *
 * The card that advice is for, when nobody named one: the one found here.
 */
#ifndef STOKE_CLI_LIB_CARD_H
#define STOKE_CLI_LIB_CARD_H

#include "cli/lib/common.h"
#include <stoke/tools/probe.h>

/* Of commands that can be asked about a card that is in another machine, with OPTIONS that have `const char
 * *gpu`, `double vram` and `int64_t cores`. */
#define CLI_MEANT_OPTIONS                                                                                    \
    CLI_TEXT(STRING, gpu, NULL, "NAME|N",                                                                    \
             "The card that is meant, by its name (\"RTX 3090\"), in whatever machine it is; or which of "   \
             "those seen here, as nvidia-smi counts them. Left out, the first one seen here"),               \
        CLI_NUMBER(REAL, vram, "0", 0, 4096, "GB",                                                           \
                   "Memory of the card that is meant, as it is sold (1 GB is 1024^3 bytes); 0 takes that "   \
                   "of --gpu"),                                                                              \
        CLI_NUMBER(INT, cores, "0", 0, 65536, "N",                                                           \
                   "Cores of the machine that trains; 0 takes those usable here, unless --gpu or --vram "    \
                   "name a card of another machine")

/* A card of those seen here by its number, or one by its name: *name is NULL for the former. */
void cli_card_meant(const char *gpu, const char **name, uint32_t *index);

typedef struct cli_card {
    char name[96];       /* "" = none was found */
    stoke_figure memory; /* all of it, in bytes, and who told */
    char why[256];       /* why there is none; "" = nothing to say */
} cli_card;

/* The first card here that tells its memory into `card`; a machine without one is no error. Where no card is
 * named by its name or its memory (NULL, 0), it is the one that is meant, which is said. *elsewhere: the one
 * that is named is another: it is in another machine, and the cores here say nothing of that. */
int cli_card_choose(const cli_call *call, cli_card *card, const char **gpu, uint64_t *memory, int *elsewhere,
                    stoke_error *err);

/* Says with which option, where a message asks for a card's memory. */
void cli_hint_memory(stoke_error *err);

#endif
