/* SPDX-License-Identifier: Apache-2.0 */
#include "src/train/trainer.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include <stoke/tools/machine.h>
#include <stoke/tools/report.h>

#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/base/machine.h"
#include "src/base/mem.h"
#include "src/base/retry.h"

/* Threads and memory are asked for, and the table is written, so often: of 12 threads the first takes 0.2 ms.
 */
#define LOOK_NS UINT64_C(1000000000)
/* About the last twenty steps, as the progress line has them. */
static const double FADE = 0.95;
/* Less waiting than this share of the time is no rank's fault. */
static const double WORTH_A_WORD = 0.05;

/* ---- opening ---- */

static stk_rank_card own_card(const stoke_trainer *t)
{
    const stoke_cores cores = stoke_machine_cores();
    stoke_live_data loader;
    stoke_live_take(&loader, t->train);
    stk_rank_card card = { .cores = cores.usable,
                           .affinity = cores.affinity,
                           .allowed = cores.allowed,
                           .workers = loader.workers,
                           .threads = stoke_net_plan_used(t->net)->threads };
    snprintf(card.machine, sizeof card.machine, "%s", stoke_machine_cpu_name());
    return card;
}

/* What stands in records from the beginning. */
static void introduce(stoke_trainer *t, uint32_t q)
{
    const stk_comm_card *process = stk_comm_card_of(t->comm, q);
    stk_rank_card *card = &t->watch.cards[q];
    stoke_live_rank *rank = &t->watch.total[q];
    card->machine[sizeof card->machine - 1] = 0;
    snprintf(rank->host, sizeof rank->host, "%s", process->host);
    rank->pid = process->pid;
    rank->cores = card->cores;
    rank->workers = card->workers;
    rank->threads = card->threads;
}

static int take_room(stk_rank_watch *w, uint32_t world, int first, stoke_error *err)
{
    w->cards = stk_calloc(world, sizeof *w->cards);
    if (!first && w->cards) return STOKE_OK;
    w->step = stk_calloc(world, sizeof *w->step);
    w->total = stk_calloc(world, sizeof *w->total);
    w->noted = stk_calloc(world, sizeof *w->noted);
    w->lately = stk_calloc(world, sizeof *w->lately);
    if (w->step && w->cards && w->total && w->noted && w->lately) return STOKE_OK;
    return stk_fail(err, STOKE_E_NOMEM, "no memory for the figures of %u ranks", (unsigned)world);
}

int stk_rank_watch_open(stoke_trainer *t, stoke_error *err)
{
    stk_rank_watch *w = &t->watch;
    const uint32_t world = stk_comm_world(t->comm);
    if (!t->comm) return STOKE_OK;
    int r = stk_ranks_agree(t, take_room(w, world, stk_ranks_first(t), err), err);
    if (r) return r;
    const stk_rank_card mine = own_card(t);
    r = stk_comm_all(t->comm, &mine, sizeof mine, w->cards, err);
    for (uint32_t q = 0; !r && q < world && w->total; q++) introduce(t, q);
    w->looked_ns = stk_now_ns();
    stk_machine_run_queue("/proc", &w->ran_ns, &w->stood_ns);
    w->own.resident = stk_machine_rss("/proc");
    return r;
}

void stk_rank_watch_close(stoke_trainer *t)
{
    stk_rank_watch *w = &t->watch;
    stoke_live_ranks_close(&w->table);
    stk_free(w->step);
    stk_free(w->cards);
    stk_free(w->total);
    stk_free(w->noted);
    stk_free(w->lately);
    *w = (stk_rank_watch){ 0 };
}

void stk_rank_watch_begin_table(stoke_trainer *t)
{
    stoke_error err = { 0 };
    char path[PATH_MAX];
    if (stk_trainer_path(t, path, "live.ranks", &err)) return;
    if (!t->comm)
        stoke_live_ranks_remove(path);
    else if (stoke_live_ranks_create(&t->watch.table, path, stk_comm_world(t->comm), &err))
        stk_trainer_remark(t, "`stoke monitor` shows no ranks of this run: %s", err.message);
}

/* ---- one rank ---- */

/* Threads that have ended take their times with them: what went back is left out. */
static void look_at_threads(stk_rank_watch *w)
{
    uint64_t ran, stood;
    if (w->ended_ns - w->looked_ns < LOOK_NS || !stk_machine_run_queue("/proc", &ran, &stood)) return;
    if (ran >= w->ran_ns && stood >= w->stood_ns) {
        w->own.ran += ran - w->ran_ns;
        w->own.stood += stood - w->stood_ns;
    }
    w->ran_ns = ran;
    w->stood_ns = stood;
    w->looked_ns = w->ended_ns;
    w->own.resident = stk_machine_rss("/proc");
}

void stk_rank_watch_add(stoke_trainer *t, const stk_rank_moments *m)
{
    stk_rank_watch *w = &t->watch;
    stk_rank_step *own = &w->own;
    if (!t->comm) return;
    const uint64_t before = w->ended_ns ? m->began - w->ended_ns : 0, looked = m->ready - m->began;
    own->rest = before - stk_least(before, w->aside_ns);
    own->data = stk_least((uint64_t)(m->waited * 1e9), looked);
    const uint64_t met = stk_least((uint64_t)(m->met * 1e9), looked - own->data),
                   met_after = stk_least((uint64_t)(m->met_after * 1e9), m->learned - m->agreed);
    own->ahead = looked - own->data - met;
    own->others = m->agreed - m->ready + met + met_after;
    own->after = m->learned - m->agreed - met_after;
    own->exchange = m->ended - m->learned;
    own->images = m->images;
    w->ended_ns = m->ended;
    w->aside_ns = 0;
    w->steps++;
    look_at_threads(w);
}

void stk_rank_watch_aside(stoke_trainer *t, uint64_t began)
{
    t->watch.aside_ns += stk_now_ns() - began;
}

/* ---- all ranks ---- */

uint32_t stk_ranks_latest(const uint64_t *waits, size_t stride, uint32_t world, uint64_t *margin)
{
    uint32_t last = 0;
    uint64_t least = UINT64_MAX, second = UINT64_MAX;
    for (uint32_t q = 0; q < world; q++) {
        const uint64_t wait = *(const uint64_t *)(const void *)((const char *)waits + q * stride);
        if (wait < least) {
            second = least;
            least = wait;
            last = q;
        } else if (wait < second) {
            second = wait;
        }
    }
    *margin = second == UINT64_MAX ? 0 : second - least;
    return last;
}

/* How much longer than the others in the mean rank `last` took for a part of the step. */
static double excess(const stk_rank_watch *w, uint32_t world, uint32_t last, size_t offset)
{
    double own = 0, others = 0;
    for (uint32_t q = 0; q < world; q++) {
        const double ns = (double)*(const uint64_t *)(const void *)((const char *)&w->step[q] + offset);
        *(q == last ? &own : &others) += ns;
    }
    const double more = own - others / (world - 1);
    return more > 0 ? more : 0;
}

/* What a rank came late into the agreement is put down to what took it longer than the others. */
static void blame(stk_rank_watch *w, uint32_t world, uint32_t last, uint64_t margin)
{
    const double data = excess(w, world, last, offsetof(stk_rank_step, data)),
                 compute = excess(w, world, last, offsetof(stk_rank_step, ahead)),
                 rest = excess(w, world, last, offsetof(stk_rank_step, rest)), all = data + compute + rest;
    const uint64_t of_data = all > 0 ? (uint64_t)(data / all * (double)margin) : 0,
                   of_compute = all > 0 ? (uint64_t)(compute / all * (double)margin) : 0;
    stoke_live_rank *rank = &w->total[last];
    rank->cost_data_ns += of_data;
    rank->cost_compute_ns += stk_least(of_compute, margin - of_data);
    rank->cost_rest_ns += margin - of_data - stk_least(of_compute, margin - of_data);
}

/* Who came last into the sums, waited least in them, and all but what that took was waiting for it. */
static void book_step(stk_rank_watch *w, uint32_t world)
{
    uint64_t into_agreement, into_sums;
    const uint32_t first = stk_ranks_latest(&w->step->others, sizeof *w->step, world, &into_agreement),
                   second = stk_ranks_latest(&w->step->exchange, sizeof *w->step, world, &into_sums);
    const uint64_t sums = w->step[second].exchange;
    for (uint32_t q = 0; q < world; q++) {
        const stk_rank_step *step = &w->step[q];
        stoke_live_rank *rank = &w->total[q];
        rank->data_ns += step->data;
        rank->compute_ns += step->ahead + step->after;
        rank->others_ns += step->others + (step->exchange - sums);
        rank->exchange_ns += sums;
        rank->rest_ns += step->rest;
        rank->images += step->images;
        rank->ran_ns = step->ran;
        rank->stood_ns = step->stood;
        rank->resident = step->resident;
        w->lately[q] = FADE * w->lately[q] + (double)step->data / 1e9;
    }
    blame(w, world, first, into_agreement);
    w->total[second].cost_compute_ns += into_sums;
    w->total[into_agreement >= into_sums ? first : second].last++;
    w->booked++;
}

void stk_rank_watch_hear(stoke_trainer *t, uint32_t q, const stk_rank_step *before)
{
    stk_rank_watch *w = &t->watch;
    const uint32_t world = stk_comm_world(t->comm);
    if (!w->total) return;
    w->step[q] = *before;
    /* The first step waits for everything to start. */
    if (q + 1 < world || w->steps < 2) return;
    book_step(w, world);
    const uint64_t now = stk_now_ns();
    if (w->told_ns && now - w->told_ns < LOOK_NS) return;
    w->told_ns = now;
    stoke_live_ranks_write(w->table, w->total, w->booked, t->now.step);
}

double stk_rank_watch_worst(const stoke_trainer *t, uint32_t *rank)
{
    const stk_rank_watch *w = &t->watch;
    const uint32_t world = stk_comm_world(t->comm);
    double all = 0;
    if (!w->lately || !(t->lately.seconds > 0)) return 0;
    *rank = 0;
    for (uint32_t q = 0; q < world; q++) {
        all += w->lately[q];
        if (w->lately[q] > w->lately[*rank]) *rank = q;
    }
    const double worst = w->lately[*rank], share = worst / t->lately.seconds;
    return worst > 2 * (all - worst) / (world - 1) && share > WORTH_A_WORD ? share : 0;
}

/* ---- the log ---- */

static void put_who(stoke_json *json, const void *trainer)
{
    const stoke_trainer *t = trainer;
    stoke_json_array(json, "who");
    for (uint32_t q = 0; q < stk_comm_world(t->comm); q++) {
        const stoke_live_rank *rank = &t->watch.total[q];
        const stk_rank_card *card = &t->watch.cards[q];
        stoke_json_object(json, NULL);
        stoke_json_string(json, "host", rank->host);
        stoke_json_uint(json, "pid", rank->pid);
        stoke_json_uint(json, "cores", card->cores);
        stoke_json_uint(json, "affinity", card->affinity);
        stoke_json_uint(json, "allowed", card->allowed);
        stoke_json_uint(json, "workers", card->workers);
        stoke_json_uint(json, "threads", card->threads);
        stoke_json_string(json, "machine", card->machine);
        stoke_json_close(json);
    }
    stoke_json_close(json);
}

/* Times in whole microseconds of the sums, so that what was cut off one line is in a later one. */
static void put_sums(stoke_json *json, const void *trainer)
{
    static const struct {
        const char *name;
        size_t offset;
        uint64_t unit;
    } sums[] = {
#define SUM(name, member, unit) { name, offsetof(stoke_live_rank, member), unit }
        SUM("images", images, 1),
        SUM("data", data_ns, 1000),
        SUM("compute", compute_ns, 1000),
        SUM("others", others_ns, 1000),
        SUM("exchange", exchange_ns, 1000),
        SUM("rest", rest_ns, 1000),
        SUM("ran", ran_ns, 1000),
        SUM("stood", stood_ns, 1000),
        SUM("last", last, 1),
        SUM("cost_data", cost_data_ns, 1000),
        SUM("cost_compute", cost_compute_ns, 1000),
        SUM("cost_rest", cost_rest_ns, 1000),
#undef SUM
    };
    const stoke_trainer *t = trainer;
    const stk_rank_watch *w = &t->watch;
    const uint32_t world = stk_comm_world(t->comm);
    stoke_json_uint(json, "steps", w->booked - w->noted_steps);
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++) {
        stoke_json_array(json, sums[i].name);
        for (uint32_t q = 0; q < world; q++) {
            uint64_t now, before;
            memcpy(&now, (const char *)&w->total[q] + sums[i].offset, sizeof now);
            memcpy(&before, (const char *)&w->noted[q] + sums[i].offset, sizeof before);
            stoke_json_uint(json, NULL, now / sums[i].unit - before / sums[i].unit);
        }
        stoke_json_close(json);
    }
    stoke_json_array(json, "resident");
    for (uint32_t q = 0; q < world; q++) stoke_json_uint(json, NULL, w->total[q].resident);
    stoke_json_close(json);
}

void stk_rank_watch_log_who(const stoke_trainer *t)
{
    if (!t->watch.total) return;
    stk_log_writer_line(t->log, "ranks", t->now.step, stk_trainer_clock(t), put_who, t);
}

void stk_rank_watch_log_sums(stoke_trainer *t, int last)
{
    stk_rank_watch *w = &t->watch;
    const uint64_t now = stk_now_ns();
    if (!w->total || w->booked == w->noted_steps || (!last && now - w->noted_ns < LOOK_NS)) return;
    w->noted_ns = now;
    stk_log_writer_line(t->log, "ranks", t->now.step, stk_trainer_clock(t), put_sums, t);
    memcpy(w->noted, w->total, stk_comm_world(t->comm) * sizeof *w->noted);
    w->noted_steps = w->booked;
}
