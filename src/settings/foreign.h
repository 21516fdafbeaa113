/* SPDX-License-Identifier: Apache-2.0
 *
 * Somebody's settings into our options.
 */
#ifndef STOKE_SRC_SETTINGS_FOREIGN_H
#define STOKE_SRC_SETTINGS_FOREIGN_H

#include "src/base/option_table.h"
#include "src/settings/keys.h"

/* Reads what the groups of `use` take. A value that is not understood is a remark; a network that is not
 * known, and a setting that stands there twice, an error. */
int stk_foreign_read(const stoke_yaml *yaml, stoke_config_use *use, stoke_option_storage **storage,
                     stoke_error *err);
/* A line of the remarks. */
void stk_config_remark(const stoke_config_use *use, const char *format, ...) STOKE_PRINTF(2, 3);
/* Whether an option is said above the file. */
int stk_config_given(const stoke_config_use *use, const char *option);

#endif
