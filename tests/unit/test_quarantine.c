/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>

#include "src/base/mem.h"
#include "src/source/quarantine.h"

static stoke_error reason(int code, const char *message)
{
    stoke_error error = { .code = code };
    snprintf(error.message, sizeof error.message, "%s", message);
    return error;
}

static size_t read_text(const char *path, char *text, size_t size)
{
    FILE *f = fopen(path, "rb");
    if (!f) return 0;
    size_t n = fread(text, 1, size - 1, f);
    fclose(f);
    text[n] = 0;
    return n;
}

static void records_each_sample_once(void **state)
{
    const char *path = unit_path(state, "q.jsonl");
    stk_quarantine *q;
    stoke_error err, bad = reason(STOKE_E_FORMAT, "bad CRC in \"IDAT\"");
    uint64_t distinct = 0;
    assert_int_equal(stk_quarantine_open(&q, path, &err), STOKE_OK);
    assert_int_not_equal(access(path, F_OK), 0); /* nothing bad, no file */
    /* a path that is no UTF-8, a name with a newline */
    stoke_sample a = { .name = "a\n1", .image_path = "x/a\xff\xc3\xa9.png", .mask_path = "y/a.png" },
                 b = { .name = "b", .image_path = "x\\b.png" };
    assert_int_equal(stk_quarantine_add(q, 7, 5, &a, &bad, &distinct, &err), STOKE_OK);
    assert_int_equal(stk_quarantine_add(q, 7, 5, &a, &bad, &distinct, &err), STOKE_OK);
    assert_int_equal(distinct, 1);
    bad = reason(STOKE_E_SIZE, "size");
    assert_int_equal(stk_quarantine_add(q, 0, 4, &b, &bad, &distinct, &err), STOKE_OK);
    assert_int_equal(distinct, 2);
    assert_int_equal(stk_quarantine_count(q), 2);
    stoke_bad_file early[2];
    assert_int_equal(stk_quarantine_add(q, 7, 9, &a, &bad, NULL, &err),
                     STOKE_OK); /* later: changes nothing */
    assert_int_equal(stk_quarantine_until(q, 4, early, 2), 1);
    assert_string_equal(early[0].path, b.image_path);
    assert_int_equal(stk_quarantine_add(q, 7, 2, &a, &bad, NULL, &err),
                     STOKE_OK); /* met before 0 after all */
    assert_int_equal(stk_quarantine_until(q, 4, early, 2), 2);
    assert_string_equal(early[0].path, a.image_path);
    assert_int_equal(stk_quarantine_until(q, 1, early, 2), 0);
    stoke_bad_file first = stk_quarantine_get(q, 0);
    assert_string_equal(first.path, a.image_path);
    assert_string_equal(first.reason, "bad CRC in \"IDAT\"");
    assert_int_equal(first.code, STOKE_E_FORMAT);
    stk_quarantine_close(&q);
    assert_null(q);

    char text[2048];
    read_text(path, text, sizeof text);
    char *second = strchr(text, '\n') + 1;
    assert_memory_equal(text, "{\"time\":\"2", 10);
    assert_memory_equal(
        strstr(text, "Z\",") + 3,
        "\"id\":7,\"name\":\"a\\u000a1\",\"image\":\"x/a\\ufffd\xc3\xa9.png\",\"mask\":\"y/a.png\","
        "\"reason\":\"bad CRC in \\\"IDAT\\\"\",\"code\":\"format\"}\n",
        (size_t)(second - strstr(text, "Z\",") - 3));
    assert_string_equal(strstr(second, "Z\",") + 3,
                        "\"id\":0,\"name\":\"b\",\"image\":\"x\\\\b.png\",\"mask\":null,"
                        "\"reason\":\"size\",\"code\":\"size\"}\n");
}

static void a_second_run_appends(void **state)
{
    const char *path = unit_path(state, "q.jsonl");
    stoke_sample s = { .name = "a", .image_path = "a.png" };
    stoke_error err, bad = reason(STOKE_E_IO, "gone");
    for (int run = 0; run < 2; run++) {
        stk_quarantine *q;
        assert_int_equal(stk_quarantine_open(&q, path, &err), STOKE_OK);
        assert_int_equal(stk_quarantine_add(q, 1, 0, &s, &bad, NULL, &err), STOKE_OK);
        stk_quarantine_close(&q);
    }
    char text[2048];
    read_text(path, text, sizeof text);
    int lines = 0;
    for (char *p = text; *p; p++) lines += *p == '\n';
    assert_int_equal(lines, 2);
}

static void counting_survives_a_file_that_cannot_be_written(void **state)
{
    stoke_sample s = { .name = "a", .image_path = "a.png" };
    stoke_error err, bad = reason(STOKE_E_IO, "gone");
    /* A pipe that nobody reads must not be waited for, neither when it is opened nor when it is full. */
    const char *paths[] = { unit_path(state, "no/such/folder/q.jsonl"), unit_path(state, "."), "/dev/full",
                            unit_path(state, "fifo") };
    assert_int_equal(mkfifo(paths[3], 0666), 0);
    for (int i = 0; i < 4; i++) {
        stk_quarantine *q;
        uint64_t distinct = 0;
        char line[512];
        size_t recorded;
        assert_int_equal(stk_quarantine_open(&q, paths[i], &err), STOKE_OK);
        assert_null(stk_quarantine_problem(q, NULL));
        for (uint64_t id = 1; id <= 5; id++)
            assert_int_equal(stk_quarantine_add(q, id, 0, &s, &bad, &distinct, &err), STOKE_OK);
        assert_int_equal(distinct, 5);
        assert_non_null(strstr(stk_quarantine_problem(q, &recorded), paths[i]));
        assert_int_equal(recorded, 0);
        assert_int_equal(stk_quarantine_unrecorded(q, line, sizeof line), 1);
        assert_non_null(strstr(line, ": 5 bad samples are not in this list: gone; gone; gone; and 2 more"));
        stk_quarantine_close(&q);
    }
    stk_quarantine *q;
    assert_int_equal(stk_quarantine_open(&q, "", &err), STOKE_OK);
    assert_int_equal(stk_quarantine_add(q, 1, 0, &s, &bad, NULL, &err), STOKE_OK);
    assert_int_equal(stk_quarantine_count(q), 1);
    assert_int_equal(stk_quarantine_unrecorded(q, err.message, sizeof err.message), 0);
    stk_quarantine_close(&q);
    stk_quarantine_close(&q);
}

/* A reader that does not read: what it has room for arrives whole, then the list is given up within seconds.
 */
static void a_pipe_that_is_full_is_given_up(void **state)
{
    stk_quarantine *q;
    stoke_error err, bad = reason(STOKE_E_IO, "gone");
    stoke_sample s = { .name = "a", .image_path = "a.png" };
    const char *path = unit_path(state, "fifo");
    assert_int_equal(mkfifo(path, 0666), 0);
    const int reader = open(path, O_RDONLY | O_NONBLOCK);
    assert_true(reader >= 0);
    assert_int_equal(stk_quarantine_open(&q, path, &err), STOKE_OK);
    uint64_t id = 0;
    while (!stk_quarantine_problem(q, NULL) && id < 100000)
        assert_int_equal(stk_quarantine_add(q, id++, 0, &s, &bad, NULL, &err), STOKE_OK);
    size_t recorded;
    assert_non_null(strstr(stk_quarantine_problem(q, &recorded), "timed out"));
    assert_true(recorded > 100 && recorded < id);
    stk_quarantine_close(&q);
    close(reader);
}

/* Four threads report the same 500 samples: 500 whole lines, each id once. */
static void *report_all(void *argument)
{
    for (uint64_t id = 0; id < 500; id++) {
        stoke_sample s = { .name = "name", .image_path = "image.png", .mask_path = "mask.png" };
        stoke_error bad = reason(STOKE_E_FORMAT, "x");
        stk_quarantine_add(argument, id, 0, &s, &bad, NULL, NULL);
    }
    return NULL;
}

static void threads_do_not_mix_lines(void **state)
{
    const char *path = unit_path(state, "q.jsonl");
    stk_quarantine *q;
    stoke_error err;
    pthread_t threads[4];
    assert_int_equal(stk_quarantine_open(&q, path, &err), STOKE_OK);
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, report_all, q), 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    assert_int_equal(stk_quarantine_count(q), 500);
    stk_quarantine_close(&q);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    char line[512], seen[500] = { 0 };
    unsigned id, lines = 0;
    while (fgets(line, sizeof line, f)) {
        assert_int_equal(sscanf(line, "{\"time\":\"%*[^\"]\",\"id\":%u,", &id), 1);
        assert_true(id < 500 && !seen[id]++);
        assert_string_equal(line + strlen(line) - 10, "\"format\"}\n");
        lines++;
    }
    fclose(f);
    assert_int_equal(lines, 500);
}

static void running_out_of_memory_still_counts(void **state)
{
    stk_quarantine *q;
    stoke_error err, bad = reason(STOKE_E_IO, "gone");
    stoke_sample s = { .name = "a", .image_path = "a.png" };
    assert_int_equal(stk_quarantine_open(&q, NULL, &err), STOKE_OK);
    for (int64_t after = 0; after < 6; after++) {
        stk_mem_fail_after(after);
        int r = stk_quarantine_add(q, (uint64_t)after, 0, &s, &bad, NULL, &err);
        stk_mem_fail_after(-1);
        assert_true(r == STOKE_OK || r == STOKE_E_NOMEM);
    }
    assert_true(stk_quarantine_count(q) >= 3);
    for (uint64_t i = 0; i < stk_quarantine_count(q); i++) assert_non_null(stk_quarantine_get(q, i).reason);
    stk_quarantine_close(&q);
}

static void fuse_limits(void **state)
{
    static const struct {
        const char *text;
        uint64_t count, limit;
    } good[] = {
        { "1%", 1000, 10 }, { "1%", 1001, 11 }, { "1%", 1, 1 },     { "1%", 99, 1 },
        { "0%", 1000, 0 },  { "100%", 7, 7 },   { "0.5%", 100, 1 }, { "25%", 10, 3 },
        { "0", 1000, 0 },   { "12", 5, 12 },    { NULL, 200, 2 },   { "", 200, 2 },
    };
    static const char *const bad[] = { "x",
                                       "%",
                                       "-1",
                                       "1.5",
                                       "101%",
                                       "-1%",
                                       "nan%",
                                       "inf",
                                       "1%%",
                                       "1 %",
                                       "0x10",
                                       "1e400",
                                       "99999999999999999999999999999999999999999%" };
    stoke_error err;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        uint64_t limit = 12345;
        assert_int_equal(stk_max_bad_limit(good[i].text, good[i].count, &limit, &err), STOKE_OK);
        assert_int_equal(limit, good[i].limit);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        uint64_t limit;
        if (stk_max_bad_limit(bad[i], 100, &limit, &err) != STOKE_E_INVALID) fail_msg("%s accepted", bad[i]);
        assert_non_null(strstr(err.message, "max_bad"));
    }
}

UNIT_GROUP(quarantine)
{
    const struct CMUnitTest tests[] = {
        unit_test_with_folder(records_each_sample_once),
        unit_test_with_folder(a_second_run_appends),
        unit_test_with_folder(counting_survives_a_file_that_cannot_be_written),
        unit_test_with_folder(a_pipe_that_is_full_is_given_up),
        unit_test_with_folder(threads_do_not_mix_lines),
        cmocka_unit_test(running_out_of_memory_still_counts),
        cmocka_unit_test(fuse_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
