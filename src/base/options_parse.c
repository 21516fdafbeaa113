/* SPDX-License-Identifier: Apache-2.0
 *
 * The command line: --name value, --name=value, --flag, --no-flag, and words that are no options.
 */
#include <string.h>

#include "src/base/error.h"
#include "src/base/did_you_mean.h"
#include "src/base/option_table.h"

typedef struct parser {
    const stoke_option_group *groups;
    size_t n_groups;
    int argc, next;
    char **argv;
    stoke_error *err;
} parser;

static int unknown(const parser *p, const char *word, size_t length)
{
    char name[48], flag[64];
    snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name ? length : sizeof name - 1), word + 2);
    const char *near = stk_option_nearest(p->groups, p->n_groups, name);
    stk_did_you_mean nearest = stk_did_you_mean_to(name);
    if (near) stk_did_you_mean_try(&nearest, near);
    stk_did_you_mean_try(&nearest, "help"); /* every command has it, and no table */
    near = nearest.best;
    if (!near) return stk_fail(p->err, STOKE_E_NOTFOUND, "unknown option '%.*s'", (int)length + 2, word);
    stk_option_flag(near, "--", "-", flag, sizeof flag);
    return stk_fail(p->err, STOKE_E_NOTFOUND, "unknown option '%.*s': did you mean %s?", (int)length + 2,
                    word, flag);
}

/* --no-x switches the flag x off; no other type has a no-form. */
static int negated_flag(const parser *p, const char *name, size_t length, stk_option_hit *hit)
{
    return length > 3 && !strncmp(name, "no-", 3) &&
           stk_option_find(p->groups, p->n_groups, name + 3, length - 3, hit) &&
           hit->option->type == STOKE_OPT_FLAG;
}

/* One word that starts with "--" and has more behind. May take the next word as its value. */
static int parse_option(parser *p, const char *word)
{
    stk_option_hit hit;
    char shown[64];
    const char *name = word + 2, *equals = strchr(name, '='), *value = equals ? equals + 1 : NULL;
    size_t length = equals ? (size_t)(equals - name) : strlen(name);
    int known = stk_option_find(p->groups, p->n_groups, name, length, &hit);
    if (!known && negated_flag(p, name, length, &hit)) {
        if (equals) return stk_fail(p->err, STOKE_E_INVALID, "%.*s takes no value", (int)length + 2, word);
        return stk_option_assign(hit, word, "false", p->err);
    }
    if (!known) return unknown(p, word, length);
    stk_option_flag(hit.option->name, "--", "-", shown, sizeof shown);
    if (!value && hit.option->type == STOKE_OPT_FLAG) value = "true";
    if (!value) {
        /* "--data --batch 4": the value was forgotten. A value that really starts so is written
         * --name=--value. */
        if (p->next >= p->argc || !strncmp(p->argv[p->next], "--", 2))
            return stk_fail(p->err, STOKE_E_INVALID, "%s needs a value", shown);
        value = p->argv[p->next++];
    }
    return stk_option_assign(hit, shown, value, p->err);
}

int stoke_options_parse(const stoke_option_group *groups, size_t n_groups, int argc, char **argv, char **rest,
                        int *n_rest, int *help, stoke_error *err)
{
    parser p = { .groups = groups, .n_groups = n_groups, .argc = argc, .next = 1, .argv = argv, .err = err };
    *n_rest = 0;
    *help = 0;
    while (p.next < argc) {
        char *word = argv[p.next++];
        if (!strcmp(word, "--")) break;
        if (!strcmp(word, "--help") || !strcmp(word, "-h")) {
            *help = 1;
            return STOKE_OK;
        }
        if (!strncmp(word, "--", 2)) {
            int r = parse_option(&p, word);
            if (r) return r;
        } else if (word[0] == '-' && word[1] && !(word[1] >= '0' && word[1] <= '9')) {
            return stk_fail(err, STOKE_E_NOTFOUND, "unknown option '%.80s' (options start with two dashes)",
                            word);
        } else {
            rest[(*n_rest)++] = word; /* "-" alone and negative numbers are words like any other */
        }
    }
    while (p.next < argc) rest[(*n_rest)++] = argv[p.next++];
    return STOKE_OK;
}
