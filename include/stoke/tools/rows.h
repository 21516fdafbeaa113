/* SPDX-License-Identifier: Apache-2.0
 *
 * Batches from pictures that are in memory already, for those who read files themselves: augmented, typed and
 * laid out as a loader does it. The same pixels, settings, epoch and position give the same bytes.
 *
 *   stoke_rows_begin(rows, 8, epoch, position, &batch, &err);
 *   for (i = 0; i < 8; i++) stoke_rows_put(rows, batch, i, &image[i], &mask[i], &err);   // any thread, any
 * order stoke_rows_finish(rows, batch, &err);                                              // mixes rows
 *   ... use it ...
 *   stoke_rows_release(rows, &batch);
 */
#ifndef STOKE_TOOLS_ROWS_H
#define STOKE_TOOLS_ROWS_H

#include <stoke/loader.h>

/* Somebody's pixels, wherever they lie: the sample of channel c at column x, row y stands at
 * data + c * channel + y * row + x * column bytes. */
typedef struct stoke_pixels {
    const void *data;
    stoke_dtype dtype; /* image: u8, u16, or f32 in 0..1 (what is outside is cut); mask: u8, u16, i32, i64 */
    uint32_t width, height, channels; /* image: 1 or 3; mask: 1, or 3 (u8) where label_map is of colours */
    ptrdiff_t column, row, channel;
} stoke_pixels;

typedef struct stoke_rows stoke_rows;

/* Of the settings, those of labels, values, geometry and augmentation count, and the seed; size must be
 * given. allocator NULL = stoke_allocator_pages(). */
STOKE_API int stoke_rows_create(stoke_rows **out, const stoke_data_params *params,
                                const stoke_allocator *allocator, stoke_error *err);
/* Also of batches that were not released. */
STOKE_API void stoke_rows_destroy(stoke_rows **rows);
/* What augments, as a list (stoke_pipeline_text). */
STOKE_API const char *stoke_rows_pipeline(const stoke_rows *rows);

/* A batch of `count` rows for positions position .. position + count - 1; memory of released ones is used
 * again. Its `index` is 0, and the caller's to set. Any thread. */
STOKE_API int stoke_rows_begin(stoke_rows *rows, uint32_t count, uint64_t epoch, uint64_t position,
                               stoke_batch **batch, stoke_error *err);
/* Fills a row. mask NULL = zeros, and ignore_index where the picture does not reach. The pixels are only
 * read, and not after the return. Floats are taken as 16-bit samples: 1/65535 is the grain. STOKE_E_SIZE:
 * mask and image differ in size. STOKE_E_LABEL: a value of the mask is no class. */
STOKE_API int stoke_rows_put(stoke_rows *rows, stoke_batch *batch, uint32_t row, const stoke_pixels *image,
                             const stoke_pixels *mask, stoke_error *err);
/* When all rows are filled: mixes them where the pipeline does. */
STOKE_API int stoke_rows_finish(stoke_rows *rows, stoke_batch *batch, stoke_error *err);
/* Any thread; sets *batch to NULL. */
STOKE_API void stoke_rows_release(stoke_rows *rows, stoke_batch **batch);

#endif
