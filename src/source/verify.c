/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a whole set and says what is wrong with it. Memory: per thread one decoder and one tally, and a line
 * for every bad file. What it all means is judged by verify_report.c.
 */
#include <stoke/dataset.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/base/parallel_for.h"
#include "src/source/mask_rules.h"
#include "src/source/labels_internal.h"
#include "src/source/pairs.h"
#include "src/source/reader.h"
#include "src/source/verify.h"

typedef stk_verify_sums sums;
typedef stk_verify_result verification;

typedef struct verifier {
    stk_reader reader;
    stk_tally tally, odd;
    sums sums;
} verifier;

static int start(void *context, void *member, stoke_error *err)
{
    verifier *self = member;
    (void)context;
    stk_verify_sums_begin(&self->sums);
    return stk_reader_start(&self->reader, err);
}

/* A line of the report. The work itself fails only for want of memory. */
static int add_bad(verification *v, uint64_t order, int by_label, const char *path, const stoke_error *error,
                   stoke_error *err)
{
    stoke_bad_file file = { stk_strdup(path), stk_strdup(error->message), error->code };
    pthread_mutex_lock(&v->lock);
    int room = stk_grow((void **)&v->bad, &v->bad_capacity, v->n_bad + 1, sizeof *v->bad);
    if (room && file.path && file.reason) v->bad[v->n_bad++] = (stk_verify_bad_line){ order, by_label, file };
    pthread_mutex_unlock(&v->lock);
    if (room && file.path && file.reason) return STOKE_OK;
    stk_free((char *)file.path);
    stk_free((char *)file.reason);
    return stk_fail(err, STOKE_E_NOMEM, "no memory for the report");
}

static void add_size(sums *s, uint32_t width, uint32_t height)
{
    if (width < s->min_width) s->min_width = width;
    if (height < s->min_height) s->min_height = height;
    if (width > s->max_width) s->max_width = width;
    if (height > s->max_height) s->max_height = height;
}

/* The first of each kind, by id: what a message names does not depend on the threads. */
static void note_kind(sums *s, uint64_t id, const stoke_image_info *info, int status)
{
    if (info->width && info->format == STOKE_FORMAT_JPEG && id < s->first_jpeg) s->first_jpeg = id;
    if (status == STOKE_E_LABEL && stk_mask_is_colored(info) && id < s->first_colored) s->first_colored = id;
}

/* *by_label: a value that is no class is all there is to complain of. */
static int check_mask(verification *v, verifier *self, uint64_t id, const stoke_sample *sample,
                      const stoke_image_info *image, int *by_label, stoke_error *why)
{
    const stoke_orientation wanted = (stoke_orientation)v->params->orientation;
    stoke_image_info info;
    stoke_image ids;
    int r = stk_reader_mask(&self->reader, v->params, v->values ? v->values : v->labels, sample, &info, &ids,
                            why);
    self->sums.mask_bytes += self->reader.file_bytes;
    note_kind(&self->sums, id, &info, v->values ? r : STOKE_OK);
    /* An image that could not be read has width 0 and has been reported: its mask is judged alone. */
    if (r == STOKE_OK && image->width) r = stk_pair_count(&self->sums.pairs, wanted, image, &info, why);
    if (r != STOKE_OK) return r;
    if (v->values && v->params->classes) r = stk_labels_check(v->labels, &ids, why);
    *by_label = r == STOKE_E_LABEL;
    if (r == STOKE_OK || *by_label) stk_tally_add(r ? &self->odd : &self->tally, &ids);
    return r;
}

/* What is wrong with a file goes into the report; want of memory or descriptors ends the work. */
static int judge(verification *v, uint64_t order, int by_label, const char *path, stoke_error *why,
                 stoke_error *err)
{
    if (!stk_is_want(why->code)) return add_bad(v, order, by_label, path, why, err);
    stk_error_prefix(why, path);
    if (err) *err = *why;
    return why->code;
}

static int check_sample(void *context, void *member, uint64_t id, stoke_error *err)
{
    verification *v = context;
    verifier *self = member;
    stoke_sample sample = stoke_dataset_sample(v->dataset, id);
    stoke_error why = { 0 };
    stoke_image image = { 0 };
    stoke_image_info info;
    int by_label = 0;
    const int bad_image = stk_reader_image(&self->reader, v->params, &sample, &info, &image, &why);
    self->sums.image_bytes += self->reader.file_bytes;
    if (!bad_image) {
        self->sums.formats[info.format < 8 ? info.format : 0]++;
        add_size(&self->sums, image.width, image.height);
        self->sums.images16 += image.depth == 2;
        stk_image_values(&image, &self->sums.low, &self->sums.high);
        if (!sample.mask_path)
            stk_pair_count(&self->sums.pairs, (stoke_orientation)v->params->orientation, &info, NULL, NULL);
    } else {
        info.width = 0;
        const int r = judge(v, 2 * id, 0, sample.image_path, &why, err);
        if (r != STOKE_OK) return r;
    }
    const int bad_mask =
        sample.mask_path ? check_mask(v, self, id, &sample, &info, &by_label, &why) : STOKE_OK;
    if (bad_mask) {
        const int r = judge(v, 2 * id + 1, by_label, sample.mask_path, &why, err);
        if (r != STOKE_OK) return r;
    }
    self->sums.ok += !bad_image && !bad_mask;
    self->sums.ok_but_label += !bad_image && by_label;
    return STOKE_OK;
}

static void finish(void *context, void *member)
{
    verification *v = context;
    verifier *self = member;
    stk_tally_merge(v->tally, &self->tally);
    stk_tally_merge(v->odd, &self->odd);
    v->sums.ok += self->sums.ok;
    v->sums.ok_but_label += self->sums.ok_but_label;
    stk_pair_counts_add(&v->sums.pairs, &self->sums.pairs);
    if (self->sums.first_jpeg < v->sums.first_jpeg) v->sums.first_jpeg = self->sums.first_jpeg;
    if (self->sums.first_colored < v->sums.first_colored) v->sums.first_colored = self->sums.first_colored;
    v->sums.image_bytes += self->sums.image_bytes;
    v->sums.mask_bytes += self->sums.mask_bytes;
    for (int i = 0; i < 8; i++) v->sums.formats[i] += self->sums.formats[i];
    v->sums.images16 += self->sums.images16;
    if (self->sums.low < v->sums.low) v->sums.low = self->sums.low;
    if (self->sums.high > v->sums.high) v->sums.high = self->sums.high;
    if (self->sums.max_width) {
        add_size(&v->sums, self->sums.min_width, self->sums.min_height);
        add_size(&v->sums, self->sums.max_width, self->sums.max_height);
    }
    stk_reader_finish(&self->reader);
}

/* Masks without a map are read as they are: what their values mean is judged when all have been seen. */
static int prepare(verification *v, stoke_error *err)
{
    stk_verify_sums_begin(&v->sums);
    v->tally = stk_calloc(1, sizeof *v->tally);
    v->odd = stk_calloc(1, sizeof *v->odd);
    if (!v->tally || !v->odd) return stk_fail(err, STOKE_E_NOMEM, "no memory for the class counts");
    stoke_data_params params = *v->params;
    if (stk_ignores_a_class(&params)) params.ignore_index = UINT16_MAX; /* as the judgement will say */
    int r = stk_labels_of(&v->labels, &params, err);
    if (!r && stk_is_identity(params.label_map))
        r = stoke_labels_create(&v->values, "identity", STK_TALLY_IDS, -1, err);
    return r;
}

int stoke_verify(const stoke_dataset *dataset, const stoke_data_params *params, unsigned threads,
                 stoke_progress_fn progress, void *context, stoke_verify_report *report, stoke_error *err)
{
    *report = (stoke_verify_report){ 0 };
    const uint64_t begin = stk_now_ns();
    verification v = { .dataset = dataset, .params = params };
    int r = prepare(&v, err);
    pthread_mutex_init(&v.lock, NULL);
    const stk_parallel_job job = {
        stoke_dataset_count(dataset), &v, sizeof(verifier), start, check_sample, finish
    };
    if (r == STOKE_OK) r = stk_parallel_for(&job, threads, progress, context, err);
    if (r == STOKE_OK) r = stk_verify_write(&v, report, err);
    if (r != STOKE_OK) stoke_verify_report_free(report);
    for (size_t i = 0; i < v.n_bad; i++) stk_bad_line_free(&v.bad[i]);
    pthread_mutex_destroy(&v.lock);
    stk_free(v.bad);
    stk_free(v.tally);
    stk_free(v.odd);
    stoke_labels_destroy(&v.labels);
    stoke_labels_destroy(&v.values);
    report->seconds = (double)(stk_now_ns() - begin) * 1e-9;
    return r;
}
