/* SPDX-License-Identifier: Apache-2.0
 *
 * One pass over a validation set.
 */
#include "src/train/evaluate.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "src/augment/pipeline.h"
#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/loader/loader.h"
#include "src/train/eval_share.h"
#include "src/train/predict.h"
#include <stoke/tools/machine.h>
#include <stoke/tools/metrics.h>
#include <stoke/tools/net.h>

/* ---- how it is to be done ---- */

/* Of a picture on its way: class ids, those of its mask, 16-bit pixels as decoded and kept, and what decodes
 * them. The plan of a run has it from the headers (train_memory.c); a batch is chosen before that. */
enum { PIXEL_BYTES = 20 };

const char *stk_eval_mode_name(int mode)
{
    static const char *const names[] = { "auto", "resize", "slide" };
    return names[mode];
}

/* One of them; its windows are added up. */
static void measure(stk_eval_plan *plan, const uint32_t picture[2], const uint32_t size[2])
{
    const double across = (double)picture[0] / size[1], up = (double)picture[1] / size[0];
    const double more = up > across ? up : across;
    const uint64_t pixels = (uint64_t)picture[0] * picture[1];
    if (more > plan->larger) plan->larger = more;
    if (picture[0] > plan->width) plan->width = picture[0];
    if (picture[1] > plan->height) plan->height = picture[1];
    if (pixels > plan->pixels) plan->pixels = pixels;
    plan->windows += plan->restores
                         ? (double)pixels / ((double)size[0] * size[1])
                         : (double)stk_slide_windows(picture[0], picture[1], size[1], size[0], plan->raster);
}

int stk_eval_plan_make(stk_eval_plan *plan, const stk_pairs *pairs, uint64_t count,
                       const stoke_data_params *data, const stoke_net_plan *net, int wanted, stoke_error *err)
{
    const stk_predict_raster raster = stk_predict_raster_of(net);
    const int restores = data->task == STOKE_TASK_RESTORE;
    const int possible = restores || stk_raster_has(raster, data->size[0], data->size[1]);
    stoke_pipeline *pipeline = NULL;
    uint64_t n = 0;
    *plan = (stk_eval_plan){ .mode = wanted, .raster = raster, .restores = restores };
    if (restores && (data->size[0] < STOKE_RESTORED_SIDE || data->size[1] < STOKE_RESTORED_SIDE))
        return stk_fail(err, STOKE_E_INVALID,
                        "pictures of %ux%u have no SSIM: %d pixels a side are the least (`size`, "
                        "`patch_size`; `eval_every` 0 trains without validation)",
                        data->size[0], data->size[1], STOKE_RESTORED_SIDE);
    if (wanted == STOKE_PREDICT_SLIDE && !possible)
        return stk_fail(err, STOKE_E_INVALID,
                        "windows of %ux%u cannot be slid over pictures: height and width must be multiples "
                        "of %u (`size`)",
                        data->size[0], data->size[1], raster.unit);
    const int r = stoke_pipeline_create(&pipeline, data->augment, err);
    if (r) return r;
    plan->own_scale = stk_pipeline_own_scale(pipeline) != NULL;
    plan->most_shown = stk_pipeline_most_shown(pipeline);
    stoke_pipeline_destroy(&pipeline);
    for (uint64_t i = 0; i < count; i++)
        if (pairs->size[i][0]) measure(plan, pairs->size[i], data->size), n++;
    if (wanted == STOKE_PREDICT_AUTO) {
        const int slide = plan->own_scale && possible && (restores || plan->larger > stk_much_larger);
        plan->mode = slide ? STOKE_PREDICT_SLIDE : STOKE_PREDICT_RESIZE;
    }
    plan->windows = plan->mode == STOKE_PREDICT_SLIDE && n ? plan->windows / (double)n : 1;
    return STOKE_OK;
}

uint64_t stk_eval_plan_bytes(const stk_eval_plan *plan, const stoke_net_params *net, uint32_t pictures)
{
    if (plan->mode != STOKE_PREDICT_SLIDE) return 0;
    if (plan->restores) return stk_whole_bytes(plan, net->scale, pictures);
    const stk_predict_windows across =
        stk_windows_of(plan->width, net->width, plan->raster, stoke_predict_defaults().overlap);
    const uint64_t window = (uint64_t)net->height * net->width;
    const uint64_t band = stk_slide_band(&across, net->height, net->classes);
    const uint64_t rows = (uint64_t)net->batch * window * 3 * sizeof(float);
    const uint64_t each = plan->pixels * PIXEL_BYTES;
    /* What is on its way, and what helpers keep between files: as much again at most. */
    const uint64_t helpers = stoke_machine_cores().usable,
                   most = each > STK_EVAL_MEMORY ? each : STK_EVAL_MEMORY;
    const uint64_t way = (3 * helpers + 2 * net->batch) * each;
    const uint64_t kept = (uint64_t)pictures * STK_EVAL_SIDE * STK_EVAL_SIDE * 7;
    return rows + band + 8 * window + (way < 2 * most ? way : 2 * most) + kept;
}

/* ---- batches of a loader ---- */

typedef struct pass {
    stoke_net *net;
    stoke_loader *loader;
    const stk_eval_share *share;
    stk_eval_sums sums;
    stoke_confusion *picture;      /* of one picture */
    stk_restored_sums restoration; /* in place of it, where pictures are restored */
    stk_evaluate_result *result;
    uint16_t *predicted; /* a batch of the loader's, row by row; made for the first one */
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
                              .mask_row_bytes = batch->mask_row_bytes,
                              .targets = batch->targets,
                              .target_row_floats = batch->target_row_bytes / sizeof(float) };
}

static const void *mask_of(const stoke_batch *batch, uint32_t row)
{
    return (const char *)batch->masks + row * batch->mask_row_bytes;
}

static int is_worse(const stk_evaluate_worst *a, const stk_evaluate_worst *b, int restored)
{
    const double x = restored ? a->psnr : a->miou, y = restored ? b->psnr : b->miou;
    const int equal = x == y || (isnan(x) && isnan(y)); /* NaN: nothing is worse */
    return equal ? a->id < b->id : isnan(x) || x < y;
}

void stk_worst_note(stk_evaluate_result *result, const stk_evaluate_worst *picture, int restored)
{
    stk_evaluate_worst *list = result->worst;
    size_t at = result->n_worst;
    while (at && is_worse(picture, &list[at - 1], restored)) at--;
    if (at == STK_WORST) return;
    if (result->n_worst < STK_WORST) ++result->n_worst;
    memmove(list + at + 1, list + at, (result->n_worst - at - 1) * sizeof *list);
    list[at] = *picture;
}

/* Rows that all hold their own sample, in one go through the network. */
static int evaluate_rows(pass *p, const stoke_batch *batch, uint32_t first, uint32_t count, stoke_error *err)
{
    const size_t pixels = (size_t)batch->height * batch->width;
    stoke_net_batch rows = stoke_net_batch_of(batch);
    rows.count = count;
    rows.images += first * rows.image_row_floats;
    rows.masks = mask_of(batch, first);
    uint16_t *predicted = p->predicted + first * pixels;
    uint32_t with_pixels = 0;
    double loss;
    int r = stoke_net_evaluate(p->net, &rows, &loss, predicted, err);
    for (uint32_t i = 0; !r && i < count; i++) {
        stoke_confusion_reset(p->picture);
        r = stoke_confusion_add(p->picture, predicted + i * pixels, mask_of(batch, first + i),
                                batch->mask_dtype, pixels, err);
        if (!r) r = stoke_confusion_merge(p->sums.confusion, p->picture, err);
        if (r) break;
        const stoke_scores scores = stoke_confusion_scores(p->picture);
        with_pixels += scores.pixels > 0;
        const stk_evaluate_worst own = { .name = batch->names[first + i],
                                         .id = batch->ids[first + i],
                                         .miou = scores.miou,
                                         .accuracy = scores.pixel_accuracy };
        if (scores.pixels) stk_worst_note(p->result, &own, 0);
        if (p->sums.gallery) stk_gallery_score(p->sums.gallery, own.id, own.miou, own.accuracy);
    }
    if (r) return r;
    const stk_eval_part part = {
        .place = batch->position + first, .loss = loss * with_pixels, .losses = with_pixels, .samples = count
    };
    return stk_eval_sums_add(&p->sums, &part, err);
}

/* The same of pictures that are restored, each a part. What they lost together is the first one's. */
static int restore_rows(pass *p, const stoke_batch *batch, uint32_t first, uint32_t count, stoke_error *err)
{
    const size_t in = (size_t)batch->width * batch->height,
                 out = (size_t)batch->target_width * batch->target_height;
    const int planar = batch->layout == STOKE_LAYOUT_CHW;
    stoke_net_batch rows = stoke_net_batch_of(batch);
    double loss;
    rows.count = count;
    rows.images += first * rows.image_row_floats;
    rows.targets += first * rows.target_row_floats;
    int r = stoke_net_evaluate(p->net, &rows, &loss, NULL, err);
    const stoke_logits restored = stoke_net_outputs(p->net);
    for (uint32_t i = 0; !r && i < count; i++) {
        stk_evaluate_worst own = { .name = batch->names[first + i], .id = batch->ids[first + i] };
        const stk_restored_item item = {
            .width = restored.width,
            .height = restored.height,
            .image_width = batch->width,
            .image_height = batch->height,
            .output = { restored.data + i * restored.stride * out, STOKE_DTYPE_F32,
                        restored.stride * restored.width, restored.stride, 1 },
            .target = stk_float_picture(rows.targets + i * rows.target_row_floats, planar,
                                        batch->target_width, out),
            .image = stk_float_picture(rows.images + i * rows.image_row_floats, planar, batch->width, in),
        };
        r = stk_restored_sums_add(&p->restoration, &item, &own, p->sums.gallery, err);
        if (r) break;
        stk_worst_note(p->result, &own, 1);
        const stk_eval_part part = { .place = batch->position + first + i,
                                     .loss = i ? 0 : loss * count,
                                     .losses = i ? 0 : count,
                                     .samples = 1,
                                     .output = stk_restored_take(p->restoration.output),
                                     .input = stk_restored_take(p->restoration.input) };
        r = stk_eval_sums_add(&p->sums, &part, err);
    }
    return r;
}

static int evaluate_batch(pass *p, const stoke_batch *batch, stoke_error *err)
{
    uint32_t end;
    int r = STOKE_OK;
    for (uint32_t first = 0; !r && first < batch->count; first = end) {
        const int replaced = batch->status[first] == STOKE_ROW_REPLACED;
        end = first + 1;
        while (end < batch->count && replaced == (batch->status[end] == STOKE_ROW_REPLACED)) end++;
        if (!replaced)
            r = (p->sums.confusion ? evaluate_rows : restore_rows)(p, batch, first, end - first, err);
    }
    if (!r && p->sums.gallery && p->sums.confusion) stk_gallery_take(p->sums.gallery, batch, p->predicted);
    return r;
}

static int check_batch(const pass *p, const stoke_batch *batch, stoke_error *err)
{
    const stoke_net_params *net = stoke_net_params_used(p->net);
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
    if (!r && p->sums.confusion && !p->predicted) {
        p->predicted = stk_calloc((size_t)b->capacity * b->height * b->width, sizeof *p->predicted);
        if (!p->predicted)
            r = stk_fail(err, STOKE_E_NOMEM, "no memory for the predictions of a batch of %u pictures",
                         (unsigned)b->capacity);
    }
    if (r) stoke_batch_release(p->loader, batch);
    return r;
}

/* Samples of the batches that this process takes; only the set's last batch may be short. */
static uint64_t own_samples(const pass *p, uint64_t batch)
{
    const uint64_t all = stk_loader_samples(p->loader), batches = (all + batch - 1) / batch,
                   own = stk_eval_share_own(p->share, batches);
    const int last = own && stk_eval_share_at(p->share, own - 1) == batches - 1;
    return own * batch - (last ? batches * batch - all : 0);
}

/* All batches of the epoch, or of the share of it. */
static int run_batches(pass *p, stoke_progress_fn progress, void *context, stoke_error *err)
{
    uint64_t done = 0;
    for (;;) {
        const stoke_batch *batch;
        int r = next_batch(p, &batch, err);
        if (r) return r == STOKE_E_END ? STOKE_OK : r;
        r = evaluate_batch(p, batch, err);
        const uint64_t total = own_samples(p, batch->capacity);
        done += batch->count;
        stoke_batch_release(p->loader, &batch);
        if (!r && progress && progress(context, done, total))
            r = stk_fail(err, STOKE_E_CANCELLED, "the evaluation was stopped after %llu of %llu pictures",
                         (unsigned long long)done, (unsigned long long)total);
        if (r) return r;
    }
}

int stk_evaluate(stoke_net *net, stoke_loader *loader, const stk_eval_share *share,
                 stoke_confusion *confusion, stk_evaluate_gallery *gallery, stk_evaluate_result *result,
                 stoke_progress_fn progress, void *context, stoke_error *err)
{
    const uint64_t start = stk_now_ns();
    pass p = { .net = net, .loader = loader, .share = share, .result = result };
    p.sums = (stk_eval_sums){ .confusion = confusion, .gallery = gallery, .result = result };
    if (!confusion) p.sums.restored = &p.restoration;
    *result = (stk_evaluate_result){ .loss = NAN };
    stk_eval_sums_begin(&p.sums);
    int r = confusion ? stoke_confusion_create(&p.picture, stoke_net_plan_used(net)->classes,
                                               stoke_net_params_used(net)->loss.ignore_index, err)
                      : stk_restored_sums_create(&p.restoration, err);
    if (!r) r = run_batches(&p, progress, context, err);
    const stk_loader_bad bad = stk_loader_bad_rows(loader);
    result->bad.replaced = bad.replaced;
    result->bad.left_out = bad.skipped;
    r = stk_eval_sums_finish(&p.sums, share, r, err);
    stk_eval_sums_free(&p.sums);
    stk_free(p.predicted);
    stoke_confusion_destroy(&p.picture);
    stk_restored_sums_free(&p.restoration);
    const int back = stoke_loader_set_epoch(loader, 0);
    if (!r && back) r = stk_fail_again(err, back, stoke_loader_error(loader));
    if (r) return r;
    result->seconds = 1e-9 * (double)(stk_now_ns() - start);
    return STOKE_OK;
}

/* ---- at the masks' own size ---- */

typedef struct comparison {
    const stk_original *set;
    stk_eval_sums sums;
    stk_evaluate_result *result;
    stoke_progress_fn progress;
    void *context;
    uint64_t count;       /* pictures of this process */
    pthread_mutex_t lock; /* of everything that is added up, and of the gallery */
} comparison;

int stk_original_bad(const stk_original *set, uint64_t id, const stoke_error *why, stk_evaluate_bad *noted,
                     stoke_error *err)
{
    if (!noted->left_out++ || id < noted->place) {
        noted->place = id;
        snprintf(noted->first, sizeof noted->first, "%s", why->message);
    }
    const uint64_t count = stoke_dataset_count(set->dataset);
    const stoke_sample file = stoke_dataset_sample(set->dataset, id);
    uint64_t bad = 0, allowed = 0;
    int r = stk_max_bad_limit(set->data->max_bad, count, &allowed, err);
    if (!r) r = stk_quarantine_add(set->quarantine, id, id, &file, why, &bad, err);
    if (r) return r;
    if (set->data->policy == STOKE_POLICY_STOP) return stk_fail_again(err, why->code, why->message);
    if (bad <= allowed) return STOKE_OK;
    return stk_fail(err, STOKE_E_TOO_BAD,
                    "%llu of %llu samples are bad, more than max_bad allows (%llu); the first: %s",
                    (unsigned long long)bad, (unsigned long long)count, (unsigned long long)allowed,
                    stk_quarantine_get(set->quarantine, 0).reason);
}

static int note_bad(comparison *c, const stoke_predicted *predicted, stoke_error *err)
{
    stoke_error why = { .code = predicted->status };
    snprintf(why.message, sizeof why.message, "%s", predicted->message);
    const uint64_t id = stk_eval_share_at(c->set->share, predicted->index);
    pthread_mutex_lock(&c->lock);
    const int r = stk_original_bad(c->set, id, &why, &c->result->bad, err);
    pthread_mutex_unlock(&c->lock);
    return r;
}

/* A line at a time, as wide as the counting wants it. */
static int count_lines(stoke_confusion *confusion, const stoke_image *predicted, const stoke_image *truth,
                       stoke_error *err)
{
    uint16_t *line = stk_alloc(truth->width * sizeof *line);
    int r = line ? STOKE_OK : stk_fail(err, STOKE_E_NOMEM, "no memory for a line of a mask");
    for (uint32_t y = 0; !r && y < truth->height; y++) {
        const void *from = (const char *)predicted->data + y * predicted->stride;
        for (uint32_t x = 0; x < truth->width; x++)
            line[x] = predicted->depth == 1 ? ((const uint8_t *)from)[x] : ((const uint16_t *)from)[x];
        r = stoke_confusion_add(confusion, line, (const char *)truth->data + y * truth->stride,
                                truth->depth == 1 ? STOKE_DTYPE_U8 : STOKE_DTYPE_U16, truth->width, err);
    }
    stk_free(line);
    return r;
}

static int add(comparison *c, const stoke_confusion *confusion, const stoke_predicted *predicted,
               stoke_error *err)
{
    const stoke_scores scores = stoke_confusion_scores(confusion);
    const stk_evaluate_worst own = { .name = predicted->file->name,
                                     .id = stk_eval_share_at(c->set->share, predicted->index),
                                     .miou = scores.miou,
                                     .accuracy = scores.pixel_accuracy };
    const double loss = predicted->about.loss; /* NaN: no pixel counts */
    const stk_eval_part part = { .place = own.id,
                                 .loss = isnan(loss) ? 0 : loss,
                                 .losses = !isnan(loss),
                                 .samples = 1,
                                 .windows = (uint32_t)predicted->about.windows,
                                 .resized = predicted->about.mode == STOKE_PREDICT_RESIZE };
    pthread_mutex_lock(&c->lock);
    int r = stk_eval_sums_add(&c->sums, &part, err);
    if (!r) r = stoke_confusion_merge(c->sums.confusion, confusion, err);
    if (!r) {
        if (scores.pixels) stk_worst_note(c->result, &own, 0);
        /* A picture to look at that cannot be made is not shown, and no reason to measure no more. */
        if (c->set->gallery)
            stk_gallery_show(c->set->gallery, &own, predicted->image, predicted->truth, predicted->mask,
                             NULL);
    }
    pthread_mutex_unlock(&c->lock);
    return r;
}

static int on_predicted(void *context, const stoke_predicted *predicted, stoke_error *err)
{
    comparison *c = context;
    if (predicted->status) return note_bad(c, predicted, err);
    const uint32_t classes = stoke_predictor_about(c->set->predictor).classes;
    stoke_confusion *confusion = NULL;
    int r = stoke_confusion_create(&confusion, classes, c->set->data->ignore_index, err);
    if (!r) r = count_lines(confusion, predicted->mask, predicted->truth, err);
    if (!r) r = add(c, confusion, predicted, err);
    stoke_confusion_destroy(&confusion);
    return r;
}

static int on_progress(void *context, uint64_t done, uint64_t total)
{
    const comparison *c = context;
    return c->progress ? c->progress(c->context, done, total) : 0;
}

static int run_pictures(comparison *c, const stoke_sample *files, stoke_error *err)
{
    const stk_original *set = c->set;
    stoke_predict_job job = stoke_predict_job_defaults();
    stoke_predict_report done = { 0 };
    if (!c->count) return STOKE_OK; /* fewer pictures than processes */
    job.files = files;
    job.count = c->count;
    job.data = set->data;
    job.labels = set->labels;
    job.images = set->gallery != NULL;
    if (set->memory) job.memory = set->memory;
    job.helpers = set->helpers;
    job.predicted = on_predicted;
    job.progress = on_progress;
    job.context = c;
    pthread_mutex_init(&c->lock, NULL);
    const int r = stoke_predict_files(set->predictor, &job, &done, err);
    pthread_mutex_destroy(&c->lock);
    c->result->seconds = done.seconds;
    c->result->data_seconds = done.seconds - done.network_seconds;
    return r;
}

int stk_original_any(const stk_original *set, const stk_evaluate_result *result, stoke_error *err)
{
    if (result->samples || (set->share && set->share->rank)) return STOKE_OK;
    return stk_fail(err, STOKE_E_TOO_BAD, "none of %llu samples could be used; the first: %s",
                    (unsigned long long)stoke_dataset_count(set->dataset), result->bad.first);
}

int stk_evaluate_original(const stk_original *set, stoke_confusion *confusion, stk_evaluate_result *result,
                          stoke_progress_fn progress, void *context, stoke_error *err)
{
    comparison c = { .set = set,
                     .sums = { .confusion = confusion, .gallery = set->gallery, .result = result },
                     .result = result,
                     .progress = progress,
                     .context = context,
                     .count = stk_eval_share_own(set->share, stoke_dataset_count(set->dataset)) };
    int r = STOKE_OK;
    *result = (stk_evaluate_result){ .loss = NAN };
    if (!confusion) return stk_evaluate_whole(set, result, progress, context, err);
    stk_eval_sums_begin(&c.sums);
    stoke_sample *files = stk_calloc(c.count + 1, sizeof *files);
    if (!files)
        r = stk_fail(err, STOKE_E_NOMEM, "no memory for a list of %llu files", (unsigned long long)c.count);
    for (uint64_t i = 0; !r && i < c.count; i++)
        files[i] = stoke_dataset_sample(set->dataset, stk_eval_share_at(set->share, i));
    if (!r) r = run_pictures(&c, files, err);
    r = stk_eval_sums_finish(&c.sums, set->share, r, err);
    if (!r) r = stk_original_any(set, result, err);
    stk_eval_sums_free(&c.sums);
    stk_free(files);
    return r;
}
