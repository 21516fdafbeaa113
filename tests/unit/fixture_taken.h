/* SPDX-License-Identifier: Apache-2.0
 *
 * A whole epoch in memory, row after row, to be compared with another one or with what a test computes.
 */
#ifndef STOKE_TESTS_UNIT_FIXTURE_TAKEN_H
#define STOKE_TESTS_UNIT_FIXTURE_TAKEN_H

#include "tests/unit/fixture_pairs.h"

typedef struct taken {
    stoke_batch shape; /* sizes and types; its pointers are not valid */
    uint32_t rows;
    uint8_t *images, *masks, *masks_b; /* masks_b and lambda NULL without a mixup op */
    float *lambda;
    uint64_t ids[1024], positions[1024]; /* position: of the row itself */
    uint32_t batch[1024];                /* which batch a row came in */
} taken;

static inline void *taken_append(void *to, const void *from, size_t held, size_t bytes)
{
    to = realloc(to, held + bytes);
    assert_non_null(to);
    memcpy((uint8_t *)to + held, from, bytes);
    return to;
}

static inline void taken_add(taken *t, const stoke_batch *b, uint32_t batch)
{
    assert_true(t->rows + b->count <= 1024);
    t->images =
        taken_append(t->images, b->images, t->rows * b->image_row_bytes, b->count * b->image_row_bytes);
    t->masks = taken_append(t->masks, b->masks, t->rows * b->mask_row_bytes, b->count * b->mask_row_bytes);
    assert_int_equal(b->masks_b == NULL, b->lambda == NULL);
    if (b->masks_b) {
        t->masks_b =
            taken_append(t->masks_b, b->masks_b, t->rows * b->mask_row_bytes, b->count * b->mask_row_bytes);
        t->lambda = taken_append(t->lambda, b->lambda, t->rows * sizeof(float), b->count * sizeof(float));
    }
    for (uint32_t i = 0; i < b->count; i++) {
        t->ids[t->rows + i] = b->ids[i];
        t->positions[t->rows + i] = b->position + i;
        t->batch[t->rows + i] = batch;
    }
    t->rows += b->count;
    t->shape = *b;
}

static inline taken *taken_epoch(const stoke_data_params *params)
{
    taken *t = calloc(1, sizeof *t);
    stoke_dataset *dataset;
    stoke_loader *loader;
    stoke_error err = { 0 };
    const stoke_batch *batch;
    int r;
    if (stoke_dataset_open(&dataset, params, &err)) fail_msg("%s", err.message);
    if (stoke_loader_create(&loader, dataset, params, NULL, &err)) fail_msg("%s", err.message);
    for (uint32_t i = 0; !(r = stoke_loader_next(loader, &batch)); i++) {
        taken_add(t, batch, i);
        stoke_batch_release(loader, &batch);
    }
    if (r != STOKE_E_END) fail_msg("status %d: %s", r, stoke_loader_error(loader));
    stoke_loader_destroy(&loader);
    stoke_dataset_close(&dataset);
    return t;
}

static inline taken *taken_with(const stoke_data_params *params, const char *augment)
{
    stoke_data_params copy = *params;
    copy.augment = augment;
    return taken_epoch(&copy);
}

static inline void taken_free(taken *t)
{
    free(t->images);
    free(t->masks);
    free(t->masks_b);
    free(t->lambda);
    free(t);
}

static inline void *taken_image(const taken *t, uint32_t row)
{
    return t->images + row * t->shape.image_row_bytes;
}

/* Element of an image as a number: u8 or f32. */
static inline double taken_value(const taken *t, uint32_t row, uint32_t x, uint32_t y, uint32_t c)
{
    const stoke_batch *b = &t->shape;
    const size_t at = b->layout == STOKE_LAYOUT_CHW ? ((size_t)c * b->height + y) * b->width + x
                                                    : ((size_t)y * b->width + x) * 3 + c;
    const void *image = taken_image(t, row);
    assert_true(b->image_dtype == STOKE_DTYPE_U8 || b->image_dtype == STOKE_DTYPE_F32);
    return b->image_dtype == STOKE_DTYPE_U8 ? ((const uint8_t *)image)[at] : ((const float *)image)[at];
}

static inline int64_t taken_id_in(const taken *t, const uint8_t *masks, uint32_t row, uint32_t x, uint32_t y)
{
    const void *mask = masks + row * t->shape.mask_row_bytes;
    const size_t at = (size_t)y * t->shape.width + x;
    switch (t->shape.mask_dtype) {
    case STOKE_DTYPE_U8: return ((const uint8_t *)mask)[at];
    case STOKE_DTYPE_U16: return ((const uint16_t *)mask)[at];
    case STOKE_DTYPE_I32: return ((const int32_t *)mask)[at];
    default: return ((const int64_t *)mask)[at];
    }
}

static inline int64_t taken_id(const taken *t, uint32_t row, uint32_t x, uint32_t y)
{
    return taken_id_in(t, t->masks, row, x, y);
}

/* Same rows, byte for byte. */
static inline void taken_equal(const taken *a, const taken *b)
{
    assert_int_equal(a->rows, b->rows);
    assert_int_equal(a->shape.image_row_bytes, b->shape.image_row_bytes);
    assert_memory_equal(a->ids, b->ids, a->rows * sizeof *a->ids);
    assert_memory_equal(a->images, b->images, a->rows * a->shape.image_row_bytes);
    assert_memory_equal(a->masks, b->masks, a->rows * a->shape.mask_row_bytes);
}

#endif
