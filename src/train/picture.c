/* SPDX-License-Identifier: Apache-2.0 */
#include "src/train/predict.h"

#include "src/source/pairs.h"

int stk_pictures_config(stk_loader_config *config, const stoke_data_params *data, uint32_t height,
                        uint32_t width, stoke_error *err)
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
    const int status = stk_loader_config_create(config, NULL, &own, err); /* a size is set: no set needed */
    config->alone = STOKE_ORIENTATION_APPLY; /* of auto: the mask is to lie as people see the picture */
    return status;
}

int stk_picture_read(stk_picture_reader *reader, const stoke_sample *file, stoke_error *err)
{
    reader->ctx = (stk_sample_ctx){
        .scratch = &reader->scratch,
        .config = reader->config,
        .sample = { .name = file->name, .image_path = file->image_path, .image = file->image },
        .last = stk_stamp_now(),
        .err = err,
    };
    /* A mask that is there says which way up it was drawn; its pixels are not for us. */
    if (reader->config->orientation == STOKE_ORIENTATION_AUTO && file->mask_path)
        reader->ctx.knows_mask = stk_header_read(reader->scratch.mask_decoder, &reader->scratch.mask_file,
                                                 &file->mask, STK_FILE_LIMIT, &reader->ctx.mask_info);
    return stk_fetch(&reader->ctx, NULL);
}

int stk_picture_turned(const stk_picture_reader *reader)
{
    const stk_sample_ctx *ctx = &reader->ctx;
    return ctx->image_info.orientation == 1 ? 0 : ctx->orientation == STOKE_ORIENTATION_APPLY ? 1 : -1;
}

/* The fitted sample of one whose plan is nothing but a size. */
int stk_picture_decode(stk_picture_reader *reader, uint32_t width, uint32_t height, stoke_image *image,
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

int stk_picture_fit(stk_picture_reader *reader, const stoke_image *whole, stoke_image *image,
                    stoke_error *err)
{
    const stk_loader_config *config = reader->config;
    *image = *whole;
    if (whole->width == config->width && whole->height == config->height) return STOKE_OK;
    int status = stk_scratch_image(&reader->scratch.fitted, config->width, config->height, 3, whole->depth,
                                   image, err);
    if (!status) status = stk_resize(reader->scratch.resizer, whole, image, err);
    return stk_sample_ctx_in_file(&reader->ctx, reader->ctx.sample.image_path, status);
}
