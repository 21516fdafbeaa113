/* SPDX-License-Identifier: Apache-2.0
 *
 * The card that advice is for, when nobody named one: the one found here.
 */
#ifndef STOKE_CLI_LIB_CARD_H
#define STOKE_CLI_LIB_CARD_H

#include "cli/lib/common.h"
#include <stoke/tools/probe.h>

/* Options of commands that can be asked about a card that is in another machine. Of a struct that has `const
 * char *gpu`, `double vram` and `int64_t cores`. */
#define CLI_MEANT_OPTIONS(holder)                                                                            \
    { .name = "gpu",                                                                                         \
      .type = STOKE_OPT_STRING,                                                                              \
      .offset = offsetof(holder, gpu),                                                                       \
      .argument = "NAME|N",                                                                                  \
      .help = "The card that is meant, by its name (\"RTX 3090\"), in whatever machine it is; or which of "  \
              "those seen here, as nvidia-smi counts them. Left out, the first one seen here" },             \
        { .name = "vram",                                                                                    \
          .type = STOKE_OPT_REAL,                                                                            \
          .offset = offsetof(holder, vram),                                                                  \
          .default_text = "0",                                                                               \
          .min = 0,                                                                                          \
          .max = 4096,                                                                                       \
          .argument = "GB",                                                                                  \
          .help = "Memory of the card that is meant, as it is sold (1 GB is 1024^3 bytes); 0 takes that of " \
                  "--gpu" },                                                                                 \
    {                                                                                                        \
        .name = "cores", .type = STOKE_OPT_INT, .offset = offsetof(holder, cores), .default_text = "0",      \
        .min = 0, .max = 65536, .argument = "N",                                                             \
        .help = "Cores of the machine that trains; 0 takes those usable here, unless --gpu or --vram name "  \
                "a card of another machine"                                                                  \
    }

/* A card of those seen here by its number, or one by its name: *name is NULL for the former. */
void cli_card_meant(const char *gpu, const char **name, uint32_t *index);

typedef struct cli_card {
    char name[96];       /* "" = none was found */
    stoke_figure memory; /* all of it, in bytes, and who told */
    char why[256];       /* why there is none; "" = nothing to say */
} cli_card;

/* The first card that tells its memory. A machine without one is no error. */
int cli_card_find(cli_card *card, stoke_error *err);
/* Whether the card that is meant, by its name or its memory (NULL, 0: not said), is the one found here. If it
 * is not, it is in another machine, and the cores here say nothing of that. */
int cli_card_is_here(const cli_card *card, const char *gpu, uint64_t memory);
/* Says which it is, or that there is none. */
void cli_say_card(const cli_call *call, const cli_card *card);

/* Says with which option, where a message asks for a card's memory. */
void cli_hint_memory(stoke_error *err);

#endif
