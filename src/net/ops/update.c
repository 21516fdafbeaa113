/* SPDX-License-Identifier: Apache-2.0
 *
 * Norm and update of all parameters, one pass over memory each.
 *
 * The flat array is cut into chunks wherever groups begin; a chunk goes through the groups it meets. Elements
 * do not depend on each other, and the norm is summed chunk by chunk in order: any number of threads, or of
 * processes that take some chunks each, gives the same bits.
 */
#include "src/net/ops/ops.h"

#include <math.h>

#include "src/net/kernels/net_table.h"

/* Frozen parameters: their gradients are not computed and not looked at. */
static int frozen(const stk_update_group *group)
{
    return group->lr_factor == 0;
}

/* The first group that reaches beyond element `at`. */
static size_t group_at(const stk_update *update, size_t at)
{
    size_t low = 0, high = update->group_count;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (update->groups[middle].first + update->groups[middle].count <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The part of a chunk of the array that lies in one group. */
typedef struct group_span {
    size_t group, first, count;
} group_span;

/* Steps through the groups of a chunk, frozen ones left out; start with span.group = group_at(chunk). */
static int next_span(const stk_update *update, uint32_t chunk, group_span *span)
{
    const size_t begin = (size_t)chunk * STOKE_NET_CHUNK;
    const size_t end = begin + STOKE_NET_CHUNK < update->count ? begin + STOKE_NET_CHUNK : update->count;
    for (; span->group < update->group_count; span->group++) {
        const stk_update_group *group = &update->groups[span->group];
        if (group->first >= end) return 0;
        if (frozen(group) || !group->count) continue;
        const size_t group_end = group->first + group->count;
        span->first = group->first > begin ? group->first : begin;
        span->count = (group_end < end ? group_end : end) - span->first;
        return 1;
    }
    return 0;
}

typedef struct norm_job {
    const stk_exec *run;
    const stk_update *update;
    uint32_t first;
    double *sums; /* per chunk from `first` on */
} norm_job;

static void norm_task(const void *context, uint32_t task, uint32_t thread)
{
    (void)thread;
    const norm_job *job = context;
    const uint32_t chunk = job->first + task;
    double sum = 0;
    for (group_span s = { .group = group_at(job->update, (size_t)chunk * STOKE_NET_CHUNK) };
         next_span(job->update, chunk, &s); s.group++)
        sum += job->run->table->update.squares(job->update->gradients + s.first, s.count);
    job->sums[task] = sum;
}

void stk_gradient_squares(const stk_exec *run, const stk_update *update, uint32_t first, uint32_t end,
                          double *squares)
{
    const norm_job job = { run, update, first, squares };
    stk_threadpool_run(run->pool, norm_task, &job, end - first);
}

double stk_gradient_norm(const double *squares, uint32_t chunks, double factor)
{
    double sum = 0;
    for (uint32_t i = 0; i < chunks; i++) sum += squares[i];
    return sqrt(sum) * fabs(factor);
}

typedef struct step_job {
    const stk_exec *run;
    const stk_update *update;
    const stoke_update *settings;
    uint32_t first;
    stk_update_step step; /* what all groups have in common */
    double correction1;
} step_job;

static stk_update_step step_of(const step_job *job, const stk_update_group *group)
{
    stk_update_step step = job->step;
    const double lr = job->settings->lr * group->lr_factor;
    const double decay = job->settings->weight_decay * group->decay_factor;
    step.lr = (float)lr;
    if (job->update->second) {
        step.decay = (float)(1 - lr * decay);
        step.rate = (float)(lr / job->correction1);
    } else {
        step.decay = (float)decay;
    }
    return step;
}

static float *at(float *array, size_t first)
{
    return array ? array + first : NULL;
}

static void step_task(const void *context, uint32_t task, uint32_t thread)
{
    (void)thread;
    const step_job *job = context;
    const stk_update *update = job->update;
    const stk_update_table *table = &job->run->table->update;
    const uint32_t chunk_number = job->first + task;
    for (group_span s = { .group = group_at(update, (size_t)chunk_number * STOKE_NET_CHUNK) };
         next_span(update, chunk_number, &s); s.group++) {
        const stk_update_step step = step_of(job, &update->groups[s.group]);
        const stk_update_chunk chunk = { .values = update->values + s.first,
                                         .gradients = update->gradients + s.first,
                                         .first = at(update->first, s.first),
                                         .second = at(update->second, s.first),
                                         .average = at(update->average, s.first),
                                         .count = s.count };
        (update->second ? table->adamw : table->sgd)(&step, &chunk);
    }
}

void stk_update_run(const stk_exec *run, const stk_update *update, uint32_t first, uint32_t end,
                    const stoke_update *settings, uint64_t step, double factor)
{
    step_job job = { .run = run, .update = update, .settings = settings, .first = first };
    job.correction1 = 1 - pow(settings->beta1, (double)step);
    job.step = (stk_update_step){ .factor = (float)factor,
                                  .beta1 = (float)settings->beta1,
                                  .beta2 = (float)settings->beta2,
                                  .rest1 = (float)(1 - settings->beta1),
                                  .rest2 = (float)(1 - settings->beta2),
                                  .root = (float)(1 / sqrt(1 - pow(settings->beta2, (double)step))),
                                  .eps = (float)settings->eps,
                                  .keep = (float)settings->average_decay,
                                  .take = (float)(1 - settings->average_decay),
                                  .nesterov = settings->nesterov };
    stk_threadpool_run(run->pool, step_task, &job, end - first);
}
