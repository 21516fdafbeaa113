/* SPDX-License-Identifier: Apache-2.0
 *
 * The way of a sample: its files are fetched, its plan is drawn, the picture is decoded and fitted
 * (decode_fit.c, or cache_lookup.c), and rendered into its row (render.c) or left to a device (raw.c). Each
 * step stamps its time.
 */
#include "src/loader/sample.h"

#include <string.h>

#include "src/augment/pipeline.h"
#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/base/file.h"
#include "src/base/rng.h"
#include "src/source/dataset.h"
#include "src/source/pairs.h"

/* CPU time first: reading it is a system call, where a busy system likes to switch threads. The wait then
 * belongs to the stage that used up its slice, not to the next one. */
stk_sample_stamp stk_stamp_now(void)
{
    const uint64_t cpu = stk_thread_cpu_ns();
    return (stk_sample_stamp){ stk_now_ns(), cpu };
}

void stk_sample_ctx_stamp(stk_sample_ctx *ctx, stoke_stage stage)
{
    const stk_sample_stamp now = stk_stamp_now();
    stoke_stage_time *time = &ctx->scratch->times[stage];
    time->wall_ns += now.wall - ctx->last.wall;
    time->cpu_ns += now.cpu - ctx->last.cpu;
    time->count = 1;
    stk_spans_tell(&ctx->scratch->spans, ctx->scratch->number, stage, ctx->last.wall, now.wall,
                   ctx->scratch->batch);
    ctx->last = now;
}

int stk_sample_ctx_in_file(const stk_sample_ctx *ctx, const char *path, int status)
{
    if (status) stk_error_prefix(ctx->err, path);
    return status;
}

/* ---- fetch: both files whole, what their headers say, and whether the memory they will take is there ----
 */

/* What will be held for a file: nothing when it cannot be read or is refused for its size. */
static uint64_t held_bytes(const stoke_blob *blob)
{
    const uint64_t bytes = stk_blob_bytes(blob);
    return bytes <= STK_FILE_LIMIT ? bytes : 0;
}

static int read_files(stk_sample_ctx *ctx, stk_memory_gate *gate)
{
    stk_scratch *scratch = ctx->scratch;
    const stoke_sample *sample = &ctx->sample;
    int r = STOKE_OK;
    if (gate && stk_memory_gate_guards_files(gate)) {
        const stk_scratch_bytes need =
            stk_scratch_need_files(held_bytes(&sample->image), held_bytes(&sample->mask));
        r = stk_sample_ctx_in_file(ctx, sample->image_path,
                                   stk_memory_gate_pass(gate, scratch, &need, ctx->err));
    }
    if (!r)
        r = stk_blob_read(&sample->image, sample->image_path, STK_FILE_LIMIT, &scratch->image_file,
                          &ctx->image_bytes, ctx->err);
    if (!r && sample->mask_path)
        r = stk_blob_read(&sample->mask, sample->mask_path, STK_FILE_LIMIT, &scratch->mask_file,
                          &ctx->mask_bytes, ctx->err);
    if (!r) scratch->bytes_read += ctx->image_bytes + ctx->mask_bytes;
    return r;
}

static int probe_files(stk_sample_ctx *ctx)
{
    stk_scratch *scratch = ctx->scratch;
    int r = stoke_decoder_probe(scratch->image_decoder, scratch->image_file.data, ctx->image_bytes,
                                &ctx->image_info, ctx->err);
    if (r) return stk_sample_ctx_in_file(ctx, ctx->sample.image_path, r);
    if (ctx->sample.mask_path) {
        r = stoke_decoder_probe(scratch->mask_decoder, scratch->mask_file.data, ctx->mask_bytes,
                                &ctx->mask_info, ctx->err);
        ctx->knows_mask = !r;
        if (!r)
            r = stk_pair_sizes(ctx->config->orientation, &ctx->image_info, &ctx->mask_info,
                               ctx->sample.image_path, ctx->err);
        if (r) return stk_sample_ctx_in_file(ctx, ctx->sample.mask_path, r);
    }
    ctx->orientation = stk_loader_config_orientation(ctx->config, &ctx->image_info,
                                                     ctx->knows_mask ? &ctx->mask_info : NULL);
    stk_size_shown(&ctx->image_info, ctx->orientation, &ctx->width, &ctx->height);
    return STOKE_OK;
}

int stk_fetch(stk_sample_ctx *ctx, stk_memory_gate *gate)
{
    const stoke_image_info *image = &ctx->image_info;
    int r = read_files(ctx, gate);
    stk_sample_ctx_stamp(ctx, STOKE_STAGE_READ);
    if (!r) r = probe_files(ctx);
    /* Larger ones are refused by the decoder, with that reason; their size could overflow the sum. */
    if (r || !gate || (uint64_t)image->width * image->height > ctx->config->image_decode.max_pixels) return r;
    const stk_scratch_bytes need =
        stk_scratch_need(ctx->config, image, ctx->image_bytes, ctx->sample.mask_path ? &ctx->mask_info : NULL,
                         ctx->mask_bytes);
    return stk_sample_ctx_in_file(ctx, ctx->sample.image_path,
                                  stk_memory_gate_pass(gate, ctx->scratch, &need, ctx->err));
}

/* ---- draw ---- */

/* The pixel a foreground crop looks at. The classes present in the mask are equally likely, however few
 * pixels they have, and so are the pixels of the one chosen. */
static uint32_t id_at(const stoke_image *ids, uint32_t x, uint32_t y)
{
    const void *row = (const char *)ids->data + y * ids->stride;
    return ids->depth == 1 ? ((const uint8_t *)row)[x] : ((const uint16_t *)row)[x];
}

/* Pixels of every class; those that are not looked for have none. */
static void count_ids(const stk_loader_config *config, const stoke_image *ids, uint64_t *count, size_t values)
{
    memset(count, 0, values * sizeof *count);
    for (uint32_t y = 0; y < ids->height; y++)
        for (uint32_t x = 0; x < ids->width; x++) count[id_at(ids, x, y)]++;
    if (config->ignore >= 0) count[config->ignore] = 0;
    const stk_op_constants *constants = &config->pipeline->constants;
    for (size_t i = 0; i < constants->n_background; i++)
        if (constants->background[i] < values) count[constants->background[i]] = 0;
}

/* The k-th pixel of a class, in reading order. */
static void find_pixel(const stoke_image *ids, uint32_t id, uint64_t k, uint32_t focus[2])
{
    for (uint32_t y = 0; y < ids->height; y++)
        for (uint32_t x = 0; x < ids->width; x++)
            if (id_at(ids, x, y) == id && !k--) {
                focus[0] = x;
                focus[1] = y;
                return;
            }
}

static int find_foreground(stk_sample_ctx *ctx, uint32_t focus[2], int *found)
{
    const stoke_image *ids = &ctx->ids;
    const size_t values = ids->depth == 1 ? 256 : 65536;
    uint64_t *count = stk_buffer_reserve(&ctx->scratch->counts, values * sizeof *count);
    if (!count) return stk_fail(ctx->err, STOKE_E_NOMEM, "no memory to count classes");
    count_ids(ctx->config, ids, count, values);
    uint32_t present = 0;
    for (size_t i = 0; i < values; i++) present += count[i] > 0;
    *found = present > 0;
    if (!present) return STOKE_OK;
    uint64_t left = stk_below(stk_pair(ctx->plan.focus_class, 0), present);
    uint32_t id = 0;
    while (!count[id] || left--) id++;
    find_pixel(ids, id, stk_below(stk_pair(ctx->plan.focus_pixel, 0), count[id]), focus);
    return STOKE_OK;
}

int stk_draw_plan(stk_sample_ctx *ctx, stoke_draw *draw)
{
    const stoke_pipeline *pipeline = ctx->config->pipeline;
    stoke_pipeline_draw(pipeline, draw, &ctx->plan);
    if (!ctx->plan.wants_focus || (!ctx->ids.data && !ctx->sample.mask_path)) return STOKE_OK;
    uint32_t focus[2];
    int found = 0;
    int r = ctx->ids.data ? STOKE_OK : stk_decode_fit_ids(ctx);
    if (!r) r = find_foreground(ctx, focus, &found);
    if (!r && found) {
        draw->focus = focus;
        stoke_pipeline_draw(pipeline, draw, &ctx->plan);
        draw->focus = NULL;
    }
    return r;
}

/* The plan and the fitted picture. A cache stands before the draw: it gives what stk_decode_fit_whole would
 * make, or takes it; stk_decode_fit_cut then does the rest. */
static int make_fitted(stk_sample_ctx *ctx, stk_memory_gate *gate, stoke_draw *draw)
{
    int whole = 0;
    int r = ctx->config->cache ? stk_cache_lookup_bring(ctx, gate, &whole) : stk_fetch(ctx, gate);
    if (r) return r;
    draw->source_width = ctx->width;
    draw->source_height = ctx->height;
    r = stk_draw_plan(ctx, draw);
    if (r) return r;
    return whole ? stk_sample_ctx_in_file(ctx, ctx->sample.image_path, stk_decode_fit_cut(ctx))
                 : stk_decode_fit_region(ctx);
}

stoke_draw stk_sample_begin(stk_sample_ctx *ctx, stk_scratch *scratch, const stk_loader_config *config,
                            const stk_slot *slot, uint32_t row, stoke_error *err)
{
    *ctx = (stk_sample_ctx){ .scratch = scratch,
                             .config = config,
                             .image_row = stk_slot_image_row(slot, row),
                             .mask_row = stk_slot_mask_row(slot, row),
                             .raw = slot->raw ? &slot->raw[row] : NULL,
                             .last = stk_stamp_now(),
                             .err = err };
    return (stoke_draw){ .seed = config->seed,
                         .epoch = slot->batch.epoch,
                         .position = slot->batch.position + row,
                         .out_width = config->width,
                         .out_height = config->height,
                         .scale = config->scale };
}

stk_sample_ctx stk_target_begin(const stk_sample_ctx *image, void *row)
{
    return (stk_sample_ctx){ .scratch = image->scratch,
                             .config = image->config->target,
                             .sample = stk_target_as_image(&image->sample),
                             .image_row = row,
                             .last = image->last,
                             .err = image->err };
}

int stk_target_bring(stk_sample_ctx *target, const stk_sample_ctx *image, stk_memory_gate *gate, int *whole)
{
    const uint32_t size[2] = { image->width, image->height };
    *whole = 0;
    const int r =
        target->config->cache ? stk_cache_lookup_bring(target, gate, whole) : stk_fetch(target, gate);
    if (r) return r;
    return stk_sample_ctx_in_file(target, target->sample.image_path,
                                  stk_target_size(size, (uint32_t[2]){ target->width, target->height },
                                                  image->config->scale, image->sample.image_path,
                                                  target->err));
}

void stk_target_count(stk_sample_cache_lookup *image, const stk_sample_cache_lookup *target)
{
    const int kept = (image->found || image->stored) && (target->found || target->stored);
    image->found &= target->found;
    image->from_ram &= target->from_ram;
    image->stored = kept && !image->found;
}

/* Into its row, after its image: in the same place, once its size is known to fit. Its times are those of an
 * image's stages. */
static int load_target(stk_sample_ctx *image, stk_memory_gate *gate, void *row)
{
    const stk_loader_config *config = image->config;
    stk_sample_ctx ctx = stk_target_begin(image, row);
    int whole, r = stk_target_bring(&ctx, image, gate, &whole);
    if (r) return r;
    ctx.plan = image->plan;
    stk_plan_enlarge(&ctx.plan, config->scale, config->colors_both);
    r = whole ? stk_sample_ctx_in_file(&ctx, ctx.sample.image_path, stk_decode_fit_cut(&ctx))
              : stk_decode_fit_region(&ctx);
    if (r) return r;
    r = stk_render(&ctx);
    stk_sample_ctx_stamp(&ctx, STOKE_STAGE_WRITE);
    stk_target_count(&image->kept, &ctx.kept);
    return stk_sample_ctx_in_file(&ctx, ctx.sample.image_path, r);
}

int stk_sample_load(stk_scratch *scratch, const stk_loader_config *config, stk_memory_gate *gate,
                    stk_slot *slot, uint32_t row, uint64_t id, stoke_error *err)
{
    stk_sample_ctx ctx;
    memset(scratch->times, 0, sizeof scratch->times);
    scratch->bytes_read = 0;
    stoke_draw draw = stk_sample_begin(&ctx, scratch, config, slot, row, err);
    ctx.sample = stoke_dataset_sample(config->dataset, id);
    int r = make_fitted(&ctx, gate, &draw);
    if (!r) {
        r = ctx.raw ? stk_raw_put(&ctx) : stk_render(&ctx);
        stk_sample_ctx_stamp(&ctx, STOKE_STAGE_WRITE);
        r = stk_sample_ctx_in_file(&ctx, ctx.sample.image_path, r);
    }
    if (!r && config->target) r = load_target(&ctx, gate, stk_slot_target_row(slot, row));
    stk_memory_gate_leave(gate, scratch);
    scratch->cache_hit = ctx.kept.found;
    scratch->cache_from_ram = ctx.kept.from_ram;
    scratch->cache_stored = ctx.kept.stored;
    slot->mix[row] = (stk_slot_row_mix){ ctx.plan.mix, ctx.plan.lambda, ctx.plan.mix_box };
    return r;
}
