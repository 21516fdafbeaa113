/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of cards, and finding one by whatever name it has.
 *
 * What crosses the link is less than it carries: pinned copies reach four fifths of it (12.5 GB/s of 15.75 by
 * PCIe 3.0 x16, and so on), pageable ones pass through a buffer of the driver and stop at what one core
 * copies. These two depend on the host as much as on the card; who has measured theirs says so
 * (stoke_device_params).
 */
#include "src/base/gpus.h"

#include <stdio.h>
#include <string.h>

#include "src/base/error.h"
#include "src/base/words.h"

/* GB/s of pinned and pageable copies. */
#define PCIE3_X16     12.5, 6
#define PCIE4_X8      12.5, 6
#define PCIE4_X16     25, 8
#define PCIE5_X16     50, 10
#define NOT_SIMULATED 0, 0

const stk_gpu stk_gpus[] = {
#define STK_GPU(...) { __VA_ARGS__ },
#include "src/base/gpus.def"
#undef STK_GPU
};
const size_t stk_gpus_count = sizeof stk_gpus / sizeof *stk_gpus;

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
static const char says_nothing[] =
    "nvidia geforce tesla quadro gpu graphics card pcie sxm sxm2 sxm4 sxm5 hbm2 "
    "hbm2e hbm3 nvl colab gb";

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
static void fold(const char *name, char key[static NAME], stk_gpu_name *found)
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
        else if (stk_is_one_of(word, "laptop mobile notebook"))
            found->portable = 1;
        else if (!stk_is_one_of(word, says_nothing) && length + n + 1 < NAME) {
            memcpy(key + length, word, n + 1);
            length += n;
        }
    }
}

stk_gpu_name stk_gpu_named(const char *name)
{
    stk_gpu_name found = { 0 };
    char key[NAME];
    fold(name, key, &found);
    stk_did_you_mean nearest = stk_did_you_mean_to(key);
    for (size_t i = 0; i < stk_gpus_count; i++) {
        stk_gpu_name ignored = { 0 };
        char known[NAME];
        fold(stk_gpus[i].name, known, &ignored);
        /* "4090" alone is what people say. */
        const char *digits = known + (is_digit(key[0]) ? strcspn(known, "0123456789") : 0);
        if (*key && !strcmp(key, digits)) found.gpu = &stk_gpus[i];
        stk_did_you_mean_try(&nearest, digits);
        if (nearest.best == digits) nearest.best = stk_gpus[i].name; /* which stays */
    }
    if (!found.gpu) found.nearest = nearest.best;
    return found;
}
