/* SPDX-License-Identifier: Apache-2.0
 *
 * The way of a sample: fetch, draw, fitted sample, lay out (or leave that to a device). Each step
 * stamps its time.
 */
#include "src/loader/sample.h"

#include <string.h>

#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/loader/sample_ctx.h"
#include "src/loader/cache_lookup.h"

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

int stk_draw_plan(stk_sample_ctx *ctx, stoke_draw *draw)
{
    const stoke_pipeline *pipeline = ctx->config->pipeline;
    stoke_pipeline_draw(pipeline, draw, &ctx->plan);
    if (!ctx->plan.wants_focus || (!ctx->ids.data && !ctx->sample.mask_path)) return STOKE_OK;
    uint32_t focus[2];
    int found = 0;
    int r = ctx->ids.data ? STOKE_OK : stk_decode_fit_ids(ctx);
    if (!r) r = stk_foreground_crop(ctx, focus, &found);
    if (!r && found) {
        draw->focus = focus;
        stoke_pipeline_draw(pipeline, draw, &ctx->plan);
        draw->focus = NULL;
    }
    return r;
}

/* The plan and the fitted picture. A cache stands before the draw: it gives what stk_decode_fit_whole would
 * make, or takes it; stk_decode_fit_cut then does the rest. */
static int make_prefix(stk_sample_ctx *ctx, stk_memory_gate *gate, stoke_draw *draw)
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

int stk_lay(stk_sample_ctx *ctx)
{
    const stk_loader_config *config = ctx->config;
    int r = STOKE_OK;
    if (ctx->plan.warp)
        r = stk_warp_begin(&ctx->scratch->warper, &ctx->plan, config->width, config->height, ctx->err);
    if (!r) r = stk_render_image(ctx);
    return r ? r : stk_render_mask(ctx);
}

static int into_row(stk_sample_ctx *ctx)
{
    const int r = ctx->raw ? stk_raw_put(ctx) : stk_lay(ctx);
    stk_sample_ctx_stamp(ctx, STOKE_STAGE_WRITE);
    return stk_sample_ctx_in_file(ctx, ctx->sample.image_path, r);
}

int stk_sample_load(stk_scratch *scratch, const stk_loader_config *config, stk_memory_gate *gate,
                    const stk_sample_target *place, uint64_t id, stoke_error *err)
{
    memset(scratch->times, 0, sizeof scratch->times);
    scratch->bytes_read = 0;
    stk_sample_ctx ctx = { .scratch = scratch,
                           .config = config,
                           .sample = stoke_dataset_sample(config->dataset, id),
                           .image_row = place->image_row,
                           .mask_row = place->mask_row,
                           .raw = place->raw,
                           .last = stk_stamp_now(),
                           .err = err };
    stoke_draw draw = { .seed = config->seed,
                        .epoch = place->epoch,
                        .position = place->position,
                        .out_width = config->width,
                        .out_height = config->height };
    int r = make_prefix(&ctx, gate, &draw);
    if (!r) r = into_row(&ctx);
    stk_memory_gate_leave(gate, scratch);
    scratch->cache_hit = ctx.kept.found;
    scratch->cache_from_ram = ctx.kept.from_ram;
    scratch->cache_stored = ctx.kept.stored;
    *place->mix = (stk_slot_row_mix){ ctx.plan.mix, ctx.plan.lambda, ctx.plan.mix_box };
    return r;
}
