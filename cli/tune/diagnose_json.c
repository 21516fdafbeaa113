/* SPDX-License-Identifier: Apache-2.0
 *
 * A diagnosis for programs: the same figures, in ns where they were counted in ns.
 */
#include <math.h>
#include <stdio.h>

#include "cli/tune/diagnose.h"

static void put_setup(stoke_json *json, const char *key, const stoke_setup *s)
{
    static const char *const transfers[] = { "stream", "pinned", "pageable" };
    stoke_json_object(json, key);
    stoke_json_uint(json, "batch", s->batch);
    stoke_json_uint(json, "workers", s->workers);
    stoke_json_uint(json, "prefetch", s->prefetch);
    stoke_json_uint(json, "depth", s->depth);
    stoke_json_string(json, "placement", s->placement == STOKE_PLACEMENT_DEVICE ? "device" : "host");
    stoke_json_string(json, "transfer", transfers[s->transfer]);
    stoke_json_bool(json, "persistent", s->persistent);
    stoke_json_bool(json, "sync", s->sync);
    stoke_json_close(json);
}

static void put_forecast(stoke_json *json, const char *key, const stoke_forecast *f)
{
    stoke_json_object(json, key);
    stoke_json_real(json, "busy_share", f->busy);
    stoke_json_real(json, "busy_low", f->busy_low);
    stoke_json_real(json, "busy_high", f->busy_high);
    stoke_json_real(json, "step_interval_ms", f->step_ms);
    stoke_json_real(json, "step_interval_low_ms", f->low_ms);
    stoke_json_real(json, "step_interval_high_ms", f->high_ms);
    stoke_json_real(json, "closed_form_ms", f->closed_ms);
    stoke_json_string(json, "limit", f->limit < 0 ? "device" : stoke_idle_name(f->limit));
    stoke_json_close(json);
}

static void put_attribution(stoke_json *json, const stoke_attribution *a)
{
    const double per_step = 1e-6 / (double)a->steps;
    stoke_json_uint(json, "steps", a->steps);
    stoke_json_real(json, "busy_share", a->elapsed_ns ? (double)a->busy_ns / (double)a->elapsed_ns : NAN);
    stoke_json_real(json, "step_interval_ms", (double)a->elapsed_ns * per_step);
    stoke_json_real(json, "idle_ms_per_step", (double)a->idle_ns * per_step);
    stoke_json_uint(json, "elapsed_ns", a->elapsed_ns);
    stoke_json_uint(json, "busy_ns", a->busy_ns);
    stoke_json_uint(json, "idle_ns", a->idle_ns);
    stoke_json_uint(json, "input_ns", a->input_ns);
    stoke_json_uint(json, "fetch_ns", a->fetch_ns);
    stoke_json_uint(json, "copy_ns", a->copy_ns);
    stoke_json_uint(json, "overlapped_copy_ns", a->overlapped_copy_ns);
    stoke_json_uint(json, "augment_ns", a->augment_ns);
    stoke_json_string(json, "unknown_after", a->unknown_after < 0 ? NULL : stoke_idle_name(a->unknown_after));
    stoke_json_array(json, "idle");
    for (int k = 0; k < STOKE_IDLES; k++) {
        stoke_json_object(json, NULL);
        stoke_json_string(json, "cause", stoke_idle_name(k));
        stoke_json_uint(json, "ns", a->idle[k]);
        stoke_json_real(json, "ms_per_step", (double)a->idle[k] * per_step);
        stoke_json_real(json, "share", a->elapsed_ns ? (double)a->idle[k] / (double)a->elapsed_ns : NAN);
        stoke_json_bool(json, "input", k < STOKE_IDLE_INPUTS);
        stoke_json_string(json, "meaning", stoke_idle_meaning(k));
        stoke_json_close(json);
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
    stoke_json_object(json, key);
    stoke_json_uint(json, "batches", side->n);
    stoke_json_real(json, "making_cpu_ms", side->n ? cpu : NAN);
    stoke_json_real(json, "kernels_ms", side->n ? kernels : NAN);
    stoke_json_real(json, "pageable_copy_ms", side->n ? side->pageable_ms : NAN);
    stoke_json_real(json, "pinned_copy_ms", side->n ? side->pinned_ms : NAN);
    stoke_json_close(json);
}

static void put_costs(stoke_json *json, const diagnose_job *job)
{
    const stoke_costs *c = stoke_diagnosis_costs(job->diagnosis);
    double step = 0;
    for (size_t i = 0; i < c->n_steps; i++) step += c->step_ms[i] / (double)c->n_steps;
    stoke_json_object(json, "costs");
    stoke_json_real(json, "step_ms", step);
    stoke_json_string(json, "step_source", job->step_source);
    stoke_json_bool(json, "step_assumed", job->step_assumed);
    stoke_json_real(json, "cores", c->cores);
    stoke_json_string(json, "cores_source", "measured");
    stoke_json_real(json, "launch_ms", c->launch_ms);
    stoke_json_real(json, "host_ms", c->host_ms);
    stoke_json_real(json, "restart_ms", c->restart_ms);
    stoke_json_uint(json, "steps_per_epoch", c->steps_per_epoch);
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
    stoke_json_object(json, "measured");
    stoke_json_uint(json, "pairs", pairs);
    stoke_json_real(json, "gain_ms", ms);
    stoke_json_real(json, "gain_low_ms", low);
    stoke_json_real(json, "gain_high_ms", high);
    stoke_json_real(json, "error_ms", predicted - ms);
    stoke_json_real(json, "busy_share", busy);
    stoke_json_bool(json, "confirmed", confirmed);
    stoke_json_close(json);
}

static void put_fix(stoke_json *json, const diagnose_job *job, const stoke_fix *fix)
{
    char where[512];
    diagnose_setting(job, fix, where, sizeof where);
    stoke_json_object(json, NULL);
    stoke_json_string(json, "cause", stoke_cause_name(fix->cause));
    stoke_json_bool(json, "applies", fix->applies);
    stoke_json_string(json, "what", fix->what);
    stoke_json_string(json, "change", fix->applies ? fix->change : NULL);
    stoke_json_string(json, "setting", fix->setting);
    stoke_json_string(json, "where", *where ? where : NULL);
    if (fix->applies) {
        stoke_json_real(json, "gain_ms", fix->gain_ms);
        stoke_json_real(json, "gain_low_ms", fix->gain_low);
        stoke_json_real(json, "gain_high_ms", fix->gain_high);
        stoke_json_int(json, "order", fix->order);
        stoke_json_real(json, "marginal_ms", fix->order ? fix->marginal_ms : 0);
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
        stoke_json_string(json, "change", w->change);
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
    stoke_json json;
    stoke_diagnosis_verdict(job->diagnosis, verdict, sizeof verdict);
    stoke_json_begin(&json, stdout, 2);
    stoke_json_object(&json, NULL);
    double had, usable;
    stoke_json_string(&json, "verdict", verdict);
    stoke_json_bool(&json, "too_busy", stoke_diagnosis_too_busy(job->diagnosis, &had, &usable));
    stoke_json_real(&json, "cores_had", had);
    stoke_json_string(&json, "device", job->device_name);
    stoke_json_string(&json, "title", job->device_title);
    stoke_json_string(&json, "source", diagnose_source(job));
    stoke_json_string(&json, "config", job->call->common.config);
    stoke_json_string(&json, "dialect", job->plan ? stoke_run_plan_dialect(job->plan) : NULL);
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
    stoke_json_string(&json, "bars", o->bars);
    stoke_json_string(&json, "timeline", o->timeline);
    stoke_json_string(&json, "html", o->html);
    stoke_json_string(&json, "perfetto", o->perfetto);
    stoke_json_string(&json, "next", *job->next ? job->next : NULL);
    stoke_json_close(&json);
}
