/* SPDX-License-Identifier: Apache-2.0
 *
 * The operations of a network, each in a file of its name: what it computes, what it keeps, what it needs.
 */
#ifndef STOKE_SRC_NET_OPS_OPS_H
#define STOKE_SRC_NET_OPS_OPS_H

#include "src/net/exec.h"
#include <stoke/data.h>
#include <stoke/tools/net.h>

/* ---- linear ---- */

/* The linear layer: Y = X W^T + b, dX = dY W, dW = dY^T X, db = column sums of dY. Patch embeddings and
 * sequence reductions are linear layers too, on rows of patches (conv).
 *
 * Weights are packed once per step into the form the kernel of the table wants (gemm.h); masters stay in
 * PyTorch's layout. Outputs are independent of how rows are cut: the k of an element are summed in one order.
 * dW is summed over chunks of rows whose number depends on the shape alone, then the chunks in order. */

typedef struct stk_linear {
    uint32_t in, out; /* elements of a row of X and of Y */
    uint32_t taps;    /* of a convolution: the master is [out][in / taps][taps] (OIHW) while rows of X run
                         tap by tap, channels fastest; 1 for a plain layer */
    uint32_t parts;   /* 1; 2: key and value, two masters of out / 2 outputs each, one after the other */
    const float *weight[2]; /* masters, [out / parts][in] */
    const float *bias[2];   /* out / parts each; NULL: none */
    float *d_weight[2];     /* their gradients, laid out alike; NULL: frozen, not computed */
    float *d_bias[2];       /* NULL: none, or frozen */
    size_t weight_stride;   /* floats from output to output of a master: `in`, or more in a wider one */
    /* Packed, of stk_linear_packed bytes each, 64-byte aligned. backward NULL: dX is never asked for. */
    void *forward, *backward;
} stk_linear;

/* Bytes of `forward` (which = 0: in -> out, padded bias included) and `backward` (1: out -> in). */
size_t stk_linear_packed(const stk_exec *run, const stk_linear *linear, int which);
/* Packs `count` layers, all threads at work. Before the first forward and after every update. */
void stk_linear_pack(const stk_exec *run, const stk_linear *const *linears, size_t count);

/* What becomes of X W^T. In this order: + bias, * scale, + residual. */
typedef struct stk_linear_finish {
    stk_float type;        /* of Y: the run's or STK_F32 */
    const float *scale;    /* NULL, or one factor per sample (drop path); 0 drops the sample */
    size_t sample_rows;    /* rows of a sample, for `scale` */
    const float *residual; /* NULL, or f32 with the stride of Y; may be Y itself when that is f32 */
    int no_bias;
} stk_linear_finish;

/* y[row][0 .. out) for `rows` rows, y_stride elements apart. Elements of y beyond `out` are left alone. */
void stk_linear_forward(const stk_exec *run, const stk_linear *linear, size_t rows, const stk_exec_rows *x,
                        const stk_linear_finish *finish, void *y, size_t y_stride);
/* dx[row][0 .. in) (=, or += when add) of `type` from dy of the run's type. */
void stk_linear_input(const stk_exec *run, const stk_linear *linear, size_t rows, const stk_exec_rows *dy,
                      void *dx, size_t dx_stride, stk_float type, int add);
/* Gradients of weight and bias, honouring run->accumulate. */
void stk_linear_weight(const stk_exec *run, const stk_linear *linear, size_t rows, const stk_exec_rows *x,
                       const stk_exec_rows *dy);
/* One thread's share of forward and input, for operations that fuse the layer with what comes before or after
 * (segformer_head.h). The rows lie in memory. */
void stk_linear_forward_rows(const stk_exec *run, const stk_linear *linear, size_t rows, const void *x,
                             size_t x_stride, const stk_linear_finish *finish, void *y, size_t y_stride);
void stk_linear_input_rows(const stk_exec *run, const stk_linear *linear, size_t rows, const void *dy,
                           size_t dy_stride, void *dx, size_t dx_stride, stk_float type, int add);

/* Enough for all three on up to `rows` rows. Rows that are made may have a stride of their width rounded up
 * to a multiple of 32 elements, not more. */
stk_exec_need stk_linear_need(const stk_exec *run, const stk_linear *linear, size_t rows);

/* C[m][n] (c_stride floats apart, = or +=) of small f32 matrices that are not activations (the folded
 * decoder): A[m][k] times B[k][n], either one optionally given transposed. Both are packed into `room`,
 * stk_multiply_room(k, n) bytes of it. In f32 in every precision. */
size_t stk_multiply_room(const stk_exec *run, size_t k, size_t n);
typedef struct stk_linear_matrix {
    const float *data;
    size_t stride;
    int transposed; /* 1: data holds the transpose */
} stk_linear_matrix;
void stk_multiply(const stk_exec *run, size_t m, size_t n, size_t k, stk_linear_matrix a, stk_linear_matrix b,
                  float *c, size_t c_stride, int add, void *room);

/* ---- conv ---- */

/* Convolutions as linear layers on patches: patch embeddings (7x7 stride 4, 3x3 stride 2, padded by half) and
 * sequence reductions (kernel = stride, no padding). Patches are gathered into the linear layer's scratch a
 * few rows at a time and never stored. */

typedef struct stk_conv_patches {
    uint32_t batch, height, width, channels; /* of the source */
    uint32_t kernel, stride, padding;
    uint32_t out_height, out_width; /* (size + 2 padding - kernel) / stride + 1, rounded down */
    /* The source: tokens of `type`, or, for the first layer, f32 pictures in either layout. */
    const void *source;
    stk_float type;
    int planar;           /* 1: source is [batch][channels][height][width] f32 */
    size_t sample_stride; /* elements from picture to picture of the source */
    stk_float out;        /* type of the rows: the run's */
} stk_conv_patches;

/* Rows of kernel * kernel * channels elements, tap by tap, one per output token. `patches` must outlive it.
 */
stk_exec_rows stk_patches_rows(const stk_conv_patches *patches);
/* The gradient of the source from that of the patches: every element of dx (f32 or the run's, [batch][height]
 * [width][channels]) is the sum over the patches it is part of, in the order of its taps; = or +=. */
void stk_patches_backward(const stk_exec *run, const stk_conv_patches *patches, const void *d_rows,
                          size_t stride, void *dx, stk_float dx_type, int add);

/* ---- conv3 ---- */

/* Convolution with 3x3 taps, stride 1, padding 1 (PyTorch's Conv2d(in, out, 3, padding=1)) of maps [batch]
 * [height][width][channels], with what comes after it done where the sums are. Outputs do not depend on how
 * the map is cut among threads; gradients of weights are summed in an order that the shape alone decides. */

typedef struct stk_conv3 {
    uint32_t in, out;           /* channels */
    const float *weight, *bias; /* masters: [out][in][3][3], [out] */
    float *d_weight, *d_bias;   /* NULL: frozen */
    /* Packed, of stk_conv3_packed bytes each, 64-byte aligned. backward NULL: dx is never asked for. */
    void *forward, *backward;
} stk_conv3;

typedef struct stk_conv3_map {
    uint32_t batch, height, width;
} stk_conv3_map;

/* What a convolution reads: a map of f32 or of the run's type (f32 is rounded to that as it is read), or
 * pictures in planes, f32. */
typedef struct stk_conv3_source {
    const void *data;
    stk_float type;
    size_t stride;        /* elements from pixel to pixel; in planes not looked at */
    size_t sample_stride; /* elements from picture to picture */
    int planar;           /* 1: [channels][height][width] */
} stk_conv3_source;

/* What becomes of a sum. In this order: + bias (forward), * scale, gate, + residual. */
typedef struct stk_conv3_finish {
    stk_float type;   /* of the result: the run's or STK_F32 */
    size_t stride;    /* elements from pixel to pixel of result, gate and residual */
    float scale;      /* 1 leaves it */
    int relu;         /* forward: what is below 0 becomes 0 */
    const void *gate; /* NULL, or a map of the run's type: 0 wherever that is not above 0 (relu, backward) */
    const float *residual; /* NULL, or f32; may be the result itself when that is f32 */
} stk_conv3_finish;

/* Bytes of `forward` (which = 0, bias included) and `backward` (1: taps turned round, out -> in). */
size_t stk_conv3_packed(const stk_exec *run, const stk_conv3 *layer, int which);
/* Packs `count` layers, all threads at work. Before the first forward and after every update. */
void stk_conv3_pack(const stk_exec *run, const stk_conv3 *const *layers, size_t count);
/* Elements of a pixel of the result beyond its channels are left alone. */
void stk_conv3_forward(const stk_exec *run, const stk_conv3 *layer, stk_conv3_map map,
                       const stk_conv3_source *x, const stk_conv3_finish *finish, void *y);
void stk_conv3_input(const stk_exec *run, const stk_conv3 *layer, stk_conv3_map map,
                     const stk_conv3_source *dy, const stk_conv3_finish *finish, void *dx);
/* d_weight and d_bias (=, or += when run->accumulate) of scale * dy. */
void stk_conv3_weight(const stk_exec *run, const stk_conv3 *layer, stk_conv3_map map,
                      const stk_conv3_source *x, const stk_conv3_source *dy, float scale);
/* Enough for all three. */
stk_exec_need stk_conv3_need(const stk_exec *run, const stk_conv3 *layer, stk_conv3_map map);

/* ---- layernorm ---- */

/* Layer normalisation over the channels of a token, eps 1e-5 (Hugging Face's modules use that everywhere,
 * whatever config.json says). Input f32; output f32 or the run's type. */

typedef struct stk_layernorm {
    uint32_t channels; /* a multiple of 8 */
    float eps;
    const float *gamma, *beta;
    float *d_gamma, *d_beta; /* NULL: frozen */
} stk_layernorm;

/* stats: two floats per row, mean and 1 / sqrt(variance + eps), written here, read by what follows. */
void stk_layernorm_forward(const stk_exec *run, const stk_layernorm *norm, size_t rows, const float *x,
                           float *stats, void *y, stk_float y_type);
/* Statistics only. */
void stk_layernorm_stats(const stk_exec *run, const stk_layernorm *norm, size_t rows, const float *x,
                         float *stats);

/* The normalised rows, made when they are needed from x and its statistics (for linear). */
typedef struct stk_layernorm_normalized {
    const struct stk_net_table *table;
    const stk_layernorm *norm;
    const float *x, *stats;
    stk_float type;
} stk_layernorm_normalized;
stk_exec_rows stk_normalised_rows(const stk_layernorm_normalized *source);

/* dx = residual + d(norm); residual NULL: none; it may be dx. dy of dy_type (f32 or the run's). */
void stk_layernorm_backward(const stk_exec *run, const stk_layernorm *norm, size_t rows, const float *x,
                            const float *stats, const void *dy, stk_float dy_type, const float *residual,
                            float *dx);
stk_exec_need stk_layernorm_need(const stk_exec *run, const stk_layernorm *norm, size_t rows);

/* ---- depthwise ---- */

/* Inside the MLP: depthwise 3x3 convolution with bias (padding 1), then GELU (the exact one, by erf). Fused
 * both ways; all maps are of the run's type, [batch][height][width][channels].
 *
 *   h2 = depthwise(h1) + b,  h3 = gelu(h2)
 *
 * h2 is never in memory: backward computes it again. With two AVX2 cores that is as fast as keeping it,
 * within 3 % of both ways (37.1 against 38.8 ms of processor time for b0 with 4 pictures of 256x256, 88
 * against 91 for 2 of 512x512, 169 against 170 for b2): nine products cost what reading and writing it did. A
 * plain training pass of b0 keeps a fifth less. */

typedef struct stk_depthwise {
    uint32_t channels;          /* a multiple of 8 */
    const float *weight, *bias; /* masters: [channels][9], [channels] */
    float *d_weight, *d_bias;   /* NULL: frozen */
    float *packed;              /* 10 * channels floats: [tap][channel], then the bias; in the arena */
} stk_depthwise;

typedef struct stk_depthwise_map {
    uint32_t batch, height, width;
} stk_depthwise_map;

/* Once per step. */
void stk_depthwise_pack(const stk_exec *run, const stk_depthwise *const *layers, size_t count);

void stk_depthwise_forward(const stk_exec *run, const stk_depthwise *layer, stk_depthwise_map map,
                           const void *h1, void *h3);
/* h3 made row by row from h1 when it is needed (for linear). */
typedef struct stk_depthwise_hidden {
    const struct stk_net_table *table;
    const stk_depthwise *layer;
    stk_depthwise_map map;
    const void *h1;
    stk_float type;
} stk_depthwise_hidden;
stk_exec_rows stk_hidden_rows(const stk_depthwise_hidden *source);

/* dh1 from dh3; gradients of weight and bias. dh1 may not be dh3. */
void stk_depthwise_backward(const stk_exec *run, const stk_depthwise *layer, stk_depthwise_map map,
                            const void *h1, const void *dh3, void *dh1);
stk_exec_need stk_depthwise_need(const stk_exec *run, const stk_depthwise *layer, stk_depthwise_map map);

/* ---- attention ---- */

/* softmax(Q K^T / sqrt(d)) V per sample and head. The scores never leave the cache: a block of queries at a
 * time meets all keys (at most a few hundred after the sequence reduction; any number works). The backward
 * pass computes them again from the saved sums. */

typedef struct stk_attention {
    uint32_t batch, heads, head_size; /* head_size a multiple of 8 */
    uint32_t queries, keys;           /* tokens per sample */
} stk_attention;

/* Matrices of the run's type with C = heads * head_size: q and context [batch * queries][C], kv [batch *
 * keys] [2 C], keys first. log_sum: NULL in inference, else one float per (sample, head, query): the
 * logarithm of the sum of exponentials of the scaled scores. */
void stk_attention_forward(const stk_exec *run, const stk_attention *shape, const void *q, const void *kv,
                           void *context, float *log_sum);
/* dq and dkv (laid out like q and kv; written, not added to). */
void stk_attention_backward(const stk_exec *run, const stk_attention *shape, const void *q, const void *kv,
                            const void *context, const float *log_sum, const void *d_context, void *dq,
                            void *dkv);
stk_exec_need stk_attention_need(const stk_exec *run, const stk_attention *shape);

/* ---- loss ---- */

/* Columns of logits and their gradient: classes rounded up to a multiple of 8. */
static inline size_t stk_logits_stride(uint32_t classes)
{
    return ((size_t)classes + 7) / 8 * 8;
}

/* The loss at the resolution of the masks, from logits at a quarter of it: rows are interpolated (bilinear,
 * align_corners = false), turned into probabilities, compared and their gradients scattered back a line at a
 * time. Logits in full resolution never exist.
 *
 * Every task covers whole lines of one sample by the shape alone; sums are in double, in the order of the
 * tasks. */

typedef struct stk_loss_shape {
    uint32_t batch, classes;
    uint32_t in_height, in_width; /* of the logits */
    uint32_t height, width;       /* of the masks */
} stk_loss_shape;

/* Masks as the loader delivers them: u8, u16, i32 or i64; `row_bytes` from sample to sample. */
typedef struct stk_loss_truth {
    const void *masks, *masks_b; /* masks_b NULL: not mixed */
    const float *lambda;         /* with masks_b: share of `masks` per sample */
    stoke_dtype dtype;
    size_t row_bytes;
    double divisor; /* of sums over pixels, but for Dice's; 0: the weights of those that count */
    double *weight; /* NULL, or becomes the latter */
} stk_loss_truth;

/* room: stk_loss_room bytes in the arena (tables of taps). */
size_t stk_loss_room(const stk_loss_shape *shape);
void stk_loss_bind(const stk_loss_shape *shape, void *room);
/* *loss, and d_logits = factor * d loss / d logits (f32, stride stk_logits_stride, columns beyond `classes`
 * zero); d_logits NULL: the loss only. With no pixel that counts the loss is 0 and so is its gradient.
 * STOKE_E_LABEL: a mask holds a value that is neither a class nor ignore_index; the message has it. */
int stk_loss(const stk_exec *run, const stoke_loss *settings, const stk_loss_shape *shape, const void *room,
             const float *logits, const stk_loss_truth *truth, float factor, double *loss, float *d_logits,
             stoke_error *err);
/* The class of every pixel at the resolution of the shape, [batch][height][width] u16: argmax of the
 * interpolated logits, lowest class at a tie (1 class: 1 where the logit is > 0). */
void stk_classes_of(const stk_exec *run, const stk_loss_shape *shape, const void *room, const float *logits,
                    uint16_t *labels);
stk_exec_need stk_loss_need(const stk_exec *run, const stk_loss_shape *shape);

/* Where pixels of the mask lie among the logits: what stk_loss_bind puts into its room. */

typedef struct stk_loss_taps {
    const uint32_t *start;        /* [pairs + 1]: first line of the mask that lies in each pair */
    const float *line_share;      /* [height]: of the pair's lower line */
    const uint32_t *column_first; /* [columns] */
    const float *column_share;
} stk_loss_taps;

stk_loss_taps stk_loss_taps_in(const stk_loss_shape *shape, const void *room);

/* Element `at` of `out` is (1 - share) * element first + share * element first + 1 of `in`; returns first. */
uint32_t stk_loss_tap(uint32_t at, uint32_t in, uint32_t out, float *share);

/* Pairs of neighbouring lines of logits; one line alone makes a pair with itself. */
static inline uint32_t stk_loss_pairs(const stk_loss_shape *shape)
{
    return shape->in_height > 1 ? shape->in_height - 1 : 1;
}

/* Columns of the mask, padded to whole blocks of any table. The padding repeats the last column. */
size_t stk_loss_columns_padded(const stk_loss_shape *shape);

/* ---- loss of pictures ---- */

/* How far a restored picture is from its target, both f32 with values around 0 .. 1: the mean over samples,
 * pixels and channels, in double, in an order that the shape alone decides. */

typedef struct stk_pixel_shape {
    uint32_t batch, height, width, channels;
    size_t stride; /* floats from pixel to pixel of output and gradient: [batch][height][width][stride] */
} stk_pixel_shape;

typedef struct stk_pixel_target {
    const float *data; /* in either layout of a batch's pictures */
    size_t sample_stride;
    int planar;
} stk_pixel_target;

/* *loss, and d_output = factor * d loss / d output (columns beyond the channels 0); d_output NULL: the loss
 * only. `kind`: STOKE_LOSS_L1, _CHARBONNIER (sqrt(d^2 + eps^2), eps 1e-3) or _MSE. */
void stk_pixel_loss(const stk_exec *run, stoke_loss_kind kind, const stk_pixel_shape *shape,
                    const float *output, const stk_pixel_target *target, float factor, double *loss,
                    float *d_output);
stk_exec_need stk_pixel_loss_need(const stk_exec *run, const stk_pixel_shape *shape);

/* ---- shuffle ---- */

/* PyTorch's PixelShuffle: r x r groups of channels become r x r pixels. The narrow map is [batch][height]
 * [width][r * r * channels], the wide one [batch][r * height][r * width][channels]; channel (c * r + i) * r +
 * j of a narrow pixel is channel c of the wide pixel i lines below and j columns right of its corner. */

typedef struct stk_shuffle {
    uint32_t batch, height, width;     /* of the narrow map */
    uint32_t channels;                 /* of the wide map */
    uint32_t scale;                    /* r: 2, 3 or 4 */
    stk_float type;                    /* of both maps */
    size_t narrow_stride, wide_stride; /* elements from pixel to pixel; what lies beyond the channels is left
                                          alone */
} stk_shuffle;

void stk_shuffle_forward(const stk_exec *run, const stk_shuffle *shape, const void *narrow, void *wide);
void stk_shuffle_backward(const stk_exec *run, const stk_shuffle *shape, const void *d_wide, void *d_narrow);

/* ---- pool ---- */

/* Maximum of 2x2 pixels, stride 2 (PyTorch's MaxPool2d(2)): of odd sides the last line or column is left out.
 * A NaN is the maximum. */

typedef struct stk_pool {
    uint32_t batch, height, width, channels; /* of the large map, sides of 2 at least; the small one has half
                                                of both */
    stk_float type;                          /* of all maps */
    size_t large_stride, small_stride;       /* elements from pixel to pixel; what lies beyond the channels is
                                                left alone */
} stk_pool;

void stk_pool_forward(const stk_exec *run, const stk_pool *shape, const void *large, void *small);
/* d_large = or, with add, +=: the gradient goes to the first maximum in the order of lines, then columns, and
 * 0 elsewhere, also where an odd side was left out. `large` as in forward. */
void stk_pool_backward(const stk_exec *run, const stk_pool *shape, const void *large, const void *d_small,
                       void *d_large, int add);

/* ---- map ---- */

/* A map: f32 or of the run's type. */
typedef struct stk_map {
    void *data;
    stk_float type;
    size_t stride; /* elements from pixel to pixel; what lies beyond the channels is left alone */
} stk_map;

/* ---- feature distance ---- */

/* How far the features of two pictures are apart (a perceptual loss): the mean over elements, in double, in
 * an order that the shape alone decides. */

typedef struct stk_feature_shape {
    size_t pixels; /* of all samples */
    uint32_t channels;
} stk_feature_shape;

/* *loss, and d_a = or, with add, += factor * d loss / d a (of any type and stride; what lies beyond the
 * channels is left alone); d_a NULL: the loss only. Without add it may be a or b, laid out as that is. `kind`
 * as that of stk_pixel_loss. */
void stk_feature_distance(const stk_exec *run, stoke_loss_kind kind, const stk_feature_shape *shape,
                          const stk_map *a, const stk_map *b, float factor, double *loss, const stk_map *d_a,
                          int add);
stk_exec_need stk_feature_distance_need(const stk_exec *run, const stk_feature_shape *shape);

/* ---- standardise ---- */

/* Pictures of 0 .. 1 as networks want them that were trained on ImageNet: (value - mean) / deviation for each
 * of 3 channels, f32, pixel by pixel without gaps. */
void stk_standardise(const stk_exec *run, stk_conv3_map map, const stk_conv3_source *x, float *y);
/* dx += dy / deviation; dx_stride floats from pixel to pixel of dx. */
void stk_standardise_backward(const stk_exec *run, size_t pixels, const float *dy, float *dx,
                              size_t dx_stride);

/* ---- gate ---- */

/* The way back through a ReLU where a gradient lies already: d becomes 0 wherever y, which the ReLU made, is
 * not above 0. (Where a convolution makes the gradient, stk_conv3_finish does it.) */
void stk_gate(const stk_exec *run, size_t pixels, uint32_t channels, const stk_map *y, const stk_map *d);

/* ---- labels ---- */

/* Labels of a mask as the loss wants them: classes as int32, -1 where a pixel does not count. */

typedef struct stk_label_rules {
    stoke_dtype dtype; /* u8, u16, i32 or i64 */
    uint32_t classes;  /* 1: labels are 0 and 1, and negative ones do not count, as Hugging Face has it */
    int64_t ignore;
} stk_label_rules;

/* Labels first .. first + count of a mask. 0: one of them is neither a class nor ignored. */
int stk_labels_read(const stk_label_rules *rules, const void *mask, size_t first, size_t count,
                    int32_t *labels);
/* Where the first such label is, for the message; its value to *value. `count` when there is none. */
size_t stk_labels_bad(const stk_label_rules *rules, const void *mask, size_t first, size_t count,
                      int64_t *value);

/* ---- update ---- */

/* Optimisers over one flat array of parameters in groups: AdamW and SGD as PyTorch computes them, global-norm
 * clipping, exponential moving average. */

/* A run of parameters with the same rates. */
typedef struct stk_update_group {
    size_t first, count;
    float lr_factor;    /* times the step's lr: 10 for the head */
    float decay_factor; /* times weight_decay: 0 for norms; 0 and lr_factor 0 for frozen ones */
} stk_update_group;

typedef struct stk_update {
    float *values, *gradients;
    float *first, *second; /* moments (AdamW) or momentum (SGD: first); NULL when not used */
    float *average;        /* EMA; NULL: none */
    const stk_update_group *groups;
    size_t group_count, count; /* groups in order, without gaps, count in all */
} stk_update;

static inline uint32_t stk_update_chunks(size_t count)
{
    return (uint32_t)((count + STOKE_NET_CHUNK - 1) / STOKE_NET_CHUNK);
}

/* Squares of the gradients, one sum per chunk from `first` to before `end`: squares[0] is that of `first`. */
void stk_gradient_squares(const stk_exec *run, const stk_update *update, uint32_t first, uint32_t end,
                          double *squares);
/* Norm of all gradients times `factor` (1 / loss scale), from the sums of all chunks in their order. */
double stk_gradient_norm(const double *squares, uint32_t chunks, double factor);
/* One step of these chunks. `factor` multiplies every gradient first (1 / loss scale, and what clipping
 * leaves). `step` counts from 1. */
void stk_update_run(const stk_exec *run, const stk_update *update, uint32_t first, uint32_t end,
                    const stoke_update *settings, uint64_t step, double factor);

/* ---- sums over chunks of rows ---- */

/* Sums over chunks of rows: every chunk writes its own row of run->partial, and here they are added up in the
 * order of the chunks, whatever threads made them. */

/* Row 0 becomes the sum of all rows. */
static inline void stk_partial_fold(float *partial, size_t chunks, size_t floats)
{
    for (size_t k = 1; k < chunks; k++)
        for (size_t i = 0; i < floats; i++) partial[i] += partial[k * floats + i];
}

/* out[i * step] = or += sum[i]; out NULL: not wanted. */
static inline void stk_partial_give(const float *sum, size_t count, float *out, size_t step, int accumulate)
{
    if (!out) return;
    for (size_t i = 0; i < count; i++) out[i * step] = accumulate ? out[i * step] + sum[i] : sum[i];
}

#endif
