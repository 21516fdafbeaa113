/* SPDX-License-Identifier: Apache-2.0 */
#include "src/tune/preflight/preflight_ranks.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "src/base/cpu.h"
#include "src/base/error.h"
#include "src/base/launch.h"
#include "src/base/mem.h"
#include "src/comm/comm_bench.h"
#include "src/tune/decide/decide.h"
#include <stoke/tools/advise.h>
#include <stoke/tools/machine.h>
#include <stoke/tools/report.h>
#include <stoke/tools/terminal.h>

/* Log lines, times of files and the limits of batch systems are off by as much. */
static const double CLOCKS_APART = 1;
/* Below 1 Gbit/s, 15 MB of gradients (b0) take longer than most steps. */
static const double SLOW_LINK = 1e8;
/* Of each figure; there are ten. */
static const double BENCH_SECONDS = 0.02;
enum { CLOCK_ROUNDS = 5 };

/* ---- what is told ---- */

typedef struct rank_name {
    char text[128];
} rank_name;

static rank_name name_of(const stk_rank_facts *facts, uint32_t q)
{
    rank_name name;
    STK_SAY(name.text, "rank %u (%s, pid %" PRIu64 ")", (unsigned)q, facts[q].host, facts[q].pid);
    return name;
}

static uint32_t ranks_on(const stk_rank_facts *facts, uint32_t world, uint32_t q)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < world; i++) n += !strcmp(facts[i].host, facts[q].host);
    return n;
}

static stoke_preflight_line *add(stoke_preflight *list, const char *key, const char *title, int verdict)
{
    stoke_preflight_line *line = stk_check_add(list, key, title);
    line->verdict = verdict;
    line->source = STOKE_SOURCE_MEASURED;
    return line;
}

static void check_who(stoke_preflight *list, const stk_rank_facts *facts, uint32_t world,
                      const stk_rank_links *links)
{
    uint32_t hosts = 1, bad = 0;
    for (uint32_t q = 1; q < world; q++) hosts += strcmp(facts[q].host, facts[q - 1].host) != 0;
    for (uint32_t q = world; q-- > 0;) bad = facts[q].code ? q : bad;
    stoke_preflight_line *line = add(list, "ranks", "ranks", STOKE_VERDICT_PASS);
    STK_SAY(line->figure, "%u ranks on %s, by %s; stoke %s on all", (unsigned)world,
            STOKE_COUNT(hosts, "host"), *links->library ? links->library : "an engine without a name",
            stoke_version());
    if (!facts[bad].code) return;
    line->verdict = STOKE_VERDICT_FAIL;
    STK_SAY(line->figure, "%s: %.240s", name_of(facts, bad).text, facts[bad].text);
    STK_SAY(line->fix, "every rank needs the settings file and the set under the same names");
}

static void check_tables(stoke_preflight *list, const stk_rank_facts *facts, uint32_t world)
{
    stoke_preflight_line *line = add(list, "rank_cpu", "CPU table of ranks", STOKE_VERDICT_PASS);
    STK_SAY(line->figure, "%s on all", facts[0].cpu);
    for (uint32_t q = 1; q < world; q++) {
        if (!strcmp(facts[q].cpu, facts[0].cpu)) continue;
        line->verdict = STOKE_VERDICT_FAIL;
        STK_SAY(line->figure, "%s computes with %s and rank 0 with %s, which round otherwise",
                name_of(facts, q).text, facts[q].cpu, facts[0].cpu);
        STK_SAY(line->fix, "set STOKE_CPU to the simpler one for all: mpirun -x STOKE_CPU=avx2 ...");
        return;
    }
}

static int is_bound(const stk_rank_facts *rank)
{
    return rank->affinity == 1 && rank->allowed > 1;
}

static void check_cores(stoke_preflight *list, const stk_rank_facts *facts, uint32_t world)
{
    const stoke_comm_launcher launcher = stoke_comm_launch_of(NULL).launcher;
    const char *unbind = stk_launcher_unbind(launcher);
    stoke_preflight_line *line = add(list, "rank_cores", "cores of ranks", STOKE_VERDICT_PASS);
    uint32_t least = 0, most = 0, bound = 0;
    for (uint32_t q = 0; q < world; q++) {
        if (facts[q].cores < facts[least].cores) least = q;
        if (facts[q].cores > facts[most].cores) most = q;
        bound += (uint32_t)is_bound(&facts[q]);
    }
    STK_SAY(line->figure, "%s for each rank", STOKE_COUNT(facts[0].cores, "core"));
    /* As many ranks as cores, each on its own: nothing is lost. */
    if (bound < world || ranks_on(facts, world, 0) < facts[0].allowed) {
        for (uint32_t q = 0; q < world && !*line->fix; q++) {
            if (!is_bound(&facts[q])) continue;
            line->verdict = STOKE_VERDICT_WARN;
            STK_SAY(line->figure, "%s is bound to 1 core of %" PRIu64, name_of(facts, q).text,
                    facts[q].allowed);
            STK_SAY(line->fix, "%s %s", stoke_comm_launcher_name(launcher),
                    unbind ? unbind : "without a binding");
        }
    }
    if (facts[least].cores == facts[most].cores || *line->fix) return;
    line->verdict = STOKE_VERDICT_WARN;
    STK_SAY(line->figure, "%s may use %s, %s %" PRIu64 ": all wait for the slowest",
            name_of(facts, least).text, STOKE_COUNT(facts[least].cores, "core"), name_of(facts, most).text,
            facts[most].cores);
    STK_SAY(line->fix, "fewer processes on %s, or hosts that are alike", facts[least].host);
}

/* The set as rank 0 has it: fewer pairs and other names are another one. */
static void check_sets(stoke_preflight *list, const stk_run_config *config, const stk_rank_facts *facts,
                       uint32_t world)
{
    stoke_preflight_line *line = add(list, "rank_data", "data of ranks", STOKE_VERDICT_PASS);
    if (!config->has_data) {
        line->verdict = STOKE_VERDICT_NA;
        line->source = STOKE_SOURCE_NA;
        STK_SAY(line->figure, "the file names no set");
        STK_SAY(line->fix, "name it: stoke check --config %s --data DIR", config->config);
        return;
    }
    STK_SAY(line->figure, "%s of the same names and sizes on all", STOKE_COUNT(facts[0].pairs, "pair"));
    for (uint32_t q = 0; q < world; q++) {
        const stk_rank_facts *f = &facts[q];
        if (f->code) continue; /* told already */
        if (!f->data_there) {
            line->verdict = STOKE_VERDICT_FAIL;
            STK_SAY(line->figure, "%s cannot open it: %.230s", name_of(facts, q).text, f->text);
        } else if (f->pairs != facts[0].pairs || f->names != facts[0].names) {
            line->verdict = STOKE_VERDICT_FAIL;
            STK_SAY(line->figure, "%s has another set: %s, rank 0 has %" PRIu64 "%s", name_of(facts, q).text,
                    STOKE_COUNT(f->pairs, "pair"), facts[0].pairs,
                    f->pairs == facts[0].pairs ? " of other names" : "");
        } else if (f->sizes != facts[0].sizes && line->verdict == STOKE_VERDICT_PASS) {
            line->verdict = STOKE_VERDICT_WARN;
            STK_SAY(line->figure, "files of %s have other sizes than rank 0's, under the same names",
                    name_of(facts, q).text);
        }
        if (line->verdict == STOKE_VERDICT_FAIL) break;
    }
    if (line->verdict != STOKE_VERDICT_PASS)
        STK_SAY(line->fix, "the same set on all hosts: rsync -a, or a folder that all see");
}

/* Ranks of a host share what it has. */
static void check_memory(stoke_preflight *list, const stk_run_config *config, const stk_rank_facts *facts,
                         uint32_t world)
{
    stoke_preflight_line *line = add(list, "rank_memory", "memory of ranks", STOKE_VERDICT_PASS);
    double least = INFINITY;
    uint32_t who = 0;
    for (uint32_t q = 0; q < world; q++) {
        const double each = facts[q].free_bytes / ranks_on(facts, world, q);
        if (each < least) least = each, who = q;
    }
    if (isinf(least)) {
        line->verdict = STOKE_VERDICT_NA;
        line->source = STOKE_SOURCE_NA;
        STK_SAY(line->figure, "no host says what it has free");
        return;
    }
    STK_SAY(line->figure, "%s for each of %s on %s, the least of all hosts", STOKE_MEMORY(least),
            STOKE_COUNT(ranks_on(facts, world, who), "rank"), facts[who].host);
    stoke_estimate_params p;
    stoke_estimate e;
    static const int verdicts[] = { STOKE_VERDICT_PASS, STOKE_VERDICT_WARN, STOKE_VERDICT_FAIL };
    if (config->engine != STOKE_ENGINE_NATIVE || stk_run_config_estimate(config, &p) ||
        stoke_estimate_make(&e, config->engine, &p, NULL))
        return;
    line->verdict = verdicts[stk_decide_fit(&e, least)];
    if (line->verdict != STOKE_VERDICT_PASS)
        STK_SAY(line->fix,
                "fewer processes on %s, or a smaller `batch`; `replicas` and `accumulate` keep the step",
                facts[who].host);
}

static void check_clocks(stoke_preflight *list, const stk_rank_facts *facts, uint32_t world,
                         const stk_rank_links *links)
{
    stoke_preflight_line *line = add(list, "rank_clock", "clocks of ranks", STOKE_VERDICT_PASS);
    uint32_t worst = 0;
    for (uint32_t q = 0; q < world; q++)
        if (fabs(links->clock[q]) > fabs(links->clock[worst]) || isnan(links->clock[worst])) worst = q;
    const double apart = fabs(links->clock[worst]);
    if (isnan(apart)) {
        line->verdict = STOKE_VERDICT_NA;
        line->source = STOKE_SOURCE_NA;
        STK_SAY(line->figure, "not compared: %.200s", links->why_not);
        return;
    }
    STK_SAY(line->figure, "%s apart at most", STOKE_SECONDS(apart));
    if (apart < CLOCKS_APART) return;
    line->verdict = STOKE_VERDICT_WARN;
    STK_SAY(line->figure,
            "the clock of %s is %s %s of rank 0's: nothing of training compares clocks, but people do",
            name_of(facts, worst).text, STOKE_SECONDS(apart), links->clock[worst] > 0 ? "ahead" : "behind");
    STK_SAY(line->fix, "timedatectl set-ntp true   on %s", facts[worst].host);
}

static void check_links(stoke_preflight *list, const stk_run_config *config, const stk_rank_links *links)
{
    stoke_preflight_line *line = add(list, "rank_bandwidth", "bytes between ranks", STOKE_VERDICT_PASS);
    char step[160] = "";
    stoke_estimate_params p;
    stoke_estimate e;
    if (!(links->bytes_s > 0)) {
        line->verdict = STOKE_VERDICT_NA;
        line->source = STOKE_SOURCE_NA;
        STK_SAY(line->figure, "not measured: %.200s", links->why_not);
        return;
    }
    if (!stk_run_config_estimate(config, &p) && !stoke_estimate_make(&e, config->engine, &p, NULL))
        STK_SAY(
            step, "; %s sends %s twice a step: about %s", config->model,
            STOKE_BYTES((double)e.parameters * sizeof(float)),
            STOKE_SECONDS(2 * (double)e.parameters * sizeof(float) / (double)links->bytes * links->ms / 1e3));
    STK_SAY(line->figure, "each sends %.0f MB/s in an exchange of %s%s", links->bytes_s / 1e6,
            STOKE_BYTES((double)links->bytes), step);
    if (links->bytes_s >= SLOW_LINK) return;
    line->verdict = STOKE_VERDICT_WARN;
    STK_SAY(
        line->fix,
        "a larger `accumulate`: fewer exchanges; or a faster network: mpirun --mca btl_tcp_if_include NAME");
}

void stk_preflight_judge_ranks(stoke_preflight *list, const stk_run_config *config,
                               const stk_rank_facts *facts, uint32_t world, const stk_rank_links *links)
{
    const size_t from = list->n;
    check_who(list, facts, world, links);
    check_tables(list, facts, world);
    check_cores(list, facts, world);
    check_sets(list, config, facts, world);
    check_memory(list, config, facts, world);
    check_clocks(list, facts, world, links);
    check_links(list, config, links);
    for (size_t i = from; i < list->n; i++) list->count[list->line[i].verdict]++;
}

/* ---- what is measured ---- */

/* Nobody leaves before all have come, so clocks that are read then are of one moment, but for the way of a
 * message: the smallest difference of some rounds counts. */
static int compare_clocks(stk_comm *comm, stk_rank_links *links, stoke_error *err)
{
    const uint32_t world = stk_comm_world(comm);
    double *all = stk_calloc(world, sizeof *all);
    int r = all ? STOKE_OK
                : stk_fail(err, STOKE_E_NOMEM, "no memory for the clocks of %u ranks", (unsigned)world);
    for (int i = 0; !r && i < CLOCK_ROUNDS; i++) {
        double now = 0;
        struct timespec clock;
        r = stk_comm_all(comm, &now, sizeof now, all, err);
        clock_gettime(CLOCK_REALTIME, &clock);
        now = (double)clock.tv_sec + (double)clock.tv_nsec / 1e9;
        if (!r) r = stk_comm_all(comm, &now, sizeof now, all, err);
        for (uint32_t q = 0; !r && q < world; q++)
            if (!i || fabs(all[q] - all[0]) < fabs(links->clock[q])) links->clock[q] = all[q] - all[0];
    }
    stk_free(all);
    return r;
}

static void keep_exchange(void *context, const stoke_comm_figure *figure)
{
    stk_rank_links *links = context;
    if (strcmp(figure->what, "exchange") != 0 || figure->bytes < links->bytes || !(figure->us > 0)) return;
    links->bytes = figure->bytes;
    links->bytes_s = (double)figure->sent / (figure->us * 1e-6);
    links->ms = figure->us / 1e3;
}

static int measure(stk_comm *comm, stk_rank_links *links, stoke_error *err)
{
    stoke_comm_bench_params params = stoke_comm_bench_defaults();
    stoke_comm_bench_report report;
    params.seconds = BENCH_SECONDS;
    int r = compare_clocks(comm, links, err);
    if (!r) r = stk_comm_bench_on(comm, &params, keep_exchange, links, &report, err);
    return r;
}

/* ---- the whole ---- */

static void take_facts(stk_rank_facts *f, const stk_preflight_surroundings *here, int code,
                       const stoke_error *err)
{
    const stoke_cores cores = stoke_machine_cores();
    const stoke_figure room = stk_host_free(&here->machine);
    *f = (stk_rank_facts){ .code = code,
                           .data_there = (uint32_t)here->data_there,
                           .cores = cores.usable,
                           .affinity = cores.affinity,
                           .allowed = cores.allowed,
                           .pairs = here->pairs,
                           .names = here->names_digest,
                           .sizes = here->sizes_digest,
                           .free_bytes = room.source ? room.value : NAN };
    STK_SAY(f->cpu, "%s", stk_cpu_level_name(stk_cpu_level_in_use()));
    STK_SAY(f->text, "%.500s", code && err ? err->message : here->why_no_data);
}

/* Who each is, the engine knows. */
static void name_facts(stk_rank_facts *facts, const stk_comm *comm)
{
    for (uint32_t q = 0; q < stk_comm_world(comm); q++) {
        const stk_comm_card *card = stk_comm_card_of(comm, q);
        STK_SAY(facts[q].host, "%s", card->host);
        facts[q].pid = card->pid;
        facts[q].text[sizeof facts[q].text - 1] = facts[q].cpu[sizeof facts[q].cpu - 1] = 0;
    }
}

int stk_preflight_together(stoke_preflight *list, stk_comm *comm, const stk_run_config *config,
                           const stk_preflight_surroundings *here, int code, stoke_error *err)
{
    const uint32_t world = stk_comm_world(comm);
    stoke_error own = { 0 };
    stk_rank_facts mine, *all = stk_calloc(world, sizeof *all);
    stk_rank_links *links = stk_calloc(1, sizeof *links);
    list->rank = stk_comm_rank(comm);
    list->world = world;
    int r = all && links
                ? STOKE_OK
                : stk_fail(&own, STOKE_E_NOMEM, "no memory for a check of %u ranks", (unsigned)world);
    if (!r) {
        take_facts(&mine, here, code, err);
        for (size_t q = 0; q < STOKE_COMM_PEERS; q++) links->clock[q] = NAN;
        STK_SAY(links->library, "%s", stk_comm_library(comm));
        r = stk_comm_all(comm, &mine, sizeof mine, all, &own);
    }
    if (!r) {
        name_facts(all, comm);
        /* What cannot be measured is a line, no error. */
        if (measure(comm, links, &own)) STK_SAY(links->why_not, "%.250s", own.message);
        if (!list->rank) stk_preflight_judge_ranks(list, config, all, world, links);
    }
    stk_free(all);
    stk_free(links);
    if (r) return stk_fail_again(err, r, own.message);
    return list->rank ? STOKE_OK : code;
}

void stk_preflight_alone(stoke_preflight *list, const stoke_error *err)
{
    const stoke_comm_launch launch = stoke_comm_launch_of(NULL);
    list->rank = launch.rank;
    list->world = launch.world;
    list->count[STOKE_VERDICT_FAIL]++;
    if (list->rank) return;
    stoke_preflight_line *line = stk_check_add(list, "ranks", "ranks");
    line->verdict = STOKE_VERDICT_FAIL;
    STK_SAY(line->figure, "%.380s", err->message);
    STK_SAY(line->fix, "stoke bench comm --short   started in the same way, until it runs");
}
