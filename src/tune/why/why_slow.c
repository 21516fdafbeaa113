/* SPDX-License-Identifier: Apache-2.0
 *
 * Why it is slow: where the time of the run went by its own log, and what of the settings and the machine
 * costs time. For a PyTorch trainer, whose steps nobody logged here, what the rules of optimize and the
 * pre-flight list say, and the card as it is now.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "src/tune/why/why.h"
#include <stoke/tools/report.h>
#include <stoke/tools/terminal.h>

/* Shares of the time from which on they are worth a word. */
static const double WAITING = 0.1, EVALUATING = 0.25, SAVING = 0.1;
/* Seconds: a run that is shorter was a trial, whose single evaluation is much of it. */
static const double SHORT_RUN = 10;
/* A card that computes less of the time than this is not kept busy. */
static const double BUSY_PERCENT = 60, IDLE_PERCENT = 5;

/* ---- where the time went ---- */

static void waiting(stoke_answer *a, const stk_why_evidence *e)
{
    const double share = stk_waited(e);
    char cause[64] = "steps wait for batches";
    if (e->state == STK_RUN_NONE) return;
    if (isnan(share)) {
        stk_reason(a, -1, share, cause, NULL, "%" PRIu64 " steps are too few to tell", e->log.step);
        return;
    }
    if (share > WAITING) STK_SAY(cause, "steps wait for batches %.0f %% of the time", 100 * share);
    stk_reason(a, share > WAITING, share, cause, STK_REMEDY("stoke why loading --run %s", e->run).text,
               "log.jsonl, steps up to %" PRIu64 ": %s of %s waited for data (%.1f %%) [measured]",
               e->log.step, STOKE_SECONDS(e->log.data_seconds), STOKE_SECONDS(e->log.step_seconds),
               100 * share);
}

/* Time beside the steps: of evaluations, of saving. */
static void beside(stoke_answer *a, const stk_why_evidence *e, const char *what, double seconds,
                   uint64_t times, double most, const char *flag)
{
    if (e->state == STK_RUN_NONE || e->log.t < SHORT_RUN) return;
    const double share = seconds / e->log.t;
    char cause[64];
    STK_SAY(cause, "%s takes %s", what, share > most ? "much of the time" : "time from the steps");
    /* So seldom that its share would be a third of the limit, and in steps that people would write. */
    const double every = times ? (double)e->log.step / (double)times * share / most * 3 : 0;
    const double unit = pow(10, floor(log10(every > 1 ? every : 1)));
    stk_reason(a, share > most && times, share, cause,
               stk_with(stk_go_on(e), " %s %.0f", flag, ceil(every / unit) * unit).text,
               "log.jsonl: %" PRIu64 " of them, %s of %s (%.1f %%) [measured]", times, STOKE_SECONDS(seconds),
               STOKE_SECONDS(e->log.t), 100 * share);
}

/* Of several processes, the one that the others waited for most. */
static void waiting_for_a_rank(stoke_answer *a, const stk_why_evidence *e)
{
    const stoke_run_ranks *ranks = &e->log.ranks;
    const stoke_run_rank *worst = NULL;
    for (uint32_t q = 0; q < ranks->world; q++)
        if (*ranks->rank[q].why && (!worst || ranks->rank[q].cost > worst->cost)) worst = &ranks->rank[q];
    if (!ranks->steps) return;
    stk_reason(a, worst != NULL, worst ? worst->cost / ranks->seconds : 0, "ranks wait for one of them",
               STK_REMEDY("stoke diagnose %s", e->run).text, "log.jsonl: %s",
               worst ? worst->why : ranks->verdict);
}

/* By the speed of the first and the last quarter of the lines, waiting left out. */
static void slowing_down(stoke_answer *a, const stk_why_evidence *e)
{
    const stk_run_log *log = &e->log;
    const size_t quarter = log->n_steps / 4;
    double images[2] = { 0 }, seconds[2] = { 0 };
    if (quarter < 5) return;
    for (size_t i = 0; i < quarter; i++) {
        const stk_log_step_note *note[] = { &log->steps[i], &log->steps[log->n_steps - 1 - i] };
        for (int k = 0; k < 2; k++) {
            images[k] += (double)note[k]->images;
            seconds[k] += note[k]->seconds - note[k]->data_seconds;
        }
    }
    if (seconds[0] <= 0 || seconds[1] <= 0 || images[0] <= 0) return;
    const double before = images[0] / seconds[0], after = images[1] / seconds[1];
    stk_reason(
        a, after < 0.75 * before, 1 - after / before, "steps became slower on the way",
        "stoke monitor 30   shows what else runs, and clocks held down",
        "log.jsonl: %.3g pictures/s in the first quarter, %.3g in the last, without waiting [measured]",
        before, after);
}

/* ---- the processor ---- */

static void few_threads(stoke_answer *a, const stk_why_evidence *e)
{
    const uint64_t threads = stk_run_uint(&e->log.start, "threads");
    const stoke_figure usable = e->here.machine.usable;
    if (!threads || !usable.source || e->log.ranks.world) return; /* ranks share the cores of a host */
    stk_reason(a, (double)threads < usable.value, 1 - (double)threads / usable.value,
               "the network uses fewer threads than there are cores",
               stk_with(stk_go_on(e), " --threads 0").text, "log.jsonl: %s; usable cores: %.0f [%s]",
               STOKE_COUNT(threads, "thread"), usable.value, stoke_source_name(usable.source));
}

/* Numbers of 16 bits that the processor cannot multiply are turned into 32 and back at every product. */
static void slow_numbers(stoke_answer *a, const stk_why_evidence *e)
{
    const char *cpu = stk_run_text(&e->log.start, "cpu");
    const int precision = e->config.train.precision;
    char cause[96];
    if (!cpu) return;
    const int able = strstr(cpu, "amx") != NULL && precision == STOKE_PRECISION_BF16;
    const int halves = precision == STOKE_PRECISION_BF16 || precision == STOKE_PRECISION_FP16;
    STK_SAY(cause, "the processor has no instructions for %s",
            halves ? stoke_precision_name(precision) : "numbers of 16 bits");
    stk_reason(a, halves && !able, 0.3, cause, STK_AGAIN(e, " --precision auto"),
               "log.jsonl: precision %s on functions for %.40s; bf16 needs amx",
               stoke_precision_name(precision), cpu);
}

static void computing_twice(stoke_answer *a, const stk_why_evidence *e)
{
    const int mode = e->config.train.memory;
    if (!e->has_config) return;
    stk_reason(a, mode != STOKE_MEMORY_PLAIN, 0.2, "values are computed twice to save memory",
               STK_AGAIN(e, " --memory plain   where `stoke why oom` says that it fits"), "%s: memory is %s",
               e->config.config,
               mode == STOKE_MEMORY_MIN    ? "min"
               : mode == STOKE_MEMORY_LEAN ? "lean"
                                           : "plain");
}

static void others_compute(stoke_answer *a, const stk_why_evidence *e)
{
    const stoke_figure usable = e->here.machine.usable;
    if (!e->load.source || !usable.source || e->here.meant) return;
    /* A run that is going is itself as many threads as cores. */
    const double own = e->state == STK_RUN_GOING ? usable.value : 0;
    const double others = e->load.value - own;
    const int past = e->state != STK_RUN_GOING && e->state != STK_RUN_NONE;
    stk_reason(a, others > 0.5 * usable.value, past ? 0.02 : 0.35, "other programs want the processor",
               "ps -eo pid,user,pcpu,comm --sort=-pcpu | head",
               "%.1f threads want to run now, %.0f of them this run's; usable cores: %.0f [%s]%s",
               e->load.value, own, usable.value, stoke_source_name(e->load.source),
               past ? "; whether they did while it ran is not known" : "");
}

/* ---- the card ---- */

static void card_idle(stoke_answer *a, const stk_why_evidence *e)
{
    static const char cause[] = "the card is not busy";
    const stoke_figure busy = e->here.gpu.busy_percent;
    if (!e->here.n_gpus) {
        stk_reason(a, -1, 0, cause,
                   e->here.meant
                       ? "stoke monitor 30   where it trains"
                       : "stoke monitor 30   where it trains; `stoke doctor` says why no card is seen",
                   "%s", e->here.meant ? "it is in another machine" : "no card is seen here");
        return;
    }
    /* Nobody is on it: that it does nothing tells nothing. */
    const int unused = !e->here.gpu.n_processes && busy.source && busy.value < IDLE_PERCENT;
    stoke_reason *r = stk_reason(
        a, !busy.source || unused ? -1 : busy.value < BUSY_PERCENT, 0.5, cause,
        e->has_config ? stk_diagnose_it(e).text : "stoke monitor 30   while it trains",
        "%s: busy %.0f %% just now [%s]%s", e->here.gpu.name, busy.value, stoke_source_name(busy.source),
        unused ? ", and no program is on it: ask again while it trains" : "");
    if (!busy.source) STK_SAY(r->evidence, "%s: the driver does not tell how busy it is", e->here.gpu.name);
}

static void slow_on_card(stoke_answer *a, const stk_why_evidence *e)
{
    static const char *const settings[] = { "gpu_augmentation", "num_workers",     "pin_memory",
                                            "non_blocking",     "device_prefetch", "persistent_workers",
                                            "prefetch_factor",  "mixed_precision", "compile",
                                            "log_every",        "batch_size",      NULL };
    card_idle(a, e);
    stk_reason_settings(a, e, settings);
    stk_reason_line(a, e, "clocks", "the card's clocks are held down", 0.4);
    stk_reason_line(a, e, "pcie", "the link to the card is slower than it could be", 0.25);
    stk_reason_line(a, e, "others", "other programs use the card", 0.4);
    stk_reason_line(a, e, "omp_threads", "threads of NumPy and OpenCV crowd the workers", 0.2);
}

void stk_why_slow(stoke_answer *a, const stk_why_evidence *e)
{
    waiting(a, e);
    beside(a, e, "evaluation", e->log.eval_seconds, e->log.evaluations, EVALUATING, "--eval-every");
    /* Every evaluation saves; what is saved besides has another setting. */
    beside(a, e, "saving", e->log.save_seconds, e->log.saves, SAVING,
           e->log.saves > e->log.evaluations + 1 ? "--save-every" : "--eval-every");
    slowing_down(a, e);
    waiting_for_a_rank(a, e);
    if (e->config.engine == STOKE_ENGINE_NATIVE) {
        few_threads(a, e);
        slow_numbers(a, e);
        computing_twice(a, e);
        if (e->has_config)
            stk_reason_line(a, e, "workers", "the number of workers does not suit the cores", 0.2);
    } else {
        slow_on_card(a, e);
    }
    others_compute(a, e);
}
