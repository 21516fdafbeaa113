/* SPDX-License-Identifier: Apache-2.0
 *
 * Settings in a Python file, read and never executed: assignments of literals at the top of the module and in
 * classes (dataclasses, plain ones), `NAME = 8`, `name: int = 8`, `field(default=8)`, dict(a=1), {"a": 1}. A
 * class or a dict is a section. Whatever is computed keeps its text, says that it is an expression, and is
 * left alone; functions, conditions and imports are passed over.
 */
#include <string.h>
#include <strings.h>

#include "src/base/mem.h"
#include "src/base/words.h"
#include "src/settings/yaml_tree.h"

enum { CLASSES = 8, WORD = 128 };

typedef struct open_class {
    uint32_t node;
    size_t indent; /* of the line that begins it */
} open_class;

typedef struct reader {
    stoke_yaml *yaml;
    const char *text;
    size_t at, end;      /* end: of the text, or of the statement at hand */
    size_t counted;      /* up to here lines have been counted */
    size_t first, start; /* of the text behind its BOM; of the line that `counted` is in */
    uint32_t line;
    open_class open[CLASSES];
    size_t depth;
    stoke_error *err;
} reader;

/* ---- characters ---- */

static int is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (unsigned char)c >= 0x80;
}

static int is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static char peek(const reader *r, size_t ahead)
{
    return r->at + ahead < r->end ? r->text[r->at + ahead] : 0;
}

/* Past a string that begins at `at` with a quote; at the end of the text where it is not closed. */
static size_t past_string(const char *text, size_t at, size_t end)
{
    const char quote = text[at];
    const int triple = at + 2 < end && text[at + 1] == quote && text[at + 2] == quote;
    for (at += triple ? 3 : 1; at < end; at++) {
        if (text[at] == '\\')
            at++;
        else if (text[at] == '\n' && !triple)
            return at;
        else if (text[at] == quote && !triple)
            return at + 1;
        else if (text[at] == quote && at + 2 < end && text[at + 1] == quote && text[at + 2] == quote)
            return at + 3;
    }
    return end;
}

static size_t past_comment(const char *text, size_t at, size_t end)
{
    while (at < end && text[at] != '\n') at++;
    return at;
}

/* The first of `stops` from `at` on that stands outside of strings, comments and brackets, or the end. `last`
 * (may be NULL) is the last character before it that counts, 0 when there is none. */
static size_t scan_to(const char *text, size_t at, size_t end, const char *stops, char *last)
{
    int depth = 0;
    char unused;
    if (!last) last = &unused;
    *last = 0;
    while (at < end && (depth || !strchr(stops, text[at]))) {
        const char c = text[at];
        if (c == '#') {
            at = past_comment(text, at, end);
            continue;
        }
        if (c == '\\' && at + 1 < end) {
            at += at + 2 < end && text[at + 1] == '\r' && text[at + 2] == '\n' ? 3 : 2;
            continue;
        }
        if (!strchr(" \t\r\n", c)) *last = c;
        if (strchr("([{", c)) depth++;
        if (strchr(")]}", c) && depth) depth--;
        at = c == '\'' || c == '"' ? past_string(text, at, end) : at + 1;
    }
    return at < end ? at : end;
}

/* Blanks, comments and line ends inside brackets. */
static void skip_space(reader *r)
{
    while (r->at < r->end) {
        const char c = r->text[r->at];
        if (c == '#')
            r->at = past_comment(r->text, r->at, r->end);
        else if (c == '\\' && (peek(r, 1) == '\n' || peek(r, 1) == '\r'))
            r->at += 2;
        else if (strchr(" \t\r\n", c))
            r->at++;
        else
            return;
    }
}

static int take(reader *r, char c)
{
    skip_space(r);
    if (peek(r, 0) != c) return 0;
    r->at++;
    return 1;
}

/* A name; "" where none begins. Names too long to be settings are cut. */
static size_t read_word(reader *r, char word[WORD])
{
    size_t n = 0;
    const size_t begin = r->at;
    if (r->at < r->end && is_letter(r->text[r->at]))
        while (r->at < r->end && (is_letter(r->text[r->at]) || is_digit(r->text[r->at]))) {
            if (n + 1 < WORD) word[n++] = r->text[r->at];
            r->at++;
        }
    word[n] = 0;
    return begin;
}

static uint32_t line_at(reader *r, size_t byte)
{
    const uint32_t line = r->line;
    /* Back too: to where an expression ends whose literals were tried further on. */
    while (r->counted > byte) r->line -= r->text[--r->counted] == '\n';
    if (r->line != line) r->start = r->counted;
    while (r->line != line && r->start > r->first && r->text[r->start - 1] != '\n') r->start--;
    for (; r->counted < byte; r->counted++) {
        if (r->text[r->counted] != '\n') continue;
        r->line++;
        r->start = r->counted + 1;
    }
    return r->line;
}

/* ---- nodes ---- */

static int add_node(reader *r, stk_yaml_kind kind, uint32_t parent, uint32_t key, size_t begin,
                    uint32_t *index)
{
    stoke_yaml *yaml = r->yaml;
    const int status = stk_yaml_add_node(yaml, kind, line_at(r, begin), begin, index, r->err);
    if (status) return status;
    stk_yaml_node *node = &yaml->nodes[*index];
    node->key = key;
    node->column = (uint32_t)(begin - r->start);
    if (parent != STK_YAML_NONE) stk_yaml_attach(yaml, parent, *index);
    return STOKE_OK;
}

static void end_node(reader *r, uint32_t index, size_t end)
{
    r->yaml->nodes[index].end = end;
    r->yaml->nodes[index].end_line = line_at(r, end);
}

static int set_text(reader *r, uint32_t index, const char *text, size_t length)
{
    r->yaml->nodes[index].text = stk_yaml_keep(r->yaml, text, length);
    return r->yaml->nodes[index].text ? STOKE_OK : stk_yaml_no_memory(r->yaml, r->err);
}

static int add_key(reader *r, uint32_t parent, const char *word, size_t begin, size_t end, uint32_t *key)
{
    int status = add_node(r, STK_YAML_SCALAR, parent, STK_YAML_NONE, begin, key);
    if (status) return status;
    end_node(r, *key, end);
    return set_text(r, *key, word, strlen(word));
}

/* ---- literals ---- */

/* What a string means, into `out`, which has room for as many bytes as it is written with. */
static size_t unescape(const char *p, size_t n, int raw, char *out)
{
    size_t used = 0;
    for (size_t i = 0; i < n; i++) {
        if (raw || p[i] != '\\' || i + 1 == n) {
            out[used++] = p[i];
            continue;
        }
        static const char from[] = "nrt\\'\"0", to[] = "\n\r\t\\'\"";
        const char *known = strchr(from, p[++i]);
        if (p[i] == '\n') continue; /* a string that goes on in the next line */
        if (!known || p[i] == '0') {
            out[used++] = '\\'; /* \x41 and the like: nobody's setting; kept as written */
            out[used++] = p[i];
        } else {
            out[used++] = to[known - from];
        }
    }
    return used;
}

static int read_string(reader *r, uint32_t index, int raw)
{
    const size_t begin = r->at, end = past_string(r->text, begin, r->end);
    const size_t marks =
        end - begin >= 6 && r->text[begin + 1] == r->text[begin] && r->text[begin + 2] == r->text[begin] ? 3
                                                                                                         : 1;
    if (end - begin < 2 * marks || r->text[end - 1] != r->text[begin]) return 0;
    char *meant = stk_alloc(end - begin + 1);
    if (!meant) return stk_yaml_no_memory(r->yaml, r->err);
    const size_t n = unescape(r->text + begin + marks, end - begin - 2 * marks, raw, meant);
    const int status = set_text(r, index, meant, n);
    stk_free(meant);
    r->yaml->nodes[index].style = marks == 3              ? STK_YAML_BLOCK
                                  : r->text[begin] == '"' ? STK_YAML_DOUBLE
                                                          : STK_YAML_SINGLE;
    r->at = end;
    return status ? status : 1;
}

/* A number without its underscores, True, False or None as YAML writes them. */
static int read_plain(reader *r, uint32_t index)
{
    static const struct {
        const char *python, *yaml;
    } words[] = { { "True", "true" }, { "False", "false" }, { "None", "null" } };
    char text[WORD];
    size_t n = 0, i = r->at;
    for (; i < r->end && (is_letter(r->text[i]) || is_digit(r->text[i]) || strchr(".+-", r->text[i])); i++) {
        if (strchr("+-", r->text[i]) && i > r->at && !strchr("eE", r->text[i - 1])) break;
        if (n + 1 == sizeof text) return 0;
        if (r->text[i] != '_') text[n++] = r->text[i];
    }
    text[n] = 0;
    const char *number = text + (*text == '-' || *text == '+');
    const char *meant = is_digit(*number) || (*number == '.' && is_digit(number[1])) ? text : NULL;
    for (size_t k = 0; k < sizeof words / sizeof *words; k++)
        if (!strcmp(text, words[k].python)) meant = words[k].yaml;
    if (!meant) return 0;
    const int status = set_text(r, index, meant, strlen(meant));
    r->at = i;
    return status ? status : 1;
}

static int read_value(reader *r, uint32_t parent, uint32_t key, int depth, uint32_t *index);

/* Items up to the closing bracket. Of a mapping: "key": value, or key=value. */
static int read_items(reader *r, uint32_t index, char close, char between, int depth)
{
    while (!take(r, close)) {
        uint32_t key = STK_YAML_NONE, item;
        int status = STOKE_OK;
        if (between) {
            char word[WORD];
            const size_t begin = r->at;
            if (between == ':') {
                status = add_node(r, STK_YAML_SCALAR, index, STK_YAML_NONE, begin, &key);
                const int read = status                                    ? status
                                 : peek(r, 0) == '"' || peek(r, 0) == '\'' ? read_string(r, key, 0)
                                                                           : read_plain(r, key);
                if (read != 1) return read;
                end_node(r, key, r->at);
            } else {
                read_word(r, word);
                status = *word ? add_key(r, index, word, begin, r->at, &key) : 0;
                if (status || !*word) return status;
            }
            if (!take(r, between)) return 0;
            skip_space(r);
        }
        status = read_value(r, index, key, depth + 1, &item);
        if (status != 1) return status;
        if (!take(r, ',')) return take(r, close);
    }
    return 1;
}

static int open_items(reader *r, uint32_t index, stk_yaml_kind kind, char close, char between, int depth)
{
    r->yaml->nodes[index].kind = kind;
    r->yaml->nodes[index].flow = 1;
    if (depth >= STK_YAML_DEPTH)
        return stk_yaml_fail(r->yaml, line_at(r, r->at), r->err, STOKE_E_LIMIT,
                             "nested deeper than %d levels", STK_YAML_DEPTH);
    r->at++;
    const int status = read_items(r, index, close, between, depth);
    if (status == 1) end_node(r, index, r->at);
    return status;
}

/* field(default=8), Field(8), Path("data"): the value is the one inside. */
static int read_call(reader *r, const char *name, uint32_t index, int depth)
{
    char word[WORD];
    const size_t begin = r->at;
    if (!strcmp(name, "dict")) return open_items(r, index, STK_YAML_MAPPING, ')', '=', depth);
    if (strcasecmp(name, "field") != 0 && strcmp(name, "Path") != 0) return 0;
    r->at++;
    skip_space(r);
    const size_t inside = r->at;
    read_word(r, word);
    if (strcmp(word, "default") != 0 || !take(r, '=')) r->at = inside;
    skip_space(r);
    r->yaml->nodes[index].begin = r->at;
    r->yaml->nodes[index].line = line_at(r, r->at);
    const char c = peek(r, 0);
    const int status = c == '"' || c == '\'' ? read_string(r, index, 0) : read_plain(r, index);
    if (status != 1) return status;
    end_node(r, index, r->at);
    /* What else a field has does not change the value; the parts of a Path do. */
    skip_space(r);
    if (peek(r, 0) != ')' && (peek(r, 0) != ',' || *name == 'P')) return 0;
    const size_t close = scan_to(r->text, begin + 1, r->end, ")]}", NULL);
    if (close < r->end) r->at = close + 1;
    return close < r->end;
}

/* 1: a literal; 0: none, and what was added is to be taken back; negative: an error. */
static int read_literal(reader *r, uint32_t index, int depth)
{
    char word[WORD];
    const char c = peek(r, 0);
    if (c == '"' || c == '\'') return read_string(r, index, 0);
    if (c == '(' || c == '[') return open_items(r, index, STK_YAML_SEQUENCE, c == '(' ? ')' : ']', 0, depth);
    if (c == '{') return open_items(r, index, STK_YAML_MAPPING, '}', ':', depth);
    if (strchr("rRuU", c) && c && (peek(r, 1) == '"' || peek(r, 1) == '\'')) {
        r->at++;
        return read_string(r, index, c == 'r' || c == 'R');
    }
    const size_t begin = r->at;
    read_word(r, word);
    if (*word && peek(r, 0) == '(') return read_call(r, word, index, depth);
    r->at = begin;
    return read_plain(r, index);
}

static int read_value(reader *r, uint32_t parent, uint32_t key, int depth, uint32_t *index)
{
    skip_space(r);
    const size_t begin = r->at;
    int status = add_node(r, STK_YAML_SCALAR, parent, key, begin, index);
    if (status) return status;
    const stk_yaml_node fresh = r->yaml->nodes[*index];
    status = read_literal(r, *index, depth);
    if (status < 0) return status;
    const size_t behind = r->at;
    stk_yaml_node *node = &r->yaml->nodes[*index];
    skip_space(r);
    /* Of a statement nothing may follow: 288, 320 are two. */
    if (status && (r->at >= r->end || (depth && strchr(",)]}", peek(r, 0))))) {
        if (node->end == node->begin) end_node(r, *index, behind);
        r->at = behind;
        return 1;
    }
    /* More follows, or it was no literal, which takes back what it has added: an expression, kept as its
     * text. */
    r->at = begin;
    r->yaml->n_nodes = *index + 1;
    *node = fresh;
    /* To the end of its argument or item; of a statement, to its end. */
    size_t end = scan_to(r->text, begin, r->end, depth > 0 ? "#,)]}" : "#", NULL);
    while (end > begin && strchr(" \t\r\n\\", r->text[end - 1])) end--;
    if (end == begin) return 0;
    end_node(r, *index, end);
    node->computed = 1;
    r->at = end;
    status =
        set_text(r, *index, r->text + begin, end - begin < STK_YAML_VALUE ? end - begin : STK_YAML_VALUE);
    return status ? status : 1;
}

/* ---- statements ---- */

static uint32_t top(const reader *r)
{
    return r->depth ? r->open[r->depth - 1].node : 0;
}

/* An assignment to a name; everything else is passed over. */
static int read_assignment(reader *r, const char *word, size_t begin)
{
    const uint32_t parent = top(r);
    const size_t word_end = r->at;
    int annotated = 0;
    uint32_t key, value;
    while (peek(r, 0) == ' ' || peek(r, 0) == '\t') r->at++;
    if (peek(r, 0) == ':') {
        annotated = 1;
        r->at = scan_to(r->text, r->at + 1, r->end, "=", NULL);
    }
    if (peek(r, 0) != '=' || peek(r, 1) == '=') return STOKE_OK;
    r->at++;
    const size_t nodes = r->yaml->n_nodes;
    const stk_yaml_node before = r->yaml->nodes[parent];
    int status = add_key(r, parent, word, begin, word_end, &key);
    if (!status) status = read_value(r, parent, key, 0, &value);
    if (status == 1) {
        r->yaml->nodes[value].annotated = annotated;
        r->yaml->nodes[value].behind = r->end - (r->text[r->end - 1] == '\r'); /* the line end is CRLF */
        return STOKE_OK;
    }
    if (status) return status;
    r->yaml->n_nodes = nodes; /* an assignment of nothing: a text cut off in the middle */
    r->yaml->nodes[parent] = before;
    if (before.last != STK_YAML_NONE) r->yaml->nodes[before.last].next = STK_YAML_NONE;
    return STOKE_OK;
}

static int open_class_body(reader *r, size_t indent)
{
    char name[WORD];
    uint32_t key, node;
    while (peek(r, 0) == ' ' || peek(r, 0) == '\t') r->at++;
    const size_t begin = read_word(r, name);
    if (!*name || r->depth == CLASSES) return STOKE_OK;
    int status = add_key(r, top(r), name, begin, r->at, &key);
    if (!status) status = add_node(r, STK_YAML_MAPPING, top(r), key, r->at, &node);
    if (!status) r->open[r->depth++] = (open_class){ node, indent };
    return status;
}

/* The statement in [at, end), which stands in a line that begins with `indent` blanks. *block: it begins one,
 * and what follows in the line, also behind a semicolon, is that one's (`else: x = 1; y = 2`). */
static int read_statement(reader *r, size_t indent, int *block)
{
    char word[WORD];
    const size_t begin = read_word(r, word);
    *block = stk_is_one_of(word, "async class def elif else except finally for if try while with");
    if (!strcmp(word, "class")) return open_class_body(r, indent);
    return *word && !*block ? read_assignment(r, word, begin) : STOKE_OK;
}

int stk_python_build(stoke_yaml *yaml, stoke_error *err)
{
    reader r = { .yaml = yaml, .text = yaml->text, .line = 1, .err = err };
    const size_t bytes = yaml->bytes;
    size_t at = bytes >= 3 && !memcmp(yaml->text, "\xef\xbb\xbf", 3) ? 3 : 0;
    size_t passed_over = SIZE_MAX; /* indent of a statement whose block is not ours */
    size_t indent = 0;
    int same_line = 0; /* behind a semicolon: the indent is that of the line */
    uint32_t root;
    r.first = r.start = r.counted = at;
    int status = add_node(&r, STK_YAML_MAPPING, STK_YAML_NONE, STK_YAML_NONE, at, &root);
    while (!status && at < bytes) {
        int block = 0;
        const size_t begin = at;
        while (at < bytes && strchr(" \t\f", yaml->text[at]) && yaml->text[at]) at++;
        if (!same_line) indent = at - begin;
        char last;
        const size_t end = scan_to(yaml->text, at, bytes, "\n;", &last);
        if (last && (passed_over == SIZE_MAX || indent <= passed_over)) {
            const int is_class = !strncmp(yaml->text + at, "class", 5) && last == ':';
            passed_over = last == ':' && !is_class ? indent : SIZE_MAX;
            while (r.depth && r.open[r.depth - 1].indent >= indent) r.depth--;
            r.at = at;
            r.end = end;
            if (last != ':' || is_class) status = read_statement(&r, indent, &block);
        }
        at = end + 1;
        same_line = end < bytes && yaml->text[end] == ';';
        if (same_line && block)
            while (at < bytes && yaml->text[at] != '\n') at++;
    }
    for (size_t i = yaml->n_nodes; i--;) { /* a mapping's bytes go from its first key to its last value */
        stk_yaml_node *node = &yaml->nodes[i];
        if (node->kind != STK_YAML_MAPPING || node->flow || node->last == STK_YAML_NONE) continue;
        node->begin = yaml->nodes[node->first].begin;
        node->end = yaml->nodes[node->last].end;
        node->end_line = yaml->nodes[node->last].end_line;
    }
    return status;
}
