/* SPDX-License-Identifier: Apache-2.0
 *
 * From a settings file to a loop that can be run: who makes batches, how they cross, who waits for whom. What
 * the file does not say has the default of whoever reads it, PyTorch or `stoke train`, and every such guess
 * is a remark.
 */
#include <stdio.h>
#include <string.h>

#include <stoke/augment.h>
#include <stoke/tools/diagnose.h>
#include <stoke/tools/loader.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/base/remarks.h"
#include "src/tune/optimize/optimize.h"

typedef struct run_plan {
    stoke_run_plan out; /* first: what others see of it */
    stk_run_config config;
    char folder[4096]; /* the caller's `data` */
    stk_remarks remarks;
} run_plan;

/* ---- a PyTorch trainer's ---- */

/* Where the file does not say a setting, who does. */
static void say_default(run_plan *plan, const char *setting, const char *value)
{
    const char *whose = stk_run_config_default(&plan->config, setting);
    if (whose) stk_remark(&plan->remarks, "%s is not in the file: %s, %s default", setting, value, whose);
}

static void take_their_workers(run_plan *plan)
{
    const stk_run_config *config = &plan->config;
    stoke_setup *setup = &plan->out.setup;
    const int64_t workers = config->workers < 0 ? 0 : config->workers;
    const int64_t factor = config->prefetch > 0 ? config->prefetch : 1;
    const int64_t ahead = workers * factor;
    if (*config->workers_said)
        stk_remark(&plan->remarks,
                   "num_workers is %s, which is no number that can be read: 0 is measured; --workers sets it",
                   config->workers_said);
    say_default(plan, "num_workers", "0");
    if (workers) say_default(plan, "prefetch_factor", "2");
    if (workers) say_default(plan, "persistent_workers", "off");
    setup->workers = workers > 1024 ? 1024 : (uint32_t)workers;
    setup->prefetch = ahead < 1 ? 1 : ahead > 1024 ? 1024 : (uint32_t)ahead;
    setup->persistent = !workers || config->persistent_workers == 1; /* without workers none are started */
}

static void take_their_copies(run_plan *plan)
{
    const stk_run_config *config = &plan->config;
    stoke_setup *setup = &plan->out.setup;
    const int ahead = config->prefetcher == 1; /* which needs pinned memory, and makes it */
    setup->transfer = ahead                     ? STOKE_TRANSFER_STREAM
                      : config->pin_memory == 1 ? STOKE_TRANSFER_PINNED
                                                : STOKE_TRANSFER_PAGEABLE;
    if (!ahead) say_default(plan, "pin_memory", config->pin_memory == 1 ? "on" : "off");
    if (!ahead)
        stk_remark(
            &plan->remarks,
            "nothing in the file copies the next batch while the card computes: copies are taken to run on "
            "the computing stream, with or without non_blocking");
}

static void take_their_pictures(run_plan *plan)
{
    const stk_run_config *config = &plan->config;
    stoke_data_params *data = &plan->out.data;
    stoke_preset_info preset;
    int is_preset = 0;
    for (size_t i = 0; !is_preset && stoke_preset_at(i, &preset); i++)
        is_preset = !strcmp(preset.name, config->augment);
    data->normalize = STOKE_NORMALIZE_IMAGENET;
    data->quarantine = ""; /* a file nobody asked for */
    data->augment = "standard";
    if (is_preset)
        data->augment = config->augment;
    else if (*config->augment)
        stk_remark(
            &plan->remarks,
            "augmentation '%.60s' is no preset of ours: \"standard\" is measured; --augment names another",
            config->augment);
    else
        stk_remark(
            &plan->remarks,
            "the file does not say how samples are augmented: \"standard\" is measured; --augment names "
            "another");
    data->drop_last = config->drop_last == 1;
    if (config->batch > 0) data->batch = config->batch;
    if (config->batch < 1) stk_remark(&plan->remarks, "batch_size is not in the file: %d", (int)data->batch);
    say_default(plan, "batch_size", "8");
    if (config->height > 0 && config->width > 0) {
        data->size[0] = (uint32_t)config->height;
        data->size[1] = (uint32_t)config->width;
    } else {
        stk_remark(&plan->remarks,
                   "the size of a picture is not in the file: that of the first sample; --size sets it");
    }
    if (config->classes > 0 && config->classes <= 65536) data->classes = config->classes;
}

static void take_theirs(run_plan *plan)
{
    const stk_run_config *config = &plan->config;
    stoke_setup *setup = &plan->out.setup;
    stk_remark(&plan->remarks,
               "the loop is PyTorch's, the data path that is measured is stoke's: its threads make a batch "
               "together, and are started faster than PyTorch's processes");
    take_their_workers(plan);
    take_their_copies(plan);
    setup->placement = config->gpu_augmentation == 1 ? STOKE_PLACEMENT_DEVICE : STOKE_PLACEMENT_HOST;
    setup->sync = config->log_every == 1;
    if (config->log_every == STK_UNSAID)
        stk_remark(
            &plan->remarks,
            "how often the loop logs is not in the file: it is taken not to wait for every step; --sync "
            "if it prints the loss each time");
    take_their_pictures(plan);
}

/* ---- ours ---- */

/* Whether a key of that name has a value anywhere in the file. */
static int names(const stoke_yaml *yaml, const char *name)
{
    const char *path;
    stoke_yaml_value value;
    for (size_t i = 0; stoke_yaml_at(yaml, i, &path, &value); i++)
        if (!strcmp(stk_last_key(path), name)) return 1;
    return 0;
}

static int take_own(run_plan *plan, const char *config, stoke_error *err)
{
    const stoke_upload_params *upload = &plan->config.upload;
    stoke_setup *setup = &plan->out.setup;
    stoke_data_params *data = &plan->out.data;
    stoke_yaml *yaml;
    const int r = stoke_yaml_open_checked(&yaml, config, err);
    if (r) return r;
    if (data->batch < 1) {
        data->batch = stoke_data_defaults().batch;
        stk_remark(&plan->remarks, "batch is auto, which training settles: %d is measured; --batch sets it",
                   (int)data->batch);
    }
    setup->workers = stoke_data_workers(data);
    if (data->workers < 0) stk_remark(&plan->remarks, "workers is auto: %u here", setup->workers);
    setup->prefetch = (uint32_t)data->prefetch;
    setup->depth = (uint32_t)upload->depth;
    setup->transfer = upload->transfer;
    /* auto would try both first, which the diagnosis does too, and tells. */
    setup->placement =
        upload->placement == STOKE_PLACEMENT_DEVICE ? STOKE_PLACEMENT_DEVICE : STOKE_PLACEMENT_HOST;
    setup->persistent = 1;
    setup->sync = 0;
    /* What `stoke train` has otherwise than the table of the data path (cli/lib/settings.c). */
    if (!names(yaml, "augment") && !strcmp(data->augment, "none")) data->augment = "standard";
    if (!names(yaml, "normalize")) data->normalize = STOKE_NORMALIZE_IMAGENET;
    stoke_yaml_close(&yaml);
    return STOKE_OK;
}

/* ---- the whole ---- */

static int read_plan(run_plan *plan, const char *config, const char *data, const char *const *map,
                     stoke_error *err)
{
    stoke_preflight_params params = stoke_preflight_defaults();
    params.config = config;
    params.map = map;
    if (data) {
        if (strlen(data) >= sizeof plan->folder)
            return stk_fail(err, STOKE_E_LIMIT, "%.80s...: the path of the data is too long", data);
        strcpy(plan->folder, data);
        params.data = plan->folder;
    }
    int r = stk_run_config_read(&plan->config, &params, err);
    if (r) return r;
    plan->out.data = plan->config.data;
    plan->out.setup = stoke_setup_defaults();
    plan->out.setup.by_batch = 0; /* whoever's loop it is: our loader makes the batches of the run */
    if (plan->config.engine == STOKE_ENGINE_NATIVE)
        r = take_own(plan, config, err);
    else
        take_theirs(plan);
    plan->out.setup.batch = (uint32_t)plan->out.data.batch;
    plan->out.data.workers = plan->out.setup.workers;
    plan->out.data.prefetch = plan->out.setup.prefetch;
    plan->out.model = *plan->config.model ? plan->config.model : NULL;
    if (plan->config.base_channels > 0) plan->out.base_channels = (uint32_t)plan->config.base_channels;
    if (plan->config.num_blocks > 0) plan->out.num_blocks = (uint32_t)plan->config.num_blocks;
    plan->out.dialect = plan->config.dialect;
    return r;
}

int stoke_run_plan_read(stoke_run_plan **out, const char *config, const char *data, const char *const *map,
                        stoke_error *err)
{
    *out = NULL;
    if (!config || !*config) return stk_fail(err, STOKE_E_INVALID, "no settings file is named");
    run_plan *plan = stk_calloc(1, sizeof *plan);
    if (!plan) return stk_fail(err, STOKE_E_NOMEM, "no memory for the plan of a run");
    *out = &plan->out;
    const int r = read_plan(plan, config, data, map, err);
    if (r) stoke_run_plan_free(out);
    return r;
}

void stoke_run_plan_free(stoke_run_plan **out)
{
    if (!out || !*out) return;
    run_plan *plan = (run_plan *)*out;
    stk_run_config_free(&plan->config);
    stk_remarks_free(&plan->remarks);
    stk_free(plan);
    *out = NULL;
}

const char *stoke_run_plan_remark(const stoke_run_plan *plan, size_t index)
{
    return stk_remark_at(&((const run_plan *)plan)->remarks, index);
}
