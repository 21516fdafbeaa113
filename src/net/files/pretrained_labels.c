/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of classes: "id2label" of config.json in, and with "label2id" out again.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/base/retry.h"
#include "src/base/utf8.h"
#include "src/net/files/pretrained.h"

char **stk_pretrained_copy_labels(const char *const *names, uint32_t classes)
{
    enum { MADE = 18 }; /* bytes of LABEL_4294967295 and less */
    size_t bytes = classes * sizeof(char *);
    for (uint32_t i = 0; i < classes; i++) bytes += names[i] ? strlen(names[i]) + 1 : MADE;
    char **list = stk_alloc(bytes), *text = (char *)(list + classes);
    for (uint32_t i = 0; list && i < classes; i++) {
        list[i] = text;
        if (names[i])
            text = stpcpy(text, names[i]) + 1;
        else
            text += snprintf(text, MADE, "LABEL_%u", (unsigned)i) + 1;
    }
    return list;
}

/* The list in one block: pointers, then what they point at. */
static int read_labels(const stk_json *json, const stk_json_value *names, uint32_t classes, char ***labels)
{
    size_t bytes = classes * sizeof(char *);
    for (const stk_json_value *v = stk_json_first(json, names); v; v = stk_json_next(json, v)) {
        if (v->kind != STK_JSON_STRING) return STOKE_OK;
        bytes += strlen(stk_json_text(json, v)) + 1;
    }
    char **list = stk_calloc(1, bytes), *text = (char *)(list + classes);
    if (!list) return STOKE_E_NOMEM;
    for (const stk_json_value *v = stk_json_first(json, names); v; v = stk_json_next(json, v)) {
        char *end;
        const unsigned long long index = strtoull(stk_json_key(json, v), &end, 10);
        if (*end || index >= classes || list[index]) break;
        list[index] = text;
        text = stpcpy(text, stk_json_text(json, v)) + 1;
    }
    int all = 1;
    for (uint32_t i = 0; i < classes; i++) all &= list[i] != NULL;
    if (all)
        *labels = list;
    else
        stk_free(list);
    return STOKE_OK;
}

int stk_pretrained_labels(const char *folder, uint32_t classes, char ***labels, stoke_error *err)
{
    stk_json json = { 0 };
    char *path = stk_pretrained_path(folder, "config.json");
    *labels = NULL;
    if (!path) return stk_fail(err, STOKE_E_NOMEM, "%s: no memory", folder);
    int status = STOKE_OK;
    if (stk_there(path)) status = stk_pretrained_json(path, &json, err);
    const stk_json_value *names = json.values ? stk_json_find(&json, &json.values[0], "id2label") : NULL;
    if (!status && names && names->kind == STK_JSON_OBJECT && names->count == classes &&
        read_labels(&json, names, classes, labels))
        status = stk_fail(err, STOKE_E_NOMEM, "%s: no memory for the names of %u classes", path, classes);
    stk_json_free(&json);
    stk_free(path);
    return status;
}

/* A class and its name. */
typedef struct label {
    const char *name;
    uint32_t index;
} label;

static int by_name(const void *a, const void *b)
{
    const label *x = a, *y = b;
    const int order = strcmp(x->name, y->name);
    return order ? order : (x->index > y->index) - (x->index < y->index);
}

/* Bytes that are no UTF-8 become U+FFFD: Python reads no JSON with them in it. */
static void write_text(FILE *out, const char *text)
{
    fputc('"', out);
    while (*text) {
        const char *from = text;
        const uint32_t code = stk_utf8_next(&text);
        if (code < 0x20 || (code == STK_UTF8_BAD && text - from == 1))
            fprintf(out, "\\u%04x", (unsigned)code);
        else if (code == '"' || code == '\\')
            fprintf(out, "\\%c", (int)code);
        else
            fwrite(from, 1, (size_t)(text - from), out);
    }
    fputc('"', out);
}

static void write_named(FILE *out, char *const *labels, label *sorted, uint32_t classes)
{
    fputs("  \"id2label\": {", out);
    for (uint32_t i = 0; i < classes; i++) {
        fprintf(out, "%s\n    \"%u\": ", i ? "," : "", i);
        write_text(out, labels[i]);
        sorted[i] = (label){ labels[i], i };
    }
    fputs("\n  },\n  \"label2id\": {", out);
    qsort(sorted, classes, sizeof *sorted, by_name);
    for (uint32_t i = 0, first = 1; i < classes; i++) {
        /* Of classes with the same name the last, as a dict of Python: no key stands twice. */
        if (i + 1 < classes && strcmp(sorted[i].name, sorted[i + 1].name) == 0) continue;
        fputs(first ? "\n    " : ",\n    ", out);
        write_text(out, sorted[i].name);
        fprintf(out, ": %u", sorted[i].index);
        first = 0;
    }
    fputs("\n  },\n", out);
}

/* Without any, transformers believes in two classes; LABEL_0 and so on is what it calls those it knows no
 * name of. */
int stk_pretrained_write_labels(FILE *out, char *const *labels, uint32_t classes)
{
    if (labels) {
        label *sorted = stk_alloc(classes * sizeof *sorted);
        if (!sorted) return STOKE_E_NOMEM;
        write_named(out, labels, sorted, classes);
        stk_free(sorted);
        return STOKE_OK;
    }
    fputs("  \"id2label\": {", out);
    for (uint32_t i = 0; i < classes; i++) fprintf(out, "%s\n    \"%u\": \"LABEL_%u\"", i ? "," : "", i, i);
    fputs("\n  },\n  \"label2id\": {", out);
    for (uint32_t i = 0; i < classes; i++) fprintf(out, "%s\n    \"LABEL_%u\": %u", i ? "," : "", i, i);
    fputs("\n  },\n", out);
    return STOKE_OK;
}
