/* SPDX-License-Identifier: Apache-2.0
 *
 * Option tables, that of the data path, of training and of feeding a device, as people meet them: in sections
 * of --help, with the defaults of the command at hand, and together in one file.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/lib/settings.h"

/* A table is one long list; people look for things in sections. Each begins at an option and goes on to the
 * next one named here. */
static const struct {
    const char *first, *title;
} sections[] = {
    { "data", "Where samples come from" },
    { "task", "Pairs of picture and picture" },
    { "classes", "What masks mean" },
    { "decode", "Decoding" },
    { "size", "What a batch holds" },
    { "order", "Order" },
    { "workers", "Running" },
    { "cache", "Keeping decoded samples" },
    { "model", "The network" },
    { "epochs", "How long" },
    { "loss", "Loss" },
    { "optimizer", "Optimiser" },
    { "eval_every", "Evaluation" },
    { "runs", "The run and its folder" },
};
_Static_assert(CLI_COUNT(sections) == CLI_SECTIONS, "a group for every section");

size_t cli_sections(const stoke_option_group *all, stoke_option_group *groups)
{
    size_t n = 0;
    for (size_t i = 0; i < all->count; i++) {
        for (size_t k = 0; k < CLI_SECTIONS; k++)
            if (!strcmp(all->options[i].name, sections[k].first))
                groups[n++] = (stoke_option_group){ sections[k].title, all->options + i, 0, all->target };
        if (n) groups[n - 1].count++;
    }
    return n;
}

/* Of `train`, and of commands that prepare or continue its work. */
static const cli_default train_defaults[] = {
    { "augment", "standard" },   /* few sets are so large that training does better without */
    { "normalize", "imagenet" }, /* what the network takes */
    { "batch", "auto" },
    { 0 },
};

void cli_leave_augment(cli_call *call)
{
    /* The text of the table itself: a word that somebody wrote lies elsewhere. */
    if (call->data.augment == train_defaults[0].text) call->data.augment = NULL;
}

stoke_option *cli_own_defaults(const cli_call *call, const stoke_option_group *all)
{
    const cli_default *defaults = call->trains ? train_defaults : call->command->defaults;
    if (!defaults->name) return NULL;
    stoke_option *table = cli_alloc(all->count, sizeof *table);
    memcpy(table, all->options, all->count * sizeof *table);
    for (; defaults->name; defaults++)
        for (size_t i = 0; i < all->count; i++)
            if (!strcmp(table[i].name, defaults->name)) table[i].default_text = defaults->text;
    return table;
}

const char *cli_settings_file(const cli_call *call, char path[CLI_PATH])
{
    if (call->common.config) return call->common.config;
    if (call->command->takes_network && call->n_words) {
        stoke_trained *trained = NULL;
        if (stoke_trained_open(&trained, call->words[0], NULL)) return NULL; /* the command will say it */
        const char *config = stoke_trained_config(trained);
        if (config) snprintf(path, CLI_PATH, "%s", config);
        stoke_trained_close(&trained);
        return config ? path : NULL;
    }
    if (!call->trains || !call->train.resume) return NULL;
    snprintf(path, CLI_PATH, "%s/config.yaml", call->train.resume);
    return path;
}

int cli_find_run(cli_call *call, stoke_error *err)
{
    stoke_train_params *train = &call->train;
    char folder[CLI_PATH];
    if (call->command != &cli_train || !train->go_on) return STOKE_OK;
    if (!call->run_found && train->resume)
        return cli_error(err, STOKE_E_INVALID, "--resume names the run already: --continue goes with --name");
    if (!call->run_found && train->name &&
        snprintf(folder, sizeof folder, "%s/%s", train->runs, train->name) < CLI_PATH &&
        !stoke_run_check(folder, NULL))
        call->run_found = strcpy(cli_alloc(1, strlen(folder) + 1), folder);
    if (call->run_found) train->resume = call->run_found; /* its file of settings does not name it */
    return STOKE_OK;
}

/* Names of options that the flags say, with `_`; a set that is named at all takes the place of the file's. */
static const char **said_by_flags(const cli_call *call, int names_set)
{
    const char **names = cli_alloc((size_t)call->argc + 4, sizeof *names);
    size_t n = 0;
    if (names_set) names[n++] = "data";
    if (call->command == &cli_recipe_progressive) { /* its stages say both */
        names[n++] = "model";
        names[n++] = "size";
    }
    for (size_t g = 0; g < call->n_groups; g++)
        for (size_t i = 0; i < call->groups[g].count; i++) {
            const char *name = call->groups[g].options[i].name;
            if (n < (size_t)call->argc + 3 && cli_has_flag(call, name)) names[n++] = name;
        }
    return names;
}

/* The groups a file may fill are those of the three tables, not the command's own and the common ones. */
int cli_load_settings(cli_call *call, const char *path, int names_set, stoke_error *err)
{
    stoke_train_params unused = stoke_train_defaults();
    stoke_upload_params no_upload = stoke_upload_defaults();
    stoke_option_group groups[CLI_MAX_GROUPS], known[3];
    char *remarks = cli_alloc(1, CLI_REMARKS);
    const char **given = said_by_flags(call, names_set);
    stoke_config_use use = { .groups = groups, .known = known, .given = given, .remarks = remarks };
    static const char *const set[] = { "data_root", "images_dir", "masks_dir", "targets_dir", NULL };
    use.remarks_size = CLI_REMARKS;
    if (call->command->sees_set) use.also = set;
    use.origins = call->origins;
    use.max_origins = CLI_COUNT(call->origins);
    for (size_t i = 0; i < call->n_groups; i++) {
        const void *target = call->groups[i].target;
        const int own = call->command->reads_config && target == call->options;
        if (own || target == &call->data || target == &call->train || target == &call->upload)
            groups[use.n_groups++] = call->groups[i];
    }
    if (!call->command->reads_data) known[use.n_known++] = stoke_data_options(&call->data);
    if (!call->trains) known[use.n_known++] = stoke_train_options(&unused);
    if (!call->command->reads_upload) known[use.n_known++] = stoke_upload_options(&no_upload);
    int r = stoke_config_open(&call->settings, path, err);
    if (!r) r = stoke_config_apply(call->settings, &use, &call->data, &call->storage, err);
    call->n_origins = use.n_origins;
    if (!r) cli_say_lines(call, remarks);
    free(given);
    free(remarks);
    if (r) return r;
    return stoke_run_follow(path, &call->data, call->trains ? &call->train : &unused, call->storage, err);
}

int cli_repeat_defaults(cli_call *call, stoke_error *err)
{
    const cli_default *own = call->command->takes_network ? call->command->defaults : NULL;
    int r = STOKE_OK;
    for (; !r && own && own->name; own++) r = cli_set_data(&call->data, own->name, own->text, err);
    return r;
}

/* ---- --map ---- */

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
