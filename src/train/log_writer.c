/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines are appended and handed to the system one by one: a process that is killed has written all but the
 * last, perhaps a part of that. A resumed run first makes the files what they were at its checkpoint, in one
 * rename each.
 */
#include <stoke/tools/metrics.h>

#include "src/train/log_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/error.h"
#include "src/base/file.h"
#include "src/base/json_read.h"
#include "src/base/mem.h"
#include "src/base/retry.h"
#include "src/report/events.h"

/* A file that grows by lines. */
typedef struct paper {
    char *path;
    FILE *stream; /* NULL: could not be opened */
    long end;     /* of the last line */
} paper;

typedef struct loss {
    uint64_t times;
    stoke_error why; /* the first */
} loss;

struct stk_log_writer {
    char *folder;
    paper log, table;
    stk_events *events; /* NULL: not asked for, or could not be opened */
    int with_events;    /* asked for */
    loss lost[STK_LOG_FILES];
    char **tags; /* "val/iou/NAME" per class of the matrix, from the start line on */
    uint32_t classes;
    const char **event_tags; /* room for what one event says of an evaluation */
    double *event_values;
};

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

static int copy_lines(stk_lines *lines, FILE *out, uint64_t after,
                      int (*stays)(const stk_lines *, uint64_t, uint64_t), stoke_error *err)
{
    int more;
    for (uint64_t number = 0; (more = stk_lines_next(lines, err)) > 0; number++)
        if (lines->whole && !lines->cut && stays(lines, after, number)) {
            fwrite(lines->text, 1, lines->length, out);
            fputc('\n', out);
        }
    return more;
}

/* What is not there, or was lost, begins again: a log is no reason to refuse to go on. */
static int cut(const char *path, uint64_t after, int (*stays)(const stk_lines *, uint64_t, uint64_t),
               stoke_error *err)
{
    stk_lines lines;
    stk_atomic_file file = { 0 };
    int r = stk_lines_open(&lines, path, err);
    if (r == STOKE_E_NOTFOUND) return STOKE_OK;
    if (!r) r = stk_atomic_open(&file, path, err);
    if (!r) r = copy_lines(&lines, file.stream, after, stays, err);
    if (!r) r = stk_atomic_commit(&file, err);
    stk_atomic_abandon(&file);
    stk_lines_close(&lines);
    return r;
}

/* ---- lines ---- */

static int open_paper(paper *p, const char *folder, const char *name, int append, stoke_error *err)
{
    p->path = stk_path_join(folder, name);
    if (!p->path) return stk_fail(err, STOKE_E_NOMEM, "%s: no memory for %s", folder, name);
    struct stat st;
    const int fd = stk_open(p->path, O_WRONLY | O_CREAT | (append ? O_APPEND : O_TRUNC), 0666);
    if (fd >= 0 && stk_fstat(fd, &st) == 0 && !S_ISREG(st.st_mode)) {
        close(fd);
        return stk_fail(err, STOKE_E_IO, "%s: cannot write: not a regular file", p->path);
    }
    p->stream = fd >= 0 ? fdopen(fd, append ? "ab" : "wb") : NULL;
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

/* Books what became of a line or an entry; returns it. */
static int book(stk_log_writer *j, stk_log_file which, int status, const stoke_error *why, stoke_error *err)
{
    loss *lost = &j->lost[which];
    if (!status) return status;
    if (!lost->times++) lost->why = *why;
    if (err) *err = *why;
    return status;
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

static int finish_line(stk_log_writer *j, stk_log_file which, stoke_error *err)
{
    stoke_error why = { 0 };
    return book(j, which, finish_paper(which == STK_LOG_FILE_LOG ? &j->log : &j->table, &why), &why, err);
}

/* One more that has no file to go to; the reason is known. */
static int lose(stk_log_writer *j, stk_log_file which, stoke_error *err)
{
    const stoke_error why = j->lost[which].why;
    return book(j, which, why.code, &why, err);
}

uint64_t stk_log_writer_lost(const stk_log_writer *log, stk_log_file which, const char **why)
{
    *why = log->lost[which].why.message;
    return log->lost[which].times;
}

/* ---- open and close ---- */

/* What a run can do without: where it fails, that is booked with its first line. */
static void open_others(stk_log_writer *j, const char *table, const uint64_t *after)
{
    loss *of_table = &j->lost[STK_LOG_FILE_TABLE], *of_events = &j->lost[STK_LOG_FILE_EVENTS];
    int r = after ? cut(table, *after, row_stays, &of_table->why) : STOKE_OK;
    if (!r) r = open_paper(&j->table, j->folder, "metrics.csv", after != NULL, &of_table->why);
    if (r && j->table.stream) {
        fclose(j->table.stream);
        j->table.stream = NULL;
    }
    if (j->with_events) stk_events_open(&j->events, j->folder, after, &of_events->why);
}

int stk_log_writer_open(stk_log_writer **out, const char *folder, const uint64_t *after, int tensorboard,
                        stoke_error *err)
{
    *out = NULL;
    stk_log_writer *j = stk_calloc(1, sizeof *j);
    if (!j) return stk_fail(err, STOKE_E_NOMEM, "%s: no memory for its journal", folder);
    int r = STOKE_OK;
    j->folder = stk_strdup(folder);
    char *log = stk_path_join(folder, "log.jsonl"), *table = stk_path_join(folder, "metrics.csv");
    if (!j->folder || !log || !table)
        r = stk_fail(err, STOKE_E_NOMEM, "%s: no memory for its journal", folder);
    j->with_events = tensorboard;
    if (!r && after) r = cut(log, *after, log_stays, err);
    if (!r) r = open_paper(&j->log, folder, "log.jsonl", after != NULL, err);
    if (!r) open_others(j, table, after);
    stk_free(log);
    stk_free(table);
    if (r)
        stk_log_writer_close(&j);
    else
        *out = j;
    return r;
}

static void forget_classes(stk_log_writer *j)
{
    for (uint32_t i = 0; j->tags && i < j->classes; i++) stk_free(j->tags[i]);
    stk_free(j->tags);
    stk_free((void *)j->event_tags);
    stk_free(j->event_values);
    j->tags = NULL;
    j->event_tags = NULL;
    j->event_values = NULL;
    j->classes = 0;
}

void stk_log_writer_close(stk_log_writer **log)
{
    stk_log_writer *j = *log;
    if (!j) return;
    forget_classes(j);
    close_paper(&j->log);
    close_paper(&j->table);
    stk_events_close(&j->events);
    stk_free(j->folder);
    stk_free(j);
    *log = NULL;
}

/* ---- what is written ---- */

enum { EVAL_TAGS = 1 + STOKE_SCORES };
static const char *const eval_tags[EVAL_TAGS] = {
    "val/loss",
#define STOKE_SCORE(id, name, title, metric, charted) "val/" #name,
#include <stoke/scores.def>
#undef STOKE_SCORE
};

static char *class_tag(const stk_setup *setup, uint32_t id)
{
    const char *name = stk_setup_class_name(setup, id);
    char number[16];
    if (!name) {
        snprintf(number, sizeof number, "%" PRIu32, id);
        name = number;
    }
    return stk_path_join("val/iou", name);
}

static int learn_classes(stk_log_writer *j, const stk_setup *setup, stoke_error *err)
{
    const uint32_t classes = stk_setup_matrix_classes(setup);
    forget_classes(j);
    j->tags = stk_calloc(classes, sizeof *j->tags);
    j->event_tags = stk_calloc(EVAL_TAGS + (size_t)classes, sizeof *j->event_tags);
    j->event_values = stk_calloc(EVAL_TAGS + (size_t)classes, sizeof *j->event_values);
    int lost = !j->tags || !j->event_tags || !j->event_values;
    for (; !lost && j->classes < classes; j->classes++) {
        j->tags[j->classes] = class_tag(setup, j->classes);
        lost = !j->tags[j->classes];
    }
    return lost ? stk_fail(err, STOKE_E_NOMEM, "%s: no memory for its journal", j->folder) : STOKE_OK;
}

int stk_log_writer_start(stk_log_writer *log, const stk_setup *setup, const stoke_net_plan *plan,
                         const char *cpu, uint64_t step, double t, int resumed, stoke_error *err)
{
    stoke_error why = { 0 };
    stk_text_start(log->log.stream, setup, plan, cpu, step, t, resumed);
    int r = finish_line(log, STK_LOG_FILE_LOG, err);
    if (log->with_events && learn_classes(log, setup, &why)) {
        stk_events_close(&log->events);
        log->lost[STK_LOG_FILE_EVENTS].why = why;
    }
    if (!log->table.stream || log->table.end) return r;
    stk_text_csv_head(log->table.stream, setup);
    const int table = finish_line(log, STK_LOG_FILE_TABLE, err);
    return r ? r : table;
}

int stk_log_writer_step(stk_log_writer *log, const stk_log_step_note *note, stoke_error *err)
{
    stk_text_step(log->log.stream, note);
    const int r = finish_line(log, STK_LOG_FILE_LOG, err);
    if (!log->with_events) return r;
    static const char *const tags[] = { "train/loss", "train/lr", "train/gradient_norm", "train/img_per_s",
                                        "train/data_wait" };
    const int timed = note->seconds > 0; /* the last two cannot be said of no time */
    const double values[] = { note->loss, note->lr, note->gradient_norm,
                              timed ? (double)note->images / note->seconds : 0,
                              timed ? note->data_seconds / note->seconds : 0 };
    stoke_error why = { 0 };
    const int also =
        log->events
            ? book(log, STK_LOG_FILE_EVENTS,
                   stk_events_scalars(log->events, note->step, tags, values, timed ? 5 : 3, &why), &why, err)
            : lose(log, STK_LOG_FILE_EVENTS, err);
    return r ? r : also;
}

/* A class that does not occur has no score, and no point in its curve. */
static int events_of_evaluation(stk_log_writer *j, const stk_log_eval_note *note, stoke_error *err)
{
    size_t n = 0;
    for (; n < EVAL_TAGS; n++) {
        j->event_tags[n] = eval_tags[n];
        j->event_values[n] =
            n ? stoke_score_value(&note->evaluation->scores, (int)n - 1) : note->evaluation->loss;
    }
    const uint32_t classes = stoke_confusion_classes(note->confusion);
    for (uint32_t i = 0; i < classes && i < j->classes; i++) {
        const double iou = stoke_confusion_class(note->confusion, i).iou;
        if (isnan(iou)) continue;
        j->event_tags[n] = j->tags[i];
        j->event_values[n++] = iou;
    }
    int r = stk_events_scalars(j->events, note->step, j->event_tags, j->event_values, n, err);
    if (r || !note->picture) return r;
    char *path = stk_path_join(j->folder, note->picture);
    if (!path) return stk_fail(err, STOKE_E_NOMEM, "%s: no memory for its journal", j->folder);
    r = stk_events_png(j->events, note->step, "val/predictions", path, err);
    stk_free(path);
    return r;
}

int stk_log_writer_evaluation(stk_log_writer *log, uint64_t step, uint64_t epoch, double t,
                              const stk_evaluate_result *evaluation, const stoke_confusion *confusion,
                              int best, int average, const char *picture, stoke_error *err)
{
    const stk_log_eval_note note = { step, epoch, t, evaluation, confusion, best, average, picture };
    stk_text_evaluation(log->log.stream, &note);
    const int line = finish_line(log, STK_LOG_FILE_LOG, err);
    if (log->table.stream) stk_text_csv_row(log->table.stream, &note);
    const int table =
        log->table.stream ? finish_line(log, STK_LOG_FILE_TABLE, err) : lose(log, STK_LOG_FILE_TABLE, err);
    int events = STOKE_OK;
    stoke_error why = { 0 };
    if (log->events)
        events = book(log, STK_LOG_FILE_EVENTS, events_of_evaluation(log, &note, &why), &why, err);
    else if (log->with_events)
        events = lose(log, STK_LOG_FILE_EVENTS, err);
    return line ? line : table ? table : events;
}

int stk_log_writer_saved(stk_log_writer *log, uint64_t step, double t, double seconds, uint64_t bytes,
                         stoke_error *err)
{
    stk_text_saved(log->log.stream, step, t, seconds, bytes);
    return finish_line(log, STK_LOG_FILE_LOG, err);
}

int stk_log_writer_remark(stk_log_writer *log, uint64_t step, double t, const char *text, stoke_error *err)
{
    stk_text_sentence(log->log.stream, "remark", step, t, "text", text);
    return finish_line(log, STK_LOG_FILE_LOG, err);
}

int stk_log_writer_end(stk_log_writer *log, uint64_t step, double t, const char *why, stoke_error *err)
{
    stk_text_sentence(log->log.stream, "end", step, t, "why", why);
    return finish_line(log, STK_LOG_FILE_LOG, err);
}
