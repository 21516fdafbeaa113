/* SPDX-License-Identifier: Apache-2.0
 *
 * log.rank3.jsonl in the run's folder (`rank_logs`): the steps of one of several processes by its own clock.
 * A line has the sums since the one before, as log.jsonl does, which has the means of all:
 *
 *   {"kind":"step","step":10,"t":3.2,"seconds":1.9,"data_seconds":0.02,"others_seconds":0.4}
 *
 * seconds of all steps; waited for data; waited for the other processes to come as far. Best effort: nothing
 * hangs on it. Lines of a session are added to those of the sessions before.
 */
#ifndef STOKE_SRC_TRAIN_RANK_LOG_H
#define STOKE_SRC_TRAIN_RANK_LOG_H

#include <stdint.h>
#include <stdio.h>

typedef struct stk_rank_log {
    FILE *stream; /* NULL: not wanted, or not to be had */
    double seconds, data, others;
} stk_rank_log;

void stk_rank_log_open(stk_rank_log *log, const char *folder, uint32_t rank);
void stk_rank_log_add(stk_rank_log *log, double seconds, double data, double others);
/* A line, and the sums begin again. */
void stk_rank_log_write(stk_rank_log *log, uint64_t step, double t);
void stk_rank_log_close(stk_rank_log *log);

#endif
