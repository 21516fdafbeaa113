/* SPDX-License-Identifier: Apache-2.0
 *
 * A pipeline from one line:
 *
 *     random_crop,hflip(p=0.3,swap=2-3,4-5),rotate(degrees=-10..10)
 *
 * Blanks may stand around names and values. A value ends at the next "name=" or at the bracket, so lists need
 * no quotes.
 */
#include "src/augment/pipeline.h"

#include <string.h>

#include "src/base/error.h"

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
static int read_settings(stoke_pipeline *pipeline, const char **at, stoke_error *err)
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

static int read_op(stoke_pipeline *pipeline, const char **at, stoke_error *err)
{
    char name[WORD];
    const char *end = *at + strcspn(*at, ",()");
    if (!copy(name, sizeof name, *at, end)) return too_long("an op's name", *at, err);
    if (!*name) return stk_fail(err, STOKE_E_FORMAT, "expected an op at \"%.40s\"", **at ? *at : "the end");
    *at = end;
    if (*end != '(') return stk_pipeline_add_name(pipeline, name, err);
    (*at)++;
    int r = stk_pipeline_add(pipeline, name, err);
    if (!r) r = read_settings(pipeline, at, err);
    if (!r) r = stk_pipeline_close(pipeline, err);
    *at = skip_blanks(*at);
    return r;
}

int stk_pipeline_read_list(stoke_pipeline *pipeline, const char *list, stoke_error *err)
{
    const char *p = skip_blanks(list);
    if (!*p) return STOKE_OK;
    for (;;) {
        int r = read_op(pipeline, &p, err);
        if (r) return r;
        if (!*p) return STOKE_OK;
        if (*p != ',') return stk_fail(err, STOKE_E_FORMAT, "expected a comma at \"%.40s\"", p);
        p++;
    }
}
