/* SPDX-License-Identifier: Apache-2.0
 *
 * The deterministic prefix: decoded, labelled, fitted. Nothing random happens here; of the plan only the box
 * and the size it is resized to are looked at.
 *
 * There are two ways, and both give the same pixels (decode: exact):
 *
 *   region   decodes only the plan's box. The way without a cache: a crop costs what the crop costs.
 *   whole    what every epoch has in common: without crop ops the whole source resized to the output, with
 *            them the whole source at its own size. It can be kept; the plan's box is then cut from it.
 */
#include "src/base/error.h"
#include "src/loader/job.h"

/* A part of the source and the size it is fitted to. */
typedef struct part {
    stoke_box box;
    uint32_t width, height;
} part;

static part planned(const stk_job *job)
{
    return (part){ job->plan.box, job->plan.width, job->plan.height };
}

/* The part that all draws have in common. */
static part whole(const stk_job *job)
{
    const stk_recipe *recipe = job->recipe;
    const stoke_box all = { 0, 0, job->width, job->height };
    return recipe->crops ? (part){ all, all.width, all.height }
                         : (part){ all, recipe->width, recipe->height };
}

/* The pixels of a box in a larger picture. */
static stoke_image cut(const stoke_image *full, const stoke_box *box)
{
    stoke_image piece = *full;
    piece.data = (char *)full->data + box->y * full->stride + (size_t)box->x * full->channels * full->depth;
    piece.width = box->width;
    piece.height = box->height;
    return piece;
}

/* Whether a part is what the plan asks for, so that nothing follows but laying it out. A plan that is not
 * drawn yet asks for nothing. */
static int is_planned(const stk_job *job, const part *p)
{
    const part q = planned(job);
    return q.width && p->width == q.width && p->height == q.height && p->box.x == q.box.x &&
           p->box.y == q.box.y && p->box.width == q.box.width && p->box.height == q.box.height;
}

/* A place in the batch for pixels that need no work after decoding; data NULL when they do. */
static stoke_image direct(const stk_job *job, const part *p, void *row, uint8_t channels)
{
    const uint32_t width = job->recipe->width, height = job->recipe->height;
    const stoke_plan *plan = &job->plan;
    const int fits =
        p->box.width == width && p->box.height == height && p->width == width && p->height == height;
    const int all = plan->box.width == width && plan->box.height == height;
    if (!fits || !all || plan->warp || plan->hflip || plan->vflip || plan->swap_labels)
        return (stoke_image){ 0 };
    return (stoke_image){ row, (size_t)width * channels, width, height, channels, 1 };
}

/* ---- the image ---- */

static int apply_window(stk_job *job, const stoke_image *pixels)
{
    if (pixels->depth != 2 || job->recipe->window.mode == STK_WINDOW_NONE) return STOKE_OK;
    uint32_t *histogram = stk_buffer_reserve(&job->bench->histogram, 65536 * sizeof *histogram);
    if (!histogram) return stk_fail(job->err, STOKE_E_NOMEM, "no memory for the window's histogram");
    stk_window_apply(&job->recipe->window, pixels, histogram);
    return STOKE_OK;
}

static int decode_image(stk_job *job, const part *p, stoke_image target, stoke_image *pixels)
{
    stk_bench *bench = job->bench;
    stoke_decode_params params = job->recipe->image_decode;
    params.orientation = job->orientation;
    /* Percentiles are those of the whole picture: a crop must not change its own brightness. */
    const int all = job->recipe->window.mode == STK_WINDOW_PERCENTILE && job->image_info.bits == 16;
    if (!all) params.region = p->box;
    params.fast_width = p->width;
    params.fast_height = p->height;
    params.target = target;
    int r = stoke_decoder_decode(bench->image_decoder, bench->image_file.data, job->image_bytes, &params,
                                 pixels, job->err);
    if (!r) r = apply_window(job, pixels);
    if (!r && all) *pixels = cut(pixels, &p->box);
    return r;
}

/* Where the image of a part is decoded to if it needs no resize: data NULL = the decoder's buffer. */
static stoke_image image_target(const stk_job *job, const part *p)
{
    const stk_writer *writer = &job->recipe->writer;
    if (job->raw) return is_planned(job, p) ? stk_raw_image_place(job) : (stoke_image){ 0 };
    if (writer->dtype != STOKE_DTYPE_U8 || writer->layout != STOKE_LAYOUT_HWC || job->plan.n_touches)
        return (stoke_image){ 0 };
    return direct(job, p, job->image_row, 3);
}

static int fit_image(stk_job *job, const part *p, stoke_image *pixels)
{
    if (pixels->width == p->width && pixels->height == p->height) return STOKE_OK;
    stoke_image fitted = job->raw ? image_target(job, p) : (stoke_image){ 0 };
    int r = STOKE_OK;
    if (!fitted.data)
        r = stk_bench_image(&job->bench->fitted, p->width, p->height, 3, pixels->depth, &fitted, job->err);
    if (!r) r = stk_resize(job->bench->resizer, pixels, &fitted, job->err);
    if (!r) *pixels = fitted;
    return r;
}

static int make_image(stk_job *job, const part *p)
{
    int r = decode_image(job, p, image_target(job, p), &job->image);
    stk_job_stamp(job, STOKE_STAGE_DECODE_IMAGE);
    if (!r) r = fit_image(job, p, &job->image);
    stk_job_stamp(job, STOKE_STAGE_FIT);
    return r;
}

/* ---- the mask ---- */

static int decode_ids(stk_job *job, const stoke_box *box, stoke_image target, stoke_image *ids)
{
    const stk_recipe *recipe = job->recipe;
    stk_bench *bench = job->bench;
    const uint8_t depth = stoke_labels_depth(recipe->labels);
    stoke_decode_params params = recipe->mask_decode;
    params.region = *box;
    params.target = target;
    stoke_image raw;
    int r = stoke_decoder_decode(bench->mask_decoder, bench->mask_file.data, job->mask_bytes, &params, &raw,
                                 job->err);
    if (r) return r;
    *ids = raw;
    if (raw.channels != 1 || raw.depth != depth)
        r = stk_bench_image(&bench->labelled, raw.width, raw.height, 1, depth, ids, job->err);
    return r ? r : stoke_labels_apply(recipe->labels, &raw, ids, job->err);
}

static stoke_image ids_target(const stk_job *job, const part *p)
{
    const stk_recipe *recipe = job->recipe;
    if (job->raw) return is_planned(job, p) ? stk_raw_ids_place(job) : (stoke_image){ 0 };
    if (recipe->mask_dtype != STOKE_DTYPE_U8 || stoke_labels_depth(recipe->labels) != 1)
        return (stoke_image){ 0 };
    return direct(job, p, job->mask_row, 1);
}

static int fit_ids(stk_job *job, const part *p, stoke_image *ids)
{
    if (ids->width == p->width && ids->height == p->height) return STOKE_OK;
    stoke_image fitted = job->raw ? ids_target(job, p) : (stoke_image){ 0 };
    int r = STOKE_OK;
    if (!fitted.data)
        r = stk_bench_image(&job->bench->mask_fitted, p->width, p->height, 1, ids->depth, &fitted, job->err);
    if (r) return r;
    stk_resize_nearest(ids, &fitted);
    *ids = fitted;
    return STOKE_OK;
}

static int make_ids(stk_job *job, const part *p)
{
    int r = decode_ids(job, &p->box, ids_target(job, p), &job->ids);
    stk_job_stamp(job, STOKE_STAGE_DECODE_MASK);
    if (!r) r = fit_ids(job, p, &job->ids);
    stk_job_stamp(job, STOKE_STAGE_FIT);
    return r;
}

/* From the whole mask. */
static int cut_ids(stk_job *job, const part *p)
{
    job->ids = cut(&job->ids, &p->box);
    int r = fit_ids(job, p, &job->ids);
    stk_job_stamp(job, STOKE_STAGE_FIT);
    return r;
}

int stk_prefix_ids(stk_job *job)
{
    const stoke_box all = { 0, 0, job->width, job->height };
    const int r = decode_ids(job, &all, (stoke_image){ 0 }, &job->ids);
    stk_job_stamp(job, STOKE_STAGE_DECODE_MASK);
    return stk_job_in_file(job, job->sample.mask_path, r);
}

/* ---- both ---- */

/* The mask comes first, so that the image is still in the processor's cache when it is laid out. */
int stk_prefix_region(stk_job *job)
{
    const part p = planned(job);
    int r = STOKE_OK;
    if (job->sample.mask_path) r = job->ids.data ? cut_ids(job, &p) : make_ids(job, &p);
    if (r) return stk_job_in_file(job, job->sample.mask_path, r);
    return stk_job_in_file(job, job->sample.image_path, make_image(job, &p));
}

int stk_prefix_whole(stk_job *job)
{
    const part p = whole(job);
    int r = STOKE_OK;
    if (job->sample.mask_path) r = stk_job_in_file(job, job->sample.mask_path, make_ids(job, &p));
    return r ? r : stk_job_in_file(job, job->sample.image_path, make_image(job, &p));
}

int stk_prefix_cut(stk_job *job)
{
    const part p = planned(job);
    const stoke_box *box = &p.box;
    /* Where the plan wants less than the whole source, the whole has the source's own size: boxes fit it. */
    if (box->width == job->width && box->height == job->height && p.width == job->image.width &&
        p.height == job->image.height)
        return STOKE_OK;
    job->image = cut(&job->image, box);
    int r = fit_image(job, &p, &job->image);
    if (!r && job->ids.data) r = cut_ids(job, &p);
    stk_job_stamp(job, STOKE_STAGE_FIT);
    return r;
}
