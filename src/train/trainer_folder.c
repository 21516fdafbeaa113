/* SPDX-License-Identifier: Apache-2.0
 *
 * The folder of a run: runs/NAME, made new and never mixed with another run's, or the one to go on with. One
 * process at a time works in it.
 */
#include "src/train/trainer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/error.h"
#include "src/base/file.h"
#include "src/base/mem.h"
#include "src/base/option_table.h"
#include "src/base/ours.h"
#include "src/base/retry.h"
#include "src/train/run_report.h"
#include <stoke/tools/terminal.h>
#include <stoke/tools/train.h>

/* ---- the folder of a run ---- */

/* ---- settings that name files ---- */

enum { MOST_FIELDS = 12 };

static int ends_in_yaml(const char *text)
{
    const char *dot = strrchr(text, '.');
    return dot && (!strcmp(dot, ".yaml") || !strcmp(dot, ".yml"));
}

/* The fields that name a file now: some may hold a word or a list instead, or a name that means the folder of
 * the run. */
static size_t fields_of(stoke_data_params *data, stoke_train_params *params, const char **fields[MOST_FIELDS])
{
    const char **const plain[] = { &data->data,    &data->images,       &data->masks,
                                   &data->targets, &data->list,         &data->weights,
                                   &data->cache,   &params->pretrained, &params->perceptual };
    size_t n = 0;
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (*plain[i] && **plain[i]) fields[n++] = plain[i];
    if (data->quarantine && *data->quarantine && strcmp(data->quarantine, stoke_data_defaults().quarantine))
        fields[n++] = &data->quarantine;
    if (data->augment && ends_in_yaml(data->augment)) fields[n++] = &data->augment;
    if (data->label_map && stoke_there(data->label_map)) fields[n++] = &data->label_map;
    return n;
}

void stk_run_whole_paths(stk_string_arena *strings, stoke_data_params *data, stoke_train_params *params)
{
    const char **fields[MOST_FIELDS];
    char here[PATH_MAX];
    if (!getcwd(here, sizeof here)) return;
    const size_t n = fields_of(data, params, fields);
    for (size_t i = 0; i < n; i++) {
        const char *path = *fields[i];
        if (*path == '/') continue;
        while (!strncmp(path, "./", 2)) path += 2;
        const char *whole = stk_string_arena_print(strings, "%s/%s", strcmp(here, "/") ? here : "", path);
        if (whole) *fields[i] = whole;
    }
}

/* ---- a run that was moved ---- */

static stk_ours_kind kind_at(const char *place)
{
    return (stk_ours_kind){ .name = "run", .line = place };
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
    if (!brace) return stoke_there(path);
    snprintf(folder, sizeof folder, "%.*s", (int)parent(path, (size_t)(brace - path)), path);
    return stoke_there(*folder ? folder : ".");
}

int stoke_run_follow(const char *config, stoke_data_params *data, stoke_train_params *params,
                     stoke_option_storage *storage, stoke_error *err)
{
    const char **fields[MOST_FIELDS];
    char folder[PATH_MAX], now[PATH_MAX], was[PATH_MAX], moved[PATH_MAX];
    const stk_ours_kind kind = kind_at("");
    const size_t length = parent(config, strlen(config));
    snprintf(folder, sizeof folder, "%.*s", (int)length, config);
    if (!realpath(length ? folder : ".", now) || !stk_ours_note(now, &kind, was, sizeof was) ||
        !strcmp(was, now))
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
    const char *const places[] = { data->data, data->images, data->masks, data->targets, data->list };
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (places[i] && *places[i] && !is_there(places[i]))
            return stk_fail(err, STOKE_E_NOTFOUND,
                            "%s: the data of this run was here, and is gone%s: `data` DIR names the place "
                            "where it lies now (the settings are those of %s)",
                            places[i], *places[i] == '/' ? "" : ", or the run was started in another folder",
                            config);
    return STOKE_OK;
}

/* ---- what is in it ---- */

int stk_trainer_path(const stoke_trainer *t, char path[static PATH_MAX], const char *name, stoke_error *err)
{
    const size_t n = strlen(t->folder);
    const char *slash = n && t->folder[n - 1] == '/' ? "" : "/";
    if (snprintf(path, PATH_MAX, "%s%s%s", t->folder, slash, name) < PATH_MAX) return STOKE_OK;
    return stk_fail(err, STOKE_E_LIMIT, "%.200s...: the path is too long", t->folder);
}

/* 1: the folder holds something. -1: there is none, or it cannot be read (errno). */
static int entries(const char *folder)
{
    DIR *d = stoke_opendir(folder);
    if (!d) return -1;
    int n = 0;
    for (const struct dirent *e; !n && (e = stoke_readdir(d));)
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
    if (entries(t->folder) < 0 && errno != ENOENT)
        return stk_fail_errno(err, STOKE_E_IO, errno, "%s: no run to resume", t->folder);
    return stoke_run_check(t->folder, err);
}

int stk_trainer_find_folder(stoke_trainer *t, stoke_error *err)
{
    const stoke_train_params *params = &t->setup.params;
    t->folder = params->resume ? stk_strdup(params->resume) : stk_path_join(params->runs, params->name);
    if (!t->folder) return stk_fail(err, STOKE_E_NOMEM, "no memory for the name of the run's folder");
    return params->resume ? check_old(t, err) : check_new(t, err);
}

/* A second process would train over the first one's files. Where the file system has no locks we go
 * without. */
static int lock(stoke_trainer *t, stoke_error *err)
{
    t->folder_fd = stoke_open(t->folder, O_RDONLY | O_DIRECTORY, 0);
    if (t->folder_fd < 0) return stk_fail_errno(err, STOKE_E_IO, errno, "%s: cannot open", t->folder);
    if (flock(t->folder_fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return stk_fail(err, STOKE_E_STATE, "%s: another process is training in this folder", t->folder);
    return STOKE_OK;
}

/* What a run that was killed left half written; with the lock nobody else can be at it. Files of other names,
 * whatever they end in, are the user's. */
static int sweep(const stoke_trainer *t, stoke_error *err)
{
    enum { MOST = 9 };
    static const char *const network[MOST] = { "config.json", "model.safetensors",
                                               "preprocessor_config.json" },
                             *const run[MOST] = { "config.yaml", "state.safetensors", "log.jsonl",
                                                  "metrics.csv", "report.html",       "live",
                                                  "live.ranks",  ".stokehold" },
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
        char folder[PATH_MAX];
        const int r = stk_trainer_path(t, folder, parts[i].name, err);
        if (r) return r;
        stk_atomic_sweep(folder, parts[i].files);
    }
    return STOKE_OK;
}

int stk_trainer_claim_folder(stoke_trainer *t, stoke_error *err)
{
    t->is_new = !t->setup.params.resume && !stoke_there(t->folder);
    int r = t->setup.params.resume ? STOKE_OK : stoke_make_folders(t->folder, err);
    if (!r) r = lock(t, err);
    /* Another process may have had a whole run there since it was looked at. */
    if (!r) r = t->setup.params.resume ? sweep(t, err) : check_new(t, err);
    t->is_alone = !r && !t->setup.params.resume;
    return r;
}

/* What a run writes before its first step; names that we alone give. */
static int is_beginning(const char *name)
{
    static const char *const names[] = { "config.yaml", "live",          "live.ranks",      "log.jsonl",
                                         "metrics.csv", STK_OURS_MARKER, "quarantine.jsonl" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(name, names[i])) return 1;
    return !strncmp(name, "events.out.tfevents.", 20) || !strncmp(name, "log.rank", 8);
}

void stk_trainer_discard_folder(const stoke_trainer *t)
{
    struct stat st;
    DIR *d = stoke_opendir(t->folder);
    if (!d) return;
    for (const struct dirent *e; (e = stoke_readdir(d));)
        if (is_beginning(e->d_name) && stk_fstatat(t->folder_fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(st.st_mode))
            unlinkat(t->folder_fd, e->d_name, 0);
    stk_closedir(d);
    if (t->is_new) rmdir(t->folder); /* stays if somebody put a file there */
}

int stk_trainer_write_config(const stoke_trainer *t, stoke_error *err)
{
    stoke_output config;
    char path[PATH_MAX];
    int r = stk_trainer_path(t, path, "config.yaml", err);
    if (!r) r = stoke_output_open(&config, path, err);
    if (!r && stk_setup_write_yaml(&t->setup, config.stream)) {
        r = stk_fail_errno(err, STOKE_E_IO, errno, "%s: cannot write", path);
        stoke_output_drop(&config);
    } else if (!r) {
        r = stoke_output_commit(&config, err);
    }
    /* Where the run lies now. Failing costs only that data moved along is not found by itself. */
    char place[PATH_MAX];
    int unwritable;
    if (!r && realpath(t->folder, place) && !strchr(place, '\n')) {
        const stk_ours_kind kind = kind_at(place);
        stk_ours_mark(t->folder, &kind, &unwritable, NULL);
    }
    return r;
}
