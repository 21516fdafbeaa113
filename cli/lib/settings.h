/* SPDX-License-Identifier: Apache-2.0
 *
 * Settings of data and training as a command has them: in sections, with its own defaults, from a file.
 */
#ifndef STOKE_CLI_LIB_SETTINGS_H
#define STOKE_CLI_LIB_SETTINGS_H

#include "cli/lib/common.h"
#include "cli/lib/output.h"

/* Training chooses its augmentation by the task, where nobody did: the table's default becomes NULL. */
void cli_leave_augment(cli_call *call);
/* A copy of the table with the command's own defaults, which --help shows; NULL: it has none. free() it. */
stoke_option *cli_own_defaults(const cli_call *call, const stoke_option_group *all);

/* --continue: names the run to resume if it is there. Again after a file of settings, which may ask for it.
 */
int cli_find_run(cli_call *call, stoke_error *err);
/* The file that settings come from before flags do: that of --config, or the config.yaml of the run that
 * --resume or the first word names. NULL: none. `path` is room for it. */
const char *cli_settings_file(const cli_call *call, char path[CLI_PATH]);
/* Reads it, in any dialect. Keys of training, and of feeding a device, are checked, and left alone, by
 * commands that do not. names_set: the command line names the data, so the file's are not looked at. */
int cli_load_settings(cli_call *call, const char *path, int names_set, stoke_error *err);
/* Sets the command's own defaults once more, above what was read from a run; nothing for commands that take
 * no network. */
int cli_repeat_defaults(cli_call *call, stoke_error *err);

/* Whether an option is among the arguments, by its name in the table (with _). */
int cli_has_flag(const cli_call *call, const char *name);
/* Whether a word is a flag, with or without a value, of one of the names between blanks. */
int cli_flag_is(const char *word, const char *names);

/* ---- somebody's settings file, of any dialect: which, where settings stand in it, for how many processes
 * ---- */

/* Of OPTIONS that have `const char *config`, `int64_t ranks`, `const char *map`. */
#define CLI_CONFIG_OPTION(text) CLI_TEXT(STRING, config, NULL, "FILE", text)
#define CLI_RANKS_OPTION(text)  CLI_NUMBER(INT, ranks, "1", 1, 1024, "N", text)
#define CLI_MAP_OPTION                                                                                       \
    CLI_TEXT(STRING, map, NULL, "LIST",                                                                      \
             "Where a setting stands that has another name, or several candidates: setting=path, with "      \
             "commas between more than one, such as batch_size=data.bs,num_workers=data.nw")

enum { CLI_MAPS = 32 };

typedef struct cli_map {
    char *text;
    const char *paths[CLI_MAPS + 1]; /* NULL-terminated, as stoke_config_find takes them */
} cli_map;

/* Cuts "a=b,c=d"; NULL has none. Free it in every case. */
int cli_map_cut(cli_map *map, const char *text, stoke_error *err);
void cli_map_free(cli_map *map);

#endif
