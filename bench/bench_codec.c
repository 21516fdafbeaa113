/* SPDX-License-Identifier: Apache-2.0
 *
 * How fast the decoder is beside the bare libraries on the same bytes. Ratios are what counts: the candidates
 * of a row take turns, so that a busy machine slows them alike.
 *
 * bench_codec [--short] [FILE.jpg|FILE.png ...]     without files: generated pictures of 512x512
 */
#include <spng.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <turbojpeg.h>

#include "src/base/clock.h"
#include "src/base/file.h"
#include "src/base/rng.h"
#include <stoke/image.h>

enum { SIDE = 512, PART = 256, MOST_ROUNDS = 4000 };

typedef struct subject {
    const uint8_t *bytes;
    size_t size;
    stoke_image_info info;
    uint64_t round;
    uint8_t *room;
} subject;

static stoke_decoder *decoder;
static tjhandle turbo;

static void die(const char *what)
{
    fprintf(stderr, "bench_codec: %s\n", what);
    exit(1);
}

static void stoke_with(const subject *s, const stoke_decode_params *params)
{
    stoke_error err;
    stoke_image out;
    if (stoke_decoder_decode(decoder, s->bytes, s->size, params, &out, &err) != STOKE_OK) die(err.message);
}

static void stoke_image_full(subject *s)
{
    stoke_decode_params params = stoke_decode_defaults();
    stoke_with(s, &params);
}

static void stoke_mask_full(subject *s)
{
    stoke_decode_params params = stoke_decode_defaults();
    params.purpose = STOKE_PURPOSE_MASK;
    stoke_with(s, &params);
}

static void stoke_region(subject *s)
{
    stoke_decode_params params = stoke_decode_defaults();
    stk_rng r = stk_philox(1, s->round, 0, 0, 0);
    params.region =
        (stoke_box){ (uint32_t)stk_below(stk_pair(r.word[0], r.word[1]), s->info.width - PART + 1),
                     (uint32_t)stk_below(stk_pair(r.word[2], r.word[3]), s->info.height - PART + 1), PART,
                     PART };
    stoke_with(s, &params);
}

static void stoke_half(subject *s)
{
    stoke_decode_params params = stoke_decode_defaults();
    params.mode = STOKE_DECODE_FAST;
    params.fast_width = s->info.width / 2;
    params.fast_height = s->info.height / 2;
    stoke_with(s, &params);
}

static void turbojpeg_full(subject *s)
{
    if (tjDecompress2(turbo, s->bytes, s->size, s->room, (int)s->info.width, 0, (int)s->info.height, TJPF_RGB,
                      0) != 0)
        die(tjGetErrorStr2(turbo));
}

static void spng_as(const subject *s, int format)
{
    size_t size;
    spng_ctx *ctx = spng_ctx_new(0);
    if (!ctx || spng_set_png_buffer(ctx, s->bytes, s->size) || spng_decoded_image_size(ctx, format, &size) ||
        spng_decode_image(ctx, s->room, size, format, 0))
        die("libspng refuses");
    spng_ctx_free(ctx);
}

static void spng_stored(subject *s)
{
    spng_as(s, SPNG_FMT_PNG);
}
static void spng_rgb(subject *s)
{
    spng_as(s, SPNG_FMT_RGB8);
}

typedef struct candidate {
    const char *name;
    void (*run)(subject *s);
} candidate;

static int compare_times(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Candidates in turn, median of each; the first is the base of the ratios. */
static void measure(const char *title, subject *s, const candidate *candidates, int n, double seconds)
{
    static double times[8][MOST_ROUNDS];
    uint64_t start = stk_now_ns();
    int rounds = 0;
    for (int k = 0; k < n; k++) candidates[k].run(s);
    while (rounds < MOST_ROUNDS && (rounds < 5 || (double)(stk_now_ns() - start) < seconds * 1e9)) {
        s->round = (uint64_t)rounds;
        for (int k = 0; k < n; k++) {
            uint64_t before = stk_thread_cpu_ns();
            candidates[k].run(s);
            times[k][rounds] = (double)(stk_thread_cpu_ns() - before) * 1e-6;
        }
        rounds++;
    }
    for (int k = 0; k < n; k++) {
        qsort(times[k], (size_t)rounds, sizeof(double), compare_times);
        double median = times[k][rounds / 2], base = times[0][rounds / 2];
        printf("%-34s %-26s %8.3f ms  %5.2fx\n", k ? "" : title, candidates[k].name, median, base / median);
    }
}

static void measure_file(const char *title, subject *s, double seconds)
{
    stoke_error err;
    if (stoke_decoder_probe(decoder, s->bytes, s->size, &s->info, &err) != STOKE_OK) die(err.message);
    s->room = malloc((size_t)s->info.width * s->info.height * 8);
    if (!s->room) die("no memory");
    const candidate jpeg[] = { { "tjDecompress2", turbojpeg_full },
                               { "stoke", stoke_image_full },
                               { "stoke, 1/2 in fast mode", stoke_half },
                               { "stoke, random 256x256", stoke_region } };
    const candidate png[] = { { "libspng as RGB8", spng_rgb }, { "stoke, image", stoke_image_full } };
    const candidate mask[] = { { "libspng as stored", spng_stored }, { "stoke, mask", stoke_mask_full } };
    int large = s->info.width >= PART && s->info.height >= PART;
    if (s->info.format == STOKE_FORMAT_JPEG)
        measure(title, s, jpeg, large ? 4 : 3, seconds);
    else if (s->info.format == STOKE_FORMAT_PNG && s->info.channels == 1)
        measure(title, s, mask, 2, seconds);
    else if (s->info.format == STOKE_FORMAT_PNG)
        measure(title, s, png, 2, seconds);
    free(s->room);
}

/* A scene: smooth light, some discs, sensor noise; and the discs' numbers as mask. */
static void draw(uint8_t *rgb, uint8_t *mask)
{
    enum { DISCS = 40 };
    stk_rng disc[DISCS];
    for (int i = 0; i < DISCS; i++) disc[i] = stk_philox(7, (uint64_t)i, 0, 0, 0);
    for (int y = 0; y < SIDE; y++)
        for (int x = 0; x < SIDE; x++) {
            int id = 0;
            for (int i = 0; i < DISCS; i++) {
                int dx = x - (int)(disc[i].word[0] % SIDE), dy = y - (int)(disc[i].word[1] % SIDE);
                int radius = 8 + (int)(disc[i].word[2] % 60);
                if (dx * dx + dy * dy < radius * radius) id = i % 20 + 1;
            }
            stk_rng noise = stk_philox(8, (uint64_t)(y * SIDE + x), 0, 0, 0);
            mask[y * SIDE + x] = (uint8_t)id;
            for (int c = 0; c < 3; c++) {
                int v = 60 + x / 8 + y / 10 + id * (7 + 3 * c) % 120 + (int)(noise.word[c] % 13);
                rgb[(y * SIDE + x) * 3 + c] = (uint8_t)(v > 255 ? 255 : v);
            }
        }
}

static void measure_path(const char *title, const char *path, double seconds)
{
    stoke_error err;
    stk_mem_buffer buffer = { 0 };
    subject s = { 0 };
    if (stk_file_read(path, (uint64_t)1 << 30, &buffer, &s.size, &err) != STOKE_OK) die(err.message);
    s.bytes = buffer.data;
    measure_file(title, &s, seconds);
    stk_buffer_free(&buffer);
}

static void measure_generated(double seconds)
{
    static uint8_t rgb[SIDE * SIDE * 3], mask[SIDE * SIDE];
    char folder[] = "/tmp/stoke-bench-XXXXXX", path[64];
    stoke_error err = { 0 };
    draw(rgb, mask);
    if (!mkdtemp(folder)) die("no temporary folder");
    const stoke_image colour = { rgb, SIDE * 3, SIDE, SIDE, 3, 1 }, grey = { mask, SIDE, SIDE, SIDE, 1, 1 };
    const char *titles[3] = { "generated JPEG 512x512 4:2:0 q90", "generated PNG mask 512x512",
                              "generated PNG RGB 512x512" };
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%d", folder, i);
        int r = i == 0 ? stoke_image_write_jpeg(path, &colour, 90, &err)
                       : stoke_image_write_png(path, i == 1 ? &grey : &colour, &err);
        if (r != STOKE_OK) die(err.message);
        measure_path(titles[i], path, seconds);
        remove(path);
    }
    remove(folder);
}

int main(int argc, char **argv)
{
    int is_short = argc > 1 && strcmp(argv[1], "--short") == 0;
    double seconds = is_short ? 0.2 : 1.5;
    turbo = tjInitDecompress();
    if (!turbo || stoke_decoder_create(&decoder, NULL) != STOKE_OK) die("no memory");
    printf("%-34s %-26s %11s  %6s\n", "file", "reader", "CPU, median", "speed");
    for (int i = 1 + is_short; i < argc; i++) {
        const char *slash = strrchr(argv[i], '/');
        measure_path(slash ? slash + 1 : argv[i], argv[i], seconds);
    }
    if (argc == 1 + is_short) measure_generated(seconds);
    stoke_decoder_destroy(&decoder);
    tjDestroy(turbo);
    return 0;
}
