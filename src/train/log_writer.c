/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines are appended and handed to the system one by one: a process that is killed has written all but the
 * last, perhaps a part of that. A resumed run first makes the files what they were at its checkpoint, in one
 * rename each.
 */
#include "src/train/log_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "src/base/error.h"
#include "src/base/file.h"
#include "src/base/json_read.h"
#include "src/base/mem.h"
#include "src/base/number.h"
#include "src/base/retry.h"
#include "src/report/events.h"
#include <stoke/tools/machine.h>
#include <stoke/tools/metrics.h>
#include <stoke/tools/report.h>

/* ---- reading lines ---- */

int stk_lines_open(stk_lines *lines, const char *path, stoke_error *err)
{
    struct stat st;
    *lines = (stk_lines){ .path = path };
    const int fd = stoke_open(path, O_RDONLY, 0);
    if (fd < 0)
        return stk_fail_errno(err, errno == ENOENT ? STOKE_E_NOTFOUND : STOKE_E_IO, errno, "%s: cannot open",
                              path);
    if (stoke_fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
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

/* ---- cutting ---- */

/* 1: a line of log.jsonl about a step that stays. */
static int log_stays(const stk_lines *line, uint64_t after, uint64_t number)
{
    stk_json json;
    uint64_t step;
    (void)number;
    if (stk_json_read(&json, line->text, line->length, STK_JSON_VALUES, NULL)) return 0;
    const int stays = stk_json_uint(&json, stk_json_find(&json, json.values, "step"), &step) && step <= after;
    stk_json_free(&json);
    return stays;
}

/* The same for metrics.csv: its head, and rows that begin with such a step. */
static int row_stays(const stk_lines *line, uint64_t after, uint64_t number)
{
    char *end;
    if (!number) return !strncmp(line->text, "step,", 5);
    errno = 0;
    const unsigned long long step = strtoull(line->text, &end, 10);
    return end != line->text && *end == ',' && !errno && step <= after;
}

/* The files of lines. */
static const struct {
    const char *name;
    int (*stays)(const stk_lines *line, uint64_t after, uint64_t number);
} papers[STK_LOG_FILE_EVENTS] = {
    [STK_LOG_FILE_LOG] = { "log.jsonl", log_stays },
    [STK_LOG_FILE_TABLE] = { "metrics.csv", row_stays },
};

/* What is not there, or was lost, begins again: a log is no reason to refuse to go on. */
static int cut(const char *path, uint64_t after, stk_log_file which, stoke_error *err)
{
    stk_lines lines;
    stoke_output file = { 0 };
    int more = 1, r = stk_lines_open(&lines, path, err);
    if (r == STOKE_E_NOTFOUND) return STOKE_OK;
    if (!r) r = stoke_output_open(&file, path, err);
    for (uint64_t number = 0; !r && (more = stk_lines_next(&lines, err)) > 0; number++)
        if (lines.whole && !lines.cut && papers[which].stays(&lines, after, number)) {
            fwrite(lines.text, 1, lines.length, file.stream);
            fputc('\n', file.stream);
        }
    if (!r) r = more;
    if (!r) r = stoke_output_commit(&file, err);
    stoke_output_drop(&file);
    stk_lines_close(&lines);
    return r;
}

/* ---- files ---- */

/* A file that grows by lines. */
typedef struct paper {
    char *path;
    FILE *stream; /* NULL: could not be opened */
    long end;     /* of the last line */
} paper;

struct stk_log_writer {
    char *folder;
    paper paper[STK_LOG_FILE_EVENTS]; /* the files of lines */
    stk_events *events;               /* NULL: not asked for, or could not be opened */
    int with_events;                  /* asked for */
    stk_log_lost_fn *lost;
    void *context;
    stoke_error why[STK_LOG_FILES]; /* one could not be opened */
};

static int open_paper(stk_log_writer *j, stk_log_file which, const uint64_t *after, stoke_error *err)
{
    paper *p = &j->paper[which];
    p->path = stk_path_join(j->folder, papers[which].name);
    if (!p->path) return stk_fail(err, STOKE_E_NOMEM, "%s: no memory for %s", j->folder, papers[which].name);
    const int r = after ? cut(p->path, *after, which, err) : STOKE_OK;
    if (r) return r;
    struct stat st;
    const int fd = stoke_open(p->path, O_WRONLY | O_CREAT | (after ? O_APPEND : O_TRUNC), 0666);
    if (fd >= 0 && stoke_fstat(fd, &st) == 0 && !S_ISREG(st.st_mode)) {
        close(fd);
        return stk_fail(err, STOKE_E_IO, "%s: cannot write: not a regular file", p->path);
    }
    p->stream = fd >= 0 ? fdopen(fd, after ? "ab" : "wb") : NULL;
    if (fd >= 0 && !p->stream) close(fd);
    if (!p->stream || fseek(p->stream, 0, SEEK_END) || (p->end = ftell(p->stream)) < 0)
        return stk_fail_errno(err, STOKE_E_IO, errno, "%s: cannot write", p->path);
    return STOKE_OK;
}

static void close_paper(paper *p)
{
    if (p->stream) fclose(p->stream);
    stk_free(p->path);
    *p = (paper){ 0 };
}

/* After a line: out with it, or back to the end of the line before. */
static int finish_paper(paper *p, stoke_error *err)
{
    errno = 0;
    const int bad = ferror(p->stream) | (fflush(p->stream) != 0);
    const int number = errno ? errno : EIO;
    if (!bad) {
        p->end = ftell(p->stream);
        return STOKE_OK;
    }
    __fpurge(p->stream);
    clearerr(p->stream);
    if (ftruncate(fileno(p->stream), p->end) == 0) fseek(p->stream, p->end, SEEK_SET);
    return stk_fail_errno(err, STOKE_E_IO, number, "%s: cannot write", p->path);
}

/* One line or entry has gone, or has not. */
static void book(stk_log_writer *j, stk_log_file which, int status, const stoke_error *why)
{
    if (status && j->lost) j->lost(j->context, which, why->message);
}

static void finish_line(stk_log_writer *j, stk_log_file which)
{
    stoke_error why = j->why[which];
    paper *p = &j->paper[which];
    book(j, which, p->stream ? finish_paper(p, &why) : STOKE_E_IO, &why);
}

int stk_log_writer_open(stk_log_writer **out, const char *folder, const uint64_t *after, int tensorboard,
                        stk_log_lost_fn *lost, void *context, stoke_error *err)
{
    *out = NULL;
    stk_log_writer *j = stk_calloc(1, sizeof *j);
    if (!j) return stk_fail(err, STOKE_E_NOMEM, "%s: no memory for its journal", folder);
    *j = (stk_log_writer){
        .folder = stk_strdup(folder), .with_events = tensorboard, .lost = lost, .context = context
    };
    const int r = j->folder ? open_paper(j, STK_LOG_FILE_LOG, after, err)
                            : stk_fail(err, STOKE_E_NOMEM, "%s: no memory for its journal", folder);
    if (r) {
        stk_log_writer_close(&j);
        return r;
    }
    /* What a run can do without: where it fails, that is told with its first line. */
    if (open_paper(j, STK_LOG_FILE_TABLE, after, &j->why[STK_LOG_FILE_TABLE]))
        close_paper(&j->paper[STK_LOG_FILE_TABLE]);
    if (tensorboard) stk_events_open(&j->events, folder, after, &j->why[STK_LOG_FILE_EVENTS]);
    *out = j;
    return STOKE_OK;
}

void stk_log_writer_close(stk_log_writer **log)
{
    stk_log_writer *j = *log;
    if (!j) return;
    for (int i = 0; i < STK_LOG_FILE_EVENTS; i++) close_paper(&j->paper[i]);
    stk_events_close(&j->events);
    stk_free(j->folder);
    stk_free(j);
    *log = NULL;
}

/* ---- classes ---- */

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

static void put_table_head(FILE *out, const stk_setup *setup)
{
    const int task = stk_setup_task(setup);
    fputs("step,epoch,seconds,loss", out);
    for (int i = 0; i < STOKE_SCORES; i++)
        if (stoke_metric_fits(i, task)) fprintf(out, ",%s", stoke_score_at(i)->name);
    for (uint32_t i = 0; task == STOKE_TASK_SEGMENT && i < stk_setup_matrix_classes(setup); i++) {
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

/* Classes that an evaluation counted; 0 where there is no matrix (restore). */
static uint32_t classes_of(const stk_log_eval_note *note)
{
    return note->confusion ? stoke_confusion_classes(note->confusion) : 0;
}

/* A score that is not defined is an empty field. */
static void put_real(FILE *out, double value)
{
    char text[STK_REAL_TEXT];
    fputc(',', out);
    if (isfinite(value)) fputs(stk_format_real(value, text), out);
}

static void put_table_row(FILE *out, int task, const stk_log_eval_note *note)
{
    fprintf(out, "%" PRIu64 ",%" PRIu64, note->step, note->epoch);
    put_real(out, note->t);
    put_real(out, note->evaluation->loss);
    for (int i = 0; i < STOKE_SCORES; i++)
        if (stoke_metric_fits(i, task)) put_real(out, stoke_score_value(&note->evaluation->scores, i));
    for (uint32_t i = 0; i < classes_of(note); i++)
        put_real(out, stoke_confusion_class(note->confusion, i).iou);
    fputs("\r\n", out);
}

/* ---- log.jsonl ---- */

static stoke_json begin(const stk_log_writer *j, const char *kind, uint64_t step)
{
    stoke_json json;
    stoke_json_begin(&json, j->paper[STK_LOG_FILE_LOG].stream, 0);
    stoke_json_object(&json, NULL);
    stoke_json_string(&json, "kind", kind);
    stoke_json_uint(&json, "step", step);
    return json;
}

static void end(stk_log_writer *j, stoke_json *json)
{
    stoke_json_close(json);
    finish_line(j, STK_LOG_FILE_LOG);
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

void stk_log_writer_start(stk_log_writer *j, const stk_setup *setup, const stoke_net_plan *plan,
                          const char *cpu, uint64_t step, double t, int resumed)
{
    if (!j) return;
    const stoke_data_params *data = &setup->train;
    const uint64_t each = stk_step_batches(&setup->params);
    char when[32] = "";
    const time_t now = time(NULL);
    struct tm utc;
    if (gmtime_r(&now, &utc)) strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &utc);
    stoke_json json = begin(j, "start", step);
    stoke_json_real(&json, "t", t);
    stoke_json_string(&json, "time", when);
    stoke_json_string(&json, "version", stoke_version());
    put_network(&json, setup, plan);
    stoke_json_int(&json, "batch", data->batch);
    stoke_json_uint(&json, "accumulate", each);
    stoke_json_uint(&json, "steps", setup->steps);
    stoke_json_uint(&json, "epochs", setup->epochs);
    stoke_json_uint(&json, "steps_per_epoch", (setup->batches_per_epoch + each - 1) / each);
    stoke_json_uint(&json, "train_samples", setup->train_set ? stoke_dataset_count(setup->train_set) : 0);
    stoke_json_uint(&json, "val_samples", setup->val_set ? stoke_dataset_count(setup->val_set) : 0);
    stoke_json_string(&json, "precision", stoke_precision_name(plan->precision));
    stoke_json_uint(&json, "threads", plan->threads);
    stoke_json_string(&json, "cpu", cpu);
    stoke_json_string(&json, "machine", stoke_machine_cpu_name());
    stoke_json_uint(&json, "cores", stoke_machine_cores().usable);
    stoke_json_string(&json, "data", data->data ? data->data : data->list ? data->list : data->images);
    const int metric = setup->params.metric;
    if (stk_setup_task(setup) == STOKE_TASK_RESTORE) stoke_json_string(&json, "task", "restore");
    stoke_json_string(&json, "metric", metric == STOKE_METRIC_LOSS ? "loss" : stoke_score_at(metric)->name);
    if (setup->val_set) stoke_json_string(&json, "eval_mode", stk_eval_mode_name(setup->eval.mode));
    stoke_json_bool(&json, "resumed", resumed);
    end(j, &json);
    const paper *table = &j->paper[STK_LOG_FILE_TABLE];
    if (!table->stream || table->end) return;
    put_table_head(table->stream, setup);
    finish_line(j, STK_LOG_FILE_TABLE);
}

static void write_events(stk_log_writer *j, uint64_t step, const char *const *tags, const double *values,
                         size_t count)
{
    stoke_error why = j->why[STK_LOG_FILE_EVENTS];
    if (!j->with_events) return;
    book(j, STK_LOG_FILE_EVENTS,
         j->events ? stk_events_scalars(j->events, step, tags, values, count, &why) : STOKE_E_IO, &why);
}

void stk_log_writer_step(stk_log_writer *j, const stk_log_step_note *note)
{
    if (!j) return;
    stoke_json json = begin(j, "step", note->step);
#define WHOLE(name) stoke_json_uint(&json, #name, note->name);
#define REAL(name)  stoke_json_real(&json, #name, note->name);
    STK_LOG_STEP_FIELDS(WHOLE, REAL, WHOLE, REAL)
#undef WHOLE
#undef REAL
    end(j, &json);
    static const char *const tags[] = { "train/loss", "train/lr", "train/gradient_norm", "train/img_per_s",
                                        "train/data_wait" };
    const int timed = note->seconds > 0; /* the last two cannot be said of no time */
    const double values[] = { note->loss, note->lr, note->gradient_norm,
                              timed ? (double)note->images / note->seconds : 0,
                              timed ? note->data_seconds / note->seconds : 0 };
    write_events(j, note->step, tags, values, timed ? 5 : 3);
}

/* ---- evaluations ---- */

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

/* The pictures that are worst, each by its own scores. */
static void put_worst(stoke_json *json, int task, const stk_evaluate_result *e)
{
    stoke_json_array(json, "worst");
    for (size_t i = 0; i < e->n_worst; i++) {
        const stk_evaluate_worst *worst = &e->worst[i];
        stoke_json_object(json, NULL);
        stoke_json_string(json, "name", worst->name);
        if (task == STOKE_TASK_RESTORE) {
            stoke_json_real(json, "psnr", worst->psnr);
            stoke_json_real(json, "ssim", worst->ssim);
        } else {
            stoke_json_real(json, "miou", worst->miou);
            stoke_json_real(json, "accuracy", worst->accuracy);
        }
        stoke_json_close(json);
    }
    stoke_json_close(json);
}

static void put_evaluation(stk_log_writer *j, int task, const stk_log_eval_note *note)
{
    const stk_evaluate_result *e = note->evaluation;
    stoke_json json = begin(j, "eval", note->step);
    stoke_json_uint(&json, "epoch", note->epoch);
    stoke_json_real(&json, "t", note->t);
    stoke_json_real(&json, "loss", e->loss);
    for (int i = 0; i < STOKE_SCORES; i++)
        if (stoke_metric_fits(i, task))
            stoke_json_real(&json, stoke_score_at(i)->name, stoke_score_value(&e->scores, i));
    if (task == STOKE_TASK_RESTORE) {
        stoke_json_real(&json, "input_psnr", e->input.psnr);
        stoke_json_real(&json, "input_ssim", e->input.ssim);
    }
    if (note->confusion) put_classes(&json, note->confusion);
    stoke_json_bool(&json, "best", note->best);
    stoke_json_bool(&json, "average", note->average);
    stoke_json_uint(&json, "samples", e->samples);
    stoke_json_real(&json, "seconds", e->seconds);
    stoke_json_real(&json, "data_seconds", e->data_seconds);
    if (note->picture) stoke_json_string(&json, "picture", note->picture);
    if (note->confusion) put_matrix(&json, note->confusion);
    put_worst(&json, task, e);
    end(j, &json);
}

static void send_picture(stk_log_writer *j, const stk_log_eval_note *note)
{
    stoke_error why = { 0 };
    char *path = stk_path_join(j->folder, note->picture);
    const int r = path ? stk_events_png(j->events, note->step, "val/predictions", path, &why)
                       : stk_fail(&why, STOKE_E_NOMEM, "%s: no memory for its journal", j->folder);
    book(j, STK_LOG_FILE_EVENTS, r, &why);
    stk_free(path);
}

/* The loss, the scores, the IoU of each class. One that does not occur has no score, and no point in its
 * curve. */
static void send_evaluation(stk_log_writer *j, const stk_setup *setup, const stk_log_eval_note *note)
{
    const int64_t classes = classes_of(note);
    const size_t most = 1 + STOKE_SCORES + (size_t)classes;
    stk_string_arena strings = { 0 };
    const char **tags = stk_calloc(most, sizeof *tags);
    double *values = stk_calloc(most, sizeof *values);
    int whole = tags && values;
    size_t n = 0;
    for (int64_t i = -1 - STOKE_SCORES; whole && i < classes; i++) {
        const int score = (int)i + STOKE_SCORES;
        if (i < 0 && score >= 0 && !stoke_metric_fits(score, stk_setup_task(setup))) continue;
        const char *name = i >= 0      ? stk_setup_class_name(setup, (uint32_t)i)
                           : score < 0 ? "loss"
                                       : stoke_score_at(score)->name;
        values[n] = i >= 0      ? stoke_confusion_class(note->confusion, (uint32_t)i).iou
                    : score < 0 ? note->evaluation->loss
                                : stoke_score_value(&note->evaluation->scores, score);
        if (i >= 0 && isnan(values[n])) continue;
        tags[n] = name ? stk_string_arena_print(&strings, "val/%s%s", i >= 0 ? "iou/" : "", name)
                       : stk_string_arena_print(&strings, "val/iou/%" PRId64, i);
        whole = tags[n++] != NULL;
    }
    stoke_error why = { 0 };
    if (whole)
        write_events(j, note->step, tags, values, n);
    else
        book(j, STK_LOG_FILE_EVENTS,
             stk_fail(&why, STOKE_E_NOMEM, "%s: no memory for its journal", j->folder), &why);
    stk_string_arena_free(&strings);
    stk_free((void *)tags);
    stk_free(values);
}

void stk_log_writer_evaluation(stk_log_writer *j, const stk_setup *setup, const stk_log_eval_note *note)
{
    if (!j) return;
    const paper *table = &j->paper[STK_LOG_FILE_TABLE];
    const int task = stk_setup_task(setup);
    put_evaluation(j, task, note);
    if (table->stream) put_table_row(table->stream, task, note);
    finish_line(j, STK_LOG_FILE_TABLE);
    if (j->with_events) send_evaluation(j, setup, note);
    if (j->events && note->picture) send_picture(j, note);
}

/* ---- and the rest ---- */

void stk_log_writer_saved(stk_log_writer *j, uint64_t step, double t, double seconds, uint64_t bytes)
{
    if (!j) return;
    stoke_json json = begin(j, "save", step);
    stoke_json_real(&json, "t", t);
    stoke_json_real(&json, "seconds", seconds);
    stoke_json_uint(&json, "bytes", bytes);
    end(j, &json);
}

void stk_log_writer_line(stk_log_writer *j, const char *kind, uint64_t step, double t,
                         void (*put)(stoke_json *json, const void *context), const void *context)
{
    if (!j) return;
    stoke_json json = begin(j, kind, step);
    stoke_json_real(&json, "t", t);
    put(&json, context);
    end(j, &json);
}

void stk_log_writer_sentence(stk_log_writer *j, const char *kind, uint64_t step, double t, const char *text)
{
    if (!j) return;
    stoke_json json = begin(j, kind, step);
    stoke_json_real(&json, "t", t);
    stoke_json_string(&json, strcmp(kind, "end") ? "text" : "why", text);
    end(j, &json);
}
