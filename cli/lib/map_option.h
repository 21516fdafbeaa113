/* SPDX-License-Identifier: Apache-2.0
 *
 * Options of commands that read somebody's settings file, of any dialect: which file, where settings stand in
 * it, for how many processes.
 */
#ifndef STOKE_CLI_LIB_MAP_OPTION_H
#define STOKE_CLI_LIB_MAP_OPTION_H

#include "cli/lib/common.h"

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
