/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/card.h"

#include <stdio.h>

int cli_card_find(cli_card *card, stoke_error *err)
{
    const stoke_gpus_params params = stoke_gpus_defaults();
    stoke_gpus *gpus;
    *card = (cli_card){ 0 };
    const int r = stoke_gpus_open(&gpus, &params, err);
    if (r) return r;
    for (size_t i = 0; !*card->name && i < stoke_gpus_count(gpus); i++) {
        stoke_gpu gpu;
        stoke_gpus_read(gpus, i, &gpu);
        if (gpu.lost || !*gpu.name || !gpu.memory_total.source || gpu.memory_total.value < 1) continue;
        card->memory = gpu.memory_total;
        snprintf(card->name, sizeof card->name, "%s", gpu.name);
    }
    if (!*card->name) snprintf(card->why, sizeof card->why, "%s", stoke_gpus_why(gpus));
    stoke_gpus_close(&gpus);
    return STOKE_OK;
}

void cli_say_card(const cli_call *call, const cli_card *card)
{
    char memory[32];
    if (*card->name)
        cli_say(call, "for the card found here: %s, %s (%s)", card->name,
                stoke_text_bytes((uint64_t)card->memory.value, memory, sizeof memory),
                stoke_source_name(card->memory.source));
    else
        cli_say(call, "no card is seen%s%s; name one with --gpu or --vram", *card->why ? ": " : "",
                card->why);
}
