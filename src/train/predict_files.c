/* SPDX-License-Identifier: Apache-2.0
 *
 * Many files. Helpers read, decode and fit pictures and hand over masks; the calling thread drives the
 * network. A picture goes through a slot:
 *
 *   free ──helper──► reading ──► ready ──caller──► predicting ──► predicted ──helper──► handing over ──► free
 *
 * A helper hands over before it reads, since that frees a slot. Resized pictures that are ready at the same
 * time share a pass of the network; nobody waits for a pass to be full.
 */
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <stoke/tools/image.h>
#include <stoke/tools/predict.h>

#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/base/retry.h"
#include "src/source/reader.h"
#include "src/train/predict.h"

enum {
    MOST_HELPERS = 16, /* stk_predict_helpers gives no more */
    STEP_BACK = 10,    /* nice: the network's team waits for its slowest thread, a helper for nobody */
    LOOK_NS = 50000000 /* how often progress is asked while there is nothing to predict: 20 times a second */
};

typedef enum slot_state { FREE, READING, READY, PREDICTING, PREDICTED, LEAVING } slot_state;

typedef struct slot {
    slot_state state;
    uint64_t index; /* of the file */
    int status;
    stoke_error error;
    int mode;
    stk_mem_buffer pixels, small, ids, truths;
    stoke_image image, fitted, mask, truth; /* data NULL: there is none; mask: or the picture restored */
    stoke_prediction about;
    uint64_t bytes;     /* booked against the limit */
    int turned;         /* stk_picture_turned */
    uint32_t low, high; /* values of a 16-bit picture */
} slot;

typedef struct work {
    stoke_predictor *predictor;
    const stoke_predict_job *job;
    stk_loader_config pictures;
    stk_predict_work plan;
    uint32_t n_slots, n_helpers;
    slot *slots;
    pthread_t threads[MOST_HELPERS];
    const stoke_sample *sliding; /* the file whose windows are counted; the caller's */
    pthread_mutex_t lock;        /* of the states of slots and everything below */
    pthread_cond_t changed;
    uint64_t next, done; /* files taken; files handed over */
    uint64_t bytes;      /* of pictures on their way */
    int stopping;
    int status;
    stoke_error *err;
    stoke_predict_report *report;
} work;

/* ---- helpers ---- */

/* The first failure wins; all others stop at their next file. With the lock. */
static void stop(work *w, int status, const stoke_error *error)
{
    if (!w->status) {
        w->status = status;
        if (w->err) *w->err = *error;
    }
    w->stopping = 1;
    pthread_cond_broadcast(&w->changed);
}

static slot *find(work *w, slot_state state)
{
    for (uint32_t i = 0; i < w->n_slots; i++)
        if (w->slots[i].state == state) return &w->slots[i];
    return NULL;
}

static void book(work *w, const slot *s)
{
    w->done++;
    if (s->status)
        w->report->bad++;
    else
        w->report->done++;
    w->report->resized += !s->status && s->about.mode == STOKE_PREDICT_RESIZE;
    w->report->slid += !s->status && s->about.mode == STOKE_PREDICT_SLIDE;
    w->report->turned += !s->status && s->turned > 0;
    w->report->lying += !s->status && s->turned < 0;
    if (s->low < w->report->low16) w->report->low16 = s->low;
    if (s->high > w->report->high16) w->report->high16 = s->high;
}

/* Gives a mask, or the reason why there is none, to the caller's function. With the lock, which is let go
 * meanwhile. */
static void hand_over(work *w, slot *s)
{
    stoke_error error = { 0 };
    const int restores = w->predictor->restores;
    s->state = LEAVING;
    pthread_mutex_unlock(&w->lock);
    const stoke_predicted predicted = { .index = s->index,
                                        .file = &w->job->files[s->index],
                                        .status = s->status,
                                        .message = s->status ? s->error.message : "",
                                        .image = w->job->images && !s->status ? &s->image : NULL,
                                        .mask = s->status || restores ? NULL : &s->mask,
                                        .restored = s->status || !restores ? NULL : &s->mask,
                                        .truth = w->job->labels && !s->status ? &s->truth : NULL,
                                        .about = s->about };
    const int status = w->job->predicted(w->job->context, &predicted, &error);
    /* Nothing is kept: what is booked against the limit is what is held. */
    stk_buffer_free(&s->pixels);
    stk_buffer_free(&s->ids);
    stk_buffer_free(&s->truths);
    pthread_mutex_lock(&w->lock);
    if (status)
        stop(w, status, &error);
    else
        book(w, s);
    w->bytes -= s->bytes;
    s->bytes = 0;
    s->state = FREE;
    pthread_cond_broadcast(&w->changed);
}

/* Waits until the picture fits below the limit, or nothing else is on its way; hands over meanwhile, since
 * that is what makes room. Returns 0 when the work is stopped. */
static int admit(work *w, slot *s, uint64_t bytes)
{
    pthread_mutex_lock(&w->lock);
    while (!w->stopping && w->bytes && w->bytes + bytes > w->job->memory) {
        slot *ready = find(w, PREDICTED);
        if (ready)
            hand_over(w, ready);
        else
            pthread_cond_wait(&w->changed, &w->lock);
    }
    w->bytes += bytes;
    s->bytes = bytes;
    const int go_on = !w->stopping;
    pthread_mutex_unlock(&w->lock);
    return go_on;
}

static int room_for(stk_mem_buffer *buffer, uint32_t width, uint32_t height, uint8_t channels, uint8_t depth,
                    stoke_image *image, stoke_error *err)
{
    const size_t bytes = stoke_image_bytes(width, height, channels, depth);
    void *data = bytes ? stk_buffer_reserve(buffer, bytes) : NULL;
    if (!data) return stk_fail(err, STOKE_E_NOMEM, "no memory for %u x %u pixels", width, height);
    *image = (stoke_image){ data, (size_t)width * channels * depth, width, height, channels, depth };
    return STOKE_OK;
}

/* Out of the reader's buffers, which the next file needs. */
static int keep(stk_mem_buffer *buffer, const stoke_image *from, stoke_image *to, stoke_error *err)
{
    const int status = room_for(buffer, from->width, from->height, from->channels, from->depth, to, err);
    if (!status) stk_copy_rows(to->data, to->stride, from->data, from->stride, to->stride, from->height);
    return status;
}

/* What the network needs of the picture, and what the caller's function wants to see. */
static int take_pixels(work *w, stk_picture_reader *reader, slot *s)
{
    stoke_image pixels;
    int status = STOKE_OK;
    const int whole = w->job->images || s->mode == STOKE_PREDICT_SLIDE;
    if (whole) {
        status = stk_picture_decode(reader, reader->ctx.width, reader->ctx.height, &pixels, &s->error);
        if (!status) status = keep(&s->pixels, &pixels, &s->image, &s->error);
        if (!status) stk_image_values(&s->image, &s->low, &s->high);
    }
    if (status || s->mode == STOKE_PREDICT_SLIDE) return status;
    /* A JPEG in mode fast may be decoded smaller than it is; the pixels then differ a little. */
    const stk_loader_config *config = reader->config;
    status = whole && config->image_decode.mode != STOKE_DECODE_FAST
                 ? stk_picture_fit(reader, &s->image, &pixels, &s->error)
                 : stk_picture_decode(reader, config->width, config->height, &pixels, &s->error);
    if (!status && !whole) stk_image_values(&pixels, &s->low, &s->high);
    return status ? status : keep(&s->small, &pixels, &s->fitted, &s->error);
}

/* Nor do helpers keep what decoding one took: pictures of 500 MB, each read by another of 16, would be 8 GB.
 * What the slot has is a copy. */
static int give_back(const work *w, stk_picture_reader *reader, stoke_error *err)
{
    if (stk_scratch_memory(&reader->scratch) <= stk_predict_kept(&w->plan)) return STOKE_OK;
    stk_scratch_destroy(&reader->scratch);
    return stk_scratch_create(&reader->scratch, err);
}

/* What the picture's mask says, to compare with. A new reader each time keeps nothing. */
static int read_truth(const work *w, slot *s)
{
    const stoke_sample *file = &w->job->files[s->index];
    stk_reader reader = { 0 };
    stoke_image_info info;
    stoke_image ids;
    int status = stk_reader_start(NULL, &reader, &s->error);
    if (!status)
        status = stk_reader_mask(&reader, w->job->data, w->job->labels, file, &info, &ids, &s->error);
    if (!status && (ids.width != s->mask.width || ids.height != s->mask.height))
        status = stk_fail(&s->error, STOKE_E_SIZE, "the mask is %ux%u (height x width), its image is %ux%u",
                          ids.height, ids.width, s->mask.height, s->mask.width);
    if (!status) status = keep(&s->truths, &ids, &s->truth, &s->error);
    stk_reader_finish(NULL, &reader);
    if (status) stk_error_prefix(&s->error, file->mask_path);
    return status;
}

/* Where the network's answer will lie. */
static int room_for_answer(const work *w, slot *s, uint32_t width, uint32_t height)
{
    const stoke_predictor *p = w->predictor;
    const uint32_t scale = stoke_net_plan_used(p->net)->scale;
    int status = p->restores ? stk_restore_check(p, width, height, NULL, &s->error) : STOKE_OK;
    if (status) return status;
    if (p->restores) return room_for(&s->ids, width * scale, height * scale, 3, 1, &s->mask, &s->error);
    status = room_for(&s->ids, width, height, 1, p->classes > 256 ? 2 : 1, &s->mask, &s->error);
    return status ? status : stk_predict_check_mask(p, width, height, &s->mask, &s->error);
}

static int read_file(work *w, stk_picture_reader *reader, slot *s, stk_predict_booking *booked)
{
    const stoke_sample *file = &w->job->files[s->index];
    const stk_sample_ctx *ctx = &reader->ctx;
    s->image = s->fitted = s->mask = s->truth = (stoke_image){ 0 };
    s->error = (stoke_error){ 0 };
    int status = stk_picture_read(reader, file, &s->error);
    const uint32_t width = ctx->width, height = ctx->height;
    s->turned = 0;
    s->low = UINT32_MAX;
    s->high = 0;
    if (status) return status;
    s->turned = stk_picture_turned(reader);
    stoke_image none;
    if ((uint64_t)width * height > (uint64_t)w->job->data->max_pixels)
        return stk_picture_decode(reader, width, height, &none,
                                  &s->error); /* the decoder refuses it, with the reason */
    s->mode = stoke_predictor_plan(w->predictor, width, height).mode;
    const int whole = w->job->images || s->mode == STOKE_PREDICT_SLIDE;
    const stk_scratch_bytes need = stk_scratch_need(ctx->config, &ctx->image_info, ctx->image_bytes, NULL, 0);
    *booked = stk_predict_book(&w->plan, (uint64_t)width * height, whole, &need);
    if (!admit(w, s, booked->slot + booked->reading)) return STOKE_E_CANCELLED;
    status = room_for_answer(w, s, width, height);
    if (status) {
        stk_error_prefix(&s->error, file->image_path);
        return status;
    }
    status = take_pixels(w, reader, s);
    if (status || !w->job->labels) return status;
    status = give_back(w, reader, &s->error); /* before the mask takes as much again */
    return status ? status : read_truth(w, s);
}

/* One thing to do; 0 when there is nothing for now. With the lock, which is let go meanwhile. */
static int help(work *w, stk_picture_reader *reader)
{
    slot *s = find(w, PREDICTED);
    if (s) {
        hand_over(w, s);
        return 1;
    }
    s = w->next < w->job->count ? find(w, FREE) : NULL;
    if (!s) return 0;
    s->state = READING;
    s->index = w->next++;
    pthread_mutex_unlock(&w->lock);
    stoke_error error = { 0 };
    stk_predict_booking booked = { 0 };
    s->status = read_file(w, reader, s, &booked);
    const int status = give_back(w, reader, &error);
    pthread_mutex_lock(&w->lock);
    if (s->bytes) { /* what reading took is free again; a bad one has left it all */
        w->bytes -= booked.reading;
        s->bytes -= booked.reading;
    }
    if (stk_is_want(s->status)) stop(w, s->status, &s->error); /* not that file's fault */
    if (status) stop(w, status, &error);
    s->state = s->status ? PREDICTED : READY; /* a bad file has nothing to predict */
    pthread_cond_broadcast(&w->changed);
    return 1;
}

static void *run_helper(void *argument)
{
    work *w = argument;
    stk_picture_reader reader = { .config = &w->pictures };
    stoke_error error = { 0 };
    /* Relative to what the thread inherited; Linux keeps a nice value per thread. */
    const id_t self = (id_t)syscall(SYS_gettid);
    setpriority(PRIO_PROCESS, self, getpriority(PRIO_PROCESS, self) + STEP_BACK);
    const int status = stk_scratch_create(&reader.scratch, &error);
    pthread_mutex_lock(&w->lock);
    if (status) stop(w, status, &error);
    while (!w->stopping && w->done < w->job->count)
        if (!help(w, &reader)) pthread_cond_wait(&w->changed, &w->lock);
    pthread_mutex_unlock(&w->lock);
    stk_scratch_destroy(&reader.scratch);
    return NULL;
}

/* ---- the calling thread ---- */

static int ask_progress(work *w, uint64_t done)
{
    return w->job->progress && w->job->progress(w->job->context, done, w->job->count);
}

static int windows_done(void *context, uint64_t done, uint64_t total)
{
    work *w = context;
    if (w->job->windows) w->job->windows(w->job->context, w->sliding, done, total);
    pthread_mutex_lock(&w->lock);
    const uint64_t files = w->done;
    pthread_mutex_unlock(&w->lock);
    return ask_progress(w, files);
}

/* Slots for the next pass: as many resized pictures as it takes, or one to slide over. With the lock. */
static uint32_t take_ready(work *w, slot **taken)
{
    const uint32_t most = w->predictor->batch / stk_predict_views(w->predictor);
    uint32_t n = 0;
    for (uint32_t i = 0; i < w->n_slots && n < most; i++) {
        slot *s = &w->slots[i];
        if (s->state != READY || (n && s->mode == STOKE_PREDICT_SLIDE)) continue;
        s->state = PREDICTING;
        taken[n++] = s;
        if (s->mode == STOKE_PREDICT_SLIDE) break;
    }
    return n;
}

/* Or over tiles. A picture that is too wide for it is one file without a mask, and no end of the rest. */
static int slide(work *w, slot *s, stoke_error *err)
{
    w->sliding = &w->job->files[s->index];
    stoke_predictor *p = w->predictor;
    const stoke_image *truth = w->job->labels ? &s->truth : NULL;
    const int status =
        p->restores ? stoke_predictor_restore(p, &s->image, &s->mask, NULL, &s->about, windows_done, w, err)
                    : stk_predictor_run(p, &s->image, truth, &s->mask, &s->about, windows_done, w, err);
    if (status != STOKE_E_LIMIT) return status;
    s->status = status;
    s->error = *err;
    stk_error_prefix(&s->error, w->sliding->image_path);
    return STOKE_OK;
}

static int predict(work *w, slot **taken, uint32_t n, stoke_error *err)
{
    stoke_predictor *p = w->predictor;
    if (taken[0]->mode == STOKE_PREDICT_SLIDE) return slide(w, taken[0], err);
    stoke_logits logits;
    for (uint32_t i = 0; i < n; i++) stk_predict_put(p, i, &taken[i]->fitted);
    int status = stk_predict_pass(p, n, &logits, err);
    for (uint32_t i = 0; i < n && !status; i++)
        status = stk_predict_resized(p, &logits, i, &taken[i]->mask, &taken[i]->about, err);
    return status;
}

/* Pictures of 16 bits, as people look at them. */
static void show_in_bytes(slot *s)
{
    if (!s->image.data || s->image.depth == 1) return;
    const size_t samples = (size_t)s->image.width * s->image.height * 3;
    const uint16_t *from = s->image.data;
    uint8_t *to = s->image.data;
    for (size_t i = 0; i < samples; i++) to[i] = (uint8_t)((from[i] + 128u) / 257u);
    s->image.depth = 1;
    s->image.stride = (size_t)s->image.width * 3;
}

static void drive(work *w)
{
    slot *taken[STK_PREDICT_BATCH];
    pthread_mutex_lock(&w->lock);
    while (!w->stopping && w->done < w->job->count) {
        const uint32_t n = take_ready(w, taken);
        stoke_error error = { 0 };
        int status = STOKE_OK;
        if (n) {
            pthread_mutex_unlock(&w->lock);
            const uint64_t begin = stk_now_ns();
            status = predict(w, taken, n, &error);
            w->report->network_seconds += (double)(stk_now_ns() - begin) / 1e9;
            for (uint32_t i = 0; i < n; i++) show_in_bytes(taken[i]);
            pthread_mutex_lock(&w->lock);
            /* Masks that were not finished stay with us: nobody is to write them. */
            for (uint32_t i = 0; i < n && !status; i++) taken[i]->state = PREDICTED;
            pthread_cond_broadcast(&w->changed);
        } else {
            stk_cond_wait(&w->changed, &w->lock, stk_now_ns() + LOOK_NS);
        }
        const uint64_t done = w->done; /* not that of before: windows_done told of more */
        pthread_mutex_unlock(&w->lock);
        if (!status && ask_progress(w, done))
            status = stk_fail(&error, STOKE_E_CANCELLED, "stopped on request");
        pthread_mutex_lock(&w->lock);
        if (status) stop(w, status, &error);
    }
    pthread_mutex_unlock(&w->lock);
}

/* ---- all together ---- */

stoke_predict_job stoke_predict_job_defaults(void)
{
    return (stoke_predict_job){ .struct_size = sizeof(stoke_predict_job), .memory = 512u << 20 };
}

static int start_helpers(work *w, uint32_t wanted, stoke_error *err)
{
    sigset_t all, old;
    int number = 0;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old); /* signals are the caller's */
    while (!number && w->n_helpers < wanted) {
        number = stk_thread_start(&w->threads[w->n_helpers], run_helper, w);
        w->n_helpers += !number;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (w->n_helpers) return STOKE_OK; /* fewer than wanted do as well */
    return stk_fail_errno(err, STOKE_E_NOMEM, number, "cannot start a thread");
}

static int run_all(work *w, stoke_error *err)
{
    w->plan = stk_predict_work_of(w->predictor, w->job);
    w->n_slots = stk_predict_slots(&w->plan);
    w->slots = stk_calloc(w->n_slots, sizeof *w->slots);
    if (!w->slots) return stk_fail(err, STOKE_E_NOMEM, "no memory for %u pictures", w->n_slots);
    const int status = start_helpers(w, w->plan.helpers, err);
    if (!status) drive(w);
    for (uint32_t i = 0; i < w->n_helpers; i++) pthread_join(w->threads[i], NULL);
    for (slot *s = w->slots; s < w->slots + w->n_slots; s++) {
        stk_buffer_free(&s->pixels);
        stk_buffer_free(&s->small);
        stk_buffer_free(&s->ids);
        stk_buffer_free(&s->truths);
    }
    stk_free(w->slots);
    return status ? status : w->status;
}

int stoke_predict_files(stoke_predictor *predictor, const stoke_predict_job *job,
                        stoke_predict_report *report, stoke_error *err)
{
    *report = (stoke_predict_report){ .low16 = UINT32_MAX };
    if (job->struct_size != sizeof *job || !job->predicted || !job->data)
        return stk_fail(err, STOKE_E_INVALID,
                        "a job comes from stoke_predict_job_defaults() of this version and needs data "
                        "settings and a function for its results");
    if (predictor->restores && job->labels)
        return stk_fail(err, STOKE_E_INVALID, "pictures that are restored have no masks to compare with");
    const uint64_t begin = stk_now_ns();
    work w = { .predictor = predictor, .job = job, .err = err, .report = report };
    pthread_mutex_init(&w.lock, NULL);
    stk_cond_init(&w.changed);
    int status = stk_pictures_config(&w.pictures, job->data, predictor->height, predictor->width, err);
    if (!status) status = run_all(&w, err);
    if (!status && job->progress) job->progress(job->context, job->count, job->count);
    stk_loader_config_destroy(&w.pictures);
    pthread_cond_destroy(&w.changed);
    pthread_mutex_destroy(&w.lock);
    report->seconds = (double)(stk_now_ns() - begin) / 1e9;
    return status;
}
