/* SPDX-License-Identifier: Apache-2.0
 *
 * The live view: what stands in a frame, and taking the screen. The alternate screen leaves what was on the
 * terminal before as it was.
 */
#include "cli/monitor/monitor.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/lib/common.h"

#define ENTER "\033[?1049h\033[?25l\033[H\033[2J"
#define LEAVE "\033[?25h\033[?1049l"

static volatile sig_atomic_t resized;

static void on_resize(int number)
{
    (void)number;
    resized = 1;
}

/* Ctrl-Z: the shell gets its screen back, and we take ours again when we go on. */
static void on_stop(int number)
{
    (void)number;
    if (write(STDOUT_FILENO, LEAVE, sizeof LEAVE - 1) < 0) return;
    raise(SIGSTOP);
    resized = 1;
    if (write(STDOUT_FILENO, ENTER, sizeof ENTER - 1) < 0) return;
}

int monitor_view_possible(void)
{
    const char *term = getenv("TERM");
    return isatty(STDOUT_FILENO) && term && *term && strcmp(term, "dumb") != 0;
}

static int knows_utf8(void)
{
    static const char *const names[] = { "LC_ALL", "LC_CTYPE", "LANG" };
    for (size_t i = 0; i < CLI_COUNT(names); i++) {
        const char *value = getenv(names[i]);
        if (value && *value) return strcasestr(value, "utf-8") || strcasestr(value, "utf8");
    }
    return 0;
}

void monitor_view_begin(monitor_view *view, const monitor_sight *sight, double limit, int colour)
{
    const char *none = getenv("NO_COLOR");
    view->sight = sight;
    view->limit = limit;
    view->frame.blocks = knows_utf8();
    view->frame.colour = colour && !(none && *none);
    struct sigaction action = { .sa_handler = on_resize };
    sigemptyset(&action.sa_mask);
    sigaction(SIGWINCH, &action, NULL); /* without SA_RESTART: it ends the wait for the next reading */
    action.sa_handler = on_stop;
    sigaction(SIGTSTP, &action, NULL);
    cli_terminal_note(LEAVE);
    fputs(ENTER, stdout);
    fflush(stdout);
}

void monitor_view_end(void)
{
    signal(SIGTSTP, SIG_DFL);
    fputs(LEAVE, stdout);
    fflush(stdout);
    cli_terminal_note(NULL);
}

int monitor_view_resized(void)
{
    return resized;
}

/* ---- a frame ---- */

typedef struct series_place {
    const stoke_monitor *monitor;
    stoke_monitor_series series;
    size_t gpu;
} series_place;

static stoke_figure mean_of_second(const void *opaque, size_t back)
{
    const series_place *place = opaque;
    return stoke_monitor_history(place->monitor, place->series, place->gpu, back * MONITOR_RATE,
                                 MONITOR_RATE);
}

static void put_series(monitor_view *view, const char *label, stoke_monitor_series series, size_t gpu,
                       const char *text)
{
    const series_place place = { view->sight->monitor, series, gpu };
    monitor_frame_series(
        &view->frame,
        &(monitor_series){ .label = label,
                           .meaning = series == STOKE_SERIES_GPU ? MONITOR_FULL_IS_GOOD : MONITOR_FULL_IS_BAD,
                           .percent = mean_of_second(&place, 0),
                           .text = text,
                           .at = mean_of_second,
                           .context = &place });
}

static const char *part_of(stoke_figure part, stoke_figure whole, char *text, size_t size)
{
    snprintf(text, size, "%s of %s", CLI_FIGURE(part, MEMORY), CLI_FIGURE(whole, MEMORY));
    return text;
}
#define PART(part, whole) part_of((part), (whole), (char[96]){ 0 }, 96)

static void put_machine(monitor_view *view)
{
    monitor_frame *f = &view->frame;
    const stoke_load *load = stoke_monitor_load(view->sight->monitor);
    put_series(view, "processor", STOKE_SERIES_CPU, 0, NULL);
    put_series(view, "memory", STOKE_SERIES_MEMORY, 0, PART(load->memory_used, load->memory_total));
    put_series(view, "disk", STOKE_SERIES_DISK, 0, NULL);
    monitor_frame_line(f, "%-*s%s: read %s/s, write %s/s (%s)", MONITOR_LABEL_COLUMNS, "",
                       *load->disk ? load->disk : "disk n/a", CLI_FIGURE(load->disk_read, BYTES),
                       CLI_FIGURE(load->disk_write, BYTES), stoke_source_name(load->disk_read.source));
}

static void put_processes(monitor_frame *f, const stoke_gpu *gpu)
{
    for (uint32_t i = 0; i < gpu->n_processes; i++) {
        const stoke_gpu_process *process = &gpu->process[i];
        monitor_frame_line(f, "%-*s%8u %-28s %10s %6s %s", MONITOR_LABEL_COLUMNS, i ? "" : "programs",
                           process->pid, *process->name ? process->name : "(in another container)",
                           CLI_FIGURE(process->memory_bytes, MEMORY),
                           CLI_FIGURE(process->busy_percent, PERCENT), process->own ? "(this one)" : "");
    }
    if (!gpu->n_processes) monitor_frame_line(f, "%-*snone seen", MONITOR_LABEL_COLUMNS, "programs");
    if (gpu->more_processes)
        monitor_frame_line(f, "%-*sand %u more", MONITOR_LABEL_COLUMNS, "", gpu->more_processes);
}

static void put_card(monitor_view *view, size_t index)
{
    monitor_frame *f = &view->frame;
    const stoke_gpu *gpu = stoke_monitor_gpu(view->sight->monitor, index);
    monitor_frame_line(f, "%s", "");
    monitor_frame_line(f, "gpu%zu %s %s%s%s", index, gpu->name, gpu->pci, gpu->lost ? " LOST" : "",
                       gpu->mig ? " MIG" : "");
    if (*gpu->problem) monitor_frame_line(f, "%-*s%s", MONITOR_LABEL_COLUMNS, "problem", gpu->problem);
    if (gpu->lost) return;
    put_series(view, "busy", STOKE_SERIES_GPU, index, NULL);
    put_series(view, "memory", STOKE_SERIES_GPU_MEMORY, index, PART(gpu->memory_used, gpu->memory_total));
    monitor_frame_line(f, "%-*s%s of %s, %s, PCIe %s x%s, in %s/s, out %s/s (%s)", MONITOR_LABEL_COLUMNS,
                       "power", CLI_FIGURE(gpu->power_watt, WHOLE_WATT),
                       CLI_FIGURE(gpu->power_limit_watt, WHOLE_WATT), CLI_FIGURE(gpu->temperature, CELSIUS),
                       CLI_FIGURE(gpu->pcie_generation, WHOLE), CLI_FIGURE(gpu->pcie_width, WHOLE),
                       CLI_FIGURE(gpu->pcie_to_device, BYTES), CLI_FIGURE(gpu->pcie_from_device, BYTES),
                       stoke_source_name(gpu->power_watt.source));
    monitor_frame_line(f, "%-*s%s of %s, memory %s; held down by: %s", MONITOR_LABEL_COLUMNS, "clock",
                       CLI_FIGURE(gpu->clock_sm_mhz, MHZ), CLI_FIGURE(gpu->clock_sm_max_mhz, MHZ),
                       CLI_FIGURE(gpu->clock_memory_mhz, MHZ), CLI_REASONS(gpu->clocks_reasons));
    put_processes(f, gpu);
}

/* ---- the job ---- */

/* Four characters at most, so that five stages fit into 80 columns. */
static int short_ms(double ms)
{
    return ms < 9.95 ? 2 : ms < 99.5 ? 1 : 0;
}

static void put_stages(monitor_frame *f, const stoke_live_rates *rates)
{
    static const char *const names[] = { "read", "image", "mask", "fit", "write" };
    char text[160];
    size_t n = 0;
    double cpu = 0;
    for (int i = STOKE_STAGE_READ; i <= STOKE_STAGE_WRITE; i++) {
        if (isnan(rates->stage_wall_ms[i])) return;
        n += (size_t)snprintf(text + n, sizeof text - n, "%s %s %.*f", i ? "," : "", names[i],
                              short_ms(rates->stage_wall_ms[i]), rates->stage_wall_ms[i]);
        cpu += rates->stage_cpu_ms[i];
    }
    monitor_frame_line(f, "%-*sCPU %.*f; wall%s", MONITOR_LABEL_COLUMNS, "ms/sample", short_ms(cpu), cpu,
                       text);
}

static void put_queue(monitor_frame *f, const monitor_job *job)
{
    char text[64];
    const stoke_figure ready = monitor_job_count(job->now.ready), slots = monitor_job_count(job->now.slots);
    const stoke_figure share = ready.source && slots.value > 0
                                   ? monitor_job_figure(100 * ready.value / slots.value)
                                   : (stoke_figure){ 0 };
    snprintf(text, sizeof text, "%.0f of %.0f batches", ready.value, slots.value);
    monitor_frame_series(f, &(monitor_series){ .label = "queue",
                                               .meaning = MONITOR_FULL_IS_GOOD,
                                               .percent = share,
                                               .text = share.source ? text : NULL });
}

static void put_job(monitor_frame *f, const monitor_job *job)
{
    stoke_live_rates rates;
    char hits[48] = "", loss[64] = "";
    monitor_job_lately(job, &rates);
    monitor_frame_line(f, "%s", "");
    monitor_frame_line(f, "job %llu, %s: %s", (unsigned long long)job->now.pid, job->now.what,
                       MONITOR_PROGRESS(job));
    if (*job->problem) monitor_frame_text(f, job->problem);
    if (isnan(job->now.device_busy))
        monitor_frame_series(f, &(monitor_series){ .label = "data wait",
                                                   .meaning = MONITOR_ANY_IS_BAD,
                                                   .percent = monitor_job_figure(100 * rates.data_wait),
                                                   .at = monitor_job_wait,
                                                   .context = job });
    else
        monitor_frame_series(f,
                             &(monitor_series){ .label = "device",
                                                .meaning = MONITOR_FULL_IS_GOOD,
                                                .percent = monitor_job_figure(100 * job->now.device_busy) });
    put_queue(f, job);
    if (!isnan(rates.cache_hits))
        snprintf(hits, sizeof hits, ", %.0f %% from the cache", 100 * rates.cache_hits);
    if (!isnan(job->now.loss))
        snprintf(loss, sizeof loss, "; loss %.4g at rate %.3g", job->now.loss, job->now.lr);
    monitor_frame_line(f, "%-*s%s/s, read %s/s%s%s (measured)", MONITOR_LABEL_COLUMNS, "samples",
                       CLI_FIGURE(monitor_job_figure(rates.samples_s), WHOLE),
                       CLI_FIGURE(monitor_job_figure(rates.read_bytes_s), BYTES), hits, loss);
    put_stages(f, &rates);
    monitor_ranks_draw(f, &job->ranks);
}

void monitor_view_draw(monitor_view *view, double seconds)
{
    const stoke_monitor *monitor = view->sight->monitor;
    monitor_frame *f = &view->frame;
    char of[32] = "";
    resized = 0;
    monitor_frame_begin(f);
    if (view->limit > 0) snprintf(of, sizeof of, " of %.0f", view->limit);
    monitor_frame_line(f, "stoke monitor: %.0f%s s; Ctrl-C: summary; a mark of the history is 1 s", seconds,
                       of);
    if (view->sight->metrics) monitor_frame_line(f, "metrics   %s", view->sight->metrics);
    monitor_frame_line(f, "%s", "");
    put_machine(view);
    if (view->sight->job) put_job(f, view->sight->job);
    for (size_t i = 0; i < stoke_monitor_gpus(monitor); i++) put_card(view, i);
    if (*stoke_monitor_why(monitor)) {
        monitor_frame_line(f, "%s", "");
        monitor_frame_text(f, "What cannot be seen:");
        monitor_frame_text(f, stoke_monitor_why(monitor));
    }
    monitor_frame_show(f);
}
