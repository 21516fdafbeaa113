/* SPDX-License-Identifier: Apache-2.0
 *
 * Batches from pictures in memory: the loader's second half, without its files, threads and ring. Benches and
 * slots are kept and lent, so that steady work allocates nothing.
 */
#include <math.h>
#include <pthread.h>
#include <string.h>
#include <stoke/tools/rows.h>
#include <stoke/tools/labels.h>

#include "src/base/error.h"
#include "src/loader/sample.h"
#include "src/loader/slots.h"

/* ---- pixels that somebody else has: taken as they lie where that is how we work on them (three interleaved
 * channels of u8 or u16, one channel of ids), gathered into scratch memory where not ---- */

static int lies_ready(const stoke_pixels *p)
{
    const ptrdiff_t bytes = (ptrdiff_t)stoke_dtype_bytes(p->dtype);
    const int integer = p->dtype == STOKE_DTYPE_U8 || p->dtype == STOKE_DTYPE_U16;
    return integer && p->channels == 3 && p->channel == bytes && p->column == 3 * bytes &&
           p->row >= (ptrdiff_t)p->width * 3 * bytes && (uintptr_t)p->data % (uintptr_t)bytes == 0 &&
           p->row % bytes == 0;
}

/* One line of one channel, of any type and any distance, to every third sample of `to`; grey goes to all
 * three. */
static void gather_line(const stoke_pixels *p, uint32_t c, uint32_t y, const stoke_image *to)
{
    const char *from = (const char *)p->data + (ptrdiff_t)c * p->channel + (ptrdiff_t)y * p->row;
    char *line = (char *)to->data + y * to->stride;
    for (uint32_t x = 0; x < p->width; x++, from += p->column) {
        if (to->depth == 1) {
            ((uint8_t *)line)[x * 3 + c] = *(const uint8_t *)from;
            continue;
        }
        uint16_t sample;
        float real;
        if (p->dtype == STOKE_DTYPE_F32) {
            memcpy(&real, from, sizeof real); /* a view may lie anywhere */
            /* 0..1; what is no number is black */
            sample = real >= 1 ? 65535 : real > 0 ? (uint16_t)lrintf(real * 65535) : 0;
        } else {
            memcpy(&sample, from, sizeof sample);
        }
        ((uint16_t *)line)[x * 3 + c] = sample;
    }
}

static void spread_grey(const stoke_image *image)
{
    for (uint32_t y = 0; y < image->height; y++) {
        char *line = (char *)image->data + y * image->stride;
        for (size_t x = 0; x < (size_t)image->width * 3; x += 3)
            for (int c = 1; c < 3; c++)
                memcpy(line + (x + c) * image->depth, line + x * image->depth, image->depth);
    }
}

static int check_image(const stoke_pixels *p, stoke_error *err)
{
    if (!p->data || !p->width || !p->height)
        return stk_fail(err, STOKE_E_INVALID, "an image of %ux%u pixels cannot be augmented", p->width,
                        p->height);
    if (p->channels != 1 && p->channels != 3)
        return stk_fail(err, STOKE_E_INVALID, "an image has 1 or 3 channels, this one has %u", p->channels);
    if (p->dtype != STOKE_DTYPE_U8 && p->dtype != STOKE_DTYPE_U16 && p->dtype != STOKE_DTYPE_F32)
        return stk_fail(err, STOKE_E_INVALID, "an image is uint8, uint16 or float32, this one is %s",
                        stoke_dtype_name(p->dtype));
    return STOKE_OK;
}

/* copy: the pixels are going to be changed. */
static int take_image(const stoke_pixels *p, int copy, stk_mem_buffer *buffer, stoke_image *image,
                      stoke_error *err)
{
    const uint8_t depth = p->dtype == STOKE_DTYPE_U8 ? 1 : 2;
    if (lies_ready(p) && !copy) {
        *image = (stoke_image){ (void *)p->data, (size_t)p->row, p->width, p->height, 3, depth };
        return STOKE_OK;
    }
    const int r = stk_scratch_image(buffer, p->width, p->height, 3, depth, image, err);
    if (r) return r;
    for (uint32_t c = 0; c < p->channels; c++)
        for (uint32_t y = 0; y < p->height; y++) gather_line(p, c, y, image);
    if (p->channels == 1) spread_grey(image);
    return STOKE_OK;
}

static int take_given_image(stk_sample_ctx *ctx, const stoke_pixels *pixels)
{
    int r = check_image(pixels, ctx->err);
    if (r) return r;
    const int windowed = pixels->dtype == STOKE_DTYPE_U16 && ctx->config->window.mode != STK_WINDOW_NONE;
    r = take_image(pixels, windowed, &ctx->scratch->image_file, &ctx->image, ctx->err);
    if (!r && windowed) r = stk_sample_ctx_window(ctx, &ctx->image);
    ctx->width = pixels->width;
    ctx->height = pixels->height;
    return r;
}

/* Ids have 16 bits at most; -1 and 1 << 20 must not become one of them by being cut. */
static int take_value(const stoke_pixels *p, const char *from, int64_t *value)
{
    int32_t i32;
    uint16_t u16;
    switch (p->dtype) {
    case STOKE_DTYPE_U8: *value = *(const uint8_t *)from; break;
    case STOKE_DTYPE_U16:
        memcpy(&u16, from, sizeof u16);
        *value = u16;
        break;
    case STOKE_DTYPE_I32:
        memcpy(&i32, from, sizeof i32);
        *value = i32;
        break;
    default: memcpy(value, from, sizeof *value); break;
    }
    return *value >= 0 && *value <= UINT16_MAX;
}

static int gather_ids(const stoke_pixels *p, const stoke_image *to, stoke_error *err)
{
    for (uint32_t y = 0; y < p->height; y++)
        for (uint32_t x = 0; x < p->width; x++) {
            const char *from = (const char *)p->data + (ptrdiff_t)y * p->row + (ptrdiff_t)x * p->column;
            int64_t value;
            if (!take_value(p, from, &value))
                return stk_fail(err, STOKE_E_LABEL,
                                "value %lld at (x %u, y %u) of the mask is no class id: 0 to 65535 can be",
                                (long long)value, x, y);
            void *line = (char *)to->data + y * to->stride;
            if (to->depth == 1)
                ((uint8_t *)line)[x] = (uint8_t)value;
            else
                ((uint16_t *)line)[x] = (uint16_t)value;
        }
    return STOKE_OK;
}

static int check_mask(const stk_sample_ctx *ctx, const stoke_pixels *p)
{
    const int integer = p->dtype == STOKE_DTYPE_U8 || p->dtype == STOKE_DTYPE_U16 ||
                        p->dtype == STOKE_DTYPE_I32 || p->dtype == STOKE_DTYPE_I64;
    if (!p->data || p->width != ctx->width || p->height != ctx->height)
        return stk_fail(ctx->err, STOKE_E_SIZE, "the mask is %ux%u (height x width), its image is %ux%u",
                        p->height, p->width, ctx->height, ctx->width);
    if (p->channels == 3 && p->dtype == STOKE_DTYPE_U8) return STOKE_OK;
    if (p->channels != 1 || !integer)
        return stk_fail(
            ctx->err, STOKE_E_INVALID,
            "a mask has one channel of uint8, uint16, int32 or int64 (or three of uint8 for a colour "
            "table), this one has %u of %s",
            p->channels, stoke_dtype_name(p->dtype));
    return STOKE_OK;
}

static int take_given_ids(stk_sample_ctx *ctx, const stoke_pixels *pixels)
{
    stk_scratch *scratch = ctx->scratch;
    const stoke_labels *labels = ctx->config->labels;
    stoke_image raw;
    int r = check_mask(ctx, pixels);
    if (r) return r;
    if (pixels->channels == 3) {
        r = take_image(pixels, 0, &scratch->mask_file, &raw, ctx->err);
    } else {
        const uint8_t depth = pixels->dtype == STOKE_DTYPE_U8 ? 1 : 2;
        r = stk_scratch_image(&scratch->mask_file, pixels->width, pixels->height, 1, depth, &raw, ctx->err);
        if (!r) r = gather_ids(pixels, &raw, ctx->err);
    }
    if (!r)
        r = stk_scratch_image(&scratch->labelled, pixels->width, pixels->height, 1,
                              stoke_labels_depth(labels), &ctx->ids, ctx->err);
    return r ? r : stoke_labels_apply(labels, &raw, &ctx->ids, ctx->err);
}

/* ---- slots and scratch memory, kept and lent ---- */

/* A slot by itself. Its batch is its first member's, as in a ring. */
typedef struct holder {
    stk_slots ring; /* of one */
    struct holder *next;
    int lent;
} holder;

typedef struct lent_bench {
    stk_scratch scratch;
    struct lent_bench *next;
} lent_bench;

struct stoke_rows {
    stk_loader_config config;
    stoke_allocator allocator;
    int has_allocator;
    pthread_mutex_t lock;
    holder *holders;     /* all of them */
    lent_bench *benches; /* those nobody uses now */
};

int stoke_rows_create(stoke_rows **out, const stoke_data_params *params, const stoke_allocator *allocator,
                      stoke_error *err)
{
    *out = NULL;
    if (params->task == STOKE_TASK_RESTORE || (params->targets && *params->targets))
        return stk_fail(
            err, STOKE_E_UNSUPPORTED,
            "`task` restore is for sets of files: pictures in memory come with masks, and no targets");
    if (!params->size[0] || !params->size[1])
        return stk_fail(err, STOKE_E_INVALID, "size must be given: there is no first file to take it from");
    stoke_rows *rows = stk_calloc(1, sizeof *rows);
    if (!rows) return stk_fail(err, STOKE_E_NOMEM, "no memory for rows");
    if (allocator) rows->allocator = *allocator;
    rows->has_allocator = allocator != NULL;
    pthread_mutex_init(&rows->lock, NULL);
    const int r = stk_loader_config_create(&rows->config, NULL, params, err);
    if (r)
        stoke_rows_destroy(&rows);
    else
        *out = rows;
    return r;
}

static void free_holder(holder *h)
{
    stk_slots_destroy(&h->ring);
    stk_free(h);
}

void stoke_rows_destroy(stoke_rows **pointer)
{
    stoke_rows *rows = *pointer;
    if (!rows) return;
    *pointer = NULL;
    for (holder *h = rows->holders, *next; h; h = next) {
        next = h->next;
        free_holder(h);
    }
    for (lent_bench *b = rows->benches, *next; b; b = next) {
        next = b->next;
        stk_scratch_destroy(&b->scratch);
        stk_free(b);
    }
    stk_loader_config_destroy(&rows->config);
    pthread_mutex_destroy(&rows->lock);
    stk_free(rows);
}

const char *stoke_rows_pipeline(const stoke_rows *rows)
{
    return stoke_pipeline_text(rows->config.pipeline);
}

/* ---- lending ---- */

static int make_holder(stoke_rows *rows, uint32_t count, holder **out, stoke_error *err)
{
    holder *h = stk_calloc(1, sizeof *h);
    if (!h) return stk_fail(err, STOKE_E_NOMEM, "no memory for a batch");
    unsigned extras;
    const stoke_batch shape = stk_slot_shape(&rows->config, count, &extras);
    const int r =
        stk_slots_create(&h->ring, 1, &shape, extras, rows->has_allocator ? &rows->allocator : NULL, err);
    if (r) {
        free_holder(h);
        return r;
    }
    pthread_mutex_lock(&rows->lock);
    h->lent = 1;
    h->next = rows->holders;
    rows->holders = h;
    pthread_mutex_unlock(&rows->lock);
    *out = h;
    return STOKE_OK;
}

static int borrow_bench(stoke_rows *rows, lent_bench **out, stoke_error *err)
{
    pthread_mutex_lock(&rows->lock);
    lent_bench *b = rows->benches;
    if (b) rows->benches = b->next;
    pthread_mutex_unlock(&rows->lock);
    int r = STOKE_OK;
    if (!b) {
        b = stk_calloc(1, sizeof *b);
        r = b ? stk_scratch_create(&b->scratch, err) : stk_fail(err, STOKE_E_NOMEM, "no memory for a worker");
        if (r) stk_free(b);
    }
    *out = r ? NULL : b;
    return r;
}

static void return_bench(stoke_rows *rows, lent_bench *b)
{
    pthread_mutex_lock(&rows->lock);
    b->next = rows->benches;
    rows->benches = b;
    pthread_mutex_unlock(&rows->lock);
}

/* ---- a batch ---- */

int stoke_rows_begin(stoke_rows *rows, uint32_t count, uint64_t epoch, uint64_t position, stoke_batch **batch,
                     stoke_error *err)
{
    *batch = NULL;
    if (!count) return stk_fail(err, STOKE_E_INVALID, "a batch has one row at least");
    pthread_mutex_lock(&rows->lock);
    holder *h = rows->holders; /* a free slot of at least that many rows */
    while (h && (h->lent || h->ring.slot[0].batch.capacity < count)) h = h->next;
    if (h) h->lent = 1;
    pthread_mutex_unlock(&rows->lock);
    const int r = h ? STOKE_OK : make_holder(rows, count, &h, err);
    if (r) return r;
    stk_slots_discard(&h->ring);
    stk_slot *slot = stk_slots_open(&h->ring, count);
    for (uint32_t i = 0; i < count; i++) {
        slot->ids[i] = position + i;
        slot->names[i] = "";
        slot->status[i] = STOKE_ROW_OK;
        slot->mix[i] = (stk_slot_row_mix){ 0 };
    }
    slot->batch.count = count;
    slot->batch.epoch = epoch;
    slot->batch.position = position;
    slot->batch.index = 0; /* the caller knows what came before */
    *batch = &slot->batch;
    return STOKE_OK;
}

static int make_row(const stoke_rows *rows, stk_scratch *scratch, stk_slot *slot, uint32_t row,
                    const stoke_pixels *image, const stoke_pixels *mask, stoke_error *err)
{
    stk_sample_ctx ctx;
    stoke_draw draw = stk_sample_begin(&ctx, scratch, &rows->config, slot, row, err);
    draw.source_width = image->width;
    draw.source_height = image->height;
    int r = take_given_image(&ctx, image);
    if (!r && mask) r = take_given_ids(&ctx, mask);
    if (!r) r = stk_draw_plan(&ctx, &draw);
    if (!r) r = stk_decode_fit_cut(&ctx);
    if (!r) r = stk_render(&ctx);
    slot->mix[row] = (stk_slot_row_mix){ ctx.plan.mix, ctx.plan.lambda, ctx.plan.mix_box };
    return r;
}

int stoke_rows_put(stoke_rows *rows, stoke_batch *batch, uint32_t row, const stoke_pixels *image,
                   const stoke_pixels *mask, stoke_error *err)
{
    stk_slot *slot = stk_slot_of(batch);
    lent_bench *b;
    stoke_error own;
    if (row >= batch->count)
        return stk_fail(err, STOKE_E_INVALID, "row %u of a batch of %u", row, batch->count);
    int r = borrow_bench(rows, &b, err);
    if (r) return r;
    r = make_row(rows, &b->scratch, slot, row, image, mask, err ? err : &own);
    return_bench(rows, b);
    return r;
}

int stoke_rows_finish(stoke_rows *rows, stoke_batch *batch, stoke_error *err)
{
    lent_bench *b;
    if (!rows->config.mixes) return STOKE_OK;
    int r = borrow_bench(rows, &b, err);
    if (r) return r;
    r = stk_slot_mix(stk_slot_of(batch), &b->scratch.mix, err);
    return_bench(rows, b);
    return r;
}

void stoke_rows_release(stoke_rows *rows, stoke_batch **batch)
{
    if (!*batch) return;
    pthread_mutex_lock(&rows->lock);
    for (holder *h = rows->holders; h; h = h->next)
        if (&h->ring.slot[0].batch == *batch) h->lent = 0;
    pthread_mutex_unlock(&rows->lock);
    *batch = NULL;
}
