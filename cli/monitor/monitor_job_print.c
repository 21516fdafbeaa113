/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints the watched job: a line, a section of the page, columns of the table.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "cli/lib/common.h"
#include "cli/lib/facts.h"
#include "cli/monitor/monitor.h"

void monitor_job_print_line(const monitor_job *job)
{
    stoke_live_rates rates;
    char rest[64] = "";
    monitor_job_lately(job, &rates);
    if (!isnan(job->now.loss)) snprintf(rest, sizeof rest, ", loss %.4g", job->now.loss);
    if (!isnan(job->now.device_busy))
        snprintf(rest, sizeof rest, ", device busy %.0f %%", 100 * job->now.device_busy);
    cli_print("          job %s, %s samples/s, data wait %s, queue %s of %s%s (measured)\n",
              MONITOR_PROGRESS(job), CLI_FIGURE(monitor_job_figure(rates.samples_s), WHOLE),
              CLI_FIGURE(monitor_job_figure(100 * rates.data_wait), PERCENT),
              CLI_FIGURE(monitor_job_count(job->now.ready), WHOLE),
              CLI_FIGURE(monitor_job_count(job->now.slots), WHOLE), rest);
    if (*job->problem) cli_print("          its page cannot be read just now: %s\n", job->problem);
    monitor_ranks_print_line(&job->ranks);
}

/* ---- the page, for programs ---- */

static void json_counts(cli_page *page, const stoke_live_data *now)
{
    const struct {
        const char *key;
        uint64_t count;
    } counts[] = {
        { "step", now->step },
        { "steps", now->steps },
        { "epoch", now->epoch },
        { "epochs", now->epochs },
        { "samples", now->samples },
        { "batches", now->batches },
        { "ready", now->ready },
        { "slots", now->slots },
        { "workers", now->workers },
        { "replaced", now->replaced },
        { "skipped", now->skipped },
        { "bad_samples", now->bad_samples },
        { "loader_bytes", now->memory_bytes },
        { "peak_rss_bytes", now->peak_rss },
    };
    for (size_t i = 0; i < CLI_COUNT(counts); i++)
        cli_page_figure(page, counts[i].key, NULL, monitor_job_count(counts[i].count), CLI_UNIT_NONE);
    cli_page_figure(page, "loss", NULL, monitor_job_figure(now->loss), CLI_UNIT_NONE);
    cli_page_figure(page, "lr", NULL, monitor_job_figure(now->lr), CLI_UNIT_NONE);
}

static void json_stages(cli_page *page, const stoke_live_rates *rates)
{
    JSON_LIST(&page->json, "stages", i, i < STOKE_STAGES) {
        stoke_json_object(&page->json, NULL);
        stoke_json_string(&page->json, "name", stoke_stage_name((stoke_stage)i));
        cli_page_figure(page, "cpu_ms", NULL, monitor_job_figure(rates->stage_cpu_ms[i]), CLI_UNIT_NONE);
        cli_page_figure(page, "wall_ms", NULL, monitor_job_figure(rates->stage_wall_ms[i]), CLI_UNIT_NONE);
        stoke_json_close(&page->json);
    }
}

static void json_head(cli_page *page, const monitor_job *job)
{
    cli_page_text(page, "what", NULL, job->now.what);
    cli_page_text(page, "state", NULL, monitor_job_state(job));
    FACTS(&page->json, FACT_OF(&job->now, pid), FACT_TEXT("run", job->run),
          job->alive < 0 ? FACT("alive", (const char *)NULL) : FACT_IS_OF(job, alive));
    cli_page_text(page, "problem", NULL, job->problem);
    json_counts(page, &job->now);
}

/* ---- and for people ---- */

static void say_counts(cli_page *page, const stoke_live_data *now)
{
    char text[160];
    snprintf(text, sizeof text, "%s in %s batches (measured)",
             CLI_FIGURE(monitor_job_count(now->samples), WHOLE),
             CLI_FIGURE(monitor_job_count(now->batches), WHOLE));
    cli_page_text(page, NULL, "samples", text);
    snprintf(text, sizeof text, "%s of %s batches ready (measured)",
             CLI_FIGURE(monitor_job_count(now->ready), WHOLE),
             CLI_FIGURE(monitor_job_count(now->slots), WHOLE));
    cli_page_text(page, NULL, "queue", text);
    cli_page_figure(page, NULL, "workers", monitor_job_count(now->workers), CLI_UNIT_NONE);
    snprintf(text, sizeof text, "%s loader, %s whole process at its peak (measured)",
             CLI_FIGURE(monitor_job_count(now->memory_bytes), MEMORY),
             CLI_FIGURE(monitor_job_count(now->peak_rss), MEMORY));
    cli_page_text(page, NULL, "memory", text);
    if (monitor_job_count(now->bad_samples).value > 0)
        cli_page_figure(page, NULL, "bad samples", monitor_job_count(now->bad_samples), CLI_UNIT_NONE);
    if (isnan(now->loss)) return;
    snprintf(text, sizeof text, "%.4g at a rate of %.3g (measured)", now->loss, now->lr);
    cli_page_text(page, NULL, "loss, last step", text);
}

/* Of the stages that work: waits are not of a sample. */
static void say_stages(cli_page *page, const stoke_live_rates *rates)
{
    puts("  a sample takes");
    for (int i = STOKE_STAGE_READ; i <= STOKE_STAGE_WRITE; i++) {
        const double cpu = rates->stage_cpu_ms[i], wall = rates->stage_wall_ms[i];
        char label[64], text[96];
        snprintf(label, sizeof label, "  to %s", stoke_stage_name((stoke_stage)i));
        snprintf(text, sizeof text, "%.2f ms CPU, %.2f ms wall (measured)", cpu, wall);
        cli_page_text(page, NULL, label, isnan(cpu) || isnan(wall) ? NULL : text);
    }
}

static void say_head(cli_page *page, const monitor_job *job)
{
    const stoke_live_data *now = &job->now;
    cli_print("  %-22s %s, process %" PRIu64 "\n", "what", *now->what ? now->what : "n/a", now->pid);
    cli_print("  %-22s %s", "state", MONITOR_PROGRESS(job));
    if (now->epoch < now->epochs && now->epochs != STOKE_LIVE_NA)
        cli_print(", epoch %" PRIu64 " of %" PRIu64, now->epoch + 1, now->epochs);
    putchar('\n');
    if (job->alive < 0)
        puts("                         (of another container or machine: whether it still runs cannot be "
             "told)");
    if (*job->problem) cli_page_text(page, NULL, "problem", job->problem);
    say_counts(page, now);
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
    };
    for (size_t i = 0; i < CLI_COUNT(figures); i++)
        cli_page_figure(page, figures[i].key, figures[i].label, monitor_job_figure(figures[i].value),
                        figures[i].unit);
}

void monitor_job_print(cli_page *page, const monitor_job *job, int watched)
{
    stoke_live_rates rates;
    const char *period = "since it began";
    if (watched)
        period = monitor_job_watched(job, &rates);
    else
        stoke_live_between(NULL, &job->now, &rates);
    cli_page_section(page, "job", "Job");
    (page->as_json ? json_head : say_head)(page, job);
    cli_page_text(page, "period", NULL, period);
    cli_page_say(page, " %s\n", period);
    print_rates(page, &job->now, &rates);
    (page->as_json ? json_stages : say_stages)(page, &rates);
    monitor_ranks_print(page, &job->ranks, watched);
    cli_page_close(page);
}

/* ---- the table ---- */

void monitor_job_csv_header(FILE *out, const monitor_job *job)
{
    fputs(",job_state,job_step,job_samples,job_ready,job_slots,job_samples_s,job_data_wait,job_read_bytes_s,"
          "job_loss,job_source",
          out);
    monitor_ranks_csv_header(out, &job->ranks);
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
    monitor_ranks_csv_row(out, &job->ranks);
}
