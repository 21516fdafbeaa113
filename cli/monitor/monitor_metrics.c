/* SPDX-License-Identifier: Apache-2.0
 *
 * The monitor's figures as Prometheus reads them: base units (seconds, bytes, ratios), a name for each, all
 * samples of a name together below its HELP and TYPE. Tables say what there is; what is n/a has no sample,
 * and a name without a sample is not mentioned.
 */
#include <math.h>
#include <string.h>

#include "cli/lib/common.h"
#include "cli/monitor/monitor.h"

typedef struct metric {
    const char *name, *type, *help;
    size_t offset;
    double scale;
} metric;

/* HELP and TYPE, once, before the first sample. */
static void begin(FILE *out, const metric *m, int *begun)
{
    if (!(*begun)++)
        fprintf(out, "# HELP stoke_%s %s\n# TYPE stoke_%s %s\n", m->name, m->help, m->name, m->type);
}

/* A value of a label: backslash and quote are escaped. Names of programs and cards may hold anything; one
 * that is not UTF-8 would make the reader drop the whole answer, so it is made text first. */
static void put_label(FILE *out, const char *name, const char *value)
{
    char text[512];
    stoke_text_format(text, sizeof text, "%s", value);
    fprintf(out, "%s=\"", name);
    for (const char *at = text; *at; at++) {
        if (*at == '\\' || *at == '"') fputc('\\', out);
        fputc(*at, out);
    }
    fputc('"', out);
}

static void put_value(FILE *out, double value)
{
    if (isinf(value))
        fprintf(out, " %sInf\n", value > 0 ? "+" : "-");
    else
        fprintf(out, " %.17g\n", value);
}

/* ---- machine and cards ---- */

#define MACHINE(field) offsetof(stoke_load, field)
static const metric machine_metrics[] = {
    { "cpu_busy_ratio", "gauge", "Share of the time that the processors were busy.", MACHINE(cpu_percent),
      0.01 },
    { "memory_total_bytes", "gauge", "Memory of the machine.", MACHINE(memory_total), 1 },
    { "memory_used_bytes", "gauge", "Memory that cannot be had any more.", MACHINE(memory_used), 1 },
    { "disk_busy_ratio", "gauge", "Share of the time with requests under way, of the busiest disk.",
      MACHINE(disk_busy_percent), 0.01 },
    { "disk_read_bytes_per_second", "gauge", "Read from all disks.", MACHINE(disk_read), 1 },
    { "disk_written_bytes_per_second", "gauge", "Written to all disks.", MACHINE(disk_write), 1 },
};

#define CARD(field) offsetof(stoke_gpu, field)
static const metric card_metrics[] = {
    { "gpu_busy_ratio", "gauge", "Share of the time with any kernel running.", CARD(busy_percent), 0.01 },
    { "gpu_memory_busy_ratio", "gauge", "Share of the time that its memory was read or written.",
      CARD(memory_busy_percent), 0.01 },
    { "gpu_memory_total_bytes", "gauge", "Memory of the card.", CARD(memory_total), 1 },
    { "gpu_memory_used_bytes", "gauge", "Memory in use.", CARD(memory_used), 1 },
    { "gpu_power_watts", "gauge", "Power drawn.", CARD(power_watt), 1 },
    { "gpu_power_limit_watts", "gauge", "Power allowed.", CARD(power_limit_watt), 1 },
    { "gpu_energy_joules_total", "counter", "Energy used, by the card's own counter.", CARD(energy_joule),
      1 },
    { "gpu_temperature_celsius", "gauge", "Temperature.", CARD(temperature), 1 },
    { "gpu_clock_hertz", "gauge", "Clock of the multiprocessors.", CARD(clock_sm_mhz), 1e6 },
    { "gpu_memory_clock_hertz", "gauge", "Clock of the memory.", CARD(clock_memory_mhz), 1e6 },
    { "gpu_pcie_to_device_bytes_per_second", "gauge", "What the card receives over its link.",
      CARD(pcie_to_device), 1 },
    { "gpu_pcie_from_device_bytes_per_second", "gauge", "What the card sends over its link.",
      CARD(pcie_from_device), 1 },
};

static stoke_figure figure_at(const void *object, const metric *m)
{
    stoke_figure figure;
    memcpy(&figure, (const char *)object + m->offset, sizeof figure);
    figure.value *= m->scale;
    return figure;
}

static void put_plain(FILE *out, const metric *m, double value)
{
    int begun = 0;
    begin(out, m, &begun);
    fprintf(out, "stoke_%s", m->name);
    put_value(out, value);
}

static void put_card_labels(FILE *out, const metric *m, size_t index, const stoke_gpu *gpu)
{
    fprintf(out, "stoke_%s{gpu=\"%zu\",", m->name, index);
    put_label(out, "uuid", gpu->uuid);
}

static void put_cards(FILE *out, const stoke_monitor *monitor)
{
    static const metric lost = { "gpu_lost", "gauge", "1: the card fell off the bus.", 0, 1 },
                        info = { "gpu_info", "gauge", "Always 1; the labels tell.", 0, 1 };
    const size_t cards = stoke_monitor_gpus(monitor);
    int lost_begun = 0, info_begun = 0;
    for (size_t i = 0; i < CLI_COUNT(card_metrics); i++) {
        int begun = 0;
        for (size_t card = 0; card < cards; card++) {
            const stoke_gpu *gpu = stoke_monitor_gpu(monitor, card);
            const stoke_figure figure = figure_at(gpu, &card_metrics[i]);
            if (!figure.source) continue;
            begin(out, &card_metrics[i], &begun);
            put_card_labels(out, &card_metrics[i], card, gpu);
            fputc('}', out);
            put_value(out, figure.value);
        }
    }
    for (size_t card = 0; card < cards; card++) {
        begin(out, &lost, &lost_begun);
        put_card_labels(out, &lost, card, stoke_monitor_gpu(monitor, card));
        fprintf(out, "} %d\n", stoke_monitor_gpu(monitor, card)->lost);
    }
    for (size_t card = 0; card < cards; card++) {
        const stoke_gpu *gpu = stoke_monitor_gpu(monitor, card);
        begin(out, &info, &info_begun);
        put_card_labels(out, &info, card, gpu);
        fputc(',', out);
        put_label(out, "name", gpu->name);
        fputc(',', out);
        put_label(out, "driver", gpu->driver);
        fputs("} 1\n", out);
    }
}

/* ---- the job ---- */

#define JOB(field) offsetof(stoke_live_data, field)
static const metric job_counts[] = {
    { "job_step", "gauge", "Steps done, over all sessions.", JOB(step), 1 },
    { "job_steps", "gauge", "Steps there are to do.", JOB(steps), 1 },
    { "job_epoch", "gauge", "Epochs done.", JOB(epoch), 1 },
    { "job_samples_total", "counter", "Samples handed to the loop.", JOB(samples), 1 },
    { "job_batches_total", "counter", "Batches handed to the loop.", JOB(batches), 1 },
    { "job_ready_batches", "gauge", "Batches the loop could have at once.", JOB(ready), 1 },
    { "job_slots", "gauge", "Slots for batches.", JOB(slots), 1 },
    { "job_workers", "gauge", "Threads that make batches.", JOB(workers), 1 },
    { "job_data_wait_seconds_total", "counter", "Time the loop waited for batches.", JOB(data_wait_ns),
      1e-9 },
    { "job_step_seconds_total", "counter", "Time of the steps without that.", JOB(step_ns), 1e-9 },
    { "job_read_bytes_total", "counter", "Bytes read from files.", JOB(bytes_read), 1 },
    { "job_replaced_total", "counter", "Rows whose own sample was bad.", JOB(replaced), 1 },
    { "job_skipped_total", "counter", "Rows left out because their sample was bad.", JOB(skipped), 1 },
    { "job_bad_samples", "gauge", "Bad samples met, each once.", JOB(bad_samples), 1 },
    { "job_cache_hits_total", "counter", "Samples that came from a cache.", JOB(cache_hits), 1 },
    { "job_cache_misses_total", "counter", "Samples that a cache did not have.", JOB(cache_misses), 1 },
    { "job_loader_bytes", "gauge", "Memory of the loader.", JOB(memory_bytes), 1 },
    { "job_resident_peak_bytes", "gauge", "Largest resident set of the process.", JOB(peak_rss), 1 },
};
static const metric job_figures[] = {
    { "job_loss", "gauge", "Loss of the last step.", JOB(loss), 1 },
    { "job_learning_rate", "gauge", "Learning rate of the last step.", JOB(lr), 1 },
    { "job_device_busy_ratio", "gauge", "Share of the time that its device computed.", JOB(device_busy), 1 },
};
static const metric job_stages[] = {
    { "job_stage_cpu_seconds_total", "counter", "CPU time of the stages of samples.", JOB(stage_cpu_ns),
      1e-9 },
    { "job_stage_wall_seconds_total", "counter", "Time of the stages of samples, and of waits.",
      JOB(stage_wall_ns), 1e-9 },
};

static uint64_t count_at(const void *object, size_t offset)
{
    uint64_t count;
    memcpy(&count, (const char *)object + offset, sizeof count);
    return count;
}

static void put_stages(FILE *out, const stoke_live_data *now)
{
    for (size_t i = 0; i < CLI_COUNT(job_stages); i++) {
        int begun = 0;
        for (int stage = 0; stage < STOKE_STAGES; stage++) {
            const uint64_t ns = count_at(now, job_stages[i].offset + (size_t)stage * sizeof ns);
            if (ns == STOKE_LIVE_NA) continue;
            begin(out, &job_stages[i], &begun);
            fprintf(out, "stoke_%s{", job_stages[i].name);
            put_label(out, "stage", stoke_stage_name((stoke_stage)stage));
            fputc('}', out);
            put_value(out, (double)ns * job_stages[i].scale);
        }
    }
}

#define RANK(field) offsetof(stoke_live_rank, field)
static const metric rank_counts[] = {
    { "job_rank_images_total", "counter", "Pictures that the rank has trained on.", RANK(images), 1 },
    { "job_rank_compute_seconds_total", "counter", "Time it computed.", RANK(compute_ns), 1e-9 },
    { "job_rank_data_wait_seconds_total", "counter", "Time it waited for batches.", RANK(data_ns), 1e-9 },
    { "job_rank_others_wait_seconds_total", "counter", "Time it waited for the other ranks.", RANK(others_ns),
      1e-9 },
    { "job_rank_exchange_seconds_total", "counter", "Time of sums and new weights.", RANK(exchange_ns),
      1e-9 },
    { "job_rank_rest_seconds_total", "counter", "Time of its steps otherwise.", RANK(rest_ns), 1e-9 },
    { "job_rank_cpu_seconds_total", "counter", "CPU time of its threads.", RANK(ran_ns), 1e-9 },
    { "job_rank_cpu_wait_seconds_total", "counter", "Time its threads stood in line for a core.",
      RANK(stood_ns), 1e-9 },
    { "job_rank_last_total", "counter", "Steps in which it came last.", RANK(last), 1 },
    { "job_rank_resident_bytes", "gauge", "Resident set of the rank.", RANK(resident), 1 },
    { "job_rank_workers", "gauge", "Threads of its loader.", RANK(workers), 1 },
    { "job_rank_cores", "gauge", "Cores that it may use.", RANK(cores), 1 },
};

static void put_ranks(FILE *out, const monitor_ranks *ranks)
{
    for (size_t i = 0; i < CLI_COUNT(rank_counts); i++) {
        int begun = 0;
        for (size_t q = 0; q < monitor_ranks_count(ranks); q++) {
            const uint64_t count = count_at(&ranks->now.rank[q], rank_counts[i].offset);
            if (count == STOKE_LIVE_NA) continue;
            begin(out, &rank_counts[i], &begun);
            fprintf(out, "stoke_%s{rank=\"%zu\",", rank_counts[i].name, q);
            put_label(out, "host", ranks->now.rank[q].host);
            fputc('}', out);
            put_value(out, (double)count * rank_counts[i].scale);
        }
    }
}

static void put_job(FILE *out, const monitor_job *job)
{
    static const metric up = { "job_up", "gauge", "1: the job runs; 0: it has ended.", 0, 1 },
                        info = { "job_info", "gauge", "Always 1; the labels tell.", 0, 1 },
                        phase = { "job_phase", "gauge", "1: what the job is at, as it said last.", 0, 1 };
    int begun = 0;
    begin(out, &info, &begun);
    fputs("stoke_job_info{", out);
    put_label(out, "what", job->now.what);
    fputs("} 1\n", out);
    begun = 0;
    for (int i = STOKE_LIVE_STARTING; i <= STOKE_LIVE_ENDED; i++) {
        begin(out, &phase, &begun);
        fputs("stoke_job_phase{", out);
        put_label(out, "phase", stoke_live_phase_name(i));
        fprintf(out, "} %d\n", job->now.phase == (uint64_t)i);
    }
    if (job->alive >= 0) put_plain(out, &up, job->alive && job->now.phase != STOKE_LIVE_ENDED);
    for (size_t i = 0; i < CLI_COUNT(job_counts); i++) {
        const uint64_t count = count_at(&job->now, job_counts[i].offset);
        if (count != STOKE_LIVE_NA) put_plain(out, &job_counts[i], (double)count * job_counts[i].scale);
    }
    for (size_t i = 0; i < CLI_COUNT(job_figures); i++) {
        double value;
        memcpy(&value, (const char *)&job->now + job_figures[i].offset, sizeof value);
        if (!isnan(value)) put_plain(out, &job_figures[i], value);
    }
    put_stages(out, &job->now);
    put_ranks(out, &job->ranks);
}

void monitor_metrics_write(FILE *out, const monitor_sight *sight)
{
    for (size_t i = 0; i < CLI_COUNT(machine_metrics); i++) {
        const stoke_figure figure = figure_at(stoke_monitor_load(sight->monitor), &machine_metrics[i]);
        if (figure.source) put_plain(out, &machine_metrics[i], figure.value);
    }
    put_cards(out, sight->monitor);
    if (sight->job) put_job(out, sight->job);
}
