/* SPDX-License-Identifier: Apache-2.0 */
#include "src/loader/scratch.h"

#include <math.h>
#include <stoke/tools/data.h>
#include <stoke/tools/dataset.h>
#include <stoke/tools/labels.h>

#include "src/augment/pipeline.h"
#include "src/base/error.h"
#include "src/base/file.h"
#include "src/loader/sample.h"
#include "src/source/pairs.h"
#include "src/source/reader.h"

enum { FIRST_SAMPLES = 64 }; /* how many are tried for a readable header when the size is not given */

int stk_loader_config_size(const stk_loader_config *config, stoke_decoder *decoder, stk_mem_buffer *buffer,
                           const stoke_sample *sample, stoke_image_info *info, uint32_t *width,
                           uint32_t *height, stoke_error *err)
{
    stoke_image_info mask;
    size_t size;
    int r = stk_blob_read(&sample->image, sample->image_path, STK_FILE_LIMIT, buffer, &size, err);
    if (!r) r = stoke_decoder_probe(decoder, buffer->data, size, info, err);
    if (r) return r;
    const int has_mask =
        sample->mask_path && stk_header_read(decoder, buffer, &sample->mask, STK_FILE_LIMIT, &mask);
    stk_size_shown(info, stk_loader_config_orientation(config, info, has_mask ? &mask : NULL), width, height);
    return STOKE_OK;
}

/* The size of the first sample whose header can be read. */
static int first_size(stk_loader_config *config, stoke_error *err)
{
    stoke_decoder *decoder;
    int r = stoke_decoder_create(&decoder, err);
    if (r) return r;
    stk_mem_buffer buffer = { 0 };
    const uint64_t count = stoke_dataset_count(config->dataset);
    r = STOKE_E_NOTFOUND;
    for (uint64_t id = 0; r && id < count && id < FIRST_SAMPLES; id++) {
        const stoke_sample sample = stoke_dataset_sample(config->dataset, id);
        stoke_image_info info;
        r = stk_loader_config_size(config, decoder, &buffer, &sample, &info, &config->width, &config->height,
                                   err);
    }
    if (r) stk_error_prefix(err, "size is not set and cannot be taken from the first samples");
    stk_buffer_free(&buffer);
    stoke_decoder_destroy(&decoder);
    return r;
}

stoke_orientation stk_loader_config_orientation(const stk_loader_config *config,
                                                const stoke_image_info *image, const stoke_image_info *mask)
{
    return stk_orientation_for(config->orientation, image, mask, config->alone);
}

static void set_decoding(stk_loader_config *config, const stoke_data_params *params)
{
    stoke_decode_params image = stoke_decode_defaults();
    config->orientation = (stoke_orientation)params->orientation;
    if (config->dataset && stoke_dataset_has_targets(config->dataset))
        config->orientation = stk_orientation_of_pictures(config->orientation);
    config->alone = STOKE_ORIENTATION_IGNORE;
    image.alpha = params->alpha;
    image.mode = params->decode;
    image.max_pixels = (uint64_t)params->max_pixels;
    image.keep16 = 1;
    config->image_decode = image;
    stoke_decode_params mask = image;
    mask.mode = STOKE_DECODE_EXACT;
    mask.orientation = stk_orientation_of_masks(config->orientation);
    mask.keep16 = 0; /* masks of integers keep 16 bits whatever this says; colours have 8 */
    config->mask_decode = mask;
}

/* Whether a mask may hold this id as a class. Without `classes` every id may be one. */
static int is_class(const stoke_data_params *params, uint32_t id)
{
    return (!params->classes || id < params->classes) && (int64_t)id != params->ignore_index;
}

/* Ids that are in no pair stay what they are. Of a pair, both are classes or neither is: a preset may know
 * more pairs than a data set has, but a class must not become something that is none. */
static int make_swap(stk_loader_config *config, const stoke_data_params *params, stoke_error *err)
{
    const size_t n = config->pipeline->constants.n_swap;
    const uint32_t(*pair)[2] = config->pipeline->constants.swap;
    const uint32_t values = stoke_labels_depth(config->labels) == 1 ? 256 : 65536;
    if (!n) return STOKE_OK;
    uint16_t *swap = stk_calloc(values, sizeof *swap);
    if (!swap) return stk_fail(err, STOKE_E_NOMEM, "no memory for the table of mirrored classes");
    config->swap = swap;
    for (uint32_t id = 0; id < values; id++) swap[id] = (uint16_t)id;
    for (size_t i = 0; i < n; i++) {
        if (pair[i][0] >= values || pair[i][1] >= values)
            return stk_fail(
                err, STOKE_E_INVALID,
                "augment: classes %u and %u change places in a mirror image, but class ids end at %u",
                pair[i][0], pair[i][1], values - 1);
        const int first = is_class(params, pair[i][0]), second = is_class(params, pair[i][1]);
        if (first != second)
            return stk_fail(err, STOKE_E_INVALID,
                            "augment: classes %u and %u change places in a mirror image, but %u is no class "
                            "here (classes %lld, ignore_index %lld): leave the pair out of swap",
                            pair[i][0], pair[i][1], pair[i][first], (long long)params->classes,
                            (long long)params->ignore_index);
        swap[pair[i][0]] = (uint16_t)pair[i][1];
        swap[pair[i][1]] = (uint16_t)pair[i][0];
    }
    return STOKE_OK;
}

static void ask_pipeline(stk_loader_config *config)
{
    const stoke_pipeline *pipeline = config->pipeline;
    double mean[3], deviation[3];
    config->crops = pipeline->traits & STK_TRAIT_CROP;
    config->focuses = pipeline->traits & STK_TRAIT_FOCUS;
    config->warps = pipeline->traits & STK_TRAIT_WARP;
    config->elastic = pipeline->traits & STK_TRAIT_ELASTIC;
    config->color_steps = stk_pipeline_color_steps(pipeline) > 0;
    config->mixes = pipeline->traits & (STK_TRAIT_MIXUP | STK_TRAIT_CUTMIX);
    config->plain = pipeline->n_steps == 0;
    config->two_masks = pipeline->traits & STK_TRAIT_MIXUP;
    if (stk_pipeline_normalize(pipeline, mean, deviation))
        stk_writer_normalize(&config->writer, mean, deviation);
}

/* Whether every value that is written fits its type. */
static int check_dtypes(const stk_loader_config *config, stoke_error *err)
{
    const double largest_half = 65504;
    const stk_pix_writer *writer = &config->writer;
    /* Elements of a batch are finite: a half float that is not would spread to other rows when they are
     * mixed. */
    for (int c = 0; c < 3 && writer->dtype == STOKE_DTYPE_F16; c++) { /* of black and of white */
        const double black = fabs(writer->bias[c]), white = fabs(writer->scale[c] + writer->bias[c]);
        if (black > largest_half || white > largest_half)
            return stk_fail(
                err, STOKE_E_INVALID,
                "augment: normalize makes values up to %g, and dtype f16 ends at %g: use dtype f32 "
                "or bf16, or a larger std",
                fmax(black, white), largest_half);
    }
    /* What turns in at a border may be background for want of a better id; a box that the user wants ignored
     * not. */
    if (config->ignore < 0 && config->pipeline->constants.erases_masks)
        return stk_fail(
            err, STOKE_E_INVALID,
            "augment: erasing with mask=ignore has nothing to write, ignore_index is -1: set it (255), "
            "or use mask=keep");
    /* A mask type too narrow for the class ids would alter them silently. */
    if (stoke_labels_depth(config->labels) == 2 && config->mask_dtype == STOKE_DTYPE_U8)
        return stk_fail(err, STOKE_E_INVALID,
                        "mask_dtype u8 cannot hold these class ids: use auto, u16, i32 or i64");
    return STOKE_OK;
}

/* What targets are made by. They are blended and pasted themselves, so there is no second one. */
static int make_target(stk_loader_config *config, const stoke_data_params *params, stoke_error *err)
{
    config->two_masks = 0;
    config->scale = (uint32_t)params->scale;
    config->colors_both = params->photometric == STOKE_PHOTOMETRIC_BOTH;
    config->target = stk_alloc(sizeof *config->target);
    if (!config->target) return stk_fail(err, STOKE_E_NOMEM, "no memory for the settings of targets");
    *config->target = *config;
    config->target->target = NULL;
    config->target->finer = config->scale;
    config->target->width *= config->scale;
    config->target->height *= config->scale;
    return STOKE_OK;
}

int stk_loader_config_create(stk_loader_config *config, const stoke_dataset *dataset,
                             const stoke_data_params *params, stoke_error *err)
{
    *config = (stk_loader_config){ .dataset = dataset, .seed = (uint64_t)params->seed };
    set_decoding(config, params);
    int r = stk_window_parse(params->window, &config->window, err);
    if (!r) r = stoke_pipeline_create(&config->pipeline, params->augment, err);
    if (!r) r = stk_labels_of(&config->labels, params, err);
    if (r) return r;
    config->mask_decode.purpose = stk_mask_purpose(config->labels);
    stk_writer_init(&config->writer, stoke_data_image_dtype(params), params->layout, params->normalize);
    config->mask_dtype = stoke_data_mask_dtype(params, stoke_labels_depth(config->labels));
    ask_pipeline(config);
    config->ignore = (int32_t)params->ignore_index;
    config->mask_fill = params->ignore_index >= 0 ? (uint32_t)params->ignore_index : 0;
    config->keeps = (params->cache && *params->cache) || params->cache_ram;
    config->cache_ram = params->cache_ram;
    config->height = params->size[0];
    config->width = params->size[1];
    r = check_dtypes(config, err);
    if (!r) r = make_swap(config, params, err);
    if (!r && (!config->height || !config->width)) r = first_size(config, err);
    if (!r && dataset && stoke_dataset_has_targets(dataset)) r = make_target(config, params, err);
    return r;
}

void stk_loader_config_destroy(stk_loader_config *config)
{
    stk_cache_close(&config->cache);
    stoke_pipeline_destroy(&config->pipeline);
    stoke_labels_destroy(&config->labels);
    stk_free((void *)config->swap);
    stk_free(config->target); /* what it has beside its sizes is ours */
}

stoke_batch stk_batch_shape(const stk_loader_config *config, uint32_t capacity)
{
    const size_t pixels = (size_t)config->width * config->height,
                 bytes = stoke_dtype_bytes(config->writer.dtype);
    const stk_loader_config *target = config->target;
    return (stoke_batch){
        .capacity = capacity,
        .height = config->height,
        .width = config->width,
        .channels = 3,
        .layout = config->writer.layout,
        .image_dtype = config->writer.dtype,
        .mask_dtype = config->mask_dtype,
        .image_row_bytes = pixels * 3 * bytes,
        .mask_row_bytes = target ? 0 : pixels * stoke_dtype_bytes(config->mask_dtype),
        .target_row_bytes = target ? (size_t)target->width * target->height * 3 * bytes : 0,
        .target_width = target ? target->width : 0,
        .target_height = target ? target->height : 0,
    };
}
