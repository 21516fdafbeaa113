/* SPDX-License-Identifier: Apache-2.0
 *
 * The ranks of a run by its log: who came last, what that cost, and why. The lines are those of rank_watch.h.
 */
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <stoke/tools/live.h>
#include <stoke/tools/terminal.h>
#include <stoke/tools/report.h>

#include "src/base/error.h"
#include "src/base/launch.h"
#include "src/base/mem.h"
#include "src/train/run_report.h"

/* A rank stands out that costs this share of the time of all steps beyond what the others cost in the mean,
 * and twice as much as they: ranks that are alike wait for each other in turns, two on busy cores 5 to 30 %
 * of the time. */
static const double COSTS_MUCH = 0.05, MORE_THAN_OTHERS = 2;
/* Where other programs are the reason a rank gets less of the CPU time it wants: below this part of what the
 * others get in the mean. */
static const double LESS_CPU = 0.75;
/* Of fewer a single one that was late would count for too much. */
enum { FEW_STEPS = 10 };
/* More of the time in turns is worth a word. */
static const double WAITS_MUCH = 0.1;

const char *stoke_rank_cause_name(int cause)
{
    static const char *const names[STOKE_RANK_CAUSES] = {
        [STOKE_RANK_EVEN] = "none",
        [STOKE_RANK_DATA] = "data",
        [STOKE_RANK_PROGRAMS] = "other programs",
        [STOKE_RANK_BOUND] = "bound to cores",
        [STOKE_RANK_CORES] = "fewer cores",
        [STOKE_RANK_PROCESSOR] = "slower processor",
        [STOKE_RANK_REST] = "between steps",
    };
    return cause >= 0 && cause < STOKE_RANK_CAUSES ? names[cause] : "unknown";
}

/* ---- lines ---- */

static uint64_t count_of(const stk_json *json, const stk_json_value *value)
{
    uint64_t count = 0;
    return value && stk_json_uint(json, value, &count) && count < UINT64_C(1) << 48 ? count : 0;
}

static void take_text(const stk_json *json, const stk_json_value *object, const char *key, char *text,
                      size_t size)
{
    const stk_json_value *value = stk_json_find(json, object, key);
    const char *found = value && value->kind == STK_JSON_STRING ? stk_json_text(json, value) : NULL;
    snprintf(text, size, "%.*s", (int)size - 1, found ? found : "");
}

/* Who there is: the figures of the session before stay until this one has any. */
static int take_who(stoke_run_ranks *ranks, const stk_json *json, const stk_json_value *who, stoke_error *err)
{
    stk_free(ranks->rank);
    *ranks = (stoke_run_ranks){ 0 };
    uint32_t world = 0;
    for (const stk_json_value *at = stk_json_first(json, who); at; at = stk_json_next(json, at)) world++;
    if (world < 2 || world > STOKE_LIVE_RANKS_MOST) return STOKE_OK;
    ranks->rank = stk_calloc(world, sizeof *ranks->rank);
    if (!ranks->rank) return stk_fail(err, STOKE_E_NOMEM, "no memory for the log of a run");
    ranks->world = world;
    const stk_json_value *at = stk_json_first(json, who);
    for (uint32_t q = 0; q < world; q++, at = stk_json_next(json, at)) {
        stoke_run_rank *rank = &ranks->rank[q];
        take_text(json, at, "host", rank->host, sizeof rank->host);
        take_text(json, at, "machine", rank->machine, sizeof rank->machine);
        rank->pid = count_of(json, stk_json_find(json, at, "pid"));
        rank->cores = count_of(json, stk_json_find(json, at, "cores"));
        rank->affinity = count_of(json, stk_json_find(json, at, "affinity"));
        rank->allowed = count_of(json, stk_json_find(json, at, "allowed"));
        rank->workers = count_of(json, stk_json_find(json, at, "workers"));
        rank->threads = count_of(json, stk_json_find(json, at, "threads"));
        rank->cpu_share = NAN;
    }
    return STOKE_OK;
}

/* The array `key` of a line, a number of each rank, added to the members at `offset`: seconds of
 * microseconds. */
static void add_seconds(stoke_run_ranks *ranks, const stk_json *json, const char *key, size_t offset)
{
    const stk_json_value *at = stk_json_first(json, stk_json_find(json, json->values, key));
    for (uint32_t q = 0; at && q < ranks->world; q++, at = stk_json_next(json, at)) {
        double *sum = (double *)(void *)((char *)&ranks->rank[q] + offset);
        *sum += (double)count_of(json, at) / 1e6;
    }
}

static void add_counts(stoke_run_ranks *ranks, const stk_json *json, const char *key, size_t offset, int set)
{
    const stk_json_value *at = stk_json_first(json, stk_json_find(json, json->values, key));
    for (uint32_t q = 0; at && q < ranks->world; q++, at = stk_json_next(json, at)) {
        uint64_t *sum = (uint64_t *)(void *)((char *)&ranks->rank[q] + offset);
        *sum = (set ? 0 : *sum) + count_of(json, at);
    }
}

#define AT(member) offsetof(stoke_run_rank, member)

/* cpu_share and cost are made of these: see stk_run_ranks_judge. */
static void take_sums(stoke_run_ranks *ranks, const stk_json *json)
{
    static const struct {
        const char *key;
        size_t offset;
    } seconds[] = {
        { "data", AT(data) },           { "compute", AT(compute) },     { "others", AT(others) },
        { "exchange", AT(exchange) },   { "rest", AT(rest) },           { "ran", AT(ran) },
        { "stood", AT(stood) },         { "cost_data", AT(cost_data) }, { "cost_compute", AT(cost_compute) },
        { "cost_rest", AT(cost_rest) },
    };
    for (size_t i = 0; i < sizeof seconds / sizeof *seconds; i++)
        add_seconds(ranks, json, seconds[i].key, seconds[i].offset);
    add_counts(ranks, json, "images", AT(images), 0);
    add_counts(ranks, json, "last", AT(last), 0);
    add_counts(ranks, json, "resident", AT(resident), 1);
    const stk_json_value *steps = stk_json_find(json, json->values, "steps");
    ranks->steps += count_of(json, steps);
}

int stk_run_ranks_line(stk_run_log *log, const stk_json *json, stoke_error *err)
{
    const stk_json_value *who = stk_json_find(json, json->values, "who");
    if (who) return take_who(&log->next_ranks, json, who, err);
    if (log->next_ranks.world) {
        stk_free(log->ranks.rank);
        log->ranks = log->next_ranks;
        log->next_ranks = (stoke_run_ranks){ 0 };
    }
    if (log->ranks.world) take_sums(&log->ranks, json);
    return STOKE_OK;
}

/* ---- what they say ---- */

/* Of a figure of all ranks but one, the mean. */
static double others_mean(const stoke_run_ranks *ranks, uint32_t but, size_t offset, int whole)
{
    double sum = 0;
    for (uint32_t q = 0; q < ranks->world; q++) {
        const char *at = (const char *)&ranks->rank[q] + offset;
        uint64_t count;
        double real;
        memcpy(&count, at, sizeof count);
        memcpy(&real, at, sizeof real);
        if (q != but) sum += whole ? (double)count : real;
    }
    return sum / (ranks->world - 1);
}

/* To fewer cores than its host has for it. */
static int is_bound(const stoke_run_rank *rank)
{
    return rank->affinity && rank->affinity < rank->allowed && rank->cores == rank->affinity;
}

static int stands_in_line(const stoke_run_ranks *ranks, uint32_t q)
{
    const stoke_run_rank *rank = &ranks->rank[q];
    return rank->cpu_share < LESS_CPU * others_mean(ranks, q, AT(cpu_share), 0);
}

static int cause_of_compute(const stoke_run_ranks *ranks, uint32_t q)
{
    const stoke_run_rank *rank = &ranks->rank[q];
    const int fewer = (double)rank->cores < others_mean(ranks, q, AT(cores), 1) ||
                      (double)rank->threads < others_mean(ranks, q, AT(threads), 1);
    if (stands_in_line(ranks, q)) return STOKE_RANK_PROGRAMS;
    if (fewer) return is_bound(rank) ? STOKE_RANK_BOUND : STOKE_RANK_CORES;
    return STOKE_RANK_PROCESSOR;
}

#define SAY(text, ...) snprintf(text, sizeof(text), __VA_ARGS__)

/* "2 workers where others have 4"; "" where they have no more. */
static void say_fewer(const stoke_run_ranks *ranks, uint32_t q, size_t offset, uint64_t own, const char *what,
                      char *text, size_t size)
{
    const double others = others_mean(ranks, q, offset, 1);
    *text = 0;
    if (!((double)own < others)) return;
    snprintf(text, size, "%s where others have %s%.3g", STOKE_COUNT(own, what),
             others == floor(others) ? "" : "about ", others);
}

static void why_data(stoke_run_ranks *ranks, uint32_t q, char why[200])
{
    stoke_run_rank *rank = &ranks->rank[q];
    char fewer[80];
    say_fewer(ranks, q, AT(workers), rank->workers, "worker", fewer, sizeof fewer);
    SAY(rank->what,
        "a `cache` on its host, or more `workers`; `stoke bench data` on %s shows what its files take",
        *rank->host ? rank->host : "its host");
    if (*fewer) {
        snprintf(why, 200, "it waited for data; %s", fewer);
    } else if (stands_in_line(ranks, q)) {
        snprintf(why, 200,
                 "it waited for data; its threads got %.0f %% of the CPU time they wanted, the others' "
                 "%.0f %%",
                 100 * rank->cpu_share, 100 * others_mean(ranks, q, AT(cpu_share), 0));
        SAY(rank->what,
            "other programs take its cores: `ps -eo pid,user,pcpu,comm --sort=-pcpu | head` on %s",
            *rank->host ? rank->host : "its host");
    } else {
        snprintf(why, 200, "it waited for data");
    }
}

static void why_compute(stoke_run_ranks *ranks, uint32_t q, char why[200])
{
    stoke_run_rank *rank = &ranks->rank[q];
    char fewer[80], threads[80];
    const char *host = *rank->host ? rank->host : "its host";
    say_fewer(ranks, q, AT(cores), rank->cores, "core", fewer, sizeof fewer);
    say_fewer(ranks, q, AT(threads), rank->threads, "thread", threads, sizeof threads);
    switch (rank->cause) {
    case STOKE_RANK_PROGRAMS:
        snprintf(why, 200,
                 "another program wants its cores: its threads got %.0f %% of the CPU time they wanted, the "
                 "others' %.0f %%",
                 100 * rank->cpu_share, 100 * others_mean(ranks, q, AT(cpu_share), 0));
        SAY(rank->what, "`ps -eo pid,user,pcpu,comm --sort=-pcpu | head` on %s names it", host);
        break;
    case STOKE_RANK_BOUND:
        snprintf(why, 200, "it is bound to %s of %" PRIu64 "; %s", STOKE_COUNT(rank->affinity, "core"),
                 rank->allowed, *fewer ? fewer : threads);
        SAY(rank->what, "let the launcher give it more: %s", stk_launcher_unbind(STOKE_LAUNCHER_OPEN_MPI));
        break;
    case STOKE_RANK_CORES:
        snprintf(why, 200, "%s", *fewer ? fewer : threads);
        SAY(rank->what, "fewer processes on %s, or `--threads` alike on all", host);
        break;
    default:
        snprintf(why, 200, "it computes slower than others on as many cores (%s)",
                 *rank->machine ? rank->machine : "processor n/a");
        SAY(rank->what,
            "its processor is slower, or held back by heat or a limit of its group: `stoke doctor` on %s",
            host);
    }
}

static void explain(stoke_run_ranks *ranks, uint32_t q)
{
    stoke_run_rank *rank = &ranks->rank[q];
    char why[200] = "it was busy between steps: log, page, report";
    const double share = rank->cost / ranks->seconds;
    if (rank->cost_data >= rank->cost_compute && rank->cost_data >= rank->cost_rest) {
        rank->cause = STOKE_RANK_DATA;
        why_data(ranks, q, why);
    } else if (rank->cost_compute >= rank->cost_rest) {
        rank->cause = cause_of_compute(ranks, q);
        why_compute(ranks, q, why);
    } else {
        rank->cause = STOKE_RANK_REST;
        SAY(rank->what, "a larger `log_every`, and a faster disk for the run");
    }
    SAY(rank->why,
        "rank %u (%s, pid %" PRIu64 ") was last in %.0f %% of steps and cost %.0f %% of the run: %s",
        (unsigned)q, *rank->host ? rank->host : "host n/a", rank->pid,
        100 * (double)rank->last / (double)ranks->steps, 100 * share, why);
}

/* Sums that the log has in parts, and shares of them. */
static void add_up(stoke_run_ranks *ranks)
{
    ranks->seconds = 0;
    for (uint32_t q = 0; q < ranks->world; q++) {
        stoke_run_rank *rank = &ranks->rank[q];
        const double wanted = rank->ran + rank->stood;
        rank->seconds = rank->data + rank->compute + rank->others + rank->exchange + rank->rest;
        rank->cost = rank->cost_data + rank->cost_compute + rank->cost_rest;
        rank->cpu_share = wanted > 0 ? rank->ran / wanted : NAN;
        ranks->seconds = fmax(ranks->seconds, rank->seconds);
    }
}

void stk_run_ranks_judge(stoke_run_ranks *ranks)
{
    uint32_t out = 0, worst = 0;
    double cost = 0;
    if (!ranks->world) {
        SAY(ranks->verdict,
            "One process trained this run, or its log is of an older stoke: there are no ranks "
            "to compare");
        return;
    }
    add_up(ranks);
    for (uint32_t q = 0; q < ranks->world && ranks->steps >= FEW_STEPS && ranks->seconds > 0; q++) {
        stoke_run_rank *rank = &ranks->rank[q];
        cost += rank->cost;
        if (rank->cost > ranks->rank[worst].cost) worst = q;
        const double others = others_mean(ranks, q, AT(cost), 0);
        if (rank->cost - others < COSTS_MUCH * ranks->seconds || rank->cost < MORE_THAN_OTHERS * others)
            continue;
        explain(ranks, q);
        out++;
    }
    const double share = ranks->seconds > 0 ? cost / ranks->seconds : 0;
    if (ranks->steps < FEW_STEPS)
        SAY(ranks->verdict, "Too few steps to tell which of these %u ranks holds up the others: %" PRIu64,
            (unsigned)ranks->world, ranks->steps);
    else if (out)
        SAY(ranks->verdict, "%s stands out: without it steps would take %.0f %% less",
            out == 1 ? "One rank" : "More than one rank", 100 * ranks->rank[worst].cost / ranks->seconds);
    else if (share > WAITS_MUCH)
        SAY(ranks->verdict,
            "No rank stands out: they wait for each other in turns, %.0f %% of the time. Their cores are "
            "shared "
            "with others, or steps differ",
            100 * share);
    else
        SAY(ranks->verdict, "Nothing unusual: no rank holds up the others by more than %.0f %% of the run",
            100 * fmax(COSTS_MUCH, ranks->rank[worst].cost / ranks->seconds));
}

/* ---- a run ---- */

int stoke_run_ranks_read(stoke_run_ranks **out, const char *run, stoke_error *err)
{
    char path[PATH_MAX];
    stk_run_log log = { 0 };
    *out = stk_calloc(1, sizeof **out);
    if (!*out) return stk_fail(err, STOKE_E_NOMEM, "no memory for the log of a run");
    int r = snprintf(path, sizeof path, "%s/log.jsonl", run) < (int)sizeof path
                ? stk_run_log_read(&log, path, err)
                : stk_fail(err, STOKE_E_INVALID, "%.200s...: the name of the run is too long", run);
    if (r) {
        stoke_run_ranks_free(out);
    } else {
        **out = log.ranks.world ? log.ranks : log.next_ranks;
        if (log.ranks.world)
            log.ranks.rank = NULL;
        else
            log.next_ranks.rank = NULL;
        stk_run_ranks_judge(*out);
    }
    stk_run_log_free(&log);
    return r;
}

void stoke_run_ranks_free(stoke_run_ranks **ranks)
{
    if (!*ranks) return;
    stk_free((*ranks)->rank);
    stk_free(*ranks);
    *ranks = NULL;
}
