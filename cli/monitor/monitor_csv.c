/* SPDX-License-Identifier: Apache-2.0
 *
 * The monitor's table: a row per reading.
 */
#include "cli/lib/common.h"
#include "cli/monitor/monitor.h"

void monitor_csv_header(FILE *out, const monitor_sight *sight)
{
    fputs("seconds,cpu_percent,memory_used_bytes,disk_busy_percent,disk_read_bytes_s,disk_write_bytes_s,"
          "machine_source",
          out);
    for (size_t i = 0; i < stoke_monitor_gpus(sight->monitor); i++)
        fprintf(out,
                ",gpu%zu_busy_percent,gpu%zu_memory_used_bytes,gpu%zu_power_watt,gpu%zu_temperature_c,gpu%zu_"
                "clock_mhz,gpu%zu_clock_reasons,gpu%zu_pcie_to_device_bytes_s,gpu%zu_pcie_from_device_bytes_"
                "s,gpu%zu_source",
                i, i, i, i, i, i, i, i, i);
    if (sight->job) monitor_job_csv_header(out, sight->job);
    fputc('\n', out);
}

void monitor_csv_figures(FILE *out, const stoke_figure *figures, size_t n)
{
    int source = STOKE_SOURCE_NA;
    for (size_t i = 0; i < n; i++) {
        if (figures[i].source) {
            source = figures[i].source;
            fprintf(out, ",%.10g", figures[i].value);
        } else {
            fputs(",n/a", out);
        }
    }
    fprintf(out, ",%s", stoke_source_name(source));
}

void monitor_csv_row(FILE *out, const monitor_sight *sight, double seconds)
{
    const stoke_monitor *monitor = sight->monitor;
    const stoke_load *load = stoke_monitor_load(monitor);
    const stoke_figure machine[] = { load->cpu_percent, load->memory_used, load->disk_busy_percent,
                                     load->disk_read, load->disk_write };
    fprintf(out, "%.3f", seconds);
    monitor_csv_figures(out, machine, CLI_COUNT(machine));
    for (size_t i = 0; i < stoke_monitor_gpus(monitor); i++) {
        const stoke_gpu *gpu = stoke_monitor_gpu(monitor, i);
        const stoke_figure card[] = { gpu->busy_percent,   gpu->memory_used,     gpu->power_watt,
                                      gpu->temperature,    gpu->clock_sm_mhz,    gpu->clocks_reasons,
                                      gpu->pcie_to_device, gpu->pcie_from_device };
        monitor_csv_figures(out, card, CLI_COUNT(card));
    }
    if (sight->job) monitor_job_csv_row(out, sight->job);
    fputc('\n', out);
}
