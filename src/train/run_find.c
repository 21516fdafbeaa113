/* SPDX-License-Identifier: Apache-2.0
 *
 * A run that is asked for and not there: which runs there are.
 */
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include <stoke/tools/predict.h>
#include <stoke/tools/train.h>

#include "src/base/error.h"
#include "src/base/remarks.h"
#include "src/base/retry.h"

/* Runs that are named; of more there is the number. They fit into a message. */
enum { NAMED = 5, RUN_NAME = 64 };

/* The runs of a folder: the first by name, whatever order the file system has. */
typedef struct run_list {
    char name[NAMED][RUN_NAME];
    size_t n, all;
} run_list;

static void add_run(run_list *list, const char *name)
{
    size_t at = 0;
    list->all++;
    if (strlen(name) >= RUN_NAME) return; /* counted, not named */
    while (at < list->n && strcmp(list->name[at], name) < 0) at++;
    if (at == NAMED) return;
    if (list->n < NAMED) list->n++;
    memmove(list->name + at + 1, list->name + at, (list->n - at - 1) * sizeof *list->name);
    strcpy(list->name[at], name);
}

static void list_runs(run_list *list, const char *folder)
{
    char config[PATH_MAX];
    DIR *dir = stoke_opendir(folder);
    if (!dir) return;
    for (const struct dirent *e; (e = stoke_readdir(dir));)
        if (*e->d_name != '.' &&
            snprintf(config, sizeof config, "%s/%s/config.yaml", folder, e->d_name) < PATH_MAX &&
            stoke_there(config))
            add_run(list, e->d_name);
    stk_closedir(dir);
}

int stoke_run_missing(const char *path, stoke_error *err)
{
    run_list list = { .n = 0 };
    char folder[PATH_MAX] = "", text[NAMED * (RUN_NAME + 2)] = "", more[48] = "";
    size_t length = strlen(path);
    while (length && path[length - 1] == '/') length--;
    while (length && path[length - 1] != '/') length--;
    while (length > 1 && path[length - 1] == '/') length--;
    /* `stoke eval first` for runs/first is a slip that the list shows. */
    if (length < PATH_MAX)
        snprintf(folder, sizeof folder, "%.*s", length ? (int)length : PATH_MAX,
                 length ? path : stoke_train_defaults().runs);
    list_runs(&list, folder);
    for (size_t i = 0; i < list.n; i++) stk_text_add(text, sizeof text, ", ", "%s", list.name[i]);
    if (list.n && list.all > list.n) snprintf(more, sizeof more, " and %zu more", list.all - list.n);
    if (list.n)
        return stk_fail(err, STOKE_E_NOTFOUND,
                        "%.300s: there is no such run or network; the runs in %.300s are %s%s", path, folder,
                        text, more);
    return stk_fail(err, STOKE_E_NOTFOUND,
                    "%.300s: there is no such run or network, and no run in %.300s: `stoke train` makes one",
                    path, folder);
}

int stoke_run_check(const char *path, stoke_error *err)
{
    char config[PATH_MAX];
    if (!stoke_there(path)) return stoke_run_missing(path, err);
    if (snprintf(config, sizeof config, "%s/config.yaml", path) >= PATH_MAX || !stoke_there(config))
        return stk_fail(err, STOKE_E_NOTFOUND,
                        "%.600s: no run to resume: it has no config.yaml, which every run begins with", path);
    return STOKE_OK;
}
