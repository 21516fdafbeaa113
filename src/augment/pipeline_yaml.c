/* SPDX-License-Identifier: Apache-2.0
 *
 * A pipeline from YAML:
 *
 *     augment:
 *       - random_crop
 *       - hflip: {p: 0.25}
 *       - rotate: {degrees: [-10, 10]}
 *
 * or `augment: standard`, any list of pipeline_list.c. Other keys of stoke.yaml may stand beside it: one file
 * is a whole experiment, and both readers take from it what is theirs.
 *
 * Read event by event, so hostile nesting or aliases cost nothing; every complaint has its line.
 */
#include "src/augment/pipeline.h"

#include <string.h>
#include <yaml.h>

#include "src/base/error.h"
#include "src/base/options_private.h"
#include <stoke/data.h>

typedef struct reader {
    yaml_parser_t parser;
    yaml_event_t event;
    int have_event;
    const char *name;
    stk_yaml_take take;
    int found;      /* the key has been seen */
    char slip[320]; /* the first key that is none of ours, as a complaint; "" = none */
    stoke_error *err;
} reader;

static int complain(reader *r, int code, const char *what)
{
    const size_t line = r->have_event ? r->event.start_mark.line : r->parser.problem_mark.line;
    return stk_fail(r->err, code, "%s:%zu: %s", r->name, line + 1, what);
}

/* Moves to the next event. */
static int step(reader *r)
{
    if (r->have_event) yaml_event_delete(&r->event);
    r->have_event = 0;
    if (!yaml_parser_parse(&r->parser, &r->event)) {
        char what[256];
        snprintf(what, sizeof what, "not valid YAML: %.160s%s",
                 r->parser.problem ? r->parser.problem : "unknown problem", stk_yaml_hint(r->parser.problem));
        return complain(r, STOKE_E_FORMAT, what);
    }
    r->have_event = 1;
    if (r->event.type == YAML_ALIAS_EVENT)
        return complain(r, STOKE_E_FORMAT, "aliases are not accepted here");
    return STOKE_OK;
}

static int expect(reader *r, yaml_event_type_t type, const char *what)
{
    int status = step(r);
    if (status) return status;
    return r->event.type == type ? STOKE_OK : complain(r, STOKE_E_FORMAT, what);
}

static const char *scalar(const reader *r)
{
    return (const char *)r->event.data.scalar.value;
}

static size_t line_of(const reader *r)
{
    return r->event.start_mark.line + 1;
}

/* The line belongs to this file; the reason to the op. */
static int located(reader *r, size_t line, int status)
{
    if (!status) return STOKE_OK;
    char place[512];
    snprintf(place, sizeof place, "%s:%zu", r->name, line);
    stk_error_prefix(r->err, place);
    return status;
}

/* Adds the current scalar to a value's text. */
static int append(reader *r, const char *separator, char *value, size_t size)
{
    const size_t used = strlen(value);
    const size_t more = (size_t)snprintf(value + used, size - used, "%s%s", separator, scalar(r));
    return more < size - used ? STOKE_OK : complain(r, STOKE_E_LIMIT, "this value is too long");
}

/* [2, 3] inside a list is a pair: the text 2-3. */
static int read_pair(reader *r, const char *separator, char *value, size_t size)
{
    int status = STOKE_OK;
    for (int n = 0; n < 2 && !status; n++) {
        status = expect(r, YAML_SCALAR_EVENT, "expected a plain value, a list of them, or a list of pairs");
        if (!status) status = append(r, n ? "-" : separator, value, size);
    }
    return status ? status : expect(r, YAML_SEQUENCE_END_EVENT, "a pair has two values");
}

/* A setting's value: a scalar, or a list of scalars or pairs, which becomes the same text with commas. */
static int read_value(reader *r, char *value, size_t size)
{
    value[0] = 0;
    int status = step(r);
    if (status) return status;
    if (r->event.type == YAML_SCALAR_EVENT) return append(r, "", value, size);
    if (r->event.type != YAML_SEQUENCE_START_EVENT)
        return complain(r, STOKE_E_FORMAT, "expected a plain value or a list of them");
    for (int n = 0; !(status = step(r)) && r->event.type != YAML_SEQUENCE_END_EVENT; n++) {
        const char *separator = n ? "," : "";
        if (r->event.type == YAML_SCALAR_EVENT)
            status = append(r, separator, value, size);
        else if (r->event.type == YAML_SEQUENCE_START_EVENT)
            status = read_pair(r, separator, value, size);
        else
            status = complain(r, STOKE_E_FORMAT, "expected a plain value or a list of them");
        if (status) return status;
    }
    return status;
}

/* {swap: 2-3,4-5} is, to YAML, the setting swap and a second one called 4-5. */
static int is_rest_of_list(const char *key)
{
    return *key == '-' || *key == '.' || (*key >= '0' && *key <= '9');
}

/* From behind the start of the mapping to its end. */
static int read_arguments(reader *r, stoke_pipeline *pipeline)
{
    char key[64], value[1024];
    int status;
    while (!(status = step(r)) && r->event.type == YAML_SCALAR_EVENT) {
        const size_t line = line_of(r);
        snprintf(key, sizeof key, "%s", scalar(r));
        if (is_rest_of_list(key))
            return complain(r, STOKE_E_FORMAT,
                            "a value with commas is written in brackets or quotes, e.g. [2-3, 4-5]");
        status = read_value(r, value, sizeof value);
        if (!status) status = located(r, line, stk_pipeline_set(pipeline, key, value, r->err));
        if (status) return status;
    }
    if (!status && r->event.type != YAML_MAPPING_END_EVENT)
        status = complain(r, STOKE_E_FORMAT, "expected a setting's name");
    return status;
}

/* What follows "- hflip:" up to the end of the item: settings, or nothing, which are the defaults. */
static int read_item(reader *r, stoke_pipeline *pipeline)
{
    char what[160];
    int status = step(r);
    if (status) return status;
    const int nothing = r->event.type == YAML_SCALAR_EVENT && !*scalar(r);
    if (!nothing && r->event.type != YAML_MAPPING_START_EVENT)
        return complain(r, STOKE_E_FORMAT, "expected the op's settings, e.g. {p: 0.5}");
    if (!nothing) status = read_arguments(r, pipeline);
    if (!status) status = step(r);
    if (status || r->event.type == YAML_MAPPING_END_EVENT) return status;
    if (!nothing || r->event.type != YAML_SCALAR_EVENT)
        return complain(r, STOKE_E_FORMAT, "one op per list item");
    snprintf(what, sizeof what, "indent \"%.40s\" deeper than the name of the op it belongs to", scalar(r));
    return complain(r, STOKE_E_FORMAT, what);
}

static int read_op(reader *r, stoke_pipeline *pipeline)
{
    const size_t line = line_of(r);
    /* To YAML a line that is indented deeper goes on with the word before: "hflip - vflip". */
    if (r->event.type == YAML_SCALAR_EVENT && strstr(scalar(r), " - "))
        return complain(r, STOKE_E_FORMAT, "this item and the next do not begin in the same column");
    if (r->event.type == YAML_SCALAR_EVENT)
        return located(r, line, stk_pipeline_add_name(pipeline, scalar(r), r->err));
    if (r->event.type != YAML_MAPPING_START_EVENT)
        return complain(r, STOKE_E_FORMAT, "expected an op: \"- hflip\" or \"- hflip: {p: 0.5}\"");
    int status = expect(r, YAML_SCALAR_EVENT, "expected the op's name");
    if (!status) status = located(r, line_of(r), stk_pipeline_add(pipeline, scalar(r), r->err));
    if (!status) status = read_item(r, pipeline);
    return status ? status : located(r, line, stk_pipeline_close(pipeline, r->err));
}

/* Passes over the value that begins at the current event. */
static int skip_value(reader *r)
{
    for (size_t depth = 0;;) {
        const yaml_event_type_t type = r->event.type;
        depth += type == YAML_MAPPING_START_EVENT || type == YAML_SEQUENCE_START_EVENT;
        depth -= type == YAML_MAPPING_END_EVENT || type == YAML_SEQUENCE_END_EVENT;
        if (!depth) return STOKE_OK;
        int status = step(r);
        if (status) return status;
    }
}

static int read_augment(reader *r, stoke_pipeline *pipeline, size_t key_line)
{
    int status = STOKE_OK;
    if (r->found++) return located(r, key_line, stk_fail(r->err, STOKE_E_INVALID, "augment is given twice"));
    if (r->event.type == YAML_SCALAR_EVENT) {
        if (r->take == STK_YAML_LISTS) return STOKE_OK;
        if (!*scalar(r)) return complain(r, STOKE_E_FORMAT, "expected a list of ops or the name of a preset");
        if (stk_pipeline_is_file(scalar(r)))
            return complain(r, STOKE_E_FORMAT, "a file of ops cannot name another file");
        return located(r, line_of(r), stk_pipeline_read_list(pipeline, scalar(r), r->err));
    }
    if (r->event.type != YAML_SEQUENCE_START_EVENT)
        return complain(r, STOKE_E_FORMAT, "expected a list of ops: each begins with \"- \"");
    while (!status && !(status = step(r)) && r->event.type != YAML_SEQUENCE_END_EVENT)
        status = read_op(r, pipeline);
    return status;
}

/* Keys of others may stand beside ours (those of training do). One that is not the data path's is kept in
 * mind: where `augment` is missing, it is the slip (augmnet:). */
static void note_key(reader *r, const char *key)
{
    stoke_data_params params;
    const stoke_option_group group = stoke_data_options(&params);
    stk_option_hit hit;
    if (*r->slip || stk_yaml_is_section(key) || stk_option_find(&group, 1, key, strlen(key), &hit)) return;
    const char *near = stk_option_nearest(&group, 1, key);
    snprintf(r->slip, sizeof r->slip,
             near ? "%zu: unknown setting '%.80s': did you mean %s?" : "%zu: unknown setting '%.80s'",
             line_of(r), key, near);
}

/* A mapping of settings, from behind its start to its end. Sections stand at level 0 only. */
static int read_settings(reader *r, stoke_pipeline *pipeline, int level)
{
    char key[64];
    int status;
    while (!(status = step(r)) && r->event.type == YAML_SCALAR_EVENT) {
        const size_t line = line_of(r);
        snprintf(key, sizeof key, "%s", scalar(r));
        note_key(r, key);
        status = step(r);
        if (status) return status;
        const int section = !level && r->event.type == YAML_MAPPING_START_EVENT && stk_yaml_is_section(key);
        status = strcmp(key, "augment") == 0 ? read_augment(r, pipeline, line)
                 : section                   ? read_settings(r, pipeline, level + 1)
                                             : skip_value(r);
        if (status) return status;
    }
    if (!status && r->event.type != YAML_MAPPING_END_EVENT)
        status = complain(r, STOKE_E_FORMAT, "expected the name of a setting");
    return status;
}

static int read_document(reader *r, stoke_pipeline *pipeline)
{
    int status = expect(r, YAML_STREAM_START_EVENT, "not YAML");
    if (!status) status = expect(r, YAML_DOCUMENT_START_EVENT, "empty file");
    if (!status) status = expect(r, YAML_MAPPING_START_EVENT, "expected \"augment:\" and a list of ops");
    /* Settings of nothing but comments are all defaults. */
    if (status && r->have_event && r->take == STK_YAML_LISTS) return STOKE_OK;
    return status ? status : read_settings(r, pipeline, 0);
}

int stk_pipeline_read_yaml(stoke_pipeline *pipeline, const char *name, const void *bytes, size_t size,
                           stk_yaml_take take, stoke_error *err)
{
    stoke_error local;
    reader r = { .name = name, .take = take, .err = err ? err : &local };
    if (!yaml_parser_initialize(&r.parser)) return stk_fail(err, STOKE_E_NOMEM, "%s: no memory", name);
    yaml_parser_set_input_string(&r.parser, bytes, size);
    int status = read_document(&r, pipeline);
    if (!status && !r.found && take == STK_YAML_ALL)
        status = *r.slip ? stk_fail(err, STOKE_E_NOTFOUND, "%s:%s", name, r.slip)
                         : stk_fail(err, STOKE_E_FORMAT, "%s: no key \"augment\" with a list of ops", name);
    if (r.have_event) yaml_event_delete(&r.event);
    yaml_parser_delete(&r.parser);
    return status;
}
