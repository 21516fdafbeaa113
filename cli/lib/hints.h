/* SPDX-License-Identifier: Apache-2.0
 *
 * What people type who know other trainers: flags by their names there, a settings file without --config,
 * commands under other names.
 */
#ifndef STOKE_CLI_LIB_HINTS_H
#define STOKE_CLI_LIB_HINTS_H

#include "cli/lib/common.h"

/* Whether `name` (n letters, with - or _) is an option of this command. */
int cli_is_option(const cli_call *call, const char *name, size_t n);

/* Puts our own names in the place of flags that mean exactly the same (--batch_size, --num-workers), in
 * call->argv. */
void cli_translate_flags(cli_call *call);
/* Puts --config before a settings file that stands alone among the words of the first parse; 1: parse again.
 */
int cli_translate_file(cli_call *call);

/* Says of a flag that is not known what is meant as a rule; leaves err alone where that is not known. */
void cli_hint_flag(const cli_call *call, stoke_error *err);

/* What to type instead of a command that is not there; NULL: not known. */
const char *cli_hint_command(const char *word);

#endif
