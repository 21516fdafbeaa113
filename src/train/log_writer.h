/* SPDX-License-Identifier: Apache-2.0
 *
 * What a run writes down as it goes, in its folder: log.jsonl, metrics.csv, TensorBoard's events. Curves and
 * the report are made from log.jsonl alone (run_report.c), so that `stoke report` can make them again.
 *
 * log.jsonl: an object per line; "t" is seconds since the run began, over all sessions, on the loader's
 * clock.
 *
 *   {"kind":"start","step":0,"t":0,"time":"2026-11-16T10:00:00Z","version":"0.1.0","model":"b0","parameters":3716457,
 *    "classes":12,"names":["sky",null,...],"size":[256,256],"batch":4,"accumulate":1,"steps":900,"epochs":10,
 *    "steps_per_epoch":92,"train_samples":367,"val_samples":101,"precision":"fp32","threads":2,"cpu":"avx2",
 *    "machine":"AMD EPYC 7R13","cores":2,"data":"camvid","metric":"miou","eval_mode":"slide","resumed":false}
 *   {"kind":"step","step":10,"epoch":0,"t":3.2,"loss":2.31,"lr":1e-4,"gradient_norm":1.9,"loss_scale":1,"skipped":0,
 *    "images":40,"seconds":1.9,"data_seconds":0.02}      loss is the mean, images, seconds and skipped the
 * sums, since the line before; data_seconds of seconds waited for batches
 *   {"kind":"eval","step":92,"epoch":1,"t":18.1,"loss":1.2,"miou":..,"f1_macro":..,"f1_micro":..,"precision":..,
 *    "recall":..,"pixel_accuracy":..,"iou":[..],"f1":[..],"best":true,"average":false,"samples":101,"seconds":1.4,
 *    "data_seconds":0.1,"picture":"predictions/000092.png","confusion":[[..]],"worst":[{"name":..,"miou":..}]}
 *                                                        confusion: up to 64 classes; undefined scores are
 * null; seconds with drawing the picture and saving best/
 *   A run that restores pictures has "task":"restore" in its first line, and of an evaluation "psnr" and
 * "ssim" in place of the scores and classes from "miou" to "f1", "input_psnr" and "input_ssim" (of the
 * pictures as they came; null where targets are larger), no confusion, and psnr and ssim of the worst.
 *   {"kind":"save","step":92,"t":18.3,"seconds":0.11,"bytes":59500000}
 *   {"kind":"remark","step":0,"t":0,"text":".."}         what was chosen or is odd, a sentence
 *   {"kind":"ranks",...}                                 of several processes: rank_watch.h
 *   {"kind":"end","step":900,"t":..,"why":"all steps done"}
 */
#ifndef STOKE_SRC_TRAIN_LOG_WRITER_H
#define STOKE_SRC_TRAIN_LOG_WRITER_H

#include <stdio.h>

#include "src/base/mem.h"
#include "src/train/evaluate.h"
#include "src/train/setup.h"
#include <stoke/common.h>
#include <stoke/tools/report.h>

/* ---- lines of a text file, in bounded memory, whatever stands in it ---- */

/* A line of an evaluation of 64 classes has about 45 kB. What is longer than this is no line of ours. */
enum { STK_LINE_BYTES = 4 << 20 };

typedef struct stk_lines {
    FILE *stream;
    const char *path; /* borrowed */
    char *text;       /* the line, zero-terminated, without its end; may hold zeros itself */
    size_t length, capacity;
    int whole; /* it ended with a line break: the last line of a process that was killed does not */
    int cut;   /* it was longer than STK_LINE_BYTES; `text` has its beginning */
} stk_lines;

/* STOKE_E_NOTFOUND when there is no such file; folders, fifos and devices are refused. */
int stk_lines_open(stk_lines *lines, const char *path, stoke_error *err);
/* 1: a line; 0: no more; negative: it cannot be read. */
int stk_lines_next(stk_lines *lines, stoke_error *err);
void stk_lines_close(stk_lines *lines); /* accepts a zeroed struct */

/* ---- what is written ---- */

/* Confusion matrices of more classes are left out of the log: 64 classes take 45 kB, 150 would take 250. */
enum { STK_LOG_MATRIX = 64 };

/* Name of class `id` of the matrix, NULL when it has none. A network of one class tells foreground from
 * background, and its matrix has both. */
const char *stk_setup_class_name(const stk_setup *setup, uint32_t id);
/* Classes of the matrix: 2 for a network of one class. */
uint32_t stk_setup_matrix_classes(const stk_setup *setup);

typedef struct stk_log_step_note {
    uint64_t step, epoch;
    double t, loss, lr, gradient_norm, loss_scale;
    uint64_t skipped, images;
    double seconds, data_seconds;
} stk_log_step_note;

/* The fields of its line: as they are at that step, then sums since the line before. */
#define STK_LOG_STEP_FIELDS(WHOLE, REAL, COUNT, SUM)                                                         \
    WHOLE(epoch)                                                                                             \
    REAL(t)                                                                                                  \
    REAL(loss)                                                                                               \
    REAL(lr) REAL(gradient_norm) REAL(loss_scale) COUNT(skipped) COUNT(images) SUM(seconds) SUM(data_seconds)

/* An evaluation with everything that is written about it. */
typedef struct stk_log_eval_note {
    uint64_t step, epoch;
    double t;
    const stk_evaluate_result *evaluation;
    const stoke_confusion *confusion; /* NULL: restore */
    int best, average;
    const char *picture; /* relative to the folder; NULL: none */
} stk_log_eval_note;

/* The files of a journal. metrics.csv: step,epoch,seconds,loss,miou,...,iou_NAME,... A class without a name
 * is iou_3. restore: step,epoch,seconds,loss,psnr,ssim. */
typedef enum stk_log_file {
    STK_LOG_FILE_LOG,
    STK_LOG_FILE_TABLE,
    STK_LOG_FILE_EVENTS,
    STK_LOG_FILES
} stk_log_file;

typedef struct stk_log_writer stk_log_writer;

/* Called for every line or entry that could not be written; it may write lines itself. */
typedef void stk_log_lost_fn(void *context, stk_log_file file, const char *why);

/* after: NULL for a new run; for a resumed one the step of its checkpoint: lines of later steps (and a half
 * line at the end) are cut off, since those steps come again. The folder exists. Fails where the log cannot
 * be begun; without the others a run can do. lost may be NULL. */
int stk_log_writer_open(stk_log_writer **out, const char *folder, const uint64_t *after, int tensorboard,
                        stk_log_lost_fn *lost, void *context, stoke_error *err);
void stk_log_writer_close(stk_log_writer **log);

/* Every line is flushed to the system; where one cannot be written (disk full) the other files get theirs all
 * the same. */
void stk_log_writer_start(stk_log_writer *log, const stk_setup *setup, const stoke_net_plan *plan,
                          const char *cpu, uint64_t step, double t, int resumed);
void stk_log_writer_step(stk_log_writer *log, const stk_log_step_note *note);
void stk_log_writer_evaluation(stk_log_writer *log, const stk_setup *setup, const stk_log_eval_note *note);
void stk_log_writer_saved(stk_log_writer *log, uint64_t step, double t, double seconds, uint64_t bytes);
/* A line of another kind, whose members `put` writes. */
void stk_log_writer_line(stk_log_writer *log, const char *kind, uint64_t step, double t,
                         void (*put)(stoke_json *json, const void *context), const void *context);
/* A line that is a sentence: kind "remark", or "end" with why the run ended. */
void stk_log_writer_sentence(stk_log_writer *log, const char *kind, uint64_t step, double t,
                             const char *text);

#endif
