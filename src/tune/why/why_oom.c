/* SPDX-License-Identifier: Apache-2.0
 *
 * Why it ran out of memory, or would: what the settings need against what there is, what would need less, who
 * else has some of it, and how the run ended.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "src/tune/decide/decide.h"
#include "src/tune/why/why.h"
#include <stoke/tools/report.h>

static const double SPARE = STK_SPARE_BYTES;

/* What is looked at again and again: the need of the settings as they are, and the room for it. */
typedef struct shortage {
    const stk_why_evidence *e;
    int native, estimated; /* estimated: the need is known */
    stoke_estimate need;
    stoke_figure room;
    int is_short; /* it did not fit, or will not */
} shortage;

/* ---- needs ---- */

/* 1: known. */
static int need_of(const stk_why_evidence *e, int mode, int precision, stoke_estimate *need)
{
    stoke_estimate_params p;
    if (stk_run_config_estimate(&e->config, &p)) return 0;
    p.memory = mode;
    p.precision = precision;
    return !stoke_estimate_make(need, e->config.engine, &p, NULL);
}

/* The largest batch, up to that of the settings, that leaves 1 GiB free; 0 = none does. */
static int64_t largest_batch(const shortage *s)
{
    const stk_run_config *w = &s->e->config;
    stoke_estimate_params p;
    uint32_t fits = 0;
    stk_run_config_estimate(w, &p);
    p.memory = w->train.memory;
    stoke_estimate_batch(w->engine, &p, (uint64_t)s->room.value, STK_SPARE_BYTES, 1, &fits, NULL);
    return fits < w->batch ? fits : w->batch;
}

/* ---- how it ended ---- */

static int says_memory(const char *text)
{
    return strstr(text, "memory") || strstr(text, "Memory") || strstr(text, "control group");
}

static void the_end(shortage *s, stoke_answer *a)
{
    const stk_why_evidence *e = s->e;
    if (e->state == STK_RUN_NONE) return;
    const int killed = e->state == STK_RUN_KILLED || e->state == STK_RUN_SILENT;
    const int refused = e->state == STK_RUN_ENDED && says_memory(e->log.why);
    const int by_kernel = e->state == STK_RUN_KILLED && e->kills;
    char cause[96];
    s->is_short |= refused || by_kernel;
    if (refused) {
        STK_SAY(cause, "the run stopped for want of memory at step %" PRIu64, e->log.step);
        stk_reason(a, 1, 1, cause, STK_AGAIN(e, " --batch auto"), "log.jsonl: %.280s", e->log.why);
    } else if (!killed) {
        stk_reason(a, 0, 0.4, "the run was killed", NULL, "log.jsonl: %.280s",
                   *e->log.why ? e->log.why : "its process is there, it is still going");
    } else {
        stk_reason(a, 1, by_kernel ? 1 : 0.4,
                   by_kernel ? "the run was killed, and the kernel has killed for want of memory here"
                   : e->state == STK_RUN_SILENT
                       ? "the run was killed, or it is still going: its log has no last line"
                       : "the run was killed; whether for want of memory is not known",
                   STK_REMEDY("%sstoke train --resume %s",
                              by_kernel ? "" : "sudo dmesg | grep -i 'killed process'   and then: ", e->run)
                       .text,
                   "log.jsonl ends at step %" PRIu64
                   " without a last line%s; oom_kill of the control group: %" PRIu64 "%s [proc]",
                   e->log.step, e->state == STK_RUN_KILLED ? ", and its process is gone (RUN/live)" : "",
                   e->kills, e->kills ? "" : " (none, or not to be seen from here)");
    }
}

/* ---- need and room ---- */

static stk_preflight_command how_to_fit(const shortage *s)
{
    const stk_run_config *w = &s->e->config;
    const int64_t before = w->batch * (w->train.accumulate > 0 ? w->train.accumulate : 1);
    int64_t fits = largest_batch(s), even = fits;
    /* One that goes into what a step sees now, unless it would be less than half as large. */
    while (even > 1 && before % even) even--;
    if (2 * even >= fits) fits = even;
    const int64_t times = fits ? (before + fits - 1) / fits : 0;
    if (!s->native)
        return stk_with(stk_estimate_command(w, fits ? fits : 1, s->room.value),
                        "   then batch_size: %" PRId64 " and accumulation %" PRId64 " in %.200s",
                        fits ? fits : 1, times ? times : before, w->config);
    if (!fits)
        return stk_with(stk_train_again(s->e), " --memory min --batch 1   not one picture fits otherwise");
    return stk_with(stk_train_again(s->e),
                    " --batch %" PRId64 " --accumulate %" PRId64 "   a step sees %" PRId64
                    " pictures as before",
                    fits, times, before);
}

static void not_enough(shortage *s, stoke_answer *a)
{
    const stk_why_evidence *e = s->e;
    const stk_run_config *w = &e->config;
    char need[80];
    stoke_estimate_params unused;
    const char *unsaid = stk_run_config_estimate(w, &unused);
    const int known = s->estimated && s->room.source && e->state != STK_RUN_GOING;
    const int ended_well = e->state == STK_RUN_ENDED && !says_memory(e->log.why);
    const stk_decide_verdict fit = known ? stk_decide_fit(&s->need, s->room.value) : STK_FITS;
    const int wanting = !ended_well && fit != STK_FITS;
    const double weight = fit == STK_FITS_NOT ? 0.9 : 0.7;
    char cause[224];
    s->is_short |= wanting;
    if (!s->estimated) {
        stk_reason(a, -1, weight, "the settings need more memory than there is",
                   e->has_config
                       ? STK_REMEDY("stoke check --config %s --model b0..b5 --size HxW", w->config).text
                       : "stoke why oom --config FILE",
                   "no estimate: the %s is not known%s%s", unsaid ? unsaid : "model",
                   *e->why_no_config ? "; " : "", e->why_no_config);
        return;
    }
    stk_decide_range(&s->need, need, sizeof need);
    const char *have = STOKE_MEMORY(s->room.value);
    const char *part = STOKE_MEMORY(s->need.bytes[s->need.dominant]);
    const char *who = s->native ? "the host" : e->here.meant ? e->here.gpu.name : "the card";
    if (wanting)
        STK_SAY(cause, "batches of %" PRId64 " need %s and 1 GiB to spare, %.60s has %s%s", w->batch, need,
                who, have, s->native ? " free" : "");
    else
        STK_SAY(cause, "batches of %" PRId64 " need more memory than there is", w->batch);
    const int unnamed = !s->room.source && !s->native;
    const stk_preflight_command remedy =
        unnamed   ? STK_REMEDY("stoke why oom --config %s --gpu NAME   or --vram GB", w->config)
        : wanting ? how_to_fit(s)
                  : STK_REMEDY("%s", "");
    stk_reason(a, known ? wanting : -1, weight, cause, remedy.text,
               "%s, %" PRId64 "x%" PRId64 ": %s [%s], the largest part %s with %s; %s %s [%s]", w->model,
               w->height, w->width, need, stoke_source_name(s->need.source),
               stoke_memory_term_name(s->need.dominant), part, s->native ? "free" : "the card has",
               s->room.source ? have : "n/a", stoke_source_name(s->room.source));
    if (!unnamed) return;
    STK_SAY(a->text,
            "That depends on the card: batches of %" PRId64
            " need %s and 1 GiB to spare; --gpu NAME or --vram "
            "GB says which is meant",
            w->batch, need);
}

/* ---- what would need less ---- */

static void smaller_numbers(const shortage *s, stoke_answer *a)
{
    const stk_run_config *w = &s->e->config;
    const int halves = s->native ? STOKE_PRECISION_BF16 : STOKE_PRECISION_FP16;
    stoke_estimate less;
    if (!s->estimated || !need_of(s->e, w->train.memory, halves, &less)) return;
    const int gains =
        w->train.precision == STOKE_PRECISION_FP32 && (double)less.total < 0.9 * (double)s->need.total;
    stoke_reason *r = stk_reason(
        a, gains && s->is_short, 0.3, "numbers of 32 bits take more memory than those of 16",
        s->native ? STK_AGAIN(s->e, " --precision bf16") : stk_optimize_command(w, &s->e->here).text, "%s",
        "");
    const char *now = STOKE_MEMORY(s->need.total);
    if (w->train.precision != STOKE_PRECISION_FP32)
        STK_SAY(r->evidence, "%s already: %s [estimated]", stoke_precision_name(w->train.precision), now);
    else
        STK_SAY(r->evidence, "%s: %s, with %s %s [estimated]", stoke_precision_name(w->train.precision), now,
                stoke_precision_name(halves), STOKE_MEMORY(less.total));
}

static void keep_less(const shortage *s, stoke_answer *a)
{
    const stk_run_config *w = &s->e->config;
    stoke_estimate less;
    if (!s->native || !s->estimated || !need_of(s->e, STOKE_MEMORY_MIN, w->train.precision, &less)) return;
    stk_reason(a, s->is_short && w->train.memory != STOKE_MEMORY_MIN, 0.35,
               "more activations are kept for the backward pass than must be",
               STK_AGAIN(s->e, " --memory min"),
               "%s as it is, %s with --memory min, which computes it again [estimated]",
               STOKE_MEMORY(s->need.total), STOKE_MEMORY(less.total));
}

static void batches_ahead(const shortage *s, stoke_answer *a)
{
    const stk_run_config *w = &s->e->config;
    if (!s->native || !s->estimated) return;
    const uint64_t bytes = s->need.bytes[STOKE_TERM_BATCHES];
    stk_reason(a, s->is_short && (double)bytes > 0.25 * (double)s->need.total, 0.25,
               "batches made ahead fill the memory", STK_AGAIN(s->e, " --prefetch 1"),
               "%s for prefetch %" PRId64 " at batches of %" PRId64 " [estimated]", STOKE_MEMORY(bytes),
               w->prefetch, w->batch);
    stk_reason(a, s->is_short && w->data.cache_ram > 0, 0.25, "decoded pictures are kept in memory",
               STK_AGAIN(s->e, " --cache-ram 0"), "cache_ram: %s", STOKE_MEMORY(w->data.cache_ram));
}

/* ---- who else ---- */

static void limit_of_group(const shortage *s, stoke_answer *a)
{
    const stoke_machine_facts *m = &s->e->here.machine;
    if (!m->memory_bytes.source || !s->native) return;
    const int limited = m->limit_bytes.source && m->limit_bytes.value < m->memory_bytes.value;
    stk_reason(a, limited && s->is_short, 0.2, "the container may take less than the machine has",
               STK_REMEDY("docker update --memory %.0fg --memory-swap -1 CONTAINER   or its like",
                          (double)s->need.high / SPARE + 2)
                   .text,
               "limit of the control group: %s, memory of the machine: %s [%s]",
               limited ? STOKE_MEMORY(m->limit_bytes.value) : "none", STOKE_MEMORY(m->memory_bytes.value),
               stoke_source_name(m->memory_bytes.source));
}

/* It fits the card, but not what is free of it just now. */
static void held_now(const shortage *s, stoke_answer *a)
{
    const stoke_figure now = s->e->here.gpu.memory_free;
    char need[80];
    if (!s->estimated || !now.source || s->e->here.meant || s->is_short) return;
    stk_reason(a, stk_decide_fit(&s->need, now.value) != STK_FITS, 0.75,
               "too little of the card's memory is free now",
               "nvidia-smi   shows who holds the rest; end them, or wait",
               "free %s [%s], needed %s and 1 GiB to spare [estimated]", STOKE_MEMORY(now.value),
               stoke_source_name(now.source), stk_decide_range(&s->need, need, sizeof need));
}

void stk_why_oom(stoke_answer *a, const stk_why_evidence *e)
{
    shortage s = { .e = e, .native = e->config.engine == STOKE_ENGINE_NATIVE };
    s.estimated = need_of(e, e->config.train.memory, e->config.train.precision, &s.need);
    s.room = s.native ? stk_host_free(&e->here.machine) : stk_card_memory(&e->here);
    the_end(&s, a);
    not_enough(&s, a);
    keep_less(&s, a);
    smaller_numbers(&s, a);
    batches_ahead(&s, a);
    limit_of_group(&s, a);
    if (s.native) return;
    held_now(&s, a);
    stk_reason_line(a, e, "others", "other programs hold memory of the card", 0.8);
    if (e->config.workers > 0)
        stk_reason_line(a, e, "prefetch", "batches that workers hold ready fill the host's memory", 0.5);
    stk_reason_line(a, e, "shm", "/dev/shm is too small for the workers, which then die of SIGBUS", 0.6);
}
