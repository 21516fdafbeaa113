/* SPDX-License-Identifier: Apache-2.0
 *
 * Settings by any of their names. The dialects that people bring call the same thing batch_size,
 * data.batch_size, train_ds.batch_size or TrainingConfig.BATCH_SIZE; a setting is found by its last key,
 * wherever it stands. Of what may be changed two candidates are never chosen between: the user names one.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "src/base/error.h"
#include "src/base/number.h"
#include "src/base/remarks.h"
#include "src/base/words.h"
#include "src/settings/keys.h"
#include <stoke/tools/terminal.h>

/* ---- dialects ---- */

int stk_has_section(const stoke_yaml *yaml, const char *name)
{
    const uint32_t at = stk_yaml_child(yaml, 0, name);
    return at != STK_YAML_NONE && yaml->nodes[at].kind == STK_YAML_MAPPING;
}

const char *stk_key_of(const stoke_yaml *yaml, uint32_t node)
{
    const uint32_t key = yaml->nodes[node].key;
    return key == STK_YAML_NONE ? NULL : yaml->nodes[key].text;
}

/* Whether any value has this key, wherever it stands. */
static int has_key(const stoke_yaml *yaml, const char *name)
{
    for (size_t i = 0; i < yaml->n_named; i++) {
        const char *key = stk_key_of(yaml, yaml->named[i]);
        if (key && !strcmp(key, name)) return 1;
    }
    return 0;
}

/* Names nobody else has. */
static const char *const ours_alone[] = { "consumer_cores", "clip_norm", "mask_dtype", "label_map",
                                          "max_bad",        "cache_ram", "mask_suffix" };

int stk_is_ours_alone(const char *key)
{
    for (size_t i = 0; i < sizeof ours_alone / sizeof *ours_alone; i++)
        if (stk_same_word(key, ours_alone[i])) return 1;
    return stk_same_word(key, "batch");
}

static int is_own_name(const char *key)
{
    static const char *const more[] = { "list",  "normalize", "cache",  "label_map", "nesterov",
                                        "split", "power",     "lr_end", "metric" };
    for (size_t i = 0; i < stk_settings_count; i++)
        if (stk_settings[i].own && stk_same_word(key, stk_settings[i].own)) return 1;
    for (size_t i = 0; i < sizeof more / sizeof *more; i++)
        if (stk_same_word(key, more[i])) return 1;
    return 0;
}

int stk_is_setting_of_others(const char *key)
{
    if (is_own_name(key)) return 0;
    for (size_t j = 0; j < stk_settings_count; j++)
        for (size_t k = 0; k < STK_NAMES && stk_settings[j].names[k]; k++)
            if (stk_same_name(key, stk_settings[j].names[k])) return 1;
    return 0;
}

/* Ours is told by names nobody else has; `batch` alone could be anybody's, unless all else is ours too. */
static int is_own(const stoke_yaml *yaml)
{
    int n = has_key(yaml, "val_split"), all = 1; /* every key is a name that stoke.yaml has */
    if (has_key(yaml, "batch_size") || has_key(yaml, "num_workers")) return 0;
    for (size_t i = 0; i < sizeof ours_alone / sizeof *ours_alone; i++) n += has_key(yaml, ours_alone[i]);
    const int loads = has_key(yaml, "batch") || has_key(yaml, "workers");
    if (n || !loads) return n >= 2 || loads;
    for (size_t i = 0; all && i < yaml->n_named; i++) {
        const char *key = stk_key_of(yaml, yaml->named[i]);
        all = !key || is_own_name(key);
    }
    return all && yaml->n_named > 2;
}

int stoke_config_dialect(const stoke_yaml *yaml)
{
    if (!yaml->n_nodes || yaml->form == STK_FORM_PYTHON) return STOKE_DIALECT_FLAT;
    if (is_own(yaml)) return STOKE_DIALECT_OWN;
    if (stk_has_section(yaml, "train_ds")) return STOKE_DIALECT_TRAIN_DS;
    if (stk_has_section(yaml, "data") || stk_has_section(yaml, "training") || stk_has_section(yaml, "train"))
        return STOKE_DIALECT_SECTIONS;
    return STOKE_DIALECT_FLAT;
}

const char *stoke_dialect_name(int dialect)
{
    static const char *const names[] = { "flat", "sections", "train_ds", "stoke.yaml" };
    return dialect >= 0 && dialect < (int)(sizeof names / sizeof *names) ? names[dialect] : "unknown";
}

/* ---- where a setting stands ---- */

int stk_same_name(const char *a, const char *b)
{
    for (; *a && *b; a++, b++)
        if (strncasecmp(a, b, 1) != 0 && !(*a == '-' && *b == '_')) return 0;
    return !*a && !*b;
}

int stk_is_called(const stoke_yaml *yaml, uint32_t node, const char *name)
{
    const char *key = stk_key_of(yaml, node), *dot = strchr(name, '.');
    if (!key) return 0;
    if (!dot) return stk_same_name(key, name);
    char section[64];
    snprintf(section, sizeof section, "%.*s", (int)(dot - name), name);
    const uint32_t parent = yaml->nodes[node].parent;
    const char *above = parent == STK_YAML_NONE ? NULL : stk_key_of(yaml, parent);
    return above && stk_same_name(key, dot + 1) && stk_same_name(above, section);
}

/* Whether a section of this name is of evaluation. */
static int is_evaluation(const char *key)
{
    return !strncasecmp(key, "val", 3) || !strncasecmp(key, "test", 4) || !strncasecmp(key, "eval", 4) ||
           !strncasecmp(key, "infer", 5) || !strncasecmp(key, "predict", 7);
}

/* Settings of evaluation have the same names and are left alone; items of lists are not settings. */
int stk_is_elsewhere(const stoke_yaml *yaml, uint32_t node)
{
    for (uint32_t i = yaml->nodes[node].parent; i != STK_YAML_NONE; i = yaml->nodes[i].parent) {
        const char *key = stk_key_of(yaml, i);
        if (yaml->nodes[i].kind != STK_YAML_MAPPING) return 1;
        if (key && is_evaluation(key)) return 1;
    }
    return 0;
}

/* A list of plain values: [288, 288]. */
static int is_plain_list(const stoke_yaml *yaml, const stk_yaml_node *node)
{
    if (node->kind != STK_YAML_SEQUENCE) return 0;
    for (uint32_t i = node->first; i != STK_YAML_NONE; i = yaml->nodes[i].next)
        if (yaml->nodes[i].kind != STK_YAML_SCALAR) return 0;
    return 1;
}

/* Inside what other keys merge or refer to: defaults, which what stands by itself overrides. */
static int is_shared(const stoke_yaml *yaml, uint32_t node)
{
    for (uint32_t i = yaml->nodes[node].parent; i != STK_YAML_NONE; i = yaml->nodes[i].parent)
        if (yaml->nodes[i].shared) return 1;
    return 0;
}

static size_t add_called(const stoke_yaml *yaml, const stk_setting *s, const char *name, size_t n,
                         uint32_t found[STK_CANDIDATES])
{
    for (uint32_t i = 0; i < yaml->n_nodes && n < STK_CANDIDATES; i++) {
        const stk_yaml_node *node = &yaml->nodes[stk_yaml_followed(yaml, i)];
        if (!yaml->nodes[i].path || !stk_is_called(yaml, i, name)) continue;
        if (node->kind != STK_YAML_SCALAR && !(s->first && is_plain_list(yaml, node))) continue;
        if (!stk_is_elsewhere(yaml, i)) found[n++] = i;
    }
    return n;
}

/* Those that stand by themselves, or, where none does, those of defaults. */
static size_t all_candidates(const stoke_yaml *yaml, const stk_setting *s, uint32_t found[STK_CANDIDATES])
{
    const int own = stoke_config_dialect(yaml) == STOKE_DIALECT_OWN;
    size_t n = 0, alone = 0;
    if (own) return s->own ? add_called(yaml, s, s->own, 0, found) : 0;
    for (size_t i = 0; i < STK_NAMES && s->names[i]; i++) n = add_called(yaml, s, s->names[i], n, found);
    for (size_t i = 0; i < n; i++) alone += !is_shared(yaml, found[i]);
    if (!alone) return n;
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (!is_shared(yaml, found[i])) found[kept++] = found[i];
    return kept;
}

/* Whether the value stands in, or somewhere below, a section of one of these names. */
static int is_below(const stoke_yaml *yaml, uint32_t node, const char *const *sections)
{
    for (uint32_t i = yaml->nodes[node].parent; i != STK_YAML_NONE; i = yaml->nodes[i].parent) {
        const char *key = stk_key_of(yaml, i);
        for (const char *const *name = sections; key && *name; name++)
            if (stk_same_name(key, *name)) return 1;
    }
    return 0;
}

/* Keeps those below these sections, if there are any; 0: there are none. */
static size_t keep_below(const stoke_yaml *yaml, uint32_t *found, size_t n, const char *const *sections)
{
    uint32_t chosen[STK_CANDIDATES];
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (is_below(yaml, found[i], sections)) chosen[kept++] = found[i];
    memcpy(found, chosen, kept * sizeof *found);
    return kept;
}

/* Of several the one that its reader gets: the rate in the section of the optimiser, what is of loading in a
 * section of loading, unless one of training has it too, and then nobody knows. */
static size_t prefer(const stoke_yaml *yaml, const stk_setting *s, uint32_t *found, size_t n)
{
    static const char *const optimizer[] = { "optimizer", "optim", NULL };
    static const char *const loading[] = { "data",     "dataloader",   "data_loader",      "loader",
                                           "train_ds", "train_loader", "train_dataloader", "datamodule",
                                           NULL };
    static const char *const training[] = { "training", "train", "trainer", "training_args", NULL };
    const int loads = s->where == STK_KEY_LOADING;
    size_t kept = 0;
    if (n < 2 || s->first || (!loads && s->where != STK_KEY_TRAINING)) return n;
    for (size_t i = 0; loads && i < n; i++)
        if (is_below(yaml, found[i], training)) return n;
    if (!strcmp(s->name, "learning_rate")) kept = keep_below(yaml, found, n, optimizer);
    if (!kept) kept = keep_below(yaml, found, n, loads ? loading : training);
    return kept ? kept : n;
}

size_t stk_candidates(const stoke_yaml *yaml, const stk_setting *s, uint32_t found[STK_CANDIDATES])
{
    return prefer(yaml, s, found, all_candidates(yaml, s, found));
}

size_t stk_outvoted(const stoke_yaml *yaml, const stk_setting *s, uint32_t others[STK_CANDIDATES])
{
    uint32_t all[STK_CANDIDATES], chosen[STK_CANDIDATES];
    const size_t n = all_candidates(yaml, s, all), kept = stk_candidates(yaml, s, chosen);
    size_t left = 0;
    for (size_t i = 0; i < n; i++) {
        size_t j = 0;
        while (j < kept && chosen[j] != all[i]) j++;
        if (j == kept) others[left++] = all[i];
    }
    return left;
}

const char *stk_value_text(const stoke_yaml *yaml, uint32_t index, char *room, size_t size)
{
    const stk_yaml_node *node = &yaml->nodes[stk_yaml_followed(yaml, index)];
    size_t used = 0;
    if (node->kind == STK_YAML_SCALAR) return stk_yaml_is_null(node) ? NULL : node->text;
    if (!is_plain_list(yaml, node) || !size) return NULL;
    room[0] = 0;
    for (uint32_t i = node->first; i != STK_YAML_NONE && used < size; i = yaml->nodes[i].next)
        used += (size_t)snprintf(room + used, size - used, "%s%s", used ? "," : "", yaml->nodes[i].text);
    return used && used < size ? room : NULL;
}

/* The first that says something: false, 0 or none are as if not there, where another name says more. */
static uint32_t first_said(const stoke_yaml *yaml, const uint32_t *found, size_t n)
{
    char room[256];
    for (size_t i = 0; i < n; i++) {
        const char *text = stk_value_text(yaml, found[i], room, sizeof room);
        if (text && *text && !stk_is_one_of_any_case(text, "false no off 0 0.0 none null")) return found[i];
    }
    return n ? found[0] : STK_YAML_NONE;
}

/* Decides who reads a file: own.c (0) or foreign.c (1). 1: a .py file, a section that only others have, or a
 * name of aliases.c that is none of our options. */
int stk_is_foreign(const stoke_yaml *yaml)
{
    static const char *const sections[] = { "train_ds",  "validation_ds", "val_ds",           "trainer",
                                            "optimizer", "scheduler",     "dataset",          "dataloader",
                                            "optim",     "lr_scheduler",  "TrainingArguments" };
    if (!yaml->n_nodes || yaml->nodes[0].kind != STK_YAML_MAPPING) return 0;
    if (yaml->form == STK_FORM_PYTHON) return 1;
    if (stoke_config_dialect(yaml) == STOKE_DIALECT_OWN) return 0;
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++)
        if (stk_has_section(yaml, sections[i])) return 1;
    for (uint32_t i = 0; i < yaml->n_nodes; i++) {
        const char *key = stk_key_of(yaml, i);
        if (key && stk_is_setting_of_others(key)) return 1;
    }
    return 0;
}

/* ---- what is merged ---- */

/* A value of defaults (&) is shared by all who merge them (<<). The one section of training that gets it so,
 * in which it can be written out; STK_YAML_NONE: there is none, or several. */
static uint32_t merging_section(const stoke_yaml *yaml, uint32_t node)
{
    uint32_t found = STK_YAML_NONE;
    const char *key = stk_key_of(yaml, node);
    if (!key || !is_shared(yaml, node)) return found;
    for (uint32_t i = 0; i < yaml->n_nodes; i++) {
        char path[STK_YAML_PATH];
        stk_yaml_place place;
        const stk_yaml_node *n = &yaml->nodes[i];
        const char *name = stk_key_of(yaml, i);
        if (n->kind != STK_YAML_MAPPING || !n->path || stk_yaml_child(yaml, i, "<<") == STK_YAML_NONE)
            continue;
        if (stk_is_elsewhere(yaml, i) || (name && is_evaluation(name))) continue;
        if (!stk_yaml_join(n->path, key, path) || !stk_yaml_find(yaml, path, &place)) continue;
        if (!place.merged || place.written != node) continue;
        if (found != STK_YAML_NONE) return STK_YAML_NONE;
        found = i;
    }
    return found;
}

/* ---- where a new one belongs ---- */

/* The mapping in which one of these settings stands alone; STK_YAML_NONE: none does. */
static uint32_t beside(const stoke_yaml *yaml, const char *const *names)
{
    uint32_t found[STK_CANDIDATES];
    for (; *names; names++) {
        if (stk_candidates(yaml, stk_setting_named(*names), found) != 1) continue;
        const uint32_t section = merging_section(yaml, found[0]);
        return section != STK_YAML_NONE ? section : yaml->nodes[found[0]].parent;
    }
    return STK_YAML_NONE;
}

/* Settings of loading go beside their like. Those of training do not go beside the learning rate: that may
 * stand in a section whose keys are handed to the optimiser as they are. */
static uint32_t home(const stoke_yaml *yaml, stk_key_group where)
{
    static const struct {
        const char *like[5], *sections[5];
    } homes[] = {
        [STK_KEY_LOADING] = { { "num_workers", "batch_size", "pin_memory" },
                              { "train_ds", "data", "dataloader", "loader" } },
        [STK_KEY_TRAINING] = { { "mixed_precision", "gpu_augmentation", "accumulate", "epochs" },
                               { "training", "train", "trainer" } },
        [STK_KEY_MODEL] = { { "base_channels", "num_blocks", "patch_size" }, { "model" } },
        [STK_KEY_DATA] = { { "base_channels", "num_blocks", "patch_size" }, { "model" } },
    };
    /* In a Python file settings are fields of a class: new ones go to those that are there. */
    static const char *const of_class[] = { "batch_size", "num_workers", NULL };
    uint32_t at = yaml->form == STK_FORM_PYTHON ? beside(yaml, of_class) : STK_YAML_NONE;
    if (at != STK_YAML_NONE) return at;
    at = beside(yaml, homes[where].like);
    if (at != STK_YAML_NONE) return at;
    for (const char *const *name = homes[where].sections; *name; name++)
        if (stk_has_section(yaml, *name)) return stk_yaml_child(yaml, 0, *name);
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

/* Whether the keys of a mapping, or most of the whole file, are written in capital letters. */
static int is_upper_case(const stoke_yaml *yaml, uint32_t mapping)
{
    const stk_yaml_node *nodes = yaml->nodes;
    size_t upper_case = 0, all = 0;
    for (uint32_t i = nodes[mapping].first; i != STK_YAML_NONE; i = nodes[nodes[i].next].next) {
        if (!nodes[i].text || nodes[nodes[i].next].kind == STK_YAML_MAPPING) continue;
        if (!strcmp(nodes[i].text, "<<")) continue;
        upper_case += (size_t)is_upper(nodes[i].text);
        all++;
    }
    return upper_case && 2 * upper_case >= all;
}

static int is_upper_case_file(const stoke_yaml *yaml)
{
    size_t upper_case = 0, all = 0;
    for (size_t i = 0; i < yaml->n_named; i++) {
        const char *key = stk_key_of(yaml, yaml->named[i]);
        upper_case += key && is_upper(key);
        all += key != NULL;
    }
    return upper_case && 2 * upper_case >= all;
}

static int belongs(const stoke_yaml *yaml, const stk_setting *s, const char **path, stoke_error *err)
{
    const int dialect = stoke_config_dialect(yaml);
    const char *key = s->own, *argument = "", *refusal = "stoke.yaml has none";
    char text[STK_YAML_PATH], upper_case[64] = "";
    uint32_t section = home(yaml, s->where);
    if (dialect != STOKE_DIALECT_OWN) {
        argument = stk_argument_place(yaml, s, &section, &refusal);
        const char *usual = dialect == STOKE_DIALECT_SECTIONS && s->sections ? s->sections : s->names[0];
        key = !argument || *argument ? argument : usual;
    }
    if (!key)
        return stk_fail(err, STOKE_E_UNSUPPORTED, "%.256s: %s cannot be added: %s", yaml->name, s->name,
                        refusal);
    const char *parent = yaml->nodes[section].path;
    if (is_upper_case(yaml, section) || (!*argument && is_upper_case_file(yaml))) {
        for (size_t i = 0; key[i] && i + 1 < sizeof upper_case; i++)
            upper_case[i] = (char)toupper((unsigned char)key[i]);
        key = upper_case;
    }
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
    char list[768] = "";
    for (size_t i = 0; i < stk_settings_count; i++)
        if (!stk_settings[i].first || stk_settings[i].reading == STK_READ_PRECISION)
            stk_text_add(list, sizeof list, ", ", "%s", stk_settings[i].name);
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

void stk_list_candidates(const stoke_yaml *yaml, const stk_setting *s, char list[512])
{
    uint32_t found[STK_CANDIDATES];
    const size_t n = stk_candidates(yaml, s, found);
    list[0] = 0;
    for (size_t i = 0; i < n; i++)
        stk_text_add(list, 512, ", ", "%.80s (line %u)", yaml->nodes[found[i]].path,
                     yaml->nodes[found[i]].line);
}

static int ambiguous(const stoke_yaml *yaml, const stk_setting *s, const uint32_t *found, stoke_error *err)
{
    char list[512], right[256];
    stk_list_candidates(yaml, s, list);
    snprintf(right, sizeof right, "%s=%.80s", s->name, yaml->nodes[found[0]].path);
    return stk_fail(err, STOKE_E_INVALID, "%.256s: %s may be any of %s; name the right one: --map %s",
                    yaml->name, s->name, list, STOKE_WORD(right));
}

int stoke_config_find(const stoke_yaml *yaml, const char *name, const char *const *map, const char **path,
                      int *exists, stoke_error *err)
{
    uint32_t found[STK_CANDIDATES];
    char text[STK_YAML_PATH];
    const stk_setting *s = stk_setting_named(name);
    *path = NULL;
    *exists = 0;
    for (const char *const *m = map; m && *m; m++) { /* a slip in a name must not pass for a setting */
        char word[64];
        snprintf(word, sizeof word, "%.*s", (int)strcspn(*m, "="), *m);
        if (strchr(*m, '=') && !stk_setting_named(word)) return unknown_setting(word, err);
    }
    if (!s) return unknown_setting(name, err);
    int r = from_map(yaml, map, name, path, exists, err);
    if (r || *path) return r;
    const size_t n = stk_candidates(yaml, s, found);
    if (n > 1 && !s->first) return ambiguous(yaml, s, found, err);
    *exists = n > 0;
    if (!n) return belongs(yaml, s, path, err);
    /* Where it is changed: itself, or its key in the section that merges it. */
    const uint32_t node = first_said(yaml, found, n), section = merging_section(yaml, node);
    *path = yaml->nodes[node].path;
    if (section != STK_YAML_NONE && stk_yaml_join(yaml->nodes[section].path, stk_key_of(yaml, node), text))
        *path = stk_yaml_keep(yaml, text, strlen(text));
    return *path ? STOKE_OK : stk_yaml_no_memory(yaml, err);
}

/* Whether all say the same: who only reads need not choose. */
static int agree(const stoke_yaml *yaml, const uint32_t *found, size_t n)
{
    char room[256], other[256];
    const char *text = stk_value_text(yaml, found[0], room, sizeof room);
    for (size_t i = 1; text && i < n; i++) {
        const char *more = stk_value_text(yaml, found[i], other, sizeof other);
        double a, b;
        if (!more) return 0;
        const int numbers = stk_parse_real(text, &a) && stk_parse_real(more, &b); /* 1e-3 and .001 */
        if (numbers ? a != b : strcmp(text, more) != 0) return 0;
    }
    return text != NULL;
}

int stk_setting_node(const stoke_yaml *yaml, const stk_setting *s, const char *const *map, uint32_t *node,
                     stoke_error *err)
{
    uint32_t found[STK_CANDIDATES];
    const char *path;
    int exists;
    stk_yaml_place place;
    *node = STK_YAML_NONE;
    int r = from_map(yaml, map, s->name, &path, &exists, err);
    if (r) return r;
    if (path) {
        if (exists && stk_yaml_find(yaml, path, &place)) *node = place.written;
        return STOKE_OK;
    }
    const size_t n = stk_candidates(yaml, s, found);
    if (n > 1 && !s->first && !agree(yaml, found, n)) return ambiguous(yaml, s, found, err);
    *node = first_said(yaml, found, n);
    return STOKE_OK;
}

const char *stk_setting_text(const stoke_yaml *yaml, const char *setting, const char *const *map, char *room,
                             size_t size)
{
    const stk_setting *s = stk_setting_named(setting);
    uint32_t node;
    if (!s || stk_setting_node(yaml, s, map, &node, NULL) || node == STK_YAML_NONE) return NULL;
    return stk_value_text(yaml, node, room, size);
}
