/* SPDX-License-Identifier: Apache-2.0
 *
 * A pipeline from the tree of a settings file:
 *
 *     augment:
 *       - random_crop
 *       - hflip: {p: 0.25}
 *       - rotate: {degrees: [-10, 10]}
 *
 * or `augment: standard`, any list of ops. Other keys of stoke.yaml may stand beside it: one file
 * is a whole experiment. Every complaint has its line.
 */
#include "src/augment/pipeline.h"

#include <stdio.h>
#include <stoke/tools/data.h>
#include <string.h>

#include "src/base/error.h"
#include "src/base/option_table.h"
#include "src/settings/read.h"

/* A pipeline from one line:
 *
 *     random_crop,hflip(p=0.3,swap=2-3,4-5),rotate(degrees=-10..10)
 *
 * Blanks may stand around names and values. A value ends at the next "name=" or at the bracket, so lists need
 * no quotes.
 */

enum { WORD = 64, VALUE = 1024 };

static const char *skip_blanks(const char *p)
{
    return p + strspn(p, " \t\n");
}

/* Copies [from, to) without blanks at its ends; 0 when it does not fit. */
static int copy(char *out, size_t size, const char *from, const char *to)
{
    from = skip_blanks(from);
    while (to > from && strchr(" \t\n", to[-1])) to--;
    const size_t length = to > from ? (size_t)(to - from) : 0;
    if (length >= size) return 0;
    memcpy(out, from, length);
    out[length] = 0;
    return 1;
}

static int too_long(const char *what, const char *from, stoke_error *err)
{
    return stk_fail(err, STOKE_E_LIMIT, "%s is too long: \"%.40s...\"", what, from);
}

/* Where the value that begins at p ends: before ",name=", before ")" or at the end of the text. */
static const char *value_end(const char *p)
{
    const char *end = p + strcspn(p, ",)");
    while (*end == ',') {
        const char *next = end + 1 + strcspn(end + 1, ",)=");
        if (*next == '=') break;
        end = next;
    }
    return end;
}

/* The settings behind a name; *at stands behind "(" and is moved behind ")". */
static int list_settings(stoke_pipeline *pipeline, const char **at, stoke_error *err)
{
    char name[WORD], value[VALUE];
    const char *p = skip_blanks(*at);
    while (*p != ')') {
        const char *equals = p + strcspn(p, "=,()");
        if (*equals != '=')
            return stk_fail(err, STOKE_E_FORMAT, "expected name=value at \"%.40s\"", *p ? p : "the end");
        const char *end = value_end(equals + 1);
        if (!copy(name, sizeof name, p, equals)) return too_long("a setting's name", p, err);
        if (!copy(value, sizeof value, equals + 1, end)) return too_long("a value", p, err);
        if (!*end) return stk_fail(err, STOKE_E_FORMAT, "the bracket before \"%.40s\" is not closed", p);
        int r = stk_pipeline_set(pipeline, name, value, err);
        if (r) return r;
        p = *end == ',' ? end + 1 : end;
    }
    *at = p + 1;
    return STOKE_OK;
}

static int list_op(stoke_pipeline *pipeline, const char **at, stoke_error *err)
{
    char name[WORD];
    const char *end = *at + strcspn(*at, ",()");
    if (!copy(name, sizeof name, *at, end)) return too_long("an op's name", *at, err);
    if (!*name) return stk_fail(err, STOKE_E_FORMAT, "expected an op at \"%.40s\"", **at ? *at : "the end");
    *at = end;
    if (*end != '(') return stk_pipeline_add_name(pipeline, name, err);
    (*at)++;
    int r = stk_pipeline_add(pipeline, name, err);
    if (!r) r = list_settings(pipeline, at, err);
    if (!r) r = stk_pipeline_close(pipeline, err);
    *at = skip_blanks(*at);
    return r;
}

int stk_pipeline_read_list(stoke_pipeline *pipeline, const char *list, stoke_error *err)
{
    const char *p = skip_blanks(list);
    if (!*p) return STOKE_OK;
    for (;;) {
        int r = list_op(pipeline, &p, err);
        if (r) return r;
        if (!*p) return STOKE_OK;
        if (*p != ',') return stk_fail(err, STOKE_E_FORMAT, "expected a comma at \"%.40s\"", p);
        p++;
    }
}

typedef struct reader {
    const stoke_yaml *yaml;
    stk_pipeline_yaml_take take;
    int found;      /* the key has been seen */
    char slip[320]; /* the first key that is none of ours, as a complaint; "" = none */
    stoke_error *err;
} reader;

static int complain(const reader *r, const stk_yaml_node *node, int code, const char *what)
{
    return stk_yaml_fail(r->yaml, node->line, r->err, code, "%s", what);
}

/* The line belongs to this file; the reason to the op. */
static int located(const reader *r, const stk_yaml_node *node, int status)
{
    if (!status) return STOKE_OK;
    char place[512];
    snprintf(place, sizeof place, "%s:%u", r->yaml->name, node->line);
    stk_error_prefix(r->err, place);
    return status;
}

/* An alias is refused where it stands: what it stands for may contain it. */
static const stk_yaml_node *at(const reader *r, uint32_t index, int *status)
{
    const stk_yaml_node *node = &r->yaml->nodes[index];
    if (node->kind == STK_YAML_ALIAS)
        *status = complain(r, node, STOKE_E_FORMAT, "aliases are not accepted here");
    return node;
}

/* Adds a scalar to a value's text. */
static int append(const reader *r, const stk_yaml_node *node, const char *separator, char *value, size_t size)
{
    const size_t used = strlen(value);
    const size_t more = (size_t)snprintf(value + used, size - used, "%s%s", separator, node->text);
    return more < size - used ? STOKE_OK : complain(r, node, STOKE_E_LIMIT, "this value is too long");
}

/* [2, 3] inside a list is a pair: the text 2-3. */
static int read_pair(const reader *r, const stk_yaml_node *pair, const char *separator, char *value,
                     size_t size)
{
    const stk_yaml_node *last = pair;
    int status = STOKE_OK, n = 0;
    for (uint32_t i = pair->first; !status && n < 2 && i != STK_YAML_NONE; i = last->next, n++) {
        last = at(r, i, &status);
        if (!status && last->kind != STK_YAML_SCALAR) break;
        if (!status) status = append(r, last, n ? "-" : separator, value, size);
    }
    if (status) return status;
    if (n < 2)
        return complain(r, last, STOKE_E_FORMAT,
                        "expected a plain value, a list of them, or a list of pairs");
    return pair->children == 2 ? STOKE_OK : complain(r, pair, STOKE_E_FORMAT, "a pair has two values");
}

/* A setting's value: a scalar, or a list of scalars or pairs, which becomes the same text with commas. */
static int read_value(const reader *r, const stk_yaml_node *node, char *value, size_t size)
{
    int status = STOKE_OK;
    value[0] = 0;
    if (node->kind == STK_YAML_SCALAR) return append(r, node, "", value, size);
    if (node->kind != STK_YAML_SEQUENCE)
        return complain(r, node, STOKE_E_FORMAT, "expected a plain value or a list of them");
    for (uint32_t i = node->first, next; !status && i != STK_YAML_NONE; i = next) {
        const char *separator = i == node->first ? "" : ",";
        const stk_yaml_node *item = at(r, i, &status);
        next = item->next;
        if (status) break;
        if (item->kind == STK_YAML_SCALAR)
            status = append(r, item, separator, value, size);
        else if (item->kind == STK_YAML_SEQUENCE)
            status = read_pair(r, item, separator, value, size);
        else
            status = complain(r, item, STOKE_E_FORMAT, "expected a plain value or a list of them");
    }
    return status;
}

static int read_arguments(const reader *r, const stk_yaml_node *mapping, stoke_pipeline *pipeline)
{
    char name[64], value[1024];
    int status = STOKE_OK;
    for (uint32_t i = mapping->first, next; !status && i != STK_YAML_NONE; i = next) {
        const stk_yaml_node *key = at(r, i, &status);
        const stk_yaml_node *given = status ? key : at(r, key->next, &status);
        next = given->next;
        if (status) break;
        if (key->kind != STK_YAML_SCALAR)
            return complain(r, key, STOKE_E_FORMAT, "expected a setting's name");
        snprintf(name, sizeof name, "%s", key->text);
        /* {swap: 2-3,4-5} is, to YAML, the setting swap and a second one called 4-5. */
        if (*name && strchr("-.0123456789", *name))
            return complain(r, key, STOKE_E_FORMAT,
                            "a value with commas is written in brackets or quotes, e.g. [2-3, 4-5]");
        status = read_value(r, given, value, sizeof value);
        if (!status) status = located(r, key, stk_pipeline_set(pipeline, name, value, r->err));
    }
    return status;
}

/* What follows "- hflip:" up to the end of the item: settings, or nothing, which are the defaults. */
static int read_settings(const reader *r, const stk_yaml_node *value, stoke_pipeline *pipeline)
{
    char what[160];
    const int nothing = value->kind == STK_YAML_SCALAR && !*value->text;
    if (!nothing && value->kind != STK_YAML_MAPPING)
        return complain(r, value, STOKE_E_FORMAT, "expected the op's settings, e.g. {p: 0.5}");
    int status = nothing ? STOKE_OK : read_arguments(r, value, pipeline);
    if (status || value->next == STK_YAML_NONE) return status;
    const stk_yaml_node *more = at(r, value->next, &status);
    if (status) return status;
    if (!nothing || more->kind != STK_YAML_SCALAR)
        return complain(r, more, STOKE_E_FORMAT, "one op per list item");
    snprintf(what, sizeof what, "indent \"%.40s\" deeper than the name of the op it belongs to", more->text);
    return complain(r, more, STOKE_E_FORMAT, what);
}

static int read_op(const reader *r, const stk_yaml_node *item, stoke_pipeline *pipeline)
{
    int status = STOKE_OK;
    /* To YAML a line that is indented deeper goes on with the word before: "hflip - vflip". */
    if (item->kind == STK_YAML_SCALAR && strstr(item->text, " - "))
        return complain(r, item, STOKE_E_FORMAT, "this item and the next do not begin in the same column");
    if (item->kind == STK_YAML_SCALAR)
        return located(r, item, stk_pipeline_add_name(pipeline, item->text, r->err));
    if (item->kind != STK_YAML_MAPPING)
        return complain(r, item, STOKE_E_FORMAT, "expected an op: \"- hflip\" or \"- hflip: {p: 0.5}\"");
    if (item->first == STK_YAML_NONE) return complain(r, item, STOKE_E_FORMAT, "expected the op's name");
    const stk_yaml_node *name = at(r, item->first, &status);
    if (!status && name->kind != STK_YAML_SCALAR)
        return complain(r, name, STOKE_E_FORMAT, "expected the op's name");
    const stk_yaml_node *value = status ? name : at(r, name->next, &status);
    if (!status) status = located(r, name, stk_pipeline_add(pipeline, name->text, r->err));
    if (!status) status = read_settings(r, value, pipeline);
    return status ? status : located(r, item, stk_pipeline_close(pipeline, r->err));
}

static int read_augment(reader *r, const stk_yaml_node *key, const stk_yaml_node *value,
                        stoke_pipeline *pipeline)
{
    int status = STOKE_OK;
    if (r->found++) return complain(r, key, STOKE_E_INVALID, "augment is given twice");
    if (value->kind == STK_YAML_SCALAR) {
        if (r->take == STK_YAML_LISTS) return STOKE_OK;
        if (!*value->text)
            return complain(r, value, STOKE_E_FORMAT, "expected a list of ops or the name of a preset");
        if (stk_pipeline_is_file(value->text))
            return complain(r, value, STOKE_E_FORMAT, "a file of ops cannot name another file");
        return located(r, value, stk_pipeline_read_list(pipeline, value->text, r->err));
    }
    if (value->kind != STK_YAML_SEQUENCE)
        return complain(r, value, STOKE_E_FORMAT, "expected a list of ops: each begins with \"- \"");
    for (uint32_t i = value->first; !status && i != STK_YAML_NONE; i = r->yaml->nodes[i].next) {
        const stk_yaml_node *item = at(r, i, &status);
        if (!status) status = read_op(r, item, pipeline);
    }
    return status;
}

/* Keys of others may stand beside ours (those of training do). One that is not the data path's is kept in
 * mind: where `augment` is missing, it is the slip (augmnet:). */
static void note_key(reader *r, const stk_yaml_node *key)
{
    stoke_data_params params;
    const stoke_option_group group = stoke_data_options(&params);
    stk_option_hit hit;
    if (*r->slip || stk_yaml_is_section(key->text) ||
        stk_option_find(&group, 1, key->text, strlen(key->text), &hit))
        return;
    const char *near = stk_option_nearest(&group, 1, key->text).best;
    snprintf(r->slip, sizeof r->slip, "%u: unknown setting '%.80s'%s%s%s", key->line, key->text,
             near ? ": did you mean " : "", near ? near : "", near ? "?" : "");
}

/* Sections stand at level 0 only. */
static int look_through(reader *r, const stk_yaml_node *mapping, stoke_pipeline *pipeline, int level)
{
    int status = STOKE_OK;
    for (uint32_t i = mapping->first, next; !status && i != STK_YAML_NONE; i = next) {
        const stk_yaml_node *key = at(r, i, &status);
        const stk_yaml_node *value = status ? key : at(r, key->next, &status);
        next = value->next;
        if (status) break;
        if (key->kind != STK_YAML_SCALAR)
            return complain(r, key, STOKE_E_FORMAT, "expected the name of a setting");
        note_key(r, key);
        if (!strcmp(key->text, "augment"))
            status = read_augment(r, key, value, pipeline);
        else if (!level && value->kind == STK_YAML_MAPPING && stk_yaml_is_section(key->text))
            status = look_through(r, value, pipeline, level + 1);
    }
    return status;
}

int stk_pipeline_read_tree(stoke_pipeline *pipeline, const stoke_yaml *yaml, stk_pipeline_yaml_take take,
                           stoke_error *err)
{
    stoke_error local;
    reader r = { .yaml = yaml, .take = take, .err = err ? err : &local };
    if (!yaml->n_nodes || yaml->nodes[0].kind != STK_YAML_MAPPING) {
        if (take == STK_YAML_LISTS) return STOKE_OK; /* settings of nothing but comments are all defaults */
        return stk_yaml_fail(yaml, yaml->n_nodes ? yaml->nodes[0].line : 1, err, STOKE_E_FORMAT,
                             "expected \"augment:\" and a list of ops");
    }
    int status = look_through(&r, yaml->nodes, pipeline, 0);
    if (!status && !r.found && take == STK_YAML_ALL)
        status = *r.slip
                     ? stk_fail(err, STOKE_E_NOTFOUND, "%s:%s", yaml->name, r.slip)
                     : stk_fail(err, STOKE_E_FORMAT, "%s: no key \"augment\" with a list of ops", yaml->name);
    return status;
}
