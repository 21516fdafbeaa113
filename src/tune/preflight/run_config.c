/* SPDX-License-Identifier: Apache-2.0
 *
 * What a settings file asks for: ours with its own tables, a PyTorch trainer's by the names its dialect has
 * for things.
 */
#include "src/tune/preflight/run_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "src/base/error.h"
#include "src/base/number.h"
#include "src/base/option_table.h"
#include "src/base/terminal.h"
#include "src/net/network.h"
#include "src/settings/read.h"
#include "src/settings/keys.h"
#include "src/source/pairs.h"
#include "src/tune/preflight/preflight.h"
#include <stoke/tools/data.h>
#include <stoke/tools/train.h>
#include <stoke/tools/upload.h>

/* ---- ours ---- */

static int64_t said(int64_t value)
{
    return value > 0 ? value : STK_UNSAID;
}

static void take_own(stk_run_config *config)
{
    const stoke_data_params *data = &config->data;
    const stoke_train_params *train = &config->train;
    config->engine = STOKE_ENGINE_NATIVE;
    config->dialect = stoke_dialect_name(STOKE_DIALECT_OWN);
    if (train->model)
        STK_SAY(config->model, "%s", train->model);
    else if (!train->pretrained)
        STK_SAY(config->model, data->task == STOKE_TASK_RESTORE || data->targets ? "resnet" : "b0");
    STK_SAY(config->model_said, "%.60s", train->model ? train->model : "");
    config->base_channels = said(train->base_channels);
    config->num_blocks = said(train->num_blocks);
    config->batch = said(data->batch);
    config->height = said(data->size[0]);
    config->width = said(data->size[1]);
    if (train->patch_size) config->height = config->width = said(train->patch_size);
    config->classes = said(data->classes);
    config->epochs = train->steps > 0 ? STK_UNSAID : said(train->epochs);
    config->workers = data->workers;
    config->prefetch = data->prefetch;
    config->accumulate = train->accumulate;
    config->drop_last = data->drop_last;
    config->has_data = data->data || data->images || data->list;
}

/* Every key of the file is one of ours, or it is not our file. yaml NULL: nothing but the defaults. */
static int read_own(stk_run_config *config, const stoke_yaml *yaml, stoke_error *err)
{
    config->train = stoke_train_defaults();
    config->data = stoke_data_defaults();
    config->upload = stoke_upload_defaults();
    config->data.batch = -1; /* `stoke train` chooses, unless told */
    const stoke_option_group groups[] = { stoke_data_options(&config->data),
                                          stoke_train_options(&config->train),
                                          stoke_upload_options(&config->upload) };
    stoke_config_use use = { .groups = groups, .n_groups = 3 };
    const int r = yaml ? stoke_config_apply(yaml, &use, &config->data, &config->storage, err) : STOKE_OK;
    if (!r) take_own(config);
    return r;
}

/* ---- those of others ---- */

/* A whole number as it is meant: 8.0 is 8, of 16-32 the lower end. */
static int64_t number(const char *text)
{
    char meant[STK_MEANING], remark[160];
    const stk_value_meant how = stk_meaning(STK_READ_WHOLE, text, meant, remark);
    if (how != STK_MEANT && how != STK_MEANT_ABOUT) return STK_UNSAID;
    char *end;
    const long long value = strtoll(meant, &end, 10);
    return end == meant || *end || value < 0 || value > INT32_MAX ? STK_UNSAID : value;
}

/* "auto", "os.cpu_count() // 2": something is said, and only the trainer knows which number it is. */
static int is_unreadable(const char *text)
{
    char meant[STK_MEANING], remark[160];
    return stk_meaning(STK_READ_WHOLE, text, meant, remark) == STK_MEANT_UNKNOWN;
}

/* ---- what is not said ---- */

/* What counts where the file does not say it; NULL: that is not known. */
static const char *take_default(stk_run_config *config, const char *setting)
{
    const char *text = stk_setting_default(config->framework, setting);
    if (!text || config->n_by_default == STK_DEFAULTS) return NULL;
    config->by_default[config->n_by_default++] = setting;
    return text;
}

const char *stk_run_config_default(const stk_run_config *config, const char *setting)
{
    for (size_t i = 0; i < config->n_by_default; i++)
        if (!strcmp(config->by_default[i], setting)) return stk_whose_default(config->framework, setting);
    return NULL;
}

const char *stk_run_config_switch(const stk_run_config *config, const char *setting, int64_t value)
{
    if (value == STK_UNSAID) return "not said, so off";
    if (stk_run_config_default(config, setting)) return value == 1 ? "not said, so on" : "not said, so off";
    return value == 1 ? "on" : "off";
}

/* ---- of others, by their names ---- */

static void take_model(stk_run_config *config, const stoke_yaml *yaml, const char *const *map)
{
    uint32_t node;
    char room[64];
    const char *word = stk_model_said(yaml, map, &node);
    const int is_channels = node != STK_YAML_NONE && stk_is_called(yaml, node, "base_channels");
    const char *text = node == STK_YAML_NONE ? NULL : stk_value_text(yaml, node, room, sizeof room);
    if (word) STK_SAY(config->model, "%s", word);
    if (text && !is_channels) STK_SAY(config->model_said, "%.60s", text);
}

static void take_shape(stk_run_config *config, const stoke_yaml *yaml, const char *const *map)
{
    char room[256], meant[STK_MEANING], remark[160];
    unsigned high, wide;
    const char *text = stk_setting_text(yaml, "num_classes", map, room, sizeof room);
    if (text) config->classes = said(number(text));
    text = stk_setting_text(yaml, "image_size", map, room, sizeof room);
    if (text && stk_meaning(STK_READ_SIZE, text, meant, remark) == STK_MEANT &&
        sscanf(meant, "%ux%u", &high, &wide) == 2) {
        config->height = said(high);
        config->width = said(wide);
    }
    text = stk_setting_text(yaml, "optimizer", map, room, sizeof room);
    if (text && stk_meaning(STK_READ_OPTIMIZER, text, meant, remark) != STK_MEANT_UNKNOWN)
        config->train.optimizer = strcmp(meant, "sgd") ? STOKE_OPTIMIZER_ADAMW : STOKE_OPTIMIZER_SGD;
}

static void take_precision(stk_run_config *config, const stoke_yaml *yaml, const char *const *map)
{
    uint32_t node;
    const char *word = stk_precision_said(yaml, map, &node);
    if (word && !*word && take_default(config, "mixed_precision")) word = "fp32";
    if (!word || !*word) return;
    config->mixed_precision = strcmp(word, "fp32") != 0;
    config->train.precision = !strcmp(word, "bf16")   ? STOKE_PRECISION_BF16
                              : !strcmp(word, "fp16") ? STOKE_PRECISION_FP16
                                                      : STOKE_PRECISION_FP32;
}

int64_t stk_cards_asked(const stoke_yaml *yaml, char said[32])
{
    const char *text;
    char room[64];
    uint32_t node;
    int64_t n = 0;
    *said = 0;
    if (stk_setting_node(yaml, stk_setting_named("devices"), NULL, &node, NULL) || node == STK_YAML_NONE ||
        !(text = stk_value_text(yaml, node, room, sizeof room)))
        return 0;
    snprintf(said, 32, "%.31s", text);
    if (!strcmp(text, "-1") || !strcasecmp(text, "auto") || !strcasecmp(text, "all")) return -1;
    if (yaml->nodes[node].kind == STK_YAML_SEQUENCE || strchr(text, ',')) { /* a list, or "0,1" */
        for (n = 1; (text = strchr(text, ',')); text++) n++;
        return n;
    }
    return stk_parse_int(text, &n) && n > 0 && n <= 1024 ? n : 0;
}

static int read_others(stk_run_config *config, const stoke_yaml *yaml, const char *const *map,
                       stoke_error *err)
{
    const struct {
        const char *setting;
        int64_t *to;
        int is_truth;
        int told; /* and never changed here: several of its name are no reason to stop */
    } all[] = {
        { "batch_size", &config->batch, 0, 0 },
        { "num_workers", &config->workers, 0, 0 },
        { "prefetch_factor", &config->prefetch, 0, 0 },
        { "epochs", &config->epochs, 0, 0 },
        { "base_channels", &config->base_channels, 0, 0 },
        { "num_blocks", &config->num_blocks, 0, 0 },
        { "pin_memory", &config->pin_memory, 1, 0 },
        { "persistent_workers", &config->persistent_workers, 1, 0 },
        { "device_prefetch", &config->prefetcher, 1, 0 },
        { "drop_last", &config->drop_last, 1, 1 },
        { "accumulate", &config->accumulate, 0, 1 },
        { "gpu_augmentation", &config->gpu_augmentation, 1, 1 },
        { "log_every", &config->log_every, 0, 1 },
    };
    char room[256];
    const char *text;
    uint32_t node;
    config->engine = STOKE_ENGINE_TORCH;
    config->dialect = stoke_dialect_name(stoke_config_dialect(yaml));
    config->framework = stoke_config_framework(yaml);
    config->data = stoke_data_defaults();
    config->train = stoke_train_defaults();
    config->train.precision = STOKE_PRECISION_FP32;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const int r =
            stk_setting_node(yaml, stk_setting_named(all[i].setting), map, &node, all[i].told ? NULL : err);
        if (r && !all[i].told) return r;
        text = r || node == STK_YAML_NONE ? NULL : stk_value_text(yaml, node, room, sizeof room);
        if (text && all[i].to == &config->workers && is_unreadable(text))
            STK_SAY(config->workers_said, "%.60s", text);
        if (text && all[i].to == &config->batch && is_unreadable(text))
            STK_SAY(config->batch_said, "%.60s", text);
        if (!text) text = take_default(config, all[i].setting);
        if (text) *all[i].to = all[i].is_truth ? stk_truth(text) : number(text);
    }
    if ((text = stk_setting_text(yaml, "augment", map, room, sizeof room)) && stk_truth(text) < 0)
        STK_SAY(config->augment, "%.60s", text);
    text = stk_setting_text(yaml, "use_perceptual", map, room, sizeof room);
    config->perceptual = text && stk_truth(text) != 0; /* on, or the file of its weights */
    config->cards = stk_cards_asked(yaml, config->devices);
    take_precision(config, yaml, map);
    take_model(config, yaml, map);
    take_shape(config, yaml, map);
    if (config->accumulate > 0) config->train.accumulate = config->accumulate;
    /* What lies where is read as training reads it. */
    stoke_data_params read = stoke_data_defaults();
    stoke_option_group group = stoke_data_options(&read);
    stoke_train_params training = stoke_train_defaults();
    stoke_upload_params upload = stoke_upload_defaults();
    const stoke_option_group known[] = { stoke_train_options(&training), stoke_upload_options(&upload) };
    stoke_config_use use = { .groups = &group, .n_groups = 1, .known = known, .n_known = 2, .map = map };
    const int r = stk_foreign_read(yaml, &use, &config->storage, err);
    config->data.data = read.data;
    config->data.images = read.images;
    config->data.masks = read.masks;
    config->data.targets = read.targets;
    config->data.scale = read.scale;
    config->has_data = read.data || read.images;
    return r;
}

/* ---- both ---- */

int stk_run_config_no_workers(const stk_run_config *config)
{
    return config->workers < 1 && !*config->workers_said;
}

/* Who says a number of classes labels pixels. */
int stk_run_config_task(const stk_run_config *config)
{
    if (config->data.task != STOKE_TASK_AUTO) return config->data.task;
    return config->classes > 0 ? STOKE_TASK_SEGMENT : STOKE_TASK_AUTO;
}

unsigned stk_run_config_take(stoke_estimate_params *p, const stk_run_config *config)
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
    p->precision = config->train.precision;
    p->optimizer = config->train.optimizer;
    p->freeze_encoder = config->train.freeze_encoder;
    p->average = config->train.average > 0;
    p->task = stk_run_config_task(config);
    if (config->data.scale > 1) p->scale = (uint32_t)config->data.scale;
    if (config->base_channels > 0) p->base_channels = (uint32_t)config->base_channels;
    if (config->num_blocks > 0) p->num_blocks = (uint32_t)config->num_blocks;
    return assumed;
}

const char *stk_run_config_estimate(const stk_run_config *config, stoke_estimate_params *p)
{
    *p = stoke_estimate_defaults();
    if (!*config->model) return "model";
    if (config->batch < 1) return "batch";
    if (config->height < 1 || config->width < 1) return "size of pictures";
    p->model = config->model;
    stk_run_config_take(p, config);
    if (config->engine == STOKE_ENGINE_NATIVE && config->prefetch >= 0)
        p->prefetch = (uint32_t)config->prefetch;
    return NULL;
}

/* What was said beside the file. */
static int take_params(stk_run_config *config, const stoke_preflight_params *p, stoke_error *err)
{
    const stoke_data_params *d = &config->data;
    config->ranks = p->ranks ? p->ranks : 1;
    const char *model = p->model ? stk_option_word("model", p->model) : NULL;
    stk_network_config network;
    if (model && stk_network_find(&network, model, 2, NULL))
        return stk_fail(err, STOKE_E_INVALID, "model '%.40s': the estimate knows b0 to b5, resnet and unet",
                        p->model);
    if (model) STK_SAY(config->model, "%s", model);
    if (model && config->engine == STOKE_ENGINE_NATIVE) config->train.model = config->model;
    if (p->size[0]) config->height = p->size[0];
    if (p->size[1]) config->width = p->size[1];
    if (p->classes) config->classes = p->classes;
    if (p->ignore_index >= -1) config->data.ignore_index = p->ignore_index;
    if (p->data) {
        config->data.data = p->data;
        config->data.images = config->data.masks = config->data.targets = config->data.list = NULL;
        config->has_data = 1;
    }
    const char *data = d->data ? d->data : d->images ? d->images : d->list ? d->list : "DIR";
    if (!p->config || !*stoke_text_word(p->config, config->config, sizeof config->config))
        STK_SAY(config->config, "FILE");
    if (!*stoke_text_word(data, config->data_name, sizeof config->data_name))
        STK_SAY(config->data_name, "DIR");
    if (p->data) STK_SAY(config->data_flag, " --data %s", config->data_name);
    return STOKE_OK;
}

int stk_run_config_read(stk_run_config *config, const stoke_preflight_params *p, stoke_error *err)
{
    stoke_yaml *yaml;
    stoke_error own = { 0 };
    *config = (stk_run_config){ .dialect = "n/a" };
    int64_t *const unsaid[] = {
        &config->batch,           &config->height,           &config->width,      &config->classes,
        &config->epochs,          &config->base_channels,    &config->num_blocks, &config->workers,
        &config->prefetch,        &config->pin_memory,       &config->drop_last,  &config->persistent_workers,
        &config->mixed_precision, &config->gpu_augmentation, &config->prefetcher, &config->log_every,
        &config->accumulate
    };
    for (size_t i = 0; i < sizeof unsaid / sizeof *unsaid; i++) *unsaid[i] = STK_UNSAID;
    int r = p->config ? stoke_config_open(&yaml, p->config, err) : read_own(config, NULL, err);
    if (r || !p->config) return r ? r : take_params(config, p, err);
    int others = stk_is_foreign(yaml);
    if (!others && read_own(config, yaml, &own) != STOKE_OK) {
        others = stoke_config_dialect(yaml) != STOKE_DIALECT_OWN;
        if (!others) r = stk_fail_again(err, own.code, own.message);
    }
    if (others) r = stk_yaml_check(yaml, err);
    if (others && !r) r = read_others(config, yaml, p->map, err);
    stoke_yaml_close(&yaml);
    return r ? r : take_params(config, p, err);
}

void stk_run_config_free(stk_run_config *config)
{
    stoke_options_free_storage(&config->storage);
}

/* The size of pictures of a file that does not say it: that of the set it names, by headers. */

/* Headers that are read, spread over the set: 10 us each, so no set makes a person wait. */
enum { HEADERS = 64, HEADER_FILE = 64 << 20 };

static void look(stk_run_config *config, const stoke_dataset *dataset, stoke_decoder *decoder)
{
    const uint64_t n = stoke_dataset_count(dataset), looked = n < HEADERS ? n : HEADERS;
    stk_mem_buffer buffer = { 0 };
    stoke_image_info info;
    uint32_t width, height;
    config->height = config->width = 0;
    for (uint64_t i = 0; i < looked; i++) {
        const stoke_sample sample = stoke_dataset_sample(dataset, i * n / looked);
        if (!stk_header_read(decoder, &buffer, &sample.image, HEADER_FILE, &info)) continue;
        stk_size_shown(&info, STOKE_ORIENTATION_IGNORE, &width, &height);
        if ((int64_t)width * height <= config->height * config->width) continue;
        config->height = height;
        config->width = width;
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

/* ---- what a settings file says to the estimate of memory ---- */

int stoke_estimate_config(stoke_estimate_params *p, const char *path, char model[32], unsigned *assumed,
                          stoke_error *err)
{
    stoke_preflight_params ask = stoke_preflight_defaults();
    stk_run_config config;
    ask.config = path;
    int r = stk_run_config_read(&config, &ask, err);
    if (!r && !p->model && !*config.model && *config.model_said)
        r = stk_fail(err, STOKE_E_UNSUPPORTED,
                     "%.256s: %s is no network that the estimate knows: b0 to b5, resnet and unet", path,
                     config.model_said);
    if (!r) {
        /* Our own file leaves it out for b0. */
        const int said = config.engine == STOKE_ENGINE_NATIVE ? config.train.model || config.train.pretrained
                                                              : *config.model != 0;
        const int named = p->model || said;
        snprintf(model, 32, "%s", p->model ? p->model : *config.model ? config.model : "b0");
        p->model = model;
        stk_run_config_see_size(&config);
        *assumed = stk_run_config_take(p, &config) | (named ? 0 : STOKE_ASSUMED_MODEL);
    }
    stk_run_config_free(&config);
    return r;
}
