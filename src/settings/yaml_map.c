/* SPDX-License-Identifier: Apache-2.0
 *
 * From bytes to a tree whose nodes know their bytes. libyaml parses; it drops comments and counts characters
 * (not bytes), which is all right: one pass over the UTF-8 tells where a character stands, and comments stay
 * because nothing is ever written from the tree.
 */
#include <string.h>
#include <strings.h>
#include <yaml.h>

#include "src/base/error.h"
#include "src/base/file.h"
#include "src/base/mem.h"
#include "src/base/utf8.h"
#include "src/settings/yaml_tree.h"

const char *stk_yaml_keep(const stoke_yaml *yaml, const char *text, size_t length)
{
    return stk_string_arena_copy(yaml->strings, text, length);
}

int stk_yaml_fail(const stoke_yaml *yaml, size_t line, stoke_error *err, int code, const char *format, ...)
{
    char message[768], where[4160];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    snprintf(where, sizeof where, "%.4096s:%zu", yaml->name, line);
    stk_fail(err, code, "%s", message);
    stk_error_prefix(err, where);
    return code;
}

int stk_yaml_no_memory(const stoke_yaml *yaml, stoke_error *err)
{
    return stk_fail(err, STOKE_E_NOMEM, "%s: out of memory", yaml->name ? yaml->name : "YAML");
}

/* ---- characters to bytes ---- */

enum { STRIDE = 64 };

/* The byte of every 64th character. libyaml is given the text behind the BOM, so character 0 is byte `from`.
 */
typedef struct char_map {
    const char *text;
    size_t from, characters;
    uint32_t *at;
} char_map;

static size_t line_of(const char *text, size_t byte)
{
    size_t line = 1;
    for (size_t i = 0; i < byte; i++) line += text[i] == '\n';
    return line;
}

/* And refuses what is no UTF-8. */
static int map_characters(const stoke_yaml *yaml, char_map *map, stoke_error *err)
{
    const char *p = yaml->text, *end = p + yaml->bytes;
    *map = (char_map){ .text = p, .from = yaml->bytes >= 3 && !memcmp(p, "\xef\xbb\xbf", 3) ? 3 : 0 };
    map->at = stk_alloc((yaml->bytes / STRIDE + 2) * sizeof *map->at);
    if (!map->at) return stk_yaml_no_memory(yaml, err);
    for (p += map->from; p < end; map->characters++) {
        const char *start = p;
        const uint32_t code = stk_utf8_next(&p);
        if (!code || (code == STK_UTF8_BAD && p - start == 1))
            return stk_yaml_fail(yaml, line_of(yaml->text, (size_t)(start - yaml->text)), err, STOKE_E_FORMAT,
                                 "%s; save the file as UTF-8",
                                 code ? "bytes that are not UTF-8" : "a zero byte");
        if (map->characters % STRIDE == 0) map->at[map->characters / STRIDE] = (uint32_t)(start - yaml->text);
    }
    return STOKE_OK;
}

static size_t byte_of(const char_map *map, size_t character, size_t bytes)
{
    if (character >= map->characters) return bytes;
    const char *p = map->text + map->at[character / STRIDE];
    for (size_t i = character % STRIDE; i; i--) stk_utf8_next(&p);
    return (size_t)(p - map->text);
}

/* ---- the tree ---- */

typedef struct level {
    uint32_t node, key; /* key: the one that waits for its value */
} level;

typedef struct builder {
    stoke_yaml *yaml;
    char_map map;
    yaml_parser_t parser;
    yaml_event_t event;
    int documents;
    level open[STK_YAML_DEPTH];
    size_t depth;
    uint32_t anchors[STK_YAML_ANCHORS];
    size_t n_anchors;
    stoke_error *err;
} builder;

static size_t event_line(const builder *b)
{
    return b->event.start_mark.line + 1;
}

/* What usually helps with a problem that libyaml describes. */
static const char *hint(const char *problem)
{
    if (problem && (strstr(problem, "did not find expected") || strstr(problem, "mapping values")))
        return "; lines of one list or section begin in the same column";
    if (problem && strstr(problem, "cannot start any token")) return "; indent with blanks, not tabs";
    return "";
}

static int parser_failure(builder *b)
{
    const yaml_parser_t *p = &b->parser;
    if (p->error == YAML_MEMORY_ERROR) return stk_yaml_no_memory(b->yaml, b->err);
    size_t line = p->problem_mark.line + 1;
    if (p->error == YAML_READER_ERROR) { /* the only kind that has an offset instead of a line */
        const size_t byte = b->map.from + p->problem_offset;
        line = line_of(b->yaml->text, byte < b->yaml->bytes ? byte : b->yaml->bytes);
    }
    return stk_yaml_fail(b->yaml, line, b->err, STOKE_E_FORMAT, "not valid %s: %s%s",
                         b->yaml->form == STK_FORM_JSON ? "JSON" : "YAML",
                         p->problem ? p->problem : "unknown problem", hint(p->problem));
}

void stk_yaml_attach(stoke_yaml *yaml, uint32_t parent, uint32_t index)
{
    stk_yaml_node *above = &yaml->nodes[parent];
    if (above->last == STK_YAML_NONE)
        above->first = index;
    else
        yaml->nodes[above->last].next = index;
    above->last = index;
    yaml->nodes[index].parent = parent;
    yaml->nodes[index].position = above->children++;
}

/* libyaml's mark of a node with an anchor is that of the anchor: the value begins behind it. */
static size_t behind_anchor(const stoke_yaml *yaml, size_t begin, size_t end)
{
    const char *p = yaml->text;
    while (begin < end && !strchr(" \t\r\n", p[begin])) begin++;
    while (begin < end && strchr(" \t\r\n", p[begin])) begin++;
    return begin;
}

int stk_yaml_add_node(stoke_yaml *yaml, stk_yaml_kind kind, uint32_t line, size_t begin, uint32_t *index,
                      stoke_error *err)
{
    if (yaml->n_nodes == STK_YAML_NODES)
        return stk_yaml_fail(yaml, line, err, STOKE_E_LIMIT,
                             "more than %d keys and values; this is not a settings file", STK_YAML_NODES);
    if (!stk_grow((void **)&yaml->nodes, &yaml->node_capacity, yaml->n_nodes + 1, sizeof *yaml->nodes))
        return stk_yaml_no_memory(yaml, err);
    yaml->nodes[yaml->n_nodes] = (stk_yaml_node){
        .kind = kind,
        .parent = STK_YAML_NONE,
        .first = STK_YAML_NONE,
        .next = STK_YAML_NONE,
        .key = STK_YAML_NONE,
        .target = STK_YAML_NONE,
        .last = STK_YAML_NONE,
        .line = line,
        .end_line = line,
        .begin = begin,
        .end = begin,
    };
    *index = (uint32_t)yaml->n_nodes++;
    return STOKE_OK;
}

static int add_node(builder *b, stk_yaml_kind kind, const void *anchor, const void *tag, uint32_t *index)
{
    stoke_yaml *yaml = b->yaml;
    const size_t begin = byte_of(&b->map, b->event.start_mark.index, yaml->bytes);
    const int r = stk_yaml_add_node(yaml, kind, (uint32_t)event_line(b), begin, index, b->err);
    if (r) return r;
    stk_yaml_node *node = &yaml->nodes[*index];
    node->tagged = tag != NULL;
    node->end_line = (uint32_t)b->event.end_mark.line + 1;
    node->column = (uint32_t)b->event.start_mark.column;
    node->end = byte_of(&b->map, b->event.end_mark.index, yaml->bytes);
    if (anchor) {
        if (b->n_anchors == STK_YAML_ANCHORS)
            return stk_yaml_fail(yaml, event_line(b), b->err, STOKE_E_LIMIT, "more than %d anchors",
                                 STK_YAML_ANCHORS);
        node->anchor = stk_yaml_keep(yaml, anchor, strlen(anchor));
        if (!node->anchor) return stk_yaml_no_memory(yaml, b->err);
        node->begin = behind_anchor(yaml, node->begin, node->end);
        b->anchors[b->n_anchors++] = *index;
    }
    if (!b->depth) return STOKE_OK;
    level *top = &b->open[b->depth - 1]; /* the mapping or list that is open */
    stk_yaml_attach(yaml, top->node, *index);
    if (yaml->nodes[top->node].kind != STK_YAML_MAPPING) return STOKE_OK;
    node->key = top->key;
    top->key = top->key == STK_YAML_NONE ? *index : STK_YAML_NONE;
    return STOKE_OK;
}

static int add_scalar(builder *b)
{
    const char *text = (const char *)b->event.data.scalar.value;
    const size_t length = b->event.data.scalar.length;
    const yaml_scalar_style_t style = b->event.data.scalar.style;
    uint32_t index;
    int r = add_node(b, STK_YAML_SCALAR, b->event.data.scalar.anchor, b->event.data.scalar.tag, &index);
    if (r) return r;
    if (memchr(text, 0, length)) /* "\0" in double quotes */
        return stk_yaml_fail(b->yaml, event_line(b), b->err, STOKE_E_UNSUPPORTED,
                             "a zero byte inside a value is not accepted");
    stk_yaml_node *node = &b->yaml->nodes[index];
    node->style = style == YAML_SINGLE_QUOTED_SCALAR_STYLE   ? STK_YAML_SINGLE
                  : style == YAML_DOUBLE_QUOTED_SCALAR_STYLE ? STK_YAML_DOUBLE
                  : style == YAML_PLAIN_SCALAR_STYLE         ? STK_YAML_PLAIN
                                                             : STK_YAML_BLOCK;
    node->text = stk_yaml_keep(b->yaml, text, length);
    return node->text ? STOKE_OK : stk_yaml_no_memory(b->yaml, b->err);
}

/* An anchor may be set again; an alias means the last one before it. */
static int add_alias(builder *b)
{
    const char *name = (const char *)b->event.data.alias.anchor;
    uint32_t index;
    int r = add_node(b, STK_YAML_ALIAS, NULL, NULL, &index);
    if (r) return r;
    for (size_t i = b->n_anchors; i--;) {
        stk_yaml_node *target = &b->yaml->nodes[b->anchors[i]];
        if (strcmp(target->anchor, name) != 0) continue;
        target->shared = 1;
        b->yaml->nodes[index].target = b->anchors[i];
        return STOKE_OK;
    }
    return stk_yaml_fail(b->yaml, event_line(b), b->err, STOKE_E_FORMAT,
                         "the alias *%.80s has no anchor &%.80s before it", name, name);
}

static int open_collection(builder *b, stk_yaml_kind kind, const void *anchor, const void *tag, int flow)
{
    uint32_t index;
    if (b->depth == STK_YAML_DEPTH)
        return stk_yaml_fail(b->yaml, event_line(b), b->err, STOKE_E_LIMIT, "nested deeper than %d levels",
                             STK_YAML_DEPTH);
    int r = add_node(b, kind, anchor, tag, &index);
    if (r) return r;
    b->yaml->nodes[index].flow = flow;
    b->open[b->depth++] = (level){ index, STK_YAML_NONE };
    return STOKE_OK;
}

/* The mark of a block collection's end is that of whatever follows it, comments passed over; its last value
 * tells where it really ends. */
static void close_collection(builder *b)
{
    stk_yaml_node *node = &b->yaml->nodes[b->open[--b->depth].node];
    node->end = byte_of(&b->map, b->event.end_mark.index, b->yaml->bytes);
    node->end_line = (uint32_t)b->event.end_mark.line + 1;
    if (node->flow || node->last == STK_YAML_NONE) return;
    node->end = b->yaml->nodes[node->last].end;
    node->end_line = b->yaml->nodes[node->last].end_line;
}

static int take_event(builder *b)
{
    const yaml_event_t *e = &b->event;
    switch (e->type) {
    case YAML_DOCUMENT_START_EVENT:
        if (!b->documents++) return STOKE_OK;
        return stk_yaml_fail(b->yaml, event_line(b), b->err, STOKE_E_UNSUPPORTED,
                             "a second document starts here; one is accepted");
    case YAML_SCALAR_EVENT: return add_scalar(b);
    case YAML_ALIAS_EVENT: return add_alias(b);
    case YAML_MAPPING_START_EVENT:
        return open_collection(b, STK_YAML_MAPPING, e->data.mapping_start.anchor, e->data.mapping_start.tag,
                               e->data.mapping_start.style == YAML_FLOW_MAPPING_STYLE);
    case YAML_SEQUENCE_START_EVENT:
        return open_collection(b, STK_YAML_SEQUENCE, e->data.sequence_start.anchor,
                               e->data.sequence_start.tag,
                               e->data.sequence_start.style == YAML_FLOW_SEQUENCE_STYLE);
    case YAML_MAPPING_END_EVENT:
    case YAML_SEQUENCE_END_EVENT: close_collection(b); return STOKE_OK;
    default: return STOKE_OK;
    }
}

static int build(stoke_yaml *yaml, stoke_error *err)
{
    builder b = { .yaml = yaml, .err = err };
    int r = map_characters(yaml, &b.map, err);
    if (!r && yaml->form == STK_FORM_PYTHON)
        r = stk_python_build(yaml, err);
    else if (!r && !yaml_parser_initialize(&b.parser))
        r = stk_yaml_no_memory(yaml, err);
    if (r || yaml->form == STK_FORM_PYTHON) {
        stk_free(b.map.at);
        return r;
    }
    yaml_parser_set_encoding(&b.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&b.parser, (const unsigned char *)yaml->text + b.map.from,
                                 yaml->bytes - b.map.from);
    do {
        yaml_event_delete(&b.event); /* a zeroed one too */
        r = yaml_parser_parse(&b.parser, &b.event) ? take_event(&b) : parser_failure(&b);
    } while (!r && b.event.type != YAML_STREAM_END_EVENT);
    yaml_event_delete(&b.event);
    yaml_parser_delete(&b.parser);
    stk_free(b.map.at);
    return r;
}

int stk_yaml_read(stoke_yaml **out, const char *text, size_t bytes, const char *name, stoke_error *err)
{
    *out = NULL;
    if (bytes > STK_YAML_FILE)
        return stk_fail(err, STOKE_E_LIMIT, "%.256s: %zu bytes, more than a settings file may have (%d)",
                        name, bytes, STK_YAML_FILE);
    stoke_yaml *yaml = stk_calloc(1, sizeof *yaml);
    if (!yaml) return stk_fail(err, STOKE_E_NOMEM, "%.256s: out of memory", name);
    yaml->name = stk_strdup(name);
    yaml->text = stk_alloc(bytes + 1);
    yaml->strings = stk_calloc(1, sizeof *yaml->strings);
    int r = STOKE_OK;
    if (!yaml->name || !yaml->text || !yaml->strings) {
        r = stk_yaml_no_memory(yaml, err);
    } else {
        if (bytes) memcpy(yaml->text, text, bytes);
        yaml->text[bytes] = 0;
        yaml->bytes = bytes;
        const char *dot = strrchr(name, '.');
        yaml->form = dot && !strcasecmp(dot, ".py")     ? STK_FORM_PYTHON
                     : dot && !strcasecmp(dot, ".json") ? STK_FORM_JSON
                                                        : STK_FORM_YAML;
        r = build(yaml, err);
        if (!r) r = stk_yaml_name(yaml, err);
    }
    if (r) stoke_yaml_close(&yaml);
    *out = yaml;
    return r;
}

int stoke_config_open(stoke_yaml **out, const char *path, stoke_error *err)
{
    stk_mem_buffer file = { 0 };
    size_t size = 0;
    *out = NULL;
    int r = stk_file_read(path, STK_YAML_FILE, &file, &size, err);
    if (r == STOKE_E_FORMAT) r = STOKE_OK; /* an empty file: all defaults */
    if (!r) r = stk_yaml_read(out, file.data, size, path, err);
    stk_buffer_free(&file);
    return r;
}

static int checked(stoke_yaml **out, int r, stoke_error *err)
{
    if (!r) r = stk_yaml_check(*out, err);
    if (r) stoke_yaml_close(out);
    return r;
}

int stoke_yaml_parse(stoke_yaml **out, const char *text, size_t bytes, const char *name, stoke_error *err)
{
    return checked(out, stk_yaml_read(out, text, bytes, name, err), err);
}

int stoke_yaml_open_checked(stoke_yaml **out, const char *path, stoke_error *err)
{
    return checked(out, stoke_config_open(out, path, err), err);
}

void stoke_yaml_close(stoke_yaml **yaml)
{
    stoke_yaml *y = yaml ? *yaml : NULL;
    if (!y) return;
    if (y->strings) stk_string_arena_free(y->strings);
    stk_free(y->strings);
    stk_free(y->nodes);
    stk_free(y->named);
    stk_free(y->edits);
    stk_free(y->result);
    stk_free(y->text);
    stk_free(y->name);
    stk_free(y);
    *yaml = NULL;
}
