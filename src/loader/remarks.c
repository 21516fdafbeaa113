/* SPDX-License-Identifier: Apache-2.0
 *
 * Settings that are allowed and do what they say, but hardly what was meant: crops that cannot cut, mixing
 * with nobody, black pictures. A few samples are looked at, so it costs milliseconds.
 */
#include <stdio.h>
#include <stoke/tools/dataset.h>
#include <stoke/tools/loader.h>
#include <stoke/tools/machine.h>

#include "src/augment/pipeline.h"
#include "src/base/error.h"
#include "src/base/file.h"
#include "src/base/remarks.h"
#include "src/loader/scratch.h"
#include "src/loader/sample.h"
#include "src/source/pairs.h"
#include "src/source/reader.h"

enum {
    LOOKS = 16,    /* samples whose headers are read, spread over the set */
    DECODED_AT = 4 /* of these, every so many is decoded when it has 16 bits */
};

/* ---- what the samples are like ---- */

typedef struct looks {
    uint32_t width, height; /* of the first that could be read */
    unsigned n, cut;        /* those that are larger than the output somewhere */
    double covered;         /* sum of the shares of the output that samples at their own scale fill */
    uint32_t low, high;     /* values of 16-bit images; low > high: none was seen */
} looks;

static void look(looks *seen, const stk_loader_config *config, stk_reader *reader,
                 const stoke_data_params *params, const stoke_sample *sample, int decode)
{
    stoke_image_info info;
    stoke_image image;
    uint32_t width, height;
    if (stk_loader_config_size(config, reader->decoder, &reader->file, sample, &info, &width, &height, NULL))
        return;
    if (!seen->n++) seen->width = width, seen->height = height;
    seen->cut += width > config->width || height > config->height;
    const double in_width = width < config->width ? width : config->width;
    const double in_height = height < config->height ? height : config->height;
    seen->covered += in_width * in_height / ((double)config->width * config->height);
    if (decode && info.bits > 8 && !stk_reader_image(reader, params, sample, &info, &image, NULL))
        stk_image_values(&image, &seen->low, &seen->high);
}

static looks look_around(const stk_loader_config *config, const stoke_data_params *params)
{
    looks seen = { .low = UINT32_MAX };
    stk_reader reader = { 0 };
    const uint64_t count = stoke_dataset_count(config->dataset), n = count < LOOKS ? count : LOOKS;
    for (uint64_t i = 0; i < n && (i || !stk_reader_start(NULL, &reader, NULL)); i++) {
        const stoke_sample sample = stoke_dataset_sample(config->dataset, i * (count / n));
        look(&seen, config, &reader, params, &sample, i % DECODED_AT == 0);
    }
    stk_reader_finish(NULL, &reader);
    return seen;
}

/* ---- what is odd ---- */

static void on_crop(stk_remarks *out, const stk_loader_config *config, const looks *seen)
{
    const char *crop = stk_pipeline_own_scale(config->pipeline);
    if (!crop || !seen->n) return;
    const double covered = seen->covered / seen->n;
    if (covered < 0.5)
        stk_remark(
            out,
            "%s: samples of about %ux%u fill %.0f %% of an output of %ux%u, the rest is padding%s: choose a "
            "smaller size, or leave %s out to stretch them",
            crop, seen->height, seen->width, 100 * covered, config->height, config->width,
            config->target ? ", black in the target, too" : " that training ignores", crop);
    else if (!seen->cut && covered > 0.999)
        stk_remark(out,
                   "%s cuts nothing: the output has the size of the samples, %ux%u; choose a smaller size",
                   crop, config->height, config->width);
}

static void on_pipeline(stk_remarks *out, const stk_loader_config *config, const stoke_data_params *params)
{
    const stk_op_constants *constants = &config->pipeline->constants;
    double mean[3], deviation[3];
    if (config->mixes && params->batch == 1)
        stk_remark(out, "%s mixes a row with the one before it in the batch: with batch 1 there is none",
                   config->two_masks ? "mixup" : "cutmix");
    if (config->writer.dtype == STOKE_DTYPE_U8 && stk_pipeline_normalize(config->pipeline, mean, deviation))
        stk_remark(
            out,
            "normalize has no effect with dtype u8, whose values stay 0 to 255; choose f32, f16 or bf16");
    if (constants->n_swap && !params->classes)
        stk_remark(
            out,
            "classes %u and %u change places in mirror images; set classes, so that masks with other labels "
            "are noticed",
            constants->swap[0][0], constants->swap[0][1]);
}

size_t stoke_data_remarks(const stoke_dataset *dataset, const stoke_data_params *params, char *text,
                          size_t size)
{
    stk_remarks out = { 0 };
    stk_loader_config config;
    char values[256], cores[256];
    if (params->workers < 0 && stoke_machine_cores_remark(cores, sizeof cores)) stk_remark(&out, "%s", cores);
    if (!stk_loader_config_create(&config, dataset, params, NULL)) {
        on_pipeline(&out, &config, params);
        const looks seen = look_around(&config, params);
        on_crop(&out, &config, &seen);
        if (stoke_remark_on_values(params, seen.low, seen.high, values, sizeof values))
            stk_remark(&out, "%s", values);
    }
    stk_loader_config_destroy(&config);
    if (size) text[0] = 0;
    for (size_t i = 0; size && i < out.n; i++) stk_text_add(text, size, "", "%s\n", out.text[i]);
    const size_t count = out.n;
    stk_remarks_free(&out);
    return count;
}
