/* SPDX-License-Identifier: Apache-2.0
 *
 * The ranks of a watched job that trains in several processes: what each did lately, as rank 0 tells it.
 */
#include "cli/monitor/monitor.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/lib/common.h"
#include "cli/lib/facts.h"

/* Lately: the table is renewed once a second, and a few steps tell little. */
#define LATELY_NS UINT64_C(5000000000)
/* Columns of the table of readings; more ranks are for Prometheus. */
enum { CSV_RANKS = 64 };

/* ---- looking ---- */

static void replace(monitor_ranks_look *to, monitor_ranks_look *from)
{
    stoke_live_ranks_free(&to->rank);
    *to = *from;
    *from = (monitor_ranks_look){ 0 };
}

static int copy(monitor_ranks_look *to, const monitor_ranks_look *from)
{
    const size_t bytes = (size_t)from->head.world * sizeof *from->rank;
    stoke_live_ranks_free(&to->rank);
    to->head = from->head;
    to->rank = cli_alloc(bytes + 1, 1);
    memcpy(to->rank, from->rank, bytes);
    return 1;
}

void monitor_ranks_look_at(monitor_ranks *ranks, const char *path, uint64_t pid)
{
    monitor_ranks_look look = { 0 };
    if (stoke_live_ranks_read(path, &look.head, &look.rank, NULL)) return;
    /* One of a session before, or not begun. */
    const int ours = look.head.pid == pid && look.head.world > 1 && look.head.steps;
    const int same = ranks->now.rank && look.head.now_ns == ranks->now.head.now_ns;
    if (!ours || same || (ranks->now.rank && look.head.world != ranks->now.head.world)) {
        stoke_live_ranks_free(&look.rank);
        return;
    }
    if (!ranks->now.rank) {
        copy(&ranks->first, &look);
        ranks->csv = look.head.world < CSV_RANKS ? look.head.world : CSV_RANKS;
    } else if (!ranks->older.rank || ranks->now.head.now_ns - ranks->older.head.now_ns > LATELY_NS) {
        replace(&ranks->older, &ranks->now);
    }
    replace(&ranks->now, &look);
}

void monitor_ranks_close(monitor_ranks *ranks)
{
    stoke_live_ranks_free(&ranks->first.rank);
    stoke_live_ranks_free(&ranks->older.rank);
    stoke_live_ranks_free(&ranks->now.rank);
}

size_t monitor_ranks_count(const monitor_ranks *ranks)
{
    return ranks->now.rank ? (size_t)ranks->now.head.world : 0;
}

/* ---- what happened between two looks ---- */

static double passed(uint64_t before, uint64_t after)
{
    return after == STOKE_LIVE_NA || after < before ? NAN : (double)(after - before);
}

static monitor_rank between(const stoke_live_rank *before, const stoke_live_rank *after)
{
    static const stoke_live_rank none;
    if (!before) before = &none;
    const double data = passed(before->data_ns, after->data_ns),
                 compute = passed(before->compute_ns, after->compute_ns),
                 others = passed(before->others_ns, after->others_ns),
                 exchange = passed(before->exchange_ns, after->exchange_ns),
                 rest = passed(before->rest_ns, after->rest_ns),
                 all = data + compute + others + exchange + rest, ran = passed(before->ran_ns, after->ran_ns),
                 wanted = ran + passed(before->stood_ns, after->stood_ns), of = all > 0 ? all : NAN;
    return (monitor_rank){ .images_s = passed(before->images, after->images) / (of / 1e9),
                           .compute = compute / of,
                           .data = data / of,
                           .others = others / of,
                           .exchange = exchange / of,
                           .rest = rest / of,
                           .cpu = wanted > 0 ? ran / wanted : NAN };
}

monitor_rank monitor_rank_lately(const monitor_ranks *ranks, size_t rank)
{
    return between(ranks->older.rank ? &ranks->older.rank[rank] : NULL, &ranks->now.rank[rank]);
}

monitor_rank monitor_rank_watched(const monitor_ranks *ranks, size_t rank, int watched)
{
    const int moved = watched && ranks->now.head.steps > ranks->first.head.steps;
    return between(moved ? &ranks->first.rank[rank] : NULL, &ranks->now.rank[rank]);
}

/* ---- for people and programs ---- */

/* "34 %"; n/a where it is not known. */
#define SHARE(title, key, value) CELL_AS(title, FACT(key, value), "%.0f %%", 100 * (value))

void monitor_ranks_print(cli_page *page, const monitor_ranks *ranks, int watched)
{
    const size_t n = monitor_ranks_count(ranks);
    if (!n && !page->as_json) return;
    if (n)
        cli_page_say(page,
                     " ranks, by what rank 0 hears of them (measured); shares are of the time of steps\n");
    cli_page_table(page, "ranks");
    for (size_t q = 0; q < n; q++) {
        const stoke_live_rank *r = &ranks->now.rank[q];
        const monitor_rank m = monitor_rank_watched(ranks, q, watched);
        CLI_PAGE_ROW(
            page, CELL("rank", FACT("rank", (unsigned long)q)), CELL("host", FACT_OF(r, host)),
            CELL_FACT(FACT_OF(r, pid)), CELL("step", FACT("step", ranks->now.head.step)),
            CELL_REAL("img/s", "images_s", "%.1f", m.images_s), SHARE("compute", "compute", m.compute),
            SHARE("data wait", "data_wait", m.data), SHARE("others", "others_wait", m.others),
            SHARE("exchange", "exchange", m.exchange), SHARE("rest", "rest", m.rest),
            CELL_AS("memory", FACT("resident_bytes", r->resident), "%.0f MiB",
                    (double)r->resident / (1 << 20)),
            SHARE("CPU got", "cpu_share", m.cpu), CELL("workers", FACT_OF(r, workers)),
            CELL("cores", FACT_OF(r, cores)), CELL_FACT(FACT_OF(r, threads)), CELL_FACT(FACT_OF(r, last)));
    }
    cli_page_table_end(page);
}

/* The rank that waits least for the others: they wait for it. */
static size_t latest(const monitor_ranks *ranks)
{
    size_t last = 0;
    for (size_t q = 1; q < monitor_ranks_count(ranks); q++)
        if (monitor_rank_lately(ranks, q).others < monitor_rank_lately(ranks, last).others) last = q;
    return last;
}

void monitor_ranks_print_line(const monitor_ranks *ranks)
{
    if (!monitor_ranks_count(ranks)) return;
    const size_t q = latest(ranks);
    const monitor_rank m = monitor_rank_lately(ranks, q);
    cli_print(
        "          %zu ranks; rank %zu (%s) waits least for the others: compute %.0f %%, data wait %.0f %%, "
        "others %.0f %% (measured)\n",
        monitor_ranks_count(ranks), q, ranks->now.rank[q].host, 100 * m.compute, 100 * m.data,
        100 * m.others);
}

void monitor_ranks_draw(monitor_frame *f, const monitor_ranks *ranks)
{
    const size_t n = monitor_ranks_count(ranks);
    if (!n) return;
    monitor_frame_line(f, "%4s %-16s %7s %8s %8s %8s %9s %9s %8s", "rank", "host", "img/s", "compute", "data",
                       "others", "exchange", "memory", "CPU got");
    for (size_t q = 0; q < n; q++) {
        const stoke_live_rank *r = &ranks->now.rank[q];
        const monitor_rank m = monitor_rank_lately(ranks, q);
        monitor_frame_line(f, "%4zu %-16.16s %7.1f %6.0f %% %6.0f %% %6.0f %% %7.0f %% %5.0f MiB %6s %%", q,
                           r->host, m.images_s, 100 * m.compute, 100 * m.data, 100 * m.others,
                           100 * m.exchange, (double)r->resident / (1 << 20),
                           CLI_FIGURE(monitor_job_figure(100 * m.cpu), WHOLE));
    }
}

/* ---- the table of readings ---- */

void monitor_ranks_csv_header(FILE *out, const monitor_ranks *ranks)
{
    for (uint64_t q = 0; q < ranks->csv; q++)
        fprintf(out,
                ",rank%" PRIu64 "_images_s,rank%" PRIu64 "_compute,rank%" PRIu64 "_data_wait,rank%" PRIu64
                "_others_wait,rank%" PRIu64 "_resident_bytes,rank%" PRIu64 "_cpu_share,rank%" PRIu64
                "_source",
                q, q, q, q, q, q, q);
}

void monitor_ranks_csv_row(FILE *out, const monitor_ranks *ranks)
{
    for (uint64_t q = 0; q < ranks->csv; q++) {
        const monitor_rank m = monitor_rank_lately(ranks, q);
        const stoke_figure figures[] = { monitor_job_figure(m.images_s),
                                         monitor_job_figure(m.compute),
                                         monitor_job_figure(m.data),
                                         monitor_job_figure(m.others),
                                         monitor_job_count(ranks->now.rank[q].resident),
                                         monitor_job_figure(m.cpu) };
        monitor_csv_figures(out, figures, CLI_COUNT(figures));
    }
}
