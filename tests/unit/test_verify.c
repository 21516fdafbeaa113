/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <pthread.h>

#include <stoke/dataset.h>
#include <stoke/image.h>

#include "src/base/mem.h"
#include "src/source/dataset.h"

/* An 8 x 4 picture whose right half has value `right`, the rest `left`. */
static void write_picture(const char *path, uint8_t channels, uint32_t height, uint8_t left, uint8_t right)
{
    uint8_t pixels[8 * 16 * 3];
    for (uint32_t i = 0; i < height; i++)
        for (uint32_t x = 0; x < 8; x++)
            memset(pixels + (i * 8 + x) * channels, x < 4 ? left : right, channels);
    stoke_image image = { pixels, 8u * channels, 8, height, channels, 1 };
    stoke_error err;
    unit_write(path, "", 0); /* makes the folder */
    if (stoke_image_write_png(path, &image, &err)) fail_msg("%s", err.message);
}

/* a and b are good, c: truncated image, d: mask of another size, e: value that is no class, f: empty mask, g:
 * text. */
static void make_set(void **state)
{
    for (char c = 'a'; c <= 'g'; c++) {
        char name[32];
        snprintf(name, sizeof name, "images/%c.png", c);
        write_picture(unit_path(state, name), 3, 4, 10, 200);
        snprintf(name, sizeof name, "masks/%c.png", c);
        write_picture(unit_path(state, name), 1, c == 'd' ? 5 : 4, c == 'b' ? 255 : 0, c == 'e' ? 9 : 1);
    }
    assert_int_equal(truncate(unit_path(state, "images/c.png"), 60), 0);
    unit_write(unit_path(state, "masks/f.png"), "", 0);
    unit_write(unit_path(state, "images/g.png"), "this is no picture", 18);
    unit_write(unit_path(state, "masks/g.png"), "nor is this", 11);
}

static stoke_dataset *open_set(void **state, stoke_data_params *params)
{
    *params = stoke_data_defaults();
    params->data = unit_folder(state);
    params->classes = 2;
    stoke_dataset *dataset = NULL;
    stoke_error err = { 0 };
    if (stoke_dataset_open(&dataset, params, &err)) fail_msg("%s", err.message);
    params->data = NULL; /* may go once the set is open */
    return dataset;
}

static void expect_bad(const stoke_verify_report *report, size_t index, const char *end, int code,
                       const char *reason)
{
    assert_true(index < report->n_bad);
    const stoke_bad_file *bad = &report->bad[index];
    assert_string_equal(bad->path + strlen(bad->path) - strlen(end), end);
    if (bad->code != code || !strstr(bad->reason, reason)) fail_msg("%s: %d %s", end, bad->code, bad->reason);
    assert_null(strstr(bad->reason, bad->path)); /* the path has its own column */
}

static void every_fault_has_a_line(void **state)
{
    make_set(state);
    stoke_data_params params;
    stoke_dataset *dataset = open_set(state, &params);
    for (unsigned threads = 0; threads <= 7; threads += threads ? 6 : 1) {
        stoke_verify_report report;
        stoke_error err;
        assert_int_equal(stoke_verify(dataset, &params, threads, NULL, NULL, &report, &err), STOKE_OK);
        assert_int_equal(report.pairs, 7);
        assert_int_equal(report.ok, 2);
        assert_int_equal(report.n_bad, 6);
        expect_bad(&report, 0, "images/c.png", STOKE_E_FORMAT, "");
        expect_bad(&report, 1, "masks/d.png", STOKE_E_SIZE,
                   "the mask is 5x8 (height x width), its image is 4x8");
        expect_bad(&report, 2, "masks/e.png", STOKE_E_LABEL, "value 9 at (x 4, y 0)");
        expect_bad(&report, 3, "masks/f.png", STOKE_E_FORMAT, "empty file");
        expect_bad(&report, 4, "images/g.png", report.bad[4].code, "");
        expect_bad(&report, 5, "masks/g.png", report.bad[5].code, "");
        /* the masks of a, b and c count: 16 pixels of 0 each but 255 in b, 16 of 1 */
        assert_int_equal(report.n_classes, 3);
        static const stoke_class_count wanted[] = { { 0, 32, 2 }, { 1, 48, 3 }, { 255, 16, 1 } };
        for (int i = 0; i < 3; i++) {
            assert_int_equal(report.classes[i].id, wanted[i].id);
            assert_int_equal(report.classes[i].pixels, wanted[i].pixels);
            assert_int_equal(report.classes[i].samples, wanted[i].samples);
        }
        assert_int_equal(report.formats[STOKE_FORMAT_PNG], 5);
        assert_int_equal(report.min_width, 8);
        assert_int_equal(report.max_height, 4);
        assert_true(report.image_bytes > 0 && report.mask_bytes > 0 && report.seconds > 0);
        stoke_verify_report_free(&report);
        assert_null(report.bad);
        stoke_verify_report_free(&report);
    }
    stoke_dataset_close(&dataset);
}

typedef struct watch {
    pthread_t thread;
    unsigned calls;
    uint64_t last, total;
    int stop;
} watch;

static int see(void *context, uint64_t done, uint64_t total)
{
    watch *w = context;
    assert_true(pthread_equal(w->thread, pthread_self()));
    assert_true(done >= w->last && done <= total);
    w->last = done;
    w->total = total;
    w->calls++;
    return w->stop;
}

static void progress_comes_from_the_caller(void **state)
{
    make_set(state);
    stoke_data_params params;
    stoke_dataset *dataset = open_set(state, &params);
    stoke_verify_report report;
    watch w = { .thread = pthread_self() };
    assert_int_equal(stoke_verify(dataset, &params, 2, see, &w, &report, NULL), STOKE_OK);
    assert_true(w.calls >= 1);
    assert_int_equal(w.last, 7);
    assert_int_equal(w.total, 7);
    stoke_verify_report_free(&report);
    stoke_dataset_close(&dataset);
}

static void progress_can_stop_the_work(void **state)
{
    const char *root = unit_data("formats");
    if (!root) skip();
    stoke_data_params params = stoke_data_defaults();
    params.data = root;
    stoke_dataset *dataset;
    stoke_verify_report report;
    stoke_error err;
    assert_int_equal(stoke_dataset_open(&dataset, &params, &err), STOKE_OK);
    watch w = { .thread = pthread_self(), .stop = 1 };
    assert_int_equal(stoke_verify(dataset, &params, 1, see, &w, &report, &err), STOKE_E_CANCELLED);
    assert_int_equal(w.calls, 1);
    assert_null(report.bad);
    stoke_dataset_close(&dataset);
}

static void sets_without_masks(void **state)
{
    write_picture(unit_path(state, "a.png"), 3, 4, 0, 1);
    stoke_data_params params;
    stoke_dataset *dataset = open_set(state, &params);
    stoke_verify_report report;
    assert_int_equal(stoke_verify(dataset, &params, 1, NULL, NULL, &report, NULL), STOKE_OK);
    assert_int_equal(report.ok, 1);
    assert_int_equal(report.n_classes, 0);
    assert_int_equal(report.mask_bytes, 0);
    stoke_verify_report_free(&report);
    double *sums;
    stoke_error err;
    assert_int_equal(stk_weights_balanced(dataset, &params, 1, NULL, NULL, &sums, &err), STOKE_E_INVALID);
    params.label_map = "no such file";
    assert_int_equal(stoke_verify(dataset, &params, 1, NULL, NULL, &report, &err), STOKE_E_NOTFOUND);
    stoke_dataset_close(&dataset);
}

static void balanced_weights(void **state)
{
    make_set(state);
    stoke_data_params params;
    stoke_dataset *dataset = open_set(state, &params);
    for (unsigned threads = 1; threads < 4; threads++) {
        double *sums;
        stoke_error err;
        assert_int_equal(stk_weights_balanced(dataset, &params, threads, NULL, NULL, &sums, &err), STOKE_OK);
        /* readable masks: a, c, d have 0 and 1, b has 1 (255 does not count); n_0 = 3, n_1 = 4 */
        const double both = 1 / 3.0 + 1 / 4.0, one = 1 / 4.0;
        const double weight[] = { both, one, both, both, 0, 0, 0 };
        for (int i = 0; i < 7; i++) {
            double w = i ? sums[i] - sums[i - 1] : sums[0];
            assert_true(w > weight[i] - 1e-12 && w < weight[i] + 1e-12);
        }
        stk_free(sums);
    }
    stoke_dataset_close(&dataset);
}

static void balanced_weights_of_unreadable_masks(void **state)
{
    write_picture(unit_path(state, "images/a.png"), 3, 4, 0, 1);
    unit_write(unit_path(state, "masks/a.png"), "", 0);
    stoke_data_params params;
    stoke_dataset *dataset = open_set(state, &params);
    double *sums;
    stoke_error err;
    assert_int_equal(stk_weights_balanced(dataset, &params, 1, NULL, NULL, &sums, &err), STOKE_E_FORMAT);
    assert_non_null(strstr(err.message, "masks/a.png: empty file"));
    assert_null(sums);
    stoke_dataset_close(&dataset);
}

static void running_out_of_memory_is_an_error(void **state)
{
    make_set(state);
    stoke_data_params params;
    stoke_dataset *dataset = open_set(state, &params);
    /* Where memory ends inside a decoder it is a line of the report, elsewhere a failure: never a crash or a
     * leak. Slow where races are looked for, and there are none with one thread. */
    for (int64_t after = 0; after < 120; after += UNIT_RACES_SOUGHT ? 20 : 1) {
        stoke_verify_report report;
        stoke_error err;
        stk_mem_fail_after(after);
        int r = stoke_verify(dataset, &params, 1, NULL, NULL, &report, &err);
        double *sums = NULL;
        int w = stk_weights_balanced(dataset, &params, 1, NULL, NULL, &sums, &err);
        stk_mem_fail_after(-1);
        assert_true(r == STOKE_OK || r == STOKE_E_NOMEM);
        assert_true(w == STOKE_OK || sums == NULL);
        stk_free(sums);
        stoke_verify_report_free(&report);
    }
    stoke_dataset_close(&dataset);
}

static void camvid_val_is_good(void **state)
{
    const char *root = unit_data("camvid");
    if (!root) skip();
    stoke_data_params params = stoke_data_defaults();
    params.data = root;
    params.split = STOKE_SPLIT_VAL;
    params.classes = 11;
    params.ignore_index = 11;
    stoke_dataset *dataset;
    stoke_verify_report report;
    stoke_error err;
    assert_int_equal(stoke_dataset_open(&dataset, &params, &err), STOKE_OK);
    assert_int_equal(stoke_verify(dataset, &params, 0, NULL, NULL, &report, &err), STOKE_OK);
    assert_int_equal(report.ok, 101);
    assert_int_equal(report.n_bad, 0);
    uint64_t pixels = 0;
    for (size_t i = 0; i < report.n_classes; i++) pixels += report.classes[i].pixels;
    assert_int_equal(pixels, UINT64_C(101) * 480 * 360);
    assert_int_equal(report.min_width, 480);
    stoke_verify_report_free(&report);
    /* one class fewer: the void pixels become errors */
    params.ignore_index = -1;
    assert_int_equal(stoke_verify(dataset, &params, 0, NULL, NULL, &report, &err), STOKE_OK);
    assert_true(report.n_bad > 90);
    assert_non_null(strstr(report.bad[0].reason, "value 11 at"));
    stoke_verify_report_free(&report);
    stoke_dataset_close(&dataset);
}

static void membrane_needs_its_label_map(void **state)
{
    const char *root = unit_data("membrane");
    if (!root) skip();
    stoke_data_params params = stoke_data_defaults();
    params.data = root;
    params.classes = 2;
    params.ignore_index = -1;
    stoke_dataset *dataset;
    stoke_verify_report report;
    stoke_error err;
    assert_int_equal(stoke_dataset_open(&dataset, &params, &err), STOKE_OK);
    assert_int_equal(stoke_verify(dataset, &params, 0, NULL, NULL, &report, &err), STOKE_OK);
    assert_int_equal(report.n_bad, 0); /* as training: two values, two classes */
    assert_int_equal(report.ok, 30);
    assert_int_equal(report.n_classes, 2);
    assert_int_equal(report.classes[1].id, 1);
    stoke_verify_report_free(&report);
    params.classes = 3;
    assert_int_equal(stoke_verify(dataset, &params, 0, NULL, NULL, &report, &err), STOKE_OK);
    assert_int_equal(report.n_bad, 30);
    stoke_verify_report_free(&report);
    params.classes = 2;
    params.label_map = "0:0,255:1";
    assert_int_equal(stoke_verify(dataset, &params, 0, NULL, NULL, &report, &err), STOKE_OK);
    assert_int_equal(report.ok, 30);
    assert_int_equal(report.n_classes, 2);
    assert_int_equal(report.classes[0].pixels + report.classes[1].pixels, 30 * 512 * 512);
    stoke_verify_report_free(&report);
    stoke_dataset_close(&dataset);
}

UNIT_GROUP(verify)
{
    const struct CMUnitTest tests[] = {
        unit_test_with_folder(every_fault_has_a_line),
        unit_test_with_folder(progress_comes_from_the_caller),
        cmocka_unit_test(progress_can_stop_the_work),
        unit_test_with_folder(sets_without_masks),
        unit_test_with_folder(balanced_weights),
        unit_test_with_folder(balanced_weights_of_unreadable_masks),
        unit_test_with_folder(running_out_of_memory_is_an_error),
        cmocka_unit_test(camvid_val_is_good),
        cmocka_unit_test(membrane_needs_its_label_map),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
