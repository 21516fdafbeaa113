/* SPDX-License-Identifier: Apache-2.0
 *
 * Options of commands that read somebody's settings file, of any dialect: which file, where settings stand in
 * it, for how many processes.
 */
#ifndef STOKE_CLI_LIB_MAP_OPTION_H
#define STOKE_CLI_LIB_MAP_OPTION_H

#include "cli/lib/common.h"

/* Of a struct that has `const char *config`. */
#define CLI_CONFIG_OPTION(holder, text)                                                                      \
    {                                                                                                        \
        .name = "config", .type = STOKE_OPT_STRING, .offset = offsetof(holder, config), .argument = "FILE",  \
        .help = text                                                                                         \
    }

/* Of a struct that has `int64_t ranks`. */
#define CLI_RANKS_OPTION(holder, text)                                                                       \
    {                                                                                                        \
        .name = "ranks", .type = STOKE_OPT_INT, .offset = offsetof(holder, ranks), .default_text = "1",      \
        .min = 1, .max = 1024, .argument = "N", .help = text                                                 \
    }

/* Of a struct that has `const char *map`. */
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
