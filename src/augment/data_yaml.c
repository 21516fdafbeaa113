/* SPDX-License-Identifier: Apache-2.0
 *
 * stoke.yaml: the option table reads its keys, the pipeline the list of ops under `augment`.
 */
#include <string.h>

#include "src/augment/pipeline.h"
#include "src/base/error.h"
#include "src/base/file.h"
#include "src/base/mem.h"
#include "src/base/options_private.h"
#include <stoke/data.h>

enum { FILE_LIMIT = 1 << 20 };

/* The list as text, which is what the field holds. */
static int read_ops(stoke_data_params *params, const char *path, const void *bytes, size_t size,
                    stoke_option_storage *storage, stoke_error *err)
{
    stoke_pipeline *pipeline = stk_calloc(1, sizeof *pipeline);
    if (!pipeline) return stk_fail(err, STOKE_E_NOMEM, "%s: out of memory", path);
    int r = stk_pipeline_read_yaml(pipeline, path, bytes, size, STK_YAML_LISTS, err);
    if (!r && pipeline->n_steps) {
        stk_pipeline_describe(pipeline);
        params->augment = stk_option_keep(storage, pipeline->text, strlen(pipeline->text));
        if (!params->augment) r = stk_fail(err, STOKE_E_NOMEM, "%s: out of memory", path);
    }
    stk_free(pipeline);
    return r;
}

int stoke_settings_load_yaml(const stoke_option_group *groups, size_t n_groups, stoke_data_params *data,
                             const char *path, stoke_option_storage **storage, stoke_error *err)
{
    static const char *const lists[] = { "augment", NULL };
    stk_buffer file = { 0 };
    size_t size = 0;
    *storage = NULL;
    int r = stk_file_read(path, FILE_LIMIT, &file, &size, err);
    if (r == STOKE_E_FORMAT) r = STOKE_OK; /* an empty file: all defaults */
    const void *bytes = size ? file.data : (const void *)"";
    if (!r) r = stk_options_read_yaml(groups, n_groups, path, bytes, size, lists, storage, err);
    if (!r && size) r = read_ops(data, path, bytes, size, *storage, err);
    if (r) stoke_options_free_storage(storage);
    stk_buffer_free(&file);
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
