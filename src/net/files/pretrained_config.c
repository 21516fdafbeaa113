/* SPDX-License-Identifier: Apache-2.0
 *
 * Which network a file holds, and the names of its classes: what config.json says.
 */
#include "src/net/files/pretrained.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/base/retry.h"
#include "src/base/utf8.h"

/* ---- names of classes ---- */

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
    if (stoke_there(path)) status = stk_pretrained_json(path, &json, err);
    const stk_json_value *names = json.values ? stk_json_find(&json, &json.values[0], "id2label") : NULL;
    if (!status && names && names->kind == STK_JSON_OBJECT && names->count == classes &&
        read_labels(&json, names, classes, labels))
        status = stk_fail(err, STOKE_E_NOMEM, "%s: no memory for the names of %u classes", path, classes);
    stk_json_free(&json);
    stk_free(path);
    return status;
}

/* A class and its name. */
typedef struct numbered {
    const char *name;
    uint32_t index;
} numbered;

static int by_name(const void *a, const void *b)
{
    const numbered *x = a, *y = b;
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

static void write_named(FILE *out, char *const *labels, numbered *sorted, uint32_t classes)
{
    fputs("  \"id2label\": {", out);
    for (uint32_t i = 0; i < classes; i++) {
        fprintf(out, "%s\n    \"%u\": ", i ? "," : "", i);
        write_text(out, labels[i]);
        sorted[i] = (numbered){ labels[i], i };
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
        numbered *sorted = stk_alloc(classes * sizeof *sorted);
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

/* ---- config.json ---- */

const stk_json_value *stk_config_field(const stk_config_json *r, const char *key)
{
    const stk_json_value *v = stk_json_find(r->json, &r->json->values[0], key);
    return v && v->kind != STK_JSON_NULL ? v : NULL; /* null: the default, which is what is computed here */
}

/* A value as the file has it, as far as it fits: "[8, 4, 2, 2]". */
const char *stk_config_text(const stk_config_json *r, const stk_json_value *v,
                            char text[static STK_CONFIG_TEXT])
{
    static const char *const kinds[] = { [STK_JSON_NULL] = "null",
                                         [STK_JSON_FALSE] = "false",
                                         [STK_JSON_TRUE] = "true",
                                         [STK_JSON_ARRAY] = "an array",
                                         [STK_JSON_OBJECT] = "an object" };
    if (v->kind == STK_JSON_NUMBER || v->kind == STK_JSON_STRING) {
        snprintf(text, STK_CONFIG_TEXT, "%.100s", stk_json_text(r->json, v));
        return text;
    }
    if (v->kind != STK_JSON_ARRAY || !v->count || v->count > 8) return kinds[v->kind];
    size_t used = 0;
    for (const stk_json_value *i = stk_json_first(r->json, v); i && used < STK_CONFIG_TEXT;
         i = stk_json_next(r->json, i)) {
        const char *number = i->kind == STK_JSON_NUMBER ? stk_json_text(r->json, i) : "?";
        used += (size_t)snprintf(text + used, STK_CONFIG_TEXT - used, "%s%.12s", used ? ", " : "[", number);
    }
    if (used < STK_CONFIG_TEXT) snprintf(text + used, STK_CONFIG_TEXT - used, "]");
    return text;
}

int stk_config_expect_text(const stk_config_json *r, const char *key, const char *wanted)
{
    const stk_json_value *v = stk_config_field(r, key);
    if (!v || (v->kind == STK_JSON_STRING && strcmp(stk_json_text(r->json, v), wanted) == 0)) return STOKE_OK;
    char found[STK_CONFIG_TEXT];
    return stk_fail(r->err, STOKE_E_UNSUPPORTED, "%s: \"%s\" is %s: only \"%s\" is computed here", r->path,
                    key, stk_config_text(r, v, found), wanted);
}

int stk_config_expect_number(const stk_config_json *r, const char *key, double wanted)
{
    const stk_json_value *v = stk_config_field(r, key);
    double value;
    if (!v || (stk_json_real(r->json, v, &value) && value == wanted)) return STOKE_OK;
    char found[STK_CONFIG_TEXT];
    return stk_fail(r->err, STOKE_E_UNSUPPORTED, "%s: \"%s\" is %s: only %g is computed here", r->path, key,
                    stk_config_text(r, v, found), wanted);
}

static int find_network(void *context, const stk_safetensors *file, const stk_safetensors_tensor *tensor,
                        stoke_error *err)
{
    (void)file, (void)err;
    const stk_network **found = context;
    if (!*found) *found = stk_network_of_tensor(tensor->name);
    return STOKE_OK;
}

/* STOKE_E_NOTFOUND: there is none, or the path is a file. */
static int read_config(const char *path, stk_json *json, stoke_error *err)
{
    char *file = stk_pretrained_path(path, "config.json");
    if (!file) return stk_fail(err, STOKE_E_NOMEM, "%s: no memory", path);
    int status = stoke_there(file) ? stk_pretrained_json(file, json, err) : STOKE_E_NOTFOUND;
    if (!status && json->values[0].kind != STK_JSON_OBJECT)
        status = stk_fail(err, STOKE_E_FORMAT, "%s: not a JSON object", file);
    stk_free(file);
    return status;
}

int stk_pretrained_check(const char *path, stk_network_config *config, stk_say_fn *remark, void *context,
                         stoke_error *err)
{
    stk_json json = { 0 };
    int status = read_config(path, &json, err);
    const int is_there = !status;
    if (status == STOKE_E_NOTFOUND) status = STOKE_OK; /* the shapes say enough, or it is a file */
    *config = (stk_network_config){ .scale = 1 };
    if (is_there)
        config->network = stk_network_of_type(
            stk_json_text(&json, stk_config_field(&(stk_config_json){ path, &json, err }, "model_type")));
    else if (!status)
        status = stk_pretrained_visit(path, find_network, &config->network, err);
    if (!config->network) config->network = stk_network_of_type(NULL);
    if (!status) status = config->network->read(path, is_there ? &json : NULL, config, remark, context, err);
    stk_json_free(&json);
    return status;
}

int stk_pretrained_config(const char *path, stk_network_config *config, stoke_error *err)
{
    return stk_pretrained_check(path, config, NULL, NULL, err);
}
