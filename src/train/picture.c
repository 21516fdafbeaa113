/* SPDX-License-Identifier: Apache-2.0 */
#include "src/train/predict.h"

#include "src/base/error.h"
#include "src/loader/sample.h"
#include "src/source/pairs.h"

struct stk_pictures {
    stk_loader_config config;
};

struct stk_picture_reader {
    const stk_pictures *pictures;
    stk_scratch scratch;
    stk_sample_ctx ctx;
};

int stk_pictures_open(stk_pictures **out, const stoke_data_params *data, uint32_t height, uint32_t width,
                      stoke_error *err)
{
    /* Of the settings only those of decoding count here. */
    stoke_data_params own = stoke_data_defaults();
    own.decode = data->decode;
    own.orientation = data->orientation;
    own.alpha = data->alpha;
    own.window = data->window;
    own.max_pixels = data->max_pixels;
    own.size[0] = height;
    own.size[1] = width;
    stk_pictures *pictures = stk_calloc(1, sizeof *pictures);
    *out = NULL;
    if (!pictures) return stk_fail(err, STOKE_E_NOMEM, "no memory to read pictures");
    const int status =
        stk_loader_config_create(&pictures->config, NULL, &own, err); /* a size is set: no set needed */
    pictures->config.alone =
        STOKE_ORIENTATION_APPLY; /* of auto: the mask is to lie as people see the picture */
    if (status)
        stk_pictures_close(&pictures);
    else
        *out = pictures;
    return status;
}

void stk_pictures_close(stk_pictures **pictures)
{
    if (!*pictures) return;
    stk_loader_config_destroy(&(*pictures)->config);
    stk_free(*pictures);
    *pictures = NULL;
}

const stk_loader_config *stk_pictures_config(const stk_pictures *pictures)
{
    return &pictures->config;
}

int stk_pictures_shrink(const stk_pictures *pictures)
{
    return pictures->config.image_decode.mode == STOKE_DECODE_FAST;
}

int stk_picture_reader_create(stk_picture_reader **out, const stk_pictures *pictures, stoke_error *err)
{
    stk_picture_reader *reader = stk_calloc(1, sizeof *reader);
    *out = NULL;
    if (!reader) return stk_fail(err, STOKE_E_NOMEM, "no memory to read pictures");
    reader->pictures = pictures;
    const int status = stk_scratch_create(&reader->scratch, err);
    if (status)
        stk_picture_reader_destroy(&reader);
    else
        *out = reader;
    return status;
}

void stk_picture_reader_destroy(stk_picture_reader **reader)
{
    if (!*reader) return;
    stk_scratch_destroy(&(*reader)->scratch);
    stk_free(*reader);
    *reader = NULL;
}

uint64_t stk_picture_reader_memory(const stk_picture_reader *reader)
{
    return stk_scratch_memory(&reader->scratch);
}

int stk_picture_reader_renew(stk_picture_reader *reader, stoke_error *err)
{
    stk_scratch_destroy(&reader->scratch);
    return stk_scratch_create(&reader->scratch, err);
}

int stk_picture_read(stk_picture_reader *reader, const stoke_sample *file, uint32_t *width, uint32_t *height,
                     stoke_error *err)
{
    reader->ctx = (stk_sample_ctx){
        .scratch = &reader->scratch,
        .config = &reader->pictures->config,
        .sample = { .name = file->name, .image_path = file->image_path, .image = file->image },
        .last = stk_stamp_now(),
        .err = err,
    };
    /* A mask that is there says which way up it was drawn; its pixels are not for us. */
    if (reader->pictures->config.orientation == STOKE_ORIENTATION_AUTO && file->mask_path)
        reader->ctx.knows_mask = stk_header_read(reader->scratch.mask_decoder, &reader->scratch.mask_file,
                                                 &file->mask, STK_FILE_LIMIT, &reader->ctx.mask_info);
    const int status = stk_fetch(&reader->ctx, NULL);
    *width = reader->ctx.width;
    *height = reader->ctx.height;
    return status;
}

stk_scratch_bytes stk_picture_need(const stk_picture_reader *reader)
{
    const stk_sample_ctx *ctx = &reader->ctx;
    return stk_scratch_need(ctx->config, &ctx->image_info, ctx->image_bytes, NULL, 0);
}

int stk_picture_turned(const stk_picture_reader *reader)
{
    const stk_sample_ctx *ctx = &reader->ctx;
    return ctx->image_info.orientation == 1 ? 0 : ctx->orientation == STOKE_ORIENTATION_APPLY ? 1 : -1;
}

/* The fitted sample of one whose plan is nothing but a size. */
static int decode(stk_picture_reader *reader, uint32_t width, uint32_t height, stoke_image *image,
                  stoke_error *err)
{
    stk_sample_ctx *ctx = &reader->ctx;
    ctx->err = err;
    ctx->plan.box = (stoke_box){ 0, 0, ctx->width, ctx->height };
    ctx->plan.width = width;
    ctx->plan.height = height;
    const int status = stk_decode_fit_region(ctx);
    *image = ctx->image;
    return status;
}

int stk_picture_whole(stk_picture_reader *reader, stoke_image *image, stoke_error *err)
{
    return decode(reader, reader->ctx.width, reader->ctx.height, image, err);
}

int stk_picture_fitted(stk_picture_reader *reader, stoke_image *image, stoke_error *err)
{
    const stk_loader_config *config = &reader->pictures->config;
    return decode(reader, config->width, config->height, image, err);
}

int stk_picture_fit(stk_picture_reader *reader, const stoke_image *whole, stoke_image *image,
                    stoke_error *err)
{
    const stk_loader_config *config = &reader->pictures->config;
    *image = *whole;
    if (whole->width == config->width && whole->height == config->height) return STOKE_OK;
    int status = stk_scratch_image(&reader->scratch.fitted, config->width, config->height, 3, whole->depth,
                                   image, err);
    if (!status) status = stk_resize(reader->scratch.resizer, whole, image, err);
    return stk_sample_ctx_in_file(&reader->ctx, reader->ctx.sample.image_path, status);
}
