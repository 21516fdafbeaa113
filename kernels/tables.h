/* SPDX-License-Identifier: Apache-2.0
 *
 * What kernels are told about a batch: one k_shape by value, one k_sample for every row, one k_step for every
 * photometric step of every row. The host works out every number that needs a double, a library or a branch
 * on the plan (src/upload/tables.c); kernels only compute pixels. Members are ordered by size, so that all
 * readers lay them out alike.
 */
#ifndef STOKE_KERNELS_TABLES_H
#define STOKE_KERNELS_TABLES_H

#include "kernels/compat.h"

/* The values of stoke_color_kind, stoke_mix_kind, stoke_dtype and stoke_layout, which kernels cannot include;
 * src/upload/tables.c asserts that they agree. */
enum { K_BRIGHTNESS = 0, K_CONTRAST, K_SATURATION, K_HUE, K_GAMMA, K_BLUR, K_NOISE, K_CLAHE, K_ERASE };
enum { K_MIX_NONE = 0, K_MIX_UP, K_MIX_CUT };
enum { K_DTYPE_U8 = 0, K_DTYPE_F32, K_DTYPE_F16, K_DTYPE_BF16, K_DTYPE_U16, K_DTYPE_I32, K_DTYPE_I64 };
enum { K_CHW = 0, K_HWC = 1 };

enum {
    K_RADIUS_MAX = 15, /* of a blur: 31 taps */
    K_LEVELS = 256,    /* bins of CLAHE */
    K_STRIP = 64       /* rows of a column that one work item sums up */
};

/* The batch, and what a launch is about. */
typedef struct k_shape {
    k_u64 image_pitch, mask_pitch; /* bytes from row to row of the batch, in images and masks */
    k_u32 count;                   /* rows that hold a sample */
    k_u32 width, height;           /* of the output */
    k_u32 layout, dtype;           /* of images */
    k_u32 mask_dtype, mask_fill;
    k_u32 round;              /* which segment of the steps a launch is about, see k_sample */
    k_u32 two_masks;          /* mix: there is a block of second masks */
    k_u32 channels, id_depth; /* take: of the images, and bytes of an id in the raw batch */
    k_u32 unused;
    /* An element is (v * high + high_bias) + (v * low + low_bias), each rounded (stk_pix_writer); U8 is v
     * rounded. */
    k_f32 high[3], high_bias[3], low[3], low_bias[3];
} k_shape;

/* What is taken of a picture of somebody's batch: bytes from the start of the raw block to where its image
 * and its ids go, and the box. */
typedef struct k_take {
    k_u64 image, mask;
    k_u32 x, y, width, height;
} k_take;

/* One row. The steps of a row are cut into segments by the steps that need more than their own pixel:
 * CONTRAST (a mean), BLUR (neighbours), CLAHE (histograms). Segment 0 starts from the fitted picture and ends
 * before the first of them; segment r > 0 starts with the r-th of them. A row of one segment goes from the
 * raw block straight to the batch; the others wait in `planes`: three planes of width x height floats a row,
 * in 0..255. */
typedef struct k_sample {
    k_u64 image,
        mask; /* bytes from the start of the raw block to the fitted picture and its ids, rows packed */
    k_i64 matrix[6];     /* 32.32, as in stoke_augment_plan */
    k_u32 width, height; /* of the fitted picture */
    k_u32 depth;         /* bytes of a sample of the image: 1 or 2 */
    k_u32 mask_depth;    /* bytes of an id: 1 or 2; 0 = no mask, all ids are 0 */
    k_u32 place_x, place_y, hflip, vflip;
    k_u32 warp, swap;    /* swap: ids go through the table of mirror images */
    k_u32 columns, rows; /* control points of the elastic displacement; 0 = none */
    k_u32 points; /* where they begin in the block of points, in pairs of floats (x, y), row after row */
    k_u32 elastic_key[2];
    k_i32 elastic_limit; /* in 1/65536 px */
    k_f32 elastic_step, elastic_alpha;
    k_u32 first_step, n_steps; /* in the table of steps: only those that change something */
    k_u32 segments;            /* at least 1 */
    k_u32 mix;                 /* K_MIX_ */
    k_f32 lambda;
    k_u32 mix_x, mix_y, mix_width, mix_height;
    k_u32 unused;
} k_sample;

typedef struct k_step {
    k_u32 kind;
    k_u32 segment; /* that it belongs to */
    k_f32 a,
        c; /* factor and summand of the step's formula; CONTRAST: c is 1 - a, to be multiplied by the mean */
    k_f32 turn[3]; /* HUE */
    k_u32 radius;  /* BLUR */
    k_f32 weight[K_RADIUS_MAX + 1];
    k_u32 gray; /* NOISE: 1 = the same for all three channels */
    k_u32 key[2];
    k_u32 keys;                /* where its row keys begin in the block of keys: [height][3][2] words */
    k_u32 x, y, width, height; /* ERASE, cut to the output; */
    k_u32 fill[3];
    k_u32 erase_mask;
    k_u32 tiles; /* CLAHE: n x n tiles */
    k_u32 tile_width, tile_height;
    k_f32 inverse_width, inverse_height; /* 1 / tile */
    k_u32 limit;                         /* counts are cut at; 0 = not */
    k_f32 scale;                         /* 255 / area of a tile */
    k_u32 sums;   /* CONTRAST: where its sum begins in the block of sums, two words: low, high */
    k_u32 tables; /* CLAHE: where its counts and tables begin, in tiles of K_LEVELS entries */
    k_u32 unused;
} k_step;

/* Each is the sum of its members, so no reader has put a gap between two of them, and their offsets agree.
 * Multiples of 8, so that an array of them has none either. An array of -1 elements does not compile, in any
 * of the three languages. */
typedef char k_shape_has_no_gaps[sizeof(k_shape) == 112 ? 1 : -1];
typedef char k_sample_has_no_gaps[sizeof(k_sample) == 176 ? 1 : -1];
typedef char k_step_has_no_gaps[sizeof(k_step) == 184 ? 1 : -1];

#endif
