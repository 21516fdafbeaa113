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
    if (e->state == STK_RUN_NONE) return;
    stoke_reason *r = stk_reason_add(a, isnan(share) ? -1 : share > WAITING, share, NULL);
    if (r->found == 1)
        STK_SAY(r->cause, "steps wait for batches %.0f %% of the time", 100 * share);
    else
        STK_SAY(r->cause, "steps wait for batches");
    if (isnan(share))
        STK_SAY(r->evidence, "%" PRIu64 " steps are too few to tell", e->log.step);
    else
        STK_SAY(
            r->evidence, "log.jsonl, steps up to %" PRIu64 ": %s of %s waited for data (%.1f %%) [measured]",
            e->log.step, STOKE_SECONDS(e->log.data_seconds), STOKE_SECONDS(e->log.step_seconds), 100 * share);
    if (r->found == 1) STK_SAY(r->remedy, "stoke why loading --run %s", e->run);
}

/* Time beside the steps: of evaluations, of saving. */
static void beside(stoke_answer *a, const stk_why_evidence *e, const char *what, double seconds,
                   uint64_t times, double most, const char *flag)
{
    if (e->state == STK_RUN_NONE || e->log.t < SHORT_RUN) return;
    const double share = seconds / e->log.t;
    stoke_reason *r = stk_reason_add(a, share > most && times, share, NULL);
    STK_SAY(r->cause, "%s takes %s", what, share > most ? "much of the time" : "time from the steps");
    STK_SAY(r->evidence, "log.jsonl: %" PRIu64 " of them, %s of %s (%.1f %%) [measured]", times,
            STOKE_SECONDS(seconds), STOKE_SECONDS(e->log.t), 100 * share);
    /* So seldom that its share would be a third of the limit, and in steps that people would write. */
    const double every = times ? (double)e->log.step / (double)times * share / most * 3 : 0;
    const double unit = pow(10, floor(log10(every > 1 ? every : 1)));
    if (r->found == 1) STK_SAY(r->remedy, "%s %s %.0f", stk_go_on(e).text, flag, ceil(every / unit) * unit);
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
    stoke_reason *r =
        stk_reason_add(a, after < 0.75 * before, 1 - after / before, "steps became slower on the way");
    STK_SAY(r->evidence,
            "log.jsonl: %.3g pictures/s in the first quarter, %.3g in the last, without waiting [measured]",
            before, after);
    if (r->found == 1) STK_SAY(r->remedy, "stoke monitor 30   shows what else runs, and clocks held down");
}

/* ---- the processor ---- */

static void few_threads(stoke_answer *a, const stk_why_evidence *e)
{
    const uint64_t threads = stk_run_uint(&e->log.start, "threads");
    const stoke_figure usable = e->here.machine.usable;
    if (!threads || !usable.source) return;
    const double share = 1 - (double)threads / usable.value;
    stoke_reason *r = stk_reason_add(a, (double)threads < usable.value, share,
                                     "the network uses fewer threads than there are cores");
    STK_SAY(r->evidence, "log.jsonl: %s; usable cores: %.0f [%s]", STOKE_COUNT(threads, "thread"),
            usable.value, stoke_source_name(usable.source));
    if (r->found == 1) STK_SAY(r->remedy, "%s --threads 0", stk_go_on(e).text);
}

/* Numbers of 16 bits that the processor cannot multiply are turned into 32 and back at every product. */
static void slow_numbers(stoke_answer *a, const stk_why_evidence *e)
{
    const char *cpu = stk_run_text(&e->log.start, "cpu");
    const int precision = e->config.precision;
    if (!cpu) return;
    const int able = strstr(cpu, "amx") != NULL && precision == STOKE_PRECISION_BF16;
    const int halves = precision == STOKE_PRECISION_BF16 || precision == STOKE_PRECISION_FP16;
    stoke_reason *r = stk_reason_add(a, halves && !able, 0.3, NULL);
    STK_SAY(r->cause, "the processor has no instructions for %s",
            halves ? stoke_precision_name(precision) : "numbers of 16 bits");
    STK_SAY(r->evidence, "log.jsonl: precision %s on functions for %.40s; bf16 needs amx",
            stoke_precision_name(precision), cpu);
    if (r->found == 1) STK_SAY(r->remedy, "%s --precision auto", stk_train_again(e).text);
}

static void computing_twice(stoke_answer *a, const stk_why_evidence *e)
{
    const int mode = e->config.train.memory;
    if (!e->has_config) return;
    stoke_reason *r =
        stk_reason_add(a, mode != STOKE_MEMORY_PLAIN, 0.2, "values are computed twice to save memory");
    STK_SAY(r->evidence, "%s: memory is %s", e->config.config,
            mode == STOKE_MEMORY_MIN    ? "min"
            : mode == STOKE_MEMORY_LEAN ? "lean"
                                        : "plain");
    if (r->found == 1)
        STK_SAY(r->remedy, "%s --memory plain   where `stoke why oom` says that it fits",
                stk_train_again(e).text);
}

static void others_compute(stoke_answer *a, const stk_why_evidence *e)
{
    const stoke_figure usable = e->here.machine.usable;
    if (!e->load.source || !usable.source || e->here.meant) return;
    /* A run that is going is itself as many threads as cores. */
    const double own = e->state == STK_RUN_GOING ? usable.value : 0;
    const double others = e->load.value - own;
    const int past = e->state != STK_RUN_GOING && e->state != STK_RUN_NONE;
    stoke_reason *r = stk_reason_add(a, others > 0.5 * usable.value, past ? 0.02 : 0.35,
                                     "other programs want the processor");
    STK_SAY(r->evidence, "%.1f threads want to run now, %.0f of them this run's; usable cores: %.0f [%s]%s",
            e->load.value, own, usable.value, stoke_source_name(e->load.source),
            past ? "; whether they did while it ran is not known" : "");
    if (r->found == 1) STK_SAY(r->remedy, "ps -eo pid,user,pcpu,comm --sort=-pcpu | head");
}

/* ---- the card ---- */

static void card_idle(stoke_answer *a, const stk_why_evidence *e)
{
    const stoke_figure busy = e->here.gpu.busy_percent;
    if (!e->here.n_gpus) {
        stoke_reason *r = stk_reason_add(a, -1, 0, "the card is not busy");
        STK_SAY(r->evidence, "%s", e->here.meant ? "it is in another machine" : "no card is seen here");
        STK_SAY(r->remedy, "stoke monitor 30   where it trains%s",
                e->here.meant ? "" : "; `stoke doctor` says why no card is seen");
        return;
    }
    /* Nobody is on it: that it does nothing tells nothing. */
    const int unused = !e->here.gpu.n_processes && busy.source && busy.value < IDLE_PERCENT;
    stoke_reason *r = stk_reason_add(a, !busy.source || unused ? -1 : busy.value < BUSY_PERCENT, 0.5,
                                     "the card is not busy");
    if (busy.source)
        STK_SAY(r->evidence, "%s: busy %.0f %% just now [%s]%s", e->here.gpu.name, busy.value,
                stoke_source_name(busy.source),
                unused ? ", and no program is on it: ask again while it trains" : "");
    else
        STK_SAY(r->evidence, "%s: the driver does not tell how busy it is", e->here.gpu.name);
    if (r->found && e->has_config)
        STK_SAY(r->remedy, "stoke diagnose --config %s%s", e->config.config,
                e->config.has_data ? "" : " --data DIR");
    else if (r->found)
        STK_SAY(r->remedy, "stoke monitor 30   while it trains");
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
