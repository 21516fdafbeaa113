/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <stoke/tools/labels.h>

#include "src/base/mem.h"
#include "src/source/labels_internal.h"

static stoke_labels *make(const char *spec, uint32_t classes, int32_t ignore)
{
    stoke_labels *labels = NULL;
    stoke_error err = { 0 };
    int r = stoke_labels_create(&labels, spec, classes, ignore, &err);
    if (r) fail_msg("%s: %s", spec ? spec : "NULL", err.message);
    return labels;
}

static stoke_image view(void *data, uint32_t width, uint32_t height, uint8_t channels, uint8_t depth)
{
    return (stoke_image){ data, (size_t)width * channels * depth, width, height, channels, depth };
}

/* Maps one row of u8 values to u8 ids; returns the status. */
static int map8(const stoke_labels *labels, const uint8_t *values, uint8_t *ids, uint32_t n, stoke_error *err)
{
    uint8_t copy[2048];
    memcpy(copy, values, n);
    stoke_image mask = view(copy, n, 1, 1, 1), out = view(ids, n, 1, 1, 1);
    return stoke_labels_apply(labels, &mask, &out, err);
}

static void identity_checks_classes(void **state)
{
    stoke_labels *labels = make("identity", 12, 255);
    assert_int_equal(stoke_labels_depth(labels), 1);
    assert_int_equal(stoke_labels_are_colors(labels), 0);
    assert_null(stoke_labels_name(labels, 0));
    uint8_t good[5] = { 0, 11, 255, 3, 0 }, ids[200];
    assert_int_equal(map8(labels, good, ids, 5, NULL), STOKE_OK);
    assert_memory_equal(ids, good, 5);
    /* the message of the header, from a picture of many rows with padding between them */
    static uint8_t pixels[10 * 200];
    stoke_image mask = { pixels, 200, 150, 10, 1, 1 }, out = mask;
    memset(pixels, 99, sizeof pixels);
    for (int y = 0; y < 10; y++) memset(pixels + y * 200, 1, 150);
    stoke_error err;
    assert_int_equal(stoke_labels_apply(labels, &mask, &out, &err), STOKE_OK);
    pixels[4 * 200 + 120] = 37;
    pixels[4 * 200 + 130] = 38;
    pixels[9 * 200] = 39;
    assert_int_equal(stoke_labels_apply(labels, &mask, &out, &err), STOKE_E_LABEL);
    assert_string_equal(err.message, "value 37 at (x 120, y 4) is not a class (classes 12, ignore 255)");
    stoke_labels_destroy(&labels);
    assert_null(labels);
    stoke_labels_destroy(&labels);
}

static void identity_without_limits(void **state)
{
    stoke_labels *labels = make(NULL, 0, -1);
    uint8_t all[256], ids[256];
    for (int i = 0; i < 256; i++) all[i] = (uint8_t)i;
    assert_int_equal(map8(labels, all, ids, 256, NULL), STOKE_OK);
    assert_memory_equal(ids, all, 256);
    uint16_t wide[3] = { 0, 255, 256 };
    stoke_image mask = view(wide, 3, 1, 1, 2), out = view(ids, 3, 1, 1, 1);
    stoke_error err;
    assert_int_equal(stoke_labels_apply(labels, &mask, &out, &err), STOKE_E_LABEL);
    assert_string_equal(
        err.message, "value 256 at (x 2, y 0) is not a class (classes not set, ignore none): more than 256 "
                     "classes want `classes` and `ignore_index` 65535");
    stoke_labels_destroy(&labels);
}

/* Every value of both depths against the definition, for class counts on both sides of each limit. */
static void identity_agrees_with_its_definition(void **state)
{
    static const uint32_t classes[] = { 1, 2, 12, 254, 255, 256, 257, 300, 65536 };
    static const int32_t ignores[] = { -1, 0, 255, 65535 };
    for (size_t c = 0; c < sizeof classes / sizeof *classes; c++)
        for (size_t g = 0; g < 4; g++) {
            stoke_labels *labels = make("identity", classes[c], ignores[g]);
            uint8_t depth = stoke_labels_depth(labels);
            assert_int_equal(depth, classes[c] > 256 || ignores[g] > 255 ? 2 : 1);
            for (uint32_t v = 0; v < 65536; v += v < 600 || v > 65000 ? 1 : 97)
                for (uint8_t from = v < 256 ? 1 : 2; from <= 2; from++) {
                    uint16_t in = 0, id = 0;
                    if (from == 1)
                        *(uint8_t *)&in = (uint8_t)v;
                    else
                        in = (uint16_t)v;
                    stoke_image mask = view(&in, 1, 1, 1, from), out = view(&id, 1, 1, 1, depth);
                    int good = v < classes[c] || (int64_t)v == ignores[g];
                    assert_int_equal(stoke_labels_apply(labels, &mask, &out, NULL), good ? 0 : STOKE_E_LABEL);
                    if (good) assert_int_equal(depth == 1 ? *(uint8_t *)&id : id, v);
                }
            stoke_labels_destroy(&labels);
        }
}

static void lists_of_values(void **state)
{
    stoke_labels *labels = make(" 0:0, 255 : 1 ", 2, -1);
    uint8_t ids[8];
    assert_int_equal(map8(labels, (uint8_t[]){ 255, 0, 255 }, ids, 3, NULL), STOKE_OK);
    assert_memory_equal(ids, ((uint8_t[]){ 1, 0, 1 }), 3);
    stoke_error err;
    assert_int_equal(map8(labels, (uint8_t[]){ 255, 0, 254 }, ids, 3, &err), STOKE_E_LABEL);
    assert_string_equal(
        err.message,
        "value 254 at (x 2, y 0) is not in the label map (classes 2, ignore none): a `,*` at its end "
        "keeps what it does not name");
    stoke_labels_destroy(&labels);

    labels = make("0:0,255:1,*:ignore", 2, 200);
    assert_int_equal(map8(labels, (uint8_t[]){ 255, 7, 200, 0 }, ids, 4, NULL), STOKE_OK);
    assert_memory_equal(ids, ((uint8_t[]){ 1, 200, 200, 0 }), 4);
    stoke_labels_destroy(&labels);

    labels = make("*:3,5:0", 4, 255);
    assert_int_equal(map8(labels, (uint8_t[]){ 5, 255, 9 }, ids, 3, NULL), STOKE_OK);
    assert_memory_equal(ids, ((uint8_t[]){ 0, 3, 3 }), 3);
    stoke_labels_destroy(&labels);

    /* not listed, but what is ignored in the file stays so; listed, the list counts */
    labels = make("0:0,1:1", 2, 255);
    assert_int_equal(map8(labels, (uint8_t[]){ 255, 1 }, ids, 2, NULL), STOKE_OK);
    assert_memory_equal(ids, ((uint8_t[]){ 255, 1 }), 2);
    stoke_labels_destroy(&labels);
    labels = make("0:0,255:1", 2, 255);
    assert_int_equal(map8(labels, (uint8_t[]){ 255, 0 }, ids, 2, NULL), STOKE_OK);
    assert_memory_equal(ids, ((uint8_t[]){ 1, 0 }), 2);
    stoke_labels_destroy(&labels);
}

/* `*` alone: what the list does not name stays as it is, if it is a class. */
static void lists_that_keep_the_rest(void **state)
{
    static const char *const specs[] = { "11:255,*", "*,11:255", " 11 : ignore , * " };
    uint8_t ids[8];
    stoke_error err;
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
        for (uint32_t classes = 0; classes < 12; classes += 11) {
            stoke_labels *labels = make(specs[i], classes, 255);
            assert_int_equal(map8(labels, (uint8_t[]){ 0, 10, 11, 255, 3 }, ids, 5, NULL), STOKE_OK);
            assert_memory_equal(ids, ((uint8_t[]){ 0, 10, 255, 255, 3 }), 5);
            assert_int_equal(map8(labels, (uint8_t[]){ 12 }, ids, 1, &err),
                             classes ? STOKE_E_LABEL : STOKE_OK);
            if (classes)
                assert_string_equal(err.message,
                                    "value 12 at (x 0, y 0) is not a class (classes 11, ignore 255)");
            stoke_labels_destroy(&labels);
        }
    stoke_labels *labels = NULL;
    assert_int_equal(stoke_labels_create(&labels, "*,1:2,*", 0, 255, &err), STOKE_E_INVALID);
    assert_int_equal(stoke_labels_create(&labels, "*,1:2,*:0", 0, 255, &err), STOKE_E_INVALID);
    (void)state;
}

/* Sets whose last value is the one without a class are the usual case. */
static void the_value_behind_the_last_class(void **state)
{
    stoke_labels *labels = make(NULL, 11, 255);
    uint8_t ids[1];
    stoke_error err;
    assert_int_equal(map8(labels, (uint8_t[]){ 11 }, ids, 1, &err), STOKE_E_LABEL);
    assert_string_equal(err.message, "value 11 at (x 0, y 0) is not a class (classes 11, ignore 255): set "
                                     "`classes` higher, or, if it means no class, `ignore_index` 11");
    stoke_labels_destroy(&labels);
    (void)state;
}

static void wide_values_and_ids(void **state)
{
    stoke_labels *labels = make("40000:1,0:300", 0, -1);
    assert_int_equal(stoke_labels_depth(labels), 2);
    uint16_t in[2] = { 40000, 0 }, ids[2];
    stoke_image mask = view(in, 2, 1, 1, 2), out = view(ids, 2, 1, 1, 2);
    assert_int_equal(stoke_labels_apply(labels, &mask, &out, NULL), STOKE_OK);
    assert_int_equal(ids[0], 1);
    assert_int_equal(ids[1], 300);
    stoke_labels_destroy(&labels);
}

/* In place, over more than one piece, an error must still name the value that was there. */
static void in_place(void **state)
{
    stoke_labels *labels = make("0:1,1:0", 2, -1);
    uint8_t row[1300];
    for (int i = 0; i < 1300; i++) row[i] = (uint8_t)(i & 1);
    row[1201] = 77;
    stoke_image mask = view(row, 1300, 1, 1, 1);
    stoke_error err;
    assert_int_equal(stoke_labels_apply(labels, &mask, &mask, &err), STOKE_E_LABEL);
    assert_non_null(strstr(err.message, "value 77 at (x 1201, y 0)"));
    for (int i = 0; i < 1300; i++) row[i] = (uint8_t)(i & 1);
    assert_int_equal(stoke_labels_apply(labels, &mask, &mask, &err), STOKE_OK);
    for (int i = 0; i < 1300; i++) assert_int_equal(row[i], !(i & 1));
    stoke_labels_destroy(&labels);
}

static void bad_specs(void **state)
{
    static const struct {
        const char *spec;
        uint32_t classes;
        int32_t ignore;
        int code;
        const char *message;
    } cases[] = {
        { "0:0,1", 0, -1, STOKE_E_INVALID, "`:` is expected at `1`" },
        { "0:0,1:x", 0, -1, STOKE_E_INVALID, "class id" },
        { "0:0,70000:1", 0, -1, STOKE_E_INVALID, "mask value" },
        { "0:70000", 0, -1, STOKE_E_INVALID, "class id" },
        { "0:0;1:1", 0, -1, STOKE_E_INVALID, "`,` is expected" },
        { "0:0,0:1", 0, -1, STOKE_E_INVALID, "already mapped at `0:1`" },
        { "*:0,*:1", 0, -1, STOKE_E_INVALID, "already mapped" },
        { "0:2", 2, -1, STOKE_E_INVALID, "not below" },
        { "0:ignore", 2, -1, STOKE_E_INVALID, "needs an ignore_index" },
        { "0:99999999999999999999", 0, -1, STOKE_E_INVALID, "class id" },
        { "identical", 0, -1, STOKE_E_NOTFOUND, "`identical` is not" },
        { "identity", 65537, -1, STOKE_E_INVALID, "classes" },
        { "identity", 0, 65536, STOKE_E_INVALID, "ignore_index" },
        { "identity", 0, -2, STOKE_E_INVALID, "ignore_index" },
        { "/", 0, -1, STOKE_E_IO, "not a regular file" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        stoke_labels *labels;
        stoke_error err;
        int r = stoke_labels_create(&labels, cases[i].spec, cases[i].classes, cases[i].ignore, &err);
        if (r != cases[i].code || !strstr(err.message, cases[i].message))
            fail_msg("%s: %d %s", cases[i].spec, r, err.message);
        assert_null(labels);
    }
}

/* From classes to what stands in mask files. */
static void the_way_back(void **state)
{
    static const char text[] = "128 0 0 building\n9 8 7 sky\n64 0 128 0\n1 1 1 ignore\n";
    uint16_t value = 77;
    uint8_t rgb[3] = { 0 };
    stoke_labels *labels = make("0:0,255:1,254:1,7:ignore", 2, 255);
    assert_int_equal(stoke_labels_value(labels, 0, &value), 1);
    assert_int_equal(value, 0);
    assert_int_equal(stoke_labels_value(labels, 1, &value), 1);
    assert_int_equal(value, 254);
    assert_int_equal(stoke_labels_value(labels, 2, &value), 0);
    assert_int_equal(stoke_labels_color(labels, 1, rgb), 0);
    stoke_labels_destroy(&labels);
    labels = make(NULL, 12, 255);
    assert_int_equal(stoke_labels_value(labels, 11, &value), 1);
    assert_int_equal(value, 11);
    stoke_labels_destroy(&labels);
    unit_write(unit_path(state, "colors.txt"), text, sizeof text - 1);
    labels = make(unit_path(state, "colors.txt"), 2, 255);
    assert_int_equal(stoke_labels_color(labels, 0, rgb), 1);
    assert_memory_equal(rgb, ((uint8_t[]){ 64, 0, 128 }), 3);
    assert_int_equal(stoke_labels_color(labels, 1, rgb), 1);
    assert_memory_equal(rgb, ((uint8_t[]){ 9, 8, 7 }), 3);
    assert_int_equal(stoke_labels_color(labels, 2, rgb), 0);
    assert_int_equal(stoke_labels_value(labels, 0, &value), 0);
    stoke_labels_destroy(&labels);
}

static void color_files(void **state)
{
    static const char text[] = "# CamVid\n128 128 128 sky\n128 0 0 building # old\n\n"
                               "192,192,128 7 pole with lamp\r\n0 0 0 ignore\n64 0 128 1\n1 2 3";
    unit_write(unit_path(state, "colors.txt"), text, sizeof text - 1);
    stoke_labels *labels = make(unit_path(state, "colors.txt"), 8, 255);
    assert_int_equal(stoke_labels_are_colors(labels), 1);
    assert_int_equal(stoke_labels_depth(labels), 1);
    assert_string_equal(stoke_labels_name(labels, 0), "sky");
    assert_string_equal(stoke_labels_name(labels, 1), "building");
    assert_string_equal(stoke_labels_name(labels, 7), "pole with lamp");
    assert_null(stoke_labels_name(labels, 5));
    assert_null(stoke_labels_name(labels, 100000));
    uint8_t rgb[6][3] = { { 128, 0, 0 },     { 128, 128, 128 }, { 0, 0, 0 },
                          { 192, 192, 128 }, { 64, 0, 128 },    { 1, 2, 3 } };
    uint8_t ids[6], wanted[6] = { 1, 0, 255, 7, 1, 5 };
    stoke_image mask = view(rgb, 3, 2, 3, 1), out = view(ids, 3, 2, 1, 1);
    stoke_error err;
    assert_int_equal(stoke_labels_apply(labels, &mask, &out, &err), STOKE_OK);
    assert_memory_equal(ids, wanted, 6);
    rgb[4][2] = 129;
    assert_int_equal(stoke_labels_apply(labels, &mask, &out, &err), STOKE_E_LABEL);
    assert_string_equal(err.message,
                        "colour 64 0 129 at (x 1, y 1) is not in the label map (classes 8, ignore 255)");
    mask.channels = 1;
    assert_int_equal(stoke_labels_apply(labels, &mask, &out, &err), STOKE_E_LABEL);
    stoke_labels_destroy(&labels);
    labels = make("identity", 0, -1);
    mask.channels = 3;
    assert_int_equal(stoke_labels_apply(labels, &mask, &out, &err), STOKE_E_LABEL);
    mask.channels = 1;
    out.width = 2;
    assert_int_equal(stoke_labels_apply(labels, &mask, &out, &err), STOKE_E_INVALID);
    stoke_labels_destroy(&labels);
}

static int parse(const char *text, size_t size, uint32_t classes, int32_t ignore, stoke_error *err)
{
    stoke_labels *labels;
    assert_int_equal(stk_labels_new(&labels, classes, ignore, err), STOKE_OK);
    int r = stk_labels_parse_colors(labels, "c", text, size, err);
    stoke_labels_destroy(&labels);
    return r;
}

static void bad_color_files(void **state)
{
    static const struct {
        const char *text;
        uint32_t classes;
        int32_t ignore;
        const char *message;
    } cases[] = {
        { "# only a comment\n", 0, -1, "c: no colour" },
        { "1 2\n", 0, -1, "c:1: three numbers" },
        { "1 2 3\n1 2 256\n", 0, -1, "c:2: three numbers" },
        { "1 2 3\n\n1 2 3 5\n", 0, -1, "c:3: colour 1 2 3 is already" },
        { "1 2 3 70000\n", 0, -1, "c:1: a class id" },
        { "1 2 3 7up\n", 0, -1, "c:1: a class id" },
        { "1 2 3 2\n", 2, -1, "c:1: the class id is not below" },
        { "1 2 3 ignore\n", 2, -1, "c:1: `ignore` needs" },
        { "1 2 3\n1 2 4\n1 2 5\n", 2, -1, "c:3: more lines" },
        { "1 2 3 a\x01"
          "b\n",
          0, -1, "c:1: the name of class 0 has a control" },
        { "1 2 x3\n", 0, -1, "c:1: three numbers" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        stoke_error err;
        assert_int_equal(parse(cases[i].text, strlen(cases[i].text), cases[i].classes, cases[i].ignore, &err),
                         STOKE_E_INVALID);
        if (!strstr(err.message, cases[i].message)) fail_msg("%s: %s", cases[i].text, err.message);
    }
    stoke_error err;
    assert_int_equal(parse("1 2 3 ignored-name\n", 19, 1, -1, &err), STOKE_OK); /* a name, not `ignore` */
    assert_int_equal(parse("1 2 3 a\0b\n", 10, 0, -1, &err), STOKE_E_INVALID);
}

/* A table of thousands of colours: each is found, and none beside them. */
static void large_color_tables(void **state)
{
    enum { N = 5000 };
    char *text = malloc(N * 40);
    size_t size = 0;
    for (int i = 0; i < N; i++)
        size += (size_t)sprintf(text + size, "%d %d %d\n", i % 50, i / 50 % 50 * 2, i / 2500);
    stoke_labels *labels;
    stoke_error err;
    assert_int_equal(stk_labels_new(&labels, 0, -1, &err), STOKE_OK);
    assert_int_equal(stk_labels_parse_colors(labels, "c", text, size, &err), STOKE_OK);
    free(text);
    assert_int_equal(stoke_labels_depth(labels), 2);
    for (int i = 0; i < N; i++) {
        uint8_t rgb[3] = { (uint8_t)(i % 50), (uint8_t)(i / 50 % 50 * 2), (uint8_t)(i / 2500) };
        uint16_t id;
        stoke_image mask = view(rgb, 1, 1, 3, 1), out = view(&id, 1, 1, 1, 2);
        assert_int_equal(stoke_labels_apply(labels, &mask, &out, &err), STOKE_OK);
        assert_int_equal(id, i);
        rgb[1]++;
        assert_int_equal(stoke_labels_apply(labels, &mask, &out, &err), STOKE_E_LABEL);
    }
    stoke_labels_destroy(&labels);
}

static void running_out_of_memory_is_an_error(void **state)
{
    unit_write(unit_path(state, "c.txt"), "1 2 3 car\n4 5 6 bus\n", 20);
    const char *specs[] = { "identity", "0:0", unit_path(state, "c.txt") };
    for (int s = 0; s < 3; s++) {
        int r = STOKE_E_NOMEM;
        for (int64_t after = 0; r == STOKE_E_NOMEM; after++) {
            stoke_labels *labels;
            stk_mem_fail_after(after);
            r = stoke_labels_create(&labels, specs[s], 0, -1, NULL);
            stk_mem_fail_after(-1);
            assert_int_equal(labels != NULL, r == STOKE_OK);
            stoke_labels_destroy(&labels);
        }
        assert_int_equal(r, STOKE_OK);
    }
}

UNIT_GROUP(labels)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(identity_checks_classes),
        cmocka_unit_test(identity_without_limits),
        cmocka_unit_test(identity_agrees_with_its_definition),
        cmocka_unit_test(lists_of_values),
        cmocka_unit_test(lists_that_keep_the_rest),
        cmocka_unit_test(the_value_behind_the_last_class),
        cmocka_unit_test(wide_values_and_ids),
        cmocka_unit_test(in_place),
        cmocka_unit_test(bad_specs),
        unit_test_with_folder(the_way_back),
        unit_test_with_folder(color_files),
        cmocka_unit_test(bad_color_files),
        cmocka_unit_test(large_color_tables),
        unit_test_with_folder(running_out_of_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
