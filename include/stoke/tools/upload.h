/* SPDX-License-Identifier: Apache-2.0
 *
 * What our own programs use beyond <stoke/upload.h>. No promise: it may change with any version.
 */
#ifndef STOKE_TOOLS_UPLOAD_H
#define STOKE_TOOLS_UPLOAD_H

#include <stoke/tools/options.h>
#include <stoke/tools/record.h>
#include <stoke/tools/trace.h>
#include <stoke/upload.h>

/* placement, transfer, depth: the table for flags and settings files. */
STOKE_API stoke_option_group stoke_upload_options(stoke_upload_params *params);

/* What such an upload would hold, without making it; of placement auto, the way that holds more on the host.
 * STOKE_E_LIMIT: memory_limit is too low, and out->host has the shares of the least that would do. */
STOKE_API int stoke_upload_estimate(stoke_upload_memory *out, const stoke_dataset *dataset,
                                    const stoke_data_params *data, stoke_device *device,
                                    const stoke_upload_params *params, stoke_error *err);

/* The share of the device: "slots 3 x 176.2 MB + kernels 202.7 MB = 731.2 MB". Returns the length
 * snprintf-style.
 */
STOKE_API int stoke_upload_memory_text(const stoke_upload_memory *memory, char *text, size_t size);

/* Batches on the device, or on their way there, that next() would give at once. Any thread. */
STOKE_API uint32_t stoke_upload_ready(stoke_upload *upload);

/* Ends threads and frees everything but the batches that are held: those stay as they are, and go when they
 * are released, which then waits for the work that uses them. By the thread that calls next(); afterwards
 * only the calls of this paragraph, release, memory_plan, error and destroy may be made. */
STOKE_API void stoke_upload_stop(stoke_upload *upload);

/* The host waits for everything on the consumer's stream: what loss.item() does. */
STOKE_API int stoke_upload_finish(stoke_upload *upload, stoke_error *err);

/* From here on stoke_upload_stats are counted. */
STOKE_API void stoke_upload_mark(stoke_upload *upload);

STOKE_API int stoke_upload_measure(stoke_upload *upload, stoke_upload_stats *stats, stoke_error *err);

/* Workers, copies, kernels, steps and waits from now on into a trace; NULL = no more. The trace outlives the
 * upload. */
STOKE_API void stoke_upload_trace(stoke_upload *upload, stoke_trace *trace);

/* The placement in force (never auto) and the reason, for people. */
STOKE_API int stoke_upload_placement(const stoke_upload *upload, const char **why);

#endif
