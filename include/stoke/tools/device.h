/* SPDX-License-Identifier: Apache-2.0
 *
 * What our own programs use beyond <stoke/device.h>. No promise: it may change with any version.
 */
#ifndef STOKE_TOOLS_DEVICE_H
#define STOKE_TOOLS_DEVICE_H

#include <stoke/device.h>

/* stoke_device_list_create for one kind ("opencl"), without waking the drivers of others; STOKE_E_NOTFOUND:
 * no such kind. */
STOKE_API int stoke_device_list_create_kind(stoke_device_list **out, const char *kind, stoke_error *err);

/* Why pinned memory was refused: fills in the reason and returns its code, STOKE_OK: it was not. */
STOKE_API int stoke_device_pinned_failed(stoke_device *device, stoke_error *err);

/* ---- simulated GPUs ---- */

typedef struct stoke_card {
    const char *name;  /* "rtx3090" */
    const char *title; /* "NVIDIA GeForce RTX 3090" */
    double memory_gb, memory_gb_s, pinned_gb_s, pageable_gb_s, launch_us;
} stoke_card;
/* By what people or a driver call the card, "NVIDIA GeForce RTX 3090". Returns 0: it is not simulated. */
STOKE_API int stoke_card_named(const char *name, stoke_card *card);

/* What "sim:NAME" names, "" for "sim" alone; NULL: not a simulated GPU. */
STOKE_API const char *stoke_device_simulated(const char *device);

/* ---- memory of a device ---- */

typedef struct stoke_device_buffer stoke_device_buffer;
/* STOKE_E_NOMEM: there is no room. The device outlives the buffer. */
STOKE_API int stoke_device_buffer_create(stoke_device_buffer **out, stoke_device *device, size_t bytes,
                                         stoke_error *err);

/* When the work that uses it has passed. */
STOKE_API void stoke_device_buffer_destroy(stoke_device_buffer **buffer);

/* CUdeviceptr, cl_mem, or a pointer where the device is the host. */
STOKE_API uint64_t stoke_device_buffer_address(const stoke_device_buffer *buffer);

/* Its first `bytes`, to ordinary memory; the host waits. One thread at a time. */
STOKE_API int stoke_device_buffer_read(stoke_device_buffer *buffer, void *to, size_t bytes, stoke_error *err);

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

#endif
