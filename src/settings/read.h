/* SPDX-License-Identifier: Apache-2.0
 *
 * Settings files into our options: our own ones, strictly, and somebody's.
 */
#ifndef STOKE_SRC_SETTINGS_READ_H
#define STOKE_SRC_SETTINGS_READ_H

#include "src/base/option_table.h"
#include "src/settings/yaml_tree.h"

/* ---- ours: own.c ---- */

/* Reads the tree into the groups; sections `data:`, `loader:`, `model:`, `train:` and `training:` are
 * accepted and flattened. Errors carry "file:line:", and then nothing has changed. The strings live in
 * *storage. Keys named in `passed_over` (NULL-terminated, may be NULL) belong to others and are passed over,
 * an option of such a name where its value is a list; any other unknown key is an error. */
int stk_own_read(const stoke_yaml *yaml, const stoke_option_group *groups, size_t n_groups,
                 const char *const *passed_over, stoke_option_storage **storage, stoke_error *err);

/* Whether a mapping under this key is a section: its settings count as if they stood at the top. */
int stk_yaml_is_section(const char *key);

/* ---- somebody's: foreign.c ---- */

/* Reads what the groups of `use` take. A value that is not understood is a remark; a network that is not
 * known, and a setting that stands there twice, an error. */
int stk_foreign_read(const stoke_yaml *yaml, stoke_config_use *use, stoke_option_storage **storage,
                     stoke_error *err);
/* STOKE_E_NOTFOUND, with its line: a key that is one of ours but for a slip, in a file that is ours but for a
 * key of others. In any other file their keys are theirs. */
int stk_foreign_check_names(const stoke_yaml *yaml, const stoke_config_use *use, stoke_error *err);
/* A line of the remarks. */
void stk_config_remark(const stoke_config_use *use, const char *format, ...) STOKE_PRINTF(2, 3);
/* Whether an option is said above the file. */
int stk_config_given(const stoke_config_use *use, const char *option);

#endif
