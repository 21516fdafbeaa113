/* SPDX-License-Identifier: Apache-2.0
 *
 * A diagnosis for people (the verdict first, then what it rests on, then what to type) and for programs.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/tune/diagnose.h"
#include "cli/lib/page.h"
#include "cli/lib/upload_options.h"

/* A model that is further off on what was measured is not to be trusted on what was not. */
static const double trusted_points = 5;
static const double shown_ms = 0.0005;
/* Of a step: a loss that is worth a reason. */
static const double shown_loss = 0.01;

static double per_step_ms(const stoke_attribution *a, uint64_t ns)
{
    return (double)ns / (double)a->steps / 1e6;
}

/* CPU time of a batch. */
static double making_ms(const stoke_side *side)
{
    double cpu = 0;
    for (size_t i = 0; i < side->n; i++)
        for (int k = 0; k < STOKE_WORK_KINDS; k++) cpu += (double)side->records[i].making[k].cpu_ns / 1e6;
    return cpu / (side->n ? (double)side->n : 1);
}

static double percent(const stoke_attribution *a, uint64_t ns)
{
    return a->elapsed_ns ? 100.0 * (double)ns / (double)a->elapsed_ns : 0;
}

/* Small times need more digits. */
static const char *ms_text(double ms, char *text, size_t size)
{
    if (isnan(ms))
        snprintf(text, size, "n/a");
    else
        snprintf(text, size, "%.*f", fabs(ms) < 10 ? 2 : 1, fabs(ms) < 0.005 ? 0 : ms); /* no -0.00 */
    return text;
}
#define MS(ms) ms_text((ms), (char[24]){ 0 }, 24)

static const char *range_text(double ms, double low, double high, char *text, size_t size)
{
    const char *b = MS(low), *c = MS(high);
    if (strcmp(b, c) != 0)
        snprintf(text, size, "%s [%s, %s]", MS(ms), b, c);
    else /* every draw gives the same to the last digit shown: it is arithmetic, not chance */
        ms_text(ms, text, size);
    return text;
}
#define RANGE(ms, low, high) range_text((ms), (low), (high), (char[96]){ 0 }, 96)

/* ---- what was run ---- */

static void print_subject(const diagnose_job *job, int busy)
{
    const stoke_costs *costs = &job->diagnosis->costs;
    const stoke_attribution *a = &job->diagnosis->attribution;
    char setup[256];
    double step = 0;
    for (size_t i = 0; i < costs->n_steps; i++) step += costs->step_ms[i] / (double)costs->n_steps;
    if (job->device)
        stoke_setup_text(&costs->measured, setup, sizeof setup);
    else /* nothing crosses, and the loop is the device */
        snprintf(setup, sizeof setup, "%s, %u ahead, training %s",
                 STOKE_COUNT(costs->measured.workers, "worker"), costs->measured.prefetch,
                 diagnose_model(job));
    cli_print("\n%s: %s%s\n", job->device_name, job->device_title,
              job->emulated ? "; simulated: its times are computed, not measured" : "");
    if (job->plan) cli_print("settings  %s (%s)\n", job->call->common.config, job->plan->dialect);
    cli_print("loop      batches of %u, %s\n", costs->measured.batch, setup);
    cli_print("step      %.1f ms [%s]\n", step, job->step_source);
    cli_print("measured  %s, one every %.1f ms", STOKE_COUNT(a->steps, "step"),
              per_step_ms(a, a->elapsed_ns));
    if (!busy) /* else the verdict says what was had */
        cli_print("; %s could have %.2f cores meanwhile", costs->measured.workers ? "workers" : "the loop",
                  costs->cores);
    putchar('\n');
}

/* ---- causes ---- */

static void cause_row(stoke_table *table, const stoke_attribution *a, const char *name, uint64_t ns,
                      const char *meaning)
{
    cli_row(table, "%s\t%.3f\t%.1f\t%s", name, per_step_ms(a, ns), percent(a, ns), meaning);
}

/* Sums are those of the rows above: by group, and of all. Rows that would be 0.000 are left out. */
static void print_causes(const diagnose_job *job)
{
    const stoke_attribution *a = &job->diagnosis->attribution;
    stoke_table *table = CLI_TABLE("the device is idle", "ms a step", "%", "meanwhile");
    for (int k = 0; k < STOKE_IDLES; k++) {
        if (per_step_ms(a, a->idle[k]) >= shown_ms)
            cause_row(table, a, stoke_idle_name(k), a->idle[k], stoke_idle_meaning(k));
        if (k == STOKE_IDLE_INPUTS - 1 && a->input_ns)
            cause_row(table, a, "= waiting for input", a->input_ns, "sum of the rows above");
    }
    char sum[128];
    snprintf(sum, sizeof sum, "sum of all causes, to the nanosecond [%s]",
             job->emulated ? "measured; device emulated" : "measured");
    cause_row(table, a, "= idle", a->idle_ns, sum);
    cli_table_end(table);
    if (a->unknown_after >= 0)
        cli_print("unknown: a moment was not recorded; the time follows \"%s\"\n",
                  stoke_idle_name(a->unknown_after));
}

/* ---- fixes ---- */

/* What was measured, and how far the prediction was off. */
static void measured_text(const stoke_fix_measured *m, double predicted, char text[static 128],
                          char error[static 32])
{
    snprintf(text, 128, "-");
    if (!m->pairs) return;
    snprintf(text, 128, "%s%s", RANGE(m->gain_ms, m->low, m->high), m->confirmed ? "" : ", not confirmed");
    ms_text(predicted - m->gain_ms, error, 32);
}

static void fix_row(stoke_table *table, const stoke_fix *fix)
{
    char alone[96] = "-", sequence[48] = "-", busy[32] = "-", measured[128], error[32] = "-";
    if (fix->applies) {
        range_text(fix->gain_ms, fix->gain_low, fix->gain_high, alone, sizeof alone);
        snprintf(busy, sizeof busy, "%.1f", 100 * fix->alone.busy);
        if (fix->order)
            ms_text(fix->marginal_ms, sequence, sizeof sequence);
        else
            snprintf(sequence, sizeof sequence, "no more");
    }
    measured_text(&fix->measured, fix->gain_ms, measured, error);
    stoke_table_row(table,
                    (const char *[]){ stoke_cause_name(fix->cause), alone, sequence, busy, measured, error });
}

static void print_gains(const stoke_fixes *f)
{
    static const char *const headings[] = { "what it costs, ms a step", "alone [90 %]",    "in sequence",
                                            "busy without it %",        "measured [90 %]", "error" };
    stoke_table *table = stoke_table_create(headings, CLI_COUNT(headings) - (f->measured.pairs ? 0 : 2));
    const char *all = MS(f->gain_all_ms);
    char busy[32], measured[128], error[32] = "-";
    for (int i = 0; i < STOKE_CAUSES; i++) fix_row(table, &f->fix[i]);
    snprintf(busy, sizeof busy, "%.1f", 100 * f->together.busy);
    measured_text(&f->measured, f->gain_all_ms, measured, error);
    stoke_table_row(table, (const char *[]){ "= all of them", all, all, busy, measured, error });
    cli_table_end(table);
}

static int any_in_sequence(const stoke_fixes *f)
{
    for (int i = 0; i < STOKE_CAUSES; i++)
        if (f->fix[i].applies && f->fix[i].order) return 1;
    return 0;
}

/* Why a change makes it slower by itself. */
static const char *slower_because(const diagnose_job *job, const stoke_fix *fix)
{
    const int restarts = !job->diagnosis->costs.measured.persistent;
    switch (fix->cause) {
    case STOKE_CAUSE_NO_PINNING:
    case STOKE_CAUSE_SYNC_COPIES:
        return restarts ? "memory is pinned again with the workers at every epoch; keep them, and it gains"
                        : "the copy that it saves is shorter than what it adds";
    case STOKE_CAUSE_CPU_AUGMENT:
        return restarts
                   ? "what the device needs for it is made again with the workers at every epoch"
                   : "the device would augment in the time of its steps, the processor does it beside them";
    default: return "it takes cores from what is waited for";
    }
}

/* In the order of the sequence, then what adds nothing after those, or takes, then what is right already. */
static void print_changes(const diagnose_job *job, const stoke_fixes *f)
{
    const int any = any_in_sequence(f);
    puts(any ? "what to change, in this order" : "what could be changed gives nothing more");
    for (int order = 1; order <= STOKE_CAUSES; order++)
        for (int i = 0; i < STOKE_CAUSES; i++) {
            const stoke_fix *fix = &f->fix[i];
            char where[512];
            if (!fix->applies || fix->order != order) continue;
            diagnose_setting(job, fix, where, sizeof where);
            cli_print("  %d  %s%s%s\n", order, fix->what, *where ? ": " : "", where);
        }
    for (int i = 0; i < STOKE_CAUSES; i++) {
        const stoke_fix *fix = &f->fix[i];
        if (!fix->applies || fix->order) continue;
        if (-fix->gain_ms < shown_loss * f->now.step_ms)
            cli_print("  -  %s: adds nothing%s\n", fix->what, any ? " after those" : "");
        else
            cli_print("  -  %s: %s ms a step slower by itself: %s\n", fix->what, MS(-fix->gain_ms),
                      slower_because(job, fix));
    }
    for (int i = 0; i < STOKE_CAUSES; i++)
        if (!f->fix[i].applies) cli_print("  -  %s: no, %s\n", stoke_cause_name(i), f->fix[i].what);
}

static void print_fixes(const diagnose_job *job)
{
    const stoke_fixes *f = &job->diagnosis->fixes;
    double alone = 0;
    for (int i = 0; i < STOKE_CAUSES; i++)
        if (f->fix[i].applies) alone += fmax(0, f->fix[i].gain_ms);
    print_gains(f);
    cli_print("[predicted%s]", f->measured.pairs ? "; measured in turns" : "");
    if (any_in_sequence(f))
        cli_print(" They do not add: alone they sum to %s ms, together they give %s ms.", MS(alone),
                  MS(f->gain_all_ms));
    fputs("\n\n", stdout);
    print_changes(job, f);
    putchar('\n');
    if (any_in_sequence(f))
        cli_print("With all of them: busy %s %% [predicted], a step every %s ms.\n",
                  RANGE(100 * f->together.busy, 100 * f->together.busy_low, 100 * f->together.busy_high),
                  MS(f->together.step_ms));
    if (f->measured.pairs)
        cli_print("Measured with all of them: busy %.1f %%, %.1f points from the prediction [%u pairs of "
                  "blocks in turns, %lld steps each].\n",
                  100 * f->measured.busy, 100 * fabs(f->measured.busy - f->together.busy), f->measured.pairs,
                  (long long)job->o->steps);
}

/* ---- for people and programs ---- */

static void put_setup(stoke_json *json, const char *key, const stoke_setup *s)
{
    FACTS_OBJECT(json, key, FACT_OF(s, batch), FACT_OF(s, workers), FACT_OF(s, prefetch), FACT_OF(s, depth),
                 FACT("placement", cli_placement_name(s->placement)),
                 FACT("transfer", cli_transfer_name(s->transfer)), FACT_IS_OF(s, persistent),
                 FACT_IS_OF(s, sync));
}

static void put_forecast(stoke_json *json, const char *key, const stoke_forecast *f)
{
    FACTS_OBJECT(json, key, FACT("busy_share", f->busy), FACT_OF(f, busy_low), FACT_OF(f, busy_high),
                 FACT("step_interval_ms", f->step_ms), FACT("step_interval_low_ms", f->low_ms),
                 FACT("step_interval_high_ms", f->high_ms), FACT("closed_form_ms", f->closed_ms),
                 FACT("limit", f->limit < 0 ? "device" : stoke_idle_name(f->limit)));
}

static void put_what_ifs(cli_page *page, const diagnose_job *job)
{
    cli_page_table(page, "what_if");
    for (size_t i = 0; i < job->what_ifs; i++) {
        const diagnose_what_if *w = &job->what_if[i];
        const stoke_forecast *f = &w->forecast;
        CLI_PAGE_ROW_OPEN(
            page, CELL("what if", FACT_OF(w, change)),
            CELL_TEXT("busy % [90 %]", "%s", RANGE(100 * f->busy, 100 * f->busy_low, 100 * f->busy_high)),
            CELL_TEXT("ms a step [90 %]", "%s", RANGE(f->step_ms, f->low_ms, f->high_ms)),
            CELL("then limited by", FACT(NULL, f->limit < 0 ? "the device" : stoke_idle_name(f->limit))));
        if (page->as_json) {
            put_setup(&page->json, "setup", &w->setup);
            put_forecast(&page->json, "predicted", f);
        }
        cli_page_close(page);
    }
    cli_page_table_end(page);
}

/* ---- costs ---- */

static void print_costs(const diagnose_job *job)
{
    const stoke_costs *c = &job->diagnosis->costs;
    const stoke_side *side = &c->side[c->measured.placement];
    fputs("costs     ", stdout);
    if (job->device)
        cli_print("copy of a batch %s ms pageable, %s ms pinned [%s]; ", MS(side->pageable_ms),
                  MS(side->pinned_ms), diagnose_source(job));
    cli_print("workers started again %s ms [measured], an epoch has %llu steps; the loop itself %.2f ms a "
              "step [measured]\n",
              MS(c->restart_ms), (unsigned long long)c->steps_per_epoch, c->host_ms);
}

/* What other programs do not change: times on cores, and copies of a device that is simulated. */
static void print_certain(const diagnose_job *job)
{
    const stoke_costs *c = &job->diagnosis->costs;
    const double cpu = making_ms(&c->side[c->measured.placement]);
    cli_print("Certain: a batch takes %s ms of CPU time to make [measured], whatever else runs", MS(cpu));
    if (cpu > 0)
        cli_print("; a free core makes %.*f batches a second", cpu > 100 ? 2 : cpu > 10 ? 1 : 0, 1000 / cpu);
    puts(". What each change would give is not said.");
}

void diagnose_print(const diagnose_job *job)
{
    const diagnose_options *o = job->o;
    double had, usable;
    const int busy = stoke_diagnosis_too_busy(job->diagnosis, &had, &usable);
    char verdict[512];
    stoke_diagnosis_verdict(job->diagnosis, verdict, sizeof verdict);
    cli_print("%s\n", verdict);
    print_subject(job, busy);
    print_costs(job);
    putchar('\n');
    print_causes(job);
    putchar('\n');
    if (busy) {
        print_certain(job);
    } else {
        print_fixes(job);
        /* The model is only as good as what it says of the setup that was measured. */
        const stoke_attribution *a = &job->diagnosis->attribution;
        const double predicted = 100 * job->diagnosis->fixes.now.busy;
        const double measured = percent(a, a->busy_ns), off = fabs(predicted - measured);
        cli_print("The model on the setup as it is: busy %.1f %%, measured %.1f %%.\n", predicted, measured);
        if (off > trusted_points)
            cli_print("It is %.0f points off, and predictions may be as far: try again on a quiet machine, "
                      "with more --steps.\n",
                      off);
        cli_page page = { .as_json = 0 };
        if (job->what_ifs) putchar('\n');
        put_what_ifs(&page, job);
    }
    putchar('\n');
    if (o->bars) cli_print("bars      %s\n", o->bars);
    if (o->timeline) cli_print("timeline  %s\n", o->timeline);
    if (o->html) cli_print("page      %s\n", o->html);
    if (o->perfetto) cli_print("trace     %s (open it at ui.perfetto.dev)\n", o->perfetto);
    if (*job->next)
        cli_print("Next: %s\n", job->next);
    else
        puts("Next: nothing here is worth a change.");
}

/* ---- for programs: the same figures, in ns where they were counted in ns ---- */

static void put_attribution(stoke_json *json, const stoke_attribution *a)
{
    const double per_step = 1e-6 / (double)a->steps;
    FACTS(json, FACT_OF(a, steps),
          FACT("busy_share", a->elapsed_ns ? (double)a->busy_ns / (double)a->elapsed_ns : NAN),
          FACT("step_interval_ms", (double)a->elapsed_ns * per_step),
          FACT("idle_ms_per_step", (double)a->idle_ns * per_step), FACT_OF(a, elapsed_ns),
          FACT_OF(a, busy_ns), FACT_OF(a, idle_ns), FACT_OF(a, input_ns), FACT_OF(a, fetch_ns),
          FACT_OF(a, copy_ns), FACT_OF(a, overlapped_copy_ns), FACT_OF(a, augment_ns),
          FACT("unknown_after", a->unknown_after < 0 ? NULL : stoke_idle_name(a->unknown_after)));
    JSON_LIST(json, "idle", k, k < STOKE_IDLES)
        FACTS_OBJECT(json, NULL, FACT("cause", stoke_idle_name(k)), FACT("ns", a->idle[k]),
                     FACT("ms_per_step", (double)a->idle[k] * per_step),
                     FACT("share", a->elapsed_ns ? (double)a->idle[k] / (double)a->elapsed_ns : NAN),
                     FACT_IS("input", k < STOKE_IDLE_INPUTS), FACT("meaning", stoke_idle_meaning(k)));
}

static void put_side(stoke_json *json, const char *key, const stoke_side *side)
{
    double kernels = 0;
    for (size_t i = 0; i < side->n; i++)
        kernels +=
            (double)(side->records[i].augment_end - side->records[i].augment_start) / 1e6 / (double)side->n;
    FACTS_OBJECT(json, key, FACT("batches", side->n), FACT("making_cpu_ms", side->n ? making_ms(side) : NAN),
                 FACT("kernels_ms", side->n ? kernels : NAN),
                 FACT("pageable_copy_ms", side->n ? side->pageable_ms : NAN),
                 FACT("pinned_copy_ms", side->n ? side->pinned_ms : NAN));
}

static void put_costs(stoke_json *json, const diagnose_job *job)
{
    const stoke_costs *c = &job->diagnosis->costs;
    double step = 0;
    for (size_t i = 0; i < c->n_steps; i++) step += c->step_ms[i] / (double)c->n_steps;
    stoke_json_object(json, "costs");
    FACTS(json, FACT("step_ms", step), FACT_OF(job, step_source), FACT_IS_OF(job, step_assumed),
          FACT_OF(c, cores), FACT("cores_source", "measured"), FACT_OF(c, launch_ms), FACT_OF(c, host_ms),
          FACT_OF(c, restart_ms), FACT_OF(c, steps_per_epoch));
    put_side(json, "host", &c->side[STOKE_PLACEMENT_HOST]);
    put_side(json, "device", &c->side[STOKE_PLACEMENT_DEVICE]);
    stoke_json_close(json);
}

static void put_measured(stoke_json *json, const stoke_fix_measured *m, double predicted)
{
    if (!m->pairs) { /* it was not verified */
        stoke_json_null(json, "measured");
        return;
    }
    FACTS_OBJECT(json, "measured", FACT_OF(m, pairs), FACT_OF(m, gain_ms), FACT("gain_low_ms", m->low),
                 FACT("gain_high_ms", m->high), FACT("error_ms", predicted - m->gain_ms),
                 FACT("busy_share", m->busy), FACT_IS_OF(m, confirmed));
}

static void put_fix(stoke_json *json, const diagnose_job *job, const stoke_fix *fix)
{
    char where[512];
    diagnose_setting(job, fix, where, sizeof where);
    stoke_json_object(json, NULL);
    FACTS(json, FACT("cause", stoke_cause_name(fix->cause)), FACT_IS_OF(fix, applies), FACT_OF(fix, what),
          FACT("change", fix->applies ? fix->change : NULL), FACT_OF(fix, setting),
          FACT_TEXT("where", where));
    if (fix->applies) {
        FACTS(json, FACT_OF(fix, gain_ms), FACT("gain_low_ms", fix->gain_low),
              FACT("gain_high_ms", fix->gain_high), FACT_OF(fix, order),
              FACT("marginal_ms", fix->order ? fix->marginal_ms : 0));
        put_forecast(json, "alone", &fix->alone);
        put_measured(json, &fix->measured, fix->gain_ms);
    }
    stoke_json_close(json);
}

static void put_fixes(stoke_json *json, const diagnose_job *job)
{
    const stoke_fixes *f = &job->diagnosis->fixes;
    put_forecast(json, "now_predicted", &f->now);
    JSON_LIST(json, "fixes", i, i < STOKE_CAUSES) put_fix(json, job, &f->fix[i]);
    stoke_json_object(json, "together");
    stoke_json_real(json, "gain_ms", f->gain_all_ms);
    put_setup(json, "setup", &f->all);
    put_forecast(json, "predicted", &f->together);
    put_measured(json, &f->measured, f->gain_all_ms);
    stoke_json_close(json);
}

void diagnose_json(const diagnose_job *job)
{
    const diagnose_options *o = job->o;
    char verdict[512];
    stoke_diagnosis_verdict(job->diagnosis, verdict, sizeof verdict);
    double had, usable;
    const int busy = stoke_diagnosis_too_busy(job->diagnosis, &had, &usable);
    cli_page page;
    cli_page_begin(&page, 1);
    stoke_json *json = &page.json;
    FACTS(json, FACT("verdict", verdict), FACT_IS("too_busy", busy), FACT("cores_had", had),
          FACT("device", job->device_name), FACT("title", job->device_title),
          FACT("source", diagnose_source(job)), FACT_OF(&job->call->common, config),
          FACT("dialect", job->plan ? job->plan->dialect : NULL));
    JSON_LIST(json, "remarks", i, job->plan && stoke_run_plan_remark(job->plan, i))
        stoke_json_string(json, NULL, stoke_run_plan_remark(job->plan, i));
    put_setup(json, "setup", &job->diagnosis->costs.measured);
    put_attribution(json, &job->diagnosis->attribution);
    put_costs(json, job);
    put_fixes(json, job);
    put_what_ifs(&page, job);
    cli_json_memory(json, &job->diagnosis->memory);
    FACTS(json, FACT_OF(o, bars), FACT_OF(o, timeline), FACT_OF(o, html), FACT_OF(o, perfetto),
          FACT_TEXT("next", job->next));
    cli_page_end(&page);
}
