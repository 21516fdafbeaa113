/* SPDX-License-Identifier: Apache-2.0
 *
 * A plan: everything that will happen to one sample, as numbers. Drawn before a pixel is touched, carried out
 * by any device with the same result. Holds no pointers: it can be logged, replayed and sent to a device.
 *
 * The way of a sample by its plan:
 *
 *     source ──box──► decoded ──antialiased resize──► fitted ──matrix (or place and mirror)──► laid out
 *            ──color steps, in order──► normalised, in the batch row ──mix with the row before──► batch
 *
 * Coordinates: x right, y down, the centre of column j is x = j.
 */
#ifndef STOKE_AUGMENT_PLAN_H
#define STOKE_AUGMENT_PLAN_H

#include <stoke/image.h>

/* A photometric step. It changes the image and never the mask (but see ERASE). Samples v are reals in 0..255
 * whatever the depth of the file (a 16-bit sample counts 1/257), and every step leaves them there.
 * gray = 0.2989 R + 0.587 G + 0.114 B, as torchvision. */
typedef enum stoke_color_kind {
    STOKE_COLOR_BRIGHTNESS = 0, /* v = clamp(a * v) */
    STOKE_COLOR_CONTRAST,       /* v = clamp(a * v + (1 - a) * m), m = mean gray of the picture so far */
    STOKE_COLOR_SATURATION,     /* v = clamp(a * v + (1 - a) * gray) */
    STOKE_COLOR_HUE,            /* HSV: hue + a turns, -0.5 <= a <= 0.5 */
    STOKE_COLOR_GAMMA,          /* v = clamp(255 * b * (v / 255)^a) */
    STOKE_COLOR_BLUR,           /* Gaussian of sigma a, n x n taps (odd), border mirrored without its edge */
    STOKE_COLOR_NOISE, /* v = clamp(v + 255 * (b + a * N(0,1))), every sample its own; n = 1: every pixel its
                          own, for all three channels; keyed by key */
    STOKE_COLOR_CLAHE, /* clip limit a, n x n tiles, on the lightness */
    STOKE_COLOR_ERASE, /* v = fill in `box` of the output; n = 1: the mask becomes ignore there too */
    STOKE_COLOR_KINDS
} stoke_color_kind;

typedef struct stoke_color_step {
    uint32_t kind; /* stoke_color_kind */
    uint32_t n;
    float a, b;
    stoke_box box;
    uint8_t fill[4]; /* ERASE: R, G, B */
    uint32_t unused; /* 0 */
    uint64_t key;    /* NOISE */
} stoke_color_step;

/* How a row is mixed with the row before it in the batch (row 0 with the last one), both as they are before
 * any mixing. */
typedef enum stoke_mix_kind {
    STOKE_MIX_NONE = 0,
    STOKE_MIX_UP = 1, /* image = lambda * own + (1 - lambda) * other; the batch carries both masks */
    STOKE_MIX_CUT = 2 /* inside `box` image and mask are the other's */
} stoke_mix_kind;

enum { STOKE_PLAN_COLOR_STEPS = 32 };

typedef struct stoke_augment_plan {
    /* The source part `box` is decoded and resized to width x height (image antialiased bilinear, mask
     * nearest-exact): the fitted picture. */
    stoke_box box;
    uint32_t width, height;
    /* Without a warp the fitted picture is laid at (place_x, place_y) of the output, the rest is fill /
     * ignore_index, and the whole is mirrored. With one, matrix says it all and place and flips are 0. */
    uint32_t place_x, place_y;
    uint8_t hflip, vflip;
    uint8_t warp;
    uint8_t swap_labels; /* 1: left and right classes change places (the picture is a mirror image) */
    /* From an output pixel to the fitted picture, 32.32 fixed point: exact and the same everywhere.
     *   x = matrix[0] * column + matrix[1] * row + matrix[2],  y = matrix[3] * column + ... */
    int64_t matrix[6];
    /* Elastic displacement added to the matrix's result: a cubic B-spline over control points `elastic_step`
     * pixels apart, each moved by up to elastic_alpha pixels in x and y. 0 = none; only with warp. */
    float elastic_alpha, elastic_step;
    uint64_t elastic_key;
    /* 1: the crop wants to look at a pixel of the mask: draw again with the focus found by these numbers. */
    uint8_t wants_focus;
    uint32_t focus_class, focus_pixel; /* uniform 32-bit words: which class, which pixel of it */
    uint32_t n_color_steps;
    stoke_color_step color[STOKE_PLAN_COLOR_STEPS];
    uint32_t mix; /* stoke_mix_kind */
    float lambda; /* MIX_UP: share of the own picture */
    stoke_box mix_box;
} stoke_augment_plan;

#endif
