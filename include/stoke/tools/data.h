/* SPDX-License-Identifier: Apache-2.0
 *
 * What our own programs use beyond <stoke/data.h>. No promise: it may change with any version.
 */
#ifndef STOKE_TOOLS_DATA_H
#define STOKE_TOOLS_DATA_H

#include <stoke/data.h>
#include <stoke/tools/config.h>

/* The table, bound to a struct: pass it to stoke_options_parse, _load_yaml, _print_help. */
STOKE_API stoke_option_group stoke_data_options(stoke_data_params *params);

/* Fills the groups of `use` from a settings file of any dialect (<stoke/tools/config.h>); some of them fill
 * `data`, whose `augment` may be a list of ops there and becomes one line of text. Errors carry "file:line:";
 * after one the targets are to be filled with their defaults again. Strings live in *storage. */
STOKE_API int stoke_config_apply(const stoke_yaml *config, stoke_config_use *use, stoke_data_params *data,
                                 stoke_option_storage **storage, stoke_error *err);

/* The same for a file by its name, without remarks. */
STOKE_API int stoke_settings_load_yaml(const stoke_option_group *groups, size_t n_groups,
                                       stoke_data_params *data, const char *path,
                                       stoke_option_storage **storage, stoke_error *err);

/* The element types chosen by params->dtype / mask_dtype (`label_depth` = stoke_labels_depth for auto). */
STOKE_API stoke_dtype stoke_data_image_dtype(const stoke_data_params *params);

STOKE_API stoke_dtype stoke_data_mask_dtype(const stoke_data_params *params, uint8_t label_depth);

#endif
