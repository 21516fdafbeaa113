/* SPDX-License-Identifier: Apache-2.0
 *
 * stoke_run_report: the log in, curves and page out, each file whole or as it was.
 */
#include <stdio.h>
#include <string.h>

#include "src/base/error.h"
#include "src/base/file.h"
#include "src/base/mem.h"
#include "src/train/run_report.h"
#include <stoke/tools/chart.h>
#include <stoke/tools/output.h>
#include <stoke/tools/terminal.h>

enum { PATH = 4096 };

static int make_path(char path[PATH], const char *folder, const char *name, stoke_error *err)
{
    if ((size_t)snprintf(path, PATH, "%s/%s", folder, name) < PATH) return STOKE_OK;
    return stk_fail(err, STOKE_E_INVALID, "%.200s...: the name of the folder is too long", folder);
}

/* The last part of the folder's name, without slashes behind it. */
static char *last_part(const char *folder)
{
    char *copy = stk_strdup(folder);
    if (!copy) return NULL;
    for (size_t n = strlen(copy); n > 1 && copy[n - 1] == '/'; n--) copy[n - 1] = 0;
    const char *slash = strrchr(copy, '/');
    if (slash && slash[1]) memmove(copy, slash + 1, strlen(slash + 1) + 1);
    return copy;
}

static int read_log(stk_run_log *log, const char *folder, stoke_error *err)
{
    char path[PATH];
    int r = make_path(path, folder, "log.jsonl", err);
    if (!r) r = stk_run_log_read(log, path, err);
    if (r == STOKE_E_NOTFOUND)
        return stk_fail(err, r, "%s: no log.jsonl there: name the folder of a run, e.g. runs/NAME", folder);
    if (!r && log->lines == log->damaged)
        return stk_fail(err, STOKE_E_FORMAT, "%s: no line of it is one of a run's log%s", path,
                        log->lines ? "" : " (it is empty)");
    return r;
}

/* All files before the first is written: one that somebody else wrote, or changed, stays. */
static int check_files(const char *folder, int force, stoke_error *err)
{
    for (int i = -1; i < STK_CURVES; i++) {
        char path[PATH], name[64];
        int replaces;
        snprintf(name, sizeof name, "%s%s", i < 0 ? "" : "curves/",
                 i < 0 ? "report.html" : stk_curve_files[i]);
        int r = make_path(path, folder, name, err);
        if (!r) r = stoke_output_check(path, force, &replaces, err);
        if (r == STOKE_E_STATE)
            return stk_fail(
                err, r,
                "%s: was not drawn here, and is left as it is: move it away, or replace it: stoke "
                "report %s --force",
                path, STOKE_WORD(folder));
        if (r) return r;
    }
    return STOKE_OK;
}

static int write_curves(const stk_run_curves *curves, const char *folder, stoke_error *err)
{
    char path[PATH], name[64];
    int r = make_path(path, folder, "curves", err);
    if (!r) r = stk_make_folders(path, err);
    for (int i = 0; i < STK_CURVES && !r; i++) {
        stk_atomic_file file = { 0 };
        snprintf(name, sizeof name, "curves/%s", stk_curve_files[i]);
        r = make_path(path, folder, name, err);
        if (!r) r = stk_atomic_open(&file, path, err);
        if (!r) r = stk_curve_write(curves, i, stoke_chart_defaults().width, file.stream, err);
        if (!r) r = stk_atomic_commit(&file, err);
        stk_atomic_abandon(&file);
    }
    return r;
}

static int write_page(stk_run_page *page, stoke_error *err)
{
    char path[PATH];
    stk_atomic_file file = { 0 };
    int r = make_path(path, page->folder, "report.html", err);
    if (!r) r = stk_atomic_open(&file, path, err);
    if (!r) {
        page->out = file.stream;
        r = stk_run_page_write(page, err);
    }
    if (!r) r = stk_atomic_commit(&file, err);
    stk_atomic_abandon(&file);
    return r;
}

int stoke_run_report(const char *folder, int force, stoke_error *err)
{
    stk_run_log log = { 0 };
    stk_run_curves curves = { 0 };
    if (!*folder) return stk_fail(err, STOKE_E_INVALID, "the name of the run's folder is empty");
    char *name = last_part(folder);
    int r = name ? STOKE_OK : stk_fail(err, STOKE_E_NOMEM, "%s: no memory for its report", folder);
    if (!r) r = read_log(&log, folder, err);
    if (!r) r = stk_curves_make(&curves, &log, err);
    if (!r) r = check_files(folder, force, err);
    if (!r) r = write_curves(&curves, folder, err);
    stk_run_page page = { .folder = folder, .name = name, .log = &log, .curves = &curves };
    if (!r) r = write_page(&page, err);
    stk_curves_free(&curves);
    stk_run_log_free(&log);
    stk_free(name);
    return r;
}
