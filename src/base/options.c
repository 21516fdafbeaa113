/* SPDX-License-Identifier: Apache-2.0
 *
 * Finding options by name, setting one, setting all to their defaults.
 */
#include <string.h>

#include <ctype.h>
#include <strings.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/base/option_table.h"
#include "src/base/words.h"

static stk_option_hit bind(const stoke_option_group *group, size_t index)
{
    const stoke_option *option = &group->options[index];
    return (stk_option_hit){ option, (char *)group->target + option->offset };
}

static int same_name(const char *known, const char *name, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (!known[i] || (name[i] == '-' ? '_' : name[i]) != known[i]) return 0;
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

stk_did_you_mean stk_option_nearest(const stoke_option_group *groups, size_t n_groups, const char *name)
{
    stk_did_you_mean nearest = stk_did_you_mean_to(name);
    for (size_t g = 0; g < n_groups; g++)
        for (size_t i = 0; i < groups[g].count; i++)
            stk_did_you_mean_try(&nearest, groups[g].options[i].name);
    return nearest;
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
        const char *near = stk_option_nearest(groups, n_groups, name).best;
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

/* Words that other programs have for values of ours: what Lightning, Accelerate and torch call a precision,
 * what Hugging Face and timm call a SegFormer. Read wherever an option of that name is, flag or file.
 */

static const char *const precisions[][2] = {
    { "fp32", "32 32-true float32 torch.float32 full" },
    { "fp16", "16 16-mixed 16-true fp16-mixed float16 half torch.float16" },
    { "bf16", "bf16-mixed bf16-true bfloat16 torch.bfloat16" },
};

static int begins_with(const char *text, size_t length, const char *word)
{
    return length >= strlen(word) && !strncasecmp(text, word, strlen(word));
}

/* Whether what stands before "b4" says that it is a SegFormer: "nvidia/segformer-", "mit_", "". There is an
 * efficientnet-b4 too. */
static int is_segformer(const char *text, size_t length)
{
    if (!length) return 1;
    for (size_t i = 0; i < length; i++) {
        if (begins_with(text + i, length - i, "segformer")) return 1;
        const int word = (!i || !isalnum((unsigned char)text[i - 1])) &&
                         begins_with(text + i, length - i, "mit") &&
                         (length - i == 3 || !isalnum((unsigned char)text[i + 3]));
        if (word) return 1;
    }
    return 0;
}

const char *stk_network_word(const char *text)
{
    /* It was called smallnet before there was one. */
    if (stk_is_one_of_any_case(text, "resnet smallnet")) return "resnet";
    static const char *const names[] = { "b0", "b1", "b2", "b3", "b4", "b5" };
    for (const char *p = text; *p; p++) {
        const size_t before = (size_t)(p - text);
        if ((*p != 'b' && *p != 'B') || p[1] < '0' || p[1] > '5' || isalnum((unsigned char)p[2])) continue;
        if (is_segformer(text, before)) return names[p[1] - '0'];
    }
    return NULL;
}

const char *stk_option_word(const char *option, const char *value)
{
    if (!strcmp(option, "model")) {
        const char *name = stk_network_word(value);
        return name ? name : value;
    }
    if (!strcmp(option, "task") && !strcasecmp(value, "smallnet")) return "resnet"; /* of recommend */
    for (size_t i = 0; !strcmp(option, "precision") && i < sizeof precisions / sizeof *precisions; i++)
        if (stk_is_one_of_any_case(value, precisions[i][1])) return precisions[i][0];
    return value;
}

/* The command line: --name value, --name=value, --flag, --no-flag, and words that are no options. */

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
    stk_did_you_mean nearest = stk_option_nearest(p->groups, p->n_groups, name);
    stk_did_you_mean_try(&nearest, "help"); /* every command has it, and no table */
    if (!nearest.best)
        return stk_fail(p->err, STOKE_E_NOTFOUND, "unknown option '%.*s'", (int)length + 2, word);
    stk_option_flag(nearest.best, "--", "-", flag, sizeof flag);
    return stk_fail(p->err, STOKE_E_NOTFOUND, "unknown option '%.*s': did you mean %s?", (int)length + 2,
                    word, flag);
}

/* One word that starts with "--" and has more behind. May take the next word as its value. */
static int parse_option(parser *p, const char *word)
{
    stk_option_hit hit;
    char shown[64];
    const char *name = word + 2, *equals = strchr(name, '='), *value = equals ? equals + 1 : NULL;
    size_t length = equals ? (size_t)(equals - name) : strlen(name);
    int known = stk_option_find(p->groups, p->n_groups, name, length, &hit);
    /* --no-x switches the flag x off; no other type has a no-form. */
    if (!known && length > 3 && !strncmp(name, "no-", 3) &&
        stk_option_find(p->groups, p->n_groups, name + 3, length - 3, &hit) &&
        hit.option->type == STOKE_OPT_FLAG) {
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

struct stoke_option_storage {
    stk_string_arena strings; /* that fields point to, read from a file */
};

stoke_option_storage *stk_option_storage(void)
{
    return stk_calloc(1, sizeof(stoke_option_storage));
}

const char *stk_option_keep(stoke_option_storage *storage, const char *text, size_t length)
{
    return stk_string_arena_copy(&storage->strings, text, length);
}

void stoke_options_free_storage(stoke_option_storage **storage)
{
    if (*storage) stk_string_arena_free(&(*storage)->strings);
    stk_free(*storage);
    *storage = NULL;
}
