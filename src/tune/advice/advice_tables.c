/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables, and finding a card in them by whatever name it has.
 */
#include "src/tune/advice/advice_tables.h"

#include <stdio.h>
#include <string.h>

#include "src/base/error.h"

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

/* Those with a model have settings of their own; the others are known by their memory. What the driver or
 * --vram says goes first, and so does a size in the name ("RTX 3050 4 GB"). */
const stk_advice_row stk_advice_rows[] = {
    { "RTX 4090", 24, "b5", 32, 0, &LARGE, 0 },
    { "RTX 3090", 24, "b5", 24, 0, &LARGE, 0 },
    { "RTX 3080", 10, "b4", 8, 0, &RTX_3080, 12 },
    { "RTX 3060", 12, "b4", 8, 0, &RTX_3060, 8 },
    { "RTX 3050", 8, "b2", 4, 0, &RTX_3050, 4 },
    { "GTX 1650", 4, "b0", 2, 0, &GTX_1650, 0 },
    { "T4", 16, "b5", 16, 2, NULL, 0 }, /* batch and workers are usual in notebooks, the model its memory's */
    { .name = "RTX 5090", .gb = 32 },
    { .name = "RTX 5080", .gb = 16 },
    { .name = "RTX 5070 Ti", .gb = 16 },
    { .name = "RTX 5070", .gb = 12 },
    { .name = "RTX 4080 SUPER", .gb = 16 },
    { .name = "RTX 4080", .gb = 16 },
    { .name = "RTX 4070 Ti SUPER", .gb = 16 },
    { .name = "RTX 4070 Ti", .gb = 12 },
    { .name = "RTX 4070 SUPER", .gb = 12 },
    { .name = "RTX 4070", .gb = 12 },
    { .name = "RTX 4060 Ti", .gb = 8, .also_gb = 16 },
    { .name = "RTX 4060", .gb = 8 },
    { .name = "RTX 3090 Ti", .gb = 24 },
    { .name = "RTX 3080 Ti", .gb = 12 },
    { .name = "RTX 3070 Ti", .gb = 8 },
    { .name = "RTX 3070", .gb = 8 },
    { .name = "RTX 3060 Ti", .gb = 8 },
    { .name = "RTX 2080 Ti", .gb = 11 },
    { .name = "RTX 2080", .gb = 8 },
    { .name = "RTX 2070", .gb = 8 },
    { .name = "RTX 2060", .gb = 6, .also_gb = 12 },
    { .name = "GTX 1660 SUPER", .gb = 6 },
    { .name = "GTX 1660 Ti", .gb = 6 },
    { .name = "GTX 1660", .gb = 6 },
    { .name = "GTX 1080 Ti", .gb = 11 },
    { .name = "GTX 1080", .gb = 8 },
    { .name = "GTX 1070", .gb = 8 },
    { .name = "GTX 1060", .gb = 3, .also_gb = 6 },
    { .name = "GTX 1050 Ti", .gb = 4 },
    { .name = "GTX 1650 SUPER", .gb = 4 },
    { .name = "MX450", .gb = 4, .also_gb = 2 },
    { .name = "TITAN RTX", .gb = 24 },
    { .name = "P100", .gb = 12, .also_gb = 16 },
    { .name = "V100", .gb = 16, .also_gb = 32 },
    { .name = "L4", .gb = 24 },
    { .name = "A10", .gb = 24 },
    { .name = "A10G", .gb = 24 },
    { .name = "L40S", .gb = 48 },
    { .name = "RTX A6000", .gb = 48 },
    { .name = "A100", .gb = 40, .also_gb = 80 },
    { .name = "H100", .gb = 80 },
};
const size_t stk_advice_rows_count = sizeof stk_advice_rows / sizeof *stk_advice_rows;

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

/* ---- names ---- */

enum { NAME = 64 };

static char small_letter(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static int is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static int is_word(char c)
{
    return is_digit(c) || (small_letter(c) >= 'a' && small_letter(c) <= 'z');
}

/* Makers, families and connectors, which do not tell cards apart. */
static int says_nothing(const char *word)
{
    static const char *const words[] = { "nvidia", "geforce", "tesla", "quadro", "gpu",   "graphics",
                                         "card",   "pcie",    "sxm",   "sxm2",   "sxm4",  "sxm5",
                                         "hbm2",   "hbm2e",   "hbm3",  "nvl",    "colab", "gb" };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcmp(word, words[i])) return 1;
    return 0;
}

/* "40gb" -> 40; "4" -> 4 where "gb" is the word behind it. */
static uint32_t gigabytes(const char *word, const char *behind)
{
    unsigned gb;
    int used = 0;
    if (sscanf(word, "%3u%n", &gb, &used) != 1) return 0;
    behind += strspn(behind, " ");
    const int apart = !word[used] && small_letter(behind[0]) == 'g' && small_letter(behind[1]) == 'b' &&
                      !is_word(behind[2]);
    return apart || !strcmp(word + used, "gb") ? gb : 0;
}

/* The letters and digits that tell a card: "NVIDIA GeForce RTX 3090" -> "rtx3090". */
static void fold(const char *name, char key[static NAME], stk_advice_name *found)
{
    size_t length = 0;
    key[0] = 0;
    while (*name) {
        char word[NAME];
        size_t n = 0;
        while (*name && !is_word(*name)) name++;
        for (; is_word(*name); name++)
            if (n + 1 < sizeof word) word[n++] = small_letter(*name);
        word[n] = 0;
        const uint32_t gb = gigabytes(word, name);
        if (gb)
            found->gb = gb;
        else if (!strcmp(word, "laptop") || !strcmp(word, "mobile") || !strcmp(word, "notebook"))
            found->portable = 1;
        else if (!says_nothing(word) && length + n + 1 < NAME) {
            memcpy(key + length, word, n + 1);
            length += n;
        }
    }
}

stk_advice_name stk_advice_card(const char *name)
{
    stk_advice_name found = { 0 };
    char key[NAME];
    fold(name, key, &found);
    stk_did_you_mean nearest = stk_did_you_mean_to(key);
    for (size_t i = 0; i < stk_advice_rows_count; i++) {
        stk_advice_name ignored = { 0 };
        char known[NAME];
        fold(stk_advice_rows[i].name, known, &ignored);
        /* "4090" alone is what people say. */
        const char *digits = known + (is_digit(key[0]) ? strcspn(known, "0123456789") : 0);
        if (*key && !strcmp(key, digits)) found.card = &stk_advice_rows[i];
        stk_did_you_mean_try(&nearest, digits);
        if (nearest.best == digits) nearest.best = stk_advice_rows[i].name; /* which stays */
    }
    if (!found.card) found.nearest = nearest.best;
    return found;
}

/* NVIDIA's compute capabilities by the beginning of a name; the longest one that fits counts. GTX 16 has no
 * tensor cores, and yet gains by half precision. */
static const struct {
    const char *begins;
    double capability;
} generations[] = {
    { "RTX 50", 12.0 }, { "RTX 40", 8.9 },    { "RTX 30", 8.6 }, { "RTX 20", 7.5 },
    { "RTX A", 8.6 },   { "GTX 16", 7.5 },    { "GTX 10", 6.1 }, { "MX450", 7.5 },
    { "T4", 7.5 },      { "TITAN RTX", 7.5 }, { "P100", 6.0 },   { "V100", 7.0 },
    { "L4", 8.9 },      { "A10", 8.6 },       { "A100", 8.0 },   { "H100", 9.0 },
};

double stk_advice_capability(const char *name)
{
    size_t longest = 0;
    double found = 0;
    for (size_t i = 0; i < sizeof generations / sizeof *generations; i++) {
        const size_t n = strlen(generations[i].begins);
        if (n <= longest || strncmp(name, generations[i].begins, n) != 0) continue;
        longest = n;
        found = generations[i].capability;
    }
    return found;
}
