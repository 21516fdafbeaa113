/* SPDX-License-Identifier: Apache-2.0
 *
 * Evaluation at the masks' own size: what `stoke predict` would write is compared with the masks as they are.
 */
#include "src/train/evaluate.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stoke/tools/metrics.h>

#include "src/base/error.h"
#include "src/base/mem.h"

typedef struct comparison {
    const stk_original *set;
    stoke_confusion *confusion;
    stk_evaluate_result *result;
    double *losses; /* of each picture, NaN without one: added up in the order of the set */
    stoke_progress_fn progress;
    void *context;
    uint64_t count, allowed; /* samples; of them bad */
    pthread_mutex_t lock;    /* of everything that is added up, and of the gallery */
} comparison;

/* `policy` and `max_bad` say how far a set may be bad, as to a loader. The message names the file. */
static int note_bad(comparison *c, const stoke_predicted *predicted, stoke_error *err)
{
    stoke_error why = { .code = predicted->status };
    uint64_t bad = 0;
    snprintf(why.message, sizeof why.message, "%s", predicted->message);
    const int r = stk_quarantine_add(c->set->quarantine, predicted->index, predicted->index, predicted->file,
                                     &why, &bad, err);
    if (r) return r;
    if (c->set->data->policy == STOKE_POLICY_STOP) return stk_fail_again(err, why.code, why.message);
    if (bad <= c->allowed) return STOKE_OK;
    return stk_fail(err, STOKE_E_TOO_BAD,
                    "%llu of %llu samples are bad, more than max_bad allows (%llu); the first: %s",
                    (unsigned long long)bad, (unsigned long long)c->count, (unsigned long long)c->allowed,
                    stk_quarantine_get(c->set->quarantine, 0).reason);
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
                                     .id = predicted->index,
                                     .miou = scores.miou,
                                     .accuracy = scores.pixel_accuracy };
    pthread_mutex_lock(&c->lock);
    int r = stoke_confusion_merge(c->confusion, confusion, err);
    if (!r) {
        c->losses[predicted->index] = predicted->about.loss;
        c->result->samples++;
        c->result->windows += predicted->about.windows;
        if (scores.pixels) stk_worst_note(c->result->worst, &c->result->n_worst, &own);
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

/* NaN as soon as a picture was resized: a mean over some of them would look like one over all. One of which
 * no pixel counts has none. */
static double mean_loss(const comparison *c, const stoke_predict_report *done)
{
    double sum = 0;
    uint64_t n = 0;
    for (uint64_t i = 0; i < c->count; i++)
        if (!isnan(c->losses[i])) sum += c->losses[i], n++;
    return done->resized ? NAN : sum / (double)n;
}

static int run(comparison *c, const stoke_sample *files, stoke_error *err)
{
    const stk_original *set = c->set;
    stk_evaluate_result *result = c->result;
    stoke_predict_job job = stoke_predict_job_defaults();
    stoke_predict_report done = { 0 };
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
    if (r) return r;
    if (!result->samples)
        return stk_fail(err, STOKE_E_TOO_BAD, "none of %llu samples could be used; the first: %s",
                        (unsigned long long)c->count, stk_quarantine_get(set->quarantine, 0).reason);
    result->loss = mean_loss(c, &done);
    result->scores = stoke_confusion_scores(c->confusion);
    result->seconds = done.seconds;
    result->data_seconds = done.seconds - done.network_seconds;
    return STOKE_OK;
}

int stk_evaluate_original(const stk_original *set, stoke_confusion *confusion, stk_evaluate_result *result,
                          stoke_progress_fn progress, void *context, stoke_error *err)
{
    comparison c = { .set = set,
                     .confusion = confusion,
                     .result = result,
                     .progress = progress,
                     .context = context,
                     .count = stoke_dataset_count(set->dataset) };
    *result = (stk_evaluate_result){ .loss = NAN };
    stoke_confusion_reset(confusion);
    int r = stk_fuse_limit(set->data->max_bad, c.count, &c.allowed, err);
    if (r) return r;
    stoke_sample *files = stk_calloc(c.count, sizeof *files);
    c.losses = stk_calloc(c.count, sizeof *c.losses);
    if (!files || !c.losses)
        r = stk_fail(err, STOKE_E_NOMEM, "no memory for a list of %llu files", (unsigned long long)c.count);
    for (uint64_t i = 0; !r && i < c.count; i++) {
        files[i] = stoke_dataset_sample(set->dataset, i);
        c.losses[i] = NAN;
    }
    if (!r) r = run(&c, files, err);
    stk_free(c.losses);
    stk_free(files);
    return r;
}
