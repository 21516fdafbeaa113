/* SPDX-License-Identifier: Apache-2.0
 *
 * A recursive reader, bounded in depth. Decoded text never outgrows its source: every string loses two quotes
 * and gains one zero, every number but a lone one is followed by a separator.
 */
#include "src/base/json_read.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/base/number.h"
#include "src/base/words.h"
#include "src/base/utf8.h"

typedef struct reader {
    const char *start, *at, *end;
    stk_json *json;
    size_t capacity, text_used;
    uint32_t most, depth;
    stk_mem_buffer keys; /* of one object, to be sorted */
    stoke_error *err;
} reader;

static int malformed(const reader *r, const char *what)
{
    return stk_fail(r->err, STOKE_E_FORMAT, "byte %zu: %s", (size_t)(r->at - r->start), what);
}

/* Something else stands here, or nothing: a file that was cut. */
static int missing(const reader *r, const char *what)
{
    return malformed(r, r->at == r->end ? "the text ends early" : what);
}

static void skip_blanks(reader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\n' || *r->at == '\r')) r->at++;
}

/* The next byte, or 0 at the end: no zero byte is ever accepted, so they need not be told apart. */
static char peek(const reader *r)
{
    return r->at < r->end ? *r->at : 0;
}

static int take(reader *r, char wanted)
{
    if (peek(r) != wanted) return 0;
    r->at++;
    return 1;
}

static void put(reader *r, char byte)
{
    r->json->text[r->text_used++] = byte;
}

static void put_code(reader *r, uint32_t code)
{
    if (code < 0x80) {
        put(r, (char)code);
        return;
    }
    static const uint8_t lead[] = { 0, 0xc0, 0xe0, 0xf0 };
    const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    put(r, (char)(lead[more] | code >> 6 * more));
    for (int i = more - 1; i >= 0; i--) put(r, (char)(0x80 | (code >> 6 * i & 0x3f)));
}

/* Four hexadecimal digits; -1 when they are not. */
static int32_t read_hex(reader *r)
{
    int32_t code = 0;
    for (int i = 0; i < 4; i++) {
        const char c = peek(r);
        const int letter = c | 0x20;
        const int digit = c >= '0' && c <= '9'             ? c - '0'
                          : letter >= 'a' && letter <= 'f' ? letter - 'a' + 10
                                                           : -1;
        if (digit < 0) return -1;
        code = code << 4 | digit;
        r->at++;
    }
    return code;
}

/* After "\u". Beyond U+FFFF the code is two escapes, a high and a low surrogate; alone they mean nothing. */
static int read_unicode(reader *r)
{
    const int32_t first = read_hex(r);
    if (first < 0) return malformed(r, "\\u wants four hexadecimal digits");
    if (first == 0) return malformed(r, "a zero character in a string");
    if (first < 0xd800 || first > 0xdfff) {
        put_code(r, (uint32_t)first);
        return STOKE_OK;
    }
    const int32_t second = first < 0xdc00 && take(r, '\\') && take(r, 'u') ? read_hex(r) : -1;
    if (second < 0xdc00 || second > 0xdfff) return malformed(r, "half of a surrogate pair");
    put_code(r, 0x10000 + ((uint32_t)(first - 0xd800) << 10) + (uint32_t)(second - 0xdc00));
    return STOKE_OK;
}

static int read_escape(reader *r)
{
    static const char letters[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    if (take(r, 'u')) return read_unicode(r);
    const char c = peek(r), *found = c ? strchr(letters, c) : NULL;
    if (!found) return malformed(r, "no such escape");
    put(r, meant[found - letters]);
    r->at++;
    return STOKE_OK;
}

/* A string at the opening quote; *where = its place in the text. */
static int read_string(reader *r, uint32_t *where)
{
    if (!take(r, '"')) return missing(r, "a string is wanted here");
    *where = (uint32_t)r->text_used;
    while (!take(r, '"')) {
        const char c = peek(r);
        if (r->at == r->end) return malformed(r, "the text ends early, within a string");
        if ((unsigned char)c < 0x20) return malformed(r, "a control character in a string");
        r->at++;
        if (c != '\\') {
            put(r, c);
        } else {
            const int status = read_escape(r);
            if (status) return status;
        }
    }
    put(r, 0);
    return stk_utf8_is_all(r->json->text + *where) ? STOKE_OK
                                                   : malformed(r, "the string that ends here is not UTF-8");
}

static size_t skip_digits(reader *r)
{
    const char *start = r->at;
    while (peek(r) >= '0' && peek(r) <= '9') r->at++;
    return (size_t)(r->at - start);
}

static int read_number(reader *r, uint32_t *where)
{
    const char *start = r->at;
    (void)take(r, '-');
    const int zero = peek(r) == '0';
    const size_t digits = skip_digits(r);
    if (!digits) return missing(r, "no value starts like this");
    if (zero && digits > 1) return malformed(r, "a number with a zero in front");
    if (take(r, '.') && !skip_digits(r)) return missing(r, "digits are wanted after the point");
    if (take(r, 'e') || take(r, 'E')) {
        if (!take(r, '-')) (void)take(r, '+');
        if (!skip_digits(r)) return missing(r, "digits are wanted in the exponent");
    }
    *where = (uint32_t)r->text_used;
    while (start < r->at) put(r, *start++);
    put(r, 0);
    return STOKE_OK;
}

static int read_word(reader *r, const char *word)
{
    for (; *word; word++)
        if (!take(r, *word)) return missing(r, "no value starts like this");
    return STOKE_OK;
}

/* Sorted, equal keys are neighbours: a hostile object of a million keys costs no million squared. */
static int refuse_twins(reader *r, uint32_t object)
{
    const stk_json *json = r->json;
    const uint32_t count = json->values[object].count;
    const char **keys = stk_buffer_reserve(&r->keys, (count + 1) * sizeof *keys);
    if (!keys) return stk_fail(r->err, STOKE_E_NOMEM, "no memory for %u keys", (unsigned)count);
    uint32_t child = json->values[object].first;
    for (uint32_t i = 0; i < count; i++) {
        keys[i] = json->text + json->values[child].key;
        child = json->values[child].next;
    }
    if (count) qsort(keys, count, sizeof *keys, stk_by_text);
    for (uint32_t i = 1; i < count; i++)
        if (strcmp(keys[i - 1], keys[i]) == 0)
            return stk_fail(r->err, STOKE_E_FORMAT, "the key \"%.200s\" stands twice in one object", keys[i]);
    return STOKE_OK;
}

static int read_value(reader *r, uint32_t *index);

static int read_member(reader *r, int object, uint32_t *index)
{
    uint32_t key = 0;
    if (object) {
        const int status = read_string(r, &key);
        if (status) return status;
        skip_blanks(r);
        if (!take(r, ':')) return missing(r, "a colon is wanted after the key");
        skip_blanks(r);
    }
    const int status = read_value(r, index);
    if (!status) r->json->values[*index].key = key;
    return status;
}

/* The inside of an array or object, up to and with its closing bracket. */
static int read_members(reader *r, uint32_t self, int object)
{
    const char close = object ? '}' : ']';
    uint32_t last = 0, child = 0;
    skip_blanks(r);
    if (take(r, close)) return STOKE_OK;
    for (;;) {
        skip_blanks(r);
        const int status = read_member(r, object, &child);
        if (status) return status;
        if (last)
            r->json->values[last].next = child;
        else
            r->json->values[self].first = child;
        last = child;
        r->json->values[self].count++;
        skip_blanks(r);
        if (take(r, close)) return STOKE_OK;
        if (!take(r, ',')) return missing(r, "a comma or the closing bracket is wanted here");
    }
}

static int read_nested(reader *r, uint32_t self, int object)
{
    r->at++;
    r->json->values[self].kind = object ? STK_JSON_OBJECT : STK_JSON_ARRAY;
    if (r->depth == STK_JSON_DEPTH)
        return stk_fail(r->err, STOKE_E_LIMIT, "nested deeper than %d levels", STK_JSON_DEPTH);
    r->depth++;
    int status = read_members(r, self, object);
    r->depth--;
    if (!status && object) status = refuse_twins(r, self);
    return status;
}

static int read_value(reader *r, uint32_t *index)
{
    stk_json *json = r->json;
    if (json->count == r->most)
        return stk_fail(r->err, STOKE_E_LIMIT, "more than %u values", (unsigned)r->most);
    if (!stk_grow((void **)&json->values, &r->capacity, json->count + 1, sizeof *json->values))
        return stk_fail(r->err, STOKE_E_NOMEM, "no memory for %u values", (unsigned)json->count + 1);
    *index = json->count++;
    stk_json_value *v = &json->values[*index];
    *v = (stk_json_value){ .kind = STK_JSON_NULL };
    switch (peek(r)) {
    case '{': return read_nested(r, *index, 1);
    case '[': return read_nested(r, *index, 0);
    case '"': v->kind = STK_JSON_STRING; return read_string(r, &v->text);
    case 't': v->kind = STK_JSON_TRUE; return read_word(r, "true");
    case 'f': v->kind = STK_JSON_FALSE; return read_word(r, "false");
    case 'n': return read_word(r, "null");
    default: v->kind = STK_JSON_NUMBER; return read_number(r, &v->text);
    }
}

int stk_json_read(stk_json *json, const char *text, size_t size, uint32_t most, stoke_error *err)
{
    *json = (stk_json){ 0 };
    if (size > STK_JSON_BYTES)
        return stk_fail(err, STOKE_E_LIMIT, "%zu bytes of JSON: more than %d", size, STK_JSON_BYTES);
    json->text = stk_alloc(size + 1);
    if (!json->text) return stk_fail(err, STOKE_E_NOMEM, "no memory for %zu bytes of JSON", size);
    reader r = { .start = text, .at = text, .end = text + size, .json = json, .most = most, .err = err };
    uint32_t root;
    skip_blanks(&r);
    int status = r.at == r.end ? malformed(&r, "there is no value") : read_value(&r, &root);
    skip_blanks(&r);
    if (!status && r.at != r.end) status = malformed(&r, "more text after the value");
    stk_buffer_free(&r.keys);
    if (status) stk_json_free(json);
    return status;
}

void stk_json_free(stk_json *json)
{
    stk_free(json->values);
    stk_free(json->text);
    *json = (stk_json){ 0 };
}

const stk_json_value *stk_json_first(const stk_json *json, const stk_json_value *value)
{
    return value && value->first ? &json->values[value->first] : NULL;
}

const stk_json_value *stk_json_next(const stk_json *json, const stk_json_value *value)
{
    return value && value->next ? &json->values[value->next] : NULL;
}

const stk_json_value *stk_json_find(const stk_json *json, const stk_json_value *object, const char *key)
{
    if (!object || object->kind != STK_JSON_OBJECT) return NULL;
    const stk_json_value *member = stk_json_first(json, object);
    while (member && strcmp(stk_json_key(json, member), key)) member = stk_json_next(json, member);
    return member;
}

const char *stk_json_key(const stk_json *json, const stk_json_value *member)
{
    return json->text + member->key;
}

const char *stk_json_text(const stk_json *json, const stk_json_value *value)
{
    const int has = value && (value->kind == STK_JSON_STRING || value->kind == STK_JSON_NUMBER);
    return has ? json->text + value->text : NULL;
}

int stk_json_uint(const stk_json *json, const stk_json_value *value, uint64_t *out)
{
    if (!value || value->kind != STK_JSON_NUMBER) return 0;
    const char *text = stk_json_text(json, value);
    if (text[strspn(text, "0123456789")]) return 0;
    errno = 0;
    const unsigned long long parsed = strtoull(text, NULL, 10);
    if (errno) return 0;
    *out = parsed;
    return 1;
}

int stk_json_real(const stk_json *json, const stk_json_value *value, double *out)
{
    return value && value->kind == STK_JSON_NUMBER && stk_parse_real(stk_json_text(json, value), out);
}
