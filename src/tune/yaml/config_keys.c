/* SPDX-License-Identifier: Apache-2.0
 *
 * Settings by any of their names. The documents' dialects, and the trainers people bring, call the same thing
 * batch_size, data.batch_size, train_ds.batch_size or TrainingConfig.BATCH_SIZE; a setting is found by its
 * last key, wherever it stands. Two candidates are never chosen between: the user names one.
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "src/base/error.h"
#include "src/base/options_private.h"
#include "src/tune/yaml/yaml_tree.h"
#include <stoke/feed.h>
#include <stoke/train.h>

typedef enum part { LOADING, TRAINING, MODEL } part;

typedef struct setting {
    const char *name;
    part where;
    const char *own;      /* what stoke.yaml calls it; NULL: it has no such setting */
    const char *sections; /* what a new key is called in a file with sections; NULL: names[0] */
    const char *names[8]; /* the first is what a new key is called elsewhere */
} setting;

static const setting settings[] = {
    { "batch_size",
      LOADING,
      "batch",
      NULL,
      { "batch_size", "batch", "train_batch_size", "per_gpu_batch_size", "samples_per_gpu" } },
    { "num_workers",
      LOADING,
      "workers",
      NULL,
      { "num_workers", "workers", "n_workers", "dataloader_num_workers", "workers_per_gpu" } },
    { "pin_memory", LOADING, NULL, NULL, { "pin_memory", "dataloader_pin_memory" } },
    { "persistent_workers", LOADING, NULL, NULL, { "persistent_workers", "dataloader_persistent_workers" } },
    { "prefetch_factor", LOADING, "prefetch", NULL, { "prefetch_factor", "dataloader_prefetch_factor" } },
    { "non_blocking", LOADING, NULL, NULL, { "non_blocking", "async_copy", "async_transfer" } },
    { "device_prefetch",
      LOADING,
      "transfer",
      NULL,
      { "cuda_prefetch", "use_prefetcher", "gpu_prefetch", "prefetch_to_gpu", "prefetch_to_device",
        "data_prefetcher" } },
    { "mixed_precision",
      TRAINING,
      "precision",
      "use_amp",
      { "use_mixed_precision", "mixed_precision", "use_amp", "amp", "enable_amp", "use_fp16" } },
    { "grad_clip",
      TRAINING,
      "clip_norm",
      NULL,
      { "grad_clip", "gradient_clip", "gradient_clip_val", "clip_grad", "clip_grad_norm", "grad_clip_norm",
        "max_grad_norm" } },
    { "compile", TRAINING, NULL, NULL, { "compile", "use_compile", "torch_compile", "compile_model" } },
    { "gpu_augmentation",
      TRAINING,
      "placement",
      NULL,
      { "use_gpu_augmentation", "gpu_augmentation", "gpu_augment", "use_gpu_augment" } },
    { "learning_rate", TRAINING, "lr", NULL, { "learning_rate", "lr", "base_lr" } },
    { "accumulate",
      TRAINING,
      "accumulate",
      NULL,
      { "accumulate", "gradient_accumulation_steps", "accumulation_steps", "accumulate_grad_batches",
        "grad_accum_steps" } },
    { "log_every",
      TRAINING,
      "log_every",
      NULL,
      { "log_every", "log_interval", "log_freq", "print_freq", "log_every_n_steps", "logging_steps",
        "print_every" } },
    { "epochs", TRAINING, "epochs", NULL, { "epochs", "num_epochs", "max_epochs" } },
    { "base_channels", MODEL, NULL, NULL, { "base_channels" } },
    { "num_blocks", MODEL, NULL, NULL, { "num_blocks", "n_blocks" } },
    { "patch_size", MODEL, NULL, NULL, { "patch_size" } },
    { "use_perceptual", MODEL, NULL, NULL, { "use_perceptual", "use_perceptual_loss" } },
};

enum { SETTINGS = sizeof settings / sizeof *settings, CANDIDATES = 16 };

static const setting *setting_named(const char *name)
{
    for (size_t i = 0; i < SETTINGS; i++)
        if (!strcmp(settings[i].name, name)) return &settings[i];
    return NULL;
}

/* ---- dialects ---- */

static int has_section(const stoke_yaml *yaml, const char *name)
{
    const uint32_t at = stk_yaml_child(yaml, 0, name);
    return at != STK_YAML_NONE && yaml->nodes[at].kind == STK_YAML_MAPPING;
}

static const char *key_of(const stoke_yaml *yaml, uint32_t node)
{
    const uint32_t key = yaml->nodes[node].key;
    return key == STK_YAML_NONE ? NULL : yaml->nodes[key].text;
}

/* Whether any value has this key, wherever it stands. */
static int has_key(const stoke_yaml *yaml, const char *name)
{
    for (size_t i = 0; i < yaml->n_named; i++) {
        const char *key = key_of(yaml, yaml->named[i]);
        if (key && !strcmp(key, name)) return 1;
    }
    return 0;
}

/* Whether every key is one of our tables', as `stoke train --config` wants it. */
static int has_only_ours(const stoke_yaml *yaml)
{
    stoke_data_params data;
    stoke_train_params train;
    stoke_feed_params feed;
    const stoke_option_group groups[] = { stoke_data_options(&data), stoke_train_options(&train),
                                          stoke_feed_options(&feed) };
    for (size_t i = 0; i < yaml->n_named; i++) {
        const char *key = key_of(yaml, yaml->named[i]);
        stk_option_hit hit;
        if (key && !stk_option_find(groups, 3, key, strlen(key), &hit)) return 0;
    }
    return 1;
}

/* Ours is told by names nobody else has; `batch` alone could be anybody's, unless all else is ours too. */
static int is_own(const stoke_yaml *yaml)
{
    static const char *const ours[] = { "consumer_cores", "clip_norm", "mask_dtype", "label_map",
                                        "max_bad",        "cache_ram", "val_split",  "mask_suffix" };
    int n = 0;
    if (has_key(yaml, "batch_size") || has_key(yaml, "num_workers")) return 0;
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) n += has_key(yaml, ours[i]);
    const int loads = has_key(yaml, "batch") || has_key(yaml, "workers");
    return n >= 2 || (loads && (n || (yaml->n_named > 2 && has_only_ours(yaml))));
}

int stoke_config_dialect(const stoke_yaml *yaml)
{
    if (is_own(yaml)) return STOKE_DIALECT_OWN;
    if (has_section(yaml, "train_ds")) return STOKE_DIALECT_TRAIN_DS;
    if (has_section(yaml, "data") || has_section(yaml, "training") || has_section(yaml, "train"))
        return STOKE_DIALECT_SECTIONS;
    return STOKE_DIALECT_FLAT;
}

const char *stoke_dialect_name(int dialect)
{
    static const char *const names[] = { "flat", "sections", "train_ds", "stoke.yaml" };
    return dialect >= 0 && dialect < (int)(sizeof names / sizeof *names) ? names[dialect] : "unknown";
}

/* ---- where a setting stands ---- */

static int same_name(const char *a, const char *b)
{
    for (; *a && *b; a++, b++)
        if (strncasecmp(a, b, 1) != 0 && !(*a == '-' && *b == '_')) return 0;
    return !*a && !*b;
}

static int is_name_of(const setting *s, int dialect, const char *key)
{
    if (dialect == STOKE_DIALECT_OWN) return s->own && !strcmp(key, s->own);
    for (size_t i = 0; i < sizeof s->names / sizeof *s->names && s->names[i]; i++)
        if (same_name(key, s->names[i])) return 1;
    return 0;
}

/* Settings of evaluation have the same names and are left alone; items of lists are not settings. */
static int is_elsewhere(const stoke_yaml *yaml, uint32_t node)
{
    static const char *const others[] = { "val", "test", "eval", "infer", "predict" };
    for (uint32_t i = yaml->nodes[node].parent; i != STK_YAML_NONE; i = yaml->nodes[i].parent) {
        const char *key = key_of(yaml, i);
        if (yaml->nodes[i].kind != STK_YAML_MAPPING) return 1;
        for (size_t j = 0; key && j < sizeof others / sizeof *others; j++)
            if (!strncasecmp(key, others[j], strlen(others[j]))) return 1;
    }
    return 0;
}

static size_t candidates(const stoke_yaml *yaml, const setting *s, uint32_t found[CANDIDATES])
{
    const int dialect = stoke_config_dialect(yaml);
    size_t n = 0;
    for (size_t i = 0; i < yaml->n_named && n < CANDIDATES; i++) {
        const char *key = key_of(yaml, yaml->named[i]);
        if (key && is_name_of(s, dialect, key) && !is_elsewhere(yaml, yaml->named[i]))
            found[n++] = yaml->named[i];
    }
    return n;
}

/* ---- where a new one belongs ---- */

/* The mapping in which one of these settings stands alone; STK_YAML_NONE: none does. */
static uint32_t beside(const stoke_yaml *yaml, const char *const *names)
{
    uint32_t found[CANDIDATES];
    for (; *names; names++)
        if (candidates(yaml, setting_named(*names), found) == 1) return yaml->nodes[found[0]].parent;
    return STK_YAML_NONE;
}

static uint32_t first_section(const stoke_yaml *yaml, const char *const *names)
{
    for (; *names; names++)
        if (has_section(yaml, *names)) return stk_yaml_child(yaml, 0, *names);
    return STK_YAML_NONE;
}

/* Settings of loading go beside their like. Those of training do not go beside the learning rate: that may
 * stand in a section whose keys are handed to the optimiser as they are. */
static uint32_t home(const stoke_yaml *yaml, part where)
{
    static const char *const loading[] = { "num_workers", "batch_size", "pin_memory", NULL };
    static const char *const training[] = { "mixed_precision", "gpu_augmentation", "accumulate", "epochs",
                                            NULL };
    static const char *const model[] = { "base_channels", "num_blocks", "patch_size", NULL };
    static const char *const of_loading[] = { "train_ds", "data", "dataloader", "loader", NULL };
    static const char *const of_training[] = { "training", "train", "trainer", NULL };
    static const char *const of_model[] = { "model", NULL };
    uint32_t at = beside(yaml, where == LOADING ? loading : where == TRAINING ? training : model);
    if (at == STK_YAML_NONE)
        at = first_section(yaml, where == LOADING ? of_loading : where == TRAINING ? of_training : of_model);
    return at == STK_YAML_NONE ? 0 : at;
}

static int belongs(const stoke_yaml *yaml, const setting *s, const char **path, stoke_error *err)
{
    const int dialect = stoke_config_dialect(yaml);
    const char *key = dialect == STOKE_DIALECT_OWN                       ? s->own
                      : dialect == STOKE_DIALECT_SECTIONS && s->sections ? s->sections
                                                                         : s->names[0];
    char text[STK_YAML_PATH];
    if (!key) return stk_fail(err, STOKE_E_NOTFOUND, "%.256s: stoke.yaml has no %s", yaml->name, s->name);
    const char *parent = yaml->nodes[home(yaml, s->where)].path;
    if (!parent || !stk_yaml_join(parent, key, text))
        return stk_fail(err, STOKE_E_LIMIT,
                        "%.256s: the path of %s is too long; name one by its setting=path", yaml->name,
                        s->name);
    *path = stk_yaml_keep(yaml, text, strlen(text));
    return *path ? STOKE_OK : stk_yaml_no_memory(yaml, err);
}

/* ---- by name ---- */

static int unknown_setting(const char *name, stoke_error *err)
{
    char list[512] = "";
    size_t used = 0;
    for (size_t i = 0; i < SETTINGS && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", settings[i].name);
    return stk_fail(err, STOKE_E_NOTFOUND, "no setting is called '%.80s'; there is %s", name, list);
}

/* What the user says: "setting=path". *path stays NULL when this setting is not among them. */
static int from_map(const stoke_yaml *yaml, const char *const *map, const char *name, const char **path,
                    int *exists, stoke_error *err)
{
    const size_t n = strlen(name);
    *path = NULL;
    for (; map && *map; map++) {
        const char *equals = strchr(*map, '=');
        stk_yaml_place place;
        if (!equals || equals == *map || !equals[1])
            return stk_fail(err, STOKE_E_INVALID, "'%.80s' is not setting=path; one is batch_size=data.bs",
                            *map);
        if ((size_t)(equals - *map) != n || strncmp(*map, name, n) != 0) continue;
        if (!stk_yaml_find(yaml, equals + 1, &place))
            return stk_fail(err, STOKE_E_INVALID, "'%.80s': what stands behind = is no path of keys", *map);
        *path = stk_yaml_keep(yaml, equals + 1, strlen(equals + 1));
        *exists = place.node != STK_YAML_NONE;
        return *path ? STOKE_OK : stk_yaml_no_memory(yaml, err);
    }
    return STOKE_OK;
}

static int ambiguous(const stoke_yaml *yaml, const setting *s, const uint32_t *found, size_t n,
                     stoke_error *err)
{
    char list[512] = "";
    size_t used = 0;
    for (size_t i = 0; i < n && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%.80s (line %u)", i ? ", " : "",
                                 yaml->nodes[found[i]].path, yaml->nodes[found[i]].line);
    return stk_fail(err, STOKE_E_INVALID, "%.256s: %s may be any of %s; name the right one: --map %s=%.80s",
                    yaml->name, s->name, list, s->name, yaml->nodes[found[0]].path);
}

int stoke_config_find(const stoke_yaml *yaml, const char *name, const char *const *map, const char **path,
                      int *exists, stoke_error *err)
{
    uint32_t found[CANDIDATES];
    const setting *s = setting_named(name);
    *path = NULL;
    *exists = 0;
    for (const char *const *m = map; m && *m; m++) { /* a slip in a name must not pass for a setting */
        char word[64];
        snprintf(word, sizeof word, "%.*s", (int)strcspn(*m, "="), *m);
        if (strchr(*m, '=') && !setting_named(word)) return unknown_setting(word, err);
    }
    if (!s) return unknown_setting(name, err);
    int r = from_map(yaml, map, name, path, exists, err);
    if (r || *path) return r;
    const size_t n = candidates(yaml, s, found);
    if (n > 1) return ambiguous(yaml, s, found, n, err);
    *exists = n == 1;
    if (!n) return belongs(yaml, s, path, err);
    *path = yaml->nodes[found[0]].path;
    return STOKE_OK;
}
