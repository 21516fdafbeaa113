/* SPDX-License-Identifier: Apache-2.0
 *
 * The folder of a run: runs/NAME, made new and never mixed with another run's, or the one to go on with. One
 * process at a time works in it.
 */
#include "src/train/trainer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/error.h"
#include "src/base/file.h"
#include "src/base/ours.h"
#include "src/base/retry.h"
#include "src/base/terminal.h"
#include "src/train/run_report.h"

static char *join(const char *folder, const char *name, stoke_error *err)
{
    char *path = stk_path_join(folder, name);
    if (!path) stk_fail(err, STOKE_E_NOMEM, "no memory for the name of a file in %s", folder);
    return path;
}

char *stk_trainer_path(const stoke_trainer *t, const char *name, stoke_error *err)
{
    return join(t->folder, name, err);
}

/* 1: the folder holds something. -1: there is none, or it cannot be read (errno). */
static int entries(const char *folder)
{
    DIR *d = stk_opendir(folder);
    if (!d) return -1;
    int n = 0;
    for (const struct dirent *e; !n && (e = stk_readdir(d));)
        n = strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    errno = stk_closedir(d);
    return n || !errno ? n : -1;
}

static int check_new(const stoke_trainer *t, stoke_error *err)
{
    const int held = entries(t->folder);
    if (held < 0 && errno != ENOENT)
        return stk_fail_errno(err, STOKE_E_IO, errno, "%s: cannot be the folder of a run", t->folder);
    if (held > 0)
        return stk_fail(
            err, STOKE_E_INVALID,
            "%s exists already: `resume` %s goes on with that run, another `name` begins a new one",
            t->folder, STOKE_WORD(t->folder));
    return STOKE_OK;
}

static int check_old(const stoke_trainer *t, stoke_error *err)
{
    const int held = entries(t->folder);
    if (held < 0)
        return stk_fail_errno(err, errno == ENOENT ? STOKE_E_NOTFOUND : STOKE_E_IO, errno,
                              "%s: no run to resume", t->folder);
    char *config = stk_trainer_path(t, "config.yaml", err);
    if (!config) return STOKE_E_NOMEM;
    const int there = stk_there(config);
    stk_free(config);
    if (!there)
        return stk_fail(err, STOKE_E_NOTFOUND,
                        "%s: no run to resume: it has no config.yaml, which every run begins with",
                        t->folder);
    return STOKE_OK;
}

int stk_trainer_find_folder(stoke_trainer *t, stoke_error *err)
{
    const stoke_train_params *params = &t->setup.params;
    t->folder = params->resume ? stk_strdup(params->resume) : join(params->runs, params->name, err);
    if (!t->folder) return stk_fail(err, STOKE_E_NOMEM, "no memory for the name of the run's folder");
    return params->resume ? check_old(t, err) : check_new(t, err);
}

/* A second process would train over the first one's files. Where the file system has no locks we go
 * without. */
static int lock(stoke_trainer *t, stoke_error *err)
{
    t->folder_fd = stk_open(t->folder, O_RDONLY | O_DIRECTORY, 0);
    if (t->folder_fd < 0) return stk_fail_errno(err, STOKE_E_IO, errno, "%s: cannot open", t->folder);
    if (flock(t->folder_fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return stk_fail(err, STOKE_E_STATE, "%s: another process is training in this folder", t->folder);
    return STOKE_OK;
}

/* What a run that was killed left half written; with the lock nobody else can be at it. Files of other names,
 * whatever they end in, are the user's. */
static int sweep(const stoke_trainer *t, stoke_error *err)
{
    enum { MOST = 8 };
    static const char *const network[MOST] = { "config.json", "model.safetensors",
                                               "preprocessor_config.json" },
                             *const run[MOST] = { "config.yaml", "state.safetensors", "log.jsonl",
                                                  "metrics.csv", "report.html",       "live",
                                                  ".stokehold" },
                             *const pictures[MOST] = { "[0-9][0-9][0-9][0-9][0-9][0-9]*.png" };
    static const struct {
        const char *name;
        const char *const *files;
    } parts[] = {
        { "", run },
        { "best", network },
        { "last", network },
        { "predictions", pictures },
        { "curves", stk_curve_files },
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char *folder = stk_trainer_path(t, parts[i].name, err);
        if (!folder) return STOKE_E_NOMEM;
        stk_atomic_sweep(folder, parts[i].files);
        stk_free(folder);
    }
    return STOKE_OK;
}

int stk_trainer_claim_folder(stoke_trainer *t, stoke_error *err)
{
    t->is_new = !t->setup.params.resume && !stk_there(t->folder);
    int r = t->setup.params.resume ? STOKE_OK : stk_make_folders(t->folder, err);
    if (!r) r = lock(t, err);
    /* Another process may have had a whole run there since it was looked at. */
    if (!r) r = t->setup.params.resume ? sweep(t, err) : check_new(t, err);
    t->is_alone = !r && !t->setup.params.resume;
    return r;
}

/* What a run writes before its first step; names that we alone give. */
static int is_beginning(const char *name)
{
    static const char *const names[] = { "config.yaml", "live",          "log.jsonl",
                                         "metrics.csv", STK_OURS_MARKER, "quarantine.jsonl" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(name, names[i])) return 1;
    return !strncmp(name, "events.out.tfevents.", 20);
}

void stk_trainer_discard_folder(const stoke_trainer *t)
{
    struct stat st;
    DIR *d = stk_opendir(t->folder);
    if (!d) return;
    for (const struct dirent *e; (e = stk_readdir(d));)
        if (is_beginning(e->d_name) && stk_fstatat(t->folder_fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(st.st_mode))
            unlinkat(t->folder_fd, e->d_name, 0);
    stk_closedir(d);
    if (t->is_new) rmdir(t->folder); /* stays where somebody put a file of his own */
}

int stk_trainer_write_config(const stoke_trainer *t, stoke_error *err)
{
    stk_atomic_file config;
    char *path = stk_trainer_path(t, "config.yaml", err);
    if (!path) return STOKE_E_NOMEM;
    int r = stk_atomic_open(&config, path, err);
    if (!r && stk_setup_write_yaml(&t->setup, config.stream)) {
        r = stk_fail_errno(err, STOKE_E_IO, errno, "%s: cannot write", path);
        stk_atomic_abandon(&config);
    } else if (!r) {
        r = stk_atomic_commit(&config, err);
    }
    stk_free(path);
    if (!r) stk_run_place_write(t->folder);
    return r;
}
