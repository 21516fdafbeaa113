/* SPDX-License-Identifier: Apache-2.0
 *
 * The YAML splice on the corpus of tests/yaml (one file per case, byte for byte), and what a corpus cannot
 * show: limits, reading, memory that runs out, files that are written, a proof that can fail.
 */
#include <stoke/tools/optimize.h>

#include "src/base/mem.h"
#include "src/settings/yaml_tree.h"
#include "tests/unit/unit.h"

/* ---- the corpus ---- */

typedef struct yaml_case {
    char *name, *outcome, *edits[16];
    size_t n_edits;
} yaml_case;

static const char *corpus(const char *name, const char *ending)
{
    static char path[4096];
    const char *root = getenv("STOKE_TEST_YAML");
    snprintf(path, sizeof path, "%s/%s%s", root ? root : "tests/yaml", name, ending);
    return path;
}

static char *whole_file(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    if (!f) fail_msg("%s cannot be opened", path);
    char *text = malloc(1 << 16);
    *size = fread(text, 1, 1 << 16, f);
    assert_true(*size < 1 << 16);
    text[*size] = 0;
    fclose(f);
    return text;
}

/* Cuts a line of cases.tsv in place; \x07 becomes that byte. */
static yaml_case cut_line(char *line)
{
    yaml_case c = { 0 };
    line[strcspn(line, "\n")] = 0;
    c.name = strtok(line, "\t");
    c.outcome = strtok(NULL, "\t");
    for (char *word; (word = strtok(NULL, "\t"));) {
        char *bell = strstr(word, "\\x07");
        if (bell) *bell = 7, memmove(bell + 1, bell + 4, strlen(bell + 4) + 1);
        assert_true(c.n_edits < 16);
        c.edits[c.n_edits++] = word;
    }
    return c;
}

static int set_all(stoke_yaml *yaml, const yaml_case *c, stoke_error *err)
{
    int r = 0;
    for (size_t i = 0; !r && i < c->n_edits; i++) {
        char path[256];
        const char *equals = strchr(c->edits[i], '=');
        snprintf(path, sizeof path, "%.*s", (int)(equals - c->edits[i]), c->edits[i]);
        r = stoke_yaml_set(yaml, path, equals + 1, err);
    }
    return r;
}

static void check_result(const yaml_case *c, const char *text, size_t bytes, const stoke_yaml_proof *proof)
{
    size_t size;
    char *want = whole_file(corpus(c->name, ".want"), &size);
    if (bytes != size || memcmp(text, want, size) != 0)
        fail_msg("%s: got\n%.*s\nwanted\n%s", c->name, (int)bytes, text, want);
    assert_true(proof->bytes_equal && proof->tree_equal);
    assert_int_equal(proof->bytes_after, size);
    assert_true(proof->bytes_kept <= proof->bytes_before && proof->bytes_kept <= size);
    free(want);
}

static void check_refusal(const yaml_case *c, int r, const char *message)
{
    char where[128];
    int length = 0;
    unsigned line = 0;
    assert_int_equal(sscanf(c->outcome, "refuse %u %n", &line, &length), 1);
    const char *reason = c->outcome + length;
    snprintf(where, sizeof where, "%s.yaml:%u: ", c->name, line);
    if (!r) fail_msg("%s: not refused, wanted: %s", c->name, reason);
    if (!strstr(message, reason) || (line && !strstr(message, where)))
        fail_msg("%s: '%s' does not have '%s' and '%s'", c->name, message, where, reason);
}

static void every_case(void **state)
{
    (void)state;
    char line[2048];
    size_t cases = 0, refused = 0;
    FILE *table = fopen(corpus("cases", ".tsv"), "r");
    assert_non_null(table);
    while (fgets(line, sizeof line, table)) {
        if (*line == '#') continue;
        yaml_case c = cut_line(line);
        stoke_yaml *yaml = NULL;
        stoke_error err = { 0 };
        stoke_yaml_proof proof;
        const char *text = NULL;
        size_t bytes;
        int r = stoke_yaml_open_checked(&yaml, corpus(c.name, ".yaml"), &err);
        if (!r) r = set_all(yaml, &c, &err);
        if (!r) r = stoke_yaml_text(yaml, &text, &bytes, &proof, &err);
        cases++;
        if (!strcmp(c.outcome, "ok")) {
            if (r) fail_msg("%s: %s", c.name, err.message);
            check_result(&c, text, bytes, &proof);
        } else {
            check_refusal(&c, r, err.message);
            refused++;
        }
        stoke_yaml_close(&yaml);
    }
    fclose(table);
    assert_true(cases >= 100 && refused >= 30);
}

/* ---- reading ---- */

static stoke_yaml *parsed(const char *text)
{
    stoke_yaml *yaml = NULL;
    stoke_error err = { 0 };
    if (stoke_yaml_parse(&yaml, text, strlen(text), "test.yaml", &err)) fail_msg("%s", err.message);
    return yaml;
}

static int count_merged(void *context, const char *path, const stoke_yaml_value *value)
{
    assert_string_equal(path, "g.f");
    assert_string_equal(value->text, "9");
    ++*(size_t *)context;
    return 0;
}

static void values(void **state)
{
    (void)state;
    stoke_yaml *yaml = parsed("a: 1 # c\nb:\n  - x\n  - {c: 'two'}\n\"d.e\": \"\\u4e2d\"\nbase: &b {f: 9}\n"
                              "g:\n  <<: *b\nh: *b\n? [k]\n: v\ni: !!str 5\n");
    static const struct {
        const char *path, *text;
        unsigned line;
        int quoted, fixed;
    } wanted[] = {
        { "a", "1", 1, 0, 0 },        { "b[0]", "x", 3, 0, 0 },   { "b[1].c", "two", 4, 1, 0 },
        { "\"d.e\"", "中", 5, 1, 0 }, { "base.f", "9", 6, 0, 1 }, { "i", "5", 12, 0, 1 },
    };
    stoke_yaml_value value;
    const char *path;
    size_t n = 0;
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        assert_true(stoke_yaml_at(yaml, n, &path, &value));
        assert_string_equal(path, wanted[i].path);
        n++;
        for (int by_path = 0; by_path < 2; by_path++) {
            if (by_path) assert_true(stoke_yaml_get(yaml, wanted[i].path, &value));
            assert_string_equal(value.text, wanted[i].text);
            assert_int_equal(value.line, wanted[i].line);
            assert_int_equal(value.quoted, wanted[i].quoted);
            assert_int_equal(value.fixed != NULL, wanted[i].fixed);
        }
    }
    assert_false(stoke_yaml_at(yaml, n, &path, &value)); /* below a key that is a list there are no names */
    assert_true(stoke_yaml_get(yaml, "g.f", &value) && !value.fixed); /* it is written out in g */
    assert_string_equal(value.text, "9");
    assert_true(stoke_yaml_get(yaml, "h.f", &value) && strstr(value.fixed, "alias"));
    size_t merged = 0;
    assert_int_equal(stoke_yaml_merged(yaml, count_merged, &merged), 0);
    assert_int_equal(merged, 1);
    static const char *const none[] = { "",    "x",   "a.b", "b",  "b[2]",  "b[x]",
                                        "b[1", "[0]", "a.",  ".a", "\"d.e", "b[99999999999]" };
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        assert_false(stoke_yaml_get(yaml, none[i], &value));
        assert_null(value.text);
    }
    stoke_yaml_close(&yaml);
    stoke_yaml_close(&yaml);
}

static void bad_requests(void **state)
{
    (void)state;
    stoke_yaml *yaml = parsed("a: 1\n");
    stoke_error err = { 0 };
    char *large = malloc(STK_YAML_VALUE + 2);
    memset(large, 'x', STK_YAML_VALUE + 1);
    large[STK_YAML_VALUE + 1] = 0;
    assert_int_equal(stoke_yaml_set(yaml, "a[", "1", &err), STOKE_E_INVALID);
    assert_int_equal(stoke_yaml_set(yaml, "a", "\xff", &err), STOKE_E_INVALID);
    assert_int_equal(stoke_yaml_set(yaml, "b", "\xff", &err), STOKE_E_INVALID);
    assert_int_equal(stoke_yaml_set(yaml, "a", large, &err), STOKE_E_LIMIT);
    assert_int_equal(stoke_yaml_set(yaml, "b.c", "1", &err), STOKE_E_NOTFOUND);
    assert_int_equal(stoke_yaml_set(yaml, "a", large + 1, &err), STOKE_OK);
    assert_int_equal(stoke_yaml_set(yaml, "a", "1", &err), STOKE_OK); /* back to what it was: no change */
    stoke_yaml_proof proof;
    const char *text;
    size_t bytes;
    assert_int_equal(stoke_yaml_text(yaml, &text, &bytes, &proof, &err), STOKE_OK);
    assert_string_equal(text, "a: 1\n");
    assert_int_equal(proof.spans, 0);
    assert_int_equal(proof.bytes_kept, 5);
    stoke_yaml_close(&yaml);
    free(large);
}

static int parse_many(const char *piece, size_t times, const char *before, const char *after)
{
    const size_t n = strlen(piece), a = strlen(before), b = strlen(after);
    char *text = malloc(a + n * times + b);
    memcpy(text, before, a);
    for (size_t i = 0; i < times; i++) memcpy(text + a + i * n, piece, n);
    memcpy(text + a + n * times, after, b);
    stoke_yaml *yaml = NULL;
    stoke_error err = { 0 };
    const int r = stoke_yaml_parse(&yaml, text, a + n * times + b, "large.yaml", &err);
    assert_true(!r == !!yaml && !r == !err.message[0]);
    stoke_yaml_close(&yaml);
    free(text);
    return r;
}

static void limits(void **state)
{
    (void)state;
    assert_int_equal(parse_many("# comment\n", 400000, "a: 1\n", ""), STOKE_OK);
    assert_int_equal(parse_many("# comment\n", 420000, "a: 1\n", ""), STOKE_E_LIMIT);
    assert_int_equal(parse_many("x,", STK_YAML_NODES - 3, "a: [", "]"), STOKE_OK);
    assert_int_equal(parse_many("x,", STK_YAML_NODES, "a: [", "]"), STOKE_E_LIMIT);
    assert_int_equal(parse_many("[", STK_YAML_DEPTH, "a: ", ""), STOKE_E_LIMIT);
    assert_int_equal(parse_many("&x 1,", STK_YAML_ANCHORS, "a: [", "]"), STOKE_OK);
    assert_int_equal(parse_many("&x 1,", STK_YAML_ANCHORS + 1, "a: [", "]"), STOKE_E_LIMIT);
    assert_int_equal(parse_many("k", 300, "", ": {a: 1}"), STOKE_OK); /* a key too long for a path */
}

/* ---- failures ---- */

/* Every allocation of ours fails once; no leak, no result, and a code that says it. */
static void no_memory(void **state)
{
    (void)state;
    static const char text[] = "a: &x 1\nb: [2, 3]\nc:\n  d: *x\n";
    int done = 0, failures = 0;
    for (int after = 0; !done; after++) {
        stoke_yaml *yaml = NULL;
        stoke_yaml_proof proof;
        const char *result = NULL;
        size_t bytes;
        stk_mem_fail_after(after);
        int r = stoke_yaml_parse(&yaml, text, sizeof text - 1, "m.yaml", NULL);
        if (!r) r = stoke_yaml_set(yaml, "b[1]", "30", NULL);
        if (!r) r = stoke_yaml_set(yaml, "c.e", "5", NULL);
        if (!r) r = stoke_yaml_text(yaml, &result, &bytes, &proof, NULL);
        stk_mem_fail_after(-1);
        done = r == STOKE_OK;
        failures += r != STOKE_OK;
        if (r) assert_true(r == STOKE_E_NOMEM || (r == STOKE_E_STATE && !result)); /* the proof had none */
        if (!r) assert_string_equal(result, "a: &x 1\nb: [2, 30]\nc:\n  d: *x\n  e: 5\n");
        stoke_yaml_close(&yaml);
        assert_true(after < 500);
    }
    assert_true(failures > 8); /* the strings share a block */
}

/* The proof looks at the result, not at the plan: plans that would do harm do not get through. */
static void proof_fails(void **state)
{
    (void)state;
    static const struct {
        const char *text, *value;
        size_t begin, end;
    } plans[] = {
        { "32 # ", "32", 7, 9 },    /* another value changes too */
        { "32\nx: 1", "32", 3, 5 }, /* a key that nobody asked for */
        { "33", "32", 3, 5 },       /* not the value that was asked for */
        { "[32]", "32", 3, 5 },     /* another kind */
        { "!!str 32", "32", 3, 5 }, /* another type */
        { "32]", "32", 3, 5 },      /* no YAML */
    };
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        stoke_yaml *yaml = parsed("a: 16\nb: 2\n");
        stoke_yaml_proof proof;
        stoke_error err = { 0 };
        const char *text;
        size_t bytes;
        assert_int_equal(stoke_yaml_set(yaml, "a", "32", &err), STOKE_OK);
        yaml->edits[0].text = plans[i].text;
        yaml->edits[0].length = strlen(plans[i].text);
        yaml->edits[0].begin = plans[i].begin;
        yaml->edits[0].end = plans[i].end;
        assert_int_equal(stoke_yaml_text(yaml, &text, &bytes, &proof, &err), STOKE_E_STATE);
        assert_null(text);
        assert_false(proof.tree_equal);
        assert_non_null(strstr(err.message, "left as it is"));
        stoke_yaml_close(&yaml);
    }
}

/* By optimize, which is who writes such files: whole or not at all, with the mode of the file that was there.
 */
static void written(void **state)
{
    const char *source = unit_path(state, "x.yaml"), *target = unit_path(state, "y.yaml");
    stoke_optimize_params ask = stoke_optimize_defaults();
    stoke_optimization *plan = NULL;
    stoke_yaml *yaml = NULL;
    stoke_error err = { 0 };
    stoke_yaml_proof proof;
    struct stat st;
    size_t size;
    unit_write(source, "num_workers: 0 # here\n", 22);
    unit_write(target, "old", 3);
    assert_int_equal(chmod(target, 0640), 0);
    ask.config = source;
    ask.gpu = "rtx3090";
    ask.cores = 8;
    if (stoke_optimize(&plan, &ask, &err)) fail_msg("%s", err.message);
    assert_int_equal(stoke_optimization_write(plan, target, &proof, &err), STOKE_OK);
    assert_true(proof.spans > 0 && proof.bytes_equal && proof.tree_equal);
    assert_int_equal(stat(target, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0640);
    char *text = whole_file(target, &size);
    assert_non_null(strstr(text, " # here\n"));
    free(text);
    assert_int_equal(stoke_optimization_write(plan, unit_path(state, "no/where.yaml"), &proof, &err),
                     STOKE_E_IO);
    stoke_optimization_destroy(&plan);
    assert_int_equal(stoke_yaml_open_checked(&yaml, unit_path(state, "none.yaml"), &err), STOKE_E_NOTFOUND);
    assert_null(yaml);
}

UNIT_GROUP(yaml_edit)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_case),   cmocka_unit_test(values),    cmocka_unit_test(bad_requests),
        cmocka_unit_test(limits),       cmocka_unit_test(no_memory), cmocka_unit_test(proof_fails),
        unit_test_with_folder(written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
