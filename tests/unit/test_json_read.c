/* SPDX-License-Identifier: Apache-2.0
 *
 * The JSON reader: what it takes, what it refuses and where, its limits, and memory that runs out.
 */
#include "tests/unit/unit.h"

#include "src/base/json_read.h"
#include "src/base/mem.h"

/* Reads a copy of exactly the text's size, so that the sanitizer sees a read behind it. */
static int read_some(stk_json *json, const char *text, size_t size, uint32_t most, stoke_error *err)
{
    char *copy = malloc(size ? size : 1);
    memcpy(copy, text, size);
    memset(err, 0, sizeof *err);
    const int status = stk_json_read(json, copy, size, most, err);
    free(copy);
    return status;
}

/* The tree as plain text: o{key=...}, a[...], s"...", n..., t, f, 0. */
static void show(const stk_json *json, const stk_json_value *v, char *out)
{
    static const char brackets[2][2] = { "[]", "{}" };
    char *end = out + strlen(out);
    switch (v->kind) {
    case STK_JSON_NULL: strcpy(end, "0"); return;
    case STK_JSON_FALSE: strcpy(end, "f"); return;
    case STK_JSON_TRUE: strcpy(end, "t"); return;
    case STK_JSON_NUMBER: sprintf(end, "n%s", stk_json_text(json, v)); return;
    case STK_JSON_STRING: sprintf(end, "s'%s'", stk_json_text(json, v)); return;
    default: break;
    }
    const int object = v->kind == STK_JSON_OBJECT;
    uint32_t children = 0;
    sprintf(end, "%c", brackets[object][0]);
    for (const stk_json_value *c = stk_json_first(json, v); c; c = stk_json_next(json, c)) {
        if (children++) strcat(out, " ");
        if (object) sprintf(out + strlen(out), "%s=", stk_json_key(json, c));
        show(json, c, out);
    }
    sprintf(out + strlen(out), "%c", brackets[object][1]);
    assert_int_equal(children, v->count);
}

static void takes_what_is_json(void **state)
{
    (void)state;
    static const struct {
        const char *text, *shown;
    } cases[] = {
        { "{}", "{}" },
        { " [ ] \n", "[]" },
        { "0", "n0" },
        { "-0.5e+10", "n-0.5e+10" },
        { "[1,2.25 ,3E-7]", "[n1 n2.25 n3E-7]" },
        { "[true,false,null]", "[t f 0]" },
        { "{\"a\":{\"b\":[1,{\"c\":\"d\"}]},\"e\":[]}", "{a={b=[n1 {c=s'd'}]} e=[]}" },
        { "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "s'\"\\/\b\f\n\r\t'" },
        { "\"\\u0041\\u00e9\\u20AC\\ud83d\\ude00\"", "s'A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80'" },
        { "\"\\uFFFD \xef\xbf\xbd\"", "s'\xef\xbf\xbd \xef\xbf\xbd'" },
        { "\"\xf0\x9f\x98\x80\"", "s'\xf0\x9f\x98\x80'" },
        { "{\"\":1,\" \":2}", "{=n1  =n2}" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        stk_json json;
        stoke_error err;
        char shown[512] = "";
        if (read_some(&json, cases[i].text, strlen(cases[i].text), 100, &err))
            fail_msg("%s: %s", cases[i].text, err.message);
        show(&json, &json.values[0], shown);
        assert_string_equal(shown, cases[i].shown);
        stk_json_free(&json);
    }
}

static void refuses_what_is_not(void **state)
{
    (void)state;
    static const struct {
        const char *text, *told;
    } cases[] = {
        { "", "byte 0: there is no value" },
        { "  ", "there is no value" },
        { "{", "byte 1: the text ends early" },
        { "[", "ends early" },
        { "[1", "ends early" },
        { "[1,]", "no value starts" },
        { "{\"a\":1,}", "byte 7: a string is wanted" },
        { "{\"a\" 1}", "a colon" },
        { "{a:1}", "a string is wanted" },
        { "[1}", "comma or the closing" },
        { "[1] 2", "byte 4: more text" },
        { "01", "a zero in front" },
        { "-", "ends early" },
        { "+1", "no value starts" },
        { ".5", "no value starts" },
        { "1.", "ends early" },
        { "1.x", "after the point" },
        { "1e", "ends early" },
        { "1ex", "in the exponent" },
        { "NaN", "no value starts" },
        { "nul", "ends early" },
        { "tru", "ends early" },
        { "trux", "no value starts" },
        { "'a'", "no value starts" },
        { "\"abc", "ends early, within a string" },
        { "\"a\\", "no such escape" },
        { "\"\\x41\"", "no such escape" },
        { "\"\\u12g4\"", "hexadecimal" },
        { "\"\\u12", "hexadecimal" },
        { "\"\\u0000\"", "a zero character" },
        { "\"\\ud83d\"", "surrogate" },
        { "\"\\ud83d\\u0041\"", "surrogate" },
        { "\"\\ud83d\\ue000\"", "surrogate" },
        { "\"\\ude00\\ud83d\"", "surrogate" },
        { "\"\t\"", "control character" },
        { "\"\xff\"", "not UTF-8" },
        { "\"\xc0\x80\"", "not UTF-8" },
        { "\"\xed\xa0\x80\"", "not UTF-8" },
        { "\"\xe2\x82\"", "not UTF-8" },
        { "{\"a\":1,\"b\":2,\"a\":3}", "\"a\" stands twice" },
        { "{\"a\":1,\"\\u0061\":2}", "\"a\" stands twice" },
        { "[{\"x\":{\"a\":1,\"a\":3}}]", "\"a\" stands twice" },
        { "{\"\\n\":1,\"\\n\":2}", "\"\\n\" stands twice" },
        { "// hm\n1", "no value starts" },
        { "\xef\xbb\xbf{}", "no value starts" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        stk_json json;
        stoke_error err;
        if (!read_some(&json, cases[i].text, strlen(cases[i].text), 100, &err))
            fail_msg("took %s", cases[i].text);
        assert_int_equal(err.code, STOKE_E_FORMAT);
        if (!strstr(err.message, cases[i].told)) fail_msg("%s: %s", cases[i].text, err.message);
        assert_null(json.values);
        assert_null(json.text);
    }
    stk_json json;
    stoke_error err;
    assert_int_equal(read_some(&json, "\"a\0b\"", 5, 100, &err), STOKE_E_FORMAT);
    assert_int_equal(read_some(&json, "1\0", 2, 100, &err), STOKE_E_FORMAT);
}

static void keeps_its_limits(void **state)
{
    (void)state;
    stk_json json;
    stoke_error err;
    char text[4 * STK_JSON_DEPTH];
    for (int depth = STK_JSON_DEPTH; depth <= STK_JSON_DEPTH + 1; depth++) {
        memset(text, '[', (size_t)depth);
        memset(text + depth, ']', (size_t)depth);
        const int status = read_some(&json, text, 2 * (size_t)depth, 1000, &err);
        assert_int_equal(status, depth == STK_JSON_DEPTH ? STOKE_OK : STOKE_E_LIMIT);
        stk_json_free(&json);
    }
    assert_int_equal(read_some(&json, "[1,2,3]", 7, 4, &err), STOKE_OK);
    stk_json_free(&json);
    assert_int_equal(read_some(&json, "[1,2,3]", 7, 3, &err), STOKE_E_LIMIT);
    assert_string_equal(err.message, "more than 3 values");
}

/* 200,000 keys: squared comparisons would take minutes. */
static void many_keys_are_quick(void **state)
{
    (void)state;
    enum { KEYS = 200000 };
    char *text = malloc(KEYS * 16 + 16);
    for (int twin = 0; twin < 2; twin++) {
        size_t n = 0;
        text[n++] = '{';
        for (int i = 0; i < KEYS; i++)
            n += (size_t)sprintf(text + n, "\"%d\":1,", twin && i == KEYS - 1 ? 7 : i);
        text[n - 1] = '}';
        stk_json json;
        stoke_error err;
        assert_int_equal(read_some(&json, text, n, STK_JSON_VALUES, &err), twin ? STOKE_E_FORMAT : STOKE_OK);
        stk_json_free(&json);
    }
    free(text);
}

static void numbers_are_strict(void **state)
{
    (void)state;
    static const char text[] = "{\"a\":18446744073709551615,\"b\":18446744073709551616,\"c\":-1,\"d\":1.0,"
                               "\"e\":\"5\",\"f\":0.25,\"g\":1e999}";
    stk_json json;
    stoke_error err;
    assert_int_equal(read_some(&json, text, sizeof text - 1, 100, &err), STOKE_OK);
    const stk_json_value *root = &json.values[0];
    uint64_t whole = 3;
    double real = 3;
    assert_true(stk_json_uint(&json, stk_json_find(&json, root, "a"), &whole));
    assert_true(whole == UINT64_MAX);
    whole = 3;
    for (const char *key = "bcdeg"; *key; key++)
        assert_false(stk_json_uint(&json, stk_json_find(&json, root, (char[]){ *key, 0 }), &whole));
    assert_int_equal(whole, 3);
    assert_true(stk_json_real(&json, stk_json_find(&json, root, "f"), &real));
    assert_true(real == 0.25);
    assert_false(stk_json_real(&json, stk_json_find(&json, root, "e"), &real));
    assert_false(stk_json_real(&json, stk_json_find(&json, root, "g"), &real));
    assert_null(stk_json_find(&json, root, "z"));
    assert_null(stk_json_find(&json, NULL, "z"));
    assert_null(stk_json_text(&json, root));
    stk_json_free(&json);
}

static void survives_without_memory(void **state)
{
    (void)state;
    static const char text[] = "{\"a\":[1,2,3,4,5,6,7,8,9],\"b\":{\"c\":null}}";
    int status = STOKE_E_NOMEM;
    for (int after = 0; status; after++) {
        stk_json json;
        stoke_error err;
        stk_mem_fail_after(after);
        status = read_some(&json, text, sizeof text - 1, 100, &err);
        stk_mem_fail_after(-1);
        assert_true(status == STOKE_OK || status == STOKE_E_NOMEM);
        assert_true(status == STOKE_OK || after < 20);
        stk_json_free(&json);
    }
}

UNIT_GROUP(json_read)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_what_is_json), cmocka_unit_test(refuses_what_is_not),
        cmocka_unit_test(keeps_its_limits),   cmocka_unit_test(many_keys_are_quick),
        cmocka_unit_test(numbers_are_strict), cmocka_unit_test(survives_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
