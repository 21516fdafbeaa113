/* SPDX-License-Identifier: Apache-2.0 */
#include "src/source/pairs.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stoke/tools/dataset.h>

#include "src/base/error.h"
#include "src/base/file.h"
#include "src/codec/codec.h"
#include "src/base/threadpool.h"
#include "src/source/reader.h"

enum {
    HEAD_BYTES = 64 * 1024, /* enough for the header of nearly every file, a thumbnail in EXIF included */
    WHOLE_BYTES = 256 << 20 /* of a file read whole to find its header */
};

static int turns(const stoke_image_info *info)
{
    return info->orientation >= 5; /* the others mirror, or turn by half a circle: the size stays */
}

static int same_size(const stoke_image_info *image, stoke_orientation orientation,
                     const stoke_image_info *mask, stoke_orientation mask_orientation)
{
    uint32_t w, h, mask_w, mask_h;
    stk_size_shown(image, orientation, &w, &h);
    stk_size_shown(mask, mask_orientation, &mask_w, &mask_h);
    return w == mask_w && h == mask_h;
}

stoke_orientation stk_orientation_for(stoke_orientation wanted, const stoke_image_info *image,
                                      const stoke_image_info *mask, stoke_orientation alone)
{
    if (wanted != STOKE_ORIENTATION_AUTO) return wanted;
    if (!mask) return alone;
    const int upright = turns(image) && image->width != image->height &&
                        same_size(image, STOKE_ORIENTATION_APPLY, mask, STOKE_ORIENTATION_IGNORE);
    return upright ? STOKE_ORIENTATION_APPLY : STOKE_ORIENTATION_IGNORE;
}

stoke_orientation stk_orientation_of_masks(stoke_orientation wanted)
{
    return wanted == STOKE_ORIENTATION_APPLY ? wanted : STOKE_ORIENTATION_IGNORE;
}

void stk_size_shown(const stoke_image_info *info, stoke_orientation orientation, uint32_t *width,
                    uint32_t *height)
{
    const int turned = orientation == STOKE_ORIENTATION_APPLY && turns(info);
    *width = turned ? info->height : info->width;
    *height = turned ? info->width : info->height;
}

/* The other setting, where it would make image and mask meet. */
static const char *cure(stoke_orientation wanted, const stoke_image_info *image, const stoke_image_info *mask)
{
    if (wanted == STOKE_ORIENTATION_IGNORE &&
        same_size(image, STOKE_ORIENTATION_APPLY, mask, STOKE_ORIENTATION_IGNORE))
        return "; turned by the orientation stored in it (EXIF) the image has the mask's size: "
               "`orientation` apply, or auto";
    if (wanted == STOKE_ORIENTATION_APPLY &&
        same_size(image, STOKE_ORIENTATION_IGNORE, mask, STOKE_ORIENTATION_IGNORE))
        return "; as it is stored the image has the mask's size: `orientation` ignore, or auto";
    return "";
}

int stk_pair_sizes(stoke_orientation wanted, const stoke_image_info *image, const stoke_image_info *mask,
                   const char *shown, stoke_error *err)
{
    uint32_t w, h, mask_w, mask_h;
    stk_size_shown(image, stk_orientation_for(wanted, image, mask, STOKE_ORIENTATION_IGNORE), &w, &h);
    stk_size_shown(mask, stk_orientation_of_masks(wanted), &mask_w, &mask_h);
    if (w == mask_w && h == mask_h) return STOKE_OK;
    return stk_fail(err, STOKE_E_SIZE, "the mask is %ux%u (height x width), its image %s%sis %ux%u%s", mask_h,
                    mask_w, shown ? shown : "", shown ? " " : "", h, w, cure(wanted, image, mask));
}

stoke_orientation stk_orientation_of_pictures(stoke_orientation wanted)
{
    return wanted == STOKE_ORIENTATION_AUTO ? STOKE_ORIENTATION_APPLY : wanted;
}

int stk_target_size(const uint32_t image[2], const uint32_t target[2], uint32_t scale, const char *shown,
                    stoke_error *err)
{
    const uint64_t wide = (uint64_t)image[0] * scale, high = (uint64_t)image[1] * scale;
    if (target[0] == wide && target[1] == high) return STOKE_OK;
    stk_fail(err, STOKE_E_SIZE, "the target is %ux%u (height x width), its image %s is %ux%u", target[1],
             target[0], shown, image[1], image[0]);
    stk_error_add(err, "; with `scale` %u it has to be %" PRIu64 "x%" PRIu64, scale, high, wide);
    for (uint32_t fits = 1; fits <= 4; fits++)
        if (target[0] == (uint64_t)image[0] * fits && target[1] == (uint64_t)image[1] * fits)
            stk_error_add(err, ", and `scale` %u would fit", fits);
    if (target[0] == high && target[1] == wide)
        stk_error_add(err, ": one of them is turned. The orientation stored in pictures (EXIF) counts with "
                           "`orientation` apply, and not with ignore");
    return STOKE_E_SIZE;
}

int stk_header_read(stoke_decoder *decoder, stk_mem_buffer *buffer, const stoke_blob *blob, uint64_t limit,
                    stoke_image_info *info)
{
    uint64_t size;
    size_t all;
    void *bytes = stk_buffer_reserve(buffer, HEAD_BYTES);
    const size_t have = bytes ? stk_blob_head(blob, bytes, HEAD_BYTES, &size) : 0;
    if (!have) return 0;
    if (!stoke_decoder_probe(decoder, bytes, have, info, NULL)) return 1;
    return have < size && size <= limit && !stk_blob_read(blob, blob->path, limit, buffer, &all, NULL) &&
           !stoke_decoder_probe(decoder, buffer->data, all, info, NULL);
}

/* ---- a whole set ---- */

int stk_pair_count(stk_pair_counts *counts, stoke_orientation wanted, const stoke_image_info *image,
                   const stoke_image_info *mask, stoke_error *err)
{
    const int r = mask ? stk_pair_sizes(wanted, image, mask, NULL, err) : STOKE_OK;
    counts->differ += r != STOKE_OK;
    counts->masks += mask && mask->orientation > 1;
    if (r || image->orientation == 1) return r;
    const int decides = mask && turns(image) && image->width != image->height;
    if (!decides)
        counts->either++;
    else if (stk_orientation_for(wanted, image, mask, wanted) == STOKE_ORIENTATION_APPLY)
        counts->upright++;
    else
        counts->stored++;
    return r;
}

void stk_pair_counts_add(stk_pair_counts *sum, const stk_pair_counts *more)
{
    sum->differ += more->differ;
    sum->upright += more->upright;
    sum->stored += more->stored;
    sum->either += more->either;
    sum->masks += more->masks;
}

stoke_orientation stk_pair_settle(const stk_pair_counts *counts, stoke_orientation wanted)
{
    const int others_tell = counts->upright && !counts->stored && counts->either && !counts->masks;
    return wanted == STOKE_ORIENTATION_AUTO && others_tell ? STOKE_ORIENTATION_APPLY : wanted;
}

static const char *have(uint64_t n)
{
    return n == 1 ? " image has" : " images have";
}

void stk_pair_remarks(const stk_pair_counts *counts, stoke_orientation wanted, stk_say_fn *say, void *context)
{
    if (wanted != STOKE_ORIENTATION_AUTO) return; /* who asked for one of them knows */
    if (counts->upright)
        stk_say(say, context,
                "%" PRIu64
                "%s turned upright by the stored orientation (EXIF): the masks have the size of the "
                "turned image (`orientation` auto).",
                counts->upright, counts->upright == 1 ? " image is" : " images are");
    if (counts->stored)
        stk_say(say, context,
                "%" PRIu64 "%s an orientation (EXIF) that the masks do not follow: taken as stored "
                "(`orientation` auto).",
                counts->stored, have(counts->stored));
    if (!counts->either) return;
    stk_say(
        say, context,
        stk_pair_settle(counts, wanted) == STOKE_ORIENTATION_APPLY
            ? "%" PRIu64 "%s an orientation (EXIF) and a mask that fits both ways: taken upright like the "
              "others (`orientation` apply; ignore takes all as stored)."
            : "%" PRIu64 "%s an orientation (EXIF), and no mask tells by its size whether it was drawn on "
              "the turned image: taken as stored. `orientation` apply turns upright.",
        counts->either, have(counts->either));
}

typedef struct looking {
    const stoke_dataset *dataset;
    stoke_orientation wanted;
    uint32_t scale; /* of targets */
    uint64_t limit; /* of a file that is read whole */
    pthread_mutex_t lock;
    stk_pairs *pairs;
} looking;

/* The orientation that stands behind a PNG's pixels: its last bytes are enough. */
static uint8_t orientation_at_end(stk_reader *self, const stoke_blob *blob)
{
    const uint64_t all = stk_blob_bytes(blob), n = all < HEAD_BYTES ? all : HEAD_BYTES;
    const stoke_blob tail = { blob->path, blob->offset + (all - n), n };
    uint64_t size;
    void *bytes = stk_buffer_reserve(&self->file, HEAD_BYTES);
    const size_t have = bytes && n ? stk_blob_head(&tail, bytes, (size_t)n, &size) : 0;
    return have ? stk_orientation_from_png_end(bytes, have) : 1;
}

/* PNG and WebP may say behind the pixels which way up they are, where the first bytes do not reach. Reading
 * whole files for that would take as long as an epoch: only where the mask would fit the turned image. Where
 * it fits the image as stored, `orientation` apply would turn the image away from it. */
static void look_behind(const looking *l, stk_reader *self, const stoke_blob *blob,
                        const stoke_image_info *mask, stoke_image_info *image)
{
    stoke_image_info whole;
    size_t size;
    if (image->orientation != 1 || image->width == image->height) return;
    if (l->wanted == STOKE_ORIENTATION_APPLY && image->format == STOKE_FORMAT_PNG)
        image->orientation = orientation_at_end(self, blob);
    if (image->width != mask->height || image->height != mask->width) return;
    if (!stk_blob_read(blob, blob->path, l->limit, &self->file, &size, NULL) &&
        !stoke_decoder_probe(self->decoder, self->file.data, size, &whole, NULL))
        *image = whole;
}

/* The size of one picture of a pair, as decoded; by all of its bytes where `whole`. 0: it cannot be read. */
static int picture_size(const looking *l, stk_reader *self, const stoke_blob *blob, int whole,
                        uint32_t size[2])
{
    stoke_image_info info;
    size_t bytes;
    if (whole ? stk_blob_read(blob, blob->path, l->limit, &self->file, &bytes, NULL) ||
                    stoke_decoder_probe(self->decoder, self->file.data, bytes, &info, NULL)
              : !stk_header_read(self->decoder, &self->file, blob, l->limit, &info))
        return 0;
    stk_size_shown(&info, stk_orientation_of_pictures(l->wanted), &size[0], &size[1]);
    return 1;
}

/* Image and target. Where their headers do not agree they are read whole: what turns one of them may stand
 * behind its pixels. */
static void look_at_target(looking *l, stk_reader *self, const stoke_sample *sample, uint64_t id)
{
    uint32_t *image = l->pairs->size[id], target[2];
    stoke_error why = { 0 };
    for (int whole = 0; whole < 2; whole++)
        if (!picture_size(l, self, &sample->image, whole, image) ||
            !picture_size(l, self, &sample->target, whole, target) ||
            !stk_target_size(image, target, l->scale, sample->image_path, &why))
            return;
    stk_error_prefix(&why, sample->target_path);
    pthread_mutex_lock(&l->lock);
    l->pairs->counts.differ++;
    if (id < l->pairs->first_id) {
        l->pairs->first_id = id;
        l->pairs->first = why;
    }
    pthread_mutex_unlock(&l->lock);
}

/* A file that cannot be read is a matter of who loads it. */
static int look(void *context, void *member, uint64_t id, stoke_error *err)
{
    looking *l = context;
    stk_reader *self = member;
    const stoke_sample sample = stoke_dataset_sample(l->dataset, id);
    stoke_image_info image, mask;
    stoke_error why;
    (void)err;
    if (sample.target_path) {
        look_at_target(l, self, &sample, id);
        return STOKE_OK;
    }
    if (!stk_header_read(self->decoder, &self->file, &sample.image, l->limit, &image)) return STOKE_OK;
    const int has_mask =
        sample.mask_path && stk_header_read(self->decoder, &self->file, &sample.mask, l->limit, &mask);
    if (has_mask) look_behind(l, self, &sample.image, &mask, &image);
    uint32_t *size = l->pairs->size[id];
    stk_size_shown(&image,
                   stk_orientation_for(l->wanted, &image, has_mask ? &mask : NULL, STOKE_ORIENTATION_IGNORE),
                   &size[0], &size[1]);
    pthread_mutex_lock(&l->lock);
    const int r = stk_pair_count(&l->pairs->counts, l->wanted, &image, has_mask ? &mask : NULL, &why);
    if (r && id < l->pairs->first_id) {
        stk_error_prefix(&why, sample.mask_path);
        l->pairs->first_id = id;
        l->pairs->first = why;
    }
    pthread_mutex_unlock(&l->lock);
    return STOKE_OK;
}

int stk_pairs_look(stk_pairs *pairs, const stoke_dataset *dataset, const stoke_data_params *params,
                   stoke_progress_fn progress, void *context, stoke_error *err)
{
    const uint64_t count = stoke_dataset_count(dataset);
    *pairs = (stk_pairs){ .size = stk_calloc(count, sizeof *pairs->size), .first_id = UINT64_MAX };
    if (!pairs->size) return stk_fail(err, STOKE_E_NOMEM, "no memory for the sizes of the images");
    looking l = { .dataset = dataset,
                  .wanted = (stoke_orientation)params->orientation,
                  .scale = (uint32_t)params->scale,
                  .limit = WHOLE_BYTES,
                  .pairs = pairs };
    pthread_mutex_init(&l.lock, NULL);
    const stk_parallel_job job = { count, &l, sizeof(stk_reader), stk_reader_start, look, stk_reader_finish };
    const int r = stk_parallel_for(&job, 0, progress, context, err);
    pthread_mutex_destroy(&l.lock);
    return r;
}

typedef struct lines {
    char *text;
    size_t size;
} lines;

static void add_line(void *context, const char *sentence)
{
    stk_text_add(((lines *)context)->text, ((lines *)context)->size, "", "%s\n", sentence);
}

int stoke_dataset_orientation(const stoke_dataset *dataset, const stoke_data_params *params,
                              stoke_orientation *settled, char *remarks, size_t size, stoke_error *err)
{
    lines out = { remarks, size };
    stk_pairs pairs = { 0 };
    *settled = (stoke_orientation)params->orientation;
    *remarks = 0;
    if (stoke_dataset_has_targets(dataset)) *settled = stk_orientation_of_pictures(*settled);
    if (*settled != STOKE_ORIENTATION_AUTO) return STOKE_OK;
    const int r = stk_pairs_look(&pairs, dataset, params, NULL, NULL, err);
    if (!r) stk_pair_remarks(&pairs.counts, *settled, add_line, &out);
    if (!r) *settled = stk_pair_settle(&pairs.counts, *settled);
    stk_pairs_free(&pairs);
    return r;
}

void stk_pairs_free(stk_pairs *pairs)
{
    stk_free(pairs->size);
    *pairs = (stk_pairs){ 0 };
}
