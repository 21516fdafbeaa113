/* SPDX-License-Identifier: Apache-2.0
 *
 * Whose trainer reads a file, which arguments that takes, and what it does where the file is silent. The one
 * place that knows: what is written, proposed or judged asks here.
 */
#include <stdio.h>
#include <string.h>

#include "src/base/words.h"
#include "src/settings/keys.h"

/* ---- arguments and defaults ---- */

/* Names: NULL: there is no such argument, and it would be refused; "": as the file's dialect calls it. What
 * counts where nothing is said: transformers 4 and 5, Lightning 2, torch 1 and 2; NULL: not known. */
enum { ANY, LIGHTNING, HUGGING_FACE, COLUMNS };
typedef struct argument {
    const char *setting;
    const char *name[COLUMNS];
    int of_loader; /* DataLoader has it */
    const char *otherwise[COLUMNS];
} argument;

/* clang-format off: one setting, one line */
static const argument ARGUMENTS[] = {
    { "batch_size", { "", "", "per_device_train_batch_size" }, 1, { NULL, NULL, "8" } },
    { "num_workers", { "", "", "dataloader_num_workers" }, 1, { "0", "0", "0" } },
    { "pin_memory", { "", "", "dataloader_pin_memory" }, 1, { "false", "false", "true" } },
    { "persistent_workers", { "", "", "dataloader_persistent_workers" }, 1, { "false", "false", "false" } },
    { "prefetch_factor", { "", "", "dataloader_prefetch_factor" }, 1, { "2", "2", "2" } },
    { "drop_last", { "", "", "dataloader_drop_last" }, 1, { "false", "false", "false" } },
    { "shuffle", { "", "", NULL }, 1, { NULL, NULL, NULL } },
    { "non_blocking", { "", NULL, NULL }, 0, { NULL, NULL, NULL } },
    { "device_prefetch", { "", NULL, NULL }, 0, { NULL, NULL, NULL } },
    { "mixed_precision", { "", "precision", "fp16" }, 0, { "false", "32-true", "false" } },
    { "grad_clip", { "", "gradient_clip_val", "max_grad_norm" }, 0, { NULL, NULL, "1.0" } },
    { "compile", { "", NULL, "torch_compile" }, 0, { NULL, NULL, "false" } },
    { "gpu_augmentation", { "", NULL, NULL }, 0, { NULL, NULL, NULL } },
    { "benchmark", { NULL, "benchmark", NULL }, 0, { NULL, "false", NULL } },
    { "learning_rate", { "", "", "learning_rate" }, 0, { NULL, NULL, "5e-5" } },
    { "accumulate", { "", "accumulate_grad_batches", "gradient_accumulation_steps" }, 0, { NULL, "1", "1" } },
    { "log_every", { "", "log_every_n_steps", "logging_steps" }, 0, { NULL, "50", "500" } },
    { "optimizer", { "", "", "optim" }, 0, { NULL, NULL, "adamw_torch" } },
};
/* clang-format on */

static const argument *argument_named(const char *setting)
{
    for (size_t i = 0; i < sizeof ARGUMENTS / sizeof *ARGUMENTS; i++)
        if (!strcmp(ARGUMENTS[i].setting, setting)) return &ARGUMENTS[i];
    return NULL;
}

static int column_of(stoke_framework framework)
{
    return framework == STOKE_FRAMEWORK_LIGHTNING      ? LIGHTNING
           : framework == STOKE_FRAMEWORK_HUGGING_FACE ? HUGGING_FACE
                                                       : ANY;
}

static const char *name_in(stoke_framework framework, const char *setting)
{
    const argument *a = argument_named(setting);
    return a ? a->name[column_of(framework)] : "";
}

int stk_is_argument(stoke_framework framework, const char *setting)
{
    const char *name = name_in(framework, setting);
    return name && *name;
}

const char *stk_setting_default(stoke_framework framework, const char *setting)
{
    const argument *a = argument_named(setting);
    return a && framework != STOKE_FRAMEWORK_STOKE ? a->otherwise[column_of(framework)] : NULL;
}

const char *stk_whose_default(stoke_framework framework, const char *setting)
{
    if (framework == STOKE_FRAMEWORK_HUGGING_FACE) return "TrainingArguments'";
    return stk_is_argument(framework, setting) ? "Trainer's" : "PyTorch's";
}

/* ---- whose file it is ---- */

/* Keys of the mapping that are in the list. */
static size_t count_keys(const stoke_yaml *yaml, uint32_t mapping, const char *list)
{
    const stk_yaml_node *nodes = yaml->nodes;
    size_t n = 0;
    for (uint32_t i = nodes[mapping].first; i != STK_YAML_NONE; i = nodes[nodes[i].next].next)
        n += nodes[i].text && !nodes[nodes[i].next].replaced && stk_is_one_of(nodes[i].text, list);
    return n;
}

static const char TRAINER[] = "accelerator devices strategy max_epochs precision accumulate_grad_batches "
                              "gradient_clip_val log_every_n_steps num_nodes benchmark fast_dev_run "
                              "limit_train_batches";

/* The section of Lightning's arguments, at whatever depth (`fit: trainer:`); STK_YAML_NONE: there is none. */
static uint32_t trainer_section(const stoke_yaml *yaml)
{
    for (uint32_t i = 0; i < yaml->n_nodes; i++) {
        const char *key = stk_key_of(yaml, i);
        if (key && yaml->nodes[i].path && yaml->nodes[i].kind == STK_YAML_MAPPING &&
            stk_same_name(key, "trainer") && count_keys(yaml, i, TRAINER))
            return i;
    }
    return STK_YAML_NONE;
}

/* The mapping of TrainingArguments; STK_YAML_NONE: there is none. */
static uint32_t training_arguments(const stoke_yaml *yaml)
{
    static const char names[] =
        "per_device_train_batch_size per_device_eval_batch_size dataloader_num_workers dataloader_pin_memory "
        "dataloader_persistent_workers dataloader_prefetch_factor num_train_epochs lr_scheduler_type "
        "gradient_accumulation_steps logging_steps save_strategy torch_compile";
    for (uint32_t i = 0; i < yaml->n_nodes; i++)
        if (yaml->nodes[i].kind == STK_YAML_MAPPING &&
            (count_keys(yaml, i, "per_device_train_batch_size") || count_keys(yaml, i, names) > 2))
            return i;
    return STK_YAML_NONE;
}

/* *section: where its arguments stand; 0 is the top. */
static stoke_framework framework_at(const stoke_yaml *yaml, uint32_t *section)
{
    *section = 0;
    if (!yaml->n_nodes || yaml->nodes[0].kind != STK_YAML_MAPPING) return STOKE_FRAMEWORK_UNKNOWN;
    if (stoke_config_dialect(yaml) == STOKE_DIALECT_OWN) return STOKE_FRAMEWORK_STOKE;
    *section = training_arguments(yaml);
    if (*section != STK_YAML_NONE) return STOKE_FRAMEWORK_HUGGING_FACE;
    *section = trainer_section(yaml);
    if (*section != STK_YAML_NONE) return STOKE_FRAMEWORK_LIGHTNING;
    *section = 0;
    if (count_keys(yaml, 0, TRAINER) > 1) return STOKE_FRAMEWORK_LIGHTNING;
    return stk_has_section(yaml, "train_ds") ? STOKE_FRAMEWORK_DATALOADER : STOKE_FRAMEWORK_UNKNOWN;
}

stoke_framework stoke_config_framework(const stoke_yaml *yaml)
{
    uint32_t section;
    return framework_at(yaml, &section);
}

const char *stoke_framework_name(int framework)
{
    static const char *const names[] = { "unknown", "Lightning", "Hugging Face", "DataLoader", "stoke" };
    return framework >= 0 && framework < (int)(sizeof names / sizeof *names) ? names[framework] : "unknown";
}

/* ---- where a new key goes ---- */

/* The last key of the section that a path lies in; "": it lies at the top. */
static const char *section_name(const char *path, char room[static 256])
{
    const char *dot = strrchr(path, '.');
    snprintf(room, 256, "%.*s", dot ? (int)(dot - path) : 0, path);
    const char *last = strrchr(room, '.');
    return last ? last + 1 : room;
}

static int names_loader(const char *section)
{
    return stk_is_one_of_any_case(section, "train_ds train_dataloader train_loader dataloader loader "
                                           "data_loader loader_kwargs loader_params dataloader_kwargs "
                                           "dataloader_params");
}

int stk_is_of_loader(const char *path)
{
    char room[256];
    return names_loader(section_name(path, room));
}

/* Lightning's Trainer takes nothing of loading; a file without any of it has no place for it. */
static int has_loading(const stoke_yaml *yaml, uint32_t section)
{
    static const char *const settings[] = { "num_workers", "batch_size", "pin_memory", "persistent_workers",
                                            "prefetch_factor" };
    uint32_t found[STK_CANDIDATES];
    for (size_t i = 0; !section && i < sizeof settings / sizeof *settings; i++)
        if (stk_candidates(yaml, stk_setting_named(settings[i]), found)) return 1;
    return section != 0;
}

const char *stk_argument_place(const stoke_yaml *yaml, const stk_setting *s, uint32_t *section,
                               const char **refusal)
{
    uint32_t arguments;
    const stoke_framework framework = framework_at(yaml, &arguments);
    const argument *a = argument_named(s->name);
    const char *name = name_in(framework, s->name), *key = stk_key_of(yaml, *section);
    if (!name) {
        *refusal = framework == STOKE_FRAMEWORK_HUGGING_FACE ? "TrainingArguments have no such argument"
                   : framework == STOKE_FRAMEWORK_LIGHTNING  ? "Lightning's Trainer has no such argument"
                                                             : "it is an argument of Lightning's Trainer";
        return NULL;
    }
    if (*name) {
        *section = arguments;
        return name;
    }
    if (key && names_loader(key) && !(a && a->of_loader)) {
        *refusal = "its section is handed to DataLoader, which has no such argument";
        return NULL;
    }
    if (framework == STOKE_FRAMEWORK_LIGHTNING && s->where == STK_KEY_LOADING &&
        !has_loading(yaml, *section)) {
        *refusal = "nothing of loading is in the file, and Trainer takes nothing of it";
        return NULL;
    }
    return name;
}

/* ---- sections of classes ---- */

int stoke_config_of_class(const stoke_yaml *yaml, const char *setting, const char *path)
{
    char room[256], other[272];
    stoke_yaml_value value;
    if (!strcmp(section_name(path, room), "init_args")) return 1;
    snprintf(other, sizeof other, "%s%sclass_path", room, *room ? "." : "");
    if (stoke_yaml_get(yaml, other, &value)) return 1;
    snprintf(other, sizeof other, "%s%s_target_", room, *room ? "." : "");
    if (!stoke_yaml_get(yaml, other, &value)) return 0;
    const int of_trainer = stoke_config_framework(yaml) == STOKE_FRAMEWORK_LIGHTNING &&
                           stk_is_argument(STOKE_FRAMEWORK_LIGHTNING, setting);
    return !stk_ends_in(value.text, of_trainer ? ".Trainer" : ".DataLoader");
}
