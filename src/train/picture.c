/* SPDX-License-Identifier: Apache-2.0 */
#include "src/train/picture.h"

#include "src/base/error.h"
#include "src/loader/job.h"
#include "src/loader/sample.h"
#include "src/source/pairs.h"

struct stk_pictures {
    stk_recipe recipe;
};

struct stk_picture_reader {
    const stk_pictures *pictures;
    stk_bench bench;
    stk_job job;
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
        stk_recipe_create(&pictures->recipe, NULL, &own, err); /* a size is set: no set needed */
    pictures->recipe.alone =
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
    stk_recipe_destroy(&(*pictures)->recipe);
    stk_free(*pictures);
    *pictures = NULL;
}

const stk_recipe *stk_pictures_recipe(const stk_pictures *pictures)
{
    return &pictures->recipe;
}

int stk_pictures_shrink(const stk_pictures *pictures)
{
    return pictures->recipe.image_decode.mode == STOKE_DECODE_FAST;
}

int stk_picture_reader_create(stk_picture_reader **out, const stk_pictures *pictures, stoke_error *err)
{
    stk_picture_reader *reader = stk_calloc(1, sizeof *reader);
    *out = NULL;
    if (!reader) return stk_fail(err, STOKE_E_NOMEM, "no memory to read pictures");
    reader->pictures = pictures;
    const int status = stk_bench_create(&reader->bench, err);
    if (status)
        stk_picture_reader_destroy(&reader);
    else
        *out = reader;
    return status;
}

void stk_picture_reader_destroy(stk_picture_reader **reader)
{
    if (!*reader) return;
    stk_bench_destroy(&(*reader)->bench);
    stk_free(*reader);
    *reader = NULL;
}

uint64_t stk_picture_reader_memory(const stk_picture_reader *reader)
{
    return stk_bench_memory(&reader->bench);
}

int stk_picture_reader_renew(stk_picture_reader *reader, stoke_error *err)
{
    stk_bench_destroy(&reader->bench);
    return stk_bench_create(&reader->bench, err);
}

int stk_picture_read(stk_picture_reader *reader, const stoke_sample *file, uint32_t *width, uint32_t *height,
                     stoke_error *err)
{
    reader->job = (stk_job){
        .bench = &reader->bench,
        .recipe = &reader->pictures->recipe,
        .sample = { .name = file->name, .image_path = file->image_path, .image = file->image },
        .last = stk_stamp_now(),
        .err = err,
    };
    /* A mask that is there says which way up it was drawn; its pixels are not for us. */
    if (reader->pictures->recipe.orientation == STOKE_ORIENTATION_AUTO && file->mask_path)
        reader->job.knows_mask = stk_header_read(reader->bench.mask_decoder, &reader->bench.mask_file,
                                                 &file->mask, STK_FILE_LIMIT, &reader->job.mask_info);
    const int status = stk_fetch(&reader->job, NULL);
    *width = reader->job.width;
    *height = reader->job.height;
    return status;
}

stk_row_need stk_picture_need(const stk_picture_reader *reader)
{
    const stk_job *job = &reader->job;
    return stk_bench_need(job->recipe, &job->image_info, job->image_bytes, NULL, 0);
}

int stk_picture_turned(const stk_picture_reader *reader)
{
    const stk_job *job = &reader->job;
    return job->image_info.orientation == 1 ? 0 : job->orientation == STOKE_ORIENTATION_APPLY ? 1 : -1;
}

/* The prefix of a sample whose plan is nothing but a size. */
static int decode(stk_picture_reader *reader, uint32_t width, uint32_t height, stoke_image *image,
                  stoke_error *err)
{
    stk_job *job = &reader->job;
    job->err = err;
    job->plan.box = (stoke_box){ 0, 0, job->width, job->height };
    job->plan.width = width;
    job->plan.height = height;
    const int status = stk_prefix_region(job);
    *image = job->image;
    return status;
}

int stk_picture_whole(stk_picture_reader *reader, stoke_image *image, stoke_error *err)
{
    return decode(reader, reader->job.width, reader->job.height, image, err);
}

int stk_picture_fitted(stk_picture_reader *reader, stoke_image *image, stoke_error *err)
{
    const stk_recipe *recipe = &reader->pictures->recipe;
    return decode(reader, recipe->width, recipe->height, image, err);
}

int stk_picture_fit(stk_picture_reader *reader, const stoke_image *whole, stoke_image *image,
                    stoke_error *err)
{
    const stk_recipe *recipe = &reader->pictures->recipe;
    *image = *whole;
    if (whole->width == recipe->width && whole->height == recipe->height) return STOKE_OK;
    int status =
        stk_bench_image(&reader->bench.fitted, recipe->width, recipe->height, 3, whole->depth, image, err);
    if (!status) status = stk_resize(reader->bench.resizer, whole, image, err);
    return stk_job_in_file(&reader->job, reader->job.sample.image_path, status);
}
