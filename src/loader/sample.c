/* SPDX-License-Identifier: Apache-2.0 */
#include "src/loader/sample.h"

#include <stdatomic.h>
#include <string.h>

#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/base/file.h"

int stk_bench_create(stk_bench *bench, stoke_error *err)
{
    *bench = (stk_bench){ 0 };
    int r = stoke_decoder_create(&bench->image_decoder, err);
    if (!r) r = stoke_decoder_create(&bench->mask_decoder, err);
    if (!r && !(bench->resizer = stk_resizer_create()))
        r = stk_fail(err, STOKE_E_NOMEM, "no memory for a worker");
    if (r) stk_bench_destroy(bench);
    return r;
}

void stk_bench_destroy(stk_bench *bench)
{
    stk_buffer *const buffers[] = { &bench->image_file, &bench->mask_file,   &bench->fitted,
                                    &bench->labelled,   &bench->mask_fitted, &bench->zeros,
                                    &bench->histogram };
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) stk_buffer_free(buffers[i]);
    stoke_decoder_destroy(&bench->image_decoder);
    stoke_decoder_destroy(&bench->mask_decoder);
    stk_resizer_destroy(&bench->resizer);
}

uint64_t stk_bench_memory(const stk_bench *bench)
{
    return bench->image_file.capacity + bench->mask_file.capacity + bench->fitted.capacity +
           bench->labelled.capacity + bench->mask_fitted.capacity + bench->zeros.capacity +
           bench->histogram.capacity + stoke_decoder_memory(bench->image_decoder) +
           stoke_decoder_memory(bench->mask_decoder) + stk_resizer_memory(bench->resizer);
}

/* ---- stamping ---- */

typedef struct stamp {
    uint64_t wall, cpu;
} stamp;

/* CPU time first: reading it is a system call, where a busy system likes to switch threads. The wait then
 * belongs to the stage that used up its slice, not to the next one. */
static stamp stamp_now(void)
{
    const uint64_t cpu = stk_thread_cpu_ns();
    return (stamp){ stk_now_ns(), cpu };
}

/* Books the time since *last on a stage and moves *last on. */
static void stamp_stage(stk_bench *bench, stoke_stage stage, stamp *last)
{
    const stamp now = stamp_now();
    stoke_stage_time *time = &bench->times[stage];
    time->wall_ns += now.wall - last->wall;
    time->cpu_ns += now.cpu - last->cpu;
    time->count = 1;
    *last = now;
}

/* ---- sizes ---- */

static uint8_t working_depth(const stoke_image_info *info)
{
    return info->bits == 16 ? 2 : 1;
}

void stk_shown_size(const stoke_image_info *info, const stoke_decode_params *params, uint32_t *width,
                    uint32_t *height)
{
    const int turned = params->orientation == STOKE_ORIENTATION_APPLY && info->orientation >= 5;
    *width = turned ? info->height : info->width;
    *height = turned ? info->width : info->height;
}

uint64_t stk_bench_need(const stk_recipe *recipe, const stoke_image_info *image, uint64_t image_bytes,
                        const stoke_image_info *mask, uint64_t mask_bytes)
{
    const uint64_t source = (uint64_t)image->width * image->height,
                   out = (uint64_t)recipe->width * recipe->height;
    const uint8_t depth = working_depth(image);
    /* A decoder may hold its input once more, repacked: joined PNG chunks, or a JPEG cut down to a region,
     * which takes three copies of the data and room for a header. */
    uint64_t need = (image_bytes + mask_bytes) * 6 + image->scratch_bytes + source * 3 * depth;
    if (image->width != recipe->width || image->height != recipe->height)
        need += out * 3 * depth +
                stk_resize_scratch(image->width, image->height, recipe->width, recipe->height, 3, depth);
    if (depth == 2) need += 65536 * sizeof(uint32_t);
    if (mask) {
        const uint64_t pixels = (uint64_t)mask->width * mask->height;
        const uint64_t channels = stoke_labels_are_colors(recipe->labels) ? 3 : 1;
        need += mask->scratch_bytes + pixels * channels * working_depth(mask) + out * 2;
        if (channels == 3 || working_depth(mask) != stoke_labels_depth(recipe->labels))
            need += pixels * stoke_labels_depth(recipe->labels);
    }
    return need;
}

/* Lets this sample through if it needs no more than the plan, or if the shared budget covers the rest. A
 * refusal ends the run (STOKE_E_NOMEM is never the sample's fault): what is left of the budget depends on the
 * number of workers, and replacing the sample would make the bytes of the batch depend on it too. */
static int gate(stk_bench *bench, stk_budget *budget, uint64_t need, stoke_error *err)
{
    if (need <= bench->granted) return STOKE_OK;
    const uint64_t more = need - bench->granted;
    uint64_t spare = atomic_load(&budget->spare);
    while (spare != UINT64_MAX) {
        if (spare < more)
            return stk_fail(
                err, STOKE_E_NOMEM,
                "needs %.1f MB of a worker, %.1f MB are planned and %.1f MB left under memory_limit %.1f MB",
                need / 1e6, bench->granted / 1e6, spare / 1e6, budget->limit / 1e6);
        if (atomic_compare_exchange_weak(&budget->spare, &spare, spare - more)) break;
    }
    bench->granted = need;
    return STOKE_OK;
}

/* ---- the image ---- */

typedef struct job {
    stk_bench *bench;
    const stk_recipe *recipe;
    stoke_sample sample;
    size_t image_bytes, mask_bytes;
    stoke_image_info image_info, mask_info;
    stoke_plan plan;
    void *image_row, *mask_row;
    stamp last;
    stoke_error *err;
} job;

static stoke_image view(void *data, uint32_t width, uint32_t height, uint8_t channels, uint8_t depth)
{
    return (stoke_image){ data, (size_t)width * channels * depth, width, height, channels, depth };
}

static int covers_all(const job *j)
{
    return j->plan.width == j->recipe->width && j->plan.height == j->recipe->height;
}

/* The part of a full picture that the plan asks for. */
static stoke_image cut(const stoke_image *full, const stoke_box *box)
{
    stoke_image part = *full;
    part.data = (char *)full->data + box->y * full->stride + (size_t)box->x * full->channels * full->depth;
    part.width = box->width;
    part.height = box->height;
    return part;
}

static int decode_image(job *j, stoke_image *pixels)
{
    stk_bench *bench = j->bench;
    const stk_recipe *recipe = j->recipe;
    stoke_decode_params params = recipe->image_decode;
    /* Percentiles are those of the whole picture: a crop must not change its own brightness. */
    const int whole = recipe->window.mode == STK_WINDOW_PERCENTILE && working_depth(&j->image_info) == 2;
    if (!whole) params.region = j->plan.box;
    params.fast_width = j->plan.width;
    params.fast_height = j->plan.height;
    const int same_size = j->plan.box.width == j->plan.width && j->plan.box.height == j->plan.height;
    if (same_size && covers_all(j) && !j->plan.hflip && recipe->writer.dtype == STOKE_DTYPE_U8 &&
        recipe->writer.layout == STOKE_LAYOUT_HWC)
        params.target = view(j->image_row, recipe->width, recipe->height, 3, 1);
    int r = stoke_decoder_decode(bench->image_decoder, bench->image_file.data, j->image_bytes, &params,
                                 pixels, j->err);
    if (r) return r;
    if (pixels->depth == 2 && recipe->window.mode != STK_WINDOW_NONE) {
        uint32_t *histogram = stk_buffer_reserve(&bench->histogram, 65536 * sizeof *histogram);
        if (!histogram) return stk_fail(j->err, STOKE_E_NOMEM, "no memory for the window's histogram");
        stk_window_apply(&recipe->window, pixels, histogram);
    }
    if (whole) *pixels = cut(pixels, &j->plan.box);
    return STOKE_OK;
}

static int fit_image(job *j, stoke_image *pixels)
{
    if (pixels->width == j->plan.width && pixels->height == j->plan.height) return STOKE_OK;
    const size_t bytes = stoke_image_bytes(j->plan.width, j->plan.height, 3, pixels->depth);
    void *data = stk_buffer_reserve(&j->bench->fitted, bytes);
    if (!data) return stk_fail(j->err, STOKE_E_NOMEM, "no memory for %zu bytes", bytes);
    const stoke_image fitted = view(data, j->plan.width, j->plan.height, 3, pixels->depth);
    int r = stk_resize(j->bench->resizer, pixels, &fitted, j->err);
    *pixels = fitted;
    return r;
}

static int load_image(job *j)
{
    stoke_image pixels;
    int r = decode_image(j, &pixels);
    stamp_stage(j->bench, STOKE_STAGE_DECODE_IMAGE, &j->last);
    if (!r) r = fit_image(j, &pixels);
    stamp_stage(j->bench, STOKE_STAGE_FIT, &j->last);
    if (r) return r;
    if (pixels.data != j->image_row)
        stk_write_image(&j->recipe->writer, &pixels, j->image_row, j->recipe->width, j->recipe->height,
                        j->plan.place_x, j->plan.place_y, j->plan.hflip);
    stamp_stage(j->bench, STOKE_STAGE_WRITE, &j->last);
    return STOKE_OK;
}

/* ---- the mask ---- */

static void write_mask(job *j, const stoke_image *ids)
{
    const stk_recipe *recipe = j->recipe;
    stk_write_mask(ids, recipe->mask_dtype, j->mask_row, recipe->width, recipe->height, j->plan.place_x,
                   j->plan.place_y, j->plan.hflip, recipe->mask_fill);
}

/* No mask: zeros where the image is. One row of zeros with stride 0 stands for a whole picture. */
static int zero_mask(job *j)
{
    const size_t held = j->bench->zeros.capacity;
    void *zeros = stk_buffer_reserve(&j->bench->zeros, j->plan.width);
    if (!zeros) return stk_fail(j->err, STOKE_E_NOMEM, "no memory for a row of zeros");
    if (j->bench->zeros.capacity != held) memset(zeros, 0, j->bench->zeros.capacity);
    const stoke_image none = { zeros, 0, j->plan.width, j->plan.height, 1, 1 };
    write_mask(j, &none);
    stamp_stage(j->bench, STOKE_STAGE_WRITE, &j->last);
    return STOKE_OK;
}

static int decode_mask(job *j, stoke_image *ids)
{
    const stk_recipe *recipe = j->recipe;
    stk_bench *bench = j->bench;
    stoke_decode_params params = recipe->mask_decode;
    const uint8_t depth = stoke_labels_depth(recipe->labels);
    params.region = j->plan.box;
    const int same_size = j->plan.box.width == j->plan.width && j->plan.box.height == j->plan.height;
    if (same_size && covers_all(j) && !j->plan.hflip && recipe->mask_dtype == STOKE_DTYPE_U8 && depth == 1)
        params.target = view(j->mask_row, recipe->width, recipe->height, 1, 1);
    stoke_image raw;
    int r = stoke_decoder_decode(bench->mask_decoder, bench->mask_file.data, j->mask_bytes, &params, &raw,
                                 j->err);
    if (r) return r;
    *ids = raw;
    if (raw.channels != 1 || raw.depth != depth) {
        const size_t bytes = stoke_image_bytes(raw.width, raw.height, 1, depth);
        void *data = stk_buffer_reserve(&bench->labelled, bytes);
        if (!data) return stk_fail(j->err, STOKE_E_NOMEM, "no memory for %zu bytes", bytes);
        *ids = view(data, raw.width, raw.height, 1, depth);
    }
    return stoke_labels_apply(recipe->labels, &raw, ids, j->err);
}

static int load_mask(job *j)
{
    stoke_image ids;
    int r = decode_mask(j, &ids);
    stamp_stage(j->bench, STOKE_STAGE_DECODE_MASK, &j->last);
    if (r) return r;
    if (ids.width != j->plan.width || ids.height != j->plan.height) {
        const size_t bytes = stoke_image_bytes(j->plan.width, j->plan.height, 1, ids.depth);
        void *data = stk_buffer_reserve(&j->bench->mask_fitted, bytes);
        if (!data) return stk_fail(j->err, STOKE_E_NOMEM, "no memory for %zu bytes", bytes);
        const stoke_image fitted = view(data, j->plan.width, j->plan.height, 1, ids.depth);
        stk_resize_nearest(&ids, &fitted);
        ids = fitted;
    }
    stamp_stage(j->bench, STOKE_STAGE_FIT, &j->last);
    if (ids.data != j->mask_row) write_mask(j, &ids);
    stamp_stage(j->bench, STOKE_STAGE_WRITE, &j->last);
    return STOKE_OK;
}

/* ---- the sample ---- */

/* The decoder knows the reason, only we know the file. */
static int in_file(job *j, const char *path, int status)
{
    if (status) stk_error_prefix(j->err, path);
    return status;
}

/* 0 when it cannot be read or is refused for its size: nothing is then held for it. */
static uint64_t readable_bytes(const stoke_blob *blob)
{
    const uint64_t bytes = stk_blob_bytes(blob);
    return bytes <= STK_FILE_LIMIT ? bytes : 0;
}

/* Under a limit the files pass the gate before they are read: a header that says how much the rest needs may
 * be missing, or come too late. */
static int gate_files(job *j, stk_budget *budget)
{
    if (!budget->limit) return STOKE_OK;
    const uint64_t bytes = readable_bytes(&j->sample.image) + readable_bytes(&j->sample.mask);
    return in_file(j, j->sample.image_path, gate(j->bench, budget, bytes, j->err));
}

static int read_files(job *j, stk_budget *budget)
{
    int r = gate_files(j, budget);
    if (!r)
        r = stk_blob_read(&j->sample.image, j->sample.image_path, STK_FILE_LIMIT, &j->bench->image_file,
                          &j->image_bytes, j->err);
    if (!r && j->sample.mask_path)
        r = stk_blob_read(&j->sample.mask, j->sample.mask_path, STK_FILE_LIMIT, &j->bench->mask_file,
                          &j->mask_bytes, j->err);
    if (!r) j->bench->bytes_read = j->image_bytes + j->mask_bytes;
    stamp_stage(j->bench, STOKE_STAGE_READ, &j->last);
    return r;
}

static int probe_files(job *j)
{
    stk_bench *bench = j->bench;
    int r = stoke_decoder_probe(bench->image_decoder, bench->image_file.data, j->image_bytes, &j->image_info,
                                j->err);
    if (r) return in_file(j, j->sample.image_path, r);
    if (!j->sample.mask_path) return STOKE_OK;
    r = stoke_decoder_probe(bench->mask_decoder, bench->mask_file.data, j->mask_bytes, &j->mask_info, j->err);
    if (r) return in_file(j, j->sample.mask_path, r);
    uint32_t iw, ih, mw, mh;
    stk_shown_size(&j->image_info, &j->recipe->image_decode, &iw, &ih);
    stk_shown_size(&j->mask_info, &j->recipe->mask_decode, &mw, &mh);
    if (iw == mw && ih == mh) return STOKE_OK;
    r = stk_fail(j->err, STOKE_E_SIZE, "the mask is %ux%u (width x height), its image %s is %ux%u", mw, mh,
                 j->sample.image_path, iw, ih);
    return in_file(j, j->sample.mask_path, r);
}

int stk_sample_load(stk_bench *bench, const stk_recipe *recipe, stk_budget *budget, uint64_t id,
                    uint64_t epoch, uint64_t position, void *image_row, void *mask_row, stoke_error *err)
{
    memset(bench->times, 0, sizeof bench->times);
    bench->bytes_read = 0;
    job j = { .bench = bench,
              .recipe = recipe,
              .sample = stoke_dataset_sample(recipe->dataset, id),
              .image_row = image_row,
              .mask_row = mask_row,
              .last = stamp_now(),
              .err = err };
    int r = read_files(&j, budget);
    if (!r) r = probe_files(&j);
    if (r) return r;
    if ((uint64_t)j.image_info.width * j.image_info.height <= recipe->image_decode.max_pixels) {
        /* Larger ones are refused by the decoder, with that reason; their size could overflow the sum. */
        const uint64_t need = stk_bench_need(recipe, &j.image_info, j.image_bytes,
                                             j.sample.mask_path ? &j.mask_info : NULL, j.mask_bytes);
        r = in_file(&j, j.sample.image_path, gate(bench, budget, need, err));
        if (r) return r;
    }
    uint32_t width, height;
    stk_shown_size(&j.image_info, &recipe->image_decode, &width, &height);
    const stoke_draw draw = { recipe->seed, epoch,         position,       width,
                              height,       recipe->width, recipe->height, NULL };
    stoke_pipeline_draw(recipe->pipeline, &draw, &j.plan);
    r = in_file(&j, j.sample.image_path, load_image(&j));
    if (r) return r;
    return j.sample.mask_path ? in_file(&j, j.sample.mask_path, load_mask(&j)) : zero_mask(&j);
}
