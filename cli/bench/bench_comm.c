/* SPDX-License-Identifier: Apache-2.0
 *
 * stoke bench comm: bytes between processes that train together, by size, through the engine that training
 * takes.
 */
#include <stdio.h>
#include <stoke/tools/commbench.h>

#include "cli/bench/bench.h"
#include "cli/lib/page.h"

typedef struct comm_options {
    const char *comm;
    int64_t ranks;
    double seconds;
    int short_run;
} comm_options;

#define OPTIONS comm_options
static const stoke_option options[] = {
    CLI_TEXT(STRING, comm, "auto", "NAME|PATH", "What carries the bytes, as `stoke train --comm` takes it"),
    CLI_NUMBER(INT, ranks, "2", 2, 64, "N",
               "Threads that stand for processes where no launcher started any: the speed of memory, for "
               "comparison"),
    CLI_NUMBER(REAL, seconds, "0.5", 0.01, 60, "S", "How long each figure is measured"),
    CLI_SHORT("A few rounds of each, to see that it runs; its figures mean little"),
};

enum { FIGURES = 32 };

typedef struct figures {
    stoke_comm_figure list[FIGURES];
    size_t count;
} figures;

static void take(void *context, const stoke_comm_figure *figure)
{
    figures *f = context;
    if (f->count < FIGURES) f->list[f->count++] = *figure;
}

static const char *size_text(uint64_t bytes, char *text, size_t size)
{
    if (bytes < 1000 * 1024)
        snprintf(text, size, bytes < 1024 ? "%.0f B" : "%.0f KiB",
                 bytes < 1024 ? (double)bytes : (double)bytes / 1024);
    else
        snprintf(text, size, "%.0f MiB", (double)bytes / (1 << 20));
    return text;
}

static void print(const cli_call *call, const figures *f, const stoke_comm_bench_report *report)
{
    cli_page about, *page = &about;
    cli_page_begin(page, call->common.json);
    cli_page_say(page, "%u ranks on %s, by %s; a copy in memory: %.1f GB/s\n\n", (unsigned)report->world,
                 STOKE_COUNT(report->hosts, "host"), report->library, report->copy_bytes_s / 1e9);
    CLI_PAGE_FACTS(page, FACT_OF(report, world), FACT_OF(report, hosts), FACT_OF(report, library),
                   FACT_OF(report, copy_bytes_s));
    cli_page_table(page, "figures");
    for (size_t i = 0; i < f->count; i++) {
        const stoke_comm_figure *g = &f->list[i];
        char size[32];
        const double bytes_s = (double)g->sent / (g->us * 1e-6);
        CLI_PAGE_ROW(page, CELL("what", FACT_OF(g, what)), CELL("where", FACT_OF(g, where)),
                     CELL_AS("bytes", FACT_OF(g, bytes), "%s", size_text(g->bytes, size, sizeof size)),
                     CELL_FACT(FACT_OF(g, sent)), CELL_OF("us", g, us, "%.1f"),
                     CELL_OF("best us", g, best_us, "%.1f"), CELL_OF("processor us", g, cpu_us, "%.1f"),
                     CELL_AS("MB/s sent", FACT("bytes_s", bytes_s), "%.0f", bytes_s / 1e6),
                     CELL_AS("of a copy", FACT("copy_share", bytes_s / report->copy_bytes_s), "%.2f",
                             bytes_s / report->copy_bytes_s),
                     CELL_FACT(FACT_OF(g, rounds)));
    }
    cli_page_table_end(page);
    cli_page_say(
        page,
        "\nA step of training is one exchange of the gradients and one gather of the weights, each as "
        "large as the network (b0: 15 MB, b5: 338 MB). us: until rank 0 had all, median of the "
        "rounds. One way, both ways, messages: between rank 0 and one other, inside its host or between "
        "hosts; a message there, two that meet, and each of many at once. Processor us: of rank 0.\n");
    cli_page_end(page);
}

static int run(cli_call *call, stoke_error *err)
{
    const comm_options *o = call->options;
    stoke_comm_bench_params params = stoke_comm_bench_defaults();
    stoke_comm_bench_report report;
    figures found = { .count = 0 };
    params.engine = o->comm;
    params.ranks = (uint32_t)o->ranks;
    params.seconds = o->short_run ? 0.001 : o->seconds;
    const int r = stoke_comm_bench(&params, take, &found, &report, err);
    if (!r && !report.rank) print(call, &found, &report);
    return r;
}

const cli_command cli_bench_comm = {
    .summary = "bytes between processes that train together: time and bandwidth by size",
    .description = "Started by mpirun or srun, it measures what a step of training sends between its processes: each "
                   "one's part to each other one (the sum of gradients), and each one's own part to all (the new "
                   "weights). Between two of them, on one host and on two: latency, bandwidth one way and both "
                   "ways, and the cost of a message. Without a launcher threads of this process stand for them, which shows what memory "
                   "alone would allow.",
    .examples = {
        { "stoke bench comm --short", "threads of this process: memory alone" },
        { "stoke bench comm --short --ranks 4 --json", "four of them, for a program" },
    },
    CLI_OWN_OPTIONS_AND_RUN,
};
