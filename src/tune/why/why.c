/* SPDX-License-Identifier: Apache-2.0
 *
 * stoke_why from end to end, and what the four answers share.
 */
#include "src/tune/why/why.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "src/base/error.h"
#include "src/base/machine.h"
#include "src/base/mem.h"
#include "src/base/retry.h"
#include "src/base/terminal.h"
#include "src/tune/machine/tree.h"
#include <stoke/tools/train.h>

/* ---- gathering: the run's log, page and settings, the machine, the card, the data ---- */

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
    const int there = stoke_stat(run, &st) == 0;
    if (!there && !stoke_is_absent(errno))
        return stk_fail_errno(err, STOKE_E_IO, errno, "%s: cannot be looked at", run);
    if (!there) return stoke_run_missing(run, err);
    if (!S_ISDIR(st.st_mode))
        return stk_fail(err, STOKE_E_NOTFOUND,
                        "%s: this is no folder; a run is a folder that `stoke train` made, such as "
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
        if (!strcmp(precision, stoke_precision_name(p))) w->train.precision = p;
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
        if (!stoke_there(path)) {
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
    if (stoke_yaml_open_checked(&e->yaml, config, NULL)) e->yaml = NULL;
    ask.config = config;
    if (e->here.meant && *card) ask.gpu = card;
    if (stk_has_card(&e->here) && gpu->memory_total.source) ask.memory = (uint64_t)gpu->memory_total.value;
    if (cores.source) ask.cores = (uint32_t)cores.value;
    ask.elsewhere = e->here.meant && !cores.source;
    stoke_optimize(&e->plan, &ask, NULL);
}

/* Starts from a zeroed struct; what is in it is to be freed in every case. */
static int evidence_gather(stk_why_evidence *e, const stoke_why_params *params, stoke_error *err)
{
    stoke_preflight_params ask = stoke_preflight_defaults();
    const char *root = params->root ? params->root : "";
    char path[PATH], proc[STK_TREE_PATH], groups[STK_TREE_PATH], text[64], *end = text;
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
    stk_resolve_ranks(&e->config, &e->here);
    stk_preflight_judge(&e->list, &e->config, &e->here);
    plan_changes(e, ask.config, params->card ? params->card : "");
    if (stk_tree_path(proc, root, "proc") && stk_tree_path(groups, root, "sys/fs/cgroup"))
        e->kills = stk_machine_oom_kills(proc, groups);
    const double load = stk_tree_text(text, sizeof text, root, "proc/loadavg") ? strtod(text, &end) : 0;
    if (end != text && load >= 0) e->load = stk_figure(load, STOKE_SOURCE_PROC);
    return STOKE_OK;
}

/* In fewer steps than these the first batch, which everything waits for, is most of it. */
enum { STEPS_LEAST = 20 };

double stk_waited(const stk_why_evidence *e)
{
    if (e->log.step < STEPS_LEAST || e->log.step_seconds <= 0) return NAN;
    return e->log.data_seconds / e->log.step_seconds;
}

const char *stoke_trouble_name(int trouble)
{
    static const char *const names[] = { "oom", "slow", "unstable", "loading" };
    return trouble >= 0 && trouble <= STOKE_TROUBLE_LOADING ? names[trouble] : "unknown";
}

stoke_why_params stoke_why_defaults(void)
{
    return (stoke_why_params){ .struct_size = sizeof(stoke_why_params) };
}

/* ---- reasons ---- */

stoke_reason *stk_reason(stoke_answer *answer, int found, double weight, const char *cause,
                         const char *remedy, const char *evidence, ...)
{
    /* Every cause there is stands in one of four files, and the tests count them. */
    if (answer->n == STOKE_REASONS) answer->n--;
    stoke_reason *reason = &answer->reason[answer->n++];
    *reason = (stoke_reason){ .weight = weight, .found = found };
    STK_SAY(reason->cause, "%s", cause);
    if (found && remedy) STK_SAY(reason->remedy, "%s", remedy);
    va_list arguments;
    va_start(arguments, evidence);
    vsnprintf(reason->evidence, sizeof reason->evidence, evidence, arguments);
    va_end(arguments);
    return reason;
}

void stk_reason_line(stoke_answer *answer, const stk_why_evidence *e, const char *key, const char *cause,
                     double weight)
{
    for (size_t i = 0; i < e->list.n; i++) {
        const stoke_preflight_line *line = &e->list.line[i];
        if (strcmp(line->key, key) != 0) continue;
        const int seen = line->verdict != STOKE_VERDICT_NA, wrong = line->verdict > STOKE_VERDICT_NA;
        stk_reason(answer, seen ? wrong : -1, weight, cause, line->fix, "%.60s: %.380s [%.16s]", line->title,
                   line->figure, stoke_source_name(line->source));
    }
}

stk_preflight_command stk_with(stk_preflight_command command, const char *more, ...)
{
    const size_t n = strlen(command.text);
    va_list arguments;
    va_start(arguments, more);
    vsnprintf(command.text + n, sizeof command.text - n, more, arguments);
    va_end(arguments);
    return command;
}

stk_preflight_command stk_train_again(const stk_why_evidence *e)
{
    if (!e->has_config && e->state == STK_RUN_NONE) return STK_REMEDY("stoke train DIR");
    if (!e->has_config) return STK_REMEDY("stoke train --resume %s", e->run);
    return STK_REMEDY("stoke train --config %s%s", e->config.config, e->config.has_data ? "" : " --data DIR");
}

stk_preflight_command stk_go_on(const stk_why_evidence *e)
{
    const int stopped = e->state != STK_RUN_ENDED && e->state != STK_RUN_NONE;
    return stopped ? STK_REMEDY("stoke train --resume %s", e->run) : stk_train_again(e);
}

stk_preflight_command stk_diagnose_it(const stk_why_evidence *e)
{
    return STK_REMEDY("stoke diagnose --config %s%s", e->config.config,
                      e->config.has_data ? "" : " --data DIR");
}

/* ---- the answer ---- */

/* What was found comes first, the heaviest of it at the top; then what cannot be told; then what is not
 * there. Few enough to sort by hand, and so that equals keep their order. */
static void sort(stoke_answer *a)
{
    static const int place[] = { 1, 2, 0 }; /* of found -1, 0, 1 */
    for (size_t i = 1; i < a->n; i++)
        for (size_t j = i; j; j--) {
            const stoke_reason above = a->reason[j - 1], below = a->reason[j];
            const int before = place[above.found + 1], after = place[below.found + 1];
            if (before < after || (before == after && (before || above.weight >= below.weight))) break;
            a->reason[j - 1] = below, a->reason[j] = above;
        }
}

/* Said where nothing was found, since a person then wants to know what else to give. */
static const char *what_else(const stk_why_evidence *e, int trouble)
{
    if (e->state == STK_RUN_NONE && !e->has_config)
        return "; give a run (--run RUN) or a settings file (--config FILE): this is the machine alone";
    if (e->state == STK_RUN_NONE && trouble == STOKE_TROUBLE_UNSTABLE)
        return "; only a run tells (--run RUN)";
    if (e->state == STK_RUN_NONE) return "; a run (--run RUN) tells more";
    return "";
}

static void sum_up(stoke_answer *a, const stk_why_evidence *e, int trouble)
{
    size_t found = 0, untold = 0;
    for (size_t i = 0; i < a->n; i++) found += a->reason[i].found == 1, untold += a->reason[i].found < 0;
    if (!found) {
        if (*a->text) return; /* on what it depends, where nobody said */
        if (trouble == STOKE_TROUBLE_LOADING && stk_waited(e) >= 0)
            STK_SAY(a->text, "They do not: steps waited for them %.1f %% of the time", 100 * stk_waited(e));
        else
            STK_SAY(a->text, "%s%s",
                    untold < a->n   ? "Of what was looked for nothing is there"
                    : e->has_config ? "Nothing in the settings says so"
                                    : "Nothing can be told from here",
                    what_else(e, trouble));
        return;
    }
    char more[64] = "";
    if (found > 1) STK_SAY(more, " (and %zu more)", found - 1);
    STK_SAY(a->text, "%s%s", a->reason[0].cause, more);
    a->text[0] = (char)toupper((unsigned char)a->text[0]);
}

int stoke_why(stoke_answer **out, const stoke_why_params *params, stoke_error *err)
{
    static void (*const look[])(stoke_answer *, const stk_why_evidence *) = { stk_why_oom, stk_why_slow,
                                                                              stk_why_unstable,
                                                                              stk_why_loading };
    *out = NULL;
    if (!params || params->struct_size != sizeof *params || params->trouble < 0 ||
        params->trouble > STOKE_TROUBLE_LOADING)
        return stk_fail(err, STOKE_E_INVALID, "the trouble is one of oom, slow, unstable and loading");
    stoke_answer *answer = stk_calloc(1, sizeof *answer);
    stk_why_evidence *e = stk_calloc(1, sizeof *e); /* 40 KB with a card's facts and the list */
    int r = answer && e ? evidence_gather(e, params, err)
                        : stk_fail(err, STOKE_E_NOMEM, "no memory for an answer");
    if (!r) {
        look[params->trouble](answer, e);
        sort(answer);
        sum_up(answer, e, params->trouble);
        *out = answer;
    } else {
        stk_free(answer);
    }
    if (e) {
        stk_run_log_free(&e->log);
        stk_run_config_free(&e->config);
        stoke_optimization_destroy(&e->plan);
        stoke_yaml_close(&e->yaml);
    }
    stk_free(e);
    return r;
}

void stoke_answer_free(stoke_answer **answer)
{
    if (!answer) return;
    stk_free(*answer);
    *answer = NULL;
}
