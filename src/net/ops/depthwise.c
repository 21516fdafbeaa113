/* SPDX-License-Identifier: Apache-2.0
 *
 * depthwise: cuts a map into strips of lines and groups of channels, one task each.
 *
 * Backward takes one pass over memory: a strip goes down its lines, keeping the gradients by h2 of the last
 * three in the thread's scratch (98 KB for 64 columns of 128 channels), and those of the lines next to the
 * strip are computed twice. Channels do not meet, so a group of them is separate work without such a rim.
 */
#include "src/net/ops/ops.h"

#include <string.h>

#include "src/net/kernels/net_table.h"

enum { STRIP_LINES = 16, GROUP_CHANNELS = 128 };

typedef struct job {
    const stk_exec *run;
    const stk_depthwise *layer;
    stk_depthwise_map map;
    uint32_t strips, groups; /* of an image, of a strip */
    const void *h1;
    void *h3;        /* forward */
    const void *dh3; /* backward */
    void *dh1;
    float *partial; /* NULL: weight and bias are frozen */
} job;

static uint32_t strips_of(stk_depthwise_map map)
{
    return (map.height + STRIP_LINES - 1) / STRIP_LINES;
}

static uint32_t groups_of(const stk_depthwise *layer)
{
    return (layer->channels + GROUP_CHANNELS - 1) / GROUP_CHANNELS;
}

static uint32_t tasks_of(const job *j)
{
    return j->map.batch * j->strips * j->groups;
}

/* One task's share: lines first .. end of an image. */
typedef struct share {
    uint32_t image, strip, first, end;
    stk_depthwise_line_part part;
} share;

static share share_of(const job *j, uint32_t task)
{
    const uint32_t group = task % j->groups, strip = task / j->groups % j->strips;
    const uint32_t channel = group * GROUP_CHANNELS, left = j->layer->channels - channel;
    return (share){
        .image = task / j->groups / j->strips,
        .strip = strip,
        .first = (uint32_t)((uint64_t)j->map.height * strip / j->strips),
        .end = (uint32_t)((uint64_t)j->map.height * (strip + 1) / j->strips),
        .part = { .width = j->map.width,
                  .columns = j->map.width,
                  .channel = channel,
                  .channels = left < GROUP_CHANNELS ? left : GROUP_CHANNELS },
    };
}

/* Line y of an image; NULL outside of it. */
static void *line_at(const void *data, const stk_depthwise *layer, stk_depthwise_map map, uint32_t image,
                     int64_t y, stk_float type)
{
    if (y < 0 || y >= map.height) return NULL;
    return stk_at(data, ((size_t)image * map.height + (size_t)y) * map.width * layer->channels, type);
}

static stk_depthwise_line_around around(const void *data, const stk_depthwise *layer, stk_depthwise_map map,
                                        uint32_t image, int64_t y, stk_float type)
{
    stk_depthwise_line_around lines;
    for (int k = 0; k < 3; k++) lines.line[k] = line_at(data, layer, map, image, y + k - 1, type);
    return lines;
}

static void pack_layer(const void *context, uint32_t task, uint32_t thread)
{
    const stk_depthwise *layer = ((const stk_depthwise *const *)context)[task];
    for (uint32_t tap = 0; tap < 9; tap++)
        for (uint32_t c = 0; c < layer->channels; c++)
            layer->packed[tap * layer->channels + c] = layer->weight[c * 9 + tap];
    memcpy(layer->packed + 9 * layer->channels, layer->bias, layer->channels * sizeof(float));
}

void stk_depthwise_pack(const stk_exec *run, const stk_depthwise *const *layers, size_t count)
{
    stk_threadpool_run(run->pool, pack_layer, layers, (uint32_t)count);
}

static void forward_share(const void *context, uint32_t task, uint32_t thread)
{
    const job *j = context;
    const stk_float type = j->run->type;
    const share s = share_of(j, task);
    for (uint32_t y = s.first; y < s.end; y++) {
        const stk_depthwise_line_around h1 = around(j->h1, j->layer, j->map, s.image, y, type);
        j->run->table->depthwise.forward[type](j->layer, &s.part, &h1,
                                               line_at(j->h3, j->layer, j->map, s.image, y, type));
    }
}

void stk_depthwise_forward(const stk_exec *run, const stk_depthwise *layer, stk_depthwise_map map,
                           const void *h1, void *h3)
{
    const job j = { .run = run,
                    .layer = layer,
                    .map = map,
                    .strips = strips_of(map),
                    .groups = groups_of(layer),
                    .h1 = h1,
                    .h3 = h3 };
    stk_threadpool_run(run->pool, forward_share, &j, tasks_of(&j));
}

static void make_rows(const void *context, size_t first, size_t count, void *out)
{
    const stk_depthwise_hidden *source = context;
    const stk_depthwise *layer = source->layer;
    const stk_depthwise_map map = source->map;
    const stk_float type = source->type;
    for (size_t done = 0; done < count;) { /* the part of one line that is asked for */
        const size_t row = first + done, line = row / map.width;
        const uint32_t column = (uint32_t)(row % map.width), left = map.width - column;
        const stk_depthwise_line_part part = { .width = map.width,
                                               .column = column,
                                               .columns =
                                                   left < count - done ? left : (uint32_t)(count - done),
                                               .channels = layer->channels };
        const stk_depthwise_line_around h1 =
            around(source->h1, layer, map, (uint32_t)(line / map.height), (int64_t)(line % map.height), type);
        source->table->depthwise.forward[type](layer, &part, &h1, stk_at(out, done * layer->channels, type));
        done += part.columns;
    }
}

stk_exec_rows stk_hidden_rows(const stk_depthwise_hidden *source)
{
    return (stk_exec_rows){ .stride = source->layer->channels, .make = make_rows, .context = source };
}

/* Gradients by h2 of line y to its place in the ring; zeros when the map has ended there. */
static float *make_slope(const job *j, const share *s, int64_t y, float *ring)
{
    const stk_float type = j->run->type;
    const size_t floats = stk_slope_floats(j->map.width, s->part.channels);
    float *t = ring + (size_t)((y + 3) % 3) * floats;
    const void *dh3 = line_at(j->dh3, j->layer, j->map, s->image, y, type);
    if (!dh3) return memset(t, 0, floats * sizeof *t);
    const stk_depthwise_line_around h1 = around(j->h1, j->layer, j->map, s->image, y, type);
    j->run->table->depthwise.slope[type](j->layer, &s->part, &h1, dh3, t);
    return t;
}

static void backward_share(const void *context, uint32_t task, uint32_t thread)
{
    const job *j = context;
    const stk_float type = j->run->type;
    const share s = share_of(j, task);
    const uint32_t channels = j->layer->channels;
    float *sums = NULL;
    if (j->partial) {
        sums = j->partial + (size_t)(s.image * j->strips + s.strip) * 10 * channels;
        for (uint32_t tap = 0; tap < 10; tap++)
            memset(sums + tap * channels + s.part.channel, 0, s.part.channels * sizeof *sums);
    }
    float *ring = stk_exec_scratch(j->run, thread);
    const float *t[3] = { NULL, make_slope(j, &s, (int64_t)s.first - 1, ring),
                          make_slope(j, &s, s.first, ring) };
    for (uint32_t y = s.first; y < s.end; y++) {
        t[0] = t[1];
        t[1] = t[2];
        t[2] = make_slope(j, &s, (int64_t)y + 1, ring);
        j->run->table->depthwise.backward[type](j->layer, &s.part, t,
                                                line_at(j->h1, j->layer, j->map, s.image, y, type),
                                                line_at(j->dh1, j->layer, j->map, s.image, y, type), sums);
    }
}

void stk_depthwise_backward(const stk_exec *run, const stk_depthwise *layer, stk_depthwise_map map,
                            const void *h1, const void *dh3, void *dh1)
{
    const job j = { .run = run,
                    .layer = layer,
                    .map = map,
                    .strips = strips_of(map),
                    .groups = groups_of(layer),
                    .h1 = h1,
                    .dh3 = dh3,
                    .dh1 = dh1,
                    .partial = layer->d_weight || layer->d_bias ? run->partial : NULL };
    stk_threadpool_run(run->pool, backward_share, &j, tasks_of(&j));
    if (!j.partial) return;
    const size_t channels = layer->channels;
    stk_partial_fold(j.partial, (size_t)map.batch * j.strips, 10 * channels);
    for (uint32_t tap = 0; layer->d_weight && tap < 9; tap++)
        stk_partial_give(j.partial + tap * channels, channels, layer->d_weight + tap, 9, run->accumulate);
    stk_partial_give(j.partial + 9 * channels, channels, layer->d_bias, 1, run->accumulate);
}

stk_exec_need stk_depthwise_need(const stk_exec *run, const stk_depthwise *layer, stk_depthwise_map map)
{
    const uint32_t group = layer->channels < GROUP_CHANNELS ? layer->channels : GROUP_CHANNELS;
    const size_t ring = 3 * stk_slope_floats(map.width, group) * sizeof(float);
    return (stk_exec_need){ .scratch = (ring + 63) / 64 * 64,
                            .partial = (size_t)map.batch * strips_of(map) * 10 * layer->channels };
}
