/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <dirent.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>

#include "src/base/json_read.h"
#include "src/base/mem.h"
#include "src/train/log_writer.h"

/* ---- a run that needs no data ---- */

static const char *names3[] = { "sky", NULL, "a,\"b\"\nc" };

static stk_setup made_up_setup(void)
{
    stk_setup setup = {
        .classes = 3, .class_names = names3, .steps = 40, .epochs = 4, .batches_per_epoch = 19
    };
    setup.train.data = "pictures";
    setup.train.batch = 4;
    setup.train.size[0] = 48;
    setup.train.size[1] = 64;
    setup.params.accumulate = 2;
    return setup;
}

static const stoke_net_plan plan = { .parameter_count = 3716457, .model = "b0", .threads = 2 };

static stk_log_step_note note_of(uint64_t step)
{
    return (stk_log_step_note){ .step = step,
                                .epoch = step / 10,
                                .t = (double)step / 4,
                                .loss = step == 20 ? NAN : 2.5,
                                .lr = 6e-5,
                                .gradient_norm = 1.5,
                                .loss_scale = 1,
                                .skipped = 1,
                                .images = 40,
                                .seconds = 2,
                                .data_seconds = 0.5 };
}

/* Class 0 half right, class 1 absent, class 2 right. */
static stoke_confusion *some_counts(void)
{
    stoke_confusion *confusion;
    const uint16_t said[] = { 0, 2, 2, 2 };
    const uint8_t truth[] = { 0, 0, 2, 2 };
    assert_int_equal(stoke_confusion_create(&confusion, 3, -1, NULL), 0);
    assert_int_equal(stoke_confusion_add(confusion, said, truth, STOKE_DTYPE_U8, 4, NULL), 0);
    return confusion;
}

static void evaluate_at(stk_log_writer *journal, uint64_t step)
{
    const stk_setup setup = made_up_setup();
    stoke_confusion *confusion = some_counts();
    stk_evaluate_result evaluation = { .loss = 1.25,
                                       .scores = stoke_confusion_scores(confusion),
                                       .samples = 7,
                                       .seconds = 0.5,
                                       .worst = { { "img_<3>", 3, 0.25, 0.5 } },
                                       .n_worst = 1 };
    const stk_log_eval_note note = { step, step / 10, (double)step / 4, &evaluation, confusion, 1, 0, NULL };
    stk_log_writer_evaluation(journal, &setup, &note);
    stoke_confusion_destroy(&confusion);
}

/* Steps from .. to by tens, each with an evaluation and a save. */
static void write_some(stk_log_writer *journal, uint64_t from, uint64_t to)
{
    for (uint64_t step = from; step <= to; step += 10) {
        const stk_log_step_note note = note_of(step);
        stk_log_writer_step(journal, &note);
        evaluate_at(journal, step);
        stk_log_writer_saved(journal, step, (double)step / 4, 0.25, 1000);
    }
}

static int losses;
static char first_loss[256];

static void on_loss(void *context, stk_log_file file, const char *why)
{
    if (!losses++) snprintf(first_loss, sizeof first_loss, "%d %s", (int)file, why);
}

static stk_log_writer *open_journal(const char *folder, const uint64_t *after, int tensorboard)
{
    stk_log_writer *journal;
    stoke_error err = { 0 };
    const stk_setup setup = made_up_setup();
    losses = 0;
    if (stk_log_writer_open(&journal, folder, after, tensorboard, on_loss, NULL, &err))
        fail_msg("%s", err.message);
    stk_log_writer_start(journal, &setup, &plan, "avx2", after ? *after : 0, 0, after != NULL);
    assert_int_equal(losses, 0);
    return journal;
}

static char *text_of(const char *path)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    char *text = calloc(1, 1 << 20);
    assert_true(fread(text, 1, (1 << 20) - 1, f) < (1 << 20) - 1);
    fclose(f);
    return text;
}

static size_t count_lines(const char *text, const char *with)
{
    size_t n = 0;
    for (const char *end; (end = strchr(text, '\n')); text = end + 1) {
        const char *hit = strstr(text, with);
        n += hit && hit < end;
    }
    return n;
}

static size_t event_files(const char *folder)
{
    size_t n = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *e; (e = readdir(dir));) n += !strncmp(e->d_name, "events.out.tfevents.", 20);
    closedir(dir);
    return n;
}

/* ---- tests ---- */

static void lines_say_what_the_header_promises(void **state)
{
    stk_log_writer *journal = open_journal(unit_folder(state), NULL, 1);
    write_some(journal, 10, 20);
    stk_log_writer_sentence(journal, "end", 20, 5, "all \"steps\" done");
    assert_int_equal(losses, 0);
    stk_log_writer_close(&journal);
    assert_null(journal);
    char *text = text_of(unit_path(state, "log.jsonl")), *line = text;
    static const char *const wanted[] = {
        "\"kind\": \"start\", \"step\": 0, \"t\": 0, \"time\": \"20",
        "{\"kind\": \"step\", \"step\": 10, \"epoch\": 1, \"t\": 2.5, \"loss\": 2.5, \"lr\": 6e-05, "
        "\"gradient_norm\": 1.5, "
        "\"loss_scale\": 1, \"skipped\": 1, \"images\": 40, \"seconds\": 2, \"data_seconds\": 0.5}",
        "\"kind\": \"eval\", \"step\": 10, \"epoch\": 1, \"t\": 2.5, \"loss\": 1.25, \"miou\": 0.58333",
        "{\"kind\": \"save\", \"step\": 10, \"t\": 2.5, \"seconds\": 0.25, \"bytes\": 1000}",
        "\"step\": 20, \"epoch\": 2, \"t\": 5, \"loss\": null",
        "\"iou\": [0.5, null, 0.66666",
        "\"save\"",
        "{\"kind\": \"end\", \"step\": 20, \"t\": 5, \"why\": \"all \\\"steps\\\" done\"}",
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        char *end = strchr(line, '\n');
        stk_json json;
        assert_non_null(end);
        *end = 0;
        if (!strstr(line, wanted[i])) fail_msg("line %zu: %s", i, line);
        assert_int_equal(stk_json_read(&json, line, strlen(line), 10000, NULL), 0);
        stk_json_free(&json);
        line = end + 1;
    }
    assert_string_equal(line, "");
    free(text);
    assert_int_equal(event_files(unit_folder(state)), 1);
}

static void start_names_everything(void **state)
{
    stk_log_writer *journal = open_journal(unit_folder(state), NULL, 0);
    stk_log_writer_close(&journal);
    char *text = text_of(unit_path(state, "log.jsonl"));
    static const char *const parts[] = { "\"names\": [\"sky\", null, \"a,\\\"b\\\"\\nc\"]",
                                         "\"size\": [48, 64]",
                                         "\"batch\": 4",
                                         "\"accumulate\": 2",
                                         "\"steps\": 40",
                                         "\"steps_per_epoch\": 10",
                                         "\"precision\": \"fp32\"",
                                         "\"cpu\": \"avx2\"",
                                         "\"data\": \"pictures\"",
                                         "\"metric\": \"miou\"",
                                         "\"resumed\": false",
                                         "\"parameters\": 3716457" };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!strstr(text, parts[i])) fail_msg("%s is not in %s", parts[i], text);
    free(text);
    assert_int_equal(event_files(unit_folder(state)), 0);
}

static void table_has_a_row_per_evaluation(void **state)
{
    stk_log_writer *journal = open_journal(unit_folder(state), NULL, 0);
    evaluate_at(journal, 10);
    stk_log_writer_close(&journal);
    char *text = text_of(unit_path(state, "metrics.csv"));
    static const char head[] = "step,epoch,seconds,loss"
#define COLUMN_RESTORE(name)
#define COLUMN_SEGMENT(name)                                "," #name
#define STOKE_SCORE(id, task, name, title, metric, charted) COLUMN_##task(name)
#include <stoke/scores.def>
#undef STOKE_SCORE
                               ",\"iou_sky\",iou_1,\"iou_a,\"\"b\"\" c\"\r\n";
    static const char first[] =
        "10,1,2.5,1.25,0.5833333333333333,0.7333333333333334,0.75,0.8333333333333333,0.75,0.75,";
    static const char last[] = ",0.5,,0.6666666666666666\r\n";
    assert_memory_equal(text, head, strlen(head));
    const char *row = text + strlen(head);
    assert_memory_equal(row, first, strlen(first));
    assert_string_equal(row + strlen(row) - strlen(last), last);
    assert_ptr_equal(strchr(row, '\n'), row + strlen(row) - 1);
    free(text);
}

/* What a run would have written that was never interrupted. */
static void a_resumed_run_leaves_no_trace(void **state)
{
    const uint64_t after = 20;
    stk_log_writer *journal = open_journal(unit_folder(state), NULL, 1);
    write_some(journal, 10, 20);
    char *log_then = text_of(unit_path(state, "log.jsonl")),
         *table_then = text_of(unit_path(state, "metrics.csv"));
    write_some(journal, 30, 40);
    stk_log_writer_close(&journal);
    /* killed in the middle of a line */
    FILE *f = fopen(unit_path(state, "log.jsonl"), "ab");
    fputs("{\"kind\": \"step\", \"step\": 5", f);
    fclose(f);
    f = fopen(unit_path(state, "metrics.csv"), "ab");
    fputs("1,0,1", f);
    fclose(f);
    assert_int_equal(stk_log_writer_open(&journal, unit_folder(state), &after, 1, NULL, NULL, NULL), 0);
    char *log_now = text_of(unit_path(state, "log.jsonl")),
         *table_now = text_of(unit_path(state, "metrics.csv"));
    assert_string_equal(log_now, log_then);
    assert_string_equal(table_now, table_then);
    free(log_now);
    free(table_now);
    const stk_setup setup = made_up_setup();
    stk_log_writer_start(journal, &setup, &plan, "avx2", 20, 5, 1);
    write_some(journal, 30, 30);
    stk_log_writer_close(&journal);
    log_now = text_of(unit_path(state, "log.jsonl"));
    table_now = text_of(unit_path(state, "metrics.csv"));
    assert_int_equal(count_lines(log_now, "\"start\""), 2);
    assert_int_equal(count_lines(log_now, "\"step\": 30"), 3);
    assert_int_equal(count_lines(log_now, "\"step\": 40"), 0);
    assert_int_equal(count_lines(table_now, "iou_sky"), 1); /* one head */
    assert_int_equal(count_lines(table_now, "30,3,"), 1);
    assert_int_equal(event_files(unit_folder(state)), 2);
    free(log_then);
    free(table_then);
    free(log_now);
    free(table_now);
}

/* Logs that were lost or spoiled do not keep a run from going on. */
static void resumes_with_spoiled_files(void **state)
{
    const uint64_t after = 20;
    const char text[] =
        "not json\n{\"kind\":\"step\"}\n[1]\n\n{\"kind\":\"step\",\"step\":7}\n{\"step\":-3}\n";
    unit_write(unit_path(state, "log.jsonl"), text, sizeof text - 1);
    unit_write(unit_path(state, "metrics.csv"), "step,a\nx,1\n99999999999999999999,1\n3,1\n", 38);
    stk_log_writer *journal = open_journal(unit_folder(state), &after, 0);
    stk_log_writer_close(&journal);
    char *log = text_of(unit_path(state, "log.jsonl")), *table = text_of(unit_path(state, "metrics.csv"));
    assert_int_equal(strncmp(log, "{\"kind\":\"step\",\"step\":7}\n{\"kind\": \"start\"", 41), 0);
    assert_string_equal(table, "step,a\n3,1\n");
    free(log);
    free(table);
    remove(unit_path(state, "log.jsonl"));
    remove(unit_path(state, "metrics.csv"));
    journal = open_journal(unit_folder(state), &after, 0);
    stk_log_writer_close(&journal);
    table = text_of(unit_path(state, "metrics.csv"));
    assert_int_equal(count_lines(table, "iou_sky"), 1);
    free(table);
}

/* A disk that is full: an error with the file's name, and no half line. */
static void a_full_disk_is_said(void **state)
{
    stk_log_writer *journal = open_journal(unit_folder(state), NULL, 0);
    struct rlimit before, tight;
    stoke_error err = { 0 };
    struct stat st;
    assert_int_equal(stat(unit_path(state, "log.jsonl"), &st), 0);
    getrlimit(RLIMIT_FSIZE, &before);
    tight = before;
    tight.rlim_cur = (rlim_t)st.st_size + 250; /* a line of about 200, and a part of another */
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &tight);
    const stk_log_step_note note = note_of(10);
    stk_log_writer_step(journal, &note);
    const int first = losses;
    stk_log_writer_step(journal, &note);
    stk_log_writer_step(journal, &note);
    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, SIG_DFL);
    assert_int_equal(first, 0);
    assert_int_equal(losses, 2);
    assert_non_null(strstr(first_loss, "log.jsonl"));
    char *text = text_of(unit_path(state, "log.jsonl"));
    assert_int_equal(count_lines(text, "\"step\": 10"), 1);
    assert_int_equal(text[strlen(text) - 1], '\n');
    free(text);
    stk_log_writer_step(journal, &note);
    assert_int_equal(losses, 2); /* there is room again */
    stk_log_writer_close(&journal);
    text = text_of(unit_path(state, "log.jsonl"));
    assert_int_equal(count_lines(text, "\"step\": 10"), 2);
    free(text);
    assert_int_equal(stk_log_writer_open(&journal, unit_path(state, "absent"), NULL, 0, NULL, NULL, &err),
                     STOKE_E_IO);
}

/* A network of one class tells foreground from background: both have a score. */
static void one_class_is_two(void **state)
{
    static const char *door[] = { "door" };
    stk_setup setup = { .classes = 1 };
    assert_int_equal(stk_setup_matrix_classes(&setup), 2);
    assert_string_equal(stk_setup_class_name(&setup, 0), "background");
    assert_string_equal(stk_setup_class_name(&setup, 1), "foreground");
    setup.class_names = door;
    assert_string_equal(stk_setup_class_name(&setup, 1), "door");
    setup.classes = 3;
    setup.class_names = names3;
    assert_string_equal(stk_setup_class_name(&setup, 0), "sky");
    assert_null(stk_setup_class_name(&setup, 1));
}

/* A run that restores pictures writes its own scores in place of those of classes, in every file. */
static void restored_pictures_have_their_own(void **state)
{
    stk_setup setup = made_up_setup();
    setup.train.task = STOKE_TASK_RESTORE;
    setup.params.metric = STOKE_METRIC_PSNR;
    stk_log_writer *journal;
    assert_int_equal(stk_log_writer_open(&journal, unit_folder(state), NULL, 1, on_loss, NULL, NULL), 0);
    losses = 0;
    stk_log_writer_start(journal, &setup, &plan, "avx2", 0, 0, 0);
    stk_evaluate_result evaluation = { .loss = 0.125,
                                       .scores = { .psnr = 28.5, .ssim = 0.75, .miou = NAN },
                                       .input = { .psnr = 20.5, .ssim = 0.5 },
                                       .samples = 7,
                                       .worst = { { .name = "img", .psnr = 12.5, .ssim = 0.25 } },
                                       .n_worst = 1 };
    const stk_log_eval_note note = { 10, 1, 2.5, &evaluation, NULL, 1, 0, NULL };
    stk_log_writer_evaluation(journal, &setup, &note);
    stk_log_writer_close(&journal);
    assert_int_equal(losses, 0);
    char *table = text_of(unit_path(state, "metrics.csv")), *log = text_of(unit_path(state, "log.jsonl"));
    assert_string_equal(table, "step,epoch,seconds,loss,psnr,ssim\r\n10,1,2.5,0.125,28.5,0.75\r\n");
    assert_non_null(strstr(log, "\"task\": \"restore\", \"metric\": \"psnr\""));
    assert_non_null(strstr(log, "\"loss\": 0.125, \"psnr\": 28.5, \"ssim\": 0.75, \"input_psnr\": 20.5, "
                                "\"input_ssim\": 0.5, \"best\": true"));
    assert_non_null(strstr(log, "\"worst\": [{\"name\": \"img\", \"psnr\": 12.5, \"ssim\": 0.25}]"));
    assert_null(strstr(log, "miou"));
    assert_null(strstr(log, "confusion"));
    free(table);
    free(log);
}

/* And one that segments says nothing of the scores of the other task. */
static void classes_have_their_own(void **state)
{
    stk_log_writer *journal = open_journal(unit_folder(state), NULL, 0);
    write_some(journal, 10, 10);
    stk_log_writer_close(&journal);
    char *log = text_of(unit_path(state, "log.jsonl"));
    assert_null(strstr(log, "psnr"));
    assert_null(strstr(log, "ssim"));
    assert_null(strstr(log, "task"));
    free(log);
}

static void survives_without_memory(void **state)
{
    const uint64_t past = 10;
    stk_log_writer *journal = open_journal(unit_folder(state), NULL, 0);
    write_some(journal, 10, 10);
    stk_log_writer_close(&journal);
    int status = STOKE_E_NOMEM;
    for (int after = 0; status; after++) {
        const stk_setup setup = made_up_setup();
        stk_mem_fail_after(after);
        status = stk_log_writer_open(&journal, unit_folder(state), &past, 1, NULL, NULL, NULL);
        if (!status) stk_log_writer_start(journal, &setup, &plan, "c", 10, 1, 1);
        stk_mem_fail_after(-1);
        stk_log_writer_close(&journal);
        assert_true(after < 200);
    }
}

UNIT_GROUP(log_writer)
{
    const struct CMUnitTest tests[] = {
        unit_test_with_folder(lines_say_what_the_header_promises),
        unit_test_with_folder(start_names_everything),
        unit_test_with_folder(restored_pictures_have_their_own),
        unit_test_with_folder(classes_have_their_own),
        unit_test_with_folder(table_has_a_row_per_evaluation),
        unit_test_with_folder(a_resumed_run_leaves_no_trace),
        unit_test_with_folder(resumes_with_spoiled_files),
        unit_test_with_folder(a_full_disk_is_said),
        cmocka_unit_test(one_class_is_two),
        unit_test_with_folder(survives_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
