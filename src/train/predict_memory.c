/* SPDX-License-Identifier: Apache-2.0 */
#include "src/train/predict.h"

#include <stoke/tools/machine.h>
#include <stoke/tools/labels.h>
#include <stoke/tools/predict.h>

#include "src/base/mem.h"
#include "src/loader/memory_plan.h"
#include "src/net/net.h"
#include "src/train/train_memory.h"

enum {
    MOST_HELPERS = 16,
    WRITING = 1 << 20, /* what a helper takes to compress a mask: 0.4-0.8 MB */
    KEPT = 4 << 20     /* buffers of a reader that are worth keeping: larger ones cost less than decoding */
};

uint32_t stk_predict_helpers(uint32_t helpers)
{
    const uint32_t wanted = helpers ? helpers : stoke_machine_cores().usable;
    return wanted < MOST_HELPERS ? wanted : MOST_HELPERS;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

uint32_t stk_predict_slots(const stk_predict_work *w)
{
    return (uint32_t)least(w->helpers + 2 * (w->batch / w->views), most(w->files, 1));
}

uint64_t stk_predict_kept(const stk_predict_work *w)
{
    return least(KEPT, w->memory / 8 / w->helpers);
}

/* Of what a worker of a loader would need: a picture is decoded whole, so its file comes twice at most. */
static uint64_t of_image(const stk_scratch_bytes *need)
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
    const uint64_t depth = w->classes > 256 ? 2 : 1;
    return (stk_predict_booking){
        .slot = pixels * (depth + w->ids + w->own_bytes) + (whole ? need->part[STK_ROW_PART_IMAGE] : 0),
        .reading = most(of_image(need), pixels * (w->values + w->ids)),
    };
}

/* Rows of a pass, the band of a picture that windows slide over, classes of one that was resized. */
static uint64_t of_predictor(const stk_predict_work *w, const stk_probe *probe, uint64_t pixels)
{
    const uint64_t window = (uint64_t)w->height * w->width;
    const uint64_t stride = stk_logits_stride(w->classes) * sizeof(float);
    uint64_t bytes = w->batch * window * 3 * sizeof(float) + window * 8;
    if (w->mode != STOKE_PREDICT_RESIZE) {
        const stk_predict_windows across = stk_windows_of(probe->longest_side, w->width, w->overlap);
        const uint64_t lines = w->height / STK_GRID + 1;
        bytes +=
            lines * (across.length / STK_GRID) * stride + lines * STK_GRID * across.length * sizeof(uint16_t);
    }
    if (w->mode != STOKE_PREDICT_SLIDE)
        bytes += pixels * sizeof(uint16_t) + (w->views > 1 ? window / STK_GRID / STK_GRID * stride : 0);
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
    w->memory = least(w->memory, most(WAITING, w->helpers * (one.slot + one.reading)));
}

/* All slots full and all helpers reading, `memory`, or one picture that is more than that. */
static uint64_t on_their_way(const stk_predict_work *w, const stk_probe *probe)
{
    const stk_predict_booking one = largest(w, probe);
    const uint64_t slots = stk_predict_slots(w), readers = least(w->helpers, slots);
    return most(one.slot + one.reading, least(w->memory, slots * one.slot + readers * one.reading));
}

void stk_predict_add_memory(stoke_memory_sum *sum, const stk_predict_work *w, const stk_probe *probe)
{
    const uint64_t pixels = (uint64_t)probe->largest_width * probe->largest_height;
    stoke_memory_add(sum, "pictures on their way", 1, on_their_way(w, probe));
    stoke_memory_add(sum, "pictures for the network", stk_predict_slots(w),
                     (uint64_t)w->height * w->width * 6);
    /* A file is read before its picture is let on its way, and the mask's beside that. */
    const uint64_t files = (probe->most.part[STK_ROW_PART_IMAGE_FILE] +
                            (w->ids ? probe->most.part[STK_ROW_PART_MASK_FILE] : 0)) /
                           6;
    const uint64_t keeps = least(of_image(&probe->most), stk_predict_kept(w));
    stoke_memory_add(sum, "helpers", w->helpers, keeps + files + STK_THREAD_BYTES + WRITING);
    stoke_memory_add(sum, "windows and classes", 1, of_predictor(w, probe, pixels));
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
            w->memory = least(before, (one.slot + one.reading + bytes - now) / 9 * 8);
            if (all_of(w, probe) > bytes) w->memory = ALONE;
            return 1;
        }
        if (w->helpers == 1) return 0;
    }
}

void stk_predict_work_read(stk_predict_work *w, const stoke_labels *labels)
{
    w->ids = stoke_labels_depth(labels);
    w->values = 2 * (stoke_labels_are_colors(labels) ? 3 : 1); /* 16 bits at worst */
}

stk_predict_work stk_predict_work_of(const stoke_predictor *p, const stoke_predict_job *job)
{
    stk_predict_work work = { .height = p->height,
                              .width = p->width,
                              .classes = p->classes,
                              .batch = p->batch,
                              .views = stk_predict_views(p),
                              .mode = p->params.mode,
                              .overlap = p->params.overlap,
                              .files = job->count,
                              .helpers = stk_predict_helpers(job->helpers),
                              .memory = job->memory,
                              .images = job->images,
                              .own_bytes = job->own_bytes };
    if (job->labels) stk_predict_work_read(&work, job->labels);
    return work;
}

static int probe_job(stk_probe *probe, const stoke_predictor *p, const stoke_predict_job *job,
                     stoke_error *err)
{
    stk_pictures *pictures;
    int r = stk_pictures_open(&pictures, job->data, p->height, p->width, err);
    if (!r) r = stk_probe_files(probe, stk_pictures_config(pictures), job->files, job->count, err);
    stk_pictures_close(&pictures);
    return r;
}

int stoke_predict_memory(const stoke_predictor *p, stoke_predict_job *job, uint64_t limit,
                         stoke_memory_sum *sum, stoke_error *err)
{
    stk_probe probe;
    const int r = probe_job(&probe, p, job, err);
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
