/* SPDX-License-Identifier: Apache-2.0
 *
 * WebP through libwebp, lossy and lossless. Of an animation the first frame is read, on a canvas that is
 * black around it, as Pillow shows it.
 */
#include "src/codec/codec.h"

#include <stdio.h>
#include <string.h>
#include <webp/decode.h>

#include "src/base/error.h"

static int matches(const uint8_t *bytes, size_t size)
{
    return size >= 12 && memcmp(bytes, "RIFF", 4) == 0 && memcmp(bytes + 8, "WEBP", 4) == 0;
}

/* The data of the first RIFF chunk of this type; NULL when there is none. */
static const uint8_t *find_chunk(const uint8_t *bytes, size_t size, const char *type, size_t *length)
{
    for (size_t at = 12; at <= size && size - at >= 8;) {
        size_t n = stk_read_bytes(bytes + at + 4, 4, 0);
        if (n > size - at - 8) return NULL;
        if (memcmp(bytes + at, type, 4) == 0) {
            *length = n;
            return bytes + at + 8;
        }
        at += 8 + n + (n & 1);
    }
    return NULL;
}

/* What is to be decoded, and where on the canvas it lies. */
typedef struct frame {
    const uint8_t *bytes;
    size_t size;
    stoke_box box;
    int alpha;
} frame;

static int fail(stoke_error *err, VP8StatusCode status)
{
    switch (status) {
    case VP8_STATUS_OUT_OF_MEMORY: return stk_fail(err, STOKE_E_NOMEM, "WebP: no memory");
    case VP8_STATUS_UNSUPPORTED_FEATURE:
        return stk_fail(err, STOKE_E_UNSUPPORTED, "WebP: unsupported feature");
    case VP8_STATUS_SUSPENDED:
    case VP8_STATUS_NOT_ENOUGH_DATA: return stk_fail(err, STOKE_E_FORMAT, "WebP: the file ends early");
    default: return stk_fail(err, STOKE_E_FORMAT, "WebP: damaged data");
    }
}

static int first_frame(const uint8_t *bytes, size_t size, const stoke_image_info *info, frame *f,
                       stoke_error *err)
{
    enum { FRAME_HEADER = 16 }; /* offsets, size, duration, flags */
    size_t n;
    const uint8_t *p = find_chunk(bytes, size, "ANMF", &n);
    if (!p || n < FRAME_HEADER)
        return stk_fail(err, STOKE_E_FORMAT, "WebP: an animation without a whole frame");
    f->box = (stoke_box){ stk_read_bytes(p, 3, 0) * 2, stk_read_bytes(p + 3, 3, 0) * 2,
                          stk_read_bytes(p + 6, 3, 0) + 1, stk_read_bytes(p + 9, 3, 0) + 1 };
    f->bytes = p + FRAME_HEADER;
    f->size = n - FRAME_HEADER;
    WebPBitstreamFeatures inner;
    VP8StatusCode status = WebPGetFeatures(f->bytes, f->size, &inner);
    if (status != VP8_STATUS_OK) return fail(err, status);
    if ((uint32_t)inner.width != f->box.width || (uint32_t)inner.height != f->box.height ||
        f->box.x + f->box.width > info->width || f->box.y + f->box.height > info->height)
        return stk_fail(err, STOKE_E_FORMAT, "WebP: a frame that does not fit its canvas");
    f->alpha = inner.has_alpha;
    return STOKE_OK;
}

static int read_info(const uint8_t *bytes, size_t size, stoke_image_info *info, frame *f, stoke_error *err)
{
    WebPBitstreamFeatures features;
    VP8StatusCode status = WebPGetFeatures(bytes, size, &features);
    if (status != VP8_STATUS_OK) return fail(err, status);
    info->width = (uint32_t)features.width;
    info->height = (uint32_t)features.height;
    info->bits = 8;
    info->channels = features.has_alpha ? 4 : 3;
    info->alpha = features.has_alpha != 0;
    /* Lossless decoding holds the picture as ARGB; so does our own step from RGBA. */
    info->scratch_bytes = (uint64_t)info->width * info->height * 4 + 65536;
    size_t n;
    const uint8_t *exif = find_chunk(bytes, size, "EXIF", &n);
    if (exif) info->orientation = stk_orientation_from_exif(exif, n);
    *f = (frame){ bytes, size, { 0, 0, info->width, info->height }, features.has_alpha };
    return features.has_animation ? first_frame(bytes, size, info, f, err) : STOKE_OK;
}

static int probe(stk_codec_job *job)
{
    frame f;
    return read_info(job->bytes, job->size, &job->info, &f, job->err);
}

static int decode_into(const frame *f, uint8_t *out, size_t stride, int alpha, stoke_error *err)
{
    VP8StatusCode status;
    WebPDecoderConfig config;
    if (!WebPInitDecoderConfig(&config)) return stk_fail(err, STOKE_E_UNSUPPORTED, "WebP: another libwebp");
    config.output.colorspace = alpha ? MODE_RGBA : MODE_RGB;
    config.output.is_external_memory = 1;
    config.output.u.RGBA.rgba = out;
    config.output.u.RGBA.stride = (int)stride;
    config.output.u.RGBA.size = stride * (f->box.height - 1) + (size_t)f->box.width * (alpha ? 4 : 3);
    status = WebPDecode(f->bytes, f->size, &config);
    return status == VP8_STATUS_OK ? STOKE_OK : fail(err, status);
}

/* The frame decoded aside, then the wanted part of the canvas from it. */
static int decode_part(stk_codec_job *job, const frame *f, stk_codec_convert *convert)
{
    unsigned samples = convert->layout == STK_RGBA ? 4 : 3;
    size_t stride = (size_t)job->info.width * samples, total;
    if (!stk_mul(stride, job->info.height, &total)) return fail(job->err, VP8_STATUS_OUT_OF_MEMORY);
    uint8_t *canvas = stk_buffer_reserve(&job->decoder->rows, total);
    if (!canvas) return fail(job->err, VP8_STATUS_OUT_OF_MEMORY);
    if (f->box.width != job->info.width || f->box.height != job->info.height) memset(canvas, 0, total);
    int r = decode_into(f, canvas + f->box.y * stride + f->box.x * samples, stride, samples == 4, job->err);
    return r ? r : stk_codec_job_convert(job, convert, canvas, stride);
}

static int decode(stk_codec_job *job)
{
    frame f;
    int r = read_info(job->bytes, job->size, &job->info, &f, job->err);
    if (r == STOKE_OK) r = stk_codec_job_begin(job);
    if (r == STOKE_OK) r = stk_codec_job_place(job, job->box.width, job->box.height, 3, 1);
    if (r) return r;
    int composite = job->info.alpha && job->params->alpha == STOKE_ALPHA_COMPOSITE;
    stk_codec_convert convert = { .layout = composite ? STK_RGBA : STK_RGB, .bits = 8 };
    stk_convert_plan(&convert, job->params);
    int whole = f.box.width == job->info.width && f.box.height == job->info.height &&
                job->box.width == job->info.width && job->box.height == job->info.height;
    if (whole && !composite && job->image.stride <= INT32_MAX)
        return decode_into(&f, job->image.data, job->image.stride, 0, job->err);
    return decode_part(job, &f, &convert);
}

static void version(char text[32])
{
    const int number = WebPGetDecoderVersion();
    snprintf(text, 32, "%d.%d.%d", number >> 16, number >> 8 & 255, number & 255);
}

const stk_codec stk_codec_webp = { matches, probe, decode, { "libwebp", "libwebp", "" }, version };
