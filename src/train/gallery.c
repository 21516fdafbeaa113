/* SPDX-License-Identifier: Apache-2.0
 *
 * Pictures kept during an evaluation, to look at: the sample, its truth, what was predicted.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <stoke/tools/chart.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/report/grid.h"
#include "src/train/evaluate.h"

typedef struct keepsake {
    uint64_t id;
    const char *name; /* the dataset's; NULL: not seen yet */
    /* RGB u8, u16, u16: one size, up to the gallery's. Restored: all RGB u8, the image smaller by `scale`. */
    stoke_image image, truth, predicted;
    double miou, accuracy; /* NaN: no pixel counts */
    double psnr, ssim, input_psnr;
} keepsake;

struct stk_evaluate_gallery {
    int restored;
    uint32_t count, height, width;
    keepsake *kept; /* ascending ids */
    void *pixels;   /* of all of them, `each` bytes for one: truth, predicted, image */
    size_t each;
    double scale[3], bias[3]; /* of samples in 0..1, by the loader */
};

/* depth, channels: of a pixel of truth and prediction. */
static int gallery_create(stk_evaluate_gallery **out, uint64_t samples, uint32_t wanted, uint32_t height,
                          uint32_t width, uint32_t channels, uint32_t depth, stoke_error *err)
{
    enum { ALIGNED = 16 }; /* masks are u16, and pictures of 3 bytes a pixel lie between them */
    stk_evaluate_gallery *g = *out = stk_calloc(1, sizeof *g);
    const uint32_t count = samples < wanted ? (uint32_t)samples : wanted;
    const size_t result = (size_t)channels * depth;
    size_t pixels = 0, each = 0, bytes = 0;
    int fits = stk_mul(height, width, &pixels) && stk_mul(pixels, 2 * result + 3, &each) &&
               stk_add(each, ALIGNED - 1, &each);
    each = each / ALIGNED * ALIGNED;
    fits = fits && stk_mul(each, count, &bytes);
    if (g && fits) {
        g->restored = channels == 3;
        g->count = count;
        g->height = height;
        g->width = width;
        g->each = each;
        g->kept = stk_calloc(count, sizeof *g->kept);
        g->pixels = stk_alloc(bytes);
    }
    if (!g || !g->kept || !g->pixels) {
        stk_gallery_destroy(out);
        return stk_fail(err, STOKE_E_NOMEM, "no memory for %u pictures of %u x %u to look at",
                        (unsigned)count, (unsigned)height, (unsigned)width);
    }
    stk_pix_writer imagenet;
    stk_writer_init(&imagenet, STOKE_DTYPE_F32, STOKE_LAYOUT_CHW, STOKE_NORMALIZE_IMAGENET);
    stk_gallery_undo(g, &imagenet);
    for (uint32_t i = 0; i < count; i++) {
        keepsake *k = &g->kept[i];
        uint8_t *own = (uint8_t *)g->pixels + i * each;
        /* The middle of each of `count` equal parts of the set. count < 2^32, so double is exact enough to
         * keep ids apart and below `samples` where samples * 2 * count would overflow. */
        k->id = (uint64_t)((i + 0.5) * (double)samples / count);
        k->truth = k->predicted = (stoke_image){ .channels = channels, .depth = depth };
        k->truth.data = own;
        k->predicted.data = own + result * pixels;
        k->image = (stoke_image){ .data = own + 2 * result * pixels, .channels = 3, .depth = 1 };
        k->miou = NAN;
    }
    return STOKE_OK;
}

int stk_gallery_create(stk_evaluate_gallery **out, uint64_t samples, uint32_t wanted, uint32_t height,
                       uint32_t width, stoke_error *err)
{
    return gallery_create(out, samples, wanted, height, width, 1, 2, err);
}

int stk_gallery_create_restored(stk_evaluate_gallery **out, uint64_t samples, uint32_t wanted,
                                stoke_error *err)
{
    return gallery_create(out, samples, wanted, STK_EVAL_PART, STK_EVAL_PART, 3, 1, err);
}

void stk_gallery_destroy(stk_evaluate_gallery **gallery)
{
    if (!*gallery) return;
    stk_free((*gallery)->kept);
    stk_free((*gallery)->pixels);
    stk_free(*gallery);
    *gallery = NULL;
}

void stk_gallery_undo(stk_evaluate_gallery *gallery, const stk_pix_writer *writer)
{
    memcpy(gallery->scale, writer->scale, sizeof gallery->scale);
    memcpy(gallery->bias, writer->bias, sizeof gallery->bias);
}

/* What the loader's normalisation did, backwards. */
static void bytes_of(const stk_evaluate_gallery *g, const float *image, stoke_layout layout, size_t pixels,
                     uint8_t *rgb)
{
    const size_t channel = layout == STOKE_LAYOUT_CHW ? pixels : 1,
                 pixel = layout == STOKE_LAYOUT_CHW ? 1 : 3;
    for (size_t c = 0; c < 3; c++)
        for (size_t i = 0; i < pixels; i++) {
            const double value = (image[c * channel + i * pixel] - g->bias[c]) / g->scale[c] * 255;
            rgb[3 * i + c] = (uint8_t)(fmin(fmax(value, 0), 255) + 0.5);
        }
}

static void narrow(const void *mask, stoke_dtype dtype, size_t pixels, uint16_t *ids)
{
    for (size_t i = 0; i < pixels; i++) switch (dtype) {
        case STOKE_DTYPE_U8: ids[i] = ((const uint8_t *)mask)[i]; break;
        case STOKE_DTYPE_U16: ids[i] = ((const uint16_t *)mask)[i]; break;
        case STOKE_DTYPE_I32: ids[i] = (uint16_t)((const int32_t *)mask)[i]; break;
        default: ids[i] = (uint16_t)((const int64_t *)mask)[i]; break;
        }
}

static keepsake *find(const stk_evaluate_gallery *gallery, uint64_t id)
{
    for (uint32_t i = 0; i < gallery->count; i++)
        if (gallery->kept[i].id == id) return &gallery->kept[i];
    return NULL;
}

static void shape(stoke_image *view, uint32_t width, uint32_t height)
{
    view->width = width;
    view->height = height;
    view->stride = (size_t)width * view->channels * view->depth;
}

static void set_size(keepsake *k, uint32_t width, uint32_t height)
{
    shape(&k->image, width, height);
    shape(&k->truth, width, height);
    shape(&k->predicted, width, height);
}

void stk_gallery_take(stk_evaluate_gallery *gallery, const stoke_batch *batch, const uint16_t *predicted)
{
    const size_t pixels = (size_t)gallery->height * gallery->width;
    if (batch->height != gallery->height || batch->width != gallery->width) return;
    for (uint32_t row = 0; row < batch->count; row++) {
        if (batch->status[row] == STOKE_ROW_REPLACED) continue;
        keepsake *k = find(gallery, batch->ids[row]);
        if (!k) continue;
        k->name = batch->names[row];
        set_size(k, gallery->width, gallery->height);
        bytes_of(gallery, (const float *)batch->images + row * (batch->image_row_bytes / sizeof(float)),
                 batch->layout, pixels, k->image.data);
        narrow((const char *)batch->masks + row * batch->mask_row_bytes, batch->mask_dtype, pixels,
               k->truth.data);
        memcpy(k->predicted.data, predicted + row * pixels, pixels * sizeof *predicted);
    }
}

/* ---- whole pictures ---- */

/* The pixel in the middle of what becomes one. */
static void shrink_ids(const stoke_image *mask, const stoke_image *small)
{
    uint16_t *ids = small->data;
    for (uint32_t y = 0; y < small->height; y++)
        for (uint32_t x = 0; x < small->width; x++)
            *ids++ = (uint16_t)stk_mask_at(
                mask, (uint32_t)((2 * (uint64_t)x + 1) * mask->width / (2 * (uint64_t)small->width)),
                (uint32_t)((2 * (uint64_t)y + 1) * mask->height / (2 * (uint64_t)small->height)));
}

int stk_gallery_show(stk_evaluate_gallery *gallery, const stk_evaluate_worst *own, const stoke_image *image,
                     const stoke_image *truth, const stoke_image *predicted, stoke_error *err)
{
    keepsake *k = find(gallery, own->id);
    if (!k) return STOKE_OK;
    double scale = fmin((double)gallery->height / image->height, (double)gallery->width / image->width);
    scale = fmin(scale, 1);
    set_size(k, (uint32_t)stk_most((uint64_t)(image->width * scale + 0.5), 1),
             (uint32_t)stk_most((uint64_t)(image->height * scale + 0.5), 1));
    stk_pix_resizer *resizer = stk_resizer_create();
    const int r = resizer ? stk_resize(resizer, image, &k->image, err)
                          : stk_fail(err, STOKE_E_NOMEM, "no memory for a picture to look at");
    stk_resizer_destroy(&resizer);
    if (r) return r;
    shrink_ids(truth, &k->truth);
    shrink_ids(predicted, &k->predicted);
    k->name = own->name;
    stk_gallery_score(gallery, own->id, own->miou, own->accuracy);
    return STOKE_OK;
}

/* ---- restored pictures ---- */

/* A part of a picture whose values are 0 .. 1; NaN is black. */
static void cut(const stoke_restored_picture *from, uint32_t left, uint32_t top, const stoke_image *part)
{
    uint8_t *to = part->data;
    for (uint32_t y = 0; y < part->height; y++) {
        const float *line = (const float *)from->data + (size_t)(top + y) * from->row;
        for (uint32_t x = 0; x < part->width; x++)
            for (size_t c = 0; c < 3; c++) {
                const float v = line[(size_t)(left + x) * from->column + c * from->plane];
                *to++ = v > 0 ? (uint8_t)((v < 1 ? v : 1) * 255 + 0.5f) : 0;
            }
    }
}

void stk_gallery_take_restored(stk_evaluate_gallery *gallery, const stk_evaluate_worst *own,
                               const stk_restored_item *item)
{
    keepsake *k = find(gallery, own->id);
    if (!k) return;
    const uint32_t scale = item->width / item->image_width;
    const uint32_t width = (uint32_t)stk_least(item->image_width, gallery->width / scale),
                   height = (uint32_t)stk_least(item->image_height, gallery->height / scale);
    const uint32_t left = (item->image_width - width) / 2, top = (item->image_height - height) / 2;
    set_size(k, width * scale, height * scale);
    shape(&k->image, width, height);
    cut(&item->image, left, top, &k->image);
    cut(&item->target, left * scale, top * scale, &k->truth);
    cut(&item->output, left * scale, top * scale, &k->predicted);
    k->name = own->name;
    k->psnr = own->psnr;
    k->ssim = own->ssim;
    k->input_psnr = own->input_psnr;
}

static const char *restored_caption(stk_string_arena *captions, const keepsake *k)
{
    return isnan(k->input_psnr)
               ? stk_string_arena_print(captions, "%.150s: PSNR %.2f dB, SSIM %.3f", k->name, k->psnr,
                                        k->ssim)
               : stk_string_arena_print(captions, "%.150s: PSNR %.2f dB (input %.2f dB), SSIM %.3f", k->name,
                                        k->psnr, k->input_psnr, k->ssim);
}

/* ---- all of them ---- */

void stk_gallery_score(stk_evaluate_gallery *gallery, uint64_t id, double miou, double accuracy)
{
    keepsake *k = find(gallery, id);
    if (!k) return;
    k->miou = miou;
    k->accuracy = accuracy;
}

int stk_gallery_has_any(const stk_evaluate_gallery *gallery)
{
    for (uint32_t i = 0; i < gallery->count; i++)
        if (gallery->kept[i].name) return 1;
    return 0;
}

/* ---- kept by other processes ---- */

uint32_t stk_gallery_count(const stk_evaluate_gallery *gallery)
{
    return gallery ? gallery->count : 0;
}

stk_gallery_note stk_gallery_note_of(const stk_evaluate_gallery *gallery, uint32_t i)
{
    const keepsake *k = &gallery->kept[i];
    return (stk_gallery_note){ .seen = k->name != NULL,
                               .width = k->truth.width,
                               .height = k->truth.height,
                               .image_width = k->image.width,
                               .image_height = k->image.height,
                               .miou = k->miou,
                               .accuracy = k->accuracy,
                               .psnr = k->psnr,
                               .ssim = k->ssim,
                               .input_psnr = k->input_psnr };
}

void *stk_gallery_pixels(const stk_evaluate_gallery *gallery, uint32_t i, size_t *bytes)
{
    *bytes = gallery->each;
    return gallery->kept[i].truth.data;
}

void stk_gallery_accept(stk_evaluate_gallery *gallery, uint32_t i, const stk_gallery_note *note,
                        const stoke_dataset *dataset)
{
    keepsake *k = &gallery->kept[i];
    /* Of another process: larger than here it would be read from behind its memory. */
    if (note->width > gallery->width || note->height > gallery->height || note->image_width > note->width ||
        note->image_height > note->height)
        return;
    set_size(k, note->width, note->height);
    shape(&k->image, note->image_width, note->image_height);
    k->name = stoke_dataset_sample(dataset, k->id).name;
    k->miou = note->miou;
    k->accuracy = note->accuracy;
    k->psnr = note->psnr;
    k->ssim = note->ssim;
    k->input_psnr = note->input_psnr;
}

int stk_gallery_write(const stk_evaluate_gallery *gallery, const char *path, const char *title,
                      int64_t ignore_index, const char *const *class_names, uint32_t classes,
                      stoke_error *err)
{
    /* One class is the foreground: ids are 0 and 1 then. */
    const char *const pair[2] = { "background",
                                  class_names && class_names[0] ? class_names[0] : "foreground" };
    const char *const *names = classes == 1 ? pair : class_names;
    const uint32_t n_names = classes == 1 ? 2 : class_names ? classes : 0;
    stk_string_arena captions = { 0 };
    stoke_comparison *rows = stk_calloc(gallery->count, sizeof *rows);
    size_t n = 0;
    int whole = rows != NULL;
    for (const keepsake *k = gallery->kept; whole && k < gallery->kept + gallery->count; k++) {
        if (!k->name) continue; /* samples that were bad have not been seen */
        const char *caption =
            gallery->restored ? restored_caption(&captions, k)
            : isnan(k->miou)  ? stk_string_arena_print(&captions, "%.150s", k->name)
                              : stk_string_arena_print(&captions, "%.150s: mean IoU %.3f, accuracy %.1f %%",
                                                       k->name, k->miou, 100 * k->accuracy);
        whole = caption != NULL;
        rows[n++] = (stoke_comparison){ &k->image, &k->truth, &k->predicted, caption };
    }
    const int r =
        !whole ? stk_fail(err, STOKE_E_NOMEM, "%s: no memory for a picture of %u predictions", path,
                          (unsigned)gallery->count)
        : n    ? stoke_comparison_write(path, rows, n, (int32_t)ignore_index, names, n_names, title, err)
               : stk_fail(err, STOKE_E_STATE, "%s: none of the pictures to be drawn could be read", path);
    stk_free(rows);
    stk_string_arena_free(&captions);
    return r;
}
