/* SPDX-License-Identifier: Apache-2.0
 *
 * What a settings file says to the estimate of memory.
 */
#include <stdio.h>
#include <string.h>

#include "src/base/error.h"
#include "src/tune/preflight/preflight.h"

static unsigned take(stoke_estimate_params *p, const stk_run_config *config)
{
    unsigned assumed = 0;
    if (config->batch > 0)
        p->batch = (uint32_t)config->batch;
    else
        assumed |= STOKE_ASSUMED_BATCH;
    if (config->height > 0 && config->width > 0)
        p->height = (uint32_t)config->height, p->width = (uint32_t)config->width;
    else
        assumed |= STOKE_ASSUMED_SIZE;
    if (config->classes < 1) assumed |= STOKE_ASSUMED_CLASSES;
    p->classes = config->classes > 0 ? (uint32_t)config->classes : stoke_estimate_classes(p->model);
    if (config->engine == STOKE_ENGINE_TORCH && stk_run_config_default(config, "mixed_precision"))
        assumed |= STOKE_ASSUMED_PRECISION;
    p->precision = config->precision;
    p->optimizer = config->optimizer;
    p->freeze_encoder = config->freeze_encoder;
    p->average = config->average;
    if (config->base_channels > 0) p->base_channels = (uint32_t)config->base_channels;
    if (config->num_blocks > 0) p->num_blocks = (uint32_t)config->num_blocks;
    return assumed;
}

int stoke_estimate_config(stoke_estimate_params *p, const char *path, char model[32], unsigned *assumed,
                          stoke_error *err)
{
    stoke_preflight_params ask = stoke_preflight_defaults();
    stk_run_config config;
    ask.config = path;
    int r = stk_run_config_read(&config, &ask, err);
    if (!r && !p->model && !*config.model && *config.model_said)
        r = stk_fail(err, STOKE_E_UNSUPPORTED,
                     "%.256s: %s is no network that the estimate knows: b0 to b5 and smallnet", path,
                     config.model_said);
    if (!r) {
        /* Our own file leaves it out for b0. */
        const int said = config.engine == STOKE_ENGINE_NATIVE ? config.train.model || config.train.pretrained
                                                              : *config.model != 0;
        const int named = p->model || said;
        snprintf(model, 32, "%s", p->model ? p->model : *config.model ? config.model : "b0");
        p->model = model;
        stk_run_config_see_size(&config);
        *assumed = take(p, &config) | (named ? 0 : STOKE_ASSUMED_MODEL);
    }
    stk_run_config_free(&config);
    return r;
}
