/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <dirent.h>
#include <math.h>

#include "src/base/mem.h"
#include "src/train/run_report.h"
#include <stoke/tools/output.h>
#include <stoke/image.h>
#include <stoke/train.h>

/* ---- made-up logs ---- */

static const char start[] = "{\"kind\":\"start\",\"step\":0,\"t\":0,\"time\":\"2026-11-16T10:00:00Z\","
                            "\"version\":\"0.1.0\",\"model\":\"b0\","
                            "\"parameters\":3716457,\"classes\":2,\"names\":[\"sky\",\"<b>road</"
                            "b>\"],\"size\":[48,64],\"batch\":4,\"accumulate\":1,"
                            "\"steps\":40,\"epochs\":4,\"steps_per_epoch\":10,\"train_samples\":38,\"val_"
                            "samples\":5,\"precision\":\"fp32\","
                            "\"threads\":2,\"cpu\":\"avx2\",\"machine\":\"A & "
                            "B\",\"cores\":2,\"data\":\"pictures\",\"metric\":\"miou\","
                            "\"resumed\":false}\n";
static const char step10[] =
    "{\"kind\":\"step\",\"step\":10,\"epoch\":1,\"t\":2.5,\"loss\":1.5,\"lr\":0.001,\"gradient_norm\":1,"
    "\"loss_scale\":1,\"skipped\":0,\"images\":40,\"seconds\":2,\"data_seconds\":0.5}\n";
static const char eval10[] =
    "{\"kind\":\"eval\",\"step\":10,\"epoch\":1,\"t\":3,\"loss\":1.25,\"miou\":0.625,\"f1_macro\":0.7,\"f1_"
    "micro\":0.75,"
    "\"precision\":0.8,\"recall\":0.8,\"pixel_accuracy\":0.75,\"iou\":[0.5,null],\"f1\":[0.66,0.8],\"best\":"
    "true,"
    "\"average\":false,\"samples\":5,\"seconds\":0.25,\"data_seconds\":0,\"picture\":\"predictions/"
    "000010.png\","
    "\"confusion\":[[30,10],[0,0]],\"worst\":[{\"name\":\"img<1>\",\"miou\":0.1,\"accuracy\":0.2}]}\n";
static const char eval20[] =
    "{\"kind\":\"eval\",\"step\":20,\"t\":6,\"loss\":1.5,\"miou\":0.5,\"iou\":[0.4,0.6],\"best\":false,"
    "\"seconds\":0.25,\"picture\":\"predictions/000010.png\"}\n";
static const char save10[] = "{\"kind\":\"save\",\"step\":10,\"t\":3.25,\"seconds\":0.125,\"bytes\":1000}\n";
static const char end20[] = "{\"kind\":\"end\",\"step\":20,\"t\":7,\"why\":\"all steps done\"}\n";

static void write_log(void **state, const char *const *lines)
{
    char *text = calloc(1, 1 << 16);
    for (; *lines; lines++) strcat(text, *lines);
    unit_write(unit_path(state, "log.jsonl"), text, strlen(text));
    free(text);
}
#define LOG(...) write_log(state, (const char *const[]){ __VA_ARGS__, NULL })

static char *text_of(const char *path)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    char *text = calloc(1, 4 << 20);
    assert_true(fread(text, 1, (4 << 20) - 1, f) < (4 << 20) - 1);
    fclose(f);
    return text;
}

/* The page of the log that lies there, checked for what no page may have. */
static char *page_of(void **state)
{
    stoke_error err = { 0 };
    if (stoke_run_report(unit_folder(state), 0, &err)) fail_msg("%s", err.message);
    char *text = text_of(unit_path(state, "report.html"));
    assert_int_equal(strncmp(text, "<!doctype html>", 15), 0);
    assert_non_null(strstr(text, "</html>"));
    assert_null(strstr(text, "<script"));
    assert_null(strstr(text, "href="));
    assert_null(strstr(text, "url("));
    assert_null(strstr(text, "src=\"http"));
    assert_null(strstr(text, ">nan"));
    assert_null(strstr(text, ":nan"));
    return text;
}

#define HAS(text, part)                                                                                      \
    do {                                                                                                     \
        if (!strstr(text, part)) fail_msg("%s is not in the page", part);                                    \
    } while (0)

/* ---- the log ---- */

static stk_run_log read_log(void **state)
{
    stk_run_log log = { 0 };
    assert_int_equal(stk_run_log_read(&log, unit_path(state, "log.jsonl"), NULL), 0);
    return log;
}

static void log_adds_up(void **state)
{
    LOG(start, step10, eval10, save10, eval20, end20);
    stk_run_log log = read_log(state);
    assert_int_equal(log.n_steps, 1);
    assert_int_equal(log.n_evals, 2);
    assert_int_equal(log.step, 20);
    assert_true(log.t == 7 && log.step_seconds == 2 && log.data_seconds == 0.5 && log.eval_seconds == 0.5);
    assert_true(log.save_seconds == 0.125 && log.images == 40);
    assert_int_equal(stk_run_uint(&log.best, "step"), 10);
    assert_int_equal(stk_run_uint(&log.first, "step"), 10);
    assert_int_equal(stk_run_uint(&log.last, "step"), 20);
    assert_string_equal(log.why, "all steps done");
    assert_int_equal(log.damaged, 0);
    stk_run_log_free(&log);
}

static void damage_is_passed_over_and_counted(void **state)
{
    LOG(start, "garbage\n", "{\"kind\":\"step\"}\n", "\xff\xfe\n", "{\"step\":1}\n", "[]\n", "\n", step10,
        "{\"kind\":\"dance\",\"step\":3}\n",
        "{\"kind\":\"step\",\"step\":20,\"loss\":\"x\",\"seconds\":-5,\"images\":1e99}\n",
        "{\"kind\":\"step\",\"step\":99999999999999999999}\n", "{\"kind\":\"step\",\"step\":30");
    stk_run_log log = read_log(state);
    assert_int_equal(log.n_steps, 2);
    assert_true(isnan(log.steps[1].loss) && log.steps[1].seconds == 0 && log.steps[1].images == 0);
    assert_int_equal(log.damaged, 6);
    assert_int_equal(log.why[0], 0);
    stk_run_log_free(&log);
    char *page = page_of(state);
    HAS(page, "6 of 10 lines of log.jsonl are damaged");
    free(page);
}

/* A log that goes back: the later lines count, as in TensorBoard. */
static void a_log_that_goes_back(void **state)
{
    LOG(start, "{\"kind\":\"step\",\"step\":10,\"loss\":1}\n", "{\"kind\":\"step\",\"step\":20,\"loss\":2}\n",
        "{\"kind\":\"step\",\"step\":30,\"loss\":3}\n", "{\"kind\":\"end\",\"step\":30,\"why\":\"x\"}\n",
        start, "{\"kind\":\"step\",\"step\":20,\"loss\":4}\n");
    stk_run_log log = read_log(state);
    assert_int_equal(log.n_steps, 2);
    assert_true(log.steps[1].step == 20 && log.steps[1].loss == 4);
    assert_int_equal(log.sessions, 2);
    assert_int_equal(log.why[0], 0); /* it goes on */
    stk_run_log_free(&log);
}

/* However long the log, what is kept has a limit, and sums and means stay right. */
static void long_logs_are_put_together(void **state)
{
    enum { LINES = STK_RUN_STEPS + 1000 };
    stk_run_log log = { 0 };
    for (int i = 1; i <= LINES; i++) {
        char line[128];
        const int n = snprintf(line, sizeof line,
                               "{\"kind\":\"step\",\"step\":%d,\"loss\":%d,\"images\":2,\"seconds\":0.5}", i,
                               i % 2 ? 1 : 3);
        assert_int_equal(stk_run_log_line(&log, line, (size_t)n, NULL), 0);
    }
    assert_int_equal(log.n_steps, STK_RUN_STEPS / 2 + 1000);
    assert_int_equal(log.images, 2 * LINES);
    assert_int_equal(log.steps[0].step, 2);
    assert_true(log.steps[0].loss == 2 && log.steps[0].images == 4 && log.steps[0].seconds == 1);
    assert_int_equal(log.steps[log.n_steps - 1].step, LINES);
    stk_run_log_free(&log);
}

static void lines_too_long_are_damage(void **state)
{
    FILE *f = fopen(unit_path(state, "log.jsonl"), "wb");
    fputs(start, f);
    fputc('"', f);
    for (int i = 0; i < 5 << 20; i++) fputc('x', f);
    fputs("\"\n", f);
    fputs(step10, f);
    fclose(f);
    stk_run_log log = read_log(state);
    assert_int_equal(log.damaged, 1);
    assert_int_equal(log.n_steps, 1);
    stk_run_log_free(&log);
}

/* ---- the page ---- */

static void write_picture(void **state)
{
    uint8_t pixels[12] = { 255, 0, 0 };
    const stoke_image image = { pixels, 6, 2, 2, 3, 1 };
    mkdir(unit_path(state, "predictions"), 0777);
    assert_int_equal(stoke_image_write_png(unit_path(state, "predictions/000010.png"), &image, NULL), 0);
}

static void a_whole_run(void **state)
{
    LOG(start, step10, eval10, save10, eval20, end20);
    write_picture(state);
    unit_write(unit_path(state, "config.yaml"), "# all\nlr: 0.001\nname: <x>\n", 26);
    char *page = page_of(state);
    HAS(page, "SegFormer b0 on pictures: 2 classes, 38 images to train, 5 to validate");
    HAS(page, "Ended at step 20 of 40: all steps done");
    HAS(page, "<b>0.625</b><span>best mIoU, at step 10");
    HAS(page, "<b>75.0 %</b>");
    HAS(page, "<b>20.0</b><span>images per second");
    HAS(page, "<b>25.0 %</b><span>of it waiting for data");
    HAS(page, "&lt;b&gt;road&lt;/b&gt;");
    HAS(page, "A &amp; B");
    HAS(page, "img&lt;1&gt;");
    HAS(page, "lr: 0.001\nname: &lt;x&gt;");
    HAS(page, "The best and first evaluation: step 10, mIoU 0.625");
    HAS(page, "The last evaluation: step 20");
    HAS(page, "src=\"data:image/png;base64,iVBORw0KGgo");
    HAS(page, "sky taken for &lt;b&gt;road&lt;/b&gt;: 25.0 %");
    HAS(page, "IoU, last");
    assert_null(strstr(page, "<h2>Remarks"));
    free(page);
    static const char *const curves[] = { "curves/loss.svg", "curves/miou.svg", "curves/lr.svg",
                                          "curves/speed.svg" };
    for (size_t i = 0; i < 4; i++) {
        char *svg = text_of(unit_path(state, curves[i]));
        assert_int_equal(strncmp(svg, "<!-- " STOKE_OUTPUT_MARK " -->\n<svg xmlns=", 20), 0);
        free(svg);
    }
    /* nothing half-made is left */
    DIR *dir = opendir(unit_folder(state));
    for (struct dirent *e; (e = readdir(dir));) assert_null(strstr(e->d_name, ".tmp"));
    closedir(dir);
}

static void runs_that_are_not_finished(void **state)
{
    LOG(start);
    char *page = page_of(state);
    HAS(page, "Not ended: at step 0 of 40");
    HAS(page, "No evaluation yet");
    HAS(page, "no values yet");
    free(page);
    LOG(start, step10, eval10);
    page = page_of(state);
    HAS(page, "stoke train --resume");
    HAS(page, "The picture is gone: predictions/000010.png");
    free(page);
    LOG(step10); /* the first line is lost */
    page = page_of(state);
    HAS(page, "Not ended: at step 10 when");
    free(page);
}

/* A run may judge by something else, and by averaged weights. */
static void the_metric_is_named(void **state)
{
    LOG("{\"kind\":\"start\",\"step\":0,\"metric\":\"f1_macro\",\"val_samples\":3}\n",
        "{\"kind\":\"eval\",\"step\":7,\"miou\":0.5,\"best\":true,\"average\":true}\n");
    char *page = page_of(state);
    HAS(page, "mIoU at step 7, the best by f1_macro");
    HAS(page, "the moving average of the weights");
    free(page);
}

/* A run that restores pictures: its scores, and none of classes. */
static void restored_pictures(void **state)
{
    LOG("{\"kind\":\"start\",\"step\":0,\"task\":\"restore\",\"model\":\"resnet\",\"metric\":\"psnr\","
        "\"data\":"
        "\"photos\",\"train_samples\":9,\"val_samples\":3}\n",
        "{\"kind\":\"eval\",\"step\":7,\"loss\":0.02,\"psnr\":28.25,\"ssim\":0.75,\"best\":true,\"picture\":"
        "\"predictions/000010.png\",\"worst\":[{\"name\":\"img\",\"psnr\":12.5,\"ssim\":0.25}]}\n",
        "{\"kind\":\"eval\",\"step\":9,\"loss\":0.03,\"psnr\":27,\"ssim\":0.5,\"best\":false}\n");
    char *page = page_of(state);
    HAS(page, "28.25 dB</b><span>best PSNR, at step 7");
    HAS(page, "0.7500</b><span>SSIM there");
    HAS(page, "resnet on photos: 9 images to train, 3 to validate");
    HAS(page, "step 7, PSNR 28.25 dB</figcaption>");
    HAS(page, "Validation PSNR");
    HAS(page, "Validation SSIM");
    HAS(page, "best: PSNR 28.25 dB");
    HAS(page, "12.50 dB</td>");
    HAS(page, "wrong targets");
    assert_null(strstr(page, "mIoU"));
    assert_null(strstr(page, "SegFormer"));
    assert_null(strstr(page, "pixel accuracy"));
    free(page);
    assert_int_equal(access(unit_path(state, "curves/psnr.svg"), F_OK), 0);
    assert_int_equal(access(unit_path(state, "curves/miou.svg"), F_OK), -1);
}

/* What the run said, each once, however often a session said it again. */
static void remarks_are_shown(void **state)
{
    static const char one[] =
        "{\"kind\":\"remark\",\"step\":0,\"t\":0,\"text\":\"Batches of <8> (`batch` sets "
        "it), `odd\"}\n";
    LOG(start, one, "{\"kind\":\"remark\",\"step\":3,\"text\":7}\n", one);
    char *page = page_of(state);
    HAS(page, "<li>Batches of &lt;8&gt; (<code>batch</code> sets it), `odd</li>");
    assert_null(strstr(strstr(page, "Batches of") + 1, "Batches of"));
    free(page);
    stk_run_log log = { 0 };
    for (int i = 0; i < 2 * STK_RUN_REMARKS; i++) {
        char line[80];
        const int n = snprintf(line, sizeof line, "{\"kind\":\"remark\",\"step\":0,\"text\":\"%d\"}", i);
        assert_int_equal(stk_run_log_line(&log, line, (size_t)n, NULL), 0);
    }
    assert_int_equal(log.n_remarks, STK_RUN_REMARKS);
    stk_run_log_free(&log);
}

static void the_reason_names_settings(void **state)
{
    LOG(start, "{\"kind\":\"end\",\"step\":5,\"why\":\"as `patience` <allows>\"}\n");
    char *page = page_of(state);
    HAS(page, "Ended at step 5 of 40: as <code>patience</code> &lt;allows&gt;");
    free(page);
}

/* Of two steps the mean is neither more than both nor less. */
static void few_steps_are_not_smoothed_away(void **state)
{
    LOG(start, "{\"kind\":\"step\",\"step\":1,\"t\":1,\"loss\":4}\n",
        "{\"kind\":\"step\",\"step\":2,\"t\":2,\"loss\":1}\n");
    char *page = page_of(state);
    HAS(page, "<b>1.000</b><span>training loss so far");
    free(page);
}

static void no_validation(void **state)
{
    LOG("{\"kind\":\"start\",\"step\":0,\"t\":0,\"model\":\"b0\",\"steps\":10,\"val_samples\":0}\n", step10,
        "{\"kind\":\"step\",\"step\":20,\"t\":3,\"loss\":null,\"skipped\":3,\"seconds\":20,\"images\":4,"
        "\"data_seconds\":9}\n");
    char *page = page_of(state);
    HAS(page, "has no validation images");
    HAS(page, "1 logged step was not a number");
    HAS(page, "3 steps were skipped because of");
    HAS(page, "43 % of the time of steps was spent waiting for data");
    assert_null(strstr(page, "Validation scores"));
    free(page);
}

/* A log may come from anywhere: it must not make the page carry files out of other folders. */
static void pictures_come_from_the_run_alone(void **state)
{
    static const char *const paths[] = { "../p.png", "/etc/passwd", "a/../../p.png", "..", "" };
    char line[512];
    mkdir(unit_path(state, "run"), 0777);
    write_picture(state);
    assert_int_equal(rename(unit_path(state, "predictions/000010.png"), unit_path(state, "p.png")), 0);
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        snprintf(line, sizeof line, "{\"kind\":\"eval\",\"step\":1,\"miou\":0.5,\"picture\":\"%s\"}\n",
                 paths[i]);
        unit_write(unit_path(state, "run/log.jsonl"), line, strlen(line));
        assert_int_equal(stoke_run_report(unit_path(state, "run"), 0, NULL), 0);
        char *page = text_of(unit_path(state, "run/report.html"));
        assert_null(strstr(page, "base64"));
        free(page);
    }
    unit_write(unit_path(state, "run/note.txt"), "secret text that is no picture", 30);
    snprintf(line, sizeof line, "{\"kind\":\"eval\",\"step\":1,\"picture\":\"note.txt\"}\n");
    unit_write(unit_path(state, "run/log.jsonl"), line, strlen(line));
    assert_int_equal(stoke_run_report(unit_path(state, "run"), 0, NULL), 0);
    char *page = text_of(unit_path(state, "run/report.html"));
    assert_null(strstr(page, "base64"));
    free(page);
}

/* Photographs as PNG are large: the page has them as JPEG. */
static void large_pictures_become_jpeg(void **state)
{
    enum { SIDE = 400 };
    uint8_t *noise = malloc(SIDE * SIDE * 3);
    uint32_t x = 1;
    for (size_t i = 0; i < SIDE * SIDE * 3; i++) noise[i] = (uint8_t)((x = x * 1664525 + 1013904223) >> 24);
    const stoke_image image = { noise, SIDE * 3, SIDE, SIDE, 3, 1 };
    mkdir(unit_path(state, "predictions"), 0777);
    assert_int_equal(stoke_image_write_png(unit_path(state, "predictions/000010.png"), &image, NULL), 0);
    LOG(start, eval10);
    char *page = page_of(state);
    HAS(page, "src=\"data:image/jpeg;base64,/9j/");
    assert_true(strlen(page) < 300000);
    free(page);
    free(noise);
}

static void what_is_no_run_is_refused(void **state)
{
    stoke_error err = { 0 };
    assert_int_equal(stoke_run_report(unit_path(state, "absent"), 0, &err), STOKE_E_NOTFOUND);
    assert_non_null(strstr(err.message, "there is no such run"));
    assert_int_equal(stoke_run_report("", 0, &err), STOKE_E_INVALID);
    unit_write(unit_path(state, "log.jsonl"), "", 0);
    assert_int_equal(stoke_run_report(unit_folder(state), 0, &err), STOKE_E_FORMAT);
    unit_write(unit_path(state, "log.jsonl"), "hello\nworld\n", 12);
    assert_int_equal(stoke_run_report(unit_folder(state), 0, &err), STOKE_E_FORMAT);
    assert_int_equal(access(unit_path(state, "report.html"), F_OK), -1);
}

/* Before anything is written: one file of somebody else's, and all stay as they are. */
static void files_of_others_stay(void **state)
{
    static const char *const names[] = { "report.html", "curves/lr.svg" };
    stoke_error err = { 0 };
    LOG(start, step10, eval10);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        free(page_of(state));
        unit_write(unit_path(state, names[i]), "mine", 4);
        unlink(unit_path(state, "curves/loss.svg"));
        assert_int_equal(stoke_run_report(unit_folder(state), 0, &err), STOKE_E_STATE);
        assert_non_null(strstr(err.message, names[i]));
        char *text = text_of(unit_path(state, names[i]));
        assert_string_equal(text, "mine");
        free(text);
        assert_int_equal(access(unit_path(state, "curves/loss.svg"), F_OK), -1);
        assert_int_equal(stoke_run_report(unit_folder(state), 1, &err), STOKE_OK);
    }
    free(page_of(state));
}

static void survives_without_memory(void **state)
{
    LOG(start, step10, eval10, eval20);
    write_picture(state);
    int status = STOKE_E_NOMEM;
    for (int after = 0; status; after++) {
        stk_mem_fail_after(after);
        status = stoke_run_report(unit_folder(state), 0, NULL);
        stk_mem_fail_after(-1);
        assert_true(after < 400);
    }
}

UNIT_GROUP(run_report)
{
    const struct CMUnitTest tests[] = {
        unit_test_with_folder(log_adds_up),
        unit_test_with_folder(damage_is_passed_over_and_counted),
        unit_test_with_folder(a_log_that_goes_back),
        cmocka_unit_test(long_logs_are_put_together),
        unit_test_with_folder(lines_too_long_are_damage),
        unit_test_with_folder(a_whole_run),
        unit_test_with_folder(runs_that_are_not_finished),
        unit_test_with_folder(the_metric_is_named),
        unit_test_with_folder(restored_pictures),
        unit_test_with_folder(remarks_are_shown),
        unit_test_with_folder(the_reason_names_settings),
        unit_test_with_folder(few_steps_are_not_smoothed_away),
        unit_test_with_folder(no_validation),
        unit_test_with_folder(pictures_come_from_the_run_alone),
        unit_test_with_folder(large_pictures_become_jpeg),
        unit_test_with_folder(what_is_no_run_is_refused),
        unit_test_with_folder(files_of_others_stay),
        unit_test_with_folder(survives_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
