/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <math.h>
#include <sys/ioctl.h>
#include <termios.h>

#include <stoke/tools/report.h>

#include "src/base/mem.h"
#include "src/report/progress.h"

/* ---- JSON ---- */

static void json_nests_and_quotes(void **state)
{
    char *text;
    size_t size;
    stoke_json json;
    FILE *out = open_memstream(&text, &size);
    stoke_json_begin(&json, out, 0);
    stoke_json_object(&json, NULL);
    stoke_json_string(&json, "na\"me",
                      "a\\b\n\r\t\x01\x7f"
                      "e\xc3\xa9");
    stoke_json_string(&json, "bad", "x\xff\xe2\x82y");
    stoke_json_string(&json, "none", NULL);
    stoke_json_int(&json, "i", INT64_MIN);
    stoke_json_uint(&json, "u", UINT64_MAX);
    stoke_json_array(&json, "list");
    stoke_json_real(&json, NULL, 0.1);
    stoke_json_real(&json, NULL, NAN);
    stoke_json_real(&json, NULL, INFINITY);
    stoke_json_object(&json, NULL);
    stoke_json_close(&json);
    stoke_json_array(&json, NULL);
    stoke_json_close(&json);
    stoke_json_bool(&json, NULL, 7);
    stoke_json_null(&json, NULL);
    stoke_json_close(&json);
    stoke_json_bool(&json, "last", 0);
    stoke_json_close(&json);
    stoke_json_close(&json); /* one too many: no harm */
    fclose(out);
    assert_string_equal(text, "{\"na\\\"me\": \"a\\\\b\\n\\r\\t\\u0001\\u007fe\xc3\xa9\", "
                              "\"bad\": \"x\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdy\", \"none\": null, "
                              "\"i\": -9223372036854775808, \"u\": 18446744073709551615, "
                              "\"list\": [0.1, null, null, {}, [], true, null], \"last\": false}\n");
    free(text);
}

static void json_indents(void **state)
{
    char *text;
    size_t size;
    stoke_json json;
    FILE *out = open_memstream(&text, &size);
    stoke_json_begin(&json, out, 2);
    stoke_json_object(&json, NULL);
    stoke_json_int(&json, "a", 1);
    stoke_json_array(&json, "b");
    stoke_json_int(&json, NULL, 2);
    stoke_json_int(&json, NULL, 3);
    stoke_json_close(&json);
    stoke_json_object(&json, "c");
    stoke_json_close(&json);
    stoke_json_close(&json);
    fclose(out);
    assert_string_equal(text, "{\n  \"a\": 1,\n  \"b\": [\n    2,\n    3\n  ],\n  \"c\": {}\n}\n");
    free(text);
}

/* Deeper than there are bits: still balanced, still valid. */
static void json_too_deep_stays_valid(void **state)
{
    char *text;
    size_t size;
    stoke_json json;
    FILE *out = open_memstream(&text, &size);
    stoke_json_begin(&json, out, 0);
    for (int i = 0; i < 100; i++) stoke_json_array(&json, NULL);
    stoke_json_int(&json, NULL, 1);
    for (int i = 0; i < 100; i++) stoke_json_close(&json);
    fclose(out);
    char expected[256];
    memset(expected, '[', 64);
    memcpy(expected + 64, "null", 4);
    memset(expected + 68, ']', 64);
    strcpy(expected + 132, "\n");
    assert_string_equal(text, expected);
    free(text);
}

/* ---- tables ---- */

static char *printed(const stoke_table *table, void (*how)(const stoke_table *, FILE *))
{
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    how(table, out);
    fclose(out);
    return text;
}

static void table_aligns_numbers(void **state)
{
    const char *headings[] = { "stage", "cpu", "note" };
    const char *rows[][3] = { { "decode", "1.2 ms", "a" },
                              { "wait", NULL, "b\x1b[31mc" },
                              { "\xc3\xbc", "-12.5 ms", NULL } };
    stoke_table *table = stoke_table_create(headings, 3);
    for (int i = 0; i < 3; i++) stoke_table_row(table, rows[i]);
    char *text = printed(table, stoke_table_print);
    assert_string_equal(text, "stage        cpu  note\n"
                              "------  --------  ----------\n"
                              "decode    1.2 ms  a\n"
                              "wait         n/a  b\\x1b[31mc\n"
                              "\xc3\xbc       -12.5 ms  n/a\n");
    free(text);
    stoke_table_destroy(&table);
    assert_null(table);
    stoke_table_destroy(&table);
}

static void table_csv_follows_rfc4180(void **state)
{
    const char *headings[] = { "path", "reason" };
    const char *rows[][2] = { { "a,b", "say \"no\"" }, { "line\nbreak", NULL }, { "plain", "" } };
    stoke_table *table = stoke_table_create(headings, 2);
    for (int i = 0; i < 3; i++) stoke_table_row(table, rows[i]);
    char *text = printed(table, stoke_table_csv);
    assert_string_equal(text, "path,reason\r\n\"a,b\",\"say \"\"no\"\"\"\r\n\"line\nbreak\",\r\nplain,\r\n");
    free(text);
    stoke_table_destroy(&table);
}

static void table_survives_lack_of_memory(void **state)
{
    static char large[8192]; /* more than strings have room for without asking for memory */
    const char *headings[] = { "a", "b" }, *cells[] = { "1", "2" }, *many[] = { "1", large };
    memset(large, '2', sizeof large - 1);
    for (int i = 0; i < 3; i++) {
        stk_mem_fail_after(i);
        stoke_table *none = stoke_table_create(headings, 2);
        stk_mem_fail_after(-1);
        assert_null(none);
    }
    stoke_table *table = stoke_table_create(headings, 2);
    stoke_table_row(table, cells);
    stk_mem_fail_after(0);
    stoke_table_row(table, many);
    stk_mem_fail_after(-1);
    char *text = printed(table, stoke_table_print);
    assert_string_equal(text, "a  b\n-  -\n1  2\n(1 rows missing: out of memory)\n");
    free(text);
    stoke_table_destroy(&table);
    stoke_table_row(NULL, cells);
    text = printed(NULL, stoke_table_print);
    assert_string_equal(text, "(no memory for the table)\n");
    free(text);
}

/* ---- quantities ---- */

static void bytes_for_people(void **state)
{
    static const struct {
        uint64_t bytes;
        const char *text;
    } cases[] = {
        { 0, "0 B" },
        { 999, "999 B" },
        { 1000, "1.0 kB" },
        { 1049, "1.0 kB" },
        { 1050, "1.1 kB" },
        { 999949, "999.9 kB" },
        { 999950, "1.0 MB" },
        { 100663296, "100.7 MB" },
        { 1500000000, "1.5 GB" },
        { 999999999999, "1.0 TB" },
        { UINT64_MAX, "18.4 EB" },
    };
    char text[32];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(stoke_text_bytes(cases[i].bytes, text, sizeof text), cases[i].text);
}

static void memory_for_people(void **state)
{
    static const struct {
        uint64_t bytes;
        const char *text;
    } cases[] = {
        { 0, "0 B" },
        { 1023, "1023 B" },
        { 1024, "1.0 KiB" },
        { (uint64_t)512 << 20, "512.0 MiB" },
        { ((uint64_t)1 << 30) - 1, "1.0 GiB" },
        { (uint64_t)24 << 30, "24.0 GiB" },
        { 25445793792, "23.7 GiB" },
        { (uint64_t)3 << 40, "3.0 TiB" },
        { UINT64_MAX, "16777216.0 TiB" },
    };
    char text[32];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(stoke_text_memory(cases[i].bytes, text, sizeof text), cases[i].text);
}

static void seconds_for_people(void **state)
{
    static const struct {
        double seconds;
        const char *text;
    } cases[] = {
        { 0, "0 s" },          { 5e-9, "5 ns" },         { 1.5e-6, "1.5 us" },    { 0.00123, "1.2 ms" },
        { 0.99996, "1.0 s" },  { 3.44, "3.4 s" },        { 59.94, "59.9 s" },     { 59.96, "1 min 00 s" },
        { 125, "2 min 05 s" }, { 3599.6, "1 h 00 min" }, { 11220, "3 h 07 min" }, { 183600, "2 d 03 h" },
        { -1, "n/a" },         { NAN, "n/a" },           { INFINITY, "n/a" },     { 4.998e9, "57847 d 05 h" },
    };
    char text[32];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(stoke_text_seconds(cases[i].seconds, text, sizeof text), cases[i].text);
}

/* ---- progress ---- */

static uint64_t fake_time;
static uint64_t fake_clock(void)
{
    return fake_time;
}
static void at(double seconds)
{
    fake_time = UINT64_C(1000000000) + (uint64_t)(seconds * 1e9);
}

/* By the pace of the small ones before it the time left of one large picture grew for as long as it took. */
static void a_slow_one_has_no_time_left(void **state)
{
    static const struct {
        double at;
        uint64_t done;
        int left;
    } moments[] = {
        { 10, 10, 1 }, { 20, 20, 1 }, { 35, 20, 1 }, { 45, 20, 0 }, { 60, 20, 0 }, { 70, 21, 1 }
    };
    (void)state;
    char *text;
    size_t size, before = 0;
    FILE *out = open_memstream(&text, &size);
    stoke_progress *p = stoke_progress_create(out, "predicting", "pictures");
    at(0);
    stk_progress_set_clock(p, fake_clock);
    for (size_t i = 0; i < sizeof moments / sizeof *moments; i++) {
        at(moments[i].at);
        stoke_progress_update(p, moments[i].done, 30);
        fflush(out);
        assert_true(size > before);
        assert_int_equal(strstr(text + before, " left") != NULL, moments[i].left);
        before = size;
    }
    stoke_progress_destroy(&p);
    fclose(out);
    free(text);
}

static void log_gets_a_line_every_ten_seconds(void **state)
{
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    stoke_progress *p = stoke_progress_create(out, "decode", "samples");
    at(0);
    stk_progress_set_clock(p, fake_clock);
    for (int i = 0; i < 99; i++) {
        at(i / 10.0);
        assert_int_equal(stoke_progress_update(p, (uint64_t)i, 3000), 0);
    }
    fflush(out);
    assert_int_equal(size, 0); /* under ten seconds: silence */
    at(10);
    stoke_progress_update(p, 1000, 3000);
    at(15);
    stoke_progress_update(p, 1500, 3000);
    at(20);
    stoke_progress_note(p, "42.0 MB/s");
    stoke_progress_update(p, 3000, 3000);
    at(40);
    stoke_progress_note(p, NULL);
    stoke_progress_update(p, 50, 0);
    at(50);
    stoke_progress_update(p, 1, 0);
    at(60);
    stoke_progress_left(p, 90); /* of more than this bar shows */
    stoke_progress_update(p, 3000, 3000);
    at(70);
    stoke_progress_left(p, (double)NAN);
    stoke_progress_update(p, 30, 3000);
    at(80);
    stoke_progress_left(p, -1); /* by the rate again */
    stoke_progress_update(p, 1500, 3000);
    stoke_progress_destroy(&p);
    assert_null(p);
    stoke_progress_destroy(&p);
    fclose(out);
    assert_string_equal(text, "decode: 1000/3000 samples (33 %), 100.0 samples/s, 20.0 s left\n"
                              "decode: 3000/3000 samples (100 %), 42.0 MB/s\n"
                              "decode: 50 samples, 1.3 samples/s\n"
                              "decode: 1 sample, 0.0 samples/s\n"
                              "decode: 3000/3000 samples (100 %), 50.0 samples/s, 1 min 30 s left\n"
                              "decode: 30/3000 samples (1 %), 0.4 samples/s\n"
                              "decode: 1500/3000 samples (50 %), 18.8 samples/s, 1 min 20 s left\n");
    free(text);
}

static void nothing_to_show_is_no_failure(void **state)
{
    FILE *out = fopen("/dev/null", "w");
    stoke_progress *p = stoke_progress_create(out, "x", "y");
    assert_int_equal(stoke_progress_update(p, 1, 2), 0);
    stoke_progress_destroy(&p);
    assert_int_equal(stoke_progress_update(NULL, 1, 2), 0);
    fclose(out);
}

/* A pseudo terminal of a given width: what the program writes can be read at the other end. */
typedef struct terminal {
    int master;
    FILE *out;
    char text[4096];
} terminal;

static int terminal_open(terminal *t, unsigned short columns)
{
    struct winsize size = { .ws_row = 24, .ws_col = columns };
    struct termios raw;
    t->master = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
    if (t->master < 0 || grantpt(t->master) || unlockpt(t->master)) return 0;
    int slave = open(ptsname(t->master), O_RDWR | O_NOCTTY);
    if (slave < 0) return 0;
    tcgetattr(slave, &raw);
    cfmakeraw(&raw);
    tcsetattr(slave, TCSANOW, &raw);
    ioctl(slave, TIOCSWINSZ, &size);
    t->out = fdopen(slave, "w");
    return t->out != NULL;
}

static const char *terminal_read(terminal *t)
{
    ssize_t n = read(t->master, t->text, sizeof t->text - 1);
    t->text[n > 0 ? n : 0] = 0;
    return t->text;
}

static void terminal_close(terminal *t)
{
    fclose(t->out);
    close(t->master);
}

static void bar_on_a_terminal(void **state)
{
    terminal t;
    if (!terminal_open(&t, 100)) skip();
    setenv("TERM", "xterm", 1);
    stoke_progress *p = stoke_progress_create(t.out, "decode", "samples");
    at(0);
    stk_progress_set_clock(p, fake_clock);
    at(0.9);
    stoke_progress_update(p, 900, 3000);
    assert_string_equal(terminal_read(&t), ""); /* nothing in the first second */
    at(2);
    stoke_progress_update(p, 1234, 3000);
    assert_string_equal(terminal_read(&t), "\rdecode  [==============>                    ]  41 %"
                                           "  1234/3000 samples  617.0 samples/s  2.9 s left\033[K");
    at(2.05);
    stoke_progress_update(p, 1300, 3000);
    assert_string_equal(terminal_read(&t), ""); /* at most ten times a second */
    at(3);
    stoke_progress_update(p, 3000, 3000);
    assert_non_null(strstr(terminal_read(&t), "=] 100 %  3000/3000 samples  1000.0 samples/s\033[K"));
    stoke_progress_pause(p); /* a line of something else */
    assert_string_equal(terminal_read(&t), "\r\033[K");
    at(3.01);
    stoke_progress_label(p, "again");
    stoke_progress_update(p, 30, 3000);
    assert_non_null(strstr(terminal_read(&t), "\ragain  ["));
    stoke_progress_destroy(&p);
    assert_string_equal(terminal_read(&t), "\r\033[K");
    terminal_close(&t);
}

/* Where not everything fits, the count goes before what is left: the percentage says it too. */
static void narrow_bar_keeps_what_is_left(void **state)
{
    terminal t;
    if (!terminal_open(&t, 60)) skip();
    setenv("TERM", "xterm", 1);
    stoke_progress *p = stoke_progress_create(t.out, "epoch 1/10", "steps");
    at(0);
    stk_progress_set_clock(p, fake_clock);
    at(5);
    stoke_progress_note(p, "loss 0.512, 21.5 img/s");
    stoke_progress_left(p, 64);
    stoke_progress_update(p, 30, 92);
    assert_string_equal(terminal_read(&t),
                        "\repoch 1/10  32 %  loss 0.512, 21.5 img/s  1 min 04 s left\033[K");
    stoke_progress_destroy(&p);
    terminal_close(&t);
}

static void bar_never_wraps(void **state)
{
    setenv("TERM", "xterm", 1);
    for (unsigned short columns = 5; columns < 140; columns += 9) {
        terminal t;
        if (!terminal_open(&t, columns)) skip();
        stoke_progress *p = stoke_progress_create(t.out, "a long label for the work", "samples");
        at(0);
        stk_progress_set_clock(p, fake_clock);
        at(5);
        stoke_progress_note(p, "and a note that goes on and on");
        stoke_progress_update(p, 123456, 1000000);
        const char *text = terminal_read(&t);
        assert_int_equal(text[0], '\r');
        const char *end = strstr(text, "\033[K");
        assert_non_null(end);
        assert_true(end - text - 1 <= columns - 1);
        stoke_progress_destroy(&p);
        terminal_close(&t);
    }
}

static void dumb_terminals_get_lines(void **state)
{
    terminal t;
    if (!terminal_open(&t, 80)) skip();
    setenv("TERM", "dumb", 1);
    stoke_progress *p = stoke_progress_create(t.out, "x", "files");
    at(0);
    stk_progress_set_clock(p, fake_clock);
    at(5);
    stoke_progress_update(p, 1, 2);
    assert_string_equal(terminal_read(&t), "");
    stoke_progress_destroy(&p);
    terminal_close(&t);
}

UNIT_GROUP(report)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_nests_and_quotes),
        cmocka_unit_test(json_indents),
        cmocka_unit_test(json_too_deep_stays_valid),
        cmocka_unit_test(table_aligns_numbers),
        cmocka_unit_test(table_csv_follows_rfc4180),
        cmocka_unit_test(table_survives_lack_of_memory),
        cmocka_unit_test(bytes_for_people),
        cmocka_unit_test(memory_for_people),
        cmocka_unit_test(seconds_for_people),
        cmocka_unit_test(log_gets_a_line_every_ten_seconds),
        cmocka_unit_test(a_slow_one_has_no_time_left),
        cmocka_unit_test(nothing_to_show_is_no_failure),
        cmocka_unit_test(bar_on_a_terminal),
        cmocka_unit_test(narrow_bar_keeps_what_is_left),
        cmocka_unit_test(bar_never_wraps),
        cmocka_unit_test(dumb_terminals_get_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
