/* SPDX-License-Identifier: Apache-2.0
 *
 * A raw batch made on the device from somebody's own (kernels/take.h), then the augmenter. Raw rows, work
 * planes and tables of classes are shared by all calls, which follow one another: a stream waits for the last
 * call's. What the host writes for a call lies in turns.
 */
#include <stoke/tools/device_rows.h>
#include <stoke/tools/labels.h>
#include <string.h>

#include "kernels/tables.h"
#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/upload/augmenter.h"

enum {
    TURNS = 3,
    ALIGNMENT = 64,
    VALUES = 65536 /* of a mask; one more stands for all others */
};

typedef struct turn {
    stk_device_block near, far; /* k_take of every row */
    stk_device_event *passed;
} turn;

struct stoke_device_rows {
    stoke_device *device;
    stk_loader_config config;
    stk_augmenter *augmenter;
    stk_device_stream *own;
    uint32_t capacity, width, height;
    stk_tables_raw_layout layout; /* of the raw block */
    stk_device_block raw, ids[2]; /* ids: of masks of 8 bits, of deeper ones */
    turn turn[TURNS];
    uint64_t runs;
    stk_raw_row *rows;
};

/* ---- create and destroy ---- */

static int send_ids(stoke_device_rows *rows, stoke_error *err)
{
    const stk_loader_config *config = &rows->config;
    const size_t bytes = (VALUES + 1) * sizeof(uint16_t);
    stk_device_block near = { 0 };
    int r = stk_block_create(&near, rows->device, STK_MEMORY_PINNED, bytes, err);
    for (uint8_t k = 0; !r && k < 2; k++) {
        r = stk_block_create(&rows->ids[k], rows->device, STK_MEMORY_DEVICE, bytes, err);
        if (r) break;
        /* The class id of every value, one by one: a value that is none is no reason to stop. */
        const uint8_t depth = (uint8_t)(k + 1);
        const uint32_t values = depth == 1 ? 256 : VALUES;
        uint16_t *ids = near.host;
        for (uint32_t i = 0; i <= VALUES; i++) {
            uint16_t value = (uint16_t)i, id = 0;
            const stoke_image from = { &value, depth, 1, 1, 1, depth }; /* little end first */
            stoke_image to = { &id, 2, 1, 1, 1, stoke_labels_depth(config->labels) };
            const int is_class = i < values && !stoke_labels_apply(config->labels, &from, &to, NULL);
            ids[i] = is_class ? id : (uint16_t)config->mask_fill;
        }
        r = stk_stream_copy(rows->own, &rows->ids[k], 0, &near, 0, bytes, err);
        if (!r) r = stk_stream_finish(rows->own, err);
    }
    stk_block_destroy(&near);
    return r;
}

static int check(const stoke_device_rows *rows, stoke_error *err)
{
    const stk_loader_config *config = &rows->config;
    if (!rows->capacity || !rows->width || !rows->height)
        return stk_fail(err, STOKE_E_INVALID, "batches of %u pictures of %u x %u", rows->capacity,
                        rows->height, rows->width);
    if (rows->device->info.emulated)
        return stk_fail(err, STOKE_E_INVALID, "%s is a simulated GPU and has no memory to take a batch from",
                        rows->device->info.name);
    if (config->focuses)
        return stk_fail(err, STOKE_E_UNSUPPORTED,
                        "the pipeline looks at masks before it draws: the host can, a device cannot");
    if (config->window.mode != STK_WINDOW_NONE)
        return stk_fail(err, STOKE_E_UNSUPPORTED, "window: the host can do it, a device cannot");
    if (!config->crops && (rows->width != config->width || rows->height != config->height))
        return stk_fail(err, STOKE_E_UNSUPPORTED,
                        "pictures of %u x %u are resized to %u x %u: the host can, a device cannot",
                        rows->height, rows->width, config->height, config->width);
    return STOKE_OK;
}

static int take_memory(stoke_device_rows *rows, stoke_error *err)
{
    size_t pixels, images, masks, bytes;
    if (!stk_mul(rows->width, rows->height, &pixels) || !stk_mul(pixels, 3 * sizeof(uint16_t), &images) ||
        !stk_add(images, ALIGNMENT, &images) || !stk_mul(pixels, sizeof(uint16_t), &masks) ||
        !stk_mul(images + masks + ALIGNMENT, rows->capacity, &bytes))
        return stk_fail(err, STOKE_E_LIMIT, "%u pictures of %u x %u are too many at once", rows->capacity,
                        rows->height, rows->width);
    rows->layout.image_pitch = images / ALIGNMENT * ALIGNMENT;
    rows->layout.mask_pitch = (masks + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    rows->layout.mask_at = rows->layout.image_pitch * rows->capacity;
    int r = stk_block_create(&rows->raw, rows->device, STK_MEMORY_DEVICE,
                             rows->layout.mask_at + rows->layout.mask_pitch * rows->capacity, err);
    for (int i = 0; !r && i < TURNS; i++) {
        turn *t = &rows->turn[i];
        r = stk_block_create(&t->near, rows->device, STK_MEMORY_PINNED, rows->capacity * sizeof(k_take), err);
        if (!r)
            r = stk_block_create(&t->far, rows->device, STK_MEMORY_DEVICE, rows->capacity * sizeof(k_take),
                                 err);
        if (!r) r = stk_event_create(&t->passed, rows->device, err);
    }
    return r;
}

static int build(stoke_device_rows *rows, const stoke_data_params *params, stoke_error *err)
{
    if (!params->size[0] || !params->size[1])
        return stk_fail(err, STOKE_E_INVALID, "size must be given: there is no first file to take it from");
    int r = stk_loader_config_create(&rows->config, NULL, params, err);
    if (!r) r = check(rows, err);
    if (r) return r;
    rows->rows = stk_calloc(rows->capacity, sizeof *rows->rows);
    if (!rows->rows) return stk_fail(err, STOKE_E_NOMEM, "no memory for %u plans", rows->capacity);
    r = stk_stream_create(&rows->own, rows->device, err);
    if (!r) r = take_memory(rows, err);
    if (!r) r = send_ids(rows, err);
    if (!r)
        r = stk_augmenter_create(&rows->augmenter, rows->device, &rows->config, rows->capacity, TURNS, err);
    return r;
}

int stoke_device_rows_create(stoke_device_rows **out, stoke_device *device, const stoke_data_params *params,
                             uint32_t capacity, uint32_t width, uint32_t height, stoke_error *err)
{
    *out = NULL;
    stoke_device_rows *rows = stk_calloc(1, sizeof *rows);
    if (!rows) return stk_fail(err, STOKE_E_NOMEM, "no memory for rows");
    rows->device = device;
    rows->capacity = capacity;
    rows->width = width;
    rows->height = height;
    const int r = build(rows, params, err);
    if (r)
        stoke_device_rows_destroy(&rows);
    else
        *out = rows;
    return r;
}

void stoke_device_rows_destroy(stoke_device_rows **pointer)
{
    stoke_device_rows *rows = *pointer;
    if (!rows) return;
    *pointer = NULL;
    for (int i = 0; i < TURNS; i++)
        if (rows->turn[i].passed) stk_event_finish(rows->turn[i].passed, NULL);
    stk_augmenter_destroy(&rows->augmenter);
    for (int i = 0; i < TURNS; i++) {
        stk_event_destroy(&rows->turn[i].passed);
        stk_block_destroy(&rows->turn[i].near);
        stk_block_destroy(&rows->turn[i].far);
    }
    for (int i = 0; i < 2; i++) stk_block_destroy(&rows->ids[i]);
    stk_block_destroy(&rows->raw);
    stk_stream_destroy(&rows->own);
    stk_loader_config_destroy(&rows->config);
    stk_free(rows->rows);
    stk_free(rows);
}

stoke_batch stoke_device_rows_shape(const stoke_device_rows *rows, uint32_t count)
{
    return stk_batch_shape(&rows->config, count);
}

int stoke_device_rows_two_masks(const stoke_device_rows *rows)
{
    return rows->config.two_masks != 0;
}

/* ---- a batch ---- */

static int check_source(const stoke_device_rows *rows, const stoke_device_source *s,
                        const stoke_device_target *to, stoke_error *err)
{
    const int image = s->image_dtype == STOKE_DTYPE_U8 || s->image_dtype == STOKE_DTYPE_U16 ||
                      s->image_dtype == STOKE_DTYPE_F32;
    const int mask = s->mask_dtype == STOKE_DTYPE_U8 || s->mask_dtype == STOKE_DTYPE_U16 ||
                     s->mask_dtype == STOKE_DTYPE_I32 || s->mask_dtype == STOKE_DTYPE_I64;
    if (!s->count || s->count > rows->capacity)
        return stk_fail(err, STOKE_E_INVALID, "a batch of %u where %u have room", s->count, rows->capacity);
    if (!image || (s->channels != 1 && s->channels != 3))
        return stk_fail(err, STOKE_E_INVALID,
                        "images of %u channels of %s: 1 or 3 of uint8, uint16 or float32 can be", s->channels,
                        stoke_dtype_name(s->image_dtype));
    if (s->masks && !mask)
        return stk_fail(err, STOKE_E_INVALID, "masks of %s: uint8, uint16, int32 or int64 can be",
                        stoke_dtype_name(s->mask_dtype));
    if (!s->images || !to->images || !to->masks || to->images == s->images || to->masks == s->masks)
        return stk_fail(err, STOKE_E_INVALID, "a result needs memory of its own");
    if (rows->config.two_masks && (!to->masks_b || !to->lambda))
        return stk_fail(err, STOKE_E_INVALID, "mixup gives second masks and shares: they need memory, too");
    return STOKE_OK;
}

/* Plans, and what each takes of its picture. */
static int draw(stoke_device_rows *rows, const stoke_device_source *s, uint64_t epoch, uint64_t position,
                k_take *takes, stoke_error *err)
{
    const stk_loader_config *config = &rows->config;
    for (uint32_t i = 0; i < s->count; i++) {
        const stoke_draw d = { .seed = config->seed,
                               .epoch = epoch,
                               .position = position + i,
                               .source_width = rows->width,
                               .source_height = rows->height,
                               .out_width = config->width,
                               .out_height = config->height };
        stk_raw_row *row = &rows->rows[i];
        stoke_pipeline_draw(config->pipeline, &d, &row->plan);
        const stoke_augment_plan *plan = &row->plan;
        if (plan->width != plan->box.width || plan->height != plan->box.height)
            return stk_fail(err, STOKE_E_UNSUPPORTED,
                            "the pipeline resizes parts of pictures: the host can, a device cannot");
        row->width = plan->width;
        row->height = plan->height;
        row->laid = 0;
        row->depth = s->image_dtype == STOKE_DTYPE_U8 ? 1 : 2;
        row->mask_depth = s->masks ? stoke_labels_depth(config->labels) : 0;
        row->image_bytes = (size_t)row->width * row->height * 3 * row->depth;
        row->mask_bytes = (size_t)row->width * row->height * row->mask_depth;
        takes[i] = (k_take){ .image = i * rows->layout.image_pitch,
                             .mask = rows->layout.mask_at + i * rows->layout.mask_pitch,
                             .x = plan->box.x,
                             .y = plan->box.y,
                             .width = plan->width,
                             .height = plan->height };
    }
    return STOKE_OK;
}

/* Memory of the caller's as a block. */
static stk_device_block around(const stoke_device_rows *rows, uint64_t address, uint64_t bytes)
{
    return (stk_device_block){ .device = rows->device,
                               .kind = STK_MEMORY_DEVICE,
                               .bytes = bytes,
                               .handle = (uintptr_t)address,
                               .host = rows->device->fns == &stk_device_host ? (void *)(uintptr_t)address
                                                                             : NULL };
}

static int launch_take(stoke_device_rows *rows, stk_device_stream *stream, uint32_t kernel,
                       const stk_device_block *const *blocks, uint32_t n, const k_shape *shape,
                       stoke_error *err)
{
    stk_device_argument arguments[5] = { 0 };
    for (uint32_t i = 0; i < n; i++) arguments[i].block = blocks[i];
    arguments[n] = (stk_device_argument){ .value = shape, .bytes = sizeof *shape };
    const stk_device_launch one = { .kernel = kernel,
                                    .grid = { rows->width, rows->height, shape->count },
                                    .arguments = arguments,
                                    .n_arguments = n + 1,
                                    .traffic = (uint64_t)rows->width * rows->height * shape->count * 9 };
    return stk_stream_launch(stream, stk_augmenter_module(rows->augmenter), &one, err);
}

static int take(stoke_device_rows *rows, stk_device_stream *stream, const turn *t,
                const stoke_device_source *s, stoke_error *err)
{
    const uint64_t pixels = (uint64_t)rows->width * rows->height * s->count;
    const k_shape shape = { .count = s->count,
                            .width = rows->width,
                            .height = rows->height,
                            .layout = s->layout,
                            .dtype = s->image_dtype,
                            .mask_dtype = s->mask_dtype,
                            .channels = s->channels,
                            .id_depth = stoke_labels_depth(rows->config.labels) };
    const stk_device_block images =
        around(rows, s->images, pixels * s->channels * stoke_dtype_bytes(s->image_dtype));
    int r = stk_stream_copy(stream, &t->far, 0, &t->near, 0, s->count * sizeof(k_take), err);
    if (!r)
        r = launch_take(rows, stream, STK_KERNEL_take_image,
                        (const stk_device_block *const[]){ &rows->raw, &images, &t->far }, 3, &shape, err);
    if (r || !s->masks) return r;
    const stk_device_block masks = around(rows, s->masks, pixels * stoke_dtype_bytes(s->mask_dtype));
    const stk_device_block *ids = &rows->ids[s->mask_dtype != STOKE_DTYPE_U8];
    return launch_take(rows, stream, STK_KERNEL_take_mask,
                       (const stk_device_block *const[]){ &rows->raw, &masks, &t->far, ids }, 4, &shape, err);
}

static int augment(stoke_device_rows *rows, stk_device_stream *stream, uint32_t which, uint32_t count,
                   const stoke_device_target *to, stoke_error *err)
{
    const stoke_batch shape = stk_batch_shape(&rows->config, count);
    const stk_device_block images = around(rows, to->images, shape.image_row_bytes * count),
                           masks = around(rows, to->masks, shape.mask_row_bytes * count),
                           second = around(rows, to->masks_b, shape.mask_row_bytes * count);
    const stk_augmenter_job job = { .rows = rows->rows,
                                    .count = count,
                                    .raw = &rows->raw,
                                    .layout = rows->layout,
                                    .images = &images,
                                    .masks = &masks,
                                    .masks_b = rows->config.two_masks ? &second : NULL,
                                    .turn = which };
    return stk_augmenter_run(rows->augmenter, stream, &job, err);
}

int stoke_device_rows_run(stoke_device_rows *rows, uint64_t epoch, uint64_t position,
                          const stoke_device_source *source, const stoke_device_target *target,
                          int has_stream, void *native, stoke_error *err)
{
    const uint32_t which = (uint32_t)(rows->runs % TURNS);
    turn *t = &rows->turn[which];
    stk_device_stream *theirs = NULL;
    int r = check_source(rows, source, target, err);
    if (!r) r = stk_event_finish(t->passed, err); /* the host writes over what it wrote three calls ago */
    if (!r) r = draw(rows, source, epoch, position, t->near.host, err);
    if (!r && has_stream) r = stk_stream_wrap(&theirs, rows->device, native, err);
    if (r) return r;
    stk_device_stream *stream = theirs ? theirs : rows->own;
    if (rows->runs) r = stk_stream_wait(stream, rows->turn[(rows->runs - 1) % TURNS].passed, err);
    if (!r) r = take(rows, stream, t, source, err);
    if (!r) r = augment(rows, stream, which, source->count, target, err);
    rows->runs++;
    if (!r) r = stk_event_record(t->passed, stream, err);
    if (!r && !theirs) r = stk_stream_finish(stream, err);
    stk_stream_destroy(&theirs);
    for (uint32_t i = 0; !r && target->lambda && i < source->count; i++) {
        const stoke_augment_plan *plan = &rows->rows[i].plan;
        target->lambda[i] = source->count > 1 && plan->mix == STOKE_MIX_UP ? plan->lambda : 1.0f;
    }
    return r;
}
