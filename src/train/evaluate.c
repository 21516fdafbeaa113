/* SPDX-License-Identifier: Apache-2.0
 *
 * One pass over a validation set.
 */
#include "src/train/evaluate.h"

#include <math.h>
#include <string.h>
#include <stoke/tools/metrics.h>

#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/loader/loader.h"
#include "src/base/mem.h"
#include "src/net/net.h"

typedef struct pass {
    stoke_net *net;
    stoke_loader *loader;
    stoke_confusion *confusion, *picture; /* of the set, of one picture */
    stk_evaluate_gallery *gallery;
    stk_evaluate_result *result;
    uint16_t *predicted; /* a batch of the loader's, row by row; made for the first one */
    double loss;         /* sum over the samples of which a pixel counts */
    uint64_t losses;
} pass;

stoke_net_batch stoke_net_batch_of(const stoke_batch *batch)
{
    return (stoke_net_batch){ .count = batch->count,
                              .images = batch->images,
                              .layout = batch->layout,
                              .image_row_floats = batch->image_row_bytes / sizeof(float),
                              .masks = batch->masks,
                              .masks_b = batch->masks_b,
                              .lambda = batch->lambda,
                              .mask_dtype = batch->mask_dtype,
                              .mask_row_bytes = batch->mask_row_bytes };
}

static const void *mask_of(const stoke_batch *batch, uint32_t row)
{
    return (const char *)batch->masks + row * batch->mask_row_bytes;
}

static stoke_net_batch rows_of(const stoke_batch *batch, uint32_t first, uint32_t count)
{
    stoke_net_batch rows = stoke_net_batch_of(batch);
    rows.count = count;
    rows.images += first * rows.image_row_floats;
    rows.masks = mask_of(batch, first);
    return rows;
}

static int is_worse(const stk_evaluate_worst *a, const stk_evaluate_worst *b)
{
    return a->miou < b->miou || (a->miou == b->miou && a->id < b->id);
}

void stk_worst_note(stk_evaluate_worst *list, size_t *count, const stk_evaluate_worst *picture)
{
    size_t at = *count;
    while (at && is_worse(picture, &list[at - 1])) at--;
    if (at == STK_WORST) return;
    if (*count < STK_WORST) ++*count;
    memmove(list + at + 1, list + at, (*count - at - 1) * sizeof *list);
    list[at] = *picture;
}

/* Rows that all hold their own sample, in one go through the network. */
static int evaluate_rows(pass *p, const stoke_batch *batch, uint32_t first, uint32_t count, stoke_error *err)
{
    const size_t pixels = (size_t)batch->height * batch->width;
    const stoke_net_batch rows = rows_of(batch, first, count);
    uint16_t *predicted = p->predicted + first * pixels;
    uint32_t with_pixels = 0;
    double loss;
    int r = stoke_net_evaluate(p->net, &rows, &loss, predicted, err);
    for (uint32_t i = 0; !r && i < count; i++) {
        stoke_confusion_reset(p->picture);
        r = stoke_confusion_add(p->picture, predicted + i * pixels, mask_of(batch, first + i),
                                batch->mask_dtype, pixels, err);
        if (!r) r = stoke_confusion_merge(p->confusion, p->picture, err);
        if (r) break;
        const stoke_scores scores = stoke_confusion_scores(p->picture);
        with_pixels += scores.pixels > 0;
        const stk_evaluate_worst own = { .name = batch->names[first + i],
                                         .id = batch->ids[first + i],
                                         .miou = scores.miou,
                                         .accuracy = scores.pixel_accuracy };
        if (scores.pixels) stk_worst_note(p->result->worst, &p->result->n_worst, &own);
    }
    if (r) return r;
    p->loss += loss * with_pixels;
    p->losses += with_pixels;
    p->result->samples += count;
    return STOKE_OK;
}

static int evaluate_batch(pass *p, const stoke_batch *batch, stoke_error *err)
{
    uint32_t end;
    int r = STOKE_OK;
    for (uint32_t first = 0; !r && first < batch->count; first = end) {
        const int replaced = batch->status[first] == STOKE_ROW_REPLACED;
        end = first + 1;
        while (end < batch->count && replaced == (batch->status[end] == STOKE_ROW_REPLACED)) end++;
        if (!replaced) r = evaluate_rows(p, batch, first, end - first, err);
    }
    if (!r && p->gallery) stk_gallery_take(p->gallery, batch, p->predicted);
    return r;
}

static int check_batch(const pass *p, const stoke_batch *batch, stoke_error *err)
{
    const stoke_net_params *net = &p->net->params;
    if (batch->image_dtype != STOKE_DTYPE_F32)
        return stk_fail(err, STOKE_E_INVALID, "the network takes pictures as f32, and the loader delivers %s",
                        stoke_dtype_name(batch->image_dtype));
    if (batch->height != net->height || batch->width != net->width)
        return stk_fail(err, STOKE_E_INVALID,
                        "the network was opened for pictures of %u x %u, and the loader delivers %u x %u",
                        (unsigned)net->height, (unsigned)net->width, (unsigned)batch->height,
                        (unsigned)batch->width);
    return STOKE_OK;
}

static int next_batch(pass *p, const stoke_batch **batch, stoke_error *err)
{
    const uint64_t start = stk_now_ns();
    int r = stoke_loader_next(p->loader, batch);
    p->result->data_seconds += 1e-9 * (double)(stk_now_ns() - start);
    if (r) return r == STOKE_E_END ? r : stk_fail_again(err, r, stoke_loader_error(p->loader));
    const stoke_batch *b = *batch;
    r = check_batch(p, b, err);
    if (!r && !p->predicted) {
        p->predicted = stk_calloc((size_t)b->capacity * b->height * b->width, sizeof *p->predicted);
        if (!p->predicted)
            r = stk_fail(err, STOKE_E_NOMEM, "no memory for the predictions of a batch of %u pictures",
                         (unsigned)b->capacity);
    }
    if (r) stoke_batch_release(p->loader, batch);
    return r;
}

/* All batches of the epoch. */
static int run(pass *p, stoke_progress_fn progress, void *context, stoke_error *err)
{
    const uint64_t total = stk_loader_samples(p->loader);
    uint64_t done = 0;
    for (;;) {
        const stoke_batch *batch;
        int r = next_batch(p, &batch, err);
        if (r) return r == STOKE_E_END ? STOKE_OK : r;
        r = evaluate_batch(p, batch, err);
        done += batch->count;
        stoke_batch_release(p->loader, &batch);
        if (!r && progress && progress(context, done, total))
            r = stk_fail(err, STOKE_E_CANCELLED, "the evaluation was stopped after %llu of %llu pictures",
                         (unsigned long long)done, (unsigned long long)total);
        if (r) return r;
    }
}

int stk_evaluate(stoke_net *net, stoke_loader *loader, stoke_confusion *confusion,
                 stk_evaluate_gallery *gallery, stk_evaluate_result *result, stoke_progress_fn progress,
                 void *context, stoke_error *err)
{
    const uint64_t start = stk_now_ns();
    pass p = { .net = net, .loader = loader, .confusion = confusion, .gallery = gallery, .result = result };
    *result = (stk_evaluate_result){ .loss = NAN };
    stoke_confusion_reset(confusion);
    int r = stoke_confusion_create(&p.picture, net->config.classes, net->params.loss.ignore_index, err);
    if (!r) r = run(&p, progress, context, err);
    stk_free(p.predicted);
    stoke_confusion_destroy(&p.picture);
    const int back = stoke_loader_set_epoch(loader, 0);
    if (!r && back) r = stk_fail_again(err, back, stoke_loader_error(loader));
    if (r) return r;
    result->scores = stoke_confusion_scores(confusion);
    result->loss = p.loss / (double)p.losses; /* NaN when no pixel counted */
    result->seconds = 1e-9 * (double)(stk_now_ns() - start);
    return STOKE_OK;
}
