/* SPDX-License-Identifier: Apache-2.0
 *
 * Label maps from text: lists of values and files of colours.
 */
#include "src/source/labels_internal.h"

#include <stdio.h>
#include <string.h>

#include "src/base/error.h"
#include "src/base/mem.h"

/* A piece of text that is being read. */
typedef struct reader {
    const char *at, *end;
} reader;

static int is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static void skip_spaces(reader *r)
{
    while (r->at < r->end && is_space(*r->at)) r->at++;
}

/* A decimal number up to `most`; 0 when there is none. */
static int read_number(reader *r, uint32_t most, uint32_t *value)
{
    const char *p = r->at;
    uint64_t v = 0;
    for (; p < r->end && *p >= '0' && *p <= '9'; p++) {
        v = v * 10 + (uint64_t)(*p - '0');
        if (v > most) return 0;
    }
    if (p == r->at) return 0;
    r->at = p;
    *value = (uint32_t)v;
    return 1;
}

static int read_word(reader *r, const char *word)
{
    size_t n = strlen(word);
    if ((size_t)(r->end - r->at) < n || memcmp(r->at, word, n) != 0) return 0;
    r->at += n;
    return 1;
}

/* A class id or `ignore`, checked against the settings. *reason says what is wrong. */
static int read_id(const stoke_labels *labels, reader *r, uint32_t *id, const char **reason)
{
    if (read_word(r, "ignore")) {
        *id = (uint32_t)labels->ignore;
        *reason = "`ignore` needs an ignore_index";
        return labels->ignore >= 0;
    }
    *reason = "a class id from 0 to 65535 or `ignore` is expected";
    if (!read_number(r, STK_LABEL_VALUES - 1, id)) return 0;
    *reason = "the class id is not below `classes`";
    return !labels->classes || *id < labels->classes || (int64_t)*id == labels->ignore;
}

static void note_id(stoke_labels *labels, uint32_t id)
{
    if (id > labels->largest) labels->largest = id;
}

/* One `value:id`; value *is_rest for `*`, which alone leaves the rest as it is. */
static int read_rule(stoke_labels *labels, reader *r, uint32_t *value, uint32_t *id, int *is_rest,
                     const char **reason)
{
    skip_spaces(r);
    *is_rest = read_word(r, "*");
    *reason = "a mask value from 0 to 65535 or `*` is expected";
    if (!*is_rest && !read_number(r, STK_LABEL_VALUES - 1, value)) return 0;
    skip_spaces(r);
    if (*is_rest && (r->at == r->end || *r->at == ',')) {
        *id = STK_LABEL_BAD;
        r->at += r->at < r->end;
        return 1;
    }
    *reason = "`:` is expected";
    if (!read_word(r, ":")) return 0;
    skip_spaces(r);
    if (!read_id(labels, r, id, reason)) return 0;
    skip_spaces(r);
    *reason = "`,` is expected";
    return r->at == r->end || read_word(r, ",");
}

int stk_labels_parse_values(stoke_labels *labels, const char *spec, stoke_error *err)
{
    labels->kind = STK_LABELS_VALUES;
    const int made = stk_labels_table(labels, err);
    if (made) return made;
    reader r = { spec, spec + strlen(spec) };
    uint32_t rest = STK_LABEL_BAD;
    while (r.at < r.end) {
        const char *start = r.at, *reason;
        uint32_t value = 0, id = 0;
        int is_rest, good = read_rule(labels, &r, &value, &id, &is_rest, &reason);
        uint32_t *target = is_rest ? &rest : &labels->table[value];
        if (good && (*target != STK_LABEL_BAD || (is_rest && labels->keeps)))
            good = 0, reason = "the value is already mapped";
        if (!good) return stk_fail(err, STOKE_E_INVALID, "label_map: %s at `%.40s`", reason, start);
        *target = id;
        if (is_rest && id == STK_LABEL_BAD)
            labels->keeps = 1;
        else
            note_id(labels, id);
    }
    if (labels->keeps) stk_labels_keep_rest(labels);
    /* The rest; and what is ignored on disk stays ignored unless the list says otherwise. */
    if (labels->ignore >= 0 && labels->table[labels->ignore] == STK_LABEL_BAD && rest == STK_LABEL_BAD)
        labels->table[labels->ignore] = (uint32_t)labels->ignore;
    for (size_t i = 0; rest != STK_LABEL_BAD && i < STK_LABEL_VALUES; i++)
        if (labels->table[i] == STK_LABEL_BAD) labels->table[i] = rest;
    return STOKE_OK;
}

/* ---- colours ---- */

static int grow_colors(stoke_labels *labels, stoke_error *err)
{
    stoke_labels larger = { .color_slots = labels->color_slots ? labels->color_slots * 2 : 64 };
    larger.colors = stk_alloc(larger.color_slots * sizeof *larger.colors);
    if (!larger.colors) return stk_fail(err, STOKE_E_NOMEM, "no memory for the colour table");
    for (size_t i = 0; i < larger.color_slots; i++) larger.colors[i] = (stk_label_color){ STK_COLOR_FREE, 0 };
    for (size_t i = 0; i < labels->color_slots; i++)
        if (labels->colors[i].rgb != STK_COLOR_FREE)
            larger.colors[stk_color_slot(&larger, labels->colors[i].rgb)] = labels->colors[i];
    stk_free(labels->colors);
    labels->colors = larger.colors;
    labels->color_slots = larger.color_slots;
    return STOKE_OK;
}

int stk_labels_set_name(stoke_labels *labels, uint32_t id, const char *name, size_t length,
                        const char *origin, stoke_error *err)
{
    const char *wrong = length > 255 ? "is longer than 255 bytes" : NULL;
    for (size_t i = 0; !wrong && i < length; i++)
        if ((unsigned char)name[i] < 0x20 || name[i] == 0x7f) wrong = "has a control character";
    if (wrong) return stk_fail(err, STOKE_E_INVALID, "%s: the name of class %u %s", origin, id, wrong);
    if (!length) return STOKE_OK;
    size_t before = labels->n_names;
    if (!stk_grow((void **)&labels->names, &labels->n_names, (size_t)id + 1, sizeof *labels->names))
        return stk_fail(err, STOKE_E_NOMEM, "no memory for class names");
    for (size_t i = before; i < labels->n_names; i++) labels->names[i] = NULL;
    if (labels->names[id]) return STOKE_OK; /* several colours of one class: the first name stands */
    labels->names[id] = stk_string_arena_copy(&labels->arena, name, length);
    return labels->names[id] ? STOKE_OK : stk_fail(err, STOKE_E_NOMEM, "no memory for class names");
}

static void skip_separators(reader *r)
{
    while (r->at < r->end && (is_space(*r->at) || *r->at == ',')) r->at++;
}

static int at_separator(const reader *r)
{
    return r->at == r->end || is_space(*r->at) || *r->at == ',';
}

typedef struct color_line {
    uint32_t rgb, id;
    const char *name;
    size_t name_length;
} color_line;

/* `R G B [id] [name]`; color->id holds the default. NULL or what is wrong. */
static const char *read_color(const stoke_labels *labels, reader r, color_line *color)
{
    uint32_t part[3];
    for (int i = 0; i < 3; i++) {
        skip_separators(&r);
        if (!read_number(&r, 255, &part[i]) || !at_separator(&r))
            return "three numbers from 0 to 255 are expected";
    }
    color->rgb = part[0] << 16 | part[1] << 8 | part[2];
    skip_separators(&r);
    /* A fourth word that is neither a number nor `ignore` starts the name: `128 0 0 car`. */
    const char *reason = NULL;
    reader id = r;
    uint32_t value;
    int numeric = r.at < r.end && *r.at >= '0' && *r.at <= '9';
    int valid = read_id(labels, &id, &value, &reason), whole = id.at > r.at && at_separator(&id);
    if (valid && whole)
        color->id = value, r = id;
    else if (whole)
        return reason;
    else if (numeric)
        return "a class id from 0 to 65535 is expected";
    else if (labels->classes && color->id >= labels->classes)
        return "more lines than `classes`";
    skip_separators(&r);
    while (r.end > r.at && is_space(r.end[-1])) r.end--;
    color->name = r.at;
    color->name_length = (size_t)(r.end - r.at);
    return NULL;
}

static int add_color(stoke_labels *labels, const char *origin, unsigned long long line,
                     const color_line *color, stoke_error *err)
{
    if (2 * (labels->n_colors + 1) > labels->color_slots && grow_colors(labels, err) != STOKE_OK)
        return STOKE_E_NOMEM;
    stk_label_color *slot = &labels->colors[stk_color_slot(labels, color->rgb)];
    if (slot->rgb != STK_COLOR_FREE)
        return stk_fail(err, STOKE_E_INVALID, "%s:%llu: colour %u %u %u is already in the table", origin,
                        line, color->rgb >> 16, color->rgb >> 8 & 255, color->rgb & 255);
    *slot = (stk_label_color){ color->rgb, color->id };
    labels->n_colors++;
    note_id(labels, color->id);
    char where[4200];
    snprintf(where, sizeof where, "%.4096s:%llu", origin, line);
    return stk_labels_set_name(labels, color->id, color->name, color->name_length, where, err);
}

int stk_labels_parse_colors(stoke_labels *labels, const char *origin, const void *bytes, size_t size,
                            stoke_error *err)
{
    labels->kind = STK_LABELS_COLORS;
    const char *at = bytes, *end = at + size;
    if (size >= 3 && memcmp(at, "\xef\xbb\xbf", 3) == 0) at += 3;
    uint32_t entries = 0;
    for (unsigned long long line = 1; at < end; line++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        if (!stop) stop = end;
        const char *comment = memchr(at, '#', (size_t)(stop - at));
        reader r = { at, comment ? comment : stop };
        at = stop < end ? stop + 1 : end;
        skip_spaces(&r);
        if (r.at == r.end) continue;
        color_line color = { .id = entries };
        const char *wrong =
            entries >= STK_LABEL_VALUES ? "more than 65536 colours" : read_color(labels, r, &color);
        if (wrong) return stk_fail(err, STOKE_E_INVALID, "%s:%llu: %s", origin, line, wrong);
        int status = add_color(labels, origin, line, &color, err);
        if (status != STOKE_OK) return status;
        entries++;
    }
    return entries ? STOKE_OK : stk_fail(err, STOKE_E_INVALID, "%s: no colour in it", origin);
}
