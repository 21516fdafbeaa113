/* SPDX-License-Identifier: Apache-2.0
 *
 * The way of a sample: fetch, draw, prefix, lay out. Each step stamps its time.
 */
#include "src/loader/sample.h"

#include <string.h>

#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/loader/job.h"

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
    job->last = now;
}

int stk_job_in_file(const stk_job *job, const char *path, int status)
{
    if (status) stk_error_prefix(job->err, path);
    return status;
}

/* The fitted picture. Here a cache stands between the two steps of the second way: it gives what
 * stk_prefix_whole would make, or takes it. */
static int make_prefix(stk_job *job)
{
    return stk_prefix_region(job);
}

static int lay_out(stk_job *job)
{
    int r = stk_lay_image(job);
    if (!r) r = stk_lay_mask(job);
    stk_job_stamp(job, STOKE_STAGE_WRITE);
    return stk_job_in_file(job, job->sample.image_path, r);
}

int stk_sample_load(stk_bench *bench, const stk_recipe *recipe, stk_budget *budget, uint64_t id,
                    uint64_t epoch, uint64_t position, void *image_row, void *mask_row, stoke_error *err)
{
    memset(bench->times, 0, sizeof bench->times);
    bench->bytes_read = 0;
    stk_job job = { .bench = bench,
                    .recipe = recipe,
                    .sample = stoke_dataset_sample(recipe->dataset, id),
                    .image_row = image_row,
                    .mask_row = mask_row,
                    .last = stk_stamp_now(),
                    .err = err };
    int r = stk_fetch(&job, budget);
    if (r) return r;
    const stoke_draw draw = { recipe->seed, epoch,         position,       job.width,
                              job.height,   recipe->width, recipe->height, NULL };
    stoke_pipeline_draw(recipe->pipeline, &draw, &job.plan);
    r = make_prefix(&job);
    return r ? r : lay_out(&job);
}
