/* SPDX-License-Identifier: Apache-2.0
 *
 * A run as a person follows it: one bar per epoch on a terminal, plain lines elsewhere.
 */
#ifndef STOKE_CLI_TRAIN_TRAIN_BAR_H
#define STOKE_CLI_TRAIN_TRAIN_BAR_H

#include "cli/lib/common.h"

typedef struct train_bar {
    const cli_call *call;
    int task, metric;       /* stoke_task, stoke_metric_kind */
    stoke_progress *epochs; /* the bar of the epochs, one after the other */
    stoke_progress *aside;  /* in its place while masks are read or an evaluation runs */
    uint64_t line_ns;       /* when a line was last printed for an epoch; 0: never */
} train_bar;

/* Shows an event of any kind; nothing with --quiet. */
void train_bar_show(train_bar *bar, const stoke_train_event *event);
/* "mIoU 0.5123, F1 0.6120, pixel accuracy 0.8712", and the metric that decides where it is another one;
 * "PSNR 28.13 dB, SSIM 0.9123" of restored pictures. Returns `text`. */
enum { TRAIN_BAR_SCORES = 128 };
const char *train_bar_scores(const train_bar *bar, const stoke_scores *scores, char text[TRAIN_BAR_SCORES]);
/* Clears what is on the screen. */
void train_bar_end(train_bar *bar);

#endif
