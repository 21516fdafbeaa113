/* SPDX-License-Identifier: Apache-2.0
 *
 * A diagnosis as one page that needs nothing else: verdict, bars, timeline, tables. No script, no address
 * outside; it follows light and dark mode and prints.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include <stoke/tools/output.h>

#include "src/base/error.h"
#include "src/base/file.h"
#include "src/base/mem.h"
#include "src/report/chart.h"
#include "src/tune/diagnose/diagnosis_draw.h"

enum { TIMELINE_LIMIT = 64 << 20 };

static const char style[] =
    ":root{color-scheme:light "
    "dark;--back:#f4f5f8;--paper:#fff;--ink:#1c202a;--faded:#5f6675;--rule:#e3e6ec}\n"
    "@media (prefers-color-scheme:dark){:root{--back:#0f1116;--paper:#171a21;--ink:#e8eaf0;--faded:#9aa2b1;"
    "--rule:#2a2f3a}}\n"
    "*{box-sizing:border-box}body{margin:0;background:var(--back);color:var(--ink);"
    "font:15px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif}\n"
    "main{max-width:1260px;margin:0 auto;padding:28px 20px 60px}h1{font-size:26px;margin:0 0 4px;"
    "overflow-wrap:anywhere}h2{font-size:18px;margin:0 0 12px}.verdict{font-size:19px;margin:0 0 8px}"
    ".note{color:var(--faded);font-size:13px;margin:12px 0 0}\n"
    "section{background:var(--paper);border-radius:10px;padding:18px 20px;margin:16px 0;overflow-x:auto}"
    "section>svg,section>img{width:100%;height:auto}\n"
    "table{border-collapse:collapse;width:100%;font-size:14px}"
    "th{text-align:left;font-weight:600;color:var(--faded);font-size:13px}"
    "td,th{padding:4px 14px 4px 0;border-bottom:1px solid var(--rule);vertical-align:top}"
    ".n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}.off td{color:var(--faded)}\n"
    "tfoot td{font-weight:600}\n";

typedef struct page {
    FILE *out;
    const stoke_diagnosis *d;
    const char *source; /* of the device's times */
} page;

/* ---- cells ---- */

static void put_text(const page *p, const char *text)
{
    fputs("<td>", p->out);
    stk_html_text(p->out, text);
    fputs("</td>", p->out);
}

static void put_number(const page *p, double value, int decimals, const char *unit)
{
    char text[32];
    stk_text_fixed(value, decimals, text, sizeof text);
    fprintf(p->out, "<td class=\"n\">%s%s</td>", text, isfinite(value) ? unit : "");
}

static void put_range(const page *p, double value, double low, double high)
{
    char a[32], b[32], c[32];
    if (!isfinite(value)) {
        fputs("<td class=\"n\">n/a</td>", p->out);
        return;
    }
    fprintf(p->out, "<td class=\"n\">%s [%s, %s]</td>", stk_text_fixed(value, 2, a, sizeof a),
            stk_text_fixed(low, 2, b, sizeof b), stk_text_fixed(high, 2, c, sizeof c));
}

/* ---- tables ---- */

static void put_causes(const page *p)
{
    const stoke_attribution *a = &p->d->attribution;
    const double per_step = 1e-6 / (double)a->steps, share = 100.0 / (double)a->elapsed_ns;
    fputs(
        "<section><h2>Every idle moment has one cause</h2>\n<table><thead><tr><th>cause</th><th "
        "class=\"n\">ms a step</th><th class=\"n\">of the time</th><th>meanwhile</th></tr></thead><tbody>\n",
        p->out);
    for (int k = 0; k < STOKE_IDLES; k++) {
        if (!a->idle[k]) continue;
        fputs("<tr>", p->out);
        put_text(p, stoke_idle_name(k));
        put_number(p, (double)a->idle[k] * per_step, 3, "");
        put_number(p, (double)a->idle[k] * share, 1, " %");
        put_text(p, stoke_idle_meaning(k));
        fputs("</tr>\n", p->out);
    }
    fputs("</tbody><tfoot><tr><td>all of it</td>", p->out);
    put_number(p, (double)a->idle_ns * per_step, 3, "");
    put_number(p, (double)a->idle_ns * share, 1, " %");
    fprintf(p->out,
            "<td>measured over %" PRIu64 " steps; the causes sum to %" PRIu64
            " ns, all that was idle</td></tr>"
            "</tfoot></table></section>\n",
            a->steps, a->idle_ns);
}

static void put_fix(const page *p, const stoke_fix *fix, int verified)
{
    fprintf(p->out, "<tr%s>", fix->applies ? "" : " class=\"off\"");
    put_text(p, stoke_cause_name(fix->cause));
    put_text(p, fix->what);
    if (!fix->applies) {
        for (int i = 0; i < (verified ? 5 : 3); i++) fputs("<td class=\"n\">-</td>", p->out);
        fputs("</tr>\n", p->out);
        return;
    }
    put_range(p, fix->gain_ms, fix->gain_low, fix->gain_high);
    put_number(p, fix->order ? fix->marginal_ms : 0, 2, "");
    put_number(p, 100 * fix->alone.busy, 1, " %");
    if (verified) {
        put_range(p, fix->pairs ? fix->measured_ms : NAN, fix->measured_low, fix->measured_high);
        put_number(p, fix->pairs ? fix->gain_ms - fix->measured_ms : NAN, 2, "");
    }
    fputs("</tr>\n", p->out);
}

static void put_together(const page *p, int verified)
{
    const stoke_fixes *f = &p->d->fixes;
    fputs("</tbody><tfoot><tr><td>all of them</td><td></td>", p->out);
    put_number(p, f->gain_all_ms, 2, "");
    put_number(p, f->gain_all_ms, 2, "");
    put_number(p, 100 * f->together.busy, 1, " %");
    if (verified) {
        put_range(p, f->pairs ? f->measured_ms : NAN, f->measured_low, f->measured_high);
        put_number(p, f->pairs ? f->gain_all_ms - f->measured_ms : NAN, 2, "");
    }
    fputs("</tr></tfoot></table>\n", p->out);
}

static void put_fixes(const page *p)
{
    const stoke_fixes *f = &p->d->fixes;
    const int verified = f->pairs > 0;
    double alone = 0;
    char a[32], b[32];
    fputs("<section><h2>What each change would give</h2>\n<table><thead><tr><th>cause</th><th>change</th>"
          "<th class=\"n\">alone, ms a step [90 %]</th><th class=\"n\">in sequence</th><th class=\"n\">busy "
          "then</th>",
          p->out);
    if (verified) fputs("<th class=\"n\">measured [90 %]</th><th class=\"n\">error</th>", p->out);
    fputs("</tr></thead><tbody>\n", p->out);
    for (int i = 0; i < STOKE_CAUSES; i++) {
        put_fix(p, &f->fix[i], verified);
        if (f->fix[i].applies) alone += fmax(0, f->fix[i].gain_ms);
    }
    put_together(p, verified);
    fprintf(p->out,
            "<p class=\"note\">Predicted from measured costs. They do not add: alone they sum to %s ms, "
            "together they give %s ms.</p></section>\n",
            stk_text_fixed(alone, 1, a, sizeof a), stk_text_fixed(f->gain_all_ms, 1, b, sizeof b));
}

static void put_cost(const page *p, const char *what, double value, int decimals, const char *unit,
                     const char *source)
{
    fputs("<tr>", p->out);
    put_text(p, what);
    put_number(p, value, decimals, unit);
    put_text(p, isfinite(value) ? source : "n/a");
    fputs("</tr>\n", p->out);
}

static void put_costs(const page *p)
{
    const stoke_costs *c = &p->d->costs;
    const stoke_side *side = &c->side[p->d->setup.placement];
    double step = 0;
    for (size_t i = 0; i < c->n_steps; i++) step += c->step_ms[i] / (double)c->n_steps;
    fputs("<section><h2>Measured costs behind it</h2>\n<table><thead><tr><th>what</th><th class=\"n\">"
          "figure</th><th>source</th></tr></thead><tbody>\n",
          p->out);
    put_cost(p, "a step of the device", step, 2, " ms", p->source);
    put_cost(p, "copy of a batch, ordinary memory", side->pageable_ms, 2, " ms", p->source);
    put_cost(p, "copy of a batch, pinned memory", side->pinned_ms, 2, " ms", p->source);
    put_cost(p, "cores that workers could have", c->cores, 2, "", "measured during the run");
    put_cost(p, "the loop's own work, a step", c->host_ms, 3, " ms", "measured");
    put_cost(p, "launch, a step", c->launch_ms, 3, " ms", p->source);
    put_cost(p, "workers started again", c->restart_ms, 1, " ms", "measured");
    put_cost(p, "steps of an epoch", (double)c->steps_per_epoch, 0, "", "counted");
    fputs("</tbody></table></section>\n", p->out);
}

/* ---- the page ---- */

static int put_timeline(const page *p, const char *path, stoke_error *err)
{
    stk_mem_buffer buffer = { 0 };
    size_t size;
    if (!path) return STOKE_OK;
    const int r = stk_file_read(path, TIMELINE_LIMIT, &buffer, &size, err);
    if (!r) {
        fputs("<section><h2>The last steps</h2>\n<img alt=\"timeline\" src=\"data:image/svg+xml;base64,",
              p->out);
        stk_html_base64(p->out, buffer.data, size);
        fputs("\"></section>\n", p->out);
    }
    stk_buffer_free(&buffer);
    return r;
}

static int put_page(const page *p, const char *title, const char *timeline, stoke_error *err)
{
    char verdict[512], setup[256];
    stoke_diagnosis_verdict(p->d, verdict, sizeof verdict);
    stoke_setup_text(&p->d->setup, setup, sizeof setup);
    fputs("<!doctype html>\n<!-- " STOKE_OUTPUT_MARK " -->\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
          "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>",
          p->out);
    stk_html_text(p->out, title);
    fprintf(p->out, "</title>\n<style>\n%s</style></head>\n<body><main>\n<h1>", style);
    stk_html_text(p->out, title);
    fputs("</h1>\n<p class=\"verdict\">", p->out);
    stk_html_text(p->out, verdict);
    fputs("</p>\n<p class=\"note\">", p->out);
    stk_html_text(p->out, p->d->device);
    fputs(": ", p->out);
    stk_html_text(p->out, setup);
    fprintf(p->out, ". Times of the device are %s.</p>\n<section>", p->source);
    stk_diagnosis_bars(p->d, p->out, "Where the time of a step goes", 0);
    fputs("</section>\n", p->out);
    put_causes(p);
    put_fixes(p);
    const int r = put_timeline(p, timeline, err);
    put_costs(p);
    fputs("</main></body></html>\n", p->out);
    return r;
}

int stoke_diagnosis_write_html(const stoke_diagnosis *diagnosis, const char *path, const char *title,
                               const char *timeline, stoke_error *err)
{
    stk_atomic_file file;
    int r = stk_atomic_open(&file, path, err);
    if (r) return r;
    const page p = { file.stream, diagnosis, diagnosis->emulated ? "emulated" : "measured" };
    r = put_page(&p, title && *title ? title : "Diagnosis", timeline, err);
    if (r) {
        stk_atomic_abandon(&file);
        return r;
    }
    return stk_atomic_commit(&file, err);
}
