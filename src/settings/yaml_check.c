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
#include "src/settings/keys.h"

static const char FIXED_ALIAS[] = "it is an alias (*) of a value written elsewhere, which other keys share; "
                                  "write the value out here";
static const char FIXED_SHARED[] = "other keys refer to it by its anchor (&) and would change with it; write "
                                   "their values out";
static const char FIXED_FLOW[] = "it stands inside { } or [ ] over several lines; put them on one line, or "
                                 "write them as lines of their own";
static const char FIXED_BLOCK[] = "it is a block text (| or >); write the value behind the colon";
static const char FIXED_TAG[] = "it has a tag (!), whose meaning only its reader knows";

static const char FIXED_COMPUTED[] = "it is an expression that Python computes, not a value";

/* In JSON everything stands in brackets over several lines, and nothing but that can be meant by them. */
static const char *own_reason(const stk_yaml_node *node, stk_yaml_form form)
{
    if (node->kind == STK_YAML_ALIAS) return FIXED_ALIAS;
    if (node->shared) return FIXED_SHARED;
    if (node->computed) return FIXED_COMPUTED;
    if (node->flow && node->end_line != node->line && form != STK_FORM_JSON) return FIXED_FLOW;
    if (node->kind != STK_YAML_SCALAR) return NULL;
    if (node->tagged) return FIXED_TAG;
    return node->style == STK_YAML_BLOCK ? FIXED_BLOCK : NULL;
}

/* ---- keys that stand twice ---- */

typedef struct named_key {
    const char *text;
    uint32_t node;
} named_key;

static int by_text(const void *a, const void *b)
{
    const named_key *x = a, *y = b;
    const int order = strcmp(x->text, y->text);
    return order ? order : (x->node > y->node) - (x->node < y->node);
}

/* Equal keys side by side, in the order of the file. Sorted, not compared pair by pair: a file of 30 000 keys
 * takes no longer than reading it. */
static size_t sort_keys(const stoke_yaml *yaml, const stk_yaml_node *mapping, named_key *keys)
{
    size_t n = 0;
    for (uint32_t i = mapping->first; i != STK_YAML_NONE; i = yaml->nodes[i].next)
        if (yaml->nodes[i].position % 2 == 0 && yaml->nodes[i].text)
            keys[n++] = (named_key){ yaml->nodes[i].text, i };
    if (n) qsort(keys, n, sizeof *keys, by_text);
    return n;
}

/* Room for the keys of any mapping of the file. */
static named_key *new_keys(const stoke_yaml *yaml)
{
    return stk_alloc((yaml->n_nodes / 2 + 1) * sizeof(named_key));
}

/* Python: the last assignment counts, and what was assigned before has no path. */
static int mark_replaced(stoke_yaml *yaml, stoke_error *err)
{
    if (yaml->form != STK_FORM_PYTHON) return STOKE_OK;
    named_key *keys = new_keys(yaml);
    if (!keys) return stk_yaml_no_memory(yaml, err);
    for (size_t m = 0; m < yaml->n_nodes; m++) {
        if (yaml->nodes[m].kind != STK_YAML_MAPPING) continue;
        const size_t n = sort_keys(yaml, &yaml->nodes[m], keys);
        for (size_t i = 1; i < n; i++)
            if (!strcmp(keys[i - 1].text, keys[i].text))
                yaml->nodes[yaml->nodes[keys[i - 1].node].next].replaced = 1;
    }
    stk_free(keys);
    return STOKE_OK;
}

/* Values only; a key that is no scalar has no name, and what is below it has none either. */
static int name_nodes(stoke_yaml *yaml, stoke_error *err)
{
    if (yaml->n_nodes) yaml->nodes[0].path = "";
    for (size_t i = 1; i < yaml->n_nodes; i++) {
        stk_yaml_node *node = &yaml->nodes[i];
        const stk_yaml_node *parent = &yaml->nodes[node->parent];
        const char *key = node->key == STK_YAML_NONE ? NULL : yaml->nodes[node->key].text;
        char path[STK_YAML_PATH];
        int named = 0;
        if (!parent->path || node->replaced) continue;
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

/* ---- what makes the whole file unsafe ---- */

/* Python assigns again as it likes; only of a setting's value it must be clear which line counts. */
static int may_repeat(const stoke_yaml *yaml, const stk_yaml_node *mapping, const named_key pair[2])
{
    const stk_yaml_node *nodes = yaml->nodes;
    if (yaml->form != STK_FORM_PYTHON || mapping->flow) return 0;
    if (nodes[nodes[pair[0].node].next].computed && nodes[nodes[pair[1].node].next].computed)
        return 1; /* model = model.to(device) */
    const char *key = pair[1].text;
    for (size_t i = 0; i < stk_settings_count; i++)
        for (size_t k = 0; k < STK_NAMES && stk_settings[i].names[k]; k++)
            if (stk_same_name(key, stk_settings[i].names[k])) return 0;
    return 1;
}

static int refuse_duplicates(const stoke_yaml *yaml, const stk_yaml_node *mapping, named_key *keys,
                             stoke_error *err)
{
    const size_t n = sort_keys(yaml, mapping, keys);
    for (size_t i = 1; i < n; i++)
        if (!strcmp(keys[i - 1].text, keys[i].text) && !may_repeat(yaml, mapping, &keys[i - 1]))
            return stk_yaml_fail(yaml, yaml->nodes[keys[i].node].line, err, STOKE_E_UNSUPPORTED,
                                 "%.80s is given twice (first in line %u); remove one of them", keys[i].text,
                                 yaml->nodes[keys[i - 1].node].line);
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

int stk_yaml_check(const stoke_yaml *yaml, stoke_error *err)
{
    if (!yaml->n_nodes || yaml->nodes[0].kind != STK_YAML_MAPPING)
        return stk_yaml_fail(yaml, yaml->n_nodes ? yaml->nodes[0].line : 1, err, STOKE_E_UNSUPPORTED,
                             "settings such as `batch_size: 32` are expected at the top of the file");
    named_key *keys = new_keys(yaml);
    int r = keys ? STOKE_OK : stk_yaml_no_memory(yaml, err);
    for (size_t i = 0; !r && i < yaml->n_nodes; i++) {
        const stk_yaml_node *node = &yaml->nodes[i];
        if (yaml->form == STK_FORM_YAML) r = refuse_tabs(yaml, node, err);
        if (!r && node->kind == STK_YAML_MAPPING) r = refuse_duplicates(yaml, node, keys, err);
    }
    stk_free(keys);
    return r;
}

int stk_yaml_name(stoke_yaml *yaml, stoke_error *err)
{
    /* Parents come before their children, so what holds for one is known when the other is looked at.
     * Python's braces may be broken anywhere, and a value in them is changed alone; a new key would have to
     * be put among comments, so the braces themselves stay. */
    for (size_t i = 0; i < yaml->n_nodes; i++) {
        stk_yaml_node *node = &yaml->nodes[i];
        const char *above = node->parent == STK_YAML_NONE ? NULL : yaml->nodes[node->parent].fixed;
        if (yaml->form == STK_FORM_PYTHON && above == FIXED_FLOW) above = NULL;
        node->fixed = above ? above : own_reason(node, yaml->form);
    }
    int r = mark_replaced(yaml, err);
    if (!r) r = name_nodes(yaml, err);
    if (r) return r;
    /* For stoke_yaml_at: scalars, and aliases of them. */
    yaml->named = stk_alloc((yaml->n_nodes + 1) * sizeof *yaml->named);
    if (!yaml->named) return stk_yaml_no_memory(yaml, err);
    for (uint32_t i = 0; i < yaml->n_nodes; i++) {
        const stk_yaml_node *shown = &yaml->nodes[stk_yaml_followed(yaml, i)];
        if (yaml->nodes[i].path && shown->kind == STK_YAML_SCALAR) yaml->named[yaml->n_named++] = i;
    }
    return STOKE_OK;
}
