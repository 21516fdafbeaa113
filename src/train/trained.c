/* SPDX-License-Identifier: Apache-2.0
 *
 * What a path given as a trained network stands for, and the settings of the run it came from.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <stoke/tools/predict.h>
#include <stoke/tools/train.h>
#include <stoke/tools/data.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/base/retry.h"
#include "src/train/predict.h"

struct stoke_trained {
    char weights[PATH_MAX], config[PATH_MAX]; /* config "": no run */
    stoke_data_params data;
    stoke_train_params train;
    stoke_option_storage *storage; /* of the strings in data */
};

static int join(char path[static PATH_MAX], const char *folder, const char *name, stoke_error *err)
{
    if (snprintf(path, PATH_MAX, "%s/%s", folder, name) < PATH_MAX) return STOKE_OK;
    return stk_fail(err, STOKE_E_LIMIT, "%.200s...: the path is too long", folder);
}

static int is_file(const char *folder, const char *name)
{
    char path[PATH_MAX];
    struct stat st;
    if (join(path, folder, name, NULL)) return 0;
    return stoke_stat(path, &st) == 0 ? S_ISREG(st.st_mode) : !stoke_is_absent(errno);
}

/* Weights lie in it; a set's folder may have a config.json, too. */
static int is_network(const char *folder)
{
    return is_file(folder, "config.json") &&
           (is_file(folder, "model.safetensors") || is_file(folder, "model.safetensors.index.json"));
}

/* A run's own files: its settings, and its log. */
static int is_run(const char *folder)
{
    return is_file(folder, "config.yaml") && is_file(folder, "log.jsonl");
}

static int find_in_run(stoke_trained *t, const char *run, stoke_error *err)
{
    static const char *const kept[] = { "best", "last" };
    int status = join(t->config, run, "config.yaml", err);
    for (size_t i = 0; !status && i < sizeof kept / sizeof *kept; i++) {
        status = join(t->weights, run, kept[i], err);
        if (!status && is_network(t->weights)) return STOKE_OK;
    }
    if (status) return status;
    return stk_fail(err, STOKE_E_NOTFOUND,
                    "%s: the run has no network yet, neither best/ nor last/: it writes the first one at its "
                    "first evaluation",
                    run);
}

static int find(stoke_trained *t, const char *path, stoke_error *err)
{
    struct stat st;
    char parent[PATH_MAX];
    if (strlen(path) >= PATH_MAX)
        return stk_fail(err, STOKE_E_LIMIT, "%.200s...: the path is too long", path);
    const int there = stoke_stat(path, &st) == 0;
    if (!there && !stoke_is_absent(errno))
        return stk_fail_errno(err, STOKE_E_IO, errno, "%s: cannot be looked at", path);
    if (!there) return stoke_run_missing(path, err);
    snprintf(t->weights, sizeof t->weights, "%s", path);
    if (!S_ISDIR(st.st_mode)) return STOKE_OK; /* what it holds is seen when it is read */
    if (is_network(path)) {
        const int status = join(parent, path, "..", err);
        /* best/ or last/ of a run: the settings lie beside it. */
        return status || !is_run(parent) ? status : join(t->config, parent, "config.yaml", err);
    }
    if (is_run(path)) return find_in_run(t, path, err);
    return stk_fail(err, STOKE_E_NOTFOUND,
                    "%s: neither a run (config.yaml, log.jsonl, best/) nor a network (config.json, "
                    "model.safetensors) is in this folder",
                    path);
}

int stoke_trained_open(stoke_trained **out, const char *path, stoke_error *err)
{
    *out = NULL;
    stoke_trained *t = stk_calloc(1, sizeof *t);
    if (!t) return stk_fail(err, STOKE_E_NOMEM, "%s: no memory", path);
    t->data = stoke_data_defaults();
    t->train = stoke_train_defaults();
    int status = find(t, path, err);
    if (!status && *t->config) {
        const stoke_option_group groups[] = { stoke_data_options(&t->data), stoke_train_options(&t->train) };
        status = stoke_settings_load_yaml(groups, 2, &t->data, t->config, &t->storage, err);
        if (!status) status = stoke_run_follow(t->config, &t->data, &t->train, t->storage, err);
    }
    if (status)
        stoke_trained_close(&t);
    else
        *out = t;
    return status;
}

void stoke_trained_close(stoke_trained **trained)
{
    if (!*trained) return;
    stoke_options_free_storage(&(*trained)->storage);
    stk_free(*trained);
    *trained = NULL;
}

const char *stoke_trained_weights(const stoke_trained *trained)
{
    return trained->weights;
}

const char *stoke_trained_config(const stoke_trained *trained)
{
    return *trained->config ? trained->config : NULL;
}

const stoke_data_params *stoke_trained_data(const stoke_trained *trained)
{
    return &trained->data;
}

stoke_predict_mode stoke_trained_eval_mode(const stoke_trained *trained)
{
    /* Pictures that are restored are evaluated whole in any case. */
    return trained->data.task == STOKE_TASK_RESTORE ? STOKE_PREDICT_AUTO
                                                    : (stoke_predict_mode)trained->train.eval_mode;
}

void stoke_trained_settings(const stoke_trained *trained, stoke_predict_params *params)
{
    params->weights = trained->weights;
    if (!*trained->config) return;
    /* Pictures that are restored come in tiles, whatever was cut out of them for training. */
    if (!stk_predict_restores(trained->weights)) {
        params->size[0] = trained->data.size[0];
        params->size[1] = trained->data.size[1];
    }
    params->augment = trained->data.augment;
    params->precision = trained->train.precision;
}
