/* SPDX-License-Identifier: Apache-2.0
 *
 * Between the rules and the file: which framework reads it, what a setting is called there, what stands
 * there. A new key gets the name that this framework knows, in the case that the file has; one that it would
 * refuse is no setting of the file.
 */
#include <ctype.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "src/base/error.h"
#include "src/base/number.h"
#include "src/tune/optimize/optimize.h"
#include "src/settings/keys.h"

/* ---- words ---- */

int stk_is_one_of(const char *text, const char *const *words)
{
    for (; *words; words++)
        if (!strcasecmp(text, *words)) return 1;
    return 0;
}

int stk_is_on(const char *text)
{
    static const char *const words[] = { "true", "yes", "on", "1", NULL };
    return stk_is_one_of(text, words);
}

int stk_is_off(const char *text)
{
    static const char *const words[] = { "false", "no", "off", "0", "0.0", "null", "none", "~", "", NULL };
    return stk_is_one_of(text, words);
}

static const char *last_key(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot ? dot + 1 : path;
}

/* ---- whose file it is ---- */

/* Whose arguments the settings of training are; of Lightning also where they stand. */
static stk_optimize_framework framework_of(stoke_optimization *o)
{
    uint32_t trainer;
    switch (stoke_config_framework(o->yaml)) {
    case STOKE_FRAMEWORK_STOKE: return STK_FOR_STOKE;
    case STOKE_FRAMEWORK_HUGGING_FACE: return STK_FOR_HUGGING_FACE;
    case STOKE_FRAMEWORK_LIGHTNING:
        trainer = stk_trainer_section(o->yaml);
        if (trainer != STK_YAML_NONE)
            snprintf(o->trainer, sizeof o->trainer, "%s", o->yaml->nodes[trainer].path);
        return STK_FOR_LIGHTNING;
    default: return STK_FOR_ANY;
    }
}

/* `device: cpu`, `accelerator: cpu`, `use_cpu: true`. */
static int is_for_processor(const stoke_yaml *yaml)
{
    static const char *const devices[] = { "device", "accelerator", NULL };
    static const char *const switches[] = { "use_cpu", "no_cuda", NULL };
    const char *path;
    stoke_yaml_value value;
    for (size_t i = 0; stoke_yaml_at(yaml, i, &path, &value); i++)
        if ((stk_is_one_of(last_key(path), devices) && !strcasecmp(value.text, "cpu")) ||
            (stk_is_one_of(last_key(path), switches) && stk_is_on(value.text)))
            return 1;
    return 0;
}

static int is_upper(const char *key)
{
    int letters = 0;
    for (; *key; key++) {
        if (islower((unsigned char)*key)) return 0;
        letters |= isupper((unsigned char)*key);
    }
    return letters;
}

void stk_optimize_recognize(stoke_optimization *o)
{
    const char *path;
    stoke_yaml_value value;
    size_t upper = 0, all = 0;
    o->framework = framework_of(o);
    for (; stoke_yaml_at(o->yaml, all, &path, &value); all++) upper += (size_t)is_upper(last_key(path));
    o->upper = upper && 2 * upper >= all;
    const int named = (o->params.gpu && *o->params.gpu) || o->params.memory;
    if (o->framework == STK_FOR_STOKE || (!named && is_for_processor(o->yaml)))
        o->place = STK_ON_PROCESSOR;
    else
        o->place = named ? STK_ON_CARD : STK_ON_SOME_CARD;
}

/* ---- what a setting is called ---- */

/* NULL: the framework has no such argument and would refuse it. "": as the file's dialect calls it. */
typedef struct argument {
    const char *setting, *lightning, *hugging_face;
} argument;

static const argument ARGUMENTS[] = {
    { "batch_size", "", "per_device_train_batch_size" },
    { "num_workers", "", "dataloader_num_workers" },
    { "pin_memory", "", "dataloader_pin_memory" },
    { "persistent_workers", "", "dataloader_persistent_workers" },
    { "prefetch_factor", "", "dataloader_prefetch_factor" },
    { "non_blocking", NULL, NULL },
    { "device_prefetch", NULL, NULL },
    { "mixed_precision", "precision", "fp16" },
    { "grad_clip", "gradient_clip_val", "max_grad_norm" },
    { "compile", NULL, "torch_compile" },
    { "gpu_augmentation", NULL, NULL },
    { "benchmark", "benchmark", NULL },
};

static const char *argument_of(const stoke_optimization *o, const char *setting)
{
    for (size_t i = 0; i < sizeof ARGUMENTS / sizeof *ARGUMENTS; i++)
        if (!strcmp(ARGUMENTS[i].setting, setting))
            return o->framework == STK_FOR_LIGHTNING      ? ARGUMENTS[i].lightning
                   : o->framework == STK_FOR_HUGGING_FACE ? ARGUMENTS[i].hugging_face
                   : !strcmp(setting, "benchmark")        ? NULL
                                                          : "";
    return "";
}

int stk_is_trainer_argument(const stoke_optimization *o, const char *setting)
{
    const char *name = argument_of(o, setting);
    return o->framework == STK_FOR_LIGHTNING && name && *name;
}

/* The path of the section that a key stands in; "": the top. */
static const char *section_of(const char *path, char room[static 256])
{
    const char *dot = strrchr(path, '.');
    snprintf(room, 256, "%.*s", dot ? (int)(dot - path) : 0, path);
    return room;
}

int stk_is_of_loader(const char *path)
{
    static const char *const sections[] = {
        "train_ds",    "train_dataloader",  "train_loader",  "dataloader",        "loader",
        "data_loader", "dataloader_kwargs", "loader_kwargs", "dataloader_params", "loader_params",
        NULL
    };
    char room[256];
    return stk_is_one_of(last_key(section_of(path, room)), sections);
}

int stk_optimize_loads(const stoke_optimization *o)
{
    static const char *const settings[] = { "num_workers", "batch_size", "pin_memory", "persistent_workers",
                                            "prefetch_factor" };
    const char *path;
    int exists;
    if (o->framework != STK_FOR_LIGHTNING) return 1;
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        if (stoke_config_find(o->yaml, settings[i], o->params.map, &path, &exists, NULL) || exists) return 1;
    return strchr(path, '.') != NULL; /* a section of it */
}

/* Lightning's Trainer takes nothing of loading, and where a file has none of it, it has no place for it. */
static int is_refused_by_trainer(const stoke_optimization *o, const char *setting)
{
    const stk_setting *s = stk_setting_named(setting);
    return s && s->where == STK_KEY_LOADING && !stk_optimize_loads(o);
}

/* Settings that DataLoader has not. */
static int is_refused_by_loader(const char *path, const char *setting)
{
    static const char *const others[] = { "non_blocking", "device_prefetch", "gpu_augmentation", NULL };
    return stk_is_of_loader(path) && stk_is_one_of(setting, others);
}

/* In a Python file settings are fields of a class: new ones go to those that are there. */
static const char *beside_others(const stoke_optimization *o, const char *path, char room[static 256])
{
    static const char *const settings[] = { "batch_size", "num_workers" };
    const char *other;
    int exists;
    for (size_t i = 0; i < 2; i++)
        if (!stoke_config_find(o->yaml, settings[i], o->params.map, &other, &exists, NULL) && exists) {
            const char *dot = strrchr(other, '.');
            snprintf(room, 256, "%.*s%s", dot ? (int)(dot + 1 - other) : 0, other, last_key(path));
            return room;
        }
    return path;
}

/* The path of a new key: where the dialect puts it, by the framework's name, in the file's case. */
static int new_path(const stoke_optimization *o, stk_optimize_key *f)
{
    const char *name = argument_of(o, f->setting), *ending = strrchr(o->target, '.');
    char path[256], room[256];
    if (!name) return 0;
    if (ending && !strcmp(ending, ".py")) f->path = beside_others(o, f->path, room);
    const char *dot = strrchr(f->path, '.');
    const int in_trainer = o->framework == STK_FOR_LIGHTNING && *name;
    if (in_trainer)
        snprintf(path, sizeof path, "%s%s%s", o->trainer, *o->trainer ? "." : "", name);
    else if (*name)
        snprintf(path, sizeof path, "%.*s%s", dot ? (int)(dot + 1 - f->path) : 0, f->path, name);
    else
        snprintf(path, sizeof path, "%s", f->path);
    if (o->upper)
        for (char *p = (char *)last_key(path); *p; p++) *p = (char)toupper((unsigned char)*p);
    f->path = stk_yaml_keep(o->yaml, path, strlen(path));
    return f->path != NULL;
}

/* Lightning's own switch, which no other trainer has under that name. */
static void find_benchmark(const stoke_optimization *o, stk_optimize_key *f)
{
    const char *path;
    stoke_yaml_value value;
    for (size_t i = 0; stoke_yaml_at(o->yaml, i, &path, &value); i++)
        if (!strcmp(last_key(path), "benchmark")) {
            f->path = path;
            f->exists = 1;
        }
}

int stk_optimize_look(const stoke_optimization *o, const char *setting, stk_optimize_key *f, stoke_error *err)
{
    stoke_yaml_value value;
    int r = STOKE_OK;
    *f = (stk_optimize_key){ .setting = setting, .text = "" };
    if (!strcmp(setting, "benchmark"))
        find_benchmark(o, f);
    else
        r = stoke_config_find(o->yaml, setting, o->params.map, &f->path, &f->exists, err);
    f->none = r == STOKE_E_NOTFOUND && o->dialect == STOKE_DIALECT_OWN;
    if (r) return f->none ? STOKE_OK : r;
    if (!f->exists && o->framework != STK_FOR_STOKE) {
        if (!f->path) f->path = "";
        f->none =
            is_refused_by_loader(f->path, setting) || is_refused_by_trainer(o, setting) || !new_path(o, f);
    }
    if (f->none) return STOKE_OK;
    if (f->exists && stoke_yaml_get(o->yaml, f->path, &value)) f->text = value.text;
    f->is_number = stk_parse_int(f->text, &f->number);
    return STOKE_OK;
}

/* ---- changing ---- */

void stk_optimize_remark(stoke_optimization *o, const char *format, ...)
{
    char text[1200];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const char *kept =
        o->n_remarks < STK_OPTIMIZE_REMARKS ? stk_yaml_keep(o->yaml, text, strlen(text)) : NULL;
    if (kept) o->remarks[o->n_remarks++] = kept;
}

static int ends_with(const char *text, const char *ending)
{
    const size_t n = strlen(text), m = strlen(ending);
    return n >= m && !strcmp(text + n - m, ending);
}

/* Whether the section is handed to somebody's class, which stops at arguments that it has not: `init_args` of
 * Lightning's command line, or one with `class_path` or with `_target_` of Hydra. Which it has is not seen
 * here, but for Lightning's Trainer and PyTorch's DataLoader. */
static int is_of_class(const stoke_optimization *o, const stk_optimize_key *f)
{
    char section[256], other[272];
    stoke_yaml_value value;
    section_of(f->path, section);
    if (!strcmp(last_key(section), "init_args")) return 1;
    snprintf(other, sizeof other, "%s%sclass_path", section, *section ? "." : "");
    if (stoke_yaml_get(o->yaml, other, &value)) return 1;
    snprintf(other, sizeof other, "%s%s_target_", section, *section ? "." : "");
    if (!stoke_yaml_get(o->yaml, other, &value)) return 0;
    return !ends_with(value.text, stk_is_trainer_argument(o, f->setting) ? ".Trainer" : ".DataLoader");
}

int stk_optimize_change(stoke_optimization *o, const stk_optimize_key *f, const char *to,
                        stk_optimize_reason because, stoke_error *err)
{
    stoke_error refusal = { 0 };
    if (o->n_changes == STK_CHANGES || strlen(f->path) >= sizeof o->changes[0].path) {
        stk_optimize_remark(o, "%s is left as it is: its path is too long to show", f->setting);
        return STOKE_OK;
    }
    if (!f->exists && is_of_class(o, f)) {
        stk_optimize_remark(
            o,
            "%s is not added: its section is handed to your class, which stops at an argument "
            "that it has not; where it has this one, wanted was %s: %s",
            f->path, f->setting, to);
        return STOKE_OK;
    }
    const int r = stoke_yaml_set(o->yaml, f->path, to, &refusal);
    if (r == STOKE_E_UNSUPPORTED || r == STOKE_E_NOTFOUND) {
        stk_optimize_remark(o, "%s; wanted was %s: %s", refusal.message, f->setting, to);
        return STOKE_OK;
    }
    if (r) return stk_fail_again(err, r, refusal.message);
    stoke_change *c = &o->changes[o->n_changes++];
    *c = (stoke_change){ .setting = f->setting, .source = because.source };
    snprintf(c->path, sizeof c->path, "%s", f->path);
    snprintf(c->from, sizeof c->from, "%.127s", f->exists ? *f->text ? f->text : "(nothing)" : "");
    snprintf(c->to, sizeof c->to, "%s", to);
    snprintf(c->why, sizeof c->why, "%s", because.why);
    snprintf(c->effect, sizeof c->effect, "%s", because.effect);
    return STOKE_OK;
}

void stk_optimize_right(stoke_optimization *o, const stk_optimize_key *f)
{
    stk_optimize_remark(o, "%s: %s is right already", f->path, f->text);
}

int stk_optimize_switch_on(stoke_optimization *o, const char *setting, stk_optimize_reason because,
                           stoke_error *err)
{
    stk_optimize_key f;
    const int r = stk_optimize_look(o, setting, &f, err);
    if (r || f.none) return r;
    if (stk_is_on(f.text))
        stk_optimize_right(o, &f);
    else if (f.exists && !stk_is_off(f.text))
        stk_optimize_remark(o, "%s: %s is neither on nor off; it is left as it is", f.path, f.text);
    else
        return stk_optimize_change(o, &f, "true", because, err);
    return STOKE_OK;
}

const stoke_recommendation *stk_optimize_advised(const stoke_optimization *o, const char *key)
{
    for (size_t i = 0; i < o->advice.n; i++)
        if (!strcmp(o->advice.line[i].key, key)) return &o->advice.line[i];
    return NULL;
}
