/* SPDX-License-Identifier: Apache-2.0
 *
 * A settings file into the options of data and whatever else stands in it: our own strictly, with a list of
 * ops under `augment`; another trainer's by its names, with what it says of MixUp and CutMix.
 */
#include <stdio.h>
#include <string.h>

#include "src/augment/pipeline.h"
#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/settings/read.h"
#include "src/settings/keys.h"
#include <stoke/augment.h>
#include <stoke/tools/data.h>

enum { GROUPS = 32 };

/* ---- ours ---- */

/* The list as text, which is what the field holds. */
static int read_ops(stoke_data_params *params, const stoke_yaml *yaml, stoke_option_storage *storage,
                    stoke_error *err)
{
    stoke_pipeline *pipeline = stk_calloc(1, sizeof *pipeline);
    if (!pipeline) return stk_yaml_no_memory(yaml, err);
    int r = stk_pipeline_read_tree(pipeline, yaml, STK_YAML_LISTS, err);
    if (!r && pipeline->n_steps) {
        stk_pipeline_describe(pipeline);
        params->augment = stk_option_keep(storage, pipeline->text, strlen(pipeline->text));
        if (!params->augment) r = stk_yaml_no_memory(yaml, err);
    }
    stk_free(pipeline);
    return r;
}

static int apply_own(const stoke_yaml *yaml, const stoke_config_use *use, stoke_data_params *data,
                     stoke_option_storage **storage, stoke_error *err)
{
    static const char *const lists[] = { "augment", NULL };
    stoke_option_group all[GROUPS];
    if (use->n_groups + use->n_known > GROUPS)
        return stk_fail(err, STOKE_E_LIMIT, "more than %d groups of options", GROUPS);
    memcpy(all, use->groups, use->n_groups * sizeof *all);
    if (use->n_known) memcpy(all + use->n_groups, use->known, use->n_known * sizeof *all);
    int r = stk_own_read(yaml, all, use->n_groups + use->n_known, lists, storage, err);
    if (!r) r = read_ops(data, yaml, *storage, err);
    return r;
}

/* ---- those of others ---- */

/* "mixup(alpha=0.2,p=0.3)" where the file asks for it. */
static int mix_text(const stoke_yaml *yaml, const stoke_config_use *use, const char *op, char *text,
                    size_t size)
{
    char name[32], room[64], alpha[64] = "", chance[64] = "";
    const char *asked = stk_setting_text(yaml, op, use->map, room, sizeof room);
    text[0] = 0;
    if (!asked || stk_truth(asked) != 1) return 0;
    snprintf(name, sizeof name, "%s_alpha", op);
    const char *value = stk_setting_text(yaml, name, use->map, room, sizeof room);
    if (value) snprintf(alpha, sizeof alpha, "alpha=%.40s", value);
    snprintf(name, sizeof name, "%s_prob", op);
    value = stk_setting_text(yaml, name, use->map, room, sizeof room);
    if (value) snprintf(chance, sizeof chance, "%sp=%.40s", *alpha ? "," : "", value);
    snprintf(text, size, *alpha || *chance ? "%s(%s%s)" : "%s%s%s", op, alpha, chance);
    return 1;
}

/* Keeps the augmentation that was before where the file's is none that is known. */
static int settle_augment(const stoke_yaml *yaml, const stoke_config_use *use, stoke_data_params *data,
                          const char *before, stoke_option_storage *storage, stoke_error *err)
{
    static const char *const ops[] = { "mixup", "cutmix" };
    stoke_pipeline *pipeline = NULL;
    stoke_error reason = { 0 };
    if (data->augment && data->augment != before &&
        stoke_pipeline_create(&pipeline, data->augment, &reason)) {
        stk_config_remark(use, "%s: augmentation '%.60s' is none that is known here; %s is taken", yaml->name,
                          data->augment, before ? before : "none");
        data->augment = before;
    }
    stoke_pipeline_destroy(&pipeline);
    for (size_t i = 0; i < 2; i++) {
        char op[160], all[4096];
        if (!mix_text(yaml, use, ops[i], op, sizeof op)) continue;
        const int none = !data->augment || !strcmp(data->augment, "none");
        snprintf(all, sizeof all, "%.3800s%s%s", none ? "" : data->augment, none ? "" : ",", op);
        if (stoke_pipeline_create(&pipeline, all, &reason)) {
            stk_config_remark(use, "%s: %s is left out: %.300s", yaml->name, ops[i], reason.message);
        } else {
            data->augment = stk_option_keep(storage, all, strlen(all));
            if (!data->augment) return stk_yaml_no_memory(yaml, err);
        }
        stoke_pipeline_destroy(&pipeline);
    }
    return STOKE_OK;
}

/* ---- both ---- */

int stoke_config_apply(const stoke_yaml *config, stoke_config_use *use, stoke_data_params *data,
                       stoke_option_storage **storage, stoke_error *err)
{
    const char *before = data->augment;
    stk_option_hit hit;
    int r;
    *storage = NULL;
    if (use->remarks && use->remarks_size) use->remarks[0] = 0;
    use->n_origins = 0;
    if (!stk_is_foreign(config)) {
        r = apply_own(config, use, data, storage, err);
    } else {
        r = stk_foreign_read(config, use, storage, err);
        if (!r && stk_option_find(use->groups, use->n_groups, "augment", strlen("augment"), &hit) &&
            !stk_config_given(use, "augment"))
            r = settle_augment(config, use, data, before, *storage, err);
    }
    if (r) stoke_options_free_storage(storage);
    return r;
}

int stoke_settings_load_yaml(const stoke_option_group *groups, size_t n_groups, stoke_data_params *data,
                             const char *path, stoke_option_storage **storage, stoke_error *err)
{
    stoke_config_use use = { .groups = groups, .n_groups = n_groups };
    stoke_yaml *yaml = NULL;
    *storage = NULL;
    int r = stoke_config_open(&yaml, path, err);
    if (!r) r = stoke_config_apply(yaml, &use, data, storage, err);
    stoke_yaml_close(&yaml);
    return r;
}

int stoke_data_load_yaml(stoke_data_params *params, const char *path, stoke_option_storage **storage,
                         stoke_error *err)
{
    stoke_data_params read = *params; /* a bad file changes nothing */
    const stoke_option_group group = stoke_data_options(&read);
    const int r = stoke_settings_load_yaml(&group, 1, &read, path, storage, err);
    if (!r) *params = read;
    return r;
}
