/* SPDX-License-Identifier: Apache-2.0 */
#include "src/source/reader.h"

#include <string.h>

#include "src/base/error.h"
#include "src/base/file.h"

int stk_reader_start(stk_reader *reader, stoke_error *err)
{
    return stoke_decoder_create(&reader->decoder, err);
}

void stk_reader_finish(stk_reader *reader)
{
    stoke_decoder_destroy(&reader->decoder);
    stk_buffer_free(&reader->file);
    stk_buffer_free(&reader->ids);
}

int stk_labels_of(stoke_labels **out, const stoke_data_params *params, stoke_error *err)
{
    *out = NULL;
    if (params->classes < 0 || params->classes > 65536 || params->ignore_index < -1 ||
        params->ignore_index > 65535)
        return stk_fail(err, STOKE_E_INVALID, "classes must be 0 to 65536 and ignore_index -1 to 65535");
    return stoke_labels_create(out, params->label_map, (uint32_t)params->classes,
                               (int32_t)params->ignore_index, err);
}

stoke_purpose stk_mask_purpose(const stoke_labels *labels)
{
    return stoke_labels_are_colors(labels) ? STOKE_PURPOSE_IMAGE : STOKE_PURPOSE_MASK;
}

/* The path is told apart from the reason here: a report shows it in a column of its own. */
static void drop_path(const char *path, stoke_error *err)
{
    size_t n = strlen(path);
    if (err && strncmp(err->message, path, n) == 0 && strncmp(err->message + n, ": ", 2) == 0)
        memmove(err->message, err->message + n + 2, strlen(err->message + n + 2) + 1);
}

/* With `info` an image, which keeps 16 bits; without a mask, whose colours have 8. The header is read first:
 * pixels stay valid only until the decoder is used again. */
static int read_picture(stk_reader *reader, const stoke_data_params *params, stoke_purpose purpose,
                        const stoke_blob *blob, const char *shown, stoke_image_info *info, stoke_image *image,
                        stoke_error *err)
{
    /* Nothing needs more than 8 bytes a pixel (16-bit RGBA without compression), and a little for the rest.
     */
    uint64_t pixels = params->max_pixels > 0 ? (uint64_t)params->max_pixels : 0;
    uint64_t limit = pixels > UINT64_MAX / 16 ? UINT64_MAX : pixels * 8 + (UINT64_C(1) << 20);
    reader->file_bytes = 0;
    int r = stk_blob_read(blob, shown, limit, &reader->file, &reader->file_bytes, err);
    if (r != STOKE_OK) {
        drop_path(shown, err);
        return r;
    }
    stoke_decode_params decode = stoke_decode_defaults();
    decode.purpose = purpose;
    decode.orientation = (stoke_orientation)params->orientation;
    decode.alpha = (stoke_alpha)params->alpha;
    decode.max_pixels = pixels;
    decode.keep16 = info != NULL;
    r = info ? stoke_decoder_probe(reader->decoder, reader->file.data, reader->file_bytes, info, err)
             : STOKE_OK;
    if (r != STOKE_OK) return r;
    return stoke_decoder_decode(reader->decoder, reader->file.data, reader->file_bytes, &decode, image, err);
}

int stk_reader_image(stk_reader *reader, const stoke_data_params *params, const stoke_sample *sample,
                     stoke_format *format, stoke_image *image, stoke_error *err)
{
    stoke_image_info info;
    int r = read_picture(reader, params, STOKE_PURPOSE_IMAGE, &sample->image, sample->image_path, &info,
                         image, err);
    if (r == STOKE_OK) *format = info.format;
    return r;
}

void stk_image_values(const stoke_image *image, uint32_t *low, uint32_t *high)
{
    if (image->depth != 2) return;
    uint16_t least = UINT16_MAX, most = 0;
    for (uint32_t y = 0; y < image->height; y++) {
        const uint16_t *row = (const uint16_t *)((const uint8_t *)image->data + y * image->stride);
        for (size_t i = 0; i < (size_t)image->width * image->channels; i++) {
            least = row[i] < least ? row[i] : least;
            most = row[i] > most ? row[i] : most;
        }
    }
    if (least < *low) *low = least;
    if (most > *high) *high = most;
}

int stk_reader_mask(stk_reader *reader, const stoke_data_params *params, const stoke_labels *labels,
                    const stoke_sample *sample, stoke_image *ids, stoke_error *err)
{
    stoke_image mask;
    int r = read_picture(reader, params, stk_mask_purpose(labels), &sample->mask, sample->mask_path, NULL,
                         &mask, err);
    if (r != STOKE_OK) return r;
    const uint8_t depth = stoke_labels_depth(labels);
    size_t bytes = stoke_image_bytes(mask.width, mask.height, 1, depth);
    if (!bytes || !stk_buffer_reserve(&reader->ids, bytes))
        return stk_fail(err, STOKE_E_NOMEM, "no memory for %u x %u class ids", mask.width, mask.height);
    *ids = (stoke_image){ reader->ids.data, (size_t)mask.width * depth, mask.width, mask.height, 1, depth };
    return stoke_labels_apply(labels, &mask, ids, err);
}
