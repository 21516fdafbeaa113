/* SPDX-License-Identifier: Apache-2.0 */
#include "src/tune/advice/advice.h"

#include <string.h>

/* Pictures of b4 and b5 are 288 x 288, as in `stoke recipe progressive`. */
const stk_advice_tier stk_tiers[] = {
    { 16, "a card of 16 GB or more", "b5", 288, 32, .lr = "3.0e-4", .epochs = 100, .scheduler = 1 },
    { 10, "a card of 10 to 12 GB", "b4", 288, 8, .lr = "3.0e-4", .epochs = 100, .scheduler = 1 },
    { 6, "a card of 6 to 8 GB", "b2", 256, 4, .lr = "3.0e-4", .epochs = 100, .scheduler = 1 },
    { 4, "a card of 4 GB", "b0", 224, 2, .lr = "2.0e-4", .epochs = 50, .accumulate = 4, .scheduler = -1 },
    { 0, "the processor alone", "b0", 224, 1, .epochs = 5, .workers = 4 },
};

static const stk_advice_expected LARGE = { "1 to 2 min", "2 to 3 h", "0.95 to 0.96" },
                                 RTX_3080 = { "2 to 3 min", "3 to 5 h", "0.93 to 0.95" },
                                 RTX_3060 = { "3 to 4 min", "5 to 7 h", "0.93 to 0.95" },
                                 RTX_3050 = { "5 to 7 min", "8 to 12 h", "0.91 to 0.93" },
                                 GTX_1650 = { "7 to 10 min", "12 to 17 h", "0.88 to 0.91" };
const stk_advice_expected stk_expected_processor = { "30 to 40 min", "50 to 70 h", "0.85 to 0.88" };

/* What is usual on other cards is known by their memory alone. What the driver or --vram says goes first, and
 * so does a size in the name ("RTX 3050 4 GB"). */
static const stk_advice_row ROWS[] = {
    { "RTX 4090", "b5", 32, 0, &LARGE },   { "RTX 3090", "b5", 24, 0, &LARGE },
    { "RTX 3080", "b4", 8, 0, &RTX_3080 }, { "RTX 3060", "b4", 8, 0, &RTX_3060 },
    { "RTX 3050", "b2", 4, 0, &RTX_3050 }, { "GTX 1650", "b0", 2, 0, &GTX_1650 },
    { "T4", "b5", 16, 2, NULL }, /* batch and workers are usual in notebooks, the model its memory's */
};

const stk_advice_row *stk_advice_row_of(const stk_gpu *gpu)
{
    for (size_t i = 0; gpu && i < sizeof ROWS / sizeof *ROWS; i++)
        if (!strcmp(gpu->name, ROWS[i].name)) return &ROWS[i];
    return NULL;
}

static const stk_advice_small_row SMALL[] = {
    { "RTX 4090", 24, 64, 128, 12, 256, 12, 1, NULL, "85 %", "3 to 5 times" },
    { "RTX 4080", 16, 48, 96, 8, 192, 8, 0, "RTX 4070", "80 %", "2 to 4 times" },
    { "RTX 4070", 12, 32, 96, 8, 192, 8, 1, NULL, "75 %", "2 to 3 times" },
    { "GTX 1080", 8, 16, 64, 6, 128, 6, -1, NULL, NULL, NULL },
};

/* Batches are the least of what is usual: 16 to 32 from 24 GB on. */
static const stk_advice_loader_row LOADERS[] = {
    { 24, 8, 16, 16, 16 }, { 16, 4, 8, 8, 8 }, { 10, 4, 4, 8, 8 }, { 0, 2, 4, 4, 8 }
};

const stk_advice_model_row stk_model_rows[STK_MODELS] = {
    { "b0", 4, 4, "quick trials, little memory" },
    { "b1", 14, 6, "a balance of both" },
    { "b2", 28, 8, "entry cards" },
    { "b3", 47, 10, "more detail than b2 where b4 does not fit" },
    { "b4", 64, 12, "the default" },
    { "b5", 84, 16, "production: the best result" },
};

size_t stk_model_index(const char *model)
{
    size_t i = 0;
    while (i + 1 < STK_MODELS && strcmp(stk_model_rows[i].model, model)) i++;
    return i;
}

int stk_is_at_least(uint64_t memory, uint32_t gb)
{
    const uint64_t sold = (uint64_t)gb << 30;
    return memory >= sold - sold / 20;
}

const stk_advice_tier *stk_tier_of(uint64_t memory)
{
    const stk_advice_tier *tier = stk_tiers;
    if (memory) /* a card of less than 4 GB is still a card */
        while (tier->gb > 4 && !stk_is_at_least(memory, tier->gb)) tier++;
    else
        while (tier->gb) tier++;
    return tier;
}

const stk_advice_loader_row *stk_loader_row_of(uint64_t memory)
{
    const stk_advice_loader_row *row = LOADERS;
    while (row->gb && !stk_is_at_least(memory, row->gb)) row++;
    return row;
}

const stk_advice_small_row *stk_small_row_of(const char *card, uint64_t memory)
{
    const size_t n = sizeof SMALL / sizeof *SMALL;
    for (size_t i = 0; card && i < n; i++)
        if (!strcmp(card, SMALL[i].card)) return &SMALL[i];
    for (size_t i = 0; i < n; i++)
        if (stk_is_at_least(memory, SMALL[i].gb)) return &SMALL[i];
    return &SMALL[n - 1];
}
