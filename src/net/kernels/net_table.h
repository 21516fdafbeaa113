/* SPDX-License-Identifier: Apache-2.0
 *
 * The function table of network mathematics: per operation the inner functions one thread runs on its rows.
 * Each operation has its section; the C reference fills it first (stk_X_fill_c), then the vector forms
 * overwrite it (stk_X_fill_avx2, _avx512, and for the gemm _amx). tests/check compares every column the
 * processor has with the reference, and `bench net` times them.
 *
 * Unlike the pixel tables, columns agree to rounding, not to the bit: sums are taken in other orders.
 */
#ifndef STOKE_SRC_NET_KERNELS_NET_TABLE_H
#define STOKE_SRC_NET_KERNELS_NET_TABLE_H

#include "src/base/cpu.h"
#include "src/base/rng.h"
#include "src/net/exec.h"
#include "src/net/kernels/floats.h"
#include "src/net/ops/ops.h"

/* ---- gemm ---- */

/* Matrix products of one thread: the section of the function table for linear, one entry per type of
 * activations.
 *
 * B, the weights, is packed beforehand into what the kernel of the entry reads fastest: only its own `pack`
 * and `multiply` know that form. A, the activations, is read where it lies. Where the processor has no
 * arithmetic in the 16-bit type, its weights are rounded to it and everything is computed in f32.
 *
 * An element is summed over its k in an order that depends on (k, n) alone: not on the rows or columns asked
 * for together with it, so that callers may cut as they like. */

/* Where the f32 masters of B[k][n] lie. Outputs come from up to two arrays one after the other (key and
 * value); inputs may be permuted (taps of a convolution): element i of a row of X is multiplied by
 * weight[i % (in / taps) * taps + i / (in / taps)] of an output's weights. */
typedef struct stk_gemm_source {
    uint32_t in, out, taps, parts;
    const float *weight[2];
    size_t stride;        /* floats from output to output */
    const float *bias[2]; /* NULL: zeros */
    int transposed;       /* 0: k are inputs, n outputs. 1: k are outputs, n inputs, no bias */
} stk_gemm_source;

/* Y = (X B + bias) * scale + residual for some columns of Y. */
typedef struct stk_gemm_product {
    size_t k, n;           /* of B as packed */
    const void *packed;    /* 64-byte aligned */
    size_t first, columns; /* which: first is a multiple of `panel`, and so is columns unless they are the
                              last; y and residual below point to column 0 all the same */
    int bias;              /* 0: leave it out */
    const float *scale;    /* NULL, or a factor per sample_rows rows, of which `row` is the first one's */
    size_t sample_rows, row;
    stk_float type;          /* of y: the entry's, or f32 */
    const void *residual;    /* NULL, or laid out like y; may be y itself when the types agree */
    stk_float residual_type; /* f32, or that of y */
} stk_gemm_product;

/* dW[n][k] = or += dY^T X and db[n] = or += column sums of dY, over some rows; n and k may be a part of the
 * layer's. */
typedef struct stk_gemm_outer {
    size_t rows, n, k;
    const void *dy, *x; /* of the entry's type, at the first row and column */
    size_t dy_stride, x_stride;
    float *dw;
    size_t dw_stride;
    float *db;     /* NULL: not wanted */
    int add;       /* += */
    void *scratch; /* outer_scratch bytes, 64-byte aligned */
} stk_gemm_outer;

typedef struct stk_gemm {
    uint32_t panel; /* columns of B that lie together: pack and multiply start at multiples of it */
    uint32_t strip; /* rows of A multiplied together: multiples of it waste nothing */
    size_t (*packed_bytes)(size_t k, size_t n); /* bias included; a multiple of 64 */
    /* Columns first .. first + columns (cut like those of stk_gemm_product) with their bias. */
    void (*pack)(const stk_gemm_source *source, size_t first, size_t columns, void *packed);
    void (*multiply)(const stk_gemm_product *product, size_t rows, const void *x, size_t x_stride, void *y,
                     size_t y_stride);
    size_t outer_scratch;
    void (*outer)(const stk_gemm_outer *outer);
} stk_gemm;

typedef struct stk_gemm_table {
    stk_gemm of[STK_FLOATS];
} stk_gemm_table;

/* k and n of what `source` is packed to. */
static inline size_t stk_gemm_source_k(const stk_gemm_source *source)
{
    return source->transposed ? source->out : source->in;
}
static inline size_t stk_gemm_source_n(const stk_gemm_source *source)
{
    return source->transposed ? source->in : source->out;
}

/* Where the weight of (output, input) lies, as the sum of what the output and what the input contribute. */
static inline const float *stk_gemm_output(const stk_gemm_source *source, size_t output)
{
    const size_t each = source->out / source->parts;
    return source->weight[output / each] + output % each * source->stride;
}
static inline size_t stk_gemm_input(const stk_gemm_source *source, size_t input)
{
    const size_t channels = source->in / source->taps;
    return input % channels * source->taps + input / channels;
}
static inline float stk_gemm_bias(const stk_gemm_source *source, size_t output)
{
    const size_t each = source->out / source->parts;
    const float *bias = source->bias[output / each];
    return bias ? bias[output % each] : 0.0f;
}

/* ---- attention ---- */

/* The section of the function table for attention: what one thread does with some queries of one head of
 * one sample, against all of its keys. */

/* Pointers are to the head's columns of the first row; rows of q, context and their gradients are `stride`
 * elements apart, those of k and v `kv_stride`. */
typedef struct stk_attention_share {
    stk_float type;
    uint32_t queries, keys, head_size;
    size_t stride, kv_stride;
    const void *q, *k, *v;
    void *context;  /* forward: written; backward: read */
    float *log_sum; /* one per query; forward: written unless NULL; backward: read */
    /* Backward only. */
    const void *d_context;
    void *dq;
    float *dk, *dv; /* [keys][head_size], the sums over these queries; written */
} stk_attention_share;

typedef struct stk_attention_table {
    size_t (*scratch)(uint32_t keys, uint32_t head_size); /* bytes; enough for both */
    void (*forward)(const stk_attention_share *share, void *scratch);
    void (*backward)(const stk_attention_share *share, void *scratch);
} stk_attention_table;

/* ---- conv ---- */

/* The section of the function table for conv. Both functions move or add numbers one by one: every column
 * gives the same bits. */

typedef struct stk_conv_table {
    /* out[i] (of type `to`; =, or += when add) for `elements` elements: in[0][i] + in[1][i] + ..., `count` >=
     * 0 arrays of type `from`, added in order; what out held comes last. */
    void (*sum)(void *out, stk_float to, const void *const *in, uint32_t count, stk_float from,
                size_t elements, int add);
    /* A patch of a picture in three planes, all of it inside: kernel lines of kernel pixels, three elements
     * of `type` each. Lines are `width` floats apart, planes `plane`. */
    void (*patch_rgb)(void *out, stk_float type, const float *in, size_t plane, size_t width,
                      uint32_t kernel);
} stk_conv_table;

/* ---- conv3 ---- */

/* The section of the function table for conv3: what one thread does with one part of an image, up to 4 lines
 * and STK_CONV3_COLUMNS columns that begin at multiples of 4. Packed weights and sums are in a form of the
 * column's own. Arrays are indexed by the type of the run; sums are f32.
 *
 * An element of the result does not depend on how the image is cut into parts. */

enum { STK_CONV3_LINES = 4, STK_CONV3_COLUMNS = 256 };

/* What is packed. Element (output, input, tap) is weight[(output * in + input) * 9 + tap] or, turned round,
 * weight[(input * out + output) * 9 + 8 - tap]. */
typedef struct stk_conv3_masters {
    uint32_t in, out;
    const float *weight;
    const float *bias; /* NULL: zeros */
    int turned;
} stk_conv3_masters;

typedef struct stk_conv3_part {
    stk_conv3_map map;
    uint32_t image, line, column, columns;
} stk_conv3_part;

typedef struct stk_conv3_product {
    stk_conv3_part part;
    uint32_t in, out;
    const stk_conv3_source *x;
    const void *packed; /* 64-byte aligned */
    const stk_conv3_finish *finish;
    void *y; /* the whole map's */
} stk_conv3_product;

/* sums += what a part says of the weights, and of the bias. */
typedef struct stk_conv3_outer {
    stk_conv3_part part;
    uint32_t in, out;
    const stk_conv3_source *x, *dy;
    float *sums;
} stk_conv3_outer;

/* d_weight[output][in][9] and d_bias[output] = or += scale * sums; either may be NULL. */
typedef struct stk_conv3_gradient {
    uint32_t in, out;
    const float *sums;
    float scale;
    int add;
    float *d_weight, *d_bias;
} stk_conv3_gradient;

typedef struct stk_conv3_table {
    size_t (*packed_bytes)(uint32_t in, uint32_t out); /* a multiple of 64 */
    /* Outputs first .. first + count; first is a multiple of 32, and so is count unless they are the last. */
    void (*pack[STK_FLOATS])(const stk_conv3_masters *masters, uint32_t first, uint32_t count, void *packed);
    /* Bytes of scratch that multiply (of in -> out) and outer need for parts of so many columns. */
    size_t (*multiply_scratch)(uint32_t in, uint32_t out, uint32_t columns);
    size_t (*outer_scratch)(uint32_t in, uint32_t out, uint32_t columns);
    void (*multiply[STK_FLOATS])(const stk_conv3_product *product, void *scratch);
    size_t (*sums)(uint32_t in, uint32_t out); /* floats, a multiple of 16; 0 to begin with */
    void (*outer[STK_FLOATS])(const stk_conv3_outer *outer, void *scratch);
    /* For outputs first .. first + count. */
    void (*gradient)(const stk_conv3_gradient *gradient, uint32_t first, uint32_t count);
} stk_conv3_table;

/* ---- depthwise ---- */

/* The section of the function table for depthwise: what one thread does with one line of a map, or a part
 * of it. Indexed by the type of the maps.
 *
 * h2 is rounded to that type before GELU takes it, as if it had been stored: torch's layers do that. */

/* Columns column .. column + columns and channels channel .. channel + channels of a line of `width` columns
 * of all the layer's channels. `channel` is a multiple of 16. */
typedef struct stk_depthwise_line_part {
    uint32_t width, column, columns, channel, channels;
} stk_depthwise_line_part;

/* The lines above, at and below the one to make, NULL where the map has ended. */
typedef struct stk_depthwise_line_around {
    const void *line[3];
} stk_depthwise_line_around;

/* Gradients by h2 are kept in f32 lines of this many floats, in an order the column chooses; it makes them
 * (slope) and reads them (backward). A line of zeros is one of any order. */
static inline size_t stk_slope_floats(uint32_t width, uint32_t channels)
{
    return ((size_t)width + 2) * ((channels + 15) / 16 * 16);
}

typedef struct stk_depthwise_table {
    /* h3 points to where column `column` goes, h1 to column 0. */
    void (*forward[STK_FLOATS])(const stk_depthwise *layer, const stk_depthwise_line_part *part,
                                const stk_depthwise_line_around *h1, void *h3);
    /* t = dh3 gelu'(h2) for whole lines. */
    void (*slope[STK_FLOATS])(const stk_depthwise *layer, const stk_depthwise_line_part *part,
                              const stk_depthwise_line_around *h1, const void *dh3, float *t);
    /* dh1 of a whole line from the three lines of t around it; adds what it says of the 9 weights and the
     * bias to sums[tap][channels], unless that is NULL. */
    void (*backward[STK_FLOATS])(const stk_depthwise *layer, const stk_depthwise_line_part *part,
                                 const float *const t[3], const void *h1, void *dh1, float *sums);
} stk_depthwise_table;

/* ---- layernorm ---- */

/* The section of the function table for layernorm: what one thread does with `rows` rows, one after the
 * other in memory. Indexed by the type of y and dy. */

typedef struct stk_layernorm_table {
    void (*stats)(const stk_layernorm *norm, size_t rows, const float *x, float *stats);
    void (*forward[STK_FLOATS])(const stk_layernorm *norm, size_t rows, const float *x, float *stats,
                                void *y);
    /* y from statistics that are there: the same bits as `forward`. */
    void (*apply[STK_FLOATS])(const stk_layernorm *norm, size_t rows, const float *x, const float *stats,
                              void *y);
    /* Adds d_gamma, then d_beta to `sums` (2 * channels); NULL: not wanted. */
    void (*backward[STK_FLOATS])(const stk_layernorm *norm, size_t rows, const float *x, const float *stats,
                                 const void *dy, const float *residual, float *dx, float *sums);
} stk_layernorm_table;

/* ---- head ---- */

/* The section of the function table for segformer_head.h: lines of pixels and blocks of rows, done by one
 * thread. Rows have `size` elements, a multiple of 32, and follow each other without a gap. Arrays are
 * indexed by the type of the activations. */

/* Dropout. Bits are a function of (seed, row, channel), so that backward makes the same mask again instead of
 * keeping it; integers only, so that every column of the table makes the same. One 32-bit word serves two
 * channels 16 apart: 16 words per 32 channels, one vector of AVX-512 or two of AVX2. 16 bits are enough, as
 * what is kept is multiplied for the share they really drop (0.1 becomes 0.100006). Over a million draws that
 * share, and how often two at a distance in channels, rows or seeds drop together, are as chance has them
 * (test_head.c).
 */
static inline uint64_t stk_dropout_key(uint64_t seed, uint64_t row)
{
    return stk_mix64(stk_mix64(seed) + row);
}

/* The two rounds of multiplication and shift are those of Wellons' lowbias32, with the upper half of the key
 * between them: rows that agree in one half by chance still differ. */
#define STK_DROPOUT_STEP   0x9e3779b9u
#define STK_DROPOUT_FIRST  0x7feb352du
#define STK_DROPOUT_SECOND 0x846ca68bu

static inline uint32_t stk_dropout_word(uint64_t key, uint32_t word)
{
    uint32_t x = (uint32_t)key + word * STK_DROPOUT_STEP;
    x = (x ^ x >> 16) * STK_DROPOUT_FIRST;
    x = ((x ^ x >> 15) + (uint32_t)(key >> 32)) * STK_DROPOUT_SECOND;
    return x ^ x >> 16;
}

static inline uint32_t stk_dropout_bits(uint64_t key, uint32_t channel)
{
    const uint32_t word = stk_dropout_word(key, channel / 32 * 16 + channel % 16);
    return channel % 32 < 16 ? word & 0xffff : word >> 16;
}

/* Batch norm, ReLU and dropout: r = max(0, (y - mean) scale + shift) where dropout keeps it, else 0. The
 * factor of what is kept is part of scale and shift. Not y scale + (shift - mean scale): that loses the
 * digits of y - mean when the mean is large. */
typedef struct stk_head_norm {
    uint32_t size;
    const float *mean, *scale, *shift;
    uint64_t seed;
    uint32_t threshold; /* keeps a channel whose 16 bits are not below it; 0: all, without drawing */
    float keep;         /* the factor */
} stk_head_norm;

/* dy = gain (g - g_mean) - slope (y - mean): backward through the batch's statistics. */
typedef struct stk_head_norm_back {
    uint32_t size;
    const float *mean, *gain, *g_mean, *slope;
} stk_head_norm_back;

/* Interpolation along one axis. Sample i of the larger map is a_weight of sample a and b_weight of sample b.
 */
typedef struct stk_head_tap {
    uint32_t a, b;
    float a_weight, b_weight;
} stk_head_tap;

/* Transposed: sample j of the smaller map is in samples first .. first + count of the larger one, with the
 * weights that begin at `at`. */
typedef struct stk_head_spread {
    uint32_t first, count, at;
} stk_head_spread;

typedef struct stk_head_upsample {
    uint32_t small, large;    /* samples */
    stk_head_tap *taps;       /* large */
    stk_head_spread *spreads; /* small */
    float *weights;           /* up to 2 large */
} stk_head_upsample;

enum { STK_SMALLER = 3 }; /* stages that are enlarged */

/* A line of y: base + the smaller maps' lines, stretched. */
typedef struct stk_head_line {
    uint32_t size, width;
    const float *base;             /* width rows */
    const float *low[STK_SMALLER]; /* lines of the smaller maps, mixed for this line's height */
    const stk_head_upsample *across[STK_SMALLER];
} stk_head_line;

typedef struct stk_head_table {
    /* out[i] = a[i] a_weight + b[i] b_weight: a line between two lines. */
    void (*mix[STK_FLOATS])(size_t count, const void *a, float a_weight, const void *b, float b_weight,
                            float *out);
    /* y of a line, and its part in the moments of a strip: `moments` is three rows, a shift, the sum of
     * y - shift and the sum of its squares. `first`: the strip begins, the shift is its first pixel. (Sums
     * about a value of the batch keep the variance's digits when the mean is far larger.) */
    void (*line[STK_FLOATS])(const stk_head_line *line, int first, float *moments, void *y);
    /* max(0, y) of a line. */
    void (*line_relu[STK_FLOATS])(const stk_head_line *line, void *y);
    /* r of rows; `row` is the number of the first, for dropout. */
    void (*activate[STK_FLOATS])(const stk_head_norm *norm, size_t row, size_t rows, const void *y, void *r);
    /* r again, and g = dr where r passed, times keep; adds to two rows of sums: of g and of g (y - mean). */
    void (*activate_back[STK_FLOATS])(const stk_head_norm *norm, size_t row, size_t rows, const void *y,
                                      const float *dr, void *r, void *g, float *sums);
    void (*norm_back[STK_FLOATS])(const stk_head_norm_back *back, size_t rows, const void *y, const void *g,
                                  void *dy);
    /* Adds what a line of dy gives to one smaller map, times a_weight to line a and times b_weight to line b,
     * which may be one. */
    void (*spread[STK_FLOATS])(const stk_head_upsample *across, uint32_t size, const void *dy, float a_weight,
                               float *a, float b_weight, float *b);
    /* out = a + b; b NULL: a. out may be a. */
    void (*join[STK_FLOATS])(size_t count, const float *a, const float *b, void *out);
} stk_head_table;

/* ---- loss ---- */

/* The section of the function table for loss.
 *
 * The unit of work is a block: `lanes` neighbouring columns of the mask, and up to STK_LOSS_LINES of its
 * lines that lie between the same two lines of logits. Pixels are the lanes of a vector, classes its rows: no
 * sum across lanes, no lanes lost to 19 classes, and one code for 1 class and for 150. `spread` turns a line
 * of logits into planes [class][lane], interpolated horizontally, once per line of logits; between two such
 * planes every line of the mask costs one multiply-add per class. Gradients take the same way back: `pixels`
 * adds to planes, `collect` to a line of d_logits.
 *
 * One class is treated as two, the first of which always has the logit 0: softmax(0, z) is sigmoid(z), and
 * every loss of two classes is the binary one. `planes` is therefore 2 for one class, else `classes`. */

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

/* ---- update ---- */

/* The section of the function table for update: one chunk of parameters of one group. */

/* The numbers of a step for one group, each computed in double and rounded once, as torch.optim does. */
typedef struct stk_update_step {
    float factor;          /* of every gradient */
    float lr;              /* SGD */
    float decay;           /* SGD: added to the gradient times the value; AdamW: 1 - lr * weight_decay */
    float beta1, beta2;    /* SGD: momentum = beta1 */
    float rest1, rest2;    /* 1 - beta */
    float rate, root, eps; /* AdamW: lr / (1 - beta1^step), 1 / sqrt(1 - beta2^step) */
    float keep, take;      /* EMA: average_decay, 1 - average_decay */
    int nesterov;
} stk_update_step;

/* Parameters that are updated together. average NULL: none. SGD: second is not looked at, first NULL: no
 * momentum. */
typedef struct stk_update_chunk {
    float *values;
    const float *gradients;
    float *first, *second, *average;
    size_t count;
} stk_update_chunk;

typedef struct stk_update_table {
    double (*squares)(const float *values, size_t count); /* their sum */
    void (*adamw)(const stk_update_step *step, const stk_update_chunk *chunk);
    void (*sgd)(const stk_update_step *step, const stk_update_chunk *chunk);
} stk_update_table;

/* ---- peak ---- */

/* Multiply-adds in registers and nothing else: what the processor can do at most, for shares of it. */

/* Does `rounds` rounds and returns how many operations that were, 2 per multiply-add. */
typedef uint64_t stk_peak_fn(uint64_t rounds);

typedef struct stk_peak_table {
    stk_peak_fn *run[STK_FLOATS]; /* by the type of the factors */
} stk_peak_table;

/* ---- the table ---- */

#define STK_NET_SECTIONS(DO)                                                                                 \
    DO(gemm)                                                                                                 \
    DO(layernorm) DO(depthwise) DO(attention) DO(conv) DO(conv3) DO(head) DO(loss) DO(update) DO(peak)

typedef struct stk_net_table {
    stk_cpu_level level;
#define STK_SECTION(name) stk_##name##_table name;
    STK_NET_SECTIONS(STK_SECTION)
#undef STK_SECTION
} stk_net_table;

#define STK_FILLS(name)                                                                                      \
    void stk_##name##_fill_c(stk_##name##_table *table);                                                     \
    void stk_##name##_fill_avx2(stk_##name##_table *table);                                                  \
    void stk_##name##_fill_avx512(stk_##name##_table *table);
STK_NET_SECTIONS(STK_FILLS)
#undef STK_FILLS
/* Of bf16 alone. */
void stk_gemm_fill_amx(stk_gemm_table *table);
void stk_peak_fill_amx(stk_peak_table *table);

/* Of a level the processor has (lower ones always work), and of the level in use. */
void stk_net_table_fill(stk_net_table *table, stk_cpu_level level);
const stk_net_table *stk_net_table_get(void);

#endif
