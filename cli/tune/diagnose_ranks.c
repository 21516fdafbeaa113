/* SPDX-License-Identifier: Apache-2.0
 *
 * stoke diagnose RUN: which rank of a run of several processes holds up the others, and why, from its log.
 */
#include <math.h>
#include <stdio.h>

#include "cli/lib/page.h"
#include "cli/tune/diagnose.h"
#include <stoke/tools/train.h>

int diagnose_is_run(const char *path)
{
    char log[CLI_PATH + 16];
    if (!path || snprintf(log, sizeof log, "%s/log.jsonl", path) >= (int)sizeof log) return 0;
    return stoke_there(log) && stoke_run_check(path, NULL) == STOKE_OK;
}

/* "34 %" of the time of steps. */
#define SHARE(title, key, seconds) CELL_AS(title, FACT(key, seconds), "%.1f %%", 100 * (seconds) / of)

static void put_ranks(cli_page *page, const stoke_run_ranks *ranks)
{
    const double of = ranks->seconds > 0 ? ranks->seconds : NAN;
    cli_page_table(page, "ranks");
    for (uint32_t q = 0; q < ranks->world; q++) {
        const stoke_run_rank *r = &ranks->rank[q];
        const double last = ranks->steps ? (double)r->last / (double)ranks->steps : NAN;
        CLI_PAGE_ROW(
            page, CELL("rank", FACT("rank", q)), CELL("host", FACT_OF(r, host)), CELL("pid", FACT_OF(r, pid)),
            CELL_FACT(FACT_OF(r, seconds)), SHARE("data", "data_seconds", r->data),
            SHARE("compute", "compute_seconds", r->compute), SHARE("others", "others_seconds", r->others),
            SHARE("exchange", "exchange_seconds", r->exchange), SHARE("rest", "rest_seconds", r->rest),
            CELL_AS("last", FACT("last_share", last), "%.0f %%", 100 * last),
            SHARE("cost", "cost_seconds", r->cost), CELL_FACT(FACT("cost_data_seconds", r->cost_data)),
            CELL_FACT(FACT("cost_compute_seconds", r->cost_compute)),
            CELL_FACT(FACT("cost_rest_seconds", r->cost_rest)),
            CELL_AS("CPU got", FACT_OF(r, cpu_share), "%.0f %%", 100 * r->cpu_share),
            CELL("workers", FACT_OF(r, workers)), CELL("cores", FACT_OF(r, cores)),
            CELL_FACT(FACT_OF(r, threads)), CELL_FACT(FACT_OF(r, affinity)), CELL_FACT(FACT_OF(r, allowed)),
            CELL_FACT(FACT_OF(r, images)), CELL_FACT(FACT("resident_bytes", r->resident)),
            CELL_FACT(FACT_TEXT("machine", r->machine)),
            CELL_FACT(FACT("cause", stoke_rank_cause_name(r->cause))), CELL_FACT(FACT_TEXT("why", r->why)),
            CELL_FACT(FACT_TEXT("what", r->what)));
    }
    cli_page_table_end(page);
}

int diagnose_run_ranks(const cli_call *call, const char *run, stoke_error *err)
{
    stoke_run_ranks *ranks = NULL;
    cli_page page;
    const int r = stoke_run_ranks_read(&ranks, run, err);
    if (r) return r;
    cli_page_begin(&page, call->common.json);
    CLI_PAGE_FACTS(&page, FACT("run", run), FACT_OF(ranks, world), FACT_OF(ranks, steps),
                   FACT_OF(ranks, seconds), FACT_OF(ranks, verdict));
    if (ranks->world)
        cli_page_say(&page, "%s: %u ranks, %s in %s; shares of that time (measured)\n\n", run,
                     (unsigned)ranks->world, STOKE_COUNT(ranks->steps, "step"),
                     STOKE_SECONDS(ranks->seconds));
    if (ranks->world || call->common.json) put_ranks(&page, ranks);
    if (ranks->world) cli_page_say(&page, "\n");
    cli_page_say(&page, "%s.\n", ranks->verdict);
    for (uint32_t q = 0; q < ranks->world; q++) {
        const stoke_run_rank *rank = &ranks->rank[q];
        if (*rank->why) cli_page_say(&page, "  %s\n    -> %s\n", rank->why, rank->what);
    }
    cli_page_say(&page, "Next: `stoke why slow --run %s`\n", STOKE_WORD(run));
    cli_page_end(&page);
    stoke_run_ranks_free(&ranks);
    return STOKE_OK;
}
