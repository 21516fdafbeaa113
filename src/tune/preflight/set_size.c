/* SPDX-License-Identifier: Apache-2.0
 *
 * The size of pictures of a file that does not say it: that of the set it names, by headers.
 */
#include "src/base/file.h"
#include "src/source/pairs.h"
#include "src/tune/preflight/run_config.h"

/* Headers that are read, spread over the set: 10 us each, so no set makes a person wait. */
enum { HEADERS = 64, HEADER_FILE = 64 << 20 };

static void widen(stk_run_config *config, const stoke_image_info *info)
{
    uint32_t width, height;
    stk_size_shown(info, STOKE_ORIENTATION_IGNORE, &width, &height);
    if ((int64_t)width * height <= config->height * config->width) return;
    config->height = height;
    config->width = width;
}

static void look(stk_run_config *config, const stoke_dataset *dataset, stoke_decoder *decoder)
{
    const uint64_t n = stoke_dataset_count(dataset), looked = n < HEADERS ? n : HEADERS;
    stk_mem_buffer buffer = { 0 };
    stoke_image_info info;
    config->height = config->width = 0;
    for (uint64_t i = 0; i < looked; i++) {
        const stoke_sample sample = stoke_dataset_sample(dataset, i * n / looked);
        if (stk_header_read(decoder, &buffer, &sample.image, HEADER_FILE, &info)) widen(config, &info);
    }
    stk_buffer_free(&buffer);
    config->size_seen = config->height > 0;
    if (!config->size_seen) config->height = config->width = STK_UNSAID;
}

void stk_run_config_see_size(stk_run_config *config)
{
    stoke_dataset *dataset = NULL;
    stoke_decoder *decoder = NULL;
    if (config->engine != STOKE_ENGINE_TORCH || config->height > 0 || !config->has_data) return;
    if (!stoke_dataset_open(&dataset, &config->data, NULL) && !stoke_decoder_create(&decoder, NULL))
        look(config, dataset, decoder);
    stoke_decoder_destroy(&decoder);
    stoke_dataset_close(&dataset);
}
