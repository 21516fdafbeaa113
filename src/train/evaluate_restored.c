/* SPDX-License-Identifier: Apache-2.0
 *
 * Scores of restored pictures as an evaluation adds them up, beside those of the pictures as they came: what
 * is gained is the difference.
 */
#include <math.h>

#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/loader/memory_plan.h"
#include "src/source/dataset.h"
#include "src/source/pairs.h"
#include "src/train/eval_share.h"
#include "src/train/predict.h"
#include <stoke/tools/net.h>

int stk_restored_sums_create(stk_restored_sums *r, stoke_error *err)
{
    *r = (stk_restored_sums){ 0 };
    const int status = stoke_restored_create(&r->output, 1, err);
    return status ? status : stoke_restored_create(&r->input, 1, err);
}

void stk_restored_sums_free(stk_restored_sums *r)
{
    stoke_restored_destroy(&r->output);
    stoke_restored_destroy(&r->input);
    stk_buffer_free(&r->clipped);
}

stoke_restored_picture stk_float_picture(const float *data, int planar, uint32_t width, size_t plane)
{
    return planar ? (stoke_restored_picture){ data, STOKE_DTYPE_F32, width, 1, plane }
                  : (stoke_restored_picture){ data, STOKE_DTYPE_F32, 3 * (size_t)width, 3, 1 };
}

/* As a file of the picture would have it. NaN stays, and so do its scores. */
static const float *clip(stk_restored_sums *r, const stk_restored_item *item)
{
    const size_t pixels = (size_t)item->width * item->height;
    float *clipped = stk_buffer_reserve(&r->clipped, 3 * pixels * sizeof *clipped), *to = clipped;
    for (uint32_t y = 0; clipped && y < item->height; y++) {
        const float *line = (const float *)item->output.data + y * item->output.row;
        for (uint32_t x = 0; x < item->width; x++)
            for (size_t c = 0; c < 3; c++) {
                const float v = line[x * item->output.column + c * item->output.plane];
                *to++ = v < 0 ? 0 : v > 1 ? 1 : v;
            }
    }
    return clipped;
}

int stk_restored_sums_add(stk_restored_sums *r, const stk_restored_item *item, stk_evaluate_worst *own,
                          stk_evaluate_gallery *gallery, stoke_error *err)
{
    const float *clipped = clip(r, item);
    if (!clipped)
        return stk_fail(err, STOKE_E_NOMEM, "no memory for a restored picture of %u x %u",
                        (unsigned)item->height, (unsigned)item->width);
    stk_restored_item kept = *item;
    stoke_restored_score score, before = { NAN, NAN };
    kept.output = stk_float_picture(clipped, 0, item->width, 0);
    int status =
        stoke_restored_add(r->output, item->height, item->width, 3, &kept.output, &item->target, &score, err);
    if (!status && item->image_width == item->width && item->image_height == item->height)
        status = stoke_restored_add(r->input, item->height, item->width, 3, &item->image, &item->target,
                                    &before, err);
    if (status) return status;
    own->psnr = score.psnr;
    own->ssim = score.ssim;
    own->input_psnr = before.psnr;
    if (gallery) stk_gallery_take_restored(gallery, own, &kept);
    return STOKE_OK;
}

void stk_restored_sums_scores(const stk_restored_sums *r, stk_evaluate_result *result)
{
    result->scores = stoke_restored_scores(r->output);
    result->input = stoke_restored_scores(r->input);
}

/* ---- whole pictures ---- */

enum {
    TILE =
        256, /* where the result does not depend on it: 20 MB of a resnet, for a fifth more work than 512 */
    /* Of a pixel of the image its floats; of one of the result its own, those of the target, and clipped. */
    IMAGE_BYTES = 12,
    RESULT_BYTES = 3 * 12
};

int stk_whole_reading(uint64_t *bytes, const stoke_dataset *dataset, const stoke_data_params *data,
                      stoke_error *err)
{
    const uint64_t count = stoke_dataset_count(dataset);
    stk_loader_config config;
    stk_probe probe;
    stoke_sample *files = stk_calloc(count, sizeof *files);
    int r = stk_pictures_config(&config, data, STOKE_RESTORED_SIDE, STOKE_RESTORED_SIDE, err);
    if (!r && !files)
        r = stk_fail(err, STOKE_E_NOMEM, "no memory for a list of %llu files", (unsigned long long)count);
    *bytes = 0;
    for (int targets = 0; !r && targets < 2; targets++) {
        for (uint64_t i = 0; i < count; i++) {
            const stoke_sample sample = stoke_dataset_sample(dataset, i);
            files[i] = targets ? stk_target_as_image(&sample) : sample;
        }
        r = stk_probe_files(&probe, &config, files, count, err);
        if (!r) *bytes += stk_predict_reading(&probe.most);
    }
    stk_loader_config_destroy(&config);
    stk_free(files);
    return r;
}

uint64_t stk_whole_bytes(const stk_eval_plan *plan, uint32_t scale, uint32_t pictures)
{
    const uint64_t each = IMAGE_BYTES + (uint64_t)RESULT_BYTES * scale * scale;
    return plan->reading + plan->pixels * each + (uint64_t)pictures * STK_EVAL_PART * STK_EVAL_PART * 9;
}

/* Exact tiles may have any size, so they are small; others are as `stoke predict` has them. */
stoke_net_params stk_whole_net(const stk_eval_plan *plan, const stoke_net_params *net,
                               const stoke_net_plan *trained)
{
    const uint32_t least = stk_restore_least(trained), unit = trained->side_multiple;
    const uint32_t most =
        trained->reach && unit == 1 ? (uint32_t)stk_most(TILE, least) : stk_restore_tile(trained);
    const uint64_t height = stk_most((plan->height + unit - 1) / unit * unit, least),
                   width = stk_most((plan->width + unit - 1) / unit * unit, least);
    stoke_net_params own = *net;
    own.weights = NULL;    /* they are copied */
    own.perceptual = NULL; /* the loss of whole pictures is that of pixels */
    own.partial = own.average = own.training = own.freeze_encoder = 0;
    own.memory = STOKE_MEMORY_PLAIN;
    own.batch = 1;
    own.height = (uint32_t)stk_least(height, most);
    own.width = (uint32_t)stk_least(width, most);
    return own;
}

/* The pass. Pixels of a reader live until it reads the next file. */
typedef struct whole {
    const stk_original *set;
    stk_evaluate_result *result;
    stk_restored_sums scores;
    stk_loader_config config;
    stk_picture_reader image, target;
    stk_mem_buffer image_floats, target_floats, planes;
    stk_eval_sums sums;
} whole;

/* 0 .. 1, interleaved. */
static float *floats_of(const stoke_image *image, stk_mem_buffer *room)
{
    const size_t line = 3 * (size_t)image->width;
    float *floats = stk_buffer_reserve(room, line * image->height * sizeof *floats), *to = floats;
    for (uint32_t y = 0; floats && y < image->height; y++) {
        const void *from = (const uint8_t *)image->data + y * image->stride;
        for (size_t i = 0; i < line; i++)
            *to++ = image->depth == 1 ? ((const uint8_t *)from)[i] / 255.0f
                                      : ((const uint16_t *)from)[i] / 65535.0f;
    }
    return floats;
}

static int decode_whole(stk_picture_reader *reader, stoke_image *image, stoke_error *err)
{
    return stk_picture_decode(reader, reader->ctx.width, reader->ctx.height, image, err);
}

static int read_pair(whole *w, const stoke_sample *file, stoke_image *image, stoke_image *target,
                     stoke_error *err)
{
    const stoke_sample other = stk_target_as_image(file);
    int r = stk_picture_read(&w->image, file, err);
    if (!r) r = stk_picture_read(&w->target, &other, err);
    if (r) return r;
    const uint32_t from[2] = { w->image.ctx.width, w->image.ctx.height },
                   to[2] = { w->target.ctx.width, w->target.ctx.height };
    r = stk_target_size(from, to, (uint32_t)w->set->data->scale, file->image_path, err);
    if (r) {
        stk_error_prefix(err, file->target_path);
        return r;
    }
    r = decode_whole(&w->image, image, err);
    return r ? r : decode_whole(&w->target, target, err);
}

/* As training has it, of what the network gave. In double, in the order of the values. */
static double loss_of(int kind, const float *planes, const float *target, size_t pixels)
{
    double sum = 0;
    for (size_t c = 0; c < 3; c++)
        for (size_t i = 0; i < pixels; i++) {
            const double d = (double)planes[c * pixels + i] - (double)target[3 * i + c];
            sum += kind == STOKE_LOSS_MSE ? d * d : kind == STOKE_LOSS_L1 ? fabs(d) : sqrt(d * d + 1e-6);
        }
    return sum / (3 * (double)pixels);
}

static int restore_one(whole *w, uint64_t id, const stoke_image *image, const stoke_image *target,
                       stoke_error *err)
{
    stoke_predictor *predictor = w->set->predictor;
    const size_t pixels = (size_t)target->width * target->height;
    float *from = floats_of(image, &w->image_floats), *to = floats_of(target, &w->target_floats),
          *planes = stk_buffer_reserve(&w->planes, 3 * pixels * sizeof *planes);
    stoke_prediction about;
    if (!from || !to || !planes)
        return stk_fail(err, STOKE_E_NOMEM, "no memory for a restored picture of %u x %u",
                        (unsigned)target->height, (unsigned)target->width);
    int r = stoke_predictor_restore(predictor, image, NULL, planes, &about, NULL, NULL, err);
    const stk_restored_item item = { .width = target->width,
                                     .height = target->height,
                                     .image_width = image->width,
                                     .image_height = image->height,
                                     .output = stk_float_picture(planes, 1, target->width, pixels),
                                     .target = stk_float_picture(to, 0, target->width, 0),
                                     .image = stk_float_picture(from, 0, image->width, 0) };
    stk_evaluate_worst own = { .name = stoke_dataset_sample(w->set->dataset, id).name, .id = id };
    if (!r) r = stk_restored_sums_add(&w->scores, &item, &own, w->set->gallery, err);
    if (r) return r;
    stk_worst_note(w->result, &own, 1);
    const stk_eval_part part = { .place = id,
                                 .loss = loss_of(w->set->loss, planes, to, pixels),
                                 .losses = 1,
                                 .samples = 1,
                                 .windows = (uint32_t)about.windows,
                                 .output = stk_restored_take(w->scores.output),
                                 .input = stk_restored_take(w->scores.input) };
    return stk_eval_sums_add(&w->sums, &part, err);
}

static int run_whole(whole *w, stoke_progress_fn progress, void *context, stoke_error *err)
{
    const uint64_t count = stk_eval_share_own(w->set->share, stoke_dataset_count(w->set->dataset));
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t id = stk_eval_share_at(w->set->share, i);
        const stoke_sample file = stoke_dataset_sample(w->set->dataset, id);
        const uint64_t start = stk_now_ns();
        stoke_image image, target;
        stoke_error why = { 0 };
        int r = read_pair(w, &file, &image, &target, &why);
        w->result->data_seconds += 1e-9 * (double)(stk_now_ns() - start);
        if (stk_is_want(r)) return stk_fail_again(err, r, why.message); /* not that file's fault */
        if (!r && (target.width < STOKE_RESTORED_SIDE || target.height < STOKE_RESTORED_SIDE))
            r = stk_fail(&why, STOKE_E_SIZE, "%s: %u x %u pixels have no SSIM: %d a side are the least",
                         file.target_path, (unsigned)target.height, (unsigned)target.width,
                         STOKE_RESTORED_SIDE);
        r = r ? stk_original_bad(w->set, id, &why, &w->result->bad, err)
              : restore_one(w, id, &image, &target, err);
        if (r) return r;
        if (progress && progress(context, i + 1, count))
            return stk_fail(err, STOKE_E_CANCELLED, "the evaluation was stopped after %llu of %llu pictures",
                            (unsigned long long)i + 1, (unsigned long long)count);
    }
    return STOKE_OK;
}

int stk_evaluate_whole(const stk_original *set, stk_evaluate_result *result, stoke_progress_fn progress,
                       void *context, stoke_error *err)
{
    const uint64_t start = stk_now_ns();
    whole w = { .set = set, .result = result };
    w.sums = (stk_eval_sums){ .restored = &w.scores, .gallery = set->gallery, .result = result };
    stk_eval_sums_begin(&w.sums);
    /* Of the settings only those of decoding count: any size will do. */
    int r = stk_pictures_config(&w.config, set->data, STOKE_RESTORED_SIDE, STOKE_RESTORED_SIDE, err);
    w.image.config = w.target.config = &w.config;
    if (!r) r = stk_scratch_create(&w.image.scratch, err);
    if (!r) r = stk_scratch_create(&w.target.scratch, err);
    if (!r) r = stk_restored_sums_create(&w.scores, err);
    if (!r) r = run_whole(&w, progress, context, err);
    r = stk_eval_sums_finish(&w.sums, set->share, r, err);
    if (!r) r = stk_original_any(set, result, err);
    stk_eval_sums_free(&w.sums);
    result->seconds = 1e-9 * (double)(stk_now_ns() - start);
    stk_restored_sums_free(&w.scores);
    stk_scratch_destroy(&w.image.scratch);
    stk_scratch_destroy(&w.target.scratch);
    stk_loader_config_destroy(&w.config);
    stk_buffer_free(&w.image_floats);
    stk_buffer_free(&w.target_floats);
    stk_buffer_free(&w.planes);
    return r;
}
