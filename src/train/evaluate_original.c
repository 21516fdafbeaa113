/* SPDX-License-Identifier: Apache-2.0
 *
 * Evaluation at the masks' own size: what `stoke predict` would write is compared with the masks as they are.
 */
#include <pthread.h>
#include <stdio.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/source/quarantine.h"
#include "src/source/reader.h"
#include "src/train/evaluate_set.h"

typedef struct comparison {
    stk_evaluation_set *set;
    stoke_eval_report *report;
    stoke_progress_fn progress;
    void *context;
    uint64_t count, allowed; /* samples; of them bad */
    pthread_mutex_t lock;    /* of everything that is added up */
} comparison;

/* `policy` and `max_bad` say how far a set may be bad, as to a loader. reason: names the file. */
static int note_bad(comparison *c, int code, const char *reason, stoke_error *err)
{
    pthread_mutex_lock(&c->lock);
    const uint64_t bad = ++c->report->bad;
    if (bad == 1) {
        c->set->first_code = code;
        snprintf(c->set->first_bad, sizeof c->set->first_bad, "%.*s", (int)sizeof c->set->first_bad - 1,
                 reason);
    }
    pthread_mutex_unlock(&c->lock);
    if (c->set->data.policy == STOKE_POLICY_STOP) return stk_fail(err, code, "%s", reason);
    if (bad <= c->allowed) return STOKE_OK;
    return stk_fail(err, STOKE_E_TOO_BAD,
                    "%llu of %llu samples are bad, more than max_bad allows (%llu); the first: %s",
                    (unsigned long long)bad, (unsigned long long)c->count, (unsigned long long)c->allowed,
                    c->set->first_bad);
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

/* The mask of a sample against what was predicted. A mask that cannot be used is no failure of the whole:
 * *usable says so, and `err` why. */
static int compare(comparison *c, stk_reader *reader, stoke_confusion *confusion,
                   const stoke_predicted *predicted, int *usable, stoke_error *err)
{
    const stoke_sample sample = stoke_dataset_sample(c->set->dataset, predicted->index);
    const stoke_image *mask = predicted->mask;
    stoke_image truth;
    int r = stk_reader_mask(reader, &c->set->data, c->set->labels, &sample, &truth, err);
    *usable = r == STOKE_E_NOMEM;
    if (r) return r;
    if (truth.width != mask->width || truth.height != mask->height)
        return stk_fail(err, STOKE_E_SIZE, "the mask is %u x %u, its image %u x %u", truth.width,
                        truth.height, mask->width, mask->height);
    *usable = 1;
    return count_lines(confusion, mask, &truth, err);
}

static int add(comparison *c, const stoke_confusion *confusion, const stoke_predicted *predicted,
               stoke_error *err)
{
    const stoke_scores scores = stoke_confusion_scores(confusion);
    const stk_worst own = { .name = predicted->file->name,
                            .id = predicted->index,
                            .miou = scores.miou,
                            .accuracy = scores.pixel_accuracy };
    pthread_mutex_lock(&c->lock);
    const int r = stoke_confusion_merge(c->report->confusion, confusion, err);
    if (!r) c->report->samples++;
    if (!r && scores.pixels) stk_worst_note(c->set->worst, &c->set->n_worst, &own);
    pthread_mutex_unlock(&c->lock);
    return r;
}

static int on_predicted(void *context, const stoke_predicted *predicted, stoke_error *err)
{
    comparison *c = context;
    if (predicted->status) return note_bad(c, predicted->status, predicted->message, err);
    const uint32_t classes = stoke_predictor_about(c->set->predictor).classes;
    stoke_confusion *confusion = NULL;
    stk_reader reader = { 0 };
    stoke_error why = { 0 };
    int usable = 1;
    int r = stk_reader_start(&reader, &why);
    if (!r) r = stoke_confusion_create(&confusion, classes, c->set->data.ignore_index, &why);
    if (!r) r = compare(c, &reader, confusion, predicted, &usable, &why);
    if (!r) r = add(c, confusion, predicted, &why);
    stk_reader_finish(&reader);
    stoke_confusion_destroy(&confusion);
    if (r && !usable) {
        const stoke_sample sample = stoke_dataset_sample(c->set->dataset, predicted->index);
        stk_error_prefix(&why, sample.mask_path);
        return note_bad(c, r, why.message, err);
    }
    return r ? stk_fail(err, r, "%s", why.message) : STOKE_OK;
}

static int on_progress(void *context, uint64_t done, uint64_t total)
{
    const comparison *c = context;
    return c->progress ? c->progress(c->context, done, total) : 0;
}

int stk_evaluate_original(stk_evaluation_set *set, stoke_eval_report *report, stoke_progress_fn progress,
                          void *context, stoke_error *err)
{
    comparison c = { .set = set, .report = report, .progress = progress, .context = context };
    const uint64_t count = stoke_dataset_count(set->dataset);
    int r = stk_fuse_limit(set->data.max_bad, count, &c.allowed, err);
    if (r) return r;
    c.count = count;
    stoke_sample *files = stk_calloc(count, sizeof *files);
    if (!files)
        return stk_fail(err, STOKE_E_NOMEM, "no memory for a list of %llu files", (unsigned long long)count);
    for (uint64_t i = 0; i < count; i++) files[i] = stoke_dataset_sample(set->dataset, i);
    stoke_predict_job job = stoke_predict_job_defaults();
    job.files = files;
    job.count = count;
    job.data = &set->data;
    job.predicted = on_predicted;
    job.progress = on_progress;
    job.context = &c;
    stoke_predict_report done = { 0 };
    pthread_mutex_init(&c.lock, NULL);
    r = stoke_predict_files(set->predictor, &job, &done, err);
    pthread_mutex_destroy(&c.lock);
    stk_free(files);
    if (!r && !report->samples)
        r = stk_fail(err, STOKE_E_TOO_BAD, "none of %llu samples could be used; the first: %s",
                     (unsigned long long)count, set->first_bad);
    if ((r == STOKE_E_TOO_BAD || r == STOKE_E_LABEL) && set->first_code == STOKE_E_LABEL)
        stk_blame_classes(set, err);
    report->seconds = done.seconds;
    report->waited_seconds = done.seconds - done.network_seconds;
    return r;
}
