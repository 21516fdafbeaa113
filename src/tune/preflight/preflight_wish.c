/* SPDX-License-Identifier: Apache-2.0
 *
 * What a settings file asks for: ours with its own tables, a PyTorch trainer's by the names its dialect has
 * for things.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "src/base/error.h"
#include "src/base/options_private.h"
#include "src/base/terminal.h"
#include "src/settings/foreign.h"
#include "src/settings/values.h"
#include "src/tune/preflight/preflight.h"
#include <stoke/train.h>

/* ---- ours ---- */

static int64_t said(int64_t value)
{
    return value > 0 ? value : STK_UNSAID;
}

static void take_own(stk_run_wish *wish)
{
    const stoke_data_params *data = &wish->data;
    const stoke_train_params *train = &wish->train;
    wish->engine = STOKE_ENGINE_NATIVE;
    wish->dialect = stoke_dialect_name(STOKE_DIALECT_OWN);
    if (train->model)
        STK_SAY(wish->model, "%s", train->model);
    else if (!train->pretrained)
        STK_SAY(wish->model, "b0");
    STK_SAY(wish->model_said, "%.60s", train->model ? train->model : train->pretrained ? "" : "b0");
    wish->batch = said(data->batch);
    wish->height = said(data->size[0]);
    wish->width = said(data->size[1]);
    wish->classes = said(data->classes);
    wish->epochs = train->steps > 0 ? STK_UNSAID : said(train->epochs);
    wish->workers = data->workers;
    wish->prefetch = data->prefetch;
    wish->accumulate = train->accumulate;
    wish->drop_last = data->drop_last;
    wish->precision = train->precision;
    wish->optimizer = train->optimizer;
    wish->freeze_encoder = train->freeze_encoder;
    wish->average = train->average > 0;
    wish->has_data = data->data || data->images || data->list;
}

static void own_defaults(stk_run_wish *wish)
{
    wish->train = stoke_train_defaults();
    wish->data = stoke_data_defaults();
    wish->feed = stoke_feed_defaults();
    wish->data.batch = -1; /* `stoke train` chooses, unless told */
}

/* Every key of the file is one of ours, or it is not our file. yaml NULL: nothing but the defaults. */
static int read_own(stk_run_wish *wish, const stoke_yaml *yaml, stoke_error *err)
{
    own_defaults(wish);
    const stoke_option_group groups[] = { stoke_data_options(&wish->data), stoke_train_options(&wish->train),
                                          stoke_feed_options(&wish->feed) };
    stoke_config_use use = { .groups = groups, .n_groups = 3 };
    const int r = yaml ? stoke_config_apply(yaml, &use, &wish->data, &wish->storage, err) : STOKE_OK;
    if (!r) take_own(wish);
    return r;
}

/* ---- those of others ---- */

static int64_t whole(const char *text)
{
    char *end;
    const long long value = strtoll(text, &end, 10);
    return end == text || *end || value < 0 || value > INT32_MAX ? STK_UNSAID : value;
}

/* The text of a setting; NULL = not in the file. */
static int value_of(const stoke_yaml *yaml, const char *const *map, const char *setting, char room[256],
                    const char **text, stoke_error *err)
{
    uint32_t node;
    *text = NULL;
    const int r = stk_setting_node(yaml, stk_setting_named(setting), map, &node, err);
    if (!r && node != STK_YAML_NONE) *text = stk_value_text(yaml, node, room, 256);
    return r;
}

/* A whole number as it is meant: 8.0 is 8, of 16-32 the lower end. */
static int64_t number(const char *text)
{
    char meant[STK_MEANING], remark[160];
    const stk_meant how = stk_meaning(STK_READ_WHOLE, text, meant, remark);
    return how == STK_MEANT || how == STK_MEANT_ABOUT ? whole(meant) : STK_UNSAID;
}

/* "auto", "os.cpu_count() // 2": something is said, and only the trainer knows which number it is. */
static int is_unreadable(const char *text)
{
    char meant[STK_MEANING], remark[160];
    return stk_meaning(STK_READ_WHOLE, text, meant, remark) == STK_MEANT_UNKNOWN;
}

static void take_model(stk_run_wish *wish, const stoke_yaml *yaml, const char *const *map)
{
    uint32_t node;
    char room[64];
    const char *word = stk_model_said(yaml, map, &node);
    const int is_channels = node != STK_YAML_NONE && stk_is_called(yaml, node, "base_channels");
    const char *text = node == STK_YAML_NONE ? NULL : stk_value_text(yaml, node, room, sizeof room);
    if (word) STK_SAY(wish->model, "%s", word);
    if (text && !is_channels) STK_SAY(wish->model_said, "%.60s", text);
}

static void take_shape(stk_run_wish *wish, const stoke_yaml *yaml, const char *const *map)
{
    char room[256], meant[STK_MEANING], remark[160];
    unsigned high, wide;
    const char *text = stk_setting_text(yaml, "num_classes", map, room, sizeof room);
    if (text) wish->classes = said(number(text));
    text = stk_setting_text(yaml, "image_size", map, room, sizeof room);
    if (text && stk_meaning(STK_READ_SIZE, text, meant, remark) == STK_MEANT &&
        sscanf(meant, "%ux%u", &high, &wide) == 2) {
        wish->height = said(high);
        wish->width = said(wide);
    }
    text = stk_setting_text(yaml, "optimizer", map, room, sizeof room);
    if (text && stk_meaning(STK_READ_OPTIMIZER, text, meant, remark) != STK_MEANT_UNKNOWN)
        wish->optimizer = strcmp(meant, "sgd") ? STOKE_OPTIMIZER_ADAMW : STOKE_OPTIMIZER_SGD;
}

static void take_precision(stk_run_wish *wish, const stoke_yaml *yaml, const char *const *map)
{
    uint32_t node;
    const char *word = stk_precision_said(yaml, map, &node);
    if (!word || !*word) return;
    wish->mixed_precision = strcmp(word, "fp32") != 0;
    wish->precision = !strcmp(word, "bf16")   ? STOKE_PRECISION_BF16
                      : !strcmp(word, "fp16") ? STOKE_PRECISION_FP16
                                              : STOKE_PRECISION_FP32;
}

/* What lies where is read as training reads it. */
static int take_data(stk_run_wish *wish, const stoke_yaml *yaml, const char *const *map, stoke_error *err)
{
    stoke_data_params read = stoke_data_defaults();
    stoke_option_group group = stoke_data_options(&read);
    stoke_config_use use = { .groups = &group, .n_groups = 1, .map = map };
    const int r = stk_foreign_read(yaml, &use, &wish->storage, err);
    wish->data.data = read.data;
    wish->data.images = read.images;
    wish->data.masks = read.masks;
    wish->has_data = read.data || read.images;
    return r;
}

void stk_wish_network(stk_run_wish *wish, const stoke_yaml *yaml)
{
    *wish = (stk_run_wish){ .height = STK_UNSAID, .width = STK_UNSAID, .classes = STK_UNSAID };
    take_model(wish, yaml, NULL);
    take_shape(wish, yaml, NULL);
}

static int read_others(stk_run_wish *wish, const stoke_yaml *yaml, const char *const *map, stoke_error *err)
{
    const struct {
        const char *setting;
        int64_t *to;
        int is_truth;
        int told; /* and never changed here: several of its name are no reason to stop */
    } all[] = {
        { "batch_size", &wish->batch, 0, 0 },
        { "num_workers", &wish->workers, 0, 0 },
        { "prefetch_factor", &wish->prefetch, 0, 0 },
        { "epochs", &wish->epochs, 0, 0 },
        { "base_channels", &wish->base_channels, 0, 0 },
        { "num_blocks", &wish->num_blocks, 0, 0 },
        { "pin_memory", &wish->pin_memory, 1, 0 },
        { "persistent_workers", &wish->persistent_workers, 1, 0 },
        { "device_prefetch", &wish->prefetcher, 1, 0 },
        { "drop_last", &wish->drop_last, 1, 1 },
        { "accumulate", &wish->accumulate, 0, 1 },
        { "gpu_augmentation", &wish->gpu_augmentation, 1, 1 },
        { "log_every", &wish->log_every, 0, 1 },
    };
    char room[256];
    const char *text;
    wish->engine = STOKE_ENGINE_TORCH;
    wish->dialect = stoke_dialect_name(stoke_config_dialect(yaml));
    wish->data = stoke_data_defaults();
    wish->train = stoke_train_defaults();
    wish->precision = STOKE_PRECISION_FP32;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const int r = value_of(yaml, map, all[i].setting, room, &text, all[i].told ? NULL : err);
        if (r && !all[i].told) return r;
        if (text) *all[i].to = all[i].is_truth ? stk_truth(text) : number(text);
        if (text && all[i].to == &wish->workers && is_unreadable(text))
            STK_SAY(wish->workers_said, "%.60s", text);
    }
    if ((text = stk_setting_text(yaml, "augment", map, room, sizeof room)) && stk_truth(text) < 0)
        STK_SAY(wish->augment, "%.60s", text);
    take_precision(wish, yaml, map);
    take_model(wish, yaml, map);
    take_shape(wish, yaml, map);
    wish->train.precision = wish->precision;
    wish->train.optimizer = wish->optimizer;
    if (wish->accumulate > 0) wish->train.accumulate = wish->accumulate;
    return take_data(wish, yaml, map, err);
}

/* ---- both ---- */

int stk_wish_no_workers(const stk_run_wish *wish)
{
    return wish->workers < 1 && !*wish->workers_said;
}

const char *stk_wish_estimate(const stk_run_wish *wish, stoke_estimate_params *p)
{
    *p = stoke_estimate_defaults();
    if (!*wish->model) return "model";
    if (wish->batch < 1) return "batch";
    if (wish->height < 1 || wish->width < 1) return "size of pictures";
    p->model = wish->model;
    p->batch = (uint32_t)wish->batch;
    p->height = (uint32_t)wish->height;
    p->width = (uint32_t)wish->width;
    if (wish->classes > 0) p->classes = (uint32_t)wish->classes;
    if (wish->base_channels > 0) p->base_channels = (uint32_t)wish->base_channels;
    if (wish->num_blocks > 0) p->num_blocks = (uint32_t)wish->num_blocks;
    if (wish->engine == STOKE_ENGINE_NATIVE && wish->prefetch >= 0) p->prefetch = (uint32_t)wish->prefetch;
    p->precision = wish->precision;
    p->optimizer = wish->optimizer;
    p->freeze_encoder = wish->freeze_encoder;
    p->average = wish->average;
    return NULL;
}

/* What was said beside the file. */
static int take_params(stk_run_wish *wish, const stoke_preflight_params *p, stoke_error *err)
{
    const stoke_data_params *d = &wish->data;
    wish->ranks = p->ranks ? p->ranks : 1;
    const char *model = p->model ? stk_option_word("model", p->model) : NULL;
    if (model && stk_network_word(model) != model && strcmp(model, "smallnet") != 0)
        return stk_fail(err, STOKE_E_INVALID, "model '%.40s': the estimate knows b0 to b5 and smallnet",
                        p->model);
    if (model) STK_SAY(wish->model, "%s", model);
    if (p->size[0]) wish->height = p->size[0];
    if (p->size[1]) wish->width = p->size[1];
    if (p->classes) wish->classes = p->classes;
    if (p->ignore_index >= -1) wish->data.ignore_index = p->ignore_index;
    if (p->data) {
        wish->data.data = p->data;
        wish->data.images = wish->data.masks = wish->data.list = NULL;
        wish->has_data = 1;
    }
    const char *data = d->data ? d->data : d->images ? d->images : d->list ? d->list : "DIR";
    if (!p->config || !*stoke_text_word(p->config, wish->config, sizeof wish->config))
        STK_SAY(wish->config, "FILE");
    if (!*stoke_text_word(data, wish->data_name, sizeof wish->data_name)) STK_SAY(wish->data_name, "DIR");
    if (p->data) STK_SAY(wish->data_flag, " --data %s", wish->data_name);
    return STOKE_OK;
}

int stk_wish_read(stk_run_wish *wish, const stoke_preflight_params *p, stoke_error *err)
{
    stoke_yaml *yaml;
    stoke_error own = { 0 };
    *wish = (stk_run_wish){ .dialect = "n/a" };
    int64_t *const unsaid[] = { &wish->batch,           &wish->height,           &wish->width,
                                &wish->classes,         &wish->epochs,           &wish->base_channels,
                                &wish->num_blocks,      &wish->workers,          &wish->prefetch,
                                &wish->pin_memory,      &wish->drop_last,        &wish->persistent_workers,
                                &wish->mixed_precision, &wish->gpu_augmentation, &wish->prefetcher,
                                &wish->log_every,       &wish->accumulate };
    for (size_t i = 0; i < sizeof unsaid / sizeof *unsaid; i++) *unsaid[i] = STK_UNSAID;
    int r = p->config ? stoke_config_open(&yaml, p->config, err) : read_own(wish, NULL, err);
    if (r || !p->config) return r ? r : take_params(wish, p, err);
    int others = stk_is_foreign(yaml);
    if (!others && read_own(wish, yaml, &own) != STOKE_OK) {
        others = stoke_config_dialect(yaml) != STOKE_DIALECT_OWN;
        if (!others) r = stk_fail_again(err, own.code, own.message);
    }
    if (others) r = stk_yaml_check(yaml, err);
    if (others && !r) r = read_others(wish, yaml, p->map, err);
    stoke_yaml_close(&yaml);
    return r ? r : take_params(wish, p, err);
}

void stk_wish_free(stk_run_wish *wish)
{
    stoke_options_free_storage(&wish->storage);
}
