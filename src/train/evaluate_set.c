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
#include "src/report/grid.h"
#include "src/source/reader.h"
#include "src/loader/loader.h"
#include "src/train/evaluate.h"
#include "src/train/train_memory.h"
#include <stoke/tools/dataset.h>
#include <stoke/tools/loader.h>
#include <stoke/tools/net.h>
#include <stoke/tools/terminal.h>

enum { NORMALIZATION = 160 };

typedef struct evaluation_set {
    const stoke_eval_params *params;
    stoke_eval_report *report;
    stoke_progress_fn progress;
    void *context;
    stoke_error *err;
    stk_loader_plan plan;  /* its probe is that of the set, whoever reads it */
    uint64_t limit;        /* memory_limit */
    stk_predict_work work; /* at the masks' own size */
    stoke_predictor *predictor;
    stoke_data_params data; /* the network's: size, classes, f32, in order */
    stoke_dataset *dataset;
    stoke_labels *labels;
    int original;   /* at the masks' own size */
    uint64_t whole; /* restored pictures: bytes that the largest takes */
    char normalization[NORMALIZATION];
} evaluation_set;

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

/* Values as the network was trained on, as an op: the loader itself knows ImageNet's alone. */
static const char *normalization(const stoke_predictor *predictor, char text[NORMALIZATION])
{
    const stk_pix_writer *w = &predictor->writer;
    double mean[3], deviation[3];
    for (int c = 0; c < 3; c++) {
        deviation[c] = 1 / w->scale[c];
        mean[c] = -w->bias[c] / w->scale[c];
    }
    snprintf(text, NORMALIZATION, "normalize(mean=%.9g,%.9g,%.9g,std=%.9g,%.9g,%.9g)", mean[0], mean[1],
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
    own.dtype = STOKE_IMAGE_DTYPE_F32;
    own.layout = STOKE_LAYOUT_CHW;
    own.normalize = STOKE_NORMALIZE_IMAGENET;
    own.order = STOKE_ORDER_SEQUENTIAL;
    own.weights = NULL;
    own.epoch = own.rank = own.drop_last = 0;
    own.world = 1;
    /* Bad files are in the report; nothing is written that nobody asked for. */
    const char *list = stk_quarantine_named(data);
    own.quarantine = list ? list : "";
    return own;
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

static int copy_names(evaluation_set *set)
{
    stoke_eval_report *report = set->report;
    const uint32_t own = stoke_predictor_about(set->predictor).classes;
    report->class_names = stk_calloc(report->classes, sizeof *report->class_names);
    int all = report->class_names != NULL;
    for (uint32_t id = 0; all && id < report->classes; id++) {
        const char *name = name_of(set->predictor, set->labels, own, id);
        if (name) all = (report->class_names[id] = stk_strdup(name)) != NULL;
    }
    return all ? STOKE_OK
               : stk_fail(set->err, STOKE_E_NOMEM, "no memory for the names of %u classes", report->classes);
}

/* ---- the pass at the network's size ---- */

/* A set whose masks have more classes than the network comes as bad files: puts in front of the message what
 * is behind them. */
static void blame_classes(const evaluation_set *set)
{
    char why[96];
    snprintf(why, sizeof why, "the masks do not fit the network, which has %lld classes",
             (long long)set->data.classes);
    if (set->err) stk_error_prefix(set->err, why);
}

static int run_loader(evaluation_set *set, stoke_confusion *confusion, stk_evaluate_gallery *gallery,
                      stk_evaluate_result *result)
{
    stoke_eval_report *report = set->report;
    stoke_loader *loader = NULL;
    stoke_loader_stats_data stats = { 0 };
    int r = stk_loader_create_planned(&loader, set->dataset, &set->data, &set->plan, set->err);
    if (r) return r;
    r = stk_evaluate(set->predictor->net, loader, NULL, confusion, gallery, result, set->progress,
                     set->context, set->err);
    stoke_bad_file first = { 0 };
    const int any = !stoke_loader_bad(loader, 0, &first);
    if (r == STOKE_E_LABEL || (r == STOKE_E_TOO_BAD && any && first.code == STOKE_E_LABEL))
        blame_classes(set);
    stoke_loader_stats(loader, &stats);
    report->bad = stats.bad_samples;
    if (!r && report->bad && any)
        snprintf(report->first_bad, sizeof report->first_bad, "%s", first.reason); /* which names the file */
    stoke_loader_unrecorded(loader, report->unrecorded, sizeof report->unrecorded);
    stoke_loader_destroy(&loader);
    return r;
}

/* ---- the pass at the masks' own size ---- */

static int run_original(evaluation_set *set, stoke_confusion *confusion, stk_evaluate_gallery *gallery,
                        stk_evaluate_result *result)
{
    stoke_eval_report *report = set->report;
    stk_original original = { .predictor = set->predictor,
                              .dataset = set->dataset,
                              .labels = set->labels,
                              .data = &set->data,
                              .gallery = gallery,
                              .loss = STOKE_LOSS_CHARBONNIER,
                              .memory = set->work.memory,
                              .helpers = set->work.helpers };
    int r = stk_quarantine_open(&original.quarantine, set->data.quarantine, set->err);
    if (r) return r;
    r = stk_evaluate_original(&original, confusion, result, set->progress, set->context, set->err);
    report->bad = stk_quarantine_count(original.quarantine);
    if (report->bad) {
        const stoke_bad_file first = stk_quarantine_get(original.quarantine, 0);
        if (!r) snprintf(report->first_bad, sizeof report->first_bad, "%s", first.reason);
        if ((r == STOKE_E_TOO_BAD || r == STOKE_E_LABEL) && first.code == STOKE_E_LABEL) blame_classes(set);
    }
    stk_quarantine_unrecorded(original.quarantine, report->unrecorded, sizeof report->unrecorded);
    stk_quarantine_close(&original.quarantine);
    return r;
}

/* Of the report, it tells what was bad. */
static int run_pass(evaluation_set *set, stoke_confusion *confusion, stk_evaluate_gallery *gallery,
                    stk_evaluate_result *result)
{
    return (set->original ? run_original : run_loader)(set, confusion, gallery, result);
}

/* ---- the worst ---- */

/* What the pass found, into the report. */
static int take(const stk_evaluate_result *e, stoke_eval_report *report, stoke_error *err)
{
    report->loss = e->loss;
    report->samples = e->samples;
    report->windows = e->windows;
    report->seconds = e->seconds;
    report->waited_seconds = e->data_seconds;
    report->scores = e->scores;
    report->input = e->input;
    report->images_per_s = e->seconds > 0 ? (double)e->samples / e->seconds : 0;
    for (; report->n_worst < e->n_worst; report->n_worst++) {
        const stk_evaluate_worst *w = &e->worst[report->n_worst];
        char *name = stk_strdup(w->name);
        if (!name) return stk_fail(err, STOKE_E_NOMEM, "no memory for the list of the worst pictures");
        report->worst[report->n_worst] = (stoke_eval_worst){ .name = name,
                                                             .miou = w->miou,
                                                             .accuracy = w->accuracy,
                                                             .psnr = w->psnr,
                                                             .ssim = w->ssim,
                                                             .input_psnr = w->input_psnr };
    }
    return STOKE_OK;
}

/* Once more through the network, the same way, since which are the worst is known only afterwards: 16
 * pictures against keeping all of them. Their captions are those of the list. */
static int draw_worst(const evaluation_set *set, const stk_evaluate_result *found)
{
    const stoke_eval_report *report = set->report;
    stoke_error *err = set->err;
    uint64_t ids[STK_WORST];
    char title[160], size[48] = "their own size";
    stk_evaluate_gallery *gallery = NULL;
    stoke_confusion *confusion = NULL;
    stk_evaluate_result e;
    stoke_eval_report unused;
    evaluation_set again = *set;
    again.report = &unused;
    again.progress = NULL;
    const uint32_t count = (uint32_t)found->n_worst;
    const int restores = report->task == STOKE_TASK_RESTORE;
    const uint32_t height = set->original ? STK_EVAL_SIDE : report->height;
    const uint32_t width = set->original ? STK_EVAL_SIDE : report->width;
    if (!count) return STOKE_OK;
    for (uint32_t i = 0; i < count; i++) ids[i] = found->worst[i].id;
    int r = stoke_dataset_pick(set->dataset, ids, count, err);
    if (!r)
        r = restores ? stk_gallery_create_restored(&gallery, count, count, err)
                     : stk_gallery_create(&gallery, count, count, height, width, err);
    if (!r) stk_gallery_undo(gallery, &set->predictor->writer);
    if (!r && !restores) r = stoke_confusion_create(&confusion, report->classes, set->data.ignore_index, err);
    if (!r) r = run_pass(&again, confusion, gallery, &e);
    for (uint32_t i = 0; !r && i < count; i++) /* of what is picked, the i-th */
        stk_gallery_score(gallery, i, found->worst[i].miou, found->worst[i].accuracy);
    if (!set->original)
        snprintf(size, sizeof size, "%ux%u", (unsigned)report->height, (unsigned)report->width);
    snprintf(title, sizeof title, "The %u worst of %s, %s %s", (unsigned)count,
             STOKE_COUNT(report->samples, "picture"), restores ? "the middle of each, at" : "at", size);
    if (!r)
        r = stk_gallery_write(gallery, set->params->picture, title, set->data.ignore_index,
                              (const char *const *)report->class_names, report->classes, err);
    stk_gallery_destroy(&gallery);
    stoke_confusion_destroy(&confusion);
    return r;
}

/* ---- all of it ---- */

/* How to look at the set. What was trained with says the predictor's params, not the data's. */
static int settle_mode(evaluation_set *set)
{
    const stoke_eval_params *params = set->params;
    stoke_eval_report *report = set->report;
    stoke_error *err = set->err;
    stoke_data_params trained = set->data;
    stk_pairs pairs = { 0 };
    stk_eval_plan plan = { .mode = params->network.mode };
    int r = STOKE_OK;
    trained.augment = params->network.augment ? params->network.augment : "none";
    if (!params->original) {
        r = stk_pairs_look(&pairs, set->dataset, &trained, NULL, NULL, err);
        if (!r)
            r = stk_eval_plan_make(&plan, &pairs, stoke_dataset_count(set->dataset), &trained,
                                   stoke_net_plan_used(set->predictor->net), params->network.mode, err);
        stk_pairs_free(&pairs);
    }
    set->original = params->original || plan.mode == STOKE_PREDICT_SLIDE;
    if (!params->original) set->predictor->params.mode = plan.mode;
    report->original = set->original;
    report->mode = set->predictor->params.mode;
    if (!r && !set->original && params->network.flip)
        r = stk_fail(err, STOKE_E_INVALID,
                     "flip belongs to the evaluation at the pictures' own size: set `original` too");
    return r;
}

/* Pictures and targets. The largest of them says what memory will be taken. */
static int open_restored(evaluation_set *set, const stoke_data_params *data)
{
    stoke_eval_report *report = set->report;
    const stoke_net_plan *net = stoke_net_plan_used(set->predictor->net);
    const stoke_predictor_info network = stoke_predictor_about(set->predictor);
    stk_pairs pairs = { 0 };
    stk_eval_plan plan;
    set->data = plain(data, &network);
    set->data.task = STOKE_TASK_RESTORE;
    set->data.scale = net->scale;
    set->data.classes = 0;
    set->data.augment = "none";
    set->data.normalize = net->normalize;
    set->original = report->original = 1;
    report->mode = STOKE_PREDICT_SLIDE;
    int r = stoke_dataset_open(&set->dataset, &set->data, set->err);
    if (!r) r = stk_pairs_look(&pairs, set->dataset, &set->data, NULL, NULL, set->err);
    if (!r)
        r = stk_eval_plan_make(&plan, &pairs, stoke_dataset_count(set->dataset), &set->data, net,
                               STOKE_PREDICT_SLIDE, set->err);
    if (!r) r = stk_whole_reading(&plan.reading, set->dataset, &set->data, set->err);
    if (!r)
        set->whole = stk_whole_bytes(&plan, net->scale, 0) +
                     stk_restore_bytes(net, (uint32_t[]){ network.height, network.width }, plan.width,
                                       plan.height, NULL);
    stk_pairs_free(&pairs);
    return r;
}

static int open_set(evaluation_set *set, const stoke_data_params *data)
{
    stoke_eval_report *report = set->report;
    stoke_error *err = set->err;
    if (set->params->struct_size != sizeof *set->params) return stk_fail_struct(err, "stoke_eval_defaults");
    if (data->ignore_index < -1)
        return stk_fail(err, STOKE_E_INVALID, "ignore_index is -1 (none) or a class id");
    int r = stoke_predictor_open(&set->predictor, &set->params->network, err);
    if (r) return r;
    const stoke_predictor_info network = stoke_predictor_about(set->predictor);
    const int64_t classes = network.classes == 1 ? 2 : network.classes;
    report->plan = *network.plan;
    report->task = network.plan->task;
    report->height = network.height;
    report->width = network.width;
    if (report->task == STOKE_TASK_RESTORE) return open_restored(set, data);
    if (data->classes && data->classes != classes && data->classes != network.classes)
        return stk_fail(err, STOKE_E_INVALID,
                        "the network has %lld classes, and the data is said to have %lld (classes): name the "
                        "network that was trained on it, or map its labels with label_map",
                        (long long)classes, (long long)data->classes);
    set->data = plain(data, &network);
    set->data.augment = normalization(set->predictor, set->normalization);
    stoke_net_ignore(set->predictor->net, data->ignore_index);
    report->classes = (uint32_t)set->data.classes;
    r = stoke_dataset_open(&set->dataset, &set->data, err);
    if (!r && !stoke_dataset_has_masks(set->dataset))
        r = stk_fail(
            err, STOKE_E_INVALID,
            "%s has no masks to compare with: `stoke predict` makes masks for pictures that have none",
            data->data     ? data->data
            : data->images ? data->images
                           : data->list);
    if (!r) r = settle_mode(set);
    if (!r) r = stoke_data_labels(&set->labels, &set->data, err);
    if (!r) r = copy_names(set);
    if (!r) r = stoke_confusion_create(&report->confusion, network.classes, data->ignore_index, err);
    return r;
}

static uint64_t of_pictures(const evaluation_set *set)
{
    stoke_memory_sum sum = { 0 };
    if (!set->original) return stk_loader_plan_workers(&set->plan);
    stk_predict_add_memory(&sum, &set->work, &set->plan.probe);
    return stoke_memory_total(&sum);
}

static void add_up(const evaluation_set *set, uint64_t process)
{
    const stoke_predictor *p = set->predictor;
    stoke_memory_sum *sum = &set->report->memory;
    const uint64_t pixels = set->original ? STK_EVAL_SIDE * STK_EVAL_SIDE : p->height * p->width,
                   page = stk_comparison_bytes(STK_WORST, set->report->classes), gone = of_pictures(set);
    *sum = (stoke_memory_sum){ .limit_bytes = set->limit };
    stk_net_add_memory(sum, &set->report->plan);
    if (set->original) {
        stk_predict_add_memory(sum, &set->work, &set->plan.probe);
    } else {
        stoke_memory_add_loader(sum, &set->plan.shown);
        stoke_memory_add(sum, "classes", 1, (uint64_t)p->batch * p->height * p->width * (2 + 12));
    }
    /* The worst pictures are kept with both masks, and drawn when what reads pictures has gone. */
    if (set->params->picture)
        stoke_memory_add(sum, "the worst", 1, STK_WORST * pixels * 7 + (page > gone ? page - gone : 0));
    stoke_memory_add(sum, "process", 1, process);
}

/* Makes what pictures take fit into so many bytes; 0: they do not, and take the least now. */
static int squeeze(evaluation_set *set, uint64_t bytes)
{
    if (set->original) return stk_predict_squeeze(&set->work, &set->plan.probe, bytes);
    if (stk_loader_plan_squeeze(&set->plan, bytes)) return 1;
    stk_loader_plan_squeeze(&set->plan, stk_loader_plan_least(&set->plan));
    return 0;
}

static int plan_restored(evaluation_set *set)
{
    const stoke_eval_params *params = set->params;
    stoke_memory_sum *sum = &set->report->memory;
    const uint64_t kept = (uint64_t)STK_WORST * STK_EVAL_PART * STK_EVAL_PART * 9;
    *sum = (stoke_memory_sum){ .limit_bytes = set->data.memory_limit };
    stk_net_add_memory(sum, &set->report->plan);
    stoke_memory_add(sum, "whole pictures", 1, set->whole);
    if (params->picture) stoke_memory_add(sum, "the worst", 1, kept + stk_comparison_bytes(STK_WORST, 0));
    stoke_memory_add(sum, "process", 1, stk_process_beside(&set->report->plan));
    if (sum->limit_bytes && stoke_memory_total(sum) > sum->limit_bytes)
        return stk_memory_refuse(sum, "the evaluation needs", "lower size (of a tile)", set->err);
    if (params->planned) params->planned(params->planned_context, sum);
    return STOKE_OK;
}

/* Before the first picture is read. */
static int plan_memory(evaluation_set *set)
{
    const stoke_eval_params *params = set->params;
    const stoke_memory_sum *sum = &set->report->memory;
    if (set->report->task == STOKE_TASK_RESTORE) return plan_restored(set);
    set->limit = set->data.memory_limit;
    set->data.memory_limit = 0; /* of the whole, and not of the loader */
    const int r = stk_loader_plan_of(&set->plan, set->dataset, &set->data, set->err);
    if (r) return r;
    if (set->original) {
        stoke_predict_job job = stoke_predict_job_defaults();
        job.count = stoke_dataset_count(set->dataset);
        job.images = params->picture != NULL;
        job.labels = set->labels;
        set->work = stk_predict_work_of(set->predictor, &job);
        stk_predict_settle(&set->work, &set->plan.probe);
    }
    const uint64_t process = stk_process_beside(&set->report->plan);
    add_up(set, process);
    while (set->limit && stoke_memory_total(sum) > set->limit) {
        if (!set->original && set->plan.shown.slots > 2) {
            set->plan.shown.slots--;
        } else {
            const uint64_t others = stoke_memory_total(sum) - of_pictures(set);
            if (!squeeze(set, set->limit > others ? set->limit - others : 0)) {
                add_up(set, process);
                return stk_memory_refuse(sum, "the evaluation needs", "lower batch or workers", set->err);
            }
        }
        add_up(set, process);
    }
    if (params->planned) params->planned(params->planned_context, sum);
    return STOKE_OK;
}

int stoke_evaluate_set(const stoke_data_params *data, const stoke_eval_params *params,
                       stoke_progress_fn progress, void *context, stoke_eval_report *report, stoke_error *err)
{
    evaluation_set set = {
        .params = params, .report = report, .progress = progress, .context = context, .err = err
    };
    stk_evaluate_result e = { 0 };
    *report = (stoke_eval_report){ .loss = NAN };
    int r = open_set(&set, data);
    if (!r) r = plan_memory(&set);
    if (!r) r = run_pass(&set, report->confusion, NULL, &e);
    if (!r) r = take(&e, report, err);
    if (!r && params->picture) r = draw_worst(&set, &e);
    stoke_labels_destroy(&set.labels);
    stoke_dataset_close(&set.dataset);
    stoke_predictor_close(&set.predictor);
    return r;
}
