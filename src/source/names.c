/* SPDX-License-Identifier: Apache-2.0 */
#include "src/source/names.h"

#include <errno.h>
#include <stdio.h>
#include <stoke/dataset.h>
#include <stoke/tools/terminal.h>
#include <stoke/tools/image.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "src/base/error.h"
#include "src/base/file.h"
#include "src/base/mem.h"
#include "src/base/number.h"
#include "src/base/retry.h"
#include "src/settings/yaml_tree.h"
#include "src/source/reader.h"

/* ---- the key `names` of a YAML file: everything else in it is passed over ---- */

static int take_names(stoke_labels *labels, const stoke_yaml *yaml, const stk_yaml_node *names,
                      stoke_error *err)
{
    const int by_id = names->kind == STK_YAML_MAPPING;
    uint32_t id = 0;
    int r = STOKE_OK;
    if (!by_id && names->kind != STK_YAML_SEQUENCE)
        return stk_yaml_fail(yaml, names->line, err, STOKE_E_FORMAT,
                             "names: a list of names is expected, or names by id");
    for (uint32_t i = names->first; !r && i != STK_YAML_NONE; i = yaml->nodes[i].next, id++) {
        const stk_yaml_node *name = &yaml->nodes[i];
        int64_t key;
        if (by_id) {
            if (name->kind != STK_YAML_SCALAR || !stk_parse_int(name->text, &key) || key < 0 ||
                key >= STK_LABEL_VALUES)
                return stk_yaml_fail(yaml, name->line, err, STOKE_E_FORMAT,
                                     "names: the id of a class is expected, 0 to 65535");
            id = (uint32_t)key;
            i = name->next;
            name = &yaml->nodes[i];
        }
        if (name->kind != STK_YAML_SCALAR)
            return stk_yaml_fail(yaml, name->line, err, STOKE_E_FORMAT, "names: a name is expected");
        r = stk_labels_set_name(labels, id, name->text, strlen(name->text), yaml->name, err);
    }
    return r;
}

int stk_names_parse_yaml(stoke_labels *labels, const char *origin, const void *bytes, size_t size,
                         stoke_error *err)
{
    stoke_yaml *yaml;
    int r = stk_yaml_read(&yaml, bytes, size, origin, err);
    if (r) return r;
    const int mapping = yaml->n_nodes && yaml->nodes[0].kind == STK_YAML_MAPPING;
    const uint32_t names = mapping ? stk_yaml_child(yaml, 0, "names") : STK_YAML_NONE;
    r = names == STK_YAML_NONE ? stk_fail(err, STOKE_E_FORMAT, "%s: no key `names` in it", origin)
                               : take_names(labels, yaml, &yaml->nodes[names], err);
    stoke_yaml_close(&yaml);
    return r;
}

enum {
    FILE_LIMIT = 1 << 20, /* 4096 names of full length */
    FOUND_MOST = 256      /* of a file nobody named: more are hardly classes */
};

/* ---- one name ---- */

static int is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static void trim(const char **at, const char **end)
{
    while (*at < *end && is_space(**at)) ++*at;
    while (*end > *at && is_space((*end)[-1])) --*end;
}

/* The id at the beginning of an item, and where the name behind it begins; 0: there is none. */
static int read_id(const char *at, const char *end, const char *separators, uint32_t *id, const char **name)
{
    uint64_t value = 0;
    const char *p = at;
    for (; p < end && *p >= '0' && *p <= '9' && value < STK_LABEL_VALUES; p++)
        value = value * 10 + (uint64_t)(*p - '0');
    if (p == at || p == end || value >= STK_LABEL_VALUES || !strchr(separators, *p)) return 0;
    p++;
    trim(&p, &end);
    *id = (uint32_t)value;
    *name = p;
    return p < end;
}

uint32_t stk_names_count(const stoke_labels *labels)
{
    size_t n = labels->n_names;
    while (n && !labels->names[n - 1]) n--;
    return (uint32_t)n;
}

/* Takes all names away again. */
static void names_drop(stoke_labels *labels)
{
    for (size_t i = 0; i < labels->n_names; i++) labels->names[i] = NULL;
}

static int too_many(const char *origin, stoke_error *err)
{
    return stk_fail(err, STOKE_E_LIMIT, "%s: more than %d names of classes", origin, STK_LABEL_VALUES);
}

/* ---- lists and lines ---- */

int stk_names_parse_list(stoke_labels *labels, const char *text, stoke_error *err)
{
    uint32_t place = 0;
    for (const char *at = text, *next; at; at = next, place++) {
        const char *comma = strchr(at, ','), *end = comma ? comma : at + strlen(at);
        next = comma ? comma + 1 : NULL;
        trim(&at, &end);
        uint32_t id = place;
        const char *name = at;
        read_id(at, end, ":", &id, &name);
        if (place >= STK_LABEL_VALUES) return too_many("names", err);
        if (name == end) return stk_fail(err, STOKE_E_INVALID, "names: the name of class %u is missing", id);
        const int r = stk_labels_set_name(labels, id, name, (size_t)(end - name), "names", err);
        if (r) return r;
    }
    return STOKE_OK;
}

typedef struct line {
    const char *at, *end;
} line;

/* The next line with something on it; 0: none is left. */
static int next_line(const char **at, const char *end, line *l)
{
    while (*at < end) {
        const char *stop = memchr(*at, '\n', (size_t)(end - *at));
        *l = (line){ *at, stop ? stop : end };
        *at = stop ? stop + 1 : end;
        trim(&l->at, &l->end);
        if (l->at < l->end && *l->at != '#') return 1;
    }
    return 0;
}

int stk_names_parse_text(stoke_labels *labels, const char *origin, const void *bytes, size_t size,
                         stoke_error *err)
{
    const char *begin = bytes, *end = begin + size, *name;
    if (size >= 3 && memcmp(begin, "\xef\xbb\xbf", 3) == 0) begin += 3;
    int numbered = 1;
    uint32_t id, place = 0;
    line l;
    for (const char *at = begin; numbered && next_line(&at, end, &l);)
        numbered = read_id(l.at, l.end, ": \t,", &id, &name);
    for (const char *at = begin; next_line(&at, end, &l); place++) {
        id = place;
        name = l.at;
        if (numbered) read_id(l.at, l.end, ": \t,", &id, &name);
        if (place >= STK_LABEL_VALUES) return too_many(origin, err);
        const int r = stk_labels_set_name(labels, id, name, (size_t)(l.end - name), origin, err);
        if (r) return r;
    }
    return place ? STOKE_OK : stk_fail(err, STOKE_E_INVALID, "%s: no name in it", origin);
}

/* ---- files ---- */

static int read_file(stoke_labels *labels, const char *path, stoke_error *err)
{
    const char *dot = strrchr(path, '.');
    const int yaml = dot && (!strcasecmp(dot, ".yaml") || !strcasecmp(dot, ".yml"));
    stk_mem_buffer file = { 0 };
    size_t size = 0;
    int r = stk_file_read(path, FILE_LIMIT, &file, &size, err);
    if (r == STOKE_E_NOTFOUND)
        r = stk_fail(err, STOKE_E_IO, "names: `%.200s` is no list such as sky,road,car, and no file", path);
    else if (!r)
        r = (yaml ? stk_names_parse_yaml : stk_names_parse_text)(labels, path, file.data, size, err);
    stk_buffer_free(&file);
    return r;
}

static int is_file(const char *path)
{
    struct stat s;
    return stoke_stat(path, &s) == 0 ? S_ISREG(s.st_mode) : !stoke_is_absent(errno);
}

/* The folder of the set; 0: there is none that could be meant. */
static int folder_of(const stoke_data_params *params, char folder[STK_NAMES_ORIGIN])
{
    struct stat s;
    const char *path = params->data ? params->data : params->images ? params->images : params->list;
    if (!path || !*path || snprintf(folder, STK_NAMES_ORIGIN, "%s", path) >= STK_NAMES_ORIGIN) return 0;
    if (params->data && stoke_stat(path, &s) == 0 && S_ISDIR(s.st_mode)) return 1;
    size_t n = strlen(folder);
    while (n > 1 && folder[n - 1] == '/') folder[--n] = 0;
    char *slash = strrchr(folder, '/');
    if (slash == folder)
        folder[1] = 0;
    else if (slash)
        *slash = 0;
    else
        snprintf(folder, STK_NAMES_ORIGIN, ".");
    return 1;
}

/* A list of files, or of whatever else, may be called labels.txt. */
static int are_plausible(const stoke_labels *labels)
{
    const uint32_t count = stk_names_count(labels);
    for (uint32_t i = 0; i < count; i++) {
        const char *name = labels->names[i];
        if (name && (strchr(name, '/') || stoke_format_known_extension(name))) return 0;
    }
    return count > 1 && count <= FOUND_MOST;
}

static int find_beside(stoke_labels *labels, const stoke_data_params *params, stk_names *names,
                       stoke_error *err)
{
    static const char *const usual[] = { "classes.txt", "names.txt", "labels.txt", "data.yaml" };
    char folder[STK_NAMES_ORIGIN];
    if (!folder_of(params, folder)) return STOKE_OK;
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
        const int n = snprintf(names->origin, sizeof names->origin, "%s/%s", folder, usual[i]);
        if (n < 0 || (size_t)n >= sizeof names->origin || !is_file(names->origin)) continue;
        stoke_error own = { 0 };
        const int r = read_file(labels, names->origin, &own);
        /* Not names, or not of this set: what a file says. One that cannot be read may be the list of names.
         */
        if (r == STOKE_E_IO || stk_is_want(r)) return stk_fail_again(err, r, own.message);
        names->found = !r && are_plausible(labels);
        if (names->found) return STOKE_OK;
        names_drop(labels);
    }
    return STOKE_OK;
}

int stk_names_add(stoke_labels *labels, const stoke_data_params *params, stk_names *names, stoke_error *err)
{
    const char *text = params->names;
    int r = STOKE_OK;
    *names = (stk_names){ 0 };
    if (text && *text) {
        names_drop(labels);
        snprintf(names->origin, sizeof names->origin, "%s", text);
        const int list = strchr(text, ',') || (strchr(text, ':') && !is_file(text));
        r = list ? stk_names_parse_list(labels, text, err) : read_file(labels, text, err);
    } else if (!stk_names_count(labels)) {
        r = find_beside(labels, params, names, err);
    }
    names->count = r ? 0 : stk_names_count(labels);
    return r;
}

void stk_names_judge(stoke_labels *labels, const stk_names *names, uint32_t classes, stk_say_fn *say,
                     void *context)
{
    char text[STK_NAMES_ORIGIN + 160] = "";
    if (!names->count || !*names->origin) return;
    if (names->found && names->count != classes) {
        snprintf(text, sizeof text, "%s has %s for %s: it is left alone (`names` takes it).", names->origin,
                 STOKE_COUNT(names->count, "name"), STOKE_COUNT(classes, "class"));
        names_drop(labels);
    } else if (names->found) {
        snprintf(text, sizeof text, "Names of the classes are those in %s.", names->origin);
    } else if (names->count < classes) {
        snprintf(text, sizeof text, "`names` has %s for %s: the others keep their numbers.",
                 STOKE_COUNT(names->count, "name"), STOKE_COUNT(classes, "class"));
    }
    if (*text && say) say(context, text);
}

int stoke_data_labels(stoke_labels **out, const stoke_data_params *params, stoke_error *err)
{
    stk_names names;
    int r = stk_labels_of(out, params, err);
    if (!r) r = stk_names_add(*out, params, &names, err);
    if (r) stoke_labels_destroy(out);
    return r;
}
