/* SPDX-License-Identifier: Apache-2.0
 *
 * The decode head forward. In training two passes over the large map: lines of y with the moments of their
 * channels, then blocks of rows through batch norm, ReLU, dropout and classifier. In inference the batch norm
 * is in the weights, so one pass goes from the features to the logits and y is never stored.
 *
 * Milliseconds of one core with AVX2 in f32, products + the rest (4x256x256 with 19 classes, 2x512x512 with
 * 150; the machine was busy, so these are upper bounds):
 *                     b0 4x256    b0 2x512    b2 4x256
 *   forward            9 +  6     41 + 10     47 + 19
 *   backward          20 +  9     90 + 17    127 + 27
 * An unfused trial spent 28 ms of two cores outside of products in the first.
 */
#include "src/net/segformer/segformer_head.h"

#include <math.h>
#include <string.h>

#include "src/net/kernels/net_table.h"

/* ---- folding ---- */

/* The head's room, and folding: M_i = W_i L_i and m = sum of W_i b_i, in inference with the batch norm as
 * well. */

/* ---- interpolation ---- */

/* F.interpolate(mode="bilinear", align_corners=False) to a given size: sample i of the larger map lies at
 * (i + 1/2) small / large - 1/2 of the smaller one, not below 0; beyond the last sample it is the last. */
static void stretch_taps(const stk_head_upsample *stretch)
{
    for (uint32_t i = 0; i < stretch->large; i++) {
        const double at = (i + 0.5) * stretch->small / stretch->large - 0.5;
        const double inside = at < 0 ? 0 : at;
        const uint32_t a = (uint32_t)inside, b = a + 1 < stretch->small ? a + 1 : a;
        const float weight = (float)(inside - a);
        stretch->taps[i] = (stk_head_tap){ a, b, 1 - weight, weight };
    }
}

/* Taps rise with i, so what reads sample j is one range. */
static void stretch_spreads(const stk_head_upsample *stretch)
{
    uint32_t at = 0, first = 0;
    for (uint32_t j = 0; j < stretch->small; j++) {
        while (first < stretch->large && stretch->taps[first].b < j) first++;
        stk_head_spread *spread = &stretch->spreads[j];
        *spread = (stk_head_spread){ .first = first, .at = at };
        for (uint32_t i = first; i < stretch->large && stretch->taps[i].a <= j; i++) {
            const stk_head_tap tap = stretch->taps[i];
            stretch->weights[at++] = (tap.a == j ? tap.a_weight : 0) + (tap.b == j ? tap.b_weight : 0);
            spread->count++;
        }
    }
}

/* ---- the room ---- */

/* Hands out pieces of the room; with base NULL it only counts. */
typedef struct cursor {
    unsigned char *base;
    size_t used;
} cursor;

static void *take(cursor *c, size_t bytes)
{
    void *piece = c->base ? c->base + c->used : NULL;
    c->used += (bytes + 63) / 64 * 64;
    return piece;
}

static float *take_floats(cursor *c, size_t count)
{
    return take(c, count * sizeof(float));
}

static void take_linear(cursor *c, const stk_exec *run, stk_linear *linear)
{
    linear->taps = linear->parts = 1;
    linear->weight_stride = linear->in;
    linear->forward = take(c, stk_linear_packed(run, linear, 0));
    linear->backward = take(c, stk_linear_packed(run, linear, 1));
}

static void take_stretch(cursor *c, stk_head_upsample *stretch, uint32_t small, uint32_t large)
{
    *stretch = (stk_head_upsample){ .small = small, .large = large };
    stretch->taps = take(c, large * sizeof *stretch->taps);
    stretch->spreads = take(c, small * sizeof *stretch->spreads);
    stretch->weights = take_floats(c, 2 * (size_t)large);
}

static size_t multiply_room(const stk_exec *run, const stk_segformer_head *head)
{
    size_t most = stk_multiply_room(run, STK_STAGES * (size_t)head->size, 1);
    for (int i = 0; i < STK_STAGES; i++) {
        const size_t to = stk_multiply_room(run, head->size, head->channels[i]);
        const size_t from = stk_multiply_room(run, head->channels[i], head->size);
        most = most > to ? most : to;
        most = most > from ? most : from;
    }
    return most;
}

static void take_stage(cursor *c, const stk_exec *run, const stk_segformer_head *head,
                       stk_segformer_head_room_map *map, int i)
{
    const size_t weights = (size_t)head->size * head->channels[i];
    map->folded[i] = take_floats(c, weights);
    map->d_folded[i] = take_floats(c, weights);
    map->stage[i] = (stk_linear){ .in = head->channels[i],
                                  .out = head->size,
                                  .weight = { map->folded[i] },
                                  .bias = { i ? NULL : map->bias },
                                  .d_weight = { map->d_folded[i] } };
    take_linear(c, run, &map->stage[i]);
    if (!i) return;
    map->z[i - 1] = take(c, stk_segformer_head_rows(head, i) * head->size * stk_float_bytes(run->type));
    take_stretch(c, &map->across[i - 1], head->width[i], head->width[0]);
    take_stretch(c, &map->down[i - 1], head->height[i], head->height[0]);
}

/* Lays `map` out in the room and returns the bytes used. */
static size_t lay_out(const stk_exec *run, const stk_segformer_head *head, unsigned char *base,
                      stk_segformer_head_room_map *map)
{
    cursor c = { .base = base };
    take(&c, sizeof *map);
    float **const vectors[] = { &map->bias,  &map->mean, &map->rstd,   &map->scale,
                                &map->shift, &map->gain, &map->g_mean, &map->slope };
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) *vectors[i] = take_floats(&c, head->size);
    map->moments = take(&c, stk_segformer_head_moments(head) * sizeof *map->moments);
    map->sums = take(&c, 2 * (size_t)head->size * sizeof *map->sums);
    map->stacked = take_floats(&c, STK_STAGES * (size_t)head->size);
    for (int i = 0; i < STK_STAGES; i++) take_stage(&c, run, head, map, i);
    map->classifier = (stk_linear){ .in = head->size,
                                    .out = head->classes,
                                    .weight = { head->classifier_weight },
                                    .bias = { head->classifier_bias } };
    take_linear(&c, run, &map->classifier);
    map->multiply = take(&c, multiply_room(run, head));
    return c.used;
}

size_t stk_segformer_head_room(const stk_exec *run, const stk_segformer_head *head)
{
    stk_segformer_head_room_map map;
    return lay_out(run, head, NULL, &map);
}

void stk_segformer_head_bind(const stk_exec *run, stk_segformer_head *head)
{
    stk_segformer_head_room_map *map = stk_segformer_head_map(head);
    lay_out(run, head, head->room, map);
    for (int s = 0; s < STK_SMALLER; s++) {
        const stk_head_upsample *const both[] = { &map->across[s], &map->down[s] };
        for (int k = 0; k < 2; k++) {
            stretch_taps(both[k]);
            stretch_spreads(both[k]);
        }
    }
}

static stk_exec_need segformer_head_forward_need(const stk_exec *run, const stk_segformer_head *head);

stk_exec_need stk_segformer_head_need(const stk_exec *run, const stk_segformer_head *head)
{
    stk_segformer_head_room_map map;
    lay_out(run, head, NULL, &map);
    stk_exec_need need = segformer_head_forward_need(run, head);
    if (!run->forward_only) need = stk_need_most(need, stk_segformer_head_backward_need(run, head));
    for (int i = 1; i < STK_STAGES;
         i++) /* of stage 1 and the classifier only rows that are there are multiplied */
        need = stk_need_most(need, stk_linear_need(run, &map.stage[i], stk_segformer_head_rows(head, i)));
    return need;
}

/* ---- its products ---- */

int stk_segformer_head_product_at(const stk_segformer_head *head, uint32_t index,
                                  stk_segformer_head_product *product)
{
    static const char *const NAMES[] = { "head, stage 1", "head, stage 2", "head, stage 3", "head, stage 4",
                                         "classifier" };
    if (index > STK_STAGES) return 0;
    const int classifies = index == STK_STAGES;
    const uint32_t map = classifies ? 0 : index;
    *product = (stk_segformer_head_product){ .name = NAMES[index],
                                             .rows = (size_t)head->height[map] * head->width[map],
                                             .in = classifies ? head->size : head->channels[map],
                                             .out = classifies ? head->classes : head->size,
                                             .classifies = classifies };
    return 1;
}

/* ---- folding ---- */

/* The batch norm of inference is a factor and a summand per channel: rows of M_i and elements of m. */
static void fold_norm(const stk_segformer_head *head, stk_segformer_head_room_map *map)
{
    for (size_t c = 0; c < head->size; c++) {
        const float scale = (float)(head->norm_gamma[c] / sqrt(head->running_variance[c] + 1e-5));
        map->bias[c] = (map->bias[c] - head->running_mean[c]) * scale + head->norm_beta[c];
        for (int i = 0; i < STK_STAGES; i++) {
            float *row = map->folded[i] + c * head->channels[i];
            for (size_t k = 0; k < head->channels[i]; k++) row[k] *= scale;
        }
    }
}

void stk_segformer_head_pack(const stk_exec *run, stk_segformer_head *head)
{
    stk_segformer_head_room_map *map = stk_segformer_head_map(head);
    const size_t size = head->size, fuse_stride = STK_STAGES * size;
    for (int i = 0; i < STK_STAGES; i++) {
        const size_t column = (size_t)(STK_STAGES - 1 - i) * size;
        memcpy(map->stacked + column, head->linear_bias[i], size * sizeof(float));
        stk_multiply(run, size, head->channels[i], size,
                     (stk_linear_matrix){ .data = head->fuse_weight + column, .stride = fuse_stride },
                     (stk_linear_matrix){ .data = head->linear_weight[i], .stride = head->channels[i] },
                     map->folded[i], head->channels[i], 0, map->multiply);
    }
    stk_multiply(run, size, 1, fuse_stride,
                 (stk_linear_matrix){ .data = head->fuse_weight, .stride = fuse_stride },
                 (stk_linear_matrix){ .data = map->stacked, .stride = 1 }, map->bias, 1, 0, map->multiply);
    if (!head->training) fold_norm(head, map);
    const stk_linear *const linears[] = { &map->stage[0], &map->stage[1], &map->stage[2], &map->stage[3],
                                          &map->classifier };
    stk_linear_pack(run, linears, sizeof linears / sizeof *linears);
}

/* ---- forward ---- */

/* Blocks of rows a task takes through the classifier. */
enum { TASK_BLOCKS = 4 };

typedef struct forward_job {
    const stk_exec *run;
    const stk_segformer_head *head;
    stk_segformer_head_room_map *map;
    const void *features; /* of stage 1 */
    unsigned char *y;     /* NULL in inference */
    float *logits;
    uint32_t lines, strips; /* lines of a strip; strips of a picture */
    double *moments;        /* NULL in inference */
    stk_head_norm norm;
} forward_job;

/* Lines of a strip: at least 256 rows, so that moments are few, and the shift of one serves them all. */
static uint32_t strip_lines(const stk_segformer_head *head)
{
    const uint32_t lines = (256 + head->width[0] - 1) / head->width[0];
    return lines < head->height[0] ? lines : head->height[0];
}

static size_t lower_width(const stk_segformer_head *head)
{
    return (size_t)head->width[1] + head->width[2] + head->width[3];
}

/* Own parts of stk_segformer_head_need: forward's and backward's. */
static stk_exec_need segformer_head_forward_need(const stk_exec *run, const stk_segformer_head *head)
{
    const size_t size = head->size, width = head->width[0];
    const size_t line = (width + lower_width(head)) * size * sizeof(float);
    const size_t out = width * size * stk_float_bytes(run->type);
    const size_t block = stk_segformer_head_block(head) * size * stk_float_bytes(run->type);
    const size_t strips = (size_t)head->batch * stk_segformer_head_strips(head, strip_lines(head));
    return (stk_exec_need){ line + out > block ? line + out : block, strips * 3 * size };
}

/* ---- lines of y ---- */

/* The product of stage 1 and the smaller maps at the height of line h, in scratch. */
static stk_head_line prepare_line(const forward_job *job, uint32_t picture, uint32_t h, float *scratch)
{
    const stk_exec *run = job->run;
    const stk_segformer_head *head = job->head;
    const size_t size = head->size, width = head->width[0], channels = head->channels[0];
    const size_t row = ((size_t)picture * head->height[0] + h) * width;
    stk_head_line line = { .size = head->size, .width = head->width[0], .base = scratch };
    stk_linear_forward_rows(run, &job->map->stage[0], width, stk_at(job->features, row * channels, run->type),
                            channels, &(stk_linear_finish){ .type = STK_F32 }, scratch, size);
    scratch += width * size;
    for (int s = 0; s < STK_SMALLER; s++) {
        const stk_head_tap tap = job->map->down[s].taps[h];
        const size_t count = head->width[s + 1] * size, lines = (size_t)picture * head->height[s + 1];
        run->table->head.mix[run->type](
            count, stk_at(job->map->z[s], (lines + tap.a) * count, run->type), tap.a_weight,
            stk_at(job->map->z[s], (lines + tap.b) * count, run->type), tap.b_weight, scratch);
        line.low[s] = scratch;
        line.across[s] = &job->map->across[s];
        scratch += count;
    }
    return line;
}

static void lines_task(const void *context, uint32_t task, uint32_t thread)
{
    const forward_job *job = context;
    const stk_exec *run = job->run;
    const stk_segformer_head *head = job->head;
    const size_t size = head->size, width = head->width[0];
    const uint32_t picture = task / job->strips, from = task % job->strips * job->lines;
    float *scratch = stk_exec_scratch(run, thread);
    void *r = scratch + (width + lower_width(head)) * size;
    for (uint32_t h = from; h < from + job->lines && h < head->height[0]; h++) {
        const stk_head_line line = prepare_line(job, picture, h, scratch);
        const size_t row = ((size_t)picture * head->height[0] + h) * width;
        if (head->training) {
            run->table->head.line[run->type](&line, h == from, run->partial + task * 3 * size,
                                             stk_at(job->y, row * size, run->type));
        } else {
            const size_t stride = stk_logits_stride(head->classes);
            run->table->head.line_relu[run->type](&line, r);
            stk_linear_forward_rows(run, &job->map->classifier, width, r, size,
                                    &(stk_linear_finish){ .type = STK_F32 }, job->logits + row * stride,
                                    stride);
        }
    }
}

/* ---- statistics ---- */

/* 32 channels: the strips' moments in their order. */
static void statistics_task(const void *context, uint32_t task, uint32_t thread)
{
    (void)thread;
    const forward_job *job = context;
    const stk_segformer_head *head = job->head;
    const size_t size = head->size, last_lines = head->height[0] - (job->strips - 1) * job->lines;
    for (size_t c = task * 32; c < task * 32 + 32; c++) {
        stk_head_moments all = { 0 };
        for (size_t strip = 0; strip < (size_t)head->batch * job->strips; strip++) {
            const float *part = job->run->partial + strip * 3 * size + c;
            const size_t lines = (strip + 1) % job->strips ? job->lines : last_lines;
            const double count = (double)lines * head->width[0], sum = part[size];
            all = stk_head_moments_join(
                all, (stk_head_moments){ count, part[0] + sum / count, part[2 * size] - sum * sum / count });
        }
        job->moments[1 + c] = all.mean;
        job->moments[1 + size + c] = all.squares;
    }
}

/* ---- from y to the logits ---- */

static void classify_task(const void *context, uint32_t task, uint32_t thread)
{
    const forward_job *job = context;
    const stk_exec *run = job->run;
    const stk_segformer_head *head = job->head;
    const size_t block = stk_segformer_head_block(head), all = stk_segformer_head_rows(head, 0);
    const size_t stride = stk_logits_stride(head->classes);
    void *r = stk_exec_scratch(run, thread);
    for (size_t k = 0; k < TASK_BLOCKS; k++) {
        const size_t row = (task * (size_t)TASK_BLOCKS + k) * block;
        if (row >= all) return;
        const size_t rows = all - row < block ? all - row : block;
        run->table->head.activate[run->type](&job->norm, row, rows,
                                             stk_at(job->y, row * head->size, run->type), r);
        stk_linear_forward_rows(run, &job->map->classifier, rows, r, head->size,
                                &(stk_linear_finish){ .type = STK_F32 }, job->logits + row * stride, stride);
    }
}

static void to_lines(const stk_exec *run, stk_segformer_head *head, const void *const features[STK_STAGES],
                     forward_job *job)
{
    stk_segformer_head_room_map *map = stk_segformer_head_map(head);
    for (int s = 0; s < STK_SMALLER; s++) {
        const stk_exec_rows x = stk_rows_of(features[s + 1], head->channels[s + 1]);
        stk_linear_forward(run, &map->stage[s + 1], stk_segformer_head_rows(head, s + 1), &x,
                           &(stk_linear_finish){ .type = run->type }, map->z[s], head->size);
    }
    job->run = run;
    job->head = head;
    job->map = map;
    job->features = features[0];
    job->lines = strip_lines(head);
    job->strips = stk_segformer_head_strips(head, job->lines);
    stk_threadpool_run(run->pool, lines_task, job, head->batch * job->strips);
}

void stk_segformer_head_look(const stk_exec *run, stk_segformer_head *head,
                             const void *const features[STK_STAGES], void *y, double *moments)
{
    forward_job job = { .y = y, .moments = moments };
    to_lines(run, head, features, &job);
    moments[0] = (double)stk_segformer_head_rows(head, 0);
    stk_threadpool_run(run->pool, statistics_task, &job, head->size / 32);
}

void stk_segformer_head_classify(const stk_exec *run, stk_segformer_head *head, void *y, float *logits)
{
    const forward_job job = { .run = run,
                              .head = head,
                              .map = stk_segformer_head_map(head),
                              .y = y,
                              .logits = logits,
                              .norm = stk_segformer_head_norm_of(head) };
    const size_t task_rows = stk_segformer_head_block(head) * TASK_BLOCKS;
    stk_threadpool_run(run->pool, classify_task, &job,
                       (uint32_t)((stk_segformer_head_rows(head, 0) + task_rows - 1) / task_rows));
}

void stk_segformer_head_forward(const stk_exec *run, stk_segformer_head *head,
                                const void *const features[STK_STAGES], void *y, float *logits)
{
    double *moments = stk_segformer_head_map(head)->moments;
    if (head->training) {
        stk_segformer_head_look(run, head, features, y, moments);
        stk_segformer_head_normalise(run, head, moments, 1);
        stk_segformer_head_classify(run, head, y, logits);
    } else {
        forward_job job = { .logits = logits };
        to_lines(run, head, features, &job);
    }
}
