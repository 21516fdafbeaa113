/* SPDX-License-Identifier: Apache-2.0
 *
 * The file of another trainer, setting by setting of the table: what one says becomes the option of ours;
 * what nothing here uses is named in one line, what cannot be understood in a separate line.
 */
#include "src/settings/read.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/base/retry.h"
#include "src/base/number.h"
#include "src/base/remarks.h"
#include "src/settings/keys.h"

enum { NAMED = 8 }; /* keys of no use that are named; of more there is the number */

typedef struct reader {
    const stoke_yaml *yaml;
    stoke_config_use *use;
    stoke_option_storage *storage;
    unsigned char *used; /* of each node */
    stoke_error *err;
} reader;

void stk_config_remark(const stoke_config_use *use, const char *format, ...)
{
    if (!use->remarks || !use->remarks_size) return;
    const size_t used = strlen(use->remarks);
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(use->remarks + used, use->remarks_size - used, format, args);
    va_end(args);
    if (n < 0 || (size_t)n + 2 > use->remarks_size - used) /* whole lines only */
        use->remarks[used] = 0;
    else
        strcpy(use->remarks + used + n, "\n");
}

int stk_config_given(const stoke_config_use *use, const char *option)
{
    for (const char *const *name = use->given; name && *name; name++)
        if (!strcmp(*name, option)) return 1;
    return 0;
}

static uint32_t line_of(const reader *r, uint32_t node)
{
    return r->yaml->nodes[node].line;
}

/* Sets the option, or says why not and what stays. */
static int assign(reader *r, stk_option_hit hit, const char *text, const char *shown, uint32_t node)
{
    stk_option_value trial;
    stoke_error reason;
    char now[STK_OPTION_TEXT];
    const char *kept = text ? stk_option_keep(r->storage, text, strlen(text)) : NULL;
    if (text && !kept) return stk_yaml_no_memory(r->yaml, r->err);
    const char *key = r->yaml->nodes[node].path;
    stoke_config_use *use = r->use;
    r->used[node] = 1;
    if (!kept || stk_option_assign((stk_option_hit){ hit.option, &trial }, hit.option->name, kept, &reason)) {
        const char *stays = stk_option_text(hit.option, (const char *)hit.field - hit.option->offset, now);
        stk_config_remark(
            use, "%s:%u: %s: '%.60s' is not understood here; %s stays %s%s", r->yaml->name, line_of(r, node),
            key, shown ? shown : "null", hit.option->name, stays && *stays ? stays : "as it is",
            r->yaml->nodes[node].computed ? " (Python computes it, and nothing is executed)" : "");
        return STOKE_OK;
    }
    stk_option_assign(hit, hit.option->name, kept, NULL);
    if (use->origins && use->n_origins != use->max_origins)
        use->origins[use->n_origins++] = (stoke_config_origin){ hit.option->name, key, line_of(r, node) };
    return STOKE_OK;
}

static int find_option(const reader *r, const char *name, stk_option_hit *hit)
{
    return stk_option_find(r->use->groups, r->use->n_groups, name, strlen(name), hit);
}

/* ---- those that several keys say ---- */

static void use_all(reader *r, const char *setting)
{
    uint32_t found[STK_CANDIDATES];
    const size_t n = stk_candidates(r->yaml, stk_setting_named(setting), found);
    for (size_t i = 0; i < n; i++) r->used[found[i]] = 1;
}

static int read_precision(reader *r, stk_option_hit hit)
{
    uint32_t node;
    char room[64];
    const char *word = stk_precision_said(r->yaml, r->use->map, &node);
    if (node == STK_YAML_NONE) return STOKE_OK;
    use_all(r, "mixed_precision");
    use_all(r, "amp_dtype");
    return assign(r, hit, word, stk_value_text(r->yaml, node, room, sizeof room), node);
}

static void say_drawn(reader *r, uint32_t node)
{
    stk_config_remark(r->use,
                      "%s:%u: %s: weights are not fetched: --pretrained DIR names them, else they are drawn",
                      r->yaml->name, line_of(r, node), r->yaml->nodes[node].path);
}

/* The name of weights on the hub or of their folder, where a training would begin with drawn ones. */
static int names_weights(const reader *r, const char *text)
{
    uint32_t found[STK_CANDIDATES];
    stk_option_hit pretrained;
    return text && strchr(text, '/') && find_option(r, "pretrained", &pretrained) &&
           !stk_config_given(r->use, "pretrained") &&
           !stk_candidates(r->yaml, stk_setting_named("pretrained"), found);
}

static int read_model(reader *r, stk_option_hit hit)
{
    uint32_t node;
    char room[64];
    const char *word = stk_model_said(r->yaml, r->use->map, &node);
    if (node == STK_YAML_NONE) return STOKE_OK;
    use_all(r, "model");
    const int takes_resnet = hit.option->argument && strstr(hit.option->argument, "resnet");
    const char *said = stk_value_text(r->yaml, node, room, sizeof room);
    if (word && names_weights(r, said)) say_drawn(r, node);
    if (word && (*word == 'b' || takes_resnet)) return assign(r, hit, word, word, node);
    return stk_yaml_fail(
        r->yaml, line_of(r, node), r->err, STOKE_E_UNSUPPORTED,
        "%s: %.60s is no network that is trained here: there are SegFormer b0 to b5, resnet and unet; "
        "--model b0 trains that one in its place",
        r->yaml->nodes[node].path, said ? said : "this");
}

/* In epochs it is a share of all of them. */
static int read_warmup(reader *r, stk_option_hit hit, uint32_t node)
{
    char room[64], more[64], share[32];
    double epochs, all;
    const char *text = stk_value_text(r->yaml, node, room, sizeof room), *key = stk_key_of(r->yaml, node);
    if (!text || !key || !strcasestr(key, "epoch")) return assign(r, hit, text ? text : "0", text, node);
    const char *of = stk_setting_text(r->yaml, "epochs", r->use->map, more, sizeof more);
    if (!stk_parse_real(text, &epochs) || !of || !stk_parse_real(of, &all) || all < 1 || epochs >= all)
        return assign(r, hit, NULL, text, node);
    snprintf(share, sizeof share, "%.4g", epochs / all);
    return assign(r, hit, share, text, node);
}

/* ---- paths ---- */

/* As trainers read it, from where they are started; else beside the file. */
static const char *settle_path(reader *r, const char *path, uint32_t node, char found[PATH_MAX])
{
    const char *slash = strrchr(r->yaml->name, '/');
    if (*path == '/' || stoke_there(path) || !slash) return path;
    const int n = snprintf(found, PATH_MAX, "%.*s/%s", (int)(slash - r->yaml->name), r->yaml->name, path);
    if (n >= PATH_MAX || !stoke_there(found)) return path;
    stk_config_remark(r->use, "%s:%u: %s is not in this folder; %s, beside the settings, is taken",
                      r->yaml->name, line_of(r, node), path, found);
    return found;
}

static uint32_t node_of(const reader *r, const char *setting)
{
    uint32_t node;
    return stk_setting_node(r->yaml, stk_setting_named(setting), r->use->map, &node, NULL) ? STK_YAML_NONE
                                                                                           : node;
}

/* The text of a path; NULL: there is none, or Python computes it, which is said. */
static const char *path_text(reader *r, stk_option_hit hit, uint32_t node, char *room, size_t size)
{
    if (node == STK_YAML_NONE) return NULL;
    const char *text = stk_value_text(r->yaml, node, room, size);
    if (text && r->yaml->nodes[node].computed) {
        assign(r, hit, NULL, text, node);
        return NULL;
    }
    return text;
}

/* dataset_name is a folder, or a name on a hub, which is none of ours. */
static int is_on_hub(reader *r, uint32_t node)
{
    char room[PATH_MAX], found[PATH_MAX];
    if (node == STK_YAML_NONE || !stk_is_called(r->yaml, node, "dataset_name")) return 0;
    const char *text = stk_value_text(r->yaml, node, room, sizeof room);
    return !text || !stoke_there(settle_path(r, text, node, found));
}

/* images_dir, masks_dir and targets_dir are often said below a root. */
static int read_folders(reader *r)
{
    static const char *const settings[] = { "images_dir", "masks_dir", "targets_dir" };
    static const char *const options[] = { "images", "masks", "targets" };
    char room[PATH_MAX], found[PATH_MAX], joined[PATH_MAX];
    stk_option_hit hit;
    if (stk_config_given(r->use, "data") || !find_option(r, "data", &hit)) return STOKE_OK;
    const uint32_t images = node_of(r, "images_dir");
    uint32_t at = node_of(r, "data_root");
    if (is_on_hub(r, at)) at = STK_YAML_NONE;
    const char *root = path_text(r, hit, at, room, sizeof room);
    if (root) root = settle_path(r, root, at, found);
    int status = STOKE_OK;
    if (root && images == STK_YAML_NONE) return assign(r, hit, root, root, at);
    for (size_t i = 0; !status && i < sizeof options / sizeof *options; i++) {
        char text_room[PATH_MAX], beside[PATH_MAX];
        const uint32_t node = node_of(r, settings[i]);
        if (!find_option(r, options[i], &hit)) continue;
        const char *text = path_text(r, hit, node, text_room, sizeof text_room);
        if (!text) continue;
        const int below = root && *text != '/' &&
                          snprintf(joined, sizeof joined, "%s/%s", root, text) < (int)sizeof joined &&
                          stoke_there(joined);
        status = assign(r, hit, below ? joined : settle_path(r, text, node, beside), text, node);
    }
    if (at != STK_YAML_NONE) r->used[at] = 1;
    return status;
}

/* Weights are a file or a folder here; a name on the hub is not fetched. */
static int read_pretrained(reader *r, stk_option_hit hit, uint32_t node)
{
    char room[PATH_MAX], found[PATH_MAX];
    const char *text = stk_value_text(r->yaml, node, room, sizeof room);
    r->used[node] = 1;
    if (!text || stk_truth(text) == 0) return STOKE_OK;
    const char *path = settle_path(r, text, node, found);
    if (stk_truth(text) < 0 && stoke_there(path)) return assign(r, hit, path, text, node);
    say_drawn(r, node);
    return STOKE_OK;
}

/* A switch, or the file itself; what a switch without a file comes to, who trains says. */
static int read_perceptual(reader *r, stk_option_hit hit, uint32_t node)
{
    char room[PATH_MAX], found[PATH_MAX];
    const char *text = stk_value_text(r->yaml, node, room, sizeof room);
    r->used[node] = 1;
    if (!text || stk_truth(text) == 0) return STOKE_OK;
    return assign(r, hit, stk_truth(text) == 1 ? "true" : settle_path(r, text, node, found), text, node);
}

/* ---- all others ---- */

static void say_outvoted(reader *r, const stk_setting *s, uint32_t node)
{
    uint32_t others[STK_CANDIDATES];
    char room[64], counts[64];
    const size_t n = stk_outvoted(r->yaml, s, others);
    const char *text = stk_value_text(r->yaml, node, counts, sizeof counts);
    for (size_t i = 0; i < n; i++) {
        const char *other = stk_value_text(r->yaml, others[i], room, sizeof room);
        r->used[others[i]] = 1;
        if (text && other && strcmp(text, other) != 0)
            stk_config_remark(r->use, "%s:%u: %s: %s counts, not %s of %s", r->yaml->name, line_of(r, node),
                              r->yaml->nodes[node].path, text, other, r->yaml->nodes[others[i]].path);
    }
}

static int read_setting(reader *r, const stk_setting *s, stk_option_hit hit)
{
    uint32_t node;
    char room[4096], out[STK_MEANING], remark[160];
    if (s->reading == STK_READ_PRECISION) return read_precision(r, hit);
    if (s->reading == STK_READ_MODEL) return read_model(r, hit);
    static const char *const folders[] = { "data", "images", "masks", "targets" }; /* read_folders */
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        if (!strcmp(s->own, folders[i])) return STOKE_OK;
    int status = stk_setting_node(r->yaml, s, r->use->map, &node, r->err);
    if (status == STOKE_E_INVALID && !r->use->map) { /* there is no --map: the flag itself says it */
        stk_list_candidates(r->yaml, s, room);
        return stk_fail(r->err, status, "%.256s: %s may be any of %s; keep one of them, or say it by `%s`",
                        r->yaml->name, s->name, room, s->own);
    }
    if (status || node == STK_YAML_NONE) return status;
    say_outvoted(r, s, node);
    if (s->reading == STK_READ_WARMUP) return read_warmup(r, hit, node);
    if (!strcmp(s->own, "pretrained")) return read_pretrained(r, hit, node);
    if (!strcmp(s->own, "perceptual")) return read_perceptual(r, hit, node);
    const char *text = stk_value_text(r->yaml, node, room, sizeof room);
    const stk_value_meant meant =
        r->yaml->nodes[node].computed ? STK_MEANT_UNKNOWN : stk_meaning(s->reading, text, out, remark);
    if (meant == STK_MEANT_NOTHING) r->used[node] = 1;
    if (meant == STK_MEANT_ABOUT)
        stk_config_remark(r->use, "%s:%u: %s: '%.60s' %s", r->yaml->name, line_of(r, node),
                          r->yaml->nodes[node].path, text, remark);
    return meant == STK_MEANT_NOTHING ? STOKE_OK
                                      : assign(r, hit, meant == STK_MEANT_UNKNOWN ? NULL : out, text, node);
}

static int read_by_name(reader *r, const stk_setting *s, stk_option_hit hit)
{
    char room[256];
    uint32_t node;
    const int status = stk_setting_node(r->yaml, s, r->use->map, &node, r->err);
    if (status || node == STK_YAML_NONE || stk_config_given(r->use, s->name)) return status;
    const char *text = stk_value_text(r->yaml, node, room, sizeof room);
    return assign(r, hit, text, text, node);
}

static int read_settings(reader *r)
{
    /* Read by the room that knows the ops (src/augment/config_apply.c). */
    static const char *const mixing[] = { "mixup",        "cutmix",     "mixup_alpha",
                                          "cutmix_alpha", "mixup_prob", "cutmix_prob" };
    stk_option_hit augment;
    int status = read_folders(r);
    for (const char *const *setting = r->use->also; setting && *setting; setting++) use_all(r, *setting);
    for (size_t i = 0; find_option(r, "augment", &augment) && i < sizeof mixing / sizeof *mixing; i++)
        use_all(r, mixing[i]);
    for (size_t i = 0; !status && i < stk_settings_count; i++) {
        const stk_setting *s = &stk_settings[i];
        stk_option_hit hit;
        if (s->reading == STK_READ_NOT) { /* but of a command that has an option of the very name */
            status = find_option(r, s->name, &hit) ? read_by_name(r, s, hit) : STOKE_OK;
            continue;
        }
        if (!s->own || !find_option(r, s->own, &hit)) continue;
        if (stk_config_given(r->use, s->own))
            use_all(r, s->name);
        else
            status = read_setting(r, s, hit);
    }
    return status;
}

/* ---- what is left ---- */

static int is_leaf(const stoke_yaml *yaml, uint32_t index)
{
    const stk_yaml_node *node = &yaml->nodes[index];
    if (node->key == STK_YAML_NONE || !node->path || node->kind == STK_YAML_MAPPING) return 0;
    if (node->computed) return 0; /* what Python computes is seldom a setting */
    for (uint32_t i = node->parent; i != STK_YAML_NONE; i = yaml->nodes[i].parent)
        if (yaml->nodes[i].kind == STK_YAML_SEQUENCE) return 0;
    const char *key = stk_key_of(yaml, index);
    return !key || strcmp(key, "<<") != 0;
}

static void say_unused(const reader *r)
{
    char list[768] = "", more[48] = "";
    size_t n = 0;
    for (uint32_t i = 0; i < r->yaml->n_nodes; i++)
        if (!r->used[i] && is_leaf(r->yaml, i) && n++ < NAMED)
            stk_text_add(list, sizeof list, ", ", "%.80s", r->yaml->nodes[i].path);
    if (n > NAMED) snprintf(more, sizeof more, " and %zu more", n - NAMED);
    if (n) stk_config_remark(r->use, "%s: not used here: %s%s", r->yaml->name, list, more);
}

int stk_foreign_read(const stoke_yaml *yaml, stoke_config_use *use, stoke_option_storage **storage,
                     stoke_error *err)
{
    reader r = { .yaml = yaml, .use = use, .err = err };
    *storage = NULL;
    int status = stk_yaml_check(yaml, err);
    if (!status) status = stk_foreign_check_names(yaml, use, err);
    if (status) return status;
    r.storage = stk_option_storage();
    r.used = stk_calloc(yaml->n_nodes, 1);
    status = r.storage && r.used ? read_settings(&r) : stk_yaml_no_memory(yaml, err);
    if (!status) say_unused(&r);
    stk_free(r.used);
    if (status) stoke_options_free_storage(&r.storage);
    *storage = r.storage;
    return status;
}
