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

int cli_card_find(cli_card *card, stoke_error *err)
{
    stoke_gpu gpu;
    int found;
    *card = (cli_card){ 0 };
    const int r = stoke_gpu_find(&gpu, &found, card->why, sizeof card->why, err);
    if (r || !found) return r;
    card->memory = gpu.memory_total;
    snprintf(card->name, sizeof card->name, "%s", gpu.name);
    return STOKE_OK;
}

int cli_card_is_here(const cli_card *card, const char *gpu, uint64_t memory)
{
    const double here = card->memory.value;
    if (!*card->name) return 0;
    if (gpu) return stoke_card_same(gpu, card->name);
    return !memory || ((double)memory > 0.9 * here && (double)memory < 1.1 * here);
}

void cli_say_card(const cli_call *call, const cli_card *card)
{
    if (*card->name)
        cli_say(call, "for the card found here: %s, %s (%s)", card->name,
                STOKE_MEMORY((uint64_t)card->memory.value), stoke_source_name(card->memory.source));
    else
        cli_say(call, "no card is seen here; --gpu or --vram name one");
}

void cli_hint_memory(stoke_error *err)
{
    static const char asks[] = "give its memory, too";
    const size_t n = strlen(err->message), k = sizeof asks - 1;
    if (n >= k && !strcmp(err->message + n - k, asks))
        snprintf(err->message + n, sizeof err->message - n, " (--vram GB)");
}
