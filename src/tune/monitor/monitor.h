/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside the monitor: the kernel's counters, and sums that become a summary. Apart from clocks and files, so
 * that tests can give readings they made up.
 */
#ifndef STOKE_SRC_TUNE_MONITOR_MONITOR_H
#define STOKE_SRC_TUNE_MONITOR_MONITOR_H

#include <stoke/tools/monitor.h>

/* ---- the kernel's counters ---- */

enum { STK_DISKS = 32 };

typedef struct stk_monitor_disk_count {
    char name[32];
    uint64_t read, written; /* sectors of 512 bytes, whatever the disk's own are */
    uint64_t busy_ms;
} stk_monitor_disk_count;

typedef struct stk_monitor_load_count {
    int has_cpu, has_disks;
    uint64_t cpu_busy, cpu_all; /* ticks */
    stk_monitor_disk_count disk[STK_DISKS];
    size_t n_disks;
} stk_monitor_load_count;

void stk_load_count_read(stk_monitor_load_count *count, const char *root);
/* What happened between two looks, `seconds` apart, and the memory as it is now. */
void stk_load_between(stoke_load *load, const stk_monitor_load_count *before,
                      const stk_monitor_load_count *after, double seconds, const char *root);

/* ---- sums ---- */

/* Counts per tenth of a percent: exact where the driver tells whole percents, and 8 kB for any length. */
enum { STK_TENTHS = 1001 };

typedef struct stk_monitor_sum {
    double sum, peak;
    uint64_t readings;
    int source;
} stk_monitor_sum;

typedef struct stk_monitor_percent_sum {
    stk_monitor_sum all;
    uint64_t tenth[STK_TENTHS];
} stk_monitor_percent_sum;

/* Figures of a card that are summed up alike, beside how busy it was. */
enum { STK_GPU_MEMORY, STK_GPU_POWER, STK_GPU_SUMS = 8 };

typedef struct stk_monitor_gpu_sums {
    stoke_gpu_summary seen; /* but for what is added up below: names, programs, what the last reading said */
    stk_monitor_percent_sum busy;
    stk_monitor_sum sum[STK_GPU_SUMS];
    stoke_figure energy_first, energy_last;
    double power_joule; /* power x time */
    uint64_t reason[STOKE_CLOCKS_REASONS], reason_readings;
    int reason_source;
    uint64_t idle, bursts;
    double idle_seconds, longest_idle; /* of the burst under way; of the longest */
    int in_burst;
} stk_monitor_gpu_sums;

typedef struct stk_monitor_load_sums {
    stk_monitor_percent_sum cpu, disk_busy;
    stk_monitor_sum memory, disk_read, disk_write;
    stoke_figure memory_total;
} stk_monitor_load_sums;

/* `seconds` since the reading before. Sums begin zeroed. */
void stk_gpu_sums_add(stk_monitor_gpu_sums *sums, const stoke_gpu *gpu, double seconds);
void stk_load_sums_add(stk_monitor_load_sums *sums, const stoke_load *load);
void stk_gpu_sums_finish(const stk_monitor_gpu_sums *sums, stoke_gpu_summary *summary);
void stk_load_sums_finish(const stk_monitor_load_sums *sums, stoke_monitor_summary *summary);

#endif
