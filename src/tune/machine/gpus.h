/* SPDX-License-Identifier: Apache-2.0
 *
 * The two ways to a graphics processor: NVIDIA's library, and the kernel's own files for AMD and Intel.
 */
#ifndef STOKE_SRC_TUNE_MACHINE_GPUS_H
#define STOKE_SRC_TUNE_MACHINE_GPUS_H

#include <stddef.h>
#include <stdint.h>

#include "src/base/remarks.h"
#include <stoke/tools/probe.h>

enum { STK_WHY_BYTES = 512 };

/* A way: opened once, read card by card. `why` gets what there is to say when no card can be read. */
typedef struct stk_gpus_nvml stk_gpus_nvml;
int stk_nvml_open(stk_gpus_nvml **out, const stoke_gpus_params *params, char why[STK_WHY_BYTES],
                  stoke_error *err);
void stk_nvml_close(stk_gpus_nvml **nvml);
size_t stk_nvml_count(const stk_gpus_nvml *nvml);
/* How many cards are on the bus when none could be opened. */
int stk_nvml_expected(const stk_gpus_nvml *nvml);
void stk_nvml_read(stk_gpus_nvml *nvml, size_t index, stoke_gpu *gpu);
void stk_nvml_read_link(stk_gpus_nvml *nvml, size_t index, stoke_gpu *gpu);

typedef struct stk_gpus_drm stk_gpus_drm;
int stk_drm_open(stk_gpus_drm **out, const stoke_gpus_params *params, char why[STK_WHY_BYTES],
                 stoke_error *err);
void stk_drm_close(stk_gpus_drm **drm);
size_t stk_drm_count(const stk_gpus_drm *drm);
void stk_drm_read(stk_gpus_drm *drm, size_t index, stoke_gpu *gpu);
void stk_drm_read_link(const stk_gpus_drm *drm, size_t index, stoke_gpu *gpu);

/* What crosses the link now and nothing else: 40 ms by NVML, a second from the kernel's file for AMD. */
void stk_gpus_read_link(stoke_gpus *gpus, size_t index, stoke_gpu *gpu);

/* The entry of a process, made when there is none and room for it; NULL: there is none, and the caller
 * counts. Name and `own` are filled in from proc. */
stoke_gpu_process *stk_gpu_process(stoke_gpu *gpu, const char *root, uint32_t pid);

/* numa_node and the speed of the link from sysfs, where the card's folder of the PCI bus is known and nothing
 * better told already. */
void stk_gpu_from_pci(stoke_gpu *gpu, const char *folder);

/* busy x power / limit, see the header. */
void stk_gpu_effective(stoke_gpu *gpu);

/* Adds a remark to `problem`, behind "; " when it has one. */
#define STK_GPU_REMARK(gpu, ...) stk_text_add((gpu)->problem, sizeof(gpu)->problem, "; ", __VA_ARGS__)

/* ---- programs that hold a DRM device open (drm_clients.c) ---- */

/* As /proc/PID/fdinfo tells of them: how long their work ran on each engine, and how much memory it takes.
 * Only this user's programs can be seen (all of them by root). */
enum { STK_DRM_CLIENTS = 128, STK_DRM_ENGINES = 8 };

typedef struct stk_drm_engine {
    char name[16];
    uint64_t busy;     /* nanoseconds, or cycles where `total` is not 0 */
    uint64_t total;    /* cycles that went by (xe) */
    uint32_t capacity; /* engines of this name, at least 1 */
} stk_drm_engine;

typedef struct stk_drm_client {
    uint32_t pid;
    uint64_t id; /* several file descriptors may be one client */
    double memory_bytes;
    int has_memory;
    stk_drm_engine engine[STK_DRM_ENGINES];
    uint32_t n_engines;
} stk_drm_client;

typedef struct stk_drm_clients {
    uint64_t time_ns;
    size_t count, more; /* more: beyond what the array holds */
    stk_drm_client client[STK_DRM_CLIENTS];
} stk_drm_clients;

/* Reads one fdinfo text. Returns 0 when it is not of the card at PCI address `pci`. */
int stk_drm_parse(stk_drm_client *client, const char *text, const char *pci);

/* All clients of the card below root/proc. */
void stk_drm_sweep(stk_drm_clients *clients, const char *root, const char *pci);

/* Percent of the time between two sweeps in which an engine was busy with the clients: the busiest of those
 * that draw or compute. `pid` 0 = all clients. Negative: not known. */
double stk_drm_busy(const stk_drm_clients *before, const stk_drm_clients *now, uint32_t pid);

#endif
