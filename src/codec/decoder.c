/* SPDX-License-Identifier: Apache-2.0
 *
 * The decoder object: which format, which part, where to.
 */
#include "src/codec/codec.h"

#include <errno.h>
#include <libdeflate.h>
#include <stdio.h>
#include <string.h>
#include <stoke/tools/image.h>

#include "src/base/error.h"
#include "src/base/retry.h"
#include "src/base/words.h"

static const struct {
    const stk_codec *codec;
    const char *name, *extensions;
} formats[STOKE_FORMATS] = {
#define STOKE_FORMAT(id, codec, extensions) [STOKE_FORMAT_##id] = { &stk_codec_##codec, #codec, extensions },
#include <stoke/formats.def>
#undef STOKE_FORMAT
};

const char *stoke_format_name(stoke_format format)
{
    return format && (unsigned)format < STOKE_FORMATS ? formats[format].name : "unknown";
}

int stoke_format_library_of(stoke_format format, stoke_format_library *library)
{
    const stk_codec *codec = format && (unsigned)format < STOKE_FORMATS ? formats[format].codec : NULL;
    if (!codec || !codec->version) return 0;
    *library = codec->library;
    codec->version(library->version);
    return 1;
}

int stoke_format_known_extension(const char *path)
{
    const char *dot = strrchr(path, '.'), *slash = strrchr(path, '/');
    if (!dot || (slash && dot < slash)) return 0;
    for (int i = 1; i < STOKE_FORMATS; i++)
        if (stk_is_one_of_any_case(dot + 1, formats[i].extensions)) return 1;
    return 0;
}

stoke_format stk_codec_recognize(const uint8_t *bytes, size_t size, char extension[8])
{
    for (int i = 1; i < STOKE_FORMATS; i++)
        if (formats[i].codec->matches(bytes, size)) {
            snprintf(extension, 8, "%.*s", (int)strcspn(formats[i].extensions, " "), formats[i].extensions);
            return (stoke_format)i;
        }
    extension[0] = 0;
    return STOKE_FORMAT_UNKNOWN;
}

size_t stoke_image_bytes(uint32_t width, uint32_t height, uint8_t channels, uint8_t depth)
{
    size_t bytes;
    if (!stk_mul(width, height, &bytes) || !stk_mul(bytes, (size_t)channels * depth, &bytes)) return 0;
    return bytes;
}

stoke_decode_params stoke_decode_defaults(void)
{
    return (stoke_decode_params){
        .struct_size = sizeof(stoke_decode_params),
        .max_pixels = 178956970,
    };
}

int stoke_decoder_create(stoke_decoder **out, stoke_error *err)
{
    *out = stk_calloc(1, sizeof **out);
    return *out ? STOKE_OK : stk_fail(err, STOKE_E_NOMEM, "no memory for a decoder");
}

void stoke_decoder_destroy(stoke_decoder **decoder)
{
    stoke_decoder *d = decoder ? *decoder : NULL;
    if (!d) return;
    stk_buffer_free(&d->pixels);
    stk_buffer_free(&d->oriented);
    stk_buffer_free(&d->rows);
    stk_buffer_free(&d->packed);
    stk_jpeg_destroy(d->jpeg);
    libdeflate_free_decompressor(d->inflate);
    stk_free(d);
    *decoder = NULL;
}

uint64_t stoke_decoder_memory(const stoke_decoder *d)
{
    return sizeof *d + d->pixels.capacity + d->oriented.capacity + d->rows.capacity + d->packed.capacity +
           stk_jpeg_memory(d->jpeg);
}

int stk_check_pixels(uint32_t width, uint32_t height, uint64_t limit, stoke_error *err)
{
    uint64_t pixels = (uint64_t)width * height;
    if (!pixels) return stk_fail(err, STOKE_E_FORMAT, "%ux%u: no pixels", width, height);
    if (pixels <= limit) return STOKE_OK;
    return stk_fail(err, STOKE_E_LIMIT, "%ux%u = %llu pixels, more than the limit of %llu", width, height,
                    (unsigned long long)pixels, (unsigned long long)limit);
}

int stk_codec_job_begin(stk_codec_job *job)
{
    const stoke_image_info *info = &job->info;
    int r = stk_check_pixels(info->width, info->height, job->params->max_pixels, job->err);
    if (r) return r;
    job->orientation = job->params->orientation == STOKE_ORIENTATION_APPLY ? info->orientation : 1;
    int swap = stk_orientation_swaps(job->orientation);
    uint32_t width = swap ? info->height : info->width, height = swap ? info->width : info->height;
    stoke_box box = job->params->region;
    if (!box.width) box = (stoke_box){ 0, 0, width, height };
    if (!box.height || box.x >= width || box.width > width - box.x || box.y >= height ||
        box.height > height - box.y)
        return stk_fail(job->err, STOKE_E_INVALID, "region %ux%u at %u,%u is not inside the picture of %ux%u",
                        box.width, box.height, box.x, box.y, width, height);
    job->box = stk_orient_box(box, job->orientation, info->width, info->height);
    return STOKE_OK;
}

/* The target (may be NULL) if it has this shape, else the buffer, rows packed. */
static int place(const stoke_image *target, stk_mem_buffer *buffer, stoke_image *image, stoke_error *err)
{
    image->stride = (size_t)image->width * image->channels * image->depth;
    if (target && target->data && target->width == image->width && target->height == image->height &&
        target->channels == image->channels && target->depth == image->depth &&
        target->stride >= image->stride) {
        *image = *target;
        return STOKE_OK;
    }
    size_t bytes = stoke_image_bytes(image->width, image->height, image->channels, image->depth);
    image->data = bytes ? stk_buffer_reserve(buffer, bytes) : NULL;
    if (!image->data) return stk_fail(err, STOKE_E_NOMEM, "no memory for %zu bytes of pixels", bytes);
    return STOKE_OK;
}

int stk_codec_job_place(stk_codec_job *job, uint32_t width, uint32_t height, uint8_t channels, uint8_t depth)
{
    job->image = (stoke_image){ .width = width, .height = height, .channels = channels, .depth = depth };
    /* A picture that will be turned must not land in the target yet, even if both are square. */
    const stoke_image *target = job->orientation == 1 ? &job->params->target : NULL;
    return place(target, &job->decoder->pixels, &job->image, job->err);
}

int stk_codec_job_convert(stk_codec_job *job, const stk_codec_convert *convert, const uint8_t *stored,
                          size_t stride)
{
    int r = STOKE_OK;
    for (uint32_t y = 0; r == STOKE_OK && y < job->box.height; y++)
        r = stk_convert_row(convert, stored + (job->box.y + y) * stride, job->box.x, job->box.width,
                            stk_codec_job_row(job, y), job->err);
    return r;
}

static int turn_upright(stk_codec_job *job)
{
    stoke_image upright = job->image;
    if (stk_orientation_swaps(job->orientation)) {
        upright.width = job->image.height;
        upright.height = job->image.width;
    }
    int r = place(&job->params->target, &job->decoder->oriented, &upright, job->err);
    if (r) return r;
    stk_orient_apply(&job->image, job->orientation, &upright);
    job->image = upright;
    return STOKE_OK;
}

static int check_params(const stoke_decode_params *p, stoke_error *err)
{
    if (p->struct_size != sizeof *p) return stk_fail_struct(err, "stoke_decode_defaults");
    if ((unsigned)p->purpose > STOKE_PURPOSE_MASK || (unsigned)p->orientation > STOKE_ORIENTATION_APPLY ||
        (unsigned)p->alpha > STOKE_ALPHA_COMPOSITE || (unsigned)p->mode > STOKE_DECODE_FAST)
        return stk_fail(err, STOKE_E_INVALID, "decode params: a choice is out of range");
    return STOKE_OK;
}

/* Probes, or (with params) decodes; again where there was no memory for a moment. */
static int run(const stk_codec_job *asked, stk_codec_job *job)
{
    char extension[8];
    const stoke_format format = stk_codec_recognize(asked->bytes, asked->size, extension);
    if (!format)
        return stk_fail(asked->err, STOKE_E_FORMAT,
                        asked->size ? "not a " STOKE_FORMATS_OR " file" : "empty file");
    const stk_codec *codec = formats[format].codec;
    stoke_patience patience = { 0 };
    int r;
    do {
        *job = *asked;
        job->info = (stoke_image_info){ .format = format, .orientation = 1 };
        errno = 0;
        r = (job->params ? codec->decode : codec->probe)(job);
        /* libtiff does not tell a damaged file from memory that it did not get; the C library does. */
        if (r && !stk_is_want(r) && errno == ENOMEM)
            r = stk_fail(job->err, STOKE_E_NOMEM, "no memory to decode it");
        if (!r && job->orientation > 1) r = turn_upright(job);
    } while (stk_is_want(r) && stoke_again(&patience, ENOMEM));
    return r;
}

int stoke_decoder_probe(stoke_decoder *decoder, const void *bytes, size_t size, stoke_image_info *info,
                        stoke_error *err)
{
    const stk_codec_job asked = { .decoder = decoder, .bytes = bytes, .size = size, .err = err };
    stk_codec_job job = { .info.format = STOKE_FORMAT_UNKNOWN };
    const int r = run(&asked, &job);
    if (job.info.format) *info = job.info;
    return r;
}

int stoke_decoder_decode(stoke_decoder *decoder, const void *bytes, size_t size,
                         const stoke_decode_params *params, stoke_image *out, stoke_error *err)
{
    int r = check_params(params, err);
    if (r) return r;
    const stk_codec_job asked = {
        .decoder = decoder, .bytes = bytes, .size = size, .params = params, .err = err
    };
    stk_codec_job job;
    r = run(&asked, &job);
    if (!r) *out = job.image;
    return r;
}
