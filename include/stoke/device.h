/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices: where batches go and networks run.
 *
 *   host            always there; streams are threads, kernels are C
 *   opencl[:N]      any OpenCL 1.2 device, through the ICD loader
 *   cuda[:N]        NVIDIA, through the driver
 *   sim[:GPU]      a simulated GPU (stoke_card_named): real data path, emulated device
 *
 * Drivers are opened at run time; a machine without them says so and goes on.
 */
#ifndef STOKE_DEVICE_H
#define STOKE_DEVICE_H

#include <stoke/common.h>

typedef struct stoke_device stoke_device;

enum { STOKE_DEVICE_TEXT = 128 };

typedef struct stoke_device_info {
    char name[32];                  /* what stoke_device_open takes: "opencl:0" */
    char title[STOKE_DEVICE_TEXT];  /* "NVIDIA GeForce RTX 3090" */
    char driver[STOKE_DEVICE_TEXT]; /* version of driver and platform */
    char problem[512];              /* "" = can be used; else why not, and what to do */
    uint64_t memory_bytes;          /* 0 = n/a */
    uint32_t compute_units;         /* 0 = n/a */
    uint8_t emulated;               /* 1: times are a model's, not measured */
    uint8_t exact_math;             /* 1: quotients and roots are correctly rounded: bytes equal the host's */
    uint8_t shares_memory;          /* 1: device memory is host memory: host, and sim with contents */
    uint8_t shares_cores;           /* 1: it computes on the host's own cores: host, OpenCL on a CPU */
} stoke_device_info;

/* Devices found, and kinds that are not there with the reason in `problem` (name without a number then).
 * Ordered host, cuda, opencl, sim. */
typedef struct stoke_device_list stoke_device_list;
STOKE_API int stoke_device_list_create(stoke_device_list **out, stoke_error *err);
STOKE_API void stoke_device_list_destroy(stoke_device_list **list);
/* Returns 0 past the last one. */
STOKE_API int stoke_device_list_at(const stoke_device_list *list, size_t index, stoke_device_info *info);

/* Settings of opening; the defaults are right nearly always. */
typedef struct stoke_device_params {
    uint32_t struct_size;
    const char *cache; /* folder of compiled programs; NULL = $XDG_CACHE_HOME/stokehold or ~/.cache/stokehold,
                          "" = none */
    uint64_t memory_limit; /* device memory this process may take; 0 = what there is */
    /* sim only: what the card is modelled on; 0 = the preset's */
    double pageable_gb_s, pinned_gb_s, memory_gb_s;
    double launch_us; /* of one kernel */
    int contents;     /* 1: kernels and copies really happen too (selftest, hash); 0: only their times */
} stoke_device_params;
STOKE_API stoke_device_params stoke_device_defaults(void);

/* name NULL or "auto": the first usable of cuda, opencl that does not share the host's cores, else host.
 * STOKE_E_NOTFOUND: the message lists what is there. STOKE_E_DEVICE: the driver failed. params NULL =
 * defaults. */
STOKE_API int stoke_device_open(stoke_device **out, const char *name, const stoke_device_params *params,
                                stoke_error *err);
/* Ends with the device idle; uploads must be destroyed before. */
STOKE_API void stoke_device_close(stoke_device **device);
STOKE_API const stoke_device_info *stoke_device_describe(const stoke_device *device);
/* Bytes free and in all, as the device says; 0 = n/a. */
STOKE_API int stoke_device_memory(stoke_device *device, uint64_t *free_bytes, uint64_t *total_bytes,
                                  stoke_error *err);

/* Pinned memory of a device as a loader's allocator (stoke_loader_create, stoke_rows_create): copies
 * from it need not wait. `device` outlives what was allocated. Any thread. An allocator can only say NULL:
 * stoke_device_pinned_failed (tools) has the reason. */
STOKE_API stoke_allocator stoke_device_pinned(stoke_device *device);

#endif
