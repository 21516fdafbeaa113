/* SPDX-License-Identifier: Apache-2.0 */
#include "src/train/log_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "src/base/error.h"
#include "src/base/number.h"
#include "src/base/retry.h"
#include <stoke/tools/machine.h>
#include <stoke/tools/metrics.h>
#include <stoke/tools/report.h>

/* ---- reading lines ---- */

int stk_lines_open(stk_lines *lines, const char *path, stoke_error *err)
{
    struct stat st;
    *lines = (stk_lines){ .path = path };
    const int fd = stk_open(path, O_RDONLY, 0);
    if (fd < 0)
        return stk_fail_errno(err, errno == ENOENT ? STOKE_E_NOTFOUND : STOKE_E_IO, errno, "%s: cannot open",
                              path);
    if (stk_fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        close(fd);
        return stk_fail(err, STOKE_E_IO, "%s: not a regular file", path);
    }
    lines->stream = fdopen(fd, "rb");
    if (lines->stream) return STOKE_OK;
    close(fd);
    return stk_fail(err, STOKE_E_NOMEM, "%s: no memory to read it", path);
}

int stk_lines_next(stk_lines *lines, stoke_error *err)
{
    lines->length = 0;
    lines->whole = lines->cut = 0;
    int c = getc_unlocked(lines->stream), any = c != EOF;
    for (; c != EOF && c != '\n'; c = getc_unlocked(lines->stream)) {
        if (lines->length == STK_LINE_BYTES) {
            lines->cut = 1;
            continue;
        }
        if (!stk_grow((void **)&lines->text, &lines->capacity, lines->length + 2, 1))
            return stk_fail(err, STOKE_E_NOMEM, "%s: no memory for a line", lines->path);
        lines->text[lines->length++] = (char)c;
    }
    if (c == EOF && ferror(lines->stream))
        return stk_fail_errno(err, STOKE_E_IO, errno, "%s: cannot read", lines->path);
    if (!any) return 0;
    if (!stk_grow((void **)&lines->text, &lines->capacity, lines->length + 1, 1))
        return stk_fail(err, STOKE_E_NOMEM, "%s: no memory for a line", lines->path);
    lines->text[lines->length] = 0;
    lines->whole = c == '\n';
    return 1;
}

void stk_lines_close(stk_lines *lines)
{
    if (lines->stream) fclose(lines->stream);
    stk_free(lines->text);
    *lines = (stk_lines){ 0 };
}

/* ---- writing lines ---- */

const char *stk_setup_class_name(const stk_setup *setup, uint32_t id)
{
    if (setup->classes == 1 && id == 0) return "background";
    const uint32_t place = setup->classes == 1 ? id - 1 : id;
    const char *name = setup->class_names && place < setup->classes ? setup->class_names[place] : NULL;
    return name || setup->classes != 1 ? name : "foreground";
}

uint32_t stk_setup_matrix_classes(const stk_setup *setup)
{
    return setup->classes == 1 ? 2 : setup->classes;
}

/* ---- log.jsonl ---- */

static stoke_json begin(FILE *out, const char *kind, uint64_t step)
{
    stoke_json json;
    stoke_json_begin(&json, out, 0);
    stoke_json_object(&json, NULL);
    stoke_json_string(&json, "kind", kind);
    stoke_json_uint(&json, "step", step);
    return json;
}

static const char *metric_name(int metric)
{
    return metric == STOKE_METRIC_LOSS ? "loss" : stoke_score_at(metric)->name;
}

static void put_network(stoke_json *json, const stk_setup *setup, const stoke_net_plan *plan)
{
    stoke_json_string(json, "model", plan->model);
    stoke_json_uint(json, "parameters", plan->parameter_count);
    stoke_json_uint(json, "classes", setup->classes);
    stoke_json_array(json, "names");
    for (uint32_t i = 0; i < stk_setup_matrix_classes(setup); i++)
        stoke_json_string(json, NULL, stk_setup_class_name(setup, i));
    stoke_json_close(json);
    stoke_json_array(json, "size");
    stoke_json_uint(json, NULL, setup->train.size[0]);
    stoke_json_uint(json, NULL, setup->train.size[1]);
    stoke_json_close(json);
}

void stk_text_start(FILE *out, const stk_setup *setup, const stoke_net_plan *plan, const char *cpu,
                    uint64_t step, double t, int resumed)
{
    const stoke_data_params *data = &setup->train;
    const uint64_t accumulate = setup->params.accumulate > 1 ? (uint64_t)setup->params.accumulate : 1;
    char when[32] = "";
    const time_t now = time(NULL);
    struct tm utc;
    if (gmtime_r(&now, &utc)) strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &utc);
    stoke_json json = begin(out, "start", step);
    stoke_json_real(&json, "t", t);
    stoke_json_string(&json, "time", when);
    stoke_json_string(&json, "version", stoke_version());
    put_network(&json, setup, plan);
    stoke_json_int(&json, "batch", data->batch);
    stoke_json_uint(&json, "accumulate", accumulate);
    stoke_json_uint(&json, "steps", setup->steps);
    stoke_json_uint(&json, "epochs", setup->epochs);
    stoke_json_uint(&json, "steps_per_epoch", (setup->batches_per_epoch + accumulate - 1) / accumulate);
    stoke_json_uint(&json, "train_samples", setup->train_set ? stoke_dataset_count(setup->train_set) : 0);
    stoke_json_uint(&json, "val_samples", setup->val_set ? stoke_dataset_count(setup->val_set) : 0);
    stoke_json_string(&json, "precision", stoke_precision_name(plan->precision));
    stoke_json_uint(&json, "threads", plan->threads);
    stoke_json_string(&json, "cpu", cpu);
    stoke_json_string(&json, "machine", stoke_machine_cpu_name());
    stoke_json_uint(&json, "cores", stoke_machine_cores().usable);
    stoke_json_string(&json, "data", data->data ? data->data : data->list ? data->list : data->images);
    stoke_json_string(&json, "metric", metric_name(setup->params.metric));
    if (setup->val_set) stoke_json_string(&json, "eval_mode", stk_eval_mode_name(setup->eval.mode));
    stoke_json_bool(&json, "resumed", resumed);
    stoke_json_close(&json);
}

void stk_text_step(FILE *out, const stk_log_step_note *note)
{
    stoke_json json = begin(out, "step", note->step);
    stoke_json_uint(&json, "epoch", note->epoch);
    stoke_json_real(&json, "t", note->t);
    stoke_json_real(&json, "loss", note->loss);
    stoke_json_real(&json, "lr", note->lr);
    stoke_json_real(&json, "gradient_norm", note->gradient_norm);
    stoke_json_real(&json, "loss_scale", note->loss_scale);
    stoke_json_uint(&json, "skipped", note->skipped);
    stoke_json_uint(&json, "images", note->images);
    stoke_json_real(&json, "seconds", note->seconds);
    stoke_json_real(&json, "data_seconds", note->data_seconds);
    stoke_json_close(&json);
}

static void put_scores(stoke_json *json, const stoke_scores *scores)
{
    for (int i = 0; i < STOKE_SCORES; i++)
        stoke_json_real(json, stoke_score_at(i)->name, stoke_score_value(scores, i));
}

static void put_classes(stoke_json *json, const stoke_confusion *confusion)
{
    const uint32_t classes = stoke_confusion_classes(confusion);
    stoke_json_array(json, "iou");
    for (uint32_t i = 0; i < classes; i++)
        stoke_json_real(json, NULL, stoke_confusion_class(confusion, i).iou);
    stoke_json_close(json);
    stoke_json_array(json, "f1");
    for (uint32_t i = 0; i < classes; i++)
        stoke_json_real(json, NULL, stoke_confusion_class(confusion, i).f1);
    stoke_json_close(json);
}

static void put_matrix(stoke_json *json, const stoke_confusion *confusion)
{
    const uint32_t classes = stoke_confusion_classes(confusion);
    if (classes > STK_LOG_MATRIX) return;
    stoke_json_array(json, "confusion");
    for (uint32_t truth = 0; truth < classes; truth++) {
        stoke_json_array(json, NULL);
        for (uint32_t predicted = 0; predicted < classes; predicted++)
            stoke_json_uint(json, NULL, stoke_confusion_count(confusion, truth, predicted));
        stoke_json_close(json);
    }
    stoke_json_close(json);
}

void stk_text_evaluation(FILE *out, const stk_log_eval_note *note)
{
    const stk_evaluate_result *e = note->evaluation;
    stoke_json json = begin(out, "eval", note->step);
    stoke_json_uint(&json, "epoch", note->epoch);
    stoke_json_real(&json, "t", note->t);
    stoke_json_real(&json, "loss", e->loss);
    put_scores(&json, &e->scores);
    put_classes(&json, note->confusion);
    stoke_json_bool(&json, "best", note->best);
    stoke_json_bool(&json, "average", note->average);
    stoke_json_uint(&json, "samples", e->samples);
    stoke_json_real(&json, "seconds", e->seconds);
    stoke_json_real(&json, "data_seconds", e->data_seconds);
    if (note->picture) stoke_json_string(&json, "picture", note->picture);
    put_matrix(&json, note->confusion);
    stoke_json_array(&json, "worst");
    for (size_t i = 0; i < e->n_worst; i++) {
        stoke_json_object(&json, NULL);
        stoke_json_string(&json, "name", e->worst[i].name);
        stoke_json_real(&json, "miou", e->worst[i].miou);
        stoke_json_real(&json, "accuracy", e->worst[i].accuracy);
        stoke_json_close(&json);
    }
    stoke_json_close(&json);
    stoke_json_close(&json);
}

void stk_text_saved(FILE *out, uint64_t step, double t, double seconds, uint64_t bytes)
{
    stoke_json json = begin(out, "save", step);
    stoke_json_real(&json, "t", t);
    stoke_json_real(&json, "seconds", seconds);
    stoke_json_uint(&json, "bytes", bytes);
    stoke_json_close(&json);
}

void stk_text_sentence(FILE *out, const char *kind, uint64_t step, double t, const char *key,
                       const char *text)
{
    stoke_json json = begin(out, kind, step);
    stoke_json_real(&json, "t", t);
    stoke_json_string(&json, key, text);
    stoke_json_close(&json);
}

/* ---- metrics.csv ---- */

/* A name inside a quoted field. A line break would be legal there, but a resumed run cuts this file by lines.
 */
static void put_quoted(FILE *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '"') fputc('"', out);
        fputc((unsigned char)*text < 0x20 ? ' ' : *text, out);
    }
}

void stk_text_csv_head(FILE *out, const stk_setup *setup)
{
    fputs("step,epoch,seconds,loss", out);
    for (int i = 0; i < STOKE_SCORES; i++) fprintf(out, ",%s", stoke_score_at(i)->name);
    for (uint32_t i = 0; i < stk_setup_matrix_classes(setup); i++) {
        const char *name = stk_setup_class_name(setup, i);
        if (name) {
            fputs(",\"iou_", out);
            put_quoted(out, name);
            fputc('"', out);
        } else {
            fprintf(out, ",iou_%" PRIu32, i);
        }
    }
    fputs("\r\n", out);
}

/* A score that is not defined is an empty field. */
static void put_real(FILE *out, double value)
{
    char text[STK_REAL_TEXT];
    fputc(',', out);
    if (isfinite(value)) fputs(stk_format_real(value, text), out);
}

void stk_text_csv_row(FILE *out, const stk_log_eval_note *note)
{
    fprintf(out, "%" PRIu64 ",%" PRIu64, note->step, note->epoch);
    put_real(out, note->t);
    put_real(out, note->evaluation->loss);
    for (int i = 0; i < STOKE_SCORES; i++) put_real(out, stoke_score_value(&note->evaluation->scores, i));
    for (uint32_t i = 0; i < stoke_confusion_classes(note->confusion); i++)
        put_real(out, stoke_confusion_class(note->confusion, i).iou);
    fputs("\r\n", out);
}
