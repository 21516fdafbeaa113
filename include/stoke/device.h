/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices: where batches go and networks run.
 *
 *   host            always there; streams are threads, kernels are C
 *   opencl[:N]      any OpenCL 1.2 device, through the ICD loader
 *   cuda[:N]        NVIDIA, through the driver
 *   sim[:GPU]      a simulated GPU (stoke_card_at): real data path, emulated device
 *
 * Drivers are opened at run time; a machine without them says so and goes on.
 */
#ifndef STOKE_DEVICE_H
#define STOKE_DEVICE_H

#include <stoke/options.h>

#ifdef __cplusplus
extern "C" {
#endif

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
/* The same of one kind ("opencl"), without waking the drivers of others; STOKE_E_NOTFOUND: no such kind. */
STOKE_API int stoke_device_list_create_kind(stoke_device_list **out, const char *kind, stoke_error *err);
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
 * the reason is what stoke_device_pinned_failed fills in and returns the code of, STOKE_OK: none did. */
STOKE_API stoke_allocator stoke_device_pinned(stoke_device *device);
STOKE_API int stoke_device_pinned_failed(stoke_device *device, stoke_error *err);

/* ---- memory of a device ---- */

typedef struct stoke_device_buffer stoke_device_buffer;
/* STOKE_E_NOMEM: there is no room. The device outlives the buffer. */
STOKE_API int stoke_device_buffer_create(stoke_device_buffer **out, stoke_device *device, size_t bytes,
                                         stoke_error *err);
/* When the work that uses it has passed. */
STOKE_API void stoke_device_buffer_destroy(stoke_device_buffer **buffer);
/* CUdeviceptr, cl_mem, or a pointer where the device is the host. */
STOKE_API uint64_t stoke_device_buffer_address(const stoke_device_buffer *buffer);
/* Its first `bytes`, from and to ordinary memory; the host waits. One thread at a time. */
STOKE_API int stoke_device_buffer_write(stoke_device_buffer *buffer, const void *from, size_t bytes,
                                        stoke_error *err);
STOKE_API int stoke_device_buffer_read(stoke_device_buffer *buffer, void *to, size_t bytes, stoke_error *err);

/* ---- simulated GPUs ---- */

typedef struct stoke_card {
    const char *name;  /* "rtx3090" */
    const char *title; /* "NVIDIA GeForce RTX 3090" */
    double memory_gb, memory_gb_s, pinned_gb_s, pageable_gb_s, launch_us;
    uint32_t copy_engines;
} stoke_card;
/* Returns 0 past the last one. */
STOKE_API int stoke_card_at(size_t index, stoke_card *card);
/* What "sim:NAME" names, "" for "sim" alone; NULL: not a simulated GPU. */
STOKE_API const char *stoke_device_simulated(const char *device);

/* ---- proof ---- */

typedef struct stoke_selftest_line {
    const char *name;    /* "lay_image: warp, u16, elastic", "copy pinned up" */
    const char *against; /* "host reference" */
    uint64_t compared;   /* elements */
    uint64_t different;
    double largest;   /* difference, in units of the element's type: levels, or the float itself */
    double tolerance; /* 0 = bytes must be equal */
    int passed;
    char problem[768]; /* why it could not run; "" = it ran */
} stoke_selftest_line;
/* Every kernel and every copy path against the host. `line` is called for each as it ends; non-zero asks to
 * stop. Returns STOKE_E_DEVICE when a line did not pass. */
STOKE_API int stoke_device_selftest(stoke_device *device,
                                    int (*line)(void *context, const stoke_selftest_line *line),
                                    void *context, stoke_error *err);

#ifdef __cplusplus
}
#endif
#endif
