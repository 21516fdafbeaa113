/* SPDX-License-Identifier: Apache-2.0
 *
 * The steps of a segment, on one pixel. What needs more than the pixel (a mean, neighbours, histograms)
 * stands only at the start of a segment: see k_sample.
 */
#ifndef STOKE_KERNELS_STEPS_H
#define STOKE_KERNELS_STEPS_H

#include "kernels/color_math.h"
#include "kernels/planes.h"

/* The step that segment `segment` > 0 of a row starts with, when it is of that kind; else 0. */
K_FN K_GLOBAL const k_step *k_start_of(K_GLOBAL const k_sample *sample, K_GLOBAL const k_step *steps,
                                       k_u32 segment, k_u32 kind)
{
    if (segment >= sample->segments) return 0;
    K_GLOBAL const k_step *s = steps + sample->first_step;
    while (s->segment < segment) s++;
    return s->kind == kind ? s : 0;
}

K_FN void k_linear_pixel(k_pixel *p, k_f32 a, k_f32 c)
{
    p->r = k_linear(p->r, a, c);
    p->g = k_linear(p->g, a, c);
    p->b = k_linear(p->b, a, c);
}

/* `keys`: three pairs of words, one a channel. */
K_FN void k_noise_pixel(k_pixel *p, K_GLOBAL const k_step *step, K_GLOBAL const k_u32 *keys, k_u32 x)
{
    k_u32 key[2];
    key[0] = keys[0];
    key[1] = keys[1];
    const k_f32 red = k_normal(x, key, step->a);
    k_f32 green = red, blue = red;
    if (!step->gray) {
        key[0] = keys[2];
        key[1] = keys[3];
        green = k_normal(x, key, step->a);
        key[0] = keys[4];
        key[1] = keys[5];
        blue = k_normal(x, key, step->a);
    }
    p->r = k_add_noise(p->r, red, step->c);
    p->g = k_add_noise(p->g, green, step->c);
    p->b = k_add_noise(p->b, blue, step->c);
}

K_FN void k_erase_pixel(k_pixel *p, K_GLOBAL const k_step *step, k_u32 x, k_u32 y)
{
    /* Left of or above the box the difference wraps and is large. */
    if (x - step->x >= step->width || y - step->y >= step->height) return;
    p->r = (k_f32)step->fill[0];
    p->g = (k_f32)step->fill[1];
    p->b = (k_f32)step->fill[2];
}

K_FN void k_step_run(k_pixel *p, K_GLOBAL const k_step *step, K_GLOBAL const k_u32 *keys, k_u32 x, k_u32 y,
                     k_f32 mean)
{
    if (step->kind == K_BRIGHTNESS) {
        k_linear_pixel(p, step->a, step->c);
    } else if (step->kind == K_CONTRAST) {
        k_linear_pixel(p, step->a, step->c * mean);
    } else if (step->kind == K_SATURATION) {
        k_linear_pixel(p, step->a, step->c * k_gray(p->r, p->g, p->b));
    } else if (step->kind == K_HUE) {
        const k_f32 turn[3] = { step->turn[0], step->turn[1], step->turn[2] };
        k_hue(&p->r, &p->g, &p->b, turn);
    } else if (step->kind == K_GAMMA) {
        p->r = k_gamma(p->r, step->a, step->c);
        p->g = k_gamma(p->g, step->a, step->c);
        p->b = k_gamma(p->b, step->a, step->c);
    } else if (step->kind == K_NOISE) {
        k_noise_pixel(p, step, keys + step->keys + (k_u64)y * 6, x);
    } else if (step->kind == K_ERASE) {
        k_erase_pixel(p, step, x, y);
    }
}

/* Column x of row y of the output. `mean` is that of the picture before the segment, if a contrast step
 * starts it. BLUR and CLAHE have been done by separate kernels. */
K_FN void k_steps_run(k_pixel *p, K_GLOBAL const k_sample *sample, K_GLOBAL const k_step *steps,
                      K_GLOBAL const k_u32 *keys, k_u32 segment, k_u32 x, k_u32 y, k_f32 mean)
{
    const k_u32 end = sample->first_step + sample->n_steps;
    for (k_u32 i = sample->first_step; i < end && steps[i].segment <= segment; i++)
        if (steps[i].segment == segment) k_step_run(p, steps + i, keys, x, y, mean);
}

#endif
