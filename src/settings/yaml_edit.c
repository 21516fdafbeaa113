/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans changes: the bytes of one scalar, or a new line at the end of a mapping. Nothing is written here; a
 * plan that is refused leaves the earlier ones as they are.
 */
#include <string.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/base/number.h"
#include "src/settings/yaml_tree.h"

enum { KEY_ROOM = 6 * STK_YAML_PATH + 3, VALUE_ROOM = 6 * STK_YAML_VALUE + 3 };

/* A text being put together; `length` runs on when it does not fit, which add_edit notices. */
typedef struct draft {
    char text[KEY_ROOM + VALUE_ROOM + 512];
    size_t length;
} draft;

static void put(draft *d, const char *text, size_t length)
{
    if (d->length + length <= sizeof d->text) memcpy(d->text + d->length, text, length);
    d->length += length;
}

static int refuse(const stoke_yaml *yaml, uint32_t line, const char *path, const char *reason,
                  stoke_error *err)
{
    return stk_yaml_fail(yaml, line, err, STOKE_E_UNSUPPORTED, "%.200s is left as it is: %s", path, reason);
}

/* The plan for this place, if there is one already. */
static stk_yaml_edit *planned(stoke_yaml *yaml, uint32_t node, const char *key)
{
    for (size_t i = 0; i < yaml->n_edits; i++) {
        stk_yaml_edit *e = &yaml->edits[i];
        if (e->node == node && !e->key == !key && (!key || !strcmp(e->key, key))) return e;
    }
    return NULL;
}

/* Adds a plan, or puts it in the place of the one before. */
static int add_edit(stoke_yaml *yaml, stk_yaml_edit fresh, const draft *d, const char *value,
                    stoke_error *err)
{
    if (d->length > sizeof d->text)
        return stk_fail(err, STOKE_E_LIMIT, "%.256s: the new value is too long", yaml->name);
    fresh.text = stk_yaml_keep(yaml, d->text, d->length);
    fresh.length = d->length;
    fresh.value = stk_yaml_keep(yaml, value, strlen(value));
    if (fresh.key) fresh.key = stk_yaml_keep(yaml, fresh.key, strlen(fresh.key));
    if (!fresh.text || !fresh.value) return stk_yaml_no_memory(yaml, err);
    stk_yaml_edit *old = planned(yaml, fresh.node, fresh.key);
    if (!old) {
        if (!stk_grow((void **)&yaml->edits, &yaml->edit_capacity, yaml->n_edits + 1, sizeof *yaml->edits))
            return stk_yaml_no_memory(yaml, err);
        fresh.order = (uint32_t)yaml->n_edits;
        old = &yaml->edits[yaml->n_edits++];
    } else {
        fresh.order = old->order;
    }
    *old = fresh;
    return STOKE_OK;
}

/* Whether any collection around it is flow: then `,` and `]` end a plain text. */
static int inside_flow(const stoke_yaml *yaml, uint32_t node)
{
    for (; node != STK_YAML_NONE; node = yaml->nodes[node].parent)
        if (yaml->nodes[node].flow) return 1;
    return 0;
}

/* ---- a value that is there ---- */

/* `{a}` and `? a` have a value, null, for which no colon is written. */
static int lacks_colon(const stoke_yaml *yaml, const stk_yaml_node *node)
{
    if (node->key == STK_YAML_NONE) return 0;
    const stk_yaml_node *key = &yaml->nodes[node->key];
    return node->begin < key->end || !memchr(yaml->text + key->end, ':', node->begin - key->end);
}

/* In the way of the file. */
static size_t written_as(const stoke_yaml *yaml, const char *value, stk_yaml_style style, int in_flow,
                         char *out)
{
    if (yaml->form == STK_FORM_PYTHON) return stk_python_scalar(value, style, out);
    if (yaml->form == STK_FORM_JSON) return stk_json_scalar(value, style, out);
    return stk_yaml_scalar(value, style, in_flow, out);
}

static int replace(stoke_yaml *yaml, uint32_t index, const char *path, const char *value, stoke_error *err)
{
    const stk_yaml_node *node = &yaml->nodes[index];
    const int plain = node->style == STK_YAML_PLAIN;
    char room[64], written[VALUE_ROOM];
    draft d = { .length = 0 };
    if (node->kind != STK_YAML_SCALAR)
        return refuse(yaml, node->line, path, "it is a section or a list, not one value", err);
    if (plain) value = stk_yaml_number(value, room);
    const size_t n = written_as(yaml, value, node->style, inside_flow(yaml, index), written);
    if (!n) return stk_fail(err, STOKE_E_INVALID, "%.200s: the new value is not UTF-8", path);
    if (n == node->end - node->begin && !memcmp(written, yaml->text + node->begin, n)) {
        stk_yaml_edit *old = planned(yaml, index, NULL); /* what is written already is no change */
        if (old) memmove(old, old + 1, (size_t)(yaml->edits + --yaml->n_edits - old) * sizeof *old);
        return STOKE_OK;
    }
    if (node->begin == node->end) {
        if (lacks_colon(yaml, node))
            return refuse(yaml, node->line, path, "it has no colon and no value; write them", err);
        if (!node->begin || !strchr(" \t", yaml->text[node->begin - 1])) put(&d, " ", 1);
    }
    put(&d, written, n);
    return add_edit(yaml, (stk_yaml_edit){ .begin = node->begin, .end = node->end, .node = index }, &d, value,
                    err);
}

/* ---- a new key ---- */

/* The line end behind `at`, or, where there is none, that of the first line, or "\n". */
static const char *line_end(const stoke_yaml *yaml, size_t at)
{
    const char *p = yaml->text + at;
    if (!*p) p = yaml->text + strcspn(yaml->text, "\r\n");
    return *p == '\r' && p[1] == '\n' ? "\r\n" : *p == '\r' ? "\r" : "\n";
}

/* The key behind whose entry a new one stands: the last. Of Python the last that is written as a value in the
 * section itself: the lines behind a class may still be its own, and behind what is computed it may be too
 * late. STK_YAML_NONE: there is none. */
static uint32_t neighbour(const stoke_yaml *yaml, const stk_yaml_node *mapping)
{
    const stk_yaml_node *nodes = yaml->nodes;
    uint32_t written = STK_YAML_NONE, any = STK_YAML_NONE;
    for (uint32_t i = mapping->first; i != STK_YAML_NONE; i = nodes[nodes[i].next].next) {
        const stk_yaml_node *value = &nodes[nodes[i].next];
        if (yaml->form == STK_FORM_PYTHON && !mapping->flow && !value->behind) continue; /* a class */
        any = i;
        if (!value->computed) written = i;
    }
    return written == STK_YAML_NONE ? any : written;
}

static const stk_yaml_node *last_leaf(const stoke_yaml *yaml, const stk_yaml_node *node)
{
    while (node->first != STK_YAML_NONE) {
        node = &yaml->nodes[node->first];
        while (node->next != STK_YAML_NONE) node = &yaml->nodes[node->next];
    }
    return node;
}

/* A new line behind the last entry: behind its comment too, but before comments in lines of their own, which
 * may belong to what follows. */
static int insert_line(stoke_yaml *yaml, const stk_yaml_place *place, const char *entry, size_t length,
                       const char *value, const char *path, stoke_error *err)
{
    const int python = yaml->form == STK_FORM_PYTHON;
    const stk_yaml_node *mapping = &yaml->nodes[place->mapping];
    const stk_yaml_node *first = &yaml->nodes[python ? neighbour(yaml, mapping) : mapping->first];
    size_t at = python ? yaml->nodes[first->next].behind : mapping->end, before = first->begin;
    draft d = { .length = 0 };
    while (before && strchr(" \t", yaml->text[before - 1])) before--;
    if (before && before < first->begin && yaml->text[before - 1] == '?')
        return refuse(yaml, first->line, path, "the keys of its section are written with ?", err);
    const int behind_break = at && strchr("\r\n", yaml->text[at - 1]); /* as block texts end */
    if (!python && !behind_break && last_leaf(yaml, mapping)->style == STK_YAML_BLOCK)
        return refuse(yaml, mapping->end_line, path,
                      "the block text before it has no line end, and a new line would become part of it",
                      err);
    if (!behind_break) at += strcspn(yaml->text + at, "\r\n");
    const char *end = line_end(yaml, at);
    const int at_end = !yaml->text[at] && !behind_break;
    if (!behind_break && !at_end) at += strlen(end);
    if (at_end) put(&d, end, strlen(end));
    for (size_t i = first->begin - first->column; python && i < first->begin; i++) {
        if (!strchr(" \t\f", yaml->text[i])) break; /* another statement of the same line */
        put(&d, yaml->text + i, 1);
    }
    for (uint32_t i = 0; !python && i < first->column; i++) put(&d, " ", 1);
    put(&d, entry, length);
    if (!at_end) put(&d, end, strlen(end));
    return add_edit(
        yaml,
        (stk_yaml_edit){
            .begin = at, .end = at, .node = place->mapping, .key = place->key, .column = first->column },
        &d, value, err);
}

/* Whether another key was added to the mapping before this one. */
static int is_later(stoke_yaml *yaml, const stk_yaml_place *place)
{
    const stk_yaml_edit *own = planned(yaml, place->mapping, place->key);
    for (size_t i = 0; i < yaml->n_edits && &yaml->edits[i] != own; i++)
        if (yaml->edits[i].node == place->mapping && yaml->edits[i].key) return 1;
    return 0;
}

/* Before the closing brace, behind the last value and a comma that may stand there. */
static int insert_flow(stoke_yaml *yaml, const stk_yaml_place *place, const char *entry, size_t length,
                       const char *value, const char *path, stoke_error *err)
{
    const stk_yaml_node *mapping = &yaml->nodes[place->mapping];
    size_t at = mapping->begin + 1;
    const char *separator = is_later(yaml, place) ? ", " : "";
    draft d = { .length = 0 };
    if (mapping->end < mapping->begin + 2 || yaml->text[mapping->begin] != '{')
        return refuse(yaml, mapping->line, path, "the braces of its section are not written", err);
    if (mapping->first != STK_YAML_NONE) {
        uint32_t last = mapping->first;
        while (yaml->nodes[last].next != STK_YAML_NONE) last = yaml->nodes[last].next;
        at = yaml->nodes[last].end;
        const char *comma = memchr(yaml->text + at, ',', mapping->end - at);
        if (comma) at = (size_t)(comma - yaml->text) + 1;
        if (!*separator) separator = comma ? " " : ", ";
    }
    const stk_yaml_node *first = mapping->first == STK_YAML_NONE ? NULL : &yaml->nodes[mapping->first];
    if (first && first->line != mapping->line) { /* as JSON is written: every key in its own line */
        const char *end = line_end(yaml, mapping->begin);
        put(&d, ",", separator[0] == ',');
        put(&d, end, strlen(end));
        for (size_t i = first->begin - first->column; i < first->begin; i++)
            put(&d, yaml->text[i] == '\t' ? "\t" : " ", 1);
        separator = "";
    }
    put(&d, separator, strlen(separator));
    put(&d, entry, length);
    return add_edit(yaml,
                    (stk_yaml_edit){ .begin = at, .end = at, .node = place->mapping, .key = place->key }, &d,
                    value, err);
}

/* What stands between name and value in Python: the type too where the fields beside it have one. */
static const char *assigns(const stoke_yaml *yaml, const stk_yaml_node *mapping, const char *value)
{
    const uint32_t key = neighbour(yaml, mapping);
    double number;
    if (mapping->flow) return strchr("'\"", yaml->text[yaml->nodes[key].begin]) ? ": " : "=";
    if (!yaml->nodes[yaml->nodes[key].next].annotated) return " = ";
    if (!strcmp(value, "true") || !strcmp(value, "false")) return ": bool = ";
    if (!stk_parse_real(value, &number)) return ": str = ";
    return strpbrk(value, ".eE") ? ": float = " : ": int = ";
}

/* "key: value" in the way of the file; 0: not UTF-8. */
static size_t new_entry(const stoke_yaml *yaml, const stk_yaml_node *mapping, const char *key,
                        const char *value, int in_flow, char *entry)
{
    const int python = yaml->form == STK_FORM_PYTHON && neighbour(yaml, mapping) != STK_YAML_NONE;
    const char *between = python ? assigns(yaml, mapping, value) : ": ";
    const int quoted = yaml->form == STK_FORM_JSON || (python && mapping->flow && *between == ':');
    size_t n = quoted   ? written_as(yaml, key, STK_YAML_DOUBLE, in_flow, entry)
               : python ? (size_t)sprintf(entry, "%s", key)
                        : stk_yaml_scalar(key, STK_YAML_PLAIN, in_flow, entry);
    if (!n) return 0;
    n += (size_t)sprintf(entry + n, "%s", between);
    const size_t length = written_as(yaml, value, STK_YAML_PLAIN, in_flow, entry + n);
    return length ? n + length : 0;
}

static int insert(stoke_yaml *yaml, const stk_yaml_place *place, const char *path, const char *value,
                  stoke_error *err)
{
    const stk_yaml_node *mapping = &yaml->nodes[place->mapping];
    const int in_flow = inside_flow(yaml, place->mapping);
    char room[64], entry[KEY_ROOM + 16 + VALUE_ROOM];
    if (mapping->tagged) return refuse(yaml, mapping->line, path, "its section has a tag (!)", err);
    if (!mapping->flow && neighbour(yaml, mapping) == STK_YAML_NONE) /* of Python: a class without fields */
        return refuse(yaml, mapping->line, path,
                      "its section has no setting yet, beside which it could stand", err);
    value = stk_yaml_number(value, room);
    const size_t n = new_entry(yaml, mapping, place->key, value, in_flow, entry);
    if (!n) return stk_fail(err, STOKE_E_INVALID, "%.200s: key or value is not UTF-8", path);
    return mapping->flow ? insert_flow(yaml, place, entry, n, value, path, err)
                         : insert_line(yaml, place, entry, n, value, path, err);
}

int stoke_yaml_set(stoke_yaml *yaml, const char *path, const char *value, stoke_error *err)
{
    stk_yaml_place place;
    if (!stk_yaml_find(yaml, path, &place))
        return stk_fail(err, STOKE_E_INVALID,
                        "'%.200s' is no path of keys; one is data.batch_size, steps[2].lr or a.\"b.c\"",
                        path);
    if (strlen(value) > STK_YAML_VALUE)
        return stk_fail(err, STOKE_E_LIMIT, "%.200s: a value of more than %d bytes", path, STK_YAML_VALUE);
    if (place.fixed) return refuse(yaml, place.line, path, place.fixed, err);
    if (place.node != STK_YAML_NONE && !place.merged) return replace(yaml, place.node, path, value, err);
    if (place.mapping == STK_YAML_NONE)
        return stk_fail(err, STOKE_E_NOTFOUND, "%.256s: %.200s has no section to stand in; add the section",
                        yaml->name, path);
    return insert(yaml, &place, path, value, err);
}
