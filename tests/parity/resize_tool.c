/* SPDX-License-Identifier: Apache-2.0
 *
 * Lets Python ask the pixel room: one job per line of stdin, raw bytes (or a time) on stdout. Inputs are made
 * from a formula that the scripts know too (parity.py, make_input), so nothing but the job travels.
 *
 *   linear|nearest WIDTH HEIGHT OUT_WIDTH OUT_HEIGHT CHANNELS DEPTH SEED
 *   write WIDTH HEIGHT DTYPE LAYOUT NORMALIZE HFLIP DEPTH SEED      numbers of <stoke/data.h>
 *   time WIDTH HEIGHT OUT_WIDTH OUT_HEIGHT CHANNELS REPEATS         answers "nanoseconds\n", best of REPEATS
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/clock.h"
#include "src/base/rng.h"
#include "src/pix/pix.h"

static void die(const char *why)
{
    fprintf(stderr, "resize_tool: %s\n", why);
    exit(2);
}

static stoke_image make_image(uint32_t width, uint32_t height, uint32_t channels, uint32_t depth)
{
    const size_t stride = (size_t)width * channels * depth;
    stoke_image image = { calloc(height, stride), stride, width, height, (uint8_t)channels, (uint8_t)depth };
    if (!image.data) die("no memory");
    return image;
}

/* Noise; odd seeds keep only its extremes, where sums are largest. */
static stoke_image make_input(uint32_t width, uint32_t height, uint32_t channels, uint32_t depth,
                              uint64_t seed)
{
    stoke_image image = make_image(width, height, channels, depth);
    const size_t samples = (size_t)width * height * channels;
    const uint32_t most = depth == 1 ? 0xff : 0xffff;
    for (size_t i = 0; i < samples; i++) {
        uint32_t value = (uint32_t)stk_mix64(i + (seed << 32)) & most;
        if (seed & 1) value = value & 1 ? most : 0;
        if (depth == 1)
            ((uint8_t *)image.data)[i] = (uint8_t)value;
        else
            ((uint16_t *)image.data)[i] = (uint16_t)value;
    }
    return image;
}

static void send(const void *bytes, size_t size)
{
    if (fwrite(bytes, 1, size, stdout) != size || fflush(stdout)) die("cannot write");
}

static void do_resize(stk_pix_resizer *resizer, int linear, const char *arguments)
{
    unsigned width, height, out_width, out_height, channels, depth, seed;
    if (sscanf(arguments, "%u %u %u %u %u %u %u", &width, &height, &out_width, &out_height, &channels, &depth,
               &seed) != 7)
        die("bad resize job");
    stoke_image in = make_input(width, height, channels, depth, seed);
    stoke_image out = make_image(out_width, out_height, channels, depth);
    stoke_error err;
    if (!linear)
        stk_resize_nearest(&in, &out);
    else if (stk_resize(resizer, &in, &out, &err))
        die(err.message);
    send(out.data, out.stride * out.height);
    free(in.data);
    free(out.data);
}

static void do_write(const char *arguments)
{
    static const size_t bytes[] = { 1, 4, 2, 2 };
    unsigned width, height, dtype, layout, normalize, hflip, depth, seed;
    if (sscanf(arguments, "%u %u %u %u %u %u %u %u", &width, &height, &dtype, &layout, &normalize, &hflip,
               &depth, &seed) != 8 ||
        dtype > 3)
        die("bad write job");
    stoke_image in = make_input(width, height, 3, depth, seed);
    const size_t size = (size_t)width * height * 3 * bytes[dtype];
    void *row = aligned_alloc(64, (size + 63) / 64 * 64);
    if (!row) die("no memory");
    stk_pix_writer writer;
    stk_writer_init(&writer, (stoke_dtype)dtype, (stoke_layout)layout, (stoke_normalize)normalize);
    stk_write_image(&writer, &in, row, width, height, 0, 0, (int)hflip);
    send(row, size);
    free(row);
    free(in.data);
}

static void do_time(stk_pix_resizer *resizer, const char *arguments)
{
    unsigned width, height, out_width, out_height, channels, repeats;
    if (sscanf(arguments, "%u %u %u %u %u %u", &width, &height, &out_width, &out_height, &channels,
               &repeats) != 6)
        die("bad time job");
    stoke_image in = make_input(width, height, channels, 1, 0),
                out = make_image(out_width, out_height, channels, 1);
    uint64_t best = UINT64_MAX;
    stoke_error err;
    for (unsigned i = 0; i < repeats; i++) {
        uint64_t start = stk_now_ns();
        if (stk_resize(resizer, &in, &out, &err)) die(err.message);
        uint64_t took = stk_now_ns() - start;
        if (took < best) best = took;
    }
    char text[32];
    send(text, (size_t)snprintf(text, sizeof text, "%llu\n", (unsigned long long)best));
    free(in.data);
    free(out.data);
}

int main(void)
{
    char line[256];
    stk_pix_resizer *resizer = stk_resizer_create();
    if (!resizer) die("no memory");
    while (fgets(line, sizeof line, stdin)) {
        if (!strncmp(line, "linear ", 7))
            do_resize(resizer, 1, line + 7);
        else if (!strncmp(line, "nearest ", 8))
            do_resize(resizer, 0, line + 8);
        else if (!strncmp(line, "write ", 6))
            do_write(line + 6);
        else if (!strncmp(line, "time ", 5))
            do_time(resizer, line + 5);
        else
            die("unknown job");
    }
    stk_resizer_destroy(&resizer);
    return 0;
}
