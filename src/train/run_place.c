/* SPDX-License-Identifier: Apache-2.0 */
#include "src/train/trainer.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <stoke/tools/train.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/base/option_table.h"
#include "src/base/ours.h"
#include "src/base/retry.h"

/* ---- settings that name files ---- */

enum { MOST_FIELDS = 10 };

static int ends_in_yaml(const char *text)
{
    const char *dot = strrchr(text, '.');
    return dot && (!strcmp(dot, ".yaml") || !strcmp(dot, ".yml"));
}

/* The fields that name a file now: some may hold a word or a list instead, or a name that means the folder of
 * the run. */
static size_t fields_of(stoke_data_params *data, stoke_train_params *params, const char **fields[MOST_FIELDS])
{
    const char **const plain[] = { &data->data,    &data->images, &data->masks,       &data->list,
                                   &data->weights, &data->cache,  &params->pretrained };
    size_t n = 0;
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (*plain[i] && **plain[i]) fields[n++] = plain[i];
    if (data->quarantine && *data->quarantine && strcmp(data->quarantine, stoke_data_defaults().quarantine))
        fields[n++] = &data->quarantine;
    if (data->augment && ends_in_yaml(data->augment)) fields[n++] = &data->augment;
    if (data->label_map && stk_there(data->label_map)) fields[n++] = &data->label_map;
    return n;
}

void stk_whole_paths_make(stk_run_whole_paths *own, stoke_data_params *data, stoke_train_params *params)
{
    const char **fields[MOST_FIELDS];
    char here[PATH_MAX], whole[2 * PATH_MAX];
    *own = (stk_run_whole_paths){ 0 };
    if (!getcwd(here, sizeof here)) return;
    const size_t n = fields_of(data, params, fields);
    for (size_t i = 0; i < n; i++) {
        const char *path = *fields[i];
        if (*path == '/') continue;
        while (!strncmp(path, "./", 2)) path += 2;
        snprintf(whole, sizeof whole, "%s/%s", strcmp(here, "/") ? here : "", path);
        char *copy = stk_strdup(whole);
        if (copy) *fields[i] = own->text[own->count++] = copy;
    }
}

void stk_whole_paths_free(stk_run_whole_paths *own)
{
    for (size_t i = 0; i < own->count; i++) stk_free(own->text[i]);
    *own = (stk_run_whole_paths){ 0 };
}

/* ---- a run that was moved ---- */

static stk_ours_kind kind_at(const char *place)
{
    return (stk_ours_kind){ .name = "run", .line = place };
}

void stk_run_place_write(const char *folder)
{
    char place[PATH_MAX];
    int unwritable;
    if (!realpath(folder, place) || strchr(place, '\n')) return;
    const stk_ours_kind kind = kind_at(place);
    stk_ours_mark(folder, &kind, &unwritable, NULL);
}

/* The length of a path without its last component. */
static size_t parent(const char *path, size_t length)
{
    while (length && path[length - 1] != '/') length--;
    return length ? length - 1 : 0;
}

/* Both paths without the run's own name and without the folders above it that are called alike: of
 * /a/proj/runs/x and /b/copy/runs/y these are /a/proj and /b/copy. What lay below the one now lies below the
 * other. */
int stk_run_place_map(const char *path, const char *was, const char *now, char *moved, size_t size)
{
    size_t a = parent(was, strlen(was)), b = parent(now, strlen(now));
    for (;;) {
        const size_t up = parent(was, a), over = parent(now, b);
        if (!up || !over || a - up != b - over || memcmp(was + up, now + over, a - up) != 0) break;
        a = up, b = over;
    }
    if (!a || strncmp(path, was, a) != 0 || path[a] != '/') return 0;
    const int n = snprintf(moved, size, "%.*s%s", (int)b, now, path + a);
    return n > 0 && (size_t)n < size;
}

/* Of a pattern the folder its shards are in. */
static int is_there(const char *path)
{
    char folder[PATH_MAX];
    const char *brace = strchr(path, '{');
    if (!brace) return stk_there(path);
    snprintf(folder, sizeof folder, "%.*s", (int)parent(path, (size_t)(brace - path)), path);
    return stk_there(*folder ? folder : ".");
}

static int folder_of(const char *config, char folder[static PATH_MAX])
{
    char path[PATH_MAX];
    const size_t n = parent(config, strlen(config));
    snprintf(path, sizeof path, "%.*s", (int)n, config);
    return realpath(n ? path : ".", folder) != NULL;
}

int stoke_run_follow(const char *config, stoke_data_params *data, stoke_train_params *params,
                     stoke_option_storage *storage, stoke_error *err)
{
    const char **fields[MOST_FIELDS];
    char now[PATH_MAX], was[PATH_MAX], moved[PATH_MAX];
    const stk_ours_kind kind = kind_at("");
    if (!folder_of(config, now) || !stk_ours_note(now, &kind, was, sizeof was) || !strcmp(was, now))
        return STOKE_OK;
    const size_t n = fields_of(data, params, fields);
    for (size_t i = 0; i < n; i++) {
        if (is_there(*fields[i]) || !stk_run_place_map(*fields[i], was, now, moved, sizeof moved) ||
            !is_there(moved))
            continue;
        const char *kept = stk_option_keep(storage, moved, strlen(moved));
        if (!kept) return stk_fail(err, STOKE_E_NOMEM, "%s: no memory", config);
        *fields[i] = kept;
    }
    return STOKE_OK;
}

int stoke_run_check_data(const char *config, const stoke_data_params *data, stoke_error *err)
{
    const char *const places[] = { data->data, data->images, data->masks, data->list };
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (places[i] && *places[i] && !is_there(places[i]))
            return stk_fail(err, STOKE_E_NOTFOUND,
                            "%s: the data of this run was here, and is gone%s: `data` DIR names the place "
                            "where it lies now (the settings are those of %s)",
                            places[i], *places[i] == '/' ? "" : ", or the run was started in another folder",
                            config);
    return STOKE_OK;
}
