/* SPDX-License-Identifier: Apache-2.0
 *
 * Batches that are on a device already, augmented there: for training loops that load and copy by themselves.
 * The same pixels, settings, epoch and position give the bytes of stoke_rows on the host (where
 * stoke_device_info.exact_math is set).
 *
 *   stoke_device_rows_create(&rows, device, &params, 16, 512, 512, &err);
 *   stoke_device_rows_run(rows, epoch, position, &source, &target, stream, &err);   // later work of the
 * stream sees it
 */
#ifndef STOKE_TOOLS_DEVICE_ROWS_H
#define STOKE_TOOLS_DEVICE_ROWS_H

#include <stoke/device.h>
#include <stoke/loader.h>

typedef struct stoke_device_rows stoke_device_rows;

/* A dense batch. Addresses are those of the device: CUdeviceptr, cl_mem (whose first byte is the batch's), or
 * pointers where the device is the host. */
typedef struct stoke_device_source {
    uint64_t images, masks;   /* masks 0: none, all ids are 0 */
    stoke_dtype image_dtype;  /* u8, u16, or f32 in 0..1 */
    stoke_dtype mask_dtype;   /* u8, u16, i32, i64 */
    stoke_layout layout;      /* of images */
    uint32_t channels, count; /* 1 or 3 */
} stoke_device_source;

/* Where the result goes: of the sizes and types that the settings say, never the memory of the source.
 * masks_b and lambda (host memory, `count` of them) only where the pipeline has mixup, else 0 and NULL. */
typedef struct stoke_device_target {
    uint64_t images, masks, masks_b;
    float *lambda;
} stoke_device_target;

/* For batches of up to `capacity` pictures of one size. params as in stoke_rows_create, size must be given.
 * The device outlives the rows. STOKE_E_UNSUPPORTED: the pipeline resizes or must look at masks before it
 * draws (foreground_crop), or a window is asked for; the host can do it. */
STOKE_API int stoke_device_rows_create(stoke_device_rows **out, stoke_device *device,
                                       const stoke_data_params *params, uint32_t capacity, uint32_t width,
                                       uint32_t height, stoke_error *err);
/* Waits for what is under way. */
STOKE_API void stoke_device_rows_destroy(stoke_device_rows **rows);
/* An empty batch with sizes and types of what comes out, for `count` rows. */
STOKE_API stoke_batch stoke_device_rows_shape(const stoke_device_rows *rows, uint32_t count);
/* Whether a result has second masks. */
STOKE_API int stoke_device_rows_two_masks(const stoke_device_rows *rows);

/* On a stream of the caller's (CUstream; cuda only), which is not waited for: source and target stay until it
 * has passed. has_stream 0: the host waits for the result. One thread at a time. A value of a mask that is no
 * class becomes ignore_index: nobody waits to look. */
STOKE_API int stoke_device_rows_run(stoke_device_rows *rows, uint64_t epoch, uint64_t position,
                                    const stoke_device_source *source, const stoke_device_target *target,
                                    int has_stream, void *stream, stoke_error *err);

#endif
