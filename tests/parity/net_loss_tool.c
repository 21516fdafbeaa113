/* SPDX-License-Identifier: Apache-2.0
 *
 * Lets Python ask for losses and updates: a job per line of stdin, then its arrays as raw little-endian
 * bytes; raw bytes on stdout.
 *
 *   loss BATCH CLASSES IN_HEIGHT IN_WIDTH HEIGHT WIDTH KIND SMOOTHING DICE_SMOOTH GAMMA IGNORE WEIGHTED
 * LAMBDA f32 logits [batch][in_height][in_width][classes], i64 masks; WEIGHTED 1: f32 weights [classes];
 * LAMBDA below 1: i64 second masks. Answer: f64 loss, f32 gradient of the logits. Both terms of a sum
 * count 1. adamw|sgd COUNT STEPS LR BETA1 BETA2 EPS DECAY NESTEROV AVERAGE f32 values, f32 gradients
 * [steps][count]. SGD's momentum is BETA1, 0 for none; AVERAGE is the decay of the moving average. Answer:
 * f32 values, f32 average.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/net/segformer/segformer_head.h"
#include "src/net/ops/ops.h"
#include "src/net/kernels/net_table.h"

enum { THREADS = 2 };

static void die(const char *why)
{
    fprintf(stderr, "net_loss_tool: %s\n", why);
    exit(2);
}

static void *room_of(size_t bytes)
{
    void *room = aligned_alloc(64, (bytes + 63) / 64 * 64 + 64);
    if (!room) die("no memory");
    return room;
}

static void *receive(size_t bytes)
{
    void *data = room_of(bytes);
    if (fread(data, 1, bytes, stdin) != bytes) die("the job's arrays are too short");
    return data;
}

static void send(const void *bytes, size_t size)
{
    if (fwrite(bytes, 1, size, stdout) != size) die("cannot write");
}

static void reserve(stk_exec *run, stk_exec_need need)
{
    run->scratch_each = (need.scratch + 63) / 64 * 64;
    run->scratch = room_of(run->scratch_each * THREADS);
    run->partial = room_of(need.partial * sizeof(float));
    run->partial_floats = need.partial;
}

static void release(stk_exec *run)
{
    free(run->scratch);
    free(run->partial);
}

/* Rows of `count` floats from one stride to another. */
static void restride(const float *from, size_t from_stride, float *to, size_t to_stride, size_t rows,
                     size_t count)
{
    for (size_t i = 0; i < rows; i++) memcpy(to + i * to_stride, from + i * from_stride, count * sizeof *to);
}

static void do_loss(stk_exec *run, const char *arguments)
{
    stk_loss_shape s;
    stoke_loss settings = { .ce_weight = 1, .dice_weight = 1 };
    unsigned kind;
    int weighted;
    long long ignore;
    float lambda;
    if (sscanf(arguments, "%u %u %u %u %u %u %u %lf %lf %lf %lld %d %f", &s.batch, &s.classes, &s.in_height,
               &s.in_width, &s.height, &s.width, &kind, &settings.label_smoothing, &settings.dice_smooth,
               &settings.focal_gamma, &ignore, &weighted, &lambda) != 13)
        die("bad loss job");
    settings.kind = (stoke_loss_kind)kind;
    settings.ignore_index = ignore;
    const size_t rows = (size_t)s.batch * s.in_height * s.in_width, stride = stk_logits_stride(s.classes);
    const size_t pixels = (size_t)s.height * s.width, packed = rows * s.classes * sizeof(float);
    float *given = receive(packed), *logits = room_of(rows * stride * sizeof(float));
    float *gradient = room_of(rows * stride * sizeof(float)), *lambdas = room_of(s.batch * sizeof(float));
    void *masks = receive(s.batch * pixels * 8), *weights = weighted ? receive(s.classes * 4) : NULL;
    void *masks_b = lambda < 1 ? receive(s.batch * pixels * 8) : NULL, *room = room_of(stk_loss_room(&s));
    restride(given, s.classes, logits, stride, rows, s.classes);
    for (uint32_t n = 0; n < s.batch; n++) lambdas[n] = lambda;
    settings.class_weights = weights;
    stk_loss_bind(&s, room);
    reserve(run, stk_loss_need(run, &s));
    const stk_loss_truth truth = { .masks = masks,
                                   .masks_b = masks_b,
                                   .lambda = lambdas,
                                   .dtype = STOKE_DTYPE_I64,
                                   .row_bytes = pixels * 8 };
    double loss;
    stoke_error err;
    if (stk_loss(run, &settings, &s, room, logits, &truth, 1, &loss, gradient, &err)) die(err.message);
    restride(gradient, stride, given, s.classes, rows, s.classes);
    send(&loss, sizeof loss);
    send(given, packed);
    release(run);
    void *all[] = { given, logits, gradient, lambdas, masks, weights, masks_b, room };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

static void do_update(stk_exec *run, const char *arguments, int adamw)
{
    unsigned count, steps;
    stoke_update s = { 0 };
    if (sscanf(arguments, "%u %u %lf %lf %lf %lf %lf %d %lf", &count, &steps, &s.lr, &s.beta1, &s.beta2,
               &s.eps, &s.weight_decay, &s.nesterov, &s.average_decay) != 9)
        die("bad update job");
    const size_t bytes = count * sizeof(float);
    float *values = receive(bytes), *gradients = receive(bytes * steps), *average = room_of(bytes);
    float *first = room_of(bytes), *second = room_of(bytes);
    const stk_update_group group = { 0, count, 1, 1 };
    memcpy(average, values, bytes);
    memset(first, 0, bytes);
    memset(second, 0, bytes);
    stk_update update = { .values = values,
                          .first = adamw || s.beta1 != 0 ? first : NULL,
                          .second = adamw ? second : NULL,
                          .average = average,
                          .groups = &group,
                          .group_count = 1,
                          .count = count };
    for (unsigned step = 0; step < steps; step++) {
        update.gradients = gradients + (size_t)step * count;
        stk_update_run(run, &update, 0, stk_update_chunks(count), &s, step + 1, 1);
    }
    send(values, bytes);
    send(average, bytes);
    void *all[] = { values, gradients, average, first, second };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

int main(void)
{
    char line[512];
    stoke_error err;
    stk_exec run = { .table = stk_net_table_get(), .threads = THREADS };
    if (stk_threadpool_create(&run.pool, THREADS, &err)) die(err.message);
    while (fgets(line, sizeof line, stdin)) {
        if (!strncmp(line, "loss ", 5))
            do_loss(&run, line + 5);
        else if (!strncmp(line, "adamw ", 6))
            do_update(&run, line + 6, 1);
        else if (!strncmp(line, "sgd ", 4))
            do_update(&run, line + 4, 0);
        else
            die("unknown job");
        if (fflush(stdout)) die("cannot write");
    }
    stk_threadpool_destroy(&run.pool);
    return 0;
}
