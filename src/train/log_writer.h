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
 *   {"kind":"save","step":92,"t":18.3,"seconds":0.11,"bytes":59500000}
 *   {"kind":"remark","step":0,"t":0,"text":".."}         what was chosen or is odd, a sentence
 *   {"kind":"end","step":900,"t":..,"why":"all steps done"}
 */
#ifndef STOKE_SRC_TRAIN_LOG_WRITER_H
#define STOKE_SRC_TRAIN_LOG_WRITER_H

#include "src/train/evaluate.h"
#include "src/train/setup.h"

typedef struct stk_log_writer stk_log_writer;

/* The files of a journal. */
typedef enum stk_log_file {
    STK_LOG_FILE_LOG,
    STK_LOG_FILE_TABLE,
    STK_LOG_FILE_EVENTS,
    STK_LOG_FILES
} stk_log_file;

/* after: NULL for a new run; for a resumed one the step of its checkpoint: lines of later steps (and a half
 * line at the end) are cut off, since those steps come again. The folder exists. Fails where the log cannot
 * be begun; without the others a run can do. */
int stk_log_writer_open(stk_log_writer **out, const char *folder, const uint64_t *after, int tensorboard,
                        stoke_error *err);
void stk_log_writer_close(stk_log_writer **log);

typedef struct stk_log_step_note {
    uint64_t step, epoch;
    double t, loss, lr, gradient_norm, loss_scale;
    uint64_t skipped, images;
    double seconds, data_seconds;
} stk_log_step_note;

/* How many lines or entries could not be written, and why the first of them (lives until close). */
uint64_t stk_log_writer_lost(const stk_log_writer *log, stk_log_file paper, const char **why);

/* Every line is flushed to the system; a line that cannot be written is STOKE_E_IO (disk full), and the other
 * files get theirs all the same. */
int stk_log_writer_start(stk_log_writer *log, const stk_setup *setup, const stoke_net_plan *plan,
                         const char *cpu, uint64_t step, double t, int resumed, stoke_error *err);
int stk_log_writer_step(stk_log_writer *log, const stk_log_step_note *note, stoke_error *err);
/* picture: relative to the folder, NULL without. */
int stk_log_writer_evaluation(stk_log_writer *log, uint64_t step, uint64_t epoch, double t,
                              const stk_evaluate_result *evaluation, const stoke_confusion *confusion,
                              int best, int average, const char *picture, stoke_error *err);
int stk_log_writer_saved(stk_log_writer *log, uint64_t step, double t, double seconds, uint64_t bytes,
                         stoke_error *err);
int stk_log_writer_remark(stk_log_writer *log, uint64_t step, double t, const char *text, stoke_error *err);
int stk_log_writer_end(stk_log_writer *log, uint64_t step, double t, const char *why, stoke_error *err);

#endif
