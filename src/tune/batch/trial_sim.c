/* SPDX-License-Identifier: Apache-2.0
 *
 * A trial on a simulated GPU: the estimate of PyTorch's memory, term by term, taken and given back by a
 * caching allocator through a few steps; times by a line. With the loader on, the real data path feeds the
 * simulated GPU, which shows how long it waits.
 * The line, where none is given, is the card's bandwidth.
 */
#include <math.h>
#include <string.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/device/sim.h"
#include "src/tune/advice/advice.h"
#include "src/tune/batch/batch.h"
#include <stoke/tools/device.h>
#include <stoke/tools/diagnose.h>
#include <stoke/tools/upload.h>

/* ---- blocks in a table, found by looking at all of them: there are a few hundred ---- */

#define KB UINT64_C(1024)
#define MB (1024 * KB)
static const uint64_t ROUND = 512, SMALL = MB, SMALL_SEGMENT = 2 * MB;
static const uint64_t LARGE = 10 * MB, LARGE_SEGMENT = 20 * MB, WHOLE = 2 * MB;

void stk_sim_allocator_begin(stk_sim_allocator *paper, uint64_t limit)
{
    *paper = (stk_sim_allocator){ .limit = limit };
}

static uint64_t up_to(uint64_t bytes, uint64_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

/* An unused line of the table. */
static int32_t new_block(stk_sim_allocator *p)
{
    for (int32_t i = 0; i < p->n; i++)
        if (!p->block[i].there) return i;
    return p->n < STK_SIM_ALLOCATOR_BLOCKS ? p->n++ : -1;
}

/* The smallest free one that is large enough. */
static int32_t best_free(const stk_sim_allocator *p, uint64_t bytes, int small)
{
    int32_t best = -1;
    for (int32_t i = 0; i < p->n; i++) {
        const stk_sim_allocator_block *b = &p->block[i];
        if (!b->there || b->used || b->small != small || b->bytes < bytes) continue;
        if (best < 0 || b->bytes < p->block[best].bytes) best = i;
    }
    return best;
}

/* Whole segments that nobody uses, back to the card. */
static void give_back(stk_sim_allocator *p)
{
    for (int32_t i = 0; i < p->n; i++) {
        stk_sim_allocator_block *b = &p->block[i];
        if (!b->there || b->used || b->before >= 0 || b->after >= 0) continue;
        b->there = 0;
        p->reserved -= b->bytes;
    }
}

static int32_t new_segment(stk_sim_allocator *p, uint64_t bytes, int small)
{
    const uint64_t size = small ? SMALL_SEGMENT : bytes < LARGE ? LARGE_SEGMENT : up_to(bytes, WHOLE);
    if (size > p->limit || p->reserved > p->limit - size) give_back(p);
    if (size > p->limit || p->reserved > p->limit - size) return -1;
    const int32_t i = new_block(p);
    if (i < 0) return -1;
    p->block[i] = (stk_sim_allocator_block){
        .bytes = size, .before = -1, .after = -1, .small = (uint8_t)small, .there = 1
    };
    p->reserved += size;
    if (p->reserved > p->peak_reserved) p->peak_reserved = p->reserved;
    return i;
}

/* What is left of a block becomes another, where it is worth it. */
static void split(stk_sim_allocator *p, int32_t i, uint64_t bytes)
{
    stk_sim_allocator_block *b = &p->block[i];
    const uint64_t left = b->bytes - bytes;
    if (b->small ? left < ROUND : left <= SMALL) return;
    const int32_t k = new_block(p);
    if (k < 0) return;
    p->block[k] = (stk_sim_allocator_block){
        .bytes = left, .before = i, .after = b->after, .small = b->small, .there = 1
    };
    if (b->after >= 0) p->block[b->after].before = k;
    b->after = k;
    b->bytes = bytes;
}

int32_t stk_sim_allocator_take(stk_sim_allocator *paper, uint64_t bytes)
{
    if (bytes > UINT64_MAX / 2) return -1;
    const uint64_t size = up_to(bytes ? bytes : 1, ROUND);
    const int small = size <= SMALL;
    int32_t i = best_free(paper, size, small);
    if (i < 0) i = new_segment(paper, size, small);
    if (i < 0) return -1;
    split(paper, i, size);
    paper->block[i].used = 1;
    paper->allocated += paper->block[i].bytes;
    if (paper->allocated > paper->peak_allocated) paper->peak_allocated = paper->allocated;
    return i;
}

/* Takes the block after `i` into it. */
static void join(stk_sim_allocator *p, int32_t i)
{
    stk_sim_allocator_block *b = &p->block[i], *next = &p->block[b->after];
    b->bytes += next->bytes;
    b->after = next->after;
    if (b->after >= 0) p->block[b->after].before = i;
    next->there = 0;
}

void stk_sim_allocator_give(stk_sim_allocator *paper, int32_t handle)
{
    if (handle < 0) return;
    stk_sim_allocator_block *b = &paper->block[handle];
    paper->allocated -= b->bytes;
    b->used = 0;
    if (b->after >= 0 && !paper->block[b->after].used) join(paper, handle);
    if (b->before >= 0 && !paper->block[b->before].used) join(paper, b->before);
}

/* The card's bandwidth: a network in eager mode reads and writes its maps more than it computes. It is
 * emulated, and its errors are those of a simulation: fit for the logic of a search and for comparing
 * models, not for a promise. */

/* A map is written and read by the forward pass, read twice by the backward one, its gradient written and
 * read: six times its bytes cross the memory, and about as much again for what is not kept. */
static const double PASSES = 12;
/* Kernels of a block's forward and backward pass, and of everything around the blocks. */
static const double BLOCK_KERNELS = 110, OTHER_KERNELS = 260;

int stk_sim_step_ms(double *ms, const stoke_estimate_params *params, const stoke_card *card, stoke_error *err)
{
    stoke_estimate_params p = *params;
    stoke_estimate one;
    p.batch = 1;
    const int r = stoke_estimate_make(&one, STOKE_ENGINE_TORCH, &p, err);
    if (r) return r;
    const double maps = (double)(one.bytes[STOKE_TERM_ACTIVATIONS] + one.bytes[STOKE_TERM_LOGITS]);
    const double state = (double)(one.bytes[STOKE_TERM_WEIGHTS] + one.bytes[STOKE_TERM_GRADIENTS] +
                                  one.bytes[STOKE_TERM_OPTIMIZER]);
    const double per_ms = card->memory_gb_s * 1e6;
    const double launches =
        (BLOCK_KERNELS * stk_estimate_blocks(&p) + OTHER_KERNELS) * card->launch_us / 1000;
    *ms = launches + 2 * state / per_ms + params->batch * PASSES * maps / per_ms;
    return STOKE_OK;
}

enum {
    TENSORS = 64,   /* of a term, at most */
    SETTLE = 4,     /* steps of the upload that are not counted, besides those ahead */
    LEAST_FED = 12, /* steps that are */
};

typedef struct tensors {
    int32_t handle[TENSORS];
    size_t n;
} tensors;

typedef struct paper_trial {
    stk_sim_allocator paper;
    stoke_estimate estimate;
} paper_trial;

/* Networks have large maps first and ever smaller ones: a term is cut into eighths of what is left. */
static int take_term(stk_sim_allocator *paper, uint64_t bytes, tensors *t)
{
    t->n = 0;
    while (bytes && t->n < TENSORS) {
        const uint64_t piece = t->n == TENSORS - 1 || bytes <= 4096 ? bytes : (bytes + 7) / 8;
        const int32_t handle = stk_sim_allocator_take(paper, piece);
        if (handle < 0) return STOKE_E_NOMEM;
        t->handle[t->n++] = handle;
        bytes -= piece;
    }
    return STOKE_OK;
}

static void give_term(stk_sim_allocator *paper, tensors *t)
{
    while (t->n) stk_sim_allocator_give(paper, t->handle[--t->n]);
}

/* One step: batch, forward, loss, backward, update. Gradients and the optimiser's state are made by the first
 * and stay. */
static int paper_step(paper_trial *p, int first)
{
    const uint64_t *bytes = p->estimate.bytes;
    tensors batch, maps, logits, work, kept;
    int r = take_term(&p->paper, bytes[STOKE_TERM_BATCHES], &batch);
    if (!r) r = take_term(&p->paper, bytes[STOKE_TERM_ACTIVATIONS], &maps);
    if (!r) r = take_term(&p->paper, bytes[STOKE_TERM_WORKSPACE], &work);
    if (!r) r = take_term(&p->paper, bytes[STOKE_TERM_LOGITS], &logits);
    if (!r && first) r = take_term(&p->paper, bytes[STOKE_TERM_GRADIENTS], &kept);
    if (r) return r; /* the paper is thrown away */
    give_term(&p->paper, &logits);
    give_term(&p->paper, &work);
    give_term(&p->paper, &maps);
    if (first) r = take_term(&p->paper, bytes[STOKE_TERM_OPTIMIZER], &kept);
    give_term(&p->paper, &batch);
    return r;
}

static int paper_memory(paper_trial *p, uint64_t memory, stoke_trial *trial, stoke_error *err)
{
    tensors kept;
    const uint64_t context = p->estimate.bytes[STOKE_TERM_CONTEXT];
    stk_sim_allocator_begin(&p->paper, memory > context ? memory - context : 0);
    int r = take_term(&p->paper, p->estimate.bytes[STOKE_TERM_WEIGHTS], &kept);
    if (!r) r = take_term(&p->paper, p->estimate.bytes[STOKE_TERM_EXTRA], &kept);
    for (int i = 0; !r && i < 3; i++) r = paper_step(p, !i);
    trial->allocated = p->paper.peak_allocated + context;
    /* What counts is the high end, by which `stoke estimate` tells what fits. */
    trial->reserved = p->paper.peak_reserved + context;
    if (trial->reserved < p->estimate.high) trial->reserved = p->estimate.high;
    if (!r && trial->reserved > memory) r = STOKE_E_NOMEM;
    return r ? stk_fail(err, r, "out of memory: the card has %.2f GiB, %.2f GiB would be taken (emulated)",
                        STK_GIB(memory), STK_GIB(trial->reserved))
             : STOKE_OK;
}

static stoke_estimate_params estimate_of(const stoke_trial_params *p, uint32_t batch)
{
    stoke_estimate_params e = stoke_estimate_defaults();
    e.model = p->train.model ? p->train.model : "b0";
    e.batch = batch;
    e.height = p->data.size[0];
    e.width = p->data.size[1];
    e.classes = p->classes;
    e.precision = p->train.precision;
    e.optimizer = p->train.optimizer;
    e.freeze_encoder = p->train.freeze_encoder;
    e.average = p->train.average > 0;
    e.task = p->task;
    e.base_channels = p->base_channels;
    e.num_blocks = p->num_blocks;
    e.scale = p->scale;
    return e;
}

/* ms of a step: what was given, or what the simulated GPU takes. */
static int step_ms(const stoke_trial_params *p, const stoke_card *card, uint32_t batch, double *ms,
                   stoke_error *err)
{
    const stoke_estimate_params e = estimate_of(p, batch);
    *ms = p->time0 + p->time1 * batch;
    return p->time0 > 0 || p->time1 > 0 ? STOKE_OK : stk_sim_step_ms(ms, &e, card, err);
}

/* ---- the loader on ---- */

static int feed_one(stoke_upload *upload, double ms, uint64_t *epoch, stoke_error *err)
{
    const stoke_device_batch *batch = NULL;
    int r = stoke_upload_next(upload, &batch);
    if (r == STOKE_E_END) {
        r = stoke_upload_set_epoch(upload, ++*epoch);
        if (!r) r = stoke_upload_next(upload, &batch);
    }
    if (r == STOKE_E_END) return stk_fail(err, STOKE_E_NOTFOUND, "the set has no batch");
    if (r) return stk_fail_again(err, r, stoke_upload_error(upload));
    r = stoke_fake_step(upload, ms, err);
    stoke_upload_release(upload, &batch);
    return r;
}

static int feed_steps(stoke_upload *upload, const stoke_trial_params *p, stoke_trial *trial, stoke_error *err)
{
    stoke_upload_stats stats;
    uint64_t epoch = 0;
    const uint32_t counted = p->steps > LEAST_FED ? p->steps : LEAST_FED, first = SETTLE + 2;
    int r = STOKE_OK;
    for (uint32_t i = 0; !r && i < first + counted; i++) {
        if (i == first) stoke_upload_mark(upload);
        r = feed_one(upload, trial->step_ms, &epoch, err);
    }
    if (!r) r = stoke_upload_finish(upload, err);
    if (!r) r = stoke_upload_measure(upload, &stats, err);
    if (r || !stats.elapsed_ns || !stats.steps) return r;
    trial->busy = fmin(1, (double)stats.busy_ns / (double)stats.elapsed_ns);
    trial->wait_ms = (1 - trial->busy) * (double)stats.elapsed_ns / 1e6 / (double)stats.steps;
    return STOKE_OK;
}

/* The set's own batches, pinned and by a second stream: what `stoke optimize` would have. */
static int feed_card(const stoke_trial_params *p, stoke_trial *trial, stoke_error *err)
{
    stoke_data_params data = p->data;
    stoke_upload_params params = stoke_upload_defaults();
    stoke_dataset *set = NULL;
    stoke_device *device = NULL;
    stoke_upload *upload = NULL;
    data.batch = trial->batch;
    data.quarantine = ""; /* nothing is written */
    params.step_ms = trial->step_ms;
    int r = stoke_dataset_open(&set, &data, err);
    if (!r) r = stoke_device_open(&device, p->device, NULL, err);
    if (!r) r = stoke_upload_create(&upload, set, &data, device, &params, err);
    if (!r) r = feed_steps(upload, p, trial, err);
    stoke_upload_destroy(&upload);
    stoke_device_close(&device);
    stoke_dataset_close(&set);
    return r;
}

int stk_trial_sim(stoke_trial *trial, const stoke_trial_params *params, stoke_error *err)
{
    stoke_card card;
    uint32_t units;
    const char *name = stoke_device_simulated(params->device);
    int r = stk_sim_gpu_find(name, &card, &units, err);
    if (r) return r;
    paper_trial *p = stk_alloc(sizeof *p);
    if (!p) return stk_fail(err, STOKE_E_STATE, "no host memory for a simulated GPU");
    const uint64_t memory = params->memory ? params->memory : (uint64_t)(card.memory_gb * 1073741824.0);
    const stoke_estimate_params asked = estimate_of(params, trial->batch);
    r = stoke_estimate_make(&p->estimate, STOKE_ENGINE_TORCH, &asked, err);
    if (!r) r = paper_memory(p, memory, trial, err);
    if (!r) r = step_ms(params, &card, trial->batch, &trial->step_ms, err);
    trial->step_low = trial->step_high = trial->step_ms;
    if (!r && params->with_loader && stk_trial_has_data(params)) r = feed_card(params, trial, err);
    stk_free(p);
    return r;
}
