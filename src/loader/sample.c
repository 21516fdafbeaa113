/* SPDX-License-Identifier: Apache-2.0
 *
 * The way of a sample: fetch, draw, prefix, lay out (or leave that to a device). Each step stamps its time.
 */
#include "src/loader/sample.h"

#include <string.h>

#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/loader/job.h"
#include "src/loader/kept.h"

/* CPU time first: reading it is a system call, where a busy system likes to switch threads. The wait then
 * belongs to the stage that used up its slice, not to the next one. */
stk_stamp stk_stamp_now(void)
{
    const uint64_t cpu = stk_thread_cpu_ns();
    return (stk_stamp){ stk_now_ns(), cpu };
}

void stk_job_stamp(stk_job *job, stoke_stage stage)
{
    const stk_stamp now = stk_stamp_now();
    stoke_stage_time *time = &job->bench->times[stage];
    time->wall_ns += now.wall - job->last.wall;
    time->cpu_ns += now.cpu - job->last.cpu;
    time->count = 1;
    stk_spans_tell(&job->bench->spans, job->bench->number, stage, job->last.wall, now.wall,
                   job->bench->batch);
    job->last = now;
}

int stk_job_in_file(const stk_job *job, const char *path, int status)
{
    if (status) stk_error_prefix(job->err, path);
    return status;
}

int stk_draw_plan(stk_job *job, stoke_draw *draw)
{
    const stoke_pipeline *pipeline = job->recipe->pipeline;
    stoke_pipeline_draw(pipeline, draw, &job->plan);
    if (!job->plan.wants_focus || (!job->ids.data && !job->sample.mask_path)) return STOKE_OK;
    uint32_t focus[2];
    int found = 0;
    int r = job->ids.data ? STOKE_OK : stk_prefix_ids(job);
    if (!r) r = stk_focus(job, focus, &found);
    if (!r && found) {
        draw->focus = focus;
        stoke_pipeline_draw(pipeline, draw, &job->plan);
        draw->focus = NULL;
    }
    return r;
}

/* The plan and the fitted picture. A cache stands before the draw: it gives what stk_prefix_whole would make,
 * or takes it; stk_prefix_cut then does the rest. */
static int make_prefix(stk_job *job, stk_gate *gate, stoke_draw *draw)
{
    int whole = 0;
    int r = job->recipe->cache ? stk_kept_bring(job, gate, &whole) : stk_fetch(job, gate);
    if (r) return r;
    draw->source_width = job->width;
    draw->source_height = job->height;
    r = stk_draw_plan(job, draw);
    if (r) return r;
    return whole ? stk_job_in_file(job, job->sample.image_path, stk_prefix_cut(job)) : stk_prefix_region(job);
}

int stk_lay(stk_job *job)
{
    const stk_recipe *recipe = job->recipe;
    int r = STOKE_OK;
    if (job->plan.warp)
        r = stk_warp_begin(&job->bench->warper, &job->plan, recipe->width, recipe->height, job->err);
    if (!r) r = stk_lay_image(job);
    return r ? r : stk_lay_mask(job);
}

static int into_row(stk_job *job)
{
    const int r = job->raw ? stk_raw_put(job) : stk_lay(job);
    stk_job_stamp(job, STOKE_STAGE_WRITE);
    return stk_job_in_file(job, job->sample.image_path, r);
}

int stk_sample_load(stk_bench *bench, const stk_recipe *recipe, stk_gate *gate, const stk_place *place,
                    uint64_t id, stoke_error *err)
{
    memset(bench->times, 0, sizeof bench->times);
    bench->bytes_read = 0;
    stk_job job = { .bench = bench,
                    .recipe = recipe,
                    .sample = stoke_dataset_sample(recipe->dataset, id),
                    .image_row = place->image_row,
                    .mask_row = place->mask_row,
                    .raw = place->raw,
                    .last = stk_stamp_now(),
                    .err = err };
    stoke_draw draw = { .seed = recipe->seed,
                        .epoch = place->epoch,
                        .position = place->position,
                        .out_width = recipe->width,
                        .out_height = recipe->height };
    int r = make_prefix(&job, gate, &draw);
    if (!r) r = into_row(&job);
    stk_gate_leave(gate, bench);
    bench->cache_hit = job.kept.found;
    bench->cache_from_ram = job.kept.from_ram;
    bench->cache_stored = job.kept.stored;
    *place->mix = (stk_mix){ job.plan.mix, job.plan.lambda, job.plan.mix_box };
    return r;
}
