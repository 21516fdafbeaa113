/* SPDX-License-Identifier: Apache-2.0 */
#include "src/base/did_you_mean.h"

#include <string.h>

static char plain(char c)
{
    return c == '-' ? '_' : c;
}

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* Edits (insert, delete, replace, swap neighbours) from a to b; both at most NAME_MAX_LENGTH long. */
enum { NAME_MAX_LENGTH = 40 };
static unsigned edit_distance(const char *a, const char *b)
{
    unsigned row[3][NAME_MAX_LENGTH + 1];
    unsigned *older = row[0], *above = row[1], *now = row[2];
    size_t n = strlen(b);
    for (unsigned j = 0; j <= n; j++) above[j] = j;
    for (unsigned i = 1; a[i - 1]; i++) {
        now[0] = i;
        for (unsigned j = 1; j <= n; j++) {
            unsigned replace = above[j - 1] + (plain(a[i - 1]) != b[j - 1]);
            now[j] = least(replace, 1 + least(above[j], now[j - 1]));
            if (i > 1 && j > 1 && plain(a[i - 1]) == b[j - 2] && plain(a[i - 2]) == b[j - 1])
                now[j] = least(now[j], older[j - 2] + 1);
        }
        unsigned *spare = older;
        older = above;
        above = now;
        now = spare;
    }
    return above[n];
}

/* Someone who typed the first letters ("mem") or too much ("batch_size") means the name that begins alike. */
static int begins_alike(const char *known, const char *name, size_t length)
{
    size_t same = 0;
    while (same < length && known[same] == plain(name[same])) same++;
    return same >= 3 && (same == length || (!known[same] && plain(name[same]) == '_'));
}

stk_did_you_mean stk_did_you_mean_to(const char *typed)
{
    const size_t length = strlen(typed);
    /* A third of the letters may be wrong; more is a guess, and a wrong guess is worse than none. */
    const unsigned limit = length && length <= NAME_MAX_LENGTH ? (unsigned)(length + 2) / 3 + 1 : 0;
    return (stk_did_you_mean){ typed, NULL, limit };
}

void stk_did_you_mean_try(stk_did_you_mean *nearest, const char *known)
{
    if (!nearest->distance || strlen(known) > NAME_MAX_LENGTH) return;
    const unsigned distance = begins_alike(known, nearest->typed, strlen(nearest->typed))
                                  ? 1
                                  : edit_distance(nearest->typed, known);
    if (distance >= nearest->distance) return;
    nearest->distance = distance;
    nearest->best = known;
}
