/* SPDX-License-Identifier: Apache-2.0
 *
 * What of a parsed file can be changed safely, value by value, and what makes the whole file unsafe: a key
 * given twice (which of the two counts depends on the reader) and tabs in indentation (on which readers
 * disagree).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/mem.h"
#include "src/tune/yaml/yaml_tree.h"

static const char FIXED_ALIAS[] = "it is an alias (*) of a value written elsewhere, which other keys share; "
                                  "write the value out here";
static const char FIXED_SHARED[] = "other keys refer to it by its anchor (&) and would change with it; write "
                                   "their values out";
static const char FIXED_FLOW[] = "it stands inside { } or [ ] over several lines; put them on one line, or "
                                 "write them as lines of their own";
static const char FIXED_BLOCK[] = "it is a block text (| or >); write the value behind the colon";
static const char FIXED_TAG[] = "it has a tag (!), whose meaning only its reader knows";

static const char *own_reason(const stk_yaml_node *node)
{
    if (node->kind == STK_YAML_ALIAS) return FIXED_ALIAS;
    if (node->shared) return FIXED_SHARED;
    if (node->flow && node->end_line != node->line) return FIXED_FLOW;
    if (node->kind != STK_YAML_SCALAR) return NULL;
    if (node->tagged) return FIXED_TAG;
    return node->style == STK_YAML_BLOCK ? FIXED_BLOCK : NULL;
}

/* Parents come before their children, so what holds for one is known when the other is looked at. */
static void mark_fixed(stoke_yaml *yaml)
{
    for (size_t i = 0; i < yaml->n_nodes; i++) {
        stk_yaml_node *node = &yaml->nodes[i];
        const char *above = node->parent == STK_YAML_NONE ? NULL : yaml->nodes[node->parent].fixed;
        node->fixed = above ? above : own_reason(node);
    }
}

/* Values only; a key that is no scalar has no name, and what is below it has none either. */
static int name_nodes(stoke_yaml *yaml, stoke_error *err)
{
    yaml->nodes[0].path = "";
    for (size_t i = 1; i < yaml->n_nodes; i++) {
        stk_yaml_node *node = &yaml->nodes[i];
        const stk_yaml_node *parent = &yaml->nodes[node->parent];
        const char *key = node->key == STK_YAML_NONE ? NULL : yaml->nodes[node->key].text;
        char path[STK_YAML_PATH];
        int named = 0;
        if (!parent->path) continue;
        if (parent->kind == STK_YAML_SEQUENCE)
            named = snprintf(path, sizeof path, "%s[%u]", parent->path, node->position) < (int)sizeof path;
        else if (key)
            named = stk_yaml_join(parent->path, key, path);
        if (!named) continue;
        node->path = stk_yaml_keep(yaml, path, strlen(path));
        if (!node->path) return stk_yaml_no_memory(yaml, err);
    }
    return STOKE_OK;
}

/* For stoke_yaml_at: scalars, and aliases of them. */
static int list_values(stoke_yaml *yaml, stoke_error *err)
{
    yaml->named = stk_alloc(yaml->n_nodes * sizeof *yaml->named);
    if (!yaml->named) return stk_yaml_no_memory(yaml, err);
    for (uint32_t i = 0; i < yaml->n_nodes; i++) {
        const stk_yaml_node *node = &yaml->nodes[i];
        const stk_yaml_node *shown = node->kind == STK_YAML_ALIAS ? &yaml->nodes[node->target] : node;
        if (node->path && shown->kind == STK_YAML_SCALAR) yaml->named[yaml->n_named++] = i;
    }
    return STOKE_OK;
}

/* ---- what makes the whole file unsafe ---- */

typedef struct named_key {
    const char *text;
    uint32_t line;
} named_key;

static int by_text(const void *a, const void *b)
{
    const named_key *x = a, *y = b;
    const int order = strcmp(x->text, y->text);
    return order ? order : (x->line > y->line) - (x->line < y->line);
}

/* Sorted, not compared pair by pair: a file of 30 000 keys takes no longer than reading it. */
static int refuse_duplicates(const stoke_yaml *yaml, const stk_yaml_node *mapping, named_key *keys,
                             stoke_error *err)
{
    size_t n = 0;
    for (uint32_t i = mapping->first; i != STK_YAML_NONE; i = yaml->nodes[i].next)
        if (yaml->nodes[i].position % 2 == 0 && yaml->nodes[i].text)
            keys[n++] = (named_key){ yaml->nodes[i].text, yaml->nodes[i].line };
    if (n) qsort(keys, n, sizeof *keys, by_text);
    for (size_t i = 1; i < n; i++)
        if (!strcmp(keys[i - 1].text, keys[i].text))
            return stk_yaml_fail(yaml, keys[i].line, err, STOKE_E_UNSUPPORTED,
                                 "%.80s is given twice (first in line %u); remove one of them", keys[i].text,
                                 keys[i - 1].line);
    return STOKE_OK;
}

/* Only before the first thing of a line: tabs before comments and inside block texts are harmless. */
static int refuse_tabs(const stoke_yaml *yaml, const stk_yaml_node *node, stoke_error *err)
{
    int tab = 0;
    size_t i = node->begin;
    while (i && (yaml->text[i - 1] == ' ' || yaml->text[i - 1] == '\t')) tab |= yaml->text[--i] == '\t';
    if (!tab || (i && yaml->text[i - 1] != '\n' && yaml->text[i - 1] != '\r')) return STOKE_OK;
    return stk_yaml_fail(yaml, node->line, err, STOKE_E_UNSUPPORTED,
                         "a tab in the indentation; indent with blanks");
}

int stk_yaml_check(stoke_yaml *yaml, stoke_error *err)
{
    named_key *keys = stk_alloc((yaml->n_nodes / 2 + 1) * sizeof *keys);
    int r = keys ? STOKE_OK : stk_yaml_no_memory(yaml, err);
    for (size_t i = 0; !r && i < yaml->n_nodes; i++) {
        const stk_yaml_node *node = &yaml->nodes[i];
        r = refuse_tabs(yaml, node, err);
        if (!r && node->kind == STK_YAML_MAPPING) r = refuse_duplicates(yaml, node, keys, err);
    }
    stk_free(keys);
    if (r) return r;
    mark_fixed(yaml);
    r = name_nodes(yaml, err);
    return r ? r : list_values(yaml, err);
}
