/* SPDX-License-Identifier: Apache-2.0
 *
 * New keys that somebody's own code reads get one comment line above them: they count only where that code
 * reads them. A comment changes no value, which is proved by reading the result again.
 */
#include <string.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/settings/keys.h"
#include "src/tune/optimize/optimize.h"

static const char MARK[] = "# added by stoke optimize: your trainer must read these";

static size_t parent_length(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot ? (size_t)(dot - path) : 0;
}

/* Whether an earlier change is new in the same mapping: the comment stands above that one. */
static int is_marked(const stoke_optimization *o, size_t index)
{
    const char *path = o->changes[index].path;
    const size_t n = parent_length(path);
    for (size_t i = 0; i < index; i++)
        if (!*o->changes[i].from && parent_length(o->changes[i].path) == n &&
            !strncmp(o->changes[i].path, path, n))
            return 1;
    return 0;
}

/* Where the line begins; NULL: the text has fewer. */
static const char *line_at(const char *text, uint32_t line)
{
    for (; text && line > 1; line--) {
        text = strchr(text, '\n');
        if (text) text++;
    }
    return text;
}

/* The line of a new key in the text with all changes; NULL: the key does not begin its line (braces). */
static const char *line_of_key(const stoke_yaml *result, const char *text, const char *path)
{
    stoke_yaml_value value;
    const char *key = stk_last_key(path);
    if (!stoke_yaml_get(result, path, &value)) return NULL;
    const char *line = line_at(text, value.line);
    return line && !strncmp(line + strspn(line, " "), key, strlen(key)) ? line : NULL;
}

/* A line of the comment before `at`, as far in as what follows it, with the file's own end of line. */
static char *with_comment(const char *text, const char *at)
{
    const size_t head = (size_t)(at - text), inward = strspn(at, " ");
    const char *first = strchr(text, '\n'), *end = first && first > text && first[-1] == '\r' ? "\r\n" : "\n";
    const size_t room = strlen(text) + inward + sizeof MARK + 2;
    char *out = stk_alloc(room);
    if (!out) return NULL;
    memcpy(out, text, head);
    memcpy(out + head, at, inward);
    strcpy(out + head + inward, MARK);
    strcat(out, end);
    strcat(out, at);
    return out;
}

static int same_values(const stoke_yaml *a, const stoke_yaml *b)
{
    const char *x, *y;
    stoke_yaml_value v, w;
    for (size_t i = 0;; i++) {
        const int there = stoke_yaml_at(a, i, &x, &v);
        if (there != stoke_yaml_at(b, i, &y, &w)) return 0;
        if (!there) return 1;
        if (strcmp(x, y) || strcmp(v.text, w.text)) return 0;
    }
}

/* One more comment, above this key, if it can have one. `name` tells how the text is written: YAML, JSON,
 * Python. */
static int mark(char **text, const char *name, const char *path, int *marked, stoke_error *err)
{
    stoke_yaml *before = NULL, *after = NULL;
    char *out = NULL;
    int r = stoke_yaml_parse(&before, *text, strlen(*text), name, err);
    const char *at = r ? NULL : line_of_key(before, *text, path);
    if (!r && at) {
        out = with_comment(*text, at);
        if (!out) r = stk_fail(err, STOKE_E_NOMEM, "out of memory");
    }
    if (out) r = stoke_yaml_parse(&after, out, strlen(out), name, err);
    if (out && !r && same_values(before, after)) {
        stk_free(*text);
        *text = out;
        out = NULL;
        *marked = 1;
    }
    stk_free(out);
    stoke_yaml_close(&before);
    stoke_yaml_close(&after);
    return r;
}

/* Whether somebody's own code reads the key: of Lightning's files all that is no argument of Trainer. */
static int is_for_own_code(const stoke_optimization *o, const stoke_change *change)
{
    return o->framework != STOKE_FRAMEWORK_STOKE && !stk_is_of_loader(change->path) &&
           !stk_is_argument(o->framework, change->setting);
}

/* Whether a comment belongs above this change. */
static int needs_mark(const stoke_optimization *o, size_t i)
{
    return !*o->changes[i].from && is_for_own_code(o, &o->changes[i]) && !is_marked(o, i);
}

int stoke_optimization_marked(const stoke_optimization *optimization)
{
    for (size_t i = 0; i < optimization->n_changes; i++)
        if (needs_mark(optimization, i)) return optimization->marked ? 1 : 2;
    return 0;
}

int stk_optimize_text(stoke_optimization *o, const char **text, size_t *bytes, char **own,
                      stoke_yaml_proof *proof, stoke_error *err)
{
    *own = NULL;
    int r = stoke_yaml_text(o->yaml, text, bytes, proof, err);
    for (size_t i = 0; !r && i < o->n_changes; i++) {
        if (!needs_mark(o, i)) continue;
        if (!*own) {
            if (!(*own = stk_alloc(*bytes + 1))) return stk_fail(err, STOKE_E_NOMEM, "out of memory");
            memcpy(*own, *text, *bytes);
            (*own)[*bytes] = 0;
        }
        r = mark(own, o->yaml->name, o->changes[i].path, &o->marked, err);
    }
    if (r || !*own) return r;
    *text = *own;
    proof->bytes_after += strlen(*own) - *bytes;
    *bytes = strlen(*own);
    return STOKE_OK;
}
