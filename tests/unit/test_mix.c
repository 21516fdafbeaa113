/* SPDX-License-Identifier: Apache-2.0
 *
 * Mixed rows: against a mix by hand of the same batch without mixing, for every element type and layout, and
 * the same for any number of workers, ranks and points of resumption.
 */
#include "tests/unit/fixture_taken.h"

#include "src/base/mem.h"
#include "src/loader/slots.h"
#include "kernels/half.h"

enum { MOST = 64 };

/* ---- a slot by hand ---- */

static uint32_t random_word(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*seed >> 33);
}

static float element(stoke_dtype dtype, const void *image, size_t at)
{
    switch (dtype) {
    case STOKE_DTYPE_U8: return ((const uint8_t *)image)[at];
    case STOKE_DTYPE_F32: return ((const float *)image)[at];
    case STOKE_DTYPE_F16: return k_from_f16(((const uint16_t *)image)[at]);
    default: return k_from_bf16(((const uint16_t *)image)[at]);
    }
}

static void set_element(stoke_dtype dtype, void *image, size_t at, float value)
{
    switch (dtype) {
    case STOKE_DTYPE_U8: ((uint8_t *)image)[at] = (uint8_t)(value + 0.5f); break;
    case STOKE_DTYPE_F32: ((float *)image)[at] = value; break;
    case STOKE_DTYPE_F16: ((uint16_t *)image)[at] = k_f16(value); break;
    default: ((uint16_t *)image)[at] = k_bf16(value); break;
    }
}

static void fill_slot(stk_slot *slot, uint64_t *seed)
{
    const stoke_batch *b = &slot->batch;
    const size_t elements = (size_t)b->width * b->height * 3 * b->capacity;
    for (size_t i = 0; i < elements; i++)
        set_element(b->image_dtype, b->images, i,
                    b->image_dtype == STOKE_DTYPE_U8 ? (float)(random_word(seed) & 255)
                                                     : (float)random_word(seed) * 0x1p-29f - 2);
    for (size_t i = 0; i < b->mask_row_bytes * b->capacity; i++)
        ((uint8_t *)b->masks)[i] = (uint8_t)random_word(seed);
    for (uint32_t i = 0; i < b->capacity; i++) {
        const uint32_t x = random_word(seed) % b->width, y = random_word(seed) % b->height;
        slot->mix[i] = (stk_slot_row_mix){ .kind = random_word(seed) % 3,
                                           .lambda = (float)(random_word(seed) % 1025) / 1024,
                                           .box = { x, y, 1 + random_word(seed) % (b->width - x),
                                                    1 + random_word(seed) % (b->height - y) } };
    }
}

static size_t image_index(const stoke_batch *b, uint32_t x, uint32_t y, uint32_t c)
{
    return b->layout == STOKE_LAYOUT_CHW ? ((size_t)c * b->height + y) * b->width + x
                                         : ((size_t)y * b->width + x) * 3 + c;
}

/* Row i of `slot` (mixed) from the rows of `plain` (not mixed). */
static void check_row(const stk_slot *slot, const stk_slot *plain, uint32_t i)
{
    const stoke_batch *b = &slot->batch;
    const uint32_t before = (i + b->count - 1) % b->count;
    const stk_slot_row_mix *mix = &plain->mix[i];
    const int kind = b->count > 1 ? (int)mix->kind : STOKE_MIX_NONE;
    const size_t id_bytes = stoke_dtype_bytes(b->mask_dtype),
                 element_bytes = stoke_dtype_bytes(b->image_dtype);
    for (uint32_t k = 0; k < b->width * b->height; k++) {
        const uint32_t x = k % b->width, y = k / b->width;
        const int pasted =
            kind == STOKE_MIX_CUT && x - mix->box.x < mix->box.width && y - mix->box.y < mix->box.height;
        for (uint32_t c = 0; c < 3; c++) {
            const size_t at = image_index(b, x, y, c);
            const float own = element(b->image_dtype, stk_slot_image_row(plain, i), at),
                        other = element(b->image_dtype, stk_slot_image_row(plain, before), at);
            float value = pasted ? other : own;
            if (kind == STOKE_MIX_UP) {
                const float a = mix->lambda * own, rest = 1.0f - mix->lambda, d = rest * other;
                value = a + d;
            }
            uint8_t expected[4];
            set_element(b->image_dtype, expected, 0, value);
            assert_memory_equal((uint8_t *)stk_slot_image_row(slot, i) + at * element_bytes, expected,
                                element_bytes);
        }
        const uint8_t *own = (uint8_t *)stk_slot_mask_row(plain, i) + k * id_bytes,
                      *other = (uint8_t *)stk_slot_mask_row(plain, before) + k * id_bytes;
        assert_memory_equal((uint8_t *)stk_slot_mask_row(slot, i) + k * id_bytes, pasted ? other : own,
                            id_bytes);
        if (b->masks_b)
            assert_memory_equal((uint8_t *)stk_slot_mask_b_row(slot, i) + k * id_bytes,
                                kind == STOKE_MIX_UP || pasted ? other : own, id_bytes);
    }
    if (b->lambda) assert_true(b->lambda[i] == (kind == STOKE_MIX_UP ? mix->lambda : 1.0f));
}

static void every_type_is_mixed_as_defined(void **state)
{
    (void)state;
    static const stoke_dtype id_types[] = { STOKE_DTYPE_U8, STOKE_DTYPE_U16, STOKE_DTYPE_I32,
                                            STOKE_DTYPE_I64 };
    uint64_t seed = 5;
    for (uint32_t trial = 0; trial < 64; trial++) {
        stoke_batch shape = { .capacity = 1 + trial % 5,
                              .width = 1 + random_word(&seed) % 20,
                              .height = 1 + random_word(&seed) % 9,
                              .channels = 3,
                              .layout = (stoke_layout)(trial & 1),
                              .image_dtype = (stoke_dtype)(trial / 2 % 4),
                              .mask_dtype = id_types[trial / 8 % 4] };
        const size_t pixels = (size_t)shape.width * shape.height;
        shape.image_row_bytes = pixels * 3 * stoke_dtype_bytes(shape.image_dtype);
        shape.mask_row_bytes = pixels * stoke_dtype_bytes(shape.mask_dtype);
        stk_slots slots;
        stk_mem_buffer copy = { 0 };
        assert_int_equal(stk_slots_create(&slots, 2, &shape, trial / 32, NULL, NULL), 0);
        stk_slot *mixed = stk_slots_open(&slots, shape.capacity),
                 *plain = stk_slots_open(&slots, shape.capacity);
        uint64_t same = seed;
        fill_slot(mixed, &seed);
        fill_slot(plain, &same);
        mixed->batch.count = plain->batch.count = shape.capacity;
        assert_int_equal(stk_slot_mix(mixed, &copy, NULL), 0);
        for (uint32_t i = 0; i < shape.capacity; i++) check_row(mixed, plain, i);
        assert_true(copy.capacity <= stk_mix_scratch(&shape) + 64);
        stk_buffer_free(&copy);
        stk_slots_destroy(&slots);
    }
}

static void no_memory_is_an_error(void **state)
{
    (void)state;
    stoke_batch shape = {
        .capacity = 2, .width = 4, .height = 4, .channels = 3, .image_dtype = STOKE_DTYPE_U8
    };
    shape.image_row_bytes = 48;
    shape.mask_row_bytes = 16;
    stk_slots slots;
    stk_mem_buffer copy = { 0 };
    stoke_error err;
    assert_int_equal(stk_slots_create(&slots, 1, &shape, 1, NULL, NULL), 0);
    stk_slot *slot = stk_slots_open(&slots, 2);
    slot->batch.count = 2;
    slot->mix[0].kind = STOKE_MIX_UP;
    stk_mem_fail_after(0);
    const int r = stk_slot_mix(slot, &copy, &err);
    stk_mem_fail_after(-1);
    assert_int_equal(r, STOKE_E_NOMEM);
    stk_slots_destroy(&slots);
}

/* ---- through the loader ---- */

static stoke_augment_plan plan_of(const char *list, const taken *t, uint32_t row, uint64_t seed)
{
    stoke_pipeline *pipeline;
    stoke_augment_plan plan;
    assert_int_equal(stoke_pipeline_create(&pipeline, list, NULL), 0);
    const stoke_draw draw = { seed, 0, t->positions[row], 40, 36, t->shape.width, t->shape.height, NULL, 0 };
    stoke_pipeline_draw(pipeline, &draw, &plan);
    stoke_pipeline_destroy(&pipeline);
    return plan;
}

/* The row mixed into `row`: the one before it in its batch, or the batch's last. */
static uint32_t partner(const taken *t, uint32_t row)
{
    if (row && t->batch[row - 1] == t->batch[row]) return row - 1;
    while (row + 1 < t->rows && t->batch[row + 1] == t->batch[row]) row++;
    return row;
}

static void mixup_blends_images_and_carries_both_masks(void **state)
{
    pairs_write(state, 13, 40, 36); /* batches of 4, 4, 4, 1 */
    stoke_data_params params = pairs_params(state);
    params.seed = 9;
    taken *plain = taken_with(&params, "hflip,rotate"),
          *mixed = taken_with(&params, "hflip,rotate,mixup(p=0.7,alpha=1)");
    assert_null(plain->masks_b);
    assert_non_null(mixed->masks_b);
    assert_int_equal(mixed->rows, 13);
    uint32_t blended = 0;
    const size_t elements = (size_t)32 * 32 * 3, id_bytes = mixed->shape.mask_row_bytes;
    for (uint32_t row = 0; row < mixed->rows; row++) {
        const uint32_t other = partner(plain, row);
        const stoke_augment_plan plan = plan_of("hflip,rotate,mixup(p=0.7,alpha=1)", mixed, row, 9);
        const int up = plan.mix == STOKE_MIX_UP && other != row;
        const float lambda = up ? plan.lambda : 1;
        assert_true(mixed->lambda[row] == lambda);
        blended += up;
        const float *own = taken_image(plain, row), *with = taken_image(plain, other),
                    *got = taken_image(mixed, row);
        for (size_t i = 0; i < elements; i++) {
            const float a = lambda * own[i], b = (1.0f - lambda) * with[i];
            assert_true(got[i] == (up ? a + b : own[i]));
        }
        assert_memory_equal(mixed->masks + row * id_bytes, plain->masks + row * id_bytes, id_bytes);
        assert_memory_equal(mixed->masks_b + row * id_bytes, plain->masks + (up ? other : row) * id_bytes,
                            id_bytes);
    }
    assert_true(blended > 3 && blended < 13);
    taken_free(plain);
    taken_free(mixed);
}

static void cutmix_pastes_image_and_mask(void **state)
{
    pairs_write(state, 12, 40, 36);
    stoke_data_params params = pairs_params(state);
    params.dtype = STOKE_IMAGE_DTYPE_U8;
    for (int layout = 0; layout < 2; layout++) {
        params.layout = layout;
        taken *plain = taken_with(&params, "none"), *mixed = taken_with(&params, "cutmix(p=0.8)");
        assert_null(mixed->masks_b);
        uint32_t pasted = 0;
        for (uint32_t row = 0; row < mixed->rows; row++) {
            const uint32_t other = partner(plain, row);
            const stoke_augment_plan plan = plan_of("cutmix(p=0.8)", mixed, row, 0);
            const stoke_box box = plan.mix_box;
            pasted += plan.mix == STOKE_MIX_CUT;
            for (uint32_t y = 0; y < 32; y++)
                for (uint32_t x = 0; x < 32; x++) {
                    const int in =
                        plan.mix == STOKE_MIX_CUT && x - box.x < box.width && y - box.y < box.height;
                    const uint32_t from = in ? other : row;
                    assert_int_equal(taken_id(mixed, row, x, y), taken_id(plain, from, x, y));
                    for (uint32_t c = 0; c < 3; c++)
                        assert_true(taken_value(mixed, row, x, y, c) == taken_value(plain, from, x, y, c));
                }
        }
        assert_true(pasted > 4);
        taken_free(plain);
        taken_free(mixed);
    }
}

/* Gaps are closed first: the row before is the one the consumer sees there. */
static void skipped_rows_are_not_mixed_in(void **state)
{
    pairs_write(state, 12, 40, 36);
    unit_write(unit_path(state, "images/s4.png"), "no picture", 10);
    unit_write(unit_path(state, "images/s7.png"), "no picture", 10);
    stoke_data_params params = pairs_params(state);
    params.policy = STOKE_POLICY_SKIP;
    params.max_bad = "3";
    for (int workers = 0; workers < 3; workers++) {
        params.workers = workers;
        taken *plain = taken_with(&params, "none"), *mixed = taken_with(&params, "mixup(p=1,alpha=1)");
        assert_int_equal(mixed->rows, 10);
        const size_t id_bytes = mixed->shape.mask_row_bytes;
        for (uint32_t row = 0; row < mixed->rows; row++) {
            assert_int_equal(mixed->ids[row], plain->ids[row]);
            assert_memory_equal(mixed->masks_b + row * id_bytes,
                                plain->masks + partner(plain, row) * id_bytes, id_bytes);
        }
        taken_free(plain);
        taken_free(mixed);
    }
}

static const char *const LISTS[] = { "standard,mixup(p=0.6)", "strong,cutmix(p=0.6)",
                                     "mixup(p=0.5),cutmix(p=1)" };

static void mixed_bytes_do_not_depend_on_workers(void **state)
{
    pairs_write(state, 22, 40, 36);
    stoke_data_params params = pairs_params(state);
    for (size_t list = 0; list < sizeof LISTS / sizeof *LISTS; list++) {
        static pairs_digest expected[MOST], got[MOST]; /* static: their padding is compared too */
        params.augment = LISTS[list];
        params.workers = 0;
        params.prefetch = 1;
        const size_t n = pairs_epoch(&params, expected, MOST);
        assert_int_equal(n, 6);
        for (int workers = 1; workers < 5; workers++) {
            params.workers = workers;
            params.prefetch = workers;
            assert_int_equal(pairs_epoch(&params, got, MOST), n);
            assert_memory_equal(got, expected, n * sizeof *got);
        }
    }
}

/* A batch is the same run of positions for any number of ranks and wherever one goes on. */
static void mixed_bytes_do_not_depend_on_ranks_and_resumption(void **state)
{
    pairs_write(state, 22, 40, 36);
    stoke_data_params params = pairs_params(state);
    for (size_t list = 0; list < sizeof LISTS / sizeof *LISTS; list++) {
        params.augment = LISTS[list];
        params.world = 1;
        params.rank = 0;
        static pairs_digest expected[MOST], got[MOST];
        const size_t n = pairs_epoch(&params, expected, MOST);
        for (params.world = 2; params.world < 4; params.world++)
            for (params.rank = 0; params.rank < params.world; params.rank++) {
                const size_t own = pairs_epoch(&params, got, MOST);
                for (size_t i = 0; i < own; i++)
                    if (got[i].index < n) assert_memory_equal(&got[i], &expected[got[i].index], sizeof *got);
            }
        params.world = 1;
        params.rank = 0;
        for (size_t stop = 1; stop < n; stop++) {
            stoke_dataset *dataset;
            stoke_loader *loader;
            char saved[512];
            int status;
            assert_int_equal(stoke_dataset_open(&dataset, &params, NULL), 0);
            assert_int_equal(stoke_loader_create(&loader, dataset, &params, NULL, NULL), 0);
            assert_int_equal(pairs_take(loader, got, stop, &status), stop);
            stoke_loader_state(loader, saved, sizeof saved);
            stoke_loader_destroy(&loader);
            assert_int_equal(stoke_loader_create(&loader, dataset, &params, NULL, NULL), 0);
            assert_int_equal(stoke_loader_restore(loader, saved, NULL), 0);
            assert_int_equal(pairs_take(loader, got + stop, MOST - stop, &status), n - stop);
            assert_memory_equal(got, expected, n * sizeof *got);
            stoke_loader_destroy(&loader);
            stoke_dataset_close(&dataset);
        }
    }
}

UNIT_GROUP(mix)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_is_mixed_as_defined),
        cmocka_unit_test(no_memory_is_an_error),
        unit_test_with_folder(mixup_blends_images_and_carries_both_masks),
        unit_test_with_folder(cutmix_pastes_image_and_mask),
        unit_test_with_folder(skipped_rows_are_not_mixed_in),
        unit_test_with_folder(mixed_bytes_do_not_depend_on_workers),
        unit_test_with_folder(mixed_bytes_do_not_depend_on_ranks_and_resumption),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
