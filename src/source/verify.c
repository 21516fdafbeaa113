/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a whole set and says what is wrong with it. Memory: per thread one decoder and one tally, and a line
 * for every bad file.
 */
#include <stoke/dataset.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/source/crew.h"
#include "src/source/reader.h"
#include "src/source/tally.h"

typedef struct bad_line {
    uint64_t order; /* twice the sample's id, plus one for its mask */
    stoke_bad_file file;
} bad_line;

/* What members add up for themselves, and the calling thread collects. */
typedef struct sums {
    uint64_t ok, image_bytes, mask_bytes, formats[8], images16;
    uint32_t min_width, min_height, max_width, max_height;
    uint32_t low, high; /* values of 16-bit images */
} sums;

typedef struct verification {
    const stoke_dataset *dataset;
    const stoke_data_params *params;
    stoke_labels *labels;
    sums sums;
    stk_tally *tally;
    pthread_mutex_t lock; /* of the bad lines */
    bad_line *bad;
    size_t n_bad, bad_capacity;
} verification;

typedef struct verifier {
    stk_reader reader;
    stk_tally tally;
    sums sums;
} verifier;

static int start(void *context, void *member, stoke_error *err)
{
    verifier *self = member;
    self->sums.min_width = self->sums.min_height = self->sums.low = UINT32_MAX;
    return stk_reader_start(&self->reader, err);
}

/* A line of the report. The work itself fails only for want of memory. */
static int add_bad(verification *v, uint64_t order, const char *path, const stoke_error *error,
                   stoke_error *err)
{
    stoke_bad_file file = { stk_strdup(path), stk_strdup(error->message), error->code };
    pthread_mutex_lock(&v->lock);
    int room = stk_grow((void **)&v->bad, &v->bad_capacity, v->n_bad + 1, sizeof *v->bad);
    if (room && file.path && file.reason) v->bad[v->n_bad++] = (bad_line){ order, file };
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

static int check_mask(verification *v, verifier *self, const stoke_sample *sample, const stoke_image *image,
                      stoke_error *why)
{
    stoke_image ids;
    int r = stk_reader_mask(&self->reader, v->params, v->labels, sample, &ids, why);
    self->sums.mask_bytes += self->reader.file_bytes;
    if (r != STOKE_OK) return r;
    /* An image that could not be read has width 0 and has been reported: its mask is judged alone. */
    if (image->width && (ids.width != image->width || ids.height != image->height))
        return stk_fail(why, STOKE_E_SIZE, "the mask is %u x %u, its image %u x %u", ids.width, ids.height,
                        image->width, image->height);
    stk_tally_add(&self->tally, &ids);
    return STOKE_OK;
}

static int check_sample(void *context, void *member, uint64_t id, stoke_error *err)
{
    verification *v = context;
    verifier *self = member;
    stoke_sample sample = stoke_dataset_sample(v->dataset, id);
    stoke_error why = { 0 };
    stoke_image image = { 0 };
    stoke_format format = STOKE_FORMAT_UNKNOWN;
    int r = stk_reader_image(&self->reader, v->params, &sample, &format, &image, &why), bad = r;
    self->sums.image_bytes += self->reader.file_bytes;
    if (r == STOKE_OK) {
        self->sums.formats[format < 8 ? format : 0]++;
        add_size(&self->sums, image.width, image.height);
        self->sums.images16 += image.depth == 2;
        stk_image_values(&image, &self->sums.low, &self->sums.high);
    } else {
        image.width = 0;
        r = add_bad(v, 2 * id, sample.image_path, &why, err);
        if (r != STOKE_OK) return r;
    }
    if (sample.mask_path) {
        r = check_mask(v, self, &sample, &image, &why);
        if (r != STOKE_OK) {
            bad = r;
            r = add_bad(v, 2 * id + 1, sample.mask_path, &why, err);
            if (r != STOKE_OK) return r;
        }
    }
    self->sums.ok += bad == STOKE_OK;
    return STOKE_OK;
}

static void finish(void *context, void *member)
{
    verification *v = context;
    verifier *self = member;
    stk_tally_merge(v->tally, &self->tally);
    v->sums.ok += self->sums.ok;
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

static int by_order(const void *a, const void *b)
{
    uint64_t x = ((const bad_line *)a)->order, y = ((const bad_line *)b)->order;
    return x < y ? -1 : x > y;
}

/* Moves what was found into the report. On failure the report is left for stoke_verify_report_free. */
static int write_report(verification *v, stoke_verify_report *report, stoke_error *err)
{
    size_t n_classes = 0;
    for (uint32_t i = 0; i < STK_TALLY_IDS; i++) n_classes += v->tally->pixels[i] != 0;
    report->bad = stk_alloc(v->n_bad * sizeof *report->bad);
    report->classes = stk_alloc(n_classes * sizeof *report->classes);
    if (!report->bad || !report->classes) return stk_fail(err, STOKE_E_NOMEM, "no memory for the report");
    if (v->n_bad) qsort(v->bad, v->n_bad, sizeof *v->bad, by_order);
    for (; report->n_bad < v->n_bad; report->n_bad++) report->bad[report->n_bad] = v->bad[report->n_bad].file;
    v->n_bad = 0; /* the strings are the report's now */
    for (uint32_t i = 0; i < STK_TALLY_IDS; i++)
        if (v->tally->pixels[i])
            report->classes[report->n_classes++] =
                (stoke_class_count){ i, v->tally->pixels[i], v->tally->samples[i] };
    const sums *s = &v->sums;
    report->pairs = stoke_dataset_count(v->dataset);
    report->ok = s->ok;
    report->image_bytes = s->image_bytes;
    report->mask_bytes = s->mask_bytes;
    memcpy(report->formats, s->formats, sizeof report->formats);
    report->images16 = s->images16;
    if (s->images16) report->min_value16 = s->low, report->max_value16 = s->high;
    if (s->max_width) {
        report->min_width = s->min_width, report->min_height = s->min_height;
        report->max_width = s->max_width, report->max_height = s->max_height;
    }
    return STOKE_OK;
}

int stoke_verify(const stoke_dataset *dataset, const stoke_data_params *params, unsigned threads,
                 stoke_progress_fn progress, void *context, stoke_verify_report *report, stoke_error *err)
{
    *report = (stoke_verify_report){ 0 };
    const uint64_t begin = stk_now_ns();
    verification v = { .dataset = dataset, .params = params };
    v.sums.min_width = v.sums.min_height = v.sums.low = UINT32_MAX;
    int r = stk_labels_of(&v.labels, params, err);
    if (r != STOKE_OK) return r;
    v.tally = stk_calloc(1, sizeof *v.tally);
    if (!v.tally) r = stk_fail(err, STOKE_E_NOMEM, "no memory for the class counts");
    pthread_mutex_init(&v.lock, NULL);
    const stk_crew_job job = {
        stoke_dataset_count(dataset), &v, sizeof(verifier), start, check_sample, finish
    };
    if (r == STOKE_OK) r = stk_crew_run(&job, threads, progress, context, err);
    if (r == STOKE_OK) r = write_report(&v, report, err);
    if (r != STOKE_OK) stoke_verify_report_free(report);
    for (size_t i = 0; i < v.n_bad; i++) {
        stk_free((char *)v.bad[i].file.path);
        stk_free((char *)v.bad[i].file.reason);
    }
    pthread_mutex_destroy(&v.lock);
    stk_free(v.bad);
    stk_free(v.tally);
    stoke_labels_destroy(&v.labels);
    report->seconds = (double)(stk_now_ns() - begin) * 1e-9;
    return r;
}

int stoke_remark_on_values(const stoke_data_params *params, uint32_t low, uint32_t high, char *text,
                           size_t size)
{
    const int windowed = params->window && *params->window && strcmp(params->window, "none") != 0;
    /* Less than a quarter: what 14 bits and fewer fill. Cameras with all 16 come near the whole. */
    if (windowed || low > high || high - low >= 65536 / 4) return 0;
    snprintf(text, size,
             "16-bit images with values %u to %u, %.2g %% of the range: nearly all contrast is lost; window "
             "p1:p99 (--window p1:p99) stretches each image",
             low, high, 100.0 * (high - low) / 65535);
    return 1;
}

void stoke_verify_report_free(stoke_verify_report *report)
{
    if (!report) return;
    for (size_t i = 0; i < report->n_bad; i++) {
        stk_free((char *)report->bad[i].path);
        stk_free((char *)report->bad[i].reason);
    }
    stk_free(report->bad);
    stk_free(report->classes);
    *report = (stoke_verify_report){ 0 };
}
