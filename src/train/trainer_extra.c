/* SPDX-License-Identifier: Apache-2.0
 *
 * What a run can do without: the lines of its log, tables, events, pictures, the report. One that cannot be
 * made is told as it happens, once for each kind, and counted for the end; the network is trained all the
 * same. Only the state and the networks end a run that cannot write them.
 */
#include "src/train/trainer.h"

#include <inttypes.h>
#include <stdio.h>

void stk_trainer_without(stoke_trainer *t, stk_trainer_extra what, const char *why)
{
    static const char *const kinds[STK_EXTRAS] = { "lines of log.jsonl", "lines of metrics.csv",
                                                   "TensorBoard's events", "pictures of predictions",
                                                   "the report" };
    stk_trainer_missing *missing = &t->missing[what];
    if (missing->times++) return;
    snprintf(missing->why, sizeof missing->why, "%s", why);
    stk_trainer_remark(t, "the run goes on without %s: %s", kinds[what], why);
}

void stk_trainer_check_log(stoke_trainer *t)
{
    static const stk_trainer_extra kinds[STK_LOG_FILES] = { STK_EXTRA_LOG, STK_EXTRA_TABLE,
                                                            STK_EXTRA_EVENTS };
    for (int i = 0; i < STK_LOG_FILES; i++) {
        const char *why;
        const uint64_t lost = stk_log_writer_lost(t->log, (stk_log_file)i, &why);
        while (t->missing[kinds[i]].times < lost) stk_trainer_without(t, kinds[i], why);
    }
}

void stk_trainer_say_missing(stoke_trainer *t)
{
    static const char *const units[STK_EXTRAS] = { "line of log.jsonl is", "line of metrics.csv is",
                                                   "entry of TensorBoard's events is",
                                                   "picture of predictions is", "report is" };
    static const char *const several[STK_EXTRAS] = { "lines of log.jsonl are", "lines of metrics.csv are",
                                                     "entries of TensorBoard's events are",
                                                     "pictures of predictions are", "reports are" };
    for (int i = 0; i < STK_EXTRAS; i++) {
        const stk_trainer_missing *missing = &t->missing[i];
        if (missing->times)
            stk_trainer_remark(t, "%" PRIu64 " %s missing: %s", missing->times,
                               missing->times == 1 ? units[i] : several[i], missing->why);
    }
}
