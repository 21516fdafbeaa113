/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs that hold a DRM device open, as /proc/PID/fdinfo tells of them: how long their work ran on each
 * engine, and how much memory it takes. Only this user's programs can be seen (all of them by root).
 */
#ifndef STOKE_SRC_TUNE_MACHINE_DRM_CLIENTS_H
#define STOKE_SRC_TUNE_MACHINE_DRM_CLIENTS_H

#include <stddef.h>
#include <stdint.h>

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
