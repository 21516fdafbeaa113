/* SPDX-License-Identifier: Apache-2.0
 *
 * What a settings file asks for: ours with its own tables, a PyTorch trainer's by the names its dialect has
 * for things.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "src/base/error.h"
#include "src/tune/preflight/preflight.h"
#include "src/tune/yaml/yaml_tree.h"
#include <stoke/splice.h>
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

/* Every key of the file is one of ours, or it is not our file. */
static int read_own(stk_run_wish *wish, const char *path, stoke_error *err)
{
    wish->train = stoke_train_defaults();
    wish->data = stoke_data_defaults();
    wish->feed = stoke_feed_defaults();
    wish->data.batch = -1; /* `stoke train` chooses, unless told */
    const stoke_option_group groups[] = { stoke_data_options(&wish->data), stoke_train_options(&wish->train),
                                          stoke_feed_options(&wish->feed) };
    const int r =
        path ? stoke_settings_load_yaml(groups, 3, &wish->data, path, &wish->storage, err) : STOKE_OK;
    if (!r) take_own(wish);
    return r;
}

/* ---- those of others ---- */

static int one_of(const char *word, const char *const *words)
{
    for (; *words; words++)
        if (!strcasecmp(word, *words)) return 1;
    return 0;
}

static int64_t truth(const char *text)
{
    static const char *const yes[] = { "true", "yes", "on", "1", NULL };
    static const char *const no[] = { "false", "no", "off", "0", "none", "null", "~", "", NULL };
    return one_of(text, yes) ? 1 : one_of(text, no) ? 0 : STK_UNSAID;
}

static int64_t whole(const char *text)
{
    char *end;
    const long long value = strtoll(text, &end, 10);
    return end == text || *end || value < 0 || value > INT32_MAX ? STK_UNSAID : value;
}

/* "288", "288x320", "(288, 320)". */
static void pair(const char *text, int64_t *height, int64_t *width)
{
    int high, wide, end = 0;
    *height = *width = whole(text);
    if (*height != STK_UNSAID) return;
    text += strspn(text, "([ ");
    if (sscanf(text, "%6d%*1[x,]%6d%n", &high, &wide, &end) == 2 && end &&
        !text[end + (int)strspn(text + end, ")] ")]) {
        *height = said(high);
        *width = said(wide);
    }
}

/* The value of a setting that config_keys.c knows; NULL = not in the file. */
static int value_of(const stoke_yaml *yaml, const char *const *map, const char *setting, const char **text,
                    stoke_error *err)
{
    const char *path;
    int exists;
    stoke_yaml_value value;
    *text = NULL;
    const int r = stoke_config_find(yaml, setting, map, &path, &exists, err);
    if (!r && exists && stoke_yaml_get(yaml, path, &value)) *text = value.text;
    return r;
}

/* Below a section of evaluation, which has the same names. */
static int is_of_evaluation(const char *path)
{
    static const char *const others[] = { "val", "test", "eval", "infer", "predict" };
    for (const char *key = path; strchr(key, '.'); key = strchr(key, '.') + 1)
        for (size_t i = 0; i < sizeof others / sizeof *others; i++)
            if (!strncasecmp(key, others[i], strlen(others[i]))) return 1;
    return 0;
}

/* A key may stand there without a value: `root: ~`. */
static int has_value(const char *text)
{
    static const char *const none[] = { "", "~", "null", "none", NULL };
    return text && !one_of(text, none);
}

/* What is read but never changed, and so not in config_keys.c: the first of the names that ends a path. A
 * name with a dot must be the whole path. */
static const char *value_named(const stoke_yaml *yaml, const char *const *names)
{
    const char *path;
    stoke_yaml_value value;
    for (; *names; names++)
        for (size_t i = 0; stoke_yaml_at(yaml, i, &path, &value); i++) {
            const char *dot = strrchr(path, '.');
            const char *key = strchr(*names, '.') || !dot ? path : dot + 1;
            if (!strcasecmp(key, *names) && has_value(value.text) && !is_of_evaluation(path))
                return value.text;
        }
    return NULL;
}

/* b0 .. b5 within "nvidia/segformer-b4-finetuned", "mit_b2", "MiT-B5", "b0". */
static void find_variant(char model[32], const char *text)
{
    for (const char *p = text; *p; p++) {
        const int begins = p == text || !isalnum((unsigned char)p[-1]);
        if (begins && (*p == 'b' || *p == 'B') && p[1] >= '0' && p[1] <= '5' &&
            !isalnum((unsigned char)p[2])) {
            snprintf(model, 32, "b%c", p[1]);
            return;
        }
    }
}

/* Of several that may name it, `pretrained: true` say, the one that does. */
static void take_model(stk_run_wish *wish, const stoke_yaml *yaml)
{
    static const char *const models[] = { "model_name",   "backbone",   "variant",    "encoder",
                                          "encoder_name", "model_type", "model.name", "model.type",
                                          "arch",         "model",      "pretrained", "pretrained_model" };
    for (size_t i = 0; !*wish->model && i < sizeof models / sizeof *models; i++) {
        const char *const name[] = { models[i], NULL }, *text = value_named(yaml, name);
        if (!text) continue;
        find_variant(wish->model, text);
        if (*wish->model || (!*wish->model_said && truth(text) == STK_UNSAID))
            STK_SAY(wish->model_said, "%.60s", text);
    }
    if (!*wish->model && wish->base_channels > 0) STK_SAY(wish->model, "smallnet");
}

/* The same as a list, [288, 320], which is no scalar. */
static void pair_listed(const stoke_yaml *yaml, const char *const *names, int64_t *height, int64_t *width)
{
    for (size_t i = 0; i < yaml->n_nodes; i++) {
        const stk_yaml_node *list = &yaml->nodes[i];
        if (list->kind != STK_YAML_SEQUENCE || list->children != 2 || list->key == STK_YAML_NONE) continue;
        const stk_yaml_node *a = &yaml->nodes[list->first], *key = &yaml->nodes[list->key];
        const stk_yaml_node *b = &yaml->nodes[a->next];
        if (a->kind != STK_YAML_SCALAR || b->kind != STK_YAML_SCALAR || !key->text ||
            !one_of(key->text, names) || (list->path && is_of_evaluation(list->path)))
            continue;
        *height = said(whole(a->text));
        *width = said(whole(b->text));
        return;
    }
}

static void take_shape(stk_run_wish *wish, const stoke_yaml *yaml)
{
    static const char *const classes[] = { "num_classes", "n_classes", "classes", "num_labels", NULL };
    static const char *const sizes[] = { "image_size", "img_size", "input_size", "crop_size",
                                         "resize",     "size",     "patch_size", NULL };
    static const char *const optimizers[] = { "optimizer", "optim", "optimizer.name", "optimizer.type",
                                              NULL };
    const char *text;
    if ((text = value_named(yaml, classes))) wish->classes = said(whole(text));
    if ((text = value_named(yaml, sizes)))
        pair(text, &wish->height, &wish->width);
    else
        pair_listed(yaml, sizes, &wish->height, &wish->width);
    if ((text = value_named(yaml, optimizers)))
        wish->optimizer = strcasecmp(text, "sgd") ? STOKE_OPTIMIZER_ADAMW : STOKE_OPTIMIZER_SGD;
}

/* on, off, or the type as Lightning and Accelerate have it: bf16-mixed, fp16. PyTorch's autocast is fp16
 * unless told. */
static void take_precision(stk_run_wish *wish, const stoke_yaml *yaml, const char *text)
{
    static const char *const types[] = { "amp_dtype", "autocast_dtype", "precision", NULL };
    static const char *const bf16[] = { "bf16", "bfloat16", "bf16-mixed", "torch.bfloat16", NULL };
    static const char *const fp16[] = { "fp16", "float16", "16", "16-mixed", "torch.float16", NULL };
    const char *type = value_named(yaml, types);
    if (text) wish->mixed_precision = truth(text);
    if (wish->mixed_precision == 1) wish->precision = STOKE_PRECISION_FP16;
    if (!wish->mixed_precision) return;
    const int half = (text && one_of(text, fp16)) || (type && one_of(type, fp16));
    const int brain = (text && one_of(text, bf16)) || (type && one_of(type, bf16));
    if (half || brain) wish->mixed_precision = 1;
    if (half || brain) wish->precision = brain ? STOKE_PRECISION_BF16 : STOKE_PRECISION_FP16;
}

static void take_data(stk_run_wish *wish, const stoke_yaml *yaml)
{
    static const char *const roots[] = {
        "data_root",    "data_dir", "dataset_dir", "dataset_root", "data_path",
        "dataset_path", "root_dir", "root",        "train_dir",    NULL
    };
    static const char *const images[] = { "images_dir", "image_dir", "img_dir", "images", NULL };
    static const char *const masks[] = { "masks_dir", "mask_dir", "ann_dir", "labels_dir", "masks", NULL };
    const char *root = value_named(yaml, roots), *image = value_named(yaml, images);
    const char *mask = value_named(yaml, masks);
    if (root) {
        STK_SAY(wish->root, "%s", root);
        wish->data.data = wish->root;
    } else if (image) {
        STK_SAY(wish->root, "%s", image);
        wish->data.images = wish->root;
        STK_SAY(wish->masks, "%s", mask ? mask : "");
        if (mask) wish->data.masks = wish->masks;
    }
    wish->has_data = root || image;
}

static int read_others(stk_run_wish *wish, const stoke_yaml *yaml, const char *const *map, stoke_error *err)
{
    const struct {
        const char *setting;
        int64_t *to;
        int64_t (*read)(const char *text);
    } all[] = {
        { "batch_size", &wish->batch, whole },
        { "num_workers", &wish->workers, whole },
        { "prefetch_factor", &wish->prefetch, whole },
        { "epochs", &wish->epochs, whole },
        { "base_channels", &wish->base_channels, whole },
        { "num_blocks", &wish->num_blocks, whole },
        { "pin_memory", &wish->pin_memory, truth },
        { "persistent_workers", &wish->persistent_workers, truth },
        { "device_prefetch", &wish->prefetcher, truth },
    };
    static const char *const drop_last[] = { "drop_last", NULL };
    static const char *const augments[] = { "augment", "augmentation", "augmentations", NULL };
    const char *text;
    wish->engine = STOKE_ENGINE_TORCH;
    wish->dialect = stoke_dialect_name(stoke_config_dialect(yaml));
    wish->data = stoke_data_defaults();
    wish->train = stoke_train_defaults();
    wish->precision = STOKE_PRECISION_FP32;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const int found = value_of(yaml, map, all[i].setting, &text, err);
        if (found) return found;
        if (text) *all[i].to = all[i].read(text);
    }
    if ((text = value_named(yaml, drop_last))) wish->drop_last = truth(text);
    if ((text = value_named(yaml, augments))) STK_SAY(wish->augment, "%.60s", text);
    /* Told, never changed here: several of their name are no reason to stop. */
    if (!value_of(yaml, map, "accumulate", &text, NULL) && text) wish->accumulate = whole(text);
    if (!value_of(yaml, map, "gpu_augmentation", &text, NULL) && text) wish->gpu_augmentation = truth(text);
    if (!value_of(yaml, map, "log_every", &text, NULL) && text) wish->log_every = whole(text);
    const int r = value_of(yaml, map, "mixed_precision", &text, err);
    if (r) return r;
    take_precision(wish, yaml, text);
    take_model(wish, yaml);
    take_shape(wish, yaml);
    take_data(wish, yaml);
    wish->train.precision = wish->precision;
    wish->train.optimizer = wish->optimizer;
    if (wish->accumulate > 0) wish->train.accumulate = wish->accumulate;
    return STOKE_OK;
}

/* ---- both ---- */

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

void stk_shell_word(char *word, size_t size, const char *text)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+-,=@%:";
    size_t n = 0;
    if (!text[strspn(text, plain)]) {
        snprintf(word, size, "%s", text);
        return;
    }
    word[n++] = '\'';
    for (; *text && n + 6 < size; text++) { /* room for '\'' and the end */
        if (*text == '\'') n += (size_t)snprintf(word + n, size - n, "'\\'");
        word[n++] = *text;
    }
    word[n++] = '\'';
    word[n] = 0;
}

/* What was said beside the file. */
static int take_params(stk_run_wish *wish, const stoke_preflight_params *p, stoke_error *err)
{
    static const char *const models[] = { "b0", "b1", "b2", "b3", "b4", "b5", "smallnet", NULL };
    const stoke_data_params *d = &wish->data;
    wish->ranks = p->ranks ? p->ranks : 1;
    if (p->model && !one_of(p->model, models))
        return stk_fail(err, STOKE_E_INVALID, "model '%.40s': the estimate knows b0 to b5 and smallnet",
                        p->model);
    if (p->model) STK_SAY(wish->model, "%s", p->model);
    if (p->size[0]) wish->height = p->size[0];
    if (p->size[1]) wish->width = p->size[1];
    if (p->classes) wish->classes = p->classes;
    if (p->data) {
        wish->data.data = p->data;
        wish->data.images = wish->data.masks = wish->data.list = NULL;
        wish->has_data = 1;
    }
    const char *data = d->data ? d->data : d->images ? d->images : d->list ? d->list : "DIR";
    stk_shell_word(wish->config, sizeof wish->config, p->config ? p->config : "FILE");
    stk_shell_word(wish->data_name, sizeof wish->data_name, data);
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
    int r = p->config ? stoke_yaml_open(&yaml, p->config, err) : read_own(wish, NULL, err);
    if (r || !p->config) return r ? r : take_params(wish, p, err);
    if (read_own(wish, p->config, &own) != STOKE_OK) {
        if (stoke_config_dialect(yaml) == STOKE_DIALECT_OWN)
            r = stk_fail(err, own.code, "%s", own.message);
        else
            r = read_others(wish, yaml, p->map, err);
    }
    stoke_yaml_close(&yaml);
    return r ? r : take_params(wish, p, err);
}

void stk_wish_free(stk_run_wish *wish)
{
    stoke_options_free_storage(&wish->storage);
}
