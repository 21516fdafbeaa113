/* SPDX-License-Identifier: Apache-2.0
 *
 * A trained network over a whole set: settings, the pass, names of classes, a picture of the worst.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <stoke/evaluate.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/net/net.h"
#include "src/source/reader.h"
#include "src/train/evaluate.h"
#include "src/train/evaluate_set.h"

_Static_assert((int)STOKE_EVAL_WORST == (int)STK_WORST, "the lists are as long");

stoke_eval_params stoke_eval_defaults(void)
{
    return (stoke_eval_params){ .struct_size = sizeof(stoke_eval_params),
                                .network = stoke_predict_defaults() };
}

void stoke_eval_report_free(stoke_eval_report *report)
{
    stoke_confusion_destroy(&report->confusion);
    for (uint32_t i = 0; report->class_names && i < report->classes; i++) stk_free(report->class_names[i]);
    stk_free(report->class_names);
    for (size_t i = 0; i < report->n_worst; i++) stk_free(report->worst[i].name);
    memset(report, 0, sizeof *report);
}

/* ---- settings ---- */

static int check(const stoke_data_params *data, const stoke_eval_params *params, stoke_error *err)
{
    if (params->struct_size != sizeof *params)
        return stk_fail(err, STOKE_E_INVALID,
                        "evaluation params do not come from stoke_eval_defaults() of this version");
    if (!params->original && (params->network.flip || params->network.mode == STOKE_PREDICT_SLIDE))
        return stk_fail(
            err, STOKE_E_INVALID,
            "flip and windows (mode slide) belong to the evaluation at the pictures' own size: set "
            "`original` too");
    if (data->ignore_index < -1)
        return stk_fail(err, STOKE_E_INVALID, "ignore_index is -1 (none) or a class id");
    return STOKE_OK;
}

/* Values as the network was trained on, as an op: the loader itself knows ImageNet's alone. */
static const char *normalization(const stoke_predictor *predictor, char text[STK_NORMALIZATION])
{
    const stk_writer *w = &predictor->writer;
    double mean[3], deviation[3];
    for (int c = 0; c < 3; c++) {
        deviation[c] = 1 / w->scale[c];
        mean[c] = -w->bias[c] / w->scale[c];
    }
    snprintf(text, STK_NORMALIZATION, "normalize(mean=%.9g,%.9g,%.9g,std=%.9g,%.9g,%.9g)", mean[0], mean[1],
             mean[2], deviation[0], deviation[1], deviation[2]);
    return text;
}

/* The network's pictures of the caller's data: nothing drawn, nothing left out, nothing twice. */
static stoke_data_params plain(const stoke_data_params *data, const stoke_predictor_info *network)
{
    stoke_data_params own = *data;
    own.classes = network->classes == 1 ? 2 : network->classes;
    own.size[0] = network->height;
    own.size[1] = network->width;
    own.batch = network->batch;
    own.dtype = 0; /* f32 */
    own.layout = STOKE_LAYOUT_CHW;
    own.normalize = STOKE_NORMALIZE_IMAGENET;
    own.order = STOKE_ORDER_SEQUENTIAL;
    own.weights = NULL;
    own.epoch = own.rank = own.drop_last = 0;
    own.world = 1;
    own.quarantine = ""; /* bad files are in the report; nothing is written that nobody asked for */
    return own;
}

static int check_classes(const stoke_data_params *data, const stoke_predictor_info *network, stoke_error *err)
{
    const int64_t classes = network->classes == 1 ? 2 : network->classes;
    if (!data->classes || data->classes == classes || data->classes == network->classes) return STOKE_OK;
    return stk_fail(err, STOKE_E_INVALID,
                    "the network has %lld classes, and the data is said to have %lld (classes): name the "
                    "network that was trained on it, or map its labels with label_map",
                    (long long)classes, (long long)data->classes);
}

/* ---- names of classes ---- */

/* LABEL_3 is what Hugging Face calls a class that has no name. */
static int is_name(const char *name, uint32_t id)
{
    char made[24];
    snprintf(made, sizeof made, "LABEL_%u", (unsigned)id);
    return name && *name && strcmp(name, made) != 0;
}

static const char *name_of(const stoke_predictor *predictor, const stoke_labels *labels, uint32_t classes,
                           uint32_t id)
{
    if (classes == 1) { /* foreground against background: the network's class is 1 */
        const char *name = stoke_predictor_class(predictor, 0);
        if (id == 1 && is_name(name, 0)) return name;
    } else if (is_name(stoke_predictor_class(predictor, id), id)) {
        return stoke_predictor_class(predictor, id);
    }
    const char *name = stoke_labels_name(labels, id);
    if (name || classes != 1) return name;
    return id ? "foreground" : "background";
}

static int copy_names(stk_evaluation_set *set, stoke_eval_report *report, stoke_error *err)
{
    const uint32_t own = stoke_predictor_about(set->predictor).classes;
    report->class_names = stk_calloc(report->classes, sizeof *report->class_names);
    int all = report->class_names != NULL;
    for (uint32_t id = 0; all && id < report->classes; id++) {
        const char *name = name_of(set->predictor, set->labels, own, id);
        if (name) all = (report->class_names[id] = stk_strdup(name)) != NULL;
    }
    return all ? STOKE_OK
               : stk_fail(err, STOKE_E_NOMEM, "no memory for the names of %u classes", report->classes);
}

/* ---- the pass at the network's size ---- */

void stk_blame_classes(const stk_evaluation_set *set, stoke_error *err)
{
    char why[96];
    snprintf(why, sizeof why, "the masks do not fit the network, which has %lld classes",
             (long long)set->data.classes);
    if (err) stk_error_prefix(err, why);
}

/* Whether masks with classes that the network has not are behind a failure. */
static int is_about_classes(const stoke_loader *loader, int code)
{
    stoke_bad_file bad;
    if (code != STOKE_E_TOO_BAD) return code == STOKE_E_LABEL;
    return !stoke_loader_bad(loader, 0, &bad) && bad.code == STOKE_E_LABEL;
}

static int run_loader(stk_evaluation_set *set, stoke_confusion *confusion, stk_gallery *gallery,
                      stk_evaluation *result, uint64_t *bad, stoke_progress_fn progress, void *context,
                      stoke_error *err)
{
    stoke_loader *loader = NULL;
    stoke_loader_stats_data stats = { 0 };
    int r = stoke_loader_create(&loader, set->dataset, &set->data, NULL, err);
    if (r) return r;
    r = stk_evaluate(set->predictor->net, loader, confusion, gallery, result, progress, context, err);
    if (r && is_about_classes(loader, r)) stk_blame_classes(set, err);
    stoke_loader_stats(loader, &stats);
    *bad = stats.bad_samples;
    stoke_bad_file first;
    if (!r && *bad && !stoke_loader_bad(loader, 0, &first))
        snprintf(set->first_bad, sizeof set->first_bad, "%s", first.reason); /* which names the file */
    stoke_loader_destroy(&loader);
    return r;
}

static int evaluate_resized(stk_evaluation_set *set, stoke_eval_report *report, stoke_progress_fn progress,
                            void *context, stoke_error *err)
{
    stk_evaluation e;
    int r = run_loader(set, report->confusion, NULL, &e, &report->bad, progress, context, err);
    if (r) return r;
    report->loss = e.loss;
    report->samples = e.samples;
    report->seconds = e.seconds;
    report->waited_seconds = e.data_seconds;
    memcpy(set->worst, e.worst, sizeof set->worst);
    set->n_worst = e.n_worst;
    return STOKE_OK;
}

/* ---- the worst ---- */

static int copy_worst(const stk_evaluation_set *set, stoke_eval_report *report, stoke_error *err)
{
    for (size_t i = 0; i < set->n_worst; i++) {
        const stk_worst *w = &set->worst[i];
        char *name = stk_strdup(w->name);
        if (!name) return stk_fail(err, STOKE_E_NOMEM, "no memory for the list of the worst pictures");
        report->worst[report->n_worst++] =
            (stoke_eval_worst){ .name = name, .miou = w->miou, .accuracy = w->accuracy };
    }
    return STOKE_OK;
}

/* Once more through the network, since which are the worst is known only afterwards: 16 pictures against
 * keeping all of them. At the network's size, also for `original`: pictures of a camera would be too large to
 * look at side by side. Their captions are those of the list. */
static int draw_worst(stk_evaluation_set *set, const stoke_eval_params *params,
                      const stoke_eval_report *report, stoke_error *err)
{
    uint64_t ids[STK_WORST], bad;
    char title[160];
    stk_gallery *gallery = NULL;
    stoke_confusion *confusion = NULL;
    stk_evaluation e;
    const uint32_t count = (uint32_t)set->n_worst;
    if (!count) return STOKE_OK;
    for (uint32_t i = 0; i < count; i++) ids[i] = set->worst[i].id;
    int r = stoke_dataset_pick(set->dataset, ids, count, err);
    if (!r) r = stk_gallery_create(&gallery, count, count, report->height, report->width, err);
    if (!r) stk_gallery_undo(gallery, &set->predictor->writer);
    for (uint32_t i = 0; !r && i < count; i++) /* of what is picked, the i-th */
        stk_gallery_score(gallery, i, set->worst[i].miou, set->worst[i].accuracy);
    if (!r) r = stoke_confusion_create(&confusion, report->classes, set->data.ignore_index, err);
    if (!r) r = run_loader(set, confusion, gallery, &e, &bad, NULL, NULL, err);
    snprintf(title, sizeof title, "The %u worst of %llu pictures, at %u x %u%s", (unsigned)count,
             (unsigned long long)report->samples, (unsigned)report->width, (unsigned)report->height,
             params->original ? "; scores at the masks' own size" : "");
    if (!r)
        r = stk_gallery_write(gallery, params->picture, title, set->data.ignore_index,
                              (const char *const *)report->class_names, report->classes, err);
    stk_gallery_destroy(&gallery);
    stoke_confusion_destroy(&confusion);
    return r;
}

/* ---- all of it ---- */

static int open_set(stk_evaluation_set *set, const stoke_data_params *data, const stoke_eval_params *params,
                    stoke_eval_report *report, stoke_error *err)
{
    int r = stoke_predictor_open(&set->predictor, &params->network, err);
    if (r) return r;
    const stoke_predictor_info network = stoke_predictor_about(set->predictor);
    r = check_classes(data, &network, err);
    if (r) return r;
    set->data = plain(data, &network);
    set->data.augment = normalization(set->predictor, set->normalization);
    set->predictor->net->params.loss.ignore_index = data->ignore_index;
    report->classes = (uint32_t)set->data.classes;
    report->height = network.height;
    report->width = network.width;
    report->plan = *network.plan;
    r = stoke_dataset_open(&set->dataset, &set->data, err);
    if (!r && !stoke_dataset_has_masks(set->dataset))
        r = stk_fail(
            err, STOKE_E_INVALID,
            "%s has no masks to compare with: `stoke predict` makes masks for pictures that have none",
            data->data     ? data->data
            : data->images ? data->images
                           : data->list);
    if (!r) r = stk_labels_of(&set->labels, &set->data, err);
    if (!r) r = copy_names(set, report, err);
    if (!r) r = stoke_confusion_create(&report->confusion, network.classes, data->ignore_index, err);
    return r;
}

int stoke_evaluate_set(const stoke_data_params *data, const stoke_eval_params *params,
                       stoke_progress_fn progress, void *context, stoke_eval_report *report, stoke_error *err)
{
    stk_evaluation_set set = { 0 };
    *report = (stoke_eval_report){ .loss = NAN };
    int r = check(data, params, err);
    if (!r) r = open_set(&set, data, params, report, err);
    if (!r)
        r = (params->original ? stk_evaluate_original : evaluate_resized)(&set, report, progress, context,
                                                                          err);
    if (!r) {
        report->scores = stoke_confusion_scores(report->confusion);
        report->images_per_s = report->seconds > 0 ? (double)report->samples / report->seconds : 0;
        memcpy(report->first_bad, set.first_bad, sizeof report->first_bad);
        r = copy_worst(&set, report, err);
    }
    if (!r && params->picture) r = draw_worst(&set, params, report, err);
    stoke_labels_destroy(&set.labels);
    stoke_dataset_close(&set.dataset);
    stoke_predictor_close(&set.predictor);
    return r;
}
