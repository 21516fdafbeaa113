/* SPDX-License-Identifier: Apache-2.0
 *
 * What the machine has, each figure with its source. A figure that cannot be had is n/a, never 0.
 */
#ifndef STOKE_TOOLS_PROBE_H
#define STOKE_TOOLS_PROBE_H

#include <stoke/common.h>

typedef enum stoke_source {
    STOKE_SOURCE_NA = 0, /* not available: the value means nothing */
    STOKE_SOURCE_NVML,
    STOKE_SOURCE_SYSFS,
    STOKE_SOURCE_PROC,
    STOKE_SOURCE_FDINFO, /* /proc/PID/fdinfo of DRM clients: only what this user may see */
    STOKE_SOURCE_DRIVER, /* CUDA or OpenCL */
    STOKE_SOURCE_MEASURED,
    STOKE_SOURCE_TABLE,
    STOKE_SOURCE_ESTIMATED,
    STOKE_SOURCE_EMULATED,
    STOKE_SOURCE_GIVEN /* by the user, and what follows from it alone */
} stoke_source;
/* "nvml", "sysfs", ..., "n/a". */
STOKE_API const char *stoke_source_name(int source);

typedef struct stoke_figure {
    double value;
    int source; /* stoke_source */
} stoke_figure;

/* ---- processor, memory, disk ---- */

typedef struct stoke_machine_facts {
    char cpu[128], kernel[128], system[128]; /* "" = n/a */
    stoke_figure sockets, cores, threads;    /* physical; threads = those of all cores */
    stoke_figure affinity, quota, usable;    /* see machine.h */
    stoke_figure numa_nodes;
    stoke_figure effective_cores; /* measured: CPU time that `usable` spinning threads got in 200 ms */
    stoke_figure memory_bytes, available_bytes, limit_bytes; /* limit: of the control group */
    stoke_figure shm_bytes; /* free in /dev/shm; 64 MB is a container's default */
    char cpu_table[16];     /* pixel functions in use */
} stoke_machine_facts;
/* measure: 1 = effective_cores too, which takes 200 ms of all cores. root: "" or NULL = "/", tests give a
 * recorded tree. */
STOKE_API int stoke_machine_probe(stoke_machine_facts *facts, int measure, const char *root,
                                  stoke_error *err);

/* Whether the machine was quiet while something was measured. */
typedef struct stoke_quiet {
    uint64_t began_ns, process_ns, thread_ns, busy, all; /* of the clock, this process, all processors */
} stoke_quiet;
STOKE_API stoke_quiet stoke_quiet_begin(void);
/* Cores that other programs left to this process since then, of those it may use. Returns 1 when that is so
 * little that times tell more of the others than of what was measured. */
STOKE_API int stoke_quiet_end(const stoke_quiet *since, double *had, double *usable);

typedef struct stoke_disk_facts {
    char mount[256], device[128], filesystem[32];
    stoke_figure rotational; /* 0 or 1 */
    stoke_figure network;    /* 0 or 1, by the file system's type */
    stoke_figure free_bytes;
    stoke_figure
        read_bytes_per_s;      /* of files of the set that were not in the page cache; n/a when all were */
    stoke_figure cached_share; /* of the bytes looked at, in the page cache (mincore) */
    uint64_t files_read;
} stoke_disk_facts;
/* Of the place where `files` lie; reads up to `budget_bytes` of them for the speed (0 = reads nothing). */
STOKE_API int stoke_disk_probe(stoke_disk_facts *facts, const char *const *files, size_t n_files,
                               uint64_t budget_bytes, stoke_error *err);

/* ---- graphics processors ---- */

typedef struct stoke_gpu_process {
    uint32_t pid;
    char name[64]; /* "" = in another container */
    stoke_figure memory_bytes, busy_percent;
    int own; /* this process, or a child of it */
} stoke_gpu_process;

enum { STOKE_GPU_PROCESSES = 32 };

/* Bits of NVML's reasons for lower clocks. */
enum {
    STOKE_CLOCKS_IDLE = 1,
    STOKE_CLOCKS_APPLICATION = 2,
    STOKE_CLOCKS_POWER_CAP = 4,
    STOKE_CLOCKS_HW_SLOWDOWN = 8,
    STOKE_CLOCKS_SYNC_BOOST = 0x10,
    STOKE_CLOCKS_SW_THERMAL = 0x20,
    STOKE_CLOCKS_HW_THERMAL = 0x40,
    STOKE_CLOCKS_POWER_BRAKE = 0x80
};

typedef struct stoke_gpu {
    char name[96], uuid[96], pci[32], driver[64];
    char vendor[16];           /* "nvidia", "amd", "intel" */
    char problem[256];         /* "" = fine; else what cannot be seen, or that the card is gone */
    int lost;                  /* 1: it fell off the bus; figures are n/a from now on */
    int mig;                   /* 1: cut into instances, whose use NVML does not tell */
    stoke_figure busy_percent; /* any kernel running, over the driver's sample period */
    stoke_figure memory_busy_percent;
    stoke_figure effective_percent;                      /* busy x power / limit: a proxy, marked estimated */
    stoke_figure memory_total, memory_used, memory_free; /* bytes */
    stoke_figure temperature, power_watt, power_limit_watt, energy_joule;
    stoke_figure clock_sm_mhz, clock_sm_max_mhz, clock_memory_mhz;
    stoke_figure pcie_generation, pcie_width, pcie_generation_max, pcie_width_max;
    stoke_figure pcie_to_device, pcie_from_device; /* bytes per second */
    stoke_figure clocks_reasons;                   /* the bits above, as a number */
    stoke_figure compute_capability;               /* 8.6 */
    stoke_figure numa_node;
    stoke_gpu_process process[STOKE_GPU_PROCESSES];
    uint32_t n_processes, more_processes;
} stoke_gpu;

typedef struct stoke_gpus stoke_gpus;
typedef struct stoke_gpus_params {
    uint32_t struct_size;
    const char *nvml; /* library to open; NULL = the usual names ($STOKE_LIBNVML for tests) */
    const char *root; /* "" or NULL = "/"; tests give a recorded tree of sys and proc */
    int slow;         /* 1: also what blocks (PCIe throughput, 20 ms) */
} stoke_gpus_params;
STOKE_API stoke_gpus_params stoke_gpus_defaults(void);
/* Never fails for want of a card or driver: then there are none, and stoke_gpus_why says why. */
STOKE_API int stoke_gpus_open(stoke_gpus **out, const stoke_gpus_params *params, stoke_error *err);
STOKE_API void stoke_gpus_close(stoke_gpus **gpus);
STOKE_API size_t stoke_gpus_count(const stoke_gpus *gpus);
/* Why there are none, or fewer than expected: "libnvidia-ml.so.1 cannot be opened; ...". "" = nothing to say.
 */
STOKE_API const char *stoke_gpus_why(const stoke_gpus *gpus);
/* The first card that tells its memory. *found 0: there is none, and `why` says why. Fails as stoke_gpus_open
 * does. */
STOKE_API int stoke_gpu_find(stoke_gpu *gpu, int *found, char *why, size_t size, stoke_error *err);
/* A fresh reading; may be called again and again, from one thread. Figures that could not be read are n/a. */
STOKE_API void stoke_gpus_read(stoke_gpus *gpus, size_t index, stoke_gpu *gpu);

#endif
