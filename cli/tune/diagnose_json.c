/* SPDX-License-Identifier: Apache-2.0
 *
 * A diagnosis for programs: the same figures, in ns where they were counted in ns.
 */
#include <math.h>
#include <stdio.h>

#include "cli/tune/diagnose.h"
#include "cli/lib/facts.h"

static void put_setup(stoke_json *json, const char *key, const stoke_setup *s)
{
    static const char *const transfers[] = { "stream", "pinned", "pageable" };
    FACTS_OBJECT(json, key, FACT_OF(s, batch), FACT_OF(s, workers), FACT_OF(s, prefetch), FACT_OF(s, depth),
                 FACT("placement", s->placement == STOKE_PLACEMENT_DEVICE ? "device" : "host"),
                 FACT("transfer", transfers[s->transfer]), FACT_IS_OF(s, persistent), FACT_IS_OF(s, sync));
}

static void put_forecast(stoke_json *json, const char *key, const stoke_forecast *f)
{
    FACTS_OBJECT(json, key, FACT("busy_share", f->busy), FACT_OF(f, busy_low), FACT_OF(f, busy_high),
                 FACT("step_interval_ms", f->step_ms), FACT("step_interval_low_ms", f->low_ms),
                 FACT("step_interval_high_ms", f->high_ms), FACT("closed_form_ms", f->closed_ms),
                 FACT("limit", f->limit < 0 ? "device" : stoke_idle_name(f->limit)));
}

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
    stoke_json_array(json, "idle");
    for (int k = 0; k < STOKE_IDLES; k++) {
        FACTS_OBJECT(json, NULL, FACT("cause", stoke_idle_name(k)), FACT("ns", a->idle[k]),
                     FACT("ms_per_step", (double)a->idle[k] * per_step),
                     FACT("share", a->elapsed_ns ? (double)a->idle[k] / (double)a->elapsed_ns : NAN),
                     FACT_IS("input", k < STOKE_IDLE_INPUTS), FACT("meaning", stoke_idle_meaning(k)));
    }
    stoke_json_close(json);
}

static void put_side(stoke_json *json, const char *key, const stoke_side *side)
{
    double cpu = 0, kernels = 0;
    for (size_t i = 0; i < side->n; i++) {
        const stoke_step_record *r = &side->records[i];
        for (int k = 0; k < STOKE_WORK_KINDS; k++) cpu += (double)r->making[k].cpu_ns / 1e6 / (double)side->n;
        kernels += (double)(r->augment_end - r->augment_start) / 1e6 / (double)side->n;
    }
    FACTS_OBJECT(json, key, FACT("batches", side->n), FACT("making_cpu_ms", side->n ? cpu : NAN),
                 FACT("kernels_ms", side->n ? kernels : NAN),
                 FACT("pageable_copy_ms", side->n ? side->pageable_ms : NAN),
                 FACT("pinned_copy_ms", side->n ? side->pinned_ms : NAN));
}

static void put_costs(stoke_json *json, const diagnose_job *job)
{
    const stoke_costs *c = stoke_diagnosis_costs(job->diagnosis);
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

/* pairs 0: null, it was not verified. */
static void put_measured(stoke_json *json, uint32_t pairs, double ms, double low, double high, double busy,
                         double predicted, int confirmed)
{
    if (!pairs) {
        stoke_json_null(json, "measured");
        return;
    }
    FACTS_OBJECT(json, "measured", FACT("pairs", pairs), FACT("gain_ms", ms), FACT("gain_low_ms", low),
                 FACT("gain_high_ms", high), FACT("error_ms", predicted - ms), FACT("busy_share", busy),
                 FACT_IS("confirmed", confirmed));
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
        put_measured(json, fix->pairs, fix->measured_ms, fix->measured_low, fix->measured_high,
                     fix->measured_busy, fix->gain_ms, fix->confirmed);
    }
    stoke_json_close(json);
}

static void put_fixes(stoke_json *json, const diagnose_job *job)
{
    const stoke_fixes *f = stoke_diagnosis_fixes(job->diagnosis);
    put_forecast(json, "now_predicted", &f->now);
    stoke_json_array(json, "fixes");
    for (int i = 0; i < STOKE_CAUSES; i++) put_fix(json, job, &f->fix[i]);
    stoke_json_close(json);
    stoke_json_object(json, "together");
    stoke_json_real(json, "gain_ms", f->gain_all_ms);
    put_setup(json, "setup", &f->all);
    put_forecast(json, "predicted", &f->together);
    put_measured(json, f->pairs, f->measured_ms, f->measured_low, f->measured_high, f->measured_busy,
                 f->gain_all_ms, f->confirmed);
    stoke_json_close(json);
}

static void put_what_ifs(stoke_json *json, const diagnose_job *job)
{
    stoke_json_array(json, "what_if");
    for (size_t i = 0; i < job->what_ifs; i++) {
        const diagnose_what_if *w = &job->what_if[i];
        stoke_json_object(json, NULL);
        FACTS(json, FACT_OF(w, change));
        put_setup(json, "setup", &w->setup);
        put_forecast(json, "predicted", &w->forecast);
        stoke_json_close(json);
    }
    stoke_json_close(json);
}

void diagnose_json(const diagnose_job *job)
{
    const diagnose_options *o = job->o;
    char verdict[512];
    stoke_diagnosis_verdict(job->diagnosis, verdict, sizeof verdict);
    double had, usable;
    const int busy = stoke_diagnosis_too_busy(job->diagnosis, &had, &usable);
    stoke_json json = cli_json_open();
    FACTS(&json, FACT("verdict", verdict), FACT_IS("too_busy", busy), FACT("cores_had", had),
          FACT("device", job->device_name), FACT("title", job->device_title),
          FACT("source", diagnose_source(job)), FACT_OF(&job->call->common, config),
          FACT("dialect", job->plan ? stoke_run_plan_dialect(job->plan) : NULL));
    stoke_json_array(&json, "remarks");
    for (size_t i = 0; job->plan && stoke_run_plan_remark(job->plan, i); i++)
        stoke_json_string(&json, NULL, stoke_run_plan_remark(job->plan, i));
    stoke_json_close(&json);
    put_setup(&json, "setup", &stoke_diagnosis_costs(job->diagnosis)->measured);
    put_attribution(&json, stoke_diagnosis_attribution(job->diagnosis));
    put_costs(&json, job);
    put_fixes(&json, job);
    put_what_ifs(&json, job);
    cli_json_memory(&json, stoke_diagnosis_memory(job->diagnosis));
    FACTS(&json, FACT_OF(o, bars), FACT_OF(o, timeline), FACT_OF(o, html), FACT_OF(o, perfetto),
          FACT_TEXT("next", job->next));
    stoke_json_close(&json);
}
