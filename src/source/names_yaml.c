/* SPDX-License-Identifier: Apache-2.0
 *
 * The key `names` of a YAML file that is not ours: everything else in it is passed over. Event by event, so
 * hostile nesting and aliases cost nothing.
 */
#include "src/source/names.h"

#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "src/base/error.h"

typedef struct reader {
    yaml_parser_t parser;
    yaml_event_t event;
    int has_event;
    const char *origin;
    stoke_labels *labels;
    stoke_error *err;
} reader;

static int complain(const reader *r, const char *what)
{
    const size_t line = r->has_event ? r->event.start_mark.line : r->parser.problem_mark.line;
    return stk_fail(r->err, STOKE_E_FORMAT, "%s:%zu: %s", r->origin, line + 1, what);
}

static int advance(reader *r)
{
    if (r->has_event) yaml_event_delete(&r->event);
    r->has_event = yaml_parser_parse(&r->parser, &r->event) != 0;
    return r->has_event ? STOKE_OK : complain(r, "not valid YAML");
}

/* Past the value that begins at the current event. */
static int skip(reader *r)
{
    uint64_t depth = 0;
    for (;;) {
        const yaml_event_type_t type = r->event.type;
        depth += type == YAML_MAPPING_START_EVENT || type == YAML_SEQUENCE_START_EVENT;
        depth -= type == YAML_MAPPING_END_EVENT || type == YAML_SEQUENCE_END_EVENT;
        if (!depth) return STOKE_OK;
        const int status = advance(r);
        if (status) return status;
    }
}

static int take_name(reader *r, uint32_t id)
{
    if (r->event.type != YAML_SCALAR_EVENT) return complain(r, "names: a name is expected");
    return stk_labels_set_name(r->labels, id, (const char *)r->event.data.scalar.value,
                               r->event.data.scalar.length, r->origin, r->err);
}

static int take_id(const reader *r, uint32_t *id)
{
    char *end = NULL;
    const char *text = (const char *)r->event.data.scalar.value;
    if (r->event.type != YAML_SCALAR_EVENT || *text < '0' || *text > '9' || r->event.data.scalar.length > 5)
        return complain(r, "names: the id of a class is expected, 0 to 65535");
    *id = (uint32_t)strtoul(text, &end, 10);
    return !*end && *id < STK_LABEL_VALUES ? STOKE_OK : complain(r, "names: the id of a class is expected");
}

static int take_names(reader *r)
{
    const yaml_event_type_t type = r->event.type;
    uint32_t id = 0;
    int status;
    if (type != YAML_SEQUENCE_START_EVENT && type != YAML_MAPPING_START_EVENT)
        return complain(r, "names: a list of names is expected, or names by id");
    while (!(status = advance(r)) && r->event.type != YAML_SEQUENCE_END_EVENT &&
           r->event.type != YAML_MAPPING_END_EVENT) {
        if (type == YAML_MAPPING_START_EVENT) {
            status = take_id(r, &id);
            if (!status) status = advance(r);
        }
        if (!status && id >= STK_LABEL_VALUES) status = complain(r, "names: more than 65536");
        if (!status) status = take_name(r, id);
        if (status) return status;
        id++;
    }
    return status;
}

static int read_top(reader *r, int *found)
{
    int status;
    while (!(status = advance(r)) && r->event.type != YAML_MAPPING_END_EVENT) {
        const int ours =
            r->event.type == YAML_SCALAR_EVENT && !strcmp((const char *)r->event.data.scalar.value, "names");
        if ((status = skip(r)) || (status = advance(r))) return status; /* the key; to its value */
        status = ours && !*found ? take_names(r) : skip(r);
        if (status) return status;
        *found |= ours;
    }
    return status;
}

int stk_names_parse_yaml(stoke_labels *labels, const char *origin, const void *bytes, size_t size,
                         stoke_error *err)
{
    reader r = { .origin = origin, .labels = labels, .err = err };
    int found = 0, status = STOKE_OK;
    if (!yaml_parser_initialize(&r.parser)) return stk_fail(err, STOKE_E_NOMEM, "%s: out of memory", origin);
    yaml_parser_set_input_string(&r.parser, bytes, size);
    do {
        status = advance(&r);
        if (!status && r.event.type == YAML_MAPPING_START_EVENT) {
            status = read_top(&r, &found);
            break; /* one document is enough */
        }
    } while (!status && r.event.type != YAML_STREAM_END_EVENT && r.event.type != YAML_SEQUENCE_START_EVENT);
    if (!status && !found) status = stk_fail(err, STOKE_E_FORMAT, "%s: no key `names` in it", origin);
    if (r.has_event) yaml_event_delete(&r.event);
    yaml_parser_delete(&r.parser);
    return status;
}
