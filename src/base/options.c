/* SPDX-License-Identifier: Apache-2.0
 *
 * Finding options by name, setting one, setting all to their defaults.
 */
#include <string.h>

#include "src/base/error.h"
#include "src/base/options_private.h"

static stk_option_hit bind(const stoke_option_group *group, size_t index)
{
    const stoke_option *option = &group->options[index];
    return (stk_option_hit){ option, (char *)group->target + option->offset };
}

static char plain(char c)
{
    return c == '-' ? '_' : c;
}

static int same_name(const char *known, const char *name, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (!known[i] || plain(name[i]) != known[i]) return 0;
    return !known[length];
}

int stk_option_find(const stoke_option_group *groups, size_t n_groups, const char *name, size_t length,
                    stk_option_hit *hit)
{
    for (size_t g = 0; g < n_groups; g++)
        for (size_t i = 0; i < groups[g].count; i++)
            if (same_name(groups[g].options[i].name, name, length)) {
                *hit = bind(&groups[g], i);
                return 1;
            }
    return 0;
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

const char *stk_option_nearest(const stoke_option_group *groups, size_t n_groups, const char *name)
{
    const char *best = NULL;
    size_t length = strlen(name);
    if (!length || length > NAME_MAX_LENGTH) return NULL;
    /* A third of the letters may be wrong; more is a guess, and a wrong guess is worse than none. */
    unsigned best_distance = (unsigned)(length + 2) / 3 + 1;
    for (size_t g = 0; g < n_groups; g++)
        for (size_t i = 0; i < groups[g].count; i++) {
            const char *known = groups[g].options[i].name;
            if (strlen(known) > NAME_MAX_LENGTH) continue;
            unsigned distance = begins_alike(known, name, length) ? 1 : edit_distance(name, known);
            if (distance < best_distance) {
                best_distance = distance;
                best = known;
            }
        }
    return best;
}

void stk_option_flag(const char *name, const char *prefix, const char *dash, char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "%s", prefix);
    for (; *name && used < size; name++)
        used += (size_t)snprintf(text + used, size - used, "%.*s", *name == '_' ? (int)strlen(dash) : 1,
                                 *name == '_' ? dash : name);
}

void stoke_options_defaults(const stoke_option_group *group)
{
    for (size_t i = 0; i < group->count; i++) stk_option_reset(bind(group, i));
}

int stoke_options_set(const stoke_option_group *groups, size_t n_groups, const char *name, const char *value,
                      stoke_error *err)
{
    stk_option_hit hit;
    if (!stk_option_find(groups, n_groups, name, strlen(name), &hit)) {
        const char *near = stk_option_nearest(groups, n_groups, name);
        return stk_fail(err, STOKE_E_NOTFOUND,
                        near ? "unknown setting '%.80s': did you mean %s?" : "unknown setting '%.80s'", name,
                        near);
    }
    if (!value) {
        stk_option_reset(hit);
        return STOKE_OK;
    }
    return stk_option_assign(hit, hit.option->name, value, err);
}
