/* SPDX-License-Identifier: Apache-2.0
 *
 * What verify found: how training would take it, what is odd, which files are bad, how often classes occur.
 */
#include "src/source/verify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <stoke/tools/labels.h>
#include <stoke/tools/dataset.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/source/dataset_internal.h"
#include "src/source/mask_rules.h"
#include "src/source/names.h"
#include "src/source/quarantine.h"
#include "src/source/reader.h"

void stk_verify_sums_begin(stk_verify_sums *sums)
{
    sums->min_width = sums->min_height = sums->low = UINT32_MAX;
    sums->first_jpeg = sums->first_colored = UINT64_MAX;
}

void stk_bad_line_free(stk_verify_bad_line *line)
{
    stk_free((char *)line->file.path);
    stk_free((char *)line->file.reason);
}

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
static int judge(const stk_verify_result *v, const stk_names *names, stoke_data_params *settled,
                 stk_mask_rules *judgement, stoke_verify_report *report, stoke_error *why)
{
    const stk_verify_sums *s = &v->sums;
    const stk_mask_values values = { .counts = { v->tally, v->odd },
                                     .path = stoke_dataset_sample(v->dataset, 0).mask_path,
                                     .jpeg = s->first_jpeg < UINT64_MAX
                                                 ? stoke_dataset_sample(v->dataset, s->first_jpeg).mask_path
                                                 : NULL,
                                     .names = names->count,
                                     .names_found = names->found };
    if (s->first_colored < UINT64_MAX) {
        const stoke_sample sample = stoke_dataset_sample(v->dataset, s->first_colored);
        return stk_judge_colors(v->params, &sample, why);
    }
    const int r = (v->values ? stk_judge_values : stk_judge_range)(v->params, &values, add_remark, report,
                                                                   judgement, why);
    settled->classes = judgement->classes;
    settled->ignore_index = judgement->ignore_index;
    if (*judgement->label_map) settled->label_map = judgement->label_map;
    return r;
}

static int has_pixels(const stk_tally *tally)
{
    for (uint32_t i = 0; i < STK_TALLY_IDS; i++)
        if (tally->pixels[i]) return 1;
    return 0;
}

/* Names that were only found are counted before the classes are, on a map of their own. */
static int count_names(const stk_verify_result *v, stk_names *names, stoke_error *err)
{
    stoke_labels *labels = NULL;
    int r = stoke_labels_create(&labels, NULL, STK_TALLY_IDS, -1, err);
    if (!r) r = stk_names_add(labels, v->params, names, err);
    stoke_labels_destroy(&labels);
    return r;
}

/* What values mean: report->labels, n_ids, ignore_index, or the refusal. */
static int take_labels(stk_verify_result *v, stoke_verify_report *report, int *mapped, stoke_error *err)
{
    stoke_data_params settled = *v->params;
    stk_mask_rules judgement;
    stk_names names;
    stoke_error why = { 0 };
    int r = count_names(v, &names, err), refused = STOKE_OK;
    if (r) return r;
    if (v->values || (v->labels->keeps && !v->params->classes)) {
        refused = judge(v, &names, &settled, &judgement, report, &why);
        *mapped = !refused && *judgement.label_map;
    } else {
        const stk_tally *const counts[2] = { v->tally, NULL };
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
static int count_classes(const stk_verify_result *v, stoke_verify_report *report, int mapped,
                         stoke_error *err)
{
    stk_tally *classes = v->tally;
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
    uint64_t x = ((const stk_verify_bad_line *)a)->order, y = ((const stk_verify_bad_line *)b)->order;
    return x < y ? -1 : x > y;
}

/* In the order of the set; a sample whose picture and mask are both bad has one record, of the picture. */
static int record_bad(const stk_verify_result *v, int mapped, stoke_verify_report *report, stoke_error *err)
{
    stk_quarantine *list;
    const char *path = stk_quarantine_named(v->params);
    if (!path) return STOKE_OK;
    int r = stk_quarantine_open(&list, path, err);
    for (size_t i = 0; !r && i < v->n_bad; i++) {
        const stk_verify_bad_line *line = &v->bad[i];
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
static int take_bad(stk_verify_result *v, stoke_verify_report *report, int mapped, stoke_error *err)
{
    report->bad = stk_alloc(v->n_bad * sizeof *report->bad);
    if (!report->bad) return stk_fail(err, STOKE_E_NOMEM, "no memory for the report");
    if (v->n_bad) qsort(v->bad, v->n_bad, sizeof *v->bad, by_order);
    const int r = record_bad(v, mapped, report, err);
    if (r) return r;
    for (size_t i = 0; i < v->n_bad; i++)
        if (mapped && v->bad[i].by_label)
            stk_bad_line_free(&v->bad[i]);
        else
            report->bad[report->n_bad++] = v->bad[i].file;
    v->n_bad = 0; /* the strings are the report's now */
    return STOKE_OK;
}

static void take_sums(const stk_verify_result *v, stoke_verify_report *report, int mapped)
{
    const stk_verify_sums *s = &v->sums;
    report->pairs = stoke_dataset_count(v->dataset);
    report->ok = s->ok + (mapped ? s->ok_but_label : 0);
    report->image_bytes = s->image_bytes;
    report->mask_bytes = s->mask_bytes;
    memcpy(report->formats, s->formats, sizeof report->formats);
    report->images16 = s->images16;
    if (s->images16) report->min_value16 = s->low, report->max_value16 = s->high;
    if (s->max_width) {
        report->min_width = s->min_width, report->min_height = s->min_height;
        report->max_width = s->max_width, report->max_height = s->max_height;
    }
}

int stk_verify_write(stk_verify_result *v, stoke_verify_report *report, stoke_error *err)
{
    const stk_verify_sums *s = &v->sums;
    char text[512];
    int mapped = 0, r = STOKE_OK;
    report->ignore_index = v->params->ignore_index;
    stk_pair_remarks(&s->pairs, (stoke_orientation)v->params->orientation, add_remark, report);
    char unread[256];
    if (*stoke_dataset_unread(v->dataset, unread, sizeof unread)) {
        snprintf(text, sizeof text, "Left out: %s; JPEG, PNG, WebP and TIFF are read.", unread);
        add_remark(report, text);
    }
    if (v->dataset->test) {
        snprintf(text, sizeof text, "There is a test part, %.300s: it is read with `split` test only.",
                 v->dataset->test);
        add_remark(report, text);
    }
    /* Where no mask could be read there is nothing to judge by but the list of bad files. */
    if (has_pixels(v->tally) || has_pixels(v->odd) || s->first_colored < UINT64_MAX)
        r = take_labels(v, report, &mapped, err);
    if (!r && stoke_remark_on_values(v->params, s->low, s->high, text, sizeof text)) add_remark(report, text);
    if (!r) r = count_classes(v, report, mapped, err);
    if (!r) r = take_bad(v, report, mapped, err);
    if (!r) take_sums(v, report, mapped);
    return r;
}

void stoke_verify_report_free(stoke_verify_report *report)
{
    if (!report) return;
    for (size_t i = 0; i < report->n_bad; i++) {
        stk_free((char *)report->bad[i].path);
        stk_free((char *)report->bad[i].reason);
    }
    for (size_t i = 0; i < report->n_remarks; i++) stk_free((char *)report->remarks[i]);
    stk_free((void *)report->remarks);
    stk_free((char *)report->refusal);
    stk_free(report->bad);
    stk_free(report->classes);
    stoke_labels_destroy(&report->labels);
    *report = (stoke_verify_report){ 0 };
}
