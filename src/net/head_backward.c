/* SPDX-License-Identifier: Apache-2.0
 *
 * The decode head backward. Two passes over the large map, as in forward: blocks of rows from the gradient of
 * the logits to g, the gradient that arrives at the batch norm, with the two sums per channel it needs; then
 * strips of lines from g to dy, spread to the smaller maps. What remains is linear layers and the folded
 * weights, taken apart.
 *
 * Sums of dy over all rows are zero: the batch norm takes every constant away. So the biases b_i of the
 * stages have no gradient, and W_i gets none through them. PyTorch finds rounding errors there, which AdamW
 * would turn into full steps.
 */
#include "src/net/head_room.h"

#include <string.h>

#include "src/net/net_table.h"

/* Blocks of rows of a task; lines of a strip. A strip adds to one or two lines more of each smaller map than
 * it has of them: with 16 lines the sums to be joined are 0.44 of y, with 8 they would be 0.55. */
enum { TASK_BLOCKS = 4, STRIP_LINES = 16 };

typedef struct backward_job {
    const stk_run *run;
    const stk_head *head;
    stk_head_room_map *map;
    const unsigned char *y;
    const float *d_logits;
    unsigned char *d_y; /* g, then dy */
    stk_head_norm norm;
    stk_head_norm_back back;
    uint32_t block_tasks;
    uint32_t strips;             /* of a picture */
    size_t touched[STK_SMALLER]; /* lines of a smaller map a strip adds to, at most */
    size_t strip_floats;         /* sums of a strip */
} backward_job;

/* ---- geometry of the strips ---- */

static uint32_t strip_end(const stk_head *head, uint32_t strip)
{
    const uint32_t end = (strip + 1) * STRIP_LINES;
    return end < head->height[0] ? end : head->height[0];
}

/* First and last line of smaller map s that lines of the strip are made of. */
static uint32_t first_touched(const stk_head_room_map *map, int s, uint32_t strip)
{
    return map->down[s].taps[strip * STRIP_LINES].a;
}

static uint32_t last_touched(const stk_head *head, const stk_head_room_map *map, int s, uint32_t strip)
{
    return map->down[s].taps[strip_end(head, strip) - 1].b;
}

/* Without tables, for the plan: STRIP_LINES - 1 steps of small / large, and a sample to either side. */
static size_t most_touched(const stk_head *head, int s)
{
    const size_t small = head->height[s + 1], large = head->height[0];
    const size_t most = ((STRIP_LINES - 1) * small + large - 1) / large + 2;
    return most < small ? most : small;
}

static void strip_sizes(backward_job *job)
{
    job->strips = stk_head_strips(job->head, STRIP_LINES);
    job->strip_floats = 0;
    for (int s = 0; s < STK_SMALLER; s++) {
        job->touched[s] = most_touched(job->head, s);
        job->strip_floats += job->touched[s] * job->head->width[s + 1] * job->head->size;
    }
}

static uint32_t block_tasks(const stk_head *head)
{
    const size_t rows = stk_head_block(head) * TASK_BLOCKS;
    return (uint32_t)((stk_head_rows(head, 0) + rows - 1) / rows);
}

stk_need stk_head_backward_need(const stk_run *run, const stk_head *head)
{
    backward_job job = { .head = head };
    strip_sizes(&job);
    const size_t strips = (size_t)head->batch * job.strips * job.strip_floats;
    const size_t sums = block_tasks(head) * (size_t)2 * head->size;
    const size_t narrow = run->type == STK_F32 ? 0 : stk_logits_stride(head->classes) * 2;
    return (stk_need){ stk_head_block(head) * (head->size * sizeof(float) + narrow),
                       strips > sums ? strips : sums };
}

/* ---- from the logits to g ---- */

static void rows_block(const backward_job *job, size_t row, size_t rows, void *scratch, float *sums)
{
    const stk_run *run = job->run;
    const size_t size = job->head->size, stride = stk_logits_stride(job->head->classes);
    float *dr = scratch;
    const void *d_logits = job->d_logits + row * stride;
    if (run->type != STK_F32) {
        void *narrow = dr + stk_head_block(job->head) * size;
        run->table->head.join[run->type](rows * stride, d_logits, NULL, narrow);
        d_logits = narrow;
    }
    stk_linear_input_rows(run, &job->map->classifier, rows, d_logits, stride, dr, size, STK_F32, 0);
    run->table->head.activate_back[run->type](&job->norm, row, rows, stk_at(job->y, row * size, run->type),
                                              dr, stk_at(job->d_y, row * size, run->type), sums);
}

static void rows_task(const void *context, uint32_t task, uint32_t thread)
{
    const backward_job *job = context;
    const size_t size = job->head->size, block = stk_head_block(job->head), all = stk_head_rows(job->head, 0);
    float *sums = job->run->partial + task * 2 * size;
    memset(sums, 0, 2 * size * sizeof *sums);
    for (size_t k = 0; k < TASK_BLOCKS; k++) {
        const size_t row = (task * (size_t)TASK_BLOCKS + k) * block;
        if (row >= all) return;
        rows_block(job, row, all - row < block ? all - row : block, stk_scratch(job->run, thread), sums);
    }
}

/* Honours accumulation; `to` may be NULL. */
static void give(const stk_run *run, float *to, size_t at, double value)
{
    if (to) to[at] = (float)(run->accumulate ? to[at] + value : value);
}

/* 32 channels: the tasks' sums in their order, the gradients of the norm, and what dy needs. */
static void sums_task(const void *context, uint32_t task, uint32_t thread)
{
    (void)thread;
    const backward_job *job = context;
    const stk_head *head = job->head;
    stk_head_room_map *map = job->map;
    const size_t size = head->size;
    const double rows = (double)stk_head_rows(head, 0);
    for (size_t c = task * 32; c < task * 32 + 32; c++) {
        double g = 0, g_off = 0;
        for (uint32_t k = 0; k < job->block_tasks; k++) {
            g += job->run->partial[k * 2 * size + c];
            g_off += job->run->partial[k * 2 * size + size + c];
        }
        const double rstd = map->rstd[c];
        give(job->run, head->d_norm_beta, c, g);
        give(job->run, head->d_norm_gamma, c, g_off * rstd);
        map->gain[c] = (float)(head->norm_gamma[c] * rstd);
        map->g_mean[c] = (float)(g / rows);
        map->slope[c] = (float)(head->norm_gamma[c] * rstd * rstd * rstd * g_off / rows);
    }
}

/* ---- the classifier's weights ---- */

static void make_r(const void *context, size_t first, size_t count, void *out)
{
    const backward_job *job = context;
    const stk_run *run = job->run;
    run->table->head.activate[run->type](&job->norm, first, count,
                                         stk_at(job->y, first * job->head->size, run->type), out);
}

static void make_d_logits(const void *context, size_t first, size_t count, void *out)
{
    const backward_job *job = context;
    const size_t stride = stk_logits_stride(job->head->classes);
    job->run->table->head.join[job->run->type](count * stride, job->d_logits + first * stride, NULL, out);
}

static void classifier_weight(const backward_job *job)
{
    const stk_head *head = job->head;
    if (!head->d_classifier_weight && !head->d_classifier_bias) return;
    const stk_rows r = { .stride = head->size, .make = make_r, .context = job };
    stk_rows dy = stk_rows_of(job->d_logits, stk_logits_stride(head->classes));
    if (job->run->type != STK_F32) {
        dy.make = make_d_logits;
        dy.context = job;
    }
    stk_linear_weight(job->run, &job->map->classifier, stk_head_rows(head, 0), &r, &dy);
}

/* ---- from g to dy and the smaller maps ---- */

static float *strip_line(const backward_job *job, size_t strip, int s, size_t line)
{
    float *at = job->run->partial + strip * job->strip_floats;
    for (int k = 0; k < s; k++) at += job->touched[k] * job->head->width[k + 1] * job->head->size;
    return at + line * job->head->width[s + 1] * job->head->size;
}

static void strip_task(const void *context, uint32_t task, uint32_t thread)
{
    (void)thread;
    const backward_job *job = context;
    const stk_run *run = job->run;
    const stk_head *head = job->head;
    const size_t line = (size_t)head->width[0] * head->size;
    const uint32_t picture = task / job->strips, strip = task % job->strips;
    uint32_t fresh[STK_SMALLER]; /* lines from here on hold nothing yet */
    for (int s = 0; s < STK_SMALLER; s++) fresh[s] = first_touched(job->map, s, strip);
    for (uint32_t h = strip * STRIP_LINES; h < strip_end(head, strip); h++) {
        const size_t at = ((size_t)picture * head->height[0] + h) * line;
        void *dy = stk_at(job->d_y, at, run->type);
        run->table->head.norm_back[run->type](&job->back, head->width[0], stk_at(job->y, at, run->type), dy);
        for (int s = 0; s < STK_SMALLER; s++) {
            const stk_tap tap = job->map->down[s].taps[h];
            const uint32_t first = first_touched(job->map, s, strip);
            const size_t bytes = (size_t)head->width[s + 1] * head->size * sizeof(float);
            for (; fresh[s] <= tap.b; fresh[s]++)
                memset(strip_line(job, task, s, fresh[s] - first), 0, bytes);
            run->table->head.spread[run->type](&job->map->across[s], head->size, dy, tap.a_weight,
                                               strip_line(job, task, s, tap.a - first), tap.b_weight,
                                               strip_line(job, task, s, tap.b - first));
        }
    }
}

/* A line of a smaller map: what the strips gave it, in their order. */
static void join_line(const backward_job *job, int s, uint32_t picture, uint32_t l)
{
    const stk_run *run = job->run;
    const stk_head *head = job->head;
    const size_t count = (size_t)head->width[s + 1] * head->size;
    void *out = stk_at(job->map->z[s], ((size_t)picture * head->height[s + 1] + l) * count, run->type);
    float *sum = NULL, *more = NULL;
    for (uint32_t strip = 0; strip < job->strips; strip++) {
        const uint32_t first = first_touched(job->map, s, strip);
        if (l < first || l > last_touched(head, job->map, s, strip)) continue;
        if (more) run->table->head.join[STK_F32](count, sum, more, sum);
        float *part = strip_line(job, (size_t)picture * job->strips + strip, s, l - first);
        if (sum)
            more = part;
        else
            sum = part;
    }
    if (sum)
        run->table->head.join[run->type](count, sum, more, out);
    else
        memset(out, 0, count * stk_float_bytes(run->type)); /* a map reduced so much that no line reads it */
}

static void join_task(const void *context, uint32_t task, uint32_t thread)
{
    (void)thread;
    const backward_job *job = context;
    int s = 0;
    while (task >= job->head->batch * job->head->height[s + 1])
        task -= job->head->batch * job->head->height[++s];
    join_line(job, s, task / job->head->height[s + 1], task % job->head->height[s + 1]);
}

/* ---- the folded weights taken apart ---- */

/* dM_i and d_features[i] from dz_i. */
static void stage_gradients(const backward_job *job, int i, const void *features, float *d_features)
{
    const stk_head *head = job->head;
    const stk_linear *linear = &job->map->stage[i];
    const stk_rows dz = stk_rows_of(i ? job->map->z[i - 1] : (void *)job->d_y, head->size);
    const stk_rows x = stk_rows_of(features, head->channels[i]);
    stk_run fresh = *job->run; /* dM_i is of this batch alone: accumulation is for what is made of it */
    fresh.accumulate = 0;
    if (head->d_fuse_weight || head->d_linear_weight[i])
        stk_linear_weight(&fresh, linear, stk_head_rows(head, i), &x, &dz);
    if (d_features)
        stk_linear_input(job->run, linear, stk_head_rows(head, i), &dz, d_features, head->channels[i],
                         STK_F32, 0);
}

/* dW_i = dM_i L_i^T and dL_i = W_i^T dM_i. */
static void unfold(const backward_job *job, int i)
{
    const stk_run *run = job->run;
    const stk_head *head = job->head;
    const size_t size = head->size, channels = head->channels[i], fuse_stride = STK_STAGES * size;
    const size_t column = (size_t)(STK_STAGES - 1 - i) * size;
    const stk_matrix d_folded = { .data = job->map->d_folded[i], .stride = channels };
    if (head->d_fuse_weight)
        stk_multiply(run, size, size, channels, d_folded,
                     (stk_matrix){ .data = head->linear_weight[i], .stride = channels, .transposed = 1 },
                     head->d_fuse_weight + column, fuse_stride, run->accumulate, job->map->multiply);
    if (head->d_linear_weight[i])
        stk_multiply(
            run, size, channels, size,
            (stk_matrix){ .data = head->fuse_weight + column, .stride = fuse_stride, .transposed = 1 },
            d_folded, head->d_linear_weight[i], channels, run->accumulate, job->map->multiply);
    if (head->d_linear_bias[i] && !run->accumulate) memset(head->d_linear_bias[i], 0, size * sizeof(float));
}

void stk_head_backward(const stk_run *run, stk_head *head, const void *const features[STK_STAGES], void *y,
                       const float *d_logits, void *d_y, float *const d_features[STK_STAGES])
{
    stk_head_room_map *map = stk_head_map(head);
    backward_job job = { .run = run,
                         .head = head,
                         .map = map,
                         .y = y,
                         .d_logits = d_logits,
                         .d_y = d_y,
                         .norm = stk_head_norm_of(head),
                         .back = { head->size, map->mean, map->gain, map->g_mean, map->slope },
                         .block_tasks = block_tasks(head) };
    strip_sizes(&job);
    stk_team_run(run->team, rows_task, &job, job.block_tasks);
    stk_team_run(run->team, sums_task, &job, head->size / 32);
    classifier_weight(&job);
    stk_team_run(run->team, strip_task, &job, head->batch * job.strips);
    stk_team_run(run->team, join_task, &job,
                 head->batch * (head->height[1] + head->height[2] + head->height[3]));
    for (int i = 0; i < STK_STAGES; i++) {
        stage_gradients(&job, i, features[i], d_features[i]);
        unfold(&job, i);
    }
}
