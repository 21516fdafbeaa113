/* SPDX-License-Identifier: Apache-2.0 */
#include "src/train/train_memory.h"

#include "src/base/machine.h"
#include "src/base/mem.h"
#include "src/loader/memory_plan.h"
#include "src/loader/slots.h"
#include "src/net/ops/ops.h"
#include "src/report/grid.h"
#include "src/source/reader.h"
#include "src/train/eval_share.h"
#include "src/train/lanes.h"
#include "src/train/predict.h"
#include <stoke/tools/labels.h>
#include <stoke/tools/machine.h>
#include <stoke/tools/predict.h>

/* ---- of a prediction ---- */

enum {
    MOST_HELPERS = 16,
    WRITING = 1 << 20, /* what a helper takes to compress a mask: 0.4-0.8 MB */
    KEPT = 4 << 20     /* buffers of a reader that are worth keeping: larger ones cost less than decoding */
};

/* Threads of a job that wants `helpers` (0: chosen). */
static uint32_t predict_helpers(uint32_t helpers)
{
    const uint32_t wanted = helpers ? helpers : stoke_machine_cores().usable;
    return wanted < MOST_HELPERS ? wanted : MOST_HELPERS;
}

uint32_t stk_predict_slots(const stk_predict_work *w)
{
    return (uint32_t)stk_least(w->helpers + 2 * (w->batch / w->views), stk_most(w->files, 1));
}

uint64_t stk_predict_kept(const stk_predict_work *w)
{
    return stk_least(KEPT, w->memory / 8 / w->helpers);
}

uint64_t stk_predict_reading(const stk_scratch_bytes *need)
{
    static const stk_scratch_part parts[] = { STK_ROW_PART_IMAGE,         STK_ROW_PART_IMAGE_TURNED,
                                              STK_ROW_PART_IMAGE_SCRATCH, STK_ROW_PART_FITTED,
                                              STK_ROW_PART_ACROSS,        STK_ROW_PART_DOWN,
                                              STK_ROW_PART_LAID };
    uint64_t bytes = need->part[STK_ROW_PART_IMAGE_FILE] / 3;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) bytes += need->part[parts[i]];
    return bytes;
}

stk_predict_booking stk_predict_book(const stk_predict_work *w, uint64_t pixels, int whole,
                                     const stk_scratch_bytes *need)
{
    const uint64_t depth = w->restores        ? 3 * (uint64_t)w->restores->scale * w->restores->scale
                           : w->classes > 256 ? 2
                                              : 1;
    return (stk_predict_booking){
        .slot = pixels * (depth + w->ids + w->own_bytes) + (whole ? need->part[STK_ROW_PART_IMAGE] : 0),
        .reading = stk_most(stk_predict_reading(need), pixels * (w->values + w->ids)),
    };
}

/* Rows of a pass, the band of a picture that windows slide over, classes of one that was resized. */
static uint64_t of_predictor(const stk_predict_work *w, const stk_probe *probe, uint64_t pixels)
{
    const uint64_t window = (uint64_t)w->height * w->width;
    const uint64_t stride = stk_logits_stride(w->classes) * sizeof(float);
    uint64_t bytes = w->batch * window * 3 * sizeof(float) + window * 8;
    if (w->restores) {
        const uint32_t tile[2] = { w->height, w->width };
        return bytes + stk_restore_bytes(w->restores, tile, probe->longest_side, probe->longest_side, NULL);
    }
    if (w->mode != STOKE_PREDICT_RESIZE) {
        const stk_predict_windows across =
            stk_windows_of(probe->longest_side, w->width, w->raster, w->overlap);
        bytes += stk_slide_band(&across, w->height, w->classes);
    }
    const uint64_t grid = window / w->raster.stride / w->raster.stride;
    if (w->mode != STOKE_PREDICT_SLIDE)
        bytes += pixels * sizeof(uint16_t) + (w->views > 1 ? grid * stride : 0);
    return bytes + probe->longest_side * UINT64_C(64);
}

static stk_predict_booking largest(const stk_predict_work *w, const stk_probe *probe)
{
    const uint64_t pixels = (uint64_t)probe->largest_width * probe->largest_height;
    return stk_predict_book(w, pixels, w->images || w->mode != STOKE_PREDICT_RESIZE, &probe->any);
}

void stk_predict_settle(stk_predict_work *w, const stk_probe *probe)
{
    enum { WAITING = 32 << 20 };
    const stk_predict_booking one = largest(w, probe);
    w->memory = stk_least(w->memory, stk_most(WAITING, w->helpers * (one.slot + one.reading)));
}

void stk_predict_add_memory(stoke_memory_sum *sum, const stk_predict_work *w, const stk_probe *probe)
{
    const uint64_t pixels = (uint64_t)probe->largest_width * probe->largest_height;
    const stk_predict_booking one = largest(w, probe);
    const uint64_t slots = stk_predict_slots(w), readers = stk_least(w->helpers, slots);
    /* All slots full and all helpers reading, `memory`, or one picture that is more than that. */
    stoke_memory_add(
        sum, "pictures on their way", 1,
        stk_most(one.slot + one.reading, stk_least(w->memory, slots * one.slot + readers * one.reading)));
    if (!w->restores)
        stoke_memory_add(sum, "pictures for the network", slots, (uint64_t)w->height * w->width * 6);
    /* A file is read before its picture is let on its way, and the mask's beside that. */
    const uint64_t files = (probe->most.part[STK_ROW_PART_IMAGE_FILE] +
                            (w->ids ? probe->most.part[STK_ROW_PART_MASK_FILE] : 0)) /
                           6;
    const uint64_t keeps = stk_least(stk_predict_reading(&probe->most), stk_predict_kept(w));
    stoke_memory_add(sum, "helpers", w->helpers, keeps + files + STK_THREAD_BYTES + WRITING);
    stoke_memory_add(sum, w->restores ? "tiles" : "windows and classes", 1, of_predictor(w, probe, pixels));
}

static uint64_t all_of(const stk_predict_work *w, const stk_probe *probe)
{
    stoke_memory_sum sum = { 0 };
    stk_predict_add_memory(&sum, w, probe);
    return stoke_memory_total(&sum);
}

int stk_predict_squeeze(stk_predict_work *w, const stk_probe *probe, uint64_t bytes)
{
    enum { ALONE = 1 }; /* one picture is let through, and no other beside it */
    const stk_predict_booking one = largest(w, probe);
    const uint64_t before = w->memory;
    if (all_of(w, probe) <= bytes) return 1;
    for (;; w->helpers = 1) {
        w->memory = ALONE;
        const uint64_t now = all_of(w, probe);
        if (now <= bytes) {
            /* Helpers keep an eighth of it. */
            w->memory = stk_least(before, (one.slot + one.reading + bytes - now) / 9 * 8);
            if (all_of(w, probe) > bytes) w->memory = ALONE;
            return 1;
        }
        if (w->helpers == 1) return 0;
    }
}

/* Masks of such labels are read too. */
static void predict_work_read(stk_predict_work *w, const stoke_labels *labels)
{
    w->ids = stoke_labels_depth(labels);
    w->values = 2 * (stoke_labels_are_colors(labels) ? 3 : 1); /* 16 bits at worst */
}

stk_predict_work stk_predict_work_of(const stoke_predictor *p, const stoke_predict_job *job)
{
    stk_predict_work work = { .height = p->height,
                              .width = p->width,
                              .classes = p->classes,
                              .raster = p->raster,
                              .restores = p->restores ? stoke_net_plan_used(p->net) : NULL,
                              .batch = p->batch,
                              .views = stk_predict_views(p),
                              .mode = p->restores ? STOKE_PREDICT_SLIDE : p->params.mode,
                              .overlap = p->params.overlap,
                              .files = job->count,
                              .helpers = predict_helpers(job->helpers),
                              .memory = job->memory,
                              .images = job->images,
                              .own_bytes = job->own_bytes };
    if (job->labels) predict_work_read(&work, job->labels);
    return work;
}

int stoke_predict_memory(const stoke_predictor *p, stoke_predict_job *job, uint64_t limit,
                         stoke_memory_sum *sum, stoke_error *err)
{
    stk_probe probe;
    stk_loader_config pictures;
    int r = stk_pictures_config(&pictures, job->data, p->height, p->width, err);
    if (!r) r = stk_probe_files(&probe, &pictures, job->files, job->count, err);
    stk_loader_config_destroy(&pictures);
    if (r) return r;
    const stoke_net_plan *net = stoke_net_plan_used(p->net);
    stk_predict_work work = stk_predict_work_of(p, job);
    stk_predict_settle(&work, &probe);
    stoke_memory_sum others = { 0 };
    stk_net_add_memory(&others, net);
    const uint64_t process = stk_process_beside(net), taken = stoke_memory_total(&others) + process;
    const int fits = !limit || stk_predict_squeeze(&work, &probe, limit > taken ? limit - taken : 0);
    *sum = others;
    sum->limit_bytes = limit;
    stk_predict_add_memory(sum, &work, &probe);
    stoke_memory_add(sum, "process", 1, process);
    if (!fits)
        return stk_memory_refuse(sum, "even for one picture at a time predicting needs",
                                 "lower batch or size, or leave out the largest pictures", err);
    job->memory = work.memory;
    job->helpers = work.helpers;
    return STOKE_OK;
}

/* ---- of a training ---- */

/* Workers of the loader stand in the way of the step, which takes every core. The lightest model takes some
 * 80 ms of core time for a picture of 256x256, decoding and augmenting one about 3: a quarter of the cores is
 * ample for training, and half of them for evaluation, which is three times as fast. Who set either number
 * is obeyed. */
stoke_data_params stk_part_data(const stk_setup *setup, int val)
{
    stoke_data_params own = val ? setup->val : setup->train;
    const unsigned cores = stoke_machine_cores().usable;
    if (own.workers < 0 && own.consumer_cores < 0) own.workers = (int64_t)stk_most(cores / (val ? 2 : 4), 1);
    own.memory_limit = 0; /* of the run as a whole */
    return own;
}

/* Where windows slide over the pictures there is no loader. */
static int loads_val(const stk_setup *setup)
{
    return setup->val_set && setup->eval.mode == STOKE_PREDICT_RESIZE;
}

void stk_net_add_memory(stoke_memory_sum *sum, const stoke_net_plan *net)
{
    stoke_memory_add(sum, "parameters", 1, net->parameters);
    stoke_memory_add(sum, "packed", 1, net->packed);
    stoke_memory_add(sum, "activations", 1, net->activations);
    stoke_memory_add(sum, "workspace", 1, net->workspace);
}

uint64_t stk_process_beside(const stoke_net_plan *net)
{
    /* Loading has touched these two regions; the others may be touched or not. */
    const uint64_t loaded = net->parameters + net->packed, now = stk_machine_rss("/proc");
    const uint64_t beside = now > loaded ? now - loaded : 0;
    return (beside > net->process ? beside : net->process) + STK_CODE_BYTES + STK_RUN_BYTES +
           net->threads * STK_THREAD_BYTES;
}

/* Windows over the pictures as they are, by the network of the run. */
static int plan_slide(stk_train_memory *m, const stk_setup *setup, const stoke_data_params *val,
                      stoke_error *err)
{
    stk_loader_plan plan;
    stoke_labels *labels = NULL;
    int r = stk_loader_plan_of(&plan, setup->val_set, val, err);
    if (!r) r = stk_labels_of(&labels, val, err);
    if (r) return r;
    m->slides = 1;
    m->seen = plan.probe;
    m->slide = (stk_predict_work){ .height = setup->net.height,
                                   .width = setup->net.width,
                                   .classes = setup->classes,
                                   .raster = stk_predict_raster_of(&m->net),
                                   .batch = setup->net.batch,
                                   .views = 1,
                                   .mode = STOKE_PREDICT_SLIDE,
                                   .overlap = stoke_predict_defaults().overlap,
                                   .files = stoke_dataset_count(setup->val_set),
                                   .helpers = predict_helpers(0),
                                   .memory = STK_EVAL_MEMORY,
                                   .images = 1 };
    predict_work_read(&m->slide, labels);
    stk_predict_settle(&m->slide, &m->seen);
    stoke_labels_destroy(&labels);
    return STOKE_OK;
}

/* Pictures that are restored whole, one at a time, by a network of their own. */
static int plan_whole(stk_train_memory *m, const stk_setup *setup, stoke_error *err)
{
    stoke_net_plan plan;
    const int r = stoke_net_plan_of(&setup->viewer, &plan, err);
    if (r) return r;
    m->viewer = plan.total - plan.process + plan.threads * STK_THREAD_BYTES;
    m->whole = stk_whole_bytes(&setup->eval, setup->viewer.scale, 0) +
               stk_restore_bytes(&plan, (uint32_t[]){ setup->viewer.height, setup->viewer.width },
                                 setup->eval.width, setup->eval.height, NULL);
    return STOKE_OK;
}

static void add_up(stk_train_memory *m, const stk_setup *setup, uint64_t pictures, uint64_t process)
{
    const stoke_memory_plan *train = &m->train.shown, *val = &m->val.shown;
    const stoke_memory_plan *busy =
        stk_loader_plan_workers(&m->train) >= stk_loader_plan_workers(&m->val) ? train : val;
    stoke_memory_sum *sum = &m->sum;
    *sum = (stoke_memory_sum){ .limit_bytes = setup->train.memory_limit };
    stk_net_add_memory(sum, &m->net);
    if (m->lanes) stoke_memory_add(sum, "sums of lanes", 1, m->lanes);
    stoke_memory_add(sum, "training ring", train->slots, train->slot_bytes);
    stoke_memory_add(sum, "validation ring", val->slots, val->slot_bytes);
    stoke_memory_add(sum, "workers", busy->workers, busy->worker_bytes);
    stoke_memory_add(sum, "one large picture", 1, busy->large_bytes);
    if (m->slides) stk_predict_add_memory(sum, &m->slide, &m->seen);
    if (m->viewer) stoke_memory_add(sum, "validation network", 1, m->viewer);
    if (m->viewer) stoke_memory_add(sum, "whole pictures", 1, m->whole);
    stoke_memory_add(sum, "cache", 1, train->cache_bytes + val->cache_bytes);
    stoke_memory_add(sum, "pictures", 1, pictures);
    stoke_memory_add(sum, "process", 1, process);
}

/* Batches that a step holds besides the one that every step does. */
static uint32_t held_beside(const stk_setup *setup)
{
    return setup->net.joint ? setup->net.joint - 1 : 0;
}

/* A slot less of whoever has more of them. */
static int lower_prefetch(stk_train_memory *m, uint32_t beside)
{
    stoke_memory_plan *train = &m->train.shown, *val = &m->val.shown;
    stoke_memory_plan *more = train->slots - beside >= val->slots ? train : val;
    if (more->slots - (more == train ? beside : 0) <= 2) return 0;
    more->slots--;
    return m->prefetch_reduced = 1;
}

/* Validation by windows with fewer pictures on their way; 0 when they are as few as can be. */
static int squeeze_slide(stk_train_memory *m)
{
    const stk_predict_work before = m->slide;
    stoke_memory_sum own = { 0 };
    if (!m->slides) return 0;
    stk_predict_add_memory(&own, &m->slide, &m->seen);
    const uint64_t others = stoke_memory_total(&m->sum) - stoke_memory_total(&own),
                   limit = m->sum.limit_bytes;
    stk_predict_squeeze(&m->slide, &m->seen, limit > others ? limit - others : 0);
    return m->slide.memory != before.memory || m->slide.helpers != before.helpers;
}

static int fit(stk_train_memory *m, const stk_setup *setup, uint64_t pictures, uint64_t process,
               stoke_error *err)
{
    const uint64_t limit = m->sum.limit_bytes;
    while (stoke_memory_total(&m->sum) > limit) {
        const uint64_t others = stoke_memory_total(&m->sum) - stk_most(stk_loader_plan_workers(&m->train),
                                                                       stk_loader_plan_workers(&m->val));
        if (!lower_prefetch(m, held_beside(setup)) && !squeeze_slide(m) &&
            (others >= limit || !stk_loader_plan_squeeze(&m->train, limit - others) ||
             !stk_loader_plan_squeeze(&m->val, limit - others))) {
            /* Refused with the least that would do. */
            stk_loader_plan_squeeze(&m->train, stk_loader_plan_least(&m->train));
            stk_loader_plan_squeeze(&m->val, stk_loader_plan_least(&m->val));
            add_up(m, setup, pictures, process);
            return stk_memory_refuse(&m->sum, "with prefetch 1 the run needs",
                                     setup->net.joint > 1
                                         ? "start more processes, each of which then has fewer lanes on "
                                           "their way, lower batch, size, workers or model, set memory to "
                                           "lean or min, or batch_norm to local"
                                         : "lower batch, size, workers or model, or set memory to lean or "
                                           "min",
                                     err);
        }
        add_up(m, setup, pictures, process);
    }
    /* A picture larger than those that were looked at may take what is left. */
    m->train.shown.limit_bytes = m->val.shown.limit_bytes = limit;
    m->train.shown.total_bytes = m->val.shown.total_bytes = stoke_memory_total(&m->sum);
    return STOKE_OK;
}

/* Pictures that are kept, each a sample with truth and prediction; drawn, then read again and turned into a
 * JPEG for the report: the file, the pixels, what inflates them. */
static uint64_t drawn_bytes(const stk_train_memory *m, const stk_setup *setup, uint64_t pictures)
{
    const int restores = stk_setup_restores(setup);
    const uint32_t height = restores    ? STK_EVAL_PART
                            : m->slides ? STK_EVAL_SIDE
                                        : setup->net.height,
                   width = restores    ? STK_EVAL_PART
                           : m->slides ? STK_EVAL_SIDE
                                       : setup->net.width;
    if (!pictures) return 0;
    return pictures * height * width * (restores ? 9 : 7) +
           3 * stk_comparison_bytes(pictures, setup->classes);
}

/* The classes of a batch, as they are predicted; or one restored picture, and lines of two for their SSIM. */
static uint64_t predicted_bytes(const stk_setup *setup)
{
    const uint64_t pixels = (uint64_t)setup->net.height * setup->net.width,
                   scale = setup->net.scale ? setup->net.scale : 1;
    if (!setup->val_set || setup->viewer.batch) return 0;
    if (!stk_setup_restores(setup)) return (uint64_t)setup->val.batch * pixels * 2;
    return scale * scale * pixels * 3 * sizeof(float) + 2 * 416 * scale * setup->net.width;
}

/* What batches or pictures gave, until it is added up; and counts that come from other ranks. */
static uint64_t results_bytes(const stk_train_memory *m, const stk_setup *setup)
{
    if (!setup->val_set) return 0;
    const int restores = stk_setup_restores(setup);
    const uint64_t samples = stoke_dataset_count(setup->val_set), batch = (uint64_t)setup->val.batch;
    const uint64_t parts = restores || m->slides ? samples : (samples + batch - 1) / batch;
    return stk_eval_sums_bytes(parts, restores, setup->classes, setup->world ? setup->world : 1);
}

int stk_train_memory_make(stk_train_memory *m, const stk_setup *setup, uint32_t pictures, stoke_error *err)
{
    const stoke_data_params train = stk_part_data(setup, 0), val = stk_part_data(setup, 1);
    *m = (stk_train_memory){ 0 };
    int r = stoke_net_plan_of(&setup->net, &m->net, err);
    if (!r) r = stk_loader_plan_of(&m->train, setup->train_set, &train, err);
    if (!r && loads_val(setup)) r = stk_loader_plan_of(&m->val, setup->val_set, &val, err);
    if (r) return r;
    m->train.shown.slots += held_beside(setup);
    const stk_lanes_shape shape = stk_lanes_shape_of(setup, &m->net);
    m->lanes = shape.replicas > 1 ? stk_lanes_bytes(&shape) : 0;
    m->val.rests = 1;
    if (setup->val_set && !loads_val(setup))
        r = stk_setup_restores(setup) ? plan_whole(m, setup, err) : plan_slide(m, setup, &val, err);
    if (r) return r;
    const uint64_t drawn = drawn_bytes(m, setup, pictures),
                   predicted = predicted_bytes(setup) + results_bytes(m, setup);
    const uint64_t process =
        stk_machine_rss("/proc") + STK_CODE_BYTES + STK_RUN_BYTES + m->net.threads * STK_THREAD_BYTES;
    add_up(m, setup, drawn + predicted, process);
    return m->sum.limit_bytes ? fit(m, setup, drawn + predicted, process, err) : STOKE_OK;
}

static int loader_rows(const stoke_dataset *set, const stoke_data_params *params, uint32_t beside,
                       uint64_t *fixed, uint64_t *per_row, stoke_error *err)
{
    stoke_data_params own = *params;
    stk_loader_config config;
    stk_loader_plan plan;
    own.batch = 1;
    int r = stk_loader_config_create(&config, set, &own, err);
    if (!r) r = stk_loader_plan_make(&plan, &config, &own, err);
    if (!r) {
        unsigned extras;
        plan.shown.slots += beside;
        const stoke_batch two = stk_slot_shape(&config, 2, &extras);
        const uint64_t row = stk_slot_bytes(&two, extras) - plan.shown.slot_bytes;
        *per_row += plan.shown.slots * row;
        *fixed += plan.shown.slots * (plan.shown.slot_bytes - row) + stk_loader_plan_workers(&plan) +
                  plan.shown.cache_bytes;
    }
    stk_loader_config_destroy(&config);
    return r;
}

int stk_train_memory_rows(const stk_setup *setup, uint64_t *fixed, uint64_t *per_row, stoke_error *err)
{
    const stoke_data_params train = stk_part_data(setup, 0), val = stk_part_data(setup, 1);
    *fixed = *per_row = 0;
    int r = loader_rows(setup->train_set, &train, held_beside(setup), fixed, per_row, err);
    if (!r && loads_val(setup)) r = loader_rows(setup->val_set, &val, 0, fixed, per_row, err);
    return r;
}
