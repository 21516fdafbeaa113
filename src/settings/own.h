/* SPDX-License-Identifier: Apache-2.0
 *
 * Our own settings files: the strict reader, and what it shares with the reader of a list of ops.
 */
#ifndef STOKE_SRC_SETTINGS_OWN_H
#define STOKE_SRC_SETTINGS_OWN_H

#include "src/base/option_table.h"
#include "src/settings/yaml_tree.h"

/* Reads the tree into the groups; sections `data:`, `loader:`, `model:`, `train:` and `training:` are
 * accepted and flattened. Errors carry "file:line:", and then nothing has changed. The strings live in
 * *storage. Keys named in `passed_over` (NULL-terminated, may be NULL) belong to others and are passed over,
 * an option of such a name where its value is a list; any other unknown key is an error. */
int stk_own_read(const stoke_yaml *yaml, const stoke_option_group *groups, size_t n_groups,
                 const char *const *passed_over, stoke_option_storage **storage, stoke_error *err);

/* Whether a mapping under this key is a section: its settings count as if they stood at the top. */
int stk_yaml_is_section(const char *key);

#endif
