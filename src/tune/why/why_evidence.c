/* SPDX-License-Identifier: Apache-2.0
 *
 * Gathering: the run's log, page and settings, the machine, the card, the data.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "src/base/error.h"
#include "src/base/terminal.h"
#include "src/base/machine.h"
#include "src/base/retry.h"
#include "src/tune/machine/tree.h"
#include "src/tune/why/why.h"

enum { PATH = 4096 };

static int in_run(char path[PATH], const char *run, const char *name, stoke_error *err)
{
    if (snprintf(path, PATH, "%s/%s", run, name) < PATH) return STOKE_OK;
    return stk_fail(err, STOKE_E_INVALID, "%.200s...: the name of the run is too long", run);
}

/* ---- the run ---- */

static int read_log(stk_why_evidence *e, const char *run, stoke_error *err)
{
    char path[PATH];
    struct stat st;
    const int there = stk_stat(run, &st) == 0;
    if (!there && !stoke_is_absent(errno))
        return stk_fail_errno(err, STOKE_E_IO, errno, "%s: cannot be looked at", run);
    if (!there || !S_ISDIR(st.st_mode))
        return stk_fail(err, STOKE_E_NOTFOUND,
                        "%s: there is no such folder; a run is a folder that `stoke train` made, such as "
                        "runs/b0-20261116-100000",
                        run);
    int r = in_run(path, run, "log.jsonl", err);
    if (!r) r = stk_run_log_read(&e->log, path, err);
    if (r == STOKE_E_NOTFOUND)
        return stk_fail(err, r, "%s: has no log.jsonl, so it is no run of `stoke train`", run);
    if (!r && !e->log.start.values)
        r = stk_fail(err, STOKE_E_FORMAT,
                     "%s: no line of it tells how the run began (%llu lines, %llu damaged); name another run",
                     path, (unsigned long long)e->log.lines, (unsigned long long)e->log.damaged);
    return r;
}

/* A page that cannot be read is one thing less that is known, no error. */
static void read_page(stk_why_evidence *e, const char *run)
{
    stoke_live_reader *onlooker;
    int alive = -1;
    if (!stoke_live_reader_open(&onlooker, run, NULL)) {
        e->has_page = !stoke_live_reader_read(onlooker, &e->page, &alive, NULL);
        stoke_live_reader_close(&onlooker);
    }
    if (e->has_page) stoke_live_between(NULL, &e->page, &e->rates);
    e->state = *e->log.why                 ? STK_RUN_ENDED
               : e->has_page && alive == 1 ? STK_RUN_GOING
               : e->has_page && alive == 0 ? STK_RUN_KILLED
                                           : STK_RUN_SILENT;
}

/* What the file left to training was settled when the run began, and stands in the log. */
static void take_start(stk_why_evidence *e)
{
    const stk_json *start = &e->log.start;
    const char *model = stk_run_text(start, "model"), *precision = stk_run_text(start, "precision");
    const stk_json_value *size = stk_json_find(start, start->values, "size");
    uint64_t height = 0, width = 0;
    stk_run_config *w = &e->config;
    if (model && strlen(model) < sizeof w->model) STK_SAY(w->model, "%s", model);
    if (stk_run_uint(start, "batch")) w->batch = (int64_t)stk_run_uint(start, "batch");
    if (stk_run_uint(start, "classes")) w->classes = (int64_t)stk_run_uint(start, "classes");
    stk_json_uint(start, stk_json_first(start, size), &height);
    stk_json_uint(start, stk_json_next(start, stk_json_first(start, size)), &width);
    if (height && width && height < 65536 && width < 65536)
        w->height = (int64_t)height, w->width = (int64_t)width;
    for (int p = STOKE_PRECISION_FP32; precision && p < STOKE_PRECISION_AUTO; p++)
        if (!strcmp(precision, stoke_precision_name(p))) w->precision = p;
}

/* ---- settings ---- */

static int read_settings(stk_why_evidence *e, const stoke_why_params *params, stoke_preflight_params *ask,
                         char path[PATH], stoke_error *err)
{
    ask->config = params->config;
    if (!ask->config && params->run) {
        const int r = in_run(path, params->run, "config.yaml", err);
        if (r) return r;
        ask->config = path;
        if (!stk_there(path)) {
            STK_SAY(e->why_no_config, "the run has no config.yaml");
            ask->config = NULL;
        }
    }
    stoke_error own = { 0 };
    int r = stk_run_config_read(&e->config, ask, &own);
    if (r && ask->config && !params->config) { /* the log is of use without */
        STK_SAY(e->why_no_config, "%.290s", own.message);
        stk_run_config_free(&e->config);
        ask->config = NULL;
        r = stk_run_config_read(&e->config, ask, &own);
    }
    if (r) return stk_fail_again(err, r, own.message);
    e->has_config = ask->config != NULL;
    /* With neither the question is about this machine, and its card. */
    if (!e->has_config && !params->run) e->config.engine = STOKE_ENGINE_TORCH;
    return STOKE_OK;
}

/* What the rules would change in the file, for the card that is meant. Nothing is written. */
static void plan_changes(stk_why_evidence *e, const char *config, const char *card)
{
    stoke_optimize_params ask = stoke_optimize_defaults();
    const stoke_gpu *gpu = &e->here.gpu;
    const stoke_figure cores = stk_cores(&e->here);
    if (e->config.engine != STOKE_ENGINE_TORCH || !config) return;
    if (stoke_yaml_open(&e->yaml, config, NULL)) e->yaml = NULL;
    ask.config = config;
    if (e->here.meant && *card) ask.gpu = card;
    if (stk_has_card(&e->here) && gpu->memory_total.source) ask.memory = (uint64_t)gpu->memory_total.value;
    if (cores.source) ask.cores = (uint32_t)cores.value;
    ask.elsewhere = e->here.meant && !cores.source;
    stoke_optimize(&e->plan, &ask, NULL);
}

/* ---- the machine ---- */

static void read_load(stk_why_evidence *e, const char *root)
{
    char proc[STK_TREE_PATH], groups[STK_TREE_PATH], path[STK_TREE_PATH], text[64], *end;
    if (stk_tree_path(proc, root, "proc") && stk_tree_path(groups, root, "sys/fs/cgroup"))
        e->kills = stk_machine_oom_kills(proc, groups);
    if (!stk_tree_path(path, root, "proc/loadavg") || !stk_tree_text(path, text, sizeof text)) return;
    const double load = strtod(text, &end);
    if (end != text && load >= 0) e->load = stk_figure(load, STOKE_SOURCE_PROC);
}

int stk_evidence_gather(stk_why_evidence *e, const stoke_why_params *params, stoke_error *err)
{
    stoke_preflight_params ask = stoke_preflight_defaults();
    char path[PATH];
    int r = STOKE_OK;
    ask.gpu = params->gpu;
    ask.card = params->card;
    ask.card_memory = params->card_memory;
    ask.cores = params->cores;
    ask.nvml = params->nvml;
    ask.root = params->root;
    if (params->run) r = read_log(e, params->run, err);
    if (r) return r;
    if (params->run) {
        read_page(e, params->run);
        if (!*stoke_text_word(params->run, e->run, sizeof e->run)) STK_SAY(e->run, "RUN");
    }
    r = read_settings(e, params, &ask, path, err);
    if (!r && params->run) take_start(e);
    if (!r) stk_run_config_see_size(&e->config);
    if (!r) r = stk_look_around(&e->here, &e->config, &ask, err);
    if (r) return r;
    stk_resolve_ranks(&e->config, &e->here, ask.config);
    stk_preflight_judge(&e->list, &e->config, &e->here);
    plan_changes(e, ask.config, params->card ? params->card : "");
    read_load(e, params->root ? params->root : "");
    return STOKE_OK;
}

void stk_evidence_free(stk_why_evidence *e)
{
    stk_run_log_free(&e->log);
    stk_run_config_free(&e->config);
    stoke_optimization_destroy(&e->plan);
    stoke_yaml_close(&e->yaml);
}

/* In fewer steps than these the first batch, which everything waits for, is most of it. */
enum { STEPS_LEAST = 20 };

double stk_waited(const stk_why_evidence *e)
{
    if (e->log.step < STEPS_LEAST || e->log.step_seconds <= 0) return NAN;
    return e->log.data_seconds / e->log.step_seconds;
}
