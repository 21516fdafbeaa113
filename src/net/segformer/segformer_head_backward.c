/* SPDX-License-Identifier: Apache-2.0
 *
 * The decode head backward. Two passes over the large map, as in forward: blocks of rows from the gradient of
 * the logits to g, the gradient that arrives at the batch norm, with the two sums per channel it needs; then
 * strips of lines from g to dy, spread to the smaller maps. What the large map gives to the classifier and to
 * stage 1 is multiplied on the way, while a block or line is in the cache: r and dy are never stored. The
 * smaller stages are plain linear layers; then the folded weights are taken apart.
 *
 * Sums of dy over all rows are zero: the batch norm takes every constant away. So the biases b_i of the
 * stages have no gradient, and W_i gets none through them. PyTorch finds rounding errors there, which AdamW
 * would turn into full steps.
 */
#include "src/net/segformer/segformer_head.h"

#include <string.h>

#include "src/net/kernels/net_table.h"

enum {
    ROW_TASKS = 64,   /* at most: each has its own gradients of the classifier */
    TASK_BLOCKS = 4,  /* blocks of rows of a task, at least */
    STRIP_LINES = 16, /* a strip adds to one or two lines more of each smaller map than it has of them: the
                         sums to be joined are 0.44 of y; 8 lines would make it 0.55 */
    JOIN_FLOATS = 4096,
};

typedef struct backward_job {
    const stk_exec *run;
    const stk_segformer_head *head;
    stk_segformer_head_room_map *map;
    const void *features; /* of stage 1 */
    float *d_features;    /* of stage 1; NULL: not wanted */
    const unsigned char *y;
    const float *d_logits;
    unsigned char *g; /* like y */
    stk_head_norm norm;
    stk_head_norm_back back;
    double *sums;     /* of all rows: g, then g times the distance from the mean, [2][D] */
    size_t task_rows; /* rows of a task */
    uint32_t row_tasks;
    size_t task_floats;          /* sums of a task: two rows of D, then dW_c and db_c */
    uint32_t strips;             /* of a picture */
    size_t touched[STK_SMALLER]; /* lines of a smaller map a strip adds to, at most */
    size_t strip_floats;         /* sums of a strip: dM_1, then those lines */
} backward_job;

/* ---- geometry ---- */

static uint32_t strip_end(const stk_segformer_head *head, uint32_t strip)
{
    const uint32_t end = (strip + 1) * STRIP_LINES;
    return end < head->height[0] ? end : head->height[0];
}

/* First and last line of smaller map s that lines of the strip are made of. */
static uint32_t first_touched(const stk_segformer_head_room_map *map, int s, uint32_t strip)
{
    return map->down[s].taps[strip * STRIP_LINES].a;
}

static uint32_t last_touched(const stk_segformer_head *head, const stk_segformer_head_room_map *map, int s,
                             uint32_t strip)
{
    return map->down[s].taps[strip_end(head, strip) - 1].b;
}

/* Without tables, for the plan: STRIP_LINES - 1 steps of small / large, and a sample to either side. */
static size_t most_touched(const stk_segformer_head *head, int s)
{
    const size_t small = head->height[s + 1], large = head->height[0];
    const size_t most = ((STRIP_LINES - 1) * small + large - 1) / large + 2;
    return most < small ? most : small;
}

static void cut(backward_job *job)
{
    const stk_segformer_head *head = job->head;
    const size_t size = head->size, rows = stk_segformer_head_rows(head, 0),
                 block = stk_segformer_head_block(head);
    const size_t blocks = (rows + block - 1) / block, share = (blocks + ROW_TASKS - 1) / ROW_TASKS;
    job->task_rows = block * (share > TASK_BLOCKS ? share : TASK_BLOCKS);
    job->row_tasks = (uint32_t)((rows + job->task_rows - 1) / job->task_rows);
    job->task_floats = 2 * size + head->classes * size + stk_logits_stride(head->classes);
    job->strips = stk_segformer_head_strips(head, STRIP_LINES);
    job->strip_floats = size * head->channels[0];
    for (int s = 0; s < STK_SMALLER; s++) {
        job->touched[s] = most_touched(head, s);
        job->strip_floats += job->touched[s] * head->width[s + 1] * size;
    }
}

stk_exec_need stk_segformer_head_backward_need(const stk_exec *run, const stk_segformer_head *head)
{
    backward_job job = { .head = head };
    cut(&job);
    const size_t size = head->size, element = stk_float_bytes(run->type),
                 block = stk_segformer_head_block(head);
    const size_t narrow = run->type == STK_F32 ? 0 : stk_logits_stride(head->classes) * element;
    const size_t rows = block * (size * (sizeof(float) + element) + narrow);
    const size_t line = head->width[0] * size * element;
    const size_t strips = (size_t)head->batch * job.strips * job.strip_floats;
    const size_t tasks = job.row_tasks * job.task_floats;
    return (stk_exec_need){ run->table->gemm.of[run->type].outer_scratch + (rows > line ? rows : line),
                            strips > tasks ? strips : tasks };
}

/* ---- sums of several tasks, in the order of the tasks ---- */

typedef struct join_job {
    const stk_exec *run;
    float *parts; /* of the first task; becomes the sum */
    size_t stride, tasks, count;
    float *to;
    int add;
} join_job;

static void join_task(const void *context, uint32_t task, uint32_t thread)
{
    (void)thread;
    const join_job *job = context;
    const size_t at = task * (size_t)JOIN_FLOATS;
    const size_t count = job->count - at < JOIN_FLOATS ? job->count - at : JOIN_FLOATS;
    float *sum = job->parts + at, *to = job->to + at;
    for (size_t k = 1; k < job->tasks; k++)
        job->run->table->head.join[STK_F32](count, sum, sum + k * job->stride, sum);
    job->run->table->head.join[STK_F32](count, sum, job->add ? to : NULL, to);
}

static void join_all(const join_job *job)
{
    if (job->to)
        stk_threadpool_run(job->run->pool, join_task, job,
                           (uint32_t)((job->count + JOIN_FLOATS - 1) / JOIN_FLOATS));
}

/* ---- from the logits to g, and the classifier's gradients ---- */

static void rows_block(const backward_job *job, size_t row, size_t rows, unsigned char *scratch, float *sums,
                       int add)
{
    const stk_exec *run = job->run;
    const stk_segformer_head *head = job->head;
    const stk_gemm *gemm = &run->table->gemm.of[run->type];
    const size_t size = head->size, stride = stk_logits_stride(head->classes);
    float *dr = (float *)(void *)(scratch + gemm->outer_scratch);
    unsigned char *r = (unsigned char *)(dr + stk_segformer_head_block(head) * size);
    const void *d_logits = job->d_logits + row * stride;
    if (run->type != STK_F32) {
        void *narrow = stk_at(r, stk_segformer_head_block(head) * size, run->type);
        run->table->head.join[run->type](rows * stride, d_logits, NULL, narrow);
        d_logits = narrow;
    }
    stk_linear_input_rows(run, &job->map->classifier, rows, d_logits, stride, dr, size, STK_F32, 0);
    run->table->head.activate_back[run->type](&job->norm, row, rows, stk_at(job->y, row * size, run->type),
                                              dr, r, stk_at(job->g, row * size, run->type), sums);
    if (head->d_classifier_weight || head->d_classifier_bias)
        gemm->outer(&(stk_gemm_outer){ .rows = rows,
                                       .n = head->classes,
                                       .k = size,
                                       .dy = d_logits,
                                       .x = r,
                                       .dy_stride = stride,
                                       .x_stride = size,
                                       .dw = sums + 2 * size,
                                       .dw_stride = size,
                                       .db = sums + 2 * size + head->classes * size,
                                       .add = add,
                                       .scratch = scratch });
}

static void rows_task(const void *context, uint32_t task, uint32_t thread)
{
    const backward_job *job = context;
    const size_t block = stk_segformer_head_block(job->head), all = stk_segformer_head_rows(job->head, 0);
    const size_t from = task * job->task_rows, to = all - from < job->task_rows ? all : from + job->task_rows;
    float *sums = job->run->partial + task * job->task_floats;
    memset(sums, 0, 2 * job->head->size * sizeof *sums);
    for (size_t row = from; row < to; row += block)
        rows_block(job, row, to - row < block ? to - row : block, stk_exec_scratch(job->run, thread), sums,
                   row > from);
}

/* Honours accumulation; `to` may be NULL. */
static void give(const stk_exec *run, float *to, size_t at, double value)
{
    if (to) to[at] = (float)(run->accumulate ? to[at] + value : value);
}

/* 32 channels: the tasks' sums in their order. */
static void sums_task(const void *context, uint32_t task, uint32_t thread)
{
    (void)thread;
    const backward_job *job = context;
    const size_t size = job->head->size;
    for (size_t c = task * 32; c < task * 32 + 32; c++) {
        double g = 0, g_off = 0;
        for (uint32_t k = 0; k < job->row_tasks; k++) {
            g += job->run->partial[k * job->task_floats + c];
            g_off += job->run->partial[k * job->task_floats + size + c];
        }
        job->sums[c] = g;
        job->sums[size + c] = g_off;
    }
}

/* `classifier` NULL: its gradients go where they belong; else there, weights and then bias. */
static void rows_pass(const backward_job *job, float *classifier)
{
    const stk_exec *run = job->run;
    const stk_segformer_head *head = job->head;
    const size_t weights = (size_t)head->classes * head->size;
    stk_threadpool_run(run->pool, rows_task, job, job->row_tasks);
    stk_threadpool_run(run->pool, sums_task, job, head->size / 32);
    join_job sums = { .run = run,
                      .parts = run->partial + 2 * (size_t)head->size,
                      .stride = job->task_floats,
                      .tasks = job->row_tasks,
                      .count = weights,
                      .to = classifier ? classifier : head->d_classifier_weight,
                      .add = classifier ? 0 : run->accumulate };
    join_all(&sums);
    sums.parts += sums.count;
    sums.count = head->classes;
    sums.to = classifier ? classifier + weights : head->d_classifier_bias;
    join_all(&sums);
}

/* Of the classifier, from where rows_pass left them. */
static void give_classifier(const stk_exec *run, const stk_segformer_head *head, float *classifier)
{
    const size_t weights = (size_t)head->classes * head->size;
    join_job one = { .run = run,
                     .parts = classifier,
                     .tasks = 1,
                     .count = weights,
                     .to = head->d_classifier_weight,
                     .add = run->accumulate };
    join_all(&one);
    one.parts += weights;
    one.count = head->classes;
    one.to = head->d_classifier_bias;
    join_all(&one);
}

static void give_norm(const stk_exec *run, const stk_segformer_head *head, const double *sums)
{
    const stk_segformer_head_room_map *map = stk_segformer_head_map(head);
    for (size_t c = 0; c < head->size; c++) {
        const double rstd = map->rstd[c];
        give(run, head->d_norm_beta, c, sums[c]);
        give(run, head->d_norm_gamma, c, sums[head->size + c] * rstd);
    }
}

/* ---- from g to dy, to stage 1 and to the smaller maps ---- */

static int fold_wanted(const stk_segformer_head *head, int i)
{
    return head->d_fuse_weight || head->d_linear_weight[i];
}

static float *strip_line(const backward_job *job, size_t strip, int s, size_t line)
{
    const stk_segformer_head *head = job->head;
    float *at = job->run->partial + strip * job->strip_floats + head->size * head->channels[0];
    for (int k = 0; k < s; k++) at += job->touched[k] * head->width[k + 1] * head->size;
    return at + line * head->width[s + 1] * head->size;
}

/* Stage 1: dM_1 of the strip and the gradient of the features, while dy of the line is at hand. */
static void line_to_stage(const backward_job *job, size_t row, const void *dy, float *d_folded, int add,
                          void *scratch)
{
    const stk_exec *run = job->run;
    const stk_segformer_head *head = job->head;
    const size_t width = head->width[0], channels = head->channels[0];
    if (fold_wanted(head, 0))
        run->table->gemm.of[run->type].outer(
            &(stk_gemm_outer){ .rows = width,
                               .n = head->size,
                               .k = channels,
                               .dy = dy,
                               .x = stk_at(job->features, row * channels, run->type),
                               .dy_stride = head->size,
                               .x_stride = channels,
                               .dw = d_folded,
                               .dw_stride = channels,
                               .add = add,
                               .scratch = scratch });
    if (job->d_features)
        stk_linear_input_rows(run, &job->map->stage[0], width, dy, head->size,
                              job->d_features + row * channels, channels, STK_F32, 0);
}

static void strip_task(const void *context, uint32_t task, uint32_t thread)
{
    const backward_job *job = context;
    const stk_exec *run = job->run;
    const stk_segformer_head *head = job->head;
    const size_t width = head->width[0], size = head->size;
    const uint32_t picture = task / job->strips, strip = task % job->strips, from = strip * STRIP_LINES;
    unsigned char *scratch = stk_exec_scratch(run, thread);
    void *dy = scratch + run->table->gemm.of[run->type].outer_scratch;
    uint32_t fresh[STK_SMALLER]; /* lines from here on hold nothing yet */
    for (int s = 0; s < STK_SMALLER; s++) fresh[s] = first_touched(job->map, s, strip);
    for (uint32_t h = from; h < strip_end(head, strip); h++) {
        const size_t row = ((size_t)picture * head->height[0] + h) * width;
        run->table->head.norm_back[run->type](&job->back, width, stk_at(job->y, row * size, run->type),
                                              stk_at(job->g, row * size, run->type), dy);
        for (int s = 0; s < STK_SMALLER; s++) {
            const stk_head_tap tap = job->map->down[s].taps[h];
            const uint32_t first = first_touched(job->map, s, strip);
            const size_t bytes = head->width[s + 1] * size * sizeof(float);
            for (; fresh[s] <= tap.b; fresh[s]++)
                memset(strip_line(job, task, s, fresh[s] - first), 0, bytes);
            run->table->head.spread[run->type](&job->map->across[s], head->size, dy, tap.a_weight,
                                               strip_line(job, task, s, tap.a - first), tap.b_weight,
                                               strip_line(job, task, s, tap.b - first));
        }
        line_to_stage(job, row, dy, run->partial + task * job->strip_floats, h > from, scratch);
    }
}

/* A line of a smaller map: what the strips gave it, in their order. There is one at least, for no map is
 * larger than the first. */
static void gather_line(const backward_job *job, int s, uint32_t picture, uint32_t l)
{
    const stk_exec *run = job->run;
    const stk_segformer_head *head = job->head;
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
    run->table->head.join[run->type](count, sum, more, out);
}

static void gather_task(const void *context, uint32_t task, uint32_t thread)
{
    (void)thread;
    const backward_job *job = context;
    int s = 0;
    while (task >= job->head->batch * job->head->height[s + 1])
        task -= job->head->batch * job->head->height[++s];
    gather_line(job, s, task / job->head->height[s + 1], task % job->head->height[s + 1]);
}

static void strips_pass(const backward_job *job)
{
    const stk_exec *run = job->run;
    const stk_segformer_head *head = job->head;
    stk_threadpool_run(run->pool, strip_task, job, head->batch * job->strips);
    stk_threadpool_run(run->pool, gather_task, job,
                       head->batch * (head->height[1] + head->height[2] + head->height[3]));
    join_all(&(join_job){ .run = run,
                          .parts = run->partial,
                          .stride = job->strip_floats,
                          .tasks = (size_t)head->batch * job->strips,
                          .count = (size_t)head->size * head->channels[0],
                          .to = fold_wanted(head, 0) ? job->map->d_folded[0] : NULL });
}

/* ---- the smaller stages, and the folded weights taken apart ---- */

/* dM_i and d_features[i] from dz_i. */
static void stage_gradients(const backward_job *job, int i, const void *features, float *d_features)
{
    const stk_segformer_head *head = job->head;
    const stk_linear *linear = &job->map->stage[i];
    const stk_exec_rows dz = stk_rows_of(job->map->z[i - 1], head->size);
    const stk_exec_rows x = stk_rows_of(features, head->channels[i]);
    stk_exec fresh = *job->run; /* dM_i is of this batch alone: accumulation is for what is made of it */
    fresh.accumulate = 0;
    if (fold_wanted(head, i)) stk_linear_weight(&fresh, linear, stk_segformer_head_rows(head, i), &x, &dz);
    if (d_features)
        stk_linear_input(job->run, linear, stk_segformer_head_rows(head, i), &dz, d_features,
                         head->channels[i], STK_F32, 0);
}

/* dW_i = dM_i L_i^T and dL_i = W_i^T dM_i. */
static void unfold(const backward_job *job, int i)
{
    const stk_exec *run = job->run;
    const stk_segformer_head *head = job->head;
    const size_t size = head->size, channels = head->channels[i], fuse_stride = STK_STAGES * size;
    const size_t column = (size_t)(STK_STAGES - 1 - i) * size;
    const stk_linear_matrix d_folded = { .data = job->map->d_folded[i], .stride = channels };
    if (head->d_fuse_weight)
        stk_multiply(
            run, size, size, channels, d_folded,
            (stk_linear_matrix){ .data = head->linear_weight[i], .stride = channels, .transposed = 1 },
            head->d_fuse_weight + column, fuse_stride, run->accumulate, job->map->multiply);
    if (head->d_linear_weight[i])
        stk_multiply(
            run, size, channels, size,
            (stk_linear_matrix){ .data = head->fuse_weight + column, .stride = fuse_stride, .transposed = 1 },
            d_folded, head->d_linear_weight[i], channels, run->accumulate, job->map->multiply);
    if (head->d_linear_bias[i] && !run->accumulate) memset(head->d_linear_bias[i], 0, size * sizeof(float));
}

/* ---- the whole, and its two parts ---- */

void stk_segformer_head_sum(const stk_exec *run, stk_segformer_head *head, void *y, const float *d_logits,
                            void *d_y, float *classifier, double *sums)
{
    backward_job job = { .run = run,
                         .head = head,
                         .map = stk_segformer_head_map(head),
                         .y = y,
                         .d_logits = d_logits,
                         .g = d_y,
                         .norm = stk_segformer_head_norm_of(head),
                         .sums = sums };
    cut(&job);
    rows_pass(&job, classifier);
}

void stk_segformer_head_spread(const stk_exec *run, stk_segformer_head *head,
                               const void *const features[STK_STAGES], void *y, void *d_y, float *classifier,
                               const double *sums, float *const d_features[STK_STAGES])
{
    stk_segformer_head_room_map *map = stk_segformer_head_map(head);
    backward_job job = { .run = run,
                         .head = head,
                         .map = map,
                         .features = features[0],
                         .d_features = d_features[0],
                         .y = y,
                         .g = d_y,
                         .back = { head->size, map->mean, map->gain, map->g_mean, map->slope } };
    cut(&job);
    give_norm(run, head, sums);
    if (classifier) give_classifier(run, head, classifier);
    strips_pass(&job);
    for (int i = 1; i < STK_STAGES; i++) stage_gradients(&job, i, features[i], d_features[i]);
    for (int i = 0; i < STK_STAGES; i++) unfold(&job, i);
}

void stk_segformer_head_backward(const stk_exec *run, stk_segformer_head *head,
                                 const void *const features[STK_STAGES], void *y, const float *d_logits,
                                 void *d_y, float *const d_features[STK_STAGES])
{
    double *sums = stk_segformer_head_map(head)->sums;
    stk_segformer_head_sum(run, head, y, d_logits, d_y, NULL, sums);
    stk_segformer_head_slopes(run, head, sums, 1);
    stk_segformer_head_spread(run, head, features, y, d_y, NULL, sums, d_features);
}
