/* SPDX-License-Identifier: Apache-2.0
 *
 * Batches from pictures in memory: the loader's second half, without its files, threads and ring. Benches and
 * slots are kept and lent, so that steady work allocates nothing.
 */
#include <pthread.h>
#include <stoke/rows.h>

#include "src/base/error.h"
#include "src/loader/from_memory.h"
#include "src/loader/mix.h"

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
    int lock_made;
    holder *holders;     /* all of them */
    lent_bench *benches; /* those nobody uses now */
};

int stoke_rows_create(stoke_rows **out, const stoke_data_params *params, const stoke_allocator *allocator,
                      stoke_error *err)
{
    *out = NULL;
    if (!params->size[0] || !params->size[1])
        return stk_fail(err, STOKE_E_INVALID, "size must be given: there is no first file to take it from");
    stoke_rows *rows = stk_calloc(1, sizeof *rows);
    if (!rows) return stk_fail(err, STOKE_E_NOMEM, "no memory for rows");
    if (allocator) rows->allocator = *allocator;
    rows->has_allocator = allocator != NULL;
    rows->lock_made = !pthread_mutex_init(&rows->lock, NULL);
    int r = rows->lock_made ? STOKE_OK : stk_fail(err, STOKE_E_NOMEM, "no memory for a lock");
    if (!r) r = stk_loader_config_create(&rows->config, NULL, params, err);
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
    if (rows->lock_made) pthread_mutex_destroy(&rows->lock);
    stk_free(rows);
}

const char *stoke_rows_pipeline(const stoke_rows *rows)
{
    return stoke_pipeline_text(rows->config.pipeline);
}

/* ---- lending ---- */

/* A free slot of at least `count` rows. Lock held. */
static holder *find_holder(stoke_rows *rows, uint32_t count)
{
    for (holder *h = rows->holders; h; h = h->next)
        if (!h->lent && h->ring.slot[0].batch.capacity >= count) return h;
    return NULL;
}

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
    holder *h = find_holder(rows, count);
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
    const stk_loader_config *config = &rows->config;
    stk_sample_ctx ctx = { .scratch = scratch,
                           .config = config,
                           .image_row = stk_slot_image_row(slot, row),
                           .mask_row = stk_slot_mask_row(slot, row),
                           .last = stk_stamp_now(),
                           .err = err };
    stoke_draw draw = { .seed = config->seed,
                        .epoch = slot->batch.epoch,
                        .position = slot->batch.position + row,
                        .source_width = image->width,
                        .source_height = image->height,
                        .out_width = config->width,
                        .out_height = config->height };
    int r = stk_from_memory_image(&ctx, image);
    if (!r && mask) r = stk_from_memory_ids(&ctx, mask);
    if (!r) r = stk_draw_plan(&ctx, &draw);
    if (!r) r = stk_decode_fit_cut(&ctx);
    if (!r) r = stk_lay(&ctx);
    slot->mix[row] = (stk_slot_row_mix){ ctx.plan.mix, ctx.plan.lambda, ctx.plan.mix_box };
    return r;
}

int stoke_rows_put(stoke_rows *rows, stoke_batch *batch, uint32_t row, const stoke_pixels *image,
                   const stoke_pixels *mask, stoke_error *err)
{
    stk_slot *slot = (stk_slot *)batch; /* the batch is the slot's first member */
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
    r = stk_slot_mix((stk_slot *)batch, &b->scratch.mix, err);
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
