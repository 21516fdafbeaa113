/* SPDX-License-Identifier: Apache-2.0
 *
 * The section of the function table for loss.h.
 *
 * The unit of work is a block: `lanes` neighbouring columns of the mask, and up to STK_LOSS_LINES of its
 * lines that lie between the same two lines of logits. Pixels are the lanes of a vector, classes its rows: no
 * sum across lanes, no lanes lost to 19 classes, and one code for 1 class and for 150. `spread` turns a line
 * of logits into planes [class][lane], interpolated horizontally, once per line of logits; between two such
 * planes every line of the mask costs one multiply-add per class. Gradients take the same way back: `pixels`
 * adds to planes, `collect` to a line of d_logits.
 *
 * One class is treated as two, the first of which always has the logit 0: softmax(0, z) is sigmoid(z), and
 * every loss of two classes is the binary one. `planes` is therefore 2 for one class, else `classes`.
 */
#ifndef STOKE_SRC_NET_KERNELS_LOSS_TABLE_H
#define STOKE_SRC_NET_KERNELS_LOSS_TABLE_H

#include "src/net/exec.h"

enum {
    STK_LOSS_LINES = 4,      /* of a block: what a ratio of 4 has between two lines of logits */
    STK_LOSS_MOST_LANES = 16 /* of any table */
};

/* Columns of a block in a line of logits: lane l is (1 - share[l]) * pixel first[l] + share[l] * pixel
 * first[l] + step. first never falls from lane to lane. */
typedef struct stk_loss_columns {
    const uint32_t *first;
    const float *share;
    uint32_t step; /* 1, or 0 when there is only one column */
    size_t stride; /* floats from pixel to pixel of the line */
    uint32_t classes;
} stk_loss_columns;

/* One mask and what its terms count. */
typedef struct stk_loss_mask {
    const int32_t *labels; /* of the block's first pixel; < 0: does not count */
    float point;           /* factor of the pixel's cross-entropy or focal loss */
    float dice;            /* factor of the sample in Dice's sums; 0: no Dice */
    /* d loss / d (sum of p over pixels of the class), d loss / d (sum of p over all that count); [planes] */
    const float *inside, *overall;
    float *overlap, *cover; /* those two sums, [planes][lanes], for `sums` */
} stk_loss_mask;

typedef struct stk_loss_block {
    uint32_t planes, lines, masks; /* masks: 1, or 2 when mixed */
    const float *upper, *lower;    /* logits, [planes][lanes] */
    float share[STK_LOSS_LINES];   /* of `lower` in each line */
    stk_loss_mask mask[2];
    size_t label_stride;  /* from line to line */
    const float *weights; /* [planes] */
    float weights_sum;
    float smoothing;          /* label_smoothing / planes */
    float certain;            /* 1 - label_smoothing */
    float gamma;              /* of the focal loss; negative: cross-entropy */
    float factor;             /* of gradients */
    float *d_upper, *d_lower; /* added to, [planes][lanes]; NULL: the loss only */
    float *room;              /* (STK_LOSS_LINES * planes) * lanes floats */
} stk_loss_block;

typedef struct stk_loss_table {
    uint32_t lanes; /* pixels of a block, <= STK_LOSS_MOST_LANES */
    /* planes[class][lane] of a line of logits. One class: plane 1; plane 0 is zero already. */
    void (*spread)(const stk_loss_columns *columns, const float *line, float *planes);
    /* Adds planes of gradients to a line of d_logits. One class: plane 1 alone. */
    void (*collect)(const stk_loss_columns *columns, const float *planes, float *line);
    /* Adds the gradients of the block, returns the sum of its losses without Dice. */
    double (*pixels)(const stk_loss_block *block);
    /* Dice's sums: adds to overlap and cover of each mask. */
    void (*sums)(const stk_loss_block *block);
    /* labels[line][lane]: argmax of the block's logits; lowest at a tie. */
    void (*best)(const stk_loss_block *block, uint16_t *labels);
} stk_loss_table;

void stk_loss_fill_c(stk_loss_table *table);
void stk_loss_fill_avx2(stk_loss_table *table);
void stk_loss_fill_avx512(stk_loss_table *table);

#endif
