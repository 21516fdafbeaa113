/* SPDX-License-Identifier: Apache-2.0
 *
 * Finding options by name, setting one, setting all to their defaults.
 */
#include <string.h>

#include "src/base/error.h"
#include "src/base/did_you_mean.h"
#include "src/base/option_table.h"

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

const char *stk_option_nearest(const stoke_option_group *groups, size_t n_groups, const char *name)
{
    stk_did_you_mean nearest = stk_did_you_mean_to(name);
    for (size_t g = 0; g < n_groups; g++)
        for (size_t i = 0; i < groups[g].count; i++)
            stk_did_you_mean_try(&nearest, groups[g].options[i].name);
    return nearest.best;
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
