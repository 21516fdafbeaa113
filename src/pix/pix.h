/* SPDX-License-Identifier: Apache-2.0
 *
 * Pixel work on whole images, on top of the function table (pix_table.h). All tables give the same bytes.
 * Nothing here allocates, except stk_pix_resizer, which keeps its tables and scratch between calls.
 */
#ifndef STOKE_SRC_PIX_PIX_H
#define STOKE_SRC_PIX_PIX_H

#include <stoke/data.h>
#include <stoke/image.h>

/* ---- resize ---- */

/* Coefficients and scratch rows of the last sizes used; one per thread. */
typedef struct stk_pix_resizer stk_pix_resizer;
stk_pix_resizer *stk_resizer_create(void); /* NULL on failure */
void stk_resizer_destroy(stk_pix_resizer **resizer);
uint64_t stk_resizer_memory(const stk_pix_resizer *resizer);
/* What stk_resize will hold for such a job: for the memory plan. */
uint64_t stk_resize_scratch(uint32_t in_width, uint32_t in_height, uint32_t out_width, uint32_t out_height,
                            uint8_t channels, uint8_t depth);

/* Antialiased bilinear (triangle filter of support max(scale, 1)), horizontal pass first, as Pillow and
 * torchvision (antialias=True) do. u8: bit-equal to torchvision's uint8 kernel (int16 weights). u16: same
 * filter with 32-bit float weights, rounded to nearest. src and dst agree in channels and depth and do not
 * overlap. Equal sizes copy. */
int stk_resize(stk_pix_resizer *resizer, const stoke_image *src, const stoke_image *dst, stoke_error *err);

/* Nearest-exact: source index floor((i + 0.5) * in / out), in exact integer arithmetic. 1 channel, u8 or u16.
 */
void stk_resize_nearest(const stoke_image *src, const stoke_image *dst);

/* ---- 16-bit windows ---- */

typedef enum stk_pix_window_mode {
    STK_WINDOW_NONE,
    STK_WINDOW_RANGE,
    STK_WINDOW_PERCENTILE
} stk_pix_window_mode;
typedef struct stk_pix_window {
    stk_pix_window_mode mode;
    double lo, hi; /* sample values, or percentiles 0..100 */
} stk_pix_window;
/* "none", "LO:HI", "pLO:pHI" (p1:p99). NULL = none. */
int stk_window_parse(const char *text, stk_pix_window *window, stoke_error *err);
/* Stretches a u16 image in place so that lo..hi becomes 0..65535, clamped, rounded to nearest. Percentiles
 * are NumPy's "linear" ones over all samples of the image. mode NONE leaves it. `histogram` = 65536 counters
 * of scratch. */
void stk_window_apply(const stk_pix_window *window, const stoke_image *image, uint32_t *histogram);

/* ---- into the batch ---- */

/* How u8/u16 pixels become elements of a batch row. u8: the tables below are the definition; kernels that
 * compute instead must hit every entry. u16: (float)(sample / 65535 * scale + bias), in double, rounded once.
 * F16 and BF16 are the float rounded to nearest even. U8 takes the sample as it is, u16 samples / 257
 * rounded. */
typedef struct stk_pix_writer {
    stoke_dtype dtype; /* U8, F32, F16, BF16 */
    stoke_layout layout;
    double scale[3], bias[3]; /* for samples in 0..1 */
    float lut[3][256];        /* v / 255.0 normalised; for unit, imagenet and none rounded once from double */
    uint16_t lut16[3][256];   /* the same as F16 or BF16 bits, round to nearest even */
    /* lut[c][v] == (v * high + high_bias) + (v * low + low_bias) in float without FMA: see writer.c. Entry i
     * belongs to channel i % 3, up to the 24 elements of eight interleaved pixels. */
    float high[24], high_bias[24], low[24], low_bias[24];
    float fill[3]; /* element of uncovered pixels (black, normalised) */
} stk_pix_writer;
/* normalize: unit, imagenet or none (0..255 as they are). */
void stk_writer_init(stk_pix_writer *writer, stoke_dtype dtype, stoke_layout layout,
                     stoke_normalize normalize);

/* (v / 255 - mean) / deviation instead, for samples v in 0..255; dtype U8 is not scaled even so. */
void stk_writer_normalize(stk_pix_writer *writer, const double mean[3], const double deviation[3]);

/* Mirroring of the whole output, after placement; both together are half a turn. */
enum { STK_MIRROR_H = 1 /* left-right */, STK_MIRROR_V = 2 /* top-bottom */ };

/* Places `src` (3 channels, u8 or u16) at (x, y) of a batch row of out_width x out_height, mirrored as a
 * whole by the bits of `mirror` (after placement), and fills the rest. `row` is 64-byte aligned. */
void stk_write_image(const stk_pix_writer *writer, const stoke_image *src, void *row, uint32_t out_width,
                     uint32_t out_height, uint32_t x, uint32_t y, int mirror);

/* The same for class ids (1 channel, u8 or u16) to U8, U16, I32, I64; uncovered pixels become `fill`. */
void stk_write_mask(const stoke_image *src, stoke_dtype dtype, void *row, uint32_t out_width,
                    uint32_t out_height, uint32_t x, uint32_t y, int mirror, uint32_t fill);

/* Pixel row y of a batch row from `out_width` interleaved pixels, for those who make a picture row by row. */
void stk_write_image_line(const stk_pix_writer *writer, const void *pixels, uint8_t depth, void *row,
                          uint32_t out_width, uint32_t out_height, uint32_t y);
void stk_write_mask_line(const void *ids, uint8_t depth, stoke_dtype dtype, void *row, uint32_t out_width,
                         uint32_t y);

/* A box of a batch's mask row (inside it) becomes `fill`. */
void stk_fill_mask_box(stoke_dtype dtype, void *row, uint32_t out_width, const stoke_box *box, uint32_t fill);

#endif
