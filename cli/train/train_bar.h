/* SPDX-License-Identifier: Apache-2.0
 *
 * A run as a person follows it: one bar per epoch on a terminal, plain lines elsewhere.
 */
#ifndef STOKE_CLI_TRAIN_TRAIN_BAR_H
#define STOKE_CLI_TRAIN_TRAIN_BAR_H

#include "cli/lib/common.h"

typedef struct train_bar {
    const cli_call *call;
    int metric;             /* stoke_metric_kind */
    stoke_progress *epochs; /* the bar of the epochs, one after the other */
    stoke_progress *aside;  /* in its place while masks are read or an evaluation runs */
    uint64_t line_ns;       /* when a line was last printed for an epoch; 0: never */
} train_bar;

/* Shows an event of any kind; nothing with --quiet. */
void train_bar_show(train_bar *bar, const stoke_train_event *event);
/* ", precision 0.4312": the metric that decides, where it is none of mIoU, F1, pixel accuracy and loss, which
 * lines about scores have anyway; "" otherwise. Returns `text`. */
enum { TRAIN_BAR_METRIC = 48 };
const char *train_bar_metric(const train_bar *bar, const stoke_scores *scores, char text[TRAIN_BAR_METRIC]);
/* Clears what is on the screen. */
void train_bar_end(train_bar *bar);

#endif
