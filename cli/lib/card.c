/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/lib/card.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stoke/tools/advise.h>

void cli_card_meant(const char *gpu, const char **name, uint32_t *index)
{
    /* Nobody has a thousand cards in a machine, and "4090" is what people call one. */
    const size_t digits = gpu ? strspn(gpu, "0123456789") : 0;
    const int counts = digits && !gpu[digits] && digits <= 3;
    *index = counts ? (uint32_t)strtoul(gpu, NULL, 10) : 0;
    *name = counts ? NULL : gpu;
}

int cli_card_choose(const cli_call *call, cli_card *card, const char **gpu, uint64_t *memory, int *elsewhere,
                    stoke_error *err)
{
    stoke_gpu first;
    int found;
    *card = (cli_card){ 0 };
    *elsewhere = 0;
    const int r = stoke_gpu_find(&first, &found, card->why, sizeof card->why, err);
    if (r) return r;
    if (found) {
        card->memory = first.memory_total;
        snprintf(card->name, sizeof card->name, "%s", first.name);
    }
    const double here = card->memory.value, meant = (double)*memory;
    if (*gpu || *memory) {
        *elsewhere = !*card->name ||
                     (*gpu ? !stoke_card_same(*gpu, card->name) : meant <= 0.9 * here || meant >= 1.1 * here);
    } else if (*card->name) {
        *gpu = card->name;
        *memory = (uint64_t)here;
        cli_say(call, "for the card found here: %s, %s (%s)", card->name, STOKE_MEMORY(*memory),
                stoke_source_name(card->memory.source));
    }
    return STOKE_OK;
}

void cli_hint_memory(stoke_error *err)
{
    static const char asks[] = "give its memory, too";
    const size_t n = strlen(err->message), k = sizeof asks - 1;
    if (n >= k && !strcmp(err->message + n - k, asks))
        snprintf(err->message + n, sizeof err->message - n, " (--vram GB)");
}
