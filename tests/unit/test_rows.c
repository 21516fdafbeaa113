/* SPDX-License-Identifier: Apache-2.0
 *
 * Pictures in memory: the batches made of them are those a loader makes of their files, byte for byte,
 * however the pixels lie; and what is no picture is refused with a reason.
 */
#include <math.h>
#include <pthread.h>
#include <stoke/tools/rows.h>

#include "tests/unit/fixture_raw_batches.h"

/* ---- a sample, decoded by itself ---- */

enum { MOST = 97 * 61 };
typedef struct shot {
    uint8_t rgb[MOST * 6], ids[MOST];
    stoke_pixels image, mask;
} shot;

static stoke_image decode(const stoke_blob *blob, stoke_purpose purpose, void *to)
{
    stoke_decoder *decoder;
    stoke_decode_params params = stoke_decode_defaults();
    stoke_image image;
    stoke_error err = { 0 };
    params.purpose = purpose;
    params.keep16 = purpose == STOKE_PURPOSE_IMAGE;
    params.orientation = STOKE_ORIENTATION_APPLY;
    static uint8_t bytes[1 << 20];
    FILE *file = fopen(blob->path, "rb");
    assert_non_null(file);
    const size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    assert_int_equal(stoke_decoder_create(&decoder, NULL), 0);
    if (stoke_decoder_decode(decoder, bytes, size, &params, &image, &err)) fail_msg("%s", err.message);
    assert_true((size_t)image.width * image.height <= MOST);
    const size_t line = (size_t)image.width * image.channels * image.depth;
    for (uint32_t y = 0; y < image.height; y++)
        memcpy((char *)to + y * line, (char *)image.data + y * image.stride, line);
    image.data = to;
    image.stride = line;
    stoke_decoder_destroy(&decoder);
    return image;
}

static stoke_pixels as_pixels(const stoke_image *image)
{
    return (stoke_pixels){ .data = image->data,
                           .dtype = image->depth == 1 ? STOKE_DTYPE_U8 : STOKE_DTYPE_U16,
                           .width = image->width,
                           .height = image->height,
                           .channels = image->channels,
                           .column = image->channels * image->depth,
                           .row = (ptrdiff_t)image->stride,
                           .channel = image->depth };
}

static void take(shot *s, const stoke_dataset *set, uint64_t id)
{
    const stoke_sample sample = stoke_dataset_sample(set, id);
    const stoke_image image = decode(&sample.image, STOKE_PURPOSE_IMAGE, s->rgb);
    s->image = as_pixels(&image);
    const stoke_image mask = decode(&sample.mask, STOKE_PURPOSE_MASK, s->ids);
    assert_int_equal(mask.channels * mask.depth, 1);
    s->mask = as_pixels(&mask);
}

/* ---- the same pixels, lying otherwise ---- */

/* Planes, upside down, two bytes apart from where they should be. */
static void scatter(shot *s, uint8_t *room)
{
    const stoke_pixels *p = &s->image;
    const ptrdiff_t depth = (ptrdiff_t)stoke_dtype_bytes(p->dtype);
    stoke_pixels q = *p;
    q.column = depth;
    q.row = -(ptrdiff_t)p->width * depth;
    q.channel = (ptrdiff_t)p->width * p->height * depth;
    uint8_t *first = room + 1 + ((ptrdiff_t)p->height - 1) * -q.row; /* an odd address too */
    q.data = first;
    for (uint32_t c = 0; c < 3; c++)
        for (uint32_t y = 0; y < p->height; y++)
            for (uint32_t x = 0; x < p->width; x++)
                memcpy(first + (ptrdiff_t)c * q.channel + (ptrdiff_t)y * q.row + (ptrdiff_t)x * q.column,
                       (const char *)p->data + (ptrdiff_t)c * p->channel + (ptrdiff_t)y * p->row +
                           (ptrdiff_t)x * p->column,
                       (size_t)depth);
    s->image = q;
}

/* As torch has them. */
static void widen(shot *s, int64_t *room)
{
    const size_t n = (size_t)s->mask.width * s->mask.height;
    for (size_t i = 0; i < n; i++) room[i] = s->ids[i];
    s->mask.data = room;
    s->mask.dtype = STOKE_DTYPE_I64;
    s->mask.column = 8;
    s->mask.row = (ptrdiff_t)s->mask.width * 8;
}

static void compare(const stoke_data_params *params, int otherwise)
{
    stoke_dataset *set;
    stoke_loader *loader;
    stoke_rows *rows;
    stoke_error err = { 0 };
    const stoke_batch *wanted;
    stoke_batch *got;
    shot *s = malloc(sizeof *s);
    uint8_t *room = malloc(MOST * 6 + 2);
    int64_t *wide = malloc(MOST * sizeof *wide);
    assert_int_equal(stoke_dataset_open(&set, params, NULL), 0);
    assert_int_equal(stoke_loader_create(&loader, set, params, NULL, NULL), 0);
    if (stoke_rows_create(&rows, params, NULL, &err)) fail_msg("%s", err.message);
    while (!stoke_loader_next(loader, &wanted)) {
        assert_int_equal(stoke_rows_begin(rows, wanted->count, wanted->epoch, wanted->position, &got, NULL),
                         0);
        for (uint32_t i = wanted->count; i-- > 0;) { /* any order */
            take(s, set, wanted->ids[i]);
            if (otherwise) scatter(s, room);
            if (otherwise) widen(s, wide);
            if (stoke_rows_put(rows, got, i, &s->image, &s->mask, &err)) fail_msg("%s", err.message);
        }
        assert_int_equal(stoke_rows_finish(rows, got, NULL), 0);
        raw_assert_same(params->augment, wanted, got);
        if (wanted->lambda) assert_memory_equal(wanted->lambda, got->lambda, wanted->count * sizeof(float));
        stoke_rows_release(rows, &got);
        assert_null(got);
        stoke_batch_release(loader, &wanted);
    }
    stoke_rows_destroy(&rows);
    stoke_loader_destroy(&loader);
    stoke_dataset_close(&set);
    free(wide);
    free(room);
    free(s);
}

static void every_pipeline(void **state)
{
    raw_write(state);
    for (size_t i = 0; raw_pipeline(i); i++) {
        stoke_data_params params = raw_params(state, raw_pipeline(i));
        params.orientation = STOKE_ORIENTATION_APPLY;
        params.workers = 0;
        params.dtype = (int)(i % 4);
        params.layout = (int)(i / 4 % 2);
        params.window = i % 3 == 1 ? "p1:p99" : i % 3 == 2 ? "100:60000" : "none";
        compare(&params, (int)(i % 2));
    }
}

/* ---- floats and grey ---- */

static void one_row(const stoke_data_params *params, const stoke_pixels *image, uint8_t *out, size_t bytes)
{
    stoke_rows *rows;
    stoke_batch *batch;
    stoke_error err = { 0 };
    assert_int_equal(stoke_rows_create(&rows, params, NULL, NULL), 0);
    assert_int_equal(stoke_rows_begin(rows, 1, 0, 0, &batch, NULL), 0);
    if (stoke_rows_put(rows, batch, 0, image, NULL, &err)) fail_msg("%s", err.message);
    assert_int_equal(bytes, batch->image_row_bytes);
    memcpy(out, batch->images, bytes);
    for (size_t i = 0; i < batch->mask_row_bytes; i++) assert_int_equal(((uint8_t *)batch->masks)[i], 0);
    stoke_rows_destroy(&rows); /* takes the batch along */
}

static void floats_and_grey_are_taken(void **state)
{
    enum { W = 5, H = 4 };
    stoke_data_params params = raw_params(state, "none");
    float real[H * W], out[3 * H * W];
    params.size[0] = H;
    params.size[1] = W;
    params.normalize = STOKE_NORMALIZE_UNIT;
    for (int i = 0; i < H * W; i++) real[i] = (float)i / 19;
    real[0] = -3;
    real[1] = 7;
    real[2] = (float)NAN;
    const stoke_pixels grey = { real, STOKE_DTYPE_F32, W, H, 1, 4, 4 * W, 0 };
    one_row(&params, &grey, (uint8_t *)out, sizeof out);
    for (int c = 0; c < 3; c++) {
        assert_true(out[c * H * W] == 0 && out[c * H * W + 1] == 1 && out[c * H * W + 2] == 0);
        for (int i = 3; i < H * W; i++)
            assert_true(fabsf(out[c * H * W + i] - real[i]) <= 0.5f / 65535 + 1e-7f);
    }
}

/* ---- refusals ---- */

static void nonsense_is_refused(void **state)
{
    enum { W = 33, H = 17 };
    static uint8_t rgb[W * H * 3];
    static int32_t ids[W * H];
    const stoke_pixels good = { rgb, STOKE_DTYPE_U8, W, H, 3, 3, 3 * W, 1 };
    const stoke_pixels mask = { ids, STOKE_DTYPE_I32, W, H, 1, 4, 4 * W, 0 };
    stoke_data_params params = raw_params(state, "standard");
    stoke_rows *rows;
    stoke_batch *batch;
    stoke_error err = { 0 };
    params.size[0] = 0;
    assert_int_equal(stoke_rows_create(&rows, &params, NULL, &err), STOKE_E_INVALID);
    assert_null(rows);
    params.size[0] = H;
    assert_int_equal(stoke_rows_create(&rows, &params, NULL, NULL), 0);
    assert_int_equal(stoke_rows_begin(rows, 0, 0, 0, &batch, NULL), STOKE_E_INVALID);
    assert_int_equal(stoke_rows_begin(rows, 2, 0, 0, &batch, NULL), 0);
    stoke_pixels bad = good;
    assert_int_equal(stoke_rows_put(rows, batch, 2, &good, NULL, NULL), STOKE_E_INVALID);
    bad.channels = 4;
    assert_int_equal(stoke_rows_put(rows, batch, 0, &bad, NULL, NULL), STOKE_E_INVALID);
    bad = good;
    bad.dtype = STOKE_DTYPE_I64;
    assert_int_equal(stoke_rows_put(rows, batch, 0, &bad, NULL, NULL), STOKE_E_INVALID);
    bad = good;
    bad.height = 0;
    assert_int_equal(stoke_rows_put(rows, batch, 0, &bad, NULL, NULL), STOKE_E_INVALID);
    bad = mask;
    bad.width--;
    assert_int_equal(stoke_rows_put(rows, batch, 0, &good, &bad, NULL), STOKE_E_SIZE);
    bad = mask;
    bad.dtype = STOKE_DTYPE_F32;
    assert_int_equal(stoke_rows_put(rows, batch, 0, &good, &bad, NULL), STOKE_E_INVALID);
    ids[W + 2] = -1;
    assert_int_equal(stoke_rows_put(rows, batch, 0, &good, &mask, &err), STOKE_E_LABEL);
    assert_non_null(strstr(err.message, "value -1 at (x 2, y 1)"));
    ids[W + 2] = 65536 + 3; /* must not pass for class 3 */
    assert_int_equal(stoke_rows_put(rows, batch, 0, &good, &mask, &err), STOKE_E_LABEL);
    ids[W + 2] = 19; /* no class of nineteen */
    assert_int_equal(stoke_rows_put(rows, batch, 0, &good, &mask, &err), STOKE_E_LABEL);
    ids[W + 2] = 255;
    assert_int_equal(stoke_rows_put(rows, batch, 0, &good, &mask, &err), 0);
    ids[W + 2] = 0;
    stoke_rows_release(rows, &batch);
    stoke_rows_destroy(&rows);
}

/* ---- threads ---- */

typedef struct part {
    stoke_rows *rows;
    stoke_batch *batch;
    const stoke_pixels *image;
    uint32_t first;
} part;

static void *fill(void *argument)
{
    const part *p = argument;
    for (uint32_t row = p->first; row < p->batch->count; row += 2)
        if (stoke_rows_put(p->rows, p->batch, row, p->image, NULL, NULL)) return argument;
    return NULL;
}

static void threads_share_a_batch(void **state)
{
    enum { W = 40, H = 30, N = 12 };
    static uint8_t rgb[W * H * 3];
    stoke_data_params params = raw_params(state, "standard");
    const stoke_pixels image = { rgb, STOKE_DTYPE_U8, W, H, 3, 3, 3 * W, 1 };
    stoke_rows *rows;
    stoke_batch *one, *two;
    for (size_t i = 0; i < sizeof rgb; i++) rgb[i] = (uint8_t)(i * 7);
    assert_int_equal(stoke_rows_create(&rows, &params, NULL, NULL), 0);
    assert_int_equal(stoke_rows_begin(rows, N, 3, 40, &one, NULL), 0);
    assert_int_equal(stoke_rows_begin(rows, N, 3, 40, &two, NULL), 0);
    assert_ptr_not_equal(one, two);
    part parts[2] = { { rows, one, &image, 0 }, { rows, one, &image, 1 } };
    pthread_t thread[2];
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&thread[i], NULL, fill, &parts[i]), 0);
    for (int i = 0; i < 2; i++) {
        void *failed;
        pthread_join(thread[i], &failed);
        assert_null(failed);
    }
    for (uint32_t i = 0; i < N; i++) assert_int_equal(stoke_rows_put(rows, two, i, &image, NULL, NULL), 0);
    raw_assert_same("standard", two, one);
    const void *memory = one->images;
    stoke_rows_release(rows, &one);
    assert_int_equal(stoke_rows_begin(rows, N - 1, 3, 40, &one, NULL), 0);
    assert_ptr_equal(one->images, memory); /* used again */
    stoke_rows_destroy(&rows);
}

UNIT_GROUP(rows)
{
    const struct CMUnitTest tests[] = {
        unit_test_with_folder(every_pipeline),
        unit_test_with_folder(floats_and_grey_are_taken),
        unit_test_with_folder(nonsense_is_refused),
        unit_test_with_folder(threads_share_a_batch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
