/* SPDX-License-Identifier: Apache-2.0
 *
 * Lets Python ask for scores of restored pictures: a job per line of stdin, then its arrays as raw
 * little-endian bytes.
 *
 *   LAYOUT HEIGHT WIDTH PICTURES RANGE    LAYOUT hwc or chw; restored pictures, then targets, of 3 channels:
 * f32 for range 1, u8 for 255. Answer: f64 psnr ssim, the mean of the pictures' psnr, then psnr ssim of each.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stoke/tools/metrics.h>

enum { CHANNELS = 3 };

static void die(const char *why)
{
    fprintf(stderr, "restored_tool: %s\n", why);
    exit(2);
}

typedef struct job {
    char layout[4];
    unsigned height, width, pictures, range;
} job;

static stoke_restored_picture picture_at(const job *j, const unsigned char *side, unsigned which)
{
    const int planar = !strcmp(j->layout, "chw");
    const stoke_dtype dtype = j->range == 255 ? STOKE_DTYPE_U8 : STOKE_DTYPE_F32;
    const size_t pixels = (size_t)j->height * j->width;
    return (stoke_restored_picture){ .data = side + which * pixels * CHANNELS * stoke_dtype_bytes(dtype),
                                     .dtype = dtype,
                                     .row = planar ? j->width : CHANNELS * j->width,
                                     .column = planar ? 1 : CHANNELS,
                                     .plane = planar ? pixels : 1 };
}

static void answer(const job *j, const unsigned char *found, const unsigned char *truth)
{
    stoke_restored *restored;
    stoke_error err;
    stoke_restored_score *own = calloc(j->pictures, sizeof *own);
    if (!own || stoke_restored_create(&restored, j->range, &err)) die("no memory");
    for (unsigned i = 0; i < j->pictures; i++) {
        const stoke_restored_picture a = picture_at(j, found, i), b = picture_at(j, truth, i);
        if (stoke_restored_add(restored, j->height, j->width, CHANNELS, &a, &b, &own[i], &err))
            die(err.message);
    }
    const stoke_scores s = stoke_restored_scores(restored);
    const double all[] = { s.psnr, s.ssim, stoke_restored_psnr_mean(restored) };
    fwrite(all, sizeof all, 1, stdout);
    for (unsigned i = 0; i < j->pictures; i++) fwrite((double[]){ own[i].psnr, own[i].ssim }, 16, 1, stdout);
    fflush(stdout);
    stoke_restored_destroy(&restored);
    free(own);
}

int main(void)
{
    job j;
    while (scanf(" %3s %u %u %u %u", j.layout, &j.height, &j.width, &j.pictures, &j.range) == 5) {
        getchar(); /* the end of the line; bytes follow */
        if (j.height > 4096 || j.width > 4096 || j.pictures > 64) die("a job beyond what it is made for");
        const size_t bytes =
            (size_t)j.height * j.width * j.pictures * CHANNELS * (j.range == 255 ? 1 : sizeof(float));
        unsigned char *pair = malloc(2 * bytes);
        if (!pair || fread(pair, 1, 2 * bytes, stdin) != 2 * bytes) die("the job's arrays are too short");
        answer(&j, pair, pair + bytes);
        free(pair);
    }
    return feof(stdin) ? 0 : 2;
}
