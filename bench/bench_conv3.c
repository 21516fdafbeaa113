/* SPDX-License-Identifier: Apache-2.0
 *
 * A training pass (forward, and both gradients of every layer) of a residual network of 3x3 convolutions: 3
 * -> c, blocks of conv, ReLU, conv, times 0.1, plus what came in, c -> 3. Operations alone: no loss, no
 * update.
 *
 *   bench_conv3 [--short]                                    a table: kinds of passes and their share of the
 * peak bench_conv3 --turns CHANNELS SIZE BATCH fp32|bf16        answers each line `go SECONDS` with a line of
 * JSON, for bench/peers/conv3.py
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "src/base/clock.h"
#include "src/base/mem.h"
#include "src/base/rng.h"
#include "src/net/kernels/net_table.h"
#include "src/net/ops/ops.h"
#include <stoke/tools/netbench.h>

enum { BLOCKS = 4, LAYERS = 2 * BLOCKS + 2, THREADS = 2, MOST_TIMES = 10000 };

static void die(const char *what)
{
    fprintf(stderr, "bench_conv3: %s\n", what);
    exit(1);
}

static void *room(size_t bytes)
{
    void *memory = stk_alloc_aligned(bytes, 64);
    if (!memory) die("no memory");
    memset(memory, 0, bytes);
    return memory;
}

static float *numbers(size_t count, float size)
{
    float *array = room(count * sizeof *array);
    for (size_t i = 0; i < count; i++) array[i] = size * (2 * stk_unit((uint32_t)(stk_mix64(i) >> 32)) - 1);
    return array;
}

typedef struct net {
    stk_exec run;
    stk_conv3_map map;
    uint32_t channels;
    size_t elements; /* of a map */
    stk_conv3 layer[LAYERS];
    float *pictures, *d_result, *result;
    float *stream[BLOCKS + 1], *d_stream;
    void *hidden[BLOCKS], *d_hidden;
    double ms[3]; /* of the last pass: forward, gradients of inputs, of weights */
} net;

static void make_layer(net *n, stk_conv3 *layer, uint32_t in, uint32_t out)
{
    const size_t weights = (size_t)9 * in * out;
    *layer = (stk_conv3){ .in = in,
                          .out = out,
                          .weight = numbers(weights, 0.1f),
                          .bias = numbers(out, 0.1f),
                          .d_weight = room(weights * sizeof(float)),
                          .d_bias = room(out * sizeof(float)) };
    layer->forward = room(stk_conv3_packed(&n->run, layer, 0));
    layer->backward = in == 3 ? NULL : room(stk_conv3_packed(&n->run, layer, 1));
    const stk_exec_need need = stk_conv3_need(&n->run, layer, n->map);
    n->run.scratch_each = need.scratch > n->run.scratch_each ? need.scratch : n->run.scratch_each;
    n->run.partial_floats = need.partial > n->run.partial_floats ? need.partial : n->run.partial_floats;
}

static net make_net(uint32_t channels, uint32_t size, uint32_t batch, stk_float type)
{
    net n = { .run = { .table = stk_net_table_get(), .threads = THREADS, .type = type },
              .map = { batch, size, size },
              .channels = channels };
    if (stk_threadpool_create(&n.run.pool, THREADS, NULL)) die("no threads");
    const size_t pixels = (size_t)batch * size * size;
    n.elements = pixels * channels;
    for (int i = 0; i < LAYERS; i++)
        make_layer(&n, &n.layer[i], i ? channels : 3, i < LAYERS - 1 ? channels : 3);
    n.run.scratch = room(THREADS * n.run.scratch_each);
    n.run.partial = room(n.run.partial_floats * sizeof(float));
    n.pictures = numbers(3 * pixels, 1);
    n.d_result = numbers(3 * pixels, 1);
    n.result = room(3 * pixels * sizeof(float));
    n.d_stream = room(n.elements * sizeof(float));
    n.d_hidden = room(n.elements * stk_float_bytes(type));
    for (int i = 0; i <= BLOCKS; i++) n.stream[i] = room(n.elements * sizeof(float));
    for (int i = 0; i < BLOCKS; i++) n.hidden[i] = room(n.elements * stk_float_bytes(type));
    return n;
}

static void free_net(net *n)
{
    for (int i = 0; i < LAYERS; i++) {
        stk_conv3 *layer = &n->layer[i];
        stk_free((void *)(uintptr_t)layer->weight), stk_free((void *)(uintptr_t)layer->bias);
        stk_free(layer->d_weight), stk_free(layer->d_bias), stk_free(layer->forward),
            stk_free(layer->backward);
    }
    stk_free(n->run.scratch), stk_free(n->run.partial), stk_free(n->pictures), stk_free(n->d_result);
    stk_free(n->result), stk_free(n->d_stream), stk_free(n->d_hidden);
    for (int i = 0; i <= BLOCKS; i++) stk_free(n->stream[i]);
    for (int i = 0; i < BLOCKS; i++) stk_free(n->hidden[i]);
    stk_threadpool_destroy(&n->run.pool);
}

/* ---- a pass ---- */

static stk_conv3_source map_of(const net *n, const void *data, stk_float type, uint32_t channels)
{
    return (stk_conv3_source){ .data = data,
                               .type = type,
                               .stride = channels,
                               .sample_stride = (size_t)n->map.height * n->map.width * channels };
}

static void forward(net *n)
{
    stk_conv3_source x = map_of(n, n->pictures, STK_F32, 3);
    x.planar = 1;
    const stk_conv3 *layer = n->layer;
    const stk_conv3_finish plain = { .type = STK_F32, .stride = n->channels, .scale = 1 };
    stk_conv3_forward(&n->run, layer++, n->map, &x, &plain, n->stream[0]);
    for (int i = 0; i < BLOCKS; i++) {
        const stk_conv3_finish first = { .type = n->run.type, .stride = n->channels, .scale = 1, .relu = 1 };
        const stk_conv3_finish second = {
            .type = STK_F32, .stride = n->channels, .scale = 0.1f, .residual = n->stream[i]
        };
        x = map_of(n, n->stream[i], STK_F32, n->channels);
        stk_conv3_forward(&n->run, layer++, n->map, &x, &first, n->hidden[i]);
        x = map_of(n, n->hidden[i], n->run.type, n->channels);
        stk_conv3_forward(&n->run, layer++, n->map, &x, &second, n->stream[i + 1]);
    }
    x = map_of(n, n->stream[BLOCKS], STK_F32, n->channels);
    stk_conv3_forward(&n->run, layer, n->map, &x,
                      &(stk_conv3_finish){ .type = STK_F32, .stride = 3, .scale = 1 }, n->result);
}

static double ms_since(uint64_t start)
{
    return (double)(stk_now_ns() - start) / 1e6;
}

/* Gradients of a layer: of its weights, and of its input unless `dx` is NULL. */
static void layer_back(net *n, const stk_conv3 *layer, stk_conv3_source x, stk_conv3_source dy, float scale,
                       const stk_conv3_finish *finish, void *dx)
{
    const uint64_t start = stk_now_ns();
    stk_conv3_weight(&n->run, layer, n->map, &x, &dy, scale);
    n->ms[2] += ms_since(start);
    if (dx) stk_conv3_input(&n->run, layer, n->map, &dy, finish, dx);
}

static void backward(net *n)
{
    const uint32_t c = n->channels;
    const stk_conv3 *layer = &n->layer[LAYERS - 1];
    stk_conv3_finish to_stream = { .type = STK_F32, .stride = c, .scale = 1 };
    layer_back(n, layer--, map_of(n, n->stream[BLOCKS], STK_F32, c), map_of(n, n->d_result, STK_F32, 3), 1,
               &to_stream, n->d_stream);
    to_stream.residual = n->d_stream;
    for (int i = BLOCKS - 1; i >= 0; i--) {
        const stk_conv3_finish to_hidden = {
            .type = n->run.type, .stride = c, .scale = 0.1f, .gate = n->hidden[i]
        };
        layer_back(n, layer--, map_of(n, n->hidden[i], n->run.type, c), map_of(n, n->d_stream, STK_F32, c),
                   0.1f, &to_hidden, n->d_hidden);
        layer_back(n, layer--, map_of(n, n->stream[i], STK_F32, c), map_of(n, n->d_hidden, n->run.type, c), 1,
                   &to_stream, n->d_stream);
    }
    stk_conv3_source pictures = map_of(n, n->pictures, STK_F32, 3);
    pictures.planar = 1;
    layer_back(n, layer, pictures, map_of(n, n->d_stream, STK_F32, c), 1, NULL, NULL);
}

/* Milliseconds. */
static double pass(net *n)
{
    const stk_conv3 *layers[LAYERS];
    for (int i = 0; i < LAYERS; i++) layers[i] = &n->layer[i];
    const uint64_t start = stk_now_ns();
    stk_conv3_pack(&n->run, layers, LAYERS);
    forward(n);
    n->ms[0] = ms_since(start);
    n->ms[2] = 0;
    backward(n);
    const double all = ms_since(start);
    n->ms[1] = all - n->ms[0] - n->ms[2];
    return all;
}

/* Multiplications and additions of convolutions tap by tap, 1e9. */
static double operations(const net *n)
{
    const double pixels = (double)n->elements / n->channels, c = n->channels;
    return 2 * 9 * pixels * (3 * 2 * BLOCKS * c * c + 5 * 3 * c) / 1e9;
}

/* ---- what is asked for ---- */

/* Times on the clock, and of the processors, which other programs lengthen less. */
static void answer(net *n, double seconds)
{
    const uint64_t start = stk_now_ns();
    const clock_t before = clock();
    int passes = 0;
    printf("{\"ms\": [");
    for (; passes < MOST_TIMES && (passes < 2 || ms_since(start) < 1000 * seconds); passes++)
        printf("%s%.3f", passes ? ", " : "", pass(n));
    const double used = 1000.0 * (double)(clock() - before) / CLOCKS_PER_SEC;
    printf("], \"processor_ms\": %.3f, \"gflop\": %.3f, \"peak_gflops\": %.1f}\n", used / passes,
           operations(n), stoke_net_peak_gflops(THREADS, STOKE_PRECISION_FP32));
    fflush(stdout);
}

static int turns(char **words)
{
    const stk_float type = strcmp(words[3], "bf16") ? STK_F32 : STK_BF16;
    net n = make_net((uint32_t)atoi(words[0]), (uint32_t)atoi(words[1]), (uint32_t)atoi(words[2]), type);
    pass(&n);
    printf("ready\n");
    fflush(stdout);
    double seconds;
    while (scanf(" go %lf", &seconds) == 1) answer(&n, seconds);
    free_net(&n);
    return 0;
}

static void row(uint32_t channels, uint32_t size, uint32_t batch, stk_float type, int passes)
{
    net n = make_net(channels, size, batch, type);
    double best = 0, share[3] = { 0 };
    pass(&n);
    for (int i = 0; i < passes; i++) {
        const double ms = pass(&n);
        if (i && ms >= best) continue;
        best = ms;
        memcpy(share, n.ms, sizeof share);
    }
    const double gflops = operations(&n) / best * 1000,
                 peak = stoke_net_peak_gflops(THREADS, STOKE_PRECISION_FP32);
    printf("%8u %5u %5u %5s %9.1f %9.1f %9.1f %9.1f %8.0f  %.2f\n", channels, size, batch,
           type == STK_F32 ? "fp32" : "bf16", best, share[0], share[1], share[2], gflops, gflops / peak);
    fflush(stdout);
    free_net(&n);
}

int main(int argc, char **argv)
{
    if (argc == 6 && !strcmp(argv[1], "--turns")) return turns(argv + 2);
    const int brief = argc > 1 && !strcmp(argv[1], "--short");
    printf("channels  size batch  type   pass ms   forward     input    weight  GFLOP/s  share of the fp32 "
           "peak\n");
    for (stk_float type = STK_F32; type <= STK_BF16; type++)
        for (uint32_t channels = 32; channels <= 96; channels += 64)
            for (uint32_t size = 128; size <= 192; size += 64)
                row(channels, brief ? 32 : size, brief ? 1 : 4, type, brief ? 1 : 5);
    printf(
        "GFLOP/s: as many operations as the taps have, whatever is computed instead (conv3_winograd.h).\n");
    return 0;
}
