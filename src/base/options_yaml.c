/* SPDX-License-Identifier: Apache-2.0
 *
 * Settings from YAML, by libyaml's event parser. Strict on purpose: a settings file is a flat list of names
 * and values, so anchors, tags and deep nesting are mistakes, and `batch` given twice is one too. A list of
 * plain values is accepted where a text is: [1, 2.5] means "1,2.5".
 * Scalars stay text until the option's type reads them: `no` is a fine folder name, 0644 is not octal, 1e3 is
 * a thousand.
 *
 * The file is read and checked whole before the first field changes: a bad file changes nothing.
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "src/base/error.h"
#include "src/base/file.h"
#include "src/base/mem.h"
#include "src/base/options_private.h"

enum {
    FILE_LIMIT = 1 << 20, /* a settings file of every option is about 10 KB */
    FOREIGN_DEPTH = 32,   /* nesting inside a part that belongs to others */
    LIST_TEXT = 16384     /* of a list: a thousand numbers of full length */
};

/* Strings the fields point to: a chain of blocks, freed together. */
typedef struct string_block {
    struct string_block *next;
    char text[];
} string_block;

struct stoke_option_storage {
    string_block *strings;
};

/* One key of the file. Sections and foreign keys are kept too, to notice the second one. */
typedef struct entry {
    stk_option_hit hit; /* option NULL: section or foreign key */
    const char *key;
    const char *value; /* NULL: null, so back to the default */
    size_t line;
} entry;

typedef struct reader {
    yaml_parser_t parser;
    yaml_event_t event;
    int has_event;
    const stoke_option_group *groups;
    size_t n_groups;
    const char *name; /* of the file */
    const char *bytes;
    size_t size;
    const char *const *foreign;
    stoke_option_storage *storage;
    entry *entries;
    size_t n_entries, entry_capacity;
    stoke_error *err;
} reader;

static STOKE_PRINTF(4, 5) int fail_at(reader *r, size_t line, int code, const char *format, ...)
{
    char message[512], where[4160];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    snprintf(where, sizeof where, "%.4096s:%zu", r->name, line);
    stk_fail(r->err, code, "%s", message);
    stk_error_prefix(r->err, where);
    return code;
}

static size_t event_line(const reader *r)
{
    return r->event.start_mark.line + 1;
}

const char *stk_option_keep(stoke_option_storage *storage, const char *text, size_t length)
{
    string_block *block = stk_alloc(sizeof *block + length + 1);
    if (!block) return NULL;
    memcpy(block->text, text, length);
    block->text[length] = 0;
    block->next = storage->strings;
    storage->strings = block;
    return block->text;
}

static const char *keep(reader *r, const char *text, size_t length)
{
    const char *kept = stk_option_keep(r->storage, text, length);
    if (!kept) stk_fail(r->err, STOKE_E_NOMEM, "%s: out of memory", r->name);
    return kept;
}

const char *stk_yaml_hint(const char *problem)
{
    if (problem && (strstr(problem, "did not find expected") || strstr(problem, "mapping values")))
        return "; lines of one list or section begin in the same column";
    if (problem && strstr(problem, "cannot start any token")) return "; indent with blanks, not tabs";
    return "";
}

static int parser_failure(reader *r)
{
    const yaml_parser_t *p = &r->parser;
    if (p->error == YAML_MEMORY_ERROR) return stk_fail(r->err, STOKE_E_NOMEM, "%s: out of memory", r->name);
    size_t line = p->problem_mark.line + 1;
    if (p->error == YAML_READER_ERROR) { /* the only kind that has an offset instead of a line */
        line = 1;
        for (size_t i = 0; i < p->problem_offset && i < r->size; i++) line += r->bytes[i] == '\n';
    }
    return fail_at(r, line, STOKE_E_FORMAT, "not valid YAML: %s%s",
                   p->problem ? p->problem : "unknown problem", stk_yaml_hint(p->problem));
}

/* Moves to the next event. Refuses what no settings file needs, wherever it stands. */
static int advance(reader *r)
{
    if (r->has_event) yaml_event_delete(&r->event);
    r->has_event = 0;
    if (!yaml_parser_parse(&r->parser, &r->event)) return parser_failure(r);
    r->has_event = 1;
    const void *anchor = NULL, *tag = NULL;
    switch (r->event.type) {
    case YAML_ALIAS_EVENT: anchor = r->event.data.alias.anchor; break;
    case YAML_SCALAR_EVENT:
        anchor = r->event.data.scalar.anchor;
        tag = r->event.data.scalar.tag;
        break;
    case YAML_SEQUENCE_START_EVENT:
        anchor = r->event.data.sequence_start.anchor;
        tag = r->event.data.sequence_start.tag;
        break;
    case YAML_MAPPING_START_EVENT:
        anchor = r->event.data.mapping_start.anchor;
        tag = r->event.data.mapping_start.tag;
        break;
    default: break;
    }
    if (anchor)
        return fail_at(r, event_line(r), STOKE_E_FORMAT,
                       "anchors and aliases (& and *) are not accepted here; "
                       "put a value that starts so into quotes");
    if (tag)
        return fail_at(r, event_line(r), STOKE_E_FORMAT,
                       "tags (!) are not accepted here; put a value that starts "
                       "so into quotes");
    return STOKE_OK;
}

/* Passes over the value that begins at the current event. */
static int skip_value(reader *r)
{
    int depth = 0;
    for (;;) {
        yaml_event_type_t type = r->event.type;
        if (type == YAML_MAPPING_START_EVENT || type == YAML_SEQUENCE_START_EVENT) depth++;
        if (type == YAML_MAPPING_END_EVENT || type == YAML_SEQUENCE_END_EVENT) depth--;
        if (depth > FOREIGN_DEPTH)
            return fail_at(r, event_line(r), STOKE_E_LIMIT, "nested deeper than %d levels", FOREIGN_DEPTH);
        if (!depth) return STOKE_OK;
        int status = advance(r);
        if (status) return status;
    }
}

/* NULL in *text: null, written as nothing, ~ or null without quotes. */
static int scalar_text(reader *r, const char **text)
{
    const char *value = (const char *)r->event.data.scalar.value;
    size_t length = r->event.data.scalar.length;
    if (memchr(value, 0, length))
        return fail_at(r, event_line(r), STOKE_E_FORMAT, "a zero byte inside a value is not accepted");
    *text = NULL;
    if (r->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
        (!length || !strcmp(value, "~") || !strcmp(value, "null") || !strcmp(value, "Null") ||
         !strcmp(value, "NULL")))
        return STOKE_OK;
    *text = keep(r, value, length);
    return *text ? STOKE_OK : STOKE_E_NOMEM;
}

static int same_word(const char *a, const char *b)
{
    while (*a && (*a == *b || (*a == '-' && *b == '_') || (*a == '_' && *b == '-'))) a++, b++;
    return !*a && !*b;
}

static int is_foreign(const reader *r, const char *key)
{
    for (const char *const *name = r->foreign; name && *name; name++)
        if (same_word(key, *name)) return 1;
    return 0;
}

/* Every key there can be is known by name, so the list stays as short as the tables. */
static int remember(reader *r, entry fresh)
{
    for (size_t i = 0; i < r->n_entries; i++)
        if (r->entries[i].hit.option == fresh.hit.option &&
            (fresh.hit.option || same_word(fresh.key, r->entries[i].key)))
            return fail_at(r, fresh.line, STOKE_E_INVALID, "%.80s is given twice (first in line %zu)",
                           fresh.key, r->entries[i].line);
    if (!stk_grow((void **)&r->entries, &r->entry_capacity, r->n_entries + 1, sizeof *r->entries))
        return stk_fail(r->err, STOKE_E_NOMEM, "%s: out of memory", r->name);
    r->entries[r->n_entries++] = fresh;
    return STOKE_OK;
}

static int unknown_key(reader *r, const char *key, size_t line)
{
    const char *near = stk_option_nearest(r->groups, r->n_groups, key);
    if (near)
        return fail_at(r, line, STOKE_E_NOTFOUND, "unknown setting '%.80s': did you mean %s?", key, near);
    return fail_at(r, line, STOKE_E_NOTFOUND, "unknown setting '%.80s'", key);
}

/* A list of plain values as one text with commas. */
static int list_text(reader *r, const char *key, const char **text)
{
    char joined[LIST_TEXT] = "";
    size_t used = 0;
    int status;
    while (!(status = advance(r)) && r->event.type == YAML_SCALAR_EVENT) {
        const char *item = NULL;
        if ((status = scalar_text(r, &item))) return status;
        if (!item || strchr(item, ','))
            return fail_at(r, event_line(r), STOKE_E_INVALID, "%.80s: a value of the list is %s", key,
                           item ? "more than one" : "missing");
        used += (size_t)snprintf(joined + used, sizeof joined - used, "%s%s", used ? "," : "", item);
        if (used >= sizeof joined)
            return fail_at(r, event_line(r), STOKE_E_LIMIT, "%.80s: the list is longer than %d bytes", key,
                           LIST_TEXT - 1);
    }
    if (status) return status;
    if (r->event.type != YAML_SEQUENCE_END_EVENT)
        return fail_at(r, event_line(r), STOKE_E_INVALID, "%.80s: a list of plain values is expected", key);
    *text = keep(r, joined, used);
    return *text ? STOKE_OK : STOKE_E_NOMEM;
}

static int read_setting(reader *r, entry fresh)
{
    const int list = r->event.type == YAML_SEQUENCE_START_EVENT;
    if (list && is_foreign(r, fresh.key)) {
        int passed = remember(r, fresh); /* without a value: the default, until its owner has read the list */
        return passed ? passed : skip_value(r);
    }
    const int joins = list && fresh.hit.option->type == STOKE_OPT_STRING;
    if (r->event.type != YAML_SCALAR_EVENT && !joins)
        return fail_at(r, event_line(r), STOKE_E_INVALID,
                       "%.80s: one value is expected, not a list or section", fresh.key);
    int status = joins ? list_text(r, fresh.key, &fresh.value) : scalar_text(r, &fresh.value);
    if (!status && fresh.value) {
        stk_option_value trial;
        stoke_error reason;
        status = stk_option_assign((stk_option_hit){ fresh.hit.option, &trial }, fresh.hit.option->name,
                                   fresh.value, &reason);
        if (status) fail_at(r, event_line(r), status, "%s", reason.message);
    }
    return status ? status : remember(r, fresh);
}

int stk_yaml_is_section(const char *key)
{
    static const char *const names[] = { "data", "loader", "train", "training", "model" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(key, names[i])) return 1;
    return 0;
}

static int read_section(reader *r, int level);

/* The value of a key; the current event is its first. */
static int read_value(reader *r, entry fresh, int level)
{
    int nested = r->event.type == YAML_MAPPING_START_EVENT;
    if (nested && level == 0 && stk_yaml_is_section(fresh.key) && !is_foreign(r, fresh.key)) {
        int status = remember(r, fresh);
        return status ? status : read_section(r, level + 1);
    }
    if (stk_option_find(r->groups, r->n_groups, fresh.key, strlen(fresh.key), &fresh.hit))
        return read_setting(r, fresh);
    if (!is_foreign(r, fresh.key)) return unknown_key(r, fresh.key, fresh.line);
    int status = remember(r, fresh);
    return status ? status : skip_value(r);
}

/* A mapping, from its start event to its end event. */
static int read_section(reader *r, int level)
{
    int status;
    while (!(status = advance(r)) && r->event.type != YAML_MAPPING_END_EVENT) {
        entry fresh = { .line = event_line(r) };
        if (r->event.type != YAML_SCALAR_EVENT)
            return fail_at(r, fresh.line, STOKE_E_FORMAT, "the name of a setting must be a single word");
        if ((status = scalar_text(r, &fresh.key))) return status;
        if (!fresh.key)
            return fail_at(r, fresh.line, STOKE_E_FORMAT, "a value without the name of a setting");
        if ((status = advance(r)) || (status = read_value(r, fresh, level))) return status;
    }
    return status;
}

static int read_stream(reader *r)
{
    int status, documents = 0;
    while (!(status = advance(r)) && r->event.type != YAML_STREAM_END_EVENT) {
        if (r->event.type == YAML_STREAM_START_EVENT || r->event.type == YAML_DOCUMENT_END_EVENT) continue;
        if (r->event.type == YAML_DOCUMENT_START_EVENT) {
            if (documents++)
                return fail_at(r, event_line(r), STOKE_E_FORMAT,
                               "a second document starts here; one is accepted");
        } else if (r->event.type == YAML_MAPPING_START_EVENT) {
            if ((status = read_section(r, 0))) return status;
        } else {
            const char *text = "";
            if (r->event.type == YAML_SCALAR_EVENT && (status = scalar_text(r, &text))) return status;
            if (text) /* a document of nothing is fine: all defaults */
                return fail_at(r, event_line(r), STOKE_E_FORMAT, "expected settings such as `batch: 32`");
        }
    }
    return status;
}

static void apply(const reader *r)
{
    for (size_t i = 0; i < r->n_entries; i++) {
        const entry *e = &r->entries[i];
        if (!e->hit.option) continue;
        if (e->value)
            stk_option_assign(e->hit, e->key, e->value, NULL); /* was tried before: cannot fail */
        else
            stk_option_reset(e->hit);
    }
}

int stk_options_read_yaml(const stoke_option_group *groups, size_t n_groups, const char *name,
                          const void *bytes, size_t size, const char *const *foreign,
                          stoke_option_storage **storage, stoke_error *err)
{
    reader r = { .groups = groups,
                 .n_groups = n_groups,
                 .name = name,
                 .bytes = bytes,
                 .size = size,
                 .foreign = foreign,
                 .err = err };
    *storage = NULL;
    if (size > FILE_LIMIT)
        return stk_fail(err, STOKE_E_LIMIT, "%s: %zu bytes, more than a settings file may have (%d)", name,
                        size, FILE_LIMIT);
    r.storage = stk_calloc(1, sizeof *r.storage);
    if (!r.storage || !yaml_parser_initialize(&r.parser)) {
        stk_free(r.storage);
        return stk_fail(err, STOKE_E_NOMEM, "%s: out of memory", name);
    }
    yaml_parser_set_input_string(&r.parser, bytes, size);
    int status = read_stream(&r);
    if (!status) apply(&r);
    if (r.has_event) yaml_event_delete(&r.event);
    yaml_parser_delete(&r.parser);
    stk_free(r.entries);
    if (status) stoke_options_free_storage(&r.storage);
    *storage = r.storage;
    return status;
}

int stoke_options_load_yaml(const stoke_option_group *groups, size_t n_groups, const char *path,
                            const char *const *foreign, stoke_option_storage **storage, stoke_error *err)
{
    stk_buffer file = { 0 };
    size_t size = 0;
    *storage = NULL;
    int status = stk_file_read(path, FILE_LIMIT, &file, &size, err);
    if (status == STOKE_E_FORMAT) status = STOKE_OK; /* an empty file: all defaults */
    if (!status)
        status =
            stk_options_read_yaml(groups, n_groups, path, size ? file.data : "", size, foreign, storage, err);
    stk_buffer_free(&file);
    return status;
}

void stoke_options_free_storage(stoke_option_storage **storage)
{
    if (!*storage) return;
    for (string_block *block = (*storage)->strings, *next; block; block = next) {
        next = block->next;
        stk_free(block);
    }
    stk_free(*storage);
    *storage = NULL;
}
