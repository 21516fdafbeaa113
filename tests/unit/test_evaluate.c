/* SPDX-License-Identifier: Apache-2.0
 *
 * A pass over a validation set against the same done picture by picture: every sample counts once, whatever
 * the batches; bad files do not; the worst are found; pictures are kept and drawn.
 */
#include "tests/unit/fixture_pairs.h"

#include <math.h>
#include <stoke/tools/metrics.h>

#include "src/base/file.h"
#include "src/train/evaluate.h"

enum { SIZE = 32, MOST = 24 };

typedef struct scratch {
    stoke_net *net;
    stoke_dataset *dataset;
    stoke_loader *loader;
    stoke_confusion *confusion;
} scratch;

static stoke_data_params settings(void **state, int64_t batch)
{
    stoke_data_params data = pairs_params(state);
    data.batch = batch;
    data.normalize = STOKE_NORMALIZE_IMAGENET;
    data.order = STOKE_ORDER_SEQUENTIAL;
    data.dtype = STOKE_IMAGE_DTYPE_F32;
    return data;
}

static void open_bench(scratch *b, const stoke_data_params *data, uint32_t classes)
{
    stoke_error err = { 0 };
    stoke_net_params params = stoke_net_defaults();
    params.model = "b0";
    params.classes = classes;
    params.batch = (uint32_t)data->batch;
    params.height = params.width = SIZE;
    params.training = 0;
    params.precision = STOKE_PRECISION_FP32;
    params.threads = 2;
    params.seed = 5;
    params.loss.ignore_index = data->ignore_index;
    int r = stoke_net_open(&b->net, &params, &err);
    if (!r) r = stoke_dataset_open(&b->dataset, data, &err);
    if (!r) r = stoke_loader_create(&b->loader, b->dataset, data, NULL, &err);
    if (!r) r = stoke_confusion_create(&b->confusion, classes, data->ignore_index, &err);
    if (r) fail_msg("%s", err.message);
}

static void close_bench(scratch *b)
{
    stoke_loader_destroy(&b->loader);
    stoke_dataset_close(&b->dataset);
    stoke_net_close(&b->net);
    stoke_confusion_destroy(&b->confusion);
}

static stk_evaluate_result evaluated(scratch *b, stk_evaluate_gallery *gallery)
{
    stk_evaluate_result e;
    stoke_error err = { 0 };
    if (stk_evaluate(b->net, b->loader, NULL, b->confusion, gallery, &e, NULL, NULL, &err))
        fail_msg("%s", err.message);
    return e;
}

/* The same one picture at a time: counts, and of each picture mean IoU and loss. */
typedef struct single {
    uint64_t n;
    double miou[MOST], loss[MOST];
    const char *name[MOST];
} single;

static single one_by_one(scratch *b, stoke_confusion *total)
{
    single s = { 0 };
    const stoke_batch *batch;
    uint16_t predicted[SIZE * SIZE];
    stoke_confusion *own;
    assert_int_equal(stoke_confusion_create(&own, stoke_confusion_classes(total), 255, NULL), 0);
    while (stoke_loader_next(b->loader, &batch) == 0) {
        assert_int_equal(batch->count, 1);
        if (batch->status[0] == STOKE_ROW_OK) {
            const stoke_net_batch row = stoke_net_batch_of(batch);
            assert_true(row.count == 1 && row.images == batch->images && row.masks == batch->masks);
            assert_int_equal(stoke_net_evaluate(b->net, &row, &s.loss[s.n], predicted, NULL), 0);
            stoke_confusion_reset(own);
            assert_int_equal(
                stoke_confusion_add(own, predicted, batch->masks, batch->mask_dtype, SIZE * SIZE, NULL), 0);
            s.miou[s.n] = stoke_confusion_scores(own).miou;
            s.name[s.n++] = batch->names[0];
            assert_int_equal(stoke_confusion_merge(total, own, NULL), 0);
        }
        stoke_batch_release(b->loader, &batch);
    }
    stoke_loader_set_epoch(b->loader, 0);
    stoke_confusion_destroy(&own);
    return s;
}

static void expect_same_counts(const stoke_confusion *a, const stoke_confusion *b)
{
    const uint32_t n = stoke_confusion_classes(a);
    for (uint32_t t = 0; t < n; t++)
        for (uint32_t p = 0; p < n; p++)
            assert_int_equal(stoke_confusion_count(a, t, p), stoke_confusion_count(b, t, p));
}

/* 7 samples in batches of 3: the last is short. Twice: the loader was set back. */
static void every_sample_counts_once(void **state)
{
    pairs_write(state, 7, 40, 36);
    const stoke_data_params one = settings(state, 1), three = settings(state, 3);
    scratch a = { 0 }, b = { 0 };
    open_bench(&a, &one, PAIRS_CLASSES);
    open_bench(&b, &three, PAIRS_CLASSES);
    stoke_confusion *total;
    assert_int_equal(stoke_confusion_create(&total, PAIRS_CLASSES, 255, NULL), 0);
    const single s = one_by_one(&a, total);
    assert_int_equal(s.n, 7);
    for (int again = 0; again < 2; again++) {
        const stk_evaluate_result e = evaluated(&b, NULL);
        double loss = 0;
        for (uint64_t i = 0; i < 7; i++) loss += s.loss[i] / 7;
        expect_same_counts(total, b.confusion);
        assert_int_equal(e.samples, 7);
        assert_int_equal(e.scores.pixels, 7 * SIZE * SIZE);
        assert_true(e.scores.miou == stoke_confusion_scores(total).miou);
        assert_true(fabs(e.loss - loss) < 1e-5 * loss); /* no pixel is ignored: means of means are the mean */
        assert_true(e.seconds > 0 && e.data_seconds >= 0 && e.data_seconds <= e.seconds);
    }
    stoke_confusion_destroy(&total);
    close_bench(&a);
    close_bench(&b);
}

static void the_worst_are_listed_in_order(void **state)
{
    pairs_write(state, 20, SIZE, SIZE);
    const stoke_data_params one = settings(state, 1), eight = settings(state, 8);
    scratch a = { 0 }, b = { 0 };
    open_bench(&a, &one, PAIRS_CLASSES);
    open_bench(&b, &eight, PAIRS_CLASSES);
    const single s = one_by_one(&a, a.confusion);
    const stk_evaluate_result e = evaluated(&b, NULL);
    assert_int_equal(e.n_worst, STK_WORST);
    for (size_t k = 0; k < e.n_worst; k++) {
        const stk_evaluate_worst *w = &e.worst[k];
        if (k) assert_true(w->miou >= e.worst[k - 1].miou);
        if (k && w->miou == e.worst[k - 1].miou) assert_true(w->id > e.worst[k - 1].id);
        assert_string_equal(w->name, s.name[w->id]);
        assert_true(w->miou == s.miou[w->id]);
        assert_true(w->accuracy >= 0 && w->accuracy <= 1);
    }
    size_t better = 0; /* than the last of the list: the four that are not on it */
    for (uint64_t i = 0; i < 20; i++) better += s.miou[i] >= e.worst[STK_WORST - 1].miou;
    assert_true(better >= 5);
    close_bench(&a);
    close_bench(&b);
}

/* What a gallery of all samples shows, as the bytes of its PNG. captions: scores of their own, or NULL.
 * free() them. */
static uint8_t *drawn(void **state, scratch *b, const double *captions, stk_evaluate_result *e, size_t *size)
{
    stk_evaluate_gallery *gallery;
    const uint64_t count = stoke_dataset_count(b->dataset);
    const char *path = unit_path(state, "drawn.png");
    assert_int_equal(stk_gallery_create(&gallery, count, (uint32_t)count, SIZE, SIZE, NULL), 0);
    *e = evaluated(b, gallery);
    for (uint64_t i = 0; captions && i < count; i++) stk_gallery_score(gallery, i, captions[i], 0.5);
    assert_int_equal(stk_gallery_write(gallery, path, "all", 255, NULL, PAIRS_CLASSES, NULL), 0);
    stk_gallery_destroy(&gallery);
    return unit_read(path, size);
}

/* Rows of bad files hold substitutes; these have been counted in their own place. Counts, list and pictures
 * are those of the set without the file, whatever the batches. */
static void substitutes_of_bad_files_do_not_count(void **state)
{
    pairs_write(state, 6, SIZE, SIZE);
    stoke_data_params data = settings(state, 3);
    scratch good = { 0 }, bad = { 0 };
    stk_evaluate_result e, wanted;
    size_t size, wanted_size;
    unit_write(unit_path(state, "images/s7.png"), "no picture", 10);
    pairs_write_one(state, 8, "png", SIZE, SIZE);
    assert_int_equal(link(unit_path(state, "masks/s8.png"), unit_path(state, "masks/s7.png")), 0);
    data.max_bad = "3";
    open_bench(&bad, &data, PAIRS_CLASSES);
    assert_int_equal(stoke_dataset_count(bad.dataset), 8); /* s7 is the first of its batch */
    uint8_t *picture = drawn(state, &bad, NULL, &e, &size);
    assert_int_equal(e.samples, 7);
    assert_int_equal(unlink(unit_path(state, "images/s7.png")), 0);
    assert_int_equal(unlink(unit_path(state, "masks/s7.png")), 0);
    data.batch = 7;
    open_bench(&good, &data, PAIRS_CLASSES);
    uint8_t *wanted_picture = drawn(state, &good, NULL, &wanted, &wanted_size);
    assert_int_equal(wanted.samples, 7);
    expect_same_counts(good.confusion, bad.confusion);
    assert_true(fabs(e.loss - wanted.loss) < 1e-6 * wanted.loss);
    assert_int_equal(e.n_worst, 7);
    assert_true(size == wanted_size && !memcmp(picture, wanted_picture, size));
    free(picture);
    free(wanted_picture);
    close_bench(&good);
    close_bench(&bad);
}

/* A picture of which no pixel counts has no score: it is neither among the worst nor in the loss. */
static void a_picture_that_is_all_ignored_has_no_score(void **state)
{
    pairs_write(state, 2, SIZE, SIZE);
    uint8_t ids[SIZE * SIZE];
    memset(ids, 255, sizeof ids);
    const stoke_image mask = { ids, SIZE, SIZE, SIZE, 1, 1 };
    assert_int_equal(stoke_image_write_png(unit_path(state, "masks/s1.png"), &mask, NULL), 0);
    const stoke_data_params data = settings(state, 1);
    scratch b = { 0 };
    open_bench(&b, &data, PAIRS_CLASSES);
    const stk_evaluate_result both = evaluated(&b, NULL);
    assert_int_equal(both.samples, 2);
    assert_int_equal(both.n_worst, 1);
    assert_int_equal(both.scores.pixels, SIZE * SIZE);
    const single s = one_by_one(&b, b.confusion);
    assert_true(both.loss == s.loss[0]);
    close_bench(&b);
}

static int stop(void *context, uint64_t done, uint64_t total)
{
    uint64_t *seen = context;
    seen[0] = done;
    seen[1] = total;
    return done >= seen[2];
}

static void progress_tells_and_stops(void **state)
{
    pairs_write(state, 5, SIZE, SIZE);
    const stoke_data_params data = settings(state, 2);
    scratch b = { 0 };
    stk_evaluate_result e;
    stoke_error err = { 0 };
    uint64_t seen[3] = { 0, 0, 2 };
    open_bench(&b, &data, PAIRS_CLASSES);
    assert_int_equal(stk_evaluate(b.net, b.loader, NULL, b.confusion, NULL, &e, stop, seen, &err),
                     STOKE_E_CANCELLED);
    assert_true(seen[0] == 2 && seen[1] == 5);
    seen[2] = 6;
    assert_int_equal(stk_evaluate(b.net, b.loader, NULL, b.confusion, NULL, &e, stop, seen, &err), STOKE_OK);
    assert_true(seen[0] == 5 && seen[1] == 5);
    assert_int_equal(e.samples, 5);
    close_bench(&b);
}

static void what_does_not_fit_is_refused(void **state)
{
    pairs_write(state, 2, SIZE, SIZE);
    stoke_data_params data = settings(state, 2);
    scratch b = { 0 };
    stk_evaluate_result e;
    stoke_error err = { 0 };
    data.classes = 0; /* nobody checks the masks before the network */
    open_bench(&b, &data, 3);
    assert_int_equal(stk_evaluate(b.net, b.loader, NULL, b.confusion, NULL, &e, NULL, NULL, &err), STOKE_E_LABEL);
    close_bench(&b);
    data.size[0] = SIZE + 4;
    open_bench(&b, &data, PAIRS_CLASSES);
    assert_int_equal(stk_evaluate(b.net, b.loader, NULL, b.confusion, NULL, &e, NULL, NULL, &err), STOKE_E_INVALID);
    assert_non_null(strstr(err.message, "32 x 32"));
    close_bench(&b);
}

/* Foreground against background: one logit. */
static void one_class_is_evaluated_as_two(void **state)
{
    pairs_write(state, 3, SIZE, SIZE);
    stoke_data_params data = settings(state, 2);
    data.label_map = "0:0,1:1,2:1,3:0,4:0";
    data.classes = 2;
    scratch b = { 0 };
    open_bench(&b, &data, 1);
    const stk_evaluate_result e = evaluated(&b, NULL);
    assert_int_equal(stoke_confusion_classes(b.confusion), 2);
    assert_int_equal(e.scores.pixels, 3 * SIZE * SIZE);
    assert_int_equal(stoke_confusion_class(b.confusion, 1).truth +
                         stoke_confusion_class(b.confusion, 0).truth,
                     3 * SIZE * SIZE);
    close_bench(&b);
}

/* Scores at the masks' own size stand below pictures at the network's. */
static void captions_can_be_given(void **state)
{
    static const double low[3] = { 0.125, 0.125, 0.125 }, high[3] = { 0.875, 0.875, 0.875 };
    const double *const captions[] = { NULL, low, low, high };
    pairs_write(state, 3, SIZE, SIZE);
    const stoke_data_params data = settings(state, 3);
    scratch b = { 0 };
    stk_evaluate_result e;
    uint8_t *picture[4];
    size_t size[4];
    open_bench(&b, &data, PAIRS_CLASSES);
    for (int i = 0; i < 4; i++) picture[i] = drawn(state, &b, captions[i], &e, &size[i]);
    for (int i = 1; i < 4; i++) {
        const int same = size[i] == size[i - 1] && !memcmp(picture[i], picture[i - 1], size[i]);
        assert_int_equal(same, i == 2);
    }
    for (int i = 0; i < 4; i++) free(picture[i]);
    close_bench(&b);
}

static void pictures_are_kept_and_drawn(void **state)
{
    pairs_write(state, 7, SIZE, SIZE);
    const stoke_data_params data = settings(state, 3);
    scratch b = { 0 };
    stk_evaluate_gallery *gallery;
    stoke_error err = { 0 };
    struct stat st;
    open_bench(&b, &data, PAIRS_CLASSES);
    assert_int_equal(stk_gallery_create(&gallery, 7, 3, SIZE, SIZE, &err), 0);
    const char *path = unit_path(state, "kept.png");
    assert_int_equal(stk_gallery_write(gallery, path, "nothing yet", 255, NULL, PAIRS_CLASSES, &err),
                     STOKE_E_STATE);
    evaluated(&b, gallery);
    if (stk_gallery_write(gallery, path, "step 5", 255, NULL, PAIRS_CLASSES, &err))
        fail_msg("%s", err.message);
    assert_true(stat(path, &st) == 0 && st.st_size > 1000);
    stk_gallery_destroy(&gallery);
    assert_int_equal(stk_gallery_create(&gallery, 2, 8, SIZE, SIZE, &err), 0); /* fewer than wanted */
    stk_gallery_destroy(&gallery);
    close_bench(&b);
}

/* A picture as a loader with such a writer delivers it. */
static void take_picture(stk_evaluate_gallery *gallery, const stk_pix_writer *writer)
{
    static float floats[3 * SIZE * SIZE];
    static uint8_t mask[SIZE * SIZE];
    static uint16_t predicted[SIZE * SIZE];
    static const char *const name = "one";
    const uint64_t id = 0;
    const uint8_t status = 0;
    for (size_t i = 0; i < 3 * SIZE * SIZE; i++) {
        const size_t c = i / (SIZE * SIZE);
        floats[i] = (float)((double)(i * 7 % 256) / 255 * writer->scale[c] + writer->bias[c]);
    }
    const stoke_batch batch = { .count = 1,
                                .height = SIZE,
                                .width = SIZE,
                                .layout = STOKE_LAYOUT_CHW,
                                .images = floats,
                                .image_row_bytes = sizeof floats,
                                .masks = mask,
                                .mask_dtype = STOKE_DTYPE_U8,
                                .mask_row_bytes = sizeof mask,
                                .ids = &id,
                                .names = &name,
                                .status = &status };
    stk_gallery_take(gallery, &batch, predicted);
}

/* However values were normalised, people see the picture in its own colours. */
static void pictures_have_their_own_colours(void **state)
{
    static const double mean[3] = { 0.1, 0.9, 0.5 }, deviation[3] = { 2, 0.05, 0.7 };
    char *path[2] = { strdup(unit_path(state, "0.png")), strdup(unit_path(state, "1.png")) };
    stk_mem_buffer bytes[2] = { { 0 } };
    size_t size[2];
    for (int i = 0; i < 2; i++) {
        stk_pix_writer writer;
        stk_evaluate_gallery *gallery;
        stk_writer_init(&writer, STOKE_DTYPE_F32, STOKE_LAYOUT_CHW, STOKE_NORMALIZE_IMAGENET);
        if (i) stk_writer_normalize(&writer, mean, deviation);
        assert_int_equal(stk_gallery_create(&gallery, 1, 1, SIZE, SIZE, NULL), 0);
        assert_false(stk_gallery_has_any(gallery));
        if (i) stk_gallery_undo(gallery, &writer);
        take_picture(gallery, &writer);
        assert_true(stk_gallery_has_any(gallery));
        assert_int_equal(stk_gallery_write(gallery, path[i], "", 255, NULL, PAIRS_CLASSES, NULL), 0);
        stk_gallery_destroy(&gallery);
        assert_int_equal(stk_file_read(path[i], 1 << 20, &bytes[i], &size[i], NULL), 0);
        free(path[i]);
    }
    assert_int_equal(size[0], size[1]);
    assert_memory_equal(bytes[0].data, bytes[1].data, size[0]);
    stk_buffer_free(&bytes[0]);
    stk_buffer_free(&bytes[1]);
}

UNIT_GROUP(evaluate)
{
    const struct CMUnitTest tests[] = {
        unit_test_with_folder(every_sample_counts_once),
        unit_test_with_folder(the_worst_are_listed_in_order),
        unit_test_with_folder(substitutes_of_bad_files_do_not_count),
        unit_test_with_folder(a_picture_that_is_all_ignored_has_no_score),
        unit_test_with_folder(progress_tells_and_stops),
        unit_test_with_folder(what_does_not_fit_is_refused),
        unit_test_with_folder(one_class_is_evaluated_as_two),
        unit_test_with_folder(captions_can_be_given),
        unit_test_with_folder(pictures_are_kept_and_drawn),
        unit_test_with_folder(pictures_have_their_own_colours),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
