/* SPDX-License-Identifier: Apache-2.0
 *
 * A pipeline from YAML:
 *
 *     augment:
 *       - random_crop
 *       - hflip: {p: 0.25}
 *       - rotate: {degrees: [-10, 10]}
 *
 * Read event by event, so hostile nesting or aliases cost nothing; every complaint has its line.
 */
#include "src/augment/pipeline.h"

#include <string.h>
#include <yaml.h>

#include "src/base/error.h"

typedef struct reader {
    yaml_parser_t parser;
    yaml_event_t event;
    int have_event;
    const char *name;
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
    if (!yaml_parser_parse(&r->parser, &r->event))
        return complain(r, STOKE_E_FORMAT, r->parser.problem ? r->parser.problem : "not YAML");
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

/* A setting's value: a scalar, or a flow of scalars, which becomes the same text with commas. */
static int read_value(reader *r, char *value, size_t size)
{
    int status = step(r);
    if (status) return status;
    const int list = r->event.type == YAML_SEQUENCE_START_EVENT;
    size_t used = 0;
    value[0] = 0;
    if (list) status = step(r);
    for (int n = 0; !status && r->event.type == YAML_SCALAR_EVENT; n++) {
        used += (size_t)snprintf(value + used, size - used, "%s%s", n ? "," : "", scalar(r));
        if (used >= size) return complain(r, STOKE_E_LIMIT, "this value is too long");
        if (!list) return STOKE_OK;
        status = step(r);
    }
    if (status) return status;
    return list && r->event.type == YAML_SEQUENCE_END_EVENT
               ? STOKE_OK
               : complain(r, STOKE_E_FORMAT, "expected a plain value or a list of them");
}

static int read_arguments(reader *r, stoke_pipeline *pipeline)
{
    char key[64], value[1024];
    int status = expect(r, YAML_MAPPING_START_EVENT, "expected the op's settings, e.g. {p: 0.5}");
    while (!status && !(status = step(r)) && r->event.type == YAML_SCALAR_EVENT) {
        const size_t line = line_of(r);
        snprintf(key, sizeof key, "%s", scalar(r));
        status = read_value(r, value, sizeof value);
        if (!status) status = located(r, line, stk_pipeline_set(pipeline, key, value, r->err));
    }
    if (!status && r->event.type != YAML_MAPPING_END_EVENT)
        status = complain(r, STOKE_E_FORMAT, "expected a setting's name");
    return status;
}

static int read_op(reader *r, stoke_pipeline *pipeline)
{
    const size_t line = line_of(r);
    if (r->event.type == YAML_SCALAR_EVENT)
        return located(r, line, stk_pipeline_add_name(pipeline, scalar(r), r->err));
    if (r->event.type != YAML_MAPPING_START_EVENT)
        return complain(r, STOKE_E_FORMAT, "expected an op: \"- hflip\" or \"- hflip: {p: 0.5}\"");
    int status = expect(r, YAML_SCALAR_EVENT, "expected the op's name");
    if (!status) status = located(r, line_of(r), stk_pipeline_add(pipeline, scalar(r), r->err));
    if (!status) status = read_arguments(r, pipeline);
    if (!status) status = located(r, line, stk_pipeline_close(pipeline, r->err));
    if (!status) status = expect(r, YAML_MAPPING_END_EVENT, "one op per list item");
    return status;
}

static int read_document(reader *r, stoke_pipeline *pipeline)
{
    int status = expect(r, YAML_STREAM_START_EVENT, "not YAML");
    if (!status) status = expect(r, YAML_DOCUMENT_START_EVENT, "empty file");
    if (!status) status = expect(r, YAML_MAPPING_START_EVENT, "expected \"augment:\" and a list of ops");
    if (!status) status = expect(r, YAML_SCALAR_EVENT, "expected the key \"augment\"");
    if (!status && strcmp(scalar(r), "augment") != 0)
        status = complain(r, STOKE_E_FORMAT, "the only key here is \"augment\"");
    if (!status) status = expect(r, YAML_SEQUENCE_START_EVENT, "expected a list of ops");
    while (!status && !(status = step(r)) && r->event.type != YAML_SEQUENCE_END_EVENT)
        status = read_op(r, pipeline);
    if (!status) status = expect(r, YAML_MAPPING_END_EVENT, "the only key here is \"augment\"");
    return status;
}

int stk_pipeline_read_yaml(stoke_pipeline *pipeline, const char *name, const void *bytes, size_t size,
                           stoke_error *err)
{
    stoke_error local;
    reader r = { .name = name, .err = err ? err : &local };
    if (!yaml_parser_initialize(&r.parser)) return stk_fail(err, STOKE_E_NOMEM, "%s: no memory", name);
    yaml_parser_set_input_string(&r.parser, bytes, size);
    int status = read_document(&r, pipeline);
    if (r.have_event) yaml_event_delete(&r.event);
    yaml_parser_delete(&r.parser);
    return status;
}
