/* SPDX-License-Identifier: Apache-2.0 */
#include "src/train/run_report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <stoke/tools/metrics.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/train/log_writer.h"

double stk_run_real(const stk_json *json, const stk_json_value *object, const char *key)
{
    double value = NAN;
    stk_json_real(json, stk_json_find(json, object, key), &value);
    return value;
}

uint64_t stk_run_uint(const stk_json *json, const char *key)
{
    uint64_t value = 0;
    if (json->values) stk_json_uint(json, stk_json_find(json, json->values, key), &value);
    return value;
}

const char *stk_run_text(const stk_json *json, const char *key)
{
    const stk_json_value *value = json->values ? stk_json_find(json, json->values, key) : NULL;
    return value && value->kind == STK_JSON_STRING ? stk_json_text(json, value) : NULL;
}

/* A time or count that is added up: nothing, rather than NaN or less than nothing. */
static double sum_of(const stk_json *json, const char *key)
{
    const double value = stk_run_real(json, json->values, key);
    return value > 0 && value < 1e12 ? value : 0;
}

static uint64_t count_of(const stk_json *json, const char *key)
{
    const uint64_t value = stk_run_uint(json, key);
    return value < UINT64_C(1) << 48 ? value : 0;
}

/* ---- steps ---- */

/* Two neighbours as one line that spoke of both would have it. */
static stk_log_step_note together(const stk_log_step_note *a, const stk_log_step_note *b)
{
    stk_log_step_note sum = *b;
    const double weight = (double)a->images + (double)b->images;
    sum.loss = weight > 0 ? (a->loss * (double)a->images + b->loss * (double)b->images) / weight
                          : (a->loss + b->loss) / 2;
    sum.gradient_norm = fmax(a->gradient_norm, b->gradient_norm);
    sum.skipped += a->skipped;
    sum.images += a->images;
    sum.seconds += a->seconds;
    sum.data_seconds += a->data_seconds;
    return sum;
}

static int add_step(stk_run_log *log, const stk_json *json, uint64_t step, stoke_error *err)
{
#define WHOLE(name) .name = stk_run_uint(json, #name),
#define REAL(name)  .name = stk_run_real(json, json->values, #name),
#define COUNT(name) .name = count_of(json, #name),
#define SUM(name)   .name = sum_of(json, #name),
    const stk_log_step_note note = { .step = step, STK_LOG_STEP_FIELDS(WHOLE, REAL, COUNT, SUM) };
#undef WHOLE
#undef REAL
#undef COUNT
#undef SUM
    /* A log that goes back was written by a run that began again from there. */
    while (log->n_steps && log->steps[log->n_steps - 1].step >= step) log->n_steps--;
    if (log->n_steps == STK_RUN_STEPS) {
        for (size_t i = 0; i < STK_RUN_STEPS / 2; i++)
            log->steps[i] = together(&log->steps[2 * i], &log->steps[2 * i + 1]);
        log->n_steps /= 2;
    }
    if (!stk_grow((void **)&log->steps, &log->steps_capacity, log->n_steps + 1, sizeof note))
        return stk_fail(err, STOKE_E_NOMEM, "no memory for the log of a run");
    log->steps[log->n_steps++] = note;
    log->images += note.images;
    log->skipped += note.skipped;
    log->step_seconds += note.seconds;
    log->data_seconds += note.data_seconds;
    return STOKE_OK;
}

/* ---- evaluations ---- */

static void keep(stk_json *place, stk_json *json)
{
    stk_json_free(place);
    *place = *json;
    *json = (stk_json){ 0 };
}

/* `text` once more, for a second place to keep it. */
static int keep_again(stk_json *place, const char *text, size_t length, stoke_error *err)
{
    stk_json json;
    const int r = stk_json_read(&json, text, length, STK_RUN_VALUES, err);
    if (!r) keep(place, &json);
    return r;
}

int stk_run_task(const stk_run_log *log)
{
    const char *task = stk_run_text(&log->start, "task");
    return task && !strcmp(task, "restore") ? STOKE_TASK_RESTORE : STOKE_TASK_SEGMENT;
}

static int add_evaluation(stk_run_log *log, stk_json *json, uint64_t step, const char *text, size_t length,
                          stoke_error *err)
{
    stk_run_eval eval = { .step = step, .loss = stk_run_real(json, json->values, "loss") };
    for (int i = 0; i < STOKE_SCORES; i++)
        eval.score[i] = stk_run_real(json, json->values, stoke_score_at(i)->name);
    while (log->n_evals && log->evals[log->n_evals - 1].step >= step) log->n_evals--;
    log->evaluations++;
    log->eval_seconds += sum_of(json, "seconds");
    if (log->n_evals < STK_RUN_EVALS) {
        if (!stk_grow((void **)&log->evals, &log->evals_capacity, log->n_evals + 1, sizeof eval))
            return stk_fail(err, STOKE_E_NOMEM, "no memory for the log of a run");
        log->evals[log->n_evals++] = eval;
    }
    const stk_json_value *best = stk_json_find(json, json->values, "best");
    int r = STOKE_OK;
    if (best && best->kind == STK_JSON_TRUE) r = keep_again(&log->best, text, length, err);
    if (!r && !log->first.values) r = keep_again(&log->first, text, length, err);
    if (!r) keep(&log->last, json);
    return r;
}

/* ---- lines ---- */

static int add_remark(stk_run_log *log, const stk_json *json, stoke_error *err)
{
    const char *text = stk_run_text(json, "text");
    if (!text || !*text) return STOKE_OK;
    for (size_t i = 0; i < log->n_remarks; i++)
        if (!strcmp(log->remarks[i], text)) return STOKE_OK;
    if (log->n_remarks == STK_RUN_REMARKS) return STOKE_OK;
    char *copy = stk_strdup(text);
    if (!copy) return stk_fail(err, STOKE_E_NOMEM, "no memory for the log of a run");
    log->remarks[log->n_remarks++] = copy;
    return STOKE_OK;
}

int stk_run_log_line(stk_run_log *log, const char *text, size_t length, stoke_error *err)
{
    stk_json json;
    uint64_t step = 0;
    int r = stk_json_read(&json, text, length, STK_RUN_VALUES, err);
    log->lines++;
    if (r == STOKE_E_NOMEM) return r;
    const char *kind = r ? NULL : stk_run_text(&json, "kind");
    if (!kind || !stk_json_uint(&json, stk_json_find(&json, json.values, "step"), &step) ||
        step > UINT64_C(1) << 53) {
        log->damaged++;
        stk_json_free(&json);
        return STOKE_OK;
    }
    const double t = stk_run_real(&json, json.values, "t");
    r = STOKE_OK;
    if (!strcmp(kind, "step")) {
        r = add_step(log, &json, step, err);
    } else if (!strcmp(kind, "eval")) {
        r = add_evaluation(log, &json, step, text, length, err);
    } else if (!strcmp(kind, "save")) {
        log->saves++;
        log->save_seconds += sum_of(&json, "seconds");
        log->saved_step = step;
    } else if (!strcmp(kind, "start")) {
        log->sessions++;
        log->why[0] = 0;
        keep(&log->start, &json);
    } else if (!strcmp(kind, "end")) {
        const char *why = stk_run_text(&json, "why");
        snprintf(log->why, sizeof log->why, "%s", why && *why ? why : "ended");
    } else if (!strcmp(kind, "ranks")) {
        r = stk_run_ranks_line(log, &json, err);
    } else if (!strcmp(kind, "remark")) {
        r = add_remark(log, &json, err);
    } /* others are of a later version */
    if (step > log->step) log->step = step;
    if (t >= 0 && t < 1e12 && t > log->t) log->t = t;
    stk_json_free(&json);
    return r;
}

int stk_run_log_read(stk_run_log *log, const char *path, stoke_error *err)
{
    stk_lines lines;
    int more = 0, r = stk_lines_open(&lines, path, err);
    if (r) return r;
    while (!r && (more = stk_lines_next(&lines, err)) > 0) {
        if (lines.cut) {
            log->lines++;
            log->damaged++;
        } else if (lines.length && lines.whole) { /* a half line is one that is being written */
            r = stk_run_log_line(log, lines.text, lines.length, err);
        }
    }
    stk_lines_close(&lines);
    stk_run_ranks_judge(&log->ranks);
    return r ? r : more;
}

void stk_run_log_free(stk_run_log *log)
{
    stk_json_free(&log->start);
    stk_json_free(&log->first);
    stk_json_free(&log->best);
    stk_json_free(&log->last);
    for (size_t i = 0; i < log->n_remarks; i++) stk_free(log->remarks[i]);
    stk_free(log->ranks.rank);
    stk_free(log->next_ranks.rank);
    stk_free(log->steps);
    stk_free(log->evals);
    *log = (stk_run_log){ 0 };
}
