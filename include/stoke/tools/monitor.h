/* SPDX-License-Identifier: Apache-2.0
 *
 * Watches the machine and its graphics processors: the newest reading, the last minutes, and a summary of all
 * of it. Memory does not grow with time: percentiles come from counts per tenth of a percent.
 */
#ifndef STOKE_TOOLS_MONITOR_H
#define STOKE_TOOLS_MONITOR_H

#include <stoke/tools/probe.h>

/* What the whole machine does, from the kernel's counters since the reading before; also inside a container,
 * whose kernel counts for all. */
typedef struct stoke_load {
    stoke_figure cpu_percent;               /* of all processors */
    stoke_figure memory_total, memory_used; /* bytes; used = total less what is available */
    stoke_figure disk_busy_percent;         /* time with requests under way, of the busiest disk */
    stoke_figure disk_read, disk_write;     /* bytes per second, of all disks */
    char disk[32];                          /* the busiest; "" = n/a */
} stoke_load;

typedef struct stoke_monitor stoke_monitor;
typedef struct stoke_monitor_params {
    uint32_t struct_size;
    uint32_t history; /* readings kept for stoke_monitor_history */
    const char *nvml; /* as in stoke_gpus_params */
    const char *root; /* as in stoke_gpus_params */
    int slow;         /* 1: also what blocks, in a separate thread, renewed every second */
} stoke_monitor_params;
STOKE_API stoke_monitor_params stoke_monitor_defaults(void);

/* Opens the cards and looks once at the counters, from which the first reading is the difference. No card is
 * no failure: stoke_monitor_why says why. */
STOKE_API int stoke_monitor_open(stoke_monitor **out, const stoke_monitor_params *params, stoke_error *err);
STOKE_API void stoke_monitor_close(stoke_monitor **monitor);
STOKE_API size_t stoke_monitor_gpus(const stoke_monitor *monitor);
STOKE_API const char *stoke_monitor_why(const stoke_monitor *monitor);

/* One reading of everything, now. Ten in a second are plenty: drivers renew their figures less often. From
 * one thread. */
STOKE_API void stoke_monitor_read(stoke_monitor *monitor);
/* Of the newest reading; they stay where they are, and change with the next. */
STOKE_API const stoke_load *stoke_monitor_load(const stoke_monitor *monitor);
STOKE_API const stoke_gpu *stoke_monitor_gpu(const stoke_monitor *monitor, size_t index);

typedef enum stoke_monitor_series {
    STOKE_SERIES_CPU,    /* percent */
    STOKE_SERIES_MEMORY, /* percent of the total */
    STOKE_SERIES_DISK,   /* percent busy */
    STOKE_SERIES_GPU,    /* percent busy; this and the next are of card `gpu` */
    STOKE_SERIES_GPU_MEMORY
} stoke_monitor_series;
/* The mean of `count` readings, the newest of which lies `back` readings before the newest of all. n/a when
 * none of them is kept or known. */
STOKE_API stoke_figure stoke_monitor_history(const stoke_monitor *monitor, stoke_monitor_series series,
                                             size_t gpu, size_t back, size_t count);

/* ---- summary ---- */

typedef struct stoke_spread {
    stoke_figure mean, p5, p95, peak; /* percentiles of percentages only, to a tenth of a percent */
    uint64_t readings;                /* in which it was known */
} stoke_spread;

enum { STOKE_CLOCKS_REASONS = 8, STOKE_MONITOR_PROCESSES = 64 };
/* Of bit 1 << index of STOKE_CLOCKS_*: "idle", "power limit", ... */
STOKE_API const char *stoke_clocks_reason_name(unsigned index);

typedef struct stoke_process_peak {
    uint32_t pid;
    char name[64];
    stoke_figure memory_bytes, busy_percent; /* the most that was seen */
    int own;
} stoke_process_peak;

typedef struct stoke_gpu_summary {
    char name[96], pci[32], problem[256];
    int lost;
    stoke_spread busy_percent, effective_percent, memory_used, power_watt, temperature;
    stoke_spread clock_sm_mhz, clock_memory_mhz;
    stoke_figure memory_total;
    stoke_figure energy_joule; /* the card's counter, or power x time, which is estimated */
    stoke_figure reason_share[STOKE_CLOCKS_REASONS]; /* of the readings, 0 to 1 */
    stoke_figure idle_share;                         /* of the readings that were below 10 % busy */
    stoke_figure idle_bursts;                        /* runs of such readings */
    stoke_figure longest_idle;                       /* seconds of the longest of them */
    stoke_process_peak process[STOKE_MONITOR_PROCESSES];
    uint32_t n_processes, more_processes;
    stoke_spread pcie_to_device, pcie_from_device; /* bytes per second */
} stoke_gpu_summary;

typedef struct stoke_monitor_summary {
    double seconds; /* from opening to the last reading */
    uint64_t readings;
    stoke_spread cpu_percent, memory_used, disk_busy_percent, disk_read, disk_write;
    stoke_figure memory_total;
} stoke_monitor_summary;
STOKE_API void stoke_monitor_summarise(const stoke_monitor *monitor, stoke_monitor_summary *summary);
STOKE_API void stoke_monitor_summarise_gpu(const stoke_monitor *monitor, size_t index,
                                           stoke_gpu_summary *summary);

/* What the summary means, and the command to run next. `gpu` is the least busy card that had work, or NULL
 * for none. */
typedef struct stoke_monitor_verdict {
    char text[512], next[512];
} stoke_monitor_verdict;
STOKE_API void stoke_monitor_judge(const stoke_monitor_summary *machine, const stoke_gpu_summary *gpu,
                                   stoke_monitor_verdict *verdict);

#endif
