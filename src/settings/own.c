/* SPDX-License-Identifier: Apache-2.0
 *
 * Our own settings files, from the tree into option tables. Strict on purpose: such a file is a flat list of
 * names and values, so anchors, tags and deep nesting are mistakes, and `batch` given twice is one too. A
 * list of plain values is accepted where a text is, [1, 2.5] means "1,2.5", and a mapping of them where the
 * table says so: {0: sky} means "0:sky". Scalars stay text until the option's type reads them: `no` is a fine
 * folder name, 0644 is not octal, 1e3 is a thousand.
 *
 * The file is read and checked whole before the first field changes: a bad file changes nothing.
 */
#include "src/settings/read.h"

#include <stdio.h>
#include <string.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/base/words.h"

enum { LIST_TEXT = 16384 }; /* of a list: a thousand numbers of full length */

/* One key of the file. Sections and keys passed over are kept too, to notice the second one. */
typedef struct entry {
    stk_option_hit hit; /* option NULL: section, or passed over */
    const char *key;
    const char *value; /* NULL: null, so back to the default */
    size_t line;
} entry;

typedef struct reader {
    const stoke_yaml *yaml;
    const stoke_option_group *groups;
    size_t n_groups;
    const char *const *passed_over;
    stoke_option_storage *storage;
    entry *entries;
    size_t n_entries, entry_capacity;
    stoke_error *err;
} reader;

static int is_passed_over(const reader *r, const char *key)
{
    for (const char *const *name = r->passed_over; name && *name; name++)
        if (stk_same_word(key, *name)) return 1;
    return 0;
}

int stk_yaml_is_section(const char *key)
{
    return stk_is_one_of(key, "data loader train training model");
}

/* What no settings file of ours needs, wherever it stands. */
static int refuse_machinery(const reader *r)
{
    for (size_t i = 0; i < r->yaml->n_nodes; i++) {
        const stk_yaml_node *node = &r->yaml->nodes[i];
        if (node->kind == STK_YAML_ALIAS || node->anchor)
            return stk_yaml_fail(r->yaml, node->line, r->err, STOKE_E_FORMAT,
                                 "anchors and aliases (& and *) are not accepted here; "
                                 "put a value that starts so into quotes");
        if (node->tagged)
            return stk_yaml_fail(r->yaml, node->line, r->err, STOKE_E_FORMAT,
                                 "tags (!) are not accepted here; put a value that starts so into quotes");
    }
    return STOKE_OK;
}

/* Every key there can be is known by name, so the list stays as short as the tables. */
static int remember(reader *r, entry fresh)
{
    for (size_t i = 0; i < r->n_entries; i++)
        if (r->entries[i].hit.option == fresh.hit.option &&
            (fresh.hit.option || stk_same_word(fresh.key, r->entries[i].key)))
            return stk_yaml_fail(r->yaml, fresh.line, r->err, STOKE_E_INVALID,
                                 "%.80s is given twice (first in line %zu)", fresh.key, r->entries[i].line);
    if (!stk_grow((void **)&r->entries, &r->entry_capacity, r->n_entries + 1, sizeof *r->entries))
        return stk_yaml_no_memory(r->yaml, r->err);
    r->entries[r->n_entries++] = fresh;
    return STOKE_OK;
}

/* A list of plain values as one text with commas, a mapping with colons as well. */
static int list_text(const reader *r, const char *key, const stk_yaml_node *list, const char **text)
{
    const int pairs = list->kind == STK_YAML_MAPPING;
    char joined[LIST_TEXT] = "";
    size_t used = 0;
    int is_value = 0; /* of a pair */
    for (uint32_t i = list->first; i != STK_YAML_NONE; i = r->yaml->nodes[i].next) {
        const stk_yaml_node *item = &r->yaml->nodes[i];
        if (item->kind != STK_YAML_SCALAR)
            return stk_yaml_fail(r->yaml, item->line, r->err, STOKE_E_INVALID,
                                 "%.80s: a list of plain values is expected", key);
        const int none = stk_yaml_is_null(item);
        if (none || strchr(item->text, ',') || (pairs && !is_value && strchr(item->text, ':')))
            return stk_yaml_fail(r->yaml, item->line, r->err, STOKE_E_INVALID,
                                 "%.80s: a value of the list is %s", key, none ? "missing" : "more than one");
        used += (size_t)snprintf(joined + used, sizeof joined - used, "%s%s",
                                 is_value ? ":"
                                 : used   ? ","
                                          : "",
                                 item->text);
        is_value = pairs && !is_value;
        if (used >= sizeof joined)
            return stk_yaml_fail(r->yaml, item->line, r->err, STOKE_E_LIMIT,
                                 "%.80s: the list is longer than %d bytes", key, LIST_TEXT - 1);
    }
    *text = stk_option_keep(r->storage, joined, used);
    return *text ? STOKE_OK : stk_yaml_no_memory(r->yaml, r->err);
}

static int read_setting(reader *r, entry fresh, const stk_yaml_node *value)
{
    const int list = value->kind == STK_YAML_SEQUENCE;
    if (list && is_passed_over(r, fresh.key))
        return remember(r, fresh); /* without a value: the default, until its owner has read the list */
    const int joins = fresh.hit.option->type == STOKE_OPT_STRING &&
                      (list || (value->kind == STK_YAML_MAPPING && fresh.hit.option->choices));
    if (value->kind != STK_YAML_SCALAR && !joins)
        return stk_yaml_fail(r->yaml, value->line, r->err, STOKE_E_INVALID,
                             "%.80s: one value is expected, not a list or section", fresh.key);
    int status = joins ? list_text(r, fresh.key, value, &fresh.value) : STOKE_OK;
    if (!joins && !stk_yaml_is_null(value)) {
        fresh.value = stk_option_keep(r->storage, value->text, strlen(value->text));
        if (!fresh.value) status = stk_yaml_no_memory(r->yaml, r->err);
    }
    if (!status && fresh.value) {
        stk_option_value trial;
        stoke_error reason;
        status = stk_option_assign((stk_option_hit){ fresh.hit.option, &trial }, fresh.hit.option->name,
                                   fresh.value, &reason);
        if (status) stk_yaml_fail(r->yaml, value->line, r->err, status, "%s", reason.message);
    }
    return status ? status : remember(r, fresh);
}

static int read_section(reader *r, const stk_yaml_node *mapping, int level)
{
    const stk_yaml_node *nodes = r->yaml->nodes;
    int status = STOKE_OK;
    for (uint32_t i = mapping->first; !status && i != STK_YAML_NONE; i = nodes[nodes[i].next].next) {
        const stk_yaml_node *key = &nodes[i], *value = &nodes[key->next];
        entry fresh = { .key = key->text, .line = key->line };
        if (key->kind != STK_YAML_SCALAR)
            return stk_yaml_fail(r->yaml, key->line, r->err, STOKE_E_FORMAT,
                                 "the name of a setting must be a single word");
        if (stk_yaml_is_null(key))
            return stk_yaml_fail(r->yaml, key->line, r->err, STOKE_E_FORMAT,
                                 "a value without the name of a setting");
        const int passed_over = is_passed_over(r, fresh.key);
        if (value->kind == STK_YAML_MAPPING && level == 0 && stk_yaml_is_section(fresh.key) && !passed_over) {
            status = remember(r, fresh);
            if (!status) status = read_section(r, value, level + 1);
        } else if (stk_option_find(r->groups, r->n_groups, fresh.key, strlen(fresh.key), &fresh.hit)) {
            status = read_setting(r, fresh, value);
        } else if (passed_over) {
            status = remember(r, fresh);
        } else {
            const char *near = stk_option_nearest(r->groups, r->n_groups, fresh.key).best;
            return stk_yaml_fail(r->yaml, fresh.line, r->err, STOKE_E_NOTFOUND,
                                 "unknown setting '%.80s'%s%s%s", fresh.key, near ? ": did you mean " : "",
                                 near ? near : "", near ? "?" : "");
        }
    }
    return status;
}

int stk_own_read(const stoke_yaml *yaml, const stoke_option_group *groups, size_t n_groups,
                 const char *const *passed_over, stoke_option_storage **storage, stoke_error *err)
{
    reader r = {
        .yaml = yaml, .groups = groups, .n_groups = n_groups, .passed_over = passed_over, .err = err
    };
    *storage = NULL;
    r.storage = stk_option_storage();
    if (!r.storage) return stk_yaml_no_memory(yaml, err);
    int status = STOKE_OK;
    if (yaml->n_nodes && !stk_yaml_is_null(yaml->nodes)) { /* else of nothing: all defaults */
        if (yaml->nodes[0].kind != STK_YAML_MAPPING)
            status = stk_yaml_fail(yaml, yaml->nodes[0].line, err, STOKE_E_FORMAT,
                                   "expected settings such as `batch: 32`");
        if (!status) status = refuse_machinery(&r);
        if (!status) status = read_section(&r, yaml->nodes, 0);
    }
    for (size_t i = 0; !status && i < r.n_entries; i++) {
        const entry *e = &r.entries[i];
        if (e->hit.option && e->value)
            stk_option_assign(e->hit, e->key, e->value, NULL); /* was tried before: cannot fail */
        else if (e->hit.option)
            stk_option_reset(e->hit);
    }
    stk_free(r.entries);
    if (status) stoke_options_free_storage(&r.storage);
    *storage = r.storage;
    return status;
}
