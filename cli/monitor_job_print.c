/* SPDX-License-Identifier: Apache-2.0
 *
 * The watched job on paper: a line, a section of the page, columns of the table.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "cli/common.h"
#include "cli/monitor_job.h"
#include "cli/monitor_view.h"

void monitor_job_print_line(const monitor_job *job)
{
    stoke_live_rates rates;
    char step[64], rate[32], wait[32], ready[32], slots[32], loss[32] = "n/a";
    monitor_job_lately(job, &rates);
    monitor_job_step(job, step, sizeof step);
    if (!isnan(job->now.loss)) snprintf(loss, sizeof loss, "%.4g", job->now.loss);
    printf("          job %s%s%s, %s, data wait %s, queue %s of %s, loss %s (measured)\n",
           monitor_job_state(job), *step ? ", " : "", step,
           monitor_number(monitor_job_figure(rates.samples_s), " samples/s", rate, sizeof rate),
           monitor_number(monitor_job_figure(100 * rates.data_wait), " %", wait, sizeof wait),
           monitor_number(monitor_job_count(job->now.ready), "", ready, sizeof ready),
           monitor_number(monitor_job_count(job->now.slots), "", slots, sizeof slots), loss);
    if (*job->problem) printf("          its page cannot be read just now: %s\n", job->problem);
}

/* ---- the page ---- */

static void print_counts(cli_page *page, const stoke_live_data *now)
{
    const struct {
        const char *key, *label;
        uint64_t count;
        cli_unit unit;
    } counts[] = {
        { "step", "step", now->step, CLI_UNIT_NONE },
        { "steps", "  of", now->steps, CLI_UNIT_NONE },
        { "epoch", "epochs done", now->epoch, CLI_UNIT_NONE },
        { "epochs", "  of", now->epochs, CLI_UNIT_NONE },
        { "samples", "samples", now->samples, CLI_UNIT_NONE },
        { "batches", "batches", now->batches, CLI_UNIT_NONE },
        { "ready", "batches ready now", now->ready, CLI_UNIT_NONE },
        { "slots", "  of slots", now->slots, CLI_UNIT_NONE },
        { "workers", "workers", now->workers, CLI_UNIT_NONE },
        { "replaced", "bad rows, replaced", now->replaced, CLI_UNIT_NONE },
        { "skipped", "bad rows, left out", now->skipped, CLI_UNIT_NONE },
        { "loader_bytes", "memory of the loader", now->memory_bytes, CLI_UNIT_BYTES },
        { "peak_rss_bytes", "peak of the process", now->peak_rss, CLI_UNIT_BYTES },
    };
    for (size_t i = 0; i < CLI_COUNT(counts); i++)
        cli_page_figure(page, counts[i].key, counts[i].label, monitor_job_count(counts[i].count),
                        counts[i].unit);
}

static void print_rates(cli_page *page, const stoke_live_data *now, const stoke_live_rates *rates)
{
    const struct {
        const char *key, *label;
        double value;
        cli_unit unit;
    } figures[] = {
        { "samples_s", "samples", rates->samples_s, CLI_UNIT_PER_S },
        { "steps_s", "steps", rates->steps_s, CLI_UNIT_PER_S },
        { "data_wait", "waited for data", rates->data_wait, CLI_UNIT_SHARE },
        { "read_bytes_s", "read", rates->read_bytes_s, CLI_UNIT_BYTES_S },
        { "cache_hits", "came from the cache", rates->cache_hits, CLI_UNIT_SHARE },
        { "device_busy", "device busy", now->device_busy, CLI_UNIT_SHARE },
        { "loss", "loss, last step", now->loss, CLI_UNIT_PLAIN },
        { "lr", "learning rate", now->lr, CLI_UNIT_PLAIN },
    };
    for (size_t i = 0; i < CLI_COUNT(figures); i++)
        cli_page_figure(page, figures[i].key, figures[i].label, monitor_job_figure(figures[i].value),
                        figures[i].unit);
}

/* Of the stages that work: waits are not of a sample. */
static void print_stages(cli_page *page, const stoke_live_rates *rates)
{
    if (page->as_json) stoke_json_array(&page->json, "stages");
    for (int i = STOKE_STAGE_READ; i <= STOKE_STAGE_WRITE; i++) {
        const char *name = stoke_stage_name((stoke_stage)i);
        const double cpu = rates->stage_cpu_ms[i], wall = rates->stage_wall_ms[i];
        char label[64], text[96];
        if (page->as_json) {
            stoke_json_object(&page->json, NULL);
            stoke_json_string(&page->json, "name", name);
            cli_page_figure(page, "cpu_ms", NULL, monitor_job_figure(cpu), CLI_UNIT_NONE);
            cli_page_figure(page, "wall_ms", NULL, monitor_job_figure(wall), CLI_UNIT_NONE);
            stoke_json_close(&page->json);
            continue;
        }
        snprintf(label, sizeof label, "  %s", name);
        snprintf(text, sizeof text, "%.2f ms CPU, %.2f ms wall a sample (measured)", cpu, wall);
        cli_page_text(page, name, label, isnan(cpu) || isnan(wall) ? NULL : text);
    }
    if (page->as_json) stoke_json_close(&page->json);
}

void monitor_job_print(cli_page *page, const monitor_job *job, int watched)
{
    const stoke_live_data *now = &job->now;
    stoke_live_rates rates;
    const char *period = "since the job began";
    if (watched)
        period = monitor_job_watched(job, &rates);
    else
        stoke_live_between(NULL, now, &rates);
    cli_page_section(page, "job", "Job");
    cli_page_text(page, "what", "what", now->what);
    cli_page_text(page, "state", "state", monitor_job_state(job));
    if (page->as_json) {
        stoke_json_uint(&page->json, "pid", now->pid);
        stoke_json_string(&page->json, "run", *job->run ? job->run : NULL);
        if (job->alive < 0)
            stoke_json_null(&page->json, "alive");
        else
            stoke_json_bool(&page->json, "alive", job->alive);
    } else {
        printf("  %-22s %" PRIu64 "%s\n", "process", now->pid,
               job->alive < 0 ? " of another container or machine: whether it runs cannot be told" : "");
    }
    if (page->as_json || *job->problem) cli_page_text(page, "problem", "problem", job->problem);
    print_counts(page, now);
    cli_page_text(page, "period", "the figures below are", period);
    print_rates(page, now, &rates);
    print_stages(page, &rates);
    cli_page_close(page);
}

/* ---- the table ---- */

void monitor_job_csv_header(FILE *out)
{
    fputs(",job_state,job_step,job_samples,job_ready,job_slots,job_samples_s,job_data_wait,job_read_bytes_s,"
          "job_loss,job_source",
          out);
}

void monitor_job_csv_row(FILE *out, const monitor_job *job)
{
    stoke_live_rates rates;
    monitor_job_lately(job, &rates);
    const stoke_live_data *now = &job->now;
    const stoke_figure figures[] = {
        monitor_job_count(now->step),           monitor_job_count(now->samples),
        monitor_job_count(now->ready),          monitor_job_count(now->slots),
        monitor_job_figure(rates.samples_s),    monitor_job_figure(rates.data_wait),
        monitor_job_figure(rates.read_bytes_s), monitor_job_figure(now->loss)
    };
    fprintf(out, ",%s", monitor_job_state(job));
    monitor_csv_figures(out, figures, CLI_COUNT(figures));
}
