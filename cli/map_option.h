/* SPDX-License-Identifier: Apache-2.0
 *
 * --map: where settings stand in somebody's file, for commands that read one of any dialect.
 */
#ifndef STOKE_CLI_MAP_OPTION_H
#define STOKE_CLI_MAP_OPTION_H

#include "cli/common.h"

/* The option, of a struct that has `const char *map`. */
#define CLI_MAP_OPTION(holder)                                                                               \
    {                                                                                                        \
        .name = "map", .type = STOKE_OPT_STRING, .offset = offsetof(holder, map), .argument = "LIST",        \
        .help = "Where a setting stands that has another name, or several candidates: setting=path, with "   \
                "commas between more than one, such as batch_size=data.bs,num_workers=data.nw"               \
    }

enum { CLI_MAPS = 32 };

typedef struct cli_map {
    char *text;
    const char *paths[CLI_MAPS + 1]; /* NULL-terminated, as stoke_config_find takes them */
} cli_map;

/* Cuts "a=b,c=d"; NULL has none. Free it in every case. */
int cli_map_cut(cli_map *map, const char *text, stoke_error *err);
void cli_map_free(cli_map *map);

#endif
