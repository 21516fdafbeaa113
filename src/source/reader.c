/* SPDX-License-Identifier: Apache-2.0 */
#include "src/source/reader.h"

#include <string.h>
#include <stoke/tools/image.h>
#include <stoke/tools/labels.h>

#include "src/base/error.h"
#include "src/base/file.h"
#include "src/base/terminal.h"
#include "src/source/mask_rules.h"
#include "src/source/pairs.h"

int stk_reader_start(void *context, void *member, stoke_error *err)
{
    stk_reader *reader = member;
    return stoke_decoder_create(&reader->decoder, err);
}

void stk_reader_finish(void *context, void *member)
{
    stk_reader *reader = member;
    stoke_decoder_destroy(&reader->decoder);
    stk_buffer_free(&reader->file);
    stk_buffer_free(&reader->ids);
    stk_buffer_free(&reader->head);
}

int stk_labels_of(stoke_labels **out, const stoke_data_params *params, stoke_error *err)
{
    *out = NULL;
    if (params->classes < 0 || params->classes > 65536 || params->ignore_index < -1 ||
        params->ignore_index > 65535)
        return stk_fail(err, STOKE_E_INVALID, "classes must be 0 to 65536 and ignore_index -1 to 65535");
    if (stk_ignores_a_class(params))
        return stk_fail(err, STOKE_E_INVALID,
                        "`classes` %lld: 255 is one of them, and `ignore_index` 255 would leave it out. Set "
                        "`ignore_index` 65535, or -1 for none",
                        (long long)params->classes);
    return stoke_labels_create(out, params->label_map, (uint32_t)params->classes,
                               (int32_t)params->ignore_index, err);
}

stoke_purpose stk_mask_purpose(const stoke_labels *labels)
{
    return stoke_labels_are_colors(labels) ? STOKE_PURPOSE_IMAGE : STOKE_PURPOSE_MASK;
}

/* The path is told apart from the reason here: a report shows it in its own column. */
static void drop_path(const char *path, stoke_error *err)
{
    char shown[STOKE_ERROR_TEXT]; /* as the message has it */
    if (!err) return;
    stoke_text_format(shown, sizeof shown, "%s", path);
    const size_t n = strlen(shown);
    if (strncmp(err->message, shown, n) == 0 && strncmp(err->message + n, ": ", 2) == 0)
        memmove(err->message, err->message + n + 2, strlen(err->message + n + 2) + 1);
}

/* Nothing needs more than 8 bytes a pixel (16-bit RGBA without compression), and a little for the rest. */
static uint64_t file_limit(const stoke_data_params *params)
{
    const uint64_t pixels = params->max_pixels > 0 ? (uint64_t)params->max_pixels : 0;
    return pixels > UINT64_MAX / 16 ? UINT64_MAX : pixels * 8 + (UINT64_C(1) << 20);
}

/* The file whole, and its header. */
static int read_file(stk_reader *reader, const stoke_data_params *params, const stoke_blob *blob,
                     const char *shown, stoke_image_info *info, stoke_error *err)
{
    reader->file_bytes = 0;
    *info = (stoke_image_info){ 0 };
    int r = stk_blob_read(blob, shown, file_limit(params), &reader->file, &reader->file_bytes, err);
    if (r != STOKE_OK)
        drop_path(shown, err);
    else
        r = stoke_decoder_probe(reader->decoder, reader->file.data, reader->file_bytes, info, err);
    if (r != STOKE_OK) info->width = info->height = 0;
    return r;
}

static int decode(stk_reader *reader, const stoke_decode_params *how, stoke_image *image, stoke_error *err)
{
    return stoke_decoder_decode(reader->decoder, reader->file.data, reader->file_bytes, how, image, err);
}

static stoke_decode_params decoding(const stoke_data_params *params, stoke_orientation orientation)
{
    stoke_decode_params how = stoke_decode_defaults();
    how.orientation = orientation;
    how.alpha = (stoke_alpha)params->alpha;
    how.max_pixels = params->max_pixels > 0 ? (uint64_t)params->max_pixels : 0;
    return how;
}

/* An image that may have to be turned asks its mask; one that has a target asks nobody. */
static stoke_orientation orientation_of(stk_reader *reader, const stoke_data_params *params,
                                        const stoke_sample *sample, const stoke_image_info *image)
{
    const stoke_orientation wanted = (stoke_orientation)params->orientation;
    stoke_image_info mask;
    if (sample->target_path) return stk_orientation_of_pictures(wanted);
    if (wanted != STOKE_ORIENTATION_AUTO) return wanted;
    const int known =
        image->orientation > 1 && sample->mask_path &&
        stk_header_read(reader->decoder, &reader->head, &sample->mask, file_limit(params), &mask);
    return stk_orientation_for(wanted, image, known ? &mask : NULL, STOKE_ORIENTATION_IGNORE);
}

int stk_reader_image(stk_reader *reader, const stoke_data_params *params, const stoke_sample *sample,
                     stoke_image_info *info, stoke_image *image, stoke_error *err)
{
    const int r = read_file(reader, params, &sample->image, sample->image_path, info, err);
    if (r != STOKE_OK) return r;
    stoke_decode_params how = decoding(params, orientation_of(reader, params, sample, info));
    how.keep16 = 1;
    return decode(reader, &how, image, err);
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
                    const stoke_sample *sample, stoke_image_info *info, stoke_image *ids, stoke_error *err)
{
    stoke_decode_params how =
        decoding(params, stk_orientation_of_masks((stoke_orientation)params->orientation));
    stoke_image mask;
    how.purpose = stk_mask_purpose(labels);
    int r = read_file(reader, params, &sample->mask, sample->mask_path, info, err);
    if (r == STOKE_OK) r = decode(reader, &how, &mask, err);
    if (r != STOKE_OK) return r;
    const uint8_t depth = stoke_labels_depth(labels);
    size_t bytes = stoke_image_bytes(mask.width, mask.height, 1, depth);
    if (!bytes || !stk_buffer_reserve(&reader->ids, bytes))
        return stk_fail(err, STOKE_E_NOMEM, "no memory for %u x %u class ids", mask.width, mask.height);
    *ids = (stoke_image){ reader->ids.data, (size_t)mask.width * depth, mask.width, mask.height, 1, depth };
    return stoke_labels_apply(labels, &mask, ids, err);
}
