/* SPDX-License-Identifier: Apache-2.0
 *
 * Paths: data.batch_size, steps[2].lr, a."b.c". Aliases and merges are followed for reading, as every reader
 * of YAML does; the place remembers that they were, because what is behind them belongs to other keys too.
 */
#include <stdio.h>
#include <string.h>

#include "src/settings/yaml_tree.h"

static const char BEHIND_ALIAS[] =
    "it lies behind an alias (*), so other keys share it; write the section out "
    "here";
static const char BEHIND_MERGE[] = "it comes from a merge (<<), so other keys share it; write the key out in "
                                   "this section";

enum {
    MERGES = 16,    /* merges of merges that are followed: an anchor may contain an alias of itself */
    LOOKS = 1 << 20 /* pairs of a section and a value; people's files have hundreds */
};

/* ---- writing ---- */

static int needs_quotes(const char *key)
{
    if (!*key || strpbrk(key, ".[]\"\\")) return 1;
    for (; *key; key++)
        if ((unsigned char)*key < ' ') return 1;
    return 0;
}

int stk_yaml_join(const char *parent, const char *key, char path[STK_YAML_PATH])
{
    size_t n = strlen(parent);
    if (n + strlen(key) + 4 >= STK_YAML_PATH) return 0;
    memmove(path, parent, n);
    if (n) path[n++] = '.';
    if (!needs_quotes(key)) {
        strcpy(path + n, key);
        return 1;
    }
    path[n++] = '"';
    for (; *key; key++) {
        if (n + 4 >= STK_YAML_PATH) return 0;
        if (*key == '"' || *key == '\\') path[n++] = '\\';
        path[n++] = *key;
    }
    path[n++] = '"';
    path[n] = 0;
    return 1;
}

/* ---- reading ---- */

typedef struct segment {
    char key[STK_YAML_PATH];
    int is_index;
    uint32_t index;
} segment;

static const char *read_quoted(const char *p, segment *s)
{
    size_t n = 0;
    for (p++; *p && *p != '"'; p++) {
        if (*p == '\\' && p[1]) p++;
        if (n + 1 == sizeof s->key) return NULL;
        s->key[n++] = *p;
    }
    s->key[n] = 0;
    return *p ? p + 1 : NULL;
}

static const char *read_index(const char *p, segment *s)
{
    s->is_index = 1;
    if (*++p < '0' || *p > '9') return NULL;
    for (; *p >= '0' && *p <= '9'; p++) {
        s->index = s->index * 10 + (uint32_t)(*p - '0');
        if (s->index > STK_YAML_NODES) return NULL;
    }
    return *p == ']' ? p + 1 : NULL;
}

/* Reads one step of the path; NULL: not well-formed. */
static const char *read_segment(const char *p, int first, segment *s)
{
    *s = (segment){ 0 };
    if (*p == '[') return first ? NULL : read_index(p, s);
    if (!first && *p++ != '.') return NULL;
    if (*p == '"') return read_quoted(p, s);
    const size_t n = strcspn(p, ".[]\"\\");
    if (!n || n >= sizeof s->key) return NULL;
    memcpy(s->key, p, n);
    s->key[n] = 0;
    return p + n;
}

uint32_t stk_yaml_child(const stoke_yaml *yaml, uint32_t mapping, const char *key)
{
    const stk_yaml_node *nodes = yaml->nodes;
    if (nodes[mapping].kind != STK_YAML_MAPPING) return STK_YAML_NONE; /* of a list, at the top of a file */
    for (uint32_t i = nodes[mapping].first; i != STK_YAML_NONE; i = nodes[nodes[i].next].next)
        if (nodes[i].text && !nodes[nodes[i].next].replaced && !strcmp(nodes[i].text, key))
            return nodes[i].next;
    return STK_YAML_NONE;
}

static uint32_t behind_merges(const stoke_yaml *yaml, uint32_t mapping, const char *key, int left);

/* One value of a merge: a mapping, written out or by alias. */
static uint32_t merged_value(const stoke_yaml *yaml, uint32_t from, const char *key, int left)
{
    from = stk_yaml_followed(yaml, from);
    if (yaml->nodes[from].kind != STK_YAML_MAPPING) return STK_YAML_NONE;
    const uint32_t own = stk_yaml_child(yaml, from, key);
    return own != STK_YAML_NONE ? own : behind_merges(yaml, from, key, left - 1);
}

static uint32_t behind_merges(const stoke_yaml *yaml, uint32_t mapping, const char *key, int left)
{
    const uint32_t merge = left ? stk_yaml_child(yaml, mapping, "<<") : STK_YAML_NONE;
    if (merge == STK_YAML_NONE) return STK_YAML_NONE;
    const stk_yaml_node *node = &yaml->nodes[stk_yaml_followed(yaml, merge)];
    if (node->kind != STK_YAML_SEQUENCE) return merged_value(yaml, merge, key, left);
    for (uint32_t i = node->first; i != STK_YAML_NONE; i = yaml->nodes[i].next) {
        const uint32_t found = merged_value(yaml, i, key, left);
        if (found != STK_YAML_NONE) return found;
    }
    return STK_YAML_NONE;
}

static void blame(stk_yaml_place *place, const char *reason, uint32_t line)
{
    if (place->fixed) return; /* the first reason is the nearest to the top */
    place->fixed = reason;
    place->line = line;
}

/* One step down from `from`, an alias already followed. */
static uint32_t step(const stoke_yaml *yaml, uint32_t from, const segment *s, stk_yaml_place *place)
{
    const stk_yaml_node *node = &yaml->nodes[from];
    if (s->is_index) {
        uint32_t item = node->kind == STK_YAML_SEQUENCE ? node->first : STK_YAML_NONE;
        for (uint32_t i = 0; item != STK_YAML_NONE && i < s->index; i++) item = yaml->nodes[item].next;
        return item;
    }
    if (node->kind != STK_YAML_MAPPING) return STK_YAML_NONE;
    place->mapping = from;
    memcpy(place->key, s->key, sizeof place->key);
    const uint32_t own = stk_yaml_child(yaml, from, s->key);
    if (own != STK_YAML_NONE) return own;
    const uint32_t merged = behind_merges(yaml, from, s->key, MERGES);
    place->merged = merged != STK_YAML_NONE;
    return merged;
}

int stk_yaml_find(const stoke_yaml *yaml, const char *path, stk_yaml_place *place)
{
    segment s;
    uint32_t at = 0;
    *place = (stk_yaml_place){ .node = STK_YAML_NONE, .written = STK_YAML_NONE, .mapping = STK_YAML_NONE };
    const char *p = path;
    for (int first = 1; first || *p; first = 0) {
        if (!(p = read_segment(p, first, &s))) return 0;
        if (place->merged) blame(place, BEHIND_MERGE, yaml->nodes[place->mapping].line);
        place->mapping = STK_YAML_NONE;
        place->merged = 0;
        if (at == STK_YAML_NONE) continue; /* only the form is left to check */
        if (yaml->nodes[at].kind == STK_YAML_ALIAS) {
            blame(place, BEHIND_ALIAS, yaml->nodes[at].line);
            at = yaml->nodes[at].target;
        }
        at = step(yaml, at, &s, place);
    }
    place->written = place->node = at;
    if (at != STK_YAML_NONE) place->node = stk_yaml_followed(yaml, at);
    /* What is changed: the value, or the mapping to which a key is added, or in which it is written out. */
    const uint32_t changed = at == STK_YAML_NONE || place->merged ? place->mapping : at;
    if (changed != STK_YAML_NONE) blame(place, yaml->nodes[changed].fixed, yaml->nodes[changed].line);
    return 1;
}

static void fill(const stk_yaml_node *node, const char *fixed, uint32_t line, stoke_yaml_value *value)
{
    *value = (stoke_yaml_value){
        .text = node->text,
        .line = line,
        .quoted = node->style == STK_YAML_SINGLE || node->style == STK_YAML_DOUBLE,
        .fixed = fixed,
    };
}

int stoke_yaml_get(const stoke_yaml *yaml, const char *path, stoke_yaml_value *value)
{
    stk_yaml_place place;
    *value = (stoke_yaml_value){ 0 };
    if (!stk_yaml_find(yaml, path, &place) || place.node == STK_YAML_NONE) return 0;
    const stk_yaml_node *node = &yaml->nodes[place.node];
    if (node->kind != STK_YAML_SCALAR) return 0;
    fill(node, place.fixed, yaml->nodes[place.written].line, value);
    return 1;
}

/* The key by which `named` stands in `section`, which is or merges what lies above it; 0: it does not. */
static int merged_path(const stoke_yaml *yaml, uint32_t section, uint32_t named, char path[STK_YAML_PATH])
{
    const stk_yaml_node *nodes = yaml->nodes;
    stk_yaml_place place;
    const uint32_t key = nodes[named].key;
    return key != STK_YAML_NONE && nodes[section].path && nodes[key].text &&
           stk_yaml_join(nodes[section].path, nodes[key].text, path) && stk_yaml_find(yaml, path, &place) &&
           place.merged && place.written == named;
}

int stoke_yaml_merged(const stoke_yaml *yaml, stoke_yaml_take take, void *context)
{
    char path[STK_YAML_PATH];
    stoke_yaml_value value;
    size_t left = LOOKS;
    for (uint32_t i = 0; i < yaml->n_nodes; i++) {
        if (yaml->nodes[i].kind != STK_YAML_MAPPING || stk_yaml_child(yaml, i, "<<") == STK_YAML_NONE)
            continue;
        for (size_t j = 0; j < yaml->n_named && left; j++, left--) {
            if (!merged_path(yaml, i, yaml->named[j], path)) continue;
            if (!stoke_yaml_get(yaml, path, &value)) continue;
            const int r = take(context, path, &value);
            if (r) return r;
        }
    }
    return 0;
}

int stoke_yaml_at(const stoke_yaml *yaml, size_t index, const char **path, stoke_yaml_value *value)
{
    if (index >= yaml->n_named) return 0;
    const uint32_t at = yaml->named[index];
    const stk_yaml_node *node = &yaml->nodes[at];
    *path = node->path;
    fill(&yaml->nodes[stk_yaml_followed(yaml, at)], node->fixed, node->line, value);
    return 1;
}
