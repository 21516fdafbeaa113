/* SPDX-License-Identifier: Apache-2.0
 *
 * Prediction of many files: each once, with the mask it has alone, however many threads and however little
 * memory; ends that come early; the loader's pixels.
 */
#include "tests/unit/fixture_predict.h"

#include <pthread.h>

#include "src/base/mem.h"
#include "src/pix/pix.h"
#include "src/train/predict.h"

enum { FILES = 7, BAD = 4 };

typedef struct results {
    pthread_mutex_t lock;
    uint32_t calls[FILES];
    stoke_image masks[FILES];
    int with_image, fail_at, stop_after, windows;
    uint64_t done;
} results;

static int take_result(void *context, const stoke_predicted *predicted, stoke_error *error)
{
    results *r = context;
    pthread_mutex_lock(&r->lock);
    const uint64_t i = predicted->index;
    r->calls[i]++;
    r->done++;
    r->with_image += predicted->image != NULL;
    if (predicted->status) {
        assert_int_equal(i, BAD);
        assert_non_null(strstr(predicted->message, "4.png"));
        assert_null(predicted->mask);
    } else {
        const stoke_image *mask = predicted->mask;
        r->masks[i] = make_mask(mask->width, mask->height, mask->depth);
        memcpy(r->masks[i].data, mask->data, mask->stride * mask->height);
        if (predicted->image) assert_int_equal(predicted->image->width, mask->width);
    }
    const int failed = r->fail_at && r->done == (uint64_t)r->fail_at;
    pthread_mutex_unlock(&r->lock);
    if (!failed) return STOKE_OK;
    *error = (stoke_error){ STOKE_E_IO, "the disk is full" };
    return STOKE_E_IO;
}

static int count_result(void *context, const stoke_predicted *predicted, stoke_error *error)
{
    (void)context, (void)error;
    assert_true(predicted->status || predicted->mask->data);
    return STOKE_OK;
}

static int watch(void *context, uint64_t done, uint64_t total)
{
    const results *r = context;
    assert_int_equal(total, FILES);
    return r->stop_after && done >= (uint64_t)r->stop_after;
}

static void clear(results *r)
{
    for (int i = 0; i < FILES; i++) free(r->masks[i].data);
    pthread_mutex_destroy(&r->lock);
    *r = (results){ .lock = PTHREAD_MUTEX_INITIALIZER };
}

/* Pictures of many sizes, one of 16 bits, one that is none. Pixels of the same file in *pictures. */
static void write_pictures(void **state, stoke_sample *files, stoke_image *pictures)
{
    static char names[FILES][16], paths[FILES][4096];
    for (uint32_t i = 0; i < FILES; i++) {
        snprintf(names[i], sizeof names[i], "%u", i);
        snprintf(paths[i], sizeof paths[i], "%s/%u.png", unit_folder(state), i);
        pictures[i] = make_picture(40 + 13 * i, 75 - 3 * i, i == 6 ? 2 : 1);
        OK(stoke_image_write_png(paths[i], &pictures[i], &err));
        if (i == BAD) unit_write(paths[i], "no picture", 10);
        files[i] = (stoke_sample){ .name = names[i],
                                   .image_path = paths[i],
                                   .image = { .path = paths[i], .size = UINT64_MAX } };
    }
}

/* Whatever the number of helpers and the memory: each file once, with the mask that it has alone. */
static void many_files(void **state)
{
    const char *folder = write_network(state, "net", CLASSES);
    const stoke_data_params data = stoke_data_defaults();
    stoke_sample files[FILES];
    stoke_image pictures[FILES];
    results r = { .lock = PTHREAD_MUTEX_INITIALIZER };
    write_pictures(state, files, pictures);
    for (int round = 0; round < 3; round++) {
        stoke_predict_params params = settings(folder, round < 2 ? STOKE_PREDICT_AUTO : STOKE_PREDICT_RESIZE);
        stoke_predictor *p;
        stoke_predict_report report;
        stoke_predict_job job = stoke_predict_job_defaults();
        params.augment = "crop"; /* large ones are slid over, small ones resized */
        params.flip = round == 2;
        OK(stoke_predictor_open(&p, &params, &err));
        job.files = files;
        job.count = FILES;
        job.data = &data;
        job.images = round == 1;
        job.helpers = 1 + 2 * (uint32_t)round;
        job.memory = round == 1 ? 1 : job.memory;
        job.predicted = take_result;
        job.progress = watch;
        job.context = &r;
        OK(stoke_predict_files(p, &job, &report, &err));
        assert_int_equal(report.done, FILES - 1);
        assert_int_equal(report.bad, 1);
        assert_int_equal(report.resized + report.slid, FILES - 1);
        assert_true(round == 2 ? report.slid == 0 : report.slid > 0 && report.resized > 0);
        assert_int_equal(r.with_image, job.images ? FILES - 1 : 0);
        for (uint32_t i = 0; i < FILES; i++) {
            stoke_image mask = make_mask(pictures[i].width, pictures[i].height, 1);
            assert_int_equal(r.calls[i], 1);
            if (i != BAD) {
                OK(stoke_predictor_run(p, &pictures[i], &mask, NULL, NULL, NULL, &err));
                assert_memory_equal(mask.data, r.masks[i].data, mask.stride * mask.height);
            }
            free(mask.data);
        }
        stoke_predictor_close(&p);
        clear(&r);
    }
    for (int i = 0; i < FILES; i++) free(pictures[i].data);
}

/* A function that fails ends the work with its words; so does a request, without losing what was handed over.
 */
static void work_ends_early(void **state)
{
    const char *folder = write_network(state, "net", CLASSES);
    const stoke_data_params data = stoke_data_defaults();
    const stoke_predict_params params = settings(folder, STOKE_PREDICT_RESIZE);
    stoke_sample files[FILES];
    stoke_image pictures[FILES];
    results r = { .lock = PTHREAD_MUTEX_INITIALIZER };
    stoke_predictor *p;
    stoke_predict_report report;
    stoke_predict_job job = stoke_predict_job_defaults();
    write_pictures(state, files, pictures);
    OK(stoke_predictor_open(&p, &params, &err));
    job.files = files;
    job.count = FILES;
    job.data = &data;
    job.predicted = take_result;
    job.progress = watch;
    job.context = &r;
    r.fail_at = 2;
    assert_int_equal(stoke_predict_files(p, &job, &report, &err), STOKE_E_IO);
    assert_string_equal(err.message, "the disk is full");
    clear(&r);
    r.stop_after = 1;
    assert_int_equal(stoke_predict_files(p, &job, &report, &err), STOKE_E_CANCELLED);
    assert_int_equal(report.done + report.bad, r.done);
    clear(&r);
    OK(stoke_predict_files(p, &job, &report, &err)); /* and again as if nothing had been */
    assert_int_equal(report.done, FILES - 1);
    clear(&r);
    stoke_predictor_close(&p);
    for (int i = 0; i < FILES; i++) free(pictures[i].data);
}

static int stop_at_window(void *context, uint64_t done, uint64_t total)
{
    (void)done, (void)total;
    return ((const results *)context)->windows > 0;
}

static void count_windows(void *context, const stoke_sample *file, uint64_t done, uint64_t total)
{
    assert_non_null(file);
    assert_true(done <= total);
    ((results *)context)->windows++;
}

/* Who asks to stop in the middle of a picture gets no half of its mask. */
static void no_half_masks(void **state)
{
    const char *folder = write_network(state, "net", CLASSES);
    const stoke_data_params data = stoke_data_defaults();
    stoke_predict_params params = settings(folder, STOKE_PREDICT_SLIDE);
    stoke_sample files[FILES];
    stoke_image pictures[FILES];
    results r = { .lock = PTHREAD_MUTEX_INITIALIZER };
    stoke_predictor *p;
    stoke_predict_report report;
    stoke_predict_job job = stoke_predict_job_defaults();
    write_pictures(state, files, pictures);
    params.batch = 1;
    OK(stoke_predictor_open(&p, &params, &err));
    job.files = files + FILES - 1;
    job.count = 1;
    job.data = &data;
    job.predicted = take_result;
    job.progress = stop_at_window;
    job.windows = count_windows;
    job.context = &r;
    assert_int_equal(stoke_predict_files(p, &job, &report, &err), STOKE_E_CANCELLED);
    assert_int_equal(r.windows, 1);
    assert_int_equal(r.done, 0);
    clear(&r);
    stoke_predictor_close(&p);
    for (int i = 0; i < FILES; i++) free(pictures[i].data);
}

/* Memory that runs out anywhere is an error, or a file without a mask; nothing hangs and nothing is lost (the
 * sanitizer looks). */
static void memory_runs_out(void **state)
{
    const char *folder = write_network(state, "net", CLASSES);
    const stoke_data_params data = stoke_data_defaults();
    stoke_predict_params params = settings(folder, STOKE_PREDICT_AUTO);
    stoke_sample files[FILES];
    stoke_image pictures[FILES];
    results r = { .lock = PTHREAD_MUTEX_INITIALIZER };
    stoke_predictor *p;
    stoke_predict_job job = stoke_predict_job_defaults();
    params.augment = "crop";
    params.flip = 1;
    write_pictures(state, files, pictures);
    OK(stoke_predictor_open(&p, &params, &err));
    for (int which = 0; which < FILES; which += BAD + 1) { /* resized, slid over */
        stoke_image mask = make_mask(pictures[which].width, pictures[which].height, 1);
        int64_t after = 0;
        int status;
        do {
            stk_mem_fail_after(after++);
            status = stoke_predictor_run(p, &pictures[which], &mask, NULL, NULL, NULL, &err);
            stk_mem_fail_after(-1);
            assert_true(status == STOKE_OK || status == STOKE_E_NOMEM);
        } while (status && after < 100);
        OK(status);
        free(mask.data);
    }
    job.files = files + BAD - 1; /* resized, no picture, slid over */
    job.count = 3;
    job.data = &data;
    job.predicted = count_result;
    job.context = &r;
    stoke_predict_report report = { 0 };
    for (int64_t after = 0; report.done < 2; after += 1 + after / 4) {
        stk_mem_fail_after(after);
        const int status = stoke_predict_files(p, &job, &report, &err);
        stk_mem_fail_after(-1);
        assert_true(status == STOKE_OK || status == STOKE_E_NOMEM);
        assert_true(status || report.done + report.bad == 3);
        assert_true(after < 1000);
    }
    stoke_predictor_close(&p);
    clear(&r);
    for (int i = 0; i < FILES; i++) free(pictures[i].data);
}

/* What the network is shown in prediction is what a loader shows it in validation: 16 bits through a window
 * of percentiles, orientation, fast decoding. */
static void pixels_are_the_loaders(void **state)
{
    stoke_data_params data = stoke_data_defaults();
    stoke_dataset *set;
    stoke_loader *loader;
    const stoke_batch *batch;
    stk_loader_config shared;
    stk_picture_reader reader = { .config = &shared };
    stk_pix_writer writer;
    float *row = stk_alloc_aligned(3 * SIDE * SIDE * sizeof *row, 64);
    const stoke_image deep = make_picture(300, 200, 2), flat = make_picture(900, 700, 1);
    mkdir(unit_path(state, "images"), 0777);
    OK(stoke_image_write_png(unit_path(state, "images/a.png"), &deep, &err));
    OK(stoke_image_write_jpeg(unit_path(state, "images/b.jpg"), &flat, 90, &err));
    data.images = unit_path(state, "images");
    data.size[0] = data.size[1] = SIDE;
    data.decode = STOKE_DECODE_FAST;
    data.window = "p2:p90";
    data.orientation = STOKE_ORIENTATION_APPLY;
    data.normalize = STOKE_NORMALIZE_IMAGENET;
    data.order = STOKE_ORDER_SEQUENTIAL;
    data.batch = 2;
    data.workers = 0;
    OK(stoke_dataset_open(&set, &data, &err));
    OK(stoke_loader_create(&loader, set, &data, NULL, &err));
    OK(stoke_loader_next(loader, &batch));
    OK(stk_pictures_config(&shared, &data, SIDE, SIDE, &err));
    OK(stk_scratch_create(&reader.scratch, &err));
    stk_writer_init(&writer, STOKE_DTYPE_F32, STOKE_LAYOUT_CHW, STOKE_NORMALIZE_IMAGENET);
    for (uint32_t i = 0; i < 2; i++) {
        const stoke_sample sample = stoke_dataset_sample(set, batch->ids[i]);
        stoke_image fitted;
        OK(stk_picture_read(&reader, &sample, &err));
        assert_int_equal(reader.ctx.width, i ? 900 : 300);
        OK(stk_picture_decode(&reader, SIDE, SIDE, &fitted, &err));
        stk_write_image(&writer, &fitted, row, SIDE, SIDE, 0, 0, 0);
        assert_memory_equal(row, (char *)batch->images + i * batch->image_row_bytes,
                            3 * SIDE * SIDE * sizeof *row);
        /* What one picture took can be given back before the next. */
        const uint64_t before = stk_scratch_memory(&reader.scratch);
        stk_scratch_destroy(&reader.scratch);
        OK(stk_scratch_create(&reader.scratch, &err));
        assert_true(stk_scratch_memory(&reader.scratch) < before);
    }
    stk_scratch_destroy(&reader.scratch);
    stk_loader_config_destroy(&shared);
    stoke_batch_release(loader, &batch);
    stoke_loader_destroy(&loader);
    stoke_dataset_close(&set);
    stk_free(row), free(deep.data), free(flat.data);
}

UNIT_GROUP(predict_files)
{
    const struct CMUnitTest tests[] = {
        unit_test_with_folder(many_files),
        unit_test_with_folder(work_ends_early),
        unit_test_with_folder(no_half_masks),
        unit_test_with_folder(memory_runs_out),
        unit_test_with_folder(pixels_are_the_loaders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
