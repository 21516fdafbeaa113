/* SPDX-License-Identifier: Apache-2.0
 *
 * Trials of the photometric steps: rows of three planes, or one plane.
 */
#include <stdio.h>
#include <string.h>

#include "src/pix/check/check.h"

enum {
    RADIUS_MAX = 15,
    ROW = 512 /* of the bench: rows are as long as they are in a batch */,
    QUADS = 9 * 256 /* eight tiles */
};

typedef struct color_state {
    size_t n, pitch, plane; /* pixels; floats between planes; elements between planes of a CHW row */
    float a, b, turn[3];
    uint32_t radius;
    float weight[RADIUS_MAX + 1];
    const float *row[2 * RADIUS_MAX + 1];
    stk_pix_noise noise;
    stk_pix_writer writer;
} color_state;

/* 0 .. most; without a source of chance, the middle. */
static float some(stk_kernel_check_random *random, float most)
{
    return random ? (float)stk_kernel_check_below(random, 1001) / 1000 * most : most / 2;
}

static void choose_numbers(color_state *s, stk_kernel_check_random *random)
{
    s->a = some(random, 2) + 0.001f;
    s->b = some(random, 300) - 150;
    for (int i = 0; i < 3; i++) s->turn[i] = some(random, 6);
    s->radius = random ? stk_kernel_check_below(random, RADIUS_MAX + 1) : 1; /* the bench: 3 x 3 */
    for (uint32_t k = 0; k <= s->radius; k++) s->weight[k] = 1.01f / (float)(2 * s->radius + 1);
    const uint64_t key = random ? stk_kernel_check_draw(random) : 1;
    s->noise = (stk_pix_noise){ { (uint32_t)key, (uint32_t)(key >> 32) }, some(random, 50), s->b / 10 };
}

static int shape(stk_kernel_check_call *call, stk_kernel_check_random *random)
{
    const stk_kernel_check *check = call->check;
    color_state *s = call->state;
    s->n = random ? stk_kernel_check_size(random, 400) : ROW;
    s->pitch = s->n + (random ? stk_kernel_check_below(random, 20) : 32);
    s->plane = s->n + (random ? stk_kernel_check_below(random, 20) : 0);
    choose_numbers(s, random);
    const size_t row_bytes = (2 * s->pitch + s->n) * sizeof(float), one = s->n * sizeof(float);
    call->pixels = s->n;
    call->out_align = sizeof(float);
    call->source[0].bytes = call->out_bytes = row_bytes;
    switch (call->check->kind) {
    case STK_CHECK_unpack: call->source[0].bytes = s->n * 3 * check->depth; break;
    case STK_CHECK_linear:
    case STK_CHECK_gamma:
    case STK_CHECK_noise: call->source[0].bytes = call->out_bytes = one; /* fall through */
    case STK_CHECK_saturation:
    case STK_CHECK_hue: call->in_place = 1; break;
    case STK_CHECK_gray_sum: call->out_bytes = call->out_align = sizeof(uint64_t); break;
    case STK_CHECK_blur_h:
        call->source[0].bytes = one + 2 * s->radius * sizeof(float);
        call->out_bytes = one;
        break;
    case STK_CHECK_blur_v:
        call->source[0].bytes = one * (2 * s->radius + 1);
        call->out_bytes = one;
        break;
    case STK_CHECK_clahe:
        call->in_place = 1;
        call->out_align = 1;
        call->source[0].bytes = call->out_bytes = s->n;
        call->source[1].bytes = QUADS * sizeof(uint32_t);
        call->source[2].bytes = s->n * sizeof(uint32_t);
        call->source[3].bytes = one;
        break;
    case STK_CHECK_write_planes:
        call->out_align = stk_element_bytes(check->dtype);
        call->out_bytes = 3 * s->plane * call->out_align;
        stk_writer_init(&s->writer, check->dtype, check->layout,
                        random ? (stoke_normalize)stk_kernel_check_below(random, 3)
                               : STOKE_NORMALIZE_IMAGENET);
        break;
    default: break;
    }
    snprintf(call->text, sizeof call->text, "%zu pixels, planes %zu apart, radius %u, a %g, b %g", s->n,
             s->pitch, (unsigned)s->radius, (double)s->a, (double)s->b);
    return 1;
}

static void fill_clahe(stk_kernel_check_call *call, stk_kernel_check_random *random)
{
    const color_state *s = call->state;
    uint32_t *column = (uint32_t *)(void *)call->source[2].data;
    stk_kernel_check_fill(call->source[0].data, call->source[0].bytes, random);
    stk_kernel_check_fill(call->source[1].data, call->source[1].bytes, random);
    for (size_t i = 0; i < s->n; i++) column[i] = (uint32_t)(i * 9 / s->n * 256);
    stk_kernel_check_fill_floats((float *)(void *)call->source[3].data, s->n, 1, random);
}

static void fill(stk_kernel_check_call *call, stk_kernel_check_random *random)
{
    color_state *s = call->state;
    if (call->check->kind == STK_CHECK_clahe) {
        fill_clahe(call, random);
        return;
    }
    uint8_t *data = call->source[0].data;
    const size_t bytes = call->source[0].bytes;
    if (call->check->kind == STK_CHECK_unpack) {
        stk_kernel_check_fill(data, bytes, random);
        return;
    }
    float *floats = (float *)(void *)data;
    stk_kernel_check_fill_floats(floats, bytes / sizeof(float), 255, random);
    /* Neighbours that are equal or nothing: ties of the largest channel, and gamma of 0. */
    for (size_t i = 0;
         i < s->n && call->check->kind != STK_CHECK_blur_h && call->check->kind != STK_CHECK_blur_v; i += 5)
        floats[i] = 0;
    if (call->check->kind == STK_CHECK_hue)
        for (size_t i = 0; i < s->n; i += 3) floats[s->pitch + i] = floats[i];
    for (uint32_t k = 0; k <= 2 * s->radius; k++) s->row[k] = floats + k * s->n; /* for blur_v */
}

static void invoke(const stk_pix_table *table, const stk_kernel_check_call *call, uint8_t *out)
{
    const color_state *s = call->state;
    const void *src = call->source[0].data;
    const float *floats = src;
    float *result = (float *)(void *)out;
    stk_kernel_check_fn *f = stk_kernel_check_entry(table, call->check);
    switch (call->check->kind) {
    case STK_CHECK_unpack: ((stk_unpack_fn *)f)(result, s->pitch, src, s->n); break;
    case STK_CHECK_linear: ((stk_linear_fn *)f)(result, s->n, s->a, s->b); break;
    case STK_CHECK_gamma: ((stk_gamma_fn *)f)(result, s->n, s->a, 255 + s->b); break;
    case STK_CHECK_saturation: ((stk_saturation_fn *)f)(result, s->pitch, s->n, s->a, 1 - s->a); break;
    case STK_CHECK_hue: ((stk_hue_fn *)f)(result, s->pitch, s->n, s->turn); break;
    case STK_CHECK_gray_sum: {
        const uint64_t sum = ((stk_gray_sum_fn *)f)(floats, s->pitch, s->n);
        memcpy(out, &sum, sizeof sum);
        break;
    }
    case STK_CHECK_blur_h:
        ((stk_blur_h_fn *)f)(result, floats + s->radius, s->n, s->weight, s->radius);
        break;
    case STK_CHECK_blur_v: ((stk_blur_v_fn *)f)(result, s->row, s->n, s->weight, s->radius); break;
    case STK_CHECK_noise: ((stk_noise_fn *)f)(result, s->n, &s->noise); break;
    case STK_CHECK_clahe:
        ((stk_clahe_fn *)f)(out, s->n, (const uint32_t *)(const void *)call->source[1].data,
                            (const uint32_t *)(const void *)call->source[2].data,
                            (const float *)(const void *)call->source[3].data, s->a / 3);
        break;
    case STK_CHECK_write_planes:
        ((stk_write_planes_fn *)f)(&s->writer, out, s->plane, floats, s->pitch, s->n);
        break;
    default: break;
    }
}

const stk_kernel_check_family stk_kernel_checks_color = { sizeof(color_state), shape, fill, invoke };
