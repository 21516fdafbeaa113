/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a whole set and says what is wrong with it. Memory: per thread one decoder and one tally, and a line
 * for every bad file.
 */
#include <stoke/tools/dataset.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/base/threadpool.h"
#include "src/source/dataset.h"
#include "src/source/dataset_internal.h"
#include "src/source/labels_internal.h"
#include "src/source/mask_rules.h"
#include "src/source/names.h"
#include "src/source/pairs.h"
#include "src/source/quarantine.h"
#include "src/source/reader.h"

typedef struct bad_line {
    uint64_t order; /* twice the sample's id, plus one for its mask or target */
    int by_label;   /* of values that are no class, and nothing else */
    stoke_bad_file file;
} bad_line;

typedef struct verification {
    const stoke_dataset *dataset;
    const stoke_data_params *params;
    stoke_labels *labels; /* as set */
    stoke_labels *values; /* every value as it is; NULL: there is a map, and tallies count classes */
    stoke_verify_report *report;
    stk_mask_tally *tally, *odd;        /* of good masks; of those with values that are no class */
    pthread_mutex_t lock;               /* of the report and what follows, which are booked once a sample */
    uint64_t ok_but_label;              /* samples; the report counts those that are ok */
    uint64_t first_jpeg, first_colored; /* ids of masks; UINT64_MAX: none */
    stk_pair_counts counts;
    bad_line *bad;
    size_t n_bad, bad_capacity;
} verification;

/* ---- sentences ---- */

/* A sentence that there is no memory for is not said. */
static void add_remark(void *context, const char *sentence)
{
    stoke_verify_report *report = context;
    char *copy = stk_strdup(sentence);
    const char **more = copy ? stk_realloc(report->remarks, (report->n_remarks + 1) * sizeof *more) : NULL;
    if (!more) {
        stk_free(copy);
        return;
    }
    report->remarks = more;
    report->remarks[report->n_remarks++] = copy;
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

/* ---- classes ---- */

/* The masks' values as training takes them. Leaves in *settled what it would set. */
static int judge(const verification *v, const stk_names *names, stoke_data_params *settled,
                 stk_mask_rules *judgement, stoke_verify_report *report, stoke_error *why)
{
    const stk_mask_values values = { .counts = { v->tally, v->odd },
                                     .path = stoke_dataset_sample(v->dataset, 0).mask_path,
                                     .jpeg = v->first_jpeg < UINT64_MAX
                                                 ? stoke_dataset_sample(v->dataset, v->first_jpeg).mask_path
                                                 : NULL,
                                     .names = names->count,
                                     .names_found = names->found };
    if (v->first_colored < UINT64_MAX) {
        const stoke_sample sample = stoke_dataset_sample(v->dataset, v->first_colored);
        return stk_judge_colors(v->params, &sample, why);
    }
    const int r = (v->values ? stk_judge_values : stk_judge_range)(v->params, &values, add_remark, report,
                                                                   judgement, why);
    settled->classes = judgement->classes;
    settled->ignore_index = judgement->ignore_index;
    if (*judgement->label_map) settled->label_map = judgement->label_map;
    return r;
}

static int has_pixels(const stk_mask_tally *tally)
{
    for (uint32_t i = 0; i < STK_TALLY_IDS; i++)
        if (tally->pixels[i]) return 1;
    return 0;
}

/* What values mean: report->labels, n_ids, ignore_index, or the refusal. */
static int take_labels(verification *v, stoke_verify_report *report, int *mapped, stoke_error *err)
{
    stoke_data_params settled = *v->params;
    stk_mask_rules judgement;
    stk_names names;
    stoke_error why = { 0 };
    stoke_labels *apart;
    int refused = STOKE_OK;
    /* Names that were only found are counted before the classes are, on a map of their own. */
    int r = stoke_labels_create(&apart, NULL, STK_TALLY_IDS, -1, err);
    if (!r) r = stk_names_add(apart, v->params, &names, err);
    stoke_labels_destroy(&apart);
    if (r) return r;
    if (v->values || (v->labels->keeps && !v->params->classes)) {
        refused = judge(v, &names, &settled, &judgement, report, &why);
        *mapped = !refused && *judgement.label_map;
    } else {
        const stk_mask_tally *const counts[2] = { v->tally, NULL };
        settled.classes = v->params->classes ? v->params->classes : stk_labels_classes(v->labels);
        stk_judge_ignore(v->params, settled.classes, add_remark, report, &settled.ignore_index);
        stk_judge_ignored(&settled, counts, add_remark, report);
    }
    report->ignore_index = settled.ignore_index;
    if (refused == STOKE_E_NOMEM || refused == STOKE_E_CANCELLED)
        return stk_fail_again(err, refused, why.message);
    if (refused) {
        report->refusal = stk_strdup(why.message);
        return report->refusal ? STOKE_OK : stk_fail(err, STOKE_E_NOMEM, "no memory for the report");
    }
    report->n_ids = settled.classes;
    r = stk_labels_of(&report->labels, &settled, err);
    if (!r) r = stk_names_add(report->labels, v->params, &names, err);
    if (!r) stk_names_judge(report->labels, &names, (uint32_t)settled.classes, add_remark, report);
    return r;
}

/* A mask of one pixel. 0: the value is no class. */
static int class_of(const stoke_labels *labels, uint16_t value, uint16_t *id)
{
    stoke_image mask = { &value, 2, 1, 1, 1, 2 }, out = { id, 2, 1, 1, 1, stoke_labels_depth(labels) };
    *id = 0;
    if (stoke_labels_apply(labels, &mask, &out, NULL)) return 0;
    if (out.depth == 1) *id = *(const uint8_t *)out.data;
    return 1;
}

/* Values become classes where training would make them so; values of refused masks stay what they are. */
static int count_classes(const verification *v, stoke_verify_report *report, int mapped, stoke_error *err)
{
    stk_mask_tally *classes = v->tally;
    if (mapped) {
        classes = v->odd; /* all of it is moved, then emptied below */
        stk_tally_merge(v->tally, v->odd);
        memset(classes, 0, sizeof *classes);
        for (uint32_t value = 0; value < STK_TALLY_IDS; value++) {
            uint16_t id;
            if (!v->tally->pixels[value] || !class_of(report->labels, (uint16_t)value, &id)) continue;
            classes->pixels[id] += v->tally->pixels[value];
            classes->samples[id] += v->tally->samples[value];
        }
    }
    size_t n = 0;
    for (uint32_t i = 0; i < STK_TALLY_IDS; i++) n += classes->pixels[i] != 0;
    report->classes = stk_alloc(n * sizeof *report->classes);
    if (!report->classes) return stk_fail(err, STOKE_E_NOMEM, "no memory for the report");
    for (uint32_t i = 0; i < STK_TALLY_IDS; i++)
        if (classes->pixels[i])
            report->classes[report->n_classes++] =
                (stoke_class_count){ i, classes->pixels[i], classes->samples[i] };
    return STOKE_OK;
}

/* ---- bad files ---- */

static int by_order(const void *a, const void *b)
{
    uint64_t x = ((const bad_line *)a)->order, y = ((const bad_line *)b)->order;
    return x < y ? -1 : x > y;
}

/* In the order of the set; a sample whose picture and mask are both bad has one record, of the picture. */
static int record_bad(const verification *v, int mapped, stoke_verify_report *report, stoke_error *err)
{
    stk_quarantine *list;
    const char *path = stk_quarantine_named(v->params);
    if (!path) return STOKE_OK;
    int r = stk_quarantine_open(&list, path, err);
    for (size_t i = 0; !r && i < v->n_bad; i++) {
        const bad_line *line = &v->bad[i];
        const stoke_sample sample = stoke_dataset_sample(v->dataset, line->order / 2);
        stoke_error why = { .code = line->file.code };
        if (mapped && line->by_label) continue;
        snprintf(why.message, sizeof why.message, "%s: %s", line->file.path, line->file.reason);
        r = stk_quarantine_add(list, line->order / 2, line->order, &sample, &why, NULL, err);
    }
    if (list) stk_quarantine_unrecorded(list, report->unrecorded, sizeof report->unrecorded);
    if (list) stk_quarantine_close(&list);
    return r;
}

/* Values that turn out to be classes are no fault. */
static int take_bad(verification *v, stoke_verify_report *report, int mapped, stoke_error *err)
{
    report->bad = stk_alloc(v->n_bad * sizeof *report->bad);
    if (!report->bad) return stk_fail(err, STOKE_E_NOMEM, "no memory for the report");
    if (v->n_bad) qsort(v->bad, v->n_bad, sizeof *v->bad, by_order);
    const int r = record_bad(v, mapped, report, err);
    if (r) return r;
    for (size_t i = 0; i < v->n_bad; i++)
        if (mapped && v->bad[i].by_label)
            stk_bad_file_free(&v->bad[i].file);
        else
            report->bad[report->n_bad++] = v->bad[i].file;
    v->n_bad = 0; /* the strings are the report's now */
    return STOKE_OK;
}

/* Moves what was found into the report. On failure the report is left for stoke_verify_report_free. */
static int write_report(verification *v, stoke_verify_report *report, stoke_error *err)
{
    char text[512];
    int mapped = 0, r = STOKE_OK;
    report->ignore_index = v->params->ignore_index;
    stk_pair_remarks(&v->counts, (stoke_orientation)v->params->orientation, add_remark, report);
    char unread[256];
    if (*stoke_dataset_unread(v->dataset, unread, sizeof unread)) {
        snprintf(text, sizeof text, "Left out: %s; " STOKE_FORMATS_AND " are read.", unread);
        add_remark(report, text);
    }
    if (v->dataset->test) {
        snprintf(text, sizeof text, "There is a test part, %.300s: it is read with `split` test only.",
                 v->dataset->test);
        add_remark(report, text);
    }
    /* Where no mask could be read there is nothing to judge by but the list of bad files. */
    if (has_pixels(v->tally) || has_pixels(v->odd) || v->first_colored < UINT64_MAX)
        r = take_labels(v, report, &mapped, err);
    if (!r && stoke_remark_on_values(v->params, report->min_value16, report->max_value16, text, sizeof text))
        add_remark(report, text);
    if (!r) r = count_classes(v, report, mapped, err);
    if (!r) r = take_bad(v, report, mapped, err);
    if (mapped) report->ok += v->ok_but_label;
    if (!report->images16) report->min_value16 = 0;
    if (!report->max_width) report->min_width = report->min_height = 0;
    return r;
}

void stoke_verify_report_free(stoke_verify_report *report)
{
    if (!report) return;
    stk_bad_files_free(report->bad, report->n_bad);
    for (size_t i = 0; i < report->n_remarks; i++) stk_free((char *)report->remarks[i]);
    stk_free((void *)report->remarks);
    stk_free((char *)report->refusal);
    stk_free(report->classes);
    stoke_labels_destroy(&report->labels);
    *report = (stoke_verify_report){ 0 };
}

typedef struct verifier {
    stk_reader reader; /* first: see stk_reader_start */
    stk_mask_tally tally, odd;
} verifier;

static void book_image(verification *v, const stoke_image_info *info, const stoke_image *image)
{
    stoke_verify_report *report = v->report;
    uint32_t low = UINT32_MAX, high = 0;
    stk_image_values(image, &low, &high);
    pthread_mutex_lock(&v->lock);
    report->formats[info->format < 8 ? info->format : 0]++;
    report->images16 += image->depth == 2;
    if (low < report->min_value16) report->min_value16 = low;
    if (high > report->max_value16) report->max_value16 = high;
    if (image->width < report->min_width) report->min_width = image->width;
    if (image->height < report->min_height) report->min_height = image->height;
    if (image->width > report->max_width) report->max_width = image->width;
    if (image->height > report->max_height) report->max_height = image->height;
    if (!stoke_dataset_has_masks(v->dataset) && !stoke_dataset_has_targets(v->dataset))
        stk_pair_count(&v->counts, (stoke_orientation)v->params->orientation, info, NULL, NULL);
    pthread_mutex_unlock(&v->lock);
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
    pthread_mutex_lock(&v->lock);
    v->report->mask_bytes += self->reader.file_bytes;
    /* The first of each kind, by id: what a message names does not depend on the threads. */
    if (info.width && info.format == STOKE_FORMAT_JPEG && id < v->first_jpeg) v->first_jpeg = id;
    if (v->values && r == STOKE_E_LABEL && stk_mask_is_colored(&info) && id < v->first_colored)
        v->first_colored = id;
    /* An image that could not be read has width 0 and has been reported: its mask is judged alone. */
    if (r == STOKE_OK && image->width) r = stk_pair_count(&v->counts, wanted, image, &info, why);
    pthread_mutex_unlock(&v->lock);
    if (r != STOKE_OK) return r;
    if (v->values && v->params->classes) r = stk_labels_check(v->labels, &ids, why);
    *by_label = r == STOKE_E_LABEL;
    if (r == STOKE_OK || *by_label) stk_tally_add(r ? &self->odd : &self->tally, &ids);
    return r;
}

/* A target is read as its image is; `image` is what that is like, width 0: it could not be read. */
static int check_target(verification *v, verifier *self, const stoke_sample *sample, const stoke_image *image,
                        stoke_error *why)
{
    const stoke_sample as_image = stk_target_as_image(sample);
    const uint32_t size[2] = { image->width, image->height };
    stoke_image_info info;
    stoke_image target;
    int r = stk_reader_image(&self->reader, v->params, &as_image, &info, &target, why);
    pthread_mutex_lock(&v->lock);
    v->report->target_bytes += self->reader.file_bytes;
    pthread_mutex_unlock(&v->lock);
    if (!r && image->width)
        r = stk_target_size(size, (uint32_t[2]){ target.width, target.height }, (uint32_t)v->params->scale,
                            sample->image_path, why);
    return r;
}

/* What is wrong with a file goes into the report; want of memory or descriptors ends the work. */
static int note_bad(verification *v, uint64_t order, int by_label, const char *path, stoke_error *why,
                    stoke_error *err)
{
    if (stk_is_want(why->code)) {
        stk_error_prefix(why, path);
        if (err) *err = *why;
        return why->code;
    }
    bad_line line = { .order = order, .by_label = by_label };
    int good = stk_bad_file_make(&line.file, path, why);
    pthread_mutex_lock(&v->lock);
    good = good && stk_grow((void **)&v->bad, &v->bad_capacity, v->n_bad + 1, sizeof line);
    if (good) v->bad[v->n_bad++] = line;
    pthread_mutex_unlock(&v->lock);
    if (good) return STOKE_OK;
    stk_bad_file_free(&line.file);
    return stk_fail(err, STOKE_E_NOMEM, "no memory for the report");
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
    const uint64_t image_bytes = self->reader.file_bytes;
    if (!bad_image) {
        book_image(v, &info, &image);
    } else {
        info.width = image.width = 0;
        const int r = note_bad(v, 2 * id, 0, sample.image_path, &why, err);
        if (r != STOKE_OK) return r;
    }
    const char *partner = sample.target_path ? sample.target_path : sample.mask_path;
    const int bad_partner = sample.target_path ? check_target(v, self, &sample, &image, &why)
                            : sample.mask_path ? check_mask(v, self, id, &sample, &info, &by_label, &why)
                                               : STOKE_OK;
    if (bad_partner) {
        const int r = note_bad(v, 2 * id + 1, by_label, partner, &why, err);
        if (r != STOKE_OK) return r;
    }
    pthread_mutex_lock(&v->lock);
    v->report->image_bytes += image_bytes;
    v->report->ok += !bad_image && !bad_partner;
    v->ok_but_label += !bad_image && by_label;
    pthread_mutex_unlock(&v->lock);
    return STOKE_OK;
}

static void finish(void *context, void *member)
{
    verification *v = context;
    verifier *self = member;
    stk_tally_merge(v->tally, &self->tally);
    stk_tally_merge(v->odd, &self->odd);
    stk_reader_finish(NULL, &self->reader);
}

/* Masks without a map are read as they are: what their values mean is judged when all have been seen. */
static int prepare(verification *v, stoke_error *err)
{
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
    *report = (stoke_verify_report){ .pairs = stoke_dataset_count(dataset),
                                     .min_width = UINT32_MAX,
                                     .min_height = UINT32_MAX,
                                     .min_value16 = UINT32_MAX };
    const uint64_t begin = stk_now_ns();
    verification v = { .dataset = dataset,
                       .params = params,
                       .report = report,
                       .first_jpeg = UINT64_MAX,
                       .first_colored = UINT64_MAX };
    int r = prepare(&v, err);
    pthread_mutex_init(&v.lock, NULL);
    const stk_parallel_job job = {
        report->pairs, &v, sizeof(verifier), stk_reader_start, check_sample, finish
    };
    if (r == STOKE_OK) r = stk_parallel_for(&job, threads, progress, context, err);
    if (r == STOKE_OK) r = write_report(&v, report, err);
    if (r != STOKE_OK) stoke_verify_report_free(report);
    for (size_t i = 0; i < v.n_bad; i++) stk_bad_file_free(&v.bad[i].file);
    pthread_mutex_destroy(&v.lock);
    stk_free(v.bad);
    stk_free(v.tally);
    stk_free(v.odd);
    stoke_labels_destroy(&v.labels);
    stoke_labels_destroy(&v.values);
    report->seconds = (double)(stk_now_ns() - begin) * 1e-9;
    return r;
}
