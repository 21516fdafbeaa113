/* SPDX-License-Identifier: Apache-2.0
 *
 * log.jsonl of any bytes: every line counts once, steps ascend, limits hold, and curves and page can be made
 * of what was read.
 */
#include "tests/fuzz/fuzz.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/train/run_report.h"

static void check_log(const stk_run_log *log)
{
    if (log->damaged > log->lines) abort();
    if (log->n_steps > STK_RUN_STEPS || log->n_evals > STK_RUN_EVALS) abort();
    for (size_t i = 1; i < log->n_steps; i++)
        if (log->steps[i].step <= log->steps[i - 1].step) abort();
    for (size_t i = 1; i < log->n_evals; i++)
        if (log->evals[i].step <= log->evals[i - 1].step) abort();
    if (!(log->t >= 0) || !(log->step_seconds >= 0) || !(log->data_seconds >= 0) || !(log->eval_seconds >= 0))
        abort();
    for (uint32_t q = 0; q < log->ranks.world; q++) {
        const stoke_run_rank *rank = &log->ranks.rank[q];
        if (!(rank->seconds >= 0) || !(rank->cost >= 0) || rank->cpu_share < 0 || rank->cpu_share > 1)
            abort();
        if (!memchr(rank->why, 0, sizeof rank->why) || !*stoke_rank_cause_name(rank->cause)) abort();
    }
    if (memchr(log->why, 0, sizeof log->why) == NULL) abort();
}

/* No text of the log may become a tag. */
static void check_page(const char *page)
{
    if (strstr(page, "<script") || strstr(page, "<iframe") || !strstr(page, "</html>")) abort();
}

FUZZ_TARGET(run_log)
{
    stk_run_log log = { 0 };
    stk_run_curves curves = { 0 };
    char *page = NULL;
    size_t length = 0;
    for (size_t at = 0; at < size;) {
        const uint8_t *end = memchr(bytes + at, '\n', size - at);
        const size_t n = end ? (size_t)(end - (bytes + at)) : size - at;
        if (stk_run_log_line(&log, (const char *)bytes + at, n, NULL)) abort();
        at += n + 1;
    }
    stk_run_ranks_judge(&log.ranks);
    check_log(&log);
    FILE *out = open_memstream(&page, &length);
    if (!out || stk_curves_make(&curves, &log, NULL)) abort();
    /* A folder that is not there: pictures and settings are read elsewhere. */
    const stk_run_page view = { "/nonexistent", "fuzz", &log, &curves, out };
    if (stk_run_page_write(&view, NULL)) abort();
    fclose(out);
    check_page(page);
    free(page);
    stk_curves_free(&curves);
    stk_run_log_free(&log);
    return 0;
}
