/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/lib/map_option.h"

#include <stdlib.h>
#include <string.h>

int cli_map_cut(cli_map *map, const char *text, stoke_error *err)
{
    size_t n = 0;
    char *rest = NULL;
    *map = (cli_map){ 0 };
    if (!text) return STOKE_OK;
    map->text = cli_alloc(strlen(text) + 1, 1);
    strcpy(map->text, text);
    for (char *word = strtok_r(map->text, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
        if (n == CLI_MAPS) return cli_error(err, STOKE_E_INVALID, "--map: more than %d settings", CLI_MAPS);
        map->paths[n++] = word;
    }
    return STOKE_OK;
}

void cli_map_free(cli_map *map)
{
    free(map->text);
    *map = (cli_map){ 0 };
}
